/* run.lock against the files of its run, and random parts of the run computed again. */
#include "charl/verify.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/numeric/rng.h"
#include "base/options.h"
#include "charl/version.h"
#include "config/config_rows.h"
#include "export/export.h"
#include "files/run.h"
#include "files/run_lock.h"
#include "files/temporary.h"
#include "io/commit.h"
#include "io/kind.h"
#include "io/regular.h"
#include "train/metrics/metrics.h"
#include "train/rank_check.h"
#include "train/replay.h"
#include "train/rundir.h"
#include "train/verify.h"
#include "train/verify_settings.h"

enum { TEXT_BYTES = 1600, LARGEST_CONFIG = 1 << 26, LARGEST_METRICS = 1 << 30 };

/* Recorded checkpoints [first, last] of the history, to be replayed from step `from`. */
typedef struct segment {
    int64_t from;
    bool from_start; /* at the beginning of the run, or at a checkpoint of another one */
    bool is_lost;    /* that checkpoint is not kept */
    int64_t first, last;
    bool chosen, same;
} segment;

typedef struct verify {
    const char *run;
    const charl_verify_options *options;
    const charl__verify_request *request; /* NULL: of a run directory, all of it */
    charl_verify_result *out;
    charl__lock lock;
    charl__lock_history history;
    bool *kept;          /* [history.count] the file is there, with the recorded tensors and state */
    int64_t *best;       /* [history.count] of a checkpoint that is kept: step of the best one then; -1: none */
    int64_t newest, old; /* the last two that are kept; -1: none */
    char run_id[33];
    charl_config *config; /* of the last start, with the overrides; NULL: it cannot be read */
    segment *segments;

    /* the replay that is under way */
    int64_t *steps; /* [history.count] */
    const segment *now;
    int64_t compared;
    char device[256];
    char text[TEXT_BYTES]; /* how it differs; "": it does not */
} verify;

/* Text for the caller: the folder of an unpacked proof is called by the proof's name. */
static void shorten(const verify *v, const char *text, char *out, size_t size)
{
    const char *name = v->request && v->request->shown ? v->request->shown : v->run;
    size_t used = 0;

    out[0] = '\0';
    for (const char *found; used < size && (found = strstr(text, v->run)) != NULL; text = found + strlen(v->run)) {
        used += (size_t)snprintf(out + used, size - used, "%.*s%s", (int)(found - text), text, name);
    }
    if (used < size) {
        snprintf(out + used, size - used, "%s", text);
    }
}

static void tell(const verify *v, void (*event)(void *ctx, const char *text), const char *fmt, ...) CHARL_PRINTF(3, 4);

static void tell(const verify *v, void (*event)(void *ctx, const char *text), const char *fmt, ...)
{
    char text[TEXT_BYTES], shown[TEXT_BYTES];
    va_list args;

    if (event) {
        va_start(args, fmt);
        vsnprintf(text, sizeof text, fmt, args);
        va_end(args);
        shorten(v, text, shown, sizeof shown);
        event(v->options->ctx, shown);
    }
}

#define WRONG(v, ...) ((v)->out->wrong++, tell(v, (v)->options->wrong, __VA_ARGS__))
#define RECORDED(v, ...) tell(v, (v)->options->recorded, __VA_ARGS__)
#define NOTED(v, ...) tell(v, (v)->options->noted, __VA_ARGS__)

/* Whether `run` is an unpacked proof. */
static bool is_proof(const verify *v)
{
    return v->request && v->request->proof;
}

/* A failure that says something about the run, not about this process. */
static bool is_finding(charl_status st)
{
    return st == CHARL_ERR_CHECKPOINT || st == CHARL_ERR_DATA || st == CHARL_ERR_IO || st == CHARL_ERR_CONFIG;
}

