/* linear: out = x @ weight^T + bias. Initial values as torch.nn.Linear: uniform within 1 /
 * sqrt(in); or normal, with biases of 0. */
#include <math.h>

#include "autograd/graph.h"
#include "autograd/op/linear/fp8.h"
#include "base/text/text.h"
#include "nn/layer.h"

static charl_var *declare_weight(const charl_layer_build *b, const charl_shape *shape)
{
    const charl_linear_config *c = b->settings;
    const float bound = (float)(1.0 / sqrt((double)shape->dim[1]));
    charl_param_spec spec = {.shape = *shape, .init = {CHARL_INIT_UNIFORM, -bound, bound}};

    if (c->tie) {
        return charl__layer_param_of(b, c->tie, "weight", shape);
    }
    if (c->init_std > 0) {
        spec.init = (charl_init){CHARL_INIT_NORMAL, 0.0F, (float)c->init_std};
    }
    return charl_layer_param(b, "weight", &spec);
}

static charl_var *declare_bias(const charl_layer_build *b, int64_t features)
{
    const charl_linear_config *c = b->settings;
    const float bound = c->init_std > 0 ? 0.0F : (float)(1.0 / sqrt((double)features));

    return charl_layer_param(b, "bias",
                             &(charl_param_spec){.shape = {1, {c->out}}, .init = {CHARL_INIT_UNIFORM, -bound, bound}});
}

/* out + alpha / rank * dropout(x) @ A^T @ B^T */
static charl_var *adapt(const charl_layer_build *b, charl_var *x, int64_t features, charl_var *out)
{
    const charl_linear_config *c = b->settings;
    const charl_lora *lora = b->lora;
    const float bound = (float)(1.0 / sqrt((double)features));
    charl_var *down = charl_layer_param(
        b, "lora_A.weight",
        &(charl_param_spec){.shape = {2, {lora->rank, features}}, .init = {CHARL_INIT_UNIFORM, -bound, bound}});
    charl_var *up = charl_layer_param(b, "lora_B.weight", &(charl_param_spec){.shape = {2, {c->out, lora->rank}}});
    charl_var *y;

    charl_graph_scope_begin(b->g, "lora");
    y = charl_linear(b->g, charl_dropout(b->g, x, (float)lora->dropout), down, NULL);
    y = charl_scale(b->g, charl_linear(b->g, y, up, NULL), (float)(lora->alpha / (double)lora->rank), 0.0F);
    y = charl_add(b->g, out, y);
    charl_graph_scope_end(b->g);
    return y;
}

/* cap * tanh(x / cap) */
static charl_var *softcap(charl_graph *g, charl_var *x, double cap)
{
    return charl_scale(g, charl_tanh(g, charl_scale(g, x, (float)(1 / cap), 0.0F)), (float)cap, 0.0F);
}

static charl_var *multiply(const charl_layer_build *b, charl_var *x, charl_var *w, charl_var *bias)
{
    const charl__linear_kind kind = charl__graph_get_linear(b->g);

    if (kind == CHARL__LINEAR_PLAIN) {
        return charl_linear(b->g, x, w, bias);
    }
    if (charl__graph_has_padding(b->g)) { /* scales would depend on it */
        return charl__graph_refuse(b->g, kind == CHARL__LINEAR_FP8
                                             ? "a linear layer in fp8 does not take padded sequences; HINT use bf16"
                                             : "a linear layer with train.products = integer does not take padded "
                                               "sequences; HINT use train.products = fma");
    }
    return kind == CHARL__LINEAR_FP8 ? charl__linear_fp8(b->g, x, w, bias) : charl_linear_integer(b->g, x, w, bias);
}

static charl_var *build(const charl_layer_build *b, charl_var *x)
{
    const charl_linear_config *c = b->settings;
    const charl_shape in = charl_var_get_type(x).shape;
    const int64_t features = in.ndim > 0 ? in.dim[in.ndim - 1] : 0;
    charl_var *w, *out, *bias = NULL;

    if (in.ndim < 2 || features < 1) {
        return charl__graph_refuse(b->g, "a linear layer needs [batch, features]");
    }
    w = declare_weight(b, &(charl_shape){2, {c->out, features}});
    if (c->bias) {
        bias = declare_bias(b, features);
    }
    if (!w || (c->bias && !bias)) {
        return NULL;
    }
    out = multiply(b, x, w, bias);
    if (b->lora && !c->tie && charl__patterns_choose(b->lora->targets, b->name)) {
        out = adapt(b, x, features, out);
    }
    out = charl__activate(b->g, c->activation, out);
    return c->softcap > 0 ? softcap(b->g, out, c->softcap) : out;
}

static const charl_linear_config defaults = {.bias = true};
static const charl_key keys[] = {
    CHARL__KEY(charl_linear_config, out, INT, "[1,1e9]", true, "output features"),
    CHARL__KEY(charl_linear_config, bias, BOOL, NULL, false, "add a bias"),
    CHARL__KEY(charl_linear_config, activation, ACTIVATION, NULL, false, "applied to the output"),
    CHARL__KEY(charl_linear_config, tie, LAYER, NULL, false, "layer whose weight is shared, such as an embedding"),
    CHARL__KEY(charl_linear_config, init_std, FLOAT, "[0,1e6)", false,
               "standard deviation of the initial weights; 0: as PyTorch's"),
    CHARL__KEY(charl_linear_config, softcap, FLOAT, "[0,1e6)", false,
               "limits the output x to this range smoothly: softcap * tanh(x / softcap); 0: no limit"),
};

const charl_layer_type charl__layer_linear = CHARL__LAYER("linear", "x @ weight^T + bias over the last extent", build,
                                                          CHARL_DEFAULTS(defaults), CHARL_KEYS(keys));
