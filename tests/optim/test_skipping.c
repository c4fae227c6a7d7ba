/* The moving average of the weights, and steps that are left out. */
#include "optim/public.h"

#include <math.h>

static set s;
static charl_optimizer *o;
static bool asks_begin; /* the optimizer may skip a step, and the set has statistics that are then restored */

static void open_optimizer(const charl_optimizer_config *config)
{
    charl_assert_ok(charl_optimizer_create(s.params, config, &o));
    asks_begin = config->skip_nonfinite || config->on_spike == CHARL_SPIKE_SKIP || config->on_spike == CHARL_SPIKE_STOP;
}

static void begin(double ema_decay, bool skip)
{
    charl_optimizer_config config = charl_optimizer_defaults("adamw");

    config.ema_decay = ema_decay;
    config.skip_nonfinite = skip;
    open_set(&s);
    open_optimizer(&config);
}

static void end(void)
{
    charl_optimizer_destroy(o);
    close_set(&s);
}

static void begin_step(int t)
{
    if (asks_begin) {
        charl_assert_ok(charl_optimizer_begin(o, lr_of(t)));
    }
}

static void step(int t, float bad)
{
    static float g[MAX_ELEMENTS];

    make_gradient(t, 1.0F, g);
    g[first_of(&s, "c") + 1000] += bad;
    begin_step(t);
    put_gradient(&s, g);
    charl_assert_ok(charl_optimizer_step(o, lr_of(t)));
}

/* The average of a parameter: what the parameter is while they are exchanged. */
static void read_average(const charl_param *p, float *out)
{
    charl_assert_ok(charl_optimizer_exchange_ema(o));
    charl_assert_ok(charl_param_read(p, out));
    charl_assert_ok(charl_optimizer_exchange_ema(o));
}

static void test_average(void **state)
{
    static float p[MAX_ELEMENTS], e[MAX_ELEMENTS], before[MAX_ELEMENTS];
    static double want[MAX_ELEMENTS];
    const charl_param *c;

    (void)state;
    begin(0.75, false);
    c = charl_params_find(s.params, "c");
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
    read_average(c, e);
    charl_assert_close(e, want, 2000, 1e-6);
    charl_assert_ok(charl_param_read(c, before)); /* exchanging twice changes nothing */
    charl_assert_same_bits(before, p, 2000);
    read_average(c, before);
    charl_assert_same_bits(before, e, 2000);
    step(6, NAN); /* changes neither */
    read_average(c, before);
    charl_assert_same_bits(before, e, 2000);
    charl_assert_ok(charl_param_read(c, before));
    charl_assert_same_bits(before, p, 2000);
    end();
}

static void test_no_average(void **state)
{
    (void)state;
    begin(0.0, false);
    charl_assert_ok(charl_optimizer_reset_ema(o));
    charl_assert_status(charl_optimizer_exchange_ema(o), CHARL_ERR_INVALID);
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
    charl_optimizer_config sgd = {.type = "sgd", .skip_nonfinite = true};
    static float before[MAX_ELEMENTS], after[MAX_ELEMENTS], g[MAX_ELEMENTS];
    charl_steps *steps = NULL;
    int64_t n;

    (void)state;
    open_set(&s);
    charl_assert_ok(charl_steps_create(dev, NULL, &steps));
    sgd.steps = steps;
    charl_assert_ok(charl_optimizer_create(s.params, &sgd, &o));
    charl_assert_ok(charl_optimizer_set_steps(o, 100, 0));
    for (int t = 0; t < 4; t++) {
        n = read_values(&s, before);
        charl_assert_ok(charl_optimizer_begin(o, lr_of(t)));
        if (t == 1) { /* as the graph of the step does */
            charl_assert_ok(charl_param_write(charl_params_find(s.params, "stat"), statistics));
        }
        make_gradient(t, 1.0F, g);
        g[first_of(&s, "c") + 1999] = t == 1 ? INFINITY : t == 3 ? 1e30F : 0.0F;
        put_gradient(&s, g);
        charl_assert_ok(charl_optimizer_step(o, lr_of(t)));
        assert_int_equal(read_values(&s, after), n);
        if (t % 2 == 1) {
            charl_assert_same_bits(after, before, n);
        } else {
            assert_memory_not_equal(after, before, (size_t)n * sizeof *after);
        }
        check_report(t % 2 == 0, (t + 1) / 2, t == 0 ? 0 : t < 3 ? 101 : 103, t == 1 || t == 2 ? "c" : NULL);
        for (int i = 0; i < 4; i++) {
            assert_true(after[first_of(&s, "stat") + i] == 3.0F);
        }
    }
    charl_optimizer_destroy(o);
    close_set(&s);
    charl_steps_destroy(steps);
}

