/* Runs on any number of ranks up to 8: everything that ranks do together. A failure on one rank
 * ends the job by its exit code. The ranks are MPI's processes or, with --threads N, N threads of
 * this process. */
#include "support/support.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/env.h"
#include "base/error.h"
#include "base/fault.h"
#include "base/numeric/tree.h"
#include "dist/allreduce/allreduce_device.h"
#include "dist/allreduce/parts.h"
#include "dist/comm_private.h"
#include "dist/consensus.h"
#include "mpi/ranks.h"

_Thread_local charl_comm *comm, *nodes, *uneven;

/* Lane j of s, folded, to `to`. */
static void lane_fill(const charl_slices *s, int j, int64_t round, int64_t n, float **leaf, float *to)
{
    const int m = s->lane_hi[j] - s->lane_lo[j];

    for (int k = 0; k < m; k++) {
        leaf_fill(leaf[k], round, s->lane_lo[j] + k, n);
    }
    charl__tree_fold(leaf, m, n);
    memcpy(to, leaf[0], (size_t)n * sizeof *to);
}

static charl_status create(charl_comm *c, const char *algorithm, int64_t n, const charl_slices *mine,
                           charl_allreduce **out)
{
    return charl_allreduce_create(
        c, n, mine, &(charl_allreduce_options){sizeof(charl_allreduce_options), .algorithm = algorithm}, out);
}

static void check(charl_comm *c, const char *name, int total, int64_t n)
{
    charl_allreduce *ar = NULL;
    charl_slices mine;
    float **leaf = leaves_alloc(total, n), *lanes, *sum;

    charl_assert_ok(charl_slices_block(total, charl_comm_rank(c), charl_comm_size(c), &mine));
    charl_assert_ok(create(c, name, n, &mine, &ar));
    lanes = charl__allreduce_lanes(ar);
    sum = charl__allreduce_sum(ar);
    assert_true(strcmp(name, "auto") == 0 || strcmp(charl__allreduce_get_name(ar), name) == 0);
    assert_int_equal((uintptr_t)lanes % 4096, 0);
    assert_int_equal((uintptr_t)sum % 4096, 0);
    assert_int_equal(charl__allreduce_stride(ar) % 1024, 0);
    for (int64_t round = 0; round < (n > 100000 ? 2 : 3); round++) {
        for (int j = 0; j < mine.n_lanes; j++) {
            lane_fill(&mine, j, round, n, leaf, lanes + j * charl__allreduce_stride(ar));
        }
        step(ar, round, n);
        for (int s = 0; s < total; s++) {
            leaf_fill(leaf[s], round, s, n);
        }
        charl__tree_fold(leaf, total, n);
        if (charl__allreduce_is_invariant(ar)) {
            charl_assert_same_bits(sum, leaf[0], n);
        } else {
            for (int64_t i = 0; i < n; i++) {
                assert_true(sum[i] - leaf[0][i] < 0.5f && leaf[0][i] - sum[i] < 0.5f);
            }
        }
    }
    charl_allreduce_destroy(ar);
    leaves_free(leaf, total);
}

static void test_every_algorithm_equals_the_serial_fold(void **state)
{
    const char *names[] = {"auto", "local", "shm", "hierarchical", "p2p", "mpi"};
    const int64_t sizes[] = {0, 1, 15, 16, 17, 5000};
    const int totals[] = {8, 11, 64};

    (void)state;
    for (size_t a = 0; a < sizeof names / sizeof *names; a++) {
        if (!is_available(names[a])) {
            continue;
        }
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            for (size_t t = 0; t < sizeof totals / sizeof *totals; t++) {
                check(comm, names[a], totals[t], sizes[i]);
            }
        }
        check(comm, names[a], 8, 1000003);
    }
}

