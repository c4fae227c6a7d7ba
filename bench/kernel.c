/* The benchmarks of single kernels and operators: options, device, shapes, the peak. */
#include "bench/kernel.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <charl/error.h>
#include <charl/roofline.h>

enum { LABEL = 64 };

static const char PEAK[] = "peak";

typedef struct session {
    const charl__bench_kind *kind;
    const char *select;
    int dtype; /* charl_dtype; -1: not told */
    bool tf32; /* f32, multiplied so */
    bool integer;
    charl__cli_shape shape[CHARL__CLI_SHAPES + 1];
    int n_shapes;
    int64_t repeats, ms;
    charl__bench_format format;
} session;

static charl_status wait_device(void *on)
{
    return charl_device_sync(on);
}

/* t[from : from + count] of a flat tensor. */
static charl_status write_random(charl_tensor *t, int64_t count)
{
    charl_status st = CHARL_OK;
    charl_tensor *part = NULL;
    double *value = NULL;
    void *raw = NULL;
    uint64_t x = 1;

    CHARL_TRY_CLEANUP(charl__cli_alloc(count, sizeof *value, &value));
    CHARL_TRY_CLEANUP(charl__cli_alloc(count, charl_dtype_size(charl_tensor_get_dtype(t)), &raw));
    for (int64_t i = 0; i < count; i++) {
        x = x * 6364136223846793005U + 1442695040888963407U;
        value[i] = (double)(x >> 40) / (double)(1 << 23) - 1.0;
    }
    charl_dtype_encode(charl_tensor_get_dtype(t), value, count, raw);
    CHARL_TRY_CLEANUP(charl_tensor_range(t, 0, count, &part));
    CHARL_TRY_CLEANUP(charl_tensor_write(part, raw, (size_t)count * charl_dtype_size(charl_tensor_get_dtype(t))));
cleanup:
    charl_tensor_release(part);
    free(value);
    free(raw);
    return st;
}

/* t[done : done + count] = t[0 : count] */
static charl_status repeat(charl_tensor *t, int64_t done, int64_t count)
{
    charl_status st = CHARL_OK;
    charl_tensor *from = NULL, *to = NULL;

    CHARL_TRY_CLEANUP(charl_tensor_range(t, 0, count, &from));
    CHARL_TRY_CLEANUP(charl_tensor_range(t, done, count, &to));
    CHARL_TRY_CLEANUP(charl_tensor_copy(from, to));
cleanup:
    charl_tensor_release(from);
    charl_tensor_release(to);
    return st;
}

/* A million values from the host; then the device copies what it has. */
charl_status charl__bench_fill_random(charl_tensor *t)
{
    charl_status st = CHARL_OK;
    const int64_t n = charl_shape_count(charl_tensor_get_shape(t));
    charl_tensor *flat = NULL;
    int64_t done = n < 1 << 20 ? n : 1 << 20;

    CHARL_TRY_CLEANUP(charl_tensor_reshape(t, &(charl_shape){1, {n}}, &flat));
    CHARL_TRY_CLEANUP(write_random(flat, done));
    for (; done < n; done *= 2) {
        CHARL_TRY_CLEANUP(repeat(flat, done, done < n - done ? done : n - done));
    }
    CHARL_TRY_CLEANUP(charl_device_sync(charl_tensor_get_device(t)));
cleanup:
    charl_tensor_release(flat);
    return st;
}

charl_status charl__bench_random(charl_device *dev, charl_dtype dtype, charl_shape shape, charl_tensor **out)
{
    CHARL_TRY(charl_tensor_create(dev, dtype, &shape, out));
    return charl__bench_fill_random(*out);
}

charl__bench_subject *charl__bench_add(charl__bench_case *c, const char *name, charl_status (*run)(void *ctx),
                                       void *ctx, double amount)
{
    charl__bench_subject *s = &c->subject[c->n++];

    assert(c->n <= CHARL__BENCH_SUBJECTS);
    *s = (charl__bench_subject){
        .name = name, .run = run, .ctx = ctx, .wait = wait_device, .on = c->dev, .amount = amount};
    return s;
}

