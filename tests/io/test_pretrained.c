/* Published tokenizers: small files that the test writes, with tokens worked out by hand; what is refused, by name; what files and data sets
 * that are damaged do. */
#include "io/imports.h"
#include "io/scratch.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/numeric/rng.h"
#include "base/text/text.h"
#include "base/text/utf8.h"
#include "charl/data_schema.h"
#include "charl/dataset.h"
#include "charl/import.h"
#include "io/schema.h"
#include "data/tokenizer/pretrained.h"
#include "data/tokenizer/splitter.h"

/* Fewer under valgrind. */
static uint32_t rounds(uint32_t n)
{
    return getenv("CHARL_TEST_SHORT") ? n / 16 : n;
}

/* A byte as a token of tokenizer.json is written. */
static void put_byte(charl__text *t, unsigned byte)
{
    unsigned char form[4];
    uint32_t point = byte;

    if (byte <= ' ' || (byte >= 0x7f && byte <= 0xa0) || byte == 0xad) {
        point = 256 + (byte <= ' ' ? byte : byte == 0xad ? 67 : byte - 0x7f + 33);
    }
    if (point == '"' || point == '\\') {
        charl_assert_ok(charl__text_append(t, "\\", 1));
    }
    charl_assert_ok(charl__text_append(t, form, charl__utf8_put(point, form)));
}

static void put_bytes(charl__text *t, const char *token)
{
    for (const char *c = token; *c; c++) {
        put_byte(t, (unsigned char)*c);
    }
}

static void put_token(charl__text *t, const char *token)
{
    charl_assert_ok(charl__text_append(t, "\"", 1));
    put_bytes(t, token);
    charl_assert_ok(charl__text_append(t, "\"", 1));
}

/* Tokens 0 to 255 are the bytes, then come those of the merges, whose halves are `left` and `right`. */
static const char *const left[] = {"h", "l", "he", "hell", " ", " w", "r", "o", " wor", "a", "aa"};
static const char *const right[] = {"e", "l", "ll", "o", "w", "o", "l", "r", "ld", "a", "aa"};

enum {
    MERGES = sizeof left / sizeof *left,
    HE = 256,
    LL,
    HELL,
    HELLO,
    SP_W,
    SP_WO,
    RL,
    OR,
    WORLD,
    AA,
    AAAA,
    TEXT_END,
    THINK,
    SPACES
};

/* Without a merge that makes it, " world" is in the vocabulary only if asked for. */
static void put_vocab(charl__text *t, bool world)
{
    charl_assert_ok(charl__text_printf(t, "{\"\xc4\x80\": 0"));
    for (unsigned i = 1; i < 256; i++) {
        const char byte[2] = {(char)i, '\0'};

        charl_assert_ok(charl__text_printf(t, ", "));
        put_token(t, byte);
        charl_assert_ok(charl__text_printf(t, ": %u", i));
    }
    for (int i = 0; i < MERGES; i++) {
        char both[16];

        if (i != WORLD - HE || world) {
            snprintf(both, sizeof both, "%s%s", left[i], right[i]);
            charl_assert_ok(charl__text_printf(t, ", "));
            put_token(t, both);
            charl_assert_ok(charl__text_printf(t, ": %d", HE + i));
        }
    }
}

/* "h e", or with `pairs` ["h", "e"] */
static void put_merges(charl__text *t, bool pairs)
{
    for (int i = 0; i < MERGES; i++) {
        if (i == WORLD - HE) {
            continue;
        }
        charl_assert_ok(charl__text_printf(t, "%s%s\"", i > 0 ? "," : "", pairs ? "[" : ""));
        put_bytes(t, left[i]);
        charl_assert_ok(charl__text_printf(t, "%s", pairs ? "\",\"" : " "));
        put_bytes(t, right[i]);
        charl_assert_ok(charl__text_printf(t, "\"%s", pairs ? "]" : ""));
    }
}

#define ADDED                                                                                                          \
    "{\"id\":267,\"content\":\"<|endoftext|>\",\"special\":true,\"normalized\":false},"                                \
    "{\"id\":268,\"content\":\"<think>\",\"special\":false,\"normalized\":false},"                                     \
    "{\"id\":269,\"content\":\"   \",\"special\":false,\"normalized\":true}"
#define BYTE_LEVEL "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false}"
#define GPT2 "{\"type\":\"ByteLevel\",\"add_prefix_space\":false}"
#define SPLIT(pattern)                                                                                                 \
    "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"" pattern "\"},\"behavior\":\"Isolated\",\"invert\":false}"
#define SEQUENCE(list) "{\"type\":\"Sequence\",\"pretokenizers\":[" list "]}"

/* What a tokenizer.json says; NULL: what is usual. */
typedef struct json {
    const char *normalizer, *pre, *model, *added;
    bool pairs;
} json;

static const char *write_json(const char *name, const json *j)
{
    const char *path = charl_test_path(dir, name);
    charl__text t = {0};

    charl_assert_ok(
        charl__text_printf(&t, "{\"added_tokens\":[%s],\"normalizer\":%s,\"pre_tokenizer\":%s,\"model\":{%s,\"vocab\":",
                           j->added ? j->added : ADDED, j->normalizer ? j->normalizer : "null", j->pre ? j->pre : GPT2,
                           j->model ? j->model : "\"type\":\"BPE\""));
    put_vocab(&t, true);
    charl_assert_ok(charl__text_printf(&t, "},\"merges\":["));
    put_merges(&t, j->pairs);
    charl_assert_ok(charl__text_printf(&t, "]}}"));
    put_file(path, t.data, t.length);
    charl__text_fini(&t);
    return path;
}

/* Loads; a charl without the libraries that it needs skips the test. */
static charl_tokenizer *load(const char *path)
{
    charl_tokenizer *t = NULL;
    const charl_status st = charl_tokenizer_load(path, &t);

    if (st == CHARL_ERR_CONFIG) {
        charl_assert_message("HINT install");
        skip();
    }
    charl_assert_ok(st);
    return t;
}

/* The tokens decode to `decoded`. */
static void assert_becomes(const charl_tokenizer *t, bool special, const char *text, const char *decoded,
                           const int32_t *want, int64_t n)
{
    int32_t *tokens = NULL;
    int64_t count = 0;
    char *back = NULL;
    size_t bytes = 0;

    charl_assert_ok(charl_tokenizer_encode(t, text, strlen(text), special, &tokens, &count));
    for (int64_t i = 0; i < count && i < n; i++) {
        if (tokens[i] != want[i]) {
            fail_msg("\"%s\": token %lld is %d, not %d", text, (long long)i, tokens[i], want[i]);
        }
    }
    assert_int_equal(count, n);
    charl_assert_ok(charl_tokenizer_decode(t, tokens, count, &back, &bytes));
    assert_string_equal(back, decoded);
    charl_free(back);
    charl_free(tokens);
}

static void assert_encodes(const charl_tokenizer *t, bool special, const char *text, const int32_t *want, int64_t n)
{
    assert_becomes(t, special, text, text, want, n);
}

#define ENCODES(t, special, text, ...)                                                                                 \
    assert_encodes(t, special, text, (const int32_t[]){__VA_ARGS__},                                                   \
                   sizeof((const int32_t[]){__VA_ARGS__}) / sizeof(int32_t))

