/* Tokenizers as JSON: tokenizer.json of `tokenizers`, and vocab.json with merges.txt (encoder.json with vocab.bpe).
 *
 * In byte-level vocabularies a token is written with a printable character for each byte (byte_level.h), in those of SentencePiece as it
 * is but for spaces. What such a file asks for and charl does not do is refused by its name.
 */
#include "data/tokenizer/byte_level.h"
#include "data/tokenizer/json_steps.h"

#include "base/alloc.h"
#include "io/commit.h"
#include "base/text/utf8.h"

/* The files of a vocabulary and its merges. */
static const char *const pairs[][2] = {{"vocab.json", "merges.txt"}, {"encoder.json", "vocab.bpe"}};

enum { PAIRS = sizeof pairs / sizeof *pairs };

static bool is_pair(const char *path, const char *head, size_t bytes)
{
    (void)head;
    (void)bytes;
    for (int i = 0; i < PAIRS; i++) {
        if (strcmp(charl__base_name(path), pairs[i][0]) == 0 || strcmp(charl__base_name(path), pairs[i][1]) == 0) {
            return true;
        }
    }
    return false;
}

static bool is_json(const char *path, const char *head, size_t bytes)
{
    const size_t blank = bytes > 0 ? strspn(head, " \t\r\n") : 0;

    return blank < bytes && head[blank] == '{' && !is_pair(path, head, bytes) &&
           strncmp(charl__base_name(path), "tekken", 6) != 0;
}

/* The byte that a character of a token represents; -1 for none. */
static int byte_of(uint32_t point)
{
    if (point < 256) {
        return charl__byte_is_printable(point) ? (int)point : -1;
    }
    for (uint32_t byte = 0, next = 256; byte < 256 && next <= point; byte++) {
        if (!charl__byte_is_printable(byte) && next++ == point) {
            return (int)byte;
        }
    }
    return -1;
}

/* The bytes of a token; false when it is not written with characters for bytes. */
static charl_status to_bytes(const char *token, size_t length, charl__text *out, bool *ok)
{
    const unsigned char *s = (const unsigned char *)token;

    charl__text_clear(out);
    *ok = true;
    for (size_t at = 0, n; *ok && at < length; at += n) {
        int byte;
        unsigned char c;

        n = charl__utf8_length(s + at, length - at);
        byte = n > 0 ? byte_of(charl__utf8_point(s + at, n)) : -1;
        c = (unsigned char)byte;
        *ok = byte >= 0;
        if (*ok) {
            CHARL_TRY(charl__text_append(out, &c, 1));
        }
    }
    return CHARL_OK;
}

static charl_status read_added(const json_t *list, charl__pretrained *p)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *o = json_array_get(list, i), *id = json_object_get(o, "id"),
                     *content = json_object_get(o, "content");
        const bool special = json_is_true(json_object_get(o, "special"));
        const unsigned use = CHARL__TOKEN_ADDED | (special ? CHARL__TOKEN_SPECIAL : 0) |
                             (json_is_true(json_object_get(o, "normalized")) ? CHARL__TOKEN_NORMALIZED : 0) |
                             (json_is_true(json_object_get(o, "lstrip")) ? CHARL__TOKEN_LSTRIP : 0) |
                             (json_is_true(json_object_get(o, "rstrip")) ? CHARL__TOKEN_RSTRIP : 0);
        const bool pieces = (p->flags & CHARL__PRETRAINED_CHARACTERS) != 0;

        CHARL_REQUIRE(json_is_integer(id) && json_string_length(content) > 0, CHARL_ERR_DATA,
                      "added_tokens[%zu] has no id or no content", i);
        CHARL_REQUIRE(!json_is_true(json_object_get(o, "single_word")), CHARL_ERR_DATA,
                      "the added token \"%.60s\" with single_word is not supported", json_string_value(content));
        CHARL_REQUIRE(!pieces || !(use & CHARL__TOKEN_NORMALIZED), CHARL_ERR_DATA,
                      "the added token \"%.60s\" is normalized, which is not supported in a vocabulary of characters",
                      json_string_value(content));
        if (pieces && !special && strstr(json_string_value(content), CHARL__SPACE_MARK)) {
            continue; /* spaces: a word of the vocabulary, which merges make */
        }
        CHARL_TRY(charl__pretrained_add_token(p, json_integer_value(id), json_string_value(content),
                                              json_string_length(content), use));
    }
    return CHARL_OK;
}

