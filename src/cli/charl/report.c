/* charl report and charl compare: runs side by side, on a page and as tables. */
#include <limits.h>
#include <stdio.h>

#include <charl/api.h>
#include <charl/report.h>
#include "cli/charl/commands.h"

typedef struct options {
    const char *output;
} options;

static error_t parse_report(int key, char *arg, struct argp_state *state)
{
    options *o = state->input;

    if (key != 'o') {
        return ARGP_ERR_UNKNOWN;
    }
    o->output = arg;
    return 0;
}

int charl__report_main(const char *path, int argc, char **argv)
{
    static const struct argp_option keys[] = {{"output", 'o', "FILE", 0, "The page (default: report.html)", 0}, {0}};
    static const struct argp argp = {
        keys,
        parse_report,
        "RUN...",
        "Write one page with the curves of runs, their values, times, differences and checkpoints. "
        "RUN is a run "
        "directory, such as runs/mnist. The page needs no network and no server.",
        NULL,
        NULL,
        NULL};
    charl__cli_operands operands = {.names = {"RUN"}, .max = INT_MAX};
    options o = {.output = "report.html"};
    charl_status st;
    const int code = charl__cli_parse(path, &argp, &operands, argc, argv, &o);

    if (code >= 0) {
        return code;
    }
    st = charl_report_write((const char *const *)operands.values, operands.count, o.output);
    if (st != CHARL_OK) {
        return charl__cli_fail(st);
    }
    charl__cli_put(o.output, 0);
    printf(": %d run%s\n", operands.count, operands.count == 1 ? "" : "s");
    return CHARL__EXIT_OK;
}

static error_t parse_compare(int key, char *arg, struct argp_state *state)
{
    bool *by_seed = state->input;

    (void)arg;
    if (key != 's') {
        return ARGP_ERR_UNKNOWN;
    }
    *by_seed = true;
    return 0;
}

int charl__compare_main(const char *path, int argc, char **argv)
{
    static const struct argp_option keys[] = {
        {"seeds", 's', NULL, 0, "Compare configurations over several seeds, run by run of the same seed", 0}, {0}};
    static const struct argp argp = {
        keys,
        parse_compare,
        "RUN...",
        "Print final and best values, times and differing configuration keys of runs. RUN is a run "
        "directory, such as runs/mnist. "
        "With --seeds, runs that differ in run.seed only are one configuration, and each "
        "configuration is compared with that of the "
        "first run: mean difference of the monitored metric between runs of equal seed, with its "
        "95 % confidence interval "
        "(Student's t), beside the interval that ignores the pairing.",
        NULL,
        NULL,
        NULL};
    charl__cli_operands operands = {.names = {"RUN"}, .max = INT_MAX};
    bool by_seed = false;
    char *text = NULL;
    charl_status st;
    const int code = charl__cli_parse(path, &argp, &operands, argc, argv, &by_seed);

    if (code >= 0) {
        return code;
    }
    st = charl_compare_runs((const char *const *)operands.values, operands.count, by_seed, &text);
    if (st != CHARL_OK) {
        return charl__cli_fail(st);
    }
    charl__cli_put(text, 0);
    charl_free(text);
    return CHARL__EXIT_OK;
}
