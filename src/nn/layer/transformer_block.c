/* transformer_block: self-attention, of a decoder with a second input attention to that, and an mlp, each with norms and inside a
 * residual path, with nanoGPT's names, and those of Hugging Face's GPT-2 for attention to another source. Initial
 * values are GPT-2's: normal, with a deviation for projections onto the residual path that decreases with the depth of
 * the model (Radford et al. 2019, section 2.3). */
#include <math.h>

#include "nn/layer.h"

typedef charl_transformer_block_config config;

static charl_var *project(const charl_layer_build *b, const char *suffix, charl_var *x, int64_t out, double std,
                          bool bias)
{
    const charl_linear_config linear = {.out = out, .bias = bias, .init_std = std};

    return charl__layer_build_inside(b, suffix, &charl__layer_linear, &linear, x);
}

static charl_var *normalize(const charl_layer_build *b, const char *suffix, charl_var *x)
{
    const config *c = b->settings;
    charl_norm_config norm = *(const charl_norm_config *)charl__layer_layer_norm.row.defaults;

    if (c->norm == CHARL_BLOCK_RMS_NORM) {
        return charl__layer_build_inside(b, suffix, &charl__layer_rms_norm,
                                         &(charl_rms_norm_config){.eps = c->norm_eps}, x);
    }
    norm.eps = c->norm_eps;
    norm.bias = c->bias || c->form.norm_bias;
    return charl__layer_build_inside(b, suffix, &charl__layer_layer_norm, &norm, x);
}

static charl_var *affine(const charl_layer_build *b, const char *suffix, int64_t width, float value)
{
    const charl_param_spec spec = {.shape = {1, {width}}, .init = {CHARL_INIT_CONSTANT, value, 0.0F}};

    return charl_layer_param(b, suffix, &spec);
}

/* *sum = x + y, and ln_2 of it. Training does both in one pass, forward and backward, with the same
 * bits; inference uses two operators, which an exported model names. */
static charl_var *add_and_normalize(const charl_layer_build *b, charl_var *x, charl_var *y, charl_var **sum)
{
    const config *c = b->settings;
    const int64_t width = charl_var_get_type(x).shape.dim[2];
    charl_layer_norm_args args = {.eps = (float)c->norm_eps};

    if (!charl_graph_is_training(b->g)) {
        *sum = charl_add(b->g, x, y);
        return normalize(b, "ln_2", *sum);
    }
    args.weight = affine(b, "ln_2.weight", width, 1.0F);
    if (c->norm == CHARL_BLOCK_RMS_NORM) {
        return charl_add_rms_norm(b->g, x, y, args.weight, args.eps, sum);
    }
    args.bias = c->bias || c->form.norm_bias ? affine(b, "ln_2.bias", width, 0.0F) : NULL;
    return charl_add_layer_norm(b->g, x, y, &args, sum);
}

/* Standard deviation of projections onto the residual path. */
static double residual_std(const config *c)
{
    return c->init_std / sqrt(2.0 * (double)c->depth);
}

static charl_var *drop(const charl_layer_build *b, const char *branch, charl_var *x)
{
    const config *c = b->settings;

    charl_graph_scope_begin(b->g, branch);
    x = charl_dropout(b->g, x, (float)c->dropout);
    charl_graph_scope_end(b->g);
    return x;
}

/* The end of a branch, behind its norms. */
static charl_var *skip(const charl_layer_build *b, const char *branch, charl_var *x)
{
    const config *c = b->settings;

    charl_graph_scope_begin(b->g, branch);
    x = charl_stochastic_depth(b->g, x, (float)c->stochastic_depth);
    charl_graph_scope_end(b->g);
    return x;
}

int64_t charl__rotated(const charl_block_form *form, int64_t head_dim)
{
    return form->rotary_share > 0 ? (int64_t)((double)head_dim * form->rotary_share) : head_dim;
}

/* RMS norm of the heads [first, first + heads) of x, [B, T, all * head_dim]. */
static charl_var *normalize_heads(const charl_layer_build *b, const char *suffix, charl_var *x, int64_t first,
                                  int64_t heads, int64_t head_dim)
{
    const config *c = b->settings;
    const charl_rms_norm_config norm = {.eps = c->norm_eps};
    charl_var *part = charl_slice(b->g, x, 2, first * head_dim, heads * head_dim);
    const charl_shape all = part ? charl_var_get_type(part).shape : (charl_shape){0};

    if (part && c->form.qk_norm == CHARL_QK_NORM_HEAD) {
        part = charl_reshape(b->g, part, (charl_shape){4, {all.dim[0], all.dim[1], heads, head_dim}});
    }
    part = charl__layer_build_inside(b, suffix, &charl__layer_rms_norm, &norm, part);
    return part ? charl_reshape(b->g, part, all) : NULL;
}