/* `tokenizers` ignores the number of an added token: it uses the number of the word with its text or, without one, the next number that neither a
 * word nor an earlier added token has. */
static charl_status check_numbers(const json_t *added, const json_t *vocab)
{
    int64_t next = (int64_t)json_object_size(vocab);

    for (size_t i = 0; i < json_array_size(added); i++) {
        const json_t *o = json_array_get(added, i), *content = json_object_get(o, "content");
        const json_t *word = json_object_getn(vocab, json_string_value(content), json_string_length(content));
        const int64_t id = json_integer_value(json_object_get(o, "id")), own = word ? json_integer_value(word) : next;

        CHARL_REQUIRE(id == own, CHARL_ERR_DATA,
                      "the added token \"%.60s\" has the number %lld, but tokenizers gives it %lld, %s",
                      json_string_value(content), (long long)id, (long long)own,
                      word ? "that of the word with its text" : "the next after the vocabulary");
        next = own >= next ? own + 1 : next;
    }
    return CHARL_OK;
}

/* <|endoftext|>, <s>, [PAD] */
static bool looks_special(const char *token, size_t length)
{
    return length > 2 &&
           ((token[0] == '<' && token[length - 1] == '>') || (token[0] == '[' && token[length - 1] == ']'));
}

/* The texts of the vocabulary; `made` (NULL: all) says which tokens are bytes or built by merges; the others are special. */
static charl_status read_vocab(json_t *vocab, const bool *made, charl__pretrained *p)
{
    CHARL_SCOPED(charl__text_fini) charl__text bytes = {0};
    const char *key;
    size_t length;
    json_t *value;

    json_object_keylen_foreach(vocab, key, length, value)
    {
        const int64_t id = json_integer_value(value);
        bool ok;

        CHARL_REQUIRE(json_is_integer(value) && id >= 0 && id < CHARL__TOKENIZER_MAX_VOCAB, CHARL_ERR_DATA,
                      "the token \"%.60s\" has no number below %d", key, CHARL__TOKENIZER_MAX_VOCAB);
        CHARL_TRY(to_bytes(key, length, &bytes, &ok));
        if (ok && made && bytes.length > 1 && !made[id]) {
            CHARL_REQUIRE(looks_special(key, length), CHARL_ERR_DATA,
                          "no merge makes the token \"%.60s\": the merges are cut off, or "
                          "those of another vocabulary",
                          key);
            CHARL_TRY(charl__pretrained_add_token(p, id, key, length, CHARL__TOKEN_ADDED | CHARL__TOKEN_SPECIAL));
            continue;
        }
        if (id < p->vocab && p->tokens[id].use & CHARL__TOKEN_ADDED && p->tokens[id].bytes == length &&
            memcmp(p->texts.data + p->tokens[id].at, key, length) == 0 &&
            (!ok || bytes.length != length || memcmp(bytes.data, key, length) != 0)) {
            continue; /* an added token, written literally */
        }
        CHARL_REQUIRE(ok, CHARL_ERR_DATA,
                      "the token \"%.60s\" is not written byte by byte; only byte-level "
                      "vocabularies are supported",
                      key);
        CHARL_TRY(charl__pretrained_add_token(p, id, charl__text_string(&bytes), bytes.length, CHARL__TOKEN_MERGED));
    }
    return CHARL_OK;
}

