/* Files of new data for a model: rows, and questions with choices. */
#include "io/imports.h"
#include "io/import_sample.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "charl/error.h"
#include "charl/import.h"
#include "data/questions.h"
#include "data/rows/rows.h"

/* Sources of rows: CSV files, arrays and data sets, as a model takes them. If one of these failed,
 * a model would read the wrong column, or name the wrong class, without a word. */

enum { MOST = 4 };

/* A model of columns a, b, c. */
static charl_data_schema model_of(charl_dtype y, const char *targets, const char *class_names)
{
    static float mean[] = {0}, std[] = {1};
    const int64_t n = charl_names_count(targets);

    return (charl_data_schema){.kind = y == CHARL_I32 ? CHARL_DATASET_TABLE : CHARL_DATASET_REGRESSION,
                               .x_dtype = CHARL_F32,
                               .x_shape = {1, {3}},
                               .y_dtype = y,
                               .y_shape = {y == CHARL_F32 || n > 1, {n}},
                               .classes = y == CHARL_I32 ? 3 : 0,
                               .class_names = (char *)(uintptr_t)class_names,
                               .columns = (char *)(uintptr_t) "a\nb\nc",
                               .targets = (char *)(uintptr_t)targets,
                               .recipe = (char *)(uintptr_t) "",
                               .fields = (char *)(uintptr_t) "",
                               .layout = (char *)(uintptr_t) "rows",
                               .fit = (char *)(uintptr_t) "",
                               .n_stats = 1,
                               .mean = mean,
                               .std = std,
                               .tokenizer_kind = (char *)(uintptr_t) ""};
}

static charl_status open_path(const charl_data_schema *s, const char *path, const char *id, charl__rows **out_rows)
{
    const char *paths[] = {path};
    const charl__rows_options o = {.schema = s, .model = "m.h5", .paths = paths, .n_paths = 1, .id = id};

    return charl__rows_open(&o, out_rows);
}

static void assert_note(charl__rows *r, bool warning, const char *want)
{
    char *text = charl__rows_drain_notes(r, warning);

    if (!want) {
        assert_null(text);
    } else {
        assert_non_null(text);
        assert_non_null(strstr(text, want));
    }
    charl_free(text);
}

static void columns_are_found_by_name(void **state)
{
    const charl_data_schema s = model_of(CHARL_I32, "kind", "ant\nbee\ncat");
    const char *path = text_file("r.csv", "c,kind,who,a,b\n"
                                          "3,bee,x 1,1,2\n"
                                          "6,,\"y, 2\",4,5\n"
                                          "9,cat,,7,8\n"
                                          "12,dog,z,10,11\n"
                                          "15,ant,w,13,14\n");
    charl__rows *r;
    float x[MOST][3];
    int32_t y[MOST];
    const int32_t want[MOST] = {1, -1, 2, -1};
    int64_t n;

    (void)state;
    charl_assert_ok(open_path(&s, path, "who", &r));
    assert_true(r->has_targets);
    assert_string_equal(r->subject, "r.csv");
    assert_note(r, true, NULL);
    assert_note(r, false, NULL);
    charl_assert_ok(charl__rows_count(r, &n));
    assert_int_equal(n, 5);
    charl_assert_ok(charl__rows_next(r, MOST, x, y, &n));
    assert_int_equal(n, 4);
    for (int i = 0; i < 12; i++) {
        assert_true(x[i / 3][i % 3] == (float)(i + 1));
    }
    assert_memory_equal(y, want, sizeof y);
    assert_string_equal(charl__rows_name(r, 1), "y, 2");
    assert_string_equal(charl__rows_name(r, 2), "");
    charl_assert_ok(charl__rows_next(r, MOST, x, y, &n));
    assert_int_equal(n, 1);
    assert_int_equal(y[0], 0);
    assert_string_equal(charl__rows_name(r, 0), "w");
    charl_assert_ok(charl__rows_next(r, MOST, x, y, &n));
    assert_int_equal(n, 0);
    assert_note(r, true, "m.h5 does not know 1 label, which is not counted; the first: ");
    charl__rows_close(r);
    charl_assert_ok(open_path(&s, path, NULL, &r));
    assert_null(charl__rows_name(r, 0));
    assert_note(r, false, "ignored: who");
    charl__rows_close(r);
    charl_assert_status(open_path(&s, text_file("r.csv", "a,c,kind\n1,2,ant\n"), NULL, &r), CHARL_ERR_DATA);
    charl_assert_message("r.csv has no column \"b\", which m.h5 needs");
    charl_assert_status(open_path(&s, text_file("r.csv", "c,kind\n2,ant\n"), NULL, &r), CHARL_ERR_DATA);
    charl_assert_message("r.csv has no columns \"a\", \"b\", which m.h5 needs");
}

