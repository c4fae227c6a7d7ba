/* What of models only the trainer uses: padded sequences, places in files, rows and their keys; and what a training step asks of the device. */
#include "support/on_device.h"

#include <math.h>
#include <string.h>

#include "autograd/graph.h"
#include "base/alloc.h"
#include "charl/nn.h"
#include "charl/ops.h"
#include "nn/layer.h"
#include "nn/model.h"
#include "nn/net.h"
#include "optim/optimizer.h"

/* What of layers and models only the trainer uses: padded sequences, the place of a layer in its file, rows and their keys. */

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

/* Whole training steps: model, gradients, optimizer. */

enum { BATCH = 8, FEATURES = 6, CLASSES = 3, MAX_ELEMENTS = 4096 };

/* A training with one step record for graph and optimizer, as the trainer has it. */
typedef struct training {
    charl_model *model;
    charl_params *params;
    charl_steps *steps;
    charl_graph *g;
    charl_optimizer *o;
    charl_var *x, *y, *loss;
} training;

static charl_status build(training *t, const char *optimizer)
{
    const charl_mlp_config config = {
        .hidden = (int64_t[]){16}, .n_hidden = 1, .outputs = CLASSES, .dropout = 0.1, .batch_norm = true};
    charl_slices slices;
    charl_var *rows;

    CHARL_TRY(charl_model_add_mlp(t->model, &config));
    CHARL_TRY(charl_slices_block(8, 0, 1, &slices));
    CHARL_TRY(charl_graph_create(dev, &slices, &t->g));
    charl_graph_set_steps(t->g, t->steps);
    t->x = charl_input(t->g, "x", CHARL_F32, (charl_shape){2, {BATCH, FEATURES}}, CHARL_BATCHED);
    t->y = charl_input(t->g, "y", CHARL_I32, (charl_shape){1, {BATCH}}, CHARL_BATCHED);
    rows = charl_cross_entropy(t->g, charl_model_build(t->model, t->g, t->params, t->x), t->y, NULL, NULL);
    t->loss = charl_batch_mean(t->g, rows);
    charl_graph_keep(t->g, t->loss);
    charl_graph_backward(t->g, t->loss, NULL);
    CHARL_TRY(charl_graph_compile(t->g));
    CHARL_TRY(charl_params_initialize(t->params, 3));
    CHARL_TRY(charl__optimizer_create(t->params,
                                      &(charl_optimizer_config){.type = optimizer,
                                                                .momentum = strcmp(optimizer, "sgd") == 0 ? 0.9F : 0,
                                                                .beta1 = 0.9F,
                                                                .beta2 = 0.99F,
                                                                .eps = 1e-8F,
                                                                .weight_decay = 1e-3F,
                                                                .grad_clip = 5.0F},
                                      t->steps, NULL, &t->o));
    return CHARL_OK;
}

static charl_status training_open(training *t, const char *optimizer)
{
    float x[BATCH * FEATURES];
    int32_t y[BATCH];

    charl_test_fill(x, BATCH * FEATURES, -1.0F, 1.0F, 8);
    for (int i = 0; i < BATCH; i++) {
        y[i] = i % CLASSES;
    }
    CHARL_TRY(charl_model_create(&t->model));
    CHARL_TRY(charl_params_create(&t->params));
    CHARL_TRY(charl__steps_create(dev, 3, &t->steps));
    CHARL_TRY(build(t, optimizer));
    CHARL_TRY(charl_tensor_write(charl_var_get_tensor(t->x), x, sizeof x));
    CHARL_TRY(charl_tensor_write(charl_var_get_tensor(t->y), y, sizeof y));
    return CHARL_OK;
}

static void training_close(training *t)
{
    charl_optimizer_destroy(t->o);
    charl_graph_destroy(t->g);
    charl__steps_destroy(t->steps);
    charl_params_destroy(t->params);
    charl_model_destroy(t->model);
}

static charl_status step(training *t)
{
    charl__step_params record = {.seed_lo = 5, .step_lo = (uint32_t)charl_optimizer_get_steps(t->o), .commit = 1};

    charl_assert_ok(charl__optimizer_fill(t->o, 0.02F, &record));
    CHARL_TRY(charl__steps_push(t->steps, &record));
    CHARL_TRY(charl_graph_run(t->g));
    CHARL_TRY(charl_optimizer_step(t->o, 0.02F));
    return CHARL_OK;
}

static float loss_of(const training *t)
{
    float loss;

    charl_assert_ok(charl_tensor_read(charl_var_get_tensor(t->loss), &loss, sizeof loss));
    return loss;
}

static void read_arena(charl__buffer *b, float *out, int64_t n)
{
    assert_true(n <= MAX_ELEMENTS);
    charl_assert_ok(charl__buffer_read(CHARL_QUEUE_COMPUTE, b, 0, out, (size_t)n * sizeof *out, true));
}

