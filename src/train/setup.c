/* From a configuration to compiled graphs: data, device, model, graphs, parameters, optimizer.
 *
 * Each stage may fail on one rank alone, so statuses are agreed between them: before anything that
 * needs all ranks.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "task/loader_record.h"
#include "config/config_groups.h"
#include "train/replica.h"
#include "train/rank_check.h"
#include "train/optimizer_shard.h"

enum { RUN_AHEAD = 4 };

static const float FIRST_SCALE = 65536.0F; /* of gradients in f16, to begin with */

void charl__trainer_warn(const charl__trainer *t, const char *text)
{
    if (t->options->events.warned && text && text[0]) {
        t->options->events.warned(t->options->events.ctx, text);
    }
}

double charl__trainer_epoch(const charl__trainer *t)
{
    return (double)(t->step * t->config->train.batch_size) /
           (double)t->data.rows[CHARL_SPLIT_TRAIN];
}

static charl_status open_data(charl__trainer *t)
{
    const charl_config *c = t->config;
    const charl_dataset_options o = charl__task_dataset_options(c);

    CHARL_REQUIRE(c->data.path[0], CHARL_ERR_CONFIG,
                  "[data] path is missing: which file holds the data?");
    CHARL_TRY(charl_dataset_open(c->data.path, &o, &t->ds));
    charl_dataset_get_info(t->ds, &t->data);
    CHARL_REQUIRE(t->infers || t->data.rows[CHARL_SPLIT_TRAIN] > 0, CHARL_ERR_DATA,
                  "%s has no training rows", c->data.path);
    CHARL_REQUIRE(!t->infers || t->data.rows[t->eval_split] > 0, CHARL_ERR_DATA,
                  "%s has no %s split; HINT a file without splits, as one named by data.x and "
                  "data.y, is all train",
                  c->data.path, charl_split_name(t->eval_split));
    CHARL_REQUIRE(t->infers || c->train.batch_size <= t->data.rows[CHARL_SPLIT_TRAIN],
                  CHARL_ERR_CONFIG, "train.batch_size = %lld is more than the %lld training rows",
                  (long long)c->train.batch_size, (long long)t->data.rows[CHARL_SPLIT_TRAIN]);
    return CHARL_OK;
}

/* A rank that compiles is not silent, however long it takes. */
static void on_compiling(void *ctx, const charl_compile_progress *p)
{
    const charl__trainer *t = ctx;
    const charl_train_events *e = &t->options->events;

    charl_comm_mark(t->comm, 0, NULL);
    if (e->compiling) {
        e->compiling(e->ctx, p);
    }
}

static charl_status open_device(charl__trainer *t)
{
    const bool is_team =
        charl_comm_is_team(t->comm); /* simulated: all on the devices of this node */
    charl_device_request r = {
        .select = t->config->device.select,
        .local_rank = is_team ? charl_comm_rank(t->comm) : charl_comm_local_rank(t->comm),
        .local_size = is_team ? charl_comm_size(t->comm) : charl_comm_local_size(t->comm),
        .share = t->config->device.share || is_team,
        .allow_tf32 = t->config->device.allow_tf32,
        .compiling = on_compiling,
        .compiling_ctx = t};

    if (t->options->device) {
        r.select = t->options->device;
        r.exact = true;
    }
    CHARL_TRY(charl_comm_cpu_limit(t->comm));
    CHARL_TRY(charl_device_open(&r, &t->dev));
    CHARL_TRY(charl__steps_create_with(
        t->dev, RUN_AHEAD,
        t->infers ? 0 : charl__loader_record_bytes(t->rows, t->config->data.augment.mixup > 0),
        &t->steps));
    if (t->config->train.precision == CHARL_PRECISION_F16) {
        const int64_t fixed = t->config->train.loss_scale;

        CHARL_TRY(charl__steps_use_scale(t->steps, fixed ? (float)fixed : FIRST_SCALE, fixed == 0));
    }
    return CHARL_OK;
}

