/* Data-parallel training: gradient accumulation, all-reduce and sharding in one object. */
#include "parallel/data_parallel.h"

#include <math.h>
#include <stdio.h>

#include "autograd/graph.h"
#include "autograd/op.h"
#include "base/registry/key.h"
#include "base/alloc.h"
#include "base/options.h"
#include "dist/allreduce/allreduce_device.h"
#include "dist/consensus.h"
#include "parallel/audit.h"
#include "parallel/optimizer_shard.h"
#include "parallel/param_gather.h"

static const double DEFAULT_BUCKET_MB = 25;

charl_status charl__data_parallel_plan(charl_data_parallel *dp, const charl_slices *mine, int passes, bool accumulates)
{
    charl__grad_accum_destroy(dp->accum);
    dp->accum = NULL;
    dp->slices = *mine;
    dp->passes = passes;
    return accumulates ? charl__grad_accum_create(mine, passes, &dp->accum) : CHARL_OK;
}

int charl__data_parallel_shapes(const charl_data_parallel *dp)
{
    return dp->accum ? charl__grad_accum_shapes(dp->accum) : 1;
}

int charl__data_parallel_shape(const charl_data_parallel *dp, int pass)
{
    return dp->accum ? charl__grad_accum_shape(dp->accum, pass) : 0;
}

const charl_slices *charl__data_parallel_slices(const charl_data_parallel *dp, int pass)
{
    return dp->accum ? charl__grad_accum_slices(dp->accum, pass) : &dp->slices;
}

const charl_slices *charl__data_parallel_graph_slices(const charl_data_parallel *dp, int shape)
{
    int i = 0;

    while (charl__data_parallel_shape(dp, i) != shape) {
        i++;
    }
    return charl__data_parallel_slices(dp, i);
}

void charl__data_parallel_set_shard(charl_data_parallel *dp, charl_shard shard)
{
    const int groups = dp->within_nodes ? charl_comm_node_count(dp->comm) : 1;

    dp->sharding = charl_comm_size(dp->comm) > groups ? shard : CHARL_SHARD_NONE;
}

int64_t charl__data_parallel_bucket(const charl_data_parallel *dp, const charl_params *set)
{
    return dp->bucket_mb > 0 ? charl__grad_reducer_bucket(set, dp->bucket_mb) : set->elements > 0 ? set->elements : 1;
}

charl_status charl__data_parallel_connect(charl_data_parallel *dp, charl_params *set)
{
    const bool divides = dp->sharding == CHARL_SHARD_PARAMETERS;
    const charl_allreduce_options options = {sizeof options,
                                             .algorithm = dp->algorithm,
                                             .reduce_dtype = set->reduce_dtype,
                                             .gathers = dp->sharding != CHARL_SHARD_NONE && !divides,
                                             .scatters = dp->sharding >= CHARL_SHARD_GRADIENTS,
                                             .within_nodes = dp->within_nodes && dp->sharding != CHARL_SHARD_NONE};
    charl_status st = CHARL_OK;

    const bool assigns = dp->sharding != CHARL_SHARD_NONE && dp->whole;

    CHARL_INVARIANT(set->is_divided == divides);
    if (assigns) {
        CHARL_TRY(charl_comm_agree(dp->comm,
                                   charl__owners_create(set, dp->whole, charl__data_parallel_shards(dp), &dp->owners)));
    }
    if (divides) {
        dp->most_passes = dp->passes;
        CHARL_TRY(charl_comm_reduce_i64(dp->comm, CHARL_COMM_MAX, &dp->most_passes, 1));
    } else {
        CHARL_TRY(charl_comm_agree(dp->comm, charl__params_place(set)));
    }
    CHARL_TRY(
        charl__grad_reducer_create(dp->comm, &options, &dp->slices, set, assigns ? &dp->owners : NULL, &dp->reducer));
    dp->params = set;
    set->users++;
    if (dp->sharding == CHARL_SHARD_NONE) {
        return CHARL_OK;
    }
    st = charl__shard_create(dp);
    st = st == CHARL_OK ? charl__params_place(set) : st;
    CHARL_TRY(charl_comm_agree(dp->comm, st));
    return divides ? charl__param_gather_create(dp, &dp->gather) : CHARL_OK;
}

