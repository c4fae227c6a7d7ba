/* src/base/numeric: hashes and random numbers by their published values and the kernels'; sums without rounding, and in the order of a tree. */
#include "support/support.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/numeric/bf16.h"
#include "base/numeric/exact_sum.h"
#include "base/numeric/hash.h"
#include "base/numeric/rng.h"
#include "base/numeric/tree.h"

/* Hashes and random numbers: their published values, and those of the kernels' generator. */

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

/* Sums: without rounding, and in the order of a tree. */

/* Exact sums: no order, no division and no cancellation shows. */

static double sum_of(const double *v, int n)
{
    int64_t sum[CHARL__EXACT_LIMBS] = {0};

    for (int i = 0; i < n; i++) {
        charl__exact_add(sum, v[i]);
    }
    return charl__exact_value(sum);
}

static void test_known_sums(void **state)
{
    static const struct {
        double v[4], want;
    } cases[] = {
        {{0.0, -0.0}, 0.0},
        {{0.1}, 0.1},
        {{-0.1, -0.2, 0.1}, -0.2},
        {{1e300, 1.0, -1e300}, 1.0},
        {{-1e300, -1e-300, 1e300}, -1e-300},
        {{DBL_MAX, DBL_MAX, -DBL_MAX, -DBL_MAX}, 0.0},
        {{DBL_MAX, DBL_MIN, -DBL_MAX}, DBL_MIN},
        {{4.9e-324, 4.9e-324}, 9.8e-324},
        {{DBL_MIN, -4.9e-324}, 0x0.fffffffffffffp-1022},
        {{1.0, 0x1p-53, 0x1p-105}, 1.0 + 0x1p-52},
        {{DBL_MAX, DBL_MAX}, (double)INFINITY},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_true(sum_of(cases[i].v, 4) == cases[i].want);
    }
}

static void test_what_is_not_finite(void **state)
{
    (void)state;
    assert_true(isnan(sum_of((const double[]){1.0, (double)INFINITY}, 2)));
    assert_true(isnan(sum_of((const double[]){(double)NAN, 1.0}, 2)));
}

/* sum + rest + x, rounded once at most: Neumaier 1974. Valgrind computes long double in 64 bits. */
static void add_compensated(double *sum, double *rest, double x)
{
    const double t = *sum + x;

    *rest += fabs(*sum) >= fabs(x) ? (*sum - t) + x : (x - t) + *sum;
    *sum = t;
}

/* Products of f32, forwards, backwards, and in three parts whose limbs are added: the same bits, and near a compensated sum. */
static void test_order_and_division(void **state)
{
    enum { N = 20000 };
    static float v[N];
    int64_t all[CHARL__EXACT_LIMBS] = {0}, back[CHARL__EXACT_LIMBS] = {0}, part[3][CHARL__EXACT_LIMBS];
    double plain = 0.0, rest = 0.0, value;

    (void)state;
    memset(part, 0, sizeof part);
    charl_test_fill(v, N, -1, 1, 11);
    for (int i = 0; i < N; i++) {
        v[i] = ldexpf(v[i], i % 90 - 45);
        add_compensated(&plain, &rest, (double)v[i] * (double)v[i] * (i % 2 ? -1.0 : 1.0));
    }
    for (int i = 0; i < N; i++) {
        const double forth = (double)v[i] * (double)v[i] * (i % 2 ? -1.0 : 1.0);
        const double last = (double)v[N - 1 - i] * (double)v[N - 1 - i] * ((N - 1 - i) % 2 ? -1.0 : 1.0);

        charl__exact_add(all, forth);
        charl__exact_add(back, last);
        charl__exact_add(part[i % 7 % 3], forth);
    }
    for (int k = 0; k < CHARL__EXACT_LIMBS; k++) {
        part[0][k] += part[1][k] + part[2][k];
    }
    value = charl__exact_value(all);
    assert_true(value == charl__exact_value(back) && value == charl__exact_value(part[0]));
    plain += rest;
    assert_true(fabs(value - plain) <= 1e-15 * fabs(plain));
}

