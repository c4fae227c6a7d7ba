#ifndef CHARL_TESTS_EACH_DEVICE_H
#define CHARL_TESTS_EACH_DEVICE_H
/** Runs a check on every OpenCL device that is found; skips where there is none. Public headers only. */
#include <stdio.h>

#include <charl/device.h>

#include "support/support.h"

static inline charl_device *charl_test_open(int index, int64_t limit)
{
    charl_device *dev = NULL;
    char select[16];

    snprintf(select, sizeof select, "%d", index);
    charl_test_env_set("CHARL_DEVICE", NULL);
    charl_assert_ok(charl_device_open(&(charl_device_request){sizeof(charl_device_request), .select = select,
                                                              .local_size = 1, .share = true, .memory_limit = limit},
                                      &dev));
    return dev;
}

static inline int charl_test_device_count(void)
{
    int count = 0;

    if (charl_device_list(NULL, 0, &count) != CHARL_OK) {
        skip();
    }
    return count;
}

/* Opens each device, runs `check`, closes it, and expects nothing to be left alive. */
static inline void charl_test_each_device(void (*check)(charl_device *dev))
{
    const int count = charl_test_device_count();

    for (int i = 0; i < count; i++) {
        const long live = charl_test_live();
        charl_device *dev = charl_test_open(i, 0);
        const int64_t kept = charl_device_get_memory(dev).in_use;

        check(dev);
        assert_int_equal(charl_device_get_memory(dev).in_use, kept);
        charl_device_close(dev);
        assert_int_equal(charl_test_live(), live);
    }
}

#endif
