/* Lists of names, schemas made from data sets and kept in checkpoints, and other data mapped to
 * them by name. If this failed, a model would name the wrong class without a word. */
#include <stdlib.h>

#include "io/imports.h"
#include "base/alloc.h"
#include "base/text/text.h"
#include "charl/import.h"
#include "charl/safetensors.h"
#include "charl/tensor_file.h"
#include "charl/tokenizer.h"
#include "io/checkpoint_sample.h"
#include "io/h5.h"
#include "io/schema.h"
#include "io/scratch.h"

static const char *in(const char *name)
{
    return charl_test_path(dir, name);
}

static void put_text(const char *name, const char *text)
{
    put_file(in(name), text, strlen(text));
}

static void test_names(void **state)
{
    int64_t *index;
    char *missing;
    size_t length;

    (void)state;
    assert_int_equal(charl_names_count(""), 0);
    assert_int_equal(charl_names_count("a"), 1);
    assert_int_equal(charl_names_count("\na\nb"), 3); /* the first and the last may be empty */
    assert_int_equal(charl_names_count("a\n"), 2);
    assert_memory_equal(charl_names_get("a\nbcd\ne", 1, &length), "bcd", 3);
    assert_int_equal(length, 3);
    assert_null(charl_names_get("a\nb", 2, &length));
    assert_null(charl_names_get("a\nb", -1, &length));
    assert_null(charl_names_get("", 0, &length));
    charl_assert_ok(charl__names_match("dog\ncat\nc", "bat\ncat\ndog", &index, &missing));
    assert_int_equal(index[0], 2);
    assert_int_equal(index[1], 1);
    assert_int_equal(index[2], -1);
    assert_string_equal(missing, "\"c\"");
    charl_free(index);
    charl_free(missing);
    charl_assert_ok(charl__names_match("1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11", "", &index, &missing));
    assert_string_equal(missing, "\"1\", \"2\", \"3\", \"4\", \"5\", \"6\", \"7\", \"8\" and 3 more");
    charl_free(index);
    charl_free(missing);
    charl_assert_status(charl__names_match("b", "a\nb\nb", &index, &missing), CHARL_ERR_DATA);
    charl_assert_message("\"b\" is in the list twice");
    charl_assert_ok(charl__names_match("a\na", "a\nb\nb", &index, &missing));
    assert_null(missing);
    charl_free(index);
}

/* Import `text` as NAME.h5 and open it. */
static charl_dataset *table(const char *name, const char *text, const char *label, bool regression)
{
    const char *const *csv = WITH(given("label", label), regression ? "regression=yes" : NULL);
    const charl_import_options opt = {sizeof opt, .overwrite = true};
    char h5[64];
    charl_dataset *ds = NULL;

    snprintf(h5, sizeof h5, "%s.h5", name);
    put_text("t.csv", text);
    charl_assert_ok(charl_import("csv", csv, FILES(in("t.csv")), 1, in(h5), &opt));
    charl_assert_ok(charl_dataset_open(in(h5), NULL, &ds));
    return ds;
}

static charl_data_schema *schema_of(const charl_dataset *ds)
{
    charl_data_schema *s = NULL;
    charl_dataset_info info;

    charl_dataset_get_info(ds, &info);
    charl_assert_ok(charl_data_schema_create(ds, info.n_stats, info.mean, info.std, &s));
    return s;
}

/* Map and read row `row`. */
static void read_mapped(charl_dataset *ds, const charl_data_schema *s, int64_t row, void *x, void *y)
{
    char *notes = NULL;

    charl_assert_ok(charl__dataset_map(ds, s, "model.h5", false, &notes));
    assert_null(notes);
    charl_assert_ok(charl_dataset_read(ds, CHARL_SPLIT_TRAIN, &row, 1, x, y));
}

