/* Gradients of layer_norm and rms_norm. Those of weight and bias are sums over rows, cut into
 * blocks of rows: one work-item for each block and a few columns, or in the pass that forms the
 * gradient of x the work-items of four rows for each block. */
#include <stdio.h>
#include <string.h>

#include "autograd/launch/map.h"
#include "autograd/op/norm/row_norm.h"
#include "charl/ops.h"

enum { BLOCK = 64, MOST_BLOCKS = 256 }; /* rows; of a slice, which then has taller ones */
enum { GROUP = 128, TEAMS = 4 };        /* as in kernels/norm/row_norm_grads.cl */
enum { MAX_BYTES = 16 };                /* of each eighth of a block that it keeps of a row */

/* The gradient of the normalised operand `x`, plus `extra` unless it is NULL, and those of weight
 * and bias, operands `first` and after: what is needed of them, in one operator where it is both.
 */
typedef struct wanted {
    bool of_x, of_affine;
    charl_var *gout, *x, *extra;
    int first;
} wanted;

static charl_var *append(const charl_backward *b, const wanted *w)
{
    const charl_row_norm *t = b->attr;
    charl_var *weight = b->n_in > w->first ? b->in[w->first] : NULL;
    charl_var *in[] = {w->gout, w->x, weight, w->extra}, *out[CHARL_OP_MAX_OUT + 1] = {NULL};
    charl_var **sums = out + 1;

    if (w->of_x && w->of_affine) {
        charl__apply(b->g, t->centred ? &charl_op_layer_norm_grads : &charl_op_rms_norm_grads, t,
                     in, 4, out);
    } else if (w->of_x) {
        charl__apply(b->g, t->centred ? &charl_op_layer_norm_grad : &charl_op_rms_norm_grad, t, in,
                     4, out);
    } else if (w->of_affine) {
        charl__apply(b->g, t->centred ? &charl_op_layer_norm_wgrad : &charl_op_rms_norm_wgrad, t,
                     in, 2, sums);
    }
    for (int i = w->first; i < b->n_in; i++) {
        if (b->needed[i]) {
            b->gin[i] = sums[i - w->first];
        }
    }
    return out[0];
}

static bool any_needed(const charl_backward *b, int first, int end)
{
    bool any = false;

    for (int i = first; i < end; i++) {
        any = any || b->needed[i];
    }
    return any;
}

/* x is mostly what goes on beside the norm too: what comes from there is added in the same pass.
 * (Operands that are left out are the last: without a weight there is no other.) */
void charl__row_norm_backward(const charl_backward *b)
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

/* The sum goes on by itself and through the norm; both operands get the same gradient. */
void charl__row_norm_add_backward(const charl_backward *b)
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

charl_status charl__row_norm_grad_infer(charl_infer *inf)
{
    CHARL_TRY(charl__row_norm_check(inf, 1, 2, 3));
    inf->out[0] = inf->in[1];
    CHARL_TRY(charl__infer_rows(inf));
    return CHARL_OK;
}

/* Operands of row_norm_grad.cl, and what they say about how it is specialised. */
static charl_launch grad_launch(const charl_enqueue *e, char *defines, size_t bytes)
{
    charl_launch l = {.file = "norm/row_norm_grad",
                      .args = {charl__in(e->in[0]), charl__in(e->in[1]),
                               charl__in(e->n_in > 2 ? e->in[2] : NULL)}};

    snprintf(defines, bytes, "#define EXTRA %d\n#define AFFINE %d\n", e->n_in > 3, e->n_in > 2);
    if (e->n_in > 3) {
        charl__launch_add(&l, charl__in(e->in[3]));
    }
    charl__launch_add(&l, charl__out(e->out[0]));
    return l;
}

charl_status charl__row_norm_grad_enqueue(const charl_enqueue *e)
{
    char defines[64];
    charl_launch l = grad_launch(e, defines, sizeof defines);

    return charl__row_norm_launch(e, "charl_gradient", e->in[1], defines, &l);
}

/* Outputs that are sums over rows: layer_norm has a bias. */
static int sums_of(const void *attr)
{
    return ((const charl_row_norm *)attr)->centred ? 2 : 1;
}

static int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* Sums over rows: of slices cut into blocks of rows. Workspace, in floats: sums of blocks
 * [slices][blocks][sums][n], then statistics [rows][2], which one pass does not need. */
