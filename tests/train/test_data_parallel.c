/* Training loops of a program's own: what charl_data_parallel refuses, on one rank and on two, that parameters outlive it, that audits find a
 * flipped bit, and that faster ranks get more slices. Ranks are threads. */
#include "support/on_device.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "charl/data_parallel.h"
#include "charl/error.h"
#include "charl/ops.h"
#include "charl/optim.h"
#include "charl/training.h"

enum { SLICES = 8, ROWS = 16, COLUMNS = 6, STEPS = 3, MOST = 3, AUDITED = 4, BALANCED = 12, MAX_PASSES = 4 };

typedef struct member {
    charl_team *team;
    int rank, size;
    charl_slices mine;
    charl_data_parallel_options options;
    charl_status (*work)(struct member *m);
    charl_comm *comm;
    charl_device *dev;
    charl_params *params;
    int split;                       /* 1: without clipping, 2: with an optimizer for each parameter, too */
    float weight[COLUMNS + 1], loss; /* with the head behind it */
    bool lost;
    const char *optimizer;   /* NULL: adamw */
    charl_packing state;     /* of the optimizer */
    charl_dtype precision;   /* of new graphs */
    const char *load, *save; /* the state of the training, from and to this file; NULL: not */
    int first, steps;        /* the first step, and how many; 0: STEPS */
    bool has_steps, ema;     /* step parameters; a moving average, as with load, save and steps */
    charl_steps *params_of_step;
    bool keeps_parts;         /* the last training had sharded parameters */
    charl_var *x[MAX_PASSES]; /* of the graphs, for audits */
    int step, count;          /* under way; slices at the end */
    charl_status status;
    char message[1024];
} member;

static charl_device *dev; /* keeps the driver open */

/* The mean over the batch of one number for each of the rows of `slices`, some of which are dropped out; differentiated or not. One of
 * the two parameters is used twice. */
static charl_status new_graph(const member *m, const charl_slices *slices, bool differentiates, charl_graph **out,
                              charl_var **input, charl_var **mean)
{
    const charl_param_spec spec = {.name = "weight", .shape = {2, {1, COLUMNS}}, .trainable = true};
    const charl_shape rows = {2, {ROWS / SLICES * (slices ? slices->count : SLICES), COLUMNS}};
    const charl_param_spec head_spec = {
        .name = "head", .shape = {2, {1, 1}}, .init = {CHARL_INIT_CONSTANT, 0.5F, 0.0F}, .trainable = true};
    charl_param *w = charl_params_find(m->params, spec.name), *head = charl_params_find(m->params, head_spec.name);
    charl_graph *g = NULL;
    charl_var *x, *y, *loss;

    CHARL_TRY(charl_graph_create(m->dev, slices, &g));
    *out = g;
    if (!w) {
        CHARL_TRY(charl_params_add(m->params, &spec, &w));
        CHARL_TRY(charl_params_add(m->params, &head_spec, &head));
    }
    charl_graph_set_training(g, differentiates);
    charl_graph_set_precision(g, m->precision);
    if (m->params_of_step) {
        charl_graph_set_steps(g, m->params_of_step);
    }
    x = charl_input(g, "x", m->precision, rows, CHARL_BATCHED);
    y = charl_linear(g, charl_dropout(g, charl_scale(g, x, 1.0F, 0.5F), 0.3F), charl_parameter(g, w), NULL);
    y = charl_add(g, charl_tanh(g, y), charl_sigmoid(g, charl_linear(g, x, charl_parameter(g, w), NULL)));
    loss = charl_batch_mean(g, charl_linear(g, y, charl_parameter(g, head), NULL));
    charl_graph_keep(g, loss);
    if (differentiates) {
        charl_graph_backward(g, loss, NULL);
    }
    *(input ? input : &x) = x;
    *(mean ? mean : &loss) = loss;
    return charl_graph_status(g);
}

/* These graphs, which are destroyed, are refused with these words. */
static charl_status is_refused(const member *m, charl_graph *g, int n, charl_status code, const char *message)
{
    charl_data_parallel *dp = NULL;
    charl_graph *graphs[2] = {g, g};
    charl_status st = charl_data_parallel_create(m->comm, &m->mine, &m->options, &dp);

    st = st == CHARL_OK ? charl_data_parallel_compile(dp, graphs, n) : st;
    charl_graph_destroy(g);
    charl_data_parallel_destroy(dp);
    CHARL_REQUIRE(st == code && strstr(charl_error_message(), message), CHARL_ERR_INVALID,
                  "%s \"%s\" in place of %s \"%s\"", charl_status_name(st), charl_error_message(),
                  charl_status_name(code), message);
    return CHARL_OK;
}

/* The object with these options is refused. */
static charl_status is_bad(const member *m, charl_data_parallel_options options, charl_status code, const char *message)
{
    member other = *m;

    other.options = options;
    return is_refused(&other, NULL, 0, code, message);
}

