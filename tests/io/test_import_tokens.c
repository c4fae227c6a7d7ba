/* Importer of files of tokens. */
#include "io/imports.h"
#include "io/import_sample.h"

#include <stdbool.h>
#include <stdio.h>
#include <zlib.h>

#include "charl/dataset.h"
#include <hdf5.h>
#include "charl/import.h"

enum { U16 = 20240520, U32 = 20240801, HEADER = 1024 };

static charl_status import_one(const char *path, int64_t vocab)
{
    return charl_import("tokens", WITH(number("vocab", vocab)), &path, 1, out, &replace);
}

/* A file as llm.c writes it: n tokens of `size` bytes; the header announces `announced`. */
static const char *llmc_file(const char *name, uint32_t magic, uint32_t version, uint32_t announced,
                             const uint32_t *tokens, int n)
{
    static unsigned char file[HEADER + 256];
    const uint32_t head[3] = {magic, version, announced};
    const size_t size = magic == U16 ? 2 : 4;
    const char *path = charl_test_path(dir, name);

    memset(file, 0, sizeof file);
    memcpy(file, head, sizeof head);
    for (int i = 0; i < n; i++) {
        memcpy(file + HEADER + (size_t)i * size, &tokens[i], size);
    }
    put_file(path, file, HEADER + (size_t)n * size);
    return path;
}

static void check_tokens(charl_dataset *ds, charl_split split, const uint16_t *want, int64_t n)
{
    charl_dataset_info info;
    uint16_t have[64];

    charl_dataset_get_info(ds, &info);
    assert_int_equal(info.items[split], n);
    charl_assert_ok(charl_dataset_read_tokens(ds, split, 0, n, have));
    assert_memory_equal(have, want, (size_t)n * sizeof *want);
}

static void token_files_are_read(void **state)
{
    const char *path = charl_test_path(dir, "tokens.bin");
    const charl_dataset_options window = {sizeof window, .window = 2};
    const uint16_t raw[6] = {5, 6, 7, 8, 300, 4};
    const uint32_t wide[6] = {1, 2, 70000, 3, 4, 5};
    charl_dataset_info info;
    charl_dataset *ds;
    const int64_t row = 1;
    int32_t x[2];

    (void)state;
    put_file(path, raw, sizeof raw);
    charl_assert_ok(import_one(path, 0));
    ds = open_out(&window, &info);
    check_tokens(ds, CHARL_SPLIT_TRAIN, raw, 6);
    assert_int_equal(info.classes, 301);
    assert_int_equal(info.documents[0], 0);
    charl_assert_ok(charl_dataset_read(ds, CHARL_SPLIT_TRAIN, &row, 1, x, NULL));
    assert_int_equal(x[0], 7);
    charl_dataset_close(ds);
    path = llmc_file("wide.bin", U32, 7, 6, wide, 6);
    charl_assert_ok(import_one(path, 100000));
    ds = open_out(&window, &info);
    assert_int_equal(info.classes, 100000);
    charl_assert_ok(charl_dataset_read(ds, CHARL_SPLIT_TRAIN, &row, 1, x, NULL));
    assert_int_equal(x[0], 70000);
    charl_dataset_close(ds);
}

/* Shards by a pattern, one of them packed, and a validation file; the places of documents across shards and splits. */
static void shards_are_read_in_order(void **state)
{
    static const uint32_t a[4] = {9, 1, 2, 9}, b[3] = {3, 9, 4}, val[4] = {5, 9, 9, 6};
    static const uint16_t want[9] = {9, 1, 2, 9, 3, 9, 4, 7, 8}, want_val[4] = {5, 9, 9, 6};
    static const uint16_t last[2] = {7, 8};
    static const int64_t starts[4] = {0, 1, 4, 6}, val_starts[3] = {0, 2, 3};
    const int32_t end = 9;
    char train[512];
    const char *pattern = train, *val_path;
    const charl_dataset_options window = {sizeof window, .window = 1};
    charl_dataset_info info;
    charl_dataset *ds;
    hid_t file, array;
    int64_t have[4];
    gzFile gz;

    (void)state;
    snprintf(train, sizeof train, "%s", charl_test_path(dir, "s_train_*"));
    llmc_file("s_train_2.bin", U16, 1, 3, b, 3);
    llmc_file("s_train_1.bin", U16, 1, 4, a, 4);
    gz = gzopen(charl_test_path(dir, "s_train_3.bin.gz"), "wb");
    assert_int_equal(gzwrite(gz, last, sizeof last), sizeof last);
    gzclose(gz);
    val_path = llmc_file("s_val_0.bin", U16, 1, 4, val, 4);
    charl_assert_ok(charl_import("tokens", WITH("vocab=10", number("end_of_text", end), given("val_file", val_path)),
                                 &pattern, 1, out, &replace));
    ds = open_out(&window, &info);
    check_tokens(ds, CHARL_SPLIT_TRAIN, want, 9);
    check_tokens(ds, CHARL_SPLIT_VAL, want_val, 4);
    assert_int_equal(info.documents[CHARL_SPLIT_TRAIN], 4);
    assert_int_equal(info.documents[CHARL_SPLIT_VAL], 3);
    charl_assert_ok(charl_dataset_verify(ds));
    charl_dataset_close(ds);
    file = H5Fopen(out, H5F_ACC_RDONLY, H5P_DEFAULT);
    array = H5Dopen2(file, "/train/doc_start", H5P_DEFAULT);
    assert_true(H5Dread(array, H5T_NATIVE_INT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, have) >= 0);
    assert_memory_equal(have, starts, sizeof starts);
    H5Dclose(array);
    array = H5Dopen2(file, "/val/doc_start", H5P_DEFAULT);
    assert_true(H5Dread(array, H5T_NATIVE_INT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, have) >= 0);
    assert_memory_equal(have, val_starts, sizeof val_starts);
    H5Dclose(array);
    H5Fclose(file);
}

