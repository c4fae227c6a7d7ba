/* Short trainings: a training's events report the times of its rows and stop it. */
#include "cli/cli_steps.h"

#include <assert.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <charl/error.h>
#include <charl/train.h>
#include "cli/cli.h"
#include "cli/cli_ranks.h"

enum { STEPS_PER_ROW = 8, FEW_ROWS = 2, MOST_STEPS = 10000, OWN = 8, TEXT = 64 };

typedef struct watch {
    charl_comm *comm;
    charl__cli_steps *out;
    double length_s; /* wanted length of a row, once the number of steps is known */
    int64_t last;    /* step of the previous row */
    int rows, counted;
    double row_s[CHARL__CLI_ROWS];
    atomic_int stop;
} watch;

static charl_status on_started(void *ctx, const charl_train_info *info)
{
    const watch *w = ctx;

    w->out->parameters = info->parameters;
    w->out->gradients = info->gradients;
    w->out->last_gradients = info->last_gradients;
    w->out->batch = info->batch_size;
    w->out->slices = info->slices;
    w->out->launches = info->launches;
    w->out->window = info->window;
    w->out->flop = info->flop;
    w->out->device = info->device->index;
    w->out->is_cpu = info->device->kind == CHARL_DEVICE_CPU;
    return CHARL_OK;
}

/* Decide from the rows so far how many steps make a row of that length: rank 0's decision, for all. */
static charl_status lengthen(watch *w)
{
    const double steps = w->length_s / w->out->step_s;
    int n = steps < 1 ? 1 : steps > MOST_STEPS ? MOST_STEPS : (int)steps;

    CHARL_TRY(charl_comm_broadcast(w->comm, &n, sizeof n, 0));
    w->out->steps_per_row = n;
    w->out->step_s = w->length_s = 0;
    w->counted = 0;
    return CHARL_OK;
}

/* Called for the same rows on all ranks. The first row touches memory for the first time, and the first row of another
 * length began before that length was known. Of the others the fastest counts: other activity of the machine makes
 * steps longer, never shorter. */
static charl_status on_trained(void *ctx, const charl_train_row *row)
{
    watch *w = ctx;
    charl__cli_steps *out = w->out;
    const double step_s = row->step_ms / 1e3;
    const bool is_whole = w->last > 0 && row->step - w->last == w->out->steps_per_row;

    w->last = row->step;
    if (!is_whole || (w->length_s <= 0 && w->counted == w->rows)) {
        return CHARL_OK;
    }
    if (out->step_s <= 0 || step_s < out->step_s) {
        out->step_s = step_s;
        out->exposed_s = row->comm_exposed_ms / 1e3;
    }
    w->row_s[w->counted++] = step_s;
    if (w->length_s > 0) {
        return w->counted == FEW_ROWS ? lengthen(w) : CHARL_OK;
    }
    if (w->counted == w->rows) {
        atomic_store(&w->stop, CHARL_STOP_SAVE); /* stop: there is nothing to save */
    }
    return CHARL_OK;
}

