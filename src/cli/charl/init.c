/* charl init DATA: imports data with settings that fit them, and writes a configuration that trains on the result.
 *
 *      suggest (charl/import.h) -> import -> example of launch/, with the values that depend on the data
 */
#include <charl/import.h>

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/charl/commands.h"
#include "cli/charl/examples.h"

enum {
    MOST_SETTINGS = 16,
    MOST_EDITS = 8,
    VALUE_BYTES = 8192,
    NAME_BYTES = 256,
    WORD_BYTES = 64,
    LONG_COMMAND = 4096,
    PATH_BYTES = 4096,
    MOST_PATH = 3072,
    IMAGE_LEAST = 8
};

/* A value that replaces the example's. */
typedef struct edit {
    const char *section, *key;
    char value[VALUE_BYTES];
    bool done;
} edit;

typedef struct init {
    const char *data, *out;
    charl_suggest_options suggest;
    const charl_importer *importer; /* NULL: the data are a dataset already */
    char *settings;                 /* "KEY=VALUE" lines, as they were suggested */
    double val_split;
    bool refused; /* the import failed */
    char config[PATH_BYTES], dataset[PATH_BYTES], name[NAME_BYTES];
    const char *example;    /* its text */
    char model[WORD_BYTES]; /* its type */
    edit edits[MOST_EDITS];
    int n_edits;
    int64_t steps, epochs; /* steps of an epoch, or of the training if epochs is 0 */
} init;

/* Whether the setting at `at` is an option without a value. */
static bool is_flag(const charl_importer *t, const char *at)
{
    const size_t length = strcspn(at, "=");

    for (int i = 0; i < t->row.n_keys; i++) {
        const charl_key *key = &t->row.keys[i];

        if (strncmp(key->name, at, length) == 0 && key->name[length] == '\0') {
            return key->kind == CHARL_KEY_BOOL;
        }
    }
    return false;
}

/* The command that imports the data. */
static charl_status put_import(FILE *f, const init *o)
{
    fprintf(f, "charl data import %s ", o->importer->row.name);
    charl__cli_put_word(f, o->data);
    for (const char *at = o->settings ? o->settings : ""; *at;
         at += strcspn(at, "\n") + (at[strcspn(at, "\n")] == '\n')) {
        const char *value = strchr(at, '=') + 1;

        fputs(" --", f);
        for (const char *c = at; *c != '='; c++) {
            fputc(*c == '_' ? '-' : *c, f);
        }
        if (!is_flag(o->importer, at)) {
            char *word = strndup(value, strcspn(value, "\n"));

            CHARL_REQUIRE(word, CHARL_ERR_NOMEM, "out of memory");
            fputc(' ', f);
            charl__cli_put_word(f, word);
            free(word);
        }
    }
    fprintf(f, " --val-split %g -o ", o->val_split);
    charl__cli_put_word(f, o->dataset);
    return CHARL_OK;
}

/* The last part of a path without its extension, "data" for a folder without a name; characters with a meaning in a configuration become
 * hyphens, of which none comes first: the name is not an option. */
static void stem(const char *path, char *out, size_t size)
{
    size_t length = strlen(path), begin;

    while (length > 1 && path[length - 1] == '/') {
        length--;
    }
    for (begin = length; begin > 0 && path[begin - 1] != '/'; begin--) {
    }
    length = begin + strcspn(path + begin, "./");
    snprintf(out, size, "%.*s", (int)(length - begin), path + begin);
    for (char *c = out; *c; c++) {
        *c = strchr(" \t\r\n#;$%{}[]=,'\"\\", *c) ? '-' : *c;
    }
    memmove(out, out + strspn(out, "-"), strlen(out) - strspn(out, "-") + 1);
    if (!out[0]) {
        snprintf(out, size, "data");
    }
}