/* The parts that belong to the graphs. */
static void discard_graphs(charl_data_parallel *dp)
{
    for (int k = 0; k < dp->n_kept; k++) {
        charl_free(dp->kept[k]);
    }
    charl_free(dp->kept);
    charl_free(dp->graph);
    charl__audit_destroy(dp->audit);
    dp->kept = NULL;
    dp->n_kept = 0;
    dp->graph = NULL;
    dp->audit = NULL;
    dp->is_compiled = false;
}

/* Release what connect created; the parameters keep their values. Collective; agreed. */
static charl_status disconnect(charl_data_parallel *dp)
{
    charl_status st = CHARL_OK;

    discard_graphs(dp);
    charl__optimizers_unbind(dp->params);
    if (dp->sharding != CHARL_SHARD_NONE) { /* the devices of other ranks may use theirs */
        st = charl__grad_reducer_shares_values(dp->reducer) ? charl__params_move(dp->params, NULL) : CHARL_OK;
        CHARL_TRY(charl_comm_agree(dp->comm, st));
    }
    charl__shard_destroy(dp->shard);
    dp->shard = NULL;
    dp->params->own = NULL;
    dp->params->parts = NULL;
    charl__params_free_gradients(dp->params); /* they may be in the reducer's memory */
    charl__grad_reducer_destroy(dp->reducer);
    dp->reducer = NULL;
    dp->params->users--;
    dp->params = NULL;
    return st;
}

charl_status charl__data_parallel_prepare(charl_data_parallel *dp)
{
    CHARL_TRY(dp->accum ? charl__grad_accum_prepare(dp->accum, dp->params) : CHARL_OK);
    return charl__audit_create(dp);
}

/* The k-th value that a pass completes: its partial sums are added to those of earlier passes, and after the last pass to those of the other
 * ranks. */
static charl_status complete_accumulated(charl_data_parallel *dp, charl_tensor *lanes, charl_tensor *sum)
{
    const int64_t n = charl__tensor_count(sum), partial = charl__tensor_count(lanes);
    CHARL_SCOPED_FREE float *v = NULL;

    if (dp->at == dp->n_kept) {
        float *sums;

        CHARL_TRY(charl__grow(dp->n_kept, sizeof *dp->kept, &dp->kept));
        CHARL_TRY(charl__alloc_array(charl__grad_accum_depth(dp->accum) * n, sizeof *sums, &sums));
        dp->kept[dp->n_kept++] = sums;
    }
    CHARL_TRY(charl__alloc_array(partial > n ? partial : n, sizeof *v, &v));
    CHARL_TRY(charl_tensor_read(lanes, v, (size_t)partial * sizeof *v));
    charl__grad_accum_fold_numbers(dp->accum, dp->pass, v, (int)n, dp->kept[dp->at]);
    if (dp->pass == dp->passes - 1) {
        CHARL_TRY(charl__grad_reducer_sum(dp->reducer, dp->kept[dp->at], n, v));
    } else {
        for (int64_t i = 0; i < n; i++) {
            v[i] = NAN;
        }
    }
    dp->at++;
    return charl_tensor_write(sum, v, (size_t)n * sizeof *v);
}

charl_status charl__data_parallel_sum(charl_data_parallel *dp, charl_tensor *lanes, charl_tensor *sum)
{
    return dp->accum ? complete_accumulated(dp, lanes, sum) : charl__grad_reducer_collective(dp->reducer, lanes, sum);
}

/* Set the hooks of a graph with gradients. */
static charl_status on_sum(void *ctx, charl_tensor *lanes, charl_tensor *sum)
{
    charl_data_parallel *dp = ctx;

    return charl__audit_is_on(dp->audit) ? charl__audit_sum(dp, lanes, sum) : charl__data_parallel_sum(dp, lanes, sum);
}

static charl_status on_ready(void *ctx, int64_t begin, int64_t count)
{
    const charl_data_parallel *dp = ctx;

    return charl__audit_is_trial(dp->audit) ? CHARL_OK : charl__grad_reducer_ready(dp->reducer, begin, count);
}

static void attach(charl_data_parallel *dp, charl_graph *g, bool trains)
{
    if (trains && (dp->accum || dp->reducer)) {
        charl__graph_on_collective(g, on_sum, dp);
    } else if (dp->reducer) {
        charl__graph_on_collective(g, charl__grad_reducer_collective, dp->reducer);
    }
    if (trains && dp->accum) {
        charl__graph_use_gradients(g, charl__grad_accum_gradients(dp->accum));
    } else if (trains && dp->reducer) {
        charl__graph_on_ready(g, on_ready, dp, charl__data_parallel_bucket(dp, dp->params));
    }
    if (dp->gather) {
        charl__graph_on_gather(g, charl__param_gather_run, dp->gather);
    }
}

