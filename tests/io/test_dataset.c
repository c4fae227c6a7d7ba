/* Reading datasets: what was written comes back, in any order, from several threads, through pread
 * and through HDF5; damage is found. What must be refused is in test_dataset_refuse.c. */
#include "io/scratch.h"

#include <fcntl.h>
#include <hdf5.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "charl/dataset.h"
#include "io/h5_dataset.h"
#include "io/imports.h"

/* HDF5 1.10 leaks the image of an object header whose checksum is wrong. charl's own leaks are
 * counted. */
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:libhdf5";
}

enum { ROWS = 1000, VAL = 200, PIXELS = 2 * 3 * 4 };

static unsigned char pixel(int64_t row, int64_t i)
{
    return (unsigned char)(row * 31 + i * 7 + row / 256);
}

/* ROWS + VAL images [2,3,4] with label row % 10. */
static charl_status write_images(const char *path, bool overwrite)
{
    static unsigned char x[ROWS + VAL][PIXELS];
    static int32_t y[ROWS + VAL];
    const h5_dataset d = {.kind = CHARL_DATASET_IMAGES,
                          .x_dtype = CHARL_U8,
                          .x_item = {3, {2, 3, 4}},
                          .rows = {ROWS, VAL},
                          .x = x,
                          .y = y};

    for (int64_t row = 0; row < ROWS + VAL; row++) {
        for (int64_t j = 0; j < PIXELS; j++) {
            x[row][j] = pixel(row, j);
        }
        y[row] = (int32_t)(row % 10);
    }
    return h5_import(path, &d, overwrite);
}

static void check_row(int64_t row, const unsigned char *x, int32_t y)
{
    for (int64_t j = 0; j < PIXELS; j++) {
        assert_int_equal(x[j], pixel(row, j));
    }
    assert_int_equal(y, row % 10);
}

static void what_was_written_comes_back(void **state)
{
    const char *path = charl_test_path(dir, "images.h5");
    charl_dataset *ds = NULL;
    charl_dataset_info info;
    const int64_t rows[] = {5, 6, 7, 999, 0, 0, 500, 501, 3};
    unsigned char x[9][PIXELS];
    int32_t y[9];
    double sum[2] = {0, 0};

    (void)state;
    charl_assert_ok(write_images(path, false));
    charl_assert_ok(charl_dataset_open(path, NULL, &ds));
    charl_dataset_get_info(ds, &info);
    assert_int_equal(info.kind, CHARL_DATASET_IMAGES);
    assert_int_equal(info.x_dtype, CHARL_U8);
    assert_int_equal(info.x_shape.ndim, 3);
    assert_int_equal(info.x_shape.dim[2], 4);
    assert_int_equal(info.y_dtype, CHARL_I32);
    assert_int_equal(info.y_shape.ndim, 0);
    assert_int_equal(info.classes, 10);
    assert_int_equal(info.rows[CHARL_SPLIT_TRAIN], ROWS);
    assert_int_equal(info.rows[CHARL_SPLIT_VAL], VAL);
    assert_int_equal(info.rows[CHARL_SPLIT_TEST], 0);
    assert_true(info.native && info.checksums);
    assert_string_equal(info.note, "");
    assert_string_equal(info.layout, "NCHW");
    assert_int_equal(strlen(info.content_id), 64);
    charl_assert_ok(charl_dataset_read(ds, CHARL_SPLIT_TRAIN, rows, 9, x, y));
    for (int i = 0; i < 9; i++) {
        check_row(rows[i], x[i], y[i]);
    }
    charl_assert_ok(charl_dataset_read(ds, CHARL_SPLIT_VAL, rows, 3, x, y));
    for (int i = 0; i < 3; i++) {
        check_row(ROWS + rows[i], x[i], y[i]);
    }
    charl_assert_ok(charl_dataset_read(ds, CHARL_SPLIT_TRAIN, rows, 1, x, NULL));
    charl_assert_ok(charl_dataset_read(ds, CHARL_SPLIT_TRAIN, rows, 1, NULL, y));
    for (int64_t r = 0; r < ROWS; r++) {
        for (int64_t j = 0; j < PIXELS; j++) {
            sum[j / 12] += pixel(r, j);
        }
    }
    assert_int_equal(info.n_stats, 2);
    for (int c = 0; c < 2; c++) {
        const double mean = sum[c] / (ROWS * 12.0);

        charl_assert_close(&info.mean[c], &mean, 1, 1e-6);
    }
    charl_assert_ok(charl_dataset_verify(ds));
    charl_dataset_close(ds);
}

