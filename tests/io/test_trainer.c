/* What only the trainer asks of a dataset and a checkpoint: how much a sample counts (labels that are ignored, weights of samples, tokens and
 * classes), draws with replacement, whose order follows from seed and position alone, windows that begin at any token, batches in memory
 * that the trainer lends, whether a file changed while it was open, and the base of a checkpoint. */
#include "io/import_sample.h"

#include <fcntl.h>
#include <hdf5.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "charl/dataset.h"
#include "charl/import.h"
#include "io/checkpoint/checkpoint_read.h"
#include "io/dataset/dataset_read.h"
#include "io/dataset/dataset_write.h"
#include "io/dataset/loader.h"
#include "io/dataset/order/split.h"
#include "io/dataset/order/stream.h"
#include "io/dataset/weights.h"

enum { ROWS = 6, TOKENS = 12, WINDOW = 4 };

static const charl_shape one = {0, {0}};

/* A table whose labels are given, the last two for validation; `weights` may be NULL. */
static charl_status write_table(const int32_t labels[ROWS], charl_dtype dtype, const void *weights, int64_t n)
{
    charl_status st = CHARL_OK;
    const charl__writer_spec spec = {
        .kind = CHARL_DATASET_TABLE, .x_dtype = CHARL_F32, .x_item = {1, {2}}, .rows = ROWS - 2, .more = 2};
    const float x[ROWS][2] = {{1, 2}, {3, 4}, {5, 6}, {7, 8}, {9, 10}, {11, 12}};
    charl__writer *w = NULL;

    CHARL_TRY_CLEANUP(charl__writer_create(out, &spec, &replace, &w));
    CHARL_TRY_CLEANUP(charl__writer_put(w, x, labels, ROWS));
    if (weights) {
        CHARL_TRY_CLEANUP(charl__writer_array(w, "/train/weights", dtype, &one, n, weights));
    }
    CHARL_TRY_CLEANUP(charl__writer_finish(w));
cleanup:
    charl__writer_destroy(w);
    return st;
}

static void check_weights(charl_dataset *ds, charl_split split, int64_t n, const float *want)
{
    const int64_t places[ROWS] = {0, 1, 2, 3, 4, 5};
    float w[ROWS * WINDOW];

    charl_assert_ok(charl__dataset_read_weights(ds, split, places, n, w));
    for (int64_t i = 0; i < n; i++) {
        assert_float_equal(w[i], want[i], 0);
    }
}

static void ignored_labels_weigh_nothing(void **state)
{
    const int32_t labels[ROWS] = {0, -1, 2, -100, 1, -1};
    const int64_t rows[] = {3, 0, 1, 2};
    int32_t y[4];
    charl_dataset_info info;
    charl_dataset *ds;

    (void)state;
    charl_assert_ok(write_table(labels, CHARL_F32, NULL, 0));
    ds = open_out(NULL, &info);
    assert_int_equal(info.classes, 3);
    assert_int_equal(info.ignored[CHARL_SPLIT_TRAIN], 2);
    assert_int_equal(info.ignored[CHARL_SPLIT_VAL], 1);
    assert_true(info.weighted);
    charl_assert_ok(charl_dataset_read(ds, CHARL_SPLIT_TRAIN, rows, 4, NULL, y));
    assert_int_equal(y[0], -1);
    assert_int_equal(y[1], 0);
    assert_int_equal(y[2], -1);
    assert_int_equal(y[3], 2);
    check_weights(ds, CHARL_SPLIT_TRAIN, 4, (const float[]){1, 0, 1, 0});
    check_weights(ds, CHARL_SPLIT_VAL, 2, (const float[]){1, 0});
    charl_assert_ok(charl_dataset_verify(ds));

    /* Classes weigh what they are given, in training only; labels that are ignored still nothing. */
    charl_assert_ok(charl__dataset_weigh(ds, (const float[]){0.5F, 3, 0.25F}, NULL, 0));
    check_weights(ds, CHARL_SPLIT_TRAIN, 4, (const float[]){0.5F, 0, 0.25F, 0});
    check_weights(ds, CHARL_SPLIT_VAL, 2, (const float[]){1, 0});
    charl_dataset_close(ds);
}

