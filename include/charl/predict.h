#ifndef CHARL_PREDICT_H
#define CHARL_PREDICT_H
/** What a trained model says of samples, one by one. */
#include "charl/config.h"
#include "charl/image.h"
#include "charl/train.h"

CHARL_BEGIN_DECLS

/** The model's answer for one sample. */
typedef struct charl_prediction {
    int64_t row;                    /* in the split or of the files */
    int64_t n_rows;                 /* of all that is predicted */
    const char *file;               /* where the sample is an image file, else NULL */
    int64_t step;                   /* of the checkpoint */
    const charl_dataset_info *data; /* where the row comes from, or what its classes are called */
    int64_t n_outputs, n_targets;
    const float *outputs; /* [n_outputs] as the loss reads them: logits for cross_entropy and bce */
    const int32_t *labels; /* [n_targets] class labels, or NULL */
    const float *targets;  /* [n_targets] numbers, or NULL */
} charl_prediction;

/** Gets everything borrowed for the call; a status other than CHARL_OK ends prediction with it. */
typedef charl_status (*charl_predicted)(void *ctx, const charl_prediction *prediction);

/** Call `predicted` for every sample of a split of the configured data, once and in order, with the
 * weights of a checkpoint. The data may be others than those it was trained on: they need not
 * suffice to train on, but targets (data.y) are read too; what other data mean for normalisation
 * and class names is a warning. The outputs do not depend on train.batch_size.
 *
 *  Blocks. Local: one rank only. Deterministic.
 *  Errors: as charl_train_run; ERR_CONFIG    more than one rank, or no such split
 *                              ERR_NONFINITE an output is not finite */
charl_status charl_predict(const charl_config *config, const charl_train_options *options,
                           const char *checkpoint, const char *split, charl_predicted predicted,
                           void *ctx) CHARL_MUST_CHECK;

/** The same for image files. They are made into samples as an import with the channels, the size
 * and the fit of the configured data makes them (crop where no fit is stored), and normalised as
 * those are. The data must be there, u8 images of 1 or 3 channels; predictions have neither labels
 * nor targets.
 *
 *  Blocks. Local: one rank only. Deterministic.
 *  Errors: as charl_predict; as charl_image_read */
charl_status charl_predict_images(const charl_config *config, const charl_train_options *options,
                                  const char *checkpoint, const charl_image_files *files,
                                  charl_predicted predicted, void *ctx) CHARL_MUST_CHECK;

CHARL_END_DECLS

#endif