/* The files to write. */
static void name_files(init *o)
{
    const char *slash = o->out ? strrchr(o->out, '/') : NULL;
    const bool is_hdf5 = o->importer && strcmp(o->importer->row.name, "hdf5") == 0;

    stem(o->out ? o->out : o->data, o->name, sizeof o->name);
    snprintf(o->config, sizeof o->config, "%.*s%s", MOST_PATH, o->out ? o->out : o->name, o->out ? "" : ".ini");
    snprintf(o->dataset, sizeof o->dataset, "%.*s%s%s.h5", slash ? (int)(slash + 1 - o->out) : 0, o->out ? o->out : "",
             o->name, is_hdf5 ? "-charl" : "");
}

/* Neither of them may exist. */
static charl_status check_files(const init *o)
{
    CHARL_REQUIRE(!o->importer || strcmp(o->config, o->dataset) != 0, CHARL_ERR_CONFIG,
                  "-o %s: the dataset would have that name; HINT -o names the configuration: -o %s.ini", o->out,
                  o->name);
    CHARL_REQUIRE(access(o->config, F_OK) != 0, CHARL_ERR_CONFIG,
                  "%s exists; HINT train it: `charl train %s`; or write another one with -o FILE.ini", o->config,
                  o->config);
    CHARL_REQUIRE(!o->importer || access(o->dataset, F_OK) != 0, CHARL_ERR_CONFIG,
                  "%s exists; HINT if it holds these data, `charl init %s` writes a configuration for it; otherwise "
                  "choose another name with -o FILE.ini",
                  o->dataset, o->dataset);
    return CHARL_OK;
}

static charl_status import(const init *o)
{
    const charl_import_options options = {
        .struct_size = sizeof options, .val_split = o->val_split, .noted = charl__cli_note};
    const char *settings[MOST_SETTINGS + 1] = {NULL};
    char *copy = strdup(o->settings);
    charl_status st;
    int n = 0;

    CHARL_REQUIRE(copy, CHARL_ERR_NOMEM, "out of memory");
    for (char *at = copy, *next; at && *at && n < MOST_SETTINGS; at = next) {
        next = strchr(at, '\n');
        if (next) {
            *next++ = '\0';
        }
        settings[n++] = at;
    }
    st = charl_import(o->importer->row.name, settings, &o->data, 1, o->dataset, &options);
    free(copy);
    return st;
}

static void add_edit(init *o, const char *section, const char *key, const char *fmt, ...) CHARL_PRINTF(4, 5);
static void add_edit(init *o, const char *section, const char *key, const char *fmt, ...)
{
    edit *e = &o->edits[o->n_edits++];
    va_list ap;

    *e = (edit){.section = section, .key = key};
    va_start(ap, fmt);
    vsnprintf(e->value, sizeof e->value, fmt, ap);
    va_end(ap);
}

/* The example that suits the data. */
static charl_status choose_example(init *o, const charl_dataset_info *info)
{
    const charl_shape *x = &info->x_shape, *y = &info->y_shape;
    const bool plain = !info->fields[0] && info->kind != CHARL_DATASET_SEQUENCES && y->ndim <= 1;

    CHARL_REQUIRE(info->labelled, CHARL_ERR_DATA, "%s has samples, but no targets to learn", info->path);
    if (info->kind == CHARL_DATASET_TOKENS) {
        o->example = charl__example_text;
    } else if (plain && x->ndim == 3 && y->ndim == 0 && info->classes > 0 && x->dim[1] >= IMAGE_LEAST &&
               x->dim[2] >= IMAGE_LEAST) {
        o->example = charl__example_photos;
    } else {
        CHARL_REQUIRE(
            plain, CHARL_ERR_DATA,
            "%s: no example fits %s with %s; HINT docs/models has a page for each model, with a configuration",
            info->path, charl_dataset_kind_name(info->kind),
            info->fields[0] ? "named inputs" : "such samples or targets");
        o->example = charl__example_table;
    }
    CHARL_REQUIRE(info->kind == CHARL_DATASET_TOKENS || info->classes != 1, CHARL_ERR_DATA,
                  "%s: all samples are of one class, so there is nothing to learn", o->data);
    return CHARL_OK;
}

