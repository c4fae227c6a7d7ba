/* Errors of predicted numbers. With several targets a metric is the mean over the targets. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "nn/metric.h"

static charl_var *build_mae(charl_graph *g, charl_target_kind kind, charl_var *outputs, charl_var *targets)
{
    (void)kind;
    return charl_l1(g, outputs, targets);
}

static double mae_of(charl_target_kind kind, const charl__eval_row *row)
{
    double sum = 0.0;

    (void)kind;
    for (int64_t i = 0; i < row->n; i++) {
        sum += fabs((double)row->outputs[i] - charl__eval_target(row, i));
    }
    return sum / (double)row->n;
}

const charl__metric charl__metric_mae = {
    .row.name = "mae",
    .row.help = "mean absolute error",
    .targets = CHARL_TARGET_NUMBERS,
    .automatic = CHARL_TARGET_NUMBERS,
    .build = build_mae,
    .reference = mae_of,
    .finish = charl__metric_mean,
};

/* counts: rows; sums of each target: error^2, and for r2 target and target^2. A product of two f32 is exact in double. */

static void size_rmse(const charl__metric_data *d, charl__metric_size *out)
{
    out->counts = 1;
    out->sums = d->outputs;
}

static void size_r2(const charl__metric_data *d, charl__metric_size *out)
{
    out->counts = 1;
    out->sums = 3 * d->outputs;
}

static void add_squares(const charl__metric_data *d, const charl__eval_row *row, charl__metric_state *s)
{
    (void)d;
    s->counts[0]++;
    for (int64_t i = 0; i < row->n; i++) {
        const double error = (double)row->outputs[i] - charl__eval_target(row, i);

        charl__exact_add(s->sums + i * CHARL__EXACT_LIMBS, error * error);
    }
}

static void add_r2(const charl__metric_data *d, const charl__eval_row *row, charl__metric_state *s)
{
    add_squares(d, row, s);
    for (int64_t i = 0; i < row->n; i++) {
        const double target = charl__eval_target(row, i);

        charl__exact_add(s->sums + (row->n + i) * CHARL__EXACT_LIMBS, target);
        charl__exact_add(s->sums + (2 * row->n + i) * CHARL__EXACT_LIMBS, target * target);
    }
}

static double sum_at(const charl__metric_state *s, int64_t i)
{
    return charl__exact_value(s->sums + i * CHARL__EXACT_LIMBS);
}

static charl_status finish_rmse(const charl__metric_data *d, const charl__metric_state *s, double *value,
                                double *details)
{
    double total = 0.0;

    for (int64_t i = 0; i < d->outputs; i++) {
        const double rmse = sqrt(sum_at(s, i) / (double)s->counts[0]);

        total += rmse;
        if (details) {
            details[i] = rmse;
        }
    }
    *value = total / (double)d->outputs;
    return CHARL_OK;
}

const charl__metric charl__metric_rmse = {
    .row.name = "rmse",
    .row.help = "root of the mean squared error",
    .targets = CHARL_TARGET_NUMBERS,
    .reads = CHARL__READS_OUTPUTS | CHARL__READS_TARGETS,
    .detail = CHARL__DETAIL_EACH,
    .size = size_rmse,
    .add = add_squares,
    .finish = finish_rmse,
};

/* The sum of (t - mean)^2 from the sums of t and of t^2: (n sum t^2 - (sum t)^2) / n. The two products are split into halves (product and
 * rounding error, by fma), because their difference cancels, and the result has the same bits on every processor. */
static double spread_of(double n, double sum, double squares)
{
    const double a = n * squares, b = sum * sum;
    int64_t difference[CHARL__EXACT_LIMBS] = {0};

    charl__exact_add(difference, a);
    charl__exact_add(difference, fma(n, squares, -a));
    charl__exact_add(difference, -b);
    charl__exact_add(difference, -fma(sum, sum, -b));
    return charl__exact_value(difference) / n;
}

