/* Shape rules that many operators share. */
#include "autograd/op.h"
#include "charl/ops.h"

enum { MARGIN = 64 };

const char *charl__batch_name(charl_batch b)
{
    return b == CHARL_BATCHED ? "batched" : b == CHARL_PARTIAL ? "partial" : "replicated";
}

static bool is_half(charl_dtype d)
{
    return d == CHARL_BF16 || d == CHARL_F16;
}

static charl_status check_half(const charl__op *op, const charl__infer *inf)
{
    charl_dtype first = CHARL_DTYPE_COUNT;

    for (int i = 0; i < inf->n_in; i++) {
        const charl_dtype d = inf->in[i].dtype;
        const bool allowed = op->half >> i & 1U;

        CHARL_REQUIRE(!is_half(d) || allowed, CHARL_ERR_DTYPE, "operand %d is %s: this is not available in %s", i,
                      charl_dtype_name(d), charl_dtype_name(d));
        if (allowed && !op->mixed && charl__is_float(d)) {
            CHARL_REQUIRE(first == CHARL_DTYPE_COUNT || d == first, CHARL_ERR_DTYPE,
                          "operand %d is %s, those before it %s", i, charl_dtype_name(d), charl_dtype_name(first));
            first = d;
        }
    }
    return CHARL_OK;
}

charl_status charl__op_infer(const charl__op *op, charl__infer *inf)
{
    inf->op = op;
    inf->layout = op->layout;
    CHARL_TRY(check_half(op, inf));
    CHARL_TRY(op->infer(inf));
    return CHARL_OK;
}

charl_var *charl__as_dtype(charl_graph *g, charl_var *v, charl_dtype dtype)
{
    return !v || charl_var_get_type(v).dtype == dtype ? v : charl_cast(g, v, dtype);
}

charl_status charl__infer_rows(charl__infer *inf)
{
    charl_batch batch = CHARL_REPLICATED;
    int64_t rows = -1;

    for (int i = 0; i < inf->n_in; i++) {
        const charl_type *t = &inf->in[i];

        if (t->batch == CHARL_BATCHED) {
            CHARL_REQUIRE(rows < 0 || rows == t->shape.dim[0], CHARL_ERR_SHAPE,
                          "operands have %lld and %lld rows of the batch", (long long)rows, (long long)t->shape.dim[0]);
            rows = t->shape.dim[0];
        }
        batch = t->batch != CHARL_REPLICATED ? t->batch : batch;
    }
    for (int k = 0; k < inf->n_out; k++) {
        inf->out[k].batch = batch;
    }
    return CHARL_OK;
}

charl_status charl__infer_same_rows(const charl__infer *inf, int a, int b)
{
    const int same = inf->in[a].batch == CHARL_BATCHED ? b : a, rows = a + b - same;
    char text[CHARL_SHAPE_TEXT];

    CHARL_REQUIRE(inf->in[a].batch == inf->in[b].batch, CHARL_ERR_SHAPE,
                  "operand %d %s is the same on all ranks, but operand %d has a row for each sample of the batch", same,
                  charl_shape_format(&inf->in[same].shape, text), rows);
    return CHARL_OK;
}

charl_status charl__infer_images(const charl__infer *inf)
{
    const charl_shape *x = &inf->in[0].shape;
    char text[CHARL_SHAPE_TEXT];

    CHARL_REQUIRE(x->ndim == 4 && inf->in[0].dtype == CHARL_F32 && x->dim[2] * x->dim[3] <= INT32_MAX - MARGIN,
                  CHARL_ERR_SHAPE, "images are f32 [rows, channels, height, width], not %s %s",
                  charl_dtype_name(inf->in[0].dtype), charl_shape_format(x, text));
    return CHARL_OK;
}

charl_status charl__infer_floats(const charl__infer *inf, int first, int end)
{
    for (int i = first; i < end; i++) {
        const char *type = charl_dtype_name(inf->in[i].dtype);

        CHARL_REQUIRE(charl__is_float(inf->in[i].dtype) || inf->n_in > 1, CHARL_ERR_DTYPE,
                      "the operand is %s, not a float", type);
        CHARL_REQUIRE(charl__is_float(inf->in[i].dtype), CHARL_ERR_DTYPE, "operand %d is %s, not a float", i, type);
    }
    return CHARL_OK;
}

charl_status charl__infer_same(charl__infer *inf)
{
    CHARL_TRY(charl__infer_floats(inf, 0, 1));
    inf->out[0] = inf->in[0];
    return CHARL_OK;
}

bool charl__broadcast_index(const charl_shape *full, const charl_shape *operand, int64_t *inner, int64_t *count)
{
    const int shift = full->ndim - operand->ndim;
    int first = full->ndim, last = -1; /* extents of full that operand really has */

    if (shift < 0) {
        return false;
    }
    for (int i = 0; i < operand->ndim; i++) {
        if (operand->dim[i] != 1 && operand->dim[i] != full->dim[i + shift]) {
            return false;
        }
        if (operand->dim[i] != 1) {
            first = i + shift < first ? i + shift : first;
            last = i + shift;
        }
    }
    *inner = 1;
    *count = 1;
    for (int i = 0; i < full->ndim; i++) {
        const int64_t extent = full->dim[i];

        if (i >= first && i <= last) {
            if (operand->dim[i - shift] != extent) {
                return false; /* a gap, as in [B, 1, W] against [B, H, W] */
            }
            *count *= extent;
        } else if (i > last && last >= 0) {
            *inner *= extent;
        }
    }
    return true;
}

