/* Where two runs diverge: from their checkpoints, then from replays of both, compared line by line (train/checksums.h). */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/options.h"
#include "config/diff.h"
#include "files/run.h"
#include "io/dataset/dataset_read.h"
#include "io/dataset/order/stream.h"
#include "io/kind.h"
#include "task/session.h"
#include "train/replay.h"
#include "train/checksums.h"

enum { LINE = 640, SHOWN_ROWS = 8 };

/* One of the two. */
typedef struct side {
    const char *path;
    bool is_file;
    charl__text checksums;
    charl__run_steps steps; /* of its checkpoints */
    int64_t wrong_step;     /* first checkpoint that its replay contradicts; 0: none */
    char wrong[LINE];       /* the tensor */
    int64_t last_step;      /* of its replay */
    struct bisect *all;
} side;

typedef struct bisect {
    const charl_bisect_options *options;
    charl_bisect_result *out;
    charl__text text;
    side side[2];
} bisect;

static charl_status open_side(bisect *b, side *s, const char *path)
{
    struct stat info;

    const charl__kind *kind = charl__kind_of(path);

    *s = (side){.path = path, .all = b};
    CHARL_REQUIRE(stat(path, &info) == 0, CHARL_ERR_CHECKPOINT, "%s: there is no such run or file", path);
    if (S_ISDIR(info.st_mode)) {
        return charl__run_list(path, &s->steps);
    }
    s->is_file = charl__checksums_is(path) || !kind || !(kind->as & CHARL__KIND_CONFIG);
    return s->is_file ? charl__checksums_read(path, &s->checksums) : CHARL_OK;
}

static charl_status open_at(const side *s, int64_t step, charl_checkpoint_reader **out)
{
    CHARL_SCOPED_FREE char *path = NULL;

    CHARL_TRY(charl__run_path(s->path, step, &path));
    CHARL_TRY(charl_checkpoint_open(path, out));
    return CHARL_OK;
}

/* Whether both runs have the same tensors at `step`, by their checksums. */
static charl_status is_equal_at(const bisect *b, int64_t step, bool *equal)
{
    charl_status st = CHARL_OK;
    charl_checkpoint_reader *r[2] = {NULL, NULL};

    CHARL_TRY_CLEANUP(open_at(&b->side[0], step, &r[0]));
    CHARL_TRY_CLEANUP(open_at(&b->side[1], step, &r[1]));
    *equal = charl_checkpoint_get_info(r[0]).n_tensors == charl_checkpoint_get_info(r[1]).n_tensors;
    for (int64_t i = 0; i < charl_checkpoint_get_info(r[0]).n_tensors && *equal; i++) {
        const charl_checkpoint_tensor *x = charl_checkpoint_get_tensor(r[0], i);
        const charl_checkpoint_tensor *y = charl_checkpoint_find(r[1], x->group, x->name);

        *equal = y && charl_shape_equal(&x->shape, &y->shape) && x->crc32c == y->crc32c;
    }
cleanup:
    charl_checkpoint_close(r[0]);
    charl_checkpoint_close(r[1]);
    return st;
}

/* The steps between which the runs part. */
typedef struct interval {
    int64_t equal, end; /* checkpoints: the last that is the same, 0: none; up to where to replay */
    bool parted;        /* that of `end` differs */
} interval;

static charl_status find_span(const bisect *b, interval *out)
{
    const charl__run_steps *x = &b->side[0].steps, *y = &b->side[1].steps;
    const int64_t last_x = x->count > 0 ? x->steps[x->count - 1] : 0,
                  last_y = y->count > 0 ? y->steps[y->count - 1] : 0;

    *out = (interval){0};
    for (int64_t i = 0, j = 0; i < x->count && j < y->count && !out->parted;) {
        if (x->steps[i] != y->steps[j]) {
            if (x->steps[i] < y->steps[j]) {
                i++;
            } else {
                j++;
            }
            continue;
        }
        if (x->steps[i] > 0) {
            bool equal;

            CHARL_TRY(is_equal_at(b, x->steps[i], &equal));
            out->parted = !equal;
            out->end = x->steps[i];
            out->equal = equal ? x->steps[i] : out->equal;
        }
        i++;
        j++;
    }
    if (out->end == 0) {
        out->end = last_x < last_y ? last_x : last_y;
    }
    if (b->options->until > 0) {
        out->parted = false;
        out->end = b->options->until;
        out->equal = out->equal < out->end ? out->equal : 0;
    }
    CHARL_REQUIRE(out->end > 0, CHARL_ERR_CHECKPOINT,
                  "%s and %s have no checkpoint of a step to compare; HINT --until N compares the first N steps",
                  b->side[0].path, b->side[1].path);
    return CHARL_OK;
}

