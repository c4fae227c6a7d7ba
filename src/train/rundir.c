/* What a run directory holds of another history: cleared away or moved aside. Only names that charl
 * itself gives are touched. */
#include "train/rundir.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "charl/checkpoint.h"
#include "train/metrics/metrics.h"

enum { PATH_BYTES = 4096 };

/* step-00000042.h5: at least eight digits */
static bool is_checkpoint(const char *name)
{
    size_t digits;

    if (strncmp(name, "step-", 5) != 0) {
        return false;
    }
    digits = strspn(name + 5, "0123456789");
    return digits >= 8 && strcmp(name + 5 + digits, ".h5") == 0;
}

static charl_status remove_one(const char *dir, const char *name)
{
    char path[PATH_BYTES];

    CHARL_REQUIRE((size_t)snprintf(path, sizeof path, "%s/%s", dir, name) < sizeof path, CHARL_ERR_DISK,
                  "the path %s/%s is too long", dir, name);
    CHARL_REQUIRE(unlink(path) == 0 || errno == ENOENT, CHARL_ERR_DISK, "cannot remove %s: %s", path, strerror(errno));
    return CHARL_OK;
}

static charl_status remove_link(const char *dir, const char *name)
{
    char path[PATH_BYTES];
    struct stat info;

    if ((size_t)snprintf(path, sizeof path, "%s/%s", dir, name) < sizeof path && lstat(path, &info) == 0 &&
        S_ISLNK(info.st_mode)) {
        CHARL_TRY(remove_one(dir, name));
    }
    return CHARL_OK;
}

/* Call visit for every checkpoint of dir; a directory without checkpoints is fine. */
static charl_status each_checkpoint(const char *dir,
                                    charl_status (*visit)(void *ctx, const char *dir, const char *name), void *ctx)
{
    charl_status st = CHARL_OK;
    char path[PATH_BYTES];
    const struct dirent *entry;
    DIR *d = NULL;

    CHARL_REQUIRE_CLEANUP((size_t)snprintf(path, sizeof path, "%s/checkpoints", dir) < sizeof path, CHARL_ERR_DISK,
                          "the path %s/checkpoints is too long", dir);
    CHARL_TRY_CLEANUP(charl__acquire("directory"));
    d = opendir(path);
    if (!d) {
        charl__drop();
        CHARL_REQUIRE_CLEANUP(errno == ENOENT, CHARL_ERR_DISK, "cannot read %s: %s", path, strerror(errno));
        goto cleanup;
    }
    while ((entry = readdir(d)) != NULL) {
        if (is_checkpoint(entry->d_name)) {
            CHARL_TRY_CLEANUP(visit(ctx, path, entry->d_name));
        }
    }
cleanup:
    if (d) {
        closedir(d);
        charl__drop();
    }
    return st;
}

static charl_status visit_to_remove(void *ctx, const char *dir, const char *name)
{
    (void)ctx;
    return remove_one(dir, name);
}

charl_status charl__rundir_clear(const char *dir)
{
    CHARL_TRY(remove_link(dir, "last.h5"));
    CHARL_TRY(remove_link(dir, "best.h5"));
    CHARL_TRY(each_checkpoint(dir, visit_to_remove, NULL));
    return CHARL_OK;
}

charl_status charl__rundir_forget_best(const char *dir)
{
    return remove_link(dir, "best.h5");
}

typedef struct history {
    int64_t after, except;
    int moved;
} history;

static charl_status visit_to_supersede(void *ctx, const char *dir, const char *name)
{
    history *h = ctx;
    const int64_t step = strtoll(name + strlen("step-"), NULL, 10);
    char from[PATH_BYTES], to[PATH_BYTES];

    if (step <= h->after || step == h->except) {
        return CHARL_OK;
    }
    CHARL_REQUIRE((size_t)snprintf(from, sizeof from, "%s/%s", dir, name) < sizeof from &&
                      (size_t)snprintf(to, sizeof to, "%s/%s.superseded", dir, name) < sizeof to,
                  CHARL_ERR_DISK, "the path %s/%s is too long", dir, name);
    CHARL_REQUIRE(rename(from, to) == 0, CHARL_ERR_DISK, "cannot rename %s: %s", from, strerror(errno));
    h->moved++;
    return CHARL_OK;
}

charl_status charl__rundir_supersede(const char *dir, int64_t after, int64_t except, int *moved)
{
    charl_status st = CHARL_OK;
    history h = {.after = after, .except = except};
    const int64_t best = charl_run_linked(dir, "best.h5"), last = charl_run_linked(dir, "last.h5");

    if (best > after) {
        CHARL_TRY_CLEANUP(remove_link(dir, "best.h5"));
    }
    CHARL_TRY_CLEANUP(each_checkpoint(dir, visit_to_supersede, &h));
    if (last > after && last != except) {
        CHARL_TRY_CLEANUP(remove_link(dir, "last.h5"));
    }
cleanup:
    *moved = h.moved;
    return st;
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
