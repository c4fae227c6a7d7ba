#ifndef CHARL_TESTS_CHECKPOINT_SAMPLE_H
#define CHARL_TESTS_CHECKPOINT_SAMPLE_H
/** A small checkpoint with every kind of content, all of it a function of the step. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "charl/checkpoint.h"
#include "support/support.h"

/* HDF5 1.10 leaks the image of an object header whose checksum is wrong. charl's own leaks are
 * counted. */
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:libhdf5";
}

enum { SAMPLE_TENSORS = 9, SAMPLE_LARGE = 3000 };

typedef struct sample {
    float weight[6], large[SAMPLE_LARGE], ema[6];
    int64_t count;
    uint16_t half[5], brain[4];
    uint8_t bytes[3];
    int32_t ints[2];
    char resolved[64];
    float mean[3], std[3];
    charl_data_schema schema;
    charl_checkpoint_tensor tensors[SAMPLE_TENSORS];
    charl_checkpoint c;
} sample;

static inline void sample_values(sample *s, int64_t step)
{
    for (int i = 0; i < 6; i++) {
        s->weight[i] = (float)step + (float)i / 8;
        s->ema[i] = -s->weight[i];
    }
    for (int i = 0; i < SAMPLE_LARGE; i++) {
        s->large[i] = sinf((float)(i + step));
    }
    for (int i = 0; i < 5; i++) {
        s->half[i] = (uint16_t)(0x3c00 + 16 * i + step % 16);
    }
    for (int i = 0; i < 4; i++) {
        s->brain[i] = (uint16_t)(0x3f80 + i + step % 16);
    }
    s->count = step;
    memcpy(s->bytes, "abc", 3);
    s->ints[0] = -1;
    s->ints[1] = (int32_t)step;
    snprintf(s->resolved, sizeof s->resolved, "train.steps = %lld\n", (long long)step);
}

/* Texts of literals, which nobody writes to. */
static inline char *sample_text(const char *text)
{
    char *out;

    memcpy(&out, &text, sizeof out);
    return out;
}

static inline void sample_schema(sample *s)
{
    for (int i = 0; i < 3; i++) {
        s->mean[i] = (float)i - 0.3F;
        s->std[i] = (float)(i + 1) / 7;
    }
    s->schema = (charl_data_schema){.kind = CHARL_DATASET_TABLE,
                                    .x_dtype = CHARL_F32,
                                    .x_shape = {1, {3}},
                                    .y_dtype = CHARL_I32,
                                    .classes = 2,
                                    .class_names = sample_text("cat\nd\xc3\xb6g"),
                                    .columns = sample_text("age\nheight, m\n"),
                                    .targets = sample_text("species"),
                                    .recipe = sample_text(""),
                                    .fields = sample_text(""),
                                    .layout = sample_text("rows"),
                                    .fit = sample_text(""),
                                    .n_stats = 3,
                                    .mean = s->mean,
                                    .std = s->std,
                                    .tokenizer_kind = sample_text("")};
}

/** s->c describes the sample of `step`; it points into *s. */
static inline void sample_init(sample *s, int64_t step)
{
    const charl_checkpoint_tensor tensors[SAMPLE_TENSORS] = {
        {"model", "fc1.weight", CHARL_F32, {2, {2, 3}}, s->weight, 0},
        {"model", "conv.weight", CHARL_F32, {4, {10, 3, 10, 10}}, s->large, 0},
        {"model", "bn.num_batches", CHARL_I64, {0, {0}}, &s->count, 0},
        {"model", "empty", CHARL_F32, {2, {0, 3}}, NULL, 0},
        {"optim/exp_avg", "fc1.weight", CHARL_F16, {1, {5}}, s->half, 0},
        {"optim/exp_avg_sq", "fc1.weight", CHARL_BF16, {2, {2, 2}}, s->brain, 0},
        {"optim/exp_avg", "mask", CHARL_U8, {1, {3}}, s->bytes, 0},
        {"ema", "fc1.weight", CHARL_F32, {2, {2, 3}}, s->ema, 0},
        {"model", "ids", CHARL_I32, {1, {2}}, s->ints, 0},
    };

    memset(s, 0, sizeof *s);
    sample_values(s, step);
    memcpy(s->tensors, tensors, sizeof tensors);
    sample_schema(s);
    s->c = (charl_checkpoint){
        .state = {.writer = "charl test",
                  .step = step,
                  .epoch = 1,
                  .samples_in_epoch = 32,
                  .samples_seen = step * 64,
                  .seed = 1234567890123LL,
                  .rng = "philox4x32-10",
                  .lr_step = step,
                  .loss_scale = 1024.0,
                  .slices = 8,
                  .batch_size = 64,
                  .best_metric = (double)NAN,
                  .best_step = 5,
                  .world_size = 4,
                  .device = "pthread-test",
                  .driver = "3.1",
                  .data_path = "data.h5",
                  .data_n_samples = 60000,
                  .data_content_id = "c0ffee",
                  .data_shuffle = "feistel6-v1",
                  .optim_kind = "adam",
                  .optim_t = step,
                  .run_id = "000102030405060708090a0b0c0d0e0f"},
        .config_text = "[train]\nsteps = 10\n",
        .config_resolved = s->resolved,
        .tensors = s->tensors,
        .n_tensors = SAMPLE_TENSORS,
        .schema = &s->schema,
    };
}

