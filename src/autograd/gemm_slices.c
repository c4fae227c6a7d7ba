/* Where the sums of slices meet: inside the kernel, or as partial results in the workspace. The
 * bits are the same. */
#include "autograd/gemm_slices.h"

enum { TILE = 64, ENOUGH_TILES = 32, SHORTEST_PART = 512, MOST_PARTS = 64 };

bool charl__gemm_has_slices(const charl_enqueue *e, int k)
{
    return e->lane_stride[k] > 0;
}

static int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* Enough parts to occupy a device, as long as they stay long. A power of two, so that the tree over
 * parts and slices is that over slices of trees over parts. */
static int parts_of(const charl_gemm *p)
{
    const int64_t inner = p->inner > 1 ? p->inner : 1, segments = p->segments > 1 ? p->segments : 1;
    const int64_t tiles = ceil_div(p->m, TILE) * ceil_div(p->n, TILE) * inner;
    const bool by_rows = p->a_kind == CHARL_GEMM_TRANSPOSED &&
                         p->b_kind == CHARL_GEMM_PLAIN; /* k is outermost in both */
    const int64_t cut = segments > 1 ? segments : by_rows ? p->k : 1;
    int parts = 1;

    while (parts < MOST_PARTS && tiles * parts < ENOUGH_TILES && cut % (2 * parts) == 0 &&
           p->k * segments / (2 * parts) >= SHORTEST_PART) {
        parts *= 2;
    }
    return parts;
}

int64_t charl__gemm_slices_workspace(const charl_gemm *p, int n_slices)
{
    const int64_t leaves = (int64_t)n_slices * parts_of(p);

    return leaves > 1 ? leaves * p->out_outer * (int64_t)sizeof(float) : 0;
}

/* p's products, each as `parts` products of a part of its sum. */
static charl_gemm cut_products(const charl_gemm *p, int parts)
{
    charl_gemm q = *p;

    if (q.segments > 1) {
        q.segments /= parts;
    } else {
        q.k /= parts;
    }
    q.a_outer /= parts;
    q.b_outer /= parts;
    q.count *= parts;
    return q;
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

static charl_status fold_inside(const charl_enqueue *e, const charl_gemm *p, int k)
{
    charl_status st = CHARL_OK;

    for (int j = 0; j < e->slices->n_lanes; j++) {
        const int first = e->slices->lane_lo[j] - e->slices->first;
        charl_gemm q = *p;

        q.out = e->out[k];
        q.out_at = j * e->lane_stride[k];
        q.a_at += first * p->a_outer;
        q.b_at += first * p->b_outer;
        q.leaves = e->slices->lane_hi[j] - e->slices->lane_lo[j];
        q.rounded = e->rounds[k] ? e->parts : 0;
        q.count = p->inner;
        CHARL_TRY(charl__gemm(e->dev, &q));
    }
cleanup:
    return st;
}

charl_status charl__gemm_slices(const charl_enqueue *e, const charl_gemm *p, int k)
{
    charl_status st = CHARL_OK;
    const int parts = charl__gemm_has_slices(e, k) ? parts_of(p) : 1;
    const charl_slices slices = charl__cut_slices(e->slices, parts);
    charl_gemm q = cut_products(p, parts);
    charl_enqueue leaves = *e;

    leaves.slices = &slices;
    leaves.parts = parts;
    if (!charl__gemm_has_slices(e, k)) {
        q.out = e->out[k];
        CHARL_TRY(charl__gemm(e->dev, &q));
    } else if (!charl__fold_is_direct(&leaves) && charl__gemm_folds(e->dev, &q)) {
        CHARL_TRY(fold_inside(&leaves, &q, k));
    } else {
        q.out = charl__fold_target(&leaves, k);
        CHARL_TRY(charl__gemm(e->dev, &q));
        CHARL_TRY(charl__fold(&leaves, charl__fold_target(&leaves, k), p->out_outer, k));
    }
cleanup:
    return st;
}
