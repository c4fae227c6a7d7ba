/* State of NVIDIA's GPUs: power, energy, temperature, clocks, NVLink, memory, from NVML.
 *
 * libnvidia-ml.so.1 is part of the driver. It is loaded on first use, so charl builds and runs without it and its headers. Declares the
 * part of its stable binary interface that charl uses. It is never unloaded. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

#include "base/fault.h"
#include "device/device_private.h"

enum { TEMPERATURE_GPU = 0, CLOCK_SM = 1, MOST_LINKS = 18 };

/* Reasons for a reduced clock: too hot, or too little power. */
static const unsigned long long slowed =
    0x08 | 0x20 | 0x40 | 0x80; /* hardware slowdown, software thermal, hardware thermal, power brake */

/* nvmlMemory_v2_t: `used` excludes memory reserved by the driver. */
typedef struct memory_info {
    unsigned version; /* of this struct: its size and 2 in the upper byte */
    unsigned long long total, reserved, free, used;
} memory_info;

/* result, name, parameters */
#define FUNCTIONS(X)                                                                                                   \
    X(nvmlInit_v2, (void))                                                                                             \
    X(nvmlDeviceGetHandleByPciBusId_v2, (const char *, void **))                                                       \
    X(nvmlDeviceGetPowerUsage, (void *, unsigned *))                                                                   \
    X(nvmlDeviceGetTotalEnergyConsumption, (void *, unsigned long long *))                                             \
    X(nvmlDeviceGetEnforcedPowerLimit, (void *, unsigned *))                                                           \
    X(nvmlDeviceGetTemperature, (void *, int, unsigned *))                                                             \
    X(nvmlDeviceGetClockInfo, (void *, int, unsigned *))                                                               \
    X(nvmlDeviceGetMaxClockInfo, (void *, int, unsigned *))                                                            \
    X(nvmlDeviceGetCurrentClocksThrottleReasons, (void *, unsigned long long *))                                       \
    X(nvmlDeviceGetNvLinkState, (void *, unsigned, int *))                                                             \
    X(nvmlDeviceGetMemoryInfo_v2, (void *, memory_info *))

static struct {
#define X(name, parameters) int(*name) parameters;
    FUNCTIONS(X)
#undef X
    bool works;
} nvml;

/* Functions that an old driver lacks stay NULL. */
static void load(void)
{
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);

    if (library) {
#define X(name, parameters) *(void **)&nvml.name = dlsym(library, #name);
        FUNCTIONS(X)
#undef X
        nvml.works = nvml.nvmlInit_v2 && nvml.nvmlDeviceGetHandleByPciBusId_v2 && nvml.nvmlInit_v2() == 0;
    }
}

static double number(int (*get)(void *, unsigned *), void *gpu, double unit)
{
    unsigned v = 0;

    return get && get(gpu, &v) == 0 ? (double)v * unit : 0;
}

static double clock_of(int (*get)(void *, int, unsigned *), void *gpu, int which)
{
    unsigned v = 0;

    return get && get(gpu, which, &v) == 0 ? (double)v : 0;
}

static int links_of(void *gpu)
{
    int links = 0;

    for (unsigned i = 0; nvml.nvmlDeviceGetNvLinkState && i < MOST_LINKS; i++) {
        int active = 0;

        links += nvml.nvmlDeviceGetNvLinkState(gpu, i, &active) == 0 && active;
    }
    return links;
}

static int64_t memory_of(void *gpu)
{
    memory_info m = {.version = (unsigned)sizeof m | 2U << 24};

    return nvml.nvmlDeviceGetMemoryInfo_v2 && nvml.nvmlDeviceGetMemoryInfo_v2(gpu, &m) == 0 ? (int64_t)m.used : 0;
}

/* NVML's handle of the device, or NULL. */
static void *find_gpu(const charl_device_info *device)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    const char *pci = charl__fault("device.health") ? "0000:3b:00.0" : device->pci;
    void *gpu = NULL;

    if (!pci[0]) {
        return NULL;
    }
    pthread_once(&once, load);
    return nvml.works && nvml.nvmlDeviceGetHandleByPciBusId_v2(pci, &gpu) == 0 ? gpu : NULL;
}

bool charl__nvidia_energy(const charl_device_info *device, double *joules)
{
    void *gpu = find_gpu(device);
    unsigned long long mj = 0;

    if (!gpu || !nvml.nvmlDeviceGetTotalEnergyConsumption || nvml.nvmlDeviceGetTotalEnergyConsumption(gpu, &mj) != 0) {
        return false;
    }
    *joules = (double)mj * 1e-3;
    return true;
}

bool charl_device_get_health(const charl_device_info *device, charl_device_health *out)
{
    unsigned long long reasons = 0;
    void *gpu = device && out ? find_gpu(device) : NULL;

    if (out) {
        *out = (charl_device_health){0};
    }
    if (!gpu) {
        return false;
    }
    out->power_w = number(nvml.nvmlDeviceGetPowerUsage, gpu, 1e-3);
    out->power_limit_w = number(nvml.nvmlDeviceGetEnforcedPowerLimit, gpu, 1e-3);
    out->temperature_c = clock_of(nvml.nvmlDeviceGetTemperature, gpu, TEMPERATURE_GPU);
    out->clock_mhz = clock_of(nvml.nvmlDeviceGetClockInfo, gpu, CLOCK_SM);
    out->max_clock_mhz = clock_of(nvml.nvmlDeviceGetMaxClockInfo, gpu, CLOCK_SM);
    out->is_slowed = nvml.nvmlDeviceGetCurrentClocksThrottleReasons &&
                     nvml.nvmlDeviceGetCurrentClocksThrottleReasons(gpu, &reasons) == 0 && (reasons & slowed) != 0;
    out->nvlinks = links_of(gpu);
    out->memory_bytes = memory_of(gpu);
    return true;
}
