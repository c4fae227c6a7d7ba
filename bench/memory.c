/* charl-bench copy and charl-bench launch: what moving memory and starting kernels costs. */
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "bench/kernel.h"
#include "tensor/tensor.h"
#include "tensor/random.h"

enum { LAUNCHES = 64 };

typedef struct copies {
    charl_tensor *from, *to;
    charl_pinned *pinned;
    char *host, *other; /* pinned; ordinary memory */
    size_t bytes;
} copies;

static charl_status run_copy(void *ctx)
{
    const copies *c = ctx;

    return charl__tensor_copy(c->from, c->to);
}

static charl_status run_upload(void *ctx)
{
    const copies *c = ctx;

    return charl__buffer_write(CHARL_QUEUE_UPLOAD, c->to->buffer, 0, c->host, c->bytes, false);
}

static charl_status run_download(void *ctx)
{
    const copies *c = ctx;

    return charl__buffer_read(CHARL_QUEUE_DOWNLOAD, c->from->buffer, 0, c->host, c->bytes, false);
}

static charl_status run_memcpy(void *ctx)
{
    const copies *c = ctx;

    memcpy(c->other, c->host, c->bytes);
    return CHARL_OK;
}

static charl_status copy_begin(charl__bench_case *c)
{
    const int64_t words = (c->shape->x[0] + 3) / 4;
    void *host = NULL;
    copies *p = NULL;

    CHARL_TRY(charl_alloc(sizeof *p, &p));
    c->own = p;
    p->bytes = (size_t)words * 4;
    CHARL_TRY(charl__tensor_random(c->dev, CHARL_F32, (charl_shape){1, {words}}, &p->from));
    CHARL_TRY(charl_tensor_create(c->dev, CHARL_F32, &(charl_shape){1, {words}}, &p->to));
    CHARL_TRY(charl__pinned_create(c->dev, p->bytes, &p->pinned, &host));
    p->host = host;
    CHARL_TRY(charl_alloc_aligned(4096, p->bytes, &p->other));
    memset(p->host, 1, p->bytes);
    charl__bench_add(c, "copy", run_copy, p, 2.0 * (double)p->bytes);
    charl__bench_add(c, "upload", run_upload, p, (double)p->bytes);
    charl__bench_add(c, "download", run_download, p, (double)p->bytes);
    charl__bench_add(c, "memcpy", run_memcpy, p, 2.0 * (double)p->bytes)->wait = NULL;
    return CHARL_OK;
}

static void copy_end(charl__bench_case *c)
{
    copies *p = c->own;

    if (p) {
        charl_tensor_release(p->from);
        charl_tensor_release(p->to);
        charl__pinned_destroy(p->pinned);
        charl_free(p->other);
        charl_free(p);
    }
}

static const charl__cli_shape copy_cpu[] = {
    {{1 << 16}, 0}, {{1 << 20}, 0}, {{16 << 20}, 0}, {{128 << 20}, 0}, {{0}, 0}};
static const charl__cli_shape copy_gpu[] = {
    {{1 << 20}, 0}, {{16 << 20}, 0}, {{256 << 20}, 0}, {{1 << 30}, 0}, {{0}, 0}};

const charl__bench_kind charl__bench_copy = {
    .name = "copy",
    .shapes = &(const charl__cli_shape_kind){.extents = "BYTES", .n_extents = 1, .cpu = copy_cpu, .gpu = copy_gpu},
    .unit = "GB/s",
    .baseline = "memcpy",
    .has_peak = true,
    .doc = "Time copies: within the device's memory (bytes read and written count), to it and from "
           "it (each byte once) through pinned host memory, and memcpy in one thread of the host. "
           "The peak is a loop that copies and does nothing else.",
    .begin = copy_begin,
    .end = copy_end};

typedef struct launches {
    charl_device *dev;
    charl_tensor *t;
    charl_recording *recording;
} launches;

static charl_status run_direct(void *ctx)
{
    const launches *l = ctx;

    for (int i = 0; i < LAUNCHES; i++) {
        CHARL_TRY(charl__tensor_fill(l->t, 0.0));
    }
    return CHARL_OK;
}

static charl_status run_replayed(void *ctx)
{
    const launches *l = ctx;

    return charl__recording_replay(l->recording, 0, LAUNCHES);
}

static charl_status run_waited(void *ctx)
{
    const launches *l = ctx;

    CHARL_TRY(charl__tensor_fill(l->t, 0.0));
    CHARL_TRY(charl_device_sync(l->dev));
    return CHARL_OK;
}

/* Rates count in thousands, so that they are numbers a person reads. */
static charl_status launch_begin(charl__bench_case *c)
{
    charl_status st = CHARL_OK;
    const charl_shape shape = {1, {c->shape->x[0]}};
    launches *l = NULL;

    CHARL_TRY(charl_alloc(sizeof *l, &l));
    c->own = l;
    l->dev = c->dev;
    CHARL_TRY(charl_tensor_create(c->dev, CHARL_F32, &shape, &l->t));
    CHARL_TRY(charl__record_begin(c->dev, &l->recording));
    st = run_direct(l);
    st = charl__record_end(c->dev, st);
    CHARL_TRY(st);
    charl__bench_add(c, "direct", run_direct, l, 1e6)->batch = LAUNCHES;
    charl__bench_add(c, "replayed", run_replayed, l, 1e6)->batch = LAUNCHES;
    charl__bench_add(c, "waited for", run_waited, l, 1e6);
    return st;
}

static void launch_end(charl__bench_case *c)
{
    launches *l = c->own;

    if (l) {
        charl__recording_destroy(l->recording);
        charl_tensor_release(l->t);
        charl_free(l);
    }
}

static const charl__cli_shape launch_any[] = {{{1}, 0}, {{1 << 16}, 0}, {{0}, 0}};

const charl__bench_kind charl__bench_launch = {
    .name = "launch",
    .shapes =
        &(const charl__cli_shape_kind){.extents = "ELEMENTS", .n_extents = 1, .cpu = launch_any, .gpu = launch_any},
    .unit = "1000/s",
    .baseline = "direct",
    .doc = "Time the launch of a kernel that fills ELEMENTS numbers with zero: direct, as "
           "operators start kernels; replayed, as a training step does; and waited for one by one.",
    .begin = launch_begin,
    .end = launch_end};
