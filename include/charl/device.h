#ifndef CHARL_DEVICE_H
#define CHARL_DEVICE_H
/** One OpenCL device: discovery, selection, memory accounting.
 *
 *      // the only process here; .select would choose a device
 *      charl_device_request request = {.struct_size = sizeof request, .local_size = 1};
 *      charl_device *dev = NULL;
 *
 *      check(charl_device_open(&request, &dev));
 *      printf("%s\n", charl_device_get_info(dev)->name);
 *      charl_device_close(dev);
 *
 *  One rank = one process = one device. A device and everything made on it belong to one thread, the first that uses
 *  them after charl_device_open; another gets ERR_INVALID, unless it calls charl_device_adopt. So does a process that
 *  was forked when the device was open: open devices after the fork, and neither open nor list any before it, unless
 *  all are PoCL's and the forking process has a single thread, as with PoCL's device "basic". A device is destroyed
 *  last: buffers, tensors and graphs made on it must be gone.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "charl/shape.h"
#include "charl/status.h"

CHARL_BEGIN_DECLS

typedef struct charl_device charl_device;

typedef enum charl_device_kind {
    CHARL_DEVICE_CPU,
    CHARL_DEVICE_ACCELERATOR,
    CHARL_DEVICE_INTEGRATED_GPU,
    CHARL_DEVICE_GPU,
    CHARL_DEVICE_KIND_COUNT
} charl_device_kind;

/** "cpu", "accelerator", "integrated gpu" or "gpu"; "?" outside the enum. Static. Local. */
const char *charl_device_kind_name(charl_device_kind kind);

/** The driver interface by which charl uses a device. OpenCL compiles the kernels for both, and results are the same
 *  bits. NVIDIA launches faster, and has no objects for charl/opencl.h. */
typedef enum charl_driver {
    CHARL_DRIVER_AUTO,   /* NVIDIA if it is available, else OPENCL */
    CHARL_DRIVER_OPENCL, /* every device */
    CHARL_DRIVER_NVIDIA  /* NVIDIA's GPUs, by libcuda of their driver */
} charl_driver;

/** Properties of a device that are known without opening it. */
typedef struct charl_device_info {
    int index; /* charl's number: the order of charl_device_list */
    charl_device_kind kind;
    char name[128];
    char vendor[128];
    char platform[128];
    char driver[128];
    char version[128]; /* CL_DEVICE_VERSION */
    char pci[16];      /* "0000:3b:00.0"; "" if the driver does not report it */
    int compute_units;
    int64_t global_bytes;    /* device memory */
    int64_t max_alloc_bytes; /* largest single buffer */
    int64_t local_bytes;     /* local memory of a work-group */
    int max_group;           /* largest work-group */
    char backend[16];        /* "opencl" or "nvidia": the driver of an open device, or what AUTO gives it */
} charl_device_info;

/** Progress of the compilation of kernels. A kernel is compiled when it is first needed, and takes
 *  from milliseconds (read from a cache) to seconds. Drivers compile either when a program is built (NVIDIA) or when a
 *  kernel is first launched (PoCL). Where programs are kept in charl's cache, those that a graph needs are compiled by
 *  several processes (CHARL_COMPILERS, docs/env.md), which end before the first run. */
typedef struct charl_compile_progress {
    int done;            /* kernels compiled so far, or read from a cache */
    int known;           /* kernels known to be needed; later graphs add more. 0: not known yet */
    double seconds;      /* time spent so far */
    const char *current; /* the kernel that is compiled next; NULL: none */
} charl_compile_progress;

/** Called before each compilation, with its name as `current`, and after it, with NULL. From the
 *  thread that uses the device. `progress` is borrowed for the call, which must not use the device.
 */
typedef void (*charl_compiling)(void *ctx, const charl_compile_progress *progress);

/** Use of tuning results (charl/tune.h). */
typedef enum charl_tune_mode {
    CHARL_TUNE_STORED, /* use stored results, else heuristics; the variable CHARL_TUNE may select another mode */
    CHARL_TUNE_FIRST,  /* measure what has no result on first use, and store it */
    CHARL_TUNE_NO      /* heuristics only */
} charl_tune_mode;

