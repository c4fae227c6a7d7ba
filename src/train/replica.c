/* A rank's replica: device, loaders, graphs, gradients, optimizer, for the slices that it has.
 *
 * Each stage may fail on one rank alone, so its status is agreed before anything that needs all ranks.
 */
#include "train/replica.h"

#include <math.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "config/model/config_groups.h"
#include "config/config_place.h"
#include "config/config_rows.h"
#include "dist/consensus.h"
#include "task/augment.h"
#include "task/loader_record.h"
#include "dist/allreduce/allreduce_device.h"
#include "parallel/optimizer_shard.h"
#include "train/rank_check.h"

enum { RUN_AHEAD = 4 }; /* steps that the host may be ahead of the device */

static const float FIRST_SCALE = 65536.0F; /* of gradients in f16, to begin with */

/* Rows of a slice. */
static int64_t slice_rows(const charl__replica *r)
{
    return r->config->train.batch_size / r->dp->slices.total;
}

/* This rank's part of the batch is that of its slices. */
static void set_rows(charl__replica *r)
{
    r->rows = slice_rows(r) * r->dp->slices.count;
    r->row0 = slice_rows(r) * r->dp->slices.first;
}

/* A rank that compiles is not silent, however long it takes. */
static void on_compiling(void *ctx, const charl_compile_progress *p)
{
    const charl__replica *r = ctx;
    const charl_train_events *e = &r->options->events;

    charl_comm_mark(r->comm, 0, NULL);
    if (e->compiling) {
        e->compiling(e->ctx, p);
    }
}

/* Check the device for train.exact = anywhere; the settings were checked when the configuration was read. */
static charl_status require_exact(const charl__replica *r)
{
    charl_arithmetic table[CHARL_ARITHMETIC_COUNT];

    if (r->config->train.exact != CHARL__EXACT_ANYWHERE || r->session->infers) {
        return CHARL_OK;
    }
    CHARL_TRY(charl_device_check_arithmetic(r->session->dev, table));
    for (int k = 0; k < CHARL_ARITHMETIC_COUNT; k++) {
        CHARL_REQUIRE(
            table[k].wrong == 0, CHARL_ERR_DEVICE,
            "train.exact = anywhere: %s violates \"%s\" (%lld of %lld results are wrong); HINT `charl selftest "
            "--hash` shows more; train.exact = device accepts the device as it is",
            charl_device_get_info(r->session->dev)->name, table[k].meaning, (long long)table[k].wrong,
            (long long)table[k].tried);
    }
    return CHARL_OK;
}

static charl_status open_device(charl__replica *r)
{
    const int64_t passes = r->config->train.grad_accum_steps > 1 ? r->config->train.grad_accum_steps : 1;
    const int64_t most = (r->dp->slices.count + passes - 1) / passes * slice_rows(r); /* rows of a pass */
    const bool is_team = charl_comm_is_team(r->comm); /* simulated: all on the devices of this node */
    int width[CHARL__RECORD_PARTS];
    charl_device_request request = {sizeof request,
                                    .select = r->config->device.select,
                                    .local_rank = is_team ? charl_comm_rank(r->comm) : charl_comm_local_rank(r->comm),
                                    .local_size = is_team ? charl_comm_size(r->comm) : charl_comm_local_size(r->comm),
                                    .share = r->config->device.share || is_team,
                                    .allow_tf32 = r->config->device.allow_tf32,
                                    .offload =
                                        r->config->device.offload == CHARL__OFFLOAD_OPTIMIZER && !r->session->infers,
                                    .tune = r->options->tune,
                                    .skip_kernels = r->options->skip_kernels,
                                    .planned_bytes = r->options->planned.device_bytes,
                                    .traced = (r->options->trace || r->options->profile) && !r->options->dry_run,
                                    .compiling = on_compiling,
                                    .compiling_ctx = r};

    if (r->options->device) {
        request.select = r->options->device;
        request.exact = true;
    }
    CHARL_TRY(charl__session_open_device(r->session, &request));
    charl__augment_widths(&r->config->data.augment, width);
    CHARL_TRY(require_exact(r));
    CHARL_TRY(charl__steps_create_with(r->session->dev, RUN_AHEAD,
                                       r->session->infers ? 0 : charl__loader_record_bytes(most, width), &r->steps));
    if (r->config->train.precision == CHARL__PRECISION_F16) {
        const int64_t fixed = r->config->train.loss_scale;

        CHARL_TRY(charl__steps_use_scale(r->steps, fixed ? (float)fixed : FIRST_SCALE, fixed == 0));
    }
    return CHARL_OK;
}

