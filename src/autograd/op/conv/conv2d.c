/* conv2d: cross-correlation, and its two gradients as operators: conv2d_dgrad for x, conv2d_wgrad
 * for the weight.
 *
 * The three are one trilinear form, so that each one's gradients are the other two.
 */
#include <math.h>

#include "autograd/op/conv/conv2d.h"
#include "autograd/op/conv/conv_backend.h"
#include "autograd/op/linear/integer.h"
#include "autograd/op/conv/window.h"
#include "autograd/onnx/onnx.h"
#include "base/alloc.h"
#include "charl/ops.h"

static charl__conv describe(const charl__conv_attr *t, const charl_shape *x, const charl_shape *w,
                            const charl_shape *out)
{
    charl__conv c = {.batch = x->dim[0],
                     .c = x->dim[1],
                     .h = x->dim[2],
                     .w = x->dim[3],
                     .o = w->dim[0],
                     .oh = out->dim[2],
                     .ow = out->dim[3],
                     .groups = t->groups,
                     .is_integer = t->is_integer};

    for (int d = 0; d < 2; d++) {
        c.kernel[d] = t->win.kernel[d];
        c.stride[d] = t->win.stride[d];
        c.padding[d] = t->win.padding[d];
        c.dilation[d] = t->win.dilation[d];
    }
    return c;
}

static charl_status check_images(const charl__infer *inf, int n)
{
    char text[CHARL_SHAPE_TEXT];

    for (int i = 0; i < inf->n_in; i++) {
        CHARL_REQUIRE(charl__is_float(inf->in[i].dtype), CHARL_ERR_DTYPE, "operand %d is %s, not a float", i,
                      charl_dtype_name(inf->in[i].dtype));
        CHARL_REQUIRE(i >= n || inf->in[i].shape.ndim == 4, CHARL_ERR_SHAPE, "operand %d %s has not four extents", i,
                      charl_shape_format(&inf->in[i].shape, text));
    }
    return CHARL_OK;
}

/* out [B, O, OH, OW] of x [B, C, H, W] under w [O, C/groups, KH, KW]. */
static charl_status output_shape(const charl__conv_attr *t, const charl_shape *x, const charl_shape *w,
                                 charl_shape *out)
{
    const charl__conv c = describe(t, x, w, x);
    char a[CHARL_SHAPE_TEXT], b[CHARL_SHAPE_TEXT];

    CHARL_REQUIRE(t->groups >= 1 && c.c % t->groups == 0 && c.o % t->groups == 0 && w->dim[1] == c.c / t->groups &&
                      w->dim[2] == c.kernel[0] && w->dim[3] == c.kernel[1],
                  CHARL_ERR_SHAPE, "weight %s does not fit x %s with kernel %d x %d and %d groups",
                  charl_shape_format(w, a), charl_shape_format(x, b), c.kernel[0], c.kernel[1], t->groups);
    *out = *x;
    out->dim[1] = c.o;
    return charl__window_output(&t->win, 2, x, out);
}

static const charl__conv_backend *choose_backend(charl__infer *inf, const charl__conv *c)
{
    const charl__conv_backend *b = charl__conv_backend_for(inf->dev, inf->in[0].dtype, c);

    inf->layout = b->layout;
    return b;
}

static const charl__conv_backend *backend_of(const charl__enqueue *e, const charl__conv *c)
{
    return charl__conv_backend_for(e->dev, e->in[0]->dtype, c);
}

static charl_status infer(charl__infer *inf)
{
    const charl__conv_attr *t = inf->attr;
    charl__conv c;
    char a[CHARL_SHAPE_TEXT];

    CHARL_TRY(check_images(inf, 2));
    CHARL_REQUIRE(inf->in[1].batch != CHARL_BATCHED && (inf->n_in < 3 || inf->in[2].batch != CHARL_BATCHED),
                  CHARL_ERR_SHAPE, "weight and bias must be the same for all rows");
    inf->out[0].dtype = inf->in[0].dtype;
    CHARL_TRY(output_shape(t, &inf->in[0].shape, &inf->in[1].shape, &inf->out[0].shape));
    CHARL_REQUIRE(inf->n_in < 3 || (inf->in[2].shape.ndim == 1 && inf->in[2].shape.dim[0] == inf->in[1].shape.dim[0]),
                  CHARL_ERR_SHAPE, "bias %s does not fit %lld output channels",
                  charl_shape_format(&inf->in[inf->n_in - 1].shape, a), (long long)inf->in[1].shape.dim[0]);
    CHARL_TRY(charl__infer_rows(inf));
    c = describe(t, &inf->in[0].shape, &inf->in[1].shape, &inf->out[0].shape);
    inf->workspace = choose_backend(inf, &c)->workspace(&c);
    return CHARL_OK;
}

