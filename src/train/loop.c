/* The training loop.
 *
 * A step: agree on what to do (stop, save), enqueue data, graph, all-reduce and optimizer, continue.
 * Nothing in it waits for the device except where ranks meet and where a row is logged. A gradient
 * that is not finite makes the optimizer leave the step out; the host learns of it a few steps
 * later (train/nonfinite.h), and before anything else is done with the weights.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fault.h"
#include "dist/consensus.h"
#include "files/run.h"
#include "parallel/optimizer_shard.h"
#include "config/config_rows.h"
#include "config/text/interval.h"
#include "train/metrics/metrics_async.h"
#include "train/metrics/throughput.h"
#include "train/metrics/step_counters.h"
#include "train/trainer.h"

/* What all ranks do before the next step. */
typedef struct decision {
    bool stop, save, copy;
    bool look;  /* at steps that were not finite */
    bool saved; /* rank 0 has written the save under way */
} decision;

static bool remove_file(const char *dir, const char *name)
{
    char path[4096];

    if ((size_t)snprintf(path, sizeof path, "%s/%s", dir, name) >= sizeof path || access(path, F_OK) != 0) {
        return false;
    }
    return unlink(path) == 0;
}

/* Requests that this rank knows of: signals on any rank, files and the clock on rank 0. */
static void local_requests(charl__trainer *t, float *stop, float *save, float *copy)
{
    const char *dir = t->config->run.output_dir;
    const double max_time = t->config->run.max_time_s;
    const bool is_over = max_time > 0 && t->replica.step > (t->resumes ? t->resumed_step : 0) && /* one step at least */
                         charl__clock_s() - t->started_s + t->options->spent_s >= max_time;
    const int asked = t->options->stop ? atomic_exchange(t->options->stop, CHARL_STOP_NONE) : CHARL_STOP_NONE;

    *stop = asked == CHARL_STOP_SAVE || charl__fault("train.stop") ||
            (t->options->stop_after > 0 && t->replica.step >= t->options->stop_after);
    *save = asked == CHARL_STOP_CHECKPOINT;
    *copy = charl_comm_rank(t->comm) == 0 && charl__trainer_copy_is_due(t);
    if (charl_comm_rank(t->comm) == 0 && t->writes) {
        *stop = *stop > 0.0F || remove_file(dir, "STOP") || is_over;
        *save = *save > 0.0F || remove_file(dir, "CHECKPOINT");
    }
}

/* Agree on requests and on whether every rank is well; `mine` is this rank's status so far. */
static charl_status decide(charl__trainer *t, charl_status mine, decision *out)
{
    float v[6];

    local_requests(t, &v[0], &v[1], &v[5]);
    v[2] = mine != CHARL_OK;
    v[3] = t->nonfinite.found;
    v[4] = charl__trainer_is_writing(t);
    if (mine != CHARL_OK && t->replica.dp->reducer) {
        charl__error_prefix("step %" PRId64 ", data: ", t->replica.step + 1);
    }
    CHARL_TRY(charl__grad_reducer_control(t->replica.dp->reducer, v, 6));
    if (v[2] > 0.0F) {
        CHARL_TRY(charl_comm_agree(t->comm, mine));
    }
    out->stop = v[0] > 0.0F;
    out->save = v[1] > 0.0F;
    out->look = v[3] > 0.0F;
    out->saved = t->saving && v[4] == 0.0F; /* on all ranks alike */
    out->copy = v[5] > 0.0F && !out->stop && !out->save;
    return CHARL_OK;
}

/* Let launches see the parameters of the next step. */
static charl_status push_record(charl__trainer *t)
{
    const uint64_t seed = (uint64_t)t->config->run.seed, step = (uint64_t)t->replica.step;
    charl__step_params record = {.seed_lo = (uint32_t)seed,
                                 .seed_hi = (uint32_t)(seed >> 32),
                                 .step_lo = (uint32_t)step,
                                 .step_hi = (uint32_t)(step >> 32),
                                 .loss_seed =
                                     charl__task_loss_seed(charl__device_loader_step_weight(t->replica.train_loader)),
                                 .commit = 1};

    CHARL_TRY(
        charl__optimizer_fill(t->replica.optimizer, (float)charl_schedule_lr(&t->schedule, t->replica.step), &record));
    return charl__steps_push(t->replica.steps, &record);
}

