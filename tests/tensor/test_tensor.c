/* Tensors: views, transfers, fill and copy of every element type, on every device. */
#include "support/each_device.h"

#include <math.h>
#include <string.h>

#include "charl/error.h"
#include "charl/tensor.h"

static charl_tensor *create(charl_device *dev, charl_dtype dtype, charl_shape shape)
{
    charl_tensor *t = NULL;

    charl_assert_ok(charl_tensor_create(dev, dtype, &shape, &t));
    return t;
}

static void check_views(charl_device *dev)
{
    charl_tensor *t = create(dev, CHARL_F32, (charl_shape){3, {4, 3, 2}}), *rows = NULL, *flat = NULL;
    charl_tensor *none = NULL;
    float src[24], got[24];

    assert_int_equal(charl_tensor_get_dtype(t), CHARL_F32);
    assert_ptr_equal(charl_tensor_get_device(t), dev);
    assert_int_equal(charl_tensor_get_shape(t)->dim[1], 3);
    charl_assert_ok(charl_tensor_read(t, got, sizeof got));
    for (int i = 0; i < 24; i++) {
        assert_true(got[i] == 0);
        src[i] = (float)i;
    }
    charl_assert_ok(charl_tensor_write(t, src, sizeof src));
    charl_assert_ok(charl_tensor_range(t, 1, 2, &rows));
    charl_assert_ok(charl_tensor_reshape(rows, &(charl_shape){2, {6, 2}}, &flat));
    charl_tensor_release(rows);
    charl_assert_ok(charl_tensor_range(flat, 6, 0, &none)); /* nothing, at the very end */
    charl_assert_ok(charl_tensor_read(none, got, 0));
    charl_tensor_release(none);
    charl_assert_ok(charl_tensor_read(flat, got, 48));
    charl_assert_same_bits(got, src + 6, 12);
    charl_assert_ok(charl_tensor_fill(flat, -2.5));
    charl_tensor_release(charl_tensor_retain(t));
    charl_assert_ok(charl_tensor_read(t, got, sizeof got));
    for (int i = 0; i < 24; i++) {
        assert_true(got[i] == (i >= 6 && i < 18 ? -2.5f : (float)i));
    }
    charl_tensor_release(t);
    charl_assert_ok(charl_tensor_read(flat, got, 48)); /* the view keeps the storage */
    assert_true(got[11] == -2.5f);
    charl_tensor_release(flat);
    charl_tensor_release(NULL);
}

static void test_views(void **state)
{
    (void)state;
    charl_test_each_device(check_views);
}

static void check_refusals(charl_device *dev)
{
    charl_tensor *t = create(dev, CHARL_F32, (charl_shape){2, {4, 3}}), *v = NULL;
    charl_tensor *scalar = create(dev, CHARL_F32, (charl_shape){0});
    charl_tensor *other = create(dev, CHARL_I32, (charl_shape){2, {4, 3}});
    float x[12] = {0};

    charl_assert_status(charl_tensor_write(t, x, 44), CHARL_ERR_INVALID);
    charl_assert_message("44 bytes are given, but the tensor has 48: f32 [4, 3]");
    charl_assert_status(charl_tensor_read(NULL, x, 48), CHARL_ERR_INVALID);
    charl_assert_message("charl_tensor_read: t is NULL; HINT charl_var_get_tensor gives the tensor of an input");
    charl_assert_status(charl_tensor_read(t, x, 52), CHARL_ERR_INVALID);
    charl_assert_status(charl_tensor_reshape(t, &(charl_shape){1, {11}}, &v), CHARL_ERR_SHAPE);
    charl_assert_message("[4, 3] does not reshape to [11]");
    charl_assert_status(charl_tensor_reshape(t, &(charl_shape){7, {0}}, &v), CHARL_ERR_SHAPE);
    charl_assert_status(charl_tensor_range(t, 3, 2, &v), CHARL_ERR_SHAPE);
    charl_assert_status(charl_tensor_range(t, -1, 1, &v), CHARL_ERR_SHAPE);
    charl_assert_status(charl_tensor_range(t, 0, -1, &v), CHARL_ERR_SHAPE);
    charl_assert_status(charl_tensor_range(t, INT64_MAX, INT64_MAX, &v), CHARL_ERR_SHAPE);
    charl_assert_status(charl_tensor_range(scalar, 0, 1, &v), CHARL_ERR_SHAPE);
    charl_assert_status(charl_tensor_create(dev, CHARL_DTYPE_COUNT, &(charl_shape){1, {1}}, &v), CHARL_ERR_DTYPE);
    charl_assert_status(charl_tensor_create(dev, CHARL_F32, &(charl_shape){1, {-1}}, &v), CHARL_ERR_SHAPE);
    charl_assert_status(charl_tensor_create(dev, CHARL_F32, &(charl_shape){2, {INT64_MAX / 64, 2}}, &v),
                        CHARL_ERR_NOMEM);
    charl_assert_status(charl_tensor_copy(t, other), CHARL_ERR_DTYPE);
    charl_assert_status(charl_tensor_copy(t, scalar), CHARL_ERR_SHAPE);
    assert_null(v);
    charl_tensor_release(t);
    charl_tensor_release(scalar);
    charl_tensor_release(other);
}

