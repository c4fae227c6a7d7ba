/* The profile of a window of steps: times of kernels by layer and by kernel, beside what the device could do at best. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "charl/roofline.h"
#include "device/layer_names.h"
#include "task/task.h"
#include "train/metrics/step_trace.h"
#include "train/trainer.h"

static const int64_t copy_most = 256 << 20, copy_cpu = 64 << 20, copy_least = 16 << 20;

/* What one kernel took for one layer. */
typedef struct cell {
    int name, layer; /* layer: index into layers */
    double s, launches, flop, bytes;
} cell;

typedef struct accumulator {
    cell *cell;
    int64_t n_cells;
    char **layer; /* names, with numbers as stars */
    int n_layers;
    int *layer_of; /* label -> layer; -1: not seen */
} accumulator;

/* Copies that fit no cache, where there is room; on CPUs the pages of a new buffer cost more than the copies. */
static int64_t bytes_to_copy(const charl_device *dev)
{
    const charl_device_memory m = charl_device_get_memory(dev);
    const int64_t wanted = charl__device_facts_get(dev)->zero_copy ? copy_cpu : copy_most;
    const int64_t most = (m.capacity - m.in_use) / 8;

    return most < copy_least ? copy_least : most < wanted ? most : wanted;
}

static charl_status measure_roofline(charl_device *dev, charl_dtype dtype, charl_profile *p)
{
    charl_status st = CHARL_OK;
    charl_roofline *r = NULL;

    CHARL_TRY_CLEANUP(charl_roofline_multiply(dev, dtype, &r));
    CHARL_TRY_CLEANUP(charl_roofline_measure(r, &p->peak_flops));
    charl_roofline_destroy(r);
    r = NULL;
    CHARL_TRY_CLEANUP(charl_roofline_copy(dev, bytes_to_copy(dev), &r));
    CHARL_TRY_CLEANUP(charl_roofline_measure(r, &p->peak_bytes));
cleanup:
    charl_roofline_destroy(r);
    return st;
}

static charl_status find_layer(accumulator *y, const char *label, int *out)
{
    CHARL_SCOPED_FREE char *name = NULL;

    CHARL_TRY(charl__strdup(label[0] ? label : "(copies)", &name));
    charl__layer_names_merge(name);
    for (*out = 0; *out < y->n_layers; (*out)++) {
        if (strcmp(y->layer[*out], name) == 0) {
            return CHARL_OK;
        }
    }
    CHARL_TRY(charl__grow(y->n_layers, sizeof *y->layer, &y->layer));
    y->layer[y->n_layers++] = name;
    name = NULL;
    return CHARL_OK;
}

static charl_status find_cell(accumulator *y, int name, int layer, cell **out)
{
    for (int64_t i = 0; i < y->n_cells; i++) {
        *out = &y->cell[i];
        if ((*out)->name == name && (*out)->layer == layer) {
            return CHARL_OK;
        }
    }
    CHARL_TRY(charl__grow(y->n_cells, sizeof *y->cell, &y->cell));
    *out = &y->cell[y->n_cells++];
    **out = (cell){.name = name, .layer = layer};
    return CHARL_OK;
}

static charl_status count(accumulator *y, const charl__trace *t)
{
    CHARL_TRY(charl__alloc_array(charl__trace_texts(t) + 1, sizeof *y->layer_of, &y->layer_of));
    for (int i = 0; i < charl__trace_texts(t); i++) {
        y->layer_of[i] = -1;
    }
    for (int64_t i = 0; i < charl__trace_count(t); i++) {
        const charl__trace_span *s = charl__trace_at(t, i);
        cell *c = NULL;

        if (s->is_aside || (s->lane != CHARL__LANE_COMPUTE && s->lane != CHARL__LANE_COMMUNICATE)) {
            continue;
        }
        if (y->layer_of[s->label] < 0) {
            CHARL_TRY(find_layer(y, charl__trace_text(t, s->label), &y->layer_of[s->label]));
        }
        CHARL_TRY(find_cell(y, s->name, y->layer_of[s->label], &c));
        c->s += s->end_s - s->begin_s;
        c->launches++;
        c->flop += s->flop;
        c->bytes += s->bytes;
    }
    return CHARL_OK;
}

/* A layer notes its operations at one of its launches: they belong to the kernel that takes most of its time. */
static void assign_flop(accumulator *y)
{
    for (int layer = 0; layer < y->n_layers; layer++) {
        cell *longest = NULL;
        double flop = 0;

        for (int64_t i = 0; i < y->n_cells; i++) {
            cell *c = &y->cell[i];

            if (c->layer == layer) {
                flop += c->flop;
                c->flop = 0;
                longest = !longest || c->s > longest->s ? c : longest;
            }
        }
        if (longest) {
            longest->flop = flop;
        }
    }
}

