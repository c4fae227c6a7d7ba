/* Rank files of tiktoken: a line "BASE64 RANK" for each token. The file does not say how text is split nor which special tokens there are:
 * this follows from the name of the encoding, which is the beginning of the file's name, or from the number of tokens. */
#include <stdio.h>
#include <string.h>

#include "data/tokenizer/pretrained.h"
#include "io/commit.h"

/* A special token; its number, relative to the first one without a rank. */
typedef struct special {
    const char *text;
    int number;
} special;

typedef struct encoding {
    const char *name;
    int64_t ranks; /* one more than the highest */
    const char *pattern;
    special special[12]; /* ends with NULL */
    struct reserved {    /* <|NAME_FIRST|> and so on */
        const char *name;
        int first, count, number;
    } reserved;
    bool nfc;
} encoding;

#define CONTRACTION "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"

static const encoding encodings[] = {
    {"r50k_base", 50256, CHARL__PATTERN_GPT2, {{"<|endoftext|>", 0}}, {0}},
    {"gpt2", 50256, CHARL__PATTERN_GPT2, {{"<|endoftext|>", 0}}, {0}},
    {"p50k_base", 50281, CHARL__PATTERN_GPT2, {{"<|endoftext|>", -25}}, {0}},
    {"cl100k_base",
     100256,
     "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}++|\\p{N}{1,3}| "
     "?[^\\s\\p{L}\\p{N}]++[\\r\\n]*+|\\s++\\z|\\s*[\\r\\n]|\\s+(?!\\S)|\\s",
     {{"<|endoftext|>", 1},
      {"<|fim_prefix|>", 2},
      {"<|fim_middle|>", 3},
      {"<|fim_suffix|>", 4},
      {"<|endofprompt|>", 20}},
     {0}},
    {"o200k_base",
     199998,
     "[^\\r\\n\\p{L}\\p{N}]?" UPPER "*" LOWER "+" CONTRACTION "?|[^\\r\\n\\p{L}\\p{N}]?" UPPER "+" LOWER "*" CONTRACTION
     "?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
     {{"<|endoftext|>", 1}, {"<|endofprompt|>", 20}},
     {0}},
    {"llama3",
     128000,
     CONTRACTION "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| "
                 "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
     {{"<|begin_of_text|>", 0},
      {"<|end_of_text|>", 1},
      {"<|reserved_special_token_0|>", 2},
      {"<|reserved_special_token_1|>", 3},
      {"<|reserved_special_token_2|>", 4},
      {"<|reserved_special_token_3|>", 5},
      {"<|start_header_id|>", 6},
      {"<|end_header_id|>", 7},
      {"<|reserved_special_token_4|>", 8},
      {"<|eot_id|>", 9}},
     {"reserved_special_token", 5, 246, 10}},
    /* https://huggingface.co/Qwen/Qwen-7B: tokenization_qwen.py */
    {"qwen",
     151643,
     CONTRACTION "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
     {{"<|endoftext|>", 0}, {"<|im_start|>", 1}, {"<|im_end|>", 2}},
     {"extra", 0, 205, 3},
     .nfc = true},
};

enum { ENCODINGS = sizeof encodings / sizeof *encodings };

static bool is_tiktoken(const char *path, const char *head, size_t bytes)
{
    static const char base64[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=";
    const size_t n = strspn(head, base64);

    (void)path;
    (void)bytes;
    return n > 0 && n % 4 == 0 && head[n] == ' ' && strspn(head + n + 1, "0123456789") > 0;
}

/* Value of a digit of base 64; -1 for none. */
static int digit_of(char c)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *at = c ? strchr(digits, c) : NULL;

    return at ? (int)(at - digits) : -1;
}

size_t charl__base64_bytes(const char *s, size_t n, unsigned char *out)
{
    size_t bytes = 0;

    for (size_t i = 0; i + 4 <= n; i += 4) {
        const int a = digit_of(s[i]), b = digit_of(s[i + 1]), c = digit_of(s[i + 2]), d = digit_of(s[i + 3]);
        const bool last = i + 4 == n;

        if (a < 0 || b < 0 || (c < 0 && !(last && s[i + 2] == '=' && s[i + 3] == '=')) ||
            (d < 0 && !(last && s[i + 3] == '='))) {
            return 0;
        }
        out[bytes++] = (unsigned char)(a << 2 | b >> 4);
        if (c >= 0) {
            out[bytes++] = (unsigned char)((b & 15) << 4 | c >> 2);
        }
        if (d >= 0) {
            out[bytes++] = (unsigned char)((c & 3) << 6 | d);
        }
    }
    return n % 4 == 0 ? bytes : 0;
}

