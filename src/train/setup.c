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
#include "base/fault.h"
#include "train/config_groups.h"
#include "train/trainer.h"

enum { RUN_AHEAD = 4, DEFAULT_WINDOW = 64 };

static const float FIRST_SCALE = 65536.0F; /* of gradients in f16, to begin with */

charl_status charl__trainer_agree(charl__trainer *t, charl_status mine)
{
    const charl_status st = charl_comm_agree(t->comm, mine);

    t->agreed = st != CHARL_OK && !charl_comm_is_broken(t->comm);
    return st;
}

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

charl_dataset_options charl__dataset_options(const charl_config *c)
{
    return (charl_dataset_options){.x = c->data.x[0] ? c->data.x : NULL,
                                   .y = c->data.y[0] ? c->data.y : NULL,
                                   .val_split = c->data.val_split,
                                   .window = c->model.type == CHARL_MODEL_GPT ? c->model.block_size
                                             : c->data.window > 0             ? c->data.window
                                                                              : DEFAULT_WINDOW};
}

static charl_status open_data(charl__trainer *t)
{
    charl_status st = CHARL_OK;
    const charl_config *c = t->config;
    const charl_dataset_options o = charl__dataset_options(c);

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
    t->data.classes = t->classes > t->data.classes ? t->classes : t->data.classes;
    CHARL_REQUIRE(t->infers || c->train.batch_size <= t->data.rows[CHARL_SPLIT_TRAIN],
                  CHARL_ERR_CONFIG, "train.batch_size = %lld is more than the %lld training rows",
                  (long long)c->train.batch_size, (long long)t->data.rows[CHARL_SPLIT_TRAIN]);
cleanup:
    return st;
}

static charl_status divide_batch(charl__trainer *t)
{
    charl_status st = CHARL_OK;
    const int slices = charl_config_slices(t->config);
    const int64_t batch = t->config->train.batch_size;

    CHARL_REQUIRE(batch % slices == 0, CHARL_ERR_CONFIG,
                  "train.batch_size = %lld does not divide into train.slices = %d",
                  (long long)batch, slices);
    CHARL_TRY(charl__slices_block(slices, charl_comm_rank(t->comm), charl_comm_size(t->comm),
                                  &t->slices));
    t->rows = batch / slices * t->slices.count;
    t->row0 = batch / slices * t->slices.first;
cleanup:
    return st;
}

static charl_status open_device(charl__trainer *t)
{
    charl_status st = CHARL_OK;
    const charl_device_request r = {.select = t->config->device.select,
                                    .local_rank = charl_comm_local_rank(t->comm),
                                    .local_size = charl_comm_local_size(t->comm),
                                    .share = t->config->device.share};

    CHARL_TRY(charl_comm_cpu_limit(t->comm));
    CHARL_TRY(charl_device_open(&r, &t->dev));
    CHARL_TRY(charl__steps_create(t->dev, RUN_AHEAD, &t->steps));
    if (t->config->train.precision == CHARL_PRECISION_F16) {
        const int64_t fixed = t->config->train.loss_scale;

        CHARL_TRY(charl__steps_use_scale(t->steps, fixed ? (float)fixed : FIRST_SCALE, fixed == 0));
    }
cleanup:
    return st;
}

/* auto keeps a split on the device when it takes at most a quarter of what is free. */
static bool fits_device(const charl__trainer *t, charl_split split)
{
    const charl_device_memory m = charl_device_get_memory(t->dev);
    const int64_t bytes = charl__feed_split_bytes(&t->data, split);

    switch (t->config->data.cache) {
    case CHARL_CACHE_DEVICE:
        return true;
    case CHARL_CACHE_AUTO:
        return t->data.items[split] <= INT32_MAX && bytes <= (m.capacity - m.in_use) / 4 &&
               bytes <= charl_device_get_info(t->dev)->max_alloc_bytes;
    default:
        return false;
    }
}

