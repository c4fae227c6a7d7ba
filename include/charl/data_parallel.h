#ifndef CHARL_DATA_PARALLEL_H
#define CHARL_DATA_PARALLEL_H
/** Data-parallel training: gradients summed over ranks while the backward pass runs, with the same bits for every
 *  number of ranks. charl's own trainer uses this object.
 *
 *  Every rank builds the same graph over its slices of the batch (charl/slices.h). This object compiles it; from then
 *  on a run of the graph starts the all-reduce of each bucket of gradients as soon as the backward pass has finished
 *  it:
 *
 *      check(charl_slices_block(8, charl_comm_rank(comm), charl_comm_size(comm), &mine));
 *      check(charl_data_parallel_create(comm, &mine, NULL, &dp));
 *      check(charl_graph_create(dev, charl_data_parallel_get_slices(dp, 0), &g));
 *      charl_var *loss = charl_batch_mean(g, build(g)); // the mean over the global batch of the model's losses
 *      charl_graph_keep(g, loss);
 *      charl_graph_backward(g, loss, NULL);
 *      check(charl_data_parallel_compile(dp, &g, 1));
 *      check(charl_params_initialize(params, 1)); // the same on every rank
 *      check(charl_optimizer_create(params, &adamw, &optimizer));
 *      for (int64_t step = 0; step < 1000; step++) {
 *          write_rows(g, &mine); // this rank's rows to the inputs
 *          check(charl_data_parallel_run(dp, 0));
 *          check(charl_data_parallel_step(dp, optimizer, 1e-3F));
 *      }
 *
 *  Accumulation runs a step in several passes, each over some of this rank's slices, for models whose activations do
 *  not fit in memory at once. Passes of equal shape share a graph:
 *
 *      charl_data_parallel_options o = {.struct_size = sizeof o, .passes = 4};
 *      const charl_slices *slices;
 *
 *      check(charl_data_parallel_create(comm, &mine, &o, &dp));
 *      for (n = 0; (slices = charl_data_parallel_get_slices(dp, n)); n++) {
 *          check(charl_graph_create(dev, slices, &g[n])); // and build the model on it
 *      }
 *      check(charl_data_parallel_compile(dp, g, n));
 *      const int passes = charl_data_parallel_get_info(dp).passes;
 *      for (int64_t step = 0; step < 1000; step++) {
 *          for (int i = 0; i < passes; i++) {
 *              const charl_data_parallel_pass pass = charl_data_parallel_get_pass(dp, i);
 *              write_rows(g[pass.graph], &pass.slices);
 *              check(charl_data_parallel_run(dp, i));
 *          }
 *          check(charl_data_parallel_step(dp, optimizer, 1e-3F));
 *      }
 *
 *  An audit looks for a device that computes wrong values without an error. Before a step every rank computes the
 *  gradient of the next rank's slices, whose rows options.rows writes; the step compares and fails with ERR_AUDIT:
 *
 *      for (int64_t step = 0; step < 1000; step++) {
 *          if (step % 100 == 0) {
 *              check(charl_data_parallel_audit(dp));
 *          }
 *          write_rows(g, &mine);
 *          check(charl_data_parallel_run(dp, 0));
 *          check(charl_data_parallel_step(dp, optimizer, 1e-3F));
 *      }
 *
 *  With options.balance some steps are measured. If slices in proportion to the ranks' speed would make a step at
 *  least 10 % shorter, the graphs are rebuilt for them:
 *
 *      bool divides;
 *
 *      check(charl_data_parallel_balance(dp, &divides)); // after a step
 *      if (divides) {
 *          charl_graph_destroy(g);
 *          check(charl_data_parallel_divide(dp));
 *          g = build(charl_data_parallel_get_slices(dp, 0));
 *          check(charl_data_parallel_compile(dp, &g, 1));
 *      }
 *
 *  Neither the number of passes nor any other option but reduce_dtype changes a bit of the result.
 *
 *  Destroy graphs and optimizer first, then this object, then the parameters. It belongs to the thread of the
 *  communicator. With one rank everything is done locally.
 */
#include "charl/comm.h"
#include "charl/graph.h"
#include "charl/optim.h"

CHARL_BEGIN_DECLS

typedef struct charl_data_parallel charl_data_parallel;

/** What the ranks divide among them. An optimizer that is not elementwise (charl_optimizer_is_elementwise) must be
 *  named in charl_data_parallel_options.optimizer: a rank then gets whole tensors instead of parts. */
typedef enum charl_shard {
    CHARL_SHARD_NONE,      /* nothing: every rank has everything */
    CHARL_SHARD_OPTIMIZER, /* ZeRO stage 1: a rank keeps the optimizer state of its shard of every bucket of gradients
                              and updates that shard */
    CHARL_SHARD_GRADIENTS, /* also, it gets the sums of that shard only, in the memory of its own gradients: half the
                              traffic of gradients, and no memory for sums */
    CHARL_SHARD_PARAMETERS /* ZeRO stage 3: also, it keeps the parameters of that shard only. Graphs gather a few at a
                              time from all ranks, in the forward and in the backward pass, through host memory.
                              charl_param_read fails, charl_training_save works; the values are gone with the object.
                              Without balance and rows */
} charl_shard;