/* The step whose rows come next. */
static int64_t next_data(const charl__trainer *t)
{
    return t->options->overfit_batch ? 0 : t->replica.step;
}

static bool is_logged(const charl__trainer *t, int64_t step)
{
    const int64_t steps = t->options->row_steps ? *t->options->row_steps : t->config->log.interval;

    return step % steps == 0 || step == t->end_step;
}

static bool has_histograms(const charl__trainer *t, int64_t step)
{
    const int64_t interval = t->config->log.histogram_interval;

    return t->writes && interval > 0 && step % interval == 0;
}

static charl_status next_batch(charl__trainer *t)
{
    CHARL_TRY(charl__data_parallel_enter(t->replica.dp, (uint64_t)t->replica.step + 1, CHARL__PHASE_DATA));
    CHARL_TRY(charl__device_loader_next(t->replica.train_loader));
    return CHARL_OK;
}

/* Whether the next step is audited: every dist.audit-th one, and the last. */
static bool is_audited(const charl__trainer *t)
{
    const int64_t next = t->replica.step + 1;

    return t->replica.dp->rows && (next % t->config->dist.audit == 0 || next == t->end_step);
}

charl_status charl__trainer_deliver(void *trainer, int graph, const charl_slices *slices)
{
    charl__trainer *t = trainer;
    const charl__replica *r = &t->replica;
    const int64_t rows = r->rows / r->dp->slices.count,
                  first = slices->first % r->dp->slices.count; /* of a rank's slices */

    (void)graph;
    if (first > 0) {
        return charl__device_loader_pass(r->train_loader, first * rows);
    }
    CHARL_TRY(charl__device_loader_move(r->train_loader, slices->first * rows, next_data(t)));
    CHARL_TRY(charl__device_loader_next(r->train_loader));
    return push_record(t);
}

/* The loader begins again with this rank's rows afterwards. */
static charl_status audit(charl__trainer *t)
{
    CHARL_TRY(charl_data_parallel_audit(t->replica.dp));
    return charl__device_loader_move(t->replica.train_loader, t->replica.row0, next_data(t));
}

/* Keep a resumed training from checkpoints that may hold wrong values. */
static void reject_checkpoints(charl__trainer *t)
{
    const char *dir = t->config->run.output_dir;
    charl__run_steps left = {NULL, 0};
    char text[256];
    int moved = 0;

    if (!t->writes) {
        return;
    }
    charl__trainer_abandon_save(t);
    charl__trainer_drop_copies(t);
    if (charl_comm_rank(t->comm) != 0) {
        return;
    }
    if (charl__rundir_supersede(dir, t->audited_step, &moved) != CHARL_OK || charl__run_list(dir, &left) != CHARL_OK ||
        (moved > 0 && left.count > 0 && charl__run_link(dir, "last.h5", left.steps[left.count - 1]) != CHARL_OK)) {
        charl__trainer_warn(t, charl_error_message());
    }
    if (moved > 0) {
        snprintf(text, sizeof text,
                 "%d checkpoint%s after step %" PRId64 ", of which no audit has confirmed the values: renamed to "
                 "step-....h5.superseded",
                 moved, moved == 1 ? "" : "s", t->audited_step);
        charl__trainer_warn(t, text);
    }
    charl_free(left.steps);
}

/* After the error of an audit: where the same command starts. */
static void add_advice(const charl__trainer *t)
{
    char text[256], from[128] = "starts from the beginning, as no step is confirmed yet";

    if (t->audited_step > 0) {
        snprintf(from, sizeof from, "continues from a checkpoint up to step %" PRId64 ", the last that is confirmed",
                 t->audited_step);
    }
    snprintf(text, sizeof text, ". HINT leave out a device that is named again; the same command %s", from);
    charl__error_append(text);
}

static charl_status run_step(charl__trainer *t)
{
    const bool audited = is_audited(t);
    charl_status st;

    if (has_histograms(t, t->replica.step + 1)) { /* the optimizer's step may change the scale */
        CHARL_TRY(charl_steps_get_loss_scale(t->replica.steps, &t->gradient_scale));
    }
    CHARL_TRY(push_record(t));
    CHARL_TRY(charl__optimizer_begin(t->replica.optimizer));
    CHARL_TRY(charl__replica_run_passes(&t->replica));
    CHARL_TRY(charl__device_loader_used(t->replica.train_loader));
    st = charl_data_parallel_step(t->replica.dp, t->replica.optimizer, 0.0F); /* the rate stands in the step record */
    if (st == CHARL_ERR_AUDIT) {
        reject_checkpoints(t);
        add_advice(t);
    }
    CHARL_TRY(st);
    CHARL_TRY(charl__heterogeneous_step(&t->replica));
    t->replica.step++;
    t->audited_step = audited ? t->replica.step : t->audited_step;
    return CHARL_OK;
}

