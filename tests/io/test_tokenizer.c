/* Tokenizers: what they learn, against plain references; decoding what was encoded gives the same
 * bytes, whatever they are; what a file may say. */
#include "io/imports.h"
#include "io/scratch.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/numeric/rng.h"
#include "charl/dataset.h"
#include "charl/import.h"
#include "data/tokenizer/bpe.h"
#include "data/tokenizer/splitter.h"
#include "data/tokenizer/tokenizer_private.h"

static char file[512];

static int setup(void **state)
{
    setup_dir(state);
    snprintf(file, sizeof file, "%s", charl_test_path(dir, "t.h5"));
    return 0;
}

/* Byte pair encoding needs a library that charl may have been built without. */
static void need_bpe(void)
{
    charl_tokenizer *t = NULL;
    const charl_status st = charl_tokenizer_create("bpe", "a", 1, 256, &t);

    charl_tokenizer_destroy(t);
    if (st == CHARL_ERR_CONFIG) {
        charl_assert_message("without libpcre2");
        skip();
    }
    charl_assert_ok(st);
}

static charl_tokenizer *learn(const char *type, const char *text, size_t bytes, int64_t vocab)
{
    charl_tokenizer *t = NULL;

    charl_assert_ok(charl_tokenizer_create(type, text, bytes, vocab, &t));
    assert_string_equal(charl_tokenizer_get_type(t), type);
    return t;
}

static void assert_round_trip(const charl_tokenizer *t, const char *text, size_t bytes)
{
    int32_t *tokens;
    int64_t n;
    char *back;
    size_t length;

    charl_assert_ok(charl_tokenizer_encode(t, text, bytes, false, &tokens, &n));
    charl_assert_ok(charl_tokenizer_decode(t, tokens, n, &back, &length));
    assert_int_equal(length, bytes);
    assert_memory_equal(back, text, bytes);
    assert_int_equal(back[length], 0);
    charl_free(back);
    charl_free(tokens);
}

static uint32_t draw(uint32_t i, uint32_t below)
{
    const charl__rng key = charl__rng_key(charl_test_seed(), 0, 1);

    return charl__rng_u32(&key, i) % below;
}

/* Words of a few letters, some much more often than others, and what stands between words. */
static size_t make_text(char *text, size_t bytes)
{
    static const char *const between[] = {" ", " ", " ", ", ", "\n", "  \n", ". ", "'s ", " 42", "\xc3\xa9"};
    size_t n = 0;

    for (uint32_t i = 0; n + 16 < bytes; i++) {
        const uint32_t word = draw(3 * i, 1 + draw(3 * i + 1, 60));

        for (uint32_t k = 0; k < 1 + word % 5; k++) {
            text[n++] = (char)('a' + (word * 7 + k * k * 3) % 11);
        }
        n += (size_t)snprintf(text + n, bytes - n, "%s", between[draw(3 * i + 2, 10)]);
    }
    return n;
}

static void bytes_and_characters(void **state)
{
    static const char text[] = "z\xc3\xa4hle: \xe2\x82\xac 1\n\xf0\x9f\x99\x82 zz";
    charl_tokenizer *t = learn("bytes", "", 0, 0);
    char all[256];
    const char *token;
    int32_t *tokens;
    int64_t n;
    size_t bytes;

    (void)state;
    for (int i = 0; i < 256; i++) {
        all[i] = (char)i;
    }
    assert_int_equal(charl_tokenizer_get_vocab(t), 256);
    assert_round_trip(t, all, 256);
    assert_round_trip(t, "", 0);
    charl_tokenizer_destroy(t);

    t = learn("chars", text, sizeof text - 1, 0);
    assert_int_equal(charl_tokenizer_get_vocab(t), 11); /* \n space 1 : e h l z U+E4 U+20AC U+1F642 */
    charl_assert_ok(charl_tokenizer_encode(t, "\n \xc3\xa4z\xf0\x9f\x99\x82", 9, false, &tokens, &n));
    assert_int_equal(n, 5);
    assert_memory_equal(tokens, ((const int32_t[]){0, 1, 8, 7, 10}), 5 * sizeof *tokens);
    charl_free(tokens);
    token = charl_tokenizer_get_token(t, 9, &bytes);
    assert_int_equal(bytes, 3);
    assert_memory_equal(token, "\xe2\x82\xac", 3);
    assert_null(charl_tokenizer_get_token(t, 11, &bytes));
    assert_null(charl_tokenizer_get_token(t, -1, &bytes));
    assert_round_trip(t, text, sizeof text - 1);
    charl_tokenizer_destroy(t);
}

