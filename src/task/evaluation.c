/* Metrics of an evaluation. */
#include "task/evaluation.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "data/tokenizer/pretrained.h"
#include "charl/tokenizer.h"
#include "config/config_rows.h"
#include "io/schema.h"

enum { MOST_PAIRS = 4096 }; /* classes with a confusion matrix */

charl_target_kind charl__task_targets(const charl__loss *loss, const charl_dataset_info *data)
{
    const bool labels = data->kind == CHARL_DATASET_IMAGES && data->y_dtype == CHARL_I32;
    const bool maps = labels && charl_shape_count(&data->y_shape) > 1;

    if (data->kind == CHARL_DATASET_TOKENS) {
        return CHARL_TARGET_TOKENS;
    }
    if (loss->targets & CHARL_TARGET_MAPS && maps && (!(loss->targets & CHARL_TARGET_FLAGS) || data->classes > 2)) {
        return CHARL_TARGET_MAPS;
    }
    return (charl_target_kind)(loss->targets &
                               ~(unsigned)(CHARL_TARGET_TOKENS | CHARL_TARGET_MAPS | CHARL_TARGET_INTERVALS));
}

const charl__answer *charl__task_answer(const charl__loss *loss, charl_target_kind targets)
{
    return targets == CHARL_TARGET_MAPS ? charl__loss_find("cross_entropy")->answer : loss->answer;
}

int64_t charl__task_classes(charl_target_kind targets, const charl_shape *out)
{
    const bool channels = targets == CHARL_TARGET_MAPS || (targets == CHARL_TARGET_FLAGS && out->ndim > 3);

    return channels ? out->dim[1] : charl_shape_count(out) / out->dim[0];
}

/* Special tokens are not text. */
static charl_status measure_token_bytes(const charl_data_schema *schema, charl__evaluation *e)
{
    const charl_tokenizer *t = schema->tokenizer;
    const int64_t n = charl_tokenizer_get_vocab(t);

    CHARL_TRY(charl__alloc_array(n > schema->classes ? n : schema->classes, sizeof *e->token_bytes, &e->token_bytes));
    for (int64_t i = 0; i < n; i++) {
        size_t bytes = 0;

        if (!charl__tokenizer_is_special(t, i) && charl_tokenizer_get_token(t, i, &bytes)) {
            e->token_bytes[i] = (int32_t)bytes;
        }
    }
    e->data.token_bytes = e->token_bytes;
    return CHARL_OK;
}

bool charl__evaluation_builds(const charl__evaluation_item *item)
{
    return item->type->build || item->type == &charl__metric_loss;
}

/* What metrics can be defined for: the kind of the targets, and whether the model predicts an interval of each. */
static unsigned kinds_of(charl_target_kind kind, int64_t quantiles)
{
    return (unsigned)kind | (quantiles > 1 ? (unsigned)CHARL_TARGET_INTERVALS : 0U);
}

static charl_status check(const charl_config *config, const charl_data_schema *schema, const charl__metric *m,
                          charl_target_kind kind, int64_t quantiles)
{
    CHARL_REQUIRE(quantiles > 1 || m->targets != CHARL_TARGET_INTERVALS, CHARL_ERR_CONFIG,
                  "the metric %s needs an interval; HINT train.quantiles = 0.05, 0.5, 0.95", m->row.name);
    CHARL_REQUIRE(m->targets & kinds_of(kind, quantiles), CHARL_ERR_CONFIG,
                  "the metric %s is not defined for %s, which %s holds", m->row.name,
                  charl_dataset_kind_name(schema->kind), config->data.path);
    CHARL_REQUIRE(kind != CHARL_TARGET_TOKENS || !m->add || schema->tokenizer, CHARL_ERR_CONFIG,
                  "the metric %s needs the tokenizer, which %s does not hold", m->row.name, config->data.path);
    return CHARL_OK;
}

/* "OUTPUT.METRIC", or the metric of the only output. */
static void name_item(const charl__evaluation *e, const charl__evaluation_item *item, char name[CHARL_METRIC_NAME])
{
    const char *output = item->output >= 0 ? e->outputs.at[item->output].name : "";

    snprintf(name, CHARL_METRIC_NAME, "%s%s%s", output, output[0] ? "." : "", item->type->row.name);
}

