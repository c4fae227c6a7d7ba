/* Evaluation: every sample of the split exactly once, whatever the number of ranks.
 *
 * The last batch is filled with rows of weight zero. Sums over a batch on the device are tree sums, the same on every rank; batches are
 * added in order, in double. Metrics that need single rows read them to host memory; what ranks collect of them is added without rounding.
 */
#include <limits.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "io/dataset/dataset_read.h"
#include "data/image/sample_png.h"
#include "train/replica.h"

enum { REPORTED = 8 }; /* worst samples */

/* Rows of a pass in host memory, and sums of a batch. */
typedef struct rows {
    int64_t per_row, weights; /* weights of a row */
    charl_dtype dtype;
    void *output, *target, *weight;
    float *slots; /* of several passes: [charl__grad_accum_depth][sums] */
} rows;

static size_t bytes_of(const charl_var *v)
{
    const charl_type type = charl_var_get_type(v);

    return (size_t)charl_shape_count(&type.shape) * charl_dtype_size(type.dtype);
}

/* The pass with most rows. */
static const charl__task *largest(const charl__replica *r)
{
    const charl__task *task = r->eval;

    for (int k = 1; k < charl__data_parallel_shapes(r->dp); k++) {
        task = r->eval[k].rows > task->rows ? &r->eval[k] : task;
    }
    return task;
}

static charl_status open_rows(charl__replica *r, rows *b, int sums)
{
    const charl__task *task = largest(r);
    const charl_shape out = charl_var_get_type(task->output).shape;
    const unsigned reads = r->evaluation.reads;

    if (r->dp->accum) {
        CHARL_TRY(charl__alloc_array(charl__grad_accum_depth(r->dp->accum) * (int64_t)sums, sizeof(float), &b->slots));
    }
    CHARL_TRY(charl__evaluation_begin(&r->evaluation, &out));
    if (reads) {
        const charl_type target = charl_var_get_type(task->target);
        const charl_shape weight = charl_var_get_type(task->weight).shape;

        b->dtype = target.dtype;
        b->per_row = charl_shape_count(&target.shape) / target.shape.dim[0];
        CHARL_TRY(reads & CHARL__READS_OUTPUTS ? charl__alloc(bytes_of(task->output), &b->output) : CHARL_OK);
        CHARL_TRY(charl__alloc(bytes_of(task->target), &b->target));
        b->weights = charl_shape_count(&weight) / task->rows;
        CHARL_TRY(charl__alloc(bytes_of(task->weight), &b->weight));
    }
    return CHARL_OK;
}

static void close_rows(rows *b)
{
    charl_free(b->output);
    charl_free(b->target);
    charl_free(b->weight);
    charl_free(b->slots);
}

static charl_status read_var(charl_var *v, void *out)
{
    return charl_tensor_read(charl_var_get_tensor(v), out, bytes_of(v));
}

/* Let the metrics see the rows of the pass that has run. */
static charl_status add_rows(charl__replica *r, const charl__task *task, rows *b)
{
    if (r->evaluation.reads) {
        CHARL_TRY(b->output ? read_var(task->output, b->output) : CHARL_OK);
        CHARL_TRY(read_var(task->target, b->target));
        CHARL_TRY(read_var(task->weight, b->weight));
        CHARL_TRY(charl__evaluation_add(&r->evaluation, task->rows, b->output, b->dtype, b->target, b->per_row,
                                        b->weight, b->weights));
    }
    return CHARL_OK;
}

