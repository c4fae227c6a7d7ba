#ifndef CHARL_TESTS_OPTIM_PUBLIC_H
#define CHARL_TESTS_OPTIM_PUBLIC_H
/* Parameters of every kind and a graph whose gradients are what its inputs are: loss = sum over parameters p of sum(p * input of p). */
#include <string.h>

#include "charl/charl.h"
#include "charl/error.h"
#include "support/on_device.h"

enum { MAX_ELEMENTS = 4096, MAX_PARAMS = 8 };

static charl_device *dev;

static const charl_param_spec specs[] = {
    {.name = "a", .shape = {1, {70}}, .init = {CHARL_INIT_UNIFORM, -1.0F, 1.0F}, .trainable = true},
    {.name = "stat", .shape = {1, {4}}, .init = {CHARL_INIT_CONSTANT, 3.0F, 0.0F}},
    {.name = "b", .shape = {2, {3, 5}}, .init = {CHARL_INIT_UNIFORM, -1.0F, 1.0F}, .trainable = true, .no_decay = true},
    {.name = "c", .shape = {2, {40, 50}}, .init = {CHARL_INIT_UNIFORM, -1.0F, 1.0F}, .trainable = true},
    {.name = "kernel", .shape = {4, {4, 2, 3, 3}}, .init = {CHARL_INIT_UNIFORM, -1.0F, 1.0F}, .trainable = true},
    {.name = "tall", .shape = {2, {300, 2}}, .init = {CHARL_INIT_UNIFORM, -1.0F, 1.0F}, .trainable = true},
    {.name = "table", .shape = {2, {10, 7}}, .init = {CHARL_INIT_UNIFORM, -1.0F, 1.0F}, .trainable = true},
};

typedef struct set {
    charl_params *params;
    charl_graph *g;
    charl_var *gradient[MAX_PARAMS];
} set;

static inline charl_param *param_of(const set *s, int i)
{
    return charl_params_get(s->params, i);
}

static inline int64_t elements_of(const charl_param *p)
{
    return charl_shape_count(&charl_param_get_spec(p)->shape);
}

/* The set of n specs; the last is an edge with settings of its own. */
static inline void open_specs(set *s, const charl_param_spec *spec, int n)
{
    charl_var *loss = NULL;
    charl_param *p = NULL;

    *s = (set){0};
    charl_assert_ok(charl_params_create(&s->params));
    charl_assert_ok(charl_graph_create(dev, NULL, &s->g));
    for (int i = 0; i < n; i++) {
        charl_var *part;

        charl_assert_ok(charl_params_add(s->params, &spec[i], &p));
        s->gradient[i] = charl_input(s->g, spec[i].name, CHARL_F32, spec[i].shape, CHARL_REPLICATED);
        part = charl_mul(s->g, charl_parameter(s->g, p), s->gradient[i]);
        part = charl_sum(s->g, charl_reshape(s->g, part, (charl_shape){1, {-1}}), 0, false);
        loss = loss ? charl_add(s->g, loss, part) : part;
    }
    if (n > 1) {
        charl_param_set_settings(p,
                                 (charl_param_settings){.lr_scale = 0.5F, .weight_decay = 0.2F, .muon_exclude = true});
    }
    charl_graph_backward(s->g, loss, NULL);
    charl_assert_ok(charl_graph_compile(s->g));
    charl_assert_ok(charl_params_initialize(s->params, 2));
}

static inline void open_set(set *s)
{
    open_specs(s, specs, (int)(sizeof specs / sizeof specs[0]));
}

static inline void close_set(set *s)
{
    charl_graph_destroy(s->g);
    charl_params_destroy(s->params);
}

/* All values, parameter after parameter; returns their number. */
static inline int64_t read_values(const set *s, float *out)
{
    int64_t n = 0;

    for (int i = 0; i < charl_params_get_count(s->params); i++) {
        assert_true(n + elements_of(param_of(s, i)) <= MAX_ELEMENTS);
        charl_assert_ok(charl_param_read(param_of(s, i), out + n));
        n += elements_of(param_of(s, i));
    }
    return n;
}

/* Where the elements of a parameter begin among those. */
static inline int64_t first_of(const set *s, const char *name)
{
    int64_t n = 0;

    for (int i = 0; strcmp(charl_param_get_spec(param_of(s, i))->name, name) != 0; i++) {
        n += elements_of(param_of(s, i));
    }
    return n;
}

/* Gradients of step t in the order of read_values. */
static inline void make_gradient(int t, float size, float *g)
{
    charl_test_fill(g, MAX_ELEMENTS, -size, size, (uint64_t)t);
}

/* Run the graph so that the gradients are g. */
static inline void put_gradient(const set *s, const float *g)
{
    for (int i = 0; i < charl_params_get_count(s->params); i++) {
        const int64_t n = elements_of(param_of(s, i));

        charl_assert_ok(charl_tensor_write(charl_var_get_tensor(s->gradient[i]), g, (size_t)n * sizeof *g));
        g += n;
    }
    charl_assert_ok(charl_graph_run(s->g));
}

static inline float lr_of(int t)
{
    return 0.05F / (1.0F + 0.1F * (float)t);
}

#endif
