/* Every row of the optimizer table against its double reference, its forms and the working copy, and what a step must not touch. An
 * optimizer divided among three processes does what one that has everything does, to the bit; averages and norms. */
#include "optim/suite.h"

#include <math.h>
#include <stdlib.h>

#include "device/device_private.h"

enum { STEPS = 20 };

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

/* Besides the defaults of every optimizer. */
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
    {{.type = "adamw", .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8F, .weight_decay = 0.3F, .grad_clip = 1.0F}, 10.0F},
    {{.type = "lion", .beta1 = 0.9, .beta2 = 0.99, .weight_decay = 0.1F}, 1.0F},
    {{.type = "lion", .beta1 = 0.95, .beta2 = 0.98, .grad_clip = 1.0F}, 1.0F},
    {{.type = "rmsprop", .beta2 = 0.99, .eps = 1e-8F, .weight_decay = 0.1F}, 1.0F},
    {{.type = "rmsprop", .beta2 = 0.9, .eps = 1e-3F, .momentum = 0.9F}, 1e-2F},
    {{.type = "adagrad", .eps = 1e-10F, .weight_decay = 0.1F}, 1.0F},
    {{.type = "lamb", .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-6F, .weight_decay = 0.1F}, 1.0F},
    {{.type = "lamb", .beta1 = 0.8, .beta2 = 0.9, .eps = 1e-3F, .grad_clip = 1.0F}, 1.0F},
    {{.type = "adafactor", .eps = 1e-7F}, 1.0F},
    {{.type = "adafactor", .eps = 1e-30F}, 1.0F}, /* whose square is 0 in f32 */
    {{.type = "adafactor", .eps = 1e-2F, .weight_decay = 0.1F, .grad_clip = 1.0F}, 1.0F},
    {{.type = "muon", .momentum = 0.95F, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8F, .weight_decay = 0.1F}, 1.0F},
    {{.type = "muon", .beta1 = 0.8, .beta2 = 0.9, .eps = 1e-4F, .grad_clip = 1.0F}, 1.0F},
};

/* The reference of one step, parameter by parameter. */
static void step_reference(const charl_optimizer *o, const float *g, int t, double factor, double *value,
                           double state[][MAX_ELEMENTS])
{
    static double grad[MAX_ELEMENTS], scratch[4 * MAX_ELEMENTS + 300 * 300];

    for (int64_t i = 0; i < o->set->elements; i++) {
        grad[i] = (double)g[i] * factor;
    }
    for (int i = 0; i < o->set->count; i++) {
        const charl_param *p = o->set->param[i];
        const double wd = (double)(p->settings.weight_decay >= 0.0F ? p->settings.weight_decay
                                   : p->spec.no_decay               ? 0.0F
                                                                    : o->config.weight_decay);
        charl__optimizer_reference r = {.config = &o->config,
                                        .lr = (double)(lr_of(t) * p->settings.lr_scale),
                                        .weight_decay = wd,
                                        .muon_exclude = p->settings.muon_exclude,
                                        .t = t + 1,
                                        .shape = p->spec.shape,
                                        .n = charl_shape_count(&p->spec.shape),
                                        .grad = grad + p->offset,
                                        .param = value + p->offset,
                                        .scratch = scratch};

        for (int k = 0; k < o->n_states; k++) {
            r.state[k] = state[k] + p->offset;
        }
        if (p->spec.trainable) {
            o->type->reference(&r);
        }
    }
}

static void check_arena(charl__buffer *b, const double *want, int64_t n, double tol)
{
    float got[MAX_ELEMENTS];

    read_arena(b, got, n);
    charl_assert_close(got, want, n, tol);
}

/* States lie in `want` where their parameters begin in the arena. */
static void check_states(const charl_optimizer *o, double want[][MAX_ELEMENTS], double tol)
{
    static float got[MAX_ELEMENTS];
    charl_shape shape;

    for (int k = 0; k < o->n_states; k++) {
        for (int i = 0; i < o->set->count; i++) {
            const charl_param *p = o->set->param[i];

            if (charl_optimizer_get_state_shape(o, k, p, &shape)) {
                charl_assert_ok(charl_optimizer_read_state(o, k, p, got));
                charl_assert_close(got, want[k] + p->offset, charl_shape_count(&shape), tol);
            }
        }
    }
}

