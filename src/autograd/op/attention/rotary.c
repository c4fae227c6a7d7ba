/* rotary: position embedding that rotates pairs of elements of a head by an angle that grows with the
 * position (RoFormer, Su et al. 2021); the partner of i is i + D/2. The gradient rotates back.
 *
 * The rotations of one step are computed here in double, as integers modulo 2^64, and become part of
 * the program's text: see kernels/attention/rotary.cl. The optional second operand is, for each
 * row of the batch, its first position.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "autograd/onnx/onnx.h"
#include "autograd/kv_cache.h"
#include "autograd/launch/column_chunks.h"
#include "base/alloc.h"
#include "charl/ops.h"

enum { MAX_HEAD_DIM = 512, ENTRY = 32 /* "0x0123456789abcdeful,", "-0x1.abcdefp-126f," */ };

typedef struct rotary_attr {
    charl_rotary_args args;
    bool back;
} rotary_attr;

/* Pairs of a head that are rotated. */
static int64_t pairs_of(const charl_rotary_args *a)
{
    return a->pairs ? a->pairs : a->head_dim / 2;
}

/* The share of its frequency that the scaling leaves to pair i, which turns n times within `original` positions. */
static double share_of(const charl_rotary_args *a, int64_t i, double n)
{
    const double per_turn = (double)pairs_of(a) / log(a->theta), two_pi = 2.0 * acos(-1.0);
    double first, last;

    if (!a->by_pair) {
        return n < a->low ? 0 : n > a->high ? 1 : (n - a->low) / (a->high - a->low);
    }
    first = fmax(floor(per_turn * log((double)a->original / (a->high * two_pi))), 0);
    last = fmin(ceil(per_turn * log((double)a->original / (a->low * two_pi))), (double)(2 * pairs_of(a) - 1));
    last += first == last ? 0.001 : 0;
    return 1 - fmin(fmax(((double)i - first) / (last - first), 0), 1);
}

/* What pair i is multiplied by. */
static double magnitude_of(const charl_rotary_args *a, int64_t i)
{
    return a->magnitude > 0 && i < pairs_of(a) ? a->magnitude : 1;
}

/* Turns of pair i of a head from one position to the next. */
static double turns_of(const charl_rotary_args *a, int64_t i)
{
    const double turns = i < pairs_of(a) ? pow(a->theta, -(double)i / (double)pairs_of(a)) / (2.0 * acos(-1.0)) : 0;
    double share;

    if (!(a->factor > 0)) {
        return turns;
    }
    share = share_of(a, i, turns * (double)a->original);
    return turns * ((1 - share) / a->factor + share);
}

static charl_status infer(charl__infer *inf)
{
    const charl_rotary_args *a = &((const rotary_attr *)inf->attr)->args;
    const charl_shape *s = &inf->in[0].shape;
    char text[CHARL_SHAPE_TEXT];
    int64_t width, sequences = 1;

    CHARL_TRY(charl__infer_same(inf));
    CHARL_REQUIRE(s->ndim >= (inf->in[0].batch == CHARL_BATCHED ? 3 : 2), CHARL_ERR_SHAPE,
                  "x %s is not [..., time, heads * head_dim]", charl_shape_format(s, text));
    for (int i = 0; i < s->ndim - 2; i++) {
        sequences *= s->dim[i];
    }
    CHARL_REQUIRE(inf->n_in < 2 ||
                      (inf->in[1].dtype == CHARL_I32 && charl_shape_count(&inf->in[1].shape) == sequences &&
                       inf->in[1].batch == inf->in[0].batch),
                  CHARL_ERR_SHAPE, "x %s does not begin with an i32 position for each of %lld sequences",
                  charl_shape_format(s, text), (long long)sequences);
    width = s->dim[s->ndim - 1];
    CHARL_REQUIRE(width % a->head_dim == 0 && a->heads <= width / a->head_dim, CHARL_ERR_SHAPE,
                  "x %s does not hold %lld heads of %lld", charl_shape_format(s, text), (long long)a->heads,
                  (long long)a->head_dim);
    return CHARL_OK;
}