static void columns_without_names_stand_in_order(void **state)
{
    charl_data_schema s = model_of(CHARL_F32, "y\nz", "");
    charl__rows *r;
    float x[MOST][3], y[MOST][2];
    int64_t n;

    (void)state;
    charl_assert_ok(open_path(&s, text_file("p.csv", "1,2,3\n4,5,6\n"), NULL, &r));
    assert_note(r, true, "p.csv has no column names, but m.h5 does; columns are matched by position");
    charl_assert_ok(charl__rows_next(r, MOST, x, y, &n));
    assert_int_equal(n, 2);
    assert_true(x[1][0] == 4.0F && x[1][2] == 6.0F);
    charl__rows_close(r);
    charl_assert_status(open_path(&s, text_file("p.csv", "1,2\n"), NULL, &r), CHARL_ERR_DATA);
    charl_assert_message("p.csv has 2 columns, m.h5 takes 3");
    /* A field that is no number does not make the first line a header. */
    charl_assert_ok(open_path(&s, text_file("p.csv", "1,NA,3\n"), NULL, &r));
    charl_assert_status(charl__rows_next(r, MOST, x, y, &n), CHARL_ERR_DATA);
    charl_assert_message("p.csv:1: column 1 is missing");
    charl__rows_close(r);
    /* Targets are found by name, and the rest must be the columns. */
    s.columns = (char *)(uintptr_t) "";
    charl_assert_ok(open_path(&s, text_file("p.csv", "z,u,v,y,w\n9,1,2,,3\n,4,5,8,6\n"), NULL, &r));
    assert_note(r, true, "m.h5 has no column names, but ");
    charl_assert_ok(charl__rows_next(r, MOST, x, y, &n));
    assert_int_equal(n, 2);
    assert_true(isnan(y[0][0]) && y[0][1] == 9.0F && y[1][0] == 8.0F && isnan(y[1][1]));
    assert_true(x[1][0] == 4.0F && x[1][1] == 5.0F && x[1][2] == 6.0F);
    charl__rows_close(r);
    charl_assert_ok(open_path(&s, text_file("p.csv", "z,u,v,y,w\n9,1,2,x,3\n"), NULL, &r));
    assert_note(r, true, "m.h5 has no column names, but ");
    charl_assert_ok(charl__rows_next(r, MOST, x, y, &n));
    charl_assert_ok(charl__rows_next(r, MOST, x, y, &n));
    assert_note(r, true, "1 target is no number and is not counted; the first: ");
    charl__rows_close(r);
    charl_assert_status(open_path(&s, text_file("p.csv", "u,v,w,q\n1,2,3,4\n"), NULL, &r), CHARL_ERR_DATA);
    charl_assert_message("4 columns, m.h5 takes 3");
}

static void numbers_must_fit_the_samples(void **state)
{
    charl_data_schema s = model_of(CHARL_I32, "", "");
    charl__rows *r;
    unsigned char x[MOST][3];
    int32_t y[MOST];
    int64_t n;

    (void)state;
    s.x_dtype = CHARL_U8;
    charl_assert_ok(open_path(&s, text_file("u.csv", "a,b,c\n0,255,7\n"), NULL, &r));
    assert_false(r->has_targets);
    charl_assert_ok(charl__rows_next(r, MOST, x, y, &n));
    assert_int_equal(x[0][1], 255);
    charl__rows_close(r);
    charl_assert_ok(open_path(&s, text_file("u.csv", "a,b,c\n0,256,7\n"), NULL, &r));
    charl_assert_status(charl__rows_next(r, MOST, x, y, &n), CHARL_ERR_DATA);
    charl_assert_message("u.csv:2: column \"b\": 256 is no u8, which m.h5 takes");
    charl__rows_close(r);
    s.x_shape = (charl_shape){3, {1, 4, 4}};
    s.kind = CHARL_DATASET_IMAGES;
    charl_assert_status(open_path(&s, text_file("u.csv", "a,b,c\n0,25,7\n"), NULL, &r), CHARL_ERR_DATA);
    charl_assert_message("takes samples of u8 [1, 4, 4]");
    s.kind = CHARL_DATASET_TOKENS;
    charl_assert_status(open_path(&s, text_file("u.csv", "a\n0\n"), NULL, &r), CHARL_ERR_CONFIG);
    charl_assert_message("m.h5 is a language model");
}

