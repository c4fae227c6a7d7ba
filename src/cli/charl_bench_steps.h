#ifndef CHARL_CLI_CHARL_BENCH_STEPS_H
#define CHARL_CLI_CHARL_BENCH_STEPS_H
/** Training steps of a configuration, timed without writing anything. */
#include "charl/comm.h"
#include "charl/config.h"

enum { CHARL__BENCH_OVERRIDES = 64 };

/* A configuration as the user gave it. */
typedef struct charl__bench_config {
    const char *path;
    charl_config_override override[CHARL__BENCH_OVERRIDES];
    int n;
} charl__bench_config;

typedef struct charl__bench_steps {
    int64_t parameters, batch; /* trained elements; samples per step */
    int slices, device;        /* device: its index in `charl devices` */
    bool is_cpu;
    bool bf16;        /* gradients travel in it */
    bool overlaps;    /* dist.overlap */
    double bucket;    /* bytes, dist.bucket_mb */
    double step_s;    /* of the best row, on the slowest rank */
    double exposed_s; /* of it, on this rank */
} charl__bench_steps;

/** Train `rows` rows of some steps and one before them that is not counted, on the ranks of comm.
 * share > 0: with so many of the configured slices as the whole batch, on device `device`; 0: as
 * configured. Collective on comm. Errors: as charl_train_run. */
charl_status charl__bench_steps_run(const charl__bench_config *config, charl_comm *comm, int rows,
                                    const charl__bench_steps *whole, int share,
                                    charl__bench_steps *out) CHARL_MUST_CHECK;

#endif