static charl_status on_start(void *ctx, const charl_replay_start *start)
{
    side *s = ctx;

    return charl__checksums_start(&s->checksums, start);
}

static charl_status on_row(void *ctx, const charl_replay_row *row)
{
    side *s = ctx;

    s->last_step = row->step;
    if (row->recorded == CHARL_REPLAY_DIFFERS && s->wrong_step == 0) {
        s->wrong_step = row->step;
        snprintf(s->wrong, sizeof s->wrong, "%s", row->differs);
    }
    return charl__checksums_row(&s->checksums, row);
}

static void on_warning(void *ctx, const char *text)
{
    const side *s = ctx;
    const charl_bisect_options *o = s->all->options;
    char line[2400];

    if (o->warned) {
        snprintf(line, sizeof line, "%s: %s", s->path, text);
        o->warned(o->ctx, line);
    }
}

/* Both from the same checkpoint, so that their checksums begin alike. */
static charl_status replay_side(const bisect *b, side *s, const interval *span)
{
    const charl_replay_options o = {sizeof o,
                                    .step = span->equal + 1,
                                    .until = span->end,
                                    .grads = true,
                                    .samples = true,
                                    .ranks = b->options->ranks,
                                    .from_start = span->equal == 0,
                                    .device = b->options->device[s - b->side],
                                    .overrides = b->options->overrides,
                                    .n_overrides = b->options->n_overrides,
                                    .ctx = s,
                                    .started = on_start,
                                    .replayed = on_row,
                                    .warned = on_warning,
                                    .compiling = b->options->compiling};
    const charl_status st = charl_replay(s->path, &o);

    if (st == CHARL_ERR_NONFINITE) { /* the run ended there, and so do its checksums */
        return CHARL_OK;
    }
    return st;
}

static charl_status compare_checksums(bisect *b)
{
    const charl__checksums_side sides[2] = {{b->side[0].path, charl__text_string(&b->side[0].checksums)},
                                            {b->side[1].path, charl__text_string(&b->side[1].checksums)}};

    return charl__checksums_compare(sides, b->out, &b->text);
}

/* The contents of the rows of the step where the samples' losses differ. */
typedef struct contents {
    charl_config *config;
    charl__session session;
    int64_t *places;
    void *x, *y;
    size_t x_bytes, y_bytes; /* of one */
} contents;

static charl_status open_contents(const side *s, int64_t step, contents *c)
{
    charl__stream stream;
    const charl_bisect_options *o = s->all->options;
    const charl_dataset_info *d = &c->session.data;
    int64_t n;

    CHARL_TRY(charl__replay_config(s->path, step, o->overrides, o->n_overrides, &c->config));
    c->session.config = c->config;
    CHARL_TRY(charl__replay_open_data(&c->session));
    n = c->config->train.batch_size;
    c->x_bytes = (size_t)charl_shape_count(&d->x_shape) * charl_dtype_size(d->x_dtype);
    c->y_bytes = (size_t)charl_shape_count(&d->y_shape) * charl_dtype_size(d->y_dtype);
    CHARL_TRY(charl__alloc_array(n, sizeof *c->places, &c->places));
    CHARL_TRY(charl__alloc_array(n, c->x_bytes, &c->x));
    CHARL_TRY(charl__alloc_array(n, c->y_bytes, &c->y));
    charl__stream_init(&stream, c->session.ds, CHARL_SPLIT_TRAIN, c->config->data.shuffle,
                       (uint64_t)c->config->run.seed);
    charl__stream_places(&stream, (step - 1) * n, n, c->places);
    return d->kind == CHARL_DATASET_TOKENS
               ? charl__dataset_read_at(c->session.ds, CHARL_SPLIT_TRAIN, c->places, n, c->x, c->y)
               : charl_dataset_read(c->session.ds, CHARL_SPLIT_TRAIN, c->places, n, c->x, c->y);
}

