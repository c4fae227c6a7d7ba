/* Parquet files that pyarrow has written (tests/fuzz/corpus/parquet): values as texts, tables, and damage of bytes.
 * tests/interop/test_parquet.py has the compressions of other libraries, and compares with pyarrow. */
#include "io/imports.h"
#include "io/import_sample.h"

#include <stdlib.h>

#include "charl/dataset.h"
#include "charl/error.h"
#include "charl/import.h"

#define CORPUS "tests/fuzz/corpus/parquet/"

static unsigned char bytes[1 << 14];

static size_t read_corpus(const char *name)
{
    char path[300];
    FILE *f;
    size_t n;

    snprintf(path, sizeof path, CORPUS "%s", name);
    f = fopen(path, "rb");
    assert_non_null(f);
    n = fread(bytes, 1, sizeof bytes, f);
    assert_int_equal(fclose(f), 0);
    assert_in_range(n, 100, sizeof bytes - 1);
    return n;
}

/* The texts of a column as documents, with | for the NUL that separates them. */
static void assert_column(const char *name, const char *column, const char *want)
{
    const int64_t n = (int64_t)strlen(want);
    const charl_dataset_options opt = {sizeof opt, .window = 1};
    charl_dataset_info info;
    charl_dataset *ds;
    char got[1024];

    charl_assert_ok(charl_import("text", WITH(given("field", column)), FILES(name), 1, out, &replace));
    ds = open_out(&opt, &info);
    assert_int_equal(info.items[0], n);
    for (int64_t i = 0; i + 1 < n; i++) {
        int32_t x, y;

        charl_assert_ok(charl_dataset_read(ds, CHARL_SPLIT_TRAIN, &i, 1, &x, &y));
        got[i] = (char)(x ? x : '|');
        got[i + 1] = (char)(y ? y : '|');
    }
    got[n] = '\0';
    assert_string_equal(got, want);
    charl_dataset_close(ds);
}

