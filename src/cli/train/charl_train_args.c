/* The command line of charl-train. */
#include <argp.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/tree.h"
#include "cli/train/charl_train.h"
#include "cli/cli.h"

enum {
    OPT_INIT_FROM = 256,
    OPT_OVERWRITE,
    OPT_MAX_TIME,
    OPT_FAST_DEV_RUN,
    OPT_OVERFIT,
    OPT_SIMULATE,
    OPT_PRINT_CONFIG,
    OPT_HELP_CONFIG,
    OPT_LIST_DEVICES,
    OPT_ENV,
    OPT_PROGRESS,
    OPT_COLOR
};

static const struct argp_option options[] = {
    {0, 0, 0, 0, "Running", 1},
    {"set", 's', "SECTION.KEY=VALUE", 0,
     "override one value (same as the bare form; repeatable; last wins)", 1},
    {"output-dir", 'o', "DIR", 0, "run directory (run.output_dir)", 1},
    {"resume", 'r', "WHAT", OPTION_ARG_OPTIONAL,
     "auto (when WHAT is left out), never, must, or a checkpoint file", 1},
    {"init-from", OPT_INIT_FROM, "FILE", 0,
     "start from the weights of this checkpoint or .safetensors file only", 1},
    {"overwrite", OPT_OVERWRITE, 0, 0, "start afresh in a directory that holds a run", 1},
    {"max-time", OPT_MAX_TIME, "[D-]HH:MM:SS", 0, "checkpoint and stop (exit 75) when reached", 1},
    {0, 0, 0, 0, "Checking", 2},
    {"dry-run", 'n', 0, 0,
     "open the data, pick devices, build and compile the model, print the plan; train nothing", 2},
    {"fast-dev-run", OPT_FAST_DEV_RUN, "N", OPTION_ARG_OPTIONAL,
     "N (default 5) training and validation steps, nothing written", 2},
    {"overfit-batch", OPT_OVERFIT, 0, 0,
     "train on the first batch only (the loss must go to about 0), nothing written", 2},
    {"simulate-ranks", OPT_SIMULATE, "N", 0,
     "run N ranks as threads of this process on its device, with the bits of N real ones; 2x4: on "
     "2 "
     "nodes of 4 ranks",
     2},
    {"print-config", OPT_PRINT_CONFIG, 0, 0,
     "the effective configuration with the origin of each value", 2},
    {"help-config", OPT_HELP_CONFIG, "SECTION", OPTION_ARG_OPTIONAL,
     "every key: type, default, meaning", 2},
    {"list-devices", OPT_LIST_DEVICES, 0, 0, "OpenCL devices as charl numbers them", 2},
    {"env", OPT_ENV, "json", OPTION_ARG_OPTIONAL, "environment report", 2},
    {0, 0, 0, 0, "Output", 3},
    {"progress", OPT_PROGRESS, "STYLE", 0, "auto, bar, plain or none", 3},
    {"color", OPT_COLOR, "WHEN", 0, "auto, always or never (NO_COLOR is honoured)", 3},
    {"quiet", 'q', 0, 0, "errors and warnings only", 3},
    {"verbose", 'v', 0, 0, "say more", 3},
    {0, 0, 0, 0, 0, 4},
    {"help", 'h', 0, 0, "this text", 4},
    {"version", 'V', 0, 0, "versions and features", 4},
    {0},
};

static void add_override(struct argp_state *state, charl__train_args *a, const char *text,
                         const char *origin)
{
    if (a->n_overrides == CHARL__MAX_OVERRIDES) {
        argp_error(state, "more than %d values are overridden", CHARL__MAX_OVERRIDES);
        return;
    }
    a->overrides[a->n_overrides++] = (charl_config_override){text, origin};
}

/* An option that stands for a key. */
static void add_key(struct argp_state *state, charl__train_args *a, const char *key,
                    const char *value, const char *origin)
{
    const size_t bytes = strlen(key) + strlen(value) + 2;
    char *text = NULL;

    if (charl_alloc(bytes, &text) != CHARL_OK) {
        argp_failure(state, CHARL__EXIT_DEVICE, 0, "out of memory");
        return;
    }
    snprintf(text, bytes, "%s=%s", key, value);
    if (a->n_made < CHARL__MAX_OVERRIDES) {
        a->made[a->n_made++] = text;
        add_override(state, a, text, origin);
    }
}

static int choice(struct argp_state *state, const char *option, const char *value,
                  const char *const *names, int n)
{
    for (int i = 0; i < n; i++) {
        if (strcmp(names[i], value) == 0) {
            return i;
        }
    }
    argp_error(state, "--%s: %s is not one of its values", option, value);
    return 0;
}

static void set_fast_dev_run(struct argp_state *state, charl__train_args *a, const char *arg)
{
    char *end = NULL;
    const long n = arg ? strtol(arg, &end, 10) : 5;

    if (arg && (*end || end == arg || n < 1 || n > 1000000)) {
        argp_error(state, "--fast-dev-run: %s is not a number of steps", arg);
    }
    a->fast_dev_run = (int)n;
}

