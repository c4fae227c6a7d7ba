#ifndef CHARL_CONFIG_CONFIG_RUN_H
#define CHARL_CONFIG_CONFIG_RUN_H
/** Consequences of a configuration for a run whose length and data are known. */
#include "base/text/text.h"
#include "config/values.h"

typedef struct charl__run_facts {
    int64_t steps, batch; /* of the whole run; samples of a step */
    int64_t train_rows, val_rows;
    bool val_is_cut; /* charl_dataset_info */
} charl__run_facts;

/** Append a line for every setting that has no effect in such a run, or surely not the intended one. Errors: ERR_NOMEM. */
charl_status charl__config_check_run(const charl_config *cfg, const charl__run_facts *facts,
                                     charl__text *out) CHARL_MUST_CHECK;

#endif
