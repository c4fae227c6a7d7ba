/* What a program around the library does: threads, forks, arguments that are no numbers, HDF5 of its own. */
#include <charl/charl.h>

#include <hdf5.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROWS = 4, FEATURES = 8, RUNS = 100 };

static int failed;

static void need(charl_status st)
{
    if (st != CHARL_OK) {
        printf("%s\n", charl_error_message());
        exit(EXIT_FAILURE);
    }
}

static void refused(charl_status st, const char *message)
{
    if (st != CHARL_ERR_INVALID || !strstr(charl_error_message(), message)) {
        printf("want \"%s\", have \"%s\"\n", message, st == CHARL_OK ? "success" : charl_error_message());
        failed = 1;
    }
}

/* y = the mean of 2 x, and the gradient of a parameter. */
typedef struct model {
    charl_device *dev;
    charl_graph *g;
    charl_params *params;
    charl_param *w;
    charl_var *x, *y, *gradient;
    charl_optimizer *optimizer;
} model;

static void create(model *m)
{
    const charl_optimizer_config sgd = charl_optimizer_defaults("sgd");
    const charl_param_spec spec = {
        .name = "w", .shape = {1, {FEATURES}}, .init = {CHARL_INIT_CONSTANT, 2, 0}, .trainable = true};

    need(charl_device_open(&(charl_device_request){sizeof(charl_device_request), .local_size = 1}, &m->dev));
    need(charl_params_create(&m->params));
    need(charl_params_add(m->params, &spec, &m->w));
    need(charl_graph_create(m->dev, NULL, &m->g));
    m->x = charl_input(m->g, "x", CHARL_F32, (charl_shape){2, {ROWS, FEATURES}}, CHARL_BATCHED);
    m->y = charl_batch_mean(m->g, charl_mean(m->g, charl_mul(m->g, m->x, charl_parameter(m->g, m->w)), 1, false));
    charl_graph_keep(m->g, m->y);
    charl_graph_backward(m->g, m->y, NULL);
    m->gradient = charl_var_get_gradient(charl_parameter(m->g, m->w));
    need(charl_graph_compile(m->g));
    need(charl_params_initialize(m->params, 1));
    need(charl_optimizer_create(m->params, &sgd, &m->optimizer));
}

static charl_status compute(model *m, float value, float *y)
{
    float x[ROWS * FEATURES];

    for (int i = 0; i < ROWS * FEATURES; i++) {
        x[i] = value;
    }
    CHARL_TRY(charl_tensor_write(charl_var_get_tensor(m->x), x, sizeof x));
    CHARL_TRY(charl_graph_run(m->g));
    return charl_tensor_read(charl_var_get_tensor(m->y), y, sizeof *y);
}

typedef struct worker {
    model *m;
    float value;
    int right, invalid;
} worker;

static void *work(void *arg)
{
    worker *w = arg;

    for (int i = 0; i < RUNS; i++) {
        float y = 0;
        const charl_status st = compute(w->m, w->value, &y);

        w->right += st == CHARL_OK && y == 2 * w->value;
        w->invalid += st == CHARL_ERR_INVALID;
    }
    return NULL;
}

static void test_threads(model *m)
{
    worker w[2] = {{m, 1, 0, 0}, {m, 3, 0, 0}};
    pthread_t thread;
    float y;

    if (pthread_create(&thread, NULL, work, &w[1]) != 0) {
        exit(EXIT_FAILURE);
    }
    work(&w[0]);
    pthread_join(thread, NULL);
    if (w[0].right != RUNS || w[1].invalid != RUNS) {
        printf("two threads: the owner had %d right answers, the other %d and was refused %d times, of %d\n",
               w[0].right, w[1].right, w[1].invalid, RUNS);
        failed = 1;
    }
    charl_device_adopt(m->dev);
    need(compute(m, 1, &y));
}

static void *adopt(void *arg)
{
    worker *w = arg;

    charl_device_adopt(w->m->dev);
    return work(w);
}

