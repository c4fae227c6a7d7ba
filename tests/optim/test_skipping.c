/* The moving average of the weights, and steps that are left out. */
#include "optim/suite.h"

#include <math.h>

static charl_params *set;
static charl_optimizer *o;
static int kind[MAX_ELEMENTS];

static void begin(double ema_decay, bool skip)
{
    charl_optimizer_config config = charl_optimizer_defaults("adamw");

    config.ema_decay = ema_decay;
    config.skip_nonfinite = skip;
    charl_assert_ok(open_set(&set));
    charl_assert_ok(charl_optimizer_create(set, &config, &o));
    map_arena(set, kind);
}

static void end(void)
{
    charl_optimizer_destroy(o);
    charl_params_destroy(set);
}

static void step(int t, float bad)
{
    static float g[MAX_ELEMENTS];

    make_gradient(kind, t, 1.0F, g);
    g[set->param[3]->offset + 1000] += bad;
    write_gradient(set, g);
    charl_assert_ok(charl__optimizer_begin(o));
    charl_assert_ok(charl_optimizer_step(o, lr_of(t)));
}

static void test_average(void **state)
{
    static float p[MAX_ELEMENTS], e[MAX_ELEMENTS], before[MAX_ELEMENTS];
    static double want[MAX_ELEMENTS];
    const charl_param *c;

    (void)state;
    begin(0.75, false);
    c = set->param[3];
    charl_assert_ok(charl_optimizer_reset_ema(o));
    charl_assert_ok(charl_param_read(c, p));
    for (int i = 0; i < 2000; i++) {
        want[i] = (double)p[i];
    }
    for (int t = 0; t < 5; t++) {
        step(t, 0.0F);
        charl_assert_ok(charl_param_read(c, p));
        for (int i = 0; i < 2000; i++) {
            want[i] = 0.75 * want[i] + 0.25 * (double)p[i];
        }
    }
    charl_assert_ok(charl__optimizer_read_ema(o, c, e));
    charl_assert_close(e, want, 2000, 1e-6);
    charl_assert_ok(charl_optimizer_exchange_ema(o));
    charl_assert_ok(charl_param_read(c, before));
    charl_assert_same_bits(before, e, 2000);
    charl_assert_ok(charl__optimizer_read_ema(o, c, before));
    charl_assert_same_bits(before, p, 2000);
    charl_assert_ok(charl_optimizer_exchange_ema(o));
    step(6, NAN); /* changes neither */
    charl_assert_ok(charl__optimizer_read_ema(o, c, before));
    charl_assert_same_bits(before, e, 2000);
    charl_assert_status(charl__optimizer_read_ema(o, set->param[1], e), CHARL_ERR_INVALID);
    charl_assert_message("no moving average of stat");
    end();
}

static void test_no_average(void **state)
{
    float v[70];

    (void)state;
    begin(0.0, false);
    assert_false(charl__optimizer_has_ema(o));
    charl_assert_ok(charl_optimizer_reset_ema(o));
    charl_assert_status(charl_optimizer_exchange_ema(o), CHARL_ERR_INVALID);
    charl_assert_status(charl__optimizer_write_ema(o, set->param[0], v), CHARL_ERR_INVALID);
    end();
}

static void check_report(bool finite, int64_t bad_steps, int64_t bad_step, const char *name)
{
    charl_optimizer_report r;

    charl_assert_ok(charl_optimizer_get_report(o, &r));
    assert_int_equal(r.finite, finite);
    assert_int_equal(r.bad_steps, bad_steps);
    assert_int_equal(r.bad_step, bad_step);
    if (name) {
        assert_string_equal(charl_param_get_spec(r.bad_param)->name, name);
    } else {
        assert_null(r.bad_param);
    }
}