/* The loss of each output, and of its metrics those that are asked for. */
static charl_status open_outputs(const charl_config *config, charl__evaluation *e)
{
    const charl__metric *m;

    e->loss_settings = &e->outputs;
    CHARL_TRY(charl__output_row_create(&e->outputs, &e->room));
    for (int i = -1; i < 0 || (m = charl__metric_at(i)) != NULL; i++) {
        bool any = false;

        m = i < 0 ? &charl__metric_loss : m;
        for (int k = 0; k < e->outputs.n; k++) {
            const charl__output *o = &e->outputs.at[k];
            charl__evaluation_item item = {.type = m, .output = k};
            /* without the text of the tokens, only what the device computes of each */
            const unsigned kinds = kinds_of(o->kind, o->quantiles);
            const bool fits = m->targets & kinds && (o->kind != CHARL_TARGET_TOKENS || !m->add);
            char name[CHARL_METRIC_NAME];
            bool monitored;

            name_item(e, &item, name);
            monitored = strcmp(name, charl__config_monitor_name(config)) == 0;
            CHARL_REQUIRE(!monitored || fits, CHARL_ERR_CONFIG,
                          "checkpoint.monitor = val/%s: the metric is not defined for the targets of this output",
                          name);
            any = any || fits;
            if (i < 0 || (m != &charl__metric_loss && m != &charl__metric_worst && fits &&
                          (monitored || charl__config_measures(config, i, kinds)))) {
                CHARL_REQUIRE(e->n < CHARL_MAX_METRICS, CHARL_ERR_CONFIG,
                              "the outputs have more than %d metrics; HINT choose fewer eval.metrics",
                              CHARL_MAX_METRICS);
                e->item[e->n++] = item;
                e->reads |= m->reads;
            }
        }
        CHARL_REQUIRE(any || i < 0 || !charl__config_measures(config, i, 0), CHARL_ERR_CONFIG,
                      "the metric %s is not defined for the targets of any output", m->row.name);
    }
    return CHARL_OK;
}

charl_status charl__evaluation_open(const charl_config *config, const charl_data_schema *schema, bool on_host,
                                    bool report, charl__evaluation *e)
{
    const charl__loss *loss = charl__config_loss(config);
    charl_dataset_info data;
    charl_target_kind kind;
    unsigned kinds;
    const charl__metric *m, *monitor = charl__config_monitor(config);

    charl__data_schema_get_info(schema, "", &data);
    kind = charl__task_targets(loss, &data);
    *e = (charl__evaluation){.loss = loss,
                             .loss_settings = config->train.loss_settings,
                             .data.targets = kind,
                             .data.quantiles = charl__loss_values(loss, config->train.loss_settings),
                             .answer = charl__task_answer(loss, kind),
                             .names = kind == CHARL_TARGET_CLASS || kind == CHARL_TARGET_MAPS ? schema->class_names
                                                                                              : schema->targets,
                             .on_host = on_host};
    kinds = kinds_of(kind, e->data.quantiles);
    CHARL_TRY(charl__config_outputs(config, schema->fields, &e->outputs));
    if (e->outputs.n > 0) {
        return open_outputs(config, e);
    }
    CHARL_REQUIRE(
        config->log.images == 0 || on_host || (kind == CHARL_TARGET_CLASS && schema->kind == CHARL_DATASET_IMAGES),
        CHARL_ERR_CONFIG, "log.images shows images of a class each, which %s does not hold", config->data.path);
    if (on_host && schema->n_target_stats > 0) {
        e->scaled_by = schema;
        CHARL_TRY(charl__alloc_array(schema->n_target_stats * (e->data.quantiles + 1), sizeof *e->scaled, &e->scaled));
    }
    for (int i = 0; (m = charl__metric_at(i)) != NULL; i++) {
        const bool wanted = m == monitor || (m == &charl__metric_worst ? config->log.images > 0 && !on_host
                                                                       : charl__config_measures(config, i, kinds));

        if (m == &charl__metric_loss || !(wanted || (report && (m->targets & ~m->on_request & kinds) && m->detail))) {
            continue; /* the loss is always measured */
        }
        CHARL_TRY(check(config, schema, m, kind, e->data.quantiles));
        CHARL_INVARIANT(e->n < CHARL_MAX_METRICS);
        e->item[e->n++] = (charl__evaluation_item){.type = m, .output = -1};
        e->reads |= m->reads;
    }
    if (kind == CHARL_TARGET_TOKENS && e->reads) {
        CHARL_TRY(measure_token_bytes(schema, e));
    }
    return CHARL_OK;
}

