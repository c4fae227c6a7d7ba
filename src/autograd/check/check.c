/* All checks of an operator, at all its samples (charl_operator_check).
 *
 *     forward      device against reference; a NaN in each operand; guards around all memory
 *     bits         at other offsets, a second time, slice by slice, in lanes, in a graph, replayed
 *     gradient     the graph's against central differences of the reference
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "autograd/check/opcheck.h"
#include "autograd/graph.h"
#include "base/alloc.h"
#include "base/env.h"
#include "base/numeric/hash.h"
#include "base/numeric/rng.h"
#include "base/options.h"
#include "charl/ops.h"

enum { SLICES = 8, PROBES = 48, SHORT_PROBES = 6, N_SHIFTS = 4 };

/** A sample that is being checked. */
typedef struct checking {
    charl_device *dev;
    charl_dtype precision;
    int sample;
    charl_slices whole;
    charl__op_case c;
    const charl_operator_check_options *options;
    charl_operator_report *report; /* for this sample */
    charl__sha256 sha;             /* over the outputs so far */
} checking;

typedef struct outputs {
    void *raw[CHARL_OP_MAX_OUT];
} outputs;

static void outputs_fini(outputs *o)
{
    for (int k = 0; k < CHARL_OP_MAX_OUT; k++) {
        charl_free(o->raw[k]);
        o->raw[k] = NULL;
    }
}

static bool is_batched(const charl__op_case *c)
{
    for (int i = 0; i < c->n_in; i++) {
        if (c->in_type[i].batch == CHARL_BATCHED) {
            return true;
        }
    }
    return false;
}

static bool divides(const charl__op_case *c)
{
    for (int i = 0; i < c->n_in; i++) {
        if (c->in_type[i].batch == CHARL_BATCHED && c->in_type[i].shape.dim[0] % SLICES != 0) {
            return false;
        }
    }
    return is_batched(c);
}

bool charl__op_check_includes(const charl__op_case *c, charl_dtype precision, bool *alone)
{
    const bool supports = precision == CHARL_F32 || is_batched(c) || !*alone;

    *alone = *alone || !is_batched(c);
    return supports;
}

/* Devices differ in the sign and the digits of a NaN. */
static void hash_output(checking *t, int k, const void *raw)
{
    const size_t bytes = charl__op_case_bytes(&t->c, &t->whole, k);
    const charl_dtype dtype = t->c.out_type[k].dtype;
    const size_t size = charl_dtype_size(dtype);
    const char *at = raw;

    if (!charl__is_float(dtype)) {
        charl__sha256_update(&t->sha, raw, bytes);
        return;
    }
    for (size_t i = 0; i < bytes; i += size) {
        const float nan = (float)NAN;
        double value;

        charl_dtype_decode(dtype, at + i, 1, &value);
        charl__sha256_update(&t->sha, isnan(value) ? (const char *)&nan : at + i, size);
    }
}

static charl_status check_forward(checking *t, const char *what, bool hashes)
{
    CHARL_SCOPED(outputs_fini) outputs o = {{NULL}};
    charl__op_error worst;

    CHARL_TRY(charl__op_case_run(t->dev, &t->c, &t->whole, 0, o.raw));
    for (int k = 0; k < t->c.n_out && hashes; k++) {
        hash_output(t, k, o.raw[k]);
    }
    worst = charl__op_case_compare(&t->c, o.raw);
    t->report->ulp = fmax(t->report->ulp, worst.ulp);
    t->report->used = fmax(t->report->used, worst.allowed);
    CHARL_REQUIRE(worst.allowed <= 1.0, CHARL_ERR_INVALID,
                  "%s: output %d[%lld] is %.9g, the reference says %.9g: %.1f ulp, %.2f times what is "
                  "allowed",
                  what, worst.output, (long long)worst.index, worst.got, worst.want, worst.ulp, worst.allowed);
    return CHARL_OK;
}

/* A NaN in the first element of each float operand must reach exactly the outputs that it reaches in the reference. */
static charl_status check_nan(checking *t)
{
    charl__op_case *c = &t->c;

    for (int i = 0; i < c->n_in; i++) {
        charl_status st = CHARL_OK;
        double saved;

        if (!charl__is_float(c->in_type[i].dtype) || charl_shape_count(&c->in_type[i].shape) == 0) {
            continue;
        }
        saved = c->in[i][0];
        c->in[i][0] = (double)NAN;
        charl__op_case_reference(c);
        st = check_forward(t, "with a NaN", false);
        c->in[i][0] = saved;
        charl__op_case_reference(c);
        CHARL_TRY(st);
    }
    return CHARL_OK;
}

