#ifndef CHARL_DEVICE_X86_FACTS_H
#define CHARL_DEVICE_X86_FACTS_H
/** What kernels/x86 can use of a device. */
#include <stdbool.h>

/** All false on other devices. */
typedef struct charl__x86_facts {
    /* Matrix products of bf16 on the matrix unit are right (AMX-BF16, which OpenCL compilers take as inline assembly). */
    bool amx;
} charl__x86_facts;

#endif