static void tokenizer_json(void **state)
{
    (void)state;
    for (int pairs = 0; pairs < 2; pairs++) {
        charl_tokenizer *t = load(write_json("tokenizer.json", &(json){.pairs = pairs}));

        assert_string_equal(charl_tokenizer_get_type(t), "pretrained");
        assert_int_equal(charl_tokenizer_get_vocab(t), SPACES + 1);
        ENCODES(t, false, "hello world", HELLO, SP_WO, RL, 'd');
        ENCODES(t, false, "helloworld", HELLO, 'w', 'o', RL, 'd');
        ENCODES(t, false, "aaaaaaa", AAAA, AA, 'a');
        ENCODES(t, false, "\xc3\xa9\xff", 0xc3, 0xa9, 0xff);
        charl_tokenizer_destroy(t);
    }
}

static void special_tokens(void **state)
{
    charl_tokenizer *t = load(write_json("tokenizer.json", &(json){0}));

    (void)state;
    ENCODES(t, true, "he<|endoftext|>he", HE, TEXT_END, HE);
    ENCODES(t, false, "<|end", '<', '|', 'e', 'n', 'd');
    ENCODES(t, false, "he<|endoftext|>", HE, '<', '|', 'e', 'n', 'd', 'o', 'f', 't', 'e', 'x', 't', '|', '>');
    ENCODES(t, false, "<think>he<thin", THINK, HE, '<', 't', 'h', 'i', 'n'); /* added, but not special */
    ENCODES(t, false, "he     he", HE, SPACES, ' ', ' ', HE);
    assert_true(charl__tokenizer_is_special(t, TEXT_END));
    assert_false(charl__tokenizer_is_special(t, THINK));
    assert_false(charl__tokenizer_is_special(t, 1000));
    assert_int_equal(charl_tokenizer_find_special(t, "<|endoftext|>"), TEXT_END);
    assert_int_equal(charl_tokenizer_find_special(t, "<think>"), -1);
    assert_int_equal(charl_tokenizer_get_end_of_text(t), TEXT_END);
    charl_tokenizer_destroy(t);
}

/* Of added tokens that begin at one place the longest is found. */
static void longest_added_token(void **state)
{
    charl_tokenizer *t = load(
        write_json("l.json", &(json){.added = "{\"id\":267,\"content\":\"ab\"},{\"id\":268,\"content\":\"abcd\"}"}));

    (void)state;
    ENCODES(t, false, "abcabcdab", 267, 'c', 268, 267);
    charl_tokenizer_destroy(t);
    t = load(write_json("l.json", &(json){.added = "{\"id\":267,\"content\":\"ab\"},"
                                                   "{\"id\":268,\"content\":\"abcd\",\"special\":true}"}));
    ENCODES(t, false, "abcabcdab", 267, 'c', 'a', 'b', 'c', 'd', 267); /* no ab in a special token that is text */
    ENCODES(t, true, "abcdab", 268, 267);
    charl_tokenizer_destroy(t);
}

/* Words that have been met are remembered: a long text has the tokens of its words, encoded one by one. */
static void words_that_come_again(void **state)
{
    enum { WORDS = 20000, KINDS = 3000 };
    const charl__rng key = charl__rng_key(charl_test_seed(), 0, 5);
    static char text[WORDS * 8 + 1];
    charl_tokenizer *t = load(write_json("tokenizer.json", &(json){0}));
    int32_t *all = NULL, *one = NULL;
    int64_t n = 0, at = 0, count = 0;
    size_t length = 0;

    (void)state;
    for (int pass = 0; pass < 2; pass++) {
        size_t from = 0;

        for (uint32_t k = 0; k < WORDS; k++, from = length) {
            uint32_t kind = charl__rng_u32(&key, k) % (1 + charl__rng_u32(&key, WORDS + k) % KINDS);

            text[length++] = ' ';
            for (int i = 0; i < 5; i++, kind /= 6) {
                text[length++] = "helorw"[kind % 6];
            }
            if (pass == 1) {
                charl_assert_ok(charl_tokenizer_encode(t, text + from, length - from, false, &one, &count));
                assert_true(at + count <= n);
                assert_memory_equal(all + at, one, (size_t)count * sizeof *one);
                at += count;
                charl_free(one);
            }
        }
        if (pass == 0) {
            charl_assert_ok(charl_tokenizer_encode(t, text, length, false, &all, &n));
            length = 0;
        }
    }
    assert_int_equal(at, n);
    charl_free(all);
    charl_tokenizer_destroy(t);
}

/* One pattern after the other; what none matches is a piece too. */
static void patterns_and_normalizers(void **state)
{
    /* a match, one with a group, and one of nothing, which cuts too */
    static const char *const pre[] = {SEQUENCE(SPLIT("l") "," BYTE_LEVEL), SEQUENCE(SPLIT("(l)") "," BYTE_LEVEL),
                                      SEQUENCE(SPLIT("(?=l)") "," BYTE_LEVEL)};
    charl_tokenizer *t;

    (void)state;
    for (size_t i = 0; i < sizeof pre / sizeof *pre; i++) {
        t = load(write_json("a.json", &(json){.pre = pre[i]}));
        ENCODES(t, false, "hello w", HE, 'l', 'l', 'o', SP_W);
        ENCODES(t, false, "\xc3\xa9l", 0xc3, 0xa9, 'l');
        charl_tokenizer_destroy(t);
    }
    t = load(write_json("b.json", &(json){.pre = SEQUENCE("{\"type\":\"Digits\",\"individual_digits\":true}," SPLIT(
                                              "[a-h]+") "," BYTE_LEVEL)}));
    ENCODES(t, false, "aa1aahell", AA, '1', AA, HE, LL);
    charl_tokenizer_destroy(t);
    t = load(write_json("c.json", &(json){.normalizer = "{\"type\":\"NFC\"}"}));
    {
        int32_t *tokens;
        int64_t n;

        charl_assert_ok(charl_tokenizer_encode(t, "he\xcc\x81 \xff", 6, false, &tokens, &n)); /* e, U+0301 */
        assert_int_equal(n, 5);
        assert_memory_equal(tokens, ((const int32_t[]){'h', 0xc3, 0xa9, ' ', 0xff}), 5 * sizeof *tokens);
        charl_free(tokens);
        /* U+AC00 U+11A7: not a syllable with a final consonant; utf8proc 2.8 drops the second */
        charl_assert_ok(charl_tokenizer_encode(t, "\xea\xb0\x80\xe1\x86\xa7", 6, false, &tokens, &n));
        assert_int_equal(n, 6);
        assert_memory_equal(tokens, ((const int32_t[]){0xea, 0xb0, 0x80, 0xe1, 0x86, 0xa7}), 6 * sizeof *tokens);
        charl_free(tokens);
    }
    charl_tokenizer_destroy(t);
}

/* A word that is a token is that token if the file says so, though no merges make it. */
static void whole_words(void **state)
{
    charl_tokenizer *t = load(write_json("w.json", &(json){.model = "\"type\":\"BPE\",\"ignore_merges\":true"}));

    (void)state;
    ENCODES(t, false, "hello world", HELLO, WORLD);
    ENCODES(t, false, " worl", SP_WO, RL);
    charl_tokenizer_destroy(t);
}

static void refuse(const char *message, const json *j)
{
    charl_tokenizer *t = NULL;

    charl_assert_status(charl_tokenizer_load(write_json("bad.json", j), &t), CHARL_ERR_DATA);
    charl_assert_message(message);
    charl_assert_message("bad.json: ");
    assert_null(t);
}