/* All states, one after another. */
static int64_t read_states(const charl_optimizer *o, float *out)
{
    charl_shape shape;
    int64_t n = 0;

    for (int k = 0; k < o->n_states; k++) {
        for (int i = 0; i < o->set->count; i++) {
            if (charl_optimizer_get_state_shape(o, k, o->set->param[i], &shape)) {
                charl_assert_ok(charl_optimizer_read_state(o, k, o->set->param[i], out + n));
                n += charl_shape_count(&shape);
            }
        }
    }
    return n;
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
    check_states(o, state, 2e-5);
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
    for (int i = 0; charl_optimizer_name(i); i++) {
        struct config c = {charl_optimizer_defaults(charl_optimizer_name(i)), 1.0F};

        check_config(&c);
        c.c.weight_decay = 0.1F;
        c.c.grad_clip = 1.0F;
        check_config(&c);
    }
    for (size_t k = 0; k < sizeof configs / sizeof configs[0]; k++) {
        check_config(&configs[k]);
    }
}

static void test_defaults_are_pytorch(void **state)
{
    const charl_optimizer_config sgd = charl_optimizer_defaults("sgd"), adam = charl_optimizer_defaults("adam"),
                                 adamw = charl_optimizer_defaults("adamw");

    (void)state;
    assert_true(sgd.momentum == 0.9 && sgd.weight_decay == 0.0F && !sgd.nesterov);
    assert_true(adam.beta1 == 0.9 && adam.beta2 == 0.999 && adam.eps == 1e-8);
    assert_true(adam.weight_decay == 0.0F && adamw.weight_decay == 0.01F);
    assert_true(adamw.beta1 == 0.9 && adamw.beta2 == 0.999 && adamw.eps == 1e-8);
    assert_true(charl_optimizer_defaults("rmsprop").beta2 == 0.99);
    assert_true(charl_optimizer_defaults("rmsprop").eps == 1e-8);
    assert_true(charl_optimizer_defaults("adagrad").eps == 1e-10);
    assert_true(charl_optimizer_defaults("adafactor").eps == 0x1p-23);
    assert_true(charl_optimizer_defaults("muon").momentum == 0.95);
    assert_string_equal(charl_optimizer_defaults("unheard of").type, "unheard of");
}

/* A bad gradient changes nothing, and neither does a good one after it. */
static void check_nonfinite(const char *type, charl_packing packing, float bad)
{
    static float g[MAX_ELEMENTS], value[2][MAX_ELEMENTS], states[2][CHARL_OPTIM_MAX_STATES * MAX_ELEMENTS];
    static int kind[MAX_ELEMENTS];
    charl_optimizer_config config = charl_optimizer_defaults(type);
    charl_optimizer_report report;
    charl_params *set = NULL;
    charl_optimizer *o = NULL;
    int64_t n;

    config.state = packing;
    config.momentum = 0.9F;
    config.grad_clip = 1.0F;
    charl_assert_ok(open_set(&set));
    charl_assert_ok(charl_optimizer_create(set, &config, &o));
    map_arena(set, kind);
    make_gradient(kind, 1, 1.0F, g);
    write_gradient(set, g);
    charl_assert_ok(charl_optimizer_step(o, 0.1F));
    read_arena(set->value, value[0], set->elements);
    n = read_states(o, states[0]);
    g[set->param[3]->offset + 1999] = bad;
    for (int t = 0; t < 3; t++) {
        write_gradient(set, g);
        charl_assert_ok(charl_optimizer_step(o, 0.1F));
        charl_assert_ok(charl_optimizer_get_report(o, &report));
        assert_false(report.finite);
        make_gradient(kind, 2, 1.0F, g); /* good from now on */
    }
    read_arena(set->value, value[1], set->elements);
    charl_assert_same_bits(value[1], value[0], set->elements);
    assert_int_equal(read_states(o, states[1]), n);
    charl_assert_same_bits(states[1], states[0], n);
    charl_optimizer_destroy(o);
    charl_params_destroy(set);
}