static charl_status refuse(member *m)
{
    charl_status st = CHARL_OK;
    const charl_param_spec spec = {.name = "other", .shape = {2, {1, COLUMNS}}, .trainable = true};
    charl_params *mine = m->params, *others = NULL;
    charl_data_parallel *dp = NULL;
    charl_graph *g = NULL, *other = NULL;
    charl_param *w;

    CHARL_TRY_CLEANUP(charl_params_create(&others));
    CHARL_TRY_CLEANUP(charl_params_add(others, &spec, &w));
    CHARL_TRY_CLEANUP(is_bad(m,
                             (charl_data_parallel_options){sizeof(charl_data_parallel_options), .allreduce = "nosuch"},
                             CHARL_ERR_CONFIG, "unknown all-reduce nosuch"));
    CHARL_TRY_CLEANUP(
        is_bad(m, (charl_data_parallel_options){sizeof(charl_data_parallel_options), .reduce_dtype = CHARL_F16},
               CHARL_ERR_INVALID, "gradients are summed in f32 or bf16, not in f16"));
    CHARL_TRY_CLEANUP(
        is_bad(m, (charl_data_parallel_options){sizeof(charl_data_parallel_options), .bucket_mb = (double)NAN},
               CHARL_ERR_INVALID, "bucket_mb is nan"));
    CHARL_TRY_CLEANUP(is_bad(m, (charl_data_parallel_options){sizeof(charl_data_parallel_options), .passes = -1},
                             CHARL_ERR_INVALID, "passes = -1"));
    CHARL_TRY_CLEANUP(is_bad(m,
                             (charl_data_parallel_options){sizeof(charl_data_parallel_options), .passes = SLICES + 1},
                             CHARL_ERR_CONFIG, "passes = 9, but a rank has"));
    CHARL_TRY_CLEANUP(is_bad(m,
                             (charl_data_parallel_options){sizeof(charl_data_parallel_options),
                                                           .shard = CHARL_SHARD_PARAMETERS, .balance = true},
                             CHARL_ERR_CONFIG, "balance with sharded parameters does not work"));
    CHARL_TRY_CLEANUP(new_graph(m, NULL, true, &other, NULL, NULL));
    CHARL_TRY_CLEANUP(
        is_refused(m, other, 1, CHARL_ERR_INVALID, "the graph has slices 0 to 1 of 1, but is to have slices"));
    CHARL_TRY_CLEANUP(new_graph(m, &m->mine, false, &other, NULL, NULL));
    CHARL_TRY_CLEANUP(is_refused(m, other, 1, CHARL_ERR_INVALID, "the graph computes no gradients"));
    CHARL_TRY_CLEANUP(new_graph(m, &m->mine, true, &other, NULL, NULL));
    CHARL_TRY_CLEANUP(is_refused(m, other, 2, CHARL_ERR_INVALID, "2 graphs, but a step has 1"));

    CHARL_TRY_CLEANUP(charl_data_parallel_create(m->comm, &m->mine, NULL, &dp));
    CHARL_REQUIRE_CLEANUP(charl_data_parallel_run(dp, 0) == CHARL_ERR_INVALID, CHARL_ERR_INVALID,
                          "a run before the graphs are compiled is not refused");
    CHARL_TRY_CLEANUP(new_graph(m, NULL, true, &other, NULL, NULL));
    CHARL_REQUIRE_CLEANUP(charl_data_parallel_compile(dp, &other, 1) == CHARL_ERR_INVALID, CHARL_ERR_INVALID,
                          "a graph over other slices is not refused");
    charl_graph_destroy(other);
    CHARL_TRY_CLEANUP(new_graph(m, &m->mine, true, &g, NULL, NULL));
    CHARL_TRY_CLEANUP(charl_data_parallel_compile(dp, &g, 1)); /* the failure before has left nothing behind */
    CHARL_REQUIRE_CLEANUP(charl_data_parallel_compile(dp, &g, 1) == CHARL_ERR_INVALID &&
                              strstr(charl_error_message(), "charl_data_parallel_create makes another object"),
                          CHARL_ERR_INVALID, "a second compilation is not refused");
    CHARL_TRY_CLEANUP(new_graph(m, &m->mine, true, &other, NULL, NULL));
    CHARL_TRY_CLEANUP(is_refused(m, other, 1, CHARL_ERR_INVALID, "the parameters have gradients already"));
    CHARL_TRY_CLEANUP(new_graph(m, NULL, false, &other, NULL, NULL));
    CHARL_REQUIRE_CLEANUP(charl_data_parallel_compile_evaluation(dp, other) == CHARL_ERR_INVALID, CHARL_ERR_INVALID,
                          "an evaluation over other slices is not refused");
    charl_graph_destroy(other);
    m->params = others;
    st = new_graph(m, &m->mine, false, &other, NULL, NULL);
    m->params = mine;
    CHARL_TRY_CLEANUP(st);
    CHARL_REQUIRE_CLEANUP(charl_data_parallel_compile_evaluation(dp, other) == CHARL_ERR_INVALID, CHARL_ERR_INVALID,
                          "an evaluation with other parameters is not refused");
    charl_graph_destroy(other);
    CHARL_REQUIRE_CLEANUP(charl_data_parallel_run(dp, 1) == CHARL_ERR_INVALID, CHARL_ERR_INVALID,
                          "a pass out of order is not refused");
    CHARL_TRY_CLEANUP(charl_data_parallel_run(dp, 0)); /* nothing of this has harmed the first one */
    CHARL_REQUIRE_CLEANUP(charl_data_parallel_run(dp, 0) == CHARL_ERR_INVALID, CHARL_ERR_INVALID,
                          "a step that begins before the last one is reduced is not refused");
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
    CHARL_TRY(charl_slices_range(SLICES, 0, SLICES, &m->mine));
    m->mine.n_lanes = 0; /* as in slices that are written down by hand */
    CHARL_TRY(is_refused(m, NULL, 0, CHARL_ERR_INVALID, "slices 0 to 8 of 8 have 1 lanes, not 0"));
    CHARL_TRY(charl_slices_range(SLICES, 0, SLICES / 2, &m->mine));
    return is_refused(m, NULL, 0, CHARL_ERR_INVALID, "the only rank has 4 of 8 slices");
}

