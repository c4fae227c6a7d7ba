/* Importer of texts with one class each, which become padded rows of tokens.
 *
 * The files are read two or three times: for the labels (and the text for a tokenizer to learn from), for the longest text if no window is given,
 * and to write the rows.
 */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "io/commit.h"
#include "io/dataset/order/split.h"
#include "io/dataset/text_labels.h"
#include "io/paths.h"
#include "data/import/import_rows.h"
#include "data/import/importer.h"
#include "data/import/labelled_text.h"
#include "charl/import.h"

enum { DEFAULT_VOCAB = 4096, LONGEST = 512 };

typedef struct classes_settings {
    const char *text, *label, *tokenizer; /* NULL: text, label and bytes */
    bool special_tokens;
    int64_t vocab, window; /* 0: DEFAULT_VOCAB; the length of the longest text */
    const char *val_file;
} classes_settings;

typedef struct text_classes {
    const classes_settings *o;
    const charl_import_options *common;
    const char *text_field, *label_field;
    charl__paths paths[2]; /* for training, for validation */
    charl__text_labels labels;
    int64_t n_training;
    uint8_t *val;
    charl_tokenizer *tokenizer;
    charl__encoder *encoder;
    bool learns; /* the text of all rows is gathered */
    charl__text gathered;
    charl_dtype dtype;
    int64_t window, longest;
} text_classes;

static charl_status read_files(text_classes *c, charl_status (*add)(text_classes *c, const charl__labelled_text *t))
{
    CHARL_SCOPED(charl__labelled_text_close) charl__labelled_text t = {0};
    int64_t n = 0;
    bool more;

    for (int part = 0; part < 2; part++) {
        for (int64_t i = 0; i < c->paths[part].n; i++) {
            CHARL_TRY(charl__labelled_text_open(&t, c->paths[part].path[i], c->text_field, c->label_field, 0));
            for (;;) {
                CHARL_TRY(charl__labelled_text_next(&t, &more));
                if (!more) {
                    break;
                }
                CHARL_TRY(add(c, &t));
                n++;
            }
            charl__labelled_text_close(&t);
        }
        c->n_training = part == 0 ? n : c->n_training;
    }
    return CHARL_OK;
}

static charl_status add_label(text_classes *c, const charl__labelled_text *t)
{
    charl_status st;

    CHARL_REQUIRE(t->label, CHARL_ERR_DATA,
                  t->label_column >= 0 && !t->is_json
                      ? "%s: the label in column \"%s\" is missing; HINT remove the row; in a CSV file, NA, None, null "
                        "and the like stand for a missing value and cannot be the name of a class"
                      : "%s: there is no label in \"%s\"; HINT --label NAME",
                  charl__labelled_text_place(t), c->label_field);
    st = charl__text_labels_add(&c->labels, t->label);
    CHARL_TRY(st == CHARL_ERR_DATA ? charl__error_in(st, st, "%s: ", charl__labelled_text_place(t)) : st);
    if (c->learns) {
        CHARL_TRY(charl__text_append(&c->gathered, t->text, t->bytes));
        CHARL_TRY(charl__text_append(&c->gathered, "\n", 1)); /* so that no word spans two texts */
    }
    return CHARL_OK;
}

static charl_status measure(text_classes *c, const charl__labelled_text *t)
{
    int64_t tokens;

    CHARL_TRY(charl__labelled_text_encode(t, c->encoder, c->dtype, 0, NULL, &tokens));
    c->longest = tokens > c->longest ? tokens : c->longest;
    return CHARL_OK;
}

static charl_status write_file(text_classes *c, const char *out, char *names)
{
    charl_data_schema schema = charl__import_schema(CHARL_DATASET_SEQUENCES);
    charl__import_plan plan = {.schema = &schema,
                               .rows = {c->n_training, c->labels.n - c->n_training},
                               .labels = c->labels.label,
                               .val = c->val,
                               .classes = c->labels.set.n};

    schema.x_dtype = c->dtype;
    schema.x_shape = (charl_shape){1, {c->window}};
    schema.y_dtype = CHARL_I32;
    schema.class_names = names;
    schema.columns = (char *)(uintptr_t)c->text_field;
    schema.targets = (char *)(uintptr_t)c->label_field;
    schema.recipe = (char *)(uintptr_t)(c->o->special_tokens ? CHARL__RECIPE_SPECIAL : "");
    schema.tokenizer = c->tokenizer;
    for (int k = 0; k < 2; k++) {
        plan.source[k] = (charl__rows_options){.schema = &schema,
                                               .imports = true,
                                               .model = "a dataset",
                                               .paths = (const char *const *)c->paths[k].path,
                                               .n_paths = c->paths[k].n};
    }
    return charl__import_rows(&plan, out, c->common);
}

