/* Products of half types on NVIDIA's tensor cores. The choices made here (tile, how operands are
 * copied) change no bits: kernels/nvidia/gemm_wgmma.cl says why. */
#include <limits.h>
#include <stdio.h>

#include "tensor/gemm_private.h"

enum { ARGUMENTS = 15, GROUP = 256, ROWS = 128, STAGE_K = 64, HALF_BYTES = 2 };

typedef struct tile {
    int columns, stages, overlap;
    int groups; /* that run at a time on a compute unit: registers and local memory allow no more */
} tile;

static const tile narrow = {128, 3, 0, 2}, wide = {256, 4, 1, 1};

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

static int64_t count_tiles(const charl_gemm *p, const tile *t)
{
    return charl__ceil_div(p->m, ROWS) * charl__ceil_div(p->n, t->columns) *
           charl__at_least_one(p->count);
}

/* The wide tile reads a quarter less per product: on an H200 it is quicker wherever it is filled
 * and there is one for every compute unit (docs/benchmarks.md). */
static bool is_wide(charl_device *dev, const charl_gemm *p)
{
    const int64_t columns = charl__ceil_div(p->n, wide.columns) * wide.columns;

    return 8 * columns <= 9 * p->n &&
           count_tiles(p, &wide) >= charl_device_get_info(dev)->compute_units;
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

/* Rows of out, and of what else lies like it, begin at multiples of 8 bytes. */
static bool writes_by_8(const charl_gemm *p, const charl_launch *l)
{
    bool all = is_aligned(&l->args[3], p->n, p->out_outer, p->out_inner,
                          8 / (int)charl_dtype_size(p->out->dtype));

    for (int i = ARGUMENTS; l->args[i].kind != CHARL_ARG_END; i++) {
        const charl_arg *a = &l->args[i];

        all = all &&
              (!a->buffer || is_aligned(a, p->n, p->out_outer, p->out_inner, 8 / (int)a->size));
    }
    return all;
}

static void define(const charl_gemm *p, const charl_launch *l, const tile *t, char *text,
                   size_t bytes)
{
    const int64_t lda = p->a_kind == CHARL_GEMM_PLAIN ? p->k : p->m;
    const int64_t ldb = p->b_kind == CHARL_GEMM_PLAIN ? p->n : p->k;
    const int chunk = 16 / HALF_BYTES;
    const int n = charl__gemm_define_epilogue(p, 4, text, bytes);

    snprintf(text + n, bytes - (size_t)n,
             "%s#define IS_F16 %d\n#define OUT_T %s\n#define A_KIND %d\n#define B_KIND %d\n"
             "#define BIAS %d\n#define BN %d\n#define STAGES %d\n#define OVERLAP %d\n"
             "#define A_BY_16 %d\n#define B_BY_16 %d\n#define OUT_BY_8 %d\n",
             charl__act_define(p->a->dtype), p->a->dtype == CHARL_F16,
             charl__kernel_type(p->out->dtype), (int)p->a_kind, (int)p->b_kind, (int)p->bias_kind,
             t->columns, t->stages, t->overlap,
             is_aligned(&l->args[0], lda, p->a_outer, p->a_inner, chunk),
             is_aligned(&l->args[1], ldb, p->b_outer, p->b_inner, chunk), writes_by_8(p, l));
}

charl_status charl__gemm_wgmma(charl_device *dev, const charl_gemm *p)
{
    charl_status st = CHARL_OK;
    const tile *t = choose_tile(dev, p);
    const int64_t tiles = count_tiles(p, t);
    const int64_t most = (int64_t)t->groups * charl_device_get_info(dev)->compute_units;
    char defines[CHARL__GEMM_DEFINES];
    charl_launch l = {
        .file = "nvidia/gemm_wgmma",
        .entry = "gemm_wgmma",
        .defines = defines,
        .global = {(size_t)((tiles < most ? tiles : most) * GROUP)},
        .local = {GROUP},
        .local_bytes = (int64_t)t->stages * (ROWS + t->columns) * STAGE_K * HALF_BYTES,
        .args = {charl__gemm_operand(CHARL_ARG_IN, p->a, p->a_at),
                 charl__gemm_operand(CHARL_ARG_IN, p->b, p->b_at),
                 charl__gemm_operand(CHARL_ARG_IN, p->bias, 0),
                 charl__gemm_operand(CHARL_ARG_OUT, p->out, p->out_at), charl__i32((int32_t)p->m),
                 charl__i32((int32_t)p->n), charl__i32((int32_t)p->k),
                 charl__i32((int32_t)charl__at_least_one(p->inner)), charl__i32((int32_t)tiles),
                 charl__i64(p->a_outer), charl__i64(p->a_inner), charl__i64(p->b_outer),
                 charl__i64(p->b_inner), charl__i64(p->out_outer), charl__i64(p->out_inner)},
        .label = p->label,
    };

    CHARL_REQUIRE(tiles + most <= INT_MAX, CHARL_ERR_SHAPE,
                  "matrix product of %lld x %lld x %lld, %lld times: %lld tiles are beyond 2^31",
                  (long long)p->m, (long long)p->n, (long long)p->k,
                  (long long)charl__at_least_one(p->count), (long long)tiles);
    charl__gemm_add_epilogue(p, &l, ARGUMENTS);
    define(p, &l, t, defines, sizeof defines);
    CHARL_TRY(charl__launch(dev, &l));
cleanup:
    return st;
}
