/* Whole training steps: model, gradients, optimizer. */
#include "support/on_device.h"

#include <math.h>
#include <string.h>

#include "autograd/graph.h"
#include "base/alloc.h"
#include "charl/nn.h"
#include "charl/ops.h"
#include "optim/optimizer.h"

enum { ROWS = 8, FEATURES = 6, CLASSES = 3, MAX_ELEMENTS = 4096 };

static charl_device *dev;

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
    t->x = charl_input(t->g, "x", CHARL_F32, (charl_shape){2, {ROWS, FEATURES}}, CHARL_BATCHED);
    t->y = charl_input(t->g, "y", CHARL_I32, (charl_shape){1, {ROWS}}, CHARL_BATCHED);
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
    float x[ROWS * FEATURES];
    int32_t y[ROWS];

    charl_test_fill(x, ROWS * FEATURES, -1.0F, 1.0F, 8);
    for (int i = 0; i < ROWS; i++) {
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
        cmocka_unit_test(test_learns_one_batch),
        cmocka_unit_test(test_warm_up_changes_nothing),
        cmocka_unit_test(test_a_step_allocates_and_builds_nothing),
        cmocka_unit_test(test_every_acquisition_may_fail),
    };

    return charl_test_on_device(tests, &dev);
}
