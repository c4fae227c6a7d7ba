#ifndef CHARL_CLI_CLI_STEPS_H
#define CHARL_CLI_CLI_STEPS_H
/** Training steps of a configuration, timed without writing anything. */
#include <argp.h>

#include "charl/comm.h"
#include "charl/config.h"

enum { CHARL__BENCH_OVERRIDES = 64, CHARL__BENCH_ROWS = 64 };

/* A configuration as the user gave it. */
typedef struct charl__bench_config {
    const char *path;
    charl_config_override override[CHARL__BENCH_OVERRIDES];
    int n;
    int steps_per_row; /* 0: 8 */
    double row_s;      /* > 0: such rows only to find out how many steps take so many seconds */
} charl__bench_config;

typedef struct charl__bench_steps {
    int64_t parameters, batch;         /* trained elements; samples per step */
    int64_t gradients, last_gradients; /* as in charl_train_info */
    int steps_per_row;                 /* of the rows that count */
    int slices, device;                /* device: its index in `charl devices` */
    bool is_cpu;
    bool bf16;        /* gradients travel in it */
    bool overlaps;    /* dist.overlap */
    double bucket;    /* bytes, dist.bucket_mb */
    int launches;     /* of a step, as far as graphs know: without the update */
    int64_t window;   /* tokens per sample, or 0 */
    double flop;      /* of the products of a step on all ranks */
    int precision;    /* charl_precision */
    bool allow_tf32;  /* device.allow_tf32 */
    double step_s;    /* of the best row, on the slowest rank */
    double median_s;  /* of the rows, on the slowest rank */
    double exposed_s; /* of it, on this rank */
} charl__bench_steps;

/** Read the configuration that `argv` names, "PATH KEY=VALUE...", into out. Errors: as
 * charl_config_load. */
charl_status charl__bench_config_read(int n, char **values, charl__bench_config *out,
                                      charl_config **config) CHARL_MUST_CHECK;

/** A command of the operands CONFIG KEY=VALUE...: read the command line into `input` and the
 * configuration into config, which is a part of it, and run work(input, comm) on all ranks. Returns
 * the exit code. */
int charl__bench_config_main(const char *path, const struct argp *argp, int argc, char **argv,
                             void *input, charl__bench_config *config,
                             int (*work)(void *ctx, charl_comm *comm));

/** Train `rows` rows of some steps, and a few around them that are not counted, on the ranks of
 * comm. share > 0: with so many of the configured slices as the whole batch, on device `device`; 0:
 * as configured. Collective on comm. Errors: as charl_train_run. */
charl_status charl__bench_steps_run(const charl__bench_config *config, charl_comm *comm, int rows,
                                    const charl__bench_steps *whole, int share,
                                    charl__bench_steps *out) CHARL_MUST_CHECK;

#endif
