/* charl data import: converts other formats to charl's. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "charl/dataset.h"
#include "charl/image.h"
#include "cli/charl_commands.h"

enum { ANY = 1 << 20, MAX_SIDE = 4096 };

enum { KEY_HEADER = 0x100 };

typedef struct import {
    charl_import_options common;
    charl_csv_options csv;
    charl_tokenizer_kind tokenizer;
    charl_image_format image;
    const char *out, *test;
    int64_t vocab;
    unsigned given; /* bits of options that only some formats take */
} import;

enum {
    GIVEN_TEST = 1,
    GIVEN_LABEL = 2,
    GIVEN_REGRESSION = 4,
    GIVEN_SEPARATOR = 8,
    GIVEN_VOCAB = 16,
    GIVEN_SIZE = 32,
    GIVEN_CHANNELS = 64,
    GIVEN_FIT = 128,
    GIVEN_TOKENIZER = 256,
    GIVEN_HEADER = 512
};

static const char *const given_names[] = {"--test", "--label",    "--regression", "--separator", "--vocab",
                                          "--size", "--channels", "--fit",        "--tokenizer", "--header"};

static charl_status import_idx(const import *o, int n, char **file)
{
    return charl_import_idx((const char *const[2]){file[0], n == 4 ? file[2] : NULL},
                            (const char *const[2]){file[1], n == 4 ? file[3] : NULL}, o->out, &o->common);
}

static charl_status import_cifar10(const import *o, int n, char **file)
{
    return charl_import_cifar10((const char *const *)file, n, o->test, o->out, &o->common);
}

static charl_status import_csv(const import *o, int n, char **file)
{
    (void)n;
    return charl_import_csv(file[0], &o->csv, o->out, &o->common);
}

static charl_status import_npy(const import *o, int n, char **file)
{
    (void)n;
    return charl_import_npy(file[0], file[1], o->out, &o->common);
}

static charl_status import_tokens(const import *o, int n, char **file)
{
    (void)n;
    return charl_import_tokens(file[0], o->vocab, o->out, &o->common);
}

static charl_status import_text(const import *o, int n, char **file)
{
    const charl_text_options text = {o->tokenizer, o->vocab};

    return charl_import_text((const char *const *)file, n, &text, o->out, &o->common);
}

static charl_status import_images(const import *o, int n, char **file)
{
    return charl_import_images((const char *const[2]){file[0], n == 2 ? file[1] : NULL}, &o->image, o->out, &o->common);
}

typedef struct format {
    const char *name;
    int step, max; /* files come in groups of `step` */
    const char *files;
    unsigned takes;
    charl_status (*run)(const import *o, int n, char **file);
} format;

static const format formats[] = {
    {"idx", 2, 4, "IMAGES LABELS [IMAGES LABELS]", 0, import_idx},
    {"cifar10", 1, ANY, "BATCH...", GIVEN_TEST, import_cifar10},
    {"csv", 1, 1, "FILE", GIVEN_LABEL | GIVEN_REGRESSION | GIVEN_SEPARATOR | GIVEN_HEADER, import_csv},
    {"npy", 2, 2, "X Y", 0, import_npy},
    {"tokens", 1, 1, "FILE", GIVEN_VOCAB, import_tokens},
    {"text", 1, ANY, "FILE...", GIVEN_VOCAB | GIVEN_TOKENIZER, import_text},
    {"images", 1, 2, "FOLDER [FOLDER]", GIVEN_SIZE | GIVEN_CHANNELS | GIVEN_FIT, import_images},
};
enum { N_FORMATS = sizeof formats / sizeof *formats };

/* "32x48" as height and width; "32" is a square. */
static error_t parse_size(import *o, const char *arg)
{
    char *end = NULL;

    o->image.height = strtol(arg, &end, 10);
    o->image.width = *end == 'x' ? strtol(end + 1, &end, 10) : o->image.height;
    return strspn(arg, "0123456789x") == strlen(arg) && *end == '\0' && o->image.height >= 1 &&
                   o->image.height <= MAX_SIDE && o->image.width >= 1 && o->image.width <= MAX_SIDE
               ? 0
               : charl__cli_bad_option("--size", arg, "must be HEIGHTxWIDTH, each from 1 to 4096");
}