/** All members may be zero. Must be the same on every rank. */
typedef struct charl_data_parallel_options {
    size_t struct_size; /* sizeof(charl_data_parallel_options) */
    /* algorithm, as charl_allreduce_options.algorithm; NULL: "auto" */
    const char *allreduce;
    /* size of a bucket, gradients that are sent together, in MB of f32, at most 4096; 0: 25 */
    double bucket_mb;
    /* start the all-reduce after the backward pass, for all gradients together */
    bool no_overlap;
    /* CHARL_F32; or CHARL_BF16: half the traffic, and sums rounded in every node of the tree */
    charl_dtype reduce_dtype;
    /* forward and backward passes of a step; 0: as few as possible, 1 for up to 64 slices on a rank */
    int passes;
    charl_shard shard;
    /* measure steps, for charl_data_parallel_balance */
    bool balance;
    /* for charl_data_parallel_audit; NULL: no audits. Writes the rows of `slices` in the audited step to the inputs of
     * graph `graph`, as before a pass */
    charl_status (*rows)(void *ctx, int graph, const charl_slices *slices);
    void *ctx; /* of rows */
    /* with `shard`: type of the optimizer that will be created for the parameters. One that is not elementwise gets
     * whole tensors, assigned to ranks by the work that it has with each; NULL: an elementwise one */
    const char *optimizer;
    /* with `shard`: every node divides among its own ranks, which must be as many on each, and the nodes are replicas
     * of each other; otherwise all ranks divide. No effect on one node; not with CHARL_SHARD_PARAMETERS */
    bool shard_within_nodes;
} charl_data_parallel_options;

/** One pass of a step. */
typedef struct charl_data_parallel_pass {
    int graph;           /* index of the graph that it runs */
    charl_slices slices; /* the inputs of that graph must hold the rows of these slices */
} charl_data_parallel_pass;

/** Results of the audits so far. */
typedef struct charl_data_parallel_audits {
    int64_t count;  /* number of audits in which all ranks agreed */
    double seconds; /* time of all audits on this rank */
    int suspect;    /* rank that the last audit named; -1: none, or several */
} charl_data_parallel_audits;

/** Create the object and plan the steps of this rank, which has the slices `mine`. options may be NULL. comm is
 *  borrowed.
 *
 *  Blocks. Collective. Owned: destroy with charl_data_parallel_destroy.
 *  Errors: ERR_CONFIG   the algorithm is unknown, or a rank has fewer slices than passes
 *          ERR_INVALID  slices that charl/slices.h did not make, a dtype other than f32 and bf16, a negative or NaN
 *                       bucket_mb or passes, or with balance ranks whose slices do not follow one another
 *          ERR_COMM, ERR_NOMEM. Every rank gets the same status. */
charl_status charl_data_parallel_create(charl_comm *comm, const charl_slices *mine,
                                        const charl_data_parallel_options *options,
                                        charl_data_parallel **out) CHARL_MUST_CHECK;

/** The slices that graph k = 0, 1, ... is created for; NULL past the last graph. Without accumulation there is one
 *  graph, over the slices of this rank; otherwise at most one for each pass. Borrowed. Local. */
const charl_slices *charl_data_parallel_get_slices(const charl_data_parallel *dp, int k);

/** Properties of the object. */
typedef struct charl_data_parallel_info {
    int passes; /* of a step */
    /* Bytes of gradients that every rank contributes to the all-reduces of a step, as f32: 4 for each element of a
     * trainable parameter, rounded up to 64 elements, times the uses of the parameter in the graph. 0 with one rank */
    int64_t bytes;
    charl_data_parallel_audits audits; /* so far */
} charl_data_parallel_info;

/** Describe the object; without passes for NULL. Local. */
charl_data_parallel_info charl_data_parallel_get_info(const charl_data_parallel *dp);
/** Pass i of a step, 0 <= i < passes. Local. */
charl_data_parallel_pass charl_data_parallel_get_pass(const charl_data_parallel *dp, int i);

/** Compile the n graphs of a step, one for each charl_data_parallel_get_slices. They have been built with their
 *  gradients and not compiled. Lays out their parameters, with the gradients in memory that the ranks sum. Graphs and
 *  parameters are borrowed. Call it once, and after each charl_data_parallel_divide.
 *
 *  Blocks. Collective.
 *  Errors: as charl_graph_compile, agreed: every rank gets the same status
 *          ERR_INVALID  a graph has other slices, trains another set or has no gradients; the parameters have
 *                       gradients already or, with `shard`, other graphs or optimizers use them; or n is not
 *                       the number of graphs
 *          ERR_CONFIG   the algorithm is unsuitable, the ranks built different graphs, or with accumulation a graph
 *                       needs a sum over the whole batch in the middle of a pass, as batch norm does; with `rows`, the
 *                       ranks cannot compute each other's slices: they have blocks of different sizes, or the graph
 *                       has batch norm and gradients are summed in bf16
 *          ERR_COMM */
