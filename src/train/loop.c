/* The training loop.
 *
 * A step: agree on what to do (stop, save), enqueue data, graph, all-reduce and optimizer, go on.
 * Nothing in it waits for the device except where ranks meet and where a row is logged. A gradient
 * that is not finite makes the optimizer refuse this step and all that follow; the host reads that
 * where it logs, evaluates or saves, before anything else is done with the weights.
 */
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fault.h"
#include "train/interval.h"
#include "train/trainer.h"

/* What all ranks do before the next step. */
typedef struct decision {
    bool stop, save;
} decision;

/* Times since the last row. */
typedef struct meter {
    double begin_s, data_s, comm_s;
    int64_t steps;
    double first_s; /* after the first steps: throughput of the run */
    int64_t first_step;
    double pause_s, pause_comm_s; /* when validating or saving began */
} meter;

static void meter_pause(const charl__trainer *t, meter *m)
{
    m->pause_s = charl__clock_s();
    m->pause_comm_s = charl__sync_waited_s(t->sync);
}

/* Rates are those of training alone. */
static void meter_go_on(const charl__trainer *t, meter *m)
{
    const double pause = charl__clock_s() - m->pause_s;

    m->begin_s += pause;
    m->first_s += pause;
    m->comm_s += charl__sync_waited_s(t->sync) - m->pause_comm_s;
}

static bool take_file(const char *dir, const char *name)
{
    char path[4096];

    if ((size_t)snprintf(path, sizeof path, "%s/%s", dir, name) >= sizeof path ||
        access(path, F_OK) != 0) {
        return false;
    }
    return unlink(path) == 0;
}

/* Requests that this rank knows of: signals on any rank, files and the clock on rank 0. */
static void local_requests(charl__trainer *t, float *stop, float *save)
{
    const char *dir = t->config->run.output_dir;
    const double max_time = t->config->run.max_time_s;
    const int asked =
        t->options->stop ? atomic_exchange(t->options->stop, CHARL_STOP_NONE) : CHARL_STOP_NONE;

    *stop = asked == CHARL_STOP_SAVE || charl__fault("train.stop");
    *save = asked == CHARL_STOP_CHECKPOINT;
    if (charl_comm_rank(t->comm) == 0 && t->writes) {
        *stop = *stop > 0.0F || take_file(dir, "STOP") ||
                (max_time > 0 && charl__clock_s() - t->started_s >= max_time);
        *save = *save > 0.0F || take_file(dir, "CHECKPOINT");
    }
}

/* Agree on requests and on whether every rank is well; `mine` is this rank's status so far. */
static charl_status decide(charl__trainer *t, charl_status mine, decision *out)
{
    charl_status st = CHARL_OK;
    float v[3];

    local_requests(t, &v[0], &v[1]);
    v[2] = mine != CHARL_OK;
    CHARL_TRY(charl__sync_control(t->sync, v, 3));
    if (v[2] > 0.0F) {
        CHARL_TRY(charl__trainer_agree(t, mine));
    }
    out->stop = v[0] > 0.0F;
    out->save = v[1] > 0.0F;
cleanup:
    return st;
}

static charl_status push_record(charl__trainer *t)
{
    const uint64_t seed = (uint64_t)t->config->run.seed, step = (uint64_t)t->step;
    charl_step record = {.seed_lo = (uint32_t)seed,
                         .seed_hi = (uint32_t)(seed >> 32),
                         .step_lo = (uint32_t)step,
                         .step_hi = (uint32_t)(step >> 32),
                         .loss_seed = (float)(1.0 / (double)t->config->train.batch_size),
                         .commit = 1};

    charl__optimizer_fill(t->optimizer, (float)charl_schedule_lr(&t->schedule, t->step), &record);
    return charl__steps_push(t->steps, &record);
}

/* The lanes of the loss that a pass has left: the next one overwrites them. */
static charl_status keep_loss(charl__trainer *t, int i, const charl__task *task)
{
    charl_status st = CHARL_OK;
    float lanes[CHARL_MAX_LANES];

    CHARL_TRY(
        charl_tensor_read(charl_var_get_tensor(task->metrics), lanes,
                          (size_t)charl__passes_slices(t->passes, i)->n_lanes * sizeof lanes[0]));
    charl__passes_fold_number(t->passes, i, lanes);
cleanup:
    return st;
}

