/* Evaluation: every sample of the split exactly once, whatever the number of ranks.
 *
 * The last batch is filled with rows of weight zero. Sums over a batch are tree sums, the same on
 * every rank; batches are added in order, in double.
 */
#include <math.h>
#include <string.h>

#include "train/replica.h"

/* The metrics of one batch, completed over ranks. */
static charl_status read_metrics(charl__replica *r, float *lanes, int n, float *out)
{
    charl_tensor *v = charl_var_get_tensor(r->eval.metrics);

    CHARL_TRY(charl_tensor_read(v, lanes, (size_t)(n * r->slices.n_lanes) * sizeof *lanes));
    CHARL_TRY(charl__grad_reducer_sum(r->reducer, lanes, n, out));
    return CHARL_OK;
}

static charl_status run_batch(charl__replica *r)
{
    const charl_step_params idle = {.commit = 0, .bias1 = 1.0F, .bias2 = 1.0F};

    CHARL_TRY(charl__steps_push(r->steps, &idle));
    CHARL_TRY(charl__device_loader_next(r->eval_loader));
    CHARL_TRY(charl_graph_run(r->eval.g));
    CHARL_TRY(charl__device_loader_used(r->eval_loader));
    return CHARL_OK;
}

static bool is_regression(const charl_config *config)
{
    return config->train.loss == CHARL_LOSS_MSE || config->train.loss == CHARL_LOSS_HUBER;
}

charl_status charl__replica_evaluate(charl__replica *r, int64_t max_batches, charl_val_row *out)
{
    const int64_t n = charl__device_loader_rows(r->eval_loader), batch = r->config->train.batch_size;
    const int count = (int)charl_var_get_type(r->eval.metrics).shape.dim[0];
    int64_t batches = (n + batch - 1) / batch;
    double sum[CHARL__METRIC_COUNT] = {0};
    float lanes[CHARL__METRIC_COUNT * CHARL_MAX_LANES], part[CHARL__METRIC_COUNT];

    *out = (charl_val_row){.step = r->step, .accuracy = (double)NAN, .mae = (double)NAN, .top5 = (double)NAN};
    batches = max_batches > 0 && max_batches < batches ? max_batches : batches;
    CHARL_TRY(charl__phase_enter(r->comm, r->step, CHARL__PHASE_EVALUATION, r->session->params));
    CHARL_TRY(charl__device_loader_seek(r->eval_loader, 0));
    for (int64_t b = 0; b < batches; b++) {
        charl__phase_mark(r->comm, r->step, CHARL__PHASE_EVALUATION);
        CHARL_TRY(run_batch(r));
        CHARL_TRY(read_metrics(r, lanes, count, part));
        for (int k = 0; k < count; k++) {
            sum[k] += (double)part[k];
        }
    }
    CHARL_TRY(charl_comm_agree(r->comm, charl_dataset_check(r->session->ds)));
    out->loss = sum[CHARL__METRIC_LOSS] / sum[CHARL__METRIC_WEIGHT];
    if (r->session->data.kind == CHARL_DATASET_TOKENS || (r->config->eval.metrics & CHARL_METRIC_PERPLEXITY)) {
        out->perplexity = exp(out->loss);
    }
    *(is_regression(r->config) ? &out->mae : &out->accuracy) = sum[CHARL__METRIC_QUALITY] / sum[CHARL__METRIC_WEIGHT];
    if (count > CHARL__METRIC_TOP5) {
        out->top5 = sum[CHARL__METRIC_TOP5] / sum[CHARL__METRIC_WEIGHT];
    }
    return CHARL_OK;
}
