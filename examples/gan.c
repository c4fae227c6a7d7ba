/* A generative adversarial network on any number of ranks: a generator learns to make points of a circle, and a
 * discriminator to tell them from real ones. Each has a set of parameters and a learner; the other one's parameters are
 * constants there, through which gradients flow. What it prints is the same for any number of ranks up to 8. With FILE
 * it continues where it was when it left the file, and leaves its state there.
 *
 *     mpirun -n 2 gan [STEPS [FILE.h5]]
 */
#include <charl/charl.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { BATCH = 64, NOISE = 4, REPORT = 200 };

static charl_params *generator, *discriminator;

static charl_var *mlp(charl_graph *g, charl_params *params, charl_var *x, int64_t outputs)
{
    const charl_linear_config hidden = {.out = 32, .bias = true, .activation = "tanh"};
    const charl_linear_config last = {.out = outputs, .bias = true};

    x = charl_layer_apply(g, params, "fc1", "linear", &hidden, x);
    return charl_layer_apply(g, params, "fc2", "linear", &last, x);
}

/* The discriminator's judgement of the points that the generator makes of noise. */
static charl_var *judge(charl_graph *g, int64_t rows, charl_var **points)
{
    charl_var *noise = charl_input(g, "noise", CHARL_F32, (charl_shape){2, {rows, NOISE}}, CHARL_BATCHED);

    *points = mlp(g, generator, noise, 2);
    return mlp(g, discriminator, *points, 1);
}

/* -log of the right answers: real, not real. */
static charl_var *discriminator_loss(void *ctx, charl_graph *g, int64_t rows)
{
    charl_var *real = charl_input(g, "real", CHARL_F32, (charl_shape){2, {rows, 2}}, CHARL_BATCHED), *points;
    charl_var *of_real = mlp(g, discriminator, real, 1), *of_made = judge(g, rows, &points);

    (void)ctx;
    of_real = charl_softplus(g, charl_scale(g, of_real, -1.0F, 0.0F));
    return charl_batch_mean(g, charl_add(g, of_real, charl_softplus(g, of_made)));
}

/* -log of the wrong answer. */
static charl_var *generator_loss(void *ctx, charl_graph *g, int64_t rows)
{
    charl_var *points, *of_made = judge(g, rows, &points);

    (void)ctx;
    charl_output(g, "radius", charl_batch_mean(g, charl_sqrt(g, charl_sum(g, charl_mul(g, points, points), 1, true))));
    return charl_batch_mean(g, charl_softplus(g, charl_scale(g, of_made, -1.0F, 0.0F)));
}

int main(int argc, char **argv)
{
    charl_optimizer_config adam = charl_optimizer_defaults("adam");
    charl_learner_options of_generator = {sizeof of_generator, .build = generator_loss, .batch_size = BATCH};
    charl_learner_options of_discriminator = {sizeof of_discriminator, .build = discriminator_loss,
                                              .batch_size = BATCH};
    charl_learner *forger, *critic;
    int64_t step = 0, seen = 0; /* points that the discriminator has seen */
    charl_world world;

    CHARL_CHECK(charl_world_open(&argc, &argv, NULL, &world));
    CHARL_CHECK(charl_params_create(&generator));
    CHARL_CHECK(charl_params_create(&discriminator));
    adam.beta1 = 0.5;
    of_generator.optimizer = of_discriminator.optimizer = &adam;
    of_discriminator.seed = 1;
    CHARL_CHECK(charl_learner_create(&world, generator, &of_generator, &forger));
    CHARL_CHECK(charl_learner_create(&world, discriminator, &of_discriminator, &critic));

    const charl_learner_info f = charl_learner_get_info(forger), c = charl_learner_get_info(critic);
    const charl_training_part parts[] = {{"generator", f.params, f.optimizer, f.dp},
                                         {"discriminator", c.params, c.optimizer, c.dp}};
    const charl_training_value values[] = {{"points", CHARL_I64, {0}, &seen}};
    const charl_training state = {sizeof state, parts, 2, values, 1, &step, .may_be_missing = true};

    if (argc > 2) {
        CHARL_CHECK(charl_training_load(argv[2], &state));
    }
    for (const int64_t steps = argc > 1 ? atoi(argv[1]) : 600; step < steps; step++) {
        float noise[BATCH * NOISE], real[BATCH * 2], turn, loss[2], radius;
        const charl_rows rows[] = {{"noise", noise}, {"real", real}};

        for (int64_t i = 0; i < f.rows; i++) { /* the same on any number of ranks */
            charl_random(1, step, f.first_row + i, &noise[i * NOISE], NOISE);
            charl_random(2, step, f.first_row + i, &turn, 1);
            real[2 * i] = 2.0F * cosf(6.28318531F * turn);
            real[2 * i + 1] = 2.0F * sinf(6.28318531F * turn);
        }
        CHARL_CHECK(charl_learner_step(critic, rows, 2, 3e-3F));
        CHARL_CHECK(charl_learner_step(forger, rows, 1, 3e-3F));
        seen += 2 * BATCH;
        if ((step + 1) % REPORT == 0) {
            CHARL_CHECK(charl_learner_read(critic, "loss", &loss[0], sizeof loss[0]));
            CHARL_CHECK(charl_learner_read(forger, "loss", &loss[1], sizeof loss[1]));
            CHARL_CHECK(charl_learner_read(forger, "radius", &radius, sizeof radius));
            if (world.rank == 0) {
                printf("step %d  discriminator %.9g  generator %.9g  radius %.9g\n", (int)step + 1, (double)loss[0],
                       (double)loss[1], (double)radius);
            }
        }
    }
    if (argc > 2) {
        CHARL_CHECK(charl_training_save(argv[2], &state));
    }
    charl_learner_destroy(forger);
    charl_learner_destroy(critic);
    charl_params_destroy(generator);
    charl_params_destroy(discriminator);
    charl_world_close(&world);
    return EXIT_SUCCESS;
}