/* The confusion matrix of very many classes takes more memory than it is worth: omit it from the report. */
static void drop_wide_pairs(charl__evaluation *e)
{
    int n = 0;

    for (int i = 0; i < e->n; i++) {
        if (e->item[i].type->detail != CHARL__DETAIL_PAIRS || e->data.classes <= MOST_PAIRS) {
            e->item[n++] = e->item[i];
        }
    }
    e->n = n;
}

/* What an item measures. */
static const charl__metric_data *data_of(const charl__evaluation *e, const charl__evaluation_item *item)
{
    return item->output >= 0 ? &e->output_data[item->output] : &e->data;
}

/* Allocate memory for the data that the items collect. */
static charl_status reserve(charl__evaluation *e)
{
    int64_t at = 0;

    for (int i = 0; i < e->n; i++) {
        charl__evaluation_item *item = &e->item[i];

        item->size = (charl__metric_size){0};
        if (item->type->size) {
            item->type->size(data_of(e, item), &item->size);
        }
        e->n_exact += item->size.counts + item->size.sums * CHARL__EXACT_LIMBS;
    }
    CHARL_TRY(charl__alloc_array(e->n_exact, sizeof *e->exact, &e->exact));
    for (int i = 0; i < e->n; i++) {
        charl__evaluation_item *item = &e->item[i];

        item->state.counts = e->exact + at;
        item->state.sums = item->state.counts + item->size.counts;
        at += item->size.counts + item->size.sums * CHARL__EXACT_LIMBS;
    }
    return CHARL_OK;
}

charl_status charl__evaluation_begin(charl__evaluation *e, const charl_shape *out)
{
    const int64_t each = charl_shape_count(out) / out->dim[0];
    const int64_t outputs = e->data.targets == CHARL_TARGET_TOKENS ? out->dim[out->ndim - 1] : each / e->data.quantiles;

    if (!e->exact) {
        e->data.outputs = outputs;
        e->data.classes = e->data.targets == CHARL_TARGET_TOKENS || e->data.quantiles > 1
                              ? outputs
                              : charl__task_classes(e->data.targets, out);
        for (int k = 0; k < e->outputs.n; k++) {
            const charl__output *o = &e->outputs.at[k];

            e->output_data[k] = (charl__metric_data){.targets = charl__output_row_kind(o),
                                                     .outputs = o->count / o->quantiles,
                                                     .quantiles = o->quantiles,
                                                     .classes = o->classes};
        }
        drop_wide_pairs(e);
        CHARL_TRY(reserve(e));
    }
    CHARL_INVARIANT(e->data.outputs == outputs);
    memset(e->exact, 0, (size_t)e->n_exact * sizeof *e->exact);
    for (int i = 0; i < e->n; i++) {
        e->item[i].state.n_kept = 0;
        e->item[i].sum = 0.0;
    }
    memset(e->output_weight, 0, sizeof e->output_weight);
    e->first = 0;
    e->loss_sum = e->loss_weight = e->weight = 0.0;
    return CHARL_OK;
}

/* Make room for that many rows in item->state.kept. */
static charl_status reserve_rows(charl__evaluation_item *item, int64_t rows)
{
    int64_t capacity = item->capacity ? item->capacity : 1024;

    while (capacity < rows) {
        capacity *= 2;
    }
    if (capacity > item->capacity) {
        CHARL_TRY(charl__realloc(sizeof(double) * (size_t)(capacity * item->size.kept), &item->state.kept));
        item->capacity = capacity;
    }
    return CHARL_OK;
}

/* The row as the loss sees it. */
static charl__eval_row scaled_row(charl__evaluation *e, const charl__eval_row *row)
{
    const charl_data_schema *s = e->scaled_by;
    charl__eval_row scaled = *row;

    const int64_t outputs = e->data.quantiles * row->n;

    for (int64_t i = 0; s && i < outputs + row->n; i++) {
        const int64_t t = i % row->n;

        e->scaled[i] = ((i < outputs ? row->values[i] : row->numbers[t]) - s->target_mean[t]) / s->target_std[t];
    }
    if (s) {
        scaled.values = e->scaled;
        scaled.outputs = e->scaled + (row->outputs - row->values);
        scaled.numbers = e->scaled + outputs;
    }
    return scaled;
}