static void wrong_rows_are_refused(void **state)
{
    const char *path = charl_test_path(dir, "wrong.h5");
    charl_dataset *ds = NULL;
    const int64_t rows[] = {0, ROWS, -1};
    int32_t y[1];

    (void)state;
    charl_assert_ok(write_images(path, false));
    charl_assert_ok(charl_dataset_open(path, NULL, &ds));
    charl_assert_status(charl_dataset_read(ds, CHARL_SPLIT_TRAIN, rows + 1, 1, NULL, y), CHARL_ERR_INVALID);
    charl_assert_message("no row 1000 among the 1000");
    charl_assert_status(charl_dataset_read(ds, CHARL_SPLIT_TRAIN, rows + 2, 1, NULL, y), CHARL_ERR_INVALID);
    charl_assert_status(charl_dataset_read(ds, CHARL_SPLIT_TEST, rows, 1, NULL, y), CHARL_ERR_INVALID);
    charl_assert_status(charl_dataset_read(ds, CHARL_SPLIT_COUNT, rows, 1, NULL, y), CHARL_ERR_INVALID);
    charl_dataset_close(ds);
}

/* Each row is for validation in one fold and for training in the others; sizes of folds, in all and of a class, differ by at most one. */
static void folds_divide_the_rows(void **state)
{
    enum { N = 103, FOLDS = 4 };
    const char *path = charl_test_path(dir, "folds.h5"), *whole = charl_test_path(dir, "images.h5");
    float x[N], v[N];
    int32_t y[N], label[N];
    int64_t rows[N], seen[N] = {0};
    charl_dataset *ds = NULL;

    (void)state;
    for (int i = 0; i < N; i++) {
        x[i] = (float)i;
        y[i] = i % 10 == 9 ? -1 : i * i % 3; /* the last of ten does not count */
        rows[i] = i;
    }
    charl_assert_ok(h5_import(
        path,
        &(h5_dataset){
            .kind = CHARL_DATASET_TABLE, .x_dtype = CHARL_F32, .x_item = {1, {1}}, .rows = {N}, .x = x, .y = y},
        false));
    for (int64_t k = 1; k <= FOLDS; k++) {
        const charl_dataset_options opt = {sizeof opt, .fold = k, .folds = FOLDS};
        charl_dataset_info info;
        int64_t of_class[3] = {0}, ignored = 0;

        charl_assert_ok(charl_dataset_open(path, &opt, &ds));
        charl_dataset_get_info(ds, &info);
        assert_int_equal(info.rows[CHARL_SPLIT_TRAIN] + info.rows[CHARL_SPLIT_VAL], N);
        assert_in_range(info.rows[CHARL_SPLIT_VAL], N / FOLDS, N / FOLDS + 1);
        assert_int_equal(info.ignored[CHARL_SPLIT_TRAIN] + info.ignored[CHARL_SPLIT_VAL], 10);
        for (int s = CHARL_SPLIT_TRAIN; s <= CHARL_SPLIT_VAL; s++) {
            const int64_t n = info.rows[s];

            charl_assert_ok(charl_dataset_read(ds, (charl_split)s, rows, n, v, label));
            for (int64_t i = 0; i < n; i++) {
                const int row = (int)v[i];

                seen[row] += s == CHARL_SPLIT_VAL ? 100 : 1;
                assert_int_equal(label[i], y[row]);
                assert_true(i == 0 || v[i - 1] < v[i]);
                if (s == CHARL_SPLIT_VAL) {
                    of_class[y[row] < 0 ? 0 : y[row]] += y[row] >= 0;
                    ignored += y[row] < 0;
                }
            }
        }
        for (int c = 0; c < 2; c++) { /* no square is 2 modulo 3 */
            int64_t all = 0;

            for (int i = 0; i < N; i++) {
                all += y[i] == c;
            }
            assert_in_range(of_class[c], all / FOLDS, (all + FOLDS - 1) / FOLDS);
        }
        assert_in_range(ignored, 2, 3);
        charl_assert_ok(charl_dataset_verify(ds));
        charl_dataset_close(ds);
    }
    for (int i = 0; i < N; i++) {
        assert_int_equal(seen[i], 100 + FOLDS - 1);
    }
    charl_assert_status(
        charl_dataset_open(path, &(charl_dataset_options){sizeof(charl_dataset_options), .fold = 1, .folds = N + 1},
                           &ds),
        CHARL_ERR_CONFIG);
    charl_assert_message("103 training rows, which are too few for 104 folds");
    charl_assert_status(
        charl_dataset_open(whole, &(charl_dataset_options){sizeof(charl_dataset_options), .fold = 1, .folds = 2}, &ds),
        CHARL_ERR_CONFIG);
    charl_assert_message("has a validation set, and a fold would be another one");
}