charl_status charl__data_parallel_compile(charl_data_parallel *dp, charl_graph *g, int shape, const charl_graph *memory)
{
    if (memory) {
        charl__graph_share_activations(g, memory);
    }
    if (shape >= 0) {
        if (!dp->graph) {
            CHARL_TRY(charl__alloc_array(charl__data_parallel_shapes(dp), sizeof(charl_graph *), &dp->graph));
        }
        dp->graph[shape] = g;
        CHARL_TRY(charl__audit_check(dp, g));
    }
    attach(dp, g, shape >= 0);
    return charl_graph_compile(g);
}

charl_status charl__data_parallel_finish(charl_data_parallel *dp)
{
    CHARL_TRY(charl_comm_agree(dp->comm, charl__optimizers_rebind(dp->params)));
    CHARL_TRY(charl__grad_reducer_check(dp->reducer, dp->graph[0], charl__data_parallel_bucket(dp, dp->params)));
    dp->pass = dp->passes;
    dp->reduced = dp->is_compiled = true;
    return CHARL_OK;
}

/* A graph over other slices, or with other parameters, would compute different sums. */
static charl_status check_graph(const charl_slices *slices, const charl_params *set, const charl_graph *g)
{
    const charl_slices *s = charl__graph_slices(g);
    const charl_params *params = charl__graph_params(g);

    CHARL_REQUIRE(s->total == slices->total && s->first == slices->first && s->count == slices->count,
                  CHARL_ERR_INVALID,
                  "the graph has slices %d to %d of %d, but is to have slices %d to %d of %d; HINT charl_graph_create "
                  "takes charl_data_parallel_get_slices",
                  s->first, s->first + s->count, s->total, slices->first, slices->first + slices->count, slices->total);
    CHARL_REQUIRE(!params || params == set, CHARL_ERR_INVALID, "the graph has the parameters of another set");
    return CHARL_OK;
}

static charl_status check_options(const charl_data_parallel_options *o, const charl_slices *mine)
{
    CHARL_TRY(charl__range_check(CHARL_ERR_INVALID, "bucket_mb", o->bucket_mb, "[0,4096]"));
    CHARL_REQUIRE(o->passes >= 0, CHARL_ERR_INVALID, "passes = %d; a step takes one or more", o->passes);
    CHARL_REQUIRE(o->passes <= mine->count || mine->count == 0, CHARL_ERR_CONFIG,
                  "passes = %d, but a rank has %d of the %d slices; a pass takes at least one", o->passes, mine->count,
                  mine->total);
    CHARL_REQUIRE(o->shard <= CHARL_SHARD_PARAMETERS, CHARL_ERR_INVALID, "%d is no charl_shard", (int)o->shard);
    CHARL_REQUIRE(!o->optimizer || charl__optimizer_find(o->optimizer), CHARL_ERR_INVALID, "there is no optimizer %s",
                  o->optimizer);
    CHARL_REQUIRE(o->reduce_dtype == CHARL_F32 || o->reduce_dtype == CHARL_BF16, CHARL_ERR_INVALID,
                  "gradients are summed in f32 or bf16, not in %s", charl_dtype_name(o->reduce_dtype));
    CHARL_REQUIRE(o->shard != CHARL_SHARD_PARAMETERS || !o->shard_within_nodes, CHARL_ERR_CONFIG,
                  "parameters are not sharded within nodes; HINT shard_within_nodes = false, or CHARL_SHARD_GRADIENTS");
    CHARL_REQUIRE(o->shard != CHARL_SHARD_PARAMETERS || !(o->balance || o->rows), CHARL_ERR_CONFIG,
                  "%s with sharded parameters does not work; HINT shard gradients instead",
                  o->balance ? "balance" : "an audit");
    return charl__allreduce_check_name(o->allreduce ? o->allreduce : "auto");
}