static void test_nonfinite_gradients(void **state)
{
    (void)state;
    for (int i = 0; charl_optimizer_name(i); i++) {
        const bool packs = charl_optimizer_is_elementwise(charl_optimizer_name(i));

        check_nonfinite(charl_optimizer_name(i), CHARL_PACKING_F32, NAN);
        check_nonfinite(charl_optimizer_name(i), packs ? CHARL_PACKING_BF16 : CHARL_PACKING_F32, INFINITY);
        check_nonfinite(charl_optimizer_name(i), packs ? CHARL_PACKING_INT8 : CHARL_PACKING_F32, -INFINITY);
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
    charl__step_params record = {.commit = 0};

    (void)state;
    charl_assert_ok(open_set(&set));
    charl_assert_ok(charl__steps_create(dev, 2, &steps));
    charl_assert_ok(charl__optimizer_create(set, &config, steps, NULL, &o));
    map_arena(set, kind);
    make_gradient(kind, 1, 1.0F, g);
    read_arena(set->value, before, set->elements);
    charl_assert_ok(charl__optimizer_fill(o, 0.1F, &record));
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

static int refuse_write(charl_device *device, charl__queue q, charl__driver_memory *m, size_t offset, const void *src,
                        size_t bytes, bool wait, charl__driver_event **event)
{
    (void)device;
    (void)q;
    (void)m;
    (void)offset;
    (void)src;
    (void)bytes;
    (void)wait;
    (void)event;
    return -4; /* CL_MEM_OBJECT_ALLOCATION_FAILURE */
}

/* A step whose parameters the device refuses has not begun. */
static void test_a_refused_begin(void **state)
{
    static float before[MAX_ELEMENTS], after[MAX_ELEMENTS];
    charl_optimizer_config config = charl_optimizer_defaults("sgd");
    const charl__driver *driver = dev->driver;
    charl__driver refusing = *driver;
    charl_params *set = NULL;
    charl_optimizer *o = NULL;
    charl_steps *steps = NULL;

    (void)state;
    charl_assert_ok(open_set(&set));
    charl_assert_ok(charl_steps_create(dev, NULL, &steps));
    config.steps = steps;
    charl_assert_ok(charl_optimizer_create(set, &config, &o));
    read_arena(set->value, before, set->elements);
    refusing.write = refuse_write;
    dev->driver = &refusing;
    assert_int_not_equal(charl_optimizer_begin(o, 0.1F), CHARL_OK);
    dev->driver = driver;
    charl_assert_status(charl_optimizer_step(o, 0.1F), CHARL_ERR_INVALID);
    charl_assert_message("HINT call charl_optimizer_begin");
    read_arena(set->value, after, set->elements);
    charl_assert_same_bits(after, before, set->elements);
    assert_int_equal(charl_optimizer_get_steps(o), 0);
    charl_assert_ok(charl_optimizer_begin(o, 0.1F));
    charl_assert_ok(charl_optimizer_step(o, 0.1F));
    assert_int_equal(charl_optimizer_get_steps(o), 1);
    charl_optimizer_destroy(o);
    charl_steps_destroy(steps);
    charl_params_destroy(set);
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
    charl_param *p;

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
    charl_assert_ok(charl_params_add(set, &specs[0], &p));
    charl_assert_ok(charl__params_layout(set, NULL, 0));
    charl_assert_ok(charl__params_allocate(set, dev, CHARL_F32));
    charl_assert_ok(charl__params_allocate_gradients(set, 1, true, NULL));
    charl_assert_ok(charl_optimizer_create(set, &good, &o));
    charl_assert_status(charl_optimizer_step(o, 0.1F), CHARL_ERR_INVALID);
    charl_assert_message("the parameters have no values; HINT charl_params_initialize");
    charl_optimizer_destroy(o);
    charl_params_destroy(set);
}

static charl_status life(void *ctx)
{
    charl_status st = CHARL_OK;
    const charl_optimizer_config config = charl_optimizer_defaults(ctx);
    charl_params *set = NULL;
    charl_optimizer *o = NULL;

    CHARL_TRY_CLEANUP(open_set(&set));
    CHARL_TRY_CLEANUP(charl_optimizer_create(set, &config, &o));
    CHARL_TRY_CLEANUP(charl__optimizer_warm_up(o));
    CHARL_TRY_CLEANUP(charl_optimizer_step(o, 0.1F));
    CHARL_TRY_CLEANUP(charl_optimizer_step(o, 0.1F));
    CHARL_TRY_CLEANUP(charl_device_sync(dev));
cleanup:
    charl_optimizer_destroy(o);
    charl_params_destroy(set);
    return st;
}

static void test_every_acquisition_may_fail(void **state)
{
    (void)state;
    for (int i = 0; charl_optimizer_name(i); i++) {
        char name[16];

        snprintf(name, sizeof name, "%s", charl_optimizer_name(i));
        charl_test_fail_every_acquisition(life, name);
    }
}

/* Updates in vectors, as on a device with work-groups: the bits of updates one by one, and the working copy of the parameters, which the same
 * launch writes. */
typedef struct outcome {
    float value[MAX_ELEMENTS], state[2][MAX_ELEMENTS];
    uint16_t half[MAX_ELEMENTS];
    int64_t n;
    int states;
} outcome;

static void train(const char *type, int group, outcome *out)
{
    static float g[MAX_ELEMENTS];
    static int kind[MAX_ELEMENTS];
    const charl__device_facts saved = *charl__device_facts_get(dev);
    charl__device_facts facts = saved;
    charl_optimizer_config config = charl_optimizer_defaults(type);
    charl_params *set = NULL;
    charl_optimizer *o = NULL;

    config.weight_decay = 0.1F;
    config.grad_clip = 1.0F;
    facts.group = group;
    charl__device_set_facts(dev, facts);
    charl_assert_ok(open_set(&set));
    charl_assert_ok(charl__params_use_half(set, CHARL_BF16));
    charl_assert_ok(charl_optimizer_create(set, &config, &o));
    map_arena(set, kind);
    for (int t = 0; t < 3; t++) {
        make_gradient(kind, t, 1.0F, g);
        write_gradient(set, g);
        charl_assert_ok(charl_optimizer_step(o, lr_of(t)));
    }
    out->n = set->elements;
    out->states = o->n_states;
    read_arena(set->value, out->value, set->elements);
    for (int k = 0; k < o->n_states; k++) {
        read_arena(o->state[k], out->state[k], set->elements);
    }
    charl_assert_ok(charl__buffer_read(CHARL_QUEUE_COMPUTE, set->half, 0, out->half,
                                       (size_t)set->elements * sizeof *out->half, true));
    charl__device_set_facts(dev, saved);
    charl_optimizer_destroy(o);
    charl_params_destroy(set);
}

static void test_vectors(void **state)
{
    static outcome one, vectors;
    const charl__optimizer_rule *rule;
    int n = 0;

    (void)state;
    for (int i = 0; (rule = charl__optimizer_at(i)) != NULL; i++) {
        if (!rule->elementwise) {
            continue;
        }
        n++;
        train(rule->row.name, 1, &one);
        train(rule->row.name, 256, &vectors);
        charl_assert_same_bits(vectors.value, one.value, one.n);
        for (int k = 0; k < one.states; k++) {
            charl_assert_same_bits(vectors.state[k], one.state[k], one.n);
        }
        for (int64_t j = 0; j < one.n; j++) {
            assert_int_equal(one.half[j], charl_test_bf16(one.value[j]));
            assert_int_equal(vectors.half[j], one.half[j]);
        }
    }
    assert_true(n >= 5);
}

/* The working copy of a parameter of a matrix follows every step and every write; vectors have none. */
static void compare_copy(const charl_param *matrix)
{
    float value[2000];
    uint16_t half[2000];

    charl_assert_ok(charl_param_read(matrix, value));
    charl_assert_ok(charl_tensor_read(matrix->half, half, sizeof half));
    for (int i = 0; i < 2000; i++) {
        assert_int_equal(half[i], charl_test_bf16(value[i]));
    }
}

static void test_working_copy(void **state)
{
    static float g[MAX_ELEMENTS];
    static int kind[MAX_ELEMENTS];
    const charl_optimizer_config config = charl_optimizer_defaults("adamw");
    charl_params *set = NULL;
    charl_optimizer *o = NULL;
    float value[2000];

    (void)state;
    charl_assert_ok(open_set(&set));
    map_arena(set, kind);
    charl_assert_ok(charl__params_use_half(set, CHARL_BF16));
    charl_assert_ok(charl_optimizer_create(set, &config, &o));
    assert_null(set->param[0]->half);
    compare_copy(set->param[3]);
    make_gradient(kind, 0, 1.0F, g);
    write_gradient(set, g);
    charl_assert_ok(charl_optimizer_step(o, 0.1F));
    compare_copy(set->param[3]);
    charl_test_fill(value, 2000, -9.0F, 9.0F, 3);
    charl_assert_ok(charl_param_write(set->param[3], value));
    compare_copy(set->param[3]);
    charl_assert_ok(charl__params_use_half(set, CHARL_BF16));
    charl_assert_status(charl__params_use_half(set, CHARL_F16), CHARL_ERR_INVALID);
    charl_assert_message("is bf16, not f16");
    charl_optimizer_destroy(o);
    charl_params_destroy(set);
}

/* ------------------------------------------------------------------ state divided among processes */

enum { PARTS = 3, DIVIDED_STEPS = 4 };

typedef struct part {
    charl_params *set;
    charl_optimizer *o;
    charl__param_range range[2];
} part;

/* Two ranges of the arena, of which every part has a third, in blocks; the second begins and ends
 * in the middle of parameters, and the last part has nothing of it. */
static void part_init(part *p, int i, const charl_optimizer_config *config)
{
    const int64_t blocks = 30, more = i < PARTS - 1 ? 7 : 0;

    charl_assert_ok(open_set(&p->set));
    p->range[0].begin = i * (blocks / PARTS) * CHARL_PARAM_ALIGN;
    p->range[0].count = blocks / PARTS * CHARL_PARAM_ALIGN;
    p->range[1].begin = (blocks + 7 * i) * CHARL_PARAM_ALIGN;
    p->range[1].count = more * CHARL_PARAM_ALIGN;
    if (i == PARTS - 2) {
        p->range[1].count = p->set->elements - p->range[1].begin;
    }
    charl_assert_ok(charl__optimizer_create(p->set, config, NULL, &(charl__param_ranges){p->range, 2}, &p->o));
    charl_assert_ok(charl_optimizer_reset_ema(p->o));
}

/* What one process tells the others after a step. */
static void gather(part *p)
{
    static float all[MAX_ELEMENTS], v[MAX_ELEMENTS];

    for (int i = 0; i < PARTS; i++) {
        read_arena(p[i].set->value, v, p[i].set->elements);
        for (int r = 0; r < 2; r++) {
            memcpy(all + p[i].range[r].begin, v + p[i].range[r].begin, (size_t)p[i].range[r].count * sizeof *v);
        }
    }
    for (int i = 0; i < PARTS; i++) {
        charl_assert_ok(charl__buffer_write(CHARL_QUEUE_COMPUTE, p[i].set->value, 0, all,
                                            (size_t)p[i].set->elements * sizeof *all, true));
    }
}

/* State k of every parameter, k = number of states: the average; pieces from all parts. */
static void check_kept(const part *p, const part *one, int k)
{
    static float want[MAX_ELEMENTS], got[MAX_ELEMENTS];
    const bool average = k == one->o->n_states;

    for (int i = 0; i < one->set->count; i++) {
        const charl_param *q = one->set->param[i];

        if (!q->spec.trainable) {
            continue;
        }
        charl_assert_ok(average ? charl__optimizer_read_ema(one->o, q, want)
                                : charl_optimizer_read_state(one->o, k, q, want));
        memset(got, 0xff, sizeof got);
        for (int r = 0; r < PARTS; r++) {
            const charl_param *mine = p[r].set->param[i];

            charl_assert_ok(charl__own_read(p[r].o, k, mine, got));
            charl_assert_status(average ? charl__optimizer_read_ema(p[r].o, mine, got)
                                        : charl_optimizer_read_state(p[r].o, k, mine, got),
                                CHARL_ERR_INVALID);
        }
        charl_assert_same_bits(got, want, charl_shape_count(&q->spec.shape));
    }
}

/* State and average go from the whole optimizer to the parts. */
static void hand_over(const part *one, part *p)
{
    static float v[MAX_ELEMENTS];

    for (int r = 0; r < PARTS; r++) {
        for (int i = 0; i < one->set->count; i++) {
            const charl_param *from = one->set->param[i];
            charl_param *to = p[r].set->param[i];

            charl_assert_ok(charl_param_read(from, v));
            charl_assert_ok(charl_param_write(to, v));
            for (int k = 0; from->spec.trainable && k < one->o->n_states; k++) {
                charl_assert_ok(charl_optimizer_read_state(one->o, k, from, v));
                charl_assert_ok(charl_optimizer_write_state(p[r].o, k, to, v));
            }
            if (from->spec.trainable) {
                charl_assert_ok(charl__optimizer_read_ema(one->o, from, v));
                charl_assert_ok(charl__optimizer_write_ema(p[r].o, to, v));
            }
        }
        charl_assert_ok(charl_optimizer_set_steps(p[r].o, charl_optimizer_get_steps(one->o), 0));
    }
}

static void check_type(const char *type, charl_packing packing)
{
    static float g[MAX_ELEMENTS], a[MAX_ELEMENTS], b[MAX_ELEMENTS];
    static int kind[MAX_ELEMENTS];
    charl_optimizer_config config = charl_optimizer_defaults(type);
    part one = {0}, p[PARTS] = {{0}};

    config.momentum = 0.9F; /* of sgd and rmsprop: a state more */
    config.grad_clip = 3.0F;
    config.ema_decay = 0.9;
    config.state = packing;
    charl_assert_ok(open_set(&one.set));
    charl_assert_ok(charl_optimizer_create(one.set, &config, &one.o));
    charl_assert_ok(charl_optimizer_reset_ema(one.o));
    map_arena(one.set, kind);
    for (int r = 0; r < PARTS; r++) {
        part_init(&p[r], r, &config);
    }
    for (int t = 0; t < DIVIDED_STEPS; t++) {
        make_gradient(kind, t, 1.0F, g);
        write_gradient(one.set, g);
        charl_assert_ok(charl_optimizer_step(one.o, lr_of(t)));
        if (t == 0) {
            hand_over(&one, p);
            continue;
        }
        for (int r = 0; r < PARTS; r++) {
            write_gradient(p[r].set, g);
            charl_assert_status(charl_optimizer_step(p[r].o, lr_of(t)), CHARL_ERR_INVALID);
            charl_assert_ok(charl__optimizer_step(p[r].o, lr_of(t)));
        }
        gather(p);
    }
    for (int r = 0; r < PARTS; r++) {
        charl_assert_status(charl_optimizer_exchange_ema(p[r].o), CHARL_ERR_INVALID);
        charl_assert_ok(charl__optimizer_exchange_ema(p[r].o));
    }
    gather(p);
    charl_assert_ok(charl_optimizer_exchange_ema(one.o));
    read_arena(one.set->value, a, one.set->elements);
    for (int r = 0; r < PARTS; r++) {
        read_arena(p[r].set->value, b, one.set->elements);
        charl_assert_same_bits(b, a, one.set->elements);
    }
    for (int k = 0; k <= one.o->n_states; k++) {
        check_kept(p, &one, k);
    }
    for (int r = 0; r < PARTS; r++) {
        charl_optimizer_destroy(p[r].o);
        charl_params_destroy(p[r].set);
    }
    charl_optimizer_destroy(one.o);
    charl_params_destroy(one.set);
}

static void test_elementwise_types_divide(void **state)
{
    (void)state;
    assert_true(charl_optimizer_is_elementwise("adamw"));
    for (int i = 0; charl_optimizer_name(i); i++) {
        if (charl_optimizer_is_elementwise(charl_optimizer_name(i))) {
            for (charl_packing packing = CHARL_PACKING_F32; packing <= CHARL_PACKING_INT8; packing++) {
                check_type(charl_optimizer_name(i), packing);
            }
        }
    }
    assert_false(charl_optimizer_is_elementwise("none"));
}

static void test_whole_tensors_do_not(void **state)
{
    const charl__param_range half = {0, 1024};
    charl_params *set = NULL;
    charl_optimizer *o = NULL;

    (void)state;
    assert_false(charl_optimizer_is_elementwise("muon"));
    charl_assert_ok(open_set(&set));
    for (int i = 0; charl_optimizer_name(i); i++) {
        const charl_optimizer_config config = charl_optimizer_defaults(charl_optimizer_name(i));

        if (charl_optimizer_is_elementwise(charl_optimizer_name(i))) {
            continue;
        }
        charl_assert_status(charl__optimizer_create(set, &config, NULL, &(charl__param_ranges){&half, 1}, &o),
                            CHARL_ERR_CONFIG);
        charl_assert_message(charl_optimizer_name(i));
        assert_null(o);
    }
    charl_params_destroy(set);
}

/* The last norms, as checkpoints keep them: a resumed training knows a spike. The norm of a step that was one is the limit. */
static void test_norms_are_kept(void **state)
{
    static const charl_optimizer_config config = {
        .type = "sgd", .on_spike = CHARL_SPIKE_SKIP, .spike_window = 4, .spike_threshold = 3.0F};
    static float g[MAX_ELEMENTS];
    static int kind[MAX_ELEMENTS];
    float norm[5], kept[5], mean = 0, squares = 0, limit;
    charl_optimizer *first = NULL, *resumed = NULL;
    charl_optimizer_report report;
    charl_params *set = NULL;

    (void)state;
    charl_assert_ok(open_set(&set));
    map_arena(set, kind);
    charl_assert_ok(charl_optimizer_create(set, &config, &first));
    for (int t = 0; t < 6; t++) {
        make_gradient(kind, t, t == 5 ? 1e6F : 1.0F + 0.1F * (float)t, g);
        write_gradient(set, g);
        charl_assert_ok(charl__optimizer_begin(first));
        charl_assert_ok(charl_optimizer_step(first, lr_of(t)));
        if (t == 4) {
            charl_assert_ok(charl__optimizer_get_norms(first, norm));
            assert_true(norm[4] == 1.0F); /* 0 holds the last one, 1 the oldest */
            assert_true(norm[0] > norm[3] && norm[3] > norm[2] && norm[2] > norm[1]);
        }
    }
    for (int i = 0; i < 4; i++) {
        mean += norm[i] / 4;
    }
    for (int i = 0; i < 4; i++) {
        squares += (norm[i] - mean) * (norm[i] - mean) / 4;
    }
    limit = mean + 3 * sqrtf(squares);
    charl_assert_ok(charl__optimizer_get_norms(first, kept));
    assert_true(fabsf(kept[1] - limit) < 1e-5F * limit);
    charl_assert_ok(charl_optimizer_create(set, &config, &resumed));
    charl_assert_ok(charl__optimizer_set_norms(resumed, norm));
    charl_assert_ok(charl__optimizer_begin(resumed));
    charl_assert_ok(charl_optimizer_step(resumed, 0.1F));
    charl_assert_ok(charl_optimizer_get_report(resumed, &report));
    assert_true(report.spike);
    charl_optimizer_destroy(resumed);
    charl_optimizer_destroy(first);
    charl_params_destroy(set);
}

/* What has no average is refused by name. */
static void test_averages_that_there_are_not(void **state)
{
    charl_optimizer_config config = charl_optimizer_defaults("adamw");
    charl_params *set = NULL;
    charl_optimizer *o = NULL;
    float v[70];

    (void)state;
    charl_assert_ok(open_set(&set));
    charl_assert_ok(charl_optimizer_create(set, &config, &o));
    assert_false(charl__optimizer_has_ema(o));
    charl_assert_status(charl__optimizer_write_ema(o, set->param[0], v), CHARL_ERR_INVALID);
    charl_optimizer_destroy(o);
    config.ema_decay = 0.5;
    charl_assert_ok(charl_optimizer_create(set, &config, &o));
    assert_true(charl__optimizer_has_ema(o));
    charl_assert_status(charl__optimizer_read_ema(o, set->param[1], v), CHARL_ERR_INVALID);
    charl_assert_message("no moving average of stat");
    charl_optimizer_destroy(o);
    charl_params_destroy(set);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_reference),
        cmocka_unit_test(test_defaults_are_pytorch),
        cmocka_unit_test(test_nonfinite_gradients),
        cmocka_unit_test(test_without_commit),
        cmocka_unit_test(test_vectors),
        cmocka_unit_test(test_working_copy),
        cmocka_unit_test(test_a_refused_begin),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_every_acquisition_may_fail),
        cmocka_unit_test(test_elementwise_types_divide),
        cmocka_unit_test(test_whole_tensors_do_not),
        cmocka_unit_test(test_norms_are_kept),
        cmocka_unit_test(test_averages_that_there_are_not),
    };

    return charl_test_optim(tests, sizeof tests / sizeof tests[0]);
}
