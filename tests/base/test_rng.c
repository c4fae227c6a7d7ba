/* The kernels' generator is compiled here as C: the build cuts its section out of
 * kernels/prelude/common.clh. */
#include "support/support.h"

#include <math.h>
#include <stdbool.h>

#include "base/numeric/hash.h"
#include "base/numeric/rng.h"

typedef uint32_t uint;
typedef uint64_t ulong;

static uint mul_hi(uint a, uint b)
{
    return (uint)(((uint64_t)a * b) >> 32);
}

#include "common_clh_random.h"

/* kat_vectors of Random123, philox4x32 with 10 rounds. */
static const struct {
    uint32_t counter[4], key[2], out[4];
} known[] = {
    {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
    {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
     {0xffffffff, 0xffffffff},
     {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
    {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
     {0xa4093822, 0x299f31d0},
     {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
};

static void test_known_answers(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        uint32_t out[4];

        charl__philox(known[i].counter, known[i].key, out);
        assert_memory_equal(out, known[i].out, sizeof out);
    }
}

static void test_convention(void **state)
{
    (void)state;
    const uint64_t seed = 0x0123456789abcdefu, step = 0x00000005fedcba98u;
    const uint64_t position = 0x8877665544332211u;
    const uint64_t name = charl__fnv1a64_string("fc1.dropout");
    const charl__rng r = charl__rng_key(seed, step, name);
    const uint32_t counter[4] = {0x44332211u, 0x88776655u, 0xfedcba98u, 0x00000005u};
    const uint32_t key[2] = {0x89abcdefu ^ (uint32_t)name, 0x01234567u ^ (uint32_t)(name >> 32)};
    uint32_t want[4], got[4];

    charl__philox(counter, key, want);
    charl__rng_u32x4(&r, position, got);
    assert_memory_equal(got, want, sizeof want);
    for (uint64_t i = 0; i < 4; i++) {
        assert_int_equal(charl__rng_u32(&r, 4 * 77 + i), (charl__rng_u32x4(&r, 77, got), got[i]));
    }
}

static void test_kernels_draw_the_same(void **state)
{
    (void)state;
    const uint64_t seed = 42, step = (uint64_t)7 << 33, name = charl__fnv1a64_string("h.3.attn");
    const charl__rng r = charl__rng_key(seed, step, name);

    for (uint64_t i = 0; i < 1000; i++) {
        const uint64_t position = i * 0x1000000007u;
        uint32_t host[4], device[4];

        charl__rng_u32x4(&r, position, host);
        charl_rng_u32x4(seed ^ name, step, position, device);
        assert_memory_equal(host, device, sizeof host);
        assert_true(charl__rng_uniform(&r, position) == charl_rng_uniform(seed ^ name, step, position));
    }
}

static void test_uniform(void **state)
{
    (void)state;
    const charl__rng r = charl__rng_key(1, 2, 3);
    const int64_t n = 100000;
    int bins[16] = {0};
    double sum = 0;

    for (int64_t i = 0; i < n; i++) {
        const float u = charl__rng_uniform(&r, (uint64_t)i);

        assert_true(u >= 0 && u < 1);
        assert_true(u * 0x1p24f == floorf(u * 0x1p24f));
        bins[(int)(u * 16)]++;
        sum += (double)u;
    }
    assert_true(fabs(sum / (double)n - 0.5) < 0.005); /* 5 standard deviations */
    for (int b = 0; b < 16; b++) {
        assert_in_range(bins[b], 6250 - 400, 6250 + 400);
    }
}

static void test_normal(void **state)
{
    (void)state;
    const charl__rng r = charl__rng_key(1, 2, 3);
    const int64_t n = 100000;
    double moment[5] = {0};

    for (int64_t i = 0; i < n; i++) {
        const double x = charl__rng_normal(&r, (uint64_t)i);

        assert_true(isfinite(x));
        for (int k = 1; k <= 4; k++) {
            moment[k] += pow(x, k) / (double)n;
        }
    }
    assert_true(fabs(moment[1]) < 0.016);
    assert_true(fabs(moment[2] - 1) < 0.023);
    assert_true(fabs(moment[3]) < 0.062);
    assert_true(fabs(moment[4] - 3) < 0.16);
}

static void test_keys_differ(void **state)
{
    (void)state;
    const charl__rng base = charl__rng_key(1, 1, 1);
    const charl__rng other[] = {charl__rng_key(2, 1, 1), charl__rng_key(1, 2, 1), charl__rng_key(1, 1, 2),
                                charl__rng_key(1, (uint64_t)1 << 32, 1)};

    for (size_t k = 0; k < sizeof other / sizeof *other; k++) {
        int same = 0;

        for (uint64_t i = 0; i < 1000; i++) {
            same += charl__rng_u32(&base, i) == charl__rng_u32(&other[k], i);
        }
        assert_in_range(same, 0, 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_answers),
        cmocka_unit_test(test_convention),
        cmocka_unit_test(test_kernels_draw_the_same),
        cmocka_unit_test(test_uniform),
        cmocka_unit_test(test_normal),
        cmocka_unit_test(test_keys_differ),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