/* Run batch `at`, and add up n sums over it and over ranks. */
static charl_status run_batch(charl__replica *r, int64_t at, rows *b, int n, float *out, charl_status *mine)
{
    const charl__step_params idle = {.commit = 0, .bias1 = 1.0F, .bias2 = 1.0F};
    float lanes[CHARL__SUM_MAX * CHARL_MAX_LANES];

    CHARL_TRY(charl__steps_push(r->steps, &idle));
    CHARL_TRY(charl__device_loader_next(r->eval_loader));
    r->evaluation.first = at * r->config->train.batch_size + r->row0;
    for (int i = 0; i < r->dp->passes; i++) {
        const charl__task *task = &r->eval[charl__data_parallel_shape(r->dp, i)];
        const charl_tensor *sums;

        if (i > 0) {
            CHARL_TRY(charl__device_loader_pass(r->eval_loader, charl__replica_row(r, i)));
        }
        CHARL_TRY(charl__data_parallel_evaluate(r->dp, task->g, i));
        sums = charl_var_get_tensor(task->sums);
        *mine = *mine == CHARL_OK ? add_rows(r, task, b) : *mine;
        CHARL_TRY(charl_tensor_read(sums, lanes, (size_t)charl__tensor_count(sums) * sizeof *lanes));
        if (b->slots) {
            charl__grad_accum_fold_numbers(r->dp->accum, i, lanes, n, b->slots);
        }
    }
    CHARL_TRY(charl__device_loader_used(r->eval_loader));
    return charl__grad_reducer_sum(r->dp->reducer, b->slots ? b->slots : lanes, n, out);
}

/* Run the batches and add up their sums. What goes wrong in host memory on one rank is kept in *mine until all ranks can hear of it. */
static charl_status run_batches(charl__replica *r, int64_t batches, rows *b, int count, double *sum, charl_status *mine)
{
    float part[CHARL__SUM_MAX];

    CHARL_TRY(charl__device_loader_seek(r->eval_loader, 0));
    for (int64_t i = 0; i < batches; i++) {
        charl__phase_mark(r->comm, r->step, CHARL__PHASE_EVALUATION);
        CHARL_TRY(run_batch(r, i, b, count, part, mine));
        for (int k = 0; k < count; k++) {
            sum[k] += (double)part[k];
        }
    }
    return CHARL_OK;
}

/* What ranks keep of their rows, joined in the order of ranks. */
static charl_status join_kept(charl__replica *r, charl__evaluation_item *item)
{
    charl_status st = CHARL_OK;
    const int ranks = charl_comm_size(r->comm);
    charl__metric_state *s = &item->state;
    int64_t mine = s->n_kept, most = 0, joined = 0, *counts = NULL;
    double *part = NULL, *all = NULL;
    size_t bytes;

    st = charl__alloc_array(ranks, sizeof *counts, &counts);
    CHARL_TRY_CLEANUP(charl_comm_agree(r->comm, st));
    CHARL_TRY_CLEANUP(charl_comm_allgather(r->comm, &mine, sizeof mine, counts));
    for (int i = 0; i < ranks; i++) {
        most = counts[i] > most ? counts[i] : most;
    }
    bytes = (size_t)(most * item->size.kept) * sizeof *part; /* every rank sends as much */
    st = charl__alloc(bytes, &part);
    st = st == CHARL_OK ? charl__alloc_array(ranks, bytes, &all) : st;
    CHARL_TRY_CLEANUP(charl_comm_agree(r->comm, st));
    if (mine > 0) {
        memcpy(part, s->kept, (size_t)(mine * item->size.kept) * sizeof *part);
    }
    CHARL_TRY_CLEANUP(charl_comm_allgather(r->comm, part, bytes, all));
    for (int i = 0; i < ranks; i++) {
        const double *from = all + i * most * item->size.kept;

        memmove(all + joined * item->size.kept, from, (size_t)(counts[i] * item->size.kept) * sizeof *all);
        joined += counts[i];
    }
    charl_free(s->kept);
    s->kept = all;
    s->n_kept = joined;
    item->capacity = ranks * most;
    all = NULL;
cleanup:
    charl_free(counts);
    charl_free(part);
    charl_free(all);
    return st;
}

