#ifndef CHARL_DEVICE_DRIVER_H
#define CHARL_DEVICE_DRIVER_H
/** A driver: the functions by which the rest of src/device accesses a device. Only they depend on the driver.
 *
 *  Functions that return int give 0 or a code of the driver, which `error` explains. Nothing blocks unless it says so. Queues are in-order.
 *  Kernels are compiled by OpenCL for every driver.
 */
#include "device/device.h"

/* Objects of a driver, which casts them to its own. */
typedef struct charl__driver_memory charl__driver_memory; /* of the device, or of the host if the device uses it */
typedef struct charl__driver_event charl__driver_event;
typedef struct charl__driver_program charl__driver_program;
typedef struct charl__driver_kernel charl__driver_kernel;
typedef struct charl__driver_graph charl__driver_graph; /* launches that are enqueued by one call */

typedef enum charl__fault {
    CHARL__NO_FAULT,
    CHARL__OWN_OR_FAULT, /* of this command, or as FAULT */
    CHARL__FAULT         /* of an earlier command: the device no longer computes anything */
} charl__fault_kind;

typedef struct charl__driver_error {
    const char *text; /* static, or valid until the thread's next */
    charl_status status;
    charl__fault_kind fault;
} charl__driver_error;

typedef struct charl__driver {
    const char *name;
    charl__driver_error (*error)(int err);

    /** Context and queues; is_timed: the events of all queues have times, else only those of CHARL_QUEUE_CLOCK. Close after a failed open too. */
    charl_status (*open)(charl_device *dev, bool is_timed);
    void (*close)(charl_device *dev);
    /** Start the enqueued commands without waiting for them. */
    int (*flush)(charl_device *dev, charl__queue q);
    /** Blocks until q is idle. */
    int (*finish)(charl_device *dev, charl__queue q);

    /** Memory of the device, not initialized; over page-aligned host memory unless `host` is NULL. */
    int (*memory_create)(charl_device *dev, void *host, size_t bytes, charl__driver_memory **out);
    /** Commands in flight may still use it, unless it is over host memory of the caller. */
    void (*memory_release)(charl_device *dev, charl__driver_memory *m);
    /** Pinned host memory, mapped at *mapped: new, or that at `host`. */
    int (*pinned_create)(charl_device *dev, void *host, size_t bytes, charl__driver_memory **out, void **mapped);
    void (*pinned_release)(charl_device *dev, charl__driver_memory *m, void *mapped);
    /** Whether launches use host memory in place that memory_create is given. */
    bool (*reaches_host)(const charl_device *dev);
    /** NULL, or the reason why memory cannot be imported. Static. */
    const char *(*cannot_import)(const charl_device *dev);
    /** Takes ownership of the descriptor, unless it fails. */
    int (*memory_import)(charl_device *dev, int fd, size_t bytes, charl__driver_memory **out);

    /* Commands. `event` NULL: none is requested. */
    int (*fill)(charl_device *dev, charl__queue q, charl__driver_memory *m, size_t bytes, unsigned char value);
    int (*write)(charl_device *dev, charl__queue q, charl__driver_memory *m, size_t offset, const void *src,
                 size_t bytes, bool wait, charl__driver_event **event);
    int (*read)(charl_device *dev, charl__queue q, charl__driver_memory *m, size_t offset, void *dst, size_t bytes,
                bool wait, charl__driver_event **event);
    /** Blocks. */
    int (*map)(charl_device *dev, charl__queue q, charl__driver_memory *m, size_t offset, size_t bytes, void **out);
    int (*unmap)(charl_device *dev, charl__queue q, charl__driver_memory *m, void *ptr);
    /** After all earlier commands of q. */
    int (*mark)(charl_device *dev, charl__queue q, charl__driver_event **event);
    /** Later commands of q start after e. */
    int (*after)(charl_device *dev, charl__queue q, charl__driver_event *e);

    /* Events are counted. */
    int (*event_is_done)(charl_device *dev, charl__driver_event *e, bool *done);
    int (*event_wait)(charl_device *dev, charl__driver_event *e); /* blocks */
    /** Nanoseconds on a clock of the device when a completed command began and ended, where it is timed. */
    int (*event_times)(charl_device *dev, charl__driver_event *e, int64_t *begin, int64_t *end);
    void (*event_retain)(charl__driver_event *e);
    void (*event_release)(charl_device *dev, charl__driver_event *e);

    /** A program from source, concatenated, compiled with `options`; `key` identifies all of these, or is NULL.
     *  ERR_KERNEL with the build log. */
    charl_status (*program_build)(charl_device *dev, const char *file, const char *const source[3], const char *options,
                                  const char *key, charl__driver_program **out);
    /** A program from the output of program_binary; NULL if the driver rejects it. */
    charl_status (*program_load)(charl_device *dev, const unsigned char *data, size_t bytes, const char *options,
                                 charl__driver_program **out);
    /** Owned by the caller; NULL if there is none. */
    charl_status (*program_binary)(charl_device *dev, charl__driver_program *p, unsigned char **data, size_t *bytes);
    void (*program_release)(charl_device *dev, charl__driver_program *p);

    /** *args: its number of arguments. */
    int (*kernel_create)(charl_device *dev, charl__driver_program *p, const char *entry, charl__driver_kernel **out,
                         int *args);
    void (*kernel_release)(charl_device *dev, charl__driver_kernel *k);
    /** Argument `at`: memory, which may be NULL; `bytes` of local memory if value is NULL; else a number. ERR_INVALID for a wrong
     *  size. */
    int (*set_memory)(charl_device *dev, charl__driver_kernel *k, int at, charl__driver_memory *m);
    int (*set)(charl_device *dev, charl__driver_kernel *k, int at, size_t bytes, const void *value);
    /** `after` NULL: none. */
    int (*launch)(charl_device *dev, charl__queue q, charl__driver_kernel *k, const size_t global[3],
                  const size_t local[3], charl__driver_event *after, charl__driver_event **event);
    /** From capture to graph_create, launches on q are not run: they become the graph. NULL: the driver has no graphs. */
    int (*capture)(charl_device *dev, charl__queue q);
    int (*graph_create)(charl_device *dev, charl__queue q, charl__driver_graph **out);
    int (*graph_launch)(charl_device *dev, charl__queue q, charl__driver_graph *g);
    void (*graph_release)(charl_device *dev, charl__driver_graph *g);
    /** Maximum number of work-items of a group, if err is that they were too many; else 0. */
    size_t (*group_limit)(charl_device *dev, charl__driver_kernel *k, int err);
} charl__driver;

struct charl__found;
/** The fastest driver that supports a device: its default. */
const charl__driver *charl__driver_auto(const struct charl__found *f);
/** The driver of a device: from CHARL_DRIVER or the request, else the fastest. Only this function decides. Errors:
 *  ERR_DEVICE  the requested driver does not support it   ERR_CONFIG. */
charl_status charl__driver_choose(const struct charl__found *f, const charl_device_request *request,
                                  const charl__driver **out) CHARL_MUST_CHECK;

extern const charl__driver charl__driver_opencl; /* every device */
extern const charl__driver charl__driver_nvidia; /* NVIDIA's GPUs, through libcuda */

#endif