/* Let the items of an output see a row, with the weight of their means. */
static charl_status add_to_items(charl__evaluation *e, int output, charl_target_kind kind, const charl__eval_row *row,
                                 double weight)
{
    for (int i = 0; i < e->n; i++) {
        charl__evaluation_item *item = &e->item[i];
        charl__metric_state at = item->state;

        if (item->output != output) {
            continue;
        }

        if (item->size.kept > 0) {
            CHARL_TRY(reserve_rows(item, item->state.n_kept + 1));
            at.kept = item->state.kept + item->state.n_kept * item->size.kept;
            item->state.n_kept++;
        }
        if (item->type->add) {
            item->type->add(data_of(e, item), row, &at);
        }
        if (e->on_host && item->type->reference) {
            item->sum += weight * item->type->reference(kind, row);
        }
    }
    return CHARL_OK;
}

/* A row of all outputs. */
static charl_status add_outputs(charl__evaluation *e, const charl__eval_row *all)
{
    double loss = 0.0;

    for (int k = 0; k < e->outputs.n; k++) {
        const charl__output *o = &e->outputs.at[k];
        charl__eval_row row;
        double own;

        if (!charl__output_row_of(o, all, &e->room, &row)) {
            continue; /* none of its targets counts */
        }
        CHARL_TRY(add_to_items(e, k, charl__output_row_kind(o), &row, 1.0));
        if (e->on_host) {
            own = o->loss->reference(o->settings, &row);
            loss += (double)o->weight * own;
            e->output_weight[k] += 1.0;
            e->item[k].sum += own; /* its loss: open_outputs puts these first */
        }
    }
    e->loss_sum += loss;
    e->loss_weight += 1.0;
    e->weight += 1.0;
    return CHARL_OK;
}

static charl_status add_row(charl__evaluation *e, const charl__eval_row *row)
{
    const bool pixels = e->on_host && row->is_map && row->weights;
    const double weight = pixels ? charl__eval_weights(row) / (double)charl__eval_pixels(row) : 1.0;

    if (e->outputs.n > 0) {
        return add_outputs(e, row);
    }
    CHARL_TRY(add_to_items(e, -1, e->data.targets, row, weight));
    if (e->on_host) {
        const charl__eval_row scaled = scaled_row(e, row);
        const double loss_weight = e->loss->build_counted ? 1.0 : weight;

        e->loss_sum += loss_weight * e->loss->reference(e->loss_settings, &scaled);
        e->loss_weight += loss_weight;
        e->weight += weight;
    }
    return CHARL_OK;
}

static bool is_left_out(const float *weight, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        if (weight[i] > 0.0F) {
            return false;
        }
    }
    return true;
}

charl_status charl__evaluation_add(charl__evaluation *e, int64_t n, const float *outputs, charl_dtype dtype,
                                   const void *targets, int64_t per_row, const float *weight, int64_t weights)
{
    const bool tokens = e->data.targets == CHARL_TARGET_TOKENS;
    const int64_t point = charl__loss_point(e->loss, e->loss_settings);

    for (int64_t r = 0; r < n; r++) {
        charl__eval_row row = {.n = tokens ? per_row : e->data.outputs,
                               .is_map = e->data.targets == CHARL_TARGET_MAPS,
                               .classes = e->data.classes,
                               .index = e->first + r};

        if (weight && is_left_out(weight + r * weights, weights)) {
            continue;
        }
        row.weights = weight && weights > 1 ? weight + r * weights : NULL;
        if (dtype == CHARL_I32) {
            row.labels = (const int32_t *)targets + r * per_row;
        } else {
            row.numbers = (const float *)targets + r * per_row;
        }
        if (outputs) {
            row.values = outputs + r * e->data.outputs * e->data.quantiles;
            row.outputs = row.values + point * e->data.outputs;
            row.predicted = e->data.targets == CHARL_TARGET_CLASS ? charl__largest(row.outputs, row.n, 1) : 0;
        }
        CHARL_TRY(add_row(e, &row));
    }
    e->first += n;
    return CHARL_OK;
}

double charl__evaluation_loss(const charl__evaluation *e)
{
    return e->loss_weight > 0 ? e->loss_sum / e->loss_weight : (double)NAN;
}

/* Value of the item of the worst samples, and the samples in the report if there is one. */
static charl_status finish_worst(charl__evaluation *e, int i, double *value, charl_eval_report *report)
{
    double v[CHARL_MAX_WORST][CHARL__WORST_NUMBERS];

    CHARL_TRY(e->item[i].type->finish(&e->data, &e->item[i].state, value, report ? &v[0][0] : NULL));
    for (int k = 0; report && k < CHARL_MAX_WORST && !isnan(v[k][0]); k++) {
        report->worst[report->n_worst++] = (charl_worst_sample){.row = (int64_t)v[k][0],
                                                                .actual = (int64_t)v[k][1],
                                                                .predicted = (int64_t)v[k][2],
                                                                .actual_probability = v[k][3],
                                                                .predicted_probability = v[k][4]};
    }
    return CHARL_OK;
}

