/* Rows of predictions. Numbers have the digits that read back as the same float. */
#include "cli/charl_predict.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/utf8.h"

/* Text from a data file as a CSV field: quoted where it must be, and on one line. */
static charl_status put_csv(charl__text *line, const char *s, size_t length)
{
    charl_status st = CHARL_OK;
    const bool quoted =
        memchr(s, ',', length) || memchr(s, '"', length) || s[0] == ' ' || s[length - 1] == ' ';

    CHARL_TRY(charl__text_append(line, "\"", quoted));
    for (size_t i = 0, n; i < length; i += n) {
        bool visible;

        n = charl__utf8_next(s + i, length - i, &visible);
        CHARL_TRY(charl__text_append(line, "\"", s[i] == '"'));
        CHARL_TRY(charl__text_append(line, visible ? s + i : "?", visible ? n : 1));
    }
    CHARL_TRY(charl__text_append(line, "\"", quoted));
cleanup:
    return st;
}

/* Name number `k` of newline-separated names; NULL where there is none. */
static const char *find_name(const char *names, int64_t k, size_t *length)
{
    while (k > 0 && *names) {
        names += strcspn(names, "\n");
        names += *names == '\n';
        k--;
    }
    *length = strcspn(names, "\n");
    return *length > 0 ? names : NULL;
}

/* A class by its name, or by its number where it has none. */
static charl_status put_class(charl__predict_rows *o, const char *names, int64_t k)
{
    charl_status st = CHARL_OK;
    size_t length;
    const char *name = find_name(names, k, &length);
    charl__text copy = {0};

    if (!name) {
        CHARL_TRY(charl__text_printf(&o->line, "%" PRId64, k));
    } else if (o->jsonl) {
        CHARL_TRY(charl__text_append(&copy, name, length));
        CHARL_TRY(charl__text_json(&o->line, charl__text_string(&copy)));
    } else {
        CHARL_TRY(put_csv(&o->line, name, length));
    }
cleanup:
    charl__text_fini(&copy);
    return st;
}

static charl_status put_key(charl__predict_rows *o, const char *key)
{
    return o->jsonl ? charl__text_printf(&o->line, ",\"%s\":", key)
                    : charl__text_append(&o->line, ",", 1);
}

double charl__predict_value(const charl__predict_rows *o, const charl_prediction *p, bool output,
                            int64_t i)
{
    if (!output) {
        return p->labels ? (double)p->labels[i] : (double)p->targets[i];
    }
    return o->loss == CHARL_LOSS_BCE ? 1.0 / (1.0 + exp(-(double)p->outputs[i]))
                                     : (double)p->outputs[i];
}

/* One column per value; in JSON a list, or a number where there is but one. */
static charl_status put_values(charl__predict_rows *o, const charl_prediction *p, bool output)
{
    charl_status st = CHARL_OK;
    const int64_t n = output ? p->n_outputs : p->n_targets;
    const bool list = o->jsonl && n != 1;

    CHARL_TRY(charl__text_append(&o->line, "[", list));
    for (int64_t i = 0; i < n; i++) {
        CHARL_TRY(charl__text_printf(&o->line, "%s%.9g", i ? "," : "",
                                     charl__predict_value(o, p, output, i)));
    }
    CHARL_TRY(charl__text_append(&o->line, "]", list));
cleanup:
    return st;
}

int64_t charl__predict_classes(const charl_prediction *p, double *out)
{
    double sum = 0.0;
    int64_t best = 0;

    for (int64_t i = 1; i < p->n_outputs; i++) {
        best = p->outputs[i] > p->outputs[best] ? i : best;
    }
    for (int64_t i = 0; i < p->n_outputs; i++) {
        out[i] = exp((double)p->outputs[i] - (double)p->outputs[best]);
        sum += out[i];
    }
    for (int64_t i = 0; i < p->n_outputs; i++) {
        out[i] /= sum;
    }
    return best;
}

static charl_status put_classes(charl__predict_rows *o, const charl_prediction *p)
{
    charl_status st = CHARL_OK;
    const int64_t best = charl__predict_classes(p, o->probability);
    const char *names = p->data->class_names;

    if (p->labels) {
        CHARL_TRY(put_key(o, "label"));
        CHARL_TRY(put_class(o, names, p->labels[0]));
    }
    CHARL_TRY(put_key(o, "predicted"));
    CHARL_TRY(put_class(o, names, best));
    CHARL_TRY(put_key(o, "probability"));
    CHARL_TRY(charl__text_printf(&o->line, "%.9g", o->probability[best]));
    if (o->all) {
        CHARL_TRY(put_key(o, "probabilities"));
        CHARL_TRY(charl__text_append(&o->line, "[", o->jsonl));
        for (int64_t i = 0; i < p->n_outputs; i++) {
            CHARL_TRY(charl__text_printf(&o->line, "%s%.9g", i ? "," : "", o->probability[i]));
        }
        CHARL_TRY(charl__text_append(&o->line, "]", o->jsonl));
    }
    o->correct += p->labels && best == p->labels[0];
cleanup:
    return st;
}

