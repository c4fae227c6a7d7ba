/* Updates in vectors, as on a device with work-groups: the bits of updates one by one, and the
 * working copy of the parameters, which the same launch writes. */
#include "suite.h"

#include "base/numeric/bf16.h"

enum { STEPS = 3 };

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
    for (int t = 0; t < STEPS; t++) {
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
            assert_int_equal(one.half[j], charl__bf16_round(one.value[j]));
            assert_int_equal(vectors.half[j], one.half[j]);
        }
    }
    assert_true(n >= 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_vectors)};

    return charl_test_optim(tests, sizeof tests / sizeof tests[0]);
}