static charl_status enqueue(const charl__enqueue *e)
{
    const charl__conv c = describe(e->attr, &e->in[0]->shape, &e->in[1]->shape, &e->out[0]->shape);

    if (charl__tensor_count(e->out[0]) == 0) {
        return CHARL_OK;
    }
    return backend_of(e, &c)->enqueue(e, &c);
}

charl_var *charl__conv2d_dgrad(charl_graph *g, charl_var *gout, charl_var *w, const charl_window *win, int groups,
                               const int64_t size[2])
{
    const charl__conv_attr t = {.win = *win, .groups = groups, .size = {size[0], size[1]}};

    return charl__apply2(g, &charl_op_conv2d_dgrad, &t, gout, w);
}

static charl_var *apply_dgrad(const charl__backward *b, charl_var *gout, charl_var *w, const charl_var *x)
{
    const charl_shape s = charl_var_get_type(x).shape;
    charl__conv_attr t = *(const charl__conv_attr *)b->attr;

    t.size[0] = s.dim[2];
    t.size[1] = s.dim[3];
    return charl__apply2(b->g, &charl_op_conv2d_dgrad, &t, gout, w);
}

static void backward(const charl__backward *b)
{
    if (b->needed[0]) {
        b->gin[0] = apply_dgrad(b, b->gout[0], b->in[1], b->in[0]);
    }
    if (b->needed[1]) {
        b->gin[1] = charl__apply2(b->g, &charl_op_conv2d_wgrad, b->attr, b->gout[0], b->in[0]);
    }
    if (b->n_in > 2 && b->needed[2]) {
        b->gin[2] = charl_sum_to(b->g, b->gout[0], 1);
    }
}

/* The references treat the image as infinite, 0 outside, and multiply those zeros too, like
 * the kernels. */
typedef struct place {
    int64_t o, y, x, c, i, j; /* output channel, row and column; channel within the group; row and column of the tap */
    int64_t first;            /* channel of the group */
} place;

/* Element of x that a tap of an output pixel reads, or -1 if it is outside. */
static int64_t x_index(const charl__conv *c, int64_t b, place l)
{
    const int64_t h = l.y * c->stride[0] - c->padding[0] + l.i * c->dilation[0];
    const int64_t w = l.x * c->stride[1] - c->padding[1] + l.j * c->dilation[1];

    return h < 0 || h >= c->h || w < 0 || w >= c->w ? -1 : ((b * c->c + l.first + l.c) * c->h + h) * c->w + w;
}

static int64_t w_index(const charl__conv *c, int64_t channels, place l)
{
    return ((l.o * channels + l.c) * c->kernel[0] + l.i) * c->kernel[1] + l.j;
}

static int64_t out_index(const charl__conv *c, int64_t b, place l)
{
    return ((b * c->o + l.o) * c->oh + l.y) * c->ow + l.x;
}

/* Step through all (output element, channel, tap) of a sample in order; false at the end. channels: per group. */
static bool next_place(const charl__conv *c, int64_t channels, place *l)
{
    if (++l->j < c->kernel[1]) {
        return true;
    }
    l->j = 0;
    if (++l->i < c->kernel[0]) {
        return true;
    }
    l->i = 0;
    if (++l->c < channels) {
        return true;
    }
    l->c = 0;
    if (++l->x < c->ow) {
        return true;
    }
    l->x = 0;
    if (++l->y < c->oh) {
        return true;
    }
    l->y = 0;
    l->o++;
    l->first = l->o / (c->o / c->groups) * channels;
    return l->o < c->o;
}

/* Element i of an operand belongs to row i / inner % rows, which has one scale: rows are samples of images, or channels. */
typedef struct scaled {
    int64_t inner, rows, count;
    double *largest; /* of each row */
} scaled;

static int scale_at(const scaled *x, int64_t i)
{
    return charl__integer_scale(x->largest[i / x->inner % x->rows], CHARL__MOST_DIGITS);
}

