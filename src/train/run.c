/* A training or an evaluation from begin to end, and how the ranks part: together, or with a last
 * word of the one that fails alone. */
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "train/rank_check.h"
#include "train/optimizer_shard.h"
#include "train/trainer.h"

/* Elements of the bucket of gradients that is final last. */
static int64_t last_bucket(const charl_graph *g)
{
    int64_t begin, count = 0;

    if (g) {
        charl__graph_bucket(g, charl__graph_bucket_count(g) - 1, &begin, &count);
    }
    return count;
}

static charl_train_info info_of(const charl__trainer *t)
{
    const charl_device_memory memory = charl_device_get_memory(t->dev);
    const charl_graph_info g = charl_graph_get_info(t->infers ? t->eval.g : t->train.g);
    const int times = t->accum_steps > 1 ? t->accum_steps : 1;
    const int update = charl__optimizer_launches(t->optimizer);

    return (charl_train_info){
        .device = charl_device_get_info(t->dev),
        .rank = charl_comm_rank(t->comm),
        .size = charl_comm_size(t->comm),
        .allreduce = charl__grad_reducer_name(t->reducer),
        .invariant = charl__grad_reducer_is_invariant(t->reducer),
        .mixed = t->mixed.on,
        .layers = charl_model_get_count(t->model),
        .parameters = charl_params_get_elements(t->params),
        .train_rows = t->data.rows[CHARL_SPLIT_TRAIN],
        .val_rows = t->data.rows[CHARL_SPLIT_VAL],
        .window = t->data.kind == CHARL_DATASET_TOKENS ? t->data.x_shape.dim[0] : 0,
        .data_on_device =
            charl__device_loader_is_on_device(t->infers ? t->eval_loader : t->train_loader),
        .data_note = t->data.note,
        .batch_size = t->config->train.batch_size,
        .local_rows = t->rows,
        .slices = t->slices.total,
        .steps = t->end_step,
        .passes = t->accum_steps,
        .recomputes = t->recomputes,
        .recompute_saves = t->recompute_saves,
        .flop = g.flop * t->accum_steps,
        .start_step = t->step,
        .resumed = t->resumed ? t->resumed : "",
        .memory_bytes = memory.peak,
        .memory_capacity = memory.capacity,
        .activation_bytes = g.activation_bytes,
        .shard_saves = charl__shard_saves(t),
        .launches = times * g.launches + update,
        .forward_launches = times * g.forward_launches,
        .update_launches = update,
        .fused = times * g.fused,
        .collectives = g.collectives,
        .gradients = t->params->gradient_elements,
        .last_gradients = last_bucket(t->train.g)};
}

charl_status charl__trainer_report_built(const charl__trainer *t)
{
    const charl_train_events *e = &t->options->events;
    const charl_train_info info = info_of(t);

    return e->built ? e->built(e->ctx, &info) : CHARL_OK;
}

charl_status charl__trainer_report(const charl__trainer *t)
{
    const charl_train_events *e = &t->options->events;
    const charl_train_info info = info_of(t);

    return e->started ? e->started(e->ctx, &info) : CHARL_OK;
}

/* A failure that the other ranks do not know of: they wait where this one no longer comes. */
static void leave_alone(const charl__trainer *t, charl_status st)
{
    char me[CHARL_COMM_PLACE];

    if (st == CHARL_OK || !t->comm || charl_comm_size(t->comm) == 1) {
        return;
    }
    if (!charl_comm_is_agreed(t->comm) && !charl_comm_is_broken(t->comm)) {
        charl__error_prefix("%s: ",
                            charl_comm_place(t->comm, charl_comm_rank(t->comm), me, sizeof me));
        charl_comm_break(t->comm);
    }
    if (charl_comm_is_broken(t->comm) && t->options->events.lost) {
        t->options->events.lost(t->options->events.ctx, st);
    }
}

/* Where all ranks come when all went well. Nothing that follows can fail for one rank alone, and
 * what is freed together is freed without a deadline. */
static charl_status end_together(charl__trainer *t)
{
    CHARL_TRY(charl__phase_enter(t->comm, t->step, CHARL__PHASE_END, t->params));
    CHARL_TRY(charl_comm_barrier(t->comm));
    return CHARL_OK;
}

charl_status charl_train_run(const charl_config *config, const charl_train_options *options,
                             charl_train_result *result)
{
    charl_status st = CHARL_OK;
    charl__trainer t = {0};
    const double begin = charl__clock_s();

    *result =
        (charl_train_result){.loss = (double)NAN, .best_metric = (double)NAN, .best_step = -1};
    CHARL_TRY_CLEANUP(charl__trainer_init(&t, config, options, CHARL_SPLIT_VAL));
    CHARL_TRY_CLEANUP(charl__trainer_resume(&t));
    CHARL_TRY_CLEANUP(charl__trainer_report(&t));
    if (!options->dry_run) {
        CHARL_TRY_CLEANUP(charl__trainer_loop(&t, result));
    }
    CHARL_TRY_CLEANUP(end_together(&t));
cleanup:
    result->step = t.step;
    result->epoch = t.ds ? charl__trainer_epoch(&t) : 0.0;
    result->best_metric = t.ds ? t.best_metric : (double)NAN;
    result->early = t.ds && charl__trainer_is_over(&t);
    result->skipped = t.nonfinite.skipped;
    result->overflowed = t.nonfinite.overflowed;
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
    charl__trainer t = {.infers = true, .origin = checkpoint};
    const int which = charl__split_of(split);

    CHARL_REQUIRE_CLEANUP(which >= 0, CHARL_ERR_CONFIG,
                          "there is no split %s; there are train, val and test", split);
    CHARL_TRY_CLEANUP(charl__trainer_init(&t, config, options, (charl_split)which));
    CHARL_TRY_CLEANUP(charl__trainer_report(&t));
    st = charl__trainer_load(&t, checkpoint, false);
    CHARL_TRY_CLEANUP(charl__rank_check_state(&t, checkpoint, st));
    CHARL_TRY_CLEANUP(charl__trainer_evaluate(&t, 0, out));
    CHARL_TRY_CLEANUP(end_together(&t));
cleanup:
    leave_alone(&t, st);
    charl__trainer_fini(&t);
    return st;
}
