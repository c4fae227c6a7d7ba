/* Below communicators: messages of a team, and what ranks compare. */
#include "support/support.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/numeric/tree.h"
#include "dist/allreduce/allreduce_device.h"
#include "dist/comm_private.h"
#include "dist/consensus.h"

/* Ranks that are threads: what may go wrong between them. What they do together is in
 * mpi/test_ranks.c. */

typedef struct member {
    charl_team *team;
    int rank;
    void (*work)(struct member *m);
    charl_status status;
    char message[1024];
} member;

static charl_comm_options options_of(const member *m)
{
    return (charl_comm_options){sizeof(charl_comm_options), .timeout_s = 0.5, .team = m->team, .rank = m->rank};
}

static void *member_run(void *arg)
{
    member *m = arg;

    m->work(m);
    snprintf(m->message, sizeof m->message, "%s", charl_error_message());
    return NULL;
}

/* Two ranks at work; m[] has what became of them. */
static void two_run(void (*work)(member *), member m[2])
{
    pthread_t thread[2];
    charl_team *team = NULL;

    charl_assert_ok(charl_team_create(2, &team));
    for (int r = 0; r < 2; r++) {
        m[r] = (member){.team = team, .rank = r, .work = work};
        assert_int_equal(pthread_create(&thread[r], NULL, member_run, &m[r]), 0);
    }
    for (int r = 0; r < 2; r++) {
        assert_int_equal(pthread_join(thread[r], NULL), 0);
    }
    charl_team_destroy(team);
}

static charl_status scenario(void *ctx)
{
    charl_status st = CHARL_OK;
    charl_allreduce_options algorithm = {sizeof algorithm, .algorithm = ctx};
    charl_team *team = NULL;
    charl_comm *c = NULL;
    charl_allreduce *ar = NULL;
    charl_slices mine;

    CHARL_TRY_CLEANUP(charl_team_create(1, &team));
    CHARL_TRY_CLEANUP(charl_comm_create(&(charl_comm_options){sizeof(charl_comm_options), .team = team}, &c));
    CHARL_TRY_CLEANUP(charl_slices_block(8, 0, 1, &mine));
    CHARL_TRY_CLEANUP(charl_allreduce_create(c, 100, &mine, &algorithm, &ar));
cleanup:
    charl_allreduce_destroy(ar);
    charl_comm_destroy(c);
    charl_team_destroy(team);
    return st;
}

static void test_every_acquisition_may_fail(void **state)
{
    char names[][16] = {"auto", "shm", "p2p"};

    (void)state;
    for (int i = 0; i < 3; i++) {
        assert_true(charl_test_fail_every_acquisition(scenario, names[i]) > 10);
    }
}

static void test_refused(void **state)
{
    char mpi[] = "mpi";
    charl_team *team = NULL;
    charl_comm *c = NULL;

    (void)state;
    charl_assert_status(charl_team_create(0, &team), CHARL_ERR_INVALID);
    charl_assert_status(charl_team_create(CHARL_MAX_SLICES + 1, &team), CHARL_ERR_INVALID);
    assert_null(team);
    charl_assert_status(scenario(mpi), CHARL_ERR_CONFIG);
    charl_assert_message("simulated ranks have no MPI");
    charl_assert_ok(charl_team_create(2, &team));
    charl_assert_status(
        charl_comm_create(&(charl_comm_options){sizeof(charl_comm_options), .team = team, .rank = 2}, &c),
        CHARL_ERR_INVALID);
    charl_team_destroy(team);
    charl_team_destroy(NULL);
}

static void test_many_operations_are_under_way(void **state)
{
    enum { MOST = 16 };
    charl__request request[MOST + 1];
    charl__group *g = NULL;
    charl_team *team = NULL;
    bool is_complete = false;
    char data = 0;

    (void)state;
    charl_assert_ok(charl_team_create(1, &team));
    charl_assert_ok(charl__team_world(team, 0, &g));
    for (int i = 0; i < MOST; i++) {
        charl_assert_ok(g->transport->broadcast(g, &data, 1, 0, &request[i]));
    }
    charl_assert_status(g->transport->broadcast(g, &data, 1, 0, &request[MOST]), CHARL_ERR_INVALID);
    for (int i = MOST - 1; i >= 0; i--) { /* in any order */
        charl_assert_ok(g->transport->test(g, &request[i], &is_complete));
        assert_true(is_complete);
    }
    charl_assert_ok(g->transport->broadcast(g, &data, 1, 0, &request[MOST]));
    charl__group_destroy(g, false);
    charl_team_destroy(team);
}

