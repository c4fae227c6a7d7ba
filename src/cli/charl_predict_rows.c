/* Rows of predictions. Numbers have the digits that read back as the same float. */
#include "cli/charl_predict.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/utf8.h"

static charl_status read_names(const char *list, charl__name_list *out)
{
    const int64_t n = charl_names_count(list);

    CHARL_TRY(charl_alloc_array(n, sizeof *out->at, &out->at));
    CHARL_TRY(charl_alloc_array(n, sizeof *out->length, &out->length));
    for (int64_t i = 0; i < n; i++) {
        out->at[i] = list;
        out->length[i] = strcspn(list, "\n");
        list += out->length[i] + 1;
    }
    out->n = n;
    return CHARL_OK;
}

static void names_fini(charl__name_list *l)
{
    charl_free(l->at);
    charl_free(l->length);
    *l = (charl__name_list){0};
}

/* Text from elsewhere as a CSV field: quoted where it must be, on one line, and of characters that
 * a terminal shows. */
static charl_status put_csv(charl__text *line, const char *s, size_t length)
{
    const bool quoted =
        memchr(s, ',', length) || memchr(s, '"', length) || (length > 0 && (s[0] == ' ' || s[length - 1] == ' '));

    CHARL_TRY(charl__text_append(line, "\"", quoted));
    for (size_t i = 0, n; i < length; i += n) {
        bool visible;

        n = charl__utf8_next(s + i, length - i, &visible);
        CHARL_TRY(charl__text_append(line, "\"", s[i] == '"'));
        CHARL_TRY(charl__text_append(line, visible ? s + i : "?", visible ? n : 1));
    }
    CHARL_TRY(charl__text_append(line, "\"", quoted));
    return CHARL_OK;
}

static charl_status put_text(charl__predict_rows *o, const char *s, size_t length)
{
    charl_status st = CHARL_OK;
    charl__text copy = {0};

    if (!o->jsonl) {
        return put_csv(&o->line, s, length);
    }
    CHARL_TRY_CLEANUP(charl__text_append(&copy, s, length));
    CHARL_TRY_CLEANUP(charl__text_json(&o->line, charl__text_string(&copy)));
cleanup:
    charl__text_fini(&copy);
    return st;
}

/* A class by its name, or by its number where it has none; nothing where it is unknown. */
static charl_status put_class(charl__predict_rows *o, int64_t k)
{
    if (k < 0) {
        return charl__text_printf(&o->line, "%s", o->jsonl ? "null" : "");
    }
    return k < o->classes.n ? put_text(o, o->classes.at[k], o->classes.length[k])
                            : charl__text_printf(&o->line, "%" PRId64, k);
}

static charl_status put_key(charl__predict_rows *o, const char *key)
{
    return o->jsonl ? charl__text_printf(&o->line, ",\"%s\":", key) : charl__text_append(&o->line, ",", 1);
}

static charl_status put_number(charl__predict_rows *o, double v)
{
    return isnan(v) ? charl__text_printf(&o->line, "%s", o->jsonl ? "null" : "")
                    : charl__text_printf(&o->line, "%.9g", v);
}

/* In JSON the key of value i of several; `names` says what it is called. */
static charl_status put_member(charl__predict_rows *o, const charl__name_list *names, int64_t i)
{
    CHARL_TRY(charl__text_append(&o->line, ",", i > 0));
    if (o->jsonl && i < names->n) {
        CHARL_TRY(put_text(o, names->at[i], names->length[i]));
        CHARL_TRY(charl__text_append(&o->line, ":", 1));
    }
    return CHARL_OK;
}

/* Several values as columns, or in JSON as one object where they have names, else as a list. */
static charl_status put_bracket(charl__predict_rows *o, const charl__name_list *names, int64_t n, bool opening)
{
    const bool object = names->n >= n;

    if (!o->jsonl || (n == 1 && !object)) {
        return CHARL_OK;
    }
    return charl__text_printf(&o->line, "%s", object ? (opening ? "{" : "}") : opening ? "[" : "]");
}

static double value_of(const charl_prediction *p, bool output, int64_t i)
{
    if (!output) {
        return p->targets ? (double)p->targets[i] : p->labels[i] < 0 ? (double)NAN : (double)p->labels[i];
    }
    return p->info->loss == CHARL_LOSS_BCE ? 1.0 / (1.0 + exp(-(double)p->outputs[i])) : (double)p->outputs[i];
}

