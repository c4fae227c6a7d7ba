/* Facts of ranks that are threads: what is said where they differ, and of whom. */
#include "support/support.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "dist/consensus.h"

enum { MOST = 5, FACTS = 8 };

/* What one rank says; facts end with a NULL label. */
typedef struct member {
    charl_team *team;
    int rank;
    charl__fact facts[FACTS];
    charl_status mine, status;
    char message[2048];
} member;

static charl_status say(const member *m, charl_comm *c)
{
    charl__consensus facts = {0};
    charl_status st = m->mine;

    if (m->mine != CHARL_OK) {
        st = charl_error_set(m->mine, __FILE__, __LINE__, __func__, "no data here");
    }
    for (int i = 0; m->facts[i].label && st == CHARL_OK; i++) {
        st = charl__consensus_add(&facts, &m->facts[i]);
    }
    st = charl__consensus_reach(&facts, st, c);
    charl__consensus_fini(&facts);
    return st;
}

static void *member_run(void *arg)
{
    member *m = arg;
    const charl_comm_options options = {sizeof options, .timeout_s = 20, .team = m->team, .rank = m->rank};
    charl_comm *c = NULL;

    m->status = charl_comm_create(&options, &c);
    if (m->status == CHARL_OK) {
        m->status = say(m, c);
    }
    snprintf(m->message, sizeof m->message, "%s", charl_error_message());
    charl_comm_destroy(c);
    return NULL;
}

/* All n ranks say their facts: they get the same status and, where none failed by itself, the same
 * message, which is m[0]'s. */
static charl_status reach(member *m, int n)
{
    pthread_t thread[MOST];
    charl_team *team = NULL;

    charl_assert_ok(charl_team_create(n, &team));
    for (int r = 0; r < n; r++) {
        m[r].team = team;
        m[r].rank = r;
        assert_int_equal(pthread_create(&thread[r], NULL, member_run, &m[r]), 0);
    }
    for (int r = 0; r < n; r++) {
        assert_int_equal(pthread_join(thread[r], NULL), 0);
    }
    charl_team_destroy(team);
    for (int r = 1; r < n; r++) {
        assert_int_equal(m[r].status, m[0].status);
        if (m[0].status != CHARL_OK) {
            assert_string_equal(m[r].message, m[0].message);
        }
    }
    return m[0].status;
}

/* Whether the message holds `text`, in which @ stands for "(host, pid N)". */
static bool holds(const char *message, const char *text)
{
    for (; *message; message++) {
        const char *p = message, *q = text;

        while (*q && *p && (*q == '@' ? *p == '(' : *q == *p)) {
            p = *q == '@' ? strchr(p, ')') : p;
            p++;
            q++;
        }
        if (!*q) {
            return true;
        }
    }
    return false;
}

static void assert_says(const member *m, const char *text)
{
    if (!holds(m->message, text)) {
        fail_msg("\"%s\" is not in \"%s\"", text, m->message);
    }
}

static charl__fact seed(const char *value)
{
    return (charl__fact){CHARL_ERR_CONFIG, "run.seed", value, NULL, "set it"};
}

static void test_equal_facts_are_a_consensus(void **state)
{
    member m[MOST] = {0};

    (void)state;
    assert_int_equal(reach(m, 3), CHARL_OK); /* none at all */
    for (int r = 0; r < 3; r++) {
        m[r].facts[0] = seed("42");
        m[r].facts[0].note = r == 1 ? "another note" : "a note"; /* not compared */
        m[r].facts[1] = (charl__fact){CHARL_ERR_DATA, "data", "", NULL, NULL};
    }
    assert_int_equal(reach(m, 3), CHARL_OK);
    assert_int_equal(reach(m, 1), CHARL_OK);
}

static void test_the_odd_rank_is_named(void **state)
{
    member m[MOST] = {0};

    (void)state;
    for (int r = 0; r < 4; r++) {
        m[r].facts[0] = (charl__fact){CHARL_ERR_DATA, "data", "x", NULL, NULL};
        m[r].facts[1] = seed(r == 2 ? "43" : "42");
    }
    assert_int_equal(reach(m, 4), CHARL_ERR_CONFIG);
    assert_says(m, "rank 2 of 4 @ has run.seed = 43, the other 3 ranks have 42; HINT set it");
}