static void find_rows(const charl__conv *c, charl__conv_part part, scaled u[2])
{
    const int64_t taps = (int64_t)c->kernel[0] * c->kernel[1], x = c->c * c->h * c->w, out = c->o * c->oh * c->ow;

    switch (part) {
    case CHARL__CONV_OUT:
        u[0] = (scaled){.inner = x, .rows = c->batch, .count = c->batch * x};
        u[1] = (scaled){.inner = c->c * taps, .rows = c->o, .count = c->o * c->c * taps};
        break;
    case CHARL__CONV_INPUT:
        u[0] = (scaled){.inner = out, .rows = c->batch, .count = c->batch * out};
        u[1] = (scaled){.inner = taps, .rows = c->c, .count = c->o * c->c * taps};
        break;
    case CHARL__CONV_WEIGHT:
        u[0] = (scaled){.inner = c->oh * c->ow, .rows = c->o, .count = c->batch * out};
        u[1] = (scaled){.inner = c->h * c->w, .rows = c->c, .count = c->batch * x};
        break;
    }
}

/* Adds the products of all places to the groups of the elements of the result. */
static void add_integers(const charl__conv *c, charl__conv_part part, const double *const *in, const scaled u[2],
                         int64_t *sums)
{
    for (int64_t b = 0; b < c->batch; b++) {
        place l = {0};

        do {
            const int64_t x = x_index(c, b, l), w = w_index(c, c->c, l), o = out_index(c, b, l);
            const int64_t i = part == CHARL__CONV_OUT ? x : o, j = part == CHARL__CONV_WEIGHT ? x : w;
            const int64_t to = part == CHARL__CONV_OUT ? o : part == CHARL__CONV_INPUT ? x : w;

            if (x >= 0) {
                charl__integer_add(in[0][i], scale_at(&u[0], i), in[1][j], scale_at(&u[1], j), CHARL__MOST_DIGITS,
                                   sums + to * CHARL__MOST_DIGITS);
            }
        } while (next_place(c, c->c, &l));
    }
}

/* False: this part is not computed from integers (conv_digits.c). */
static bool reference_integers(const charl__reference *r, const charl__conv *c, charl__conv_part part)
{
    const int64_t n = charl_shape_count(&r->out_type[0].shape);
    int64_t *sums = NULL;
    double *largest = NULL;
    scaled u[2];

    if (r->in_type[0].dtype != CHARL_F32 || !charl__conv_is_integer(c, part)) {
        return false;
    }
    find_rows(c, part, u);
    if (charl__alloc_array(n * CHARL__MOST_DIGITS, sizeof *sums, &sums) == CHARL_OK &&
        charl__alloc_array(u[0].rows + u[1].rows, sizeof *largest, &largest) == CHARL_OK) {
        for (int k = 0; k < 2; k++) {
            u[k].largest = largest + (k == 0 ? 0 : u[0].rows);
            for (int64_t i = 0; i < u[k].count; i++) {
                double *const row = &u[k].largest[i / u[k].inner % u[k].rows];

                *row = charl__integer_largest(*row, r->in[k][i]);
            }
        }
        add_integers(c, part, r->in, u, sums);
        for (int64_t i = 0; i < n; i++) { /* [row of the first operand, row of the second, ...] */
            const int64_t row = i / (n / (u[0].rows * u[1].rows));
            const double a = u[0].largest[row / u[1].rows], b = u[1].largest[row % u[1].rows];

            r->out[0][i] =
                charl__integer_sum(sums + i * CHARL__MOST_DIGITS, charl__integer_scale(a, CHARL__MOST_DIGITS),
                                   charl__integer_scale(b, CHARL__MOST_DIGITS), CHARL__MOST_DIGITS);
        }
    }
    charl_free(sums);
    charl_free(largest);
    return true;
}

static void add_bias(const charl__reference *r, const charl__conv *c)
{
    for (int64_t i = 0; r->n_in > 2 && i < charl_shape_count(&r->out_type[0].shape); i++) {
        r->out[0][i] += r->in[2][i / (c->oh * c->ow) % c->o];
    }
}

static void reference(const charl__reference *r)
{
    const charl__conv c = describe(r->attr, &r->in_type[0].shape, &r->in_type[1].shape, &r->out_type[0].shape);
    const int64_t channels = c.c / c.groups;

    if (reference_integers(r, &c, CHARL__CONV_OUT)) {
        add_bias(r, &c);
        return;
    }
    charl__reference_clear(r, 0);
    for (int64_t b = 0; b < c.batch; b++) {
        place l = {0};

        do {
            const int64_t x = x_index(&c, b, l);

            r->out[0][out_index(&c, b, l)] += (x < 0 ? 0 : r->in[0][x]) * r->in[1][w_index(&c, channels, l)];
        } while (next_place(&c, channels, &l));
    }
    add_bias(r, &c);
}

/* Operands in [-1, 1); terms of the longest sum. */
#define DRAWN(a, n) .attr = &(a), .lo = -1, .hi = 1, .terms = (n)

