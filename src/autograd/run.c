/* Compiling and running. */

#include "autograd/fuse/fuse.h"
#include "autograd/graph_private.h"
#include "base/alloc.h"
#include "base/env.h"
#include "base/fault.h"

static charl_status compile(charl_graph *g)
{
    charl_status st = CHARL_OK;

    CHARL_TRY_CLEANUP(charl__graph_prepare(g));
    if (g->params && g->has_gradients && !g->params->grad) {
        CHARL_TRY_CLEANUP(
            charl__params_allocate_gradients(g->params, g->slices.n_lanes, charl__graph_is_whole(g), NULL));
        g->params->is_part = !charl__graph_is_whole(g);
    }
    CHARL_REQUIRE_CLEANUP(!g->params || !g->has_gradients || g->gradients || g->params->n_lanes == g->slices.n_lanes,
                          CHARL_ERR_INVALID, "the gradient arena has %d lanes, this graph %d", g->params->n_lanes,
                          g->slices.n_lanes);
    if (!g->steps) {
        CHARL_TRY_CLEANUP(charl__steps_create(g->dev, 4, &g->own_steps));
        g->steps = g->own_steps;
    }
    CHARL_TRY_CLEANUP(charl__graph_plan_memory(g));
    CHARL_TRY_CLEANUP(charl__graph_record(g));
    g->compiled = true;
    for (int i = 0; charl__graph_set(g, i); i++) {
        charl__graph_set(g, i)->users++;
    }
cleanup:
    if (st != CHARL_OK) {
        charl__graph_keep_error(g, st); /* a partly compiled graph stays unusable */
    }
    return st;
}

charl_status charl_graph_compile(charl_graph *g)
{
    CHARL_GIVEN(g);
    CHARL_TRY(charl__device_enter(g->dev));
    CHARL_TRY(charl_graph_status(g));
    CHARL_REQUIRE(!g->compiled, CHARL_ERR_INVALID, "this graph is compiled already");
    CHARL_TRY(compile(g));
    return CHARL_OK;
}

charl_status charl_graph_warm_up(charl_graph *g)
{
    CHARL_GIVEN(g);
    CHARL_TRY(charl__device_enter(g->dev));
    const charl__step_params idle = {.commit = 0, .bias1 = 1.0F, .bias2 = 1.0F};

    CHARL_REQUIRE(g->compiled, CHARL_ERR_INVALID, "the graph is not compiled; HINT charl_graph_compile");
    CHARL_TRY(charl__steps_push(g->steps, &idle));
    CHARL_TRY(charl__recording_replay(g->recording, 0, charl__recording_count(g->recording)));
    CHARL_TRY(charl_device_sync(g->dev));
    return CHARL_OK;
}

static charl_status act(charl_graph *g, const charl__action *a)
{
    int64_t arg;

    switch (a->kind) {
    case CHARL_DO_REPLAY:
        if (charl__fault_arg("graph.flip", &arg)) {
            CHARL_TRY(charl__graph_replay_flipped(g, a->first, a->last, arg));
        } else if (charl__env_is_on(CHARL_ENV_CHECK_FINITE) || g->checks) {
            CHARL_TRY(charl__graph_replay_checked(g, a->first, a->last));
        } else {
            CHARL_TRY(charl__recording_replay(g->recording, a->first, a->last));
        }
        break;
    case CHARL_DO_COLLECTIVE:
        CHARL_TRY(g->collective(g->collective_ctx, a->node->in[0]->tensor, a->node->out[0]->tensor));
        break;
    case CHARL_DO_GATHER:
        CHARL_TRY(charl__graph_run_gather(g, a));
        break;
    case CHARL_DO_READY:
        CHARL_TRY(g->ready(g->ready_ctx, a->begin, a->count));
        break;
    }
    return CHARL_OK;
}

charl_status charl__graph_run_actions(charl_graph *g)
{
    if (g->has_gradients && g->params) {
        g->params->is_joined = false;
    }
    for (int i = 0; i < g->n_actions; i++) {
        CHARL_TRY(act(g, &g->action[i]));
    }
    return CHARL_OK;
}

