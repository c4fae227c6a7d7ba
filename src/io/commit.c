/* The commit protocol. The descriptor that creates the temporary stays open until after the rename:
 * its fsync reports every write-back error since creation, and its flock tells a living writer from
 * a stale file even where process numbers are reused.
 */
#include "io/commit.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/handles.h"
#include "base/fault.h"
#include "base/log.h"

enum { HOST_BYTES = 256, ERROR_BYTES = 128 };

static const char marker[] = ".tmp.";

void charl__crash_point(const char *name)
{
    if (charl__fault(name)) {
        raise(SIGKILL);
    }
}

/* 0, or the errno that fault point `name` asks for. */
static int injected(const char *name)
{
    int64_t arg = 0;

    if (!charl__fault_arg(name, &arg)) {
        return 0;
    }
    return arg > 0 && arg < 4096 ? (int)arg : EIO;
}

static void host_name(char *host)
{
    if (gethostname(host, HOST_BYTES) != 0 || !host[0]) {
        snprintf(host, HOST_BYTES, "localhost");
    }
    host[HOST_BYTES - 1] = '\0';
    for (char *p = host; *p; p++) {
        *p = *p == '/' ? '_' : *p;
    }
}

int64_t charl__disk_free(const char *path)
{
    enum { TMPFS = 0x01021994 };
    const char *known = path; /* or its directory */
    struct statvfs v;
    struct statfs kind;
    char dir[4096];
    char *slash;
    int64_t pretended = 0, left;

    if (charl__fault_arg("io.statvfs", &pretended)) {
        return pretended > 0 ? pretended : -1;
    }
    if (statvfs(path, &v) != 0) {
        snprintf(dir, sizeof dir, "%s", path);
        slash = strrchr(dir, '/');
        if (slash) {
            slash[slash == dir ? 1 : 0] = '\0';
        } else {
            snprintf(dir, sizeof dir, ".");
        }
        known = dir;
        if (statvfs(dir, &v) != 0) {
            return -1;
        }
    }
    if (v.f_frsize == 0 || v.f_bavail > (uint64_t)INT64_MAX / v.f_frsize) {
        return -1;
    }
    left = (int64_t)(v.f_bavail * v.f_frsize);
    if (statfs(known, &kind) == 0 && kind.f_type == TMPFS) {
        const int64_t memory = charl__host_available();

        left = left < memory - memory / 16 ? left : memory - memory / 16;
    }
    return left;
}

int64_t charl__disk_largest(void)
{
    struct rlimit r;

    if (charl__fault("io.rlimit") || getrlimit(RLIMIT_FSIZE, &r) != 0 ||
        r.rlim_cur > (rlim_t)INT64_MAX) { /* RLIM_INFINITY is more */
        return -1;
    }
    return (int64_t)r.rlim_cur;
}

charl_status charl__disk_error(const char *path, const char *op, int err, int64_t needed)
{
    const int64_t left = charl__disk_free(path);
    const char *slash = strrchr(path, '/');
    char text[ERROR_BYTES], dir[4096];

    if (strerror_r(err, text, sizeof text) != 0) {
        snprintf(text, sizeof text, "error %d", err);
    }
    if (err == ENOENT && slash && (size_t)(slash - path) < sizeof dir) {
        snprintf(dir, sizeof dir, "%.*s", (int)(slash - path), path);
        if (dir[0] && access(dir, F_OK) != 0) {
            CHARL_REQUIRE(strchr(dir, '\''), CHARL_ERR_DISK,
                          "%s: %s failed: the folder %s does not exist; make it with: mkdir -p '%s'", path, op, dir,
                          dir);
            CHARL_FAIL(CHARL_ERR_DISK, "%s: %s failed: the folder %s does not exist", path, op, dir);
        }
    }
    if (needed >= 0 && left >= 0) {
        CHARL_FAIL(CHARL_ERR_DISK, "%s: %s failed: %s (%lld bytes needed, %lld free)", path, op, text,
                   (long long)needed, (long long)left);
    }
    CHARL_FAIL(CHARL_ERR_DISK, "%s: %s failed: %s", path, op, text);
    return CHARL_OK;
}

