/* Element types and shapes. */
#include "support/support.h"

#include <string.h>

#include "charl/shape.h"

static void test_dtypes(void **state)
{
    (void)state;
    assert_string_equal(charl_dtype_name(CHARL_BF16), "bf16");
    assert_string_equal(charl_dtype_name(CHARL_DTYPE_COUNT), "?");
    assert_int_equal(charl_dtype_size(CHARL_I64), 8);
    assert_int_equal(charl_dtype_size(CHARL_U8), 1);
    assert_int_equal(charl_dtype_size(CHARL_DTYPE_COUNT), 0);
    for (int d = 0; d < CHARL_DTYPE_COUNT; d++) {
        assert_true(charl_dtype_size((charl_dtype)d) > 0);
    }
}

static void test_count_and_equal(void **state)
{
    (void)state;
    const charl_shape scalar = {0}, a = {2, {2, 3}}, b = {2, {3, 2}}, c = {3, {2, 3, 1}};
    const charl_shape none = {3, {5, 0, 7}};

    assert_int_equal(charl_shape_count(&scalar), 1);
    assert_int_equal(charl_shape_count(&a), 6);
    assert_int_equal(charl_shape_count(&none), 0);
    assert_true(charl_shape_equal(&a, &a));
    assert_true(charl_shape_equal(&scalar, &scalar));
    assert_false(charl_shape_equal(&a, &b));
    assert_false(charl_shape_equal(&a, &c));
}

static void test_check(void **state)
{
    (void)state;
    const int64_t big = (int64_t)1 << 30;

    charl_assert_ok(charl_shape_check(&(charl_shape){0}));
    charl_assert_ok(charl_shape_check(&(charl_shape){2, {big, big - 1}}));
    charl_assert_ok(charl_shape_check(&(charl_shape){3, {0, 5, 5}}));
    charl_assert_status(charl_shape_check(&(charl_shape){2, {big, big}}), CHARL_ERR_SHAPE);
    charl_assert_message("overflows at extent 1");
    charl_assert_status(charl_shape_check(&(charl_shape){3, {big, 0, INT64_MAX}}), CHARL_ERR_SHAPE);
    charl_assert_status(charl_shape_check(&(charl_shape){1, {-1}}), CHARL_ERR_SHAPE);
    charl_assert_message("extent 0 is negative: -1");
    charl_assert_status(charl_shape_check(&(charl_shape){.ndim = CHARL_MAX_DIMS + 1}), CHARL_ERR_SHAPE);
    charl_assert_status(charl_shape_check(&(charl_shape){.ndim = -1}), CHARL_ERR_SHAPE);
}

static void test_format(void **state)
{
    (void)state;
    const int64_t m = INT64_MAX;
    char text[CHARL_SHAPE_TEXT];

    assert_string_equal(charl_shape_format(&(charl_shape){0}, text), "[]");
    assert_string_equal(charl_shape_format(&(charl_shape){3, {2, 0, 64}}, text), "[2, 0, 64]");
    assert_int_equal(strlen(charl_shape_format(&(charl_shape){6, {m, m, m, m, m, m}}, text)), 126);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dtypes),
        cmocka_unit_test(test_count_and_equal),
        cmocka_unit_test(test_check),
        cmocka_unit_test(test_format),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
