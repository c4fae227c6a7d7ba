/* One row is normalised by one work-item or one part of a group; sums over rows, the gradients of
 * weight and bias, are cut into blocks of rows, one work-item for each block and a few columns. */
#include "autograd/row_norm.h"

#include <math.h>
#include <stdio.h>

#include "autograd/map.h"
#include "autograd/rows.h"
#include "charl/ops.h"

enum { BLOCK = 64 }; /* rows, as in kernels/row_norm_sums.cl */
enum { MAX_KEPT = 8 };

static int64_t row_length(const charl_shape *s)
{
    return s->dim[s->ndim - 1];
}

static int64_t row_count(const charl_shape *s)
{
    const int64_t n = row_length(s);

    return n > 0 ? charl_shape_count(s) / n : 0;
}

/* Operand x has rows; operands first .. last - 1 are [C], the others as x. */
static charl_status check(const charl_infer *inf, int x, int first, int last)
{
    charl_status st = CHARL_OK;
    const charl_type *t = &inf->in[x];
    char a[CHARL_SHAPE_TEXT], b[CHARL_SHAPE_TEXT];

    CHARL_REQUIRE(t->shape.ndim >= (t->batch == CHARL_BATCHED ? 2 : 1) && row_length(&t->shape) > 0,
                  CHARL_ERR_SHAPE, "x %s has no last axis to normalise over",
                  charl_shape_format(&t->shape, a));
    for (int i = 0; i < inf->n_in; i++) {
        const charl_type *o = &inf->in[i];

        CHARL_REQUIRE(charl__is_float(o->dtype), CHARL_ERR_DTYPE, "operand %d is %s, not a float",
                      i, charl_dtype_name(o->dtype));
        if (i >= first && i < last) {
            CHARL_REQUIRE(o->shape.ndim == 1 && o->shape.dim[0] == row_length(&t->shape) &&
                              o->batch != CHARL_BATCHED,
                          CHARL_ERR_SHAPE, "operand %d %s does not fit the last axis of x %s", i,
                          charl_shape_format(&o->shape, a), charl_shape_format(&t->shape, b));
        } else {
            CHARL_REQUIRE(charl_shape_equal(&o->shape, &t->shape) && o->batch == t->batch &&
                              o->dtype == t->dtype,
                          CHARL_ERR_SHAPE, "operand %d %s differs from x %s", i,
                          charl_shape_format(&o->shape, a), charl_shape_format(&t->shape, b));
        }
    }
cleanup:
    return st;
}

/* On a device with groups the work-items of a row keep up to so many of its elements in registers;
 * more they read again. 0: they keep none. */
static int kept_blocks(const charl_device *dev, int64_t n)
{
    const int64_t width = charl__rows_width(n), blocks = (n + width - 1) / width;

    return charl__rows_have_one_item(dev) || blocks > MAX_KEPT ? 0 : (int)blocks;
}

/* Launch `entry` over the rows of x; l has its n_args operands, and geometry and eps follow. */
static charl_status launch_rows(const charl_enqueue *e, const char *entry, const charl_tensor *x,
                                const char *defines, charl_launch *l, int n_args)
{
    charl_status st = CHARL_OK;
    const charl_row_norm *t = e->attr;
    const int64_t rows = row_count(&x->shape), n = row_length(&x->shape);
    charl_rows plan;
    char extra[128];

    snprintf(extra, sizeof extra, "#define CENTRED %d\n#define KEEP %d\n%s", t->centred,
             kept_blocks(e->dev, n), defines);
    CHARL_TRY(charl__rows_plan(e->dev, rows, n, extra, &plan));
    charl__rows_store(&plan, x->dtype);
    l->entry = entry;
    l->defines = plan.defines;
    l->label = e->label;
    l->args[n_args] = charl__i64(rows);
    l->args[n_args + 1] = charl__i64(plan.per_item);
    l->args[n_args + 2] = charl__i64(n);
    l->args[n_args + 3] = charl__f32(t->eps);
    l->global[0] = plan.global;
    l->local[0] = plan.local;
    CHARL_TRY(charl__launch(e->dev, l));
cleanup:
    return st;
}

charl_status charl__row_norm_infer(charl_infer *inf)
{
    charl_status st = CHARL_OK;

    CHARL_TRY(check(inf, 0, 1, inf->n_in));
    inf->out[0] = inf->in[0];
    CHARL_TRY(charl__infer_rows(inf));
cleanup:
    return st;
}

