/* charl influence: what some rows did to a run. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <charl/replay.h>
#include "cli/charl/commands.h"

typedef struct request {
    charl_replay_options options;
    const char *rows, *split;
} request;

static charl_status started(void *ctx, const charl_replay_start *start)
{
    (void)ctx;
    charl__cli_compiling_done();
    fprintf(stderr, "# without these rows, from %s, on %s\n",
            start->checkpoint[0] ? start->checkpoint : "the beginning", start->device->name);
    return CHARL_OK;
}

static void print_line(const char *name, double with, double without, bool fraction)
{
    printf(fraction ? "%-16s  %12.6f  %12.6f  %+12.6f\n" : "%-16s  %12.9g  %12.9g  %+12.4g\n", name, with, without,
           with - without);
}

static void print_result(const request *r, const charl_influence_result *out)
{
    char title[64];

    snprintf(title, sizeof title, "%.40s, step %" PRId64, r->split, out->step);
    printf("%-16s  %12s  %12s  %12s\n", title, "with", "without", "difference");
    print_line("loss", out->run.loss, out->without.loss, false);
    for (int i = 0; i < out->run.n_metrics; i++) {
        const charl_metric_value *m = &out->run.metrics[i];

        print_line(m->name, m->value, charl_metric_get(out->without.metrics, out->without.n_metrics, m->name),
                   m->fraction);
    }
}

int charl__influence_main(const char *path, int argc, char **argv)
{
    static const charl__cli_option options[] = {
        {"rows", 'r', "LIST", "The rows, numbers from 0 of the training split with commas between them; required", 0,
         CHARL__CLI_TEXT(request, rows)},
        {"split", 's', "NAME", "Evaluate on val (default), train or test", 0, CHARL__CLI_TEXT(request, split)},
        {"device", 'd', "SELECT", "Device to use, as device.select has it (see `charl devices`)", 0,
         CHARL__CLI_TEXT(request, options.device)},
        {0}};
    static const charl__cli_syntax syntax = {
        options, "RUN --rows LIST [SECTION.KEY=VALUE...]",
        "Print what some training rows did to the run in directory RUN: loss and metrics after its last step, with the "
        "rows and as they would be if the rows had weighed nothing from the start. The training without them is "
        "computed exactly, on one device, from the newest checkpoint from before the first step that takes one of "
        "them, "
        "as `charl forget` does. The difference is what the rows added: a loss below 0 in that column was lowered by "
        "them.\vRows whose effect cannot be removed are refused, as by `charl forget`: see there. Writes nothing to "
        "RUN; "
        "a checkpoint is written to TMPDIR meanwhile. data.path=FILE names data that have moved."};
    charl__cli_operands operands = {.names = {"RUN"}, .max = 1 + CHARL__CLI_OVERRIDES};
    charl_config_override overrides[CHARL__CLI_OVERRIDES];
    request r = {.options = {sizeof r.options, .started = started, .warned = charl__cli_warn,
                             .compiling = charl__cli_compiling_show},
                 .split = "val"};
    charl_influence_result result;
    charl_status st;
    int code = charl__cli_parse(path, &syntax, &operands, argc, argv, &r);

    if (code >= 0) {
        return code;
    }
    charl__runs_of(operands.values, 1);
    if (!r.rows) {
        return charl__cli_error(CHARL__EXIT_USAGE, NULL, "%s: --rows LIST is missing", path);
    }
    code = charl__cli_limits();
    if (code != CHARL__EXIT_OK) {
        return code;
    }
    r.options.overrides = overrides;
    r.options.n_overrides = charl__cli_overrides(&operands, 1, overrides);
    st = charl_influence(operands.values[0], r.rows, r.split, &r.options, &result);
    charl__cli_compiling_done();
    if (st != CHARL_OK) {
        return charl__cli_fail(st);
    }
    if (result.first == 0) {
        printf("no step takes one of these rows: the run is already what it would be without them\n");
        return CHARL__EXIT_OK;
    }
    print_result(&r, &result);
    return CHARL__EXIT_OK;
}
