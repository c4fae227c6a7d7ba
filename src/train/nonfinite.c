/* Reads what the device has recorded about steps that are not finite and about spikes, and warns or ends the run. */
#include "train/nonfinite.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "dist/consensus.h"
#include "train/trainer.h"

/* How often to read the record: it covers the last MASK steps, and a read costs the device some
 * microseconds. The host is less than MASK - POLL_STEPS steps ahead of the device. */
enum { MASK = 64, POLL_STEPS = 32 };
static const double POLL_S = 0.01;

enum { SHOWN = 16, TEXT_BYTES = 768 };

charl_status charl__nonfinite_open(charl__trainer *t)
{
    charl__nonfinite *n = &t->nonfinite;
    void *host = NULL;

    CHARL_TRY(charl_pinned_create(t->session.dev, sizeof *n->record, &n->pinned, &host));
    n->record = host;
    n->judged = n->polled = t->replica.step;
    n->polled_s = charl__clock_s();
    return CHARL_OK;
}

void charl__nonfinite_close(charl__trainer *t)
{
    charl__event_release(t->nonfinite.arrived);
    charl_pinned_destroy(t->nonfinite.pinned); /* waits for a copy in flight */
    t->nonfinite.arrived = NULL;
    t->nonfinite.pinned = NULL;
}

static uint64_t mask_of(const uint32_t word[2])
{
    return (uint64_t)word[1] << 32 | word[0];
}

/* Bits of the steps (judged, step]. */
static uint64_t new_steps(const charl__trainer *t, int64_t step)
{
    const int64_t n = step - t->nonfinite.judged;

    return n >= MASK ? ~UINT64_C(0) : n > 0 ? (UINT64_C(1) << n) - 1 : 0;
}

bool charl__nonfinite_is_new(const charl__trainer *t, int64_t step, const charl__norm_record *record)
{
    return ((mask_of(record->left_out) | mask_of(record->spiked)) & new_steps(t, step)) != 0;
}

bool charl__nonfinite_is_suspect(const charl__trainer *t, int64_t step, const charl__norm_record *record)
{
    return charl__nonfinite_is_new(t, step, record) || (mask_of(record->bad_loss) & new_steps(t, step)) != 0;
}

int64_t charl__nonfinite_left_out(const charl__trainer *t)
{
    const charl__nonfinite *n = &t->nonfinite;

    return n->skipped + n->overflowed + (t->config->train.on_spike >= CHARL_SPIKE_SKIP ? n->spikes : 0);
}

charl_status charl__nonfinite_poll(charl__trainer *t)
{
    charl__nonfinite *n = &t->nonfinite;
    const double now = charl__clock_s();
    bool done;

    if (n->arrived) {
        CHARL_TRY(charl__event_is_done(n->arrived, &done));
        if (!done) {
            return CHARL_OK;
        }
        charl__event_release(n->arrived);
        n->arrived = NULL;
        charl__optimizer_learn(t->replica.optimizer, n->record, n->polled);
        n->found = n->found || charl__nonfinite_is_suspect(t, n->polled, n->record);
    }
    if (t->replica.step - n->polled >= POLL_STEPS || now - n->polled_s >= POLL_S) {
        n->polled = t->replica.step;
        n->polled_s = now;
        CHARL_TRY(charl__optimizer_read_norm(t->replica.optimizer, n->record));
        CHARL_TRY(charl__event_record(t->session.dev, CHARL_QUEUE_COMPUTE, &n->arrived));
    }
    return CHARL_OK;
}