static const char *const optimizers[] = {"sgd", "adam", "adamw"};
enum { N_OPTIMIZERS = (int)(sizeof optimizers / sizeof optimizers[0]) };

/* One batch is learnt, twice with the same bits, and padding stays zero. */
static void test_learns_one_batch(void **state)
{
    static float value[2][MAX_ELEMENTS];

    (void)state;
    for (int i = 0; i < N_OPTIMIZERS; i++) {
        for (int again = 0; again < 2; again++) {
            training t = {0};
            float first, last;

            charl_assert_ok(training_open(&t, optimizers[i]));
            charl_assert_ok(step(&t));
            first = loss_of(&t);
            for (int k = 0; k < 60; k++) {
                charl_assert_ok(step(&t));
            }
            last = loss_of(&t);
            if (!(last < 0.5F * first)) {
                fail_msg("%s: the loss went from %g to %g", optimizers[i], (double)first, (double)last);
            }
            read_arena(t.params->value, value[again], t.params->elements);
            if (again) {
                charl_assert_same_bits(value[1], value[0], t.params->elements);
            }
            for (int p = 0; p < t.params->count; p++) {
                const charl_param *q = t.params->param[p];
                const int64_t n = charl_shape_count(&q->spec.shape);

                for (int64_t k = n; q->spec.trainable && k % CHARL_PARAM_ALIGN != 0; k++) {
                    assert_true(value[again][q->offset + k] == 0.0F);
                }
            }
            training_close(&t);
        }
    }
}

static void test_warm_up_changes_nothing(void **state)
{
    static float before[4][MAX_ELEMENTS], after[MAX_ELEMENTS];
    charl__buffer *arena[4];
    int64_t n[4];
    training t = {0};

    (void)state;
    charl_assert_ok(training_open(&t, "adamw"));
    charl_assert_ok(step(&t));
    arena[0] = t.params->value;
    arena[1] = t.params->buffers;
    arena[2] = t.o->state[0];
    arena[3] = t.o->state[1];
    for (int i = 0; i < 4; i++) {
        n[i] = i == 1 ? t.params->buffer_elements : t.params->elements;
        read_arena(arena[i], before[i], n[i]);
    }
    charl_assert_ok(charl_graph_warm_up(t.g));
    charl_assert_ok(charl__optimizer_warm_up(t.o));
    for (int i = 0; i < 4; i++) {
        read_arena(arena[i], after, n[i]);
        charl_assert_same_bits(after, before[i], n[i]);
    }
    assert_int_equal(charl_optimizer_get_steps(t.o), 1);
    charl_assert_ok(step(&t));
    for (int i = 0; i < 4; i++) { /* what a step that counts does change */
        read_arena(arena[i], after, n[i]);
        assert_memory_not_equal(after, before[i], (size_t)n[i] * sizeof *after);
    }
    training_close(&t);
}

static void test_a_step_allocates_and_builds_nothing(void **state)
{
    training t = {0};
    charl__device_counters before, after;
    long live, allocated;

    (void)state;
    charl_assert_ok(training_open(&t, "adam"));
    for (int i = 0; i < 6; i++) { /* more than the ring of step records is deep */
        charl_assert_ok(step(&t));
    }
    charl_assert_ok(charl_device_sync(dev));
    before = charl__device_counters_get(dev);
    live = charl__live();
    allocated = charl__allocated();
    for (int i = 0; i < 3; i++) {
        charl_assert_ok(step(&t));
    }
    after = charl__device_counters_get(dev);
    assert_int_equal(charl__allocated(), allocated);
    assert_int_equal(after.host_waits, before.host_waits);
    charl_assert_ok(charl_device_sync(dev));
    after = charl__device_counters_get(dev);
    assert_int_equal(after.buffers_created, before.buffers_created);
    assert_int_equal(after.programs_built, before.programs_built);
    assert_int_equal(after.kernels_created, before.kernels_created);
    assert_int_equal(charl__live(), live);
    training_close(&t);
}

static charl_status two_steps(void *ctx)
{
    charl_status st = CHARL_OK;
    training t = {0};

    CHARL_TRY_CLEANUP(training_open(&t, ctx));
    CHARL_TRY_CLEANUP(step(&t));
    CHARL_TRY_CLEANUP(step(&t));
    CHARL_TRY_CLEANUP(charl_device_sync(dev));
cleanup:
    training_close(&t);
    return st;
}

static void test_every_acquisition_may_fail(void **state)
{
    char name[] = "adam";

    (void)state;
    charl_test_fail_every_acquisition(two_steps, name);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_padding),
        cmocka_unit_test(test_place),
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_learns_one_batch),
        cmocka_unit_test(test_warm_up_changes_nothing),
        cmocka_unit_test(test_a_step_allocates_and_builds_nothing),
        cmocka_unit_test(test_every_acquisition_may_fail),
    };

    return charl_test_on_device(tests, &dev);
}