static const charl__conv_attr k3 = {{{3, 3}, {1, 1}, {1, 1}, {1, 1}}, 1, {0, 0}};
static const charl__conv_attr k5 = {{{5, 5}, {1, 1}, {0, 0}, {1, 1}}, 1, {0, 0}};
static const charl__conv_attr k1 = {{{1, 1}, {1, 1}, {0, 0}, {1, 1}}, 1, {0, 0}};
static const charl__conv_attr strided = {{{3, 2}, {2, 3}, {1, 0}, {1, 2}}, 1, {0, 0}};
static const charl__conv_attr depthwise = {{{3, 3}, {2, 2}, {1, 1}, {1, 1}}, 6, {0, 0}};
static const charl__conv_attr depthwise_wide = {{{7, 5}, {1, 2}, {3, 1}, {1, 1}}, 4, {0, 0}}; /* blocks of four rows */
static const charl__conv_attr depthwise_gaps = {{{3, 2}, {1, 3}, {0, 2}, {2, 3}}, 2, {0, 0}};
static const charl__conv_attr depthwise_empty = {{{3, 3}, {1, 1}, {2, 1}, {1, 1}}, 2, {0, 0}};
static const charl__conv_attr grouped = {{{2, 3}, {1, 1}, {2, 1}, {2, 1}}, 2, {0, 0}};

/* Products of integers are steps: their derivatives are not those of the formula. */
#define DRAWN_STEPS(a, n) DRAWN(a, n), .skip_gradient = true
static const charl__conv_attr k3_integer = {{{3, 3}, {1, 1}, {1, 1}, {1, 1}}, 1, {0, 0}, true};
static const charl__conv_attr gaps_integer = {{{2, 2}, {1, 1}, {0, 3}, {1, 3}}, 1, {0, 0}, true};

static const charl__op_sample samples[] = {
    {.in = {CHARL_B(F32, 8, 2, 5, 6), CHARL_R(F32, 3, 2, 3, 3), CHARL_R(F32, 3)}, DRAWN(k3, 54)},
    {.in = {CHARL_B(F32, 8, 1, 12, 11), CHARL_R(F32, 9, 1, 5, 5), CHARL_R(F32, 9)}, DRAWN(k5, 448)},
    {.in = {CHARL_B(F32, 8, 3, 4, 3), CHARL_R(F32, 2, 3, 1, 1)}, .n_in = 2, DRAWN(k1, 96)},
    {.in = {CHARL_B(F32, 8, 2, 7, 9), CHARL_R(F32, 3, 2, 3, 2), CHARL_R(F32, 3)}, DRAWN(strided, 96)},
    {.in = {CHARL_B(F32, 8, 6, 5, 5), CHARL_R(F32, 6, 1, 3, 3), CHARL_R(F32, 6)}, DRAWN(depthwise, 72)},
    {.in = {CHARL_B(F32, 8, 4, 9, 12), CHARL_R(F32, 4, 1, 7, 5)}, .n_in = 2, DRAWN(depthwise_wide, 280)},
    {.in = {CHARL_B(F32, 8, 2, 7, 9), CHARL_R(F32, 2, 1, 3, 2), CHARL_R(F32, 2)}, DRAWN(depthwise_gaps, 48)},
    {.in = {CHARL_B(F32, 8, 2, 0, 9), CHARL_R(F32, 2, 1, 3, 3), CHARL_R(F32, 2)}, DRAWN(depthwise_empty, 18)},
    {.in = {CHARL_B(F32, 8, 4, 5, 4), CHARL_R(F32, 6, 2, 2, 3), CHARL_R(F32, 6)}, DRAWN(grouped, 224)},
    {.in = {CHARL_R(F32, 1, 1, 1, 1), CHARL_R(F32, 1, 1, 1, 1), CHARL_R(F32, 1)}, DRAWN(k1, 2)},
    {.in = {CHARL_R(F32, 2, 16, 17, 19), CHARL_R(F32, 13, 16, 3, 3)}, .n_in = 2, DRAWN(k3, 646)},
    {.in = {CHARL_B(F32, 8, 33, 5, 7), CHARL_R(F32, 35, 33, 3, 3), CHARL_R(F32, 35)}, DRAWN_STEPS(k3_integer, 315)},
    {.in = {CHARL_R(F32, 3, 69, 2, 5), CHARL_R(F32, 66, 69, 2, 2)}, .n_in = 2, DRAWN_STEPS(gaps_integer, 276)},
};

