/* Exports of models that were saved in code, and of graphs that were built in code. Public headers only. */
#include "support/models.h"

#include <stdlib.h>

static char *dir;
static char path[512], gpt[512];
static charl_shape row;

static int setup(void **state)
{
    (void)state;
    dir = charl_test_tempdir();
    snprintf(path, sizeof path, "%s/mlp.h5", dir);
    snprintf(gpt, sizeof gpt, "%s/gpt.h5", dir);
    save_mlp(dir, path, &row);
    save_gpt(dir, gpt);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    charl_test_tempdir_remove(dir);
    return 0;
}

static const char *in_dir(const char *name)
{
    return charl_test_path(dir, name);
}

/* The bytes of a file, to be freed. */
static unsigned char *read_file(const char *file, size_t *bytes)
{
    FILE *f = fopen(file, "rb");
    unsigned char *data = NULL;
    long size;

    assert_non_null(f);
    assert_int_equal(fseek(f, 0, SEEK_END), 0);
    size = ftell(f);
    assert_true(size > 0);
    rewind(f);
    data = malloc((size_t)size + 1);
    assert_non_null(data);
    *bytes = fread(data, 1, (size_t)size, f);
    assert_int_equal(*bytes, size);
    data[size] = '\0';
    fclose(f);
    return data;
}

static void formats_are_listed(void **state)
{
    bool onnx = false, safetensors = false;
    const char *help;

    (void)state;
    for (int i = 0; charl_export_format(i, &help); i++) {
        const char *name = charl_export_format(i, NULL);

        onnx = onnx || strcmp(name, "onnx") == 0;
        safetensors = safetensors || strcmp(name, "safetensors") == 0;
        assert_true(help[0]);
    }
    assert_true(onnx && safetensors);
    charl_assert_status(charl_export_model(path, NULL, 0, CHARL_EMA_AUTO, in_dir("model.pickle")), CHARL_ERR_CONFIG);
    charl_assert_message("onnx");
    charl_assert_status(charl_export_model(in_dir("none.h5"), NULL, 0, CHARL_EMA_AUTO, in_dir("model.onnx")),
                        CHARL_ERR_CHECKPOINT);
}

/* A perceptron in code, with the parameters of a file. */
typedef struct loaded {
    charl_device *dev;
    charl_graph *compiled; /* gives the parameters their memory */
    mlp net;
} loaded;

static void load(loaded *l, const char *file)
{
    charl_graph *g = NULL;

    charl_assert_ok(charl_device_open(&(charl_device_request){sizeof(charl_device_request), .local_size = 1}, &l->dev));
    l->net.model = create_mlp();
    charl_assert_ok(charl_params_create(&l->net.params));
    charl_assert_ok(charl_graph_create(l->dev, NULL, &g));
    charl_graph_set_training(g, false);
    charl_graph_keep(
        g, build_mlp(&l->net, g, charl_input(g, "x", CHARL_U8, (charl_shape){4, {1, 1, 28, 28}}, CHARL_BATCHED)));
    charl_assert_ok(charl_graph_compile(g));
    charl_assert_ok(charl_params_load(l->net.params, file, NULL, NULL));
    l->compiled = g;
}

static void unload(loaded *l)
{
    charl_graph_destroy(l->compiled);
    charl_params_destroy(l->net.params);
    charl_model_destroy(l->net.model);
    charl_device_close(l->dev);
}

/* Safetensors hold the same values under the same names. */
static void safetensors_hold_the_weights(void **state)
{
    loaded a = {0}, b = {0};

    (void)state;
    charl_assert_ok(charl_export_model(path, NULL, 0, CHARL_EMA_AUTO, in_dir("mlp.safetensors")));
    load(&a, path);
    load(&b, in_dir("mlp.safetensors"));
    assert_true(charl_params_get_count(a.net.params) == 4);
    for (int i = 0; i < 4; i++) {
        const charl_param *p = charl_params_get(a.net.params, i);
        const charl_param_spec *spec = charl_param_get_spec(p);
        const int64_t n = charl_shape_count(&spec->shape);
        float *x = malloc((size_t)n * sizeof *x), *y = malloc((size_t)n * sizeof *y);

        assert_true(x && y);
        charl_assert_ok(charl_param_read(p, x));
        charl_assert_ok(charl_param_read(charl_params_find(b.net.params, spec->name), y));
        charl_assert_same_bits(y, x, n);
        free(x);
        free(y);
    }
    unload(&a);
    unload(&b);
}

