/* Several passes per step. */
#include "train/parallel/grad_accum.h"

#include "base/alloc.h"

/* slot[to] takes, or adds, a lane of the pass or the slot behind. */
typedef struct fold_step {
    enum { TAKE, ADD, MERGE } kind;
    int to, lane;
} fold_step;

typedef struct pass {
    charl_slices slices;
    int first, last; /* steps */
    charl__recording *recording, *keep_loss;
} pass;

struct charl__grad_accum {
    charl_slices mine;
    int n;
    pass pass[CHARL_MAX_SLICES];
    fold_step step[2 * CHARL_MAX_SLICES];
    int n_steps;
    int depth; /* slots in use at once, at most: the rank's lanes first */
    int most_lanes;
    charl_params *set; /* borrowed */
    charl__buffer *partial, *counter;
    charl_tensor *loss; /* f32: the lanes of all passes, one pass after another */
    float number[CHARL_MAX_SLICES];
};

typedef struct node {
    int lo, hi;
} node;

/* Left and right child of a node of the tree over `total` slices. */
static bool are_siblings(const node *a, const node *b, int total)
{
    const int span = a->hi - a->lo, end = a->lo + 2 * span;

    return a->hi == b->lo && (span & (span - 1)) == 0 && a->lo % (2 * span) == 0 &&
           b->hi == (end < total ? end : total);
}

static void add_step(charl__grad_accum *p, fold_step s)
{
    CHARL_INVARIANT(p->n_steps < 2 * CHARL_MAX_SLICES);
    p->step[p->n_steps++] = s;
}

/* Count: each lane joins its sibling at the top of the stack, or becomes the top. */
static void plan_pass(charl__grad_accum *p, pass *q, node *stack, int *depth)
{
    q->first = p->n_steps;
    for (int j = 0; j < q->slices.n_lanes; j++) {
        const node lane = {q->slices.lane_lo[j], q->slices.lane_hi[j]};

        if (*depth > 0 && are_siblings(&stack[*depth - 1], &lane, p->mine.total)) {
            add_step(p, (fold_step){ADD, *depth - 1, j});
            stack[*depth - 1].hi = lane.hi;
        } else {
            add_step(p, (fold_step){TAKE, *depth, j});
            stack[(*depth)++] = lane;
            p->depth = *depth > p->depth ? *depth : p->depth;
        }
        while (*depth > 1 && are_siblings(&stack[*depth - 2], &stack[*depth - 1], p->mine.total)) {
            add_step(p, (fold_step){MERGE, *depth - 2, 0});
            stack[*depth - 2].hi = stack[*depth - 1].hi;
            --*depth;
        }
    }
    q->last = p->n_steps;
}

