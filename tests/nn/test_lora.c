/* Low-rank adapters: the model is the same until B leaves 0, then it computes with W + alpha / rank * B A; only A and B
 * are trained, and they get the gradients of that product.
 */
#include "support/on_device.h"

#include <math.h>
#include <string.h>

#include "charl/charl.h"

enum { ROWS = 16, FEATURES = 5, CLASSES = 3, HIDDEN = 8, RANK = 2 };

static const double ALPHA = 6.0;

static charl_device *dev;

typedef struct net {
    charl_model *model;
    charl_params *params;
    charl_graph *g;
    charl_var *out;
} net;

static void build(net *n, const charl_lora *lora, bool train)
{
    const charl_mlp_config mlp = {.hidden = (int64_t[]){HIDDEN}, .n_hidden = 1, .outputs = CLASSES};
    float x[ROWS * FEATURES];
    charl_var *in;

    *n = (net){.g = NULL};
    charl_assert_ok(charl_model_create(&n->model));
    charl_assert_ok(charl_model_add_mlp(n->model, &mlp));
    charl_assert_ok(charl_model_set_lora(n->model, lora));
    charl_assert_ok(charl_params_create(&n->params));
    charl_assert_ok(charl_graph_create(dev, NULL, &n->g));
    charl_graph_set_training(n->g, train);
    in = charl_input(n->g, "x", CHARL_F32, (charl_shape){2, {ROWS, FEATURES}}, CHARL_BATCHED);
    n->out = charl_model_build(n->model, n->g, n->params, in);
    charl_graph_keep(n->g, n->out);
    if (train) {
        charl_assert_ok(charl_params_freeze(n->params, "*, !*.lora_?.weight", NULL));
        charl_assert_ok(charl_params_pack(n->params, lora->base));
        charl_graph_backward(
            n->g, charl_sum(n->g, charl_sum(n->g, charl_mul(n->g, n->out, n->out), 1, false), 0, false), NULL);
    }
    charl_assert_ok(charl_graph_compile(n->g));
    charl_assert_ok(charl_params_initialize(n->params, 5));
    charl_test_fill(x, ROWS * FEATURES, -1.0F, 1.0F, 8);
    charl_assert_ok(charl_tensor_write(charl_var_get_tensor(in), x, sizeof x));
}

static void fini(net *n)
{
    charl_graph_destroy(n->g);
    charl_params_destroy(n->params);
    charl_model_destroy(n->model);
}

static void output(net *n, float out[ROWS * CLASSES])
{
    charl_assert_ok(charl_graph_run(n->g));
    charl_assert_ok(charl_tensor_read(charl_var_get_tensor(n->out), out, ROWS * CLASSES * sizeof *out));
}

static void test_adapted(void **state)
{
    const charl_lora lora = {.rank = RANK, .alpha = ALPHA, .targets = "*, !fc2"};
    float a[RANK * FEATURES], b[HIDDEN * RANK], w[HIDDEN * FEATURES], with[ROWS * CLASSES], without[ROWS * CLASSES];
    net adapted, plain;

    (void)state;
    build(&adapted, &lora, false);
    build(&plain, NULL, false);
    assert_int_equal(charl_params_get_count(adapted.params), charl_params_get_count(plain.params) + 2);
    assert_null(charl_params_find(adapted.params, "fc2.lora_A.weight"));
    charl_assert_ok(charl_param_read(charl_params_find(adapted.params, "fc1.weight"), w));
    charl_assert_ok(charl_param_write(charl_params_find(plain.params, "fc1.weight"), w));
    output(&adapted, with);
    output(&plain, without);
    charl_assert_same_bits(with, without, ROWS * CLASSES); /* B is 0 */

    charl_test_fill(b, HIDDEN * RANK, -1.0F, 1.0F, 9);
    charl_assert_ok(charl_param_write(charl_params_find(adapted.params, "fc1.lora_B.weight"), b));
    charl_assert_ok(charl_param_read(charl_params_find(adapted.params, "fc1.lora_A.weight"), a));
    for (int o = 0; o < HIDDEN; o++) {
        for (int i = 0; i < FEATURES; i++) {
            double sum = 0.0;

            for (int r = 0; r < RANK; r++) {
                sum += (double)b[o * RANK + r] * (double)a[r * FEATURES + i];
            }
            w[o * FEATURES + i] = (float)((double)w[o * FEATURES + i] + ALPHA / RANK * sum);
        }
    }
    charl_assert_ok(charl_param_write(charl_params_find(plain.params, "fc1.weight"), w));
    output(&adapted, with);
    output(&plain, without);
    for (int i = 0; i < ROWS * CLASSES; i++) {
        assert_true(fabsf(with[i] - without[i]) < 2e-6F);
    }
    fini(&adapted);
    fini(&plain);
}

