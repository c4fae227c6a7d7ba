/* Measuring ranks, and dividing the batch by what was measured.
 *
 * A measured step waits for the device before and behind its graphs, so its all-reduce does not
 * hide behind them: few steps are measured. The median of them counts, as other work on a machine
 * now and then delays a step, and half of it is what earlier ones said. What a rank does whatever
 * its slices (the update, small launches) is counted as if it were theirs; the times after a
 * division correct that at the next one, as divisions stand still only when all ranks take equally
 * long. Every division doubles the pause until the next measuring, so that a machine whose speed
 * changes all the time does not spend its own on dividing. */
#include "train/parallel/balance.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/env.h"
#include "base/fault.h"
#include "train/parallel/apportion.h"
#include "train/trainer.h"

enum {
    FIRST = 2,   /* steps that warm caches up */
    AFTER = 8,   /* from the first division to the next measuring */
    STEADY = 256 /* from one measuring to the next */
};

static const double GAIN = 0.9; /* a step must become shorter than this part of itself */

/* "1:3,2:1.5": the factor of `rank`, 1 when it is not named. */
static charl_status read_slowness(const char *text, int rank, double *out)
{
    const char *p = text;

    *out = 1.0;
    while (p && *p) {
        char *end = NULL;
        const long r = strtol(p, &end, 10);
        const bool named = end != p && *end == ':' && r >= 0;
        const char *at = named ? end + 1 : p;
        const double factor = strtod(at, &end);

        CHARL_REQUIRE(named && end != at && factor >= 1.0 && factor <= 1000.0 && (*end == ',' || *end == '\0'),
                      CHARL_ERR_CONFIG,
                      "CHARL_SLOW=%s: expected rank:factor,... with factors of "
                      "1 to 1000",
                      text);
        *out = r == rank ? factor : *out;
        p = *end ? end + 1 : end;
    }
    return CHARL_OK;
}

charl_status charl__balance_init(charl__trainer *t)
{
    charl__balance *b = &t->balance;
    const int size = charl_comm_size(t->comm);
    charl_slices block;

    *b = (charl__balance){.skip = FIRST, .settle = AFTER, .slowness = 1.0};
    b->on = t->config->dist.balance == CHARL__BALANCE_SPEED && size > 1 && !t->session.infers;
    CHARL_TRY(read_slowness(charl__env(CHARL_ENV_SLOW), charl_comm_rank(t->comm), &b->slowness));
    for (int r = 0; r < size; r++) {
        CHARL_TRY(charl_slices_block(t->replica.dp->slices.total, r, size, &block));
        b->count[r] = block.count;
    }
    return CHARL_OK;
}

static bool is_measured(const charl__balance *b)
{
    return b->on && b->skip == 0 && b->n < CHARL__BALANCE_SAMPLES;
}

/* For what this rank has enqueued itself: other queues may wait for other ranks. */
static charl_status wait_computed(const charl__trainer *t)
{
    charl_status st = CHARL_OK;
    charl__event *e = NULL;

    CHARL_TRY_CLEANUP(charl__event_record(t->session.dev, CHARL_QUEUE_COMPUTE, &e));
    CHARL_TRY_CLEANUP(charl__event_wait(e));
cleanup:
    charl__event_release(e);
    return st;
}

charl_status charl__balance_begin(charl__trainer *t)
{
    charl__balance *b = &t->balance;

    if (is_measured(b) || b->slowness > 1.0) {
        CHARL_TRY(wait_computed(t));
        b->begin_s = charl__clock_s();
        b->waited_s = charl__grad_reducer_waited_s(t->replica.dp->reducer);
    }
    return CHARL_OK;
}

charl_status charl__balance_end(charl__trainer *t)
{
    charl__balance *b = &t->balance;
    double busy;

    if (is_measured(b) || b->slowness > 1.0) {
        CHARL_TRY(wait_computed(t));
        busy = charl__clock_s() - b->begin_s - (charl__grad_reducer_waited_s(t->replica.dp->reducer) - b->waited_s);
        charl__sleep_s((b->slowness - 1.0) * busy);
        if (is_measured(b)) {
            b->sample[b->n++] = fmax(b->slowness * busy, 1e-9);
        }
    }
    b->skip -= b->skip > 0;
    return CHARL_OK;
}

bool charl__balance_is_due(const charl__trainer *t)
{
    return t->balance.n == CHARL__BALANCE_SAMPLES;
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* The median, or what a test wants to have been measured, in microseconds. */
static double measured(charl__balance *b)
{
    int64_t us;

    qsort(b->sample, CHARL__BALANCE_SAMPLES, sizeof b->sample[0], compare);
    return charl__fault_arg("train.measured", &us) ? (double)us * 1e-6 : b->sample[CHARL__BALANCE_SAMPLES / 2];
}

static charl_status exchange(charl__trainer *t, const int *count)
{
    charl_status st = CHARL_OK;
    const int rank = charl_comm_rank(t->comm);
    int first = 0;

    for (int r = 0; r < rank; r++) {
        first += count[r];
    }
    charl_comm_set_timeout(t->comm, t->config->dist.stage_timeout_s);
    st = charl__replica_divide(&t->replica, first, count[rank]);
    if (st != CHARL_OK && charl_comm_is_agreed(t->comm)) {
        charl__error_prefix("step %" PRId64 ", division of the batch: ", t->replica.step);
    }
    CHARL_TRY(st);
    charl_comm_set_timeout(t->comm, t->config->dist.timeout_s);
    memcpy(t->balance.count, count, (size_t)charl_comm_size(t->comm) * sizeof *count);
    return st;
}

charl_status charl__balance_divide(charl__trainer *t)
{
    charl__balance *b = &t->balance;
    const int size = charl_comm_size(t->comm);
    const int least = t->config->train.grad_accum_steps > 1 ? (int)t->config->train.grad_accum_steps : 1;
    /* What has been one pass stays one, as batch norm needs it; the ranks are alike in that. */
    const int most = t->replica.dp->accum ? t->replica.dp->slices.total : CHARL_GRAPH_SLICES;
    const double begin = charl__clock_s(), mine = measured(b);
    double time[CHARL_MAX_SLICES];
    charl_balance_row row = {.step = t->replica.step, .size = size, .slices = b->count, .step_ms = time};
    int count[CHARL_MAX_SLICES];

    CHARL_TRY(charl_comm_allgather(t->comm, &mine, sizeof mine, time));
    for (int r = 0; r < size; r++) {
        const double cost = time[r] / b->count[r];

        b->cost[r] = b->cost[r] > 0.0 ? 0.5 * (b->cost[r] + cost) : cost;
        time[r] *= 1e3;
    }
    charl__apportion(t->replica.dp->slices.total, least, most, size, b->cost, count);
    b->n = 0;
    b->skip = STEADY;
    if (charl__apportion_time(size, b->cost, count) > GAIN * charl__apportion_time(size, b->cost, b->count)) {
        return CHARL_OK;
    }
    CHARL_TRY(exchange(t, count));
    b->skip = b->settle;
    b->settle = b->settle < STEADY ? 2 * b->settle : STEADY;
    row.ms = (charl__clock_s() - begin) * 1e3;
    return charl__trainer_balanced(t, &row);
}
