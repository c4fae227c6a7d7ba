/* charl-bench copy and charl-bench launch: what moving memory and starting kernels costs. */
#include <stdlib.h>
#include <string.h>

#include <charl/error.h>
#include "bench/kernel.h"
#include <charl/graph.h>
#include <charl/operator.h>

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

    return charl_tensor_copy(c->from, c->to);
}

static charl_status run_upload(void *ctx)
{
    const copies *c = ctx;

    return charl_tensor_write(c->to, c->host, c->bytes);
}

static charl_status run_download(void *ctx)
{
    const copies *c = ctx;

    return charl_tensor_read(c->from, c->host, c->bytes);
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

    CHARL_TRY(charl__cli_alloc(1, sizeof *p, &p));
    c->own = p;
    p->bytes = (size_t)words * 4;
    CHARL_TRY(charl__bench_random(c->dev, CHARL_F32, (charl_shape){1, {words}}, &p->from));
    CHARL_TRY(charl_tensor_create(c->dev, CHARL_F32, &(charl_shape){1, {words}}, &p->to));
    CHARL_TRY(charl_pinned_create(c->dev, p->bytes, &p->pinned, &host));
    p->host = host;
    CHARL_TRY(charl__bench_aligned(4096, p->bytes, &p->other));
    memset(p->host, 1, p->bytes);
    charl__bench_add(c, "copy", run_copy, p, 2.0 * (double)p->bytes);
    charl__bench_add(c, "upload", run_upload, p, (double)p->bytes)->wait = NULL;
    charl__bench_add(c, "download", run_download, p, (double)p->bytes)->wait = NULL;
    charl__bench_add(c, "memcpy", run_memcpy, p, 2.0 * (double)p->bytes)->wait = NULL;
    return CHARL_OK;
}

static void copy_end(charl__bench_case *c)
{
    copies *p = c->own;

    if (p) {
        charl_tensor_release(p->from);
        charl_tensor_release(p->to);
        charl_pinned_destroy(p->pinned);
        free(p->other);
        free(p);
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
           "it (each byte once) from and to pinned host memory, waited for, and memcpy in one "
           "thread of the host. "
           "The peak is a loop that copies and does nothing else.",
    .begin = copy_begin,
    .end = copy_end};

/* The kernel that the graph launches: it fills its output, and has an operand because every operator has. */
static const char fill_source[] =
    "kernel void fill(global const float *x, ulong x_at, global float *out, ulong out_at, long n)\n"
    "{\n"
    "    const size_t i = get_global_id(0);\n"
    "    if (i < (size_t)n) {\n"
    "        out[out_at + i] = 0.0f;\n"
    "    }\n"
    "}\n";

static charl_status fill_run(const charl_operator_run *r)
{
    const int64_t n = charl_shape_count(charl_tensor_get_shape(r->out[0]));
    const charl_kernel k = {.entry = "fill",
                            .global = {((size_t)n + 63) / 64 * 64},
                            .local = {64},
                            .args = {{CHARL_KERNEL_IN, 0}, {CHARL_KERNEL_OUT, 0}, {CHARL_KERNEL_LONG, n}}};

    return charl_operator_launch(r, &k);
}

static void fill_reference(const charl_operator_reference *r)
{
    const int64_t n = charl_shape_count(&r->out_type[0].shape);

    for (int64_t i = 0; i < n; i++) {
        r->out[0][i] = 0.0;
    }
}

static const charl_operator fill = {.name = "bench_fill",
                                    .formula = "out = 0",
                                    .n_in = 1,
                                    .source = fill_source,
                                    .run = fill_run,
                                    .reference = fill_reference};

typedef struct launches {
    charl_device *dev;
    charl_tensor *t;
    charl_graph *g; /* of LAUNCHES launches */
} launches;

static charl_status run_direct(void *ctx)
{
    const launches *l = ctx;

    for (int i = 0; i < LAUNCHES; i++) {
        CHARL_TRY(charl_tensor_fill(l->t, 0.0));
    }
    return CHARL_OK;
}

static charl_status run_replayed(void *ctx)
{
    const launches *l = ctx;

    return charl_graph_run_forward(l->g);
}

static charl_status run_waited(void *ctx)
{
    const launches *l = ctx;

    CHARL_TRY(charl_tensor_fill(l->t, 0.0));
    CHARL_TRY(charl_device_sync(l->dev));
    return CHARL_OK;
}

static charl_status build_launches(launches *l, const charl_shape *shape)
{
    charl_var *x;

    CHARL_TRY(charl_register_operator(&fill));
    CHARL_TRY(charl_graph_create(l->dev, NULL, &l->g));
    x = charl_input(l->g, "x", CHARL_F32, *shape, CHARL_REPLICATED);
    for (int i = 0; i < LAUNCHES; i++) {
        x = charl_operator_apply(l->g, &fill, NULL, &x, 1, NULL);
    }
    charl_graph_keep(l->g, x);
    CHARL_TRY(charl_graph_compile(l->g));
    CHARL_REQUIRE(charl_graph_get_info(l->g).launches == LAUNCHES, CHARL_ERR_INVALID,
                  "the graph has %d launches, not %d", charl_graph_get_info(l->g).launches, LAUNCHES);
    return charl_graph_warm_up(l->g);
}

/* Rates count in thousands, so that they are numbers a person reads. */
static charl_status launch_begin(charl__bench_case *c)
{
    const charl_shape shape = {1, {c->shape->x[0]}};
    launches *l = NULL;

    CHARL_TRY(charl__cli_alloc(1, sizeof *l, &l));
    c->own = l;
    l->dev = c->dev;
    CHARL_TRY(charl_tensor_create(c->dev, CHARL_F32, &shape, &l->t));
    CHARL_TRY(build_launches(l, &shape));
    charl__bench_add(c, "direct", run_direct, l, 1e6)->batch = LAUNCHES;
    charl__bench_add(c, "replayed", run_replayed, l, 1e6)->batch = LAUNCHES;
    charl__bench_add(c, "waited for", run_waited, l, 1e6);
    return CHARL_OK;
}

static void launch_end(charl__bench_case *c)
{
    launches *l = c->own;

    if (l) {
        charl_graph_destroy(l->g);
        charl_tensor_release(l->t);
        free(l);
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
