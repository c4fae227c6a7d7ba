/* gpt_logits FOLDER|CHECKPOINT BATCH WINDOW [OUT.h5 [SETTING]] <tokens >logits: the model of a folder with config.json and safetensors, or of a
 * checkpoint, over BATCH windows of tokens (i32); logits are f32 [BATCH, WINDOW, vocabulary]. OUT.h5: a checkpoint of it.
 * SETTING: a line of [model]. */
#include <charl/charl.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(charl_status st)
{
    if (st != CHARL_OK) {
        fprintf(stderr, "gpt_logits: %s\n", charl_error_message());
        exit(EXIT_FAILURE);
    }
}

static charl_config *config_of(const char *path, const char *setting)
{
    charl_config *config = NULL;
    char text[4096];

    if (strlen(path) > 3 && strcmp(path + strlen(path) - 3, ".h5") == 0) {
        charl_checkpoint_reader *r = NULL;

        check(charl_checkpoint_open(path, &r));
        const char *resolved = charl_checkpoint_get_info(r).config_resolved;

        check(charl_config_parse(path, resolved, strlen(resolved), NULL, 0, &config));
        charl_checkpoint_close(r);
    } else {
        snprintf(text, sizeof text, "[data]\npath = none\n[model]\nfrom = %s\n%s\n", path, setting);
        check(charl_config_parse("text", text, strlen(text), NULL, 0, &config));
    }
    return config;
}

int main(int argc, char **argv)
{
    charl_device *dev = NULL;
    charl_params *params = NULL;
    charl_graph *g = NULL;
    charl_model *model = NULL;
    charl_params_report report;
    const void *settings;

    if (argc < 4 || argc > 6) {
        fprintf(stderr, "usage: gpt_logits FOLDER|CHECKPOINT BATCH WINDOW [OUT.h5 [SETTING]] <tokens >logits\n");
        return EXIT_FAILURE;
    }
    const charl_shape tokens = {2, {atoi(argv[2]), atoi(argv[3])}};
    charl_config *config = config_of(argv[1], argc > 5 ? argv[5] : "");

    check(charl_model_create(&model));
    check(charl_config_get_settings(config, "model", &settings));
    check(charl_model_add_gpt(model, settings));
    check(
        charl_device_open(&(charl_device_request){sizeof(charl_device_request), .local_size = 1, .share = true}, &dev));
    check(charl_params_create(&params));
    check(charl_graph_create(dev, NULL, &g));
    charl_graph_set_training(g, false);

    charl_var *x = charl_input(g, "x", CHARL_I32, tokens, CHARL_BATCHED);
    charl_var *logits = charl_model_build(model, g, params, x);

    charl_graph_keep(g, logits);
    check(charl_graph_compile(g));
    check(charl_params_load(params, argv[1],
                            &(charl_params_load_options){sizeof(charl_params_load_options), .model = model}, &report));
    fprintf(stderr, "%d loaded, layout %s\n%s", report.loaded, report.layout ? report.layout : "charl", report.text);

    const charl_shape out = charl_var_get_type(logits).shape;
    const size_t n = (size_t)charl_shape_count(&tokens), m = (size_t)charl_shape_count(&out);
    int32_t *in = malloc(n * sizeof *in);
    float *values = malloc(m * sizeof *values);

    if (!in || !values || fread(in, sizeof *in, n, stdin) != n) {
        fprintf(stderr, "gpt_logits: expected %zu tokens\n", n);
        return EXIT_FAILURE;
    }
    check(charl_tensor_write(charl_var_get_tensor(x), in, n * sizeof *in));
    check(charl_graph_run(g));
    check(charl_tensor_read(charl_var_get_tensor(logits), values, m * sizeof *values));
    if (fwrite(values, sizeof *values, m, stdout) != m) {
        return EXIT_FAILURE;
    }
    free(in);
    free(values);
    if (argc > 4) {
        char *text = NULL;

        check(charl_config_print(config, false, &text));
        check(charl_params_save(params, argv[4],
                                &(charl_params_save_options){sizeof(charl_params_save_options), .config_text = text}));
        charl_free(text);
    }
    charl_params_report_fini(&report);
    charl_graph_destroy(g);
    charl_params_destroy(params);
    charl_model_destroy(model);
    charl_device_close(dev);
    charl_config_destroy(config);
    return EXIT_SUCCESS;
}
