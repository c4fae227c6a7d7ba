/* charl checkpoint average|pack|export: files created from checkpoints. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <charl/checkpoint.h>
#include <charl/export.h>
#include <charl/replay.h>
#include "cli/charl/commands.h"

typedef enum layout { LAYOUT_CHARL, LAYOUT_HUGGINGFACE, LAYOUT_PEFT } layout; /* charl: a file; the others: a folder */

typedef struct making {
    const char *out;
    charl_ema_choice ema; /* for export */
    layout layout;
    const char *base;
    int64_t shard_bytes;
    int64_t first, last, every; /* of average --steps; every 0: without it */
    double decay;               /* of average --ema; 0: without it */
    charl_replay_options replay;
    char *const *values;
    int count;
} making;

/* The operands of either command; the first, or all, are checkpoints. Returns -1 to continue. */
static int begin_files(const char *path, charl__cli_operands *operands, bool all, making *m)
{
    if (!m->out) {
        return charl__cli_error(CHARL__EXIT_USAGE, NULL, "%s: -o FILE is missing", path);
    }
    m->values = operands->values;
    m->count = all ? charl__without_parts(operands->values, operands->count) : operands->count;
    return charl__checkpoints_of(operands->values, all ? m->count : 1);
}

/* Read the command line of either command. Returns -1 to continue. */
static int begin(const char *path, const charl__cli_syntax *syntax, charl__cli_operands *operands, bool all, int argc,
                 char **argv, making *m)
{
    const int code = charl__cli_parse(path, syntax, operands, argc, argv, m);

    return code >= 0 ? code : begin_files(path, operands, all, m);
}

static int say_made(const char *path)
{
    struct stat s;
    const int64_t bytes = stat(path, &s) == 0 ? (int64_t)s.st_size : 0;

    charl__cli_put(path, 0);
    printf(": %" PRId64 " bytes\n", bytes);
    return CHARL__EXIT_OK;
}

static int say_folder(const making *m)
{
    char path[4200];
    struct stat s;

    snprintf(path, sizeof path, "%s/tokenizer.json", m->out);
    charl__cli_put(m->out, 0);
    printf("%s\n", m->layout == LAYOUT_PEFT ? ": adapters for peft"
                   : stat(path, &s) == 0
                       ? ": config.json, weights and tokenizer for transformers"
                       : ": config.json and weights for transformers; the checkpoint has no tokenizer");
    return CHARL__EXIT_OK;
}

static int export_file(void *ctx)
{
    const making *m = ctx;
    charl_config_override overrides[CHARL__CLI_OVERRIDES + 1];
    char base[4200];
    int n = 0;
    charl_status st;

    if (m->layout != LAYOUT_CHARL) {
        if (m->count > 1) {
            return charl__cli_error(CHARL__EXIT_USAGE, NULL,
                                    "%s: with --layout huggingface or peft no setting can be changed", m->values[1]);
        }
        st = (m->layout == LAYOUT_PEFT ? charl_export_peft : charl_export_huggingface)(
            m->values[0],
            &(charl_export_options){sizeof(charl_export_options), .ema = (charl_ema_choice)m->ema, .base = m->base,
                                    .shard_bytes = m->shard_bytes},
            m->out);
        return st == CHARL_OK ? say_folder(m) : charl__cli_fail(st);
    }
    for (int i = 1; i < m->count; i++) {
        overrides[n++] = (charl_config_override){.text = m->values[i]};
    }
    if (m->base) {
        if ((size_t)snprintf(base, sizeof base, "init.from=%s", m->base) >= sizeof base) {
            return charl__cli_error(CHARL__EXIT_USAGE, NULL, "--base: the path is too long");
        }
        overrides[n++] = (charl_config_override){.text = base, .origin = "--base"};
    }
    st = charl_export_model(m->values[0], overrides, n, m->ema, m->out);
    return st == CHARL_OK ? say_made(m->out) : charl__cli_fail(st);
}

