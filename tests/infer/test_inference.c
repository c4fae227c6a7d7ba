/* Models that answer: the same bits in batches of any size, from several threads at once, and from a model built in code. Public headers
 * only. */
#include "support/models.h"

#include <pthread.h>

enum { ROWS = 40, MOST = 12, PIXELS = 28 * 28, THREADS = 4, CALLS = 60 };

static char *dir;
static char path[512];
static unsigned char x[ROWS][PIXELS];
static float want[ROWS][MLP_CLASSES]; /* each row alone */

static charl_inference *open_model(void)
{
    const charl_inference_options o = {sizeof o, .max_rows = MOST};
    charl_inference *m = NULL;

    charl_assert_ok(charl_inference_open(path, &o, &m));
    return m;
}

static int setup(void **state)
{
    charl_shape row;
    charl_inference *m;

    (void)state;
    dir = charl_test_tempdir();
    snprintf(path, sizeof path, "%s/mlp.h5", dir);
    save_mlp(dir, path, &row);
    assert_int_equal(charl_shape_count(&row), PIXELS);
    for (int i = 0; i < ROWS * PIXELS; i++) {
        x[i / PIXELS][i % PIXELS] = (unsigned char)(i * 131 + i / 97 * 17);
    }
    m = open_model();
    for (int i = 0; i < ROWS; i++) {
        charl_assert_ok(charl_inference_run(m, x[i], 1, want[i]));
    }
    assert_true(memcmp(want[0], want[1], sizeof want[0]) != 0);
    charl_inference_close(m);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    charl_test_tempdir_remove(dir);
    return 0;
}

/* Batches of every size, so that each graph is used and each is left partly empty. */
static void batches_of_any_size(void **state)
{
    charl_inference *m = open_model();
    const charl_inference_info info = charl_inference_get_info(m);
    float y[MOST][MLP_CLASSES];

    (void)state;
    assert_int_equal(info.n_outputs, MLP_CLASSES);
    assert_int_equal(info.max_rows, MOST);
    assert_int_equal(info.x_dtype, CHARL_U8);
    assert_int_equal(info.schema->classes, MLP_CLASSES);
    for (int n = MOST; n > 0; n--) {
        charl_assert_ok(charl_inference_run(m, x[n], n, y[0]));
        charl_assert_same_bits(y[0], want[n], n * MLP_CLASSES);
    }
    charl_assert_ok(charl_inference_run(m, NULL, 0, NULL));
    charl_assert_status(charl_inference_run(m, x[0], MOST + 1, y[0]), CHARL_ERR_INVALID);
    charl_assert_message("a batch of 13 rows, the model was opened for 12");
    charl_inference_close(m);
}

typedef struct asker {
    pthread_t thread;
    charl_inference *model;
    int number, right, refused;
} asker;

static void *ask(void *arg)
{
    asker *a = arg;
    float y[MOST + 1][MLP_CLASSES];

    for (int i = 0; i < CALLS; i++) {
        const int first = (a->number * 7 + i * 5) % (ROWS - MOST), n = 1 + (a->number + i) % (i % 3 == 0 ? MOST : 2);

        if (i % 10 == 9) { /* an error is this thread's alone */
            a->refused += charl_inference_run(a->model, x[0], MOST + 1 + a->number, y[0]) == CHARL_ERR_INVALID &&
                          strstr(charl_error_message(), a->number == 0 ? "13 rows" : "rows, the model");
            continue;
        }
        a->right += charl_inference_run(a->model, x[first], n, y[0]) == CHARL_OK &&
                    memcmp(y[0], want[first], (size_t)n * sizeof y[0]) == 0;
    }
    return NULL;
}

/* Rows of several threads go through the same batches; every answer has the bits that it has alone. */
static void threads_share_a_model(void **state)
{
    charl_inference *m = open_model();
    asker a[THREADS];

    (void)state;
    for (int i = 0; i < THREADS; i++) {
        a[i] = (asker){.model = m, .number = i};
        assert_int_equal(pthread_create(&a[i].thread, NULL, ask, &a[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(a[i].thread, NULL), 0);
        assert_int_equal(a[i].refused, CALLS / 10);
        assert_int_equal(a[i].right, CALLS - CALLS / 10);
    }
    charl_inference_close(m);
}

static charl_var *build_nothing(void *ctx, charl_graph *g, charl_var *input)
{
    (void)ctx;
    (void)g;
    (void)input;
    return NULL;
}

static charl_var *build_constant(void *ctx, charl_graph *g, charl_var *input)
{
    (void)ctx;
    (void)input;
    return charl_constant(g, 1.0F);
}

/* A model of layers, in code, loaded from the file: what the file answers, also from threads, and what changed parameters answer. */
static void models_built_in_code(void **state)
{
    const charl_inference_options o = {sizeof o, .max_rows = MOST};
    mlp net = {.model = create_mlp()};
    charl_inference_model own = {sizeof own, .x_dtype = CHARL_U8, .x_shape = {3, {1, 28, 28}}, .build = build_mlp,
                                 .ctx = &net};
    charl_inference *m = NULL;
    float y[MOST][MLP_CLASSES];
    asker a = {.number = 0};

    (void)state;
    charl_assert_ok(
        charl_device_open(&(charl_device_request){sizeof(charl_device_request), .local_size = 1}, &own.device));
    charl_assert_ok(charl_params_create(&net.params));
    charl_assert_ok(charl_inference_create(&own, &o, &m));
    charl_assert_ok(charl_params_load(net.params, path, NULL, NULL));
    assert_null(charl_inference_get_info(m).schema);
    assert_int_equal(charl_inference_get_info(m).n_outputs, MLP_CLASSES);
    charl_assert_ok(charl_inference_run(m, x[0], MOST, y[0]));
    charl_assert_same_bits(y[0], want[0], MOST * MLP_CLASSES);
    a.model = m;
    assert_int_equal(pthread_create(&a.thread, NULL, ask, &a), 0);
    assert_int_equal(pthread_join(a.thread, NULL), 0);
    assert_int_equal(a.right, CALLS - CALLS / 10);
    charl_device_adopt(own.device); /* back to this thread */
    charl_assert_ok(charl_params_initialize(net.params, 2));
    charl_assert_ok(charl_inference_run(m, x[0], 1, y[0]));
    assert_true(memcmp(y[0], want[0], sizeof y[0]) != 0);
    charl_inference_close(m);

    own.build = build_nothing;
    charl_assert_status(charl_inference_create(&own, &o, &m), CHARL_ERR_INVALID);
    assert_null(m);
    own.build = build_constant;
    charl_assert_status(charl_inference_create(&own, &o, &m), CHARL_ERR_CONFIG);
    charl_assert_message("it must have as many rows");
    charl_params_destroy(net.params);
    charl_model_destroy(net.model);
    charl_device_close(own.device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batches_of_any_size),
        cmocka_unit_test(threads_share_a_model),
        cmocka_unit_test(models_built_in_code),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
