/* One job per run directory. The locks belong to the kernel (flock), so they end with the process,
 * however it dies. There are two:
 *
 *     DIR          cannot be removed without the directory; some file systems cannot lock it
 *     DIR/.lock    its text says which job holds the directory
 *
 * While a job runs, either may be removed or replaced: charl__run_check detects it.
 */
#include <dirent.h>
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
#include "base/owner.h"
#include "charl/checkpoint.h"
#include "files/run.h"
#include "io/checkpoint/checkpoint_parts.h"
#include "io/commit.h"

enum { HOLDER_BYTES = 512 };

struct charl__run {
    charl__owner owner; /* while it is checked */
    char *dir, *lock_path;
    char *made;          /* the first of the directories that did not exist; NULL: all did */
    int dir_fd, lock_fd; /* -1: not open */
    const char *note;
};

/* mkdir -p, and durable: a new directory's entry needs its parent's fsync. */
static charl_status make_dirs(const char *dir, char **made)
{
    CHARL_SCOPED_FREE char *path = NULL;
    CHARL_SCOPED_FREE char *parent = NULL;
    struct stat s;

    CHARL_TRY(charl__strdup(dir, &path));
    for (char *p = path + 1; p[-1]; p++) {
        const char was = *p;

        if (was != '/' && was != '\0') {
            continue;
        }
        *p = '\0';
        if (mkdir(path, 0777) == 0) {
            CHARL_TRY(*made ? CHARL_OK : charl__strdup(path, made));
            CHARL_TRY(charl__commit_dir(path, &parent));
            CHARL_TRY(charl__commit_sync_dir(parent));
            charl_free(parent);
            parent = NULL;
        } else if (errno != EEXIST) {
            CHARL_TRY(charl__disk_error(path, "mkdir", errno, -1));
        } else if (stat(path, &s) == 0) {
            CHARL_REQUIRE(S_ISDIR(s.st_mode), CHARL_ERR_DISK,
                          "%s is a file, not a folder; HINT name another folder with -o", path);
        }
        *p = was;
    }
    CHARL_REQUIRE(stat(dir, &s) == 0 && S_ISDIR(s.st_mode), CHARL_ERR_DISK, "%s: is not a directory", dir);
    return CHARL_OK;
}

