/* Image files: every kind of PNG and JPEG, bringing to size, and what is refused. */
#include "io/scratch.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "charl/image.h"
#include "io/image_sample.h"

static const char *path_of(const char *name)
{
    return charl_test_path(dir, name);
}

static charl_image_format size(int64_t channels, int64_t height, int64_t width)
{
    return (charl_image_format){channels, height, width, CHARL_FIT_CROP};
}

static charl_status read_as(const char *name, charl_image_format f, unsigned char *out)
{
    return charl_image_read(path_of(name), &f, out);
}

/* 3 x 2 pixels, all different. */
static const unsigned char six[] = {10, 20, 30, 40, 50, 60, 70, 80, 90, 1, 2, 3, 4, 250, 200, 255, 128, 0};

static void right_size_is_copied_exactly(void **state)
{
    unsigned char out[18], gray[6];

    (void)state;
    put_rgb_png(path_of("a.png"), 3, 2, six);
    charl_assert_ok(read_as("a.png", size(3, 2, 3), out));
    charl_assert_ok(read_as("a.png", size(1, 2, 3), gray));
    for (int i = 0; i < 6; i++) {
        const double luma = 0.299 * six[3 * i] + 0.587 * six[3 * i + 1] + 0.114 * six[3 * i + 2];

        for (int c = 0; c < 3; c++) {
            assert_int_equal(out[6 * c + i], six[3 * i + c]);
        }
        assert_int_equal(gray[i], (int)(luma + 0.5));
    }
}

static void every_kind_of_png_is_read(void **state)
{
    static const unsigned char gray[] = {0, 100, 255, 7};
    static const unsigned char gray16[] = {0, 0, 100, 100, 255, 255, 7, 7};
    static const unsigned char packed[] = {0x1b}; /* 0 1 2 3 in two bits each */
    static const unsigned char rgba[] = {200, 0, 0, 255, 0, 0, 0, 0};
    static const png_sample palette = {
        4, 1, 2, PNG_COLOR_TYPE_PALETTE, false, 4, {{9, 8, 7}, {1, 2, 3}, {255, 0, 0}, {0, 0, 255}}};
    unsigned char out[18];

    (void)state;
    put_png(path_of("g.png"), &(png_sample){.width = 4, .height = 1, .depth = 8}, gray, 4);
    charl_assert_ok(read_as("g.png", size(3, 1, 4), out));
    assert_memory_equal(out, gray, 4);
    assert_memory_equal(out + 8, gray, 4);
    put_png(path_of("g16.png"), &(png_sample){.width = 4, .height = 1, .depth = 16}, gray16, 8);
    charl_assert_ok(read_as("g16.png", size(1, 1, 4), out));
    assert_memory_equal(out, gray, 4);
    put_png(path_of("g2.png"), &(png_sample){.width = 4, .height = 1, .depth = 2}, packed, 1);
    charl_assert_ok(read_as("g2.png", size(1, 1, 4), out));
    assert_memory_equal(out, ((unsigned char[]){0, 85, 170, 255}), 4);
    put_png(path_of("p.png"), &palette, packed, 1);
    charl_assert_ok(read_as("p.png", size(3, 1, 4), out));
    assert_memory_equal(out, ((unsigned char[]){9, 1, 255, 0, 8, 2, 0, 0, 7, 3, 0, 255}), 12);
    put_png(path_of("t.png"), &(png_sample){2, 1, 8, PNG_COLOR_TYPE_RGBA, false, 0, {{0, 0, 0}}}, rgba, 8);
    charl_assert_ok(read_as("t.png", size(3, 1, 2), out)); /* what is transparent is white */
    assert_memory_equal(out, ((unsigned char[]){200, 255, 0, 255, 0, 255}), 6);
    put_png(path_of("i.png"), &(png_sample){3, 2, 8, PNG_COLOR_TYPE_RGB, true, 0, {{0, 0, 0}}}, six, 9);
    charl_assert_ok(read_as("i.png", size(3, 2, 3), out));
    assert_int_equal(out[4], 4);
}

