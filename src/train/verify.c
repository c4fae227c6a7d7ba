/* run.lock against the files of its run, and random parts of the run computed again. */
#include "charl/verify.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/numeric/rng.h"
#include "charl/replay.h"
#include "charl/version.h"
#include "io/checkpoint/run_lock.h"
#include "io/commit.h"
#include "io/kind.h"
#include "io/regular.h"
#include "task/session.h"
#include "train/rank_check.h"

enum { TEXT_BYTES = 1600, LARGEST_CONFIG = 1 << 26 };

/* Recorded checkpoints [first, last] of the history, to be replayed from step `from`. */
typedef struct segment {
    int64_t from;
    bool from_start; /* at the beginning of the run, or at a checkpoint of another one */
    int64_t first, last;
    bool chosen;
} segment;

typedef struct verify {
    const char *run;
    const charl_verify_options *options;
    charl_verify_result *out;
    charl__lock lock;
    charl__lock_history history;
    bool *kept; /* [history.count] the file is there, with the recorded tensors */
    segment *segments;

    /* the replay that is under way */
    int64_t *steps; /* [history.count] */
    const segment *now;
    int64_t compared;
    char device[256];
    char text[TEXT_BYTES]; /* how it differs; "": it does not */
} verify;

static void wrong(verify *v, const char *fmt, ...) CHARL_PRINTF(2, 3);

static void wrong(verify *v, const char *fmt, ...)
{
    char text[TEXT_BYTES];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    v->out->wrong++;
    if (v->options->wrong) {
        v->options->wrong(v->options->ctx, text);
    }
}

/* A failure that says something about the run, not about this process. */
static bool is_finding(charl_status st)
{
    return st == CHARL_ERR_CHECKPOINT || st == CHARL_ERR_DATA || st == CHARL_ERR_IO || st == CHARL_ERR_CONFIG;
}

static const charl__lock_line *record_at(const verify *v, int64_t i)
{
    return &v->lock.line[v->history.line[i]];
}

/* The start that recorded checkpoint i was trained after. */
static int64_t start_of(const verify *v, int64_t i)
{
    return charl__lock_start_of(&v->lock, v->history.line[i]);
}

static charl_status check_chain(verify *v)
{
    charl_status st = CHARL_OK;
    charl__text text = {0};
    bool found = false;

    CHARL_TRY_CLEANUP(charl__lock_read(v->run, &v->lock, &text));
    CHARL_TRY_CLEANUP(charl__lock_trace(&v->lock, &v->history, &text));
    for (const char *p = charl__text_string(&text); *p; p += strcspn(p, "\n") + 1) {
        wrong(v, "%.*s", (int)strcspn(p, "\n"), p);
    }
    for (int64_t i = 0; i < v->lock.count; i++) {
        found = found || (v->options->hash && strcmp(v->options->hash, v->lock.line[i].value[CHARL__LOCK_HASH]) == 0);
    }
    if (v->options->hash && !found) {
        wrong(v, CHARL__LOCK_FILE " has no line with the hash %.64s", v->options->hash);
    }
    if (charl__lock_start_of(&v->lock, v->lock.count - 1) < 0) {
        wrong(v, CHARL__LOCK_FILE " does not say how the run began");
    }
    v->out->lines = v->lock.count;
    v->out->recorded = v->history.count;
    memcpy(v->out->hash, v->lock.line[v->lock.count - 1].value[CHARL__LOCK_HASH], sizeof v->out->hash);
cleanup:
    charl__text_fini(&text);
    return st;
}

/* Whether the text is the configuration of the start in line i. */
static bool is_config_of(const verify *v, int64_t i, const char *text)
{
    char hash[CHARL__SHA256_TEXT];

    return strcmp(charl__sha256_text(text, strlen(text), hash), v->lock.line[i].value[CHARL__LOCK_CONFIG]) == 0;
}

