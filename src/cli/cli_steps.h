#ifndef CHARL_CLI_CLI_STEPS_H
#define CHARL_CLI_CLI_STEPS_H
/** Short trainings of a configuration: times some rows of steps and writes nothing. For
 *  charl-bench and `charl tune`. */
#include <stdbool.h>
#include <stdint.h>

#include <charl/comm.h>
#include <charl/config.h>
#include <charl/device.h>
#include "cli/cli.h"

enum { CHARL__CLI_ROWS = 64 };

/* A configuration and its overrides, as the user gave them. */
typedef struct charl__cli_steps_config {
    const char *path;
    charl_config_override override[CHARL__CLI_OVERRIDES];
    int n;
    int steps_per_row; /* 0: 8 */
    double row_s;      /* > 0: length of a row; the first rows determine the number of steps */
    charl_tune_mode tune;
} charl__cli_steps_config;

typedef struct charl__cli_steps {
    int64_t parameters, batch;         /* trained elements; samples per step */
    int64_t gradients, last_gradients; /* as in charl_train_info */
    int steps_per_row;                 /* of the rows that count */
    int slices, device;                /* device: its index in `charl devices` */
    bool is_cpu;
    bool bf16;      /* gradients are reduced in it */
    bool overlaps;  /* dist.overlap */
    double bucket;  /* bytes, dist.bucket_mb */
    int launches;   /* per step, as far as graphs know: without the update */
    int64_t window; /* tokens per sample, or 0 */
    double flop;    /* of the products of a step, on all ranks */
    charl_dtype precision;
    bool allow_tf32;  /* device.allow_tf32 */
    double step_s;    /* in the fastest row, on the slowest rank */
    double median_s;  /* of the rows, on the slowest rank */
    double exposed_s; /* in it, on this rank */
} charl__cli_steps;

/** Load the configuration that the operands name, the first a path and the others
 *  SECTION.KEY=VALUE; *out keeps both for charl__cli_steps_run. Blocks. Errors: as
 *  charl_config_load. */
charl_status charl__cli_steps_config_read(const charl__cli_operands *operands, charl__cli_steps_config *out,
                                          charl_config **config) CHARL_MUST_CHECK;

/** Train `rows` rows of some steps, after a few rows that do not count, on the ranks of comm.
 *  share 0: the batch as configured; share > 0: a batch of that many of whole->slices slices, on
 *  device whole->device. Blocks. Collective on comm. Errors: as charl_train_run. */
charl_status charl__cli_steps_run(const charl__cli_steps_config *config, charl_comm *comm, int rows,
                                  const charl__cli_steps *whole, int share, charl__cli_steps *out) CHARL_MUST_CHECK;

/** Median of n values, which it sorts; NaN if n is 0. */
double charl__cli_median(double *values, int n);

#endif