/* The graph that charl_export_model builds for MLP_CONFIG, in code: mean and 1 / std are two more parameters of it. */
static charl_var *like_the_configuration(loaded *l, charl_graph *g, charl_params *stats)
{
    charl_var *v =
        charl_cast(g, charl_input(g, "input", CHARL_U8, (charl_shape){4, {1, 1, 28, 28}}, CHARL_BATCHED), CHARL_F32);
    charl_param *shift = charl_params_find(stats, "input.shift"), *scale = charl_params_find(stats, "input.scale");

    v = charl_sub(g, v, charl_parameter(g, shift));
    v = charl_mul(g, v, charl_parameter(g, scale));
    return charl_model_build(l->net.model, g, l->net.params, v);
}

/* The graph in the ONNX file of a checkpoint and that of the same layers in code are the same bytes: onnxruntime runs the former
 * (interop/onnx). The file of the checkpoint has metadata in front of it. */
static void graphs_in_code_are_those_of_configurations(void **state)
{
    const charl_onnx_options o = {sizeof o, .name = "digits"};
    charl_graph *g = NULL, *first = NULL;
    charl_var *y = NULL;
    loaded l = {0};
    unsigned char *ini, *code;
    size_t n_ini, n_code, head = 0;
    float shift = DIGIT_MEAN, scale = 1.0F / DIGIT_STD;
    const charl_param_spec specs[] = {
        {.name = "input.shift", .shape = {1, {1}}, .init = {CHARL_INIT_CONSTANT, 0, 0}},
        {.name = "input.scale", .shape = {1, {1}}, .init = {CHARL_INIT_CONSTANT, 0, 0}},
    };
    charl_param *p;

    (void)state;
    /* the parameters of the model, and the two, in one set */
    charl_assert_ok(charl_device_open(&(charl_device_request){sizeof(charl_device_request), .local_size = 1}, &l.dev));
    l.net.model = create_mlp();
    charl_assert_ok(charl_params_create(&l.net.params));
    charl_assert_ok(charl_params_add(l.net.params, &specs[0], &p));
    charl_assert_ok(charl_params_add(l.net.params, &specs[1], &p));
    charl_assert_ok(charl_graph_create(l.dev, NULL, &first));
    charl_graph_set_training(first, false);
    charl_graph_keep(first, like_the_configuration(&l, first, l.net.params));
    charl_assert_ok(charl_graph_compile(first));
    charl_assert_ok(charl_params_load(
        l.net.params, path, &(charl_params_load_options){sizeof(charl_params_load_options), .by_name = true}, NULL));
    charl_assert_ok(charl_param_write(charl_params_find(l.net.params, "input.shift"), &shift));
    charl_assert_ok(charl_param_write(charl_params_find(l.net.params, "input.scale"), &scale));

    charl_assert_ok(charl_graph_create(NULL, NULL, &g));
    charl_graph_set_training(g, false);
    y = like_the_configuration(&l, g, l.net.params);
    charl_assert_ok(charl_export_onnx(g, &y, 1, &o, in_dir("code.onnx")));
    charl_assert_ok(charl_export_model(path, NULL, 0, CHARL_EMA_AUTO, in_dir("ini.onnx")));
    code = read_file(in_dir("code.onnx"), &n_code);
    ini = read_file(in_dir("ini.onnx"), &n_ini);
    assert_true(n_code > 12 * 784 * sizeof(float) && n_ini > n_code);
    while (code[head] == ini[head]) {
        head++;
    }
    assert_true(head < 64);
    assert_memory_equal(code + head, ini + (n_ini - n_code) + head, n_code - head);
    free(code);
    free(ini);

    /* what is refused */
    charl_assert_status(charl_export_onnx(first, &y, 1, NULL, in_dir("x.onnx")), CHARL_ERR_INVALID);
    charl_assert_message("the graph is compiled");
    charl_assert_status(charl_export_onnx(g, &y, 0, NULL, in_dir("x.onnx")), CHARL_ERR_INVALID);
    charl_assert_status(charl_export_onnx(g, (charl_var *[]){y, y}, 2, NULL, in_dir("x.onnx")), CHARL_ERR_INVALID);
    charl_assert_message("output_names");
    charl_graph_destroy(g);
    charl_assert_ok(charl_graph_create(NULL, NULL, &g));
    charl_assert_status(charl_export_onnx(g, &y, 1, NULL, in_dir("x.onnx")), CHARL_ERR_INVALID);
    charl_assert_message("charl_graph_set_training(g, false)");
    charl_graph_destroy(g);
    charl_graph_destroy(first);
    charl_params_destroy(l.net.params);
    charl_model_destroy(l.net.model);
    charl_device_close(l.dev);
}