/* Forward and backward. With several passes the loss is read only for steps that are logged. */
static charl_status run_graphs(charl__trainer *t, bool logged)
{
    charl_status st = CHARL_OK;

    CHARL_TRY(charl_graph_run(t->train.g));
    for (int i = 0; t->passes && i < charl__passes_count(t->passes); i++) {
        const charl__task *task = i > 0 ? &t->more[i - 1] : &t->train;

        if (i > 0) {
            CHARL_TRY(charl_graph_run(task->g));
        }
        if (logged) {
            CHARL_TRY(keep_loss(t, i, task));
        }
        CHARL_TRY(charl__passes_fold(t->passes, i));
    }
    if (t->passes && t->sync) {
        CHARL_TRY(charl__sync_ready_all(t->sync));
    }
cleanup:
    return st;
}

static bool is_logged(const charl__trainer *t, int64_t step)
{
    return step % t->config->log.interval == 0 || step == t->end_step;
}

static charl_status run_step(charl__trainer *t)
{
    charl_status st = CHARL_OK;

    charl_comm_mark(t->comm, t->step + 1, "forward and backward");
    CHARL_TRY(push_record(t));
    CHARL_TRY(charl__optimizer_begin(t->optimizer));
    CHARL_TRY(charl__balance_begin(t));
    CHARL_TRY(run_graphs(t, is_logged(t, t->step + 1)));
    CHARL_TRY(charl__balance_end(t));
    CHARL_TRY(charl__feed_used(t->train_feed));
    if (charl__fault("train.kill")) {
        raise(SIGKILL);
    }
    CHARL_REQUIRE(!charl__fault("train.fail"), CHARL_ERR_DEVICE, "the device fails on purpose");
    charl_comm_mark(t->comm, t->step + 1, "all-reduce");
    CHARL_TRY(charl__sync_finish(t->sync));
    CHARL_TRY(charl_optimizer_step(t->optimizer, 0.0F)); /* the rate stands in the step record */
    CHARL_TRY(charl__mixed_follow(t));
    t->step++;
cleanup:
    return st;
}