static void destroy(charl_graph **g)
{
    for (int k = 0; k < MAX_PASSES; k++) {
        charl_graph_destroy(g[k]);
        g[k] = NULL;
    }
}

/* Graphs that cannot gather sharded parameters: compiled alone, or in another precision. */
static charl_status refuse_sharded(member *m)
{
    static const struct {
        charl_dtype trained, other;
        bool alone;
        const char *message;
    } cases[] = {{CHARL_F32, CHARL_F32, true, "charl_data_parallel_compile_evaluation compile such a graph"},
                 {CHARL_F32, CHARL_BF16, false, "sharded over ranks in f32, and the graph takes them in bf16"},
                 {CHARL_BF16, CHARL_F32, false, "sharded over ranks in bf16, and the graph takes weight in f32"}};
    charl_status st = CHARL_OK;
    charl_data_parallel *dp = NULL;
    charl_graph *g[MAX_PASSES] = {NULL}, *refused;

    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        CHARL_TRY_CLEANUP(charl_data_parallel_create(m->comm, &m->mine, &m->options, &dp));
        for (int i = 0; i < 2; i++) {
            m->precision = i == 0 ? cases[k].trained : cases[k].other;
            CHARL_TRY_CLEANUP(new_graph(m, &m->mine, i == 0, &g[i], NULL, NULL));
        }
        CHARL_TRY_CLEANUP(charl_data_parallel_compile(dp, &g[0], 1));
        st = cases[k].alone ? charl_graph_compile(g[1]) : charl_data_parallel_compile_evaluation(dp, g[1]);
        CHARL_REQUIRE_CLEANUP(st == CHARL_ERR_INVALID && strstr(charl_error_message(), cases[k].message),
                              CHARL_ERR_INVALID, "in place of \"%s\": \"%s\"", cases[k].message, charl_error_message());
        st = CHARL_OK;
        destroy(g);
        charl_data_parallel_destroy(dp);
        dp = NULL;
    }
    m->precision = CHARL_F32;
    CHARL_TRY_CLEANUP(new_graph(m, &m->mine, false, &refused, NULL, NULL));
    CHARL_TRY_CLEANUP(is_refused(m, refused, 1, CHARL_ERR_INVALID, "the graph computes no gradients"));
    CHARL_TRY_CLEANUP(new_graph(m, NULL, false, &g[0], NULL, NULL));
    CHARL_TRY_CLEANUP(charl_graph_compile(g[0])); /* the parameters are whole again */
    CHARL_TRY_CLEANUP(new_graph(m, &m->mine, true, &refused, NULL, NULL));
    st = is_refused(m, refused, 1, CHARL_ERR_INVALID, "the parameters have memory already, from an earlier graph");
cleanup:
    destroy(g);
    charl_data_parallel_destroy(dp);
    return st;
}

/* The rows of some slices: what they hold depends on the step and their place in the batch. */
static charl_status write_rows(charl_var *x, const charl_slices *s, int step)
{
    float rows[ROWS * COLUMNS];

    for (int i = 0; i < ROWS / SLICES * s->count; i++) {
        for (int k = 0; k < COLUMNS; k++) {
            const int at = (s->first * (ROWS / SLICES) + i) * COLUMNS + k;

            rows[i * COLUMNS + k] = (float)((at * 37 + step * 11) % 19) / 7.0F - 1.0F;
        }
    }
    return charl_tensor_write(charl_var_get_tensor(x), rows,
                              (size_t)(ROWS / SLICES * s->count) * COLUMNS * sizeof *rows);
}

/* Rows for an audit. */
static charl_status rows_of(void *ctx, int graph, const charl_slices *s)
{
    const member *m = ctx;

    return write_rows(m->x[graph], s, m->step);
}

