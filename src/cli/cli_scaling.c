/* The model of step time. */
#include "cli/cli_scaling.h"

static double max(double a, double b)
{
    return a > b ? a : b;
}

double charl__scaling_allreduce_s(const charl__cluster *c, int ranks, double bytes)
{
    const double p = ranks < c->node ? ranks : c->node, nodes = (ranks + c->node - 1) / c->node;
    double s = 0;

    if (p > 1) {
        s += 2 * c->near.alpha_s + 2 * (p - 1) / p * bytes * c->near.beta_s;
    }
    if (nodes > 1) {
        s += 2 * (nodes - 1) * c->far.alpha_s + 2 * (nodes - 1) / nodes * bytes * c->far.beta_s;
    }
    return s;
}

charl__link charl__scaling_fit(int ranks, double few, double few_s, double many, double many_s)
{
    const double share = 2 * (ranks - 1.0) / ranks;
    charl__link l;

    l.beta_s = max(0, (many_s - few_s) / (many - few) / share);
    l.alpha_s = max(0, (few_s - share * few * l.beta_s) / 2);
    return l;
}

double charl__scaling_exposed_s(const charl__cluster *c, int ranks, const charl__step_work *w)
{
    const double each_s = charl__scaling_allreduce_s(c, ranks, (w->bytes - w->last) / w->buckets);
    const double backward_s = w->backward * w->compute_s;
    double done_s = 0; /* since backward began */

    for (int i = 1; i <= w->buckets; i++) {
        done_s = max(done_s, backward_s * i / w->buckets) + each_s;
    }
    if (w->last > 0) {
        done_s = max(done_s, backward_s) + charl__scaling_allreduce_s(c, ranks, w->last);
    }
    return done_s - backward_s;
}

double charl__scaling_compute_s(const charl__compute_curve *curve, double slices)
{
    const double *x = curve->slices, *y = curve->compute_s;
    int i = 1;

    if (curve->n == 1) {
        return y[0] * slices / x[0];
    }
    while (i < curve->n - 1 && slices > x[i]) {
        i++;
    }
    return max(0, y[i - 1] + (y[i] - y[i - 1]) * (slices - x[i - 1]) / (x[i] - x[i - 1]));
}
