/* Launches: check, set arguments, enqueue, report errors. */
#include <string.h>

#include "device/device_private.h"

charl_status charl__arg_set(charl_device *dev, charl__driver_kernel *kernel, const char *entry, const charl__arg *a,
                            int *at)
{
    const charl__driver *d = dev->driver;
    const int first = *at;
    const uint64_t offset = (uint64_t)a->v.offset;
    int err = 0;

    if (charl__arg_is_buffer(a->kind)) {
        err = d->set_memory(dev, kernel, (*at)++, a->buffer ? a->buffer->mem : NULL);
        if (err == 0 && !a->is_placed) {
            err = d->set(dev, kernel, (*at)++, sizeof offset, &offset);
        }
    } else if (a->kind == CHARL_ARG_LOCAL) {
        err = d->set(dev, kernel, (*at)++, a->v.bytes, NULL);
    } else if (a->kind == CHARL_ARG_STRUCT) {
        err = d->set(dev, kernel, (*at)++, a->size, a->data);
    } else { /* every member of the union begins at its first byte */
        err = d->set(dev, kernel, (*at)++, a->kind == CHARL_ARG_I64 ? 8 : 4, &a->v);
    }
    CHARL_REQUIRE(err == 0, d->error(err).status, "argument %d of kernel %s: %s", first, entry, d->error(err).text);
    return CHARL_OK;
}

charl_status charl__args_set(charl_device *dev, const charl__kernel *kernel, const charl__launch *l)
{
    int given = 0, at = 0;

    for (int i = 0; i < CHARL_MAX_ARGS && l->args[i].kind != CHARL_ARG_END; i++) {
        given += charl__arg_params(&l->args[i]);
    }
    CHARL_REQUIRE(given == kernel->args, CHARL_ERR_INVALID,
                  "kernel %s of %s.cl takes %d arguments, %d are given (a buffer and its offset count as two)",
                  l->entry, l->file, kernel->args, given);
    for (int i = 0; i < CHARL_MAX_ARGS && l->args[i].kind != CHARL_ARG_END; i++) {
        CHARL_TRY(charl__arg_set(dev, kernel->kernel, l->entry, &l->args[i], &at));
    }
    return CHARL_OK;
}

void charl__launch_add(charl__launch *l, charl__arg arg)
{
    int n = 0;

    while (l->args[n].kind != CHARL_ARG_END) {
        n++;
    }
    CHARL_INVARIANT(n + 1 < CHARL_MAX_ARGS);
    l->args[n] = arg;
}

static void append(charl__launch *l, charl__kernel_param p)
{
    int n = 0;

    while (l->params[n].name) {
        n++;
    }
    CHARL_INVARIANT(n + 1 < CHARL_MAX_KERNEL_PARAMS);
    l->params[n] = p;
}

void charl__launch_set(charl__launch *l, const char *name, int64_t value)
{
    append(l, (charl__kernel_param){.name = name, .value = value});
}

void charl__launch_set_text(charl__launch *l, const char *name, const char *text)
{
    append(l, (charl__kernel_param){.name = name, .text = text});
}

void charl__launch_set_all(charl__launch *l, const charl__kernel_param *list)
{
    for (; list && list->name; list++) {
        append(l, *list);
    }
}

typedef struct range {
    uint64_t first, end; /* bytes */
} range;

static range range_of(const charl__arg *a)
{
    return (range){(uint64_t)a->v.offset * a->size, (uint64_t)(a->v.offset + a->count) * a->size};
}

static bool writes(charl__arg_kind kind)
{
    return kind == CHARL_ARG_OUT || kind == CHARL_ARG_INOUT;
}

/* Elementwise in place is allowed: an output may be exactly an input. Any other overlap with an
 * output is an error. */
static charl_status check_pair(const charl__launch *l, int i, int k)
{
    const charl__arg *a = &l->args[i], *b = &l->args[k];
    const range x = range_of(a), y = range_of(b);
    const bool same = x.first == y.first && x.end == y.end;

    if (a->buffer != b->buffer || b->count == 0 || !charl__arg_is_buffer(b->kind) ||
        (!writes(a->kind) && !writes(b->kind)) || x.end <= y.first || y.end <= x.first) {
        return CHARL_OK;
    }
    CHARL_REQUIRE(same && !(writes(a->kind) && writes(b->kind)), CHARL_ERR_INVALID,
                  "kernel %s (%s): arguments %d and %d overlap, and one of them is written", l->entry,
                  l->label ? l->label : l->file, i, k);
    return CHARL_OK;
}

