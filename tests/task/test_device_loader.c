/* Batches of tokens on the device: the windows of the training stream whether the tokens lie on the
 * device or are read while training, on one rank or as parts; and evaluation in windows that do not
 * overlap. */
#include "support/support.h"

#include <stdio.h>
#include <string.h>

#include "autograd/graph.h"
#include "base/alloc.h"
#include "io/dataset/dataset_write.h"
#include "task/device_loader.h"

enum { TRAIN = 2003, VAL = 75, WINDOW = 12, BATCH = 8, SEED = 77 };

static charl_device *dev;
static char *dir;

static uint16_t token_at(int64_t i)
{
    return (uint16_t)(i * 7 % 1201);
}

static charl_dataset *open_tokens(void)
{
    const char *path = charl_test_path(dir, "tokens.h5");
    const charl__writer_spec spec = {
        .kind = CHARL_DATASET_TOKENS, .x_dtype = CHARL_U16, .rows = TRAIN, .more = VAL, .classes = 1201};
    const charl_import_options replace = {sizeof replace, .overwrite = true};
    static uint16_t tokens[TRAIN + VAL];
    charl__writer *w = NULL;
    charl_dataset *ds = NULL;

    for (int64_t i = 0; i < TRAIN + VAL; i++) {
        tokens[i] = token_at(i);
    }
    charl_assert_ok(charl__writer_create(path, &spec, &replace, &w));
    charl_assert_ok(charl__writer_put(w, tokens, NULL, TRAIN + VAL));
    charl_assert_ok(charl__writer_finish(w));
    charl__writer_destroy(w);
    charl_assert_ok(
        charl_dataset_open(path, &(charl_dataset_options){sizeof(charl_dataset_options), .window = WINDOW}, &ds));
    return ds;
}

/* A feed and the graph that it fills. */
typedef struct bench {
    charl_dataset *ds;
    charl__device_loader *feed;
    charl_graph *g;
    charl_var *x, *y, *weight;
    int64_t rows;
} bench;

static charl_status attach(bench *b, int64_t rows)
{
    charl__device_loader_vars in;

    b->rows = rows;
    CHARL_TRY(charl_graph_create(dev, NULL, &b->g));
    charl__device_loader_attach(b->feed, b->g, rows, &in);
    b->x = in.x;
    b->y = in.y;
    b->weight = in.weight;
    charl_graph_keep(b->g, b->x);
    charl_graph_keep(b->g, b->y);
    charl_graph_keep(b->g, b->weight);
    CHARL_TRY(charl_graph_compile(b->g));
    return CHARL_OK;
}

static charl_status start(bench *b, const charl__device_loader_options *o)
{
    CHARL_TRY(charl__device_loader_create(o, &b->feed));
    CHARL_TRY(attach(b, o->rows));
    return CHARL_OK;
}

/* Another part of every batch. */
static charl_status divide(bench *b, int64_t row0, int64_t rows)
{
    charl_graph_destroy(b->g);
    b->g = NULL;
    CHARL_TRY(charl__device_loader_divide(b->feed, row0, rows));
    CHARL_TRY(attach(b, rows));
    return CHARL_OK;
}

static void stop(bench *b)
{
    charl_graph_destroy(b->g);
    charl__device_loader_destroy(b->feed);
}

static charl__device_loader_options options(charl_dataset *ds, charl_split split, bool on_device)
{
    const bool training = split == CHARL_SPLIT_TRAIN;

    return (charl__device_loader_options){.dev = dev,
                                          .ds = ds,
                                          .split = split,
                                          .shuffle = training,
                                          .endless = training,
                                          .seed = SEED,
                                          .batch = BATCH,
                                          .rows = BATCH,
                                          .on_device = on_device};
}

static charl_status step(bench *b, int32_t *x, int32_t *y, float *weight)
{
    const size_t bytes = (size_t)(b->rows * WINDOW) * 4;

    CHARL_TRY(charl__device_loader_next(b->feed));
    CHARL_TRY(charl_graph_run(b->g));
    CHARL_TRY(charl__device_loader_used(b->feed));
    CHARL_TRY(charl_tensor_read(charl_var_get_tensor(b->x), x, bytes));
    CHARL_TRY(charl_tensor_read(charl_var_get_tensor(b->y), y, bytes));
    CHARL_TRY(charl_tensor_read(charl_var_get_tensor(b->weight), weight, (size_t)b->rows * 4));
    return CHARL_OK;
}

/* Row r of x and y is the window that begins at token `at`. */
static void assert_window(const int32_t *x, const int32_t *y, int64_t r, int64_t at)
{
    for (int64_t j = 0; j < WINDOW; j++) {
        assert_int_equal(x[r * WINDOW + j], token_at(at + j));
        assert_int_equal(y[r * WINDOW + j], token_at(at + j + 1));
    }
}

