#ifndef CHARL_TESTS_ON_DEVICE_H
#define CHARL_TESTS_ON_DEVICE_H
/** main() of tests that share one device. */
#include <stdbool.h>

#include "charl/device.h"
#include "support/support.h"

/** Open the device of a lone rank in *dev, run the cmocka group `tests` (an array), close it. The
 *  exit code: 0; 1 when a test failed or anything is still alive; 77, skipped, without a device. */
#define charl_test_on_device(tests, dev)                                                                               \
    charl_test_run_on_device(#tests, (tests), sizeof(tests) / sizeof((tests)[0]), (dev))
int charl_test_run_on_device(const char *name, const struct CMUnitTest *tests, size_t count, charl_device **dev);
/** The same with the device that `request` asks for. */
int charl_test_run_on_device_of(const charl_device_request *request, const char *name, const struct CMUnitTest *tests,
                                size_t count, charl_device **dev);

/** Whether kernels with barriers that charl does not use on CPUs can be tested. False on PoCL 5.0 (Ubuntu 24.04), which miscompiles some of them
 *  (docs/exactness.md); the first call prints that as a skipped case. */
bool charl_test_has_barriers(charl_device *dev);

#endif