static void samples_have_weights(void **state)
{
    const int32_t labels[ROWS] = {0, -1, 2, 1, 1, 1};
    const float weights[] = {0.5F, 7, 0, 2};
    const unsigned char bytes[] = {255, 1, 0, 3};
    charl_dataset_info info;
    charl_dataset *ds;

    (void)state;
    charl_assert_ok(write_table(labels, CHARL_F32, weights, 4));
    ds = open_out(NULL, &info);
    assert_true(info.weighted);
    check_weights(ds, CHARL_SPLIT_TRAIN, 4, (const float[]){0.5F, 0, 0, 2});
    check_weights(ds, CHARL_SPLIT_VAL, 2, (const float[]){1, 1});
    charl_dataset_close(ds);
    charl_assert_ok(write_table(labels, CHARL_U8, bytes, 4));
    ds = open_out(NULL, &info);
    check_weights(ds, CHARL_SPLIT_TRAIN, 4, (const float[]){255, 0, 0, 3});
    charl_dataset_close(ds);
}

static void tokens_have_weights(void **state)
{
    const charl__writer_spec spec = {
        .kind = CHARL_DATASET_TOKENS, .x_dtype = CHARL_U8, .rows = TOKENS, .classes = TOKENS};
    unsigned char tokens[TOKENS], weights[TOKENS];
    float w[2 * WINDOW], f[TOKENS];
    charl_dataset_info info;
    charl__writer *writer = NULL;
    charl_dataset *ds;

    (void)state;
    for (int i = 0; i < TOKENS; i++) {
        tokens[i] = (unsigned char)i;
        weights[i] = (unsigned char)(10 * i);
        f[i] = 0.5F * (float)i;
    }
    for (int k = 0; k < 2; k++) {
        charl_assert_ok(charl__writer_create(out, &spec, &replace, &writer));
        charl_assert_ok(charl__writer_put(writer, tokens, NULL, TOKENS));
        charl_assert_ok(charl__writer_array(writer, "/train/weights", k ? CHARL_F32 : CHARL_U8, &one, TOKENS,
                                            k ? (void *)f : weights));
        charl_assert_ok(charl__writer_finish(writer));
        charl__writer_destroy(writer);
        ds = open_out(&(charl_dataset_options){sizeof(charl_dataset_options), .window = WINDOW}, &info);
        assert_true(info.weighted);
        assert_int_equal(charl__dataset_weights_dtype(ds), k ? CHARL_F32 : CHARL_U8);
        /* The weights of targets: of the tokens after those that are read. */
        charl_assert_ok(charl__dataset_read_weights(ds, CHARL_SPLIT_TRAIN, (const int64_t[]){5, 1}, 2, w));
        for (int i = 0; i < WINDOW; i++) {
            assert_float_equal(w[i], (k ? 0.5F : 10) * (float)(6 + i), 0);
            assert_float_equal(w[WINDOW + i], (k ? 0.5F : 10) * (float)(2 + i), 0);
        }
        charl_assert_status(charl__dataset_read_weights(ds, CHARL_SPLIT_TRAIN, (const int64_t[]){8}, 1, w),
                            CHARL_ERR_INVALID);
        charl_dataset_close(ds);
    }
}

static void wrong_weights_are_refused(void **state)
{
    const int32_t labels[ROWS] = {0, 1, 2, 1, 1, 1}, signs[ROWS] = {-1, 1, 1, -1, 1, 1};
    static const float bad[][4] = {{1, -1, 1, 1}, {1, 1, NAN, 1}, {INFINITY, 1, 1, 1}};

    (void)state;
    for (int i = 0; i < 3; i++) { /* what was written is verified */
        charl_assert_status(write_table(labels, CHARL_F32, bad[i], 4), CHARL_ERR_DATA);
        charl_assert_message("/train/weights");
        charl_assert_message(i == 0 ? "is not a weight" : "holds a NaN or an infinity");
    }
    charl_assert_status(write_table(labels, CHARL_F32, bad[0], 3), CHARL_ERR_DATA);
    charl_assert_message("/train/weights has 3 weights for 4 samples");
    charl_assert_status(write_table(signs, CHARL_F32, NULL, 0), CHARL_ERR_DATA);
    charl_assert_message("the labels in /train/y are -1 and 1, but -1 marks samples that do not count");
}