/** Which device a rank requests, and how to open it. */
typedef struct charl_device_request {
    size_t struct_size; /* sizeof(charl_device_request) */
    const char *select; /* auto | gpu | cpu | INDEX | pci:0000:3b:00.0 | name:TEXT | platform:TEXT;
                           NULL = auto */
    int local_rank;     /* rank among the ranks of this node, and their number (charl_comm_local_rank and _size) */
    int local_size;
    charl_driver driver;   /* the variable CHARL_DRIVER overrides it */
    bool exact;            /* CHARL_DEVICE does not override `select` */
    bool share;            /* several ranks may use one GPU */
    bool allow_tf32;       /* products of f32 matrices may round their elements to tf32 (8 bits of
                             exponent, 10 of mantissa), where tensor cores support it */
    bool traced;           /* commands have timestamps, as charl_train_options.trace and .profile need them */
    bool skip_kernels;     /* compile and run no kernels except to probe the device: to plan memory */
    int64_t memory_limit;  /* bytes; 0 = all memory of the device */
    int64_t planned_bytes; /* > 0, with skip_kernels: memory of a device to plan for; buffers are only counted */
    charl_tune_mode tune;
    charl_compiling compiling; /* reports compilation, also that of this call; NULL: none */
    void *compiling_ctx;
    bool exact_half; /* operators on bf16 and f16 give the same bits as on other devices: without tensor cores, AMX and
                        NVIDIA's approximate functions, which are faster (docs/integer-products.md) */
    bool offload;    /* what only updates use lies in host memory, which the device accesses: the state of optimizers,
                        the moving average of the weights and, of sets with a working copy in bf16 or f16, the f32
                        values. Errors: ERR_DEVICE  the device cannot access host memory */
} charl_device_request;

/** Memory of a device, in bytes. */
typedef struct charl_device_memory {
    int64_t in_use, peak, capacity;
    int64_t offloaded; /* bytes of host memory (charl_device_request.offload); the others do not count them */
} charl_device_memory;

/** Devices of all platforms, best first within a platform-independent order (discrete GPUs by PCI
 *  bus id, integrated GPUs, accelerators, CPUs). Up to `capacity` are written to out; *count gets
 *  their number, even if it is larger. Blocks. Local. Errors: ERR_DEVICE when there is no platform
 *  or none has a device (the message says what to install). */
charl_status charl_device_list(charl_device_info *out, int capacity, int *count) CHARL_MUST_CHECK;

/** State of a GPU; 0 for values that its driver does not report. */
typedef struct charl_device_health {
    double power_w, power_limit_w;
    double temperature_c;
    double clock_mhz, max_clock_mhz; /* of the streaming multiprocessors */
    bool is_slowed;                  /* the clock is throttled because of temperature or power */
    int nvlinks;                     /* active links */
    int64_t memory_bytes;            /* in use by all programs and the driver */
} charl_device_health;

/** Current state of a device, for NVIDIA GPUs, from the library of their driver (NVML). Returns false, and zeros, for
 *  other devices or without that library. Blocks, for less than a millisecond. Local. */
bool charl_device_get_health(const charl_device_info *device, charl_device_health *out);

enum { CHARL_ENERGY_COUNTERS = 32 };

/** Energy that a device has used, from its own counters:
 *
 *      charl_energy_meter meter = {0};
 *      charl_device_read_energy(info, &meter);                        begins
 *      ...
 *      charl_device_read_energy(info, &meter);
 *      if (meter.is_known) printf("%.1f J\n", meter.joules);
 */
typedef struct charl_energy_meter {
    double joules; /* since the first reading */
    bool is_known; /* false: there is no counter that can be read, or it may have passed its end unnoticed */

    int counters; /* the rest is of charl_device_read_energy */
    double read_s;
    double last[CHARL_ENERGY_COUNTERS];
} charl_energy_meter;

/** Read the counters of a device: of NVIDIA GPUs from Volta on by the library of their driver (NVML), of processors the
 *  packages of /sys/class/powercap (RAPL), which many systems let only root read. They count what all programs use on
 *  the device, and a processor's packages are those of the machine. A processor's counter passes its end after minutes
 *  to hours: read it every few minutes. Blocks, for less than a millisecond. Local. */
void charl_device_read_energy(const charl_device_info *device, charl_energy_meter *meter);

/** Directory of the cache of compiled kernels, created if necessary. *out is owned by the caller (charl_free), or NULL
 *  if there is none or it cannot be used; the log says why (docs/env.md). Blocks. Local. Errors: ERR_NOMEM. */
charl_status charl_device_get_cache(char **out) CHARL_MUST_CHECK;