static void what_cannot_be_encoded(void **state)
{
    charl_tokenizer *t = learn("chars", "abc", 3, 0), *none;
    const int32_t numbers[] = {0, 3};
    int32_t *tokens;
    int64_t n;
    char *text;
    size_t bytes;

    (void)state;
    charl_assert_status(charl_tokenizer_encode(t, "abcd", 4, false, &tokens, &n), CHARL_ERR_DATA);
    charl_assert_message("\"d\" (U+0064) at byte 3");
    assert_null(tokens);
    charl_assert_status(charl_tokenizer_encode(t, "a\xff", 2, false, &tokens, &n), CHARL_ERR_DATA);
    charl_assert_message("byte 1 of the text is not UTF-8");
    charl_assert_status(charl_tokenizer_decode(t, numbers, 2, &text, &bytes), CHARL_ERR_INVALID);
    charl_assert_message("token 1 is 3, the vocabulary has 3");
    charl_assert_status(charl_tokenizer_create("chars", "ab\xe2\x82", 4, 0, &none), CHARL_ERR_DATA);
    charl_assert_message("byte 2");
    charl_assert_status(charl_tokenizer_create("chars", "", 0, 0, &none), CHARL_ERR_DATA);
    charl_assert_status(charl_tokenizer_create("pretrained", "", 0, 0, &none), CHARL_ERR_CONFIG);
    charl_assert_message("the types are bytes, chars, bpe");
    assert_null(none);
    charl_tokenizer_destroy(t);
}

static charl__splitter *gpt2_splitter(void)
{
    const charl__split_step step = {CHARL__PATTERN_GPT2, strlen(CHARL__PATTERN_GPT2), false};
    charl__splitter *s = NULL;

    need_bpe();
    charl_assert_ok(charl__splitter_create(&step, 1, &s));
    return s;
}

/* GPT-2's words of a text that has everything: contractions, numbers, spaces before, within and
 * after. */
static void words_of_a_text(void **state)
{
    static const char text[] = "It's  we'll\t3rd \xc3\x9c"
                               "ber!?\n\n x\xff\xfe y  ";
    static const char *const want[] = {"It",
                                       "'s",
                                       " ",
                                       " we",
                                       "'ll",
                                       "\t",
                                       "3",
                                       "rd",
                                       " \xc3\x9c"
                                       "ber",
                                       "!?",
                                       "\n\n",
                                       " x",
                                       "\xff\xfe",
                                       " y",
                                       "  "};
    charl__splitter *splitter = gpt2_splitter();
    charl__words w;
    const unsigned char *word;
    size_t bytes;

    (void)state;
    charl_assert_ok(charl__words_init(&w, splitter));
    charl__words_begin(&w, (const unsigned char *)text, sizeof text - 1);
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        charl_assert_ok(charl__words_next(&w, &word, &bytes));
        assert_int_equal(bytes, strlen(want[i]));
        assert_memory_equal(word, want[i], bytes);
    }
    charl_assert_ok(charl__words_next(&w, &word, &bytes));
    assert_int_equal(bytes, 0);
    charl__words_fini(&w);
    charl__splitter_destroy(splitter);
}

enum { TEXT = 6000, MERGES = 400 };

/* A text as tokens; a word's first token is marked. */
typedef struct plain {
    int32_t token[TEXT];
    bool first[TEXT];
    int n;
} plain;

static void plain_begin(plain *p, const char *text, size_t bytes)
{
    charl__splitter *splitter = gpt2_splitter();
    charl__words w;
    const unsigned char *word;
    size_t length;

    p->n = 0;
    charl_assert_ok(charl__words_init(&w, splitter));
    charl__words_begin(&w, (const unsigned char *)text, bytes);
    while (charl__words_next(&w, &word, &length) == CHARL_OK && length > 0) {
        for (size_t i = 0; i < length; i++) {
            p->first[p->n] = i == 0;
            p->token[p->n++] = word[i];
        }
    }
    charl__words_fini(&w);
    charl__splitter_destroy(splitter);
}

