/* Parameters saved and loaded in both formats: the same bits, strictly or by name, with a report. */
#include "support/on_device.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "charl/charl.h"
#include "charl/safetensors.h"
#include "charl/tensor_file.h"

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
    charl_assert_message("HINT rename = net.a.* -> * gives 3 of 3 parameters a tensor");
    charl_params_report_fini(&report);
    charl_assert_status(charl_params_load(b.params, bare, NULL, &report), CHARL_ERR_CHECKPOINT);
    charl_assert_message("HINT rename = * -> net.a.* gives 3 of 3 parameters a tensor");
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

/* Wrappers of PyTorch are left out. Of a Lightning module the hint, followed literally, loads the file: its own losses and metrics are skipped. */
static void test_wrappers(void **state)
{
    static const char *const wrapped[][3] = {
        {"module._orig_mod.fc1.weight", "module._orig_mod.fc1.bias", "module._orig_mod.fc2.weight"},
        {"_fsdp_wrapped_module.fc1._fsdp_wrapped_module.weight", "_fsdp_wrapped_module.fc1._fsdp_wrapped_module.bias",
         "_fsdp_wrapped_module.fc2._checkpoint_wrapped_module.weight"},
        {"model._orig_mod.fc1.weight", "model._orig_mod.fc1.bias", "model._orig_mod.fc2.weight"},
    };
    const float w1[20] = {1}, w2[12] = {3}, b1[4] = {2}, loss[2] = {0};
    char *dir = charl_test_tempdir(), rename[32], skip[32];
    const char *path = charl_test_path(dir, "wrapped.safetensors");
    charl_params_report report;
    net a;

    (void)state;
    open_net(4, "fc2", 1, &a);
    for (int i = 0; i < 3; i++) {
        const charl_checkpoint_tensor tensors[] = {
            {.name = wrapped[i][0], .dtype = CHARL_F32, .shape = {2, {4, 5}}, .data = w1},
            {.name = wrapped[i][1], .dtype = CHARL_F32, .shape = {1, {4}}, .data = b1},
            {.name = wrapped[i][2], .dtype = CHARL_F32, .shape = {2, {3, 4}}, .data = w2},
            {.name = "criterion.weight", .dtype = CHARL_F32, .shape = {1, {2}}, .data = loss}};
        charl_params_load_options o = {sizeof o, .by_name = false};
        float back[20];

        charl_assert_ok(charl_safetensors_save(path, tensors, i == 2 ? 4 : 3, NULL));
        if (i == 2) {
            const char *hint;

            charl_assert_status(charl_params_load(a.params, path, &o, &report), CHARL_ERR_CHECKPOINT);
            charl_params_report_fini(&report);
            hint = strstr(charl_error_message(), "HINT ");
            assert_non_null(hint);
            assert_int_equal(sscanf(hint, "HINT rename = %31[^=]= %31s gives 3 of 3", rename, skip), 2);
            assert_non_null(strstr(rename, " and"));
            *strstr(rename, " and") = '\0';
            o.rename = rename;
            o.skip = skip;
        }
        charl_assert_ok(charl_params_load(a.params, path, &o, &report));
        assert_int_equal(report.loaded, 3);
        charl_params_report_fini(&report);
        read_param(&a, "fc1.weight", back);
        assert_memory_equal(back, w1, sizeof w1);
    }
    close_net(&a);
    charl_test_tempdir_remove(dir);
}

/* An array in an archive of NumPy. */
typedef struct array {
    const char *name, *descr, *shape;
    bool fortran;
    const void *data;
    size_t bytes;
} array;

static void put_number(FILE *f, unsigned long v, int bytes)
{
    for (int i = 0; i < bytes; i++) {
        fputc(i < 8 ? (int)(v >> 8 * i & 255) : 0, f);
    }
}

/* An entry of the directory, or the header in front of a file. */
static void put_entry(FILE *f, const char *name, unsigned long bytes, long at, bool directory, bool deflated)
{
    put_number(f, directory ? 0x02014b50 : 0x04034b50, 4);
    put_number(f, 20, directory ? 4 : 2);
    put_number(f, 0, 2);
    put_number(f, deflated ? 8 : 0, 2);
    put_number(f, 0, 8); /* date, checksum */
    put_number(f, bytes, 4);
    put_number(f, bytes, 4);
    put_number(f, strlen(name), 2);
    put_number(f, 0, directory ? 12 : 2);
    if (directory) {
        put_number(f, (unsigned long)at, 4);
    }
    fwrite(name, 1, strlen(name), f);
}

