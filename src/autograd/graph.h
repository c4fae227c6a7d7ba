#ifndef CHARL_AUTOGRAD_GRAPH_H
#define CHARL_AUTOGRAD_GRAPH_H
/** Internal functions of a graph that the data-parallel trainer needs: step parameters, communication hooks, compilation in
 *  two steps. */
#include "base/numeric/tree.h"
#include "charl/graph.h"
#include "tensor/step_params.h"

/** Complete a sum over ranks: lanes f32 [n_lanes, n], sum f32 [n], both on the device. Called from
 *  charl_graph_run after the launches that write the lanes have been enqueued; launches that read
 *  the sum are enqueued after it returns. */
typedef charl_status (*charl__collective_fn)(void *ctx, charl_tensor *lanes, charl_tensor *sum);
/** Elements [begin, begin + count) of every lane of the gradient arena are final once the commands
 *  enqueued so far have run. */
typedef charl_status (*charl__ready_fn)(void *ctx, int64_t begin, int64_t count);

/** A divided parameter, and where a graph gathers it. */
typedef struct charl__gathered {
    const charl_param *param;
    charl_tensor *to;
} charl__gathered;
/** Gather n parameters for launches that are enqueued after it returns. Launches enqueued before may read what is at `to`.
 *  The graph will gather n_next others next; 0: none in this run. */
typedef charl_status (*charl__gather_fn)(void *ctx, const charl__gathered *block, int n, const charl__gathered *next,
                                         int n_next);

/* Call these before charl_graph_compile. */
void charl__graph_on_collective(charl_graph *g, charl__collective_fn fn, void *ctx);
/** Report gradients in buckets of at least bucket_elements neighbouring elements of the arena,
 *  each bucket as soon as it is final. */
void charl__graph_on_ready(charl_graph *g, charl__ready_fn fn, void *ctx, int64_t bucket_elements);
void charl__graph_on_gather(charl_graph *g, charl__gather_fn fn, void *ctx);

/** Write gradients to the lanes of `gradients` (borrowed; as many lanes as the graph's slices have) instead of the arena of the set. */
void charl__graph_use_gradients(charl_graph *g, charl__buffer *gradients);
/** Reuse the activation memory of `other`, a compiled graph, as far as it suffices. A run of one graph then overwrites the values of the
 *  other, kept vars included. */
void charl__graph_share_activations(charl_graph *g, const charl_graph *other);
/** What the backward pass computes again, with the same bits, instead of keeping it. parts: all but the inputs of segments
 *  (autograd/graph_segments.h). cheap, without parts: values of elementwise operators and norms whose operands are kept anyway, for a few more
 *  passes over memory. Call it before charl_graph_backward; off by default. Local. */
void charl__graph_set_recompute(charl_graph *g, bool parts, bool cheap);
/** Run over the slices [first, first + count) from now on, instead of those g was created for: the same number, in lanes of the same lengths.
 *  Only random draws depend on it. Compiled graphs only. Errors: ERR_DEVICE. */
charl_status charl__graph_move(charl_graph *g, const charl_slices *slices) CHARL_MUST_CHECK;
/** Do not fuse the operators of g, so that charl__graph_check can inspect each. Call it before the graph is prepared. The results have
 *  the same bits. */
void charl__graph_set_checkable(charl_graph *g, bool checkable);
/** The step parameters of a compiled graph: those passed to it, or its own. Borrowed. */
charl_steps *charl__graph_steps(const charl_graph *g);
/** Make the next run number n, from 0, if the graph counts steps itself (charl/steps.h): random draws depend on it. */
void charl__graph_count_from(charl_graph *g, uint64_t n);
/** From the next run on, read back the result of every operator of a checkable graph, and end the run with ERR_NONFINITE at the first NaN
 *  or infinity. The message names operator, formula and element. Slow. */
void charl__graph_check(charl_graph *g, bool on);
/** Name of a node that needs a sum over the whole batch in the middle of a run, because gradients depend on it; NULL: none. Prepared graphs
 *  only. */
const char *charl__graph_collective(const charl_graph *g);
/** Whether charl__graph_move can compute the lanes of other slices. False if a gradient is completed before it is written to the lanes: the
 *  compiled graph writes it to the lane of slice 0. Prepared graphs only. */
bool charl__graph_can_move(const charl_graph *g);

/** Bind input v to tensor t (retained; same type and number of elements) instead of its own memory: a data set shared by graphs, a
 *  ring. */
void charl__graph_bind_input(charl_graph *g, charl_var *v, charl_tensor *t);

/** How linear layers compute their products: of operands as they are, of 8-bit operands (op/linear/fp8.h), with integers (charl_linear_integer). */
typedef enum charl__linear_kind { CHARL__LINEAR_PLAIN, CHARL__LINEAR_FP8, CHARL__LINEAR_INTEGER } charl__linear_kind;
/** For linear layers appended from now on. */
void charl__graph_set_linear(charl_graph *g, charl__linear_kind kind);
charl__linear_kind charl__graph_get_linear(const charl_graph *g);