static charl_status take_steps(member *m, charl_data_parallel *dp, charl_var *const *loss, charl_optimizer *optimizer,
                               charl_optimizer *other)
{
    for (int step = m->first; step < m->first + (m->steps ? m->steps : STEPS); step++) {
        m->step = step;
        CHARL_TRY(m->params_of_step ? charl_optimizer_begin(optimizer, 0.1F) : CHARL_OK);
        CHARL_TRY(m->options.rows && step % 2 == 1 ? charl_data_parallel_audit(dp) : CHARL_OK);
        for (int i = 0; i < charl_data_parallel_get_info(dp).passes; i++) {
            const charl_data_parallel_pass pass = charl_data_parallel_get_pass(dp, i);

            CHARL_TRY(write_rows(m->x[pass.graph], &pass.slices, step));
            CHARL_TRY(charl_data_parallel_run(dp, i));
            CHARL_TRY(charl_tensor_read(charl_var_get_tensor(loss[pass.graph]), &m->loss, sizeof m->loss));
            CHARL_REQUIRE(isnan(m->loss) == (i + 1 < charl_data_parallel_get_info(dp).passes), CHARL_ERR_INVALID,
                          "the loss after pass %d is %g", i, (double)m->loss);
        }
        CHARL_TRY(charl_data_parallel_step(dp, optimizer, 0.1F));
        CHARL_REQUIRE(charl_data_parallel_step(dp, optimizer, 0.1F) == CHARL_ERR_INVALID &&
                          strstr(charl_error_message(), "has applied the gradients of step"),
                      CHARL_ERR_INVALID, "gradients that were applied are not refused");
        if (other) {
            CHARL_TRY(charl_data_parallel_step(dp, other, 0.1F));
        }
    }
    return CHARL_OK;
}

/* Save or load the state, with values of every type of the caller's. */
static charl_status keep(member *m, charl_data_parallel *dp, charl_optimizer *optimizer, charl_optimizer *other,
                         const char *path, charl_status (*call)(const char *, const charl_training *))
{
    const bool saves = call == charl_training_save;
    const charl_training_part parts[] = {{NULL, m->params, optimizer, dp}, {"other", NULL, other, dp}};
    float table[2][3] = {{0}};
    int64_t episode = saves ? 41 : 0, step = saves ? m->first + STEPS : 0;
    charl_training_value values[] = {{"episode", CHARL_I64, {0, {0}}, &episode},
                                     {"table", CHARL_F32, {2, {2, 3}}, table}};
    charl_training t = {sizeof t, parts, other ? 2 : 1, values, 2, &step};

    for (int i = 0; i < 6 && saves; i++) {
        table[i / 3][i % 3] = (float)i;
    }
    if (!saves) { /* what does not fit is named, and changes nothing */
        values[1].shape = (charl_shape){2, {3, 2}};
        CHARL_REQUIRE(call(path, &t) == CHARL_ERR_CHECKPOINT &&
                          (m->optimizer || strstr(charl_error_message(), "/nowhere/") ||
                           strstr(charl_error_message(), "/user/table is f32 [2, 3], here it is f32 [3, 2]")),
                      CHARL_ERR_INVALID, "another shape: %s", charl_error_message());
        values[1] = (charl_training_value){"tables", CHARL_F32, {2, {2, 3}}, table};
        CHARL_REQUIRE(call(path, &t) == CHARL_ERR_CHECKPOINT &&
                          (m->optimizer || strstr(charl_error_message(), "/nowhere/") ||
                           strstr(charl_error_message(), "/user/tables is missing")),
                      CHARL_ERR_INVALID, "a value that is not there: %s", charl_error_message());
        values[1].name = "table";
        CHARL_REQUIRE(episode == 0 && step == 0 && charl_optimizer_get_steps(optimizer) == 0, CHARL_ERR_INVALID,
                      "a failure has changed something");
    }
    CHARL_TRY(call(path, &t));
    CHARL_REQUIRE(episode == 41 && table[1][2] == 5.0F && step == (saves ? m->first + STEPS : m->first),
                  CHARL_ERR_INVALID, "other values than those saved");
    return CHARL_OK;
}

/* The graphs of a step. */
static charl_status build(member *m, charl_data_parallel *dp, charl_graph **g, charl_var **loss)
{
    const charl_slices *slices;
    int n = 0;

    for (; (slices = charl_data_parallel_get_slices(dp, n)) != NULL; n++) {
        CHARL_TRY(new_graph(m, slices, true, &g[n], &m->x[n], &loss[n]));
    }
    return charl_data_parallel_compile(dp, g, n);
}

/* Take steps and give the ranks other slices, until those have been used. */
static charl_status take_balanced_steps(member *m, charl_data_parallel *dp, charl_graph **g, charl_var **loss,
                                        charl_optimizer *optimizer)
{
    bool divides = false, has_divided = false;

    CHARL_REQUIRE(charl_data_parallel_divide(dp) == CHARL_ERR_INVALID, CHARL_ERR_INVALID,
                  "a division that nothing asks for is not refused");
    for (int k = 0; k < BALANCED / STEPS; k++, m->first += STEPS) {
        CHARL_TRY(take_steps(m, dp, loss, optimizer, NULL));
        CHARL_TRY(charl_data_parallel_balance(dp, &divides));
        if (divides) {
            destroy(g);
            CHARL_TRY(charl_data_parallel_divide(dp));
            CHARL_TRY(build(m, dp, g, loss));
        }
        has_divided = has_divided || divides;
    }
    CHARL_REQUIRE(has_divided, CHARL_ERR_INVALID, "the batch has not been divided anew");
    m->first = 0;
    return CHARL_OK;
}

