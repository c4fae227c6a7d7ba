/* The largest batch that a device has room for in one pass, without recomputed activations that the configuration does not ask for. The trainer
 * decides, in dry runs: the memory of a step grows with the batch, so the limit is between a batch that fits and one that does not. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <charl/error.h>
#include <charl/train.h>
#include "cli/charl/plan.h"

/* What dry runs found. */
typedef struct search {
    const charl__cli_steps_config *config;
    charl_comm *comm;
    int64_t device_bytes;  /* 0: of the device here */
    charl_train_info info; /* of the last one; its pointers are not used */
    char device[64];
    int passes; /* as the configuration has it */
    charl_recompute recompute;
} search;

static charl_status on_started(void *ctx, const charl_train_info *info)
{
    search *s = ctx;

    s->info = *info;
    snprintf(s->device, sizeof s->device, "%.63s", info->device->name);
    return CHARL_OK;
}

/* batch 0: as configured */
static charl_status run(search *s, int64_t batch, int64_t device_bytes, bool compiles)
{
    charl_config_override all[CHARL__CLI_OVERRIDES + 1];
    const charl_train_options options = {
        sizeof options,
        .comm = s->comm,
        .dry_run = true,
        .skip_kernels = !compiles,
        .overwrite = true,
        .planned = {.device_bytes = device_bytes},
        .events = {.ctx = s, .compiling = charl__cli_compiling_show, .started = on_started}};
    charl_config *config = NULL;
    charl_train_result result;
    charl_status st;
    char text[64];
    int n = s->config->n;

    memcpy(all, s->config->override, (size_t)n * sizeof *all);
    if (batch > 0) {
        snprintf(text, sizeof text, "train.batch_size=%" PRId64, batch);
        all[n++] = (charl_config_override){text, charl__cli_program()};
    }
    CHARL_TRY(charl_config_load(s->config->path, all, n, &config));
    st = charl_train_run(config, &options, &result);
    charl_config_destroy(config);
    return st;
}

static charl_status try_batch(search *s, int64_t batch, bool compiles, bool *fits)
{
    const charl_status st = run(s, batch, s->device_bytes, compiles);

    *fits = st == CHARL_OK && s->info.passes == s->passes && s->info.recompute == s->recompute;
    if (st == CHARL_ERR_NOMEM) {
        charl_error_clear();
        return CHARL_OK;
    }
    return st;
}

charl_status charl__plan_largest_batch(const charl__cli_steps_config *config, charl_comm *comm, double device_bytes)
{
    search s = {.config = config, .comm = comm, .device_bytes = (int64_t)device_bytes};
    int64_t unit, most, low = 0,
                        high; /* batches of so many units: the largest known to fit, the smallest that does not */
    char rest[64] = "all training samples fit";
    bool fits;

    CHARL_REQUIRE(charl_comm_size(comm) == 1, CHARL_ERR_CONFIG,
                  "charl plan runs in one process; HINT leave out mpirun");
    CHARL_TRY(run(&s, 0, INT64_C(1) << 60, false));
    s.passes = s.info.passes;
    s.recompute = s.info.recompute;
    unit = s.info.slices;
    most = s.info.train_rows / unit;
    high = most + 1;
    for (int64_t k = s.info.batch_size / unit; low + 1 < high; k = high > most ? 2 * k : (low + high) / 2) {
        k = k > most ? most : k;
        CHARL_TRY(try_batch(&s, k * unit, false, &fits));
        low = fits ? k : low;
        high = fits ? high : k;
    }
    charl__cli_compiling_done();
    CHARL_REQUIRE(low > 0, CHARL_ERR_NOMEM,
                  "not even a batch of %" PRId64 " fits as it is; HINT `charl-train --dry-run` says what accumulation "
                  "and recomputation make of it",
                  unit);
    CHARL_TRY(try_batch(&s, low * unit, device_bytes <= 0, &fits));
    charl__cli_compiling_done();
    CHARL_REQUIRE(fits, CHARL_ERR_NOMEM, "a batch of %" PRId64 " was planned to fit, but does not", low * unit);
    if (high <= most) {
        snprintf(rest, sizeof rest, "%" PRId64 " does not fit", high * unit);
    }
    printf("largest batch: %" PRId64 ", which takes %.4g of %.4g GiB%s%s; %s\n\n[train]\nbatch_size = %" PRId64 "\n",
           low * unit, (double)s.info.memory_bytes / 1073741824, (double)s.info.memory_capacity / 1073741824,
           device_bytes > 0 ? "" : " of ", device_bytes > 0 ? "" : s.device, rest, low * unit);
    return CHARL_OK;
}
