#ifndef CHARL_TENSOR_TENSOR_H
#define CHARL_TENSOR_TENSOR_H
/** Internals of a tensor, and its use as a kernel argument. */
#include <stdatomic.h>

#include "charl/tensor.h"
#include "device/device.h"

struct charl_tensor {
    atomic_int refs;
    charl_device *dev;
    charl_dtype dtype;
    charl_shape shape;
    charl__buffer *buffer; /* retained */
    int64_t offset;        /* elements from the start of buffer */
    bool read_only;        /* for users: gradients, which graphs write */
    bool channels_last;    /* four extents [N, C, H, W] are stored as [N, H, W, C] */
};

/** A tensor over part of a buffer, which is retained. Errors: ERR_SHAPE, ERR_DTYPE; ERR_INVALID
 *  if the range exceeds the buffer. */
charl_status charl__tensor_view(charl__buffer *buffer, charl_dtype dtype, const charl_shape *shape, int64_t offset,
                                charl_tensor **out) CHARL_MUST_CHECK;

/** dst[:] = src[:], each of any float type, rounded to nearest even; element counts must be equal. One
 *  launch, so it can be recorded. Async. Errors: ERR_DTYPE, ERR_SHAPE. */
charl_status charl__tensor_convert(const charl_tensor *src, charl_tensor *dst) CHARL_MUST_CHECK;

/** sum[i] += x[i] for i < n, in f32; rounds: as nodes of a tree over slices in bf16. Each element is rounded once, with `rounds` twice. Async. */
charl_status charl__accumulate(charl_device *dev, charl__arg sum, charl__arg x, int64_t n, bool rounds,
                               const char *label) CHARL_MUST_CHECK;

static inline int64_t charl__tensor_count(const charl_tensor *t)
{
    return charl_shape_count(&t->shape);
}

static inline size_t charl__tensor_bytes(const charl_tensor *t)
{
    return (size_t)charl_shape_count(&t->shape) * charl_dtype_size(t->dtype);
}

static inline charl__arg charl__tensor_arg(charl__arg_kind kind, const charl_tensor *t)
{
    charl__arg a = {.kind = kind, .buffer = 0, .v.offset = 0};

    if (t) {
        a.buffer = t->buffer;
        a.v.offset = t->offset;
        a.count = charl_shape_count(&t->shape);
        a.size = charl_dtype_size(t->dtype);
    }
    return a;
}

/** Whether kernels compute with elements of this type: f32, bf16 or f16. */
static inline bool charl__is_float(charl_dtype dtype)
{
    return dtype == CHARL_F32 || dtype == CHARL_BF16 || dtype == CHARL_F16;
}

/** OpenCL C type of float elements in memory, as charl_get, charl_load and the like expect it
 *  (kernels/prelude/common.clh). */
static inline const char *charl__kernel_type(charl_dtype dtype)
{
    return dtype == CHARL_BF16 ? "ushort" : dtype == CHARL_F16 ? "half" : "float";
}

/** OpenCL C's name of an integer type of at most 32 bits or of f32; NULL for others. */
static inline const char *charl__source_type(charl_dtype dtype)
{
    static const char *const name[CHARL_DTYPE_COUNT] = {
        [CHARL_U8] = "uchar", [CHARL_U16] = "ushort", [CHARL_U32] = "uint", [CHARL_I32] = "int", [CHARL_F32] = "float"};

    return name[dtype];
}

/* NULL gives the kernel a null pointer and offset 0. Each takes two kernel parameters: pointer,
 * ulong offset. */
static inline charl__arg charl__in(const charl_tensor *t)
{
    return charl__tensor_arg(CHARL_ARG_IN, t);
}

static inline charl__arg charl__out(const charl_tensor *t)
{
    return charl__tensor_arg(CHARL_ARG_OUT, t);
}

static inline charl__arg charl__inout(const charl_tensor *t)
{
    return charl__tensor_arg(CHARL_ARG_INOUT, t);
}

/** For CHARL_SCOPED. */
CHARL_SCOPED_POINTER(charl__tensor_left, charl_tensor, charl_tensor_release)

#endif