charl_status charl_graph_run(charl_graph *g)
{
    CHARL_GIVEN(g);
    CHARL_TRY(charl__device_enter(g->dev));
    CHARL_REQUIRE(g->compiled, CHARL_ERR_INVALID, "the graph is not compiled; HINT charl_graph_compile");
    if (g->own_steps) {
        const charl__step_params record = {.step_lo = (uint32_t)g->runs,
                                           .step_hi = (uint32_t)(g->runs >> 32),
                                           .loss_seed = 1.0F,
                                           .bias1 = 1.0F,
                                           .bias2 = 1.0F,
                                           .commit = 1};

        CHARL_TRY(charl__steps_push(g->own_steps, &record));
    }
    CHARL_TRY(charl__graph_run_actions(g));
    g->runs++;
    return CHARL_OK;
}

charl_status charl__graph_move(charl_graph *g, const charl_slices *slices)
{
    CHARL_INVARIANT(g->compiled && charl__slices_are_alike(&g->slices, slices));
    return charl__recording_move(g->recording, slices->first - g->slices.first);
}

static charl_status replay_half(charl_graph *g, bool backward)
{
    int all, middle;

    CHARL_REQUIRE(g->compiled, CHARL_ERR_INVALID, "the graph is not compiled; HINT charl_graph_compile");
    CHARL_REQUIRE(charl__graph_is_whole(g), CHARL_ERR_INVALID,
                  "this graph has a part of the batch, so it can only run whole; HINT charl_graph_run");
    CHARL_REQUIRE(
        g->n_gathered == 0, CHARL_ERR_INVALID,
        "the parameters of this graph are sharded over ranks, so it can only run whole; HINT charl_graph_run");
    all = middle = charl__recording_count(g->recording);
    for (int i = g->nodes.count - 1; g->has_gradients && i >= g->first_backward; i--) {
        const charl__node *n = charl__graph_node(g, i);

        middle = n->live && n->op->enqueue ? n->launch_first : middle;
    }
    CHARL_TRY(charl__recording_replay(g->recording, backward ? middle : 0, backward ? all : middle));
    return CHARL_OK;
}

charl_status charl_graph_run_forward(charl_graph *g)
{
    CHARL_GIVEN(g);
    CHARL_TRY(charl__device_enter(g->dev));
    return replay_half(g, false);
}

charl_status charl_graph_run_backward(charl_graph *g)
{
    CHARL_GIVEN(g);
    CHARL_TRY(charl__device_enter(g->dev));
    return replay_half(g, true);
}

charl_tensor *charl_var_get_tensor(const charl_var *v)
{
    return v ? v->tensor : NULL;
}

charl_graph_info charl_graph_get_info(const charl_graph *g)
{
    if (!g) {
        return (charl_graph_info){0};
    }
    charl_graph_info info = {.unplanned_bytes = g->unplanned_bytes};

    for (int i = 0; i < g->nodes.count; i++) {
        const charl__node *n = charl__graph_node(g, i);

        info.nodes += n->live;
        info.fused += n->live ? charl__fused_count(n) - 1 : 0;
        if (n->live && (!g->has_gradients || i < g->n_forward)) {
            info.forward_launches += n->launch_last - n->launch_first;
        }
    }
    for (int i = 0; i < g->n_actions; i++) {
        info.collectives += g->action[i].kind == CHARL_DO_COLLECTIVE;
    }
    for (int s = 0; s < g->n_segments; s++) {
        info.activation_bytes += g->segment_bytes[s];
    }
    for (int i = 0; i < g->vars.count; i++) {
        const charl_var *v = charl__var(g, i);

        info.input_bytes += v->leaf == CHARL_LEAF_INPUT ? charl__var_bytes(v) : 0;
    }
    info.flop = charl__graph_flop(g);
    info.launches = g->recording ? charl__recording_count(g->recording) : 0;
    return info;
}
