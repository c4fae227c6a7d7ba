/* Random inputs, temporary directories, real data and the fault loop. */
#include "support/support.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/env.h"
#include "base/fault.h"
#include "base/numeric/bf16.h"
#include "base/numeric/rng.h"

enum { PATH_BYTES = 4096, PATH_BUFFERS = 4, MAX_ACQUISITIONS = 1000000 };

/* The sanitizer's allocator ends the process at such sizes unless told to fail like malloc. */
__attribute__((visibility("default"))) const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1";
}

uint64_t charl_test_seed(void)
{
    return (uint64_t)charl__env_integer(CHARL_ENV_TEST_SEED, 1);
}

void charl_test_fill(float *out, int64_t count, float lo, float hi, uint64_t stream)
{
    const charl__rng rng = charl__rng_key(charl_test_seed(), stream, 0);

    for (int64_t i = 0; i < count; i++) {
        out[i] = lo + (hi - lo) * charl__rng_uniform(&rng, (uint64_t)i);
    }
}

void charl_test_fill_f64(double *out, int64_t count, double lo, double hi, uint64_t stream)
{
    const charl__rng rng = charl__rng_key(charl_test_seed(), stream, 0);

    for (int64_t i = 0; i < count; i++) {
        out[i] = lo + (hi - lo) * (double)charl__rng_uniform(&rng, (uint64_t)i);
    }
}

uint32_t charl_test_random(uint64_t stream, uint64_t i)
{
    const charl__rng rng = charl__rng_key(charl_test_seed(), stream, 0);

    return charl__rng_u32(&rng, i);
}

void *charl_test_array(int64_t count, size_t size)
{
    void *out = NULL;

    charl_assert_ok(charl__alloc_array(count, size, &out));
    return out;
}

charl_status charl_test_acquire(void **out)
{
    return charl__alloc(1, out);
}

static charl__env_id env_of(const char *name)
{
    for (int i = 0; i < CHARL_ENV_COUNT; i++) {
        if (strcmp(charl__env_name((charl__env_id)i), name) == 0) {
            return (charl__env_id)i;
        }
    }
    fail_msg("charl has no variable %s", name);
    return CHARL_ENV_COUNT;
}

void charl_test_env_set(const char *name, const char *value)
{
    charl__env_set(env_of(name), value);
}

bool charl_test_env_is_on(const char *name)
{
    return charl__env_is_on(env_of(name));
}

void charl_test_fault_set(const char *spec)
{
    charl_assert_ok(charl__fault_set(spec));
}

void charl_test_fault_after(long nth)
{
    charl__fault_after(nth);
}

long charl_test_live(void)
{
    return charl__live();
}

uint16_t charl_test_bf16(float x)
{
    return charl__bf16_round(x);
}

void charl_test_sleep_s(double seconds)
{
    charl__sleep_s(seconds);
}

char *charl_test_tempdir(void)
{
    const char *base = getenv("TMPDIR");
    char *dir = malloc(PATH_BYTES);

    assert_non_null(dir);
    snprintf(dir, PATH_BYTES, "%s/charl-test-XXXXXX", base && base[0] ? base : "/tmp");
    if (!mkdtemp(dir)) {
        print_error("cannot make a temporary directory below %s\n", base ? base : "/tmp");
        free(dir);
        dir = NULL;
        fail();
    }
    return dir;
}

static void remove_tree(const char *path)
{
    struct stat info;
    DIR *dir = NULL;

    if (lstat(path, &info) != 0) {
        return;
    }
    if (S_ISDIR(info.st_mode)) {
        dir = opendir(path);
    }
    if (dir) {
        for (struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
            char child[PATH_BYTES];

            if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
                const int n = snprintf(child, sizeof child, "%s/%s", path, entry->d_name);

                if (n > 0 && n < PATH_BYTES) {
                    remove_tree(child);
                }
            }
        }
        closedir(dir);
    }
    (void)remove(path);
}

void charl_test_tempdir_remove(char *dir)
{
    if (dir) {
        remove_tree(dir);
        free(dir);
    }
}

const char *charl_test_path(const char *dir, const char *name)
{
    static char buffers[PATH_BUFFERS][PATH_BYTES];
    static int next;
    char *path = buffers[next++ % PATH_BUFFERS];

    snprintf(path, PATH_BYTES, "%s/%s", dir, name);
    return path;
}

const char *charl_test_data(const char *name)
{
    static char path[PATH_BYTES];
    const char *dir = charl__env(CHARL_ENV_TEST_DATA);

    if (!dir) {
        print_message("skipped: CHARL_TEST_DATA does not name the directory with %s\n", name);
        skip();
    }
    snprintf(path, sizeof path, "%s/%s", dir, name);
    if (access(path, R_OK) != 0) {
        print_message("skipped: no %s\n", path);
        skip();
    }
    return path;
}

int charl_test_each(int n)
{
#ifdef __SANITIZE_ADDRESS__
    (void)n;
    return 1;
#else
    return charl__env_is_on(CHARL_ENV_TEST_SHORT) ? n : 1;
#endif
}

long charl_test_fail_every_acquisition(charl_status (*scenario)(void *ctx), void *ctx)
{
    long nth, live;

    charl_assert_ok(scenario(ctx)); /* also fills caches that outlive it */
    live = charl__live();
    for (nth = 1;; nth += nth < 16 ? 1 : charl_test_each(67)) {
        charl_status st;
        long pending;

        assert_true(nth < MAX_ACQUISITIONS);
        charl_error_clear();
        charl__fault_after(nth);
        st = scenario(ctx);
        pending = charl__fault_pending();
        charl__fault_after(0);
        if (charl__live() != live) {
            print_error("after failing acquisition %ld: %ld objects alive, expected %ld (%s)\n", nth, charl__live(),
                        live, charl_error_message());
            fail();
        }
        if (pending > 0) {
            charl_assert_ok(st);
            break;
        }
        if (st == CHARL_OK || charl_error_message()[0] == '\0') {
            print_error("failing acquisition %ld went unreported (status %s)\n", nth, charl_status_name(st));
            fail();
        }
    }
    assert_true(nth > 1);
    return nth - 1;
}