/* auto keeps a split on the device when it takes at most a quarter of what is free. */
static bool fits_device(const charl__replica *r, charl_split split)
{
    const charl_device_memory m = charl_device_get_memory(r->session->dev);
    const int64_t bytes = charl__device_loader_split_bytes(&r->session->data, split);

    switch (r->rereads ? CHARL__CACHE_NONE : r->config->data.cache) {
    case CHARL__CACHE_DEVICE:
        return true;
    case CHARL__CACHE_AUTO:
        return r->session->data.items[split] <= INT32_MAX && bytes <= (m.capacity - m.in_use) / 4 &&
               bytes <= charl_device_get_info(r->session->dev)->max_alloc_bytes;
    default:
        return false;
    }
}

/* Created, or divided anew when it is there. */
static charl_status provide_loader(charl__replica *r, charl_split split, bool training, charl__device_loader **out)
{
    charl__device_loader_options o = charl__session_loader(r->session, split, training);
    const char *purpose;
    charl_status st;

    if (training && r->options->overfit_batch) { /* a batch to be learned by heart must stay as it is */
        o.augment = NULL;
        o.fixed = true;
    }
    o.row0 = r->row0;
    o.rows = r->rows;
    o.on_device = fits_device(r, split);
    o.steps = training ? r->steps : NULL;
    purpose = charl__device_set_purpose(r->session->dev, training ? "training data" : "validation data");
    st = *out ? charl__device_loader_divide(*out, r->row0, r->rows) : charl__device_loader_create(&o, out);
    charl__device_set_purpose(r->session->dev, purpose);
    return st;
}

static charl_status build_graph(charl__replica *r, int shape, bool training, charl__task *task)
{
    charl_status st = CHARL_OK;
    const charl_slices *slices = charl_data_parallel_get_slices(r->dp, shape);

    CHARL_TRY(charl_graph_create(r->session->dev, slices, &task->g));
    task->rows = slices->count * slice_rows(r);
    charl_graph_set_training(task->g, training);
    charl__graph_set_recompute(task->g, training && r->recompute == CHARL_RECOMPUTE_YES,
                               training && r->recompute == CHARL_RECOMPUTE_CHEAP);
    charl__graph_set_checkable(task->g, r->replaying && r->replaying->checkable);
    task->keeps_losses = r->replaying && r->replaying->losses;
    task->targets = charl__task_targets(charl__config_loss(r->config), &r->session->data);
    task->classes = r->session->data.classes;
    task->fields = r->session->schema->fields;
    task->evaluation = &r->evaluation;
    charl__task_build(r->config, r->session->model, r->session->params, training ? r->train_loader : r->eval_loader,
                      r->steps, task);
    st = charl__graph_prepare(task->g);
    if (st == CHARL_ERR_SHAPE || st == CHARL_ERR_DTYPE) { /* layers that do not fit: the user's */
        st = CHARL_ERR_CONFIG;
    }
    CHARL_TRY(st);
    return CHARL_OK;
}

/* Bytes that are still to come with this sharding: gradients, sums, and before the optimizer is there its state and scratch. */
static int64_t to_come(const charl__replica *r, charl_shard shard)
{
    const charl_params *set = r->session->params;
    const charl_optimizer_config o = charl__config_optimizer(r->config);
    const int gradients = r->dp->slices.n_lanes + (r->dp->accum ? charl__grad_accum_arenas(r->dp->accum) : 0);
    const int64_t sums = shard >= CHARL_SHARD_GRADIENTS ? 0 : 4 * set->gradient_elements;
    const int64_t arenas = 4 * set->gradient_elements * gradients + sums;
    const int64_t values = charl__params_bytes(set, set->value_elements); /* are there */
    charl__kept kept;

    if (r->optimizer) {
        return arenas;
    }
    /* scratch: the table; of muon also matrices as large as the largest */
    return charl__shard_bytes(set, &o, shard, charl__data_parallel_shards(r->dp), &kept) == CHARL_OK
               ? arenas + kept.device - values + set->elements / 2 +
                     (charl_optimizer_is_elementwise(o.type) ? 0 : 12 * charl__params_largest(set))
               : INT64_MAX / 2;
}

static bool fits(const charl__replica *r, int64_t activations, charl_shard shard)
{
    const charl_device_memory m = charl_device_get_memory(r->session->dev);

    return activations + to_come(r, shard) <= m.capacity - m.in_use;
}

/* Whether activations have room beside what is there and what is still to come. */
static bool has_room(const charl__replica *r, int64_t activations)
{
    return !charl__fault("train.memory") && fits(r, activations, r->dp->sharding);
}

