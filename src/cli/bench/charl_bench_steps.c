/* Short trainings for benchmarks. */
#include "cli/bench/charl_bench_steps.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "charl/train.h"
#include "cli/bench/charl_bench.h"
#include "cli/charl_commands.h"

enum { STEPS_PER_ROW = 8, AROUND = 3 /* rows that do not count */, OWN = 8, TEXT = 64 };

typedef struct watch {
    charl_comm *comm;
    charl__bench_steps *out;
    int steps_per_row, rows, counted;
    double row_s[CHARL__BENCH_ROWS];
} watch;

static charl_status on_started(void *ctx, const charl_train_info *info)
{
    const watch *w = ctx;

    w->out->parameters = info->parameters;
    w->out->batch = info->batch_size;
    w->out->slices = info->slices;
    w->out->launches = info->launches;
    w->out->window = info->window;
    w->out->flop = info->flop;
    w->out->device = info->device->index;
    w->out->is_cpu = info->device->kind == CHARL_DEVICE_CPU;
    charl__cli_restore_signals();
    return CHARL_OK;
}

/* The first row has touched memory, and the last two are written when all steps are done, so that
 * one's time is the other's. Of those between the best counts: what else a machine does makes
 * steps longer, never shorter. */
static charl_status on_trained(void *ctx, const charl_train_row *row)
{
    watch *w = ctx;
    charl__bench_steps *out = w->out;
    const double step_s = row->step_ms / 1e3;

    if (row->step <= w->steps_per_row || w->counted == w->rows) {
        return CHARL_OK;
    }
    if (out->step_s <= 0 || step_s < out->step_s) {
        out->step_s = step_s;
        out->exposed_s = row->comm_exposed_ms / 1e3;
    }
    w->row_s[w->counted++] = step_s;
    return CHARL_OK;
}

static void on_warned(void *ctx, const char *text)
{
    const watch *w = ctx;

    if (charl__cli_launcher_rank() == 0) { /* each rank alone is rank 0 */
        charl__ranks_warn(w->comm, text);
    }
}

static int steps_of(const charl__bench_config *config)
{
    return config->steps_per_row > 0 ? config->steps_per_row : STEPS_PER_ROW;
}

/* What a benchmark sets, after what the user did: no validation, rows of some steps, never an end.
 */
static charl_status load(const charl__bench_config *config, const charl__bench_steps *whole,
                         int share, charl_config **out)
{
    charl_status st = CHARL_OK;
    charl_config_override all[CHARL__BENCH_OVERRIDES + OWN] = {{NULL, NULL}};
    char text[OWN][TEXT];
    int n = 0;

    memcpy(all, config->override, (size_t)config->n * sizeof *all);
    snprintf(text[n++], TEXT, "eval.interval=0");
    snprintf(text[n++], TEXT, "train.early_stopping_patience=0");
    snprintf(text[n++], TEXT, "train.epochs=1000000");
    snprintf(text[n++], TEXT, "log.interval=%d", steps_of(config));
    snprintf(text[n++], TEXT, "dist.balance=even");
    if (share > 0) {
        snprintf(text[n++], TEXT, "train.slices=%d", share);
        snprintf(text[n++], TEXT, "train.batch_size=%" PRId64,
                 whole->batch / whole->slices * share);
        snprintf(text[n++], TEXT, "device.select=%d", whole->device);
    }
    for (int i = 0; i < n; i++) {
        all[config->n + i] = (charl_config_override){text[i], "charl bench"};
    }
    CHARL_TRY(charl_config_load(config->path, all, config->n + n, out));
cleanup:
    return st;
}

charl_status charl__bench_config_read(int n, char **values, charl__bench_config *out,
                                      charl_config **config)
{
    out->path = values[0];
    out->n = n - 1;
    for (int i = 0; i < out->n; i++) {
        out->override[i].text = values[i + 1];
    }
    return charl_config_load(out->path, out->override, out->n, config);
}

charl_status charl__bench_steps_run(const charl__bench_config *config, charl_comm *comm, int rows,
                                    const charl__bench_steps *whole, int share,
                                    charl__bench_steps *out)
{
    charl_status st = CHARL_OK;
    charl_config *c = NULL;
    watch w = {.comm = comm, .out = out, .steps_per_row = steps_of(config), .rows = rows};
    const charl_train_options options = {
        .comm = comm,
        .fast_dev_run = (rows + AROUND) * w.steps_per_row,
        .events = {.ctx = &w, .started = on_started, .trained = on_trained, .warned = on_warned}};
    charl_train_result result;

    CHARL_INVARIANT(rows <= CHARL__BENCH_ROWS);
    memset(out, 0, sizeof *out);
    CHARL_TRY(charl_comm_agree(comm, load(config, whole, share, &c)));
    out->overlaps = c->dist.overlap;
    out->precision = c->train.precision;
    out->allow_tf32 = c->device.allow_tf32;
    out->bucket = c->dist.bucket_mb * 1048576.0;
    out->bf16 = c->dist.reduce_dtype == CHARL_REDUCE_BF16;
    CHARL_TRY(charl_train_run(c, &options, &result));
    CHARL_TRY(charl_comm_reduce_f64(comm, CHARL_COMM_MAX, &out->step_s, 1));
    out->median_s = charl__bench_median(w.row_s, w.counted);
cleanup:
    charl_config_destroy(c);
    return st;
}