static charl_status import_all(text_classes *c, const char *out)
{
    const char *name = c->o->tokenizer ? c->o->tokenizer : "bytes";
    const charl__tokenizer_type *type = NULL;
    CHARL_SCOPED(charl__text_fini) charl__text names = {0};
    int64_t vocab;

    CHARL_TRY(charl__tokenizer_open(name, &type, &c->tokenizer));
    CHARL_REQUIRE(c->o->vocab == 0 || (type && type->has_vocab), CHARL_ERR_CONFIG,
                  "tokenizer %s: a size of the vocabulary (--vocab) applies to a tokenizer that learns one, "
                  "such as bpe",
                  name);
    c->learns = type && type->learn && type != &charl__tokenizer_bytes;
    CHARL_TRY(read_files(c, add_label));
    CHARL_REQUIRE(c->labels.n > 0, CHARL_ERR_DATA, "%s: there are no texts", c->paths[0].path[0]);
    if (type) {
        CHARL_TRY(charl_tokenizer_create(name, c->gathered.data, c->gathered.length,
                                         c->o->vocab ? c->o->vocab : DEFAULT_VOCAB, &c->tokenizer));
        charl__text_fini(&c->gathered);
    }
    CHARL_REQUIRE(c->labels.set.n >= 2, CHARL_ERR_DATA, "%s: all labels are the same", c->paths[0].path[0]);
    CHARL_TRY(charl__text_labels_decide(&c->labels, &names));
    CHARL_TRY(charl__split_choose(c->paths[0].path[0], c->labels.label, c->n_training, c->common, &c->val));
    vocab = charl_tokenizer_get_vocab(c->tokenizer);
    c->dtype = vocab <= UINT8_MAX ? CHARL_U8 : vocab <= UINT16_MAX ? CHARL_U16 : CHARL_U32;
    CHARL_TRY(charl__encoder_create(c->tokenizer, c->o->special_tokens, &c->encoder));
    c->window = c->o->window;
    if (c->window == 0) {
        CHARL_TRY(read_files(c, measure));
        c->window = c->longest < 1 ? 1 : c->longest < LONGEST ? c->longest : LONGEST;
    }
    CHARL_TRY(write_file(c, out, names.data));
    return CHARL_OK;
}

static charl_status run_text_classes(const void *settings, const char *const *files, int n, const char *out,
                                     const charl_import_options *opt)
{
    charl_status st = CHARL_OK;
    text_classes c = {.o = settings, .common = opt};

    c.text_field = c.o->text ? c.o->text : "text";
    c.label_field = c.o->label ? c.o->label : "label";
    CHARL_TRY_CLEANUP(
        charl__import_paths(c.paths, files, n, c.o->val_file, c.common->val_split, ".csv|.tsv|.jsonl|.parquet", out));
    CHARL_TRY_CLEANUP(charl__commit_check_inputs(out, &c.o->tokenizer, 1));
    CHARL_TRY_CLEANUP(import_all(&c, out));
cleanup:
    charl__encoder_destroy(c.encoder);
    charl_tokenizer_destroy(c.tokenizer);
    charl__text_labels_fini(&c.labels);
    charl__text_fini(&c.gathered);
    charl__paths_fini(&c.paths[0]);
    charl__paths_fini(&c.paths[1]);
    charl_free(c.val);
    return st;
}

static const charl_key keys[] = {
    {"text", CHARL_KEY_TEXT, offsetof(classes_settings, text), NULL, false,
     "the column or field that holds the text (default: text)", NULL},
    {"label", CHARL_KEY_TEXT, offsetof(classes_settings, label), NULL, false,
     "the column or field that holds the class (default: label)", NULL},
    {"tokenizer", CHARL_KEY_TEXT, offsetof(classes_settings, tokenizer), NULL, false,
     "bytes (default), chars, bpe (byte pair encoding, trained on the texts), or the file or folder of a published "
     "tokenizer",
     NULL},
    {"special_tokens", CHARL_KEY_BOOL, offsetof(classes_settings, special_tokens), NULL, false,
     "recognize the special tokens of a published tokenizer in the texts", NULL},
    {"vocab", CHARL_KEY_INT, offsetof(classes_settings, vocab), "[1,2147483647]", false,
     "maximum size of a vocabulary that is trained (default 4096)", NULL},
    {"window", CHARL_KEY_INT, offsetof(classes_settings, window), "[1,1000000]", false,
     "tokens of a row: longer texts are cut off, shorter ones padded (default: the longest text, at most 512)", NULL},
    {"val_file", CHARL_KEY_TEXT, offsetof(classes_settings, val_file), NULL, false,
     "a file, folder or pattern to validate on, instead of --val-split", NULL},
};
static const classes_settings defaults = {0};

const charl_importer charl__importer_text_classes = {
    .row.name = "text-classes",
    .row.help = "texts with a class each: .csv, .jsonl, .parquet; files, folders, patterns",
    CHARL_KEYS(keys),
    CHARL_DEFAULTS(defaults),
    .files = "PATH...",
    .group = 1,
    .shuffles = true,
    .note = "A CSV file has a header; a line of a .jsonl file is {\"text\": ..., \"label\": ...}. The classes are the "
            "different labels in the order of their bytes.",
    .run = run_text_classes,
};