/* The texts of a vocabulary of characters, or of WordPiece; the special ones are added tokens. */
static charl_status read_pieces(json_t *vocab, const json_t *model, charl__pretrained *p)
{
    const bool wordpiece = (p->flags & CHARL__PRETRAINED_WORDPIECE) != 0;
    const char *key;
    size_t length;
    json_t *value;

    json_object_keylen_foreach(vocab, key, length, value)
    {
        const int64_t id = json_integer_value(value);

        CHARL_REQUIRE(json_is_integer(value) && id >= 0 && id < CHARL__TOKENIZER_MAX_VOCAB, CHARL_ERR_DATA,
                      "the token \"%.60s\" has no number below %d", key, CHARL__TOKENIZER_MAX_VOCAB);
        if (id < p->vocab && p->tokens[id].use & CHARL__TOKEN_SPECIAL) {
            CHARL_TRY(charl__pretrained_add_token(p, id, key, length, 0));
        } else if (wordpiece) {
            CHARL_TRY(charl__pretrained_add_wordpiece(p, id, key, length));
        } else {
            CHARL_TRY(charl__pretrained_add_piece(p, id, key, length, CHARL__TOKEN_MERGED));
        }
        CHARL_REQUIRE(!(p->tokens[id].use & CHARL__TOKEN_BYTE) ||
                          json_is_true(charl__json_member(model, "byte_fallback")),
                      CHARL_ERR_DATA, "the vocabulary has the token %s, but byte_fallback is false", key);
    }
    return CHARL_OK;
}

/* The token of unknown text: by its text, in Unigram by its number. */
static charl_status read_unknown(const json_t *vocab, const json_t *model, charl__pretrained *p)
{
    const json_t *text = charl__json_member(model, "unk_token"), *id = charl__json_member(model, "unk_id");

    if (p->flags & CHARL__PRETRAINED_UNIGRAM ? !id : !text) {
        return CHARL_OK;
    }
    id = p->flags & CHARL__PRETRAINED_UNIGRAM
             ? id
             : json_object_getn(vocab, json_string_value(text), json_string_length(text));
    CHARL_REQUIRE(json_is_integer(id) && json_integer_value(id) >= 0 && json_integer_value(id) < p->vocab &&
                      p->tokens[json_integer_value(id)].bytes > 0,
                  CHARL_ERR_DATA, "the unknown token (%s) is not in the vocabulary",
                  p->flags & CHARL__PRETRAINED_UNIGRAM ? "unk_id" : "unk_token");
    p->tokens[json_integer_value(id)].use |= CHARL__TOKEN_UNKNOWN;
    return CHARL_OK;
}

/* Unigram: [["PIECE", SCORE], ...] as an object of numbers; the scores are added. */
static charl_status read_scores(const json_t *list, charl__pretrained *p, json_t **vocab)
{
    *vocab = json_object();
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *o = json_array_get(list, i), *piece = json_array_get(o, 0), *score = json_array_get(o, 1);

        CHARL_REQUIRE(json_string_length(piece) > 0 && json_is_number(score), CHARL_ERR_DATA,
                      "token %zu of the vocabulary is not a text and a score", i);
        CHARL_REQUIRE(!json_object_getn(*vocab, json_string_value(piece), json_string_length(piece)), CHARL_ERR_DATA,
                      "token %zu, \"%.60s\", is in the vocabulary before", i, json_string_value(piece));
        CHARL_REQUIRE(json_object_setn_new(*vocab, json_string_value(piece), json_string_length(piece),
                                           json_integer((json_int_t)i)) == 0,
                      CHARL_ERR_NOMEM, "no memory for %zu tokens", json_array_size(list));
        CHARL_TRY(charl__pretrained_add_score(p, json_number_value(score)));
    }
    return CHARL_OK;
}