/* The graph of the first pass; one that computes activations again where that is asked for, or the first that has room. */
static charl_status build_first(charl__replica *r, bool *room)
{
    const charl_recompute mode = r->config->train.recompute;
    int64_t kept = 0, bytes;

    for (;;) {
        CHARL_TRY(build_graph(r, 0, true, r->train));
        CHARL_TRY(charl__graph_measure(r->train->g, &bytes));
        kept = kept > 0 ? kept : bytes;
        r->recompute_saves = kept - bytes;
        *room = has_room(r, bytes);
        if (mode == CHARL_RECOMPUTE_AUTO ? *room || r->recompute == CHARL_RECOMPUTE_YES : r->recompute == mode) {
            return CHARL_OK;
        }
        charl_graph_destroy(r->train->g);
        *r->train = (charl__task){0};
        r->recompute = mode == CHARL_RECOMPUTE_AUTO ? r->recompute + 1 : mode;
    }
}

static void discard_tasks(const charl__replica *r, charl__task **tasks)
{
    for (int k = 0; *tasks && k < charl__data_parallel_shapes(r->dp); k++) {
        charl_graph_destroy((*tasks)[k].g);
    }
    charl_free(*tasks);
    *tasks = NULL;
}

static void discard_graphs(charl__replica *r)
{
    if (r->steps) {
        charl__steps_watch_loss(r->steps, NULL); /* it lies in the memory of the graphs */
    }
    if (r->dp) {
        discard_tasks(r, &r->train);
        discard_tasks(r, &r->eval);
    }
    r->recompute = r->least_recompute > CHARL_RECOMPUTE_NO ? r->least_recompute : CHARL_RECOMPUTE_NO;
    r->recompute_saves = 0;
}

/* Divide the slices into passes, in place of graphs and passes there are. With several passes on any rank all
 * have the gradients of a pass added up, even those of one. */
static charl_status divide_passes(charl__replica *r, int passes, bool several)
{
    const charl_slices mine = r->dp->slices;

    discard_graphs(r);
    return charl__data_parallel_plan(r->dp, &mine, passes, several);
}

/* Let a loader deliver the rows of a pass at a time, and allocate tasks for graphs over them. */
static charl_status begin_tasks(charl__replica *r, charl__device_loader *loader, charl__task **tasks)
{
    const int most = (r->dp->slices.count + r->dp->passes - 1) / r->dp->passes;

    CHARL_TRY(charl__device_loader_set_pass(loader, most * slice_rows(r)));
    return charl__alloc_array(charl__data_parallel_shapes(r->dp), sizeof **tasks, tasks);
}

static bool evaluates(const charl__replica *r)
{
    return r->session->data.rows[r->eval_split] > 0 && (!r->replaying || r->replaying->evaluates);
}

/* The graphs of an evaluation, in the passes of the training. */
static charl_status build_evaluation(charl__replica *r)
{
    if (!evaluates(r)) {
        return CHARL_OK;
    }
    CHARL_TRY(begin_tasks(r, r->eval_loader, &r->eval));
    for (int k = 0; k < charl__data_parallel_shapes(r->dp); k++) {
        CHARL_TRY(build_graph(r, k, false, &r->eval[k]));
    }
    return CHARL_OK;
}

/* All graphs. *room: whether the activations of the first, and with it of the largest, have room. */
static charl_status build_passes(charl__replica *r, int passes, bool several, bool *room)
{
    int64_t bytes;

    CHARL_TRY(divide_passes(r, passes, several));
    CHARL_TRY(begin_tasks(r, r->train_loader, &r->train));
    CHARL_TRY(build_first(r, room));
    for (int k = 1; k < charl__data_parallel_shapes(r->dp); k++) {
        CHARL_TRY(build_graph(r, k, true, &r->train[k]));
    }
    CHARL_TRY(build_evaluation(r));
    if (r->eval) {
        CHARL_TRY(charl__graph_measure(r->eval->g, &bytes));
        *room = *room && has_room(r, bytes);
    }
    return CHARL_OK;
}

/* The same, for a number of passes that the model must bear. */
static charl_status build_training(charl__replica *r, int passes, bool several)
{
    const char *name;
    bool room;

    CHARL_TRY(build_passes(r, passes, several, &room));
    name = several ? charl__graph_collective(r->train->g) : NULL;
    CHARL_REQUIRE(!name, CHARL_ERR_CONFIG,
                  "train.grad_accum_steps = %d: %s is a sum over the whole batch in the middle of a step, as "
                  "batch norm and the loss contrastive need it; HINT %s",
                  passes, name,
                  passes > charl__grad_accum_least(r->dp->slices.count)
                      ? "train.recompute saves memory too"
                      : "a pass takes at most 64 slices: start more ranks, or choose fewer train.slices");
    return CHARL_OK;
}