enum { N = 3, MOST = 64 /* where every number of slices is tried */ };

/* Values whose sum depends on the order of adding. */
static float value(int slice, int i)
{
    const uint32_t h = (uint32_t)(slice * 7919 + i * 104729 + 12345) * 2654435761u;

    return ((float)(h >> 8) / 16777216.0f - 0.5f) * (float)(1u << (h & 15u));
}

static void leaves_fill(int total, float data[][N], float **part)
{
    for (int s = 0; s < total; s++) {
        part[s] = data[s];
        for (int i = 0; i < N; i++) {
            data[s][i] = value(s, i);
        }
    }
}

/* The definition, recursively. */
static float node(int total, int lo, int span, int i)
{
    float left;

    if (span == 1) {
        return value(lo, i);
    }
    left = node(total, lo, span / 2, i);
    return lo + span / 2 < total ? left + node(total, lo + span / 2, span / 2, i) : left;
}

static void check_ranks(int total, int size, const float *want)
{
    float data[CHARL_MAX_SLICES][N], out[N];
    float *part[CHARL_MAX_SLICES];
    const float *leaf[CHARL_MAX_SLICES];
    int lo[CHARL_MAX_SLICES], n = 0, next = 0;
    charl__tree_add adds[CHARL_MAX_SLICES];

    leaves_fill(total, data, part);
    for (int r = 0; r < size; r++) {
        charl_slices s;

        assert_int_equal(charl_slices_block(total, r, size, &s), CHARL_OK);
        assert_int_equal(s.first, next);
        assert_true(s.count >= 1);
        next = s.first + s.count;
        for (int j = 0; j < s.n_lanes; j++) {
            assert_int_equal(s.lane_lo[j], j > 0 ? s.lane_hi[j - 1] : s.first);
            charl__tree_fold(part + s.lane_lo[j], s.lane_hi[j] - s.lane_lo[j], N);
            leaf[n] = part[s.lane_lo[j]];
            lo[n++] = s.lane_lo[j];
        }
        assert_int_equal(s.lane_hi[s.n_lanes - 1], next);
    }
    assert_int_equal(next, total);
    assert_int_equal(charl__tree_combine(total, lo, n, adds), n - 1);
    charl__tree_apply(adds, n, leaf, N, out);
    assert_memory_equal(out, want, sizeof out);
}

/* What any number of ranks that divide `total` slices get. */
static void wanted(int total, float want[N])
{
    float data[CHARL_MAX_SLICES][N];
    float *part[CHARL_MAX_SLICES];
    int span = 1;

    while (span < total) {
        span *= 2;
    }
    leaves_fill(total, data, part);
    charl__tree_fold(part, total, N);
    for (int i = 0; i < N; i++) {
        want[i] = node(total, 0, span, i);
    }
    assert_memory_equal(data[0], want, N * sizeof *want);
}

static void test_any_rank_count_gives_the_same_bits(void **state)
{
    static const int many[] = {65, 127, 1000, 1024, 4095, CHARL_MAX_SLICES};
    float want[N];

    (void)state;
    for (int total = 1; total <= MOST; total++) {
        wanted(total, want);
        for (int size = 1; size <= total; size++) {
            check_ranks(total, size, want);
        }
    }
    for (size_t k = 0; k < sizeof many / sizeof *many; k++) {
        wanted(many[k], want);
        for (int size = 1; size <= many[k]; size = 3 * size + 1) {
            check_ranks(many[k], size, want);
        }
        check_ranks(many[k], many[k], want);
    }
}

