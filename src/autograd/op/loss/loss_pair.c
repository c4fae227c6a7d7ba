/* What the losses of a prediction and a target of its shape share. */
#include "autograd/op/loss/loss_pair.h"

#include "charl/ops.h"

static float parameter_of(const void *attr)
{
    return attr ? *(const float *)attr : 0.0F;
}

int64_t charl__pair_rest(const charl_shape *s)
{
    return s->ndim > 0 && s->dim[0] > 0 ? charl_shape_count(s) / s->dim[0] : 0;
}

charl_status charl__pair_infer(charl_infer *inf)
{
    const charl_type *x = &inf->in[0], *t = &inf->in[1];
    char a[CHARL_SHAPE_TEXT], b[CHARL_SHAPE_TEXT];

    CHARL_REQUIRE(charl__is_float(x->dtype) && charl__is_float(t->dtype), CHARL_ERR_DTYPE,
                  "operands are %s and %s, not floats", charl_dtype_name(x->dtype),
                  charl_dtype_name(t->dtype));
    CHARL_REQUIRE(x->shape.ndim > 0 && charl_shape_equal(&x->shape, &t->shape), CHARL_ERR_SHAPE,
                  "%s and target %s are not the same [B, ...]", charl_shape_format(&x->shape, a),
                  charl_shape_format(&t->shape, b));
    inf->out[0] = *x;
    inf->out[0].dtype = CHARL_F32;
    inf->out[0].shape.ndim = 1;
    inf->workspace = charl__reduce_scratch(x->shape.dim[0], charl__pair_rest(&x->shape), 1) * 4;
    CHARL_TRY(charl__infer_rows(inf));
    return CHARL_OK;
}

charl_status charl__pair_infer_grad(charl_infer *inf)
{
    charl_type in[3];
    charl_infer same = *inf;

    for (int i = 0; i < 3; i++) {
        in[i] = inf->in[i];
        CHARL_REQUIRE(charl__is_float(in[i].dtype), CHARL_ERR_DTYPE,
                      "operand %d is %s, not a float", i, charl_dtype_name(in[i].dtype));
        in[i].dtype = inf->in[0].dtype; /* the kernel takes any */
    }
    same.in = in;
    CHARL_TRY(charl__infer_broadcast(&same));
    inf->out[0] = same.out[0];
    return CHARL_OK;
}

charl_status charl__pair_enqueue(const charl_enqueue *e, const char *expr)
{
    const charl_shape *s = &e->in[0]->shape;

    return charl__reduce_sum(e, &(charl_reduce){.expr = expr,
                                                .a = charl__in(e->in[0]),
                                                .b = charl__in(e->in[1]),
                                                .a_type = e->in[0]->dtype,
                                                .b_type = e->in[1]->dtype,
                                                .n_in = 2,
                                                .outer = s->dim[0],
                                                .n = charl__pair_rest(s),
                                                .inner = 1,
                                                .out = charl__out(e->out[0]),
                                                .p = parameter_of(e->attr),
                                                .scale = 1.0F / (float)charl__pair_rest(s)});
}

charl_var *charl__pair_by_row(const charl_backward *b)
{
    charl_shape s = charl_var_get_type(b->in[0]).shape;

    for (int i = 1; i < s.ndim; i++) {
        s.dim[i] = 1;
    }
    return charl_reshape(b->g, b->gout[0], s);
}

void charl__pair_backward(const charl_backward *b, const charl_op *grad)
{
    charl_var *out[CHARL_OP_MAX_OUT];

    charl__apply(b->g, grad, b->attr, (charl_var *[]){b->in[0], b->in[1], charl__pair_by_row(b)}, 3,
                 out);
    if (b->needed[0]) {
        b->gin[0] = out[0];
    }
    if (b->needed[1]) {
        const charl_type t = charl_var_get_type(b->in[1]);

        b->gin[1] = charl__as_dtype(b->g, charl_scale(b->g, out[0], -1.0F, 0.0F), t.dtype);
    }
}

charl_status charl__pair_enqueue_grad(const charl_enqueue *e, const char *expr)
{
    return charl__map_run(e, &(charl_map){.expr = expr,
                                          .in = e->in,
                                          .n_in = 3,
                                          .out = e->out[0],
                                          .p = 1.0F / (float)charl__pair_rest(&e->in[0]->shape),
                                          .q = parameter_of(e->attr)});
}

void charl__pair_reference(const charl_reference *r, charl__pair_fn f)
{
    const int64_t n = charl__pair_rest(&r->in_type[0].shape);
    const double parameter = (double)parameter_of(r->attr);

    for (int64_t i = 0; i < r->out_type[0].shape.dim[0]; i++) {
        double sum = 0.0;

        for (int64_t j = i * n; j < (i + 1) * n; j++) {
            sum += f(r->in[0][j], r->in[1][j], parameter);
        }
        r->out[0][i] = sum / (double)n;
    }
}

void charl__pair_reference_grad(const charl_reference *r, charl__pair_fn df)
{
    const int64_t n = charl__pair_rest(&r->in_type[0].shape);
    const double parameter = (double)parameter_of(r->attr);

    for (int64_t i = 0; i < charl_shape_count(&r->out_type[0].shape); i++) {
        r->out[0][i] = r->in[2][i / n] / (double)n * df(r->in[0][i], r->in[1][i], parameter);
    }
}