/** Declare that sequences of the batch contain several documents, which do not attend to each other: starts, i32 [B, T], as in
 *  charl_attention_args. Attention appended from now on uses it. NULL: one document each. */
void charl__graph_set_starts(charl_graph *g, charl_var *starts);
charl_var *charl__graph_starts(const charl_graph *g);
/** Positions in their documents, i32 [B, T]; NULL where there are no starts. */
charl_var *charl__graph_document_positions(charl_graph *g);

/** Declare that an input holds padded sequences: x, i32 [B, T], as in charl__padded_sequences. Returns its tokens, all below `vocab`
 *  (0: unknown). Attention ignores keys after the end of a sequence. Up to 8 inputs. */
charl_var *charl__graph_set_padded(charl_graph *g, charl_var *x, int64_t vocab);
bool charl__graph_has_padding(const charl_graph *g);
/** Declare that input tokens are below `vocab`: an embedding has a row for each. */
void charl__graph_set_vocab(charl_graph *g, int64_t vocab);
/** The value passed to set_padded or set_vocab; 0: none. */
int64_t charl__graph_vocab(const charl_graph *g);
/** Which extent of x holds the positions of padded sequences, T or T + 1 with an additional first position (class_token): 1 or more. Operators
 *  propagate it from the model's input. 0: none; negative: x of more than two extents has one, but the ends of the sequences are unknown. */
int charl__var_positions(const charl_var *x);
/** Whether x has positions of padded sequences, or is computed from such values by an operator that leaves open where they are. */
bool charl__var_has_padding(const charl_var *x);
/** Set it, in operators that handle padding; 0: x no longer depends on where its sequences end. x may be NULL. */
void charl__var_set_positions(charl_var *x, int axis);
/** Whether the sequences of x, whose positions are an extent, have an additional first position. */
bool charl__var_is_shifted(const charl_var *x);
/** The number of its positions that are not padding, i32 [B]; NULL: charl__var_positions is no extent. */
charl_var *charl__graph_lengths(charl_var *x);

/** The input or output of this name, or NULL. Whether a variable is an input. The k-th BATCHED input; NULL past the last. */
charl_var *charl__graph_find(const charl_graph *g, const char *name);
bool charl__var_is_input(const charl_var *v);
charl_var *charl__graph_get_batched_input(const charl_graph *g, int k);

/** The set of the graph's parameters, borrowed; NULL: it has none so far. Whether it has its backward pass. */
charl_params *charl__graph_params(const charl_graph *g);
bool charl__graph_has_gradients(const charl_graph *g);

/** First part of compile: remove dead nodes, lay out and allocate the parameters. Afterwards the
 *  sizes of the arenas are known, and the caller may allocate the gradients itself
 *  (charl__params_allocate_gradients). */
charl_status charl__graph_prepare(charl_graph *g) CHARL_MUST_CHECK;

/** Bytes of activations that the graph will need, before any are allocated. Prepares the graph. */
charl_status charl__graph_measure(charl_graph *g, int64_t *bytes) CHARL_MUST_CHECK;

/** Number of nodes so far. The cost of nodes [first, end): floating-point operations of their products, and bytes of the values that they
 *  compute. The graph need not be compiled. */
int charl__graph_count(const charl_graph *g);
void charl__graph_cost(const charl_graph *g, int first, int end, double *flop, int64_t *bytes);

/** The node during which most activations are alive. */
typedef struct charl__peak {
    const char *name; /* borrowed from the graph */
    int64_t bytes;    /* of all of them; the arena may be larger because of gaps */
    bool is_backward;
} charl__peak;
/** A value that is alive then: its name, type and bytes, with all lanes; type NULL: the workspace of the node of that name. */
typedef charl_status (*charl__alive_fn)(void *ctx, const char *name, const charl_type *type, int64_t bytes);
/** Visit the values that are alive at the peak. Compiled graphs only. Errors: ERR_NOMEM, those of visit. */
charl_status charl__graph_peak(const charl_graph *g, charl__alive_fn visit, void *ctx,
                               charl__peak *out) CHARL_MUST_CHECK;

/** Number of buckets that one run reports, and their ranges in the order reported. Compiled graphs
 *  only. */
int charl__graph_bucket_count(const charl_graph *g);
void charl__graph_bucket(const charl_graph *g, int i, int64_t *begin, int64_t *count);
/** Elements of the one that is reported last. */
int64_t charl__graph_last_bucket(const charl_graph *g);
/** Gather as a run does, without launches. Collective. */
charl_status charl__graph_run_gathers(charl_graph *g) CHARL_MUST_CHECK;
/** A hash of the parameters that a run gathers, in order. Compiled graphs only. */
uint64_t charl__graph_gather_digest(const charl_graph *g);
/** Fraction of the backward pass's launches that follow the report of bucket i, 0 to 1. It may differ between ranks. */
double charl__graph_bucket_left(const charl_graph *g, int i);

#endif
