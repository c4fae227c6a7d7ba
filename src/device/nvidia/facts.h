#ifndef CHARL_DEVICE_NVIDIA_FACTS_H
#define CHARL_DEVICE_NVIDIA_FACTS_H
/** Features of a device that kernels/nvidia uses, and how its programs are built. */
#include <stdbool.h>
#include <stdint.h>

/** All false on other devices. */
typedef struct charl__nvidia_facts {
    bool ptx; /* inline PTX of compute capability 8.0 works: CHARL_PTX is defined in kernels */
    /* Half-precision matrix products on the tensor cores of compute capability 9.0 are correct, in programs for sm_90a ... */
    bool wgmma;
    bool tensor_maps; /* with wgmma: kernels can make descriptors for the copy engine, an instruction of PTX 8.3 */
    bool mma;         /* ... or else on those of compute capability 8.0 and higher */
    bool tf32;        /* f32 may be multiplied there too, rounded to tf32 */
} charl__nvidia_facts;

/** How a program is built for NVIDIA's target sm_90a; only with wgmma. All 0: an ordinary program. */
typedef struct charl__sm90a {
    int64_t
        /* size of the first array that the kernel declares in local memory: the device has 227 KB, but the compiler accepts 48. 0: as
         * declared */
        shared_bytes;
    /* minimum work-groups per compute unit, which limits registers; 0: as the compiler chooses */
    int min_blocks;
} charl__sm90a;

#endif
