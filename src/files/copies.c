/* Copies of a training's state in shared memory. */
#define _DEFAULT_SOURCE /* realpath */
#include "files/copies.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/env.h"
#include "base/fault.h"
#include "base/handles.h"
#include "base/numeric/hash.h"
#include "files/run.h"
#include "io/commit.h"
#include "io/scoped.h"

charl_status charl__copies_key(const char *run_dir, char key[CHARL__COPIES_KEY])
{
    char *path = realpath(run_dir, NULL);

    CHARL_REQUIRE(path, CHARL_ERR_DISK, "%s: its path cannot be resolved: %s", run_dir, strerror(errno));
    snprintf(key, CHARL__COPIES_KEY, "%016" PRIx64, charl__fnv1a64_string(path));
    free(path);
    return CHARL_OK;
}

/* The folder of this user. Errors: ERR_DISK where others can write to it. */
static charl_status find_root(char root[CHARL__COPIES_PATH], bool *exists)
{
    const char *place = charl__env(CHARL_ENV_SHM_DIR);
    struct stat s;

    CHARL_REQUIRE(snprintf(root, CHARL__COPIES_PATH, "%s/charl-%ld", place ? place : "/dev/shm", (long)geteuid()) <
                      CHARL__COPIES_PATH / 2,
                  CHARL_ERR_DISK, "CHARL_SHM_DIR is too long");
    *exists = lstat(root, &s) == 0;
    CHARL_REQUIRE(!*exists || (S_ISDIR(s.st_mode) && s.st_uid == geteuid() && (s.st_mode & 077) == 0), CHARL_ERR_DISK,
                  "%s is not a folder that only this user can open (mode 0700): remove it, or name another place with "
                  "CHARL_SHM_DIR",
                  root);
    return CHARL_OK;
}

/* Call visit for each folder of the run on this machine. */
static charl_status each_folder(const char *key, charl_status (*visit)(void *ctx, const char *folder), void *ctx)
{
    CHARL_SCOPED(charl__directory_left) DIR *d = NULL;
    char root[CHARL__COPIES_PATH], folder[CHARL__COPIES_PATH];
    const struct dirent *e;
    bool exists;

    CHARL_TRY(find_root(root, &exists));
    CHARL_TRY(exists ? charl__directory_open(root, &d) : CHARL_OK);
    while (d && (e = readdir(d)) != NULL) {
        if (strncmp(e->d_name, key, strlen(key)) == 0 && e->d_name[strlen(key)] == '.' &&
            snprintf(folder, sizeof folder, "%.2048s/%s", root, e->d_name) < (int)sizeof folder) {
            CHARL_TRY(visit(ctx, folder));
        }
    }
    return CHARL_OK;
}

/* Remove all that lies in a folder's checkpoints but `kept`. */
static void empty(const char *checkpoints, const char *kept)
{
    DIR *d = opendir(checkpoints);

    for (const struct dirent *e; d && (e = readdir(d)) != NULL;) {
        if (strcmp(e->d_name, kept) != 0) {
            (void)unlinkat(dirfd(d), e->d_name, 0);
        }
    }
    if (d) {
        closedir(d);
    }
}

static charl_status remove_folder(void *ctx, const char *folder)
{
    char path[CHARL__COPIES_PATH];

    (void)ctx;
    if (snprintf(path, sizeof path, "%s/checkpoints", folder) < (int)sizeof path) {
        empty(path, "");
        (void)rmdir(path);
        (void)rmdir(folder);
    }
    return CHARL_OK;
}

void charl__copies_remove(const char *key)
{
    char root[CHARL__COPIES_PATH];
    bool exists;

    if (key[0] && each_folder(key, remove_folder, NULL) == CHARL_OK && find_root(root, &exists) == CHARL_OK && exists) {
        (void)rmdir(root); /* unless other runs have copies */
    }
}

static charl_status make_private(const char *path)
{
    if (mkdir(path, 0700) != 0 && errno != EEXIST) {
        CHARL_TRY(charl__disk_error(path, "mkdir", errno, -1));
    }
    return CHARL_OK;
}

/* The newest step before `before` that a folder has. */
typedef struct newest {
    int64_t before, step; /* -1: none */
} newest;

static charl_status find_step(void *ctx, const char *folder)
{
    newest *n = ctx;
    charl__run_steps list;

    CHARL_TRY(charl__run_list(folder, &list));
    for (int64_t i = 0; i < list.count && list.steps[i] < n->before; i++) {
        n->step = list.steps[i] > n->step ? list.steps[i] : n->step;
    }
    charl_free(list.steps);
    return CHARL_OK;
}

