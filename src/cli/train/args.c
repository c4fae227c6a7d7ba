/* The command line of charl-train. */
#include <argp.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <charl/slices.h>
#include "cli/train/train.h"
#include "cli/cli.h"

enum {
    OPT_INIT_FROM = 256,
    OPT_OVERWRITE,
    OPT_SUSPECT,
    OPT_MAX_TIME,
    OPT_FAST_DEV_RUN,
    OPT_OVERFIT,
    OPT_SIMULATE,
    OPT_PRINT_CONFIG,
    OPT_HELP_CONFIG,
    OPT_LIST_DEVICES,
    OPT_ENV,
    OPT_LOG_RANKS,
    OPT_TRACE,
    OPT_TRACE_STEPS,
    OPT_PROFILE,
    OPT_PROGRESS,
    OPT_COLOR
};

static const struct argp_option options[] = {
    {0, 0, 0, 0, "Running", 1},
    {"set", 's', "SECTION.KEY=VALUE", 0,
     "Override a key (same as SECTION.KEY=VALUE as an operand; repeatable, the last one wins)", 1},
    {"output-dir", 'o', "DIR", 0, "Run directory (run.output_dir)", 1},
    {"resume", 'r', "WHAT", OPTION_ARG_OPTIONAL,
     "auto (default for WHAT), never, must, or a checkpoint file (run.resume)", 1},
    {"init-from", OPT_INIT_FROM, "FILE", 0,
     "Start from the weights of a checkpoint, a .safetensors file or a folder of them (init.from)", 1},
    {"suspect", OPT_SUSPECT, "FILE", OPTION_HIDDEN, "For charl launch: write the host that an audit names into FILE",
     1},
    {"overwrite", OPT_OVERWRITE, 0, 0, "Start a new run in a directory that contains another", 1},
    {"max-time", OPT_MAX_TIME, "[D-]HH:MM:SS", 0,
     "Save a checkpoint and exit with status 75 after this time (run.max_time)", 1},
    {0, 0, 0, 0, "Checking", 2},
    {"dry-run", 'n', 0, 0, "Open the data, select devices, compile the model and print the plan, without training", 2},
    {"fast-dev-run", OPT_FAST_DEV_RUN, "N", OPTION_ARG_OPTIONAL,
     "Run N (default 5) training and validation steps; write no files", 2},
    {"overfit-batch", OPT_OVERFIT, 0, 0, "Train on the first batch only (the loss should approach 0); write no files",
     2},
    {"simulate-ranks", OPT_SIMULATE, "N", 0,
     "Run N ranks as threads of this process on one device, bit-identical to N processes; "
     "2x4: 2 nodes of 4 ranks",
     2},
    {"print-config", OPT_PRINT_CONFIG, 0, 0, "Print the effective configuration with the origin of each value", 2},
    {"help-config", OPT_HELP_CONFIG, "SECTION", OPTION_ARG_OPTIONAL, "Describe all keys: type, default, meaning", 2},
    {"list-devices", OPT_LIST_DEVICES, 0, 0, "List OpenCL devices and their indices", 2},
    {"env", OPT_ENV, "json", OPTION_ARG_OPTIONAL, "Print versions, devices and environment (for bug reports)", 2},
    {0, 0, 0, 0, "Output", 3},
    {"log-ranks", OPT_LOG_RANKS, "RANKS", 0,
     "Also log these ranks: all, or a list such as 1,4-7. Their lines go to the output, with the rank in front, and to "
     "train-rankN.log (default: 0)",
     3},
    {"trace", OPT_TRACE, "FILE", OPTION_ARG_OPTIONAL,
     "Write a time line of some steps for Perfetto: kernels, copies, all-reduce, input and host of all ranks (default: "
     "trace.json in the run "
     "directory)",
     3},
    {"profile", OPT_PROFILE, 0, 0,
     "Print the time of layers and kernels in some steps, next to the limits of the device", 3},
    {"trace-steps", OPT_TRACE_STEPS, "A-B", 0,
     "Steps for --trace and --profile (default: ten steps after the first ten)", 3},
    {"progress", OPT_PROGRESS, "STYLE", 0, "auto, bar, plain or none", 3},
    {"color", OPT_COLOR, "WHEN", 0, "auto, always or never (NO_COLOR is respected)", 3},
    {"quiet", 'q', 0, 0, "Print errors and warnings only", 3},
    {"verbose", 'v', 0, 0, "Print more", 3},
    {0, 0, 0, 0, 0, 4},
    {"version", 'V', 0, 0, "Print versions and features", 4},
    {0},
};

