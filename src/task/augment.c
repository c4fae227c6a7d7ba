/* Augmentation: the parts outside of operators. */
#include "task/augment.h"

#include <math.h>

#include "autograd/ops_data.h"
#include "base/error.h"
#include "base/numeric/hash.h"
#include "base/numeric/rng.h"
#include "charl/ops.h"
#include "io/schema.h"
#include "task/loader_record.h"

/* Random blocks of a row: one per try, and one for the numbers drawn once. */
enum { TRIES = 10, BLOCKS = 16, BOX = 4, RANDOM_CHANGES = 14, MAGNITUDE = 9 };

static const float WHITE = 255.0F; /* of images of bytes */

/* What charl_augment2d does. */
static bool moves_pixels(const charl__augment *a)
{
    return a->flip || a->crop > 0 || a->rotate > 0 || a->cutout > 0;
}

/* The targets of one sample may be a mask or an image, which would have to be transformed like its pixels. */
static bool moves_images(const charl__augment *a)
{
    return a->flip || a->crop > 0 || a->rotate > 0 || a->resized_crop > 0 || a->cutmix > 0 || a->randaugment > 0;
}

static bool changes_images(const charl__augment *a)
{
    return moves_pixels(a) || a->resized_crop > 0 || a->erase > 0 || a->cutmix > 0 || charl__augment_levels(a) > 0;
}

/* Number of colour changes that are not 0. */
static int jitters(const charl__augment *a)
{
    return (a->brightness > 0) + (a->contrast > 0) + (a->saturation > 0) + (a->hue > 0);
}

int charl__augment_levels(const charl__augment *a)
{
    return jitters(a) + (int)a->randaugment;
}

bool charl__augment_mixes(const charl__augment *a)
{
    return a->mixup > 0 || a->cutmix > 0;
}

void charl__augment_widths(const charl__augment *a, int *width)
{
    const charl__augment none = {.flip = false};
    const bool mixes = a && charl__augment_mixes(a);

    a = a ? a : &none;
    for (int i = 0; i < CHARL__RECORD_PARTS; i++) {
        width[i] = 0;
    }
    width[CHARL__RECORD_ROW] = width[CHARL__RECORD_WEIGHT] = 1;
    width[CHARL__RECORD_PARTNER] = width[CHARL__RECORD_SHARE] = mixes ? 1 : 0;
    width[CHARL__RECORD_BLEND] = a->mixup > 0 && a->cutmix > 0 ? 1 : 0;
    width[CHARL__RECORD_PASTE] = a->cutmix > 0 ? BOX : 0;
    width[CHARL__RECORD_CROP] = a->resized_crop > 0 ? BOX : 0;
    width[CHARL__RECORD_ERASE] = a->erase > 0 ? BOX : 0;
    width[CHARL__RECORD_KINDS] = charl__augment_levels(a);
    width[CHARL__RECORD_AMOUNTS] = CHARL_TRANSFORM_AMOUNTS * width[CHARL__RECORD_KINDS];
    width[CHARL__RECORD_PARTNER_KINDS] = mixes ? width[CHARL__RECORD_KINDS] : 0;
    width[CHARL__RECORD_PARTNER_AMOUNTS] = mixes ? width[CHARL__RECORD_AMOUNTS] : 0;
    width[CHARL__RECORD_PARTNER_CROP] = mixes ? width[CHARL__RECORD_CROP] : 0;
    width[CHARL__RECORD_PARTNER_ERASE] = mixes ? width[CHARL__RECORD_ERASE] : 0;
}

charl_status charl__augment_check(const charl__augment *a, const charl_dataset_info *data, const charl_shape *seen)
{
    const charl_shape *x = &data->x_shape;
    const bool tokens = charl__kind_has_tokens(data->kind);
    char text[CHARL_SHAPE_TEXT];

    CHARL_REQUIRE(!changes_images(a) || (x->ndim == 3 && !tokens), CHARL_ERR_CONFIG,
                  "data.augment: all but mixup change images [channels, height, width]; the samples of %s are %s",
                  data->path, charl_shape_format(x, text));
    CHARL_REQUIRE(
        !moves_images(a) || x->dim[1] * x->dim[2] == 1 ||
            charl_shape_count(&data->y_shape) % (x->dim[1] * x->dim[2]) != 0,
        CHARL_ERR_CONFIG,
        "data.augment: flip, crop, rotate, resized_crop, cutmix and randaugment do not move targets, and those "
        "of %s are one for each pixel; HINT use cutout, erase, mixup or changes of colours",
        data->path);
    CHARL_REQUIRE(!changes_images(a) || (a->crop < (double)seen->dim[1] && a->crop < (double)seen->dim[2]),
                  CHARL_ERR_CONFIG, "data.augment: crop:%g shifts images of %lld x %lld out of sight", a->crop,
                  (long long)seen->dim[1], (long long)seen->dim[2]);
    CHARL_REQUIRE(
        charl__augment_levels(a) == 0 || (data->x_dtype == CHARL_U8 && (x->dim[0] == 1 || x->dim[0] == 3)),
        CHARL_ERR_CONFIG,
        "data.augment: brightness, contrast, saturation, hue and randaugment change images of bytes with 1 or 3 "
        "channels; the samples of %s are %s %s",
        data->path, charl_dtype_name(data->x_dtype), charl_shape_format(x, text));
    CHARL_REQUIRE(a->mixup <= 0 || !tokens, CHARL_ERR_CONFIG, "data.augment: mixup mixes numbers, %s holds tokens",
                  data->path);
    return CHARL_OK;
}

