#include "support/support.h"

#include <math.h>

#include "cli/cli_scaling.h"

static void assert_close(double got, double want)
{
    if (fabs(got - want) > 1e-9 * fabs(want) + 1e-15) {
        fail_msg("%.17g, expected %.17g", got, want);
    }
}

/* 10 us and 100 GB/s in a node of 4, 50 us and 10 GB/s between nodes. */
static const charl__cluster cluster = {{10e-6, 1e-11}, {50e-6, 1e-10}, 4};

static void test_allreduce(void **state)
{
    (void)state;
    assert_close(charl__scaling_allreduce_s(&cluster, 1, 1e9), 0);
    assert_close(charl__scaling_allreduce_s(&cluster, 2, 1e9), 20e-6 + 1e-2);
    assert_close(charl__scaling_allreduce_s(&cluster, 4, 1e9), 20e-6 + 1.5e-2);
    assert_close(charl__scaling_allreduce_s(&cluster, 8, 1e9), 20e-6 + 1.5e-2 + 100e-6 + 1e-1);
    assert_close(charl__scaling_allreduce_s(&cluster, 16, 0), 20e-6 + 300e-6);
}

static void test_fit_finds_the_link(void **state)
{
    (void)state;
    for (int ranks = 2; ranks <= 4; ranks++) {
        const charl__link l = charl__scaling_fit(ranks, 4096, charl__scaling_allreduce_s(&cluster, ranks, 4096), 25e6,
                                                 charl__scaling_allreduce_s(&cluster, ranks, 25e6));

        assert_close(l.alpha_s, cluster.near.alpha_s);
        assert_close(l.beta_s, cluster.near.beta_s);
    }
    /* Noise must not make a link that is quicker than none. */
    assert_close(charl__scaling_fit(2, 4096, 2e-3, 25e6, 1e-3).beta_s, 0);
}

static void test_exposed(void **state)
{
    charl__step_work w = {.compute_s = 0.3, .bytes = 1e9, .buckets = 1, .backward = 0};
    const double whole = charl__scaling_allreduce_s(&cluster, 4, 1e9),
                 tenth = charl__scaling_allreduce_s(&cluster, 4, 1e8);

    (void)state;
    assert_close(charl__scaling_exposed_s(&cluster, 4, &w), whole);
    w.backward = 2.0 / 3; /* one bucket is ready when all is computed */
    assert_close(charl__scaling_exposed_s(&cluster, 4, &w), whole);
    w.buckets = 10; /* each flies while the next is computed, but for the last */
    assert_close(charl__scaling_exposed_s(&cluster, 4, &w), tenth);
    w.compute_s = 0; /* nothing to hide behind */
    assert_close(charl__scaling_exposed_s(&cluster, 4, &w), 10 * tenth);
    w.compute_s = 1.5 * 0.05; /* the link never rests after the first bucket */
    assert_close(charl__scaling_exposed_s(&cluster, 8, &w),
                 0.005 + 10 * charl__scaling_allreduce_s(&cluster, 8, 1e8) - 0.05);
    assert_close(charl__scaling_exposed_s(&cluster, 1, &w), 0);
    /* What is ready last, and the ninth of the others before it, which takes as long. */
    w = (charl__step_work){.compute_s = 0.3, .bytes = 1e9, .last = 1e8, .buckets = 9, .backward = 2.0 / 3};
    assert_close(charl__scaling_exposed_s(&cluster, 4, &w), 2 * tenth);
    w.last = 0.91e9;
    assert_close(charl__scaling_exposed_s(&cluster, 4, &w),
                 charl__scaling_allreduce_s(&cluster, 4, 0.91e9) + charl__scaling_allreduce_s(&cluster, 4, 0.01e9));
}

static void test_compute(void **state)
{
    const charl__compute_curve curve = {3, {1, 2, 8}, {1.0, 1.5, 3.5}}, single = {1, {4}, {2.0}};

    (void)state;
    assert_close(charl__scaling_compute_s(&curve, 1), 1.0);
    assert_close(charl__scaling_compute_s(&curve, 1.5), 1.25);
    assert_close(charl__scaling_compute_s(&curve, 2), 1.5);
    assert_close(charl__scaling_compute_s(&curve, 5), 2.5);
    assert_close(charl__scaling_compute_s(&curve, 11), 4.5);
    assert_close(charl__scaling_compute_s(&curve, 0.5), 0.75);
    assert_close(charl__scaling_compute_s(&single, 2), 1.0);
}

/* A step of dist.shard, by hand: 1 GB in 10 buckets, nothing hidden, 10 us and 100 GB/s in nodes of 4, 50 us and 10 GB/s between them, 20 GB/s
 * to the host and 1 GB/s of messages. */
static void test_sharded(void **state)
{
    const charl__sharded_cluster c = {cluster, 20e9, 1e9};
    const charl__step_work w = {.compute_s = 0.3, .bytes = 1e9, .buckets = 10, .backward = 0};
    const double near = 0.0075, far = 0.05, wait = 50e-6;

    (void)state;
    for (int shard = 0; shard < 4; shard++) {
        assert_close(charl__scaling_step_s(&c, 1, (charl_shard)shard, &w, 3), 0.3);
        assert_close(charl__scaling_traffic(&c, 4, (charl_shard)shard, 1e9), 0);
    }
    assert_close(charl__scaling_traffic(&c, 8, CHARL_SHARD_NONE, 1e9), 1e9);
    assert_close(charl__scaling_traffic(&c, 8, CHARL_SHARD_OPTIMIZER, 1e9), 1.5e9);
    assert_close(charl__scaling_traffic(&c, 8, CHARL_SHARD_GRADIENTS, 1e9), 1e9);
    assert_close(charl__scaling_step_s(&c, 4, CHARL_SHARD_NONE, &w, 3), 0.3 + 2 * near + 10 * 2 * 10e-6);
    assert_close(charl__scaling_step_s(&c, 8, CHARL_SHARD_NONE, &w, 3),
                 0.3 + 2 * (near + far) + 10 * 2 * (wait + 10e-6));
    assert_close(charl__scaling_step_s(&c, 8, CHARL_SHARD_OPTIMIZER, &w, 3),
                 0.3 + 2 * (near + far) + 10 * 2 * (wait + 10e-6) + near + far + 3 * wait);
    assert_close(charl__scaling_step_s(&c, 4, CHARL_SHARD_GRADIENTS, &w, 3), 0.3 + near + 10 * 10e-6 + near);
    assert_close(charl__scaling_step_s(&c, 8, CHARL_SHARD_GRADIENTS, &w, 3), /* sums in host memory */
                 0.3 + 0.05 + far + 10 * (wait + 10e-6) + 0.05 + far + 3 * wait);
    assert_close(charl__scaling_step_s(&c, 8, CHARL_SHARD_PARAMETERS, &w, 3),
                 0.875 + 0.05); /* messages, and the upload */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_allreduce), cmocka_unit_test(test_fit_finds_the_link),
        cmocka_unit_test(test_exposed),   cmocka_unit_test(test_compute),
        cmocka_unit_test(test_sharded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