/* Weights that choose samples do not weigh them in the loss too; where classes are balanced, they do. */
static void weights_choose_samples_instead_of_weighing_them(void **state)
{
    const int32_t labels[ROWS] = {0, -1, 2, 1, 1, 1};
    const float weights[] = {0.5F, 7, 0, 2};
    charl_dataset_options opt = {sizeof opt, .sampling = CHARL_SAMPLING_WEIGHTED};
    charl_dataset_info info;
    charl_dataset *ds;

    (void)state;
    charl_assert_ok(write_table(labels, CHARL_F32, weights, 4));
    ds = open_out(&opt, &info);
    check_weights(ds, CHARL_SPLIT_TRAIN, 4, (const float[]){1, 0, 1, 1});
    charl_dataset_close(ds);
    opt.sampling = CHARL_SAMPLING_BALANCED;
    ds = open_out(&opt, &info);
    check_weights(ds, CHARL_SPLIT_TRAIN, 4, (const float[]){0.5F, 0, 0, 2});
    charl_dataset_close(ds);
}

static void draws_have_their_probabilities(void **state)
{
    /* rows of weight 0 first, in the middle and last; totals that need all 64 bits of the product */
    const uint64_t sums[] = {0, 0, 1, 1, 4, UINT64_C(1) << 32, UINT64_C(1) << 62, UINT64_C(1) << 62};
    const uint64_t small[] = {0, 0, 1, 1, 4, 10, 10};
    int64_t rows[6000], count[6] = {0};

    (void)state;
    charl__order_draws(7, 7, sums, 0, 6000, rows);
    for (int i = 0; i < 6000; i++) {
        assert_int_equal(rows[i], 5);
    }
    charl__order_draws(7, 6, small, 0, 6000, rows);
    for (int i = 0; i < 6000; i++) {
        int64_t alone;

        count[rows[i]]++;
        charl__order_draws(7, 6, small, i, 1, &alone);
        assert_int_equal(alone, rows[i]);
    }
    for (int r = 0; r < 6; r++) {
        const double expected = 6000 * (double)(small[r + 1] - small[r]) / 10;

        assert_true(fabs((double)count[r] - expected) <= 4 * sqrt(expected));
    }
}