/* Smooth, so that JPEG keeps it nearly. */
static void fill_smooth(unsigned char *p, int width, int height, int channels)
{
    for (int i = 0; i < width * height * channels; i++) {
        const int x = i / channels % width, y = i / channels / width;

        p[i] = (unsigned char)(2 * x + 3 * y + 20 * (i % channels));
    }
}

static void jpeg_is_read(void **state)
{
    unsigned char pixels[40 * 24 * 3], out[40 * 24 * 3];
    const charl_image_format f = size(3, 24, 40);

    (void)state;
    for (int kind = 0; kind < 3; kind++) {
        const int channels = kind == 0 ? 1 : 3;
        int worst = 0;

        fill_smooth(pixels, 40, 24, channels);
        put_jpeg(path_of("a.JPG"), 40, 24, channels == 1 ? JCS_GRAYSCALE : JCS_RGB, kind == 2, pixels);
        charl_assert_ok(read_as("a.JPG", f, out));
        for (int i = 0; i < 960; i++) {
            for (int c = 0; c < 3; c++) {
                const int off = out[960 * c + i] - pixels[channels * i + c % channels];

                worst = abs(off) > worst ? abs(off) : worst;
            }
        }
        assert_in_range(worst, 0, 4);
    }
}

/* Puts `exif` behind the first marker of the JPEG file `data`. */
static void put_with_exif(const unsigned char *data, size_t n, const unsigned char *exif)
{
    static unsigned char file[65536];

    memcpy(file, data, 2);
    memcpy(file + 2, exif, 36);
    memcpy(file + 38, data + 2, n - 2);
    put_file(path_of("o.jpg"), file, n + 36);
}

/* The corner that is bright, clockwise from top left. */
static int bright_corner(int64_t height, int64_t width)
{
    unsigned char out[32 * 16];
    int found = -1;

    charl_assert_ok(read_as("o.jpg", size(1, height, width), out));
    for (int c = 0; c < 4; c++) {
        const int64_t y = c < 2 ? 0 : height - 1, x = c == 1 || c == 2 ? width - 1 : 0;

        if (out[y * width + x] > 200) {
            assert_int_equal(found, -1);
            found = c;
        }
    }
    return found;
}

/* A photo with one bright corner, at every orientation and in both byte orders. */
static void photos_are_turned_upright(void **state)
{
    static const int corner[9] = {0, 0, 1, 2, 3, 0, 1, 2, 3};
    static const unsigned char big[] = {'M', 'M', 0, 42, 0, 0, 0, 8, 0, 1, 1, 0x12, 0, 3, 0, 0, 0, 1};
    static unsigned char data[65536], pixels[32 * 16];
    unsigned char exif[36] = {0xff, 0xe1, 0, 34, 'E', 'x', 'i', 'f',  0, 0, 'I', 'I', 42,
                              0,    8,    0, 0,  0,   1,   0,   0x12, 1, 3, 0,   1,   0};
    size_t n;

    (void)state;
    for (int i = 0; i < 32 * 16; i++) {
        pixels[i] = i / 32 < 8 && i % 32 < 16 ? 255 : 0; /* top left */
    }
    put_jpeg(path_of("o.jpg"), 32, 16, JCS_GRAYSCALE, false, pixels);
    n = get_file(path_of("o.jpg"), data, sizeof data);
    for (int o = 0; o <= 8; o++) { /* 0 is none */
        exif[28] = (unsigned char)o;
        put_with_exif(data, n, exif);
        assert_int_equal(bright_corner(o >= 5 ? 32 : 16, o >= 5 ? 16 : 32), corner[o]);
    }
    memcpy(exif + 10, big, sizeof big);
    exif[28] = 0;
    exif[29] = 6;
    put_with_exif(data, n, exif);
    assert_int_equal(bright_corner(32, 16), 1);
    exif[14] = 0xff; /* a directory far outside */
    put_with_exif(data, n, exif);
    assert_int_equal(bright_corner(16, 32), 0);
    exif[4] = 'X'; /* something else */
    put_with_exif(data, n, exif);
    assert_int_equal(bright_corner(16, 32), 0);
}