static const char *npy_file(const char *name, const char *header, const void *data, size_t bytes)
{
    static char all[4096];
    const size_t length = strlen(header);
    const char *path = charl_test_path(dir, name);

    memcpy(all, "\x93NUMPY\x01\0", 8);
    all[8] = (char)length;
    all[9] = 0;
    memcpy(all + 10, header, length);
    memcpy(all + 10 + length, data, bytes);
    put_file(path, all, 10 + length + bytes);
    return path;
}

static void arrays_are_taken_by_shape(void **state)
{
    charl_data_schema s = model_of(CHARL_I32, "", "");
    const double values[6] = {1, 2, 3, 4, 5, (double)INFINITY};
    charl__rows *r;
    float x[MOST][3];
    int32_t y[MOST];
    int64_t n;

    (void)state;
    charl_assert_ok(open_path(
        &s, npy_file("x.npy", "{'descr': '<f8', 'fortran_order': False, 'shape': (1, 3)}", values, 24), NULL, &r));
    assert_note(r, true, "has no column names, but m.h5 does; columns are matched by position");
    charl_assert_ok(charl__rows_next(r, MOST, x, y, &n));
    assert_int_equal(n, 1);
    assert_true(x[0][2] == 3.0F);
    charl__rows_close(r);
    charl_assert_ok(open_path(
        &s, npy_file("x.npy", "{'descr': '<f8', 'fortran_order': False, 'shape': (2, 3)}", values, 48), NULL, &r));
    charl_assert_status(charl__rows_next(r, MOST, x, y, &n), CHARL_ERR_DATA);
    charl_assert_message("x.npy: inf in row 1 is no finite f32");
    charl__rows_close(r);
    charl_assert_ok(open_path(
        &s, npy_file("x.npy", "{'descr': '<f8', 'fortran_order': False, 'shape': (3,)}", values, 24), NULL, &r));
    charl_assert_ok(charl__rows_next(r, MOST, x, y, &n));
    assert_int_equal(n, 1); /* one sample */
    charl__rows_close(r);
}

static void images_are_taken_by_shape(void **state)
{
    charl_data_schema s = model_of(CHARL_I32, "", "");
    const double values[4] = {1, 2, 3, 4};
    const int16_t pixels[8] = {0, 1, 2, 255, 4, 5, 256, 7}, last[6] = {1, 2, 3, 4, 5, 6};
    unsigned char last_u[6];
    charl__rows *r;
    unsigned char u[MOST][4];
    int32_t y[MOST];
    int64_t n;

    (void)state;
    s.x_dtype = CHARL_U8;
    s.kind = CHARL_DATASET_IMAGES;
    s.columns = (char *)(uintptr_t) "";
    s.x_shape = (charl_shape){3, {1, 2, 2}};
    charl_assert_ok(open_path(
        &s, npy_file("u.npy", "{'descr': '<i2', 'fortran_order': False, 'shape': (2, 2, 2)}", pixels, 16), NULL, &r));
    charl_assert_ok(charl__rows_next(r, 1, u, y, &n));
    assert_int_equal(u[0][3], 255);
    charl_assert_status(charl__rows_next(r, 1, u, y, &n), CHARL_ERR_DATA);
    charl_assert_message("u.npy: 256 in row 1 is no finite u8");
    charl__rows_close(r);
    charl_assert_status(
        open_path(&s, npy_file("x.npy", "{'descr': '<f8', 'fortran_order': False, 'shape': (1, 2, 2)}", values, 32),
                  NULL, &r),
        CHARL_ERR_DATA);
    charl_assert_message("x.astype('uint8')");
    s.x_shape = (charl_shape){3, {3, 1, 2}}; /* channels last */
    charl_assert_ok(open_path(
        &s, npy_file("x.npy", "{'descr': '<i2', 'fortran_order': False, 'shape': (1, 1, 2, 3)}", last, 12), NULL, &r));
    charl_assert_ok(charl__rows_next(r, 1, last_u, y, &n));
    assert_memory_equal(last_u, "\1\4\2\5\3\6", 6);
    charl__rows_close(r);
    s.x_shape = (charl_shape){3, {1, 1, 2}}; /* an IDX file, as MNIST's */
    put_file(charl_test_path(dir, "i.idx"), "\0\0\10\3\0\0\0\2\0\0\0\1\0\0\0\2\7\10\11\12", 20);
    charl_assert_ok(open_path(&s, charl_test_path(dir, "i.idx"), NULL, &r));
    charl_assert_ok(charl__rows_next(r, MOST, last_u, y, &n));
    assert_int_equal(n, 2);
    assert_memory_equal(last_u, "\7\10\11\12", 4);
    charl__rows_close(r);
}

