/* Files of other programs: names, prefixes, transposed and separate matrices, shards, element types. What must not happen is that a weight
 * lands in another place or is lost without a word. The files are made here, by loops that know nothing of the rows. */
#include "support/on_device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "charl/charl.h"

enum { WIDTH = 8, HEAD = 4, HEADS = 2, TENSORS = 64, BLOCKS = 2 };

static charl_device *dev;

/* A gpt on the device. */
typedef struct net {
    charl_config *config;
    charl_model *model;
    charl_params *params;
    charl_graph *g;
} net;

static void open_net(const char *settings, uint64_t seed, net *n)
{
    char text[1024];
    const charl_shape tokens = {2, {1, 3}};
    const void *gpt;

    snprintf(text, sizeof text,
             "[data]\npath = none\n[model]\ntype = gpt\nn_layer = %d\nn_head = %d\nn_embd = %d\n"
             "block_size = 3\nvocab_size = 5\n%s",
             BLOCKS, HEADS, WIDTH, settings);
    charl_assert_ok(charl_config_parse("test.ini", text, strlen(text), NULL, 0, &n->config));
    charl_assert_ok(charl_config_get_settings(n->config, "model", &gpt));
    charl_assert_ok(charl_model_create(&n->model));
    charl_assert_ok(charl_model_add_gpt(n->model, gpt));
    charl_assert_ok(charl_params_create(&n->params));
    charl_assert_ok(charl_graph_create(dev, NULL, &n->g));
    charl_graph_set_training(n->g, false);
    charl_graph_keep(
        n->g, charl_model_build(n->model, n->g, n->params, charl_input(n->g, "x", CHARL_I32, tokens, CHARL_BATCHED)));
    charl_assert_ok(charl_graph_compile(n->g));
    charl_assert_ok(charl_params_initialize(n->params, seed));
}

static void close_net(net *n)
{
    charl_graph_destroy(n->g);
    charl_params_destroy(n->params);
    charl_model_destroy(n->model);
    charl_config_destroy(n->config);
}

/* Every parameter another value, norms and biases too. */
static void fill(net *n)
{
    for (int i = 0; i < charl_params_get_count(n->params); i++) {
        charl_param *p = charl_params_get(n->params, i);
        const int64_t count = charl_shape_count(&charl_param_get_spec(p)->shape);
        float *v = malloc((size_t)count * sizeof *v);

        assert_non_null(v);
        for (int64_t k = 0; k < count; k++) { /* exact in bf16 */
            v[k] = (float)(k % 128 + 1) * (i % 2 ? 0.5F : -0.25F);
        }
        charl_assert_ok(charl_param_write(p, v));
        free(v);
    }
}

/* A file that is being made. */
typedef struct file {
    charl_checkpoint_tensor tensor[TENSORS];
    char name[TENSORS][96];
    int n;
} file;

static void add(file *f, const char *name, const float *v, int64_t rows, int64_t columns)
{
    const charl_shape shape = columns > 0 ? (charl_shape){2, {rows, columns}} : (charl_shape){1, {rows}};
    const size_t bytes = (size_t)charl_shape_count(&shape) * sizeof *v;
    float *copy = malloc(bytes);

    assert_non_null(copy);
    assert_true(f->n < TENSORS);
    memcpy(copy, v, bytes);
    snprintf(f->name[f->n], sizeof f->name[0], "%s", name);
    f->tensor[f->n] =
        (charl_checkpoint_tensor){.name = f->name[f->n], .dtype = CHARL_F32, .shape = shape, .data = copy};
    f->n++;
}

static void free_file(file *f)
{
    for (int i = 0; i < f->n; i++) {
        free((void *)(uintptr_t)f->tensor[i].data);
    }
    free(f);
}

static file *new_file(void)
{
    file *f = calloc(1, sizeof *f);

    assert_non_null(f);
    return f;
}

static float *value_of(const net *n, const char *name, int64_t *rows, int64_t *columns)
{
    const charl_param *p = charl_params_find(n->params, name);
    float *v;

    assert_non_null(p);
    const charl_shape shape = charl_param_get_spec(p)->shape;

    *rows = shape.dim[0];
    *columns = shape.ndim > 1 ? shape.dim[1] : 0;
    v = malloc((size_t)charl_shape_count(&shape) * sizeof *v);
    assert_non_null(v);
    charl_assert_ok(charl_param_read(p, v));
    return v;
}