/* The order that checkpoints continue. */
static void the_draws_are_frozen(void **state)
{
    const uint64_t sums[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
    const int64_t frozen[] = {4, 0, 1, 5, 5, 5, 5, 4, 3, 2, 2, 0};
    int64_t rows[12];

    (void)state;
    charl__order_draws(42, 10, sums, 5, 12, rows);
    assert_memory_equal(rows, frozen, sizeof frozen);
}

/* Labels may be any numbers: memory is needed for the classes that occur. */
static void classes_may_be_far_apart(void **state)
{
    static const int32_t near[] = {2, 0, 2, 2, 0, 2}, far[] = {INT32_MAX, 7, INT32_MAX, INT32_MAX, 7, INT32_MAX};
    uint8_t *chosen = NULL;

    (void)state;
    for (int i = 0; i < 2; i++) {
        const int32_t *labels = i == 0 ? near : far;
        int of_first = 0, of_second = 0;

        charl_assert_ok(charl__split_rows(labels, 6, 3, 1, &chosen));
        for (int r = 0; r < 6; r++) {
            *(labels[r] == labels[0] ? &of_first : &of_second) += chosen[r];
        }
        assert_int_equal(of_first, 2);
        assert_int_equal(of_second, 1);
        charl_free(chosen);
    }
}

/* Windows that begin at any token: the last one needs a token behind it. Rows of other data have no such places. */
static void windows_begin_at_any_token(void **state)
{
    const charl__writer_spec spec = {
        .kind = CHARL_DATASET_TOKENS, .x_dtype = CHARL_U8, .rows = TOKENS, .classes = TOKENS};
    const int64_t starts[] = {3, TOKENS - WINDOW - 1}, beyond = TOKENS - WINDOW, first = 0;
    const int32_t labels[ROWS] = {0, 1, 2, 1, 1, 1};
    unsigned char tokens[TOKENS];
    int32_t x[2][WINDOW], y[2][WINDOW];
    charl_dataset_info info;
    charl__writer *writer = NULL;
    charl_dataset *ds;

    (void)state;
    for (int i = 0; i < TOKENS; i++) {
        tokens[i] = (unsigned char)i;
    }
    charl_assert_ok(charl__writer_create(out, &spec, &replace, &writer));
    charl_assert_ok(charl__writer_put(writer, tokens, NULL, TOKENS));
    charl_assert_ok(charl__writer_finish(writer));
    charl__writer_destroy(writer);
    ds = open_out(&(charl_dataset_options){sizeof(charl_dataset_options), .window = WINDOW}, &info);
    charl_assert_ok(charl__dataset_read_at(ds, CHARL_SPLIT_TRAIN, starts, 2, x, y));
    assert_int_equal(x[0][0], 3);
    assert_int_equal(y[1][WINDOW - 1], TOKENS - 1);
    charl_assert_status(charl__dataset_read_at(ds, CHARL_SPLIT_TRAIN, &beyond, 1, x, y), CHARL_ERR_INVALID);
    charl_dataset_close(ds);
    charl_assert_ok(write_table(labels, CHARL_F32, NULL, 0));
    ds = open_out(NULL, &info);
    charl_assert_status(charl__dataset_read_at(ds, CHARL_SPLIT_TRAIN, &first, 1, NULL, y), CHARL_ERR_INVALID);
    charl_dataset_close(ds);
}

/* The loader as the trainer uses it: it lends the memory, and holds a slot for as long as the device reads it. */
enum { N = 103, MAX_ROWS = 16, SLOTS = 3 };

static float slot_x[SLOTS][MAX_ROWS];

/* A loader of rows whose only number is their index. */
static charl__loader_options reader_options(charl_dataset *ds, int64_t batch, int64_t row0, int64_t rows, int n_slots)
{
    static void *slots[SLOTS] = {slot_x[0], slot_x[1], slot_x[2]};

    return (charl__loader_options){.ds = ds,
                                   .shuffle = CHARL_SHUFFLE_ROWS,
                                   .seed = 77,
                                   .batch = batch,
                                   .row0 = row0,
                                   .rows = rows,
                                   .end_step = -1,
                                   .n_slots = n_slots,
                                   .part = {[CHARL__BATCH_X] = slots}};
}

static charl_dataset *open_numbers(void)
{
    const charl__writer_spec spec = {.kind = CHARL_DATASET_TABLE, .x_dtype = CHARL_F32, .x_item = {1, {1}}, .rows = N};
    charl__writer *w = NULL;
    charl_dataset_info info;
    float x[N];
    int32_t y[N] = {0};

    for (int i = 0; i < N; i++) {
        x[i] = (float)i;
    }
    charl_assert_ok(charl__writer_create(out, &spec, &replace, &w));
    charl_assert_ok(charl__writer_put(w, x, y, N));
    charl_assert_ok(charl__writer_finish(w));
    charl__writer_destroy(w);
    return open_out(NULL, &info);
}

/* Row i of a part is followed by the row that lies as far from the other end of the batch. */
static void mirrored_rows_follow(void **state)
{
    charl_dataset *ds = open_numbers();
    charl__loader_options opt = reader_options(ds, 32, 4, 8, SLOTS);
    charl__loader *l = NULL;
    int64_t step;
    int slot;

    (void)state;
    opt.first_step = 2;
    opt.mirrored = true;
    charl_assert_ok(charl__loader_create(&opt, &l));
    for (int64_t k = 2; k < 6; k++) {
        charl_assert_ok(charl__loader_next(l, &step, &slot));
        assert_int_equal(step, k);
        for (int64_t i = 0; i < 8; i++) {
            assert_int_equal(slot_x[slot][i], charl_order_row(77, N, true, k * 32 + 4 + i));
            assert_int_equal(slot_x[slot][8 + i], charl_order_row(77, N, true, k * 32 + 31 - (4 + i)));
        }
        charl__loader_release(l, slot);
    }
    charl__loader_destroy(l);
    charl_dataset_close(ds);
}

static void holding_every_slot_is_an_error_not_a_hang(void **state)
{
    charl_dataset *ds = open_numbers();
    const charl__loader_options opt = reader_options(ds, 4, 0, 4, 2);
    int64_t step;
    int slot;
    charl__loader *l = NULL;

    (void)state;
    charl_assert_ok(charl__loader_create(&opt, &l));
    charl_assert_ok(charl__loader_next(l, &step, &slot));
    charl_assert_ok(charl__loader_next(l, &step, &slot));
    charl_assert_status(charl__loader_next(l, &step, &slot), CHARL_ERR_INVALID);
    charl_assert_message("all 2 slots");
    charl__loader_release(l, 0);
    charl_assert_ok(charl__loader_next(l, &step, &slot));
    assert_int_equal(step, 2);
    assert_true(charl__loader_waited_s(l) >= 0);
    charl__loader_destroy(l); /* with slots still held */
    charl_dataset_close(ds);
}

/* Nothing is read before it is asked for, whatever room there is. */
static void nothing_is_read_before_it_is_asked_for(void **state)
{
    charl_dataset *ds = open_numbers();
    charl__loader_options o = reader_options(ds, 16, 0, 16, SLOTS);
    charl__loader *l;
    int64_t step;
    int slot;

    (void)state;
    o.on_demand = true;
    for (int s = 0; s < SLOTS; s++) {
        slot_x[s][0] = -999;
    }
    charl_assert_ok(charl__loader_create(&o, &l));
    for (int s = 0; s < SLOTS; s++) {
        charl_test_sleep_s(0.02);
        assert_true(slot_x[s][0] == -999);
        charl_assert_ok(charl__loader_next(l, &step, &slot));
        assert_int_equal(step, s);
        assert_int_equal(slot, s);
        assert_true(slot_x[s][0] >= 0);
    }
    charl__loader_destroy(l);
    charl_dataset_close(ds);
}

static void wrong_slots_are_refused(void **state)
{
    charl_dataset *ds = open_numbers();
    charl__loader_options opt = reader_options(ds, 8, 4, 5, 2);
    charl__loader *l = NULL;

    (void)state;
    charl_assert_status(charl__loader_create(&opt, &l), CHARL_ERR_INVALID); /* rows beyond the batch */
    opt = reader_options(ds, 8, 0, 8, 0);
    charl_assert_status(charl__loader_create(&opt, &l), CHARL_ERR_INVALID);
    assert_null(l);
    charl_dataset_close(ds);
}

/* A checkpoint that leaves weights to the base: the trainer attaches those that its run started from, and others are refused. */
static int base_closed;

static charl_status read_base(void *ctx, const char *name, const charl_shape *shape, float *dst)
{
    assert_string_equal(name, "wte.weight");
    assert_int_equal(charl_shape_count(shape), 4);
    memcpy(dst, ctx, 4 * sizeof *dst);
    return CHARL_OK;
}

static void close_base(void *ctx)
{
    (void)ctx;
    base_closed++;
}

static void a_base_is_attached(void **state)
{
    const float base_values[4] = {1.5F, -2, 0.25F, 8};
    float other[4] = {1.5F, -2, 0.25F, 8.5F}, got[4] = {0};
    const charl_checkpoint_tensor *t;
    charl_checkpoint_reader *r = NULL;

    (void)state;
    charl_assert_ok(charl_checkpoint_open("checkpoints/golden-v3.h5", &r));
    t = charl_checkpoint_find(r, "model", "wte.weight");
    assert_non_null(t);
    assert_true(charl__checkpoint_lacks_base(r));
    base_closed = 0;
    charl__checkpoint_attach(r, &(charl__checkpoint_base){other, read_base, close_base});
    assert_false(charl__checkpoint_lacks_base(r));
    charl_assert_status(charl_checkpoint_read(r, t, got), CHARL_ERR_CHECKPOINT);
    charl_assert_message("was trained on other weights: the checksum of wte.weight");
    other[3] = base_values[3];
    charl_assert_ok(charl_checkpoint_read(r, t, got));
    charl_assert_same_bits(got, base_values, 4);
    charl_checkpoint_close(r);
    assert_int_equal(base_closed, 1);
}

/* A file that changes while it is open: blocks that were read lately are compared with their
 * checksums at once, the others when they are read. */

enum {
    CHANGE_ROWS = 1200,
    BYTES = 1024,
    FIRST = 3,
    SECOND = 1100 /* rows of the first and the second block */
};

static const char *path;
static off_t begin; /* of row 0 in the file */
static int64_t written_s = 1000000000;

static void row_fill(int64_t row, unsigned char *x)
{
    for (int64_t i = 0; i < BYTES; i++) {
        x[i] = (unsigned char)((row + 1) * (i + 7) * 2654435761u >> 13);
    }
}

static void file_make(void)
{
    const charl__writer_spec spec = {
        .kind = CHARL_DATASET_TABLE, .x_dtype = CHARL_U8, .x_item = {1, {BYTES}}, .rows = CHANGE_ROWS};
    charl__writer *w = NULL;
    unsigned char x[BYTES];
    int32_t y = 0;

    charl_assert_ok(charl__writer_create(path, &spec,
                                         &(charl_import_options){sizeof(charl_import_options), .overwrite = true}, &w));
    for (int64_t row = 0; row < CHANGE_ROWS; row++) {
        row_fill(row, x);
        charl_assert_ok(charl__writer_put(w, x, &y, 1));
    }
    charl_assert_ok(charl__writer_finish(w));
    charl__writer_destroy(w);
}

static int open_to_write(void)
{
    const int fd = open(path, O_RDWR | O_CLOEXEC);

    assert_true(fd >= 0);
    return fd;
}

/* A time of its own, however coarse the file system's clock is. */
static void close_written(int fd)
{
    const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = ++written_s}};

    assert_int_equal(futimens(fd, times), 0);
    close(fd);
}