/* Value of the item, and its points in the report if there is one. */
static charl_status finish_points(charl__evaluation *e, int i, double *value, charl_eval_report *report)
{
    const charl__metric *m = e->item[i].type;
    charl_metric_diagram *d = report ? &report->diagrams[report->n_diagrams] : NULL;

    if (report) {
        CHARL_INVARIANT(report->n_diagrams < CHARL_MAX_DIAGRAMS);
        CHARL_TRY(
            charl__alloc_array((int64_t)CHARL__MOST_POINTS * CHARL_DIAGRAM_COLUMNS, sizeof *d->values, &d->values));
        report->n_diagrams++;
        d->name = m->diagram.name;
        memcpy(d->columns, m->diagram.columns, sizeof d->columns);
        for (int64_t k = 0; k < (int64_t)CHARL__MOST_POINTS * CHARL_DIAGRAM_COLUMNS; k++) {
            d->values[k] = (double)NAN;
        }
    }
    CHARL_TRY(m->finish(data_of(e, &e->item[i]), &e->item[i].state, value, d ? d->values : NULL));
    while (d && d->n < CHARL__MOST_POINTS && !isnan(d->values[d->n * CHARL_DIAGRAM_COLUMNS])) {
        d->n++;
    }
    return CHARL_OK;
}

/* Values of one item, and its table in the report if there is one. */
static charl_status finish_item(charl__evaluation *e, int i, double *value, charl_eval_report *report)
{
    const charl__metric *m = e->item[i].type;
    double *details = NULL;

    if (m->detail == CHARL__DETAIL_WORST) {
        return finish_worst(e, i, value, report);
    }
    if (m->detail == CHARL__DETAIL_POINTS && e->item[i].output < 0) {
        return finish_points(e, i, value, report);
    }
    if (report && m->detail != CHARL__DETAIL_NONE && e->item[i].output < 0) {
        charl_metric_table *table = &report->tables[report->n_tables];
        const bool pairs = m->detail == CHARL__DETAIL_PAIRS;

        CHARL_TRY(charl__alloc_array(e->data.classes * (pairs ? e->data.classes : 1), sizeof *details, &details));
        *table = (charl_metric_table){m->row.name, m->fraction, pairs, details};
        report->n_tables++;
    }
    return m->finish(data_of(e, &e->item[i]), &e->item[i].state, value, details);
}

charl_status charl__evaluation_finish(charl__evaluation *e, double loss, const double *means,
                                      charl_metric_value values[CHARL_MAX_METRICS], int *n, charl_eval_report **report)
{
    charl_status st = CHARL_OK;
    charl_eval_report *r = NULL;

    *n = 0;
    if (report) {
        *report = NULL;
        CHARL_TRY_CLEANUP(charl__alloc(sizeof *r, &r));
        r->targets = e->data.targets;
        r->n = e->data.targets == CHARL_TARGET_TOKENS ? 0 : e->data.classes;
        /* names of targets do not apply to masks */
        CHARL_TRY_CLEANUP(charl__strdup(
            e->data.targets == CHARL_TARGET_FLAGS && e->data.classes < e->data.outputs ? "" : e->names, &r->names));
    }
    for (int i = 0; i < e->n; i++) {
        charl__evaluation_item *item = &e->item[i];
        double value = (double)NAN;

        const double weight = item->output >= 0 ? e->output_weight[item->output] : e->weight;

        item->state.mean = means ? means[i] : weight > 0 ? item->sum / weight : (double)NAN;
        /* the items of the outputs' losses come first */
        item->state.loss = item->output >= 0 ? e->item[item->output].state.mean : loss;
        CHARL_TRY_CLEANUP(finish_item(e, i, &value, r));
        if (!item->type->report_only) {
            values[*n] = (charl_metric_value){.value = value, .fraction = item->type->fraction};
            name_item(e, item, values[(*n)++].name);
        }
    }
    if (report) {
        *report = r;
        r = NULL;
    }
cleanup:
    charl_eval_report_destroy(r);
    return st;
}

void charl__evaluation_fini(charl__evaluation *e)
{
    for (int i = 0; i < e->n; i++) {
        charl_free(e->item[i].state.kept);
    }
    charl_free(e->exact);
    charl_free(e->token_bytes);
    charl_free(e->scaled);
    charl__output_row_fini(&e->room);
    *e = (charl__evaluation){0};
}