charl_var *charl__center_crop(charl_graph *g, charl_var *x, int64_t size)
{
    for (int axis = 2; x && size > 0 && axis < 4; axis++) {
        const int64_t n = charl_var_get_type(x).shape.dim[axis];

        x = n == size ? x : charl_slice(g, x, axis, (n - size) / 2, size);
    }
    return x;
}

/* (x - shift) * scale, per channel or for all. */
static charl_var *normalized(charl_graph *g, charl_var *x, const charl__augment_vars *v)
{
    charl_shape shape;

    if (!x || !v->shift) {
        return NULL;
    }
    shape = (charl_shape){4, {1, charl_var_get_type(v->shift).shape.dim[0], 1, 1}};
    return charl_mul(g, charl_sub(g, x, charl_reshape(g, v->shift, shape)), charl_reshape(g, v->scale, shape));
}

charl_var *charl__augment_images(const charl__augment *a, charl_graph *g, charl_var *x, const charl__augment_vars *v)
{
    const charl_augment2d_args args = {.rotate = (float)a->rotate,
                                       .crop = (int)a->crop,
                                       .flip = a->flip,
                                       .cutout = (int)a->cutout,
                                       .reversed_rows = v->reversed_rows,
                                       .name = "data.augment"};

    if (v->crop && x) {
        const charl_shape s = charl_var_get_type(x).shape;

        x = charl_resized_crop2d(g, x, v->crop, v->size ? v->size : s.dim[2], v->size ? v->size : s.dim[3]);
    } else {
        x = charl__center_crop(g, x, v->size);
    }
    if (v->kinds) {
        for (int i = 0; i < charl__augment_levels(a); i++) {
            x = charl_transform2d(g, x, v->kinds, v->amounts, i, WHITE);
        }
        x = normalized(g, x, v);
    }
    x = moves_pixels(a) ? charl_augment2d(g, x, v->shift, v->scale, &args) : x;
    return v->erase ? charl__paste2d(g, x, NULL, v->erase) : x;
}

/* 53 bits of two words, in (0, 1]. */
static double unit(uint32_t lo, uint32_t hi)
{
    return 1.0 - (double)((((uint64_t)hi << 32) | lo) >> 11) * 0x1p-53;
}

/* Uniform in [lo, hi). */
static double between(uint32_t word, double lo, double hi)
{
    return lo + (hi - lo) * ((double)word * 0x1p-32);
}

/* Uniform in 0 .. n - 1. */
static int64_t below(uint32_t word, int64_t n)
{
    return (int64_t)((uint64_t)word * (uint64_t)n >> 32);
}

static charl__rng stream_of(const char *name, uint64_t seed, int64_t step)
{
    return charl__rng_key(seed, (uint64_t)step, charl__fnv1a64_string(name));
}

/* Boxes with a random fraction of the area of an image, with a random width / height. */
typedef struct box_range {
    double area[2], ratio[2];
    int64_t most_h, most_w;
} box_range;

static void set_box(float box[4], int64_t top, int64_t left, int64_t h, int64_t w)
{
    box[0] = (float)top;
    box[1] = (float)left;
    box[2] = (float)h;
    box[3] = (float)w;
}

/* The first of TRIES boxes that fits; false: none. */
static bool draw_box(const charl__rng *rng, int64_t row, const box_range *r, const charl_shape *s, float box[4])
{
    const double all = (double)(s->dim[1] * s->dim[2]);
    uint32_t word[4];

    for (int i = 0; i < TRIES; i++) {
        double area, ratio, h, w;

        charl__rng_u32x4(rng, (uint64_t)(row * BLOCKS + i), word);
        area = all * between(word[0], r->area[0], r->area[1]);
        ratio = exp(between(word[1], log(r->ratio[0]), log(r->ratio[1])));
        h = rint(sqrt(area / ratio));
        w = rint(sqrt(area * ratio));
        if (h >= 1 && w >= 1 && h <= (double)r->most_h && w <= (double)r->most_w) {
            set_box(box, below(word[2], s->dim[1] - (int64_t)h + 1), below(word[3], s->dim[2] - (int64_t)w + 1),
                    (int64_t)h, (int64_t)w);
            return true;
        }
    }
    return false;
}

