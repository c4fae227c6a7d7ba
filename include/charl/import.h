#ifndef CHARL_IMPORT_H
#define CHARL_IMPORT_H
/** Importers by name: what `charl data import FORMAT` offers.
 *
 *      const char *file = "flowers.csv";
 *      charl_import("csv", (const char *const[]){"label=species", "missing=mean", NULL}, &file, 1, "flowers.h5",
 *                   &(charl_import_options){sizeof(charl_import_options), .val_split = 0.1});
 */
#include "charl/dataset.h"
#include "charl/key.h"

CHARL_BEGIN_DECLS

/** What the targets of a table are. */
typedef enum charl_target_choice {
    CHARL_TARGET_GUESSED,
    CHARL_TARGET_IS_CLASS,
    CHARL_TARGET_IS_NUMBER
} charl_target_choice;

/** Wishes for charl_import_suggest. All members but the first may be zero. */
typedef struct charl_suggest_options {
    size_t struct_size; /* sizeof(charl_suggest_options) */
    /* column of a table, by name or index from 0; NULL: one called target, label, class, y or outcome, else the last
     * that can be a target */
    const char *target;
    void (*noted)(void *ctx, const char *text); /* receives a line for each decision; NULL: none */
    void *ctx;
    int64_t choice; /* charl_target_choice of that column */
} charl_suggest_options;

/** An importer. Its keys are its settings: key val_file is the option --val-file. They are of kinds that
 *  charl_key_parse reads. */
typedef struct charl_importer {
    charl_row row;
    const char *files; /* operands, for --help: "IMAGES LABELS [IMAGES LABELS]" */
    int group, most;   /* number of operands: a multiple of group, at most most; 0: no limit */
    bool shuffles;     /* validation rows are chosen by seed and class, unless in_order */
    const char *note;  /* shown below the options in --help; NULL: none */
    /* For charl_import: settings are as the keys describe, checked; opt is not NULL. */
    charl_status (*run)(const void *settings, const char *const *files, int n, const char *out,
                        const charl_import_options *opt);
    /* For charl_import_suggest: *out: owned. NULL: files can be imported without settings, unless keys are required */
    charl_status (*suggest)(const char *path, const charl_suggest_options *opt, char **out);
} charl_importer;

/** Importer i = 0, 1, ..., NULL past the last; the importer called `name`, NULL if there is none; the name of importer
 *  i, NULL past the last. Static storage. Local. Thread-safe. */
const charl_importer *charl_importer_get(int i);
const charl_importer *charl_importer_find(const char *name);
const char *charl_importer_name(int i);

/** Convert files of another format to one in charl's layout at `out`, with mean and standard deviation of the training
 *  rows. `out` is written atomically.
 *
 *  format    name of an importer; docs/tables.md, images.md, arrays.md and language-models.md describe the conversions
 *  settings  "KEY=VALUE" of its keys, then NULL; the others have their defaults. NULL: all of them
 *  files     [n] as the importer takes them: a second pair or folder becomes the validation set, or with val_split the
 *            test set; where it takes any number, a file may be a folder, or a pattern with *, ? and [] as a shell
 *            would expand it, both in the order of the bytes of the names
 *  opt       may be NULL
 *
 *  Blocks. Local. Memory: a few MiB, and 5 to 13 bytes for each row or document; importers that train a tokenizer hold
 *  the training text.
 *  Errors: ERR_DATA    a source is missing, truncated or malformed; the message names the file and line, row or byte
 *          ERR_CONFIG  no such importer or setting, settings or files that do not go together; `out` exists and may not
 *                      be replaced, or is one of the sources
 *          ERR_DISK    `out` could not be written */
charl_status charl_import(const char *format, const char *const *settings, const char *const *files, int n,
                          const char *out, const charl_import_options *opt) CHARL_MUST_CHECK;

/** Find out how the file or folder at `path` can be imported: the importer that its kind needs, and the settings that
 *  answer what the importer would ask, such as the target of a table and which of its columns are left out.
 *
 *  opt       may be NULL
 *  importer  receives NULL if `path` is a dataset of charl, which needs no import; the importer of its kind also if
 *            there is no suggestion
 *  out       "KEY=VALUE" lines for charl_import, "" for none; owned: charl_free
 *
 *  Blocks. Local. Cost: a table is read once, of images up to 16 are decoded.
 *  Errors: ERR_DATA    nothing that can be imported without further decisions; the message says what it is, and which
 *                      command reads it
 *          ERR_CONFIG  a target that the table does not have, or of data that are no table */
charl_status charl_import_suggest(const char *path, const charl_suggest_options *opt, const charl_importer **importer,
                                  char **out) CHARL_MUST_CHECK;

/** Parse the separator of a CSV file: one character, "tab" or "\\t", "blank" (runs of blanks), or "auto", which gives
 *  0: detect it. Returns false for any other text (CHARL_CSV_SEPARATOR is the message). Local. Thread-safe. */
bool charl_csv_separator(const char *text, char *out);
#define CHARL_CSV_SEPARATOR "must be one character, tab, blank or auto"

/** Kind i = 0, 1, ... of data that charl_dataset_make generates, and a line about it; NULL past the last. Static
 *  storage. Local. */
const char *charl_make_kind_name(int i);
const char *charl_make_kind_help(int i);

/** What charl_dataset_make generates. */
typedef struct charl_make_options {
    size_t struct_size;     /* sizeof(charl_make_options) */
    const char *kind;       /* a charl_make_kind_name */
    int64_t n_train, n_val; /* n_train >= 1 */
    uint64_t seed;
    bool overwrite;
} charl_make_options;

/** Generate a synthetic dataset at `path`. The same options give the same data on every machine.
 *
 *  Blocks. Local.
 *  Errors: ERR_CONFIG  unknown kind, bad counts, or `path` exists
 *          ERR_DISK    the file could not be written */
charl_status charl_dataset_make(const char *path, const charl_make_options *opt) CHARL_MUST_CHECK;

CHARL_END_DECLS

#endif
