/* Linear layers whose products are computed with integers of 8 bits.
 *
 * linear_integer: out = x @ w^T + bias or, with the attribute `plain`, x @ w. linear_wgrad_integer: the sum over rows that is the gradient of
 * a weight. The gradients of both are such products again; that of the bias is a sum in f32.
 *
 * This is the definition of an element of a product, the sum over k of a[k] * b[k], with D = 4 digits of f32 and D = 2 of half types:
 *
 *      s(a)    the largest integer up to 126 for which 2^s * max |a[k]|, rounded to nearest even, is 0x7f7f7f7f (D = 2: 0x7f7f) or less
 *      q(a)    2^s(a) * a[k], rounded to nearest even: an integer of D digits, d0 2^(8 D - 8) + ... + d[D-1], each from -128 to 127
 *      c[g]    the sum over k of the products of digit i of q(a) and digit j of q(b) with i + j = g, for g = 0 to D - 1: integers of 32 bits.
 *              Products with i + j >= D are left out.
 *      sum     2^(16 D - 16 - s(a) - s(b)) * (c[0] + 2^-8 * (c[1] + 2^-8 * (c[2] + c[3] / 2^8))), where c[3] / 2^8 is rounded to the nearest integer, a
 *              half upwards; then c[2] + c[3] / 2^8, c[1] and c[0] are rounded to f32, and the two other sums and the result, each once.
 *              D = 2: without c[2] and c[3]
 *
 * An element of a or b that is not finite makes it NaN. Sums of fewer than 256 and of more than 32,768 products, and operands that are not
 * matrices, are chains of fma as everywhere else (charl__gemm_is_integer).
 */
#include <math.h>

#include "autograd/op/linear/integer.h"

#include "autograd/launch/gemm_slices.h"
#include "autograd/op/linear/linear.h"
#include "charl/ops.h"

enum { MOST_DIGITS = CHARL__MOST_DIGITS, MOST = 0x7f7f7f7f, MOST_SCALE = 126, SHORTEST = 256, LONGEST = 1 << 15 };
enum { NO_SCALE = 1000 };

/* Every `step`-th number from `first` on. */
typedef struct line {
    const double *first;
    int64_t step;
} line;

double charl__integer_largest(double largest, double x)
{
    return !isfinite(x) ? (double)INFINITY : fabs(x) > largest ? fabs(x) : largest;
}

int charl__integer_scale(double largest, int digits)
{
    int e, scale = MOST_SCALE;

    if (!isfinite(largest)) {
        return NO_SCALE;
    }
    if (largest > 0) {
        frexp(largest, &e);
        scale = 8 * digits - 1 - e;
        scale -= nearbyint(ldexp(largest, scale)) > MOST >> (32 - 8 * digits);
    }
    return scale < MOST_SCALE ? scale : MOST_SCALE;
}

static void find_digits(double x, int scale, int digits, int digit[MOST_DIGITS])
{
    int64_t q = (int64_t)nearbyint(ldexp(x, scale));

    for (int d = digits - 1; d > 0; d--) {
        digit[d] = (int)((q + 128) & 255) - 128;
        q = (q - digit[d]) / 256;
    }
    digit[0] = (int)q;
}

void charl__integer_add(double a, int s, double b, int t, int digits, int64_t c[MOST_DIGITS])
{
    int p[MOST_DIGITS], q[MOST_DIGITS];

    if (s == NO_SCALE || t == NO_SCALE) {
        return;
    }
    find_digits(a, s, digits, p);
    find_digits(b, t, digits, q);
    for (int i = 0; i < digits; i++) {
        for (int j = 0; i + j < digits; j++) {
            c[i + j] += p[i] * q[j];
        }
    }
}

double charl__integer_sum(const int64_t c[MOST_DIGITS], int s, int t, int digits)
{
    const int64_t low = c[2] + (int64_t)floor((double)(c[3] + 128) / 256);
    const float sum = fmaf(fmaf((float)low, 0x1p-8F, (float)c[1]), 0x1p-8F, (float)c[0]);

    return s == NO_SCALE || t == NO_SCALE ? (double)NAN : (double)(float)ldexp((double)sum, 16 * digits - 16 - s - t);
}

static int scale_of(line x, int64_t k, int digits)
{
    double largest = 0;

    for (int64_t l = 0; l < k; l++) {
        largest = charl__integer_largest(largest, x.first[l * x.step]);
    }
    return charl__integer_scale(largest, digits);
}

static double product_of(line a, line b, int64_t k, int digits)
{
    const int s = scale_of(a, k, digits), t = scale_of(b, k, digits);
    int64_t c[MOST_DIGITS] = {0};

    for (int64_t l = 0; l < k; l++) {
        charl__integer_add(a.first[l * a.step], s, b.first[l * b.step], t, digits, c);
    }
    return charl__integer_sum(c, s, t, digits);
}

