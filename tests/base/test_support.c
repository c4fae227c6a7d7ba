/* The shared support fails where it must. A case that must fail runs in a process of its own. */
#include "support/support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "charl/error.h"

static const float nan_f[3] = {1, NAN, 3};
static const double wide[3] = {1, 2, 3};
static const float narrow[3] = {1, 2, 3};
static const float off[3] = {1, 2.001f, 3};

static void nan_is_not_close(void **state)
{
    (void)state;
    charl_assert_close(nan_f, wide, 3, 1e9);
}

static void nan_is_not_close_f32(void **state)
{
    (void)state;
    charl_assert_close_f32(nan_f, narrow, 3, 1e9);
}

static void off_is_not_close(void **state)
{
    (void)state;
    charl_assert_close(off, wide, 3, 1e-4);
}

static void number_is_not_nan(void **state)
{
    (void)state;
    const double want[1] = {(double)NAN};

    charl_assert_close(narrow, want, 1, 1e9);
}

static void number_is_not_infinite(void **state)
{
    (void)state;
    const double want[1] = {HUGE_VAL};

    charl_assert_close(narrow, want, 1, 1e9);
}

static void bits_differ(void **state)
{
    (void)state;
    const float plus[1] = {0.0f}, minus[1] = {-0.0f};

    charl_assert_same_bits(plus, minus, 1);
}

static void status_differs(void **state)
{
    (void)state;
    charl_assert_ok(CHARL_ERR_IO);
}

static void message_differs(void **state)
{
    (void)state;
    charl_assert_message("something that nobody said");
}

static charl_status leaks(void *ctx)
{
    void *a = NULL, *b = NULL;

    (void)ctx;
    CHARL_TRY(charl_test_acquire(&a));
    CHARL_TRY(charl_test_acquire(&b)); /* its failure leaves a behind */
    charl_free(a);
    charl_free(b);
    return CHARL_OK;
}

static void leak_is_found(void **state)
{
    (void)state;
    (void)charl_test_fail_every_acquisition(leaks, NULL);
}

static charl_status swallows(void *ctx)
{
    void *p = NULL;

    (void)ctx;
    if (charl_test_acquire(&p) == CHARL_OK) {
        charl_free(p);
    }
    return CHARL_OK;
}

static void swallowed_failure_is_found(void **state)
{
    (void)state;
    (void)charl_test_fail_every_acquisition(swallows, NULL);
}

static charl_status acquires_nothing(void *ctx)
{
    (void)ctx;
    return CHARL_OK;
}

static void nothing_to_fail_is_found(void **state)
{
    (void)state;
    (void)charl_test_fail_every_acquisition(acquires_nothing, NULL);
}

static void data_is_absent(void **state)
{
    (void)state;
    (void)charl_test_data("no/such/file");
    fail();
}

static void passes(void **state)
{
    (void)state;
}

static const struct {
    struct CMUnitTest test;
    const char *says;
} failing[] = {
    {cmocka_unit_test(nan_is_not_close), "[1] got nan want 2"},
    {cmocka_unit_test(nan_is_not_close_f32), "at index 1 of 3"},
    {cmocka_unit_test(off_is_not_close), "1 of 3 values differ by more than 0.0001 (CHARL_TEST_SEED="},
    {cmocka_unit_test(number_is_not_nan), "want nan"},
    {cmocka_unit_test(number_is_not_infinite), "want inf"},
    {cmocka_unit_test(bits_differ), "bits differ"},
    {cmocka_unit_test(status_differs), "status ERR_IO, expected OK"},
    {cmocka_unit_test(message_differs), "does not contain"},
    {cmocka_unit_test(leak_is_found), "after failing acquisition 2: 1 objects alive, expected 0"},
    {cmocka_unit_test(swallowed_failure_is_found), "failing acquisition 1 went unreported (status OK)"},
    {cmocka_unit_test(nothing_to_fail_is_found), "nth > 1"},
};

/* The group of cases that run in processes of their own: `test_support --case NAME...` */
static int run_cases(char **names)
{
    struct CMUnitTest tests[sizeof failing / sizeof *failing + 2] = {
        cmocka_unit_test(data_is_absent),
        cmocka_unit_test(passes),
    };

    for (size_t i = 0; i < sizeof failing / sizeof *failing; i++) {
        tests[2 + i] = failing[i].test;
    }
    charl_test_select(names);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Run the named cases in a process of its own and check its exit and what it says. */
static void check_case(const char *environment, const char *names, int exit_code, const char *says)
{
    char program[1024], command[1200], output[8192];
    const ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    FILE *pipe;
    size_t got;

    assert_true(n > 0);
    program[n] = '\0';
    snprintf(command, sizeof command, "%s ASAN_OPTIONS=detect_leaks=0 '%s' --case %s 2>&1", environment, program,
             names);
    pipe = popen(command, "r");
    assert_non_null(pipe);
    got = fread(output, 1, sizeof output - 1, pipe);
    output[got] = '\0';
    assert_int_equal(WEXITSTATUS(pclose(pipe)), exit_code);
    if (!strstr(output, says)) {
        print_error("%s does not say \"%s\":\n%s", names, says, output);
        fail();
    }
}

static void test_failures_are_failures(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof failing / sizeof *failing; i++) {
        check_case("", failing[i].test.name, 1, failing[i].says);
    }
}

