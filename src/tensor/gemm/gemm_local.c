/* Launches of the kernels with tiles in local memory. */
#include <stdio.h>

#include "tensor/gemm/gemm_private.h"

enum { SMALL_PER_LANE = 4, VECTOR = 4 };

/* Whether every row of an operand begins at a multiple of VECTOR elements, and is whole vectors. */
static bool is_by_vectors(const charl_tensor *t, int64_t at, int64_t length, int64_t steps)
{
    return (t->offset + at) % VECTOR == 0 && length % VECTOR == 0 && steps % VECTOR == 0;
}

/* A sum is not a multiple of VECTOR where one of its parts only is not: good enough, as all parts
 * are multiples of rows wherever they count. */
static int elements_at_a_time(const charl_gemm *p, bool of_a)
{
    const bool plain = of_a ? p->a_kind == CHARL_GEMM_PLAIN : p->b_kind == CHARL_GEMM_TRANSPOSED;
    const bool other = of_a ? p->a_kind == CHARL_GEMM_TRANSPOSED : p->b_kind == CHARL_GEMM_PLAIN;
    const int64_t length = plain ? p->k : of_a ? p->m : p->n;
    const int64_t steps = of_a ? p->a_outer | p->a_inner | p->a_segment : p->b_outer | p->b_inner | p->b_segment;

    return (plain || other) && is_by_vectors(of_a ? p->a : p->b, of_a ? p->a_at : p->b_at, length, steps) ? VECTOR : 1;
}

static int define_tile(const charl_gemm *p, const charl__gemm_plan *plan, char *text, size_t bytes)
{
    const bool out = !p->epilogue && is_by_vectors(p->out, p->out_at, p->n, p->out_outer | p->out_inner);

    return snprintf(text, bytes,
                    "%s#define TM %d\n#define TN %d\n#define PM %d\n#define PN %d\n#define BK %d\n"
                    "#define BUFFERS %d\n#define A_V %d\n#define B_V %d\n#define OUT_V %d\n",
                    p->epilogue ? "" : "#define CHARL_VEC 4\n", plan->rows, plan->columns, plan->part_rows,
                    plan->part_columns, plan->depth, plan->buffers, elements_at_a_time(p, true),
                    elements_at_a_time(p, false), out ? VECTOR : 1);
}

void charl__gemm_shape_local(const charl_gemm *p, const charl__gemm_plan *plan, charl_launch *l, char *text)
{
    const size_t bytes = CHARL__GEMM_DEFINES;
    const bool small = plan->form == CHARL_GEMM_LOCAL_SMALL;
    int n = charl__gemm_define_common(p, text, bytes);

    n += charl__gemm_define_epilogue(p, small ? 1 : VECTOR, text + n, bytes - (size_t)n);
    if (p->leaves > 1 || p->a_sums) { /* a tree of one leaf, where a lane is one slice */
        n += charl__gemm_define_fold(p, text + n, bytes - (size_t)n);
        n += snprintf(text + n, bytes - (size_t)n, "#define M %d\n#define A_SUMS %d\n", CHARL__GEMM_LOCAL_LEAVES,
                      p->a_sums != NULL);
    }
    if (p->a_sums) {
        charl__launch_add(l, charl__gemm_operand(CHARL_ARG_OUT, p->a_sums, p->a_sums_at));
    }
    if (small) {
        snprintf(text + n, bytes - (size_t)n, "#define TILE %d\n", plan->rows);
    } else {
        define_tile(p, plan, text + n, bytes - (size_t)n);
    }
    l->file = small ? "gemm/gemm_small" : "gemm/gemm_local";
    l->entry = small ? "gemm_small" : "gemm_local";
    l->local[0] = small ? (size_t)(plan->rows * plan->columns / SMALL_PER_LANE)
                        : (size_t)(plan->rows / plan->part_rows * (plan->columns / plan->part_columns));
    l->global[0] = (size_t)(charl__ceil_div(p->m, plan->rows) * charl__ceil_div(p->n, plan->columns) *
                            charl__at_least_one(p->count)) *
                   l->local[0];
}

/* A product in the kernel for small ones may share a launch with another
 * (kernels/gemm/gemm_small.cl).
 */
void charl__gemm_offer_pair(const charl_gemm *p, charl_launch *l, char *second)
{
    const size_t bytes = CHARL__GEMM_SECOND;
    const bool folds = p->leaves > 1 || p->a_sums;
    int n;

    if (p->a->dtype != CHARL_F32 || p->out->dtype != CHARL_F32) {
        return;
    }
    l->pair_first = !folds;
    if (p->epilogue) {
        return;
    }
    n = snprintf(second, bytes,
                 "#define A_KIND_2 %d\n#define B_KIND_2 %d\n#define BIAS_2 %d\n"
                 "#define FOLD_2 %d\n#define A_SUMS_2 %d\n",
                 (int)p->a_kind, (int)p->b_kind, (int)p->bias_kind, folds, p->a_sums != NULL);
    if (folds) {
        n += snprintf(second + n, bytes - (size_t)n, "#define M %d\n", CHARL__GEMM_LOCAL_LEAVES);
        n += charl__gemm_define_rounding(p, second + n, bytes - (size_t)n);
    }
    CHARL_INVARIANT(n > 0 && (size_t)n < bytes);
    l->pair_defines = second;
}
