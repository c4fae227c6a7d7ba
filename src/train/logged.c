/* Rows of the log. */
#include "train/logged.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { LAG = 2 }; /* steps behind a logged one: less than may be under way */

charl_status charl__logged_open(charl__trainer *t, charl__logged *log)
{
    charl_status st = CHARL_OK;
    const size_t lanes = CHARL_MAX_LANES * sizeof(float);
    void *host = NULL;

    CHARL_TRY(charl__pinned_create(t->dev, lanes + sizeof(charl_norm_record), &log->pinned, &host));
    log->lanes = host;
    log->norm = (charl_norm_record *)((char *)host + lanes);
cleanup:
    return st;
}

void charl__logged_close(charl__logged *log)
{
    charl__event_release(log->arrived);
    charl__pinned_destroy(log->pinned); /* waits for what is on its way */
    *log = (charl__logged){0};
}

charl_status charl__logged_begin(charl__trainer *t, charl__logged *log, charl__meter *m)
{
    charl_status st = CHARL_OK;
    const charl_tensor *loss = charl_var_get_tensor(t->train.metrics);

    log->steps = m->steps;
    log->row = (charl_train_row){.step = t->step,
                                 .steps = t->end_step,
                                 .epoch = charl__trainer_epoch(t),
                                 .lr = charl_schedule_lr(&t->schedule, t->step - 1),
                                 .samples = t->step * t->config->train.batch_size,
                                 .mem_bytes = charl_device_get_memory(t->dev).in_use};
    charl__phase_mark(t->comm, t->step, CHARL__PHASE_DEVICE);
    CHARL_TRY(charl__sync_verify(t->sync)); /* with a deadline; reading waits without one */
    if (!t->passes) {
        CHARL_TRY(charl__buffer_read(CHARL_QUEUE_COMPUTE, loss->buffer,
                                     (size_t)loss->offset * sizeof *log->lanes, log->lanes,
                                     (size_t)t->slices.n_lanes * sizeof *log->lanes, false));
    }
    CHARL_TRY(charl__optimizer_read_norm(t->optimizer, log->norm));
    CHARL_TRY(charl__event_record(t->dev, CHARL_QUEUE_COMPUTE, &log->arrived));
cleanup:
    return st;
}

bool charl__logged_is_due(const charl__trainer *t, const charl__logged *log)
{
    return log->arrived && (t->sync || t->passes || t->step >= log->row.step + LAG);
}

/* "the gradient of fc1.weight": what was not finite first. */
static const char *culprit(const charl_optimizer_report *r, char *text, size_t size)
{
    if (r->bad_param) {
        snprintf(text, size, "the gradient of %s is not finite",
                 charl_param_get_spec(r->bad_param)->name);
    } else {
        snprintf(text, size, "the gradient is too large for its norm");
    }
    return text;
}

/* Steps that were left out since this was asked last. */
static void note_skipped(charl__trainer *t, const charl_optimizer_report *r)
{
    char text[512], what[320];

    if (r->bad_steps > t->skipped_now && charl_comm_rank(t->comm) == 0) {
        snprintf(text, sizeof text, "step %" PRId64 " was skipped: %s (%" PRId64 " skipped so far)",
                 r->bad_step + 1, culprit(r, what, sizeof what), t->skipped_before + r->bad_steps);
        charl__trainer_warn(t, text);
    }
    t->skipped_now = r->bad_steps;
}

/* Fail when a step up to `step` was not finite, unless such steps are left out. loss NULL: not read
 * for this step. What is looked at are sums over all ranks, so that all of them come to the same
 * decision. */
static charl_status judge(charl__trainer *t, int64_t step, const charl_optimizer_report *report,
                          const double *loss)
{
    charl_status st = CHARL_OK;
    char text[48] = "", what[320];

    if (t->config->train.on_nonfinite == CHARL_NONFINITE_SKIP) {
        note_skipped(t, report);
        goto cleanup;
    }
    t->agreed = !report->finite || (loss && !isfinite(*loss));
    if (loss) {
        snprintf(text, sizeof text, "loss %g, ", *loss);
    }
    CHARL_REQUIRE(report->finite, CHARL_ERR_NONFINITE,
                  "step %" PRId64 ": %s (%sgradient norm %g at step %" PRId64
                  "); the weights are those before it. Lower optimizer.learning_rate, set "
                  "train.grad_clip, or train.on_nonfinite = skip",
                  report->bad_step + 1, culprit(report, what, sizeof what), text,
                  (double)report->grad_norm, step);
    CHARL_REQUIRE(!t->agreed, CHARL_ERR_NONFINITE,
                  "step %" PRId64 ": the loss is not finite (%sgradient norm %g). Lower "
                  "optimizer.learning_rate, or set train.on_nonfinite = skip",
                  step, text, (double)report->grad_norm);
cleanup:
    return st;
}

charl_status charl__trainer_check_finite(charl__trainer *t)
{
    charl_status st = CHARL_OK;
    charl_optimizer_report report;

    charl__phase_mark(t->comm, t->step, CHARL__PHASE_DEVICE);
    CHARL_TRY(charl__sync_verify(t->sync));
    CHARL_TRY(charl_optimizer_get_report(t->optimizer, &report));
    CHARL_TRY(judge(t, t->step, &report, NULL));
cleanup:
    return st;
}

/* Loss of the batch, from the lanes that the step left. */
static charl_status add_lanes(charl__trainer *t, const float *lanes, double *loss)
{
    charl_status st = CHARL_OK;
    float sum;

    CHARL_TRY(
        charl__sync_sum(t->sync, t->passes ? charl__passes_number(t->passes) : lanes, 1, &sum));
    *loss = (double)(sum / (float)t->config->train.batch_size);
cleanup:
    return st;
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
    charl_optimizer_report report;
    charl_train_row *row = &log->row;

    if (!log->arrived) {
        goto cleanup;
    }
    CHARL_TRY(charl__event_wait(log->arrived));
    charl__event_release(log->arrived);
    log->arrived = NULL;
    CHARL_TRY(add_lanes(t, log->lanes, &row->loss));
    charl__optimizer_judge(t->optimizer, log->norm, &report);
    row->grad_norm = (double)report.grad_norm;
    st = judge(t, row->step, &report, &row->loss);
    row->skipped = t->skipped_before + t->skipped_now;
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
cleanup:
    return st;
}