/* d loss / d B = alpha / rank * (d loss / d W') A^T; at B = 0 that of A is 0. */
static void test_gradients(void **state)
{
    const charl_lora lora = {.rank = RANK, .alpha = ALPHA, .targets = "fc1"};
    float zero[RANK * FEATURES], grad[HIDDEN * RANK], loss[2], b[HIDDEN * RANK] = {0};
    const float h = 1.0F / 256;
    net n;

    (void)state;
    build(&n, &lora, true);
    assert_int_equal(charl_params_get_elements(n.params), RANK * (FEATURES + HIDDEN));
    assert_null(charl_var_get_gradient(charl_parameter(n.g, charl_params_find(n.params, "fc2.weight"))));
    charl_assert_ok(charl_graph_run(n.g));
    charl_assert_ok(charl_tensor_read(charl_var_get_tensor(charl_var_get_gradient(
                                          charl_parameter(n.g, charl_params_find(n.params, "fc1.lora_A.weight")))),
                                      zero, sizeof zero));
    charl_assert_ok(charl_tensor_read(charl_var_get_tensor(charl_var_get_gradient(
                                          charl_parameter(n.g, charl_params_find(n.params, "fc1.lora_B.weight")))),
                                      grad, sizeof grad));
    for (int i = 0; i < RANK * FEATURES; i++) {
        assert_true(zero[i] == 0.0F);
    }
    for (int k = 0; k < HIDDEN * RANK; k += 5) {
        for (int side = 0; side < 2; side++) {
            float out[ROWS * CLASSES];

            b[k] = side ? h : -h;
            charl_assert_ok(charl_param_write(charl_params_find(n.params, "fc1.lora_B.weight"), b));
            output(&n, out);
            loss[side] = 0.0F;
            for (int i = 0; i < ROWS * CLASSES; i++) {
                loss[side] += out[i] * out[i];
            }
        }
        b[k] = 0.0F;
        assert_true(fabsf((loss[1] - loss[0]) / (2 * h) - grad[k]) < 2e-2F * (1.0F + fabsf(grad[k])));
    }
    fini(&n);
}

static void read_gradient(net *n, const char *name, float *out, size_t bytes)
{
    charl_var *gradient = charl_var_get_gradient(charl_parameter(n->g, charl_params_find(n->params, name)));

    charl_assert_ok(charl_tensor_read(charl_var_get_tensor(gradient), out, bytes));
}

/* Outputs and gradients on packed weights have the bits of those on the same weights in f32; the weights are near those that they were
 * packed from, and packing them again changes nothing. */
