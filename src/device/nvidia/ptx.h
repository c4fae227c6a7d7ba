#ifndef CHARL_DEVICE_NVIDIA_PTX_H
#define CHARL_DEVICE_NVIDIA_PTX_H
/** PTX, the assembly text that NVIDIA's compiler makes of OpenCL C, for a target that the compiler
 * itself does not offer. Knows nothing of OpenCL. */
#include <stdint.h>

#include "base/text.h"

/** Counts up when the same text is patched another way: part of the cache key. */
enum { CHARL__PTX_VERSION = 2 };

/** Append `ptx` to `out`, for target sm_90a instead of sm_90, with its first array in shared memory
 * `local_bytes` long (0: as it is), and its first kernel that tells the extent of its work-groups
 * assembled so that registers leave room for `groups` of them on a compute unit (0: as it is; a
 * text without such a kernel stays as it is too). Errors: ERR_KERNEL when the text has no such
 * target or no such array; ERR_NOMEM. */
charl_status charl__ptx_retarget(const char *ptx, int64_t local_bytes, int groups,
                                 charl__text *out) CHARL_MUST_CHECK;

#endif