charl_status charl__trainer_step(charl__trainer *t)
{
    CHARL_TRY(next_batch(t));
    CHARL_TRY(run_step(t));
    return CHARL_OK;
}

static double monitored(const charl__trainer *t, const charl_val_row *row)
{
    const charl__metric *m = charl__config_monitor(t->config);

    const char *name = charl__config_monitor_name(t->config); /* with its output, if there are several */

    return m == &charl__metric_loss && strcmp(name, m->row.name) == 0
               ? row->loss
               : charl_metric_get(row->metrics, row->n_metrics, name);
}

/* An evaluation without a value of checkpoint.monitor counts neither as the best nor as one without improvement. The first such evaluation is reported; if the
 * loss itself is not finite, that is reported (train/nonfinite.h). */
static void note_unmeasured(charl__trainer *t, const charl_val_row *row)
{
    const charl__metric *m = charl__config_monitor(t->config);
    char text[320];

    if (t->unmeasured++ == 0 && isfinite(row->loss) && charl_comm_rank(t->comm) == 0) {
        snprintf(text, sizeof text,
                 "step %" PRId64
                 ": val/%s, which is checkpoint.monitor, cannot be measured on these rows%s: such evaluations "
                 "count neither for best.h5 nor for early stopping",
                 t->replica.step, m->row.name, m->compares ? ", which are of one class" : "");
        charl__trainer_warn(t, text);
    }
}

/* Whether row is better than those before; then it is the best. */
static bool is_best(charl__trainer *t, const charl_val_row *row)
{
    const double now = monitored(t, row), best = t->best.metric;
    const bool better = charl__config_monitor(t->config)->higher ? now > best : now < best;

    if (!isfinite(now)) {
        note_unmeasured(t, row);
        return false;
    }
    t->evals++;
    if (!better && !isnan(best)) {
        return false;
    }
    t->best = (charl__best){.metric = now, .step = t->replica.step, .evals = t->evals};
    return true;
}

/* A sample may take longer than the other ranks would wait for a rank that does nothing. */
static void mark(void *comm)
{
    charl_comm_mark(comm, 0, NULL);
}

/* Text of the present weights, on rank 0. */
static charl_status sample_text(charl__trainer *t, charl_val_row *row)
{
    charl_status st;

    if (!t->config->eval.sample_prompt[0]) {
        return CHARL_OK;
    }
    st = t->sampler ? charl__sampler_run(t->sampler, mark, t->comm, &row->sample) : CHARL_OK;
    return charl_comm_agree(t->comm, st);
}

static charl_status evaluate_now(charl__trainer *t, bool *best)
{
    const int64_t limit = t->options->fast_dev_run > 0 ? t->options->fast_dev_run : t->config->eval.max_batches;
    charl_status st = CHARL_OK;
    charl_val_row row;
    charl_eval_report *report = NULL;

    *best = false;
    CHARL_TRY_CLEANUP(charl__shard_exchange_ema(t->replica.dp, t->replica.optimizer)); /* the best is the average */
    CHARL_TRY_CLEANUP(charl__replica_evaluate(&t->replica, limit, &row, t->config->log.images > 0 ? &report : NULL));
    CHARL_TRY_CLEANUP(sample_text(t, &row));
    CHARL_TRY_CLEANUP(charl__shard_exchange_ema(t->replica.dp, t->replica.optimizer));
    row.best = *best = is_best(t, &row);
    t->last_eval_s = charl__clock_s();
    row.epoch = charl__trainer_epoch(t);
    row.elapsed_s = t->last_eval_s - t->started_s;
    row.report = report;
    CHARL_TRY_CLEANUP(charl__trainer_evaluated(t, &row));
    CHARL_TRY_CLEANUP(charl__nonfinite_evaluation(t, row.loss));
cleanup:
    charl_eval_report_destroy(report);
    return st;
}

bool charl__trainer_is_over(const charl__trainer *t)
{
    const int64_t patience = t->config->train.early_stopping_patience;

    return patience > 0 && t->evals - t->best.evals >= patience;
}

