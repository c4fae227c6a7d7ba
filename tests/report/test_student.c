/* Student's t: quantiles against published tables and closed forms, intervals against values worked out by hand. */
#include "support/support.h"

#include <math.h>

#include "report/student.h"

static void near(double got, double want, double relative)
{
    if (!(fabs(got - want) <= relative * fabs(want))) {
        fail_msg("%.15g, not %.15g", got, want);
    }
}

static void test_quantiles(void **state)
{
    /* NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.6.7.2 */
    static const struct {
        double nu, at_95, at_975, at_99;
    } table[] = {{1, 6.314, 12.706, 31.821}, {2, 2.920, 4.303, 6.965},  {4, 2.132, 2.776, 3.747},
                 {9, 1.833, 2.262, 2.821},   {30, 1.697, 2.042, 2.457}, {100, 1.660, 1.984, 2.364}};

    (void)state;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        near(charl__student_quantile(0.95, table[i].nu), table[i].at_95, 3e-4);
        near(charl__student_quantile(0.975, table[i].nu), table[i].at_975, 3e-4);
        near(charl__student_quantile(0.99, table[i].nu), table[i].at_99, 3e-4);
    }
}

/* nu = 1: tan(pi (p - 1/2)); nu = 2: (2p - 1) sqrt(2 / (4p (1 - p))); nu = 4: 2 sqrt(q - 1), q = cos(acos(a) / 3) / a, a = sqrt(4p (1 - p)). */
static void test_closed_forms(void **state)
{
    static const double pi = 3.14159265358979323846;

    (void)state;
    for (double p = 0.501; p < 0.9999; p += 0.00711) {
        const double alpha = 4 * p * (1 - p), a = sqrt(alpha);

        near(charl__student_quantile(p, 1), tan(pi * (p - 0.5)), 1e-9);
        near(charl__student_quantile(p, 2), (2 * p - 1) * sqrt(2 / alpha), 1e-9);
        near(charl__student_quantile(p, 4), 2 * sqrt(cos(acos(a) / 3) / a - 1), 1e-8);
        near(charl__student_quantile(1 - p, 2), -(2 * p - 1) * sqrt(2 / alpha), 1e-9);
    }
    assert_true(charl__student_quantile(0.5, 3) == 0);
    near(charl__student_quantile(0.975, 1e7), 1.959964, 1e-6); /* the normal distribution */
}

static void test_intervals(void **state)
{
    static const double a[] = {1, 2, 3, 4, 5}, b[] = {1.1, 2.3, 3.2, 4.3, 5.1};
    /* differences 0.1, 0.3, 0.2, 0.3, 0.1: mean 0.2, s = 0.1, error 0.1 / sqrt(5) */
    const charl__interval_of_mean paired = charl__student_paired(a, b, 5, 0.975),
                                  one = charl__student_paired(a, b, 1, 0.975);
    /* variances 2.5 and 2.51: error sqrt(0.5 + 0.502), nu = 1.002^2 / (0.5^2 / 4 + 0.502^2 / 4) = 7.99997 */
    const charl__interval_of_mean welch = charl__student_welch(a, 5, b, 5);

    (void)state;
    near(paired.mean, 0.2, 1e-12);
    near(paired.high - paired.mean, 2.7764451051977987 * 0.1 / sqrt(5), 1e-9);
    near(paired.mean - paired.low, paired.high - paired.mean, 1e-9);
    assert_true(isnan(one.low) && isnan(one.high));
    near(one.mean, 0.1, 1e-9);
    near(welch.mean, 0.2, 1e-12);
    near(welch.high - welch.mean, charl__student_quantile(0.975, 1.002 * 1.002 * 4 / (0.25 + 0.252004)) * sqrt(1.002),
         1e-9);
    near(charl__student_quantile(0.975, 8), 2.3060041350333704, 1e-9);
    assert_true(isnan(charl__student_welch(a, 1, b, 5).low));
    near(charl__student_paired(a, a, 5, 0.975).high + 1, 1, 1e-12); /* equal runs: no difference at all */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_quantiles),
        cmocka_unit_test(test_closed_forms),
        cmocka_unit_test(test_intervals),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