/* The type that matrices are multiplied in. */
static const char *type_name(const charl__bench_case *c)
{
    return c->dtype == CHARL_F32 && charl_device_has_tensor_cores(c->dev, CHARL_F32) ? "tf32"
                                                                                     : charl_dtype_name(c->dtype);
}

static charl_status run_peak(void *ctx)
{
    return charl_roofline_run(ctx);
}

/* "512x784x256 nt f32" */
static const char *case_text(const charl__bench_kind *k, const charl__bench_case *c, char *text)
{
    const charl__cli_shape_kind *shapes = k->shapes;
    int used = 0;

    for (int i = 0; i < shapes->n_extents; i++) {
        used += snprintf(text + used, (size_t)(LABEL - used), "%s%" PRId64, i ? "x" : "", c->shape->x[i]);
    }
    if (shapes->form_at) {
        used += snprintf(text + used, (size_t)(LABEL - used), " %s", shapes->form_at(c->shape->form));
    }
    if (k->is_typed) {
        snprintf(text + used, (size_t)(LABEL - used), " %s", c->integer ? "integer" : type_name(c));
    }
    return text;
}

/* The peak beside the other subjects: of arithmetic, or of memory moving as much as they do. */
static charl_status add_peak(const charl__bench_kind *k, charl__bench_case *c, charl_roofline **out)
{
    if (k->multiplies) {
        CHARL_TRY(charl_roofline_multiply(c->dev, c->dtype, out));
    } else {
        CHARL_TRY(charl_roofline_copy(c->dev, (int64_t)(c->subject[0].amount / 2), out));
    }
    charl__bench_add(c, PEAK, run_peak, *out, charl_roofline_get_amount(*out));
    return CHARL_OK;
}

static charl_status measure_case(const session *r, charl_device *dev, const charl__bench_table *t,
                                 const charl__cli_shape *shape)
{
    charl_status st = CHARL_OK;
    const charl__bench_kind *k = r->kind;
    const charl__bench_effort effort = {.repeats = (int)r->repeats, .sample_s = (double)r->ms * 1e-3};
    charl__bench_case c = {.dev = dev, .dtype = (charl_dtype)r->dtype, .integer = r->integer, .shape = shape};
    charl_roofline *peak = NULL;
    char label[LABEL];

    CHARL_TRY_CLEANUP(k->begin(&c));
    if (k->has_peak) {
        CHARL_TRY_CLEANUP(add_peak(k, &c, &peak));
    }
    CHARL_TRY_CLEANUP(charl__bench_measure(NULL, c.subject, c.n, &effort));
    charl__bench_rows(t, case_text(k, &c, label), shape->x[0], c.subject, c.n);
cleanup:
    k->end(&c);
    charl_roofline_destroy(peak);
    return st;
}

static void print_about(const session *r, charl_device *dev, const charl__bench_table *t)
{
    const charl_device_info *info = charl_device_get_info(dev);
    const char *about = r->kind->about ? r->kind->about() : NULL;

    charl__bench_note(t,
                      "%s on %s (driver %s, %d compute units): medians of %" PRId64 " samples of %" PRId64
                      " ms, measured alternately",
                      r->kind->name, info->name, info->driver, info->compute_units, r->repeats, r->ms);
    if (about) {
        charl__bench_note(t, "%s", about);
    }
}

static charl_status measure_all(session *r, charl_device *dev)
{
    const charl__bench_kind *k = r->kind;
    const bool is_cpu = charl_device_get_info(dev)->kind == CHARL_DEVICE_CPU;
    const charl__cli_shape *shape = r->n_shapes > 0 ? r->shape : is_cpu ? k->shapes->cpu : k->shapes->gpu;
    const charl__bench_table table = {.bench = k->name,
                                      .unit = k->unit,
                                      .baseline = is_cpu ? k->baseline : k->gpu_baseline,
                                      .peak = k->has_peak ? PEAK : NULL,
                                      .format = r->format,
                                      .ranks = 1,
                                      .prints = true};

    if (r->dtype < 0) {
        r->dtype = k->is_typed && !r->integer ? (int)charl__cli_default_dtype(dev) : CHARL_F32;
    }
    print_about(r, dev, &table);
    charl__bench_head(&table);
    for (; shape->x[0] > 0; shape++) {
        if (!r->integer || r->n_shapes > 0 || shape->form == CHARL__CLI_NT) {
            CHARL_TRY(measure_case(r, dev, &table, shape));
        }
    }
    return CHARL_OK;
}