static double sum_of(line a, line b, int64_t k)
{
    double sum = 0;

    for (int64_t l = 0; l < k; l++) {
        sum += a.first[l * a.step] * b.first[l * b.step];
    }
    return sum;
}

/* out [m, n]; a and b: of their first rows, the next `a_row` and `b_row` further. */
static void multiply(line a, int64_t a_row, line b, int64_t b_row, const double *bias, int64_t m, int64_t n, int64_t k,
                     int digits, double *out)
{
    for (int64_t i = 0; i < m; i++) {
        for (int64_t j = 0; j < n; j++) {
            const line x = {a.first + i * a_row, a.step}, y = {b.first + j * b_row, b.step};

            out[i * n + j] =
                (k < SHORTEST || k > LONGEST ? sum_of(x, y, k) : product_of(x, y, k, digits)) + (bias ? bias[j] : 0);
        }
    }
}

static int64_t columns_of(const charl_shape *s)
{
    return s->dim[s->ndim - 1];
}

static int64_t rows_of(const charl_shape *s)
{
    return charl_shape_count(s) / (columns_of(s) > 0 ? columns_of(s) : 1);
}

static int digits_of(charl_dtype type)
{
    return type == CHARL_F32 ? MOST_DIGITS : 2;
}

static bool is_plain(const void *attr)
{
    return *(const bool *)attr;
}

static charl__gemm product(const charl_shape *x, const charl_shape *w, charl_dtype type, const void *attr)
{
    charl__gemm p = charl__linear_product(x, w, is_plain(attr));

    p.n_digits = digits_of(type);
    return p;
}

static charl_status infer(charl__infer *inf)
{
    charl__gemm p;

    CHARL_TRY(charl__infer_linear(inf, is_plain(inf->attr)));
    p = product(&inf->in[0].shape, &inf->in[1].shape, inf->in[0].dtype, inf->attr);
    inf->workspace = charl__gemm_digits_bytes(&p);
    return CHARL_OK;
}

static charl_status enqueue(const charl__enqueue *e)
{
    charl__gemm p = product(&e->in[0]->shape, &e->in[1]->shape, e->in[0]->dtype, e->attr);

    p.digits = e->workspace;
    return charl__linear_enqueue(e, p);
}

static charl_var *times(charl_graph *g, charl_var *x, charl_var *w, bool plain)
{
    return charl__apply2(g, &charl_op_linear_integer, &plain, x, w);
}

static charl_var *wgrad(charl_graph *g, charl_var *p, charl_var *q)
{
    return charl__apply2(g, &charl_op_linear_wgrad_integer, NULL, p, q);
}

static void backward(const charl__backward *b)
{
    charl_var *gout = b->gout[0];

    if (b->needed[0]) {
        b->gin[0] = times(b->g, gout, b->in[1], !is_plain(b->attr));
    }
    if (b->needed[1]) {
        b->gin[1] = is_plain(b->attr) ? wgrad(b->g, b->in[0], gout) : wgrad(b->g, gout, b->in[0]);
    }
    if (b->n_in > 2 && b->needed[2]) {
        b->gin[2] = charl_sum_to(b->g, gout, charl_var_get_type(gout).shape.ndim - 1);
    }
}

static void reference(const charl__reference *r)
{
    const bool plain = is_plain(r->attr);
    const charl_shape *w = &r->in_type[1].shape;
    const int64_t k = w->dim[plain ? 0 : 1], n = w->dim[plain ? 1 : 0];

    multiply((line){r->in[0], 1}, k, (line){r->in[1], plain ? n : 1}, plain ? 1 : k, r->n_in > 2 ? r->in[2] : NULL,
             rows_of(&r->in_type[0].shape), n, k, digits_of(r->in_type[0].dtype), r->out[0]);
}

static charl__gemm product_wgrad(const charl_shape *p, const charl_shape *q, charl_dtype type, int slices)
{
    charl__gemm product = charl__wgrad_product(p, q, slices);

    product.n_digits = digits_of(type);
    return product;
}

static charl_status infer_wgrad(charl__infer *inf)
{
    const bool batched = inf->in[0].batch == CHARL_BATCHED;
    charl__gemm p;

    CHARL_TRY(charl__infer_wgrad(inf));
    p = product_wgrad(&inf->in[0].shape, &inf->in[1].shape, inf->in[0].dtype, batched ? inf->n_slices : 1);
    inf->workspace =
        batched ? charl__gemm_slices_workspace(&p, inf->in[0].dtype, inf->n_slices) : charl__gemm_digits_bytes(&p);
    return CHARL_OK;
}