static void test_several_nodes_give_the_same_bits(void **state)
{
    const int64_t sizes[] = {0, 1, 17, 5000};
    const int totals[] = {8, 11, 64};

    (void)state;
    if (charl_comm_size(uneven) >= 5) {
        assert_int_equal(charl_comm_node_count(uneven), 3 + (charl_comm_size(uneven) - 5) / 2);
    }
    assert_int_equal(charl_comm_node_count(nodes), (charl_comm_size(nodes) + 1) / 2);
    assert_int_equal(charl__comm_node(nodes), charl_comm_rank(nodes) / 2);
    assert_int_equal(charl_comm_local_rank(nodes), charl_comm_rank(nodes) % 2);
    check(nodes, "auto", 8, 17);
    check(nodes, "p2p", 11, 100003);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (size_t t = 0; t < sizeof totals / sizeof *totals; t++) {
            check(uneven, "auto", totals[t], sizes[i]);
        }
    }
    check(nodes, "hierarchical", 11, 100003);
    if (charl_comm_size(nodes) == 3) { /* more pieces than are on their way at a time */
        check(nodes, "hierarchical", 3, 2 * 1048576 + 77);
    }
    if (charl_comm_node_count(nodes) > 1) {
        charl_allreduce *ar = NULL;
        charl_slices mine;

        charl_assert_ok(charl_slices_block(8, charl_comm_rank(nodes), charl_comm_size(nodes), &mine));
        charl_assert_status(create(nodes, "shm", 4, &mine, &ar), CHARL_ERR_CONFIG);
        charl_assert_message("several nodes");
        assert_null(ar);
    }
}

static void test_a_wrong_algorithm_is_refused(void **state)
{
    charl_allreduce *ar = NULL;
    charl_slices mine;

    (void)state;
    charl_assert_ok(charl_slices_block(8, charl_comm_rank(comm), charl_comm_size(comm), &mine));
    charl_assert_status(create(comm, "ring", 4, &mine, &ar), CHARL_ERR_CONFIG);
    charl_assert_message("hierarchical, local, p2p, mpi, peer, shm");
    charl_assert_status(
        charl_allreduce_create(comm, 4, &mine,
                               &(charl_allreduce_options){sizeof(charl_allreduce_options), .reduce_dtype = CHARL_I32},
                               &ar),
        CHARL_ERR_CONFIG);
    charl_assert_message("reduce_dtype");
    charl__env_set(CHARL_ENV_ALLREDUCE, "p2p");
    charl_assert_ok(create(comm, "auto", 4, &mine, &ar));
    assert_string_equal(charl__allreduce_get_name(ar), "p2p");
    charl__env_set(CHARL_ENV_ALLREDUCE, NULL);
    charl_allreduce_destroy(ar);
    charl_assert_status(create(comm, "auto", -1, &mine, &ar), CHARL_ERR_INVALID);
    mine.first++;
    charl_assert_status(create(comm, "auto", 4, &mine, &ar), CHARL_ERR_INVALID);
    if (charl_comm_size(comm) > 1) {
        charl_assert_ok(charl_slices_block(8, charl_comm_rank(comm), charl_comm_size(comm), &mine));
        charl_assert_status(create(comm, "auto", charl_comm_rank(comm), &mine, &ar), CHARL_ERR_INVALID);
        charl_assert_status(create(comm, "local", 4, &mine, &ar), CHARL_ERR_CONFIG);
    }
}

static void test_wrong_ranges_are_refused(void **state)
{
    charl_allreduce *ar = NULL;
    charl_slices mine;
    int64_t ticket = 0;

    (void)state;
    charl_assert_ok(charl_slices_block(8, charl_comm_rank(comm), charl_comm_size(comm), &mine));
    charl_assert_ok(create(comm, "auto", 4, &mine, &ar));
    charl_assert_status(charl_allreduce_begin(ar, -1, 2, &ticket), CHARL_ERR_INVALID);
    charl_assert_status(charl_allreduce_begin(ar, 3, 2, &ticket), CHARL_ERR_INVALID);
    charl_assert_status(charl_allreduce_wait(ar, 0), CHARL_ERR_INVALID);
    for (int i = 0; i < 512; i++) {
        charl_assert_ok(charl_allreduce_begin(ar, 0, 4, &ticket));
    }
    charl_assert_status(charl_allreduce_begin(ar, 0, 4, &ticket), CHARL_ERR_INVALID);
    charl_assert_ok(charl_allreduce_wait(ar, ticket));
    charl_assert_ok(charl_allreduce_begin(ar, 0, 4, &ticket));
    charl_assert_ok(charl_allreduce_wait(ar, ticket));
    charl_allreduce_destroy(ar);
}