/* Passes that are asked for, or the fewest. */
static int given_passes(const charl__replica *r)
{
    const int given = (int)r->config->train.grad_accum_steps, least = charl__grad_accum_least(r->dp->slices.count);

    return given > least ? given : least;
}

/* As many passes as are asked for, or the fewest that have room. A model that takes the batch in one pass stays with that. */
static charl_status choose_accumulation(charl__replica *r)
{
    const int given = given_passes(r);
    bool room = false, bears = true;

    if (r->config->train.grad_accum_steps > 0) {
        CHARL_REQUIRE(given <= r->dp->slices.count, CHARL_ERR_CONFIG,
                      "train.grad_accum_steps = %d, but a rank here has %d of the %d slices; a pass takes at least one",
                      given, r->dp->slices.count, r->dp->slices.total);
        return build_training(r, given, given > 1);
    }
    for (int n = given; !room && bears; n = 2 * n) {
        n = n < r->dp->slices.count ? n : r->dp->slices.count;
        CHARL_TRY(build_passes(r, n, n > 1, &room));
        bears = n < r->dp->slices.count && (n == 1 || !charl__graph_collective(r->train->g));
    }
    return r->dp->passes > 1 && charl__graph_collective(r->train->g) ? build_training(r, given, given > 1) : CHARL_OK;
}

static charl_status build_graphs(charl__replica *r)
{
    if (!r->session->infers) {
        CHARL_TRY(provide_loader(r, CHARL_SPLIT_TRAIN, true, &r->train_loader));
    }
    if (evaluates(r)) { /* before it is asked what has room */
        CHARL_TRY(provide_loader(r, r->eval_split, false, &r->eval_loader));
    }
    if (r->session->infers) {
        CHARL_TRY(divide_passes(r, given_passes(r), given_passes(r) > 1));
        return build_evaluation(r);
    }
    return choose_accumulation(r);
}

/* The ranks may have chosen differently. Those that gather parameters need them in the same order, so they recompute alike. */
static charl_status agree_on_passes(charl__replica *r)
{
    int64_t most[] = {r->dp->passes, r->recompute};
    int passes = r->dp->passes;
    charl_status st = CHARL_OK;

    if (r->session->infers) {
        return CHARL_OK;
    }
    CHARL_TRY(charl_comm_reduce_i64(r->comm, CHARL_COMM_MAX, most, 2));
    if (r->dp->sharding == CHARL_SHARD_PARAMETERS) {
        r->least_recompute = (charl_recompute)most[1];
    }
    if (r->config->train.grad_accum_steps <= 1 && passes < most[0]) {
        passes = most[0] < r->dp->slices.count ? (int)most[0] : r->dp->slices.count;
        st = build_training(r, passes, true);
    } else if (r->recompute < r->least_recompute) {
        st = build_training(r, passes, r->dp->accum != NULL);
    }
    return charl_comm_agree(r->comm, st);
}

/* As asked for; auto: the most that works. */
static charl_shard most_shard(const charl__replica *r)
{
    const charl_config *c = r->config;
    const bool whole = c->dist.audit > 0 || c->dist.balance == CHARL__BALANCE_SPEED ||
                       c->dist.shard_group == CHARL__SHARD_GROUP_NODE || c->eval.sample_prompt[0];

    if (c->dist.shard != CHARL__SHARD_AUTO) {
        return (charl_shard)c->dist.shard;
    }
    if (c->log.histogram_interval > 0) {
        return CHARL_SHARD_NONE;
    }
    if (!charl__allreduce_can_scatter(r->comm, c->dist.allreduce)) {
        return CHARL_SHARD_OPTIMIZER;
    }
    return whole || r->mixed.on ? CHARL_SHARD_GRADIENTS : CHARL_SHARD_PARAMETERS;
}

/* dist.shard = auto: the least that has room on every rank. */
static charl_status agree_on_shard(charl__replica *r)
{
    int64_t shard = CHARL_SHARD_NONE, training = 0, evaluation = 0;
    const int64_t most = most_shard(r);

    if (r->session->infers || r->config->dist.shard != CHARL__SHARD_AUTO || r->optimizer) {
        return CHARL_OK;
    }
    CHARL_TRY(charl_comm_agree(r->comm, charl__graph_measure(r->train->g, &training)));
    CHARL_TRY(charl_comm_agree(r->comm, r->eval ? charl__graph_measure(r->eval->g, &evaluation) : CHARL_OK));
    while (shard < most && !fits(r, training > evaluation ? training : evaluation, (charl_shard)shard)) {
        shard++;
    }
    CHARL_TRY(charl_comm_reduce_i64(r->comm, CHARL_COMM_MAX, &shard, 1));
    charl__data_parallel_set_shard(r->dp, (charl_shard)shard);
    if (r->dp->sharding == CHARL_SHARD_PARAMETERS) { /* with graphs that gather */
        r->session->params->is_divided = true;
        CHARL_TRY(charl_comm_agree(r->comm, choose_accumulation(r)));
        CHARL_TRY(agree_on_passes(r));
    }
    return CHARL_OK;
}

