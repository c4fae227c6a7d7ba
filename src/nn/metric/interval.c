/* The interval between the lowest and the highest quantile that a model predicts of a number. With several targets a metric is the mean over
 * the targets. */
#include "nn/metric.h"

static double end_of(const charl__metric_data *d, const charl__eval_row *row, int64_t i, bool high)
{
    return (double)row->values[(high ? d->quantiles - 1 : 0) * row->n + i];
}

/* counts: rows, then of each target those within its interval */
static void size_coverage(const charl__metric_data *d, charl__metric_size *out)
{
    out->counts = 1 + d->outputs;
}

static void add_coverage(const charl__metric_data *d, const charl__eval_row *row, charl__metric_state *s)
{
    s->counts[0]++;
    for (int64_t i = 0; i < row->n; i++) {
        const double t = charl__eval_target(row, i);

        s->counts[1 + i] += t >= end_of(d, row, i, false) && t <= end_of(d, row, i, true);
    }
}

/* counts: rows. sums: of each target's widths; a difference of two f32 is rounded to double. */
static void size_width(const charl__metric_data *d, charl__metric_size *out)
{
    out->counts = 1;
    out->sums = d->outputs;
}

static void add_width(const charl__metric_data *d, const charl__eval_row *row, charl__metric_state *s)
{
    s->counts[0]++;
    for (int64_t i = 0; i < row->n; i++) {
        charl__exact_add(s->sums + i * CHARL__EXACT_LIMBS, end_of(d, row, i, true) - end_of(d, row, i, false));
    }
}

/* The mean over the targets of totals over the rows. */
static charl_status finish(const charl__metric_data *d, const charl__metric_state *s, double *value, double *details,
                           bool width)
{
    double total = 0.0;

    for (int64_t i = 0; i < d->outputs; i++) {
        const double sum = width ? charl__exact_value(s->sums + i * CHARL__EXACT_LIMBS) : (double)s->counts[1 + i];
        const double mean = sum / (double)s->counts[0];

        total += mean;
        if (details) {
            details[i] = mean;
        }
    }
    *value = total / (double)d->outputs;
    return CHARL_OK;
}

static charl_status finish_coverage(const charl__metric_data *d, const charl__metric_state *s, double *value,
                                    double *details)
{
    return finish(d, s, value, details, false);
}

static charl_status finish_width(const charl__metric_data *d, const charl__metric_state *s, double *value,
                                 double *details)
{
    return finish(d, s, value, details, true);
}

const charl__metric charl__metric_coverage = {
    .row.name = "coverage",
    .row.help = "share of the targets between their lowest and highest predicted quantile",
    .higher = true,
    .fraction = true,
    .targets = CHARL_TARGET_INTERVALS,
    .automatic = CHARL_TARGET_INTERVALS,
    .reads = CHARL__READS_OUTPUTS | CHARL__READS_TARGETS,
    .detail = CHARL__DETAIL_EACH,
    .size = size_coverage,
    .add = add_coverage,
    .finish = finish_coverage,
};

const charl__metric charl__metric_interval_width = {
    .row.name = "interval_width",
    .row.help = "mean difference of the highest and the lowest predicted quantile",
    .targets = CHARL_TARGET_INTERVALS,
    .automatic = CHARL_TARGET_INTERVALS,
    .reads = CHARL__READS_OUTPUTS | CHARL__READS_TARGETS,
    .detail = CHARL__DETAIL_EACH,
    .size = size_width,
    .add = add_width,
    .finish = finish_width,
};
