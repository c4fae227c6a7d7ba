#ifndef CHARL_AUTOGRAD_LAUNCH_MAP_H
#define CHARL_AUTOGRAD_LAUNCH_MAP_H
/** The elementwise engine, for operators whose expression needs numbers or additional
 *  operands. */
#include "elementwise/map_args.h"
#include "autograd/op.h"

enum { CHARL_MAP_MAX_IN = CHARL__MAP_OPERANDS };
/** Elements that a work-item processes at a time on devices with work-groups: 16 bytes of a half type. */
enum { CHARL_GPU_VEC = 8 };

/** out = EXPR(in[0], in[1], ...; p, q). Operands broadcast over out's shape. */
typedef struct charl__map {
    const char *expr; /* OpenCL C of a .. f (charl_real: float or a vector of floats) and the floats p, q */
    charl_tensor *const *in;
    int n_in;
    charl_tensor *out;
    float p, q;
} charl__map;

/** One launch. Async. Errors: ERR_SHAPE when an operand does not broadcast, ERR_KERNEL, ERR_DEVICE.
 */
charl_status charl__map_run(const charl__enqueue *e, const charl__map *m) CHARL_MUST_CHECK;

/** out[0] = x elementwise over the operands of e, without draws. One launch. Async. Errors: as
 *  charl__map_run. */
charl_status charl__map_expr(const charl__enqueue *e, const charl__expr *x) CHARL_MUST_CHECK;

/** Computes WHOLE of kernels/elementwise/broadcast.clh for a launch over n elements in vectors of
 *  `vec`: begin, add every operand with its broadcasting and every output (inner 1, count n), then query. */
typedef struct charl__whole {
    int64_t n;
    int vec;
    bool all, elements, neighbours; /* kinds of broadcasting seen */
} charl__whole;

charl__whole charl__whole_begin(const charl_device *dev, int64_t n, int vec);
void charl__whole_add(charl__whole *w, const charl_tensor *t, int64_t inner, int64_t count);
int charl__whole_kind(const charl__whole *w);

/** Work-items of a 1-D launch in which each handles `span` of n elements, and their group. */
void charl__span_launch(const charl_device *dev, int64_t n, int64_t span, charl__launch *l);
/** Span for n elements: a few thousand on devices without work-groups, `gpu` elsewhere. A multiple of
 *  16 or `gpu`. */
int64_t charl__span(const charl_device *dev, int64_t n, int64_t gpu);
/** T, an unsigned type as large as an element, for kernels that only move data. */
const char *charl__word_type(charl_dtype dtype);
/** Simple kernels run without groups, vectorised inside a work-item. */
bool charl__is_ungrouped(const charl_device *dev);

/* Gradients of broadcasting. */
/** g, if its shape is `like.shape`, otherwise g summed over the elements that broadcasting `like` to the shape
 *  of g repeated. */
charl_var *charl__sum_like(charl_graph *g, charl_var *v, const charl_type *like);
/** In a reference: index of the element of operand i that broadcasts to element e of output 0. */
int64_t charl__reference_index(const charl__reference *r, int i, int64_t e);

/* Samples of an operator of one operand; two; their ranges are the caller's. */
#define CHARL_MAP_SAMPLES1(...)                                                                                        \
    {.in = {CHARL_R(F32, 3, 5)}, __VA_ARGS__}, {.in = {CHARL_R(F32, 1)}, __VA_ARGS__},                                 \
        {.in = {CHARL_SCALAR(F32)}, __VA_ARGS__}, {.in = {CHARL_R(F32, 0, 4)}, __VA_ARGS__},                           \
        {.in = {CHARL_R(F32, 7, 613)}, __VA_ARGS__}, {.in = {CHARL_R(F32, 2, 3, 4133)}, __VA_ARGS__},                  \
    {                                                                                                                  \
        .in = {CHARL_B(F32, 16, 37)}, __VA_ARGS__                                                                      \
    }
#define CHARL_MAP_SAMPLES2(...)                                                                                        \
    {.in = {CHARL_R(F32, 3, 5), CHARL_R(F32, 3, 5)}, __VA_ARGS__},                                                     \
        {.in = {CHARL_R(F32, 1), CHARL_R(F32, 1)}, __VA_ARGS__},                                                       \
        {.in = {CHARL_SCALAR(F32), CHARL_SCALAR(F32)}, __VA_ARGS__},                                                   \
        {.in = {CHARL_R(F32, 0, 4), CHARL_R(F32, 0, 4)}, __VA_ARGS__},                                                 \
        {.in = {CHARL_R(F32, 7, 613), CHARL_R(F32, 7, 613)}, __VA_ARGS__},                                             \
        {.in = {CHARL_R(F32, 5, 2017), CHARL_R(F32, 5, 2017)}, __VA_ARGS__},                                           \
    {                                                                                                                  \
        .in = {CHARL_B(F32, 16, 37), CHARL_B(F32, 16, 37)}, __VA_ARGS__                                                \
    }
/* Operand 1 broadcasts: a scalar, along the end, the middle, the front; with and without the batch.
 * `terms` is the number of elements that share an element of operand 1. */
#define CHARL_MAP_SAMPLES_BROADCAST(...)                                                                               \
    {.in = {CHARL_R(F32, 3, 5), CHARL_SCALAR(F32)}, .terms = 15, __VA_ARGS__},                                         \
        {.in = {CHARL_R(F32, 9, 5), CHARL_R(F32, 5)}, .terms = 9, __VA_ARGS__},                                        \
        {.in = {CHARL_R(F32, 3, 300), CHARL_R(F32, 300)}, .terms = 3, __VA_ARGS__},                                    \
        {.in = {CHARL_R(F32, 2, 3, 5, 7), CHARL_R(F32, 3, 1, 1)}, .terms = 70, __VA_ARGS__},                           \
        {.in = {CHARL_R(F32, 2, 3, 20, 7), CHARL_R(F32, 1, 3, 1, 1)}, .terms = 280, __VA_ARGS__},                      \
        {.in = {CHARL_R(F32, 6, 70), CHARL_R(F32, 6, 1)}, .terms = 70, __VA_ARGS__},                                   \
        {.in = {CHARL_B(F32, 16, 6), CHARL_R(F32, 6)}, .terms = 16, __VA_ARGS__},                                      \
        {.in = {CHARL_B(F32, 16, 3, 4, 4), CHARL_R(F32, 3, 1, 1)}, .terms = 256, __VA_ARGS__},                         \
        {.in = {CHARL_B(F32, 16, 3, 5), CHARL_R(F32, 3, 5)}, .terms = 16, __VA_ARGS__},                                \
        {.in = {CHARL_B(F32, 8, 37), CHARL_B(F32, 8, 1)}, .terms = 37, __VA_ARGS__},                                   \
    {                                                                                                                  \
        .in = {CHARL_B(F32, 8, 37), CHARL_SCALAR(F32)}, .terms = 296, __VA_ARGS__                                      \
    }

#endif