typedef struct sums_plan {
    int64_t slices, height; /* rows of a slice */
    int64_t block, blocks;  /* rows of a block, blocks of a slice */
    int64_t n;
    int sums;
    int64_t of_rows, end;
} sums_plan;

static sums_plan plan_sums(const charl_shape *x, const void *attr, int64_t slices)
{
    const int64_t rows = charl__row_norm_count(x);
    sums_plan p = {.slices = slices,
                   .height = rows / slices,
                   .n = charl__row_norm_length(x),
                   .sums = sums_of(attr)};

    p.block = p.height > BLOCK * MOST_BLOCKS ? ceil_div(p.height, MOST_BLOCKS) : BLOCK;
    p.blocks = p.height > p.block ? ceil_div(p.height, p.block) : 1;
    p.of_rows = slices * p.blocks * p.sums * p.n;
    p.end = p.of_rows + 2 * rows;
    return p;
}

/* The types of outputs k and after, which are the sums, and the workspace. */
static void infer_sums(charl_infer *inf, int k)
{
    const charl_type *x = &inf->in[1];
    const bool partial = x->batch == CHARL_BATCHED;

    inf->n_out = k + sums_of(inf->attr);
    for (int i = k; i < inf->n_out; i++) {
        inf->out[i] = (charl_type){CHARL_F32,
                                   {1, {charl__row_norm_length(&x->shape)}},
                                   partial ? CHARL_PARTIAL : CHARL_REPLICATED};
    }
    inf->workspace =
        plan_sums(&x->shape, inf->attr, partial ? inf->n_slices : 1).end * (int64_t)sizeof(float);
}

charl_status charl__row_norm_wgrad_infer(charl_infer *inf)
{
    CHARL_TRY(charl__row_norm_check(inf, 1, 2, 2));
    infer_sums(inf, 0);
    return CHARL_OK;
}

charl_status charl__row_norm_grads_infer(charl_infer *inf)
{
    CHARL_TRY(charl__row_norm_grad_infer(inf));
    infer_sums(inf, 1);
    return CHARL_OK;
}

/* How the sums of outputs k and after are formed. */
static sums_plan plan_outputs(const charl_enqueue *e, int k)
{
    return plan_sums(&e->in[1]->shape, e->attr, charl__is_partial(e, k) ? e->slices->count : 1);
}

/* Outputs k and after from the sums of blocks. */
static charl_status add_blocks(const charl_enqueue *e, const sums_plan *p, int k)
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
static charl_status sum_blocks(const charl_enqueue *e, const sums_plan *p)
{
    const charl_tensor *x = e->in[1];
    const int vec = charl__is_ungrouped(e->dev) ? 16 : CHARL_GPU_VEC;
    char defines[96];
    charl_launch stats = {
        .file = "norm/row_norm",
        .args = {charl__in(x), charl__scratch_arg(CHARL_ARG_OUT, e->workspace, p->of_rows)}};
    charl_launch l = {.file = "norm/row_norm_sums",
                      .entry = "charl_sums",
                      .defines = defines,
                      .label = e->label,
                      .args = {charl__in(e->in[0]), charl__in(x),
                               charl__scratch_arg(CHARL_ARG_IN, e->workspace, p->of_rows),
                               charl__scratch_arg(CHARL_ARG_OUT, e->workspace, 0),
                               charl__i64(p->slices), charl__i64(p->height), charl__i64(p->block),
                               charl__i64(p->n)}};

    snprintf(defines, sizeof defines, "#define CHARL_VEC %d\n#define CENTRED %d\n%s", vec,
             p->sums > 1, charl__act_define(x->dtype));
    charl__span_launch(e->dev, p->slices * p->blocks * ceil_div(p->n, vec), 1, &l);
    CHARL_TRY(charl__row_norm_launch(e, "charl_stats", x, "", &stats));
    CHARL_TRY(charl__launch(e->dev, &l));
    return CHARL_OK;
}

charl_status charl__row_norm_wgrad_enqueue(const charl_enqueue *e)
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