static charl_status train(member *m)
{
    charl_optimizer_config config = charl_optimizer_defaults(m->optimizer ? m->optimizer : "adamw");
    charl_status st = CHARL_OK;
    charl_data_parallel *dp = NULL;
    charl_optimizer *optimizer = NULL, *other = NULL;
    charl_graph *g[MAX_PASSES] = {NULL};
    charl_var *loss[MAX_PASSES];

    m->options.ctx = m;
    config.state = m->state;
    config.grad_clip = m->split ? 0.0F : 0.5F;
    config.ema_decay = m->load || m->save || m->steps || m->ema ? 0.9 : 0.0;
    CHARL_TRY_CLEANUP(charl_data_parallel_create(m->comm, &m->mine, &m->options, &dp));
    if (m->has_steps) {
        CHARL_TRY_CLEANUP(charl_steps_create(m->dev, NULL, &m->params_of_step));
    }
    CHARL_TRY_CLEANUP(build(m, dp, g, loss));
    CHARL_TRY_CLEANUP(charl_params_initialize(m->params, 1));
    if (m->split > 1) { /* an optimizer for each parameter */
        config.params = "w*";
        CHARL_TRY_CLEANUP(charl_optimizer_create(m->params, &config, &other));
        config.params = "head"; /* it steps first, and leaves the gradients of the other one as they are */
    }
    config.steps = m->params_of_step;
    CHARL_TRY_CLEANUP(charl_optimizer_create(m->params, &config, &optimizer));
    CHARL_REQUIRE_CLEANUP(charl_data_parallel_step(dp, optimizer, 0.1F) == CHARL_ERR_INVALID, CHARL_ERR_INVALID,
                          "a step that has not run is not refused");
    if (m->load) {
        CHARL_TRY_CLEANUP(keep(m, dp, optimizer, other, m->load, charl_training_load));
    }
    CHARL_TRY_CLEANUP(m->options.balance ? take_balanced_steps(m, dp, g, loss, optimizer)
                                         : take_steps(m, dp, loss, optimizer, other));
    CHARL_REQUIRE_CLEANUP(charl_data_parallel_get_info(dp).audits.count == (m->options.rows ? STEPS / 2 : 0),
                          CHARL_ERR_INVALID, "other audits than those asked for");
    m->count = charl_data_parallel_get_slices(dp, 0)->count;
    m->keeps_parts = m->size > 1 && m->options.shard == CHARL_SHARD_PARAMETERS;
    CHARL_REQUIRE_CLEANUP(!m->keeps_parts || (charl_param_read(charl_params_get(m->params, 0), m->weight) != CHARL_OK &&
                                              strstr(charl_error_message(), "weight is sharded over ranks")),
                          CHARL_ERR_INVALID, "reading a part of a parameter is not refused");
    if (m->save) {
        CHARL_TRY_CLEANUP(keep(m, dp, optimizer, other, m->save, charl_training_save));
    }
cleanup:
    charl_optimizer_destroy(optimizer);
    charl_optimizer_destroy(other);
    destroy(g);
    charl_data_parallel_destroy(dp);
    charl_steps_destroy(m->params_of_step);
    m->params_of_step = NULL;
    return st;
}

/* Sharded parameters are gone with their object. */
static charl_status read_weights(member *m)
{
    if (m->keeps_parts) {
        return CHARL_OK;
    }
    CHARL_TRY(charl_param_read(charl_params_get(m->params, 1), &m->weight[COLUMNS]));
    return charl_param_read(charl_params_get(m->params, 0), m->weight);
}

static charl_status train_twice(member *m)
{
    CHARL_TRY(train(m));
    CHARL_TRY(train(m));
    return read_weights(m);
}

static charl_status member_work(member *m)
{
    const charl_device_request request = {sizeof request, .local_rank = m->rank, .local_size = m->size, .share = true};

    CHARL_TRY(charl_comm_create(
        &(charl_comm_options){sizeof(charl_comm_options), .team = m->team, .rank = m->rank, .timeout_s = 30},
        &m->comm));
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

/* Of the member that every rank is. */
static void run_as(int size, const member *all, member *m)
{
    pthread_t thread[AUDITED];
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
        assert_int_equal(pthread_join(thread[r], NULL), 0);
    }
    charl_team_destroy(team);
    for (int r = 0; r < size; r++) {
        if (m[r].status != CHARL_OK) {
            fail_msg("rank %d of %d: %s", r, size, m[r].message);
        }
    }
}

static void run_split(int size, charl_data_parallel_options options, charl_status (*work)(member *), int split,
                      member *m)
{
    const member all = {.options = options, .work = work, .split = split};

    run_as(size, &all, m);
}

static void run_ranks(int size, charl_data_parallel_options options, charl_status (*work)(member *), member *m)
{
    run_split(size, options, work, 0, m);
}

