/* Shares of mixup: Beta(alpha, alpha), a function of seed, step and row; and which settings fit
 * which data. */
#include "support/support.h"

#include <math.h>

#include "task/augment.h"

enum { DRAWS = 20000 };

static void shares_are_beta(void **state)
{
    static const double alphas[] = {0.01, 0.2, 1.0, 4.0, 100.0};

    (void)state;
    for (int k = 0; k < 5; k++) {
        const double a = alphas[k], variance = 1.0 / (4.0 * (2.0 * a + 1.0));
        const double fourth = 3.0 * variance * variance * (2.0 * a + 1.0) / (2.0 * a + 3.0);
        double sum = 0, square = 0, power = 0;

        for (int64_t i = 0; i < DRAWS; i++) {
            const double x = (double)charl__mixup_share(a, 5, i / 100, i % 100) - 0.5;

            assert_true(x >= -0.5 && x <= 0.5);
            sum += x;
            square += x * x;
            power += x * x * x * x;
        }
        assert_true(fabs(sum / DRAWS) < 4.0 * sqrt(variance / DRAWS));
        assert_true(fabs(square / DRAWS / variance - 1.0) < 0.05);
        assert_true(fabs(power / DRAWS / fourth - 1.0) < 0.1);
    }
}

static void shares_are_functions_of_their_place(void **state)
{
    const float one = charl__mixup_share(0.4, 1, 2, 3);

    (void)state;
    assert_true(one == charl__mixup_share(0.4, 1, 2, 3));
    assert_true(one != charl__mixup_share(0.4, 9, 2, 3));
    assert_true(one != charl__mixup_share(0.4, 1, 9, 3));
    assert_true(one != charl__mixup_share(0.4, 1, 2, 9));
}

static void settings_must_fit_the_data(void **state)
{
    const charl_dataset_info images = {.path = "i.h5", .x_shape = {3, {3, 32, 24}}};
    const charl_dataset_info table = {.path = "t.h5", .kind = CHARL_DATASET_TABLE, .x_shape = {1, {8}}};
    const charl_dataset_info tokens = {.path = "w.h5", .kind = CHARL_DATASET_TOKENS, .x_shape = {1, {8}}};
    const charl_augment none = {.flip = false}, mixup = {.mixup = 0.2}, flip = {.flip = true}, crop = {.crop = 23},
                        wide = {.crop = 24};

    (void)state;
    charl_assert_ok(charl__augment_check(&none, &tokens));
    charl_assert_ok(charl__augment_check(&mixup, &table));
    charl_assert_ok(charl__augment_check(&crop, &images));
    charl_assert_status(charl__augment_check(&wide, &images), CHARL_ERR_CONFIG);
    charl_assert_message("crop:24 shifts images of 32 x 24 out of sight");
    charl_assert_status(charl__augment_check(&flip, &table), CHARL_ERR_CONFIG);
    charl_assert_message("the samples of t.h5 are [8]");
    charl_assert_status(charl__augment_check(&mixup, &tokens), CHARL_ERR_CONFIG);
    charl_assert_message("w.h5 holds tokens");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shares_are_beta),
        cmocka_unit_test(shares_are_functions_of_their_place),
        cmocka_unit_test(settings_must_fit_the_data),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