/* [rows, columns] -> [columns, rows] */
static float *turned(const float *v, int64_t rows, int64_t columns)
{
    float *t = malloc((size_t)(rows * columns) * sizeof *t);

    assert_non_null(t);
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t c = 0; c < columns; c++) {
            t[c * rows + r] = v[r * columns + c];
        }
    }
    return t;
}

/* GPT-2's names behind `prefix`; with `conv1d` as Hugging Face's, else as nanoGPT's. */
static file *gpt2_file(const net *n, const char *prefix, bool conv1d)
{
    file *f = new_file();
    char name[128];

    for (int i = 0; i < charl_params_get_count(n->params); i++) {
        const char *own = charl_param_get_spec(charl_params_get(n->params, i))->name;
        int64_t rows, columns;
        float *v = value_of(n, own, &rows, &columns);

        snprintf(name, sizeof name, "%s%s", prefix, own);
        if (conv1d && strstr(own, ".c_") && columns > 0) {
            float *t = turned(v, rows, columns);

            add(f, name, t, columns, rows);
            free(t);
        } else {
            add(f, name, v, rows, columns);
        }
        free(v);
    }
    return f;
}

static void add_rows(file *f, const char *layer, const char *part, const char *end, const float *v, int64_t first,
                     int64_t rows, int64_t columns)
{
    char name[128];

    snprintf(name, sizeof name, "%s%s.%s", layer, part, end);
    add(f, name, v + first * (columns ? columns : 1), rows, columns);
}

/* Llama's names; kv: rows of keys. */
static file *llama_file(const net *n, int64_t kv, bool biases)
{
    static const char *const same[][2] = {{"ln_1.weight", "input_layernorm.weight"},
                                          {"ln_2.weight", "post_attention_layernorm.weight"},
                                          {"attn.c_proj.weight", "self_attn.o_proj.weight"},
                                          {"mlp.c_proj.weight", "mlp.down_proj.weight"}};
    static const char *const outer[][2] = {{"wte.weight", "model.embed_tokens.weight"},
                                           {"ln_f.weight", "model.norm.weight"},
                                           {"lm_head.weight", "lm_head.weight"}};
    file *f = new_file();
    int64_t rows, columns;
    char own[64], layer[64], name[128];
    float *v;

    for (int b = 0; b < BLOCKS; b++) {
        snprintf(layer, sizeof layer, "model.layers.%d.", b);
        for (size_t i = 0; i < sizeof same / sizeof same[0]; i++) {
            snprintf(own, sizeof own, "h.%d.%s", b, same[i][0]);
            snprintf(name, sizeof name, "%s%s", layer, same[i][1]);
            v = value_of(n, own, &rows, &columns);
            add(f, name, v, rows, columns);
            free(v);
        }
        for (int bias = 0; bias <= biases; bias++) {
            const char *end = bias ? "bias" : "weight";
            const int64_t q = HEADS * HEAD;

            snprintf(own, sizeof own, "h.%d.attn.c_attn.%s", b, end);
            v = value_of(n, own, &rows, &columns);
            assert_int_equal(rows, q + 2 * kv);
            add_rows(f, layer, "self_attn.q_proj", end, v, 0, q, columns);
            add_rows(f, layer, "self_attn.k_proj", end, v, q, kv, columns);
            add_rows(f, layer, "self_attn.v_proj", end, v, q + kv, kv, columns);
            free(v);
        }
        snprintf(own, sizeof own, "h.%d.mlp.c_fc.weight", b);
        v = value_of(n, own, &rows, &columns);
        add_rows(f, layer, "mlp.gate_proj", "weight", v, 0, rows / 2, columns);
        add_rows(f, layer, "mlp.up_proj", "weight", v, rows / 2, rows / 2, columns);
        free(v);
    }
    for (size_t i = 0; i < sizeof outer / sizeof outer[0]; i++) {
        if (charl_params_find(n->params, outer[i][0])) {
            v = value_of(n, outer[i][0], &rows, &columns);
            add(f, outer[i][1], v, rows, columns);
            free(v);
        }
    }
    return f;
}

