/* The list of metrics. */
#include "nn/metric.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"

static const charl__registry metrics = {.what = "metric", .built_in = charl__metrics};

const charl__metric *charl__metric_at(int i)
{
    return charl__registry_at(&metrics, i);
}

const charl__metric *charl__metric_find(const char *name)
{
    const char *of_output = strrchr(name, '.');

    return charl__registry_find(&metrics, of_output ? of_output + 1 : name);
}

const char *charl_metric_name(int i)
{
    const charl__metric *m = charl__metric_at(i);

    return m && !m->report_only ? m->row.name : NULL;
}

bool charl__metric_is_higher_better(const char *name)
{
    const charl__metric *m = charl__metric_find(name);

    return m && m->higher;
}

const char *charl__metric_help(int i)
{
    const charl__metric *m = charl__metric_at(i);

    return m && !m->report_only ? m->row.help : NULL;
}

charl_status charl__metric_mean(const charl__metric_data *d, const charl__metric_state *s, double *value,
                                double *details)
{
    (void)d;
    (void)details;
    *value = s->mean;
    return CHARL_OK;
}

double charl_metric_get(const charl_metric_value *values, int n, const char *name)
{
    if (!values || !name) {
        return (double)NAN;
    }
    for (int i = 0; i < n; i++) {
        if (strcmp(values[i].name, name) == 0) {
            return values[i].value;
        }
    }
    return (double)NAN;
}

void charl_eval_report_destroy(charl_eval_report *report)
{
    if (!report) {
        return;
    }
    for (int i = 0; i < report->n_tables; i++) {
        charl_free(report->tables[i].values);
    }
    for (int i = 0; i < report->n_diagrams; i++) {
        charl_free(report->diagrams[i].values);
    }
    for (int i = 0; i < report->n_worst; i++) {
        charl_free(report->worst[i].png);
        charl_free(report->worst[i].file);
    }
    charl_free(report->names);
    charl_free(report);
}
