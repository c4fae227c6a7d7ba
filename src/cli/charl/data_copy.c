/* charl data sample|split|merge: new datasets from the rows of existing ones. */
#include <charl/import.h>

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/charl/commands.h"
#include <charl/import.h>

enum { MOST_OUTS = 32 };

typedef struct request {
    struct {
        const char *x, *y, *weights;
    } arrays; /* of a file that charl did not write */
    const char *const *files;
    int n_files;
    const char *outs[MOST_OUTS];
    int n_outs;
    double fractions[MOST_OUTS];
    int n_fractions;
    int64_t n;
    charl_import_options common;
} request;

static error_t parse_fractions(void *input, const char *option, const char *value)
{
    request *r = input;

    for (const char *at = value;;) {
        char *end = NULL;
        const double v = strtod(at, &end);

        if (end == at || (*end && *end != ',') || !(v > 0 && v < 1) || r->n_fractions == MOST_OUTS) {
            return charl__cli_bad_option(option, value, "must be numbers between 0 and 1, e.g. 0.8,0.1,0.1");
        }
        r->fractions[r->n_fractions++] = v;
        if (!*end) {
            return 0;
        }
        at = end + 1;
    }
}

static error_t parse_output(void *input, const char *option, const char *value)
{
    request *r = input;

    if (r->n_outs == MOST_OUTS) {
        return charl__cli_bad_option(option, value, "is one file too many");
    }
    r->outs[r->n_outs++] = value;
    return 0;
}

#define OPTIONS_OF_ALL                                                                                                 \
    {"output", 'o', "FILE", "The dataset to write (required)", 1, .parse = parse_output},                              \
        {"overwrite", 'w', NULL, "Replace an existing file", 1, CHARL__CLI_FLAG(request, common.overwrite)},           \
        {"x",    'x',                                                                                                  \
         "NAME", "Name of the input array in a file that charl did not write, e.g. /images",                           \
         3,      CHARL__CLI_TEXT(request, arrays.x)},                                                                  \
        {"y", 'y', "NAME", "Name of the target array, e.g. /labels", 3, CHARL__CLI_TEXT(request, arrays.y)},           \
    {                                                                                                                  \
        "weights", 0, "NAME", "Name of the array of weights, if there is one, e.g. /weights", 3,                       \
            CHARL__CLI_TEXT(request, arrays.weights)                                                                   \
    }
#define OPTIONS_OF_A_CHOICE(first)                                                                                     \
    {"in-order", 0, NULL, first ", instead of rows chosen by the seed", 2, CHARL__CLI_FLAG(request, common.in_order)}, \
    {                                                                                                                  \
        "seed", 0, "N", "Seed of the choice (default: 0)", 2, CHARL__CLI_INT(request, common.seed, 0, INT64_MAX)       \
    }

/* Read the command line, and call `work`. */
static int run(const char *path, const charl__cli_option *options, const char *args, const char *doc, int max_files,
               int argc, char **argv, int (*work)(void *r))
{
    const charl__cli_syntax syntax = {options, args, doc};
    charl__cli_operands files = {.names = {"FILE"}, .max = max_files};
    request r = {.common.struct_size = sizeof r.common};
    const int code = charl__cli_parse(path, &syntax, &files, argc, argv, &r);

    if (code >= 0) {
        return code;
    }
    if (!r.arrays.x != !r.arrays.y) {
        return charl__cli_error(CHARL__EXIT_USAGE, NULL, "-x requires -y, and -y requires -x");
    }
    if (r.arrays.weights && !r.arrays.x) {
        return charl__cli_error(CHARL__EXIT_USAGE, NULL, "--weights requires -x and -y");
    }
    if (r.n_outs == 0) {
        return charl__cli_error(CHARL__EXIT_USAGE, "add -o FILE.h5, the dataset to write", "--output is missing");
    }
    r.files = (const char *const *)files.values;
    r.n_files = files.count;
    return charl__cli_guarded(r.files[0], CHARL__EXIT_DATA, work, &r);
}

/* The data set to read; token data sets are opened too, so that the error can say what they are. */
static charl_status open_file(const request *r, charl_dataset **out)
{
    const charl_dataset_options open = {sizeof open, .x = r->arrays.x, .y = r->arrays.y, .weights = r->arrays.weights,
                                        .window = 1};

    return charl_dataset_open(r->files[0], &open, out);
}

static int finish(charl_status st, const request *r)
{
    int code = st == CHARL_OK ? CHARL__EXIT_OK : charl__cli_fail(st);

    for (int i = 0; code == CHARL__EXIT_OK && i < r->n_outs; i++) {
        code = charl__data_show(r->outs[i]);
    }
    return code;
}