charl_status charl_data_parallel_compile(charl_data_parallel *dp, charl_graph *const *graphs, int n) CHARL_MUST_CHECK;

/** Compile a graph over all slices of this rank without gradients, such as one for evaluation, after
 *  charl_data_parallel_compile. Run it with charl_graph_run; its batch sums are taken over the ranks. Blocks.
 *  Collective. Errors: as charl_graph_compile, agreed; ERR_INVALID  other slices or parameters. */
charl_status charl_data_parallel_compile_evaluation(charl_data_parallel *dp, charl_graph *g) CHARL_MUST_CHECK;

/** Run pass i: forward, backward, and the start of the all-reduce. Passes run in order, all of them in every step.
 *  Kept values that are sums or means over the batch are complete after the last pass; after earlier ones they are NaN.
 *  Async, unless the graph has such values. Collective.
 *  Errors: ERR_INVALID  not compiled, or out of order; ERR_COMM, ERR_DEVICE. */
charl_status charl_data_parallel_run(charl_data_parallel *dp, int i) CHARL_MUST_CHECK;

/** Audit the next step. Call it between two steps, after charl_optimizer_begin if there are step parameters
 *  (charl/steps.h) and before the rows of the step are written, because options.rows writes the rows of other ranks to
 *  the inputs. charl_data_parallel_reduce compares the results. No bit of the training changes.
 *
 *  The audit compares the parameters, the gradients and kept losses that two ranks computed of the same slices, the
 *  gradients before they are sent, and their sums. If two ranks differ, a third one decides; with two ranks the message
 *  names both. A single rank computes its own slices twice. The devices must compute the same bits (docs/exactness.md).
 *
 *  Blocks. Collective. Cost: one more run of the graphs, two with batch norm on several ranks; the step reads
 *  parameters, gradients and their sums back to the host.
 *  Errors: ERR_INVALID  no options.rows, or in the middle of a step
 *          the status of options.rows; ERR_COMM, ERR_DEVICE */
charl_status charl_data_parallel_audit(charl_data_parallel *dp) CHARL_MUST_CHECK;

/** Decide, between two steps and with options.balance, whether charl_data_parallel_divide should change the slices of
 *  the ranks: *divides. The decision uses the median of five measured steps, which wait for the device. Blocks once all
 *  five are measured, otherwise Async. Collective. Errors: ERR_COMM. */
charl_status charl_data_parallel_balance(charl_data_parallel *dp, bool *divides) CHARL_MUST_CHECK;

/** Change to the slices that charl_data_parallel_balance decided on. Destroy all graphs before, also evaluation graphs,
 *  and keep parameters and optimizers. Afterwards create graphs for charl_data_parallel_get_slices and compile them
 *  with charl_data_parallel_compile.
 *
 *  Blocks. Collective. Errors: ERR_INVALID  there is nothing to divide; ERR_COMM, ERR_DEVICE, ERR_NOMEM. */
charl_status charl_data_parallel_divide(charl_data_parallel *dp) CHARL_MUST_CHECK;

/** Complete the all-reduce of the step: wait for the other ranks. What is enqueued afterwards, such as
 *  charl_param_read_gradient, sees the sums of the gradients over the global batch. charl_data_parallel_step calls it
 *  unless you have. Blocks. Collective.
 *  Errors: ERR_INVALID  passes are missing; ERR_COMM with the rank that died or fell silent; ERR_DEVICE
 *          ERR_AUDIT    an audit found ranks that differ, which the message names. Every rank gets the same status, and
 *                       the parameters are unchanged */
charl_status charl_data_parallel_reduce(charl_data_parallel *dp) CHARL_MUST_CHECK;

/** Update the parameters: charl_data_parallel_reduce, charl_optimizer_step and, with a sharded optimizer, the exchange
 *  of the parameters. The optimizer was created after charl_data_parallel_compile for the same parameters.
 *
 *  Blocks. Collective.
 *  Errors: ERR_INVALID  no step has run, the optimizer has applied its gradients already, or has another set
 *          as charl_data_parallel_reduce and charl_optimizer_step */
charl_status charl_data_parallel_step(charl_data_parallel *dp, charl_optimizer *optimizer, float lr) CHARL_MUST_CHECK;

/** Free the object, after its graphs and optimizers. NULL is a no-op. Blocks. Collective, except when the communicator
 *  is broken. */
void charl_data_parallel_destroy(charl_data_parallel *dp);

CHARL_END_DECLS

#endif