static void val_split_takes_the_last_part(void **state)
{
    const char *path = charl_test_path(dir, "split.h5");
    const charl_dataset_options opt = {sizeof opt, .val_split = 0.25};
    charl_dataset *ds = NULL;
    charl_dataset_info info;
    float x[100][2];
    int32_t y[100];
    int64_t row = 0;

    (void)state;
    for (int i = 0; i < 100; i++) {
        x[i][0] = (float)i;
        x[i][1] = 3;
        y[i] = i % 3;
    }
    charl_assert_ok(h5_import(
        path,
        &(h5_dataset){
            .kind = CHARL_DATASET_TABLE, .x_dtype = CHARL_F32, .x_item = {1, {2}}, .rows = {100}, .x = x, .y = y},
        false));
    charl_assert_ok(charl_dataset_open(path, &opt, &ds));
    charl_dataset_get_info(ds, &info);
    assert_int_equal(info.rows[CHARL_SPLIT_TRAIN], 75);
    assert_int_equal(info.rows[CHARL_SPLIT_VAL], 25);
    assert_true(info.std[1] > 0); /* a constant column */
    charl_assert_ok(charl_dataset_read(ds, CHARL_SPLIT_VAL, &row, 1, x, y));
    assert_true(x[0][0] > 74.5F && x[0][0] < 75.5F);
    row = 75;
    charl_assert_status(charl_dataset_read(ds, CHARL_SPLIT_TRAIN, &row, 1, x, y), CHARL_ERR_INVALID);
    charl_dataset_close(ds);
    charl_assert_status(
        charl_dataset_open(path, &(charl_dataset_options){sizeof(charl_dataset_options), .val_split = 0.001}, &ds),
        CHARL_ERR_CONFIG);
    charl_assert_status(
        charl_dataset_open(path, &(charl_dataset_options){sizeof(charl_dataset_options), .val_split = 1}, &ds),
        CHARL_ERR_CONFIG);
    charl_assert_status(
        charl_dataset_open(path, &(charl_dataset_options){sizeof(charl_dataset_options), .classes = 2}, &ds), CHARL_OK);
    charl_assert_status(charl_dataset_verify(ds), CHARL_ERR_DATA);
    charl_assert_message("2 in row 2 is not in [0, 2)");
    charl_dataset_close(ds);
}

static void tokens_are_windows(void **state)
{
    const char *path = charl_test_path(dir, "tokens.h5");
    const char *train = charl_test_path(dir, "train.bin"), *val = charl_test_path(dir, "val.bin");
    const charl_dataset_options opt = {sizeof opt, .window = 10};
    charl_dataset *ds = NULL;
    charl_dataset_info info;
    uint16_t tokens[1101];
    int32_t x[2][10];
    int32_t y[2][10];
    const int64_t rows[] = {3, 98};

    (void)state;
    for (int i = 0; i < 1101; i++) {
        tokens[i] = (uint16_t)i;
    }
    put_file(train, tokens, 1000 * sizeof *tokens);
    put_file(val, tokens + 1000, 101 * sizeof *tokens);
    charl_assert_ok(charl_import("tokens", WITH(given("val_file", val), "vocab=1200"), &train, 1, path, NULL));
    charl_assert_status(charl_dataset_open(path, NULL, &ds), CHARL_ERR_CONFIG);
    charl_assert_message("window");
    charl_assert_ok(charl_dataset_open(path, &opt, &ds));
    charl_dataset_get_info(ds, &info);
    assert_int_equal(info.rows[CHARL_SPLIT_TRAIN], 99);
    assert_int_equal(info.rows[CHARL_SPLIT_VAL], 10);
    assert_int_equal(info.classes, 1200);
    assert_int_equal(info.x_dtype, CHARL_I32);
    charl_assert_ok(charl_dataset_read(ds, CHARL_SPLIT_TRAIN, rows, 2, x, y));
    for (int j = 0; j < 10; j++) {
        assert_int_equal(x[0][j], 30 + j);
        assert_int_equal(y[0][j], 31 + j);
        assert_int_equal(x[1][j], 980 + j);
    }
    charl_dataset_close(ds);
    charl_assert_status(
        charl_dataset_open(path, &(charl_dataset_options){sizeof(charl_dataset_options), .window = 600}, &ds),
        CHARL_ERR_DATA);
    charl_assert_message("too few");
}

