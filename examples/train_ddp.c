/* The loop of train_mlp.c on many ranks: one object more, and rows by slices of the batch. PASSES accumulates gradients:
 * a step is so many passes, each over a part of the rank's rows, in the memory of one pass. The last line, a checksum
 * of the weights, is the same for any number of passes, and of ranks up to SLICES / PASSES.
 *
 *     mpirun -n 4 train_ddp digits.h5 [PASSES]
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

/* Passes over equally many slices share a graph. */
typedef struct pass_graph {
    charl_graph *g;
    charl_var *bytes, *y, *loss;
} pass_graph;

static pass_graph build(charl_device *dev, const charl_slices *slices, const charl_dataset_info *info,
                        const charl_model *model, charl_params *params)
{
    const int64_t rows = BATCH / SLICES * slices->count;
    const charl_shape shape = {4, {rows, info->x_shape.dim[0], info->x_shape.dim[1], info->x_shape.dim[2]}};
    pass_graph p;

    check(charl_graph_create(dev, slices, &p.g));
    p.bytes = charl_input(p.g, "x", CHARL_U8, shape, CHARL_BATCHED);
    p.y = charl_input(p.g, "y", CHARL_I32, (charl_shape){1, {rows}}, CHARL_BATCHED);
    charl_var *x = charl_scale(p.g, charl_cast(p.g, p.bytes, CHARL_F32), 1.0F / 255.0F, 0.0F);
    p.loss = charl_batch_mean(p.g, charl_cross_entropy(p.g, charl_model_build(model, p.g, params, x), p.y, NULL, NULL));
    charl_graph_keep(p.g, p.loss);
    charl_graph_backward(p.g, p.loss, NULL);
    return p;
}

/* Write the rows of slices `s`. `batch` begins with slice `first`. */
static void write_rows(const pass_graph *p, const charl_loader_batch *batch, int64_t rows, const charl_slices *s,
                       int first)
{
    const size_t x_row = batch->x_bytes / (size_t)rows, y_row = batch->y_bytes / (size_t)rows;
    const size_t at = (size_t)(BATCH / SLICES * (s->first - first)), n = (size_t)(BATCH / SLICES * s->count);

    check(charl_tensor_write(charl_var_get_tensor(p->bytes), (const char *)batch->x + at * x_row, n * x_row));
    check(charl_tensor_write(charl_var_get_tensor(p->y), (const char *)batch->y + at * y_row, n * y_row));
}

int main(int argc, char **argv)
{
    const int64_t hidden[] = {64};
    const charl_mlp_config mlp = {.hidden = hidden, .n_hidden = 1, .outputs = CLASSES, .dropout = 0.2};
    charl_data_parallel_options options = {sizeof options, .passes = 1};
    charl_optimizer_config adamw = charl_optimizer_defaults("adamw");
    charl_dataset *data = NULL;
    charl_dataset_info info;
    charl_device *dev = NULL;
    charl_model *model = NULL;
    charl_params *params = NULL;
    charl_graph *g[SLICES] = {NULL};
    pass_graph part[SLICES];
    charl_data_parallel *dp = NULL;
    charl_optimizer *optimizer = NULL;
    charl_loader *loader = NULL;
    charl_loader_batch batch;
    const charl_slices *slices;
    charl_slices mine;
    int n = 0;

    check(charl_version_check());
    check(charl_comm_init(&argc, &argv));
    check(charl_comm_create(NULL, &comm));
    if (argc != 2 && argc != 3) {
        charl_comm_exit(comm, EXIT_FAILURE, "usage: train_ddp DATA.h5 [PASSES]\n");
    }
    if (argc == 3) {
        options.passes = atoi(argv[2]);
    }
    check(charl_dataset_open(argv[1], NULL, &data));
    charl_dataset_get_info(data, &info);
    check(charl_device_open(&(charl_device_request){sizeof(charl_device_request),
                                                    .local_rank = charl_comm_local_rank(comm),
                                                    .local_size = charl_comm_local_size(comm), .share = true},
                            &dev));
    check(charl_model_create(&model));
    check(charl_model_add_mlp(model, &mlp));
    check(charl_params_create(&params));

    /* This rank's part of every batch. */
    check(charl_slices_block(SLICES, charl_comm_rank(comm), charl_comm_size(comm), &mine));
    const int64_t rows = BATCH / SLICES * mine.count;

    check(charl_data_parallel_create(comm, &mine, &options, &dp));
    for (; (slices = charl_data_parallel_get_slices(dp, n)) != NULL; n++) {
        part[n] = build(dev, slices, &info, model, params);
        g[n] = part[n].g;
    }
    check(charl_data_parallel_compile(dp, g, n));
    check(charl_params_initialize(params, 1));
    check(charl_optimizer_create(params, &adamw, &optimizer));

    const charl_loader_options order = {sizeof order, .batch_size = BATCH, .shuffle = true, .seed = 1};

    check(charl_loader_create(data, &mine, &order, &loader));
    for (int64_t step = 0; step < STEPS; step++) {
        const pass_graph *last = NULL;

        check(charl_loader_next(loader, &batch));
        for (int i = 0; i < charl_data_parallel_get_passes(dp); i++) {
            const charl_data_parallel_pass pass = charl_data_parallel_get_pass(dp, i);

            last = &part[pass.graph];
            write_rows(last, &batch, rows, &pass.slices, mine.first);
            check(charl_data_parallel_run(dp, i));
        }
        check(charl_data_parallel_step(dp, optimizer, 1e-3F));
        if ((step + 1) % REPORT == 0 && charl_comm_rank(comm) == 0) {
            float value;

            check(charl_tensor_read(charl_var_get_tensor(last->loss), &value, sizeof value));
            printf("step %" PRId64 "  loss %.9g\n", step + 1, (double)value);
        }
    }
    if (charl_comm_rank(comm) == 0) {
        printf("weights %016" PRIx64 "\n", checksum(params));
    }
    charl_loader_destroy(loader);
    charl_optimizer_destroy(optimizer);
    for (int k = 0; k < n; k++) {
        charl_graph_destroy(g[k]);
    }
    charl_data_parallel_destroy(dp);
    charl_params_destroy(params);
    charl_model_destroy(model);
    charl_device_close(dev);
    charl_dataset_close(data);
    charl_comm_destroy(comm);
    charl_comm_fini();
    return EXIT_SUCCESS;
}