static void same(const net *a, const net *b)
{
    for (int i = 0; i < charl_params_get_count(a->params); i++) {
        const char *name = charl_param_get_spec(charl_params_get(a->params, i))->name;
        int64_t rows, columns;
        float *x = value_of(a, name, &rows, &columns), *y = value_of(b, name, &rows, &columns);

        if (memcmp(x, y, (size_t)(rows * (columns ? columns : 1)) * sizeof *x) != 0) {
            fail_msg("%s has another value", name);
        }
        free(x);
        free(y);
    }
}

static charl_status load(const net *n, const char *path, const char *skip, const char *rename,
                         charl_params_report *report)
{
    return charl_params_load(n->params, path,
                             &(charl_params_load_options){sizeof(charl_params_load_options), .skip = skip,
                                                          .rename = rename, .model = n->model},
                             report);
}

/* The file that `f` becomes gives another model of the same settings the weights of `a`. */
static void expect_same(const net *a, const char *settings, const file *f, const char *layout)
{
    char *dir = charl_test_tempdir();
    const char *path = charl_test_path(dir, "x.safetensors");
    charl_params_report report;
    net b;

    open_net(settings, 2, &b);
    charl_assert_ok(charl_safetensors_save(path, f->tensor, f->n, NULL));
    charl_assert_ok(load(&b, path, NULL, NULL, &report));
    assert_string_equal(report.layout, layout);
    assert_string_equal(report.text, "");
    assert_int_equal(report.loaded, charl_params_get_count(b.params));
    charl_params_report_fini(&report);
    same(a, &b);
    close_net(&b);
    charl_test_tempdir_remove(dir);
}

#define GPT2 "bias = yes\nmlp = gelu_tanh\n"
#define LLAMA "n_kv_head = 1\nnorm = rms\nmlp = swiglu\nhidden = 6\npositions = rotary\ntie_weights = no\n"
#define QWEN LLAMA "qkv_bias = yes\n"

static void test_gpt2(void **state)
{
    const float mask[4] = {1, 0, 1, 1};
    const char *const prefixes[] = {"transformer.", "", "_orig_mod.module.transformer."};
    net a;

    (void)state;
    open_net(GPT2, 1, &a);
    fill(&a);
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++) {
        file *f = gpt2_file(&a, prefixes[i], true);
        char name[96];

        snprintf(name, sizeof name, "%sh.1.attn.bias", prefixes[i]);
        add(f, name, mask, 2, 2);
        expect_same(&a, GPT2, f, "gpt2");
        free_file(f);
    }
    close_net(&a);
}

static void test_nanogpt(void **state)
{
    int64_t rows, columns;
    float *wte;
    file *f;
    net a;

    (void)state;
    open_net(GPT2, 1, &a);
    fill(&a);
    f = gpt2_file(&a, "_orig_mod.transformer.", false);
    wte = value_of(&a, "wte.weight", &rows, &columns);
    add(f, "_orig_mod.lm_head.weight", wte, rows, columns); /* the same weight again */
    expect_same(&a, GPT2, f, "nanogpt");

    /* ... which must be the same; alone it is enough. */
    ((float *)(uintptr_t)f->tensor[f->n - 1].data)[3] += 1;
    char *dir = charl_test_tempdir();
    const char *path = charl_test_path(dir, "x.safetensors");

    charl_assert_ok(charl_safetensors_save(path, f->tensor, f->n, NULL));
    charl_assert_status(load(&a, path, NULL, NULL, NULL), CHARL_ERR_CHECKPOINT);
    charl_assert_message("lm_head.weight is not equal to transformer.wte.weight");
    ((float *)(uintptr_t)f->tensor[f->n - 1].data)[3] -= 1;
    for (int i = 0; i < f->n; i++) {
        if (strcmp(f->name[i], "_orig_mod.transformer.wte.weight") == 0) {
            snprintf(f->name[i], sizeof f->name[i], "_orig_mod.lm_head.weight");
            free((void *)(uintptr_t)f->tensor[--f->n].data);
        }
    }
    expect_same(&a, GPT2, f, "nanogpt");
    free(wte);
    free_file(f);
    close_net(&a);
    charl_test_tempdir_remove(dir);
}

/* Narrow heads make queries, keys and values a square together, or a matrix that is wider than tall. */
static void test_narrow_heads(void **state)
{
    static const char *const settings[] = {GPT2 "n_kv_head = 1\nhead_dim = 2\n", GPT2 "n_kv_head = 1\nhead_dim = 1\n"};

    (void)state;
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
        net a;
        file *f;

        open_net(settings[i], 1, &a);
        fill(&a);
        f = gpt2_file(&a, "", false);
        expect_same(&a, settings[i], f, "nanogpt");
        free_file(f);
        close_net(&a);
    }
}

