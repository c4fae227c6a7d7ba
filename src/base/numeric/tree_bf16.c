/* The tree whose nodes are rounded to bf16: each block of a leaf is widened when it is added, and the sum is stored. */
#include <string.h>

#include "base/numeric/bf16.h"
#include "base/numeric/tree.h"

static void widen(const uint16_t *from, int64_t n, float *to)
{
    for (int64_t e = 0; e < n; e++) {
        to[e] = charl__bf16_load(from[e]);
    }
}

typedef float block[CHARL_TREE_BLOCK];

/* to = a + b: sums, or NULL for leaves, which are widened here. `to` may be either of them. */
static void add_rounded(const float *a, const uint16_t *leaf_a, const float *b, const uint16_t *leaf_b, int64_t n,
                        float *to)
{
    block wide_a, wide_b;

    if (!a) {
        widen(leaf_a, n, wide_a);
        a = wide_a;
    }
    if (!b) {
        widen(leaf_b, n, wide_b);
        b = wide_b;
    }
    for (int64_t e = 0; e < n; e++) {
        to[e] = charl__bf16_load(charl__bf16_round(a[e] + b[e]));
    }
}

void charl__tree_apply_bf16(const charl__tree_add *adds, int m, const uint16_t *const *leaf, int64_t n, uint16_t *out)
{
    block place[CHARL_TREE_DEPTH];
    float *sum[CHARL_MAX_SLICES]; /* the sum that a leaf has become; NULL: still the leaf */

    if (m == 1) {
        if (out != leaf[0]) {
            memcpy(out, leaf[0], (size_t)n * sizeof *out);
        }
        return;
    }
    for (int64_t at = 0; at < n; at += CHARL_TREE_BLOCK) {
        const int64_t left = n - at < CHARL_TREE_BLOCK ? n - at : CHARL_TREE_BLOCK;

        int used = 0;

        memset(sum, 0, (size_t)m * sizeof *sum);
        for (int k = 0; k < m - 1; k++) {
            const int a = adds[k].dst, b = adds[k].src;
            float *to = charl__tree_place(place, &used, sum[a], sum[b]);

            add_rounded(sum[a], leaf[a] + at, sum[b], leaf[b] + at, left, to);
            sum[a] = to;
        }
        for (int64_t e = 0; e < left; e++) { /* the sum ends in leaf 0 */
            out[at + e] = charl__bf16_round(sum[0][e]);
        }
    }
}