static int compare(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

/* "rows 3, 17 to 19, 40 and 59 more of train": what the step trained on, over all ranks. */
static charl_status describe_samples(const charl__trainer *t, int64_t step, char *text, size_t size)
{
    const int64_t batch = t->config->train.batch_size;
    CHARL_SCOPED_FREE int64_t *rows = NULL;
    int64_t i = 0, end;
    int used;

    CHARL_TRY(charl__alloc_array(batch, sizeof *rows, &rows));
    charl__device_loader_samples(t->replica.train_loader, step - 1, rows);
    qsort(rows, (size_t)batch, sizeof *rows, compare);
    used = snprintf(text, size, "%s", t->session.data.kind == CHARL_DATASET_TOKENS ? "windows from token" : "rows");
    for (int shown = 0; i < batch && shown < SHOWN; shown++, i = end) {
        for (end = i + 1; end < batch && rows[end] == rows[end - 1] + 1; end++) {
        }
        used += snprintf(text + used, size - (size_t)used, "%s %" PRId64, i > 0 ? "," : "", rows[i]);
        if (end > i + 1) {
            used += snprintf(text + used, size - (size_t)used, " to %" PRId64, rows[end - 1]);
        }
    }
    if (i < batch) {
        used += snprintf(text + used, size - (size_t)used, " and %" PRId64 " more", batch - i);
    }
    snprintf(text + used, size - (size_t)used, " of %s", charl_split_name(CHARL_SPLIT_TRAIN));
    return CHARL_OK;
}

/* "the gradient of fc1.weight is not finite" */
static void describe(const charl__trainer *t, const charl__bad_step *v, const charl__norm_record *record, char *text,
                     size_t size)
{
    charl_optimizer_report report;
    char gradient[TEXT_BYTES / 2];

    if (!v->gradient) {
        snprintf(text, size, "the loss is not finite, though its gradient is");
        return;
    }
    charl__optimizer_judge(t->replica.optimizer, record, &report);
    if (report.bad_step + 1 != v->step) { /* the record is of another step */
        snprintf(gradient, sizeof gradient, "the gradient");
    } else if (report.bad_param) {
        snprintf(gradient, sizeof gradient, "the gradient of %s", charl_param_get_spec(report.bad_param)->name);
    } else {
        snprintf(gradient, sizeof gradient, "the norm of the gradient");
    }
    if (v->loss) {
        snprintf(text, size, "the loss and %s are not finite", gradient);
    } else {
        snprintf(text, size, "%s is not finite%s", gradient,
                 charl__steps_scale_is_dynamic(t->replica.steps) ? ", even at the smallest loss scale" : "");
    }
}

static const char *advice(const charl__trainer *t)
{
    return t->config->train.precision == CHARL__PRECISION_F16
               ? "look at these samples, lower optimizer.learning_rate, set train.grad_clip, or "
                 "set "
                 "train.precision = bf16: the largest number in f16 is 65504"
               : "look at these samples, lower optimizer.learning_rate, or set train.grad_clip";
}

/* End training because of v. */
static charl_status fail(const charl__trainer *t, const charl__bad_step *v, const charl__norm_record *record)
{
    char what[TEXT_BYTES], samples[TEXT_BYTES];

    describe(t, v, record, what, sizeof what);
    CHARL_TRY(describe_samples(t, v->step, samples, sizeof samples));
    if (t->config->train.on_nonfinite == CHARL__NONFINITE_SKIP) {
        CHARL_FAIL(CHARL_ERR_NONFINITE,
                   "%" PRId64 " steps in a row were not finite, which is train.max_nonfinite_steps; "
                   "at the first of them, step %" PRId64 ", %s; its samples: %s. HINT %s",
                   t->nonfinite.in_row, v->step, what, samples, advice(t));
    }
    CHARL_FAIL(CHARL_ERR_NONFINITE,
               "step %" PRId64 ": %s; %s. Its samples: %s. HINT %s; to skip such "
               "steps, set train.on_nonfinite = skip",
               v->step, what,
               v->gradient ? "the weights are those before this step" : "no checkpoint has been written since", samples,
               advice(t));
}

/* Whether to warn at the nth time: 1, 2, 4, 8, ... */
static bool is_worth_it(int64_t n)
{
    return (n & (n - 1)) == 0;
}

static charl_status warn(charl__trainer *t, const charl__bad_step *v, const charl__norm_record *record)
{
    char what[TEXT_BYTES], samples[TEXT_BYTES], text[2 * TEXT_BYTES + 128];

    if (!is_worth_it(t->nonfinite.bad) || charl_comm_rank(t->comm) != 0) {
        return CHARL_OK;
    }
    describe(t, v, record, what, sizeof what);
    CHARL_TRY(describe_samples(t, v->step, samples, sizeof samples));
    snprintf(text, sizeof text, "step %" PRId64 " was %s: %s; its samples: %s (%" PRId64 " skipped so far)", v->step,
             v->gradient ? "skipped" : "taken", what, samples, t->nonfinite.skipped);
    charl__trainer_warn(t, text);
    return CHARL_OK;
}

/* Report a spike. The record has the norm and the limit of the last one only. */
static charl_status report_spike(charl__trainer *t, int64_t step, bool is_last, const charl__norm_record *record)
{
    const charl_spike_rule rule = t->config->train.on_spike;
    char numbers[128] = "", samples[TEXT_BYTES], text[2 * TEXT_BYTES];

    if (rule != CHARL_SPIKE_STOP && (!is_worth_it(t->nonfinite.spikes) || charl_comm_rank(t->comm) != 0)) {
        return CHARL_OK;
    }
    if (is_last) {
        snprintf(numbers, sizeof numbers, ", %.4g; the limit after the last %" PRId64 " steps is %.4g",
                 (double)record->spike, t->config->train.spike_window, (double)record->limit);
    }
    CHARL_TRY(describe_samples(t, step, samples, sizeof samples));
    CHARL_REQUIRE(rule != CHARL_SPIKE_STOP, CHARL_ERR_NONFINITE,
                  "step %" PRId64 ": the gradient norm is a spike%s; the weights are those before this step. Its "
                  "samples: %s. HINT look at these samples, lower optimizer.learning_rate, or set train.grad_clip; "
                  "to skip such steps, set train.on_spike = skip",
                  step, numbers, samples);
    snprintf(text, sizeof text,
             "step %" PRId64 " was %s: the gradient norm is a spike%s; its samples: %s (%" PRId64 " spikes so far)",
             step, rule == CHARL_SPIKE_SKIP ? "skipped" : "taken", numbers, samples, t->nonfinite.spikes);
    charl__trainer_warn(t, text);
    return CHARL_OK;
}

static charl_status fail_evaluation(const charl__trainer *t)
{
    CHARL_FAIL(CHARL_ERR_NONFINITE,
               "step %" PRId64 ": the loss on the %s split is not finite, though the weights are%s. "
               "HINT look at that split (charl predict), lower optimizer.learning_rate; "
               "train.on_nonfinite = skip continues with a warning",
               t->replica.step, charl_split_name(t->replica.eval_split),
               t->config->train.precision == CHARL__PRECISION_F16
                   ? "; the largest number in f16 is 65504, but train.precision = bf16 has the range of f32"
                   : "");
}

charl_status charl__nonfinite_evaluation(charl__trainer *t, double loss)
{
    char text[160];

    if (isfinite(loss)) {
        return CHARL_OK;
    }
    if (t->config->train.on_nonfinite != CHARL__NONFINITE_SKIP) {
        CHARL_TRY(charl__comm_agreed(t->comm, fail_evaluation(t)));
    }
    snprintf(text, sizeof text, "step %" PRId64 ": the loss on the %s split is not finite", t->replica.step,
             charl_split_name(t->replica.eval_split));
    if (is_worth_it(++t->nonfinite.bad_evaluations) && charl_comm_rank(t->comm) == 0) {
        charl__trainer_warn(t, text);
    }
    return CHARL_OK;
}

/* A bit that is set on any rank becomes set on all. */
static charl_status unite(charl__trainer *t, uint64_t *mask)
{
    int64_t bit[MASK];

    for (int k = 0; k < MASK; k++) {
        bit[k] = (int64_t)(*mask >> k & 1);
    }
    CHARL_TRY(charl_comm_reduce_i64(t->comm, CHARL_COMM_MAX, bit, MASK));
    *mask = 0;
    for (int k = 0; k < MASK; k++) {
        *mask |= (uint64_t)bit[k] << k;
    }
    return CHARL_OK;
}

charl_status charl__nonfinite_judge(charl__trainer *t, int64_t step, const charl__norm_record *record)
{
    charl__nonfinite *n = &t->nonfinite;
    const int64_t limit =
        t->config->train.on_nonfinite == CHARL__NONFINITE_SKIP ? t->config->train.max_nonfinite_steps : 1;
    const uint64_t left_out = mask_of(record->left_out), overflowed = mask_of(record->overflowed),
                   spiked = mask_of(record->spiked);
    uint64_t bad_loss = mask_of(record->bad_loss);

    n->found = false;
    if (n->judged >= step) {
        return CHARL_OK;
    }
    CHARL_TRY(unite(t, &bad_loss));
    if (step - n->judged > MASK) { /* steps older than the mask were good: a rank would have found a bad one in time */
        n->judged = step - MASK;
        n->in_row = 0;
    }
    while (n->judged < step) {
        const uint64_t bit = UINT64_C(1) << (step - n->judged - 1);
        const charl__bad_step v = {
            .step = n->judged + 1, .loss = (bad_loss & bit) != 0, .gradient = (left_out & bit) != 0};

        n->judged++;
        if ((overflowed & bit) && !v.loss) {
            n->overflowed++;
        } else if (v.loss || v.gradient) {
            n->first = n->in_row == 0 ? v : n->first;
            n->in_row++;
            n->bad++;
            n->skipped += v.gradient;
            if (n->in_row >= limit) {
                CHARL_TRY(charl__comm_agreed(t->comm, fail(t, &n->first, record)));
            }
            CHARL_TRY(warn(t, &v, record));
        } else {
            n->in_row = 0;
        }
        if (spiked & bit) {
            n->spikes++;
            CHARL_TRY(charl__comm_agreed(t->comm, report_spike(t, v.step, (spiked & (bit - 1)) == 0, record)));
        }
    }
    return CHARL_OK;
}

charl_status charl__trainer_check_finite(charl__trainer *t)
{
    charl__norm_record record;

    charl__phase_mark(t->comm, t->replica.step, CHARL__PHASE_DEVICE);
    CHARL_TRY(charl__grad_reducer_verify(t->replica.dp->reducer)); /* with a deadline; reading waits without one */
    CHARL_TRY(charl__optimizer_fetch_norm(t->replica.optimizer, &record));
    CHARL_TRY(charl__nonfinite_judge(t, t->replica.step, &record));
    return CHARL_OK;
}
