/* Data-parallel training on any number of ranks: a perceptron that learns images of digits. PASSES accumulates
 * gradients: a step is so many passes, each over a part of the rank's rows, in the memory of one pass. The last line, a
 * checksum of the weights, is the same for any number of passes, and of ranks up to SLICES / PASSES.
 *
 *     mpirun -n 4 train_ddp digits.h5 [PASSES]
 */
#include <charl/charl.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { BATCH = 128, SLICES = 8, STEPS = 100, CLASSES = 10, REPORT = 25 };

static charl_var *build(void *ctx, charl_graph *g, int64_t rows)
{
    static const charl_linear_config hidden = {.out = 64, .bias = true, .activation = "relu"};
    static const charl_linear_config last = {.out = CLASSES, .bias = true};
    static const charl_dropout_config dropout = {.p = 0.2};
    const charl_dataset_info *data = ctx;
    const charl_shape shape = {4, {rows, data->x_shape.dim[0], data->x_shape.dim[1], data->x_shape.dim[2]}};
    charl_var *bytes = charl_input(g, "x", CHARL_U8, shape, CHARL_BATCHED);
    charl_var *y = charl_input(g, "y", CHARL_I32, (charl_shape){1, {rows}}, CHARL_BATCHED);
    charl_var *x = charl_scale(g, charl_cast(g, bytes, CHARL_F32), 1.0F / 255.0F, 0.0F);

    x = charl_layer_apply(g, NULL, "fc1", "linear", &hidden, charl_flatten(g, x));
    x = charl_layer_apply(g, NULL, "drop", "dropout", &dropout, x);
    x = charl_layer_apply(g, NULL, "fc2", "linear", &last, x);
    return charl_batch_mean(g, charl_cross_entropy(g, x, y, NULL, NULL));
}

/* FNV-1a over the bits of all parameters in order of declaration. */
static uint64_t checksum(const charl_params *params)
{
    uint64_t hash = 0xcbf29ce484222325u;

    for (int i = 0; i < charl_params_get_count(params); i++) {
        const charl_param *p = charl_params_get(params, i);
        const size_t bytes = (size_t)charl_shape_count(&charl_param_get_spec(p)->shape) * sizeof(float);
        unsigned char *value = malloc(bytes);

        CHARL_CHECK(charl_param_read(p, (float *)(void *)value));
        for (size_t k = 0; k < bytes; k++) {
            hash = (hash ^ value[k]) * 0x100000001b3u;
        }
        free(value);
    }
    return hash;
}

int main(int argc, char **argv)
{
    const charl_loader_options order = {sizeof order, .batch_size = BATCH, .shuffle = true, .seed = 1};
    charl_data_parallel_options parallel = {sizeof parallel, .passes = argc > 2 ? atoi(argv[2]) : 1};
    charl_dataset_info info;
    charl_learner_options options = {sizeof options,      .build = build,   .ctx = &info,
                                     .batch_size = BATCH, .slices = SLICES, .parallel = &parallel};
    charl_loader_batch batch;
    charl_learner *learner;
    charl_dataset *data;
    charl_loader *loader;
    charl_world world;
    float loss;

    if (argc < 2) {
        CHARL_CHECK(charl_fail(CHARL_ERR_INVALID, "usage: train_ddp DATA.h5 [PASSES]"));
    }
    CHARL_CHECK(charl_world_open(&argc, &argv, NULL, &world));
    CHARL_CHECK(charl_dataset_open(argv[1], NULL, &data));
    charl_dataset_get_info(data, &info);
    CHARL_CHECK(charl_learner_create(&world, NULL, &options, &learner));

    const charl_learner_info mine = charl_learner_get_info(learner);

    CHARL_CHECK(charl_loader_create(data, &mine.slices, &order, &loader));
    for (int step = 0; step < STEPS; step++) {
        CHARL_CHECK(charl_loader_next(loader, &batch));
        CHARL_CHECK(charl_learner_step(learner, (charl_rows[]){{"x", batch.x}, {"y", batch.y}}, 2, 1e-3F));
        if ((step + 1) % REPORT == 0) {
            CHARL_CHECK(charl_learner_read(learner, "loss", &loss, sizeof loss));
            if (world.rank == 0) {
                printf("step %d  loss %.9g\n", step + 1, (double)loss);
            }
        }
    }
    if (world.rank == 0) {
        printf("weights %016" PRIx64 "\n", checksum(mine.params));
    }
    charl_loader_destroy(loader);
    charl_learner_destroy(learner);
    charl_dataset_close(data);
    charl_world_close(&world);
    return EXIT_SUCCESS;
}
