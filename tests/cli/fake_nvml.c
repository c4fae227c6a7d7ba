/* Stands in for libnvidia-ml.so.1: one GPU, at 0000:3b:00.0. $FAKE_SLOW: it is slowed down. */
#include <stdlib.h>
#include <string.h>

#pragma GCC visibility push(default) /* charl opens it: all functions are exported */

struct memory {
    unsigned version;
    unsigned long long total, reserved, free, used;
};

int nvmlInit_v2(void);
int nvmlDeviceGetHandleByPciBusId_v2(const char *pci, void **gpu);
int nvmlDeviceGetPowerUsage(void *gpu, unsigned *milliwatt);
int nvmlDeviceGetTotalEnergyConsumption(void *gpu, unsigned long long *millijoule);
int nvmlDeviceGetEnforcedPowerLimit(void *gpu, unsigned *milliwatt);
int nvmlDeviceGetTemperature(void *gpu, int sensor, unsigned *celsius);
int nvmlDeviceGetClockInfo(void *gpu, int which, unsigned *mhz);
int nvmlDeviceGetMaxClockInfo(void *gpu, int which, unsigned *mhz);
int nvmlDeviceGetCurrentClocksThrottleReasons(void *gpu, unsigned long long *reasons);
int nvmlDeviceGetNvLinkState(void *gpu, unsigned link, int *active);
int nvmlDeviceGetMemoryInfo_v2(void *gpu, struct memory *out);

static int gpu_0;

static int give(void *gpu, unsigned *out, unsigned value)
{
    *out = value;
    return gpu == &gpu_0 ? 0 : 2;
}

int nvmlInit_v2(void)
{
    return 0;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char *pci, void **gpu)
{
    *gpu = &gpu_0;
    return strcmp(pci, "0000:3b:00.0") == 0 ? 0 : 6;
}

int nvmlDeviceGetPowerUsage(void *gpu, unsigned *milliwatt)
{
    return give(gpu, milliwatt, 512345);
}

/* 3,600 J more at every reading but the first than at that. */
int nvmlDeviceGetTotalEnergyConsumption(void *gpu, unsigned long long *millijoule)
{
    static int readings;

    *millijoule = readings++ == 0 ? 5000000000000ULL : 5000003600000ULL;
    return gpu == &gpu_0 ? 0 : 2;
}

int nvmlDeviceGetEnforcedPowerLimit(void *gpu, unsigned *milliwatt)
{
    return give(gpu, milliwatt, 700000);
}

int nvmlDeviceGetTemperature(void *gpu, int sensor, unsigned *celsius)
{
    return sensor == 0 ? give(gpu, celsius, 61) : 2;
}

int nvmlDeviceGetClockInfo(void *gpu, int which, unsigned *mhz)
{
    return which == 1 ? give(gpu, mhz, 1755) : 2;
}

int nvmlDeviceGetMaxClockInfo(void *gpu, int which, unsigned *mhz)
{
    return which == 1 ? give(gpu, mhz, 1980) : 2;
}

int nvmlDeviceGetCurrentClocksThrottleReasons(void *gpu, unsigned long long *reasons)
{
    *reasons = getenv("FAKE_SLOW") ? 0x40 : 0x1; /* too hot, or idle */
    return gpu == &gpu_0 ? 0 : 2;
}

int nvmlDeviceGetNvLinkState(void *gpu, unsigned link, int *active)
{
    *active = link != 3;
    return gpu == &gpu_0 && link < 6 ? 0 : 2;
}

int nvmlDeviceGetMemoryInfo_v2(void *gpu, struct memory *out)
{
    if (gpu != &gpu_0 || out->version != 0x2000028) { /* 40 bytes, version 2 */
        return 2;
    }
    out->used = 3ULL << 30;
    return 0;
}
