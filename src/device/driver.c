/* Selects the driver of a device. */
#include "device/driver.h"

#include <string.h>

#include "base/env.h"
#include "device/device_private.h"

/* NULL, or the reason why the driver nvidia does not support this device. */
static const char *not_nvidia(const charl__found *f)
{
    if (f->capability == 0) {
        return "it is no GPU of NVIDIA's";
    }
    return f->info.pci[0] ? charl__cuda_hides(f->info.pci) : "the driver does not tell the GPU's PCI address";
}

static charl_status wanted_of(const charl_device_request *request, charl_driver *out)
{
    static const char *const names[] = {
        [CHARL_DRIVER_AUTO] = "auto", [CHARL_DRIVER_OPENCL] = "opencl", [CHARL_DRIVER_NVIDIA] = "nvidia"};
    const char *value = charl__env(CHARL_ENV_DRIVER);

    *out = request->driver;
    for (int i = 0; value && i < (int)(sizeof names / sizeof *names); i++) {
        if (strcmp(value, names[i]) == 0) {
            *out = (charl_driver)i;
            return CHARL_OK;
        }
    }
    CHARL_REQUIRE(!value, CHARL_ERR_CONFIG, "CHARL_DRIVER=%s: expected auto, opencl or nvidia", value);
    return CHARL_OK;
}

const charl__driver *charl__driver_auto(const charl__found *f)
{
    return not_nvidia(f) ? &charl__driver_opencl : &charl__driver_nvidia;
}

charl_status charl__driver_choose(const charl__found *f, const charl_device_request *request, const charl__driver **out)
{
    charl_driver wanted;

    CHARL_TRY(wanted_of(request, &wanted));
    CHARL_REQUIRE(wanted != CHARL_DRIVER_NVIDIA || !not_nvidia(f), CHARL_ERR_DEVICE,
                  "%s cannot be opened with the driver nvidia: %s; HINT choose the driver auto", f->info.name,
                  not_nvidia(f));
    *out = wanted == CHARL_DRIVER_OPENCL ? &charl__driver_opencl : charl__driver_auto(f);
    return CHARL_OK;
}
