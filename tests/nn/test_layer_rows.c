/* What of layers and models only the trainer uses: padded sequences, the place of a layer in its file, rows and their keys. */
#include "support/on_device.h"

#include <math.h>
#include <string.h>

#include "autograd/graph.h"
#include "charl/ops.h"
#include "nn/layer.h"
#include "nn/model.h"
#include "nn/net.h"

static const charl_permute_config swapped = {.order = {2, {2, 1}}};

/* Of padded sequences the padding is in no mean, and is never the last position: of [B, T, C], and of [B, C, T] where C = T. A mean over
 * the channels is over all of them. */
static void test_padding(void **state)
{
    enum { POSITIONS = 5, FEATURES = 5 };
    static const charl_slice_config last = {.axis = 1, .start = -1}, last_two = {.axis = 1, .start = -2},
                                    first_three = {.axis = 1, .length = 3}, behind_first = {.axis = 1, .start = 1},
                                    last_2 = {.axis = 2, .start = -1};
    static const charl_axis_config axis_2 = {.axis = 2}, keep_2 = {.axis = 2, .keep = true};
    static const charl_reshape_config two_rows = {.shape = {2, {25, 1}}}, channel = {.shape = {3, {1, 5, 5}}};
    static const charl_recurrent_config last_step = {.hidden_size = 4, .num_layers = 1, .bias = true, .last = true};
    static const charl_pool_config three = {.kernel = {3}, .stride = {1}, .padding = {1}};
    static const charl_group_norm_config group = {.groups = 1, .eps = 1e-5};
    static const charl_conv_config strided = {
        .channels = 4, .kernel = {3}, .stride = {2}, .padding = {-1}, .dilation = {1}, .groups = 1};
    static const charl_attention_config one_head = {.heads = 1};
    static const char counts[] = "l: counts the padding of the sequences";
    static const struct {
        const char *type;
        const void *config;
        bool swapped;        /* behind a permute */
        bool last, channels; /* the last position, a mean of the channels; otherwise a mean of the positions */
        bool image;          /* behind a reshape to one channel */
        const char *message;
    } cases[] = {{"mean", NULL, .message = NULL},
                 {"mean", &axis_2, .channels = true},
                 {"mean", &axis_2, .swapped = true},
                 {"mean", &keep_2, .swapped = true},
                 {"mean", NULL, .swapped = true, .channels = true},
                 {"slice", &last, .last = true},
                 {"slice", &last_2, .swapped = true, .last = true},
                 {"slice", &last_two, .message = "slice: padded sequences have a first position"},
                 {"slice", &first_three, .message = "slice: padded sequences have a first position"},
                 {"slice", &behind_first, .message = "slice: padded sequences have a first position"},
                 {"max", NULL, .message = "max over the positions of padded sequences would see the padding"},
                 {"max", &axis_2, true, .message = "max over the positions of padded sequences would see the padding"},
                 {"attention", &one_head, true,
                  .message = "attention cannot tell where the padded sequences end: its 5 positions"},
                 {"batch_norm", NULL, .message = counts},
                 {"batch_norm", NULL, true, .message = counts},
                 {"group_norm", &group, true, .message = counts},
                 {"layer_norm", NULL, true, .message = counts},
                 {"max_pool1d", &three, true, .message = counts},
                 {"avg_pool1d", &three, true, .message = counts},
                 {"conv1d", &strided, true, .message = counts},
                 {"lstm", &last_step, true, .message = counts},
                 {"global_avg_pool", NULL, .image = true, .message = counts},
                 {"reshape", &two_rows, .message = counts}};
    static const int length[ROWS] = {5, 1, 3, 2};
    int32_t tokens[ROWS * POSITIONS];

    (void)state;
    for (int i = 0; i < ROWS * POSITIONS; i++) {
        tokens[i] = i % POSITIONS < length[i / POSITIONS] ? i % 3 : -1;
    }
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        charl_var *padded;
        float *x, *y;
        net n;

        net_init(&n);
        padded = charl_input(n.g, "tokens", CHARL_I32, (charl_shape){2, {ROWS, POSITIONS}}, CHARL_BATCHED);
        (void)!charl__graph_set_padded(n.g, padded, 3);
        if (cases[i].swapped) {
            charl_assert_ok(charl_model_add(n.model, "swapped", "permute", &swapped));
        }
        if (cases[i].image) {
            charl_assert_ok(charl_model_add(n.model, "image", "reshape", &channel));
        }
        charl_assert_ok(charl_model_add(n.model, "l", cases[i].type, cases[i].config));
        n.x = charl_input(n.g, "x", CHARL_F32, (charl_shape){3, {ROWS, POSITIONS, FEATURES}}, CHARL_BATCHED);
        charl_graph_require_gradient(n.g, n.x);
        charl__var_set_positions(n.x, 1);
        n.out = charl_model_build(n.model, n.g, n.params, n.x);
        if (cases[i].message) {
            charl_assert_status(charl_graph_compile(n.g), CHARL_ERR_SHAPE);
            charl_assert_message(cases[i].message);
            net_fini(&n);
            continue;
        }
        n.loss = charl_batch_mean(n.g, charl_sum(n.g, charl_flatten(n.g, n.out), 1, false));
        charl_graph_keep(n.g, n.out);
        charl_graph_backward(n.g, n.loss, NULL);
        charl_assert_ok(charl_graph_compile(n.g));
        charl_assert_ok(charl_tensor_write(charl_var_get_tensor(padded), tokens, sizeof tokens));
        write_input(&n);
        charl_assert_ok(charl_graph_run(n.g));
        x = values_of(charl_var_get_tensor(n.x));
        y = values_of(charl_var_get_tensor(n.out));
        for (int k = 0; k < ROWS * FEATURES; k++) {
            const int row = k / FEATURES, first = cases[i].last ? length[row] - 1 : 0;
            const int end = cases[i].channels ? FEATURES : length[row];
            double want = 0.0;

            for (int t = first; t < end; t++) {
                const int at = cases[i].channels ? k * FEATURES + t : (row * POSITIONS + t) * FEATURES + k % FEATURES;

                want += (double)x[at] / (end - first);
            }
            assert_true(fabs((double)y[k] - want) < 1e-6);
        }
        charl_free(x);
        charl_free(y);
        net_fini(&n);
    }
}