const char *charl__base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

charl_status charl__commit_dir(const char *path, char **out)
{
    const char *slash = strrchr(path, '/');

    CHARL_TRY(charl__strdup(slash ? path : ".", out));
    if (slash) {
        (*out)[slash == path ? 1 : slash - path] = '\0';
    }
    return CHARL_OK;
}

charl_status charl__commit_join(const char *dir, const char *name, char **out)
{
    const size_t bytes = strlen(dir) + strlen(name) + 2;

    CHARL_TRY(charl__alloc(bytes, out));
    snprintf(*out, bytes, "%s/%s", dir, name);
    return CHARL_OK;
}

/* Reuse a temporary of the same name, left by a dead process with the same process ID. */
static charl_status remove_stale(const char *temp)
{
    CHARL_SCOPED(charl__descriptor_left) const int fd = open(temp, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);

    CHARL_REQUIRE(fd >= 0 || errno != ELOOP, CHARL_ERR_DISK,
                  "%s: is a symbolic link, which is not followed; HINT remove it", temp);
    CHARL_REQUIRE(fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0, CHARL_ERR_DISK, "%s: is being written already", temp);
    if (unlink(temp) != 0) {
        CHARL_TRY(charl__disk_error(temp, "unlink", errno, -1));
    }
    return CHARL_OK;
}

/* Create c->temp; *exists when something has that name already. */
static charl_status create_temp(charl__commit *c, bool *exists)
{
    int err = injected("io.create");

    *exists = false;
    CHARL_TRY(charl__acquire("file descriptor"));
    c->fd = err ? -1 : open(c->temp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (c->fd < 0) {
        err = err ? err : errno;
        *exists = err == EEXIST;
        charl__drop();
        CHARL_TRY(charl__disk_error(c->final, "create", err, -1));
    }
    (void)flock(c->fd, LOCK_EX | LOCK_NB); /* where there are no locks the process number must do */
    return CHARL_OK;
}

charl_status charl__commit_begin(const char *final, charl__commit *c)
{
    charl_status st = CHARL_OK;
    char host[HOST_BYTES];
    bool exists = false;
    struct stat s;
    size_t bytes;

    *c = (charl__commit){.fd = -1};
    host_name(host);
    bytes = strlen(final) + sizeof marker + strlen(host) + 32;
    CHARL_TRY_CLEANUP(charl__strdup(final, &c->final));
    CHARL_TRY_CLEANUP(charl__alloc(bytes, &c->temp));
    snprintf(c->temp, bytes, "%s%s%s.%ld", final, marker, host, (long)getpid());
    CHARL_REQUIRE_CLEANUP(lstat(final, &s) != 0 || S_ISREG(s.st_mode), CHARL_ERR_DISK,
                          "%s: exists and is not a regular file", final);
    st = create_temp(c, &exists);
    if (exists) {
        CHARL_TRY_CLEANUP(remove_stale(c->temp));
        st = create_temp(c, &exists);
    }
    CHARL_TRY_CLEANUP(st);
cleanup:
    if (st != CHARL_OK) {
        charl_free(c->temp); /* whatever has that name is not ours to remove */
        c->temp = NULL;
        charl__commit_fini(c);
    }
    return st;
}

charl_status charl__commit_check_inputs(const char *output, const char *const *inputs, int64_t n)
{
    struct stat out, in;

    if (!output || stat(output, &out) != 0 || !S_ISREG(out.st_mode)) {
        return CHARL_OK;
    }
    for (int64_t i = 0; i < n; i++) {
        CHARL_REQUIRE(!inputs[i] || stat(inputs[i], &in) != 0 || in.st_dev != out.st_dev || in.st_ino != out.st_ino,
                      CHARL_ERR_CONFIG,
                      "the output %s is the same file as the input %s, which would be lost; HINT name another output",
                      output, inputs[i]);
    }
    return CHARL_OK;
}

/* fsync through signals; 0 or the errno. */
static int sync_fd(int fd, const char *point)
{
    int err = injected(point);

    while (!err && fsync(fd) != 0) {
        if (errno != EINTR) {
            err = errno;
        }
    }
    return err;
}

charl_status charl__commit_sync_dir(const char *dir)
{
    charl_status st = CHARL_OK;
    int fd = -1;
    int err;

    CHARL_TRY_CLEANUP(charl__acquire("file descriptor"));
    fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        err = errno;
        charl__drop();
        CHARL_TRY_CLEANUP(charl__disk_error(dir, "open of the directory", err, -1));
    }
    err = sync_fd(fd, "io.dirfsync");
    if (err && err != EINVAL) { /* EINVAL: a file system whose directories need no fsync */
        CHARL_TRY_CLEANUP(charl__disk_error(dir, "fsync of the directory", err, -1));
    }
cleanup:
    if (fd >= 0) {
        close(fd);
        charl__drop();
    }
    return st;
}