static int sample(void *ctx)
{
    const request *r = ctx;
    charl_dataset *ds = NULL;
    charl_status st;

    if (r->n_outs > 1) {
        return charl__cli_error(CHARL__EXIT_USAGE, NULL, "one --output, not %d", r->n_outs);
    }
    st = open_file(r, &ds);
    st = st == CHARL_OK ? charl_dataset_sample(ds, r->n, r->outs[0], &r->common) : st;
    charl_dataset_close(ds);
    return finish(st, r);
}

static int sample_rows(void *ctx)
{
    const request *r = ctx;

    return r->n > 0 ? sample(ctx)
                    : charl__cli_error(CHARL__EXIT_USAGE, NULL, "--number is missing: how many training samples?");
}

static int split(void *ctx)
{
    const request *r = ctx;
    charl_dataset *ds = NULL;
    charl_status st;

    if ((r->n_fractions > 0) == (r->common.val_split > 0)) {
        return charl__cli_error(CHARL__EXIT_USAGE, NULL,
                                "give either --fractions, or --val-split of a validation set in the same file");
    }
    if (r->n_fractions == 0) {
        return sample(ctx);
    }
    if (r->n_fractions != r->n_outs) {
        return charl__cli_error(CHARL__EXIT_USAGE, "give -o once for each fraction", "%d fractions, but %d file%s",
                                r->n_fractions, r->n_outs, r->n_outs == 1 ? "" : "s");
    }
    st = open_file(r, &ds);
    st = st == CHARL_OK ? charl_dataset_divide(ds, r->fractions, r->outs, r->n_outs, &r->common) : st;
    charl_dataset_close(ds);
    return finish(st, r);
}

static int merge(void *ctx)
{
    const request *r = ctx;
    const char *const given[][2] = {{"x", r->arrays.x}, {"y", r->arrays.y}, {"weights", r->arrays.weights}};
    enum { GIVEN = sizeof given / sizeof *given };
    const char *settings[GIVEN + 1] = {NULL};
    char text[GIVEN][1024]; /* a name that does not fit is longer than array names can be */

    if (r->n_outs > 1) {
        return charl__cli_error(CHARL__EXIT_USAGE, NULL, "one --output, not %d", r->n_outs);
    }
    for (int i = 0, n = 0; i < GIVEN; i++) {
        if (given[i][1]) {
            snprintf(text[i], sizeof text[i], "%s=%s", given[i][0], given[i][1]);
            settings[n++] = text[i];
        }
    }
    return finish(charl_import("hdf5", settings, r->files, r->n_files, r->outs[0], &r->common), r);
}

int charl__data_sample_main(const char *path, int argc, char **argv)
{
    static const charl__cli_option options[] = {
        OPTIONS_OF_ALL,
        {"number", 'n', "N", "Training samples to take (required)", 1, CHARL__CLI_INT(request, n, 1, INT64_MAX)},
        OPTIONS_OF_A_CHOICE("Take the first rows"),
        {0}};

    return run(
        path, options, "FILE -n N -o OUT",
        "Write some of a dataset's training samples to a new one: of each class in proportion, chosen by the seed. "
        "Other splits stay whole, and names, recipe and weights are kept.",
        0, argc, argv, sample_rows);
}

int charl__data_split_main(const char *path, int argc, char **argv)
{
    static const charl__cli_option options[] = {
        OPTIONS_OF_ALL,
        {"fractions", 0, "F,F...", "Divide every split among as many files, one -o for each, e.g. 0.8,0.2", 1,
         .parse = parse_fractions},
        {"val-split", 'v', "FRACTION",
         "Write one file, in which this fraction of the training samples is for validation", 1,
         CHARL__CLI_FRACTION(request, common.val_split)},
        OPTIONS_OF_A_CHOICE("Take the rows in their order"),
        {0}};

    return run(path, options, "FILE -o OUT [-o OUT...]",
               "Divide a dataset among several files, or its training samples between training and validation: of each "
               "class in proportion, chosen by the seed. Names, recipe and weights are kept.",
               0, argc, argv, split);
}

int charl__data_merge_main(const char *path, int argc, char **argv)
{
    static const charl__cli_option options[] = {OPTIONS_OF_ALL, {0}};

    return run(
        path, options, "FILE... -o OUT",
        "Write the rows of several datasets to one, split by split. Their classes, columns and recipes must be the "
        "same. FILE is a file, a folder or a pattern such as 'part-*.h5'; a training can also name the pattern as "
        "data.path.",
        INT_MAX, argc, argv, merge);
}