/* Everything up to the graphs. */
static charl_status build(charl__trainer *t)
{
    int64_t outputs;

    CHARL_TRY(charl__task_outputs(t->config, &t->data, &outputs));
    CHARL_TRY(charl__task_model(t->config, outputs, &t->model));
    CHARL_TRY(charl_params_create(&t->params));
    t->params->reduce_dtype =
        t->config->dist.reduce_dtype == CHARL_REDUCE_BF16 && !t->infers ? CHARL_BF16 : CHARL_F32;
    CHARL_TRY(charl__replica_build(t));
    CHARL_REQUIRE(t->infers || t->eval.g || t->config->train.early_stopping_patience == 0,
                  CHARL_ERR_CONFIG,
                  "train.early_stopping_patience needs a validation set, %s has none; HINT "
                  "data.val_split",
                  t->data.path);
    CHARL_REQUIRE(charl_params_get_elements(t->params) > 0, CHARL_ERR_CONFIG,
                  "the model has nothing to train");
    return CHARL_OK;
}

static double given(double value, double own)
{
    return isnan(value) ? own : value;
}

static charl_status create_optimizer(charl__trainer *t)
{
    const charl_config *c = t->config;
    charl_optimizer_config o = charl_optimizer_defaults(t->optimizer_kind);
    int64_t outputs;

    CHARL_TRY(charl__task_outputs(c, &t->data, &outputs));
    CHARL_TRY(charl__groups_apply(c, t->params, outputs));
    o.weight_decay = (float)c->optimizer.weight_decay;
    o.momentum = (float)given(c->optimizer.momentum,
                              c->optimizer.type == CHARL_OPTIMIZER_SGD ? 0.9 : (double)o.momentum);
    o.nesterov = c->optimizer.nesterov;
    o.beta1 = given(c->optimizer.beta1, o.beta1);
    o.beta2 = given(c->optimizer.beta2, o.beta2);
    o.eps = (float)given(c->optimizer.eps, (double)o.eps);
    o.grad_clip = (float)c->train.grad_clip;
    o.ema_decay = c->train.ema_decay;
    o.skip_nonfinite = c->train.on_nonfinite == CHARL_NONFINITE_SKIP;
    CHARL_TRY(charl__optimizer_create(t->params, &o, t->steps, charl__shard_ranges(t->shard),
                                      &t->optimizer));
    CHARL_TRY(charl__optimizer_warm_up(t->optimizer));
    return CHARL_OK;
}

static charl_status plan_steps(charl__trainer *t)
{
    const charl_config *c = t->config;
    const int64_t n = t->data.rows[CHARL_SPLIT_TRAIN], batch = c->train.batch_size;

    t->total_steps = (c->train.epochs * n + batch - 1) / batch;
    if (c->train.max_steps >= 0) {
        t->total_steps = c->train.max_steps;
    }
    t->end_step = t->total_steps;
    if (t->options->fast_dev_run > 0 && t->options->fast_dev_run < t->end_step) {
        t->end_step = t->options->fast_dev_run;
    }
    snprintf(t->schedule_type, sizeof t->schedule_type, "%s",
             charl_config_choice_name("scheduler", "type", c->scheduler.type));
    snprintf(t->optimizer_kind, sizeof t->optimizer_kind, "%s",
             charl_config_choice_name("optimizer", "type", c->optimizer.type));
    t->schedule = (charl_schedule){
        .type = t->schedule_type,
        .base_lr = c->optimizer.learning_rate,
        .min_lr = c->scheduler.min_lr,
        .warmup_steps = c->scheduler.warmup_steps,
        .total_steps = t->total_steps,
        .step_size = c->scheduler.step_size,
        .gamma = c->scheduler.gamma,
        .milestones = c->scheduler.milestones.values,
        .n_milestones = c->scheduler.milestones.count,
        .power = c->scheduler.power,
        .decay_steps = c->scheduler.decay_steps,
    };
    if (t->schedule.decay_steps == 0) { /* auto */
        t->schedule.decay_steps = t->total_steps < 20 ? t->total_steps > 0 : t->total_steps / 10;
    }
    if (!t->infers) {
        CHARL_TRY(charl_schedule_check(&t->schedule));
    }
    return CHARL_OK;
}

