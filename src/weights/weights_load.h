#ifndef CHARL_WEIGHTS_WEIGHTS_LOAD_H
#define CHARL_WEIGHTS_WEIGHTS_LOAD_H
/** Weights of any file that charl can read, into the parameters of a model. charl_params_load and [init] use it. */
#include "base/text/text.h"
#include "charl/weights.h"

/** Names of options in messages: charl_params_load's or [init]'s. */
typedef struct charl__weights_words {
    const char *skip, *rename; /* names of the options: "init.skip" */
    const char *effect;        /* of skip: "starts afresh or leaves out what does not fit" */
} charl__weights_words;

/** Load like charl_params_load. `report` and `text` (lines of the report) are owned by the caller and filled even on failure. */
charl_status charl__weights_load(charl_params *set, const char *path, const charl_params_load_options *options,
                                 const charl__weights_words *words, charl_params_report *report,
                                 charl__text *text) CHARL_MUST_CHECK;

/** A match of a file with the parameters of a set, for reading values one after another. */
typedef struct charl__weights_plan charl__weights_plan;

/** Match the file `path` with the parameters of `set`, which need not be allocated; every one must have its tensors. Set, path, options and words
 *  are borrowed until it is closed. Blocks. Errors: as charl_params_load; ERR_CHECKPOINT  the file lacks a parameter. */
charl_status charl__weights_plan_open(charl_params *set, const char *path, const charl_params_load_options *options,
                                      const charl__weights_words *words, charl__weights_plan **out) CHARL_MUST_CHECK;
/** NULL is a no-op. */
void charl__weights_plan_close(charl__weights_plan *p);
/** Read the value of the parameter `name` of the set as f32. Blocks. Errors: ERR_CHECKPOINT, ERR_NOMEM. */
charl_status charl__weights_plan_read(charl__weights_plan *p, const char *name, float *dst) CHARL_MUST_CHECK;

#endif
