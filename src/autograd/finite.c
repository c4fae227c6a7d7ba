/* CHARL_CHECK_FINITE and charl__graph_check: a run that reads back the outputs of every operator and names the first one that produces a NaN or an infinity.
 * Slow; for debugging. The bits of the run are the same.
 */
#include <math.h>

#include "autograd/graph_private.h"
#include "base/alloc.h"

static charl_status check_lane(const charl__node *n, int k, int lane)
{
    charl_var *v = n->out[k];
    const int64_t count = charl_shape_count(&v->type.shape);
    const size_t size = charl_dtype_size(v->type.dtype);
    CHARL_SCOPED_FREE void *raw = NULL;
    CHARL_SCOPED_FREE double *value = NULL;
    CHARL_SCOPED(charl__tensor_left) charl_tensor *t = NULL;

    CHARL_TRY(charl__var_lane(v, lane, &t));
    CHARL_TRY(charl__alloc_array(count, size, &raw));
    CHARL_TRY(charl__alloc_array(count, sizeof *value, &value));
    CHARL_TRY(charl_tensor_read(t, raw, (size_t)count * size));
    charl_dtype_decode(v->type.dtype, raw, count, value);
    for (int64_t i = 0; i < count; i++) {
        CHARL_REQUIRE(isfinite(value[i]), CHARL_ERR_NONFINITE,
                      "%s (%s) is the first operator whose output is not finite: element %lld of "
                      "output %d is %g",
                      n->name, n->op->formula, (long long)i, k, value[i]);
    }
    return CHARL_OK;
}

static charl_status check_node(charl_graph *g, const charl__node *n)
{
    for (int k = 0; k < n->n_out; k++) {
        const charl_type *type = &n->out[k]->type;
        const int lanes = type->batch == CHARL_PARTIAL ? g->slices.n_lanes : 1;

        for (int j = 0; charl__is_float(type->dtype) && j < lanes; j++) {
            CHARL_TRY(check_lane(n, k, j));
        }
    }
    return CHARL_OK;
}

static bool is_in(const charl__node *n, int first, int last)
{
    return n->live && n->launch_last > n->launch_first && n->launch_first >= first && n->launch_last <= last;
}

charl_status charl__graph_replay_checked(charl_graph *g, int first, int last)
{
    for (int i = 0; i < g->nodes.count; i++) {
        const charl__node *n = charl__graph_node(g, i);

        if (is_in(n, first, last)) {
            CHARL_TRY(charl__recording_replay(g->recording, n->launch_first, n->launch_last));
            CHARL_TRY(check_node(g, n));
        }
    }
    return CHARL_OK;
}

charl_status charl__graph_replay_flipped(charl_graph *g, int first, int last, int64_t arg)
{
    const charl__node *node = NULL;
    CHARL_SCOPED(charl__tensor_left) charl_tensor *t = NULL;
    int nodes = 0;
    size_t at;
    uint8_t byte;

    for (int i = 0; i < g->nodes.count; i++) {
        nodes += is_in(charl__graph_node(g, i), first, last);
    }
    for (int i = 0, k = 0; i < g->nodes.count && nodes > 0; i++) {
        const charl__node *n = charl__graph_node(g, i);

        node = is_in(n, first, last) && k++ == (int)(arg % nodes) ? n : node;
    }
    if (!node) {
        return charl__recording_replay(g->recording, first, last);
    }
    CHARL_TRY(charl__recording_replay(g->recording, first, node->launch_last));
    CHARL_TRY(charl__var_lane(node->out[0], 0, &t));
    arg /= nodes;
    at = (size_t)t->offset * charl_dtype_size(t->dtype) + (size_t)(arg / 8) % charl__tensor_bytes(t);
    CHARL_TRY(charl__buffer_read(CHARL_QUEUE_COMPUTE, t->buffer, at, &byte, 1, true));
    byte ^= (uint8_t)(1U << arg % 8);
    CHARL_TRY(charl__buffer_write(CHARL_QUEUE_COMPUTE, t->buffer, at, &byte, 1, true));
    CHARL_TRY(charl__recording_replay(g->recording, node->launch_last, last));
    return CHARL_OK;
}

void charl__graph_set_checkable(charl_graph *g, bool checkable)
{
    g->checkable = checkable;
}

void charl__graph_check(charl_graph *g, bool on)
{
    g->checks = on && g->checkable;
}