static void test_llama(void **state)
{
    file *f;
    net a;

    (void)state;
    open_net(LLAMA, 1, &a);
    fill(&a);
    f = llama_file(&a, HEAD, false);
    expect_same(&a, LLAMA, f, "llama");
    free_file(f);
    close_net(&a);
}

static void test_qwen2(void **state)
{
    file *f;
    net a;

    (void)state;
    open_net(QWEN, 1, &a);
    fill(&a);
    f = llama_file(&a, HEAD, true);
    expect_same(&a, QWEN, f, "llama"); /* of the same rules */
    free_file(f);
    close_net(&a);
}

/* In two files with an index, in bf16; then an index that is wrong. */
static void test_shards(void **state)
{
    static const char *const parts[] = {"model-1.safetensors", "model-2.safetensors"};
    char *dir = charl_test_tempdir(), index[4096] = "{\"metadata\": {}, \"weight_map\": {", *p;
    const char *path = charl_test_path(dir, "model.safetensors.index.json");
    charl_params_report report;
    FILE *out;
    file *f;
    net a, b;

    (void)state;
    open_net(LLAMA, 1, &a);
    open_net(LLAMA, 2, &b);
    fill(&a);
    f = llama_file(&a, HEAD, false);
    for (int i = 0; i < f->n; i++) {
        const int64_t count = charl_shape_count(&f->tensor[i].shape);
        const float *v = f->tensor[i].data;
        uint16_t *half = malloc((size_t)count * sizeof *half);

        assert_non_null(half);
        for (int64_t k = 0; k < count; k++) {
            half[k] = charl_test_bf16(v[k]);
        }
        free((void *)(uintptr_t)v);
        f->tensor[i].data = half;
        f->tensor[i].dtype = CHARL_BF16;
        snprintf(index + strlen(index), sizeof index - strlen(index), "%s\"%s\": \"%s\"", i ? ", " : "", f->name[i],
                 parts[i >= 5]);
    }
    snprintf(index + strlen(index), sizeof index - strlen(index), "}}");
    charl_assert_ok(charl_safetensors_save(charl_test_path(dir, parts[0]), f->tensor, 5, NULL));
    charl_assert_ok(charl_safetensors_save(charl_test_path(dir, parts[1]), f->tensor + 5, f->n - 5, NULL));
    out = fopen(path, "w");
    assert_non_null(out);
    fputs(index, out);
    fclose(out);
    charl_assert_ok(load(&b, dir, NULL, NULL, &report));
    assert_int_equal(report.loaded, charl_params_get_count(b.params));
    charl_params_report_fini(&report);
    same(&a, &b);
    charl_assert_ok(load(&b, path, NULL, NULL, NULL)); /* the index itself */

    p = strstr(index, "model-2"); /* a tensor that is said to be where it is not */
    memcpy(p, "model-1", 7);
    out = fopen(path, "w");
    assert_non_null(out);
    fputs(index, out);
    fclose(out);
    charl_assert_status(load(&b, dir, NULL, NULL, NULL), CHARL_ERR_CHECKPOINT);
    charl_assert_message(" is not in model-1.safetensors");
    memcpy(p, "model-3", 7); /* a file that is missing */
    out = fopen(path, "w");
    assert_non_null(out);
    fputs(index, out);
    fclose(out);
    charl_assert_status(load(&b, dir, NULL, NULL, NULL), CHARL_ERR_CHECKPOINT);
    charl_assert_message("model.safetensors.index.json: ");
    charl_assert_message("model-3.safetensors: cannot be opened: No such file");
    free_file(f);
    close_net(&a);
    close_net(&b);
    charl_test_tempdir_remove(dir);
}

/* Replace a word of a file's header by one of the same length. */
static void patch(const char *path, const char *word, const char *with)
{
    static char bytes[1 << 16];
    FILE *f = fopen(path, "r+b");
    char *at = NULL;

    assert_non_null(f);
    const size_t n = fread(bytes, 1, sizeof bytes, f), length = strlen(word);

    for (size_t i = 0; i + length <= n && !at; i++) {
        at = memcmp(bytes + i, word, length) == 0 ? bytes + i : NULL;
    }
    assert_non_null(at);
    assert_int_equal(fseek(f, (long)(at - bytes), SEEK_SET), 0);
    assert_int_equal(fwrite(with, 1, length, f), length);
    fclose(f);
}

