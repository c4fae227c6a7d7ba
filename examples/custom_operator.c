/* An operator of one's own, row_norm: the length of each row, out[r] = sqrt(sum over c of x[r, c]^2). It has a rule
 * for shapes, a kernel, a gradient made of two operators (charl's div, and one that is an expression), a reference
 * in double, and samples, with which charl checks it as it checks its own.
 *
 *     custom_operator
 */
#include <charl/charl.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(call)                                                                                                    \
    do {                                                                                                               \
        if ((call) != CHARL_OK) {                                                                                      \
            fprintf(stderr, "custom_operator: %s\n", charl_error_message());                                           \
            exit(EXIT_FAILURE);                                                                                        \
        }                                                                                                              \
    } while (0)

/* The gradient: d out[r] / d x[r, c] = x[r, c] / out[r], times what arrives. */
static double direction_of(const void *attr, const double *x)
{
    (void)attr;
    return x[0] / x[1] * x[2];
}

static const charl_operator_sample direction_samples[] = {{.in = {{CHARL_F32, {2, {16, 5}}, CHARL_BATCHED},
                                                                  {CHARL_F32, {2, {16, 1}}, CHARL_BATCHED},
                                                                  {CHARL_F32, {2, {16, 1}}, CHARL_BATCHED}},
                                                           .lo = -2.0,
                                                           .hi = 2.0,
                                                           .away = 0.5}};

static const charl_operator direction = {.name = "row_norm_direction",
                                         .formula = "out = x / norm * g",
                                         .n_in = 3,
                                         .expr = "a / b * c",
                                         .element = direction_of,
                                         .samples = direction_samples,
                                         .n_samples = 1};

/* One work-item per row. A tensor is a buffer and the element where it begins. */
static const char source[] = "kernel void row_norm(global const float *x, ulong x_at, global float "
                             "*out, ulong out_at, int columns)\n"
                             "{\n"
                             "    const ulong r = get_global_id(0);\n"
                             "    float sum = 0.0f;\n"
                             "    for (int c = 0; c < columns; c++) {\n"
                             "        const float v = x[x_at + r * columns + c];\n"
                             "        sum += v * v;\n"
                             "    }\n"
                             "    out[out_at + r] = sqrt(sum);\n"
                             "}\n";

static charl_status row_norm_types(charl_operator_types *t)
{
    if (t->in[0].shape.ndim != 2 || t->in[0].dtype != CHARL_F32) {
        return charl_fail(CHARL_ERR_SHAPE, "row_norm takes f32 [rows, columns]");
    }
    t->out[0].shape.dim[1] = 1;
    return CHARL_OK;
}

static charl_status row_norm_run(const charl_operator_run *r)
{
    const charl_shape *x = charl_tensor_get_shape(r->in[0]);
    const charl_kernel k = {.entry = "row_norm",
                            .global = {(size_t)x->dim[0]},
                            .args = {{CHARL_KERNEL_IN, 0}, {CHARL_KERNEL_OUT, 0}, {CHARL_KERNEL_INT, x->dim[1]}}};

    return charl_operator_launch(r, &k);
}

static void row_norm_backward(const charl_operator_gradient *b)
{
    charl_var *in[] = {b->in[0], b->out[0], b->gout[0]};

    b->gin[0] = charl_operator_apply(b->g, &direction, NULL, in, 3, NULL);
}

static void row_norm_reference(const charl_operator_reference *r)
{
    const int64_t rows = r->in_type[0].shape.dim[0], columns = r->in_type[0].shape.dim[1];

    for (int64_t i = 0; i < rows; i++) {
        double sum = 0.0;

        for (int64_t c = 0; c < columns; c++) {
            sum += r->in[0][i * columns + c] * r->in[0][i * columns + c];
        }
        r->out[0][i] = sqrt(sum);
    }
}

static const charl_operator_sample row_norm_samples[] = {
    {.in = {{CHARL_F32, {2, {16, 5}}, CHARL_BATCHED}}, .lo = -2.0, .hi = 2.0, .away = 0.1, .terms = 5},
    {.in = {{CHARL_F32, {2, {3, 100}}, CHARL_REPLICATED}}, .lo = -1.0, .hi = 1.0, .terms = 100}};

static const charl_operator row_norm = {.name = "row_norm",
                                        .formula = "out[r] = sqrt(sum over c of x[r, c]^2)",
                                        .n_in = 1,
                                        .source = source,
                                        .types = row_norm_types,
                                        .run = row_norm_run,
                                        .backward = row_norm_backward,
                                        .reference = row_norm_reference,
                                        .samples = row_norm_samples,
                                        .n_samples = 2};

int main(void)
{
    static const charl_operator *const own[] = {&direction, &row_norm};
    const float points[8][2] = {{3, 4}, {6, 8}, {5, 12}, {8, 15}, {7, 24}, {20, 21}, {9, 40}, {0, 1}};
    float lengths[8];
    charl_device *dev = NULL;
    charl_graph *g = NULL;

    CHECK(charl_version_check());
    CHECK(charl_device_open(&(charl_device_request){sizeof(charl_device_request), .local_size = 1}, &dev));
    for (int i = 0; i < 2; i++) {
        charl_operator_report report;

        CHECK(charl_register_operator(own[i]));
        CHECK(charl_operator_check(dev, own[i]->name, NULL, &report));
        printf("%s: %d samples, %d gradients, %.2g ulp\n", own[i]->name, report.samples, report.gradients, report.ulp);
    }

    CHECK(charl_graph_create(dev, NULL, &g));
    charl_var *x = charl_input(g, "x", CHARL_F32, (charl_shape){2, {8, 2}}, CHARL_BATCHED);
    charl_var *y = charl_operator_apply(g, &row_norm, NULL, &x, 1, NULL);

    charl_graph_keep(g, y);
    CHECK(charl_graph_compile(g));
    CHECK(charl_tensor_write(charl_var_get_tensor(x), points, sizeof points));
    CHECK(charl_graph_run(g));
    CHECK(charl_tensor_read(charl_var_get_tensor(y), lengths, sizeof lengths));
    for (int i = 0; i < 8; i++) {
        printf("|(%g, %g)| = %g\n", (double)points[i][0], (double)points[i][1], (double)lengths[i]);
    }
    charl_graph_destroy(g);
    charl_device_close(dev);
    return EXIT_SUCCESS;
}