charl_status charl__row_norm_enqueue(const charl_enqueue *e)
{
    charl_launch l = {.file = "row_norm",
                      .args = {charl__in(e->in[0]), charl__in(e->n_in > 1 ? e->in[1] : NULL),
                               charl__in(e->n_in > 2 ? e->in[2] : NULL), charl__out(e->out[0])}};
    char defines[32];

    snprintf(defines, sizeof defines, "#define AFFINE %d\n", e->n_in - 1);
    return launch_rows(e, "charl_normalize", e->in[0], defines, &l, 4);
}

charl_status charl__row_norm_add_infer(charl_infer *inf)
{
    charl_status st = CHARL_OK;

    CHARL_TRY(check(inf, 0, 2, inf->n_in));
    inf->n_out = 2;
    inf->out[0] = inf->out[1] = inf->in[0];
    CHARL_TRY(charl__infer_rows(inf));
cleanup:
    return st;
}

charl_status charl__row_norm_add_enqueue(const charl_enqueue *e)
{
    charl_launch l = {.file = "row_norm",
                      .args = {charl__in(e->in[0]), charl__in(e->in[1]), charl__in(e->in[2]),
                               charl__in(e->n_in > 3 ? e->in[3] : NULL), charl__out(e->out[0]),
                               charl__out(e->out[1])}};
    char defines[64];

    snprintf(defines, sizeof defines, "#define ADD 1\n#define AFFINE %d\n", e->n_in - 2);
    return launch_rows(e, "charl_normalize", e->in[0], defines, &l, 6);
}

/* The gradient of the normalised x from gout, plus `extra` unless it is NULL. */
static charl_var *gradient(const charl_backward *b, charl_var *gout, charl_var *x,
                           charl_var *weight, charl_var *extra)
{
    const charl_row_norm *t = b->attr;
    charl_var *out[CHARL_OP_MAX_OUT];

    charl__apply(b->g, t->centred ? &charl_op_layer_norm_grad : &charl_op_rms_norm_grad, t,
                 (charl_var *[]){gout, x, weight, extra}, 4, out);
    return out[0];
}

/* Those of weight and bias, operands `first` and after. */
static void affine_gradients(const charl_backward *b, charl_var *gout, charl_var *x, int first)
{
    const charl_row_norm *t = b->attr;
    bool any = false;
    charl_var *sums;

    for (int i = first; i < b->n_in; i++) {
        any = any || b->needed[i];
    }
    if (!any) {
        return;
    }
    sums = charl__apply2(b->g, t->centred ? &charl_op_layer_norm_wgrad : &charl_op_rms_norm_wgrad,
                         t, gout, x);
    for (int i = first; i < b->n_in; i++) {
        if (b->needed[i]) {
            b->gin[i] = charl_reshape(b->g, charl_slice(b->g, sums, 0, i - first, 1),
                                      charl_var_get_type(b->in[i]).shape);
        }
    }
}

void charl__row_norm_backward(const charl_backward *b)
{
    if (b->needed[0]) {
        b->gin[0] = gradient(b, b->gout[0], b->in[0], b->n_in > 1 ? b->in[1] : NULL, NULL);
    }
    affine_gradients(b, b->gout[0], b->in[0], 1);
}

/* The sum goes on by itself and through the norm; both operands get the same gradient. */
void charl__row_norm_add_backward(const charl_backward *b)
{
    charl_var *through = b->gout[0];

    if (b->gout[1]) {
        if (b->needed[0] || b->needed[1]) {
            through = gradient(b, b->gout[1], b->out[0], b->in[2], b->gout[0]);
        }
        affine_gradients(b, b->gout[1], b->out[0], 2);
    }
    b->gin[0] = b->gin[1] = through;
}

charl_status charl__row_norm_grad_infer(charl_infer *inf)
{
    charl_status st = CHARL_OK;

    CHARL_TRY(check(inf, 1, 2, 3));
    inf->out[0] = inf->in[1];
    CHARL_TRY(charl__infer_rows(inf));
cleanup:
    return st;
}