static void test_other_order(void **state)
{
    charl_dataset *own = table("own", "a,b,c,kind\n1,2,3,cat\n4,5,6,dog\n7,8,9,eel\n", "kind", false);
    charl_dataset *other = table("other", "kind,c,a,b\neel,30,10,20\ndog,60,40,50\n", "kind", false);
    charl_data_schema *s = schema_of(own);
    charl_dataset_info info;
    float x[3];
    int32_t y = -1;

    (void)state;
    assert_string_equal(s->targets, "kind");
    assert_string_equal(s->columns, "a\nb\nc");
    read_mapped(other, s, 0, x, &y);
    assert_true(x[0] == 10 && x[1] == 20 && x[2] == 30);
    assert_int_equal(y, 2); /* eel */
    charl_dataset_get_info(other, &info);
    assert_int_equal(info.classes, 3);
    assert_string_equal(info.class_names, "cat\ndog\neel");
    assert_string_equal(info.columns, "a\nb\nc");
    charl_assert_ok(charl_dataset_verify(other));
    charl_data_schema_destroy(s);
    charl_dataset_close(own);
    charl_dataset_close(other);
}

static void test_targets(void **state)
{
    charl_dataset *own = table("own", "x,u,v\n1,2,3\n4,5,6\n", "u,v", true);
    charl_dataset *other = table("other", "v,x,u\n30,10,20\n60,40,50\n", "v,u", true);
    charl_data_schema *s = schema_of(own);
    float x, y[2];

    (void)state;
    read_mapped(other, s, 0, &x, y);
    assert_true(x == 10 && y[0] == 20 && y[1] == 30);
    charl_data_schema_destroy(s);
    charl_dataset_close(own);
    charl_dataset_close(other);
}

static void refuse(const char *text, const char *label, bool regression, bool all, const charl_data_schema *s,
                   const char *message)
{
    charl_dataset *ds = table("bad", text, label, regression);
    char *notes = NULL;

    charl_assert_status(charl__dataset_map(ds, s, "model.h5", all, &notes), CHARL_ERR_DATA);
    charl_assert_message(message);
    assert_null(notes);
    charl_dataset_close(ds);
}

static void test_refused(void **state)
{
    charl_dataset *own = table("own", "a,b,kind\n1,2,cat\n4,5,dog\n", "kind", false);
    charl_dataset *numbers = table("numbers", "x,u,v\n1,2,3\n4,5,6\n", "u,v", true);
    charl_data_schema *s = schema_of(own), *two = schema_of(numbers);

    (void)state;
    refuse("a,b,kind\n1,2,cat\n4,5,yak\n1,2,zebu\n", "kind", false, false, s,
           "has classes that model.h5 was not trained on: \"yak\", \"zebu\"");
    refuse("a,b,kind\n1,2,cat\n", "kind", false, true, s, "was trained on: \"dog\"");
    refuse("a,z,kind\n1,2,cat\n", "kind", false, false, s, "has no columns \"b\", which model.h5 was trained on");
    refuse("a,id,b,kind\n1,2,3,cat\n", "kind", false, false, s, "has columns that model.h5 was not trained on: \"id\"");
    refuse("1,2,3,cat\n1,2,3,dog\n", NULL, false, false, s, "are [3], model.h5 was trained on [2]");
    refuse("x,u,w\n1,2,3\n", "u,w", true, false, two, "has no targets \"v\"");
    refuse("x,u\n1,2\n", "u", true, false, two, "targets of");
    charl_data_schema_destroy(s);
    charl_data_schema_destroy(two);
    charl_dataset_close(own);
    charl_dataset_close(numbers);
}

static void test_without_names(void **state)
{
    charl_dataset *own = table("own", "a,b,kind\n1,2,cat\n4,5,dog\n", "kind", false);
    charl_dataset *bare = table("bare", "1,2,0\n4,5,1\n", NULL, false);
    charl_dataset *more = table("more", "1,2,0\n4,5,2\n", NULL, false);
    charl_data_schema *s = schema_of(own), *none = schema_of(bare);
    char *notes = NULL;
    float x[2];
    int32_t y;

    (void)state;
    charl_assert_ok(charl__dataset_map(bare, s, "model.h5", false, &notes));
    assert_non_null(strstr(notes, "names no columns, model.h5 does: they are matched by position"));
    assert_non_null(strstr(notes, "names no classes, model.h5 does: they are matched by number"));
    charl_free(notes);
    charl_assert_status(charl__dataset_map(more, s, "model.h5", false, &notes), CHARL_ERR_DATA);
    charl_assert_message("has 3 classes, model.h5 was trained on 2");
    charl_dataset_close(bare);
    bare = table("bare", "10,20,1\n", NULL, false);
    read_mapped(bare, none, 0, x, &y); /* neither has names: nothing to say */
    assert_true(x[0] == 10 && x[1] == 20 && y == 1);
    charl_data_schema_destroy(s);
    charl_data_schema_destroy(none);
    charl_dataset_close(own);
    charl_dataset_close(bare);
    charl_dataset_close(more);
}

