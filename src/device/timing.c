/* CHARL_PROFILE: the time of every kernel on the device, by event timestamps.
 *
 * Each launch is waited for, so kernels do not overlap and the host does not run ahead: the sum of
 * the times is less than a step takes, but each time is the kernel's own. Repeated layers
 * share a row: h.0.mlp.c_fc and h.1.mlp.c_fc become h.*.mlp.c_fc.
 */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "device/device_private.h"
#include "device/layer_names.h"

enum { SHOWN = 40 };

typedef struct row {
    char *entry, *label;
    int64_t launches;
    double seconds;
} row;

struct charl__timing {
    row *row;
    int count;
};

charl_status charl__timing_create(charl__timing **out)
{
    return charl__alloc(sizeof(charl__timing), out);
}

static charl_status find_row(charl__timing *t, const char *entry, const char *label, row **out)
{
    charl_status st = CHARL_OK;
    row r = {0};

    CHARL_TRY_CLEANUP(charl__strdup(label, &r.label));
    charl__layer_names_merge(r.label);
    for (int i = 0; i < t->count; i++) {
        *out = &t->row[i];
        if (strcmp((*out)->entry, entry) == 0 && strcmp((*out)->label, r.label) == 0) {
            goto cleanup;
        }
    }
    CHARL_TRY_CLEANUP(charl__grow(t->count, sizeof *t->row, &t->row));
    CHARL_TRY_CLEANUP(charl__strdup(entry, &r.entry));
    t->row[t->count] = r;
    *out = &t->row[t->count++];
    r = (row){0};
cleanup:
    charl_free(r.entry);
    charl_free(r.label);
    return st;
}

charl_status charl__timing_add(charl_device *dev, const charl__ready *r, charl__driver_event *event)
{
    int64_t begin = 0, end = 0;
    row *at = NULL;

    CHARL_TRY(charl__device_check(dev, r->entry, dev->driver->event_wait(dev, event)));
    CHARL_TRY(charl__device_check(dev, r->entry, dev->driver->event_times(dev, event, &begin, &end)));
    CHARL_TRY(find_row(dev->timing, r->entry, r->label, &at));
    at->launches++;
    at->seconds += (double)(end - begin) * 1e-9;
    return CHARL_OK;
}

static int by_time(const void *a, const void *b)
{
    const row *x = a, *y = b;

    return x->seconds < y->seconds ? 1 : x->seconds > y->seconds ? -1 : strcmp(x->label, y->label);
}

static int by_entry(const void *a, const void *b)
{
    return strcmp(((const row *)a)->entry, ((const row *)b)->entry);
}

static void log_row(const row *r, const char *label, double total)
{
    charl__log(CHARL_LOG_INFO, "%5.1f %%  %9.3f ms  %7lld x %9.2f us  %s (%s)",
               total > 0 ? 100.0 * r->seconds / total : 0.0, r->seconds * 1e3, (long long)r->launches,
               r->seconds * 1e6 / (double)r->launches, label, r->entry);
}

/* Add up the rows of each kernel, in place; returns their number. */
static int merge_kernels(row *r, int count)
{
    int kernels = 0;

    qsort(r, (size_t)count, sizeof *r, by_entry);
    for (int i = 0; i < count; i++) {
        if (kernels > 0 && by_entry(&r[kernels - 1], &r[i]) == 0) {
            r[kernels - 1].launches += r[i].launches;
            r[kernels - 1].seconds += r[i].seconds;
        } else {
            const row other = r[kernels];

            r[kernels++] = r[i];
            r[i] = other;
        }
    }
    qsort(r, (size_t)kernels, sizeof *r, by_time);
    return kernels;
}

static void report(charl__timing *t)
{
    double total = 0.0;
    int kernels;

    qsort(t->row, (size_t)t->count, sizeof *t->row, by_time);
    for (int i = 0; i < t->count; i++) {
        total += t->row[i].seconds;
    }
    for (int i = 0; i < t->count && i < SHOWN; i++) {
        log_row(&t->row[i], t->row[i].label, total);
    }
    kernels = merge_kernels(t->row, t->count);
    charl__log(CHARL_LOG_INFO, "%.3f ms in %d kernels", total * 1e3, kernels);
    for (int i = 0; i < kernels && i < SHOWN; i++) {
        log_row(&t->row[i], "all", total);
    }
}

void charl__timing_destroy(charl__timing *t)
{
    if (t) {
        if (t->count > 0) {
            report(t);
        }
        for (int i = 0; i < t->count; i++) {
            charl_free(t->row[i].entry);
            charl_free(t->row[i].label);
        }
        charl_free(t->row);
        charl_free(t);
    }
}