bool charl__broadcast_in(bool channels_last, const charl_shape *full, const charl_shape *operand, int64_t *inner,
                         int64_t *count)
{
    const int axis = operand->ndim - 3; /* C of [C, H, W] and [N, C, H, W] */

    if (!channels_last) {
        return charl__broadcast_index(full, operand, inner, count);
    }
    *inner = 1;
    *count = charl_shape_count(operand);
    return *count == 1 || charl_shape_equal(full, operand) ||
           (axis >= 0 && operand->dim[axis] == full->dim[1] && *count == full->dim[1]);
}

/* A REPLICATED operand has no rows of its own: its leading extent must not be the batch. */
static bool runs_along_batch(const charl_shape *full, const charl_type *t)
{
    return t->batch == CHARL_REPLICATED && t->shape.ndim == full->ndim && t->shape.dim[0] != 1;
}

/* Whether s broadcasts to `full`: also [C] to the [1, C] of a rank with one sample. */
static bool is_less(const charl_shape *s, const charl_shape *full)
{
    return charl_shape_count(s) < charl_shape_count(full) || s->ndim < full->ndim;
}

/* Whether an operand with a row for each of `full` broadcasts to it for any number of rows: a single row hides the gap of [1, 1, W] against
 * [1, H, W]. */
static bool fits_more_rows(const charl_shape *full, const charl_shape *operand)
{
    charl_shape f = *full, o = *operand;
    int64_t inner, count;

    f.dim[0] = o.dim[0] = 2;
    return charl__broadcast_index(&f, &o, &inner, &count);
}

charl_status charl__infer_broadcast_rows(const charl__infer *inf, int full, int i)
{
    const charl_type *t = &inf->in[i];
    const charl_shape *f = &inf->out[0].shape;
    char text[CHARL_SHAPE_TEXT], whole[CHARL_SHAPE_TEXT];

    CHARL_REQUIRE(inf->out[0].batch != CHARL_BATCHED || !runs_along_batch(f, t), CHARL_ERR_SHAPE,
                  "operand %d %s has a leading extent along the batch but is the same on all ranks", i,
                  charl_shape_format(&t->shape, text));
    CHARL_REQUIRE(t->batch != CHARL_BATCHED || (t->shape.ndim == f->ndim && inf->in[full].batch == CHARL_BATCHED),
                  CHARL_ERR_SHAPE, "operand %d %s would move the batch extent", i, charl_shape_format(&t->shape, text));
    CHARL_REQUIRE(t->batch != CHARL_BATCHED || fits_more_rows(f, &t->shape), CHARL_ERR_SHAPE,
                  "shapes %s and %s do not broadcast", charl_shape_format(f, whole),
                  charl_shape_format(&t->shape, text));
    return CHARL_OK;
}

charl_status charl__infer_broadcast(charl__infer *inf)
{
    int full = 0;
    char a[CHARL_SHAPE_TEXT], b[CHARL_SHAPE_TEXT];

    CHARL_TRY(charl__infer_floats(inf, 0, inf->n_in));
    for (int i = 0; i < inf->n_in; i++) {
        const charl_shape *s = &inf->in[i].shape, *f = &inf->in[full].shape;

        if (charl_shape_count(s) > charl_shape_count(f) ||
            (charl_shape_count(s) == charl_shape_count(f) && s->ndim > f->ndim)) {
            full = i;
        }
    }
    inf->out[0] = inf->in[full];
    CHARL_TRY(charl__infer_rows(inf));
    for (int i = 0; i < inf->n_in; i++) {
        const charl_shape *f = &inf->out[0].shape;
        const charl_dtype d = inf->in[i].dtype;
        int64_t inner, count;

        CHARL_REQUIRE(d == inf->out[0].dtype || (d == CHARL_F32 && is_less(&inf->in[i].shape, f)), CHARL_ERR_DTYPE,
                      "operands are %s and %s", charl_dtype_name(inf->out[0].dtype), charl_dtype_name(d));
        CHARL_REQUIRE(charl__broadcast_index(f, &inf->in[i].shape, &inner, &count), CHARL_ERR_SHAPE,
                      "shapes %s and %s do not broadcast", charl_shape_format(f, a),
                      charl_shape_format(&inf->in[i].shape, b));
        CHARL_TRY(charl__infer_broadcast_rows(inf, full, i));
    }
    return CHARL_OK;
}

void charl__reference_clear(const charl__reference *r, int k)
{
    for (int64_t i = 0; i < charl_shape_count(&r->out_type[k].shape); i++) {
        r->out[k][i] = 0;
    }
}
