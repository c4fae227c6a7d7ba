/* Where the sums of slices are added: inside the kernel, or as partial results in the workspace. The
 * bits are the same. */
#include "autograd/launch/gemm_slices.h"
#include "autograd/launch/rows.h"

enum { MOST_PARTS = 64, MOST_LEVELS = 6, VECTOR = 4, ALIGNED = 32 };

/* A sum is divided if there are too few tiles of this size, as long as its parts remain long. */
typedef struct cut_rule {
    int rows, columns, enough_tiles, shortest_part;
} cut_rule;

static const cut_rule plain = {64, 64, 32, 512}, for_tensor_cores = {128, 256, 128, 4096},
                      depthwise = {1, 8, 16384, 512};

/* The weight gradient of a depthwise convolution: one element for each tap. */
static bool is_depthwise(const charl__gemm *p)
{
    return p->m == 1 && p->inner > 1 && p->b.kind == CHARL_GEMM_WINDOW_T &&
           p->n == (int64_t)p->window.taps[0] * p->window.taps[1];
}

static bool wants_more_parts(const cut_rule *r, const charl__gemm *p, int parts)
{
    const int64_t products = (p->inner > 1 ? p->inner : 1) * parts;
    const int64_t k = p->k * (p->segments > 1 ? p->segments : 1);

    return charl__ceil_div(p->m, r->rows) * charl__ceil_div(p->n, r->columns) * products < r->enough_tiles &&
           k / (2 * parts) >= r->shortest_part;
}

/* Enough parts to occupy a device, as long as they remain long. The number is a power of two, so that the
 * tree over parts and slices consists of the tree over slices, of trees over parts. Products that may run on
 * tensor cores have the same parts on devices without them. */
int charl__gemm_slices_parts(const charl__gemm *p, charl_dtype type)
{
    const int64_t segments = p->segments > 1 ? p->segments : 1;
    const bool by_rows =
        p->a.kind == CHARL_GEMM_TRANSPOSED && p->b.kind == CHARL_GEMM_PLAIN; /* k is outermost in both */
    const int64_t cut = segments > 1 ? segments : by_rows ? p->k : 1;
    int parts = 1;

    while (parts < MOST_PARTS && cut % (2 * parts) == 0 &&
           (wants_more_parts(is_depthwise(p) ? &depthwise : &plain, p, parts) ||
            (type != CHARL_F32 && by_rows && wants_more_parts(&for_tensor_cores, p, parts)))) {
        parts *= 2;
    }
    return parts;
}

/* p's products, each as `parts` products of a part of its sum. */
static charl__gemm cut_products(const charl__gemm *p, int parts)
{
    charl__gemm q = *p;

    if (q.segments > 1) {
        q.segments /= parts;
    } else {
        q.k /= parts;
    }
    q.a.outer /= parts;
    q.b.outer /= parts;
    q.count *= parts;
    return q;
}

/* Of `leaves` products of p, which may have digits behind them. */
static int64_t elements_of(const charl__gemm *p, int64_t leaves)
{
    const int64_t n = leaves > 1 ? leaves * p->out.outer : 0;

    return p->n_digits > 0 ? charl__ceil_div(n, ALIGNED) * ALIGNED : n;
}

int64_t charl__gemm_slices_workspace(const charl__gemm *p, charl_dtype type, int n_slices)
{
    const int parts = charl__gemm_slices_parts(p, type);
    const charl__gemm cut = cut_products(p, parts);

    return elements_of(p, (int64_t)n_slices * parts) * (int64_t)sizeof(float) + charl__gemm_digits_bytes(&cut);
}

charl_slices charl__cut_slices(const charl_slices *s, int parts)
{
    charl_slices cut = *s;

    cut.total *= parts;
    cut.first *= parts;
    cut.count *= parts;
    for (int j = 0; j < s->n_lanes; j++) {
        cut.lane_lo[j] *= parts;
        cut.lane_hi[j] *= parts;
    }
    return cut;
}

static charl_status fold_inside(const charl__enqueue *e, const charl__gemm *p, int k, bool with_a_sums)
{
    for (int j = 0; j < e->slices->n_lanes; j++) {
        const int first = e->slices->lane_lo[j] - e->slices->first;
        charl__gemm q = *p;

        q.out.tensor = e->out[k];
        q.out.at = j * e->lane_stride[k];
        q.a_sums = with_a_sums ? e->out[1] : NULL;
        q.a_sums_at = with_a_sums ? j * e->lane_stride[1] : 0;
        q.a.at += first * p->a.outer;
        q.b.at += first * p->b.outer;
        q.fold.leaves = e->slices->lane_hi[j] - e->slices->lane_lo[j];
        q.fold.rounded = e->rounds[k] ? e->parts : 0;
        q.count = p->inner;
        CHARL_TRY(charl__gemm_enqueue(e->dev, &q));
    }
    return CHARL_OK;
}