/* One pass gives the same bits as several: so it may be taken where rows suit it. */
static bool takes_one_pass(const charl_enqueue *e)
{
    const charl_tensor *x = e->in[1];
    const int64_t n = charl__row_norm_length(&x->shape);
    const int64_t kept = charl__row_norm_kept(e->dev, n, x->dtype);
    const int64_t local = (int64_t)sizeof(float) * CHARL_GPU_VEC * (GROUP * kept + 256);
    bool aligned = n % CHARL_GPU_VEC == 0;

    for (int i = 0; i < e->n_in; i++) {
        aligned = aligned && is_aligned(e->in[i]);
    }
    return aligned && is_aligned(e->out[0]) && kept > 0 &&
           kept * (int64_t)charl_dtype_size(x->dtype) <= MAX_BYTES &&
           charl_shape_count(&x->shape) > 0 && local <= charl_device_get_info(e->dev)->local_bytes;
}

static charl_status launch_one_pass(const charl_enqueue *e, const sums_plan *p)
{
    const charl_row_norm *t = e->attr;
    char defines[96];
    charl_launch l = grad_launch(e, defines, sizeof defines);
    const int width = charl__row_norm_width(e->dev, p->n, e->in[1]->dtype);
    const int64_t per_group = GROUP / (TEAMS * width / CHARL_GPU_VEC); /* blocks of rows */
    charl_rows plan;

    snprintf(defines + strlen(defines), sizeof defines - strlen(defines),
             "#define FULL %d\n#define BLOCK %lld\n", p->n % width == 0 ? 2 : 1,
             (long long)p->block);
    CHARL_TRY(charl__row_norm_plan(e, e->in[1], defines, &plan));
    l.file = "norm/row_norm_grads";
    l.entry = "charl_gradients";
    l.defines = plan.defines;
    l.label = e->label;
    charl__launch_add(&l, charl__scratch_arg(CHARL_ARG_OUT, e->workspace, 0));
    charl__launch_add(&l, charl__i64(p->slices));
    charl__launch_add(&l, charl__i64(p->height));
    charl__launch_add(&l, charl__i64(p->n));
    charl__launch_add(&l, charl__f32(t->eps));
    l.global[0] = (size_t)(ceil_div(p->slices * p->blocks, per_group) * GROUP);
    l.local[0] = GROUP;
    CHARL_TRY(charl__launch(e->dev, &l));
    return CHARL_OK;
}

charl_status charl__row_norm_grads_enqueue(const charl_enqueue *e)
{
    const sums_plan p = plan_outputs(e, 1);

    if (takes_one_pass(e)) {
        CHARL_TRY(launch_one_pass(e, &p));
    } else {
        CHARL_TRY(charl__row_norm_grad_enqueue(e));
        CHARL_TRY(sum_blocks(e, &p));
    }
    CHARL_TRY(add_blocks(e, &p, 1));
    return CHARL_OK;
}

void charl__row_norm_grad_reference(const charl_reference *r)
{
    const charl_row_norm *t = r->attr;
    const int64_t n = charl__row_norm_length(&r->in_type[1].shape),
                  rows = charl__row_norm_count(&r->in_type[1].shape);

    for (int64_t i = 0; i < rows; i++) {
        const double *g = r->in[0] + i * n, *x = r->in[1] + i * n;
        double mean, invstd, s0 = 0, s1 = 0;

        charl__row_norm_statistics(t, x, n, &mean, &invstd);
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
    const int64_t n = charl__row_norm_length(&r->in_type[1].shape),
                  rows = charl__row_norm_count(&r->in_type[1].shape);

    for (int64_t j = 0; j < n; j++) {
        for (int k = 0; k < sums_of(r->attr); k++) {
            r->out[k][j] = 0;
        }
    }
    for (int64_t i = 0; i < rows; i++) {
        double mean, invstd;

        charl__row_norm_statistics(r->attr, r->in[1] + i * n, n, &mean, &invstd);
        for (int64_t j = 0; j < n; j++) {
            r->out[0][j] += r->in[0][i * n + j] * (r->in[1][i * n + j] - mean) * invstd;
            if (sums_of(r->attr) > 1) {
                r->out[1][j] += r->in[0][i * n + j];
            }
        }
    }
}

void charl__row_norm_grads_reference(const charl_reference *r)
{
    const charl_reference sums = {
        .attr = r->attr, .in = r->in, .in_type = r->in_type, .out = r->out + 1};

    charl__row_norm_grad_reference(r);
    charl__row_norm_wgrad_reference(&sums);
}
