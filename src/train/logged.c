/* Rows of the log. */
#include "train/logged.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { LAG = 2 }; /* steps behind a logged one: less than may be under way */

charl_status charl__logged_open(charl__trainer *t, charl__logged *log)
{
    const size_t lanes = CHARL_MAX_SLICES * sizeof(float); /* of all passes: one each at most */
    void *host = NULL;

    CHARL_TRY(charl__pinned_create(t->dev, lanes + sizeof(charl_norm_record), &log->pinned, &host));
    log->lanes = host;
    log->norm = (charl_norm_record *)((char *)host + lanes);
    return CHARL_OK;
}

void charl__logged_close(charl__logged *log)
{
    charl__event_release(log->arrived);
    charl__pinned_destroy(log->pinned); /* waits for what is on its way */
    *log = (charl__logged){0};
}

charl_status charl__logged_begin(charl__trainer *t, charl__logged *log, charl__meter *m)
{
    const charl_tensor *loss = charl__steps_loss(t->steps);

    log->steps = m->steps;
    log->row = (charl_train_row){.step = t->step,
                                 .steps = t->end_step,
                                 .epoch = charl__trainer_epoch(t),
                                 .lr = charl_schedule_lr(&t->schedule, t->step - 1),
                                 .samples = t->step * t->config->train.batch_size,
                                 .mem_bytes = charl_device_get_memory(t->dev).in_use};
    charl__phase_mark(t->comm, t->step, CHARL__PHASE_DEVICE);
    CHARL_TRY(charl__sync_verify(t->sync)); /* with a deadline; reading waits without one */
    CHARL_TRY(charl__buffer_read(CHARL_QUEUE_COMPUTE, loss->buffer,
                                 (size_t)loss->offset * sizeof *log->lanes, log->lanes,
                                 (size_t)charl__tensor_count(loss) * sizeof *log->lanes, false));
    CHARL_TRY(charl__optimizer_read_norm(t->optimizer, log->norm));
    CHARL_TRY(charl__event_record(t->dev, CHARL_QUEUE_COMPUTE, &log->arrived));
    return CHARL_OK;
}

bool charl__logged_is_due(const charl__trainer *t, const charl__logged *log)
{
    return log->arrived && (t->sync || t->step >= log->row.step + LAG);
}

/* Loss of the batch, from the lanes that the step left. */
static charl_status add_lanes(charl__trainer *t, const float *lanes, double *loss)
{
    float sum;

    for (int i = 0; t->passes && i < charl__passes_count(t->passes); i++) {
        charl__passes_fold_number(t->passes, i, lanes);
        lanes += charl__passes_slices(t->passes, i)->n_lanes;
    }
    CHARL_TRY(
        charl__sync_sum(t->sync, t->passes ? charl__passes_number(t->passes) : lanes, 1, &sum));
    *loss = (double)(sum / (float)t->config->train.batch_size);
    return CHARL_OK;
}

/* The times of the row are those of its steps: others have been enqueued since. */
static void measure(const charl__trainer *t, charl__logged *log, charl__meter *m)
{
    const int64_t since = m->steps - log->steps;

    m->steps = log->steps;
    charl__meter_row(t, m, &log->row);
    m->steps = since;
}

charl_status charl__logged_end(charl__trainer *t, charl__logged *log, charl__meter *m)
{
    charl_status st = CHARL_OK;
    charl_train_row *row = &log->row;

    if (!log->arrived) {
        return st;
    }
    CHARL_TRY(charl__event_wait(log->arrived));
    charl__event_release(log->arrived);
    log->arrived = NULL;
    CHARL_TRY(add_lanes(t, log->lanes, &row->loss));
    row->grad_norm = (double)log->norm->norm;
    if (!isfinite(row->loss) || charl__nonfinite_is_new(t, row->step, log->norm)) {
        st = charl__nonfinite_judge(t, row->step, log->norm);
    }
    row->skipped = t->nonfinite.skipped;
    row->overflowed = t->nonfinite.overflowed;
    measure(t, log, m); /* now the device has done what the row is about */
    log->rows++;
    if (t->data.kind == CHARL_DATASET_TOKENS) {
        row->tokens_per_s = row->samples_per_s * (double)t->data.x_shape.dim[0];
    }
    if (t->options->events.trained) { /* a row with the loss that ended the run is worth having */
        const charl_status written = t->options->events.trained(t->options->events.ctx, row);

        st = st == CHARL_OK ? written : st;
    }
    CHARL_TRY(st);
    return st;
}