charl_status charl__commit_end(charl__commit *c, charl_status (*verify)(const char *temp, void *user), void *user)
{
    CHARL_SCOPED_FREE char *dir = NULL;
    int err;

    CHARL_TRY(charl__commit_dir(c->final, &dir));
    charl__crash_point("io.crash.written");
    err = sync_fd(c->fd, "io.fsync");
    if (err) {
        CHARL_TRY(charl__disk_error(c->final, "fsync", err, -1));
    }
    charl__crash_point("io.crash.synced");
    if (verify) {
        CHARL_TRY(verify(c->temp, user));
    }
    charl__crash_point("io.crash.verified");
    err = injected("io.rename");
    if (err || rename(c->temp, c->final) != 0) {
        CHARL_TRY(charl__disk_error(c->final, "rename", err ? err : errno, -1));
    }
    charl_free(c->temp);
    c->temp = NULL;
    charl__crash_point("io.crash.renamed");
    CHARL_TRY(charl__commit_sync_dir(dir));
    return CHARL_OK;
}

void charl__commit_fini(charl__commit *c)
{
    if (c->temp && c->fd >= 0) {
        unlink(c->temp);
    }
    if (c->fd >= 0) {
        close(c->fd);
        charl__drop();
    }
    charl_free(c->temp);
    charl_free(c->final);
    *c = (charl__commit){.fd = -1};
}

charl_status charl__commit_write(charl__commit *c, const void *data, size_t bytes)
{
    const char *at = data;
    size_t left = bytes;

    while (left > 0) {
        const int err = injected("io.write");
        const ssize_t n = err ? -1 : write(c->fd, at, left < CHARL__PIECE ? left : CHARL__PIECE);
        int failed = n < 0 ? (err ? err : errno) : 0;

        if (n > 0) {
            at += n;
            left -= (size_t)n;
            c->written += n;
            failed = charl__writeback_step(&c->writeback, c->fd, c->written);
            charl__progress_made();
        }
        if (failed && (err || failed != EINTR)) {
            CHARL_TRY(charl__disk_error(c->final, "write", failed, (int64_t)bytes));
        }
    }
    return CHARL_OK;
}

charl_status charl__commit_bytes(const char *path, const void *data, size_t bytes)
{
    charl_status st = CHARL_OK;
    charl__commit c;

    CHARL_TRY_CLEANUP(charl__commit_begin(path, &c));
    CHARL_TRY_CLEANUP(charl__commit_write(&c, data, bytes));
    CHARL_TRY_CLEANUP(charl__commit_end(&c, NULL, NULL));
cleanup:
    charl__commit_fini(&c);
    return st;
}

