/* Drawing tokens: greedy, cut by rank and by probability, in proportion, and the same again. */
#include "support/support.h"

#include <math.h>

#include "config/values.h"
#include "infer/sample.h"

static const float logits[] = {0.0F, 2.0F, 1.0F, 2.0F, -1.0F};
enum { N = 5, DRAWS = 20000 };

/* How often each token comes, of DRAWS. */
static void count(const charl_generate_options *o, int *times)
{
    for (int i = 0; i < N; i++) {
        times[i] = 0;
    }
    for (int i = 0; i < DRAWS; i++) {
        int32_t token, again;

        charl_assert_ok(charl__sample(o, logits, N, (uint64_t)i, &token));
        charl_assert_ok(charl__sample(o, logits, N, (uint64_t)i, &again));
        assert_int_equal(token, again);
        assert_in_range(token, 0, N - 1);
        times[token]++;
    }
}

static void zero_is_greedy(void **state)
{
    const charl_generate_options o = {sizeof o, .temperature = 0.0, .top_p = 1.0};
    int times[N];

    (void)state;
    count(&o, times);
    assert_int_equal(times[1], DRAWS); /* the first of the two largest */
}

static void in_proportion(void **state)
{
    const charl_generate_options o = {sizeof o, .temperature = 2.0, .top_p = 1.0, .seed = 5};
    int times[N];
    double sum = 0.0;

    (void)state;
    count(&o, times);
    for (int i = 0; i < N; i++) {
        sum += exp((double)logits[i] / 2.0);
    }
    for (int i = 0; i < N; i++) {
        const double want = DRAWS * exp((double)logits[i] / 2.0) / sum;

        assert_true(fabs(times[i] - want) < 5.0 * sqrt(want));
    }
}

static void top_k_cuts_by_rank(void **state)
{
    const charl_generate_options o = {sizeof o, .temperature = 1.0, .top_p = 1.0, .top_k = 3},
                                 more = {sizeof more, .temperature = 1.0, .top_p = 1.0, .top_k = 99};
    int times[N];

    (void)state;
    count(&o, times);
    assert_true(times[0] == 0 && times[4] == 0 && times[1] > 0 && times[2] > 0 && times[3] > 0);
    count(&more, times);
    assert_true(times[4] > 0);
}

/* The two largest have 0.39 each: 0.3 takes one, 0.5 both; with top_k = 1 that one is all. */
static void top_p_cuts_by_probability(void **state)
{
    charl_generate_options o = {sizeof o, .temperature = 1.0, .top_p = 0.3};
    int times[N];

    (void)state;
    count(&o, times);
    assert_int_equal(times[1], DRAWS);
    o.top_p = 0.5;
    count(&o, times);
    assert_int_equal(times[1] + times[3], DRAWS);
    assert_true(times[3] > 0);
    o.top_k = 1;
    count(&o, times);
    assert_int_equal(times[1], DRAWS);
}

/* Of the largest, the others have 1, 1 / e, e^-2 and e^-3. */
static void min_p_cuts_by_the_largest(void **state)
{
    charl_generate_options o = {sizeof o, .temperature = 1.0, .top_p = 1.0, .min_p = 0.3};
    int times[N];

    (void)state;
    count(&o, times);
    assert_true(times[0] == 0 && times[4] == 0 && times[1] > 0 && times[2] > 0 && times[3] > 0);
    o.min_p = 1.0;
    count(&o, times);
    assert_int_equal(times[1] + times[3], DRAWS);
    o.top_p = 0.5; /* of what min_p has left */
    count(&o, times);
    assert_int_equal(times[1], DRAWS);
}

static void seeds_differ(void **state)
{
    charl_generate_options o = {sizeof o, .temperature = 1.0, .top_p = 1.0, .seed = 1};
    int different = 0;

    (void)state;
    for (int i = 0; i < 100; i++) {
        int32_t a, b;

        o.seed = 1;
        charl_assert_ok(charl__sample(&o, logits, N, (uint64_t)i, &a));
        o.seed = 2;
        charl_assert_ok(charl__sample(&o, logits, N, (uint64_t)i, &b));
        different += a != b;
    }
    assert_in_range(different, 40, 90);
}

static void what_is_not_finite_is_refused(void **state)
{
    const float bad[] = {1.0F, NAN, 0.0F}, huge[] = {1.0F, 2.0F, INFINITY};
    const charl_generate_options o = {sizeof o, .temperature = 1.0, .top_p = 1.0};
    int32_t token;

    (void)state;
    charl_assert_status(charl__sample(&o, bad, 3, 0, &token), CHARL_ERR_NONFINITE);
    charl_assert_message("for token 1");
    charl_assert_status(charl__sample(&o, huge, 3, 0, &token), CHARL_ERR_NONFINITE);
}

/* What the command line does not let through. */
static charl_status never(void *ctx, const char *text, size_t bytes)
{
    (void)ctx;
    (void)text;
    (void)bytes;
    return CHARL_OK;
}

static void options_are_checked(void **state)
{
    const charl_config config = {.model = {.type = "sequential"}};
    const charl_generate_options bad[] = {
        {sizeof *bad, "a", 1, .tokens = -1, .temperature = 1.0, .top_p = 1.0},
        {sizeof *bad, "a", 1, .tokens = 1, .temperature = -1.0, .top_p = 1.0},
        {sizeof *bad, "a", 1, .tokens = 1, .temperature = (double)NAN, .top_p = 1.0},
        {sizeof *bad, "a", 1, .tokens = 1, .temperature = 1.0, .top_p = -0.5},
        {sizeof *bad, "a", 1, .tokens = 1, .temperature = 1.0, .top_p = 1.5},
        {sizeof *bad, "a", 1, .tokens = 1, .temperature = 1.0, .top_p = 1.0, .top_k = -1},
        {sizeof *bad, "a", 1, .tokens = 1, .temperature = 1.0, .top_p = 1.0, .min_p = 1.5},
        {sizeof *bad, "a", 1, .tokens = 1, .temperature = 1.0, .top_p = 1.0, .repetition_penalty = 0.5},
        {sizeof *bad, "a", 1, .tokens = 1, .temperature = 1.0, .top_p = 1.0, .repetition_penalty = 1e6},
    };
    const charl_generate_options empty = {sizeof empty, "", 0, .tokens = 1, .temperature = 1.0, .top_p = 1.0};

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        charl_assert_status(charl_generate(&config, "c.h5", &bad[i], never, NULL), CHARL_ERR_CONFIG);
        charl_assert_message("out of range");
    }
    charl_assert_status(charl_generate(&config, "c.h5", &empty, never, NULL), CHARL_ERR_CONFIG);
    charl_assert_message("the prompt is empty");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(zero_is_greedy),
        cmocka_unit_test(in_proportion),
        cmocka_unit_test(top_k_cuts_by_rank),
        cmocka_unit_test(top_p_cuts_by_probability),
        cmocka_unit_test(min_p_cuts_by_the_largest),
        cmocka_unit_test(seeds_differ),
        cmocka_unit_test(what_is_not_finite_is_refused),
        cmocka_unit_test(options_are_checked),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
