/* Optimizer state in bf16 and 8 bits: what a step computes with it, that rounding keeps means, and what it takes. That it moves over, is
 * divided among ranks and survives bad gradients is part of the tests of these.
 */
#include "optim/suite.h"

#include <math.h>

static const charl_packing packings[] = {CHARL_PACKING_BF16, CHARL_PACKING_INT8};

static void open_pair(const charl_optimizer_config *config, charl_params *set[2], charl_optimizer *o[2])
{
    charl_optimizer_config c = *config;

    for (int i = 0; i < 2; i++) {
        c.state = i ? config->state : CHARL_PACKING_F32;
        charl_assert_ok(open_set(&set[i]));
        charl_assert_ok(charl_optimizer_create(set[i], &c, &o[i]));
    }
}

static void close_pair(charl_params *set[2], charl_optimizer *o[2])
{
    for (int i = 0; i < 2; i++) {
        charl_optimizer_destroy(o[i]);
        charl_params_destroy(set[i]);
    }
}

/* The first step begins with a state of 0, so the weights are those of a state in f32 to the bit, and the state is off by its rounding. */
static void check_first_step(const char *type, charl_packing packing)
{
    static float g[MAX_ELEMENTS], a[MAX_ELEMENTS], b[MAX_ELEMENTS];
    static int kind[MAX_ELEMENTS];
    const float relative = packing == CHARL_PACKING_BF16 ? 1.0F / 128 : 1.0F / 8, least = 1.0F / (1 << 17);
    charl_optimizer_config config = charl_optimizer_defaults(type);
    charl_params *set[2];
    charl_optimizer *o[2];

    config.state = packing;
    config.momentum = 0.9F;
    open_pair(&config, set, o);
    map_arena(set[0], kind);
    make_gradient(kind, 0, 1.0F, g);
    for (int i = 0; i < 2; i++) {
        write_gradient(set[i], g);
        charl_assert_ok(charl_optimizer_step(o[i], 0.1F));
    }
    read_arena(set[0]->value, a, set[0]->elements);
    read_arena(set[1]->value, b, set[1]->elements);
    charl_assert_same_bits(b, a, set[0]->elements);
    for (int k = 0; k < o[0]->n_states; k++) {
        for (int i = 0; i < set[0]->count; i++) {
            const charl_param *p = set[0]->param[i];
            float most = 0.0F;

            if (!p->spec.trainable) {
                continue;
            }
            charl_assert_ok(charl_optimizer_read_state(o[0], k, p, a));
            charl_assert_ok(charl_optimizer_read_state(o[1], k, set[1]->param[i], b));
            for (int64_t j = 0; j < charl_shape_count(&p->spec.shape); j++) {
                most = fmaxf(most, fabsf(a[j]));
            }
            for (int64_t j = 0; j < charl_shape_count(&p->spec.shape); j++) {
                assert_true(fabsf(b[j] - a[j]) <= relative * fabsf(a[j]) + least * most);
                assert_true(a[j] == 0.0F || k != 1 || b[j] > 0.0F || strcmp(type, "adam") != 0);
            }
        }
    }
    close_pair(set, o);
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
    static int kind[MAX_ELEMENTS];

    (void)state;
    for (int k = 0; k < 2; k++) {
        charl_optimizer_config config = charl_optimizer_defaults("adam");
        double mean[2] = {0.0, 0.0};
        charl_params *set[2];
        charl_optimizer *o[2];

        config.state = packings[k];
        open_pair(&config, set, o);
        map_arena(set[0], kind);
        for (int t = 0; t < 400; t++) {
            make_gradient(kind, t, t < 200 ? 1.0F : 0.5F, g);
            for (int i = 0; i < 2; i++) {
                write_gradient(set[i], g);
                charl_assert_ok(charl_optimizer_step(o[i], 1e-3F));
            }
        }
        for (int i = 0; i < 2; i++) {
            charl_assert_ok(charl_optimizer_read_state(o[i], 1, charl_params_find(set[i], "c"), v));
            for (int j = 0; j < 2000; j++) {
                mean[i] += (double)v[j] / 2000;
            }
        }
        assert_true(mean[0] > 0.0 && fabs(mean[1] / mean[0] - 1.0) < 0.01);
        close_pair(set, o);
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

/* An arena larger than the workspace: 8.5 bits and 16 bits a number. */
static void test_memory(void **state)
{
    static const double bytes[2] = {2.0, 1.0 + 4.0 / 64};
    const int64_t n = CHARL_OPTIM_PACKED_AT_ONCE + 4096;

    (void)state;
    for (int k = 0; k < 2; k++) {
        charl_optimizer_config config = charl_optimizer_defaults("sgd");
        charl_params *set = NULL;
        charl_optimizer *o = NULL;
        charl_param *p;

        config.state = packings[k];
        config.momentum = 0.9;
        charl_assert_ok(charl_params_create(&set));
        charl_assert_ok(
            charl_params_add(set, &(charl_param_spec){.name = "w", .shape = {1, {n}}, .trainable = true}, &p));
        charl_assert_ok(charl__params_layout(set, NULL, 0));
        charl_assert_ok(charl__params_allocate(set, dev));
        charl_assert_ok(charl__params_allocate_gradients(set, 1, true, NULL));
        charl_assert_ok(charl_optimizer_create(set, &config, &o));
        assert_true((double)state_memory() < 4.0 * CHARL_OPTIM_PACKED_AT_ONCE + bytes[k] * (double)n + 1024);
        charl_assert_ok(charl_optimizer_step(o, 0.1F));
        charl_optimizer_destroy(o);
        charl_params_destroy(set);
    }
}

static void test_whole_tensors_are_refused(void **state)
{
    static const char *const types[] = {"lamb", "adafactor", "muon"};
    charl_params *set = NULL;
    charl_optimizer *o = NULL;

    (void)state;
    charl_assert_ok(open_set(&set));
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        charl_optimizer_config config = charl_optimizer_defaults(types[i]);

        config.state = CHARL_PACKING_INT8;
        charl_assert_status(charl_optimizer_create(set, &config, &o), CHARL_ERR_CONFIG);
        charl_assert_message("optimizer.state = int8");
        charl_assert_message(types[i]);
    }
    {
        charl_optimizer_config config = charl_optimizer_defaults("adamw");

        config.state = CHARL_PACKING_INT4;
        charl_assert_status(charl_optimizer_create(set, &config, &o), CHARL_ERR_CONFIG);
        charl_assert_message("optimizer.state can be f32, bf16 or int8");
    }
    charl_params_destroy(set);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_first_step),
        cmocka_unit_test(test_means_move),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_whole_tensors_are_refused),
    };

    return charl_test_optim(tests, sizeof tests / sizeof tests[0]);
}