static void small_sums(charl_comm *c, int total, int64_t count, int64_t rounds)
{
    charl_reducer *r = NULL;
    charl_slices mine;
    float **leaf = leaves_alloc(total, count);
    float *lanes = malloc(CHARL_MAX_LANES * (size_t)count * sizeof *lanes);

    assert_non_null(lanes);
    charl_assert_ok(charl_slices_block(total, charl_comm_rank(c), charl_comm_size(c), &mine));
    charl_assert_ok(charl_reducer_create(c, &mine, &r));
    for (int64_t round = 0; round < rounds; round++) {
        for (int j = 0; j < mine.n_lanes; j++) {
            lane_fill(&mine, j, round, count, leaf, lanes + j * count);
        }
        pause_randomly(round);
        charl_assert_ok(charl_reducer_sum(r, lanes, count, lanes));
        for (int s = 0; s < total; s++) {
            leaf_fill(leaf[s], round, s, count);
        }
        charl__tree_fold(leaf, total, count);
        assert_memory_equal(lanes, leaf[0], (size_t)count * sizeof *lanes);
    }
    charl_reducer_destroy(r);
    free(lanes);
    leaves_free(leaf, total);
}

static void test_small_sums_back_to_back(void **state)
{
    (void)state;
    small_sums(comm, 8, 3, 10000);
    small_sums(comm, 11, 1, 200);
    small_sums(comm, 8, 20000, 5); /* more than one piece */
    small_sums(comm, 64, 5000, 5);
    small_sums(nodes, 8, 3, 500);
    small_sums(nodes, 11, 20000, 3);
}

static void test_control_collectives(void **state)
{
    const int rank = charl_comm_rank(comm), size = charl_comm_size(comm);
    int64_t i[2] = {rank, -rank}, all[CHARL_MAX_SLICES];
    double d = rank + 0.5;
    char text[16] = "";

    (void)state;
    charl_assert_ok(charl_comm_reduce_i64(comm, CHARL_COMM_MAX, i, 2));
    assert_int_equal(i[0], size - 1);
    assert_int_equal(i[1], 0);
    charl_assert_ok(charl_comm_reduce_f64(comm, CHARL_COMM_MIN, &d, 1));
    assert_true(d > 0.4 && d < 0.6);
    i[0] = rank;
    charl_assert_ok(charl_comm_reduce_i64(comm, CHARL_COMM_SUM, i, 1));
    assert_int_equal(i[0], size * (size - 1) / 2);
    charl_assert_status(charl_comm_reduce_i64(comm, CHARL_COMM_OP_COUNT, i, 1), CHARL_ERR_INVALID);
    i[0] = rank * 10;
    charl_assert_ok(charl_comm_allgather(comm, &i[0], sizeof i[0], all));
    for (int r = 0; r < size; r++) {
        assert_int_equal(all[r], r * 10);
    }
    if (rank == size - 1) {
        strcpy(text, "hello");
    }
    charl_assert_ok(charl_comm_broadcast(comm, text, sizeof text, size - 1));
    assert_string_equal(text, "hello");
    charl_assert_status(charl_comm_broadcast(comm, text, sizeof text, size), CHARL_ERR_INVALID);
    charl_assert_ok(charl_comm_barrier(comm));
    assert_int_equal(charl_comm_pid(comm, rank), getpid());
    assert_int_equal(charl_comm_pid(comm, size), -1);
    assert_true(strlen(charl_comm_host(comm, 0)) > 0);
    assert_string_equal(charl_comm_host(comm, -1), "");
    assert_int_equal(charl_comm_local_size(comm), size);
    assert_int_equal(charl_comm_node_count(comm), 1);
}

