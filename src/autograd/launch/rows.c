/* Launching row kernels, and sums in as many launches as their length needs. */
#include "autograd/launch/rows.h"

#include <limits.h>
#include <stdio.h>

#include "autograd/launch/map.h"

/* The same values as in kernels/reduce/reduce.cl and rows.clh. */
enum { ROW_CHUNK = 4096, COLUMN_CHUNK = 256, ROW_GROUP = 256, VEC = 16 };
/* Columns of a work-group of a fold, if there are fewer than MANY_COLUMNS. */
enum { FOLD_COLUMNS = 16, FOLD_ACCS = 4, FOLD_LEAVES = 8, MANY_COLUMNS = 1 << 17 };

static int64_t at_least_one(int64_t x)
{
    return x < 1 ? 1 : x;
}

bool charl__rows_have_one_item(const charl_device *dev)
{
    return charl__is_ungrouped(dev) || charl_device_get_info(dev)->max_group < ROW_GROUP;
}

int charl__rows_width(int64_t n)
{
    int width = VEC;

    while (width < n && width < ROW_GROUP) {
        width *= 2;
    }
    return width;
}

charl_status charl__rows_launch(const charl_device *dev, int64_t rows, int64_t n, charl__launch *l, int64_t *per_item)
{
    const bool one_item = charl__rows_have_one_item(dev);
    const int width = charl__rows_width(n);

    CHARL_REQUIRE(n <= INT_MAX / 2, CHARL_ERR_SHAPE, "a row of %lld elements is too long", (long long)n);
    if (one_item) {
        *per_item = at_least_one(charl__span(dev, rows * at_least_one(n), 1) / at_least_one(n));
        l->local[0] = 1;
        l->global[0] = (size_t)charl__ceil_div(rows, *per_item);
        charl__launch_set(l, "CHARL_VEC", VEC);
        if (width > VEC) { /* otherwise the default, so that one program is enough */
            charl__launch_set(l, "CHARL_ROW_ACCS", width / VEC);
        }
    } else {
        const int items = width / CHARL_GPU_VEC;

        *per_item = 1;
        l->local[0] = ROW_GROUP;
        l->global[0] = (size_t)(charl__ceil_div(rows, ROW_GROUP / items) * ROW_GROUP);
        charl__launch_set(l, "CHARL_VEC", CHARL_GPU_VEC);
        charl__launch_set(l, "CHARL_ROW_ITEMS", items);
    }
    return CHARL_OK;
}

void charl__rows_spread(const charl_device *dev, charl__launch *l)
{
    const size_t least = charl__device_facts_get(dev)->nvidia.ptx ? 32 : 64; /* work-items that run together */
    const size_t units = (size_t)charl_device_get_info(dev)->compute_units;

    if (charl__rows_have_one_item(dev)) {
        return;
    }
    while (l->local[0] > least && l->global[0] / l->local[0] < units) {
        l->local[0] /= 2;
    }
    if (l->local[0] < ROW_GROUP) {
        charl__launch_set(l, "CHARL_ROW_GROUP", (int)l->local[0]);
    }
}

charl__arg charl__scratch_arg(charl__arg_kind kind, const charl_tensor *workspace, int64_t offset)
{
    charl__arg a = charl__raw(kind, workspace->buffer);

    a.v.offset = workspace->offset + offset;
    return a;
}

bool charl__is_partial(const charl__enqueue *e, int k)
{
    return e->lane_stride[k] > 0;
}

int charl__axis(const charl_shape *s, int axis)
{
    axis = axis < 0 ? axis + s->ndim : axis;
    return axis >= 0 && axis < s->ndim ? axis : -1;
}

charl_shape charl__shape_reduced(const charl_shape *s, int axis, bool keep)
{
    charl_shape out = {.ndim = 0};

    for (int i = 0; i < s->ndim; i++) {
        if (i != axis || keep) {
            out.dim[out.ndim++] = i == axis ? 1 : s->dim[i];
        }
    }
    return out;
}

charl_shape charl__shape_expanded(const charl_shape *s, int axis, int64_t n)
{
    charl_shape out = {.ndim = s->ndim + 1};

    for (int i = 0; i < out.ndim; i++) {
        out.dim[i] = i == axis ? n : s->dim[i - (i > axis)];
    }
    return out;
}

void charl__split_axis(const charl_shape *s, int axis, int64_t *outer, int64_t *n, int64_t *inner)
{
    *outer = 1;
    *inner = 1;
    *n = s->dim[axis];
    for (int i = 0; i < s->ndim; i++) {
        *outer *= i < axis ? s->dim[i] : 1;
        *inner *= i > axis ? s->dim[i] : 1;
    }
}