static charl_status add_merge(const json_t *vocab, size_t i, const char *left, size_t left_length, const char *right,
                              size_t right_length, charl__pretrained *p)
{
    const json_t *a = json_object_getn(vocab, left, left_length), *b = json_object_getn(vocab, right, right_length);

    CHARL_REQUIRE(json_is_integer(a) && json_is_integer(b), CHARL_ERR_DATA,
                  "merge %zu is of \"%.*s\" and \"%.*s\", which are not both in the vocabulary", i, (int)left_length,
                  left, (int)right_length, right);
    CHARL_REQUIRE(json_integer_value(a) >= 0 && json_integer_value(a) < CHARL__TOKENIZER_MAX_VOCAB &&
                      json_integer_value(b) >= 0 && json_integer_value(b) < CHARL__TOKENIZER_MAX_VOCAB,
                  CHARL_ERR_DATA, "merge %zu is of tokens that are outside [0,%d)", i, CHARL__TOKENIZER_MAX_VOCAB);
    return charl__pretrained_add_merge(p, (int32_t)json_integer_value(a), (int32_t)json_integer_value(b));
}

/* "left right" */
static charl_status add_merge_line(const json_t *vocab, size_t i, const char *line, size_t length, charl__pretrained *p)
{
    const char *space = memchr(line, ' ', length);

    CHARL_REQUIRE(space && !memchr(space + 1, ' ', length - (size_t)(space + 1 - line)), CHARL_ERR_DATA,
                  "merge %zu is \"%.*s\", not two tokens", i, length < 60 ? (int)length : 60, line);
    return add_merge(vocab, i, line, (size_t)(space - line), space + 1, length - (size_t)(space + 1 - line), p);
}

static charl_status read_merge_list(const json_t *vocab, const json_t *list, charl__pretrained *p)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *m = json_array_get(list, i), *a = json_array_get(m, 0), *b = json_array_get(m, 1);

        if (json_is_string(m)) {
            CHARL_TRY(add_merge_line(vocab, i, json_string_value(m), json_string_length(m), p));
            continue;
        }
        CHARL_REQUIRE(json_array_size(m) == 2 && json_is_string(a) && json_is_string(b), CHARL_ERR_DATA,
                      "merge %zu is not two tokens", i);
        CHARL_TRY(add_merge(vocab, i, json_string_value(a), json_string_length(a), json_string_value(b),
                            json_string_length(b), p));
    }
    return CHARL_OK;
}

static charl_status check_model(const json_t *model, charl__pretrained *p)
{
    static const char *const absent[] = {"continuing_subword_prefix", "end_of_word_suffix"};
    const char *type = charl__json_text(model, "type");
    const bool bpe = strcmp(type, "BPE") == 0 || (!type[0] && charl__json_member(model, "merges"));
    const bool unigram = strcmp(type, "Unigram") == 0, wordpiece = strcmp(type, "WordPiece") == 0;
    const json_t *longest = charl__json_member(model, "max_input_chars_per_word"),
                 *prefix = charl__json_member(model, "continuing_subword_prefix");

    CHARL_REQUIRE(json_is_object(model), CHARL_ERR_DATA, "it has no model");
    CHARL_REQUIRE(bpe || unigram || wordpiece, CHARL_ERR_DATA,
                  "its model is %.40s, which is not supported; BPE, Unigram and WordPiece are",
                  type[0] ? type : "of no known type");
    CHARL_REQUIRE(unigram ? json_is_array(charl__json_member(model, "vocab"))
                          : json_is_object(charl__json_member(model, "vocab")) &&
                                (wordpiece || json_is_array(charl__json_member(model, "merges"))),
                  CHARL_ERR_DATA, "its model has no vocab or no merges");
    CHARL_REQUIRE(json_number_value(charl__json_member(model, "dropout")) == 0, CHARL_ERR_DATA,
                  "dropout of merges is not supported");
    for (size_t i = 0; bpe && i < sizeof absent / sizeof *absent; i++) {
        CHARL_REQUIRE(charl__json_text(model, absent[i])[0] == '\0', CHARL_ERR_DATA,
                      "its model has a %s, which is not supported", absent[i]);
    }
    CHARL_REQUIRE(!wordpiece || !longest || json_integer_value(longest) == 100, CHARL_ERR_DATA,
                  "its model has max_input_chars_per_word %" JSON_INTEGER_FORMAT ", which is not supported; 100 is",
                  json_integer_value(longest));
    CHARL_REQUIRE(!wordpiece || !prefix || strcmp(charl__json_text(model, "continuing_subword_prefix"), "##") == 0,
                  CHARL_ERR_DATA,
                  "its model has the continuing_subword_prefix \"%.40s\", which is not supported; ## is",
                  charl__json_text(model, "continuing_subword_prefix"));
    p->flags |= unigram ? CHARL__PRETRAINED_UNIGRAM | CHARL__PRETRAINED_FUSE_UNKNOWN : 0;
    p->flags |= wordpiece ? CHARL__PRETRAINED_WORDPIECE : 0;
    p->flags |= json_is_true(charl__json_member(model, "fuse_unk")) ? CHARL__PRETRAINED_FUSE_UNKNOWN : 0;
    p->flags |= json_is_true(charl__json_member(model, "ignore_merges")) ? CHARL__PRETRAINED_WHOLE_WORDS : 0;
    return CHARL_OK;
}

