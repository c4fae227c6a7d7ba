/* charl data import|make|info|verify */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <charl/text.h>
#include <charl/data_schema.h>
#include <charl/dataset.h>
#include <charl/import.h>
#include <charl/tokenizer.h>
#include "cli/charl/commands.h"

enum { NUMBER_BYTES = 32 };

/* 60000 as "60,000". */
static const char *grouped(int64_t n, char *text)
{
    char digits[NUMBER_BYTES];
    const int length = snprintf(digits, sizeof digits, "%" PRId64, n);
    char *out = text;

    for (int i = 0; i < length; i++) {
        if (i > 0 && (length - i) % 3 == 0 && digits[i - 1] != '-') {
            *out++ = ',';
        }
        *out++ = digits[i];
    }
    *out = '\0';
    return text;
}

static void print_sizes(const charl_dataset_info *info)
{
    char a[2 * NUMBER_BYTES], b[2 * NUMBER_BYTES];

    for (int s = 0; s < CHARL_SPLIT_COUNT; s++) {
        if (info->items[s] == 0) {
            continue;
        }
        printf("  %-10s %s %s", charl_split_name((charl_split)s), grouped(info->items[s], a),
               info->kind == CHARL_DATASET_TOKENS ? "tokens" : "samples");
        if (info->documents[s] > 0) {
            printf(", %s document%s", grouped(info->documents[s], b), info->documents[s] == 1 ? "" : "s");
        }
        if (info->ignored[s] > 0) {
            printf(charl_shape_count(&info->y_shape) > 1 ? ", %s pixels not counted" : ", %s not counted",
                   grouped(info->ignored[s], b));
        }
        if (info->items[s] != info->rows[s] && info->kind != CHARL_DATASET_TOKENS) {
            printf(", %s used", grouped(info->rows[s], b));
        }
        printf("\n");
    }
}

static void print_floats(const char *name, const float *values, int n)
{
    enum { SHOWN = 8 };

    printf("  %-10s", name);
    for (int i = 0; i < n && i < SHOWN; i++) {
        printf(" %.6g", (double)values[i]);
    }
    printf(n > SHOWN ? " ... (%d)\n" : "\n", n);
}

/* Newline-separated names on one line, at most `most` of them. */
static void print_names(const char *label, const char *names, int64_t most)
{
    const int64_t n = charl_names_count(names);

    if (n == 0) {
        return;
    }
    printf("  %-10s", label);
    for (int64_t i = 0; i < n && i < most; i++) {
        size_t length;
        const char *name = charl_names_get(names, i, &length);

        printf(" ");
        charl__cli_write(stdout, name, length);
    }
    if (n > most) {
        printf(" ... (%" PRId64 ")", n);
    }
    printf("\n");
}

/* One line for each array; the first is beside the label. */
static charl_status print_storage(const charl_dataset *ds)
{
    char *text = NULL;

    CHARL_TRY(charl_dataset_storage(ds, &text));
    for (char *line = text, *end; line && *line; line = end) {
        end = line + strcspn(line, "\n");
        printf("  %-10s ", line == text ? "stored" : "");
        charl__cli_write(stdout, line, (size_t)(end - line));
        printf("\n");
        end += *end == '\n';
    }
    charl_free(text);
    return CHARL_OK;
}

