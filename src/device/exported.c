/* Memory that several processes map into their devices: export and import.
 *
 * On NVIDIA GPUs a block comes from CUDA; OpenCL imports it by its extension for external
 * memory. On CPU devices it is an anonymous file, mapped and wrapped: slow, but it runs
 * the same protocol, so that the protocol can be tested there.
 */
#define _GNU_SOURCE /* memfd_create */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "device/device_private.h"

struct charl__device_export {
    charl_device *dev; /* retained */
    size_t bytes;
    int64_t counted;
    charl_device_use *use;
    int fd;
    charl__cuda_block cuda;
};

charl__shared_kind charl__export_kind(const charl_device *dev, const char **why)
{
    *why = NULL;
    if (dev->facts.zero_copy) {
        return CHARL_SHARED_HOST;
    }
    if (!dev->facts.nvidia.ptx) {
        *why = "it is for NVIDIA GPUs of compute capability 8.0 and higher, and not with CHARL_NO_PTX=1";
    } else if (dev->info.pci[0] == '\0') {
        *why = "the driver does not tell the GPU's PCI address";
    } else {
        *why = dev->driver->cannot_import(dev);
        *why = *why ? *why : charl__cuda_missing();
    }
    return *why ? CHARL_SHARED_NONE : CHARL_SHARED_CUDA;
}

const char *charl__export_unreachable(const charl_device *dev, const char *pci)
{
    return dev->facts.zero_copy ? NULL : charl__cuda_unreachable(dev->info.pci, pci);
}

static charl_status host_export(size_t bytes, int *fd)
{
    *fd = memfd_create("charl", MFD_CLOEXEC);
    CHARL_REQUIRE(*fd >= 0 && ftruncate(*fd, (off_t)bytes) == 0, CHARL_ERR_NOMEM, "no shared memory of %zu bytes: %s",
                  bytes, strerror(errno));
    return CHARL_OK;
}

charl_status charl__export_create(charl_device *dev, size_t bytes, const char *what, charl__device_export **out)
{
    charl_status st = CHARL_OK;
    const char *why = NULL;
    const charl__shared_kind kind = charl__export_kind(dev, &why);
    charl__device_export *e = NULL;

    *out = NULL;
    CHARL_REQUIRE_CLEANUP(kind != CHARL_SHARED_NONE, CHARL_ERR_DEVICE, "%s: memory of %s cannot be exported: %s", what,
                          dev->info.name, why);
    CHARL_TRY_CLEANUP(charl__budget_check(dev, bytes, what));
    CHARL_TRY_CLEANUP(charl__alloc(sizeof *e, &e));
    e->dev = charl__device_retain(dev);
    e->bytes = bytes;
    e->fd = -1;
    CHARL_TRY_CLEANUP(charl__acquire("descriptor"));
    st = kind == CHARL_SHARED_HOST ? host_export(bytes, &e->fd)
                                   : charl__cuda_export(dev->info.pci, bytes, &e->cuda, &e->fd);
    if (st != CHARL_OK && e->fd < 0) {
        charl__drop();
    }
    CHARL_TRY_CLEANUP(st);
    e->counted = (int64_t)bytes;
    e->use = charl__budget_add(dev, what, e->counted);
    *out = e;
    e = NULL;
cleanup:
    charl__export_destroy(e);
    return st;
}

int charl__export_fd(const charl__device_export *e)
{
    return e->fd;
}

void charl__export_destroy(charl__device_export *e)
{
    if (e) {
        if (e->fd >= 0) {
            close(e->fd);
            charl__drop();
        }
        charl__cuda_release(&e->cuda);
        charl__budget_drop(e->dev, e->use, e->counted);
        charl__device_release(e->dev);
        charl_free(e);
    }
}

static charl_status import_host(charl_device *dev, int fd, size_t bytes, charl__buffer **out)
{
    charl_status st = CHARL_OK;
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    CHARL_REQUIRE(at != MAP_FAILED, CHARL_ERR_NOMEM, "shared memory of %zu bytes cannot be mapped: %s", bytes,
                  strerror(errno));
    st = charl__buffer_wrap(dev, at, bytes, out);
    if (st != CHARL_OK) {
        munmap(at, bytes);
    }
    CHARL_TRY(st);
    (*out)->mapping = at;
    return st;
}

/* The driver takes the descriptor that it imports, unless it fails. */
static charl_status import_cuda(charl_device *dev, int fd, size_t bytes, charl__buffer **out)
{
    const int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    charl__driver_memory *mem = NULL;
    int err;

    CHARL_REQUIRE(own >= 0, CHARL_ERR_DEVICE, "a descriptor cannot be imported: %s", strerror(errno));
    err = dev->driver->memory_import(dev, own, bytes, &mem);
    if (err != 0) {
        const charl__driver_error e = dev->driver->error(err);

        close(own);
        CHARL_FAIL(e.status, "importing memory of %zu bytes: %s", bytes, e.text);
    }
    CHARL_TRY(charl__buffer_adopt(dev, mem, bytes, out));
    return CHARL_OK;
}

charl_status charl__buffer_import(charl_device *dev, int fd, size_t bytes, charl__buffer **out)
{
    *out = NULL;
    return dev->facts.zero_copy ? import_host(dev, fd, bytes, out) : import_cuda(dev, fd, bytes, out);
}