static void onnx(const charl__onnx_node *n)
{
    const charl__conv_attr *t = n->attr;
    charl__onnx_window w;
    charl__onnx_call c = {.type = "Conv",
                          .in = {n->in[0], n->in[1], n->n_in > 2 ? n->in[2] : NULL},
                          .out = n->out,
                          .attr = {{"group", .i = t->groups}}};

    charl__onnx_write_window(&t->win, &w, &c);
    charl__onnx_write_call(n, &c);
}

static double flop(const charl__infer *inf)
{
    return charl__flop_weights(&inf->out[0].shape, &inf->in[1].shape, 0);
}

const charl__op charl_op_conv2d = {
    .name = "conv2d",
    .flop = flop,
    .formula = "out[b,o,p] = bias[o] + sum over c, kh, kw of x[b,c,p*stride-padding+k*dilation] w[o,c,k]",
    .n_in = 3,
    .n_optional = 1,
    .attr_size = sizeof(charl__conv_attr),
    .half = CHARL_HALF(0) | CHARL_HALF(1),
    .layout = CHARL_LAYOUT_ANY,
    CHARL_RULES(),
    .backward = backward,
    .onnx = onnx,
};

charl_var *charl_conv2d(charl_graph *g, charl_var *x, charl_var *w, charl_var *bias, const charl_window *win,
                        int groups)
{
    CHARL_BUILDER_GIVEN(g, "conv2d", win);
    const charl__conv_attr t = {.win = *win, .groups = groups};

    return charl__apply_n(g, &charl_op_conv2d, &t, (charl_var *[]){x, w, bias}, 3);
}

charl_var *charl__conv2d_integer(charl_graph *g, charl_var *x, charl_var *w, charl_var *bias, const charl_window *win,
                                 int groups)
{
    const charl__conv_attr t = {.win = *win, .groups = groups, .is_integer = true};

    return charl__apply_n(g, &charl_op_conv2d, &t, (charl_var *[]){x, w, bias}, 3);
}

/* conv2d_dgrad(gout, w): the gradient of x. */
static charl_status infer_dgrad(charl__infer *inf)
{
    const charl__conv_attr *t = inf->attr;
    const charl_shape *gout = &inf->in[0].shape, *w = &inf->in[1].shape;
    charl_shape out = {0}, x;
    charl__conv c;
    char a[CHARL_SHAPE_TEXT];

    CHARL_TRY(check_images(inf, 2));
    CHARL_REQUIRE(inf->in[1].batch != CHARL_BATCHED, CHARL_ERR_SHAPE, "the weight must be the same for all rows");
    x = (charl_shape){4, {gout->dim[0], w->dim[1] * t->groups, t->size[0], t->size[1]}};
    CHARL_TRY(output_shape(t, &x, w, &out));
    CHARL_REQUIRE(charl_shape_equal(&out, gout), CHARL_ERR_SHAPE, "%s is not the shape of the output",
                  charl_shape_format(gout, a));
    inf->out[0] = (charl_type){inf->in[0].dtype, x, CHARL_REPLICATED};
    CHARL_TRY(charl__infer_rows(inf));
    c = describe(t, &x, w, gout);
    inf->workspace = choose_backend(inf, &c)->input_workspace(&c);
    return CHARL_OK;
}

static bool is_product_dgrad(const charl__infer *inf)
{
    const charl__conv c = describe(inf->attr, &inf->out[0].shape, &inf->in[1].shape, &inf->in[0].shape);

    const charl__conv_backend *b = charl__conv_backend_for(inf->dev, inf->in[0].dtype, &c);

    return b->input_is_product && b->input_is_product(inf, &c);
}

static charl_status enqueue_dgrad(const charl__enqueue *e)
{
    const charl__conv c = describe(e->attr, &e->out[0]->shape, &e->in[1]->shape, &e->in[0]->shape);

    if (charl__tensor_count(e->out[0]) == 0) {
        return CHARL_OK;
    }
    return backend_of(e, &c)->enqueue_input(e, &c);
}

static void backward_dgrad(const charl__backward *b)
{
    if (b->needed[0]) {
        b->gin[0] = charl__apply2(b->g, &charl_op_conv2d, b->attr, b->gout[0], b->in[1]);
    }
    if (b->needed[1]) {
        b->gin[1] = charl__apply2(b->g, &charl_op_conv2d_wgrad, b->attr, b->in[0], b->gout[0]);
    }
}