/* The local part. */
static charl_status plan(charl_data_parallel *dp, const charl_slices *mine, const charl_data_parallel_options *o)
{
    const int ranks = charl_comm_size(dp->comm);
    charl_slices made;

    CHARL_TRY(check_options(o, mine));
    CHARL_TRY(charl_slices_range(mine->total, mine->first, mine->count, &made));
    CHARL_REQUIRE(
        made.n_lanes == mine->n_lanes, CHARL_ERR_INVALID,
        "slices %d to %d of %d have %d lanes, not %d; HINT charl_slices_block and charl_slices_range count them",
        mine->first, mine->first + mine->count, mine->total, made.n_lanes, mine->n_lanes);
    CHARL_REQUIRE(ranks > 1 || mine->count == mine->total, CHARL_ERR_INVALID, "the only rank has %d of %d slices",
                  mine->count, mine->total);
    dp->slices = made;
    dp->wanted = o->passes;
    dp->rows = o->rows;
    dp->ctx = o->ctx;
    snprintf(dp->algorithm, sizeof dp->algorithm, "%s", o->allreduce ? o->allreduce : "auto");
    dp->bucket_mb = o->no_overlap ? 0 : o->bucket_mb > 0 ? o->bucket_mb : DEFAULT_BUCKET_MB;
    dp->reduce_dtype = o->reduce_dtype;
    dp->whole = o->optimizer && !charl_optimizer_is_elementwise(o->optimizer)
                    ? charl__optimizer_find(o->optimizer)->row.name
                    : NULL;
    dp->within_nodes = o->shard_within_nodes;
    charl__data_parallel_set_shard(dp, o->shard);
    return charl__balance_init(dp, o->balance);
}

/* Every rank accumulates if one does, because the gradients are then stored elsewhere. */
static charl_status plan_passes(charl_data_parallel *dp, const charl_slices *mine)
{
    const int least = charl__grad_accum_least(mine->count), passes = dp->wanted > least ? dp->wanted : least;
    int64_t most = passes;

    CHARL_TRY(charl_comm_reduce_i64(dp->comm, CHARL_COMM_MAX, &most, 1));
    return charl_comm_agree(dp->comm, charl__data_parallel_plan(dp, mine, passes, most > 1));
}

charl_status charl_data_parallel_create(charl_comm *comm, const charl_slices *mine,
                                        const charl_data_parallel_options *options, charl_data_parallel **out)
{
    CHARL_GIVEN(comm, mine, out);
    CHARL__OPTIONS(charl_data_parallel_options, options);
    charl_status st = CHARL_OK;
    const charl_data_parallel_options o =
        options ? *options : (charl_data_parallel_options){sizeof(charl_data_parallel_options)};
    charl_data_parallel *dp = NULL;

    *out = NULL;
    st = charl__alloc(sizeof *dp, &dp);
    if (st == CHARL_OK) {
        *dp = (charl_data_parallel){.comm = comm, .passes = 1, .audits.suspect = -1};
        st = plan(dp, mine, &o);
    }
    CHARL_TRY_CLEANUP(charl_comm_agree(comm, st));
    CHARL_TRY_CLEANUP(charl__balance_count(dp));
    CHARL_TRY_CLEANUP(plan_passes(dp, mine));
    *out = dp;
    dp = NULL;
cleanup:
    charl_data_parallel_destroy(dp);
    return st;
}

const charl_slices *charl_data_parallel_get_slices(const charl_data_parallel *dp, int k)
{
    return dp && k >= 0 && k < charl__data_parallel_shapes(dp) ? charl__data_parallel_graph_slices(dp, k) : NULL;
}

charl_data_parallel_info charl_data_parallel_get_info(const charl_data_parallel *dp)
{
    if (!dp) {
        return (charl_data_parallel_info){.audits.suspect = -1};
    }
    int64_t begin = 0, end, elements = 0;

    while (dp->reducer && (end = charl__params_range(dp->params, &begin, 1)) > begin) {
        elements += end - begin;
        begin = end;
    }
    return (charl_data_parallel_info){
        .passes = dp->passes, .bytes = elements * (int64_t)sizeof(float), .audits = dp->audits};
}

charl_data_parallel_pass charl_data_parallel_get_pass(const charl_data_parallel *dp, int i)
{
    if (!dp || i < 0 || i >= dp->passes) {
        return (charl_data_parallel_pass){0};
    }
    return (charl_data_parallel_pass){charl__data_parallel_shape(dp, i), *charl__data_parallel_slices(dp, i)};
}