/* What the destruction of a sharded object cannot move to memory of its own is gone, and reading it an error. */
static charl_status lose_values(member *m)
{
    charl_status st = CHARL_OK;
    charl_data_parallel *dp = NULL;
    charl_graph *g = NULL;
    float values[COLUMNS];

    CHARL_TRY_CLEANUP(charl_data_parallel_create(m->comm, &m->mine, &m->options, &dp));
    CHARL_TRY_CLEANUP(new_graph(m, &m->mine, true, &g, NULL, NULL));
    CHARL_TRY_CLEANUP(charl_data_parallel_compile(dp, &g, 1));
    CHARL_TRY_CLEANUP(charl_params_initialize(m->params, 1));
    charl_graph_destroy(g);
    g = NULL;
    CHARL_TRY_CLEANUP(charl_comm_barrier(m->comm)); /* the other rank needs no memory from here on */
    if (m->rank == 0) {
        charl_test_fault_set("alloc:1"); /* of whichever rank comes first */
    }
    CHARL_TRY_CLEANUP(charl_comm_barrier(m->comm));
    charl_data_parallel_destroy(dp);
    dp = NULL;
    CHARL_TRY_CLEANUP(charl_comm_barrier(m->comm));
    m->lost = charl_param_read(charl_params_get(m->params, 0), values) != CHARL_OK;
    CHARL_REQUIRE_CLEANUP(!m->lost || strstr(charl_error_message(), "has no memory"), CHARL_ERR_INVALID, "%s",
                          charl_error_message());
cleanup:
    charl_graph_destroy(g);
    charl_data_parallel_destroy(dp);
    return st;
}

static void test_values_lost(void **state)
{
    member m[2];

    (void)state;
    run_ranks(2, (charl_data_parallel_options){sizeof(charl_data_parallel_options), .shard = CHARL_SHARD_OPTIMIZER},
              lose_values, m);
    charl_test_fault_set(NULL);
    assert_int_equal(m[0].lost + m[1].lost, 1);
}

/* Every acquisition of compiling and of steps fails in turn, on one rank; sums in bf16 have a reducer there too. */
static charl_status scenario(void *ctx)
{
    member m = *(member *)ctx;
    charl_status st = charl_params_create(&m.params);

    st = st == CHARL_OK ? train(&m) : st;
    charl_params_destroy(m.params);
    return st;
}

static void test_failing_acquisitions(void **state)
{
    member m = {.size = 1,
                .dev = dev,
                .options = {sizeof(charl_data_parallel_options), .reduce_dtype = CHARL_BF16, .passes = 3}};

    (void)state;
    charl_assert_ok(charl_team_create(1, &m.team));
    charl_assert_ok(charl_comm_create(&(charl_comm_options){sizeof(charl_comm_options), .team = m.team}, &m.comm));
    charl_assert_ok(charl_slices_block(SLICES, 0, 1, &m.mine));
    assert_true(charl_test_fail_every_acquisition(scenario, &m) > 100);
    charl_comm_destroy(m.comm);
    charl_team_destroy(m.team);
}

static void test_refused(void **state)
{
    member m[MOST];

    (void)state;
    run_ranks(1, (charl_data_parallel_options){sizeof(charl_data_parallel_options)}, refuse, m);
    run_ranks(2, (charl_data_parallel_options){sizeof(charl_data_parallel_options)}, refuse, m);
    run_ranks(1, (charl_data_parallel_options){sizeof(charl_data_parallel_options)}, refuse_part, m);
    run_ranks(2, (charl_data_parallel_options){sizeof(charl_data_parallel_options), .shard = CHARL_SHARD_PARAMETERS},
              refuse_sharded, m);
}

static void assert_same(const member *m, const member *one)
{
    charl_assert_same_bits(m->weight, one->weight, m->keeps_parts ? 0 : COLUMNS + 1);
    charl_assert_same_bits(&m->loss, &one->loss, 1);
}

/* Two objects, one after the other, over the same parameters: on any number of ranks, in passes, sharded and without overlap, to the bit. */
static void test_options_change_no_bit(void **state)
{
    static const charl_data_parallel_options options[] = {
        {sizeof *options},
        {sizeof *options, .passes = 2, .no_overlap = true, .bucket_mb = 1},
        {sizeof *options, .shard = CHARL_SHARD_OPTIMIZER},
        {sizeof *options, .passes = 2, .shard = CHARL_SHARD_OPTIMIZER},
        {sizeof *options, .shard = CHARL_SHARD_GRADIENTS},
        {sizeof *options, .passes = 2, .shard = CHARL_SHARD_GRADIENTS},
        {sizeof *options, .passes = 2, .shard = CHARL_SHARD_PARAMETERS}};
    static const charl_dtype dtypes[] = {CHARL_F32, CHARL_BF16};

    (void)state;
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
        member one[MOST], m[MOST];

        run_ranks(1, (charl_data_parallel_options){sizeof(charl_data_parallel_options), .reduce_dtype = dtypes[d]},
                  train_twice, one);
        assert_true(one[0].weight[0] != 0.0F && one[0].loss != 0.0F);
        for (size_t k = 0; k < sizeof options / sizeof *options; k++) {
            charl_data_parallel_options o = options[k];

            o.reduce_dtype = dtypes[d];
            for (int size = 1; size <= MOST; size++) {
                run_ranks(size, o, train_twice, m);
                for (int r = 0; r < size; r++) {
                    assert_same(&m[r], one);
                }
            }
        }
    }
}

