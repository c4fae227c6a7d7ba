/* What a device has of IEEE 754: all of it here, and a wrong result is found. */
#include "charl/device.h"
#include "support/on_device.h"

#include <string.h>

static charl_device *dev;

static void everything_holds(void **state)
{
    charl_arithmetic table[CHARL_ARITHMETIC_COUNT];

    (void)state;
    charl_assert_ok(charl_device_check_arithmetic(dev, table));
    for (int k = 0; k < CHARL_ARITHMETIC_COUNT; k++) {
        assert_true(table[k].tried >= 4096);
        if (table[k].wrong > 0) {
            print_message("%s: %lld of %lld, first %a %a %a: %a, not %a\n", table[k].name, (long long)table[k].wrong,
                          (long long)table[k].tried, (double)table[k].first[0], (double)table[k].first[1],
                          (double)table[k].first[2], (double)table[k].got, (double)table[k].want);
        }
        assert_int_equal(table[k].wrong, 0);
    }
}

/* One quotient of thousands. */
static void a_wrong_result_is_found(void **state)
{
    charl_arithmetic table[CHARL_ARITHMETIC_COUNT];

    (void)state;
    charl_test_fault_set("device.arithmetic:1");
    charl_assert_ok(charl_device_check_arithmetic(dev, table));
    charl_test_fault_set(NULL);
    for (int k = 0; k < CHARL_ARITHMETIC_COUNT; k++) {
        assert_int_equal(table[k].wrong, strcmp(table[k].name, "divide") == 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(everything_holds), cmocka_unit_test(a_wrong_result_is_found)};

    return charl_test_on_device(tests, &dev);
}