static void write_npz(const char *path, const array *arrays, int n, bool deflated)
{
    FILE *f = fopen(path, "wb");
    char name[8][40], header[256];
    unsigned long bytes[8];
    long at[9], end;

    assert_non_null(f);
    for (int i = 0; i < n; i++) {
        const array *a = &arrays[i];
        const int length = snprintf(header, sizeof header, "{'descr': %s, 'fortran_order': %s, 'shape': %s, }\n",
                                    a->descr, a->fortran ? "True" : "False", a->shape);

        snprintf(name[i], sizeof name[i], "%s.npy", a->name);
        at[i] = ftell(f);
        bytes[i] = 10 + (unsigned long)length + a->bytes;
        put_entry(f, name[i], bytes[i], 0, false, deflated);
        fwrite("\x93NUMPY\1\0", 1, 8, f);
        put_number(f, (unsigned long)length, 2);
        fwrite(header, 1, (size_t)length, f);
        fwrite(a->data, 1, a->bytes, f);
    }
    at[n] = ftell(f);
    for (int i = 0; i < n; i++) {
        put_entry(f, name[i], bytes[i], at[i], true, deflated);
    }
    end = ftell(f);
    put_number(f, 0x06054b50, 4);
    put_number(f, 0, 4);
    put_number(f, (unsigned long)n, 2);
    put_number(f, (unsigned long)n, 2);
    put_number(f, (unsigned long)(end - at[n]), 4);
    put_number(f, (unsigned long)at[n], 4);
    put_number(f, 0, 2);
    assert_int_equal(fclose(f), 0);
}

/* Arrays of NumPy: archives, columns first, F64, which is rounded and told. Texts are no weights. */
static void test_numpy(void **state)
{
    char *dir = charl_test_tempdir();
    const char *path = charl_test_path(dir, "weights.npz"), *alone = charl_test_path(dir, "w.npy");
    float columns[20], bias[4], w[20];
    double last[12];
    const array good[] = {{"fc1.weight", "'<f4'", "(4, 5)", true, columns, sizeof columns},
                          {"fc1.bias", "'<f4'", "(4,)", false, bias, sizeof bias},
                          {"fc2.weight", "'<f8'", "(3, 4)", false, last, sizeof last},
                          {"note", "'<U2'", "()", false, "a\0\0\0b\0\0", 8}};
    const struct {
        array last;
        bool deflated;
        const char *refused;
    } bad[] = {
        {good[2], true, "fc1.weight.npy is compressed; HINT in Python, numpy.savez("},
        {{"fc2.weight", "'<f8'", "(3, 4)", false, "\0\0\0\0\0\0\xf0\x7e", 8},
         false,
         "fc2.weight has 8 bytes of elements, which do not fit its shape"},
        {{"fc2.weight", "'>f8'", "(3, 4)", false, last, sizeof last}, false, "fc2.weight is of the other byte order"},
        {{"fc2.weight", "'|O'", "(3, 4)", false, last, sizeof last},
         false,
         "fc2.weight: element type not understood (structured or object arrays"},
        {{"fc1.bias", "'<f4'", "(4,)", false, bias, sizeof bias}, false, "fc1.bias is in "},
    };
    charl_params_report report;
    charl_tensor_file *file = NULL;
    net a;

    (void)state;
    for (int i = 0; i < 20; i++) {
        columns[i] = (float)(i / 4 + 5 * (i % 4)); /* row by row 0, 1, 2, ... */
        bias[i % 4] = (float)-(i % 4);
        last[i % 12] = i % 12 / 3.0;
    }
    open_net(4, "fc2", 1, &a);
    write_npz(path, good, 4, false);
    charl_assert_ok(charl_params_load(a.params, path, NULL, &report));
    assert_int_equal(report.loaded, 3);
    assert_string_equal(report.text, "F64, as that of fc2.weight, is rounded to f32\n");
    charl_params_report_fini(&report);
    read_param(&a, "fc1.weight", w);
    for (int i = 0; i < 20; i++) {
        assert_true(w[i] == (float)i);
    }
    read_param(&a, "fc2.weight", w);
    for (int i = 0; i < 12; i++) {
        assert_true(w[i] == (float)last[i]);
    }
    last[5] = 1e300;
    write_npz(path, good, 3, false);
    charl_assert_status(charl_params_load(a.params, path, NULL, NULL), CHARL_ERR_CHECKPOINT);
    charl_assert_message("fc2.weight has the value 1e+300, which f32 cannot hold");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const array arrays[] = {good[0], good[1], bad[i].last};

        write_npz(path, arrays, 3, bad[i].deflated);
        charl_assert_status(charl_params_load(a.params, path, NULL, NULL), CHARL_ERR_CHECKPOINT);
        charl_assert_message(bad[i].refused);
    }
    write_npz(alone, good, 1, false);
    {
        FILE *f = fopen(alone, "rb");
        char bytes[400];
        const size_t n = fread(bytes, 1, sizeof bytes, f), skip = 30 + strlen("fc1.weight.npy");

        fclose(f);
        f = fopen(alone, "wb");
        fwrite(bytes + skip, 1, n - skip - 46 - strlen("fc1.weight.npy") - 22, f); /* the array alone */
        fclose(f);
    }
    charl_assert_ok(charl_tensor_file_open(alone, &file));
    assert_int_equal(charl_tensor_file_get_count(file), 1);
    assert_non_null(charl_tensor_file_find(file, "w"));
    charl_tensor_file_close(file);
    close_net(&a);
    charl_test_tempdir_remove(dir);
}

