#ifndef CHARL_CONFIG_CONFIG_SHARED_H
#define CHARL_CONFIG_CONFIG_SHARED_H
/** The settings that must be equal in the configurations of all ranks of a run. */
#include "config/values.h"

/** Receives one value, such as ("optimizer.learning_rate", "0.001") or ("layer fc1.out", "10"). */
typedef charl_status (*charl__config_visitor)(void *ctx, const char *name, const char *value);

/** Call `visit` for every value of a configuration that must be the same on all ranks: all that are
 *  used except names of files, which may differ between nodes, the name of the run and the
 *  choice of a device. For run.resume only whether it names a file. Blocks. Local. Errors: those of
 *  visit; ERR_NOMEM. */
charl_status charl__config_each_shared(const charl_config *cfg, charl__config_visitor visit,
                                       void *ctx) CHARL_MUST_CHECK;

#endif
