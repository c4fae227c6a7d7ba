/* charl_learner: the same weights for any number of ranks and passes, evaluation without dropout, what it refuses; layers without a model,
 * named outputs, random numbers of rows. Ranks are threads. */
#include "support/on_device.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "charl/error.h"
#include "charl/learner.h"
#include "charl/nn.h"
#include "charl/ops.h"
#include "charl/training.h"

enum { BATCH = 24, COLUMNS = 6, STEPS = 4, MOST = 3, MAX_WEIGHTS = 64 };

typedef struct member {
    charl_team *team;
    int rank, size, passes;
    charl_dtype precision;
    bool split; /* an optimizer for each layer */
    charl_world world;
    charl_params *params;
    charl_learner *learner;
    charl_optimizer *second;
    float weight[MAX_WEIGHTS], loss, mean[2]; /* mean: of two evaluations */
    charl_status status;
    char message[1024];
} member;

static charl_device *dev; /* keeps the driver open */

static charl_var *build(void *ctx, charl_graph *g, int64_t rows)
{
    static const charl_linear_config hidden = {.out = 7, .bias = true, .activation = "tanh"}, one = {.out = 1};
    static const charl_dropout_config dropout = {.p = 0.4};
    charl_var *x = charl_input(g, "x", CHARL_F32, (charl_shape){2, {rows, COLUMNS}}, CHARL_BATCHED), *y;

    y = charl_layer_apply(g, ctx, "fc1", "linear", &hidden, charl_cast(g, x, charl_graph_get_precision(g)));
    y = charl_layer_apply(g, ctx, "drop", "dropout", &dropout, y);
    y = charl_cast(g, charl_layer_apply(g, ctx, "fc2", "linear", &one, y), CHARL_F32);
    charl_output(g, "y", y);
    charl_output(g, "sum", charl_sum(g, charl_flatten(g, y), 0, false)); /* PARTIAL */
    return charl_graph_is_training(g) ? charl_batch_mean(g, charl_mul(g, y, y)) : NULL;
}

static charl_learner_options options_of(const member *m)
{
    static const charl_data_parallel_options parallel[] = {{sizeof parallel[0], .passes = 1},
                                                           {sizeof parallel[0], .passes = 2}};

    return (charl_learner_options){
        sizeof(charl_learner_options), .build = build, .ctx = m->params,          .batch_size = BATCH,
        .eval_batch_size = 2 * BATCH,  .seed = 5,      .precision = m->precision, .parallel = &parallel[m->passes - 1]};
}

/* This rank's rows [first, first + n) of a batch, drawn by the row. */
static void fill(float *x, int64_t step, int64_t first, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        charl_random(3, step, first + i, x + i * COLUMNS, COLUMNS);
    }
}

static charl_status train(member *m)
{
    charl_learner_options options = options_of(m);
    charl_optimizer_config adamw = charl_optimizer_defaults("adamw");
    float x[2 * BATCH * COLUMNS], y[2 * BATCH], *weight = m->weight;
    const charl_rows rows[] = {{"x", x}};
    charl_learner_info info;

    adamw.params = m->split ? "fc1.*" : NULL;
    options.optimizer = m->split ? &adamw : NULL;
    CHARL_TRY(charl_learner_create(&m->world, m->params, &options, &m->learner));
    info = charl_learner_get_info(m->learner);
    if (m->split) {
        adamw.params = "fc2.*";
        CHARL_TRY(charl_optimizer_create(m->params, &adamw, &m->second));
    }
    CHARL_REQUIRE(info.rows == BATCH / 8 * info.slices.count && info.first_row == BATCH / 8 * info.slices.first &&
                      info.eval_rows == 2 * info.rows && info.params == m->params && info.optimizer && info.dp,
                  CHARL_ERR_INVALID, "wrong rows %lld from %lld", (long long)info.rows, (long long)info.first_row);
    for (int64_t step = 0; step < STEPS; step++) {
        fill(x, step, info.first_row, info.rows);
        CHARL_TRY(charl_learner_step(m->learner, rows, 1, 1e-2F));
        CHARL_TRY(m->split ? charl_data_parallel_step(info.dp, m->second, 1e-2F) : CHARL_OK);
    }
    CHARL_TRY(charl_learner_read(m->learner, "loss", &m->loss, sizeof m->loss));
    for (int i = 0; i < 2; i++) { /* without dropout: twice the same */
        fill(x, 77, info.first_eval_row, info.eval_rows);
        CHARL_TRY(charl_learner_evaluate(m->learner, rows, 1));
        CHARL_TRY(charl_learner_read(m->learner, "sum", &m->mean[i], sizeof m->mean[i]));
        CHARL_TRY(charl_learner_read(m->learner, "y", y, (size_t)info.eval_rows * sizeof *y));
    }
    CHARL_REQUIRE(charl_learner_read(m->learner, "loss", &m->loss, sizeof m->loss) == CHARL_ERR_INVALID &&
                      strstr(charl_error_message(), "the evaluation graph has no output named loss"),
                  CHARL_ERR_INVALID, "a loss that an evaluation does not have: %s", charl_error_message());
    for (int i = 0; i < charl_params_get_count(m->params); i++) {
        const charl_param *p = charl_params_get(m->params, i);

        CHARL_TRY(charl_param_read(p, weight));
        weight += charl_shape_count(&charl_param_get_spec(p)->shape);
    }
    return CHARL_OK;
}

