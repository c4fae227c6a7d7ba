/* The command line of charl-train. */
#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <charl/slices.h>
#include "cli/train/train.h"
#include "cli/cli.h"

/* Index of the command-line word that contains `word`; -1: none. argp moves operands after options, so argv is a copy. */
static int position(const charl__train_args *a, const char *word)
{
    for (int i = 0; word && i < a->argc; i++) {
        if ((uintptr_t)word - (uintptr_t)a->argv[i] <= strlen(a->argv[i])) {
            return i;
        }
    }
    return -1;
}

/* Add an override given by `word` of the command line. The last one of a key wins, so they stay in the order of the command line, in which
 * options may follow operands; one without a position follows the ones before it. */
static error_t add_override(charl__train_args *a, const char *text, const char *word, const char *origin)
{
    const int at = position(a, word);
    int i = a->n_overrides;

    if (i == CHARL__MAX_OVERRIDES) {
        charl__cli_error(0, NULL, "more than %d overrides", CHARL__MAX_OVERRIDES);
        return EINVAL;
    }
    for (; at >= 0 && i > 0 && a->positions[i - 1] > at; i--) {
        a->overrides[i] = a->overrides[i - 1];
        a->positions[i] = a->positions[i - 1];
    }
    a->overrides[i] = (charl_config_override){text, origin};
    a->positions[i] = at >= 0 || i == 0 ? at : a->positions[i - 1];
    a->n_overrides++;
    return 0;
}

/* The last word that spells an option without a value: -r, also after other letters, or --resume, also abbreviated. */
static const char *spelling(const charl__train_args *a, const char *option)
{
    const char *last = NULL;

    for (int i = 1; i < a->argc && strcmp(a->argv[i], "--") != 0; i++) {
        const char *w = a->argv[i];
        const size_t n = strlen(w);
        const bool is_long = n > 2 && w[0] == '-' && w[1] == '-';

        if (is_long ? strncmp(option, w, n) == 0 : n > 1 && w[0] == '-' && w[n - 1] == option[2]) {
            last = w;
        }
    }
    return last;
}

/* An option that sets a key; value NULL: auto. */
static error_t add_key(charl__train_args *a, const char *key, const char *value, const char *origin)
{
    const char *word = value ? value : spelling(a, origin);
    const size_t bytes = strlen(key) + strlen(value ? value : "auto") + 2;
    char *text = NULL;

    if (a->n_made == CHARL__MAX_OVERRIDES) {
        return add_override(a, "", NULL, origin); /* there are already that many */
    }
    if (charl__cli_alloc((int64_t)bytes, 1, &text) != CHARL_OK) {
        charl__cli_error(0, NULL, "%s", charl_error_message());
        return ENOMEM;
    }
    snprintf(text, bytes, "%s=%s", key, value ? value : "auto");
    a->made[a->n_made++] = text;
    return add_override(a, text, word, origin);
}

static error_t parse_fast_dev_run(void *input, const char *option, const char *value)
{
    charl__train_args *a = input;
    int64_t n = 5;

    if (value && charl__cli_parse_int(option, value, 1, 1000000, &n) != 0) {
        return EINVAL;
    }
    a->fast_dev_run = (int)n;
    return 0;
}

bool charl__train_logs(const char *ranks, int rank)
{
    if (!ranks || strcmp(ranks, "all") == 0) {
        return ranks != NULL || rank == 0;
    }
    for (const char *at = ranks; *at; at += *at == ',') {
        char *end = NULL;
        const long first = strtol(at, &end, 10), last = *end == '-' ? strtol(end + 1, &end, 10) : first;

        if (rank >= first && rank <= last) {
            return true;
        }
        at = end;
    }
    return rank == 0; /* always */
}

/* "all", "0" or "1,4-7" */
static error_t parse_log_ranks(void *input, const char *option, const char *value)
{
    charl__train_args *a = input;
    const char *at = value;
    bool is_good = value[0] != '\0';

    a->log_ranks = value;
    if (strcmp(value, "all") == 0) {
        return 0;
    }
    while (is_good && *at) {
        char *end = NULL;
        const long first = strtol(at, &end, 10);
        long last = first;

        is_good = *at >= '0' && *at <= '9';
        if (is_good && *end == '-') {
            at = end + 1;
            last = strtol(at, &end, 10);
            is_good = *at >= '0' && *at <= '9' && last >= first;
        }
        is_good = is_good && last < INT_MAX && (*end == '\0' || (*end == ',' && end[1]));
        at = is_good && *end == ',' ? end + 1 : end;
    }
    return is_good ? 0 : charl__cli_bad_option(option, value, "must be all or ranks, as in 1,4-7");
}

