/* Importers of tokens. */
#include "io/import_sample.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "charl/dataset.h"

static void bytes_become_tokens(void **state)
{
    const char *path = text_file("text.txt", "to be or not to be, that is the question");
    const charl_dataset_options opt = {.window = 4};
    charl_dataset_info info;
    charl_dataset *ds;
    const int64_t row = 1;
    int32_t x[4];
    int32_t y[4];

    (void)state;
    charl_assert_ok(
        charl_import_text(&path, 1, NULL, out, &(charl_import_options){.overwrite = true, .val_split = 0.25}));
    ds = open_out(&opt, &info);
    assert_int_equal(info.kind, CHARL_DATASET_TOKENS);
    assert_int_equal(info.items[0], 30);
    assert_int_equal(info.items[1], 10);
    assert_int_equal(info.classes, 256);
    charl_assert_ok(charl_dataset_read(ds, CHARL_SPLIT_TRAIN, &row, 1, x, y));
    assert_int_equal(x[0], 'e');
    assert_int_equal(y[3], ' ');
    charl_dataset_close(ds);
}

static void token_files_are_read(void **state)
{
    const char *path = charl_test_path(dir, "tokens.bin");
    const charl_dataset_options window = {.window = 2};
    const uint16_t raw[6] = {5, 6, 7, 8, 300, 4};
    static unsigned char file[1024 + 24];
    const uint32_t head[3] = {20240801, 7, 6};
    const uint32_t wide[6] = {1, 2, 70000, 3, 4, 5};
    charl_dataset_info info;
    charl_dataset *ds;
    const int64_t row = 1;
    int32_t x[2];

    (void)state;
    put_file(path, raw, sizeof raw);
    charl_assert_ok(charl_import_tokens(path, 0, out, &replace));
    ds = open_out(&window, &info);
    assert_int_equal(info.items[0], 6);
    assert_int_equal(info.classes, 301);
    charl_assert_ok(charl_dataset_read(ds, CHARL_SPLIT_TRAIN, &row, 1, x, NULL));
    assert_int_equal(x[0], 7);
    charl_dataset_close(ds);
    charl_assert_status(charl_import_tokens(path, 300, out, &replace), CHARL_ERR_DATA);
    charl_assert_message("token 4 is 300");
    charl_assert_status(charl_import_tokens(path, -1, out, &replace), CHARL_ERR_CONFIG);
    put_file(path, raw, 5);
    charl_assert_status(charl_import_tokens(path, 0, out, &replace), CHARL_ERR_DATA);
    charl_assert_message("odd number");
    memcpy(file, head, sizeof head);
    memcpy(file + 1024, wide, sizeof wide);
    put_file(path, file, sizeof file);
    charl_assert_ok(charl_import_tokens(path, 100000, out, &replace));
    ds = open_out(&window, &info);
    assert_int_equal(info.classes, 100000);
    charl_assert_ok(charl_dataset_read(ds, CHARL_SPLIT_TRAIN, &row, 1, x, NULL));
    assert_int_equal(x[0], 70000);
    charl_dataset_close(ds);
    put_file(path, file, sizeof file - 1);
    charl_assert_status(charl_import_tokens(path, 0, out, &replace), CHARL_ERR_DATA);
    charl_assert_message("truncated");
}

static charl_status import_tokens(void *ctx)
{
    const char *path = ctx;
    charl_status st = charl_import_text(&path, 1, NULL, out, &replace);

    return st == CHARL_OK ? charl_import_tokens(path, 0, out, &replace) : st;
}

static void every_acquisition_may_fail(void **state)
{
    char path[512];

    (void)state;
    snprintf(path, sizeof path, "%s", text_file("f.txt", "an even number of bytes, is it not"));
    assert_true(charl_test_fail_every_acquisition(import_tokens, path) > 30);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_become_tokens),
        cmocka_unit_test(token_files_are_read),
        cmocka_unit_test(every_acquisition_may_fail),
    };

    return cmocka_run_group_tests(tests, setup, teardown_dir);
}
