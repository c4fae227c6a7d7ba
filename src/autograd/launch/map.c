/* The elementwise engine and helpers of elementwise operators.
 *
 * On devices without work-groups a work-item processes a few thousand elements in vectors of 16;
 * elsewhere one vector of 8. The bits do not depend on it.
 */
#include "autograd/launch/map.h"

#include "autograd/fuse/chain.h"

#include "charl/ops.h"

enum { CPU_SPAN = 4096 };

bool charl__is_ungrouped(const charl_device *dev)
{
    return charl__device_facts_get(dev)->group <= 1;
}

const char *charl__word_type(charl_dtype dtype)
{
    switch (charl_dtype_size(dtype)) {
    case 1:
        return "uchar";
    case 2:
        return "ushort";
    case 8:
        return "ulong";
    default:
        return "uint";
    }
}

int64_t charl__span(const charl_device *dev, int64_t n, int64_t gpu)
{
    const int units = charl_device_get_info(dev)->compute_units;
    int64_t span;

    if (!charl__is_ungrouped(dev)) {
        return gpu;
    }
    span = (n / (4 * (units > 0 ? units : 1)) + 15) / 16 * 16; /* enough for every core, twice */
    return span < 1024 ? 1024 : span > CPU_SPAN ? CPU_SPAN : span;
}

void charl__span_launch(const charl_device *dev, int64_t n, int64_t span, charl__launch *l)
{
    const int group = charl__device_facts_get(dev)->group;
    const size_t items = (size_t)((n + span - 1) / span);

    l->local[0] = group > 1 ? (size_t)group : 1;
    l->global[0] = (items + l->local[0] - 1) / l->local[0] * l->local[0];
}

charl__whole charl__whole_begin(const charl_device *dev, int64_t n, int vec)
{
    return (charl__whole){.n = n, .vec = vec, .all = !charl__is_ungrouped(dev) && n % vec == 0};
}

void charl__whole_add(charl__whole *w, const charl_tensor *t, int64_t inner, int64_t count)
{
    const bool starts = t->offset * (int64_t)charl_dtype_size(t->dtype) % 16 == 0;

    if (count == w->n) {
        w->all = w->all && starts;
    } else if (inner == 1) {
        w->all = w->all && starts && count % w->vec == 0;
        w->neighbours = true;
    } else {
        w->all = w->all && inner % w->vec == 0;
        w->elements = true;
    }
}

int charl__whole_kind(const charl__whole *w)
{
    return !w->all || (w->elements && w->neighbours) ? 0 : w->neighbours ? 2 : 1;
}

charl_status charl__map_run(const charl__enqueue *e, const charl__map *m)
{
    const int64_t n = charl__tensor_count(m->out);
    const int vec = charl__is_ungrouped(e->dev) ? 16 : CHARL_GPU_VEC;
    const int64_t span = charl__span(e->dev, n, vec);
    static const char *const type[] = {"A_T", "B_T", "C_T", "D_T", "E_T", "F_T"};
    static const char *const mode[] = {"MODE_A", "MODE_B", "MODE_C", "MODE_D", "MODE_E", "MODE_F"};
    charl__launch l = {.file = "elementwise/map",
                       .entry = "charl_map",
                       .params = {{"CHARL_VEC", vec},
                                  {"N_IN", m->n_in},
                                  {"EXPR(a, b, c, d, e, f, p, q)", .text = m->expr},
                                  {"INDEX", .text = n < INT32_MAX ? "uint" : "ulong"}},
                       .label = e->label};
    charl__whole whole = charl__whole_begin(e->dev, n, vec);
    charl__map_args args = {.n = (uint64_t)n, .span = (uint64_t)span, .p = m->p, .q = m->q};

    CHARL_INVARIANT(m->n_in >= 1 && m->n_in <= CHARL_MAP_MAX_IN);
    if (n == 0) {
        return CHARL_OK;
    }
    for (int i = 0; i < m->n_in; i++) {
        int64_t inner = 1, count = n;
        char full[CHARL_SHAPE_TEXT], part[CHARL_SHAPE_TEXT];

        CHARL_REQUIRE(charl__broadcast_in(m->out->channels_last, &m->out->shape, &m->in[i]->shape, &inner, &count),
                      CHARL_ERR_SHAPE, "operand %d %s does not broadcast to %s", i,
                      charl_shape_format(&m->in[i]->shape, part), charl_shape_format(&m->out->shape, full));
        charl__launch_set_text(&l, type[i], charl__kernel_type(m->in[i]->dtype));
        if (count < n) {
            charl__launch_set(&l, mode[i], 1);
        }
        l.args[i] = charl__placed(charl__in(m->in[i]), &args.at[i]);
        args.inner[i] = (uint64_t)inner;
        args.count[i] = (uint64_t)count;
        charl__whole_add(&whole, m->in[i], inner, count);
    }
    charl__whole_add(&whole, m->out, 1, n);
    charl__launch_set_text(&l, "OUT_T", charl__kernel_type(m->out->dtype));
    charl__launch_set(&l, "WHOLE", charl__whole_kind(&whole));
    for (int i = m->n_in; i < CHARL__MAP_OPERANDS; i++) {
        l.args[i] = charl__placed(charl__in(NULL), &args.at[i]);
    }
    l.args[CHARL__MAP_OPERANDS] = charl__placed(charl__out(m->out), &args.out);
    l.args[CHARL__MAP_OPERANDS + 1] = charl__struct(&args, sizeof args);
    charl__span_launch(e->dev, n, span, &l);
    CHARL_TRY(charl__launch_enqueue(e->dev, &l));
    return CHARL_OK;
}