static error_t parse_channels(import *o, const char *arg)
{
    o->image.channels = strcmp(arg, "1") == 0 ? 1 : 3;
    return o->image.channels == 1 || strcmp(arg, "3") == 0
               ? 0
               : charl__cli_bad_option("--channels", arg, "must be 1 (gray) or 3 (RGB)");
}

static error_t parse_fit(import *o, const char *arg)
{
    o->image.fit = charl_image_fit_of(arg);
    return o->image.fit < CHARL_FIT_COUNT ? 0 : charl__cli_bad_option("--fit", arg, "must be crop, stretch or pad");
}

static error_t parse_tokenizer(import *o, const char *arg)
{
    for (int k = 0; k < CHARL_TOKENIZER_KIND_COUNT; k++) {
        if (strcmp(arg, charl_tokenizer_kind_name((charl_tokenizer_kind)k)) == 0) {
            o->tokenizer = (charl_tokenizer_kind)k;
            return 0;
        }
    }
    return charl__cli_bad_option("--tokenizer", arg, "must be bytes, chars or bpe");
}

static error_t parse_header(import *o, const char *arg)
{
    o->csv.header = strcmp(arg, "yes") == 0 ? CHARL_CSV_HEADER_YES : CHARL_CSV_HEADER_NO;
    return o->csv.header == CHARL_CSV_HEADER_YES || strcmp(arg, "no") == 0
               ? 0
               : charl__cli_bad_option("--header", arg, "must be yes or no");
}