static void check_packed(charl_packing packing, float tolerance)
{
    charl_lora lora = {.rank = RANK, .alpha = ALPHA, .targets = "*", .base = packing};
    float w[HIDDEN * FEATURES], packed[HIDDEN * FEATURES], again[HIDDEN * FEATURES], b[HIDDEN * RANK];
    float out[2][ROWS * CLASSES], grad[2][HIDDEN * RANK], most = 0.0F;
    net n[2];

    build(&n[1], &lora, true);
    lora.base = CHARL_PACKING_F32;
    build(&n[0], &lora, true);
    charl_assert_ok(charl_param_read(charl_params_find(n[0].params, "fc1.weight"), w));
    charl_assert_ok(charl_param_read(charl_params_find(n[1].params, "fc1.weight"), packed));
    for (int i = 0; i < HIDDEN * FEATURES; i++) {
        most = fmaxf(most, fabsf(w[i]));
    }
    for (int i = 0; i < HIDDEN * FEATURES; i++) {
        assert_true(fabsf(packed[i] - w[i]) <= tolerance * most);
    }
    assert_memory_not_equal(packed, w, sizeof w);
    charl_assert_ok(charl_param_write(charl_params_find(n[1].params, "fc1.weight"), packed));
    charl_assert_ok(charl_param_read(charl_params_find(n[1].params, "fc1.weight"), again));
    charl_assert_same_bits(again, packed, HIDDEN * FEATURES);

    charl_test_fill(b, HIDDEN * RANK, -1.0F, 1.0F, 9);
    for (int i = 0; i < 2; i++) {
        charl_assert_ok(charl_param_read(charl_params_find(n[1].params, "fc2.weight"), w));
        charl_assert_ok(charl_param_write(charl_params_find(n[i].params, "fc1.weight"), packed));
        charl_assert_ok(charl_param_write(charl_params_find(n[i].params, "fc2.weight"), w));
        charl_assert_ok(charl_param_write(charl_params_find(n[i].params, "fc1.lora_B.weight"), b));
        output(&n[i], out[i]);
        read_gradient(&n[i], "fc1.lora_B.weight", grad[i], sizeof grad[i]);
    }
    charl_assert_same_bits(out[1], out[0], ROWS * CLASSES);
    charl_assert_same_bits(grad[1], grad[0], HIDDEN * RANK);
    fini(&n[0]);
    fini(&n[1]);
}

static void test_packed(void **state)
{
    (void)state;
    check_packed(CHARL_PACKING_BF16, 1.0F / 256);
    check_packed(CHARL_PACKING_INT8, 0.51F / 127);
    check_packed(CHARL_PACKING_INT4, 0.16F);
}

static void test_errors(void **state)
{
    charl_model *m;
    net n;

    (void)state;
    charl_assert_ok(charl_model_create(&m));
    charl_assert_status(charl_model_set_lora(m, &(charl_lora){.rank = 4, .alpha = 1.0, .targets = ""}),
                        CHARL_ERR_CONFIG);
    charl_assert_status(charl_model_set_lora(m, &(charl_lora){.rank = 4, .alpha = (double)NAN, .targets = "*"}),
                        CHARL_ERR_CONFIG);
    charl_assert_ok(charl_model_set_lora(m, &(charl_lora){.rank = 4, .alpha = 1.0, .targets = "attn"}));
    charl_assert_ok(charl_model_add_mlp(m, &(charl_mlp_config){.outputs = CLASSES}));
    charl_assert_ok(charl_params_create(&n.params));
    charl_assert_ok(charl_graph_create(dev, NULL, &n.g));
    assert_null(charl_model_build(m, n.g, n.params,
                                  charl_input(n.g, "x", CHARL_F32, (charl_shape){2, {ROWS, FEATURES}}, CHARL_BATCHED)));
    charl_assert_status(charl_graph_compile(n.g), CHARL_ERR_CONFIG);
    charl_assert_message("lora.targets = attn: no linear layer");
    charl_graph_destroy(n.g);
    charl_params_destroy(n.params);
    charl_model_destroy(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_adapted),
        cmocka_unit_test(test_gradients),
        cmocka_unit_test(test_packed),
        cmocka_unit_test(test_errors),
    };

    return charl_test_on_device(tests, &dev);
}