static charl_status create_feed(charl__trainer *t, charl_split split, bool training,
                                charl__feed **out)
{
    /* A batch to be learned by heart must stay as it is. */
    const bool augments = training && !t->options->overfit_batch;
    const charl__feed_options o = {.dev = t->dev,
                                   .ds = t->ds,
                                   .normalize = &t->config->data.normalize,
                                   .augment = augments ? &t->config->data.augment : NULL,
                                   .split = split,
                                   .shuffle = training && t->config->data.shuffle,
                                   .endless = training,
                                   .seed = (uint64_t)t->config->run.seed,
                                   .batch = t->config->train.batch_size,
                                   .row0 = t->row0,
                                   .rows = t->rows,
                                   .on_device = fits_device(t, split),
                                   .fixed = training && t->options->overfit_batch,
                                   .brought = t->brings_rows};

    return charl__feed_create(&o, out);
}

/* The rows of some slices within this rank's part of the batch. */
static void set_rows(const charl__trainer *t, const charl_slices *slices, charl__task *task)
{
    const int64_t rows = t->rows / t->slices.count;

    task->first = (slices->first - t->slices.first) * rows;
    task->rows = slices->count * rows;
}

static charl_status build_graph(charl__trainer *t, const charl_slices *slices, bool training,
                                charl__task *task)
{
    charl_status st = CHARL_OK;

    CHARL_TRY(charl_graph_create(t->dev, slices, &task->g));
    set_rows(t, slices, task);
    charl_graph_set_training(task->g, training);
    charl_graph_set_recompute(task->g, training && t->recomputes);
    task->classes = t->data.classes;
    charl__task_build(t->config, t->model, t->params, training ? t->train_feed : t->eval_feed,
                      t->steps, task);
    st = charl__graph_prepare(task->g);
    if (st == CHARL_ERR_SHAPE || st == CHARL_ERR_DTYPE) { /* layers that do not fit: the user's */
        st = CHARL_ERR_CONFIG;
    }
    CHARL_TRY(st);
cleanup:
    return st;
}

/* Whether activations have room beside what is there and what is still to come: gradients, sums,
 * the optimizer's state and scratch. */
static bool has_room(const charl__trainer *t, int64_t activations)
{
    enum { ARENAS = 6 };
    const charl_device_memory m = charl_device_get_memory(t->dev);
    const int64_t arenas = t->params->elements * 4 * (ARENAS + t->slices.n_lanes);

    return !charl__fault("train.memory") && activations + arenas <= m.capacity - m.in_use;
}

/* The graph of the first pass; one that computes activations again where that is asked for or they
 * have no room. */
static charl_status build_first(charl__trainer *t, bool *room)
{
    charl_status st = CHARL_OK;
    const charl_slices *first = t->passes ? charl__passes_slices(t->passes, 0) : &t->slices;
    const int mode = t->config->train.recompute;
    int64_t kept, again;

    CHARL_TRY(build_graph(t, first, true, &t->train));
    CHARL_TRY(charl__graph_measure(t->train.g, &kept));
    *room = has_room(t, kept);
    if (mode == CHARL_RECOMPUTE_NO || (mode == CHARL_RECOMPUTE_AUTO && *room)) {
        goto cleanup;
    }
    charl_graph_destroy(t->train.g);
    t->train = (charl__task){0};
    t->recomputes = true;
    CHARL_TRY(build_graph(t, first, true, &t->train));
    CHARL_TRY(charl__graph_measure(t->train.g, &again));
    t->recompute_saves = kept - again;
    *room = has_room(t, again);
cleanup:
    return st;
}

static void discard_training(charl__trainer *t)
{
    charl_graph_destroy(t->train.g);
    for (int i = 0; t->passes && i < charl__passes_count(t->passes) - 1; i++) {
        charl_graph_destroy(t->more[i].g);
        t->more[i] = (charl__task){0};
    }
    charl__passes_destroy(t->passes);
    t->train = (charl__task){0};
    t->passes = NULL;
    t->recomputes = false;
    t->recompute_saves = 0;
}

/* The graphs of a step, in place of those there are. With several passes on any rank all have the
 * gradients of a pass added up, even those of one. */