static void *member_run(void *arg)
{
    member *m = arg;
    const charl_comm_options comm = {sizeof comm, .team = m->team, .rank = m->rank, .timeout_s = 30};
    const charl_device_request request = {sizeof request, .local_rank = m->rank, .local_size = m->size, .share = true};

    m->status = charl_comm_create(&comm, &m->world.comm);
    m->status = m->status == CHARL_OK ? charl_device_open(&request, &m->world.device) : m->status;
    m->status = m->status == CHARL_OK ? charl_params_create(&m->params) : m->status;
    m->status = m->status == CHARL_OK ? train(m) : m->status;
    snprintf(m->message, sizeof m->message, "%s", charl_error_message());
    if (m->status != CHARL_OK && m->world.comm) {
        charl_comm_break(m->world.comm);
    }
    charl_optimizer_destroy(m->second);
    charl_learner_destroy(m->learner);
    charl_params_destroy(m->params);
    charl_device_close(m->world.device);
    charl_comm_destroy(m->world.comm);
    return NULL;
}

/* Of the member that every rank is: rank 0's results. */
static member run(int size, const member *all)
{
    member m[MOST] = {{NULL}};
    pthread_t thread[MOST];
    charl_team *team = NULL;

    charl_assert_ok(charl_team_create(size, &team));
    for (int r = 0; r < size; r++) {
        m[r] = *all;
        m[r].team = team;
        m[r].rank = r;
        m[r].size = size;
        assert_int_equal(pthread_create(&thread[r], NULL, member_run, &m[r]), 0);
    }
    for (int r = 0; r < size; r++) {
        pthread_join(thread[r], NULL);
    }
    charl_team_destroy(team);
    for (int r = 0; r < size; r++) {
        if (m[r].status != CHARL_OK) {
            fail_msg("rank %d of %d: %s", r, size, m[r].message);
        }
        assert_memory_equal(m[r].weight, m[0].weight, sizeof m[0].weight);
        assert_memory_equal(m[r].mean, m[0].mean, sizeof m[0].mean);
    }
    return m[0];
}

static void test_any_number_of_ranks_and_passes(void **state)
{
    const member one = run(1, &(member){.passes = 1});

    (void)state;
    assert_true(isfinite(one.loss) && one.loss > 0.0F);
    assert_float_equal(one.mean[0], one.mean[1], 0.0);
    for (int size = 1; size <= MOST; size++) {
        for (int passes = 1; passes <= 2; passes++) {
            const member m = run(size, &(member){.passes = passes, .split = size == 2});

            assert_memory_equal(m.weight, one.weight, sizeof one.weight);
            assert_memory_equal(&m.loss, &one.loss, sizeof one.loss);
            assert_memory_equal(m.mean, one.mean, sizeof one.mean);
        }
    }
}

/* The loss scale of f16 is divided out: the loss is near that of f32. */
static void test_half_precision(void **state)
{
    const member full = run(1, &(member){.passes = 1});
    const member half = run(1, &(member){.passes = 1, .precision = CHARL_F16});

    (void)state;
    assert_float_equal(half.loss, full.loss, 0.01F * full.loss);
    assert_true(memcmp(half.weight, full.weight, sizeof half.weight) != 0);
}

static charl_var *no_loss(void *ctx, charl_graph *g, int64_t rows)
{
    (void)build(ctx, g, rows);
    return NULL;
}

static charl_var *named_twice(void *ctx, charl_graph *g, int64_t rows)
{
    charl_var *loss = build(ctx, g, rows);

    charl_output(g, "y", loss);
    return loss;
}

static void refuse(const charl_world *world, charl_learner_options o, charl_status code, const char *message)
{
    charl_params *params = NULL;
    charl_learner *l = NULL;

    charl_assert_ok(charl_params_create(&params));
    o.ctx = params;
    charl_assert_status(charl_learner_create(world, params, &o, &l), code);
    assert_non_null(strstr(charl_error_message(), message));
    assert_null(l);
    charl_params_destroy(params);
}

