/* The report of an evaluation as JSON. */
#include <inttypes.h>

#include "base/alloc.h"
#include "base/text/text.h"
#include "charl/data_schema.h"
#include "charl/train.h"

static charl_status put_pairs(const charl_metric_table *table, int64_t n, charl__text *out)
{
    CHARL_TRY(charl__text_printf(out, ",\"%s\":[", table->name));
    for (int64_t i = 0; i < n * n; i++) {
        CHARL_TRY(charl__text_printf(out, "%s", i == 0 ? "[" : i % n == 0 ? "],[" : ","));
        CHARL_TRY(charl__text_json_number(out, table->values[i]));
    }
    return charl__text_printf(out, "%s]", n > 0 ? "]" : "");
}

/* The worst samples; `actual` and `predicted` are numbers of classes. */
static charl_status put_worst(const charl_eval_report *r, charl__text *out)
{
    for (int i = 0; i < r->n_worst; i++) {
        const charl_worst_sample *w = &r->worst[i];

        CHARL_TRY(charl__text_printf(out, "%s{\"row\":%" PRId64 ",\"actual\":%" PRId64 ",\"predicted\":%" PRId64,
                                     i ? "," : ",\"worst\":[", w->row, w->actual, w->predicted));
        CHARL_TRY(charl__text_printf(out, ",\"actual_probability\":"));
        CHARL_TRY(charl__text_json_number(out, w->actual_probability));
        CHARL_TRY(charl__text_printf(out, ",\"predicted_probability\":"));
        CHARL_TRY(charl__text_json_number(out, w->predicted_probability));
        if (w->file) {
            CHARL_TRY(charl__text_printf(out, ",\"file\":"));
            CHARL_TRY(charl__text_json(out, w->file));
        }
        if (w->png) {
            CHARL_TRY(charl__text_printf(out, ",\"png\":\""));
            CHARL_TRY(charl__text_base64(out, w->png, w->png_bytes));
            CHARL_TRY(charl__text_printf(out, "\""));
        }
        CHARL_TRY(charl__text_printf(out, "}"));
    }
    return charl__text_printf(out, "%s", r->n_worst > 0 ? "]" : "");
}

/* "NAME":[{COLUMN:VALUE,...},...] */
static charl_status put_diagram(const charl_metric_diagram *d, charl__text *out)
{
    CHARL_TRY(charl__text_printf(out, ",\"%s\":[", d->name));
    for (int64_t i = 0; i < d->n * CHARL_DIAGRAM_COLUMNS; i++) {
        const int column = (int)(i % CHARL_DIAGRAM_COLUMNS);

        CHARL_TRY(charl__text_printf(out, "%s\"%s\":", column > 0 ? "," : i > 0 ? "},{" : "{", d->columns[column]));
        CHARL_TRY(charl__text_json_number(out, d->values[i]));
    }
    return charl__text_printf(out, "%s]", d->n > 0 ? "}" : "");
}

static charl_status put_each(const charl_eval_report *r, int64_t i, charl__text *out)
{
    CHARL_SCOPED(charl__text_fini) charl__text name = {0};
    size_t length;
    const char *at = charl_names_get(r->names, i, &length);

    if (at) {
        CHARL_TRY(charl__text_append(&name, at, length));
    } else { /* a number, where there are no names */
        CHARL_TRY(charl__text_printf(&name, "%" PRId64, i));
    }
    CHARL_TRY(charl__text_printf(out, "%s{\"name\":", i > 0 ? "," : ""));
    CHARL_TRY(charl__text_json(out, charl__text_string(&name)));
    for (int t = 0; t < r->n_tables; t++) {
        if (!r->tables[t].pairs) {
            CHARL_TRY(charl__text_printf(out, ",\"%s\":", r->tables[t].name));
            CHARL_TRY(charl__text_json_number(out, r->tables[t].values[i]));
        }
    }
    CHARL_TRY(charl__text_printf(out, "}"));
    return CHARL_OK;
}

static charl_status put_report(const charl_eval_report *r, const charl_val_row *row, const char *split,
                               charl__text *out)
{
    CHARL_TRY(charl__text_printf(out, "{\"split\":\"%s\",\"step\":%" PRId64 ",\"loss\":", split, row->step));
    CHARL_TRY(charl__text_json_number(out, row->loss));
    for (int i = 0; i < row->n_metrics; i++) {
        CHARL_TRY(charl__text_printf(out, ",\"%s\":", row->metrics[i].name));
        CHARL_TRY(charl__text_json_number(out, row->metrics[i].value));
    }
    CHARL_TRY(charl__text_printf(out, ",\"%s\":[",
                                 r->targets == CHARL_TARGET_CLASS || r->targets == CHARL_TARGET_MAPS ? "classes"
                                 : r->targets == CHARL_TARGET_FLAGS                                  ? "labels"
                                                                                                     : "targets"));
    for (int64_t i = 0; i < r->n; i++) {
        CHARL_TRY(put_each(r, i, out));
    }
    CHARL_TRY(charl__text_printf(out, "]"));
    for (int t = 0; t < r->n_tables; t++) {
        if (r->tables[t].pairs) {
            CHARL_TRY(put_pairs(&r->tables[t], r->n, out));
        }
    }
    for (int d = 0; d < r->n_diagrams; d++) {
        CHARL_TRY(put_diagram(&r->diagrams[d], out));
    }
    CHARL_TRY(put_worst(r, out));
    return charl__text_printf(out, "}\n");
}

charl_status charl_eval_report_json(const charl_eval_report *report, const charl_val_row *row, const char *split,
                                    char **out)
{
    CHARL_GIVEN(report, row, split, out);
    CHARL_SCOPED(charl__text_fini) charl__text t = {0};

    *out = NULL;
    CHARL_TRY(put_report(report, row, split, &t));
    *out = charl__text_steal(&t);
    return CHARL_OK;
}