/* A step that is left out changes nothing, running statistics included; the next one counts. */
static void test_skipping(void **state)
{
    static const float statistics[4] = {5.0F, NAN, 6.0F, 7.0F};
    static float before[MAX_ELEMENTS], after[MAX_ELEMENTS];
    charl__step_params record = {.commit = 1};
    charl_steps *steps = NULL;
    float got[4];

    (void)state;
    begin(0.5, true);
    charl_optimizer_destroy(o);
    charl_assert_ok(charl__steps_create(dev, 2, &steps));
    charl_assert_ok(charl__optimizer_create(set, &(charl_optimizer_config){.type = "sgd", .skip_nonfinite = true},
                                            steps, NULL, &o));
    for (int t = 0; t < 4; t++) {
        record.step_lo = (uint32_t)t + 100;
        charl_assert_ok(charl__optimizer_fill(o, lr_of(t), &record));
        charl_assert_ok(charl__steps_push(steps, &record));
        charl_assert_ok(charl__optimizer_begin(o));
        if (t == 1) { /* as the graph of the step does */
            charl_assert_ok(charl_param_write(set->param[1], statistics));
        }
        read_arena(set->value, before, set->elements);
        {
            static float g[MAX_ELEMENTS];

            make_gradient(kind, t, 1.0F, g);
            g[set->param[3]->offset + 1999] = t == 1 ? INFINITY : t == 3 ? 1e30F : 0.0F;
            write_gradient(set, g);
        }
        charl_assert_ok(charl_optimizer_step(o, lr_of(t)));
        read_arena(set->value, after, set->elements);
        if (t % 2 == 1) {
            charl_assert_same_bits(after, before, set->elements);
        } else {
            assert_memory_not_equal(after, before, (size_t)set->elements * sizeof *after);
        }
        check_report(t % 2 == 0, (t + 1) / 2, t == 0 ? 0 : t < 3 ? 101 : 103, t == 1 || t == 2 ? "c" : NULL);
        charl_assert_ok(charl_param_read(set->param[1], got));
        assert_true(got[0] == 3.0F && got[1] == 3.0F && got[3] == 3.0F);
    }
    charl__steps_destroy(steps);
    end();
}

/* What skipping leaves is what the other steps alone give, to the bit: bias corrections and the like do not count skipped steps, however
 * many they are and whenever the host learns of them. */
static void check_updates(const char *type, int skipped_at_once)
{
    static float g[MAX_ELEMENTS], want[MAX_ELEMENTS], got[MAX_ELEMENTS];
    charl_optimizer_config config = charl_optimizer_defaults(type);
    charl_params *all = NULL, *good = NULL;
    charl_optimizer *skipping = NULL, *plain = NULL;
    charl_optimizer_report report;

    charl_assert_ok(open_set(&good));
    charl_assert_ok(open_set(&all));
    charl_assert_ok(charl_optimizer_create(good, &config, &plain));
    config.skip_nonfinite = true;
    charl_assert_ok(charl_optimizer_create(all, &config, &skipping));
    map_arena(good, kind);
    for (int t = 0; t < 6; t++) {
        make_gradient(kind, t, 1.0F, g);
        write_gradient(good, g);
        charl_assert_ok(charl_optimizer_step(plain, lr_of(t)));
        g[0] = NAN;
        write_gradient(all, g);
        for (int i = 0; i < (t % 3 == 0 ? skipped_at_once : 1); i++) {
            charl_assert_ok(charl_optimizer_begin(skipping, lr_of(t)));
            charl_assert_ok(charl_optimizer_step(skipping, lr_of(t)));
        }
        make_gradient(kind, t, 1.0F, g);
        write_gradient(all, g);
        charl_assert_ok(charl_optimizer_begin(skipping, lr_of(t)));
        charl_assert_ok(charl_optimizer_step(skipping, lr_of(t)));
    }
    read_arena(good->value, want, good->elements);
    read_arena(all->value, got, all->elements);
    charl_assert_same_bits(got, want, good->elements);
    charl_assert_ok(charl_optimizer_get_report(skipping, &report));
    assert_int_equal(report.skipped, 4 + 2 * skipped_at_once);
    assert_int_equal(charl_optimizer_get_steps(skipping), report.skipped + 6);
    charl_optimizer_destroy(skipping);
    charl_optimizer_destroy(plain);
    charl_params_destroy(all);
    charl_params_destroy(good);
}

static void scalars_of(const void *settings, int64_t t, float out[2])
{
    (void)settings;
    out[0] = (float)t;
    out[1] = 1.0F / (float)t;
}

static void test_skipped_steps_are_no_updates(void **state)
{
    static const charl_optimizer_type counting = {.row.name = "counting",
                                                  .row.help = "counts updates",
                                                  .update = "p -= lr * scalar1 * g + scalar0;",
                                                  .scalars = scalars_of};

    (void)state;
    charl_assert_ok(charl_register_optimizer(&counting));
    for (int i = 0; charl_optimizer_name(i); i++) {
        check_updates(charl_optimizer_name(i), 3);
    }
    check_updates("adamw", CHARL_OPTIM_WINDOW + 100);
}

/* Without it the statistics before the step would not be known. */
static void test_statistics_ask_for_begin(void **state)
{
    (void)state;
    begin(0.0, true);
    charl_assert_status(charl_optimizer_step(o, 0.1F), CHARL_ERR_INVALID);
    charl_assert_message("charl_optimizer_begin opens a step, before the graph runs");
    step(0, 0.0F);
    charl_assert_status(charl_optimizer_step(o, 0.1F), CHARL_ERR_INVALID);
    end();
}

