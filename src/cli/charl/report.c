/* charl report and charl compare: runs side by side, as a page and as tables. */
#include <limits.h>
#include <stdio.h>

#include <charl/api.h>
#include <charl/config.h>
#include <charl/report.h>
#include "cli/charl/commands.h"

typedef struct report {
    const char *output;
} report;

static bool is_result(void *ctx, const char *key)
{
    (void)ctx;
    return charl_config_key_is_result(key);
}

typedef struct comparison {
    bool by_seed;
    const char *metric, *reference;
} comparison;

int charl__report_main(const char *path, int argc, char **argv)
{
    static const charl__cli_option keys[] = {
        {"output", 'o', "FILE", "The page (default: report.html). An existing page is replaced, another file is not", 0,
         CHARL__CLI_TEXT(report, output)},
        {0}};
    static const charl__cli_syntax syntax = {
        keys, "RUN...",
        "Write one page with the curves of runs, their values, times, differences and checkpoints. RUN is a run "
        "directory, such as runs/mnist. The page needs no network and no server."};
    charl__cli_operands operands = {.names = {"RUN"}, .max = INT_MAX};
    report o = {.output = "report.html"};
    charl_status st;
    const int code = charl__cli_parse(path, &syntax, &operands, argc, argv, &o);

    if (code >= 0) {
        return code;
    }
    charl__runs_of(operands.values, operands.count);
    st = charl_report_write((const char *const *)operands.values, operands.count, o.output);
    if (st != CHARL_OK) {
        return charl__cli_fail(st);
    }
    charl__cli_put(o.output, 0);
    printf(": %d run%s\n", operands.count, operands.count == 1 ? "" : "s");
    return CHARL__EXIT_OK;
}

int charl__compare_main(const char *path, int argc, char **argv)
{
    static const charl__cli_option keys[] = {{"seeds", 's', NULL,
                                              "Compare configurations over several seeds, run by run of the same seed",
                                              0, CHARL__CLI_FLAG(comparison, by_seed)},
                                             {"metric", 'm', "NAME",
                                              "With --seeds, compare this metric, such as val/accuracy or train/loss "
                                              "(default: checkpoint.monitor)",
                                              0, CHARL__CLI_TEXT(comparison, metric)},
                                             {"reference", 'r', "RUN",
                                              "With --seeds, compare with the configuration of this run (default: that "
                                              "of the first)",
                                              0, CHARL__CLI_TEXT(comparison, reference)},
                                             {0}};
    static const charl__cli_syntax syntax = {
        keys, "RUN...",
        "Print final and best values, times and differing configuration keys of runs. RUN is a run directory, such as "
        "runs/mnist. With --seeds, runs that differ in run.seed only are one configuration. Mean and standard "
        "deviation "
        "of the monitored metric are printed for each, and each is compared with that of the first run: mean "
        "difference between runs of equal seed, with its 95 % confidence interval (Student's t), and the interval that "
        "ignores the pairing."};
    charl__cli_operands operands = {.names = {"RUN"}, .max = INT_MAX};
    comparison c = {0};
    charl_report_compare_options o = {sizeof o, .by_seed = is_result};
    char *text = NULL;
    charl_status st;
    const int code = charl__cli_parse(path, &syntax, &operands, argc, argv, &c);

    if (code >= 0) {
        return code;
    }
    charl__runs_of(operands.values, operands.count);
    if (!c.by_seed && (c.metric || c.reference)) {
        return charl__cli_error(CHARL__EXIT_USAGE, NULL, "%s needs --seeds", c.metric ? "--metric" : "--reference");
    }
    o.metric = c.metric;
    o.reference = c.reference;
    st = charl_report_compare((const char *const *)operands.values, operands.count, c.by_seed ? &o : NULL, &text);
    if (st != CHARL_OK) {
        return charl__cli_fail(st);
    }
    charl__cli_put(text, 0);
    charl_free(text);
    return CHARL__EXIT_OK;
}
