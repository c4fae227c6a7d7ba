/* Trains a perceptron on images with a loop and a loss of its own, on one device.
 *
 *     charl data make digits digits.h5
 *     train_mlp digits.h5
 */
#include <charl/charl.h>

#include <stdio.h>
#include <stdlib.h>

enum { BATCH = 128, STEPS = 400, CLASSES = 10, REPORT = 100 };

/* Fail with charl's message: what went wrong, with values. */
#define CHECK(call)                                                                                \
    do {                                                                                           \
        if ((call) != CHARL_OK) {                                                                  \
            fprintf(stderr, "train_mlp: %s\n", charl_error_message());                             \
            exit(EXIT_FAILURE);                                                                    \
        }                                                                                          \
    } while (0)

/* -log p of the right class, once for each of two views of the row: the image and its negative. */
static charl_var *two_views_loss(charl_graph *g, charl_model *model, charl_params *params,
                                 charl_var *x, charl_var *y)
{
    charl_var *image = charl_model_build(model, g, params, x);
    charl_var *negative = charl_model_build(model, g, params, charl_scale(g, x, -1.0F, 1.0F));
    charl_var *both = charl_add(g, charl_cross_entropy(g, image, y, NULL, NULL),
                                charl_cross_entropy(g, negative, y, NULL, NULL));

    return charl_batch_mean(g, charl_scale(g, both, 0.5F, 0.0F));
}

int main(int argc, char **argv)
{
    const int64_t hidden[] = {64};
    const charl_mlp_config mlp = {.hidden = hidden, .n_hidden = 1, .outputs = CLASSES};
    charl_optimizer_config adamw = charl_optimizer_defaults("adamw");
    charl_dataset *data = NULL;
    charl_dataset_info info;
    charl_device *dev = NULL;
    charl_model *model = NULL;
    charl_params *params = NULL;
    charl_graph *g = NULL;
    charl_optimizer *optimizer = NULL;
    charl_loader *loader = NULL;
    charl_loader_batch batch;

    CHECK(charl_version_check());
    if (argc != 2) {
        fprintf(stderr, "usage: train_mlp DATA.h5\n");
        return EXIT_FAILURE;
    }
    CHECK(charl_dataset_open(argv[1], NULL, &data));
    charl_dataset_get_info(data, &info);
    CHECK(charl_device_open(&(charl_device_request){sizeof(charl_device_request), .local_size = 1}, &dev));
    CHECK(charl_model_create(&model));
    CHECK(charl_model_add_mlp(model, &mlp));
    CHECK(charl_params_create(&params));

    /* The computation, built once. */
    CHECK(charl_graph_create(dev, NULL, &g));
    charl_var *bytes = charl_input(
        g, "x", CHARL_U8,
        (charl_shape){4, {BATCH, info.x_shape.dim[0], info.x_shape.dim[1], info.x_shape.dim[2]}},
        CHARL_BATCHED);
    charl_var *y = charl_input(g, "y", CHARL_I32, (charl_shape){1, {BATCH}}, CHARL_BATCHED);
    charl_var *x = charl_scale(g, charl_cast(g, bytes, CHARL_F32), 1.0F / 255.0F, 0.0F);
    charl_var *loss = two_views_loss(g, model, params, x, y);

    charl_graph_keep(g, loss);
    charl_graph_backward(g, loss, NULL);
    CHECK(charl_graph_compile(g));
    CHECK(charl_params_initialize(params, 1));
    CHECK(charl_optimizer_create(params, &adamw, &optimizer));

    /* The loop, run many times. */
    const charl_loader_options order = {sizeof order, .batch_size = BATCH, .shuffle = true, .seed = 1};

    CHECK(charl_loader_create(data, NULL, &order, &loader));
    for (int64_t step = 0; step < STEPS; step++) {
        CHECK(charl_loader_next(loader, &batch));
        CHECK(charl_tensor_write(charl_var_get_tensor(bytes), batch.x, batch.x_bytes));
        CHECK(charl_tensor_write(charl_var_get_tensor(y), batch.y, batch.y_bytes));
        CHECK(charl_graph_run(g));
        CHECK(charl_optimizer_step(optimizer, 1e-3F));
        if ((step + 1) % REPORT == 0) {
            float value;

            CHECK(charl_tensor_read(charl_var_get_tensor(loss), &value, sizeof value));
            printf("step %lld  loss %.4f\n", (long long)step + 1, (double)value);
        }
    }
    charl_loader_destroy(loader);
    charl_optimizer_destroy(optimizer);
    charl_graph_destroy(g);
    charl_params_destroy(params);
    charl_model_destroy(model);
    charl_device_close(dev);
    charl_dataset_close(data);
    return EXIT_SUCCESS;
}