/* Remove the older copies of a folder, and what a dead process has half written. */
static charl_status remove_older(void *ctx, const char *folder)
{
    const newest *n = ctx;
    charl__run_steps list;
    char path[CHARL__COPIES_PATH];

    CHARL_TRY(charl__run_list(folder, &list));
    for (int64_t i = 0; i < list.count && list.steps[i] < n->step; i++) {
        if (snprintf(path, sizeof path, "%s/checkpoints/step-%08lld.h5", folder, (long long)list.steps[i]) <
            (int)sizeof path) {
            (void)unlink(path);
        }
    }
    charl_free(list.steps);
    return snprintf(path, sizeof path, "%s/checkpoints", folder) < (int)sizeof path && access(path, F_OK) == 0
               ? charl__commit_sweep(path, false, NULL)
               : CHARL_OK;
}

charl_status charl__copies_begin(const char *key, int rank, int64_t step, char **path)
{
    char root[CHARL__COPIES_PATH], folder[CHARL__COPIES_PATH], checkpoints[CHARL__COPIES_PATH], kept[64];
    newest last = {.before = step, .step = -1}; /* later ones are of another history */
    bool exists;

    CHARL_TRY(find_root(root, &exists));
    snprintf(folder, sizeof folder, "%.2048s/%s.%d", root, key, rank);
    snprintf(checkpoints, sizeof checkpoints, "%.3000s/checkpoints", folder);
    CHARL_TRY(charl__run_path(folder, step, path));
    CHARL_TRY(make_private(root));
    CHARL_TRY(find_root(root, &exists));
    CHARL_TRY(make_private(folder));
    CHARL_TRY(make_private(checkpoints));
    CHARL_TRY(each_folder(key, find_step, &last));
    /* other folders are of a start in which the node had other ranks */
    CHARL_TRY(each_folder(key, remove_older, &last));
    snprintf(kept, sizeof kept, "step-%08lld.h5", (long long)last.step);
    empty(checkpoints, kept);
    CHARL_REQUIRE(!charl__fault("copies.room"), CHARL_ERR_DISK, "%s: not enough room, as on a full disk", checkpoints);
    return CHARL_OK;
}

typedef struct search {
    charl_status (*accepts)(const void *ctx, const charl_checkpoint_reader *r, const char *path);
    const void *ctx;
    int64_t *step;
    charl__text *why;
    const char *name; /* of a file that is looked for */
    char *path;       /* [CHARL__COPIES_PATH], set when it is found */
} search;

static charl_status accept(const search *s, const char *path)
{
    CHARL_SCOPED(charl__checkpoint_left) charl_checkpoint_reader *r = NULL;

    CHARL_TRY(charl_checkpoint_open(path, &r));
    return s->accepts(s->ctx, r, path);
}

static charl_status find_newest(void *ctx, const char *folder)
{
    const search *s = ctx;
    CHARL_SCOPED(charl__run_found_fini) charl__run_found found = {0};
    charl_status st;

    CHARL_TRY(charl__run_find(folder, INT64_MAX, &found));
    if (found.warning) {
        CHARL_TRY(charl__text_printf(s->why, "%s%s", s->why->length > 0 ? "; " : "", found.warning));
    }
    if (!found.path || found.step <= *s->step) {
        return CHARL_OK;
    }
    st = accept(s, found.path);
    if (st == CHARL_ERR_CHECKPOINT) { /* nor would an older one be */
        return charl__text_printf(s->why, "%s%s", s->why->length > 0 ? "; " : "", charl_error_message());
    }
    CHARL_TRY(st);
    *s->step = found.step;
    return CHARL_OK;
}

charl_status charl__copies_find(const char *key,
                                charl_status (*accepts)(const void *ctx, const charl_checkpoint_reader *r,
                                                        const char *path),
                                const void *ctx, int64_t *step, charl__text *why)
{
    search s = {.accepts = accepts, .ctx = ctx, .step = step, .why = why};
    charl_status st;

    *step = -1;
    st = each_folder(key, find_newest, &s);
    return st == CHARL_ERR_DISK ? charl__text_printf(why, "%s", charl_error_message()) : st;
}

static charl_status find_named(void *ctx, const char *folder)
{
    search *s = ctx;
    char path[CHARL__COPIES_PATH];

    if (!s->path[0] && snprintf(path, sizeof path, "%s/checkpoints/%s", folder, s->name) < (int)sizeof path &&
        access(path, R_OK) == 0) {
        memcpy(s->path, path, sizeof path);
    }
    return CHARL_OK;
}

bool charl__copies_has(const char *key, int64_t step, char path[CHARL__COPIES_PATH])
{
    char name[64];
    search s = {.name = name, .path = path};

    path[0] = '\0';
    snprintf(name, sizeof name, "step-%08lld.h5", (long long)step);
    return each_folder(key, find_named, &s) == CHARL_OK && path[0];
}