/* "11-20", or "11". */
static bool parse_range(const char *text, int64_t least, int64_t *first, int64_t *last)
{
    char *end = NULL;

    errno = 0;
    *first = *last = strtoll(text, &end, 10);
    if (*end == '-' && end > text) {
        text = end + 1;
        *last = strtoll(text, &end, 10);
    }
    return !*end && end > text && errno == 0 && *first >= least && *last >= *first;
}

static error_t parse_trace_steps(void *input, const char *option, const char *value)
{
    charl__train_args *a = input;

    return parse_range(value, 1, &a->trace_first, &a->trace_last)
               ? 0
               : charl__cli_bad_option(option, value, "must be steps, as in 11-20 or 11; the first step is 1");
}

static error_t parse_chaos(void *input, const char *option, const char *value)
{
    charl__train_args *a = input;

    return parse_range(value, 0, &a->chaos_first, &a->chaos_last)
               ? 0
               : charl__cli_bad_option(option, value, "must be a seed from 0, or seeds, as in 1-100");
}

/* "6", or "2x3". */
static error_t parse_simulated(void *input, const char *option, const char *value)
{
    charl__train_args *a = input;
    char *end = NULL;
    const char *number = value;
    long nodes = 1, each = strtol(value, &end, 10);
    const bool has_nodes = *end == 'x';

    if (has_nodes) {
        number = end + 1;
        nodes = each;
        each = strtol(number, &end, 10);
    }
    if (*end || end == number || nodes < 1 || each < 1 || nodes > CHARL_MAX_SLICES || each > CHARL_MAX_SLICES / nodes) {
        char want[64];

        snprintf(want, sizeof want, "must be 1 to %d ranks, as in 6 or 2x3", CHARL_MAX_SLICES);
        return charl__cli_bad_option(option, value, want);
    }
    a->simulate_ranks = (int)(nodes * each);
    a->simulate_ranks_per_node = has_nodes ? (int)each : 0;
    return 0;
}

static error_t parse_job(void *input, const char *option, const char *value)
{
    charl__train_args *a = input;

    a->job = value;
    return value[0] && strlen(value) < 200 && !strpbrk(value, "\r\n")
               ? 0
               : charl__cli_bad_option(option, value, "must be a line of 1 to 199 bytes");
}

/* CONFIG and overrides, in any order. */
static error_t parse_operands(const charl__cli_operands *o, void *input)
{
    charl__train_args *a = input;

    for (int i = 0; i < o->count; i++) {
        const char *arg = o->values[i];

        if (charl__cli_is_override(arg)) {
            if (add_override(a, arg, arg, NULL) != 0) {
                return EINVAL;
            }
        } else if (a->config) {
            charl__cli_error(0, NULL,
                             "more than one configuration file: %s and %s (overrides are "
                             "SECTION.KEY=VALUE)",
                             a->config, arg);
            return EINVAL;
        } else {
            a->config = arg;
        }
    }
    if (a->trace_last > 0 && !a->trace && !a->profile) {
        charl__cli_error(0, NULL, "--trace-steps selects the steps for --trace or --profile: add one of these");
        return EINVAL;
    }
    if (a->chaos_last >= 0 && (a->simulate_ranks == 0 || a->dry_run || a->fast_dev_run > 0 || a->overfit_batch)) {
        charl__cli_error(0, NULL,
                         "--chaos disturbs a whole training of simulated ranks: add --simulate-ranks, and remove "
                         "--dry-run, --fast-dev-run and --overfit-batch");
        return EINVAL;
    }
    if (!a->config && (a->action == CHARL__TRAIN_RUN || a->action == CHARL__TRAIN_PRINT_CONFIG)) {
        charl__cli_error(0, NULL, "no configuration file (launch/ has examples)");
        return EINVAL;
    }
    return 0;
}

static error_t parse_set(void *input, const char *option, const char *value)
{
    (void)option;
    return add_override(input, value, value, "--set");
}

