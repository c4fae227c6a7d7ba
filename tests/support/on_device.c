#include "support/on_device.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "charl/status.h"
#include "device/device.h"

/* kernels/prelude/builtins.clh declares all that kernels call: PoCL 3 has built each without its
 * header. */
static bool builtins_lack(const charl_device *dev)
{
    const charl_device_info *info = charl_device_get_info(dev);
    const int64_t n = charl__device_counters_get(dev).programs_with_header;

    if (strcmp(info->platform, "Portable Computing Language") != 0 || strncmp(info->driver, "3.", 2) != 0 || n == 0) {
        return false;
    }
    fprintf(stderr, "kernels/prelude/builtins.clh lacks functions of %lld programs\n", (long long)n);
    return true;
}

bool charl_test_has_barriers(charl_device *dev)
{
    static bool is_told;
    const charl_device_info *info = charl_device_get_info(dev);

    if (strcmp(info->platform, "Portable Computing Language") != 0 || strncmp(info->driver, "5.0", 3) != 0) {
        return true;
    }
    if (!is_told) {
        printf("skipped case: kernels with barriers that CPUs do not use, which PoCL 5.0 miscompiles\n");
        is_told = true;
    }
    return false;
}

int charl_test_run_on_device(const char *name, const struct CMUnitTest *tests, size_t count, charl_device **dev)
{
    return charl_test_run_on_device_of(&(charl_device_request){sizeof(charl_device_request), .local_size = 1}, name,
                                       tests, count, dev);
}

int charl_test_run_on_device_of(const charl_device_request *request, const char *name, const struct CMUnitTest *tests,
                                size_t count, charl_device **dev)
{
    int failed;

    if (charl_device_open(request, dev) != CHARL_OK) {
        fprintf(stderr, "skipped: %s\n", charl_error_message());
        return 77;
    }
    failed = charl_test_run_group(name, tests, count, NULL, NULL);
    failed += builtins_lack(*dev);
    charl_device_close(*dev);
    *dev = NULL;
    if (failed == 0 && charl__live() != 0) {
        fprintf(stderr, "%ld objects are still alive\n", charl__live());
        failed = 1;
    }
    return failed != 0;
}
