/* Rows of the log. */
#include "train/metrics/metrics_async.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"

enum { LAG = 2 }; /* steps behind a logged one: less than may be under way */

charl_status charl__metrics_async_open(charl__trainer *t, charl__metrics_async *log)
{
    const size_t lanes = CHARL_MAX_LANES * sizeof(float);
    void *host = NULL;

    CHARL_TRY(charl_pinned_create(t->session.dev, lanes + sizeof(charl__norm_record), &log->pinned, &host));
    log->lanes = host;
    log->norm = (charl__norm_record *)((char *)host + lanes);
    return CHARL_OK;
}

void charl__metrics_async_close(charl__metrics_async *log)
{
    charl__event_release(log->arrived);
    charl_pinned_destroy(log->pinned); /* waits for what is on its way */
    *log = (charl__metrics_async){0};
}

/* An event of the clock queue behind what is enqueued. */
static charl_status record(charl_device *dev, charl__event **out)
{
    CHARL_SCOPED(charl__event_left) charl__event *e = NULL;

    *out = NULL;
    CHARL_TRY(charl__event_record(dev, CHARL_QUEUE_COMPUTE, &e));
    CHARL_TRY(charl__queue_wait(dev, CHARL_QUEUE_CLOCK, e));
    CHARL_TRY(charl__event_record(dev, CHARL_QUEUE_CLOCK, out));
    return CHARL_OK;
}

charl_status charl__metrics_async_begin(charl__trainer *t, charl__metrics_async *log, charl__throughput *m)
{
    const charl_tensor *loss = charl__steps_loss(t->replica.steps);

    log->steps = m->steps;
    log->weight = charl__device_loader_step_weight(t->replica.train_loader);
    log->row = (charl_train_row){.step = t->replica.step,
                                 .steps = t->end_step,
                                 .epoch = charl__trainer_epoch(t),
                                 .lr = charl_schedule_lr(&t->schedule, t->replica.step - 1),
                                 .samples = t->replica.step * t->config->train.batch_size,
                                 .mem_bytes = charl_device_get_memory(t->session.dev).in_use};
    charl__phase_mark(t->comm, t->replica.step, CHARL__PHASE_DEVICE);
    CHARL_TRY(charl__grad_reducer_verify(t->replica.dp->reducer)); /* with a deadline; reading waits without one */
    CHARL_TRY(charl__buffer_read(CHARL_QUEUE_COMPUTE, loss->buffer, (size_t)loss->offset * sizeof *log->lanes,
                                 log->lanes, (size_t)charl__tensor_count(loss) * sizeof *log->lanes, false));
    CHARL_TRY(charl__optimizer_read_norm(t->replica.optimizer, log->norm));
    return record(t->session.dev, &log->arrived);
}

bool charl__metrics_async_is_due(const charl__trainer *t, const charl__metrics_async *log)
{
    return log->arrived && (t->replica.dp->reducer || t->replica.step >= log->row.step + LAG);
}

/* Loss of the batch, from the lanes that the step left. */
static charl_status add_lanes(charl__trainer *t, const float *lanes, double weight, double *loss)
{
    float sum;

    CHARL_TRY(charl__grad_reducer_sum(t->replica.dp->reducer, lanes, 1, &sum));
    *loss = weight > 0 ? (double)(sum / (float)weight) : 0;
    return CHARL_OK;
}

/* Asking the driver takes as long as a short step. */
static void look_at_device(const charl__trainer *t, charl__metrics_async *log)
{
    const double now = charl__clock_s();

    if (charl_comm_rank(t->comm) == 0 && (log->looked_s == 0 || now - log->looked_s >= 1)) {
        (void)charl_device_get_health(charl_device_get_info(t->session.dev), &log->health);
        log->looked_s = now;
    }
    log->row.power_w = log->health.power_w;
    log->row.temperature_c = log->health.temperature_c;
}

/* The times of the row are those of its steps: others have been enqueued since. */
static void measure(const charl__trainer *t, charl__metrics_async *log, charl__throughput *m)
{
    const int64_t since = m->steps - log->steps;

    m->steps = log->steps;
    charl__throughput_row(t, m, log->arrived, &log->row);
    m->steps = since;
}

charl_status charl__metrics_async_end(charl__trainer *t, charl__metrics_async *log, charl__throughput *m)
{
    charl_status st = CHARL_OK, written;
    charl_train_row *row = &log->row;

    if (!log->arrived) {
        return st;
    }
    CHARL_TRY(charl__event_wait(log->arrived));
    measure(t, log, m); /* now the device has done what the row is about */
    charl__event_release(log->arrived);
    log->arrived = NULL;
    CHARL_TRY(add_lanes(t, log->lanes, log->weight, &row->loss));
    row->grad_norm = (double)log->norm->norm;
    if (!isfinite(row->loss) || charl__nonfinite_is_new(t, row->step, log->norm)) {
        st = charl__nonfinite_judge(t, row->step, log->norm);
    }
    row->skipped = t->nonfinite.skipped;
    row->overflowed = t->nonfinite.overflowed;
    row->spikes = t->nonfinite.spikes;
    CHARL_TRY(charl__energy_sum(t, row->step == t->end_step));
    row->energy_j = t->energy.total_j;
    look_at_device(t, log);
    log->rows++;
    if (t->session.data.kind == CHARL_DATASET_TOKENS) {
        row->tokens_per_s = row->samples_per_s * (double)t->session.data.x_shape.dim[0];
    }
    written = charl__trainer_trained(t, row); /* a row with the loss that ended the run is worth having */
    st = st == CHARL_OK ? written : st;
    CHARL_TRY(st);
    return CHARL_OK;
}
