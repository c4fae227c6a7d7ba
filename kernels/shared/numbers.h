#ifndef CHARL_KERNELS_SHARED_NUMBERS_H
#define CHARL_KERNELS_SHARED_NUMBERS_H
/* Types of the structs that kernels and their hosts share: headers *_args.h in kernels/, which both include. Members are such numbers,
 * those of 8 bytes first, then pairs, so that every compiler lays them out alike. */
#ifdef __OPENCL_C_VERSION__
typedef int int32_t;
typedef uint uint32_t;
typedef long int64_t;
typedef ulong uint64_t;
typedef int2 charl__pair;
#else
#include <stdint.h>
typedef struct charl__pair {
    int32_t x, y;
} charl__pair;
#endif

#endif
