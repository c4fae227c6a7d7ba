#ifndef CHARL_CLI_CLI_SHAPES_H
#define CHARL_CLI_CLI_SHAPES_H
/** The options --shape and --dtype of `charl tune` and charl-bench, and the matrix products that
 *  both time by default.
 *
 *      charl__cli_shape shapes[CHARL__CLI_SHAPES + 1] = {0};
 *      int n = 0;
 *      charl__cli_parse_shape(&charl__cli_products, "--shape", "768x512x128:nn", shapes, &n);
 */
#include <argp.h>
#include <stdbool.h>
#include <stdint.h>

#include <charl/tensor.h>

enum { CHARL__CLI_EXTENTS = 7, CHARL__CLI_SHAPES = 32 };

typedef struct charl__cli_shape {
    int64_t x[CHARL__CLI_EXTENTS]; /* x[0] == 0 ends a list */
    int form;                      /* of the kind */
} charl__cli_shape;

/* The extents of a shape, and the shapes that are timed without --shape. */
typedef struct charl__cli_shape_kind {
    const char *extents; /* "MxNxK" */
    int n_extents;
    const char *(*form_at)(int i);     /* name of form 0, 1, ..., NULL past the last; NULL: there is one form */
    const charl__cli_shape *cpu, *gpu; /* on CPU devices, on other devices */
} charl__cli_shape_kind;

/* The forms of a product [M, N] = sum over K: a linear layer's forward pass, the gradient of its
 * input, and the gradient of its weight, whose result is f32. n: an operand as stored, t:
 * transposed. */
enum { CHARL__CLI_NT, CHARL__CLI_NN, CHARL__CLI_TN };

extern const charl__cli_shape_kind charl__cli_products;

/** For charl__cli_option.parse: a shape, appended to shapes [CHARL__CLI_SHAPES + 1]. Returns 0 or EINVAL. */
error_t charl__cli_parse_shape(const charl__cli_shape_kind *k, const char *option, const char *value,
                               charl__cli_shape *shapes, int *n);

/** The same for a charl_dtype; *tf32 is set if the value is tf32. */
error_t charl__cli_parse_dtype(const char *option, const char *value, int *out, bool *tf32);

/** The operand type without --dtype: bf16 on a GPU whose tensor cores support it, else f32. */
charl_dtype charl__cli_default_dtype(const charl_device *dev);

#endif
