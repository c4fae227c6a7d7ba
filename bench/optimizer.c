/* charl-bench optimizer: the update of all parameters, gradient norm included. */
#include <stdlib.h>
#include <string.h>
#include <charl/error.h>
#include <charl/ops.h>
#include <charl/optim.h>
#include "bench/kernel.h"

enum { COLUMNS = 256 };

typedef struct update {
    charl_params *params;
    charl_graph *g;
    charl_optimizer *optimizer;
} update;

/* The shapes below name optimizers by number: these three come first, then all others. */
static const char *form_at(int i)
{
    static const char *const first[] = {"adamw", "sgd", "lion"};
    const char *name;

    if (i < 3) {
        return first[i];
    }
    i -= 3;
    for (int k = 0; (name = charl_optimizer_name(k)) != NULL; k++) {
        if (strcmp(name, first[0]) != 0 && strcmp(name, first[1]) != 0 && strcmp(name, first[2]) != 0 && i-- == 0) {
            return name;
        }
    }
    return NULL;
}

static charl_status run_step(void *ctx)
{
    const update *u = ctx;

    return charl_optimizer_step(u->optimizer, 1e-3F);
}

/* A graph gives its parameters their arenas; it never runs, and their gradients stay 0. */
static charl_status build(charl__bench_case *c, update *u, int64_t n)
{
    const charl_shape all = {1, {-1}};
    charl_param *p = NULL;
    charl_var *w;

    CHARL_TRY(charl_params_create(&u->params));
    CHARL_TRY(charl_params_add(u->params,
                               &(charl_param_spec){.name = "weight",
                                                   .shape = {2, {(n + COLUMNS - 1) / COLUMNS, COLUMNS}},
                                                   .init = {CHARL_INIT_UNIFORM, -0.5F, 0.5F},
                                                   .trainable = true},
                               &p));
    CHARL_TRY(charl_graph_create(c->dev, NULL, &u->g));
    w = charl_parameter(u->g, p);
    charl_graph_backward(u->g, charl_sum(u->g, charl_reshape(u->g, charl_mul(u->g, w, w), all), 0, false), NULL);
    CHARL_TRY(charl_graph_compile(u->g));
    CHARL_TRY(charl_params_initialize(u->params, 1));
    return CHARL_OK;
}

static charl_status begin(charl__bench_case *c)
{
    charl_optimizer_config config = charl_optimizer_defaults(form_at(c->shape->form));
    update *u = NULL;
    int64_t n;
    int states = 0;

    CHARL_TRY(charl__cli_alloc(1, sizeof *u, &u));
    c->own = u;
    CHARL_TRY(build(c, u, c->shape->x[0]));
    config.grad_clip = 1.0F;
    CHARL_TRY(charl_optimizer_create(u->params, &config, &u->optimizer));
    n = charl_params_get_elements(u->params);
    while (charl_optimizer_get_state_name(u->optimizer, states)) {
        states++;
    }
    /* Gradient for the norm; gradient, value and states for the update, all but the first written.
     */
    charl__bench_add(c, "charl", run_step, u, 4.0 * (double)n * (4 + 2 * states));
    return CHARL_OK;
}

static void end(charl__bench_case *c)
{
    update *u = c->own;

    if (u) {
        charl_optimizer_destroy(u->optimizer);
        charl_graph_destroy(u->g);
        charl_params_destroy(u->params);
        free(u);
    }
}

static const charl__cli_shape cpu[] = {{{235146}, 0}, {{4 << 20}, 0}, {{4 << 20}, 1}, {{4 << 20}, 2}, {{0}, 0}};
static const charl__cli_shape gpu[] = {{{235146}, 0}, {{124439808}, 0}, {{124439808}, 1}, {{124439808}, 2}, {{0}, 0}};

const charl__bench_kind charl__bench_optimizer = {
    .name = "optimizer",
    .shapes = &(
        const charl__cli_shape_kind){.extents = "ELEMENTS", .n_extents = 1, .form_at = form_at, .cpu = cpu, .gpu = gpu},
    .unit = "GB/s",
    .has_peak = true,
    .doc = "Time the update of a matrix of ELEMENTS f32 parameters (rounded up to rows of 256), "
           "with gradient norm and clipping. Bytes counted: the gradient twice, values and states "
           "read and written. The peak is a loop that copies as much.",
    .begin = begin,
    .end = end};