static void find_begin(void)
{
    unsigned char x[BYTES], here[BYTES];
    const int fd = open_to_write();

    row_fill(0, x);
    for (begin = 0; pread(fd, here, BYTES, begin) == BYTES && memcmp(here, x, BYTES) != 0;) {
        begin += 8;
    }
    assert_memory_equal(here, x, BYTES);
    close(fd);
}

/* Turn over the bits of a byte: the second time it is as it was. */
static void flip(int64_t row)
{
    const int fd = open_to_write();
    unsigned char byte;

    assert_int_equal(pread(fd, &byte, 1, begin + row * BYTES + 5), 1);
    byte ^= 0xff;
    assert_int_equal(pwrite(fd, &byte, 1, begin + row * BYTES + 5), 1);
    close_written(fd);
}

static charl_status read_row(charl_dataset *ds, int64_t row)
{
    charl_status st;
    unsigned char x[BYTES], want[BYTES];
    int32_t y;

    st = charl_dataset_read(ds, CHARL_SPLIT_TRAIN, &row, 1, x, &y);
    if (st == CHARL_OK) {
        row_fill(row, want);
        assert_memory_equal(x, want, BYTES);
    }
    return st;
}

static charl_dataset *open_data(void)
{
    charl_dataset *ds = NULL;

    charl_assert_ok(charl_dataset_open(path, NULL, &ds));
    return ds;
}

