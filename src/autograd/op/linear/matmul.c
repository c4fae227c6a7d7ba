/* matmul: out = op(a) @ op(b), batched over leading extents.
 *
 * Gradients are products too; if b has no leading extents, its gradient is a sum over
 * all rows of a.
 */
#include "charl/ops.h"
#include "autograd/onnx/onnx.h"
#include "autograd/op.h"
#include "tensor/gemm/gemm.h"

typedef struct matmul_attr {
    bool ta, tb;
} matmul_attr;

typedef struct matmul_geometry {
    int64_t lead, m, n, k; /* lead: number of products */
    bool shared;           /* one b for all */
} matmul_geometry;

static matmul_geometry geometry_of(const matmul_attr *t, const charl_shape *a, const charl_shape *b)
{
    const int64_t *da = a->dim + a->ndim - 2, *db = b->dim + b->ndim - 2;
    matmul_geometry g = {
        .lead = 1, .m = da[t->ta ? 1 : 0], .k = da[t->ta ? 0 : 1], .n = db[t->tb ? 0 : 1], .shared = b->ndim == 2};

    for (int i = 0; i < a->ndim - 2; i++) {
        g.lead *= a->dim[i];
    }
    return g;
}

static bool leads_agree(const charl_shape *a, const charl_shape *b)
{
    bool same = a->ndim == b->ndim;

    for (int i = 0; same && i < a->ndim - 2; i++) {
        same = a->dim[i] == b->dim[i];
    }
    return same || b->ndim == 2;
}

/* Row i of the output may only depend on row i of BATCHED operands. */
static bool rows_stay(const matmul_attr *t, const charl_type *a, const charl_type *b)
{
    if (b->batch == CHARL_BATCHED) {
        return a->batch == CHARL_BATCHED && b->shape.ndim > 2;
    }
    return a->batch != CHARL_BATCHED || (b->shape.ndim == 2 && (a->shape.ndim > 2 || !t->ta));
}

static charl_status infer(charl__infer *inf)
{
    const matmul_attr *t = inf->attr;
    const charl_type *a = &inf->in[0], *b = &inf->in[1];
    char ta[CHARL_SHAPE_TEXT], tb[CHARL_SHAPE_TEXT];
    matmul_geometry g;

    CHARL_REQUIRE(charl__is_float(a->dtype) && charl__is_float(b->dtype), CHARL_ERR_DTYPE,
                  "operands are %s and %s, not floats", charl_dtype_name(a->dtype), charl_dtype_name(b->dtype));
    CHARL_REQUIRE(a->shape.ndim >= 2 && b->shape.ndim >= 2 && leads_agree(&a->shape, &b->shape), CHARL_ERR_SHAPE,
                  "a %s and b %s: leading extents differ", charl_shape_format(&a->shape, ta),
                  charl_shape_format(&b->shape, tb));
    g = geometry_of(t, &a->shape, &b->shape);
    CHARL_REQUIRE(g.k == b->shape.dim[b->shape.ndim - (t->tb ? 1 : 2)], CHARL_ERR_SHAPE,
                  "a %s%s and b %s%s: inner extents differ", charl_shape_format(&a->shape, ta),
                  t->ta ? " transposed" : "", charl_shape_format(&b->shape, tb), t->tb ? " transposed" : "");
    CHARL_REQUIRE(rows_stay(t, a, b), CHARL_ERR_SHAPE,
                  "a %s and b %s: the batch must stay the leading extent, or be summed over (a "
                  "transposed, b not)",
                  charl_shape_format(&a->shape, ta), charl_shape_format(&b->shape, tb));
    inf->out[0] = *a;
    inf->out[0].shape.dim[a->shape.ndim - 2] = g.m;
    inf->out[0].shape.dim[a->shape.ndim - 1] = g.n;
    CHARL_TRY(charl__infer_rows(inf));
    return CHARL_OK;
}

