/* What the configuration says of normalisation, as numbers for the data at hand. */
#include "task/normalization.h"

#include "base/alloc.h"

charl_status charl__normalization_init(charl__normalization *n, const charl_dataset_info *info,
                                       const charl_normalize *given)
{
    charl_status st = CHARL_OK;
    const bool own = given->kind == CHARL_NORMALIZE_AUTO && info->n_stats > 0;
    const bool stats = own || given->kind == CHARL_NORMALIZE_GIVEN;
    const float *mean = own ? info->mean : given->mean, *std = own ? info->std : given->std;

    *n = (charl__normalization){.count = !stats ? 1 : own ? info->n_stats : given->count};
    CHARL_REQUIRE(n->count == 1 || (info->x_shape.ndim > 0 && info->x_shape.dim[0] == n->count),
                  CHARL_ERR_CONFIG, "data.normalize has %d channels, the data %lld", n->count,
                  info->x_shape.ndim ? (long long)info->x_shape.dim[0] : 1LL);
    CHARL_TRY(charl_alloc_array(n->count, sizeof *n->shift, &n->shift));
    CHARL_TRY(charl_alloc_array(n->count, sizeof *n->scale, &n->scale));
    for (int i = 0; i < n->count; i++) {
        n->shift[i] = stats ? mean[i] : 0.0F;
        n->scale[i] = 1.0F / (stats ? std[i] : info->x_dtype == CHARL_U8 ? 255.0F : 1.0F);
    }
cleanup:
    return st;
}

void charl__normalization_fini(charl__normalization *n)
{
    charl_free(n->shift);
    charl_free(n->scale);
    *n = (charl__normalization){0};
}