/* Lay out the parameters of graph k. */
static charl_status prepare(const charl_data_parallel *dp, charl_params *set, charl_graph *g, int k)
{
    const char *collective;

    CHARL_REQUIRE(g, CHARL_ERR_INVALID, "graph %d is NULL", k);
    CHARL_TRY(charl_graph_status(g));
    CHARL_TRY(check_graph(charl__data_parallel_graph_slices(dp, k), set, g));
    CHARL_REQUIRE(set && charl__graph_has_gradients(g), CHARL_ERR_INVALID,
                  "the graph computes no gradients of parameters; HINT charl_graph_backward appends them");
    CHARL_TRY(charl__graph_prepare(g));
    collective = dp->accum ? charl__graph_collective(g) : NULL;
    CHARL_REQUIRE(!collective, CHARL_ERR_CONFIG,
                  "%d passes: %s is a sum over the whole batch in the middle of a pass, as batch norm needs it; HINT "
                  "passes = 0, or another norm",
                  dp->passes, collective);
    return CHARL_OK;
}

static charl_status prepare_all(charl_data_parallel *dp, charl_params *set, charl_graph *const *g, int n)
{
    CHARL_REQUIRE(!dp->params, CHARL_ERR_INVALID,
                  "charl_data_parallel_compile has connected these parameters already; HINT charl_data_parallel_create "
                  "makes another object for other graphs");
    CHARL_REQUIRE(n == charl__data_parallel_shapes(dp), CHARL_ERR_INVALID,
                  "%d graphs, but a step has %d; HINT charl_data_parallel_get_slices", n,
                  charl__data_parallel_shapes(dp));
    CHARL_REQUIRE(!set || !set->grad, CHARL_ERR_INVALID,
                  "the parameters have gradients already, from another data-parallel object or from "
                  "charl_graph_compile");
    CHARL_REQUIRE(
        !set || dp->sharding != CHARL_SHARD_PARAMETERS || !set->dev, CHARL_ERR_INVALID,
        "the parameters have memory already, from an earlier graph, and cannot be sharded any more; HINT compile "
        "that graph afterwards");
    CHARL_REQUIRE(
        !set || dp->sharding == CHARL_SHARD_NONE || set->users == 0, CHARL_ERR_INVALID,
        "a sharded optimizer moves the parameters, which %d compiled graphs and optimizers use already; HINT compile "
        "those afterwards",
        set->users);
    if (set) {
        set->reduce_dtype = dp->reduce_dtype;
        set->is_divided = set->defers = dp->sharding == CHARL_SHARD_PARAMETERS;
    }
    for (int k = 0; k < n; k++) {
        CHARL_TRY(prepare(dp, set, g[k], k));
    }
    return CHARL_OK;
}

/* Graphs of several passes run one after another, so they share the memory of the first, which has the most slices. */
static charl_status compile_all(charl_data_parallel *dp, charl_graph *const *g)
{
    CHARL_TRY(charl__data_parallel_prepare(dp));
    for (int k = 0; k < charl__data_parallel_shapes(dp); k++) {
        CHARL_TRY(charl__data_parallel_compile(dp, g[k], k, k > 0 ? g[0] : NULL));
    }
    for (int k = 0; k < charl__data_parallel_shapes(dp);
         k++) { /* no rank compiles kernels while others wait in a sum */
        CHARL_TRY(charl_graph_warm_up(g[k]));
    }
    return CHARL_OK;
}

charl_status charl_data_parallel_compile(charl_data_parallel *dp, charl_graph *const *graphs, int n)
{
    CHARL_GIVEN(dp, graphs);
    charl_params *set = n > 0 && graphs[0] ? charl__graph_params(graphs[0]) : NULL;

    const charl_status st = charl_comm_agree(dp->comm, prepare_all(dp, set, graphs, n));

    if (st != CHARL_OK && set && !set->dev) {
        set->is_divided = set->defers = false; /* other graphs may have them whole */
    }
    CHARL_TRY(st);
    CHARL_TRY(charl__data_parallel_connect(dp, set));
    CHARL_TRY(charl_comm_agree(dp->comm, compile_all(dp, graphs)));
    return charl__data_parallel_finish(dp);
}

static charl_status compile_evaluation(charl_data_parallel *dp, charl_graph *g)
{
    CHARL_REQUIRE(dp->params, CHARL_ERR_INVALID,
                  "the graphs of the step are not compiled; HINT charl_data_parallel_compile");
    CHARL_TRY(check_graph(&dp->slices, dp->params, g));
    CHARL_TRY(charl__data_parallel_compile(dp, g, -1, NULL));
    return charl_graph_warm_up(g);
}

