/* Exact sums: no order, no division and no cancellation shows. */
#include "support/support.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/numeric/exact_sum.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_sums),
        cmocka_unit_test(test_what_is_not_finite),
        cmocka_unit_test(test_order_and_division),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
