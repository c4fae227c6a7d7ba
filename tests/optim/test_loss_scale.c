/* The loss scale on the device: divided out exactly, halved and doubled without the host, and the
 * working copy of the parameters follows every step. */
#include "support/on_device.h"

#include <math.h>
#include <string.h>

#include "optim/optimizer.h"

enum { N = 1024 };

static charl_device *dev;

/* A set of one matrix and one vector, with a step record and an optimizer of its own. */
typedef struct fixture {
    charl_params *set;
    charl_param *matrix, *vector;
    charl_steps *steps;
    charl_optimizer *optimizer;
    uint32_t step;
} fixture;

static void open_fixture(fixture *f, float scale, bool dynamic)
{
    const charl_optimizer_config c = {.type = "adamw", .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8F, .grad_clip = 3.0F};
    const charl_init init = {CHARL_INIT_UNIFORM, -1.0F, 1.0F};

    *f = (fixture){0};
    charl_assert_ok(charl_params_create(&f->set));
    charl_assert_ok(charl_params_add(
        f->set, &(charl_param_spec){.name = "m", .shape = {2, {20, 30}}, .init = init, .trainable = true}, &f->matrix));
    charl_assert_ok(charl_params_add(
        f->set, &(charl_param_spec){.name = "v", .shape = {1, {30}}, .init = init, .trainable = true}, &f->vector));
    charl_assert_ok(charl__params_layout(f->set, NULL, 0));
    charl_assert_ok(charl__params_allocate(f->set, dev));
    charl_assert_ok(charl__params_allocate_gradients(f->set, 1, true, NULL));
    charl_assert_ok(charl_params_initialize(f->set, 5));
    charl_assert_ok(charl__params_use_half(f->set, CHARL_BF16));
    charl_assert_ok(charl__steps_create(dev, 4, &f->steps));
    if (scale > 0.0F) {
        charl_assert_ok(charl__steps_use_scale(f->steps, scale, dynamic));
    }
    charl_assert_ok(charl__optimizer_create(f->set, &c, f->steps, NULL, &f->optimizer));
    charl_assert_ok(charl__optimizer_warm_up(f->optimizer));
    assert_int_equal(f->set->elements, N);
}

static void close_fixture(fixture *f)
{
    charl_optimizer_destroy(f->optimizer);
    charl__steps_destroy(f->steps);
    charl_params_destroy(f->set);
}

/* One step with gradients in (-1, 1) times `factor`; the first one is `first` unless that is 0. */
static void step(fixture *f, float factor, float first)
{
    charl__step_params record = {.commit = 1, .step_lo = f->step};
    float g[N] = {0};

    charl_test_fill(g, 600, -1.0F, 1.0F, f->step);
    for (int i = 0; i < N; i++) {
        g[i] *= factor;
    }
    g[0] = first != 0.0F ? first : g[0];
    charl_assert_ok(charl__buffer_write(CHARL_QUEUE_COMPUTE, f->set->sum, 0, g, sizeof g, true));
    charl_assert_ok(charl__optimizer_fill(f->optimizer, 0.01F, &record));
    charl_assert_ok(charl__steps_push(f->steps, &record));
    charl_assert_ok(charl_optimizer_step(f->optimizer, 0.0F));
    f->step++;
}

static void read_values(const fixture *f, float *v)
{
    charl_assert_ok(charl__buffer_read(CHARL_QUEUE_COMPUTE, f->set->value, 0, v, N * sizeof *v, true));
}

