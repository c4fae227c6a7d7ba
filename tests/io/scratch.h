#ifndef CHARL_TESTS_SCRATCH_H
#define CHARL_TESTS_SCRATCH_H
/** A fresh directory for a test, or for a program of tests, which leaves nothing behind: no file,
 * no fault and nothing alive. */
#include "support/support.h"

#include <stdio.h>

static char *dir;

static inline int setup_dir(void **state)
{
    (void)state;
    dir = charl_test_tempdir();
    return 0;
}

static inline int teardown_dir(void **state)
{
    (void)state;
    charl_test_tempdir_remove(dir);
    charl_test_fault_set(NULL);
    assert_int_equal(charl_test_live(), 0);
    return 0;
}

static inline void put_file(const char *path, const void *data, size_t bytes)
{
    FILE *f = fopen(path, "wb");

    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, bytes, f), bytes);
    assert_int_equal(fclose(f), 0);
}

#endif