static charl_status enqueue(const charl__enqueue *e)
{
    const rotary_attr *attr = e->attr;
    const charl_rotary_args *a = &attr->args;
    const charl_shape *s = &e->in[0]->shape;
    const int64_t rows = charl_shape_count(s) / a->head_dim;
    const bool magnifies = a->magnitude > 0 && a->magnitude != 1;
    char frequency[ENTRY * MAX_HEAD_DIM / 2 + 1], magnitude[ENTRY * MAX_HEAD_DIM / 2 + 1];
    int used = 0, other = 0;
    charl__launch l = {.file = "attention/rotary",
                       .entry = "charl_rotary",
                       .params = {{"FIRST", e->n_in > 1},
                                  {"MAGNIFIES", magnifies},
                                  {"FREQUENCY", .text = frequency},
                                  {"MAGNITUDE", .text = magnifies ? magnitude : "0"}},
                       .args = {charl__in(e->in[0]), charl__in(e->n_in > 1 ? e->in[1] : NULL), charl__out(e->out[0]),
                                charl__i64(s->dim[s->ndim - 2]), charl__i64(s->dim[s->ndim - 1] / a->head_dim),
                                charl__i64(a->heads)}};

    for (int64_t i = 0; i < a->head_dim / 2; i++) {
        const uint64_t turns = (uint64_t)ldexp(turns_of(a, i), 64);

        used += snprintf(frequency + used, sizeof frequency - (size_t)used, "%s0x%" PRIx64 "ul", i > 0 ? "," : "",
                         attr->back ? 0 - turns : turns);
        other += snprintf(magnitude + other, sizeof magnitude - (size_t)other, "%s%af", i > 0 ? "," : "",
                          (double)(float)magnitude_of(a, i));
    }
    return charl__column_chunks_launch(e, &l, 6, rows, a->head_dim / 2, e->in[0]->dtype);
}

static charl_var *turn(charl_graph *g, const rotary_attr *attr, charl_var *x, charl_var *first)
{
    return charl__apply_n(g, &charl_op_rotary, attr, (charl_var *[]){x, first}, 2);
}

static void backward(const charl__backward *b)
{
    rotary_attr attr = *(const rotary_attr *)b->attr;

    attr.back = !attr.back;
    b->gin[0] = turn(b->g, &attr, b->gout[0], b->n_in > 1 ? b->in[1] : NULL);
}

/* The angle of pair i from one position to the next, by wavelengths. */
static double angle_of(const charl_rotary_args *a, int64_t i, int64_t half)
{
    const double plain = pow(a->theta, -2.0 * (double)i / (2.0 * (double)half));
    const double wavelength = 2.0 * acos(-1.0) / plain;
    double smooth;

    if (a->factor > 0 && a->by_pair) { /* of the pairs whose wavelengths fit so often */
        const double fast =
            floor((double)half * log((double)a->original / a->high / (wavelength * plain)) / log(a->theta));
        const double slow =
            ceil((double)half * log((double)a->original / a->low / (wavelength * plain)) / log(a->theta));
        const double from = fast > 0 ? fast : 0, to = slow < 2.0 * (double)half - 1 ? slow : 2.0 * (double)half - 1;

        smooth = (to - (double)i) / (to > from ? to - from : 0.001);
        smooth = smooth > 1 ? 1 : smooth < 0 ? 0 : smooth;
        return (1 - smooth) * plain / a->factor + smooth * plain;
    }
    if (!(a->factor > 0) || wavelength < (double)a->original / a->high) {
        return plain;
    }
    if (wavelength > (double)a->original / a->low) {
        return plain / a->factor;
    }
    smooth = ((double)a->original / wavelength - a->low) / (a->high - a->low);
    return (1 - smooth) * plain / a->factor + smooth * plain;
}

static void reference(const charl__reference *r)
{
    const rotary_attr *attr = r->attr;
    const charl_rotary_args *a = &attr->args;
    const charl_shape *s = &r->in_type[0].shape;
    const int64_t positions = s->dim[s->ndim - 2], heads = s->dim[s->ndim - 1] / a->head_dim;
    const int64_t half = a->head_dim / 2;

    for (int64_t k = 0; k < charl_shape_count(s) / a->head_dim; k++) {
        const double *in = r->in[0] + k * a->head_dim;
        double *out = r->out[0] + k * a->head_dim;
        const double first = r->n_in > 1 ? r->in[1][k / heads / positions] : 0;
        const double t = ((double)(k / heads % positions) + first) * (attr->back ? -1 : 1);

        for (int64_t i = 0; i < half; i++) {
            const int64_t pairs = a->pairs ? a->pairs : half;
            const bool turns = k % heads < a->heads && i < pairs;
            const double angle = turns ? t * angle_of(a, i, pairs) : 0,
                         m = turns && a->magnitude > 0 ? a->magnitude : 1;

            out[i] = m * (in[i] * cos(angle) - in[half + i] * sin(angle));
            out[half + i] = m * (in[half + i] * cos(angle) + in[i] * sin(angle));
        }
    }
}

