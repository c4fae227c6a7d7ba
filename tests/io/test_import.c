/* Importers: what they make, and what they refuse, with the place named. */
#include "io/imports.h"
#include "io/import_sample.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "charl/dataset.h"
#include "charl/import.h"

/* n images of 2x3 whose pixels are 10 i + j, labels i % 3. */
static size_t idx_images(unsigned char *p, int n)
{
    const unsigned char head[] = {0, 0, 8, 3, 0, 0, 0, (unsigned char)n, 0, 0, 0, 2, 0, 0, 0, 3};

    memcpy(p, head, sizeof head);
    for (int i = 0; i < n * 6; i++) {
        p[sizeof head + (size_t)i] = (unsigned char)(10 * (i / 6) + i % 6);
    }
    return sizeof head + (size_t)n * 6;
}

static size_t idx_labels(unsigned char *p, int n)
{
    const unsigned char head[] = {0, 0, 8, 1, 0, 0, 0, (unsigned char)n};

    memcpy(p, head, sizeof head);
    for (int i = 0; i < n; i++) {
        p[sizeof head + (size_t)i] = (unsigned char)(i % 3);
    }
    return sizeof head + (size_t)n;
}

static void idx_pairs_become_images(void **state)
{
    const char *images[2] = {charl_test_path(dir, "img.gz"), charl_test_path(dir, "img2")};
    const char *labels[2] = {charl_test_path(dir, "lab"), charl_test_path(dir, "lab2")};
    unsigned char data[256] = {0};
    size_t bytes = idx_images(data, 20);
    gzFile gz = gzopen(images[0], "wb");
    charl_dataset_info info;
    charl_dataset *ds;
    const int64_t row = 3;
    unsigned char x[6];
    int32_t y;

    (void)state;
    assert_int_equal(gzwrite(gz, data, (unsigned)bytes), bytes);
    gzclose(gz);
    put_file(labels[0], data, idx_labels(data, 20));
    put_file(images[1], data, idx_images(data, 5));
    put_file(labels[1], data, idx_labels(data, 5));
    charl_assert_ok(import_idx(images, labels, out, &replace));
    ds = open_out(NULL, &info);
    assert_int_equal(info.kind, CHARL_DATASET_IMAGES);
    assert_int_equal(info.rows[0], 20);
    assert_int_equal(info.rows[1], 5);
    assert_int_equal(info.rows[2], 0);
    assert_int_equal(info.classes, 3);
    assert_int_equal(info.x_shape.ndim, 3);
    assert_int_equal(info.x_shape.dim[0], 1);
    assert_int_equal(info.x_shape.dim[2], 3);
    charl_assert_ok(charl_dataset_read(ds, CHARL_SPLIT_TRAIN, &row, 1, x, &y));
    assert_int_equal(x[4], 34);
    assert_int_equal(y, 0);
    charl_dataset_close(ds);
    charl_assert_ok(
        import_idx(images, labels, out,
                   &(charl_import_options){sizeof(charl_import_options), .overwrite = true, .val_split = 0.3}));
    ds = open_out(NULL, &info);
    assert_int_equal(info.rows[0], 14);
    assert_int_equal(info.rows[1], 6);
    assert_int_equal(info.rows[2], 5);
    charl_assert_ok(charl_dataset_read(ds, CHARL_SPLIT_VAL, &row, 1, x, &y));
    assert_int_equal(x[0], 170);
    charl_dataset_close(ds);
    charl_assert_status(import_idx(images, labels, out, NULL), CHARL_ERR_CONFIG);
    charl_assert_message("exists already");
}

static void bad_idx_is_refused(void **state)
{
    const char *img[2] = {charl_test_path(dir, "bad-img"), NULL};
    const char *lab[2] = {charl_test_path(dir, "bad-lab"), NULL};
    unsigned char data[256] = {0};
    size_t bytes;

    (void)state;
    put_file(lab[0], data, idx_labels(data, 20));
    put_file(img[0], data, idx_images(data, 19));
    charl_assert_status(import_idx(img, lab, out, &replace), CHARL_ERR_DATA);
    charl_assert_message("19 rows but");
    bytes = idx_images(data, 20);
    put_file(img[0], data, bytes - 1);
    charl_assert_status(import_idx(img, lab, out, &replace), CHARL_ERR_DATA);
    charl_assert_message("truncated: the elements take 120 bytes, but 119 are there");
    put_file(img[0], data, bytes + 1);
    charl_assert_status(import_idx(img, lab, out, &replace), CHARL_ERR_DATA);
    charl_assert_message("more data than its header says");
    charl_assert_status(import_idx(lab, lab, out, &replace), CHARL_ERR_DATA);
    charl_assert_message("exchanged");
    data[2] = 10;
    put_file(img[0], data, bytes);
    charl_assert_status(import_idx(img, lab, out, &replace), CHARL_ERR_DATA);
    charl_assert_message("0x0a");
    data[0] = 'P';
    put_file(img[0], data, bytes);
    charl_assert_status(import_idx(img, lab, out, &replace), CHARL_ERR_DATA);
    charl_assert_message("not an IDX file");
    img[0] = charl_test_path(dir, "missing");
    charl_assert_status(import_idx(img, lab, out, &replace), CHARL_ERR_DATA);
    charl_assert_message("No such file");
    img[0] = charl_test_path(dir, "fifo");
    assert_int_equal(mkfifo(img[0], 0600), 0);
    charl_assert_status(import_idx(img, lab, out, &replace), CHARL_ERR_DATA);
    charl_assert_message("not a regular file");
    charl_assert_status(charl_import("idx", NULL, lab, 1, out, &replace), CHARL_ERR_CONFIG);
    charl_assert_message("idx takes IMAGES LABELS [IMAGES LABELS], not 1 file");
}