/* The device may be handed over. */
static void test_adopt(model *m)
{
    worker w = {m, 5, 0, 0};
    pthread_t thread;
    float y;

    if (pthread_create(&thread, NULL, adopt, &w) != 0) {
        exit(EXIT_FAILURE);
    }
    pthread_join(thread, NULL);
    if (w.right != RUNS) {
        printf("a thread that adopts the device: %d right answers of %d: %s\n", w.right, RUNS, charl_error_message());
        failed = 1;
    }
    refused(compute(m, 1, &y), "belongs to another thread");
    charl_device_adopt(m->dev);
    need(compute(m, 1, &y));
}

static void test_numbers(model *m)
{
    static const float bad[] = {NAN, INFINITY, -1};
    charl_optimizer_config config = charl_optimizer_defaults("sgd");
    charl_schedule s = charl_schedule_defaults("cosine");
    charl_optimizer *o = NULL;

    for (int i = 0; i < 3; i++) {
        refused(charl_optimizer_step(m->optimizer, bad[i]), "the learning rate is");
    }
    config.weight_decay = NAN;
    if (charl_optimizer_create(m->params, &config, &o) != CHARL_ERR_CONFIG) {
        failed = 1;
    }
    charl_param_set_settings(m->w, (charl_param_settings){.lr_scale = NAN});
    config.weight_decay = 0;
    refused(charl_optimizer_create(m->params, &config, &o), "lr_scale is nan");
    charl_param_set_settings(m->w, (charl_param_settings){.lr_scale = 1, .weight_decay = -1});
    s.type = "cosin";
    if (!isnan(charl_schedule_lr(&s, 0))) {
        printf("a schedule that does not exist has a learning rate\n");
        failed = 1;
    }
}

/* On several ranks nobody would read what is written there. */
static void test_gradient(model *m)
{
    charl_tensor *gradient = charl_var_get_tensor(m->gradient), *part = NULL;
    const float zeros[FEATURES] = {0};

    refused(charl_tensor_write(gradient, zeros, sizeof zeros), "gradient of a parameter");
    refused(charl_tensor_fill(gradient, 0), "gradient of a parameter");
    refused(charl_tensor_copy(gradient, gradient), "gradient of a parameter");
    need(charl_tensor_range(gradient, 0, 2, &part));
    refused(charl_tensor_fill(part, 0), "gradient of a parameter");
    charl_tensor_release(part);
}

typedef struct caller {
    charl_inference *model;
    float row[FEATURES], want;
    int right;
} caller;

static void *ask(void *arg)
{
    caller *c = arg;

    for (int i = 0; i < RUNS; i++) {
        float y = 0;
        const charl_status st = charl_inference_run(c->model, c->row, 1, &y);

        c->right += st == CHARL_OK && y == c->want;
    }
    return NULL;
}

/* Every answer of a model that two threads ask at once is right. */
static void test_inference(void)
{
    static const char text[] =
        "[model]\ntype = mlp\nhidden = 8\n[data]\npath = embedding.h5\n[train]\nmax_steps = 2\nbatch_size = 8\n"
        "epochs = 1\n[run]\noutput_dir = embedding\n";
    const charl_make_options made = {sizeof made, .kind = "regression", .n_train = 64, .n_val = 16, .overwrite = true};
    caller c[2] = {{.row = {1, 2, 3}}, {.row = {-1, 0, 2}}};
    charl_train_result result;
    charl_config *config = NULL;
    charl_comm *comm = NULL;
    charl_inference *m = NULL;
    pthread_t thread;

    need(charl_dataset_make("embedding.h5", &made));
    need(charl_config_parse("embedding.ini", text, strlen(text), NULL, 0, &config));
    need(charl_comm_init_if_launched(NULL, NULL));
    need(charl_comm_create(NULL, &comm));
    need(charl_train_run(config, &(charl_train_options){sizeof(charl_train_options), .comm = comm, .overwrite = true},
                         &result));
    need(charl_inference_open("embedding/last.h5", NULL, &m));
    for (int k = 0; k < 2; k++) {
        c[k].model = m;
        need(charl_inference_run(m, c[k].row, 1, &c[k].want));
    }
    if (pthread_create(&thread, NULL, ask, &c[1]) != 0) {
        exit(EXIT_FAILURE);
    }
    ask(&c[0]);
    pthread_join(thread, NULL);
    for (int k = 0; k < 2; k++) {
        if (c[k].right != RUNS) {
            printf("a model in two threads: of %d answers %d are right\n", RUNS, c[k].right);
            failed = 1;
        }
    }
    charl_inference_close(m);
    charl_comm_destroy(comm);
    charl_config_destroy(config);
}

