#include "support/support.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text/text.h"
#include "charl/text.h"

static void test_grows(void **state)
{
    (void)state;
    charl__text t = {0};
    char *stolen;

    assert_string_equal(charl__text_string(&t), "");
    for (int i = 0; i < 1000; i++) {
        charl_assert_ok(charl__text_printf(&t, "%03d,", i));
    }
    assert_int_equal(t.length, 4000);
    assert_memory_equal(t.data + 3996, "999,", 5);
    charl_assert_ok(charl__text_append(&t, "a\0b", 3));
    assert_int_equal(t.length, 4003);
    assert_memory_equal(t.data + 4000, "a\0b", 4);
    charl__text_clear(&t);
    assert_string_equal(charl__text_string(&t), "");
    charl_assert_ok(charl__text_append(&t, NULL, 0));
    charl_assert_ok(charl__text_printf(&t, "%s", "x"));
    stolen = charl__text_steal(&t);
    assert_string_equal(stolen, "x");
    assert_null(charl__text_steal(&t));
    charl_free(stolen);
    charl__text_fini(&t);
    charl__text_clear(&t);
    assert_int_equal(charl__live(), 0);
}

static void test_too_large(void **state)
{
    (void)state;
    charl__text t = {0};

    charl_assert_status(charl__text_append(&t, "", SIZE_MAX / 2), CHARL_ERR_NOMEM);
    assert_int_equal(t.length, 0);
    charl__text_fini(&t);
}

static void check_json(const char *in, const char *want)
{
    charl__text t = {0};

    charl_assert_ok(charl__text_json(&t, in));
    assert_string_equal(charl__text_string(&t), want);
    charl__text_fini(&t);
}