/* Nothing is made for the four thousand million images of a header whose file cannot hold them. */
static void idx_that_announces_too_much_is_refused(void **state)
{
    static const unsigned char images[] = {0, 0, 8, 3, 255, 255, 255, 243, 0, 0, 0, 2, 1, 0, 9, 138, 11, 61};
    static const unsigned char labels[] = {0, 0, 8, 1, 255, 255, 255, 243, 0, 0};
    const char *img[2] = {charl_test_path(dir, "many"), NULL};
    const char *lab[2] = {charl_test_path(dir, "many-lab"), NULL};
    gzFile gz;

    (void)state;
    put_file(img[0], images, sizeof images);
    put_file(lab[0], labels, sizeof labels);
    charl_assert_status(import_idx(img, lab, out, &replace), CHARL_ERR_DATA);
    charl_assert_message("many: truncated: the elements take 144136164259858428");
    charl_assert_message(" bytes, but 2 are there");
    img[0] = charl_test_path(dir, "many.gz");
    gz = gzopen(img[0], "wb");
    assert_int_equal(gzwrite(gz, images, sizeof images), sizeof images);
    gzclose(gz);
    charl_assert_status(import_idx(img, lab, out, &replace), CHARL_ERR_DATA);
    charl_assert_message("compressed ones can hold");
}

static void a_truncated_gzip_is_refused(void **state)
{
    const char *img[2] = {charl_test_path(dir, "cut.gz"), NULL};
    const char *lab[2] = {charl_test_path(dir, "cut-lab"), NULL};
    unsigned char data[256] = {0};
    struct stat info;
    gzFile gz = gzopen(img[0], "wb");

    (void)state;
    assert_true(gzwrite(gz, data, (unsigned)idx_images(data, 20)) > 0);
    gzclose(gz);
    assert_int_equal(stat(img[0], &info), 0);
    assert_int_equal(truncate(img[0], info.st_size - 12), 0);
    put_file(lab[0], data, idx_labels(data, 20));
    charl_assert_status(import_idx(img, lab, out, &replace), CHARL_ERR_DATA);
    charl_assert_message("cut.gz");
    charl_assert_message("truncated");
}

static void cifar_records_become_images(void **state)
{
    enum { RECORD = 3073, N = 300 };
    const char *train[2] = {charl_test_path(dir, "c1.bin"), charl_test_path(dir, "c2.bin")};
    unsigned char *data = calloc(N, RECORD);
    charl_dataset_info info;
    charl_dataset *ds;
    const int64_t row = 301;
    static unsigned char x[3072];
    int32_t y;

    (void)state;
    assert_non_null(data);
    for (int i = 0; i < N; i++) {
        data[i * RECORD] = (unsigned char)(i % 10);
        data[i * RECORD + 1] = (unsigned char)i;
        data[i * RECORD + 3072] = (unsigned char)(i + 5);
    }
    put_file(train[0], data, (size_t)N * RECORD);
    put_file(train[1], data, (size_t)10 * RECORD);
    charl_assert_ok(charl_import("cifar10", WITH(given("test", train[1])), train, 2, out, &replace));
    ds = open_out(NULL, &info);
    assert_int_equal(info.rows[0], N + 10);
    assert_int_equal(info.rows[1], 10);
    assert_int_equal(info.classes, 10);
    assert_int_equal(info.n_stats, 3);
    assert_non_null(strstr(info.class_names, "airplane\n"));
    charl_assert_ok(charl_dataset_read(ds, CHARL_SPLIT_TRAIN, &row, 1, x, &y));
    assert_int_equal(x[0], 1);
    assert_int_equal(x[3071], 6);
    assert_int_equal(y, 1);
    charl_dataset_close(ds);
    put_file(train[1], data, (size_t)RECORD - 1);
    charl_assert_status(charl_import("cifar10", NULL, train, 2, out, &replace), CHARL_ERR_DATA);
    charl_assert_message("not a whole number");
    data[0] = 10;
    put_file(train[1], data, RECORD);
    charl_assert_status(charl_import("cifar10", NULL, train, 2, out, &replace), CHARL_ERR_DATA);
    charl_assert_message("label 10 in record 0");
    charl_assert_status(charl_import("cifar10", NULL, train, 0, out, &replace), CHARL_ERR_CONFIG);
    free(data);
}

static void csv_becomes_a_table(void **state)
{
    const char *path = text_file("a.csv", "\xef\xbb\xbfwidth, \"the \"\"height\"\"\",kind,weight\r\n"
                                          "1.5,2,\"cat, big\",-1e2\r\n"
                                          "\r\n"
                                          "3, 4 ,dog,5\r\n"
                                          "5,6,\"cat, big\",7");
    const char *const *csv = WITH("label=kind");
    charl_dataset_info info;
    charl_dataset *ds;
    const int64_t rows[] = {0, 1, 2};
    float x[3][3];
    int32_t y[3];
    const double want[] = {1.5, 2, -100};

    (void)state;
    charl_assert_ok(charl_import("csv", csv, FILES(path), 1, out, &replace));
    ds = open_out(NULL, &info);
    assert_int_equal(info.kind, CHARL_DATASET_TABLE);
    assert_int_equal(info.rows[0], 3);
    assert_int_equal(info.classes, 2);
    assert_string_equal(info.class_names, "cat, big\ndog");
    assert_string_equal(info.columns, "width\nthe \"height\"\nweight");
    charl_assert_ok(charl_dataset_read(ds, CHARL_SPLIT_TRAIN, rows, 3, x, y));
    charl_assert_close(x[0], want, 3, 0);
    assert_int_equal(y[0], 0);
    assert_int_equal(y[1], 1);
    assert_int_equal(y[2], 0);
    assert_int_equal(info.n_stats, 3);
    charl_dataset_close(ds);
}