static void test_two_ranks_have_no_majority(void **state)
{
    member m[MOST] = {0};

    (void)state;
    m[0].facts[0] = seed("42");
    m[1].facts[0] = seed("43");
    m[0].facts[0].note = "of file a";
    m[1].facts[0].note = "of file b";
    assert_int_equal(reach(m, 2), CHARL_ERR_CONFIG);
    assert_says(m, "rank 0 of 2 @ has run.seed = 42 (of file a), rank 1 of 2 @ has 43 (of file b)");
}

static void test_several_differ(void **state)
{
    static const char *const values[] = {"7", "42", "8", "7", "42"};
    member m[MOST] = {0};

    (void)state;
    for (int r = 0; r < 5; r++) {
        m[r].facts[0] = seed(values[r]);
    }
    assert_int_equal(reach(m, 5), CHARL_ERR_CONFIG);
    assert_says(m, "rank 0 of 5 @, rank 3 of 5 @ have run.seed = 7, rank 1 of 5 @, rank 4 of 5 @ "
                   "have 42, rank 2 of 5 @ has 8; HINT");
    for (int r = 0; r < 5; r++) {
        m[r].facts[0] = seed(r == 4 ? "1" : r == 3 ? "2" : "3");
    }
    assert_int_equal(reach(m, 5), CHARL_ERR_CONFIG);
    assert_says(m, "rank 3 of 5 @ has run.seed = 2, rank 4 of 5 @ has 1, the other 3 ranks have 3");
}

static void test_further_differences_are_named(void **state)
{
    static const char *const labels[] = {"a", "b", "c", "d", "e", "f", "g"};
    char long_value[400];
    member m[MOST] = {0};

    (void)state;
    memset(long_value, 'v', sizeof long_value - 1);
    long_value[sizeof long_value - 1] = '\0';
    for (int r = 0; r < 2; r++) {
        for (int i = 0; i < 7; i++) {
            m[r].facts[i] = (charl__fact){CHARL_ERR_DATA, labels[i], r ? "1" : "0", NULL, NULL};
        }
    }
    m[1].facts[0].value = long_value;
    assert_int_equal(reach(m, 2), CHARL_ERR_DATA);
    assert_says(m, "; also different: b, c, d, e and 2 more");
    assert_says(m, "vvv...");
    assert_true(strlen(m[0].message) < 400);
}

/* Ranks that know of different things, as of layers: the union is compared. */
static void test_a_fact_that_others_lack(void **state)
{
    member m[MOST] = {0};

    (void)state;
    for (int r = 0; r < 3; r++) {
        m[r].facts[0] = seed("42");
    }
    m[2].facts[1] = (charl__fact){CHARL_ERR_CONFIG, "layer fc2.out", "10", NULL, NULL};
    assert_int_equal(reach(m, 3), CHARL_ERR_CONFIG);
    assert_says(m, "rank 2 of 3 @ has layer fc2.out = 10, the other 2 ranks have none");
    m[0].facts[1] = m[2].facts[1];
    assert_int_equal(reach(m, 3), CHARL_ERR_CONFIG);
    assert_says(m, "rank 1 of 3 @ has no layer fc2.out, the other 2 ranks have 10");
}

static void test_a_failure_comes_first(void **state)
{
    member m[MOST] = {0};

    (void)state;
    for (int r = 0; r < 3; r++) {
        m[r].facts[0] = seed(r == 0 ? "43" : "42");
    }
    m[1].mine = CHARL_ERR_DATA;
    assert_int_equal(reach(m, 3), CHARL_ERR_DATA);
    assert_says(m, "rank 1 of 3 @: no data here");
}

static charl_status scenario(void *ctx)
{
    charl_status st = CHARL_OK;
    charl__consensus facts = {0};

    (void)ctx;
    CHARL_TRY_CLEANUP(charl__consensus_add(&facts, &(charl__fact){CHARL_ERR_DATA, "a", "b", NULL, NULL}));
cleanup:
    charl__consensus_fini(&facts);
    return st;
}

static void test_every_acquisition_may_fail(void **state)
{
    (void)state;
    assert_true(charl_test_fail_every_acquisition(scenario, NULL) >= 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equal_facts_are_a_consensus),   cmocka_unit_test(test_the_odd_rank_is_named),
        cmocka_unit_test(test_two_ranks_have_no_majority),    cmocka_unit_test(test_several_differ),
        cmocka_unit_test(test_further_differences_are_named), cmocka_unit_test(test_a_fact_that_others_lack),
        cmocka_unit_test(test_a_failure_comes_first),         cmocka_unit_test(test_every_acquisition_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