/* One object in two threads: every call is made whole or refused. */
typedef struct shared {
    void *object;
    charl_status (*use)(void *object, int thread, int i);
    int thread, made, invalid;
} shared;

static void *use(void *arg)
{
    shared *s = arg;

    for (int i = 0; i < 20 * RUNS; i++) {
        const charl_status st = s->use(s->object, s->thread, i);

        s->made += st == CHARL_OK;
        s->invalid += st == CHARL_ERR_INVALID && strstr(charl_error_message(), "is in use by another thread");
    }
    return NULL;
}

/* Returns how often the object was used. */
static int use_twice(const char *what, void *object, charl_status (*how)(void *object, int thread, int i))
{
    shared s[2] = {{object, how, 0, 0, 0}, {object, how, 1, 0, 0}};
    pthread_t thread;

    if (pthread_create(&thread, NULL, use, &s[1]) != 0) {
        exit(EXIT_FAILURE);
    }
    use(&s[0]);
    pthread_join(thread, NULL);
    for (int k = 0; k < 2; k++) {
        if (s[k].made + s[k].invalid != 20 * RUNS) {
            printf("%s in two threads: of %d calls %d were made and %d refused\n", what, 20 * RUNS, s[k].made,
                   s[k].invalid);
            failed = 1;
        }
    }
    return s[0].made + s[1].made;
}

static charl_status use_params(void *object, int thread, int i)
{
    charl_param *p = NULL;
    char name[32];

    snprintf(name, sizeof name, "p%d.%d", thread, i);
    return charl_params_add(object, &(charl_param_spec){.name = name, .shape = {1, {1}}}, &p);
}

static charl_status use_metrics(void *object, int thread, int i)
{
    return charl_metrics_train(object, &(charl_train_row){.step = 1 + i + 20 * RUNS * thread, .loss = 0.5});
}

static charl_predict_info predicted = {.targets = CHARL_TARGET_NUMBERS, .n_outputs = 1, .n_targets = 1, .n_rows = -1};

static charl_status use_writer(void *object, int thread, int i)
{
    const float output = (float)i;
    const double answer = i;

    return charl_prediction_writer_put(object, &(charl_prediction){.info = &predicted,
                                                                   .row = i + 20 * RUNS * thread,
                                                                   .outputs = &output,
                                                                   .answers = &answer,
                                                                   .predicted = -1});
}

static void need_lines(const char *path, int want)
{
    FILE *f = fopen(path, "r");
    int n = 0;

    for (int c; f && (c = fgetc(f)) != EOF;) {
        n += c == '\n';
    }
    if (!f || fclose(f) != 0 || n != want) {
        printf("%s has %d lines, not %d\n", path, n, want);
        failed = 1;
    }
}

static void *build(void *arg)
{
    charl_graph *g = arg;

    if (charl_input(g, "y", CHARL_F32, (charl_shape){1, {1}}, CHARL_REPLICATED) || charl_constant(g, 1)) {
        printf("a thread adds to the graph of another\n");
        failed = 1;
    }
    refused(CHARL_ERR_INVALID, "belongs to another thread");
    return NULL;
}

