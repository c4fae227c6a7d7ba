#ifndef CHARL_TESTS_NN_NET_H
#define CHARL_TESTS_NN_NET_H
/** A model, its parameters and one graph, for the tests of layers and models. `dev` is the
 * program's device. */
#include "support/support.h"

#include <string.h>

#include "charl/nn.h"
#include "charl/params.h"

enum { ROWS = 4 };

static charl_device *dev;

static inline charl_shape batch_of(charl_shape s)
{
    charl_shape b = {s.ndim + 1, {ROWS}};

    memcpy(b.dim + 1, s.dim, (size_t)s.ndim * sizeof s.dim[0]);
    return b;
}

typedef struct net {
    charl_model *model;
    charl_params *params;
    charl_graph *g;
    charl_var *x, *out, *loss;
} net;

static inline void net_init(net *n)
{
    *n = (net){0};
    charl_assert_ok(charl_model_create(&n->model));
    charl_assert_ok(charl_params_create(&n->params));
    charl_assert_ok(charl_graph_create(dev, NULL, &n->g));
}

static inline void net_fini(net *n)
{
    charl_graph_destroy(n->g);
    charl_params_destroy(n->params);
    charl_model_destroy(n->model);
}

/* Append the model to n->g over an input of shape `in` per row. */
static inline void net_build(net *n, charl_shape in)
{
    n->x = charl_input(n->g, "x", CHARL_F32, batch_of(in), CHARL_BATCHED);
    charl_graph_require_gradient(n->g, n->x);
    n->out = charl_model_build(n->model, n->g, n->params, n->x);
}

/* The same over an input of token numbers, which are left at 0. */
static inline void net_build_tokens(net *n, charl_shape in)
{
    n->x = charl_input(n->g, "x", CHARL_I32, batch_of(in), CHARL_BATCHED);
    n->out = charl_model_build(n->model, n->g, n->params, n->x);
}

static inline void write_input(const net *n)
{
    const charl_shape shape = charl_var_get_type(n->x).shape;
    const int64_t count = charl_shape_count(&shape);
    float *x;

    x = charl_test_array(count, sizeof *x);
    charl_test_fill(x, count, -1.0F, 1.0F, 21);
    charl_assert_ok(charl_tensor_write(charl_var_get_tensor(n->x), x, (size_t)count * sizeof *x));
    charl_free(x);
}

static inline float *values_of(const charl_tensor *t)
{
    const int64_t n = charl_shape_count(charl_tensor_get_shape(t));
    float *v;

    v = charl_test_array(n, sizeof *v);
    charl_assert_ok(charl_tensor_read(t, v, (size_t)n * sizeof *v));
    return v;
}

#endif