/* Parameters without values, values of another graph, and an operator that ONNX does not have are errors; nothing is written. */
static void graphs_that_are_refused(void **state)
{
    charl_graph *g = NULL, *other = NULL;
    charl_params *params = NULL;
    charl_model *model = create_mlp();
    charl_var *y, *foreign;

    (void)state;
    charl_assert_ok(charl_params_create(&params));
    charl_assert_ok(charl_graph_create(NULL, NULL, &g));
    charl_assert_ok(charl_graph_create(NULL, NULL, &other));
    charl_graph_set_training(g, false);
    y = charl_model_build(model, g, params, charl_input(g, "x", CHARL_F32, (charl_shape){2, {1, 8}}, CHARL_BATCHED));
    charl_assert_status(charl_export_onnx(g, &y, 1, NULL, in_dir("x.onnx")), CHARL_ERR_INVALID);
    charl_assert_message("has no memory yet");
    foreign = charl_input(other, "x", CHARL_F32, (charl_shape){2, {1, 8}}, CHARL_BATCHED);
    charl_assert_status(charl_export_onnx(g, &foreign, 1, NULL, in_dir("x.onnx")), CHARL_ERR_INVALID);
    charl_assert_message("outputs[0] is no value of this graph");
    assert_null(fopen(in_dir("x.onnx"), "rb"));
    charl_graph_destroy(g);
    charl_graph_destroy(other);
    charl_params_destroy(params);
    charl_model_destroy(model);
}

/* softmax(gelu(x @ weight^T + bias)), with a loss beside it that the export must not see. */
static charl_var *classifier(charl_graph *g, charl_params *params)
{
    charl_var *x = charl_input(g, "x", CHARL_F32, (charl_shape){2, {2, 3}}, CHARL_BATCHED);
    charl_var *y = charl_input(g, "y", CHARL_I32, (charl_shape){1, {2}}, CHARL_BATCHED);
    charl_var *w = charl_parameter(g, charl_params_find(params, "fc.weight"));
    charl_var *b = charl_parameter(g, charl_params_find(params, "fc.bias"));
    charl_var *h = charl_gelu(g, charl_linear(g, x, w, b), true);

    charl_cross_entropy(g, h, y, NULL, NULL);
    return charl_softmax(g, h);
}

/* A set with the parameters of a classifier, which have memory: a graph over them was compiled. */
static charl_params *classifier_params(charl_device *dev)
{
    charl_params *params = NULL;
    charl_graph *g = NULL;

    charl_assert_ok(charl_params_create(&params));
    for (int i = 0; i < 2; i++) {
        charl_param *p;
        const charl_param_spec spec = {
            .name = i ? "fc.bias" : "fc.weight", .shape = {2 - i, {4, 3}}, .trainable = true};

        charl_assert_ok(charl_params_add(params, &spec, &p));
    }
    charl_assert_ok(charl_graph_create(dev, NULL, &g));
    charl_graph_keep(g, classifier(g, params));
    charl_assert_ok(charl_graph_compile(g));
    charl_assert_ok(charl_params_initialize(params, 1));
    charl_graph_destroy(g);
    return params;
}

static charl_graph *inference_graph(void)
{
    charl_graph *g = NULL;

    charl_assert_ok(charl_graph_create(NULL, NULL, &g));
    charl_graph_set_training(g, false);
    return g;
}

static charl_status export_classifier(void *ctx)
{
    charl_graph *g = NULL;
    charl_var *y;
    charl_status st = charl_graph_create(NULL, NULL, &g);

    if (st == CHARL_OK) {
        charl_graph_set_training(g, false);
        y = classifier(g, ctx);
        st = charl_graph_status(g);
        st = st == CHARL_OK ? charl_export_onnx(g, &y, 1, NULL, in_dir("c.onnx")) : st;
    }
    charl_graph_destroy(g);
    return st;
}