static const rotary_attr usual = {.args = {8, 4, 10000}}, wide = {.args = {74, 1, 500}}, tiny = {.args = {2, 1, 10000}},
                         deep = {.args = {4, 1, 10000}}, back = {.args = {8, 4, 10000}, .back = true},
                         partly = {.args = {74, 1, 500, .pairs = 11}};
/* The pairs rotate 16, 3.1, 0.6, 0.1, ... times: each of the three rules applies to some. */
static const rotary_attr scaled = {.args = {16, 2, 500000, .factor = 8, .low = 1, .high = 4, .original = 100}};
/* Pair 0 keeps its frequency, pairs 4 .. 7 are slowed down, 3 of 8 are between; of `yarn_partly`, only 5 of 8 turn. */
static const rotary_attr yarn = {.args = {16, 2, 100, .factor = 8, .low = 1, .high = 8, .original = 100,
                                          .by_pair = true, .magnitude = 1.25}},
                         yarn_partly = {.args = {16, 2, 100, .factor = 8, .low = 1, .high = 8, .original = 100,
                                                 .pairs = 5, .by_pair = true, .magnitude = 0.75}};
static const charl__op_sample samples[] = {
    {.n_in = 1, .in = {CHARL_B(F32, 16, 5, 48)}, .attr = &usual, CHARL_WITHIN(2, 2)},
    {.n_in = 1, .in = {CHARL_B(F32, 8, 3, 48)}, .attr = &back, CHARL_WITHIN(2, 2)},
    {.n_in = 1, .in = {CHARL_R(F32, 2, 70, 148)}, .attr = &wide, CHARL_WITHIN(2, 2)},
    {.n_in = 1, .in = {CHARL_R(F32, 2, 70, 148)}, .attr = &partly, CHARL_WITHIN(2, 2)},
    {.n_in = 1, .in = {CHARL_R(F32, 1, 2)}, .attr = &tiny, CHARL_WITHIN(2, 2)},
    {.n_in = 1,
     .in = {CHARL_R(F32, 33000, 4)}, /* far positions */
     .attr = &deep,
     CHARL_WITHIN(2, 2),
     .skip_gradient = true},
    {.in = {CHARL_B(F32, 8, 3, 48), CHARL_B(I32, 8)}, .attr = &usual, .int_end = 9, CHARL_WITHIN(2, 2)},
    {.n_in = 1, .in = {CHARL_B(F32, 8, 9, 48)}, .attr = &scaled, CHARL_WITHIN(2, 2)},
    {.n_in = 1, .in = {CHARL_B(F32, 8, 9, 48)}, .attr = &yarn, CHARL_WITHIN(2, 2)},
    {.n_in = 1, .in = {CHARL_B(F32, 8, 9, 48)}, .attr = &yarn_partly, CHARL_WITHIN(2, 2)},
    {.n_in = 1, .in = {CHARL_R(F32, 0, 32)}, .attr = &usual, .lo = -2, .hi = 2},
};

/* cos or sin of every angle, [T, 1, D/2]: the same for every head. */
static const char *onnx_table(const charl__onnx_node *n, int64_t positions, bool sine)
{
    const rotary_attr *attr = n->attr;
    const int64_t half = attr->args.head_dim / 2;
    const charl_shape shape = {3, {positions, 1, half}};
    const char *name = NULL;
    float *table = NULL;

    if (charl__alloc_array(positions * half, sizeof *table, &table) != CHARL_OK) {
        charl__onnx_fail(n, charl_error_message());
        return NULL;
    }
    for (int64_t i = 0; i < positions * half; i++) {
        const double angle =
            (double)(i / half) * 2.0 * acos(-1.0) * turns_of(&attr->args, i % half) * (attr->back ? -1 : 1);

        table[i] = (float)(magnitude_of(&attr->args, i % half) * (sine ? sin(angle) : cos(angle)));
    }
    name = charl__onnx_floats(n, &shape, table);
    charl_free(table);
    return name;
}

