#ifndef CHARL_BENCH_KERNEL_H
#define CHARL_BENCH_KERNEL_H
/** What the benchmarks of one kernel or operator share: their options, the device, a loop over
 * shapes.
 *
 *  A benchmark is a charl__bench_kind: it makes the subjects of one case, which are measured in
 * turn beside the device's ceiling, and unmakes them.
 */
#include "charl/tensor.h"
#include "bench/bench.h"

enum { CHARL__BENCH_EXTENTS = 7, CHARL__BENCH_SUBJECTS = 6, CHARL__BENCH_SHAPES = 32 };

typedef struct charl__bench_shape {
    int64_t x[CHARL__BENCH_EXTENTS]; /* x[0] == 0 ends a list */
    int form;                        /* index into the kind's forms */
} charl__bench_shape;

/* One row of the table in the making. */
typedef struct charl__bench_case {
    charl_device *dev;
    charl_dtype dtype;
    const charl__bench_shape *shape;
    charl__bench_subject subject[CHARL__BENCH_SUBJECTS];
    int n;
    void *own; /* of the kind */
} charl__bench_case;

typedef struct charl__bench_kind {
    const char *name, *unit;
    const char *rival; /* the subject that ratios compare with, where it is there, on CPUs ... */
    const char *gpu_rival; /* ... and on other devices; NULL: none */
    const char *extents;   /* "MxNxK" */
    int n_extents;
    const char *const *forms;            /* names, ends with NULL; NULL: there is one form */
    const charl__bench_shape *cpu, *gpu; /* measured unless told otherwise */
    bool is_typed;                       /* --dtype means something */
    bool multiplies;                     /* the ceiling is its arithmetic, else its memory */
    bool has_ceiling;
    const char *doc; /* for --help */
    /** Fill in subject[0 .. n). What has been made is unmade by end, also after a failure. */
    charl_status (*begin)(charl__bench_case *c);
    void (*end)(charl__bench_case *c);
    const char *(*about)(void); /* a line about the rival; NULL: none */
} charl__bench_kind;

/** Parse, measure, print; returns the exit code. */
int charl__bench_kernel_main(const charl__bench_kind *kind, const char *path, int argc,
                             char **argv);

/** Subject `name` with what it enqueues on c->dev, and what a call of it is worth. */
charl__bench_subject *charl__bench_add(charl__bench_case *c, const char *name,
                                       charl_status (*run)(void *ctx), void *ctx, double amount);

/** What is measured where no --dtype is given: bf16 where there are tensor cores for it. */
charl_dtype charl__bench_dtype(const charl_device *dev);

/** For parsers: --shape, appended to shapes [CHARL__BENCH_SHAPES + 1]; --dtype, with *tf32 set
 * where it says so. 0, or what the parser returns. */
error_t charl__bench_parse_shape(const charl__bench_kind *k, const char *value,
                                 charl__bench_shape *shapes, int *n);
error_t charl__bench_parse_dtype(const char *value, int *out, bool *tf32);

extern const charl__bench_kind charl__bench_gemm, charl__bench_linear, charl__bench_conv,
    charl__bench_attention, charl__bench_layer_norm, charl__bench_cross_entropy,
    charl__bench_embedding, charl__bench_optimizer, charl__bench_copy, charl__bench_launch;

#endif