static void what_is_not_supported_is_named(void **state)
{
    charl_tokenizer_destroy(load(write_json("tokenizer.json", &(json){0})));
    (void)state;
    refuse("its model is WordLevel", &(json){.model = "\"type\":\"WordLevel\""});
    refuse("no vocab or no merges", &(json){.model = "\"type\":\"Unigram\""});
    refuse("WordPiece is only supported with", &(json){.model = "\"type\":\"WordPiece\""});
    refuse("WordPiece is only supported with", &(json){.pre = "{\"type\":\"BertPreTokenizer\"}"});
    refuse("WhitespaceSplit without Metaspace", &(json){.pre = "{\"type\":\"WhitespaceSplit\"}"});
    refuse("continuing_subword_prefix \"\"",
           &(json){.pre = "{\"type\":\"BertPreTokenizer\"}",
                   .model = "\"type\":\"WordPiece\",\"continuing_subword_prefix\":\"\""});
    refuse("max_input_chars_per_word 9", &(json){.pre = "{\"type\":\"BertPreTokenizer\"}",
                                                 .model = "\"type\":\"WordPiece\",\"max_input_chars_per_word\":9"});
    refuse("neither byte-level BPE", &(json){.model = "\"type\":\"BPE\",\"byte_fallback\":true"});
    refuse("has 0 of the 256 tokens", &(json){.pre = "{\"type\":\"Metaspace\",\"replacement\":\"\xe2\x96\x81\"}",
                                              .added = "{\"id\":267,\"content\":\"<mask>\",\"special\":true}"});
    refuse("has 0 of the 256 tokens", &(json){.pre = "{\"type\":\"Metaspace\",\"replacement\":\"\xe2\x96\x81\"}",
                                              .model = "\"type\":\"BPE\",\"byte_fallback\":true",
                                              .added = "{\"id\":267,\"content\":\"<mask>\",\"special\":true}"});
    refuse("\"<mask>\" is normalized",
           &(json){.pre = "{\"type\":\"Metaspace\",\"replacement\":\"\xe2\x96\x81\"}",
                   .model = "\"type\":\"BPE\",\"byte_fallback\":true",
                   .added = "{\"id\":267,\"content\":\"<mask>\",\"special\":true,\"normalized\":true}"});
    refuse("prepend_scheme last", &(json){.pre = "{\"type\":\"Metaspace\",\"replacement\":\"\xe2\x96\x81\","
                                                 "\"prepend_scheme\":\"last\"}"});
    refuse("normalizer Nmt", &(json){.normalizer = "{\"type\":\"Nmt\"}"});
    refuse("Replace of the pattern \"a+\"",
           &(json){.normalizer = "{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"a+\"},\"content\":\"b\"}"});
    refuse("has an empty pattern",
           &(json){.normalizer = "{\"type\":\"Replace\",\"pattern\":{\"String\":\"\"},\"content\":\"b\"}"});
    refuse("not in base 64", &(json){.normalizer = "{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"x\"}"});
    refuse("precompiled_charsmap of 3 bytes is damaged",
           &(json){.normalizer = "{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"AAAA\"}"});
    refuse("end_of_word_suffix", &(json){.model = "\"type\":\"BPE\",\"end_of_word_suffix\":\"</w>\""});
    refuse("dropout", &(json){.model = "\"type\":\"BPE\",\"dropout\":0.1"});
    refuse("normalizer ByteLevel", &(json){.normalizer = "{\"type\":\"Sequence\",\"normalizers\":[{"
                                                         "\"type\":\"NFC\"},{\"type\":\"ByteLevel\"}]}"});
    refuse("pre_tokenizer Metaspace with the replacement", &(json){.pre = "{\"type\":\"Metaspace\"}"});
    refuse("neither byte-level BPE", &(json){.pre = SPLIT("a")});
    refuse("neither byte-level BPE", &(json){.pre = "null"});
    refuse("add_prefix_space", &(json){.pre = "{\"type\":\"ByteLevel\",\"add_prefix_space\":true}"});
    refuse("behavior MergedWithNext", &(json){.pre = "{\"type\":\"Split\",\"pattern\":{\"Regex\":"
                                                     "\"a\"},\"behavior\":\"MergedWithNext\"}"});
    refuse("uses \"$\"", &(json){.pre = SEQUENCE(SPLIT("a$") "," BYTE_LEVEL)});
    refuse("uses \"\\w\"", &(json){.pre = SEQUENCE(SPLIT("\\\\w+") "," BYTE_LEVEL)});
    refuse("uses \"ss)", &(json){.pre = SEQUENCE(SPLIT("(?i:a|(?:b)ss)") "," BYTE_LEVEL)});
    refuse("uses \"[\\p{Lu}]", &(json){.pre = SEQUENCE(SPLIT("(?i:a)ss[\\\\p{L}]|(?i:[\\\\p{Lu}])") "," BYTE_LEVEL)});
    refuse("uses \"\\pL\"", &(json){.pre = SEQUENCE(SPLIT("\\\\pL+") "," BYTE_LEVEL)});
    refuse("uses \"&&\"", &(json){.pre = SEQUENCE(SPLIT("[a-z&&b]") "," BYTE_LEVEL)});
    refuse("cannot be compiled", &(json){.pre = SEQUENCE(SPLIT("a)") "," BYTE_LEVEL)});
    refuse("\"<mask>\" with single_word",
           &(json){.added = "{\"id\":267,\"content\":\"<mask>\",\"special\":true,\"single_word\":true}"});
    refuse("\"<mask>\" has the number 268, but tokenizers gives it 267",
           &(json){.added = "{\"id\":268,\"content\":\"<mask>\",\"special\":true}"});
    refuse("\"hell\" has the number 267, but tokenizers gives it 258",
           &(json){.added = "{\"id\":267,\"content\":\"hell\"}"});
    refuse("token 104 is \"<mask>\" and \"h\"",
           &(json){.added = "{\"id\":104,\"content\":\"<mask>\",\"special\":true}"});
}

