#ifndef CHARL_DEVICE_NVIDIA_PTX_H
#define CHARL_DEVICE_NVIDIA_PTX_H
/** Edits PTX, the assembly that NVIDIA's compiler emits for OpenCL C, for a target that the compiler does not offer, and for
 *  libcuda. Uses neither OpenCL nor libcuda. */
#include <stdint.h>

#include "base/text/text.h"

/** Incremented when the edits change: part of the cache key. */
enum { CHARL__PTX_VERSION = 2 };

/** Append `ptx` to `out` with these edits:
 *
 *      .target sm_90                  becomes sm_90a
 *      the first .shared array        is resized to shared_bytes (0: unchanged)
 *      the first kernel with .reqntid gets .minnctapersm min_blocks (0, or no such kernel: unchanged)
 *
 *  Errors: ERR_KERNEL if the text has another target or no such array; ERR_NOMEM. */
charl_status charl__ptx_retarget(const char *ptx, int64_t shared_bytes, int min_blocks,
                                 charl__text *out) CHARL_MUST_CHECK;

/** Append `ptx` to `out` in a form that libcuda accepts, replacing what OpenCL's driver provides to kernels:
 *
 *      %envreg0 to 5           offsets of groups and work-items: 0
 *      %envreg6 to 8           the number of groups: %nctaid
 *      %envreg9                dimensions: 3
 *      .shared array[N]        of more than 48 KB becomes the launch's dynamic memory
 *      pointers to local memory among a kernel's parameters become offsets from the dynamic memory
 *      kernels that do not await earlier launches themselves do so first, for sm_90 and later
 *
 *  Errors: ERR_KERNEL if it reads another such register; ERR_NOMEM. */
charl_status charl__ptx_for_cuda(const char *ptx, charl__text *out) CHARL_MUST_CHECK;

enum { CHARL__PTX_MAX_PARAMS = 160, CHARL__PTX_MAX_BYTES = 512, CHARL__PTX_LOCAL_POINTER = -1 };

/** Properties of a kernel that a launch needs. */
typedef struct charl__ptx_kernel {
    int params;
    short bytes[CHARL__PTX_MAX_PARAMS]; /* of each; CHARL__PTX_LOCAL_POINTER of pointers to local memory */
    int64_t dynamic_bytes;              /* of the array that charl__ptx_for_cuda has made dynamic; 0: none */
    bool awaits;                        /* earlier launches, itself, after charl__ptx_for_cuda */
} charl__ptx_kernel;

/** For the kernel `entry` of the text before charl__ptx_for_cuda. Errors: ERR_KERNEL. */
charl_status charl__ptx_kernel_find(const char *ptx, const char *entry, charl__ptx_kernel *out) CHARL_MUST_CHECK;

#endif