charl_status charl__row_norm_grad_enqueue(const charl_enqueue *e)
{
    charl_launch l = {.file = "row_norm_grad",
                      .args = {charl__in(e->in[0]), charl__in(e->in[1]),
                               charl__in(e->n_in > 2 ? e->in[2] : NULL)}};
    char defines[64];
    int a = 3;

    snprintf(defines, sizeof defines, "#define EXTRA %d\n#define AFFINE %d\n", e->n_in > 3,
             e->n_in > 2);
    if (e->n_in > 3) {
        l.args[a++] = charl__in(e->in[3]);
    }
    l.args[a++] = charl__out(e->out[0]);
    return launch_rows(e, "charl_gradient", e->in[1], defines, &l, a);
}

/* Rows of the result: layer_norm has a bias. */
static int64_t sums_of(const void *attr)
{
    return ((const charl_row_norm *)attr)->centred ? 2 : 1;
}

/* Workspace of the sums over rows, in floats: statistics [rows][2], results of slices, results of
 * blocks where a slice has several, and what adding those up needs. */
typedef struct sums_plan {
    int64_t slices, rows, blocks; /* rows of a slice, blocks of a slice */
    int64_t sums;                 /* of a block */
    int64_t of_slices, of_blocks, scratch, end;
} sums_plan;

static sums_plan plan_sums(const charl_shape *x, const void *attr, int64_t slices)
{
    sums_plan p = {.slices = slices, .rows = row_count(x) / slices};

    p.blocks = p.rows > BLOCK ? (p.rows + BLOCK - 1) / BLOCK : 1;
    p.sums = sums_of(attr) * row_length(x);
    p.of_slices = 2 * row_count(x);
    p.of_blocks = p.of_slices + slices * p.sums;
    p.scratch = p.of_blocks + (p.blocks > 1 ? slices * p.blocks * p.sums : 0);
    p.end = p.scratch + charl__reduce_scratch(slices, p.blocks, p.sums);
    return p;
}

charl_status charl__row_norm_wgrad_infer(charl_infer *inf)
{
    charl_status st = CHARL_OK;
    const charl_type *x = &inf->in[1];
    const bool partial = x->batch == CHARL_BATCHED;

    CHARL_TRY(check(inf, 1, 2, 2));
    inf->out[0] = (charl_type){CHARL_F32,
                               {2, {sums_of(inf->attr), row_length(&x->shape)}},
                               partial ? CHARL_PARTIAL : CHARL_REPLICATED};
    inf->workspace =
        plan_sums(&x->shape, inf->attr, partial ? inf->n_slices : 1).end * (int64_t)sizeof(float);
cleanup:
    return st;
}

/* The sums of every block, into `out`. */
static charl_status sum_blocks(const charl_enqueue *e, const sums_plan *p, charl_arg out)
{
    const charl_tensor *x = e->in[1];
    const int64_t n = row_length(&x->shape);
    const int vec = charl__is_ungrouped(e->dev) ? 16 : CHARL_GPU_VEC;
    char defines[96];
    charl_launch l = {.file = "row_norm_sums",
                      .entry = "charl_sums",
                      .defines = defines,
                      .label = e->label,
                      .args = {charl__in(e->in[0]), charl__in(x),
                               charl__scratch_arg(CHARL_ARG_IN, e->workspace, 0), out,
                               charl__i64(p->slices), charl__i64(p->rows), charl__i64(n)}};

    snprintf(defines, sizeof defines, "#define CHARL_VEC %d\n#define CENTRED %d\n%s", vec,
             p->sums > n, charl__act_define(x->dtype));
    charl__span_launch(e->dev, p->slices * p->blocks * ((n + vec - 1) / vec), 1, &l);
    return charl__launch(e->dev, &l);
}

charl_status charl__row_norm_wgrad_enqueue(const charl_enqueue *e)
{
    charl_status st = CHARL_OK;
    const sums_plan p =
        plan_sums(&e->in[1]->shape, e->attr, charl__is_partial(e, 0) ? e->slices->count : 1);
    charl_launch stats = {
        .file = "row_norm",
        .args = {charl__in(e->in[1]), charl__scratch_arg(CHARL_ARG_OUT, e->workspace, 0)}};
    charl_tensor part = *e->workspace;
    charl_reduce r = {.a = charl__scratch_arg(CHARL_ARG_IN, e->workspace, p.of_blocks),
                      .a_type = CHARL_F32,
                      .n_in = 1,
                      .outer = p.slices,
                      .n = p.blocks,
                      .inner = p.sums,
                      .scratch = p.scratch,
                      .scale = 1.0F};

    part.offset += p.of_slices;
    part.shape = (charl_shape){1, {p.slices * p.sums}};
    r.out = p.slices > 1 ? charl__out(&part) : charl__out(e->out[0]);
    CHARL_TRY(launch_rows(e, "charl_stats", e->in[1], "", &stats, 2));
    CHARL_TRY(sum_blocks(e, &p,
                         p.blocks > 1 ? charl__scratch_arg(CHARL_ARG_OUT, e->workspace, p.of_blocks)
                                      : r.out));
    if (p.blocks > 1) {
        CHARL_TRY(charl__reduce_sum(e, &r));
    }
    if (p.slices > 1) {
        CHARL_TRY(charl__fold(e, &part, p.sums, 0));
    }
cleanup:
    return st;
}

