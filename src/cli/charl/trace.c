/* charl trace: time lines that charl-train --trace has written. */
#include <limits.h>
#include <stdio.h>

#include <charl/report.h>
#include "cli/charl/commands.h"

static error_t parse_merge(int key, char *arg, struct argp_state *state)
{
    const char **output = state->input;

    if (key != 'o') {
        return ARGP_ERR_UNKNOWN;
    }
    *output = arg;
    return 0;
}

int charl__trace_merge_main(const char *path, int argc, char **argv)
{
    static const struct argp_option keys[] = {{"output", 'o', "FILE", 0, "The time line (default: trace.json)", 0},
                                              {0}};
    static const struct argp argp = {keys,
                                     parse_merge,
                                     "FILE...",
                                     "Put time lines of several runs, or of several parts of one, into one file. Their "
                                     "times are placed by the clocks of the machines "
                                     "of their first ranks.",
                                     NULL,
                                     NULL,
                                     NULL};
    charl__cli_operands operands = {.names = {"FILE"}, .max = INT_MAX};
    const char *output = "trace.json";
    charl_status st;
    const int code = charl__cli_parse(path, &argp, &operands, argc, argv, &output);

    if (code >= 0) {
        return code;
    }
    st = charl_trace_merge((const char *const *)operands.values, operands.count, output);
    if (st != CHARL_OK) {
        return charl__cli_fail(st);
    }
    charl__cli_put(output, 0);
    printf(": %d time line%s\n", operands.count, operands.count == 1 ? "" : "s");
    return CHARL__EXIT_OK;
}