static void test_unequal_blocks_give_the_same_bits(void **state)
{
    (void)state;
    for (int total = 2; total <= MOST; total++) {
        for (int cut = 0; cut <= total; cut++) {
            float data[CHARL_MAX_SLICES][N], all[CHARL_MAX_SLICES][N], out[N];
            float *part[CHARL_MAX_SLICES], *whole[CHARL_MAX_SLICES];
            const float *leaf[CHARL_MAX_SLICES];
            int lo[CHARL_MAX_SLICES], n = 0;
            charl__tree_add adds[CHARL_MAX_SLICES];

            leaves_fill(total, data, part);
            leaves_fill(total, all, whole);
            charl__tree_fold(whole, total, N);
            for (int r = 0; r < 2; r++) {
                charl_slices s;

                assert_int_equal(charl_slices_range(total, r ? cut : 0, r ? total - cut : cut, &s), CHARL_OK);
                for (int j = 0; j < s.n_lanes; j++) {
                    charl__tree_fold(part + s.lane_lo[j], s.lane_hi[j] - s.lane_lo[j], N);
                    leaf[n] = part[s.lane_lo[j]];
                    lo[n++] = s.lane_lo[j];
                }
            }
            charl__tree_combine(total, lo, n, adds);
            charl__tree_apply(adds, n, leaf, N, out);
            assert_memory_equal(out, all[0], sizeof out);
        }
    }
}

static void test_every_block_fits_the_lanes(void **state)
{
    charl_slices s;

    (void)state;
    for (int total = 1; total <= MOST; total++) {
        for (int first = 0; first <= total; first++) {
            for (int count = 0; count <= total - first; count++) {
                int covered = first;

                assert_int_equal(charl_slices_range(total, first, count, &s), CHARL_OK);
                for (int j = 0; j < s.n_lanes; j++) {
                    assert_int_equal(s.lane_lo[j], covered);
                    covered = s.lane_hi[j];
                }
                assert_int_equal(covered, first + count);
            }
        }
    }
}

static void test_long_vectors_cross_blocks(void **state)
{
    enum { LEN = 2 * CHARL_TREE_BLOCK + 17 };
    static float data[4][LEN], out[LEN];
    const float *leaf[4] = {data[0], data[1], data[2], data[3]};
    const int lo[4] = {0, 1, 2, 3};
    charl__tree_add adds[3];

    (void)state;
    for (int s = 0; s < 4; s++) {
        for (int i = 0; i < LEN; i++) {
            data[s][i] = value(s, i);
        }
    }
    assert_int_equal(charl__tree_combine(4, lo, 4, adds), 3);
    charl__tree_apply(adds, 4, leaf, LEN, out);
    for (int i = 0; i < LEN; i++) {
        const float left = value(0, i) + value(1, i), right = value(2, i) + value(3, i);
        const float want = left + right;

        assert_memory_equal(&out[i], &want, sizeof want);
    }
    charl__tree_apply(adds, 1, leaf, LEN, out);
    assert_memory_equal(out, data[0], sizeof out);
}

/* The nearest of the two bf16 around x, of equals the even one: in double, where all are exact. */
static uint16_t nearest_bf16(float x)
{
    uint32_t u;
    double down, up;

    memcpy(&u, &x, sizeof u);
    down = (double)charl__bf16_load((uint16_t)(u >> 16));
    up = (double)charl__bf16_load((uint16_t)((u >> 16) + 1));
    if (fabs((double)x - down) < fabs((double)x - up) ||
        (fabs((double)x - down) <= fabs((double)x - up) && (u >> 16) % 2 == 0)) {
        return (uint16_t)(u >> 16);
    }
    return (uint16_t)((u >> 16) + 1);
}

static void test_bf16_is_rounded_to_nearest_even(void **state)
{
    const float ties[] = {0x1.01p0F, 0x1.03p0F, -0x1.01p0F, 0x1.010002p0F, 0x1.00fffep0F,
                          1e-40F,    -0.0F,     3.0F,       0x1.fep127F};

    (void)state;
    for (size_t i = 0; i < sizeof ties / sizeof *ties; i++) {
        assert_int_equal(charl__bf16_round(ties[i]), nearest_bf16(ties[i]));
    }
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(charl__bf16_round(value(i, i)), nearest_bf16(value(i, i)));
    }
    assert_int_equal(charl__bf16_round(INFINITY), 0x7f80);
    assert_int_equal(charl__bf16_round(0x1.ffp127F), 0x7f80); /* beyond the largest */
    assert_true(isnan(charl__bf16_load(charl__bf16_round(NAN))));
}

