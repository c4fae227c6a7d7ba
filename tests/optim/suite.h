#ifndef CHARL_TESTS_OPTIM_SUITE_H
#define CHARL_TESTS_OPTIM_SUITE_H
/* A set of parameters of every kind with gradients made up, on the first device; skips where there
 * is none. */
#include "support/support.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "optim/optimizer.h"

enum { MAX_ELEMENTS = 4096 };

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

static inline charl_status open_set(charl_params **out)
{
    charl_param *p;

    CHARL_TRY(charl_params_create(out));
    for (size_t i = 0; i < sizeof specs / sizeof specs[0]; i++) {
        CHARL_TRY(charl_params_add(*out, &specs[i], &p));
    }
    charl_param_set_settings(p, (charl_param_settings){.lr_scale = 0.5F, .weight_decay = 0.2F, .muon_exclude = true});
    CHARL_TRY(charl__params_layout(*out, NULL, 0));
    CHARL_TRY(charl__params_allocate(*out, dev, CHARL_F32));
    CHARL_TRY(charl__params_allocate_gradients(*out, 1, true, NULL));
    CHARL_TRY(charl_params_initialize(*out, 2));
    return CHARL_OK;
}

static inline void read_arena(charl__buffer *b, float *out, int64_t n)
{
    assert_true(n <= MAX_ELEMENTS);
    charl_assert_ok(charl__buffer_read(CHARL_QUEUE_COMPUTE, b, 0, out, (size_t)n * sizeof *out, true));
}

/* Marks the elements of the arena that belong to a parameter: 1, or 2 where decay applies. */
static inline void map_arena(const charl_params *set, int *kind)
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
static inline void make_gradient(const int *kind, int t, float size, float *g)
{
    charl_test_fill(g, MAX_ELEMENTS, -size, size, (uint64_t)t);
    for (int i = 0; i < MAX_ELEMENTS; i++) {
        g[i] = kind[i] ? g[i] : 0.0F;
    }
}

static inline void write_gradient(charl_params *set, const float *g)
{
    charl_assert_ok(charl__buffer_write(CHARL_QUEUE_COMPUTE, set->sum, 0, g, (size_t)set->elements * sizeof *g, true));
}

static inline float lr_of(int t)
{
    return 0.05F / (1.0F + 0.1F * (float)t);
}

static inline int charl_test_optim(const struct CMUnitTest *tests, size_t n)
{
    const charl_device_request request = {sizeof request, .local_size = 1};
    int rc;

    if (charl_device_open(&request, &dev) != CHARL_OK) {
        fprintf(stderr, "skipped: %s\n", charl_error_message());
        return 77;
    }
    rc = charl_test_run_group("optim", tests, n, NULL, NULL);
    charl_device_close(dev);
    if (rc == 0 && charl__live() != 0) {
        fprintf(stderr, "%ld objects are still alive\n", charl__live());
        rc = 1;
    }
    return rc;
}

#endif
