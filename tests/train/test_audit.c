/* dist.audit: bits that are flipped in one rank's weights, gradients, intermediate values, inputs and messages are found, and the rank is
 * named. Ranks are threads. CHARL_TEST_LONG=1: 200 faults and 10,000 steps without any, instead of 12 and 9. */
#include "support/support.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "charl/config.h"
#include "charl/dataset.h"
#include "charl/import.h"
#include "charl/train.h"

enum { MOST_RANKS = 3, STEPS = 9, VALUES = 40 /* weights of the first layer */ };

static const char form[] =
    "[run]\noutput_dir = %s\n[data]\npath = %s/data.h5\n[model]\ntype = mlp\nhidden = 5\nbatch_norm = %s\n"
    "[train]\nloss = mse\nbatch_size = 48\nslices = %d\nmax_steps = %d\n[device]\nshare = yes\n[dist]\nallreduce = "
    "p2p\naudit = %d\n";

typedef struct run {
    const char *dir;
    int ranks, steps, audit;
    bool normalizes; /* batch norm: sums over all ranks in the middle of a step */
    charl_team *team;
    charl_config *config;
} run;

typedef struct member {
    const run *r;
    int rank;
    charl_status status;
    charl_train_result result;
    char message[2048];
} member;

static void *member_run(void *arg)
{
    member *m = arg;
    charl_comm *comm = NULL;
    charl_train_options options = {sizeof options, .fast_dev_run = m->r->steps};

    m->status = charl_comm_create(
        &(charl_comm_options){sizeof(charl_comm_options), .team = m->r->team, .rank = m->rank}, &comm);
    if (m->status == CHARL_OK) {
        options.comm = comm;
        m->status = charl_train_run(m->r->config, &options, &m->result);
    }
    snprintf(m->message, sizeof m->message, "%s", charl_error_message());
    charl_comm_destroy(comm);
    return NULL;
}

/* All ranks end alike, unless a fault makes values of one rank infinite; *out is what became of rank 0. */
static void train(run *r, member *out)
{
    pthread_t thread[MOST_RANKS];
    member m[MOST_RANKS];
    bool is_loud = false;
    char text[2048];
    const int n = snprintf(text, sizeof text, form, r->dir, r->dir, r->normalizes ? "yes" : "no", 2 * r->ranks,
                           r->steps, r->audit);

    charl_assert_ok(charl_config_parse("test", text, (size_t)n, NULL, 0, &r->config));
    charl_assert_ok(charl_team_create(r->ranks, &r->team));
    for (int k = 0; k < r->ranks; k++) {
        m[k] = (member){.r = r, .rank = k};
        assert_int_equal(pthread_create(&thread[k], NULL, member_run, &m[k]), 0);
    }
    for (int k = 0; k < r->ranks; k++) {
        assert_int_equal(pthread_join(thread[k], NULL), 0);
    }
    for (int k = 0; k < r->ranks; k++) {
        is_loud = is_loud || m[k].status == CHARL_ERR_NONFINITE;
    }
    for (int k = 1; k < r->ranks && !is_loud; k++) {
        assert_int_equal(m[k].status, m[0].status);
        assert_string_equal(m[k].message, m[0].message);
    }
    charl_team_destroy(r->team);
    charl_config_destroy(r->config);
    *out = m[0];
    out->status = is_loud ? CHARL_ERR_NONFINITE : m[0].status;
}

static void assert_ended(const member *m, charl_status wanted)
{
    if (m->status != wanted) {
        fail_msg("%s: %s", charl_status_name(m->status), m->message);
    }
}

static char *make_data(void)
{
    const charl_make_options o = {sizeof o, .kind = "regression", .n_train = 200, .seed = 1};
    char *dir = charl_test_tempdir();

    charl_assert_ok(charl_dataset_make(charl_test_path(dir, "data.h5"), &o));
    return dir;
}

static unsigned state_of_draws;