static void data_sets_are_mapped(void **state)
{
    const charl_data_schema s = model_of(CHARL_I32, "kind", "ant\nbee\ncat");
    charl__rows *r;
    float x[MOST][3];
    int32_t y[MOST];
    int64_t n;

    (void)state;
    charl_assert_ok(
        charl_import("csv", NULL, FILES(text_file("d.csv", "c,b,a,kind\n3,2,1,cat\n6,5,4,bee\n")), 1, out, &replace));
    charl_assert_ok(open_path(&s, out, NULL, &r));
    assert_string_equal(r->subject, "train");
    charl_assert_ok(charl__rows_next(r, MOST, x, y, &n));
    assert_int_equal(n, 2);
    assert_true(x[0][0] == 1.0F && x[1][2] == 6.0F);
    assert_int_equal(y[0], 2);
    assert_int_equal(y[1], 1);
    charl_assert_ok(charl__rows_next(r, MOST, x, y, &n));
    assert_int_equal(n, 0);
    charl__rows_close(r);
    charl_assert_ok(
        charl_import("csv", NULL, FILES(text_file("d.csv", "c,b,a,kind\n3,2,1,cow\n6,5,4,bee\n")), 1, out, &replace));
    charl_assert_status(open_path(&s, out, NULL, &r), CHARL_ERR_DATA);
    charl_assert_message("\"cow\"");
}

/* Numbers of either byte order, halves, and IDX files of other types than bytes. */
static void arrays_of_any_numbers_are_read(void **state)
{
    static const struct {
        const char *name, *bytes;
        size_t n;
    } files[] = {{"i.idx", "\0\0\15\2\0\0\0\1\0\0\0\3\77\200\0\0\300\40\0\0\0\0\0\0", 24},
                 {"s.idx", "\0\0\13\2\0\0\0\1\0\0\0\3\0\1\377\376\1\0", 18}};
    static const float want[][3] = {{1, -2.5F, 0}, {1, -2, 256}, {1, -2.5F, 0}, {1, -2.5F, 0}};
    charl_data_schema s = model_of(CHARL_I32, "", "");
    charl__rows *r;
    float x[3];
    int64_t n;

    (void)state;
    s.columns = (char *)(uintptr_t) "";
    for (int i = 0; i < 4; i++) {
        const char *path = i == 2   ? npy_file("b.npy", "{'descr': '>f4', 'fortran_order': False, 'shape': (1, 3)}",
                                               files[0].bytes + 12, 12)
                           : i == 3 ? npy_file("h.npy", "{'descr': '<f2', 'fortran_order': False, 'shape': (1, 3)}",
                                               "\0\74\0\301\0\0", 6)
                                    : charl_test_path(dir, files[i].name);

        if (i < 2) {
            put_file(path, files[i].bytes, files[i].n);
        }
        charl_assert_ok(open_path(&s, path, NULL, &r));
        charl_assert_ok(charl__rows_next(r, 1, x, NULL, &n));
        assert_int_equal(n, 1);
        assert_memory_equal(x, want[i], sizeof x);
        charl__rows_close(r);
    }
}

