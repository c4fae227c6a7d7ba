/* What a run directory holds beside what its last and its best checkpoint need. */
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "charl/checkpoint.h"
#include "files/run.h"
#include "io/checkpoint/checkpoint_parts.h"
#include "io/commit.h"
#include "io/scoped.h"

CHARL_SCOPED_POINTER(run_left, charl__run, charl__run_close)

charl_status charl_run_is_busy(const char *dir, bool *out)
{
    CHARL_GIVEN(dir, out);
    CHARL_SCOPED_FREE char *path = NULL;
    int fd;

    *out = false;
    CHARL_TRY(charl__commit_join(dir, ".lock", &path));
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd >= 0) { /* the lock is released with the descriptor; a training that starts meanwhile tries again */
        *out = flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
        close(fd);
    }
    return CHARL_OK;
}

/* Count the checkpoint of a step, or remove it. Bytes that another run shares are not freed. */
static charl_status prune_step(const char *dir, int64_t step, bool removes, charl_run_pruned *out)
{
    CHARL_SCOPED_FREE char *path = NULL;
    struct stat info;

    CHARL_TRY(charl__run_path(dir, step, &path));
    if (stat(path, &info) != 0) {
        return CHARL_OK;
    }
    out->checkpoints++;
    out->bytes += info.st_nlink == 1 ? charl_checkpoint_size(path) : 0;
    if (removes && unlink(path) != 0 && errno != ENOENT) {
        return charl__disk_error(path, "unlink", errno, -1);
    }
    return CHARL_OK;
}

/* The best step that the newest checkpoint knows, which best.h5 does not name where links were lost; -1: none. */
static charl_status find_best(const char *dir, const charl__run_steps *list, int64_t *out)
{
    CHARL_SCOPED(charl__checkpoint_left) charl_checkpoint_reader *r = NULL;
    CHARL_SCOPED_FREE char *path = NULL;
    charl_status st;

    *out = -1;
    if (list->count == 0) {
        return CHARL_OK;
    }
    CHARL_TRY(charl__run_path(dir, list->steps[list->count - 1], &path));
    st = charl_checkpoint_open(path, &r);
    if (st == CHARL_OK) {
        *out = charl_checkpoint_get_info(r).state->best_step;
    } else if (st != CHARL_ERR_NOMEM) { /* damaged */
        charl_error_clear();
        st = CHARL_OK;
    }
    return st;
}

charl_status charl_run_prune(const char *dir, bool removes, charl_run_pruned *out)
{
    CHARL_GIVEN(dir, out);
    CHARL_SCOPED(run_left) charl__run *run = NULL;
    CHARL_SCOPED_FREE char *folder = NULL;
    int64_t best, last, known;
    charl_status st = CHARL_OK;
    charl__run_steps list = {0};
    bool busy = false;

    *out = (charl_run_pruned){0};
    CHARL_TRY_CLEANUP(charl_run_is_busy(dir, &busy));
    CHARL_REQUIRE_CLEANUP(!busy, CHARL_ERR_BUSY, "%s is training; HINT stop it first", dir);
    CHARL_TRY_CLEANUP(charl__run_list(dir, &list));
    if (list.count > 0 && removes) { /* a directory that is only looked at is not changed */
        CHARL_TRY_CLEANUP(charl__run_open(dir, &run));
        charl_free(list.steps);
        list = (charl__run_steps){0};
        CHARL_TRY_CLEANUP(charl__run_list(dir, &list)); /* a training may have saved until then */
    }
    best = charl__run_linked(dir, "best.h5");
    last = charl__run_linked(dir, "last.h5");
    CHARL_TRY_CLEANUP(find_best(dir, &list, &known));
    for (int64_t i = 0; i + 1 < list.count; i++) { /* the newest stays, also where last.h5 names none */
        if (list.steps[i] != best && list.steps[i] != last && list.steps[i] != known) {
            CHARL_TRY_CLEANUP(prune_step(dir, list.steps[i], removes, out));
        }
    }
    if (removes && out->checkpoints > 0) {
        CHARL_TRY_CLEANUP(charl__commit_join(dir, "checkpoints", &folder));
        CHARL_TRY_CLEANUP(charl__commit_sync_dir(folder)); /* before their parts are removed */
        /* as when a run is opened: without a lock another job may be writing parts */
        CHARL_TRY_CLEANUP(charl__run_get_note(run)[0] ? CHARL_OK : charl__ckpt_sweep(folder, NULL));
    }
cleanup:
    charl_free(list.steps);
    return st;
}
