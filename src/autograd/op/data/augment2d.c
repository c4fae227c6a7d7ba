/* augment2d: random rotations, shifts, reflections and holes, one set per sample. Not differentiable:
 * data have no gradient.
 *
 * The sample in row i of the global batch draws its own numbers, keyed by (seed, step, i, name), independent
 * of the rank, the slice and the launch.
 */
#include <math.h>
#include <stdio.h>

#include "autograd/op.h"
#include "base/numeric/hash.h"
#include "base/numeric/rng.h"
#include "charl/ops.h"

enum { GROUP = 64, PARAMETERS = 8 };

typedef struct augment2d_attr {
    bool flip;
    int crop, cutout;
    float rotate; /* radians */
    bool batched;
    int64_t reversed_rows;
    uint64_t key;
} augment2d_attr;

static charl_status infer(charl__infer *inf)
{
    const charl_shape *x = &inf->in[0].shape;
    const int64_t rows = x->ndim > 0 ? x->dim[0] : 0;
    char a[CHARL_SHAPE_TEXT], b[CHARL_SHAPE_TEXT];

    CHARL_TRY(charl__infer_images(inf));
    CHARL_REQUIRE(inf->n_in == 1 || (inf->n_in == 3 && inf->in[1].shape.ndim == 1 &&
                                     charl_shape_equal(&inf->in[1].shape, &inf->in[2].shape) &&
                                     (inf->in[1].shape.dim[0] == 1 || inf->in[1].shape.dim[0] == x->dim[1])),
                  CHARL_ERR_SHAPE, "shift and scale %s do not fit images %s", charl_shape_format(&inf->in[1].shape, b),
                  charl_shape_format(x, a));
    for (int i = 1; i < inf->n_in; i++) {
        CHARL_REQUIRE(inf->in[i].dtype == CHARL_F32, CHARL_ERR_DTYPE, "shift and scale are f32, not %s",
                      charl_dtype_name(inf->in[i].dtype));
        CHARL_REQUIRE(inf->in[i].batch != CHARL_BATCHED, CHARL_ERR_SHAPE,
                      "shift and scale are the same for all rows, not rows of the batch");
    }
    inf->out[0] = inf->in[0];
    inf->workspace = rows * PARAMETERS * (int64_t)sizeof(float);
    return CHARL_OK;
}

static charl_status draw(const charl__enqueue *e, const charl__kernel_param *params)
{
    const augment2d_attr *attr = e->attr;
    const charl_shape *s = &e->in[0]->shape;
    charl__launch l = {
        .file = "data/augment2d", .entry = "charl_augment2d_draw", .global = {(size_t)s->dim[0]}, .label = e->label};
    int a = 0;

    charl__launch_set_all(&l, params);
    l.args[a++] = charl__in(e->step);
    l.args[a++] = charl__out(e->workspace);
    l.args[a++] = charl__i64(s->dim[0]);
    l.args[a++] = charl__batch_position(e, attr->batched, s->dim[0]);
    l.args[a++] = charl__i64(attr->reversed_rows);
    l.args[a++] = charl__i64((int64_t)attr->key);
    l.args[a++] = charl__i32(attr->crop);
    l.args[a++] = charl__f32(attr->rotate);
    l.args[a++] = charl__i32((int32_t)s->dim[2]);
    l.args[a++] = charl__i32((int32_t)s->dim[3]);
    return charl__launch_enqueue(e->dev, &l);
}

static charl_status enqueue(const charl__enqueue *e)
{
    const augment2d_attr *attr = e->attr;
    const charl_shape *s = &e->in[0]->shape;
    const size_t pixels = (size_t)(s->dim[2] * s->dim[3]);
    charl__launch l = {.file = "data/augment2d",
                       .entry = "charl_augment2d",
                       .params = {{"ROTATE", attr->rotate > 0.0F}, {"CUTOUT", attr->cutout}, {"FILL", e->n_in == 3}},
                       .global = {(pixels + GROUP - 1) / GROUP * GROUP, (size_t)s->dim[0]},
                       .local = {GROUP, 1},
                       .label = e->label};
    int a = 0;

    if (charl__tensor_count(e->in[0]) == 0) {
        return CHARL_OK;
    }
    CHARL_TRY(draw(e, l.params));
    l.args[a++] = charl__in(e->in[0]);
    if (e->n_in == 3) {
        l.args[a++] = charl__in(e->in[1]);
        l.args[a++] = charl__in(e->in[2]);
        l.args[a++] = charl__i32((int32_t)e->in[1]->shape.dim[0]);
    }
    l.args[a++] = charl__in(e->workspace);
    l.args[a++] = charl__out(e->out[0]);
    l.args[a++] = charl__i32((int32_t)s->dim[1]);
    l.args[a++] = charl__i32((int32_t)s->dim[2]);
    l.args[a++] = charl__i32((int32_t)s->dim[3]);
    l.args[a++] = charl__i32(attr->flip);
    CHARL_TRY(charl__launch_enqueue(e->dev, &l));
    return CHARL_OK;
}