/* Lists longer than an attribute of HDF5 may be: 10,000 columns with names of 12 bytes. */
static void test_long_lists(void **state)
{
    enum { COLUMNS = 10000 };
    charl__text text = {0};
    charl_dataset *ds;
    charl_dataset_info info;
    charl_data_schema *s;
    sample with;
    charl_checkpoint_reader *r = NULL;
    size_t length;

    (void)state;
    for (int i = 0; i < COLUMNS; i++) {
        charl_assert_ok(charl__text_printf(&text, "column %05d,", i));
    }
    charl_assert_ok(charl__text_printf(&text, "kind\n"));
    for (int row = 0; row < 2; row++) {
        for (int i = 0; i < COLUMNS; i++) {
            charl_assert_ok(charl__text_printf(&text, "%d,", row * i));
        }
        charl_assert_ok(charl__text_printf(&text, "%d\n", row));
    }
    ds = table("wide", charl__text_string(&text), NULL, false);
    charl_dataset_get_info(ds, &info);
    assert_int_equal(charl_names_count(info.columns), COLUMNS);
    assert_memory_equal(charl_names_get(info.columns, 9999, &length), "column 09999", 12);
    assert_int_equal(info.n_stats, COLUMNS);
    assert_true(info.mean[9000] == 4500 && info.std[9000] == 4500);
    charl_assert_ok(charl_dataset_verify(ds));
    s = schema_of(ds);
    sample_init(&with, 7);
    with.c.schema = s;
    charl_assert_ok(charl_checkpoint_save(in("wide-model.h5"), &with.c));
    charl_assert_ok(charl_checkpoint_open(in("wide-model.h5"), &r));
    assert_true(sample_same_schema(charl_checkpoint_get_info(r).schema, s));
    charl_checkpoint_close(r);
    charl_data_schema_destroy(s);
    charl_dataset_close(ds);
    charl__text_fini(&text);
}

/* A set of tokens with a tokenizer of characters. */
static charl_dataset *tokens(const char *name, const char *text)
{
    const char *const *chars = WITH("tokenizer=chars");
    const charl_import_options opt = {sizeof opt, .overwrite = true};
    const charl_dataset_options window = {sizeof window, .window = 4};
    const char *path = in("t.txt");
    char h5[64];
    charl_dataset *ds = NULL;

    snprintf(h5, sizeof h5, "%s.h5", name);
    put_text("t.txt", text);
    charl_assert_ok(charl_import("text", chars, &path, 1, in(h5), &opt));
    charl_assert_ok(charl_dataset_open(in(h5), &window, &ds));
    return ds;
}

static void test_tokenizer(void **state)
{
    charl_dataset *own = tokens("own", "hello, hello, hello"), *same, *other;
    charl_data_schema *s = NULL, *copy = NULL;
    charl_checkpoint_reader *r = NULL;
    sample with;
    char *notes = NULL;
    int32_t *encoded = NULL;
    int64_t n;

    (void)state;
    charl_assert_ok(charl_data_schema_create(own, 0, NULL, NULL, &s));
    assert_string_equal(s->tokenizer_kind, "chars");
    sample_init(&with, 7);
    with.c.schema = s;
    charl_assert_ok(charl_checkpoint_save(in("text-model.h5"), &with.c));
    charl_assert_ok(charl_checkpoint_open(in("text-model.h5"), &r));
    charl_assert_ok(charl__data_schema_copy(charl_checkpoint_get_info(r).schema, &copy));
    charl_checkpoint_close(r);
    charl_assert_ok(charl_tokenizer_encode(copy->tokenizer, "ohe", 3, false, &encoded, &n));
    assert_int_equal(n, 3);
    assert_int_equal(encoded[0], 5); /* " ,ehlo" */
    charl_free(encoded);
    same = tokens("same", "o,hell hello");
    charl_assert_ok(charl__dataset_map(same, copy, "model.h5", false, &notes));
    assert_null(notes);
    other = tokens("other", "hallo, hallo");
    charl_assert_status(charl__dataset_map(other, copy, "model.h5", false, &notes), CHARL_ERR_DATA);
    charl_assert_message("tokens of another chars tokenizer than that of model.h5");
    charl_dataset_close(own);
    charl_dataset_close(same);
    charl_dataset_close(other);
    own = table("numbers", "a,kind\n1,0\n2,1\n", NULL, false);
    charl_assert_status(charl__dataset_map(own, copy, "model.h5", false, &notes), CHARL_ERR_DATA);
    charl_assert_message("holds table, model.h5 was trained on tokens");
    charl_dataset_close(own);
    charl_data_schema_destroy(s);
    charl_data_schema_destroy(copy);
}

