/* CSV files as they come: what columns become, and that new rows become the same. */
#include "io/imports.h"
#include "io/import_sample.h"

#include <math.h>

#include "base/error.h"
#include "charl/import.h"
#include "charl/data_schema.h"
#include "data/table/recipe.h"
#include "data/rows/rows.h"

static char said[4096];

static void remember(void *ctx, const char *text)
{
    (void)ctx;
    snprintf(said + strlen(said), sizeof said - strlen(said), "%s\n", text);
}

static charl_dataset *import_text(const char *text, const char *const *csv, double val_split, charl_dataset_info *info)
{
    const charl_import_options o = {sizeof o, .overwrite = true, .noted = remember, .val_split = val_split};

    said[0] = '\0';
    charl_assert_ok(charl_import("csv", csv, FILES(text_file("t.csv", text)), 1, out, &o));
    return open_out(NULL, info);
}

static void refuse(const char *text, const char *const *csv, charl_status status, const char *message)
{
    charl_assert_status(charl_import("csv", csv, FILES(text_file("t.csv", text)), 1, out, &replace), status);
    charl_assert_message(message);
}

static void assert_rows(charl_dataset *ds, charl_split split, int64_t n, int64_t columns, const float *wanted)
{
    float x[64];
    int64_t rows[16];

    for (int64_t i = 0; i < n; i++) {
        rows[i] = i;
    }
    charl_assert_ok(charl_dataset_read(ds, split, rows, n, x, NULL));
    for (int64_t i = 0; i < n * columns; i++) {
        if (memcmp(&x[i], &wanted[i], sizeof(float)) != 0) {
            print_error("value %d is %.9g, not %.9g\n", (int)i, (double)x[i], (double)wanted[i]);
            fail();
        }
    }
}

/* Semicolons, decimal commas, CRLF, a byte order mark, an index without a name, quotes, words, dates, gaps. */
static const char awkward[] = "\xef\xbb\xbf;width;\"the; town\";day;kind\r\n"
                              "0;1,5;Ulm;2024-03-01;a\r\n"
                              "1;NA;\"new \"\"York\"\"\";1970-01-01;b\r\n"
                              "2;3;Ulm;;a\r\n"
                              "3;2,5;?;2000-02-29;b\r\n";
static const char *const fills[] = {"missing=mean,day:median", "na=?,-", NULL};

static const char awkward_columns[] =
    "width\nthe; town=Ulm\nthe; town=new \"York\"\nthe; town_missing\nday_days\nday_month\nday_weekday";
/* 1970-01-01 was a Thursday, weekday 3; the median of the three days is that of February. */
static const float awkward_rows[] = {
    1.5F, 1, 0, 0, 19783, 3, 4, (float)(7.0 / 3), 0, 1, 0, 0, 1, 3, 3, 1, 0, 0, 11016, 2, 3,
    2.5F, 0, 0, 1, 11016, 2, 1};

static void awkward_file_is_a_table(void **state)
{
    charl_dataset_info info;
    charl_dataset *ds = import_text(awkward, fills, 0, &info);

    (void)state;
    assert_string_equal(info.columns, awkward_columns);
    assert_string_equal(info.targets, "kind");
    assert_string_equal(info.class_names, "a\nb");
    assert_non_null(strstr(said, "separated by ;"));
    assert_non_null(strstr(said, "decimal comma"));
    assert_non_null(strstr(said, "column 0 has no name and counts the rows"));
    assert_non_null(strstr(said, "column \"width\": 1 missing, filled with 2.33333"));
    assert_rows(ds, CHARL_SPLIT_TRAIN, 4, 7, awkward_rows);
    charl_dataset_close(ds);
}

static charl_status read_new(const charl_data_schema *s, const char *text, int64_t *n, float *x, int32_t *y,
                             char **warnings)
{
    charl_status st = CHARL_OK;
    const char *paths[] = {text_file("new.csv", text)};
    const charl__rows_options o = {.schema = s, .model = "m.h5", .paths = paths, .n_paths = 1};
    charl__rows *rows = NULL;
    int64_t none = 0;

    *warnings = NULL;
    CHARL_TRY_CLEANUP(charl__rows_open(&o, &rows));
    CHARL_TRY_CLEANUP(charl__rows_next(rows, 8, x, y, n));
    CHARL_TRY_CLEANUP(charl__rows_next(rows, 8, x, y, &none));
    *warnings = charl__rows_drain_notes(rows, true);
cleanup:
    charl__rows_close(rows);
    return st;
}

