#ifndef CHARL_PROFILE_H
#define CHARL_PROFILE_H
/** Time and memory of a training: what charl_train_options.trace and .profile report about a window of steps, and
 *  charl_train_events.memory before the first step. */
#include <stdbool.h>
#include <stdint.h>

#include "charl/device.h"
#include "charl/shape.h"
#include "charl/status.h"

CHARL_BEGIN_DECLS

/** A trace that has been written. */
typedef struct charl_trace_row {
    int64_t first, last; /* steps, counted as in charl_train_row */
    const char *path;    /* NULL: it could not be written, a warning says why */
    int64_t spans, lost; /* of all ranks; lost: dropped for lack of memory */
    /* fraction of the all-reduce time during which the device of the rank computed, over all ranks; NaN without
     * all-reduces */
    double hidden;
    double clock_error_us; /* largest error between the clocks of ranks, and of host and device */
    double ms;             /* time for which training was stopped to write the trace */
} charl_trace_row;

/** Time and work of a layer or a kernel, per step. */
typedef struct charl_profile_row {
    const char *name;
    double ms, launches;
    double share; /* of the time of all kernels */
    /* flop of matrix products, convolutions and attention; bytes of the operands, each counted once. 0: unknown */
    double flop, bytes;
    double roofline; /* the shortest possible time for flop and bytes on this device, divided by ms; 0: unknown */
    bool is_compute; /* that time is limited by flop; otherwise by bytes */
} charl_profile_row;

/** Profile of rank 0. */
typedef struct charl_profile {
    int64_t first, last;             /* steps */
    double step_ms, kernel_ms;       /* time of a step, and of its kernels */
    const char *arithmetic;          /* type of the operands of products: "f32" or "bf16" */
    double peak_flops, peak_bytes;   /* per second, measured (charl/roofline.h) */
    const charl_profile_row *layer;  /* [n_layers], slowest first; numbered layers are one row: h.*.mlp.c_fc */
    const charl_profile_row *kernel; /* [n_kernels], slowest first; all flop of a layer count at its slowest kernel */
    int n_layers, n_kernels;
} charl_profile;

/** An activation, or workspace, that is alive at the peak of memory use. */
typedef struct charl_memory_activation {
    const char *name;
    charl_dtype dtype; /* of workspace: CHARL_U8 */
    charl_shape shape;
    int64_t bytes; /* with all lanes, rounded up to 256 */
} charl_memory_activation;

typedef struct charl_memory_parameter {
    const char *name;
    charl_shape shape;
    bool is_trained;
    int64_t bytes;                   /* of the f32 values; a gradient takes as much per lane (charl/slices.h) */
    int64_t copy_bytes, state_bytes; /* of the copy in half precision; of the optimizer state, before sharding */
} charl_memory_parameter;

/** What a training would take on the device of a rank, about, with other ranks: of the same batch, of which a rank's
 *  activations take their part. */
typedef struct charl_memory_plan {
    int ranks, shards; /* shards: ranks that divide; fewer than ranks with dist.shard_group = node on several nodes */
    int64_t bytes[4];  /* with dist.shard = none, optimizer, gradients, parameters; 0: does not work here */
    int64_t host_bytes[4]; /* of host memory, with device.offload */
} charl_memory_plan;

/** Memory of a training on the device of a rank. */
typedef struct charl_memory {
    const charl_device_info *device;
    charl_device_memory device_memory;
    const charl_device_use *use; /* [n_uses], largest first; the sum of those on the device is device_memory.in_use */
    int n_uses;
    const charl_memory_parameter *parameter; /* [n_parameters], in the order of the set */
    int n_parameters;
    const char *peak_layer; /* the layer at which most activation memory is alive */
    bool peak_is_backward;
    int64_t peak_bytes, arena_bytes;           /* alive at the peak; reserved for all activations, with gaps */
    const charl_memory_activation *activation; /* [n_activations] alive at the peak, largest first */
    int n_activations;
    /* [n_plans]: for 1, 2, 4, ... ranks, or of the planned cluster; none where ranks share memory of the host */
    const charl_memory_plan *plan;
    int n_plans;
} charl_memory;

CHARL_END_DECLS

#endif
