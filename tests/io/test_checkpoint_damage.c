/* Random damage to a checkpoint: it is refused, or what is loaded is identical. HDF5 may crash on a
 * damaged file, which would end in a failure of the child process that reads it, not of the test
 * program.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "io/checkpoint_sample.h"

enum { IMAGE_BYTES = 1 << 20, STEP = 7 };

typedef struct verdict {
    int refused, same, wrong;
} verdict;

static char *dir;
static unsigned char *image, *work;
static size_t image_bytes;
static uint64_t draws;

static int setup(void **state)
{
    static sample s;
    const char *path;
    FILE *f;

    (void)state;
    dir = charl_test_tempdir();
    path = charl_test_path(dir, "a.h5");
    image = malloc(IMAGE_BYTES);
    work = malloc(IMAGE_BYTES);
    assert_non_null(image);
    assert_non_null(work);
    sample_init(&s, STEP);
    charl_assert_ok(charl_checkpoint_save(path, &s.c));
    f = fopen(path, "rb");
    assert_non_null(f);
    image_bytes = fread(image, 1, IMAGE_BYTES, f);
    fclose(f);
    assert_true(image_bytes > 4096 && image_bytes < IMAGE_BYTES);
    assert_int_equal(sample_load(path), STEP);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    free(image);
    free(work);
    charl_test_tempdir_remove(dir);
    return 0;
}

/* An integer in [0, below). */
static size_t draw(size_t below)
{
    const uint64_t high = charl_test_random(0, draws++), low = charl_test_random(0, draws++);

    return (size_t)((high << 32 | low) % below);
}

static void check(verdict *v, size_t bytes)
{
    const char *path = charl_test_path(dir, "b.h5");
    const int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0666);
    int64_t step;

    assert_true(fd >= 0);
    assert_int_equal(write(fd, work, bytes), (ssize_t)bytes);
    close(fd);
    step = sample_load(path);
    v->refused += step == -1 ? 1 : 0;
    v->same += step == STEP ? 1 : 0;
    v->wrong += step != -1 && step != STEP ? 1 : 0;
}

/* Run `body` in a child; its verdict, or a failed test if it died. */
static verdict in_child(void (*body)(verdict *v))
{
    verdict v = {0, 0, -1};
    int out[2], status = 0;
    pid_t pid;

    assert_int_equal(pipe(out), 0);
    pid = fork();
    if (pid == 0) {
        v.wrong = 0;
        alarm(250);
        body(&v);
        _exit(write(out[1], &v, sizeof v) == (ssize_t)sizeof v ? 0 : 1);
    }
    close(out[1]);
    assert_int_equal(read(out[0], &v, sizeof v), sizeof v);
    close(out[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    print_message("refused %d, identical %d, wrong %d\n", v.refused, v.same, v.wrong);
    return v;
}

static void flips(verdict *v)
{
    for (int i = 0; i < 2000; i++) {
        const size_t at = draw(image_bytes);

        memcpy(work, image, image_bytes);
        work[at] = (unsigned char)(work[at] ^ (1U << draw(8)));
        check(v, image_bytes);
    }
}

static void metadata_flips(verdict *v)
{
    /* Contents that are mostly tensor hide the structure: here every byte outside the large tensor
     * in turn. */
    for (size_t at = 0; at < image_bytes; at++) {
        static sample s;

        if (at % 8192 == 0) {
            sample_init(&s, STEP);
        }
        if (at + sizeof s.large <= image_bytes && memcmp(image + at, s.large, sizeof s.large) == 0) {
            at += sizeof s.large;
            continue;
        }
        if (at % 5 == 0) {
            memcpy(work, image, image_bytes);
            work[at] = (unsigned char)(work[at] ^ (1U << draw(8)));
            check(v, image_bytes);
        }
    }
}

static void truncations(verdict *v)
{
    for (int i = 0; i < 200; i++) {
        memcpy(work, image, image_bytes);
        check(v, draw(image_bytes));
    }
}

static void zeroed_pages(verdict *v)
{
    for (int i = 0; i < 200; i++) {
        const size_t bytes = (size_t)1 << (6 + draw(7)); /* 64 to 4096 */
        const size_t at = draw(image_bytes / bytes) * bytes;

        memcpy(work, image, image_bytes);
        memset(work + at, 0, bytes);
        check(v, image_bytes);
    }
}

static void shuffled_pages(verdict *v)
{
    for (int i = 0; i < 200; i++) {
        const size_t a = draw(image_bytes / 512) * 512, b = draw(image_bytes / 512) * 512;

        memcpy(work, image, image_bytes);
        memcpy(work + a, image + b, 512);
        memcpy(work + b, image + a, 512);
        check(v, image_bytes);
    }
}

static void test_bit_flips(void **state)
{
    const verdict v = in_child(flips);

    (void)state;
    assert_int_equal(v.wrong, 0);
    assert_int_equal(v.refused + v.same, 2000);
    assert_true(v.refused > 1000);
}

static void test_metadata_flips(void **state)
{
    const verdict v = in_child(metadata_flips);

    (void)state;
    assert_int_equal(v.wrong, 0);
    assert_true(v.refused > 500);
}

static void test_truncations(void **state)
{
    const verdict v = in_child(truncations);

    (void)state;
    assert_int_equal(v.refused, 200);
}

static void test_zeroed_pages(void **state)
{
    const verdict v = in_child(zeroed_pages);

    (void)state;
    assert_int_equal(v.wrong, 0);
    assert_true(v.refused > 50);
}

static void test_shuffled_pages(void **state)
{
    const verdict v = in_child(shuffled_pages);

    (void)state;
    assert_int_equal(v.wrong, 0);
    assert_true(v.refused > 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_bit_flips, setup, teardown),
        cmocka_unit_test_setup_teardown(test_metadata_flips, setup, teardown),
        cmocka_unit_test_setup_teardown(test_truncations, setup, teardown),
        cmocka_unit_test_setup_teardown(test_zeroed_pages, setup, teardown),
        cmocka_unit_test_setup_teardown(test_shuffled_pages, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
