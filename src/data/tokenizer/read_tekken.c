/* tekken.json of Mistral: the pattern, tokens in base 64 by rank, of which as many are used as the vocabulary has room for, and the special tokens that
 * come before them. */
#include <stdio.h>

#include "base/alloc.h"
#include "data/tokenizer/json_steps.h"
#include "io/commit.h"

/* Files without a list have these; <SPECIAL_20> and so on fill up the numbers that are left. */
static const char *const old_specials[] = {"<unk>",
                                           "<s>",
                                           "</s>",
                                           "[INST]",
                                           "[/INST]",
                                           "[AVAILABLE_TOOLS]",
                                           "[/AVAILABLE_TOOLS]",
                                           "[TOOL_RESULTS]",
                                           "[/TOOL_RESULTS]",
                                           "[TOOL_CALLS]",
                                           "[IMG]",
                                           "<pad>",
                                           "[IMG_BREAK]",
                                           "[IMG_END]",
                                           "[PREFIX]",
                                           "[MIDDLE]",
                                           "[SUFFIX]",
                                           "[SYSTEM_PROMPT]",
                                           "[/SYSTEM_PROMPT]",
                                           "[TOOL_CONTENT]"};

static charl_status read_specials(const json_t *list, int64_t n, charl__pretrained *p)
{
    const int64_t known = list ? (int64_t)json_array_size(list) : (int64_t)(sizeof old_specials / sizeof *old_specials);

    for (int64_t i = 0; i < n; i++) {
        const json_t *o = i < known ? json_array_get(list, (size_t)i) : NULL, *rank = json_object_get(o, "rank");
        const char *text = list ? charl__json_text(o, "token_str") : i < known ? old_specials[i] : "";
        char filler[32];

        CHARL_REQUIRE(i >= known || text[0], CHARL_ERR_DATA, "special_tokens[%lld] has no token_str", (long long)i);
        CHARL_REQUIRE(!rank || json_integer_value(rank) == i, CHARL_ERR_DATA,
                      "special_tokens[%lld] has the rank %" JSON_INTEGER_FORMAT, (long long)i,
                      json_integer_value(rank));
        snprintf(filler, sizeof filler, "<SPECIAL_%lld>", (long long)i);
        text = i < known ? text : filler;
        CHARL_TRY(charl__pretrained_add_token(p, i, text, strlen(text), CHARL__TOKEN_ADDED | CHARL__TOKEN_SPECIAL));
    }
    CHARL_REQUIRE(known <= n, CHARL_ERR_DATA, "it has %lld special tokens, but default_num_special_tokens is %lld",
                  (long long)known, (long long)n);
    return CHARL_OK;
}

static charl_status read_tekken(const char *path, charl__pretrained *p)
{
    CHARL_SCOPED(json_left) json_t *root = NULL;
    const json_t *config, *vocab, *pattern;
    int64_t specials, n;

    CHARL_TRY(charl__json_load(path, &root));
    config = json_object_get(root, "config");
    vocab = json_object_get(root, "vocab");
    pattern = json_object_get(config, "pattern");
    specials = json_integer_value(json_object_get(config, "default_num_special_tokens"));
    n = json_integer_value(json_object_get(config, "default_vocab_size"));
    CHARL_REQUIRE(json_is_string(pattern) && json_is_array(vocab) && specials >= 0 && n > specials &&
                      n <= CHARL__TOKENIZER_MAX_VOCAB && n - specials <= (int64_t)json_array_size(vocab),
                  CHARL_ERR_DATA,
                  "it has no pattern, or %lld tokens of which %lld are special and %zu in the vocabulary", (long long)n,
                  (long long)specials, json_array_size(vocab));
    CHARL_TRY(read_specials(charl__json_member(root, "special_tokens"), specials, p));
    for (int64_t i = 0; i < n - specials; i++) {
        const json_t *o = json_array_get(vocab, (size_t)i), *digits = json_object_get(o, "token_bytes");
        CHARL_SCOPED_FREE unsigned char *bytes = NULL;
        size_t length;

        CHARL_REQUIRE(json_integer_value(json_object_get(o, "rank")) == i, CHARL_ERR_DATA,
                      "vocab[%lld] does not have this rank", (long long)i);
        CHARL_TRY(charl__alloc(json_string_length(digits) + 1, &bytes));
        length = charl__base64_bytes(json_string_value(digits), json_string_length(digits), bytes);
        CHARL_REQUIRE(length > 0, CHARL_ERR_DATA, "token_bytes of vocab[%lld] is not in base 64", (long long)i);
        CHARL_TRY(charl__pretrained_add_token(p, specials + i, bytes, length, CHARL__TOKEN_MERGED));
    }
    p->flags |= CHARL__PRETRAINED_WHOLE_WORDS | CHARL__PRETRAINED_BY_RANK;
    return charl__pretrained_add_step(p, json_string_value(pattern), false);
}

static bool is_tekken(const char *path, const char *head, size_t bytes)
{
    return bytes > 0 && head[0] == '{' && strncmp(charl__base_name(path), "tekken", 6) == 0;
}

const charl__tokenizer_format charl__tokenizer_format_tekken = {
    .row = {.name = "tekken", .help = "tekken.json of Mistral"},
    .files = (const char *const[]){"tekken.json", NULL},
    .is = is_tekken,
    .read = read_tekken,
};