static charl_status check_config(verify *v, int64_t start)
{
    charl_status st = CHARL_OK;
    char *path = NULL;
    charl__text text = {0};

    CHARL_TRY_CLEANUP(charl__commit_join(v->run, "config.ini", &path));
    st = charl__regular_read_all(path, LARGEST_CONFIG, &text);
    if (st == CHARL_ERR_CHECKPOINT) {
        wrong(v, "%s", charl_error_message());
        st = CHARL_OK;
        goto cleanup;
    }
    CHARL_TRY_CLEANUP(st);
    if (!is_config_of(v, start, charl__text_string(&text))) {
        wrong(v, "%s is not the configuration that line %" PRId64 " of " CHARL__LOCK_FILE " records", path,
              v->lock.number[start]);
    }
cleanup:
    charl__text_fini(&text);
    charl_free(path);
    return st;
}

/* The data of the last start, all of them. */
static charl_status check_data(verify *v, int64_t start)
{
    charl_status st = CHARL_OK;
    charl_config *config = NULL;
    charl__session s = {.warned = v->options->warned, .warned_ctx = v->options->ctx};
    char *path = NULL;

    CHARL_TRY_CLEANUP(charl__commit_join(v->run, "config.ini", &path));
    CHARL_TRY_CLEANUP(charl_config_load(path, v->options->overrides, v->options->n_overrides, &config));
    s.config = config;
    CHARL_TRY_CLEANUP(charl__session_open_data(&s, CHARL_SPLIT_TRAIN));
    if (strcmp(s.data.content_id, v->lock.line[start].value[CHARL__LOCK_DATA]) != 0) {
        wrong(v, "the data, %s, are not those that line %" PRId64 " of " CHARL__LOCK_FILE " records", s.data.path,
              v->lock.number[start]);
    }
    CHARL_TRY_CLEANUP(charl_dataset_verify(s.ds));
cleanup:
    charl__session_fini(&s);
    charl_config_destroy(config);
    charl_free(path);
    if (is_finding(st)) {
        wrong(v, "the data cannot be verified: %s", charl_error_message());
        st = CHARL_OK;
    }
    return st;
}

/* The file of recorded checkpoint i against its line. */
static charl_status check_checkpoint(verify *v, const char *path, int64_t i)
{
    charl_status st = CHARL_OK;
    charl_checkpoint_reader *r = NULL;
    const int64_t line = v->lock.number[v->history.line[i]], start = start_of(v, i);
    char hash[CHARL__SHA256_TEXT];

    CHARL_TRY_CLEANUP(charl_checkpoint_open(path, &r));
    CHARL_TRY_CLEANUP(charl__lock_checkpoint(r, hash));
    v->kept[i] = strcmp(hash, record_at(v, i)->value[CHARL__LOCK_TENSORS]) == 0;
    if (!v->kept[i]) {
        wrong(v, "%s: its tensors differ from line %" PRId64 " of " CHARL__LOCK_FILE, path, line);
    }
    if (record_at(v, i)->kind == CHARL__LOCK_RESUME) {
        goto cleanup; /* it is of the history before */
    }
    if (start >= 0 && !is_config_of(v, start, charl_checkpoint_get_config_resolved(r))) {
        wrong(v, "%s: its configuration differs from line %" PRId64 " of " CHARL__LOCK_FILE, path,
              v->lock.number[start]);
    }
    if (start >= 0 &&
        strcmp(charl_checkpoint_get_state(r)->data_content_id, v->lock.line[start].value[CHARL__LOCK_DATA]) != 0) {
        wrong(v, "%s: its data differ from line %" PRId64 " of " CHARL__LOCK_FILE, path, v->lock.number[start]);
    }
cleanup:
    charl_checkpoint_close(r);
    if (is_finding(st)) {
        wrong(v, "%s", charl_error_message());
        st = CHARL_OK;
    }
    return st;
}

