#ifndef CHARL_TESTS_DEVICE_SUITE_H
#define CHARL_TESTS_DEVICE_SUITE_H
/* What tests of src/device share: buffers, launches, kernels of their own. */
#include "support/each_device.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/env.h"
#include "device/device.h"

/** Whether PoCL compiles for the device. */
static inline bool charl_test_is_pocl(const charl_device *dev)
{
    return strcmp(charl_device_get_info(dev)->platform, "Portable Computing Language") == 0;
}

static inline charl__buffer *charl_test_buffer(charl_device *dev, size_t bytes)
{
    charl__buffer *b = NULL;

    charl_assert_ok(charl__buffer_create(dev, bytes, "test", &b));
    return b;
}

/* dst[to + i] = value for i < n, as 32-bit words. */
static inline charl__launch charl_test_fill_launch(charl__buffer *dst, int64_t to, uint32_t value, int64_t n)
{
    return (charl__launch){
        .file = "tensor/copy",
        .entry = "charl_fill",
        .global = {((size_t)n + 63) / 64 * 64},
        .local = {64},
        .args = {charl__i64(value),
                 {.kind = CHARL_ARG_OUT, .buffer = dst, .v.offset = to, .count = n, .size = 4},
                 charl__i64(n)},
    };
}

/* dst[to + i] = src[from + i] */
static inline charl__launch charl_test_copy_launch(charl__buffer *src, int64_t from, charl__buffer *dst, int64_t to,
                                                   int64_t n)
{
    return (charl__launch){
        .file = "tensor/copy",
        .entry = "charl_copy",
        .global = {((size_t)n + 63) / 64 * 64},
        .local = {64},
        .args = {{.kind = CHARL_ARG_IN, .buffer = src, .v.offset = from, .count = n, .size = 4},
                 {.kind = CHARL_ARG_OUT, .buffer = dst, .v.offset = to, .count = n, .size = 4},
                 charl__i64(n)},
    };
}

static inline void charl_test_write_text(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");

    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

/** A directory for CHARL_KERNEL_DIR: one kernel file, and a prelude that is empty. */
static inline char *charl_test_kernel_dir(const char *name, const char *text)
{
    static const char *const prelude[] = {"prelude/builtins.clh", "prelude/common.clh", "prelude/math.clh",
                                          "prelude/memory.clh",   "prelude/rows.clh",   "prelude/fast_math.clh"};
    char *dir = charl_test_tempdir();

    assert_int_equal(mkdir(charl_test_path(dir, "prelude"), 0777), 0);
    for (size_t i = 0; i < sizeof prelude / sizeof *prelude; i++) {
        charl_test_write_text(charl_test_path(dir, prelude[i]), "\n");
    }
    charl_test_write_text(charl_test_path(dir, name), text);
    return dir;
}

/** In `dir`: links to what kernels/FOLDER holds, but for two names. */
static inline void charl_test_link_kernels(const char *dir, const char *folder, const char *but, const char *nor)
{
    char here[512], from[1024], to[512];
    DIR *d;
    const struct dirent *e;

    assert_non_null(getcwd(here, sizeof here));
    snprintf(from, sizeof from, "kernels/%s", folder);
    d = opendir(from);
    assert_non_null(d);
    while ((e = readdir(d)) != NULL) {
        if (e->d_name[0] != '.' && strcmp(e->d_name, but) != 0 && strcmp(e->d_name, nor) != 0) {
            snprintf(from, sizeof from, "%s/kernels/%s%s", here, folder, e->d_name);
            snprintf(to, sizeof to, "%s%s", folder, e->d_name);
            assert_int_equal(symlink(from, charl_test_path(dir, to)), 0);
        }
    }
    closedir(d);
}

#endif
