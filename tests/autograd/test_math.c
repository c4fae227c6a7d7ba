/* The elementary functions of kernels/prelude/math.clh over the whole range of floats: every 4099th
 * bit pattern and the special values.
 */
#include "support/on_device.h"

#include <math.h>
#include <string.h>

#include "charl/graph.h"

enum { STRIDE = 4099, SPECIAL = 16 };
static const int64_t count = (int64_t)(0x100000000 / STRIDE) + SPECIAL;
static charl_device *dev;

static const float special[SPECIAL] = {0.0F,     -0.0F,     INFINITY,   -INFINITY,      NAN,      1.0F,
                                       -1.0F,    0x1p-126F, -0x1p-126F, 0x1p-149F,      0x1p127F, 88.7228F,
                                       88.7229F, -103.F,    -103.98F,   0x1.fffffep127F};

static void inputs(float *x)
{
    memcpy(x, special, sizeof special);
    for (int64_t i = SPECIAL; i < count; i++) {
        const uint32_t bits = (uint32_t)((uint64_t)(i - SPECIAL) * STRIDE);

        memcpy(&x[i], &bits, sizeof bits);
    }
}

/* Distance in units of the last place of a float near `want`. */
static double ulp_error(float got, double want)
{
    const float near = (float)want;
    int exponent;

    if (isnan(want) || isnan(got)) {
        return isnan(want) && isnan(got) ? 0.0 : (double)INFINITY;
    }
    if (isinf(near) || isinf(got)) {
        return near == got ? 0.0 : (double)INFINITY;
    }
    frexp(want, &exponent);
    return fabs((double)got - want) / ldexp(1.0, (exponent < -125 ? -125 : exponent) - 24);
}

static void check(const char *name, double (*f)(double), double bound)
{
    const charl_shape shape = {1, {count}};
    charl_tensor *x = NULL, *out[4] = {NULL};
    float *in, *got;
    double worst = 0.0;
    int64_t at = 0;

    in = charl_test_array(count, sizeof *in);
    got = charl_test_array(count, sizeof *got);
    inputs(in);
    charl_assert_ok(charl_tensor_create(dev, CHARL_F32, &shape, &x));
    charl_assert_ok(charl_tensor_write(x, in, (size_t)count * sizeof *in));
    charl_assert_ok(charl_apply(dev, name, &x, 1, out));
    charl_assert_ok(charl_tensor_read(out[0], got, (size_t)count * sizeof *got));
    for (int64_t i = 0; i < count; i++) {
        const double error = ulp_error(got[i], f((double)in[i]));

        if (!(error <= worst)) {
            worst = error;
            at = i;
        }
    }
    print_message("%s: %.2f ulp at %a\n", name, worst, (double)in[at]);
    if (!(worst <= bound)) {
        fail_msg("%s(%a) is %a, want %a: %.2f ulp, at most %.1f allowed", name, (double)in[at], (double)got[at],
                 f((double)in[at]), worst, bound);
    }
    charl_tensor_release(out[0]);
    charl_tensor_release(x);
    charl_free(got);
    charl_free(in);
}

static double sigmoid(double x)
{
    return x < 0 ? exp(x) / (1 + exp(x)) : 1 / (1 + exp(-x));
}

static double softplus(double x)
{
    return (x > 0 ? x : 0) + log1p(exp(-fabs(x)));
}

static double relu(double x)
{
    return x <= 0 ? 0 : x;
}

static void test_functions(void **state)
{
    (void)state;
    check("exp", exp, 2.0);
    check("log", log, 2.0);
    check("tanh", tanh, 3.0);
    check("sigmoid", sigmoid, 3.0);
    check("softplus", softplus, 3.0);
    check("sqrt", sqrt, 3.0);
    check("relu", relu, 0.0);
}

/* Functions of odd symmetry keep the sign of zero. */
static void test_signed_zero(void **state)
{
    const charl_shape shape = {1, {2}};
    const float zeros[2] = {0.0F, -0.0F};
    float got[2];
    charl_tensor *x = NULL, *out[4] = {NULL};

    (void)state;
    charl_assert_ok(charl_tensor_create(dev, CHARL_F32, &shape, &x));
    charl_assert_ok(charl_tensor_write(x, zeros, sizeof zeros));
    charl_assert_ok(charl_apply(dev, "tanh", &x, 1, out));
    charl_assert_ok(charl_tensor_read(out[0], got, sizeof got));
    assert_memory_equal(got, zeros, sizeof zeros);
    charl_tensor_release(out[0]);
    charl_tensor_release(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_functions), cmocka_unit_test(test_signed_zero)};

    return charl_test_on_device(tests, &dev);
}