/* Small vocabularies; the numbers are those of `tokenizers` (of tekken.json tiktoken's). Each is written as tokenizer.json and read again. */
static void other_models(void **state)
{
#define MARK "\xe2\x96\x81"
#define UNKNOWN(id, text) "{\"added_tokens\":[{\"id\":" #id ",\"content\":\"" text "\",\"special\":true}],"
    static const char unigram[] = UNKNOWN(
        0, "<unk>") "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFKC\"},{\"type\":"
                    "\"Lowercase\"},{\"type\":\"Replace\",\"pattern\":{\"String\":\"``\"},\"content\":\"b\"}]},"
                    "\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"WhitespaceSplit\"},{"
                    "\"type\":\"Metaspace\",\"replacement\":\"" MARK "\",\"prepend_scheme\":\"always\"}]},"
                    "\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"<unk>\",0],[\"" MARK "\",-2],[\"" MARK
                    "a\",-1.5],[\"a\",-3],[\"b\",-2.5],[\"ab\",-1.75],[\"" MARK "ab\",-4.5]]}}";
    static const char bert[] = UNKNOWN(
        0, "[UNK]") "\"normalizer\":{\"type\":\"BertNormalizer\",\"clean_text\":true,\"handle_chinese_chars\":"
                    "true,\"strip_accents\":null,\"lowercase\":true},\"pre_tokenizer\":{\"type\":"
                    "\"BertPreTokenizer\"},\"model\":{\"type\":\"WordPiece\",\"unk_token\":\"[UNK]\",\"vocab\":{"
                    "\"[UNK]\":0,\"un\":1,\"##aff\":2,\"##able\":3,\",\":4,\"e\":5,\"\xe4\xb8\xad\":6}}}";
    static const char vocab[] = "[UNK]\nun\n##aff\n##able\n,\ne\n\xe4\xb8\xad\n";
    static const char tekken[] =
        "{\"config\":{\"pattern\":\"[a-b]+|[^a-b]\",\"default_vocab_size\":6,\"default_num_special_tokens\":2},"
        "\"special_tokens\":[{\"rank\":0,\"token_str\":\"<unk>\"}],\"vocab\":[{\"rank\":0,\"token_bytes\":\"YQ==\"},"
        "{\"rank\":1,\"token_bytes\":\"Yg==\"},{\"rank\":2,\"token_bytes\":\"YWI=\"},{\"rank\":3,\"token_bytes\":"
        "\"YWFi\"},{\"rank\":4,\"token_bytes\":\"YmI=\"}]}";
    static const struct {
        const char *file, *data, *text, *decoded;
        int32_t n, tokens[9];
    } cases[] = {
        {"u/tokenizer.json",
         unigram,
         " \xef\xbc\xa1"
         "b\t ab``\xe4\xb8\xad!a",
         "ab abb<unk>a",
         7,
         {1, 5, 1, 5, 4, 0, 3}},
        {"u/tokenizer.json", unigram, " \n", "", 0, {0}},
        {"b/tokenizer.json",
         bert,
         "Unaff\xc3\x81"
         "ble,\xc3\x89\xe4\xb8\xad"
         "e\tx UNABLE\x01",
         "unaffable , e \xe4\xb8\xad e[UNK] unable",
         10,
         {1, 2, 3, 4, 5, 6, 5, 0, 1}},
        {"v/vocab.txt", vocab, "unaffable,  zzz", "unaffable ,[UNK]", 5, {1, 2, 3, 4, 0}},
        {"t/tekken.json", tekken, "aabbbb", "aabbbb", 4, {5, 3, 3, 3}},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const int32_t n = cases[i].n;
        int32_t tokens[10] = {0};
        char folder[512], *again = NULL, *twice = NULL;
        charl_tokenizer *t;

        memcpy(tokens, cases[i].tokens, sizeof cases[i].tokens);
        tokens[9] = 3; /* of the longest */
        snprintf(folder, sizeof folder, "%s", charl_test_path(dir, cases[i].file));
        *strrchr(folder, '/') = '\0';
        assert_true(mkdir(folder, 0700) == 0 || errno == EEXIST);
        put_file(charl_test_path(dir, cases[i].file), cases[i].data, strlen(cases[i].data));
        t = load(folder);
        assert_becomes(t, false, cases[i].text, cases[i].decoded, tokens, n);
        charl_assert_ok(charl_tokenizer_print_json(t, &again));
        charl_tokenizer_destroy(t);
        put_file(charl_test_path(dir, "again.json"), again, strlen(again));
        t = load(charl_test_path(dir, "again.json"));
        assert_becomes(t, false, cases[i].text, cases[i].decoded, tokens, n);
        charl_assert_ok(charl_tokenizer_print_json(t, &twice));
        assert_string_equal(again, twice);
        charl_tokenizer_destroy(t);
        charl_free(again);
        charl_free(twice);
    }
}

/* vocab.txt does not say everything: what its folder says otherwise is followed or refused. */
static void vocabularies_of_bert(void **state)
{
    static const struct {
        const char *config, *refused; /* NULL: read, with the number of the token of "E" */
        int32_t token;
    } cases[] = {
        {"{}", NULL, 1},
        {"{\"do_lower_case\": false, \"tokenizer_class\": \"BertTokenizerFast\"}", NULL, 0},
        {"{\"added_tokens_decoder\": {\"0\": {\"content\": \"[UNK]\"}}}", NULL, 1},
        {"{\"added_tokens_decoder\": {\"1\": {\"content\": \"[ENT]\"}}}", "adds the token \"[ENT]\"", 0},
        {"{\"tokenizer_class\": \"BertJapaneseTokenizer\"}", "it is of a BertJapaneseTokenizer", 0},
        {"{\"do_lower_case\": ", "tokenizer_config.json: it is not JSON", 0},
    };
    const char *path = charl_test_path(dir, "vocab.txt"), *config = charl_test_path(dir, "tokenizer_config.json");
    charl_tokenizer *t = NULL;

    (void)state;
    put_file(path, "[UNK]\ne\n", 8);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put_file(config, cases[i].config, strlen(cases[i].config));
        if (cases[i].refused) {
            charl_assert_status(charl_tokenizer_load(path, &t), CHARL_ERR_DATA);
            charl_assert_message(cases[i].refused);
        } else {
            t = load(path);
            assert_becomes(t, false, "E", cases[i].token ? "e" : "[UNK]", &cases[i].token, 1);
            charl_tokenizer_destroy(t);
        }
    }
    put_file(config, "{}", 2);
    put_file(path, "[UNK]\ne\0\n", 9);
    charl_assert_status(charl_tokenizer_load(path, &t), CHARL_ERR_DATA);
    charl_assert_message("vocab.txt is a binary file");
}

static void pairs_of_files(void **state)
{
    charl__text vocab = {0};
    static const char merges[] =
        "#version: 0.2\nh e\nl l\nhe ll\nhell o\n\xc4\xa0 w\n\xc4\xa0w o\nr l\no r\na a\naa aa\n";
    static const struct {
        const char *name, *json, *message;
    } beside[] = {
        {"tokenizer_config.json", "{\"tokenizer_class\": \"GPT2Tokenizer\", \"add_prefix_space\": true}",
         "add_prefix_space"},
        {"tokenizer_config.json",
         "{\"added_tokens_decoder\": {\"267\": {\"content\": \"<|endoftext|>\"}, \"268\": {\"content\": \"<pad>\"}}}",
         "tokenizer_config.json adds the token \"<pad>\""},
        {"added_tokens.json", "{\"<|endoftext|>\": 267, \"<|pad|>\": 268}",
         "added_tokens.json adds the token \"<|pad|>\""},
    };
    char wrong[sizeof merges + 8];
    charl_tokenizer *t = NULL;

    (void)state;
    put_vocab(&vocab, false);
    charl_assert_ok(charl__text_printf(&vocab, ", \"<|endoftext|>\": 267}"));
    put_file(charl_test_path(dir, "vocab.json"), vocab.data, vocab.length);
    charl_assert_status(charl_tokenizer_load(charl_test_path(dir, "vocab.json"), &t), CHARL_ERR_IO);
    charl_assert_message("merges.txt: No such file");
    put_file(charl_test_path(dir, "merges.txt"), merges, sizeof merges - 1);
    t = load(charl_test_path(dir, "merges.txt"));
    assert_int_equal(charl_tokenizer_get_vocab(t), TEXT_END + 1);
    assert_int_equal(charl_tokenizer_get_end_of_text(t), TEXT_END);
    ENCODES(t, false, "hello world", HELLO, SP_WO, RL, 'd');
    ENCODES(t, true, "he<|endoftext|>", HE, TEXT_END);
    charl_tokenizer_destroy(t);
    put_file(charl_test_path(dir, "tokenizer_config.json"), "{\"tokenizer_class\": \"Qwen2Tokenizer\"}", 37);
    charl_assert_status(charl_tokenizer_load(charl_test_path(dir, "vocab.json"), &t), CHARL_ERR_DATA);
    charl_assert_message("Qwen2Tokenizer");
    charl_assert_message("HINT use its tokenizer.json");
    for (size_t i = 0; i < sizeof beside / sizeof *beside; i++) { /* what else may stand beside them */
        const char *path = charl_test_path(dir, beside[i].name);

        put_file(path, beside[i].json, strlen(beside[i].json));
        charl_assert_status(charl_tokenizer_load(charl_test_path(dir, "vocab.json"), &t), CHARL_ERR_DATA);
        charl_assert_message(beside[i].message);
        (void)remove(charl_test_path(dir, beside[i].name));
    }
    put_file(charl_test_path(dir, "merges.txt"), "h e\nl\n", 6);
    charl_assert_status(charl_tokenizer_load(charl_test_path(dir, "vocab.json"), &t), CHARL_ERR_DATA);
    charl_assert_message("merges.txt: merge 1 is \"l\", not two tokens");
    put_file(charl_test_path(dir, "merges.txt"), merges, strlen("#version: 0.2\nh e\nl l\n"));
    charl_assert_status(charl_tokenizer_load(charl_test_path(dir, "vocab.json"), &t), CHARL_ERR_DATA);
    charl_assert_message("the merges are cut off, or those of another vocabulary");
    snprintf(wrong, sizeof wrong, "%sh l\n", merges);
    put_file(charl_test_path(dir, "merges.txt"), wrong, strlen(wrong));
    charl_assert_status(charl_tokenizer_load(charl_test_path(dir, "vocab.json"), &t), CHARL_ERR_DATA);
    charl_assert_message("merge 10 makes \"hl\", which is not in the vocabulary");
    charl__text_fini(&vocab);
}

