/* linear_grads: the gradients of a linear layer's weight and bias from one read of the output's
 * gradient p, on tensor cores, and on other GPUs if slices are short; elsewhere linear_wgrad and
 * sum_to, with the same bits.
 */
#include "autograd/launch/gemm_slices.h"
#include "autograd/op/linear/linear.h"
#include "autograd/launch/rows.h"
#include "charl/ops.h"

static int64_t rows_of(const charl__infer *inf)
{
    const charl_shape *p = &inf->in[0].shape;

    return p->dim[p->ndim - 1] > 0 ? charl_shape_count(p) / p->dim[p->ndim - 1] : 0;
}

/* The workspace: results of slices or their parts for output 0, for output 1, then scratch. */
static charl_status infer(charl__infer *inf)
{
    const int64_t m = inf->in[0].shape.dim[inf->in[0].shape.ndim - 1];
    const bool batched = inf->in[0].batch == CHARL_BATCHED;
    const int64_t slices = batched ? inf->n_slices : 1;

    CHARL_TRY(charl__infer_wgrad(inf));
    inf->n_out = 2;
    inf->out[1] = (charl_type){CHARL_F32, {1, {m}}, inf->out[0].batch};
    if (batched) {
        const charl__gemm p = charl__wgrad_product(&inf->in[0].shape, &inf->in[1].shape, inf->n_slices);

        inf->workspace += charl__gemm_slices_sums_workspace(&p, inf->in[0].dtype, inf->n_slices);
    }
    inf->workspace += (slices * m + charl__reduce_scratch(slices, rows_of(inf) / slices, m)) * (int64_t)sizeof(float);
    return CHARL_OK;
}

/* The sum over rows of p, after linear_wgrad's part of the workspace. */
static charl_status enqueue_sums(const charl__enqueue *e, const charl__gemm *p)
{
    const int64_t slices = charl__is_partial(e, 1) ? e->slices->count : 1;
    const charl_reduce r = {.a = charl__in(e->in[0]),
                            .a_type = e->in[0]->dtype,
                            .n_in = 1,
                            .outer = slices,
                            .n = p->k,
                            .inner = p->m,
                            .out = charl__out(e->out[1]),
                            .scratch = slices * p->m,
                            .scale = 1.0F};

    return charl__is_partial(e, 1) ? charl__reduce_slices(e, &r, 1) : charl__reduce_sum(e, &r);
}

static charl_status enqueue(const charl__enqueue *e)
{
    charl__gemm p =
        charl__wgrad_product(&e->in[0]->shape, &e->in[1]->shape, charl__is_partial(e, 0) ? e->slices->count : 1);

    p.a.tensor = e->in[0];
    p.b.tensor = e->in[1];
    p.label = e->label;
    if (charl__gemm_sums_a(e->dev, &p) || charl__gemm_slices_can_sum(e, &p)) {
        CHARL_TRY(charl__gemm_slices_sums(e, &p));
    } else {
        CHARL_TRY(charl__gemm_slices(e, &p, 0));
        CHARL_TRY(enqueue_sums(e, &p)); /* after it, because both use the same workspace */
    }
    return CHARL_OK;
}

static void reference(const charl__reference *r)
{
    const charl_shape *p = &r->in_type[0].shape, *q = &r->in_type[1].shape;
    const int64_t m = p->dim[p->ndim - 1], n = q->dim[q->ndim - 1];
    const int64_t rows = m > 0 ? charl_shape_count(p) / m : 0;

    charl__reference_clear(r, 0);
    charl__reference_clear(r, 1);
    for (int64_t row = 0; row < rows; row++) {
        for (int64_t i = 0; i < m; i++) {
            r->out[1][i] += r->in[0][row * m + i];
            for (int64_t j = 0; j < n; j++) {
                r->out[0][i * n + j] += r->in[0][row * m + i] * r->in[1][row * n + j];
            }
        }
    }
}

static const charl__op_sample samples[] = {
    {.in = {CHARL_B(F32, 16, 5), CHARL_B(F32, 16, 7)}, .lo = -1, .hi = 1, .terms = 16},
    {.in = {CHARL_B(F32, 56, 40), CHARL_B(F32, 56, 70)}, .lo = -1, .hi = 1, .terms = 56},
    {.in = {CHARL_B(F32, 8, 300, 3), CHARL_B(F32, 8, 300, 2)}, .lo = -1, .hi = 1, .terms = 2400},
    {.in = {CHARL_R(F32, 300, 3), CHARL_R(F32, 300, 34)}, .lo = -1, .hi = 1, .terms = 300},
};

const charl__op charl_op_linear_grads = {
    .name = "linear_grads",
    .flop = charl__flop_product,
    .formula = "out0[i,j] = sum over rows of p[r,i] q[r,j], out1[i] = sum over rows of p[r,i]",
    .n_in = 2,
    .half = CHARL_HALF(0) | CHARL_HALF(1),
    CHARL_RULES(),
};
