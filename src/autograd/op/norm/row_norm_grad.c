/* Gradients of layer_norm and rms_norm. The gradients of weight and bias are sums over rows, divided into
 * blocks of rows: one work-item for each block and a few columns, or, in the pass that computes the
 * gradient of x, the work-items of four rows for each block. */
#include <stdio.h>
#include <string.h>

#include "autograd/launch/map.h"
#include "autograd/op/norm/row_norm.h"
#include "charl/ops.h"

enum { BLOCK = 64, MOST_BLOCKS = 256 };            /* rows; blocks of a slice: longer slices have larger blocks */
enum { GROUP = 128, TEAMS = 4, SIDE_GROUP = 512 }; /* as in kernels/norm/row_norm_grads.cl and row_norm_grads_side.cl */
enum { MAX_BYTES = 16 };                           /* of a row that a work-item keeps, for each eighth of a block */

/* The gradient of the normalized operand `x`, plus `extra` unless it is NULL, and of weight
 * and bias, operands `first` and after: only those that are needed, in one operator if both kinds are.
 */
typedef struct wanted {
    bool of_x, of_affine;
    charl_var *gout, *x, *extra;
    int first;
} wanted;

static charl_var *append(const charl__backward *b, const wanted *w)
{
    const charl__row_norm *t = charl__row_norm_of(b->op);
    charl_var *weight = b->n_in > w->first ? b->in[w->first] : NULL;
    charl_var *in[] = {w->gout, w->x, weight, w->extra}, *out[CHARL_OP_MAX_OUT + 1] = {NULL};
    charl_var **sums = out + 1;

    if (w->of_x && w->of_affine) {
        charl__apply(b->g, t->grads, b->attr, in, 4, out);
    } else if (w->of_x) {
        charl__apply(b->g, t->grad, b->attr, in, 4, out);
    } else if (w->of_affine) {
        charl__apply(b->g, t->wgrad, b->attr, in, 2, sums);
    }
    for (int i = w->first; i < b->n_in; i++) {
        if (b->needed[i]) {
            b->gin[i] = sums[i - w->first];
        }
    }
    return out[0];
}

static bool any_needed(const charl__backward *b, int first, int end)
{
    bool any = false;

    for (int i = first; i < end; i++) {
        any = any || b->needed[i];
    }
    return any;
}

/* x is usually also the residual stream: its gradient from there is added in the same pass.
 * (Operands are omitted from the end: without a weight there are no others.) */
void charl__row_norm_backward(const charl__backward *b)
{
    charl_var *extra = b->n_in > 1 ? b->before[0] : NULL;

    b->gin[0] = append(b, &(wanted){.of_x = b->needed[0],
                                    .of_affine = any_needed(b, 1, b->n_in),
                                    .gout = b->gout[0],
                                    .x = b->in[0],
                                    .extra = extra,
                                    .first = 1});
    b->added[0] = b->needed[0] && extra;
}

/* The sum is used by itself and through the norm; both operands get the same gradient. */
void charl__row_norm_add_backward(const charl__backward *b)
{
    charl_var *through = b->gout[0];

    if (b->gout[1]) {
        const wanted w = {.of_x = any_needed(b, 0, 2),
                          .of_affine = any_needed(b, 2, b->n_in),
                          .gout = b->gout[1],
                          .x = b->out[0],
                          .extra = b->gout[0],
                          .first = 2};
        charl_var *x = append(b, &w);

        through = w.of_x ? x : through;
    }
    b->gin[0] = b->gin[1] = through;
}

static charl_status infer_grad(charl__infer *inf)
{
    CHARL_TRY(charl__row_norm_check(inf, 1, 2, 3));
    inf->out[0] = inf->in[1];
    CHARL_TRY(charl__infer_rows(inf));
    return CHARL_OK;
}

/* Operands of row_norm_grad.cl, and the parameters that follow from them. */
static charl__launch grad_launch(const charl__enqueue *e)
{
    charl__launch l = {.file = "norm/row_norm_grad",
                       .params = {{"EXTRA", e->n_in > 3}, {"AFFINE", e->n_in > 2}},
                       .args = {charl__in(e->in[0]), charl__in(e->in[1]), charl__in(e->n_in > 2 ? e->in[2] : NULL)}};

    if (e->n_in > 3) {
        charl__launch_add(&l, charl__in(e->in[3]));
    }
    charl__launch_add(&l, charl__out(e->out[0]));
    return l;
}