/* Such a failure as something that is wrong. */
static charl_status tell_finding(verify *v, charl_status st)
{
    if (is_finding(st)) {
        WRONG(v, "%s", charl_error_message());
        return CHARL_OK;
    }
    return st;
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

/* Whether line k only resumes from the step of line i, with the same settings and data, as when the command was given again. */
static bool is_repeated(const charl__lock *lock, int64_t i, int64_t k)
{
    const charl__lock_line *a = &lock->line[i], *b = &lock->line[k];
    const int64_t start = charl__lock_start_of(lock, i);

    return b->kind == CHARL__LOCK_RESUME && a->step == b->step && start >= 0 &&
           strcmp(lock->line[start].value[CHARL__LOCK_CONFIG], b->value[CHARL__LOCK_CONFIG]) == 0 &&
           strcmp(lock->line[start].value[CHARL__LOCK_DATA], b->value[CHARL__LOCK_DATA]) == 0;
}

/* The hash that was published: nothing may have been trained or changed after it. */
static void check_hash(verify *v)
{
    const charl__lock *lock = &v->lock;
    const char *hash = v->options->hash;
    int64_t i = 0, step;
    bool is_end = true;

    while (i < lock->count && strcmp(hash, lock->line[i].value[CHARL__LOCK_HASH]) != 0) {
        i++;
    }
    if (i == lock->count) {
        WRONG(v, CHARL__LOCK_FILE " has no line with the hash %.64s", hash);
        return;
    }
    step = lock->line[i].step;
    for (int64_t k = i + 1; k < lock->count; k++) {
        is_end = is_end && is_repeated(lock, i, k);
        step = lock->line[k].step < step ? lock->line[k].step : step;
    }
    if (!is_end) {
        WRONG(v,
              "the hash %.16s... is of line %" PRId64 " of " CHARL__LOCK_FILE ", not of the last, line %" PRId64
              ": it does not cover the lines after it, nor the steps after %" PRId64,
              hash, lock->number[i], lock->number[lock->count - 1], step);
    }
}

static charl_status check_chain(verify *v)
{
    CHARL_SCOPED(charl__text_fini) charl__text text = {0};
    int64_t old = 0;

    CHARL_TRY(charl__lock_read(v->run, &v->lock, &text));
    CHARL_TRY(charl__lock_trace(&v->lock, &v->history, &text));
    for (const char *p = charl__text_string(&text); *p; p += strcspn(p, "\n") + 1) {
        WRONG(v, "%.*s", (int)strcspn(p, "\n"), p);
    }
    if (v->options->hash) {
        check_hash(v);
    }
    if (charl__lock_start_of(&v->lock, v->lock.count - 1) < 0) {
        WRONG(v, CHARL__LOCK_FILE " does not say how the run began");
    }
    v->out->lines = v->lock.count;
    v->out->recorded = v->history.count;
    memcpy(v->out->hash, v->lock.line[v->lock.count - 1].value[CHARL__LOCK_HASH], sizeof v->out->hash);
    if (v->out->wrong == 0) {
        RECORDED(v, CHARL__LOCK_FILE " (%" PRId64 " line%s)", v->lock.count, v->lock.count == 1 ? "" : "s");
    }
    if (v->lock.torn > 0) {
        NOTED(v, CHARL__LOCK_TORN);
    }
    for (int64_t i = 0; i < v->lock.count; i++) {
        old += v->lock.line[i].format == 1;
    }
    if (old > 0) {
        NOTED(v,
              CHARL__LOCK_FILE " has %" PRId64
                               " line%s of format 1, which cover%s neither metrics.jsonl nor the state of checkpoints",
              old, old == 1 ? "" : "s", old == 1 ? "s" : "");
    }
    if (v->lock.line[0].kind == CHARL__LOCK_RESUME) {
        NOTED(v,
              CHARL__LOCK_FILE " begins with a resumption: it does not say how the %" PRId64
                               " steps before it were trained",
              v->lock.line[0].step);
    }
    return CHARL_OK;
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
    CHARL_TRY_CLEANUP(charl__verify_settings(v->run, v->options->warned, v->options->ctx));
    st = charl__regular_read_all(path, LARGEST_CONFIG, &text);
    if (st == CHARL_ERR_CHECKPOINT) {
        WRONG(v, "%s", charl_error_message());
        st = CHARL_OK;
        goto cleanup;
    }
    CHARL_TRY_CLEANUP(st);
    if (!is_config_of(v, start, charl__text_string(&text))) {
        WRONG(v, "%s is not the configuration that line %" PRId64 " of " CHARL__LOCK_FILE " records", path,
              v->lock.number[start]);
    } else {
        RECORDED(v, "config.ini");
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
    charl__session s = {.config = v->config, .warned = v->options->warned, .warned_ctx = v->options->ctx};

    st = charl__session_open_data(&s, CHARL_SPLIT_TRAIN);
    if (is_finding(st)) {
        snprintf(v->out->no_data, sizeof v->out->no_data, "%s", charl_error_message());
        st = CHARL_OK;
        goto cleanup;
    }
    CHARL_TRY_CLEANUP(st);
    if (strcmp(s.data.content_id, v->lock.line[start].value[CHARL__LOCK_DATA]) != 0) {
        WRONG(v, "the data, %s, are not those that line %" PRId64 " of " CHARL__LOCK_FILE " records", s.data.path,
              v->lock.number[start]);
        goto cleanup;
    }
    if (v->request) { /* what replays read is compared with its checksums then */
        RECORDED(v, "the checksums of the data");
        goto cleanup;
    }
    CHARL_TRY_CLEANUP(charl_dataset_verify(s.ds));
    RECORDED(v, "the data");
cleanup:
    charl__session_fini(&s);
    if (is_finding(st)) {
        WRONG(v, "the data differ from their checksums: %s", charl_error_message());
        st = CHARL_OK;
    }
    return st;
}

/* The file of recorded checkpoint i against its line. */
static charl_status check_checkpoint(verify *v, const char *path, int64_t i)
{
    charl_status st = CHARL_OK;
    charl_checkpoint_reader *r = NULL;
    const charl_checkpoint_state *state;
    const int64_t line = v->lock.number[v->history.line[i]], start = start_of(v, i);
    charl__lock_line found = {0};
    const char *differs;

    CHARL_TRY_CLEANUP(charl_checkpoint_open(path, &r));
    CHARL_TRY_CLEANUP(charl__lock_describe(r, &found));
    state = charl_checkpoint_get_info(r).state;
    differs = charl__lock_difference(record_at(v, i), &found);
    v->kept[i] = !differs;
    v->best[i] = state->best_step > 0 ? state->best_step : -1;
    if (differs) {
        WRONG(v, "%s: its %s differ%s from line %" PRId64 " of " CHARL__LOCK_FILE, path, differs,
              strcmp(differs, "state") == 0 ? "s" : "", line);
    }
    if (!v->run_id[0]) {
        snprintf(v->run_id, sizeof v->run_id, "%.32s", state->run_id);
    } else if (state->run_id[0] && strcmp(state->run_id, v->run_id) != 0) {
        WRONG(v, "%s: is of another run (%.16s) than %s (%.16s)", path, state->run_id, v->run, v->run_id);
    }
    if (record_at(v, i)->kind == CHARL__LOCK_RESUME) {
        goto cleanup; /* it is of the history before */
    }
    if (start >= 0 && !is_config_of(v, start, charl_checkpoint_get_info(r).config_resolved)) {
        WRONG(v, "%s: its configuration differs from line %" PRId64 " of " CHARL__LOCK_FILE, path,
              v->lock.number[start]);
    }
    if (start >= 0 && strcmp(state->data_content_id, v->lock.line[start].value[CHARL__LOCK_DATA]) != 0) {
        WRONG(v, "%s: its data differ from line %" PRId64 " of " CHARL__LOCK_FILE, path, v->lock.number[start]);
    }
cleanup:
    charl_checkpoint_close(r);
    return tell_finding(v, st);
}

static charl_status check_checkpoints(verify *v)
{
    charl_status st = CHARL_OK;
    charl__run_steps list = {0};
    const bool begins = v->lock.line[0].kind != CHARL__LOCK_RESUME;
    const int64_t before = v->out->wrong;
    int64_t older = 0;
    char *path = NULL;

    charl__rundir_read_id(v->run, v->run_id);
    CHARL_TRY_CLEANUP(charl__alloc_array(v->history.count + 1, sizeof *v->kept, &v->kept));
    CHARL_TRY_CLEANUP(charl__alloc_array(v->history.count + 1, sizeof *v->best, &v->best));
    CHARL_TRY_CLEANUP(charl__run_list(v->run, &list));
    v->newest = v->old = -1;
    for (int64_t k = 0, i = 0; k < list.count; k++) {
        while (i < v->history.count && record_at(v, i)->step < list.steps[k]) {
            i++;
        }
        CHARL_TRY_CLEANUP(charl__run_path(v->run, list.steps[k], &path));
        if (i < v->history.count && record_at(v, i)->step == list.steps[k]) {
            CHARL_TRY_CLEANUP(check_checkpoint(v, path, i));
            v->out->kept += v->kept[i];
            v->old = v->newest;
            v->newest = i;
        } else if (begins || list.steps[k] > v->lock.line[0].step) {
            WRONG(v, "%s is not recorded in " CHARL__LOCK_FILE, path);
        } else { /* of another run, or of an older version of charl */
            older++;
        }
        charl_free(path);
        path = NULL;
    }
    if (v->out->wrong == before) {
        RECORDED(v, "%" PRId64 " checkpoint%s", v->out->kept, v->out->kept == 1 ? "" : "s");
    }
    if (older > 0) {
        NOTED(v, "%" PRId64 " checkpoint%s older than the first line of " CHARL__LOCK_FILE, older,
              older == 1 ? " is" : "s are");
    }
cleanup:
    charl_free(list.steps);
    charl_free(path);
    return st;
}

/* The step of the checkpoint that last.h5 (or best.h5) names if recorded checkpoint i is the newest; -1: none. */
static int64_t linked_at(const verify *v, int64_t i, bool best)
{
    return i < 0 ? -1 : best ? v->best[i] : record_at(v, i)->step;
}

/* last.h5 or best.h5. A crash in a save may leave the one of before; a copy of the directory may have a file in place of the link. */
static charl_status check_link(verify *v, bool best)
{
    const char *name = best ? "best.h5" : "last.h5";
    const int64_t wanted = linked_at(v, v->newest, best), before = linked_at(v, v->old, best);
    const bool goes_on = v->newest < v->history.count - 1 || v->lock.line[v->lock.count - 1].kind == CHARL__LOCK_RESUME;
    charl_status st = CHARL_OK;
    charl_checkpoint_reader *r = NULL;
    charl__lock_line found = {.step = charl__run_linked(v->run, name)};
    char *path = NULL;
    struct stat info;

    CHARL_TRY_CLEANUP(charl__commit_join(v->run, name, &path));
    if (lstat(path, &info) == 0 && !S_ISLNK(info.st_mode)) {
        CHARL_TRY_CLEANUP(charl_checkpoint_open(path, &r));
        CHARL_TRY_CLEANUP(charl__lock_describe(r, &found));
        for (int64_t i = 0; i < v->history.count; i++) {
            if (record_at(v, i)->step == found.step && charl__lock_difference(record_at(v, i), &found)) {
                found.step = -1;
            }
        }
        if (found.step < 0) {
            WRONG(v, "%s differs from the checkpoint that " CHARL__LOCK_FILE " records", path);
            goto cleanup;
        }
    }
    if (found.step == wanted) {
        RECORDED(v, "%s", name);
    } else if (found.step == before) {
        NOTED(v, "%s is behind, as after a crash: it is of step %" PRId64 ", and should be of step %" PRId64, path,
              found.step, wanted);
    } else if (found.step < 0 && goes_on) { /* a resumption from an older checkpoint removes links to later ones */
        NOTED(v, "%s is missing; it should be of step %" PRId64, path, wanted);
    } else if (found.step < 0) {
        WRONG(v, "%s is missing, or names no checkpoint; it should be of step %" PRId64, path, wanted);
    } else if (wanted < 0) {
        WRONG(v, "%s is of step %" PRId64 ", and there is no such checkpoint", path, found.step);
    } else {
        WRONG(v, "%s is of step %" PRId64 ", and should be of step %" PRId64, path, found.step, wanted);
    }
cleanup:
    charl_checkpoint_close(r);
    charl_free(path);
    return tell_finding(v, st);
}

/* Whether the file is what the checkpoint of `step` gives, exported to the folder `temp`. */
static charl_status is_export_of(const verify *v, const char *path, int64_t step, const char *temp, bool *same)
{
    charl_status st = CHARL_OK;
    const char *format = v->config->checkpoint.export_format;
    charl__text second = {0};
    char *checkpoint = NULL;

    *same = false;
    CHARL_TRY_CLEANUP(charl__run_path(v->run, step, &checkpoint));
    if (step < 0 || access(checkpoint, F_OK) != 0) {
        goto cleanup;
    }
    CHARL_TRY_CLEANUP(charl__text_printf(&second, "%s/x.%s", temp, format));
    CHARL_TRY_CLEANUP(charl__export_beside(checkpoint, format, temp, "x"));
    CHARL_TRY_CLEANUP(charl__regular_compare(path, charl__text_string(&second), same));
cleanup:
    charl__text_fini(&second);
    charl_free(checkpoint);
    return st;
}

static charl_status check_export(verify *v, int64_t start, bool best, const char *temp)
{
    const char *name = best ? "best" : "last", *format = v->config->checkpoint.export_format;
    const int64_t wanted = linked_at(v, v->newest, best), before = linked_at(v, v->old, best);
    const bool other_version = strcmp(v->lock.line[start].value[CHARL__LOCK_VERSION], charl_version()) != 0;
    charl_status st = CHARL_OK;
    charl__text path = {0};
    const char *file;
    bool same = false, behind = false;

    CHARL_TRY_CLEANUP(charl__text_printf(&path, "%s/%s.%s", v->run, name, format));
    file = charl__text_string(&path);
    if (access(file, F_OK) != 0) {
        if (wanted >= 0 && v->old >= 0 && wanted == before) {
            WRONG(v, "%s is missing", file);
        } else if (wanted >= 0) {
            NOTED(v, "%s is missing", file);
        }
        goto cleanup;
    }
    CHARL_TRY_CLEANUP(is_export_of(v, file, wanted, temp, &same));
    if (!same && before != wanted) {
        CHARL_TRY_CLEANUP(is_export_of(v, file, before, temp, &behind));
    }
    if (same) {
        RECORDED(v, "%s.%s", name, format);
    } else if (behind) {
        NOTED(v, "%s is behind, as after a crash: it is of step %" PRId64 ", and should be of step %" PRId64, file,
              before, wanted);
    } else if (other_version) {
        NOTED(v, "%s is not what this version of charl exports; charl %s trained the run", file,
              v->lock.line[start].value[CHARL__LOCK_VERSION]);
    } else {
        WRONG(v, "%s is not an export of the checkpoint of step %" PRId64, file, wanted);
    }
cleanup:
    if (is_finding(st) || st == CHARL_ERR_DISK) {
        NOTED(v, "%s cannot be compared: %s", charl__text_string(&path), charl_error_message());
        st = CHARL_OK;
    }
    charl__text_fini(&path);
    return st;
}

/* The exports of checkpoint.export, by exporting again. */
static charl_status check_exports(verify *v, int64_t start)
{
    charl_status st = CHARL_OK;
    charl__text temp = {0};

    if (strcmp(v->config->checkpoint.export_format, "none") == 0) {
        return CHARL_OK;
    }
    st = charl__temporary_make(&temp);
    if (st == CHARL_ERR_DISK) {
        NOTED(v, "exports cannot be compared: %s", charl_error_message());
        st = CHARL_OK;
        goto cleanup;
    }
    CHARL_TRY_CLEANUP(st);
    CHARL_TRY_CLEANUP(check_export(v, start, false, temp.data));
    CHARL_TRY_CLEANUP(check_export(v, start, true, temp.data));
cleanup:
    charl__temporary_remove(&temp);
    return st;
}

/* The links and exports, where there is a checkpoint that they can be of. */
static charl_status check_best_and_last(verify *v, int64_t start)
{
    if (v->newest < 0) {
        return CHARL_OK;
    }
    CHARL_TRY(check_link(v, false));
    CHARL_TRY(check_link(v, true));
    return v->config ? check_exports(v, start) : CHARL_OK;
}

/* Rows of metrics.jsonl, in the order of the file. */
typedef struct rows {
    const char *at;
    int64_t step; /* of the row at `at`; -1: the file has ended */
    size_t bytes; /* of it that are recorded */
} rows;

static void next_row(rows *r)
{
    r->bytes = 0;
    while (*r->at && (r->bytes = charl__metrics_recorded(r->at, &r->step)) == 0) {
        r->at += strcspn(r->at, "\n");
        r->at += *r->at == '\n';
    }
    r->step = r->bytes > 0 ? r->step : -1;
}

static void pass_row(rows *r)
{
    r->at += strcspn(r->at, "\n");
    r->at += *r->at == '\n';
    next_row(r);
}

/* The rows up to the step of recorded checkpoint i, those after step `from`, added to sha: whether its line records them. */
static bool has_rows(const verify *v, rows *r, int64_t i, int64_t from, charl__sha256 *sha)
{
    unsigned char digest[CHARL__SHA256_BYTES];
    char hash[CHARL__SHA256_TEXT];
    charl__sha256 now;

    for (; r->step >= 0 && r->step <= record_at(v, i)->step; pass_row(r)) {
        if (r->step > from) {
            charl__sha256_update(sha, r->at, r->bytes);
            charl__sha256_update(sha, "\n", 1);
        }
    }
    now = *sha;
    charl__sha256_final(&now, digest);
    return strcmp(charl__sha256_format(digest, hash), record_at(v, i)->value[CHARL__LOCK_METRICS]) == 0;
}

/* Whether the line of recorded checkpoint i covers rows. */
static bool covers_rows(const verify *v, int64_t i)
{
    const char *hash = record_at(v, i)->value[CHARL__LOCK_METRICS];

    return strspn(hash, "0") < strlen(hash);
}

static charl_status check_metrics(verify *v)
{
    charl_status st = CHARL_OK;
    const int64_t before = v->out->wrong;
    int64_t start = -1, from = 0, covered = 0, more = 0,
            last = v->history.count > 0 ? record_at(v, v->history.count - 1)->step : 0;
    bool differs = false;
    charl__sha256 sha;
    charl__text text = {0};
    char *path = NULL;
    rows r;

    for (int64_t i = 0; i < v->history.count; i++) {
        covered += covers_rows(v, i);
    }
    if (covered == 0) {
        return CHARL_OK;
    }
    CHARL_TRY_CLEANUP(charl__commit_join(v->run, CHARL__METRICS_JSONL, &path));
    CHARL_TRY_CLEANUP(charl__regular_read_all(path, LARGEST_METRICS, &text));
    r = (rows){.at = charl__text_string(&text)};
    next_row(&r);
    for (int64_t i = 0; i < v->history.count; i++) {
        if (start_of(v, i) != start) {
            start = start_of(v, i);
            from = start < 0 || v->lock.line[start].kind == CHARL__LOCK_START ? -1 : v->lock.line[start].step;
            differs = false;
            charl__sha256_init(&sha);
        }
        if (!has_rows(v, &r, i, from, &sha) && covers_rows(v, i) && !differs) {
            const int64_t previous = i > 0 && record_at(v, i - 1)->step > from ? record_at(v, i - 1)->step : from;

            differs = true; /* and so do the later ones of this start, which cover these rows too */
            WRONG(v,
                  "%s: its rows of steps %" PRId64 " to %" PRId64 " differ from line %" PRId64 " of " CHARL__LOCK_FILE,
                  path, previous < 0 ? 1 : previous + 1, record_at(v, i)->step, v->lock.number[v->history.line[i]]);
        }
    }
    for (; r.step >= 0 && v->out->wrong == before; pass_row(&r)) {
        more++;
        if (r.step <= last) {
            WRONG(v, "%s: a row of step %" PRId64 " comes after one of a later step", path, r.step);
        }
    }
    if (v->out->wrong == before) {
        RECORDED(v, CHARL__METRICS_JSONL);
    }
    if (v->out->wrong == before && more > 0) {
        NOTED(v, "%s has %" PRId64 " row%s after step %" PRId64 ", the last that is recorded", path, more,
              more == 1 ? "" : "s", last);
    }
cleanup:
    charl__text_fini(&text);
    charl_free(path);
    return tell_finding(v, st);
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
            const char *resume = v->config ? v->config->run.resume : "auto";
            const bool names_file =
                strcmp(resume, "auto") != 0 && strcmp(resume, "must") != 0 && strcmp(resume, "never") != 0;

            s = (segment){.from = record_at(v, i)->step,
                          .from_start = !v->kept[i],
                          .is_lost = !v->kept[i] && !names_file,
                          .first = i + 1};
        } else if (s.from_start && record_at(v, i)->step == s.from) { /* saved before the first step */
            s.first = i + 1;
        } else if (v->kept[i] || i == v->history.count - 1) {
            v->segments[v->out->segments++] = s;
            s = (segment){.from = record_at(v, i)->step, .first = i + 1};
        }
    }
    return CHARL_OK;
}