bool charl__trainer_has_ended(const charl__trainer *t)
{
    return t->replica.step >= t->end_step || charl__trainer_is_over(t);
}

static bool due(const charl__trainer *t, charl__interval interval, double since_s)
{
    return charl__interval_due(interval, t->replica.step, t->config->train.batch_size,
                               t->session.data.rows[CHARL_SPLIT_TRAIN], since_s);
}

/* Seconds are decided by rank 0's clock; all ranks know whether the time matters after this step. */
static charl_status due_together(charl__trainer *t, charl__interval interval, double last_s, bool *out)
{
    const bool is_timed = interval.unit == CHARL__INTERVAL_SECONDS || interval.unit == CHARL__INTERVAL_AUTO;
    float v;

    *out = due(t, interval, (double)INFINITY);
    if (!is_timed || !*out) {
        return CHARL_OK;
    }
    v = charl_comm_rank(t->comm) == 0 && due(t, interval, charl__clock_s() - last_s) ? 1.0F : 0.0F;
    CHARL_TRY(charl__grad_reducer_control(t->replica.dp->reducer, &v, 1));
    *out = v > 0.0F;
    return CHARL_OK;
}

/* A run of the loop. */
typedef struct loop {
    charl__trainer *t;
    charl__throughput m;
    charl__metrics_async log;
    charl__step_counters counters;
    bool ordinary; /* the step is like most: neither logged nor followed by anything */
} loop;

/* What is complete in a pause. */
typedef enum pause_kind {
    PAUSE_ROW, /* the row on its way is written, since graphs run again and leave another loss, and the steps enqueued have run */
    PAUSE_STEPS /* and they are finite: the weights may be used */
} pause_kind;

static charl_status pause_training(loop *l, pause_kind kind)
{
    l->ordinary = false;
    CHARL_TRY(charl__metrics_async_end(l->t, &l->log, &l->m));
    CHARL_TRY(kind == PAUSE_STEPS ? charl__trainer_check_finite(l->t) : charl_device_sync(l->t->session.dev));
    charl__throughput_pause(l->t, &l->m);
    return CHARL_OK;
}

/* With the status of what was done meanwhile. */
static charl_status resume_training(loop *l, charl_status st)
{
    charl__throughput_resume(l->t, &l->m);
    return st;
}

/* Whether to evaluate after the step just made. */
static charl_status is_evaluated(charl__trainer *t, bool *evaluate)
{
    *evaluate = false;
    if (t->replica.eval && t->config->eval.interval.unit != CHARL__INTERVAL_OFF) {
        CHARL_TRY(due_together(t, t->config->eval.interval, t->last_eval_s, evaluate));
        *evaluate = *evaluate || t->replica.step == t->end_step;
    }
    return CHARL_OK;
}

charl_status charl__trainer_evaluate(charl__trainer *t)
{
    bool evaluate, best;

    CHARL_TRY(is_evaluated(t, &evaluate));
    return evaluate ? evaluate_now(t, &best) : CHARL_OK;
}

/* Which steps checkpoint.keep_every keeps must not depend on the time. */
static charl__interval save_interval(const charl__trainer *t)
{
    const charl__interval interval = t->config->checkpoint.interval;

    return interval.unit == CHARL__INTERVAL_AUTO && t->config->checkpoint.keep_every > 0
               ? (charl__interval){CHARL__INTERVAL_EPOCHS, 1}
               : interval;
}

/* Evaluation and checkpoint after a step, where they are due. An interval of 0 is never, but the
 * best and the end are always saved. */
static charl_status after_step(loop *l)
{
    charl__trainer *t = l->t;
    const bool last = t->replica.step == t->end_step;
    const bool saves = t->writes && t->config->checkpoint.interval.unit != CHARL__INTERVAL_OFF;
    bool evaluate, save = false, best = false;

    CHARL_TRY(is_evaluated(t, &evaluate));
    if (!evaluate && !is_logged(t, t->replica.step) && !has_histograms(t, t->replica.step) &&
        t->whole_step == t->replica.step - 1 && t->whole_step > (t->resumes ? t->resumed_step : 0)) {
        t->whole_step++; /* nothing is to be written; after the first step of a start something is */
    }
    if (saves) {
        CHARL_TRY(due_together(t, save_interval(t), t->last_save_s, &save));
    }
    /* is_over: the failed save of a better one was just noticed, and the best is an old one again */
    save = save || ((last || charl__trainer_is_over(t)) && t->writes);
    if (!evaluate && !save) {
        return CHARL_OK;
    }
    CHARL_TRY(pause_training(l, PAUSE_STEPS));
    if (evaluate) {
        charl__step_trace_phase(t, charl__phase_text(CHARL__PHASE_EVALUATION), true);
        CHARL_TRY(evaluate_now(t, &best));
    }
    charl__step_trace_phase(t, charl__phase_text(CHARL__PHASE_CHECKPOINT), true);
    if (save || ((best || charl__trainer_is_over(t)) && t->writes)) {
        CHARL_TRY(charl__trainer_save(t, last || charl__trainer_is_over(t)));
    }
    return resume_training(l, CHARL_OK);
}