static charl_status same_bytes(const charl__op_case *c, const charl_slices *s, const outputs *a, const outputs *b,
                               const char *what)
{
    for (int k = 0; k < c->n_out; k++) {
        const size_t bytes = charl__op_case_bytes(c, s, k);

        for (size_t i = 0; i < bytes; i++) {
            CHARL_REQUIRE(((const char *)a->raw[k])[i] == ((const char *)b->raw[k])[i], CHARL_ERR_INVALID,
                          "%s changes the bits of output %d at byte %zu of %zu", what, k, i, bytes);
        }
    }
    return CHARL_OK;
}

static const int64_t shift[N_SHIFTS] = {3, 0, 1, 16};

/* n: number of shifts to try. */
static charl_status check_offsets_and_repeats(checking *t, int n)
{
    charl_status st = CHARL_OK;
    outputs first = {{NULL}}, now = {{NULL}};

    CHARL_TRY_CLEANUP(charl__op_case_run(t->dev, &t->c, &t->whole, 0, first.raw));
    for (int i = 0; i < n; i++) {
        CHARL_TRY_CLEANUP(charl__op_case_run(t->dev, &t->c, &t->whole, shift[i], now.raw));
        CHARL_TRY_CLEANUP(
            same_bytes(&t->c, &t->whole, &first, &now, shift[i] ? "an offset in memory" : "a second run"));
        outputs_fini(&now);
    }
cleanup:
    outputs_fini(&first);
    outputs_fini(&now);
    return st;
}

/* Slices [first, first + count) of SLICES, each by itself, in one[]. */
static charl_status run_slices(checking *t, int first, int n, outputs *one)
{
    charl_slices s;

    for (int i = 0; i < n; i++) {
        CHARL_TRY(charl_slices_range(SLICES, first + i, 1, &s));
        CHARL_TRY(charl__op_case_run(t->dev, &t->c, &s, 0, one[i].raw));
    }
    return CHARL_OK;
}

/* Fold output k of slices one[0 .. n) into their lane, in one[0]. */
static void fold(outputs *one, int n, int k, size_t bytes)
{
    float *part[SLICES];

    for (int i = 0; i < n; i++) {
        part[i] = one[i].raw[k];
    }
    charl__tree_fold(part, n, (int64_t)(bytes / sizeof(float)));
}

/* One launch over 8 slices against 8 launches over one. */
static charl_status check_slices(checking *t)
{
    charl_status st = CHARL_OK;
    outputs all = {{NULL}}, one[SLICES] = {{{NULL}}};
    charl_slices s;

    CHARL_TRY_CLEANUP(charl_slices_block(SLICES, 0, 1, &s));
    CHARL_TRY_CLEANUP(charl__op_case_run(t->dev, &t->c, &s, 0, all.raw));
    CHARL_TRY_CLEANUP(run_slices(t, 0, SLICES, one));
    CHARL_TRY_CLEANUP(charl_slices_range(SLICES, 0, 1, &s));
    for (int k = 0; k < t->c.n_out; k++) {
        const size_t bytes = charl__op_case_bytes(&t->c, &s, k);
        const bool partial = t->c.out_type[k].batch == CHARL_PARTIAL;

        if (partial) {
            fold(one, SLICES, k, bytes);
        }
        for (int i = 0; i < (partial ? 1 : SLICES); i++) {
            CHARL_REQUIRE_CLEANUP(memcmp((char *)all.raw[k] + (size_t)i * bytes, one[i].raw[k], bytes) == 0,
                                  CHARL_ERR_INVALID, "slice %d of output %d has other bits when it is computed alone",
                                  i, k);
        }
    }
cleanup:
    outputs_fini(&all);
    for (int i = 0; i < SLICES; i++) {
        outputs_fini(&one[i]);
    }
    return st;
}