/* What this rank can know before it is decided where to begin. */
static charl_status open_alone(charl__trainer *t)
{
    charl_slices even;

    CHARL_REQUIRE(!charl_comm_is_team(t->comm) || charl_dataset_is_thread_safe(), CHARL_ERR_CONFIG,
                  "simulated ranks need an HDF5 library that was built thread-safe, which this one "
                  "was not: start %d ranks with mpirun",
                  charl_comm_size(t->comm));
    CHARL_TRY(charl_slices_block(charl_config_slices(t->config), charl_comm_rank(t->comm),
                                 charl_comm_size(t->comm), &even));
    CHARL_TRY(charl__replica_take(t, even.first, even.count));
    CHARL_TRY(charl__balance_init(t));
    if (t->infers) {
        CHARL_TRY(charl__trainer_read_schema(t));
    }
    CHARL_TRY(open_data(t));
    CHARL_TRY(plan_steps(t));
    return CHARL_OK;
}

static charl_status prepare_alone(charl__trainer *t)
{
    if (!t->infers) {
        CHARL_TRY(charl__trainer_read_schema(t));
    }
    CHARL_TRY(charl__trainer_match_data(t));
    CHARL_TRY(open_device(t));
    CHARL_TRY(build(t));
    return CHARL_OK;
}

static charl_status finish_alone(charl__trainer *t)
{
    CHARL_TRY(charl__phase_enter(t->comm, 0, CHARL__PHASE_KERNELS, NULL));
    CHARL_TRY(charl__replica_compile(t));
    if (!t->infers) {
        CHARL_TRY(create_optimizer(t));
    }
    return CHARL_OK;
}

charl_status charl__trainer_init(charl__trainer *t, const charl_config *config,
                                 const charl_train_options *options, charl_split eval_split)
{
    charl_status st = CHARL_OK;

    *t = (charl__trainer){.config = config,
                          .options = options,
                          .comm = options->comm,
                          .eval_split = eval_split,
                          .infers = t->infers,
                          .origin = t->origin,
                          .best_metric = (double)NAN,
                          .best_step = -1,
                          .resumed_step = -1,
                          .saved_step = -1,
                          .started_s = charl__clock_s()};
    t->last_save_s = t->last_eval_s = t->started_s;
    charl_comm_timeout_set(t->comm, config->dist.stage_timeout_s);
    st = charl__phase_enter(t->comm, 0, CHARL__PHASE_SETUP, NULL);
    CHARL_TRY(charl__rank_check_settings(t, st));
    CHARL_TRY(charl__rank_check_data(t, open_alone(t)));
    if (!t->infers) {
        CHARL_TRY(charl__trainer_begin(t));
    }
    CHARL_TRY(charl_comm_agree(t->comm, prepare_alone(t)));
    CHARL_TRY(charl__heterogeneous_init(t));
    CHARL_TRY(charl__replica_connect(t));
    CHARL_TRY(charl__trainer_report_built(t));
    st = finish_alone(t);
    CHARL_TRY(charl_comm_agree(t->comm, st));
    CHARL_TRY(charl__replica_check(t));
    return st;
}

void charl__trainer_fini(charl__trainer *t)
{
    charl__replica_discard(t);
    charl__heterogeneous_fini(t);
    charl_optimizer_destroy(t->optimizer);
    charl__shard_destroy(t->shard);
    charl__device_loader_destroy(t->train_loader);
    charl__device_loader_destroy(t->eval_loader);
    charl_params_destroy(t->params);
    charl__grad_reducer_destroy(t->reducer);
    charl_model_destroy(t->model);
    charl__steps_destroy(t->steps);
    charl_device_close(t->dev);
    charl_dataset_close(t->ds);
    charl_data_schema_destroy(t->schema);
    charl_run_close(t->run);
    charl_free(t->resumed);
    *t = (charl__trainer){0};
}
