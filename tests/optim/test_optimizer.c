/* Every row of the optimizer table against its double reference, and what a step must not touch. */
#include "support/support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "optim/optimizer.h"

enum { STEPS = 20, MAX_ELEMENTS = 4096 };

static charl_device *dev;

static const charl_param_spec specs[] = {
    {.name = "a", .shape = {1, {70}}, .init = {CHARL_INIT_UNIFORM, -1.0F, 1.0F}, .trainable = true},
    {.name = "stat", .shape = {1, {4}}, .init = {CHARL_INIT_CONSTANT, 3.0F, 0.0F}},
    {.name = "b",
     .shape = {2, {3, 5}},
     .init = {CHARL_INIT_UNIFORM, -1.0F, 1.0F},
     .trainable = true,
     .no_decay = true},
    {.name = "c",
     .shape = {2, {40, 50}},
     .init = {CHARL_INIT_UNIFORM, -1.0F, 1.0F},
     .trainable = true},
};

static charl_status open_set(charl_params **out)
{
    charl_status st = CHARL_OK;
    charl_param *p;

    CHARL_TRY(charl_params_create(out));
    for (size_t i = 0; i < sizeof specs / sizeof specs[0]; i++) {
        CHARL_TRY(charl_params_add(*out, &specs[i], &p));
    }
    CHARL_TRY(charl__params_layout(*out, NULL, 0));
    CHARL_TRY(charl__params_allocate(*out, dev));
    CHARL_TRY(charl__params_allocate_gradients(*out, 1, true, NULL));
    CHARL_TRY(charl_params_initialize(*out, 2));
cleanup:
    return st;
}

static void read_arena(charl_buffer *b, float *out, int64_t n)
{
    assert_true(n <= MAX_ELEMENTS);
    charl_assert_ok(
        charl__buffer_read(CHARL_QUEUE_COMPUTE, b, 0, out, (size_t)n * sizeof *out, true));
}

/* Marks the elements of the arena that belong to a parameter: 1, or 2 where decay applies. */
static void map_arena(const charl_params *set, int *kind)
{
    memset(kind, 0, MAX_ELEMENTS * sizeof *kind);
    for (int i = 0; i < set->count; i++) {
        const charl_param *p = set->param[i];

        for (int64_t k = 0; p->spec.trainable && k < charl_shape_count(&p->spec.shape); k++) {
            kind[p->offset + k] = p->spec.no_decay ? 1 : 2;
        }
    }
}

/* Gradients of step t, zero in the padding. */
static void make_gradient(const int *kind, int t, float size, float *g)
{
    charl_test_fill(g, MAX_ELEMENTS, -size, size, (uint64_t)t);
    for (int i = 0; i < MAX_ELEMENTS; i++) {
        g[i] = kind[i] ? g[i] : 0.0F;
    }
}

static void write_gradient(charl_params *set, const float *g)
{
    charl_assert_ok(charl__buffer_write(CHARL_QUEUE_COMPUTE, set->sum, 0, g,
                                        (size_t)set->elements * sizeof *g, true));
}

/* PyTorch's clip_grad_norm_. */
static double clip_factor(const float *g, int64_t n, float max_norm, double *norm)
{
    double sum = 0.0, factor;

    for (int64_t i = 0; i < n; i++) {
        sum += (double)g[i] * (double)g[i];
    }
    *norm = sqrt(sum);
    factor = (double)max_norm / (*norm + 1e-6);
    return max_norm > 0.0F && factor < 1.0 ? factor : 1.0;
}

static const struct config {
    charl_optimizer_config c;
    float gradient; /* size of its elements */
} configs[] = {
    {{.type = "sgd"}, 1.0F},
    {{.type = "sgd", .weight_decay = 0.1F}, 1.0F},
    {{.type = "sgd", .momentum = 0.9F}, 1.0F},
    {{.type = "sgd", .momentum = 0.9F, .weight_decay = 0.05F, .nesterov = true}, 1.0F},
    {{.type = "sgd", .momentum = 0.5F, .grad_clip = 1.5F}, 1.0F},
    {{.type = "sgd", .grad_clip = 1e6F}, 1.0F}, /* never reached: no clipping */
    {{.type = "adam", .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8F}, 1.0F},
    {{.type = "adam", .beta1 = 0.8, .beta2 = 0.95, .eps = 1e-3F, .weight_decay = 0.1F}, 1e-2F},
    {{.type = "adam", .beta1 = 0.0, .beta2 = 0.0, .eps = 1e-6F}, 1.0F},
    {{.type = "adamw", .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8F, .weight_decay = 0.01F}, 1.0F},
    {{.type = "adamw",
      .beta1 = 0.9,
      .beta2 = 0.95,
      .eps = 1e-8F,
      .weight_decay = 0.3F,
      .grad_clip = 1.0F},
     10.0F},
    {{.type = "lion", .beta1 = 0.9, .beta2 = 0.99, .weight_decay = 0.1F}, 1.0F},
    {{.type = "lion", .beta1 = 0.95, .beta2 = 0.98, .grad_clip = 1.0F}, 1.0F},
    {{.type = "rmsprop", .beta2 = 0.99, .eps = 1e-8F, .weight_decay = 0.1F}, 1.0F},
    {{.type = "rmsprop", .beta2 = 0.9, .eps = 1e-3F, .momentum = 0.9F}, 1e-2F},
    {{.type = "adagrad", .eps = 1e-10F, .weight_decay = 0.1F}, 1.0F},
};

