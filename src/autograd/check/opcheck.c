/* One operator at one sample: inputs, reference, guarded run, comparison.
 *
 * Every tensor of a run is a separate allocation with GUARD elements of poison on both sides;
 * outputs and workspace start poisoned too, so that an element that was never written cannot pass by chance.
 */
#include "autograd/check/opcheck.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/numeric/hash.h"
#include "base/numeric/rng.h"

enum { GUARD = 64, POISON = 0xA5 };

static double draw(const charl__op_sample *s, charl_dtype dtype, const charl__rng *rng, uint64_t *i)
{
    const bool given = s->lo != 0.0 || s->hi != 0.0;
    const double lo = given ? s->lo : -3.0, hi = given ? s->hi : 3.0;
    double x;

    if (!charl__is_float(dtype)) {
        return (double)s->int_begin +
               floor((double)charl__rng_uniform(rng, (*i)++) * (double)((s->int_end ? s->int_end : 2) - s->int_begin));
    }
    do {
        x = lo + (hi - lo) * (double)charl__rng_uniform(rng, (*i)++);
    } while (fabs(x) < s->away);
    return x;
}

static charl_status draw_inputs(charl__op_case *c, uint64_t seed)
{
    const charl__rng rng = charl__rng_key(seed, 0, charl__fnv1a64_string(c->op->name));
    uint64_t position = 0;
    CHARL_SCOPED_FREE void *raw = NULL;

    for (int i = 0; i < c->n_in; i++) {
        const charl_type *t = &c->in_type[i];
        const int64_t n = charl_shape_count(&t->shape);

        CHARL_TRY(charl__alloc_array(n, sizeof(double), &c->in[i]));
        for (int64_t k = 0; k < n; k++) {
            c->in[i][k] = draw(c->sample, t->dtype, &rng, &position);
        }
        CHARL_TRY(charl__alloc_array(n, charl_dtype_size(t->dtype), &raw));
        charl_dtype_encode(t->dtype, c->in[i], n, raw);
        charl_dtype_decode(t->dtype, raw, n, c->in[i]);
        charl_free(raw);
        raw = NULL;
    }
    return CHARL_OK;
}

void charl__op_case_reference(const charl__op_case *c)
{
    static const charl__step_params step = {.commit = 1, .loss_seed = 1.0F, .bias1 = 1.0F, .bias2 = 1.0F};
    const charl__reference r = {.attr = c->sample->attr,
                                .n_in = c->n_in,
                                .n_out = c->n_out,
                                .in = (const double *const *)c->in,
                                .in_type = c->in_type,
                                .out = (double *const *)c->want,
                                .out_type = c->out_type,
                                .step = &step};

    charl__op_reference(c->op, &r);
}

charl_status charl__op_case_create(const charl__op *op, const charl__op_sample *sample, charl_dtype half, uint64_t seed,
                                   charl__op_case *c)
{
    charl__infer inf = {.attr = sample->attr, .in = c->in_type, .n_slices = 1, .n_out = 1};

    *c = (charl__op_case){.op = op, .sample = sample};
    c->n_in = sample->n_in ? sample->n_in : op->n_in;
    memcpy(c->in_type, sample->in, sizeof c->in_type);
    for (int i = 0; i < c->n_in; i++) {
        if (op->half >> i & 1U && c->in_type[i].dtype == CHARL_F32) {
            c->in_type[i].dtype = half;
        }
    }
    CHARL_REQUIRE((op->reference || op->element) && c->n_in >= 0, CHARL_ERR_INVALID, "%s has no reference", op->name);
    inf.n_in = c->n_in;
    CHARL_TRY(draw_inputs(c, seed));
    CHARL_TRY(charl__op_infer(op, &inf));
    c->layout = inf.layout;
    c->n_out = inf.n_out;
    memcpy(c->out_type, inf.out, sizeof c->out_type);
    for (int k = 0; k < c->n_out; k++) {
        CHARL_TRY(charl__alloc_array(charl_shape_count(&c->out_type[k].shape), sizeof(double), &c->want[k]));
    }
    charl__op_case_reference(c);
    return CHARL_OK;
}

void charl__op_case_destroy(charl__op_case *c)
{
    for (int i = 0; i < CHARL_OP_MAX_IN; i++) {
        charl_free(c->in[i]);
        c->in[i] = NULL;
    }
    for (int k = 0; k < CHARL_OP_MAX_OUT; k++) {
        charl_free(c->want[k]);
        c->want[k] = NULL;
    }
}

