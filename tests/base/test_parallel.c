/* Loops over all processors. */
#include "support/support.h"

#include <stdatomic.h>
#include <string.h>

#include "base/parallel.h"

enum { MOST = 10000 };

typedef struct counts {
    atomic_int of[MOST];
} counts;

static void count(void *ctx, int64_t i)
{
    counts *c = ctx;

    assert_in_range(i, 0, MOST - 1);
    atomic_fetch_add(&c->of[i], 1);
}

static void test_each_once(void **state)
{
    static const int64_t n[] = {0, 1, 2, 3, 63, 64, 65, MOST};

    (void)state;
    for (size_t k = 0; k < sizeof n / sizeof *n; k++) {
        static counts c;

        memset(&c, 0, sizeof c);
        charl__parallel(n[k], count, &c);
        for (int64_t i = 0; i < MOST; i++) {
            assert_int_equal(atomic_load(&c.of[i]), i < n[k]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_each_once)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
