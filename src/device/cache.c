#define _GNU_SOURCE /* F_OFD_SETLK */
/* Compiled programs on disk, shared by all processes of a user.
 *
 * They are executed, so nothing is read that another user could have written: directory and
 * file must belong to this user or to root, and only the owner may write to them.
 *
 * An entry is named after the SHA-256 of the compiler's entire input and of the driver, and
 * is created by rename, so ranks may start together; one of them builds a program, the others wait for
 * its entry. It has its length and a checksum; an invalid entry is ignored and rewritten.
 *
 * PoCL has its own cache of kernels, which it compiles at the first launch for each size of
 * work-groups. If asked for a program's binary, it compiles every kernel once more, for work-groups of
 * any size, which no launch here uses. So its programs have no entries here, unless
 * POCL_KERNEL_CACHE=0 disables its cache; one of the ranks that need a kernel compiles it all the same,
 * and the others find it in PoCL's cache. (Without that cache each process needs its own POCL_CACHE_DIR: PoCL 3.1
 * aborts if two load the same binary at once.) */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/env.h"
#include "base/handles.h"
#include "base/numeric/hash.h"
#include "base/log.h"
#include "base/text/text.h"
#include "device/device_private.h"

typedef struct header {
    char magic[8]; /* increment when the layout changes */
    uint64_t bytes;
    uint64_t crc;
} header;

static const char magic[8] = "charlcl1";
enum { LOCK_DIGITS = 15, LOCK_PATIENCE_S = 300 };

static const uint64_t largest = (uint64_t)1 << 30;

static bool make_dir(const char *path)
{
    return mkdir(path, 0700) == 0 || errno == EEXIST;
}

/* Like mkdir -p; returns whether files can be created in it. */
static bool make_dirs(char *path)
{
    for (char *p = path + 1; *p; p++) {
        if (*p == '/') {
            bool is_made;

            *p = '\0';
            is_made = make_dir(path);
            *p = '/';
            if (!is_made) {
                return false;
            }
        }
    }
    return make_dir(path) && access(path, W_OK | X_OK) == 0;
}

