/* Adapters added to weights: each element by its formula in double; what does not fit is refused by name. */
#include "support/support.h"

#include "export/export.h"

static void test_merged(void **state)
{
    float w[2 * 3] = {1, 2, 3, 4, 5, 6}, a[1 * 3] = {0.5F, -1, 2}, b[2 * 1] = {3, -0.25F};
    const double expected[2 * 3] = {1 + 6, 2 - 12, 3 + 24, 4 - 0.5, 5 + 1, 6 - 2}; /* scale 8 / 2 = 4 */
    const charl_lora lora = {.rank = 2, .alpha = 8.0};
    const charl_checkpoint_tensor t[] = {{.name = "fc.lora_B.weight", .shape = {2, {2, 1}}},
                                         {.name = "fc.weight", .shape = {2, {2, 3}}},
                                         {.name = "fc.lora_A.weight", .shape = {2, {1, 3}}}};
    float *const data[] = {b, w, a};

    (void)state;
    charl_assert_ok(charl__merge_adapters(&lora, t, data, 3));
    for (int i = 0; i < 6; i++) {
        assert_true((double)w[i] == expected[i]);
    }
}

static void test_refused(void **state)
{
    float v[8] = {0};
    const charl_lora lora = {.rank = 1, .alpha = 1.0};
    const charl_checkpoint_tensor whole[] = {{.name = "fc.lora_A.weight", .shape = {2, {1, 3}}},
                                             {.name = "fc.lora_B.weight", .shape = {2, {2, 1}}},
                                             {.name = "fc.weight", .shape = {2, {2, 3}}}};
    charl_checkpoint_tensor bad[] = {whole[0], whole[1], whole[2]};
    float *const data[] = {v, v, v};

    (void)state;
    charl_assert_status(charl__merge_adapters(NULL, whole, data, 3), CHARL_ERR_CHECKPOINT);
    charl_assert_message("fc.lora_A.weight does not adapt");
    charl_assert_status(charl__merge_adapters(&lora, whole, data, 2), CHARL_ERR_CHECKPOINT); /* no weight */
    bad[1].shape = (charl_shape){2, {2, 4}};                                                 /* another rank */
    charl_assert_status(charl__merge_adapters(&lora, bad, data, 3), CHARL_ERR_CHECKPOINT);
    bad[1].name = "fc.bias"; /* no B */
    charl_assert_status(charl__merge_adapters(&lora, bad, data, 3), CHARL_ERR_CHECKPOINT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_merged),
        cmocka_unit_test(test_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
