#ifndef CHARL_CONFIG_CONFIG_SHARED_H
#define CHARL_CONFIG_CONFIG_SHARED_H
/** What the configurations of all ranks of a run must have in common. */
#include "config/values.h"

/** Takes one value, such as ("optimizer.learning_rate", "0.001") or ("layer fc1.out", "10"). */
typedef charl_status (*charl__config_take)(void *ctx, const char *name, const char *value);

/** Call `take` for every value of a configuration that must be the same on all ranks: all that are
 *  used but names of files, which may lie elsewhere on another node, the name of the run and the
 *  choice of a device. Of run.resume only whether it names a file. Blocks. Local. Errors: those of
 *  take; ERR_NOMEM. */
charl_status charl__config_each_shared(const charl_config *cfg, charl__config_take take, void *ctx) CHARL_MUST_CHECK;

#endif