static charl_status enqueue(const charl__enqueue *e)
{
    const matmul_attr *t = e->attr;
    const matmul_geometry g = geometry_of(t, &e->in[0]->shape, &e->in[1]->shape);
    const bool flat = g.shared && !t->ta; /* then all rows are one matrix */

    if (charl__tensor_count(e->out[0]) == 0) {
        return CHARL_OK;
    }
    return charl__gemm_enqueue(
        e->dev, &(charl__gemm){.a = {e->in[0], t->ta ? CHARL_GEMM_TRANSPOSED : CHARL_GEMM_PLAIN, .outer = g.m * g.k},
                               .b = {e->in[1], t->tb ? CHARL_GEMM_TRANSPOSED : CHARL_GEMM_PLAIN,
                                     .outer = g.shared ? 0 : g.k * g.n},
                               .out = {e->out[0], .outer = g.m * g.n},
                               .m = flat ? g.lead * g.m : g.m,
                               .n = g.n,
                               .k = g.k,
                               .count = flat ? 1 : g.lead,
                               .epilogue = e->epilogue,
                               .label = e->label});
}

static charl_var *swap_last(charl_graph *g, charl_var *x)
{
    int perm[CHARL_MAX_DIMS];
    const int n = x ? charl_var_get_type(x).shape.ndim : 0;

    if (!x) {
        return NULL;
    }
    for (int i = 0; i < n; i++) {
        perm[i] = i < n - 2 ? i : 2 * n - 3 - i;
    }
    return charl_transpose(g, x, perm);
}

/* a has leading extents, b has none: b's gradient sums over them and over rows. */
static void backward_shared(const charl__backward *b, const matmul_attr *t)
{
    if (b->needed[0]) {
        b->gin[0] = charl_matmul(b->g, b->gout[0], b->in[1], false, !t->tb);
        b->gin[0] = t->ta ? swap_last(b->g, b->gin[0]) : b->gin[0];
    }
    if (b->needed[1]) {
        charl_var *a = t->ta ? swap_last(b->g, b->in[0]) : b->in[0];

        b->gin[1] = t->tb ? charl__apply2(b->g, &charl_op_linear_wgrad, NULL, b->gout[0], a)
                          : charl__apply2(b->g, &charl_op_linear_wgrad, NULL, a, b->gout[0]);
    }
}

static void backward(const charl__backward *b)
{
    const matmul_attr *t = b->attr;

    if (charl_var_get_type(b->in[0]).shape.ndim > 2 && charl_var_get_type(b->in[1]).shape.ndim == 2) {
        backward_shared(b, t);
        return;
    }
    if (b->needed[0]) {
        b->gin[0] = t->ta ? charl_matmul(b->g, b->in[1], b->gout[0], t->tb, true)
                          : charl_matmul(b->g, b->gout[0], b->in[1], false, !t->tb);
    }
    if (b->needed[1]) {
        b->gin[1] = t->tb ? charl_matmul(b->g, b->gout[0], b->in[0], true, t->ta)
                          : charl_matmul(b->g, b->in[0], b->gout[0], !t->ta, false);
    }
}

static void reference(const charl__reference *r)
{
    const matmul_attr *t = r->attr;
    const matmul_geometry g = geometry_of(t, &r->in_type[0].shape, &r->in_type[1].shape);

    for (int64_t z = 0; z < g.lead; z++) {
        const double *a = r->in[0] + z * g.m * g.k, *b = r->in[1] + (g.shared ? 0 : z * g.k * g.n);

        for (int64_t i = 0; i < g.m; i++) {
            for (int64_t j = 0; j < g.n; j++) {
                double sum = 0;

                for (int64_t l = 0; l < g.k; l++) {
                    sum += a[t->ta ? l * g.m + i : i * g.k + l] * b[t->tb ? j * g.k + l : l * g.n + j];
                }
                r->out[0][(z * g.m + i) * g.n + j] = sum;
            }
        }
    }
}

static const matmul_attr nn = {false, false}, nt = {false, true}, tn = {true, false}, tt = {true, true};

