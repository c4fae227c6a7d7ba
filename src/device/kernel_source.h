#ifndef CHARL_DEVICE_KERNEL_SOURCE_H
#define CHARL_DEVICE_KERNEL_SOURCE_H
/** The files of kernels/, embedded by cmake/embed_kernels.cmake. The table ends with a NULL name.
 */
typedef struct charl__kernel_source {
    const char *name; /* its path in kernels/: "elementwise/map.cl" */
    const char *text;
} charl__kernel_source;

extern const charl__kernel_source charl__kernel_sources[];
#endif