static void pictures_are_brought_to_size(void **state)
{
    /* 6 x 2: black, white, black in thirds. */
    unsigned char pixels[36], out[64];
    charl_image_format f = size(1, 2, 2);

    (void)state;
    for (int i = 0; i < 36; i++) {
        pixels[i] = i / 3 % 6 / 2 == 1 ? 255 : 0;
    }
    put_rgb_png(path_of("wide.png"), 6, 2, pixels);
    charl_assert_ok(read_as("wide.png", f, out)); /* the white middle */
    assert_memory_equal(out, "\377\377\377\377", 4);
    f.fit = CHARL_FIT_PAD; /* 2 x 1 in the upper row: a third of black, white, black each */
    charl_assert_ok(read_as("wide.png", f, out));
    assert_true(out[0] == out[1] && out[0] > 60 && out[0] < 110);
    assert_true(out[2] == 0 && out[3] == 0);
    f = (charl_image_format){1, 1, 3, CHARL_FIT_STRETCH};
    charl_assert_ok(read_as("wide.png", f, out));
    assert_true(out[1] > 180 && out[0] < 40 && out[2] == out[0]);
    f = (charl_image_format){1, 2, 12, CHARL_FIT_STRETCH}; /* grows: between, in order */
    charl_assert_ok(read_as("wide.png", f, out));
    assert_true(out[0] == 0 && out[3] == 64 && out[4] == 191 && out[5] == 255);
    f = size(3, 4, 4); /* one row is enough for any size */
    charl_assert_ok(read_as("wide.png", f, out));
}

static void a_mean_keeps_its_brightness(void **state)
{
    static unsigned char pixels[64 * 63 * 3], out[49];
    const charl_image_format f = {1, 7, 7, CHARL_FIT_STRETCH};
    double sum = 0;

    (void)state;
    for (int i = 0; i < 64 * 63 * 3; i++) {
        pixels[i] = i / 3 % 2 ? 200 : 100;
    }
    put_rgb_png(path_of("stripes.png"), 63, 64, pixels);
    charl_assert_ok(read_as("stripes.png", f, out));
    for (int i = 0; i < 49; i++) {
        assert_in_range(out[i], 140, 160); /* no stripe is picked out */
        sum += out[i];
    }
    assert_true(sum / 49 > 149 && sum / 49 < 151);
}

static void patch_u32(unsigned char *p, uint32_t v)
{
    for (int i = 0; i < 4; i++) {
        p[i] = (unsigned char)(v >> (24 - 8 * i));
    }
}

/* Where the frame header of a JPEG file begins. */
static size_t frame_of(const unsigned char *data)
{
    size_t i = 2;

    while (data[i + 1] != 0xc0) {
        i += 2 + ((size_t)data[i + 2] << 8 | data[i + 3]);
    }
    return i;
}

static void huge_pictures_are_refused_unread(void **state)
{
    static unsigned char data[4096], pixels[16 * 16];
    const charl_image_format f = size(1, 4, 4);
    unsigned char out[16];
    size_t n, i;

    (void)state;
    put_rgb_png(path_of("bomb.png"), 3, 2, six);
    n = get_file(path_of("bomb.png"), data, sizeof data);
    patch_u32(data + 16, 100000);
    patch_u32(data + 20, 100000);
    patch_u32(data + 29, (uint32_t)crc32(0, data + 12, 17));
    put_file(path_of("bomb.png"), data, n);
    charl_assert_status(read_as("bomb.png", f, out), CHARL_ERR_DATA);
    charl_assert_message("bomb.png: 100000 x 100000 pixels; at most 67108864 are supported");
    put_jpeg(path_of("bomb.jpg"), 16, 16, JCS_GRAYSCALE, false, pixels);
    n = get_file(path_of("bomb.jpg"), data, sizeof data);
    i = frame_of(data);
    memset(data + i + 5, 0xfe, 4);
    put_file(path_of("bomb.jpg"), data, n);
    charl_assert_status(read_as("bomb.jpg", f, out), CHARL_ERR_DATA);
    charl_assert_message("bomb.jpg: 65278 x 65278 pixels");
}