static int next(void)
{
    return rand_r(&state_of_draws);
}

typedef enum kind { WEIGHT, GRADIENT, VALUE, INPUT, MEMORY, MESSAGE, KINDS } kind;

/* A fault of rank `rank` from a step on; *step: 0 where it is not known which, as a step runs graphs several times. */
static void draw(kind k, int rank, char *spec, size_t bytes, int *step)
{
    static const char *const point[KINDS] = {[WEIGHT] = "train.backward.flip",
                                             [GRADIENT] = "train.device.flip_gradient",
                                             [VALUE] = "graph.flip",
                                             [INPUT] = "graph.flip",
                                             [MEMORY] = "train.allreduce.flip_gradient",
                                             [MESSAGE] = "train.optimizer.flip_sum"};
    const bool in_graph = k == VALUE || k == INPUT;
    const long any = next() % (in_graph ? 1000000 : 32 * VALUES);
    const long arg = k == WEIGHT  ? (any | 31) - any % 10 /* a high bit of the mantissa: updates keep it */
                     : k == INPUT ? any * 232792560       /* the first operator, of up to 20: rows of the data */
                                  : any;

    *step = 1 + (int)(next() % (STEPS - 1));
    snprintf(spec, bytes, "%s@%d:%d%s:%ld", point[k], rank, *step, k == WEIGHT ? "" : "+", arg);
    *step = in_graph ? 0 : *step;
}

/* Whether the message names `rank` alone, and the first audited step of those from `begin` on: a fault of that step may not go into an update. */
static bool is_right(const run *r, const char *message, int rank, int begin)
{
    const int next = (begin + r->audit - 1) / r->audit * r->audit, due = next < r->steps ? next : r->steps;
    char name[32];
    int step = 0;
    const char *at;

    snprintf(name, sizeof name, "rank %d of %d (", rank, r->ranks);
    at = strstr(message, name);
    return sscanf(message, "step %d, audit: ", &step) == 1 && (begin == 0 || step == due) &&
           strstr(message, "rank ") == at && !strstr(at + 1, "rank ");
}

/* Random faults, until `wanted` of them have made a difference: each of those is found. */
static void test_faults(void **state)
{
    char *dir = make_data(), spec[64];
    const int wanted = charl_test_env_is_on("CHARL_TEST_LONG") ? 200 : 12;
    int found = 0, drawn = 0, harmless = 0, loud = 0;
    double right[2];
    member m;

    (void)state;
    state_of_draws = (unsigned)charl_test_seed();
    for (int k = 0; k < 2; k++) {
        train(&(run){dir, MOST_RANKS, STEPS, 0, .normalizes = k}, &m);
        assert_ended(&m, CHARL_OK);
        right[k] = m.result.loss;
    }
    while (found < wanted) {
        run r = {dir, MOST_RANKS, STEPS, 1 + (int)(next() % 4), .normalizes = next() % 2};
        const int rank = (int)(next() % r.ranks);
        int begin;

        draw((kind)(drawn++ % KINDS), rank, spec, sizeof spec, &begin);
        charl_test_fault_set(spec);
        train(&r, &m);
        charl_test_fault_set(NULL);
        loud += m.status == CHARL_ERR_NONFINITE;
        harmless += m.status == CHARL_OK && m.result.loss == right[r.normalizes];
        if (m.status == CHARL_ERR_AUDIT && is_right(&r, m.message, rank, begin)) {
            found++;
        } else if (m.status != CHARL_ERR_NONFINITE && (m.status != CHARL_OK || m.result.loss != right[r.normalizes])) {
            fail_msg("%s, dist.audit = %d, batch_norm = %d: loss %a, right is %a; %s", spec, r.audit, r.normalizes,
                     m.result.loss, right[r.normalizes], m.message);
        }
        assert_true(drawn < 4 * wanted);
    }
    printf("%d of %d found and named right; %d without effect, %d not finite\n", found, drawn - harmless - loud,
           harmless, loud);
    charl_test_tempdir_remove(dir);
}