static float lr_of(int t)
{
    return 0.05F / (1.0F + 0.1F * (float)t);
}

/* The reference of one step, parameter by parameter. */
static void step_reference(const charl_optimizer *o, const float *g, int t, double factor,
                           double *value, double state[][MAX_ELEMENTS])
{
    static double grad[MAX_ELEMENTS];

    for (int64_t i = 0; i < o->set->elements; i++) {
        grad[i] = (double)g[i] * factor;
    }
    for (int i = 0; i < o->set->count; i++) {
        const charl_param *p = o->set->param[i];
        charl_optimizer_reference r = {.config = &o->config,
                                       .lr = (double)lr_of(t),
                                       .weight_decay =
                                           p->spec.no_decay ? 0.0 : (double)o->config.weight_decay,
                                       .t = t + 1,
                                       .shape = p->spec.shape,
                                       .n = charl_shape_count(&p->spec.shape),
                                       .grad = grad + p->offset,
                                       .param = value + p->offset};

        for (int k = 0; k < o->n_states; k++) {
            r.state[k] = state[k] + p->offset;
        }
        if (p->spec.trainable) {
            o->type->reference(&r);
        }
    }
}

static void check_arena(charl_buffer *b, const double *want, int64_t n, double tol)
{
    float got[MAX_ELEMENTS];

    read_arena(b, got, n);
    charl_assert_close(got, want, n, tol);
}

static void check_config(const struct config *c)
{
    static double value[MAX_ELEMENTS], state[CHARL_OPTIM_MAX_STATES][MAX_ELEMENTS];
    static float g[MAX_ELEMENTS], start[MAX_ELEMENTS];
    static int kind[MAX_ELEMENTS];
    charl_params *set = NULL;
    charl_optimizer *o = NULL;

    charl_assert_ok(open_set(&set));
    charl_assert_ok(charl_optimizer_create(set, &c->c, &o));
    map_arena(set, kind);
    memset(state, 0, sizeof state);
    read_arena(set->value, start, set->elements);
    for (int64_t i = 0; i < set->elements; i++) {
        value[i] = (double)start[i];
    }
    for (int t = 0; t < STEPS; t++) {
        charl_optimizer_report report;
        double norm, factor;

        make_gradient(kind, t, c->gradient, g);
        factor = clip_factor(g, set->elements, c->c.grad_clip, &norm);
        write_gradient(set, g);
        assert_int_equal(charl_optimizer_get_steps(o), t);
        charl_assert_ok(charl_optimizer_step(o, lr_of(t)));
        step_reference(o, g, t, factor, value, state);
        charl_assert_ok(charl_optimizer_get_report(o, &report));
        charl_assert_close(&report.grad_norm, &norm, 1, 1e-6);
        assert_true(report.finite);
    }
    check_arena(set->value, value, set->elements, 2e-5);
    for (int k = 0; k < charl_optimizer_get_state_count(o); k++) {
        check_arena(o->state[k], state[k], set->elements, 2e-5);
    }
    read_arena(set->value, g, set->elements);
    for (int64_t i = 0; i < set->elements; i++) {
        assert_true(kind[i] || g[i] == 0.0F); /* padding */
    }
    read_arena(set->buffers, g, set->buffer_elements);
    assert_true(g[0] == 3.0F && g[3] == 3.0F);
    charl_optimizer_destroy(o);
    charl_params_destroy(set);
}

