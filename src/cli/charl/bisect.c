/* charl bisect: find where two runs diverge. */
#include <stdio.h>

#include <charl/api.h>
#include <charl/replay.h>
#include "cli/charl/commands.h"

enum { KEY_DEVICE_1 = 0x100, KEY_DEVICE_2 };

static error_t parse_bisect(int key, char *arg, struct argp_state *state)
{
    charl_bisect_options *o = state->input;

    switch (key) {
    case 'u':
        return charl__cli_parse_int("--until", arg, 1, INT64_MAX, &o->until);
    case KEY_DEVICE_1:
    case KEY_DEVICE_2:
        o->device[key - KEY_DEVICE_1] = arg;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static void warned(void *ctx, const char *text)
{
    (void)ctx;
    charl__cli_say("warning", text);
}

int charl__bisect_main(const char *path, int argc, char **argv)
{
    static const struct argp_option options[] = {
        {"until", 'u', "N", 0, "Compare the steps up to N, though there may be no checkpoint of it", 0},
        {"device1", KEY_DEVICE_1, "SELECT", 0, "Device to replay the first run on, as device.select has it", 0},
        {"device2", KEY_DEVICE_2, "SELECT", 0, "Device to replay the second run on", 0},
        {0}};
    static const struct argp argp = {
        options,
        parse_bisect,
        "RUN1 RUN2",
        "Find the first step in which two runs differ, and what of it differs first: the learning rate, rows, losses "
        "of samples, gradients or "
        "weights. Compares the checkpoints of both run directories, and then replays both from the last one that is "
        "the same. RUN1 and RUN2 "
        "can also be files that `charl replay --checksums` has written, on other machines or by other versions. "
        "The exit status is 0 if there is no difference and 1 if there is one.",
        NULL,
        NULL,
        NULL};
    charl__cli_operands operands = {.names = {"RUN1", "RUN2"}};
    charl_bisect_options o = {.warned = warned, .compiling = charl__cli_compiling_show};
    charl_bisect_result result;
    charl_status st;
    int code = charl__cli_parse(path, &argp, &operands, argc, argv, &o);

    if (code >= 0) {
        return code;
    }
    code = charl__cli_limits();
    if (code != CHARL__EXIT_OK) {
        return code;
    }
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