/* Index of the recorded checkpoint of `step`; -1: none. */
static int64_t find_record(const verify *v, int64_t step)
{
    for (int64_t i = 0; i < v->history.count; i++) {
        if (record_at(v, i)->step == step) {
            return i;
        }
    }
    return -1;
}

/* Whether the segment was trained with the settings and data of the last start, which config.ini has. */
static bool is_of_last_start(const verify *v, const segment *s)
{
    const int64_t end = charl__lock_start_of(&v->lock, v->lock.count - 1);

    for (int64_t i = s->first; i <= s->last; i++) {
        const int64_t start = start_of(v, i);

        if (start < 0 ||
            strcmp(v->lock.line[start].value[CHARL__LOCK_CONFIG], v->lock.line[end].value[CHARL__LOCK_CONFIG]) != 0 ||
            strcmp(v->lock.line[start].value[CHARL__LOCK_DATA], v->lock.line[end].value[CHARL__LOCK_DATA]) != 0) {
            return false;
        }
    }
    return true;
}

/* Whether a proof can hold the segment: it begins in the run. */
static bool is_provable(const verify *v, const segment *s)
{
    return is_of_last_start(v, s) && !s->is_lost && (!s->from_start || s->from == 0);
}

/* The segments of a proof. */
static charl_status read_segments(verify *v)
{
    const charl__proof *p = v->request->proof;
    const bool begins = v->lock.line[0].kind == CHARL__LOCK_START;

    CHARL_TRY(charl__alloc_array(p->n_segments + 1, sizeof *v->segments, &v->segments));
    CHARL_TRY(charl__alloc_array(v->history.count + 1, sizeof *v->steps, &v->steps));
    for (int64_t k = 0; k < p->n_segments; k++) {
        const int64_t from = find_record(v, p->segments[k].from), last = find_record(v, p->segments[k].until);
        const bool from_start = p->segments[k].from == 0;
        segment one;

        if (last < 0 || (from < 0 && !(from_start && begins))) {
            WRONG(v, "steps %" PRId64 " to %" PRId64 " are not between two steps that " CHARL__LOCK_FILE " records",
                  p->segments[k].from + 1, p->segments[k].until);
            continue;
        }
        one = (segment){.from = p->segments[k].from,
                        .from_start = from_start,
                        .is_lost = !from_start && !v->kept[from],
                        .first = from + 1,
                        .last = last};
        if (!is_of_last_start(v, &one)) {
            WRONG(v, "steps %" PRId64 " to %" PRId64 " were trained with other settings or data than config.ini has",
                  one.from + 1, p->segments[k].until);
            continue;
        }
        v->segments[v->out->segments++] = one;
    }
    if (p->init[0]) {
        NOTED(v, "what init.from held is not recorded in " CHARL__LOCK_FILE ": %s of the proof is taken for it",
              p->init);
    }
    return CHARL_OK;
}

