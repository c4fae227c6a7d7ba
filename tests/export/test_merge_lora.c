/* Adapters added to weights: each element by its formula in double; what does not fit is refused by name. */
#include "support/support.h"

#include <stdio.h>

#include "charl/error.h"
#include "charl/export.h"
#include "charl/tensor_file.h"

static const char config[] = "[data]\npath = none.h5\n[model]\ntype = mlp\n[lora]\nrank = 2\nalpha = 8\n";
static char *dir;
static char path[512];

static void save(const charl_checkpoint_tensor *t, int n, const char *text)
{
    charl_assert_ok(
        charl_checkpoint_save(path, &(charl_checkpoint){.state = {.slices = 1, .batch_size = 1, .world_size = 1},
                                                        .tensors = t,
                                                        .n_tensors = n,
                                                        .config_text = text,
                                                        .config_resolved = text}));
}

/* Export the file, and read the weight fc.weight of what came out into w. */
static charl_status read_weight(float *w)
{
    const char *exported = charl_test_path(dir, "lora.safetensors");
    charl_status st = CHARL_OK;
    charl_tensor_file *s = NULL;

    CHARL_TRY_CLEANUP(charl_export_model(path, NULL, 0, CHARL_EMA_AUTO, exported));
    CHARL_TRY_CLEANUP(charl_tensor_file_open(exported, &s));
    CHARL_TRY_CLEANUP(charl_tensor_file_read(s, charl_tensor_file_find(s, "fc.weight"), w));
cleanup:
    charl_tensor_file_close(s);
    return st;
}

static const float w[2 * 3] = {1, 2, 3, 4, 5, 6}, a[2 * 3] = {0.5F, -1, 2, 0, 0, 1}, b[2 * 2] = {3, 1, -0.25F, 0};
static const charl_checkpoint_tensor whole[] = {
    {.group = "model", .name = "fc.lora_A.weight", .shape = {2, {2, 3}}, .data = a},
    {.group = "model", .name = "fc.lora_B.weight", .shape = {2, {2, 2}}, .data = b},
    {.group = "model", .name = "fc.weight", .shape = {2, {2, 3}}, .data = w}};

static void test_merged(void **state)
{
    const double expected[2 * 3] = {1 + 6, 2 - 12, 3 + 24 + 4, 4 - 0.5, 5 + 1, 6 - 2}; /* scale 8 / 2 = 4 */
    float out[2 * 3];

    (void)state;
    save(whole, 3, config);
    charl_assert_ok(read_weight(out));
    for (int i = 0; i < 6; i++) {
        assert_true((double)out[i] == expected[i]);
    }
    save(whole + 2, 1, config); /* without adapters the weight as it is */
    charl_assert_ok(read_weight(out));
    assert_memory_equal(out, w, sizeof w);
}

static void test_refused(void **state)
{
    charl_checkpoint_tensor bad[] = {whole[0], whole[1], whole[2]};
    float out[2 * 3];

    (void)state;
    save(whole, 3, "[data]\npath = none.h5\n[model]\ntype = mlp\n"); /* no rank */
    charl_assert_status(read_weight(out), CHARL_ERR_CHECKPOINT);
    charl_assert_message("the adapters of fc.weight do not fit");
    bad[1].shape = (charl_shape){2, {4, 1}}; /* another rank */
    save(bad, 3, config);
    charl_assert_status(read_weight(out), CHARL_ERR_CHECKPOINT);
    bad[1].name = "fc.bias"; /* no B */
    save(bad, 3, config);
    charl_assert_status(read_weight(out), CHARL_ERR_CHECKPOINT);
}

static int setup(void **state)
{
    (void)state;
    dir = charl_test_tempdir();
    snprintf(path, sizeof path, "%s", charl_test_path(dir, "lora.h5"));
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    charl_test_tempdir_remove(dir);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_merged),
        cmocka_unit_test(test_refused),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