/* What skipping leaves is what the other steps alone give, to the bit: bias corrections and the like do not count skipped steps, however
 * many they are and whenever the host learns of them. */
static void check_updates(const char *type, int skipped_at_once)
{
    static float g[MAX_ELEMENTS], want[MAX_ELEMENTS], got[MAX_ELEMENTS];
    charl_optimizer_config config = charl_optimizer_defaults(type);
    set all, good;
    charl_optimizer *skipping = NULL, *plain = NULL;
    charl_optimizer_report report;
    int64_t n;

    open_set(&good);
    open_set(&all);
    charl_assert_ok(charl_optimizer_create(good.params, &config, &plain));
    config.skip_nonfinite = true;
    charl_assert_ok(charl_optimizer_create(all.params, &config, &skipping));
    for (int t = 0; t < 6; t++) {
        make_gradient(t, 1.0F, g);
        put_gradient(&good, g);
        charl_assert_ok(charl_optimizer_step(plain, lr_of(t)));
        g[0] = NAN;
        put_gradient(&all, g);
        for (int i = 0; i < (t % 3 == 0 ? skipped_at_once : 1); i++) {
            charl_assert_ok(charl_optimizer_begin(skipping, lr_of(t)));
            charl_assert_ok(charl_optimizer_step(skipping, lr_of(t)));
        }
        make_gradient(t, 1.0F, g);
        put_gradient(&all, g);
        charl_assert_ok(charl_optimizer_begin(skipping, lr_of(t)));
        charl_assert_ok(charl_optimizer_step(skipping, lr_of(t)));
    }
    n = read_values(&good, want);
    assert_int_equal(read_values(&all, got), n);
    charl_assert_same_bits(got, want, n);
    charl_assert_ok(charl_optimizer_get_report(skipping, &report));
    assert_int_equal(report.skipped, 4 + 2 * skipped_at_once);
    assert_int_equal(charl_optimizer_get_steps(skipping), report.skipped + 6);
    charl_optimizer_destroy(skipping);
    charl_optimizer_destroy(plain);
    close_set(&all);
    close_set(&good);
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
    check_updates("adamw", 1024 + 100); /* more than the host lets the device skip before it asks */
}

/* Without it the statistics before the step would not be known. */
static void test_statistics_ask_for_begin(void **state)
{
    (void)state;
    begin(0.0, true);
    charl_assert_status(charl_optimizer_step(o, 0.1F), CHARL_ERR_INVALID);
    charl_assert_message("the step has not begun");
    step(0, 0.0F);
    charl_assert_status(charl_optimizer_step(o, 0.1F), CHARL_ERR_INVALID);
    end();
}