static charl_status build_training(charl__trainer *t, int passes, bool several, bool *room)
{
    charl_status st = CHARL_OK;
    const char *name;

    discard_training(t);
    if (several) {
        CHARL_TRY(charl__passes_create(&t->slices, passes, &t->passes));
    }
    CHARL_TRY(build_first(t, room));
    for (int i = 1; i < passes; i++) {
        CHARL_TRY(build_graph(t, charl__passes_slices(t->passes, i), true, &t->more[i - 1]));
    }
    name = several ? charl__graph_collective(t->train.g) : NULL;
    CHARL_REQUIRE(!name, CHARL_ERR_CONFIG,
                  "train.passes = %d: %s is a sum over the whole batch in the middle of a step, as "
                  "batch norm and shared weights need it; HINT train.recompute saves memory too",
                  passes, name);
cleanup:
    return st;
}

/* As many passes as are asked for, or the fewest that have room. */
static charl_status choose_passes(charl__trainer *t)
{
    charl_status st = CHARL_OK;
    const int given = (int)t->config->train.passes;
    bool room;
    int n = given > 0 ? given : 1;

    CHARL_TRY(build_training(t, n, n > 1, &room));
    while (given == 0 && !room && n < t->slices.count && !charl__graph_collective(t->train.g)) {
        n = 2 * n < t->slices.count ? 2 * n : t->slices.count;
        CHARL_TRY(build_training(t, n, true, &room));
    }
    t->n_passes = n;
cleanup:
    return st;
}

/* The ranks may have chosen differently. */
static charl_status settle_passes(charl__trainer *t)
{
    charl_status st = CHARL_OK;
    int *all = NULL, most = 1;
    bool room;

    if (t->infers || t->config->train.passes > 0) {
        goto cleanup;
    }
    st = charl_alloc_array(charl_comm_size(t->comm), sizeof *all, &all);
    CHARL_TRY(charl__trainer_agree(t, st));
    CHARL_TRY(charl_comm_allgather(t->comm, &t->n_passes, sizeof *all, all));
    for (int r = 0; r < charl_comm_size(t->comm); r++) {
        most = all[r] > most ? all[r] : most;
    }
    if (most > 1 && t->n_passes < most) {
        t->n_passes = most < t->slices.count ? most : t->slices.count;
        st = build_training(t, t->n_passes, true, &room);
    }
    CHARL_TRY(charl__trainer_agree(t, st));
cleanup:
    charl_free(all);
    return st;
}

/* What this rank can do alone: everything up to the graphs. */
static charl_status build(charl__trainer *t)
{
    charl_status st = CHARL_OK;
    int64_t outputs;

    CHARL_TRY(charl__task_outputs(t->config, &t->data, &outputs));
    CHARL_TRY(charl__task_model(t->config, outputs, &t->model));
    CHARL_TRY(charl_params_create(&t->params));
    if (!t->infers) {
        CHARL_TRY(create_feed(t, CHARL_SPLIT_TRAIN, true, &t->train_feed));
        CHARL_TRY(choose_passes(t));
    }
    if (t->data.rows[t->eval_split] > 0) {
        CHARL_TRY(create_feed(t, t->eval_split, false, &t->eval_feed));
        CHARL_TRY(build_graph(t, &t->slices, false, &t->eval));
    }
    CHARL_REQUIRE(t->infers || t->eval.g || t->config->train.early_stopping_patience == 0,
                  CHARL_ERR_CONFIG,
                  "train.early_stopping_patience needs a validation set, %s has none; HINT "
                  "data.val_split",
                  t->data.path);
    CHARL_REQUIRE(charl_params_get_elements(t->params) > 0, CHARL_ERR_CONFIG,
                  "the model has nothing to train");
cleanup:
    return st;
}

static charl_status compile(charl__trainer *t, charl__task *task, bool training)
{
    charl_status st = CHARL_OK;

    if (!task->g) {
        goto cleanup;
    }
    if (t->sync) {
        charl__graph_on_collective(task->g, charl__sync_collective, t->sync);
    }
    if (t->sync && training && !t->passes) {
        const double elements = t->config->dist.bucket_mb * 1048576.0 / 4.0;
        const int64_t least =
            (t->params->elements + 47) / 48; /* at most so many buckets are on their way */
        int64_t bucket = t->config->dist.overlap ? (int64_t)elements : t->params->elements;

        bucket = bucket > least ? bucket : least;
        charl__graph_on_ready(task->g, charl__sync_ready, t->sync, bucket > 0 ? bucket : 1);
    }
    CHARL_TRY(charl_graph_compile(task->g));
    CHARL_TRY(charl_graph_warm_up(task->g));
cleanup:
    return st;
}