charl_status charl_data_parallel_compile_evaluation(charl_data_parallel *dp, charl_graph *g)
{
    CHARL_GIVEN(dp, g);
    return charl_comm_agree(dp->comm, compile_evaluation(dp, g));
}

charl_status charl__data_parallel_enter(const charl_data_parallel *dp, uint64_t step, charl__phase phase)
{
    if (dp->entered) {
        dp->entered(dp->entered_ctx, phase);
    }
    return charl__phase_enter(dp->comm, (int64_t)step, phase, dp->params);
}

charl_status charl__data_parallel_run_pass(charl_data_parallel *dp, int i, const charl_slices *slices, uint64_t step)
{
    charl_graph *g = dp->graph[charl__data_parallel_shape(dp, i)];

    dp->at = 0;
    charl__graph_count_from(g, step);
    CHARL_TRY(charl__graph_move(g, slices));
    CHARL_TRY(charl_graph_run(g));
    return dp->accum ? charl__grad_accum_fold(dp->accum, i) : CHARL_OK;
}

/* Before the first pass of a batch: gather what other ranks need for more passes than this one has. So all ranks run their last pass together. */
static charl_status fall_in(const charl_data_parallel *dp, charl_graph *g)
{
    for (int64_t i = dp->passes; dp->gather && i < dp->most_passes; i++) {
        CHARL_TRY(charl__graph_run_gathers(g));
    }
    return CHARL_OK;
}

charl_status charl__data_parallel_evaluate(const charl_data_parallel *dp, charl_graph *g, int i)
{
    CHARL_TRY(i == 0 ? fall_in(dp, g) : CHARL_OK);
    CHARL_TRY(charl__graph_move(g, charl__data_parallel_slices(dp, i)));
    return charl_graph_run(g);
}

typedef struct outliving {
    charl_data_parallel *dp;
    void (*work)(void *ctx, charl_status undone);
    void *ctx;
} outliving;

/* The update of a step needs the sums of all ranks: one that has failed has changed running statistics only. */
static charl_status undo(charl_data_parallel *dp)
{
    CHARL_TRY(charl__grad_reducer_settle(dp->reducer));
    for (charl_optimizer *o = dp->params->optimizers; o; o = o->next) {
        CHARL_TRY(charl__optimizer_undo(o));
    }
    return CHARL_OK;
}

static void outlive(void *ctx)
{
    const outliving *o = ctx;

    o->work(o->ctx, undo(o->dp));
}

void charl__data_parallel_outlive(charl_data_parallel *dp, void (*work)(void *ctx, charl_status undone), void *ctx)
{
    charl__comm_last(dp->comm, outlive, &(outliving){dp, work, ctx});
}

/* Start the first pass of a step. */
static charl_status begin_step(charl_data_parallel *dp)
{
    dp->pass = 0;
    dp->reduced = false;
    dp->step++;
    CHARL_TRY(charl__data_parallel_enter(dp, dp->step, CHARL__PHASE_BACKWARD));
    CHARL_TRY(fall_in(dp, dp->graph[0]));
    return charl__balance_begin(dp);
}

/* After the last pass: the gradients of accumulated passes are summed over the ranks. */
static charl_status end_passes(charl_data_parallel *dp)
{
    const int64_t bucket = charl__data_parallel_bucket(dp, dp->params);

    CHARL_TRY(dp->accum && dp->reducer ? charl__grad_reducer_ready_all(dp->reducer, bucket) : CHARL_OK);
    return charl__balance_end(dp);
}

charl_status charl_data_parallel_run(charl_data_parallel *dp, int i)
{
    CHARL_GIVEN(dp);
    const bool begins = dp->pass == dp->passes && dp->reduced;
    const int next = begins ? 0 : dp->pass;

    CHARL_REQUIRE(dp->is_compiled, CHARL_ERR_INVALID,
                  "the graphs of the step are not compiled; HINT charl_data_parallel_compile");
    CHARL_REQUIRE(i == next && next < dp->passes, CHARL_ERR_INVALID, "pass %d runs out of order: %s %d of %d is next",
                  i, next == dp->passes ? "charl_data_parallel_reduce or _step, after pass" : "pass",
                  next == dp->passes ? next - 1 : next, dp->passes);
    if (begins) {
        CHARL_TRY(begin_step(dp));
    }
    CHARL_TRY(charl__data_parallel_run_pass(dp, i, charl__data_parallel_slices(dp, i), dp->step - 1));
    dp->pass++;
    return dp->pass == dp->passes ? end_passes(dp) : CHARL_OK;
}

