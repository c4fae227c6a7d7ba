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

charl_status charl_run_prune(const char *dir, bool removes, charl_run_pruned *out)
{
    CHARL_GIVEN(dir, out);
    CHARL_SCOPED(run_left) charl__run *run = NULL;
    CHARL_SCOPED_FREE char *folder = NULL;
    const int64_t best = charl__run_linked(dir, "best.h5");
    const int64_t last = charl__run_linked(dir, "last.h5");
    charl_status st = CHARL_OK;
    charl__run_steps list = {0};
    bool busy = false;

    *out = (charl_run_pruned){0};
    CHARL_TRY_CLEANUP(charl_run_is_busy(dir, &busy));
    CHARL_REQUIRE_CLEANUP(!busy, CHARL_ERR_BUSY, "%s is training; HINT stop it first", dir);
    CHARL_TRY_CLEANUP(charl__run_list(dir, &list));
    if (list.count > 0 && removes) { /* a directory that is only looked at is not changed */
        CHARL_TRY_CLEANUP(charl__run_open(dir, &run));
    }
    for (int64_t i = 0; i + 1 < list.count; i++) { /* the newest stays, also where last.h5 names none */
        if (list.steps[i] != best && list.steps[i] != last) {
            CHARL_TRY_CLEANUP(prune_step(dir, list.steps[i], removes, out));
        }
    }
    if (removes && out->checkpoints > 0) {
        CHARL_TRY_CLEANUP(charl__commit_join(dir, "checkpoints", &folder));
        CHARL_TRY_CLEANUP(charl__commit_sync_dir(folder)); /* before their parts are removed */
        CHARL_TRY_CLEANUP(charl__ckpt_sweep(folder, NULL));
    }
cleanup:
    charl_free(list.steps);
    return st;
}
