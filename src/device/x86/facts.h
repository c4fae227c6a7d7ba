#ifndef CHARL_DEVICE_X86_FACTS_H
#define CHARL_DEVICE_X86_FACTS_H
/** Features of a device that kernels/x86 uses. */
#include <stdbool.h>

/** All false on other devices. */
typedef struct charl__x86_facts {
    /* bf16 matrix products on the matrix unit are correct (AMX-BF16, which OpenCL compilers accept as inline assembly). */
    bool amx;
} charl__x86_facts;

#endif
