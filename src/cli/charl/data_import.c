/* charl data import FORMAT: converts other formats to charl's. Formats, their operands and options are the rows of the importers. */
#include <charl/import.h>

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/charl/commands.h"

enum { MANY = 1 << 20, COMMON = 5, MOST_KEYS = 16, OPTION_BYTES = 48, DOC_BYTES = 1024 };

typedef struct import {
    const charl_importer *importer;
    void *settings;
    char *given[MOST_KEYS]; /* "KEY=VALUE" of key i; NULL: not given */
    const char *out;
    charl_import_options common;
} import;

/* An option of the command line: the name of its key, and the name of its value in the help. */
typedef struct option_words {
    char name[OPTION_BYTES], value[OPTION_BYTES];
} option_words;

static const char *option_name(const char *key, char *name)
{
    snprintf(name, OPTION_BYTES, "%s", key);
    for (char *c = name; *c; c++) {
        *c = *c == '_' ? '-' : *c;
    }
    return name;
}

static const char *option_value(const charl_key *k, char *value)
{
    if (k->kind == CHARL_KEY_BOOL || k->kind == CHARL_KEY_CHOICE) {
        return k->choices;
    }
    snprintf(value, OPTION_BYTES, "%s", k->name);
    for (char *c = value; *c; c++) {
        *c = *c >= 'a' && *c <= 'z' ? (char)(*c - 'a' + 'A') : *c;
    }
    return value;
}

/* The importer's key that the option sets. */
static error_t parse_key(void *input, const char *option, const char *value)
{
    import *o = input;
    const charl_key *k = o->importer->row.keys;
    char name[OPTION_BYTES], **given = o->given;

    for (; strcmp(option_name(k->name, name), option + 2) != 0; k++) {
        given++;
    }
    value = value ? value : "yes";
    free(*given);
    if (charl__cli_alloc((int64_t)(strlen(k->name) + strlen(value)) + 2, 1, given) != CHARL_OK) {
        return ENOMEM;
    }
    sprintf(*given, "%s=%s", k->name, value);
    return charl__cli_parse_key(option, value, k, o->settings);
}

/* Whether the importer accepts the input; if not, prints an error. */
static bool is_complete(const import *o, int n)
{
    const charl_importer *t = o->importer;
    const char *key = "";
    char name[OPTION_BYTES], reason[CHARL_REASON_BYTES];

    if (n < t->group || (t->most > 0 && n > t->most) || n % t->group != 0) {
        charl__cli_error(0, NULL, "%s takes %s, not %d file%s", t->row.name, t->files, n, n == 1 ? "" : "s");
        return false;
    }
    for (int i = 0; i < t->row.n_keys; i++) {
        if (t->row.keys[i].required && !o->given[i]) {
            charl__cli_error(0, t->row.keys[i].help, "--%s is missing", option_name(t->row.keys[i].name, name));
            return false;
        }
    }
    if (t->row.check && !t->row.check(o->settings, &key, reason)) {
        charl__cli_error(0, NULL, "--%s %s", option_name(key, name), reason);
        return false;
    }
    if (!o->out) {
        charl__cli_error(0, "add -o FILE.h5, the dataset to write", "--output is missing");
        return false;
    }
    return true;
}

static const char *val_split_help(const charl_importer *t)
{
    return t->shuffles ? "Use this fraction of the rows for validation, chosen by --seed, the same part of every class"
                       : "Use this fraction, from the end of the training set, for validation";
}