static void test_place(void **state)
{
    const charl_linear_config narrow = {.out = 4, .bias = true};
    const char *const input[] = {"input"}, *const two[] = {"a", "b"};
    net n;

    (void)state;
    net_init(&n);
    charl_assert_ok(charl_model_add(n.model, "a", "relu", NULL));
    charl_assert_ok(charl_model_add_after(n.model, "b", "linear", &narrow, input, 1));
    charl_assert_ok(charl_model_add_after(n.model, "sum", "add", NULL, two, 2));
    charl_assert_ok(charl__model_locate(n.model, "net.ini:17"));
    net_build(&n, (charl_shape){1, {5}});
    charl_assert_status(charl_graph_compile(n.g), CHARL_ERR_SHAPE);
    charl_assert_message("net.ini:17: sum.add: ");
    net_fini(&n);
}

static void test_rows(void **state)
{
    (void)state;
    for (int i = 0; charl__layer_type_at(i); i++) {
        const charl_layer_type *t = charl__layer_type_at(i);

        assert_ptr_equal(charl__layer_type_find(t->row.name), t);
        assert_true(t->row.help && t->row.help[0]);
        for (int k = 0; k < t->row.n_keys; k++) {
            assert_true(t->row.keys[k].offset < t->row.settings_size && t->row.keys[k].help[0]);
        }
    }
    assert_null(charl__layer_type_find("perceptron"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_padding),
        cmocka_unit_test(test_place),
        cmocka_unit_test(test_rows),
    };

    return charl_test_on_device(tests, &dev);
}
