/* Optimizers of a program's own that sum over rows, columns and parameters end where charl's do. */
#include "optim/public.h"

#include <math.h>

enum { STEPS = 6 };

static void adam_bias(const void *settings, int64_t t, float out[2])
{
    (void)settings;
    out[0] = (float)(1.0 - pow(0.9, (double)t));
    out[1] = (float)(1.0 - pow(0.999, (double)t));
}

static void adafactor_decay(const void *settings, int64_t t, float out[2])
{
    (void)settings;
    out[0] = (float)pow((double)t, -0.8);
    out[1] = (float)(1.0 / sqrt((double)t));
}

static const charl_optimizer_type own_lion = {
    .row.name = "own_lion",
    .row.help = "the sign of an average",
    .n_states = 1,
    .state_names = {"exp_avg"},
    .update = "const charl_real c = s0 + (g - s0) * 0.1f;\n"
              "p = p * (1.0f - lr * weight_decay) - lr * c / fmax(fabs(c), 1e-30f);\n"
              "s0 = s0 + (g - s0) * 0.01f;"};

static const charl_optimizer_type own_lamb = {.row.name = "own_lamb",
                                              .row.help = "adam, in proportion to the weights",
                                              .n_states = 2,
                                              .state_names = {"exp_avg", "exp_avg_sq"},
                                              .direction =
                                                  "s0 = s0 + (g - s0) * 0.1f; s1 = s1 * 0.999f + 0.001f * g * g;\n"
                                                  "d = s0 / scalar0 / (sqrt(s1 / scalar1) + 1e-6f) + weight_decay * p;",
                                              .update = "p = p - lr * (dims > 1 && param_norm > 0.0f && direction_norm "
                                                        "> 0.0f ? param_norm / direction_norm : 1.0f) * d;",
                                              .scalars = adam_bias};

static const charl_optimizer_type own_adafactor = {
    .row.name = "own_adafactor",
    .row.help = "second moments by rows and columns",
    .n_states = 3,
    .state_names = {"row_var", "col_var", "mean_var"},
    .state_shapes = {CHARL_STATE_ROWS, CHARL_STATE_COLUMNS, CHARL_STATE_MATRIX},
    .measure = "g * g",
    .fold = "s = s + (mean - s) * scalar0;",
    .direction = "d = g / fmax(sqrt(s0 * s1 / fmax(s2, 0x1p-23f)), 0x1p-23f);",
    .update = "const float alpha = fmax(1e-3f, param_norm / sqrt(size)) * fmin(lr, scalar1);\n"
              "p = p * (1.0f - lr * weight_decay) - alpha / fmax(1.0f, direction_norm / sqrt(size)) * d;",
    .scalars = adafactor_decay};

/* Six states, of which the last counts steps, and the norm of all gradients. */
static const charl_optimizer_type own_six = {
    .row.name = "own_six",
    .row.help = "states in a row",
    .n_states = 6,
    .state_names = {"a", "b", "c", "d", "e", "f"},
    .update = "s0 = s5; s1 = s0 + 1.0f; s2 = s1 + 1.0f; s3 = s2 + 1.0f; s4 = s3; s5 += 1.0f;\n"
              "p = p - lr * (s4 - s3 + s2 - s1 - 1.0f + g / grad_norm);"};

static void train(const char *type, float *out, int64_t *n, charl_optimizer **o, set *s)
{
    static float g[MAX_ELEMENTS];
    charl_optimizer_config config = charl_optimizer_defaults(type);

    config.weight_decay = 0.1F;
    open_set(s);
    charl_assert_ok(charl_optimizer_create(s->params, &config, o));
    for (int t = 0; t < STEPS; t++) {
        make_gradient(t, 0.5F, g);
        put_gradient(s, g);
        charl_assert_ok(charl_optimizer_step(*o, lr_of(t)));
    }
    *n = read_values(s, out);
}

static void test_like_charls(void **state)
{
    static float mine[MAX_ELEMENTS], theirs[MAX_ELEMENTS];
    static const struct {
        const charl_optimizer_type *type;
        const char *like;
    } cases[] = {{&own_lion, "lion"}, {&own_lamb, "lamb"}, {&own_adafactor, "adafactor"}};

    (void)state;
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        charl_optimizer *o = NULL, *other = NULL;
        set a, b;
        int64_t n, m;

        charl_assert_ok(charl_register_optimizer(cases[k].type));
        assert_true(charl_optimizer_is_elementwise(cases[k].type->row.name) == (k == 0));
        train(cases[k].type->row.name, mine, &n, &o, &a);
        train(cases[k].like, theirs, &m, &other, &b);
        assert_int_equal(n, m);
        for (int64_t i = 0; i < n; i++) {
            if (!(fabsf(mine[i] - theirs[i]) <= 2e-5F)) {
                fail_msg("%s: element %d is %.9g, not %.9g", cases[k].like, (int)i, (double)mine[i], (double)theirs[i]);
            }
        }
        charl_optimizer_destroy(o);
        charl_optimizer_destroy(other);
        close_set(&a);
        close_set(&b);
    }
}