/* The number of a class must not depend on which row comes first. */
static void csv_classes_are_numbered_in_sorted_order(void **state)
{
    static const char *const orders[] = {"a,kind\n1,dog\n2,cat\n3,Zebra\n4,\xc3\xa4"
                                         "ffin\n",
                                         "a,kind\n4,\xc3\xa4"
                                         "ffin\n3,Zebra\n2,cat\n1,dog\n"};
    const int64_t rows[] = {0, 1, 2, 3};
    const int32_t want[2][4] = {{2, 1, 0, 3}, {3, 0, 1, 2}};
    charl_dataset_info info;
    charl_dataset *ds;
    int32_t y[4];

    (void)state;
    for (int i = 0; i < 2; i++) {
        charl_assert_ok(charl_import("csv", NULL, FILES(text_file("o.csv", orders[i])), 1, out, &replace));
        ds = open_out(NULL, &info);
        assert_string_equal(info.class_names, "Zebra\ncat\ndog\n\xc3\xa4"
                                              "ffin");
        charl_assert_ok(charl_dataset_read(ds, CHARL_SPLIT_TRAIN, rows, 4, NULL, y));
        assert_memory_equal(y, want[i], sizeof y);
        charl_dataset_close(ds);
    }
}

/* Labels are numbers only if each is written as its number is: 01 and 1 are two classes. */
static void csv_labels_with_zeros_are_names(void **state)
{
    static const char *const texts[] = {"1,01\n2,1\n3,2\n", "1,+1\n2,1\n", "1,00\n2,01\n", "1,-0\n2,0\n"};
    static const char *const names[] = {"01\n1\n2", "+1\n1", "00\n01", "-0\n0"};
    charl_dataset_info info;

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        charl_dataset *ds;

        charl_assert_ok(charl_import("csv", NULL, FILES(text_file("z.csv", texts[i])), 1, out, &replace));
        ds = open_out(NULL, &info);
        assert_string_equal(info.class_names, names[i]);
        charl_dataset_close(ds);
    }
}

static void csv_labels_and_headers(void **state)
{
    const char *numbers = text_file("n.csv", "4,1,2\n2,3,4\n");
    const char *targets = text_file("r.csv", "x;y\n1;2.5\n3;4\n");
    charl_dataset_info info;
    charl_dataset *ds;
    const int64_t rows[] = {0, 1};
    int32_t y[2];
    float v[2];
    const double want[] = {2.5, 4};

    (void)state;
    charl_assert_ok(charl_import("csv", WITH("label=0"), FILES(numbers), 1, out, &replace));
    ds = open_out(NULL, &info);
    assert_int_equal(info.rows[0], 2); /* no header */
    assert_int_equal(info.classes, 2);
    assert_string_equal(info.class_names, "2\n4"); /* not 5 classes of which 3 never occur */
    charl_assert_ok(charl_dataset_read(ds, CHARL_SPLIT_TRAIN, rows, 2, NULL, y));
    assert_int_equal(y[0], 1);
    charl_dataset_close(ds);
    charl_assert_ok(charl_import("csv", NULL, FILES(numbers), 1, out, &replace)); /* the last column */
    ds = open_out(NULL, &info);
    charl_assert_ok(charl_dataset_read(ds, CHARL_SPLIT_TRAIN, rows, 2, NULL, y));
    assert_int_equal(y[1], 1);
    charl_dataset_close(ds);
    charl_assert_ok(
        charl_import("csv", WITH("label=-1", "regression=yes", "separator=;"), FILES(targets), 1, out, &replace));
    ds = open_out(NULL, &info);
    assert_int_equal(info.kind, CHARL_DATASET_REGRESSION);
    assert_int_equal(info.y_dtype, CHARL_F32);
    assert_int_equal(info.classes, 0);
    charl_assert_ok(charl_dataset_read(ds, CHARL_SPLIT_TRAIN, rows, 2, NULL, v));
    charl_assert_close(v, want, 2, 0);
    charl_dataset_close(ds);
}

/* Rows that an import of `text` makes; -1: refused, with a message that says what to do. */
static int64_t rows_of(const char *text, const char *label, const char *header)
{
    const char *const *csv = WITH(given("label", label), given("header", header));
    const char *path = text_file("h.csv", text);
    charl_dataset_info info;

    if (charl_import("csv", csv, FILES(path), 1, out, &replace) != CHARL_OK) {
        charl_assert_message("h.csv:1: \"");
        charl_assert_message("is not a number, but ");
        charl_assert_message("--header yes or --header no");
        return -1;
    }
    charl_dataset_close(open_out(NULL, &info));
    return info.rows[0];
}

static void csv_typing_error_is_no_header(void **state)
{
    (void)state;
    assert_int_equal(rows_of("1.O,2,0\n3,4,1\n", NULL, "auto"), -1);
    assert_int_equal(rows_of("1,2,0\n3,4,1\n", NULL, "auto"), 2);
    assert_int_equal(rows_of("1.O,2.O,0\n3,4,1\n", NULL, "auto"), -1);
    assert_int_equal(rows_of("NA,2,cat\n3,4,dog\n", NULL, "auto"), -1);
    /* Names that are numbers: the years of a table. */
    assert_int_equal(rows_of("area,1990,y\n3,4,1\n", NULL, "auto"), -1);
    assert_int_equal(rows_of("area,1990,y\n3,4,1\n", NULL, "yes"), 1);
    assert_int_equal(rows_of("area,1990,y\n3,4,1\n", "y", "auto"), 1);
    assert_int_equal(rows_of("1990,1991,y\n3,4,1\n", "y", "auto"), 1);
    assert_int_equal(rows_of("1990,1991,0\n3,4,1\n", NULL, "yes"), 1);
    /* What pandas writes for columns without names. */
    assert_int_equal(rows_of("0,1,target\n1,2,0\n2,3,1\n", NULL, "auto"), -1);
    assert_int_equal(rows_of("0,1,target\n1,2,0\n2,3,1\n", "2", "auto"), -1);
    assert_int_equal(rows_of("0,1,target\n1,2,0\n2,3,1\n", "target", "auto"), 2);
    assert_int_equal(rows_of("0,1,target\n1,2,0\n2,3,1\n", NULL, "yes"), 2);
    assert_int_equal(rows_of("0,1,target\n1,2,0\n2,3,1\n", NULL, "no"), 3);
    assert_int_equal(rows_of("0,1,target\n1,2,0\n2,3,x\n", NULL, "auto"), 3);
    assert_int_equal(rows_of("0,1,a\n1,2,b\n", NULL, "auto"), 2);
    charl_assert_status(
        charl_import("csv", WITH("header=no"), FILES(text_file("h.csv", "a,b\n3,1\n")), 1, out, &replace),
        CHARL_ERR_DATA);
    charl_assert_message("h.csv:1: column 0: \"a\" is not a number");
}

