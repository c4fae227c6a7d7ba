/* Every operator at every sample: device against double reference, NaN, memory guards, bits,
 * gradient.
 *
 * The table is the list of tests, so an operator without samples fails, and a new one is tested by
 * being there. Run one with `test_ops tanh`. With bf16 or f16 those that take such operands
 * run with them, at their BATCHED samples and the first of the others: each needs programs of its
 * own. With even or odd every other one runs, so that two processes share the work. With --bits the
 * program only prints a hash of all outputs of each operator: test_op_bits runs it with different
 * numbers of compute units and compares.
 */
#include "support/support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "autograd/graph.h"
#include "autograd/check/opcheck.h"
#include "base/alloc.h"
#include "base/env.h"
#include "base/hash.h"
#include "charl/ops.h"

enum { SLICES = 8, MAX_PROBES = 48 };

static charl_device *dev;
static charl_dtype half; /* of the operands that may be half-size: f32, bf16 or f16 */
static charl_slices whole;

static void free_all(void **raw)
{
    for (int k = 0; k < CHARL_OP_MAX_OUT; k++) {
        charl_free(raw[k]);
        raw[k] = NULL;
    }
}

static bool is_batched(const charl_op_case *c)
{
    for (int i = 0; i < c->n_in; i++) {
        if (c->in_type[i].batch == CHARL_BATCHED) {
            return true;
        }
    }
    return false;
}

/* Whether to take the sample; *alone: of those without rows one has been taken. */
static bool is_chosen(const charl_op_case *c, bool *alone)
{
    const bool chosen = half == CHARL_F32 || is_batched(c) || !*alone;

    *alone = *alone || !is_batched(c);
    return chosen;
}

static bool divides(const charl_op_case *c)
{
    for (int i = 0; i < c->n_in; i++) {
        if (c->in_type[i].batch == CHARL_BATCHED && c->in_type[i].shape.dim[0] % SLICES != 0) {
            return false;
        }
    }
    return is_batched(c);
}

static void check_against_reference(const charl_op_case *c, const char *what, int sample)
{
    void *raw[CHARL_OP_MAX_OUT];
    charl_op_error worst;

    charl_assert_ok(charl__op_case_run(dev, c, &whole, 0, raw));
    worst = charl__op_case_compare(c, raw);
    if (!(worst.allowed <= 1.0)) {
        fail_msg("%s, sample %d, %s: output %d[%lld] is %.9g, want %.9g: %.1f ulp, %.2f of what is "
                 "allowed",
                 c->op->name, sample, what, worst.output, (long long)worst.index, worst.got,
                 worst.want, worst.ulp, worst.allowed);
    }
    free_all(raw);
}

/* A NaN in the first element of each float input goes where the reference lets it go. */
static void check_nan(charl_op_case *c, int sample)
{
    for (int i = 0; i < c->n_in; i++) {
        const charl_dtype d = c->in_type[i].dtype;
        double saved;

        if (d > CHARL_BF16 || charl_shape_count(&c->in_type[i].shape) == 0) {
            continue;
        }
        saved = c->in[i][0];
        c->in[i][0] = (double)NAN;
        charl__op_case_reference(c);
        check_against_reference(c, "with a NaN", sample);
        c->in[i][0] = saved;
    }
    charl__op_case_reference(c);
}

static void same_bytes(const charl_op_case *c, const charl_slices *s, void *const *a,
                       void *const *b, const char *what)
{
    for (int k = 0; k < c->n_out; k++) {
        const size_t bytes = charl__op_case_bytes(c, s, k);

        for (size_t i = 0; i < bytes; i++) {
            if (((const char *)a[k])[i] != ((const char *)b[k])[i]) {
                fail_msg("%s: %s changes the bits of output %d at byte %zu of %zu", c->op->name,
                         what, k, i, bytes);
            }
        }
    }
}

static void check_offsets_and_repeats(const charl_op_case *c)
{
    static const int64_t shift[] = {0, 1, 3, 16};
    void *first[CHARL_OP_MAX_OUT], *raw[CHARL_OP_MAX_OUT];

    charl_assert_ok(charl__op_case_run(dev, c, &whole, 0, first));
    for (size_t i = 0; i < sizeof shift / sizeof shift[0]; i++) {
        charl_assert_ok(charl__op_case_run(dev, c, &whole, shift[i], raw));
        same_bytes(c, &whole, first, raw, shift[i] ? "an offset" : "a second run");
        free_all(raw);
    }
    free_all(first);
}

