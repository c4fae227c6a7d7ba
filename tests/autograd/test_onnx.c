/* Graphs as ONNX: what is refused and how, and what is left when something fails. That the models
 * compute the right numbers is seen by other programs: tests/interop/test_onnx.py. */
#include <string.h>

#include "autograd/onnx/onnx.h"
#include "base/alloc.h"
#include "support/support.h"

static charl_params *params;

static int setup(void **state)
{
    (void)state;
    charl_assert_ok(charl_params_create(&params));
    for (int i = 0; i < 2; i++) {
        charl_param *p;
        const charl_param_spec spec = {
            .name = i ? "fc.bias" : "fc.weight", .shape = {2 - i, {4, 3}}, .trainable = true};

        charl_assert_ok(charl_params_add(params, &spec, &p));
    }
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    charl_params_destroy(params);
    return 0;
}

static charl_status read_zeros(void *ctx, const charl_param *p, float *dst)
{
    int *reads = ctx;

    memset(dst, 0, (size_t)charl_shape_count(&charl_param_get_spec(p)->shape) * sizeof *dst);
    (*reads)++;
    return CHARL_OK;
}

static charl_status read_failing(void *ctx, const charl_param *p, float *dst)
{
    (void)ctx;
    (void)dst;
    CHARL_FAIL(CHARL_ERR_CHECKPOINT, "%s is not to be had", charl_param_get_spec(p)->name);
    return CHARL_OK;
}

/* softmax(gelu(x @ weight^T + bias)), with a loss behind it that the export must not see. */
static charl_var *build(charl_graph *g)
{
    charl_var *x = charl_input(g, "x", CHARL_F32, (charl_shape){2, {2, 3}}, CHARL_BATCHED);
    charl_var *y = charl_input(g, "y", CHARL_I32, (charl_shape){1, {2}}, CHARL_BATCHED);
    charl_var *w = charl_parameter(g, charl_params_find(params, "fc.weight"));
    charl_var *b = charl_parameter(g, charl_params_find(params, "fc.bias"));
    charl_var *h = charl_gelu(g, charl_linear(g, x, w, b), true);

    charl_cross_entropy(g, h, y, NULL, NULL);
    return charl_softmax(g, h);
}

static charl_status export(charl_graph *g, charl_var *output,
                           charl_status (*read)(void *, const charl_param *, float *), charl__text *out)
{
    charl_status st;
    charl__onnx_model model = {0};
    static const char *const name = "output";
    int reads = 0;
    const charl__onnx_export e = {
        .name = "test", .outputs = &output, .output_names = &name, .n_outputs = 1, .read = read, .ctx = &reads};

    st = charl__graph_onnx(g, &e, &model);
    if (st == CHARL_OK) {
        st = charl__text_append(out, model.graph.data, model.graph.length);
    }
    charl__text_fini(&model.head);
    charl__text_fini(&model.graph);
    return st;
}

static charl_status scenario(void *ctx)
{
    charl_status st = CHARL_OK;
    charl__text *out = ctx;
    charl_graph *g = NULL;

    CHARL_TRY_CLEANUP(charl_graph_create(NULL, NULL, &g));
    CHARL_TRY_CLEANUP(export(g, build(g), read_zeros, out));
cleanup:
    if (st != CHARL_OK) {
        charl__text_fini(out);
    }
    charl_graph_destroy(g);
    return st;
}

static bool holds(const charl__text *t, const char *part)
{
    const size_t n = strlen(part);

    for (size_t i = 0; i + n <= t->length; i++) {
        if (memcmp(t->data + i, part, n) == 0) {
            return true;
        }
    }
    return false;
}

static void test_model(void **state)
{
    charl__text a = {0}, b = {0};

    (void)state;
    charl_assert_ok(scenario(&a));
    charl_assert_ok(scenario(&b));
    assert_int_equal(a.length, b.length);
    assert_memory_equal(a.data, b.data, a.length);
    assert_true(holds(&a, "fc.weight") && holds(&a, "Gemm") && holds(&a, "Softmax"));
    assert_false(holds(&a, "cross_entropy"));
    charl__text_fini(&a);
    charl__text_fini(&b);
}

static charl_status faulty(void *ctx)
{
    charl__text out = {0};
    const charl_status st = scenario(&out);

    (void)ctx;
    charl__text_fini(&out);
    return st;
}

static void test_faults(void **state)
{
    (void)state;
    charl_test_fail_every_acquisition(faulty, NULL);
}

static void refuse(charl_graph *g, charl_var *output, charl_status code, const char *message)
{
    charl__text out = {0};

    charl_assert_status(export(g, output, code == CHARL_ERR_CHECKPOINT ? read_failing : read_zeros, &out), code);
    charl_assert_message(message);
    charl__text_fini(&out);
    charl_graph_destroy(g);
}

static charl_graph *new_graph(void)
{
    charl_graph *g = NULL;

    charl_assert_ok(charl_graph_create(NULL, NULL, &g));
    return g;
}

static void test_refusals(void **state)
{
    const charl_shape rows = {2, {2, 3}};
    charl_graph *g = new_graph();
    charl_var *x = charl_input(g, "x", CHARL_F32, rows, CHARL_BATCHED);

    (void)state;
    charl_graph_scope_begin(g, "drop");
    x = charl_dropout(g, x, 0.5F); /* the graph is one of training */
    charl_graph_scope_end(g);
    refuse(g, x, CHARL_ERR_CONFIG, "ONNX: drop.dropout: operator dropout cannot be exported");

    g = new_graph();
    x = charl_cast(g, charl_input(g, "x", CHARL_F32, rows, CHARL_BATCHED), CHARL_U8);
    refuse(g, x, CHARL_ERR_CONFIG, "ONNX: cast: only casts to f32 can be exported");

    g = new_graph();
    x = charl_cast(g, charl_input(g, "x", CHARL_BF16, rows, CHARL_BATCHED), CHARL_F32);
    refuse(g, x, CHARL_ERR_CONFIG, "ONNX: x: element type bf16 cannot be exported");

    g = new_graph();
    refuse(g, build(g), CHARL_ERR_CHECKPOINT, "is not to be had");

    g = new_graph();
    x = charl_input(g, "x", CHARL_F32, rows, CHARL_BATCHED);
    charl_matmul(g, x, x, false, false);
    refuse(g, x, CHARL_ERR_SHAPE, "matmul");
}

/* What an operator keeps for its gradient only. */
static void test_further_output(void **state)
{
    charl_graph *g = new_graph();
    charl_var *out[CHARL_OP_MAX_OUT];
    charl_var *in[] = {charl_input(g, "pre", CHARL_F32, (charl_shape){3, {2, 1, 4}}, CHARL_BATCHED),
                       charl_input(g, "w", CHARL_F32, (charl_shape){2, {4, 1}}, CHARL_REPLICATED)};

    (void)state;
    charl__apply(g, charl__op_find("lstm"), NULL, in, 2, out);
    refuse(g, out[1], CHARL_ERR_CONFIG, "ONNX: lstm: output 1 of operator lstm cannot be exported");
}

static void test_no_device(void **state)
{
    charl_graph *g = new_graph();

    (void)state;
    build(g);
    charl_assert_status(charl_graph_compile(g), CHARL_ERR_INVALID);
    charl_assert_message("the graph has no device");
    charl_graph_destroy(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_model), cmocka_unit_test(test_faults),
                                       cmocka_unit_test(test_refusals), cmocka_unit_test(test_further_output),
                                       cmocka_unit_test(test_no_device)};

    return cmocka_run_group_tests(tests, setup, teardown);
}