/* Queries, keys and values x, with the first two normalized. */
static charl_var *normalize_qk(const charl_layer_build *b, charl_var *x, int64_t kv_heads, int64_t head_dim)
{
    const config *c = b->settings;
    charl_var *part[3] = {
        normalize_heads(b, "attn.q_norm", x, 0, c->heads, head_dim),
        normalize_heads(b, "attn.k_norm", x, c->heads, kv_heads, head_dim),
        charl_slice(b->g, x, 2, (c->heads + kv_heads) * head_dim, kv_heads * head_dim),
    };

    return charl_concat(b->g, part, 3, 2);
}

static void scale_angles(const charl_rope_scaling *s, charl_rotary_args *args)
{
    if (s->kind == CHARL_ROPE_SCALING_NONE || s->kind == CHARL_ROPE_SCALING_DYNAMIC) {
        return;
    }
    args->factor = s->factor;
    args->low = s->low;
    args->high = s->high;
    args->original = s->original;
    if (s->kind == CHARL_ROPE_SCALING_LINEAR) { /* all pairs are slowed down as those that turn least often */
        args->low = 1;
        args->original = 1;
        args->high = 2;
    } else if (s->kind == CHARL_ROPE_SCALING_YARN) {
        args->by_pair = true;
        args->magnitude =
            s->magnitude > 0 ? s->magnitude : 0.1 * log(s->factor) + 1; /* Peng et al. 2023, section 3.4 */
    }
}

static charl_var *attend(const charl_layer_build *b, charl_var *x, int64_t width)
{
    const config *c = b->settings;
    const int64_t head_dim = c->head_dim ? c->head_dim : width / c->heads;
    const int64_t kv_heads = c->kv_heads ? c->kv_heads : c->heads;
    const charl_attention_args args = {
        .heads = (int)c->heads,
        .kv_heads = (int)kv_heads,
        .causal = c->causal,
        .scale = c->form.scale_dim > 0 ? (float)(1 / sqrt(c->form.scale_dim)) : 0,
        .dropout = (float)c->dropout,
        .window = c->form.attention_window,
        .softcap = (float)c->form.attention_softcap,
    };
    charl_rotary_args rotary = {.head_dim = head_dim,
                                .heads = c->heads + kv_heads,
                                .theta = c->rope_theta,
                                .pairs = charl__rotated(&c->form, head_dim) / 2};

    scale_angles(&c->rope, &rotary);
    x = project(b, "attn.c_attn", x, (c->heads + 2 * kv_heads) * head_dim, c->init_std, c->bias || c->qkv_bias);
    if (c->form.qk_norm != CHARL_QK_NORM_NONE) {
        x = normalize_qk(b, x, kv_heads, head_dim);
    }
    charl_graph_scope_begin(b->g, "attn");
    if (c->rotary) {
        x = charl_rotary(b->g, x, &rotary);
    }
    x = charl_attention(b->g, x, &args);
    charl_graph_scope_end(b->g);
    return drop(b, "attn", project(b, "attn.c_proj", x, width, residual_std(c), c->bias || c->form.out_bias));
}

/* Attention of x to another source. */
static charl_var *attend_to(const charl_layer_build *b, charl_var *x, charl_var *source, int64_t width)
{
    const config *c = b->settings;
    const int64_t head_dim = c->head_dim ? c->head_dim : width / c->heads;
    const int64_t kv_heads = c->kv_heads ? c->kv_heads : c->heads;
    const bool bias = c->bias || c->qkv_bias;
    charl_attention_args args = {
        .heads = (int)c->heads,
        .kv_heads = (int)kv_heads,
        .scale = c->form.scale_dim > 0 ? (float)(1 / sqrt(c->form.scale_dim)) : 0,
        .dropout = (float)c->dropout,
        .softcap = (float)c->form.attention_softcap,
    };

    x = project(b, "crossattention.q_attn", x, c->heads * head_dim, c->init_std, bias);
    args.kv = project(b, "crossattention.c_attn", source, 2 * kv_heads * head_dim, c->init_std, bias);
    charl_graph_scope_begin(b->g, "crossattention");
    x = args.kv ? charl_attention(b->g, x, &args) : NULL;
    charl_graph_scope_end(b->g);
    x = project(b, "crossattention.c_proj", x, width, residual_std(c), c->bias || c->form.out_bias);
    return drop(b, "crossattention", x);
}