/* Read the command line. Returns -1 to continue. */
static int parse(import *o, const char *path, int argc, char **argv, charl__cli_operands *files)
{
    const charl_importer *t = o->importer;
    charl__cli_option options[COMMON + MOST_KEYS + 1] = {
        {"output", 'o', "FILE", "The dataset to write (required)", 1, CHARL__CLI_TEXT(import, out)},
        {"overwrite", 'w', NULL, "Replace an existing file", 1, CHARL__CLI_FLAG(import, common.overwrite)},
        {"val-split", 'v', "FRACTION", val_split_help(t), 1, CHARL__CLI_FRACTION(import, common.val_split)},
        {"in-order", 0, NULL, "Use the last rows for validation, instead of rows chosen by the seed", 1,
         CHARL__CLI_FLAG(import, common.in_order)},
        {"seed", 0, "N", "Seed of that choice (default: 0)", 1, CHARL__CLI_INT(import, common.seed, 0, INT64_MAX)},
    };
    const int n_common = t->shuffles ? COMMON : COMMON - 2;
    option_words words[MOST_KEYS];
    char operands[DOC_BYTES], doc[DOC_BYTES];
    const charl__cli_syntax syntax = {options, operands, doc};
    int code;

    assert(t->row.n_keys <= MOST_KEYS);
    for (int i = 0; i < t->row.n_keys; i++) {
        const charl_key *k = &t->row.keys[i];

        options[n_common + i] = (charl__cli_option){.name = option_name(k->name, words[i].name),
                                                    .value = option_value(k, words[i].value),
                                                    .help = k->help,
                                                    .group = 2,
                                                    .parse = parse_key};
    }
    options[n_common + t->row.n_keys] = (charl__cli_option){0};
    snprintf(operands, sizeof operands, "%s -o OUT", t->files);
    snprintf(doc, sizeof doc, "Import %s. OUT is written atomically.%s%s", t->row.help, t->note ? "\v" : "",
             t->note ? t->note : "");
    code = charl__cli_parse(path, &syntax, files, argc, argv, o);
    if (code >= 0) {
        return code;
    }
    return is_complete(o, files->count) ? -1 : CHARL__EXIT_USAGE;
}

/* What has been read, and the resulting data set. */
static int import_files(const import *o, const charl__cli_operands *files)
{
    const char *settings[MOST_KEYS + 1] = {NULL};
    charl_status st;

    for (int i = 0, n = 0; i < MOST_KEYS; i++) {
        settings[n] = o->given[i];
        n += o->given[i] != NULL;
    }
    st = charl_import(o->importer->row.name, settings, (const char *const *)files->values, files->count, o->out,
                      &o->common);
    return st == CHARL_OK ? charl__data_show(o->out) : charl__cli_fail(st);
}

static int run(const charl_importer *t, int argc, char **argv)
{
import o = {.importer = t, .common.struct_size = sizeof o.common, .common.noted = charl__cli_note };
    charl__cli_operands files = {.names = {"FILE"}, .max = MANY};
    char path[OPTION_BYTES + 32];
    charl_status st = charl__cli_alloc(1, t->row.settings_size + 1, &o.settings);
    int code;

    if (st != CHARL_OK) {
        return charl__cli_fail(st);
    }
    if (t->row.defaults) {
        memcpy(o.settings, t->row.defaults, t->row.settings_size);
    }
    snprintf(path, sizeof path, "charl data import %s", t->row.name);
    code = parse(&o, path, argc, argv, &files);
    code = code < 0 ? import_files(&o, &files) : code;
    free(o.settings);
    for (int i = 0; i < MOST_KEYS; i++) {
        free(o.given[i]);
    }
    return code;
}

static void list_formats(const char *path)
{
    const charl_importer *t;

    printf("Usage: %s FORMAT FILE... -o OUT [OPTION...]\n\n"
           "Convert data to charl's format. FORMAT and files:\n\n",
           path);
    for (int i = 0; (t = charl_importer_get(i)) != NULL; i++) {
        printf("  %s %s\n      %s\n", t->row.name, t->files, t->row.help);
    }
    printf("\n`%s FORMAT --help` describes a format and its options.\n", path);
}

int charl__data_import_main(const char *path, int argc, char **argv)
{
    const charl_importer *t = argc > 1 ? charl_importer_find(argv[1]) : NULL;
    char names[DOC_BYTES] = "";
    const char *name;

    if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
        list_formats(path);
        return CHARL__EXIT_OK;
    }
    for (int i = 0; (name = charl_importer_name(i)) != NULL; i++) {
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", i > 0 ? ", " : "", name);
    }
    if (argc < 2 || argv[1][0] == '-') {
        return charl__cli_error(CHARL__EXIT_USAGE, "see `charl data import --help`", "%s: the format comes first: %s",
                                path, names);
    }
    if (!t && access(argv[1], F_OK) ==
                  0) { /* FORMAT is missing: the message says what the file is, and which importer reads it */
        charl_dataset *ds = NULL;
        const charl_status st = charl_dataset_open(argv[1], NULL, &ds);

        charl_dataset_close(ds);
        if (st != CHARL_OK) {
            return charl__cli_fail(st);
        }
    }
    if (!t) {
        return charl__cli_error(CHARL__EXIT_USAGE, "see `charl data import --help`", "unknown format: %s; it can be %s",
                                argv[1], names);
    }
    return run(t, argc - 1, argv + 1);
}