/* How the text is split and how the vocabulary is written belong together. */
static charl_status check_split(const charl__pretrained *p, const charl__json_split *split, bool byte_fallback)
{
    const bool pieces = (p->flags & CHARL__PRETRAINED_CHARACTERS) != 0;

    CHARL_REQUIRE(!split->white, CHARL_ERR_DATA,
                  "the pre_tokenizer WhitespaceSplit without Metaspace is not supported: tokens would lose the spaces "
                  "between words");
    if (p->flags & CHARL__PRETRAINED_WORDPIECE || split->bert) {
        CHARL_REQUIRE(p->flags & CHARL__PRETRAINED_WORDPIECE && split->bert && p->n_steps == 1 && !pieces,
                      CHARL_ERR_DATA,
                      "WordPiece is only supported with the pre_tokenizer BertPreTokenizer alone, and that with "
                      "WordPiece alone");
        return CHARL_OK;
    }
    CHARL_REQUIRE(
        pieces ? !split->byte_level &&
                     (p->n_steps == 0 || (p->n_steps == 1 && strcmp(p->step[0].pattern, CHARL__PATTERN_METASPACE) == 0))
               : split->byte_level && !byte_fallback &&
                     !(p->flags & (CHARL__PRETRAINED_PREFIX | CHARL__PRETRAINED_UNIGRAM)),
        CHARL_ERR_DATA,
        "it is neither byte-level BPE (a pre_tokenizer ByteLevel) nor BPE or Unigram of SentencePiece (U+2581 "
        "for spaces, by Replace or Metaspace) nor WordPiece of BERT; no other is supported");
    return CHARL_OK;
}

