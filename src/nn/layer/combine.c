/* add, multiply and concat: layers that read several others. */
#include "nn/layer.h"

static charl_var *fold(const charl_layer_build *b, charl_var *(*operate)(charl_graph *, charl_var *, charl_var *))
{
    charl_var *y = b->in[0];

    for (int i = 1; i < b->n_in; i++) {
        y = operate(b->g, y, b->in[i]);
    }
    return y;
}

static charl_var *build_add(const charl_layer_build *b, charl_var *x)
{
    (void)x;
    return fold(b, charl_add);
}

static charl_var *build_multiply(const charl_layer_build *b, charl_var *x)
{
    (void)x;
    return fold(b, charl_mul);
}

static charl_var *build_concat(const charl_layer_build *b, charl_var *x)
{
    const charl_axis_config *c = b->settings;
    const int axis = charl__layer_axis(b, x, c->axis);

    return axis > 0 ? charl_concat(b->g, b->in, b->n_in, axis) : NULL;
}

static const charl_axis_config concat_defaults = {.axis = 1};
static const charl_key concat_keys[] = {
    CHARL__KEY(charl_axis_config, axis, INT, "[-6,5]", false,
               "the extent that grows: 1 for channels, -1 for the last; 0 is the batch"),
};

const charl_layer_type charl__layer_add =
    CHARL__LAYER("add", "sum of its inputs, of one shape; or [B, C, 1, 1] with [B, C, H, W] and alike", build_add,
                 .max_inputs = CHARL_LAYER_MAX_INPUTS);

const charl_layer_type charl__layer_multiply =
    CHARL__LAYER("multiply", "product of its inputs, of one shape; or [B, C, 1, 1] with [B, C, H, W] and alike",
                 build_multiply, .max_inputs = CHARL_LAYER_MAX_INPUTS);

const charl_layer_type charl__layer_concat =
    CHARL__LAYER("concat", "concatenation of its inputs along an axis", build_concat,
                 .max_inputs = CHARL_LAYER_MAX_INPUTS, CHARL__SETTINGS(concat));