static error_t parse_import(int key, char *arg, struct argp_state *state)
{
    import *o = state->input;

    switch (key) {
    case 'o':
        o->out = arg;
        return 0;
    case 'v':
        return charl__cli_parse_fraction("--val-split", arg, &o->common.val_split);
    case 'w':
        o->common.overwrite = true;
        return 0;
    case 't':
        o->given |= GIVEN_TEST;
        o->test = arg;
        return 0;
    case 'l':
        o->given |= GIVEN_LABEL;
        o->csv.label = arg;
        return 0;
    case 'r':
        o->given |= GIVEN_REGRESSION;
        o->csv.regression = true;
        return 0;
    case 's':
        o->given |= GIVEN_SEPARATOR;
        return charl__cli_parse_separator(arg, &o->csv.separator);
    case KEY_HEADER:
        o->given |= GIVEN_HEADER;
        return parse_header(o, arg);
    case 'k':
        o->given |= GIVEN_TOKENIZER;
        return parse_tokenizer(o, arg);
    case 'n':
        o->given |= GIVEN_VOCAB;
        return charl__cli_parse_int("--vocab", arg, 1, INT32_MAX, &o->vocab);
    case 'z':
        o->given |= GIVEN_SIZE;
        return parse_size(o, arg);
    case 'c':
        o->given |= GIVEN_CHANNELS;
        return parse_channels(o, arg);
    case 'f':
        o->given |= GIVEN_FIT;
        return parse_fit(o, arg);
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option import_options[] = {
    {"output", 'o', "FILE", 0, "The dataset to write (required)", 1},
    {"overwrite", 'w', NULL, 0, "Replace an existing file", 1},
    {"val-split", 'v', "FRACTION", 0, "Use this fraction, from the end of the training set, for validation", 1},
    {"test", 't', "BATCH", 0, "cifar10: held-out batch, used as validation set, with --val-split as test set", 2},
    {"label", 'l', "COLUMN", 0,
     "csv: target column, by name or index from 0 (default: the last); A,B,C: several binary "
     "targets or, with --regression, several numbers",
     3},
    {"regression", 'r', NULL, 0, "csv: the target is a number instead of a class", 3},
    {"separator", 's', "CHAR", 0, "csv: field separator (default: comma); tab for tabs", 3},
    {"header", KEY_HEADER, "yes|no", 0,
     "csv: whether the first line names the columns (default: yes if it contains no numbers)", 3},
    {"tokenizer", 'k', "KIND", 0,
     "text: bytes (default), chars, or bpe (byte pair encoding, trained on the training set)", 4},
    {"vocab", 'n', "N", 0,
     "Vocabulary size. tokens: default is the largest token plus one; text with bpe: the maximum, "
     "default 4096",
     4},
    {"size", 'z', "HxW", 0, "images: size of every sample; one number for a square (required)", 5},
    {"channels", 'c', "1|3", 0, "images: 1 for grayscale, 3 for RGB (default 3)", 5},
    {"fit", 'f', "HOW", 0, "images: how to handle another aspect ratio: crop (center crop, default), stretch or pad",
     5},
    {0}};

static const char import_doc[] =
    "Convert data to charl's format. OUT is written atomically.\v"
    "FORMAT and files:\n"
    "  idx IMAGES LABELS [IMAGES LABELS]  MNIST's format, plain or .gz\n"
    "  cifar10 BATCH...                   CIFAR-10, binary version\n"
    "  csv FILE                           a table, one sample per row\n"
    "  npy X Y                            NumPy arrays\n"
    "  tokens FILE                        token files of llm.c or nanoGPT\n"
    "  text FILE...                       UTF-8 text; files are concatenated\n"
    "  images FOLDER [FOLDER]             PNG and JPEG files, a folder per class\n"
    "                                     or labels in FOLDER/labels.csv\n"
    "The second pair of idx and the second folder of images become the validation set, with "
    "--val-split the test set.";

static const format *find_format(const char *name)
{
    for (int i = 0; i < N_FORMATS; i++) {
        if (strcmp(name, formats[i].name) == 0) {
            return &formats[i];
        }
    }
    return NULL;
}

/* Whether options and files apply to the format; if not, prints an error. */
static bool suits(const format *f, const import *o, int n)
{
    for (unsigned i = 0; i < sizeof given_names / sizeof *given_names; i++) {
        if (o->given & ~f->takes & 1U << i) {
            charl__cli_error(0, NULL, "%s does not apply to %s", given_names[i], f->name);
            return false;
        }
    }
    if (f->run == import_text && o->given & GIVEN_VOCAB && o->tokenizer != CHARL_TOKENIZER_BPE) {
        charl__cli_error(0, NULL, "--vocab applies to --tokenizer bpe");
        return false;
    }
    if (n < f->step || n > f->max || n % f->step != 0) {
        charl__cli_error(0, NULL, "%s takes %s, not %d file%s", f->name, f->files, n, n == 1 ? "" : "s");
        return false;
    }
    if (f->takes & ~o->given & GIVEN_SIZE) {
        charl__cli_error(0, "add --size 32x32, the height and width of every sample", "--size is missing");
        return false;
    }
    if (!o->out) {
        charl__cli_error(0, "add -o FILE.h5, the dataset to write", "--output is missing");
        return false;
    }
    return true;
}

int charl__data_import_main(const char *path, int argc, char **argv)
{
    static const struct argp argp = {import_options, parse_import, "FORMAT FILE... -o OUT", import_doc, NULL,
                                     NULL,           NULL};
    charl__cli_operands files = {.names = {"FORMAT", "FILE"}, .max = ANY};
import o = {.image.channels = 3 };
    const format *f;
    charl_status st;
    const int code = charl__cli_parse(path, &argp, &files, argc, argv, &o);

    if (code >= 0) {
        return code;
    }
    f = find_format(files.values[0]);
    if (!f) {
        return charl__cli_error(CHARL__EXIT_USAGE, "formats: idx, cifar10, csv, npy, tokens, text, images",
                                "unknown format: %s", files.values[0]);
    }
    if (!suits(f, &o, files.count - 1)) {
        return CHARL__EXIT_USAGE;
    }
    st = f->run(&o, files.count - 1, files.values + 1);
    return st == CHARL_OK ? charl__data_show(o.out) : charl__cli_fail(st);
}