static void csv_targets_may_be_several(void **state)
{
    const char *path = text_file("m.csv", "a,b,\"c,d\",e\n1,0,1,7\n0,2,0,8\n1,4,1,9\n");
    const int64_t rows[] = {0, 1, 2};
    const double numbers[] = {0, 7, 2, 8, 4, 9};
    const int32_t flags[] = {1, 1, 0, 0, 1, 1};
    charl_dataset_info info;
    charl_dataset *ds;
    int32_t y[6];
    float v[6];

    (void)state;
    charl_assert_ok(charl_import("csv", WITH("label=b,3", "regression=yes"), FILES(path), 1, out, &replace));
    ds = open_out(NULL, &info);
    assert_int_equal(info.y_shape.dim[0], 2);
    assert_string_equal(info.columns, "a\nc,d");
    charl_assert_ok(charl_dataset_read(ds, CHARL_SPLIT_TRAIN, rows, 3, NULL, v));
    charl_assert_close(v, numbers, 6, 0);
    charl_dataset_close(ds);
    charl_assert_ok(charl_import("csv", WITH("label=0,2"), FILES(path), 1, out, &replace)); /* labels */
    ds = open_out(NULL, &info);
    assert_int_equal(info.y_dtype, CHARL_I32);
    assert_int_equal(info.classes, 2);
    charl_assert_ok(charl_dataset_read(ds, CHARL_SPLIT_TRAIN, rows, 3, NULL, y));
    assert_memory_equal(y, flags, sizeof flags);
    charl_dataset_close(ds);
    charl_assert_ok(charl_import("csv", WITH("label=c,d"), FILES(path), 1, out, &replace));
    ds = open_out(NULL, &info);
    assert_int_equal(info.y_shape.ndim, 0); /* one column of that name */
    charl_dataset_close(ds);
}

typedef struct bad_csv {
    const char *text;
    const char *label;
    charl_status status;
    const char *message;
} bad_csv;

static void bad_csv_is_refused_with_its_line(void **state)
{
    static const bad_csv cases[] = {
        {"a,b\n1,2\n3\n", NULL, CHARL_ERR_DATA, "bad.csv:3: 1 field, but the first line has 2"},
        {"a,b\n1,2\n3,4,5\n", NULL, CHARL_ERR_DATA, "bad.csv:3: 3 fields"},
        {"a,b\n1,2\n\n,4\n", NULL, CHARL_ERR_DATA, "bad.csv:4: column \"a\" is missing"},
        {"a,b\n1,2\n3,\n", NULL, CHARL_ERR_DATA, "bad.csv:3: the label is missing"},
        {"a,b\n1,x\n3,NA\n", NULL, CHARL_ERR_DATA,
         "bad.csv:3: the label is missing: \"NA\" stands for a missing value"},
        {"a,b\n1,2\n3,4\n5,NaN\n", NULL, CHARL_ERR_DATA, "bad.csv:4: the label is missing: \"NaN\""},
        {"a,b\n1,null\n", NULL, CHARL_ERR_DATA, "bad.csv:2: the label is missing: \"null\""},
        {"a,b\n1,2\nx,4\n", NULL, CHARL_ERR_DATA, "bad.csv:3: column \"a\": \"x\" is not a number"},
        {"a,b\nnan,2\n1,2\n", NULL, CHARL_ERR_DATA, "bad.csv:2: column \"a\" is missing"},
        {"a,b\nnan,2\nNA,2\n", NULL, CHARL_ERR_DATA, "every column but the target is left out"},
        {"a,b\n1,2\n0x10,2\n", NULL, CHARL_ERR_DATA, "\"0x10\" is not a number"},
        {"a,b\n1e60,2\n", NULL, CHARL_ERR_DATA, "too large for f32"},
        {"a,b\n1,\"x\n2,3\n", NULL, CHARL_ERR_DATA, "bad.csv:2: a quote is not closed"},
        {"a,b\n1,\"x\"y\n", NULL, CHARL_ERR_DATA, "bad.csv:2: text after a closing quote"},
        {"a,b\n1,x\"y\n", NULL, CHARL_ERR_DATA, "bad.csv:2: stray quote"},
        {"a,b\n1,\"x\ny\"\n", NULL, CHARL_ERR_DATA, "bad.csv:2: a class name with a line end"},
        {"a,b\n1,x\n2,caf\xe9\n", NULL, CHARL_ERR_DATA, "bad.csv:3: a class name that is not UTF-8"},
        {"gr\xf6\xdf\x65,b\n1,2\n", NULL, CHARL_ERR_DATA, "bad.csv:1: the name of a column that is not UTF-8"},
        {"\"a\nc\",b\n1,2\n", NULL, CHARL_ERR_DATA, "the name of a column with a line end"},
        {"a,a,b\n1,2,3\n", NULL, CHARL_ERR_DATA, "bad.csv:1: two columns have the name \"a\""},
        {"a,b,b\n1,2,3\n", NULL, CHARL_ERR_DATA, "bad.csv:1: two columns have the name \"b\""},
        {"a,,b\n1,2,3\n", NULL, CHARL_ERR_DATA, "bad.csv:1: column 1 has no name"},
        {"a\xc2\x9b,b\n1,2\n", NULL, CHARL_ERR_DATA,
         "bad.csv:1: the name of a column with the control or invisible character U+009B"},
        {"a,b\n1,x\xe2\x80\xae\n", NULL, CHARL_ERR_DATA,
         "bad.csv:2: a class name with the control or invisible character U+202E"},
        {"a,b\n1,\"x\ty\"\n", NULL, CHARL_ERR_DATA, "bad.csv:2: a class name with a tab"},
        {"\xef\xbb,b\n1,2\n", NULL, CHARL_ERR_DATA, "bad.csv:1: not text in UTF-8"},
        {"a,b\n", NULL, CHARL_ERR_DATA, "a header but no rows"},
        {"a\n1\n", NULL, CHARL_ERR_DATA, "the first line has 1 field"},
        {"", NULL, CHARL_ERR_DATA, "empty"},
        {"\n\n", NULL, CHARL_ERR_DATA, "there are no lines"},
        {"a,b\n1,2\n", "c", CHARL_ERR_CONFIG, "no column \"c\""},
        {"a,b\n1,2\n", "2", CHARL_ERR_CONFIG, "column 2 of 2 columns"},
        {"a,b\n1,2\n", "-3", CHARL_ERR_CONFIG, "column -3"},
        {"a,b,c\n1,2,3\n", "a,-3", CHARL_ERR_CONFIG, "column -3 is a target twice"},
        {"a,b\n1,2\n", "a,b", CHARL_ERR_CONFIG, "every column is a target"},
        {"a,b,c\n1,0,1\n1,1,2\n", "b,c", CHARL_ERR_DATA, "bad.csv:3: column \"c\": \"2\" is neither 0 nor 1"},
    };

    (void)state;
    unlink(out);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *path = text_file("bad.csv", cases[i].text);
        const char *const *csv = WITH(given("label", cases[i].label));

        charl_assert_status(charl_import("csv", csv, FILES(path), 1, out, NULL), cases[i].status);
        charl_assert_message(cases[i].message);
        assert_int_not_equal(access(out, F_OK), 0);
    }
    charl_assert_status(
        charl_import("csv", WITH("separator=\""), FILES(text_file("bad.csv", "a,b\n1,2\n")), 1, out, NULL),
        CHARL_ERR_CONFIG);
}

