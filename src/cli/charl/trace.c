/* charl trace: timelines written by charl-train --trace. */
#include <limits.h>
#include <stdio.h>

#include <charl/report.h>
#include "cli/charl/commands.h"

typedef struct merge {
    const char *output;
} merge;

int charl__trace_merge_main(const char *path, int argc, char **argv)
{
    static const charl__cli_option keys[] = {
        {"output", 'o', "FILE", "The time line (default: trace.json)", 0, CHARL__CLI_TEXT(merge, output)}, {0}};
    static const charl__cli_syntax syntax = {
        keys, "FILE...",
        "Merge the traces of several runs, or of several parts of one run, into one file. Their times are aligned by "
        "the clocks of the machines of their first ranks."};
    charl__cli_operands operands = {.names = {"FILE"}, .max = INT_MAX};
    merge m = {.output = "trace.json"};
    charl_status st;
    const int code = charl__cli_parse(path, &syntax, &operands, argc, argv, &m);

    if (code >= 0) {
        return code;
    }
    st = charl_trace_merge((const char *const *)operands.values, operands.count, m.output);
    if (st != CHARL_OK) {
        return charl__cli_fail(st);
    }
    charl__cli_put(m.output, 0);
    printf(": %d time line%s\n", operands.count, operands.count == 1 ? "" : "s");
    return CHARL__EXIT_OK;
}
