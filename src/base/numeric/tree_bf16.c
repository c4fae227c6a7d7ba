/* The tree whose nodes are rounded to bf16: a block of every leaf is widened, added there, and the
 * sum stored. */
#include "base/numeric/bf16.h"
#include "base/numeric/tree.h"

static void widen(const uint16_t *from, int64_t n, float *to)
{
    for (int64_t e = 0; e < n; e++) {
        to[e] = charl__bf16_load(from[e]);
    }
}

static void add_rounded(float *restrict a, const float *restrict b, int64_t n)
{
    for (int64_t e = 0; e < n; e++) {
        a[e] = charl__bf16_load(charl__bf16_round(a[e] + b[e]));
    }
}

void charl__tree_apply_bf16(const charl__tree_add *adds, int m, const uint16_t *const *leaf, int64_t n, float *scratch,
                            uint16_t *out)
{
    if (m == 1) {
        if (out != leaf[0]) {
            memcpy(out, leaf[0], (size_t)n * sizeof *out);
        }
        return;
    }
    for (int64_t at = 0; at < n; at += CHARL_TREE_BLOCK) {
        const int64_t left = n - at < CHARL_TREE_BLOCK ? n - at : CHARL_TREE_BLOCK;

        for (int j = 0; j < m; j++) {
            widen(leaf[j] + at, left, scratch + (int64_t)j * CHARL_TREE_BLOCK);
        }
        for (int k = 0; k < m - 1; k++) {
            add_rounded(scratch + (int64_t)adds[k].dst * CHARL_TREE_BLOCK,
                        scratch + (int64_t)adds[k].src * CHARL_TREE_BLOCK, left);
        }
        for (int64_t e = 0; e < left; e++) { /* the sum ends in leaf 0 */
            out[at + e] = charl__bf16_round(scratch[e]);
        }
    }
}