static charl_status read_line(const char *line, size_t length, int64_t number, charl__pretrained *p)
{
    unsigned char bytes[1 << 12];
    const char *space = memchr(line, ' ', length);
    const size_t digits = space ? (size_t)(space - line) : 0;
    const size_t n = digits <= sizeof bytes ? charl__base64_bytes(line, digits, bytes) : 0;
    const size_t rank_digits = space ? strspn(space + 1, "0123456789") : 0;
    int64_t rank = 0;

    CHARL_REQUIRE(n > 0 && rank_digits > 0 && rank_digits < 9 && digits + 1 + rank_digits == length, CHARL_ERR_DATA,
                  "line %lld is not a token in base 64 and its rank: \"%.*s\"", (long long)number,
                  length < 60 ? (int)length : 60, line);
    for (size_t i = 1; i <= rank_digits; i++) {
        rank = 10 * rank + (space[i] - '0');
    }
    CHARL_REQUIRE(rank >= p->vocab || p->tokens[rank].bytes == 0, CHARL_ERR_DATA,
                  "line %lld: rank %lld was given before", (long long)number, (long long)rank);
    return charl__pretrained_add_token(p, rank, bytes, n, CHARL__TOKEN_MERGED);
}

static const char *encoding_at(const void *ctx, int i, char *copy)
{
    (void)ctx;
    if (i >= ENCODINGS) {
        return NULL;
    }
    snprintf(copy, 64, "%s %lld", encodings[i].name, (long long)encodings[i].ranks);
    return copy;
}

/* cl100k_base.tiktoken is the published file; cl100k_base-mine.tiktoken is a user's vocabulary that splits text as cl100k_base does. */
static charl_status find_encoding(const char *path, int64_t ranks, const encoding **out)
{
    char known[256];
    const char *name = charl__base_name(path);

    *out = NULL;
    for (int i = 0; i < ENCODINGS && !*out; i++) {
        const size_t length = strlen(encodings[i].name);
        const bool named = strncmp(name, encodings[i].name, length) == 0;

        CHARL_REQUIRE(!named || (name[length] != '.' && name[length] != '\0') || encodings[i].ranks == ranks,
                      CHARL_ERR_DATA,
                      "%s has %lld ranks, but the file has %lld: it is cut off, or is another vocabulary",
                      encodings[i].name, (long long)encodings[i].ranks, (long long)ranks);
        if (named && (name[length] == '-' || encodings[i].ranks == ranks)) {
            *out = &encodings[i];
        }
    }
    for (int i = 0; i < ENCODINGS && !*out; i++) {
        *out = encodings[i].ranks == ranks ? &encodings[i] : NULL;
    }
    CHARL_REQUIRE(
        *out, CHARL_ERR_DATA,
        "a rank file holds neither the pattern that splits text nor the special tokens, and none of the known "
        "encodings has its %lld ranks (%s); HINT use the tokenizer.json of the model, which holds both",
        (long long)ranks, charl__text_names(NULL, encoding_at, NULL, known, sizeof known));
    return CHARL_OK;
}

static charl_status add_specials(const encoding *e, charl__pretrained *p)
{
    const int64_t first = p->vocab;
    const unsigned use = CHARL__TOKEN_ADDED | CHARL__TOKEN_SPECIAL;

    for (const special *s = e->special; s->text; s++) {
        CHARL_TRY(charl__pretrained_add_token(p, first + s->number, s->text, strlen(s->text), use));
    }
    for (int i = 0; i < e->reserved.count; i++) {
        char text[64];

        snprintf(text, sizeof text, "<|%s_%d|>", e->reserved.name, e->reserved.first + i);
        CHARL_TRY(charl__pretrained_add_token(p, first + e->reserved.number + i, text, strlen(text), use));
    }
    return CHARL_OK;
}

static charl_status read_tiktoken(const char *path, charl__pretrained *p)
{
    CHARL_SCOPED(charl__text_fini) charl__text text = {0};
    const encoding *e = NULL;
    int64_t number = 0;

    CHARL_TRY(charl__tokenizer_read_file(path, &text));
    for (const char *line = charl__text_string(&text), *end; *line; line = end + (*end == '\n')) {
        size_t length;

        end = line + strcspn(line, "\n");
        length = (size_t)(end - line) - (end > line && end[-1] == '\r');
        number++;
        if (length > 0) {
            CHARL_TRY(read_line(line, length, number, p));
        }
    }
    CHARL_TRY(find_encoding(path, p->vocab, &e));
    CHARL_TRY(charl__pretrained_add_step(p, e->pattern, false));
    if (e->nfc) {
        CHARL_TRY(charl__pretrained_add_normalizer(p, CHARL__NORMALIZE_NFC, NULL, 0, NULL, 0));
    }
    CHARL_TRY(add_specials(e, p));
    p->flags |= CHARL__PRETRAINED_WHOLE_WORDS | CHARL__PRETRAINED_BY_RANK;
    return CHARL_OK;
}

const charl__tokenizer_format charl__tokenizer_format_tiktoken = {
    .row = {.name = "tiktoken", .help = "a rank file of tiktoken"},
    .files = (const char *const[]){"*.tiktoken", "tokenizer.model", "tokenizer.model.v*", NULL},
    .is = is_tiktoken,
    .read = read_tiktoken,
};