static void values_become_texts(void **state)
{
    static const char *const columns[][2] = {
        {"i8", "-128|127|0"},
        {"u32", "4294967295|1|0"},
        {"i64", "-9223372036854775808|9223372036854775807|7"},
        {"u64", "18446744073709551615|0|1"},
        {"f16", "0.5|-65504|5.9604645e-08|1"},
        {"f32", "0.1|-3.4028235e+38|1e-45"},
        {"f64", "0.1|0.3333333333333333|inf"},
        {"b", "True|False|True"},
        {"s", "Ulm|K\xc3\xb6ln"},
        {"date", "1969-12-31|2024-02-29|0001-01-01"},
        {"ms", "2024-05-17 14:30:00|1969-12-31 23:59:59.5|1970-01-01 00:00:00"},
        {"us", "1970-01-01 00:00:00.000001|1969-12-31 23:59:59.999999|1970-01-01 00:00:00"},
        {"t", "14:30:00|00:00:00.00025|23:59:59"},
        {"d9", "12.50|-0.05|0.00"},
        {"d38", "999999999999999999999999999999999999.99|-1.00|0.01"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) {
        assert_column(CORPUS "types", columns[i][0], columns[i][1]);
        assert_column(CORPUS "plain_gzip", columns[i][0], columns[i][1]);
    }
    for (size_t i = 0; i < 3; i++) {
        static const int of[] = {0, 7, 8};

        assert_column(CORPUS "version2", columns[of[i]][0], columns[of[i]][1]);
    }
    assert_column(CORPUS "int96", "us", columns[11][1]);
    assert_column(CORPUS "runs", "s", "Ulm|Ulm|Ulm|Ulm|Ulm|Ulm|Ulm|Ulm|Ulm|Bonn|Bonn|Ulm");
}

static char notes[1024];

static void keep_note(void *ctx, const char *text)
{
    (void)ctx;
    snprintf(notes + strlen(notes), sizeof notes - strlen(notes), "%s\n", text);
}

/* Missing values, categories and dates are those of the same table in CSV. */
static void a_table_is_that_of_a_csv_file(void **state)
{
    const char *csv = text_file("t.csv", "i8,b,s\n-128,True,Ulm\n,False,Köln\n127,,\n0,True,\n");
    const charl_import_options opt = {sizeof opt, .overwrite = true, .noted = keep_note};
    const char *const settings[] = {"regression=yes", "missing=mean", "label=i8", "missing=mean,i8:drop", NULL};
    char digest[2][128] = {"", ""};

    (void)state;
    for (int k = 0; k < 2; k++) {
        charl_dataset_info info;
        charl_dataset *ds;

        charl_assert_ok(
            charl_import(k ? "csv" : "parquet", settings, k ? &csv : FILES(CORPUS "version2"), 1, out, &replace));
        ds = open_out(NULL, &info);
        assert_int_equal(info.items[0], 3);
        snprintf(digest[k], sizeof digest[k], "%s", info.content_id);
        charl_dataset_close(ds);
    }
    assert_string_equal(digest[0], digest[1]);

    notes[0] = '\0';
    charl_assert_ok(charl_import("parquet", WITH("regression=yes", "label=x"), FILES(CORPUS "nested"), 1, out, &opt));
    assert_non_null(strstr(notes, "column \"list\" holds lists and is left out"));
    assert_non_null(strstr(notes, "column \"st\" holds structures and is left out"));
    assert_non_null(strstr(notes, "column \"map\" holds maps and is left out"));
    assert_non_null(strstr(notes, "column \"bin\" holds bytes that are no text and is left out"));
}

static void misuse_is_named(void **state)
{
    const char *csv = text_file("u.csv", "a,b\n1,x\n2,y\n");

    (void)state;
    charl_assert_status(charl_import("parquet", NULL, &csv, 1, out, &replace), CHARL_ERR_DATA);
    charl_assert_message("u.csv is a CSV file, not a Parquet file; HINT convert it: `charl data import csv");
    charl_assert_status(charl_import("csv", WITH("skip=1"), FILES(CORPUS "types"), 1, out, &replace), CHARL_ERR_CONFIG);
    charl_assert_message("--skip 1: there are no lines above a Parquet table");
    charl_assert_status(charl_import("csv", WITH("decimal=comma"), FILES(CORPUS "types"), 1, out, &replace),
                        CHARL_ERR_CONFIG);
    charl_assert_message("numbers in a Parquet file have a decimal point");
    charl_assert_status(charl_import("parquet", NULL, FILES(CORPUS "runs"), 1, out, &replace), CHARL_ERR_DATA);
    charl_assert_message("there is only the column \"s\"");
    charl_assert_status(charl_import("text", WITH("field=map"), FILES(CORPUS "nested"), 1, out, &replace),
                        CHARL_ERR_DATA);
    charl_assert_message("there is no column \"map\" among \"x\", \"y\"");
}

/* Whatever is read of a damaged file, it is a text or a message that names the file. */
static void damage_is_named(void **state)
{
    static const char *const files[][2] = {
        {"types", "d38"}, {"version2", "b"}, {"int96", "us"}, {"nested", "y"}, {"runs", "s"}};
    const char *copy = charl_test_path(dir, "copy.parquet");

    (void)state;
    for (size_t k = 0; k < sizeof files / sizeof *files; k++) {
        const char *const *settings = WITH("binary=yes", given("field", files[k][1]));
        const size_t n = read_corpus(files[k][0]);

        for (size_t i = 4 + k % 2; i < n; i += 2 * (size_t)charl_test_each(13)) {
            charl_status st;

            if (i % 16 < 2) {
                put_file(copy, (const char *)bytes, i);
                charl_assert_status(charl_import("text", settings, &copy, 1, out, &replace), CHARL_ERR_DATA);
                charl_assert_message("cut short");
            }
            bytes[i] ^= (unsigned char)(1U << i % 8 | 0x80U);
            put_file(copy, (const char *)bytes, n);
            bytes[i] ^= (unsigned char)(1U << i % 8 | 0x80U);
            st = charl_import("text", settings, &copy, 1, out, &replace);
            if (st != CHARL_OK) {
                assert_int_equal(st, CHARL_ERR_DATA);
                charl_assert_message(copy);
            }
        }
    }
}

/* A byte of a value is found by the checksum of its page. */
static void checksums_are_verified(void **state)
{
    const char *copy = charl_test_path(dir, "copy.parquet");
    const size_t n = read_corpus("plain_gzip");

    (void)state;
    bytes[50] ^= 1;
    put_file(copy, (const char *)bytes, n);
    charl_assert_status(charl_import("text", WITH("field=i8"), &copy, 1, out, &replace), CHARL_ERR_DATA);
    charl_assert_message("column \"i8\" is damaged: the checksum of a page differs");
}

static charl_status import_again(void *ctx)
{
    (void)ctx;
    return charl_import("text", WITH("field=s"), FILES(CORPUS "version2"), 1, out, &replace);
}

static void every_acquisition_may_fail(void **state)
{
    (void)state;
    assert_true(charl_test_fail_every_acquisition(import_again, NULL) > 40);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_become_texts),    cmocka_unit_test(a_table_is_that_of_a_csv_file),
        cmocka_unit_test(misuse_is_named),        cmocka_unit_test(damage_is_named),
        cmocka_unit_test(checksums_are_verified), cmocka_unit_test(every_acquisition_may_fail),
    };

    return cmocka_run_group_tests(tests, setup, teardown_dir);
}
