#ifndef CHARL_BENCH_KERNEL_H
#define CHARL_BENCH_KERNEL_H
/** Benchmarks of one kernel or operator: options, device, a loop over shapes.
 *
 *  A benchmark is a charl__bench_kind. It creates the subjects of one case and destroys them. They
 *  are measured alternately, together with the measured peak of the device (bench/roofline.h).
 */
#include <charl/tensor.h>
#include "bench/bench.h"
#include "cli/cli_shapes.h"

enum { CHARL__BENCH_SUBJECTS = 6 };

/* One row of the table in the making. */
typedef struct charl__bench_case {
    charl_device *dev;
    charl_dtype dtype;
    bool integer; /* products of integers */
    const charl__cli_shape *shape;
    charl__bench_subject subject[CHARL__BENCH_SUBJECTS];
    int n;
    void *own; /* of the kind */
} charl__bench_case;

typedef struct charl__bench_kind {
    const char *name, *unit;
    const charl__cli_shape_kind *shapes;
    const char *baseline;     /* subject that ratios refer to on CPU devices, if it is available; NULL: none */
    const char *gpu_baseline; /* on other devices */
    bool is_typed;            /* --dtype selects the type of operands */
    bool multiplies;          /* the peak is that of arithmetic, else of memory */
    bool has_peak;
    bool has_products; /* --products selects how f32 is multiplied */
    const char *doc;   /* for --help */
    /** Fill in subject[0 .. n). end releases what begin has made, even after a failure. */
    charl_status (*begin)(charl__bench_case *c);
    void (*end)(charl__bench_case *c);
    const char *(*about)(void); /* a line about the baselines; NULL: none */
} charl__bench_kind;

/** Parse, measure, print; returns the exit code. */
int charl__bench_kernel_main(const charl__bench_kind *kind, const char *path, int argc, char **argv);

/** New tensor of random values in [-1, 1), which repeat after a million. Errors: ERR_NOMEM, ERR_DEVICE. */
charl_status charl__bench_random(charl_device *dev, charl_dtype dtype, charl_shape shape,
                                 charl_tensor **out) CHARL_MUST_CHECK;

/** Fill t with such values. */
charl_status charl__bench_fill_random(charl_tensor *t) CHARL_MUST_CHECK;

/** Subject `name` with what it enqueues on c->dev, and what a call of it is worth. */
charl__bench_subject *charl__bench_add(charl__bench_case *c, const char *name, charl_status (*run)(void *ctx),
                                       void *ctx, double amount);

extern const charl__bench_kind charl__bench_gemm, charl__bench_linear, charl__bench_conv, charl__bench_attention,
    charl__bench_layer_norm, charl__bench_cross_entropy, charl__bench_embedding, charl__bench_optimizer,
    charl__bench_copy, charl__bench_launch;

#endif
