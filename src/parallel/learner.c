/* A loss, its parameters and an optimizer as one object: graphs for training, one per shape of pass, and one for evaluation, created on first
 * use. */
#include "charl/learner.h"

#include <string.h>

#include "autograd/graph.h"
#include "base/alloc.h"
#include "base/options.h"
#include "tensor/params.h"

static const int MOST_SLICES = 8;            /* that are chosen without a word */
static const float FIRST_LOSS_SCALE = 65536; /* of f16, dynamic */

struct charl_learner {
    charl_learner_options o;
    charl_world world; /* comm and device, borrowed */
    charl_params *params;
    charl_slices mine;
    charl_data_parallel *dp;
    charl_params *own; /* the parameters, if the caller has passed none */
    charl_steps *steps;
    charl_graph **graph; /* [n] */
    int n;
    charl_graph *evaluation; /* NULL: none yet */
    charl_optimizer *optimizer;
    const charl_graph *last; /* the last one that ran */
};

/* Choose and check the slices of the batch. */
static charl_status divide(charl_learner *l)
{
    charl_learner_options *o = &l->o;

    CHARL_REQUIRE(o->build, CHARL_ERR_INVALID, "charl_learner_options.build is NULL: it appends the loss");
    CHARL_REQUIRE(o->batch_size > 0 && o->eval_batch_size >= 0 && o->slices >= 0, CHARL_ERR_INVALID,
                  "batch_size = %lld, eval_batch_size = %lld, slices = %d; a batch has at least one row",
                  (long long)o->batch_size, (long long)o->eval_batch_size, o->slices);
    o->eval_batch_size = o->eval_batch_size ? o->eval_batch_size : o->batch_size;
    if (o->slices == 0) {
        o->slices = MOST_SLICES;
        while (o->batch_size % o->slices != 0 || o->eval_batch_size % o->slices != 0) {
            o->slices--;
        }
    }
    CHARL_REQUIRE(o->batch_size % o->slices == 0 && o->eval_batch_size % o->slices == 0, CHARL_ERR_CONFIG,
                  "%d slices do not divide a batch of %lld rows%s", o->slices,
                  (long long)(o->batch_size % o->slices ? o->batch_size : o->eval_batch_size),
                  o->batch_size % o->slices ? "" : " of an evaluation");
    CHARL_REQUIRE(charl_comm_size(l->world.comm) <= o->slices, CHARL_ERR_CONFIG,
                  "%d ranks, but a batch of %lld rows has %d slices; HINT start fewer ranks, or set "
                  "charl_learner_options.slices",
                  charl_comm_size(l->world.comm), (long long)o->batch_size, o->slices);
    return charl_slices_block(o->slices, charl_comm_rank(l->world.comm), charl_comm_size(l->world.comm), &l->mine);
}

/* A graph over `slices` with the loss. */
static charl_status build(charl_learner *l, const charl_slices *slices, bool trains, charl_graph **out)
{
    const int64_t batch = trains ? l->o.batch_size : l->o.eval_batch_size;
    charl_var *loss;
    charl_graph *g;

    CHARL_TRY(charl_graph_create(l->world.device, slices, out));
    g = *out;
    charl_graph_set_training(g, trains);
    charl_graph_set_precision(g, l->o.precision);
    if (trains) {
        charl_graph_set_steps(g, l->steps);
    }
    charl_graph_set_trained(g, l->params);
    loss = l->o.build(l->o.ctx, g, batch / slices->total * slices->count);
    CHARL_TRY(charl_graph_status(g));
    CHARL_REQUIRE(loss || !trains, CHARL_ERR_INVALID, "charl_learner_options.build has returned no loss");
    charl_output(g, "loss", loss);
    if (trains) {
        charl_graph_backward(g, loss, l->o.precision == CHARL_F16 ? charl_graph_loss_scale(g) : NULL);
    }
    return CHARL_OK;
}

