/* Progress of compilation. Only time is counted: drivers do not report whether a kernel came from their cache. */
#include "base/clock.h"
#include "base/fault.h"
#include "device/device_private.h"

static void report(const charl_device *dev)
{
    if (dev->compiling) {
        dev->compiling(dev->compiling_ctx, &dev->progress);
    }
}

double charl__compiling_begin(charl_device *dev, const char *what)
{
    dev->progress.current = what;
    report(dev);
    return charl__clock_s();
}

void charl__compiling_end(charl_device *dev, double begun, bool counts)
{
    int64_t ms;

    dev->progress.current = NULL;
    dev->progress.done += counts;
    dev->progress.seconds += charl__fault_arg("device.compile", &ms) ? (double)ms / 1e3 : charl__clock_s() - begun;
    report(dev);
}
