/* Times of rows. */
#include "train/metrics/throughput.h"

#include <math.h>

#include "base/clock.h"
#include "train/trainer.h"

static charl__throughput_times now(const charl__trainer *t)
{
    return (charl__throughput_times){.clock_s = charl__clock_s(),
                                     .data_s = charl__device_loader_waited_s(t->replica.train_loader),
                                     .comm_s = charl__grad_reducer_busy_s(t->replica.dp->reducer),
                                     .exposed_s = charl__grad_reducer_waited_s(t->replica.dp->reducer)};
}

static charl__throughput_times difference(const charl__throughput_times *a, const charl__throughput_times *b)
{
    return (charl__throughput_times){.clock_s = a->clock_s - b->clock_s,
                                     .data_s = a->data_s - b->data_s,
                                     .comm_s = a->comm_s - b->comm_s,
                                     .exposed_s = a->exposed_s - b->exposed_s};
}

void charl__throughput_start(const charl__trainer *t, charl__throughput *m)
{
    m->steps = 0;
    m->begin = now(t);
}

void charl__throughput_pause(const charl__trainer *t, charl__throughput *m)
{
    m->pause = now(t);
}

/* The clocks of what was built anew in the pause have begun anew: differences stay right. */
void charl__throughput_resume(const charl__trainer *t, charl__throughput *m)
{
    const charl__throughput_times end = now(t), before = difference(&m->pause, &m->begin);

    m->first_s += end.clock_s - m->pause.clock_s;
    m->begin = difference(&end, &before);
}

void charl__throughput_row(const charl__trainer *t, charl__throughput *m, charl_train_row *row)
{
    const charl__throughput_times end = now(t), span = difference(&end, &m->begin);
    const double steps = (double)(m->steps > 0 ? m->steps : 1), clock_s = fmax(span.clock_s, 1e-9);

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
    m->steps = 0;
}
