/* Every public function with each of its pointers NULL, through the installed headers alone: it fails or gives a harmless answer, and does not
 * crash. The calls are made from the headers by arguments.py. With an argument NAME only functions whose name begins so. */
#include <charl/charl.h>
#include <charl/opencl.h>
#include <charl/roofline.h>

#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static sigjmp_buf crashed;
static int failed;
static int count; /* what integers are */

static charl_device *device;
static charl_tensor *tensor;
static charl_graph *graph;
static charl_var *var;
static charl_params *params;
static charl_param *param;
static charl_optimizer *optimizer;
static charl_steps *steps;
static charl_dataset *dataset;
static charl_loader *loader;
static charl_config *config;
static charl_checkpoint_reader *checkpoint_reader;
static const charl_checkpoint_tensor *checkpoint_tensor;
static charl_tokenizer *tokenizer;
static charl_model *model;
static charl_comm *comm;
static charl_data_schema *data_schema;
static charl_metrics *metrics;
static charl_data_parallel *data_parallel;
static charl_reducer *reducer;
static charl_allreduce *allreduce;
static charl_roofline *roofline;
static charl_prediction_writer *prediction_writer;

static void on_crash(int signal)
{
    siglongjmp(crashed, signal);
}

/* Zeros for parameter i. What the library wrote there is forgotten. */
static void *zeros(int i)
{
    static _Alignas(64) unsigned char memory[16][16384];

    return memset(memory[i], 0, sizeof memory[i]);
}

static const char *const texts[] = {"none", "none", "none", "none"};

static void report(const char *name, const char *null, const char *what)
{
    printf("%s, %s NULL%s: %s\n", name, null[0] ? null : "nothing", count ? " and a count of 1" : "", what);
    failed = 1;
}

#define CALL(name, null, call)                                                                                         \
    do {                                                                                                               \
        if (sigsetjmp(crashed, 1) == 0) {                                                                              \
            alarm(60);                                                                                                 \
            (void)(call);                                                                                              \
        } else {                                                                                                       \
            report(name, null, "crashed");                                                                             \
        }                                                                                                              \
    } while (0)

/* A failure has a message. */
#define STATUS(name, null, call)                                                                                       \
    do {                                                                                                               \
        charl_error_clear();                                                                                           \
        if (sigsetjmp(crashed, 1) == 0) {                                                                              \
            alarm(60);                                                                                                 \
            if ((call) != CHARL_OK && !charl_error_message()[0]) {                                                     \
                report(name, null, "failed without a message");                                                        \
            }                                                                                                          \
        } else {                                                                                                       \
            report(name, null, "crashed");                                                                             \
        }                                                                                                              \
    } while (0)

#include "arguments_calls.h"

static void need(charl_status st)
{
    if (st != CHARL_OK) {
        printf("%s\n", charl_error_message());
        exit(EXIT_FAILURE);
    }
}

/* A linear layer that has been trained in no step yet, on two features. */
static void create_objects(void)
{
    static const char text[] = "[model]\ntype = mlp\nhidden = 2\n[data]\npath = none.h5\n[train]\nepochs = 1\n";
    const charl_optimizer_config adam = charl_optimizer_defaults("adam");
    const charl_make_options made = {.kind = "regression", .n_train = 16, .overwrite = true};
    charl_slices whole;
    const charl_shape shape = {2, {4, 2}};
    const float numbers[2] = {1, 2};
    const float stats[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    const charl_checkpoint_tensor saved = {"model", "w", CHARL_F32, {1, {2}}, numbers, 0};
    const charl_checkpoint checkpoint = {
        .state = {.step = 1, .rng = "philox4x32-10", .slices = 1, .batch_size = 1, .world_size = 1},
        .config_text = "",
        .config_resolved = "",
        .tensors = &saved,
        .n_tensors = 1};

    need(charl_slices_block(1, 0, 1, &whole));
    need(charl_comm_init_if_launched(NULL, NULL));
    need(charl_comm_create(NULL, &comm));
    need(charl_device_open(&(charl_device_request){.local_size = 1}, &device));
    need(charl_tensor_create(device, CHARL_F32, &shape, &tensor));
    need(charl_dataset_make("data.h5", &made));
    need(charl_dataset_open("data.h5", NULL, &dataset));
    need(charl_loader_create(dataset, NULL, &(charl_loader_options){.batch_size = 4}, &loader));
    need(charl_data_schema_create(dataset, 8, stats, stats, &data_schema));
    need(charl_config_parse("text", text, strlen(text), NULL, 0, &config));
    need(charl_checkpoint_save("checkpoint.h5", &checkpoint));
    need(charl_checkpoint_open("checkpoint.h5", &checkpoint_reader));
    checkpoint_tensor = charl_checkpoint_get_tensor(checkpoint_reader, 0);
    need(charl_tokenizer_create("bytes", NULL, 0, 256, &tokenizer));
    need(charl_model_create(&model));
    need(charl_model_add(model, "out", "linear", &(charl_linear_config){.out = 1, .bias = true}));
    need(charl_params_create(&params));
    need(charl_steps_create(device, NULL, &steps));
    need(charl_graph_create(device, NULL, &graph));
    charl_graph_set_steps(graph, steps);
    var = charl_batch_mean(
        graph, charl_flatten(graph, charl_model_build(model, graph, params,
                                                      charl_input(graph, "x", CHARL_F32, shape, CHARL_BATCHED))));
    charl_graph_keep(graph, var);
    charl_graph_backward(graph, var, NULL);
    need(charl_data_parallel_create(comm, &whole, NULL, &data_parallel));
    need(charl_data_parallel_compile(data_parallel, &graph, 1));
    need(charl_params_initialize(params, 1));
    param = charl_params_get(params, 0);
    need(charl_optimizer_create_with_steps(params, &adam, steps, &optimizer));
    need(charl_reducer_create(comm, &whole, &reducer));
    need(charl_allreduce_create(comm, 4, &whole, NULL, &allreduce));
    need(charl_roofline_copy(device, 4096, &roofline));
    need(charl_metrics_open(".", 1, 0, NULL, &metrics));
}

int main(int argc, char **argv)
{
    struct sigaction act = {.sa_handler = on_crash};

    if (chdir("arguments") != 0) {
        return EXIT_FAILURE;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    create_objects();
    sigaction(SIGSEGV, &act, NULL);
    sigaction(SIGBUS, &act, NULL);
    sigaction(SIGFPE, &act, NULL);
    sigaction(SIGABRT, &act, NULL);
    sigaction(SIGALRM, &act, NULL);
    for (count = 0; count < 2; count++) {
        for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
            if (argc < 2 || strncmp(calls[i].name, argv[1], strlen(argv[1])) == 0) {
                calls[i].call();
            }
        }
    }
    return failed;
}
