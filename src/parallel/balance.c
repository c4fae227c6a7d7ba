/* Measuring ranks, and dividing the batch accordingly.
 *
 * A measured step waits for the device before and after its graphs, so its all-reduce does not
 * overlap with them: only few steps are measured. Their median is used, because other work on a machine
 * occasionally delays a step, and averaged with earlier measurements. Work of a rank that does not depend on
 * its slices (the update, small launches) is counted as theirs; the times after a
 * division correct this in the next one, because divisions only stop when all ranks take equally
 * long. Every division doubles the pause until the next measurement, so that a machine whose speed
 * keeps changing does not spend its time on dividing. */
#include "parallel/balance.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/env.h"
#include "base/fault.h"
#include "parallel/apportion.h"
#include "parallel/data_parallel.h"

enum {
    FIRST = 2,   /* warm-up steps */
    AFTER = 8,   /* from the first division to the next measurement */
    STEADY = 256 /* from one measurement to the next */
};

static const double GAIN = 0.9; /* a step must become shorter by this fraction */

/* "1:3,2:1.5": the factor of `rank`, 1 if it is not named. */
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

charl_status charl__balance_init(charl_data_parallel *dp, bool on)
{
    dp->balance =
        (charl__balance){.on = on && charl_comm_size(dp->comm) > 1, .skip = FIRST, .next_skip = AFTER, .slowness = 1.0};
    return read_slowness(charl__env(CHARL_ENV_SLOW), charl_comm_rank(dp->comm), &dp->balance.slowness);
}

/* The slices of one rank follow those of the previous rank. */
static charl_status check_order(const charl_data_parallel *dp)
{
    const int rank = charl_comm_rank(dp->comm);
    int first = 0;

    for (int r = 0; r < rank; r++) {
        first += dp->balance.count[r];
    }
    CHARL_REQUIRE(dp->slices.count > 0 && first == dp->slices.first, CHARL_ERR_INVALID,
                  "balance: rank %d has %d slices from %d on, and the ranks before it have %d; HINT charl_slices_block",
                  rank, dp->slices.count, dp->slices.first, first);
    return CHARL_OK;
}

charl_status charl__balance_count(charl_data_parallel *dp)
{
    const int mine = dp->slices.count;

    if (!dp->balance.on) {
        return CHARL_OK;
    }
    CHARL_TRY(charl_comm_allgather(dp->comm, &mine, sizeof mine, dp->balance.count));
    return charl_comm_agree(dp->comm, check_order(dp));
}

static bool is_measured(const charl__balance *b)
{
    return b->on && b->skip == 0 && b->n < CHARL__BALANCE_SAMPLES;
}

/* For commands that this rank has enqueued itself: other queues may wait for other ranks. */
static charl_status wait_computed(const charl_data_parallel *dp)
{
    CHARL_SCOPED(charl__event_left) charl__event *e = NULL;

    CHARL_TRY(charl__event_record(dp->params->dev, CHARL_QUEUE_COMPUTE, &e));
    CHARL_TRY(charl__event_wait(e));
    return CHARL_OK;
}

charl_status charl__balance_begin(charl_data_parallel *dp)
{
    charl__balance *b = &dp->balance;

    if (is_measured(b) || b->slowness > 1.0) {
        CHARL_TRY(wait_computed(dp));
        b->begin_s = charl__clock_s();
        b->waited_s = charl__grad_reducer_get_info(dp->reducer).waited_s;
    }
    return CHARL_OK;
}

charl_status charl__balance_end(charl_data_parallel *dp)
{
    charl__balance *b = &dp->balance;
    double busy;

    if (is_measured(b) || b->slowness > 1.0) {
        CHARL_TRY(wait_computed(dp));
        busy = charl__clock_s() - b->begin_s - (charl__grad_reducer_get_info(dp->reducer).waited_s - b->waited_s);
        charl__sleep_s((b->slowness - 1.0) * busy);
        if (is_measured(b)) {
            b->sample[b->n++] = fmax(b->slowness * busy, 1e-9);
        }
    }
    b->skip -= b->skip > 0;
    return CHARL_OK;
}

bool charl__balance_is_due(const charl_data_parallel *dp)
{
    return dp->balance.n == CHARL__BALANCE_SAMPLES;
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* The median, or the measurement that a test specifies, in microseconds. */
static double measured(charl__balance *b)
{
    int64_t us;

    qsort(b->sample, CHARL__BALANCE_SAMPLES, sizeof b->sample[0], compare);
    return charl__fault_arg("train.measured", &us) ? (double)us * 1e-6 : b->sample[CHARL__BALANCE_SAMPLES / 2];
}

charl_status charl_data_parallel_balance(charl_data_parallel *dp, bool *divides)
{
    CHARL_GIVEN(dp, divides);
    charl__balance *b = &dp->balance;
    const int size = charl_comm_size(dp->comm), least = dp->wanted > 1 ? dp->wanted : 1;
    /* A single pass stays a single pass, as batch norm requires; this is the same on all ranks. */
    const int most = dp->accum ? dp->slices.total : CHARL_GRAPH_SLICES;
    int count[CHARL_MAX_SLICES];
    double mine;

    *divides = b->divides;
    if (b->divides || !charl__balance_is_due(dp)) {
        return CHARL_OK;
    }
    mine = measured(b);
    CHARL_TRY(charl_comm_allgather(dp->comm, &mine, sizeof mine, b->ms));
    for (int r = 0; r < size; r++) {
        const double cost = b->ms[r] / b->count[r];

        b->cost[r] = b->cost[r] > 0.0 ? 0.5 * (b->cost[r] + cost) : cost;
        b->ms[r] *= 1e3;
    }
    charl__apportion(dp->slices.total, least, most, size, b->cost, count);
    b->n = 0;
    b->skip = STEADY;
    if (charl__apportion_time(size, b->cost, count) > GAIN * charl__apportion_time(size, b->cost, b->count)) {
        return CHARL_OK;
    }
    b->skip = b->next_skip;
    b->next_skip = b->next_skip < STEADY ? 2 * b->next_skip : STEADY;
    memcpy(b->count, count, (size_t)size * sizeof *count);
    *divides = b->divides = true;
    return CHARL_OK;
}