static void too_many_classes_hint_at_regression(void **state)
{
    const char *path = charl_test_path(dir, "many.csv");
    FILE *f = fopen(path, "w");

    (void)state;
    for (int i = 0; i < 100001; i++) {
        fprintf(f, "1,%d.5\n", i);
    }
    fclose(f);
    charl_assert_status(charl_import("csv", NULL, FILES(path), 1, out, &replace), CHARL_ERR_DATA);
    charl_assert_message("many.csv:100001: more than 100000 different labels are too many for classes");
    charl_assert_message("--regression");
}

static void put_npy(const char *path, const char *header, const void *data, size_t bytes)
{
    unsigned char head[10] = "\x93NUMPY\x01";
    const size_t length = strlen(header);
    FILE *f = fopen(path, "wb");

    head[8] = (unsigned char)length;
    head[9] = (unsigned char)(length >> 8);
    assert_non_null(f);
    assert_int_equal(fwrite(head, 1, 10, f), 10);
    assert_int_equal(fwrite(header, 1, length, f), length);
    assert_int_equal(fwrite(data, 1, bytes, f), bytes);
    assert_int_equal(fclose(f), 0);
}

static void npy_arrays_are_converted(void **state)
{
    const char *x = charl_test_path(dir, "x.npy");
    const char *y = charl_test_path(dir, "y.npy");
    const unsigned char pixels[12] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
    const int64_t labels[3] = {2, 0, 1};
    const double values[6] = {0.5, -1, 2, 3, 1e-3, 7};
    const double targets[3] = {1.5, -2, 3};
    charl_dataset_info info;
    charl_dataset *ds;
    const int64_t rows[] = {0, 1, 2};
    unsigned char p[12];
    int32_t c[3];
    float f[6];
    float t[3];

    (void)state;
    put_npy(x, "{'descr': '|u1', 'fortran_order': False, 'shape': (3, 2, 2), }\n", pixels, 12);
    put_npy(y, "{'descr': '<i8', 'fortran_order': False, 'shape': (3,), }\n", labels, 24);
    charl_assert_ok(charl_import("npy", NULL, FILES(x, y), 2, out, &replace));
    ds = open_out(NULL, &info);
    assert_int_equal(info.kind, CHARL_DATASET_IMAGES);
    assert_int_equal(info.x_shape.ndim, 3);
    assert_int_equal(info.classes, 3);
    charl_assert_ok(charl_dataset_read(ds, CHARL_SPLIT_TRAIN, rows, 3, p, c));
    assert_memory_equal(p, pixels, 12);
    assert_int_equal(c[0], 2);
    charl_dataset_close(ds);
    put_npy(x, "{'descr': '<f8', 'fortran_order': False, 'shape': (3, 2), }\n", values, 48);
    put_npy(y, "{'descr': '<f8', 'fortran_order': False, 'shape': (3,), }\n", targets, 24);
    charl_assert_ok(charl_import("npy", NULL, FILES(x, y), 2, out, &replace));
    ds = open_out(NULL, &info);
    assert_int_equal(info.kind, CHARL_DATASET_REGRESSION);
    assert_int_equal(info.x_dtype, CHARL_F32);
    charl_assert_ok(charl_dataset_read(ds, CHARL_SPLIT_TRAIN, rows, 3, f, t));
    charl_assert_close(f, values, 6, 1e-7);
    charl_assert_close(t, targets, 3, 0);
    charl_dataset_close(ds);
}

