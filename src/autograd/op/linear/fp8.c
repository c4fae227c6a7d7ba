/* round_fp8: out = x rounded to numbers of 8 bits.
 *
 * The last two extents of x are a matrix, which is divided into blocks of 128 x 128 from its first row and column on. Each block has a scale, a
 * power of two:
 *
 *      s       the largest integer in [-60, 100] for which max |x| * 2^s <= 448, the largest number of E4M3, or 57344, that of E5M2, where the
 *              maximum is over the finite elements of the block
 *      out     x * 2^s, saturated at that number and rounded to nearest even, times 2^-s; NaN where x is not finite
 *
 * Products of two such matrices are sums, in f32, of products that are exact. It does not matter where the scales are applied: in bf16, in
 * which each element of out is exact, or to the sums of blocks of 8-bit numbers (ADR 31).
 *
 * The gradient passes through unchanged.
 */
#include <math.h>

#include "autograd/launch/map.h"
#include "autograd/op/linear/fp8.h"
#include "autograd/op/linear/linear.h"
#include "charl/ops.h"

enum { BLOCK = 128, GROUP = 256, CPU_VEC = 16, LEAST_SCALE = -60, MOST_SCALE = 100 };

/* The largest number is 1.75 * 2^top; bits of the fraction; exponent of the smallest normal number. */
typedef struct numbers {
    int top, fraction, least;
} numbers;

static const numbers formats[] = {[CHARL__E4M3] = {8, 3, -6}, [CHARL__E5M2] = {15, 2, -14}};

static charl_status infer(charl__infer *inf)
{
    const charl_type *x = &inf->in[0];
    char text[CHARL_SHAPE_TEXT];

    CHARL_TRY(charl__infer_same(inf));
    CHARL_REQUIRE(x->shape.ndim >= (x->batch == CHARL_BATCHED ? 3 : 2), CHARL_ERR_SHAPE,
                  "x %s has no rows and columns besides the batch", charl_shape_format(&x->shape, text));
    return charl__infer_rows(inf);
}

static charl_status enqueue(const charl__enqueue *e)
{
    const charl_shape *s = &e->in[0]->shape;
    const int64_t rows = s->dim[s->ndim - 2], columns = s->dim[s->ndim - 1], total = charl__tensor_count(e->out[0]);
    const bool groups = !charl__is_ungrouped(e->dev) && charl_device_get_info(e->dev)->max_group >= GROUP;
    const size_t group = groups ? GROUP : 1;
    charl__launch l = {
        .file = "fp8/round_fp8",
        .entry = "charl_round_fp8",
        .params = {{"ACT", .text = charl__kernel_type(e->out[0]->dtype)},
                   {"FORMAT", *(const charl__fp8 *)e->attr},
                   {"GROUP", (int)group},
                   {"CHARL_VEC", groups ? CHARL_GPU_VEC : CPU_VEC}},
        .args = {charl__in(e->in[0]), charl__out(e->out[0]), charl__i32((int32_t)rows), charl__i32((int32_t)columns)},
        .local = {group},
        .label = e->label};

    if (total == 0) {
        return CHARL_OK;
    }
    CHARL_REQUIRE(rows <= INT32_MAX - BLOCK && columns <= INT32_MAX - BLOCK, CHARL_ERR_SHAPE,
                  "%lld rows and %lld columns do not fit the kernel", (long long)rows, (long long)columns);
    l.global[0] =
        group * (size_t)(total / (rows * columns) * charl__ceil_div(rows, BLOCK) * charl__ceil_div(columns, BLOCK));
    return charl__launch_enqueue(e->dev, &l);
}

static void backward(const charl__backward *b)
{
    b->gin[0] = b->gout[0];
}

static int scale_of(const numbers *f, double largest)
{
    int e, s;
    const double m = 2 * frexp(largest, &e); /* largest = m * 2^(e - 1), 1 <= m < 2 */

    s = largest > 0 ? f->top - (e - 1) - (m > 1.75) : MOST_SCALE;
    return s < LEAST_SCALE ? LEAST_SCALE : s > MOST_SCALE ? MOST_SCALE : s;
}

