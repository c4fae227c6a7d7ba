/* The loop of train_mlp.c on many ranks: one object more, and rows by slices of the batch. The last
 * line, a checksum of the weights, is the same for any number of ranks up to SLICES.
 *
 *     mpirun -n 4 train_ddp digits.h5
 */
#include <charl/charl.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { BATCH = 128, SLICES = 8, STEPS = 100, CLASSES = 10, REPORT = 25 };

static charl_comm *comm;

/* Leave with charl's message; the other ranks are not waited for. */
static void check(charl_status st)
{
    if (st != CHARL_OK) {
        char text[2048];

        snprintf(text, sizeof text, "train_ddp: %s\n", charl_error_message());
        charl_comm_exit(comm, EXIT_FAILURE, text);
    }
}

/* FNV-1a over the bits of all parameters in order of declaration. */
static uint64_t checksum(const charl_params *params)
{
    uint64_t hash = 0xcbf29ce484222325u;

    for (int i = 0; i < charl_params_get_count(params); i++) {
        const charl_param *p = charl_params_get(params, i);
        const size_t bytes = (size_t)charl_shape_count(&charl_param_get_spec(p)->shape) * sizeof(float);
        unsigned char *value = malloc(bytes);

        check(charl_param_read(p, (float *)(void *)value));
        for (size_t k = 0; k < bytes; k++) {
            hash = (hash ^ value[k]) * 0x100000001b3u;
        }
        free(value);
    }
    return hash;
}

int main(int argc, char **argv)
{
    const int64_t hidden[] = {64};
    const charl_mlp_config mlp = {.hidden = hidden, .n_hidden = 1, .outputs = CLASSES, .dropout = 0.2};
    charl_optimizer_config adamw = charl_optimizer_defaults("adamw");
    charl_dataset *data = NULL;
    charl_dataset_info info;
    charl_device *dev = NULL;
    charl_model *model = NULL;
    charl_params *params = NULL;
    charl_graph *g = NULL;
    charl_data_parallel *dp = NULL;
    charl_optimizer *optimizer = NULL;
    charl_loader *loader = NULL;
    charl_loader_batch batch;
    charl_slices mine;

    check(charl_version_check());
    check(charl_comm_init(&argc, &argv));
    check(charl_comm_create(NULL, &comm));
    if (argc != 2) {
        charl_comm_exit(comm, EXIT_FAILURE, "usage: train_ddp DATA.h5\n");
    }
    check(charl_dataset_open(argv[1], NULL, &data));
    charl_dataset_get_info(data, &info);
    check(charl_comm_cpu_limit(comm));
    check(charl_device_open(&(charl_device_request){sizeof(charl_device_request), .local_rank = charl_comm_local_rank(comm),
                                                    .local_size = charl_comm_local_size(comm),
                                                    .share = true},
                            &dev));
    check(charl_model_create(&model));
    check(charl_model_add_mlp(model, &mlp));
    check(charl_params_create(&params));

    /* This rank's part of every batch. */
    check(charl_slices_block(SLICES, charl_comm_rank(comm), charl_comm_size(comm), &mine));
    const int64_t rows = BATCH / SLICES * mine.count;

    check(charl_data_parallel_create(comm, &mine, NULL, &dp));
    check(charl_graph_create(dev, charl_data_parallel_get_slices(dp, 0), &g));
    charl_var *bytes = charl_input(
        g, "x", CHARL_U8, (charl_shape){4, {rows, info.x_shape.dim[0], info.x_shape.dim[1], info.x_shape.dim[2]}},
        CHARL_BATCHED);
    charl_var *y = charl_input(g, "y", CHARL_I32, (charl_shape){1, {rows}}, CHARL_BATCHED);
    charl_var *x = charl_scale(g, charl_cast(g, bytes, CHARL_F32), 1.0F / 255.0F, 0.0F);
    charl_var *loss =
        charl_batch_mean(g, charl_cross_entropy(g, charl_model_build(model, g, params, x), y, NULL, NULL));

    charl_graph_keep(g, loss);
    charl_graph_backward(g, loss, NULL);
    check(charl_data_parallel_compile(dp, &g, 1));
    check(charl_params_initialize(params, 1));
    check(charl_optimizer_create(params, &adamw, &optimizer));

    const charl_loader_options order = {sizeof order, .batch_size = BATCH, .shuffle = true, .seed = 1};

    check(charl_loader_create(data, &mine, &order, &loader));
    for (int64_t step = 0; step < STEPS; step++) {
        check(charl_loader_next(loader, &batch));
        check(charl_tensor_write(charl_var_get_tensor(bytes), batch.x, batch.x_bytes));
        check(charl_tensor_write(charl_var_get_tensor(y), batch.y, batch.y_bytes));
        check(charl_data_parallel_run(dp, 0));
        check(charl_data_parallel_step(dp, optimizer, 1e-3F));
        if ((step + 1) % REPORT == 0 && charl_comm_rank(comm) == 0) {
            float value;

            check(charl_tensor_read(charl_var_get_tensor(loss), &value, sizeof value));
            printf("step %" PRId64 "  loss %.9g\n", step + 1, (double)value);
        }
    }
    if (charl_comm_rank(comm) == 0) {
        printf("weights %016" PRIx64 "\n", checksum(params));
    }
    charl_loader_destroy(loader);
    charl_optimizer_destroy(optimizer);
    charl_graph_destroy(g);
    charl_data_parallel_destroy(dp);
    charl_params_destroy(params);
    charl_model_destroy(model);
    charl_device_close(dev);
    charl_dataset_close(data);
    charl_comm_destroy(comm);
    charl_comm_fini();
    return EXIT_SUCCESS;
}