/* Rows [first, first + count) of `total` slices. */
static charl_type part_of(charl_type t, const charl_slices *s)
{
    if (t.batch == CHARL_BATCHED) {
        t.shape.dim[0] = t.shape.dim[0] / s->total * s->count;
    }
    return t;
}

size_t charl__op_case_bytes(const charl__op_case *c, const charl_slices *slices, int k)
{
    const charl_type t = part_of(c->out_type[k], slices);
    const size_t n = (size_t)charl_shape_count(&t.shape) * charl_dtype_size(t.dtype);

    return t.batch == CHARL_PARTIAL ? n * (size_t)slices->n_lanes : n;
}

/* A tensor of `lanes` times the type's elements between guards; *image receives the expected contents of
 * its memory. */
typedef struct guarded {
    charl__buffer *buffer;
    charl_tensor *tensor;
    unsigned char *image;
    size_t bytes, at, payload;
} guarded;

static void guarded_fini(guarded *v)
{
    charl_tensor_release(v->tensor);
    charl__buffer_release(v->buffer);
    charl_free(v->image);
    *v = (guarded){0};
}

static charl_status guarded_init(charl_device *dev, const charl_type *t, int lanes, int64_t shift, guarded *v)
{
    const size_t size = charl_dtype_size(t->dtype);

    v->payload = (size_t)charl_shape_count(&t->shape) * size * (size_t)lanes;
    v->at = (size_t)(GUARD + shift) * size;
    v->bytes = v->at + v->payload + GUARD * size;
    CHARL_TRY(charl__alloc(v->bytes, &v->image));
    memset(v->image, POISON, v->bytes);
    CHARL_TRY(charl__buffer_create(dev, v->bytes, "operator check", &v->buffer));
    CHARL_TRY(charl__tensor_view(v->buffer, t->dtype, &t->shape, GUARD + shift, &v->tensor));
    return CHARL_OK;
}

static charl_status upload(guarded *v)
{
    return charl__buffer_write(CHARL_QUEUE_COMPUTE, v->buffer, 0, v->image, v->bytes, true);
}

/* Read back. Everything outside the payload, or all of it if `whole`, must be unchanged. */
static charl_status check_guards(const charl__op *op, guarded *v, bool whole, void *payload)
{
    CHARL_SCOPED_FREE unsigned char *now = NULL;
    const size_t end = v->at + v->payload;

    CHARL_TRY(charl__alloc(v->bytes, &now));
    CHARL_TRY(charl__buffer_read(CHARL_QUEUE_COMPUTE, v->buffer, 0, now, v->bytes, true));
    CHARL_REQUIRE(memcmp(now, v->image, v->at) == 0 && memcmp(now + end, v->image + end, v->bytes - end) == 0,
                  CHARL_ERR_INVALID, "%s wrote outside its tensors", op->name);
    CHARL_REQUIRE(!whole || memcmp(now + v->at, v->image + v->at, v->payload) == 0, CHARL_ERR_INVALID,
                  "%s changed an input", op->name);
    if (payload) {
        memcpy(payload, now + v->at, v->payload);
    }
    return CHARL_OK;
}

/* Operands and outputs that this case stores channels-last, for an operator that supports it. */
static bool is_last(const charl__op_case *c, const charl_type *t, charl__op_layout keeps)
{
    return c->channels_last && c->layout != keeps && t->shape.ndim == 4 && t->batch == CHARL_BATCHED;
}

/* Elements [N, C, H, W] to channels-last, or back. */
static charl_status reorder(const charl_type *t, bool to_last, unsigned char *elements)
{
    const int64_t n = charl_shape_count(&t->shape), channels = t->shape.dim[1];
    const int64_t pixels = t->shape.dim[2] * t->shape.dim[3];
    const size_t size = charl_dtype_size(t->dtype);
    CHARL_SCOPED_FREE unsigned char *copy = NULL;

    CHARL_TRY(charl__alloc_array(n, size, &copy));
    memcpy(copy, elements, (size_t)n * size);
    for (int64_t i = 0; i < n; i++) {
        const int64_t sample = i / (channels * pixels), c = i / pixels % channels, p = i % pixels;
        const size_t row_major = (size_t)i * size;
        const size_t last = (size_t)((sample * pixels + p) * channels + c) * size;

        memcpy(elements + (to_last ? last : row_major), copy + (to_last ? row_major : last), size);
    }
    return CHARL_OK;
}

typedef struct op_run {
    guarded in[CHARL_OP_MAX_IN], out[CHARL_OP_MAX_OUT], workspace, step;
} op_run;

