/* Importer of texts: documents out of files, folders, patterns, JSON and gzip. */
#include "io/imports.h"
#include "io/import_sample.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <zlib.h>

#include "charl/dataset.h"
#include "charl/import.h"
#include "charl/tokenizer.h"

static void bytes_become_tokens(void **state)
{
    const char *path = text_file("text.txt", "to be or not to be, that is the question");
    const charl_dataset_options opt = {sizeof opt, .window = 4};
    charl_dataset_info info;
    charl_dataset *ds;
    const int64_t row = 1;
    int32_t x[4];
    int32_t y[4];

    (void)state;
    charl_assert_ok(
        charl_import("text", NULL, &path, 1, out,
                     &(charl_import_options){sizeof(charl_import_options), .overwrite = true, .val_split = 0.25}));
    ds = open_out(&opt, &info);
    assert_int_equal(info.kind, CHARL_DATASET_TOKENS);
    assert_int_equal(info.items[0], 30);
    assert_int_equal(info.items[1], 10);
    assert_int_equal(info.documents[0], 0);
    assert_int_equal(info.classes, 256);
    charl_assert_ok(charl_dataset_read(ds, CHARL_SPLIT_TRAIN, &row, 1, x, y));
    assert_int_equal(x[0], 'e');
    assert_int_equal(y[3], ' ');
    charl_dataset_close(ds);
}

/* A folder with a folder in it: plain, packed, lines of JSON; hidden and other files are left out. */
static const char *make_folder(void)
{
    static char folder[512];
    char path[600];
    gzFile gz;

    snprintf(folder, sizeof folder, "%s", charl_test_path(dir, "texts"));
    mkdir(folder, 0700);
    snprintf(path, sizeof path, "%s/sub", folder);
    mkdir(path, 0700);
    text_file("texts/b.txt", "two words");
    text_file("texts/.hidden.txt", "no");
    text_file("texts/picture.png", "no");
    text_file("texts/z.jsonl", "{\"text\": \"one\\n\\u00e9\", \"id\": 1}\n\n{\"text\": "
                               "\"\"}\r\n{\"body\": 3, \"text\": \"last\"}");
    snprintf(path, sizeof path, "%s/sub/a.txt.gz", folder);
    gz = gzopen(path, "wb");
    assert_int_equal(gzwrite(gz, "packed", 6), 6);
    gzclose(gz);
    return folder;
}

/* The documents in the order of their paths, and NUL between them. */
static void documents_are_kept_apart(void **state)
{
    static const char want[] = "two words\0packed\0one\n\xc3\xa9\0last";
    const size_t n = sizeof want - 1;
    const char *folder = make_folder(), *val = charl_test_path(dir, "texts/*.jsonl");
    const char *const *chars = WITH("tokenizer=chars", given("val_file", val));
    const charl_dataset_options opt = {sizeof opt, .window = 1};
    charl_tokenizer *t = NULL;
    charl_dataset_info info;
    charl_dataset *ds;
    unsigned char tokens[64];
    int32_t wide[64];
    char *text = NULL;
    size_t bytes;

    (void)state;
    charl_assert_ok(charl_import("text", NULL, &folder, 1, out, &replace));
    ds = open_out(&opt, &info);
    assert_int_equal(info.items[CHARL_SPLIT_TRAIN], n);
    assert_int_equal(info.documents[CHARL_SPLIT_TRAIN], 4);
    charl_assert_ok(charl_dataset_read_tokens(ds, CHARL_SPLIT_TRAIN, 0, (int64_t)n, tokens));
    assert_memory_equal(tokens, want, n);
    charl_assert_ok(charl_dataset_verify(ds));
    charl_dataset_close(ds);

    charl_assert_ok(charl_import("text", chars, &folder, 1, out, &replace));
    ds = open_out(&opt, &info);
    assert_int_equal(info.items[CHARL_SPLIT_VAL], 10);
    assert_int_equal(info.documents[CHARL_SPLIT_VAL], 2);
    charl_assert_ok(charl_dataset_read_tokens(ds, CHARL_SPLIT_VAL, 0, 10, tokens));
    charl_dataset_close(ds);
    for (int i = 0; i < 10; i++) {
        wide[i] = tokens[i];
    }
    charl_assert_ok(charl_tokenizer_load(out, &t));
    charl_assert_ok(charl_tokenizer_decode(t, wide, 10, &text, &bytes));
    assert_int_equal(bytes, 11);
    assert_memory_equal(text, "one\n\xc3\xa9\0last", 11);
    charl_free(text);
    charl_tokenizer_destroy(t);
}

