/* UTF-8: every code point there and back; what is not well-formed. */
#include "support/support.h"

#include <string.h>

#include "base/text/utf8.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_code_point),
        cmocka_unit_test(what_is_not_utf8),
        cmocka_unit_test(what_a_terminal_just_shows),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
