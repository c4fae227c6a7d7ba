/* A rank's part of the batch, built from its slices: feeds, graphs, passes. */
#include "train/replica.h"

#include "base/alloc.h"
#include "base/fault.h"
#include "train/optimizer_shard.h"

charl_status charl__replica_take(charl__trainer *t, int first, int count)
{
    const int slices = charl_config_slices(t->config);
    const int64_t batch = t->config->train.batch_size;

    CHARL_REQUIRE(batch % slices == 0, CHARL_ERR_CONFIG,
                  "train.batch_size = %lld does not divide into train.slices = %d",
                  (long long)batch, slices);
    CHARL_TRY(charl_slices_range(slices, first, count, &t->slices));
    t->rows = batch / slices * t->slices.count;
    t->row0 = batch / slices * t->slices.first;
    return CHARL_OK;
}

/* auto keeps a split on the device when it takes at most a quarter of what is free. */
static bool fits_device(const charl__trainer *t, charl_split split)
{
    const charl_device_memory m = charl_device_get_memory(t->dev);
    const int64_t bytes = charl__device_loader_split_bytes(&t->data, split);

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

/* Created, or divided anew when it is there. */
static charl_status provide_feed(charl__trainer *t, charl_split split, bool training,
                                 charl__device_loader **out)
{
    /* A batch to be learned by heart must stay as it is. */
    const bool augments = training && !t->options->overfit_batch;
    const charl__device_loader_options o = {.dev = t->dev,
                                            .ds = t->ds,
                                            .schema = t->schema,
                                            .augment = augments ? &t->config->data.augment : NULL,
                                            .split = split,
                                            .shuffle = training && t->config->data.shuffle,
                                            .endless = training,
                                            .seed = (uint64_t)t->config->run.seed,
                                            .batch = t->config->train.batch_size,
                                            .row0 = t->row0,
                                            .rows = t->rows,
                                            .on_device = fits_device(t, split),
                                            .steps = training ? t->steps : NULL,
                                            .fixed = training && t->options->overfit_batch};

    return *out ? charl__device_loader_divide(*out, t->row0, t->rows)
                : charl__device_loader_create(&o, out);
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
    charl__task_build(t->config, t->model, t->params, training ? t->train_loader : t->eval_loader,
                      t->steps, task);
    st = charl__graph_prepare(task->g);
    if (st == CHARL_ERR_SHAPE || st == CHARL_ERR_DTYPE) { /* layers that do not fit: the user's */
        st = CHARL_ERR_CONFIG;
    }
    CHARL_TRY(st);
    return st;
}

/* Whether activations have room beside what is there and what is still to come: gradients, sums,
 * and before the optimizer is there its state and scratch. */
static bool has_room(const charl__trainer *t, int64_t activations)
{
    const charl_device_memory m = charl_device_get_memory(t->dev);
    const int others = t->optimizer ? 1 : 6;
    const int64_t arenas =
        4 * (t->params->elements * others + t->params->gradient_elements * t->slices.n_lanes);

    return !charl__fault("train.memory") && activations + arenas <= m.capacity - m.in_use;
}

/* The graph of the first pass; one that computes activations again where that is asked for or they
 * have no room. */
static charl_status build_first(charl__trainer *t, bool *room)
{
    const charl_slices *first = t->accum ? charl__grad_accum_slices(t->accum, 0) : &t->slices;
    const int mode = t->config->train.recompute;
    int64_t kept, again;

    CHARL_TRY(build_graph(t, first, true, &t->train));
    CHARL_TRY(charl__graph_measure(t->train.g, &kept));
    *room = has_room(t, kept);
    if (mode == CHARL_RECOMPUTE_NO || (mode == CHARL_RECOMPUTE_AUTO && *room)) {
        return CHARL_OK;
    }
    charl_graph_destroy(t->train.g);
    t->train = (charl__task){0};
    t->recomputes = true;
    CHARL_TRY(build_graph(t, first, true, &t->train));
    CHARL_TRY(charl__graph_measure(t->train.g, &again));
    t->recompute_saves = kept - again;
    *room = has_room(t, again);
    return CHARL_OK;
}

static void discard_training(charl__trainer *t)
{
    if (t->steps) {
        charl__steps_watch_loss(t->steps, NULL); /* it lies in the memory of the graphs */
    }
    charl_graph_destroy(t->train.g);
    for (int i = 0; t->accum && i < charl__grad_accum_count(t->accum) - 1; i++) {
        charl_graph_destroy(t->more[i].g);
        t->more[i] = (charl__task){0};
    }
    charl__grad_accum_destroy(t->accum);
    t->train = (charl__task){0};
    t->accum = NULL;
    t->recomputes = false;
    t->recompute_saves = 0;
}

/* The graphs of a step, in place of those there are. With several passes on any rank all have the
 * gradients of a pass added up, even those of one. */
static charl_status build_training(charl__trainer *t, int passes, bool several, bool *room)
{
    const char *name;

    discard_training(t);
    if (several) {
        CHARL_TRY(charl__grad_accum_create(&t->slices, passes, &t->accum));
    }
    CHARL_TRY(build_first(t, room));
    for (int i = 1; i < passes; i++) {
        CHARL_TRY(build_graph(t, charl__grad_accum_slices(t->accum, i), true, &t->more[i - 1]));
    }
    name = several ? charl__graph_collective(t->train.g) : NULL;
    CHARL_REQUIRE(
        !name, CHARL_ERR_CONFIG,
        "train.grad_accum_steps = %d: %s is a sum over the whole batch in the middle of a step, as "
        "batch norm needs it; HINT train.recompute saves memory too",
        passes, name);
    return CHARL_OK;
}

/* As many passes as are asked for, or the fewest that have room. */
static charl_status choose_passes(charl__trainer *t)
{
    const int given = (int)t->config->train.grad_accum_steps;
    bool room;
    int n = given > 0 ? given : 1;

    CHARL_TRY(build_training(t, n, n > 1, &room));
    while (given == 0 && !room && n < t->slices.count && !charl__graph_collective(t->train.g)) {
        n = 2 * n < t->slices.count ? 2 * n : t->slices.count;
        CHARL_TRY(build_training(t, n, true, &room));
    }
    t->accum_steps = n;
    return CHARL_OK;
}

charl_status charl__replica_build(charl__trainer *t)
{
    if (!t->infers) {
        CHARL_TRY(provide_feed(t, CHARL_SPLIT_TRAIN, true, &t->train_loader));
        CHARL_TRY(choose_passes(t));
    }
    if (t->data.rows[t->eval_split] > 0) {
        CHARL_TRY(provide_feed(t, t->eval_split, false, &t->eval_loader));
        CHARL_TRY(build_graph(t, &t->slices, false, &t->eval));
    }
    return CHARL_OK;
}

/* The ranks may have chosen differently. */
static charl_status settle_passes(charl__trainer *t)
{
    charl_status st = CHARL_OK;
    int *all = NULL, most = 1;
    bool room;

    if (t->infers || t->config->train.grad_accum_steps > 0) {
        goto cleanup;
    }
    st = charl_alloc_array(charl_comm_size(t->comm), sizeof *all, &all);
    CHARL_TRY_CLEANUP(charl_comm_agree(t->comm, st));
    CHARL_TRY_CLEANUP(charl_comm_allgather(t->comm, &t->accum_steps, sizeof *all, all));
    for (int r = 0; r < charl_comm_size(t->comm); r++) {
        most = all[r] > most ? all[r] : most;
    }
    if (most > 1 && t->accum_steps < most) {
        t->accum_steps = most < t->slices.count ? most : t->slices.count;
        st = build_training(t, t->accum_steps, true, &room);
    }
    CHARL_TRY_CLEANUP(charl_comm_agree(t->comm, st));
cleanup:
    charl_free(all);
    return st;
}

charl_status charl__replica_connect(charl__trainer *t)
{
    charl_status st = CHARL_OK;

    CHARL_TRY(settle_passes(t));
    st = charl__grad_reducer_create(
        t->comm,
        &(charl_allreduce_options){.algorithm = t->config->dist.allreduce,
                                   .reduce_dtype = t->params->reduce_dtype,
                                   .gathers = charl__shard_is_on(t)},
        &t->slices, t->params, &t->reducer);
    CHARL_TRY(st);
    if (charl__shard_is_on(t)) {
        CHARL_TRY(charl_comm_agree(t->comm, charl__shard_create(t)));
    }
    return st;
}

int64_t charl__replica_bucket(const charl__trainer *t)
{
    return t->config->dist.overlap
               ? charl__grad_reducer_bucket(t->params, t->config->dist.bucket_mb)
           : t->params->elements > 0 ? t->params->elements
                                     : 1;
}

static charl_status compile(charl__trainer *t, charl__task *task, bool training)
{
    if (!task->g) {
        return CHARL_OK;
    }
    if (t->reducer) {
        charl__graph_on_collective(task->g, charl__grad_reducer_collective, t->reducer);
    }
    if (t->reducer && training && !t->accum) {
        charl__graph_on_ready(task->g, charl__grad_reducer_ready, t->reducer,
                              charl__replica_bucket(t));
    }
    CHARL_TRY(charl_graph_compile(task->g));
    CHARL_TRY(charl_graph_warm_up(task->g));
    return CHARL_OK;
}

/* Where a step leaves its loss, for the log and for the optimizer to look at. */
static charl_status watch_loss(charl__trainer *t)
{
    charl_status st = CHARL_OK;
    const charl_tensor *metrics[CHARL_MAX_SLICES];
    const charl_shape lanes = {1, {t->slices.n_lanes}};
    charl_tensor *loss = NULL;

    if (!t->train.g) {
        return CHARL_OK;
    }
    metrics[0] = charl_var_get_tensor(t->train.metrics);
    if (t->accum) {
        for (int i = 1; i < charl__grad_accum_count(t->accum); i++) {
            metrics[i] = charl_var_get_tensor(t->more[i - 1].metrics);
        }
        CHARL_TRY_CLEANUP(charl__grad_accum_keep_loss(t->accum, metrics, &loss));
        charl_tensor_retain(loss);
    } else {
        CHARL_TRY_CLEANUP(
            charl__tensor_view(metrics[0]->buffer, CHARL_F32, &lanes, metrics[0]->offset, &loss));
    }
    charl__steps_watch_loss(t->steps, loss);
cleanup:
    charl_tensor_release(loss);
    return st;
}

/* The passes of a step run one after another, so they share the memory of the largest, which is the
 * last. */
static charl_status compile_training(charl__trainer *t)
{
    const int n = t->accum ? charl__grad_accum_count(t->accum) : 1;
    const charl_graph *largest = n > 1 ? t->more[n - 2].g : NULL;

    if (t->accum) {
        CHARL_TRY(charl__grad_accum_prepare(t->accum, t->params));
    }
    for (int i = n - 1; i >= 0; i--) {
        charl__task *task = i > 0 ? &t->more[i - 1] : &t->train;

        if (t->accum && task->g) {
            charl__graph_use_gradients(task->g, charl__grad_accum_gradients(t->accum));
            charl__graph_share_activations(task->g, task->g == largest ? NULL : largest);
        }
        CHARL_TRY(compile(t, task, true));
    }
    CHARL_TRY(watch_loss(t));
    return CHARL_OK;
}

charl_status charl__replica_compile(charl__trainer *t)
{
    CHARL_TRY(compile_training(t));
    CHARL_TRY(compile(t, &t->eval, false));
    return CHARL_OK;
}

charl_status charl__replica_check(charl__trainer *t)
{
    charl_status st = CHARL_OK;

    if (!t->infers) {
        st = charl__grad_reducer_check(t->reducer, t->train.g);
        CHARL_TRY(st);
    }
    return st;
}

void charl__replica_discard(charl__trainer *t)
{
    discard_training(t);
    charl_graph_destroy(t->eval.g);
    t->eval = (charl__task){0};
}

/* What a rank does alone for other slices. */
static charl_status rebuild(charl__trainer *t, int first, int count)
{
    CHARL_REQUIRE(!charl__fault("train.divide"), CHARL_ERR_DEVICE, "the division fails on purpose");
    CHARL_TRY(charl__replica_take(t, first, count));
    CHARL_TRY(charl__replica_build(t));
    return CHARL_OK;
}

static charl_status compile_again(charl__trainer *t)
{
    CHARL_TRY(charl__replica_compile(t));
    CHARL_TRY(charl__optimizer_rebind(t->optimizer));
    CHARL_TRY(charl__device_loader_seek(t->train_loader, t->options->overfit_batch ? 0 : t->step));
    return CHARL_OK;
}

charl_status charl__replica_exchange(charl__trainer *t, int first, int count)
{
    charl_status st = CHARL_OK;

    st = charl__phase_enter(t->comm, t->step, CHARL__PHASE_DIVISION, t->params);
    if (st == CHARL_OK) {
        st = charl_device_sync(t->dev);
    }
    CHARL_TRY(charl_comm_agree(t->comm, st));
    charl__replica_discard(t);
    charl__optimizer_unbind(t->optimizer);
    if (charl__shard_is_on(t)) { /* devices of other ranks may not share theirs */
        st = charl__grad_reducer_shares_values(t->reducer) ? charl__params_move(t->params, NULL)
                                                           : CHARL_OK;
        CHARL_TRY(charl_comm_agree(t->comm, st));
    }
    charl__shard_destroy(t->shard);
    t->shard = NULL;
    charl__params_free_gradients(t->params); /* they lie in the memory of the sync */
    charl__grad_reducer_destroy(t->reducer);
    t->reducer = NULL;
    CHARL_TRY(charl_comm_agree(t->comm, rebuild(t, first, count)));
    CHARL_TRY(charl__replica_connect(t));
    CHARL_TRY(charl_comm_agree(t->comm, compile_again(t)));
    CHARL_TRY(charl__replica_check(t));
    return st;
}