static void put_base64(charl__text *t, const unsigned char *s, size_t n)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

    for (size_t i = 0; i < n; i += 3) {
        const unsigned v =
            (unsigned)s[i] << 16 | (i + 1 < n ? (unsigned)s[i + 1] << 8 : 0) | (i + 2 < n ? s[i + 2] : 0U);

        charl_assert_ok(charl__text_printf(t, "%c%c%c%c", digits[v >> 18], digits[v >> 12 & 63],
                                           i + 1 < n ? digits[v >> 6 & 63] : '=', i + 2 < n ? digits[v & 63] : '='));
    }
}

/* Bytes, then these tokens, by rank. */
static const char *write_ranks(const char *name, const char *const *tokens)
{
    const char *path = charl_test_path(dir, name);
    charl__text t = {0};
    int rank = 0;

    for (; rank < 256; rank++) {
        const unsigned char byte = (unsigned char)rank;

        put_base64(&t, &byte, 1);
        charl_assert_ok(charl__text_printf(&t, " %d\n", rank));
    }
    for (; *tokens; tokens++) {
        put_base64(&t, (const unsigned char *)*tokens, strlen(*tokens));
        charl_assert_ok(charl__text_printf(&t, " %d\n", rank++));
    }
    put_file(path, t.data, t.length);
    charl__text_fini(&t);
    return path;
}

static void rank_files(void **state)
{
    /* ranks       256   257   258    259  260  261      262       263      264 */
    static const char *const tokens[] = {"ab", "bc", "abc", "'S", "aa", "aaaa", " ab", "hello", "12", NULL};
    charl_tokenizer *t = load(write_ranks("cl100k_base-test.tiktoken", tokens)), *none = NULL;
    const char *path;

    (void)state;
    assert_int_equal(charl_tokenizer_get_vocab(t), 265 + 21);
    assert_int_equal(charl_tokenizer_find_special(t, "<|endoftext|>"), 265 + 1);
    assert_int_equal(charl_tokenizer_find_special(t, "<|endofprompt|>"), 265 + 20);
    ENCODES(t, false, "abc", 258);
    ENCODES(t, false, "bcab", 257, 256);
    ENCODES(t, false, "hello", 263); /* no two tokens make it */
    ENCODES(t, false, "hellob", 'h', 'e', 'l', 'l', 'o', 'b');
    ENCODES(t, false, "x'Sy", 'x', 259, 'y'); /* contractions in either case */
    ENCODES(t, false, "1212", 264, '1', '2'); /* at most three digits */
    ENCODES(t, false, "aaaaaa", 261, 260);
    ENCODES(t, true, "ab<|endoftext|> ab", 256, 266, 262);
    charl_tokenizer_destroy(t);
    t = load(write_ranks("r50k_base-test.tiktoken", tokens));
    ENCODES(t, false, "x'Sy", 'x', '\'', 'S', 'y');
    ENCODES(t, false, "1212", 264, 264);
    charl_tokenizer_destroy(t);
    path = write_ranks("cl100k_base.tiktoken", tokens); /* the name of the published file */
    charl_assert_status(charl_tokenizer_load(path, &none), CHARL_ERR_DATA);
    charl_assert_message("cl100k_base has 100256 ranks, but the file has 265: it is cut off, or is another vocabulary");
    t = load(write_ranks("qwen-test.tiktoken", tokens));
    ENCODES(t, true, "12ab<|endoftext|><|im_end|>", '1', '2', 256, 265, 267);
    assert_int_equal(charl_tokenizer_find_special(t, "<|extra_204|>"), 265 + 3 + 204);
    charl_tokenizer_destroy(t);
    path = write_ranks("qwenx.tiktoken", tokens); /* not the name of an encoding */
    charl_assert_status(charl_tokenizer_load(path, &none), CHARL_ERR_DATA);
    path = write_ranks("mine.tiktoken", tokens);
    charl_assert_status(charl_tokenizer_load(path, &none), CHARL_ERR_DATA);
    charl_assert_message("none of the known encodings has its 265 ranks (r50k_base 50256, ");
    put_file(path, "YQ== 0\nYg== 0\n", 14);
    charl_assert_status(charl_tokenizer_load(path, &none), CHARL_ERR_DATA);
    charl_assert_message("line 2: rank 0 was given before");
    put_file(path, "YQ== 0\nYg==", 11);
    charl_assert_status(charl_tokenizer_load(path, &none), CHARL_ERR_DATA);
    charl_assert_message("line 2 is not a token in base 64 and its rank");
}

/* Long words are merged in another way than short ones: both must merge what the definition does. */
static void words_of_any_length(void **state)
{
    static const char *const tokens[] = {"ab",   "ba",  "aa",   "bb",  "aba",  "bab",
                                         "abab", "aab", "aaaa", "bbb", "abba", NULL};
    static const char alphabet[] = "aabbabac";
    const charl__rng key = charl__rng_key(charl_test_seed(), 0, 3);
    charl_tokenizer *t = load(write_ranks("r50k_base-test.tiktoken", tokens));

    (void)state;
    for (uint32_t k = 0; k < rounds(300); k++) {
        enum { MOST = 260 };
        char word[MOST + 1] = {0};
        int32_t want[MOST];
        const uint32_t n = 1 + charl__rng_u32(&key, 1000 * k) % MOST;
        int64_t left_over = n;

        for (uint32_t i = 0; i < n; i++) {
            word[i] = alphabet[charl__rng_u32(&key, 1000 * k + 1 + i) % (k % 3 == 0 ? 2 : 8)];
            want[i] = (unsigned char)word[i];
        }
        for (;;) { /* the pair that makes the token of the lowest rank, the leftmost of equals */
            int64_t best = -1;
            int32_t lowest = INT32_MAX;

            for (int64_t i = 0; i + 1 < left_over; i++) {
                char both[16];
                size_t a, b;
                const char *x = charl_tokenizer_get_token(t, want[i], &a),
                           *y = charl_tokenizer_get_token(t, want[i + 1], &b);

                snprintf(both, sizeof both, "%.*s%.*s", (int)a, x, (int)b, y);
                for (int32_t r = 0; tokens[r]; r++) {
                    if (strcmp(tokens[r], both) == 0 && 256 + r < lowest) {
                        lowest = 256 + r;
                        best = i;
                    }
                }
            }
            if (best < 0) {
                break;
            }
            want[best] = lowest;
            memmove(want + best + 1, want + best + 2, (size_t)(left_over - best - 2) * sizeof *want);
            left_over--;
        }
        assert_encodes(t, false, word, want, left_over);
    }
    charl_tokenizer_destroy(t);
}