/* Write at `at`; 0 or the errno. */
static int write_at(int fd, const char *data, size_t bytes, int64_t at)
{
    int err = injected("io.write");

    while (!err && bytes > 0) {
        const ssize_t n = pwrite(fd, data, bytes, (off_t)at);

        if (n > 0) {
            data += n;
            bytes -= (size_t)n;
            at += n;
        } else if (errno != EINTR) {
            err = errno;
        }
    }
    return err;
}

charl_status charl__commit_append(const char *path, int64_t at, const void *data, size_t bytes)
{
    charl_status st = CHARL_OK;
    const char *op = "write";
    struct stat s;
    int fd = -1, err = 0;

    CHARL_TRY_CLEANUP(charl__acquire("file descriptor"));
    fd = open(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) {
        err = errno;
        charl__drop();
        CHARL_TRY_CLEANUP(charl__disk_error(path, "open", err, -1));
    }
    CHARL_REQUIRE_CLEANUP(fstat(fd, &s) == 0 && S_ISREG(s.st_mode), CHARL_ERR_DISK, "%s: is not a regular file", path);
    CHARL_REQUIRE_CLEANUP(s.st_size >= at, CHARL_ERR_DISK,
                          "%s: has %lld bytes, and had %lld: another program has shortened it", path,
                          (long long)s.st_size, (long long)at);
    if (s.st_size > at && ftruncate(fd, (off_t)at) != 0) {
        CHARL_TRY_CLEANUP(charl__disk_error(path, "truncate", errno, -1));
    }
    if (charl__fault("io.crash.append")) {
        (void)!write_at(fd, data, bytes / 2, at);
        raise(SIGKILL);
    }
    err = write_at(fd, data, bytes, at);
    if (!err) {
        op = "fsync";
        err = sync_fd(fd, "io.fsync");
    }
    if (err) {
        (void)!ftruncate(fd, (off_t)at); /* else the next append does it */
        CHARL_TRY_CLEANUP(charl__disk_error(path, op, err, (int64_t)bytes));
    }
cleanup:
    if (fd >= 0) {
        close(fd);
        charl__drop();
    }
    return st;
}

charl_status charl__commit_sync(const char *path)
{
    CHARL_SCOPED(charl__descriptor_left) const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    int err = 0;

    if (fd >= 0 && fsync(fd) != 0) {
        err = errno;
    }
    if (err && err != EINVAL) {
        CHARL_TRY(charl__disk_error(path, "fsync", err, -1));
    }
    return CHARL_OK;
}

charl_status charl__log_open(const char *path, bool afresh, FILE **out)
{
    charl_status st = CHARL_OK;
    const int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
    struct stat s;

    *out = NULL;
    CHARL_REQUIRE_CLEANUP(fd >= 0 || errno != ELOOP, CHARL_ERR_DISK,
                          "%s: is a symbolic link, which is not followed; HINT remove it", path);
    if (fd < 0) {
        CHARL_TRY_CLEANUP(charl__disk_error(path, "open", errno, -1));
    }
    CHARL_REQUIRE_CLEANUP(fstat(fd, &s) == 0 && S_ISREG(s.st_mode) && (!afresh || s.st_nlink == 1), CHARL_ERR_DISK,
                          "%s: is not a file of its own; HINT remove it", path);
    if (afresh && ftruncate(fd, 0) != 0) {
        CHARL_TRY_CLEANUP(charl__disk_error(path, "truncate", errno, -1));
    }
    *out = fdopen(fd, "a");
    CHARL_REQUIRE_CLEANUP(*out, CHARL_ERR_NOMEM, "%s: cannot be opened: no memory", path);
cleanup:
    if (fd >= 0 && !*out) {
        close(fd);
    }
    return st;
}