static charl_status build_all(charl_learner *l)
{
    const charl_steps_options steps = {sizeof steps, .seed = l->o.seed,
                                       .loss_scale = l->o.precision == CHARL_F16 ? FIRST_LOSS_SCALE : 0,
                                       .dynamic = l->o.precision == CHARL_F16};
    const charl_slices *slices;

    CHARL_TRY(charl_steps_create(l->world.device, &steps, &l->steps));
    while ((slices = charl_data_parallel_get_slices(l->dp, l->n))) {
        CHARL_TRY(charl__grow(l->n, sizeof(charl_graph *), &l->graph));
        l->graph[l->n++] = NULL;
        CHARL_TRY(build(l, slices, true, &l->graph[l->n - 1]));
    }
    return CHARL_OK;
}

static charl_status begin(charl_learner *l)
{
    charl_optimizer_config config = l->o.optimizer ? *l->o.optimizer : charl_optimizer_defaults("adamw");

    if (!l->params->has_values) {
        CHARL_TRY(charl_params_initialize(l->params, l->o.seed));
    }
    config.steps = l->steps;
    return charl_optimizer_create(l->params, &config, &l->optimizer);
}

charl_status charl_learner_create(const charl_world *world, charl_params *params, const charl_learner_options *options,
                                  charl_learner **out)
{
    CHARL_GIVEN(world, options, out);
    CHARL__OPTIONS(charl_learner_options, options);
    CHARL_GIVEN(world->comm, world->device);
    const charl_data_parallel_options *parallel = options->parallel;
    CHARL__OPTIONS(charl_data_parallel_options, parallel);
    charl_status st = CHARL_OK;
    charl_learner *l = NULL;

    *out = NULL;
    CHARL_REQUIRE_CLEANUP(
        !parallel || !parallel->balance, CHARL_ERR_INVALID,
        "charl_learner_options.parallel: balance is true, but a learner keeps its slices; HINT a loop over "
        "charl_data_parallel_run balances");
    CHARL_TRY_CLEANUP(charl__alloc(sizeof *l, &l));
    *l = (charl_learner){.o = *options, .world = *world};
    if (!params) {
        CHARL_TRY_CLEANUP(charl_params_create(&l->own));
    }
    l->params = params ? params : l->own;
    CHARL_TRY_CLEANUP(charl_comm_agree(world->comm, divide(l)));
    CHARL_TRY_CLEANUP(charl_data_parallel_create(world->comm, &l->mine, l->o.parallel, &l->dp));
    CHARL_TRY_CLEANUP(charl_comm_agree(world->comm, build_all(l)));
    CHARL_TRY_CLEANUP(charl_data_parallel_compile(l->dp, l->graph, l->n));
    CHARL_TRY_CLEANUP(charl_comm_agree(world->comm, begin(l)));
    l->o.optimizer = NULL; /* the caller's */
    l->o.parallel = NULL;
    *out = l;
    l = NULL;
cleanup:
    charl_learner_destroy(l);
    return st;
}

void charl_learner_destroy(charl_learner *l)
{
    if (!l) {
        return;
    }
    charl_optimizer_destroy(l->optimizer);
    charl_graph_destroy(l->evaluation);
    for (int k = 0; k < l->n; k++) {
        charl_graph_destroy(l->graph[k]);
    }
    charl_free(l->graph);
    charl_data_parallel_destroy(l->dp);
    charl_steps_destroy(l->steps);
    charl_params_destroy(l->own);
    charl_free(l);
}

charl_learner_info charl_learner_get_info(const charl_learner *l)
{
    if (!l) {
        return (charl_learner_info){0};
    }
    const int64_t rows = l->o.batch_size / l->o.slices, eval_rows = l->o.eval_batch_size / l->o.slices;

    return (charl_learner_info){.rows = rows * l->mine.count,
                                .first_row = rows * l->mine.first,
                                .eval_rows = eval_rows * l->mine.count,
                                .first_eval_row = eval_rows * l->mine.first,
                                .slices = l->mine,
                                .params = l->params,
                                .optimizer = l->optimizer,
                                .dp = l->dp};
}