/* The rows of the files are those that their import, all for training and in order, has written. */
static void assert_reads_alike(const char *const *paths, int64_t n)
{
    enum { BYTES = 4096 };
    charl_dataset_info info;
    charl_dataset *ds = open_out(NULL, &info);
    charl_data_schema *schema = NULL;
    charl__rows *r = NULL;
    unsigned char want[BYTES], x[BYTES];
    int32_t label[2], y[2];
    int64_t got, row = 0;

    charl_assert_ok(charl_data_schema_create(ds, info.n_stats, info.mean, info.std, &schema));
    charl_assert_ok(
        charl__rows_open(&(charl__rows_options){.schema = schema, .model = "m.h5", .paths = paths, .n_paths = n}, &r));
    for (;; row++) {
        const size_t bytes = (size_t)charl_shape_count(&info.x_shape) * charl_dtype_size(info.x_dtype);

        charl_assert_ok(charl__rows_next(r, 1, x, y, &got));
        if (got == 0) {
            break;
        }
        assert_true(bytes <= BYTES && row < info.rows[0]);
        charl_assert_ok(charl_dataset_read(ds, CHARL_SPLIT_TRAIN, &row, 1, want, label));
        assert_memory_equal(x, want, bytes);
        if (r->has_targets) {
            assert_memory_equal(y, label, sizeof *y);
        }
    }
    assert_int_equal(row, info.rows[0]);
    charl__rows_close(r);
    charl_data_schema_destroy(schema);
    charl_dataset_close(ds);
}

/* A model reads a file as its training read it, whatever the options of the import were. */
static void imports_and_predictions_read_alike(void **state)
{
    static const double numbers[6] = {1, 2.5, -3, 4, 1e-3, 6};
    static const unsigned char pixels[8] = {0, 1, 2, 255, 4, 5, 6, 7};
    const char *const *csv = WITH("missing=flag", "label=kind");
    const char *const *special =
        WITH("tokenizer=tests/fuzz/corpus/tokenizer_json/gpt2.json", "special_tokens=yes", "window=9");
    const char *path[2];
    const int64_t row = 0;
    uint16_t tokens[9];
    int32_t y;
    charl_dataset_info info;
    charl_dataset *ds;
    charl_status st;

    (void)state;
    path[0] = text_file("a.csv", "when;town;size;kind\n2024-05-01;Ulm;1,5;x\n2024-06-02;;2,5;y\n2024-06-03;Bonn;;x\n");
    charl_assert_ok(charl_import("csv", csv, FILES(path[0]), 1, out, &replace));
    assert_reads_alike(path, 1);
    path[0] = npy_file("a.npy", "{'descr': '<f8', 'fortran_order': False, 'shape': (2, 3)}", numbers, sizeof numbers);
    path[1] = npy_file("y.npy", "{'descr': '|u1', 'fortran_order': False, 'shape': (2,)}", "\0\1", 2);
    charl_assert_ok(charl_import("npy", NULL, FILES(path[0], path[1]), 2, out, &replace));
    assert_reads_alike(path, 1);
    path[0] = npy_file("a.npy", "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 2, 2)}", pixels, sizeof pixels);
    charl_assert_ok(charl_import("npy", NULL, FILES(path[0], path[1]), 2, out, &replace));
    assert_reads_alike(path, 1);
    path[0] = text_file("a.tsv", "text\tlabel\nso<|endoftext|>it goes on\tx\n\ty\n");
    path[1] = text_file("b.csv", "label,text\ny,a<|endoftext|>\n");
    charl_assert_ok(charl_import("text-classes", NULL, path, 2, out, &replace));
    assert_reads_alike(path, 2);
    st = charl_import("text-classes", special, path, 2, out, &replace);
    if (st != CHARL_ERR_CONFIG) { /* built without libpcre2 */
        charl_assert_ok(st);
        ds = open_out(NULL, &info);
        charl_assert_ok(charl_dataset_read(ds, CHARL_SPLIT_TRAIN, &row, 1, tokens, &y));
        charl_dataset_close(ds);
        assert_int_equal(tokens[2], 258); /* the end of text, and not its letters */
        assert_reads_alike(path, 2);
    }
}