/* Shapes of states, and their values: the first step sets a state to the mean, as t^-0.8 is 1. */
static void test_shapes(void **state)
{
    static const int64_t rows[] = {3, 1}, columns[] = {1, 5}, matrix[] = {1, 1};
    static const int64_t *const want[] = {rows, columns, matrix};
    static float g[MAX_ELEMENTS], got[64];
    charl_optimizer_config config = charl_optimizer_defaults("own_adafactor");
    charl_optimizer *o = NULL;
    const charl_param *p;
    set s;

    (void)state;
    open_set(&s);
    charl_assert_ok(charl_optimizer_create(s.params, &config, &o));
    make_gradient(1, 0.5F, g);
    put_gradient(&s, g);
    charl_assert_ok(charl_optimizer_step(o, 0.1F));
    p = charl_params_find(s.params, "b");
    for (int k = 0; k < 3; k++) {
        const float *first = g + first_of(&s, "b");
        charl_shape shape;

        assert_true(charl_optimizer_get_state_shape(o, k, p, &shape));
        assert_int_equal(shape.ndim, 2);
        assert_int_equal(shape.dim[0], want[k][0]);
        assert_int_equal(shape.dim[1], want[k][1]);
        charl_assert_ok(charl_optimizer_read_state(o, k, p, got));
        for (int64_t i = 0; i < charl_shape_count(&shape); i++) {
            double sum = 0.0;

            for (int e = 0; e < 15; e++) {
                sum += k == 2 || (k == 0 ? e / 5 : e % 5) == i ? (double)first[e] * (double)first[e] : 0.0;
            }
            assert_true(fabs((double)got[i] - sum / (15.0 / (double)charl_shape_count(&shape))) < 1e-6);
        }
    }
    assert_true(charl_optimizer_get_state_shape(o, 0, charl_params_find(s.params, "a"), &(charl_shape){0}));
    charl_optimizer_destroy(o);
    close_set(&s);
}

static void test_six_states(void **state)
{
    static float values[MAX_ELEMENTS], six[MAX_ELEMENTS];
    charl_optimizer *o = NULL;
    set s;
    int64_t n;

    (void)state;
    charl_assert_ok(charl_register_optimizer(&own_six));
    train("own_six", values, &n, &o, &s);
    assert_non_null(charl_optimizer_get_state_name(o, 5));
    assert_null(charl_optimizer_get_state_name(o, 6));
    charl_assert_ok(charl_optimizer_read_state(o, 5, charl_params_find(s.params, "b"), six));
    assert_true(six[7] == STEPS);
    charl_assert_ok(charl_optimizer_read_state(o, 3, charl_params_find(s.params, "b"), six));
    assert_true(six[7] == STEPS + 2);
    charl_optimizer_destroy(o);
    close_set(&s);
}

static void test_refused(void **state)
{
    static const charl_optimizer_type
        lonely = {.row.name = "lonely", .row.help = "h", .update = "p -= g;", .fold = "s = mean;"},
        unfolded = {.row.name = "unfolded",
                    .row.help = "h",
                    .update = "p -= g;",
                    .n_states = 1,
                    .state_names = {"row"},
                    .state_shapes = {CHARL_STATE_ROWS}},
        comment = {.row.name = "comment", .row.help = "h", .update = "p -= g;", .direction = "d = g; // d"};

    (void)state;
    charl_assert_status(charl_register_optimizer(&lonely), CHARL_ERR_INVALID);
    charl_assert_message("states of rows, columns or matrices come with measure and fold");
    charl_assert_status(charl_register_optimizer(&unfolded), CHARL_ERR_INVALID);
    charl_assert_message("states of rows, columns or matrices come with measure and fold");
    charl_assert_status(charl_register_optimizer(&comment), CHARL_ERR_INVALID);
    charl_assert_message("holds # or //");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_like_charls),
        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_six_states),
    };

    return charl_test_on_device(tests, &dev);
}
