#ifndef CHARL_GRAPH_H
#define CHARL_GRAPH_H
/** A model's computation: built once, compiled once, run every step.
 *
 *      const charl_shape shape = {2, {4, 3}};
 *      float in[12] = {1, 2, 3}, out[12];
 *      charl_graph *g = NULL;
 *
 *      check(charl_graph_create(dev, NULL, &g));
 *      charl_var *x = charl_input(g, "x", CHARL_F32, shape, CHARL_BATCHED);
 *      charl_var *y = charl_relu(g, charl_scale(g, x, 2.0F, -1.0F)); // max(2 x - 1, 0)
 *
 *      charl_graph_keep(g, y); // to be read
 *      check(charl_graph_compile(g));
 *      check(charl_tensor_write(charl_var_get_tensor(x), in, sizeof in));
 *      check(charl_graph_run(g));
 *      check(charl_tensor_read(charl_var_get_tensor(y), out, sizeof out));
 *      charl_graph_destroy(g);
 *
 *  Builders (charl/ops.h) append operators and return the new charl_var; the graph keeps the first
 *  error, NULL in gives NULL out, and charl_graph_compile returns that error, so that models read
 *  like formulas. A graph OWNS its vars: they are borrowed pointers that die with it. Parameters
 *  belong to their charl_params sets and outlive the graph. A graph belongs to one thread and one
 *  device.
 *
 *  Every var is in one of three states. REPLICATED: the same on every rank. BATCHED: the leading
 *  extent counts this rank's rows of the global batch, and row i depends on row i of the
 *  inputs only. PARTIAL: a sum over rows of the batch that is not yet completed over ranks;
 *  charl_batch_sum completes it, and the graph inserts one where an operator needs it.
 */
#include "charl/device.h"
#include "charl/params.h"
#include "charl/shape.h"
#include "charl/slices.h"
#include "charl/steps.h"
#include "charl/tensor.h"

CHARL_BEGIN_DECLS

typedef struct charl_graph charl_graph;
typedef struct charl_var charl_var;

typedef enum charl_batch { CHARL_REPLICATED, CHARL_BATCHED, CHARL_PARTIAL } charl_batch;

/** Static type of a var: what is known before anything is allocated. */
typedef struct charl_type {
    charl_dtype dtype;
    charl_shape shape;
    charl_batch batch;
} charl_type;

/** Create an empty graph on dev; NULL for one that is only built and exported, not compiled. `slices` are
 *  this rank's slices of the batch (charl/slices.h), 1 to CHARL_GRAPH_SLICES, copied; NULL is one slice on one rank.
 *  Owned: destroy with charl_graph_destroy. Local. Errors: ERR_INVALID, ERR_NOMEM. */
charl_status charl_graph_create(charl_device *dev, const charl_slices *slices, charl_graph **out) CHARL_MUST_CHECK;
/** Free a graph, after its work in flight has ended. NULL is a no-op. Blocks. Local. */
void charl_graph_destroy(charl_graph *g);

/** Choose training (true, the default) or inference, for dropout and batch norm. Set before building.
 *  Local. */
void charl_graph_set_training(charl_graph *g, bool training);
bool charl_graph_is_training(const charl_graph *g);

/** Choose the element type of activations and of the parameters' working copy: f32 (the default), bf16 or f16.
 *  Set before building. charl_parameter then gives parameters with two or more extents in that
 *  type, rounded from their f32 values; those with fewer, batch sums, statistics, losses and all
 *  gradients of parameters stay f32. Inputs have the type they are declared with: charl_cast converts them.
 *  An operator that does not support the type is an error of charl_graph_compile, which names the layer. Local. */
void charl_graph_set_precision(charl_graph *g, charl_dtype precision);
charl_dtype charl_graph_get_precision(const charl_graph *g);

/** Use seed, step and loss scale of `steps` (borrowed), which an optimizer writes before each run
 *  (charl_optimizer_begin). Set before the gradients are built and before compiling. Local. */
void charl_graph_set_steps(charl_graph *g, charl_steps *steps);
/** The loss scale of the graph's steps, an f32 scalar, REPLICATED, for the gradient of charl_graph_backward. 1 without
 *  a loss scale. Borrowed. Local. */
charl_var *charl_graph_loss_scale(charl_graph *g);

/** Prefix the names of nodes that are built between begin and end: "fc1" then "linear" gives "fc1.linear".
 *  Scopes nest. Local. */
void charl_graph_scope_begin(charl_graph *g, const char *name);
void charl_graph_scope_end(charl_graph *g);

/** Declare an input: a value that the program writes before each run, in memory of its own. For BATCHED, dim[0] is the
 *  rows of this rank and must be a multiple of its slices. Borrowed from the graph. Local. */
charl_var *charl_input(charl_graph *g, const char *name, charl_dtype dtype, charl_shape shape, charl_batch batch);
/** The value of a parameter, in the graph's precision. Two calls give the same var. Borrowed.
 *  Local. */
charl_var *charl_parameter(charl_graph *g, charl_param *p);
/** Choose the set that the graph trains, if it uses parameters of several sets, such as a generator's and a
 *  discriminator's: gradients belong to `set` (borrowed), and parameters of other sets are constants through which
 *  gradients flow. A graph with parameters of one set trains that set. Call before charl_graph_backward. Local. */
void charl_graph_set_trained(charl_graph *g, charl_params *set);
/** A constant, an f32 scalar. Borrowed. Local. */
charl_var *charl_constant(charl_graph *g, float value);

/** Keep a var: it is not removed as a dead node, and its memory is not reused, so that it can be read
 *  after a run. Local. */