static void test_against_reference(void **state)
{
    (void)state;
    for (int i = 0; charl__optimizer_table[i]; i++) {
        int used = 0;

        for (size_t k = 0; k < sizeof configs / sizeof configs[0]; k++) {
            if (strcmp(configs[k].c.type, charl__optimizer_table[i]->name) == 0) {
                check_config(&configs[k]);
                used++;
            }
        }
        if (used == 0) {
            fail_msg("no configuration of %s: nothing tests it", charl__optimizer_table[i]->name);
        }
        assert_non_null(strstr(charl_optimizer_names(), charl__optimizer_table[i]->name));
    }
}

static void test_defaults_are_pytorch(void **state)
{
    const charl_optimizer_config sgd = charl_optimizer_defaults("sgd"),
                                 adam = charl_optimizer_defaults("adam"),
                                 adamw = charl_optimizer_defaults("adamw");

    (void)state;
    assert_true(sgd.momentum == 0.0F && sgd.weight_decay == 0.0F && !sgd.nesterov);
    assert_true(adam.beta1 == 0.9 && adam.beta2 == 0.999 && adam.eps == 1e-8F);
    assert_true(adam.weight_decay == 0.0F && adamw.weight_decay == 0.01F);
    assert_true(adamw.beta1 == 0.9 && adamw.beta2 == 0.999 && adamw.eps == 1e-8F);
    assert_true(charl_optimizer_defaults("rmsprop").beta2 == 0.99);
    assert_true(charl_optimizer_defaults("rmsprop").eps == 1e-8F);
    assert_true(charl_optimizer_defaults("adagrad").eps == 1e-10F);
    assert_string_equal(charl_optimizer_defaults("unheard of").type, "unheard of");
}

/* A bad gradient changes nothing, and neither does a good one after it. */
static void check_nonfinite(const char *type, float bad)
{
    static float g[MAX_ELEMENTS], before[1 + CHARL_OPTIM_MAX_STATES][MAX_ELEMENTS],
        after[MAX_ELEMENTS];
    static int kind[MAX_ELEMENTS];
    charl_optimizer_config config = charl_optimizer_defaults(type);
    charl_optimizer_report report;
    charl_params *set = NULL;
    charl_optimizer *o = NULL;

    config.momentum = 0.9F;
    config.grad_clip = 1.0F;
    charl_assert_ok(open_set(&set));
    charl_assert_ok(charl_optimizer_create(set, &config, &o));
    map_arena(set, kind);
    make_gradient(kind, 1, 1.0F, g);
    write_gradient(set, g);
    charl_assert_ok(charl_optimizer_step(o, 0.1F));
    read_arena(set->value, before[CHARL_OPTIM_MAX_STATES], set->elements);
    for (int k = 0; k < o->n_states; k++) {
        read_arena(o->state[k], before[k], set->elements);
    }
    g[set->param[3]->offset + 1999] = bad;
    for (int t = 0; t < 3; t++) {
        write_gradient(set, g);
        charl_assert_ok(charl_optimizer_step(o, 0.1F));
        charl_assert_ok(charl_optimizer_get_report(o, &report));
        assert_false(report.finite);
        make_gradient(kind, 2, 1.0F, g); /* good from now on */
    }
    read_arena(set->value, after, set->elements);
    charl_assert_same_bits(after, before[CHARL_OPTIM_MAX_STATES], set->elements);
    for (int k = 0; k < o->n_states; k++) {
        read_arena(o->state[k], after, set->elements);
        charl_assert_same_bits(after, before[k], set->elements);
    }
    charl_optimizer_destroy(o);
    charl_params_destroy(set);
}

static void test_nonfinite_gradients(void **state)
{
    (void)state;
    for (int i = 0; charl__optimizer_table[i]; i++) {
        check_nonfinite(charl__optimizer_table[i]->name, NAN);
        check_nonfinite(charl__optimizer_table[i]->name, INFINITY);
        check_nonfinite(charl__optimizer_table[i]->name, -INFINITY);
    }
}