/* What training made of a file, prediction makes of it and of others; if it did not, a model would see other numbers. */
static void new_rows_become_the_same(void **state)
{
    charl_dataset_info info;
    charl_dataset *ds = import_text(awkward, fills, 0, &info);
    charl_data_schema *s = NULL;
    float x[64];
    int32_t y[8];
    int64_t n = 0;
    char *warnings = NULL;

    (void)state;
    charl_assert_ok(charl_data_schema_create(ds, info.n_stats, info.mean, info.std, &s));
    charl_assert_ok(read_new(s, awkward, &n, x, y, &warnings));
    assert_int_equal(n, 4);
    assert_memory_equal(x, awkward_rows, sizeof awkward_rows);
    assert_int_equal(y[1], 1);
    assert_null(warnings);
    charl_assert_ok(
        read_new(s, "1,5;Ulm;2024-03-01\n2,5;?;2000-02-29\n", &n, x, y, &warnings)); /* a short file without names */
    assert_int_equal(n, 2);
    assert_memory_equal(x, awkward_rows, 7 * sizeof *x);
    assert_memory_equal(x + 7, awkward_rows + 21, 7 * sizeof *x);
    assert_non_null(strstr(warnings, "columns are matched by position"));
    charl_free(warnings);
    /* Other order and separator, no target, a word that training did not see. */
    charl_assert_ok(read_new(s, "day|the; town|width|more\n2024-03-01|Rome|-|1\n|Ulm|1,5|2\n", &n, x, y, &warnings));
    assert_int_equal(n, 2);
    assert_non_null(strstr(warnings, "1 word does not occur in the training data of m.h5 and is treated as unknown"));
    assert_non_null(strstr(warnings, "new.csv:2: column \"the; town\": \"Rome\""));
    assert_memory_equal(x, ((const float[]){(float)(7.0 / 3), 0, 0, 0, 19783, 3, 4, 1.5F, 1, 0, 0, 11016, 2, 3}),
                        14 * sizeof(float));
    charl_free(warnings);
    charl_assert_status(read_new(s, "day;the; town;width\n1;Ulm;2\n", &n, x, y, &warnings), CHARL_ERR_DATA);
    charl_assert_message("new.csv");
    charl_assert_status(read_new(s, "day;\"the; town\";width\nsoon;Ulm;2\n", &n, x, y, &warnings), CHARL_ERR_DATA);
    charl_assert_message("new.csv:2: column \"day\": \"soon\" is not a date");
    charl_data_schema_destroy(s);
    charl_dataset_close(ds);
}

static void recipe_stands_in_a_text(void **state)
{
    static const char *const bad[] = {
        "decimal\t.\n",
        "decimal\t;\nmissing\n",
        "decimal\t.\nmissing\nnumber\ta\terror\t0\n",
        "decimal\t.\nmissing\nnumber\ta\tnever\t0\t0\n",
        "decimal\t.\nmissing\nnumber\ta\terror\t0\t0\t1\n",
        "decimal\t.\nmissing\nwords\ta\terror\t0\tb\ta\n",
        "decimal\t.\nmissing\ndate\ta\terror\t0\tdmy\t0\t1\t2\n",
        "decimal\t.\nmissing\ntarget\ta\tb\n",
        "decimal\t.\nmissing\nnumber\ta\terror\t0\t0",
    };
    static const char good[] =
        "decimal\t,\nmissing\t?\t-\nnumber\ta\tflag\t1\t0.10000000000000001\nwords\tb\terror\t0\tx\ty\n"
        "date\tc\tdrop\t0\tmdy\t1\t1\t2\t3\t4.5\ndropped\td\ntarget\te\n";
    charl__recipe r;
    charl__text text = {0};

    (void)state;
    charl_assert_ok(charl__recipe_parse("m", good, &r));
    charl_assert_ok(charl__recipe_print(&r, &text));
    assert_string_equal(charl__text_string(&text), good);
    assert_int_equal(charl__recipe_width(&r), 2 + 2 + 4);
    charl__text_fini(&text);
    charl__recipe_fini(&r);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        charl_assert_status(charl__recipe_parse("m", bad[i], &r), CHARL_ERR_DATA);
        charl_assert_message("m: ");
        charl__recipe_fini(&r);
    }
}

static void columns_are_chosen(void **state)
{
    static const char text[] = "a,\"b,c\",d,e\n1,2,3,0\n4,5,6,1\n";
    charl_dataset_info info;
    charl_dataset *ds = import_text(text, WITH("columns=d,a"), 0, &info);

    (void)state;
    assert_string_equal(info.columns, "a\nd"); /* in the order of the file */
    assert_rows(ds, CHARL_SPLIT_TRAIN, 2, 2, (const float[]){1, 3, 4, 6});
    charl_dataset_close(ds);
    ds = import_text(text, WITH("drop=b,c", "categorical=2"), 0, &info);
    assert_string_equal(info.columns, "a\nd=3\nd=6");
    charl_dataset_close(ds);
    refuse(text, WITH("columns=x"), CHARL_ERR_CONFIG, "there is no column \"x\"");
    refuse(text, WITH("drop=e"), CHARL_ERR_CONFIG, "--drop e: it is the target");
    refuse(text, WITH("drop=a", "categorical=a"), CHARL_ERR_CONFIG, "--categorical a: it is left out");
    refuse(text, WITH("drop=0,1,2"), CHARL_ERR_DATA, "every column but the target is left out");
}

