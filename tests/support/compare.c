/* Comparisons that a NaN cannot pass. */
#include "support/support.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

enum { MAX_PRINTED = 5 };

static bool is_close(float got, double want, double tol)
{
    if (isnan(want)) {
        return isnan(got);
    }
    if (isinf(want)) {
        return (double)got == want;
    }
    return fabs((double)got - want) <= tol * (1 + fabs(want)); /* false for a NaN */
}

/* Error in units of the last place of the f32 nearest to want. */
static double ulp_error(float got, double want)
{
    const float nearest = (float)want;
    const double ulp = (double)(nextafterf(fabsf(nearest), INFINITY) - fabsf(nearest));

    return ((double)got - want) / ulp;
}

static void report(int64_t i, float got, double want)
{
    print_error("  [%lld] got %.9g want %.9g, %.3g ulp\n", (long long)i, (double)got, want, ulp_error(got, want));
}

void charl_test_close(const float *got, const double *want, int64_t count, double tol, const char *file, int line)
{
    int64_t bad = 0, worst = -1;
    double worst_error = -1;

    for (int64_t i = 0; i < count; i++) {
        if (!is_close(got[i], want[i], tol)) {
            const double d = fabs((double)got[i] - want[i]) / (1 + fabs(want[i]));
            const double error = isnan(d) ? HUGE_VAL : d;

            if (bad++ < MAX_PRINTED) {
                report(i, got[i], want[i]);
            }
            if (error > worst_error) {
                worst_error = error;
                worst = i;
            }
        }
    }
    if (bad > 0) {
        print_error("  worst:\n");
        report(worst, got[worst], want[worst]);
        print_error("%lld of %lld values differ by more than %g (CHARL_TEST_SEED=%llu)\n", (long long)bad,
                    (long long)count, tol, (unsigned long long)charl_test_seed());
        _fail(file, line);
    }
}

void charl_test_close_f32(const float *got, const float *want, int64_t count, double tol, const char *file, int line)
{
    for (int64_t i = 0; i < count; i++) {
        const double wide = (double)want[i];

        if (!is_close(got[i], wide, tol)) {
            print_error("at index %lld of %lld:\n", (long long)i, (long long)count);
            charl_test_close(got + i, &wide, 1, tol, file, line);
        }
    }
}

static uint32_t bits_of(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof bits);
    return bits;
}

void charl_test_same_bits(const float *got, const float *want, int64_t count, const char *file, int line)
{
    for (int64_t i = 0; i < count; i++) {
        if (bits_of(got[i]) != bits_of(want[i])) {
            print_error("bits differ (CHARL_TEST_SEED=%llu):\n", (unsigned long long)charl_test_seed());
            report(i, got[i], (double)want[i]);
            _fail(file, line);
        }
    }
}

void charl_test_status(charl_status got, charl_status want, const char *file, int line)
{
    if (got != want) {
        print_error("status %s, expected %s: %s%s\n", charl_status_name(got), charl_status_name(want),
                    charl_error_message(), charl_error_path());
        _fail(file, line);
    }
}

void charl_test_message(const char *part, const char *file, int line)
{
    if (!strstr(charl_error_message(), part)) {
        print_error("message \"%s\" does not contain \"%s\"\n", charl_error_message(), part);
        _fail(file, line);
    }
}

double charl_test_tolerance(int64_t length)
{
    return 4 * 0x1p-24 * sqrt((double)(length > 1 ? length : 1));
}
