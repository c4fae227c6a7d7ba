#ifndef CHARL_DEVICE_NVIDIA_PTX_H
#define CHARL_DEVICE_NVIDIA_PTX_H
/** Edits PTX, the assembly that NVIDIA's compiler emits for OpenCL C, for a target that the compiler itself does not offer. Uses no
 *  OpenCL. */
#include <stdint.h>

#include "base/text/text.h"

/** Incremented when the edits change: part of the cache key. */
enum { CHARL__PTX_VERSION = 2 };

/** Append `ptx` to `out` with these edits:
 *
 *      .target sm_90                  becomes sm_90a
 *      the first .shared array        is resized to shared_bytes (0: left as it is)
 *      the first kernel with .reqntid gets .minnctapersm min_blocks (0, or no such kernel: left as it is)
 *
 *  Errors: ERR_KERNEL when the text has another target or no such array; ERR_NOMEM. */
charl_status charl__ptx_retarget(const char *ptx, int64_t shared_bytes, int min_blocks,
                                 charl__text *out) CHARL_MUST_CHECK;

#endif