static void missing_values_are_filled(void **state)
{
    static const char text[] = "a,b,y\n1,,0\n,4,1\n3,6,0\n7,null,1\n";
    charl_dataset_info info;
    charl_dataset *ds = import_text(text, WITH("missing=drop"), 0, &info);

    (void)state;
    assert_int_equal(info.rows[0], 1);
    assert_non_null(strstr(said, "3 of 4 rows are left out: values are missing"));
    charl_dataset_close(ds);
    ds = import_text(text, WITH("missing=a:median,b:flag"), 0, &info);
    assert_string_equal(info.columns, "a\nb\nb_missing");
    assert_rows(ds, CHARL_SPLIT_TRAIN, 4, 3, (const float[]){1, 5, 1, 3, 4, 0, 3, 6, 0, 7, 5, 1});
    charl_dataset_close(ds);
    ds = import_text(",a,y\n1,3,0\n2,,1\n3,4,0\n4,9,1\n", WITH("missing=drop"), 0, &info);
    assert_string_equal(info.columns, "a"); /* the index counts the row that is left out, too */
    charl_dataset_close(ds);
    /* Columns that are left out take no row with them: row names, and a column without values. */
    ds = import_text(",a,y\n1,3,0\n,2,1\n3,4,0\n4,9,1\n", WITH("missing=drop"), 0, &info);
    assert_string_equal(info.columns, "a");
    assert_int_equal(info.rows[0], 4);
    charl_dataset_close(ds);
    ds = import_text("a,b,y\n1,,0\n2,,1\n,,0\n", WITH("missing=drop"), 0, &info);
    assert_string_equal(info.columns, "a");
    assert_int_equal(info.rows[0], 2);
    charl_dataset_close(ds);
    refuse("a,y\n1,0\n2,\n", WITH("regression=yes"), CHARL_ERR_DATA,
           "t.csv:3: column \"y\" is missing; HINT a row without a target");
    ds = import_text("a,y\n1,0\n2,\n", WITH("missing=y:drop"), 0, &info);
    assert_int_equal(info.rows[0], 1);
    charl_dataset_close(ds);
    refuse(text, NULL, CHARL_ERR_DATA, "t.csv:2: column \"b\" is missing; so are values of \"a\"; HINT --missing drop");
    refuse(text, WITH("missing=a:mode"), CHARL_ERR_CONFIG, "\"mode\" is none of drop, mean, median and flag");
    refuse(text, WITH("missing=c:mean"), CHARL_ERR_CONFIG, "there is no column \"c\" among \"a\", \"b\", ");
    refuse("Age,y\n1,0\n2,1\n", WITH("label=age"), CHARL_ERR_CONFIG, "(did you mean \"Age\"?)");
    refuse(text, WITH("missing=y:mean"), CHARL_ERR_CONFIG, "a missing target can only be dropped");
    refuse("a,y\nx,0\n,1\n", WITH("missing=a:mean"), CHARL_ERR_CONFIG, "is categorical, so it has no mean");
    refuse("a,y\n,0\n,1\n", WITH("missing=drop"), CHARL_ERR_DATA, "every column but the target is left out");
    refuse("a,b,y\n,1,0\n1,,1\n", WITH("missing=drop"), CHARL_ERR_DATA, "every row has a missing value");
}

