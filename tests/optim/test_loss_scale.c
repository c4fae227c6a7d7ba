/* The loss scale on the device: divided out exactly, halved and doubled without the host. */
#include "optim/public.h"

#include <math.h>

enum { N = 630, UPDATES = 2000 }; /* the scale doubles after so many */

/* A set of one matrix and one vector, with step parameters and an optimizer of its own. */
typedef struct fixture {
    set s;
    charl_steps *steps;
    charl_optimizer *optimizer;
    int step;
} fixture;

static void open_fixture(fixture *f, float scale, bool dynamic)
{
    static const charl_param_spec two[] = {
        {.name = "m", .shape = {2, {20, 30}}, .init = {CHARL_INIT_UNIFORM, -1.0F, 1.0F}, .trainable = true},
        {.name = "v", .shape = {1, {30}}, .init = {CHARL_INIT_UNIFORM, -1.0F, 1.0F}, .trainable = true}};
    charl_optimizer_config c = {.type = "adamw", .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8F, .grad_clip = 3.0F};
    const charl_steps_options o = {sizeof o, .loss_scale = scale, .dynamic = dynamic};

    *f = (fixture){0};
    open_specs(&f->s, two, 2);
    charl_assert_ok(charl_steps_create(dev, &o, &f->steps));
    c.steps = f->steps;
    charl_assert_ok(charl_optimizer_create(f->s.params, &c, &f->optimizer));
}

static void close_fixture(fixture *f)
{
    charl_optimizer_destroy(f->optimizer);
    close_set(&f->s);
    charl_steps_destroy(f->steps);
}

/* One step with gradients in (-1, 1) times `factor`; the first one is `first` unless that is 0. */
static void step(fixture *f, float factor, float first)
{
    float g[MAX_ELEMENTS];

    make_gradient(f->step, 1.0F, g);
    for (int i = 0; i < N; i++) {
        g[i] *= factor;
    }
    g[0] = first != 0.0F ? first : g[0];
    charl_assert_ok(charl_optimizer_begin(f->optimizer, 0.01F));
    put_gradient(&f->s, g);
    charl_assert_ok(charl_optimizer_step(f->optimizer, 0.01F));
    f->step++;
}

static void read_all(const fixture *f, float *v)
{
    assert_int_equal(read_values(&f->s, v), N);
}

static float scale_of(const fixture *f)
{
    float scale;

    charl_assert_ok(charl_steps_get_loss_scale(f->steps, &scale));
    return scale;
}

static bool is_finite(const fixture *f)
{
    charl_optimizer_report r;

    charl_assert_ok(charl_optimizer_get_report(f->optimizer, &r));
    return r.finite;
}

static void test_divides_exactly(void **state)
{
    static const float scales[] = {1.0F, 2.0F, 1024.0F, 65536.0F};
    float want[N], got[N];
    fixture plain, f;
    charl_optimizer_report a, b;

    (void)state;
    open_fixture(&plain, 0.0F, false);
    assert_true(scale_of(&plain) == 1.0F);
    for (int t = 0; t < 3; t++) {
        step(&plain, 1.0F, 0.0F);
    }
    read_all(&plain, want);
    charl_assert_ok(charl_optimizer_get_report(plain.optimizer, &a));
    for (size_t i = 0; i < sizeof scales / sizeof *scales; i++) {
        open_fixture(&f, scales[i], i % 2 == 1);
        for (int t = 0; t < 3; t++) {
            step(&f, scales[i], 0.0F);
        }
        read_all(&f, got);
        assert_memory_equal(want, got, sizeof want);
        charl_assert_ok(charl_optimizer_get_report(f.optimizer, &b));
        assert_true(a.grad_norm == b.grad_norm);
        close_fixture(&f);
    }
    close_fixture(&plain);
}

static void test_skips_and_halves(void **state)
{
    float before[N], after[N];
    fixture f;

    (void)state;
    open_fixture(&f, 65536.0F, true);
    step(&f, 65536.0F, 0.0F);
    read_all(&f, before);
    step(&f, 1.0F, INFINITY);
    step(&f, 1.0F, NAN);
    read_all(&f, after);
    assert_memory_equal(before, after, sizeof before);
    assert_true(scale_of(&f) == 16384.0F);
    assert_true(is_finite(&f));
    step(&f, 16384.0F, 0.0F);
    read_all(&f, after);
    assert_memory_not_equal(before, after, sizeof before);
    for (int t = 0; t < 13; t++) { /* 2^14 down to 2 */
        step(&f, 1.0F, INFINITY);
    }
    assert_true(scale_of(&f) == 2.0F);
    assert_true(is_finite(&f));
    step(&f, 1.0F, INFINITY); /* no scale helps any more: as without one */
    assert_false(is_finite(&f));
    read_all(&f, before);
    step(&f, 2.0F, 0.0F);
    read_all(&f, after);
    assert_memory_equal(before, after, sizeof before);
    close_fixture(&f);
}

static void test_doubles(void **state)
{
    fixture f;

    (void)state;
    open_fixture(&f, 0x1p23F, true);
    charl_assert_ok(charl_optimizer_set_steps(f.optimizer, UPDATES - 2, 0));
    step(&f, 1.0F, 0.0F);
    assert_true(scale_of(&f) == 0x1p23F);
    step(&f, 1.0F, 0.0F);
    assert_true(scale_of(&f) == 0x1p24F);
    charl_assert_ok(charl_optimizer_set_steps(f.optimizer, 2 * UPDATES - 1, 0));
    step(&f, 1.0F, 0.0F);
    assert_true(scale_of(&f) == 0x1p24F); /* the largest */
    charl_assert_ok(charl_optimizer_set_steps(f.optimizer, 3 * UPDATES - 1, 1));
    step(&f, 1.0F, INFINITY); /* a step that is skipped is no update */
    assert_true(scale_of(&f) == 0x1p23F);
    step(&f, 1.0F, 0.0F);
    assert_true(scale_of(&f) == 0x1p23F);
    step(&f, 1.0F, 0.0F);
    assert_true(scale_of(&f) == 0x1p24F);
    close_fixture(&f);
}

static void test_fixed(void **state)
{
    fixture f;

    (void)state;
    open_fixture(&f, 128.0F, false);
    charl_assert_ok(charl_optimizer_set_steps(f.optimizer, UPDATES - 1, 0));
    step(&f, 128.0F, 0.0F);
    assert_true(is_finite(&f));
    step(&f, 128.0F, INFINITY);
    assert_true(scale_of(&f) == 128.0F);
    assert_false(is_finite(&f));
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_divides_exactly),
        cmocka_unit_test(test_skips_and_halves),
        cmocka_unit_test(test_doubles),
        cmocka_unit_test(test_fixed),
    };

    return charl_test_on_device(tests, &dev);
}