charl_status charl__grad_accum_create(const charl_slices *mine, int n, charl__grad_accum **out)
{
    charl_status st = CHARL_OK;
    charl__grad_accum *p = NULL;
    node stack[CHARL_MAX_SLICES];
    int depth = 0;

    *out = NULL;
    CHARL_REQUIRE_CLEANUP(n >= 1 && n <= mine->count, CHARL_ERR_CONFIG,
                          "train.grad_accum_steps = %d, but a rank here has %d of the %d slices; a "
                          "pass takes at least one",
                          n, mine->count, mine->total);
    CHARL_TRY_CLEANUP(charl__alloc(sizeof *p, &p));
    p->mine = *mine;
    p->n = n;
    for (int i = 0; i < n; i++) {
        const int first = mine->first + mine->count * i / n, end = mine->first + mine->count * (i + 1) / n;

        CHARL_TRY_CLEANUP(charl_slices_range(mine->total, first, end - first, &p->pass[i].slices));
        plan_pass(p, &p->pass[i], stack, &depth);
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
        for (int i = 0; i < p->n; i++) {
            charl__recording_destroy(p->pass[i].recording);
            charl__recording_destroy(p->pass[i].keep_loss);
        }
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

charl__buffer *charl__grad_accum_gradients(const charl__grad_accum *p)
{
    return p->partial;
}

static charl__arg slot_of(const charl__grad_accum *p, charl__arg_kind kind, int k)
{
    const bool own = k < p->mine.n_lanes;
    charl__arg a = charl__raw(kind, own ? p->set->grad : p->counter);

    a.v.offset = (own ? k : k - p->mine.n_lanes) * p->set->gradient_elements;
    return a;
}

static charl_status enqueue_step(const charl__grad_accum *p, const fold_step *s)
{
    charl__arg from = charl__raw(CHARL_ARG_IN, p->partial);
    charl__launch l = {.file = "tensor/accumulate",
                       .entry = "charl_accumulate",
                       .global = {(size_t)p->set->gradient_elements},
                       .local = {CHARL_PARAM_ALIGN},
                       .args = {slot_of(p, CHARL_ARG_INOUT, s->to)},
                       .label = "passes"};

    from.v.offset = s->lane * p->set->gradient_elements;
    l.args[1] = s->kind == MERGE ? slot_of(p, CHARL_ARG_IN, s->to + 1) : from;
    if (s->kind != TAKE) {
        charl__launch_set(&l, "ROUND", p->set->reduce_dtype == CHARL_BF16);
    } else {
        l.file = "tensor/copy";
        l.entry = "charl_copy";
        l.args[1] = l.args[0];
        l.args[0] = from;
        l.args[2] = charl__i64(p->set->gradient_elements);
    }
    return charl__launch_enqueue(p->set->dev, &l);
}

static charl_status record(charl__grad_accum *p, pass *q)
{
    charl_status st = CHARL_OK;

    CHARL_TRY(charl__record_begin(p->set->dev, &q->recording));
    for (int k = q->first; k < q->last && st == CHARL_OK; k++) {
        st = enqueue_step(p, &p->step[k]);
    }
    CHARL_TRY(charl__record_end(p->set->dev, st));
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
    for (int i = 0; i < p->n; i++) {
        CHARL_TRY(record(p, &p->pass[i]));
    }
    return CHARL_OK;
}

/* Record the copy of n floats, of a pass, to element `at` of the loss. */
static charl_status record_copy(const charl__grad_accum *p, const charl_tensor *metrics, int64_t at, int64_t n,
                                charl__recording **out)
{
    charl_status st = CHARL_OK;
    const charl_shape shape = {1, {n}};
    charl_tensor *from = NULL, *to = NULL;

    CHARL_TRY_CLEANUP(charl__tensor_view(metrics->buffer, CHARL_F32, &shape, metrics->offset, &from));
    CHARL_TRY_CLEANUP(charl__tensor_view(p->loss->buffer, CHARL_F32, &shape, at, &to));
    CHARL_TRY_CLEANUP(charl__record_begin(p->set->dev, out));
    st = charl_tensor_copy(from, to);
    CHARL_TRY_CLEANUP(charl__record_end(p->set->dev, st));
cleanup:
    charl_tensor_release(from);
    charl_tensor_release(to);
    return st;
}

charl_status charl__grad_accum_keep_loss(charl__grad_accum *p, const charl_tensor *const *metrics, charl_tensor **out)
{
    charl_shape shape = {1, {0}};
    int64_t at = 0;

    for (int i = 0; i < p->n; i++) {
        shape.dim[0] += p->pass[i].slices.n_lanes;
    }
    CHARL_TRY(charl_tensor_create(p->set->dev, CHARL_F32, &shape, &p->loss));
    for (int i = 0; i < p->n; i++) {
        const int n = p->pass[i].slices.n_lanes;

        CHARL_TRY(record_copy(p, metrics[i], at, n, &p->pass[i].keep_loss));
        at += n;
    }
    *out = p->loss;
    return CHARL_OK;
}

static charl_status replay(charl__recording *r)
{
    return r ? charl__recording_replay(r, 0, charl__recording_count(r)) : CHARL_OK;
}

charl_status charl__grad_accum_fold(charl__grad_accum *p, int i)
{
    CHARL_TRY(replay(p->pass[i].keep_loss));
    CHARL_TRY(replay(p->pass[i].recording));
    return CHARL_OK;
}

void charl__grad_accum_fold_number(charl__grad_accum *p, int i, const float *lanes)
{
    for (int k = p->pass[i].first; k < p->pass[i].last; k++) {
        const fold_step *s = &p->step[k];

        switch (s->kind) {
        case TAKE:
            p->number[s->to] = lanes[s->lane];
            break;
        case ADD:
            p->number[s->to] += lanes[s->lane];
            break;
        case MERGE:
            p->number[s->to] += p->number[s->to + 1];
            break;
        }
    }
}

const float *charl__grad_accum_number(const charl__grad_accum *p)
{
    return p->number;
}