static void close_contents(contents *c)
{
    charl_free(c->places);
    charl_free(c->x);
    charl_free(c->y);
    charl__session_fini(&c->session);
    charl_config_destroy(c->config);
}

static charl_status compare_contents(bisect *b)
{
    charl_status st = CHARL_OK;
    contents c[2] = {{0}, {0}};
    charl_step_rows *rows = NULL;
    int64_t differing = 0;

    for (int k = 0; k < 2; k++) {
        CHARL_TRY_CLEANUP(open_contents(&b->side[k], b->out->step, &c[k]));
    }
    if (c[0].x_bytes != c[1].x_bytes || c[0].y_bytes != c[1].y_bytes) {
        CHARL_TRY_CLEANUP(charl__text_printf(&b->text, "the samples of the two runs have different shapes or types\n"));
        goto cleanup;
    }
    CHARL_TRY_CLEANUP(charl_step_rows_create(c[0].config, b->out->step, &rows));
    for (int64_t i = 0; i < rows->n; i++) {
        const bool x = memcmp((char *)c[0].x + (size_t)i * c[0].x_bytes, (char *)c[1].x + (size_t)i * c[0].x_bytes,
                              c[0].x_bytes) != 0;
        const bool y = memcmp((char *)c[0].y + (size_t)i * c[0].y_bytes, (char *)c[1].y + (size_t)i * c[0].y_bytes,
                              c[0].y_bytes) != 0;

        differing += x || y;
        if ((x || y) && differing <= SHOWN_ROWS) {
            CHARL_TRY_CLEANUP(charl__text_printf(
                &b->text, "the data differ: index %" PRId64 " of the batch, %s %" PRId64 " of %s, its %s\n", i,
                rows->window > 0 ? "the window from token" : "row", rows->sample[i].row,
                rows->n_sets > 0 ? c[0].config->data.mix.path[rows->sample[i].set] : c[0].session.data.path,
                x && y ? "input and target"
                : x    ? "input"
                       : "target"));
        }
    }
    if (differing > SHOWN_ROWS) {
        CHARL_TRY_CLEANUP(
            charl__text_printf(&b->text, "and %" PRId64 " more rows of the step\n", differing - SHOWN_ROWS));
    } else if (differing == 0) {
        CHARL_TRY_CLEANUP(charl__text_printf(&b->text, "the data of these rows are the same\n"));
    }
cleanup:
    charl_step_rows_destroy(rows);
    close_contents(&c[0]);
    close_contents(&c[1]);
    return st;
}

/* Settings that may be the reason. */
static charl_status compare_settings(bisect *b)
{
    charl_status st = CHARL_OK;
    charl_config *config[2] = {NULL, NULL};
    char *text = NULL, *changes = NULL;
    unsigned found;

    for (int k = 0; k < 2; k++) {
        CHARL_TRY_CLEANUP(charl__replay_config(b->side[k].path, b->out->step, NULL, 0, &config[k]));
    }
    CHARL_TRY_CLEANUP(charl_config_print(config[0], false, &text));
    CHARL_TRY_CLEANUP(charl__config_diff(config[1], text, CHARL__CHANGE_RESULT, &found, &changes));
    if (changes[0]) {
        CHARL_TRY_CLEANUP(charl__text_printf(&b->text, "settings of the second run that differ from the first:\n%s%s",
                                             changes, changes[strlen(changes) - 1] == '\n' ? "" : "\n"));
    }
cleanup:
    charl_free(text);
    charl_free(changes);
    charl_config_destroy(config[0]);
    charl_config_destroy(config[1]);
    return st;
}

