/* Pages of 2 MiB for the memory of devices that compute in the host's own.
 *
 * Activations of a step lie far apart; with pages of 4 KiB much of the time of streaming through
 * them goes into looking the pages up, in a virtual machine more so.
 */
#define _DEFAULT_SOURCE /* madvise */
#include "device/cl_private.h"

#include <stdint.h>
#include <sys/mman.h>

enum { LARGE_PAGE = 2 << 20 };

void charl__large_pages(charl_device *dev, cl_mem mem, size_t bytes)
{
#ifdef MADV_HUGEPAGE
    const cl_command_queue queue = dev->queue[CHARL_QUEUE_COMPUTE];
    cl_int err = CL_SUCCESS;
    void *at = NULL;

    if (!dev->facts.zero_copy || bytes < LARGE_PAGE) {
        return;
    }
    at = clEnqueueMapBuffer(queue, mem, CL_TRUE, CL_MAP_READ, 0, bytes, 0, NULL, NULL, &err);
    if (err == CL_SUCCESS) {
        const uintptr_t begin = (uintptr_t)at, skipped = -begin % LARGE_PAGE;

        (void)madvise((char *)at + skipped, (bytes - skipped) / LARGE_PAGE * LARGE_PAGE, MADV_HUGEPAGE);
        clEnqueueUnmapMemObject(queue, mem, at, 0, NULL, NULL);
    }
#else
    (void)dev, (void)mem, (void)bytes;
#endif
}