static charl_status connect(charl__replica *r)
{
    CHARL_TRY(agree_on_passes(r));
    CHARL_TRY(agree_on_shard(r));
    return charl__data_parallel_connect(r->dp, r->session->params);
}

/* Where a step leaves its loss, for the log and for the optimizer to look at. */
static charl_status watch_loss(charl__replica *r)
{
    const charl_shape lanes = {1, {r->dp->slices.n_lanes}};
    CHARL_SCOPED_FREE charl_tensor **sums = NULL;
    CHARL_SCOPED(charl__tensor_left) charl_tensor *loss = NULL;

    CHARL_TRY(charl__alloc_array(charl__data_parallel_shapes(r->dp), sizeof(charl_tensor *), &sums));
    for (int k = 0; k < charl__data_parallel_shapes(r->dp); k++) {
        sums[k] = charl_var_get_tensor(r->train[k].sums);
    }
    CHARL_TRY(r->dp->accum ? charl__grad_accum_keep_loss(r->dp->accum, sums, &loss)
                           : charl__tensor_view(sums[0]->buffer, CHARL_F32, &lanes, sums[0]->offset, &loss));
    charl__steps_watch_loss(r->steps, loss);
    return CHARL_OK;
}

/* Task i of `shapes` of the training, or after those of the evaluation; NULL where there is none. */
static const charl__task *task_of(const charl__replica *r, int i, int shapes)
{
    const charl__task *tasks = i < shapes ? r->train : r->eval;

    return tasks ? &tasks[i % shapes] : NULL;
}

/* Graphs run one after another, so they share the memory of the largest, which comes first. */
static charl_status compile_graphs(charl__replica *r)
{
    const int shapes = charl__data_parallel_shapes(r->dp);
    int64_t bytes, most = -1;
    int largest = 0;

    for (int i = 0; i < 2 * shapes; i++) {
        const charl__task *task = task_of(r, i, shapes);

        if (task) {
            CHARL_TRY(charl__graph_measure(task->g, &bytes));
            largest = bytes > most ? i : largest;
            most = bytes > most ? bytes : most;
        }
    }
    CHARL_TRY(r->train ? charl__data_parallel_prepare(r->dp) : CHARL_OK);
    for (int k = 0; k < 2 * shapes; k++) {
        const int i = (largest + k) % (2 * shapes);
        const charl__task *task = task_of(r, i, shapes);

        if (task) {
            CHARL_TRY(charl__data_parallel_compile(r->dp, task->g, i < shapes ? i : -1,
                                                   k > 0 ? task_of(r, largest, shapes)->g : NULL));
        }
    }
    CHARL_TRY(r->train ? watch_loss(r) : CHARL_OK);
    return CHARL_OK;
}

/* Some devices compile a kernel at its first launch. Graphs of the evaluation wait for the first one, so that training begins sooner; but not
 * where other ranks would wait for this one. */
static charl_status warm_up(const charl__replica *r)
{
    const int shapes = charl__data_parallel_shapes(r->dp);
    const int n = r->train && charl_comm_size(r->comm) == 1 ? shapes : 2 * shapes;

    for (int i = 0; i < n; i++) {
        CHARL_TRY(task_of(r, i, shapes) ? charl_graph_warm_up(task_of(r, i, shapes)->g) : CHARL_OK);
    }
    return CHARL_OK;
}

/* Model and graphs. */
static charl_status build_model(charl__replica *r)
{
    CHARL_TRY(charl__session_create_model(r->session));
    if (evaluates(r)) {
        CHARL_TRY(charl__evaluation_open(r->config, r->session->schema, false, r->reports, &r->evaluation));
    }
    r->session->params->reduce_dtype = r->dp->reduce_dtype;
    r->session->params->is_divided = r->dp->sharding == CHARL_SHARD_PARAMETERS;
    r->session->params->defers = r->dp->sharding != CHARL_SHARD_NONE;
    CHARL_TRY(build_graphs(r));
    CHARL_TRY(r->session->infers ? CHARL_OK : charl__session_check_forgotten(r->session));
    CHARL_REQUIRE(charl_params_get_elements(r->session->params) > 0, CHARL_ERR_CONFIG, "there is nothing to train%s",
                  r->config->train.freeze[0] ? ": train.freeze leaves no parameter" : "");
    return CHARL_OK;
}

