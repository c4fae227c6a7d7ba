/* Mixes of data sets: proportions, orders, and who may be mixed. */
#include "io/imports.h"
#include "io/scratch.h"

#include <stdlib.h>
#include <string.h>

#include "charl/dataset.h"
#include "charl/import.h"
#include "charl/loader.h"

enum { WINDOW = 4, A = 900, B = 300, TRAIN_A = 720, TRAIN_B = 240, FIRST_B = 1000, VOCAB = 2000, BLOCK = 10000 };

/* A data set of n tokens from `first` on, of which a fifth validates, in a file that is its name. */
static const char *make(const char *name, int first, int n, int64_t vocab)
{
    const char *raw = charl_test_path(dir, "raw.bin"), *file;
    uint16_t *tokens = malloc((size_t)n * sizeof *tokens);
    const charl_import_options opt = {sizeof opt, .overwrite = true, .val_split = 0.2};

    for (int i = 0; i < n; i++) {
        tokens[i] = (uint16_t)(first + i);
    }
    put_file(raw, tokens, (size_t)n * sizeof *tokens);
    free(tokens);
    file = charl_test_path(dir, name);
    charl_assert_ok(charl_import("tokens", WITH(number("vocab", vocab)), &raw, 1, file, &opt));
    return file;
}

static char paths[2][512];
static const char *const two[2] = {paths[0], paths[1]};
static const charl_dataset_options window = {sizeof window, .window = WINDOW};

static int setup(void **state)
{
    setup_dir(state);
    snprintf(paths[0], sizeof paths[0], "%s", make("a.h5", 0, A, VOCAB));
    snprintf(paths[1], sizeof paths[1], "%s", make("b.h5", FIRST_B, B, VOCAB));
    return 0;
}

static charl_dataset *open_mix(double a, double b)
{
    charl_dataset *ds = NULL;

    charl_assert_ok(charl_dataset_open_mix(two, (const double[2]){a, b}, 2, &window, &ds));
    return ds;
}

/* The first tokens of n windows of the training stream, which tell where they lie, `batch` windows at a time. */
static void read_stream(charl_dataset *ds, int64_t batch, int64_t n, int64_t *out)
{
    const charl_loader_options o = {sizeof o, .batch_size = batch, .shuffle = CHARL_SHUFFLE_ROWS, .seed = 7,
                                    .prefetch = 8};
    charl_loader *l = NULL;
    charl_loader_batch b;

    charl_assert_ok(charl_loader_create(ds, NULL, &o, &l));
    for (int64_t i = 0; i < n; i += batch) {
        charl_assert_ok(charl_loader_next(l, &b));
        for (int64_t k = 0; k < batch; k++) {
            out[i + k] = ((const int32_t *)b.x)[k * WINDOW];
        }
    }
    charl_loader_destroy(l);
}