int charl__checkpoint_export_main(const char *path, int argc, char **argv)
{
    static const charl__cli_option options[] = {
        {"output", 'o', "FILE",
         "Output file (required), which is replaced if it exists. Its extension selects the format, see below", 0,
         CHARL__CLI_TEXT(making, out)},
        {"layout", 0, "charl|huggingface|peft",
         "huggingface: write a folder, FILE, that Hugging Face transformers loads, adapters added to the weights. "
         "peft: write a folder "
         "with the low-rank adapters alone, for the Python package peft. Both only for gpt",
         0, CHARL__CLI_CHOICE(making, layout, LAYOUT_CHARL)},
        {"base", 0, "PATH",
         "The weights that the run started from, if they have moved: a checkpoint that holds only what was trained "
         "needs them",
         0, CHARL__CLI_TEXT(making, base)},
        {"shard-size", 0, "BYTES", "With --layout huggingface: largest size of a file of weights (default 5000000000)",
         0, CHARL__CLI_INT(making, shard_bytes, 1, INT64_C(1) << 50)},
        CHARL__CLI_EMA_OPTION(0, making, ema),
        {0}};
    char doc[1024] = "Export the model of a checkpoint.\vFormats:\n";
    const charl__cli_syntax syntax = {options, "CHECKPOINT [SECTION.KEY=VALUE...]", doc};
    charl__cli_operands operands = {.names = {"CHECKPOINT"}, .max = 1 + CHARL__CLI_OVERRIDES};
    making m = {0};
    const char *name, *help;
    int code;

    for (int i = 0; (name = charl_export_format(i, &help)) != NULL; i++) {
        const size_t used = strlen(doc);

        snprintf(doc + used, sizeof doc - used, "  .%s: %s\n", name, help);
    }
    snprintf(doc + strlen(doc), sizeof doc - strlen(doc),
             "\nONNX export of a checkpoint of format version 1 also reads the dataset, for the "
             "shape and statistics of its samples; if the dataset has moved, add data.path=FILE.");
    code = begin(path, &syntax, &operands, false, argc, argv, &m);
    return code >= 0 ? code : charl__cli_guarded(m.values[0], CHARL__EXIT_CHECKPOINT, export_file, &m);
}

static int average_files(void *ctx)
{
    const making *m = ctx;
    const charl_status st = charl_checkpoint_average((const char *const *)m->values, m->count, m->out);

    return st == CHARL_OK ? say_made(m->out) : charl__cli_fail(st);
}

/* The memory limit for reading depends on the size of the file: name the largest. */
static const char *largest(const making *m)
{
    const char *path = m->values[0];
    int64_t most = 0;

    for (int i = 0; i < m->count; i++) {
        const int64_t bytes = charl_checkpoint_size(m->values[i]);

        if (bytes > most) {
            most = bytes;
            path = m->values[i];
        }
    }
    return path;
}

/* "100:200" or "100:200:10" */
static error_t parse_steps(void *input, const char *option, const char *value)
{
    making *m = input;
    char end;
    const int n = sscanf(value, "%" SCNd64 ":%" SCNd64 ":%" SCNd64 "%c", &m->first, &m->last, &m->every, &end);

    m->every = n == 2 ? 1 : m->every;
    return (n == 2 || n == 3) && m->first >= 1 && m->last >= m->first && m->every >= 1
               ? 0
               : charl__cli_bad_option(option, value, "must be A:B or A:B:N, steps from 1 on that ascend");
}

static charl_status replay_started(void *ctx, const charl_replay_start *start)
{
    (void)ctx;
    charl__cli_compiling_done();
    fprintf(stderr, "# computed again from %s, on %s\n",
            start->checkpoint[0] ? start->checkpoint : "the beginning of the run", start->device->name);
    return CHARL_OK;
}

/* An average over steps of the run that operand 0 names. */
static int average_run(const char *path, making *m, charl__cli_operands *operands)
{
    charl_config_override overrides[CHARL__CLI_OVERRIDES];
    charl_status st;
    int code;

    if (m->every > 0 && m->decay > 0) {
        return charl__cli_error(CHARL__EXIT_USAGE, NULL, "%s: either --steps or --ema", path);
    }
    if (operands->count > 1 + CHARL__CLI_OVERRIDES || (operands->count > 1 && !strchr(operands->values[1], '='))) {
        return charl__cli_error(CHARL__EXIT_USAGE, NULL, "%s: with --steps or --ema, name one run", path);
    }
    charl__runs_of(operands->values, 1);
    code = charl__cli_limits();
    if (code != CHARL__EXIT_OK) {
        return code;
    }
    m->replay.overrides = overrides;
    m->replay.n_overrides = charl__cli_overrides(operands, 1, overrides);
    st = m->every > 0 ? charl_replay_average(operands->values[0], m->first, m->last, m->every, &m->replay, m->out)
                      : charl_replay_ema(operands->values[0], m->decay, &m->replay, m->out);
    charl__cli_compiling_done();
    return st == CHARL_OK ? say_made(m->out) : charl__cli_fail(st);
}

