/* vocab.txt of BERT: a token in each line. How text is normalized is said by a tokenizer_config.json beside it; without one, text is put in lower
 * case. */
#include "data/tokenizer/json_steps.h"
#include "io/commit.h"

static bool is_vocab(const char *path, const char *head, size_t bytes)
{
    (void)head;
    return bytes > 0 && strcmp(charl__base_name(path), "vocab.txt") == 0;
}

static const char *const specials[] = {"[UNK]", "[PAD]", "[CLS]", "[SEP]", "[MASK]"};

enum { SPECIALS = sizeof specials / sizeof *specials };

/* The number of a special token; SPECIALS: it is none. */
static int find_special(const char *token, size_t length)
{
    int i = 0;

    while (i < SPECIALS && !(strlen(specials[i]) == length && memcmp(token, specials[i], length) == 0)) {
        i++;
    }
    return i;
}

static charl_status read_config(const char *path, charl__pretrained *p)
{
    static const char name[] = "tokenizer_config.json";
    static const char *const classes[] = {"",
                                          "BertTokenizer",
                                          "BertTokenizerFast",
                                          "DistilBertTokenizer",
                                          "DistilBertTokenizerFast",
                                          "ElectraTokenizer",
                                          "ElectraTokenizerFast"};
    enum { CLASSES = sizeof classes / sizeof *classes };
    CHARL_SCOPED(json_left) json_t *root = NULL;
    const char *class, *key;
    json_t *value;
    bool lowercase;
    int i = 0;

    CHARL_TRY(charl__json_beside(path, name, &root));
    class = charl__json_text(root, "tokenizer_class");
    while (i < CLASSES && strcmp(class, classes[i]) != 0) {
        i++;
    }
    CHARL_REQUIRE(i < CLASSES, CHARL_ERR_DATA, "it is of a %.60s (%s); vocab.txt is read as BERT's", class, name);
    CHARL_REQUIRE(charl__json_flag(root, "do_basic_tokenize", true), CHARL_ERR_DATA,
                  "do_basic_tokenize = false (%s) is not supported", name);
    json_object_foreach(json_object_get(root, "added_tokens_decoder"), key, value)
    {
        const char *content = charl__json_text(value, "content");

        CHARL_REQUIRE(find_special(content, strlen(content)) < SPECIALS, CHARL_ERR_DATA,
                      "%s adds the token \"%.60s\", which is not supported with vocab.txt; HINT use its tokenizer.json",
                      name, content);
    }
    lowercase = charl__json_flag(root, "do_lower_case", true);
    return charl__bert_normalizer(true, charl__json_flag(root, "tokenize_chinese_chars", true),
                                  charl__json_flag(root, "strip_accents", lowercase), lowercase, p);
}

static charl_status read_vocab(const char *path, charl__pretrained *p)
{
    CHARL_SCOPED(charl__text_fini) charl__text text = {0};
    int64_t id = 0;
    bool unknown = false;

    CHARL_TRY(charl__tokenizer_read_file(path, &text));
    CHARL_REQUIRE(strlen(charl__text_string(&text)) == text.length, CHARL_ERR_DATA, "it is damaged: byte %zu is 0",
                  strlen(charl__text_string(&text)));
    CHARL_TRY(read_config(path, p));
    for (const char *line = charl__text_string(&text), *end; *line; line = end + (*end == '\n'), id++) {
        size_t length;
        int i;

        end = line + strcspn(line, "\n");
        length = (size_t)(end - line) - (end > line && end[-1] == '\r');
        i = find_special(line, length);
        unknown = unknown || i == 0;
        if (i < SPECIALS) {
            CHARL_TRY(charl__pretrained_add_token(
                p, id, line, length, CHARL__TOKEN_ADDED | CHARL__TOKEN_SPECIAL | (i == 0 ? CHARL__TOKEN_UNKNOWN : 0)));
        } else {
            CHARL_TRY(charl__pretrained_add_wordpiece(p, id, line, length));
        }
    }
    CHARL_REQUIRE(unknown, CHARL_ERR_DATA, "it has no token [UNK]: it is no vocabulary of BERT");
    p->flags |= CHARL__PRETRAINED_WORDPIECE | CHARL__PRETRAINED_PREFIX;
    return charl__pretrained_add_step(p, CHARL__PATTERN_BERT, true);
}

const charl__tokenizer_format charl__tokenizer_format_wordpiece = {
    .row = {.name = "wordpiece", .help = "vocab.txt of BERT"},
    .files = (const char *const[]){"vocab.txt", NULL},
    .is = is_vocab,
    .read = read_vocab,
};
