/* All-reduces with options: values in bf16, gathering. */
#include <stdlib.h>
#include <string.h>

#include "mpi/ranks.h"
#include "dist/allreduce/parts.h"
#include "support/support.h"

/* Ranks write their parts, sums in between say that all have read them. */
static void check_gather(charl_comm *c, const char *name, int64_t n)
{
    const int64_t cut[] = {0, n / 3, n};
    charl_allreduce *ar = NULL;
    charl_slices mine;
    int64_t ticket[2], from, to;

    charl_assert_ok(charl_slices_block(8, charl_comm_rank(c), charl_comm_size(c), &mine));
    charl_assert_ok(charl_allreduce_create(
        c, n, &mine, &(charl_allreduce_options){sizeof(charl_allreduce_options), .algorithm = name, .gathers = true},
        &ar));
    assert_int_equal((uintptr_t)charl__allreduce_gathered(ar) % 4096, 0);
    for (int64_t round = 0; round < 3; round++) {
        float *v = charl__allreduce_gathered(ar);

        step(ar, round, n);
        for (int b = 0; b < 2; b++) {
            charl__allreduce_part(ar, cut[b + 1] - cut[b], charl_comm_rank(c), &from, &to);
            for (int64_t i = cut[b] + from; i < cut[b] + to; i++) {
                v[i] = value(round, 1, i);
            }
            pause_randomly(round);
            charl_assert_ok(charl__allreduce_gather(ar, cut[b], cut[b + 1] - cut[b], &ticket[b]));
        }
        charl_assert_ok(charl_allreduce_wait(ar, ticket[1]));
        for (int64_t i = 0; i < n; i++) {
            const float want = value(round, 1, i);

            assert_memory_equal(&v[i], &want, sizeof want);
        }
    }
    charl_allreduce_destroy(ar);
}

void test_sums_in_bf16(void **state)
{
    charl_allreduce *ar = NULL;
    charl_slices mine;

    (void)state;
    check_bf16(comm, "auto", NULL, NULL, 11, 17);
    check_bf16(comm, "shm", NULL, NULL, 8, 5000);
    check_bf16(comm, "p2p", NULL, NULL, 64, 5000);
    check_bf16(comm, "auto", NULL, NULL, 8, 0);
    check_bf16(nodes, "auto", NULL, NULL, 11, 5000);
    check_bf16(nodes, "p2p", NULL, NULL, 11, 5000);
    check_bf16(uneven, "auto", NULL, NULL, 64, 5000);
    charl_assert_ok(charl_slices_block(8, charl_comm_rank(comm), charl_comm_size(comm), &mine));
    charl_assert_status(
        charl_allreduce_create(
            comm, 4, &mine,
            &(charl_allreduce_options){sizeof(charl_allreduce_options), .algorithm = "mpi", .reduce_dtype = CHARL_BF16},
            &ar),
        CHARL_ERR_CONFIG);
    charl_assert_message("reduce_dtype");
}

void test_gathering(void **state)
{
    const char *names[] = {"auto", "shm", "hierarchical", "p2p", "mpi"};
    charl_allreduce *ar = NULL;
    charl_slices mine;
    int64_t ticket = 0;

    (void)state;
    for (size_t a = 0; a < sizeof names / sizeof *names; a++) {
        if (is_available(names[a])) {
            check_gather(comm, names[a], 1);
            check_gather(comm, names[a], 70000);
        }
    }
    check_gather(nodes, "auto", 5000);
    check_gather(nodes, "p2p", 5000);
    check_gather(uneven, "auto", 70000);
    charl_assert_ok(charl_slices_block(8, charl_comm_rank(comm), charl_comm_size(comm), &mine));
    charl_assert_ok(charl_allreduce_create(comm, 4, &mine, NULL, &ar));
    assert_null(charl__allreduce_gathered(ar));
    charl_assert_status(charl__allreduce_gather(ar, 0, 4, &ticket), CHARL_ERR_INVALID);
    charl_allreduce_destroy(ar);
}
