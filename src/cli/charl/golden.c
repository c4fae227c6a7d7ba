/* charl golden: the hash of a training from its beginning, and whether it is still what it was. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <charl/replay.h>
#include "cli/charl/commands.h"

typedef struct request {
    int64_t steps, ranks;
    const char *out, *check, *device;
    int64_t step;  /* the last one computed */
    char hash[65]; /* of the tensors after it */
} request;

static charl_status replayed(void *ctx, const charl_replay_row *row)
{
    request *r = ctx;

    r->step = row->step;
    snprintf(r->hash, sizeof r->hash, "%s", row->tensors);
    return CHARL_OK;
}

/* Compute the training, and print the hash. */
static charl_status compute(request *r, const char *config, const charl_config_override *overrides, int n)
{
    const charl_replay_options o = {sizeof o,
                                    .step = 1,
                                    .until = r->steps > 0 ? r->steps : CHARL_REPLAY_END,
                                    .ranks = (int)r->ranks,
                                    .tensors = true,
                                    .checksums = r->out,
                                    .device = r->device,
                                    .overrides = overrides,
                                    .n_overrides = n,
                                    .ctx = r,
                                    .replayed = replayed,
                                    .warned = charl__cli_warn,
                                    .compiling = charl__cli_compiling_show};

    CHARL_TRY(charl_replay(config, &o));
    charl__cli_compiling_done();
    printf("step=%" PRId64 " tensors=%s\n", r->step, r->hash);
    return CHARL_OK;
}

/* Compute it up to the last step of r->check, and print what differs. */
static charl_status compare(const request *r, const char *config, const charl_config_override *overrides, int n,
                            bool *same)
{
    const charl_bisect_options o = {sizeof o,
                                    .device = {NULL, r->device},
                                    .ranks = (int)r->ranks,
                                    .overrides = overrides,
                                    .n_overrides = n,
                                    .warned = charl__cli_warn,
                                    .compiling = charl__cli_compiling_show,
                                    .recorded = true};
    charl_bisect_result result;
    const charl_status st = charl_bisect(r->check, config, &o, &result);

    charl__cli_compiling_done();
    if (st == CHARL_OK) {
        charl__cli_put(result.text, 0);
    }
    *same = result.what == CHARL_BISECT_NOTHING;
    charl_bisect_result_fini(&result);
    return st;
}

int charl__golden_main(const char *path, int argc, char **argv)
{
    static const charl__cli_option options[] = {
        {"ranks", 'r', "N", "Refuse a training that cannot run on N ranks", 0,
         CHARL__CLI_INT(request, ranks, 1, INT32_MAX)},
        {"steps", 's', "N", "Compute the first N steps; the default is all of them", 0,
         CHARL__CLI_INT(request, steps, 1, INT64_MAX)},
        {"output", 'o', "FILE", "Also write checksums of every step to FILE, for --check", 0,
         CHARL__CLI_TEXT(request, out)},
        {"check", 'c', "FILE", "Compare the steps that FILE has with it, and name the first that differs", 0,
         CHARL__CLI_TEXT(request, check)},
        {"device", 'd', "SELECT", "Device to use, as device.select has it (see `charl devices`); the default is cpu", 0,
         CHARL__CLI_TEXT(request, device)},
        {0}};
    static const charl__cli_syntax syntax = {
        options, "CONFIG [SECTION.KEY=VALUE...]",
        "Print the hash of the training that CONFIG describes, computed from its beginning in this process, without "
        "MPI and without a GPU. As the bits of a training in f32 depend neither on the number of ranks nor on the "
        "device, it is the hash of tensors that run.lock of any job with this configuration and these data has for "
        "the step. With --check, the exit status is 1 if a step differs from FILE, and what differs first in it is "
        "named: the learning rate, rows, losses of samples, gradients or weights.\vRequires train.exact = anywhere, "
        "which it sets: f32, no TF32, no dist.allreduce = mpi, and a device that follows IEEE 754. Evaluations are "
        "left out, and with them early stopping. FILE has about 25 bytes for every tensor and sample of a step."};
    charl__cli_operands operands = {.names = {"CONFIG"}, .max = 1 + CHARL__CLI_OVERRIDES};
    charl_config_override overrides[CHARL__CLI_OVERRIDES + 1];
    request r = {.device = "cpu"};
    charl_config *config = NULL;
    bool same = true;
    charl_status st;
    int n, code = charl__cli_parse(path, &syntax, &operands, argc, argv, &r);

    if (code >= 0) {
        return code;
    }
    if (r.check && (r.out || r.steps > 0)) {
        return charl__cli_error(CHARL__EXIT_USAGE, NULL, "--check takes the steps of its file: leave out %s",
                                r.out ? "-o" : "--steps");
    }
    code = charl__cli_limits();
    if (code != CHARL__EXIT_OK) {
        return code;
    }
    n = charl__cli_overrides(&operands, 1, overrides);
    overrides[n++] = (charl_config_override){"train.exact=anywhere", "charl golden"};
    st = charl_config_load(operands.values[0], overrides, n, &config);
    charl_config_destroy(config);
    if (st == CHARL_OK) {
        st = r.check ? compare(&r, operands.values[0], overrides, n, &same)
                     : compute(&r, operands.values[0], overrides, n);
        charl__cli_compiling_done();
    }
    fflush(stdout);
    return st != CHARL_OK ? charl__cli_fail(st) : same ? CHARL__EXIT_OK : CHARL__EXIT_INTERNAL;
}