/* One launch over 8 slices against 8 launches over one. */
static void check_slices(const charl_op_case *c)
{
    void *all[CHARL_OP_MAX_OUT], *one[SLICES][CHARL_OP_MAX_OUT];
    charl_slices s;

    charl_assert_ok(charl_slices_block(SLICES, 0, 1, &s));
    charl_assert_ok(charl__op_case_run(dev, c, &s, 0, all));
    for (int i = 0; i < SLICES; i++) {
        charl_assert_ok(charl_slices_range(SLICES, i, 1, &s));
        charl_assert_ok(charl__op_case_run(dev, c, &s, 0, one[i]));
    }
    for (int k = 0; k < c->n_out; k++) {
        const size_t bytes = charl__op_case_bytes(c, &s, k);
        const bool partial = c->out_type[k].batch == CHARL_PARTIAL;

        if (partial) {
            float *part[SLICES];

            for (int i = 0; i < SLICES; i++) {
                part[i] = one[i][k];
            }
            charl__tree_fold(part, SLICES, (int64_t)(bytes / sizeof(float)));
        }
        for (int i = 0; i < (partial ? 1 : SLICES); i++) {
            if (memcmp((char *)all[k] + (size_t)i * bytes, one[i][k], bytes) != 0) {
                fail_msg("%s: slice %d of output %d has other bits when it runs alone", c->op->name,
                         i, k);
            }
        }
    }
    free_all(all);
    for (int i = 0; i < SLICES; i++) {
        free_all(one[i]);
    }
}

/* Slices 2, 3, 4 of 8 on one rank are two lanes: {2, 3} and {4}. */
static void check_lanes(const charl_op_case *c)
{
    void *raw[CHARL_OP_MAX_OUT], *one[3][CHARL_OP_MAX_OUT];
    charl_slices s, single;

    charl_assert_ok(charl_slices_range(SLICES, 2, 3, &s));
    assert_int_equal(s.n_lanes, 2);
    charl_assert_ok(charl__op_case_run(dev, c, &s, 0, raw));
    for (int i = 0; i < 3; i++) {
        charl_assert_ok(charl_slices_range(SLICES, 2 + i, 1, &single));
        charl_assert_ok(charl__op_case_run(dev, c, &single, 0, one[i]));
    }
    for (int k = 0; k < c->n_out; k++) {
        const size_t bytes = charl__op_case_bytes(c, &single, k);

        if (c->out_type[k].batch == CHARL_PARTIAL) {
            charl__tree_fold((float *[]){one[0][k], one[1][k]}, 2,
                             (int64_t)(bytes / sizeof(float)));
            assert_memory_equal(raw[k], one[0][k], bytes);
            assert_memory_equal((char *)raw[k] + bytes, one[2][k], bytes);
        }
    }
    free_all(raw);
    for (int i = 0; i < 3; i++) {
        free_all(one[i]);
    }
}

/* sum over outputs of the dot product of the reference with fixed weights */
static double weighted_reference(const charl_op_case *c, double *const *weight)
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

typedef struct gradient_case {
    charl_graph *g;
    charl_steps *steps; /* the same record for every run, so that random numbers repeat */
    charl_var *in[CHARL_OP_MAX_IN], *out[CHARL_OP_MAX_OUT], *weight_in[CHARL_OP_MAX_OUT];
    double *weight[CHARL_OP_MAX_OUT];
} gradient_case;

static void write_var(charl_var *v, const double *x)
{
    const charl_type t = charl_var_get_type(v);
    const int64_t n = charl_shape_count(&t.shape);
    void *raw;

    charl_assert_ok(charl_alloc_array(n, charl_dtype_size(t.dtype), &raw));
    charl__encode(t.dtype, x, n, raw);
    charl_assert_ok(
        charl_tensor_write(charl_var_get_tensor(v), raw, (size_t)n * charl_dtype_size(t.dtype)));
    charl_free(raw);
}

static void build_gradient(const charl_op_case *c, gradient_case *gc)
{
    char name[32];
    charl_var *loss = NULL;

    charl_assert_ok(charl_graph_create(dev, NULL, &gc->g));
    charl_assert_ok(charl__steps_create(dev, 4, &gc->steps));
    charl__graph_set_steps(gc->g, gc->steps);
    for (int i = 0; i < c->n_in; i++) {
        snprintf(name, sizeof name, "in%d", i);
        gc->in[i] =
            charl_input(gc->g, name, c->in_type[i].dtype, c->in_type[i].shape, c->in_type[i].batch);
        if (charl__is_float(c->in_type[i].dtype)) {
            charl_graph_require_gradient(gc->g, gc->in[i]);
        }
    }
    charl__apply(gc->g, c->op, c->sample->attr, gc->in, c->n_in, gc->out);
    charl_assert_ok(charl_graph_status(gc->g));
    for (int k = 0; k < c->n_out; k++) {
        const charl_type *t = &c->out_type[k];
        const charl_batch batch = t->batch == CHARL_PARTIAL ? CHARL_REPLICATED : t->batch;
        charl_var *term;

        charl_graph_keep(gc->g, gc->out[k]);
        if (!charl__is_float(t->dtype)) {
            continue;
        }
        snprintf(name, sizeof name, "weight%d", k);
        gc->weight_in[k] = charl_input(gc->g, name, CHARL_F32, t->shape, batch);
        term = charl_mul(gc->g, gc->weight_in[k], charl__as_dtype(gc->g, gc->out[k], CHARL_F32));
        if (t->shape.ndim > 1 && batch == CHARL_BATCHED) {
            term = charl_flatten(gc->g, term);
            term = charl_sum(gc->g, term, 1, false);
        } else {
            term = charl_reshape(gc->g, term, (charl_shape){1, {-1}});
        }
        term = charl_batch_sum(gc->g, charl_sum(gc->g, term, 0, false));
        loss = loss ? charl_add(gc->g, loss, term) : term;
    }
    charl_graph_backward(gc->g, loss, NULL);
    charl_assert_ok(charl_graph_compile(gc->g));
}