static charl_status check_args(const charl_device *dev, const charl__launch *l)
{
    for (int i = 0; i < CHARL_MAX_ARGS && l->args[i].kind != CHARL_ARG_END; i++) {
        const charl__arg *a = &l->args[i];

        CHARL_REQUIRE(a->kind != CHARL_ARG_LOCAL || (a->v.bytes > 0 && a->v.bytes <= (uint64_t)dev->info.local_bytes),
                      CHARL_ERR_INVALID, "kernel %s: %zu bytes of local memory, the device has %lld", l->entry,
                      a->v.bytes, (long long)dev->info.local_bytes);
        if (!charl__arg_is_buffer(a->kind) || !a->buffer) {
            continue;
        }
        CHARL_REQUIRE(a->buffer->dev == dev, CHARL_ERR_INVALID, "kernel %s: argument %d lives on another device",
                      l->entry, i);
        if (a->count == 0) {
            continue;
        }
        CHARL_REQUIRE(a->v.offset >= 0 && a->count > 0 && range_of(a).end <= a->buffer->bytes, CHARL_ERR_INVALID,
                      "kernel %s: argument %d is elements %lld to %lld of a buffer of %zu bytes", l->entry, i,
                      (long long)a->v.offset, (long long)(a->v.offset + a->count), a->buffer->bytes);
        for (int k = i + 1; k < CHARL_MAX_ARGS && l->args[k].kind != CHARL_ARG_END; k++) {
            CHARL_TRY(check_pair(l, i, k));
        }
    }
    return CHARL_OK;
}

static charl_status check_geometry(const charl_device *dev, const charl__launch *l, charl__ready *out)
{
    size_t group = 1;

    for (int i = 0; i < 3; i++) {
        out->global[i] = l->global[i] ? l->global[i] : 1;
        out->local[i] = l->local[i] ? l->local[i] : 1;
        group *= out->local[i];
        CHARL_REQUIRE(out->global[i] % out->local[i] == 0, CHARL_ERR_INVALID,
                      "kernel %s: %zu work-items do not divide into groups of %zu", l->entry, out->global[i],
                      out->local[i]);
    }
    CHARL_REQUIRE(group <= (size_t)dev->info.max_group, CHARL_ERR_INVALID,
                  "kernel %s: groups of %zu work-items, %s allows %d", l->entry, group, dev->info.name,
                  dev->info.max_group);
    return CHARL_OK;
}

charl_status charl__ready_enqueue(charl_device *dev, const charl__ready *r)
{
    charl_status st = CHARL_OK;
    const charl__driver *d = dev->driver;
    charl__driver_event *event = NULL;
    charl__fault_kind fault;
    size_t most;
    int err;

    if (dev->skip_kernels) {
        return CHARL_OK;
    }
    err = d->launch(dev, r->queue, r->kernel, r->global, r->local, r->after ? r->after->event : NULL,
                    dev->timing || charl__tracing_is_on(dev) ? &event : NULL);

    if (err == 0 && dev->sync) {
        charl__commands_completed(dev); /* earlier commands */
        charl__command_note(dev, r->entry, r->label);
        err = d->finish(dev, r->queue);
        dev->counters.host_waits++;
    } else if (err == 0 && r->queue != CHARL_QUEUE_COMPUTE) {
        err = d->flush(dev, r->queue);
    } else if (err == 0 && ++dev->unflushed >= CHARL__FLUSH_EVERY) {
        dev->unflushed = 0;
        err = d->flush(dev, r->queue); /* the device starts while the host still enqueues */
    }
    if (err != 0) {
        fault = d->error(err).fault;
        most = d->group_limit(dev, r->kernel, err);
        CHARL_REQUIRE_CLEANUP(
            most == 0, CHARL_ERR_KERNEL,
            "kernel %s (%s) needs work-groups of %zu x %zu x %zu, and on %s the compiler allows it %zu work-items",
            r->entry, r->label, r->local[0], r->local[1], r->local[2], dev->info.name, most);
        /* This launch itself may be the cause, if it needs too many registers. */
        if (fault == CHARL__FAULT || (fault == CHARL__OWN_OR_FAULT && dev->sync)) {
            CHARL_TRY_CLEANUP(charl__device_check(dev, r->entry, err));
        }
        CHARL_FAIL_CLEANUP(d->error(err).status,
                           "launching %s (%s), %zu x %zu x %zu in groups of %zu x %zu x %zu, on %s: %s", r->entry,
                           r->label, r->global[0], r->global[1], r->global[2], r->local[0], r->local[1], r->local[2],
                           dev->info.name, d->error(err).text);
    }
    if (r->queue == CHARL_QUEUE_COMPUTE && !dev->sync) {
        charl__command_note(dev, r->entry, r->label);
    }
    dev->counters.launches++;
    dev->commands[r->queue]++;
    charl__tracing_note(dev, r->queue,
                        &(charl__traced){.name = r->entry, .label = r->label, .bytes = r->bytes, .flop = r->flop},
                        event);
    if (dev->timing) {
        CHARL_TRY_CLEANUP(charl__timing_add(dev, r, event));
    }
cleanup:
    if (event) {
        d->event_release(dev, event);
    }
    return st;
}