static void test_refusals(void **state)
{
    (void)state;
    charl_test_each_device(check_refusals);
}

typedef struct fill_case {
    charl_dtype dtype;
    double value;
    uint64_t bits;
} fill_case;

static const fill_case fills[] = {
    {CHARL_F32, 1.5, 0x3fc00000},
    {CHARL_F32, -0.0, 0x80000000},
    {CHARL_F32, 1e300, 0x7f800000},
    {CHARL_F16, 0.0, 0x0000},
    {CHARL_F16, -0.0, 0x8000},
    {CHARL_F16, 1.0, 0x3c00},
    {CHARL_F16, -2.0, 0xc000},
    {CHARL_F16, 65504, 0x7bff},
    {CHARL_F16, 65519.99, 0x7bff},
    {CHARL_F16, 65520, 0x7c00},
    {CHARL_F16, -INFINITY, 0xfc00},
    {CHARL_F16, NAN, 0x7e00},
    {CHARL_F16, 0x1p-14, 0x0400},
    {CHARL_F16, 0x1p-24, 0x0001},
    {CHARL_F16, 0x1p-25, 0x0000},
    {CHARL_F16, 0x1.8p-24, 0x0002},
    {CHARL_F16, 0x1.ffcp-15, 0x0400},
    {CHARL_F16, 0x1.ff8p-15, 0x03ff},
    {CHARL_F16, 0x1.002p0, 0x3c00},
    {CHARL_F16, 0x1.006p0, 0x3c02},
    {CHARL_F16, 0x1.ffep0, 0x4000},
    {CHARL_BF16, 1.0, 0x3f80},
    {CHARL_BF16, 0x1.01p0, 0x3f80},
    {CHARL_BF16, 0x1.03p0, 0x3f82},
    {CHARL_BF16, INFINITY, 0x7f80},
    {CHARL_BF16, NAN, 0x7fc0},
    {CHARL_U8, 300, 255},
    {CHARL_U8, -3, 0},
    {CHARL_U8, 7.9, 7},
    {CHARL_U16, 65535, 65535},
    {CHARL_U32, 4294967295.0, 0xffffffff},
    {CHARL_U32, NAN, 0},
    {CHARL_I32, -1e12, 0x80000000},
    {CHARL_I32, -1.9, 0xffffffff},
    {CHARL_I64, 1e30, INT64_MAX},
    {CHARL_I64, -1e30, (uint64_t)INT64_MIN},
    {CHARL_I64, -2, (uint64_t)-2},
};

enum { COUNT = 131 };

static void check_fill(charl_device *dev)
{
    for (size_t i = 0; i < sizeof fills / sizeof *fills; i++) {
        const fill_case *f = &fills[i];
        const size_t size = charl_dtype_size(f->dtype);
        charl_tensor *t = create(dev, f->dtype, (charl_shape){1, {COUNT}});
        charl_tensor *c = create(dev, f->dtype, (charl_shape){1, {COUNT}}), *inner = NULL;
        unsigned char got[8 * COUNT], zero[8] = {0};

        charl_assert_ok(charl_tensor_range(t, 1, COUNT - 2, &inner));
        charl_assert_ok(charl_tensor_fill(inner, f->value));
        charl_assert_ok(charl_tensor_copy(t, c));
        charl_assert_ok(charl_tensor_read(c, got, size * COUNT));
        for (size_t k = 0; k < COUNT; k++) { /* little-endian: the low bytes come first */
            if (memcmp(got + k * size, k == 0 || k == COUNT - 1 ? zero : (const void *)&f->bits, size)) {
                fail_msg("%s of %g: element %zu", charl_dtype_name(f->dtype), f->value, k);
            }
        }
        charl_tensor_release(inner);
        charl_tensor_release(t);
        charl_tensor_release(c);
    }
}