static charl_status put_values(charl__predict_rows *o, const charl_prediction *p, bool output)
{
    const int64_t n = output ? p->info->n_outputs : p->info->n_targets;

    CHARL_TRY(put_bracket(o, &o->targets, n, true));
    for (int64_t i = 0; i < n; i++) {
        CHARL_TRY(put_member(o, &o->targets, i));
        CHARL_TRY(put_number(o, value_of(p, output, i)));
    }
    CHARL_TRY(put_bracket(o, &o->targets, n, false));
    return CHARL_OK;
}

/* Softmax of the outputs; returns the first of the largest. */
static int64_t find_classes(const charl_prediction *p, double *out)
{
    double sum = 0.0;
    int64_t best = 0;

    for (int64_t i = 1; i < p->info->n_outputs; i++) {
        best = p->outputs[i] > p->outputs[best] ? i : best;
    }
    for (int64_t i = 0; i < p->info->n_outputs; i++) {
        out[i] = exp((double)p->outputs[i] - (double)p->outputs[best]);
        sum += out[i];
    }
    for (int64_t i = 0; i < p->info->n_outputs; i++) {
        out[i] /= sum;
    }
    return best;
}

static charl_status put_classes(charl__predict_rows *o, const charl_prediction *p)
{
    const int64_t best = find_classes(p, o->probability), n = p->info->n_outputs;

    if (p->labels) {
        CHARL_TRY(put_key(o, "label"));
        CHARL_TRY(put_class(o, p->labels[0]));
    }
    CHARL_TRY(put_key(o, "predicted"));
    CHARL_TRY(put_class(o, best));
    CHARL_TRY(put_key(o, "probability"));
    CHARL_TRY(put_number(o, o->probability[best]));
    if (o->all) {
        CHARL_TRY(put_key(o, "probabilities"));
        CHARL_TRY(put_bracket(o, &o->classes, n, true));
        for (int64_t i = 0; i < n; i++) {
            CHARL_TRY(put_member(o, &o->classes, i));
            CHARL_TRY(put_number(o, o->probability[i]));
        }
        CHARL_TRY(put_bracket(o, &o->classes, n, false));
    }
    return CHARL_OK;
}

static const char *output_name(const charl_prediction *p)
{
    return p->info->loss == CHARL_LOSS_BCE ? "probability" : "prediction";
}

static charl_status put_numbers(charl__predict_rows *o, const charl_prediction *p)
{
    if (p->info->has_targets) {
        CHARL_TRY(put_key(o, "target"));
        CHARL_TRY(put_values(o, p, false));
    }
    CHARL_TRY(put_key(o, output_name(p)));
    CHARL_TRY(put_values(o, p, true));
    return CHARL_OK;
}

/* What the first column is called. */
static const char *name_of_names(const charl_predict_info *info)
{
    return info->files ? "file" : info->has_names ? "id" : "row";
}

/* Which sample this is. */
static charl_status put_name(charl__predict_rows *o, const charl_prediction *p)
{
    if (o->jsonl) {
        CHARL_TRY(charl__text_printf(&o->line, "{\"%s\":", name_of_names(p->info)));
    }
    if (p->name) {
        CHARL_TRY(put_text(o, p->name, strlen(p->name)));
    } else {
        CHARL_TRY(charl__text_printf(&o->line, "%" PRId64, p->row));
    }
    return CHARL_OK;
}

/* ",PREFIX_NAME" for each of n columns; NAME is the number of one that has none. */
static charl_status put_columns(charl__text *line, const char *prefix, const charl__name_list *names, int64_t n)
{
    charl_status st = CHARL_OK;
    charl__text name = {0};

    for (int64_t i = 0; i < n; i++) {
        charl__text_clear(&name);
        CHARL_TRY_CLEANUP(charl__text_printf(&name, "%s_", prefix));
        if (i < names->n) {
            CHARL_TRY_CLEANUP(charl__text_append(&name, names->at[i], names->length[i]));
        } else {
            CHARL_TRY_CLEANUP(charl__text_printf(&name, "%" PRId64, i));
        }
        CHARL_TRY_CLEANUP(charl__text_append(line, ",", 1));
        CHARL_TRY_CLEANUP(put_csv(line, charl__text_string(&name), name.length));
    }
cleanup:
    charl__text_fini(&name);
    return st;
}