static void what_is_no_token_file_is_refused(void **state)
{
    static const uint32_t tokens[4] = {1, 2, 300, 3};
    static unsigned char file[2048] = "\x93NUMPY", odd[5] = {1};
    const char *path = charl_test_path(dir, "bad.bin"), *pattern = charl_test_path(dir, "none*");
    const charl_import_options split = {sizeof split, .val_split = 0.5, .overwrite = true};

    (void)state;
    charl_assert_status(import_one(path, -1), CHARL_ERR_CONFIG);
    charl_assert_status(import_one(pattern, 0), CHARL_ERR_DATA);
    charl_assert_message("none*: no file matches this pattern");
    put_file(path, odd, sizeof odd);
    charl_assert_status(import_one(path, 0), CHARL_ERR_DATA);
    charl_assert_message("odd number");
    put_file(path, file, sizeof file);
    charl_assert_status(import_one(path, 0), CHARL_ERR_DATA);
    charl_assert_message("bad.bin is a NumPy array, not a file of tokens; HINT");
    charl_assert_ok(charl_import("tokens", WITH("format=nanogpt"), &path, 1, out, &replace));
    charl_assert_status(charl_import("tokens", WITH("format=llm.c"), &path, 1, out, &replace), CHARL_ERR_DATA);
    charl_assert_message("bad.bin: byte 0: the magic number is");
    charl_assert_status(import_one(llmc_file("model.bin", 20240326, 3, 4, tokens, 4), 0), CHARL_ERR_DATA);
    charl_assert_message("another kind of file of llm.c (magic number 20240326)");
    charl_assert_status(import_one(llmc_file("new.bin", U16, 2, 4, tokens, 4), 0), CHARL_ERR_DATA);
    charl_assert_message("byte 4: version 2");
    charl_assert_status(import_one(llmc_file("short.bin", U16, 1, 5, tokens, 4), 0), CHARL_ERR_DATA);
    charl_assert_message("short.bin: truncated: ends at byte 1032");
    charl_assert_status(import_one(llmc_file("long.bin", U16, 1, 3, tokens, 4), 0), CHARL_ERR_DATA);
    charl_assert_message("after byte 1030");
    path = llmc_file("good.bin", U16, 1, 4, tokens, 4);
    charl_assert_status(import_one(path, 300), CHARL_ERR_DATA);
    charl_assert_message("good.bin: token 2 (byte 1028) is 300, the vocabulary has 300");
    charl_assert_status(charl_import("tokens", WITH(given("val_file", path)), &path, 1, out, &split), CHARL_ERR_CONFIG);
    charl_assert_message("--val-file and --val-split cannot be combined");
}

static charl_status import_tokens(void *ctx)
{
    const char *path = ctx;
    const int32_t end = 1;

    return charl_import("tokens", WITH(number("end_of_text", end), given("val_file", path)), &path, 1, out, &replace);
}

static void every_acquisition_may_fail(void **state)
{
    static const uint32_t tokens[4] = {1, 2, 1, 3};
    char path[512];

    (void)state;
    llmc_file("f_1.bin", U16, 1, 4, tokens, 4);
    snprintf(path, sizeof path, "%s", charl_test_path(dir, "f_*"));
    assert_true(charl_test_fail_every_acquisition(import_tokens, path) > 30);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(token_files_are_read),
        cmocka_unit_test(shards_are_read_in_order),
        cmocka_unit_test(what_is_no_token_file_is_refused),
        cmocka_unit_test(every_acquisition_may_fail),
    };

    return cmocka_run_group_tests(tests, setup, teardown_dir);
}