/* Runs of one character are one word: not in quadratic time, which would take minutes. */
static void long_runs(void **state)
{
    enum { RUN = 1 << 20 };
    const size_t run = rounds(RUN);
    static const char *const tokens[] = {"aa", "aaaa", "  ", "    ", NULL};
    charl_tokenizer *t = load(write_ranks("o200k_base-test.tiktoken", tokens));
    static char text[RUN];
    int32_t *ids = NULL;
    int64_t n = 0;

    (void)state;
    for (const char *c = "a A\n"; *c; c++) {
        memset(text, *c, run);
        charl_assert_ok(charl_tokenizer_encode(t, text, run, false, &ids, &n));
        assert_int_equal(n, *c == 'a' || *c == ' ' ? (int64_t)run / 4 : (int64_t)run);
        charl_free(ids);
    }
    charl_tokenizer_destroy(t);
}

static void put_sentencepiece(charl__text *out, const char *word, char type, float score)
{
    const unsigned char body = (unsigned char)strlen(word);

    charl_assert_ok(charl__text_printf(out, "\n%c\n%c%s\x15", body + 9, body, word));
    charl_assert_ok(charl__text_append(out, &score, sizeof score));
    charl_assert_ok(charl__text_printf(out, "\x18%c", type));
}

/* SentencePiece puts a space in front of a text, but not of one that continues another, as an answer does its question. */
static void texts_that_continue(void **state)
{
    static const int32_t words[] = {259, 259};
    static const char line[] =
        "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"assistant\", \"content\": \"a a\"}]}\n";
    static const char chat[] = "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\na a<|im_end|>\n";
    const char *lines = charl_test_path(dir, "chat.jsonl"), *out = charl_test_path(dir, "chat.h5");
    const charl_import_options replace = {sizeof replace, .overwrite = true};
    charl_dataset *ds = NULL;
    int32_t all[200];
    charl__text file = {0};
    const char *path = charl_test_path(dir, "sentencepiece.model"), *folder = charl_test_path(dir, "mistral");
    charl_tokenizer *t;
    int32_t *ids = NULL;
    int64_t n = 0;
    char word[8];

    (void)state;
    put_sentencepiece(&file, "<unk>", 2, 0);
    for (unsigned i = 0; i < 256; i++) {
        snprintf(word, sizeof word, "<0x%02X>", i);
        put_sentencepiece(&file, word, 6, 0);
    }
    put_sentencepiece(&file, "\u2581", 1, -2);
    put_sentencepiece(&file, "a", 1, -2);
    put_sentencepiece(&file, "\u2581a", 1, -1);
    put_sentencepiece(&file, "</s>", 3, 0);
    charl_assert_ok(charl__text_append(&file, "\x12\2\x18\2\x1a\4\x18\1\x20\0", 10));
    put_file(path, file.data, file.length);
    assert_int_equal(mkdir(folder, 0700), 0); /* as Mistral publishes them: no other file is a tokenizer's */
    put_file(charl_test_path(folder, "tokenizer.model.v3"), file.data, file.length);
    charl__text_fini(&file);
    t = load(folder);
    ENCODES(t, false, "a a", 259, 259);
    charl_tokenizer_destroy(t);
    t = load(path);
    ENCODES(t, false, "a a", 259, 259);
    ENCODES(t, false, " a", 257, 259);
    charl_assert_ok(charl__tokenizer_continue(t, " a a", 4, &ids, &n));
    assert_int_equal(n, 2);
    assert_memory_equal(ids, words, sizeof words);
    charl_free(ids);
    put_file(lines, line, sizeof line - 1);
    charl_assert_ok(charl_import("chat", WITH(given("tokenizer", path)), &lines, 1, out, &replace));
    charl_assert_ok(charl_dataset_open(out, &(charl_dataset_options){sizeof(charl_dataset_options), .window = 1}, &ds));
    charl_assert_ok(charl_tokenizer_encode(t, chat, sizeof chat - 1, false, &ids, &n));
    assert_true(n < (int64_t)(sizeof all / sizeof *all));
    for (int64_t i = 0; i + 1 < n; i++) { /* the last one is a target only */
        charl_assert_ok(charl_dataset_read(ds, CHARL_SPLIT_TRAIN, &i, 1, &all[i], NULL));
    }
    assert_memory_equal(all, ids, (size_t)(n - 1) * sizeof *ids);
    charl_dataset_close(ds);
    charl_free(ids);
    charl_tokenizer_destroy(t);
}

static void files_that_are_none(void **state)
{
    static const char prepends[] =
        "{\"normalizer\": {\"type\": \"Prepend\", \"prepend\": \"\xe2\x96\x81\"}, \"pre_tokenizer\": null, "
        "\"model\": {\"type\": \"BPE\", \"byte_fallback\": true, \"vocab\": {\"a\": 0}, \"merges\": []}}";
    charl_tokenizer *t = NULL;
    const char *path = charl_test_path(dir, "x");
    const char *folder = charl_test_path(dir, "folder");
    const char *whole = write_json("cut.json", &(json){0});
    charl__text text = {0};

    (void)state;
    charl_tokenizer_destroy(load(whole));
    charl_assert_status(charl_tokenizer_load(charl_test_path(dir, "missing"), &t), CHARL_ERR_IO);
    charl_assert_message("missing: No such file");
    assert_int_equal(mkdir(folder, 0700), 0);
    charl_assert_status(charl_tokenizer_load(folder, &t), CHARL_ERR_DATA);
    charl_assert_message("has no tokenizer; looked for tokenizer.json, vocab.json, encoder.json, "
                         "tekken.json, *.tiktoken, tokenizer.model, tokenizer.model.v*, vocab.txt");
    put_file(path, "\n\x0e\n\x05<unk>", 9);
    charl_assert_status(charl_tokenizer_load(path, &t), CHARL_ERR_DATA);
    charl_assert_message("is cut short, or not a model of SentencePiece");
    put_file(path, "\n\x07\n\x05<unk>\x12\x02\x18\x02", 13); /* the normalizer's defaults change text */
    charl_assert_status(charl_tokenizer_load(path, &t), CHARL_ERR_DATA);
    charl_assert_message("no trainer_spec or no normalizer_spec");
    put_file(path,
             "\n\x09\n\x05<unk>\x18\x02\n\x06\n\x02"
             "ab\x18\x05\x12\x02\x18\x02\x1a\x02\x20\0",
             27); /* merged by SentencePiece, then divided again */
    charl_assert_status(charl_tokenizer_load(path, &t), CHARL_ERR_DATA);
    charl_assert_message("piece 1 is of type UNUSED");
    put_file(path, prepends, strlen(prepends)); /* its spaces stay spaces */
    charl_assert_status(charl_tokenizer_load(path, &t), CHARL_ERR_DATA);
    charl_assert_message("it is neither byte-level BPE");
    put_file(path, "", 0);
    charl_assert_status(charl_tokenizer_load(path, &t), CHARL_ERR_DATA);
    charl_assert_message("is not a tokenizer that charl reads");
    put_file(path, "{\"a\": 1}", 8);
    charl_assert_status(charl_tokenizer_load(path, &t), CHARL_ERR_DATA);
    charl_assert_message("is one JSON object, not a tokenizer that charl reads");
    charl_assert_ok(charl__tokenizer_read_file(whole, &text));
    put_file(whole, text.data, text.length / 2);
    charl_assert_status(charl_tokenizer_load(whole, &t), CHARL_ERR_DATA);
    charl_assert_message("cut.json: it is not JSON, or cut off");
    charl__text_fini(&text);
}

