#ifndef CHARL_CLI_CHARL_PLAN_H
#define CHARL_CLI_CHARL_PLAN_H
/** Parts of `charl plan`. */
#include <charl/comm.h>
#include "cli/cli_steps.h"

/** Print the largest batch, a multiple of the slices, that fits a device as the configuration is. device_bytes 0: the device here, or
 *  device.memory_limit, where the answer is confirmed with compiled kernels. Errors: ERR_NOMEM  no batch fits; as charl_train_run. */
charl_status charl__plan_largest_batch(const charl__cli_steps_config *config, charl_comm *comm,
                                       double device_bytes) CHARL_MUST_CHECK;
#endif
