/* Opening and closing: driver, budget. Objects created on a device retain it, so closing it
 * before them is harmless: the context is released with the last of them. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/env.h"
#include "base/log.h"
#include "base/options.h"
#include "device/device_private.h"

static int64_t capacity_of(const charl_device_info *info, int sharers, int64_t limit)
{
    int64_t bytes = info->global_bytes;

    if (info->kind == CHARL_DEVICE_CPU) {
        const int64_t available = charl__host_available();

        bytes = available < bytes ? available : bytes;
    }
    bytes /= sharers;
    return limit > 0 && limit < bytes ? limit : bytes;
}

static charl_status pick_device(const charl_device_request *request, charl__found *out, int *sharers)
{
    charl_status st = CHARL_OK;
    charl__found *all = NULL;
    charl_device_info *info = NULL;
    charl_device_request r = *request;
    charl__pick pick = {0, 1};
    int count = 0;

    if (charl__env(CHARL_ENV_DEVICE) && !r.exact) {
        r.select = charl__env(CHARL_ENV_DEVICE);
    }
    CHARL_TRY_CLEANUP(charl__alloc_array(CHARL__MAX_DEVICES, sizeof *all, &all));
    CHARL_TRY_CLEANUP(charl__alloc_array(CHARL__MAX_DEVICES, sizeof *info, &info));
    CHARL_TRY_CLEANUP(charl__devices_find(all, &count));
    for (int i = 0; i < count; i++) {
        info[i] = all[i].info;
    }
    st = charl__device_select(info, count, &r, &pick);
    if (st != CHARL_OK && r.select != request->select) {
        charl__error_prefix("%s is set: ", charl__env_name(CHARL_ENV_DEVICE));
    }
    if (st == CHARL_ERR_DEVICE && charl__devices_hint()[0]) {
        CHARL_FAIL_CLEANUP(st, "%s%s", charl_error_message(), charl__devices_hint());
    }
    CHARL_TRY_CLEANUP(st);
    *out = all[pick.index];
    *sharers = pick.sharers;
cleanup:
    charl_free(info);
    charl_free(all);
    return st;
}

charl_status charl_device_open(const charl_device_request *request, charl_device **out)
{
    CHARL_GIVEN(request, out);
    CHARL__OPTIONS(charl_device_request, request);
    charl_status st = CHARL_OK;
    charl__found found = {0};
    charl_device *dev = NULL;
    int sharers = 1;

    *out = NULL;
    CHARL_REQUIRE_CLEANUP(request->memory_limit >= 0, CHARL_ERR_INVALID,
                          "memory_limit is %lld; it is a number of bytes, or 0 for none",
                          (long long)request->memory_limit);
    CHARL_TRY_CLEANUP(pick_device(request, &found, &sharers));
    CHARL_TRY_CLEANUP(charl__alloc(sizeof *dev, &dev));
    dev->refs = 1;
    charl__owner_init(&dev->owner);
    for (int i = 0; i < CHARL__SPARE_EVENTS; i++) {
        dev->event[i] = (charl__event){.dev = dev, .next = dev->spare};
        dev->spare = &dev->event[i];
    }
    CHARL_TRY_CLEANUP(charl__driver_choose(&found, request, &dev->driver));
    dev->info = found.info;
    dev->found = found;
    snprintf(dev->info.backend, sizeof dev->info.backend, "%s", dev->driver->name);
    dev->sync = charl__env_is_on(CHARL_ENV_SYNC);
    dev->compiling = request->compiling;
    dev->compiling_ctx = request->compiling_ctx;
    dev->memory.capacity = capacity_of(&dev->info, sharers, request->memory_limit);
    dev->local_size = request->local_size > 0 ? request->local_size : 1;
    charl__cache_know_pocl(dev);
    CHARL_TRY_CLEANUP(charl__cache_open(&dev->cache_dir));
    if (charl__env_is_on(CHARL_ENV_PROFILE)) {
        CHARL_TRY_CLEANUP(charl__timing_create(&dev->timing));
    }
    if (request->traced) {
        CHARL_TRY_CLEANUP(charl__tracing_create(&dev->tracing));
    }
    CHARL_TRY_CLEANUP(charl__tuning_db_open(dev, request->tune));
    CHARL_TRY_CLEANUP(dev->driver->open(dev, dev->timing || dev->tracing));
    dev->is_open = true;
    CHARL_TRY_CLEANUP(charl__device_probe(dev, request->allow_tf32, request->exact_half));
    CHARL_REQUIRE_CLEANUP(
        !request->offload || dev->driver->reaches_host(dev) || request->planned_bytes > 0, CHARL_ERR_DEVICE,
        "device.offload: %s does not access host memory through the driver %s; HINT NVIDIA's GPUs with device.driver = "
        "nvidia do, and CPUs; device.offload = none",
        dev->info.name, dev->driver->name);
    dev->offloads = request->offload;
    dev->skip_kernels = request->skip_kernels;
    if (request->skip_kernels && request->planned_bytes > 0) {
        dev->plans = true;
        dev->memory.capacity = dev->info.max_alloc_bytes = request->planned_bytes;
    }
    if (request->allow_tf32 && !dev->facts.nvidia.tf32) { /* logged once per node */
        charl__log(request->local_rank == 0 ? CHARL_LOG_WARN : CHARL_LOG_INFO,
                   "%s has no tensor cores for tf32: f32 is multiplied as f32", dev->info.name);
    }
    charl__log(CHARL_LOG_DEBUG, "%s (%s, driver %s, by %s): %lld MiB, shared by %d", dev->info.name, dev->info.platform,
               dev->info.driver, dev->info.backend, (long long)(dev->memory.capacity >> 20), sharers);
    *out = dev;
    dev = NULL;
