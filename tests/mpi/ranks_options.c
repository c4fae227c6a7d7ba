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
            charl__allreduce_part(ar, cut[b], cut[b + 1] - cut[b], charl_comm_rank(c), &from, &to);
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

/* Scattered sums are those that all ranks get, in a rank's part of every range. */
static void check_scatter(charl_comm *c, const char *name, charl_dtype dtype, int64_t n)
{
    const int64_t cut[] = {0, n / 7, n / 7, n / 2, n}; /* as `step` */
    const size_t size = charl_dtype_size(dtype), bytes = (size_t)n * size;
    unsigned char *lane = malloc(bytes + 1), *all = malloc(bytes + 1), *own = malloc(bytes + 1);
    charl_allreduce *ar[2];
    charl_slices mine;

    assert_true(lane && all && own);
    charl_assert_ok(charl_slices_block(11, charl_comm_rank(c), charl_comm_size(c), &mine));
    for (int k = 0; k < 2; k++) {
        charl_assert_ok(charl_allreduce_create(c, n, &mine,
                                               &(charl_allreduce_options){sizeof(charl_allreduce_options),
                                                                          .algorithm = k == 0 ? "p2p" : name,
                                                                          .reduce_dtype = dtype, .scatters = k == 1},
                                               &ar[k]));
    }
    assert_ptr_equal(charl__allreduce_sum(ar[1]), charl__allreduce_lanes(ar[1]));
    for (int64_t round = 0; round < 2; round++) {
        for (int k = 0; k < 2; k++) {
            for (int j = 0; j < mine.n_lanes; j++) {
                for (int64_t i = 0; i < n; i++) {
                    const float x = value(round, mine.lane_lo[j], i);

                    memcpy(lane + (size_t)i * size, (const char *)&x + sizeof x - size, size); /* bf16: cut */
                }
                charl_assert_ok(charl_allreduce_write_lane(ar[k], j, 0, n, lane));
            }
            step(ar[k], round, n);
        }
        charl_assert_ok(charl_allreduce_read_sum(ar[0], 0, n, all));
        charl_assert_ok(charl_allreduce_read_sum(ar[1], 0, n, own));
        for (int b = 0; b < 4; b++) {
            int64_t from, to;

            charl__allreduce_part(ar[1], cut[b], cut[b + 1] - cut[b], charl_comm_rank(c), &from, &to);
            assert_memory_equal(all + (size_t)(cut[b] + from) * size, own + (size_t)(cut[b] + from) * size,
                                (size_t)(to - from) * size);
        }
    }
    charl_allreduce_destroy(ar[0]);
    charl_allreduce_destroy(ar[1]);
    free(lane);
    free(all);
    free(own);
}

void test_scattering(void **state)
{
    charl_allreduce *ar = NULL;
    charl_slices mine;

    (void)state;
    for (int k = 0; k < 2; k++) {
        const charl_dtype dtype = k == 0 ? CHARL_F32 : CHARL_BF16;

        check_scatter(comm, "auto", dtype, 1);
        check_scatter(comm, "shm", dtype, 70001);
        check_scatter(comm, "p2p", dtype, 70001);
        check_scatter(nodes, "auto", dtype, 5000);
        check_scatter(nodes, "p2p", dtype, 5000);
        check_scatter(uneven, "auto", dtype, 5000);
        check_scatter(comm, "hierarchical", dtype, 700);
    }
    check_scatter(comm, "p2p", CHARL_F32, 2500000); /* several pieces */
    check_scatter(nodes, "hierarchical", CHARL_F32, 700001);
    check_scatter(uneven, "hierarchical", CHARL_F32, 700001);
    if (is_available("mpi") && charl_comm_size(comm) > 1) {
        charl_assert_ok(charl_slices_block(8, charl_comm_rank(comm), charl_comm_size(comm), &mine));
        charl_assert_status(charl_allreduce_create(comm, 4, &mine,
                                                   &(charl_allreduce_options){sizeof(charl_allreduce_options),
                                                                              .algorithm = "mpi", .scatters = true},
                                                   &ar),
                            CHARL_ERR_CONFIG);
        charl_assert_message("as sharded gradients need");
    }
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