static bool has_pair(const plain *p, int i, int32_t a, int32_t b)
{
    return i + 1 < p->n && !p->first[i + 1] && p->token[i] == a && p->token[i + 1] == b;
}

static void plain_merge(plain *p, int32_t a, int32_t b, int32_t merged)
{
    int n = 0;

    for (int i = 0; i < p->n; i++, n++) {
        const bool pair = has_pair(p, i, a, b);

        p->first[n] = p->first[i];
        p->token[n] = pair ? merged : p->token[i];
        i += pair;
    }
    p->n = n;
}

/* The most frequent pair, among equals the one of the earliest tokens. False when none comes twice.
 */
static bool plain_best(const plain *p, int32_t *a, int32_t *b)
{
    static int count[256 + MERGES][256 + MERGES];
    int most = 1;

    memset(count, 0, sizeof count);
    for (int i = 0; i + 1 < p->n; i++) {
        count[p->token[i]][p->token[i + 1]] += !p->first[i + 1];
    }
    for (int32_t x = 0; x < 256 + MERGES; x++) {
        for (int32_t y = 0; y < 256 + MERGES; y++) {
            if (count[x][y] > most) {
                most = count[x][y];
                *a = x;
                *b = y;
            }
        }
    }
    return most > 1;
}

static void merges_are_those_of_the_definition(void **state)
{
    static char text[TEXT];
    static plain p;
    const size_t bytes = make_text(text, TEXT);
    charl_tokenizer *t;
    int32_t *tokens, a = 0, b = 0;
    int64_t n;
    int merges;

    (void)state;
    need_bpe();
    t = learn("bpe", text, bytes, 256 + MERGES);
    merges = (int)charl_tokenizer_get_vocab(t) - 256;
    assert_true(merges > 50 && merges < MERGES); /* until no pair comes twice */
    plain_begin(&p, text, bytes);
    for (int k = 0; k < merges; k++) {
        assert_true(plain_best(&p, &a, &b));
        assert_int_equal(((const uint32_t *)t->state)[2 * k], a);
        assert_int_equal(((const uint32_t *)t->state)[2 * k + 1], b);
        plain_merge(&p, a, b, 256 + k);
    }
    assert_false(plain_best(&p, &a, &b));
    charl_assert_ok(charl_tokenizer_encode(t, text, bytes, false, &tokens, &n));
    assert_int_equal(n, p.n);
    assert_memory_equal(tokens, p.token, (size_t)n * sizeof *tokens);
    charl_free(tokens);
    charl_tokenizer_destroy(t);
}

static void few_pairs_make_few_tokens(void **state)
{
    charl_tokenizer *t;
    charl_tokenizer *none = NULL;

    (void)state;
    need_bpe();
    t = learn("bpe", "aaaa", 4, 1000); /* aa comes three times, (aa)(aa) once */
    assert_int_equal(charl_tokenizer_get_vocab(t), 257);
    assert_round_trip(t, "aaaaabaa", 8);
    charl_tokenizer_destroy(t);
    t = learn("bpe", "", 0, 300);
    assert_int_equal(charl_tokenizer_get_vocab(t), 256);
    assert_round_trip(t, "anything", 8);
    charl_tokenizer_destroy(t);
    charl_assert_status(charl_tokenizer_create("bpe", "a", 1, 255, &none), CHARL_ERR_CONFIG);
    charl_assert_message("255 is outside [256,");
}

/* Long runs make long tokens, up to a limit. */
static void tokens_have_a_largest_length(void **state)
{
    enum { RUN = 3 * CHARL__TOKEN_MAX_BYTES };
    char *text = NULL;
    charl_tokenizer *t;
    size_t bytes, longest = 0;

    (void)state;
    need_bpe();
    charl_assert_ok(charl__alloc(2 * RUN, &text));
    memset(text, 'a', 2 * RUN);
    text[RUN] = '\n';
    t = learn("bpe", text, 2 * RUN, 400);
    for (int64_t i = 0; i < charl_tokenizer_get_vocab(t); i++) {
        charl_tokenizer_get_token(t, i, &bytes);
        longest = bytes > longest ? bytes : longest;
    }
    assert_true(longest > CHARL__TOKEN_MAX_BYTES / 2 && longest <= CHARL__TOKEN_MAX_BYTES);
    assert_round_trip(t, text, 2 * RUN);
    charl_tokenizer_destroy(t);
    charl_free(text);
}

