/* Times of rows. */
#include "train/metrics/throughput.h"

#include <math.h>

#include "base/clock.h"
#include "device/device.h"
#include "train/trainer.h"

static charl__throughput_times now(const charl__trainer *t)
{
    const charl__grad_reducer_info sums = charl__grad_reducer_get_info(t->replica.dp->reducer);

    return (charl__throughput_times){.clock_s = charl__clock_s(),
                                     .data_s = charl__device_loader_waited_s(t->replica.train_loader),
                                     .comm_s = sums.busy_s,
                                     .exposed_s = sums.waited_s};
}

static charl__throughput_times difference(const charl__throughput_times *a, const charl__throughput_times *b)
{
    return (charl__throughput_times){.clock_s = a->clock_s - b->clock_s,
                                     .data_s = a->data_s - b->data_s,
                                     .comm_s = a->comm_s - b->comm_s,
                                     .exposed_s = a->exposed_s - b->exposed_s};
}

static charl__throughput_times sum(const charl__throughput_times *a, const charl__throughput_times *b)
{
    return (charl__throughput_times){.clock_s = a->clock_s + b->clock_s,
                                     .data_s = a->data_s + b->data_s,
                                     .comm_s = a->comm_s + b->comm_s,
                                     .exposed_s = a->exposed_s + b->exposed_s};
}

void charl__throughput_start(const charl__trainer *t, charl__throughput *m)
{
    m->steps = 0;
    m->begin = now(t);
    m->paused = m->pause = m->last = (charl__throughput_times){0};
}

void charl__throughput_pause(const charl__trainer *t, charl__throughput *m)
{
    m->pause = now(t);
}

/* The clocks of what was built anew in the pause have begun anew: differences stay right. */
void charl__throughput_resume(const charl__trainer *t, charl__throughput *m)
{
    const charl__throughput_times end = now(t);

    m->last = difference(&end, &m->pause);
    m->paused = sum(&m->paused, &m->last);
    m->first_s += m->last.clock_s;
}

/* When `done` was completed, on the host's clock: not after now, nor before the last row. */
static double completed_s(charl__throughput *m, const charl__event *done, double now_s)
{
    const double before_s = m->device_s;
    double s = now_s;

    if (!charl__event_time(done, &m->device_s)) {
        m->device_s = 0;
    } else if (before_s > 0) {
        s = m->begin.clock_s + (m->device_s - before_s);
    }
    return fmin(fmax(s, m->begin.clock_s), now_s);
}

void charl__throughput_row(const charl__trainer *t, charl__throughput *m, const charl__event *done,
                           charl_train_row *row)
{
    charl__throughput_times end = now(t), span, after = {0};
    double steps, clock_s;

    end.clock_s = completed_s(m, done, end.clock_s);
    if (end.clock_s <= m->pause.clock_s) { /* the last pause came afterwards */
        after.clock_s = m->last.clock_s;
    } else { /* the device was idle until its end */
        end.clock_s = fmax(end.clock_s, m->pause.clock_s + m->last.clock_s);
    }
    m->paused = difference(&m->paused, &after);
    span = difference(&end, &m->begin);
    span = difference(&span, &m->paused);
    steps = (double)(m->steps > 0 ? m->steps : 1);
    clock_s = fmax(span.clock_s, 1e-9);
    row->samples_per_s = steps * (double)t->config->train.batch_size / clock_s;
    row->step_ms = clock_s * 1e3 / steps;
    row->tflops = t->flop * steps / clock_s * 1e-12;
    row->mfu =
        t->config->log.peak_tflops > 0 ? row->tflops / (t->config->log.peak_tflops * charl_comm_size(t->comm)) : 0;
    row->data_ms = span.data_s * 1e3 / steps;
    row->comm_ms = span.comm_s * 1e3 / steps;
    row->comm_exposed_ms = span.exposed_s * 1e3 / steps;
    row->eta_s = clock_s / steps * (double)(t->end_step - t->replica.step);
    row->elapsed_s = end.clock_s - t->started_s;
    m->begin = end;
    m->paused = after;
    m->steps = 0;
}
