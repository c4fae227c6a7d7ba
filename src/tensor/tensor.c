/* Tensors: counted handles on counted buffers. */
#include "elementwise/map_args.h"
#include "tensor/tensor.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"

charl_status charl__tensor_view(charl__buffer *buffer, charl_dtype dtype, const charl_shape *shape, int64_t offset,
                                charl_tensor **out)
{
    const size_t size = charl_dtype_size(dtype);
    uint64_t elements = 0;
    charl_tensor *t = NULL;

    *out = NULL;
    CHARL_TRY(charl_shape_check(shape));
    CHARL_REQUIRE(size > 0, CHARL_ERR_DTYPE, "%d is no element type; HINT charl_dtype", (int)dtype);
    elements = charl__buffer_bytes(buffer) / size;
    CHARL_REQUIRE(offset >= 0 && (uint64_t)charl_shape_count(shape) <= elements &&
                      (uint64_t)offset <= elements - (uint64_t)charl_shape_count(shape),
                  CHARL_ERR_INVALID, "%lld elements from element %lld on are outside the buffer of %zu bytes",
                  (long long)charl_shape_count(shape), (long long)offset, charl__buffer_bytes(buffer));
    CHARL_TRY(charl__alloc(sizeof *t, &t));
    atomic_init(&t->refs, 1);
    t->dev = charl__buffer_device(buffer);
    t->dtype = dtype;
    t->shape = *shape;
    t->buffer = charl__buffer_retain(buffer);
    t->offset = offset;
    *out = t;
    return CHARL_OK;
}

charl_status charl_tensor_create(charl_device *dev, charl_dtype dtype, const charl_shape *shape, charl_tensor **out)
{
    CHARL_GIVEN(dev, shape, out);
    CHARL_SCOPED(charl__buffer_left) charl__buffer *buffer = NULL;

    *out = NULL;
    CHARL_TRY(charl__device_enter(dev));
    CHARL_TRY(charl_shape_check(shape));
    CHARL_REQUIRE(charl_dtype_size(dtype) > 0, CHARL_ERR_DTYPE, "%d is no element type; HINT charl_dtype", (int)dtype);
    CHARL_TRY(charl__buffer_create(dev, (size_t)charl_shape_count(shape) * charl_dtype_size(dtype), "tensor", &buffer));
    CHARL_TRY(charl__tensor_view(buffer, dtype, shape, 0, out));
    return CHARL_OK;
}

charl_tensor *charl_tensor_retain(charl_tensor *t)
{
    if (!t) {
        return NULL;
    }
    atomic_fetch_add(&t->refs, 1);
    return t;
}

void charl_tensor_release(charl_tensor *t)
{
    if (t && atomic_fetch_sub(&t->refs, 1) == 1) {
        charl__buffer_release(t->buffer);
        charl_free(t);
    }
}

charl_dtype charl_tensor_get_dtype(const charl_tensor *t)
{
    return t ? t->dtype : CHARL_DTYPE_COUNT;
}

const charl_shape *charl_tensor_get_shape(const charl_tensor *t)
{
    return t ? &t->shape : NULL;
}

charl_device *charl_tensor_get_device(const charl_tensor *t)
{
    return t ? t->dev : NULL;
}

/* For charl_tensor_read and _write, whose tensors are those of vars. */
static charl_status check_given(const char *func, const charl_tensor *t, size_t bytes)
{
    char shape[CHARL_SHAPE_TEXT];

    CHARL_REQUIRE(t, CHARL_ERR_INVALID,
                  "%s: t is NULL; HINT charl_var_get_tensor gives the tensor of an input, and of a value that "
                  "charl_graph_keep has kept, after charl_graph_compile",
                  func);
    CHARL_REQUIRE(bytes == charl__tensor_bytes(t), CHARL_ERR_INVALID,
                  "%zu bytes are given, but the tensor has %zu: %s %s", bytes, charl__tensor_bytes(t),
                  charl_dtype_name(t->dtype), charl_shape_format(&t->shape, shape));
    return CHARL_OK;
}

/* Whether the caller may change t. */
static charl_status check_writable(const charl_tensor *t)
{
    CHARL_REQUIRE(
        !t->read_only, CHARL_ERR_INVALID,
        "this tensor is the gradient of a parameter, which runs of the graph alone write; HINT scale the loss, or give "
        "charl_graph_backward a gradient");
    CHARL_TRY(charl__device_enter(t->dev));
    return CHARL_OK;
}

charl_status charl_tensor_write(charl_tensor *t, const void *src, size_t bytes)
{
    CHARL_TRY(check_given(__func__, t, bytes));
    CHARL_GIVEN(t, src || bytes == 0);
    CHARL_TRY(check_writable(t));
    CHARL_TRY(charl__buffer_write(CHARL_QUEUE_COMPUTE, t->buffer, (size_t)t->offset * charl_dtype_size(t->dtype), src,
                                  bytes, true));
    return CHARL_OK;
}