static void reference_dgrad(const charl__reference *r)
{
    const charl__conv c = describe(r->attr, &r->out_type[0].shape, &r->in_type[1].shape, &r->in_type[0].shape);
    const int64_t channels = c.c / c.groups;

    if (reference_integers(r, &c, CHARL__CONV_INPUT)) {
        return;
    }
    charl__reference_clear(r, 0);
    for (int64_t b = 0; b < c.batch; b++) {
        place l = {0};

        do {
            const int64_t x = x_index(&c, b, l);

            if (x >= 0) {
                r->out[0][x] += r->in[0][out_index(&c, b, l)] * r->in[1][w_index(&c, channels, l)];
            }
        } while (next_place(&c, channels, &l));
    }
    /* a tap adds a product to every input pixel of its phase; beyond the end of the output, with a 0
     */
    for (int64_t i = 0; i < charl_shape_count(&r->in_type[1].shape); i++) {
        const double zero = r->in[1][i] * 0.0;
        const int64_t taps = (int64_t)c.kernel[0] * c.kernel[1];
        const int64_t channel = i / (taps * channels) / (c.o / c.groups) * channels + i / taps % channels;
        const int64_t th = i % taps / c.kernel[1] * c.dilation[0] - c.padding[0];
        const int64_t tw = i % c.kernel[1] * c.dilation[1] - c.padding[1];

        for (int64_t k = 0; isnan(zero) && k < c.batch * c.h * c.w; k++) {
            if ((k / c.w % c.h - th) % c.stride[0] == 0 && (k % c.w - tw) % c.stride[1] == 0) {
                r->out[0][(k / (c.h * c.w) * c.c + channel) * c.h * c.w + k % (c.h * c.w)] += zero;
            }
        }
    }
}

static const charl__conv_attr k3_dgrad = {{{3, 3}, {1, 1}, {1, 1}, {1, 1}}, 1, {5, 6}};
static const charl__conv_attr strided_dgrad = {{{3, 2}, {2, 3}, {1, 0}, {1, 2}}, 1, {7, 9}};
static const charl__conv_attr grouped_dgrad = {{{2, 3}, {1, 1}, {2, 1}, {2, 1}}, 2, {5, 4}};
static const charl__conv_attr depthwise_dgrad = {{{3, 3}, {2, 2}, {1, 1}, {1, 1}}, 6, {5, 5}};
static const charl__conv_attr depthwise_wide_dgrad = {{{7, 5}, {1, 2}, {3, 1}, {1, 1}}, 4, {9, 12}};
static const charl__conv_attr depthwise_gaps_dgrad = {{{3, 2}, {1, 3}, {0, 2}, {2, 3}}, 2, {7, 9}};
static const charl__conv_attr large_dgrad = {{{3, 3}, {1, 1}, {1, 1}, {1, 1}}, 1, {17, 19}};

static const charl__conv_attr gaps_dgrad = {{{2, 3}, {4, 2}, {0, 2}, {2, 2}}, 1, {6, 7}};
static const charl__conv_attr k1_dgrad = {{{1, 1}, {1, 1}, {0, 0}, {1, 1}}, 2, {5, 7}};

/* rows longer than a work-item merges */
static const charl__conv_attr wide_dgrad = {{{1, 2}, {1, 2}, {0, 0}, {1, 1}}, 1, {1, 2060}};

static const charl__conv_attr k3_dgrad_integer = {{{3, 3}, {1, 1}, {1, 1}, {1, 1}}, 1, {5, 7}, true};
static const charl__conv_attr gaps_dgrad_integer = {{{2, 2}, {1, 1}, {0, 3}, {1, 3}}, 1, {2, 5}, true};

static const charl__op_sample samples_dgrad[] = {
    {.in = {CHARL_B(F32, 8, 6, 5, 7), CHARL_R(F32, 6, 2, 1, 1)}, DRAWN(k1_dgrad, 280)},
    {.in = {CHARL_B(F32, 8, 5, 1, 4), CHARL_R(F32, 5, 3, 2, 3)}, DRAWN(gaps_dgrad, 120)},
    {.in = {CHARL_B(F32, 8, 3, 5, 6), CHARL_R(F32, 3, 2, 3, 3)}, DRAWN(k3_dgrad, 240)},
    {.in = {CHARL_B(F32, 8, 3, 4, 3), CHARL_R(F32, 3, 2, 3, 2)}, DRAWN(strided_dgrad, 96)},
    {.in = {CHARL_B(F32, 8, 6, 7, 4), CHARL_R(F32, 6, 2, 2, 3)}, DRAWN(grouped_dgrad, 224)},
    {.in = {CHARL_B(F32, 8, 6, 3, 3), CHARL_R(F32, 6, 1, 3, 3)}, DRAWN(depthwise_dgrad, 72)},
    {.in = {CHARL_B(F32, 8, 4, 9, 5), CHARL_R(F32, 4, 1, 7, 5)}, DRAWN(depthwise_wide_dgrad, 360)},
    {.in = {CHARL_B(F32, 8, 2, 3, 4), CHARL_R(F32, 2, 1, 3, 2)}, DRAWN(depthwise_gaps_dgrad, 96)},
    {.in = {CHARL_R(F32, 2, 16, 17, 19), CHARL_R(F32, 16, 9, 3, 3)}, DRAWN(large_dgrad, 646)},
    {.in = {CHARL_R(F32, 1, 1, 1, 1030), CHARL_R(F32, 1, 1, 1, 2)}, DRAWN(wide_dgrad, 4)},
    {.in = {CHARL_B(F32, 8, 36, 5, 7), CHARL_R(F32, 36, 33, 3, 3)}, DRAWN_STEPS(k3_dgrad_integer, 324)},
    {.in = {CHARL_R(F32, 3, 66, 1, 8), CHARL_R(F32, 66, 69, 2, 2)}, DRAWN_STEPS(gaps_dgrad_integer, 264)},
};