/* What rows [row0, row0 + b->rows) of a batch are in the steps from `first` on. */
static void check_stream(bench *b, int64_t row0, int64_t first, int64_t steps)
{
    const int64_t n = charl__device_loader_rows(b->feed);
    int32_t x[BATCH * WINDOW], y[BATCH * WINDOW];
    float weight[BATCH];

    charl_assert_ok(charl__device_loader_seek(b->feed, first));
    for (int64_t k = first; k < first + steps; k++) {
        charl_assert_ok(step(b, x, y, weight));
        for (int64_t r = 0; r < b->rows; r++) {
            const int64_t p = k * BATCH + row0 + r;

            assert_window(x, y, r,
                          charl_order_row(SEED, n, true, p) * WINDOW + charl_order_shift(SEED, n, true, p, WINDOW));
            assert_true(weight[r] == 1.0F);
        }
    }
}

/* Over the end of an epoch. */
static void check_training(bool on_device, int64_t row0, int64_t rows, int64_t first)
{
    bench b = {.ds = open_tokens()};
    charl__device_loader_options o = options(b.ds, CHARL_SPLIT_TRAIN, on_device);

    o.row0 = row0;
    o.rows = rows;
    charl_assert_ok(start(&b, &o));
    assert_int_equal(charl__device_loader_rows(b.feed), TRAIN / WINDOW - 1);
    check_stream(&b, row0, first, 30);
    stop(&b);
    charl_dataset_close(b.ds);
}

static void another_part(void **state)
{
    (void)state;
    for (int on_device = 0; on_device < 2; on_device++) {
        bench b = {.ds = open_tokens()};
        const charl__device_loader_options o = options(b.ds, CHARL_SPLIT_TRAIN, on_device);

        charl_assert_ok(start(&b, &o));
        check_stream(&b, 0, 4, 5);
        charl_assert_ok(divide(&b, 5, 3));
        check_stream(&b, 5, 9, 5);
        charl_assert_ok(divide(&b, 2, 6));
        check_stream(&b, 2, 14, 5);
        stop(&b);
        charl_dataset_close(b.ds);
    }
}

static void the_training_stream(void **state)
{
    (void)state;
    for (int on_device = 0; on_device < 2; on_device++) {
        check_training(on_device, 0, BATCH, 0);
        check_training(on_device, 3, 2, 13);
    }
}

/* Every window of the split once, in order; what fills the last batch up has no weight. */
static void evaluation_tiles(void **state)
{
    (void)state;
    for (int on_device = 0; on_device < 2; on_device++) {
        bench b = {.ds = open_tokens()};
        const charl__device_loader_options o = options(b.ds, CHARL_SPLIT_VAL, on_device);
        int32_t x[BATCH * WINDOW], y[BATCH * WINDOW];
        float weight[BATCH];

        charl_assert_ok(start(&b, &o));
        assert_int_equal(charl__device_loader_rows(b.feed), (VAL - 1) / WINDOW);
        charl_assert_ok(charl__device_loader_seek(b.feed, 0));
        charl_assert_ok(step(&b, x, y, weight));
        for (int64_t r = 0; r < BATCH; r++) {
            const bool inside = r < (VAL - 1) / WINDOW;

            if (inside) {
                assert_window(x, y, r, TRAIN + r * WINDOW);
            }
            assert_true(weight[r] == (inside ? 1.0F : 0.0F));
        }
        stop(&b);
        charl_dataset_close(b.ds);
    }
}

static void bytes_on_the_device(void **state)
{
    charl_dataset *ds = open_tokens();
    charl_dataset_info info;

    (void)state;
    charl_dataset_get_info(ds, &info);
    assert_int_equal(charl__device_loader_split_bytes(&info, CHARL_SPLIT_TRAIN), 2 * TRAIN);
    charl_dataset_close(ds);
}

static charl_status feed_once(void *ctx)
{
    bench b = {.ds = ctx};
    const charl__device_loader_options o = options(ctx, CHARL_SPLIT_TRAIN, true);
    charl_status st = start(&b, &o);

    if (st == CHARL_OK) {
        st = divide(&b, 1, 2);
    }
    stop(&b);
    return st;
}

static void every_acquisition_may_fail(void **state)
{
    charl_dataset *ds = open_tokens();

    (void)state;
    assert_true(charl_test_fail_every_acquisition(feed_once, ds) > 10);
    charl_dataset_close(ds);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_training_stream),        cmocka_unit_test(another_part),
        cmocka_unit_test(evaluation_tiles),           cmocka_unit_test(bytes_on_the_device),
        cmocka_unit_test(every_acquisition_may_fail),
    };
    const charl_device_request request = {sizeof request, .share = true};
    int rc;

    if (charl_device_open(&request, &dev) != CHARL_OK) {
        fprintf(stderr, "skipped: %s\n", charl_error_message());
        return 77;
    }
    dir = charl_test_tempdir();
    rc = cmocka_run_group_tests(tests, NULL, NULL);
    charl_test_tempdir_remove(dir);
    charl_device_close(dev);
    if (rc == 0 && charl__live() != 0) {
        fprintf(stderr, "%ld objects are still alive\n", charl__live());
        rc = 1;
    }
    return rc;
}