static charl_status enqueue_grad(const charl__enqueue *e)
{
    charl__launch l = grad_launch(e);

    return charl__row_norm_launch(e, "charl_gradient", e->in[1], &l);
}

/* Number of outputs that are sums over rows: layer_norm has a bias. */
static int sums_of(const charl__op *op)
{
    return charl__row_norm_of(op)->centred ? 2 : 1;
}

/* Sums over rows, of slices divided into blocks of rows. Workspace, in floats: sums of blocks
 * [slices][blocks][sums][n], then statistics [rows][2], which the single pass does not need. */
typedef struct sums_plan {
    int64_t slices, height; /* rows of a slice */
    int64_t block, blocks;  /* rows of a block, blocks of a slice */
    int64_t n;
    int sums;
    int64_t of_rows, end;
} sums_plan;

static sums_plan plan_sums(const charl_shape *x, const charl__op *op, int64_t slices)
{
    const int64_t rows = charl__row_norm_count(x);
    sums_plan p = {.slices = slices, .height = rows / slices, .n = charl__row_norm_length(x), .sums = sums_of(op)};

    p.block = p.height > BLOCK * MOST_BLOCKS ? charl__ceil_div(p.height, MOST_BLOCKS) : BLOCK;
    p.blocks = p.height > p.block ? charl__ceil_div(p.height, p.block) : 1;
    p.of_rows = slices * p.blocks * p.sums * p.n;
    p.end = p.of_rows + 2 * rows;
    return p;
}

/* The types of outputs k and after, which are the sums, and the workspace. */
static void infer_sums(charl__infer *inf, int k)
{
    const charl_type *x = &inf->in[1];
    const bool partial = x->batch == CHARL_BATCHED;

    inf->n_out = k + sums_of(inf->op);
    for (int i = k; i < inf->n_out; i++) {
        inf->out[i] = (charl_type){
            CHARL_F32, {1, {charl__row_norm_length(&x->shape)}}, partial ? CHARL_PARTIAL : CHARL_REPLICATED};
    }
    inf->workspace = plan_sums(&x->shape, inf->op, partial ? inf->n_slices : 1).end * (int64_t)sizeof(float);
}

static charl_status infer_wgrad(charl__infer *inf)
{
    CHARL_TRY(charl__row_norm_check(inf, 1, 2, 2));
    infer_sums(inf, 0);
    return CHARL_OK;
}

static charl_status infer_grads(charl__infer *inf)
{
    CHARL_TRY(infer_grad(inf));
    infer_sums(inf, 1);
    return CHARL_OK;
}

/* How the sums of outputs k and after are divided. */
static sums_plan plan_outputs(const charl__enqueue *e, int k)
{
    return plan_sums(&e->in[1]->shape, e->op, charl__is_partial(e, k) ? e->slices->count : 1);
}

/* Outputs k and after from the sums of blocks. */
static charl_status add_blocks(const charl__enqueue *e, const sums_plan *p, int k)
{
    const charl_reduce r = {.a = charl__scratch_arg(CHARL_ARG_IN, e->workspace, 0),
                            .a_type = CHARL_F32,
                            .n_in = 1,
                            .outer = p->slices,
                            .n = p->blocks,
                            .inner = p->n * p->sums,
                            .outputs = p->sums,
                            .scale = 1.0F};

    return charl__reduce_slices(e, &r, k);
}

