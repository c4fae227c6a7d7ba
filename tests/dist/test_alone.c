/* One rank without a launcher: every acquisition fails once, nothing is left alive. */
#include "support/support.h"

#include "charl/error.h"
#include "charl/comm.h"

static charl_status scenario(void *ctx)
{
    charl_status st = CHARL_OK;
    const char *name = ctx;
    charl_comm *c = NULL;
    charl_allreduce *ar = NULL;
    charl_reducer *r = NULL;
    charl_slices mine;
    float one[1] = {1};
    int64_t ticket = 0;

    CHARL_TRY_CLEANUP(charl_comm_create(NULL, &c));
    CHARL_TRY_CLEANUP(charl_comm_watch_begin(c, NULL, NULL));
    CHARL_TRY_CLEANUP(charl_slices_block(8, 0, 1, &mine));
    CHARL_TRY_CLEANUP(charl_allreduce_create(
        c, 100, &mine, &(charl_allreduce_options){sizeof(charl_allreduce_options), .algorithm = name}, &ar));
    CHARL_TRY_CLEANUP(charl_allreduce_begin(ar, 0, 100, &ticket));
    CHARL_TRY_CLEANUP(charl_allreduce_wait(ar, ticket));
    CHARL_TRY_CLEANUP(charl_reducer_create(c, &mine, &r));
    CHARL_TRY_CLEANUP(charl_reducer_sum(r, one, 1, one));
cleanup:
    charl_reducer_destroy(r);
    charl_allreduce_destroy(ar);
    charl_comm_destroy(c);
    return st;
}

static void test_every_acquisition_may_fail(void **state)
{
    char names[][16] = {"auto", "shm", "hierarchical", "p2p", "mpi"};

    (void)state;
    for (int i = 0; i < 5; i++) {
        assert_true(charl_test_fail_every_acquisition(scenario, names[i]) > 10);
    }
}

/* The lanes and the sum as a program copies them, and ranges that leave them. */
static void test_lanes_are_copied(void **state)
{
    const char *const names[] = {"local", "shm"};
    float in[10], out[10];
    charl_slices mine;
    charl_comm *c;

    (void)state;
    for (int i = 0; i < 10; i++) {
        in[i] = (float)i;
    }
    charl_assert_ok(charl_comm_create(NULL, &c));
    charl_assert_ok(charl_slices_block(1, 0, 1, &mine));
    for (int k = 0; k < 2; k++) {
        const charl_allreduce_options options = {sizeof options, .algorithm = names[k]};
        charl_allreduce *ar;
        int64_t ticket;

        charl_assert_ok(charl_allreduce_create(c, 100, &mine, &options, &ar));
        charl_assert_ok(charl_allreduce_write_lane(ar, 0, 90, 10, in));
        charl_assert_ok(charl_allreduce_begin(ar, 0, 100, &ticket));
        charl_assert_ok(charl_allreduce_wait(ar, ticket));
        charl_assert_ok(charl_allreduce_read_sum(ar, 90, 10, out));
        assert_memory_equal(out, in, sizeof in);
        charl_assert_status(charl_allreduce_write_lane(ar, 0, 91, 10, in), CHARL_ERR_INVALID);
        charl_assert_status(charl_allreduce_write_lane(ar, 1, 0, 1, in), CHARL_ERR_INVALID);
        charl_assert_status(charl_allreduce_read_sum(ar, -1, 1, out), CHARL_ERR_INVALID);
        charl_assert_status(charl_allreduce_read_sum(ar, 0, 101, out), CHARL_ERR_INVALID);
        charl_allreduce_destroy(ar);
    }
    charl_comm_destroy(c);
}

static void test_destroying_nothing_is_fine(void **state)
{
    (void)state;
    charl_comm_destroy(NULL);
    charl_allreduce_destroy(NULL);
    charl_reducer_destroy(NULL);
}

static charl_status before_init;

static void test_mpi_starts_once(void **state)
{
    (void)state;
    assert_int_equal(before_init, CHARL_ERR_INVALID);
    charl_assert_status(charl_comm_init(NULL, NULL), CHARL_ERR_INVALID);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_acquisition_may_fail),
        cmocka_unit_test(test_lanes_are_copied),
        cmocka_unit_test(test_destroying_nothing_is_fine),
        cmocka_unit_test(test_mpi_starts_once),
    };
    charl_comm *c = NULL;
    int failed;

    before_init = charl_comm_create(NULL, &c);
    if (charl_comm_init(&argc, &argv) != CHARL_OK) {
        return 1;
    }
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    charl_comm_fini();
    return failed || charl_comm_create(NULL, &c) != CHARL_ERR_INVALID;
}
