/* JSON files; normalizers and pre_tokenizers of tokenizer.json. What a file asks for and charl does not do is refused by its name. */
#include "data/tokenizer/json_steps.h"

#include <unistd.h>

#include "base/alloc.h"
#include "io/commit.h"

charl_status charl__json_load(const char *path, json_t **out)
{
    CHARL_SCOPED(charl__text_fini) charl__text text = {0};
    CHARL_SCOPED(json_left) json_t *root = NULL;
    json_error_t error;

    *out = NULL;
    CHARL_TRY(charl__tokenizer_read_file(path, &text));
    root = json_loadb(charl__text_string(&text), text.length, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
    CHARL_REQUIRE(root, CHARL_ERR_DATA, "it is not JSON, or cut off: %s at line %d, column %d", error.text, error.line,
                  error.column);
    CHARL_REQUIRE(json_is_object(root), CHARL_ERR_DATA, "it is JSON, but not a tokenizer");
    *out = json_incref(root);
    return CHARL_OK;
}

charl_status charl__json_beside(const char *path, const char *name, json_t **out)
{
    CHARL_SCOPED(charl__text_fini) charl__text file = {0};

    *out = NULL;
    CHARL_TRY(charl__text_printf(&file, "%.*s%s", (int)(charl__base_name(path) - path), path, name));
    return access(charl__text_string(&file), F_OK) != 0
               ? CHARL_OK
               : charl__error_in(charl__json_load(charl__text_string(&file), out), CHARL_ERR_DATA, "%s: ", name);
}

static bool is_mark(const json_t *text)
{
    return json_is_string(text) && strcmp(json_string_value(text), CHARL__SPACE_MARK) == 0;
}

/* Normalizers without parameters. */
static const struct {
    const char *name;
    charl__normalizer_kind kind;
} simple[] = {
    {"NFC", CHARL__NORMALIZE_NFC},
    {"NFD", CHARL__NORMALIZE_NFD},
    {"NFKC", CHARL__NORMALIZE_NFKC},
    {"NFKD", CHARL__NORMALIZE_NFKD},
    {"Lowercase", CHARL__NORMALIZE_LOWERCASE},
    {"StripAccents", CHARL__NORMALIZE_STRIP_ACCENTS},
};

static charl_status add(charl__pretrained *p, charl__normalizer_kind kind)
{
    return charl__pretrained_add_normalizer(p, kind, NULL, 0, NULL, 0);
}

charl_status charl__bert_normalizer(bool clean, bool chinese, bool strip_accents, bool lowercase, charl__pretrained *p)
{
    CHARL_TRY(clean ? add(p, CHARL__NORMALIZE_CLEAN) : CHARL_OK);
    CHARL_TRY(chinese ? add(p, CHARL__NORMALIZE_CHINESE) : CHARL_OK);
    CHARL_TRY(strip_accents ? add(p, CHARL__NORMALIZE_NFD) : CHARL_OK);
    CHARL_TRY(strip_accents ? add(p, CHARL__NORMALIZE_STRIP_NONSPACING) : CHARL_OK);
    return lowercase ? add(p, CHARL__NORMALIZE_LOWERCASE) : CHARL_OK;
}

static charl_status read_precompiled(const json_t *o, charl__pretrained *p)
{
    const json_t *map = charl__json_member(o, "precompiled_charsmap");
    CHARL_SCOPED_FREE unsigned char *bytes = NULL;
    size_t n;

    if (!map) {
        return CHARL_OK;
    }
    CHARL_TRY(charl__alloc(json_string_length(map) + 1, &bytes));
    n = charl__base64_bytes(json_string_value(map), json_string_length(map), bytes);
    CHARL_REQUIRE(n > 0, CHARL_ERR_DATA, "the precompiled_charsmap is not in base 64");
    return charl__pretrained_add_normalizer(p, CHARL__NORMALIZE_CHARSMAP_OF_GRAPHEMES, bytes, n, NULL, 0);
}

/* Of texts, of " {2,}", and of the pattern that charl writes for STRIP_SPACES. */
static charl_status read_replace(const json_t *o, charl__pretrained *p)
{
    const json_t *pattern = json_object_get(o, "pattern"), *to = json_object_get(o, "content"),
                 *from = json_object_get(pattern, "String");
    const char *regex = charl__json_text(pattern, "Regex");

    if (json_is_string(from) && json_is_string(to)) {
        return charl__pretrained_add_normalizer(p, CHARL__NORMALIZE_REPLACE, json_string_value(from),
                                                json_string_length(from), json_string_value(to),
                                                json_string_length(to));
    }
    if (strcmp(regex, CHARL__JSON_ENDS) == 0 && json_is_string(to) && json_string_length(to) == 0) {
        return add(p, CHARL__NORMALIZE_STRIP_SPACES);
    }
    CHARL_REQUIRE(json_is_string(to) && strcmp(regex, " {2,}") == 0, CHARL_ERR_DATA,
                  "the normalizer Replace of the pattern \"%.60s\" is not supported; texts are, and \" {2,}\"", regex);
    return charl__pretrained_add_normalizer(p, CHARL__NORMALIZE_REPLACE_SPACES, NULL, 0, json_string_value(to),
                                            json_string_length(to));
}

charl_status charl__json_normalizer(const json_t *o, charl__pretrained *p)
{
    const char *type = charl__json_text(o, "type");
    const bool lowercase = charl__json_flag(o, "lowercase", true);
    const json_t *prepended = json_object_get(o, "prepend");

    if (!o) {
        return CHARL_OK;
    }
    if (strcmp(type, "Sequence") == 0) {
        const json_t *list = json_object_get(o, "normalizers");

        for (size_t i = 0; i < json_array_size(list); i++) {
            CHARL_TRY(charl__json_normalizer(json_array_get(list, i), p));
        }
        return CHARL_OK;
    }
    if (strcmp(type, "Replace") == 0 && is_mark(json_object_get(o, "content")) &&
        strcmp(charl__json_text(json_object_get(o, "pattern"), "String"), " ") == 0) {
        p->flags |= CHARL__PRETRAINED_CHARACTERS;
        return CHARL_OK;
    }
    CHARL_REQUIRE(!(p->flags & (CHARL__PRETRAINED_CHARACTERS | CHARL__PRETRAINED_PREFIX)), CHARL_ERR_DATA,
                  "the normalizer %.40s after one that writes spaces as U+2581 is not supported", type);
    if (strcmp(type, "Prepend") == 0 && is_mark(prepended)) {
        p->flags |= CHARL__PRETRAINED_PREFIX;
        return CHARL_OK;
    }
    for (size_t i = 0; i < sizeof simple / sizeof *simple; i++) {
        if (strcmp(type, simple[i].name) == 0) {
            return add(p, simple[i].kind);
        }
    }
    if (strcmp(type, "BertNormalizer") == 0) {
        return charl__bert_normalizer(charl__json_flag(o, "clean_text", true),
                                      charl__json_flag(o, "handle_chinese_chars", true),
                                      charl__json_flag(o, "strip_accents", lowercase), lowercase, p);
    }
    if (strcmp(type, "Precompiled") == 0) {
        return read_precompiled(o, p);
    }
    if (strcmp(type, "Replace") == 0) {
        return read_replace(o, p);
    }
    if (strcmp(type, "Strip") == 0) {
        CHARL_TRY(charl__json_flag(o, "strip_left", true) ? add(p, CHARL__NORMALIZE_STRIP_LEFT) : CHARL_OK);
        return charl__json_flag(o, "strip_right", true) ? add(p, CHARL__NORMALIZE_STRIP_RIGHT) : CHARL_OK;
    }
    CHARL_REQUIRE(
        strcmp(type, "Prepend") == 0 && json_is_string(prepended), CHARL_ERR_DATA,
        "the normalizer %.40s is not supported; NFC, NFD, NFKC, NFKD, Lowercase, StripAccents, Strip, Prepend, "
        "Replace, BertNormalizer, Precompiled and Sequence are",
        type);
    return charl__pretrained_add_normalizer(p, CHARL__NORMALIZE_PREPEND, NULL, 0, json_string_value(prepended),
                                            json_string_length(prepended));
}

/* Spaces become U+2581, and the text is split before each of them unless `split` is false. */
static charl_status read_metaspace(const json_t *o, charl__pretrained *p, bool white)
{
    const json_t *prefix = charl__json_member(o, "add_prefix_space");
    const char *scheme = charl__json_text(o, "prepend_scheme");

    scheme = scheme[0] ? scheme : prefix && json_is_false(prefix) ? "never" : "always";
    CHARL_REQUIRE(is_mark(json_object_get(o, "replacement")), CHARL_ERR_DATA,
                  "the pre_tokenizer Metaspace with the replacement \"%.40s\" is not supported; U+2581 is",
                  charl__json_text(o, "replacement"));
    CHARL_REQUIRE(!white || (strcmp(scheme, "always") == 0 && !(p->flags & CHARL__PRETRAINED_PREFIX)), CHARL_ERR_DATA,
                  "the pre_tokenizer WhitespaceSplit before Metaspace is only supported with prepend_scheme always");
    CHARL_TRY(white ? add(p, CHARL__NORMALIZE_SQUEEZE_WHITE) : CHARL_OK);
    p->flags |= CHARL__PRETRAINED_CHARACTERS;
    if (strcmp(scheme, "never") != 0) {
        CHARL_REQUIRE(strcmp(scheme, "first") == 0 || strcmp(scheme, "always") == 0, CHARL_ERR_DATA,
                      "the pre_tokenizer Metaspace with prepend_scheme %.40s is not supported; never, first and always "
                      "are",
                      scheme);
        if (!(p->flags & CHARL__PRETRAINED_PREFIX)) { /* the normalizer's is the only one */
            p->flags |= CHARL__PRETRAINED_PREFIX | CHARL__PRETRAINED_PREFIX_UNLESS |
                        (scheme[0] == 'f' ? CHARL__PRETRAINED_PREFIX_FIRST : 0);
        }
    }
    return json_is_false(json_object_get(o, "split")) ? CHARL_OK
                                                      : charl__pretrained_add_step(p, CHARL__PATTERN_METASPACE, false);
}

static charl_status read_split(const json_t *o, charl__pretrained *p)
{
    const json_t *pattern = json_object_get(o, "pattern");
    const char *regex = json_string_value(json_object_get(pattern, "Regex"));
    const char *behavior = charl__json_text(o, "behavior");
    const bool removed = strcmp(behavior, "Removed") == 0 && json_is_true(json_object_get(o, "invert"));

    if (p->flags & CHARL__PRETRAINED_CHARACTERS && strcmp(charl__json_text(pattern, "String"), " ") == 0) {
        return CHARL_OK; /* the normalizer has left no space */
    }
    CHARL_REQUIRE(regex, CHARL_ERR_DATA, "the pre_tokenizer Split has no pattern of kind Regex; no other is supported");
    CHARL_REQUIRE(removed || strcmp(behavior, "Isolated") == 0, CHARL_ERR_DATA,
                  "the pre_tokenizer Split with behavior %.40s is not supported; Isolated is, and "
                  "Removed with invert",
                  behavior);
    return charl__pretrained_add_step(p, regex, removed);
}

charl_status charl__json_pre_tokenizer(const json_t *o, charl__pretrained *p, charl__json_split *split)
{
    const char *type = charl__json_text(o, "type");

    CHARL_REQUIRE(!split->byte_level && !split->bert, CHARL_ERR_DATA, "a pre_tokenizer after %s is not supported",
                  split->bert ? "BertPreTokenizer" : "ByteLevel");
    if (strcmp(type, "Sequence") == 0) {
        const json_t *list = json_object_get(o, "pretokenizers");

        for (size_t i = 0; i < json_array_size(list); i++) {
            CHARL_TRY(charl__json_pre_tokenizer(json_array_get(list, i), p, split));
        }
        return CHARL_OK;
    }
    if (strcmp(type, "Metaspace") == 0) {
        const bool white = split->white;

        split->white = false;
        return read_metaspace(o, p, white);
    }
    CHARL_REQUIRE(!split->white, CHARL_ERR_DATA, "the pre_tokenizer %.40s after WhitespaceSplit is not supported",
                  type);
    if (strcmp(type, "WhitespaceSplit") == 0) {
        split->white = true;
        return CHARL_OK;
    }
    if (strcmp(type, "BertPreTokenizer") == 0) {
        split->bert = true;
        return charl__pretrained_add_step(p, CHARL__PATTERN_BERT, true);
    }
    if (strcmp(type, "Split") == 0) {
        return read_split(o, p);
    }
    if (strcmp(type, "Digits") == 0) {
        return charl__pretrained_add_step(
            p, json_is_true(json_object_get(o, "individual_digits")) ? "\\p{N}" : "\\p{N}+", false);
    }
    CHARL_REQUIRE(strcmp(type, "ByteLevel") == 0, CHARL_ERR_DATA,
                  "the pre_tokenizer %.40s is not supported; ByteLevel, Metaspace, Split, Digits, BertPreTokenizer, "
                  "WhitespaceSplit before Metaspace, and Sequence are",
                  type);
    CHARL_REQUIRE(!json_is_true(json_object_get(o, "add_prefix_space")), CHARL_ERR_DATA,
                  "the pre_tokenizer ByteLevel with add_prefix_space is not supported: text would "
                  "not come back as it was");
    split->byte_level = true;
    return json_is_false(json_object_get(o, "use_regex")) ? CHARL_OK
                                                          : charl__pretrained_add_step(p, CHARL__PATTERN_GPT2, false);
}