static bool is_over(charl__group *g, charl__request *r)
{
    bool is_complete = false;

    charl_assert_ok(g->transport->test(g, r, &is_complete));
    return is_complete;
}

static void test_messages_meet_by_their_tags(void **state)
{
    char sent[] = "ab", late[] = "cd", first[2] = "", second[2] = "";
    charl__request send[3], receive[3];
    charl__group *g = NULL;
    charl_team *team = NULL;
    bool is_complete;

    (void)state;
    charl_assert_ok(charl_team_create(1, &team));
    charl_assert_ok(charl__team_world(team, 0, &g));
    charl_assert_ok(g->transport->receive(g, &(charl__message){first, 1, 2, 0, 5}, &receive[0]));
    assert_false(is_over(g, &receive[0]));
    charl_assert_ok(g->transport->send(g, &(charl__message){late, 1, 2, 0, 6}, &send[0]));
    charl_assert_ok(g->transport->send(g, &(charl__message){sent, 1, 2, 0, 5}, &send[1]));
    assert_false(is_over(g, &send[0]));
    assert_true(is_over(g, &receive[0]) && is_over(g, &receive[0]) && is_over(g, &send[1]));
    charl_assert_ok(g->transport->receive(g, &(charl__message){second, 1, 2, 0, 6}, &receive[1]));
    assert_true(is_over(g, &receive[1]) && is_over(g, &send[0]));
    assert_memory_equal(first, "ab", 2);
    assert_memory_equal(second, "cd", 2);
    charl_assert_ok(g->transport->send(g, &(charl__message){sent, 1, 1, 0, 5}, &send[2]));
    charl_assert_ok(g->transport->receive(g, &(charl__message){first, 1, 2, 0, 5}, &receive[2]));
    charl_assert_status(g->transport->test(g, &receive[2], &is_complete), CHARL_ERR_COMM);
    charl_assert_message("rank 0 sent 1 values where rank 0 waits for 2");
    charl__group_destroy(g, false);
    charl_team_destroy(team);
}

/* A late message is overtaken by one of another tag, but not by one of its own. */
static void test_late_messages_keep_their_order(void **state)
{
    char sent[] = "abc", got[3] = "";
    charl__request send[3], receive[3];
    const int tag[] = {5, 6, 5};
    charl__group *g = NULL;
    charl_team *team = NULL;

    (void)state;
    charl_assert_ok(charl_team_create(1, &team));
    charl_assert_ok(charl__team_world(team, 0, &g));
    charl_test_fault_set("comm.delay:1:3600000");
    for (int i = 0; i < 3; i++) {
        charl_assert_ok(g->transport->send(g, &(charl__message){sent + i, 1, 1, 0, tag[i]}, &send[i]));
        charl_assert_ok(g->transport->receive(g, &(charl__message){got + i, 1, 1, 0, tag[i]}, &receive[i]));
    }
    charl_test_fault_set(NULL);
    assert_false(is_over(g, &receive[0]));
    assert_true(is_over(g, &receive[1]) && is_over(g, &send[1]));
    assert_false(is_over(g, &receive[2]));
    charl__clock_set_member(true);
    charl__clock_nap_s(3600, 3600);
    charl__clock_set_member(false);
    for (int i = 0; i < 3; i += 2) {
        assert_true(is_over(g, &receive[i]) && is_over(g, &send[i]));
    }
    assert_memory_equal(got, "abc", 3);
    charl__group_destroy(g, false);
    charl_team_destroy(team);
}

static void meet_differently(member *m)
{
    const charl_comm_options options = options_of(m);
    char data[8] = "", all[16];
    charl_comm *c = NULL;

    m->status = charl_comm_create(&options, &c);
    if (m->status == CHARL_OK) {
        m->status = m->rank == 0 ? charl_comm_broadcast(c, data, sizeof data, 0)
                                 : charl_comm_allgather(c, data, sizeof data, all);
    }
    charl_comm_destroy(c);
}