static charl_status create_optimizer(charl__replica *r)
{
    const charl_config *c = r->config;
    const charl_optimizer_config o = charl__config_optimizer(c);
    charl_status st;
    int64_t outputs;

    CHARL_TRY(charl__task_outputs(c, &r->session->data, &outputs));
    CHARL_TRY(charl__groups_apply(c, r->session->model, r->session->params, outputs));
    r->session->params->undoes = c->checkpoint.memory_interval.unit != CHARL__INTERVAL_OFF; /* charl__trainer_rescue */
    st = charl__optimizer_create(r->session->params, &o, r->steps, r->session->params->own, &r->optimizer);
    return charl__config_name_option(charl__config_name_option(st, "optimizer"), "train");
}

/* Slices of equal numbers, to begin with. */
static charl_status divide_evenly(const charl__replica *r, charl_slices *mine)
{
    const int size = charl_comm_size(r->comm), slices = charl__config_slices(r->config);
    const int64_t batch = r->config->train.batch_size;

    CHARL_REQUIRE(!charl_comm_is_team(r->comm) || size == 1 || charl_dataset_is_thread_safe(), CHARL_ERR_CONFIG,
                  "simulated ranks need an HDF5 library that was built thread-safe, which this one "
                  "was not: start %d ranks with mpirun",
                  size);
    CHARL_REQUIRE(batch % slices == 0, CHARL_ERR_CONFIG,
                  "train.batch_size = %lld does not divide into train.slices = %d", (long long)batch, slices);
    return charl_slices_block(slices, charl_comm_rank(r->comm), size, mine);
}

/* auto: at first, before it is known what has room, the most for which graphs are built as for none. */
static charl_shard first_shard(const charl__replica *r)
{
    const charl_shard most = most_shard(r);

    return r->config->dist.shard == CHARL__SHARD_AUTO && most > CHARL_SHARD_GRADIENTS ? CHARL_SHARD_GRADIENTS : most;
}

static charl_status create_data_parallel(charl__replica *r)
{
    const charl_config *c = r->config;
    const bool trains = !r->session->infers;
    const charl_data_parallel_options o = {
        sizeof o,
        .allreduce = c->dist.allreduce,
        .bucket_mb = c->dist.bucket_mb,
        .no_overlap = !c->dist.overlap,
        .reduce_dtype = c->dist.reduce_dtype == CHARL__REDUCE_BF16 && trains ? CHARL_BF16 : CHARL_F32,
        .shard = trains ? first_shard(r) : CHARL_SHARD_NONE,
        .shard_within_nodes = c->dist.shard_group == CHARL__SHARD_GROUP_NODE,
        .balance = c->dist.balance == CHARL__BALANCE_SPEED && trains,
        .optimizer = c->optimizer.type,
        .rows = r->rows_of,
        .ctx = r->ctx};
    charl_slices mine;

    CHARL_TRY(charl__comm_agreed(r->comm, divide_evenly(r, &mine)));
    CHARL_TRY(charl_data_parallel_create(r->comm, &mine, &o, &r->dp));
    r->dp->wanted = (int)c->train.grad_accum_steps;
    set_rows(r);
    return CHARL_OK;
}

/* What this rank can know before it is decided where to begin. */
static charl_status open_alone(charl__replica *r)
{
    if (r->session->infers) {
        CHARL_TRY(charl__session_read_schema(r->session));
    }
    CHARL_TRY(charl__session_open_data(r->session, r->eval_split));
    return CHARL_OK;
}

charl_status charl__replica_open(charl__replica *r)
{
    charl_comm_set_timeout(r->comm, r->config->dist.stage_timeout_s);
    CHARL_TRY(charl__rank_check_settings(r, charl__phase_enter(r->comm, 0, CHARL__PHASE_SETUP, NULL)));
    CHARL_TRY(create_data_parallel(r));
    CHARL_TRY(charl__rank_check_data(r, open_alone(r)));
    r->config = r->session->config; /* with the loss that the data decide */
    return CHARL_OK;
}

static charl_status build_alone(charl__replica *r)
{
    if (!r->session->infers) {
        CHARL_TRY(charl__session_read_schema(r->session));
    }
    CHARL_TRY(charl__session_match_data(r->session));
    if (!r->session->infers) {
        CHARL_TRY(charl__session_weigh_classes(r->session));
        CHARL_TRY(charl__session_forget_rows(r->session));
    }
    CHARL_TRY(open_device(r));
    CHARL_TRY(build_model(r));
    return CHARL_OK;
}