static void fill_gradient(const charl_op_case *c, gradient_case *gc)
{
    for (int i = 0; i < c->n_in; i++) {
        write_var(gc->in[i], c->in[i]);
    }
    for (int k = 0; k < c->n_out; k++) {
        const int64_t n = charl_shape_count(&c->out_type[k].shape);

        if (gc->weight_in[k]) {
            float *w;

            charl_assert_ok(charl_alloc_array(n, sizeof(double), &gc->weight[k]));
            charl_assert_ok(charl_alloc_array(n, sizeof(float), &w));
            charl_test_fill(w, n, -1.0F, 1.0F, 77U + (uint64_t)k);
            for (int64_t i = 0; i < n; i++) {
                gc->weight[k][i] = (double)w[i];
            }
            write_var(gc->weight_in[k], gc->weight[k]);
            charl_free(w);
        }
    }
}

static double difference(charl_op_case *c, double *const *weight, int i, int64_t k)
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

static void compare_gradient(charl_op_case *c, const gradient_case *gc, int i, int sample)
{
    const int64_t n = charl_shape_count(&c->in_type[i].shape);
    const int64_t stride = n > MAX_PROBES ? n / MAX_PROBES : 1;
    const charl_dtype dtype = charl__gradient_dtype(&c->in_type[i]);
    charl_var *grad = charl_var_gradient(gc->in[i]);
    double *got, scale = 1.0, relative = half == CHARL_F32 ? 2e-5 : 8.0 * charl__epsilon(half);
    void *raw;

    charl_assert_ok(charl_alloc_array(n, sizeof *got, &got));
    charl_assert_ok(charl_alloc_array(n, charl_dtype_size(dtype), &raw));
    if (grad) {
        charl_assert_ok(charl_tensor_read(charl_var_get_tensor(grad), raw,
                                          (size_t)n * charl_dtype_size(dtype)));
        charl__decode(dtype, raw, n, got);
    }
    charl_free(raw);
    for (int64_t k = 0; k < n; k++) {
        scale = fabs(got[k]) > scale ? fabs(got[k]) : scale;
    }
    for (int64_t k = 0; k < n; k += stride) {
        const double want = difference(c, gc->weight, i, k);
        const double terms = c->sample->terms > 1 ? (double)c->sample->terms : 1.0;

        if (!(fabs(got[k] - want) <= relative * scale * sqrt(sqrt(terms)))) {
            fail_msg("%s, sample %d: gradient of operand %d at %lld is %.9g, want %.9g",
                     c->op->name, sample, i, (long long)k, got[k], want);
        }
    }
    charl_free(got);
}

/* The graph must give the same bits as the direct run, and again when it is replayed. */
static void compare_graph_bits(const charl_op_case *c, const gradient_case *gc)
{
    void *raw[CHARL_OP_MAX_OUT];

    charl_assert_ok(charl__op_case_run(dev, c, &whole, 0, raw));
    for (int k = 0; k < c->n_out; k++) {
        const size_t bytes = charl__op_case_bytes(c, &whole, k);
        void *now;

        charl_assert_ok(charl_alloc(bytes, &now));
        charl_assert_ok(charl_tensor_read(charl_var_get_tensor(gc->out[k]), now, bytes));
        assert_memory_equal(raw[k], now, bytes);
        charl_free(now);
    }
    free_all(raw);
}

