/* State tensors: names, shapes, and that an optimizer which is given them goes on with the same
 * bits. */
#include "optim/public.h"

#include <math.h>

static void copy_states(charl_optimizer *from, const set *one, charl_optimizer *to, const set *two)
{
    static float v[MAX_ELEMENTS];
    charl_optimizer_report report;
    charl_shape shape;

    for (int k = 0; charl_optimizer_get_state_name(from, k); k++) {
        for (int i = 0; i < charl_params_get_count(one->params); i++) {
            if (charl_optimizer_get_state_shape(from, k, param_of(one, i), &shape)) {
                charl_assert_ok(charl_optimizer_read_state(from, k, param_of(one, i), v));
                charl_assert_ok(charl_optimizer_write_state(to, k, param_of(two, i), v));
            }
        }
    }
    charl_assert_ok(charl_optimizer_get_report(from, &report));
    charl_assert_ok(charl_optimizer_set_steps(to, charl_optimizer_get_steps(from), report.skipped));
}

static void check_moving(const char *type, charl_packing packing)
{
    static float g[MAX_ELEMENTS], a[MAX_ELEMENTS], b[MAX_ELEMENTS];
    charl_optimizer_config config = charl_optimizer_defaults(type);
    charl_optimizer *o = NULL, *resumed = NULL;
    set one, two;
    int64_t n;

    config.state = packing;
    config.skip_nonfinite = true;
    open_set(&one);
    open_set(&two);
    charl_assert_ok(charl_optimizer_create(one.params, &config, &o));
    charl_assert_ok(charl_optimizer_create(two.params, &config, &resumed));
    for (int t = 0; t < 6; t++) {
        make_gradient(t, 1.0F, g);
        if (t == 3) {
            copy_states(o, &one, resumed, &two);
            for (int i = 0; i < charl_params_get_count(one.params); i++) {
                charl_assert_ok(charl_param_read(param_of(&one, i), a));
                charl_assert_ok(charl_param_write(param_of(&two, i), a));
            }
        }
        if (t == 1) { /* a skipped step, which the other optimizer never sees, is no update there either */
            const float good = g[0];

            g[0] = NAN;
            put_gradient(&one, g);
            charl_assert_ok(charl_optimizer_begin(o, lr_of(t)));
            charl_assert_ok(charl_optimizer_step(o, lr_of(t)));
            g[0] = good;
        }
        put_gradient(&one, g);
        charl_assert_ok(charl_optimizer_begin(o, lr_of(t)));
        charl_assert_ok(charl_optimizer_step(o, lr_of(t)));
        if (t >= 3) {
            put_gradient(&two, g);
            charl_assert_ok(charl_optimizer_begin(resumed, lr_of(t)));
            charl_assert_ok(charl_optimizer_step(resumed, lr_of(t)));
        }
    }
    n = read_values(&one, a);
    read_values(&two, b);
    charl_assert_same_bits(b, a, n);
    assert_int_equal(charl_optimizer_get_steps(resumed), 7);
    charl_optimizer_destroy(o);
    charl_optimizer_destroy(resumed);
    close_set(&one);
    close_set(&two);
}

/* An optimizer given the state of another continues with the same bits. */
static void test_state_moves_over(void **state)
{
    (void)state;
    for (int i = 0; charl_optimizer_name(i); i++) {
        const bool packs = charl_optimizer_is_elementwise(charl_optimizer_name(i));

        for (int packing = 0; packing <= (packs ? CHARL_PACKING_INT8 : CHARL_PACKING_F32); packing++) {
            check_moving(charl_optimizer_name(i), (charl_packing)packing);
        }
    }
}