static void any_bytes_come_back(void **state)
{
    static char learnt[TEXT], text[700];
    charl_tokenizer *bytes = learn("bytes", "", 0, 0), *bpe;

    (void)state;
    need_bpe();
    bpe = learn("bpe", learnt, make_text(learnt, TEXT), 400);
    for (uint32_t k = 0; k < 100; k++) {
        const uint32_t n = draw(1000 * k, sizeof text), from = draw(1000 * k + 1, TEXT - sizeof text);

        for (uint32_t i = 0; i < n; i++) { /* noise, or a piece of the text with some of it */
            text[i] = k % 2 == 0 || draw(1000 * k + i, 20) == 0 ? (char)draw(1000 * k + i + 2, 256) : learnt[from + i];
        }
        assert_round_trip(bytes, text, n);
        assert_round_trip(bpe, text, n);
    }
    charl_tokenizer_destroy(bytes);
    charl_tokenizer_destroy(bpe);
}

/* A data set of ten tokens with the given tokenizer. */
static void write_file(const char *kind, const char *name, const charl_shape *item, int64_t rows, const uint32_t *data,
                       int64_t vocab)
{
    const charl__writer_spec spec = {.kind = CHARL_DATASET_TOKENS, .x_dtype = CHARL_U8, .rows = 10, .classes = vocab};
    const unsigned char tokens[10] = {0};
    charl__writer *w = NULL;
    charl_status st;

    charl_assert_ok(charl__writer_create(file, &spec,
                                         &(charl_import_options){sizeof(charl_import_options), .overwrite = true}, &w));
    charl_assert_ok(charl__writer_put(w, tokens, NULL, 10));
    if (kind) {
        charl_assert_ok(charl__writer_text(w, "tokenizer", kind));
    }
    if (name) {
        charl_assert_ok(charl__writer_array(w, name, CHARL_U32, item, rows, data));
    }
    st = charl__writer_finish(w); /* reads it back */
    charl__writer_destroy(w);
    if (st == CHARL_OK) {
        charl_tokenizer *t = NULL;

        st = charl_tokenizer_load(file, &t);
        charl_tokenizer_destroy(t);
    }
    charl_assert_status(st, CHARL_ERR_DATA);
}

static void files_that_are_refused(void **state)
{
    static const charl_shape point = {0, {0}}, pair = {1, {2}};
    static uint32_t doubling[2 * 20];
    const uint32_t twice[] = {97, 97, 97, 97}, later[] = {97, 98, 258, 97}, points[] = {98, 97}, surrogate[] = {0xd800};

    (void)state;
    for (uint32_t i = 0; i < 20; i++) {
        doubling[2 * i] = doubling[2 * i + 1] = i == 0 ? 97 : 255 + i;
    }
    write_file(NULL, NULL, NULL, 0, NULL, 256);
    charl_assert_message("carries no tokenizer");
    write_file("wordpiece", NULL, NULL, 0, NULL, 256);
    charl_assert_message("unknown tokenizer \"wordpiece\"");
    write_file("bytes", NULL, NULL, 0, NULL, 300);
    charl_assert_message("the tokenizer has 256 tokens, but the vocabulary of the data 300");
    write_file("bpe", "/tokenizer/merges", &pair, 2, twice, 258);
    charl_assert_message("merge 1 is given twice");
    write_file("bpe", "/tokenizer/merges", &pair, 2, later, 258);
    charl_assert_message("merge 1 is of tokens 258 and 97, which do not come before it");
    write_file("bpe", "/tokenizer/merges", &pair, 20, doubling, 276);
    charl_assert_message("has more than 4096 bytes");
    write_file("bpe", "/tokenizer/merges", &point, 2, later, 258);
    charl_assert_message("/tokenizer/merges is not a vocabulary");
    write_file("chars", "/tokenizer/characters", &point, 2, points, 2);
    charl_assert_message("character 1 of the vocabulary, U+0061, is not one or out of order");
    write_file("chars", "/tokenizer/characters", &point, 1, surrogate, 1);
    charl_assert_message("U+D800");
    write_file("chars", NULL, NULL, 0, NULL, 2);
    charl_assert_message("the tokenizer has 0 tokens");
}