/* Slices 2, 3, 4 of 8 on one rank are two lanes: {2, 3} and {4}. */
static charl_status check_lanes(checking *t)
{
    charl_status st = CHARL_OK;
    outputs all = {{NULL}}, one[3] = {{{NULL}}};
    charl_slices s, single;

    CHARL_TRY_CLEANUP(charl_slices_range(SLICES, 2, 3, &s));
    CHARL_INVARIANT(s.n_lanes == 2);
    CHARL_TRY_CLEANUP(charl__op_case_run(t->dev, &t->c, &s, 0, all.raw));
    CHARL_TRY_CLEANUP(run_slices(t, 2, 3, one));
    CHARL_TRY_CLEANUP(charl_slices_range(SLICES, 2, 1, &single));
    for (int k = 0; k < t->c.n_out; k++) {
        const size_t bytes = charl__op_case_bytes(&t->c, &single, k);

        if (t->c.out_type[k].batch == CHARL_PARTIAL) {
            fold(one, 2, k, bytes);
            CHARL_REQUIRE_CLEANUP(memcmp(all.raw[k], one[0].raw[k], bytes) == 0 &&
                                      memcmp((char *)all.raw[k] + bytes, one[2].raw[k], bytes) == 0,
                                  CHARL_ERR_INVALID, "the lanes of output %d differ from the sums of their slices", k);
        }
    }
cleanup:
    outputs_fini(&all);
    for (int i = 0; i < 3; i++) {
        outputs_fini(&one[i]);
    }
    return st;
}

/* sum over outputs of the dot product of the reference with fixed weights */
static double weighted_reference(const charl__op_case *c, double *const *weight)
{
    double sum = 0.0;

    charl__op_case_reference(c);
    for (int k = 0; k < c->n_out; k++) {
        for (int64_t i = 0; weight[k] && i < charl_shape_count(&c->out_type[k].shape); i++) {
            sum += weight[k][i] * c->want[k][i];
        }
    }
    return sum;
}

/* The operator in a graph whose loss is the weighted sum of its outputs. */
typedef struct gradient_case {
    charl_graph *g;
    charl_steps *steps; /* the same record for every run, so that random numbers repeat */
    charl_var *in[CHARL_OP_MAX_IN], *out[CHARL_OP_MAX_OUT], *weight_in[CHARL_OP_MAX_OUT];
    double *weight[CHARL_OP_MAX_OUT];
} gradient_case;

static void gradient_case_fini(gradient_case *gc)
{
    for (int k = 0; k < CHARL_OP_MAX_OUT; k++) {
        charl_free(gc->weight[k]);
    }
    charl_graph_destroy(gc->g);
    charl__steps_destroy(gc->steps);
}

static charl_status write_var(charl_var *v, const double *x)
{
    const charl_type type = charl_var_get_type(v);
    const int64_t n = charl_shape_count(&type.shape);
    const size_t size = charl_dtype_size(type.dtype);
    CHARL_SCOPED_FREE void *raw = NULL;

    CHARL_TRY(charl__alloc_array(n, size, &raw));
    charl_dtype_encode(type.dtype, x, n, raw);
    CHARL_TRY(charl_tensor_write(charl_var_get_tensor(v), raw, (size_t)n * size));
    return CHARL_OK;
}

/* weight * output k, summed over everything. */
static charl_var *loss_term(const charl__op_case *c, gradient_case *gc, int k)
{
    const charl_type *type = &c->out_type[k];
    const charl_batch batch = type->batch == CHARL_PARTIAL ? CHARL_REPLICATED : type->batch;
    charl_var *term;
    char name[32];

    snprintf(name, sizeof name, "weight%d", k);
    gc->weight_in[k] = charl_input(gc->g, name, CHARL_F32, type->shape, batch);
    term = charl_mul(gc->g, gc->weight_in[k], charl__as_dtype(gc->g, gc->out[k], CHARL_F32));
    if (type->shape.ndim > 1 && batch == CHARL_BATCHED) {
        term = charl_sum(gc->g, charl_flatten(gc->g, term), 1, false);
    } else {
        term = charl_reshape(gc->g, term, (charl_shape){1, {-1}});
    }
    return charl_batch_sum(gc->g, charl_sum(gc->g, term, 0, false));
}

