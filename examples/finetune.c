/* Fine-tunes a GPT: its embeddings and blocks stay as they were trained, the last norm and the output layer learn
 * new text. Frozen parameters have no gradient, no optimizer state and no traffic between ranks, which the program shows.
 *
 *     mpirun -n 2 finetune pretrained.h5 tokens.h5 tuned.h5
 */
#include <charl/charl.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 16, SLICES = 8, STEPS = 20, REPORT = 10 };

/* The model that a checkpoint holds, without dropout and with an output layer of its own. */
static charl_model *model_of(const char *path, int64_t *window)
{
    charl_checkpoint_reader *r = NULL;
    charl_config *config = NULL;
    charl_model *model = NULL;
    const char *type;
    const void *settings;

    CHARL_CHECK(charl_checkpoint_open(path, &r));
    const char *text = charl_checkpoint_get_info(r).config_resolved;
    const charl_checkpoint_tensor *wte = charl_checkpoint_find(r, "model", "wte.weight");

    CHARL_CHECK(charl_config_parse(path, text, strlen(text), NULL, 0, &config));
    CHARL_CHECK(charl_config_get_text(config, "model.type", &type));
    CHARL_CHECK(wte && strcmp(type, "gpt") == 0 ? CHARL_OK : charl_fail(CHARL_ERR_CHECKPOINT, "%s holds no GPT", path));
    CHARL_CHECK(charl_config_get_settings(config, "model", &settings));
    charl_gpt_config gpt = *(const charl_gpt_config *)settings;

    gpt.vocab = wte->shape.dim[0];
    gpt.dropout = 0;
    gpt.tie_weights = 0;
    CHARL_CHECK(charl_model_create(&model));
    CHARL_CHECK(charl_model_add_gpt(model, &gpt));
    *window = gpt.block_size;
    charl_config_destroy(config);
    charl_checkpoint_close(r);
    return model;
}

/* Print whether each parameter is frozen. */
static void show(charl_graph *g, const charl_params *params, const charl_optimizer *optimizer)
{
    for (int i = 0; i < charl_params_get_count(params); i++) {
        charl_param *p = charl_params_get(params, i);
        charl_shape shape;

        printf("%-24s %s, %s gradient, %s state\n", charl_param_get_spec(p)->name,
               charl_param_is_frozen(p) ? "frozen" : "trained",
               charl_var_get_gradient(charl_parameter(g, p)) ? "a" : "no",
               charl_optimizer_get_state_shape(optimizer, 0, p, &shape) ? "a" : "no");
    }
}

int main(int argc, char **argv)
{
    const charl_loader_options order = {sizeof order, .batch_size = BATCH, .shuffle = true, .seed = 1};
    charl_optimizer_config adamw = charl_optimizer_defaults("adamw");
    charl_dataset *data = NULL;
    charl_world world;
    charl_params *params = NULL;
    charl_graph *g = NULL;
    charl_data_parallel *dp = NULL;
    charl_optimizer *optimizer = NULL;
    charl_loader *loader = NULL;
    charl_loader_batch batch;
    charl_params_report report;
    charl_slices mine;
    int64_t window;
    float value = 0;

    if (argc != 4) {
        CHARL_CHECK(charl_fail(CHARL_ERR_INVALID, "usage: finetune PRETRAINED.h5 TOKENS.h5 TUNED.h5"));
    }
    CHARL_CHECK(charl_world_open(&argc, &argv, NULL, &world));
    charl_model *model = model_of(argv[1], &window);

    CHARL_CHECK(
        charl_dataset_open(argv[2], &(charl_dataset_options){sizeof(charl_dataset_options), .window = window}, &data));
    CHARL_CHECK(charl_params_create(&params));
    CHARL_CHECK(charl_slices_block(SLICES, world.rank, world.size, &mine));
    CHARL_CHECK(charl_data_parallel_create(world.comm, &mine, NULL, &dp));
    CHARL_CHECK(charl_graph_create(world.device, charl_data_parallel_get_slices(dp, 0), &g));

    const charl_shape tokens = {2, {BATCH / SLICES * mine.count, window}};
    charl_var *x = charl_input(g, "x", CHARL_I32, tokens, CHARL_BATCHED);
    charl_var *y = charl_input(g, "y", CHARL_I32, tokens, CHARL_BATCHED);
    charl_var *logits = charl_model_build(model, g, params, x); /* declares the parameters */
    charl_var *rows = charl_mean(g, charl_cross_entropy(g, logits, y, NULL, NULL), 1, false);
    charl_var *loss = charl_batch_mean(g, rows);

    charl_graph_keep(g, loss);
    CHARL_CHECK(charl_params_freeze(params, "w?e.*", NULL)); /* embeddings of tokens and positions */
    CHARL_CHECK(charl_params_freeze(params, "h.*", NULL));   /* blocks */
    charl_graph_backward(g, loss, NULL);
    CHARL_CHECK(charl_data_parallel_compile(dp, &g, 1));

    /* What the checkpoint does not have, such as an output layer of its own, begins anew. */
    CHARL_CHECK(charl_params_initialize(params, 1));
    CHARL_CHECK(charl_params_load(
        params, argv[1], &(charl_params_load_options){sizeof(charl_params_load_options), .by_name = true}, &report));
    CHARL_CHECK(charl_optimizer_create(params, &adamw, &optimizer));
    if (world.rank == 0) {
        printf("%d parameters loaded\n%s", report.loaded, report.text);
        show(g, params, optimizer);
        printf("%lld bytes of gradients a step\n", (long long)charl_data_parallel_get_info(dp).bytes);
    }
    charl_params_report_fini(&report);

    CHARL_CHECK(charl_loader_create(data, &mine, &order, &loader));
    for (int step = 1; step <= STEPS; step++) {
        CHARL_CHECK(charl_loader_next(loader, &batch));
        CHARL_CHECK(charl_tensor_write(charl_var_get_tensor(x), batch.x, batch.x_bytes));
        CHARL_CHECK(charl_tensor_write(charl_var_get_tensor(y), batch.y, batch.y_bytes));
        CHARL_CHECK(charl_data_parallel_run(dp, 0));
        CHARL_CHECK(charl_data_parallel_step(dp, optimizer, 1e-3F));
        if (world.rank == 0 && step % REPORT == 0) {
            CHARL_CHECK(charl_tensor_read(charl_var_get_tensor(loss), &value, sizeof value));
            printf("step %d  loss %.9g\n", step, (double)value);
        }
    }
    if (world.rank == 0) {
        CHARL_CHECK(charl_params_save(params, argv[3], NULL));
    }
    charl_loader_destroy(loader);
    charl_optimizer_destroy(optimizer);
    charl_graph_destroy(g);
    charl_data_parallel_destroy(dp);
    charl_params_destroy(params);
    charl_model_destroy(model);
    charl_dataset_close(data);
    charl_world_close(&world);
    return EXIT_SUCCESS;
}