/* The values that depend on the data: batches of which an epoch has eight or more, and about 600 steps, of 10 to 100 epochs. */
static charl_status fit(init *o)
{
    enum { STEPS = 600, FEWEST = 10, MOST = 100, LEAST_NUMBERS = 8 };
    charl_dataset_options open = {sizeof open, .window = 1};
    charl_status st = CHARL_OK;
    charl_dataset *ds = NULL;
    charl_config *example = NULL;
    charl_dataset_info info;
    int64_t rows, batch, least;

    CHARL_TRY_CLEANUP(charl_dataset_open(o->dataset, &open, &ds));
    charl_dataset_get_info(ds, &info);
    CHARL_TRY_CLEANUP(choose_example(o, &info));
    CHARL_TRY_CLEANUP(charl_config_parse("example.ini", o->example, strlen(o->example), NULL, 0, &example));
    snprintf(o->model, sizeof o->model, "%s", charl__cli_text(example, "model.type"));
    batch = charl__cli_int(example, "train.batch_size");
    o->steps = charl__cli_int(example, "train.max_steps");
    least = info.classes > 0 ? 2 * info.classes : LEAST_NUMBERS;
    if (info.kind == CHARL_DATASET_TOKENS) { /* a row is a window */
        open.window = charl__cli_int(example, "model.block_size");
        least = 1;
    }
    if (info.rows[CHARL_SPLIT_VAL] == 0) {
        open.val_split = o->val_split;
        add_edit(o, "data", "val_split", "%g", o->val_split);
    }
    if (open.window > 1 || open.val_split > 0) {
        charl_dataset_close(ds);
        ds = NULL;
        CHARL_TRY_CLEANUP(charl_dataset_open(o->dataset, &open, &ds));
        charl_dataset_get_info(ds, &info);
    }
    rows = info.rows[CHARL_SPLIT_TRAIN];
    CHARL_REQUIRE_CLEANUP(rows >= least && info.rows[CHARL_SPLIT_VAL] > 0, CHARL_ERR_DATA,
                          "%s: %" PRId64 " training and %" PRId64 " validation samples are too few%s", o->data, rows,
                          info.rows[CHARL_SPLIT_VAL],
                          info.classes > 0 && least > 1 ? " for so many classes; HINT a class needs ten or more" : "");
    while (batch > 2 && 8 * batch > rows) {
        batch /= 2;
    }
    add_edit(o, "train", "batch_size", "%" PRId64, batch);
    if (o->steps <= 0) {
        o->steps = rows / batch;
        o->epochs = STEPS / o->steps < FEWEST ? FEWEST : STEPS / o->steps > MOST ? MOST : STEPS / o->steps;
        add_edit(o, "train", "epochs", "%" PRId64, o->epochs);
    }
cleanup:
    charl_config_destroy(example);
    charl_dataset_close(ds);
    return st;
}

/* A path as the configuration has it: relative to the configuration's folder, which has the dataset unless the user named one. */
static charl_status name_values(init *o)
{
    const char *base = strrchr(o->dataset, '/');
    char here[PATH_BYTES], path[2 * PATH_BYTES], *value = NULL;

    if (!o->importer && strrchr(o->config, '/') && o->data[0] != '/') {
        CHARL_REQUIRE(getcwd(here, sizeof here), CHARL_ERR_IO, "the current directory: %s", strerror(errno));
        snprintf(path, sizeof path, "%s/%s", here, o->data);
    } else {
        snprintf(path, sizeof path, "%s", !o->importer ? o->data : base ? base + 1 : o->dataset);
    }
    CHARL_TRY(charl_config_quote(path, &value));
    add_edit(o, "data", "path", "%s", value);
    charl_free(value);
    add_edit(o, "run", "name", "%s", o->name);
    add_edit(o, "run", "output_dir", "runs/${name}");
    return CHARL_OK;
}

static void put_missing(FILE *f, init *o, const char *section, size_t length)
{
    for (int i = 0; i < o->n_edits; i++) {
        edit *e = &o->edits[i];

        if (!e->done && strlen(e->section) == length && strncmp(e->section, section, length) == 0) {
            fprintf(f, "%s = %s\n", e->key, e->value);
            e->done = true;
        }
    }
}