/* A step whose begin failed has not begun; the next begin starts it. */
static void test_a_failed_begin_begins_nothing(void **state)
{
    static float before[MAX_ELEMENTS], after[MAX_ELEMENTS], g[MAX_ELEMENTS];
    charl_optimizer_config sgd = {.type = "sgd"};
    charl_steps *steps = NULL;
    int64_t n;

    (void)state;
    open_set(&s);
    charl_assert_ok(charl_steps_create(dev, NULL, &steps));
    sgd.steps = steps;
    charl_assert_ok(charl_optimizer_create(s.params, &sgd, &o));
    make_gradient(0, 1.0F, g);
    put_gradient(&s, g);
    n = read_values(&s, before);
    charl_test_fault_after(1);
    charl_assert_status(charl_optimizer_begin(o, 0.1F), CHARL_ERR_NOMEM);
    charl_test_fault_after(0);
    charl_assert_status(charl_optimizer_step(o, 0.1F), CHARL_ERR_INVALID);
    charl_assert_message("HINT call charl_optimizer_begin");
    read_values(&s, after);
    charl_assert_same_bits(after, before, n);
    assert_int_equal(charl_optimizer_get_steps(o), 0);
    charl_assert_ok(charl_optimizer_begin(o, 0.1F));
    charl_assert_ok(charl_optimizer_step(o, 0.1F));
    read_values(&s, after);
    assert_memory_not_equal(after, before, (size_t)n * sizeof *after);
    charl_optimizer_destroy(o);
    close_set(&s);
    charl_steps_destroy(steps);
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
    const int64_t stat = first_of(&s, "stat"), n = read_values(&s, before);
    charl_param *p = charl_params_find(s.params, "stat");
    bool changed;

    make_gradient(t, scale, g);
    begin_step(t);
    charl_assert_ok(charl_param_write(p, statistics)); /* as the graph of the step does */
    put_gradient(&s, g);
    charl_assert_ok(charl_optimizer_step(o, lr_of(t)));
    assert_int_equal(read_values(&s, after), n);
    changed = memcmp(before, after, (size_t)stat * sizeof *after) != 0;
    assert_int_equal(memcmp(before + stat + 4, after + stat + 4, (size_t)(n - stat - 4) * sizeof *after) != 0, changed);
    charl_assert_same_bits(after + stat, changed ? statistics : before + stat, 4);
    return changed;
}

static bool is_spike(float *norm)
{
    charl_optimizer_report r;

    charl_assert_ok(charl_optimizer_get_report(o, &r));
    assert_true(r.finite);
    *norm = r.grad_norm;
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

    (void)state;
    open_set(&s);
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        float norm[4], one, limit;

        config.on_spike = rules[i];
        open_optimizer(&config);
        assert_true(changes(0, 1000.0F)); /* nothing to compare it with */
        for (int t = 1; t < 5; t++) {
            assert_true(changes(t, 1.0F + 0.1F * (float)t));
            assert_false(is_spike(&norm[t - 1]));
        }
        limit = (float)limit_of(norm);
        assert_int_equal(changes(5, 1e6F), rules[i] == CHARL_SPIKE_WARN);
        assert_true(is_spike(&one));
        one /= 1e6F;
        /* The limit counts as the norm of a step that was a spike. */
        memmove(norm, norm + 1, 3 * sizeof norm[0]);
        norm[3] = limit;
        limit = (float)limit_of(norm);
        assert_int_equal(changes(5, 1.001F * limit / one), rules[i] == CHARL_SPIKE_WARN);
        memmove(norm, norm + 1, 3 * sizeof norm[0]);
        norm[3] = limit;
        limit = (float)limit_of(norm);
        assert_int_equal(changes(5, 0.999F * limit / one), rules[i] != CHARL_SPIKE_STOP);
        for (int t = 7; rules[i] == CHARL_SPIKE_STOP && t < 80; t++) { /* also when nobody reads the record */
            assert_false(changes(t, 1.0F));
        }
        charl_optimizer_destroy(o);
        o = NULL;
    }
    config.spike_window = 1;
    charl_assert_status(charl_optimizer_create(s.params, &config, &o), CHARL_ERR_CONFIG);
    charl_assert_message("spike_window is 1, out of range (2 to 1024)");
    config.spike_window = 4;
    config.on_spike = CHARL_SPIKE_STOP + 1;
    charl_assert_status(charl_optimizer_create(s.params, &config, &o), CHARL_ERR_CONFIG);
    charl_assert_message("on_spike is");
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_average),
        cmocka_unit_test(test_no_average),
        cmocka_unit_test(test_skipping),
        cmocka_unit_test(test_stopping),
        cmocka_unit_test(test_a_failed_begin_begins_nothing),
        cmocka_unit_test(test_statistics_ask_for_begin),
        cmocka_unit_test(test_spikes),
        cmocka_unit_test(test_skipped_steps_are_no_updates),
    };

    return charl_test_on_device(tests, &dev);
}