/* Two optimizers over the same set do what one does, also where gradients of several uses are added up. */
static void test_optimizer_of_a_part(void **state)
{
    const charl_data_parallel_options options[] = {{sizeof *options},
                                                   {sizeof *options, .shard = CHARL_SHARD_OPTIMIZER},
                                                   {sizeof *options, .shard = CHARL_SHARD_GRADIENTS},
                                                   {sizeof *options, .shard = CHARL_SHARD_PARAMETERS}};

    (void)state;
    for (size_t k = 0; k < sizeof options / sizeof *options; k++) {
        member one[MOST], m[MOST];

        run_split(1, options[0], train_twice, 1, one);
        for (int size = 1; size <= MOST; size++) {
            run_split(size, options[k], train_twice, 2, m);
            for (int r = 0; r < size; r++) {
                assert_same(&m[r], one);
            }
        }
    }
}

static charl_status train_once(member *m)
{
    CHARL_TRY(train(m));
    return read_weights(m);
}

/* A training that is saved and loaded by other objects, on other ranks, sharded or not, continues with the bits of one that goes on. */
static void test_training_continues(void **state)
{
    static const struct {
        int from, to; /* ranks */
        charl_shard shard[2];
        int split;
        charl_packing state;
    } cases[] = {{1, 1, {CHARL_SHARD_NONE, CHARL_SHARD_NONE}, 0, CHARL_PACKING_F32},
                 {2, 3, {CHARL_SHARD_NONE, CHARL_SHARD_NONE}, 0, CHARL_PACKING_INT8},
                 {3, 2, {CHARL_SHARD_OPTIMIZER, CHARL_SHARD_NONE}, 0, CHARL_PACKING_F32},
                 {1, 2, {CHARL_SHARD_NONE, CHARL_SHARD_OPTIMIZER}, 0, CHARL_PACKING_BF16},
                 {2, 1, {CHARL_SHARD_OPTIMIZER, CHARL_SHARD_NONE}, 0, CHARL_PACKING_BF16},
                 {2, 3, {CHARL_SHARD_GRADIENTS, CHARL_SHARD_OPTIMIZER}, 0, CHARL_PACKING_F32},
                 {2, 2, {CHARL_SHARD_NONE, CHARL_SHARD_GRADIENTS}, 0, CHARL_PACKING_INT8},
                 {3, 2, {CHARL_SHARD_PARAMETERS, CHARL_SHARD_GRADIENTS}, 0, CHARL_PACKING_F32},
                 {2, 3, {CHARL_SHARD_NONE, CHARL_SHARD_PARAMETERS}, 0, CHARL_PACKING_BF16},
                 {2, 2, {CHARL_SHARD_NONE, CHARL_SHARD_NONE}, 2, CHARL_PACKING_F32}};
    char *dir = charl_test_tempdir();
    const char *path = charl_test_path(dir, "state.h5");

    (void)state;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        member whole[MOST], m[MOST];
        member all = {
            .options = {sizeof all.options}, .work = train_once, .split = cases[k].split, .state = cases[k].state};

        all.steps = 2 * STEPS;
        run_as(1, &all, whole);
        all.steps = 0;
        all.save = path;
        all.options.shard = cases[k].shard[0];
        run_as(cases[k].from, &all, m);
        all.save = NULL;
        all.load = path;
        all.first = STEPS;
        all.options.shard = cases[k].shard[1];
        run_as(cases[k].to, &all, m);
        for (int r = 0; r < cases[k].to; r++) {
            assert_same(&m[r], whole);
        }
    }
    charl_test_tempdir_remove(dir);
}

/* One optimizer's state is not another's. */
static charl_status load_otherwise(member *m)
{
    charl_status st = CHARL_OK;
    const char *others[] = {"sgd", "adam"};

    m->save = m->load;
    m->load = NULL;
    CHARL_TRY(train_once(m));
    m->load = m->save;
    m->save = NULL;
    for (int i = 0; i < 2; i++) {
        m->optimizer = others[i];
        st = train_once(m);
        CHARL_REQUIRE(st == CHARL_ERR_CHECKPOINT &&
                          strstr(charl_error_message(), "was saved with the optimizers adamw"),
                      CHARL_ERR_INVALID, "the state of adamw in %s: %s", others[i], charl_error_message());
    }
    m->optimizer = NULL;
    m->load = "/nowhere/state.h5";
    st = train_once(m);
    CHARL_REQUIRE(st == CHARL_ERR_CHECKPOINT && strstr(charl_error_message(), "/nowhere/state.h5"), CHARL_ERR_INVALID,
                  "a missing file: %s", charl_error_message());
    return CHARL_OK;
}

static void test_training_refused(void **state)
{
    member all = {.options = {sizeof all.options}, .work = load_otherwise}, m[MOST];
    char *dir = charl_test_tempdir();

    (void)state;
    all.load = charl_test_path(dir, "state.h5");
    run_as(1, &all, m);
    run_as(2, &all, m);
    charl_test_tempdir_remove(dir);
}

