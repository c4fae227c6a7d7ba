/* A run directory that begins as another one was after a step. */
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/handles.h"
#include "files/run.h"
#include "files/run_lock.h"
#include "files/run_path.h"
#include "io/checkpoint/checkpoint_read.h"
#include "io/commit.h"
#include "io/regular.h"
#include "io/scoped.h"

CHARL_SCOPED_POINTER(run_left, charl__run, charl__run_close)

/* The bytes of run.lock up to the line that records the checkpoint of `step`; 0: there is none, or the file is not as charl wrote it. */
static charl_status find_record(const char *dir, int64_t step, charl__lock *lock, size_t *bytes)
{
    CHARL_SCOPED(charl__text_fini) charl__text wrong = {0};
    const charl_status st = charl__lock_read(dir, lock, &wrong);
    int64_t number = 0;
    const char *end;

    *bytes = 0;
    if (st == CHARL_ERR_CHECKPOINT || (st == CHARL_OK && wrong.length > 0)) {
        return CHARL_OK;
    }
    CHARL_TRY(st);
    for (int64_t i = 0; i < lock->count; i++) {
        number = lock->line[i].kind == CHARL__LOCK_CHECKPOINT && lock->line[i].step == step ? lock->number[i] : number;
    }
    end = number > 0 ? charl__text_string(&lock->text) : NULL;
    for (; number > 0 && end; number--) {
        end = strchr(end, '\n');
        end = end ? end + 1 : NULL;
    }
    *bytes = end ? (size_t)(end - charl__text_string(&lock->text)) : 0;
    return CHARL_OK;
}

/* Give DIR/NAME of `from` a second name in `to`; a file that is not there is none. */
static charl_status link_file(const char *from, const char *to, const char *name)
{
    CHARL_SCOPED_FREE char *old = NULL, *new = NULL;

    CHARL_TRY(charl__commit_join(from, name, &old));
    CHARL_TRY(charl__commit_join(to, name, &new));
    if (access(old, F_OK) != 0) {
        return CHARL_OK;
    }
    if ((unlink(new) != 0 && errno != ENOENT) || link(old, new) != 0) {
        return charl__disk_error(new, "link", errno, -1);
    }
    return CHARL_OK;
}

static charl_status copy_file(const char *from, const char *to, const char *name)
{
    CHARL_SCOPED(charl__text_fini) charl__text text = {0};
    CHARL_SCOPED_FREE char *old = NULL, *new = NULL;
    struct stat info;

    CHARL_TRY(charl__commit_join(from, name, &old));
    CHARL_TRY(charl__commit_join(to, name, &new));
    if (stat(old, &info) != 0 || !S_ISREG(info.st_mode) || info.st_size == 0) {
        return CHARL_OK;
    }
    CHARL_TRY(charl__regular_read_all(old, INT64_MAX, &text));
    return charl__commit_bytes(new, charl__text_string(&text), text.length);
}

/* The event files of TensorBoard. */
static charl_status copy_events(const char *from, const char *to)
{
    CHARL_SCOPED(charl__directory_left) DIR *d = NULL;
    CHARL_SCOPED_FREE char *old = NULL, *new = NULL;
    const struct dirent *entry;

    CHARL_TRY(charl__commit_join(from, "tb", &old));
    CHARL_TRY(charl__commit_join(to, "tb", &new));
    CHARL_TRY(charl__directory_open(old, &d));
    if (d && mkdir(new, 0777) != 0 && errno != EEXIST) {
        return charl__disk_error(new, "mkdir", errno, -1);
    }
    while (d && (entry = readdir(d)) != NULL) {
        CHARL_TRY(copy_file(old, new, entry->d_name));
    }
    return CHARL_OK;
}

/* A checkpoint and its parts. */
static charl_status link_checkpoint(const char *from, const char *to, int64_t step)
{
    CHARL_SCOPED(charl__checkpoint_left) charl_checkpoint_reader *r = NULL;
    CHARL_SCOPED_FREE char *path = NULL, *old = NULL, *new = NULL;
    const char *part;

    CHARL_TRY(charl__run_path(from, step, &path));
    CHARL_TRY(charl__commit_join(from, "checkpoints", &old));
    CHARL_TRY(charl__commit_join(to, "checkpoints", &new));
    CHARL_TRY(charl_checkpoint_open(path, &r));
    for (int i = 0; (part = charl__checkpoint_part(r, i)) != NULL; i++) {
        CHARL_TRY(link_file(old, new, charl__base_name(part)));
    }
    return link_file(old, new, charl__base_name(path));
}