static void test_what_was_read_is_checked_at_once(void **state)
{
    charl_dataset *ds = open_data();

    (void)state;
    charl_assert_ok(charl__dataset_check(ds));
    charl_assert_ok(read_row(ds, FIRST));
    flip(FIRST);
    charl_assert_status(charl__dataset_check(ds), CHARL_ERR_DATA);
    charl_assert_message("/train/x: rows 0 to 1023 are no longer what was opened");
    flip(FIRST);
    charl_dataset_close(ds);
}

static void test_the_rest_is_checked_when_it_is_read(void **state)
{
    charl_dataset *ds = open_data();

    (void)state;
    charl_assert_ok(read_row(ds, FIRST));
    charl_assert_ok(read_row(ds, SECOND));
    charl_assert_ok(charl__dataset_check(ds)); /* that was good */
    flip(SECOND);
    charl_assert_ok(charl__dataset_check(ds));
    charl_assert_ok(read_row(ds, FIRST));
    charl_assert_status(read_row(ds, SECOND), CHARL_ERR_DATA);
    charl_assert_message("rows 1024 to 1199 are no longer what was opened");
    flip(SECOND);
    charl_assert_ok(read_row(ds, SECOND)); /* it is what was opened */
    charl_assert_ok(charl__dataset_check(ds));
    charl_dataset_close(ds);
}