static charl_status build_gradient(checking *t, gradient_case *gc)
{
    const charl__op_case *c = &t->c;
    charl_var *loss = NULL;
    char name[32];

    CHARL_TRY(charl_graph_create(t->dev, NULL, &gc->g));
    CHARL_TRY(charl__steps_create(t->dev, 4, &gc->steps));
    charl_graph_set_steps(gc->g, gc->steps);
    for (int i = 0; i < c->n_in; i++) {
        snprintf(name, sizeof name, "in%d", i);
        gc->in[i] = charl_input(gc->g, name, c->in_type[i].dtype, c->in_type[i].shape, c->in_type[i].batch);
        if (charl__is_float(c->in_type[i].dtype)) {
            charl_graph_require_gradient(gc->g, gc->in[i]);
        }
    }
    charl__apply(gc->g, c->op, c->sample->attr, gc->in, c->n_in, gc->out);
    CHARL_TRY(charl_graph_status(gc->g));
    for (int k = 0; k < c->n_out; k++) {
        charl_graph_keep(gc->g, gc->out[k]);
        if (charl__is_float(c->out_type[k].dtype)) {
            charl_var *term = loss_term(c, gc, k);

            loss = loss ? charl_add(gc->g, loss, term) : term;
        }
    }
    charl_graph_backward(gc->g, loss, NULL);
    CHARL_TRY(charl_graph_compile(gc->g));
    return CHARL_OK;
}

static charl_status fill_gradient(const charl__op_case *c, gradient_case *gc)
{
    for (int i = 0; i < c->n_in; i++) {
        CHARL_TRY(write_var(gc->in[i], c->in[i]));
    }
    for (int k = 0; k < c->n_out; k++) {
        const int64_t n = charl_shape_count(&c->out_type[k].shape);
        const charl__rng rng = charl__rng_key(77U + (uint64_t)k, 0, 0);

        if (gc->weight_in[k]) {
            CHARL_TRY(charl__alloc_array(n, sizeof(double), &gc->weight[k]));
            for (int64_t i = 0; i < n; i++) {
                gc->weight[k][i] = (double)(2.0F * charl__rng_uniform(&rng, (uint64_t)i) - 1.0F);
            }
            CHARL_TRY(write_var(gc->weight_in[k], gc->weight[k]));
        }
    }
    return CHARL_OK;
}

static double difference(charl__op_case *c, double *const *weight, int i, int64_t k)
{
    const double h = 1e-6, x = c->in[i][k];
    double up, down;

    c->in[i][k] = x + h;
    up = weighted_reference(c, weight);
    c->in[i][k] = x - h;
    down = weighted_reference(c, weight);
    c->in[i][k] = x;
    return (up - down) / (2.0 * h);
}

static charl_status compare_gradient(checking *t, const gradient_case *gc, int i)
{
    charl__op_case *c = &t->c;
    const int64_t n = charl_shape_count(&c->in_type[i].shape);
    const int64_t probes = charl__env_is_on(CHARL_ENV_TEST_SHORT) ? SHORT_PROBES : PROBES;
    const int64_t stride = (n + probes - 1) / probes;
    const charl_dtype dtype = charl__gradient_dtype(&c->in_type[i]);
    const double relative = t->precision == CHARL_F32 ? 2e-5 : 8.0 * charl__epsilon(t->precision);
    const double terms = c->sample->terms > 1 ? (double)c->sample->terms : 1.0;
    charl_var *grad = charl_var_get_gradient(gc->in[i]);
    CHARL_SCOPED_FREE double *got = NULL;
    double scale = 1.0;
    CHARL_SCOPED_FREE void *raw = NULL;

    CHARL_TRY(charl__alloc_array(n, sizeof *got, &got));
    CHARL_TRY(charl__alloc_array(n, charl_dtype_size(dtype), &raw));
    if (grad) {
        CHARL_TRY(charl_tensor_read(charl_var_get_tensor(grad), raw, (size_t)n * charl_dtype_size(dtype)));
        charl_dtype_decode(dtype, raw, n, got);
    }
    for (int64_t k = 0; k < n; k++) {
        scale = fabs(got[k]) > scale ? fabs(got[k]) : scale;
    }
    for (int64_t k = 0; k < n; k += stride) {
        const double want = difference(c, gc->weight, i, k);

        CHARL_REQUIRE(fabs(got[k] - want) <= relative * scale * sqrt(sqrt(terms)), CHARL_ERR_INVALID,
                      "the gradient of operand %d at %lld is %.9g, differences of the reference say %.9g", i,
                      (long long)k, got[k], want);
    }
    return CHARL_OK;
}

