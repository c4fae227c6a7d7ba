/* --stop-losers: configurations that are shown to be worse than the best one get no further seeds. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "cli/charl/sweep.h"

enum { LEAST_PAIRS = 3 };

/* The values of the runs that are done, so that a lower one is better: [groups * seeds], NaN: none. */
typedef struct race {
    const charl__sweep *s;
    int seeds;
    double *value;
} race;

static charl_status collect(race *r)
{
    const charl__sweep *s = r->s;

    r->seeds = s->seed < 0 ? 1 : s->key[s->seed].count;
    CHARL_TRY(charl__cli_alloc((int64_t)s->n_groups * r->seeds, sizeof *r->value, &r->value));
    for (int i = 0; i < s->n_groups * r->seeds; i++) {
        r->value[i] = (double)NAN;
    }
    for (int i = 0; i < s->n_arms; i++) {
        const charl__sweep_arm *arm = &s->arm[i];
        const int seed = s->seed < 0 ? 0 : arm->value[s->seed];

        if (arm->state == CHARL__SWEEP_DONE && arm->measured) {
            r->value[arm->group * r->seeds + seed] = arm->done.higher ? -arm->done.best : arm->done.best;
        }
    }
    return CHARL_OK;
}

/* The values of the seeds that both groups have; returns their number. */
static int pair(const race *r, int a, int b, double *of_a, double *of_b)
{
    int n = 0;

    for (int i = 0; i < r->seeds; i++) {
        const double x = r->value[a * r->seeds + i], y = r->value[b * r->seeds + i];

        if (!isnan(x) && !isnan(y)) {
            of_a[n] = x;
            of_b[n++] = y;
        }
    }
    return n;
}

/* The group with the lowest mean, of those with enough runs; -1: none. */
static int find_best(const race *r)
{
    double lowest = INFINITY;
    int best = -1;

    for (int g = 0; g < r->s->n_groups; g++) {
        double sum = 0;
        int n = 0;

        for (int i = 0; i < r->seeds; i++) {
            const double v = r->value[g * r->seeds + i];

            sum += isnan(v) ? 0 : v;
            n += !isnan(v);
        }
        if (n >= LEAST_PAIRS && sum / n < lowest) {
            lowest = sum / n;
            best = g;
        }
    }
    return best;
}

static void drop(charl__sweep *s, int group, int best, int pairs)
{
    const charl__sweep_arm *winner = NULL, *first = NULL;
    int dropped = 0;

    for (int i = 0; i < s->n_arms; i++) {
        charl__sweep_arm *arm = &s->arm[i];

        winner = !winner && arm->group == best ? arm : winner;
        if (arm->group == group && (arm->state == CHARL__SWEEP_NEW || arm->state == CHARL__SWEEP_BEGUN)) {
            first = first ? first : arm;
            arm->state = CHARL__SWEEP_DROPPED;
            dropped++;
        }
    }
    if (dropped > 0) {
        charl__cli_put(first->name, 0);
        printf(": dropped%s, worse than ", dropped > 1 ? " with its other seeds" : "");
        charl__cli_put(winner->name, 0);
        printf(" in %d pairs\n", pairs);
        fflush(stdout);
    }
}

charl_status charl__sweep_drop(charl__sweep *s, double p)
{
    charl_status st = CHARL_OK;
    race r = {.s = s};
    double *of_best = NULL, *of_other = NULL;
    int best;

    CHARL_TRY_CLEANUP(collect(&r));
    CHARL_TRY_CLEANUP(charl__cli_alloc(r.seeds, sizeof *of_best, &of_best));
    CHARL_TRY_CLEANUP(charl__cli_alloc(r.seeds, sizeof *of_other, &of_other));
    best = find_best(&r);
    for (int g = 0; g < s->n_groups && best >= 0; g++) {
        const double tests = (double)s->n_groups * (s->n_groups - 1) * (r.seeds - LEAST_PAIRS + 1);
        const int n = g == best ? 0 : pair(&r, best, g, of_best, of_other);
        const double confidence = 1 - p / tests;
        double low = -1;

        if (n >= LEAST_PAIRS && confidence < 1) { /* it is 1 for a p that no difference meets */
            CHARL_TRY_CLEANUP(charl_report_paired(of_best, of_other, n, confidence, &low));
        }
        if (low > 0) {
            drop(s, g, best, n);
        }
    }
cleanup:
    free(r.value);
    free(of_best);
    free(of_other);
    return st;
}