charl_status charl_data_parallel_reduce(charl_data_parallel *dp)
{
    CHARL_GIVEN(dp);
    CHARL_REQUIRE(dp->is_compiled && dp->pass == dp->passes, CHARL_ERR_INVALID,
                  "%d of %d passes have run; HINT charl_data_parallel_run", dp->pass, dp->passes);
    if (dp->reduced) {
        return CHARL_OK;
    }
    CHARL_TRY(charl__data_parallel_enter(dp, dp->step, CHARL__PHASE_DEVICE));
    CHARL_TRY(charl__audit_hash(dp));
    CHARL_TRY(charl__grad_reducer_begin(dp->reducer));
    CHARL_TRY(charl__data_parallel_enter(dp, dp->step, CHARL__PHASE_ALLREDUCE));
    CHARL_TRY(charl__grad_reducer_finish(dp->reducer));
    CHARL_TRY(charl__data_parallel_enter(dp, dp->step, CHARL__PHASE_OPTIMIZER));
    CHARL_TRY(charl__audit_compare(dp));
    dp->reduced = true;
    return CHARL_OK;
}

charl_status charl_data_parallel_step(charl_data_parallel *dp, charl_optimizer *optimizer, float lr)
{
    CHARL_GIVEN(dp, optimizer);
    CHARL_REQUIRE(optimizer->set == dp->params, CHARL_ERR_INVALID, "the optimizer has the parameters of another set");
    CHARL_REQUIRE(dp->step > 0, CHARL_ERR_INVALID, "no step has run; HINT charl_data_parallel_run");
    CHARL_REQUIRE(
        optimizer->applied != dp->step, CHARL_ERR_INVALID,
        "this optimizer has applied the gradients of step %llu already; HINT charl_data_parallel_run computes "
        "those of the next",
        (unsigned long long)dp->step);
    CHARL_TRY(charl_data_parallel_reduce(dp));
    CHARL_TRY(charl__optimizer_step(optimizer, lr));
    optimizer->applied = dp->step;
    CHARL_TRY(charl__shard_publish(dp));
    return CHARL_OK;
}

charl_status charl_data_parallel_divide(charl_data_parallel *dp)
{
    CHARL_GIVEN(dp);
    const int rank = charl_comm_rank(dp->comm);
    charl_status st = CHARL_OK;
    charl_slices mine;
    int first = 0;

    CHARL_REQUIRE(dp->balance.divides, CHARL_ERR_INVALID,
                  "the ranks have their slices; HINT charl_data_parallel_balance says when to divide the batch anew");
    for (int r = 0; r < rank; r++) {
        first += dp->balance.count[r];
    }
    st = charl_slices_range(dp->slices.total, first, dp->balance.count[rank], &mine);
    st = st == CHARL_OK ? charl_device_sync(dp->params->dev) : st;
    CHARL_TRY(charl_comm_agree(dp->comm, st));
    CHARL_TRY(disconnect(dp));
    CHARL_TRY(plan_passes(dp, &mine));
    dp->balance.divides = false;
    return CHARL_OK;
}

void charl_data_parallel_destroy(charl_data_parallel *dp)
{
    if (!dp) {
        return;
    }
    if (dp->params) { /* gradients and values may be in the reducer's memory */
        charl__params_free_gradients(dp->params);
        dp->params->own = NULL;
        dp->params->parts = NULL;
        dp->params->users--;
        if (dp->params->is_divided) {
            charl__params_reset(dp->params);
        } else if (charl__grad_reducer_shares_values(dp->reducer) && charl__params_move(dp->params, NULL) != CHARL_OK) {
            charl__params_free_values(dp->params);
        }
    }
    discard_graphs(dp);
    charl__param_gather_destroy(dp->gather);
    charl__shard_destroy(dp->shard);
    charl__grad_accum_destroy(dp->accum);
    charl__grad_reducer_destroy(dp->reducer);
    charl__owners_fini(&dp->owners);
    charl_free(dp);
}