/* A model of f32 does not read other integers than the file has. */
static void integers_that_f32_rounds_are_refused(void **state)
{
    static const char header[] = "{'descr': '<u4', 'fortran_order': False, 'shape': (2, 3)}";
    static const uint32_t values[6] = {1, 2, 3, 4, 16777217, 6};
    const charl_data_schema s = model_of(CHARL_I32, "", "");
    const char *array = npy_file("big.npy", header, values, sizeof values);
    charl__rows *r;
    float x[MOST][3];
    int32_t y[MOST];
    int64_t n;

    (void)state;
    charl_assert_ok(open_path(&s, array, NULL, &r));
    charl_assert_status(charl__rows_next(r, MOST, x, y, &n), CHARL_ERR_DATA);
    charl_assert_message("big.npy: 16777217 in row 1 (element 1) cannot be represented exactly in f32");
    charl__rows_close(r);
    charl_assert_ok(charl_import(
        "npy", NULL,
        FILES(array, npy_file("y.npy", "{'descr': '|u1', 'fortran_order': False, 'shape': (2,)}", "\0\1", 2)), 2, out,
        &replace));
    charl_assert_ok(open_path(&s, out, NULL, &r)); /* the data set holds u32 */
    charl_assert_status(charl__rows_next(r, MOST, x, y, &n), CHARL_ERR_DATA);
    charl_assert_message("out.h5: 16777217 in row 1 (element 1) cannot be represented exactly in f32");
    charl__rows_close(r);
}

static charl_status read_all(void *ctx)
{
    charl_status st = CHARL_OK;
    const char *const *paths = ctx;
    const charl_data_schema s = model_of(CHARL_I32, "kind", "ant\nbee\ncat");
    float x[MOST][3];
    int32_t y[MOST];
    int64_t n = 1;
    charl__rows *r = NULL;

    for (int i = 0; i < 3; i++) {
        CHARL_TRY_CLEANUP(open_path(&s, paths[i], i == 0 ? "who" : NULL, &r));
        CHARL_TRY_CLEANUP(charl__rows_count(r, &n));
        for (n = 1; n > 0;) {
            CHARL_TRY_CLEANUP(charl__rows_next(r, 1, x, y, &n));
        }
        charl__rows_close(r);
        r = NULL;
    }
cleanup:
    charl__rows_close(r);
    return st;
}

static void every_acquisition_may_fail(void **state)
{
    static char paths[3][512];
    const char *list[3];
    const float values[3] = {1, 2, 3};

    (void)state;
    charl_assert_ok(
        charl_import("csv", NULL, FILES(text_file("d.csv", "c,b,a,kind\n3,2,1,cat\n6,5,4,bee\n")), 1, out, &replace));
    snprintf(paths[0], sizeof paths[0], "%s", text_file("f.csv", "c,kind,who,a,b,d\n3,bee,x 1,1,2,0\n6,dog,y,4,5,0\n"));
    snprintf(paths[1], sizeof paths[1], "%s",
             npy_file("f.npy", "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 3)}", values, 12));
    snprintf(paths[2], sizeof paths[2], "%s", out);
    for (int i = 0; i < 3; i++) {
        list[i] = paths[i];
    }
    assert_true(charl_test_fail_every_acquisition(read_all, list) > 40);
}

/* Multiple-choice questions: both forms, labels as numbers and texts, and no leak when memory or the file fails. */

static char questions_path[512];