charl_status charl_tensor_read(const charl_tensor *t, void *dst, size_t bytes)
{
    CHARL_TRY(check_given(__func__, t, bytes));
    CHARL_GIVEN(t, dst || bytes == 0);
    CHARL_TRY(charl__device_enter(t->dev));
    CHARL_TRY(charl__buffer_read(CHARL_QUEUE_COMPUTE, t->buffer, (size_t)t->offset * charl_dtype_size(t->dtype), dst,
                                 bytes, true));
    return CHARL_OK;
}

charl_status charl_tensor_reshape(charl_tensor *t, const charl_shape *shape, charl_tensor **out)
{
    CHARL_GIVEN(t, shape, out);
    char a[CHARL_SHAPE_TEXT], b[CHARL_SHAPE_TEXT];

    *out = NULL;
    CHARL_TRY(charl_shape_check(shape));
    CHARL_REQUIRE(charl_shape_count(shape) == charl__tensor_count(t), CHARL_ERR_SHAPE, "%s does not reshape to %s",
                  charl_shape_format(&t->shape, a), charl_shape_format(shape, b));
    CHARL_TRY(charl__tensor_view(t->buffer, t->dtype, shape, t->offset, out));
    (*out)->read_only = t->read_only;
    return CHARL_OK;
}

charl_status charl_tensor_range(charl_tensor *t, int64_t first, int64_t count, charl_tensor **out)
{
    CHARL_GIVEN(t, out);
    charl_shape shape = t->shape;

    *out = NULL;
    CHARL_REQUIRE(shape.ndim > 0 && first >= 0 && count >= 0 && first <= shape.dim[0] && count <= shape.dim[0] - first,
                  CHARL_ERR_SHAPE, "%lld rows from row %lld on are outside a tensor of %lld", (long long)count,
                  (long long)first, shape.ndim ? (long long)shape.dim[0] : 0LL);
    shape.dim[0] = count;
    CHARL_TRY(charl__tensor_view(t->buffer, t->dtype, &shape,
                                 t->offset + (t->shape.dim[0] ? charl__tensor_count(t) / t->shape.dim[0] * first : 0),
                                 out));
    (*out)->read_only = t->read_only;
    return CHARL_OK;
}

/* Round to nearest even. */
static uint16_t half_of(double value)
{
    const uint16_t sign = signbit(value) ? 0x8000 : 0;
    const double x = fabs(value);
    int exponent = 0;
    double units;

    if (isnan(value)) {
        return 0x7e00;
    }
    if (x >= 65520.0) {
        return sign | 0x7c00;
    }
    if (x == 0) {
        return sign;
    }
    (void)frexp(x, &exponent);
    exponent = exponent < -13 ? -13 : exponent; /* subnormal below 2^-14 */
    units = nearbyint(ldexp(x, 11 - exponent)); /* 0 ... 2048 steps of 2^(exponent - 11) */
    return (uint16_t)(sign + (((uint16_t)(exponent + 13)) << 10) + (int)units);
}

static uint16_t bf16_of(double value)
{
    const float f = (float)value;
    uint32_t u;

    memcpy(&u, &f, sizeof u);
    return isnan(f) ? (uint16_t)((u >> 16) | 0x40) : (uint16_t)((u + 0x7fff + ((u >> 16) & 1)) >> 16);
}

static int64_t clamped(double value, int64_t lo, int64_t hi)
{
    if (isnan(value)) {
        return 0;
    }
    return value <= (double)lo ? lo : value >= (double)hi ? hi : (int64_t)value;
}

/* The bits of one element. */
static int64_t bits_of(charl_dtype dtype, double value)
{
    const float f = (float)value;
    uint32_t u;

    memcpy(&u, &f, sizeof u);
    switch (dtype) {
    case CHARL_F16:
        return half_of(value);
    case CHARL_BF16:
        return bf16_of(value);
    case CHARL_U8:
        return clamped(value, 0, UINT8_MAX);
    case CHARL_U16:
        return clamped(value, 0, UINT16_MAX);
    case CHARL_U32:
        return clamped(value, 0, UINT32_MAX);
    case CHARL_I32:
        return clamped(value, INT32_MIN, INT32_MAX);
    case CHARL_I64:
        return clamped(value, INT64_MIN, INT64_MAX);
    default:
        return (int64_t)u;
    }
}

enum { GROUP = 64 };

/* Work-items of a group that only copies elements. */
static size_t group_of(charl_device *dev)
{
    const size_t fit = (size_t)charl__device_facts_get(dev)->group;

    return fit > GROUP ? fit : GROUP;
}

