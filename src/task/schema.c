/* Mean and std of a schema, from data.normalize and the data. */
#include "task/schema.h"

#include <string.h>

#include "base/error.h"
#include "config/config_rows.h"
#include "io/dataset/schema/data_schema.h"
#include "io/schema.h"

/* Numbers, borrowed from the configuration or the data. */
typedef struct numbers {
    int64_t n;
    const float *mean, *std;
} numbers;

static charl_status resolve(const charl__normalize *given, const charl_dataset_info *info, numbers *out)
{
    static const float zero = 0.0F, one = 1.0F, byte = 255.0F;

    if (charl__kind_has_tokens(info->kind)) {
        *out = (numbers){0, NULL, NULL};
    } else if (given->kind == CHARL__NORMALIZE_GIVEN) {
        *out = (numbers){given->count, given->mean, given->std};
    } else if (given->kind == CHARL__NORMALIZE_AUTO && info->n_stats > 0) {
        *out = (numbers){info->n_stats, info->mean, info->std};
    } else {
        *out = (numbers){1, &zero, info->x_dtype == CHARL_U8 ? &byte : &one};
    }
    CHARL_REQUIRE(out->n <= 1 || (info->x_shape.ndim > 0 && info->x_shape.dim[0] == out->n), CHARL_ERR_CONFIG,
                  "data.normalize has %lld channels, the data %lld", (long long)out->n,
                  info->x_shape.ndim ? (long long)info->x_shape.dim[0] : 1LL);
    return CHARL_OK;
}

charl_status charl__task_schema(const charl_config *config, const charl_dataset *ds, charl_data_schema **out)
{
    charl_dataset_info info;
    numbers n;

    *out = NULL;
    charl_dataset_get_info(ds, &info);
    CHARL_TRY(resolve(&config->data.normalize, &info, &n));
    CHARL_TRY(charl_data_schema_create(ds, n.n, n.mean, n.std, out));
    if (!config->data.scale_targets || !(charl__config_targets(config) & CHARL_TARGET_NUMBERS)) {
        charl__schema_drop_target_stats(*out);
    }
    return CHARL_OK;
}

charl_status charl__task_schema_continue(const charl_config *config, const charl_data_schema *s,
                                         charl_data_schema **out)
{
    charl_dataset_info info;
    numbers n;

    *out = NULL;
    charl__data_schema_get_info(s, "", &info);
    CHARL_TRY(resolve(&config->data.normalize, &info, &n));
    CHARL_TRY(charl__data_schema_normalized(s, n.n, n.mean, n.std, out));
    return CHARL_OK;
}

bool charl__task_normalizes_otherwise(const charl_config *config, const charl_data_schema *s)
{
    charl_dataset_info info;
    numbers n;

    charl__data_schema_get_info(s, "", &info);
    return resolve(&config->data.normalize, &info, &n) != CHARL_OK || n.n != s->n_stats ||
           (n.n > 0 && (memcmp(n.mean, s->mean, (size_t)n.n * sizeof *n.mean) != 0 ||
                        memcmp(n.std, s->std, (size_t)n.n * sizeof *n.std) != 0));
}