/* The graph must give the same bits as the direct run. */
static charl_status compare_graph_bits(checking *t, const gradient_case *gc)
{
    charl_status st = CHARL_OK;
    outputs direct = {{NULL}}, graph = {{NULL}};

    CHARL_TRY_CLEANUP(charl__op_case_run(t->dev, &t->c, &t->whole, 0, direct.raw));
    for (int k = 0; k < t->c.n_out; k++) {
        const size_t bytes = charl__op_case_bytes(&t->c, &t->whole, k);

        CHARL_TRY_CLEANUP(charl__alloc(bytes, &graph.raw[k]));
        CHARL_TRY_CLEANUP(charl_tensor_read(charl_var_get_tensor(gc->out[k]), graph.raw[k], bytes));
    }
    CHARL_TRY_CLEANUP(same_bytes(&t->c, &t->whole, &direct, &graph, "a graph"));
cleanup:
    outputs_fini(&direct);
    outputs_fini(&graph);
    return st;
}

/* Run the graph twice: the second run replays the launches over the results of the first. */
static charl_status check_gradient(checking *t)
{
    const charl__step_params record = {.commit = 1, .loss_seed = 1.0F, .bias1 = 1.0F, .bias2 = 1.0F};
    charl_status st = CHARL_OK;
    gradient_case gc = {0};

    CHARL_TRY_CLEANUP(build_gradient(t, &gc));
    CHARL_TRY_CLEANUP(fill_gradient(&t->c, &gc));
    for (int run = 0; run < 2; run++) {
        CHARL_TRY_CLEANUP(charl__steps_push(gc.steps, &record));
        CHARL_TRY_CLEANUP(charl_graph_run(gc.g));
        CHARL_TRY_CLEANUP(compare_graph_bits(t, &gc));
    }
    for (int i = 0; i < t->c.n_in; i++) {
        if (charl__is_float(t->c.in_type[i].dtype)) {
            CHARL_TRY_CLEANUP(compare_gradient(t, &gc, i));
        }
    }
    t->report->gradients++;
cleanup:
    charl__op_case_reference(&t->c);
    gradient_case_fini(&gc);
    return st;
}

/* *sliced: whether its rows can be divided into slices. */
static charl_status check_sample(checking *t, bool *sliced)
{
    const charl__op *op = t->c.op;

    CHARL_TRY(check_forward(t, "forward", true));
    t->report->samples++;
    if (t->options->outputs_only) {
        return check_offsets_and_repeats(t, 1);
    }
    CHARL_TRY(check_nan(t));
    CHARL_TRY(check_offsets_and_repeats(t, N_SHIFTS));
    if (divides(&t->c)) {
        *sliced = true;
        CHARL_TRY(check_slices(t));
        CHARL_TRY(check_lanes(t));
    }
    if (op->backward && !t->c.sample->skip_gradient) {
        CHARL_TRY(check_gradient(t));
    }
    return CHARL_OK;
}

static void add_report(charl_operator_report *all, const charl_operator_report *one)
{
    all->samples += one->samples;
    all->gradients += one->gradients;
    all->ulp = fmax(all->ulp, one->ulp);
    all->used = fmax(all->used, one->used);
}

static bool supports(const charl__op *op, charl_dtype precision)
{
    return precision == CHARL_F32 || (op->half && (precision == CHARL_BF16 || precision == CHARL_F16));
}

bool charl_operator_takes(const char *name, charl_dtype precision)
{
    if (!name) {
        return false;
    }
    const charl__op *op = charl__op_find(name);

    return op && supports(op, precision);
}

static charl_status check_all(charl_device *dev, const charl__op *op, const charl_operator_check_options *o,
                              charl_operator_report *report)
{
    checking t = {.dev = dev, .precision = o->precision, .options = o};
    bool sliced = false, alone = false;

    unsigned char digest[CHARL__SHA256_BYTES];

    charl__sha256_init(&t.sha);
    CHARL_TRY(charl_slices_block(1, 0, 1, &t.whole));
    CHARL_REQUIRE(op->n_samples >= 1, CHARL_ERR_INVALID, "%s declares no samples, so nothing can be checked", op->name);
    CHARL_REQUIRE(supports(op, o->precision), CHARL_ERR_INVALID, "%s does not take %s", op->name,
                  charl_dtype_name(o->precision));
    for (t.sample = 0; t.sample < op->n_samples && !(o->brief && sliced); t.sample++) {
        charl_operator_report one = {0};
        charl_status st =
            charl__op_case_create(op, &op->samples[t.sample], o->precision, o->seed + (uint64_t)t.sample, &t.c);

        t.report = &one;
        if (st == CHARL_OK && charl__op_check_includes(&t.c, o->precision, &alone)) {
            st = check_sample(&t, &sliced);
        }
        charl__op_case_destroy(&t.c);
        add_report(report, &one);
        if (st != CHARL_OK) {
            charl__error_prefix("%s, sample %d: ", op->name, t.sample);
            return st;
        }
        if (o->passed && one.samples > 0) {
            o->passed(o->ctx, t.sample, one.ulp, one.used);
        }
    }
    CHARL_REQUIRE(sliced || o->outputs_only, CHARL_ERR_INVALID,
                  "%s has no sample with BATCHED operands of a multiple of %d rows", op->name, SLICES);
    charl__sha256_final(&t.sha, digest);
    charl__sha256_format(digest, report->hash);
    return CHARL_OK;
}