/* A state that ends early or has other bytes is refused, or is another tokenizer; it never harms. */
static void states_that_are_damaged(void **state)
{
    const charl__rng key = charl__rng_key(charl_test_seed(), 0, 4);
    charl_tokenizer *t = load(write_json("tokenizer.json", &(json){0})), *other = NULL;
    unsigned char *copy = NULL;
    /* no flags, one normalizer, NFC, that ends within its length */
    static const unsigned char cut[] =
        "charl tokenizer 1\n\0\0\0\0\1\0\0\0\0\0\0\0\0\0\0\0\2\0\0\0\3\0\0\0\xff\xff\xff\xff";

    (void)state;
    charl_assert_ok(charl__tokenizer_restore(t->layout, t->state, t->n, &other));
    assert_true(charl__tokenizer_equal(t, other));
    charl_tokenizer_destroy(other);
    for (int64_t n = 0; n < t->n; n += n < 100 ? 1 : 37) {
        charl_assert_status(charl__tokenizer_restore(t->layout, t->state, n, &other), CHARL_ERR_DATA);
    }
    charl_assert_ok(charl__alloc((size_t)t->n, &copy));
    memcpy(copy, t->state, (size_t)t->n);
    copy[strlen("charl tokenizer 1\n")] = 1; /* normal form C, as charl stored it once */
    charl_assert_status(charl__tokenizer_restore(t->layout, copy, t->n, &other), CHARL_ERR_DATA);
    charl_assert_message("the tokenizer has flags 1 and");
    copy[strlen("charl tokenizer 1\n") + 1] = 1 << 3; /* scores of a sentence, and no scores */
    copy[strlen("charl tokenizer 1\n")] = 0;
    charl_assert_status(charl__tokenizer_restore(t->layout, copy, t->n, &other), CHARL_ERR_DATA);
    charl_assert_message("the tokenizer has flags 2048 and");
    charl_assert_status(charl__tokenizer_restore(t->layout, cut, sizeof cut, &other), CHARL_ERR_DATA);
    charl_assert_message("a normalizer of kind 0 and 3 bytes");
    for (uint32_t k = 0; k < rounds(400); k++) {
        charl_status st;

        memcpy(copy, t->state, (size_t)t->n);
        copy[charl__rng_u32(&key, 3 * k) % (k % 2 == 0 ? 100 : (uint32_t)t->n)] =
            (unsigned char)charl__rng_u32(&key, 3 * k + 1);
        st = charl__tokenizer_restore(t->layout, copy, t->n, &other);
        assert_true(st == CHARL_OK || st == CHARL_ERR_DATA || st == CHARL_ERR_CONFIG);
        if (st == CHARL_OK) {
            int32_t *tokens = NULL;
            int64_t n;

            st = charl_tokenizer_encode(other, "hello <think> world", 19, true, &tokens, &n);
            assert_true(st == CHARL_OK || st == CHARL_ERR_DATA);
            charl_free(tokens);
        }
        charl_tokenizer_destroy(other);
    }
    charl_free(copy);
    charl_tokenizer_destroy(t);
}

/* A data set of text keeps the tokenizer; tokens get theirs, with a vocabulary that may be larger. */
static void data_sets_keep_it(void **state)
{
    const char *text = charl_test_path(dir, "t.txt"), *out = charl_test_path(dir, "t.h5");
    const char *json_path = write_json("tokenizer.json", &(json){0});
    const charl_import_options replace = {sizeof replace, .overwrite = true};
    const char *const *how = WITH(given("tokenizer", json_path), "special_tokens=yes");
    static const unsigned char u16[] = {0, 1, 4, 1, 5, 1, 13, 1}; /* 256, 260, 261, 269 */
    charl_tokenizer *t = load(json_path), *back = NULL;
    charl_data_schema *schema = NULL;
    char *text_of_schema = NULL;
    charl_dataset *ds = NULL;
    charl_dataset_info info;
    int32_t tokens[3];

    (void)state;
    put_file(text, "hello<|endoftext|> worl", 23);
    charl_assert_ok(charl_import("text", how, &text, 1, out, &replace));
    charl_assert_ok(charl_dataset_open(out, &(charl_dataset_options){sizeof(charl_dataset_options), .window = 1}, &ds));
    charl_dataset_get_info(ds, &info);
    assert_string_equal(info.tokenizer, "pretrained");
    assert_int_equal(info.classes, SPACES + 1);
    charl_assert_ok(charl_dataset_read(ds, CHARL_SPLIT_TRAIN, (const int64_t[]){0, 1, 2}, 3, tokens, NULL));
    assert_memory_equal(tokens, ((const int32_t[]){HELLO, TEXT_END, SP_WO}), sizeof tokens);
    charl_assert_ok(charl_data_schema_create(ds, 0, NULL, NULL, &schema));
    charl_dataset_close(ds);
    assert_true(charl__tokenizer_equal(t, schema->tokenizer));
    charl_assert_ok(charl_data_schema_print(schema, &text_of_schema)); /* as in safetensors and ONNX */
    charl_data_schema_destroy(schema);
    charl_assert_ok(charl__data_schema_parse("model", text_of_schema, &schema));
    assert_true(charl__tokenizer_equal(t, schema->tokenizer));
    charl_data_schema_destroy(schema);
    charl_free(text_of_schema);
    charl_assert_ok(charl_tokenizer_load(out, &back));
    assert_true(charl__tokenizer_equal(t, back));
    charl_tokenizer_destroy(back);

    put_file(text, u16, sizeof u16);
    charl_assert_ok(charl_import("tokens", WITH("vocab=300", given("tokenizer", json_path)), &text, 1, out, &replace));
    charl_assert_ok(charl_tokenizer_load(out, &back));
    assert_true(charl__tokenizer_equal(t, back));
    charl_tokenizer_destroy(back);
    charl_assert_status(
        charl_import("tokens", WITH("vocab=200", given("tokenizer", json_path)), &text, 1, out, &replace),
        CHARL_ERR_CONFIG);
    charl_assert_message("a vocabulary of 200 is too small for");
    put_file(text, "\x0e\x01\0\0", 4); /* 270 */
    charl_assert_status(charl_import("tokens", WITH(given("tokenizer", json_path)), &text, 1, out, &replace),
                        CHARL_ERR_DATA);
    charl_assert_message("is 270, the vocabulary has 270");
    charl_tokenizer_destroy(t);
}

static void assert_cuts(bool want, const json *j)
{
    charl_tokenizer *t = load(write_json("tokenizer.json", j));

    assert_int_equal(charl__tokenizer_cuts_at_spaces(t), want);
    charl_tokenizer_destroy(t);
}

