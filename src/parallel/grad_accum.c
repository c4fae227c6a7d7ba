/* Several passes per step.
 *
 * A few additions follow each pass. The distinct ones are recorded once:
 *
 *     pass     0      1      2      3            slots after it, of 4 slices
 *              TAKE 0                            [0]
 *                     ADD 0                      [0+1]
 *                            TAKE 1              [0+1] [2]
 *                                   ADD 1        [0+1] [2+3]
 *                                   MERGE 0      [0+1+2+3]
 */
#include "parallel/grad_accum.h"

#include <string.h>

#include "base/alloc.h"

/* TAKE: slot[to] = a lane of a pass of this shape. ADD: slot[to] += such a lane. MERGE: slot[to] += slot[to + 1]. */
typedef struct fold_step {
    enum { TAKE, ADD, MERGE } kind;
    int to, lane, shape;
} fold_step;

typedef struct pass {
    charl_slices slices;
    int shape;
    int first, last; /* steps */
} pass;

struct charl__grad_accum {
    charl_slices mine;
    int n, n_shapes;
    pass *pass;
    fold_step *kind; /* the different steps: the launches of the recordings */
    int n_kinds;
    int *step; /* the distinct steps: the launches of the recordings */
    int n_steps;
    int depth; /* the most slots in use at the same time; the rank's lanes come first */
    int most_lanes;
    charl_params *set; /* borrowed */
    charl__buffer *partial, *counter;
    charl_tensor *loss; /* f32 [depth] */
    charl__recording *gradients, *losses;
};

typedef struct node {
    int lo, hi;
} node;

static bool are_siblings(const node *a, const node *b, int total)
{
    return a->hi == b->lo && charl__tree_are_siblings(total, a->lo, b->lo, b->hi);
}

static charl_status add_step(charl__grad_accum *p, fold_step s)
{
    int k = 0;

    while (k < p->n_kinds && memcmp(&p->kind[k], &s, sizeof s) != 0) {
        k++;
    }
    if (k == p->n_kinds) {
        CHARL_TRY(charl__grow(p->n_kinds, sizeof *p->kind, &p->kind));
        p->kind[p->n_kinds++] = s;
    }
    CHARL_TRY(charl__grow(p->n_steps, sizeof *p->step, &p->step));
    p->step[p->n_steps++] = k;
    return CHARL_OK;
}

/* The shape of an earlier, equal pass, or a new one. */
static int find_shape(charl__grad_accum *p, const pass *q)
{
    for (const pass *earlier = p->pass; earlier < q; earlier++) {
        if (charl__slices_are_alike(&earlier->slices, &q->slices)) {
            return earlier->shape;
        }
    }
    return p->n_shapes++;
}

/* As in a binary counter: each lane is added to its sibling at the top of the stack, or becomes the top. */
static charl_status plan_pass(charl__grad_accum *p, pass *q, node *stack, int *depth)
{
    q->shape = find_shape(p, q);
    q->first = p->n_steps;
    for (int j = 0; j < q->slices.n_lanes; j++) {
        const node lane = {q->slices.lane_lo[j], q->slices.lane_hi[j]};

        if (*depth > 0 && are_siblings(&stack[*depth - 1], &lane, p->mine.total)) {
            CHARL_TRY(add_step(p, (fold_step){ADD, *depth - 1, j, q->shape}));
            stack[*depth - 1].hi = lane.hi;
        } else {
            CHARL_TRY(add_step(p, (fold_step){TAKE, *depth, j, q->shape}));
            stack[(*depth)++] = lane;
            p->depth = *depth > p->depth ? *depth : p->depth;
        }
        while (*depth > 1 && are_siblings(&stack[*depth - 2], &stack[*depth - 1], p->mine.total)) {
            CHARL_TRY(add_step(p, (fold_step){MERGE, *depth - 2, 0, 0}));
            stack[*depth - 2].hi = stack[*depth - 1].hi;
            --*depth;
        }
    }
    q->last = p->n_steps;
    return CHARL_OK;
}

int charl__grad_accum_least(int slices)
{
    return (slices + CHARL_GRAPH_SLICES - 1) / CHARL_GRAPH_SLICES;
}