/** What a file of format version 1 has of it. */
static inline void sample_init_v1(sample *s, int64_t step)
{
    sample_init(s, step);
    s->c.state.run_id = "";
    s->c.schema = NULL;
}

/** Whether two schemas without tokenizers are the same, or both NULL. */
static inline bool sample_same_schema(const charl_data_schema *a, const charl_data_schema *b)
{
    if (!a || !b) {
        return a == b;
    }
    return a->kind == b->kind && a->x_dtype == b->x_dtype && a->y_dtype == b->y_dtype &&
           charl_shape_equal(&a->x_shape, &b->x_shape) && charl_shape_equal(&a->y_shape, &b->y_shape) &&
           a->classes == b->classes && strcmp(a->class_names, b->class_names) == 0 &&
           strcmp(a->columns, b->columns) == 0 && strcmp(a->targets, b->targets) == 0 &&
           strcmp(a->recipe, b->recipe) == 0 && a->n_target_stats == b->n_target_stats &&
           (a->n_target_stats == 0 ||
            (memcmp(a->target_mean, b->target_mean, (size_t)a->n_target_stats * sizeof(float)) == 0 &&
             memcmp(a->target_std, b->target_std, (size_t)a->n_target_stats * sizeof(float)) == 0)) &&
           strcmp(a->layout, b->layout) == 0 && strcmp(a->fit, b->fit) == 0 &&
           strcmp(a->tokenizer_kind, b->tokenizer_kind) == 0 && a->n_stats == b->n_stats &&
           (a->n_stats == 0 || (memcmp(a->mean, b->mean, (size_t)a->n_stats * sizeof(float)) == 0 &&
                                memcmp(a->std, b->std, (size_t)a->n_stats * sizeof(float)) == 0));
}

/** Read every tensor of `r` and compare it with the sample: whether all bits agree. */
static inline bool sample_matches(const sample *s, charl_checkpoint_reader *r)
{
    static char buffer[SAMPLE_LARGE * 4];

    if (charl_checkpoint_get_info(r).n_tensors != s->c.n_tensors ||
        charl_checkpoint_get_info(r).state->step != s->c.state.step ||
        strcmp(charl_checkpoint_get_info(r).config_resolved, s->resolved) != 0 ||
        strcmp(charl_checkpoint_get_info(r).state->run_id, s->c.state.run_id) != 0 ||
        !sample_same_schema(charl_checkpoint_get_info(r).schema, s->c.schema)) {
        return false;
    }
    for (int64_t i = 0; i < s->c.n_tensors; i++) {
        const charl_checkpoint_tensor *want = &s->tensors[i];
        const charl_checkpoint_tensor *t = charl_checkpoint_find(r, want->group, want->name);
        const size_t bytes = (size_t)charl_shape_count(&want->shape) * charl_dtype_size(want->dtype);

        if (!t || t->dtype != want->dtype || !charl_shape_equal(&t->shape, &want->shape) ||
            charl_checkpoint_read(r, t, buffer) != CHARL_OK || (bytes > 0 && memcmp(buffer, want->data, bytes) != 0)) {
            return false;
        }
    }
    return true;
}

/** Open `path` and compare it with the sample of the step it holds; that step, or -1 when it is
 * refused, or -2 when its contents are wrong. */
static inline int64_t sample_load(const char *path)
{
    static sample s;
    charl_checkpoint_reader *r = NULL;
    int64_t step = -1;

    if (charl_checkpoint_open(path, &r) == CHARL_OK) {
        step = charl_checkpoint_get_info(r).state->step;
        sample_init(&s, step);
        if (!sample_matches(&s, r)) {
            step = charl_checkpoint_verify(path) == CHARL_OK ? -2 : -1;
        }
    }
    charl_checkpoint_close(r);
    return step;
}

#endif
