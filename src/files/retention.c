/* Which checkpoints a run has, where it resumes, and which ones may be removed. File names are the index of a run's checkpoints: a run
 * resumes from the last one that is whole, whether or not the links last.h5 and best.h5 are there. */
#define _DEFAULT_SOURCE /* realpath */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/handles.h"
#include "base/text/text.h"
#include "files/run.h"
#include "files/run_path.h"
#include "io/checkpoint/checkpoint_parts.h"
#include "io/commit.h"
#include "io/scoped.h"

charl_status charl__run_path(const char *dir, int64_t step, char **out)
{
    CHARL_GIVEN(dir, out);
    char rest[64];

    snprintf(rest, sizeof rest, "checkpoints/step-%08lld.h5", (long long)step);
    CHARL_TRY(charl__commit_join(dir, rest, out));
    return CHARL_OK;
}

int64_t charl__run_step(const char *name)
{
    char canonical[64];
    char *end = NULL;
    long long step;

    if (strncmp(name, "step-", 5) != 0 || name[5] < '0' || name[5] > '9') {
        return -1;
    }
    errno = 0;
    step = strtoll(name + 5, &end, 10);
    if (errno != 0 || strcmp(end, ".h5") != 0) {
        return -1;
    }
    snprintf(canonical, sizeof canonical, "step-%08lld.h5", step);
    return strcmp(canonical, name) == 0 ? (int64_t)step : -1;
}