static bool is_gated(int mlp)
{
    return mlp == CHARL_BLOCK_SWIGLU || mlp == CHARL_BLOCK_GEGLU || mlp == CHARL_BLOCK_GEGLU_TANH;
}

int64_t charl__transformer_hidden(int64_t hidden, int mlp, int64_t width)
{
    if (hidden) {
        return hidden;
    }
    return is_gated(mlp) ? (8 * width / 3 + 63) / 64 * 64 : 4 * width;
}

static charl_var *activate(charl_graph *g, charl_block_mlp mlp, charl_var *x, int64_t hidden)
{
    switch (mlp) {
    case CHARL_BLOCK_SWIGLU:
        return charl_swiglu(g, x);
    case CHARL_BLOCK_GEGLU:
    case CHARL_BLOCK_GEGLU_TANH:
        return charl_mul(g, charl_gelu(g, charl_slice(g, x, 2, 0, hidden), mlp == CHARL_BLOCK_GEGLU_TANH),
                         charl_slice(g, x, 2, hidden, hidden));
    case CHARL_BLOCK_RELU:
        return charl_relu(g, x);
    case CHARL_BLOCK_RELU2:
        x = charl_relu(g, x);
        return charl_mul(g, x, x);
    default:
        return charl_gelu(g, x, mlp == CHARL_BLOCK_GELU_TANH);
    }
}

static charl_var *transform(const charl_layer_build *b, charl_var *x, int64_t width)
{
    const config *c = b->settings;
    const int64_t hidden = charl__transformer_hidden(c->hidden, c->mlp, width);
    const bool bias = c->bias || c->form.mlp_bias;

    x = project(b, "mlp.c_fc", x, is_gated(c->mlp) ? 2 * hidden : hidden, c->init_std, bias);
    charl_graph_scope_begin(b->g, "mlp");
    x = activate(b->g, c->mlp, x, hidden);
    charl_graph_scope_end(b->g);
    return drop(b, "mlp", project(b, "mlp.c_proj", x, width, residual_std(c), bias));
}

static charl_var *build(const charl_layer_build *b, charl_var *x)
{
    const config *c = b->settings;
    const charl_shape in = charl_var_get_type(x).shape;
    const int64_t width = in.ndim == 3 ? in.dim[2] : 0;
    const bool of_input = c->form.norm_at != CHARL_BLOCK_NORM_OUTPUT;
    const bool of_output = c->form.norm_at != CHARL_BLOCK_NORM_INPUT;
    const int64_t rotated = charl__rotated(&c->form, c->head_dim ? c->head_dim : width / c->heads);
    charl_var *const source = b->n_in > 1 ? b->in[1] : NULL;
    charl_var *sum, *y;

    if (in.ndim != 3 || (source && charl_var_get_type(source).shape.ndim != 3)) {
        return charl__graph_refuse(b->g, "a transformer block needs [batch, positions, features]");
    }
    if (!c->head_dim && width % c->heads != 0) {
        return charl__graph_refuse(b->g, "the features are not a multiple of the heads");
    }
    if (c->rope.kind != CHARL_ROPE_SCALING_NONE && !(c->rope.factor >= 1)) {
        return charl__graph_refuse(b->g, "rope_scaling needs a rope_factor of at least 1");
    }
    if (c->rope.kind == CHARL_ROPE_SCALING_DYNAMIC && in.dim[1] > c->rope.original) {
        return charl__graph_refuse(b->g, "rope_scaling = dynamic: a sequence is longer than rope_original; HINT yarn");
    }
    if (c->kv_heads && c->heads % c->kv_heads != 0) {
        return charl__graph_refuse(b->g, "heads is not a multiple of kv_heads");
    }
    if (c->form.parallel && c->form.norm_at == CHARL_BLOCK_NORM_SUM) {
        return charl__graph_refuse(b->g, "parallel = yes has no norm_at = sum");
    }
    if (source && (c->form.parallel || c->form.qk_norm != CHARL_QK_NORM_NONE)) {
        return charl__graph_refuse(b->g, c->form.parallel ? "parallel = yes has no attention to a second input"
                                                          : "qk_norm has no attention to a second input");
    }
    if (c->rotary && (rotated < 2 || rotated % 2 != 0)) {
        return charl__graph_refuse(b->g, "rotary_share does not rotate 2, 4, 6, ... elements of a head");
    }
    if (c->form.norm_at == CHARL_BLOCK_NORM_SUM) {
        x = normalize(b, "ln_1_out", charl_add(b->g, x, skip(b, "attn", attend(b, x, width))));
        if (source && x) {
            x = normalize(b, "ln_cross_attn_out",
                          charl_add(b->g, x, skip(b, "crossattention", attend_to(b, x, source, width))));
        }
        return normalize(b, "ln_2_out", charl_add(b->g, x, skip(b, "mlp", transform(b, x, width))));
    }
    y = attend(b, of_input ? normalize(b, "ln_1", x) : x, width);
    y = skip(b, "attn", of_output ? normalize(b, "ln_1_out", y) : y);
    if (source) {
        x = charl_add(b->g, x, y);
        y = attend_to(b, of_input ? normalize(b, "ln_cross_attn", x) : x, source, width);
        y = skip(b, "crossattention", of_output ? normalize(b, "ln_cross_attn_out", y) : y);
    }
    if (!of_input || c->form.parallel) {
        sum = charl_add(b->g, x, y);
        x = c->form.parallel ? x : sum;
        x = of_input ? normalize(b, "ln_2", x) : x;
    } else {
        x = add_and_normalize(b, x, y, &sum);
    }
    x = transform(b, x, width);
    return charl_add(b->g, sum, skip(b, "mlp", of_output ? normalize(b, "ln_2_out", x) : x));
}