cleanup:
    charl_device_close(dev);
    return st;
}

charl_status charl__device_open_compiler(int index, const char *name, charl_driver driver, charl_device **out)
{
    charl_status st = CHARL_OK;
    charl__found *all = NULL;
    charl_device *dev = NULL;
    int count = 0;

    CHARL_TRY_CLEANUP(charl__alloc_array(CHARL__MAX_DEVICES, sizeof *all, &all));
    CHARL_TRY_CLEANUP(charl__devices_find(all, &count));
    CHARL_REQUIRE_CLEANUP(index < count && strcmp(all[index].info.name, name) == 0, CHARL_ERR_DEVICE,
                          "device %d is not %s", index, name);
    CHARL_TRY_CLEANUP(charl__alloc(sizeof *dev, &dev));
    dev->refs = 1;
    dev->found = all[index];
    dev->info = dev->found.info;
    CHARL_TRY_CLEANUP(charl__driver_choose(
        &dev->found, &(charl_device_request){sizeof(charl_device_request), .driver = driver}, &dev->driver));
    charl__cache_know_pocl(dev);
    CHARL_TRY_CLEANUP(charl__cache_open(&dev->cache_dir));
    CHARL_TRY_CLEANUP(dev->driver->open(dev, false));
    dev->is_open = true;
    *out = dev;
    dev = NULL;
cleanup:
    charl_device_close(dev);
    charl_free(all);
    return st;
}

charl_status charl__device_enter(charl_device *dev)
{
    return dev ? charl__owner_check(&dev->owner, "device") : CHARL_OK;
}

void charl_device_adopt(charl_device *dev)
{
    if (dev) {
        charl__owner_acquire(&dev->owner);
    }
}

charl_device *charl__device_retain(charl_device *dev)
{
    dev->refs++;
    return dev;
}

void charl__device_release(charl_device *dev)
{
    if (!dev || --dev->refs > 0) {
        return;
    }
    if (charl__workspace_release_one(dev)) {
        return; /* the device itself was the last to hold it */
    }
    (void)charl__compilers_end(dev);
    for (int q = 0; dev->is_open && q < CHARL_QUEUE_COUNT; q++) {
        dev->driver->finish(dev, (charl__queue)q);
    }
    charl__timing_destroy(dev->timing);
    charl__tracing_destroy(dev, dev->tracing);
    charl__programs_release(dev);
    if (dev->driver) {
        dev->driver->close(dev);
    }
    charl__tuning_db_close(dev->tuning_db);
    charl_free(dev->cache_dir);
    charl_free(dev);
}

void charl_device_close(charl_device *dev)
{
    charl__device_release(dev);
}

const char *charl_device_kind_name(charl_device_kind kind)
{
    static const char *const names[] = {"cpu", "accelerator", "integrated gpu", "gpu"};

    return (unsigned)kind < CHARL_DEVICE_KIND_COUNT ? names[kind] : "?";
}

const charl_device_info *charl_device_get_info(const charl_device *dev)
{
    return dev ? &dev->info : NULL;
}

bool charl__device_has_nvidia_cores(const charl_device *dev, charl_dtype dtype)
{
    const charl__nvidia_facts *f = &dev->facts.nvidia;

    return dtype == CHARL_BF16 || dtype == CHARL_F16 ? (f->wgmma || f->mma) && !dev->facts.exact_half
                                                     : dtype == CHARL_F32 && f->tf32;
}

bool charl__device_has_fast_half(const charl_device *dev)
{
    return dev->facts.nvidia.ptx && !dev->facts.exact_half;
}

bool charl_device_has_tensor_cores(const charl_device *dev, charl_dtype dtype)
{
    return dev && (charl__device_has_nvidia_cores(dev, dtype) || (dtype == CHARL_BF16 && dev->facts.x86.amx));
}

charl_device_memory charl_device_get_memory(const charl_device *dev)
{
    return dev ? dev->memory : (charl_device_memory){0};
}

bool charl__device_skips_kernels(const charl_device *dev)
{
    return dev->skip_kernels;
}

const charl__device_facts *charl__device_facts_get(const charl_device *dev)
{
    return &dev->facts;
}

charl__device_facts charl__device_set_facts(charl_device *dev, charl__device_facts facts)
{
    const charl__device_facts before = dev->facts;

    dev->facts = facts;
    return before;
}

charl__device_counters charl__device_counters_get(const charl_device *dev)
{
    return dev->counters;
}

void charl__device_waited(charl_device *dev, double begin)
{
    dev->counters.waited_s += charl__clock_s() - begin;
}

charl_status charl__queue_finish(charl_device *dev, charl__queue q, const char *what)
{
    const double begin = charl__clock_s();
    const int err = dev->driver->finish(dev, q);

    dev->counters.host_waits++;
    charl__device_waited(dev, begin);
    CHARL_TRY(charl__device_check(dev, what, err));
    if (q == CHARL_QUEUE_COMPUTE) {
        charl__commands_completed(dev);
    }
    return CHARL_OK;
}

charl_status charl_device_sync(charl_device *dev)
{
    CHARL_GIVEN(dev);
    CHARL_TRY(charl__device_enter(dev));
    for (int q = 0; q < CHARL_QUEUE_COUNT; q++) { /* one may wait for another */
        CHARL_TRY(charl__device_check(dev, "flushing a queue", dev->driver->flush(dev, (charl__queue)q)));
    }
    for (int q = 0; q < CHARL_QUEUE_COUNT; q++) {
        CHARL_TRY(charl__queue_finish(dev, (charl__queue)q, "waiting for the device"));
    }
    return CHARL_OK;
}