static void test_tests_run_by_name(void **state)
{
    (void)state;
    check_case("", "passes", 0, "Running 1 test(s)");
    check_case("", "'p?sse*'", 0, "[       OK ] passes");
    check_case("", "passes off_is_not_close", 1, "Running 2 test(s)");
    check_case("", "'*_is_not_close'", 2, "Running 2 test(s)");
    check_case("", "passes passe", 1,
               "no test is called passe; the tests of this program:\n"
               "  data_is_absent\n  passes\n");
}

static void test_absent_data_is_a_visible_skip(void **state)
{
    (void)state;
    check_case("CHARL_TEST_DATA=", "data_is_absent", 0, "skipped: CHARL_TEST_DATA does not name");
    check_case("CHARL_TEST_DATA=/tmp", "data_is_absent", 0, "skipped: no /tmp/no/such/file");
    check_case("CHARL_TEST_DATA=/tmp", "data_is_absent", 0, "[  SKIPPED ]");
}

static void test_present_data(void **state)
{
    (void)state;
    char *dir = charl_test_tempdir();
    FILE *f = fopen(charl_test_path(dir, "set"), "w");

    assert_non_null(f);
    fclose(f);
    charl_test_env_set("CHARL_TEST_DATA", dir);
    assert_string_equal(charl_test_data("set"), charl_test_path(dir, "set"));
    charl_test_env_set("CHARL_TEST_DATA", NULL);
    charl_test_tempdir_remove(dir);
}

static void test_close_accepts(void **state)
{
    (void)state;
    const float got[4] = {1.0f, NAN, INFINITY, 2e10f};
    const double want[4] = {1.0 + 1e-7, (double)NAN, HUGE_VAL, 2e10 * (1 + 1e-7)};

    charl_assert_close(got, want, 4, 1e-6);
    charl_assert_close(got, want, 0, 0);
    charl_assert_same_bits(got, got, 4);
    assert_true(charl_test_tolerance(1) == 4 * 0x1p-24);
    assert_true(charl_test_tolerance(0) == 4 * 0x1p-24);
    assert_true(charl_test_tolerance(10000) == 400 * 0x1p-24);
}

static void test_fill_is_a_function_of_the_seed(void **state)
{
    (void)state;
    float a[100], b[100];
    double c[100];

    charl_test_fill(a, 100, -2, 3, 7);
    charl_test_fill(b, 100, -2, 3, 7);
    charl_assert_same_bits(a, b, 100);
    charl_test_fill(b, 100, -2, 3, 8);
    assert_memory_not_equal(a, b, sizeof a);
    charl_test_fill_f64(c, 100, -2, 3, 7);
    charl_assert_close(a, c, 100, 1e-6);
    for (int i = 0; i < 100; i++) {
        assert_true(a[i] >= -2 && a[i] < 3);
    }
}

static void test_tempdir(void **state)
{
    (void)state;
    char *dir = charl_test_tempdir();
    char *kept = strdup(dir);
    FILE *f;

    assert_int_equal(mkdir(charl_test_path(dir, "sub"), 0700), 0);
    f = fopen(charl_test_path(dir, "sub/file"), "w");
    assert_non_null(f);
    fclose(f);
    assert_int_equal(symlink("/", charl_test_path(dir, "link")), 0);
    charl_test_tempdir_remove(dir);
    assert_int_not_equal(access(kept, F_OK), 0);
    free(kept);
    charl_test_tempdir_remove(NULL);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_failures_are_failures),
        cmocka_unit_test(test_tests_run_by_name),
        cmocka_unit_test(test_absent_data_is_a_visible_skip),
        cmocka_unit_test(test_present_data),
        cmocka_unit_test(test_close_accepts),
        cmocka_unit_test(test_fill_is_a_function_of_the_seed),
        cmocka_unit_test(test_tempdir),
    };

    if (argc > 1 && strcmp(argv[1], "--case") == 0) {
        return run_cases(argv + 2);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