/* The replays agree, or part later than one of the runs has left its own replay. */
static charl_status tell_record(bisect *b, int run)
{
    const side *s = &b->side[run];
    charl_bisect_result *out = b->out;

    out->what = CHARL_BISECT_RECORD;
    out->run = run;
    out->step = s->wrong_step;
    snprintf(out->name, sizeof out->name, "%s", s->wrong);
    charl__text_clear(&b->text);
    return charl__text_printf(
        &b->text,
        "%s is not what its replay computes: its checkpoint of step %" PRId64
        " differs from the replay, first in %s, and "
        "the one before it does not.\nThe run was computed otherwise than now: by another device, driver or version of "
        "charl, with other data, or with a fault. Checksums (charl replay --checksums), written where either was "
        "computed, find the step.\n",
        s->path, s->wrong_step, s->wrong);
}

/* Replay what is no file of checksums, and compare. */
static charl_status compare_replays(bisect *b, const interval *span)
{
    for (int k = 0; k < 2; k++) {
        CHARL_TRY(b->side[k].is_file ? CHARL_OK : replay_side(b, &b->side[k], span));
    }
    CHARL_TRY(compare_checksums(b));
    for (int k = 0; k < 2; k++) {
        const int64_t wrong = b->side[k].wrong_step;

        if (wrong > 0 && (b->out->what == CHARL_BISECT_NOTHING || wrong < b->out->step)) {
            return tell_record(b, k);
        }
    }
    if (b->out->what == CHARL_BISECT_NOTHING) {
        return charl__text_printf(&b->text, "no difference up to step %" PRId64 "\n", b->out->step);
    }
    if (b->side[0].is_file || b->side[1].is_file) {
        return CHARL_OK;
    }
    if (b->out->what == CHARL_BISECT_SAMPLES) {
        CHARL_TRY(compare_contents(b));
    }
    return compare_settings(b);
}

static charl_status run(bisect *b, const char *x, const char *y)
{
    interval span = {0};

    CHARL_TRY(open_side(b, &b->side[0], x));
    CHARL_REQUIRE(!b->options->recorded || b->side[0].is_file, CHARL_ERR_CHECKPOINT,
                  "%s is not a file of checksums; HINT `charl golden CONFIG -o FILE` writes one", x);
    CHARL_TRY(open_side(b, &b->side[1], y));
    if (!b->side[0].is_file && !b->side[1].is_file) {
        CHARL_TRY(find_span(b, &span));
    } else if (!b->side[0].is_file || !b->side[1].is_file) {
        charl__checksums_range(charl__text_string(&b->side[b->side[1].is_file].checksums), &span.equal, &span.end);
    }
    b->out->equal_at = span.equal;
    if (!b->side[0].is_file && !b->side[1].is_file && !span.parted && span.equal == span.end) {
        b->out->step = span.equal;
        return charl__text_printf(
            &b->text, "no difference up to step %" PRId64 ", the last checkpoint that both have\n", span.equal);
    }
    return compare_replays(b, &span);
}

charl_status charl_bisect(const char *a, const char *b, const charl_bisect_options *options, charl_bisect_result *out)
{
    CHARL_GIVEN(a, b, out);
    CHARL__OPTIONS(charl_bisect_options, options);
    const charl_bisect_options none = {sizeof none};
    const unsigned kinds = CHARL__KIND_RUN | CHARL__KIND_FOLDER | CHARL__KIND_CONFIG;
    bisect all = {.options = options ? options : &none, .out = out};
    charl_status st;

    *out = (charl_bisect_result){0};
    st = run(&all, a, b);
    st = charl__kind_explain(st, a, kinds, all.options->recorded ? "a file of checksums" : "a run directory",
                             CHARL_ERR_CHECKPOINT);
    st = charl__kind_explain(st, b, kinds, "a run directory", CHARL_ERR_CHECKPOINT);
    for (int k = 0; k < 2; k++) {
        charl__text_fini(&all.side[k].checksums);
        charl_free(all.side[k].steps.steps);
    }
    if (st == CHARL_OK) {
        out->text = charl__text_steal(&all.text);
    }
    charl__text_fini(&all.text);
    return st;
}

void charl_bisect_result_fini(charl_bisect_result *result)
{
    if (!result) {
        return;
    }
    charl_free(result->text);
    *result = (charl_bisect_result){0};
}