static void add_cell(charl_profile_row *row, const cell *c, double steps)
{
    row->ms += c->s * 1e3 / steps;
    row->launches += c->launches / steps;
    row->flop += c->flop / steps;
    row->bytes += c->bytes / steps;
}

static void rate(charl_profile_row *row, int n, const charl_profile *p)
{
    for (int i = 0; i < n; i++) {
        charl_profile_row *r = &row[i];
        const double compute_ms = p->peak_flops > 0 ? r->flop / p->peak_flops * 1e3 : 0;
        const double memory_ms = p->peak_bytes > 0 ? r->bytes / p->peak_bytes * 1e3 : 0;

        r->share = p->kernel_ms > 0 ? r->ms / p->kernel_ms : 0;
        r->is_compute = compute_ms > memory_ms;
        r->roofline = r->ms > 0 ? fmax(compute_ms, memory_ms) / r->ms : 0;
    }
}

static int by_time(const void *a, const void *b)
{
    const charl_profile_row *x = a, *y = b;

    return x->ms < y->ms ? 1 : x->ms > y->ms ? -1 : strcmp(x->name, y->name);
}

/* layer: [n_layers], kernel: [texts], of which those that ran are moved to the front */
static void fill_rows(const accumulator *y, const charl__trace *t, double steps, charl_profile_row *layer,
                      charl_profile_row *kernel, charl_profile *p)
{
    for (int64_t i = 0; i < y->n_cells; i++) {
        const cell *c = &y->cell[i];

        layer[c->layer].name = y->layer[c->layer];
        kernel[c->name].name = charl__trace_text(t, c->name);
        add_cell(&layer[c->layer], c, steps);
        add_cell(&kernel[c->name], c, steps);
        p->kernel_ms += c->s * 1e3 / steps;
    }
    p->n_layers = y->n_layers;
    for (int i = 0; i < charl__trace_texts(t); i++) {
        if (kernel[i].name) {
            kernel[p->n_kernels++] = kernel[i];
        }
    }
    rate(layer, p->n_layers, p);
    rate(kernel, p->n_kernels, p);
    qsort(layer, (size_t)p->n_layers, sizeof *layer, by_time);
    qsort(kernel, (size_t)p->n_kernels, sizeof *kernel, by_time);
    p->layer = layer;
    p->kernel = kernel;
}

static charl_status report(charl__trainer *t, charl_profile *p)
{
    charl_status st = CHARL_OK;
    const charl__trace *trace = charl__device_trace(t->session.dev);
    accumulator y = {0};
    charl_profile_row *layer = NULL, *kernel = NULL;

    CHARL_TRY_CLEANUP(count(&y, trace));
    assign_flop(&y);
    CHARL_TRY_CLEANUP(charl__alloc_array(y.n_layers + 1, sizeof *layer, &layer));
    CHARL_TRY_CLEANUP(charl__alloc_array(charl__trace_texts(trace) + 1, sizeof *kernel, &kernel));
    fill_rows(&y, trace, (double)(p->last - p->first + 1), layer, kernel, p);
    CHARL_TRY_CLEANUP(t->options->events.profiled ? t->options->events.profiled(t->options->events.ctx, p) : CHARL_OK);
cleanup:
    for (int i = 0; i < y.n_layers; i++) {
        charl_free(y.layer[i]);
    }
    charl_free(y.layer);
    charl_free(y.layer_of);
    charl_free(y.cell);
    charl_free(layer);
    charl_free(kernel);
    return st;
}

static charl_status profile(charl__trainer *t)
{
    const charl_dtype dtype = charl__task_precision(t->config);
    charl_profile p = {.first = t->step_trace.first,
                       .last = t->replica.step,
                       .step_ms = t->step_trace.step_s * 1e3,
                       .arithmetic = charl_dtype_name(dtype)};

    CHARL_TRY(measure_roofline(t->session.dev, dtype, &p));
    CHARL_TRY(report(t, &p));
    return CHARL_OK;
}

/* The other ranks wait, so that nothing competes with the measurement. */
charl_status charl__profile_report(charl__trainer *t)
{
    charl_status st = CHARL_OK;

    if (charl_comm_rank(t->comm) == 0) {
        st = profile(t);
    }
    return charl_comm_agree(t->comm, st);
}
