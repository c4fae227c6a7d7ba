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

/* Seconds since backward began until m buckets, of which each takes each_s, have been sent. */
static double sent_s(const charl__step_work *w, double each_s)
{
    double done_s = 0;

    for (int i = 1; i <= w->buckets; i++) {
        done_s = max(done_s, w->backward * w->compute_s * i / w->buckets) + each_s;
    }
    return done_s;
}

double charl__scaling_exposed_s(const charl__cluster *c, int ranks, const charl__step_work *w)
{
    const double each_s = charl__scaling_allreduce_s(c, ranks, (w->bytes - w->last) / w->buckets);
    const double backward_s = w->backward * w->compute_s;
    double done_s = sent_s(w, each_s);

    if (w->last > 0) {
        done_s = max(done_s, backward_s) + charl__scaling_allreduce_s(c, ranks, w->last);
    }
    return done_s - backward_s;
}

static double node_count(const charl__cluster *c, int ranks)
{
    return (ranks + c->node - 1) / c->node;
}

double charl__scaling_traffic(const charl__sharded_cluster *c, int ranks, charl_shard shard, double bytes)
{
    const double nodes = node_count(&c->links, ranks), part = bytes * (nodes - 1) / nodes;

    return shard == CHARL_SHARD_OPTIMIZER ? 3 * part : 2 * part; /* two of sums, one of parameters; or one and one */
}

double charl__scaling_step_s(const charl__sharded_cluster *c, int ranks, charl_shard shard, const charl__step_work *w,
                             int layers)
{
    const charl__cluster *l = &c->links;
    const double nodes = node_count(l, ranks), p = ranks < l->node ? ranks : l->node,
                 part = w->bytes * (nodes - 1) / nodes;
    const bool scatters = shard >= CHARL_SHARD_GRADIENTS; /* sums go to their owners only */
    const double rounds = scatters ? 1 : 2;
    const double near_s = scatters && nodes > 1 ? w->bytes / c->host : (p - 1) / p * w->bytes * l->near.beta_s;
    const double far_s = nodes > 1 ? part * l->far.beta_s : 0, wait_s = nodes > 1 ? (nodes - 1) * l->far.alpha_s : 0;
    const double backward_s = w->backward * w->compute_s;
    const double each_s = (rounds * (near_s + far_s)) / w->buckets + rounds * (wait_s + (p > 1 ? l->near.alpha_s : 0));
    const double step_s = w->compute_s + sent_s(w, each_s) - backward_s;

    if (ranks == 1 || shard == CHARL_SHARD_NONE) {
        return step_s;
    }
    if (shard == CHARL_SHARD_PARAMETERS) {
        return max(step_s, w->bytes * (ranks - 1) / ranks / c->messages) + w->bytes / c->host;
    }
    return step_s + near_s + far_s + wait_s * layers;
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