/* Without faults nothing is found, and the result is that without audits. */
static void test_no_false_alarm(void **state)
{
    const int steps = charl_test_env_is_on("CHARL_TEST_LONG") ? 10000 : STEPS;
    char *dir = make_data();
    member with, without;

    (void)state;
    for (int k = 0; k < 2; k++) {
        train(&(run){dir, MOST_RANKS, steps, 0, .normalizes = k}, &without);
        train(&(run){dir, MOST_RANKS, steps, 1, .normalizes = k}, &with);
        assert_ended(&without, CHARL_OK);
        assert_ended(&with, CHARL_OK);
        assert_true(with.result.loss == without.result.loss);
        assert_int_equal(with.result.audits, steps);
    }
    charl_test_tempdir_remove(dir);
}

/* Of two ranks both are named; one rank compares with itself. */
static void test_few_ranks(void **state)
{
    char *dir = make_data();
    member m;

    (void)state;
    charl_test_fault_set("train.device.flip_gradient@1:3");
    train(&(run){dir, 2, STEPS, 3, .normalizes = false}, &m);
    assert_ended(&m, CHARL_ERR_AUDIT);
    assert_non_null(strstr(m.message, "step 3, audit: slices 2 to 3: rank 0 of 2 ("));
    assert_non_null(strstr(m.message, "), rank 1 of 2 ("));
    assert_non_null(strstr(m.message, "computed different losses or gradients, and no other two ranks agree"));
    charl_test_fault_set("train.device.flip_gradient:3");
    train(&(run){dir, 1, STEPS, 3, .normalizes = false}, &m);
    assert_ended(&m, CHARL_ERR_AUDIT);
    assert_non_null(strstr(m.message, "computed two different gradients"));
    charl_test_fault_set(NULL);
    charl_test_tempdir_remove(dir);
}

/* The message says what is wrong with the rank, not only that something is. */
static void test_what_differs(void **state)
{
    static const char *const cases[][2] = {
        {"train.backward.flip@1:2:3222", "has other weights than the other ranks"},
        {"train.device.flip_gradient@1:3:800", "computed a different loss or gradient than two other ranks"},
        {"train.allreduce.flip_gradient@1:3:800",
         "had the right gradient, which changed in memory before it was added up"},
        {"train.optimizer.flip_sum@1:3:800", "received another sum of gradients than the other ranks"},
    };
    char *dir = make_data();

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        member m;

        charl_test_fault_set(cases[i][0]);
        train(&(run){dir, MOST_RANKS, STEPS, 3, .normalizes = false}, &m);
        charl_test_fault_set(NULL);
        assert_ended(&m, CHARL_ERR_AUDIT);
        if (!is_right(&(run){dir, MOST_RANKS, STEPS, 3, .normalizes = false}, m.message, 1, 3) ||
            !strstr(m.message, cases[i][1])) {
            fail_msg("%s: %s", cases[i][0], m.message);
        }
    }
    charl_test_tempdir_remove(dir);
}

/* A sum that is wrong everywhere is found by adding up again, and nobody is named. */
static void test_wrong_sum(void **state)
{
    char *dir = make_data();
    member m;

    (void)state;
    charl_test_fault_set("train.optimizer.flip_sum:6");
    train(&(run){dir, 3, STEPS, 3, .normalizes = false}, &m);
    charl_test_fault_set(NULL);
    assert_ended(&m, CHARL_ERR_AUDIT);
    assert_non_null(strstr(m.message, "step 6, audit: all ranks received the same wrong sum of right gradients"));
    charl_test_tempdir_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_false_alarm), cmocka_unit_test(test_few_ranks), cmocka_unit_test(test_what_differs),
        cmocka_unit_test(test_wrong_sum),      cmocka_unit_test(test_faults),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
