#ifndef CHARL_REPORT_STUDENT_H
#define CHARL_REPORT_STUDENT_H
/** Student's t distribution, and confidence intervals from it. */
#include <stdint.h>

/** t with P(T <= t) = p, 0 < p < 1, for nu > 0 degrees of freedom, which need not be whole. Relative error below 1e-9. */
double charl__student_quantile(double p, double nu);

/** A difference and its confidence interval; low and high are NaN if there are too few values. */
typedef struct charl__interval_of_mean {
    double mean, low, high;
} charl__interval_of_mean;

/** Of the mean of b[i] - a[i]: mean +- t(n - 1) s / sqrt(n), t the quantile of p, s the standard deviation of the differences. n > 0. p = 0.975
 *  gives the 95 % interval. */
charl__interval_of_mean charl__student_paired(const double *a, const double *b, int64_t n, double p);

/** 95 %, of mean(b) - mean(a) for independent samples with different variances (Welch). na, nb > 0. */
charl__interval_of_mean charl__student_welch(const double *a, int64_t na, const double *b, int64_t nb);

#endif
