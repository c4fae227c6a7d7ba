/* The wire format, against bytes worked out by hand from its definition. */
#include <string.h>

#include "base/text/protobuf.h"
#include "support/support.h"

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
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_fields), cmocka_unit_test(test_length_of_two_bytes),
                                       cmocka_unit_test(test_nested)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