/* Halves (a, b) of each rotated head become (a cos - b sin, b cos + a sin). */
static const char *onnx_turn(const charl__onnx_node *n, const char *x, int64_t positions)
{
    const int64_t d = ((const rotary_attr *)n->attr)->args.head_dim;
    const char *cosine = onnx_table(n, positions, false), *sine = onnx_table(n, positions, true);
    const char *a = charl__onnx_slice(n, x, -1, 0, d / 2, NULL);
    const char *b = charl__onnx_slice(n, x, -1, d / 2, d, NULL);
    const char *first = charl__onnx_op(n, "Sub", charl__onnx_op(n, "Mul", a, cosine, NULL),
                                       charl__onnx_op(n, "Mul", b, sine, NULL), NULL);
    const char *second = charl__onnx_op(n, "Add", charl__onnx_op(n, "Mul", b, cosine, NULL),
                                        charl__onnx_op(n, "Mul", a, sine, NULL), NULL);

    return charl__onnx_concat(n, first, second, NULL);
}

static void onnx(const charl__onnx_node *n)
{
    const charl_rotary_args *a = &((const rotary_attr *)n->attr)->args;
    charl_type turned = n->in_type[0], heads;
    const int last = turned.shape.ndim - 1;
    const int64_t width = turned.shape.dim[last], part = a->heads * a->head_dim;
    const char *x;

    if (last + 1 == CHARL_MAX_DIMS || part == 0 || n->n_in > 1) {
        charl__onnx_fail(n, n->n_in > 1 ? "a sequence that is continued"
                            : part      ? "too many extents"
                                        : "no head is turned");
        return;
    }
    turned.shape.dim[last] = part;
    heads = turned;
    heads.shape.dim[last] = a->heads;
    heads.shape.dim[heads.shape.ndim++] = a->head_dim;
    x = part < width ? charl__onnx_slice(n, n->in[0], -1, 0, part, NULL) : n->in[0];
    x = onnx_turn(n, charl__onnx_reshape(n, x, &heads, NULL), turned.shape.dim[last - 1]);
    x = charl__onnx_reshape(n, x, &turned, part < width ? NULL : n->out);
    if (part < width) {
        charl__onnx_concat(n, x, charl__onnx_slice(n, n->in[0], -1, part, width, NULL), n->out);
    }
}

const charl__op charl_op_rotary = {
    .name = "rotary",
    .formula = "out = heads of x turned by position * theta^(-2i/D), times magnitude",
    .n_in = 2,
    .n_optional = 1,
    .attr_size = sizeof(rotary_attr),
    .half = CHARL_HALF(0),
    CHARL_RULES(),
    .backward = backward,
    .onnx = onnx,
};

charl_var *charl_rotary(charl_graph *g, charl_var *x, const charl_rotary_args *args)
{
    CHARL_BUILDER_GIVEN(g, "rotary", args);
    const rotary_attr attr = {.args = *args};

    if (args->head_dim < 2 || args->head_dim > MAX_HEAD_DIM || args->head_dim % 2 != 0 || args->heads < 0) {
        return charl__graph_fail(g, CHARL_ERR_INVALID,
                                 "rotary: heads of %lld: a head has an even number of elements up to %d",
                                 (long long)args->head_dim, MAX_HEAD_DIM);
    }
    if (args->pairs < 0 || args->pairs > args->head_dim / 2) {
        return charl__graph_fail(g, CHARL_ERR_INVALID, "rotary: pairs = %lld, but a head of %lld elements has %lld",
                                 (long long)args->pairs, (long long)args->head_dim, (long long)args->head_dim / 2);
    }
    if (!charl__graph_check_range(g, "rotary", "theta", args->theta, "(1,inf)") ||
        !charl__graph_check_range(g, "rotary", "magnitude", args->magnitude, "[0,1e6]") ||
        (args->factor != 0.0 && (!charl__graph_check_range(g, "rotary", "factor", args->factor, "[1,inf)") ||
                                 !charl__graph_check_range(g, "rotary", "low", args->low, "(0,inf)") ||
                                 !charl__graph_check_range(g, "rotary", "high", args->high, "(0,inf)")))) {
        return NULL;
    }
    if (args->factor != 0.0 && (args->high <= args->low || args->original < 1)) {
        return charl__graph_fail(g, CHARL_ERR_INVALID,
                                 "rotary: scaled by %g between %g and %g turns in %lld positions: "
                                 "the factor is at least 1, the turns are positive and ascend",
                                 args->factor, args->low, args->high, (long long)args->original);
    }
    return turn(g, &attr, x, charl__graph_position(g));
}