/* Like torchvision's RandomResizedCrop. */
static void draw_crop(double least, const charl_shape *s, const charl__rng *rng, int64_t row, float box[4])
{
    const int64_t h = s->dim[1], w = s->dim[2];
    const box_range r = {{least, 1.0}, {3.0 / 4.0, 4.0 / 3.0}, h, w};
    const double ratio = fmin(fmax((double)w / (double)h, r.ratio[0]), r.ratio[1]);
    const int64_t middle_h = (int64_t)fmin((double)h, rint((double)w / ratio));
    const int64_t middle_w = (int64_t)fmin((double)w, rint((double)h * ratio));

    if (!draw_box(rng, row, &r, s, box)) {
        set_box(box, (h - middle_h) / 2, (w - middle_w) / 2, middle_h, middle_w);
    }
}

/* Like its RandomErasing. */
static void draw_erase(double chance, const charl_shape *s, const charl__rng *rng, int64_t row, float box[4])
{
    const box_range r = {{0.02, 0.33}, {1.0 / 3.3, 1.0 / 0.3}, s->dim[1] - 1, s->dim[2] - 1};
    uint32_t word[4];

    charl__rng_u32x4(rng, (uint64_t)(row * BLOCKS + TRIES), word);
    if (between(word[0], 0.0, 1.0) < chance) {
        (void)draw_box(rng, row, &r, s, box);
    }
}

static void add_change(charl__augment_draws *out, int *n, charl_transform kind, double amount)
{
    out->kinds[*n] = (int32_t)kind;
    out->amounts[(*n)++][0] = (float)amount;
}

/* Like torchvision's ColorJitter. */
static void draw_jitter(const charl__augment *a, const charl__rng *rng, int64_t row, charl__augment_draws *out)
{
    static const charl_transform kind[] = {CHARL_TRANSFORM_BRIGHTNESS, CHARL_TRANSFORM_CONTRAST,
                                           CHARL_TRANSFORM_SATURATION, CHARL_TRANSFORM_HUE};
    const double most[] = {a->brightness, a->contrast, a->saturation, a->hue};
    int order[] = {0, 1, 2, 3}, n = 0;
    uint32_t word[4], swap[4];

    charl__rng_u32x4(rng, (uint64_t)(row * BLOCKS), word);
    charl__rng_u32x4(rng, (uint64_t)(row * BLOCKS + 1), swap);
    for (int i = 0; i < 4; i++) {
        const int from = i + (int)below(swap[i], 4 - i), k = order[from];

        order[from] = order[i];
        if (most[k] > 0) {
            add_change(out, &n, kind[k], between(word[k], -most[k], most[k]) + (k < 3 ? 1.0 : 0.0));
        }
    }
}

/* The position dx, dy from the centre of an image of h x w comes from (x, y): row_x, row_y are the coefficients of dx, dy and 1. */
static void add_affine(charl__augment_draws *out, int *n, const double row_x[3], const double row_y[3])
{
    for (int i = 0; i < 3; i++) {
        out->amounts[*n][i] = (float)row_x[i];
        out->amounts[*n][3 + i] = (float)row_y[i];
    }
    out->kinds[(*n)++] = CHARL_TRANSFORM_AFFINE;
}

/* One transform of torchvision's RandAugment: number `which` of its table. m: magnitude in [-1, 1]. */
static void add_random(int which, double m, const charl_shape *seen, charl__augment_draws *out, int *n)
{
    static const charl_transform blends[] = {CHARL_TRANSFORM_BRIGHTNESS, CHARL_TRANSFORM_SATURATION,
                                             CHARL_TRANSFORM_CONTRAST, CHARL_TRANSFORM_SHARPNESS};
    const double h = (double)seen->dim[1], w = (double)seen->dim[2], shear = 0.3 * m, part = 150.0 / 331.0 * m;
    const double angle = m * 30.0 / 180.0 * 3.14159265358979323846;

    switch (which) {
    case 0:
        add_change(out, n, CHARL_TRANSFORM_NONE, 0);
        break;
    case 1: /* sheared about the top left corner */
        add_affine(out, n, (const double[]){1, shear, shear * 0.5 * h}, (const double[]){0, 1, 0});
        break;
    case 2:
        add_affine(out, n, (const double[]){1, 0, 0}, (const double[]){shear, 1, shear * 0.5 * w});
        break;
    case 3:
        add_affine(out, n, (const double[]){1, 0, -trunc(part * w)}, (const double[]){0, 1, 0});
        break;
    case 4:
        add_affine(out, n, (const double[]){1, 0, 0}, (const double[]){0, 1, -trunc(part * h)});
        break;
    case 5:
        add_affine(out, n, (const double[]){cos(angle), -sin(angle), 0}, (const double[]){sin(angle), cos(angle), 0});
        break;
    case 10:
        add_change(out, n, CHARL_TRANSFORM_POSTERIZE, 8.0 - rint(4.0 * fabs(m)));
        break;
    case 11:
        add_change(out, n, CHARL_TRANSFORM_SOLARIZE, 1.0 - fabs(m));
        break;
    case 12:
        add_change(out, n, CHARL_TRANSFORM_AUTOCONTRAST, 0);
        break;
    case 13:
        add_change(out, n, CHARL_TRANSFORM_EQUALIZE, 0);
        break;
    default:
        add_change(out, n, blends[which - 6], 1.0 + 0.9 * m);
    }
}

