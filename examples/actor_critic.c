/* An actor and a critic with a common trunk, on any number of ranks: in a state of four numbers the actor chooses one
 * of three actions, the right one is rewarded, and the critic predicts the reward. One set of parameters, one loss, and
 * two optimizers with learning rates of their own, which choose their parameters by name. What it prints is the same
 * for any number of ranks up to SLICES.
 *
 *     mpirun -n 2 actor_critic
 */
#include <charl/charl.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { SLICES = 8, BATCH = 128, STATE = 4, ACTIONS = 3, STEPS = 300, REPORT = 100 };

static charl_comm *comm;

/* Leave with charl's message; the other ranks are not waited for. */
static void check(charl_status st)
{
    if (st != CHARL_OK) {
        char text[2048];

        snprintf(text, sizeof text, "actor_critic: %s\n", charl_error_message());
        charl_comm_exit(comm, EXIT_FAILURE, text);
    }
}

/* Number k of a row of a step, in [0, 1): a function of its arguments, so the same on any number of ranks. */
static float draw(int64_t step, int64_t row, int k)
{
    uint64_t x = ((uint64_t)step * BATCH + (uint64_t)row) * 8 + (uint64_t)k + 1;

    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return (float)(x >> 40) / 16777216.0F;
}

/* The network, built into a graph: once for acting and once for training, over the same parameters. */
typedef struct network {
    charl_graph *g;
    charl_var *state, *logits, *value;
} network;

static charl_model *trunk, *actor, *critic;
static charl_params *params;

static charl_model *layer(const char *name, int64_t out, const char *activation)
{
    charl_linear_config config;
    charl_model *model = NULL;

    check(charl_layer_defaults("linear", &config));
    config.out = out;
    config.activation = activation;
    check(charl_model_create(&model));
    check(charl_model_add(model, name, "linear", &config));
    return model;
}

static network build(charl_device *dev, const charl_slices *slices, int64_t rows)
{
    network n;

    check(charl_graph_create(dev, slices, &n.g));
    n.state = charl_input(n.g, "state", CHARL_F32, (charl_shape){2, {rows, STATE}}, CHARL_BATCHED);
    charl_var *features = charl_model_build(trunk, n.g, params, n.state);
    n.logits = charl_model_build(actor, n.g, params, features);
    n.value = charl_model_build(critic, n.g, params, features);
    return n;
}

static void write(const charl_var *v, const void *values, size_t bytes)
{
    check(charl_tensor_write(charl_var_get_tensor(v), values, bytes));
}

/* What the actor does in the state of a row: a draw from the softmax of its logits. */
static int choose(const float *logits, float u)
{
    float p[ACTIONS], sum = 0.0F;
    int action = 0;

    for (int a = 0; a < ACTIONS; a++) {
        p[a] = expf(logits[a]);
        sum += p[a];
    }
    for (float below = p[0]; action < ACTIONS - 1 && u * sum >= below; below += p[action]) {
        action++;
    }
    return action;
}

