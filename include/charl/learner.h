#ifndef CHARL_LEARNER_H
#define CHARL_LEARNER_H
/** A training loop in a few lines: a loss, its parameters and an optimizer, on any number of ranks.
 *
 *      charl_learner *learner = NULL;
 *      float loss;
 *
 *      charl_learner_options options = { // build appends the loss to a graph: see below
 *          .struct_size = sizeof options, .build = build, .batch_size = 128};
 *      CHARL_CHECK(charl_learner_create(&world, NULL, &options, &learner));
 *      for (int64_t step = 0; step < 1000; step++) {
 *          const charl_rows rows[] = {{"x", x}, {"y", y}}; // of this rank: see charl_learner_info
 *
 *          CHARL_CHECK(charl_learner_step(learner, rows, 2, 1e-3F));
 *      }
 *      CHARL_CHECK(charl_learner_read(learner, "loss", &loss, sizeof loss));
 *      charl_learner_destroy(learner);
 *
 *  It stands on charl/data_parallel.h, charl/graph.h and charl/optim.h, whose objects charl_learner_get_info gives to
 *  programs that need more. Several learners in a program train several sets of parameters; the loss of one may use
 *  the parameters of another, which are constants there. A learner belongs to the thread of its device.
 */
#include "charl/data_parallel.h"
#include "charl/world.h"

CHARL_BEGIN_DECLS

typedef struct charl_learner charl_learner;

/** The values of an input for a step: of a BATCHED input the rows of this rank, else all rows. */
typedef struct charl_rows {
    const char *input; /* name given to charl_input */
    const void *data;
} charl_rows;

/** All members but build and batch_size may be zero. A builder appends inputs of `rows` rows and the loss to g, and
 *  returns the loss, f32, one number:
 *
 *      static charl_var *build(void *ctx, charl_graph *g, int64_t rows)
 *      {
 *          const charl_linear_config one = {.out = 1, .bias = true};
 *          charl_var *x = charl_input(g, "x", CHARL_F32, (charl_shape){2, {rows, 8}}, CHARL_BATCHED);
 *          charl_var *y = charl_input(g, "y", CHARL_F32, (charl_shape){2, {rows, 1}}, CHARL_BATCHED);
 *
 *          return charl_batch_mean(g, charl_mse(g, charl_layer_apply(g, NULL, "fc", "linear", &one, x), y));
 *      }
 *
 *  It is called for each graph: one for training, or several with fewer rows where a step has several passes; and by
 *  the first charl_learner_evaluate for a graph in inference mode (charl_graph_is_training), whose loss may be NULL.
 *  The values that charl_output names can be read; "loss" is the loss. Parameters of the learner's set are trained,
 *  parameters of other sets are constants. Layers that are given no set use the learner's. */
typedef struct charl_learner_options {
    size_t struct_size; /* sizeof(charl_learner_options) */
    charl_var *(*build)(void *ctx, charl_graph *g, int64_t rows);
    void *ctx;
    int64_t batch_size;      /* rows of a step, of all ranks */
    int64_t eval_batch_size; /* of charl_learner_evaluate; 0: batch_size */
    /* of the batch (charl/slices.h): a divisor of both sizes, at least the number of ranks. It decides bits, the number
     * of ranks does not. 0: the largest up to 8 */
    int slices;
    uint64_t seed;                           /* of initial values and dropout */
    charl_dtype precision;                   /* of the graphs; f16 brings a dynamic loss scale */
    const charl_optimizer_config *optimizer; /* NULL: charl_optimizer_defaults("adamw") */
    /* gradient accumulation (passes) and more, but no balance; NULL: defaults */
    const charl_data_parallel_options *parallel;
} charl_learner_options;

typedef struct charl_learner_info {
    int64_t rows, first_row;           /* this rank's rows of a step, [first_row, first_row + rows) of batch_size */
    int64_t eval_rows, first_eval_row; /* the same of eval_batch_size */
    charl_slices slices;               /* this rank's, for charl_loader_create */
    charl_params *params;              /* the others make the learner a part of charl_training_save; borrowed */
    charl_optimizer *optimizer;
    charl_data_parallel *dp;
} charl_learner_info;

/** Build and compile the loss with its gradients, give the parameters their initial values unless they have values, and
 *  create the optimizer. `params` is borrowed; NULL: the learner owns a set (charl_learner_info.params). `world` is
 *  borrowed, of which comm and device are used. Owned: charl_learner_destroy, before the parameters.
 *
 *  Blocks. Collective. Errors: ERR_INVALID  no builder, or it returned no loss
 *                              ERR_CONFIG   slices do not divide the batch, or are fewer than the ranks
 *                              as charl_data_parallel_compile and charl_optimizer_create, on every rank */
charl_status charl_learner_create(const charl_world *world, charl_params *params, const charl_learner_options *options,
                                  charl_learner **out) CHARL_MUST_CHECK;

/** NULL is a no-op. Collective, except when the communicator is broken. */
void charl_learner_destroy(charl_learner *l);

/** All 0 for NULL. Local. */
charl_learner_info charl_learner_get_info(const charl_learner *l);

/** One update with learning rate lr: the gradients of the loss over the batch, of which `rows` [n] are this rank's
 *  part, added up over passes and ranks, then the optimizer. Every BATCHED input must be among the rows; others keep
 *  their values. The rows are free again on return.
 *
 *  Async, but waits for the other ranks. Collective. Errors: ERR_INVALID  an input is missing or unknown; else as
 *  charl_data_parallel_run and charl_data_parallel_step. */
charl_status charl_learner_step(charl_learner *l, const charl_rows *rows, int n, float lr) CHARL_MUST_CHECK;

/** Compute the outputs for rows of a batch of eval_batch_size in inference mode. The first call builds the graph.
 *  Collective, like its batch sums. Async, but for the first call. Errors: as charl_learner_step and
 *  charl_data_parallel_compile_evaluation. */
charl_status charl_learner_evaluate(charl_learner *l, const charl_rows *rows, int n) CHARL_MUST_CHECK;

/** Copy the output `name` of the last charl_learner_step or charl_learner_evaluate, `bytes` bytes, to dst: a sum or
 *  mean over the batch includes all ranks, a BATCHED output has this rank's rows, of the last pass where there are
 *  several. Blocks. Local. Errors: ERR_INVALID  nothing has run, no such output, or another size; ERR_DEVICE. */
charl_status charl_learner_read(const charl_learner *l, const char *name, void *dst, size_t bytes) CHARL_MUST_CHECK;

CHARL_END_DECLS

#endif
