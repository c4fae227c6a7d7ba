/* A run directory beside its checkpoints: what follows from them is made so, what is of another history is cleared away or moved aside. Only
 * names that charl itself gives are touched. */
#define _GNU_SOURCE /* memmem */
#include "train/rundir.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/handles.h"
#include "export/export.h"
#include "files/run.h"
#include "files/run_path.h"
#include "io/checkpoint/checkpoint_parts.h"
#include "io/commit.h"
#include "io/progress.h"
#include "train/metrics/metrics.h"

enum { PATH_BYTES = 4096 };

/* `keep`: a file that stays, also as the name of a link; NULL: none. */
static charl_status remove_one(const char *dir, const char *name, const char *keep)
{
    char path[PATH_BYTES];
    struct stat kept, named;

    CHARL_REQUIRE((size_t)snprintf(path, sizeof path, "%s/%s", dir, name) < sizeof path, CHARL_ERR_DISK,
                  "the path %s/%s is too long", dir, name);
    if (keep && stat(keep, &kept) == 0 && stat(path, &named) == 0 && kept.st_dev == named.st_dev &&
        kept.st_ino == named.st_ino) {
        return CHARL_OK;
    }
    CHARL_REQUIRE(unlink(path) == 0 || errno == ENOENT, CHARL_ERR_DISK, "cannot remove %s: %s", path, strerror(errno));
    return CHARL_OK;
}

static charl_status remove_link(const char *dir, const char *name, const char *keep)
{
    char path[PATH_BYTES];
    struct stat info;

    if ((size_t)snprintf(path, sizeof path, "%s/%s", dir, name) < sizeof path && lstat(path, &info) == 0 &&
        S_ISLNK(info.st_mode)) {
        CHARL_TRY(remove_one(dir, name, keep));
    }
    return CHARL_OK;
}

/* The link NAME.h5, and the exports that carry the same name. */
static charl_status remove_named(const char *dir, const char *name, const char *keep)
{
    char file[64];

    snprintf(file, sizeof file, "%s.h5", name);
    CHARL_TRY(remove_link(dir, file, keep));
    for (int i = 0; charl__export_name(i); i++) {
        snprintf(file, sizeof file, "%s.%s", name, charl__export_name(i));
        CHARL_TRY(remove_one(dir, file, keep));
    }
    return CHARL_OK;
}

/* Call visit for every checkpoint of dir; a directory without checkpoints is fine. */
static charl_status each_checkpoint(const char *dir,
                                    charl_status (*visit)(const void *ctx, const char *dir, const char *name),
                                    const void *ctx)
{
    CHARL_SCOPED(charl__directory_left) DIR *d = NULL;
    char path[PATH_BYTES];
    const struct dirent *entry;

    CHARL_REQUIRE((size_t)snprintf(path, sizeof path, "%s/checkpoints", dir) < sizeof path, CHARL_ERR_DISK,
                  "the path %s/checkpoints is too long", dir);
    CHARL_TRY(charl__directory_open(path, &d));
    CHARL_REQUIRE(d || errno == ENOENT, CHARL_ERR_DISK, "cannot read %s: %s", path, strerror(errno));
    while (d && (entry = readdir(d)) != NULL) {
        if (charl__run_step(entry->d_name) >= 0) {
            CHARL_TRY(visit(ctx, path, entry->d_name));
        }
    }
    return CHARL_OK;
}

static charl_status visit_to_remove(const void *ctx, const char *dir, const char *name)
{
    return remove_one(dir, name, ctx);
}

charl_status charl__rundir_clear(const char *dir, const char *keep)
{
    CHARL_TRY(remove_named(dir, "last", keep));
    CHARL_TRY(remove_named(dir, "best", keep));
    CHARL_TRY(remove_one(dir, CHARL__RUN_BASE, keep));
    CHARL_TRY(charl__ckpt_sweep(dir, NULL)); /* its parts */
    CHARL_TRY(each_checkpoint(dir, visit_to_remove, keep));
    return charl__rundir_sweep(dir);
}

