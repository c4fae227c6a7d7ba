#include "support/support.h"

#include <stdlib.h>
#include <string.h>

#include "base/numeric/hash.h"
#include "base/numeric/rng.h"

static void check_sha256(const void *data, size_t bytes, const char *want)
{
    char text[CHARL__SHA256_TEXT];

    assert_string_equal(charl__sha256_text(data, bytes, text), want);
    assert_string_equal(charl__sha256_portable(data, bytes, text), want);
}

/* FIPS 180-4 examples. */
static void test_sha256_examples(void **state)
{
    (void)state;
    char *million = malloc(1000000);

    assert_non_null(million);
    memset(million, 'a', 1000000);
    check_sha256("", 0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    check_sha256("abc", 3, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    check_sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56,
                 "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    check_sha256(million, 1000000, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    free(million);
}

static void test_sha256_in_pieces(void **state)
{
    (void)state;
    unsigned char data[300];

    for (size_t i = 0; i < sizeof data; i++) {
        data[i] = (unsigned char)(i * 7);
    }
    for (size_t bytes = 0; bytes <= sizeof data; bytes++) {
        char whole[CHARL__SHA256_TEXT], pieces[CHARL__SHA256_TEXT];
        unsigned char digest[CHARL__SHA256_BYTES];
        charl__sha256 s;

        charl__sha256_init(&s);
        for (size_t at = 0, n = 1; at < bytes; at += n, n = n * 3 % 71) {
            n = n < bytes - at ? n : bytes - at;
            charl__sha256_update(&s, data + at, n);
        }
        charl__sha256_final(&s, digest);
        assert_string_equal(charl__sha256_format(digest, pieces), charl__sha256_text(data, bytes, whole));
        assert_string_equal(pieces, charl__sha256_portable(data, bytes, whole));
    }
}

static void test_crc32c_check_values(void **state)
{
    (void)state;
    unsigned char data[32] = {0};

    assert_int_equal(charl__crc32c(0, "123456789", 9), 0xe3069283);
    assert_int_equal(charl__crc32c_portable(0, "123456789", 9), 0xe3069283);
    assert_int_equal(charl__crc32c(0, "", 0), 0);
    /* RFC 3720, B.4 */
    assert_int_equal(charl__crc32c(0, data, sizeof data), 0x8a9136aa);
    memset(data, 0xff, sizeof data);
    assert_int_equal(charl__crc32c(0, data, sizeof data), 0x62a8ab43);
    for (size_t i = 0; i < sizeof data; i++) {
        data[i] = (unsigned char)i;
    }
    assert_int_equal(charl__crc32c(0, data, sizeof data), 0x46dd794e);
}

/* One bit at a time, as defined. */
static uint32_t crc_by_definition(const unsigned char *p, size_t bytes)
{
    uint32_t r = 0xffffffffu;

    for (size_t i = 0; i < bytes; i++) {
        r ^= p[i];
        for (int bit = 0; bit < 8; bit++) {
            r = r & 1 ? (r >> 1) ^ 0x82F63B78u : r >> 1;
        }
    }
    return ~r;
}

static void test_crc32c_lengths_and_offsets(void **state)
{
    (void)state;
    enum { BYTES = 60000 };
    static const size_t lengths[] = {1, 7, 8, 9, 100, 24575, 24576, 24577, 49152, 49161, 59000, BYTES - 8};
    const charl__rng rng = charl__rng_key(charl_test_seed(), 0, 0);
    unsigned char *data = malloc(BYTES);

    assert_non_null(data);
    for (size_t i = 0; i < BYTES; i++) {
        data[i] = (unsigned char)charl__rng_u32(&rng, i);
    }
    for (size_t k = 0; k < sizeof lengths / sizeof *lengths; k++) {
        for (size_t offset = 0; offset < 8; offset += 3) {
            const size_t n = lengths[k], cut = n / 3;
            const uint32_t want = crc_by_definition(data + offset, n);
            uint32_t crc = charl__crc32c(0, data + offset, cut);

            assert_int_equal(charl__crc32c(0, data + offset, n), want);
            assert_int_equal(charl__crc32c_portable(0, data + offset, n), want);
            assert_int_equal(charl__crc32c(crc, data + offset + cut, n - cut), want);
        }
    }
    free(data);
}

static void test_fnv1a64(void **state)
{
    (void)state;
    assert_true(charl__fnv1a64_string("") == 0xcbf29ce484222325u);
    assert_true(charl__fnv1a64_string("a") == 0xaf63dc4c8601ec8cu);
    assert_true(charl__fnv1a64_string("foobar") == 0x85944171f73967e8u);
    assert_true(charl__fnv1a64("foobar", 6) == charl__fnv1a64_string("foobar"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sha256_examples),
        cmocka_unit_test(test_sha256_in_pieces),
        cmocka_unit_test(test_crc32c_check_values),
        cmocka_unit_test(test_crc32c_lengths_and_offsets),
        cmocka_unit_test(test_fnv1a64),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