/* A mask of a type that charl does not have is no weight; a weight of such a type is told. */
static void test_other_types(void **state)
{
    static const float mask[4];
    char *dir = charl_test_tempdir();
    const char *path = charl_test_path(dir, "x.safetensors");
    int wte = 0;
    file *f;
    net a;

    (void)state;
    open_net(GPT2, 1, &a);
    f = gpt2_file(&a, "", true);
    add(f, "h.1.attn.bias", mask, 2, 2);
    f->tensor[f->n - 1].dtype = CHARL_U8;
    charl_assert_ok(charl_safetensors_save(path, f->tensor, f->n, NULL));
    patch(path, "\"U8\"", "\"I8\"");
    charl_assert_ok(load(&a, path, NULL, NULL, NULL));
    while (strcmp(f->name[wte], "wte.weight") != 0) {
        wte++;
    }
    f->tensor[wte].dtype = CHARL_U8;
    charl_assert_ok(charl_safetensors_save(path, f->tensor, f->n - 1, NULL));
    patch(path, "\"U8\"", "\"I8\"");
    charl_assert_status(load(&a, path, NULL, NULL, NULL), CHARL_ERR_CHECKPOINT);
    charl_assert_message("misshapen: wte.weight is I8; weights are f32, f16, bf16 or f64");
    free_file(f);
    close_net(&a);
    charl_test_tempdir_remove(dir);
}

/* What is missing, misshapen or extra is said line by line; skip and rename settle it. */
static void test_misfits(void **state)
{
    char *dir = charl_test_tempdir();
    const char *path = charl_test_path(dir, "x.safetensors");
    const float extra[2] = {1, 2};
    charl_params_report report;
    int64_t rows, columns;
    float *before, *after;
    file *f;
    net a, b;

    (void)state;
    open_net(LLAMA, 1, &a);
    open_net(LLAMA, 2, &b);
    fill(&a);
    f = llama_file(&a, HEAD, false);
    add(f, "value_head.bias", extra, 2, 0);
    for (int i = 0; i < f->n; i++) {
        if (strcmp(f->name[i], "model.layers.1.self_attn.k_proj.weight") == 0) {
            snprintf(f->name[i], sizeof f->name[i], "model.layers.1.self_attn.K.weight");
        }
        if (strcmp(f->name[i], "lm_head.weight") == 0) {
            f->tensor[i].shape = (charl_shape){2, {4, WIDTH}};
        }
    }
    charl_assert_ok(charl_safetensors_save(path, f->tensor, f->n, NULL));
    charl_assert_status(load(&b, path, NULL, NULL, &report), CHARL_ERR_CHECKPOINT);
    charl_assert_message("  misshapen: lm_head.weight is [4, 8] in the file, [5, 8] in the model\n");
    charl_assert_message("  missing: model.layers.1.self_attn.k_proj.weight (h.1.attn.c_attn.weight)\n");
    charl_assert_message("  extra: model.layers.1.self_attn.K.weight\n");
    charl_assert_message("  extra: value_head.bias\n");
    charl_assert_message("HINT skip = ");
    assert_int_equal(report.missing, 1);
    assert_int_equal(report.misshapen, 1);
    assert_int_equal(report.extra, 2);
    charl_params_report_fini(&report);

    before = value_of(&b, "lm_head.weight", &rows, &columns);
    charl_assert_ok(load(&b, path, "lm_head.*, value_head.*",
                         "model.layers.1.self_attn.K.* -> model.layers.1.self_attn.k_proj.*", &report));
    assert_string_equal(report.text, "skipped: lm_head.weight\n");
    assert_int_equal(report.skipped, 1);
    charl_params_report_fini(&report);
    after = value_of(&b, "lm_head.weight", &rows, &columns);
    assert_memory_equal(before, after, (size_t)(rows * columns) * sizeof *before);
    charl_assert_ok(charl_param_write(charl_params_find(a.params, "lm_head.weight"), before));
    same(&a, &b);

    charl_assert_status(load(&b, path, "lm_haed.*", NULL, NULL), CHARL_ERR_CONFIG);
    charl_assert_message("skip: lm_haed.* matches nothing in the model or ");
    charl_assert_status(load(&b, path, NULL, "a -> b", NULL), CHARL_ERR_CONFIG);
    charl_assert_message("rename: a matches nothing");
    charl_assert_status(load(&b, path, NULL, "a = b", NULL), CHARL_ERR_CONFIG);
    charl_assert_message("\"a = b\" is not OLD -> NEW");
    charl_assert_status(load(&b, path, NULL, "a* -> b**", NULL), CHARL_ERR_CONFIG);
    charl_assert_message("a name has one * at most");
    free(before);
    free(after);
    free_file(f);
    close_net(&a);
    close_net(&b);
    charl_test_tempdir_remove(dir);
}

