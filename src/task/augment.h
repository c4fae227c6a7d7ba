#ifndef CHARL_TASK_AUGMENT_H
#define CHARL_TASK_AUGMENT_H
/** Random augmentation of training samples (data.augment).
 *
 *  Everything is a function of the seed, the step and the row of the global batch, so it depends neither on the
 *  number of ranks nor on stopping and resuming. Images are changed on the device
 *  (charl_augment2d, charl_resized_crop2d, charl__paste2d). Mixup and CutMix mix the sample in row i of a
 *  global batch of B with the one in row B - 1 - i, augmented in the same way as in its own row, and mix their
 *  losses or targets accordingly. The weight of a row's own sample is drawn from Beta(alpha, alpha).
 *
 *  augment2d draws its own random numbers; the rest is drawn here and sent with every step
 *  (task/loader_record.h).
 */
#include "autograd/graph.h"
#include "config/values.h"
#include "charl/dataset.h"
#include "charl/ops.h"

/** Check that the settings fit the data, whose samples reach the model with this shape. Errors: ERR_CONFIG. */
charl_status charl__augment_check(const charl__augment *a, const charl_dataset_info *data,
                                  const charl_shape *seen) CHARL_MUST_CHECK;

/** The centre of x [rows, channels, h, w], of height and width `size`; 0: x itself. */
charl_var *charl__center_crop(charl_graph *g, charl_var *x, int64_t size);

/** The parts of the record that augmentation reads; NULL: not drawn. */
typedef struct charl__augment_vars {
    charl_var *shift, *scale; /* by which the data are normalized */
    charl_var *crop, *erase;  /* f32 [rows, 4] */
    charl_var *kinds;         /* i32 [rows, changes] */
    charl_var *amounts;       /* f32 [rows, 6 changes] */
    int64_t size;             /* height and width of the result; 0: of x */
    int64_t reversed_rows;    /* 0, or the rows of the global batch for samples in the opposite order */
} charl__augment_vars;

/** x f32 [rows, C, H, W], rows of the data, normalized and augmented by the settings. The input is normalized unless
 *  charl__augment_levels(a) > 0: changes of levels need the data's own. */
charl_var *charl__augment_images(const charl__augment *a, charl_graph *g, charl_var *x, const charl__augment_vars *v);

/** Whether samples are mixed. */
bool charl__augment_mixes(const charl__augment *a);
/** Number of values per row that the settings send with every step: width[CHARL__RECORD_PARTS]. a may be NULL: no augmentation. */
void charl__augment_widths(const charl__augment *a, int *width);

/** Number of changes of levels of each sample (charl_transform2d): brightness, contrast, saturation, hue, randaugment. */
int charl__augment_levels(const charl__augment *a);
enum { CHARL__LEVELS_MAX = 4 + 8 };

/** The numbers drawn for the sample in row `row` of a global batch. A box is top, left, height, width in pixels; height 0 means none. */
typedef struct charl__augment_draws {
    float crop[4];                    /* visible part of the sample */
    float erase[4];                   /* set to the mean */
    float paste[4];                   /* copied from the partner */
    float blend;                      /* weight of its own pixels elsewhere */
    float share;                      /* weight of its own target */
    int32_t kinds[CHARL__LEVELS_MAX]; /* the first charl__augment_levels(a): charl_transform ... */
    float amounts[CHARL__LEVELS_MAX][CHARL_TRANSFORM_AMOUNTS];
} charl__augment_draws;

/** shape: [channels, height, width] of images in the data, seen: after cropping for the model. For other samples only blend
 *  and share are drawn.
 *
 *  crop   fraction of the area uniform in [resized_crop, 1], logarithm of width / height uniform in the logarithm of [3/4, 4/3]; of ten boxes
 *         the first that fits, else the largest in the centre with such a ratio
 *  erase  with probability `erase`: part uniform in [0.02, 0.33], ratio of height to width in [0.3, 3.3]; of ten boxes the first that
 *         fits, else none
 *  kinds  brightness, contrast and saturation by a factor uniform in [1 - b, 1 + b], hue rotated by a fraction of the circle uniform in
 *         [-h, h], in a random order; then `randaugment` transforms, each one of 14 (docs/images.md), with the magnitude of either sign
 *  paste  sides sqrt(1 - Beta(cutmix, cutmix)) of those of the image, rounded down to an even number of pixels, around a
 *         pixel drawn uniformly; clipped to the image. With mixup too, every other row has one of the two. */
void charl__augment_draw(const charl__augment *a, const charl_shape *shape, const charl_shape *seen, uint64_t seed,
                         int64_t step, int64_t row, charl__augment_draws *out);

/** A draw from Beta(alpha, alpha), the weight of the sample in row `row` of a global batch. */
float charl__mixup_share(double alpha, uint64_t seed, int64_t step, int64_t row);

/** x = share * own + (1 - share) * partner, row by row. own, partner [rows, ...]  share [rows]. */
charl_var *charl__mixup(charl_graph *g, charl_var *own, charl_var *partner, charl_var *share);

#endif
