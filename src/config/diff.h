#ifndef CHARL_CONFIG_DIFF_H
#define CHARL_CONFIG_DIFF_H
/** What differs between a configuration and one that was stored. */
#include "charl/config.h"

/** What a difference between two configurations changes: of these bits a difference has one. */
typedef enum charl__config_change {
    CHARL__CHANGE_LENGTH = 1,  /* for how long a run trains: train.epochs, train.max_steps */
    CHARL__CHANGE_MEASURE = 2, /* which checkpoint is the best, but not what is trained */
    CHARL__CHANGE_TRAINING = 4,
    CHARL__CHANGE_MODEL = 8,  /* a [model] key or a layer */
    CHARL__CHANGE_START = 16, /* what a new run would start from; one that resumes does not read it */
    CHARL__CHANGE_RESULT = CHARL__CHANGE_LENGTH | CHARL__CHANGE_MEASURE | CHARL__CHANGE_TRAINING | CHARL__CHANGE_MODEL
} charl__config_change;

/** What differs between `cfg` and a configuration printed earlier (`text`, as in a checkpoint): one
 *  line per key, "[train] epochs = 10 (was 5)". Keys that change neither the result nor the start are left out.
 *  `wanted`: the kinds of differences to tell, bits of a charl__config_change; *found: those that there are among them.
 *  *out: owned by the caller (charl_free); "" when nothing differs.
 *
 *  Blocks. Local.
 *  Errors: ERR_CONFIG  `text` does not read (written by another version)
 *          ERR_NOMEM */
charl_status charl__config_diff(const charl_config *cfg, const char *text, unsigned wanted, unsigned *found,
                                char **out) CHARL_MUST_CHECK;
#endif