/* A model with a shorter window takes the first positions; other tokens are refused with what would fit. */
static void test_sizes(void **state)
{
    char *dir = charl_test_tempdir();
    const char *path = charl_test_path(dir, "x.safetensors");
    float positions[4 * WIDTH], tokens[7 * WIDTH];
    charl_params_report report;
    int64_t rows, columns;
    float *got;
    file *f;
    net a;

    (void)state;
    open_net(GPT2, 1, &a);
    f = gpt2_file(&a, "transformer.", true);
    for (int i = 0; i < 4 * WIDTH; i++) {
        positions[i] = (float)i;
    }
    for (int i = 0; i < 7 * WIDTH; i++) {
        tokens[i] = 1;
    }
    for (int i = 0; i < f->n; i++) {
        if (strcmp(f->name[i], "transformer.wpe.weight") == 0) {
            f->tensor[i].shape = (charl_shape){2, {4, WIDTH}};
            free((void *)(uintptr_t)f->tensor[i].data);
            f->tensor[i].data = memcpy(malloc(sizeof positions), positions, sizeof positions);
        }
    }
    charl_assert_ok(charl_safetensors_save(path, f->tensor, f->n, NULL));
    charl_assert_ok(load(&a, path, NULL, NULL, &report));
    assert_string_equal(report.text, "wpe.weight: the first 3 of 4 rows\n");
    charl_params_report_fini(&report);
    got = value_of(&a, "wpe.weight", &rows, &columns);
    charl_assert_same_bits(got, positions, 3 * WIDTH);
    free(got);
    for (int i = 0; i < f->n; i++) {
        if (strcmp(f->name[i], "transformer.wte.weight") == 0) {
            f->tensor[i].shape = (charl_shape){2, {7, WIDTH}};
            free((void *)(uintptr_t)f->tensor[i].data);
            f->tensor[i].data = memcpy(malloc(sizeof tokens), tokens, sizeof tokens);
        }
    }
    charl_assert_ok(charl_safetensors_save(path, f->tensor, f->n, NULL));
    charl_assert_status(load(&a, path, NULL, NULL, NULL), CHARL_ERR_CHECKPOINT);
    charl_assert_message("HINT model.vocab_size = 7 gives the model as many tokens as the file");
    free_file(f);
    close_net(&a);
    charl_test_tempdir_remove(dir);
}