static void test_a_change_before_the_first_look_is_one(void **state)
{
    charl_dataset *ds = open_data();

    (void)state;
    flip(FIRST);
    charl_assert_status(read_row(ds, FIRST), CHARL_ERR_DATA);
    charl_assert_message("are no longer what was opened");
    flip(FIRST);
    charl_dataset_close(ds);
    flip(FIRST);
    ds = open_data();
    charl_assert_status(read_row(ds, FIRST), CHARL_ERR_DATA); /* but this was so before */
    charl_assert_message("damaged: checksum");
    charl_dataset_close(ds);
    flip(FIRST);
}

static void test_times_alone_are_no_change(void **state)
{
    charl_dataset *ds = open_data();

    (void)state;
    charl_assert_ok(read_row(ds, FIRST));
    for (int i = 0; i < 3; i++) {
        close_written(open_to_write());
        charl_assert_ok(charl__dataset_check(ds));
        charl_assert_ok(read_row(ds, FIRST));
    }
    assert_int_equal(chmod(path, 0600), 0);
    charl_assert_ok(charl__dataset_check(ds));
    charl_assert_ok(read_row(ds, SECOND));
    charl_dataset_close(ds);
}

static void test_a_cut_file_is_refused(void **state)
{
    charl_dataset *ds = open_data();
    struct stat s;
    int fd;

    (void)state;
    charl_assert_ok(read_row(ds, FIRST));
    fd = open_to_write();
    assert_int_equal(fstat(fd, &s), 0);
    assert_int_equal(ftruncate(fd, s.st_size - 1), 0);
    close_written(fd);
    charl_assert_status(charl__dataset_check(ds), CHARL_ERR_DATA);
    charl_assert_message("the file was cut while it was in use, from ");
    charl_assert_status(charl__dataset_check(ds), CHARL_ERR_DATA); /* and stays so */
    charl_dataset_close(ds);
    file_make();
}