static void op_run_fini(op_run *r)
{
    for (int i = 0; i < CHARL_OP_MAX_IN; i++) {
        guarded_fini(&r->in[i]);
    }
    for (int k = 0; k < CHARL_OP_MAX_OUT; k++) {
        guarded_fini(&r->out[k]);
    }
    guarded_fini(&r->workspace);
    guarded_fini(&r->step);
}

static charl_status set_up_inputs(charl_device *dev, const charl__op_case *c, const charl_slices *s, int64_t shift,
                                  op_run *r, charl_type *type)
{
    for (int i = 0; i < c->n_in; i++) {
        const int64_t n = charl_shape_count(&c->in_type[i].shape);
        int64_t first = 0;

        type[i] = part_of(c->in_type[i], s);
        if (type[i].batch == CHARL_BATCHED) {
            first = n / s->total * s->first;
        }
        CHARL_TRY(guarded_init(dev, &type[i], 1, shift, &r->in[i]));
        charl_dtype_encode(type[i].dtype, c->in[i] + first, charl_shape_count(&type[i].shape),
                           r->in[i].image + r->in[i].at);
        if (is_last(c, &type[i], CHARL_LAYOUT_TO_LAST)) {
            CHARL_TRY(reorder(&type[i], true, r->in[i].image + r->in[i].at));
            r->in[i].tensor->channels_last = true;
        }
        CHARL_TRY(upload(&r->in[i]));
    }
    return CHARL_OK;
}

static charl_status set_up_outputs(charl_device *dev, const charl__infer *inf, const charl_slices *s, int64_t shift,
                                   op_run *r)
{
    const charl_type words = {CHARL_F32, {1, {(inf->workspace + 3) / 4}}, CHARL_REPLICATED};
    const charl_type record = {CHARL_U32, {1, {CHARL_STEP_WORDS}}, CHARL_REPLICATED};
    const charl__step_params step = {.commit = 1, .loss_seed = 1.0F, .bias1 = 1.0F, .bias2 = 1.0F};

    for (int k = 0; k < inf->n_out; k++) {
        const int lanes = inf->out[k].batch == CHARL_PARTIAL ? s->n_lanes : 1;

        CHARL_TRY(guarded_init(dev, &inf->out[k], lanes, shift, &r->out[k]));
        CHARL_TRY(upload(&r->out[k]));
    }
    CHARL_TRY(guarded_init(dev, &words, 1, 0, &r->workspace));
    CHARL_TRY(upload(&r->workspace));
    CHARL_TRY(guarded_init(dev, &record, 1, 0, &r->step));
    memcpy(r->step.image + r->step.at, &step, sizeof step);
    CHARL_TRY(upload(&r->step));
    return CHARL_OK;
}

static charl_status enqueue(charl_device *dev, const charl__op_case *c, const charl__infer *inf, const charl_slices *s,
                            op_run *r)
{
    charl_tensor *in[CHARL_OP_MAX_IN] = {0}, *out[CHARL_OP_MAX_OUT] = {0};
    charl__enqueue e = {.dev = dev,
                        .label = c->op->name,
                        .attr = c->sample->attr,
                        .n_in = c->n_in,
                        .n_out = inf->n_out,
                        .in = in,
                        .out = out,
                        .slices = s,
                        .step = r->step.tensor};

    for (int i = 0; i < c->n_in; i++) {
        in[i] = r->in[i].tensor;
    }
    for (int k = 0; k < inf->n_out; k++) {
        out[k] = r->out[k].tensor;
        e.lane_stride[k] = inf->out[k].batch == CHARL_PARTIAL ? charl__tensor_count(out[k]) : 0;
    }
    e.workspace = inf->workspace > 0 ? r->workspace.tensor : NULL;
    if (c->op->view) {
        return charl_tensor_copy(in[0], out[0]);
    }
    return charl__op_enqueue(c->op, &e);
}