/* torchvision's names behind DistributedDataParallel's prefix, with the counts of batches; another number of classes. */
static void test_resnet(void **state)
{
    static const char text[] = "[data]\npath = none\n[model]\ntype = resnet\ndepth = 20\nwidth = 2\n";
    static const char mean[] = ".running_mean";
    const charl_shape images = {4, {1, 3, 8, 8}};
    char *dir = charl_test_tempdir(), name[128];
    const char *path = charl_test_path(dir, "x.safetensors");
    const int64_t batches = 7;
    const float thousand[1000] = {0};
    charl_params_report report;
    charl_checkpoint_tensor tensor[512];
    char names[512][128];
    const void *resnet;
    int n = 0;
    net a;

    (void)state;
    charl_assert_ok(charl_config_parse("test.ini", text, strlen(text), NULL, 0, &a.config));
    charl_assert_ok(charl_config_get_settings(a.config, "model", &resnet));
    charl_resnet_config settings = *(const charl_resnet_config *)resnet;

    settings.outputs = 3;
    charl_assert_ok(charl_model_create(&a.model));
    charl_assert_ok(charl_model_add_resnet(a.model, &settings));
    charl_assert_ok(charl_params_create(&a.params));
    charl_assert_ok(charl_graph_create(dev, NULL, &a.g));
    charl_graph_set_training(a.g, false);
    charl_graph_keep(
        a.g, charl_model_build(a.model, a.g, a.params, charl_input(a.g, "x", CHARL_F32, images, CHARL_BATCHED)));
    charl_assert_ok(charl_graph_compile(a.g));
    charl_assert_ok(charl_params_initialize(a.params, 1));
    for (int i = 0; i < charl_params_get_count(a.params); i++) {
        const charl_param_spec *spec = charl_param_get_spec(charl_params_get(a.params, i));
        const size_t length = strlen(spec->name);
        float *v = calloc((size_t)charl_shape_count(&spec->shape), sizeof *v);

        assert_non_null(v);
        assert_true(n + 2 < 512);
        v[0] = (float)i;
        snprintf(names[n], sizeof names[n], "module.%s", spec->name);
        tensor[n] = (charl_checkpoint_tensor){.name = names[n], .dtype = CHARL_F32, .shape = spec->shape, .data = v};
        if (strcmp(spec->name, "fc.bias") == 0) {
            tensor[n].shape.dim[0] = 1000;
            free(v);
            tensor[n].data = thousand;
        }
        n++;
        if (length > strlen(mean) && strcmp(spec->name + length - strlen(mean), mean) == 0) {
            snprintf(names[n], sizeof names[n], "module.%.*s.num_batches_tracked", (int)(length - strlen(mean)),
                     spec->name);
            tensor[n] = (charl_checkpoint_tensor){.name = names[n], .dtype = CHARL_I64, .data = &batches};
            n++;
        }
    }
    charl_assert_ok(charl_safetensors_save(path, tensor, n, NULL));
    charl_assert_status(load(&a, path, NULL, NULL, NULL), CHARL_ERR_CHECKPOINT);
    charl_assert_message("  misshapen: fc.bias is [1000] in the file, [3] in the model\nHINT skip = fc.*");
    charl_assert_ok(load(&a, path, "fc.*", NULL, &report));
    assert_string_equal(report.layout, "torchvision");
    assert_int_equal(report.loaded, charl_params_get_count(a.params) - 2);
    charl_params_report_fini(&report);
    for (int i = 0; i < charl_params_get_count(a.params); i++) {
        int64_t rows, columns;

        snprintf(name, sizeof name, "%s", charl_param_get_spec(charl_params_get(a.params, i))->name);
        if (strncmp(name, "fc.", 3) != 0) {
            float *v = value_of(&a, name, &rows, &columns);

            assert_true(v[0] == (float)i);
            free(v);
        }
    }
    for (int i = 0; i < n; i++) {
        if (tensor[i].data != thousand && tensor[i].data != &batches) {
            free((void *)(uintptr_t)tensor[i].data);
        }
    }
    close_net(&a);
    charl_test_tempdir_remove(dir);
}

/* What loading acquires. */
typedef struct loading {
    const net *to;
    const char *path;
} loading;

static charl_status load_once(void *ctx)
{
    const loading *l = ctx;
    charl_params_report report;
    charl_status st = load(l->to, l->path, "ln_f.*", "model.layers.1.* -> model.layers.1.*", &report);

    charl_params_report_fini(&report);
    return st;
}

static void test_faults(void **state)
{
    char *dir = charl_test_tempdir();
    const char *path = charl_test_path(dir, "x.safetensors");
    file *f;
    net a;

    (void)state;
    open_net(QWEN, 1, &a);
    f = llama_file(&a, HEAD, true);
    charl_assert_ok(charl_safetensors_save(path, f->tensor, f->n, NULL));
    assert_true(charl_test_fail_every_acquisition(load_once, &(loading){&a, path}) > 50);
    free_file(f);
    close_net(&a);
    charl_test_tempdir_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gpt2),        cmocka_unit_test(test_nanogpt), cmocka_unit_test(test_narrow_heads),
        cmocka_unit_test(test_llama),       cmocka_unit_test(test_qwen2),   cmocka_unit_test(test_shards),
        cmocka_unit_test(test_misfits),     cmocka_unit_test(test_sizes),   cmocka_unit_test(test_resnet),
        cmocka_unit_test(test_other_types), cmocka_unit_test(test_faults),
    };

    return charl_test_on_device(tests, &dev);
}