/* Mean and 1 / deviation of a row. */
static void statistics(const charl_row_norm *t, const double *x, int64_t n, double *mean,
                       double *invstd)
{
    double sum = 0, squares = 0;

    for (int64_t j = 0; j < n && t->centred; j++) {
        sum += x[j];
    }
    *mean = sum / (double)n;
    for (int64_t j = 0; j < n; j++) {
        squares += (x[j] - *mean) * (x[j] - *mean);
    }
    *invstd = 1 / sqrt(squares / (double)n + (double)t->eps);
}

/* Operands `affine` and after are weight and bias. */
static void normalize(const charl_reference *r, const double *x, int affine, double *out)
{
    const int64_t n = row_length(&r->in_type[0].shape), rows = row_count(&r->in_type[0].shape);

    for (int64_t i = 0; i < rows; i++) {
        double mean, invstd;

        statistics(r->attr, x + i * n, n, &mean, &invstd);
        for (int64_t j = 0; j < n; j++) {
            out[i * n + j] =
                (x[i * n + j] - mean) * invstd * (r->n_in > affine ? r->in[affine][j] : 1) +
                (r->n_in > affine + 1 ? r->in[affine + 1][j] : 0);
        }
    }
}

void charl__row_norm_reference(const charl_reference *r)
{
    normalize(r, r->in[0], 1, r->out[0]);
}

void charl__row_norm_add_reference(const charl_reference *r)
{
    for (int64_t i = 0; i < charl_shape_count(&r->in_type[0].shape); i++) {
        r->out[0][i] = r->in[0][i] + r->in[1][i];
    }
    normalize(r, r->out[0], 2, r->out[1]);
}

void charl__row_norm_grad_reference(const charl_reference *r)
{
    const charl_row_norm *t = r->attr;
    const int64_t n = row_length(&r->in_type[1].shape), rows = row_count(&r->in_type[1].shape);

    for (int64_t i = 0; i < rows; i++) {
        const double *g = r->in[0] + i * n, *x = r->in[1] + i * n;
        double mean, invstd, s0 = 0, s1 = 0;

        statistics(t, x, n, &mean, &invstd);
        for (int64_t j = 0; j < n; j++) {
            const double u = g[j] * (r->n_in > 2 ? r->in[2][j] : 1);

            s0 += t->centred ? u / (double)n : 0;
            s1 += u * (x[j] - mean) * invstd / (double)n;
        }
        for (int64_t j = 0; j < n; j++) {
            const double u = g[j] * (r->n_in > 2 ? r->in[2][j] : 1);

            r->out[0][i * n + j] = invstd * (u - s0 - (x[j] - mean) * invstd * s1) +
                                   (r->n_in > 3 ? r->in[3][i * n + j] : 0);
        }
    }
}

void charl__row_norm_wgrad_reference(const charl_reference *r)
{
    const int64_t n = row_length(&r->in_type[1].shape), rows = row_count(&r->in_type[1].shape);

    for (int64_t j = 0; j < sums_of(r->attr) * n; j++) {
        r->out[0][j] = 0;
    }
    for (int64_t i = 0; i < rows; i++) {
        double mean, invstd;

        statistics(r->attr, r->in[1] + i * n, n, &mean, &invstd);
        for (int64_t j = 0; j < n; j++) {
            r->out[0][j] += r->in[0][i * n + j] * (r->in[1][i * n + j] - mean) * invstd;
            if (sums_of(r->attr) > 1) {
                r->out[0][n + j] += r->in[0][i * n + j];
            }
        }
    }
}