/* Whether only this user and root can have written it. */
static bool is_private(const struct stat *s)
{
    return (s->st_uid == geteuid() || s->st_uid == 0) && (s->st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

/* Whether a directory may be used; warns once if not. */
static bool is_trusted(const char *dir)
{
    static atomic_bool is_said;
    struct stat s;

    if (stat(dir, &s) != 0 || is_private(&s)) {
        return true; /* a missing file is reported when it is opened */
    }
    if (!atomic_exchange(&is_said, true)) {
        charl__log(CHARL_LOG_WARN,
                   "the kernel cache %s is not used: it belongs to user %ld and has mode %03o, so "
                   "others could put programs there. Make it private (chown, chmod go-w), or set "
                   "CHARL_CACHE_DIR to another directory",
                   dir, (long)s.st_uid, (unsigned)(s.st_mode & 0777));
    }
    return false;
}

FILE *charl__cache_file_open(const char *path)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    FILE *f = NULL;
    struct stat s;

    if (fd < 0) {
        return NULL;
    }
    if (fstat(fd, &s) == 0 && S_ISREG(s.st_mode) && is_private(&s)) {
        f = fdopen(fd, "rb");
    } else {
        charl__log(CHARL_LOG_INFO, "ignoring %s in the kernel cache: others could have written it", path);
    }
    if (!f) {
        close(fd);
    }
    return f;
}

FILE *charl__cache_file_create(const char *path)
{
    FILE *f;
    int fd;

    (void)unlink(path); /* left by a dead process that had this ID */
    fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    f = fd < 0 ? NULL : fdopen(fd, "wb");
    if (fd >= 0 && !f) {
        close(fd);
    }
    return f;
}

charl_status charl__cache_open(char **out)
{
    const char *dir = charl__env(CHARL_ENV_CACHE_DIR);
    const char *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    CHARL_SCOPED(charl__text_fini) charl__text path = {0};

    *out = NULL;
    if (dir) {
        CHARL_TRY(charl__text_printf(&path, "%s", dir));
    } else if (xdg && xdg[0] == '/') {
        CHARL_TRY(charl__text_printf(&path, "%s/charl", xdg));
    } else if (home && home[0] == '/') {
        CHARL_TRY(charl__text_printf(&path, "%s/.cache/charl", home));
    }
    if (path.data && make_dirs(path.data)) {
        *out = is_trusted(path.data) ? charl__text_steal(&path) : NULL;
    } else {
        charl__log(CHARL_LOG_INFO, "no kernel cache: cannot write to %s", path.data ? path.data : "a home directory");
    }
    return CHARL_OK;
}

bool charl__is_pocl(const charl_device_info *info)
{
    return info->kind == CHARL_DEVICE_CPU && strcmp(info->platform, "Portable Computing Language") == 0;
}

void charl__cache_know_pocl(charl_device *dev)
{
    const char *keeps = getenv("POCL_KERNEL_CACHE");

    dev->pocl = charl__is_pocl(&dev->info);
    dev->pocl_keeps = dev->pocl && (!keeps || keeps[0] == '1');
}

/* Whether files can be created in `path`, or in its nearest existing parent directory. */
static bool can_be_made(const char *path)
{
    char dir[4096];
    char *slash;

    snprintf(dir, sizeof dir, "%s", path);
    while (access(dir, F_OK) != 0 && errno == ENOENT && (slash = strrchr(dir, '/')) != NULL) {
        slash[slash == dir ? 1 : 0] = '\0';
    }
    return access(dir, W_OK | X_OK) == 0;
}

/* PoCL's default: pocl/kcache in $XDG_CACHE_HOME or ~/.cache, where charl has its cache too. */
static bool can_use_default(void)
{
    const char *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    char base[4096], path[4096];
    int n = sizeof base;

    if (xdg && xdg[0]) {
        n = snprintf(base, sizeof base, "%s", xdg);
    } else if (home && home[0]) {
        n = snprintf(base, sizeof base, "%s/.cache", home);
    }
    return n < (int)sizeof base && make_dirs(base) &&
           snprintf(path, sizeof path, "%s/pocl/kcache", base) < (int)sizeof path && can_be_made(path) &&
           is_trusted(path);
}

void charl__cache_place_pocl(void)
{
    static const char variable[] = "POCL_CACHE_DIR";
    const char *dir = charl__env(CHARL_ENV_CACHE_DIR), *temporary = getenv("TMPDIR");
    char path[4096];
    struct stat s;

    if (getenv(variable)) {
        return;
    }
    if (dir && snprintf(path, sizeof path, "%s/pocl", dir) < (int)sizeof path && make_dirs(path) && is_trusted(dir) &&
        is_trusted(path)) {
        (void)setenv(variable, path, 0);
        return;
    }
    if (can_use_default()) {
        return;
    }
    /* PoCL has no devices if it cannot write there, and without HOME uses /tmp/pocl of any user. */
    if (snprintf(path, sizeof path, "%s/charl-%ld", temporary && temporary[0] ? temporary : "/tmp", (long)geteuid()) <
            (int)sizeof path &&
        make_dirs(path) && lstat(path, &s) == 0 && S_ISDIR(s.st_mode) && is_trusted(path)) {
        (void)setenv(variable, path, 0);
        return;
    }
    charl__log(CHARL_LOG_WARN, "there is no directory in which PoCL can keep compiled kernels: set "
                               "CHARL_CACHE_DIR to one that you can write to");
}

static void add(charl__sha256 *s, const char *text)
{
    charl__sha256_update(s, text, strlen(text) + 1); /* the NUL separates the parts */
}

void charl__cache_key(const charl_device *dev, const char *const source[3], const char *options, char *key)
{
    unsigned char digest[CHARL__SHA256_BYTES];
    charl__sha256 s;

    charl__sha256_init(&s);
    for (int i = 0; i < 3; i++) {
        add(&s, source[i]);
    }
    add(&s, options);
    add(&s, dev->info.name);
    add(&s, dev->info.version);
    add(&s, dev->info.driver);
    add(&s, dev->found.platform_version);
    charl__sha256_final(&s, digest);
    charl__sha256_format(digest, key);
}

static charl_status read_entry(FILE *f, unsigned char **out, size_t *bytes)
{
    header h;
    CHARL_SCOPED_FREE unsigned char *data = NULL;

    *out = NULL;
    if (fread(&h, sizeof h, 1, f) != 1 || memcmp(h.magic, magic, sizeof magic) != 0 || h.bytes == 0 ||
        h.bytes > largest) {
        return CHARL_OK;
    }
    CHARL_TRY(charl__alloc((size_t)h.bytes, &data));
    if (fread(data, 1, (size_t)h.bytes, f) == (size_t)h.bytes && charl__crc32c(0, data, (size_t)h.bytes) == h.crc) {
        *bytes = (size_t)h.bytes;
        *out = data;
        data = NULL;
    }
    return CHARL_OK;
}

bool charl__cache_has(const charl_device *dev, const char *key)
{
    char path[4096];

    return dev->cache_dir && !dev->pocl_keeps &&
           snprintf(path, sizeof path, "%s/%s.bin", dev->cache_dir, key) < (int)sizeof path && access(path, R_OK) == 0;
}

charl_status charl__cache_load(charl_device *dev, const char *key, const char *options, charl__driver_program **out)
{
    CHARL_SCOPED(charl__text_fini) charl__text path = {0};
    CHARL_SCOPED_FREE unsigned char *data = NULL;
    size_t bytes = 0;
    CHARL_SCOPED(charl__file_left) FILE *f = NULL;

    *out = NULL;
    if (!dev->cache_dir || dev->pocl_keeps) {
        return CHARL_OK;
    }
    CHARL_TRY(charl__text_printf(&path, "%s/%s.bin", dev->cache_dir, key));
    f = charl__cache_file_open(charl__text_string(&path));
    if (!f) {
        return CHARL_OK;
    }
    CHARL_TRY(read_entry(f, &data, &bytes));
    if (data) {
        CHARL_TRY(dev->driver->program_load(dev, data, bytes, options, out));
    }
    if (!*out) {
        charl__log(CHARL_LOG_INFO, "ignoring a damaged kernel cache entry: %s", charl__text_string(&path));
    }
    return CHARL_OK;
}

/* One file for all programs: a program's lock is the byte at the offset that its key determines. The locks belong to open files, as ranks may be
 * threads of one process. The kernel releases them when their holder dies. */
int charl__cache_lock(const charl_device *dev, const char *key, bool waits)
{
    static const struct timespec pause = {.tv_nsec = 5000000};
    const double begun = charl__clock_s();
    struct flock byte = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};
    char path[4096], digits[LOCK_DIGITS + 1] = "";
    int fd;

    if (!dev->cache_dir || snprintf(path, sizeof path, "%s/lock", dev->cache_dir) >= (int)sizeof path) {
        return -1;
    }
    fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    memcpy(digits, key, LOCK_DIGITS);
    byte.l_start = (off_t)strtoll(digits, NULL, 16);
    while (fd >= 0 && fcntl(fd, F_OFD_SETLK, &byte) != 0) {
        if ((errno != EAGAIN && errno != EACCES) || !waits || charl__clock_s() - begun > LOCK_PATIENCE_S) {
            close(fd); /* a file system without locks, or a holder that is stopped */
            return -1;
        }
        nanosleep(&pause, NULL);
    }
    return fd;
}

