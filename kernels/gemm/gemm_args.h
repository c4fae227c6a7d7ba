#ifndef CHARL_KERNELS_GEMM_GEMM_ARGS_H
#define CHARL_KERNELS_GEMM_GEMM_ARGS_H
#include "shared/numbers.h"

/* The numbers of a matrix product. No kernel looks at all of them; gemm.clh and nvidia/gemm/gemm_wgmma.cl say what they mean. */
typedef struct charl__gemm_args {
    uint64_t a, b, bias, out, a_sums, levels; /* where the operands begin, */
    uint64_t with_a, with_b, with_c, record;  /* and those of the epilogue: gemm_epilogue.clh */
    uint64_t key, draw;
    int64_t a_segment, b_segment;
    int64_t a_outer, a_inner, b_outer, b_inner, out_outer, out_inner;
    int32_t m, n, k, inner;
    int32_t segments, leaves;
    int32_t columns;          /* gemm_local.cl: n, or with JOIN those of all outer products together */
    int32_t ih, iw, pw;       /* the image, and its pixels of a row of out */
    int32_t mi, nj;           /* gemm_vector.cl: micro-tiles of a work-item, down and across */
    int32_t a_pitch, b_pitch; /* tensor cores: elements from row to row, */
    int32_t tiles, rounds;    /* tiles in all, and rounds of whole ones: tile_order.clh */
} charl__gemm_args;

#endif
