/* Runs a group of tests, or those of it that the command line names. */
#include "support/support.h"

#include <fnmatch.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

static char **names; /* NULL-terminated; NULL or none: every test */

/* glibc passes the arguments of main to constructors, so no main has to hand them on. */
__attribute__((constructor)) static void take_arguments(int argc, char **argv)
{
    names = argc > 0 ? argv + 1 : NULL;
}

void charl_test_select(char **patterns)
{
    names = patterns;
}

static bool matches(const char *pattern, const struct CMUnitTest *test)
{
    return fnmatch(pattern, test->name, 0) == 0;
}

static bool is_selected(const struct CMUnitTest *test)
{
    for (char **name = names; *name; name++) {
        if (matches(*name, test)) {
            return true;
        }
    }
    return false;
}

static bool names_a_test(const char *pattern, const struct CMUnitTest *tests, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (matches(pattern, &tests[i])) {
            return true;
        }
    }
    fprintf(stderr, "no test is called %s; the tests of this program:\n", pattern);
    for (size_t i = 0; i < count; i++) {
        fprintf(stderr, "  %s\n", tests[i].name);
    }
    return false;
}

int charl_test_run_group(const char *group, const struct CMUnitTest *tests, size_t count, CMFixtureFunction setup,
                         CMFixtureFunction teardown)
{
    struct CMUnitTest *selected;
    size_t n = 0;
    int failed;

    if (!names || !names[0]) {
        return _cmocka_run_group_tests(group, tests, count, setup, teardown);
    }
    for (char **name = names; *name; name++) {
        if (!names_a_test(*name, tests, count)) {
            return 1;
        }
    }
    selected = calloc(count, sizeof *selected);
    if (!selected) {
        fprintf(stderr, "out of memory\n");
        return 1;
    }
    for (size_t i = 0; i < count; i++) {
        if (is_selected(&tests[i])) {
            selected[n++] = tests[i];
        }
    }
    failed = _cmocka_run_group_tests(group, selected, n, setup, teardown);
    free(selected);
    return failed;
}