static void check_json(const charl_data_schema *s)
{
    charl_data_schema *back = NULL;
    char *json = NULL, *again = NULL;

    charl_assert_ok(charl_data_schema_print(s, &json));
    charl_assert_ok(charl__data_schema_parse("m", json, &back));
    assert_true(sample_same_schema(s, back));
    charl_assert_ok(charl_data_schema_print(back, &again));
    assert_string_equal(json, again);
    charl_data_schema_destroy(back);
    charl_free(json);
    charl_free(again);
}

static void test_json(void **state)
{
    static const char *const bad[][2] = {
        {"[]", "is not a JSON object"},
        {"{", "is not a JSON object"},
        {"{\"kind\":\"table\"}", "classes is missing"},
        {"{\"kind\":\"table\",\"classes\":2,\"x_dtype\":\"f33\"}", "x_dtype is missing or malformed"},
    };
    charl_dataset *text = tokens("own", "hello, \xc3\xa4\xc3\xb6");
    charl_data_schema *s = NULL;
    sample with;
    charl_tensor_file *file = NULL;
    charl_checkpoint_reader *reader = NULL;
    float target_mean[2] = {2e5F, -0.1F}, target_std[2] = {3e4F, 0.3F};

    (void)state;
    sample_init(&with, 7);
    check_json(&with.schema);
    with.schema.class_names = sample_text("a \"quoted\" name\n\xe2\x80\xae\n");
    with.schema.classes = 3;
    with.schema.recipe = sample_text("decimal\t,\nmissing\t?\n");
    check_json(&with.schema);
    /* named inputs that do not fill a row; the second shape has more elements than int64_t holds */
    for (int i = 0; i < 3; i++) {
        static const char *const fields[] = {"a input numbers 0 0 [2]",
                                             "a input numbers 0 0 [2147483647, 2147483647, 2147483647]",
                                             "a input numbers 0 0 [3]"};
        char *text_of = NULL;

        sample_init(&with, 7);
        with.schema.fields = sample_text(fields[i]);
        charl_assert_ok(charl_data_schema_print(&with.schema, &text_of));
        charl_assert_status(charl__data_schema_parse("m", text_of, &s), i == 2 ? CHARL_OK : CHARL_ERR_CHECKPOINT);
        if (i < 2) {
            charl_assert_message("named inputs and targets do not fit");
        }
        charl_free(text_of);
        charl_data_schema_destroy(s);
        s = NULL;
    }
    sample_init(&with, 7);
    with.schema.y_dtype = CHARL_F32;
    with.schema.y_shape = (charl_shape){1, {2}};
    with.schema.n_target_stats = 2;
    with.schema.target_mean = target_mean;
    with.schema.target_std = target_std;
    check_json(&with.schema);
    charl_assert_ok(charl_checkpoint_save(in("m.h5"), &with.c));
    charl_assert_ok(charl_checkpoint_open(in("m.h5"), &reader));
    assert_true(sample_same_schema(charl_checkpoint_get_info(reader).schema, &with.schema));
    charl_checkpoint_close(reader);
    charl_assert_ok(charl_data_schema_create(text, 0, NULL, NULL, &s));
    check_json(s);
    charl_assert_ok(charl_safetensors_save(in("m.safetensors"), &with.tensors[0], 1, &with.schema));
    charl_assert_ok(charl_tensor_file_open(in("m.safetensors"), &file));
    assert_true(sample_same_schema(charl_tensor_file_get_schema(file), &with.schema));
    charl_tensor_file_close(file);
    charl_data_schema_destroy(s);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        charl_assert_status(charl__data_schema_parse("m", bad[i][0], &s), CHARL_ERR_CHECKPOINT);
        charl_assert_message(bad[i][1]);
    }
    charl_data_schema_destroy(s);
    charl_dataset_close(text);
}

