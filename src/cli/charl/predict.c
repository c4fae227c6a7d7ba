/* charl predict: writes a model's predictions to a file, from its checkpoint and data alone. One process; no
 * MPI. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <charl/import.h>
#include <charl/predict.h>
#include "cli/charl/commands.h"
#include "cli/cli_ranks.h"

enum { MAX_OPERANDS = 1 << 20 };

typedef struct prediction {
    charl_predict_options o;
    charl_prediction_writer_options file; /* path NULL: standard output */
    int format;                           /* -1: from the output's name */
    charl_prediction_writer *writer;
    const char **paths, **members;
    charl_config_override *overrides;
    char subject[256];
    int64_t step;
} prediction;

static error_t parse_separator(void *input, const char *option, const char *value)
{
    prediction *p = input;

    return charl_csv_separator(value, &p->o.separator) ? 0 : charl__cli_bad_option(option, value, CHARL_CSV_SEPARATOR);
}

static error_t parse_decimal(void *input, const char *option, const char *value)
{
    prediction *p = input;
    const bool comma = strcmp(value, "comma") == 0;

    p->o.decimal = comma ? ',' : '.';
    return comma || strcmp(value, "point") == 0 ? 0 : charl__cli_bad_option(option, value, "must be point or comma");
}

static charl_status on_started(void *ctx, const charl_predict_info *info)
{
    prediction *p = ctx;

    p->step = info->step;
    snprintf(p->subject, sizeof p->subject, "%s", info->subject);
    return charl_prediction_writer_create(&p->file, info, &p->writer);
}

static charl_status on_predicted(void *ctx, const charl_prediction *row)
{
    prediction *p = ctx;

    if (row->row == 0) {
        charl__cli_compiling_done();
    }
    return charl_prediction_writer_put(p->writer, row);
}

static void say_summary(const prediction *p, const charl_predict_result *r)
{
    fflush(stdout);
    fprintf(stderr, "charl: ");
    charl__cli_write(stderr, p->subject, strlen(p->subject));
    if (p->o.n_members > 0) {
        fprintf(stderr, " models=%d", 1 + p->o.n_members);
    } else {
        fprintf(stderr, " step=%" PRId64, p->step);
    }
    fprintf(stderr, " rows=%" PRId64, r->rows);
    if (r->labelled > 0 && r->labelled < r->rows) {
        fprintf(stderr, " labelled=%" PRId64, r->labelled);
    }
    for (int i = 0; r->labelled > 0 && i < r->n_metrics; i++) {
        const charl_metric_value *m = &r->metrics[i];

        fprintf(stderr, m->fraction ? " %s=%.6f" : " %s=%.6g", m->name, m->value);
    }
    if (!isnan(r->loss)) {
        fprintf(stderr, " loss=%.9g", r->loss);
    }
    if (p->file.path) {
        fprintf(stderr, " file=");
        charl__cli_write(stderr, p->file.path, strlen(p->file.path));
    }
    fprintf(stderr, "\n");
}

static charl_status predict(prediction *p, const char *model)
{
    charl_status st = CHARL_OK;
    charl_predict_result result;

    CHARL_TRY_CLEANUP(charl_predict(model, &p->o, &result));
    CHARL_TRY_CLEANUP(charl_prediction_writer_finish(p->writer));
    say_summary(p, &result);
    CHARL_REQUIRE_CLEANUP(result.skipped == 0, CHARL_ERR_DATA,
                          "%" PRId64 " of %" PRId64 " images could not be read and %s no prediction", result.skipped,
                          result.skipped + result.rows, result.skipped == 1 ? "has" : "have");
cleanup:
    charl_prediction_writer_destroy(p->writer);
    return st;
}

/* Whether `s` is longer than `suffix` and ends in it. */
static bool ends_in(const char *s, const char *suffix)
{
    const size_t length = strlen(s), end = strlen(suffix);

    return length > end && strcmp(s + length - end, suffix) == 0;
}

static bool is_h5_name(const char *path)
{
    return path && (ends_in(path, ".h5") || ends_in(path, ".hdf5"));
}

static charl_prediction_format format_of(const char *path)
{
    return is_h5_name(path)                  ? CHARL_PREDICTION_HDF5
           : path && ends_in(path, ".jsonl") ? CHARL_PREDICTION_JSONL
                                             : CHARL_PREDICTION_CSV;
}