void charl__cache_unlock(int lock)
{
    if (lock >= 0) {
        close(lock);
    }
}

/* Write the file with a unique name, then rename it. */
static bool write_entry(const char *path, const char *temporary, const unsigned char *data, size_t bytes)
{
    header h = {.bytes = bytes, .crc = charl__crc32c(0, data, bytes)};
    FILE *f = charl__cache_file_create(temporary);
    bool ok;

    if (!f) {
        return false;
    }
    memcpy(h.magic, magic, sizeof magic);
    ok = fwrite(&h, sizeof h, 1, f) == 1 && fwrite(data, 1, bytes, f) == bytes;
    ok = fclose(f) == 0 && ok;
    ok = ok && rename(temporary, path) == 0;
    if (!ok) {
        remove(temporary);
    }
    return ok;
}

static atomic_int n_stored; /* threads may store the same program at once */

charl_status charl__cache_store(charl_device *dev, const char *key, charl__driver_program *program)
{
    CHARL_SCOPED(charl__text_fini) charl__text path = {0}, temporary = {0};
    CHARL_SCOPED_FREE unsigned char *data = NULL;
    size_t bytes = 0;

    if (!dev->cache_dir || dev->pocl_keeps) {
        return CHARL_OK;
    }
    CHARL_TRY(dev->driver->program_binary(dev, program, &data, &bytes));
    if (!data || bytes > largest) {
        return CHARL_OK;
    }
    CHARL_TRY(charl__text_printf(&path, "%s/%s.bin", dev->cache_dir, key));
    CHARL_TRY(charl__text_printf(&temporary, "%s/%s.%ld-%d.tmp", dev->cache_dir, key, (long)getpid(),
                                 atomic_fetch_add(&n_stored, 1)));
    if (!write_entry(charl__text_string(&path), charl__text_string(&temporary), data, bytes)) {
        charl__log(CHARL_LOG_INFO, "cannot write the kernel cache entry %s", charl__text_string(&path));
    }
    return CHARL_OK;
}

charl_status charl_device_get_cache(char **out)
{
    CHARL_GIVEN(out);
    return charl__cache_open(out);
}