/* Optimizers over parts of a set do what one over all of it does; a gradient that is not finite is that of one part. */
static void check_parts(const char *type, charl_packing packing)
{
    static const char *const parts[] = {"c, k*", "*, !c, !k*"};
    static float g[MAX_ELEMENTS], a[MAX_ELEMENTS], b[MAX_ELEMENTS];
    charl_optimizer_config config = charl_optimizer_defaults(type);
    set one, two;
    charl_optimizer *whole = NULL, *part[2] = {NULL, NULL};
    charl_optimizer_report r[2];
    charl_shape shape;
    double sum = 0.0;
    int64_t n;

    config.state = packing;
    open_set(&one);
    open_set(&two);
    charl_assert_ok(charl_optimizer_create(one.params, &config, &whole));
    config.skip_nonfinite = true;
    for (int i = 0; i < 2; i++) {
        config.params = parts[i];
        charl_assert_ok(charl_optimizer_create(two.params, &config, &part[i]));
    }
    for (int k = 0; charl_optimizer_get_state_name(whole, k); k++) {
        assert_true(charl_optimizer_get_state_shape(part[0], k, charl_params_find(two.params, "c"), &shape));
        assert_false(charl_optimizer_get_state_shape(part[1], k, charl_params_find(two.params, "c"), &shape));
        assert_false(charl_optimizer_get_state_shape(part[0], k, charl_params_find(two.params, "a"), &shape));
    }
    for (int t = 0; t < 4; t++) {
        make_gradient(t, 1.0F, g);
        put_gradient(&one, g);
        put_gradient(&two, g);
        charl_assert_ok(charl_optimizer_step(whole, lr_of(t)));
        charl_assert_ok(charl_optimizer_begin(part[t % 2], lr_of(t)));
        charl_assert_ok(charl_optimizer_step(part[t % 2], lr_of(t)));
        charl_assert_ok(charl_optimizer_begin(part[1 - t % 2], lr_of(t)));
        charl_assert_ok(charl_optimizer_step(part[1 - t % 2], lr_of(t)));
    }
    n = read_values(&one, a);
    read_values(&two, b);
    charl_assert_same_bits(b, a, n);
    for (int64_t i = 0; i < n; i++) {
        const bool is_trained = i < first_of(&two, "stat") || i >= first_of(&two, "b");

        sum += is_trained ? (double)g[i] * (double)g[i] : 0.0;
    }
    for (int i = 0; i < 2; i++) {
        charl_assert_ok(charl_optimizer_get_report(part[i], &r[i]));
        sum -= (double)r[i].grad_norm * (double)r[i].grad_norm;
    }
    assert_true(fabs(sum) < 1e-2 && r[0].grad_norm > 1.0F && r[1].grad_norm > 1.0F);
    g[first_of(&two, "c")] = NAN;
    put_gradient(&two, g);
    for (int i = 0; i < 2; i++) {
        charl_assert_ok(charl_optimizer_begin(part[i], 0.1F));
        charl_assert_ok(charl_optimizer_step(part[i], 0.1F));
        charl_assert_ok(charl_optimizer_get_report(part[i], &r[i]));
        assert_int_equal(r[i].skipped, i == 0);
        assert_ptr_equal(r[i].bad_param, i == 0 ? charl_params_find(two.params, "c") : NULL);
    }
    charl_optimizer_destroy(whole);
    charl_optimizer_destroy(part[0]);
    charl_optimizer_destroy(part[1]);
    close_set(&one);
    close_set(&two);
}

static void test_parts(void **state)
{
    charl_optimizer_config config = charl_optimizer_defaults("adam");
    charl_optimizer *o = NULL;
    set one;

    (void)state;
    for (int i = 0; charl_optimizer_name(i); i++) {
        for (int packing = 0; packing <= CHARL_PACKING_INT8; packing++) {
            if (charl_optimizer_is_elementwise(charl_optimizer_name(i))) {
                check_parts(charl_optimizer_name(i), (charl_packing)packing);
            }
        }
    }
    open_set(&one);
    config.params = "nosuch.*";
    charl_assert_status(charl_optimizer_create(one.params, &config, &o), CHARL_ERR_INVALID);
    charl_assert_message("no parameter is called nosuch.*");
    config.params = "stat";
    charl_assert_status(charl_optimizer_create(one.params, &config, &o), CHARL_ERR_INVALID);
    config = charl_optimizer_defaults("muon");
    config.params = "a";
    charl_assert_status(charl_optimizer_create(one.params, &config, &o), CHARL_ERR_CONFIG);
    charl_assert_message("muon updates whole tensors, and all parameters of a set");
    close_set(&one);
}

