/* src/base/text: texts that grow, UTF-8, the writer of protobuf. */
#include "support/support.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text/protobuf.h"
#include "base/text/text.h"
#include "base/text/utf8.h"
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

/* UTF-8: every code point there and back; what is not well-formed. */

static void every_code_point(void **state)
{
    unsigned char s[5];

    (void)state;
    for (uint32_t point = 0; point < 0x110000; point++) {
        const size_t n = charl__utf8_put(point, s);

        if (point >= 0xd800 && point < 0xe000) {
            assert_int_equal(n, 0);
            continue;
        }
        assert_int_equal(n, point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4);
        assert_int_equal(charl__utf8_length(s, n), n);
        assert_int_equal(charl__utf8_length(s, n - 1), 0);
        assert_int_equal(charl__utf8_point(s, n), point);
    }
    assert_int_equal(charl__utf8_put(0x110000, s), 0);
}

static void what_is_not_utf8(void **state)
{
    static const char *const bad[] = {"\x80",         "\xc0\x80",         "\xc1\xbf", "\xe0\x9f\xbf",
                                      "\xed\xa0\x80", "\xf0\x8f\xbf\xbf", "\xf5",     "\xf4\x90\x80\x80",
                                      "\xe2\x28\xa1", "\xe2\x82\x28",     "\xff"};

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(charl__utf8_length((const unsigned char *)bad[i], strlen(bad[i])), 0);
    }
    assert_int_equal(charl__utf8_valid("a\xc3\xa4z\xe2\x82", 6), 4);
    assert_int_equal(charl__utf8_valid("", 0), 0);
}

static void what_a_terminal_just_shows(void **state)
{
    static const char *const shown[] = {
        "a", " ", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80", "\xe2\x80\x8d" /* joiner */, "\xd7\xa9" /* Hebrew */};
    static const char *const hidden[] = {"\x01",
                                         "\x1b",
                                         "\x7f",
                                         "\xc2\x9b" /* C1: CSI */,
                                         "\xc2\xad",
                                         "\xe2\x80\x8b" /* zero-width space */,
                                         "\xe2\x80\xa8" /* line separator */,
                                         "\xe2\x80\xae" /* right-to-left override */,
                                         "\xe2\x81\xa6" /* isolate */,
                                         "\xef\xbb\xbf",
                                         "\xf3\xa0\x81\x81" /* tag */,
                                         "\x9b" /* no UTF-8 */};
    char text[] = "a\xc2\x9b"
                  "b\t\xe2\x80\xae\xff\n\x1b[2J\xc3\xa9\xe2\x82";
    bool visible;
    uint32_t point = 0;

    (void)state;
    for (size_t i = 0; i < sizeof shown / sizeof *shown; i++) {
        assert_int_equal(charl_text_next(shown[i], strlen(shown[i]), &visible), strlen(shown[i]));
        assert_true(visible);
    }
    for (size_t i = 0; i < sizeof hidden / sizeof *hidden; i++) {
        assert_int_equal(charl_text_next(hidden[i], strlen(hidden[i]), &visible), strlen(hidden[i]));
        assert_false(visible);
    }
    assert_ptr_equal(charl__utf8_find_hidden(text, strlen(text), &point), text + 1);
    assert_int_equal(point, 0x9b);
    charl__utf8_make_visible(text);
    assert_string_equal(text, "a?b\t??\n?[2J\xc3\xa9??");
    assert_null(charl__utf8_find_hidden(text, strlen(text), &point));
}

/* The wire format, against bytes worked out by hand from its definition. */

static void expect(charl__text *t, const char *bytes, size_t n)
{
    assert_int_equal(t->length, n);
    assert_memory_equal(t->data, bytes, n);
    charl__text_clear(t);
}

static void test_fields(void **state)
{
    charl__text t = {0};

    (void)state;
    charl_assert_ok(charl__protobuf_int(&t, 1, 150));
    expect(&t, "\x08\x96\x01", 3);
    charl_assert_ok(charl__protobuf_int(&t, 1, 0));
    expect(&t, "\x08\x00", 2);
    charl_assert_ok(charl__protobuf_int(&t, 16, -1)); /* two bytes of key, ten of value */
    expect(&t, "\x80\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 12);
    charl_assert_ok(charl__protobuf_int(&t, 2, INT64_MAX));
    expect(&t, "\x10\xff\xff\xff\xff\xff\xff\xff\xff\x7f", 10);
    charl_assert_ok(charl__protobuf_float(&t, 2, 1.5F));
    expect(&t, "\x15\x00\x00\xc0\x3f", 5);
    charl_assert_ok(charl__protobuf_string(&t, 2, "testing"));
    expect(&t, "\x12\x07testing", 9);
    charl_assert_ok(charl__protobuf_string(&t, 2, ""));
    expect(&t, "\x12\x00", 2);
    charl_assert_ok(charl__protobuf_bytes(&t, 3, "\0\1", 2));
    expect(&t, "\x1a\x02\0\1", 4);
    charl_assert_ok(charl__protobuf_int(&t, 1, 150));
    charl_assert_ok(charl__protobuf_nest(&t, 3, 0));
    expect(&t, "\x1a\x03\x08\x96\x01", 5);
    charl_assert_ok(charl__protobuf_nest(&t, 3, 0));
    expect(&t, "\x1a\x00", 2);
    charl__text_fini(&t);
}

static void test_length_of_two_bytes(void **state)
{
    charl__text t = {0};
    char text[301];

    (void)state;
    memset(text, 'x', 300);
    text[300] = '\0';
    charl_assert_ok(charl__protobuf_string(&t, 1, text));
    assert_int_equal(t.length, 303);
    assert_memory_equal(t.data, "\x0a\xac\x02x", 4);
    charl__text_fini(&t);
}

/* A message in a message, behind another field; the outer one needs two bytes for its length. */
static void test_nested(void **state)
{
    charl__text t = {0};
    char text[201];

    (void)state;
    memset(text, 'x', 200);
    text[200] = '\0';
    charl_assert_ok(charl__protobuf_int(&t, 1, 1));
    charl_assert_ok(charl__protobuf_int(&t, 4, 2));
    charl_assert_ok(charl__protobuf_string(&t, 5, text));
    charl_assert_ok(charl__protobuf_nest(&t, 6, 4));
    charl_assert_ok(charl__protobuf_nest(&t, 3, 2));
    assert_int_equal(t.length, 2 + 3 + 2 + 3 + 203);
    assert_memory_equal(t.data, "\x08\x01\x1a\xd0\x01\x20\x02\x32\xcb\x01\x2a\xc8\x01x", 14);
    charl__text_fini(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nearest_words),
        cmocka_unit_test(test_reserve),
        cmocka_unit_test(test_ends_in),
        cmocka_unit_test(test_grows),
        cmocka_unit_test(test_too_large),
        cmocka_unit_test(test_json_string),
        cmocka_unit_test(test_json_number),
        cmocka_unit_test(test_base64),
        cmocka_unit_test(test_out_of_memory),
        cmocka_unit_test(test_failed_append_keeps_the_text),
        cmocka_unit_test(every_code_point),
        cmocka_unit_test(what_is_not_utf8),
        cmocka_unit_test(what_a_terminal_just_shows),
        cmocka_unit_test(test_fields),
        cmocka_unit_test(test_length_of_two_bytes),
        cmocka_unit_test(test_nested),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
