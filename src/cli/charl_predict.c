/* charl predict: a model's answers as a file. One rank; MPI starts after the command line and the
 * configuration are known to be good. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "cli/charl_commands.h"
#include "cli/cli_ranks.h"
#include "cli/charl_predict.h"

enum { MAX_OVERRIDES = 64, MAX_OPERANDS = 1 << 20, MOST_AT_ONCE = 64, PATH_BYTES = 4096 };

enum { KEY_FORMAT = 0x100, KEY_ALL, KEY_EMA };

typedef struct prediction {
    const char *split; /* NULL: not given */
    charl_image_files files;
    int ema;
    const char *out;    /* NULL: standard output */
    const char *format; /* NULL: the output's name decides */
    charl_config *config;
    const char *checkpoint;
    charl__predict_rows rows;
    char temporary[PATH_BYTES]; /* renamed to `out` at the end; "": written in place */
    bool opened;                /* a file, which is this process's to remove */
} prediction;

static error_t parse_predict(int key, char *arg, struct argp_state *state)
{
    prediction *p = state->input;

    switch (key) {
    case 's':
        p->split = arg;
        return 0;
    case 'o':
        p->out = arg;
        return 0;
    case KEY_EMA:
        return charl__cli_parse_ema(arg, &p->ema);
    case KEY_ALL:
        p->rows.all = true;
        return 0;
    case KEY_FORMAT:
        p->format = arg;
        p->rows.jsonl = strcmp(arg, "jsonl") == 0;
        return p->rows.jsonl || strcmp(arg, "csv") == 0 || strcmp(arg, "hdf5") == 0
                   ? 0
                   : charl__cli_bad_option("--format", arg, "must be csv, jsonl or hdf5");
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* A file appears whole or not at all; a device or a pipe is written as it is. */
static charl_status open_output(prediction *p)
{
    charl_status st = CHARL_OK;
    struct stat s;
    const bool in_place = p->out && stat(p->out, &s) == 0 && !S_ISREG(s.st_mode);
    const char *path = p->out;

    if (!p->out) {
        p->rows.file = stdout;
        goto cleanup;
    }
    if (p->rows.h5_path) {
        goto cleanup; /* made when the first row is known */
    }
    if (!in_place) {
        CHARL_REQUIRE((size_t)snprintf(p->temporary, sizeof p->temporary, "%s.tmp-%ld", p->out,
                                       (long)getpid()) < sizeof p->temporary,
                      CHARL_ERR_CONFIG, "the name of the output file is too long");
        path = p->temporary;
    }
    p->rows.file = fopen(path, in_place ? "w" : "wx");
    CHARL_REQUIRE(p->rows.file, CHARL_ERR_DISK, "cannot write %s: %s", p->out, strerror(errno));
    p->opened = true;
cleanup:
    return st;
}

static charl_status close_output(prediction *p)
{
    charl_status st = CHARL_OK;
    bool good;

    if (!p->out) {
        goto cleanup; /* standard output is checked by charl__cli_end */
    }
    if (p->rows.h5_path) {
        CHARL_TRY(charl__prediction_file_finish(p->rows.h5));
        goto cleanup;
    }
    good = fflush(p->rows.file) == 0 && (!p->temporary[0] || fsync(fileno(p->rows.file)) == 0);
    good = fclose(p->rows.file) == 0 && good;
    p->rows.file = NULL;
    CHARL_REQUIRE(good && (!p->temporary[0] || rename(p->temporary, p->out) == 0), CHARL_ERR_DISK,
                  "cannot write %s: %s", p->out, strerror(errno));
    p->temporary[0] = '\0';
cleanup:
    return st;
}

static void drop_output(prediction *p)
{
    if (p->opened && p->rows.file) {
        fclose(p->rows.file);
    }
    if (p->opened && p->temporary[0]) {
        unlink(p->temporary);
    }
}

static charl_status on_predicted(void *ctx, const charl_prediction *row)
{
    prediction *p = ctx;

    return charl__predict_rows_write(&p->rows, row);
}

static const char *subject_of(const prediction *p)
{
    return p->files.count > 0 ? "images" : p->split ? p->split : "val";
}

static void say_summary(const prediction *p)
{
    const charl__predict_rows *r = &p->rows;

    fflush(stdout);
    fprintf(stderr, "charl: %s step=%" PRId64 " rows=%" PRId64, subject_of(p), r->step, r->rows);
    if (r->loss == CHARL_LOSS_CROSS_ENTROPY && p->files.count == 0) {
        fprintf(stderr, " accuracy=%.6f", (double)r->correct / (double)r->rows);
    }
    if (p->out) {
        fprintf(stderr, " file=%s", p->out);
    }
    fprintf(stderr, "\n");
}

static int predict(void *ctx, charl_comm *comm)
{
    charl_status st = CHARL_OK;
    prediction *p = ctx;
    const charl_train_options options = {.comm = comm,
                                         .ema = p->ema,
                                         .events = {.ctx = comm,
                                                    .compiling = charl__cli_compiling_show,
                                                    .started = charl__ranks_started,
                                                    .warned = charl__ranks_warn}};

    CHARL_TRY(open_output(p));
    if (p->files.count > 0) {
        CHARL_TRY(
            charl_predict_images(p->config, &options, p->checkpoint, &p->files, on_predicted, p));
    } else {
        CHARL_TRY(
            charl_predict(p->config, &options, p->checkpoint, subject_of(p), on_predicted, p));
    }
    CHARL_TRY(close_output(p));
    say_summary(p);
cleanup:
    if (st != CHARL_OK) {
        drop_output(p);
    }
    charl__predict_rows_fini(&p->rows);
    return st == CHARL_OK ? CHARL__EXIT_OK : charl__ranks_fail(comm, st);
}

/* SECTION.KEY=VALUE, and not the path of a file. */
static bool is_override(const char *text)
{
    const char *equals = strchr(text, '='), *dot = strchr(text, '.'), *slash = strchr(text, '/');

    return equals && dot && dot < equals && !(slash && slash < equals);
}

static bool is_h5_name(const char *path)
{
    const char *dot = path ? strrchr(path, '.') : NULL;

    return dot && (strcmp(dot, ".h5") == 0 || strcmp(dot, ".hdf5") == 0);
}

/* Sort the operands after the checkpoint into overrides and images, and load the configuration. */
static charl_status load(prediction *p, const charl__cli_operands *operands)
{
    charl_status st = CHARL_OK;
    charl_config_override overrides[MAX_OVERRIDES + 2] = {{NULL, NULL}};
    char batch[64];
    int n = 2; /* the first two are for images */

    for (int i = 2; i < operands->count; i++) {
        if (!is_override(operands->values[i])) {
            CHARL_TRY(charl_image_files_add(&p->files, operands->values[i]));
            continue;
        }
        CHARL_REQUIRE(n < MAX_OVERRIDES + 2, CHARL_ERR_CONFIG, "more than %d overrides",
                      MAX_OVERRIDES);
        overrides[n++].text = operands->values[i];
    }
    snprintf(batch, sizeof batch, "train.batch_size=%d",
             p->files.count < MOST_AT_ONCE ? (int)p->files.count : MOST_AT_ONCE);
    overrides[0].text = batch; /* it changes no prediction, and few images need not cost as many as
                                  training */
    overrides[1].text = "train.slices=auto";
    if (p->files.count > 0) {
        CHARL_TRY(charl_config_load(operands->values[0], overrides, n, &p->config));
    } else {
        CHARL_TRY(charl_config_load(operands->values[0], overrides + 2, n - 2, &p->config));
    }
    p->checkpoint = operands->values[1];
    p->rows.loss = p->config->train.loss;
    CHARL_REQUIRE(!p->rows.all || p->rows.loss == CHARL_LOSS_CROSS_ENTROPY, CHARL_ERR_CONFIG,
                  "--all: only train.loss = cross_entropy has classes");
    if (p->format ? strcmp(p->format, "hdf5") == 0 : is_h5_name(p->out)) {
        CHARL_REQUIRE(p->out, CHARL_ERR_CONFIG, "--format hdf5 needs a file; HINT -o FILE.h5");
        p->rows.h5_path = p->out;
        p->rows.files = &p->files;
    }
    CHARL_REQUIRE(!p->split || p->files.count == 0, CHARL_ERR_CONFIG,
                  "--split is for the configured data, not for image files");
cleanup:
    return st;
}

static int load_and_predict(prediction *p, const charl__cli_operands *operands, int *argc,
                            char ***argv)
{
    const charl_status st = load(p, operands);
    const int code =
        st == CHARL_OK ? charl__with_ranks(p->config, predict, p, argc, argv) : charl__cli_fail(st);

    charl_config_destroy(p->config);
    charl_image_files_fini(&p->files);
    return code;
}

int charl__predict_main(const char *path, int argc, char **argv)
{
    static const struct argp_option options[] = {
        {"split", 's', "NAME", 0, "val (default), train or test", 0},
        {"output", 'o', "OUT", 0, "Write to this file, not to standard output", 0},
        {"format", KEY_FORMAT, "csv|jsonl|hdf5", 0,
         "csv (default), one JSON object per line, or HDF5 (default for OUT.h5)", 0},
        {"ema", KEY_EMA, "WHICH", 0, CHARL__CLI_EMA_HELP, 0},
        {"all", KEY_ALL, NULL, 0, "The probabilities of all classes too", 0},
        {0}};
    static const struct argp argp = {
        options,
        parse_predict,
        "CONFIG CHECKPOINT [SECTION.KEY=VALUE...] [IMAGE...]",
        "What the weights of a checkpoint say of every sample of a split, or of image files, in "
        "order: for "
        "cross_entropy the label, the predicted class and its probability, for bce targets and "
        "probabilities, otherwise targets and predictions.\v"
        "IMAGE is a PNG or JPEG file or a folder of them. The configured data say how a picture "
        "becomes a sample and what the classes are called.\n"
        "Other data: data.path=FILE, with data.x=ARRAY data.y=ARRAY for a file that is not in "
        "charl's layout. Such a file is all train: use --split train, and data.val_split=0 if the "
        "configuration cuts a part off. Targets are read too; where they are unknown an array of "
        "zeros will do. Classes are named as the data file names them.",
        NULL,
        NULL,
        NULL};
    charl__cli_operands operands = {.names = {"CONFIG", "CHECKPOINT"}, .max = MAX_OPERANDS};
    prediction p = {.split = NULL};
    const int code = charl__cli_parse(path, &argp, &operands, argc, argv, &p);

    return code >= 0 ? code : load_and_predict(&p, &operands, &argc, &argv);
}
