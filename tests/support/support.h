#ifndef CHARL_TESTS_SUPPORT_H
#define CHARL_TESTS_SUPPORT_H
/** What tests of every module share: comparison, tolerance, random inputs, temporary directories,
 * the fault loop, running tests by name.
 *
 *  Failures go through cmocka. Linked to every test program by charl_test(). Includes nothing of src: programs of tests that
 *  internal.txt does not list are compiled without it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "charl/status.h"

/** Every program of tests runs all of them, or those that its command line names:
 *
 *      test_config test_numbers 'test_list_*'
 *
 *  Names and shell patterns; one that matches no test is an error, which lists the tests. */
#undef cmocka_run_group_tests
#define cmocka_run_group_tests(tests, setup, teardown)                                                                 \
    charl_test_run_group(#tests, (tests), sizeof(tests) / sizeof((tests)[0]), (setup), (teardown))
int charl_test_run_group(const char *group, const struct CMUnitTest *tests, size_t count, CMFixtureFunction setup,
                         CMFixtureFunction teardown);
/** For a program with arguments of its own: `patterns`, NULL-terminated and kept, are the names.
 *  Without this call they are argv + 1. */
void charl_test_select(char **patterns);

/** Fail unless |got[i] - want[i]| <= tol * (1 + |want[i]|) for every i; where want is NaN or
 * infinite, got must be the same. Prints the first few offenders (index, got, want, error in ulp of
 * f32), the worst one and the seed. */
#define charl_assert_close(got, want, count, tol) charl_test_close((got), (want), (count), (tol), __FILE__, __LINE__)
void charl_test_close(const float *got, const double *want, int64_t count, double tol, const char *file, int line);

/** charl_assert_close against f32 values. */
#define charl_assert_close_f32(got, want, count, tol)                                                                  \
    charl_test_close_f32((got), (want), (count), (tol), __FILE__, __LINE__)
void charl_test_close_f32(const float *got, const float *want, int64_t count, double tol, const char *file, int line);

/** Fail unless both hold the same bytes; prints the first index where the f32 bits differ. */
#define charl_assert_same_bits(got, want, count) charl_test_same_bits((got), (want), (count), __FILE__, __LINE__)
void charl_test_same_bits(const float *got, const float *want, int64_t count, const char *file, int line);

/** Fail unless `call` is CHARL_OK, or unless it is `code`; prints charl's message. */
#define charl_assert_ok(call) charl_test_status((call), CHARL_OK, __FILE__, __LINE__)
#define charl_assert_status(call, code) charl_test_status((call), (code), __FILE__, __LINE__)
void charl_test_status(charl_status got, charl_status want, const char *file, int line);

/** Fail unless the last message on this thread contains `part`. */
#define charl_assert_message(part) charl_test_message((part), __FILE__, __LINE__)
void charl_test_message(const char *part, const char *file, int line);

/** Error allowed in a sum of `length` f32 products of size about one: 4 * 2^-24 * sqrt(length), at
 * least 4 roundings. */
double charl_test_tolerance(int64_t length);

/** CHARL_TEST_SEED, default 1. */
uint64_t charl_test_seed(void);

/** count values in [lo, hi): a function of the seed, `stream` and the index. */
void charl_test_fill(float *out, int64_t count, float lo, float hi, uint64_t stream);
void charl_test_fill_f64(double *out, int64_t count, double lo, double hi, uint64_t stream);

/** 32 random bits: a function of the seed, `stream` and i. */
uint32_t charl_test_random(uint64_t stream, uint64_t i);

/** Zeroed memory of count * size bytes, counted as charl's own; free it with charl_free. Fails the test without memory. */
void *charl_test_array(int64_t count, size_t size);

/** Replace the value of a variable of docs/env.md for charl; NULL unsets. `value` is borrowed. */
void charl_test_env_set(const char *name, const char *value);
/** Whether a variable of docs/env.md is a flag that is set. */
bool charl_test_env_is_on(const char *name);

/** An acquisition of charl's that can be made to fail; release it with charl_free. */
charl_status charl_test_acquire(void **out);
/** Put the faults of `spec` into force (CHARL_FAULT in docs/env.md); NULL: none. */
void charl_test_fault_set(const char *spec);
/** Fail the nth acquisition from now; 0: none. */
void charl_test_fault_after(long nth);
/** Objects that charl holds: 0 when a test has destroyed all it created. */
long charl_test_live(void);

/** The bf16 nearest to x. */
uint16_t charl_test_bf16(float x);

void charl_test_sleep_s(double seconds);

/** A fresh directory under $TMPDIR or /tmp; fails the test when it cannot be made. */
char *charl_test_tempdir(void);
/** Remove it with everything in it and free the string. NULL is a no-op. */
void charl_test_tempdir_remove(char *dir);
/** "dir/name" in one of four static buffers, used in turn. */
const char *charl_test_path(const char *dir, const char *name);

/** Path below the directory of real data sets ($CHARL_TEST_DATA), in a static buffer. Skips the
 * test, visibly, when it is not there. */
const char *charl_test_data(const char *name);

/** For the step of a loop whose turns run the same code with other numbers: 1, or n with
 * CHARL_TEST_SHORT and without sanitizers, which is how valgrind runs. It takes 20 times as long, and
 * the sanitizers see every turn. */
int charl_test_each(int n);

/** Run `scenario` once, then with the 1st, 2nd, ... acquisition failing until it no longer reaches
 * that many. Fails the test when an injected failure is not reported, has no message, or leaves
 * something alive. Returns how many acquisitions there were (at least one). After the 16th each
 * charl_test_each(67). */
long charl_test_fail_every_acquisition(charl_status (*scenario)(void *ctx), void *ctx);

#endif