static void tokens_as_stored(void **state)
{
    const char *path = charl_test_path(dir, "tokens.h5"); /* of the case before */
    charl_dataset *ds = NULL;
    charl_dataset_info info;
    uint16_t tokens[101];

    (void)state;
    charl_assert_ok(
        charl_dataset_open(path, &(charl_dataset_options){sizeof(charl_dataset_options), .window = 10}, &ds));
    charl_dataset_get_info(ds, &info);
    assert_int_equal(info.stored_dtype, CHARL_U16);
    charl_assert_ok(charl_dataset_read_tokens(ds, CHARL_SPLIT_VAL, 1, 100, tokens));
    assert_int_equal(tokens[0], 1001);
    assert_int_equal(tokens[99], 1100);
    charl_assert_ok(charl_dataset_read_tokens(ds, CHARL_SPLIT_VAL, 101, 0, tokens));
    charl_assert_status(charl_dataset_read_tokens(ds, CHARL_SPLIT_VAL, 2, 100, tokens), CHARL_ERR_INVALID);
    charl_assert_message("tokens 2 to 102 are not among the 101 of split val");
    charl_dataset_close(ds);
    charl_assert_ok(charl_dataset_open(
        path, &(charl_dataset_options){sizeof(charl_dataset_options), .window = 10, .classes = 1050}, &ds));
    charl_assert_status(charl_dataset_read_tokens(ds, CHARL_SPLIT_VAL, 0, 101, tokens), CHARL_ERR_DATA);
    charl_assert_message("1050 in row 50 is not in [0, 1050)");
    charl_assert_status(charl_dataset_verify(ds), CHARL_ERR_DATA);
    charl_assert_message("1050 in row 50 is not in [0, 1050)");
    charl_dataset_close(ds);
}

typedef struct reader {
    charl_dataset *ds;
    int64_t from;
    bool ok;
} reader;

static void *read_many(void *user)
{
    reader *r = user;

    r->ok = true;
    for (int64_t i = 0; i < ROWS; i++) {
        const int64_t row = (r->from + i * 7) % ROWS;
        unsigned char x[PIXELS];
        int32_t y = -1;

        r->ok = r->ok && charl_dataset_read(r->ds, CHARL_SPLIT_TRAIN, &row, 1, x, &y) == CHARL_OK &&
                x[5] == pixel(row, 5) && y == row % 10;
    }
    return NULL;
}

