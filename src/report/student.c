/* Student's t distribution.
 *
 * P(T > t) = I_x(nu / 2, 1 / 2) / 2 with x = nu / (nu + t^2), where I is the regularized incomplete beta function, from its continued
 * fraction (DLMF 8.17.22) by Lentz's method. The quantile is found by bisection.
 */
#include "report/student.h"

#include <math.h>

/* The continued fraction of I_x(a, b), which converges fast for x < (a + 1) / (a + b + 2). */
static double fraction(double a, double b, double x)
{
    const double tiny = 1e-300;
    double c = 1, d = 1 - (a + b) * x / (a + 1), f;

    d = 1 / (fabs(d) < tiny ? tiny : d);
    f = d;
    for (int m = 1; m < 10000; m++) {
        const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
                     odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
        double change = 1;

        for (int k = 0; k < 2; k++) {
            const double term = k == 0 ? even : odd;

            d = 1 + term * d;
            c = 1 + term / c;
            d = 1 / (fabs(d) < tiny ? tiny : d);
            c = fabs(c) < tiny ? tiny : c;
            change = c * d;
            f *= change;
        }
        if (fabs(change - 1) < 1e-15) {
            break;
        }
    }
    return f;
}

/* I_x(a, b) for 0 < x < 1, given y = 1 - x. */
static double incomplete_beta(double a, double b, double x, double y)
{
    const double front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log(y));

    return x < (a + 1) / (a + b + 2) ? front * fraction(a, b, x) / a : 1 - front * fraction(b, a, y) / b;
}

/* P(T > t) for t > 0. */
static double tail(double t, double nu)
{
    const double sum = nu + t * t;

    return incomplete_beta(nu / 2, 0.5, nu / sum, t * t / sum) / 2;
}

double charl__student_quantile(double p, double nu)
{
    const double upper = p < 0.5 ? p : 1 - p; /* of the tail */
    double low = 0, high = 1;

    if (p == 0.5) {
        return 0;
    }
    while (tail(high, nu) > upper && high < 1e300) {
        high *= 2;
    }
    for (int i = 0; i < 200 && high - low > 1e-12 * high; i++) {
        const double middle = low + (high - low) / 2;

        if (tail(middle, nu) > upper) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return p < 0.5 ? -high : high;
}

static double mean_of(const double *v, int64_t n)
{
    double sum = 0;

    for (int64_t i = 0; i < n; i++) {
        sum += v[i];
    }
    return sum / (double)n;
}

/* n > 1 */
static double variance_of(const double *v, int64_t n, double mean)
{
    double sum = 0;

    for (int64_t i = 0; i < n; i++) {
        sum += (v[i] - mean) * (v[i] - mean);
    }
    return sum / (double)(n - 1);
}

static charl__interval_of_mean interval(double mean, double error, double nu, double p)
{
    const double half = error > 0 ? charl__student_quantile(p, nu) * error : 0;

    return (charl__interval_of_mean){mean, mean - half, mean + half};
}

charl__interval_of_mean charl__student_paired(const double *a, const double *b, int64_t n, double p)
{
    const double mean = mean_of(b, n) - mean_of(a, n);
    double sum = 0;

    if (n < 2) {
        return (charl__interval_of_mean){mean, (double)NAN, (double)NAN};
    }
    for (int64_t i = 0; i < n; i++) {
        sum += (b[i] - a[i] - mean) * (b[i] - a[i] - mean);
    }
    return interval(mean, sqrt(sum / (double)(n - 1) / (double)n), (double)(n - 1), p);
}

charl__interval_of_mean charl__student_welch(const double *a, int64_t na, const double *b, int64_t nb)
{
    const double ma = mean_of(a, na), mb = mean_of(b, nb);
    double va, vb, error;

    if (na < 2 || nb < 2) {
        return (charl__interval_of_mean){mb - ma, (double)NAN, (double)NAN};
    }
    va = variance_of(a, na, ma) / (double)na;
    vb = variance_of(b, nb, mb) / (double)nb;
    error = sqrt(va + vb);
    return interval(mb - ma, error, (va + vb) * (va + vb) / (va * va / (double)(na - 1) + vb * vb / (double)(nb - 1)),
                    0.975);
}