charl_status charl__map_expr(const charl__enqueue *e, const charl__expr *x)
{
    return charl__map_run(
        e, &(charl__map){.expr = x->text, .in = e->in, .n_in = e->n_in, .out = e->out[0], .p = x->p, .q = x->q});
}

bool charl__op_express(const charl__op *op, const void *attr, int n_in, charl_dtype type, charl__expr *x)
{
    *x = (charl__expr){.text = op->expr, .half_text = op->half_expr};
    if (op->express) {
        op->express(attr, n_in, x);
    }
    if (op->expr_numbers > 0) {
        const float *number = attr;

        x->numbers = op->expr_numbers;
        x->p = number[0];
        x->q = op->expr_numbers > 1 ? number[1] : 0.0F;
    }
    if (x->half_text && type != CHARL_F32) {
        x->text = x->half_text;
    }
    return x->text != NULL;
}

charl_status charl__op_enqueue(const charl__op *op, const charl__enqueue *e)
{
    charl__enqueue own = *e;
    charl__expr x;

    if (!op->enqueue && charl__op_express(op, e->attr, e->n_in, e->out[0]->dtype, &x)) {
        return x.uses_rng ? charl__chain_run(e, &x) : charl__map_expr(e, &x);
    }
    own.op = op;
    return op->enqueue(&own);
}

int64_t charl__reference_index(const charl__reference *r, int i, int64_t e)
{
    int64_t inner = 1, count = 1;

    if (charl_shape_equal(&r->out_type[0].shape, &r->in_type[i].shape)) {
        return e;
    }
    (void)charl__broadcast_index(&r->out_type[0].shape, &r->in_type[i].shape, &inner, &count);
    return count > 0 ? e / inner % count : 0;
}

void charl__op_reference(const charl__op *op, const charl__reference *r)
{
    charl__reference own = *r;
    double x[CHARL_OP_MAX_IN] = {0};

    own.op = op;
    if (!op->element) {
        op->reference(&own);
        return;
    }
    for (int64_t e = 0; e < charl_shape_count(&r->out_type[0].shape); e++) {
        for (int i = 0; i < r->n_in; i++) {
            x[i] = r->in[i][charl__reference_index(r, i, e)];
        }
        r->out[0][e] = op->element(r->attr, x);
    }
}

/* [outer, count, inner] summed over outer and inner. The batch stays the leading extent: if it
 * is part of the operand, it comes before count, otherwise it is part of outer. */
static charl_var *sum_around(charl_graph *g, charl_var *v, const charl_type *like, int64_t inner, int64_t count)
{
    const charl_type t = charl_var_get_type(v);
    const int64_t n = charl_shape_count(&t.shape);
    const int64_t outer = inner * count > 0 ? n / (inner * count) : 0;

    if (t.batch == CHARL_BATCHED &&
        like->batch == CHARL_BATCHED) { /* rows of the operand are rows of v, even a single one */
        const int64_t rows = t.shape.dim[0];

        v = charl_reshape(g, v, (charl_shape){3, {rows, rows ? count / rows : 0, count > 0 ? n / count : inner}});
        return charl_sum(g, v, 2, false);
    }
    if (t.batch == CHARL_BATCHED && t.shape.ndim == 4 && count == t.shape.dim[1] &&
        inner == t.shape.dim[2] * t.shape.dim[3]) {
        return charl_sum_to(g, v, 1); /* reads images in either layout */
    }
    if (t.batch == CHARL_BATCHED) {
        const int64_t rows = t.shape.dim[0];

        v = charl_reshape(g, v, (charl_shape){4, {rows, rows ? outer / rows : 0, count, inner}});
        return charl_sum_to(g, v, 2);
    }
    v = charl_reshape(g, v, (charl_shape){3, {outer, count, inner}});
    return charl_sum_to(g, v, 1);
}

charl_var *charl__sum_like(charl_graph *g, charl_var *v, const charl_type *like)
{
    int64_t inner = 1, count = 1;
    bool over_batch;
    charl_type t;

    if (!v) {
        return NULL;
    }
    t = charl_var_get_type(v);
    over_batch = t.batch == CHARL_BATCHED && like->batch != CHARL_BATCHED; /* even over one row */
    if (charl_shape_equal(&t.shape, &like->shape) && !over_batch) {
        return v;
    }
    if (charl_shape_count(&t.shape) != charl_shape_count(&like->shape) || over_batch) {
        if (!charl__broadcast_index(&t.shape, &like->shape, &inner, &count)) {
            return charl__graph_fail(g, CHARL_ERR_SHAPE, "a gradient does not fit the operand that was broadcast");
        }
        v = sum_around(g, v, like, inner, count); /* f32 */
        v = charl__as_dtype(g, v, charl__gradient_dtype(like));
    }
    return charl_reshape(g, v, like->shape);
}
