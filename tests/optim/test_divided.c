/* State as ranks divide it and checkpoints keep it: an optimizer divided among three processes does what one that has everything does, to
 * the bit; averages and norms. */
#include "optim/suite.h"

#include <math.h>

enum { PARTS = 3, STEPS = 4 };

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
    for (int t = 0; t < STEPS; t++) {
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
        cmocka_unit_test(test_elementwise_types_divide),
        cmocka_unit_test(test_whole_tensors_do_not),
        cmocka_unit_test(test_norms_are_kept),
        cmocka_unit_test(test_averages_that_there_are_not),
    };

    return charl_test_optim(tests, sizeof tests / sizeof tests[0]);
}