/* Labels such as years are names, in every format alike: numbers up to 2012 would be 2,013 outputs. */
static void labels_far_apart_are_names(void **state)
{
    char x[512], y[512];
    static const struct {
        int64_t label[4];
        int64_t classes;
        const char *names;
        int32_t first; /* class of the first sample */
    } cases[] = {
        {{2012, 2010, 2011, 2010}, 3, "2010\n2011\n2012", 2},
        {{0, 1, 2, 1}, 3, "", 0},
        {{1, 2, 3, 3}, 4, "", 1}, /* from 1 on, as other languages count */
        {{0, 70000, 70000, 0}, 2, "0\n70000", 0},
        {{3, 4, 3, 4}, 2, "3\n4", 0},
        {{3, -1, 5, 4}, 3, "3\n4\n5", 0},
    };
    const float values[4] = {1, 2, 3, 4};
    static int64_t prices[200];
    static float many[200];
    const int64_t rows[] = {0, 1};
    charl_dataset_info info;
    charl_dataset *ds;
    int32_t c[2];
    char text[256];

    (void)state;
    snprintf(x, sizeof x, "%s", charl_test_path(dir, "x.npy"));
    snprintf(y, sizeof y, "%s", charl_test_path(dir, "y.npy"));
    put_npy(x, "{'descr': '<f4', 'fortran_order': False, 'shape': (4, 1), }\n", values, sizeof values);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put_npy(y, "{'descr': '<i8', 'fortran_order': False, 'shape': (4,), }\n", cases[i].label,
                sizeof cases[i].label);
        charl_assert_ok(charl_import("npy", NULL, FILES(x, y), 2, out, &replace));
        ds = open_out(NULL, &info);
        assert_int_equal(info.classes, cases[i].classes);
        assert_string_equal(info.class_names, cases[i].names);
        charl_assert_ok(charl_dataset_read(ds, CHARL_SPLIT_TRAIN, rows, 2, NULL, c));
        assert_int_equal(c[0], cases[i].first);
        charl_dataset_close(ds);
        snprintf(text, sizeof text, "x,y\n1,%lld\n2,%lld\n3,%lld\n4,%lld\n", (long long)cases[i].label[0],
                 (long long)cases[i].label[1], (long long)cases[i].label[2], (long long)cases[i].label[3]);
        if (!strchr(text, '-')) { /* -1 is a name in a CSV file */
            charl_assert_ok(charl_import("csv", NULL, FILES(text_file("y.csv", text)), 1, out, &replace));
            ds = open_out(NULL, &info);
            assert_int_equal(info.classes, cases[i].classes);
            assert_string_equal(info.class_names, cases[i].names);
            charl_dataset_close(ds);
        }
    }
    for (int i = 0; i < 200; i++) {
        prices[i] = 31 * i;
    }
    put_npy(x, "{'descr': '<f4', 'fortran_order': False, 'shape': (200, 1), }\n", many, sizeof many);
    put_npy(y, "{'descr': '<i8', 'fortran_order': False, 'shape': (200,), }\n", prices, sizeof prices);
    charl_assert_status(charl_import("npy", NULL, FILES(x, y), 2, out, &replace), CHARL_ERR_DATA);
    charl_assert_message("has 200 different labels from 0 to 6169, too many and too far apart for classes; HINT store");
}

/* A measured number as a target is told from classes. */
static void many_numbers_are_no_classes(void **state)
{
    static char text[8192];
    charl_dataset_info info;
    size_t length = (size_t)snprintf(text, sizeof text, "x,price\n");

    (void)state;
    for (int i = 0; i < 400; i++) {
        length += (size_t)snprintf(text + length, sizeof text - length, "%d,%d.5\n", i % 7, i);
    }
    charl_assert_status(charl_import("csv", NULL, FILES(text_file("p.csv", text)), 1, out, &replace), CHARL_ERR_DATA);
    charl_assert_message("the target, column \"price\", has 400 different numbers");
    charl_assert_message(
        "HINT --regression if the model is to predict a number, --categorical \"price\" if they are classes");
    charl_assert_ok(charl_import("csv", WITH("categorical=price"), FILES(text_file("p.csv", text)), 1, out, &replace));
    charl_dataset_close(open_out(NULL, &info));
    assert_int_equal(info.classes, 400);
    charl_assert_ok(charl_import("csv", WITH("regression=yes"), FILES(text_file("p.csv", text)), 1, out, &replace));
}

typedef struct bad_npy {
    const char *header;
    size_t bytes;
    const char *message;
} bad_npy;

static void hdf5_by_attribute_needs_a_name(void **state)
{
    const char *file = charl_test_path(dir, "groups.h5");

    (void)state;
    charl_assert_status(charl_import("hdf5", WITH("x=/*/x", "y=@"), &file, 1, out, &replace), CHARL_ERR_CONFIG);
    charl_assert_message("y names no attribute; write @NAME");
}

/* Of NumPy's savez and savez_compressed: x [6, 4] u8 0, 1, ... and y 0, 1, 2, 0, ..., or texts. */
static void archives_of_arrays_are_read(void **state)
{
    static const struct {
        const char *path, *names;
    } cases[] = {{"tests/fuzz/corpus/npz/stored", ""}, {"tests/fuzz/corpus/npz/deflated", "a\nb\nc"}};
    static char cut[300];
    const char *path = charl_test_path(dir, "cut.npz");
    const int64_t row = 4;
    charl_dataset_info info;
    unsigned char x[4];
    int32_t y;
    FILE *f;

    (void)state;
    for (int i = 0; i < 2; i++) {
        charl_dataset *ds;

        charl_assert_ok(charl_import("npy", NULL, FILES(cases[i].path), 1, out, &replace));
        ds = open_out(NULL, &info);
        assert_int_equal(info.classes, 3);
        assert_string_equal(info.class_names, cases[i].names);
        charl_assert_ok(charl_dataset_read(ds, CHARL_SPLIT_TRAIN, &row, 1, x, &y));
        assert_memory_equal(x, "\x10\x11\x12\x13", 4);
        assert_int_equal(y, 1);
        charl_dataset_close(ds);
    }
    f = fopen(cases[0].path, "rb");
    assert_non_null(f);
    assert_int_equal(fread(cut, 1, sizeof cut, f), sizeof cut);
    fclose(f);
    put_file(path, cut, sizeof cut);
    charl_assert_status(charl_import("npy", NULL, FILES(path), 1, out, &replace), CHARL_ERR_DATA);
    charl_assert_message("cut.npz: the zip archive is cut short");
}

