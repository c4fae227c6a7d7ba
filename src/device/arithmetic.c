/* Whether a device's f32 arithmetic conforms to IEEE 754, and so agrees with every other such device. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "base/fault.h"
#include "base/numeric/rng.h"
#include "device/device_private.h"

enum { N = 8192, OPERATIONS = 7, DENORMALS = OPERATIONS };

_Static_assert(FLT_EVAL_METHOD == 0, "the host rounds every operation to float");

static const struct {
    const char *name, *meaning;
} rows[CHARL_ARITHMETIC_COUNT] = {
    {"add", "a + b is rounded to nearest even"},
    {"multiply", "a * b is rounded to nearest even"},
    {"divide", "a / b is rounded to nearest even"},
    {"sqrt", "sqrt(a) is rounded to nearest even"},
    {"fma", "fma(a, b, c) is rounded once"},
    {"no contraction", "a * b + c is rounded twice where a kernel does not ask for fma"},
    {"convert", "an integer is rounded to nearest even"},
    {"denormals", "numbers below 2^-126 are not taken for 0, neither as operands nor as results"},
};

static float float_of(uint32_t bits)
{
    float x;

    memcpy(&x, &bits, sizeof x);
    return x;
}

static int32_t int_of(float x)
{
    int32_t bits;

    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* Any sign and digits. The first half have magnitudes whose products and quotients are normal numbers; all results of the second half are near
 * 2^-126, above and below. */
static void draw(float *in)
{
    const charl__rng rng = charl__rng_key(2026, 0, 0);

    for (int k = 0; k < 3; k++) {
        for (int i = 0; i < N; i++) {
            const uint32_t bits = charl__rng_u32(&rng, (uint64_t)(k * N + i)), digits = bits & 0x807fffffU,
                           size = bits >> 23 & 31U;
            const uint32_t low = k == 1 ? 127 + size / 16 : size / 4; /* b is about 1, a and c about 2^-126 */

            in[k * N + i] = float_of(digits | (i < N / 2 ? 112 + size : low) << 23);
        }
    }
}

static float expected(int k, float a, float b, float c)
{
    volatile float product;

    switch (k) {
    case 0:
        return a + b;
    case 1:
        return a * b;
    case 2:
        return a / b;
    case 3:
        return sqrtf(fabsf(a));
    case 4:
        return fmaf(a, b, c);
    case 5:
        product = a * b;
        return product + c;
    default:
        return (float)int_of(a);
    }
}

static void compare(const float *in, const float *out, charl_arithmetic *table)
{
    for (int k = 0; k < OPERATIONS; k++) {
        for (int i = 0; i < N; i++) {
            const float a = in[i], b = in[N + i], c = in[2 * N + i], got = out[k * N + i], want = expected(k, a, b, c);
            charl_arithmetic *row = &table[i < N / 2 ? k : DENORMALS];

            row->tried++;
            if (int_of(got) != int_of(want)) {
                if (row->wrong++ == 0) {
                    row->first[0] = a;
                    row->first[1] = b;
                    row->first[2] = c;
                    row->got = got;
                    row->want = want;
                }
            }
        }
    }
}

charl_status charl_device_check_arithmetic(charl_device *dev, charl_arithmetic table[CHARL_ARITHMETIC_COUNT])
{
    CHARL_GIVEN(dev, table);
    CHARL_SCOPED_FREE float *host = NULL;
    CHARL_SCOPED(charl__buffer_left) charl__buffer *out = NULL, *in = NULL;

    for (int k = 0; k < CHARL_ARITHMETIC_COUNT; k++) {
        table[k] = (charl_arithmetic){.name = rows[k].name, .meaning = rows[k].meaning};
    }
    CHARL_TRY(charl__alloc_array((3 + OPERATIONS) * N, sizeof *host, &host));
    CHARL_TRY(charl__buffer_create(dev, (size_t)3 * N * sizeof *host, "arithmetic", &in));
    CHARL_TRY(charl__buffer_create(dev, (size_t)OPERATIONS * N * sizeof *host, "arithmetic", &out));
    draw(host);
    CHARL_TRY(charl__buffer_write(CHARL_QUEUE_COMPUTE, in, 0, host, (size_t)3 * N * sizeof *host, true));
    CHARL_TRY(charl__launch_enqueue(
        dev, &(charl__launch){.file = "device/arithmetic",
                              .entry = "charl_arithmetic",
                              .global = {N},
                              .args = {charl__raw(CHARL_ARG_IN, in), charl__raw(CHARL_ARG_OUT, out), charl__i32(N)}}));
    CHARL_TRY(
        charl__buffer_read(CHARL_QUEUE_COMPUTE, out, 0, host + 3 * N, (size_t)OPERATIONS * N * sizeof *host, true));
    if (charl__fault("device.arithmetic")) {
        host[(3 + 2) * N] = 0; /* a quotient */
    }
    compare(host, host + 3 * N, table);
    return CHARL_OK;
}
