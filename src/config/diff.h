#ifndef CHARL_CONFIG_DIFF_H
#define CHARL_CONFIG_DIFF_H
/** Differences between a configuration and a stored one. */
#include "charl/config.h"

/** What a difference between two configurations affects: every difference has one of these bits. */
typedef enum charl__config_change {
    CHARL__CHANGE_LENGTH = 1,  /* the length of a training: train.epochs, train.max_steps */
    CHARL__CHANGE_MEASURE = 2, /* the selection of the best checkpoint, but not the training */
    CHARL__CHANGE_TRAINING = 4,
    CHARL__CHANGE_MODEL = 8,  /* a [model] key or a layer */
    CHARL__CHANGE_START = 16, /* the start of a new run; a run that resumes does not read it */
    CHARL__CHANGE_RESULT = CHARL__CHANGE_LENGTH | CHARL__CHANGE_MEASURE | CHARL__CHANGE_TRAINING | CHARL__CHANGE_MODEL
} charl__config_change;

/** Differences between `cfg` and a configuration printed earlier (`text`, as in a checkpoint): one
 *  line per key, "[train] epochs = 10 (was 5)". Keys that affect neither the result nor the start are omitted.
 *  `wanted`: the kinds of differences to report, bits of a charl__config_change; *found: which of them exist.
 *  *out: owned by the caller (charl_free); "" if nothing differs.
 *
 *  Blocks. Local.
 *  Errors: ERR_CONFIG  `text` cannot be parsed (written by another version)
 *          ERR_NOMEM */
charl_status charl__config_diff(const charl_config *cfg, const char *text, unsigned wanted, unsigned *found,
                                char **out) CHARL_MUST_CHECK;
#endif
