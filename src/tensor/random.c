/* Random operands: drawn on the host once, repeated and converted on the device. */
#include "tensor/random.h"

#include "base/alloc.h"

enum { MOST_DRAWN = 15485863 /* a prime: repeated rows are not the same */ };

static void draw(float *out, int64_t n)
{
    uint32_t x = 1;

    for (int64_t i = 0; i < n; i++) {
        x = x * 1664525U + 1013904223U; /* Numerical Recipes' generator: its upper bits will do */
        out[i] = (float)(int32_t)(x & 0xffffff00U) * 0x1p-31F;
    }
}

/* `block` again and again until `t` is full, both of one extent. */
static charl_status repeat(charl_tensor *block, charl_tensor *t)
{
    const int64_t n = charl__tensor_count(t), step = charl__tensor_count(block);
    CHARL_SCOPED(charl__tensor_left) charl_tensor *to = NULL, *from = NULL;

    for (int64_t at = 0; at < n; at += step) {
        const int64_t count = n - at < step ? n - at : step;

        CHARL_TRY(charl_tensor_range(block, 0, count, &from));
        CHARL_TRY(charl_tensor_range(t, at, count, &to));
        CHARL_TRY(charl__tensor_convert(from, to));
        charl_tensor_release(from);
        charl_tensor_release(to);
        from = to = NULL;
    }
    return CHARL_OK;
}

charl_status charl__tensor_random(charl_device *dev, charl_dtype dtype, charl_shape shape, charl_tensor **out)
{
    const int64_t n = charl_shape_count(&shape), drawn = n < MOST_DRAWN ? n : MOST_DRAWN;
    CHARL_SCOPED(charl__tensor_left) charl_tensor *t = NULL, *flat = NULL, *block = NULL;
    CHARL_SCOPED_FREE float *x = NULL;

    *out = NULL;
    CHARL_TRY(charl__alloc_array(drawn, sizeof *x, &x));
    draw(x, drawn);
    CHARL_TRY(charl_tensor_create(dev, CHARL_F32, &(charl_shape){1, {drawn}}, &block));
    CHARL_TRY(charl_tensor_write(block, x, (size_t)drawn * sizeof *x));
    CHARL_TRY(charl_tensor_create(dev, dtype, &shape, &t));
    CHARL_TRY(charl_tensor_reshape(t, &(charl_shape){1, {n}}, &flat));
    CHARL_TRY(repeat(block, flat));
    CHARL_TRY(charl_device_sync(dev));
    *out = t;
    t = NULL;
    return CHARL_OK;
}
