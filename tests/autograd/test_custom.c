/* Operators that a program registers: an expression with settings, kernels with a sum over the batch; and a check
 * that finds what is wrong with one.
 */
#include "support/on_device.h"

#include <math.h>
#include <string.h>

#include "charl/charl.h"

static charl_device *dev;

enum { COLUMNS = 3 };

/* out = p * x + q, whose settings are p and q. */
static double affine_of(const void *attr, const double *x)
{
    const float *n = attr;

    return (double)n[0] * x[0] + (double)n[1];
}

static void affine_backward(const charl_operator_gradient *b)
{
    b->gin[0] = charl_scale(b->g, b->gout[0], ((const float *)b->attr)[0], 0.0F);
}

static const float numbers[2] = {1.5F, -0.25F};
static const charl_operator_sample affine_samples[] = {
    {.in = {{CHARL_F32, {2, {16, 7}}, CHARL_BATCHED}}, .lo = -2, .hi = 2, .attr = numbers},
    {.in = {{CHARL_F32, {1, {5}}, CHARL_REPLICATED}}, .lo = -2, .hi = 2, .attr = numbers}};
static const charl_operator affine = {.name = "test_affine",
                                      .formula = "out = p * x + q",
                                      .n_in = 1,
                                      .attr_size = sizeof numbers,
                                      .expr = "p * a + q",
                                      .element = affine_of,
                                      .backward = affine_backward,
                                      .samples = affine_samples,
                                      .n_samples = 2};

/* out[c] = sum over rows of x[r, c]: PARTIAL. FAULT adds one to it. */
static const char column_sums_source[] =
    "kernel void sums(global const float *x, ulong x_at, global float *out, ulong out_at, int "
    "rows, int columns)\n"
    "{\n"
    "    const int slice = get_global_id(0) / columns, c = get_global_id(0) % columns;\n"
    "    float sum = FAULT;\n"
    "    for (int r = 0; r < rows; r++) {\n"
    "        sum += x[x_at + (slice * rows + r) * columns + c];\n"
    "    }\n"
    "    out[out_at + get_global_id(0)] = sum;\n"
    "}\n";

static charl_status column_sums_types(charl_operator_types *t)
{
    if (t->in[0].shape.ndim != 2 || t->in[0].batch != CHARL_BATCHED) {
        return charl_fail(CHARL_ERR_SHAPE, "it takes rows of the batch, not %d extents", t->in[0].shape.ndim);
    }
    t->out[0] = (charl_type){CHARL_F32, {1, {t->in[0].shape.dim[1]}}, CHARL_PARTIAL};
    t->workspace_bytes = t->n_slices * t->in[0].shape.dim[1] * (int64_t)sizeof(float);
    return CHARL_OK;
}

static charl_status sums(const charl_operator_run *r, const char *defines)
{
    const charl_shape *x = charl_tensor_get_shape(r->in[0]);
    const charl_kernel k = {.entry = "sums",
                            .defines = defines,
                            .global = {(size_t)(r->n_slices * x->dim[1])},
                            .args = {{CHARL_KERNEL_IN, 0},
                                     {CHARL_KERNEL_SLICES, 0},
                                     {CHARL_KERNEL_INT, x->dim[0] / r->n_slices},
                                     {CHARL_KERNEL_INT, x->dim[1]}}};
    const charl_status st = charl_operator_launch(r, &k);

    return st == CHARL_OK ? charl_operator_fold(r, 0) : st;
}

static charl_status column_sums_run(const charl_operator_run *r)
{
    return sums(r, "#define FAULT 0.0f\n");
}

static charl_status faulty_run(const charl_operator_run *r)
{
    return sums(r, "#define FAULT 1e-3f\n");
}

static charl_status broken_run(const charl_operator_run *r)
{
    return charl_operator_launch(
        r, &(charl_kernel){.entry = "no_such_kernel", .defines = "#define FAULT 0.0f\n", .global = {1}});
}

/* d out[c] / d x[r, c] = 1. */
static void column_sums_backward(const charl_operator_gradient *b)
{
    charl_var *zero = charl_scale(b->g, b->in[0], 0.0F, 0.0F);

    b->gin[0] = charl_add(b->g, zero, b->gout[0]);
}

static void half_backward(const charl_operator_gradient *b)
{
    charl_var *zero = charl_scale(b->g, b->in[0], 0.0F, 0.0F);

    b->gin[0] = charl_add(b->g, zero, charl_scale(b->g, b->gout[0], 0.5F, 0.0F));
}

static void column_sums_reference(const charl_operator_reference *r)
{
    const int64_t rows = r->in_type[0].shape.dim[0], columns = r->in_type[0].shape.dim[1];

    for (int64_t c = 0; c < columns; c++) {
        r->out[0][c] = 0.0;
        for (int64_t i = 0; i < rows; i++) {
            r->out[0][c] += r->in[0][i * columns + c];
        }
    }
}