void charl_graph_keep(charl_graph *g, charl_var *v);
/** Keep a var under a name that no input and no other output has, for charl_learner_read. A PARTIAL one is completed
 *  over the ranks. NULL is a no-op. Local. */
void charl_output(charl_graph *g, const char *name, charl_var *v);

/** Append the gradient of y with respect to every trainable parameter of the set that the graph trains and every var
 *  passed to charl_graph_require_gradient.
 *
 *    y         a loss: f32, one number, PARTIAL or REPLICATED; or any value
 *    gradient  with respect to y. For a loss one number, NULL means 1; for other values a var of y's shape and state,
 *              and of its type (f32 if y is not BATCHED)
 *
 *  Local. */
void charl_graph_backward(charl_graph *g, charl_var *y, charl_var *gradient);
/** Request the gradient of an input, f32, bf16 or f16, before the input is used. Local. */
void charl_graph_require_gradient(charl_graph *g, charl_var *v);
/** Gradient of a var after charl_graph_backward; NULL if the loss does not depend on it. The gradient of a
 *  parameter is read-only: a value written to it would not reach other ranks. Borrowed. Local. */
charl_var *charl_var_get_gradient(const charl_var *v);

/** Compile the graph: remove dead nodes, fuse operators, plan memory and record launches. The first graph of a
 *  parameter set also lays out and allocates parameters and gradients. Returns the first error of building, whose
 *  message names the layer. Blocks. Local. Errors: ERR_SHAPE, ERR_DTYPE, ERR_INVALID, ERR_NOMEM (the message says what
 *  is needed and what lowers it), ERR_KERNEL, ERR_DEVICE. */
charl_status charl_graph_compile(charl_graph *g) CHARL_MUST_CHECK;

/** Run every launch once without changing parameters or statistics, so that later runs compile and allocate nothing.
 *  Blocks. Local. Errors: ERR_INVALID  not compiled; ERR_DEVICE, ERR_KERNEL. */
charl_status charl_graph_warm_up(charl_graph *g) CHARL_MUST_CHECK;

/** Enqueue one run. Async and Local, unless the graph holds collectives over several ranks.
 *  Errors: ERR_INVALID  not compiled; ERR_DEVICE, ERR_COMM. */
charl_status charl_graph_run(charl_graph *g) CHARL_MUST_CHECK;

/** Enqueue only the forward pass, or only the gradients, of a compiled graph on the values of its last run, to
 *  recompute a loss or to time either. It uses that run's random numbers and step. Async. Local.
 *  Errors: ERR_INVALID  not compiled, or the graph has part of the batch only; ERR_DEVICE. */
charl_status charl_graph_run_forward(charl_graph *g) CHARL_MUST_CHECK;
charl_status charl_graph_run_backward(charl_graph *g) CHARL_MUST_CHECK;

/** Tensor of an input, parameter or kept var of a compiled graph; of a PARTIAL var this rank's lanes,
 *  [n_lanes, ...]. NULL for a var whose memory may be reused. Borrowed. Local. */
charl_tensor *charl_var_get_tensor(const charl_var *v);
/** Element type, shape and state of a var. Local. */
charl_type charl_var_get_type(const charl_var *v);
/** Name of a var with its scopes, such as "fc1.linear". Borrowed. Local. */
const char *charl_var_get_name(const charl_var *v);

/** First error of building so far. Local. */
charl_status charl_graph_status(const charl_graph *g) CHARL_MUST_CHECK;

/** Size and memory of a compiled graph. */
typedef struct charl_graph_info {
    int nodes, launches, collectives;
    int forward_launches;     /* of them; the others compute gradients */
    int fused;                /* launches saved by fusion */
    int64_t activation_bytes; /* planned arena, workspace included */
    int64_t unplanned_bytes;  /* bytes of the same values without reuse of memory */
    int64_t input_bytes;
    double flop; /* floating-point operations of the matrix products of a run, convolutions and
                    attention included */
} charl_graph_info;
/** Local. */
charl_graph_info charl_graph_get_info(const charl_graph *g);

/** Print the graph: one line per node (id, operator, name, inputs, type, bytes), or Graphviz dot. *out: a new string
 *  owned by the caller (charl_free). Local. Errors: ERR_NOMEM. */
charl_status charl_graph_print(const charl_graph *g, bool dot, char **out) CHARL_MUST_CHECK;

/** Run the operator named `op` immediately, without a graph, to inspect a tensor. Operators that
 *  have settings (a window, an axis) are not available. out[0..3] get new tensors owned by the
 *  caller, NULL past the operator's outputs.
 *
 *  Async. Local.
 *  Errors: ERR_INVALID  no such operator, or it has settings
 *          ERR_SHAPE, ERR_DTYPE, ERR_NOMEM, ERR_KERNEL, ERR_DEVICE */
charl_status charl_apply(charl_device *dev, const char *op, charl_tensor *const *in, int n_in,
                         charl_tensor **out) CHARL_MUST_CHECK;

/** Compare gradients of a compiled graph with central differences of its loss, at up to `samples`
 *  elements of every trainable parameter. *worst gets the largest |got - want| / (|want| + max |gradient|), over the
 *  gradient of a parameter. Parameters keep their values. Blocks. Local. Cost: two runs for each element.
 *  Errors: ERR_INVALID  no gradients, a loss that is not kept, part of the batch, or a loss scale
 *          as charl_graph_run */
charl_status charl_gradcheck(charl_graph *g, charl_var *loss, int samples, double *worst) CHARL_MUST_CHECK;

CHARL_END_DECLS

#endif