/* The example with its values replaced and its first comment left out. */
static void put_example(FILE *f, init *o)
{
    const char *section = "", *line = o->example;
    size_t section_length = 0, length;

    while (*line == '#' || *line == '\n') {
        line += strcspn(line, "\n") + 1;
    }
    for (; *line; line += length + (line[length] == '\n')) {
        edit *found = NULL;

        length = strcspn(line, "\n");
        if (line[0] == '[') {
            section = line + 1;
            section_length = strcspn(section, "]");
        }
        if (length == 0) {
            put_missing(f, o, section, section_length);
        }
        for (int i = 0; i < o->n_edits && !found; i++) {
            const edit *e = &o->edits[i];
            const size_t key = strlen(e->key);

            found = strlen(e->section) == section_length && strncmp(e->section, section, section_length) == 0 &&
                            strncmp(line, e->key, key) == 0 && strncmp(line + key, " = ", 3) == 0
                        ? &o->edits[i]
                        : NULL;
        }
        if (found) {
            fprintf(f, "%s = %s\n", found->key, found->value);
            found->done = true;
        } else {
            fprintf(f, "%.*s\n", (int)length, line);
        }
    }
    put_missing(f, o, section, section_length);
}

/* A comment with the command of the import, unless it is too long for a line. */
static charl_status put_origin(FILE *f, const init *o)
{
    size_t size = 0;
    char *command = NULL;
    FILE *c = open_memstream(&command, &size);
    charl_status st;

    CHARL_REQUIRE(c, CHARL_ERR_NOMEM, "out of memory");
    st = put_import(c, o);
    if (fclose(c) != 0 || !command) {
        free(command);
        CHARL_FAIL(CHARL_ERR_NOMEM, "out of memory");
    }
    if (size > LONG_COMMAND) {
        fprintf(f, "# The data: imported by `charl init ");
        charl__cli_put_word(f, o->data);
        fprintf(f, "`, with more options than a line has room for\n");
    } else {
        fprintf(f, "# The data: %s\n", command);
    }
    free(command);
    return st;
}

/* The text of the configuration; free() it. */
static charl_status compose(init *o, char **text)
{
    size_t size = 0;
    FILE *f = open_memstream(text, &size);

    CHARL_REQUIRE(f, CHARL_ERR_NOMEM, "out of memory");
    fputs("# Next: charl train ", f);
    charl__cli_put_word(f, o->config);
    fputs("\n#\n", f);
    if (o->importer) {
        const charl_status st = put_origin(f, o);

        if (st != CHARL_OK) {
            (void)fclose(f);
            return st;
        }
    }
    fputs("# All keys: charl-train --help-config. Values of this file, defaults too: charl-train --print-config ", f);
    charl__cli_put_word(f, o->config);
    fputs("\n\n", f);
    put_example(f, o);
    CHARL_REQUIRE(fclose(f) == 0, CHARL_ERR_NOMEM, "out of memory");
    return CHARL_OK;
}

static charl_status write_config(init *o)
{
    charl_status st = CHARL_OK;
    char *text = NULL;
    charl_config *config = NULL;
    charl_dataset *ds = NULL;
    FILE *f = NULL;
    bool written;

    CHARL_TRY_CLEANUP(name_values(o));
    CHARL_TRY_CLEANUP(compose(o, &text));
    CHARL_TRY_CLEANUP(charl_config_parse(o->config, text, strlen(text), NULL, 0, &config));
    CHARL_TRY_CLEANUP(charl_config_open_dataset(config, false, &ds));
    f = fopen(o->config, "wxe");
    CHARL_REQUIRE_CLEANUP(f, CHARL_ERR_DISK, "%s: cannot be created: %s", o->config, strerror(errno));
    written = fputs(text, f) >= 0 && fflush(f) == 0 && fsync(fileno(f)) == 0;
    written = fclose(f) == 0 && written;
    if (!written) {
        const int error = errno;

        unlink(o->config);
        CHARL_FAIL_CLEANUP(CHARL_ERR_DISK, "%s: cannot be written: %s", o->config, strerror(error));
    }
cleanup:
    charl_dataset_close(ds);
    charl_config_destroy(config);
    free(text);
    return st;
}