/* Where pass i of n begins: no pass has more slices than the first. */
static int cut(const charl_slices *mine, int i, int n)
{
    return mine->first + (mine->count * i + n - 1) / n;
}

charl_status charl__grad_accum_create(const charl_slices *mine, int n, charl__grad_accum **out)
{
    charl_status st = CHARL_OK;
    charl__grad_accum *p = NULL;
    node stack[2 * CHARL_MAX_LANES];
    int depth = 0;

    *out = NULL;
    CHARL_REQUIRE_CLEANUP(n >= 1 && n <= mine->count, CHARL_ERR_CONFIG,
                          "passes = %d, but a rank has %d of the %d slices; a pass takes at least one", n, mine->count,
                          mine->total);
    CHARL_INVARIANT(n >= charl__grad_accum_least(mine->count));
    CHARL_TRY_CLEANUP(charl__alloc(sizeof *p, &p));
    CHARL_TRY_CLEANUP(charl__alloc_array(n, sizeof *p->pass, &p->pass));
    p->mine = *mine;
    p->n = n;
    for (int i = 0; i < n; i++) {
        const int first = cut(mine, i, n), end = cut(mine, i + 1, n);

        CHARL_TRY_CLEANUP(charl_slices_range(mine->total, first, end - first, &p->pass[i].slices));
        CHARL_TRY_CLEANUP(plan_pass(p, &p->pass[i], stack, &depth));
        p->most_lanes = p->pass[i].slices.n_lanes > p->most_lanes ? p->pass[i].slices.n_lanes : p->most_lanes;
    }
    CHARL_INVARIANT(depth == mine->n_lanes);
    *out = p;
    p = NULL;
cleanup:
    charl__grad_accum_destroy(p);
    return st;
}

void charl__grad_accum_destroy(charl__grad_accum *p)
{
    if (p) {
        charl__recording_destroy(p->gradients);
        charl__recording_destroy(p->losses);
        charl_free(p->pass);
        charl_free(p->kind);
        charl_free(p->step);
        charl__buffer_release(p->partial);
        charl__buffer_release(p->counter);
        charl_tensor_release(p->loss);
        charl_free(p);
    }
}

int charl__grad_accum_count(const charl__grad_accum *p)
{
    return p->n;
}

const charl_slices *charl__grad_accum_slices(const charl__grad_accum *p, int i)
{
    return &p->pass[i].slices;
}

int charl__grad_accum_shapes(const charl__grad_accum *p)
{
    return p->n_shapes;
}

int charl__grad_accum_shape(const charl__grad_accum *p, int i)
{
    return p->pass[i].shape;
}

int charl__grad_accum_depth(const charl__grad_accum *p)
{
    return p->depth;
}

int charl__grad_accum_arenas(const charl__grad_accum *p)
{
    return p->most_lanes + p->depth - p->mine.n_lanes;
}

charl__buffer *charl__grad_accum_gradients(const charl__grad_accum *p)
{
    return p->partial;
}

/* Slot k of the gradients, at its first element. */
static charl__arg slot_of(const charl__grad_accum *p, charl__arg_kind kind, int k)
{
    const bool own = k < p->mine.n_lanes;
    charl__arg a = charl__raw(kind, own ? p->set->grad : p->counter);

    a.v.offset = (own ? k : k - p->mine.n_lanes) * p->set->gradient_elements;
    return a;
}

static charl_status enqueue_copy(charl__arg to, charl__arg from, int64_t n)
{
    const charl_shape shape = {1, {n}};
    CHARL_SCOPED(charl__tensor_left) charl_tensor *dst = NULL, *src = NULL;

    CHARL_TRY(charl__tensor_view(from.buffer, CHARL_F32, &shape, from.v.offset, &src));
    CHARL_TRY(charl__tensor_view(to.buffer, CHARL_F32, &shape, to.v.offset, &dst));
    return charl_tensor_copy(src, dst);
}

/* to = from, or to += from, of n elements. */
static charl_status enqueue_step(const charl__grad_accum *p, const fold_step *s, int64_t n, bool rounds, charl__arg to,
                                 charl__arg from)
{
    if (s->kind == TAKE) {
        return enqueue_copy(to, from, n);
    }
    return charl__accumulate(p->set->dev, to, from, n, rounds, "passes");
}

