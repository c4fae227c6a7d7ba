/* charl tune: times kernels that give the same bits and caches the fastest. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <charl/tune.h>
#include "cli/charl/commands.h"
#include "cli/cli_ranks.h"
#include "cli/cli_shapes.h"
#include "cli/cli_steps.h"

typedef struct tuning {
    const char *select;
    int dtype; /* charl_dtype; -1: not given */
    bool tf32; /* f32 operands, multiplied as tf32 */
    bool list, clear, verbose, rate;
    charl__cli_shape shape[CHARL__CLI_SHAPES + 1];
    int n_shapes;
    charl__cli_steps_config config;
    charl__cli_steps found;
} tuning;

static error_t parse_dtype(void *input, const char *option, const char *value)
{
    tuning *t = input;

    return charl__cli_parse_dtype(option, value, &t->dtype, &t->tf32);
}

static error_t parse_shape(void *input, const char *option, const char *value)
{
    tuning *t = input;

    return charl__cli_parse_shape(&charl__cli_products, option, value, t->shape, &t->n_shapes);
}

static void print_found(const tuning *t, const char *key, double flop, const charl_tune_result *x)
{
    for (int i = 0; i < x->count; i++) {
        if (i == x->best || t->verbose) {
            const double seconds = x->candidate[i].seconds;

            printf("%-46s %-26s %10.1f us %10.1f GFLOP/s  %.3gx%s\n", key, x->candidate[i].name, seconds * 1e6,
                   flop / seconds * 1e-9, x->candidate[0].seconds / seconds, t->verbose && i == x->best ? "  *" : "");
        }
    }
    fflush(stdout);
}

/* The same product that charl-bench gemm times. */
static charl_status tune_shape(const tuning *t, charl_device *dev, const charl__cli_shape *shape)
{
    const int form = shape->form;
    const charl_tune_product p = {.m = shape->x[0],
                                  .n = shape->x[1],
                                  .k = shape->x[2],
                                  .dtype = (charl_dtype)t->dtype,
                                  .out_dtype = form == CHARL__CLI_TN ? CHARL_F32 : (charl_dtype)t->dtype,
                                  .transpose_a = form == CHARL__CLI_TN,
                                  .transpose_b = form == CHARL__CLI_NT};
    charl_tune_result found;
    charl_status st;
    char label[64];

    snprintf(label, sizeof label, "%s %s %" PRId64 "x%" PRId64 "x%" PRId64, charl_dtype_name(p.dtype),
             charl__cli_products.form_at(form), p.m, p.n, p.k);
    st = charl_tune(dev, &p, &found);
    if (st == CHARL_ERR_NOMEM) {
        printf("%-46s left out: %s\n", label, charl_error_message());
        charl_error_clear();
        return CHARL_OK;
    }
    CHARL_TRY(st);
    print_found(t, label, 2.0 * (double)p.m * (double)p.n * (double)p.k, &found);
    return CHARL_OK;
}

static charl_status tune_shapes(tuning *t, charl_device *dev)
{
    const bool is_cpu = charl_device_get_info(dev)->kind == CHARL_DEVICE_CPU;
    const charl__cli_shape *shape = t->n_shapes > 0 ? t->shape
                                    : is_cpu        ? charl__cli_products.cpu
                                                    : charl__cli_products.gpu;

    if (t->dtype < 0) {
        t->dtype = (int)charl__cli_default_dtype(dev);
    }
    for (; shape->x[0] > 0; shape++) {
        CHARL_TRY(tune_shape(t, dev, shape));
    }
    printf("kept in %s\n", charl_tune_path(dev));
    return CHARL_OK;
}

static void print_choices(const charl_device *dev)
{
    const char *product, *kernel, *path = charl_tune_path(dev);
    int n = 0;

    for (; charl_tune_get(dev, n, &product, &kernel); n++) {
        printf("%s = %s\n", product, kernel);
    }
    printf("%d choice%s for %s in %s\n", n, n == 1 ? "" : "s", charl_device_get_info(dev)->name,
           path ? path : "no file");
}

/* On one device, without a configuration. */
static charl_status work(tuning *t)
{
    charl_status st = CHARL_OK;
    charl_device *dev = NULL;

    st = charl_device_open(&(charl_device_request){sizeof(charl_device_request), .select = t->select, .local_size = 1,
                                                   .allow_tf32 = t->tf32, .compiling = charl__cli_compiling_show},
                           &dev);
    CHARL_TRY_CLEANUP(st);
    if (t->clear) {
        CHARL_TRY_CLEANUP(charl_tune_clear(dev));
        printf("forgotten: what was kept for %s\n", charl_device_get_info(dev)->name);
    }
    if (t->list) {
        print_choices(dev);
    } else if (!t->clear) {
        CHARL_TRY_CLEANUP(tune_shapes(t, dev));
    }
cleanup:
    charl_device_close(dev);
    return st;
}

