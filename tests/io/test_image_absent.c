/* A build without the image libraries says so: this program is linked with the decoders as they are compiled then. */
#include "support/support.h"

#include <stdio.h>

#include "charl/image.h"

static void check(const char *name, const unsigned char *data, size_t bytes, const char *message)
{
    const charl_image_format f = {3, 4, 4, CHARL_FIT_CROP};
    char *dir = charl_test_tempdir();
    const char *path = charl_test_path(dir, name);
    FILE *file = fopen(path, "wb");
    unsigned char out[48];

    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, bytes, file), bytes);
    fclose(file);
    charl_assert_status(charl_image_read(path, &f, out), CHARL_ERR_DATA);
    charl_assert_message(message);
    charl_test_tempdir_remove(dir);
}

static void missing_libraries_are_named(void **state)
{
    static const unsigned char png[] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
    static const unsigned char jpeg[] = {0xff, 0xd8, 0xff, 0xe0};

    (void)state;
    check("a.png", png, sizeof png, "a.png: this charl was built without PNG; HINT install libpng");
    check("a.jpg", jpeg, sizeof jpeg, "a.jpg: this charl was built without JPEG; HINT install libjpeg");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(missing_libraries_are_named)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
