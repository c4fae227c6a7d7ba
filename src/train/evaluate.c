/* Evaluation: every sample of the split exactly once, whatever the number of ranks.
 *
 * The last batch is filled with rows of weight zero. Sums over a batch are tree sums, the same on
 * every rank; batches are added in order, in double.
 */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "train/trainer.h"

/* The metrics of one batch, completed over ranks. */
static charl_status read_metrics(charl__trainer *t, float *lanes, int n, float *out)
{
    charl_tensor *v = charl_var_get_tensor(t->eval.metrics);

    CHARL_TRY(charl_tensor_read(v, lanes, (size_t)(n * t->slices.n_lanes) * sizeof *lanes));
    CHARL_TRY(charl__grad_reducer_sum(t->reducer, lanes, n, out));
    return CHARL_OK;
}

charl_status charl__trainer_run_eval(charl__trainer *t)
{
    const charl_step_params idle = {.commit = 0, .bias1 = 1.0F, .bias2 = 1.0F};

    CHARL_TRY(charl__steps_push(t->steps, &idle));
    CHARL_TRY(charl__device_loader_next(t->eval_loader));
    CHARL_TRY(charl_graph_run(t->eval.g));
    CHARL_TRY(charl__device_loader_used(t->eval_loader));
    return CHARL_OK;
}

static bool is_regression(const charl_config *config)
{
    return config->train.loss == CHARL_LOSS_MSE || config->train.loss == CHARL_LOSS_HUBER;
}

charl_status charl__trainer_evaluate(charl__trainer *t, int64_t max_batches, charl_val_row *out)
{
    const int64_t n = charl__device_loader_rows(t->eval_loader),
                  batch = t->config->train.batch_size;
    const int count = (int)charl_var_get_type(t->eval.metrics).shape.dim[0];
    int64_t batches = (n + batch - 1) / batch;
    double sum[CHARL__METRIC_COUNT] = {0};
    float lanes[CHARL__METRIC_COUNT * CHARL_MAX_LANES], part[CHARL__METRIC_COUNT];

    *out = (charl_val_row){.step = t->step,
                           .epoch = charl__trainer_epoch(t),
                           .accuracy = (double)NAN,
                           .mae = (double)NAN,
                           .top5 = (double)NAN};
    batches = max_batches > 0 && max_batches < batches ? max_batches : batches;
    CHARL_TRY(charl__phase_enter(t->comm, t->step, CHARL__PHASE_EVALUATION, t->params));
    CHARL_TRY(charl__device_loader_seek(t->eval_loader, 0));
    for (int64_t b = 0; b < batches; b++) {
        charl__phase_mark(t->comm, t->step, CHARL__PHASE_EVALUATION);
        CHARL_TRY(charl__trainer_run_eval(t));
        CHARL_TRY(read_metrics(t, lanes, count, part));
        for (int k = 0; k < count; k++) {
            sum[k] += (double)part[k];
        }
    }
    CHARL_TRY(charl_comm_agree(t->comm, charl_dataset_check(t->ds)));
    out->loss = sum[CHARL__METRIC_LOSS] / sum[CHARL__METRIC_WEIGHT];
    if (t->data.kind == CHARL_DATASET_TOKENS ||
        (t->config->eval.metrics & CHARL_METRIC_PERPLEXITY)) {
        out->perplexity = exp(out->loss);
    }
    *(is_regression(t->config) ? &out->mae : &out->accuracy) =
        sum[CHARL__METRIC_QUALITY] / sum[CHARL__METRIC_WEIGHT];
    if (count > CHARL__METRIC_TOP5) {
        out->top5 = sum[CHARL__METRIC_TOP5] / sum[CHARL__METRIC_WEIGHT];
    }
    out->elapsed_s = charl__clock_s() - t->started_s;
    return CHARL_OK;
}

static double monitored(const charl__trainer *t, const charl_val_row *row)
{
    if (strcmp(t->config->checkpoint.monitor, "val/accuracy") == 0) {
        return row->accuracy;
    }
    if (strcmp(t->config->checkpoint.monitor, "val/mae") == 0) {
        return row->mae;
    }
    return row->loss;
}

bool charl__trainer_is_best(charl__trainer *t, const charl_val_row *row)
{
    const double now = monitored(t, row), best = t->best_metric;
    const bool better = t->config->checkpoint.mode == CHARL_MONITOR_MAX ? now > best : now < best;

    t->stale_evals++;
    if (!isfinite(now) || !(better || isnan(best))) {
        return false;
    }
    t->stale_evals = 0;
    t->best_metric = now;
    t->best_step = t->step;
    return true;
}