static void test_different_operations_are_noticed(void **state)
{
    member m[2];

    (void)state;
    two_run(meet_differently, m);
    for (int r = 0; r < 2; r++) {
        assert_int_equal(m[r].status, CHARL_ERR_COMM);
    }
    assert_non_null(strstr(m[0].message, "rank 1 is in another collective operation than rank 0"));
}

static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;
static charl_comm *left;

/* Rank 1 ends in the middle; its communicator is freed later. */
static void end_early(member *m)
{
    const charl_comm_options options = options_of(m);
    charl_comm *c = NULL;

    m->status = charl_comm_create(&options, &c);
    charl_comm_mark(c, 7, "nowhere");
    if (m->rank == 1) {
        left = c;
        return;
    }
    m->status = charl_comm_barrier(c);
    charl_comm_destroy(c);
}

static void test_a_thread_that_ends_is_a_rank_that_died(void **state)
{
    member m[2];

    (void)state;
    two_run(end_early, m);
    assert_int_equal(m[0].status, CHARL_ERR_COMM);
    assert_non_null(strstr(m[0].message, "rank 1 of 2"));
    assert_non_null(strstr(m[0].message, "died at or near step 7, nowhere"));
    charl_comm_break(left);
    charl_comm_destroy(left);
}

/* Write over what calls before have left on the stack. */
static void overwrite_stack(void)
{
    volatile unsigned char past[1 << 15];

    for (size_t i = 0; i < sizeof past; i++) {
        past[i] = 0xff;
    }
}

static void be_silent(member *m)
{
    const charl_comm_options options = options_of(m);
    charl_comm *c = NULL;

    if (m->rank == 0) {
        pthread_mutex_lock(&held);
    }
    m->status = charl_comm_create(&options, &c);
    charl_comm_mark(c, 9, "asleep");
    if (m->rank == 0) {
        m->status = charl_comm_barrier(c);
        overwrite_stack();
        pthread_mutex_unlock(&held);
    } else {
        pthread_mutex_lock(&held); /* until rank 0 has given up: what it had to say is not read any more */
        pthread_mutex_unlock(&held);
        m->status = charl_comm_barrier(c);
    }
    charl_comm_destroy(c);
}

static void test_a_silent_thread_is_named(void **state)
{
    member m[2];

    (void)state;
    two_run(be_silent, m);
    assert_int_equal(m[0].status, CHARL_ERR_COMM);
    assert_non_null(strstr(m[0].message, "waiting for rank 1 of 2"));
    assert_non_null(strstr(m[0].message, "sleeping, last seen in step 9, asleep"));
    assert_int_equal(m[1].status, CHARL_ERR_COMM);
    assert_null(strstr(m[1].message, "another collective operation"));
}

static void create_only(member *m)
{
    const charl_comm_options options = options_of(m);
    charl_comm *c = NULL;

    m->status = charl_comm_create(&options, &c);
    charl_comm_destroy(c);
}

/* From the first meeting on, what one rank cannot do ends all of them at once. */
static void test_a_lone_failure_ends_both(void **state)
{
    const long before = 20; /* the team, and what each rank makes before it meets the other */
    int failures = 0;

    (void)state;
    for (long nth = before + 1;; nth++) {
        member m[2];

        charl__fault_after(nth);
        two_run(create_only, m);
        if (charl__fault_pending() > 0) {
            break;
        }
        assert_int_equal(m[0].status, CHARL_ERR_NOMEM);
        assert_int_equal(m[1].status, CHARL_ERR_NOMEM);
        failures++;
    }
    charl__fault_after(0);
    assert_true(failures > 8);
    assert_int_equal(charl__live(), 0);
}

/* Many ranks: everything that a training's ranks do together, the sum in the fixed tree. CHARL_TEST_LONG=1: 1024 of them. */
enum { MOST = 1024, VALUES = 200 };

static int many = 256;

static float part_of(int slice, int i)
{
    return (float)((slice * 7919 + i * 104729) % 65537) * 1.37e-3F - 31.0F;
}