/* Leave the segments out that no proof can hold. */
static void keep_provable(verify *v)
{
    int64_t n = 0;

    for (int64_t i = 0; i < v->out->segments; i++) {
        if (is_provable(v, &v->segments[i])) {
            v->segments[n++] = v->segments[i];
        }
    }
    v->out->unknown = v->out->segments - n;
    v->out->segments = n;
}

/* As many as asked for, each set of them as likely as any other. */
static void choose(verify *v)
{
    const charl__rng rng = charl__rng_key(v->options->seed, 0, charl__fnv1a64_string("verify"));
    int64_t left = is_proof(v) && v->options->segments == 0 ? v->out->segments : v->options->segments;

    for (int64_t i = 0; i < v->out->segments; i++) {
        const int64_t rest = v->out->segments - i;
        uint32_t draw[4]; /* two words for each segment */
        const uint32_t *two = &draw[i % 2 * 2];

        charl__rng_u32x4(&rng, (uint64_t)i / 2, draw);
        v->segments[i].chosen = ((uint64_t)two[0] << 32 | two[1]) % (uint64_t)rest < (uint64_t)left;
        left -= v->segments[i].chosen;
    }
}

static charl_status on_start(void *ctx, const charl_replay_start *start)
{
    verify *v = ctx;
    const charl_device_info *d = start->device;
    const char *inexact = is_proof(v) ? charl__config_inexact(v->config) : NULL;

    CHARL_REQUIRE(
        !inexact ||
            (strcmp(d->name, v->request->proof->device) == 0 && strcmp(d->driver, v->request->proof->driver) == 0),
        CHARL_ERR_DEVICE,
        "its bits are those of one kind of device and driver, because of %s: the proof was made on %s, driver "
        "%s, and this is %s, driver %s",
        inexact, v->request->proof->device, v->request->proof->driver, d->name, d->driver);
    snprintf(v->device, sizeof v->device, "%s", d->name);
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

    tell(v, v->options->warned, "%s", text);
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

static charl_status lack_checkpoint(int64_t step)
{
    CHARL_FAIL(CHARL_ERR_CHECKPOINT, "it begins at a checkpoint of step %" PRId64 " that is not kept", step);
}

static charl_status replay_segment(verify *v, segment *s)
{
    charl_verify_segment out = {
        .from = s->from, .until = record_at(v, s->last)->step, .device = v->device, .text = v->text};
    const charl_replay_options o = {sizeof o,
                                    .step = record_at(v, s->first)->step,
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

    if (v->request && v->request->chosen) {
        const charl__proof_segment one = {out.from, out.until};

        s->same = true;
        return v->request->chosen(v->request->ctx, &one);
    }
    v->now = s;
    v->compared = 0;
    v->text[0] = '\0';
    if (s->is_lost) {
        st = lack_checkpoint(s->from);
    } else {
        st = charl_replay(v->run, &o);
    }
    CHARL_REQUIRE(st == CHARL_OK || st == CHARL_ERR_NONFINITE || is_finding(st) ||
                      (st == CHARL_ERR_DEVICE && is_proof(v)),
                  st, "%s", charl_error_message());
    out.outcome = v->text[0] ? CHARL_VERIFY_DIFFERS : CHARL_VERIFY_SAME;
    if (st != CHARL_OK) {
        out.outcome = CHARL_VERIFY_UNKNOWN;
        shorten(v, charl_error_message(), v->text, sizeof v->text);
        v->out->wrong += is_proof(v) && st == CHARL_ERR_DATA; /* its own rows */
    } else if (v->text[0] && !has_one_config(v, s)) {
        out.outcome = CHARL_VERIFY_UNKNOWN;
        snprintf(v->text, sizeof v->text, "the configuration was changed in between, at a checkpoint that is not kept");
    }
    out.compared = v->compared;
    v->out->replayed += out.outcome != CHARL_VERIFY_UNKNOWN;
    s->same = out.outcome == CHARL_VERIFY_SAME;
    v->out->same += s->same;
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

/* Steps that no replay has proven, adjacent ones together. */
static void tell_unproven(const verify *v)
{
    const int64_t last = v->history.count > 0 ? record_at(v, v->history.count - 1)->step : 0;
    int64_t proven = 0;

    for (int64_t i = 0; i <= v->out->segments; i++) {
        const segment *s = &v->segments[i];

        if (i < v->out->segments && !s->same) {
            continue;
        }
        if (v->options->unproven && (i < v->out->segments ? s->from : last) > proven) {
            v->options->unproven(v->options->ctx, proven + 1, i < v->out->segments ? s->from : last);
        }
        proven = i < v->out->segments ? record_at(v, s->last)->step : proven;
    }
}

static charl_status load_config(verify *v)
{
    const charl_verify_options *o = v->options;
    const charl_status st =
        charl__replay_config(v->run, CHARL__REPLAY_LAST_START, o->overrides, o->n_overrides, &v->config);

    if (is_finding(st)) {
        NOTED(v, "the data cannot be compared: %s", charl_error_message());
        return CHARL_OK;
    }
    return st;
}

static charl_status verify_all(verify *v)
{
    int64_t start;

    CHARL_TRY(check_chain(v));
    start = charl__lock_start_of(&v->lock, v->lock.count - 1);
    if (start >= 0) {
        CHARL_TRY(check_config(v, start));
        CHARL_TRY(load_config(v));
        CHARL_TRY(v->config ? check_data(v, start) : CHARL_OK);
    }
    CHARL_TRY(check_checkpoints(v));
    if (!v->request) {
        CHARL_TRY(check_metrics(v));
        CHARL_TRY(check_best_and_last(v, start));
    }
    CHARL_TRY(is_proof(v) ? read_segments(v) : find_segments(v));
    if (v->request && v->request->chosen) {
        keep_provable(v);
    }
    for (int64_t i = 0; i < v->history.count; i++) {
        v->steps[i] = record_at(v, i)->step;
    }
    if ((is_proof(v) ? v->out->wrong == 0 : v->options->segments > 0) && !v->out->no_data[0]) {
        if (start >= 0) { /* what is not replayed does not depend on the version */
            compare_versions(v, start);
        }
        choose(v);
    }
    for (int64_t i = 0; i < v->out->segments; i++) {
        if (v->segments[i].chosen) {
            CHARL_TRY(replay_segment(v, &v->segments[i]));
        }
    }
    tell_unproven(v);
    return CHARL_OK;
}

charl_status charl__verify_run(const char *run, const charl_verify_options *options,
                               const charl__verify_request *request, charl_verify_result *result)
{
    verify v = {.run = run, .options = options, .request = request, .out = result};
    charl_status st;

    *result = (charl_verify_result){0};
    st = verify_all(&v);
    charl__lock_fini(&v.lock);
    charl_free(v.history.line);
    charl_free(v.kept);
    charl_free(v.best);
    charl_free(v.segments);
    charl_free(v.steps);
    charl_config_destroy(v.config);
    return st;
}

charl_status charl_verify(const char *run, const charl_verify_options *options, charl_verify_result *result)
{
    CHARL_GIVEN(run, result);
    static const charl_verify_options none = {sizeof none};
    CHARL__OPTIONS(charl_verify_options, options);
    const charl_verify_options *o = options ? options : &none;
    struct stat info;
    const bool is_file = stat(run, &info) == 0 && S_ISREG(info.st_mode);
    const charl_status st = is_file ? charl__verify_proof(run, o, result) : charl__verify_run(run, o, NULL, result);

    return charl__kind_explain(st, run, CHARL__KIND_RUN | CHARL__KIND_FOLDER | CHARL__KIND_PROOF,
                               "a run directory or a proof", CHARL_ERR_CHECKPOINT);
}