static const charl_operator_sample column_sums_samples[] = {
    {.in = {{CHARL_F32, {2, {16, COLUMNS}}, CHARL_BATCHED}}, .lo = -1, .hi = 1, .terms = 16}};

#define COLUMN_SUMS(word, run_, backward_)                                                                             \
    {                                                                                                                  \
        .name = (word), .formula = "out[c] = sum over r of x[r, c]", .n_in = 1, .source = column_sums_source,          \
        .types = column_sums_types, .run = (run_), .backward = (backward_), .reference = column_sums_reference,        \
        .samples = column_sums_samples, .n_samples = 1                                                                 \
    }

static const charl_operator column_sums = COLUMN_SUMS("test_column_sums", column_sums_run, column_sums_backward);
static const charl_operator faulty = COLUMN_SUMS("test_faulty", faulty_run, column_sums_backward);
static const charl_operator wrong_gradient = COLUMN_SUMS("test_wrong_gradient", column_sums_run, half_backward);
static const charl_operator broken = COLUMN_SUMS("test_broken", broken_run, NULL);

static void test_expression(void **state)
{
    charl_operator_report report;

    (void)state;
    charl_assert_ok(charl_register_operator(&affine));
    charl_assert_ok(charl_register_operator(&affine));
    charl_assert_ok(charl_operator_check(dev, "test_affine", NULL, &report));
    assert_int_equal(report.samples, 2);
    assert_int_equal(report.gradients, 2);
    assert_true(report.used <= 1.0);
    charl_assert_ok(charl_operator_check(
        dev, "test_affine",
        &(charl_operator_check_options){sizeof(charl_operator_check_options), .precision = CHARL_BF16}, NULL));
}

static void test_sum_over_the_batch(void **state)
{
    (void)state;
    charl_assert_ok(charl_register_operator(&column_sums));
    charl_assert_ok(charl_operator_check(dev, "test_column_sums", NULL, NULL));
    charl_assert_status(charl_operator_check(dev, "test_column_sums",
                                             &(charl_operator_check_options){sizeof(charl_operator_check_options),
                                                                             .precision = CHARL_BF16},
                                             NULL),
                        CHARL_ERR_INVALID);
}

static void test_what_is_wrong_is_found(void **state)
{
    (void)state;
    charl_assert_ok(charl_register_operator(&faulty));
    charl_assert_status(charl_operator_check(dev, "test_faulty", NULL, NULL), CHARL_ERR_INVALID);
    charl_assert_message("test_faulty, sample 0: forward: output 0");
    charl_assert_ok(charl_register_operator(&wrong_gradient));
    charl_assert_status(charl_operator_check(dev, "test_wrong_gradient", NULL, NULL), CHARL_ERR_INVALID);
    charl_assert_message("the gradient of operand 0");
    charl_assert_ok(charl_register_operator(&broken));
    charl_assert_status(charl_operator_check(dev, "test_broken", NULL, NULL), CHARL_ERR_KERNEL);
    charl_assert_message("no_such_kernel");
    charl_assert_status(charl_operator_check(dev, "no_such", NULL, NULL), CHARL_ERR_INVALID);
}

static void test_in_a_graph(void **state)
{
    charl_graph *g;
    charl_var *x, *y, *outs[CHARL_OPERATOR_MAX_OUT];
    float in[8 * COLUMNS], out[8 * COLUMNS];
    bool listed = false;

    (void)state;
    charl_assert_ok(charl_graph_create(dev, NULL, &g));
    x = charl_input(g, "x", CHARL_F32, (charl_shape){2, {8, COLUMNS}}, CHARL_BATCHED);
    y = charl_operator_apply(g, &affine, numbers, &x, 1, outs);
    assert_ptr_equal(y, outs[0]);
    assert_null(outs[1]);
    y = charl_relu(g, y);
    charl_graph_keep(g, y);
    charl_assert_ok(charl_graph_compile(g));
    assert_int_equal(charl_graph_get_info(g).launches, 1); /* fused */
    charl_test_fill(in, 8 * COLUMNS, -1, 1, 3);
    charl_assert_ok(charl_tensor_write(charl_var_get_tensor(x), in, sizeof in));
    charl_assert_ok(charl_graph_run(g));
    charl_assert_ok(charl_tensor_read(charl_var_get_tensor(y), out, sizeof out));
    for (int i = 0; i < 8 * COLUMNS; i++) {
        assert_true(fabsf(out[i] - fmaxf(1.5F * in[i] - 0.25F, 0)) < 1e-6F);
    }
    charl_graph_destroy(g);
    for (int i = 0; charl_operator_name(i); i++) {
        listed = listed || strcmp(charl_operator_name(i), "test_affine") == 0;
    }
    assert_true(listed);
}

