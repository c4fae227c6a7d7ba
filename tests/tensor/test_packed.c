/* Packing on the host: every number becomes the nearest value of its format, and what has been unpacked packs to the same bytes. */
#include "support/support.h"

#include <math.h>
#include <string.h>

#include "tensor/packed.h"

enum { N = 3 * CHARL_PACK_BLOCK + 17, CODES = 256 };

static const charl__format formats[] = {CHARL__FORMAT_INT8, CHARL__FORMAT_NF4, CHARL__FORMAT_FLOAT8,
                                        CHARL__FORMAT_UFLOAT8};

/* Numbers over `decades` orders of magnitude, the last block 0. */
static void fill(float *x, double decades, bool negative)
{
    float u[2 * N];

    charl_test_fill(u, 2 * (size_t)N, 0.0F, 1.0F, 3);
    for (int i = 0; i < N; i++) {
        x[i] = (float)pow(10.0, -decades * (double)u[i]) * (negative && u[N + i] < 0.5F ? -1.0F : 1.0F);
        x[i] = i < N - 17 ? x[i] : 0.0F;
    }
}

static unsigned code_at(charl__format f, const unsigned char *codes, int i)
{
    return f == CHARL__FORMAT_NF4 ? (unsigned)codes[i / 2] >> 4 * (i % 2) & 15U : codes[i];
}

static void check(charl__format f, double decades)
{
    const bool is_unsigned = f == CHARL__FORMAT_UFLOAT8;
    float x[N], y[N], scales[4], again_scales[4];
    unsigned char codes[N], again[N];

    fill(x, decades, !is_unsigned);
    assert_int_equal(charl__packed_scales(f, N), 4);
    charl__pack(f, x, N, codes, scales);
    charl__unpack(f, codes, scales, N, y);
    for (int i = 0; i < N; i++) {
        double best = INFINITY, most = 0.0;
        const int first = i / CHARL_PACK_BLOCK * CHARL_PACK_BLOCK;

        for (int j = first; j < N && j < first + CHARL_PACK_BLOCK; j++) {
            most = fmax(most, fabs((double)x[j]));
        }
        assert_true((double)scales[i / CHARL_PACK_BLOCK] == most);
        for (unsigned c = 0; c < (f == CHARL__FORMAT_NF4 ? 16U : (unsigned)CODES); c++) {
            const double value = most * (double)charl__packed_value(f, c);

            if (f != CHARL__FORMAT_INT8 || c != 128) { /* -128 is not used */
                best = fmin(best, fabs(value - (double)x[i]));
            }
        }
        if (is_unsigned && x[i] > 0.0F && code_at(f, codes, i) == 1) {
            assert_true(y[i] > 0.0F);
            continue; /* the nearest may have been 0 */
        }
        assert_true(fabs((double)y[i] - (double)x[i]) <= best + 1e-6 * most);
    }
    charl__pack(f, y, N, again, again_scales);
    charl_assert_same_bits(again_scales, scales, 4);
    assert_memory_equal(again, codes, (size_t)charl__packed_bytes(f, N));
}

static void test_nearest(void **state)
{
    (void)state;
    for (size_t k = 0; k < sizeof formats / sizeof formats[0]; k++) {
        check(formats[k], 1.0);
        check(formats[k], 6.0);
        check(formats[k], 12.0);
    }
}

/* The z that a normally distributed number is below with probability p. */
static double quantile(double p)
{
    double low = -10.0, high = 10.0;

    for (int i = 0; i < 100; i++) {
        const double z = 0.5 * (low + high);

        if (0.5 * erfc(-z / sqrt(2.0)) < p) {
            low = z;
        } else {
            high = z;
        }
    }
    return low;
}

/* NF4 as bitsandbytes defines it: quantiles from 0.9677083 down to 0.5, of which 0.5 is 0, in 8 steps above it and 7 below. */
static void test_nf4(void **state)
{
    const double end = 0.9677083, largest = quantile(end);

    (void)state;
    for (int i = 0; i < 16; i++) {
        const double p = i < 7 ? end + (0.5 - end) * i / 7 : end + (0.5 - end) * (15 - i) / 8;
        const double want = (i < 7 ? -1.0 : 1.0) * quantile(p) / largest;

        assert_true(fabs((double)charl__packed_value(CHARL__FORMAT_NF4, (unsigned)i) - (i == 7 ? 0.0 : want)) < 1e-7);
    }
}

static void test_half_types(void **state)
{
    float x[N], y[N];
    uint16_t codes[N];
    double v[N];

    (void)state;
    fill(x, 3.0, true);
    for (int i = 0; i < N; i++) {
        v[i] = (double)x[i];
    }
    for (int half = 0; half < 2; half++) {
        const charl_dtype dtype = half ? CHARL_F16 : CHARL_BF16;
        uint16_t want[N];

        charl__pack(half ? CHARL__FORMAT_F16 : CHARL__FORMAT_BF16, x, N, codes, NULL);
        charl_dtype_encode(dtype, v, N, want);
        assert_memory_equal(codes, want, sizeof want);
        charl__unpack(half ? CHARL__FORMAT_F16 : CHARL__FORMAT_BF16, codes, NULL, N, y);
        for (int i = 0; i < N; i++) {
            assert_true(fabsf(y[i] - x[i]) <= fabsf(x[i]) / 256);
        }
    }
}

/* A number that is not finite makes its block NaN, and no other. */
static void test_nonfinite(void **state)
{
    static const float bad[] = {NAN, INFINITY, -INFINITY};

    (void)state;
    for (size_t k = 0; k < sizeof formats / sizeof formats[0]; k++) {
        for (int b = 0; b < 3; b++) {
            float x[N], y[N], scales[4];
            unsigned char codes[N];

            fill(x, 1.0, false);
            x[70] = bad[b];
            charl__pack(formats[k], x, N, codes, scales);
            charl__unpack(formats[k], codes, scales, N, y);
            for (int i = 0; i < N; i++) {
                assert_int_equal(isnan(y[i]), i / CHARL_PACK_BLOCK == 1);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nearest),
        cmocka_unit_test(test_nf4),
        cmocka_unit_test(test_half_types),
        cmocka_unit_test(test_nonfinite),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