int main(int argc, char **argv)
{
    charl_optimizer_config adam = charl_optimizer_defaults("adam");
    charl_device *dev = NULL;
    charl_data_parallel *dp = NULL;
    charl_optimizer *of_actor = NULL, *of_critic = NULL;
    charl_slices mine;
    float mean;

    check(charl_version_check());
    check(charl_comm_init_if_launched(&argc, &argv));
    check(charl_comm_create(NULL, &comm));
    check(charl_device_open(&(charl_device_request){sizeof(charl_device_request),
                                                    .local_rank = charl_comm_local_rank(comm),
                                                    .local_size = charl_comm_local_size(comm), .share = true},
                            &dev));
    check(charl_slices_block(SLICES, charl_comm_rank(comm), charl_comm_size(comm), &mine));
    const int64_t rows = BATCH / SLICES * mine.count, first = BATCH / SLICES * mine.first;

    check(charl_params_create(&params));
    check(charl_data_parallel_create(comm, &mine, NULL, &dp));
    trunk = layer("trunk", 32, "tanh");
    actor = layer("actor", ACTIONS, NULL);
    critic = layer("critic", 1, NULL);

    /* Training: -log p(action) times how much better the reward was than predicted, and the error of the prediction. */
    const network t = build(dev, charl_data_parallel_get_slices(dp, 0), rows);
    charl_var *action = charl_input(t.g, "action", CHARL_I32, (charl_shape){1, {rows}}, CHARL_BATCHED);
    charl_var *advantage = charl_input(t.g, "advantage", CHARL_F32, (charl_shape){1, {rows}}, CHARL_BATCHED);
    charl_var *reward = charl_input(t.g, "reward", CHARL_F32, (charl_shape){2, {rows, 1}}, CHARL_BATCHED);
    charl_var *loss = charl_batch_mean(t.g, charl_add(t.g, charl_cross_entropy(t.g, t.logits, action, advantage, NULL),
                                                      charl_mse(t.g, t.value, reward)));
    charl_var *rewarded = charl_batch_mean(t.g, reward);

    charl_graph_keep(t.g, rewarded);
    charl_graph_backward(t.g, loss, NULL);
    check(charl_data_parallel_compile(dp, &t.g, 1));

    /* Acting. */
    const network n = build(dev, &mine, rows);

    charl_graph_keep(n.g, n.logits);
    charl_graph_keep(n.g, n.value);
    check(charl_data_parallel_compile_evaluation(dp, n.g));
    check(charl_params_initialize(params, 1));
    adam.params = "trunk.*, actor.*";
    check(charl_optimizer_create(params, &adam, &of_actor));
    adam.params = "critic.*";
    check(charl_optimizer_create(params, &adam, &of_critic));

    for (int64_t step = 0; step < STEPS; step++) {
        float s[BATCH * STATE], logits[BATCH * ACTIONS], value[BATCH], r[BATCH], better[BATCH];
        int32_t chosen[BATCH];

        for (int64_t i = 0; i < rows * STATE; i++) {
            s[i] = 2.0F * draw(step, first + i / STATE, (int)(i % STATE)) - 1.0F;
        }
        write(n.state, s, (size_t)rows * STATE * sizeof *s);
        check(charl_graph_run(n.g));
        check(charl_tensor_read(charl_var_get_tensor(n.logits), logits, (size_t)rows * ACTIONS * sizeof *logits));
        check(charl_tensor_read(charl_var_get_tensor(n.value), value, (size_t)rows * sizeof *value));
        for (int64_t i = 0; i < rows; i++) { /* the environment: the largest of the first three numbers is right */
            const float *x = s + i * STATE;
            const int right = x[0] > x[1] ? (x[0] > x[2] ? 0 : 2) : (x[1] > x[2] ? 1 : 2);

            chosen[i] = choose(logits + i * ACTIONS, draw(step, first + i, STATE));
            r[i] = chosen[i] == right ? 1.0F : 0.0F;
            better[i] = r[i] - value[i];
        }
        write(t.state, s, (size_t)rows * STATE * sizeof *s);
        write(action, chosen, (size_t)rows * sizeof *chosen);
        write(advantage, better, (size_t)rows * sizeof *better);
        write(reward, r, (size_t)rows * sizeof *r);
        check(charl_data_parallel_run(dp, 0));
        check(charl_data_parallel_step(dp, of_actor, 1e-2F));
        check(charl_data_parallel_step(dp, of_critic, 3e-2F));
        if ((step + 1) % REPORT == 0 && charl_comm_rank(comm) == 0) {
            check(charl_tensor_read(charl_var_get_tensor(rewarded), &mean, sizeof mean));
            printf("step %d  mean reward %.9g\n", (int)step + 1, (double)mean);
        }
    }
    charl_optimizer_destroy(of_actor);
    charl_optimizer_destroy(of_critic);
    charl_graph_destroy(t.g);
    charl_graph_destroy(n.g);
    charl_data_parallel_destroy(dp);
    charl_params_destroy(params);
    charl_model_destroy(trunk);
    charl_model_destroy(actor);
    charl_model_destroy(critic);
    charl_device_close(dev);
    charl_comm_destroy(comm);
    charl_comm_fini();
    return EXIT_SUCCESS;
}