static void decimal_signs_and_separators_are_found(void **state)
{
    static const struct {
        const char *text;
        float x[2];
    } found[] = {
        {"1,5;2,5;0\n3;4;1\n", {1.5F, 2.5F}}, {"1.5\t2.5\t0\n3\t4\t1\n", {1.5F, 2.5F}}, {"a;b;y\n1;2;0\n", {1, 2}},
        {"a|b|y\n1|2,5|0\n", {1, 2.5F}},      {"\"1,5\",2,0\n3,4,1\n", {1.5F, 2}},
    };
    static const struct {
        const char *text;
        const char *decimal;
        float x[2];
    } said_signs[] = {{"a;y\n1.250;0\n980;1\n", "comma", {1250, 980}},
                      {"a;y\n1.250;0\n980;1\n", "point", {1.25F, 980}},
                      {"a;y\n1.234,5;0\n2,5;1\n", "comma", {1234.5F, 2.5F}},
                      {"a,y\n\"-1,234.5\",0\n\"1,000\",1\n", "point", {-1234.5F, 1000}},
                      {"a;y\n1.250 EUR;0\n980 EUR;1\n", "comma", {1250, 980}},
                      {"a,y\n\"$1,250\",0\n$-9.5,1\n", "point", {1250, -9.5F}}};
    charl_data_schema *schema = NULL;
    char *warnings;
    float x[64];
    int32_t y[8];
    int64_t n;
    charl_dataset_info info;
    charl_dataset *ds;

    (void)state;
    for (size_t i = 0; i < sizeof found / sizeof *found; i++) {
        const bool last = i + 1 == sizeof found / sizeof *found; /* between commas only where it is said */
        const char *const *csv = WITH(given("decimal", last ? "comma" : "auto"));

        ds = import_text(found[i].text, csv, 0, &info);
        assert_rows(ds, CHARL_SPLIT_TRAIN, 1, 2, found[i].x);
        charl_dataset_close(ds);
    }
    /* A hint of what cannot be read must not lead to another error: both signs are tried. */
    refuse(
        "a,y\n\"1,234\",0\n5,1\n", NULL, CHARL_ERR_DATA,
        "t.csv:2: column \"a\": \"1,234\" may have a decimal sign or a thousands separator; HINT --decimal point reads "
        "1234, --decimal comma reads 1.234, --categorical");
    refuse("a;b;y\n1,5;2.5;0\n", NULL, CHARL_ERR_DATA,
           "column \"a\": \"1,5\" has a comma for a decimal sign; HINT write all numbers with one decimal sign");
    refuse("a,y\n\"1,5\",0\n", NULL, CHARL_ERR_DATA, "HINT --decimal comma reads 1.5, --categorical");
    refuse("a;y\n1.234,50;0\n2.345,60;1\n", NULL, CHARL_ERR_DATA,
           "t.csv:2: column \"a\": \"1.234,50\" has thousands separators; HINT --decimal comma reads 1234.5, "
           "--categorical");
    refuse("a,y\n5,0\n\"-1,234.5\",1\n", NULL, CHARL_ERR_DATA, "t.csv:3: column \"a\": \"-1,234.5\" has thousands");
    refuse("a;y\n1.234.567;0\n", NULL, CHARL_ERR_DATA, "\"1.234.567\" has thousands separators");
    refuse("a;y\n12,345,678;0\n", NULL, CHARL_ERR_DATA, "HINT --decimal point reads 12345678, --categorical");
    refuse("a;y\n1.250;0\n980;1\n", NULL, CHARL_ERR_DATA,
           "HINT --decimal point reads 1.25, --decimal comma reads 1250, --categorical");
    refuse("a;y\n1.250;0\n2.000;1\n", NULL, CHARL_ERR_DATA, "\"1.250\" may have a decimal sign");
    for (size_t i = 0; i < sizeof said_signs / sizeof *said_signs; i++) {
        ds = import_text(said_signs[i].text, WITH(given("decimal", said_signs[i].decimal)), 0, &info);
        assert_rows(ds, CHARL_SPLIT_TRAIN, 2, 1, said_signs[i].x);
        charl_assert_ok(charl_data_schema_create(ds, info.n_stats, info.mean, info.std, &schema));
        charl_assert_ok(read_new(schema, said_signs[i].text, &n, x, y, &warnings)); /* new rows are read alike */
        assert_memory_equal(x, said_signs[i].x, sizeof said_signs[i].x);
        charl_free(warnings);
        charl_data_schema_destroy(schema);
        charl_dataset_close(ds);
    }
    ds = import_text("a;y\n1.250;0\n2.5;1\n", NULL, 0, &info); /* nobody writes 2.5 for 25 */
    assert_rows(ds, CHARL_SPLIT_TRAIN, 2, 1, (const float[]){1.25F, 2.5F});
    charl_dataset_close(ds);
    ds = import_text("a;y\n1.234,50;0\n2;1\n", WITH("categorical=a"), 0, &info);
    assert_string_equal(info.columns, "a=1.234,50\na=2");
    charl_dataset_close(ds);
    refuse("\xff\xfe"
           "a",
           NULL, CHARL_ERR_DATA, "is text in UTF-16, not a CSV file; HINT convert it: ");
    ds = import_text("\"age\" \"w\" \"kind\"\n\"a\" 5 1.5 0\n\"b\" 7 2.5 1\n", NULL, 0, &info); /* R's write.table */
    assert_string_equal(info.columns, "age\nw");
    assert_rows(ds, CHARL_SPLIT_TRAIN, 2, 2, (const float[]){5, 1.5F, 7, 2.5F});
    charl_dataset_close(ds);
    refuse("a,b,y\n1,2,0,\n3,4,1,\n", NULL, CHARL_ERR_DATA, "4 fields, but the first line has 3");
    refuse("Ants, and bees\na,b,y\n1,2,0\n", NULL, CHARL_ERR_DATA,
           "3 fields, but the first line has 2; HINT lines above");
    refuse("1,2\n3,4,5\n", NULL, CHARL_ERR_DATA, "this line may be a header, such as one of years, or a row");
    put_file(charl_test_path(dir, "wide.csv"), "a\0,\0b\0\n\0001\0,\0002\0\n\0", 16); /* without a mark */
    charl_assert_status(charl_import("csv", NULL, FILES(charl_test_path(dir, "wide.csv")), 1, out, &replace),
                        CHARL_ERR_DATA);
    charl_assert_message("wide.csv is text in UTF-16");
}