static void channels_in_the_end_are_moved(void **state)
{
    static unsigned char pixels[8 * 8 * 3];
    const char *x = charl_test_path(dir, "last.npy"), *y = charl_test_path(dir, "text.npy");
    charl_dataset_info info;
    charl_dataset *ds;
    unsigned char got[sizeof pixels];
    const int64_t row = 0;
    int32_t label;

    (void)state;
    for (size_t i = 0; i < sizeof pixels; i++) {
        pixels[i] = (unsigned char)i;
    }
    put_npy(x, "{'descr': '|u1', 'fortran_order': False, 'shape': (1, 8, 8, 3), }", pixels, sizeof pixels);
    put_npy(y, "{'descr': '<U2', 'fortran_order': False, 'shape': (1,), }", "\xe4\0\0\0\0\0\0\0", 8);
    charl_assert_ok(charl_import("npy", NULL, FILES(x, y), 2, out, &replace));
    ds = open_out(NULL, &info);
    assert_int_equal(info.x_shape.dim[0], 3);
    assert_string_equal(info.class_names, "\xc3\xa4");
    charl_assert_ok(charl_dataset_read(ds, CHARL_SPLIT_TRAIN, &row, 1, got, &label));
    assert_int_equal(got[1], 3);
    assert_int_equal(got[64], 1);
    charl_dataset_close(ds);
    charl_assert_status(charl_import("npy", NULL, FILES(y, x), 2, out, &replace), CHARL_ERR_DATA);
    charl_assert_message("text.npy holds text, samples are numbers");
}

static void bad_npy_is_refused(void **state)
{
    static const bad_npy cases[] = {
        {"{'descr': '|u1', 'fortran_order': True, 'shape': (3, 2), }", 6, "Fortran order"},
        {"{'descr': '<c8', 'fortran_order': False, 'shape': (3, 2), }", 48, "not imported"},
        {"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (3,), }", 12, "structured"},
        {"{'descr': '|u1', 'fortran_order': False, 'shape': (3, 2), }", 5, "truncated"},
        {"{'descr': '|u1', 'fortran_order': False, 'shape': (1152921504606846976, 2), }", 6, "truncated: the elements"},
        {"{'descr': '|u1', 'fortran_order': False, 'shape': (3, 2), }", 7, "more data"},
        {"{'descr': '|u1', 'fortran_order': False, 'shape': (3, 0), }", 0, "positive extents"},
        {"{'descr': '|u1', 'fortran_order': False, 'shape': (), }", 1, "without dimensions"},
        {"{'descr': '|u1', 'fortran_order': False, 'shape': (2, 3), }", 6, "2 rows but"},
        {"{'descr': '|u1', 'fortran_order': False, 'shape': (3, 4611686018427387904, 4), }", 6, "more than"},
    };
    const char *x = charl_test_path(dir, "bx.npy");
    const char *y = charl_test_path(dir, "by.npy");
    static const unsigned char zeros[3 * 16 * 16 * 3];
    const float nan_values[3] = {0, NAN, 0};

    (void)state;
    put_npy(y, "{'descr': '|u1', 'fortran_order': False, 'shape': (3,), }", zeros, 3);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put_npy(x, cases[i].header, zeros, cases[i].bytes);
        charl_assert_status(charl_import("npy", NULL, FILES(x, y), 2, out, &replace), CHARL_ERR_DATA);
        charl_assert_message(cases[i].message);
    }
    put_npy(x, "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }", nan_values, 12);
    charl_assert_status(charl_import("npy", NULL, FILES(x, y), 2, out, &replace), CHARL_ERR_DATA);
    charl_assert_message("bx.npy: nan in row 1 is no finite f32");
    put_file(x, "hello, world", 12);
    charl_assert_status(charl_import("npy", NULL, FILES(x, y), 2, out, &replace), CHARL_ERR_DATA);
    charl_assert_message("is a text, not an array (.npy, .npz or IDX)");
}

/* Integers that f32 would round are not stored as others; those that it holds are. */
static void npy_integers_that_f32_rounds_are_refused(void **state)
{
    static const struct {
        const char *type, *shown;
        uint64_t good, bad;
        size_t bytes;
    } cases[] = {
        {"i4", "16777217", 16777216, 16777217, 4},
        {"i4", "-16777219", (uint32_t)INT32_MIN, (uint32_t)-16777219, 4},
        {"i8", "9007199254740993", UINT64_C(1) << 62, (UINT64_C(1) << 53) + 1, 8},
        {"u8", "18446744073709551615", UINT64_C(1) << 63, UINT64_MAX, 8},
    };
    const char *x = charl_test_path(dir, "ix.npy");
    const char *y = charl_test_path(dir, "iy.npy");
    static const unsigned char labels[2] = {0, 1};
    const int64_t rows[] = {0, 1};
    charl_dataset_info info;
    charl_dataset *ds;
    char header[80], message[120];
    unsigned char raw[16] = {0};
    float f[2];

    (void)state;
    put_npy(y, "{'descr': '|u1', 'fortran_order': False, 'shape': (2,), }", labels, 2);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(header, sizeof header, "{'descr': '<%s', 'fortran_order': False, 'shape': (2, 1), }", cases[i].type);
        memset(raw, 0, sizeof raw);
        memcpy(raw + cases[i].bytes, &cases[i].good, cases[i].bytes);
        put_npy(x, header, raw, 2 * cases[i].bytes);
        charl_assert_ok(charl_import("npy", NULL, FILES(x, y), 2, out, &replace));
        ds = open_out(NULL, &info);
        charl_assert_ok(charl_dataset_read(ds, CHARL_SPLIT_TRAIN, rows, 2, f, NULL));
        assert_true(f[1] == (cases[i].type[0] == 'u' ? (float)cases[i].good
                             : cases[i].bytes == 4   ? (float)(int32_t)cases[i].good
                                                     : (float)(int64_t)cases[i].good));
        charl_dataset_close(ds);
        memcpy(raw + cases[i].bytes, &cases[i].bad, cases[i].bytes);
        put_npy(x, header, raw, 2 * cases[i].bytes);
        charl_assert_status(charl_import("npy", NULL, FILES(x, y), 2, out, &replace), CHARL_ERR_DATA);
        snprintf(message, sizeof message, "ix.npy: %s in row 1 (element 0) cannot be represented exactly in f32",
                 cases[i].shown);
        charl_assert_message(message);
    }
}

