/* Training loops of a program's own: what charl_data_parallel refuses, on one rank and on two, and that parameters outlive it. Ranks are threads. */
#include "support/on_device.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "charl/data_parallel.h"
#include "charl/error.h"
#include "charl/ops.h"
#include "charl/optim.h"

enum { SLICES = 8, ROWS = 16, COLUMNS = 6, STEPS = 3, MOST = 2 };

typedef struct member {
    charl_team *team;
    int rank, size;
    charl_slices mine;
    charl_status (*work)(struct member *m);
    charl_comm *comm;
    charl_device *dev;
    charl_params *params;
    float weight[COLUMNS];
    charl_status status;
    char message[1024];
} member;

static charl_device *dev; /* keeps the driver open */

/* The mean over the batch of one number for each of this rank's rows; differentiated or not. */
static charl_status new_graph(const member *m, const charl_slices *slices, bool differentiates, charl_graph **out)
{
    const charl_param_spec spec = {.name = "weight", .shape = {2, {1, COLUMNS}}, .trainable = true};
    const charl_shape rows = {2, {ROWS / SLICES * m->mine.count, COLUMNS}};
    charl_param *w = charl_params_find(m->params, spec.name);
    charl_graph *g = NULL;
    charl_var *x, *loss;

    CHARL_TRY(charl_graph_create(m->dev, slices, &g));
    *out = g;
    if (!w) {
        CHARL_TRY(charl_params_add(m->params, &spec, &w));
    }
    x = charl_scale(g, charl_input(g, "x", CHARL_F32, rows, CHARL_BATCHED), 1.0F, 0.5F);
    loss = charl_batch_mean(g, charl_tanh(g, charl_linear(g, x, charl_parameter(g, w), NULL)));
    charl_graph_keep(g, loss);
    if (differentiates) {
        charl_graph_backward(g, loss, NULL);
    }
    return charl_graph_status(g);
}

/* The object over g, which is destroyed, is refused with these words. */
static charl_status is_refused(const member *m, charl_params *params, charl_graph *g, charl_status code,
                               const char *message)
{
    const charl_data_parallel_options options = {.allreduce = code == CHARL_ERR_CONFIG ? "nosuch" : NULL};
    charl_data_parallel *dp = NULL;
    const charl_status st = charl_data_parallel_create(m->comm, &m->mine, params, g, &options, &dp);

    charl_graph_destroy(g);
    CHARL_REQUIRE(st == code && !dp && strstr(charl_error_message(), message), CHARL_ERR_INVALID,
                  "%s \"%s\" in place of %s \"%s\"", charl_status_name(st), charl_error_message(),
                  charl_status_name(code), message);
    return CHARL_OK;
}

static charl_status refuse(member *m)
{
    charl_status st = CHARL_OK;
    charl_params *others = NULL;
    charl_data_parallel *dp = NULL;
    charl_graph *g = NULL, *other = NULL;

    CHARL_TRY_CLEANUP(charl_params_create(&others));
    CHARL_TRY_CLEANUP(new_graph(m, NULL, true, &other));
    CHARL_TRY_CLEANUP(
        is_refused(m, m->params, other, CHARL_ERR_INVALID, "the graph has slices 0 to 1 of 1, this rank slices"));
    CHARL_TRY_CLEANUP(new_graph(m, &m->mine, true, &other));
    CHARL_TRY_CLEANUP(is_refused(m, others, other, CHARL_ERR_INVALID, "the graph has the parameters of another set"));
    CHARL_TRY_CLEANUP(new_graph(m, &m->mine, false, &other));
    CHARL_TRY_CLEANUP(is_refused(m, m->params, other, CHARL_ERR_INVALID, "the graph computes no gradients"));
    CHARL_TRY_CLEANUP(new_graph(m, &m->mine, true, &other));
    CHARL_TRY_CLEANUP(is_refused(m, m->params, other, CHARL_ERR_CONFIG, "unknown all-reduce nosuch"));
    CHARL_TRY_CLEANUP(new_graph(m, &m->mine, true, &g));
    CHARL_TRY_CLEANUP(charl_data_parallel_create(m->comm, &m->mine, m->params, g, NULL, &dp));
    CHARL_TRY_CLEANUP(new_graph(m, &m->mine, true, &other));
    CHARL_TRY_CLEANUP(is_refused(m, m->params, other, CHARL_ERR_INVALID, "the parameters have gradients already"));
    CHARL_TRY_CLEANUP(new_graph(m, NULL, false, &other));
    CHARL_REQUIRE_CLEANUP(charl_data_parallel_compile(dp, other) == CHARL_ERR_INVALID, CHARL_ERR_INVALID,
                          "an evaluation over other slices is not refused");
    charl_graph_destroy(other);
    CHARL_TRY_CLEANUP(charl_graph_run(g)); /* nothing of this has harmed the first one */
    CHARL_TRY_CLEANUP(charl_data_parallel_reduce(dp));
cleanup:
    charl_graph_destroy(g);
    charl_data_parallel_destroy(dp);
    charl_params_destroy(others);
    return st;
}