static error_t parse_dtype(void *input, const char *option, const char *value)
{
    session *r = input;

    return charl__cli_parse_dtype(option, value, &r->dtype, &r->tf32);
}

static error_t parse_products(void *input, const char *option, const char *value)
{
    session *r = input;

    r->integer = strcmp(value, "integer") == 0;
    return r->integer || strcmp(value, "fma") == 0 ? 0 : charl__cli_bad_option(option, value, "must be fma or integer");
}

static error_t parse_shape(void *input, const char *option, const char *value)
{
    session *r = input;

    return charl__cli_parse_shape(r->kind->shapes, option, value, r->shape, &r->n_shapes);
}

static int fail_open(charl_status st)
{
    return charl__cli_error(charl__cli_exit_code(st), "`charl devices` lists the devices", "%s", charl_error_message());
}

int charl__bench_kernel_main(const charl__bench_kind *kind, const char *path, int argc, char **argv)
{
    static const charl__cli_option typed = {
        "dtype",
        't',
        "f32|tf32|bf16|f16",
        "Type of the operands; tf32: f32, as with device.allow_tf32 (default: bf16 on a GPU with "
        "tensor cores for it, else f32)",
        0,
        .parse = parse_dtype};
    static const charl__cli_option products = {"products",
                                               'p',
                                               "fma|integer",
                                               "How f32 is multiplied, as train.products (default: fma)",
                                               0,
                                               .parse = parse_products};
    const charl__cli_option options[] = {
        {"device", 'd', "SELECT", "auto, gpu, cpu, a number, pci:ADDRESS, name:TEXT or platform:TEXT (`charl devices`)",
         0, CHARL__CLI_TEXT(session, select)},
        {"shape", 's', kind->shapes->extents, "Time this shape; may be repeated (default: several)", 0,
         .parse = parse_shape},
        {"repeat", 'r', "N", "Samples, of which the median counts (default: 9)", 0,
         CHARL__CLI_INT(session, repeats, 1, 10000)},
        {"ms", 'm', "N", "Length of a sample (default: 40)", 0, CHARL__CLI_INT(session, ms, 1, 60000)},
        CHARL__BENCH_FORMAT_OPTION(session),
        kind->is_typed ? typed : (charl__cli_option){0},
        kind->has_products ? products : (charl__cli_option){0},
        {0}};
    const charl__cli_syntax syntax = {options, "", kind->doc};
    charl__cli_operands none = {0};
    session r = {.kind = kind, .dtype = -1, .repeats = 9, .ms = 40};
    charl_device *dev = NULL;
    charl_status st;
    int code = charl__cli_parse(path, &syntax, &none, argc, argv, &r);

    if (code >= 0) {
        return code;
    }
    if (r.integer && (r.tf32 || (r.dtype >= 0 && r.dtype != CHARL_F32))) {
        return charl__cli_error(CHARL__EXIT_USAGE, NULL,
                                "--products integer multiplies f32: leave out --dtype, or set it to f32");
    }
    code = charl__cli_limits();
    if (code != CHARL__EXIT_OK) {
        return code;
    }
    st = charl_device_open(&(charl_device_request){sizeof(charl_device_request), .select = r.select, .local_size = 1,
                                                   .allow_tf32 = r.tf32, .compiling = charl__cli_compiling_show},
                           &dev);
    if (st != CHARL_OK) {
        return fail_open(st);
    }
    st = measure_all(&r, dev);
    charl_device_close(dev);
    if (st == CHARL_ERR_INVALID || st == CHARL_ERR_SHAPE) {
        return charl__cli_error(CHARL__EXIT_USAGE, NULL, "--shape: %s", charl_error_message());
    }
    return st == CHARL_OK ? CHARL__EXIT_OK : charl__cli_fail(st);
}