static void threads_may_read_together(void **state)
{
    const char *path = charl_test_path(dir, "threads.h5");
    charl_dataset *ds = NULL;
    pthread_t threads[4];
    reader readers[4];

    (void)state;
    charl_assert_ok(write_images(path, false));
    charl_assert_ok(charl_dataset_open(path, NULL, &ds));
    for (int i = 0; i < 4; i++) {
        readers[i] = (reader){ds, i * 111, false};
        assert_int_equal(pthread_create(&threads[i], NULL, read_many, &readers[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        assert_true(readers[i].ok);
    }
    charl_dataset_close(ds);
}

/* Byte offset of the first image: its 24 bytes are found nowhere else in so small a file. */
static long find_bytes(const char *path, const unsigned char *want, size_t n)
{
    FILE *f = fopen(path, "rb");
    static unsigned char data[1 << 20];
    size_t size;
    long at = -1;

    assert_non_null(f);
    size = fread(data, 1, sizeof data, f);
    fclose(f);
    for (size_t i = 0; i + n <= size; i++) {
        if (memcmp(data + i, want, n) == 0) {
            at = (long)i;
            break;
        }
    }
    assert_true(at >= 0);
    return at;
}

static void flip(const char *path, long offset, int bit)
{
    const int fd = open(path, O_RDWR);
    unsigned char byte;

    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &byte, 1, offset), 1);
    byte ^= (unsigned char)(1 << bit);
    assert_int_equal(pwrite(fd, &byte, 1, offset), 1);
    close(fd);
}

static void every_flipped_bit_of_data_is_found(void **state)
{
    const char *path = charl_test_path(dir, "flip.h5");
    unsigned char first[PIXELS];
    long at;

    (void)state;
    for (int64_t j = 0; j < PIXELS; j++) {
        first[j] = pixel(0, j);
    }
    charl_assert_ok(write_images(path, false));
    at = find_bytes(path, first, PIXELS);
    for (int k = 0; k < 40; k++) {
        const long offset = at + (k * 7919L) % (ROWS * PIXELS);
        const int64_t row = 0;
        unsigned char x[PIXELS];
        charl_dataset *ds = NULL;

        flip(path, offset, k % 8);
        charl_assert_ok(charl_dataset_open(path, NULL, &ds));
        charl_assert_status(charl_dataset_read(ds, CHARL_SPLIT_TRAIN, &row, 1, x, NULL), CHARL_ERR_DATA);
        charl_assert_message("damaged");
        charl_assert_status(charl_dataset_verify(ds), CHARL_ERR_DATA);
        charl_dataset_close(ds);
        flip(path, offset, k % 8);
    }
}

/* Anywhere in the file: refused when opened or verified, or without effect on what is read. */
static void every_flipped_bit_is_refused_or_harmless(void **state)
{
    const char *path = charl_test_path(dir, "anywhere.h5");
    static unsigned char want[ROWS][PIXELS];
    static unsigned char got[ROWS][PIXELS];
    static int32_t y[ROWS];
    static int64_t rows[ROWS];
    charl_dataset *ds = NULL;
    FILE *f;
    long size;
    int refused = 0;
    long live;

    (void)state;
    charl_assert_ok(write_images(path, false));
    f = fopen(path, "rb");
    fseek(f, 0, SEEK_END);
    size = ftell(f);
    fclose(f);
    for (int64_t i = 0; i < ROWS; i++) {
        rows[i] = i;
    }
    charl_assert_ok(charl_dataset_open(path, NULL, &ds));
    charl_assert_ok(charl_dataset_read(ds, CHARL_SPLIT_TRAIN, rows, ROWS, want, y));
    charl_dataset_close(ds);
    live = charl_test_live();
    for (int k = 0; k < 400; k += charl_test_each(9)) {
        const long offset = k < 200 ? (k * 13L) % 2048 : (k * 2654435761L) % size;

        flip(path, offset, (k * 5) % 8);
        if (charl_dataset_open(path, NULL, &ds) != CHARL_OK || charl_dataset_verify(ds) != CHARL_OK) {
            refused++;
            assert_true(strlen(charl_error_message()) > 0);
        } else {
            charl_assert_ok(charl_dataset_read(ds, CHARL_SPLIT_TRAIN, rows, ROWS, got, y));
            assert_memory_equal(got, want, sizeof want);
        }
        charl_dataset_close(ds);
        flip(path, offset, (k * 5) % 8);
    }
    assert_true(refused > 20 / charl_test_each(9));
    assert_int_equal(charl_test_live(), live);
}

static void content_id_follows_the_content(void **state)
{
    const char *a = charl_test_path(dir, "a.h5");
    const char *b = charl_test_path(dir, "b.h5");
    charl_dataset *ds = NULL;
    charl_dataset_info info;
    char id[65];

    (void)state;
    charl_assert_ok(write_images(a, false));
    charl_assert_ok(write_images(b, false));
    charl_assert_ok(charl_dataset_open(a, NULL, &ds));
    charl_dataset_get_info(ds, &info);
    memcpy(id, info.content_id, sizeof id);
    charl_dataset_close(ds);
    charl_assert_ok(charl_dataset_open(
        b, &(charl_dataset_options){sizeof(charl_dataset_options), .x = "/train/x", .y = "train/y"}, &ds));
    charl_dataset_get_info(ds, &info);
    assert_string_not_equal(id, info.content_id); /* without the other split */
    charl_dataset_close(ds);
    charl_assert_ok(charl_dataset_open(b, NULL, &ds));
    charl_dataset_get_info(ds, &info);
    assert_string_equal(id, info.content_id);
    charl_dataset_close(ds);
}

static void read_errors_are_reported(void **state)
{
    const char *path = charl_test_path(dir, "eio.h5");
    charl_dataset *ds = NULL;
    const int64_t row = 4;
    unsigned char x[PIXELS];

    (void)state;
    charl_assert_ok(write_images(path, false));
    charl_assert_ok(charl_dataset_open(path, NULL, &ds));
    charl_test_fault_set("data.eio:*");
    charl_assert_status(charl_dataset_read(ds, CHARL_SPLIT_TRAIN, &row, 1, x, NULL), CHARL_ERR_IO);
    charl_assert_message("/train/x");
    charl_test_fault_set("data.flip:1");
    charl_assert_status(charl_dataset_read(ds, CHARL_SPLIT_TRAIN, &row, 1, x, NULL), CHARL_ERR_DATA);
    charl_test_fault_set(NULL);
    charl_assert_ok(charl_dataset_read(ds, CHARL_SPLIT_TRAIN, &row, 1, x, NULL));
    charl_assert_ok(charl_dataset_verify(ds));
    assert_int_equal(truncate(path, 5000), 0);
    charl_assert_status(charl_dataset_verify(ds), CHARL_ERR_IO);
    charl_assert_message("shortened");
    charl_dataset_close(ds);
}

static void an_existing_file_is_kept(void **state)
{
    const char *path = charl_test_path(dir, "keep.h5");

    (void)state;
    charl_assert_ok(write_images(path, false));
    charl_assert_status(write_images(path, false), CHARL_ERR_CONFIG);
    charl_assert_message("exists already");
    charl_assert_ok(write_images(path, true));
}

static void a_full_disk_leaves_nothing(void **state)
{
    const char *path = charl_test_path(dir, "full.h5");

    (void)state;
    for (int n = 1; n < 200; n++) {
        char spec[32];
        charl_status st;

        snprintf(spec, sizeof spec, "io.enospc:%d+", n);
        charl_test_fault_set(spec);
        st = write_images(path, false);
        charl_test_fault_set(NULL);
        if (st == CHARL_OK) {
            assert_true(n > 1);
            return;
        }
        assert_int_equal(st, CHARL_ERR_DISK);
        assert_int_not_equal(access(path, F_OK), 0);
    }
    fail_msg("io.enospc never stopped firing");
}

static charl_status write_and_read(void *ctx)
{
    charl_status st;
    charl_dataset *ds = NULL;
    const int64_t rows[] = {1, 2, 900};
    unsigned char x[3][PIXELS];
    int32_t y[3];

    st = write_images(ctx, true);
    if (st == CHARL_OK) {
        st = charl_dataset_open(ctx, NULL, &ds);
    }
    if (st == CHARL_OK) {
        st = charl_dataset_read(ds, CHARL_SPLIT_TRAIN, rows, 3, x, y);
    }
    charl_dataset_close(ds);
    return st;
}

static void every_acquisition_may_fail(void **state)
{
    char path[512];

    (void)state;
    snprintf(path, sizeof path, "%s", charl_test_path(dir, "faults.h5"));
    assert_true(charl_test_fail_every_acquisition(write_and_read, path) > 20);
}

/* HDF5 opens a file of this process again only as it is open. */
static void a_file_that_the_program_has_open_is_read(void **state)
{
    char path[512];
    charl_dataset *ds = NULL;
    hid_t own;

    (void)state;
    snprintf(path, sizeof path, "%s", charl_test_path(dir, "own.h5"));
    charl_assert_ok(write_images(path, true));
    own = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
    assert_true(own >= 0);
    charl_assert_ok(charl_dataset_open(path, NULL, &ds));
    charl_dataset_close(ds);
    assert_true(H5Fclose(own) >= 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_written_comes_back),
        cmocka_unit_test(wrong_rows_are_refused),
        cmocka_unit_test(a_file_that_the_program_has_open_is_read),
        cmocka_unit_test(val_split_takes_the_last_part),
        cmocka_unit_test(folds_divide_the_rows),
        cmocka_unit_test(tokens_are_windows),
        cmocka_unit_test(tokens_as_stored),
        cmocka_unit_test(threads_may_read_together),
        cmocka_unit_test(every_flipped_bit_of_data_is_found),
        cmocka_unit_test(every_flipped_bit_is_refused_or_harmless),
        cmocka_unit_test(content_id_follows_the_content),
        cmocka_unit_test(read_errors_are_reported),
        cmocka_unit_test(an_existing_file_is_kept),
        cmocka_unit_test(a_full_disk_leaves_nothing),
        cmocka_unit_test(every_acquisition_may_fail),
    };

    return cmocka_run_group_tests(tests, setup_dir, teardown_dir);
}