/* Long texts are encoded in parts, which must not show: neither in words that hold spaces nor in added tokens. */
static void where_texts_are_cut(void **state)
{
    enum { TIMES = 130000, BYTES = 11 }; /* more than is held of a text */
    const char *path, *out, *name;
    const char *added = "{\"id\":267,\"content\":\"hello world\",\"special\":false,\"normalized\":false}";
    charl_dataset *ds = NULL;
    charl_dataset_info info;
    char *text = NULL;

    (void)state;
    assert_cuts(true, &(json){0});
    assert_cuts(true, &(json){.pre = SEQUENCE(SPLIT("\\\\p{N}{1,3}") "," SPLIT(
                                  "[^\\\\p{L}]?\\\\p{L}+|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|"
                                  "\\\\s+") "," BYTE_LEVEL)});
    assert_cuts(false, &(json){.pre = BYTE_LEVEL});
    assert_cuts(false, &(json){.pre = SEQUENCE(SPLIT("\\\\p{N}") "," BYTE_LEVEL)});
    assert_cuts(false, &(json){.pre = SEQUENCE(SPLIT("[A-Z]+ [a-z]|\\\\S+|\\\\s+") "," BYTE_LEVEL)});
    assert_cuts(false, &(json){.pre = SEQUENCE(SPLIT("(?<=[a-z]) b|\\\\S+|\\\\s+") "," BYTE_LEVEL)});
    assert_cuts(false, &(json){.added = added});
    charl_assert_ok(charl__alloc((size_t)TIMES * BYTES, &text));
    for (size_t i = 0; i < TIMES; i++) {
        memcpy(text + i * BYTES, "hello world", BYTES);
    }
    path = charl_test_path(dir, "long.txt");
    out = charl_test_path(dir, "long.h5");
    put_file(path, text, (size_t)TIMES * BYTES);
    charl_free(text);
    name = write_json("tokenizer.json", &(json){.added = added});
    charl_assert_ok(charl_import("text", WITH(given("tokenizer", name)), &path, 1, out, NULL));
    charl_assert_ok(charl_dataset_open(out, &(charl_dataset_options){sizeof(charl_dataset_options), .window = 1}, &ds));
    charl_dataset_get_info(ds, &info);
    assert_int_equal(info.rows[CHARL_SPLIT_TRAIN], TIMES - 1); /* windows need a token after them */
    charl_dataset_close(ds);
}

static charl_status load_and_encode(void *ctx)
{
    charl_status st = CHARL_OK;
    charl_tokenizer *t = NULL;
    int32_t *tokens = NULL;
    int64_t n;

    CHARL_TRY_CLEANUP(charl_tokenizer_load(ctx, &t));
    CHARL_TRY_CLEANUP(charl_tokenizer_encode(t, "he\xcc\x81llo <think> world", 21, true, &tokens, &n));
cleanup:
    charl_free(tokens);
    charl_tokenizer_destroy(t);
    return st;
}

static void every_acquisition_may_fail(void **state)
{
    static const char *const tokens[] = {"ab", NULL};
    char path[512];

    (void)state;
    snprintf(path, sizeof path, "%s", write_json("tokenizer.json", &(json){.normalizer = "{\"type\":\"NFC\"}"}));
    charl_tokenizer_destroy(load(path));
    assert_true(charl_test_fail_every_acquisition(load_and_encode, path) > 20);
    snprintf(path, sizeof path, "%s", write_ranks("gpt2-test.tiktoken", tokens));
    assert_true(charl_test_fail_every_acquisition(load_and_encode, path) > 15);
}

/* GPT-2's own files: numbers that tiktoken gives. */
static void gpt2_as_published(void **state)
{
    charl_tokenizer *t = load(charl_test_data("gpt2-tokenizer"));

    (void)state;
    assert_int_equal(charl_tokenizer_get_vocab(t), 50257);
    assert_int_equal(charl_tokenizer_get_end_of_text(t), 50256);
    ENCODES(t, false, "Hello world", 15496, 995);
    ENCODES(t, false, "It's  we'll\t3rd \303\234ber!?\n\n x y  ", 1026, 338, 220, 356, 1183, 197, 18, 4372, 49363, 527,
            22857, 628, 2124, 331, 220, 220);
    ENCODES(t, false,
            "\346\227\245\346\234\254\350\252\236\343\201\256\343\203\206\343\202\255\343\202\271"
            "\343\203\210\343\200\202\355\225\234\352\265\255\354\226\264 \340\244\224\340\244\260 "
            "\340\244\271\340\244\277\340\244\250\340\245\215\340\244\246\340\245\200",
            33768, 98, 17312, 105, 45739, 252, 5641, 24336, 25084, 43302, 16764, 47991, 250, 166, 113, 255, 168, 244,
            112, 28225, 242, 11976, 108, 28225, 117, 11976, 123, 11976, 101, 24231, 235, 11976, 99, 24231, 222);
    ENCODES(t, false,
            "\360\237\221\251\342\200\215\360\237\221\251\342\200\215\360\237\221\247\342\200\215"
            "\360\237\221\246 \342\235\244\357\270\217 e\314\201 \341\240\216\302\240\302\205z",
            41840, 102, 447, 235, 41840, 102, 447, 235, 41840, 100, 447, 235, 41840, 99, 43074, 97, 37929, 304, 136,
            223, 28053, 254, 236, 1849, 126, 227, 89);
    ENCODES(t, true, "First Citizen:\nBefore we proceed any further, hear me speak.<|endoftext|>", 5962, 22307, 25, 198,
            8421, 356, 5120, 597, 2252, 11, 3285, 502, 2740, 13, 50256);
    charl_tokenizer_destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(tokenizer_json, setup_dir, teardown_dir),
        cmocka_unit_test_setup_teardown(special_tokens, setup_dir, teardown_dir),
        cmocka_unit_test_setup_teardown(longest_added_token, setup_dir, teardown_dir),
        cmocka_unit_test_setup_teardown(words_that_come_again, setup_dir, teardown_dir),
        cmocka_unit_test_setup_teardown(patterns_and_normalizers, setup_dir, teardown_dir),
        cmocka_unit_test_setup_teardown(whole_words, setup_dir, teardown_dir),
        cmocka_unit_test_setup_teardown(what_is_not_supported_is_named, setup_dir, teardown_dir),
        cmocka_unit_test_setup_teardown(other_models, setup_dir, teardown_dir),
        cmocka_unit_test_setup_teardown(vocabularies_of_bert, setup_dir, teardown_dir),
        cmocka_unit_test_setup_teardown(pairs_of_files, setup_dir, teardown_dir),
        cmocka_unit_test_setup_teardown(rank_files, setup_dir, teardown_dir),
        cmocka_unit_test_setup_teardown(words_of_any_length, setup_dir, teardown_dir),
        cmocka_unit_test_setup_teardown(long_runs, setup_dir, teardown_dir),
        cmocka_unit_test_setup_teardown(texts_that_continue, setup_dir, teardown_dir),
        cmocka_unit_test_setup_teardown(files_that_are_none, setup_dir, teardown_dir),
        cmocka_unit_test_setup_teardown(states_that_are_damaged, setup_dir, teardown_dir),
        cmocka_unit_test_setup_teardown(data_sets_keep_it, setup_dir, teardown_dir),
        cmocka_unit_test_setup_teardown(where_texts_are_cut, setup_dir, teardown_dir),
        cmocka_unit_test_setup_teardown(every_acquisition_may_fail, setup_dir, teardown_dir),
        cmocka_unit_test_setup_teardown(gpt2_as_published, setup_dir, teardown_dir),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