/* Identifiers and times in seconds may become equal. A number with a decimal sign is a float, whose rounding is no news. */
static void integers_that_f32_rounds_are_noted(void **state)
{
    static const struct {
        const char *text, *note;
        bool regression;
    } cases[] = {
        {"a,y\n16777216,0\n-33554436,1\n16777217.0,0\n1.6777217e7,1\n340282346638528859811704183484516925440,0\n", "",
         false},
        {"a,y\n1,0\n16777217,1\n", "column \"a\" holds integers that f32 rounds, such as 16777217;", false},
        {"a,y\n1,0\n-0016777217,1\n", "such as -0016777217;", false},
        {"a,y\n1,0\n9007199254740993,1\n16777217,1\n", "such as 9007199254740993;", false},
        {"a,y\n1,16777217\n", "column \"y\" holds integers that f32 rounds", true},
    };
    charl_dataset_info info;
    charl_dataset *ds;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ds = import_text(cases[i].text, WITH(cases[i].regression ? "regression=yes" : NULL), 0, &info);
        charl_dataset_close(ds);
        if ((strstr(said, "that f32 rounds") != NULL) != (cases[i].note[0] != '\0') || !strstr(said, cases[i].note)) {
            fail_msg("case %d: %s", (int)i, said);
        }
    }
    /* A text that stands for a missing value is no number, and its fill no integer of the file. */
    ds = import_text("a,y\n16777216,0\n99999999,1\n", WITH("missing=mean", "na=99999999"), 0, &info);
    assert_rows(ds, CHARL_SPLIT_TRAIN, 2, 1, (const float[]){16777216.0F, 16777216.0F});
    charl_dataset_close(ds);
    assert_null(strstr(said, "that f32 rounds"));
}

static void words_and_typing_errors_are_told_apart(void **state)
{
    char many[4096] = "id,name,y\n";

    (void)state;
    refuse("a,y\n1,0\n2.x,1\n", NULL, CHARL_ERR_DATA,
           "t.csv:3: column \"a\": \"2.x\" is not a number, but \"1\" in line 2 is");
    refuse("a,y\n1970-01-01,0\n7,1\n", NULL, CHARL_ERR_DATA, "\"1970-01-01\" is not a number");
    refuse("a,y\n2024-02-30,0\n", NULL, CHARL_ERR_DATA, "t.csv:2: column \"a\": \"2024-02-30\" is not a date");
    refuse("a,y\n01/02/2024,0\n", NULL, CHARL_ERR_DATA, "--dates dmy or --dates mdy");
    refuse("a,y\n01/02/2024,0\n01/13/2024,1\n13/01/2024,0\n", NULL, CHARL_ERR_DATA,
           "13/01/2024 in line 4 has the day first, 01/13/2024 in line 3 the month");
    refuse("a,b,y\n1,u,0\n2,\"v\nw\",1\n", NULL, CHARL_ERR_DATA,
           "t.csv:3: column \"b\": a category with a line end; HINT");
    refuse("a,a=x,y\nx,1,0\n", NULL, CHARL_ERR_DATA, "\"a=x\" is in the list twice");
    for (int i = 0; i < 40; i++) {
        snprintf(many + strlen(many), sizeof many - strlen(many), "%d,n%dx,%d\n", i, i, i % 2);
    }
    refuse(many, NULL, CHARL_ERR_DATA,
           "these columns have too many different values to be categories: name; HINT leave them out with --drop name");
}