static void test_what_is_refused(void **state)
{
    float x[BATCH * COLUMNS] = {0}, loss;
    const charl_rows wrong[] = {{"x", x}, {"z", x}}, unnamed[] = {{NULL, x}};
    member m = {.passes = 1};
    charl_learner_options o;

    (void)state;
    {
        const charl_comm_options impatient = {sizeof impatient, .timeout_s = -1};
        const charl_world_options options = {.struct_size = sizeof options, .comm = &impatient};

        charl_assert_status(charl_world_open(NULL, NULL, &options, &m.world), CHARL_ERR_INVALID);
        assert_null(m.world.comm);
        charl_world_close(&m.world);
    }
    charl_assert_ok(charl_world_open(NULL, NULL, NULL, &m.world));
    assert_int_equal(m.world.size, 1);
    charl_assert_ok(charl_params_create(&m.params));
    o = options_of(&m);
    o.build = NULL;
    refuse(&m.world, o, CHARL_ERR_INVALID, "build is NULL");
    o.build = no_loss;
    refuse(&m.world, o, CHARL_ERR_INVALID, "has returned no loss");
    o.build = named_twice;
    refuse(&m.world, o, CHARL_ERR_INVALID, "output y: another value has this name");
    o.build = build;
    o.slices = 5;
    refuse(&m.world, o, CHARL_ERR_CONFIG, "5 slices do not divide a batch of 24 rows");
    o.slices = 0;
    o.batch_size = 0;
    refuse(&m.world, o, CHARL_ERR_INVALID, "batch_size = 0");
    o = options_of(&m);
    o.parallel = &(charl_data_parallel_options){sizeof *o.parallel, .balance = true};
    refuse(&m.world, o, CHARL_ERR_INVALID, "balance is true");

    o = options_of(&m);
    charl_assert_ok(charl_learner_create(&m.world, m.params, &o, &m.learner));
    charl_assert_status(charl_learner_read(m.learner, "loss", &loss, sizeof loss), CHARL_ERR_INVALID);
    assert_non_null(strstr(charl_error_message(), "no step and no evaluation has run"));
    charl_assert_status(charl_learner_step(m.learner, NULL, 0, 1e-3F), CHARL_ERR_INVALID);
    assert_non_null(strstr(charl_error_message(), "there are no rows for the input x"));
    charl_assert_status(charl_learner_step(m.learner, wrong, 2, 1e-3F), CHARL_ERR_INVALID);
    assert_non_null(strstr(charl_error_message(), "the graph has no input named z"));
    charl_assert_status(charl_learner_step(m.learner, unnamed, 1, 1e-3F), CHARL_ERR_INVALID);
    charl_assert_ok(charl_learner_step(m.learner, wrong, 1, 1e-3F)); /* the failures have left nothing behind */
    charl_assert_ok(charl_learner_read(m.learner, "loss", &loss, sizeof loss));
    charl_assert_status(charl_learner_read(m.learner, "loss", &loss, 1), CHARL_ERR_INVALID);
    charl_assert_status(charl_learner_read(m.learner, "nosuch", &loss, sizeof loss), CHARL_ERR_INVALID);
    assert_non_null(strstr(charl_error_message(), "the training graph has no output named nosuch"));
    charl_learner_destroy(m.learner);
    charl_params_destroy(m.params);
    charl_world_close(&m.world);
    charl_world_close(&m.world);
    charl_learner_destroy(NULL);
    charl_check(CHARL_OK, __FILE__, __LINE__);
}

static charl_var *frozen(void *ctx, charl_graph *g, int64_t rows)
{
    charl_var *loss = build(ctx, g, rows);

    return !charl_graph_is_training(g) || charl_params_freeze(ctx, "fc1.*", NULL) == CHARL_OK ? loss : NULL;
}

static void test_freezing_while_building(void **state)
{
    float x[2 * BATCH * COLUMNS], before[7 * COLUMNS], after[7 * COLUMNS], sum;
    const charl_rows rows[] = {{"x", x}};
    member m = {.passes = 2};
    charl_learner_options o;

    (void)state;
    charl_assert_ok(charl_world_open(NULL, NULL, NULL, &m.world));
    charl_assert_ok(charl_params_create(&m.params));
    o = options_of(&m);
    o.build = frozen;
    charl_assert_ok(charl_learner_create(&m.world, m.params, &o, &m.learner));
    charl_assert_ok(charl_param_read(charl_params_find(m.params, "fc1.weight"), before));
    fill(x, 0, 0, 2 * BATCH);
    charl_assert_ok(charl_learner_step(m.learner, rows, 1, 1e-2F));
    charl_assert_ok(charl_learner_evaluate(m.learner, rows, 1));
    charl_assert_ok(charl_learner_read(m.learner, "sum", &sum, sizeof sum));
    charl_assert_ok(charl_param_read(charl_params_find(m.params, "fc1.weight"), after));
    assert_memory_equal(before, after, sizeof before);
    assert_true(charl_param_is_frozen(charl_params_find(m.params, "fc1.bias")));
    charl_learner_destroy(m.learner);
    charl_params_destroy(m.params);
    charl_world_close(&m.world);
}