static double rounded(const numbers *f, double v)
{
    const double most = ldexp(1.75, f->top), v_most = fmin(fabs(v), most);
    const int e = v_most > 0 ? ilogb(v_most) : f->least;
    const double unit = ldexp(1.0, (e < f->least ? f->least : e) - f->fraction);

    return isfinite(v) ? copysign(nearbyint(v_most / unit) * unit, v) : (double)NAN;
}

static void round_block(const numbers *f, const double *x, double *out, int64_t rows, int64_t columns, int64_t pitch)
{
    double largest = 0;
    int s;

    for (int64_t i = 0; i < rows * columns; i++) {
        const double v = fabs(x[i / columns * pitch + i % columns]);

        largest = isfinite(v) && v > largest ? v : largest;
    }
    s = scale_of(f, largest);
    for (int64_t i = 0; i < rows * columns; i++) {
        const int64_t at = i / columns * pitch + i % columns;

        out[at] = ldexp(rounded(f, ldexp(x[at], s)), -s);
    }
}

static int64_t at_most_a_block(int64_t n)
{
    return n < BLOCK ? n : BLOCK;
}

static void reference(const charl__reference *r)
{
    const numbers *f = &formats[*(const charl__fp8 *)r->attr];
    const charl_shape *s = &r->in_type[0].shape;
    const int64_t rows = s->dim[s->ndim - 2], columns = s->dim[s->ndim - 1], total = charl_shape_count(s);

    for (int64_t matrix = 0; matrix < total; matrix += rows * columns) {
        for (int64_t i = 0; i < rows; i += BLOCK) {
            for (int64_t j = 0; j < columns; j += BLOCK) {
                const int64_t at = matrix + i * columns + j;

                round_block(f, r->in[0] + at, r->out[0] + at, at_most_a_block(rows - i), at_most_a_block(columns - j),
                            columns);
            }
        }
    }
}

static const charl__fp8 e4m3 = CHARL__E4M3, e5m2 = CHARL__E5M2;
/* Steps: the operator has no derivative. */
static const charl__op_sample samples[] = {
    {.in = {CHARL_R(F32, 3, 5)}, .attr = &e4m3, .skip_gradient = true},
    {.in = {CHARL_R(F32, 150, 300)}, .attr = &e4m3, .lo = -1e-3, .hi = 1e-3, .skip_gradient = true},
    {.in = {CHARL_R(F32, 130, 129)}, .attr = &e5m2, .lo = -1e5, .hi = 1e5, .skip_gradient = true},
    {.in = {CHARL_R(F32, 2, 1, 1)}, .attr = &e5m2, .skip_gradient = true},
    {.in = {CHARL_B(F32, 8, 1, 200)}, .attr = &e4m3, .skip_gradient = true},
    {.in = {CHARL_B(F32, 16, 33, 20)}, .attr = &e5m2, .lo = -1e-20, .hi = 1e-20, .skip_gradient = true},
    {.in = {CHARL_R(F32, 0, 4)}, .attr = &e4m3, .skip_gradient = true},
};

const charl__op charl_op_round_fp8 = {
    .name = "round_fp8",
    .formula = "out = x rounded to 8 bits, a power of two per 128 x 128 elements as scale",
    .n_in = 1,
    .attr_size = sizeof(charl__fp8),
    .cheap = true,
    .half = CHARL_HALF(0),
    CHARL_RULES(),
    .backward = backward,
};

charl_var *charl__round_fp8(charl_graph *g, charl_var *x, charl__fp8 format)
{
    const charl_type t = x ? charl_var_get_type(x) : (charl_type){0};
    const int n = t.shape.ndim;
    charl_shape matrix = t.shape;

    if (!x || n == 0 || n > (t.batch == CHARL_BATCHED ? 2 : 1)) {
        return charl__apply1(g, &charl_op_round_fp8, &format, x);
    }
    matrix.dim[n] = matrix.dim[n - 1];
    matrix.dim[n - 1] = 1;
    matrix.ndim = n + 1;
    return charl_reshape(g, charl__apply1(g, &charl_op_round_fp8, &format, charl_reshape(g, x, matrix)), t.shape);
}

charl_var *charl__linear_fp8(charl_graph *g, charl_var *x, charl_var *w, charl_var *bias)
{
    return charl__apply_n(
        g, &charl_op_linear_fp8, NULL,
        (charl_var *[]){charl__round_fp8(g, x, CHARL__E4M3), charl__round_fp8(g, w, CHARL__E4M3), bias}, 3);
}
