/* charl data sample|split|merge: new datasets from the rows of others. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "cli/charl/commands.h"

enum { MOST_OUTS = 32, KEY_IN_ORDER = 0x100, KEY_SEED, KEY_FRACTIONS, KEY_WEIGHTS };

typedef struct request {
    charl_hdf5_options arrays;
    const char *const *files;
    int n_files;
    const char *outs[MOST_OUTS];
    int n_outs;
    double fractions[MOST_OUTS];
    int n_fractions;
    int64_t n;
    charl_import_options common;
} request;

static error_t parse_fractions(const char *arg, request *r)
{
    for (const char *at = arg;;) {
        char *end = NULL;
        const double v = strtod(at, &end);

        if (end == at || (*end && *end != ',') || !(v > 0 && v < 1) || r->n_fractions == MOST_OUTS) {
            return charl__cli_bad_option("--fractions", arg, "must be numbers between 0 and 1, e.g. 0.8,0.1,0.1");
        }
        r->fractions[r->n_fractions++] = v;
        if (!*end) {
            return 0;
        }
        at = end + 1;
    }
}

static error_t parse_copy(int key, char *arg, struct argp_state *state)
{
    request *r = state->input;
    int64_t seed = 0;
    error_t code;

    switch (key) {
    case 'o':
        if (r->n_outs == MOST_OUTS) {
            return charl__cli_bad_option("--output", arg, "is one file too many");
        }
        r->outs[r->n_outs++] = arg;
        return 0;
    case 'w':
        r->common.overwrite = true;
        return 0;
    case 'x':
        r->arrays.x = arg;
        return 0;
    case 'y':
        r->arrays.y = arg;
        return 0;
    case KEY_WEIGHTS:
        r->arrays.weights = arg;
        return 0;
    case 'n':
        return charl__cli_parse_int("--number", arg, 1, INT64_MAX, &r->n);
    case 'v':
        return charl__cli_parse_fraction("--val-split", arg, &r->common.val_split);
    case KEY_FRACTIONS:
        return parse_fractions(arg, r);
    case KEY_IN_ORDER:
        r->common.in_order = true;
        return 0;
    case KEY_SEED:
        code = charl__cli_parse_int("--seed", arg, 0, INT64_MAX, &seed);
        r->common.seed = (uint64_t)seed;
        return code;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

#define OPTIONS_OF_ALL                                                                                                 \
    {"output", 'o', "FILE", 0, "The dataset to write (required)", 1},                                                  \
        {"overwrite", 'w', NULL, 0, "Replace an existing file", 1},                                                    \
        {"x", 'x', "NAME", 0, "Name of the input array in a file that charl did not write, e.g. /images", 3},          \
        {"y", 'y', "NAME", 0, "Name of the target array, e.g. /labels", 3},                                            \
    {                                                                                                                  \
        "weights", KEY_WEIGHTS, "NAME", 0, "Name of the array of weights, if there is one, e.g. /weights", 3           \
    }
#define OPTIONS_OF_A_CHOICE(first)                                                                                     \
    {"in-order", KEY_IN_ORDER, NULL, 0, first ", instead of rows chosen by the seed", 2},                              \
    {                                                                                                                  \
        "seed", KEY_SEED, "N", 0, "Seed of the choice (default: 0)", 2                                                 \
    }

/* Read the command line, and do `work`. */
static int run(const char *path, const struct argp_option *options, const char *args, const char *doc, int max_files,
               int argc, char **argv, int (*work)(void *r))
{
    const struct argp argp = {options, parse_copy, args, doc, NULL, NULL, NULL};
    charl__cli_operands files = {.names = {"FILE"}, .max = max_files};
    request r = {0};
    const int code = charl__cli_parse(path, &argp, &files, argc, argv, &r);

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

/* The data set that is read; tokens are opened too, to be refused as what they are. */
static charl_status open_file(const request *r, charl_dataset **out)
{
    const charl_dataset_options open = {.x = r->arrays.x, .y = r->arrays.y, .weights = r->arrays.weights, .window = 1};

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

    if (r->n_outs > 1) {
        return charl__cli_error(CHARL__EXIT_USAGE, NULL, "one --output, not %d", r->n_outs);
    }
    return finish(charl_import_hdf5(r->files, r->n_files, &r->arrays, r->outs[0], &r->common), r);
}

int charl__data_sample_main(const char *path, int argc, char **argv)
{
    static const struct argp_option options[] = {OPTIONS_OF_ALL,
                                                 {"number", 'n', "N", 0, "Training samples to take (required)", 1},
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
    static const struct argp_option options[] = {
        OPTIONS_OF_ALL,
        {"fractions", KEY_FRACTIONS, "F,F...", 0,
         "Divide every split among as many files, one -o for each, e.g. 0.8,0.2", 1},
        {"val-split", 'v', "FRACTION", 0,
         "Write one file, in which this fraction of the training samples is for validation", 1},
        OPTIONS_OF_A_CHOICE("Take the rows in their order"),
        {0}};

    return run(path, options, "FILE -o OUT [-o OUT...]",
               "Divide a dataset among several files, or its training samples between training and validation: of each "
               "class in proportion, chosen by the seed. Names, recipe and weights are kept.",
               0, argc, argv, split);
}

int charl__data_merge_main(const char *path, int argc, char **argv)
{
    static const struct argp_option options[] = {OPTIONS_OF_ALL, {0}};

    return run(
        path, options, "FILE... -o OUT",
        "Write the rows of several datasets to one, split by split. Their classes, columns and recipes must be the "
        "same. FILE is a file, a folder or a pattern such as 'part-*.h5'; a training can also name the pattern as "
        "data.path.",
        INT_MAX, argc, argv, merge);
}