static void add_all(float *out)
{
    float *data, **part;

    charl_assert_ok(charl__alloc_array(many, VALUES * sizeof *data, &data));
    charl_assert_ok(charl__alloc_array(many, sizeof *part, &part));
    for (int s = 0; s < many; s++) {
        part[s] = data + (ptrdiff_t)s * VALUES;
        for (int i = 0; i < VALUES; i++) {
            part[s][i] = part_of(s, i);
        }
    }
    charl__tree_fold(part, many, VALUES);
    memcpy(out, part[0], VALUES * sizeof *out);
    charl_free(part);
    charl_free(data);
}

static float tree_of_many[VALUES];
static int ranks_per_node;

static charl_status meet(member *m, charl_comm *c)
{
    charl_status st = CHARL_OK;
    int64_t v[2] = {m->rank, 1};
    float mine[VALUES], sum[VALUES];
    charl_slices slices;
    charl_allreduce *ar = NULL;
    charl_reducer *r = NULL;
    int64_t ticket;

    charl_comm_set_timeout(c, 300);
    CHARL_TRY_CLEANUP(charl_comm_reduce_i64(c, CHARL_COMM_SUM, v, 2));
    CHARL_REQUIRE_CLEANUP(v[0] == (int64_t)many * (many - 1) / 2 && v[1] == many, CHARL_ERR_INVALID, "a sum of ranks");
    st = charl_comm_agree(c, m->rank % 1000 == 7 ? CHARL_ERR_DATA : CHARL_OK);
    CHARL_REQUIRE_CLEANUP(st == CHARL_ERR_DATA && strstr(charl_error_message(), "rank 7 of "), CHARL_ERR_INVALID,
                          "agreed on %d", (int)st);
    for (int i = 0; i < VALUES; i++) {
        mine[i] = part_of(m->rank, i);
    }
    CHARL_TRY_CLEANUP(charl_slices_block(many, charl_comm_rank(c), many, &slices));
    CHARL_TRY_CLEANUP(charl_reducer_create(c, &slices, &r));
    CHARL_TRY_CLEANUP(charl_reducer_sum(r, mine, VALUES, sum));
    CHARL_REQUIRE_CLEANUP(memcmp(sum, tree_of_many, sizeof sum) == 0, CHARL_ERR_INVALID, "a small sum");
    CHARL_TRY_CLEANUP(charl_allreduce_create(c, VALUES, &slices, NULL, &ar));
    CHARL_TRY_CLEANUP(charl_allreduce_write_lane(ar, 0, 0, VALUES, mine));
    CHARL_TRY_CLEANUP(charl_allreduce_begin(ar, 0, VALUES, &ticket));
    CHARL_TRY_CLEANUP(charl_allreduce_wait(ar, ticket));
    CHARL_TRY_CLEANUP(charl_allreduce_read_sum(ar, 0, VALUES, sum));
    CHARL_REQUIRE_CLEANUP(memcmp(sum, tree_of_many, sizeof sum) == 0, CHARL_ERR_INVALID, "an all-reduce by %s",
                          charl__allreduce_get_name(ar));
    CHARL_TRY_CLEANUP(charl_comm_barrier(c));
cleanup:
    charl_allreduce_destroy(ar);
    charl_reducer_destroy(r);
    return st;
}

static void be_one_of_many(member *m)
{
    const charl_comm_options options = {sizeof options, .timeout_s = 300, .team = m->team, .rank = m->rank,
                                        .ranks_per_node = {ranks_per_node}};
    charl_comm *c = NULL;

    m->status = charl_comm_create(&options, &c);
    m->status = m->status == CHARL_OK ? meet(m, c) : m->status;
    charl_comm_destroy(c);
}