static charl_status join_ranks(charl__replica *r)
{
    charl__evaluation *e = &r->evaluation;

    if (charl_comm_size(r->comm) == 1) {
        return CHARL_OK;
    }
    CHARL_REQUIRE(e->n_exact <= INT_MAX, CHARL_ERR_CONFIG,
                  "metrics of %lld outputs collect too much; HINT choose fewer eval.metrics",
                  (long long)e->data.outputs);
    if (e->n_exact > 0) {
        CHARL_TRY(charl_comm_reduce_i64(r->comm, CHARL_COMM_SUM, e->exact, (int)e->n_exact));
    }
    for (int i = 0; i < e->n; i++) {
        if (e->item[i].size.kept > 0) {
            CHARL_TRY(join_kept(r, &e->item[i]));
        }
    }
    return CHARL_OK;
}

/* Keep the worst samples that are shown, and draw them on the rank that shows them. */
static charl_status draw_worst(const charl__replica *r, charl_eval_report *report)
{
    const int shown = r->reports ? REPORTED : (int)r->config->log.images;

    report->n_worst = report->n_worst < shown ? report->n_worst : shown;
    for (int i = 0; charl_comm_rank(r->comm) == 0 && i < report->n_worst; i++) {
        charl_worst_sample *w = &report->worst[i];
        charl__sample_picture picture;

        CHARL_TRY(charl__sample_png(r->session->ds, r->eval_split, w->row, &picture));
        w->png = picture.png;
        w->png_bytes = picture.png_bytes;
        w->height = picture.height;
        w->width = picture.width;
        CHARL_TRY(charl__dataset_file_of(r->session->ds, r->eval_split, w->row, &w->file));
    }
    return CHARL_OK;
}

static charl_status evaluate(charl__replica *r, int64_t batches, rows *b, charl_val_row *out,
                             charl_eval_report **report)
{
    const int count = (int)charl_var_get_type(r->eval->sums).shape.dim[0];
    charl__evaluation *e = &r->evaluation;
    double sum[CHARL__SUM_MAX] = {0}, means[CHARL_MAX_METRICS];
    charl_status mine = open_rows(r, b, count);

    CHARL_TRY(charl_comm_agree(r->comm, mine));
    CHARL_TRY(run_batches(r, batches, b, count, sum, &mine));
    mine = mine == CHARL_OK ? charl__dataset_check(r->session->ds) : mine;
    CHARL_TRY(charl_comm_agree(r->comm, mine));
    CHARL_TRY(join_ranks(r));
    CHARL_REQUIRE(sum[CHARL__SUM_WEIGHT] > 0 || !r->session->data.weighted, CHARL_ERR_DATA,
                  "%s: no target of the split %s counts, so there is no loss to measure", r->session->data.path,
                  charl_split_name(r->eval_split));
    out->loss = sum[CHARL__SUM_LOSS] / sum[CHARL__SUM_LOSS_WEIGHT];
    for (int i = 0, k = CHARL__SUM_METRICS + e->outputs.n; i < e->n; i++) {
        const int output = e->item[i].output;
        const double weight = sum[output < 0 ? CHARL__SUM_WEIGHT : CHARL__SUM_METRICS + output];

        means[i] = charl__evaluation_builds(&e->item[i]) ? sum[k++] / weight : (double)NAN;
    }
    mine = charl__evaluation_finish(e, out->loss, means, out->metrics, &out->n_metrics, report);
    mine = mine == CHARL_OK && report ? draw_worst(r, *report) : mine;
    CHARL_TRY(charl_comm_agree(r->comm, mine));
    return CHARL_OK;
}

charl_status charl__replica_evaluate(charl__replica *r, int64_t max_batches, charl_val_row *out,
                                     charl_eval_report **report)
{
    charl_status st;
    const int64_t n = charl__device_loader_rows(r->eval_loader), batch = r->config->train.batch_size;
    const int64_t batches = (n + batch - 1) / batch;
    rows b = {0};

    *out = (charl_val_row){.step = r->step};
    CHARL_TRY(charl__phase_enter(r->comm, r->step, CHARL__PHASE_EVALUATION, r->session->params));
    st = evaluate(r, max_batches > 0 && max_batches < batches ? max_batches : batches, &b, out, report);
    close_rows(&b);
    return st;
}