static charl_status check_checkpoints(verify *v)
{
    charl_status st = CHARL_OK;
    charl_run_steps list = {0};
    const int64_t first =
        v->history.count > 0 && record_at(v, 0)->kind == CHARL__LOCK_RESUME ? record_at(v, 0)->step : INT64_MIN;
    char *path = NULL;

    CHARL_TRY_CLEANUP(charl__alloc_array(v->history.count + 1, sizeof *v->kept, &v->kept));
    CHARL_TRY_CLEANUP(charl_run_list(v->run, &list));
    for (int64_t k = 0, i = 0; k < list.count; k++) {
        while (i < v->history.count && record_at(v, i)->step < list.steps[k]) {
            i++;
        }
        CHARL_TRY_CLEANUP(charl_run_path(v->run, list.steps[k], &path));
        if (i < v->history.count && record_at(v, i)->step == list.steps[k]) {
            CHARL_TRY_CLEANUP(check_checkpoint(v, path, i));
            v->out->kept += v->kept[i];
        } else if (list.steps[k] > first) { /* those before it are of another run, or of an older version of charl */
            wrong(v, "%s is not recorded in " CHARL__LOCK_FILE, path);
        }
        charl_free(path);
        path = NULL;
    }
cleanup:
    charl_free(list.steps);
    charl_free(path);
    return st;
}

/* Cut the history at the checkpoints that are kept. */
static charl_status find_segments(verify *v)
{
    const bool begins = v->history.count > 0 && record_at(v, 0)->kind == CHARL__LOCK_CHECKPOINT;
    segment s = {.from_start = true};

    CHARL_TRY(charl__alloc_array(v->history.count + 1, sizeof *v->segments, &v->segments));
    CHARL_TRY(charl__alloc_array(v->history.count + 1, sizeof *v->steps, &v->steps));
    for (int64_t i = 0; i < v->history.count; i++) {
        s.last = i;
        if (i == 0 && !begins) { /* the run was resumed here, from a checkpoint that it did not save */
            s = (segment){.from = record_at(v, i)->step, .from_start = !v->kept[i], .first = i + 1};
        } else if (v->kept[i] || i == v->history.count - 1) {
            v->segments[v->out->segments++] = s;
            s = (segment){.from = record_at(v, i)->step, .first = i + 1};
        }
    }
    return CHARL_OK;
}

/* As many as asked for, each set of them as likely as any other. */
static void choose(verify *v)
{
    const charl__rng rng = charl__rng_key(v->options->seed, 0, charl__fnv1a64_string("verify"));
    int64_t left = v->options->segments;

    for (int64_t i = 0; i < v->out->segments; i++) {
        const int64_t rest = v->out->segments - i;
        const uint64_t draw =
            (uint64_t)charl__rng_u32(&rng, (uint64_t)(2 * i)) << 32 | charl__rng_u32(&rng, (uint64_t)(2 * i + 1));

        v->segments[i].chosen = draw % (uint64_t)rest < (uint64_t)left;
        left -= v->segments[i].chosen;
    }
}

static charl_status on_start(void *ctx, const charl_replay_start *start)
{
    verify *v = ctx;

    snprintf(v->device, sizeof v->device, "%s", start->device->name);
    return CHARL_OK;
}

static charl_status on_row(void *ctx, const charl_replay_row *row)
{
    verify *v = ctx;
    const charl__lock_line *line = record_at(v, v->now->first + v->compared);

    v->compared++;
    if (!v->text[0] && strcmp(row->tensors, line->value[CHARL__LOCK_TENSORS]) != 0) {
        snprintf(v->text, sizeof v->text, "the tensors of step %" PRId64 " differ%s%s", row->step,
                 row->differs[0] ? ", first " : "", row->differs);
    }
    return CHARL_OK;
}

static void on_warning(void *ctx, const char *text)
{
    const verify *v = ctx;

    if (v->options->warned) {
        v->options->warned(v->options->ctx, text);
    }
}

/* Whether all checkpoints of the segment were trained with the configuration of the last. */
static bool has_one_config(const verify *v, const segment *s)
{
    const int64_t last = start_of(v, s->last);

    for (int64_t i = s->first; i < s->last; i++) {
        const int64_t start = start_of(v, i);

        if (start < 0 || last < 0 ||
            strcmp(v->lock.line[start].value[CHARL__LOCK_CONFIG], v->lock.line[last].value[CHARL__LOCK_CONFIG]) != 0) {
            return false;
        }
    }
    return true;
}