/* What some programs put first is no part of a text, and the bytes that messages name count from the start of the file. */
static void byte_order_marks_are_skipped(void **state)
{
    const charl_dataset_options opt = {sizeof opt, .window = 1};
    const char *const *chars = WITH("tokenizer=chars");
    const char *path = text_file("mark.txt", "\xef\xbb\xbfwords");
    unsigned char tokens[8];
    charl_dataset_info info;
    charl_dataset *ds;

    (void)state;
    charl_assert_ok(charl_import("text", NULL, &path, 1, out, &replace));
    ds = open_out(&opt, &info);
    assert_int_equal(info.items[CHARL_SPLIT_TRAIN], 5);
    charl_assert_ok(charl_dataset_read_tokens(ds, CHARL_SPLIT_TRAIN, 0, 5, tokens));
    assert_memory_equal(tokens, "words", 5);
    charl_dataset_close(ds);
    path = text_file("half.txt", "\xef\xbb"); /* no mark, and no text */
    charl_assert_status(charl_import("text", chars, &path, 1, out, &replace), CHARL_ERR_DATA);
    charl_assert_message("half.txt: byte 0 is not UTF-8");
    path = text_file("bad.txt", "\xef\xbb\xbf"
                                "ab\xff");
    charl_assert_status(charl_import("text", chars, &path, 1, out, &replace), CHARL_ERR_DATA);
    charl_assert_message("bad.txt: byte 5 is not UTF-8");
    /* Whatever the tokenizer: text in another encoding is none in UTF-8, unless it is said that these are bytes. */
    charl_assert_status(charl_import("text", NULL, &path, 1, out, &replace), CHARL_ERR_DATA);
    charl_assert_message("bad.txt: byte 5 is not UTF-8");
    charl_assert_message("--binary");
    charl_assert_status(charl_import("text", WITH("tokenizer=chars", "binary=yes"), &path, 1, out, &replace),
                        CHARL_ERR_CONFIG);
    charl_assert_message("tokenizer chars takes text in UTF-8 only");
    charl_assert_ok(charl_import("text", WITH("binary=yes"), &path, 1, out, &replace));
    ds = open_out(&opt, &info);
    assert_int_equal(info.items[CHARL_SPLIT_TRAIN], 6);
    charl_dataset_close(ds);
    path = text_file("wide.txt", "\xff\xfeI\0t");
    charl_assert_status(charl_import("text", NULL, &path, 1, out, &replace), CHARL_ERR_DATA);
    charl_assert_message("UTF-16");
    path = text_file("mark.jsonl", "\xef\xbb\xbf{\"text\": \"one\"}\n");
    charl_assert_ok(charl_import("text", NULL, &path, 1, out, &replace));
    ds = open_out(&opt, &info);
    assert_int_equal(info.items[CHARL_SPLIT_TRAIN], 3);
    charl_dataset_close(ds);
    path =
        text_file("mark.jsonl", "\xef\xbb\xbf{\"text\": \"one\", \"label\": 1}\n{\"text\": \"two\", \"label\": 2}\n");
    charl_assert_ok(charl_import("text-classes", NULL, &path, 1, out, &replace));
}

/* A text of several blocks has the tokens that it has as a whole: it is cut only where words end. */
static void blocks_do_not_show(void **state)
{
    static const char ends[] = "  \n'!,19\t";
    const char *const *bpe = WITH("tokenizer=bpe", "vocab=400");
    const charl_dataset_options opt = {sizeof opt, .window = 1};
    const size_t bytes = (5 << 19) / (size_t)charl_test_each(2);
    char *text = malloc(bytes + 1);
    const char *path;
    charl_tokenizer *t = NULL;
    charl_dataset_info info;
    charl_dataset *ds;
    int32_t *want = NULL;
    uint16_t *have;
    int64_t n;
    charl_status st;

    (void)state;
    srand(1);
    for (size_t i = 0; i < bytes; i++) {
        text[i] = rand() % 20 == 0 ? ends[(size_t)rand() % (sizeof ends - 1)] : "abc"[rand() % 3];
    }
    text[bytes] = '\0';
    path = text_file("long.txt", text);
    st = charl_import("text", bpe, &path, 1, out, &replace);
    if (st == CHARL_ERR_CONFIG) {
        charl_assert_message("without libpcre2");
        free(text);
        skip();
    }
    charl_assert_ok(st);
    charl_assert_ok(charl_tokenizer_load(out, &t));
    charl_assert_ok(charl_tokenizer_encode(t, text, bytes, false, &want, &n));
    ds = open_out(&opt, &info);
    assert_int_equal(info.items[CHARL_SPLIT_TRAIN], n);
    have = malloc((size_t)n * sizeof *have);
    charl_assert_ok(charl_dataset_read_tokens(ds, CHARL_SPLIT_TRAIN, 0, n, have));
    for (int64_t i = 0; i < n; i++) {
        assert_int_equal(have[i], want[i]);
    }
    charl_dataset_close(ds);
    charl_free(want);
    charl_tokenizer_destroy(t);
    free(have);
    free(text);
}