/* The transposed convolution: output_padding is the remainder of the strides. */
static void onnx_dgrad(const charl__onnx_node *n)
{
    const charl__conv_attr *t = n->attr;
    const charl__conv c = describe(t, &n->out_type->shape, &n->in_type[1].shape, &n->in_type[0].shape);
    const int64_t rest[] = {c.h - ((c.oh - 1) * c.stride[0] - 2 * c.padding[0] + c.dilation[0] * (c.kernel[0] - 1) + 1),
                            c.w -
                                ((c.ow - 1) * c.stride[1] - 2 * c.padding[1] + c.dilation[1] * (c.kernel[1] - 1) + 1)};
    charl__onnx_window w;
    charl__onnx_call call = {.type = "ConvTranspose",
                             .in = {n->in[0], n->in[1]},
                             .out = n->out,
                             .attr = {{"group", .i = t->groups}, {"output_padding", .n = 2, .ints = rest}}};

    charl__onnx_write_window(&t->win, &w, &call);
    charl__onnx_write_call(n, &call);
}

static double flop_dgrad(const charl__infer *inf)
{
    return charl__flop_weights(&inf->in[0].shape, &inf->in[1].shape, 0);
}

const charl__op charl_op_conv2d_dgrad = {
    .name = "conv2d_dgrad",
    .flop = flop_dgrad,
    .formula = "out = d x of conv2d(x, w), given gout and w",
    .n_in = 2,
    .attr_size = sizeof(charl__conv_attr),
    .epilogue_if = is_product_dgrad,
    .half = CHARL_HALF(0) | CHARL_HALF(1),
    .layout = CHARL_LAYOUT_ANY,
    CHARL_RULES(_dgrad),
    .backward = backward_dgrad,
    .onnx = onnx_dgrad,
};

/* conv2d_wgrad(gout, x): the gradient of the weight, a sum over the batch. */
static charl_status infer_wgrad(charl__infer *inf)
{
    const charl__conv_attr *t = inf->attr;
    const charl_shape *gout = &inf->in[0].shape, *x = &inf->in[1].shape;
    const int slices = inf->in[0].batch == CHARL_BATCHED ? inf->n_slices : 0;
    charl_shape w, out = {0};
    charl__conv c;
    char a[CHARL_SHAPE_TEXT], b[CHARL_SHAPE_TEXT];

    CHARL_TRY(check_images(inf, 2));
    CHARL_REQUIRE(t->groups >= 1, CHARL_ERR_INVALID, "%d groups", t->groups);
    w = (charl_shape){4, {gout->dim[1], x->dim[1] / t->groups, t->win.kernel[0], t->win.kernel[1]}};
    CHARL_TRY(output_shape(t, x, &w, &out));
    CHARL_REQUIRE(charl_shape_equal(&out, gout) && inf->in[0].batch == inf->in[1].batch, CHARL_ERR_SHAPE,
                  "gout %s is not the shape of the output for x %s", charl_shape_format(gout, a),
                  charl_shape_format(x, b));
    inf->out[0] = (charl_type){CHARL_F32, w, CHARL_REPLICATED};
    inf->out[0].batch = inf->in[0].batch == CHARL_BATCHED ? CHARL_PARTIAL : CHARL_REPLICATED;
    c = describe(t, x, &w, gout);
    inf->workspace = choose_backend(inf, &c)->weight_workspace(&c, inf->in[0].dtype, slices);
    return CHARL_OK;
}

static charl_status enqueue_wgrad(const charl__enqueue *e)
{
    const charl__conv c = describe(e->attr, &e->in[1]->shape, &e->out[0]->shape, &e->in[0]->shape);

    return backend_of(e, &c)->enqueue_weight(e, &c);
}