charl_status charl__op_case_run(charl_device *dev, const charl__op_case *c, const charl_slices *slices, int64_t shift,
                                void **raw)
{
    charl_status st = CHARL_OK;
    charl_type type[CHARL_OP_MAX_IN];
    charl__infer inf = {.attr = c->sample->attr,
                        .n_in = c->n_in,
                        .in = type,
                        .n_slices = slices->count,
                        .dev = dev,
                        .channels_last = c->channels_last,
                        .n_out = 1};
    op_run r = {0};

    memset(raw, 0, CHARL_OP_MAX_OUT * sizeof *raw);
    CHARL_TRY_CLEANUP(set_up_inputs(dev, c, slices, shift, &r, type));
    CHARL_TRY_CLEANUP(charl__op_infer(c->op, &inf));
    CHARL_TRY_CLEANUP(set_up_outputs(dev, &inf, slices, shift, &r));
    for (int k = 0; k < inf.n_out; k++) {
        r.out[k].tensor->channels_last = is_last(c, &inf.out[k], CHARL_LAYOUT_FROM_LAST);
    }
    CHARL_TRY_CLEANUP(enqueue(dev, c, &inf, slices, &r));
    for (int k = 0; k < inf.n_out; k++) {
        CHARL_TRY_CLEANUP(charl__alloc(r.out[k].payload, &raw[k]));
        CHARL_TRY_CLEANUP(check_guards(c->op, &r.out[k], false, raw[k]));
        if (is_last(c, &inf.out[k], CHARL_LAYOUT_FROM_LAST)) {
            CHARL_TRY_CLEANUP(reorder(&inf.out[k], false, raw[k]));
        }
    }
    for (int i = 0; i < c->n_in; i++) {
        CHARL_TRY_CLEANUP(check_guards(c->op, &r.in[i], !c->op->effect, NULL));
    }
    CHARL_TRY_CLEANUP(check_guards(c->op, &r.workspace, false, NULL));
cleanup:
    op_run_fini(&r);
    if (st != CHARL_OK) {
        for (int k = 0; k < CHARL_OP_MAX_OUT; k++) {
            charl_free(raw[k]);
            raw[k] = NULL;
        }
    }
    return st;
}

double charl__epsilon(charl_dtype d)
{
    return d == CHARL_BF16 ? 0x1p-8 : d == CHARL_F16 ? 0x1p-11 : 0x1p-24;
}

static double ulp_of(charl_dtype d, double x)
{
    const double least = d == CHARL_F16 ? 0x1p-14 : (double)FLT_MIN; /* smallest normal number */
    int exponent;

    if (!charl__is_float(d)) {
        return 1.0;
    }
    frexp(fabs(x) > least ? x : least, &exponent);
    return ldexp(2.0 * charl__epsilon(d), exponent - 1);
}

/* Same NaN, same infinity: no error. A NaN or infinity on one side only: an infinite error. */
static double deviation(double got, double want)
{
    if (isnan(got) || isnan(want) || isinf(got) || isinf(want)) {
        return (isnan(got) && isnan(want)) || got == want ? 0.0 : (double)INFINITY;
    }
    return fabs(got - want);
}

/* `want` rounded to the output's type if that overflows to infinity, else `want`. */
static double overflow(charl_dtype d, double want)
{
    unsigned char raw[8];
    double rounded;

    charl_dtype_encode(d, &want, 1, raw);
    charl_dtype_decode(d, raw, 1, &rounded);
    return isinf(rounded) ? rounded : want;
}

/* One function evaluation: a few ulp, or one in half types, whose arithmetic is f32. A sum of n
 * terms: sqrt(n) roundings at the scale of the largest output. */
static double allowance(const charl__op_case *c, int k, double want, double scale)
{
    const charl__op_sample *s = c->sample;
    const charl_dtype d = c->out_type[k].dtype;
    const double few = d != CHARL_F32 ? 1.0 : s->ulp > 0 ? s->ulp : 4.0;
    const double narrowed = c->op->narrows && d != CHARL_F32 ? 2.0 * charl__epsilon(d) * scale : 0.0;
    const double ulp = few * ulp_of(d, want) + narrowed;

    if (!charl__is_float(d)) {
        return 0.0;
    }
    return s->terms > 1 ? ulp + 8.0 * sqrt((double)s->terms) * charl__epsilon(CHARL_F32) * scale : ulp;
}

charl__op_error charl__op_case_compare(const charl__op_case *c, void *const *raw)
{
    charl__op_error worst = {0};

    for (int k = 0; k < c->n_out; k++) {
        const charl_type *t = &c->out_type[k];
        const int64_t n = charl_shape_count(&t->shape);
        const size_t size = charl_dtype_size(t->dtype);
        double scale = 1.0;

        for (int64_t i = 0; i < n; i++) {
            scale = isfinite(c->want[k][i]) && fabs(c->want[k][i]) > scale ? fabs(c->want[k][i]) : scale;
        }
        for (int64_t i = 0; i < n; i++) {
            const double want = c->want[k][i];
            double got, off, used;

            charl_dtype_decode(t->dtype, (const char *)raw[k] + (size_t)i * size, 1, &got);
            off = deviation(got, charl__is_float(t->dtype) ? overflow(t->dtype, want) : want);
            used = off == 0.0 ? 0.0 : off / allowance(c, k, want, scale);
            if (used > worst.allowed) {
                worst = (charl__op_error){off / ulp_of(t->dtype, want), used, k, i, got, want};
            }
        }
    }
    return worst;
}