static void write_lines(const char *text)
{
    FILE *f = fopen(questions_path, "w");

    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static charl_status questions_read_all(void *ctx)
{
    charl__questions q;
    const charl_status st = charl__questions_read(questions_path, &q);

    (void)ctx;
    charl__questions_fini(&q);
    return st;
}

static void test_forms(void **state)
{
    charl__questions q;

    (void)state;
    write_lines("{\"ctx\": \"a b\", \"endings\": [\"c\", \"d\", \"e\"], \"label\": \"2\", \"ind\": 4}\n"
                "\n"
                "{\"question\": \"f?\", \"choices\": {\"text\": [\"g\", \"h\"], \"label\": [\"1\", \"2\"]}, "
                "\"answerKey\": \"2\"}");
    charl_assert_ok(charl__questions_read(questions_path, &q));
    assert_int_equal(q.count, 2);
    assert_string_equal(q.items[0].context, "a b");
    assert_int_equal(q.items[0].n, 3);
    assert_string_equal(q.items[0].endings[2], "e");
    assert_int_equal(q.items[0].answer, 2);
    assert_string_equal(q.items[1].context, "Question: f?\nAnswer:");
    assert_int_equal(q.items[1].answer, 1);
    assert_int_equal(q.items[1].line, 3);
    charl__questions_fini(&q);
    assert_true(charl_test_fail_every_acquisition(questions_read_all, NULL) > 5);
}

static void test_refused(void **state)
{
    static const char *const bad[][2] = {
        {"[1]", "q.jsonl is one JSON array, not lines of JSON; HINT"},
        {"{\"ctx\": 1, \"endings\": [\"a\", \"b\"], \"label\": 0}", "q.jsonl:1: \"ctx\" is not a text"},
        {"{\"ctx\": \"a\", \"endings\": [\"a\", 2], \"label\": 0}", "q.jsonl:1: choice 2 is not a text"},
        {"{\"ctx\": \"a\", \"endings\": [\"a\", \"b\"], \"label\": \"1x\"}",
         "q.jsonl:1: \"label\" is not the number of a choice, 0 to 1"},
        {"{\"ctx\": \"a\", \"endings\": [\"a\", \"b\"], \"label\": -1}", "q.jsonl:1: \"label\" is not the number"},
        {"{\"question\": \"a\", \"choices\": [\"a\", \"b\"]}", "q.jsonl:1: there must be a list of 2 to 64 choices"}};

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        write_lines(bad[i][0]);
        charl_assert_status(questions_read_all(NULL), CHARL_ERR_DATA);
        charl_assert_message(bad[i][1]);
    }
}

static charl_status read_prompts(void *ctx)
{
    charl__prompts p;
    const charl_status st = charl__prompts_read(questions_path, &p);

    (void)ctx;
    charl__prompts_fini(&p);
    return st;
}

static void test_prompts(void **state)
{
    static const char *const want[] = {"a b", "{\"c\""};
    charl__prompts p;

    (void)state;
    write_lines("{\"prompt\": \"a b\", \"n\": 1}\n\n{\"prompt\": \"{\\\"c\\\"\"}\n");
    for (int by_lines = 0; by_lines < 2; by_lines++) {
        charl_assert_ok(charl__prompts_read(questions_path, &p));
        assert_int_equal(p.count, 2);
        for (int i = 0; i < 2; i++) {
            assert_string_equal(p.items[i], want[i]);
        }
        charl__prompts_fini(&p);
        assert_true(charl_test_fail_every_acquisition(read_prompts, NULL) > 5);
        snprintf(questions_path, sizeof questions_path, "%s", charl_test_path(dir, "p.txt"));
        write_lines("a b\r\n\n{\"c\"");
    }
    write_lines("\xef\xbb\xbf" /* a byte order mark is no part of the prompt */
                "a b\n");
    charl_assert_ok(charl__prompts_read(questions_path, &p));
    assert_string_equal(p.items[0], "a b");
    charl__prompts_fini(&p);
    write_lines("\n");
    charl_assert_status(read_prompts(NULL), CHARL_ERR_DATA);
    charl_assert_message("p.txt has no prompts");
    snprintf(questions_path, sizeof questions_path, "%s", charl_test_path(dir, "q.jsonl"));
}

static int setup_lines(void **state)
{
    (void)state;
    snprintf(questions_path, sizeof questions_path, "%s", charl_test_path(dir, "q.jsonl"));
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_are_found_by_name),
        cmocka_unit_test(columns_without_names_stand_in_order),
        cmocka_unit_test(numbers_must_fit_the_samples),
        cmocka_unit_test(arrays_are_taken_by_shape),
        cmocka_unit_test(images_are_taken_by_shape),
        cmocka_unit_test(data_sets_are_mapped),
        cmocka_unit_test(arrays_of_any_numbers_are_read),
        cmocka_unit_test(imports_and_predictions_read_alike),
        cmocka_unit_test(integers_that_f32_rounds_are_refused),
        cmocka_unit_test(every_acquisition_may_fail),
        cmocka_unit_test_setup(test_forms, setup_lines),
        cmocka_unit_test_setup(test_refused, setup_lines),
        cmocka_unit_test_setup(test_prompts, setup_lines),
    };

    return cmocka_run_group_tests(tests, setup, teardown_dir);
}
