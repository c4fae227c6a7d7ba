/* A generative adversarial network on any number of ranks: a generator learns to make points of a circle, and a
 * discriminator to tell them from real ones. Each has a set of parameters, a graph that trains this set, and an
 * optimizer; the other one's parameters are constants in that graph, through which gradients flow. What it prints is
 * the same for any number of ranks up to SLICES. With FILE it continues where it was when it left the file, and leaves
 * its state there.
 *
 *     mpirun -n 2 gan [STEPS [FILE.h5]]
 */
#include <charl/charl.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { SLICES = 8, BATCH = 64, NOISE = 4, REPORT = 200 };

static charl_comm *comm;

/* Leave with charl's message; the other ranks are not waited for. */
static void check(charl_status st)
{
    if (st != CHARL_OK) {
        char text[2048];

        snprintf(text, sizeof text, "gan: %s\n", charl_error_message());
        charl_comm_exit(comm, EXIT_FAILURE, text);
    }
}

/* Number k of a row of a step, in [-1, 1): a function of its arguments, so the same on any number of ranks. */
static float draw(int64_t step, int64_t row, int k)
{
    uint64_t x = ((uint64_t)step * BATCH + (uint64_t)row) * 8 + (uint64_t)k + 1;

    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return (float)(x >> 40) / 8388608.0F - 1.0F;
}

typedef struct player {
    charl_model *model;
    charl_params *params;
    charl_data_parallel *dp;
    charl_graph *g;
    charl_var *noise, *real, *loss, *radius;
    charl_optimizer *optimizer;
} player;

static void create(player *p, const charl_slices *mine, int64_t outputs)
{
    const charl_mlp_config mlp = {.hidden = (int64_t[]){32}, .n_hidden = 1, .outputs = outputs, .activation = "tanh"};

    check(charl_model_create(&p->model));
    check(charl_model_add_mlp(p->model, &mlp));
    check(charl_params_create(&p->params));
    check(charl_data_parallel_create(comm, mine, NULL, &p->dp));
}

/* The graph that trains `p`, one of the two. */
static void build(player *p, const player *generator, const player *discriminator, charl_device *dev, int64_t rows)
{
    charl_graph *g;

    check(charl_graph_create(dev, charl_data_parallel_get_slices(p->dp, 0), &g));
    p->g = g;
    p->noise = charl_input(g, "noise", CHARL_F32, (charl_shape){2, {rows, NOISE}}, CHARL_BATCHED);
    charl_var *made = charl_model_build(generator->model, g, generator->params, p->noise);
    charl_var *of_made = charl_model_build(discriminator->model, g, discriminator->params, made);

    if (p == discriminator) { /* -log of the right answers: real, not real */
        p->real = charl_input(g, "real", CHARL_F32, (charl_shape){2, {rows, 2}}, CHARL_BATCHED);
        charl_var *of_real = charl_model_build(discriminator->model, g, discriminator->params, p->real);

        p->loss = charl_batch_mean(
            g, charl_add(g, charl_softplus(g, charl_scale(g, of_real, -1.0F, 0.0F)), charl_softplus(g, of_made)));
    } else { /* of the wrong answer */
        p->loss = charl_batch_mean(g, charl_softplus(g, charl_scale(g, of_made, -1.0F, 0.0F)));
        p->radius = charl_batch_mean(g, charl_sqrt(g, charl_sum(g, charl_mul(g, made, made), 1, true)));
        charl_graph_keep(g, p->radius);
    }
    charl_graph_keep(g, p->loss);
    charl_graph_set_trained(g, p->params);
    charl_graph_backward(g, p->loss, NULL);
    check(charl_data_parallel_compile(p->dp, &g, 1));
}