charl_status charl__replica_build(charl__replica *r)
{
    CHARL_TRY(charl_comm_agree(r->comm, build_alone(r)));
    CHARL_TRY(charl__heterogeneous_init(r));
    CHARL_TRY(connect(r));
    return CHARL_OK;
}

static charl_status compile_alone(charl__replica *r)
{
    CHARL_TRY(charl__phase_enter(r->comm, 0, CHARL__PHASE_KERNELS, NULL));
    CHARL_REQUIRE(!r->dp->rows || !r->mixed.on, CHARL_ERR_CONFIG,
                  "dist.audit: the devices %s do not compute the same bits, so nothing can be compared; HINT "
                  "dist.audit = 0",
                  r->mixed.models);
    CHARL_TRY(compile_graphs(r));
    if (!r->session->infers) {
        CHARL_TRY(create_optimizer(r)); /* records: all kernels are known before the first is launched */
    }
    CHARL_TRY(warm_up(r));
    return r->optimizer ? charl__optimizer_warm_up(r->optimizer) : CHARL_OK;
}

charl_status charl__replica_compile(charl__replica *r)
{
    CHARL_TRY(charl_comm_agree(r->comm, compile_alone(r)));
    return r->train ? charl__data_parallel_finish(r->dp) : CHARL_OK;
}

/* What a rank does alone for other slices. */
static charl_status rebuild(charl__replica *r)
{
    CHARL_REQUIRE(!charl__fault("train.divide"), CHARL_ERR_DEVICE, "the division fails on purpose");
    set_rows(r);
    CHARL_TRY(build_graphs(r));
    return CHARL_OK;
}

static charl_status recompile(charl__replica *r)
{
    CHARL_TRY(compile_graphs(r));
    CHARL_TRY(warm_up(r));
    CHARL_TRY(charl__device_loader_seek(r->train_loader, r->options->overfit_batch ? 0 : r->step));
    return CHARL_OK;
}

charl_status charl__replica_divide(charl__replica *r)
{
    charl_status st = CHARL_OK;

    st = charl__phase_enter(r->comm, r->step, CHARL__PHASE_DIVISION, r->session->params);
    if (st == CHARL_OK) {
        st = charl_device_sync(r->session->dev);
    }
    CHARL_TRY(charl_comm_agree(r->comm, st));
    discard_graphs(r);
    CHARL_TRY(charl_data_parallel_divide(r->dp));
    CHARL_TRY(charl_comm_agree(r->comm, rebuild(r)));
    CHARL_TRY(connect(r));
    CHARL_TRY(charl_comm_agree(r->comm, recompile(r)));
    return charl__data_parallel_finish(r->dp);
}

int64_t charl__replica_row(const charl__replica *r, int i)
{
    return (charl__data_parallel_slices(r->dp, i)->first - r->dp->slices.first) * slice_rows(r);
}

charl_status charl__replica_measure(charl__replica *r, bool gathers, int64_t *bytes)
{
    charl_params *set = r->session->params;
    const bool is_divided = set->is_divided;
    charl__task task = {0};
    charl_status st;

    set->is_divided = gathers;
    st = build_graph(r, 0, true, &task);
    st = st == CHARL_OK ? charl__graph_measure(task.g, bytes) : st;
    charl_graph_destroy(task.g);
    set->is_divided = is_divided;
    return st;
}

/* The losses of samples lie in memory that the next pass takes. */
static charl_status keep_losses(const charl__replica *r, int pass)
{
    const charl__task *task = &r->train[charl__data_parallel_shape(r->dp, pass)];

    if (task->losses) {
        CHARL_TRY(charl_tensor_read(charl_var_get_tensor(task->losses),
                                    r->replaying->losses + r->row0 + charl__replica_row(r, pass),
                                    (size_t)task->rows * sizeof *r->replaying->losses));
    }
    return CHARL_OK;
}

charl_status charl__replica_run_passes(charl__replica *r)
{
    for (int i = 0; i < r->dp->passes; i++) {
        if (i > 0) { /* the first rows came with the step */
            CHARL_TRY(charl__device_loader_pass(r->train_loader, charl__replica_row(r, i)));
        }
        CHARL_TRY(charl_data_parallel_run(r->dp, i));
        CHARL_TRY(keep_losses(r, i));
    }
    return CHARL_OK;
}

/* What is unusual about the data, as they are read here. */
static const char *data_note(const charl__replica *r)
{
    const charl_dataset_info *data = &r->session->data;
    const bool by_rows = !r->session->infers && r->config->data.shuffle == CHARL_SHUFFLE_ROWS &&
                         !charl__device_loader_is_on_device(r->train_loader);

    return data->note[0] || !by_rows ? data->note : data->rows_note;
}

