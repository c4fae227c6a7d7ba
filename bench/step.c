/* charl-bench step: the time of a training step, and the rate of its products relative to the
 * measured peak of the device. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <charl/error.h>
#include <charl/config.h>
#include "bench/bench.h"
#include "cli/cli_steps.h"
#include "cli/cli_ranks.h"
#include <charl/roofline.h>

typedef struct step_bench {
    charl__cli_steps_config config;
    int64_t repeats, ms;
    charl__bench_format format;
    charl__cli_steps found;
    double peak; /* floating-point operations per second, of all ranks' devices */
} step_bench;

static charl_status run_peak(void *ctx)
{
    return charl_roofline_run(ctx);
}

static charl_status wait_device(void *on)
{
    return charl_device_sync(on);
}

/* Peak arithmetic of this rank's device in the precision of the step, while the other ranks measure
 * theirs. */
static charl_status measure_peak(step_bench *s)
{
    charl_status st = CHARL_OK;
    const charl__bench_effort effort = {.repeats = (int)s->repeats, .sample_s = (double)s->ms * 1e-4};
    charl__bench_subject subject = {.name = "peak", .run = run_peak, .wait = wait_device};
    charl_roofline *peak = NULL;
    charl_device *dev = NULL;
    char select[16];

    snprintf(select, sizeof select, "%d", s->found.device);
    CHARL_TRY_CLEANUP(charl_device_open(
        &(charl_device_request){sizeof(charl_device_request), .select = select, .local_size = 1, .exact = true,
                                .allow_tf32 = s->found.allow_tf32, .compiling = charl__cli_compiling_show},
        &dev));
    CHARL_TRY_CLEANUP(charl_roofline_multiply(dev, s->found.precision, &peak));
    subject.ctx = peak;
    subject.on = dev;
    CHARL_TRY_CLEANUP(charl__bench_measure(NULL, &subject, 1, &effort));
    s->peak = charl_roofline_get_amount(peak) / subject.median_s;
cleanup:
    charl_roofline_destroy(peak);
    charl_device_close(dev);
    return st;
}

static charl_status measure(step_bench *s, charl_comm *comm)
{
    s->config.row_s = (double)s->ms * 1e-3;
    CHARL_TRY(charl__cli_steps_run(&s->config, comm, (int)s->repeats, NULL, 0, &s->found));
    CHARL_TRY(charl_comm_agree(comm, measure_peak(s)));
    CHARL_TRY(charl_comm_reduce_f64(comm, CHARL_COMM_SUM, &s->peak, 1));
    return CHARL_OK;
}

static void print_table(const step_bench *s, int ranks)
{
    const charl__cli_steps *f = &s->found;
    const double samples = (double)f->batch / f->median_s;

    printf("%s: %" PRId64 " parameters in %s, batch %" PRId64 " = %d slices, %d rank%s\n", s->config.path,
           f->parameters, charl_dtype_name(f->precision), f->batch, f->slices, ranks, ranks > 1 ? "s" : "");
    printf("  step      median %.4g ms, best %.4g ms of %" PRId64 " rows of %d steps; %d launches "
           "each\n",
           f->median_s * 1e3, f->step_s * 1e3, s->repeats, f->steps_per_row, f->launches);
    printf("  rate      %.6g samples/s", samples);
    if (f->window > 0) {
        printf(", %.6g tokens/s", samples * (double)f->window);
    }
    printf("\n  products  %.4g GFLOP, %.4g GFLOP/s, %.3g of the measured peak of %.4g GFLOP/s\n", f->flop * 1e-9,
           f->flop / f->median_s * 1e-9, f->flop / f->median_s / s->peak, s->peak * 1e-9);
}

static void print_csv(const step_bench *s, int ranks)
{
    const charl__cli_steps *f = &s->found;
    const double samples = (double)f->batch / f->median_s;

    printf("bench,ranks,config,precision,parameters,batch,slices,launches,median_s,best_s,"
           "samples_per_s,tokens_per_s,flop,of_peak\n");
    printf("step,%d,%s,%s,%" PRId64 ",%" PRId64 ",%d,%d,%.9g,%.9g,%.6g,%.6g,%.6g,%.4g\n", ranks, s->config.path,
           charl_dtype_name(f->precision), f->parameters, f->batch, f->slices, f->launches, f->median_s, f->step_s,
           samples, samples * (double)f->window, f->flop, f->flop / f->median_s / s->peak);
}

static void print_jsonl(const step_bench *s, int ranks)
{
    const charl__cli_steps *f = &s->found;
    const double samples = (double)f->batch / f->median_s;

    printf("{\"bench\":\"step\",\"ranks\":%d,\"precision\":\"%s\",\"parameters\":%" PRId64 ",\"batch\":%" PRId64
           ",\"slices\":%d,\"launches\":%d,\"median_s\":%.9g,\"best_s\":%.9g,"
           "\"samples_per_s\":%.6g,\"tokens_per_s\":%.6g,\"flop\":%.6g,\"of_peak\":%.4g}\n",
           ranks, charl_dtype_name(f->precision), f->parameters, f->batch, f->slices, f->launches, f->median_s,
           f->step_s, samples, samples * (double)f->window, f->flop, f->flop / f->median_s / s->peak);
}

static int run(void *ctx, charl_comm *comm)
{
    static void (*const print[])(const step_bench *s, int ranks) = {
        [CHARL__BENCH_TABLE] = print_table, [CHARL__BENCH_CSV] = print_csv, [CHARL__BENCH_JSONL] = print_jsonl};
    charl_status st = CHARL_OK;
    step_bench *s = ctx;

    CHARL_TRY_CLEANUP(measure(s, comm));
    if (charl_comm_rank(comm) == 0) {
        print[s->format](s, charl_comm_size(comm));
    }
cleanup:
    return st == CHARL_OK ? CHARL__EXIT_OK : charl__ranks_fail(comm, st);
}

int charl__bench_step_main(const char *path, int argc, char **argv)
{
    static const charl__cli_option options[] = {
        {"repeat", 'r', "N", "Rows of steps, of which the median counts (default: 9)", 0,
         CHARL__CLI_INT(step_bench, repeats, 1, CHARL__CLI_ROWS)},
        {"ms", 'm', "N", "Length of a row (default: 400)", 0, CHARL__CLI_INT(step_bench, ms, 1, 60000)},
        CHARL__BENCH_FORMAT_OPTION(step_bench),
        {0}};
    static const charl__cli_syntax syntax = {
        options, "CONFIG [SECTION.KEY=VALUE...]",
        "Train repeatedly for some hundred milliseconds and print the time of a step, samples and tokens per second, "
        "and the rate of the step's matrix products, convolutions and attention as a fraction of the measured peak of "
        "the device. Nothing is written."};
    step_bench s = {.repeats = 9, .ms = 400};

    return charl__bench_config_main(path, &syntax, argc, argv, &s, &s.config, run);
}