static error_t parse_key(void *input, const char *option, const char *value)
{
    static const char *const keys[][2] = {{"--output-dir", "run.output_dir"},
                                          {"--resume", "run.resume"},
                                          {"--init-from", "init.from"},
                                          {"--max-time", "run.max_time"}};
    int i = 0;

    while (strcmp(option, keys[i][0]) != 0) {
        i++;
    }
    if (value && value[0] == '\0') {
        charl__cli_error(0, NULL, "%s: the value is empty", option);
        return EINVAL;
    }
    return add_key(input, keys[i][1], value, keys[i][0]);
}

static error_t parse_help_config(void *input, const char *option, const char *value)
{
    charl__train_args *a = input;

    (void)option;
    a->action = CHARL__TRAIN_HELP_CONFIG;
    a->section = value;
    return 0;
}

static error_t parse_env(void *input, const char *option, const char *value)
{
    charl__train_args *a = input;

    a->action = CHARL__TRAIN_ENV;
    a->json = value != NULL;
    return !value || strcmp(value, "json") == 0 ? 0 : charl__cli_bad_option(option, value, "must be json");
}

static error_t parse_trace(void *input, const char *option, const char *value)
{
    charl__train_args *a = input;

    a->trace = value ? value : "";
    return value && !value[0] ? charl__cli_bad_option(option, value, "must be a file") : 0;
}

static const charl__cli_option options[] = {
    {.help = "Running", .group = 1},
    {"set", 's', "SECTION.KEY=VALUE",
     "Override a key (same as SECTION.KEY=VALUE as an operand; repeatable, the last one wins)", 1, .parse = parse_set},
    {"output-dir", 'o', "DIR", "Run directory (run.output_dir)", 1, .parse = parse_key},
    {"resume", 'r', "WHAT", "auto (default for WHAT), never, must, or a checkpoint or run directory (run.resume)", 1,
     .parse = parse_key, .flags = OPTION_ARG_OPTIONAL},
    {"init-from", 0, "FILE",
     "Start from the weights of a checkpoint, a .safetensors file, a file of PyTorch or a folder of them (init.from)",
     1, .parse = parse_key},
    {"suspect", 0, "FILE", "For charl launch: write the host that an audit names into FILE", 1,
     CHARL__CLI_TEXT(charl__train_args, suspect), .flags = OPTION_HIDDEN},
    {"status-file", 0, "FILE",
     "Write the exit status of this rank to FILE, which must exist, so that a job script can tell whether the ranks "
     "were started",
     1, CHARL__CLI_TEXT(charl__train_args, status_file)},
    {"overwrite", 0, NULL,
     "Start a new run in a directory that contains another; with run.resume=FILE, go back to FILE again", 1,
     CHARL__CLI_FLAG(charl__train_args, overwrite)},
    {"job", 0, "NAME",
     "Name of a job that may start this command several times: --overwrite and run.resume=never or FILE count once per "
     "job, its other starts continue the run. charl launch and Slurm's jobs have names of their own",
     1, .parse = parse_job},
    {"spent", 0, "SECONDS", "For charl launch: what its earlier starts have taken of run.max_time", 1,
     CHARL__CLI_NUMBER(charl__train_args, spent_s, "[0,inf)"), .flags = OPTION_HIDDEN},
    {"max-time", 0, "[D-]HH:MM:SS",
     "Save a checkpoint and exit with status 75 after this time, but not before a step is done (run.max_time)", 1,
     .parse = parse_key},
    {"stop-after", 0, "STEP",
     "Save a checkpoint and exit with status 75 after this step; the same command without it continues", 1,
     CHARL__CLI_INT(charl__train_args, stop_after, 1, INT64_MAX)},
    {.help = "Checking", .group = 2},
    {"dry-run", 'n', NULL, "Open the data, select devices, compile the model and print the plan, without training", 2,
     CHARL__CLI_FLAG(charl__train_args, dry_run)},
    {"fast-dev-run", 0, "N", "Run N (default 5) training and validation steps; write no files", 2,
     .parse = parse_fast_dev_run, .flags = OPTION_ARG_OPTIONAL},
    {"overfit-batch", 0, NULL, "Train on the first batch only (the loss should approach 0); write no files", 2,
     CHARL__CLI_FLAG(charl__train_args, overfit_batch)},
    {"simulate-ranks", 0, "N",
     "Run N ranks as threads of this process on one device, bit-identical to N processes; "
     "2x4: 2 nodes of 4 ranks",
     2, .parse = parse_simulated},
    {"chaos", 0, "SEED",
     "With --simulate-ranks: train in DIR-chaos, where DIR is the run directory, while faults drawn from SEED kill or "
     "stall ranks, slow "
     "down messages, fill the disk and so on; restart after each, and compare the result with an undisturbed run. "
     "1-100: each of these "
     "seeds",
     2, .parse = parse_chaos},
    {"print-config", 0, NULL, "Print the effective configuration with the origin of each value", 2,
     CHARL__CLI_SET(charl__train_args, action, CHARL__TRAIN_PRINT_CONFIG)},
    {"help-config", 0, "SECTION", "Describe all keys: type, default, meaning", 2, .parse = parse_help_config,
     .flags = OPTION_ARG_OPTIONAL},
    {"list-devices", 0, NULL, "List OpenCL devices and their indices", 2,
     CHARL__CLI_SET(charl__train_args, action, CHARL__TRAIN_LIST_DEVICES)},
    {"env", 0, "json", "Print versions, devices and environment (for bug reports)", 2, .parse = parse_env,
     .flags = OPTION_ARG_OPTIONAL},
    {.help = "Output", .group = 3},
    {"log-ranks", 0, "RANKS",
     "Also log these ranks: all, or a list such as 1,4-7. Their lines go to the output, with the rank in front, and to "
     "train-rankN.log (default: 0)",
     3, .parse = parse_log_ranks},
    {"trace", 0, "FILE",
     "Write a time line of some steps for Perfetto: kernels, copies, all-reduce, input and host of all ranks (default: "
     "trace.json in the run "
     "directory)",
     3, .parse = parse_trace, .flags = OPTION_ARG_OPTIONAL},
    {"profile", 0, NULL, "Print the time of layers and kernels in some steps, next to the limits of the device", 3,
     CHARL__CLI_FLAG(charl__train_args, profile)},
    {"trace-steps", 0, "A-B", "Steps for --trace and --profile (default: ten steps after the first ten)", 3,
     .parse = parse_trace_steps},
    {"progress", 0, "auto|bar|plain|none", "How progress is shown", 3,
     CHARL__CLI_CHOICE(charl__train_args, progress, CHARL__PROGRESS_AUTO)},
    {"color", 0, "auto|never|always", "Colored output (default: auto; NO_COLOR is respected)", 3,
     CHARL__CLI_CHOICE(charl__train_args, color, -1)},
    {"quiet", 'q', NULL, "Print errors and warnings only", 3, CHARL__CLI_SET(charl__train_args, verbosity, -1)},
    {"verbose", 'v', NULL, "Print every line of the log, and whole lines (without it a few a second, of 80 columns)", 3,
     CHARL__CLI_SET(charl__train_args, verbosity, 1)},
    {"version", 'V', NULL, "Print versions and features", 4,
     CHARL__CLI_SET(charl__train_args, action, CHARL__TRAIN_VERSION)},
    {0}};