/* commit = 0: the launches run, nothing changes, and a bad gradient leaves no mark. */
static void test_without_commit(void **state)
{
    static float g[MAX_ELEMENTS], before[MAX_ELEMENTS], after[MAX_ELEMENTS];
    static int kind[MAX_ELEMENTS];
    const charl_optimizer_config config = charl_optimizer_defaults("adam");
    charl_optimizer_report report;
    charl_params *set = NULL;
    charl_optimizer *o = NULL;
    charl_steps *steps = NULL;
    charl_step record = {.commit = 0};

    (void)state;
    charl_assert_ok(open_set(&set));
    charl_assert_ok(charl__steps_create(dev, 2, &steps));
    charl_assert_ok(charl__optimizer_create(set, &config, steps, &o));
    map_arena(set, kind);
    make_gradient(kind, 1, 1.0F, g);
    read_arena(set->value, before, set->elements);
    charl__optimizer_fill(o, 0.1F, &record);
    assert_true(record.lr == 0.1F && record.commit == 0);
    charl_assert_close(&record.bias1, &(double){1.0 - (double)0.9F}, 1, 1e-7);
    charl_assert_close(&record.bias2, &(double){1.0 - (double)0.999F}, 1, 1e-7);
    for (int bad = 0; bad < 2; bad++) {
        g[3] = bad ? NAN : g[3];
        write_gradient(set, g);
        charl_assert_ok(charl__steps_push(steps, &record));
        charl_assert_ok(charl_optimizer_step(o, 0.1F));
        charl_assert_ok(charl__optimizer_warm_up(o));
    }
    read_arena(set->value, after, set->elements);
    charl_assert_same_bits(after, before, set->elements);
    for (int k = 0; k < 2; k++) {
        read_arena(o->state[k], after, set->elements);
        for (int64_t i = 0; i < set->elements; i++) {
            assert_true(after[i] == 0.0F);
        }
    }
    g[3] = 0.5F;
    record.commit = 1;
    write_gradient(set, g);
    charl_assert_ok(charl__steps_push(steps, &record));
    charl_assert_ok(charl_optimizer_step(o, 0.1F));
    charl_assert_ok(charl_optimizer_get_report(o, &report));
    assert_true(report.finite);
    read_arena(set->value, after, set->elements);
    assert_memory_not_equal(after, before, (size_t)set->elements * sizeof *after);
    charl_optimizer_destroy(o);
    charl__steps_destroy(steps);
    charl_params_destroy(set);
}

static void copy_states(const charl_optimizer *from, charl_optimizer *to)
{
    for (int k = 0; k < from->n_states; k++) {
        for (int i = 0; i < from->set->count; i++) {
            static float v[MAX_ELEMENTS];

            if (from->set->param[i]->spec.trainable) {
                charl_assert_ok(charl_optimizer_read_state(from, k, from->set->param[i], v));
                charl_assert_ok(charl_optimizer_write_state(to, k, to->set->param[i], v));
            }
        }
    }
    charl_optimizer_set_steps(to, charl_optimizer_get_steps(from));
}

/* An optimizer given the state of another continues with the same bits. */
static void test_state_moves_over(void **state)
{
    static float g[MAX_ELEMENTS], a[MAX_ELEMENTS], b[MAX_ELEMENTS];
    static int kind[MAX_ELEMENTS];
    const charl_optimizer_config config = charl_optimizer_defaults("adamw");
    charl_params *one = NULL, *two = NULL;
    charl_optimizer *o = NULL, *resumed = NULL;

    (void)state;
    charl_assert_ok(open_set(&one));
    charl_assert_ok(open_set(&two));
    charl_assert_ok(charl_optimizer_create(one, &config, &o));
    charl_assert_ok(charl_optimizer_create(two, &config, &resumed));
    map_arena(one, kind);
    for (int t = 0; t < 6; t++) {
        make_gradient(kind, t, 1.0F, g);
        if (t == 3) {
            copy_states(o, resumed);
            for (int i = 0; i < one->count; i++) {
                charl_assert_ok(charl_param_read(one->param[i], a));
                charl_assert_ok(charl_param_write(two->param[i], a));
            }
        }
        write_gradient(one, g);
        charl_assert_ok(charl_optimizer_step(o, lr_of(t)));
        if (t >= 3) {
            write_gradient(two, g);
            charl_assert_ok(charl_optimizer_step(resumed, lr_of(t)));
        }
    }
    read_arena(one->value, a, one->elements);
    read_arena(two->value, b, two->elements);
    charl_assert_same_bits(b, a, one->elements);
    assert_int_equal(charl_optimizer_get_steps(resumed), 6);
    charl_optimizer_destroy(o);
    charl_optimizer_destroy(resumed);
    charl_params_destroy(one);
    charl_params_destroy(two);
}