/* Open and count a descriptor. On failure errno is set. */
static charl_status open_counted(const char *path, int flags, int *fd)
{
    CHARL_TRY(charl__acquire("file descriptor"));
    *fd = open(path, flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
    if (*fd < 0) {
        const int err = errno;

        charl__drop();
        CHARL_REQUIRE(err != ELOOP, CHARL_ERR_DISK, "%s: is a symbolic link, which is not followed; HINT remove it",
                      path);
        CHARL_TRY(charl__disk_error(path, "open", err, -1));
    }
    return CHARL_OK;
}

static void close_counted(int *fd)
{
    if (*fd >= 0) {
        close(*fd);
        charl__drop();
        *fd = -1;
    }
}

/* 0, or the errno: EWOULDBLOCK when another job has the lock, anything else where there are none.
 */
static int try_lock(int fd)
{
    if (charl__fault("io.flock")) {
        return ENOLCK;
    }
    return flock(fd, LOCK_EX | LOCK_NB) == 0 ? 0 : errno;
}

/* The holder of the directory, from the text of .lock: "process 123 on host since ..." */
static charl_status refuse(const charl__run *run)
{
    char text[HOLDER_BYTES];
    const int fd = open(run->lock_path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    const ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof text - 1);

    if (fd >= 0) {
        close(fd);
    }
    text[n > 0 ? n : 0] = '\0';
    text[strcspn(text, "\n")] = '\0';
    CHARL_FAIL(CHARL_ERR_BUSY, "%s: is in use by another job%s%s", run->dir, text[0] ? ": " : "",
               text[0] ? text : ", whose lock file does not name it");
    return CHARL_OK;
}

static charl_status sign(const charl__run *run)
{
    char host[256], since[CHARL__CLOCK_TEXT], text[HOLDER_BYTES];
    int n;

    if (gethostname(host, sizeof host) != 0) {
        snprintf(host, sizeof host, "?");
    }
    host[sizeof host - 1] = '\0';
    charl__clock_format(charl__clock_wall_s(), since);
    n = snprintf(text, sizeof text, "process %ld on %s since %s\n", (long)getpid(), host, since);
    if (ftruncate(run->lock_fd, 0) != 0 || pwrite(run->lock_fd, text, (size_t)n, 0) != n) {
        CHARL_TRY(charl__disk_error(run->lock_path, "write", errno ? errno : ENOSPC, n));
    }
    return CHARL_OK;
}

/* Whether `path` itself, not the target of a link in its place, is the open file. */
static bool is_same(const char *path, int fd)
{
    struct stat named, opened;

    return lstat(path, &named) == 0 && fstat(fd, &opened) == 0 && named.st_dev == opened.st_dev &&
           named.st_ino == opened.st_ino;
}

/* Create or open .lock, lock it and sign it. */
static charl_status lock_file(charl__run *run)
{
    charl_status st = CHARL_OK;
    struct stat s;
    int err = 0;

    do { /* again if a job that was just ending has removed it in the meantime */
        close_counted(&run->lock_fd);
        CHARL_TRY_CLEANUP(open_counted(run->lock_path, O_RDWR | O_CREAT, &run->lock_fd));
        CHARL_REQUIRE_CLEANUP(fstat(run->lock_fd, &s) == 0 && S_ISREG(s.st_mode) && s.st_nlink <= 1, CHARL_ERR_DISK,
                              "%s: is not a file of its own, and would be overwritten; HINT remove it", run->lock_path);
        err = try_lock(run->lock_fd);
        if (err == EWOULDBLOCK) {
            CHARL_TRY_CLEANUP(refuse(run));
        }
    } while (!is_same(run->lock_path, run->lock_fd));
    if (err) {
        run->note = "the file system of the run directory has no locks: make sure that no other "
                    "job writes to it";
    }
    CHARL_TRY_CLEANUP(sign(run));
cleanup:
    if (st != CHARL_OK) {
        close_counted(&run->lock_fd);
    }
    return st;
}

static charl_status lock(charl__run *run)
{
    CHARL_TRY(charl__acquire("file descriptor"));
    run->dir_fd = open(run->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (run->dir_fd < 0) {
        const int err = errno;

        charl__drop();
        CHARL_TRY(charl__disk_error(run->dir, "open of the directory", err, -1));
    }
    if (flock(run->dir_fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
        CHARL_TRY(refuse(run));
    }
    CHARL_TRY(lock_file(run));
    return CHARL_OK;
}

charl_status charl__run_check(charl__run *run)
{
    CHARL_GIVEN(run);
    CHARL_OWNED(&run->owner, "run directory");
    struct stat named, opened;

    CHARL_REQUIRE(stat(run->dir, &named) == 0 && fstat(run->dir_fd, &opened) == 0 && named.st_dev == opened.st_dev &&
                      named.st_ino == opened.st_ino,
                  CHARL_ERR_DISK,
                  "%s: the run directory was removed or replaced while this job writes to it; HINT "
                  "put it back, or run the same command to begin in the new one",
                  run->dir);
    if (!is_same(run->lock_path, run->lock_fd)) {
        CHARL_TRY(lock_file(run));
    }
    return CHARL_OK;
}

charl_status charl__run_open(const char *dir, charl__run **out)
{
    CHARL_GIVEN(dir, out);
    charl_status st = CHARL_OK;
    charl__run *run = NULL;
    char *folder = NULL, *link = NULL;

    *out = NULL;
    CHARL_REQUIRE_CLEANUP(dir[0], CHARL_ERR_INVALID, "the run directory has no name");
    CHARL_TRY_CLEANUP(charl__alloc(sizeof *run, &run));
    charl__owner_init(&run->owner);
    run->dir_fd = run->lock_fd = -1;
    run->note = "";
    CHARL_TRY_CLEANUP(charl__strdup(dir, &run->dir));
    CHARL_TRY_CLEANUP(charl__commit_join(dir, ".lock", &run->lock_path));
    CHARL_TRY_CLEANUP(charl__commit_join(dir, "checkpoints", &folder));
    CHARL_TRY_CLEANUP(make_dirs(folder, &run->made));
    CHARL_TRY_CLEANUP(lock(run));
    CHARL_TRY_CLEANUP(charl__commit_sweep(folder, !run->note[0], NULL));
    CHARL_TRY_CLEANUP(charl__commit_sweep(dir, !run->note[0], NULL));
    CHARL_TRY_CLEANUP(!run->note[0] ? charl__ckpt_sweep(folder, NULL)
                                    : CHARL_OK); /* without a lock another job may be writing them */
    CHARL_TRY_CLEANUP(charl__commit_join(dir, CHARL__LINK_TEMP, &link));
    if (unlink(link) != 0 && errno != ENOENT) {
        CHARL_TRY_CLEANUP(charl__disk_error(link, "unlink", errno, -1));
    }
    CHARL_TRY_CLEANUP(charl__commit_probe(folder));
    CHARL_TRY_CLEANUP(charl__commit_probe(dir));
    *out = run;
    run = NULL;
cleanup:
    charl_free(folder);
    charl_free(link);
    charl__run_close(run);
    return st;
}

/* Whether a directory created by this job contains nothing but .lock. */
static bool is_unused(const charl__run *run)
{
    const struct dirent *entry;
    DIR *d = run->made ? opendir(run->dir) : NULL;
    int others = 0;

    while (d && (entry = readdir(d)) != NULL) {
        others +=
            strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 && strcmp(entry->d_name, ".lock") != 0;
    }
    if (d) {
        closedir(d);
    }
    return d && others == 0;
}

/* A job that was refused and wrote nothing removes the directories that it created. */
static void remove_unused(charl__run *run)
{
    char path[4096];

    if (!run->made || (size_t)snprintf(path, sizeof path, "%s/checkpoints", run->dir) >= sizeof path) {
        return;
    }
    (void)rmdir(path);
    if (!is_unused(run) || unlink(run->lock_path) != 0) {
        return;
    }
    for (char *end = path + strlen(run->dir); end && strlen(run->made) <= (size_t)(end - path);
         end = strrchr(path, '/')) {
        *end = '\0';
        if (rmdir(path) != 0 && errno != ENOENT) {
            return;
        }
    }
}

void charl__run_close(charl__run *run)
{
    if (!run) {
        return;
    }
    remove_unused(run);
    close_counted(&run->lock_fd);
    close_counted(&run->dir_fd);
    charl_free(run->made);
    charl_free(run->lock_path);
    charl_free(run->dir);
    charl_free(run);
}

const char *charl__run_get_note(const charl__run *run)
{
    return run ? run->note : NULL;
}