static const char *output_name(const charl__predict_rows *o)
{
    return o->loss == CHARL_LOSS_BCE ? "probability" : "prediction";
}

static charl_status put_numbers(charl__predict_rows *o, const charl_prediction *p)
{
    charl_status st = CHARL_OK;

    if (p->labels || p->targets) {
        CHARL_TRY(put_key(o, "target"));
        CHARL_TRY(put_values(o, p, false));
    }
    CHARL_TRY(put_key(o, output_name(o)));
    CHARL_TRY(put_values(o, p, true));
cleanup:
    return st;
}

/* Which sample this is. */
static charl_status put_name(charl__predict_rows *o, const charl_prediction *p)
{
    charl_status st = CHARL_OK;

    if (!p->file) {
        CHARL_TRY(charl__text_printf(&o->line, "%s%" PRId64, o->jsonl ? "{\"row\":" : "", p->row));
    } else if (o->jsonl) {
        CHARL_TRY(charl__text_printf(&o->line, "{\"file\":"));
        CHARL_TRY(charl__text_json(&o->line, p->file));
    } else {
        CHARL_TRY(put_csv(&o->line, p->file, strlen(p->file)));
    }
cleanup:
    return st;
}

static charl_status put_columns(charl__text *line, const char *name, int64_t n)
{
    charl_status st = CHARL_OK;

    if (n == 1) {
        CHARL_TRY(charl__text_printf(line, ",%s", name));
        goto cleanup;
    }
    for (int64_t i = 0; i < n; i++) {
        CHARL_TRY(charl__text_printf(line, ",%s_%" PRId64, name, i));
    }
cleanup:
    return st;
}

static charl_status put_header(charl__predict_rows *o, const charl_prediction *p)
{
    charl_status st = CHARL_OK;
    charl__text name = {0};
    size_t length;

    CHARL_TRY(charl__text_printf(&o->line, p->file ? "file" : "row"));
    if (o->loss == CHARL_LOSS_CROSS_ENTROPY) {
        CHARL_TRY(
            charl__text_printf(&o->line, "%s,predicted,probability", p->file ? "" : ",label"));
    } else {
        CHARL_TRY(put_columns(&o->line, "target", p->file ? 0 : p->n_targets));
        CHARL_TRY(put_columns(&o->line, output_name(o), p->n_outputs));
    }
    for (int64_t i = 0; o->all && i < p->n_outputs; i++) {
        const char *class_name = find_name(p->data->class_names, i, &length);

        charl__text_clear(&name);
        CHARL_TRY(charl__text_printf(&name, "p_"));
        if (class_name) {
            CHARL_TRY(charl__text_append(&name, class_name, length));
        } else {
            CHARL_TRY(charl__text_printf(&name, "%" PRId64, i));
        }
        CHARL_TRY(charl__text_append(&o->line, ",", 1));
        CHARL_TRY(put_csv(&o->line, charl__text_string(&name), name.length));
    }
    CHARL_TRY(charl__text_append(&o->line, "\n", 1));
cleanup:
    charl__text_fini(&name);
    return st;
}

charl_status charl__predict_rows_write(charl__predict_rows *o, const charl_prediction *p)
{
    charl_status st = CHARL_OK;

    charl__text_clear(&o->line);
    if (o->rows == 0) {
        o->step = p->step;
        CHARL_TRY(charl_alloc_array(p->n_outputs, sizeof *o->probability, &o->probability));
        if (!o->jsonl && !o->h5_path) {
            CHARL_TRY(put_header(o, p));
        }
    }
    o->rows++;
    if (o->h5_path) {
        CHARL_TRY(charl__predict_h5_write(o, p));
        goto cleanup;
    }
    CHARL_TRY(put_name(o, p));
    if (o->loss == CHARL_LOSS_CROSS_ENTROPY) {
        CHARL_TRY(put_classes(o, p));
    } else {
        CHARL_TRY(put_numbers(o, p));
    }
    CHARL_TRY(charl__text_printf(&o->line, "%s\n", o->jsonl ? "}" : ""));
    CHARL_REQUIRE(fwrite(o->line.data, 1, o->line.length, o->file) == o->line.length,
                  CHARL_ERR_DISK, "predictions could not be written: %s", strerror(errno));
cleanup:
    return st;
}

void charl__predict_rows_fini(charl__predict_rows *o)
{
    charl__text_fini(&o->line);
    charl__prediction_file_destroy(o->h5);
    charl_free(o->values);
    charl_free(o->probability);
    o->h5 = NULL;
    o->values = NULL;
    o->probability = NULL;
}
