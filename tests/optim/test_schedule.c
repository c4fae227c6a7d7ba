/* Learning-rate schedules against values of PyTorch 1.13's schedulers, and what they refuse. */
#include "support/support.h"

#include <math.h>

#include "charl/optim.h"

enum { STEPS = 13 };

static const struct known {
    charl_schedule s;
    double lr[STEPS];
} known[] = {
    {{.type = "constant", .base_lr = 0.1}, {0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1}},
    /* CosineAnnealingLR(T_max=10, eta_min=0.01); it stays at the end, where PyTorch's rises again
     */
    {{.type = "cosine", .base_lr = 0.1, .min_lr = 0.01, .total_steps = 10},
     {0.1, 0.09779754323328192, 0.09140576474687263, 0.08145033635316129, 0.06890576474687264, 0.05500000000000001,
      0.04109423525312737, 0.028549663646838717, 0.01859423525312737, 0.012202456766718092, 0.01, 0.01, 0.01}},
    /* LinearLR(1, 0.1, 10) */
    {{.type = "linear", .base_lr = 0.1, .min_lr = 0.01, .total_steps = 10},
     {0.1, 0.091, 0.082, 0.073, 0.064, 0.055, 0.046, 0.037, 0.028, 0.019, 0.01, 0.01, 0.01}},
    /* StepLR(3, 0.5) */
    {{.type = "step", .base_lr = 0.1, .step_size = 3, .gamma = 0.5},
     {0.1, 0.1, 0.1, 0.05, 0.05, 0.05, 0.025, 0.025, 0.025, 0.0125, 0.0125, 0.0125, 0.00625}},
    /* MultiStepLR([2, 5], 0.1) */
    {{.type = "multistep", .base_lr = 0.1, .gamma = 0.1, .milestones = {2, {2, 5}}},
     {0.1, 0.1, 0.01, 0.01, 0.01, 0.001, 0.001, 0.001, 0.001, 0.001, 0.001, 0.001, 0.001}},
    /* PolynomialLR(10, 2) */
    {{.type = "poly", .base_lr = 0.1, .total_steps = 10, .power = 2.0},
     {0.1, 0.081, 0.064, 0.049, 0.036, 0.025, 0.016, 0.009, 0.004, 0.001, 0.0, 0.0, 0.0}},
    {{.type = "wsd", .base_lr = 0.1, .min_lr = 0.02, .total_steps = 10, .decay_steps = 4},
     {0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.08, 0.06, 0.04, 0.02, 0.02, 0.02}},
    {{.type = "wsd", .base_lr = 0.1, .total_steps = 3},
     {0.1, 0.1, 0.1, 0.1, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0}},
    {{.type = "range_test", .base_lr = 0.8, .min_lr = 0.1, .total_steps = 3},
     {0.1, 0.2, 0.4, 0.8, 0.8, 0.8, 0.8, 0.8, 0.8, 0.8, 0.8, 0.8, 0.8}},
    /* Warm-up of four steps, then the rest of the run. */
    {{.type = "constant", .base_lr = 0.1, .warmup_steps = 4},
     {0.02, 0.04, 0.06, 0.08, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1}},
    {{.type = "linear", .base_lr = 0.1, .warmup_steps = 4, .total_steps = 9},
     {0.02, 0.04, 0.06, 0.08, 0.1, 0.08, 0.06, 0.04, 0.02, 0.0, 0.0, 0.0, 0.0}},
    {{.type = "step", .base_lr = 0.1, .warmup_steps = 4, .step_size = 3, .gamma = 0.5},
     {0.02, 0.04, 0.06, 0.08, 0.1, 0.1, 0.1, 0.05, 0.05, 0.05, 0.025, 0.025, 0.025}},
    {{.type = "cosine", .base_lr = 0.1, .warmup_steps = 1, .total_steps = 5},
     {0.05, 0.1, 0.08535533905932738, 0.05, 0.014644660940672627, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0}},
    /* A warm-up as long as the run leaves nothing to decay over. */
    {{.type = "cosine", .base_lr = 0.1, .min_lr = 0.01, .warmup_steps = 2, .total_steps = 2},
     {0.1 / 3, 0.2 / 3, 0.01, 0.01, 0.01, 0.01, 0.01, 0.01, 0.01, 0.01, 0.01, 0.01, 0.01}},
};

static void test_known_values(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        charl_assert_ok(charl_schedule_check(&known[i].s));
        for (int64_t step = 0; step < STEPS; step++) {
            const double got = charl_schedule_lr(&known[i].s, step);

            if (!(fabs(got - known[i].lr[step]) <= 1e-12)) {
                fail_msg("row %zu, %s, step %lld: %.17g, want %.17g", i, known[i].s.type, (long long)step, got,
                         known[i].lr[step]);
            }
        }
    }
}

static const struct refused {
    charl_schedule s;
    const char *message;
} refused[] = {
    {{.type = NULL}, "missing"},
    {{.type = "sawtooth"}, "sawtooth"},
    {{.type = "constant", .base_lr = -1.0}, "out of range (at least 0)"},
    {{.type = "constant", .base_lr = (double)NAN}, "finite"},
    {{.type = "constant", .base_lr = (double)INFINITY}, "finite"},
    {{.type = "linear", .base_lr = 1.0, .min_lr = -0.1}, "out of range (at least 0)"},
    {{.type = "constant", .warmup_steps = -1}, "warmup_steps"},
    {{.type = "step", .gamma = 0.5}, "step_size"},
    {{.type = "step", .step_size = 1, .gamma = (double)NAN}, "gamma"},
    {{.type = "multistep", .gamma = -0.5}, "gamma"},
    {{.type = "poly", .power = (double)INFINITY}, "power"},
    {{.type = "wsd", .total_steps = 3, .decay_steps = 4}, "decay_steps"},
    {{.type = "wsd", .total_steps = 10, .warmup_steps = 6, .decay_steps = 8}, "overlap"},
    {{.type = "multistep", .gamma = 0.5}, "at least one"},
    {{.type = "range_test", .base_lr = 1.0}, "min_lr"},
    {{.type = "multistep", .gamma = 0.5, .milestones = {2, {3, 3}}}, "ascend"},
};

static void test_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        charl_assert_status(charl_schedule_check(&refused[i].s), CHARL_ERR_CONFIG);
        charl_assert_message(refused[i].message);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_values),
        cmocka_unit_test(test_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
