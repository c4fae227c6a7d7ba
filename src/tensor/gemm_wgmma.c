/* Products of half types on NVIDIA's tensor cores. The choices made here (tile, how operands are
 * copied) change no bits: kernels/nvidia/gemm_wgmma.cl says why. */
#include <stdio.h>

#include "tensor/gemm_private.h"

enum { GROUP = 256, ROWS = 128, STAGE_K = 64, HALF_BYTES = 2, LONG_SUM = 768 };

/* Two groups of the narrow tile run at a time on a compute unit, one of the wide. */
typedef struct tile {
    int columns, stages, overlap;
} tile;

static const tile narrow = {128, 3, 0}, wide = {256, 4, 1};

bool charl__gemm_is_wgmma(charl_device *dev, const charl_gemm *p)
{
    const bool form = p->form == CHARL_GEMM_AUTO || p->form == CHARL_GEMM_WGMMA ||
                      p->form == CHARL_GEMM_WGMMA_WIDE;

    return form && charl__device_facts(dev)->wgmma &&
           (p->a->dtype == CHARL_BF16 || p->a->dtype == CHARL_F16) &&
           (p->a_kind == CHARL_GEMM_PLAIN || p->a_kind == CHARL_GEMM_TRANSPOSED) &&
           (p->b_kind == CHARL_GEMM_PLAIN || p->b_kind == CHARL_GEMM_TRANSPOSED) &&
           p->segments <= 1 && p->leaves <= 1;
}

/* Measured on an H200 (docs/benchmarks.md): the wide tile reads less per product, but leaves
 * compute units idle at its beginning and end, which only a long sum makes up for. */
static bool is_wide(charl_device *dev, const charl_gemm *p)
{
    const int64_t columns = charl__ceil_div(p->n, wide.columns);
    const int64_t tiles = charl__ceil_div(p->m, ROWS) * columns * charl__at_least_one(p->count);

    return p->k >= LONG_SUM && 8 * columns * wide.columns <= 9 * p->n &&
           tiles >= charl_device_get_info(dev)->compute_units;
}

static const tile *choose_tile(charl_device *dev, const charl_gemm *p)
{
    switch (p->form) {
    case CHARL_GEMM_WGMMA:
        return &narrow;
    case CHARL_GEMM_WGMMA_WIDE:
        return &wide;
    default:
        return is_wide(dev, p) ? &wide : &narrow;
    }
}

/* Every row of every product begins at a multiple of `elements`. */
static bool is_aligned(const charl_arg *first, int64_t row, int64_t outer, int64_t inner,
                       int elements)
{
    return first->v.offset % elements == 0 && row % elements == 0 && outer % elements == 0 &&
           inner % elements == 0;
}

static void define(const charl_gemm *p, const charl_launch *l, const tile *t, char *text,
                   size_t bytes)
{
    const int64_t lda = p->a_kind == CHARL_GEMM_PLAIN ? p->k : p->m;
    const int64_t ldb = p->b_kind == CHARL_GEMM_PLAIN ? p->n : p->k;
    const int chunk = 16 / HALF_BYTES;

    snprintf(text, bytes,
             "%s#define IS_F16 %d\n#define OUT_T %s\n#define A_KIND %d\n#define B_KIND %d\n"
             "#define BIAS %d\n#define BN %d\n#define STAGES %d\n#define OVERLAP %d\n"
             "#define A_BY_16 %d\n#define B_BY_16 %d\n#define OUT_PAIRS %d\n",
             charl__act_define(p->a->dtype), p->a->dtype == CHARL_F16,
             charl__kernel_type(p->out->dtype), (int)p->a_kind, (int)p->b_kind, (int)p->bias_kind,
             t->columns, t->stages, t->overlap,
             is_aligned(&l->args[0], lda, p->a_outer, p->a_inner, chunk),
             is_aligned(&l->args[1], ldb, p->b_outer, p->b_inner, chunk),
             is_aligned(&l->args[3], p->n, p->out_outer, p->out_inner, 2));
}

charl_status charl__gemm_wgmma(charl_device *dev, const charl_gemm *p)
{
    const tile *t = choose_tile(dev, p);
    const int64_t tiles = charl__ceil_div(p->m, ROWS) * charl__ceil_div(p->n, t->columns);
    char defines[512];
    charl_launch l = {
        .file = "nvidia/gemm_wgmma",
        .entry = "gemm_wgmma",
        .defines = defines,
        .global = {(size_t)(tiles * charl__at_least_one(p->count) * GROUP)},
        .local = {GROUP},
        .local_bytes = (int64_t)t->stages * (ROWS + t->columns) * STAGE_K * HALF_BYTES,
        .args = {charl__gemm_operand(CHARL_ARG_IN, p->a, p->a_at),
                 charl__gemm_operand(CHARL_ARG_IN, p->b, p->b_at),
                 charl__gemm_operand(CHARL_ARG_IN, p->bias, 0),
                 charl__gemm_operand(CHARL_ARG_OUT, p->out, p->out_at), charl__i32((int32_t)p->m),
                 charl__i32((int32_t)p->n), charl__i32((int32_t)p->k),
                 charl__i32((int32_t)charl__at_least_one(p->inner)), charl__i64(p->a_outer),
                 charl__i64(p->a_inner), charl__i64(p->b_outer), charl__i64(p->b_inner),
                 charl__i64(p->out_outer), charl__i64(p->out_inner)},
        .label = p->label,
    };

    define(p, &l, t, defines, sizeof defines);
    return charl__launch(dev, &l);
}