static charl_status read_tokenizer_json(const char *path, charl__pretrained *p)
{
    CHARL_SCOPED(json_left) json_t *root = NULL, *numbers = NULL;
    json_t *vocab;
    const json_t *model, *pre;
    charl__json_split split = {0};
    bool pieces;

    CHARL_TRY(charl__json_load(path, &root));
    model = charl__json_member(root, "model");
    CHARL_TRY(check_model(model, p));
    pre = charl__json_member(root, "pre_tokenizer");
    CHARL_TRY(charl__json_normalizer(charl__json_member(root, "normalizer"), p));
    if (pre) {
        CHARL_TRY(charl__json_pre_tokenizer(pre, p, &split));
    }
    CHARL_TRY(check_split(p, &split, json_is_true(charl__json_member(model, "byte_fallback"))));
    p->flags |= p->flags & CHARL__PRETRAINED_WORDPIECE ? CHARL__PRETRAINED_PREFIX : 0;
    pieces = (p->flags & (CHARL__PRETRAINED_CHARACTERS | CHARL__PRETRAINED_WORDPIECE)) != 0;
    vocab = json_object_get(model, "vocab");
    if (p->flags & CHARL__PRETRAINED_UNIGRAM) {
        CHARL_TRY(read_scores(vocab, p, &numbers));
        vocab = numbers;
    }
    CHARL_TRY(read_added(charl__json_member(root, "added_tokens"), p));
    CHARL_TRY(pieces ? read_pieces(vocab, model, p) : read_vocab(vocab, NULL, p));
    CHARL_TRY(pieces ? read_unknown(vocab, model, p) : CHARL_OK);
    CHARL_TRY(check_numbers(charl__json_member(root, "added_tokens"), vocab));
    for (int64_t i = p->n_merges; p->flags & CHARL__PRETRAINED_UNIGRAM && i < p->vocab; i++) {
        CHARL_TRY(charl__pretrained_add_score(p, 0)); /* of added tokens */
    }
    if (p->flags & CHARL__PRETRAINED_CHARACTERS) {
        CHARL_TRY(charl__pretrained_split_at_spaces(p));
    }
    return p->flags & (CHARL__PRETRAINED_UNIGRAM | CHARL__PRETRAINED_WORDPIECE)
               ? CHARL_OK
               : read_merge_list(vocab, charl__json_member(model, "merges"), p);
}

/* Lines of merges; the first may be a comment "#version: ...". */
static charl_status read_merge_lines(const json_t *vocab, const char *text, charl__pretrained *p)
{
    size_t n = 0;

    for (const char *line = text, *end; *line; line = end + (*end == '\n')) {
        size_t length;

        end = line + strcspn(line, "\n");
        length = (size_t)(end - line) - (end > line && end[-1] == '\r');
        if (length == 0 || (line == text && strncmp(line, "#version", 8) == 0)) {
            continue;
        }
        CHARL_TRY(add_merge_line(vocab, n++, line, length, p));
    }
    return CHARL_OK;
}

/* Which tokens merges make, by number: made[CHARL__TOKENIZER_MAX_VOCAB]. */
static charl_status mark_made(const json_t *vocab, const charl__pretrained *p, bool *made)
{
    CHARL_SCOPED_FREE const char **name = NULL;
    CHARL_SCOPED(charl__text_fini) charl__text both = {0};
    const char *key;
    json_t *value;

    CHARL_TRY(charl__alloc_array(CHARL__TOKENIZER_MAX_VOCAB, sizeof *name, &name));
    json_object_foreach((json_t *)(uintptr_t)vocab, key, value)
    {
        const json_int_t id = json_integer_value(value);

        if (id >= 0 && id < CHARL__TOKENIZER_MAX_VOCAB) {
            name[id] = key;
        }
    }
    for (int64_t i = 0; i < p->n_merges; i++) {
        json_int_t id;

        charl__text_clear(&both);
        CHARL_TRY(charl__text_printf(&both, "%s%s", name[p->merges[2 * i]], name[p->merges[2 * i + 1]]));
        value = json_object_get(vocab, charl__text_string(&both));
        id = value ? json_integer_value(value) : -1;
        if (id >= 0 && id < CHARL__TOKENIZER_MAX_VOCAB) {
            made[id] = true;
        }
    }
    return CHARL_OK;
}

static charl_status check_token(const char *name, const char *text, const json_t *vocab)
{
    CHARL_REQUIRE(json_object_get(vocab, text), CHARL_ERR_DATA,
                  "%s adds the token \"%.60s\", which is not in the vocabulary; HINT use its tokenizer.json", name,
                  text);
    return CHARL_OK;
}