/* More rows than are read at once. */
static void npy_labels_that_are_no_classes(void **state)
{
    enum { ROWS = 300000 };
    const char *x = charl_test_path(dir, "lx.npy");
    const char *y = charl_test_path(dir, "ly.npy");
    int32_t *labels;

    (void)state;
    labels = charl_test_array(ROWS, sizeof *labels);
    put_npy(x, "{'descr': '|u1', 'fortran_order': False, 'shape': (300000,), }", labels, ROWS);
    labels[ROWS - 1] = -7;
    put_npy(y, "{'descr': '<i4', 'fortran_order': False, 'shape': (300000,), }", labels, ROWS * sizeof *labels);
    charl_assert_status(charl_import("npy", NULL, FILES(x, y), 2, out, &replace), CHARL_ERR_DATA);
    charl_assert_message("ly.npy: -7 in row 299999 is not a class");
    charl_free(labels);
}

/* The first labels of the MNIST test set are 7 2 1 0 4, and its mean pixel is 33.79. */
static void real_mnist_is_imported(void **state)
{
    char images_path[512];
    const char *images[2] = {images_path, NULL};
    const char *labels[2] = {NULL, NULL};
    const int64_t rows[] = {0, 1, 2, 3, 4};
    const int32_t want[] = {7, 2, 1, 0, 4};
    const double mean = 33.791;
    charl_dataset_info info;
    charl_dataset *ds;
    int32_t y[5];

    (void)state;
    snprintf(images_path, sizeof images_path, "%s", charl_test_data("mnist10k/images-idx3-ubyte.gz"));
    labels[0] = charl_test_data("mnist10k/labels-idx1-ubyte.gz");
    charl_assert_ok(import_idx(images, labels, out, &replace));
    ds = open_out(NULL, &info);
    assert_int_equal(info.rows[0], 10000);
    assert_int_equal(info.classes, 10);
    charl_assert_close(info.mean, &mean, 1, 1e-4);
    charl_assert_ok(charl_dataset_read(ds, CHARL_SPLIT_TRAIN, rows, 5, NULL, y));
    assert_memory_equal(y, want, sizeof want);
    charl_assert_ok(charl_dataset_verify(ds));
    charl_dataset_close(ds);
}

static charl_status import_all(void *ctx)
{
    const char *const *paths = ctx;
    const char *images[2] = {paths[1], NULL};
    const char *labels[2] = {paths[2], NULL};
    charl_status st = charl_import("csv", NULL, FILES(paths[0]), 1, out, &replace);

    if (st == CHARL_OK) {
        st = import_idx(images, labels, out, &replace);
    }
    return st == CHARL_OK ? charl_import("npy", NULL, FILES(paths[3], paths[4]), 2, out, &replace) : st;
}

static void every_acquisition_may_fail(void **state)
{
    static char paths[5][512];
    static const char *const names[] = {"f.csv", "f-img", "f-lab", "f-x.npy", "f-y.npy"};
    const char *list[5];
    unsigned char data[256] = {0};

    (void)state;
    for (int i = 0; i < 5; i++) {
        snprintf(paths[i], sizeof paths[i], "%s", charl_test_path(dir, names[i]));
        list[i] = paths[i];
    }
    text_file("f.csv", "a,b\n1,x\n2,y\n");
    put_file(list[1], data, idx_images(data, 4));
    put_file(list[2], data, idx_labels(data, 4));
    put_npy(list[3], "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }", "\0\0\0\0\0\0\0\0\0\0\0", 12);
    put_npy(list[4], "{'descr': '|u1', 'fortran_order': False, 'shape': (3,), }", "\0\1\2", 3);
    assert_true(charl_test_fail_every_acquisition(import_all, list) > 60);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(idx_pairs_become_images),
        cmocka_unit_test(bad_idx_is_refused),
        cmocka_unit_test(idx_that_announces_too_much_is_refused),
        cmocka_unit_test(a_truncated_gzip_is_refused),
        cmocka_unit_test(cifar_records_become_images),
        cmocka_unit_test(csv_becomes_a_table),
        cmocka_unit_test(csv_classes_are_numbered_in_sorted_order),
        cmocka_unit_test(csv_labels_with_zeros_are_names),
        cmocka_unit_test(csv_labels_and_headers),
        cmocka_unit_test(csv_typing_error_is_no_header),
        cmocka_unit_test(csv_targets_may_be_several),
        cmocka_unit_test(bad_csv_is_refused_with_its_line),
        cmocka_unit_test(archives_of_arrays_are_read),
        cmocka_unit_test(channels_in_the_end_are_moved),
        cmocka_unit_test(too_many_classes_hint_at_regression),
        cmocka_unit_test(npy_arrays_are_converted),
        cmocka_unit_test(labels_far_apart_are_names),
        cmocka_unit_test(many_numbers_are_no_classes),
        cmocka_unit_test(hdf5_by_attribute_needs_a_name),
        cmocka_unit_test(bad_npy_is_refused),
        cmocka_unit_test(npy_labels_that_are_no_classes),
        cmocka_unit_test(npy_integers_that_f32_rounds_are_refused),
        cmocka_unit_test(real_mnist_is_imported),
        cmocka_unit_test(every_acquisition_may_fail),
    };

    return cmocka_run_group_tests(tests, setup, teardown_dir);
}