/* The passes of a step run one after another, so they share the memory of the largest, which is the
 * last. */
static charl_status compile_training(charl__trainer *t)
{
    charl_status st = CHARL_OK;
    const int n = t->passes ? charl__passes_count(t->passes) : 1;
    const charl_graph *largest = n > 1 ? t->more[n - 2].g : NULL;

    if (t->passes) {
        CHARL_TRY(charl__passes_prepare(t->passes, t->params));
    }
    for (int i = n - 1; i >= 0; i--) {
        charl__task *task = i > 0 ? &t->more[i - 1] : &t->train;

        if (t->passes && task->g) {
            charl__graph_use_gradients(task->g, charl__passes_gradients(t->passes));
            charl__graph_share_activations(task->g, task->g == largest ? NULL : largest);
        }
        CHARL_TRY(compile(t, task, true));
    }
cleanup:
    return st;
}

static double given(double value, double own)
{
    return isnan(value) ? own : value;
}

static charl_status create_optimizer(charl__trainer *t)
{
    charl_status st = CHARL_OK;
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
    CHARL_TRY(charl__optimizer_create(t->params, &o, t->steps, &t->optimizer));
    CHARL_TRY(charl__optimizer_warm_up(t->optimizer));
cleanup:
    return st;
}

static charl_status plan_steps(charl__trainer *t)
{
    charl_status st = CHARL_OK;
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
cleanup:
    return st;
}

static charl_status prepare_alone(charl__trainer *t)
{
    charl_status st = CHARL_OK;

    CHARL_TRY(divide_batch(t));
    CHARL_TRY(open_data(t));
    CHARL_TRY(plan_steps(t));
    CHARL_TRY(open_device(t));
    CHARL_TRY(build(t));
cleanup:
    return st;
}

static charl_status finish_alone(charl__trainer *t)
{
    charl_status st = CHARL_OK;

    CHARL_TRY(compile_training(t));
    CHARL_TRY(compile(t, &t->eval, false));
    if (!t->infers) {
        CHARL_TRY(create_optimizer(t));
    }
    CHARL_TRY(charl_params_initialize(t->params, (uint64_t)t->config->run.seed));
    if (!t->infers) {
        CHARL_TRY(charl_optimizer_reset_ema(t->optimizer));
    }
cleanup:
    return st;
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
                          .brings_rows = t->brings_rows,
                          .classes = t->classes,
                          .best_metric = (double)NAN,
                          .best_step = -1,
                          .resumed_step = -1,
                          .saved_step = -1,
                          .started_s = charl__clock_s()};
    t->last_save_s = t->last_eval_s = t->started_s;
    charl_comm_timeout_set(t->comm, CHARL__SILENCE_STAGE_S);
    charl_comm_mark(t->comm, 0, "setup: data");
    st = prepare_alone(t);
    CHARL_TRY(charl__trainer_agree(t, st));
    CHARL_TRY(settle_passes(t));
    st = charl__sync_create(t->comm, config->dist.allreduce, &t->slices, t->params, &t->sync);
    t->agreed = st != CHARL_OK && !charl_comm_is_broken(t->comm);
    CHARL_TRY(st);
    charl_comm_mark(t->comm, 0, "setup: kernels");
    st = finish_alone(t);
    CHARL_TRY(charl__trainer_agree(t, st));
    if (!t->infers) {
        st = charl__sync_check(t->sync, t->train.g);
        t->agreed = st != CHARL_OK && !charl_comm_is_broken(t->comm);
        CHARL_TRY(st);
    }
cleanup:
    return st;
}

void charl__trainer_fini(charl__trainer *t)
{
    discard_training(t);
    charl_graph_destroy(t->eval.g);
    charl_optimizer_destroy(t->optimizer);
    charl__feed_destroy(t->train_feed);
    charl__feed_destroy(t->eval_feed);
    charl_params_destroy(t->params);
    charl__sync_destroy(t->sync);
    charl_model_destroy(t->model);
    charl__steps_destroy(t->steps);
    charl_device_close(t->dev);
    charl_dataset_close(t->ds);
    charl_run_close(t->run);
    charl_free(t->resumed);
    *t = (charl__trainer){0};
}