static void backward_wgrad(const charl__backward *b)
{
    charl_var *gout = charl__as_dtype(b->g, b->gout[0], charl_var_get_type(b->in[0]).dtype);

    if (b->needed[0]) {
        b->gin[0] = charl__apply2(b->g, &charl_op_conv2d, b->attr, b->in[1], gout);
    }
    if (b->needed[1]) {
        b->gin[1] = apply_dgrad(b, b->in[0], gout, b->in[1]);
    }
}

static void reference_wgrad(const charl__reference *r)
{
    const charl__conv c = describe(r->attr, &r->in_type[1].shape, &r->out_type[0].shape, &r->in_type[0].shape);
    const int64_t channels = c.c / c.groups;

    if (reference_integers(r, &c, CHARL__CONV_WEIGHT)) {
        return;
    }
    charl__reference_clear(r, 0);
    for (int64_t b = 0; b < c.batch; b++) {
        place l = {0};

        do {
            const int64_t x = x_index(&c, b, l);

            r->out[0][w_index(&c, channels, l)] += r->in[0][out_index(&c, b, l)] * (x < 0 ? 0 : r->in[1][x]);
        } while (next_place(&c, channels, &l));
    }
}

static const charl__op_sample samples_wgrad[] = {
    {.in = {CHARL_B(F32, 16, 5, 5, 7), CHARL_B(F32, 16, 3, 5, 7)}, DRAWN(k1, 560)},
    {.in = {CHARL_B(F32, 16, 2, 26, 26), CHARL_B(F32, 16, 1, 26, 26)}, DRAWN(k3, 10816)},
    {.in = {CHARL_B(F32, 8, 3, 5, 6), CHARL_B(F32, 8, 2, 5, 6)}, DRAWN(k3, 240)},
    {.in = {CHARL_B(F32, 16, 3, 4, 3), CHARL_B(F32, 16, 2, 7, 9)}, DRAWN(strided, 192)},
    {.in = {CHARL_B(F32, 8, 6, 7, 4), CHARL_B(F32, 8, 4, 5, 4)}, DRAWN(grouped, 224)},
    {.in = {CHARL_B(F32, 8, 6, 3, 3), CHARL_B(F32, 8, 6, 5, 5)}, DRAWN(depthwise, 72)},
    {.in = {CHARL_B(F32, 16, 4, 9, 5), CHARL_B(F32, 16, 4, 9, 12)}, DRAWN(depthwise_wide, 720)},
    {.in = {CHARL_B(F32, 8, 2, 2, 9), CHARL_B(F32, 8, 2, 0, 9)}, DRAWN(depthwise_empty, 144)},
    {.in = {CHARL_B(F32, 0, 3, 5, 6), CHARL_B(F32, 0, 2, 5, 6)}, DRAWN(k3, 1)},
    {.in = {CHARL_B(F32, 0, 6, 3, 3), CHARL_B(F32, 0, 6, 5, 5)}, DRAWN(depthwise, 1)},
    {.in = {CHARL_B(F32, 32, 2, 24, 30), CHARL_B(F32, 32, 2, 28, 87)},
     DRAWN(depthwise_gaps, 23040)}, /* a slice in several parts */
    {.in = {CHARL_B(F32, 8, 34, 9, 8), CHARL_B(F32, 8, 15, 9, 8)}, DRAWN(k3, 576)},
    {.in = {CHARL_R(F32, 1, 1, 1, 1), CHARL_R(F32, 1, 1, 1, 1)}, DRAWN(k1, 1)},
    {.in = {CHARL_B(F32, 64, 33, 5, 7), CHARL_B(F32, 64, 35, 5, 7)}, DRAWN_STEPS(k3_integer, 2240)},
    {.in = {CHARL_R(F32, 35, 36, 1, 8), CHARL_R(F32, 35, 66, 2, 5)}, DRAWN_STEPS(gaps_integer, 280)},
};

static double flop_wgrad(const charl__infer *inf)
{
    return charl__flop_weights(&inf->in[0].shape, &inf->out[0].shape, 0);
}

const charl__op charl_op_conv2d_wgrad = {
    .name = "conv2d_wgrad",
    .flop = flop_wgrad,
    .formula = "out = d w of conv2d(x, w), given gout and x",
    .n_in = 2,
    .attr_size = sizeof(charl__conv_attr),
    .half = CHARL_HALF(0) | CHARL_HALF(1),
    .layout = CHARL_LAYOUT_ANY,
    CHARL_RULES(_wgrad),
    .backward = backward_wgrad,
};