static void numbers_with_a_unit_are_numbers(void **state)
{
    static const char text[] = "rate,price,weight,y\n45%,$12,70 kg,0\n-5%,$7.5,81.5 kg,1\n";
    static const float wanted[] = {45, 12, 70, -5, 7.5F, 81.5F};
    charl_dataset_info info;
    charl_dataset *ds = import_text(text, NULL, 0, &info);
    charl_data_schema *s = NULL;
    float x[64];
    int32_t y[8];
    int64_t n = 0;
    char *warnings = NULL;

    (void)state;
    assert_string_equal(info.columns, "rate\nprice\nweight");
    assert_non_null(strstr(said, "column \"rate\" holds numbers such as \"45%\": they are read without \"%\""));
    assert_rows(ds, CHARL_SPLIT_TRAIN, 2, 3, wanted);
    charl_assert_ok(charl_data_schema_create(ds, info.n_stats, info.mean, info.std, &s));
    charl_assert_ok(read_new(s, text, &n, x, y, &warnings));
    assert_memory_equal(x, wanted, sizeof wanted);
    charl_free(warnings);
    charl_assert_status(read_new(s, "rate,price,weight\n45,$12,70 kg\n", &n, x, y, &warnings), CHARL_ERR_DATA);
    charl_assert_message("column \"rate\": \"45\" is not a number such as 12%");
    charl_data_schema_destroy(s);
    charl_dataset_close(ds);
    /* What may mean another number, or none, is left to the user. */
    refuse("a,b,y\n5 kg,u,0\n4 lb,u,1\n", NULL, CHARL_ERR_DATA,
           "t.csv:2: column \"a\": \"5 kg\" begins or ends with a number, but is neither a number with the same unit "
           "as the "
           "others nor a date");
    refuse("a,b,y\n0-4,Q1,0\n5-9,Q2,1\n", NULL, CHARL_ERR_DATA,
           "so it is in the columns a,b; HINT --categorical a,b if the values are categories, --drop a,b to leave them "
           "out");
    refuse("a,y\n10.0.0.1,0\n1.2.3,1\n1234.567.8,1\n", NULL, CHARL_ERR_DATA,
           "\"10.0.0.1\" begins or ends with a number");
    refuse("a,y\n45%,0\n12,1\n", NULL, CHARL_ERR_DATA, "\"45%\" is not a number, but \"12\" in line 3 is");
    ds = import_text("a,y\nfew 1,0\nsome,1\nmany,1\n", NULL, 0, &info); /* words, of which one ends with a number */
    assert_string_equal(info.columns, "a=few 1\na=many\na=some");
    charl_dataset_close(ds);
}

static void dates_have_many_forms(void **state)
{
    static const struct {
        const char *date;
        const char *order;
        float x[4];
    } cases[] = {
        {"2023-05-01 10:30:00+00:00", "auto", {19478, 5, 0, 10.5F}},
        {"2023-05-01T01:30:00+0200", "auto", {19477, 4, 6, 23.5F}},
        {"2023-12-31 23:00-02", "auto", {19723, 1, 0, 1}},
        {"5/13/2023 12:30 AM", "auto", {19490, 5, 5, 0.5F}},
        {"May 1, 2023 1:30 pm", "auto", {19478, 5, 0, 13.5F}},
        {"1 May 2023 00:00", "auto", {19478, 5, 0, 0}},
        {"01-September-2023 06:00", "auto", {19601, 9, 4, 6}},
        {"2023.05.01 06:00", "auto", {19478, 5, 0, 6}},
        {"01.05.23 06:00", "dmy", {19478, 5, 0, 6}},
        {"05/01/23 06:00", "mdy", {19478, 5, 0, 6}},
        {"23-05-01 06:00", "ymd", {19478, 5, 0, 6}},
        {"01.05.69 06:00", "dmy", {-245, 5, 3, 6}},
    };
    charl_dataset_info info;
    charl_dataset *ds;
    char text[128];

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(text, sizeof text, "d,y\n\"%s\",0\n\"%s\",1\n", cases[i].date, cases[i].date);
        ds = import_text(text, WITH(given("dates", cases[i].order)), 0, &info);
        assert_rows(ds, CHARL_SPLIT_TRAIN, 1, 4, cases[i].x);
        charl_dataset_close(ds);
    }
    refuse("d,y\n01.05.23,0\n13.06.23,1\n", NULL, CHARL_ERR_DATA,
           "t.csv:2: column \"d\": the order of day, month and year in \"01.05.23\" is not known; HINT --dates dmy, "
           "--dates mdy "
           "or --dates ymd");
    refuse("d,y\n01.05.23,0\n13.06.23,1\n", WITH("dates=mdy"), CHARL_ERR_DATA, "\"13.06.23\" is not a date");
    refuse("d,y\n2023-05-01 10:00Z,0\n2023-05-01 10:00,1\n", NULL, CHARL_ERR_DATA, "has a time zone");
    refuse("d,y\n2023-W05,0\n2023-W06,1\n", NULL, CHARL_ERR_DATA, "\"2023-W05\" begins or ends with a number");
    refuse("d,y\nMay 2023,0\nJune 2023,1\n", NULL, CHARL_ERR_DATA, "\"May 2023\" begins or ends with a number");
}