charl_train_info charl__replica_info(const charl__replica *r)
{
    const charl_device_memory memory = charl_device_get_memory(r->session->dev);
    const charl_graph_info g = charl_graph_get_info(r->session->infers ? r->eval->g : r->train->g);
    charl_device_health health;
    const int times = r->dp->passes > 1 ? r->dp->passes : 1;
    const int update = charl__optimizer_launches(r->optimizer);
    const charl__grad_reducer_info sums = charl__grad_reducer_get_info(r->dp->reducer);

    (void)charl_device_get_health(charl_device_get_info(r->session->dev), &health);
    return (charl_train_info){
        .device = charl_device_get_info(r->session->dev),
        .rank = charl_comm_rank(r->comm),
        .size = charl_comm_size(r->comm),
        .allreduce = sums.name,
        .invariant = sums.is_invariant,
        .mixed = r->mixed.on,
        .layers = charl_model_get_count(r->session->model),
        .parameters = charl_params_get_elements(r->session->params),
        .frozen_parameters = charl__params_frozen(r->session->params),
        .train_rows = r->session->data.rows[CHARL_SPLIT_TRAIN],
        .val_rows = r->session->data.rows[CHARL_SPLIT_VAL],
        .window = r->session->data.kind == CHARL_DATASET_TOKENS ? r->session->data.x_shape.dim[0] : 0,
        .loss = charl__config_loss(r->config)->row.name,
        .classes = r->session->data.y_dtype == CHARL_I32 ? r->session->data.classes : 0,
        .targets = charl_shape_count(&r->session->data.y_shape),
        .class_names = r->session->data.class_names ? r->session->data.class_names : "",
        .chance = r->session->chance,
        .data_on_device = charl__device_loader_is_on_device(r->session->infers ? r->eval_loader : r->train_loader),
        .data_note = data_note(r),
        .batch_size = r->config->train.batch_size,
        .local_rows = r->rows,
        .slices = r->dp->slices.total,
        .passes = r->dp->passes,
        .recompute = r->recompute,
        .recompute_saves = r->recompute_saves,
        .flop = g.flop * r->dp->passes,
        .start_step = r->step,
        .resumed = "",
        .memory_bytes = memory.peak,
        .memory_capacity = memory.capacity,
        .offloaded_bytes = memory.offloaded,
        .memory_reported = health.memory_bytes,
        .activation_bytes = g.activation_bytes,
        .shard = r->dp->sharding,
        .shards = charl__data_parallel_shards(r->dp),
        .shard_saves = charl__shard_saves(r->dp, r->optimizer),
        .launches = times * g.launches + update,
        .forward_launches = times * g.forward_launches,
        .update_launches = update,
        .fused = times * g.fused,
        .collectives = g.collectives,
        .gradients = r->session->params->gradient_elements,
        .last_gradients = r->session->infers ? 0 : charl__graph_last_bucket(r->train->g)};
}

/* A failure that the other ranks do not know of: they wait where this one no longer comes. */
static void leave_alone(const charl__replica *r, charl_status st)
{
    const charl_train_events *e = &r->options->events;
    char me[CHARL__COMM_PLACE];

    if (charl_comm_size(r->comm) == 1) {
        return;
    }
    if (!charl__comm_is_agreed(r->comm) && !charl_comm_is_broken(r->comm)) {
        charl__error_prefix("%s: ", charl__comm_place(r->comm, charl_comm_rank(r->comm), me, sizeof me));
        charl_comm_break(r->comm);
    }
    if (charl_comm_is_broken(r->comm) && e->lost) {
        e->lost(e->ctx, st);
    }
}

static charl_status meet_at_the_end(charl__replica *r)
{
    CHARL_TRY(charl__phase_enter(r->comm, r->step, CHARL__PHASE_END, r->session->params));
    CHARL_TRY(charl_comm_barrier(r->comm));
    return CHARL_OK;
}

charl_status charl__replica_leave(charl__replica *r, charl_status st)
{
    st = st == CHARL_OK ? meet_at_the_end(r) : st;
    if (st != CHARL_OK) {
        leave_alone(r, st);
    }
    return st;
}

void charl__replica_fini(charl__replica *r)
{
    if (!r->session) {
        return;
    }
    discard_graphs(r);
    charl__heterogeneous_fini(r);
    charl_optimizer_destroy(r->optimizer);
    charl__device_loader_destroy(r->train_loader);
    charl__device_loader_destroy(r->eval_loader);
    charl__evaluation_fini(&r->evaluation);
    charl_data_parallel_destroy(r->dp);
    charl_params_destroy(r->session->params);
    r->session->params = NULL;
    charl_steps_destroy(r->steps);
    *r = (charl__replica){0};
}
