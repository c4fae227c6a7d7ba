#ifndef CHARL_PROFILE_H
#define CHARL_PROFILE_H
/** Where time and memory of a training go: what charl_train_options.trace and .profile report of a window of steps, and
 *  charl_train_events.memory before the first. */
#include <stdbool.h>
#include <stdint.h>

#include "charl/device.h"
#include "charl/shape.h"
#include "charl/status.h"

CHARL_BEGIN_DECLS

/** A time line has been written. */
typedef struct charl_trace_row {
    int64_t first, last; /* steps, counted as in charl_train_row */
    const char *path;    /* NULL: it could not be written, a warning says why */
    int64_t spans, lost; /* of all ranks; lost: there was no memory for them */
    /* part of the time of all-reduces in which the rank's device computed, over all ranks; NaN without all-reduces */
    double hidden;
    double clock_error_us; /* times of different ranks, and of host and device, are off by that at most */
    double ms;             /* that training stood still for it */
} charl_trace_row;

/** What a layer or a kernel took, per step. */
typedef struct charl_profile_row {
    const char *name;
    double ms, launches;
    double share; /* of the time of all kernels */
    /* of matrix products, convolutions and attention; of operands, each read or written once. 0: not known */
    double flop, bytes;
    double roofline; /* the time that the device needs at best for flop and bytes, as a part of ms; 0: not known */
    bool is_compute; /* flop limit that time; otherwise bytes do */
} charl_profile_row;

/** Of rank 0. */
typedef struct charl_profile {
    int64_t first, last;             /* steps */
    double step_ms, kernel_ms;       /* a step, and the kernels in it */
    const char *arithmetic;          /* "f32" or "bf16": what is multiplied */
    double peak_flops, peak_bytes;   /* per second: the roofline, measured (charl/roofline.h) */
    const charl_profile_row *layer;  /* [n_layers], longest first; numbered layers are one: h.*.mlp.c_fc */
    const charl_profile_row *kernel; /* [n_kernels], longest first; all flop of a layer are at its longest kernel */
    int n_layers, n_kernels;
} charl_profile;

/** An activation, or workspace, that is alive when most are. */
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
    int64_t bytes;                   /* f32; the gradient of a trained one takes as many per lane (charl/slices.h) */
    int64_t copy_bytes, state_bytes; /* in half precision; of the optimizer, before it is divided over ranks */
} charl_memory_parameter;

/** What a training takes on the device of a rank. */
typedef struct charl_memory {
    const charl_device_info *device;
    charl_device_memory device_memory;
    const charl_device_use *use; /* [n_uses], largest first; all together device_memory.in_use */
    int n_uses;
    const charl_memory_parameter *parameter; /* [n_parameters], in their order */
    int n_parameters;
    const char *peak_layer; /* when most activations of a training step are alive */
    bool peak_is_backward;
    int64_t peak_bytes, arena_bytes;           /* alive then; what is reserved for all of them, with gaps */
    const charl_memory_activation *activation; /* [n_activations] alive then, largest first */
    int n_activations;
} charl_memory;

CHARL_END_DECLS

#endif