static charl_status fail_if(bool fails, charl_status code)
{
    return fails ? charl_error_set(code, __FILE__, __LINE__, __func__, "batch of 512 does not fit") : CHARL_OK;
}

static void test_agreement(void **state)
{
    const int rank = charl_comm_rank(comm), last = charl_comm_size(comm) - 1;

    (void)state;
    charl_assert_ok(charl_comm_agree(comm, CHARL_OK));
    charl_assert_status(charl_comm_agree(comm, fail_if(rank == last, CHARL_ERR_NOMEM)), CHARL_ERR_NOMEM);
    charl_assert_message("batch of 512 does not fit");
    if (last > 0) {
        char name[32];

        snprintf(name, sizeof name, "rank %d of %d (", last, last + 1);
        charl_assert_message(name);
        /* the worst wins */
        charl_assert_status(charl_comm_agree(comm, fail_if(true, rank == 0 ? CHARL_ERR_DISK : CHARL_ERR_CONFIG)),
                            CHARL_ERR_DISK);
        charl_assert_message("rank 0 of");
        assert_true(charl__comm_is_agreed(comm));
        charl__error_prefix("step 7: ");
        assert_true(charl__comm_is_agreed(comm));
        charl_assert_status(fail_if(true, CHARL_ERR_DISK), CHARL_ERR_DISK); /* alone */
        assert_false(charl__comm_is_agreed(comm));
        charl_assert_status(charl__comm_agreed(comm, fail_if(true, CHARL_ERR_DISK)), CHARL_ERR_DISK);
        assert_true(charl__comm_is_agreed(comm));
    }
    charl_assert_ok(charl_comm_agree(comm, CHARL_OK));
}

static charl_status compare(const char *value, const char *more)
{
    charl_status st = CHARL_OK;
    charl__consensus facts = {0};

    CHARL_TRY_CLEANUP(
        charl__consensus_add(&facts, &(charl__fact){CHARL_ERR_DEVICE, "parameters", value, "a note", "look"}));
    if (more) {
        CHARL_TRY_CLEANUP(charl__consensus_add(&facts, &(charl__fact){CHARL_ERR_DATA, more, "there", NULL, NULL}));
    }
cleanup:
    st = charl__consensus_reach(&facts, st, comm);
    charl__consensus_fini(&facts);
    return st;
}

static void test_comparison_names_the_odd_rank(void **state)
{
    const int rank = charl_comm_rank(comm), size = charl_comm_size(comm);
    const bool odd = rank == size - 1 && size > 1;
    char want[96];

    (void)state;
    charl_assert_ok(compare("1234", NULL));
    charl_assert_ok(compare("1234", "data"));
    if (size > 1) {
        charl_assert_status(compare(odd ? "1235" : "1234", "data"), CHARL_ERR_DEVICE);
        snprintf(want, sizeof want, "rank %d of %d (", size - 1, size);
        charl_assert_message(want);
        charl_assert_message(") has parameters = 123");
        charl_assert_message(" 1234 (a note)");
        charl_assert_message("; HINT look");
        if (size > 2) {
            snprintf(want, sizeof want, ", the other %d ranks have 1234", size - 1);
            charl_assert_message(want);
        }
        charl_assert_status(compare("1234", odd ? "data" : NULL), CHARL_ERR_DATA);
        charl_assert_message(size > 2 ? ") has data = there, the other" : ") has no data, rank 1");
        charl_assert_ok(compare("1234", NULL)); /* a difference breaks nothing */
    }
}