/* The file of the array that /x of `virtual` shows. */
static void test_a_cut_source_is_refused(void **state)
{
    const charl_dataset_options named = {sizeof named, .x = "/x", .y = "/y"};
    const char *source = charl_test_path(dir, "held.h5"), *virtual = charl_test_path(dir, "virtual.h5");
    const hsize_t dims[2] = {4, 3};
    const int32_t labels[4] = {0, 1, 0, 1};
    const hid_t plist = H5Pcreate(H5P_DATASET_CREATE), space = H5Screate_simple(2, dims, NULL),
                row = H5Screate_simple(1, dims, NULL);
    charl_dataset *ds = NULL;
    hid_t file, x, y;

    (void)state;
    file = H5Fcreate(source, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    x = H5Dcreate2(file, "/held", H5T_NATIVE_UINT8, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    assert_true(H5Dwrite(x, H5T_NATIVE_UINT8, H5S_ALL, H5S_ALL, H5P_DEFAULT, "abcdefghijkl") >= 0);
    H5Dclose(x);
    H5Fclose(file);
    assert_true(H5Pset_virtual(plist, space, "held.h5", "/held", space) >= 0);
    file = H5Fcreate(virtual, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    x = H5Dcreate2(file, "/x", H5T_NATIVE_UINT8, space, H5P_DEFAULT, plist, H5P_DEFAULT);
    y = H5Dcreate2(file, "/y", H5T_NATIVE_INT32, row, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    assert_true(H5Dwrite(y, H5T_NATIVE_INT32, H5S_ALL, H5S_ALL, H5P_DEFAULT, labels) >= 0);
    H5Dclose(x);
    H5Dclose(y);
    H5Fclose(file);
    H5Sclose(row);
    H5Sclose(space);
    H5Pclose(plist);
    charl_assert_ok(charl_dataset_open(virtual, &named, &ds));
    charl_assert_ok(charl__dataset_check(ds));
    assert_int_equal(truncate(source, 100), 0);
    charl_assert_status(charl__dataset_check(ds), CHARL_ERR_DATA);
    charl_assert_message("held.h5: the file was cut while it was in use");
    charl_dataset_close(ds);
}

/* A mix is checked in each of its files. */
static void test_a_mix_is_checked(void **state)
{
    const uint16_t tokens[100] = {0};
    const charl_dataset_options window = {sizeof window, .window = 4};
    const double weights[2] = {1, 1};
    char file[2][512], raw[512];
    const char *const files[2] = {file[0], file[1]}, *source = raw;
    charl_dataset *ds = NULL;

    (void)state;
    snprintf(raw, sizeof raw, "%s/raw.bin", dir);
    put_file(raw, tokens, sizeof tokens);
    for (int i = 0; i < 2; i++) {
        snprintf(file[i], sizeof file[i], "%s/mix%d.h5", dir, i);
        charl_assert_ok(charl_import("tokens", (const char *const[]){"vocab=10", NULL}, &source, 1, file[i], NULL));
    }
    charl_assert_ok(charl_dataset_open_mix(files, weights, 2, &window, &ds));
    charl_assert_ok(charl__dataset_check(ds));
    assert_int_equal(truncate(file[1], 1000), 0);
    charl_assert_status(charl__dataset_check(ds), CHARL_ERR_DATA);
    charl_assert_message("mix1.h5: the file was cut while it was in use");
    charl_dataset_close(ds);
}

static charl_status scenario(void *ctx)
{
    charl_status st;
    charl_dataset *ds = NULL;

    (void)ctx;
    st = charl_dataset_open(path, NULL, &ds);
    if (st == CHARL_OK) {
        st = read_row(ds, FIRST);
    }
    if (st == CHARL_OK) {
        close_written(open_to_write());
        st = charl__dataset_check(ds);
    }
    charl_dataset_close(ds);
    return st;
}

static void test_every_acquisition_may_fail(void **state)
{
    (void)state;
    assert_true(charl_test_fail_every_acquisition(scenario, NULL) > 5);
}

static int make_file(void **state)
{
    static char text[512];

    (void)state;
    snprintf(text, sizeof text, "%s/f.h5", dir);
    path = text;
    file_make();
    find_begin();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ignored_labels_weigh_nothing),
        cmocka_unit_test(samples_have_weights),
        cmocka_unit_test(tokens_have_weights),
        cmocka_unit_test(wrong_weights_are_refused),
        cmocka_unit_test(weights_choose_samples_instead_of_weighing_them),
        cmocka_unit_test(draws_have_their_probabilities),
        cmocka_unit_test(the_draws_are_frozen),
        cmocka_unit_test(classes_may_be_far_apart),
        cmocka_unit_test(windows_begin_at_any_token),
        cmocka_unit_test(mirrored_rows_follow),
        cmocka_unit_test(holding_every_slot_is_an_error_not_a_hang),
        cmocka_unit_test(nothing_is_read_before_it_is_asked_for),
        cmocka_unit_test(wrong_slots_are_refused),
        cmocka_unit_test(a_base_is_attached),
        cmocka_unit_test_setup(test_what_was_read_is_checked_at_once, make_file),
        cmocka_unit_test_setup(test_the_rest_is_checked_when_it_is_read, make_file),
        cmocka_unit_test_setup(test_a_change_before_the_first_look_is_one, make_file),
        cmocka_unit_test_setup(test_times_alone_are_no_change, make_file),
        cmocka_unit_test_setup(test_a_cut_file_is_refused, make_file),
        cmocka_unit_test_setup(test_a_cut_source_is_refused, make_file),
        cmocka_unit_test_setup(test_a_mix_is_checked, make_file),
        cmocka_unit_test_setup(test_every_acquisition_may_fail, make_file),
    };

    return cmocka_run_group_tests(tests, setup, teardown_dir);
}