/* A learner without parameters has its own, with the bits of others; its state is loaded where there is a file. */
static void test_parameters_of_its_own(void **state)
{
    float x[2 * BATCH * COLUMNS], loss[2];
    const charl_rows rows[] = {{"x", x}};
    member m = {.passes = 2};
    charl_learner_options o;
    charl_training_part part;
    int64_t step = 3;
    charl_training saved = {sizeof saved, &part, 1, NULL, 0, &step};
    char path[] = "/tmp/charl-learner-XXXXXX";

    (void)state;
    assert_true(mkdtemp(path) != NULL);
    charl_assert_ok(charl_world_open(NULL, NULL, NULL, &m.world));
    charl_assert_ok(charl_params_create(&m.params));
    fill(x, 0, 0, 2 * BATCH);
    for (int i = 0; i < 2; i++) {
        char file[64];

        o = options_of(&m);
        o.ctx = i == 0 ? m.params : NULL;
        charl_assert_ok(charl_learner_create(&m.world, o.ctx, &o, &m.learner));
        charl_assert_ok(charl_learner_step(m.learner, rows, 1, 1e-2F));
        charl_assert_ok(charl_learner_step(m.learner, rows, 1, 1e-2F));
        charl_assert_ok(charl_learner_read(m.learner, "loss", &loss[i], sizeof loss[i]));
        charl_assert_ok(charl_learner_evaluate(m.learner, rows, 1));
        part = (charl_training_part){NULL, charl_learner_get_info(m.learner).params,
                                     charl_learner_get_info(m.learner).optimizer, charl_learner_get_info(m.learner).dp};
        assert_int_equal(charl_params_get_count(part.params), 3);
        snprintf(file, sizeof file, "%s/none.h5", path);
        saved.may_be_missing = false;
        charl_assert_status(charl_training_load(file, &saved), CHARL_ERR_CHECKPOINT);
        saved.may_be_missing = true;
        charl_assert_ok(charl_training_load(file, &saved));
        assert_int_equal(step, 3);
        charl_learner_destroy(m.learner);
    }
    assert_memory_equal(&loss[0], &loss[1], sizeof loss[0]);
    rmdir(path);
    charl_params_destroy(m.params);
    charl_world_close(&m.world);
}

static void test_layer_without_a_set(void **state)
{
    const charl_linear_config one = {.out = 1};
    charl_graph *g = NULL;
    charl_var *x;

    (void)state;
    charl_assert_ok(charl_graph_create(dev, NULL, &g));
    x = charl_input(g, "x", CHARL_F32, (charl_shape){2, {8, COLUMNS}}, CHARL_BATCHED);
    assert_null(charl_layer_apply(g, NULL, "fc", "linear", &one, x));
    charl_assert_status(charl_graph_status(g), CHARL_ERR_INVALID);
    charl_assert_message("set is NULL, and the graph trains none");
    charl_graph_destroy(g);
}

static void test_random_numbers_of_rows(void **state)
{
    float a[9], b[9], sum = 0.0F;

    (void)state;
    charl_random(1, 2, 3, a, 9);
    charl_random(1, 2, 3, b, 5);
    assert_memory_equal(a, b, 5 * sizeof *a);
    for (int k = 0; k < 3; k++) { /* another seed, step or row */
        charl_random(k == 0 ? 4 : 1, k == 1 ? 4 : 2, k == 2 ? 4 : 3, b, 9);
        for (int i = 0; i < 9; i++) {
            assert_true(b[i] >= 0.0F && b[i] < 1.0F && b[i] != a[i]);
        }
    }
    for (int row = 0; row < 1000; row++) {
        charl_random(0, 0, row, a, 1);
        sum += a[0];
    }
    assert_float_equal(sum / 1000.0F, 0.5F, 0.05F);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_number_of_ranks_and_passes),
        cmocka_unit_test(test_parameters_of_its_own),
        cmocka_unit_test(test_layer_without_a_set),
        cmocka_unit_test(test_half_precision),
        cmocka_unit_test(test_what_is_refused),
        cmocka_unit_test(test_freezing_while_building),
        cmocka_unit_test(test_random_numbers_of_rows),
    };

    return charl_test_on_device(tests, &dev);
}
