#ifndef CHARL_TENSOR_H
#define CHARL_TENSOR_H
/** A typed, shaped, contiguous row-major range of device memory.
 *
 *      const charl_shape shape = {2, {4, 3}};
 *      float values[12] = {0}, row[3];
 *      charl_tensor *t = NULL, *last = NULL;
 *
 *      check(charl_tensor_create(dev, CHARL_F32, &shape, &t));
 *      check(charl_tensor_write(t, values, sizeof values));
 *      check(charl_tensor_range(t, 3, 1, &last)); // a view of row 3
 *      check(charl_tensor_fill(last, 1.0));
 *      check(charl_tensor_read(last, row, sizeof row));
 *      charl_tensor_release(last);
 *      charl_tensor_release(t);
 *
 *  A tensor is a counted handle on counted storage: views share storage and keep it alive. There
 *  are no strides. A tensor belongs to the thread of its device and is released before its device is
 *  closed.
 */
#include "charl/device.h"
#include "charl/shape.h"

CHARL_BEGIN_DECLS

typedef struct charl_tensor charl_tensor;

/** New tensor of zeros.
 *
 *  shape  any valid shape; an extent of 0 is allowed
 *  out    owned: give back with charl_tensor_release
 *
 *  Async. Local. Errors: ERR_SHAPE  the shape is invalid
 *                        ERR_DTYPE  unknown element type
 *                        ERR_NOMEM  does not fit on the device
 */
charl_status charl_tensor_create(charl_device *dev, charl_dtype dtype, const charl_shape *shape,
                                 charl_tensor **out) CHARL_MUST_CHECK;

/** One more owner; returns t. Local. */
charl_tensor *charl_tensor_retain(charl_tensor *t);

/** One owner less; the last one frees. NULL is a no-op. Local. */
void charl_tensor_release(charl_tensor *t);

/** Element type. Local. */
charl_dtype charl_tensor_get_dtype(const charl_tensor *t);

/** Borrowed, lives as long as t. Local. */
const charl_shape *charl_tensor_get_shape(const charl_tensor *t);

/** Borrowed. Local. */
charl_device *charl_tensor_get_device(const charl_tensor *t);

/** t = src, after all earlier work on t. `bytes` must be exactly t's size; src is free again on
 *  return. Blocks. Local. Errors: ERR_INVALID (byte count, gradient of a parameter), ERR_DEVICE. */
charl_status charl_tensor_write(charl_tensor *t, const void *src, size_t bytes) CHARL_MUST_CHECK;

/** dst = t, after all earlier work on t. `bytes` must be exactly t's size.
 *  Blocks. Local. Errors: ERR_INVALID (byte count), ERR_DEVICE. */
charl_status charl_tensor_read(const charl_tensor *t, void *dst, size_t bytes) CHARL_MUST_CHECK;

/** The same elements under another shape: owned view that shares storage.
 *  Local. Errors: ERR_SHAPE when the element counts differ. */
charl_status charl_tensor_reshape(charl_tensor *t, const charl_shape *shape, charl_tensor **out) CHARL_MUST_CHECK;

/** t[first : first + count] along the leading dimension: owned view that shares storage.
 *  Local. Errors: ERR_SHAPE when t is a scalar or the range leaves the extent. */
charl_status charl_tensor_range(charl_tensor *t, int64_t first, int64_t count, charl_tensor **out) CHARL_MUST_CHECK;

/** t[:] = value, converted to t's type (integers: truncated and clamped, NaN gives 0). Async. Local. Errors:
 *  ERR_KERNEL, ERR_DEVICE. */
charl_status charl_tensor_fill(charl_tensor *t, double value) CHARL_MUST_CHECK;

/** dst[:] = src[:] on the device, where type and number of elements agree. Async. Local.
 *  Errors: ERR_DTYPE, ERR_SHAPE; ERR_INVALID  the ranges overlap without being equal   ERR_KERNEL, ERR_DEVICE */
charl_status charl_tensor_copy(const charl_tensor *src, charl_tensor *dst) CHARL_MUST_CHECK;

CHARL_END_DECLS

#endif