static void test_state_names(void **state)
{
    charl_optimizer_config config = charl_optimizer_defaults("adam");
    charl_params *set = NULL, *other = NULL;
    charl_optimizer *o = NULL;
    float v[70];

    (void)state;
    charl_assert_ok(open_set(&set));
    charl_assert_ok(open_set(&other));
    charl_assert_ok(charl_optimizer_create(set, &config, &o));
    assert_int_equal(charl_optimizer_get_state_count(o), 2);
    assert_string_equal(charl_optimizer_get_state_name(o, 0), "exp_avg");
    assert_string_equal(charl_optimizer_get_state_name(o, 1), "exp_avg_sq");
    assert_null(charl_optimizer_get_state_name(o, 2));
    charl_assert_status(charl_optimizer_read_state(o, 2, set->param[0], v), CHARL_ERR_INVALID);
    charl_assert_status(charl_optimizer_read_state(o, 0, set->param[1], v), CHARL_ERR_INVALID);
    charl_assert_message("stat");
    charl_assert_status(charl_optimizer_write_state(o, 0, other->param[0], v), CHARL_ERR_INVALID);
    charl_optimizer_destroy(o);
    config = charl_optimizer_defaults("sgd");
    charl_assert_ok(charl_optimizer_create(set, &config, &o));
    assert_int_equal(charl_optimizer_get_state_count(o), 0);
    charl_optimizer_destroy(o);
    config.momentum = 0.9F;
    charl_assert_ok(charl_optimizer_create(set, &config, &o));
    assert_int_equal(charl_optimizer_get_state_count(o), 1);
    assert_string_equal(charl_optimizer_get_state_name(o, 0), "momentum_buffer");
    charl_optimizer_destroy(o);
    charl_optimizer_destroy(NULL);
    charl_params_destroy(set);
    charl_params_destroy(other);
}

static void test_refused(void **state)
{
    static const struct {
        charl_optimizer_config c;
        const char *message;
    } bad[] = {
        {{.type = NULL}, "missing"},
        {{.type = "adadelta"}, "adadelta"},
        {{.type = "sgd", .weight_decay = -1.0F}, "weight_decay"},
        {{.type = "sgd", .weight_decay = NAN}, "weight_decay"},
        {{.type = "sgd", .momentum = 1.0F}, "momentum"},
        {{.type = "sgd", .nesterov = true}, "nesterov"},
        {{.type = "adam", .beta1 = 1.0}, "beta1"},
        {{.type = "adam", .beta2 = -0.1}, "beta2"},
        {{.type = "adam", .eps = -1.0F}, "eps"},
        {{.type = "adam", .grad_clip = NAN}, "grad_clip"},
    };
    const charl_optimizer_config good = charl_optimizer_defaults("sgd");
    charl_params *set = NULL;
    charl_optimizer *o = NULL;

    (void)state;
    charl_assert_ok(open_set(&set));
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        charl_assert_status(charl_optimizer_create(set, &bad[i].c, &o), CHARL_ERR_CONFIG);
        charl_assert_message(bad[i].message);
        assert_null(o);
    }
    charl_params_destroy(set);
    charl_assert_ok(charl_params_create(&set));
    charl_assert_status(charl_optimizer_create(set, &good, &o), CHARL_ERR_INVALID);
    charl_params_destroy(set);
}

static charl_status life(void *ctx)
{
    charl_status st = CHARL_OK;
    const charl_optimizer_config config = charl_optimizer_defaults(ctx);
    charl_params *set = NULL;
    charl_optimizer *o = NULL;

    CHARL_TRY(open_set(&set));
    CHARL_TRY(charl_optimizer_create(set, &config, &o));
    CHARL_TRY(charl__optimizer_warm_up(o));
    CHARL_TRY(charl_optimizer_step(o, 0.1F));
    CHARL_TRY(charl_optimizer_step(o, 0.1F));
    CHARL_TRY(charl_device_sync(dev));
cleanup:
    charl_optimizer_destroy(o);
    charl_params_destroy(set);
    return st;
}

static void test_every_acquisition_may_fail(void **state)
{
    (void)state;
    for (int i = 0; charl__optimizer_table[i]; i++) {
        char name[16];

        snprintf(name, sizeof name, "%s", charl__optimizer_table[i]->name);
        charl_test_fail_every_acquisition(life, name);
    }
}

int main(void)
{
    const charl_device_request request = {.local_size = 1};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_reference),
        cmocka_unit_test(test_defaults_are_pytorch),
        cmocka_unit_test(test_nonfinite_gradients),
        cmocka_unit_test(test_without_commit),
        cmocka_unit_test(test_state_moves_over),
        cmocka_unit_test(test_state_names),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_every_acquisition_may_fail),
    };
    int rc;

    if (charl_device_open(&request, &dev) != CHARL_OK) {
        fprintf(stderr, "skipped: %s\n", charl_error_message());
        return 77;
    }
    rc = cmocka_run_group_tests(tests, NULL, NULL);
    charl_device_close(dev);
    if (rc == 0 && charl__live() != 0) {
        fprintf(stderr, "%ld objects are still alive\n", charl__live());
        rc = 1;
    }
    return rc;
}