static void take_step(player *p, const charl_slices *mine, int64_t rows, int64_t step)
{
    const int64_t first = BATCH / SLICES * mine->first;
    float noise[BATCH * NOISE], real[BATCH * 2];

    for (int64_t i = 0; i < rows; i++) {
        const float angle = 3.14159265F * draw(step, first + i, NOISE);

        for (int k = 0; k < NOISE; k++) {
            noise[i * NOISE + k] = draw(step, first + i, k);
        }
        real[2 * i] = 2.0F * cosf(angle);
        real[2 * i + 1] = 2.0F * sinf(angle);
    }
    check(charl_tensor_write(charl_var_get_tensor(p->noise), noise, (size_t)rows * NOISE * sizeof *noise));
    if (p->real) {
        check(charl_tensor_write(charl_var_get_tensor(p->real), real, (size_t)rows * 2 * sizeof *real));
    }
    check(charl_data_parallel_run(p->dp, 0));
    check(charl_data_parallel_step(p->dp, p->optimizer, 3e-3F));
}

static float value_of(const charl_var *v)
{
    float value;

    check(charl_tensor_read(charl_var_get_tensor(v), &value, sizeof value));
    return value;
}

int main(int argc, char **argv)
{
    charl_optimizer_config adam = charl_optimizer_defaults("adam");
    player players[2] = {{NULL}, {NULL}}, *generator = &players[0], *discriminator = &players[1];
    charl_device *dev = NULL;
    charl_slices mine;
    int64_t step = 0, points = 0;

    check(charl_version_check());
    check(charl_comm_init_if_launched(&argc, &argv));
    check(charl_comm_create(NULL, &comm));
    check(charl_device_open(&(charl_device_request){sizeof(charl_device_request),
                                                    .local_rank = charl_comm_local_rank(comm),
                                                    .local_size = charl_comm_local_size(comm), .share = true},
                            &dev));
    check(charl_slices_block(SLICES, charl_comm_rank(comm), charl_comm_size(comm), &mine));
    const int64_t rows = BATCH / SLICES * mine.count;

    create(generator, &mine, 2);
    create(discriminator, &mine, 1);
    adam.beta1 = 0.5;
    for (int i = 0; i < 2; i++) {
        build(&players[i], generator, discriminator, dev, rows);
        check(charl_params_initialize(players[i].params, (uint64_t)i));
        check(charl_optimizer_create(players[i].params, &adam, &players[i].optimizer));
    }

    const int64_t steps = argc > 1 ? atoi(argv[1]) : 600;
    const char *file = argc > 2 ? argv[2] : NULL;
    const charl_training_part parts[] = {
        {"generator", generator->params, generator->optimizer, generator->dp},
        {"discriminator", discriminator->params, discriminator->optimizer, discriminator->dp}};
    const charl_training_value values[] = {{"points", CHARL_I64, {0}, &points}}; /* that the discriminator has seen */
    const charl_training state = {sizeof state, parts, 2, values, 1, &step};
    FILE *there = file ? fopen(file, "rb") : NULL;

    if (there) {
        fclose(there);
        check(charl_training_load(file, &state));
    }
    for (; step < steps; step++) {
        take_step(discriminator, &mine, rows, step);
        take_step(generator, &mine, rows, step);
        points += 2 * BATCH;
        if ((step + 1) % REPORT == 0 && charl_comm_rank(comm) == 0) {
            printf("step %d  discriminator %.9g  generator %.9g  radius %.9g\n", (int)step + 1,
                   (double)value_of(discriminator->loss), (double)value_of(generator->loss),
                   (double)value_of(generator->radius));
        }
    }
    if (file) {
        check(charl_training_save(file, &state));
    }
    for (int i = 0; i < 2; i++) {
        charl_optimizer_destroy(players[i].optimizer);
        charl_graph_destroy(players[i].g);
        charl_data_parallel_destroy(players[i].dp);
    }
    for (int i = 0; i < 2; i++) {
        charl_params_destroy(players[i].params);
        charl_model_destroy(players[i].model);
    }
    charl_device_close(dev);
    charl_comm_destroy(comm);
    charl_comm_fini();
    return EXIT_SUCCESS;
}