/* The sums of every block from operands 0 and 1, with the statistics of rows. */
static charl_status sum_blocks(const charl__enqueue *e, const sums_plan *p)
{
    const charl_tensor *x = e->in[1];
    const int vec = charl__is_ungrouped(e->dev) ? 16 : CHARL_GPU_VEC;
    charl__launch stats = {.file = "norm/row_norm",
                           .args = {charl__in(x), charl__scratch_arg(CHARL_ARG_OUT, e->workspace, p->of_rows)}};
    charl__launch l = {
        .file = "norm/row_norm_sums",
        .entry = "charl_sums",
        .params = {{"CHARL_VEC", vec}, {"CENTRED", p->sums > 1}, {"ACT", .text = charl__kernel_type(x->dtype)}},
        .label = e->label,
        .args = {charl__in(e->in[0]), charl__in(x), charl__scratch_arg(CHARL_ARG_IN, e->workspace, p->of_rows),
                 charl__scratch_arg(CHARL_ARG_OUT, e->workspace, 0), charl__i64(p->slices), charl__i64(p->height),
                 charl__i64(p->block), charl__i64(p->n)}};

    charl__span_launch(e->dev, p->slices * p->blocks * charl__ceil_div(p->n, vec), 1, &l);
    CHARL_TRY(charl__row_norm_launch(e, "charl_stats", x, &stats));
    CHARL_TRY(charl__launch_enqueue(e->dev, &l));
    return CHARL_OK;
}

static charl_status enqueue_wgrad(const charl__enqueue *e)
{
    const sums_plan p = plan_outputs(e, 0);

    CHARL_TRY(sum_blocks(e, &p));
    CHARL_TRY(add_blocks(e, &p, 0));
    return CHARL_OK;
}

static bool is_aligned(const charl_tensor *t)
{
    return t->offset * (int64_t)charl_dtype_size(t->dtype) % 16 == 0;
}

/* A single pass gives the same bits as several, so it may be used wherever rows suit it. */
static bool takes_one_pass(const charl__enqueue *e)
{
    const charl_tensor *x = e->in[1];
    const int64_t n = charl__row_norm_length(&x->shape);
    const int64_t kept = charl__row_norm_register_blocks(e->dev, n, x->dtype);
    const int64_t local = (int64_t)sizeof(float) * CHARL_GPU_VEC * (GROUP * kept + 256);
    bool aligned = n % CHARL_GPU_VEC == 0;

    for (int i = 0; i < e->n_in; i++) {
        aligned = aligned && is_aligned(e->in[i]);
    }
    return aligned && is_aligned(e->out[0]) && kept > 0 && kept * (int64_t)charl_dtype_size(x->dtype) <= MAX_BYTES &&
           charl_shape_count(&x->shape) > 0 && local <= charl_device_get_info(e->dev)->local_bytes;
}

/* Whether blocks are so few that each can have a compute unit: their rows, eight elements per work-item, are then processed in parallel. */
static bool is_side_by_side(const charl__enqueue *e, const sums_plan *p)
{
    const charl_device_info *info = charl_device_get_info(e->dev);
    const int64_t arrays = charl__device_facts_get(e->dev)->nvidia.ptx ? 2 : 3; /* the last for sums of rows */

    return p->slices * p->blocks <= info->compute_units && info->max_group >= SIDE_GROUP &&
           charl__row_norm_register_blocks(e->dev, p->n, e->in[1]->dtype) == 1 &&
           arrays * SIDE_GROUP * CHARL_GPU_VEC * (int64_t)sizeof(float) < info->local_bytes;
}

static charl_status launch_one_pass(const charl__enqueue *e, const sums_plan *p)
{
    charl__launch l = grad_launch(e);
    const int width = charl__row_norm_width(e->dev, p->n, e->in[1]->dtype);
    const bool side_by_side = is_side_by_side(e, p);
    const int64_t group = side_by_side ? SIDE_GROUP : GROUP;
    const int64_t per_group = side_by_side ? 1 : GROUP / (TEAMS * width / CHARL_GPU_VEC); /* blocks of rows */
    int64_t per_item;

    charl__launch_set(&l, "FULL", p->n % width == 0 ? 2 : 1);
    charl__launch_set(&l, "BLOCK", p->block);
    if (side_by_side) {
        charl__launch_set(&l, "CHARL_ROW_GROUP", SIDE_GROUP);
    }
    CHARL_TRY(charl__row_norm_rows(e, e->in[1], &l, &per_item));
    l.file = side_by_side ? "norm/row_norm_grads_side" : "norm/row_norm_grads";
    l.entry = "charl_gradients";
    l.label = e->label;
    charl__launch_add(&l, charl__scratch_arg(CHARL_ARG_OUT, e->workspace, 0));
    charl__launch_add(&l, charl__i64(p->slices));
    charl__launch_add(&l, charl__i64(p->height));
    charl__launch_add(&l, charl__i64(p->n));
    charl__launch_add(&l, charl__f32(*(const float *)e->attr));
    l.global[0] = (size_t)(charl__ceil_div(p->slices * p->blocks, per_group) * group);
    l.local[0] = (size_t)group;
    CHARL_TRY(charl__launch_enqueue(e->dev, &l));
    return CHARL_OK;
}