charl_status charl__log_append(FILE *f, const char *path, const void *data, size_t bytes)
{
    const int fault = injected("io.log");
    const size_t wanted = fault ? bytes / 2 : bytes; /* a disk that fills up takes a part */
    struct stat before;
    bool ok;
    int error;

    CHARL_REQUIRE(fstat(fileno(f), &before) == 0, CHARL_ERR_DISK, "cannot write %s: %s", path, strerror(errno));
    ok = fwrite(data, 1, wanted, f) == wanted && fflush(f) == 0;
    error = fault ? fault : errno;
    if (ok && !fault) {
        return CHARL_OK;
    }
    __fpurge(f);
    clearerr(f);
    if (ftruncate(fileno(f), before.st_size) != 0) {
        charl__log(CHARL_LOG_DEBUG, "%s: cannot remove a torn record: %s", path, strerror(errno));
    }
    CHARL_FAIL(CHARL_ERR_DISK, "cannot write %s: %s", path, strerror(error));
}

/* Whether `name` is a temporary of a commit; then *pid and *here (made on this host). */
static bool parse_temp(const char *name, const char *host, long *pid, bool *here)
{
    const char *mark = NULL;
    const char *dot = strrchr(name, '.');
    char *end = NULL;

    for (const char *p = strstr(name, marker); p; p = strstr(p + 1, marker)) {
        mark = p;
    }
    if (!mark || !dot || dot <= mark + sizeof marker - 1 || dot[1] < '0' || dot[1] > '9') {
        return false;
    }
    *pid = strtol(dot + 1, &end, 10);
    mark += sizeof marker - 1;
    *here = strlen(host) == (size_t)(dot - mark) && strncmp(host, mark, strlen(host)) == 0;
    return *end == '\0' && *pid > 0;
}

/* Remove `path` unless its writer may be alive. */
static bool remove_if_dead(int dirfd, const char *name, long pid, bool exclusive)
{
    const bool ours = pid == (long)getpid();
    const bool dead = !ours && kill((pid_t)pid, 0) != 0 && errno == ESRCH;
    bool removed = false;
    const int fd = openat(dirfd, name, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
    bool locked;

    if (fd < 0) {
        return false;
    }
    locked = flock(fd, LOCK_EX | LOCK_NB) == 0;
    if (locked ? dead || ours || exclusive : dead && errno != EWOULDBLOCK) {
        removed = unlinkat(dirfd, name, 0) == 0;
    }
    close(fd);
    return removed;
}

charl_status charl__commit_sweep(const char *dir, bool exclusive, int *removed)
{
    CHARL_SCOPED(charl__directory_left) DIR *d = NULL;
    char host[HOST_BYTES];
    int count = 0;

    if (removed) {
        *removed = 0;
    }
    host_name(host);
    CHARL_TRY(charl__directory_open(dir, &d));
    if (!d) {
        return charl__disk_error(dir, "open of the directory", errno, -1);
    }
    for (const struct dirent *e; (e = readdir(d)) != NULL;) {
        long pid = 0;
        bool here = false;

        if (parse_temp(e->d_name, host, &pid, &here) && (here || exclusive)) {
            count += remove_if_dead(dirfd(d), e->d_name, pid, exclusive) ? 1 : 0;
        }
    }
    if (removed) {
        *removed = count;
    }
    return CHARL_OK;
}

charl_status charl__commit_probe(const char *dir)
{
    CHARL_SCOPED_FREE char *path = NULL;
    char name[HOST_BYTES + 64], host[HOST_BYTES];

    host_name(host); /* named as a temporary: if this process is killed, charl__commit_sweep removes it */
    snprintf(name, sizeof name, ".probe%s%s.%ld", marker, host, (long)getpid());
    CHARL_TRY(charl__commit_join(dir, name, &path));
    CHARL_TRY(charl__commit_bytes(path, "probe\n", 6));
    if (unlink(path) != 0) {
        CHARL_TRY(charl__disk_error(path, "unlink", errno, -1));
    }
    return CHARL_OK;
}