/* "6", or "2x3". */
static void set_simulated(struct argp_state *state, charl__train_args *a, const char *arg)
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
    if (*end || end == number || nodes < 1 || each < 1 || nodes > CHARL_MAX_SLICES ||
        each > CHARL_MAX_SLICES / nodes) {
        argp_error(state, "--simulate-ranks: %s is not 1 to %d ranks, as in 6 or 2x3", arg,
                   CHARL_MAX_SLICES);
    }
    a->simulate_ranks = (int)(nodes * each);
    a->simulate_ranks_per_node = has_nodes ? (int)each : 0;
}

static void take_operand(struct argp_state *state, charl__train_args *a, const char *arg)
{
    if (strchr(arg, '=')) {
        add_override(state, a, arg, NULL);
    } else if (!a->config) {
        a->config = arg;
    } else {
        argp_error(state, "one configuration file, please: %s and %s", a->config, arg);
    }
}

static error_t parse_check(int key, char *arg, struct argp_state *state, charl__train_args *a)
{
    static const char *const styles[] = {"auto", "bar", "plain", "none"};
    static const char *const colors[] = {"never", "always", "auto"};
    int color;

    switch (key) {
    case OPT_SIMULATE:
        set_simulated(state, a, arg);
        return 0;
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
        if (arg && !a->json) {
            argp_error(state, "--env: %s is not json", arg);
        }
        return 0;
    case OPT_PROGRESS:
        a->progress = (charl__progress_style)choice(state, "progress", arg, styles, 4);
        return 0;
    case OPT_COLOR:
        color = choice(state, "color", arg, colors, 3);
        a->color = color == 2 ? -1 : color;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    charl__train_args *a = state->input;

    switch (key) {
    case 's':
        add_override(state, a, arg, "--set");
        return 0;
    case 'o':
        add_key(state, a, "run.output_dir", arg, "--output-dir");
        return 0;
    case 'r':
        add_key(state, a, "run.resume", arg ? arg : "auto", "--resume");
        return 0;
    case OPT_INIT_FROM:
        a->init_from = arg;
        return 0;
    case OPT_OVERWRITE:
        a->overwrite = true;
        return 0;
    case OPT_MAX_TIME:
        add_key(state, a, "run.max_time", arg, "--max-time");
        return 0;
    case 'n':
        a->dry_run = true;
        return 0;
    case OPT_FAST_DEV_RUN:
        set_fast_dev_run(state, a, arg);
        return 0;
    case OPT_OVERFIT:
        a->overfit_batch = true;
        return 0;
    case 'q':
        a->verbosity = -1;
        return 0;
    case 'v':
        a->verbosity = 1;
        return 0;
    case 'h':
        if (charl__cli_launcher_rank() != 0) {
            exit(0); /* the first rank has it printed */
        }
        argp_state_help(state, stdout, ARGP_HELP_STD_HELP);
        return 0;
    case 'V':
        a->action = CHARL__TRAIN_VERSION;
        return 0;
    case ARGP_KEY_ARG:
        take_operand(state, a, arg);
        return 0;
    case ARGP_KEY_END:
        if (!a->config &&
            (a->action == CHARL__TRAIN_RUN || a->action == CHARL__TRAIN_PRINT_CONFIG)) {
            argp_error(state, "which configuration? Give an INI file (launch/ has examples)");
        }
        return 0;
    default:
        return parse_check(key, arg, state, a);
    }
}

int charl__train_silence(void)
{
    const int real = charl__cli_launcher_rank() != 0 ? dup(STDERR_FILENO) : -1;
    const int nowhere = real >= 0 ? open("/dev/null", O_WRONLY | O_CLOEXEC) : -1;

    if (nowhere >= 0) {
        dup2(nowhere, STDERR_FILENO);
        close(nowhere);
    }
    return real;
}

void charl__train_speak(int real)
{
    if (real >= 0) {
        fflush(stderr);
        dup2(real, STDERR_FILENO);
        close(real);
    }
}

void charl__train_parse(int argc, char **argv, charl__train_args *out)
{
    static const struct argp argp = {
        .options = options,
        .parser = parse_option,
        .args_doc = "CONFIG [SECTION.KEY=VALUE...]",
        .doc = "Train the model that CONFIG describes; mpirun -n 4 charl-train CONFIG trains it on "
               "four ranks with the same result."
               "\vExit status: 0 done, 2 usage or configuration, 3 data, 4 device, 5 checkpoint, 6 "
               "diverged, 7 a rank died, "
               "8 disk, 75 stopped on purpose (the same command continues).",
    };

    *out = (charl__train_args){.color = -1};
    argp_parse(&argp, argc, argv, ARGP_NO_HELP, NULL, out);
}

void charl__train_args_fini(charl__train_args *a)
{
    for (int i = 0; i < a->n_made; i++) {
        charl_free(a->made[i]);
    }
    a->n_made = 0;
}