static charl_status on_split_started(void *ctx, const charl_predict_info *info)
{
    prediction *p = ctx;

    p->file.all = info->targets == CHARL_TARGET_CLASS;
    return on_started(ctx, info);
}

charl_status charl__predict_split(const charl_config *config, const char *checkpoint, const char *split,
                                  charl_ema_choice ema, const char *file)
{
    charl_status st = CHARL_OK;
    const charl_dataset_options data = charl_config_get_dataset_options(config);
    const char *path = charl__cli_text(config, "data.path");
    char val_split[64], fold[64];
    const charl_config_override part[] = {{val_split, "charl eval"}, {fold, "charl eval"}};
    prediction p = {.file = {sizeof p.file, .path = file, .format = format_of(file)},
                    .o = {sizeof p.o, .paths = &path, .n_paths = 1, .split = split, .x = data.x, .y = data.y,
                          .overrides = part, .n_overrides = 2, .ema = ema, .counts = is_h5_name(file),
                          .started = on_split_started, .predicted = on_predicted, .warned = charl__cli_warn,
                          .noted = charl__cli_note, .compiling = charl__cli_compiling_show}};
    charl_predict_result result;

    snprintf(val_split, sizeof val_split, "data.val_split=%.17g", data.val_split);
    snprintf(fold, sizeof fold, "data.fold=none");
    if (data.folds > 0) {
        snprintf(fold, sizeof fold, "data.fold=%" PRId64 "/%" PRId64, data.fold, data.folds);
    }
    p.o.ctx = &p;
    CHARL_TRY_CLEANUP(charl_predict(checkpoint, &p.o, &result));
    CHARL_TRY_CLEANUP(charl_prediction_writer_finish(p.writer));
cleanup:
    charl_prediction_writer_destroy(p.writer);
    return st;
}

charl_status charl__prediction_name(const char *path)
{
    static const char *const others[] = {".json",    ".xlsx", ".xls", ".ods", ".parquet",
                                         ".feather", ".npy",  ".npz", ".pkl", ".tsv"};

    for (size_t i = 0; path && i < sizeof others / sizeof *others; i++) {
        CHARL_REQUIRE(
            !ends_in(path, others[i]), CHARL_ERR_CONFIG,
            "%s: predictions are written as CSV (.csv), lines of JSON (.jsonl) or HDF5 (.h5), not as %s; HINT "
            "name such a file",
            path, others[i]);
    }
    return CHARL_OK;
}

/* Separate the operands after the model into overrides and data. */
static charl_status parse_operands(prediction *p, charl__cli_operands *operands)
{
    bool h5;

    p->file.format = p->format >= 0 ? (charl_prediction_format)p->format : format_of(p->file.path);
    h5 = p->file.format == CHARL_PREDICTION_HDF5;
    CHARL_TRY(charl__cli_alloc(operands->count, sizeof *p->paths, &p->paths));
    CHARL_TRY(charl__cli_alloc(operands->count, sizeof *p->members, &p->members));
    CHARL_TRY(charl__cli_alloc(operands->count, sizeof *p->overrides, &p->overrides));
    for (int i = 1; i < operands->count; i++) {
        if (charl__cli_is_override(operands->values[i])) {
            p->overrides[p->o.n_overrides++].text = operands->values[i];
        } else if (p->o.n_paths == 0 && charl__is_checkpoint(operands->values[i])) { /* data come after all models */
            CHARL_TRY(charl__checkpoint_of(&operands->values[i]));
            p->members[p->o.n_members++] = operands->values[i];
        } else {
            p->paths[p->o.n_paths++] = operands->values[i];
        }
    }
    p->o.paths = p->paths;
    p->o.members = p->members;
    p->o.overrides = p->overrides;
    CHARL_REQUIRE(!p->o.y || p->o.x, CHARL_ERR_CONFIG, "-y goes with -x");
    CHARL_REQUIRE(!h5 || p->file.path, CHARL_ERR_CONFIG, "--format hdf5 needs a file; HINT -o FILE.h5");
    CHARL_REQUIRE(!h5 || !p->o.id, CHARL_ERR_CONFIG,
                  "--id: names of rows are written to CSV and JSON lines, not to HDF5");
    p->o.counts = h5;
    return p->format < 0 ? charl__prediction_name(p->file.path) : CHARL_OK;
}

static int refuse_ranks(int n)
{
    return charl__cli_speaks() ? charl__cli_error(CHARL__EXIT_USAGE, "run it without mpirun",
                                                  "charl predict runs on one rank, not on %d", n)
                               : CHARL__EXIT_USAGE;
}