static charl_status json_once(void *ctx)
{
    charl_status st = CHARL_OK;
    charl_data_schema *back = NULL;
    char *json = NULL;

    CHARL_TRY_CLEANUP(charl_data_schema_print(ctx, &json));
    CHARL_TRY_CLEANUP(charl__data_schema_parse("m", json, &back));
cleanup:
    charl_data_schema_destroy(back);
    charl_free(json);
    return st;
}

/* A file that others have made may have names in another encoding: it can be read, but no model is
 * trained on it, as its checkpoint could not be. */
static void test_encoding(void **state)
{
    charl_dataset *ds = table("own", "a,b,kind\n1,2,cat\n4,5,dog\n", "kind", false);
    charl_data_schema *s = NULL;
    const float mean = 0, std = 1;
    hid_t file, attribute, type;

    (void)state;
    charl_dataset_close(ds);
    file = H5Fopen(in("own.h5"), H5F_ACC_RDWR, H5P_DEFAULT);
    attribute = H5Aopen(file, "class_names", H5P_DEFAULT);
    type = H5Aget_type(attribute);
    assert_true(H5Awrite(attribute, type, "c\xe4t\ndog") >= 0);
    H5Tclose(type);
    H5Aclose(attribute);
    H5Fclose(file);
    charl_assert_ok(charl_dataset_open(in("own.h5"), NULL, &ds));
    charl_assert_status(charl_data_schema_create(ds, 1, &mean, &std, &s), CHARL_ERR_DATA);
    charl_assert_message("the class names are not UTF-8");
    charl_dataset_close(ds);
}

static charl_status map_once(void *ctx)
{
    charl_status st = CHARL_OK;
    const charl_data_schema *s = ctx;
    charl_dataset *ds = NULL;
    charl_data_schema *copy = NULL;
    char *notes = NULL;
    const int64_t row = 0;
    float x[3];
    int32_t y;

    CHARL_TRY_CLEANUP(charl_dataset_open(in("other.h5"), NULL, &ds));
    CHARL_TRY_CLEANUP(charl__dataset_map(ds, s, "model.h5", false, &notes));
    CHARL_TRY_CLEANUP(charl_dataset_read(ds, CHARL_SPLIT_TRAIN, &row, 1, x, &y));
    CHARL_TRY_CLEANUP(charl__data_schema_copy(s, &copy));
cleanup:
    charl_data_schema_destroy(copy);
    charl_free(notes);
    charl_dataset_close(ds);
    return st;
}

static void test_every_acquisition(void **state)
{
    charl_dataset *own = table("own", "a,b,c,kind\n1,2,3,cat\n4,5,6,dog\n", "kind", false);
    charl_data_schema *s = schema_of(own);

    (void)state;
    charl_dataset_close(table("other", "kind,c,a,b\ndog,30,10,20\n", "kind", false));
    assert_true(charl_test_fail_every_acquisition(map_once, s) > 30);
    assert_true(charl_test_fail_every_acquisition(json_once, s) > 5);
    charl_data_schema_destroy(s);
    charl_dataset_close(own);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test_setup_teardown(test_other_order, setup_dir, teardown_dir),
        cmocka_unit_test_setup_teardown(test_targets, setup_dir, teardown_dir),
        cmocka_unit_test_setup_teardown(test_refused, setup_dir, teardown_dir),
        cmocka_unit_test_setup_teardown(test_without_names, setup_dir, teardown_dir),
        cmocka_unit_test_setup_teardown(test_long_lists, setup_dir, teardown_dir),
        cmocka_unit_test_setup_teardown(test_tokenizer, setup_dir, teardown_dir),
        cmocka_unit_test_setup_teardown(test_encoding, setup_dir, teardown_dir),
        cmocka_unit_test_setup_teardown(test_json, setup_dir, teardown_dir),
        cmocka_unit_test_setup_teardown(test_every_acquisition, setup_dir, teardown_dir),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