static void on_warned(void *ctx, const char *text)
{
    const watch *w = ctx;

    if (charl_launcher_rank() == 0) { /* each rank alone is rank 0 */
        charl__ranks_warn(w->comm, text);
    }
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

double charl__cli_median(double *values, int n)
{
    qsort(values, (size_t)n, sizeof *values, by_value);
    return n > 0 ? values[n / 2] : (double)NAN;
}

static int steps_of(const charl__cli_steps_config *config)
{
    return config->steps_per_row > 0 ? config->steps_per_row : STEPS_PER_ROW;
}

/* The type of activations; fp8 has those of bf16. */
static charl_dtype dtype_of(const char *name)
{
    charl_dtype dtype = CHARL_F32;

    if (strcmp(name, "fp8") == 0) {
        return CHARL_BF16;
    }
    while (strcmp(charl_dtype_name(dtype), name) != 0) {
        dtype++;
    }
    return dtype;
}

/* The configuration with overrides after the user's: no validation, rows of a few steps, no
 * end. */
static charl_status load(const charl__cli_steps_config *config, const charl__cli_steps *whole, int share,
                         charl_config **out)
{
    charl_config_override all[CHARL__CLI_OVERRIDES + OWN] = {{NULL, NULL}};
    char text[OWN][TEXT];
    int n = 0;

    memcpy(all, config->override, (size_t)config->n * sizeof *all);
    snprintf(text[n++], TEXT, "eval.interval=0");
    snprintf(text[n++], TEXT, "train.early_stopping_patience=0");
    snprintf(text[n++], TEXT, "train.max_steps=-1");
    snprintf(text[n++], TEXT, "train.epochs=1000000");
    snprintf(text[n++], TEXT, "dist.balance=even");
    if (share > 0) {
        snprintf(text[n++], TEXT, "train.slices=%d", share);
        snprintf(text[n++], TEXT, "train.batch_size=%" PRId64, whole->batch / whole->slices * share);
    }
    for (int i = 0; i < n; i++) {
        all[config->n + i] = (charl_config_override){text[i], charl__cli_program()};
    }
    CHARL_TRY(charl_config_load(config->path, all, config->n + n, out));
    return CHARL_OK;
}

charl_status charl__cli_steps_config_read(const charl__cli_operands *operands, charl__cli_steps_config *out,
                                          charl_config **config)
{
    out->path = operands->values[0];
    out->n = charl__cli_overrides(operands, 1, out->override);
    return charl_config_load(out->path, out->override, out->n, config);
}

charl_status charl__cli_steps_run(const charl__cli_steps_config *config, charl_comm *comm, int rows,
                                  const charl__cli_steps *whole, int share, charl__cli_steps *out)
{
    charl_status st = CHARL_OK;
    charl_config *c = NULL;
    watch w = {.comm = comm, .out = out, .length_s = config->row_s, .rows = rows};
    char device[16];
    const charl_train_options options = {sizeof options,
                                         .comm = comm,
                                         .stop = &w.stop,
                                         .device = share > 0 ? device : NULL,
                                         .tune = config->tune,
                                         .row_steps = &out->steps_per_row,
                                         .fast_dev_run = INT_MAX,
                                         .events = {.ctx = &w,
                                                    .compiling = charl__cli_compiling_show,
                                                    .started = on_started,
                                                    .trained = on_trained,
                                                    .warned = on_warned}};
    charl_train_result result;

    assert(rows <= CHARL__CLI_ROWS);
    atomic_init(&w.stop, CHARL_STOP_NONE);
    memset(out, 0, sizeof *out);
    snprintf(device, sizeof device, "%d", share > 0 ? whole->device : 0);
    CHARL_TRY_CLEANUP(charl_comm_agree(comm, load(config, whole, share, &c)));
    out->steps_per_row = steps_of(config);
    out->overlaps = charl__cli_int(c, "dist.overlap") != 0;
    out->precision = dtype_of(charl__cli_text(c, "train.precision"));
    out->allow_tf32 = charl__cli_int(c, "device.allow_tf32") != 0;
    out->bucket = charl__cli_number(c, "dist.bucket_mb") * 1048576.0;
    out->bf16 = strcmp(charl__cli_text(c, "dist.reduce_dtype"), "bf16") == 0;
    CHARL_TRY_CLEANUP(charl_train_run(c, &options, &result));
    out->median_s = charl__cli_median(w.row_s, w.counted);
    CHARL_TRY_CLEANUP(charl_comm_reduce_f64(comm, CHARL_COMM_MAX, &out->step_s, 1));
    CHARL_TRY_CLEANUP(charl_comm_reduce_f64(comm, CHARL_COMM_MAX, &out->median_s, 1));
    CHARL_TRY_CLEANUP(charl_comm_reduce_f64(comm, CHARL_COMM_SUM, &out->flop, 1));
cleanup:
    charl_config_destroy(c);
    return st;
}
