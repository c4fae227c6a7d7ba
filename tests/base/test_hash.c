/* Hashes and random numbers: their published values, and those of the kernels' generator. */
#include "support/support.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/numeric/hash.h"
#include "base/numeric/rng.h"

static void check_sha256(const void *data, size_t bytes, const char *want)
{
    char text[CHARL__SHA256_TEXT];

    assert_string_equal(charl__sha256_text(data, bytes, text), want);
    assert_string_equal(charl__sha256_portable(data, bytes, text), want);
}

/* FIPS 180-4 examples. */
static void test_sha256_examples(void **state)
{
    (void)state;
    char *million = malloc(1000000);

    assert_non_null(million);
    memset(million, 'a', 1000000);
    check_sha256("", 0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    check_sha256("abc", 3, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    check_sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56,
                 "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    check_sha256(million, 1000000, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    free(million);
}

static void test_sha256_in_pieces(void **state)
{
    (void)state;
    unsigned char data[300];

    for (size_t i = 0; i < sizeof data; i++) {
        data[i] = (unsigned char)(i * 7);
    }
    for (size_t bytes = 0; bytes <= sizeof data; bytes++) {
        char whole[CHARL__SHA256_TEXT], pieces[CHARL__SHA256_TEXT];
        unsigned char digest[CHARL__SHA256_BYTES];
        charl__sha256 s;

        charl__sha256_init(&s);
        for (size_t at = 0, n = 1; at < bytes; at += n, n = n * 3 % 71) {
            n = n < bytes - at ? n : bytes - at;
            charl__sha256_update(&s, data + at, n);
        }
        charl__sha256_final(&s, digest);
        assert_string_equal(charl__sha256_format(digest, pieces), charl__sha256_text(data, bytes, whole));
        assert_string_equal(pieces, charl__sha256_portable(data, bytes, whole));
    }
}

static void test_crc32c_check_values(void **state)
{
    (void)state;
    unsigned char data[32] = {0};

    assert_int_equal(charl__crc32c(0, "123456789", 9), 0xe3069283);
    assert_int_equal(charl__crc32c_portable(0, "123456789", 9), 0xe3069283);
    assert_int_equal(charl__crc32c(0, "", 0), 0);
    /* RFC 3720, B.4 */
    assert_int_equal(charl__crc32c(0, data, sizeof data), 0x8a9136aa);
    memset(data, 0xff, sizeof data);
    assert_int_equal(charl__crc32c(0, data, sizeof data), 0x62a8ab43);
    for (size_t i = 0; i < sizeof data; i++) {
        data[i] = (unsigned char)i;
    }
    assert_int_equal(charl__crc32c(0, data, sizeof data), 0x46dd794e);
}

/* One bit at a time, as defined. */
static uint32_t crc_by_definition(const unsigned char *p, size_t bytes)
{
    uint32_t r = 0xffffffffu;

    for (size_t i = 0; i < bytes; i++) {
        r ^= p[i];
        for (int bit = 0; bit < 8; bit++) {
            r = r & 1 ? (r >> 1) ^ 0x82F63B78u : r >> 1;
        }
    }
    return ~r;
}

static void test_crc32c_lengths_and_offsets(void **state)
{
    (void)state;
    enum { BYTES = 60000 };
    static const size_t lengths[] = {1, 7, 8, 9, 100, 24575, 24576, 24577, 49152, 49161, 59000, BYTES - 8};
    const charl__rng rng = charl__rng_key(charl_test_seed(), 0, 0);
    unsigned char *data = malloc(BYTES);

    assert_non_null(data);
    for (size_t i = 0; i < BYTES; i++) {
        data[i] = (unsigned char)charl__rng_u32(&rng, i);
    }
    for (size_t k = 0; k < sizeof lengths / sizeof *lengths; k++) {
        for (size_t offset = 0; offset < 8; offset += 3) {
            const size_t n = lengths[k], cut = n / 3;
            const uint32_t want = crc_by_definition(data + offset, n);
            uint32_t crc = charl__crc32c(0, data + offset, cut);

            assert_int_equal(charl__crc32c(0, data + offset, n), want);
            assert_int_equal(charl__crc32c_portable(0, data + offset, n), want);
            assert_int_equal(charl__crc32c(crc, data + offset + cut, n - cut), want);
        }
    }
    free(data);
}

static void test_fnv1a64(void **state)
{
    (void)state;
    assert_true(charl__fnv1a64_string("") == 0xcbf29ce484222325u);
    assert_true(charl__fnv1a64_string("a") == 0xaf63dc4c8601ec8cu);
    assert_true(charl__fnv1a64_string("foobar") == 0x85944171f73967e8u);
    assert_true(charl__fnv1a64("foobar", 6) == charl__fnv1a64_string("foobar"));
}

/* The kernels' generator is compiled here as C: the build cuts its section out of
 * kernels/prelude/common.clh. */

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
        cmocka_unit_test(test_sha256_examples),
        cmocka_unit_test(test_sha256_in_pieces),
        cmocka_unit_test(test_crc32c_check_values),
        cmocka_unit_test(test_crc32c_lengths_and_offsets),
        cmocka_unit_test(test_fnv1a64),
        cmocka_unit_test(test_known_answers),
        cmocka_unit_test(test_convention),
        cmocka_unit_test(test_kernels_draw_the_same),
        cmocka_unit_test(test_uniform),
        cmocka_unit_test(test_normal),
        cmocka_unit_test(test_keys_differ),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
