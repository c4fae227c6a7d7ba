/* The device draws the same bits as the host: common.clh against base/numeric/rng.c, on the device that
 * CHARL_DEVICE names. */
#include "support/support.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/env.h"
#include "base/numeric/hash.h"
#include "base/numeric/rng.h"
#include "charl/device.h"
#include "device/device.h"

enum { COUNT = 1000 };

typedef struct place {
    uint64_t seed, step, first;
    const char *name;
} place;

static void copy_file(const char *from, const char *to)
{
    FILE *in = fopen(from, "r");
    FILE *out = fopen(to, "w");
    int c;

    assert_non_null(in);
    assert_non_null(out);
    while ((c = fgetc(in)) != EOF) {
        fputc(c, out);
    }
    fclose(in);
    assert_int_equal(fclose(out), 0);
}

static void copy_prelude(const char *dir)
{
    glob_t found;

    assert_int_equal(mkdir(charl_test_path(dir, "prelude"), 0777), 0);
    assert_int_equal(glob("kernels/prelude/*.clh", 0, NULL, &found), 0);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        copy_file(found.gl_pathv[i], charl_test_path(dir, found.gl_pathv[i] + strlen("kernels/")));
    }
    globfree(&found);
}

static void draw(charl_device *dev, const place *at, uint32_t *words, float *unit)
{
    charl__buffer *w = NULL, *u = NULL;

    charl_assert_ok(charl__buffer_create(dev, COUNT * 16, "words", &w));
    charl_assert_ok(charl__buffer_create(dev, COUNT * 4, "unit", &u));
    charl_assert_ok(
        charl__launch_enqueue(dev, &(charl__launch){
                                       .file = "draw",
                                       .entry = "draw",
                                       .global = {COUNT},
                                       .args = {charl__raw(CHARL_ARG_OUT, w), charl__raw(CHARL_ARG_OUT, u),
                                                charl__i64((int64_t)(at->seed ^ charl__fnv1a64_string(at->name))),
                                                charl__i64((int64_t)at->step), charl__i64((int64_t)at->first)},
                                   }));
    charl_assert_ok(charl__buffer_read(CHARL_QUEUE_COMPUTE, w, 0, words, COUNT * 16, true));
    charl_assert_ok(charl__buffer_read(CHARL_QUEUE_COMPUTE, u, 0, unit, COUNT * 4, true));
    charl__buffer_release(w);
    charl__buffer_release(u);
}

static void check(charl_device *dev, const place *at)
{
    static uint32_t words[4 * COUNT];
    static float unit[COUNT];
    const charl__rng rng = charl__rng_key(at->seed, at->step, charl__fnv1a64_string(at->name));

    draw(dev, at, words, unit);
    for (uint64_t i = 0; i < COUNT; i++) {
        uint32_t want[4];

        charl__rng_u32x4(&rng, at->first + i, want);
        assert_memory_equal(words + 4 * i, want, sizeof want);
        assert_true(unit[i] == charl__rng_uniform(&rng, at->first + i));
    }
}

static void test_same_bits(void **state)
{
    (void)state;
    static const place places[] = {
        {0, 0, 0, ""},
        {42, 7, 1000, "fc1.dropout"},
        {0xfedcba9876543210u, (uint64_t)3 << 33, ((uint64_t)1 << 34) - 500, "h.11.attn"},
    };
    char *dir = charl_test_tempdir();
    charl_device *dev = NULL;

    copy_prelude(dir);
    copy_file("tests/device/kernels/draw.cl", charl_test_path(dir, "draw.cl"));
    charl__env_set(CHARL_ENV_KERNEL_DIR, dir);
    charl_assert_ok(charl_device_open(&(charl_device_request){sizeof(charl_device_request), .local_size = 1}, &dev));
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        check(dev, &places[i]);
    }
    charl_device_close(dev);
    charl_test_tempdir_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_same_bits)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
