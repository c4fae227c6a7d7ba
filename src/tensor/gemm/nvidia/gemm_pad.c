/* Operands with unaligned rows. Tensor cores are fed in chunks of 16 bytes; copying such an operand once is faster than assembling every
 * chunk each time a tile reads it. */
#include "tensor/gemm/gemm_private.h"

enum { CHUNK = 8, HALF_BYTES = 2, ROUND = 256, WORTH_READS = 128 };

static const int64_t worth_products = INT64_C(1) << 30;

bool charl__matrix_is_aligned(const charl__matrix *x, int elements)
{
    return x->first.v.offset % elements == 0 && x->pitch % elements == 0 && x->outer % elements == 0 &&
           x->inner % elements == 0;
}

/* One matrix for all products, or consecutive ones: rows of one copy. */
static bool is_one_run(const charl__gemm *p, const charl__matrix *x)
{
    return charl__at_least_one(p->count) == 1 ||
           (charl__at_least_one(p->inner) == 1 && (x->outer == 0 || x->outer == x->rows * x->length));
}

bool charl__gemm_can_pad(const charl__gemm *p, const charl__matrix *x)
{
    return charl__matrix_is_aligned(x, CHUNK) || is_one_run(p, x);
}

/* `reads`: the number of times an element would be read if a tile were one row or column. */
static bool is_worth_it(const charl__gemm *p, const charl__matrix *x, int64_t reads)
{
    const int64_t products = p->m * p->n * p->k * charl__at_least_one(p->count);

    return !charl__matrix_is_aligned(x, CHUNK) && x->length > 0 && is_one_run(p, x) &&
           (p->fold.levels || p->form == CHARL_GEMM_TENSOR_CORE_PADDED ||
            (p->form == CHARL_GEMM_AUTO && reads >= WORTH_READS && products >= worth_products));
}

static int64_t rows_of_copy(const charl__gemm *p, const charl__matrix *x)
{
    return x->rows * (x->outer == 0 ? 1 : charl__at_least_one(p->count));
}

static int64_t bytes_of_copy(const charl__gemm *p, const charl__matrix *x)
{
    const int64_t pitch = charl__ceil_div(x->length, CHUNK) * CHUNK;

    return charl__ceil_div(rows_of_copy(p, x) * pitch * HALF_BYTES, ROUND) * ROUND;
}

/* x becomes its copy at element `at` of b. */
static charl_status copy_rows(charl_device *dev, const charl__gemm *p, charl__matrix *x, charl__buffer *b, int64_t at)
{
    const int64_t pitch = charl__ceil_div(x->length, CHUNK) * CHUNK, rows = rows_of_copy(p, x);
    const size_t group = 256;
    charl__arg to = charl__raw(CHARL_ARG_OUT, b);

    to.v.offset = at;
    CHARL_TRY(charl__launch_enqueue(
        dev, &(charl__launch){
                 .file = "gemm/pad_rows",
                 .entry = "charl_pad_rows",
                 .global = {((size_t)(rows * (pitch / CHUNK)) + group - 1) / group * group},
                 .local = {group},
                 .args = {x->first, to, charl__i64(rows), charl__i32((int32_t)x->length), charl__i32((int32_t)pitch)},
                 .label = p->label}));
    x->first = to;
    x->first.kind = CHARL_ARG_IN;
    x->pitch = pitch;
    x->outer = x->outer == 0 ? 0 : x->rows * pitch;
    x->inner = 0;
    return CHARL_OK;
}

charl_status charl__gemm_pad(charl_device *dev, const charl__gemm *p, charl__matrix *a, charl__matrix *b)
{
    charl_status st = CHARL_OK;
    const bool pad_a = is_worth_it(p, a, p->n), pad_b = is_worth_it(p, b, p->m);
    const int64_t first = pad_a ? bytes_of_copy(p, a) : 0;
    const int64_t bytes = first + (pad_b ? bytes_of_copy(p, b) : 0);
    charl__buffer *scratch = NULL;

    if (bytes == 0) {
        return st;
    }
    st = charl__workspace_copies(dev, (size_t)bytes, &scratch);
    if (st == CHARL_ERR_NOMEM && !p->fold.levels) { /* then without, slower */
        charl_error_clear();
        return CHARL_OK;
    }
    CHARL_TRY(st);
    if (pad_a) {
        CHARL_TRY(copy_rows(dev, p, a, scratch, 0));
    }
    if (pad_b) {
        CHARL_TRY(copy_rows(dev, p, b, scratch, first / HALF_BYTES));
    }
    return st;
}
