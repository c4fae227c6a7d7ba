/* An actor and a critic with a common trunk, on any number of ranks: in a state of four numbers the actor chooses one
 * of three actions, the right one is rewarded, and the critic predicts the reward. The function `build` makes two
 * graphs over the same parameters: one to act, and one to learn. What it prints is the same for any number of ranks up
 * to 8.
 *
 *     mpirun -n 2 actor_critic
 */
#include <charl/charl.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { BATCH = 128, STATE = 4, ACTIONS = 3, STEPS = 300, REPORT = 100 };

static charl_var *build(void *ctx, charl_graph *g, int64_t rows)
{
    static const charl_linear_config trunk = {.out = 32, .bias = true, .activation = "tanh"};
    static const charl_linear_config actor = {.out = ACTIONS, .bias = true}, critic = {.out = 1, .bias = true};
    charl_var *x = charl_input(g, "state", CHARL_F32, (charl_shape){2, {rows, STATE}}, CHARL_BATCHED);

    (void)ctx;
    x = charl_layer_apply(g, NULL, "trunk", "linear", &trunk, x);
    charl_var *logits = charl_layer_apply(g, NULL, "actor", "linear", &actor, x);
    charl_var *value = charl_layer_apply(g, NULL, "critic", "linear", &critic, x);

    if (!charl_graph_is_training(g)) {
        charl_output(g, "probabilities", charl_softmax(g, logits));
        charl_output(g, "value", value);
        return NULL;
    }
    charl_var *action = charl_input(g, "action", CHARL_I32, (charl_shape){1, {rows}}, CHARL_BATCHED);
    charl_var *advantage = charl_input(g, "advantage", CHARL_F32, (charl_shape){1, {rows}}, CHARL_BATCHED);
    charl_var *reward = charl_input(g, "reward", CHARL_F32, (charl_shape){2, {rows, 1}}, CHARL_BATCHED);

    charl_output(g, "mean reward", charl_batch_mean(g, reward));
    /* -log p(action) times how much better the reward was than predicted, and the error of the prediction */
    return charl_batch_mean(
        g, charl_add(g, charl_cross_entropy(g, logits, action, advantage, NULL), charl_mse(g, value, reward)));
}

int main(int argc, char **argv)
{
    charl_optimizer_config adam = charl_optimizer_defaults("adam");
    charl_learner_options options = {sizeof options, .build = build, .batch_size = BATCH, .optimizer = &adam};
    charl_learner *learner;
    charl_world world;

    CHARL_CHECK(charl_world_open(&argc, &argv, NULL, &world));
    CHARL_CHECK(charl_learner_create(&world, NULL, &options, &learner));
    const charl_learner_info mine = charl_learner_get_info(learner);

    for (int64_t step = 0; step < STEPS; step++) {
        float s[BATCH * STATE], p[BATCH * ACTIONS], value[BATCH], reward[BATCH], advantage[BATCH], u, mean;
        const size_t rows = (size_t)mine.rows;
        int32_t action[BATCH];

        for (int64_t i = 0; i < mine.rows; i++) { /* the same on any number of ranks */
            charl_random(1, step, mine.first_row + i, &s[i * STATE], STATE);
        }
        CHARL_CHECK(charl_learner_evaluate(learner, (charl_rows[]){{"state", s}}, 1));
        CHARL_CHECK(charl_learner_read(learner, "probabilities", p, rows * ACTIONS * sizeof *p));
        CHARL_CHECK(charl_learner_read(learner, "value", value, rows * sizeof *value));
        for (int64_t i = 0; i < mine.rows; i++) { /* the environment: the largest of the first three numbers is right */
            const float *x = s + i * STATE;
            const int right = x[0] > x[1] ? (x[0] > x[2] ? 0 : 2) : (x[1] > x[2] ? 1 : 2);

            charl_random(2, step, mine.first_row + i, &u, 1);
            action[i] = (u >= p[i * ACTIONS]) + (u >= p[i * ACTIONS] + p[i * ACTIONS + 1]);
            reward[i] = action[i] == right ? 1.0F : 0.0F;
            advantage[i] = reward[i] - value[i];
        }
        const charl_rows seen[] = {{"state", s}, {"action", action}, {"advantage", advantage}, {"reward", reward}};

        CHARL_CHECK(charl_learner_step(learner, seen, 4, 1e-2F));
        if ((step + 1) % REPORT == 0) {
            CHARL_CHECK(charl_learner_read(learner, "mean reward", &mean, sizeof mean));
            if (world.rank == 0) {
                printf("step %d  mean reward %.9g\n", (int)step + 1, (double)mean);
            }
        }
    }
    charl_learner_destroy(learner);
    charl_world_close(&world);
    return EXIT_SUCCESS;
}