static error_t add_override(charl__train_args *a, const char *text, const char *origin)
{
    if (a->n_overrides == CHARL__MAX_OVERRIDES) {
        charl__cli_error(0, NULL, "more than %d overrides", CHARL__MAX_OVERRIDES);
        return EINVAL;
    }
    a->overrides[a->n_overrides++] = (charl_config_override){text, origin};
    return 0;
}

/* An option that stands for a key. */
static error_t add_key(charl__train_args *a, const char *key, const char *value, const char *origin)
{
    const size_t bytes = strlen(key) + strlen(value) + 2;
    char *text = NULL;

    if (a->n_made == CHARL__MAX_OVERRIDES) {
        return add_override(a, "", origin); /* there are that many already */
    }
    if (charl__cli_alloc((int64_t)bytes, 1, &text) != CHARL_OK) {
        charl__cli_error(0, NULL, "%s", charl_error_message());
        return ENOMEM;
    }
    snprintf(text, bytes, "%s=%s", key, value);
    a->made[a->n_made++] = text;
    return add_override(a, text, origin);
}

/* *out: the index of value in names, which `want` lists. */
static error_t choose(const char *option, const char *value, const char *const *names, int n, const char *want,
                      int *out)
{
    for (int i = 0; i < n; i++) {
        if (strcmp(names[i], value) == 0) {
            *out = i;
            return 0;
        }
    }
    return charl__cli_bad_option(option, value, want);
}