static void check_gradient(charl_op_case *c, int sample)
{
    const charl_step_params record = {.commit = 1, .loss_seed = 1.0F, .bias1 = 1.0F, .bias2 = 1.0F};
    gradient_case gc = {0};

    build_gradient(c, &gc);
    fill_gradient(c, &gc);
    for (int run = 0; run < 2; run++) {
        charl_assert_ok(charl__steps_push(gc.steps, &record));
        charl_assert_ok(charl_graph_run(gc.g));
        compare_graph_bits(c, &gc);
    }
    for (int i = 0; i < c->n_in; i++) {
        if (charl__is_float(c->in_type[i].dtype)) {
            compare_gradient(c, &gc, i, sample);
        }
    }
    charl__op_case_reference(c);
    for (int k = 0; k < CHARL_OP_MAX_OUT; k++) {
        charl_free(gc.weight[k]);
    }
    charl_graph_destroy(gc.g);
    charl__steps_destroy(gc.steps);
}

static void test_op(void **state)
{
    const charl_op *op = *state;
    bool sliced = false, alone = false;

    if (op->n_samples < 1) {
        fail_msg("%s declares no samples, so nothing tests it", op->name);
    }
    for (int i = 0; i < op->n_samples; i++) {
        charl_op_case c;

        if (half == CHARL_F16 && sliced && !charl__env_is_on(CHARL_ENV_TEST_LONG)) {
            break; /* what depends on the shape bf16 has shown */
        }
        charl_assert_ok(
            charl__op_case_create(op, &op->samples[i], half, charl_test_seed() + (uint64_t)i, &c));
        if (!is_chosen(&c, &alone)) {
            charl__op_case_destroy(&c);
            continue;
        }
        check_against_reference(&c, "forward", i);
        check_nan(&c, i);
        check_offsets_and_repeats(&c);
        if (divides(&c)) {
            sliced = true;
            check_slices(&c);
            check_lanes(&c);
        }
        if (op->backward && !op->samples[i].skip_gradient) {
            check_gradient(&c, i);
        }
        charl__op_case_destroy(&c);
    }
    if (!sliced) {
        fail_msg("%s has no sample with BATCHED operands of a multiple of %d rows", op->name,
                 SLICES);
    }
}

static int print_bits(void)
{

    for (int o = 0; o < charl__op_count; o++) {
        const charl_op *op = charl__op_table[o];
        uint64_t hash = 0;
        bool alone = false;

        if (half != CHARL_F32 && !op->half) {
            continue;
        }
        for (int i = 0; i < op->n_samples; i++) {
            charl_op_case c;
            void *raw[CHARL_OP_MAX_OUT] = {NULL};
            charl_status st = charl__op_case_create(op, &op->samples[i], half, 1, &c);
            const bool chosen = st == CHARL_OK && is_chosen(&c, &alone);

            if (chosen) {
                st = charl__op_case_run(dev, &c, &whole, 0, raw);
            }
            if (st != CHARL_OK) {
                fprintf(stderr, "%s\n", charl_error_message());
                return 1;
            }
            for (int k = 0; chosen && k < c.n_out; k++) {
                hash = hash * 1099511628211U ^
                       charl__fnv1a64(raw[k], charl__op_case_bytes(&c, &whole, k));
            }
            free_all(raw);
            charl__op_case_destroy(&c);
        }
        printf("%s %016llx\n", op->name, (unsigned long long)hash);
    }
    return 0;
}

/* Every `stride`-th operator from `first` on. */
static int run_table(int first, int stride)
{
    struct CMUnitTest tests[256];
    size_t n = 0;

    for (int i = first; i < charl__op_count && n < 256; i += stride) {
        const charl_op *op = charl__op_table[i];

        if (half == CHARL_F32 || op->half) {
            tests[n++] = (struct CMUnitTest){
                .name = op->name, .test_func = test_op, .initial_state = (void *)(uintptr_t)op};
        }
    }
    return charl_test_run_group("operators", tests, n, NULL, NULL);
}

int main(int argc, char **argv)
{
    const charl_device_request request = {.local_size = 1};
    int rc, first = 0, stride = 1;
    bool bits = false;
    char **arg = argv + (argc > 0);

    for (; *arg; arg++) {
        const bool odd = strcmp(*arg, "odd") == 0;

        if (odd || strcmp(*arg, "even") == 0) {
            first = odd;
            stride = 2;
        } else if (strcmp(*arg, "bf16") == 0) {
            half = CHARL_BF16;
        } else if (strcmp(*arg, "f16") == 0) {
            half = CHARL_F16;
        } else if (strcmp(*arg, "--bits") == 0) {
            bits = true;
        } else {
            break;
        }
    }
    charl_test_select(arg);
    if (charl_slices_block(1, 0, 1, &whole) != CHARL_OK ||
        charl_device_open(&request, &dev) != CHARL_OK) {
        fprintf(stderr, "skipped: %s\n", charl_error_message());
        return 77;
    }
    rc = bits ? print_bits() : run_table(first, stride);
    charl_device_close(dev);
    if (rc == 0 && charl__live() != 0) {
        fprintf(stderr, "%ld objects are still alive\n", charl__live());
        rc = 1;
    }
    return rc;
}
