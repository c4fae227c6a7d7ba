/* Files with weights, of either format. */
#include "weights/weights_source.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "io/checkpoint/checkpoint_read.h"
#include "io/tensors/tensor_file.h"

enum { BLOCK = 1024 };

static const charl__weights_configs *configs;

void charl__weights_set_configs(const charl__weights_configs *c)
{
    configs = c;
}

charl_status charl__weights_resolve(const char *text, char **out)
{
    CHARL_REQUIRE(
        configs, CHARL_ERR_CONFIG,
        "config_text is checked by libcharl-train; HINT link the program with -lcharl-train, or save without it");
    return configs->resolve(text, out);
}

charl_status charl__weights_group(const charl_checkpoint_reader *r, const char *path, charl_ema_choice ema,
                                  const char **out)
{
    const bool there = charl__checkpoint_has_average(r);

    *out = there && ema != CHARL_EMA_NO ? "ema" : "model";
    CHARL_REQUIRE(there || ema != CHARL_EMA_YES, CHARL_ERR_CHECKPOINT,
                  "%s has no moving average of the weights: it was trained with train.ema_decay = 0", path);
    return CHARL_OK;
}

charl_status charl__weights_source_open(const char *path, charl_ema_choice ema, charl__weights_source *s)
{
    *s = (charl__weights_source){.path = path};
    CHARL_TRY(charl__kind_expect(path, CHARL__KIND_WEIGHTS | CHARL__KIND_CHECKPOINT, "weights that charl reads",
                                 CHARL_ERR_CHECKPOINT));
    if (charl__is_tensor_file(path)) {
        CHARL_TRY(charl_tensor_file_open(path, &s->tensors));
    } else {
        CHARL_TRY(charl_checkpoint_open(path, &s->checkpoint));
        if (charl__checkpoint_lacks_base(s->checkpoint)) {
            CHARL_REQUIRE(
                configs, CHARL_ERR_CONFIG,
                "%s holds only the trained weights; libcharl-train finds the others through its configuration; "
                "HINT link the program with -lcharl-train",
                path);
            CHARL_TRY(configs->find_base(s->checkpoint, path, NULL));
        }
        CHARL_TRY(charl__weights_group(s->checkpoint, path, ema, &s->group));
    }
    return CHARL_OK;
}

void charl__weights_source_close(charl__weights_source *s)
{
    charl_checkpoint_close(s->checkpoint);
    charl_tensor_file_close(s->tensors);
    *s = (charl__weights_source){0};
}

int64_t charl__weights_source_count(const charl__weights_source *s)
{
    return s->tensors ? charl_tensor_file_get_count(s->tensors) : charl_checkpoint_get_info(s->checkpoint).n_tensors;
}

const charl_checkpoint_tensor *charl__weights_source_get(const charl__weights_source *s, int64_t i)
{
    const charl_checkpoint_tensor *t, *average;

    if (s->tensors) {
        return charl_tensor_file_get(s->tensors, i);
    }
    t = charl_checkpoint_get_tensor(s->checkpoint, i);
    if (strcmp(t->group, "model") != 0) {
        return NULL;
    }
    average = charl_checkpoint_find(s->checkpoint, s->group, t->name);
    return average ? average : t; /* running statistics have no average */
}

bool charl__weights_is_f64(const charl_checkpoint_tensor *t)
{
    return t->dtype == CHARL_DTYPE_COUNT && strcmp(charl__tensor_file_type(t), "F64") == 0;
}

charl_status charl__weights_source_read(const charl__weights_source *s, const charl_checkpoint_tensor *t, float *dst)
{
    const int64_t n = charl_shape_count(&t->shape);
    const bool f64 = charl__weights_is_f64(t);
    const size_t width = f64 ? sizeof(double) : charl_dtype_size(t->dtype);
    double block[BLOCK];
    CHARL_SCOPED_FREE char *raw = NULL;

    if (t->dtype != CHARL_F32) {
        CHARL_TRY(charl__alloc_array(n + 1, width, &raw));
    }
    CHARL_TRY(f64          ? charl__tensor_file_read_raw(s->tensors, t, raw)
              : s->tensors ? charl_tensor_file_read(s->tensors, t, raw ? (void *)raw : dst)
                           : charl_checkpoint_read(s->checkpoint, t, raw ? (void *)raw : dst));
    for (int64_t i = 0; raw && i < n; i += BLOCK) {
        const int64_t m = n - i < BLOCK ? n - i : BLOCK;

        if (f64) {
            memcpy(block, raw + (size_t)i * width, (size_t)m * width);
        } else {
            charl_dtype_decode(t->dtype, raw + (size_t)i * width, m, block);
        }
        for (int64_t k = 0; k < m; k++) {
            CHARL_REQUIRE(!f64 || !isfinite(block[k]) || fabs(block[k]) <= (double)FLT_MAX, CHARL_ERR_CHECKPOINT,
                          "%s: %s has the value %g, which f32 cannot hold", s->path, t->name, block[k]);
            dst[i + k] = (float)block[k];
        }
    }
    return CHARL_OK;
}