/* Loss of the step just run, from the lanes it left. */
static charl_status read_loss(charl__trainer *t, double *loss)
{
    charl_status st = CHARL_OK;
    float lanes[CHARL_MAX_LANES], sum;

    if (!t->passes) {
        CHARL_TRY(charl_tensor_read(charl_var_get_tensor(t->train.metrics), lanes,
                                    (size_t)t->slices.n_lanes * sizeof lanes[0]));
    }
    CHARL_TRY(
        charl__sync_sum(t->sync, t->passes ? charl__passes_number(t->passes) : lanes, 1, &sum));
    *loss = (double)(sum / (float)t->config->train.batch_size);
cleanup:
    return st;
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

/* Fail when a step was not finite, unless such steps are left out. loss NULL: not read for this
 * step. What is looked at are sums over all ranks, so that all of them come to the same decision.
 */
static charl_status check_finite(charl__trainer *t, const double *loss, double *grad_norm)
{
    charl_status st = CHARL_OK;
    charl_optimizer_report report;
    char text[48] = "", what[320];

    CHARL_TRY(charl_optimizer_get_report(t->optimizer, &report));
    *grad_norm = (double)report.grad_norm;
    if (t->config->train.on_nonfinite == CHARL_NONFINITE_SKIP) {
        note_skipped(t, &report);
        goto cleanup;
    }
    t->agreed = !report.finite || (loss && !isfinite(*loss));
    if (loss) {
        snprintf(text, sizeof text, "loss %g, ", *loss);
    }
    CHARL_REQUIRE(report.finite, CHARL_ERR_NONFINITE,
                  "step %" PRId64 ": %s (%sgradient norm %g at step %" PRId64
                  "); the weights are those before it. Lower optimizer.learning_rate, set "
                  "train.grad_clip, or train.on_nonfinite = skip",
                  report.bad_step + 1, culprit(&report, what, sizeof what), text,
                  (double)report.grad_norm, t->step);
    CHARL_REQUIRE(!t->agreed, CHARL_ERR_NONFINITE,
                  "step %" PRId64 ": the loss is not finite (%sgradient norm %g). Lower "
                  "optimizer.learning_rate, or set train.on_nonfinite = skip",
                  t->step, text, (double)report.grad_norm);
cleanup:
    return st;
}

static charl_status log_row(charl__trainer *t, meter *m, charl_train_result *result)
{
    charl_status st = CHARL_OK;
    const double now = charl__clock_s(), steps = (double)(m->steps > 0 ? m->steps : 1),
                 span = fmax(now - m->begin_s, 1e-9);
    const double data_s = charl__feed_waited_s(t->train_feed),
                 comm_s = charl__sync_waited_s(t->sync);
    charl_train_row row = {.step = t->step,
                           .steps = t->end_step,
                           .epoch = charl__trainer_epoch(t),
                           .lr = charl_schedule_lr(&t->schedule, t->step - 1),
                           .samples = t->step * t->config->train.batch_size,
                           .samples_per_s = steps * (double)t->config->train.batch_size / span,
                           .step_ms = span * 1e3 / steps,
                           .data_ms = (data_s - m->data_s) * 1e3 / steps,
                           .comm_ms = (comm_s - m->comm_s) * 1e3 / steps,
                           .mem_bytes = charl_device_get_memory(t->dev).in_use,
                           .elapsed_s = now - t->started_s};

    CHARL_TRY(read_loss(t, &row.loss));
    if (t->data.kind == CHARL_DATASET_TOKENS) {
        row.tokens_per_s = row.samples_per_s * (double)t->data.x_shape.dim[0];
    }
    row.eta_s = span / steps * (double)(t->end_step - t->step);
    result->loss = row.loss;
    st = check_finite(t, &row.loss, &row.grad_norm);
    row.skipped = t->skipped_before + t->skipped_now;
    if (t->options->events.trained) { /* a row with the loss that ended the run is worth having */
        const charl_status written = t->options->events.trained(t->options->events.ctx, &row);

        st = st == CHARL_OK ? written : st;
    }
    CHARL_TRY(st);
    *m = (meter){.begin_s = now,
                 .data_s = data_s,
                 .comm_s = comm_s,
                 .first_s = m->first_s,
                 .first_step = m->first_step};
cleanup:
    return st;
}

static charl_status evaluate_now(charl__trainer *t, bool *best)
{
    charl_status st = CHARL_OK;
    const int64_t limit =
        t->options->fast_dev_run > 0 ? t->options->fast_dev_run : t->config->eval.max_batches;
    charl_val_row row;

    *best = false;
    if (charl_optimizer_has_ema(t->optimizer)) { /* what is kept as the best is the average */
        CHARL_TRY(charl_optimizer_exchange_ema(t->optimizer));
    }
    CHARL_TRY(charl__trainer_evaluate(t, limit, &row));
    if (charl_optimizer_has_ema(t->optimizer)) {
        CHARL_TRY(charl_optimizer_exchange_ema(t->optimizer));
    }
    row.best = *best = charl__trainer_is_best(t, &row);
    t->last_eval_s = charl__clock_s();
    if (t->options->events.evaluated) {
        CHARL_TRY(t->options->events.evaluated(t->options->events.ctx, &row));
    }
cleanup:
    return st;
}

/* Evaluations have not become better for too long. */
static bool is_over(const charl__trainer *t)
{
    const int64_t patience = t->config->train.early_stopping_patience;

    return patience > 0 && t->stale_evals >= patience;
}

static bool due(const charl__trainer *t, charl_interval interval, double last_s)
{
    return charl__interval_due(interval, t->step, t->config->train.batch_size,
                               t->data.rows[CHARL_SPLIT_TRAIN], charl__clock_s() - last_s);
}

/* Intervals in seconds are decided by rank 0's clock. */
static charl_status due_together(charl__trainer *t, charl_interval interval, double last_s,
                                 bool *out)
{
    charl_status st = CHARL_OK;
    float v = charl_comm_rank(t->comm) == 0 && due(t, interval, last_s) ? 1.0F : 0.0F;

    if (interval.unit != CHARL_INTERVAL_SECONDS) {
        *out = due(t, interval, last_s);
        goto cleanup;
    }
    CHARL_TRY(charl__sync_control(t->sync, &v, 1));
    *out = v > 0.0F;
cleanup:
    return st;
}

/* Save now, in the middle of training. */
static charl_status save_between(charl__trainer *t, meter *m, bool last)
{
    charl_status st = CHARL_OK;
    double ignored;

    CHARL_TRY(check_finite(t, NULL, &ignored)); /* waits for the steps enqueued */
    meter_pause(t, m);
    if (t->writes) {
        CHARL_TRY(charl__trainer_save(t, last));
    }
    meter_go_on(t, m);
cleanup:
    return st;
}

/* Evaluation and checkpoint after a step, where they are due. An interval of 0 is never, but the
 * end always saves. */
static charl_status after_step(charl__trainer *t, meter *m)
{
    charl_status st = CHARL_OK;
    const bool last = t->step == t->end_step;
    const bool saves = t->writes && t->config->checkpoint.interval.unit != CHARL_INTERVAL_OFF;
    const bool evaluates = t->eval.g && t->config->eval.interval.unit != CHARL_INTERVAL_OFF;
    bool evaluate = false, save = false, best = false;
    double ignored;

    if (evaluates) {
        CHARL_TRY(due_together(t, t->config->eval.interval, t->last_eval_s, &evaluate));
        evaluate = evaluate || last;
    }
    if (saves) {
        CHARL_TRY(due_together(t, t->config->checkpoint.interval, t->last_save_s, &save));
    }
    save = save || (last && t->writes);
    if (!evaluate && !save) {
        goto cleanup;
    }
    CHARL_TRY(check_finite(t, NULL, &ignored)); /* waits for the steps enqueued */
    meter_pause(t, m);
    if (evaluate) {
        CHARL_TRY(evaluate_now(t, &best));
    }
    if (save || (best && saves) || (is_over(t) && t->writes)) {
        CHARL_TRY(charl__trainer_save(t, last || is_over(t)));
    }
    meter_go_on(t, m);
cleanup:
    return st;
}

static charl_status divide_anew(charl__trainer *t, meter *m)
{
    charl_status st = CHARL_OK;
    double ignored;

    if (t->step == t->end_step || !charl__balance_is_due(t)) {
        goto cleanup;
    }
    CHARL_TRY(check_finite(t, NULL, &ignored)); /* waits for the steps enqueued */
    meter_pause(t, m);
    CHARL_TRY(charl__balance_divide(t));
    meter_go_on(t, m);
cleanup:
    return st;
}

static charl_status loop(charl__trainer *t, charl_train_result *result)
{
    charl_status st = CHARL_OK;
    meter m = {.begin_s = charl__clock_s()};

    CHARL_TRY(charl__feed_seek(t->train_feed, t->step));
    while (t->step < t->end_step && !is_over(t)) {
        decision d;
        double loss = (double)NAN;
        bool logged;

        st = charl__feed_next(t->train_feed);
        CHARL_TRY(decide(t, st, &d));
        if (d.stop || d.save) {
            CHARL_TRY(save_between(t, &m, d.stop));
        }
        if (d.stop) {
            result->stopped = true;
            break;
        }
        CHARL_TRY(run_step(t));
        m.steps++;
        logged = is_logged(t, t->step);
        if (logged) {
            CHARL_TRY(log_row(t, &m, result));
            loss = result->loss;
        }
        if (t->options->events.progressed) {
            CHARL_TRY(t->options->events.progressed(t->options->events.ctx, t->step, loss));
        }
        if (m.first_step == 0) { /* the first step warms caches up */
            CHARL_TRY(charl_device_sync(t->dev));
            m.first_s = charl__clock_s();
            m.first_step = t->step;
        }
        CHARL_TRY(after_step(t, &m));
        CHARL_TRY(divide_anew(t, &m));
    }
    if (t->step > m.first_step && m.first_step > 0) {
        result->samples_per_s = (double)((t->step - m.first_step) * t->config->train.batch_size) /
                                (charl__clock_s() - m.first_s);
    }
cleanup:
    return st;
}

charl_status charl__trainer_report(charl__trainer *t)
{
    charl_status st = CHARL_OK;
    const charl_device_memory memory = charl_device_get_memory(t->dev);
    const charl_graph_info g = charl_graph_get_info(t->infers ? t->eval.g : t->train.g);
    const charl_train_info info = {
        .device = charl_device_get_info(t->dev),
        .rank = charl_comm_rank(t->comm),
        .size = charl_comm_size(t->comm),
        .allreduce = charl__sync_name(t->sync),
        .invariant = charl__sync_is_invariant(t->sync),
        .mixed = t->mixed.on,
        .layers = charl_model_get_count(t->model),
        .parameters = charl_params_get_elements(t->params),
        .train_rows = t->data.rows[CHARL_SPLIT_TRAIN],
        .val_rows = t->data.rows[CHARL_SPLIT_VAL],
        .window = t->data.kind == CHARL_DATASET_TOKENS ? t->data.x_shape.dim[0] : 0,
        .data_on_device = charl__feed_is_on_device(t->infers ? t->eval_feed : t->train_feed),
        .data_note = t->data.note,
        .batch_size = t->config->train.batch_size,
        .local_rows = t->rows,
        .slices = t->slices.total,
        .steps = t->end_step,
        .start_step = t->step,
        .resumed = t->resumed ? t->resumed : "",
        .memory_bytes = memory.peak,
        .memory_capacity = memory.capacity,
        .activation_bytes = g.activation_bytes,
        .passes = t->n_passes,
        .recomputes = t->recomputes,
        .recompute_saves = t->recompute_saves,
        .launches = g.launches,
        .collectives = g.collectives};

    if (t->options->events.started) {
        CHARL_TRY(t->options->events.started(t->options->events.ctx, &info));
    }
cleanup:
    return st;
}

static charl_status open_run(charl__trainer *t)
{
    charl_status st = CHARL_OK;

    t->writes = !t->options->dry_run && t->options->fast_dev_run == 0 && !t->options->overfit_batch;
    if (t->writes && charl_comm_rank(t->comm) == 0) {
        st = charl_run_open(t->config->run.output_dir, &t->run);
        if (st == CHARL_OK) {
            charl__trainer_warn(t, charl_run_get_note(t->run));
        }
    }
    CHARL_TRY(charl__trainer_agree(t, st));
cleanup:
    return st;
}

/* A failure that the other ranks do not know of: they wait where this one no longer comes. */
static void leave_alone(const charl__trainer *t, charl_status st)
{
    if (st != CHARL_OK && t->comm && !t->agreed && charl_comm_size(t->comm) > 1 &&
        !charl_comm_is_broken(t->comm)) {
        charl__error_prefix("rank %d of %d (%s): ", charl_comm_rank(t->comm),
                            charl_comm_size(t->comm),
                            charl_comm_host(t->comm, charl_comm_rank(t->comm)));
        charl_comm_break(t->comm);
    }
}

charl_status charl_train_run(const charl_config *config, const charl_train_options *options,
                             charl_train_result *result)
{
    charl_status st = CHARL_OK;
    charl__trainer t = {0};
    const double begin = charl__clock_s();

    *result =
        (charl_train_result){.loss = (double)NAN, .best_metric = (double)NAN, .best_step = -1};
    CHARL_TRY(charl__trainer_init(&t, config, options, CHARL_SPLIT_VAL));
    CHARL_TRY(open_run(&t));
    CHARL_TRY(charl__trainer_resume(&t));
    CHARL_TRY(charl__trainer_report(&t));
    if (!options->dry_run) {
        CHARL_TRY(loop(&t, result));
    }
cleanup:
    result->step = t.step;
    result->epoch = t.ds ? charl__trainer_epoch(&t) : 0.0;
    result->best_metric = t.ds ? t.best_metric : (double)NAN;
    result->early = t.ds && is_over(&t);
    result->skipped = t.skipped_before + t.skipped_now;
    result->best_step = t.ds ? t.best_step : -1;
    leave_alone(&t, st);
    charl__trainer_fini(&t);
    result->wall_s = charl__clock_s() - begin;
    return st;
}

int charl__split_of(const char *name)
{
    for (int s = 0; s < CHARL_SPLIT_COUNT; s++) {
        if (strcmp(charl_split_name((charl_split)s), name) == 0) {
            return s;
        }
    }
    return -1;
}

charl_status charl_train_evaluate(const charl_config *config, const charl_train_options *options,
                                  const char *checkpoint, const char *split, charl_val_row *out)
{
    charl_status st = CHARL_OK;
    charl__trainer t = {.infers = true};
    const int which = charl__split_of(split);

    CHARL_REQUIRE(which >= 0, CHARL_ERR_CONFIG,
                  "there is no split %s; there are train, val and test", split);
    st = charl__checkpoint_classes(config, checkpoint, &t.classes);
    CHARL_TRY(charl_comm_agree(options->comm, st));
    CHARL_TRY(charl__trainer_init(&t, config, options, (charl_split)which));
    CHARL_TRY(charl__trainer_report(&t));
    CHARL_TRY(charl__trainer_agree(&t, charl__trainer_load(&t, checkpoint, false)));
    CHARL_TRY(charl__trainer_evaluate(&t, 0, out));
cleanup:
    leave_alone(&t, st);
    charl__trainer_fini(&t);
    return st;
}