charl_status charl__rundir_sweep(const char *dir)
{
    char path[PATH_BYTES];

    CHARL_REQUIRE((size_t)snprintf(path, sizeof path, "%s/checkpoints", dir) < sizeof path, CHARL_ERR_DISK,
                  "the path %s/checkpoints is too long", dir);
    return charl__ckpt_sweep(path, NULL);
}

/* The step after which checkpoints are being renamed: a start that finds it renames the rest. */
static const char half_done[] = ".superseding";

typedef struct moving {
    int64_t after;
    int *moved; /* NULL: they are counted */
    int *found;
} moving;

static charl_status visit_to_supersede(const void *ctx, const char *dir, const char *name)
{
    const moving *h = ctx;
    const int64_t step = strtoll(name + strlen("step-"), NULL, 10);
    char from[PATH_BYTES], to[PATH_BYTES];

    if (step <= h->after) {
        return CHARL_OK;
    }
    (*h->found)++;
    if (!h->moved) {
        return CHARL_OK;
    }
    CHARL_REQUIRE((size_t)snprintf(from, sizeof from, "%s/%s", dir, name) < sizeof from &&
                      (size_t)snprintf(to, sizeof to, "%s/%s.superseded", dir, name) < sizeof to,
                  CHARL_ERR_DISK, "the path %s/%s is too long", dir, name);
    CHARL_REQUIRE(rename(from, to) == 0, CHARL_ERR_DISK, "cannot rename %s: %s", from, strerror(errno));
    charl__crash_point("io.crash.moved");
    (*h->moved)++;
    return CHARL_OK;
}

charl_status charl__rundir_supersede(const char *dir, int64_t after, int *moved)
{
    int found = 0;
    moving h = {.after = after, .found = &found};
    char text[32];

    *moved = 0;
    CHARL_TRY(each_checkpoint(dir, visit_to_supersede, &h));
    if (found > 0) {
        snprintf(text, sizeof text, "%" PRId64 "\n", after);
        CHARL_TRY(charl__metrics_write_file(dir, half_done, text));
    }
    h.moved = moved;
    if (charl__run_linked(dir, "best.h5") > after) {
        CHARL_TRY(remove_named(dir, "best", NULL));
    }
    if (charl__run_linked(dir, "last.h5") > after) {
        CHARL_TRY(remove_named(dir, "last", NULL));
    }
    CHARL_TRY(each_checkpoint(dir, visit_to_supersede, &h));
    CHARL_TRY(found > 0 ? remove_one(dir, half_done, NULL) : CHARL_OK);
    return CHARL_OK;
}

charl_status charl__rundir_supersede_rest(const char *dir)
{
    char path[PATH_BYTES];
    FILE *f = (size_t)snprintf(path, sizeof path, "%s/%s", dir, half_done) < sizeof path ? fopen(path, "re") : NULL;
    int64_t after = -2; /* -1: all of them */
    int moved;

    if (f) {
        if (fscanf(f, "%18" SCNd64, &after) != 1) {
            after = -2;
        }
        fclose(f);
    }
    CHARL_TRY(after >= -1 ? charl__rundir_supersede(dir, after, &moved) : CHARL_OK);
    return remove_one(dir, half_done, NULL);
}

/* `hash` of the line of run.lock that records the checkpoint of `step`; "": there is none. */
static charl_status find_line(const charl__lock *lock, int64_t step, char hash[CHARL__SHA256_TEXT])
{
    charl_status st = CHARL_OK;
    charl__lock_history history = {0};
    charl__text wrong = {0};

    hash[0] = '\0';
    CHARL_TRY_CLEANUP(charl__lock_trace(lock, &history, &wrong));
    for (int64_t i = 0; i < history.count; i++) {
        const charl__lock_line *line = &lock->line[history.line[i]];

        if (line->step == step) {
            snprintf(hash, CHARL__SHA256_TEXT, "%s", line->value[CHARL__LOCK_HASH]);
        }
    }
cleanup:
    charl_free(history.line);
    charl__text_fini(&wrong);
    return st;
}