static const char *put(const char *name, const char *text, size_t bytes)
{
    const char *path = charl_test_path(dir, name);
    FILE *f = fopen(path, "wb");

    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, bytes, f), bytes);
    assert_int_equal(fclose(f), 0);
    return path;
}

/* The whole split as text. */
static void assert_split(charl_split split, const char *want, size_t bytes)
{
    static int32_t tokens[2 * TEXT];
    static int64_t rows[2 * TEXT];
    charl_dataset *ds = NULL;
    charl_tokenizer *t = NULL;
    charl_dataset_info info;
    char *text;
    size_t length;

    charl_assert_ok(
        charl_dataset_open(file, &(charl_dataset_options){sizeof(charl_dataset_options), .window = 1}, &ds));
    charl_dataset_get_info(ds, &info);
    charl_assert_ok(charl_tokenizer_load(file, &t));
    assert_string_equal(info.tokenizer, charl_tokenizer_get_type(t));
    assert_int_equal(info.classes, charl_tokenizer_get_vocab(t));
    for (int64_t i = 0; i < info.rows[split]; i++) {
        rows[i] = i;
    }
    charl_assert_ok(charl_dataset_read(ds, split, rows, info.rows[split], tokens, NULL));
    /* Windows need a token after them. */
    charl_assert_ok(charl_tokenizer_decode(t, tokens, info.rows[split], &text, &length));
    assert_true(length < bytes);
    assert_memory_equal(text, want, length);
    charl_free(text);
    charl_tokenizer_destroy(t);
    charl_dataset_close(ds);
}

static void texts_are_imported(void **state)
{
    static char text[TEXT];
    const size_t n = make_text(text, TEXT), cut = (size_t)((double)n * 0.8);
    const charl_import_options opt = {sizeof opt, .val_split = 0.2, .overwrite = true};
    const char *path = put("a.txt", text, n);

    (void)state;
    for (int i = 0; i < 3; i++) {
        const char *type = charl_tokenizer_type_name(i);
        const bool bpe = strcmp(type, "bpe") == 0;
        const char *const *how = WITH(given("tokenizer", type), number("vocab", bpe ? 300 : 0));
        charl_status st;

        st = charl_import("text", how, &path, 1, file, &opt);
        if (bpe && st == CHARL_ERR_CONFIG) {
            charl_assert_message("without libpcre2");
            continue;
        }
        charl_assert_ok(st);
        assert_split(CHARL_SPLIT_TRAIN, text, n);
        if (bpe) { /* cut where the text is cut */
            assert_split(CHARL_SPLIT_VAL, text + cut - (((unsigned char)text[cut] & 0xc0) == 0x80), n - cut + 1);
        }
    }
}

static void texts_that_are_refused(void **state)
{
    const char *const *chars = WITH("tokenizer=chars");
    const char *const *bpe = WITH("tokenizer=bpe", "vocab=300");
    const charl_import_options all = {sizeof all, .val_split = 0.9, .overwrite = true},
                               most = {sizeof most, .val_split = 1, .overwrite = true};
    static const char gz[20] = "\x1f\x8b\x08\0\0\0\0\0\0\x03\x03"; /* of nothing */
    const char *good = put("good.txt", "ab", 2);
    const char *const bad[] = {good, put("bad.txt", "ab\xff", 3)}, *const empty[] = {put("empty.gz", gz, sizeof gz)};

    (void)state;
    charl_assert_status(charl_import("text", chars, bad, 2, file, &all), CHARL_ERR_DATA);
    charl_assert_message("bad.txt: byte 2 is not UTF-8");
    charl_assert_status(charl_import("text", chars, empty, 1, file, &all), CHARL_ERR_DATA);
    charl_assert_message("there is no text");
    charl_assert_status(charl_import("text", NULL, empty, 1, file, NULL), CHARL_ERR_DATA);
    charl_assert_status(charl_import("text", NULL, &good, 0, file, NULL), CHARL_ERR_CONFIG);
    need_bpe();
    charl_assert_status(charl_import("text", bpe, &good, 1, file, &all), CHARL_ERR_CONFIG);
    charl_assert_message("leaves nothing to train on");
    charl_assert_status(charl_import("text", bpe, &good, 1, file, &most), CHARL_ERR_CONFIG);
    charl_assert_message("val_split must be at least 0");
}