/* The checkpoint to begin with, the newest up to `most` that is whole, if run.lock records it and the best one so far is there. */
static charl_status find_start(const char *from, int64_t most, int64_t *step, int64_t *best, charl__lock *lock,
                               size_t *recorded)
{
    CHARL_SCOPED(charl__run_found_fini) charl__run_found found = {0};
    CHARL_SCOPED(charl__checkpoint_left) charl_checkpoint_reader *r = NULL;
    CHARL_SCOPED_FREE char *path = NULL;
    const charl_checkpoint_state *state;

    *step = *best = -1;
    CHARL_TRY(charl__run_find(from, most < INT64_MAX ? most + 1 : most, &found));
    if (!found.path) {
        return CHARL_OK;
    }
    CHARL_TRY(find_record(from, found.step, lock, recorded));
    CHARL_TRY(charl_checkpoint_open(found.path, &r));
    state = charl_checkpoint_get_info(r).state;
    if (!isnan(state->best_metric)) {
        *best = state->best_step;
        CHARL_TRY(charl__run_path(from, state->best_step, &path));
    }
    *step = *recorded > 0 && (!path || access(path, F_OK) == 0) ? found.step : -1;
    return CHARL_OK;
}

static charl_status copy_run(const char *from, const char *to, const char *config, int64_t step, int64_t best,
                             const charl__text *lock, size_t recorded)
{
    static const char *const files[] = {"metrics.jsonl", "metrics.csv", "train.log", "env.json", "run_id"};
    CHARL_SCOPED(charl__checkpoint_left) charl_checkpoint_reader *base = NULL;
    CHARL_SCOPED_FREE char *path = NULL, *ini = NULL, *origin = NULL;

    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        CHARL_TRY(copy_file(from, to, files[i]));
    }
    CHARL_TRY(copy_events(from, to));
    CHARL_TRY(charl__commit_join(to, CHARL__LOCK_FILE, &path));
    CHARL_TRY(charl__commit_bytes(path, charl__text_string(lock), recorded));
    CHARL_TRY(charl__commit_join(from, CHARL__RUN_BASE, &origin));
    if (access(origin, F_OK) == 0) {
        const char *part;

        CHARL_TRY(charl_checkpoint_open(origin, &base));
        for (int i = 0; (part = charl__checkpoint_part(base, i)) != NULL; i++) {
            CHARL_TRY(link_file(from, to, charl__base_name(part)));
        }
        CHARL_TRY(link_file(from, to, CHARL__RUN_BASE));
    }
    if (best >= 0 && best != step) {
        CHARL_TRY(link_checkpoint(from, to, best));
    }
    CHARL_TRY(link_checkpoint(from, to, step));
    CHARL_TRY(best >= 0 ? charl__run_link(to, "best.h5", best) : CHARL_OK);
    CHARL_TRY(charl__run_link(to, "last.h5", step));
    CHARL_TRY(charl__commit_join(to, "config.ini", &ini));
    return charl__commit_bytes(ini, config, strlen(config));
}

charl_status charl_run_fork(const char *from, int64_t most, const char *to, const char *config, int64_t *step)
{
    CHARL_GIVEN(from, to, config, step);
    CHARL_SCOPED(run_left) charl__run *source = NULL;
    CHARL_SCOPED(run_left) charl__run *target = NULL;
    charl_status st = CHARL_OK;
    charl__lock lock = {0};
    struct stat info;
    int64_t best;
    size_t recorded = 0;

    *step = -1;
    CHARL_REQUIRE_CLEANUP(stat(from, &info) == 0 && S_ISDIR(info.st_mode), CHARL_ERR_CHECKPOINT,
                          "%s: is not a run directory", from);
    CHARL_TRY_CLEANUP(charl__run_open(from, &source));
    CHARL_TRY_CLEANUP(find_start(from, most, step, &best, &lock, &recorded));
    if (*step >= 0) {
        const int64_t found = *step;

        *step = -1;
        CHARL_TRY_CLEANUP(charl__run_open(to, &target));
        CHARL_TRY_CLEANUP(copy_run(from, to, config, found, best, &lock.text, recorded));
        *step = found;
    }
cleanup:
    charl__lock_fini(&lock);
    return st;
}