static void draw_random(const charl__augment *a, const charl_shape *seen, const charl__rng *rng, int64_t row,
                        charl__augment_draws *out)
{
    const double most = a->magnitude > 0 ? a->magnitude : MAGNITUDE;
    int n = jitters(a);
    uint32_t word[4];

    for (int i = 0; i < (int)a->randaugment; i++) {
        charl__rng_u32x4(rng, (uint64_t)(row * BLOCKS + i), word);
        add_random((int)below(word[0], RANDOM_CHANGES), most / 30.0 * (word[1] >> 31 ? -1.0 : 1.0), seen, out, &n);
    }
}

/* A symmetric beta variate from two uniform ones: Student's t by Bailey's polar method (Mathematics
 * of Computation 62, 1994), squeezed to [0, 1] (Devroye, WSC 1996). */
static double beta(double alpha, const charl__rng *rng, int64_t row)
{
    const double two_pi = 6.283185307179586476925;
    uint32_t b[4];
    double c, w;

    charl__rng_u32x4(rng, (uint64_t)row, b);
    c = cos(two_pi * unit(b[2], b[3]));
    w = expm1(-log(unit(b[0], b[1])) / alpha) * c * c;
    return 0.5 + copysign(0.5, c) * sqrt(1.0 / (1.0 + 1.0 / w));
}

float charl__mixup_share(double alpha, uint64_t seed, int64_t step, int64_t row)
{
    const charl__rng rng = stream_of("data.mixup", seed, step);

    return (float)beta(alpha, &rng, row);
}

/* Like torchvision's CutMix. */
static void draw_paste(double alpha, const charl_shape *s, const charl__rng *rng, int64_t row,
                       charl__augment_draws *out)
{
    const int64_t h = s->dim[1], w = s->dim[2];
    const double r = 0.5 * sqrt(1.0 - beta(alpha, rng, 2 * row));
    const int64_t half_h = (int64_t)(r * (double)h), half_w = (int64_t)(r * (double)w);
    uint32_t word[4];
    int64_t top, left, bottom, right;

    charl__rng_u32x4(rng, (uint64_t)(2 * row + 1), word);
    top = below(word[0], h);
    left = below(word[1], w);
    bottom = top + half_h < h ? top + half_h : h;
    right = left + half_w < w ? left + half_w : w;
    top = top > half_h ? top - half_h : 0;
    left = left > half_w ? left - half_w : 0;
    set_box(out->paste, top, left, bottom - top, right - left);
    out->share = (float)(1.0 - (double)((bottom - top) * (right - left)) / (double)(h * w));
}

void charl__augment_draw(const charl__augment *a, const charl_shape *shape, const charl_shape *seen, uint64_t seed,
                         int64_t step, int64_t row, charl__augment_draws *out)
{
    const charl__rng crop = stream_of("data.crop", seed, step), erase = stream_of("data.erase", seed, step);
    const charl__rng cutmix = stream_of("data.cutmix", seed, step), choice = stream_of("data.mix", seed, step);
    const charl__rng jitter = stream_of("data.jitter", seed, step), random = stream_of("data.randaugment", seed, step);
    uint32_t word[4];

    *out = (charl__augment_draws){.blend = 1.0F, .share = 1.0F};
    charl__rng_u32x4(&choice, (uint64_t)row, word);
    if (a->resized_crop > 0) {
        draw_crop(a->resized_crop, shape, &crop, row, out->crop);
    }
    if (a->erase > 0) {
        draw_erase(a->erase, seen, &erase, row, out->erase);
    }
    draw_jitter(a, &jitter, row, out);
    draw_random(a, seen, &random, row, out);
    if (a->cutmix > 0 && (!(a->mixup > 0) || word[0] >> 31)) {
        draw_paste(a->cutmix, seen, &cutmix, row, out);
    } else if (a->mixup > 0) {
        out->blend = out->share = charl__mixup_share(a->mixup, seed, step, row);
    }
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