static void test_json_string(void **state)
{
    (void)state;
    check_json("", "\"\"");
    check_json("a\"b\\c/", "\"a\\\"b\\\\c/\"");
    check_json("\b\f\n\r\t\x01\x1f\x7f", "\"\\b\\f\\n\\r\\t\\u0001\\u001f\\u007f\"");
    check_json("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"");
    check_json("\xc2\x9b\xe2\x80\xae\xf3\xa0\x81\x81", "\"\\u009b\\u202e\\udb40\\udc41\"");
    check_json("\xff", "\"\xef\xbf\xbd\"");
    check_json("\xc0\x80", "\"\xef\xbf\xbd\xef\xbf\xbd\"");                 /* overlong */
    check_json("\xe0\x80\x80", "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""); /* overlong */
    check_json("\xed\xa0\x80", "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""); /* surrogate */
    check_json("\xf4\x90\x80\x80", "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"");
    check_json("\xf0\x9f\x98", "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""); /* cut off */
    check_json("\xe2\x82", "\"\xef\xbf\xbd\xef\xbf\xbd\"");
}

static void test_json_number(void **state)
{
    (void)state;
    static const double values[] = {0, 1, -1.5, 0.1, 1.0 / 3, 1e300, 5e-324, 123456789012345678.0};
    charl__text t = {0};

    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        charl__text_clear(&t);
        charl_assert_ok(charl__text_json_number(&t, values[i]));
        assert_true(strtod(charl__text_string(&t), NULL) == values[i]);
    }
    charl__text_clear(&t);
    charl_assert_ok(charl__text_json_number(&t, 0.1));
    charl_assert_ok(charl__text_json_number(&t, (double)NAN));
    charl_assert_ok(charl__text_json_number(&t, -HUGE_VAL));
    assert_string_equal(charl__text_string(&t), "0.1nullnull");
    charl__text_fini(&t);
}

/* The examples of RFC 4648, and bytes that need all 8 bits. */
static void test_base64(void **state)
{
    static const struct {
        const char *bytes, *want;
    } cases[] = {{"", ""},        {"f", "Zg=="},          {"fo", "Zm8="},
                 {"foo", "Zm9v"}, {"foobar", "Zm9vYmFy"}, {"\xff\xfe\xfb", "//77"}};
    charl__text t = {0};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        charl__text_clear(&t);
        charl_assert_ok(charl__text_base64(&t, cases[i].bytes, strlen(cases[i].bytes)));
        assert_string_equal(charl__text_string(&t), cases[i].want);
    }
    charl__text_fini(&t);
}

static charl_status build(void *ctx)
{
    charl_status st = charl__text_json(ctx, "a string of some length\n");
    charl__text *t = ctx;

    if (st == CHARL_OK) {
        st = charl__text_printf(t, "%500d", 7);
    }
    if (st == CHARL_OK) {
        st = charl__text_json_number(t, 2.5);
    }
    charl__text_fini(t);
    return st;
}

static void test_out_of_memory(void **state)
{
    (void)state;
    charl__text t = {0};

    assert_int_equal(charl_test_fail_every_acquisition(build, &t), 2);
}

static void test_failed_append_keeps_the_text(void **state)
{
    (void)state;
    static char wide[1000];
    charl__text t = {0};

    memset(wide, 'w', sizeof wide - 1);
    charl_assert_ok(charl__text_printf(&t, "kept"));
    charl__fault_after(1);
    charl_assert_status(charl__text_json(&t, wide), CHARL_ERR_NOMEM);
    assert_string_equal(charl__text_string(&t), "kept");
    charl__fault_after(1);
    charl_assert_status(charl__text_printf(&t, "%s", wide), CHARL_ERR_NOMEM);
    assert_string_equal(charl__text_string(&t), "kept");
    charl__text_fini(&t);
}

static void test_reserve(void **state)
{
    charl__text t = {0};
    const char *data;

    (void)state;
    charl_assert_ok(charl__text_reserve(&t, 5000));
    assert_string_equal(charl__text_string(&t), "");
    data = t.data;
    for (int i = 0; i < 500; i++) {
        charl_assert_ok(charl__text_append(&t, "0123456789", 10));
    }
    assert_ptr_equal(t.data, data);
    charl_assert_ok(charl__text_reserve(&t, 10));
    assert_int_equal(t.length, 5000);
    charl_assert_status(charl__text_reserve(&t, SIZE_MAX / 2), CHARL_ERR_NOMEM);
    charl__text_fini(&t);
}

static void test_ends_in(void **state)
{
    (void)state;
    assert_true(charl__ends_in("a.onnx", ".onnx"));
    assert_false(charl__ends_in(".onnx", ".onnx"));
    assert_false(charl__ends_in("a.onnx", ".h5"));
    assert_false(charl__ends_in("", "x"));
}

static void test_nearest_words(void **state)
{
    static const struct {
        const char *word, *candidate;
        int distance; /* -1: not near */
    } cases[] = {
        {"Adam", "adam", 0},
        {"batch-size", "batch_size", 0},
        {"AdamW", "adamw", 0},
        {"fp16", "f16", 0},
        {"FP16", "f16", 0},
        {"swish", "silu", 0},
        {"val/acc", "val/accuracy", 0},
        {"train/acc", "val/accuracy", -1},
        {"epohcs", "epochs", 1},
        {"f64", "f32", -1},
        {"x", "y", -1},
        {"", "a", -1},
        {"layer", "learning_rate", -1},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int best = INT_MAX;

        assert_int_equal(charl_text_closer(cases[i].word, cases[i].candidate, &best), cases[i].distance >= 0);
        assert_int_equal(best, cases[i].distance >= 0 ? cases[i].distance : INT_MAX);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nearest_words), cmocka_unit_test(test_reserve),
        cmocka_unit_test(test_ends_in),       cmocka_unit_test(test_grows),
        cmocka_unit_test(test_too_large),     cmocka_unit_test(test_json_string),
        cmocka_unit_test(test_json_number),   cmocka_unit_test(test_base64),
        cmocka_unit_test(test_out_of_memory), cmocka_unit_test(test_failed_append_keeps_the_text),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