/* Write the inputs of g, whose rows begin with row `first` of this rank's. */
static charl_status write_inputs(const charl_graph *g, const charl_rows *rows, int n, int64_t first)
{
    const charl_var *v;

    CHARL_REQUIRE(rows || n == 0, CHARL_ERR_INVALID, "rows is NULL");
    for (int i = 0; i < n; i++) {
        CHARL_REQUIRE(rows[i].input && rows[i].data, CHARL_ERR_INVALID, "rows %d have no name or no data", i);
        v = charl__graph_find(g, rows[i].input);
        CHARL_REQUIRE(v && charl__var_is_input(v), CHARL_ERR_INVALID, "the graph has no input named %s", rows[i].input);
        const charl_type type = charl_var_get_type(v);
        const size_t bytes = (size_t)charl_shape_count(&type.shape) * charl_dtype_size(type.dtype);
        const size_t skip = type.batch == CHARL_BATCHED ? bytes / (size_t)type.shape.dim[0] * (size_t)first : 0;

        CHARL_TRY(charl_tensor_write(charl_var_get_tensor(v), (const char *)rows[i].data + skip, bytes));
    }
    for (int k = 0; (v = charl__graph_get_batched_input(g, k)) != NULL; k++) {
        int i = 0;

        while (i < n && strcmp(rows[i].input, charl_var_get_name(v)) != 0) {
            i++;
        }
        CHARL_REQUIRE(i < n, CHARL_ERR_INVALID, "there are no rows for the input %s", charl_var_get_name(v));
    }
    return CHARL_OK;
}

charl_status charl_learner_step(charl_learner *l, const charl_rows *rows, int n, float lr)
{
    CHARL_GIVEN(l);
    const int passes = charl_data_parallel_get_info(l->dp).passes;

    charl_comm_mark(l->world.comm, charl_optimizer_get_steps(l->optimizer), "training");
    CHARL_TRY(charl_optimizer_begin(l->optimizer, lr));
    for (int i = 0; i < passes; i++) {
        const charl_data_parallel_pass pass = charl_data_parallel_get_pass(l->dp, i);
        const int64_t first = l->o.batch_size / l->o.slices * (pass.slices.first - l->mine.first);

        l->last = l->graph[pass.graph];
        CHARL_TRY(write_inputs(l->last, rows, n, first));
        CHARL_TRY(charl_data_parallel_run(l->dp, i));
    }
    CHARL_TRY(charl_data_parallel_step(l->dp, l->optimizer, lr));
    return CHARL_OK;
}

static charl_status make_evaluation(charl_learner *l)
{
    CHARL_TRY(charl_comm_agree(l->world.comm, build(l, &l->mine, false, &l->evaluation)));
    return charl_data_parallel_compile_evaluation(l->dp, l->evaluation);
}

charl_status charl_learner_evaluate(charl_learner *l, const charl_rows *rows, int n)
{
    CHARL_GIVEN(l);
    if (!l->evaluation) {
        const charl_status st = make_evaluation(l);

        if (st != CHARL_OK) {
            charl_graph_destroy(l->evaluation);
            l->evaluation = NULL;
        }
        CHARL_TRY(st);
    }
    CHARL_TRY(write_inputs(l->evaluation, rows, n, 0));
    l->last = l->evaluation;
    return charl_graph_run(l->evaluation);
}

charl_status charl_learner_read(const charl_learner *l, const char *name, void *dst, size_t bytes)
{
    CHARL_GIVEN(l, name, dst);
    CHARL_REQUIRE(l->last, CHARL_ERR_INVALID, "no step and no evaluation has run");
    const charl_var *v = charl__graph_find(l->last, name);

    CHARL_REQUIRE(v, CHARL_ERR_INVALID, "the %s graph has no output named %s; HINT charl_output names a value",
                  l->last == l->evaluation ? "evaluation" : "training", name);
    return charl_tensor_read(charl_var_get_tensor(v), dst, bytes);
}
