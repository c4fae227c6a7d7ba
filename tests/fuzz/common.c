/* What targets share. */
#define _XOPEN_SOURCE 700 /* nftw */
#include "fuzz/fuzz.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "charl/log.h"

enum { PATH_BYTES = 320 };

static char folder[256];

void fuzz_fail(const char *file, int line, const char *what)
{
    fprintf(stderr, "%s:%d: %s\n  last message: %s%s\n", file, line, what, charl_error_message(), charl_error_path());
    abort();
}

int fuzz_accepts(charl_status st)
{
    if (st == CHARL_OK) {
        return 1;
    }
    FUZZ_CHECK(st == CHARL_ERR_DATA || st == CHARL_ERR_CONFIG || st == CHARL_ERR_IO || st == CHARL_ERR_CHECKPOINT,
               charl_status_name(st));
    FUZZ_CHECK(charl_error_message()[0] != '\0', "a failure without a message");
    return 0;
}

static int remove_one(const char *path, const struct stat *info, int type, struct FTW *at)
{
    (void)info;
    (void)type;
    (void)at;
    return remove(path);
}

/* With all that is in it, folders and hidden files too. */
static void remove_all(const char *path)
{
    nftw(path, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

void fuzz_empty(const char *name)
{
    remove_all(fuzz_path(name));
}

static pid_t owner; /* a copy of this process that ends does not remove the folder */

static void remove_folder(void)
{
    if (getpid() == owner) {
        remove_all(folder);
        FUZZ_CHECK(access(folder, F_OK) != 0, "the folder of files is left behind");
    }
}

const char *fuzz_dir(void)
{
    if (!folder[0]) {
        const char *base = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : getenv("TMPDIR");

        snprintf(folder, sizeof folder, "%s/charl-fuzz-XXXXXX", base ? base : "/tmp");
        FUZZ_CHECK(mkdtemp(folder) != NULL, "no folder for files");
        owner = getpid();
        atexit(remove_folder);
    }
    return folder;
}

const char *fuzz_path(const char *name)
{
    static char path[4][PATH_BYTES];
    static int turn;

    turn = (turn + 1) % 4;
    snprintf(path[turn], sizeof path[turn], "%s/%s", fuzz_dir(), name);
    return path[turn];
}

const char *fuzz_put(const char *name, const unsigned char *data, size_t size)
{
    const char *path = fuzz_path(name);
    FILE *f = fopen(path, "wb");

    FUZZ_CHECK(f != NULL && fwrite(data, 1, size, f) == size && fclose(f) == 0, "the input could not be written");
    return path;
}

uint64_t fuzz_choice(const unsigned char *data, size_t size)
{
    uint64_t h = 1469598103934665603U;

    for (size_t i = 0; i < size; i++) {
        h = (h ^ data[i]) * 1099511628211U;
    }
    return h >> 8;
}

void fuzz_split(const unsigned char *data, size_t size, fuzz_part *parts, int n)
{
    static const char line[] = "=====\n";
    const size_t length = sizeof line - 1;

    for (int i = 0; i < n; i++) {
        size_t end = 0;

        while (i + 1 < n && end + length <= size && memcmp(data + end, line, length) != 0) {
            end++;
        }
        if (i + 1 == n || end + length > size) {
            end = size;
        }
        parts[i] = (fuzz_part){data, end};
        data += end;
        size -= end;
        if (size >= length) {
            data += length;
            size -= length;
        }
    }
}

const fuzz_target *fuzz_find(const char *name)
{
    for (const fuzz_target *t = fuzz_targets; t->name; t++) {
        if (strcmp(t->name, name) == 0) {
            return t;
        }
    }
    return NULL;
}

static void say_nothing(void *ctx, charl_log_level level, const char *message)
{
    (void)ctx;
    (void)level;
    (void)message;
}

void fuzz_run(const fuzz_target *t, const unsigned char *data, size_t size)
{
    const long live = charl__live();

    charl_log_set_callback(say_nothing, NULL);
    charl_error_clear();
    fuzz_dir();
    t->run(data, size);
    remove_all(folder);
    FUZZ_CHECK(mkdir(folder, 0700) == 0, "the folder of files cannot be made again");
    FUZZ_CHECK(charl__live() == live, "something was not released");
}