/* Columns of targets or of what was predicted for them; a single one without a name is PREFIX. */
static charl_status put_target_columns(charl__predict_rows *o, const char *prefix, int64_t n)
{
    return n == 1 && o->targets.n == 0 ? charl__text_printf(&o->line, ",%s", prefix)
                                       : put_columns(&o->line, prefix, &o->targets, n);
}

static charl_status put_header(charl__predict_rows *o, const charl_prediction *p)
{
    const charl_predict_info *info = p->info;

    CHARL_TRY(charl__text_printf(&o->line, "%s", name_of_names(info)));
    if (info->loss == CHARL_LOSS_CROSS_ENTROPY) {
        CHARL_TRY(charl__text_printf(&o->line, "%s,predicted,probability", info->has_targets ? ",label" : ""));
        CHARL_TRY(put_columns(&o->line, "p", &o->classes, o->all ? info->n_outputs : 0));
    } else {
        if (info->has_targets) {
            CHARL_TRY(put_target_columns(o, "target", info->n_targets));
        }
        CHARL_TRY(put_target_columns(o, output_name(p), info->n_outputs));
    }
    CHARL_TRY(charl__text_append(&o->line, "\n", 1));
    return CHARL_OK;
}

static charl_status create_h5(charl__predict_rows *o, const charl_prediction *p)
{
    const charl_predict_info *info = p->info;
    const bool classes = info->loss == CHARL_LOSS_CROSS_ENTROPY;
    const charl__prediction_spec spec = {.rows = info->n_rows,
                                         .outputs = info->n_outputs,
                                         .targets = info->has_targets ? info->n_targets : 0,
                                         .classes = classes,
                                         .labels = p->labels,
                                         .step = info->step,
                                         .files = info->files,
                                         .class_names = classes ? info->schema->class_names : NULL,
                                         .target_names = classes ? NULL : info->schema->targets};

    CHARL_TRY(charl_alloc_array(info->n_outputs, sizeof *o->values, &o->values));
    CHARL_TRY(charl__prediction_file_create(o->h5_path, &spec, &o->h5));
    return CHARL_OK;
}

static charl_status write_h5(charl__predict_rows *o, const charl_prediction *p)
{
    const bool classes = p->info->loss == CHARL_LOSS_CROSS_ENTROPY;
    const int64_t best = classes ? find_classes(p, o->probability) : 0;

    for (int64_t i = 0; i < p->info->n_outputs; i++) {
        o->values[i] = (float)(classes ? o->probability[i] : value_of(p, true, i));
    }
    CHARL_TRY(
        charl__prediction_file_put(o->h5, o->values, (int32_t)best, p->labels ? (const void *)p->labels : p->targets));
    return CHARL_OK;
}

static charl_status begin(charl__predict_rows *o, const charl_prediction *p)
{
    CHARL_TRY(charl_alloc_array(p->info->n_outputs, sizeof *o->probability, &o->probability));
    CHARL_TRY(read_names(p->info->schema->class_names, &o->classes));
    CHARL_TRY(read_names(p->info->schema->targets, &o->targets));
    if (o->h5_path) {
        CHARL_TRY(create_h5(o, p));
    } else if (!o->jsonl) {
        CHARL_TRY(put_header(o, p));
    }
    o->begun = true;
    return CHARL_OK;
}

charl_status charl__predict_rows_write(charl__predict_rows *o, const charl_prediction *p)
{
    charl__text_clear(&o->line);
    if (!o->begun) {
        CHARL_TRY(begin(o, p));
    }
    if (o->h5_path) {
        return write_h5(o, p);
    }
    CHARL_TRY(put_name(o, p));
    if (p->info->loss == CHARL_LOSS_CROSS_ENTROPY) {
        CHARL_TRY(put_classes(o, p));
    } else {
        CHARL_TRY(put_numbers(o, p));
    }
    CHARL_TRY(charl__text_printf(&o->line, "%s\n", o->jsonl ? "}" : ""));
    CHARL_REQUIRE(fwrite(o->line.data, 1, o->line.length, o->file) == o->line.length, CHARL_ERR_DISK,
                  "predictions could not be written: %s", strerror(errno));
    return CHARL_OK;
}

void charl__predict_rows_fini(charl__predict_rows *o)
{
    charl__text_fini(&o->line);
    charl__prediction_file_destroy(o->h5);
    names_fini(&o->classes);
    names_fini(&o->targets);
    charl_free(o->values);
    charl_free(o->probability);
    o->h5 = NULL;
    o->values = NULL;
    o->probability = NULL;
}