static void damaged_files_are_refused(void **state)
{
    static unsigned char data[65536], pixels[40 * 24 * 3];
    const charl_image_format f = size(3, 8, 8);
    unsigned char out[192];
    size_t n;

    (void)state;
    fill_smooth(pixels, 40, 24, 3);
    put_rgb_png(path_of("d.png"), 40, 24, pixels);
    n = get_file(path_of("d.png"), data, sizeof data);
    put_file(path_of("cut.png"), data, n / 2);
    charl_assert_status(read_as("cut.png", f, out), CHARL_ERR_DATA);
    charl_assert_message("cut.png: damaged or truncated PNG file");
    data[n / 2] ^= 0x55;
    put_file(path_of("bad.png"), data, n);
    charl_assert_status(read_as("bad.png", f, out), CHARL_ERR_DATA);
    charl_assert_message("bad.png: damaged or truncated PNG file");
    put_file(path_of("head.png"), data, 12);
    charl_assert_status(read_as("head.png", f, out), CHARL_ERR_DATA);
    put_jpeg(path_of("d.jpg"), 40, 24, JCS_RGB, false, pixels);
    n = get_file(path_of("d.jpg"), data, sizeof data);
    for (size_t cut = 3; cut < n; cut += n / 7) {
        put_file(path_of("cut.jpg"), data, cut);
        charl_assert_status(read_as("cut.jpg", f, out), CHARL_ERR_DATA);
        charl_assert_message("cut.jpg: damaged or truncated JPEG file");
    }
}

/* As damage does not show there. */
static void arithmetic_coding_is_refused(void **state)
{
    static unsigned char data[65536], pixels[16 * 16];
    unsigned char out[16];
    size_t n;

    (void)state;
    put_jpeg(path_of("arithmetic.jpg"), 16, 16, JCS_GRAYSCALE, false, pixels);
    n = get_file(path_of("arithmetic.jpg"), data, sizeof data);
    data[frame_of(data) + 1] = 0xc9; /* extended sequential, arithmetic */
    put_file(path_of("arithmetic.jpg"), data, n);
    charl_assert_status(read_as("arithmetic.jpg", size(1, 4, 4), out), CHARL_ERR_DATA);
    charl_assert_message("arithmetic.jpg: JPEG files with arithmetic coding are not read");
}

/* Ink to light, R = (255 - C) (255 - K) / 255, of files that hold 255 - ink; the damaged one leaks nothing. */
static void pictures_for_print_are_read(void **state)
{
    static const unsigned char ink[4][4] = {{255, 255, 255, 255}, {200, 100, 50, 128}, {0, 90, 255, 255}, {9, 9, 9, 0}};
    static unsigned char data[65536], pixels[8 * 8 * 4];
    const charl_image_format f = size(3, 8, 8);
    unsigned char out[192];
    size_t n;

    (void)state;
    for (int k = 0; k < 4; k++) {
        for (size_t i = 0; i < sizeof pixels; i++) {
            pixels[i] = ink[k][i % 4];
        }
        put_jpeg(path_of("print.jpg"), 8, 8, JCS_CMYK, false, pixels);
        charl_assert_ok(read_as("print.jpg", f, out));
        for (int c = 0; c < 3; c++) {
            const int want = ink[k][c] * ink[k][3] / 255;

            assert_in_range(out[64 * c + 27], want > 2 ? want - 2 : 0, want + 2);
        }
    }
    n = get_file(path_of("print.jpg"), data, sizeof data);
    put_file(path_of("print.jpg"), data, n - 9);
    charl_assert_status(read_as("print.jpg", f, out), CHARL_ERR_DATA);
}