/* 1 - sum of error^2 / sum of (target - mean)^2. A target that never changes gives 1 if it is predicted exactly, else 0, as in scikit-learn. */
static charl_status finish_r2(const charl__metric_data *d, const charl__metric_state *s, double *value, double *details)
{
    double total = 0.0;

    for (int64_t i = 0; i < d->outputs; i++) {
        const double errors = sum_at(s, i);
        const double squares = sum_at(s, 2 * d->outputs + i);
        const double spread = spread_of((double)s->counts[0], sum_at(s, d->outputs + i), squares);
        /* The rounding error of a constant is not a spread. */
        const bool varies = spread > 1e-14 * squares;
        const double r2 = varies ? 1.0 - errors / spread : errors > 0 ? 0.0 : 1.0 - errors;

        total += r2;
        if (details) {
            details[i] = r2;
        }
    }
    *value = s->counts[0] > 1 ? total / (double)d->outputs : (double)NAN;
    return CHARL_OK;
}

const charl__metric charl__metric_r2 = {
    .row.name = "r2",
    .row.help = "coefficient of determination: part of the targets' variance that is predicted",
    .higher = true,
    .targets = CHARL_TARGET_NUMBERS,
    .reads = CHARL__READS_OUTPUTS | CHARL__READS_TARGETS,
    .detail = CHARL__DETAIL_EACH,
    .size = size_r2,
    .add = add_r2,
    .finish = finish_r2,
};

/* Actual and predicted values as points of a diagram.
 *
 * The row, and both numbers of each of the first targets, are kept of every row, so that the selection does not depend on the number of ranks. */

enum { DRAWN_TARGETS = 8 };

static int64_t drawn_targets(const charl__metric_data *d)
{
    return d->outputs < DRAWN_TARGETS ? d->outputs : DRAWN_TARGETS;
}

static void size_residuals(const charl__metric_data *d, charl__metric_size *out)
{
    out->kept = 1 + 2 * drawn_targets(d);
}

static void add_residuals(const charl__metric_data *d, const charl__eval_row *row, charl__metric_state *s)
{
    s->kept[0] = (double)row->index;
    for (int64_t i = 0; i < drawn_targets(d); i++) {
        s->kept[1 + 2 * i] = charl__eval_target(row, i);
        s->kept[2 + 2 * i] = (double)row->outputs[i];
    }
}

static int by_row(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Every so many rows, the same of all targets. */
static charl_status finish_residuals(const charl__metric_data *d, const charl__metric_state *s, double *value,
                                     double *details)
{
    const int64_t targets = drawn_targets(d), width = 1 + 2 * targets;
    const int64_t most = CHARL__MOST_POINTS / targets, n = s->n_kept < most ? s->n_kept : most;
    CHARL_SCOPED_FREE double *sorted = NULL;

    *value = (double)NAN;
    if (!details || n == 0) {
        return CHARL_OK;
    }
    CHARL_TRY(charl__alloc_array(s->n_kept * width, sizeof *sorted, &sorted));
    memcpy(sorted, s->kept, (size_t)(s->n_kept * width) * sizeof *sorted);
    qsort(sorted, (size_t)s->n_kept, (size_t)width * sizeof *sorted, by_row);
    for (int64_t i = 0; i < targets; i++) {
        for (int64_t k = 0; k < n; k++) {
            const double *row = sorted + k * s->n_kept / n * width;

            *details++ = (double)i;
            *details++ = row[1 + 2 * i];
            *details++ = row[2 + 2 * i];
        }
    }
    return CHARL_OK;
}

const charl__metric charl__metric_residuals = {
    .row.name = "residuals",
    .row.help = "actual and predicted value of each target, of up to 1000 samples",
    .report_only = true,
    .targets = CHARL_TARGET_NUMBERS,
    .reads = CHARL__READS_OUTPUTS | CHARL__READS_TARGETS,
    .detail = CHARL__DETAIL_POINTS,
    .diagram = {"residuals", {"target", "actual", "predicted"}},
    .size = size_residuals,
    .add = add_residuals,
    .finish = finish_residuals,
};
