/* charl-bench break-even: products and training steps of growing size on two devices, and from which size on the second
 * is the faster one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <charl/error.h>
#include <charl/ops.h>
#include <charl/optim.h>
#include "bench/kernel.h"

enum { DEVICES = 2, LAYERS = 3, LEAST = 16, LABEL = 64 };

typedef struct break_even {
    const char *select[DEVICES + 1];
    int n_select;
    int64_t batch, most, repeats, ms;
    charl__bench_format format;
    charl_device *dev[DEVICES];
} break_even;

/* A training step of LAYERS linear layers of equal width, with relu between them. */
typedef struct mlp {
    charl_params *params;
    charl_graph *g;
    charl_optimizer *optimizer;
} mlp;

static charl_status run_step(void *ctx)
{
    const mlp *m = ctx;

    CHARL_TRY(charl_graph_run(m->g));
    return charl_optimizer_step(m->optimizer, 1e-3F);
}

static charl_status build(charl__bench_case *c, mlp *m, int64_t batch, int64_t width)
{
    static const char *const names[LAYERS] = {"fc1.weight", "fc2.weight", "fc3.weight"};
    const charl_optimizer_config sgd = charl_optimizer_defaults("sgd");
    charl_var *x, *h, *label;
    charl_param *p;

    CHARL_TRY(charl_params_create(&m->params));
    CHARL_TRY(charl_graph_create(c->dev, NULL, &m->g));
    h = x = charl_input(m->g, "x", CHARL_F32, (charl_shape){2, {batch, width}}, CHARL_BATCHED);
    for (int i = 0; i < LAYERS; i++) {
        CHARL_TRY(charl_params_add(m->params,
                                   &(charl_param_spec){.name = names[i],
                                                       .shape = {2, {width, width}},
                                                       .init = {CHARL_INIT_UNIFORM, -0.01F, 0.01F},
                                                       .trainable = true},
                                   &p));
        h = charl_linear(m->g, i > 0 ? charl_relu(m->g, h) : h, charl_parameter(m->g, p), NULL);
    }
    label = charl_input(m->g, "label", CHARL_I32, (charl_shape){1, {batch}}, CHARL_BATCHED);
    charl_graph_backward(m->g, charl_batch_mean(m->g, charl_cross_entropy(m->g, h, label, NULL, NULL)), NULL);
    CHARL_TRY(charl_graph_compile(m->g));
    CHARL_TRY(charl__bench_fill_random(charl_var_get_tensor(x)));
    CHARL_TRY(charl_params_initialize(m->params, 1));
    CHARL_TRY(charl_optimizer_create(m->params, &sgd, &m->optimizer));
    return charl_graph_warm_up(m->g);
}

/* x: batch and width. */
static charl_status begin(charl__bench_case *c)
{
    const int64_t *x = c->shape->x;
    mlp *m = NULL;

    CHARL_TRY(charl__cli_alloc(1, sizeof *m, &m));
    c->own = m;
    CHARL_TRY(build(c, m, x[0], x[1]));
    /* Forward and the gradient of the weight in each layer, and that of its input in all but the first. */
    charl__bench_add(c, "charl", run_step, m, 2.0 * (double)x[0] * (double)x[1] * (double)x[1] * (3 * LAYERS - 1));
    return CHARL_OK;
}

static void end(charl__bench_case *c)
{
    mlp *m = c->own;

    if (m) {
        charl_optimizer_destroy(m->optimizer);
        charl_graph_destroy(m->g);
        charl_params_destroy(m->params);
        free(m);
    }
}

static const charl__bench_kind step = {.name = "step", .begin = begin, .end = end};

/* One size on both devices. *faster: the second is. */
static charl_status measure_size(const break_even *b, const charl__bench_kind *k, const charl__cli_shape *shape,
                                 const charl__bench_table *t, bool *faster)
{
    charl_status st = CHARL_OK;
    const charl__bench_effort effort = {.repeats = (int)b->repeats, .sample_s = (double)b->ms * 1e-3};
    const int64_t width = shape->x[1];
    charl__bench_case c[DEVICES];
    charl__bench_subject subject[DEVICES];
    char label[LABEL];
    int n = 0;

    while (n < DEVICES) {
        c[n] = (charl__bench_case){.dev = b->dev[n], .dtype = CHARL_F32, .shape = shape};
        st = k->begin(&c[n]);
        n++; /* what begin has made is released even after a failure */
        CHARL_TRY_CLEANUP(st);
        subject[n - 1] = c[n - 1].subject[0]; /* charl's, before baselines */
        subject[n - 1].name = b->select[n - 1];
    }
    CHARL_TRY_CLEANUP(charl__bench_measure(NULL, subject, DEVICES, &effort));
    snprintf(label, sizeof label, "%s %lld", k->name, (long long)width);
    charl__bench_rows(t, label, width, subject, DEVICES);
    *faster = subject[1].median_s < subject[0].median_s;
cleanup:
    while (n > 0) {
        k->end(&c[--n]);
    }
    return st;
}