int charl__predict_main(const char *path, int argc, char **argv)
{
    static const charl__cli_option options[] = {
        {"output", 'o', "OUT", "Output file, which is replaced if it exists (default: standard output)", 1,
         CHARL__CLI_TEXT(prediction, file.path)},
        {"format", 0, "csv|jsonl|hdf5",
         "Output format: csv (default), jsonl (one JSON object per line, default for OUT.jsonl) or hdf5 (default for "
         "OUT.h5)",
         1, CHARL__CLI_CHOICE(prediction, format, CHARL_PREDICTION_CSV)},
        {"all", 0, NULL, "Also write the probabilities of all classes", 1, CHARL__CLI_FLAG(prediction, file.all)},
        {"id", 0, "COLUMN", "CSV: column that identifies rows (default: row number)", 2,
         CHARL__CLI_TEXT(prediction, o.id)},
        {"separator", 0, "C", "CSV: field separator; tab for tabs (default: auto, found in the first lines)", 2,
         .parse = parse_separator},
        {"decimal", 0, "point|comma", "CSV: decimal sign of numbers (default: that of the training data)", 2,
         .parse = parse_decimal},
        {"split", 's', "NAME", "Dataset: val, train or test (default: val if it exists, otherwise train)", 2,
         CHARL__CLI_TEXT(prediction, o.split)},
        {"x", 'x', "NAME", "Name of the input array in an HDF5 file that charl did not write, e.g. /images", 2,
         CHARL__CLI_TEXT(prediction, o.x)},
        {"y", 'y', "NAME", "Name of the target array, if any", 2, CHARL__CLI_TEXT(prediction, o.y)},
        CHARL__CLI_EMA_OPTION(3, prediction, o.ema),
        {"data", 0, "FILE", "Training dataset of a checkpoint of format version 1, if it has moved", 3,
         CHARL__CLI_TEXT(prediction, o.trained_on)},
        {0}};
    static const charl__cli_syntax syntax = {
        options, "MODEL... [DATA...] [SECTION.KEY=VALUE...]",
        "Run a trained model, or several as an ensemble, on every row of DATA. Writes one prediction per row, in "
        "order: the class and its "
        "probability if the model chooses one class, else a probability for each label or a number for each "
        "target.\vDATA is a CSV file, texts (CSV or .jsonl), an array (.npy, .npz, IDX), PNG and JPEG files or folders "
        "of "
        "them, or a dataset (HDF5). Default: the validation set of the dataset that MODEL was trained on.\nMODEL is a "
        "checkpoint, or a run directory for its last one; it contains configuration, column and class names, image "
        "size, mean and standard deviation. Several models, of the same data, are an ensemble: probabilities or "
        "numbers are "
        "the means of theirs, and a column has the deviation over the models. A CSV "
        "file with a header must have the columns of the model, in any order; other columns are ignored. Labels are "
        "optional: if DATA has the target column, or is a dataset, the last line reports the loss and the metrics. "
        "Images that cannot be read are named and left out, and the exit "
        "status is 3 then."};
    charl__cli_operands operands = {.names = {"MODEL"}, .max = MAX_OPERANDS};
    prediction p = {.file = {sizeof p.file, .stream = stdout},
                    .format = -1,
                    .o = {sizeof p.o, .started = on_started, .predicted = on_predicted, .warned = charl__cli_warn,
                          .noted = charl__cli_note, .compiling = charl__cli_compiling_show}};
    int code = charl__cli_parse(path, &syntax, &operands, argc, argv, &p);
    charl_status st;

    if (code >= 0) {
        return code;
    }
    if (charl_launcher_size() > 1) {
        return refuse_ranks(charl_launcher_size());
    }
    p.o.ctx = &p;
    st = charl__check_order(operands.values[0], (const char *const *)operands.values + 1, operands.count - 1);
    if (st == CHARL_OK) {
        st = parse_operands(&p, &operands);
    }
    if (st == CHARL_OK) {
        st = charl__checkpoint_of(&operands.values[0]);
    }
    if (st == CHARL_OK) {
        st = predict(&p, operands.values[0]);
    }
    code = st == CHARL_OK ? CHARL__EXIT_OK : charl__cli_fail(st);
    free(p.paths);
    free(p.members);
    free(p.overrides);
    return code;
}