/* Without a fault an audit finds nothing and changes no bit, in passes and with step parameters too. */
static void test_audit_changes_no_bit(void **state)
{
    static const struct {
        int size, passes;
        bool has_steps;
    } cases[] = {{1, 0, false}, {2, 0, false}, {2, 2, false}, {4, 0, true}, {1, 2, true}};

    (void)state;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        member all = {.options = {sizeof all.options}, .work = train_once}, one[AUDITED], m[AUDITED];

        run_as(1, &all, one);
        all.options.rows = rows_of;
        all.options.passes = cases[k].passes;
        all.has_steps = cases[k].has_steps;
        run_as(cases[k].size, &all, m);
        for (int r = 0; r < cases[k].size; r++) {
            charl_assert_same_bits(m[r].weight, one[0].weight, COLUMNS + 1);
            charl_assert_same_bits(&m[r].loss, &one[0].loss, 1);
        }
    }
}

static charl_status is_found(member *m)
{
    const charl_status st = train(m);

    CHARL_REQUIRE(st == CHARL_ERR_AUDIT && strstr(charl_error_message(), "step 2, audit: ") &&
                      strstr(charl_error_message(), "rank 1 of 4 (") && !strstr(charl_error_message(), "), rank "),
                  CHARL_ERR_INVALID, "%s: %s", charl_status_name(st), charl_error_message());
    return CHARL_OK;
}

/* A bit that is flipped in a gradient, in what is sent of it, in the sum that arrives, or in the weights. */
static void test_audit_finds_a_bit(void **state)
{
    static const char *const faults[] = {"train.device.flip_gradient@1:2:40", "train.allreduce.flip_gradient@1:2:40",
                                         "train.optimizer.flip_sum@1:2:40", "train.backward.flip@1:1:40"};

    (void)state;
    for (size_t k = 0; k < sizeof faults / sizeof *faults; k++) {
        member all = {.options = {sizeof all.options, .rows = rows_of}, .work = is_found}, m[AUDITED];

        charl_test_fault_set(faults[k]);
        run_as(AUDITED, &all, m);
        charl_test_fault_set(NULL);
    }
}

static charl_status refuse_audits(member *m)
{
    charl_status st = CHARL_OK;
    charl_graph *g = NULL;
    charl_data_parallel *dp = NULL;

    CHARL_TRY_CLEANUP(new_graph(m, &m->mine, true, &g, NULL, NULL));
    if (m->options.rows) {
        return is_refused(m, g, 1, CHARL_ERR_CONFIG, "8 slices on 3 ranks are not divided alike");
    }
    CHARL_TRY_CLEANUP(charl_data_parallel_create(m->comm, &m->mine, &m->options, &dp));
    CHARL_TRY_CLEANUP(charl_data_parallel_compile(dp, &g, 1));
    CHARL_REQUIRE_CLEANUP(charl_data_parallel_audit(dp) == CHARL_ERR_INVALID, CHARL_ERR_INVALID,
                          "an audit without rows is not refused");
cleanup:
    charl_graph_destroy(g);
    charl_data_parallel_destroy(dp);
    return st;
}

static void test_audit_refused(void **state)
{
    member all = {.options = {sizeof all.options}, .work = refuse_audits}, m[AUDITED];

    (void)state;
    run_as(1, &all, m);
    all.options.rows = rows_of;
    run_as(3, &all, m);
}

/* The times are given: rank 1 is nine times as fast as the other. No bit changes. */
static void test_balance(void **state)
{
    member all = {.options = {sizeof all.options}, .work = train_once, .steps = BALANCED}, one[AUDITED], m[AUDITED];

    (void)state;
    run_as(1, &all, one);
    all.steps = 0;
    all.ema = true;
    for (charl_shard shard = 0; shard <= CHARL_SHARD_GRADIENTS; shard++) {
        all.options = (charl_data_parallel_options){sizeof all.options, .balance = true, .shard = shard};
        charl_test_fault_set("train.measured@0:1:900,train.measured@1:1:100");
        run_as(2, &all, m);
        charl_test_fault_set(NULL);
        assert_int_equal(m[0].count + m[1].count, SLICES);
        assert_true(m[0].count < m[1].count);
        for (int r = 0; r < 2; r++) {
            charl_assert_same_bits(m[r].weight, one[0].weight, COLUMNS + 1);
            charl_assert_same_bits(&m[r].loss, &one[0].loss, 1);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_options_change_no_bit),
        cmocka_unit_test(test_optimizer_of_a_part),
        cmocka_unit_test(test_training_continues),
        cmocka_unit_test(test_training_refused),
        cmocka_unit_test(test_audit_changes_no_bit),
        cmocka_unit_test(test_audit_finds_a_bit),
        cmocka_unit_test(test_audit_refused),
        cmocka_unit_test(test_balance),
        cmocka_unit_test(test_failing_acquisitions),
        cmocka_unit_test(test_values_lost),
    };

    return charl_test_on_device(tests, &dev);
}