static void test_shared(model *m)
{
    static charl_data_schema schema;
    charl_params *params = NULL;
    charl_metrics *metrics = NULL;
    charl_prediction_writer *writer = NULL;
    charl_graph *g = NULL;
    pthread_t thread;
    int made;

    need(charl_params_create(&params));
    made = use_twice("a set of parameters", params, use_params);
    if (charl_params_get_count(params) != made) {
        printf("a set has %d parameters, and %d were declared\n", charl_params_get_count(params), made);
        failed = 1;
    }
    charl_params_destroy(params);
    predicted.schema = &schema;
    remove("metrics.jsonl");
    need(charl_metrics_open(NULL, ".", CHARL_LOG_JSONL, 0, &metrics));
    made = use_twice("metrics", metrics, use_metrics);
    charl_metrics_close(metrics);
    need_lines("metrics.jsonl", made);
    need(charl_prediction_writer_create(
        &(charl_prediction_writer_options){sizeof(charl_prediction_writer_options), .path = "out.csv"}, &predicted,
        &writer));
    made = use_twice("a writer of predictions", writer, use_writer);
    need(charl_prediction_writer_finish(writer));
    charl_prediction_writer_destroy(writer);
    need_lines("out.csv", made + 1);
    need(charl_graph_create(m->dev, NULL, &g));
    if (pthread_create(&thread, NULL, build, g) != 0) {
        exit(EXIT_FAILURE);
    }
    pthread_join(thread, NULL);
    if (!charl_input(g, "y", CHARL_F32, (charl_shape){1, {1}}, CHARL_REPLICATED)) {
        printf("%s\n", charl_error_message());
        failed = 1;
    }
    charl_graph_destroy(g);
}

/* As a checkpoint would refuse it, hours later. */
static void test_names(void)
{
    static const char *const bad[] = {"a b", "a/b", "", ".", "a\n"};
    charl_params *set = NULL;
    charl_param *p = NULL;

    need(charl_params_create(&set));
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        refused(charl_params_add(set, &(charl_param_spec){.name = bad[i], .shape = {1, {1}}}, &p),
                "cannot be the name of a parameter");
    }
    for (int i = 0; i < 1000; i++) {
        char name[16];

        snprintf(name, sizeof name, "p%d", i);
        need(charl_params_add(set, &(charl_param_spec){.name = name, .shape = {1, {1}}}, &p));
        refused(charl_params_add(set, &(charl_param_spec){.name = name, .shape = {1, {1}}}, &p), "is declared twice");
        if (charl_params_find(set, name) != charl_params_get(set, i) || charl_params_find(set, "q")) {
            printf("%s is not found\n", name);
            failed = 1;
        }
    }
    charl_params_destroy(set);
}

/* What the program's handlers of HDF5's errors have been told. */
static int told;

static herr_t on_error(hid_t stack, void *user)
{
    (void)stack;
    *(int *)user += 1;
    return 0;
}

static herr_t on_error_1(void *user)
{
    return on_error(0, user);
}

/* Calls of charl that read and write HDF5, and most of which meet failures of HDF5 on their way. */
static void call_dataset(void)
{
    charl_dataset *ds = NULL;
    charl_loader *l = NULL;

    need(charl_dataset_open("embedding.h5", NULL, &ds));
    need(charl_loader_create(ds, NULL, &(charl_loader_options){sizeof(charl_loader_options), .batch_size = 8}, &l));
    for (int i = 0; i < 4; i++) {
        charl_loader_batch batch;

        need(charl_loader_next(l, &batch));
    }
    charl_loader_destroy(l);
    charl_dataset_close(ds);
}

static void call_dataset_absent(void)
{
    charl_dataset *ds = NULL;

    if (charl_dataset_open("absent.h5", NULL, &ds) == CHARL_OK ||
        charl_dataset_open("embedding/last.h5", NULL, &ds) == CHARL_OK ||
        charl_dataset_open("embedding.h5", &(charl_dataset_options){sizeof(charl_dataset_options), .x = "/absent"},
                           &ds) == CHARL_OK) {
        failed = 1;
    }
}

static void call_damaged(void)
{
    static const char signature[] = "\211HDF\r\n\032\n and no more";
    FILE *f = fopen("damaged.h5", "wb");
    charl_dataset *ds = NULL;
    charl_checkpoint_reader *r = NULL;

    if (!f || fwrite(signature, 1, sizeof signature, f) != sizeof signature || fclose(f) != 0 ||
        charl_dataset_open("damaged.h5", NULL, &ds) == CHARL_OK ||
        charl_checkpoint_open("damaged.h5", &r) == CHARL_OK) {
        failed = 1;
    }
}

static void call_make(void)
{
    need(charl_dataset_make("made.h5", &(charl_make_options){sizeof(charl_make_options), .kind = "regression",
                                                             .n_train = 16, .overwrite = true}));
}