/* What stands around a table: Excel's line sep=, comments, lines above it, blanks between fields, an index without a name. */
static void tables_as_people_have_them(void **state)
{
    static const struct {
        const char *text;
        int64_t skip;
        const char *columns, *note;
    } cases[] = {
        {"sep=;\na;b;y\n1;2;0\n3;4;1\n", 0, "a\nb", "separated by ;"},
        {"\xef\xbb\xbf\"sep=,\"\r\na,b,y\r\n1,2,0\r\n3,4,1\r\n", 0, "a\nb", ""},
        {"# it's a \"tool\"\n#\na,b,y\n1,2,0\n3,4,1\n", 0, "a\nb",
         "2 lines that begin with # before the table are left out"},
        {"#a,b,y\n1,2,0\n3,4,1\n", 0, "#a\nb", ""},
        {"Report, 2024\nof a \"tool\"\na,b,y\n1,2,0\n3,4,1\n", 2, "a\nb", ""},
        {"  a  b\ty \n  1  2  0\n \n3 4   1\r\n", 0, "a\nb", "separated by blanks"},
        {",a,b,y\n7,1,2,0\n3,3,4,1\n", 0, "a\nb", "column 0 has no name, as the names of rows"},
        {"\"\",a,b,y\nMazda RX4,1,2,0\nFiat 128,3,4,1\n", 0, "a\nb", "column 0 has no name, as the names of rows"},
        {"a,b,,y\n1,2,,0\n3,4,,1\n", 0, "a\nb", "column 2 has neither a name nor values"},
        {"0,1,2\n1,2,0\n3,4,1\n", 0, "0\n1", "the first line counts the columns from 0"},
        {",0,1,2\n0,1,2,0\n1,3,4,1\n", 0, "0\n1", "the first line counts the columns from 0"},
    };
    charl_dataset_info info;
    charl_dataset *ds;
    charl_data_schema *s = NULL;
    float x[64];
    int32_t y[8];
    int64_t n;
    char *warnings;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ds = import_text(cases[i].text, WITH(number("skip", cases[i].skip)), 0, &info);
        assert_string_equal(info.columns, cases[i].columns);
        if (!strstr(said, cases[i].note)) {
            fail_msg("case %d: %s", (int)i, said);
        }
        assert_rows(ds, CHARL_SPLIT_TRAIN, 2, 2, (const float[]){1, 2, 3, 4});
        charl_assert_ok(charl_data_schema_create(ds, info.n_stats, info.mean, info.std, &s));
        charl_assert_ok(read_new(s, cases[i].text, &n, x, y, &warnings)); /* a model finds its columns there, too */
        assert_int_equal(n, 2);
        assert_memory_equal(x, ((const float[]){1, 2, 3, 4}), 4 * sizeof *x);
        charl_free(warnings);
        charl_data_schema_destroy(s);
        charl_dataset_close(ds);
    }
    refuse("0,1\n1,2\n", NULL, CHARL_ERR_DATA,
           "t.csv:1: this line counts the columns from 0: it may be a header or a row");
    refuse(",1940,1945.5,kind\nx,1,2,0\n", WITH("label=1940"), CHARL_ERR_DATA, "may be a header or a row");
    refuse(",1940,1945.5,1950\nx,1,2,0\n", NULL, CHARL_ERR_DATA,
           "t.csv:1: an empty field and numbers: this line may be a header, such as one of years, or a row");
    refuse("Report\na,b,y\n1,2,0\n", NULL, CHARL_ERR_DATA, "--skip N leaves out lines above the table");
    refuse("Report, 2024\na,b,y\n1,2,0\n", WITH("header=yes"), CHARL_ERR_DATA,
           "t.csv:2: 3 fields, but the first line has 2; HINT lines above the table are left out by --skip N");
    refuse("a,y\n1,0\n", WITH("skip=3"), CHARL_ERR_CONFIG, "--skip 3: the file has only 2 lines");
}