static const config defaults = {.depth = 1,
                                .init_std = 0.02,
                                .norm_eps = 1e-5,
                                .rope_theta = 10000.0,
                                .rope = CHARL__ROPE_SCALING_DEFAULTS,
                                .causal = true,
                                .bias = true};
static const charl_key keys[] = {
    CHARL__KEY(config, heads, INT, "[1,65536]", true, "attention heads"),
    CHARL__KEY(config, kv_heads, INT, "[0,65536]", false, "heads of keys and values; 0: as many as heads"),
    CHARL__KEY(config, hidden, INT, "[0,1e9]", false,
               "width of the mlp; 0: 4 times the features, for swiglu 8/3 times"),
    CHARL__KEY(config, head_dim, INT, "[0,256]", false, "width of a head; 0: features / heads"),
    CHARL__KEY(config, depth, INT, "[1,1e6]", false, "blocks of the model, for the initial values"),
    CHARL__KEY(config, dropout, FLOAT, "[0,1)", false, "probability to drop attention weights and branch outputs"),
    CHARL__KEY(config, stochastic_depth, FLOAT, "[0,1)", false,
               "probability that a sample skips a branch while training"),
    CHARL__KEY(config, init_std, FLOAT, "[0,1e6)", false,
               "standard deviation of the initial weights; 0: as PyTorch's linear layers"),
    CHARL__KEY(config, norm_eps, FLOAT, "[0,1)", false, "added to the variance in the norms"),
    CHARL__KEY(config, rope_theta, FLOAT, "[1,1e9)", false, "base of the angles of rotary positions"),
    CHARL__ROPE_SCALING_KEYS(config, rope),
    CHARL__KEY(config, rotary, BOOL, NULL, false, "rotate queries and keys by their position"),
    CHARL__KEY(config, causal, BOOL, NULL, false, "a position sees only itself and those before it"),
    CHARL__KEY(config, bias, BOOL, NULL, false, "biases in linear maps and layer norms"),
    CHARL__KEY(config, qkv_bias, BOOL, NULL, false, "biases of queries, keys and values also where bias = no"),
    CHARL__KEY(config, norm, CHOICE, NULL, false, "normalisation", "layer|rms"),
    {"mlp", CHARL_KEY_CHOICE, offsetof(config, mlp), NULL, false, CHARL__BLOCK_MLP_HELP},
    CHARL__BLOCK_FORM_KEYS(config, form),
};

const charl_layer_type charl__layer_transformer_block = CHARL__LAYER(
    "transformer_block",
    "x + attention(norm(x)), then x + mlp(norm(x)); input = x, memory: attention to the memory in between, as in a "
    "decoder",
    build, .max_inputs = 2, .one_input = true, .is_block = true, CHARL_DEFAULTS(defaults), CHARL_KEYS(keys));