int charl__checkpoint_average_main(const char *path, int argc, char **argv)
{
    static const charl__cli_option options[] = {
        {"output", 'o', "FILE", "Output file (required), which is replaced if it exists", 0,
         CHARL__CLI_TEXT(making, out)},
        {"steps", 's', "A:B[:N]", "Average over steps A to B of a run, every step or every Nth", 0,
         .parse = parse_steps},
        {"ema", 'e', "DECAY", "Write the checkpoint that a run would have with train.ema_decay = DECAY", 0,
         CHARL__CLI_NUMBER(making, decay, "(0,1)")},
        {"step", 0, "N", "With --ema: the step; the default is the last that the run has a checkpoint of", 0,
         CHARL__CLI_INT(making, replay.step, 1, INT64_MAX)},
        {"device", 'd', "SELECT",
         "With --steps and --ema: device to use, as device.select has it (see `charl devices`)", 0,
         CHARL__CLI_TEXT(making, replay.device)},
        {0}};
    static const charl__cli_syntax syntax = {
        options, "A B... | RUN --steps A:B[:N] | RUN --ema DECAY",
        "Average the weights of several checkpoints of the same model, for example the last few of a run; or with "
        "--steps those of steps of the run in directory RUN, saved or not: steps whose checkpoint is not kept are "
        "computed again, as by `charl checkpoint at`. With --ema, compute the run again from its beginning with a "
        "moving average of the weights of any decay.\vThe mean holds no optimizer state. It can be evaluated, exported "
        "and passed to charl-train --init-from, but not resumed. A checkpoint of --ema has the tensors that a training "
        "with train.ema_decay = DECAY has after that step. Settings of the form SECTION.KEY=VALUE after RUN, such as "
        "data.path, are taken as by `charl replay`."};
    charl__cli_operands operands = {.names = {"A"}, .max = 1 << 20};
    making m = {.replay = {sizeof m.replay, .started = replay_started, .warned = charl__cli_warn,
                           .compiling = charl__cli_compiling_show}};
    int code = charl__cli_parse(path, &syntax, &operands, argc, argv, &m);

    if (code < 0 && m.out && (m.every > 0 || m.decay > 0)) {
        return average_run(path, &m, &operands);
    }
    if (code < 0 && operands.count < 2) {
        return charl__cli_error(CHARL__EXIT_USAGE, "with --steps or --ema one run is enough", "%s: B is missing", path);
    }
    code = code < 0 ? begin_files(path, &operands, true, &m) : code;
    return code >= 0 ? code : charl__cli_guarded(largest(&m), CHARL__EXIT_CHECKPOINT, average_files, &m);
}

static int pack_file(void *ctx)
{
    const making *m = ctx;
    const charl_status st = charl_checkpoint_pack(m->values[0], m->out);

    return st == CHARL_OK ? say_made(m->out) : charl__cli_fail(st);
}

int charl__checkpoint_pack_main(const char *path, int argc, char **argv)
{
    static const charl__cli_option options[] = {{"output", 'o', "FILE",
                                                 "Output file (required), which is replaced if it exists", 0,
                                                 CHARL__CLI_TEXT(making, out)},
                                                {0}};
    static const charl__cli_syntax syntax = {
        options, "CHECKPOINT",
        "Make one file of a checkpoint that several ranks have written in parts (checkpoint.parts).\vThe result is the "
        "file that one rank would have written, byte for byte. A run directory stands for its last checkpoint."};
    charl__cli_operands operands = {.names = {"CHECKPOINT"}};
    making m = {0};
    const int code = begin(path, &syntax, &operands, true, argc, argv, &m);

    return code >= 0 ? code : charl__cli_guarded(m.values[0], CHARL__EXIT_CHECKPOINT, pack_file, &m);
}