static float scale_of(const fixture *f)
{
    float scale;

    charl_assert_ok(charl_tensor_read(charl__steps_scale(f->steps), &scale, sizeof scale));
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
    assert_null(charl__steps_scale(plain.steps));
    for (int t = 0; t < 3; t++) {
        step(&plain, 1.0F, 0.0F);
    }
    read_values(&plain, want);
    charl_assert_ok(charl_optimizer_get_report(plain.optimizer, &a));
    for (size_t i = 0; i < sizeof scales / sizeof *scales; i++) {
        open_fixture(&f, scales[i], i % 2 == 1);
        for (int t = 0; t < 3; t++) {
            step(&f, scales[i], 0.0F);
        }
        read_values(&f, got);
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
    read_values(&f, before);
    step(&f, 1.0F, INFINITY);
    step(&f, 1.0F, NAN);
    read_values(&f, after);
    assert_memory_equal(before, after, sizeof before);
    assert_true(scale_of(&f) == 16384.0F);
    assert_true(is_finite(&f));
    step(&f, 16384.0F, 0.0F);
    read_values(&f, after);
    assert_memory_not_equal(before, after, sizeof before);
    for (int t = 0; t < 13; t++) { /* 2^14 down to 2 */
        step(&f, 1.0F, INFINITY);
    }
    assert_true(scale_of(&f) == 2.0F);
    assert_true(is_finite(&f));
    step(&f, 1.0F, INFINITY); /* no scale helps any more: as without one */
    assert_false(is_finite(&f));
    read_values(&f, before);
    step(&f, 2.0F, 0.0F);
    read_values(&f, after);
    assert_memory_equal(before, after, sizeof before);
    close_fixture(&f);
}

static void test_doubles(void **state)
{
    fixture f;

    (void)state;
    open_fixture(&f, 0x1p23F, true);
    charl_assert_ok(charl_optimizer_set_steps(f.optimizer, CHARL_SCALE_STEPS - 2, 0));
    step(&f, 1.0F, 0.0F);
    assert_true(scale_of(&f) == 0x1p23F);
    step(&f, 1.0F, 0.0F);
    assert_true(scale_of(&f) == 0x1p24F);
    charl_assert_ok(charl_optimizer_set_steps(f.optimizer, 2 * CHARL_SCALE_STEPS - 1, 0));
    step(&f, 1.0F, 0.0F);
    assert_true(scale_of(&f) == 0x1p24F); /* the largest */
    charl_assert_ok(charl_optimizer_set_steps(f.optimizer, 3 * CHARL_SCALE_STEPS - 1, 1));
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
    charl_assert_ok(charl_optimizer_set_steps(f.optimizer, CHARL_SCALE_STEPS - 1, 0));
    step(&f, 128.0F, 0.0F);
    assert_true(is_finite(&f));
    step(&f, 128.0F, INFINITY);
    assert_true(scale_of(&f) == 128.0F);
    assert_false(is_finite(&f));
    close_fixture(&f);
}

/* Bits of a float rounded to bf16, to nearest even. */
static uint16_t rounded(float x)
{
    uint32_t u;

    memcpy(&u, &x, sizeof u);
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

static void compare_copy(const fixture *f)
{
    float value[600];
    uint16_t half[600];

    charl_assert_ok(charl_param_read(f->matrix, value));
    charl_assert_ok(charl_tensor_read(f->matrix->half, half, sizeof half));
    for (int i = 0; i < 600; i++) {
        assert_int_equal(half[i], rounded(value[i]));
    }
}

static void test_working_copy(void **state)
{
    float value[600];
    fixture f;

    (void)state;
    open_fixture(&f, 0.0F, false);
    assert_null(f.vector->half);
    compare_copy(&f);
    step(&f, 1.0F, 0.0F);
    compare_copy(&f);
    charl_test_fill(value, 600, -9.0F, 9.0F, 3);
    charl_assert_ok(charl_param_write(f.matrix, value));
    compare_copy(&f);
    charl_assert_ok(charl__params_use_half(f.set, CHARL_BF16));
    charl_assert_status(charl__params_use_half(f.set, CHARL_F16), CHARL_ERR_INVALID);
    charl_assert_message("is bf16, not f16");
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_divides_exactly), cmocka_unit_test(test_skips_and_halves), cmocka_unit_test(test_doubles),
        cmocka_unit_test(test_fixed),           cmocka_unit_test(test_working_copy),
    };

    return charl_test_on_device(tests, &dev);
}