/* The first launch of a kernel, for which the driver compiles it. Blocks. */
static charl_status enqueue_first(charl_device *dev, const charl__ready *r)
{
    charl_status st = CHARL_OK;
    int lock = -1;

    /* One rank compiles, the others find the result in PoCL's cache. Commands enqueued earlier may wait for another rank, which may wait
     * for the lock, so finish them first; every kernel of the all-reduce's queue may wait too, so it takes no lock. */
    if (dev->pocl_keeps && r->queue == CHARL_QUEUE_COMPUTE && dev->driver->finish(dev, r->queue) == 0) {
        lock = charl__cache_lock(dev, r->program->key, true);
    }
    CHARL_TRY_CLEANUP(charl__ready_enqueue(dev, r));
    /* not counted, because it does not occur in the steady state */
    CHARL_TRY_CLEANUP(charl__device_check(dev, r->entry, dev->driver->finish(dev, r->queue)));
cleanup:
    charl__cache_unlock(lock);
    return st;
}

charl_status charl__ready_compile(charl_device *dev, charl__ready *r)
{
    charl_status st = CHARL_OK;
    const double begun = charl__compiling_begin(dev, r->entry);

    CHARL_TRY_CLEANUP(enqueue_first(dev, r));
    r->compiles = false;
cleanup:
    charl__compiling_end(dev, begun, st == CHARL_OK);
    return st;
}

/* Minimum number of bytes that a launch reads and writes: each operand once, and one that is updated twice. */
static double bytes_of(const charl__launch *l)
{
    double bytes = l->bytes;

    for (int i = 0; l->bytes == 0 && i < CHARL_MAX_ARGS && l->args[i].kind != CHARL_ARG_END; i++) {
        const charl__arg *a = &l->args[i];

        if (charl__arg_is_buffer(a->kind) && a->buffer) {
            bytes += (double)a->count * (double)a->size * (a->kind == CHARL_ARG_INOUT ? 2 : 1);
        }
    }
    return bytes;
}

/* New buffers are zeroed by the compute queue, which launches of other queues do not wait for. */
static charl_status wait_zeroed(const charl__launch *l)
{
    for (int i = 0; i < CHARL_MAX_ARGS && l->args[i].kind != CHARL_ARG_END; i++) {
        if (charl__arg_is_buffer(l->args[i].kind) && l->args[i].buffer) {
            CHARL_TRY(charl__buffer_wait_zeroed(l->args[i].buffer, l->queue));
        }
    }
    return CHARL_OK;
}

charl_status charl__ready_init(const charl_device *dev, const charl__launch *l, charl__ready *out)
{
    *out = (charl__ready){.entry = l->entry,
                          .label = l->label ? l->label : l->file,
                          .queue = l->queue,
                          .after = l->after,
                          .bytes = bytes_of(l)};
    CHARL_TRY(check_geometry(dev, l, out));
    CHARL_TRY(check_args(dev, l));
    CHARL_TRY(wait_zeroed(l));
    return CHARL_OK;
}

bool charl__launches_want_begin(charl_device *dev)
{
    dev->only_wants = charl__compilers_most(dev) > 0;
    return dev->only_wants;
}

void charl__launches_want_end(charl_device *dev)
{
    dev->only_wants = false;
}

charl_status charl__launch_enqueue(charl_device *dev, const charl__launch *l)
{
    charl__ready r;
    charl__program *program = NULL;
    charl__kernel kernel;

    if (l->global[0] == 0) {
        return CHARL_OK;
    }
    if (dev->only_wants) {
        return charl__program_want(dev, l);
    }
    CHARL_TRY(charl__ready_init(dev, l, &r));
    if (dev->recording) {
        CHARL_INVARIANT(!l->after); /* valid at one moment only; recordings are replayed */
        CHARL_TRY(charl__recording_add(dev->recording, l, r));
    } else if (!dev->skip_kernels) {
        CHARL_TRY(charl__program_get(dev, l, &program));
        CHARL_TRY(charl__kernel_get(dev, program, l->entry, &kernel));
        CHARL_TRY(charl__args_set(dev, &kernel, l));
        r.kernel = kernel.kernel;
        r.program = program;
        if (!l->after && l->queue == CHARL_QUEUE_COMPUTE) {
            CHARL_TRY(charl__kernel_is_new(dev, program, l->entry, r.local, &r.compiles));
        }
        CHARL_TRY(r.compiles ? enqueue_first(dev, &r) : charl__ready_enqueue(dev, &r));
    }
    return CHARL_OK;
}
