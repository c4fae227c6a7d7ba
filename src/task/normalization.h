#ifndef CHARL_TASK_NORMALIZATION_H
#define CHARL_TASK_NORMALIZATION_H
/** How samples are shifted and scaled before the model sees them. */
#include "charl/config.h"
#include "charl/dataset.h"

/** What a feed does to x: (x - shift) * scale per channel, or with one of each for all. */
typedef struct charl__normalization {
    int count;
    float *shift, *scale; /* owned */
} charl__normalization;

/** As `given` says: the data's own statistics, those given, or bytes to [0, 1]. Needs fini on every
 * path. Errors: ERR_CONFIG when the channels do not fit, ERR_NOMEM. */
charl_status charl__normalization_init(charl__normalization *n, const charl_dataset_info *info,
                                       const charl_normalize *given) CHARL_MUST_CHECK;
void charl__normalization_fini(charl__normalization *n);

#endif
