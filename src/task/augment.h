#ifndef CHARL_TASK_AUGMENT_H
#define CHARL_TASK_AUGMENT_H
/** Random changes of training samples (data.augment).
 *
 *  Everything is a function of the seed, the step and the row of the global batch, so neither the
 *  number of ranks nor a stop and a resume shows. Images are changed on the device
 *  (charl_augment2d, charl_resized_crop2d, charl__paste2d). Mixup and CutMix mix the sample in row i of a
 *  global batch of B with the one in row B - 1 - i, changed as it is changed there, and mix their
 *  losses or targets alike. The share of a row's own sample is drawn from Beta(alpha, alpha).
 *
 *  What augment2d does it draws itself; the rest is drawn here and sent with every step
 *  (task/loader_record.h).
 */
#include "autograd/graph.h"
#include "config/values.h"
#include "charl/dataset.h"
#include "charl/ops.h"

/** Whether the settings fit the data, of which the model sees samples of a shape. Errors: ERR_CONFIG. */
charl_status charl__augment_check(const charl__augment *a, const charl_dataset_info *data,
                                  const charl_shape *seen) CHARL_MUST_CHECK;

/** The middle of x [rows, channels, h, w], of height and width `size`; 0: x itself. */
charl_var *charl__center_crop(charl_graph *g, charl_var *x, int64_t size);

/** What a changed image reads of the record; NULL: not drawn. */
typedef struct charl__augment_vars {
    charl_var *shift, *scale; /* they normalised it */
    charl_var *crop, *erase;  /* f32 [rows, 4] */
    charl_var *kinds;         /* i32 [rows, changes] */
    charl_var *amounts;       /* f32 [rows, 6 changes] */
    int64_t size;             /* height and width of the result; 0: of x */
    int64_t reversed_rows;    /* 0, or the rows of the global batch for samples in the opposite order */
} charl__augment_vars;

/** x f32 [rows, C, H, W], rows of the data, normalised and changed as the settings say. It comes normalised unless
 *  charl__augment_levels(a) > 0: changes of levels need those of the data. */
charl_var *charl__augment_images(const charl__augment *a, charl_graph *g, charl_var *x, const charl__augment_vars *v);

/** Whether samples are mixed. */
bool charl__augment_mixes(const charl__augment *a);
/** Values per row that the settings send with every step: width[CHARL__RECORD_PARTS]. a may be NULL: no changes. */
void charl__augment_widths(const charl__augment *a, int *width);

/** Changes of levels of each sample (charl_transform2d): brightness, contrast, saturation, hue, randaugment. */
int charl__augment_levels(const charl__augment *a);
enum { CHARL__LEVELS_MAX = 4 + 8 };

/** What the sample in row `row` of a global batch draws. A box is top, left, height, width in pixels; one of height 0 is none. */
typedef struct charl__augment_draws {
    float crop[4];                    /* of the sample: what of it is seen */
    float erase[4];                   /* set to the mean */
    float paste[4];                   /* taken from the partner */
    float blend;                      /* what its own pixels count elsewhere */
    float share;                      /* what its own target counts */
    int32_t kinds[CHARL__LEVELS_MAX]; /* the first charl__augment_levels(a): charl_transform ... */
    float amounts[CHARL__LEVELS_MAX][CHARL_TRANSFORM_AMOUNTS];
} charl__augment_draws;

/** shape: [channels, height, width] of images in the data, seen: as the model sees them. Of other samples only blend
 *  and share are drawn.
 *
 *  crop   part of the area uniform in [resized_crop, 1], logarithm of width / height uniform in that of [3/4, 4/3]; of ten boxes the
 *         first that fits, else the largest in the middle that has such a ratio
 *  erase  with probability `erase`: part uniform in [0.02, 0.33], ratio of height to width in [0.3, 3.3]; of ten boxes the first that
 *         fits, else none
 *  kinds  brightness, contrast and saturation by a factor uniform in [1 - b, 1 + b], hue turned by a part of the circle uniform in
 *         [-h, h], in a random order; then `randaugment` changes, each one of 14 (docs/images.md), up or down by the magnitude
 *  paste  sides sqrt(1 - Beta(cutmix, cutmix)) of those of the image, rounded down to an even number of pixels, around a
 *         pixel drawn uniformly; cut where it leaves the image. With mixup too, every other row has one of the two. */
void charl__augment_draw(const charl__augment *a, const charl_shape *shape, const charl_shape *seen, uint64_t seed,
                         int64_t step, int64_t row, charl__augment_draws *out);

/** A draw from Beta(alpha, alpha), the share of the sample in row `row` of a global batch. */
float charl__mixup_share(double alpha, uint64_t seed, int64_t step, int64_t row);

/** x = share * own + (1 - share) * partner, row by row. own, partner [rows, ...]  share [rows]. */
charl_var *charl__mixup(charl_graph *g, charl_var *own, charl_var *partner, charl_var *share);

#endif
