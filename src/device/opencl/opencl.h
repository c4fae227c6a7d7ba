#ifndef CHARL_DEVICE_OPENCL_OPENCL_H
#define CHARL_DEVICE_OPENCL_OPENCL_H
/** Internals of the OpenCL driver, and the compiler for all drivers. The only file that includes OpenCL's header. */
#include <CL/cl.h>

#include "device/device_private.h"

/* error.c */
/** From NVIDIA's driver: a command accessed memory out of bounds. */
enum { CHARL__NVIDIA_FAULT = -9999 };
charl__driver_error charl__opencl_error(int err);

/* context.c */
struct charl__opencl_context;

struct charl__opencl {
    cl_device_id id;
    struct charl__opencl_context *shared;
    cl_context context; /* of it */
    cl_command_queue queue[CHARL_QUEUE_COUNT];
};

/** The context of dev, created or shared with others of this process; needs charl__opencl_context_put. Threads may call it. */
charl_status charl__opencl_context_get(charl_device *dev, struct charl__opencl_context **out) CHARL_MUST_CHECK;
cl_context charl__opencl_context_of(const struct charl__opencl_context *c);
void charl__opencl_context_put(struct charl__opencl_context *c);
/** The program with this key that was built in c, which the caller releases; or NULL. */
cl_program charl__opencl_program_find(struct charl__opencl_context *c, const char *key);
/** Keep a built program as long as c. */
charl_status charl__opencl_program_keep(struct charl__opencl_context *c, const char *key,
                                        cl_program program) CHARL_MUST_CHECK;

/** The context, created on first use. */
charl_status charl__opencl_context(charl_device *dev) CHARL_MUST_CHECK;

/* compile.c */
/** Compile source with `options`, unless a device that shares dev's context has; *out needs charl__opencl_program_release. Errors: ERR_KERNEL
 *  with the build log; ERR_DEVICE. */
charl_status charl__opencl_build(charl_device *dev, const char *file, const char *const source[3], const char *options,
                                 const char *key, cl_program *out) CHARL_MUST_CHECK;
/** Its binary, followed by a NUL, owned by the caller; NULL if it has none, as with some drivers after a failed build. */
charl_status charl__opencl_binary(cl_program program, unsigned char **out, size_t *bytes) CHARL_MUST_CHECK;
/** ERR_KERNEL with the build log, or the status of `err`. */
charl_status charl__opencl_build_failed(charl_device *dev, cl_program program, const char *file,
                                        int err) CHARL_MUST_CHECK;
charl_status charl__opencl_load(charl_device *dev, const unsigned char *data, size_t bytes, const char *options,
                                cl_program *out) CHARL_MUST_CHECK;
void charl__opencl_program_release(cl_program program); /* NULL is a no-op */

#endif
