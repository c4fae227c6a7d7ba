#ifndef CHARL_TASK_WEIGHTS_LOAD_H
#define CHARL_TASK_WEIGHTS_LOAD_H
/** Weights of any file that charl can read, into the parameters of a model. charl_params_load and [init] stand on it. */
#include "base/text/text.h"
#include "charl/weights.h"

/** What a message says of an option: by charl_params_load or by [init]. */
typedef struct charl__weights_words {
    const char *skip, *rename; /* names of the options: "init.skip" */
    const char *effect;        /* of skip: "starts what does not fit afresh" */
} charl__weights_words;

/** Load as charl_params_load does. `report` and `text` (lines of the report) are the caller's and filled also on failure. */
charl_status charl__weights_load(charl_params *set, const char *path, const charl_params_load_options *options,
                                 const charl__weights_words *words, charl_params_report *report,
                                 charl__text *text) CHARL_MUST_CHECK;

#endif