/* A document that begins to train and goes on to validate, of several. */
static void a_split_inside_a_document(void **state)
{
    const char *const paths[2] = {text_file("s1.txt", "abcdefgh"), text_file("s2.txt", "ijklmnop")};
    const charl_dataset_options opt = {sizeof opt, .window = 1};
    const charl_import_options split = {sizeof split, .val_split = 0.25, .overwrite = true};
    charl_dataset_info info;
    charl_dataset *ds;

    (void)state;
    charl_assert_ok(charl_import("text", NULL, paths, 2, out, &split));
    ds = open_out(&opt, &info);
    assert_int_equal(info.items[CHARL_SPLIT_TRAIN], 13);
    assert_int_equal(info.items[CHARL_SPLIT_VAL], 4);
    assert_int_equal(info.documents[CHARL_SPLIT_TRAIN], 2);
    assert_int_equal(info.documents[CHARL_SPLIT_VAL], 0);
    charl_assert_ok(charl_dataset_verify(ds));
    charl_dataset_close(ds);
}

static charl_status import_json(const char *text, const char *field)
{
    const char *path = text_file("bad.jsonl", text);

    return charl_import("text", WITH(given("field", field)), &path, 1, out, &replace);
}

static void what_is_no_text_is_refused(void **state)
{
    const char *two[2] = {text_file("one.txt", "a"), NULL}, *folder = charl_test_path(dir, "empty");
    const char *nul = charl_test_path(dir, "nul.txt");

    (void)state;
    mkdir(folder, 0700);
    charl_assert_status(charl_import("text", NULL, &folder, 1, out, &replace), CHARL_ERR_DATA);
    charl_assert_message("empty: there are no files that end in .txt, .jsonl");
    put_file(nul, "ab\0c", 4);
    two[1] = nul;
    charl_assert_status(charl_import("text", NULL, two, 2, out, &replace), CHARL_ERR_DATA);
    charl_assert_message("nul.txt is a binary file of an unknown format, not text in UTF-8");
    charl_assert_status(charl_import("text", WITH("field=text"), two, 1, out, &replace), CHARL_ERR_CONFIG);
    charl_assert_message("none of the files is a .jsonl file");
    charl_assert_status(import_json("{\"text\": \"a\"}\n{\"text\": \"b\"\n", NULL), CHARL_ERR_DATA);
    charl_assert_message("bad.jsonl:2: not JSON at byte");
    charl_assert_status(import_json("[1]", NULL), CHARL_ERR_DATA);
    charl_assert_message("bad.jsonl is one JSON array, not lines of JSON; HINT");
    charl_assert_status(import_json("{\"body\": \"a\", \"n\": 1}", NULL), CHARL_ERR_DATA);
    charl_assert_message("bad.jsonl:1: there is no field \"text\"; HINT --field NAME; here, text is in: body");
    charl_assert_status(import_json("{\"n\": 1}", "n"), CHARL_ERR_DATA);
    charl_assert_message("field \"n\" is not a string");
    charl_assert_status(import_json("{\"text\": \"a\\u0000b\"}", NULL), CHARL_ERR_DATA);
    charl_assert_message("holds NUL");
    charl_assert_status(import_json("{\"text\": \"\"}", NULL), CHARL_ERR_DATA);
    charl_assert_message("there is no text");
}

static charl_status import_folder(void *ctx)
{
    const char *path = ctx;
    const char *const *chars = WITH("tokenizer=chars", given("val_file", path));

    return charl_import("text", chars, &path, 1, out, &replace);
}

/* In a CSV file a label that pandas takes for a missing value is no class; in JSON null is missing and strings are what they are. */
static void missing_labels_are_no_classes(void **state)
{
    static const char *const missing[] = {"", "NA", "NaN", "null", "None"};
    const char *path;
    char table[64];
    charl_dataset_info info;
    charl_dataset *ds;

    (void)state;
    for (size_t i = 0; i < sizeof missing / sizeof *missing; i++) {
        snprintf(table, sizeof table, "text,label\na,x\nb,%s\nc,y\n", missing[i]);
        path = text_file("labels.csv", table);
        charl_assert_status(charl_import("text-classes", NULL, &path, 1, out, &replace), CHARL_ERR_DATA);
        charl_assert_message("labels.csv:3: the label in column \"label\" is missing");
    }
    path = text_file("labels.jsonl", "{\"text\": \"a\", \"label\": \"NA\"}\n{\"text\": \"b\", \"label\": \"x\"}\n");
    charl_assert_ok(charl_import("text-classes", NULL, &path, 1, out, &replace));
    ds = open_out(NULL, &info);
    assert_string_equal(info.class_names, "NA\nx");
    charl_dataset_close(ds);
}

static void every_acquisition_may_fail(void **state)
{
    (void)state;
    assert_true(charl_test_fail_every_acquisition(import_folder, (void *)(uintptr_t)make_folder()) > 60);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_become_tokens),          cmocka_unit_test(documents_are_kept_apart),
        cmocka_unit_test(blocks_do_not_show),           cmocka_unit_test(a_split_inside_a_document),
        cmocka_unit_test(what_is_no_text_is_refused),   cmocka_unit_test(missing_labels_are_no_classes),
        cmocka_unit_test(byte_order_marks_are_skipped), cmocka_unit_test(every_acquisition_may_fail),
    };

    return cmocka_run_group_tests(tests, setup, teardown_dir);
}