static charl_status enqueue_grads(const charl__enqueue *e)
{
    const sums_plan p = plan_outputs(e, 1);

    if (takes_one_pass(e)) {
        CHARL_TRY(launch_one_pass(e, &p));
    } else {
        CHARL_TRY(enqueue_grad(e));
        CHARL_TRY(sum_blocks(e, &p));
    }
    CHARL_TRY(add_blocks(e, &p, 1));
    return CHARL_OK;
}

static void reference_grad(const charl__reference *r)
{
    const int64_t n = charl__row_norm_length(&r->in_type[1].shape), rows = charl__row_norm_count(&r->in_type[1].shape);

    for (int64_t i = 0; i < rows; i++) {
        const double *g = r->in[0] + i * n, *x = r->in[1] + i * n;
        double mean, invstd, s0 = 0, s1 = 0;

        charl__row_norm_statistics(r, x, n, &mean, &invstd);
        for (int64_t j = 0; j < n; j++) {
            const double u = g[j] * (r->n_in > 2 ? r->in[2][j] : 1);

            s0 += charl__row_norm_of(r->op)->centred ? u / (double)n : 0;
            s1 += u * (x[j] - mean) * invstd / (double)n;
        }
        for (int64_t j = 0; j < n; j++) {
            const double u = g[j] * (r->n_in > 2 ? r->in[2][j] : 1);

            r->out[0][i * n + j] =
                invstd * (u - s0 - (x[j] - mean) * invstd * s1) + (r->n_in > 3 ? r->in[3][i * n + j] : 0);
        }
    }
}

static void reference_wgrad(const charl__reference *r)
{
    const int64_t n = charl__row_norm_length(&r->in_type[1].shape), rows = charl__row_norm_count(&r->in_type[1].shape);

    for (int64_t j = 0; j < n; j++) {
        for (int k = 0; k < sums_of(r->op); k++) {
            r->out[k][j] = 0;
        }
    }
    for (int64_t i = 0; i < rows; i++) {
        double mean, invstd;

        charl__row_norm_statistics(r, r->in[1] + i * n, n, &mean, &invstd);
        for (int64_t j = 0; j < n; j++) {
            r->out[0][j] += r->in[0][i * n + j] * (r->in[1][i * n + j] - mean) * invstd;
            if (sums_of(r->op) > 1) {
                r->out[1][j] += r->in[0][i * n + j];
            }
        }
    }
}

static void reference_grads(const charl__reference *r)
{
    const charl__reference sums = {.op = r->op, .attr = r->attr, .in = r->in, .in_type = r->in_type, .out = r->out + 1};

    reference_grad(r);
    reference_wgrad(&sums);
}

static const float usual = 1e-5F, large = 0.1F;

/* gout, x, weight and extra for rows of n elements. */
#define OPERANDS(KIND, n, ...)                                                                                         \
    {                                                                                                                  \
        CHARL_##KIND(F32, __VA_ARGS__, n), CHARL_##KIND(F32, __VA_ARGS__, n), CHARL_R(F32, n),                         \
            CHARL_##KIND(F32, __VA_ARGS__, n)                                                                          \
    }

static const charl__op_sample samples_grad[] = {
    {.in = OPERANDS(B, 5, 16), .attr = &large, CHARL_WITHIN(1, 16)},
    {.in = OPERANDS(B, 37, 8, 3), .n_in = 2, .attr = &usual, CHARL_WITHIN(1, 37)},
    {.in = OPERANDS(R, 300, 5), .n_in = 3, .attr = &usual, CHARL_WITHIN(1, 300)},
    {.in = OPERANDS(R, 1, 3), .n_in = 3, .attr = &large, CHARL_WITHIN(1, 2)},
};

