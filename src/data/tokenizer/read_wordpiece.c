/* vocab.txt of BERT: a token in each line. How text is normalized is said by a tokenizer_config.json beside it; without one, text is put in lower
 * case. */
#include "data/tokenizer/json_steps.h"
#include "io/commit.h"

CHARL_SCOPED_POINTER(json_left, json_t, json_decref)

static bool is_vocab(const char *path, const char *head, size_t bytes)
{
    (void)head;
    return bytes > 0 && strcmp(charl__base_name(path), "vocab.txt") == 0;
}

static bool flag(const json_t *o, const char *key, bool absent)
{
    const json_t *v = charl__json_member(o, key);

    return v ? json_is_true(v) : absent;
}

static charl_status read_config(const char *path, charl__pretrained *p)
{
    static const char name[] = "tokenizer_config.json";
    CHARL_SCOPED(charl__text_fini) charl__text file = {0};
    CHARL_SCOPED(json_left) json_t *root = NULL;
    json_error_t error;
    const char *class;
    bool lowercase;

    CHARL_TRY(charl__text_printf(&file, "%.*s%s", (int)(charl__base_name(path) - path), path, name));
    root = json_load_file(charl__text_string(&file), 0, &error);
    class = charl__json_text(root, "tokenizer_class");
    CHARL_REQUIRE(class[0] == '\0' || strncmp(class, "Bert", 4) == 0 || strncmp(class, "DistilBert", 10) == 0 ||
                      strncmp(class, "Electra", 7) == 0,
                  CHARL_ERR_DATA, "it is of a %.60s (%s); vocab.txt is read as BERT's", class, name);
    CHARL_REQUIRE(flag(root, "do_basic_tokenize", true), CHARL_ERR_DATA,
                  "do_basic_tokenize = false (%s) is not supported", name);
    lowercase = flag(root, "do_lower_case", true);
    return charl__bert_normalizer(true, flag(root, "tokenize_chinese_chars", true),
                                  flag(root, "strip_accents", lowercase), lowercase, p);
}

static charl_status read_vocab(const char *path, charl__pretrained *p)
{
    static const char *const specials[] = {"[UNK]", "[PAD]", "[CLS]", "[SEP]", "[MASK]"};
    enum { SPECIALS = sizeof specials / sizeof *specials };
    CHARL_SCOPED(charl__text_fini) charl__text text = {0};
    int64_t id = 0;
    bool unknown = false;

    CHARL_TRY(charl__tokenizer_read_file(path, &text));
    CHARL_TRY(read_config(path, p));
    for (const char *line = charl__text_string(&text), *end; *line; line = end + (*end == '\n'), id++) {
        size_t length;
        int i = 0;

        end = line + strcspn(line, "\n");
        length = (size_t)(end - line) - (end > line && end[-1] == '\r');
        while (i < SPECIALS && !(strlen(specials[i]) == length && memcmp(line, specials[i], length) == 0)) {
            i++;
        }
        unknown = unknown || i == 0;
        if (i < SPECIALS) {
            CHARL_TRY(charl__pretrained_add_token(
                p, id, line, length, CHARL__TOKEN_ADDED | CHARL__TOKEN_SPECIAL | (i == 0 ? CHARL__TOKEN_UNKNOWN : 0)));
        } else {
            CHARL_TRY(charl__pretrained_add_wordpiece(p, id, line, length, "##"));
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