/* Number of tree levels that divide every lane into whole nodes. */
static int whole_levels(const charl_slices *s)
{
    int all = 0, levels = 0;

    for (int j = 0; j < s->n_lanes; j++) {
        all |= (s->lane_lo[j] - s->first) | (s->lane_hi[j] - s->first);
    }
    while (levels < MOST_LEVELS && (all >> levels & 1) == 0) {
        levels++;
    }
    return levels;
}

/* The slices grouped into nodes of 2^levels. */
static charl_slices nodes_of(const charl_slices *s, int levels)
{
    charl_slices nodes = *s;

    nodes.first = 0;
    nodes.count >>= levels;
    for (int j = 0; j < s->n_lanes; j++) {
        nodes.lane_lo[j] = (s->lane_lo[j] - s->first) >> levels;
        nodes.lane_hi[j] = (s->lane_hi[j] - s->first) >> levels;
    }
    return nodes;
}

/* Compute the products of `leaves`, with some levels of the tree in the same launch if that is faster, then fold; if wanted, the sums of A
 * likewise, into output 1. */
static charl_status fold_after(const charl__enqueue *leaves, const charl__gemm *p, int64_t elements, int k,
                               bool with_a_sums)
{
    const int levels = leaves->rounds[k] ? 0 : charl__gemm_fold_levels(leaves->dev, p, whole_levels(leaves->slices));
    const charl_slices slices = nodes_of(leaves->slices, levels);
    const int64_t behind = leaves->slices->count * elements;
    charl__enqueue nodes = *leaves;
    charl__gemm q = *p;

    nodes.slices = &slices;
    q.out.tensor = charl__fold_target(&nodes, k);
    if (levels > 0) {
        q.fold.leaves = 1 << levels;
        q.count = slices.count;
        q.fold.levels = leaves->workspace;
        q.fold.levels_at =
            charl__fold_is_direct(&nodes) ? 0 : charl__ceil_div(slices.count * elements, VECTOR) * VECTOR;
    }
    if (with_a_sums) {
        q.a_sums = charl__fold_target(leaves, 1);
        q.a_sums_at = charl__fold_is_direct(leaves) ? 0 : behind;
    }
    CHARL_TRY(charl__gemm_enqueue(leaves->dev, &q));
    if (elements > 0 && !charl__fold_is_direct(leaves)) {
        const charl__fold_input in[] = {{charl__scratch_arg(CHARL_ARG_IN, leaves->workspace, 0), elements, k, NULL},
                                        {charl__scratch_arg(CHARL_ARG_IN, leaves->workspace, behind), p->m, 1, NULL}};

        if (levels == 0) {
            return charl__fold_inputs(leaves, in, with_a_sums ? 2 : 1);
        }
        if (!charl__fold_is_direct(&nodes)) {
            CHARL_TRY(charl__fold_inputs(&nodes, in, 1));
        }
        if (with_a_sums) {
            CHARL_TRY(charl__fold_inputs(leaves, in + 1, 1));
        }
    }
    return CHARL_OK;
}

static charl_status run(const charl__enqueue *e, const charl__gemm *p, int k, bool with_a_sums)
{
    const int parts = charl__is_partial(e, k) ? charl__gemm_slices_parts(p, p->a.tensor->dtype) : 1;
    const charl_slices slices = charl__cut_slices(e->slices, parts);
    charl__gemm q = cut_products(p, parts);
    charl__enqueue leaves = *e;

    leaves.slices = &slices;
    leaves.parts = parts;
    q.digits = e->workspace;
    q.digits_at = charl__is_partial(e, k) ? elements_of(p, slices.count) : 0;
    if (!charl__is_partial(e, k)) {
        q.out.tensor = e->out[k];
        q.a_sums = with_a_sums ? e->out[1] : NULL;
        CHARL_TRY(charl__gemm_enqueue(e->dev, &q));
    } else if (!charl__fold_is_direct(&leaves) && charl__gemm_folds(e->dev, &q)) {
        CHARL_TRY(fold_inside(&leaves, &q, k, with_a_sums));
    } else {
        CHARL_TRY(fold_after(&leaves, &q, p->out.outer, k, with_a_sums));
    }
    return CHARL_OK;
}

charl_status charl__gemm_slices(const charl__enqueue *e, const charl__gemm *p, int k)
{
    return run(e, p, k, false);
}

charl_status charl__gemm_slices_sums(const charl__enqueue *e, const charl__gemm *p)
{
    return run(e, p, 0, true);
}

bool charl__gemm_slices_can_sum(const charl__enqueue *e, const charl__gemm *p)
{
    return charl__is_partial(e, 0) && !charl__fold_is_direct(e) && e->rounds[0] == e->rounds[1] &&
           charl__gemm_slices_parts(p, p->a.tensor->dtype) == 1 && charl__gemm_folds(e->dev, p) &&
           charl__gemm_folds_sums(e->dev, p);
}

int64_t charl__gemm_slices_sums_workspace(const charl__gemm *p, charl_dtype type, int n_slices)
{
    const int64_t leaves = (int64_t)n_slices * charl__gemm_slices_parts(p, type);

    return leaves > 1 ? leaves * p->m * (int64_t)sizeof(float) : 0;
}