static error_t set_fast_dev_run(charl__train_args *a, const char *arg)
{
    int64_t n = 5;

    if (arg && charl__cli_parse_int("--fast-dev-run", arg, 1, 1000000, &n) != 0) {
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
static error_t set_log_ranks(charl__train_args *a, const char *arg)
{
    const char *at = arg;
    bool is_good = arg[0] != '\0';

    a->log_ranks = arg;
    if (strcmp(arg, "all") == 0) {
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
    return is_good ? 0 : charl__cli_bad_option("--log-ranks", arg, "must be all or ranks, as in 1,4-7");
}

/* "11-20", or "11" */
static error_t set_trace_steps(charl__train_args *a, const char *arg)
{
    char *end = NULL;

    errno = 0;
    a->trace_first = a->trace_last = strtoll(arg, &end, 10);
    if (*end == '-' && end > arg) {
        arg = end + 1;
        a->trace_last = strtoll(arg, &end, 10);
    }
    if (*end || end == arg || errno != 0 || a->trace_first < 1 || a->trace_last < a->trace_first) {
        return charl__cli_bad_option("--trace-steps", arg, "must be steps, as in 11-20 or 11; the first step is 1");
    }
    return 0;
}

/* "6", or "2x3". */
static error_t set_simulated(charl__train_args *a, const char *arg)
{
    char *end = NULL;
    const char *number = arg;
    long nodes = 1, each = strtol(arg, &end, 10);
    const bool has_nodes = *end == 'x';

    if (has_nodes) {
        number = end + 1;
        nodes = each;
        each = strtol(number, &end, 10);
    }
    if (*end || end == number || nodes < 1 || each < 1 || nodes > CHARL_MAX_SLICES || each > CHARL_MAX_SLICES / nodes) {
        char want[64];

        snprintf(want, sizeof want, "must be 1 to %d ranks, as in 6 or 2x3", CHARL_MAX_SLICES);
        return charl__cli_bad_option("--simulate-ranks", arg, want);
    }
    a->simulate_ranks = (int)(nodes * each);
    a->simulate_ranks_per_node = has_nodes ? (int)each : 0;
    return 0;
}

/* CONFIG and overrides, in any order. */
static error_t take_operands(const charl__cli_operands *o, void *input)
{
    charl__train_args *a = input;

    for (int i = 0; i < o->count; i++) {
        const char *arg = o->values[i];

        if (strchr(arg, '=')) {
            if (add_override(a, arg, NULL) != 0) {
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
    if (!a->config && (a->action == CHARL__TRAIN_RUN || a->action == CHARL__TRAIN_PRINT_CONFIG)) {
        charl__cli_error(0, NULL, "no configuration file (launch/ has examples)");
        return EINVAL;
    }
    return 0;
}

static error_t parse_check(int key, const char *arg, charl__train_args *a)
{
    static const char *const styles[] = {"auto", "bar", "plain", "none"};
    static const char *const colors[] = {"never", "always", "auto"};
    int at = 0;
    error_t err;

    switch (key) {
    case OPT_SIMULATE:
        return set_simulated(a, arg);
    case OPT_PRINT_CONFIG:
        a->action = CHARL__TRAIN_PRINT_CONFIG;
        return 0;
    case OPT_HELP_CONFIG:
        a->action = CHARL__TRAIN_HELP_CONFIG;
        a->section = arg;
        return 0;
    case OPT_LIST_DEVICES:
        a->action = CHARL__TRAIN_LIST_DEVICES;
        return 0;
    case OPT_ENV:
        a->action = CHARL__TRAIN_ENV;
        a->json = arg && strcmp(arg, "json") == 0;
        return arg && !a->json ? charl__cli_bad_option("--env", arg, "must be json") : 0;
    case OPT_LOG_RANKS:
        return set_log_ranks(a, arg);
    case OPT_TRACE:
        a->trace = arg ? arg : "";
        return arg && !arg[0] ? charl__cli_bad_option("--trace", arg, "must be a file") : 0;
    case OPT_TRACE_STEPS:
        return set_trace_steps(a, arg);
    case OPT_PROFILE:
        a->profile = true;
        return 0;
    case OPT_PROGRESS:
        err = choose("--progress", arg, styles, 4, "must be auto, bar, plain or none", &at);
        a->progress = (charl__progress_style)at;
        return err;
    case OPT_COLOR:
        err = choose("--color", arg, colors, 3, "must be auto, always or never", &at);
        a->color = at == 2 ? -1 : at;
        return err;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    charl__train_args *a = state->input;

    switch (key) {
    case 's':
        return add_override(a, arg, "--set");
    case 'o':
        return add_key(a, "run.output_dir", arg, "--output-dir");
    case 'r':
        return add_key(a, "run.resume", arg ? arg : "auto", "--resume");
    case OPT_INIT_FROM:
        return add_key(a, "init.from", arg, "--init-from");
    case OPT_OVERWRITE:
        a->overwrite = true;
        return 0;
    case OPT_SUSPECT:
        a->suspect = arg;
        return 0;
    case OPT_MAX_TIME:
        return add_key(a, "run.max_time", arg, "--max-time");
    case 'n':
        a->dry_run = true;
        return 0;
    case OPT_FAST_DEV_RUN:
        return set_fast_dev_run(a, arg);
    case OPT_OVERFIT:
        a->overfit_batch = true;
        return 0;
    case 'q':
        a->verbosity = -1;
        return 0;
    case 'v':
        a->verbosity = 1;
        return 0;
    case 'V':
        a->action = CHARL__TRAIN_VERSION;
        return 0;
    default:
        return parse_check(key, arg, a);
    }
}

int charl__train_parse(int argc, char **argv, charl__train_args *out)
{
    static const struct argp argp = {
        .options = options,
        .parser = parse_option,
        .args_doc = "CONFIG [SECTION.KEY=VALUE...]",
        .doc = "Train the model described by CONFIG. `mpirun -n 4 charl-train CONFIG` trains it on "
               "four ranks, with the same result."
               "\vExit status: 0 success, 2 usage or configuration, 3 data, 4 device, "
               "5 checkpoint, 6 diverged, 7 rank lost, 8 disk, 75 stopped on request (the same "
               "command continues).",
    };
    charl__cli_operands operands = {.max = 1 + CHARL__MAX_OVERRIDES, .take = take_operands};

    *out = (charl__train_args){.color = -1};
    return charl__cli_parse("charl-train", &argp, &operands, argc, argv, out);
}

void charl__train_args_fini(charl__train_args *a)
{
    for (int i = 0; i < a->n_made; i++) {
        free(a->made[i]);
    }
    a->n_made = 0;
}