static charl_status enqueue_wgrad(const charl__enqueue *e)
{
    charl__gemm p = product_wgrad(&e->in[0]->shape, &e->in[1]->shape, e->in[0]->dtype,
                                  charl__is_partial(e, 0) ? e->slices->count : 1);

    p.a.tensor = e->in[0];
    p.b.tensor = e->in[1];
    p.label = e->label;
    return charl__gemm_slices(e, &p, 0);
}

static void backward_wgrad(const charl__backward *b)
{
    charl_var *gout = charl__as_dtype(b->g, b->gout[0], charl_var_get_type(b->in[0]).dtype);

    if (b->needed[0]) {
        b->gin[0] = times(b->g, b->in[1], gout, false);
    }
    if (b->needed[1]) {
        b->gin[1] = times(b->g, b->in[0], gout, true);
    }
}

/* Of all rows as one slice: the scales of several are not known here. */
static void reference_wgrad(const charl__reference *r)
{
    const int64_t m = columns_of(&r->in_type[0].shape), n = columns_of(&r->in_type[1].shape);

    multiply((line){r->in[0], m}, 1, (line){r->in[1], n}, 1, NULL, m, n, rows_of(&r->in_type[0].shape),
             digits_of(r->in_type[0].dtype), r->out[0]);
}

/* Products are steps: their derivatives are not those of the formula. */
static const bool transposed = false, plain = true;
static const charl__op_sample samples[] = {
    {.in = {CHARL_B(F32, 16, 7), CHARL_R(F32, 5, 7), CHARL_R(F32, 5)},
     .attr = &transposed,
     .lo = -1,
     .hi = 1,
     .terms = 8},
    {.in = {CHARL_B(F32, 16, 9), CHARL_R(F32, 9, 5), CHARL_R(F32, 5)}, .attr = &plain, .lo = -1, .hi = 1, .terms = 10},
    {.in = {CHARL_B(F32, 8, 3, 300), CHARL_R(F32, 33, 300), CHARL_R(F32, 33)},
     .attr = &transposed,
     .lo = -1,
     .hi = 1,
     .terms = 301,
     .skip_gradient = true},
    {.in = {CHARL_B(F32, 136, 261), CHARL_R(F32, 261, 131)},
     .n_in = 2,
     .attr = &plain,
     .lo = -1e-3,
     .hi = 1e-3,
     .terms = 261,
     .skip_gradient = true},
    {.in = {CHARL_R(F32, 513), CHARL_R(F32, 4, 513)},
     .n_in = 2,
     .attr = &transposed,
     .lo = -1,
     .hi = 1,
     .terms = 513,
     .skip_gradient = true},
};

const charl__op charl_op_linear_integer = {
    .name = "linear_integer",
    .flop = charl__flop_product,
    .formula = "out = x @ w^T + bias or x @ w + bias, by products of integers of 8 bits",
    .n_in = 3,
    .n_optional = 1,
    .attr_size = sizeof(bool),
    .half = CHARL_HALF(0) | CHARL_HALF(1),
    .epilogue = true,
    .draws_apart = true,
    CHARL_RULES(),
    .backward = backward,
};

static const charl__op_sample samples_wgrad[] = {
    {.in = {CHARL_B(F32, 8, 67), CHARL_B(F32, 8, 133)}, .lo = -1, .hi = 1, .terms = 8},
    {.in = {CHARL_B(F32, 8, 257, 3), CHARL_B(F32, 8, 257, 2)}, .lo = -1, .hi = 1, .terms = 2056, .skip_gradient = true},
    {.in = {CHARL_R(F32, 300, 3), CHARL_R(F32, 300, 34)}, .lo = -1, .hi = 1, .terms = 300, .skip_gradient = true},
};

const charl__op charl_op_linear_wgrad_integer = {
    .name = "linear_wgrad_integer",
    .flop = charl__flop_product,
    .formula = "out[i,j] = sum over rows of p[r,i] q[r,j], by products of integers of 8 bits",
    .n_in = 2,
    .half = CHARL_HALF(0) | CHARL_HALF(1),
    .infer = infer_wgrad,
    .enqueue = enqueue_wgrad,
    .backward = backward_wgrad,
    .reference = reference_wgrad,
    CHARL_SAMPLES(samples_wgrad),
};

charl_var *charl_linear_integer(charl_graph *g, charl_var *x, charl_var *w, charl_var *bias)
{
    return charl__apply_n(g, &charl_op_linear_integer, &transposed, (charl_var *[]){x, w, bias}, 3);
}