/* With one rank there is nothing to sum over, so nobody would miss the other slices. */
static charl_status refuse_part(member *m)
{
    charl_graph *g = NULL;

    CHARL_TRY(charl_slices_range(SLICES, 0, SLICES, &m->mine));
    CHARL_TRY(new_graph(m, &m->mine, true, &g));
    m->mine.n_lanes = 0; /* as in slices that are written down by hand */
    CHARL_TRY(is_refused(m, m->params, g, CHARL_ERR_INVALID, "slices 0 to 8 of 8 have 1 lanes, not 0"));
    CHARL_TRY(charl_slices_range(SLICES, 0, SLICES / 2, &m->mine));
    CHARL_TRY(new_graph(m, &m->mine, true, &g));
    return is_refused(m, m->params, g, CHARL_ERR_INVALID, "the only rank has 4 of 8 slices");
}

static charl_status train(member *m)
{
    const charl_optimizer_config config = charl_optimizer_defaults("adamw");
    charl_status st = CHARL_OK;
    charl_data_parallel *dp = NULL;
    charl_optimizer *optimizer = NULL;
    charl_graph *g = NULL;

    CHARL_TRY_CLEANUP(new_graph(m, &m->mine, true, &g));
    CHARL_TRY_CLEANUP(charl_data_parallel_create(m->comm, &m->mine, m->params, g, NULL, &dp));
    CHARL_TRY_CLEANUP(charl_optimizer_create(m->params, &config, &optimizer));
    for (int i = 0; i < STEPS; i++) {
        CHARL_TRY_CLEANUP(charl_graph_run(g));
        CHARL_TRY_CLEANUP(charl_data_parallel_reduce(dp));
        CHARL_TRY_CLEANUP(charl_optimizer_step(optimizer, 0.1F));
    }
cleanup:
    charl_optimizer_destroy(optimizer);
    charl_graph_destroy(g);
    charl_data_parallel_destroy(dp);
    return st;
}

static charl_status train_twice(member *m)
{
    CHARL_TRY(train(m));
    CHARL_TRY(train(m));
    return charl_param_read(charl_params_get(m->params, 0), m->weight);
}

static charl_status member_work(member *m)
{
    const charl_device_request request = {.local_rank = m->rank, .local_size = m->size, .share = true};

    CHARL_TRY(charl_comm_create(&(charl_comm_options){.team = m->team, .rank = m->rank, .timeout_s = 30}, &m->comm));
    CHARL_TRY(charl_slices_block(SLICES, m->rank, m->size, &m->mine));
    CHARL_TRY(charl_device_open(&request, &m->dev));
    CHARL_TRY(charl_params_create(&m->params));
    return m->work(m);
}

static void *member_run(void *arg)
{
    member *m = arg;

    m->status = member_work(m);
    snprintf(m->message, sizeof m->message, "%s", charl_error_message());
    if (m->status != CHARL_OK && m->comm) {
        charl_comm_break(m->comm);
    }
    charl_params_destroy(m->params);
    charl_device_close(m->dev);
    charl_comm_destroy(m->comm);
    return NULL;
}

static void run_ranks(int size, charl_status (*work)(member *), member *m)
{
    pthread_t thread[MOST];
    charl_team *team = NULL;

    charl_assert_ok(charl_team_create(size, &team));
    for (int r = 0; r < size; r++) {
        m[r] = (member){.team = team, .rank = r, .size = size, .work = work};
        assert_int_equal(pthread_create(&thread[r], NULL, member_run, &m[r]), 0);
    }
    for (int r = 0; r < size; r++) {
        assert_int_equal(pthread_join(thread[r], NULL), 0);
    }
    charl_team_destroy(team);
    for (int r = 0; r < size; r++) {
        if (m[r].status != CHARL_OK) {
            fail_msg("rank %d of %d: %s", r, size, m[r].message);
        }
    }
}

static void test_refused(void **state)
{
    member m[MOST];

    (void)state;
    run_ranks(1, refuse, m);
    run_ranks(2, refuse, m);
    run_ranks(1, refuse_part, m);
}

/* A second graph and object over the same parameters, when the first are gone. */
static void test_parameters_outlive_it(void **state)
{
    member one[MOST], two[MOST];

    (void)state;
    run_ranks(1, train_twice, one);
    run_ranks(2, train_twice, two);
    assert_true(one[0].weight[0] != 0.0F);
    charl_assert_same_bits(two[0].weight, one[0].weight, COLUMNS);
    charl_assert_same_bits(two[1].weight, one[0].weight, COLUMNS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_parameters_outlive_it),
    };

    return charl_test_on_device(tests, &dev);
}