/* Whether a file holds `text`. The metadata of an export name its line of run.lock: in each format as these 64 characters. */
static charl_status holds(const char *path, const char *text, bool *out)
{
    enum { BLOCK = 1 << 20 };
    const size_t length = strlen(text);
    CHARL_SCOPED(charl__file_left) FILE *f = fopen(path, "re");
    CHARL_SCOPED_FREE char *block = NULL;
    size_t kept = 0, n = 0;

    *out = false;
    if (!f || length == 0) {
        return CHARL_OK;
    }
    CHARL_TRY(charl__alloc(length + BLOCK, &block));
    while (!*out && (n = fread(block + kept, 1, BLOCK, f)) > 0) {
        *out = memmem(block, kept + n, text, length) != NULL;
        n += kept;
        kept = n < length ? n : length - 1; /* it may lie across two blocks */
        memmove(block, block + n - kept, kept);
        charl__progress_made();
    }
    return CHARL_OK;
}

/* Let DIR/NAME.FORMAT be the export of the checkpoint of `step`. */
static charl_status update_export(const char *dir, const char *name, int64_t step, const charl__rundir_plan *plan)
{
    char hash[CHARL__SHA256_TEXT], path[PATH_BYTES];
    CHARL_SCOPED_FREE char *checkpoint = NULL;
    bool is_right = false;

    if (step < 0 || strcmp(plan->export_format, "none") == 0) {
        return CHARL_OK;
    }
    CHARL_TRY(find_line(plan->lock, step, hash));
    if ((size_t)snprintf(path, sizeof path, "%s/%s.%s", dir, name, plan->export_format) < sizeof path) {
        CHARL_TRY(holds(path, hash, &is_right));
    }
    if (!is_right) {
        CHARL_TRY(charl__run_path(dir, step, &checkpoint));
        CHARL_TRY(charl__export_beside(checkpoint, plan->export_format, dir, name));
    }
    return CHARL_OK;
}

charl_status charl__rundir_drop_exports(const char *dir, const char *format, int *dropped)
{
    static const char *const names[] = {"last", "best"};
    char file[64], path[PATH_BYTES];

    *dropped = 0;
    for (int i = 0; i < 2; i++) {
        snprintf(file, sizeof file, "%s.%s", names[i], format);
        if ((size_t)snprintf(path, sizeof path, "%s/%s", dir, file) < sizeof path && access(path, F_OK) == 0) {
            CHARL_TRY(remove_one(dir, file, NULL));
            (*dropped)++;
        }
    }
    return CHARL_OK;
}

static charl_status update_link(const char *dir, const char *name, int64_t step)
{
    return step < 0 || charl__run_linked(dir, name) == step ? CHARL_OK : charl__run_link(dir, name, step);
}

static void note(charl_status st, charl__text *warnings)
{
    if (st != CHARL_OK) {
        (void)!charl__text_printf(warnings, "%s\n", charl_error_message());
    }
}

void charl__rundir_update(const char *dir, const charl__rundir_plan *plan, charl__text *warnings)
{
    const charl__run_policy *p = &plan->policy;

    note(plan->forgets_best ? remove_named(dir, "best", NULL) : CHARL_OK, warnings);
    note(update_link(dir, "last.h5", p->step), warnings);
    note(update_link(dir, "best.h5", p->best_step), warnings);
    note(charl__run_retain(dir, p, NULL), warnings);
    note(update_export(dir, "last", p->step, plan), warnings);
    note(update_export(dir, "best", p->best_step, plan), warnings);
}

static const char id_file[] = "run_id";

void charl__rundir_read_id(const char *dir, char out[33])
{
    char path[PATH_BYTES], text[34] = "";
    FILE *f = NULL;

    out[0] = '\0';
    if ((size_t)snprintf(path, sizeof path, "%s/%s", dir, id_file) < sizeof path) {
        f = fopen(path, "re");
    }
    if (f && fgets(text, sizeof text, f) && strspn(text, "0123456789abcdef") == 32) {
        snprintf(out, 33, "%.32s", text);
    }
    if (f) {
        fclose(f);
    }
}

charl_status charl__rundir_write_id(const char *dir, const char *id)
{
    char text[34];

    snprintf(text, sizeof text, "%.32s\n", id);
    return charl__metrics_write_file(dir, id_file, text);
}