static void put_text(const char *path, const char *text)
{
    FILE *f = fopen(path, "wb");

    assert_non_null(f);
    fwrite(text, 1, strlen(text), f);
    assert_int_equal(fclose(f), 0);
}

/* A folder of PEFT with its base beside it: W + alpha / r B A, a bias that takes the place of the base's, and what is refused. */
static void test_adapters(void **state)
{
#define LORA                                                                                                           \
    "\"peft_type\": \"LORA\", \"base_model_name_or_path\": \"../base.safetensors\", \"r\": 2, \"lora_alpha\": 3"
    static const struct {
        const char *config, *refused; /* NULL: read, with the element 0 of fc1.weight */
        float first;
    } cases[] = {
        {LORA, NULL, 1 + 1.5F * (1 * 10 + 2 * 20)},
        {LORA ", \"alpha_pattern\": {\"x1\": 1, \"fc1\": 4}, \"rank_pattern\": {\"fc1\": 2}", NULL,
         1 + 2.0F * (1 * 10 + 2 * 20)},
        {LORA ", \"use_rslora\": true", NULL, (float)(1 + 3 / 1.4142135623730951 * (1 * 10 + 2 * 20))},
        {LORA ", \"rank_pattern\": {\"fc1\": 4}",
         "adapters [2, 5] and [4, 2] of rank 4 do not fit fc1.weight, which is [4, 5]", 0},
        {LORA ", \"alpha_pattern\": {\"fc.*\": 4}", "alpha_pattern has the key \"fc.*\", a regular expression", 0},
        {LORA ", \"fan_in_fan_out\": true", "do not fit fc1.weight, which is [4, 5]", 0},
        {LORA ", \"use_dora\": true", "adapter_config.json sets use_dora, which is not supported", 0},
        {LORA ", \"init_lora_weights\": \"pissa_niter_4\"", "were initialized by pissa_niter_4, which changes the base",
         0},
        {"\"peft_type\": \"IA3\"", "its peft_type is \"IA3\"; LORA is read", 0},
        {"\"peft_type\": \"LORA\", \"base_model_name_or_path\": \"meta/x\"",
         "the base of its adapters, \"meta/x\", is not here; HINT set base_model_name_or_path", 0},
        {"\"peft_type\": \"LORA\", \"base_model_name_or_path\": \"../adapters\"",
         "is a folder with adapters (PEFT), not", 0},
        {"\"peft_type\": ", "is not a JSON object", 0},
    };
    const float w1[20] = {1}, w2[12] = {3}, b1[4] = {2}, down[10] = {10, 0, 0, 0, 0, 20}, up[8] = {1, 2}, bias[4] = {7};
    const charl_checkpoint_tensor base[] = {
        {.name = "fc1.weight", .dtype = CHARL_F32, .shape = {2, {4, 5}}, .data = w1},
        {.name = "fc1.bias", .dtype = CHARL_F32, .shape = {1, {4}}, .data = b1},
        {.name = "fc2.weight", .dtype = CHARL_F32, .shape = {2, {3, 4}}, .data = w2}};
    charl_checkpoint_tensor adapters[] = {
        {.name = "base_model.model.fc1.lora_A.weight", .dtype = CHARL_F32, .shape = {2, {2, 5}}, .data = down},
        {.name = "base_model.model.fc1.lora_B.weight", .dtype = CHARL_F32, .shape = {2, {4, 2}}, .data = up},
        {.name = "base_model.model.fc1.bias", .dtype = CHARL_F32, .shape = {1, {4}}, .data = bias}};
    char *dir = charl_test_tempdir(), folder[400], config[512], tensors[512], text[512];
    net a;

    (void)state;
    snprintf(folder, sizeof folder, "%s", charl_test_path(dir, "adapters"));
    snprintf(config, sizeof config, "%s/adapter_config.json", folder);
    snprintf(tensors, sizeof tensors, "%s/adapter_model.safetensors", folder);
    assert_int_equal(mkdir(folder, 0700), 0);
    open_net(4, "fc2", 1, &a);
    charl_assert_ok(charl_safetensors_save(charl_test_path(dir, "base.safetensors"), base, 3, NULL));
    charl_assert_ok(charl_safetensors_save(tensors, adapters, 3, NULL));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        float w[20], b[4];

        snprintf(text, sizeof text, "{%s}", cases[i].config);
        put_text(config, text);
        if (cases[i].refused) {
            charl_assert_status(charl_params_load(a.params, folder, NULL, NULL), CHARL_ERR_CHECKPOINT);
            charl_assert_message(cases[i].refused);
            continue;
        }
        charl_assert_ok(charl_params_load(a.params, folder, NULL, NULL));
        read_param(&a, "fc1.weight", w);
        read_param(&a, "fc1.bias", b);
        assert_true(w[0] == cases[i].first && w[1] == 0);
        assert_memory_equal(b, bias, sizeof b);
    }
    put_text(config, "{" LORA "}");
    charl_assert_status(charl_params_load(a.params, tensors, NULL, NULL), CHARL_ERR_CHECKPOINT);
    charl_assert_message("has adapters of peft; HINT name its folder, with adapter_config.json");
    adapters[1].name = "base_model.model.fc1.lora_magnitude_vector";
    charl_assert_ok(charl_safetensors_save(tensors, adapters, 3, NULL));
    charl_assert_status(charl_params_load(a.params, folder, NULL, NULL), CHARL_ERR_CHECKPOINT);
    charl_assert_message("fc1.lora_magnitude_vector is not supported");
    charl_assert_ok(charl_safetensors_save(tensors, adapters, 1, NULL));
    charl_assert_status(charl_params_load(a.params, folder, NULL, NULL), CHARL_ERR_CHECKPOINT);
    charl_assert_message("it has base_model.model.fc1.lora_A.weight and no base_model.model.fc1.lora_B.weight");
    adapters[1].name = "base_model.model.fc2.lora_embedding_A";
    charl_assert_ok(charl_safetensors_save(tensors, &adapters[1], 1, NULL));
    charl_assert_status(charl_params_load(a.params, folder, NULL, NULL), CHARL_ERR_CHECKPOINT);
    charl_assert_message("adapts an embedding, and the base has no lm_head.weight");
    adapters[0].name = "base_model.model.fc9.lora_A.weight";
    adapters[1].name = "base_model.model.fc9.lora_B.weight";
    charl_assert_ok(charl_safetensors_save(tensors, adapters, 3, NULL));
    charl_assert_status(charl_params_load(a.params, folder, NULL, NULL), CHARL_ERR_CHECKPOINT);
    charl_assert_message("the base of its adapters has no fc9.weight");
    put_text(config, "{" LORA ", \"modules_to_save\": [\"wte\"]}"); /* the output layer is not what peft trained */
    adapters[2].name = "base_model.model.wte.weight";
    charl_assert_ok(charl_safetensors_save(tensors, &adapters[2], 1, NULL));
    charl_assert_status(charl_params_load(a.params, folder, NULL, NULL), CHARL_ERR_CHECKPOINT);
    charl_assert_message("its modules_to_save have the embedding wte, and the base has no lm_head.weight");
    close_net(&a);
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
        cmocka_unit_test(test_prefixes),     cmocka_unit_test(test_wrappers),
        cmocka_unit_test(test_numpy),        cmocka_unit_test(test_adapters),
        cmocka_unit_test(test_checkpoint),   cmocka_unit_test(test_safetensors),
        cmocka_unit_test(test_other_shapes), cmocka_unit_test(test_half_sized_tensors),
        cmocka_unit_test(test_errors),
    };

    return charl_test_on_device(tests, &dev);
}
