#ifndef CHARL_TESTS_SUPPORT_MODELS_H
#define CHARL_TESTS_SUPPORT_MODELS_H
/** Models that are made in code, with random weights, and saved: what the tests of infer, export and report open. Public headers only. */
#include "support/support.h"

#include <stdio.h>
#include <string.h>

#include <charl/charl.h>

static inline void write_text_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");

    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

/** The parameters of `model` over an input of `shape`, with values from seed 1, saved as `path`. */
static inline void save_model(const charl_model *model, charl_dtype dtype, charl_shape shape, const char *config,
                              const charl_data_schema *schema, const char *path)
{
    const charl_params_save_options o = {sizeof o, .config_text = config, .schema = schema};
    charl_device *dev = NULL;
    charl_params *params = NULL;
    charl_graph *g = NULL;

    charl_assert_ok(charl_device_open(&(charl_device_request){sizeof(charl_device_request), .local_size = 1}, &dev));
    charl_assert_ok(charl_params_create(&params));
    charl_assert_ok(charl_graph_create(dev, NULL, &g));
    charl_graph_keep(g, charl_model_build(model, g, params, charl_input(g, "x", dtype, shape, CHARL_BATCHED)));
    charl_assert_ok(charl_graph_compile(g));
    charl_assert_ok(charl_params_initialize(params, 1));
    charl_assert_ok(charl_params_save(params, path, &o));
    charl_graph_destroy(g);
    charl_params_destroy(params);
    charl_device_close(dev);
}

#define GPT_CONFIG_OF(mlp)                                                                                             \
    "[data]\npath = none\n[model]\ntype = gpt\nn_layer = 2\nn_head = 2\nn_embd = 16\nblock_size = 16\nmlp = " mlp      \
    "\n[device]\nshare = yes\n"
#define GPT_CONFIG GPT_CONFIG_OF("gelu")

/** A gpt with a window of 16, which puts out much the same logits: small weights. `tanh`: of gelu. */
static inline void save_gpt_as(const char *dir, const char *path, const char *tokenizer, bool tanh)
{
    static const char text[] = "the quick brown fox jumps over the lazy dog, and the dog sleeps on";
    const charl_import_options import = {sizeof import, .overwrite = true};
    const charl_dataset_options window = {sizeof window, .window = 16};
    char data[512], source[512];
    const char *const paths[] = {source};
    charl_dataset *ds = NULL;
    charl_dataset_info info;
    charl_data_schema *schema = NULL;
    charl_model *model = NULL;

    snprintf(source, sizeof source, "%s/text.txt", dir);
    snprintf(data, sizeof data, "%s/text.h5", dir);
    write_text_file(source, text);
    charl_assert_ok(charl_import("text", (const char *const[]){tokenizer, NULL}, paths, 1, data, &import));
    charl_assert_ok(charl_dataset_open(data, &window, &ds));
    charl_dataset_get_info(ds, &info);
    charl_assert_ok(charl_data_schema_create(ds, 0, NULL, NULL, &schema));
    charl_assert_ok(charl_model_create(&model));
    charl_assert_ok(
        charl_model_add_gpt(model, &(charl_gpt_config){.n_layer = 2,
                                                       .n_head = 2,
                                                       .n_embd = 16,
                                                       .block_size = 16,
                                                       .vocab = info.classes,
                                                       .tie_weights = true,
                                                       .mlp = tanh ? CHARL_BLOCK_GELU_TANH : CHARL_BLOCK_GELU}));
    save_model(model, CHARL_I32, (charl_shape){2, {1, 16}}, tanh ? GPT_CONFIG_OF("gelu_tanh") : GPT_CONFIG, schema,
               path);
    charl_model_destroy(model);
    charl_data_schema_destroy(schema);
    charl_dataset_close(ds);
}

/** One of characters. */
static inline void save_gpt(const char *dir, const char *path)
{
    save_gpt_as(dir, path, "tokenizer=chars", false);
}

#define MLP_CONFIG                                                                                                     \
    "[run]\nname = digits\n[data]\npath = none\n[model]\ntype = mlp\nhidden = 12\n[train]\nloss = cross_entropy\n"     \
    "[device]\nshare = yes\n"
enum { MLP_CLASSES = 10, DIGIT_MEAN = 40, DIGIT_STD = 80 };

static inline charl_model *create_mlp(void)
{
    const int64_t hidden[] = {12};
    charl_model *model = NULL;

    charl_assert_ok(charl_model_create(&model));
    charl_assert_ok(
        charl_model_add_mlp(model, &(charl_mlp_config){.hidden = hidden, .n_hidden = 1, .outputs = MLP_CLASSES}));
    return model;
}

/** A perceptron over digits, whose rows are normalized with DIGIT_MEAN and DIGIT_STD. *row: the shape of a digit. */
static inline void save_mlp(const char *dir, const char *path, charl_shape *row)
{
    const charl_make_options make = {sizeof make, .kind = "digits", .n_train = 20, .seed = 1, .overwrite = true};
    const float mean = DIGIT_MEAN, std = DIGIT_STD;
    char data[512];
    charl_dataset *ds = NULL;
    charl_dataset_info info;
    charl_data_schema *schema = NULL;
    charl_model *model = create_mlp();
    charl_shape batch = {4, {1}};

    snprintf(data, sizeof data, "%s/digits.h5", dir);
    charl_assert_ok(charl_dataset_make(data, &make));
    charl_assert_ok(charl_dataset_open(data, NULL, &ds));
    charl_dataset_get_info(ds, &info);
    *row = info.x_shape;
    assert_int_equal(row->ndim, 3);
    memcpy(batch.dim + 1, row->dim, 3 * sizeof batch.dim[0]);
    charl_assert_ok(charl_data_schema_create(ds, 1, &mean, &std, &schema));
    save_model(model, CHARL_F32, batch, MLP_CONFIG, schema, path);
    charl_model_destroy(model);
    charl_data_schema_destroy(schema);
    charl_dataset_close(ds);
}

/** The same model over rows of u8, in code: what charl_inference_create and charl_export_onnx take. */
typedef struct mlp {
    charl_model *model;
    charl_params *params;
} mlp;

static inline charl_var *build_mlp(void *ctx, charl_graph *g, charl_var *x)
{
    const mlp *m = ctx;

    x = charl_sub(g, charl_cast(g, x, CHARL_F32), charl_constant(g, DIGIT_MEAN));
    return charl_model_build(m->model, g, m->params, charl_mul(g, x, charl_constant(g, 1.0F / DIGIT_STD)));
}

#endif