void charl__split_axis_of(const charl_tensor *t, int axis, int64_t *outer, int64_t *n, int64_t *inner)
{
    static const int place[] = {0, 3, 1, 2}; /* positions of the extents of [N, C, H, W] in [N, H, W, C] */
    charl_shape s = t->shape;

    if (t->channels_last) {
        for (int i = 0; i < 4; i++) {
            s.dim[place[i]] = t->shape.dim[i];
        }
        axis = place[axis];
    }
    charl__split_axis(&s, axis, outer, n, inner);
}

bool charl__is_rows_of(const charl_shape *rows, const charl_shape *x)
{
    charl_shape front = *x;

    front.ndim--;
    return x->ndim >= 2 && charl_shape_equal(rows, &front);
}

static int64_t chunks_of(int64_t n, int64_t inner)
{
    return at_least_one(charl__ceil_div(n, inner == 1 ? ROW_CHUNK : COLUMN_CHUNK));
}

int64_t charl__reduce_scratch(int64_t outer, int64_t n, int64_t inner)
{
    int64_t floats = 0;

    for (n = chunks_of(n, inner); n > 1; n = chunks_of(n, inner)) {
        floats += outer * n * inner;
    }
    return floats;
}

/* The operands, their types and EXPR. */
static int add_operands(const charl_reduce *r, charl__launch *l)
{
    int a = 0;

    charl__launch_set(l, "N_IN", r->n_in);
    charl__launch_set_text(l, "EXPR(a, b, p, q)", r->expr ? r->expr : "a");
    charl__launch_set_text(l, "A_T", charl__kernel_type(r->a_type));
    charl__launch_set_text(l, "B_T", charl__kernel_type(r->b_type));

    l->args[a++] = r->a;
    if (r->n_in > 1) {
        l->args[a++] = r->b;
    }
    l->args[a++] = r->out;
    return a;
}

static charl_status launch_rows(const charl__enqueue *e, const charl_reduce *r, int64_t chunks)
{
    charl__launch l = {.file = "reduce/reduce", .entry = "charl_reduce_rows", .label = e->label};
    int a = add_operands(r, &l);
    int64_t per_item;

    CHARL_TRY(charl__rows_launch(e->dev, r->outer * chunks, r->n < ROW_CHUNK ? r->n : ROW_CHUNK, &l, &per_item));
    charl__rows_spread(e->dev, &l);
    l.args[a++] = charl__i64(r->outer * chunks);
    l.args[a++] = charl__i64(per_item);
    l.args[a++] = charl__i64(r->n);
    l.args[a++] = charl__i64(chunks);
    l.args[a++] = charl__f32(r->scale);
    l.args[a++] = charl__f32(r->p);
    l.args[a++] = charl__f32(r->q);
    CHARL_TRY(charl__launch_enqueue(e->dev, &l));
    return CHARL_OK;
}

static charl_status launch_columns(const charl__enqueue *e, const charl_reduce *r, int64_t chunks)
{
    const bool cpu = charl__is_ungrouped(e->dev);
    const int64_t height = at_least_one(r->n < COLUMN_CHUNK ? r->n : COLUMN_CHUNK);
    const int64_t wide = at_least_one(4096 / height / VEC) * VEC; /* columns with a few thousand elements */
    const int64_t span = cpu ? wide : 1;
    charl__launch l = {.file = "reduce/reduce",
                       .entry = "charl_reduce_columns",
                       .label = e->label,
                       .params = {{"CHARL_VEC", cpu ? VEC : 1}}};
    int a = add_operands(r, &l);

    l.args[a++] = charl__i64(r->outer);
    l.args[a++] = charl__i64(r->n);
    l.args[a++] = charl__i64(r->inner);
    l.args[a++] = charl__i64(chunks);
    l.args[a++] = charl__i64(span);
    l.args[a++] = charl__f32(r->scale);
    l.args[a++] = charl__f32(r->p);
    l.args[a++] = charl__f32(r->q);
    charl__span_launch(e->dev, r->outer * chunks * charl__ceil_div(r->inner, span), 1, &l);
    return charl__launch_enqueue(e->dev, &l);
}

charl_status charl__reduce_sum(const charl__enqueue *e, const charl_reduce *r)
{
    charl_reduce level = *r;
    int64_t scratch = r->scratch;

    if (r->outer * r->inner == 0) {
        return CHARL_OK;
    }
    for (bool last = false; !last;) {
        const int64_t chunks = chunks_of(level.n, r->inner);

        last = chunks == 1;
        level.out = last ? r->out : charl__scratch_arg(CHARL_ARG_OUT, e->workspace, scratch);
        level.scale = last ? r->scale : 1.0F;
        CHARL_TRY(r->inner == 1 ? launch_rows(e, &level, chunks) : launch_columns(e, &level, chunks));
        level.a = level.out;
        level.a.kind = CHARL_ARG_IN;
        level.n_in = 1;
        level.a_type = level.b_type = CHARL_F32;
        level.expr = NULL;
        level.n = chunks;
        scratch += r->outer * chunks * r->inner;
    }
    return CHARL_OK;
}

