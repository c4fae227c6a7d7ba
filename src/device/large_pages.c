/* Pages of 2 MiB for the memory of devices that compute in host memory.
 *
 * Activations of a step are far apart; with pages of 4 KiB much of the time of streaming through
 * them is spent on page table lookups, even more so in a virtual machine.
 */
#define _DEFAULT_SOURCE /* madvise */
#include "device/device_private.h"

#include <stdint.h>
#include <sys/mman.h>

enum { LARGE_PAGE = 2 << 20 };

void charl__large_pages(charl_device *dev, charl__driver_memory *mem, size_t bytes)
{
#ifdef MADV_HUGEPAGE
    void *at = NULL;

    if (!dev->facts.zero_copy || bytes < LARGE_PAGE) {
        return;
    }
    if (dev->driver->map(dev, CHARL_QUEUE_COMPUTE, mem, 0, bytes, &at) == 0) {
        const uintptr_t begin = (uintptr_t)at, skipped = -begin % LARGE_PAGE;

        (void)madvise((char *)at + skipped, (bytes - skipped) / LARGE_PAGE * LARGE_PAGE, MADV_HUGEPAGE);
        (void)dev->driver->unmap(dev, CHARL_QUEUE_COMPUTE, mem, at);
    }
#else
    (void)dev, (void)mem, (void)bytes;
#endif
}