static bool holds(const unsigned char *data, size_t bytes, const char *part)
{
    const size_t n = strlen(part);

    for (size_t i = 0; i + n <= bytes; i++) {
        if (memcmp(data + i, part, n) == 0) {
            return true;
        }
    }
    return false;
}

/* What the output depends on is exported, the same bytes each time, and nothing is left when something fails. */
static void a_part_of_a_graph_is_exported(void **state)
{
    charl_device *dev = NULL;
    charl_params *params;
    unsigned char *a, *b;
    size_t n, m;

    (void)state;
    charl_assert_ok(charl_device_open(&(charl_device_request){sizeof(charl_device_request), .local_size = 1}, &dev));
    params = classifier_params(dev);
    charl_assert_ok(export_classifier(params));
    a = read_file(in_dir("c.onnx"), &n);
    assert_true(charl_test_fail_every_acquisition(export_classifier, params) > 10);
    b = read_file(in_dir("c.onnx"), &m);
    assert_int_equal(n, m);
    assert_memory_equal(a, b, n);
    assert_true(holds(a, n, "fc.weight") && holds(a, n, "Gemm") && holds(a, n, "Softmax"));
    assert_false(holds(a, n, "cross_entropy"));
    free(a);
    free(b);
    charl_params_destroy(params);
    charl_device_close(dev);
}

static void refuse(charl_graph *g, charl_var *output, charl_status code, const char *message)
{
    charl_assert_status(charl_export_onnx(g, &output, 1, NULL, in_dir("x.onnx")), code);
    charl_assert_message(message);
    assert_null(fopen(in_dir("x.onnx"), "rb"));
    charl_graph_destroy(g);
}

static void what_onnx_cannot_express_is_refused(void **state)
{
    const charl_shape rows = {2, {2, 3}};
    charl_graph *g = inference_graph();
    charl_var *x = charl_input(g, "x", CHARL_F32, rows, CHARL_BATCHED);

    (void)state;
    charl_graph_scope_begin(g, "count");
    x = charl_top_k_correct(g, x, charl_input(g, "y", CHARL_I32, (charl_shape){1, {2}}, CHARL_BATCHED), 2);
    charl_graph_scope_end(g);
    refuse(g, x, CHARL_ERR_CONFIG, "ONNX: count.top_k_correct: operator top_k_correct cannot be exported");

    g = inference_graph();
    x = charl_cast(g, charl_input(g, "x", CHARL_F32, rows, CHARL_BATCHED), CHARL_U8);
    refuse(g, x, CHARL_ERR_CONFIG, "ONNX: cast: only casts to f32 and i32 can be exported");

    g = inference_graph();
    x = charl_cast(g, charl_input(g, "x", CHARL_BF16, rows, CHARL_BATCHED), CHARL_F32);
    refuse(g, x, CHARL_ERR_CONFIG, "ONNX: x: element type bf16 cannot be exported");

    g = inference_graph(); /* the graph's own error */
    x = charl_input(g, "x", CHARL_F32, rows, CHARL_BATCHED);
    charl_matmul(g, x, x, false, false);
    refuse(g, x, CHARL_ERR_SHAPE, "matmul");

    g = inference_graph();
    charl_graph_keep(g, charl_input(g, "x", CHARL_F32, rows, CHARL_BATCHED));
    charl_assert_status(charl_graph_compile(g), CHARL_ERR_INVALID);
    charl_assert_message("the graph has no device");
    charl_graph_destroy(g);
}