static const charl__op_sample samples[] = {
    {.in = {CHARL_B(F32, 16, 7), CHARL_R(F32, 7, 5)}, .attr = &nn, .lo = -1, .hi = 1, .terms = 7},
    {.in = {CHARL_B(F32, 8, 40), CHARL_R(F32, 35, 40)}, .attr = &nt, .lo = -1, .hi = 1, .terms = 40},
    {.in = {CHARL_B(F32, 8, 9, 33), CHARL_B(F32, 8, 33, 34)}, .attr = &nn, .lo = -1, .hi = 1, .terms = 33},
    {.in = {CHARL_B(F32, 8, 3, 5), CHARL_B(F32, 8, 3, 4)}, .attr = &tn, .lo = -1, .hi = 1, .terms = 5},
    {.in = {CHARL_B(F32, 8, 2, 3, 5), CHARL_B(F32, 8, 2, 4, 3)}, .attr = &tt, .lo = -1, .hi = 1, .terms = 5},
    {.in = {CHARL_B(F32, 8, 3, 5), CHARL_R(F32, 3, 2)}, .attr = &tn, .lo = -1, .hi = 1, .terms = 24},
    {.in = {CHARL_B(F32, 8, 3, 5), CHARL_R(F32, 2, 5)}, .attr = &nt, .lo = -1, .hi = 1, .terms = 24},
    {.in = {CHARL_R(F32, 130, 19), CHARL_R(F32, 130, 70)}, .attr = &tn, .lo = -1, .hi = 1, .terms = 130},
    {.in = {CHARL_R(F32, 20, 67), CHARL_R(F32, 71, 20)}, .attr = &tt, .lo = -1, .hi = 1, .terms = 71},
    {.in = {CHARL_R(F32, 101, 257), CHARL_R(F32, 257, 65)}, .attr = &nn, .lo = -1, .hi = 1, .terms = 257},
    {.in = {CHARL_R(F32, 1, 1), CHARL_R(F32, 1, 1)}, .attr = &nn, .lo = -1, .hi = 1, .terms = 1},
    {.in = {CHARL_R(F32, 300, 2), CHARL_R(F32, 2, 1)}, .attr = &nn, .lo = -1, .hi = 1, .terms = 300},
    {.in = {CHARL_R(F32, 1, 3), CHARL_R(F32, 3, 200)}, .attr = &nn, .lo = -1, .hi = 1, .terms = 200},
};

static void onnx(const charl__onnx_node *n)
{
    const matmul_attr *t = n->attr;
    const char *a = n->in[0], *b = n->in[1];

    a = t->ta ? charl__onnx_swap_last(n, a, n->in_type[0].shape.ndim) : a;
    b = t->tb ? charl__onnx_swap_last(n, b, n->in_type[1].shape.ndim) : b;
    charl__onnx_op(n, "MatMul", a, b, n->out);
}

const charl__op charl_op_matmul = {
    .name = "matmul",
    .flop = charl__flop_product,
    .formula = "out = op(a) @ op(b)",
    .n_in = 2,
    .attr_size = sizeof(matmul_attr),
    .epilogue = true,
    .half = CHARL_HALF(0) | CHARL_HALF(1),
    CHARL_RULES(),
    .backward = backward,
    .onnx = onnx,
};

charl_var *charl_matmul(charl_graph *g, charl_var *a, charl_var *b, bool ta, bool tb)
{
    const matmul_attr t = {ta, tb};

    if (a && b && ta && !tb) {
        const charl_type x = charl_var_get_type(a), y = charl_var_get_type(b);

        if (x.shape.ndim == 2 && y.shape.ndim == 2 && x.batch == CHARL_BATCHED && y.batch == CHARL_BATCHED) {
            return charl__apply2(g, &charl_op_linear_wgrad, NULL, a, b);
        }
    }
    return charl__apply2(g, &charl_op_matmul, &t, a, b);
}