/* The other files of such a tokenizer may add tokens: {"TEXT": NUMBER, ...} */
static charl_status check_added(const char *path, const json_t *vocab)
{
    static const char name[] = "added_tokens.json";
    CHARL_SCOPED(json_left) json_t *root = NULL;
    json_t *value;
    const char *key;

    CHARL_TRY(charl__json_beside(path, name, &root));
    json_object_foreach(root, key, value)
    {
        CHARL_TRY(check_token(name, key, vocab));
    }
    return CHARL_OK;
}

/* GPT-2's pattern is not stored in these files. A tokenizer_config.json beside them says if another one is used, and which tokens it adds. */
static charl_status check_config(const char *path, const json_t *vocab)
{
    static const char name[] = "tokenizer_config.json";
    CHARL_SCOPED(json_left) json_t *root = NULL;
    json_t *value;
    const char *class, *key;

    CHARL_TRY(charl__json_beside(path, name, &root));
    class = charl__json_text(root, "tokenizer_class");
    CHARL_REQUIRE(class[0] == '\0' || strncmp(class, "GPT2", 4) == 0, CHARL_ERR_DATA,
                  "it is of a %.60s (tokenizer_config.json), whose pattern is not in these "
                  "files; HINT use its tokenizer.json",
                  class);
    CHARL_REQUIRE(!json_is_true(json_object_get(root, "add_prefix_space")), CHARL_ERR_DATA,
                  "add_prefix_space (%s) is not supported: decoding would not restore the text", name);
    json_object_foreach(json_object_get(root, "added_tokens_decoder"), key, value)
    {
        CHARL_TRY(check_token(name, charl__json_text(value, "content"), vocab));
    }
    return CHARL_OK;
}

static charl_status read_pair(const char *path, charl__pretrained *p)
{
    const size_t folder = (size_t)(charl__base_name(path) - path);
    CHARL_SCOPED(charl__text_fini) charl__text file = {0}, text = {0};
    CHARL_SCOPED(json_left) json_t *vocab = NULL;
    CHARL_SCOPED_FREE bool *made = NULL;
    int k = 0;

    while (k + 1 < PAIRS && strcmp(charl__base_name(path), pairs[k][0]) != 0 &&
           strcmp(charl__base_name(path), pairs[k][1]) != 0) {
        k++;
    }
    CHARL_TRY(charl__text_printf(&file, "%.*s%s", (int)folder, path, pairs[k][0]));
    CHARL_TRY(charl__json_load(charl__text_string(&file), &vocab));
    CHARL_TRY(check_config(path, vocab));
    CHARL_TRY(check_added(path, vocab));
    charl__text_clear(&file);
    CHARL_TRY(charl__text_printf(&file, "%.*s%s", (int)folder, path, pairs[k][1]));
    CHARL_TRY(charl__tokenizer_read_file(charl__text_string(&file), &text));
    CHARL_TRY(
        charl__error_in(read_merge_lines(vocab, charl__text_string(&text), p), CHARL_ERR_DATA, "%s: ", pairs[k][1]));
    CHARL_TRY(charl__alloc_array(CHARL__TOKENIZER_MAX_VOCAB, sizeof *made, &made));
    CHARL_TRY(mark_made(vocab, p, made));
    CHARL_TRY(read_vocab(vocab, made, p));
    CHARL_TRY(charl__pretrained_add_step(p, CHARL__PATTERN_GPT2, false));
    return CHARL_OK;
}

const charl__tokenizer_format charl__tokenizer_format_json = {
    .row = {.name = "tokenizer_json", .help = "tokenizer.json: BPE, Unigram of SentencePiece, WordPiece of BERT"},
    .files = (const char *const[]){"tokenizer.json", NULL},
    .is = is_json,
    .read = read_tokenizer_json,
};

const charl__tokenizer_format charl__tokenizer_format_vocab = {
    .row = {.name = "vocab_merges", .help = "vocab.json and merges.txt, or encoder.json and vocab.bpe, of GPT-2"},
    .files = (const char *const[]){"vocab.json", "encoder.json", NULL},
    .is = is_pair,
    .read = read_pair,
};