/* Trains a few steps and times the products that occur. */
static int train(void *ctx, charl_comm *comm)
{
    charl_status st = CHARL_OK;
    tuning *t = ctx;
    char select[16];

    CHARL_TRY_CLEANUP(charl__cli_steps_run(&t->config, comm, 1, NULL, 0, &t->found));
    if (charl_comm_rank(comm) == 0) {
        snprintf(select, sizeof select, "%d", t->found.device);
        t->select = select;
        t->list = true;
        st = work(t);
    }
    CHARL_TRY_CLEANUP(charl_comm_agree(comm, st));
cleanup:
    return st == CHARL_OK ? CHARL__EXIT_OK : charl__ranks_fail(comm, st);
}

static int tune_config(tuning *t, const charl__cli_operands *operands, int *argc, char ***argv)
{
    charl_config *config = NULL;
    charl_status st;
    int code;

    if (t->list || t->clear || t->n_shapes > 0 || t->dtype >= 0 || t->select) {
        return charl__cli_error(
            CHARL__EXIT_USAGE, NULL,
            "a configuration says what to tune, and its device.select on which device; HINT leave out "
            "--device, --dtype, --shape, --list and --clear");
    }
    if (t->rate) {
        return charl__tune_rate(operands, t->verbose, argc, argv);
    }
    t->config.steps_per_row = 1;
    t->config.tune = CHARL_TUNE_FIRST;
    st = charl__cli_steps_config_read(operands, &t->config, &config);
    if (st != CHARL_OK) {
        return charl__cli_fail(st);
    }
    code = charl__with_ranks(config, train, t, argc, argv);
    charl_config_destroy(config);
    return code;
}

int charl__tune_main(const char *path, int argc, char **argv)
{
    static const charl__cli_option options[] = {
        {"device", 'd', "SELECT",
         "auto, gpu, cpu, INDEX, pci:ADDRESS, name:TEXT or platform:TEXT (see `charl devices`)", 1,
         CHARL__CLI_TEXT(tuning, select)},
        {"shape", 's', "MxNxK[:nt|nn|tn]", "Tune this matrix product; repeatable (default: a list of common shapes)", 1,
         .parse = parse_shape},
        {"dtype", 't', "f32|tf32|bf16|f16",
         "Type of the operands (default: bf16 on a GPU with tensor cores for it, otherwise "
         "f32)",
         1, .parse = parse_dtype},
        {"learning-rate", 'l', NULL,
         "With CONFIG: train a few steps with a growing learning rate, show the loss against it, and suggest one", 1,
         CHARL__CLI_FLAG(tuning, rate)},
        {"verbose", 'v', NULL, "Print the time of every candidate, or the loss of every step", 1,
         CHARL__CLI_FLAG(tuning, verbose)},
        {"list", 0, NULL, "List the cached results for the device", 2, CHARL__CLI_FLAG(tuning, list)},
        {"clear", 0, NULL, "Delete the cached results for the device", 2, CHARL__CLI_FLAG(tuning, clear)},
        {0}};
    static const charl__cli_syntax syntax = {
        options, "[CONFIG [SECTION.KEY=VALUE...]]",
        "Tune matrix products and convolutions for a device: time all kernels that apply, check that their results are "
        "bit-identical, and cache the fastest. With CONFIG, tunes the products of a few training steps (under mpirun, "
        "of one rank); with --shape, the given ones. Training on the same device uses the cached results. "
        "CHARL_TUNE=no ignores them; CHARL_TUNE=first tunes missing ones at the start of training.\vWith "
        "--learning-rate, a range test instead: 200 steps, from 1e-7 to 10, ended when the loss has risen. The "
        "suggestion is a tenth of the rate with the lowest loss. Nothing is written."};
    charl__cli_operands operands = {.max = 1 + CHARL__CLI_OVERRIDES};
    tuning t = {.dtype = -1};
    charl_status st;
    int code = charl__cli_parse(path, &syntax, &operands, argc, argv, &t);

    if (code >= 0) {
        return code;
    }
    if (operands.count > 0) {
        return tune_config(&t, &operands, &argc, &argv);
    }
    if (t.rate) {
        return charl__cli_error(CHARL__EXIT_USAGE, NULL,
                                "--learning-rate needs a configuration; HINT charl tune CONFIG --learning-rate");
    }
    code = charl__cli_limits();
    if (code != CHARL__EXIT_OK) {
        return code;
    }
    st = work(&t);
    return st == CHARL_OK ? CHARL__EXIT_OK : charl__cli_fail(st);
}