/** Open the device that `request` gives this rank: local rank r takes the r-th of the matching
 *  GPUs; without GPUs all ranks share the CPU device. Owned: close with charl_device_close.
 *
 *  Blocks. Local.
 *  Errors: ERR_DEVICE  no match, more local ranks than GPUs without `share`, the driver failed, or `driver` does not
 *                      support the device
 *          ERR_CONFIG  `select` or CHARL_DRIVER is malformed
 *          ERR_DISK    CHARL_TUNE_FIRST, and results cannot be kept */
charl_status charl_device_open(const charl_device_request *request, charl_device **out) CHARL_MUST_CHECK;

/** Make the calling thread the owner of the device and everything on it. The previous thread must make no further
 *  calls and have none in progress: it has been joined, or both threads hold a lock whenever they use the device. NULL
 *  is a no-op. Local. */
void charl_device_adopt(charl_device *dev);

/** NULL is a no-op. Waits for work in flight. Blocks. Local. */
void charl_device_close(charl_device *dev);

/** Borrowed, lives as long as the device. Local. */
const charl_device_info *charl_device_get_info(const charl_device *dev);

/** Describe an open device as one line of JSON that ends in a newline: charl_device_info, what else its driver reports
 *  ("reports"), and what charl has found by running kernels and chooses kernels by ("found"). *out: owned by the caller
 *  (charl_free). Blocks. Local. Errors: ERR_NOMEM. */
charl_status charl_device_json(const charl_device *dev, char **out) CHARL_MUST_CHECK;

/** True if the device multiplies matrices of this type on matrix units: NVIDIA's tensor cores or, for bf16, Intel's
 *  AMX. If so, bf16 and f16 are faster than f32. f32 uses tensor cores as tf32, only if the request allowed it; bf16
 *  and f16 use neither if it said exact_half. Local. */
bool charl_device_has_tensor_cores(const charl_device *dev, charl_dtype dtype);

/** Bytes in use now, their peak and the budget. Local. */
charl_device_memory charl_device_get_memory(const charl_device *dev);

/** Memory in use, by purpose. */
typedef struct charl_device_use {
    const char *what; /* "activations", ...; static storage */
    int64_t bytes;
    bool is_offloaded; /* of host memory */
} charl_device_use;

/** Write the memory in use by purpose, up to `capacity` entries, to out. All bytes together are
 *  charl_device_memory.in_use and, of those that are offloaded, charl_device_memory.offloaded. Returns the number of
 *  purposes, even if it is larger than capacity. Local. */
int charl_device_get_uses(const charl_device *dev, charl_device_use *out, int capacity);

/** A property of f32 arithmetic; a device without it rounds differently from other devices. */
typedef struct charl_arithmetic {
    const char *name, *meaning; /* "divide", "a / b is rounded to nearest even"; static */
    int64_t tried, wrong;       /* operations tried; operations whose result differs from IEEE 754 */
    float first[3], got, want;  /* operands of the first wrong operation, its result, and the correct result */
} charl_arithmetic;

enum { CHARL_ARITHMETIC_COUNT = 8 };

/** Compute some ten thousand f32 operations on the device and compare their bits with the host's, which follow IEEE
 *  754: sums, products, quotients, square roots, fma, conversions, all with normal numbers and with denormals. Devices
 *  without a wrong one give the same bits in f32 (docs/exactness.md). Blocks. Local. Deterministic. Errors: ERR_KERNEL,
 *  ERR_DEVICE, ERR_NOMEM. */
charl_status charl_device_check_arithmetic(charl_device *dev,
                                           charl_arithmetic table[CHARL_ARITHMETIC_COUNT]) CHARL_MUST_CHECK;

/** Wait until everything enqueued on any queue is done. Blocks. Local. Errors: ERR_DEVICE. */
charl_status charl_device_sync(charl_device *dev) CHARL_MUST_CHECK;

/** Pinned host memory, which charl_tensor_write and charl_tensor_read transfer at full speed; GPUs copy other memory at
 *  a third of that or less. */
typedef struct charl_pinned charl_pinned;

/** Allocate `bytes` bytes of pinned memory, mapped until it is destroyed; *host gets its address. Owned: destroy with
 *  charl_pinned_destroy, before the device is closed. Blocks. Local. Errors: ERR_NOMEM, ERR_DEVICE. */
charl_status charl_pinned_create(charl_device *dev, size_t bytes, charl_pinned **out, void **host) CHARL_MUST_CHECK;

/** Waits for transfers. NULL is a no-op. Blocks. Local. */
void charl_pinned_destroy(charl_pinned *p);

CHARL_END_DECLS

#endif