/* Log the step just run, where it is to be logged, and one before it whose numbers are there.
 * *loss: of the step logged, else NaN. */
static charl_status log_steps(loop *l, double *loss)
{
    const int64_t rows = l->log.rows;

    *loss = (double)NAN;
    if (is_logged(l->t, l->t->replica.step)) {
        CHARL_TRY(charl__metrics_async_end(l->t, &l->log, &l->m));
        *loss = l->log.rows > rows ? l->log.row.loss : *loss; /* of a row before: begin() clears it */
        CHARL_TRY(charl__metrics_async_begin(l->t, &l->log, &l->m));
    }
    if (charl__metrics_async_is_due(l->t, &l->log)) {
        CHARL_TRY(charl__metrics_async_end(l->t, &l->log, &l->m));
        *loss = l->log.row.loss;
    }
    return CHARL_OK;
}

/* Write histograms of the parameters after the step just run, and of its gradients, behind the row of that step. */
static charl_status write_histograms(loop *l)
{
    const charl__trainer *t = l->t;

    CHARL_TRY(pause_training(l, PAUSE_STEPS));
    if (t->metrics) {
        CHARL_TRY(charl__trainer_wrote_row(
            t, charl_metrics_histograms(t->metrics, t->replica.step, t->session.params, t->gradient_scale)));
    }
    return resume_training(l, CHARL_OK);
}

/* Give the ranks other slices if that pays. */
static charl_status balance(charl__trainer *t)
{
    const charl_data_parallel *dp = t->replica.dp;
    const double begin = charl__clock_s();
    charl_balance_row row = {.step = t->replica.step,
                             .size = charl_comm_size(t->comm),
                             .slices = dp->balance.count,
                             .step_ms = dp->balance.ms};
    charl_status st;
    bool divides;

    CHARL_TRY(charl_data_parallel_balance(t->replica.dp, &divides));
    if (!divides) {
        return CHARL_OK;
    }
    charl_comm_set_timeout(t->comm, t->config->dist.stage_timeout_s);
    st = charl__replica_divide(&t->replica);
    if (st != CHARL_OK && charl__comm_is_agreed(t->comm)) {
        charl__error_prefix("step %" PRId64 ", division of the batch: ", t->replica.step);
    }
    CHARL_TRY(st);
    charl_comm_set_timeout(t->comm, t->config->dist.timeout_s);
    row.ms = (charl__clock_s() - begin) * 1e3;
    return charl__trainer_balanced(t, &row);
}

/* All that follows the launches of a step. */
static charl_status finish_step(loop *l)
{
    charl__trainer *t = l->t;
    const int64_t rows = l->log.rows;
    double loss;

    l->m.steps++;
    CHARL_TRY(charl__nonfinite_poll(t));
    CHARL_TRY(log_steps(l, &loss));
    l->ordinary = l->ordinary && !is_logged(t, t->replica.step) && l->log.rows == rows && l->m.first_step > 0;
    if (t->options->events.progressed) {
        CHARL_TRY(t->options->events.progressed(t->options->events.ctx, t->replica.step, loss));
    }
    if (l->m.first_step == 0) { /* the first step warms caches up */
        CHARL_TRY(charl_device_sync(t->session.dev));
        l->m.first_s = charl__clock_s();
        l->m.first_step = t->replica.step;
    }
    if (has_histograms(t, t->replica.step)) {
        CHARL_TRY(write_histograms(l));
    }
    CHARL_TRY(after_step(l));
    if (t->replica.step < t->end_step && charl__balance_is_due(t->replica.dp)) {
        t->whole_step = -1; /* parameters may move */
        CHARL_TRY(pause_training(l, PAUSE_STEPS));
        CHARL_TRY(resume_training(l, balance(t)));
    }
    return CHARL_OK;
}