/* Elements are copied as bits: one program per size. */
static charl_status launch_copy(charl_tensor *dst, const char *entry, charl__arg from, size_t size)
{
    static const char *const types[] = {[1] = "uchar", [2] = "ushort", [4] = "uint", [8] = "ulong", [16] = "uint4"};
    const int64_t each = (int64_t)(size / charl_dtype_size(dst->dtype));
    const int64_t n = charl__tensor_count(dst) / each;
    const size_t group = group_of(dst->dev);
    charl__arg to = charl__out(dst);

    to.v.offset /= each;
    to.count /= each;
    to.size = size;
    return charl__launch_enqueue(dst->dev, &(charl__launch){
                                               .file = "tensor/copy",
                                               .entry = entry,
                                               .params = {{"BITS", .text = types[size]}},
                                               .global = {((size_t)n + group - 1) / group * group},
                                               .local = {group},
                                               .args = {from, to, charl__i64(n)},
                                           });
}

charl_status charl__accumulate(charl_device *dev, charl__arg sum, charl__arg x, int64_t n, bool rounds,
                               const char *label)
{
    enum { EACH = 4 };
    const size_t group = group_of(dev), groups = ((size_t)n + EACH * group - 1) / (EACH * group);

    return charl__launch_enqueue(dev, &(charl__launch){
                                          .file = "tensor/accumulate",
                                          .entry = "charl_accumulate",
                                          .params = {{"LOCAL", (int)group}, {"EACH", EACH}, {"ROUND", rounds}},
                                          .global = {groups * group},
                                          .local = {group},
                                          .args = {sum, x, charl__i64(n)},
                                          .label = label,
                                      });
}

charl_status charl_tensor_fill(charl_tensor *t, double value)
{
    CHARL_GIVEN(t);
    CHARL_TRY(check_writable(t));
    CHARL_TRY(launch_copy(t, "charl_fill", charl__i64(bits_of(t->dtype, value)), charl_dtype_size(t->dtype)));
    return CHARL_OK;
}

/* Bytes that a work-item copies: 16 if everything is a multiple of that. */
static size_t copy_width(const charl_tensor *src, const charl_tensor *dst)
{
    const size_t size = charl_dtype_size(src->dtype);
    const int64_t each = (int64_t)(16 / size);

    return src->offset % each == 0 && dst->offset % each == 0 && charl__tensor_count(src) % each == 0 ? 16 : size;
}

charl_status charl_tensor_copy(const charl_tensor *src, charl_tensor *dst)
{
    CHARL_GIVEN(src, dst);
    CHARL_TRY(check_writable(dst));
    charl__arg from = charl__in(src);
    size_t width;

    CHARL_REQUIRE(src->dtype == dst->dtype, CHARL_ERR_DTYPE, "a copy cannot convert %s to %s",
                  charl_dtype_name(src->dtype), charl_dtype_name(dst->dtype));
    CHARL_REQUIRE(charl__tensor_count(src) == charl__tensor_count(dst), CHARL_ERR_SHAPE,
                  "the source of a copy has %lld elements, the destination %lld", (long long)charl__tensor_count(src),
                  (long long)charl__tensor_count(dst));
    width = copy_width(src, dst);
    from.v.offset /= (int64_t)(width / from.size);
    from.count /= (int64_t)(width / from.size);
    from.size = width;
    CHARL_TRY(launch_copy(dst, "charl_copy", from, width));
    return CHARL_OK;
}

charl_status charl__tensor_convert(const charl_tensor *src, charl_tensor *dst)
{
    const bool cpu = charl__device_facts_get(dst->dev)->group <= 1;
    const int64_t n = charl__tensor_count(dst), span = cpu ? 4096 : 8;
    charl__map_args args = {.n = (uint64_t)n, .span = (uint64_t)span};

    CHARL_REQUIRE(charl__is_float(src->dtype) && charl__is_float(dst->dtype), CHARL_ERR_DTYPE,
                  "%s cannot be converted to %s", charl_dtype_name(src->dtype), charl_dtype_name(dst->dtype));
    CHARL_REQUIRE(charl__tensor_count(src) == n, CHARL_ERR_SHAPE,
                  "the source of a conversion has %lld elements, the destination %lld",
                  (long long)charl__tensor_count(src), (long long)n);
    CHARL_TRY(charl__launch_enqueue(dst->dev, &(charl__launch){
                                                  .file = "elementwise/map",
                                                  .entry = "charl_map",
                                                  .params = {{"CHARL_VEC", cpu ? 16 : 8},
                                                             {"A_T", .text = charl__kernel_type(src->dtype)},
                                                             {"OUT_T", .text = charl__kernel_type(dst->dtype)}},
                                                  .global = {(size_t)((n + span * GROUP - 1) / (span * GROUP) * GROUP)},
                                                  .local = {GROUP},
                                                  .args = {charl__placed(charl__in(src), &args.at[0]),
                                                           {CHARL_ARG_IN, true},
                                                           {CHARL_ARG_IN, true},
                                                           {CHARL_ARG_IN, true},
                                                           {CHARL_ARG_IN, true},
                                                           {CHARL_ARG_IN, true},
                                                           charl__placed(charl__out(dst), &args.out),
                                                           charl__struct(&args, sizeof args)},
                                                  .label = "convert",
                                              }));
    return CHARL_OK;
}