charl_status charl_operator_check(charl_device *dev, const char *name, const charl_operator_check_options *options,
                                  charl_operator_report *report)
{
    CHARL_GIVEN(dev, name);
    CHARL__OPTIONS(charl_operator_check_options, options);
    const charl_operator_check_options o =
        options ? *options : (charl_operator_check_options){sizeof(charl_operator_check_options), .seed = 1};
    charl_operator_report own = {0};
    const charl__op *op = charl__op_find(name);
    charl_status st;

    CHARL_REQUIRE(op, CHARL_ERR_INVALID, "there is no operator %s", name);
    st = check_all(dev, op, &o, &own);
    if (report) {
        *report = own;
    }
    return st;
}

/* Compile all programs that the operators need, many at once. A failure is reported when its operator is checked. */
static void want_all(charl_device *dev, charl_dtype precision, uint64_t seed)
{
    const char *name;
    charl_slices whole;
    charl_status st = charl_slices_block(1, 0, 1, &whole);

    if (st != CHARL_OK || !charl__launches_want_begin(dev)) {
        return;
    }
    for (int i = 0; st == CHARL_OK && (name = charl_operator_name(i)) != NULL; i++) {
        const charl__op *op = charl__op_find(name);

        for (int k = 0; k < op->n_samples && supports(op, precision); k++) {
            charl__op_case c = {0};
            outputs o = {{NULL}};

            st = charl__op_case_create(op, &op->samples[k], precision, seed + (uint64_t)k, &c);
            for (int run = 0; run < 2 && st == CHARL_OK; run++) {
                st = charl__op_case_run(dev, &c, &whole, run * shift[0], o.raw);
                outputs_fini(&o);
            }
            charl__op_case_destroy(&c);
            st = st == CHARL_ERR_NOMEM ? st : CHARL_OK;
        }
    }
    charl_error_clear();
    charl__launches_want_end(dev);
}

charl_status charl_operator_hash(charl_device *dev, charl_dtype precision, uint64_t seed,
                                 void (*each)(void *ctx, const char *name, const char *hash), void *ctx, char hash[65])
{
    CHARL_GIVEN(dev, hash);
    const charl_operator_check_options o = {sizeof o, .precision = precision, .seed = seed, .outputs_only = true};
    unsigned char digest[CHARL__SHA256_BYTES];
    charl_status failure = CHARL_OK;
    char why[1024] = "";
    charl__sha256 sha;
    const char *name;

    hash[0] = '\0';
    CHARL_REQUIRE(charl__is_float(precision), CHARL_ERR_DTYPE, "operators compute in f32, bf16 or f16, not in %s",
                  charl_dtype_name(precision));
    want_all(dev, precision, seed);
    charl__sha256_init(&sha);
    for (int i = 0; (name = charl_operator_name(i)) != NULL; i++) {
        charl_operator_report report;
        charl_status st;
        char line[256];

        if (!charl_operator_takes(name, precision)) {
            continue;
        }
        st = charl_operator_check(dev, name, &o, &report);
        if (st != CHARL_OK && failure == CHARL_OK) {
            failure = st;
            snprintf(why, sizeof why, "%s", charl_error_message());
        }
        if (st != CHARL_OK && st != CHARL_ERR_INVALID && st != CHARL_ERR_KERNEL) {
            return st; /* the device has failed, or memory is full */
        }
        charl__sha256_update(&sha, line, (size_t)snprintf(line, sizeof line, "%.128s %s\n", name, report.hash));
        if (each) {
            each(ctx, name, report.hash);
        }
    }
    CHARL_REQUIRE(failure == CHARL_OK, failure, "%s", why);
    charl__sha256_final(&sha, digest);
    charl__sha256_format(digest, hash);
    return CHARL_OK;
}
