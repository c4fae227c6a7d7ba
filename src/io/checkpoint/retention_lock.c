/* One job per run directory. The lock is the kernel's (flock on DIR/.lock), so it ends with the
 * process, however it dies; the file's text only tells the second job who the first one is.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fault.h"
#include "charl/checkpoint.h"
#include "io/commit.h"

enum { HOLDER_BYTES = 512 };

struct charl_run {
    char *dir;
    int fd; /* of DIR/.lock; -1: none */
    const char *note;
};

/* mkdir -p, and durable: a new directory's entry needs its parent's fsync. */
static charl_status make_dirs(const char *dir)
{
    charl_status st = CHARL_OK;
    char *path = NULL;
    char *parent = NULL;
    struct stat s;

    CHARL_TRY(charl_strdup(dir, &path));
    for (char *p = path + 1; p[-1]; p++) {
        const char was = *p;

        if (was != '/' && was != '\0') {
            continue;
        }
        *p = '\0';
        if (mkdir(path, 0777) == 0) {
            CHARL_TRY(charl__commit_dir(path, &parent));
            CHARL_TRY(charl__commit_sync_dir(parent));
            charl_free(parent);
            parent = NULL;
        } else if (errno != EEXIST) {
            CHARL_TRY(charl__disk_error(path, "mkdir", errno, -1));
        }
        *p = was;
    }
    CHARL_REQUIRE(stat(dir, &s) == 0 && S_ISDIR(s.st_mode), CHARL_ERR_DISK,
                  "%s: is not a directory", dir);
cleanup:
    charl_free(parent);
    charl_free(path);
    return st;
}

/* Who holds the lock, from its text: "process 123 on host since ..." */
static charl_status refuse(const charl_run *run)
{
    charl_status st = CHARL_OK;
    char text[HOLDER_BYTES];
    const ssize_t n = pread(run->fd, text, sizeof text - 1, 0);

    text[n > 0 ? n : 0] = '\0';
    text[strcspn(text, "\n")] = '\0';
    CHARL_FAIL(CHARL_ERR_DISK, "%s: is in use by another job: %s", run->dir,
               text[0] ? text : "it has not said which");
cleanup:
    return st;
}

static charl_status sign(const charl_run *run, const char *path)
{
    charl_status st = CHARL_OK;
    char host[256], since[CHARL__CLOCK_TEXT], text[HOLDER_BYTES];
    int n;

    if (gethostname(host, sizeof host) != 0) {
        snprintf(host, sizeof host, "?");
    }
    host[sizeof host - 1] = '\0';
    charl__clock_format(charl__clock_wall_s(), since);
    n = snprintf(text, sizeof text, "process %ld on %s since %s\n", (long)getpid(), host, since);
    if (ftruncate(run->fd, 0) != 0 || pwrite(run->fd, text, (size_t)n, 0) != n) {
        CHARL_TRY(charl__disk_error(path, "write", errno ? errno : ENOSPC, n));
    }
cleanup:
    return st;
}

static charl_status lock(charl_run *run)
{
    charl_status st = CHARL_OK;
    char *path = NULL;
    int err = 0;

    CHARL_TRY(charl__commit_join(run->dir, ".lock", &path));
    CHARL_TRY(charl__acquire("file descriptor"));
    run->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0666);
    if (run->fd < 0) {
        err = errno;
        charl__drop();
        CHARL_TRY(charl__disk_error(path, "open", err, -1));
    }
    if (charl__fault("io.flock")) {
        err = ENOLCK;
    } else if (flock(run->fd, LOCK_EX | LOCK_NB) != 0) {
        err = errno;
    }
    if (err == EWOULDBLOCK) {
        CHARL_TRY(refuse(run));
    }
    if (err) {
        run->note = "the file system of the run directory has no locks: make sure that no other "
                    "job writes to it";
    }
    CHARL_TRY(sign(run, path));
cleanup:
    charl_free(path);
    return st;
}

charl_status charl_run_open(const char *dir, charl_run **out)
{
    charl_status st = CHARL_OK;
    charl_run *run = NULL;
    char *folder = NULL;

    *out = NULL;
    CHARL_REQUIRE(dir[0], CHARL_ERR_INVALID, "the run directory has no name");
    CHARL_TRY(charl_alloc(sizeof *run, &run));
    run->fd = -1;
    run->note = "";
    CHARL_TRY(charl_strdup(dir, &run->dir));
    CHARL_TRY(charl__commit_join(dir, "checkpoints", &folder));
    CHARL_TRY(make_dirs(folder));
    CHARL_TRY(lock(run));
    CHARL_TRY(charl__commit_sweep(folder, !run->note[0], NULL));
    CHARL_TRY(charl__commit_sweep(dir, !run->note[0], NULL));
    CHARL_TRY(charl__commit_probe(folder));
    CHARL_TRY(charl__commit_probe(dir));
    *out = run;
    run = NULL;
cleanup:
    charl_free(folder);
    charl_run_close(run);
    return st;
}

void charl_run_close(charl_run *run)
{
    if (!run) {
        return;
    }
    if (run->fd >= 0) {
        close(run->fd);
        charl__drop();
    }
    charl_free(run->dir);
    charl_free(run);
}

const char *charl_run_get_note(const charl_run *run)
{
    return run->note;
}