static charl_status print_info(const charl_dataset *ds, const charl_dataset_info *info)
{
    char shape[CHARL_SHAPE_TEXT], n[2 * NUMBER_BYTES];

    charl__cli_put(info->path, 0);
    printf(": %s\n", charl_dataset_kind_name(info->kind));
    print_sizes(info);
    printf("  %-10s %s %s", "x", charl_dtype_name(info->x_dtype), charl_shape_format(&info->x_shape, shape));
    if (info->layout[0]) {
        printf(" ");
        charl__cli_put(info->layout, 0);
    }
    printf("\n  %-10s %s %s", "y", charl_dtype_name(info->y_dtype), charl_shape_format(&info->y_shape, shape));
    if (info->classes > 0) {
        printf(info->kind == CHARL_DATASET_TOKENS ? ", vocabulary of %s" : ", %s classes", grouped(info->classes, n));
    }
    printf("\n");
    if (info->fit[0]) {
        printf("  %-10s ", "fit");
        charl__cli_put(info->fit, 0);
        printf("\n");
    }
    if (info->tokenizer[0]) {
        printf("  %-10s ", "tokenizer");
        charl__cli_put(info->tokenizer, 0);
        printf("\n");
    }
    print_names("classes", info->class_names, 32);
    print_names("columns", info->columns, INT64_MAX);
    print_names("targets", info->targets, INT64_MAX);
    if (info->n_stats > 0) {
        print_floats("mean", info->mean, info->n_stats);
        print_floats("std", info->std, info->n_stats);
    }
    if (info->n_target_stats > 0) {
        print_floats("y mean", info->target_mean, info->n_target_stats);
        print_floats("y std", info->target_std, info->n_target_stats);
    }
    CHARL_TRY(print_storage(ds));
    printf("  %-10s %s\n", "checksums", info->checksums ? "yes" : "no");
    printf("  %-10s %s\n", "read", info->native ? "by several threads" : "through HDF5, by one thread");
    printf("  %-10s %s\n", "content", info->content_id);
    return CHARL_OK;
}

static void print_notes(const charl_dataset_info *info)
{
    for (int i = 0; i < 2; i++) {
        const char *note = i == 0 ? info->note : info->rows_note;

        if (note[0]) {
            printf("\n");
            charl__cli_put(note, 2);
            printf("\n");
        }
    }
}

void charl__data_put_quoted(const char *text, size_t bytes)
{
    static const char special[] = "\"\\\n\r\t", letters[] = "\"\\nrt";

    putchar('"');
    for (size_t i = 0, n; i < bytes; i += n) {
        const char *at = strchr(special, text[i] ? text[i] : '\n');
        bool visible;

        n = charl_text_next(text + i, bytes - i, &visible);
        if (at) {
            printf("\\%c", letters[at - special]);
        } else {
            fwrite(visible ? text + i : "?", 1, visible ? n : 1, stdout);
        }
    }
    putchar('"');
}

/* The beginning of the training text, split into tokens by the tokenizer. */
static charl_status print_sample(charl_dataset *ds, const charl_dataset_info *info)
{
    enum { SHOWN = 64 };
    charl_status st = CHARL_OK;
    const int64_t all = info->items[CHARL_SPLIT_TRAIN], n = all < SHOWN ? all : SHOWN;
    charl_tokenizer *t = NULL;
    char *text = NULL;
    union {
        uint8_t u8[SHOWN];
        uint16_t u16[SHOWN];
        uint32_t u32[SHOWN];
    } stored;
    int32_t tokens[SHOWN];
    size_t bytes;

    CHARL_TRY_CLEANUP(charl_tokenizer_load(info->path, &t));
    CHARL_TRY_CLEANUP(charl_dataset_read_tokens(ds, CHARL_SPLIT_TRAIN, 0, n, &stored));
    for (int64_t i = 0; i < n; i++) {
        tokens[i] = info->stored_dtype == CHARL_U8    ? stored.u8[i]
                    : info->stored_dtype == CHARL_U16 ? stored.u16[i]
                                                      : (int32_t)stored.u32[i];
    }
    CHARL_TRY_CLEANUP(charl_tokenizer_decode(t, tokens, n, &text, &bytes));
    printf("  %-10s ", "sample");
    charl__data_put_quoted(text, bytes);
    printf("\n");
cleanup:
    charl_free(text);
    charl_tokenizer_destroy(t);
    return st;
}

typedef struct look {
    charl_dataset_options open;
    const char *path;
    bool verify;
    bool warns;    /* about unbalanced classes */
    bool measures; /* speed of reading samples */
} look;

static int look_at(void *ctx)
{
    const look *l = ctx;
    charl_dataset *ds = NULL;
    charl_dataset_info info;
    charl_status st = charl_dataset_open(l->path, &l->open, &ds);

    if (st == CHARL_OK) {
        charl_dataset_get_info(ds, &info);
        if (l->verify) {
            st = charl_dataset_verify(ds);
        } else {
            st = print_info(ds, &info);
            st = st == CHARL_OK ? charl__data_show_labels(ds, &info, l->warns) : st;
            st =
                st == CHARL_OK && info.kind == CHARL_DATASET_TOKENS && info.tokenizer[0] ? print_sample(ds, &info) : st;
            st = st == CHARL_OK && l->measures ? charl__data_show_speed(ds, &info) : st;
            print_notes(&info);
        }
    }
    if (st == CHARL_OK && l->verify) {
        charl__cli_put(l->path, 0);
        printf(": good%s\n", info.checksums ? "" : " as far as can be told without checksums");
    }
    charl_dataset_close(ds);
    return st == CHARL_OK ? CHARL__EXIT_OK : charl__cli_fail(st);
}