static int ascending(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

static charl_status add_step(charl__run_steps *list, int64_t step)
{
    CHARL_TRY(charl__grow(list->count, sizeof *list->steps, &list->steps));
    list->steps[list->count++] = step;
    return CHARL_OK;
}

charl_status charl__run_list(const char *dir, charl__run_steps *list)
{
    CHARL_GIVEN(dir, list);
    charl_status st = CHARL_OK;
    char *path = NULL;
    CHARL_SCOPED(charl__directory_left) DIR *d = NULL;

    *list = (charl__run_steps){0};
    CHARL_TRY_CLEANUP(charl__commit_join(dir, "checkpoints", &path));
    CHARL_TRY_CLEANUP(charl__directory_open(path, &d));
    CHARL_REQUIRE_CLEANUP(d || (errno != EMFILE && errno != ENFILE && errno != ENOMEM), CHARL_ERR_NOMEM,
                          "%s: cannot be listed: too many open files or no memory", path);
    CHARL_REQUIRE_CLEANUP(d || errno == ENOENT, CHARL_ERR_CHECKPOINT, "%s: cannot be listed", path);
    for (const struct dirent *e; d && (e = readdir(d)) != NULL;) {
        const int64_t step = charl__run_step(e->d_name);

        if (step >= 0) {
            CHARL_TRY_CLEANUP(add_step(list, step));
        }
    }
    if (list->count > 0) {
        qsort(list->steps, (size_t)list->count, sizeof *list->steps, ascending);
    }
cleanup:
    charl_free(path);
    if (st != CHARL_OK) {
        charl_free(list->steps);
        *list = (charl__run_steps){0};
    }
    return st;
}

charl_status charl_run_checkpoint(const char *path, char **out)
{
    CHARL_GIVEN(path, out);
    charl_status st = CHARL_OK;
    charl__run_steps list = {0};
    char *last = NULL;
    struct stat s;

    *out = NULL;
    if (stat(path, &s) != 0 || !S_ISDIR(s.st_mode)) {
        return charl__strdup(path, out);
    }
    CHARL_TRY_CLEANUP(charl__commit_join(path, "last.h5", &last));
    if (lstat(last, &s) == 0) {
        *out = last;
        last = NULL;
        goto cleanup;
    }
    CHARL_TRY_CLEANUP(charl__run_list(path, &list));
    CHARL_TRY_CLEANUP(list.count > 0 ? charl__run_path(path, list.steps[list.count - 1], out)
                                     : charl__strdup(path, out));
cleanup:
    charl_free(list.steps);
    charl_free(last);
    return st;
}

charl_status charl__run_verify(const char *path, int64_t step)
{
    CHARL_GIVEN(path);
    CHARL_SCOPED(charl__checkpoint_left) charl_checkpoint_reader *r = NULL;

    CHARL_TRY(charl_checkpoint_verify(path));
    CHARL_TRY(charl_checkpoint_open(path, &r));
    CHARL_REQUIRE(charl_checkpoint_get_info(r).state->step == step, CHARL_ERR_CHECKPOINT,
                  "%s: holds step %lld, which does not match its file name", path,
                  (long long)charl_checkpoint_get_info(r).state->step);
    return CHARL_OK;
}

charl_status charl__run_find(const char *dir, int64_t before, charl__run_found *found)
{
    CHARL_GIVEN(dir, found);
    charl_status st = CHARL_OK;
    charl__text warning = {0};
    charl__run_steps list = {0};
    char *path = NULL;

    *found = (charl__run_found){.step = -1};
    CHARL_TRY_CLEANUP(charl__run_list(dir, &list));
    for (int64_t i = list.count - 1; i >= 0 && !found->path; i--) {
        if (list.steps[i] >= before) {
            continue;
        }
        CHARL_TRY_CLEANUP(charl__run_path(dir, list.steps[i], &path));
        st = charl__run_verify(path, list.steps[i]);
        if (st == CHARL_ERR_CHECKPOINT) { /* damage; any other error does not concern the file */
            CHARL_TRY_CLEANUP(charl__text_printf(&warning, "%s%s", warning.length ? "\n" : "", charl_error_message()));
            found->n_refused++;
            charl_free(path);
            path = NULL;
            st = CHARL_OK;
            continue;
        }
        CHARL_TRY_CLEANUP(st);
        found->step = list.steps[i];
        found->path = path;
        path = NULL;
    }
    found->warning = charl__text_steal(&warning);
cleanup:
    charl__text_fini(&warning);
    charl_free(list.steps);
    charl_free(path);
    if (st != CHARL_OK) {
        charl__run_found_fini(found);
    }
    return st;
}

void charl__run_found_fini(charl__run_found *found)
{
    if (!found) {
        return;
    }
    charl_free(found->path);
    charl_free(found->warning);
    *found = (charl__run_found){.step = -1};
}

static bool keeps(const charl__run_policy *p, int64_t step, int64_t newer)
{
    const int64_t last = p->keep_last > 2 ? p->keep_last : 2;

    return step > p->step || newer < last || step == p->resumed_step || step == p->best_step ||
           (p->keep_every > 0 && step % p->keep_every == 0);
}

charl_status charl__run_retain(const char *dir, const charl__run_policy *policy, int *removed)
{
    CHARL_GIVEN(dir, policy);
    charl_status st = CHARL_OK;
    charl__run_steps list = {0};
    char *path = NULL;
    char *folder = NULL;
    const int64_t best = charl__run_linked(dir, "best.h5");
    int64_t newer = 0; /* kept or not, of this history */
    int count = 0;

    CHARL_TRY_CLEANUP(charl__commit_join(dir, "checkpoints", &folder));
    CHARL_TRY_CLEANUP(charl__run_list(dir, &list));
    for (int64_t i = list.count - 1; i >= 0; i--) {
        const int64_t step = list.steps[i];

        if (step != best && !keeps(policy, step, newer)) {
            CHARL_TRY_CLEANUP(charl__run_path(dir, step, &path));
            if (unlink(path) != 0 && errno != ENOENT) {
                CHARL_TRY_CLEANUP(charl__disk_error(path, "unlink", errno, -1));
            }
            charl__crash_point("io.crash.removed");
            charl_free(path);
            path = NULL;
            count++;
        }
        newer += step <= policy->step ? 1 : 0;
    }
    if (count > 0) {
        CHARL_TRY_CLEANUP(charl__commit_sync_dir(folder)); /* before its parts are removed */
        CHARL_TRY_CLEANUP(charl__ckpt_sweep(folder, NULL));
    }
cleanup:
    charl_free(list.steps);
    charl_free(folder);
    charl_free(path);
    if (removed) {
        *removed = count;
    }
    return st;
}

charl_status charl__run_link(const char *dir, const char *name, int64_t step)
{
    CHARL_GIVEN(dir, name);
    CHARL_SCOPED_FREE char *path = NULL;
    CHARL_SCOPED_FREE char *temp = NULL;
    CHARL_SCOPED_FREE char *target = NULL;
    struct stat s;

    CHARL_TRY(charl__commit_join(dir, name, &path));
    CHARL_REQUIRE(lstat(path, &s) != 0 || S_ISLNK(s.st_mode), CHARL_ERR_DISK, "%s: exists and is not a symbolic link",
                  path);
    CHARL_TRY(charl__commit_join(dir, CHARL__LINK_TEMP, &temp));
    CHARL_TRY(charl__run_path(dir, step, &target));
    if (unlink(temp) != 0 && errno != ENOENT) {
        CHARL_TRY(charl__disk_error(temp, "unlink", errno, -1));
    }
    /* relative to the run directory, so that it can be moved */
    if (symlink(target + strlen(dir) + 1, temp) != 0) {
        CHARL_TRY(charl__disk_error(temp, "symlink", errno, -1));
    }
    charl__crash_point("io.crash.symlink");
    if (rename(temp, path) != 0) {
        const int err = errno;

        unlink(temp);
        CHARL_TRY(charl__disk_error(path, "rename", err, -1));
    }
    charl__crash_point("io.crash.linked");
    CHARL_TRY(charl__commit_sync_dir(dir));
    return CHARL_OK;
}

int64_t charl__run_linked(const char *dir, const char *name)
{
    static const char folder[] = "checkpoints/";
    char path[4096], target[256];
    ssize_t n = -1;

    if ((size_t)snprintf(path, sizeof path, "%s/%s", dir, name) < sizeof path) {
        n = readlink(path, target, sizeof target - 1);
    }
    if (n <= 0) {
        return -1;
    }
    target[n] = '\0';
    return strncmp(target, folder, strlen(folder)) == 0 ? charl__run_step(target + strlen(folder)) : -1;
}

size_t charl_run_length(const char *path)
{
    static const char folder[] = "/checkpoints";

    if (!path) {
        return 0;
    }
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    const size_t n = slash ? (size_t)(slash - path) : 0, tail = sizeof folder - 1;

    if (strcmp(name, "last.h5") == 0 || strcmp(name, "best.h5") == 0) {
        return n;
    }
    return charl__run_step(name) >= 0 && n > tail && strncmp(path + n - tail, folder, tail) == 0 ? n - tail
                                                                                                 : strlen(path);
}

bool charl__run_is_same(const char *a, const char *b)
{
    const char *const path[2] = {a, b};
    char name[2][PATH_MAX], real[2][PATH_MAX];

    for (int i = 0; i < 2; i++) {
        const size_t n = charl_run_length(path[i]);

        if (n == strlen(path[i]) || (size_t)snprintf(name[i], PATH_MAX, "%.*s", (int)n, path[i]) >= PATH_MAX) {
            return false;
        }
        if (!realpath(n > 0 ? name[i] : ".", real[i])) { /* there is none, or none any longer */
            memcpy(real[i], name[i], n + 1);
        }
    }
    return strcmp(real[0], real[1]) == 0;
}

charl_status charl__run_resolve(const char *path, char **out)
{
    CHARL_SCOPED_FREE char *file = NULL, *dir = NULL;
    int64_t step;

    *out = NULL;
    CHARL_TRY(charl_run_checkpoint(path, &file));
    CHARL_TRY(charl__commit_dir(file, &dir));
    step = charl__run_linked(dir, charl__base_name(file));
    if (step >= 0) {
        CHARL_TRY(charl__run_path(dir, step, out));
    } else {
        *out = file;
        file = NULL;
    }
    return CHARL_OK;
}
