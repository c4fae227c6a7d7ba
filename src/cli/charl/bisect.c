/* charl bisect: find where two runs diverge. */

#include <charl/replay.h>
#include "cli/charl/commands.h"

int charl__bisect_main(const char *path, int argc, char **argv)
{
    static const charl__cli_option options[] = {
        {"until", 'u', "N", "Compare the steps up to N, though there may be no checkpoint of it", 0,
         CHARL__CLI_INT(charl_bisect_options, until, 1, INT64_MAX)},
        {"device1", 0, "SELECT", "Device to replay the first run on, as device.select has it", 0,
         CHARL__CLI_TEXT(charl_bisect_options, device[0])},
        {"device2", 0, "SELECT", "Device to replay the second run on", 0,
         CHARL__CLI_TEXT(charl_bisect_options, device[1])},
        {0}};
    static const charl__cli_syntax syntax = {
        options, "RUN1 RUN2 [SECTION.KEY=VALUE...]",
        "Find the first step in which two runs differ, and what of it differs first: the learning rate, rows, losses "
        "of samples, gradients or weights. Compares the checkpoints of both run directories, and then replays both "
        "from the last one that is the same. RUN1 and RUN2 can also be configuration files, whose trainings are "
        "computed from the beginning, or files that `charl replay --checksums` has written, on other machines or by "
        "other versions. Settings, such as data.path where the data have moved, are for both replays. The exit status "
        "is 0 if there is no difference and 1 if there is one."};
    charl__cli_operands operands = {.names = {"RUN1", "RUN2"}, .max = 2 + CHARL__CLI_OVERRIDES};
    charl_config_override overrides[CHARL__CLI_OVERRIDES];
    charl_bisect_options o = {sizeof o, .warned = charl__cli_warn, .compiling = charl__cli_compiling_show};
    charl_bisect_result result;
    charl_status st;
    int code = charl__cli_parse(path, &syntax, &operands, argc, argv, &o);

    if (code >= 0) {
        return code;
    }
    charl__runs_of(operands.values, 2);
    code = charl__cli_limits();
    if (code != CHARL__EXIT_OK) {
        return code;
    }
    o.overrides = overrides;
    o.n_overrides = charl__cli_overrides(&operands, 2, overrides);
    st = charl_bisect(operands.values[0], operands.values[1], &o, &result);
    charl__cli_compiling_done();
    if (st == CHARL_OK) {
        charl__cli_put(result.text, 0);
        code = result.what == CHARL_BISECT_NOTHING ? CHARL__EXIT_OK : CHARL__EXIT_INTERNAL;
    } else {
        code = charl__cli_fail(st);
    }
    charl_bisect_result_fini(&result);
    return code;
}
