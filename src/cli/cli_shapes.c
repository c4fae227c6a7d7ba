/* Shapes and types of operands on the command line, and the products that are timed by default. */
#include "cli/cli_shapes.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

enum { NT = CHARL__CLI_NT, NN = CHARL__CLI_NN, TN = CHARL__CLI_TN };

static const char *form_at(int i)
{
    static const char *const names[] = {"nt", "nn", "tn"};

    return i < 3 ? names[i] : NULL;
}

/* Squares; then the linear layers of launch/mnist-mlp.ini and shakespeare.ini. */
static const charl__cli_shape cpu[] = {{{256, 256, 256}, NT},
                                       {{512, 512, 512}, NT},
                                       {{1024, 1024, 1024}, NT},
                                       {{1024, 1024, 1024}, NN},
                                       {{1024, 1024, 1024}, TN},
                                       {{2048, 2048, 2048}, NT},
                                       {{3072, 3072, 3072}, NT},
                                       {{128, 256, 784}, NT},
                                       {{256, 784, 128}, TN},
                                       {{128, 128, 256}, NT},
                                       {{128, 256, 128}, NN},
                                       {{768, 384, 128}, NT},
                                       {{768, 512, 128}, NT},
                                       {{768, 128, 512}, NT},
                                       {{768, 512, 128}, NN},
                                       {{512, 128, 768}, TN},
                                       {{0}, 0}};

/* Squares; then the products of GPT-2 124M with 32 windows of 1024 tokens; then rows that are not a multiple of 16 bytes. */
static const charl__cli_shape gpu[] = {{{4096, 4096, 4096}, NT},  {{8192, 8192, 8192}, NT}, {{8192, 8192, 8192}, NN},
                                       {{8192, 8192, 8192}, TN},  {{32768, 2304, 768}, NT}, {{32768, 768, 768}, NT},
                                       {{32768, 3072, 768}, NT},  {{32768, 768, 3072}, NT}, {{32768, 50304, 768}, NT},
                                       {{32768, 768, 3072}, NN},  {{32768, 3072, 768}, NN}, {{32768, 768, 50304}, NN},
                                       {{3072, 768, 32768}, TN},  {{768, 3072, 32768}, TN}, {{2304, 768, 32768}, TN},
                                       {{50304, 768, 32768}, TN}, {{8192, 8191, 8191}, NT}, {{0}, 0}};

const charl__cli_shape_kind charl__cli_products = {
    .extents = "MxNxK", .n_extents = 3, .form_at = form_at, .cpu = cpu, .gpu = gpu};

/* An extent and the x after it. */
static bool parse_extent(const char **at, bool is_last, int64_t *out)
{
    char *end = NULL;

    errno = 0;
    *out = strtoll(*at, &end, 10);
    if (errno != 0 || end == *at || *out < 1 || *out > INT32_MAX || (!is_last && *end != 'x')) {
        return false;
    }
    *at = is_last ? end : end + 1;
    return true;
}

/* The form after the extents: ":nt"; the first if none is given. */
static bool parse_form(const charl__cli_shape_kind *k, const char *at, int *out)
{
    const char *name;

    *out = 0;
    if (*at == '\0') {
        return true;
    }
    for (int i = 0; *at == ':' && k->form_at && (name = k->form_at(i)) != NULL; i++) {
        if (strcmp(at + 1, name) == 0) {
            *out = i;
            return true;
        }
    }
    return false;
}

error_t charl__cli_parse_shape(const charl__cli_shape_kind *k, const char *option, const char *value,
                               charl__cli_shape *shapes, int *n)
{
    charl__cli_shape *s = &shapes[*n];
    const char *at = value;
    const char *name;
    char want[1024];
    bool ok = true;

    if (*n == CHARL__CLI_SHAPES) {
        return charl__cli_bad_option(option, value, "too many shapes in one run");
    }
    for (int i = 0; ok && i < k->n_extents; i++) {
        ok = parse_extent(&at, i + 1 == k->n_extents, &s->x[i]);
    }
    if (!ok || !parse_form(k, at, &s->form)) {
        int used = snprintf(want, sizeof want, "must be %s", k->extents);

        for (int i = 0; k->form_at && (name = k->form_at(i)) != NULL && used < (int)sizeof want; i++) {
            used += snprintf(want + used, sizeof want - (size_t)used, "%s:%s", i == 0 ? ", with " : " or ", name);
        }
        return charl__cli_bad_option(option, value, want);
    }
    (*n)++;
    return 0;
}

error_t charl__cli_parse_dtype(const char *option, const char *value, int *out, bool *tf32)
{
    static const charl_dtype types[] = {CHARL_F32, CHARL_BF16, CHARL_F16};

    for (int i = 0; i < 3; i++) {
        if (strcmp(value, charl_dtype_name(types[i])) == 0) {
            *out = types[i];
            return 0;
        }
    }
    if (strcmp(value, "tf32") == 0) {
        *out = CHARL_F32;
        *tf32 = true;
        return 0;
    }
    return charl__cli_bad_option(option, value, "must be f32, tf32, bf16 or f16");
}

charl_dtype charl__cli_default_dtype(const charl_device *dev)
{
    const bool is_cpu = charl_device_get_info(dev)->kind == CHARL_DEVICE_CPU;

    return !is_cpu && charl_device_has_tensor_cores(dev, CHARL_BF16) ? CHARL_BF16 : CHARL_F32;
}