/* Without skipping the first bad step is the one that is told, however late it is asked for. */
static void test_stopping(void **state)
{
    (void)state;
    begin(0.0, false);
    for (int t = 0; t < 4; t++) {
        step(t, t == 1 || t == 3 ? -INFINITY : 0.0F);
    }
    check_report(false, 1, 1, "c"); /* an optimizer alone numbers its steps from 0 */
    end();
}

/* A step whose gradient is that of step t times scale: whether it changed the weights, and with them the running statistics. */
static bool changes(int t, float scale)
{
    static float before[MAX_ELEMENTS], after[MAX_ELEMENTS], g[MAX_ELEMENTS];
    const float statistics[4] = {(float)t, (float)t, (float)t, (float)t};
    float kept[4], got[4];
    bool changed;

    make_gradient(kind, t, scale, g);
    write_gradient(set, g);
    read_arena(set->value, before, set->elements);
    charl_assert_ok(charl_param_read(set->param[1], kept));
    charl_assert_ok(charl__optimizer_begin(o));
    charl_assert_ok(charl_param_write(set->param[1], statistics)); /* as the graph of the step does */
    charl_assert_ok(charl_optimizer_step(o, lr_of(t)));
    read_arena(set->value, after, set->elements);
    changed = memcmp(before, after, (size_t)set->elements * sizeof *after) != 0;
    charl_assert_ok(charl_param_read(set->param[1], got));
    charl_assert_same_bits(got, changed ? statistics : kept, 4);
    return changed;
}

static bool is_spike(void)
{
    charl_optimizer_report r;

    charl_assert_ok(charl_optimizer_get_report(o, &r));
    assert_true(r.finite);
    return r.spike;
}

/* mean + 3 standard deviations of 4 norms */
static double limit_of(const float *norm)
{
    double mean = 0, squares = 0;

    for (int i = 0; i < 4; i++) {
        mean += (double)norm[i] / 4;
    }
    for (int i = 0; i < 4; i++) {
        squares += ((double)norm[i] - mean) * ((double)norm[i] - mean) / 4;
    }
    return mean + 3 * sqrt(squares);
}

static void test_spikes(void **state)
{
    static const charl_spike_rule rules[] = {CHARL_SPIKE_WARN, CHARL_SPIKE_SKIP, CHARL_SPIKE_STOP};
    charl_optimizer_config config = {.type = "sgd", .spike_window = 4, .spike_threshold = 3.0F};
    float norm[5], kept[5];

    (void)state;
    begin(0.0, false);
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        charl_optimizer_destroy(o);
        config.on_spike = rules[i];
        charl_assert_ok(charl_optimizer_create(set, &config, &o));
        assert_true(changes(0, 1000.0F)); /* nothing to compare it with */
        for (int t = 1; t < 5; t++) {
            assert_true(changes(t, 1.0F + 0.1F * (float)t));
            assert_false(is_spike());
        }
        charl_assert_ok(charl__optimizer_get_norms(o, norm));
        assert_true(norm[4] == 1.0F); /* 0 holds the last one, 1 the oldest */
        assert_true(norm[0] > norm[3] && norm[3] > norm[2] && norm[2] > norm[1]);
        assert_int_equal(changes(5, 1e6F), rules[i] == CHARL_SPIKE_WARN);
        assert_true(is_spike());
        charl_assert_ok(charl__optimizer_get_norms(o, kept));
        assert_true(fabs((double)kept[1] - limit_of(norm)) < 1e-5 * limit_of(norm));
        assert_int_equal(changes(6, 1.0F), rules[i] != CHARL_SPIKE_STOP);
        for (int t = 7; rules[i] == CHARL_SPIKE_STOP && t < 80; t++) { /* also when nobody reads the record */
            assert_false(changes(t, 1.0F));
        }
        charl_assert_ok(charl__optimizer_set_norms(o, norm)); /* as when training resumes */
        assert_int_equal(changes(7, 2e6F), rules[i] == CHARL_SPIKE_WARN);
    }
    config.spike_window = 1;
    charl_optimizer_destroy(o);
    o = NULL;
    charl_assert_status(charl_optimizer_create(set, &config, &o), CHARL_ERR_CONFIG);
    charl_assert_message("train.spike_window is 1, out of range (2 to 1024)");
    config.spike_window = 4;
    config.on_spike = CHARL_SPIKE_STOP + 1;
    charl_assert_status(charl_optimizer_create(set, &config, &o), CHARL_ERR_CONFIG);
    charl_assert_message("train.on_spike");
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_average),
        cmocka_unit_test(test_no_average),
        cmocka_unit_test(test_skipping),
        cmocka_unit_test(test_stopping),
        cmocka_unit_test(test_statistics_ask_for_begin),
        cmocka_unit_test(test_spikes),
        cmocka_unit_test(test_skipped_steps_are_no_updates),
    };

    return charl_test_optim(tests, sizeof tests / sizeof tests[0]);
}