static const charl__op_sample samples_wgrad[] = {
    {.in = {CHARL_B(F32, 16, 5), CHARL_B(F32, 16, 5)}, .attr = &large, CHARL_WITHIN(1, 16)},
    {.in = {CHARL_B(F32, 8, 3, 37), CHARL_B(F32, 8, 3, 37)}, .attr = &usual, CHARL_WITHIN(1, 37)},
    {.in = {CHARL_R(F32, 5, 300), CHARL_R(F32, 5, 300)}, .attr = &usual, CHARL_WITHIN(1, 300)},
    /* Per slice, whole blocks of 64 rows and a partial one; with more than 256 blocks, larger ones. */
    {.in = {CHARL_B(F32, 8, 135, 37), CHARL_B(F32, 8, 135, 37)}, .attr = &usual, CHARL_WITHIN(1, 1080)},
    {.in = {CHARL_R(F32, 16449, 2), CHARL_R(F32, 16449, 2)}, .attr = &usual, CHARL_WITHIN(1, 16449)},
    {.in = {CHARL_R(F32, 0, 4), CHARL_R(F32, 0, 4)}, .attr = &usual, .lo = -1, .hi = 1},
    {.in = {CHARL_R(F32, 1, 1), CHARL_R(F32, 1, 1)}, .attr = &usual, CHARL_WITHIN(1, 2)},
};

static const charl__op_sample samples_grads[] = {
    {.in = OPERANDS(B, 5, 16), .attr = &large, CHARL_WITHIN(1, 16)},
    /* In one pass on devices with groups: slices of a whole block of rows and a partial one. */
    {.in = OPERANDS(B, 520, 8, 67), .n_in = 3, .attr = &usual, CHARL_WITHIN(1, 536)},
    {.in = OPERANDS(R, 16, 5), .attr = &usual, CHARL_WITHIN(1, 16)},
};

#define GRAD(word)                                                                                                     \
    .name = (word), .n_in = 4, .n_optional = 2, .attr_size = sizeof(float),                                            \
    .half = CHARL_HALF(0) | CHARL_HALF(1) | CHARL_HALF(3), .infer = infer_grad, .enqueue = enqueue_grad,               \
    .reference = reference_grad, CHARL_SAMPLES(samples_grad)

#define WGRAD(word)                                                                                                    \
    .name = (word), .n_in = 2, .attr_size = sizeof(float), .half = CHARL_HALF(0) | CHARL_HALF(1),                      \
    .infer = infer_wgrad, .enqueue = enqueue_wgrad, .reference = reference_wgrad, CHARL_SAMPLES(samples_wgrad)

#define GRADS(word)                                                                                                    \
    .name = (word), .n_in = 4, .n_optional = 1, .attr_size = sizeof(float),                                            \
    .half = CHARL_HALF(0) | CHARL_HALF(1) | CHARL_HALF(3), .infer = infer_grads, .enqueue = enqueue_grads,             \
    .reference = reference_grads, CHARL_SAMPLES(samples_grads)

const charl__op charl_op_layer_norm_grad = {
    GRAD("layer_norm_grad"),
    .formula = "out = invstd * (u - mean(u) - h * mean(u * h)) + extra, u = gout * weight, h = (x "
               "- mean) * invstd",
    .row = &charl__row_norm_layer,
};

const charl__op charl_op_rms_norm_grad = {
    GRAD("rms_norm_grad"),
    .formula = "out = invstd * (u - h * mean(u * h)) + extra, u = gout * weight, h = x * invstd",
    .row = &charl__row_norm_rms,
};

const charl__op charl_op_layer_norm_wgrad = {
    WGRAD("layer_norm_wgrad"),
    .formula = "out0 = sum over rows of gout * h, out1 = sum of gout, h = (x - mean) * invstd",
    .row = &charl__row_norm_layer,
};

const charl__op charl_op_rms_norm_wgrad = {
    WGRAD("rms_norm_wgrad"),
    .formula = "out = sum over rows of gout * h, h = x * invstd",
    .row = &charl__row_norm_rms,
};

const charl__op charl_op_layer_norm_grads = {
    GRADS("layer_norm_grads"),
    .formula = "out0 = layer_norm_grad, out1, out2 = layer_norm_wgrad",
    .row = &charl__row_norm_layer,
};

const charl__op charl_op_rms_norm_grads = {
    GRADS("rms_norm_grads"),
    .formula = "out0 = rms_norm_grad, out1 = rms_norm_wgrad",
    .row = &charl__row_norm_rms,
};