static void test_too_little_shared_memory(void **state)
{
    const bool is_team = charl_comm_is_team(comm); /* needs none: threads share their memory */
    charl_allreduce *ar = NULL;
    charl_reducer *r = NULL;
    charl_slices mine;

    (void)state;
    if (charl_comm_size(comm) == 1) {
        return; /* neither */
    }
    charl_assert_ok(charl_slices_block(8, charl_comm_rank(comm), charl_comm_size(comm), &mine));
    charl_assert_ok(charl__fault_set("comm.shm@0:1+:1000000"));
    charl_assert_status(create(comm, "auto", 1 << 20, &mine, &ar), is_team ? CHARL_OK : CHARL_ERR_NOMEM);
    if (!is_team) {
        charl_assert_message("/dev/shm, which has 1.0 MB free");
    }
    charl_assert_ok(charl__fault_set("comm.shm@0:1+:1"));
    charl_assert_status(charl_reducer_create(comm, &mine, &r), is_team ? CHARL_OK : CHARL_ERR_NOMEM);
    charl_assert_ok(charl__fault_set(NULL));
    charl_assert_ok(charl_comm_barrier(comm));
    charl_reducer_destroy(r);
    charl_allreduce_destroy(ar);
}

static void test_unequal_blocks(void **state)
{
    const int rank = charl_comm_rank(comm), size = charl_comm_size(comm);
    charl_reducer *r = NULL;
    charl_slices mine;
    float lanes[CHARL_MAX_LANES], data[64], *leaf[64];

    (void)state;
    /* rank 0 is slow: it takes 3 slices; the last takes what the others leave, rank 1 perhaps none
     */
    charl_assert_ok(charl_slices_range(64, rank == 0 ? 0 : 3,
                                       size == 1          ? 64
                                       : rank == 0        ? 3
                                       : rank == size - 1 ? 61
                                                          : 0,
                                       &mine));
    for (int s = 0; s < 64; s++) {
        leaf[s] = &data[s];
        data[s] = value(9, s, 0);
    }
    for (int j = 0; j < mine.n_lanes; j++) {
        charl__tree_fold(leaf + mine.lane_lo[j], mine.lane_hi[j] - mine.lane_lo[j], 1);
        lanes[j] = data[mine.lane_lo[j]];
    }
    charl_assert_ok(charl_reducer_create(comm, &mine, &r));
    charl_assert_ok(charl_reducer_sum(r, lanes, 1, lanes));
    for (int s = 0; s < 64; s++) {
        data[s] = value(9, s, 0);
    }
    charl__tree_fold(leaf, 64, 1);
    assert_memory_equal(lanes, data, sizeof *lanes);
    charl_reducer_destroy(r);
}

static void test_processors(void **state)
{
    charl_comm *again = NULL;

    (void)state;
    if (charl_comm_is_team(comm)) {
        return; /* what follows is one environment */
    }
    unsetenv("POCL_MAX_PTHREAD_COUNT");
    setenv("POCL_CPU_MAX_CU_COUNT", "77", 1);
    charl_assert_ok(charl_comm_create(NULL, &again));
    assert_in_range(strtol(getenv("POCL_MAX_PTHREAD_COUNT"), NULL, 10), 1, sysconf(_SC_NPROCESSORS_ONLN));
    assert_string_equal(getenv("POCL_CPU_MAX_CU_COUNT"), "77");
    charl_comm_destroy(again);
}

static void died(void *ctx, const charl_comm_death *death)
{
    (void)death;
    *(int *)ctx += 1;
}

static void test_a_watch_without_deaths_reports_none(void **state)
{
    int deaths = 0;

    (void)state;
    charl_comm_watch_end(comm);
    charl_assert_ok(charl_comm_watch_begin(comm, died, &deaths));
    charl_assert_status(charl_comm_watch_begin(comm, died, &deaths), CHARL_ERR_INVALID);
    charl_comm_mark(comm, 3, "a phase whose name is longer than what a slot can hold of it");
    charl__sleep_s(0.35);
    charl_comm_watch_end(comm);
    assert_int_equal(deaths, 0);
    charl_assert_ok(charl_comm_barrier(comm));
}

