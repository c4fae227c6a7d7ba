/* Counters of the device and of the host's heap, over ordinary steps. */
#include "train/metrics/step_counters.h"

#include <inttypes.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "train/trainer.h"

enum { FIRST_STEPS = 3 };

void charl__step_counters_begin(const charl__trainer *t, charl__step_counters *y)
{
    y->begin = charl__device_counters_get(t->session.dev);
    y->allocated_begin = charl__allocated();
    y->begin_s = charl__clock_s();
}

void charl__step_counters_end(const charl__trainer *t, charl__step_counters *y, bool ordinary)
{
    const charl__device_counters now = charl__device_counters_get(t->session.dev), *b = &y->begin;
    charl__device_counters *s = &y->sum;

    if (!ordinary || ++y->seen <= FIRST_STEPS) {
        return;
    }
    s->launches += now.launches - b->launches;
    s->transfers += now.transfers - b->transfers;
    s->events += now.events - b->events;
    s->buffers_created += now.buffers_created - b->buffers_created;
    s->programs_built += now.programs_built - b->programs_built;
    s->kernels_created += now.kernels_created - b->kernels_created;
    s->host_waits += now.host_waits - b->host_waits;
    s->ring_waits += now.ring_waits - b->ring_waits;
    s->waited_s += now.waited_s - b->waited_s;
    y->allocated += charl__allocated() - y->allocated_begin;
    y->s += charl__clock_s() - y->begin_s;
    y->steps++;
}

void charl__step_counters_report(const charl__step_counters *y)
{
    const charl__device_counters *s = &y->sum;
    const double n = (double)y->steps;

    if (y->steps > 0) {
        charl__log(CHARL_LOG_INFO,
                   "an ordinary step: %.1f launches, %.1f transfers, %.1f events, %.1f waits, %.1f us "
                   "of the host and %.1f us of waiting",
                   (double)s->launches / n, (double)s->transfers / n, (double)s->events / n, (double)s->host_waits / n,
                   (y->s - s->waited_s) * 1e6 / n, s->waited_s * 1e6 / n);
        charl__log(CHARL_LOG_INFO,
                   "%" PRId64 " ordinary steps: %ld pieces of host memory, %" PRId64 " buffers, %" PRId64
                   " programs, %" PRId64 " kernels were made",
                   y->steps, y->allocated, s->buffers_created, s->programs_built, s->kernels_created);
    }
}
