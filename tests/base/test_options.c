/* Options of a program that was compiled with other headers. */
#include "support/support.h"

#include <string.h>

#include "base/options.h"
#include "charl/version.h"

typedef struct options {
    size_t struct_size;
    int32_t first;
    const char *second;
    double third;
} options;

static charl_status read(const options *given, options *out)
{
    CHARL__OPTIONS(options, given);
    *out = *given;
    return CHARL_OK;
}

static void test_same(void **state)
{
    const options o = {sizeof o, .first = 1, .second = "a", .third = 2};
    options got;

    (void)state;
    charl_assert_ok(read(&o, &got));
    assert_int_equal(got.struct_size, sizeof got);
    assert_int_equal(got.first, 1);
    assert_ptr_equal(got.second, o.second);
    assert_true(got.third == 2);
}

/* The members that it does not have are 0, whatever lies behind it. */
static void test_older(void **state)
{
    const options o = {offsetof(options, third), .first = 1, .second = "a", .third = 2};
    options got;

    (void)state;
    charl_assert_ok(read(&o, &got));
    assert_int_equal(got.first, 1);
    assert_string_equal(got.second, "a");
    assert_true(got.third == 0);
    assert_int_equal(got.struct_size, sizeof got);
}

static void test_newer(void **state)
{
    struct {
        options known;
        int64_t more[2];
    } o = {{sizeof o, .first = 1}, {0, 0}};
    options got;

    (void)state;
    charl_assert_ok(read(&o.known, &got));
    assert_int_equal(got.first, 1);
    o.more[1] = 1;
    charl_assert_status(read(&o.known, &got), CHARL_ERR_INVALID);
    assert_non_null(strstr(charl_error_message(), "a member that charl " CHARL_VERSION " does not have"));
}

/* The padding of a version holds anything, and is no member of an older or newer one. */
static void test_padding(void **state)
{
    typedef struct ends_in_padding {
        size_t struct_size;
        int64_t first;
        bool second; /* and seven bytes */
    } ends_in_padding;
    typedef struct later {
        ends_in_padding known;
        int64_t third;
    } later;
    later o, got;

    (void)state;
    memset(&o, 0xff, sizeof o);
    o.known.struct_size = sizeof o;
    o.known.first = 1;
    o.known.second = true;
    o.third = 0;
    charl_assert_ok(charl__options_read("later", &o, sizeof got.known, &got.known));
    assert_int_equal(got.known.first, 1);
    assert_true(got.known.second);

    o.known.struct_size = sizeof o.known;
    o.third = 5; /* it lies behind what the program has */
    charl_assert_ok(charl__options_read("later", &o, sizeof got, &got));
    assert_int_equal(got.known.first, 1);
    assert_int_equal(got.third, 0);
}

static void test_not_set(void **state)
{
    const options o = {.first = 1};
    options got;

    (void)state;
    charl_assert_status(read(&o, &got), CHARL_ERR_INVALID);
    assert_string_equal(charl_error_message(), "options.struct_size is 0: set it to sizeof(options)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same),    cmocka_unit_test(test_older),   cmocka_unit_test(test_newer),
        cmocka_unit_test(test_padding), cmocka_unit_test(test_not_set),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