/* Values are known by their names in the file. */
static void names_mean_one_value(void **state)
{
    const charl_shape rows = {2, {2, 3}};
    const charl_onnx_options x_twice = {sizeof x_twice, .output_names = (const char *const[]){"x"}},
                             y_twice = {sizeof y_twice, .output_names = (const char *const[]){"y", "y"}};
    charl_device *dev = NULL;
    charl_params *first, *second;
    charl_graph *g = inference_graph();
    charl_var *x, *y[2];

    (void)state;
    charl_assert_ok(charl_device_open(&(charl_device_request){sizeof(charl_device_request), .local_size = 1}, &dev));
    first = classifier_params(dev);
    second = classifier_params(dev);
    x = charl_input(g, "x", CHARL_F32, rows, CHARL_BATCHED);
    x = charl_add(g, charl_linear(g, x, charl_parameter(g, charl_params_find(first, "fc.weight")), NULL),
                  charl_linear(g, x, charl_parameter(g, charl_params_find(second, "fc.weight")), NULL));
    refuse(
        g, x, CHARL_ERR_CONFIG,
        "ONNX: two values of the graph are called fc.weight; HINT give inputs, outputs and the parameters of each set "
        "names of their own");

    g = inference_graph();
    x = charl_input(g, "x", CHARL_F32, rows, CHARL_BATCHED);
    refuse(g, charl_add(g, x, charl_input(g, "x", CHARL_F32, rows, CHARL_BATCHED)), CHARL_ERR_CONFIG,
           "two values of the graph are called x");

    g = inference_graph();
    x = charl_input(g, "x", CHARL_F32, rows, CHARL_BATCHED);
    y[0] = charl_relu(g, x);
    y[1] = charl_tanh(g, x);
    charl_assert_status(charl_export_onnx(g, y, 1, &x_twice, in_dir("x.onnx")), CHARL_ERR_CONFIG);
    charl_assert_message("two values of the graph are called x");
    charl_assert_status(charl_export_onnx(g, y, 2, &y_twice, in_dir("x.onnx")), CHARL_ERR_CONFIG);
    charl_assert_message("two outputs are called y");
    assert_null(fopen(in_dir("x.onnx"), "rb"));
    charl_graph_destroy(g);
    charl_params_destroy(first);
    charl_params_destroy(second);
    charl_device_close(dev);
}

/* A gpt as a folder of transformers; one without adapters has none for peft. */
static void folders(void **state)
{
    unsigned char *json;
    size_t bytes;

    (void)state;
    charl_assert_ok(charl_export_huggingface(gpt, NULL, in_dir("hf")));
    json = read_file(in_dir("hf/config.json"), &bytes);
    assert_non_null(strstr((const char *)json, "\"gpt2\""));
    free(json);
    free(read_file(in_dir("hf/model.safetensors"), &bytes));
    charl_assert_status(charl_export_huggingface(gpt, NULL, in_dir("hf")), CHARL_ERR_DISK); /* not empty */
    charl_assert_status(charl_export_peft(gpt, NULL, in_dir("peft")), CHARL_ERR_CONFIG);
    charl_assert_status(charl_export_huggingface(path, NULL, in_dir("other")), CHARL_ERR_CONFIG);
    assert_null(fopen(in_dir("other/config.json"), "rb"));
}

/* Bytes as tokens are written for llama.cpp; what it does not have is refused, and no file is left. */
static void gguf_files(void **state)
{
    unsigned char *file;
    size_t bytes;

    (void)state;
    charl_assert_status(charl_export_model(path, NULL, 0, CHARL_EMA_NO, in_dir("x.gguf")), CHARL_ERR_CONFIG);
    charl_assert_message("layout is known for gpt, bert and vit only");
    charl_assert_status(charl_export_model(gpt, NULL, 0, CHARL_EMA_NO, in_dir("x.gguf")), CHARL_ERR_CONFIG);
    charl_assert_message("the mlp gelu_tanh, and the model another");
    assert_null(fopen(in_dir("x.gguf"), "rb"));
    save_gpt_as(dir, in_dir("tanh.h5"), "tokenizer=chars", true);
    charl_assert_status(charl_export_model(in_dir("tanh.h5"), NULL, 0, CHARL_EMA_NO, in_dir("x.gguf")),
                        CHARL_ERR_CONFIG);
    charl_assert_message("is of type WordLevel; for llama.cpp charl writes BPE");
    save_gpt_as(dir, in_dir("bytes.h5"), "tokenizer=bytes", true);
    charl_assert_ok(charl_export_model(in_dir("bytes.h5"), NULL, 0, CHARL_EMA_NO, in_dir("x-q8_0.gguf")));
    file = read_file(in_dir("x-q8_0.gguf"), &bytes);
    assert_memory_equal(file, "GGUF\3\0\0\0", 8);
    assert_int_equal(bytes % 32, 0);
    free(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(formats_are_listed),
        cmocka_unit_test(safetensors_hold_the_weights),
        cmocka_unit_test(graphs_in_code_are_those_of_configurations),
        cmocka_unit_test(graphs_that_are_refused),
        cmocka_unit_test(a_part_of_a_graph_is_exported),
        cmocka_unit_test(what_onnx_cannot_express_is_refused),
        cmocka_unit_test(names_mean_one_value),
        cmocka_unit_test(folders),
        cmocka_unit_test(gguf_files),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