/* Sizes from LEAST to b->most, each twice the one before. A product is square, a step has b->batch rows. */
static charl_status measure_kind(const break_even *b, const charl__bench_kind *k, const charl__bench_table *t)
{
    int64_t from = 0; /* the second device is faster from there to the largest size; 0: it is not */

    for (int64_t n = LEAST; n <= b->most; n *= 2) {
        const charl__cli_shape shape = {.x = {k == &step ? b->batch : n, n, n}, .form = CHARL__CLI_NT};
        bool faster = false;

        CHARL_TRY(measure_size(b, k, &shape, t, &faster));
        from = !faster ? 0 : from > 0 ? from : n;
    }
    if (from > 0) {
        charl__bench_note(t, "%s: %s is faster than %s from %lld on", k->name, b->select[1], b->select[0],
                          (long long)from);
    } else {
        charl__bench_note(t, "%s: %s is not faster than %s at %lld", k->name, b->select[1], b->select[0],
                          (long long)b->most);
    }
    return CHARL_OK;
}

static charl_status measure(break_even *b)
{
    const charl__bench_table table = {.bench = "break-even",
                                      .unit = "GFLOP/s",
                                      .baseline = b->select[0],
                                      .format = b->format,
                                      .ranks = 1,
                                      .prints = true};

    for (int i = 0; i < DEVICES; i++) {
        CHARL_TRY(charl_device_open(&(charl_device_request){sizeof(charl_device_request), .select = b->select[i],
                                                            .exact = true, .local_size = 1,
                                                            .compiling = charl__cli_compiling_show},
                                    &b->dev[i]));
        charl__bench_note(&table, "%s: %s", b->select[i], charl_device_get_info(b->dev[i])->name);
    }
    charl__bench_note(
        &table, "f32; gemm N: product N x N x N; step N: training step of %d linear layers of width N, batch %lld",
        LAYERS, (long long)b->batch);
    charl__bench_head(&table);
    CHARL_TRY(measure_kind(b, &charl__bench_gemm, &table));
    CHARL_TRY(measure_kind(b, &step, &table));
    return CHARL_OK;
}

static error_t parse_device(void *input, const char *option, const char *value)
{
    break_even *b = input;

    (void)option;
    b->select[b->n_select < DEVICES ? b->n_select : DEVICES] = value;
    b->n_select++;
    return 0;
}

int charl__bench_break_even_main(const char *path, int argc, char **argv)
{
    static const charl__cli_option options[] = {
        {"device", 'd', "SELECT",
         "A device, as for gemm; given twice, the second is compared with the first (default: cpu and gpu)", 0,
         .parse = parse_device},
        {"batch", 'b', "N", "Rows of a training step (default: 128)", 0, CHARL__CLI_INT(break_even, batch, 1, 1000000)},
        {"max", 'n', "N", "Largest size (default: 2048)", 0, CHARL__CLI_INT(break_even, most, LEAST, 65536)},
        {"repeat", 'r', "N", "Samples, of which the median counts (default: 5)", 0,
         CHARL__CLI_INT(break_even, repeats, 1, 10000)},
        {"ms", 'm', "N", "Length of a sample (default: 40)", 0, CHARL__CLI_INT(break_even, ms, 1, 60000)},
        CHARL__BENCH_FORMAT_OPTION(break_even),
        {0}};
    static const charl__cli_syntax syntax = {
        options, "",
        "Time products and training steps in f32, from size 16 on, each twice as wide as the one before, on two "
        "devices in turns, and print from which size on the second is faster. The step computes loss, gradients and "
        "update of three linear layers on data that are on the device."};
    charl__cli_operands none = {0};
    break_even b = {.batch = 128, .most = 2048, .repeats = 5, .ms = 40};
    charl_status st;
    int code = charl__cli_parse(path, &syntax, &none, argc, argv, &b);

    if (code >= 0) {
        return code;
    }
    if (b.n_select != 0 && b.n_select != DEVICES) {
        return charl__cli_error(CHARL__EXIT_USAGE, NULL, "--device: two devices are compared, not %d", b.n_select);
    }
    if (b.n_select == 0) {
        b.select[0] = "cpu";
        b.select[1] = "gpu";
    } else if (strcmp(b.select[0], b.select[1]) == 0) {
        return charl__cli_error(CHARL__EXIT_USAGE, NULL, "--device: %s cannot be compared with itself", b.select[0]);
    }
    code = charl__cli_limits();
    if (code != CHARL__EXIT_OK) {
        return code;
    }
    st = measure(&b);
    for (int i = 0; i < DEVICES; i++) {
        charl_device_close(b.dev[i]);
    }
    return st == CHARL_OK ? CHARL__EXIT_OK : charl__cli_fail(st);
}
