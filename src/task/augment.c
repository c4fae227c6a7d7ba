/* Augmentation: what of it is not in operators. */
#include "task/augment.h"

#include <math.h>

#include "base/error.h"
#include "base/numeric/hash.h"
#include "base/numeric/rng.h"
#include "charl/ops.h"

static bool changes_images(const charl_augment *a)
{
    return a->flip || a->crop > 0 || a->rotate > 0 || a->cutout > 0;
}

charl_status charl__augment_check(const charl_augment *a, const charl_dataset_info *data)
{
    const charl_shape *x = &data->x_shape;
    const bool tokens = data->kind == CHARL_DATASET_TOKENS;
    char text[CHARL_SHAPE_TEXT];

    CHARL_REQUIRE(!changes_images(a) || (x->ndim == 3 && !tokens), CHARL_ERR_CONFIG,
                  "data.augment: flip, crop, rotate and cutout change images [channels, height, "
                  "width]; the samples of %s are %s",
                  data->path, charl_shape_format(x, text));
    CHARL_REQUIRE(!changes_images(a) || (a->crop < (double)x->dim[1] && a->crop < (double)x->dim[2]), CHARL_ERR_CONFIG,
                  "data.augment: crop:%g shifts images of %lld x %lld out of sight", a->crop, (long long)x->dim[1],
                  (long long)x->dim[2]);
    CHARL_REQUIRE(a->mixup <= 0 || !tokens, CHARL_ERR_CONFIG, "data.augment: mixup mixes numbers, %s holds tokens",
                  data->path);
    return CHARL_OK;
}

charl_var *charl__augment_images(const charl_augment *a, charl_graph *g, charl_var *x, charl_var *shift,
                                 charl_var *scale, int64_t reversed_rows)
{
    const charl_augment2d_args args = {.rotate = (float)a->rotate,
                                       .crop = (int)a->crop,
                                       .flip = a->flip,
                                       .cutout = (int)a->cutout,
                                       .reversed_rows = reversed_rows,
                                       .name = "data.augment"};

    return changes_images(a) ? charl_augment2d(g, x, shift, scale, &args) : x;
}

/* 53 bits of two words, in (0, 1]. */
static double unit(uint32_t lo, uint32_t hi)
{
    return 1.0 - (double)((((uint64_t)hi << 32) | lo) >> 11) * 0x1p-53;
}

/* A symmetric beta variate from two uniform ones: Student's t by Bailey's polar method (Mathematics
 * of Computation 62, 1994), squeezed to [0, 1] (Devroye, WSC 1996). */
float charl__mixup_share(double alpha, uint64_t seed, int64_t step, int64_t row)
{
    const double two_pi = 6.283185307179586476925;
    const charl__rng rng = charl__rng_key(seed, (uint64_t)step, charl__fnv1a64_string("data.mixup"));
    uint32_t b[4];
    double c, w;

    charl__rng_u32x4(&rng, (uint64_t)row, b);
    c = cos(two_pi * unit(b[2], b[3]));
    w = expm1(-log(unit(b[0], b[1])) / alpha) * c * c;
    return (float)(0.5 + copysign(0.5, c) * sqrt(1.0 / (1.0 + 1.0 / w)));
}

charl_var *charl__mixup(charl_graph *g, charl_var *own, charl_var *partner, charl_var *share)
{
    charl_shape shape = {0, {0}};

    if (!own || !share) {
        return NULL;
    }
    shape = charl_var_get_type(own).shape;
    for (int i = 1; i < shape.ndim; i++) {
        shape.dim[i] = 1;
    }
    return charl_lerp(g, partner, own, charl_reshape(g, share, shape));
}