static int by_value(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

/* 10,000 samples hold both sets as the weights say, also in another unit; the next 10,000 in another order. */
static void samples_are_in_proportion(void **state)
{
    static int64_t place[2 * BLOCK], again[BLOCK];
    charl_dataset *ds = open_mix(0.7, 0.3), *other = open_mix(14, 6);
    charl_dataset_info info;
    int64_t first, same = 0;

    (void)state;
    charl_dataset_get_info(ds, &info);
    assert_int_equal(info.items[CHARL_SPLIT_TRAIN], TRAIN_A + TRAIN_B);
    assert_int_equal(info.rows[CHARL_SPLIT_VAL], (A - TRAIN_A - 1) / WINDOW + (B - TRAIN_B - 1) / WINDOW);
    read_stream(ds, BLOCK / 10, 2 * BLOCK, place);
    for (int k = 0; k < 2; k++) {
        first = 0;
        for (int i = 0; i < BLOCK; i++) {
            first += place[k * BLOCK + i] < TRAIN_A;
        }
        assert_int_equal(first, 7000);
    }
    for (int i = 0; i < BLOCK; i++) {
        same += (place[i] < TRAIN_A) == (place[BLOCK + i] < TRAIN_A);
    }
    assert_true(same > BLOCK / 2 && same < BLOCK * 2 / 3); /* 0.58 by chance */
    read_stream(other, 1, BLOCK, again);
    assert_memory_equal(place, again, sizeof again);
    charl_dataset_close(other);
    charl_dataset_close(ds);
}

/* Of the first set a block holds those samples that come first when it is alone: none is left out, none comes early again. */
static void a_set_keeps_its_stream(void **state)
{
    enum { OWN = 7000 };
    static int64_t place[BLOCK], own[OWN], mixed[OWN];
    charl_dataset *ds = open_mix(7, 3), *a = NULL;
    int64_t n = 0;

    (void)state;
    read_stream(ds, BLOCK / 10, BLOCK, place);
    for (int i = 0; i < BLOCK; i++) {
        if (place[i] < TRAIN_A) {
            mixed[n++] = place[i];
        }
    }
    assert_int_equal(n, OWN);
    charl_assert_ok(charl_dataset_open(two[0], &window, &a));
    read_stream(a, OWN / 10, OWN, own);
    qsort(own, OWN, sizeof *own, by_value);
    qsort(mixed, OWN, sizeof *mixed, by_value);
    assert_memory_equal(own, mixed, sizeof own);
    charl_dataset_close(a);
    charl_dataset_close(ds);
}

/* What is read at a place is of the set that the place belongs to; a window never leaves its set. */
static void windows_lie_in_one_set(void **state)
{
    enum { ROWS = 64 };
    charl_dataset *ds = open_mix(1, 1);
    charl_dataset_info info;
    charl_loader *l = NULL;
    charl_loader_batch batch;
    uint16_t tokens[TRAIN_A + TRAIN_B];
    int64_t rows[2], n[2] = {0};
    int32_t x[2 * WINDOW], y[2 * WINDOW];

    (void)state;
    charl_dataset_get_info(ds, &info);
    charl_assert_ok(charl_loader_create(
        ds, NULL, &(charl_loader_options){sizeof(charl_loader_options), .batch_size = ROWS, .shuffle = true, .seed = 3},
        &l));
    for (int step = 0; step < 8; step++) {
        charl_assert_ok(charl_loader_next(l, &batch));
        for (int i = 0; i < ROWS; i++) {
            const int32_t *bx = (const int32_t *)batch.x + i * WINDOW;
            const int32_t *by = (const int32_t *)batch.y + i * WINDOW;

            for (int k = 0; k < WINDOW; k++) {
                assert_int_equal(bx[k], bx[0] + k);
                assert_int_equal(by[k], bx[0] + k + 1);
            }
            assert_true(by[WINDOW - 1] < TRAIN_A || (bx[0] >= FIRST_B && by[WINDOW - 1] < FIRST_B + TRAIN_B));
            n[bx[0] >= FIRST_B]++;
        }
    }
    assert_true(n[0] > 150 && n[1] > 150);
    charl_loader_destroy(l);
    charl_assert_ok(charl_dataset_read_tokens(ds, CHARL_SPLIT_TRAIN, 0, TRAIN_A + TRAIN_B, tokens));
    assert_int_equal(tokens[TRAIN_A - 1], TRAIN_A - 1);
    assert_int_equal(tokens[TRAIN_A], FIRST_B);
    charl_assert_status(charl_dataset_read_tokens(ds, CHARL_SPLIT_TRAIN, TRAIN_A, TRAIN_B + 1, tokens),
                        CHARL_ERR_INVALID);
    rows[0] = (A - TRAIN_A - 1) / WINDOW - 1; /* the last validation row of a, the first of b */
    rows[1] = rows[0] + 1;
    charl_assert_ok(charl_dataset_read(ds, CHARL_SPLIT_VAL, rows, 2, x, y));
    assert_int_equal(x[0], TRAIN_A + rows[0] * WINDOW);
    assert_int_equal(x[WINDOW], FIRST_B + TRAIN_B);
    rows[1] = info.rows[CHARL_SPLIT_VAL];
    charl_assert_status(charl_dataset_read(ds, CHARL_SPLIT_VAL, rows, 2, x, y), CHARL_ERR_INVALID);
    charl_assert_ok(charl_dataset_verify(ds));
    charl_dataset_close(ds);
}

/* The same sets with the same weights are the same data; other weights are others. */
static void weights_are_part_of_the_data(void **state)
{
    charl_dataset *a = open_mix(1, 3), *b = open_mix(0.25, 0.75), *c = open_mix(1, 2);
    charl_dataset_info x, y, z;

    (void)state;
    charl_dataset_get_info(a, &x);
    charl_dataset_get_info(b, &y);
    charl_dataset_get_info(c, &z);
    assert_string_equal(x.content_id, y.content_id);
    assert_string_not_equal(x.content_id, z.content_id);
    charl_dataset_close(a);
    charl_dataset_close(b);
    charl_dataset_close(c);
}

static void what_does_not_mix_is_refused(void **state)
{
    char other[512], text[512], chars[512], plain[512];
    const char *source = plain, *pair[2] = {paths[0], other};
    const double weights[2] = {1, 1};
    const charl_import_options replace = {sizeof replace, .overwrite = true};
    charl_dataset *ds = NULL;

    (void)state;
    snprintf(other, sizeof other, "%s", make("c.h5", 3, 50, VOCAB + 1));
    charl_assert_status(charl_dataset_open_mix(pair, weights, 2, &window, &ds), CHARL_ERR_DATA);
    charl_assert_message("c.h5 has a vocabulary of 2001 tokens");
    assert_null(ds);
    charl_assert_status(charl_dataset_open_mix(two, (const double[2]){1, 0}, 2, &window, &ds), CHARL_ERR_CONFIG);
    charl_assert_status(charl_dataset_open_mix(two, (const double[2]){1, 1e-6}, 2, &window, &ds), CHARL_ERR_CONFIG);
    charl_assert_message("b.h5 is less than a 10000th");
    charl_assert_status(charl_dataset_open_mix(two, weights, 0, &window, &ds), CHARL_ERR_CONFIG);
    snprintf(plain, sizeof plain, "%s", charl_test_path(dir, "t.txt"));
    put_file(source, "abcabcabcabc", 12);
    snprintf(text, sizeof text, "%s", charl_test_path(dir, "t1.h5"));
    charl_assert_ok(charl_import("text", WITH("tokenizer=chars"), &source, 1, text, &replace));
    put_file(source, "abdabdabdabd", 12);
    snprintf(chars, sizeof chars, "%s", charl_test_path(dir, "t2.h5"));
    charl_assert_ok(charl_import("text", WITH("tokenizer=chars"), &source, 1, chars, &replace));
    pair[0] = text;
    pair[1] = chars;
    charl_assert_status(charl_dataset_open_mix(pair, weights, 2, &window, &ds), CHARL_ERR_DATA);
    charl_assert_message("t2.h5 holds tokens of another tokenizer than");
}

static charl_status open_one(void *ctx)
{
    charl_dataset *ds = NULL;
    charl_status st = charl_dataset_open_mix(two, (const double[2]){1, 1}, 2, &window, &ds);

    (void)ctx;
    charl_dataset_close(ds);
    return st;
}

static void every_acquisition_may_fail(void **state)
{
    (void)state;
    assert_true(charl_test_fail_every_acquisition(open_one, NULL) > 30);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(samples_are_in_proportion),    cmocka_unit_test(a_set_keeps_its_stream),
        cmocka_unit_test(windows_lie_in_one_set),       cmocka_unit_test(weights_are_part_of_the_data),
        cmocka_unit_test(what_does_not_mix_is_refused), cmocka_unit_test(every_acquisition_may_fail),
    };

    return cmocka_run_group_tests(tests, setup, teardown_dir);
}