static charl_status there_and_back(void *ctx)
{
    charl_status st = CHARL_OK;
    static char text[400];
    const size_t n = make_text(text, sizeof text);
    const char *const *how = WITH(given("tokenizer", ctx), number("vocab", strcmp(ctx, "bpe") == 0 ? 280 : 0));
    const char *path = charl_test_path(dir, "f.txt");
    charl_tokenizer *t = NULL;
    int32_t *tokens = NULL;
    char *back = NULL, *json = NULL;
    size_t length;
    int64_t count;

    CHARL_TRY_CLEANUP(charl_import("text", how, &path, 1, file,
                                   &(charl_import_options){sizeof(charl_import_options), .overwrite = true}));
    CHARL_TRY_CLEANUP(charl_tokenizer_load(file, &t));
    CHARL_TRY_CLEANUP(charl_tokenizer_encode(t, text, n, false, &tokens, &count));
    CHARL_TRY_CLEANUP(charl_tokenizer_decode(t, tokens, count, &back, &length));
    CHARL_TRY_CLEANUP(charl_tokenizer_print_json(t, &json));
cleanup:
    charl_free(json);
    charl_free(back);
    charl_free(tokens);
    charl_tokenizer_destroy(t);
    return st;
}

/* What is written as tokenizer.json is the same tokenizer when it is read. */
static void json_is_read_again(void **state)
{
    static const char text[] = "an \"apple\" \\ and\na \x01\xff\xc3\xa9 and an apple and";
    static const char *const types[] = {"bytes", "bpe"};
    const size_t bytes = sizeof text; /* and a NUL */

    (void)state;
    need_bpe();
    for (int i = 0; i < 2; i++) {
        charl_tokenizer *t = learn(types[i], text, bytes, 265), *again = NULL;
        const char *path = charl_test_path(dir, "tokenizer.json");
        char *json;
        int32_t *a, *b;
        int64_t n, m;

        charl_assert_ok(charl_tokenizer_print_json(t, &json));
        put("tokenizer.json", json, strlen(json));
        charl_free(json);
        charl_assert_ok(charl_tokenizer_load(path, &again));
        assert_int_equal(charl_tokenizer_get_vocab(again), charl_tokenizer_get_vocab(t));
        charl_assert_ok(charl_tokenizer_encode(t, text, bytes, false, &a, &n));
        charl_assert_ok(charl_tokenizer_encode(again, text, bytes, false, &b, &m));
        assert_int_equal(n, m);
        assert_memory_equal(a, b, (size_t)n * sizeof *a);
        charl_free(a);
        charl_free(b);
        charl_tokenizer_destroy(t);
        charl_tokenizer_destroy(again);
    }
}

static void every_acquisition_may_fail(void **state)
{
    static char text[400];

    (void)state;
    put("f.txt", text, make_text(text, sizeof text));
    assert_true(charl_test_fail_every_acquisition(there_and_back, (char[]){"chars"}) > 50);
    need_bpe();
    assert_true(charl_test_fail_every_acquisition(there_and_back, (char[]){"bpe"}) > 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_and_characters),      cmocka_unit_test(what_cannot_be_encoded),
        cmocka_unit_test(words_of_a_text),           cmocka_unit_test(merges_are_those_of_the_definition),
        cmocka_unit_test(few_pairs_make_few_tokens), cmocka_unit_test(tokens_have_a_largest_length),
        cmocka_unit_test(any_bytes_come_back),       cmocka_unit_test(files_that_are_refused),
        cmocka_unit_test(texts_are_imported),        cmocka_unit_test(texts_that_are_refused),
        cmocka_unit_test(json_is_read_again),        cmocka_unit_test(every_acquisition_may_fail),
    };

    return cmocka_run_group_tests(tests, setup, teardown_dir);
}