int charl__train_parse(int argc, char **argv, charl__train_args *out)
{
    static const charl__cli_syntax syntax = {
        .options = options,
        .operands = "CONFIG [SECTION.KEY=VALUE...]",
        .help = "Train the model described by CONFIG. `mpirun -n 4 charl-train CONFIG` trains it on four ranks, with "
                "the same result.\vExit status: 0 success, 1 internal error, 2 usage or configuration, 3 data, 4 "
                "device, 5 checkpoint, 6 diverged, 7 rank lost, 8 disk, 9 an audit found wrong values, 75 stopped on "
                "request (the same command continues)."};
    charl__cli_operands operands = {.max = 1 + CHARL__MAX_OVERRIDES, .check = parse_operands};
    char **words = NULL;
    int code;

    *out = (charl__train_args){.color = -1, .chaos_last = -1};
    if (charl__cli_alloc(argc, sizeof *words, &words) != CHARL_OK) {
        charl__cli_error(0, NULL, "%s", charl_error_message());
        return CHARL__EXIT_USAGE;
    }
    memcpy(words, argv, (size_t)argc * sizeof *words);
    out->argv = words;
    out->argc = argc;
    code = charl__cli_parse("charl-train", &syntax, &operands, argc, argv, out);
    out->argv = NULL;
    out->argc = 0;
    free(words);
    return code;
}

void charl__train_args_fini(charl__train_args *a)
{
    for (int i = 0; i < a->n_made; i++) {
        free(a->made[i]);
    }
    a->n_made = 0;
}
