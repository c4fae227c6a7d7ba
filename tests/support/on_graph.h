#ifndef CHARL_TESTS_ON_GRAPH_H
#define CHARL_TESTS_ON_GRAPH_H
/** Tests that build a graph each: `dev`, a fresh `g`, and what they write to it and read from it. */
#include "charl/graph.h"
#include "support/on_device.h"

static charl_device *dev;
static charl_graph *g;

#define SHAPE(...) ((charl_shape){(int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), {__VA_ARGS__}})

/** Setup and teardown of a test. */
static int begin(void **state)
{
    (void)state;
    charl_assert_ok(charl_graph_create(dev, NULL, &g));
    return 0;
}

static int end(void **state)
{
    (void)state;
    charl_graph_destroy(g);
    g = NULL;
    return 0;
}

static inline charl_var *input(charl_shape shape)
{
    return charl_input(g, "x", CHARL_F32, shape, CHARL_BATCHED);
}

/** Small numbers without a pattern. */
static inline void fill(float *x, int n)
{
    for (int i = 0; i < n; i++) {
        x[i] = (float)(i * 7919 % 101 - 50) / 50.0F;
    }
}

static inline void write(charl_var *v, const float *x, int n)
{
    charl_assert_ok(charl_tensor_write(charl_var_get_tensor(v), x, (size_t)n * sizeof *x));
}

static inline void read(charl_var *v, float *x, int n)
{
    charl_assert_ok(charl_tensor_read(charl_var_get_tensor(v), x, (size_t)n * sizeof *x));
}

#endif