static charl_status enqueue_gradients(const charl__grad_accum *p)
{
    const int64_t n = p->set->gradient_elements;

    for (const fold_step *s = p->kind; s < p->kind + p->n_kinds; s++) {
        charl__arg from = charl__raw(CHARL_ARG_IN, p->partial);

        from.v.offset = s->lane * n;
        CHARL_TRY(enqueue_step(p, s, n, p->set->reduce_dtype == CHARL_BF16,
                               slot_of(p, s->kind == TAKE ? CHARL_ARG_OUT : CHARL_ARG_INOUT, s->to),
                               s->kind == MERGE ? slot_of(p, CHARL_ARG_IN, s->to + 1) : from));
    }
    return CHARL_OK;
}

charl_status charl__grad_accum_prepare(charl__grad_accum *p, charl_params *set)
{
    const size_t bytes = (size_t)set->gradient_elements * 4;
    const int more = p->depth - p->mine.n_lanes;

    p->set = set;
    CHARL_TRY(charl__buffer_create(set->dev, bytes * (size_t)p->most_lanes, "gradients of a pass", &p->partial));
    if (more > 0) {
        CHARL_TRY(charl__buffer_create(set->dev, bytes * (size_t)more, "partial sums of passes", &p->counter));
    }
    CHARL_TRY(charl__record_begin(set->dev, &p->gradients));
    return charl__record_end(set->dev, enqueue_gradients(p));
}

static charl__arg element(const charl_tensor *t, charl__arg_kind kind, int k)
{
    charl__arg a = charl__raw(kind, t->buffer);

    a.v.offset = t->offset + k;
    return a;
}

static charl_status enqueue_losses(const charl__grad_accum *p, charl_tensor *const *losses)
{
    for (const fold_step *s = p->kind; s < p->kind + p->n_kinds; s++) {
        CHARL_TRY(enqueue_step(p, s, 1, false,
                               element(p->loss, s->kind == TAKE ? CHARL_ARG_OUT : CHARL_ARG_INOUT, s->to),
                               s->kind == MERGE ? element(p->loss, CHARL_ARG_IN, s->to + 1)
                                                : element(losses[s->shape], CHARL_ARG_IN, s->lane)));
    }
    return CHARL_OK;
}

charl_status charl__grad_accum_keep_loss(charl__grad_accum *p, charl_tensor *const *losses, charl_tensor **out)
{
    const charl_shape slots = {1, {p->depth}}, lanes = {1, {p->mine.n_lanes}};

    CHARL_TRY(charl_tensor_create(p->set->dev, CHARL_F32, &slots, &p->loss));
    CHARL_TRY(charl__record_begin(p->set->dev, &p->losses));
    CHARL_TRY(charl__record_end(p->set->dev, enqueue_losses(p, losses)));
    return charl__tensor_view(p->loss->buffer, CHARL_F32, &lanes, p->loss->offset, out);
}

charl_status charl__grad_accum_fold(charl__grad_accum *p, int i)
{
    for (int k = p->pass[i].first; k < p->pass[i].last; k++) {
        const int kind = p->step[k];

        CHARL_TRY(p->losses ? charl__recording_replay(p->losses, kind, kind + 1) : CHARL_OK);
        CHARL_TRY(charl__recording_replay(p->gradients, kind, kind + 1));
    }
    return CHARL_OK;
}

void charl__grad_accum_fold_numbers(const charl__grad_accum *p, int i, const float *lanes, int n, float *slots)
{
    for (int k = p->pass[i].first; k < p->pass[i].last; k++) {
        const fold_step *s = &p->kind[p->step[k]];
        const float *from = s->kind == MERGE ? slots + (ptrdiff_t)(s->to + 1) * n : lanes + (ptrdiff_t)s->lane * n;
        float *to = slots + (ptrdiff_t)s->to * n;

        for (int e = 0; e < n; e++) {
            to[e] = s->kind == TAKE ? from[e] : to[e] + from[e];
        }
    }
}