static void call_checkpoint(void)
{
    const float numbers[2] = {1, 2};
    const charl_checkpoint_tensor saved = {"model", "w", CHARL_F32, {1, {2}}, numbers, 0};
    const charl_checkpoint c = {
        .state = {.step = 1, .rng = "philox4x32-10", .slices = 1, .batch_size = 1, .world_size = 1},
        .config_text = "",
        .config_resolved = "",
        .tensors = &saved,
        .n_tensors = 1};
    charl_checkpoint_reader *r = NULL;

    need(charl_checkpoint_save("saved.h5", &c));
    need(charl_checkpoint_open("saved.h5", &r));
    charl_checkpoint_close(r);
    if (charl_checkpoint_save("no/folder/saved.h5", &c) == CHARL_OK ||
        charl_checkpoint_open("absent.h5", &r) == CHARL_OK || charl_checkpoint_open("embedding.h5", &r) == CHARL_OK) {
        failed = 1;
    }
}

static void call_model(void)
{
    charl_inference *m = NULL;

    need(charl_inference_open("embedding/last.h5", NULL, &m));
    charl_inference_close(m);
    if (charl_inference_open("embedding.h5", NULL, &m) == CHARL_OK) {
        failed = 1;
    }
}

/* The file is open as charl does not open it, which HDF5 refuses first. */
static void call_open_file(void)
{
    const hid_t file = H5Fopen("embedding.h5", H5F_ACC_RDONLY, H5P_DEFAULT);

    call_dataset();
    if (file < 0 || H5Fclose(file) < 0) {
        failed = 1;
    }
}

static void need_told(const char *when)
{
    const int before = told;

    if (H5Fopen("absent.h5", H5F_ACC_RDONLY, H5P_DEFAULT) >= 0 || told != before + 1) {
        printf("%s: the program's error handler for HDF5 is called %d times, not once\n", when, told - before);
        failed = 1;
    }
}

/* The program has a handler for the errors of HDF5: it hears of its own, and of none of charl's. */
static void test_error_handler(void)
{
    static const struct {
        const char *name;
        void (*call)(void);
    } calls[] = {{"a dataset", call_dataset},
                 {"a dataset that is not there", call_dataset_absent},
                 {"a damaged file", call_damaged},
                 {"a dataset that is made", call_make},
                 {"a checkpoint", call_checkpoint},
                 {"a model", call_model},
                 {"a dataset that is open already", call_open_file}};

    for (int version = 1; version <= 2; version++) {
        if ((version == 2 ? H5Eset_auto2(H5E_DEFAULT, on_error, &told) : H5Eset_auto1(on_error_1, &told)) < 0) {
            failed = 1;
        }
        need_told("before charl is called");
        for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
            const int before = told;

            calls[i].call();
            if (told != before) {
                printf("%s: %d errors of charl's own calls reach the program's handler\n", calls[i].name,
                       told - before);
                failed = 1;
            }
            need_told(calls[i].name);
        }
    }
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
}

/* Call a function in a forked process. */
static void fork_to(void (*call)(model *m), model *m)
{
    const pid_t child = fork();
    int status = -1;

    if (child == 0) {
        alarm(60);
        call(m);
        _exit(failed);
    }
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
        printf("a forked child ends with status %d\n", status);
        failed = 1;
    }
}

static void open_device(model *m)
{
    charl_device *dev = NULL;

    (void)m;
    refused(charl_device_open(&(charl_device_request){sizeof(charl_device_request), .local_size = 1}, &dev),
            "open devices in the child alone");
}

static void use_device(model *m)
{
    float y;

    refused(compute(m, 1, &y), "was forked from it");
    charl_device_adopt(m->dev);
    refused(compute(m, 1, &y), "was forked from it");
    open_device(m);
    fork_to(open_device, m); /* from a process that has a single thread, and OpenCL without its threads */
}

int main(void)
{
    model m;

    create(&m);
    test_threads(&m);
    test_adopt(&m);
    test_numbers(&m);
    test_gradient(&m);
    test_names();
    test_inference();
    test_shared(&m);
    test_error_handler();
    fork_to(use_device, &m);
    charl_optimizer_destroy(m.optimizer);
    charl_graph_destroy(m.g);
    charl_params_destroy(m.params);
    charl_device_close(m.dev);
    return failed;
}