static void test_skipped_are_steps(void **state)
{
    charl_optimizer_config config = charl_optimizer_defaults("adam");
    set one;
    charl_optimizer *o = NULL;

    (void)state;
    open_set(&one);
    charl_assert_ok(charl_optimizer_create(one.params, &config, &o));
    charl_assert_status(charl_optimizer_set_steps(o, 3, 4), CHARL_ERR_INVALID);
    charl_assert_message("skipped is 4; it is 0 to steps, 3");
    charl_assert_status(charl_optimizer_set_steps(o, 3, -1), CHARL_ERR_INVALID);
    assert_int_equal(charl_optimizer_get_steps(o), 0);
    charl_optimizer_destroy(o);
    close_set(&one);
}

static void test_state_names(void **state)
{
    charl_optimizer_config config = charl_optimizer_defaults("adam");
    set one, other;
    charl_optimizer *o = NULL;
    charl_shape shape;
    float v[70];

    (void)state;
    open_set(&one);
    open_set(&other);
    charl_assert_ok(charl_optimizer_create(one.params, &config, &o));
    assert_string_equal(charl_optimizer_get_state_name(o, 0), "exp_avg");
    assert_string_equal(charl_optimizer_get_state_name(o, 1), "exp_avg_sq");
    assert_null(charl_optimizer_get_state_name(o, 2));
    charl_assert_status(charl_optimizer_read_state(o, 2, param_of(&one, 0), v), CHARL_ERR_INVALID);
    charl_assert_status(charl_optimizer_read_state(o, 0, param_of(&one, 1), v), CHARL_ERR_INVALID);
    charl_assert_message("stat");
    charl_assert_status(charl_optimizer_write_state(o, 0, param_of(&other, 0), v), CHARL_ERR_INVALID);
    charl_optimizer_destroy(o);
    config = charl_optimizer_defaults("sgd");
    config.momentum = 0;
    charl_assert_ok(charl_optimizer_create(one.params, &config, &o));
    assert_null(charl_optimizer_get_state_name(o, 0));
    charl_optimizer_destroy(o);
    config.momentum = 0.9F;
    charl_assert_ok(charl_optimizer_create(one.params, &config, &o));
    assert_string_equal(charl_optimizer_get_state_name(o, 0), "momentum_buffer");
    assert_null(charl_optimizer_get_state_name(o, 1));
    charl_optimizer_destroy(o);
    config = charl_optimizer_defaults("adafactor");
    charl_assert_ok(charl_optimizer_create(one.params, &config, &o));
    assert_true(charl_optimizer_get_state_shape(o, 0, param_of(&one, 3), &shape));
    assert_true(charl_shape_equal(&shape, &(charl_shape){2, {40, 1}}));
    assert_true(charl_optimizer_get_state_shape(o, 1, param_of(&one, 4), &shape));
    assert_true(charl_shape_equal(&shape, &(charl_shape){4, {4, 2, 1, 3}}));
    assert_false(charl_optimizer_get_state_shape(o, 0, param_of(&one, 0), &shape));
    assert_false(charl_optimizer_get_state_shape(o, 2, param_of(&one, 3), &shape));
    charl_assert_status(charl_optimizer_read_state(o, 2, param_of(&one, 3), v), CHARL_ERR_INVALID);
    charl_assert_message("no state 2 of parameter c");
    charl_optimizer_destroy(o);
    charl_optimizer_destroy(NULL);
    close_set(&one);
    close_set(&other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_state_moves_over),
        cmocka_unit_test(test_parts),
        cmocka_unit_test(test_state_names),
        cmocka_unit_test(test_skipped_are_steps),
    };

    return charl_test_on_device(tests, &dev);
}
