/* Parameters saved and loaded in both formats: the same bits, strictly or by name, with a report. */
#include "support/on_device.h"

#include <stdio.h>
#include <string.h>

#include "charl/charl.h"

static charl_device *dev;

typedef struct net {
    charl_graph *g;
    charl_params *params;
} net;

static const char *prefix = ""; /* of the names */

/* Two layers, the first of `width` outputs; `last` is the name of the second. */
static void open_net(int64_t width, const char *last, uint64_t seed, net *n)
{
    const charl_shape shape[] = {{2, {width, 5}}, {1, {width}}, {2, {3, width}}};
    char name[3][32];
    charl_var *x, *p[3];

    charl_assert_ok(charl_params_create(&n->params));
    charl_assert_ok(charl_graph_create(dev, NULL, &n->g));
    snprintf(name[0], sizeof name[0], "%sfc1.weight", prefix);
    snprintf(name[1], sizeof name[1], "%sfc1.bias", prefix);
    snprintf(name[2], sizeof name[2], "%s%s.weight", prefix, last);
    for (int i = 0; i < 3; i++) {
        charl_param *param;

        charl_assert_ok(charl_params_add(
            n->params,
            &(charl_param_spec){
                .name = name[i], .shape = shape[i], .init = {CHARL_INIT_UNIFORM, -1, 1}, .trainable = true},
            &param));
        p[i] = charl_parameter(n->g, param);
    }
    x = charl_input(n->g, "x", CHARL_F32, (charl_shape){2, {4, 5}}, CHARL_BATCHED);
    x = charl_linear(n->g, charl_linear(n->g, x, p[0], p[1]), p[2], NULL);
    charl_graph_keep(n->g, x);
    charl_assert_ok(charl_graph_compile(n->g));
    charl_assert_ok(charl_params_initialize(n->params, seed));
}

static void close_net(net *n)
{
    charl_graph_destroy(n->g);
    charl_params_destroy(n->params);
}

static void read_param(const net *n, const char *name, float *out)
{
    charl_assert_ok(charl_param_read(charl_params_find(n->params, name), out));
}

static void same(const net *a, const net *b, const char *name, int64_t count, bool want)
{
    float x[64], y[64];

    read_param(a, name, x);
    read_param(b, name, y);
    assert_int_equal(memcmp(x, y, (size_t)count * sizeof *x) == 0, want);
}

static void round_trip(const char *file)
{
    char *dir = charl_test_tempdir();
    const char *path = charl_test_path(dir, file);
    charl_params_report report;
    net a, b, c;

    open_net(4, "fc2", 1, &a);
    open_net(4, "fc2", 2, &b);
    open_net(4, "head", 3, &c);
    charl_assert_ok(charl_params_save(a.params, path, NULL));
    same(&a, &b, "fc1.weight", 20, false);
    charl_assert_ok(charl_params_load(b.params, path, NULL, &report));
    assert_int_equal(report.loaded, 3);
    assert_int_equal(report.missing + report.extra + report.misshapen, 0);
    assert_string_equal(report.text, "");
    charl_params_report_fini(&report);
    same(&a, &b, "fc1.weight", 20, true);
    same(&a, &b, "fc1.bias", 4, true);
    same(&a, &b, "fc2.weight", 12, true);

    /* Strict: nothing changes. By name: what fits. */
    charl_assert_status(charl_params_load(c.params, path, NULL, &report), CHARL_ERR_CHECKPOINT);
    charl_assert_message("does not fit the model:\n  missing: head.weight\n  extra: fc2.weight\n");
    assert_int_equal(report.loaded, 0);
    charl_params_report_fini(&report);
    same(&a, &c, "fc1.bias", 4, false);
    charl_assert_ok(charl_params_load(
        c.params, path, &(charl_params_load_options){sizeof(charl_params_load_options), .by_name = true}, &report));
    assert_int_equal(report.loaded, 2);
    assert_string_equal(report.text, "missing: head.weight\nextra: fc2.weight\n");
    charl_params_report_fini(&report);
    same(&a, &c, "fc1.bias", 4, true);
    close_net(&a);
    close_net(&b);
    close_net(&c);
    charl_test_tempdir_remove(dir);
}

