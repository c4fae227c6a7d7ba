/* Every public function with each of its pointers NULL, through the installed headers alone: it fails or gives a harmless answer, and does not
 * crash. And with each number not a number or infinite: it is refused by its name. The calls are made from the headers by arguments.py. With an argument NAME only functions whose name begins so. */
#include <charl/charl.h>
#include <charl/opencl.h>
#include <charl/roofline.h>

#include <math.h>
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

/* Options of `size` bytes without a setting. */
static void *options(int i, size_t size)
{
    void *memory = zeros(i);

    memcpy(memory, &size, sizeof size);
    return memory;
}

/* Those of a later version, which has a member more, and it is set. */
static void *later(int i, size_t size)
{
    unsigned char *memory = options(i, size + 8);

    memory[size] = 1;
    return memory;
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

/* What the calls with numbers use. Builders begin a graph each, because a graph that failed stays so. */
static charl_slices whole;
static charl_config *gpt;
static charl_graph *g;
static charl_var *x, *rows, *labels, *channel, *channels, *qkv, *kind, *amount;
static const int64_t hidden[] = {2};

static charl_status ignore_text(void *ctx, const char *text, size_t bytes)
{
    (void)ctx;
    (void)text;
    (void)bytes;
    return CHARL_OK;
}

static charl_model *fresh_model(void)
{
    static charl_model *m;

    charl_model_destroy(m);
    return charl_model_create(&m) == CHARL_OK ? m : NULL;
}

static charl_params *fresh_params(void)
{
    static charl_params *p;

    charl_params_destroy(p);
    return charl_params_create(&p) == CHARL_OK ? p : NULL;
}

static charl_status create_optimizer(const charl_optimizer_config *c)
{
    charl_optimizer_config o_config = *c;
    charl_optimizer *o = NULL;
    charl_status st;

    o_config.on_spike = CHARL_SPIKE_WARN; /* so that its threshold counts */
    o_config.spike_window = 10;
    o_config.spike_threshold = c->spike_threshold != 0 ? c->spike_threshold : 6;
    st = charl_optimizer_create(params, &o_config, &o);
    charl_optimizer_destroy(o);
    return st;
}

static charl_status create_with_settings(charl_param_settings s)
{
    const charl_optimizer_config adam = charl_optimizer_defaults("adam");
    charl_optimizer *o = NULL;
    charl_status st;

    charl_param_set_settings(param, s);
    st = charl_optimizer_create(params, &adam, &o);
    charl_param_set_settings(param, (charl_param_settings){.lr_scale = 1, .weight_decay = -1});
    charl_optimizer_destroy(o);
    return st;
}

static void begin_graph(void)
{
    charl_graph_destroy(g);
    g = NULL;
    if (charl_graph_create(device, NULL, &g) == CHARL_OK) {
        charl_graph_set_training(g, true);
    }
    x = charl_input(g, "x", CHARL_F32, (charl_shape){4, {4, 3, 4, 4}}, CHARL_BATCHED);
    rows = charl_input(g, "rows", CHARL_F32, (charl_shape){2, {4, 2}}, CHARL_BATCHED);
    labels = charl_input(g, "labels", CHARL_I32, (charl_shape){1, {4}}, CHARL_BATCHED);
    channel = charl_input(g, "channel", CHARL_F32, (charl_shape){1, {3}}, CHARL_REPLICATED);
    channels = charl_input(g, "channels", CHARL_F32, (charl_shape){1, {2}}, CHARL_REPLICATED);
    qkv = charl_input(g, "qkv", CHARL_F32, (charl_shape){3, {4, 4, 24}}, CHARL_BATCHED);
    kind = charl_input(g, "kind", CHARL_I32, (charl_shape){2, {4, 1}}, CHARL_BATCHED);
    amount = charl_input(g, "amount", CHARL_F32, (charl_shape){2, {4, 6}}, CHARL_BATCHED);
}

static void check_refusal(const char *what, const char *number, const char *said, float bad, bool is_refused)
{
    if (!is_refused || !strstr(charl_error_message(), said)) {
        printf("%s with %s = %g: %s\n", what, number, (double)bad, is_refused ? charl_error_message() : "accepted");
        failed = 1;
    }
}

#define REFUSED(what, number, said, bad, call)                                                                         \
    do {                                                                                                               \
        charl_error_clear();                                                                                           \
        check_refusal(what, number, said, bad, (call) != CHARL_OK);                                                    \
    } while (0)

#define REFUSED_VAR(what, number, said, bad, call)                                                                     \
    do {                                                                                                               \
        charl_error_clear();                                                                                           \
        check_refusal(what, number, said, bad, !(call));                                                               \
    } while (0)

/* A failure whose message says why. */
#define OPTIONS_REFUSED(name, why, call)                                                                               \
    do {                                                                                                               \
        charl_error_clear();                                                                                           \
        if (sigsetjmp(crashed, 1) == 0) {                                                                              \
            alarm(60);                                                                                                 \
            if ((call) != CHARL_ERR_INVALID || !strstr(charl_error_message(), why)) {                                  \
                printf("%s does not refuse options: \"%s\", not \"%s\"\n", name, charl_error_message(), why);          \
                failed = 1;                                                                                            \
            }                                                                                                          \
        } else {                                                                                                       \
            report(name, "", "crashed");                                                                               \
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
    charl_optimizer_config adam = charl_optimizer_defaults("adam");
    const charl_make_options made = {sizeof made, .kind = "regression", .n_train = 16, .overwrite = true};
    static const char gpt_text[] =
        "[model]\ntype = gpt\nn_layer = 1\nn_head = 1\nn_embd = 8\n[data]\npath = none.h5\n[train]\nepochs = 1\n";
    FILE *text_file;
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
    need(charl_device_open(&(charl_device_request){sizeof(charl_device_request), .local_size = 1}, &device));
    need(charl_tensor_create(device, CHARL_F32, &shape, &tensor));
    need(charl_dataset_make("data.h5", &made));
    text_file = fopen("text.txt", "w");
    if (!text_file || fputs("some words of text", text_file) < 0 || fclose(text_file) != 0) {
        exit(EXIT_FAILURE);
    }
    need(charl_dataset_open("data.h5", NULL, &dataset));
    need(charl_loader_create(dataset, NULL, &(charl_loader_options){sizeof(charl_loader_options), .batch_size = 4},
                             &loader));
    need(charl_data_schema_create(dataset, 8, stats, stats, &data_schema));
    need(charl_config_parse("text", text, strlen(text), NULL, 0, &config));
    need(charl_config_parse("text", gpt_text, strlen(gpt_text), NULL, 0, &gpt));
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
    adam.steps = steps;
    need(charl_optimizer_create(params, &adam, &optimizer));
    need(charl_reducer_create(comm, &whole, &reducer));
    need(charl_allreduce_create(comm, 4, &whole, NULL, &allreduce));
    need(charl_roofline_copy(device, 4096, &roofline));
    need(charl_metrics_open(NULL, ".", 1, 0, &metrics));
}

int main(int argc, char **argv)
{
    struct sigaction act = {.sa_handler = on_crash};

    if (chdir("arguments") != 0) {
        return EXIT_FAILURE;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    create_objects();
    for (size_t i = 0; argc < 2 && i < sizeof number_calls / sizeof number_calls[0]; i++) {
        static const float bad[] = {NAN, INFINITY, -INFINITY};

        for (int k = 0; k < 3; k++) {
            begin_graph();
            number_calls[i](bad[k]);
        }
    }
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
