/* Optimizer state in bf16 and 8 bits: what a step computes with it, that rounding keeps means, and what it takes. That it moves over, is
 * divided among ranks and survives bad gradients is part of the tests of these.
 */
#include "optim/public.h"

#include <math.h>

static const charl_packing packings[] = {CHARL_PACKING_BF16, CHARL_PACKING_INT8};

static void open_pair(const charl_optimizer_config *config, set s[2], charl_optimizer *o[2])
{
    charl_optimizer_config c = *config;

    for (int i = 0; i < 2; i++) {
        c.state = i ? config->state : CHARL_PACKING_F32;
        open_set(&s[i]);
        charl_assert_ok(charl_optimizer_create(s[i].params, &c, &o[i]));
    }
}

static void close_pair(set s[2], charl_optimizer *o[2])
{
    for (int i = 0; i < 2; i++) {
        charl_optimizer_destroy(o[i]);
        close_set(&s[i]);
    }
}

/* The first step begins with a state of 0, so the weights are those of a state in f32 to the bit, and the state is off by its rounding. */
static void check_first_step(const char *type, charl_packing packing)
{
    static float g[MAX_ELEMENTS], a[MAX_ELEMENTS], b[MAX_ELEMENTS];
    const float relative = packing == CHARL_PACKING_BF16 ? 1.0F / 128 : 1.0F / 8, least = 1.0F / (1 << 17);
    charl_optimizer_config config = charl_optimizer_defaults(type);
    set s[2];
    charl_optimizer *o[2];
    int64_t n;

    config.state = packing;
    config.momentum = 0.9F;
    open_pair(&config, s, o);
    make_gradient(0, 1.0F, g);
    for (int i = 0; i < 2; i++) {
        put_gradient(&s[i], g);
        charl_assert_ok(charl_optimizer_step(o[i], 0.1F));
    }
    n = read_values(&s[0], a);
    read_values(&s[1], b);
    charl_assert_same_bits(b, a, n);
    for (int k = 0; charl_optimizer_get_state_name(o[0], k); k++) {
        for (int i = 0; i < charl_params_get_count(s[0].params); i++) {
            const charl_param *p = param_of(&s[0], i);
            float most = 0.0F;

            if (!charl_param_get_spec(p)->trainable) {
                continue;
            }
            charl_assert_ok(charl_optimizer_read_state(o[0], k, p, a));
            charl_assert_ok(charl_optimizer_read_state(o[1], k, param_of(&s[1], i), b));
            for (int64_t j = 0; j < elements_of(p); j++) {
                most = fmaxf(most, fabsf(a[j]));
            }
            for (int64_t j = 0; j < elements_of(p); j++) {
                assert_true(fabsf(b[j] - a[j]) <= relative * fabsf(a[j]) + least * most);
                assert_true(a[j] == 0.0F || k != 1 || b[j] > 0.0F || strcmp(type, "adam") != 0);
            }
        }
    }
    close_pair(s, o);
}

static void test_first_step(void **state)
{
    (void)state;
    for (int i = 0; charl_optimizer_name(i); i++) {
        for (int k = 0; charl_optimizer_is_elementwise(charl_optimizer_name(i)) && k < 2; k++) {
            check_first_step(charl_optimizer_name(i), packings[k]);
        }
    }
}

/* Means that move by a thousandth in a step, less than codes are apart. Rounded to the nearest they would stay where they are. */
static void test_means_move(void **state)
{
    static float g[MAX_ELEMENTS], v[MAX_ELEMENTS];

    (void)state;
    for (int k = 0; k < 2; k++) {
        charl_optimizer_config config = charl_optimizer_defaults("adam");
        double mean[2] = {0.0, 0.0};
        set s[2];
        charl_optimizer *o[2];

        config.state = packings[k];
        open_pair(&config, s, o);
        for (int t = 0; t < 400; t++) {
            make_gradient(t, t < 200 ? 1.0F : 0.5F, g);
            for (int i = 0; i < 2; i++) {
                put_gradient(&s[i], g);
                charl_assert_ok(charl_optimizer_step(o[i], 1e-3F));
            }
        }
        for (int i = 0; i < 2; i++) {
            charl_assert_ok(charl_optimizer_read_state(o[i], 1, charl_params_find(s[i].params, "c"), v));
            for (int j = 0; j < 2000; j++) {
                mean[i] += (double)v[j] / 2000;
            }
        }
        assert_true(mean[0] > 0.0 && fabs(mean[1] / mean[0] - 1.0) < 0.01);
        close_pair(s, o);
    }
}

static int64_t state_memory(void)
{
    charl_device_use use[64];
    const int n = charl_device_get_uses(dev, use, 64);

    for (int i = 0; i < n; i++) {
        if (strcmp(use[i].what, "optimizer state") == 0) {
            return use[i].bytes;
        }
    }
    return 0;
}

/* A parameter of more elements than an update takes at a time: 8.5 bits and 16 bits a number. */
static void test_memory(void **state)
{
    enum { AT_ONCE = 1 << 22 };
    static const double bytes[2] = {2.0, 1.0 + 4.0 / 64};
    const charl_param_spec spec = {.name = "w", .shape = {1, {AT_ONCE + 4096}}, .trainable = true};

    (void)state;
    for (int k = 0; k < 2; k++) {
        charl_optimizer_config config = charl_optimizer_defaults("sgd");
        charl_optimizer *o = NULL;
        set s;

        config.state = packings[k];
        config.momentum = 0.9;
        open_specs(&s, &spec, 1);
        charl_assert_ok(charl_optimizer_create(s.params, &config, &o));
        assert_true((double)state_memory() < 4.0 * AT_ONCE + bytes[k] * (double)spec.shape.dim[0] + 1024);
        charl_assert_ok(charl_graph_run(s.g));
        charl_assert_ok(charl_optimizer_step(o, 0.1F));
        charl_optimizer_destroy(o);
        close_set(&s);
    }
}

static void test_whole_tensors_are_refused(void **state)
{
    static const char *const types[] = {"lamb", "adafactor", "muon"};
    set s;
    charl_optimizer *o = NULL;

    (void)state;
    open_set(&s);
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        charl_optimizer_config config = charl_optimizer_defaults(types[i]);

        config.state = CHARL_PACKING_INT8;
        charl_assert_status(charl_optimizer_create(s.params, &config, &o), CHARL_ERR_CONFIG);
        charl_assert_message("state = int8");
        charl_assert_message(types[i]);
    }
    {
        charl_optimizer_config config = charl_optimizer_defaults("adamw");

        config.state = CHARL_PACKING_INT4;
        charl_assert_status(charl_optimizer_create(s.params, &config, &o), CHARL_ERR_CONFIG);
        charl_assert_message("state can be f32, bf16 or int8");
    }
    close_set(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_first_step),
        cmocka_unit_test(test_means_move),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_whole_tensors_are_refused),
    };

    return charl_test_on_device(tests, &dev);
}