static charl_status replay_segment(verify *v, const segment *s)
{
    charl_verify_segment out = {
        .from = s->from, .until = record_at(v, s->last)->step, .device = v->device, .text = v->text};
    const charl_replay_options o = {.step = record_at(v, s->first)->step,
                                    .until = out.until,
                                    .tensors = true,
                                    .only = v->steps + s->first,
                                    .n_only = s->last - s->first + 1,
                                    .from_start = s->from_start,
                                    .after = s->from,
                                    .device = v->options->device,
                                    .overrides = v->options->overrides,
                                    .n_overrides = v->options->n_overrides,
                                    .ctx = v,
                                    .started = on_start,
                                    .replayed = on_row,
                                    .warned = on_warning,
                                    .compiling = v->options->compiling};
    charl_status st;

    v->now = s;
    v->compared = 0;
    v->text[0] = '\0';
    st = charl_replay(v->run, &o);
    CHARL_REQUIRE(st == CHARL_OK || st == CHARL_ERR_NONFINITE || is_finding(st), st, "%s", charl_error_message());
    out.outcome = v->text[0] ? CHARL_VERIFY_DIFFERS : CHARL_VERIFY_SAME;
    if (st != CHARL_OK) {
        out.outcome = CHARL_VERIFY_UNKNOWN;
        snprintf(v->text, sizeof v->text, "%s", charl_error_message());
    } else if (v->text[0] && !has_one_config(v, s)) {
        out.outcome = CHARL_VERIFY_UNKNOWN;
        snprintf(v->text, sizeof v->text, "the configuration was changed in between, at a checkpoint that is not kept");
    }
    out.compared = v->compared;
    v->out->replayed += out.outcome != CHARL_VERIFY_UNKNOWN;
    v->out->same += out.outcome == CHARL_VERIFY_SAME;
    v->out->wrong += out.outcome == CHARL_VERIFY_DIFFERS;
    v->out->unknown += out.outcome == CHARL_VERIFY_UNKNOWN;
    if (v->options->replayed) {
        v->options->replayed(v->options->ctx, &out);
    }
    return CHARL_OK;
}

/* What charl was when the run was last started. */
static void compare_versions(verify *v, int64_t start)
{
    const charl__lock_line *line = &v->lock.line[start];
    char kernels[CHARL__SHA256_TEXT], text[TEXT_BYTES];

    charl__hash_kernels(kernels);
    if (strcmp(kernels, line->value[CHARL__LOCK_KERNELS]) != 0 ||
        strcmp(charl_version(), line->value[CHARL__LOCK_VERSION]) != 0) {
        snprintf(text, sizeof text,
                 "the run was trained by charl %s with kernels %.16s, and is replayed by charl %s with kernels %.16s",
                 line->value[CHARL__LOCK_VERSION], line->value[CHARL__LOCK_KERNELS], charl_version(), kernels);
        on_warning(v, text);
    }
}

static charl_status verify_all(verify *v)
{
    int64_t start;

    CHARL_TRY(check_chain(v));
    start = charl__lock_start_of(&v->lock, v->lock.count - 1);
    if (start >= 0) {
        CHARL_TRY(check_config(v, start));
        CHARL_TRY(check_data(v, start));
    }
    if (start >= 0 && v->options->segments > 0) { /* what is not replayed does not depend on the version */
        compare_versions(v, start);
    }
    CHARL_TRY(check_checkpoints(v));
    CHARL_TRY(find_segments(v));
    for (int64_t i = 0; i < v->history.count; i++) {
        v->steps[i] = record_at(v, i)->step;
    }
    choose(v);
    for (int64_t i = 0; i < v->out->segments; i++) {
        if (v->segments[i].chosen) {
            CHARL_TRY(replay_segment(v, &v->segments[i]));
        }
    }
    return CHARL_OK;
}

charl_status charl_verify(const char *run, const charl_verify_options *options, charl_verify_result *result)
{
    CHARL_GIVEN(run, result);
    verify v = {.run = run, .options = options, .out = result};
    charl_status st;

    *result = (charl_verify_result){0};
    st = charl__kind_explain(verify_all(&v), run, CHARL__KIND_RUN | CHARL__KIND_FOLDER, "a run directory",
                             CHARL_ERR_CHECKPOINT);
    charl__lock_fini(&v.lock);
    charl_free(v.history.line);
    charl_free(v.kept);
    charl_free(v.segments);
    charl_free(v.steps);
    return st;
}