static _Thread_local charl_comm_options options = {sizeof options, .timeout_s = 20};

static int ranks_begin(void **state)
{
    (void)state;
    if (charl_comm_create(&options, &comm) != CHARL_OK) {
        return 1;
    }
    options.ranks_per_node[0] = 2;
    if (charl_comm_create(&options, &nodes) != CHARL_OK) {
        return 1;
    }
    memcpy(options.ranks_per_node, (int[]){1, 3, 2, 0}, sizeof options.ranks_per_node);
    return charl_comm_create(&options, &uneven) != CHARL_OK;
}

static int ranks_end(void **state)
{
    (void)state;
    if (charl_comm_is_broken(comm) || charl_comm_is_broken(nodes) || charl_comm_is_broken(uneven)) {
        return 1;
    }
    charl_comm_destroy(uneven);
    charl_comm_destroy(nodes);
    charl_comm_destroy(comm);
    return 0;
}

static int rank_run(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_control_collectives),
        cmocka_unit_test(test_agreement),
        cmocka_unit_test(test_comparison_names_the_odd_rank),
        cmocka_unit_test(test_every_algorithm_equals_the_serial_fold),
        cmocka_unit_test(test_sums_in_bf16),
        cmocka_unit_test(test_gathering),
        cmocka_unit_test(test_scattering),
        cmocka_unit_test(test_several_nodes_give_the_same_bits),
        cmocka_unit_test(test_a_wrong_algorithm_is_refused),
        cmocka_unit_test(test_wrong_ranges_are_refused),
        cmocka_unit_test(test_small_sums_back_to_back),
        cmocka_unit_test(test_unequal_blocks),
        cmocka_unit_test(test_too_little_shared_memory),
        cmocka_unit_test(test_processors),
        cmocka_unit_test(test_a_watch_without_deaths_reports_none),
        cmocka_unit_test(test_links_grow_with_the_logarithm),
        cmocka_unit_test(test_nodes_hear_of_each_other),
        cmocka_unit_test(test_news_go_round),
        cmocka_unit_test(test_a_connection_without_token_is_closed),
        cmocka_unit_test(test_nodes_that_do_not_hear_work_on),
    };
    const int failed = cmocka_run_group_tests(tests, ranks_begin, ranks_end);

    if (failed) { /* the ranks may have parted: no more waiting for each other */
        fflush(NULL);
        charl_comm_exit(NULL, 1, NULL);
    }
    return failed;
}

static void *thread_run(void *arg)
{
    options = *(const charl_comm_options *)arg;
    rank_run();
    return NULL;
}

static int team_run(int size)
{
    pthread_t thread[CHARL_MAX_SLICES];
    charl_comm_options of_rank[CHARL_MAX_SLICES];
    charl_team *team = NULL;

    if (charl_team_create(size, &team) != CHARL_OK) {
        return 1;
    }
    for (int r = 0; r < size; r++) {
        of_rank[r] = (charl_comm_options){sizeof(charl_comm_options), .timeout_s = 20, .team = team, .rank = r};
        if (pthread_create(&thread[r], NULL, thread_run, &of_rank[r]) != 0) {
            return 1;
        }
    }
    for (int r = 0; r < size; r++) {
        pthread_join(thread[r], NULL);
    }
    charl_team_destroy(team);
    return 0;
}

int main(int argc, char **argv)
{
    int failed = 0;

    if (argc > 2 && strcmp(argv[1], "--threads") == 0) {
        charl_test_select(argv + 3);
        failed = team_run((int)strtol(argv[2], NULL, 10));
    } else if (charl_comm_init(&argc, &argv) != CHARL_OK) {
        fprintf(stderr, "%s\n", charl_error_message());
        failed = 1;
    } else {
        failed = rank_run();
        charl_comm_fini();
    }
    return failed || charl__live() != 0;
}