/* Kernels that would write where there is nothing. */
static void launch_refused(const charl_operator *op, const char *message)
{
    charl_slices slices;
    charl_graph *g;
    charl_var *x;

    charl_assert_ok(charl_register_operator(op));
    charl_assert_ok(charl_slices_block(8, 0, 1, &slices));
    charl_assert_ok(charl_graph_create(dev, &slices, &g));
    x = charl_input(g, "x", CHARL_F32, (charl_shape){2, {16, COLUMNS}}, CHARL_BATCHED);
    charl_graph_keep(g, charl_operator_apply(g, op, NULL, &x, 1, NULL));
    charl_assert_status(charl_graph_compile(g), CHARL_ERR_INVALID);
    charl_assert_message(message);
    charl_graph_destroy(g);
}

static charl_status no_workspace_types(charl_operator_types *t)
{
    CHARL_TRY(column_sums_types(t));
    t->workspace_bytes = 0;
    return CHARL_OK;
}

static void test_sums_per_slice_without_a_place(void **state)
{
    static const charl_operator of_rows = {.name = "test_sums_of_rows",
                                           .formula = "out = x",
                                           .n_in = 1,
                                           .source = column_sums_source,
                                           .run = column_sums_run,
                                           .reference = column_sums_reference};
    static const charl_operator without_workspace = {.name = "test_no_workspace",
                                                     .formula = "out = x",
                                                     .n_in = 1,
                                                     .source = column_sums_source,
                                                     .types = no_workspace_types,
                                                     .run = column_sums_run,
                                                     .reference = column_sums_reference};

    (void)state;
    launch_refused(&of_rows, "test_sums_of_rows, kernel sums, argument 1: output 0 is not PARTIAL");
    launch_refused(&without_workspace,
                   "test_no_workspace, kernel sums, argument 1: its shape rule requests no workspace");
}

static charl_status wide_run(const charl_operator_run *r)
{
    return charl_operator_launch(
        r,
        &(charl_kernel){.entry = "sums",
                        .defines = "#define FAULT 0.0f\n",
                        .global = {1},
                        .args = {{CHARL_KERNEL_IN, 0}, {CHARL_KERNEL_OUT, 0}, {CHARL_KERNEL_INT, INT64_C(1) << 31}}});
}

static void test_a_number_beyond_an_int(void **state)
{
    static const charl_operator op = {.name = "test_wide",
                                      .formula = "out = x",
                                      .n_in = 1,
                                      .source = column_sums_source,
                                      .run = wide_run,
                                      .reference = column_sums_reference};

    (void)state;
    launch_refused(&op, "test_wide, kernel sums, argument 2: 2147483648 does not fit an int");
}

/* An error in a graph is kept and names the operator. */
static void refused(const charl_operator *op, const void *attr, charl_shape shape, int n_in, const char *message)
{
    charl_graph *g;
    charl_var *in[2];

    charl_assert_ok(charl_graph_create(dev, NULL, &g));
    in[0] = in[1] = charl_input(g, "x", CHARL_F32, shape, CHARL_BATCHED);
    assert_null(charl_operator_apply(g, op, attr, in, n_in, NULL));
    assert_true(charl_graph_compile(g) != CHARL_OK);
    charl_assert_message(message);
    charl_graph_destroy(g);
}

static void test_errors(void **state)
{
    static const charl_operator taken = {.name = "relu", .formula = "", .n_in = 1, .expr = "a", .element = affine_of};
    static const charl_operator bad_name = {.name = "Bad", .formula = "", .n_in = 1, .expr = "a", .element = affine_of};
    static const charl_operator both = {
        .name = "both", .formula = "", .n_in = 1, .expr = "a", .source = "", .element = affine_of};
    static const charl_operator numbers_too_many = {
        .name = "too_many", .formula = "", .n_in = 1, .attr_size = 12, .expr = "a", .element = affine_of};
    static const charl_operator unregistered = {.name = "unregistered", .n_in = 1};

    (void)state;
    charl_assert_status(charl_register_operator(&taken), CHARL_ERR_INVALID);
    charl_assert_message("already");
    charl_assert_status(charl_register_operator(&bad_name), CHARL_ERR_INVALID);
    charl_assert_status(charl_register_operator(&both), CHARL_ERR_INVALID);
    charl_assert_status(charl_register_operator(&numbers_too_many), CHARL_ERR_INVALID);
    refused(&unregistered, NULL, (charl_shape){1, {8}}, 1, "not registered");
    refused(&affine, NULL, (charl_shape){1, {8}}, 1, "settings");
    refused(&affine, numbers, (charl_shape){1, {8}}, 2, "takes 1 operands");
    refused(&column_sums, NULL, (charl_shape){1, {8}}, 1, "test_column_sums: it takes rows");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_expression),
        cmocka_unit_test(test_sum_over_the_batch),
        cmocka_unit_test(test_what_is_wrong_is_found),
        cmocka_unit_test(test_in_a_graph),
        cmocka_unit_test(test_sums_per_slice_without_a_place),
        cmocka_unit_test(test_a_number_beyond_an_int),
        cmocka_unit_test(test_errors),
    };

    return charl_test_on_device(tests, &dev);
}
