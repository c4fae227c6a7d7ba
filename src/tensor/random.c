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
    charl_status st = CHARL_OK;
    const int64_t n = charl__tensor_count(t), step = charl__tensor_count(block);
    charl_tensor *to = NULL, *from = NULL;

    for (int64_t at = 0; at < n; at += step) {
        const int64_t count = n - at < step ? n - at : step;

        CHARL_TRY_CLEANUP(charl_tensor_range(block, 0, count, &from));
        CHARL_TRY_CLEANUP(charl_tensor_range(t, at, count, &to));
        CHARL_TRY_CLEANUP(charl__tensor_convert(from, to));
        charl_tensor_release(from);
        charl_tensor_release(to);
        from = to = NULL;
    }
cleanup:
    charl_tensor_release(from);
    charl_tensor_release(to);
    return st;
}

charl_status charl__tensor_random(charl_device *dev, charl_dtype dtype, charl_shape shape, charl_tensor **out)
{
    charl_status st = CHARL_OK;
    const int64_t n = charl_shape_count(&shape), drawn = n < MOST_DRAWN ? n : MOST_DRAWN;
    charl_tensor *block = NULL, *t = NULL, *flat = NULL;
    float *x = NULL;

    *out = NULL;
    CHARL_TRY_CLEANUP(charl__alloc_array(drawn, sizeof *x, &x));
    draw(x, drawn);
    CHARL_TRY_CLEANUP(charl_tensor_create(dev, CHARL_F32, &(charl_shape){1, {drawn}}, &block));
    CHARL_TRY_CLEANUP(charl_tensor_write(block, x, (size_t)drawn * sizeof *x));
    CHARL_TRY_CLEANUP(charl_tensor_create(dev, dtype, &shape, &t));
    CHARL_TRY_CLEANUP(charl_tensor_reshape(t, &(charl_shape){1, {n}}, &flat));
    CHARL_TRY_CLEANUP(repeat(block, flat));
    CHARL_TRY_CLEANUP(charl_device_sync(dev));
    *out = t;
    t = NULL;
cleanup:
    charl_free(x);
    charl_tensor_release(block);
    charl_tensor_release(flat);
    charl_tensor_release(t);
    return st;
}