/* The parameters drawn for the sample of one row. */
typedef struct drawn {
    bool mirrored;
    int64_t dy, dx, cut_y, cut_x;
    double sine, cosine;
} drawn;

static int64_t below(uint32_t word, int64_t n)
{
    return (int64_t)((uint64_t)word * (uint64_t)n >> 32);
}

static drawn reference_draw(const charl__reference *r, int64_t row)
{
    const augment2d_attr *attr = r->attr;
    const charl_shape *s = &r->in_type[0].shape;
    const charl__step_params *step = r->step;
    const charl__rng rng = charl__rng_key((uint64_t)step->seed_hi << 32 | step->seed_lo,
                                          (uint64_t)step->step_hi << 32 | step->step_lo, attr->key);
    const int64_t at = row + (attr->batched ? r->row0 : 0);
    const uint64_t block = 2 * (uint64_t)(attr->reversed_rows ? attr->reversed_rows - 1 - at : at);
    uint32_t a[4], b[4];
    double angle;

    charl__rng_u32x4(&rng, block, a);
    charl__rng_u32x4(&rng, block + 1, b);
    angle = (double)attr->rotate * (2.0 * (double)(a[3] >> 8) * 0x1p-24 - 1.0);
    return (drawn){.mirrored = attr->flip && a[0] >> 31,
                   .dy = below(a[1], 2 * attr->crop + 1) - attr->crop,
                   .dx = below(a[2], 2 * attr->crop + 1) - attr->crop,
                   .cut_y = below(b[0], s->dim[2]) - attr->cutout / 2,
                   .cut_x = below(b[1], s->dim[3]) - attr->cutout / 2,
                   .sine = sin(angle),
                   .cosine = cos(angle)};
}

/* The value of image p at a point between pixels. */
static double reference_sample(const double *p, const charl_shape *s, double y, double x, double outside)
{
    double v = 0.0;

    for (int k = 0; k < 4; k++) {
        const double row = floor(y) + (double)(k / 2), column = floor(x) + (double)(k % 2);
        const bool inside = row >= 0 && row < (double)s->dim[2] && column >= 0 && column < (double)s->dim[3];

        v += (1.0 - fabs(y - row)) * (1.0 - fabs(x - column)) *
             (inside ? p[(int64_t)row * s->dim[3] + (int64_t)column] : outside);
    }
    return v;
}

static double reference_pixel(const charl__reference *r, const drawn *d, const int64_t at[4])
{
    const augment2d_attr *attr = r->attr;
    const charl_shape *s = &r->in_type[0].shape;
    const int64_t c = r->n_in == 3 && r->in_type[1].shape.dim[0] > 1 ? at[1] : 0;
    const double outside = r->n_in == 3 ? (0.0 - r->in[1][c]) * r->in[2][c] : 0.0;
    const double *p = r->in[0] + (at[0] * s->dim[1] + at[1]) * s->dim[2] * s->dim[3];
    const int64_t y = at[2] + d->dy, x = (d->mirrored ? s->dim[3] - 1 - at[3] : at[3]) + d->dx;
    const double cy = 0.5 * (double)(s->dim[2] - 1), cx = 0.5 * (double)(s->dim[3] - 1);
    const double v = (double)y - cy, u = (double)x - cx;

    if (at[2] >= d->cut_y && at[2] < d->cut_y + attr->cutout && at[3] >= d->cut_x && at[3] < d->cut_x + attr->cutout) {
        return 0.0;
    }
    if (!(attr->rotate > 0.0F)) {
        return y >= 0 && y < s->dim[2] && x >= 0 && x < s->dim[3] ? p[y * s->dim[3] + x] : outside;
    }
    return reference_sample(p, s, cy + d->cosine * v + d->sine * u, cx - d->sine * v + d->cosine * u, outside);
}

