/* A malformed CHARL_FAULT in a program that never calls charl_environment_check: reported once, then no
 * faults. */
#include "support/support.h"

#include <stdlib.h>
#include <string.h>

#include "charl/environment.h"
#include "charl/log.h"

static int messages;

static void sink(void *ctx, charl_log_level level, const char *message)
{
    void *p = NULL;

    assert_int_equal(level, CHARL_LOG_ERROR);
    assert_non_null(strstr(message, "CHARL_FAULT is malformed and ignored: io.write"));
    charl_assert_ok(charl_test_acquire(&p)); /* a sink may allocate */
    charl_free(p);
    (*(int *)ctx)++;
}

static void test_reported_once(void **state)
{
    (void)state;
    void *p = NULL;

    charl_log_set_callback(sink, &messages);
    charl_assert_ok(charl_test_acquire(&p));
    charl_free(p);
    charl_assert_ok(charl_fault("io"));
    assert_int_equal(messages, 1);
    charl_log_set_callback(NULL, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_reported_once)};

    setenv("CHARL_FAULT", "io.write", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