/* Names in the file that all have a prefix, or lack the model's: the message gives the entry of init.rename for them. */
static void test_prefixes(void **state)
{
    char *dir = charl_test_tempdir();
    const char *bare = charl_test_path(dir, "bare.h5"), *prefixed = charl_test_path(dir, "prefixed.h5");
    charl_params_report report;
    net a, b;

    (void)state;
    open_net(4, "fc2", 1, &a);
    prefix = "net.a.";
    open_net(4, "fc2", 2, &b);
    prefix = "";
    charl_assert_ok(charl_params_save(a.params, bare, NULL));
    charl_assert_ok(charl_params_save(b.params, prefixed, NULL));
    charl_assert_status(charl_params_load(a.params, prefixed, NULL, &report), CHARL_ERR_CHECKPOINT);
    charl_assert_message("HINT init.rename = net.a.* -> * gives 3 of 3 parameters a tensor");
    charl_params_report_fini(&report);
    charl_assert_status(charl_params_load(b.params, bare, NULL, &report), CHARL_ERR_CHECKPOINT);
    charl_assert_message("HINT init.rename = * -> net.a.* gives 3 of 3 parameters a tensor");
    charl_params_report_fini(&report);
    charl_assert_ok(charl_params_load(
        b.params, bare, &(charl_params_load_options){sizeof(charl_params_load_options), .rename = "* -> net.a.*"},
        &report));
    assert_int_equal(report.loaded, 3);
    charl_params_report_fini(&report);
    close_net(&a);
    close_net(&b);
    charl_test_tempdir_remove(dir);
}

static void test_checkpoint(void **state)
{
    (void)state;
    round_trip("weights.h5");
}

static void test_safetensors(void **state)
{
    (void)state;
    round_trip("weights.safetensors");
}

static void test_other_shapes(void **state)
{
    char *dir = charl_test_tempdir();
    const char *path = charl_test_path(dir, "weights.h5");
    charl_params_report report;
    net a, b;

    (void)state;
    open_net(4, "fc2", 1, &a);
    open_net(6, "fc2", 1, &b);
    charl_assert_ok(charl_params_save(a.params, path, NULL));
    charl_assert_status(
        charl_params_load(b.params, path,
                          &(charl_params_load_options){sizeof(charl_params_load_options), .by_name = true}, &report),
        CHARL_ERR_CHECKPOINT);
    charl_assert_message("has no parameter of this model");
    assert_int_equal(report.misshapen, 3);
    assert_non_null(strstr(report.text, "misshapen: fc1.weight is [4, 5] in the file, [6, 5] in the model\n"));
    charl_params_report_fini(&report);
    close_net(&a);
    close_net(&b);
    charl_test_tempdir_remove(dir);
}

static void test_half_sized_tensors(void **state)
{
    static const uint16_t bits[4] = {0x3f80, 0xc000, 0x3f00, 0x0000}; /* bf16: 1, -2, 0.5, 0 */
    static const float want[4] = {1, -2, 0.5F, 0};
    const charl_checkpoint_tensor t = {.name = "fc1.bias", .dtype = CHARL_BF16, .shape = {1, {4}}, .data = bits};
    char *dir = charl_test_tempdir();
    const char *path = charl_test_path(dir, "bf16.safetensors");
    float got[4];
    net a;

    (void)state;
    open_net(4, "fc2", 1, &a);
    charl_assert_ok(charl_safetensors_save(path, &t, 1, NULL));
    charl_assert_ok(charl_params_load(
        a.params, path, &(charl_params_load_options){sizeof(charl_params_load_options), .by_name = true}, NULL));
    read_param(&a, "fc1.bias", got);
    charl_assert_same_bits(got, want, 4);
    close_net(&a);
    charl_test_tempdir_remove(dir);
}

static void test_errors(void **state)
{
    net a;

    (void)state;
    open_net(4, "fc2", 1, &a);
    charl_assert_status(charl_params_save(a.params, "weights.bin", NULL), CHARL_ERR_INVALID);
    charl_assert_status(
        charl_params_save(a.params, "weights.safetensors",
                          &(charl_params_save_options){sizeof(charl_params_save_options), .config_text = "[model]\n"}),
        CHARL_ERR_INVALID);
    charl_assert_status(charl_params_load(a.params, "/no/such.h5", NULL, NULL), CHARL_ERR_CHECKPOINT);
    charl_assert_status(
        charl_params_save(a.params, "weights.h5",
                          &(charl_params_save_options){sizeof(charl_params_save_options), .config_text = "no ini"}),
        CHARL_ERR_CONFIG);
    close_net(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_prefixes),           cmocka_unit_test(test_checkpoint),
        cmocka_unit_test(test_safetensors),        cmocka_unit_test(test_other_shapes),
        cmocka_unit_test(test_half_sized_tensors), cmocka_unit_test(test_errors),
    };

    return charl_test_on_device(tests, &dev);
}