static void test_many_ranks(void **state)
{
    static member m[MOST];
    pthread_t *thread;

    (void)state;
    many = getenv("CHARL_TEST_LONG") ? MOST : many;
    add_all(tree_of_many);
    charl_assert_ok(charl__alloc_array(many, sizeof *thread, &thread));
    for (ranks_per_node = 0; ranks_per_node <= 32; ranks_per_node += 32) { /* of one node, of 32 */
        charl_team *team = NULL;

        charl_assert_ok(charl_team_create(many, &team));
        for (int r = 0; r < many; r++) {
            m[r] = (member){.team = team, .rank = r, .work = be_one_of_many};
            assert_int_equal(pthread_create(&thread[r], NULL, member_run, &m[r]), 0);
        }
        for (int r = 0; r < many; r++) {
            assert_int_equal(pthread_join(thread[r], NULL), 0);
        }
        for (int r = 0; r < many; r++) {
            if (m[r].status != CHARL_OK) {
                fail_msg("rank %d: %s", r, m[r].message);
            }
        }
        charl_team_destroy(team);
    }
    charl_free(thread);
    assert_int_equal(charl__live(), 0);
}

/* Facts of ranks that are threads: what is said where they differ, and of whom. */

enum { CONSENSUS_MOST = 5, FACTS = 8 };

/* What one rank says; facts end with a NULL label. */
typedef struct consensus_member {
    charl_team *team;
    int rank;
    charl__fact facts[FACTS];
    charl_status mine, status;
    char message[2048];
} consensus_member;

static charl_status say(const consensus_member *m, charl_comm *c)
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

static void *consensus_member_run(void *arg)
{
    consensus_member *m = arg;
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
static charl_status reach(consensus_member *m, int n)
{
    pthread_t thread[CONSENSUS_MOST];
    charl_team *team = NULL;

    charl_assert_ok(charl_team_create(n, &team));
    for (int r = 0; r < n; r++) {
        m[r].team = team;
        m[r].rank = r;
        assert_int_equal(pthread_create(&thread[r], NULL, consensus_member_run, &m[r]), 0);
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

static void assert_says(const consensus_member *m, const char *text)
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
    consensus_member m[CONSENSUS_MOST] = {0};

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
    consensus_member m[CONSENSUS_MOST] = {0};

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
    consensus_member m[CONSENSUS_MOST] = {0};

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
    consensus_member m[CONSENSUS_MOST] = {0};

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
    consensus_member m[CONSENSUS_MOST] = {0};

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
    consensus_member m[CONSENSUS_MOST] = {0};

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
    consensus_member m[CONSENSUS_MOST] = {0};

    (void)state;
    for (int r = 0; r < 3; r++) {
        m[r].facts[0] = seed(r == 0 ? "43" : "42");
    }
    m[1].mine = CHARL_ERR_DATA;
    assert_int_equal(reach(m, 3), CHARL_ERR_DATA);
    assert_says(m, "rank 1 of 3 @: no data here");
}

static charl_status consensus_scenario(void *ctx)
{
    charl_status st = CHARL_OK;
    charl__consensus facts = {0};

    (void)ctx;
    CHARL_TRY_CLEANUP(charl__consensus_add(&facts, &(charl__fact){CHARL_ERR_DATA, "a", "b", NULL, NULL}));
cleanup:
    charl__consensus_fini(&facts);
    return st;
}

static void test_consensus_every_acquisition_may_fail(void **state)
{
    (void)state;
    assert_true(charl_test_fail_every_acquisition(consensus_scenario, NULL) >= 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_acquisition_may_fail),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_many_operations_are_under_way),
        cmocka_unit_test(test_messages_meet_by_their_tags),
        cmocka_unit_test(test_late_messages_keep_their_order),
        cmocka_unit_test(test_different_operations_are_noticed),
        cmocka_unit_test(test_a_thread_that_ends_is_a_rank_that_died),
        cmocka_unit_test(test_a_silent_thread_is_named),
        cmocka_unit_test(test_a_lone_failure_ends_both),
        cmocka_unit_test(test_many_ranks),
        cmocka_unit_test(test_equal_facts_are_a_consensus),
        cmocka_unit_test(test_the_odd_rank_is_named),
        cmocka_unit_test(test_two_ranks_have_no_majority),
        cmocka_unit_test(test_several_differ),
        cmocka_unit_test(test_further_differences_are_named),
        cmocka_unit_test(test_a_fact_that_others_lack),
        cmocka_unit_test(test_a_failure_comes_first),
        cmocka_unit_test(test_consensus_every_acquisition_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