static charl_status run(init *o)
{
    charl_status st;

    CHARL_REQUIRE(strlen(o->data) < MOST_PATH && (!o->out || strlen(o->out) < MOST_PATH), CHARL_ERR_CONFIG,
                  "a path of %d characters or more", MOST_PATH);
    st = charl_import_suggest(o->data, &o->suggest, &o->importer, &o->settings);
    o->val_split = o->importer && strcmp(o->importer->row.name, "text") == 0 ? 0.1 : 0.2;
    o->refused = st == CHARL_ERR_DATA && o->importer;
    name_files(o);
    CHARL_TRY(st);
    CHARL_TRY(check_files(o));
    if (o->importer) {
        st = import(o);
        o->refused = st == CHARL_ERR_DATA;
        CHARL_TRY(st);
    } else {
        snprintf(o->dataset, sizeof o->dataset, "%s", o->data);
    }
    st = fit(o);
    st = st == CHARL_OK ? write_config(o) : st;
    if (st != CHARL_OK && o->importer) { /* the command can be repeated */
        unlink(o->dataset);
    }
    return st;
}

int charl__init_main(const char *path, int argc, char **argv)
{
    static const charl__cli_option options[] = {
        {"output", 'o', "FILE.ini", "The configuration; the dataset is written beside it (default: DATA's name)", 0,
         CHARL__CLI_TEXT(init, out)},
        {"target", 't', "COLUMN",
         "Of a table: the column to predict, by name or index from 0 (default: the one called target, label, class or "
         "y, else the last that can be one)",
         0, CHARL__CLI_TEXT(init, suggest.target)},
        {"classes", 0, NULL, "The values of the target are classes", 0,
         CHARL__CLI_SET(init, suggest.choice, CHARL_TARGET_IS_CLASS)},
        {"regression", 0, NULL, "The values of the target are numbers to predict", 0,
         CHARL__CLI_SET(init, suggest.choice, CHARL_TARGET_IS_NUMBER)},
        {0}};
    static const charl__cli_syntax syntax = {
        options, "DATA",
        "Import DATA with settings that fit them, and write a configuration that trains on the result. DATA is a table "
        "(CSV, Parquet), a folder of images with a folder for each class, a text or a folder of texts, an archive of "
        "NumPy arrays, or a dataset. Files that exist are not replaced.\vWhat was decided is printed, and the "
        "configuration has the command of the import: other options of `charl data import` may fit better. A fifth of "
        "the samples, or a tenth of a text, is for validation."};
    charl__cli_operands operands = {.names = {"DATA"}};
    init o = {.suggest = {.struct_size = sizeof o.suggest, .noted = charl__cli_note}};
    int code = charl__cli_parse(path, &syntax, &operands, argc, argv, &o), shown;
    charl_status st;

    if (code >= 0) {
        return code;
    }
    o.data = operands.values[0];
    st = run(&o);
    if (st != CHARL_OK) {
        code = charl__cli_fail(st);
        if (o.refused) {
            fputs("  To import the data with other options, change: ", stderr);
            (void)put_import(stderr, &o);
            fputs("\n  Then: charl init ", stderr);
            charl__cli_put_word(stderr, o.dataset);
            fputc('\n', stderr);
        }
        charl_free(o.settings);
        return code;
    }
    charl_free(o.settings);
    shown = charl__data_show(o.dataset);
    charl__cli_put(o.config, 0);
    printf(o.epochs > 0 ? ": %s, %" PRId64 " epochs of " : ": %s, ", o.model, o.epochs);
    printf("%" PRId64 " step%s\n  next       charl train ", o.steps, o.steps == 1 ? "" : "s");
    charl__cli_put_word(stdout, o.config);
    printf("\n");
    return shown;
}