/* All texts among numbers are told at once; NA and None are words where --values says so. */
static void marks_of_missing_values(void **state)
{
    static const char text[] = "a,b,land,y\n1,-,NA,0\n?,2,DE,1\n-,3,NA,1\n5,.,None,0\n";
    charl_dataset_info info;
    charl_dataset *ds;
    charl_data_schema *s = NULL;
    float x[64];
    int32_t y[8];
    int64_t n;
    char *warnings;

    (void)state;
    refuse(text, NULL, CHARL_ERR_DATA,
           "t.csv:3: column \"a\": \"?\" is not a number, but \"1\" in line 2 is; so it is in the columns a,b; HINT "
           "correct it; "
           "or --na \"?,-,.\" if that stands for missing values");
    refuse(text, WITH("na=?,-,.", "missing=a:mean,b:mean"), CHARL_ERR_DATA,
           "column \"land\" is missing: \"NA\" stands for a missing value; HINT");
    ds = import_text(text, WITH("na=?,-,.", "missing=mean", "values=NA,None"), 0, &info);
    assert_string_equal(info.columns, "a\nb\nland=DE\nland=NA\nland=None");
    charl_assert_ok(charl_data_schema_create(ds, info.n_stats, info.mean, info.std, &s));
    charl_assert_ok(read_new(s, "a,b,land\n1,2,NA\n", &n, x, y, &warnings));
    assert_memory_equal(x, ((const float[]){1, 2, 0, 1, 0}), 5 * sizeof *x);
    charl_free(warnings);
    charl_data_schema_destroy(s);
    charl_dataset_close(ds);
    refuse("a,y\n1,NA\n2,x\n", NULL, CHARL_ERR_DATA, "--values \"NA\" if it is a class");
    ds = import_text("a,y\n1,NA\n2,x\n", WITH("values=NA"), 0, &info);
    assert_string_equal(info.class_names, "NA\nx");
    charl_dataset_close(ds);
}

/* Validation rows come from every class in proportion, and statistics from the others alone. */
static void split_is_stratified(void **state)
{
    char text[8192] = "a,b,y\n";
    charl_dataset_info info;
    charl_dataset *ds;
    int64_t rows[64], n = 0;
    int32_t y[64];
    float x[192];
    double sum = 0;
    int of_class[3] = {0};

    (void)state;
    for (int i = 0; i < 80; i++) { /* 40 of p, 32 of q, 8 of r, one after the other; a word for every tenth row */
        snprintf(text + strlen(text), sizeof text - strlen(text), "%d,%s,%s\n", i * i, i % 10 ? "no" : "yes",
                 i < 40   ? "p"
                 : i < 72 ? "q"
                          : "r");
    }
    ds = import_text(text, NULL, 0.25, &info);
    assert_int_equal(info.rows[CHARL_SPLIT_VAL], 20);
    for (int64_t i = 0; i < 20; i++) {
        rows[i] = i;
    }
    charl_assert_ok(charl_dataset_read(ds, CHARL_SPLIT_VAL, rows, 20, NULL, y));
    for (int i = 0; i < 20; i++) {
        of_class[y[i]]++;
    }
    assert_int_equal(of_class[0], 10);
    assert_int_equal(of_class[1], 8);
    assert_int_equal(of_class[2], 2);
    for (int64_t i = 0; i < 60; i++) {
        rows[i] = i;
    }
    charl_assert_ok(charl_dataset_read(ds, CHARL_SPLIT_TRAIN, rows, 60, x, NULL));
    for (int i = 0; i < 60; i++) {
        n += i > 0 && x[3 * i] < x[3 * i - 3]; /* in the order of the file */
        sum += (double)x[3 * i];
    }
    assert_int_equal(n, 0);
    assert_true(fabs(sum / 60 - (double)info.mean[0]) < 1e-3);
    charl_dataset_close(ds);
    charl_assert_ok(charl_import(
        "csv", NULL, FILES(text_file("t.csv", text)), 1, out,
        &(charl_import_options){sizeof(charl_import_options), .overwrite = true, .val_split = 0.25, .in_order = true}));
    ds = open_out(NULL, &info);
    charl_assert_ok(charl_dataset_read(ds, CHARL_SPLIT_VAL, rows, 1, x, NULL));
    assert_true(x[0] == 3600.0F); /* row 60 */
    charl_dataset_close(ds);
}

static charl_status import_once(void *ctx)
{
    return charl_import("csv", fills, FILES(ctx), 1, out,
                        &(charl_import_options){sizeof(charl_import_options), .overwrite = true, .val_split = 0.25});
}

static void every_acquisition_may_fail(void **state)
{
    (void)state;
    assert_true(charl_test_fail_every_acquisition(import_once, (void *)(uintptr_t)text_file("t.csv", awkward)) > 60);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(awkward_file_is_a_table),
        cmocka_unit_test(new_rows_become_the_same),
        cmocka_unit_test(recipe_stands_in_a_text),
        cmocka_unit_test(columns_are_chosen),
        cmocka_unit_test(missing_values_are_filled),
        cmocka_unit_test(decimal_signs_and_separators_are_found),
        cmocka_unit_test(integers_that_f32_rounds_are_noted),
        cmocka_unit_test(words_and_typing_errors_are_told_apart),
        cmocka_unit_test(numbers_with_a_unit_are_numbers),
        cmocka_unit_test(dates_have_many_forms),
        cmocka_unit_test(tables_as_people_have_them),
        cmocka_unit_test(marks_of_missing_values),
        cmocka_unit_test(split_is_stratified),
        cmocka_unit_test(every_acquisition_may_fail),
    };

    return cmocka_run_group_tests(tests, setup, teardown_dir);
}
