#include "support/support.h"

#include <stdint.h>
#include <string.h>

#include "base/alloc.h"

static void test_counted_and_zeroed(void **state)
{
    (void)state;
    unsigned char *p = NULL, *q = NULL;
    char *s = NULL;
    const long before = charl__allocated();

    charl_assert_ok(charl__alloc(0, &p));
    charl_assert_ok(charl__alloc_aligned(4096, 100, &q));
    charl_assert_ok(charl__strdup("text", &s));
    assert_int_equal(charl__live(), 3);
    assert_int_equal((uintptr_t)q % 4096, 0);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(q[i], 0);
    }
    assert_string_equal(s, "text");
    charl_assert_ok(charl__realloc(1000, &s));
    assert_string_equal(s, "text");
    assert_int_equal(charl__live(), 3);
    assert_int_equal(charl__allocated() - before, 4);
    charl_free(p);
    charl_free(q);
    charl_free(s);
    charl_free(NULL);
    assert_int_equal(charl__live(), 0);
}

static void test_overflow(void **state)
{
    (void)state;
    void *p = &p;

    charl_assert_status(charl__alloc_array(INT64_MAX, 16, &p), CHARL_ERR_NOMEM);
    assert_null(p);
    charl_assert_status(charl__alloc_array(-1, 4, &p), CHARL_ERR_NOMEM);
    charl_assert_ok(charl__alloc_array(INT64_MAX, 0, &p));
    charl_free(p);
    assert_int_equal(charl__live(), 0);
}

static void test_out_of_host_memory(void **state)
{
    (void)state;
    const size_t too_much = SIZE_MAX / 4;
    char *p = NULL, *s = NULL;

    charl_assert_status(charl__alloc(too_much, &p), CHARL_ERR_NOMEM);
    charl_assert_message("out of host memory: 4611686018427387903 bytes");
    charl_assert_status(charl__alloc_aligned(64, too_much, &p), CHARL_ERR_NOMEM);
    assert_null(p);
    charl_assert_ok(charl__strdup("kept", &s));
    charl_assert_status(charl__realloc(too_much, &s), CHARL_ERR_NOMEM);
    assert_string_equal(s, "kept");
    assert_int_equal(charl__live(), 1);
    charl_free(s);
}

static charl_status scenario(void *ctx)
{
    charl_status st = CHARL_OK;
    void *a = NULL, *b = NULL;
    char *c = NULL;

    (void)ctx;
    CHARL_TRY_CLEANUP(charl__alloc(10, &a));
    CHARL_TRY_CLEANUP(charl__alloc_aligned(64, 10, &b));
    CHARL_TRY_CLEANUP(charl__strdup("x", &c));
    CHARL_TRY_CLEANUP(charl__realloc(100, &c));
    CHARL_TRY_CLEANUP(charl__acquire("a handle"));
    charl__drop();
cleanup:
    charl_free(a);
    charl_free(b);
    charl_free(c);
    return st;
}

static void test_every_acquisition_can_fail(void **state)
{
    (void)state;
    assert_int_equal(charl_test_fail_every_acquisition(scenario, NULL), 5);
}

static void test_failed_realloc_changes_nothing(void **state)
{
    (void)state;
    char *s = NULL;

    charl_assert_ok(charl__strdup("kept", &s));
    charl__fault_after(1);
    charl_assert_status(charl__realloc(100, &s), CHARL_ERR_NOMEM);
    charl_assert_message("injected failure acquiring host memory");
    assert_string_equal(s, "kept");
    assert_int_equal(charl__live(), 1);
    charl_free(s);
}

static void test_pending(void **state)
{
    (void)state;
    assert_int_equal(charl__fault_pending(), 0);
    charl__fault_after(2);
    charl_assert_ok(charl__acquire("one"));
    assert_int_equal(charl__fault_pending(), 1);
    charl_assert_status(charl__acquire("two"), CHARL_ERR_NOMEM);
    assert_int_equal(charl__fault_pending(), 0);
    charl__drop();
}

/* An array that grows by one item keeps all of them, whatever its length, and asks for memory at 0, 16, 32, ... items only. */
static void test_grow(void **state)
{
    int64_t *a = NULL;
    long asked = charl__allocated();

    (void)state;
    for (int64_t n = 0; n < 100; n++) {
        charl_assert_ok(charl__grow(n, sizeof *a, &a));
        a[n] = n * n;
    }
    assert_int_equal(charl__allocated() - asked, 4); /* 16, 32, 64, 128 */
    for (int64_t n = 0; n < 100; n++) {
        assert_int_equal(a[n], n * n);
    }
    charl__fault_after(1);
    charl_assert_status(charl__grow(128, sizeof *a, &a), CHARL_ERR_NOMEM);
    charl__fault_after(0);
    assert_int_equal(a[99], 99 * 99);
    charl_assert_status(charl__grow(INT64_C(1) << 62, sizeof *a, &a), CHARL_ERR_NOMEM);
    charl_free(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counted_and_zeroed),
        cmocka_unit_test(test_overflow),
        cmocka_unit_test(test_out_of_host_memory),
        cmocka_unit_test(test_every_acquisition_can_fail),
        cmocka_unit_test(test_failed_realloc_changes_nothing),
        cmocka_unit_test(test_grow),
        cmocka_unit_test(test_pending),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