/* Do what the ranks have agreed on before the next step. */
static charl_status obey(loop *l, const decision *d)
{
    charl__trainer *t = l->t;

    if (d->look) {
        CHARL_TRY(charl__metrics_async_end(t, &l->log, &l->m));
        CHARL_TRY(charl__trainer_check_finite(t));
    }
    if (d->saved) {
        l->ordinary = false;
        CHARL_TRY(charl__trainer_continue_save(t)); /* the device continues meanwhile */
    }
    if (d->stop || d->save) {
        CHARL_TRY(pause_training(l, PAUSE_STEPS));
        CHARL_TRY(resume_training(l, t->writes ? charl__trainer_save(t, d->stop) : CHARL_OK));
    }
    if (d->copy) {
        CHARL_TRY(pause_training(l, PAUSE_STEPS));
        CHARL_TRY(resume_training(l, charl__trainer_copy(t)));
    }
    return CHARL_OK;
}

/* A step, unless the ranks agree to stop. */
static charl_status one_step(loop *l, bool *stop)
{
    charl__trainer *t = l->t;
    decision d;

    l->ordinary = true;
    if (is_audited(t)) {
        t->whole_step = -1; /* an audit changes running statistics */
        CHARL_TRY(pause_training(l, PAUSE_ROW));
        CHARL_TRY(resume_training(l, audit(t)));
    }
    CHARL_TRY(charl__step_trace_begin(t, &l->m));
    charl__step_counters_begin(t, &l->counters);
    t->ended_step = t->replica.step;
    CHARL_TRY(decide(t, next_batch(t), &d));
    t->whole_step = t->replica.step; /* all ranks are here */
    CHARL_TRY(obey(l, &d));
    *stop = d.stop;
    if (d.stop) {
        return CHARL_OK;
    }
    CHARL_TRY(run_step(t));
    CHARL_TRY(charl__trainer_describe(t));
    charl__step_trace_phase(t, "log", false);
    CHARL_TRY(finish_step(l));
    l->ordinary = l->ordinary && !t->step_trace.is_on;
    CHARL_TRY(charl__step_trace_end(t, &l->m));
    charl__step_counters_end(t, &l->counters, l->ordinary);
    return CHARL_OK;
}

static void on_phase(void *trainer, charl__phase phase)
{
    charl__step_trace_phase(trainer, charl__phase_text(phase), false);
}

charl_status charl__trainer_loop(charl__trainer *t, charl_train_result *result)
{
    charl_status st = CHARL_OK;
    loop l = {.t = t};

    st = charl__metrics_async_open(t, &l.log);
    st = st == CHARL_OK ? charl__nonfinite_open(t) : st;
    CHARL_TRY_CLEANUP(charl_comm_agree(t->comm, st));
    CHARL_TRY_CLEANUP(charl__trainer_plan_save(t));
    CHARL_TRY_CLEANUP(charl__device_loader_seek(t->replica.train_loader, t->replica.step));
    t->replica.dp->entered = on_phase;
    t->replica.dp->entered_ctx = t;
    charl__throughput_start(t, &l.m);
    t->copied_s = charl__clock_s();
    while (!result->stopped && !charl__trainer_has_ended(t)) {
        CHARL_TRY_CLEANUP(one_step(&l, &result->stopped));
    }
    CHARL_TRY_CLEANUP(charl__step_trace_close(t, &l.m));
    CHARL_TRY_CLEANUP(charl__metrics_async_end(t, &l.log, &l.m));
    CHARL_TRY_CLEANUP(charl__trainer_check_finite(t));
    CHARL_TRY_CLEANUP(charl__energy_sum(t, true));
    result->energy_j = t->energy.total_j;
    CHARL_TRY_CLEANUP(charl__trainer_finish_save(t, true));
    charl__step_counters_report(&l.counters);
    result->loss = l.log.rows > 0 ? l.log.row.loss : result->loss;
    if (t->replica.step > l.m.first_step && l.m.first_step > 0) {
        result->samples_per_s = (double)((t->replica.step - l.m.first_step) * t->config->train.batch_size) /
                                (charl__clock_s() - l.m.first_s);
    }
cleanup:
    charl__metrics_async_close(&l.log);
    charl__nonfinite_close(t);
    return st;
}