static void test_nodes_in_bf16(void **state)
{
    enum { LEN = CHARL_TREE_BLOCK + 17 };
    static uint16_t data[3][LEN], out[LEN];
    const uint16_t *leaf[3] = {data[0], data[1], data[2]};
    const int lo[3] = {0, 1, 2};
    charl__tree_add adds[2];

    (void)state;
    for (int s = 0; s < 3; s++) {
        for (int i = 0; i < LEN; i++) {
            data[s][i] = charl__bf16_round(value(s, i));
        }
    }
    assert_int_equal(charl__tree_combine(3, lo, 3, adds), 2);
    charl__tree_apply_bf16(adds, 3, leaf, LEN, out);
    for (int i = 0; i < LEN; i++) {
        const uint16_t left = nearest_bf16(charl__bf16_load(data[0][i]) + charl__bf16_load(data[1][i]));

        assert_int_equal(out[i], nearest_bf16(charl__bf16_load(left) + charl__bf16_load(data[2][i])));
    }
    charl__tree_apply_bf16(adds, 1, leaf, LEN, out);
    assert_memory_equal(out, data[0], sizeof out);
}

/* What is longer than the caches is written past them, where it is aligned. */
static void test_very_long_vectors(void **state)
{
    enum { LEN = 700001 };
    float *leaf[2] = {malloc(LEN * sizeof *leaf[0]), malloc(LEN * sizeof *leaf[0])};
    float *out = malloc((LEN + 8) * sizeof *out);
    const float *const view[2] = {leaf[0], leaf[1]};
    const int lo[2] = {0, 1};
    charl__tree_add add;

    (void)state;
    assert_non_null(out);
    for (int s = 0; s < 2; s++) {
        assert_non_null(leaf[s]);
        for (int i = 0; i < LEN; i++) {
            leaf[s][i] = value(s, i % 10000);
        }
    }
    assert_int_equal(charl__tree_combine(2, lo, 2, &add), 1);
    for (int shift = 0; shift <= 4; shift++) {
        memset(out, 0, (LEN + 8) * sizeof *out);
        charl__tree_apply(&add, 2, view, LEN, out + shift);
        for (int i = 0; i < LEN; i++) {
            const float want = leaf[0][i] + leaf[1][i];

            assert_memory_equal(&out[shift + i], &want, sizeof want);
        }
        assert_true(out[shift + LEN] == 0.0F);
    }
    free(leaf[0]);
    free(leaf[1]);
    free(out);
}

static void test_bad_arguments_are_named(void **state)
{
    charl_slices s;

    (void)state;
    assert_int_equal(charl_slices_block(8, 0, 9, &s), CHARL_ERR_CONFIG);
    assert_non_null(strstr(charl_error_message(), "slices"));
    assert_int_equal(charl_slices_block(0, 0, 1, &s), CHARL_ERR_CONFIG);
    assert_int_equal(charl_slices_block(CHARL_MAX_SLICES + 1, 0, 1, &s), CHARL_ERR_CONFIG);
    assert_int_equal(charl_slices_block(8, 2, 2, &s), CHARL_ERR_INVALID);
    assert_int_equal(charl_slices_range(8, 5, 4, &s), CHARL_ERR_INVALID);
    assert_int_equal(charl_slices_range(8, -1, 4, &s), CHARL_ERR_INVALID);
    assert_int_equal(charl_slices_range(CHARL_MAX_SLICES + 1, 0, 4, &s), CHARL_ERR_INVALID);
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
        cmocka_unit_test(test_known_sums),
        cmocka_unit_test(test_what_is_not_finite),
        cmocka_unit_test(test_order_and_division),
        cmocka_unit_test(test_any_rank_count_gives_the_same_bits),
        cmocka_unit_test(test_unequal_blocks_give_the_same_bits),
        cmocka_unit_test(test_every_block_fits_the_lanes),
        cmocka_unit_test(test_long_vectors_cross_blocks),
        cmocka_unit_test(test_bf16_is_rounded_to_nearest_even),
        cmocka_unit_test(test_nodes_in_bf16),
        cmocka_unit_test(test_very_long_vectors),
        cmocka_unit_test(test_bad_arguments_are_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
