/* The layers of a model with shapes and costs, from a graph that is built and never compiled. */
#include "charl/summary.h"

#include <string.h>

#include "autograd/graph.h"
#include "base/alloc.h"
#include "config/outputs.h"
#include "io/schema.h"
#include "nn/model.h"
#include "task/session.h"
#include "task/task.h"

typedef struct summarizer {
    charl__session session;
    charl_graph *g;
    charl_summary *s;
} summarizer;

static charl_status read_data(summarizer *z, const charl_summary_input *input, int64_t *outputs)
{
    const charl_dataset_info *data = &z->session.data;

    if (input) {
        CHARL_REQUIRE(
            !charl__config_has_outputs(z->session.config), CHARL_ERR_CONFIG,
            "data.x names several inputs, whose shapes are those of the data; HINT leave the shape of one out, "
            "and set data.path");
        z->s->input = input->shape;
        z->s->dtype = input->tokens ? CHARL_I32 : CHARL_F32;
        *outputs = input->outputs;
        return CHARL_OK;
    }
    CHARL_TRY(charl__session_open_data(&z->session, CHARL_SPLIT_TRAIN));
    CHARL_TRY(charl__task_outputs(z->session.config, data, outputs));
    z->s->input = charl__task_input_shape(z->session.config, &data->x_shape);
    z->s->dtype = charl__kind_has_tokens(data->kind) ? CHARL_I32 : CHARL_F32;
    return CHARL_OK;
}

static charl_status build(summarizer *z)
{
    charl_status st = CHARL_OK;
    charl_shape batch = {z->s->input.ndim + 1, {1}};
    const int n = charl_model_get_count(z->session.model);
    const charl_dtype precision = charl__task_precision(z->session.config);
    const bool is_row =
        z->session.data.fields && z->session.data.fields[0]; /* of several inputs: converted by the model */
    const charl_dtype dtype =
        z->s->dtype == CHARL_F32 && !is_row ? precision : z->s->dtype; /* converted as in training */
    charl__layer_built *built = NULL;

    CHARL_REQUIRE_CLEANUP(z->s->input.ndim < CHARL_MAX_DIMS, CHARL_ERR_DATA, "samples have too many extents");
    memcpy(batch.dim + 1, z->s->input.dim, (size_t)z->s->input.ndim * sizeof batch.dim[0]);
    CHARL_TRY_CLEANUP(charl__alloc_array(n, sizeof *built, &built));
    CHARL_TRY_CLEANUP(charl__alloc_array(n, sizeof *z->s->layer, &z->s->layer));
    charl_graph_set_precision(z->g, precision);
    /* As in training, which has one more token: it masks others. */
    if (z->session.config->data.masked > 0 && z->session.data.classes > 0) {
        charl__graph_set_vocab(z->g, z->session.data.classes + 1);
    }
    charl__model_build_noting(z->session.model, z->g, z->session.params,
                              charl_input(z->g, "x", dtype, batch, CHARL_BATCHED), built);
    st = charl_graph_status(z->g);
    if (st == CHARL_ERR_SHAPE || st == CHARL_ERR_DTYPE) { /* layers that do not fit the data */
        st = CHARL_ERR_CONFIG;
    }
    CHARL_TRY_CLEANUP(st);
    for (int i = 0; i < n; i++) {
        charl_layer_summary *l = &z->s->layer[i];
        const charl_shape *shape = &built[i].shape;

        l->name = charl_model_get_layer_name(z->session.model, i);
        l->type = charl__model_layer_type(z->session.model, i);
        l->n_inputs = charl__model_layer_inputs(z->session.model, i, l->inputs);
        z->s->count = i + 1;
        l->shape.ndim = shape->ndim > 0 ? shape->ndim - 1 : 0;
        memcpy(l->shape.dim, shape->dim + 1, (size_t)l->shape.ndim * sizeof shape->dim[0]);
        charl__graph_cost(z->g, built[i].first_node, built[i].end_node, &l->flop, &l->bytes);
        for (int k = built[i].first_param; k < built[i].end_param; k++) {
            const charl_param_spec *spec = charl_param_get_spec(charl_params_get(z->session.params, k));

            *(spec->trainable ? &l->parameters : &l->buffers) += charl_shape_count(&spec->shape);
        }
        z->s->parameters += l->parameters;
        z->s->buffers += l->buffers;
        z->s->flop += l->flop;
        z->s->bytes += l->bytes;
    }
cleanup:
    charl_free(built);
    return st;
}

charl_status charl_summary_create(const charl_config *config, const charl_summary_input *input, charl_summary **out)
{
    CHARL_GIVEN(config, out);
    charl_status st = CHARL_OK;
    summarizer z = {.session = {.config = config}};
    int64_t outputs = 0;

    *out = NULL;
    CHARL_TRY_CLEANUP(charl__alloc(sizeof *z.s, &z.s));
    CHARL_TRY_CLEANUP(read_data(&z, input, &outputs));
    CHARL_TRY_CLEANUP(charl__task_model(config, outputs, z.session.data.fields, &z.session.model));
    CHARL_TRY_CLEANUP(charl_params_create(&z.session.params));
    CHARL_TRY_CLEANUP(charl_graph_create(NULL, NULL, &z.g));
    CHARL_TRY_CLEANUP(build(&z));
    z.s->model = z.session.model;
    z.session.model = NULL;
    *out = z.s;
    z.s = NULL;
cleanup:
    charl_graph_destroy(z.g);
    charl__session_fini(&z.session);
    charl_summary_destroy(z.s);
    return st;
}

void charl_summary_destroy(charl_summary *s)
{
    if (s) {
        charl_model_destroy(s->model);
        charl_free(s->layer);
        charl_free(s);
    }
}