static int run_look(const char *path, int argc, char **argv, bool verify, const char *doc)
{
    static const charl__cli_option options[] = {
        {"x", 'x', "NAME", "Name of the input array in a file that charl did not write, e.g. /images", 0,
         CHARL__CLI_TEXT(look, open.x)},
        {"y", 'y', "NAME", "Name of the target array, e.g. /labels", 0, CHARL__CLI_TEXT(look, open.y)},
        {"window", 'w', "N", "Token data: sequence length of a sample (default 1)", 0,
         CHARL__CLI_INT(look, open.window, 1, INT32_MAX)},
        {"val-split", 'v', "FRACTION", "Use this fraction, from the end of the training set, for validation", 0,
         CHARL__CLI_FRACTION(look, open.val_split)},
        {0}};
    const charl__cli_syntax syntax = {options, "FILE", doc};
    charl__cli_operands file = {.names = {"FILE"}};
    look l = {.open.struct_size = sizeof l.open, .verify = verify, .measures = !verify, .open.window = 1};
    const int code = charl__cli_parse(path, &syntax, &file, argc, argv, &l);

    if (code >= 0) {
        return code;
    }
    if (!l.open.x != !l.open.y) {
        return charl__cli_error(CHARL__EXIT_USAGE, NULL, "-x requires -y, and -y requires -x");
    }
    l.path = file.values[0];
    return charl__cli_guarded(l.path, CHARL__EXIT_DATA, look_at, &l);
}

int charl__data_info_main(const char *path, int argc, char **argv)
{
    return run_look(
        path, argc, argv, false,
        "Describe a dataset: splits, shapes, types, classes, how it is stored, and how fast its samples are read.");
}

int charl__data_verify_main(const char *path, int argc, char **argv)
{
    return run_look(path, argc, argv, true,
                    "Read a whole dataset and check checksums, labels, tokens and floating-point values.");
}

int charl__data_show(const char *path)
{
    look l = {.open.struct_size = sizeof l.open, .path = path, .open.window = 1, .warns = true};

    return look_at(&l);
}

int charl__data_make_main(const char *path, int argc, char **argv)
{
    static const charl__cli_option options[] = {
        {"train", 't', "N", "Training samples (default 20000)", 0,
         CHARL__CLI_INT(charl_make_options, n_train, 1, INT32_MAX)},
        {"val", 'v', "N", "Validation samples (default 4000)", 0,
         CHARL__CLI_INT(charl_make_options, n_val, 0, INT32_MAX)},
        {"seed", 's', "N", "Seed; the data is the same on every machine (default 1)", 0,
         CHARL__CLI_INT(charl_make_options, seed, 0, INT64_MAX)},
        {"overwrite", 'w', NULL, "Replace the file if it exists", 0, CHARL__CLI_FLAG(charl_make_options, overwrite)},
        {0}};
    char doc[512] = "Create a synthetic dataset.\vKinds:\n";
    const charl__cli_syntax syntax = {options, "KIND OUT", doc};
    charl__cli_operands files = {.names = {"KIND", "OUT"}};
    charl_make_options o = {sizeof o, .n_train = 20000, .n_val = 4000, .seed = 1};
    charl_status st;
    int code;

    for (int i = 0; charl_make_kind_name(i); i++) {
        const size_t used = strlen(doc);

        snprintf(doc + used, sizeof doc - used, "  %s: %s\n", charl_make_kind_name(i), charl_make_kind_help(i));
    }
    code = charl__cli_parse(path, &syntax, &files, argc, argv, &o);
    if (code >= 0) {
        return code;
    }
    o.kind = files.values[0];
    st = charl_dataset_make(files.values[1], &o);
    return st == CHARL_OK ? charl__data_show(files.values[1]) : charl__cli_fail(st);
}