/* Distribute the columns of a fold, `width` of each output, over work-items. If there are few, leaves and
 * the accumulators of a leaf are processed in parallel; otherwise, and on devices without work-groups, a
 * work-item processes whole columns. */
static void shape_fold(const charl__enqueue *e, const charl_reduce *r, int leaves, charl__launch *l)
{
    const bool cpu = charl__is_ungrouped(e->dev);
    const int vec = cpu ? VEC : CHARL_GPU_VEC, accs = FOLD_COLUMNS * FOLD_ACCS;
    const int max = charl_device_get_info(e->dev)->max_group / accs;
    const int side = max < FOLD_LEAVES ? max : FOLD_LEAVES;
    const int64_t width = r->inner / r->outputs,
                  wide = cpu ? at_least_one(4096 / at_least_one(r->n * leaves) / VEC) * VEC : vec;

    if (cpu || side == 0 || width >= MANY_COLUMNS) {
        charl__launch_set(l, "CHARL_VEC", vec);
        charl__span_launch(e->dev, r->outputs * charl__ceil_div(width, wide), 1, l);
    } else {
        charl__launch_set(l, "CHARL_VEC", 1);
        charl__launch_set(l, "FOLD_COLUMNS", FOLD_COLUMNS);
        charl__launch_set(l, "FOLD_LEAVES", side);
        l->local[0] = (size_t)(accs * side);
        l->global[0] = (size_t)(r->outputs * charl__ceil_div(width, FOLD_COLUMNS)) * l->local[0];
    }
    charl__launch_add(l, charl__i64(width));
    charl__launch_add(l, charl__i64(wide));
}

/* Lane j of the outputs from k on: `leaves` leaves, starting at number `first`. */
static charl_status launch_fold(const charl__enqueue *e, const charl_reduce *r, int k, int j, int first, int leaves)
{
    const bool rounds = e->rounds[k] && !charl__fold_is_direct(e);
    const int64_t skipped = first * r->n * r->inner;
    charl__launch l = {.file = "reduce/reduce_slices",
                       .label = e->label,
                       .params = {{"LEAVES", CHARL_GRAPH_SLICES}, {"OUTPUTS", r->outputs}}};
    charl_reduce at = *r;
    int64_t per_item;

    CHARL_INVARIANT(r->outputs == 1 || e->rounds[k] == e->rounds[k + 1]);
    if (rounds) {
        charl__launch_set(&l, "ROUND", 0);
    }
    at.a.v.offset += skipped;
    at.b.v.offset += skipped;
    at.a.count = at.b.count = 0;
    at.out = charl__lane_out(e, k, j);
    add_operands(&at, &l);
    if (r->outputs > 1) {
        charl__launch_add(&l, charl__lane_out(e, k + 1, j));
    }
    charl__launch_add(&l, charl__i32(leaves));
    charl__launch_add(&l, charl__i64(r->n));
    if (r->inner == 1) {
        CHARL_TRY(charl__rows_launch(e->dev, 1, r->n, &l, &per_item));
        l.entry = "charl_fold_rows";
        l.global[0] = l.local[0];
    } else {
        l.entry = "charl_fold_columns";
        shape_fold(e, r, leaves, &l);
    }
    charl__launch_add(&l, charl__f32(r->scale));
    charl__launch_add(&l, charl__f32(r->p));
    charl__launch_add(&l, charl__f32(r->q));
    CHARL_TRY(charl__launch_enqueue(e->dev, &l));
    return CHARL_OK;
}

charl_status charl__reduce_slices(const charl__enqueue *e, const charl_reduce *r, int k)
{
    const bool partial = charl__is_partial(e, k);
    charl_reduce sums = *r;

    sums.outputs = r->outputs < 1 ? 1 : r->outputs;
    if (chunks_of(r->n, r->inner) == 1) {
        for (int j = 0; j < (partial ? e->slices->n_lanes : 1) && r->inner > 0; j++) {
            const int lo = partial ? e->slices->lane_lo[j] : 0, hi = partial ? e->slices->lane_hi[j] : 1;

            CHARL_TRY(launch_fold(e, &sums, k, j, partial ? lo - e->slices->first : 0, hi - lo));
        }
        return CHARL_OK;
    }
    CHARL_INVARIANT(partial && sums.outputs == 1);
    sums.out = charl__fold_is_direct(e) ? charl__out(e->out[k]) : charl__scratch_arg(CHARL_ARG_OUT, e->workspace, 0);
    CHARL_TRY(charl__reduce_sum(e, &sums));
    CHARL_TRY(charl__fold(e, charl__fold_target(e, k), r->inner, k));
    return CHARL_OK;
}