static void other_things_are_refused(void **state)
{
    const charl_image_format f = size(3, 8, 8);
    unsigned char out[192];

    (void)state;
    put_file(path_of("text.png"), "not a picture", 13);
    charl_assert_status(read_as("text.png", f, out), CHARL_ERR_DATA);
    charl_assert_message("text.png is a text, not a PNG or JPEG file");
    put_file(path_of("empty.png"), "", 0);
    charl_assert_status(read_as("empty.png", f, out), CHARL_ERR_DATA);
    charl_assert_message("empty.png: the file is empty");
    charl_assert_status(read_as("none.png", f, out), CHARL_ERR_DATA);
    charl_assert_message("none.png: cannot be opened");
    assert_int_equal(mkfifo(path_of("pipe.png"), 0600), 0);
    charl_assert_status(read_as("pipe.png", f, out), CHARL_ERR_DATA);
    charl_assert_message("pipe.png: not a regular file");
    assert_int_equal(truncate(path_of("empty.png"), (off_t)(1 << 28) + 1), 0);
    charl_assert_status(read_as("empty.png", f, out), CHARL_ERR_DATA);
    charl_assert_message("empty.png: larger than 268435456 bytes");
    assert_int_equal(charl_image_fit_of("zoom"), CHARL_FIT_COUNT);
    assert_string_equal(charl_image_fit_name(charl_image_fit_of("pad")), "pad");
    assert_string_equal(charl_image_fit_name(CHARL_FIT_COUNT), "?");
}

static void files_of_a_folder_are_sorted(void **state)
{
    static const char *const names[] = {"b.png", "a.JPeg", "c.jpg", ".hidden.png", "notes.txt"};
    charl_image_files files = {0};
    char folder[512];

    (void)state;
    snprintf(folder, sizeof folder, "%s", path_of("folder"));
    assert_int_equal(mkdir(folder, 0700), 0);
    charl_assert_status(charl_image_files_add(&files, folder), CHARL_ERR_DATA);
    charl_assert_message("there are no .png, .jpg or .jpeg files in this folder");
    for (int i = 0; i < 5; i++) {
        put_file(charl_test_path(folder, names[i]), "x", 1);
    }
    charl_assert_ok(charl_image_files_add(&files, charl_test_path(folder, "notes.txt")));
    charl_assert_ok(charl_image_files_add(&files, folder));
    assert_int_equal(files.count, 4);
    assert_string_equal(strrchr(files.paths[1], '/'), "/a.JPeg");
    assert_string_equal(strrchr(files.paths[3], '/'), "/c.jpg");
    charl_assert_status(charl_image_files_add(&files, path_of("nowhere")), CHARL_ERR_DATA);
    put_file(charl_test_path(folder, "old.gif"), "x", 1);
    charl_assert_status(charl_image_files_add(&files, folder), CHARL_ERR_DATA);
    charl_assert_message("folder/old.gif: only .png, .jpg and .jpeg images are read");
    charl_image_files_fini(&files);
}

static charl_status read_both(void *ctx)
{
    const charl_image_format f = size(3, 5, 5);
    unsigned char out[75];
    const char *const *paths = ctx;
    const charl_status st = charl_image_read(paths[0], &f, out);

    return st == CHARL_OK ? charl_image_read(paths[1], &f, out) : st;
}

static void every_acquisition_may_fail(void **state)
{
    static char paths[2][512];
    const char *list[2] = {paths[0], paths[1]};

    (void)state;
    snprintf(paths[0], sizeof paths[0], "%s", path_of("a.png"));
    snprintf(paths[1], sizeof paths[1], "%s", path_of("a.JPG"));
    assert_true(charl_test_fail_every_acquisition(read_both, list) >= 12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(right_size_is_copied_exactly),
        cmocka_unit_test(every_kind_of_png_is_read),
        cmocka_unit_test(jpeg_is_read),
        cmocka_unit_test(photos_are_turned_upright),
        cmocka_unit_test(pictures_are_brought_to_size),
        cmocka_unit_test(a_mean_keeps_its_brightness),
        cmocka_unit_test(huge_pictures_are_refused_unread),
        cmocka_unit_test(damaged_files_are_refused),
        cmocka_unit_test(arithmetic_coding_is_refused),
        cmocka_unit_test(pictures_for_print_are_read),
        cmocka_unit_test(other_things_are_refused),
        cmocka_unit_test(files_of_a_folder_are_sorted),
        cmocka_unit_test(every_acquisition_may_fail),
    };

    return cmocka_run_group_tests(tests, setup_dir, teardown_dir);
}