static void reference(const charl__reference *r)
{
    const charl_shape *s = &r->in_type[0].shape;
    const int64_t n = charl_shape_count(s);
    const int64_t per_row = s->dim[0] > 0 ? n / s->dim[0] : 0;

    for (int64_t row = 0; row < s->dim[0]; row++) {
        const drawn d = reference_draw(r, row);

        for (int64_t i = 0; i < per_row; i++) {
            const int64_t at[4] = {row, i / s->dim[3] / s->dim[2], i / s->dim[3] % s->dim[2], i % s->dim[3]};

            r->out[0][row * per_row + i] = reference_pixel(r, &d, at);
        }
    }
}

static const augment2d_attr
    nothing = {.key = 1},
    mirrored = {.flip = true, .key = 2}, shifted = {.crop = 2, .key = 3, .batched = true},
    holes = {.cutout = 3, .key = 4, .batched = true}, turned = {.rotate = 0.3F, .key = 5},
    upside_down = {.rotate = 3.1415927F, .key = 6},
    all = {.flip = true, .crop = 4, .cutout = 8, .rotate = 0.2F, .batched = true, .key = 0x123456789abcdef0},
    partner = {.flip = true, .crop = 4, .cutout = 8, .batched = true, .reversed_rows = 16, .key = 7};
/* terms: an interpolated value changes by the slope times the error of the coordinate. */
static const charl__op_sample samples[] = {
    {.in = {CHARL_R(F32, 3, 2, 5, 7)}, .n_in = 1, .attr = &nothing, .lo = -2, .hi = 2},
    {.in = {CHARL_R(F32, 1, 1, 1, 1)}, .n_in = 1, .attr = &mirrored, .lo = -2, .hi = 2},
    {.in = {CHARL_R(F32, 0, 1, 4, 4)}, .n_in = 1, .attr = &all, .lo = -2, .hi = 2},
    {.in = {CHARL_R(F32, 9, 3, 6, 11)}, .n_in = 1, .attr = &mirrored, .lo = -2, .hi = 2},
    {.in = {CHARL_B(F32, 16, 2, 9, 5), CHARL_R(F32, 2), CHARL_R(F32, 2)}, .attr = &shifted, .lo = -2, .hi = 2},
    {.in = {CHARL_B(F32, 8, 3, 10, 10)}, .n_in = 1, .attr = &holes, .lo = -2, .hi = 2},
    {.in = {CHARL_R(F32, 4, 2, 13, 9), CHARL_R(F32, 1), CHARL_R(F32, 1)}, .attr = &turned, CHARL_WITHIN(2, 400)},
    {.in = {CHARL_R(F32, 5, 1, 28, 31)}, .n_in = 1, .attr = &upside_down, CHARL_WITHIN(2, 2000)},
    {.in = {CHARL_B(F32, 16, 3, 32, 32), CHARL_R(F32, 3), CHARL_R(F32, 3)}, .attr = &all, CHARL_WITHIN(2, 2000)},
    {.in = {CHARL_B(F32, 16, 1, 28, 28), CHARL_R(F32, 1), CHARL_R(F32, 1)}, .attr = &partner, .lo = -2, .hi = 2},
};

const charl__op charl_op_augment2d = {
    .name = "augment2d",
    .formula = "out = x turned, shifted, mirrored and cut out, at random per sample",
    .n_in = 3,
    .n_optional = 2,
    .attr_size = sizeof(augment2d_attr),
    CHARL_RULES(),
};

charl_var *charl_augment2d(charl_graph *g, charl_var *x, charl_var *shift, charl_var *scale,
                           const charl_augment2d_args *args)
{
    CHARL_BUILDER_GIVEN(g, "augment2d", args);
    const float pi = 3.14159265F;
    const augment2d_attr attr = {
        .flip = args->flip,
        .crop = args->crop,
        .cutout = args->cutout,
        .rotate = args->rotate / 180.0F * pi,
        .batched = x && charl_var_get_type(x).batch == CHARL_BATCHED,
        .reversed_rows = args->reversed_rows,
        .key = charl__fnv1a64_string(args->name ? args->name : ""),
    };

    if (!charl__graph_check_range(g, "augment2d", "crop", args->crop, "[0,4096]") ||
        !charl__graph_check_range(g, "augment2d", "rotate", (double)args->rotate, "[0,180]") ||
        !charl__graph_check_range(g, "augment2d", "cutout", args->cutout, "[0,65536]")) {
        return NULL;
    }
    if (!charl_graph_is_training(g)) {
        return x;
    }
    return charl__apply_n(g, &charl_op_augment2d, &attr, (charl_var *[]){x, shift, scale}, 3);
}