static void test_fill(void **state)
{
    (void)state;
    charl_test_each_device(check_fill);
}

static void check_copy(charl_device *dev)
{
    charl_tensor *t = create(dev, CHARL_F32, (charl_shape){1, {100}}), *a = NULL, *b = NULL;
    charl_tensor *empty = create(dev, CHARL_F32, (charl_shape){2, {0, 5}});
    float src[100], got[100];

    for (int i = 0; i < 100; i++) {
        src[i] = (float)i;
    }
    charl_assert_ok(charl_tensor_write(t, src, sizeof src));
    charl_assert_ok(charl_tensor_range(t, 0, 50, &a));
    charl_assert_ok(charl_tensor_range(t, 25, 50, &b));
    charl_assert_status(charl_tensor_copy(a, b), CHARL_ERR_INVALID);
    charl_tensor_release(b);
    charl_assert_ok(charl_tensor_range(t, 50, 50, &b));
    charl_assert_ok(charl_tensor_copy(a, b));
    charl_assert_ok(charl_tensor_fill(a, 9));
    charl_assert_ok(charl_tensor_copy(a, a));
    charl_assert_ok(charl_tensor_fill(empty, 1));
    charl_assert_ok(charl_tensor_copy(empty, empty));
    charl_assert_ok(charl_tensor_read(t, got, sizeof got));
    for (int i = 0; i < 100; i++) {
        assert_true(got[i] == (i < 50 ? 9.0f : (float)(i - 50)));
    }
    charl_tensor_release(a);
    charl_tensor_release(b);
    charl_tensor_release(t);
    charl_tensor_release(empty);
}

/* By 16 bytes where offsets and count allow it, by elements where one does not. */
static void check_copy_widths(charl_device *dev)
{
    static const struct {
        int64_t from, to, count;
    } cases[] = {{8, 16, 48}, {8, 17, 48}, {9, 16, 48}, {8, 16, 47}};
    uint16_t src[100], got[100], want[100];

    for (int i = 0; i < 100; i++) {
        src[i] = (uint16_t)(600 * i);
    }
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        charl_tensor *x = create(dev, CHARL_U16, (charl_shape){1, {100}}), *a = NULL;
        charl_tensor *y = create(dev, CHARL_U16, (charl_shape){1, {100}}), *b = NULL;

        memset(want, 0, sizeof want);
        memcpy(want + cases[k].to, src + cases[k].from, (size_t)cases[k].count * sizeof *src);
        charl_assert_ok(charl_tensor_write(x, src, sizeof src));
        charl_assert_ok(charl_tensor_range(x, cases[k].from, cases[k].count, &a));
        charl_assert_ok(charl_tensor_range(y, cases[k].to, cases[k].count, &b));
        charl_assert_ok(charl_tensor_copy(a, b));
        charl_assert_ok(charl_tensor_read(y, got, sizeof got));
        assert_memory_equal(got, want, sizeof want);
        charl_tensor_release(a);
        charl_tensor_release(b);
        charl_tensor_release(x);
        charl_tensor_release(y);
    }
}

static void test_copy(void **state)
{
    (void)state;
    charl_test_each_device(check_copy);
    charl_test_each_device(check_copy_widths);
}

static charl_status life(void *ctx)
{
    charl_status st = CHARL_OK;
    charl_tensor *t = NULL, *a = NULL, *b = NULL;
    float x[6] = {1, 2, 3, 4, 5, 6};

    CHARL_TRY_CLEANUP(charl_tensor_create(ctx, CHARL_F32, &(charl_shape){2, {3, 2}}, &t));
    CHARL_TRY_CLEANUP(charl_tensor_write(t, x, sizeof x));
    CHARL_TRY_CLEANUP(charl_tensor_range(t, 1, 2, &a));
    CHARL_TRY_CLEANUP(charl_tensor_reshape(a, &(charl_shape){1, {4}}, &b));
    CHARL_TRY_CLEANUP(charl_tensor_read(b, x, 16));
cleanup:
    charl_tensor_release(b);
    charl_tensor_release(a);
    charl_tensor_release(t);
    return st;
}

static void test_faults(void **state)
{
    (void)state;
    charl_device *dev = NULL;

    (void)charl_test_device_count();
    dev = charl_test_open(0, 0);
    assert_true(charl_test_fail_every_acquisition(life, dev) >= 5); /* some drivers allocate more */
    charl_device_close(dev);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_views), cmocka_unit_test(test_refusals), cmocka_unit_test(test_fill),
        cmocka_unit_test(test_copy),  cmocka_unit_test(test_faults),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
