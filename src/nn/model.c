/* Models: layers and their inputs; the layers declare parameters in a set and append
 * themselves to a graph. A layer reads earlier layers, so they can be built in the order of the
 * list. */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "autograd/graph.h"
#include "autograd/graph_segments.h"
#include "autograd/op.h"
#include "base/alloc.h"
#include "base/owner.h"
#include "base/registry/key.h"
#include "base/text/text.h"
#include "nn/layer.h"
#include "nn/model.h"
#include "nn/model_internal.h"

typedef struct charl__layer {
    char *name;
    const charl_layer_type *type;
    int *from; /* layers that it reads; INPUT - k: input k of the model */
    int n_from;
    char *origin; /* where it is described, for messages; NULL: unknown */
    _Alignas(8) unsigned char settings[CHARL_LAYER_MAX_SETTINGS];
} charl__layer;

enum { INPUT = -1 };

/* What the model gives: values of a row, of a layer. */
typedef struct output {
    char *name;
    int layer;
    int64_t values;
} output;

struct charl_model {
    charl__owner owner; /* while a layer is added */
    charl__layer *layer;
    int count;
    charl_model_field *input; /* parts of a row; their names are the model's own */
    int n_inputs;             /* 0: the input is one array */
    output *output;
    int n_outputs;   /* 0: the output of the last layer */
    charl_lora lora; /* targets are its own */
    char *lora_targets;
    const charl_model_type *type;
    void *settings; /* of the type */
};

static void layer_fini(charl__layer *l)
{
    charl_free(l->name);
    charl_free(l->from);
    charl_free(l->origin);
}

charl_status charl_model_create(charl_model **out)
{
    CHARL_GIVEN(out);
    CHARL_TRY(charl__alloc(sizeof(charl_model), out));
    charl__owner_init(&(*out)->owner);
    return CHARL_OK;
}

void charl_model_destroy(charl_model *m)
{
    if (m) {
        for (int i = 0; i < m->count; i++) {
            layer_fini(&m->layer[i]);
        }
        for (int i = 0; i < m->n_inputs; i++) {
            charl_free((void *)(uintptr_t)m->input[i].name);
        }
        for (int i = 0; i < m->n_outputs; i++) {
            charl_free(m->output[i].name);
        }
        charl_free(m->input);
        charl_free(m->output);
        charl_free(m->layer);
        charl_free(m->lora_targets);
        charl_free(m->settings);
        charl_free(m);
    }
}

static charl_status find_type(const char *type, const charl_layer_type **out)
{
    const charl_layer_type *t;
    const char *near = NULL;
    int best = INT_MAX;

    *out = charl__layer_type_find(type);
    for (int i = 0; !*out && (t = charl__layer_type_at(i)) != NULL; i++) {
        near = charl_text_closer(type, t->row.name, &best) ? t->row.name : near;
    }
    CHARL_REQUIRE(*out, CHARL_ERR_CONFIG, "there is no layer type %s%s", type, charl__did_you_mean(near));
    return CHARL_OK;
}

charl_status charl_layer_defaults(const char *type, void *config)
{
    CHARL_GIVEN(type, config);
    const charl_layer_type *t;

    CHARL_TRY(find_type(type, &t));
    if (t->row.settings_size) {
        memcpy(config, t->row.defaults, t->row.settings_size);
    }
    return CHARL_OK;
}

/* The caller may free the string before the model. */
static charl_status adopt_activation(const charl_key *k, const char **name)
{
    const char *known = *name ? charl__activation_find(*name) : NULL;
    char names[256];

    CHARL_REQUIRE(!*name || known, CHARL_ERR_CONFIG, "%s is %s; it can be %s", k->name, *name,
                  charl__text_list(*name, charl_activation_name, names, sizeof names));
    *name = known;
    return CHARL_OK;
}

static int find_layer(const charl_model *m, const char *name)
{
    for (int i = 0; i < m->count; i++) {
        if (strcmp(m->layer[i].name, name) == 0) {
            return i;
        }
    }
    return -1;
}

/* The number of an input of the model; `input` is the first. -1: there is none of that name. */
static int find_input(const charl_model *m, const char *name)
{
    for (int k = 0; k < m->n_inputs; k++) {
        if (strcmp(m->input[k].name, name) == 0) {
            return k;
        }
    }
    return strcmp(name, CHARL_MODEL_INPUT) == 0 ? 0 : -1;
}

/* The name of what a layer reads. */
static const char *source_name(const charl_model *m, int from)
{
    return from > INPUT ? m->layer[from].name : m->n_inputs == 0 ? CHARL_MODEL_INPUT : m->input[INPUT - from].name;
}

/* The layer's own name lives as long as the model. */
static charl_status adopt_layer(const charl_model *m, const charl_key *k, const char **name)
{
    const int at = *name ? find_layer(m, *name) : -1;

    CHARL_REQUIRE(!*name || at >= 0, CHARL_ERR_CONFIG, "%s is %s; no layer before this one has that name", k->name,
                  *name);
    *name = at >= 0 ? m->layer[at].name : NULL;
    return CHARL_OK;
}

static charl_status adopt(const charl_model *m, const charl_key *k, unsigned char *settings)
{
    void *at = settings + k->offset;

    if (k->kind == CHARL_KEY_LAYER) {
        return adopt_layer(m, k, (const char **)at);
    }
    return k->kind == CHARL_KEY_ACTIVATION ? adopt_activation(k, (const char **)at) : CHARL_OK;
}

/* Check the settings of a layer, and copy its strings. */
static charl_status adopt_settings(const charl_model *m, charl__layer *l)
{
    CHARL_TRY(charl__settings_check(&l->type->row, l->settings));
    for (int i = 0; i < l->type->row.n_keys; i++) {
        CHARL_TRY(adopt(m, &l->type->row.keys[i], l->settings));
    }
    return CHARL_OK;
}

/* The inputs of a layer: the layers of these names or, if there are none, the previous layer. */
static charl_status connect(const charl_model *m, charl__layer *l, const char *const *inputs, int n)
{
    const int least = l->type->max_inputs && !l->type->one_input ? 2 : 1;
    const int most = l->type->max_inputs ? l->type->max_inputs : 1;

    l->n_from = n > 0 ? n : 1;
    CHARL_REQUIRE(most > 1 || n <= 1, CHARL_ERR_CONFIG, "input: %s reads one layer, not %d", l->type->row.name, n);
    CHARL_REQUIRE(l->n_from >= least && l->n_from <= most, CHARL_ERR_CONFIG,
                  "input: %s reads %d to %d layers, not %d; name them, as in input = a, b", l->type->row.name, least,
                  most, l->n_from);
    CHARL_TRY(charl__alloc_array(l->n_from, sizeof *l->from, &l->from));
    l->from[0] = m->count - 1;
    for (int i = 0; i < n; i++) {
        const int input = find_input(m, inputs[i]);

        l->from[i] = input >= 0 ? INPUT - input : find_layer(m, inputs[i]);
        CHARL_REQUIRE(input >= 0 || l->from[i] >= 0, CHARL_ERR_CONFIG, "input: no layer before this one is named %s",
                      inputs[i]);
    }
    return CHARL_OK;
}

charl_status charl_model_add(charl_model *m, const char *name, const char *type, const void *config)
{
    CHARL_GIVEN(m, name, type);
    return charl_model_add_after(m, name, type, config, NULL, 0);
}

charl_status charl_model_add_after(charl_model *m, const char *name, const char *type, const void *config,
                                   const char *const *inputs, int n_inputs)
{
    CHARL_GIVEN(m, name, type, inputs || n_inputs == 0);
    CHARL_OWNED(&m->owner, "model");
    charl_status st = CHARL_OK;
    charl__layer l = {.type = NULL};

    st = find_type(type, &l.type);
    if (st != CHARL_OK) {
        charl__error_prefix("layer %s: ", name);
    }
    CHARL_TRY_CLEANUP(st);
    CHARL_REQUIRE_CLEANUP(name[0], CHARL_ERR_CONFIG, "a layer needs a name");
    CHARL_REQUIRE_CLEANUP(find_input(m, name) < 0, CHARL_ERR_CONFIG,
                          "a layer cannot be named %s: that is what the model reads", name);
    CHARL_REQUIRE_CLEANUP(find_layer(m, name) < 0, CHARL_ERR_CONFIG, "there are two layers named %s", name);
    CHARL_INVARIANT(l.type->row.settings_size <= sizeof l.settings);
    if (l.type->row.settings_size) {
        memcpy(l.settings, config ? config : l.type->row.defaults, l.type->row.settings_size);
    }
    st = adopt_settings(m, &l);
    st = st == CHARL_OK ? connect(m, &l, inputs, n_inputs) : st;
    if (st != CHARL_OK) {
        charl__error_prefix("layer %s: ", name);
    }
    CHARL_TRY_CLEANUP(st);
    CHARL_TRY_CLEANUP(charl__grow(m->count, sizeof *m->layer, &m->layer));
    CHARL_TRY_CLEANUP(charl__strdup(name, &l.name));
    m->layer[m->count++] = l;
    l = (charl__layer){0};
cleanup:
    layer_fini(&l);
    return st;
}

charl_status charl__model_locate(charl_model *m, const char *origin)
{
    CHARL_TRY(charl__strdup(origin, &m->layer[m->count - 1].origin));
    return CHARL_OK;
}

charl_status charl_model_set_inputs(charl_model *m, const charl_model_field *inputs, int n)
{
    CHARL_GIVEN(m, inputs, n > 0);
    CHARL_REQUIRE(m->count == 0 && m->n_inputs == 0, CHARL_ERR_INVALID,
                  "the inputs of a model are set once, before its first layer");
    CHARL_TRY(charl__alloc_array(n, sizeof *m->input, &m->input));
    for (int i = 0; i < n; i++) {
        char *name = NULL;

        CHARL_GIVEN(inputs[i].name);
        CHARL_REQUIRE(find_input(m, inputs[i].name) < 0, CHARL_ERR_INVALID,
                      "two inputs are named %s, or one is named " CHARL_MODEL_INPUT, inputs[i].name);
        CHARL_TRY(charl__strdup(inputs[i].name, &name));
        m->input[i] = inputs[i];
        m->input[i].name = name;
        m->n_inputs++;
    }
    return CHARL_OK;
}

charl_status charl_model_set_outputs(charl_model *m, const charl_model_output *outputs, int n)
{
    CHARL_GIVEN(m, outputs, n > 0);
    CHARL_REQUIRE(m->n_outputs == 0, CHARL_ERR_INVALID, "the outputs of a model are set once");
    CHARL_TRY(charl__alloc_array(n, sizeof *m->output, &m->output));
    for (int i = 0; i < n; i++) {
        CHARL_GIVEN(outputs[i].name, outputs[i].layer);
        m->output[i] = (output){.layer = find_layer(m, outputs[i].layer), .values = outputs[i].values};
        CHARL_REQUIRE(m->output[i].layer >= 0, CHARL_ERR_CONFIG, "output %s: no layer is named %s", outputs[i].name,
                      outputs[i].layer);
        CHARL_TRY(charl__strdup(outputs[i].name, &m->output[i].name));
        m->n_outputs++;
    }
    return CHARL_OK;
}

/* Whether a layer, or an output of the model, reads layer i, or input INPUT - i. */
static bool is_read(const charl_model *m, int i)
{
    for (int k = 0; k < m->count; k++) {
        for (int j = 0; j < m->layer[k].n_from; j++) {
            if (m->layer[k].from[j] == i) {
                return true;
            }
        }
    }
    for (int k = 0; k < m->n_outputs; k++) {
        if (m->output[k].layer == i) {
            return true;
        }
    }
    return m->n_outputs == 0 && i == m->count - 1;
}

/* The first layer that nothing reads, except the output; count: there is none. */
static int find_unread(const charl_model *m)
{
    int i = 0;

    while (i < m->count && is_read(m, i)) {
        i++;
    }
    return i;
}

static charl_status check_read(const charl_model *m)
{
    const int unread = find_unread(m);
    const charl__layer *l = unread < m->count ? &m->layer[unread] : NULL;

    CHARL_REQUIRE(!l, CHARL_ERR_CONFIG,
                  "%s%slayer %s: no layer reads it, and it is %s; name it in the input of another, or remove it",
                  l->origin ? l->origin : "", l->origin ? ": " : "", l->name,
                  m->n_outputs > 0 ? "no output" : "not the last one");
    for (int k = 0; k < m->n_inputs; k++) {
        CHARL_REQUIRE(is_read(m, INPUT - k), CHARL_ERR_CONFIG,
                      "no layer reads the input %s; name it in the input of a layer, or leave it out of the data",
                      m->input[k].name);
    }
    return CHARL_OK;
}

charl_status charl_model_set_lora(charl_model *m, const charl_lora *lora)
{
    CHARL_GIVEN(m);
    char *targets = NULL;

    if (lora && lora->rank > 0) {
        CHARL_TRY(charl__range_check(CHARL_ERR_CONFIG, "lora.rank", (double)lora->rank, "[0,65536]"));
        CHARL_TRY(charl__range_check(CHARL_ERR_CONFIG, "lora.alpha", lora->alpha, "[0,1e6]"));
        CHARL_TRY(charl__range_check(CHARL_ERR_CONFIG, "lora.dropout", lora->dropout, "[0,1)"));
        CHARL_REQUIRE(lora->targets && lora->targets[0], CHARL_ERR_CONFIG, "lora.targets names no layer");
        CHARL_TRY(charl__strdup(lora->targets, &targets));
    }
    charl_free(m->lora_targets);
    m->lora_targets = targets;
    m->lora = targets ? *lora : (charl_lora){0};
    m->lora.targets = targets;
    return CHARL_OK;
}

bool charl__is_adapter(const char *name)
{
    return charl__ends_in(name, ".lora_A.weight") || charl__ends_in(name, ".lora_B.weight");
}

int charl_model_get_count(const charl_model *m)
{
    return m ? m->count : 0;
}

const char *charl_model_get_layer_name(const charl_model *m, int i)
{
    if (!m) {
        return NULL;
    }
    return i >= 0 && i < m->count ? m->layer[i].name : NULL;
}

charl_status charl__model_set_type(charl_model *m, const charl_model_type *type, const void *settings, size_t bytes)
{
    void *copy = NULL;

    CHARL_TRY(charl__alloc(bytes, &copy));
    memcpy(copy, settings, bytes);
    charl_free(m->settings);
    m->settings = copy;
    m->type = type;
    return CHARL_OK;
}

const charl_model_type *charl__model_get_type(const charl_model *m, const void **settings)
{
    *settings = m ? m->settings : NULL;
    return m ? m->type : NULL;
}

const char *charl__model_get_tie(const charl_model *m, int i)
{
    if (!m) {
        return NULL;
    }
    const charl__layer *l = i >= 0 && i < m->count ? &m->layer[i] : NULL;

    for (int k = 0; l && k < l->type->row.n_keys; k++) {
        if (l->type->row.keys[k].kind == CHARL_KEY_LAYER) {
            return *(const char *const *)(l->settings + l->type->row.keys[k].offset);
        }
    }
    return NULL;
}

/* The dotted name of part of a layer. */
static charl_status join(const char *layer, const char *suffix, char name[CHARL_LAYER_MAX_NAME])
{
    CHARL_REQUIRE((size_t)snprintf(name, CHARL_LAYER_MAX_NAME, "%s.%s", layer, suffix) < CHARL_LAYER_MAX_NAME,
                  CHARL_ERR_CONFIG, "the name of layer %.40s... is too long", layer);
    return CHARL_OK;
}

static charl_status declare(const charl_layer_build *b, const char *suffix, const charl_param_spec *spec,
                            charl_param **out)
{
    charl_param_spec full = *spec;
    char name[CHARL_LAYER_MAX_NAME], have[CHARL_SHAPE_TEXT], want[CHARL_SHAPE_TEXT];

    *out = NULL;
    CHARL_TRY(join(b->name, suffix, name));
    full.name = name;
    *out = charl_params_find(b->set, name);
    if (!*out) {
        CHARL_TRY(charl_params_add(b->set, &full, out));
    }
    CHARL_REQUIRE(charl_shape_equal(&charl_param_get_spec(*out)->shape, &spec->shape), CHARL_ERR_SHAPE,
                  "%s has shape %s, this input needs %s", name,
                  charl_shape_format(&charl_param_get_spec(*out)->shape, have), charl_shape_format(&spec->shape, want));
    return CHARL_OK;
}

static charl_var *param_of(const charl_layer_build *b, const char *suffix, const charl_param_spec *spec)
{
    charl_param *p = NULL;
    const charl_status st = declare(b, suffix, spec, &p);

    return st == CHARL_OK ? charl_parameter(b->g, p) : charl__graph_fail(b->g, st, "%s", charl_error_message());
}

charl_var *charl_layer_param(const charl_layer_build *b, const char *suffix, const charl_param_spec *spec)
{
    if (!b || !suffix || !spec) {
        return NULL;
    }
    charl_param_spec trainable = *spec;

    trainable.trainable = true;
    return param_of(b, suffix, &trainable);
}

charl_var *charl_layer_buffer(const charl_layer_build *b, const char *suffix, const charl_param_spec *spec)
{
    return b && suffix && spec ? param_of(b, suffix, spec) : NULL;
}

charl_var *charl__layer_param_of(const charl_layer_build *b, const char *layer, const char *suffix,
                                 const charl_shape *shape)
{
    const charl_layer_build other = {.g = b->g, .set = b->set, .name = layer};
    char name[CHARL_LAYER_MAX_NAME] = "";

    if (join(layer, suffix, name) == CHARL_OK && !charl_params_find(b->set, name)) {
        return charl__graph_fail(b->g, CHARL_ERR_CONFIG, "layer %s has no %s to share", layer, suffix);
    }
    return charl_layer_param(&other, suffix, &(charl_param_spec){.shape = *shape});
}

charl_var *charl__layer_build_inside(const charl_layer_build *b, const char *suffix, const charl_layer_type *type,
                                     const void *config, charl_var *x)
{
    char name[CHARL_LAYER_MAX_NAME];
    const charl_layer_build inside = {
        .g = b->g, .set = b->set, .name = name, .settings = config, .lora = b->lora, .type = type};
    const charl_status st = x ? join(b->name, suffix, name) : CHARL_OK;

    if (!x || st != CHARL_OK) {
        return x ? charl__graph_fail(b->g, st, "%s", charl_error_message()) : NULL;
    }
    charl_graph_scope_begin(b->g, suffix);
    x = type->build(&inside, x);
    charl_graph_scope_end(b->g);
    return x;
}

charl_var *charl__graph_refuse(charl_graph *g, const char *reason)
{
    return charl__graph_fail(g, CHARL_ERR_SHAPE, "%s", reason);
}

/* Where segments begin: at each composite layer, and at regular distances, so that the inputs of a segment
 * and its contents have about the same size. */
static bool begins_part(const charl_model *m, int i, int length)
{
    const bool block = m->layer[i].type->is_block;

    return i == 0 || block || m->layer[i - 1].type->is_block || (int64_t)length * length >= m->count;
}

/* Adapters without a layer would train nothing. */
static charl_var *check_targets(const charl_model *m, charl_graph *g, const charl_params *set, charl_var *out)
{
    for (int i = 0; i < charl_params_get_count(set); i++) {
        if (charl__is_adapter(charl_param_get_spec(charl_params_get(set, i))->name)) {
            return out;
        }
    }
    return charl__graph_fail(
        g, CHARL_ERR_CONFIG,
        "lora.targets = %s: no linear layer has such a name; HINT `charl model show CONFIG` lists the layers",
        m->lora.targets);
}

/* Add to an error where the layer is described, and its input. */
static void explain(const charl__layer *l, const charl_model *m, charl_graph *g, charl_var *const *in)
{
    charl_status st = CHARL_OK;
    charl__text after = {0};
    char shape[CHARL_SHAPE_TEXT];

    for (int i = 0; i < l->n_from; i++) {
        const charl_shape s = charl_var_get_type(in[i]).shape;

        CHARL_TRY_CLEANUP(charl__text_printf(&after, "%s %s %s", i == 0 ? "; it reads" : ",",
                                             l->from[i] == INPUT && m->n_inputs == 0 ? "the model's input"
                                                                                     : source_name(m, l->from[i]),
                                             charl_shape_format(&s, shape)));
    }
    CHARL_TRY_CLEANUP(charl__graph_explain(g, l->origin, charl__text_string(&after)));
cleanup:
    if (st != CHARL_OK) {
        charl_error_clear(); /* the error is not changed */
    }
    charl__text_fini(&after);
}

/* Append layer i, whose inputs are among out[i], and out[-1 - k] for input k of the model. */
static charl_var *build_layer(const charl_model *m, int i, charl_graph *g, charl_params *set, charl_var *const *out)
{
    const charl__layer *l = &m->layer[i];
    charl_var *in[CHARL_LAYER_MAX_INPUTS], *y;
    const charl_layer_build b = {.g = g,
                                 .set = set,
                                 .name = l->name,
                                 .settings = l->settings,
                                 .lora = m->lora.rank > 0 ? &m->lora : NULL,
                                 .in = in,
                                 .n_in = l->n_from,
                                 .type = l->type};

    for (int k = 0; k < l->n_from; k++) {
        in[k] = out[l->from[k]];
    }
    charl_graph_scope_begin(g, l->name);
    y = l->type->build(&b, in[0]);
    if (y && charl__var_positions(y) < 0) { /* later layers could not distinguish values from padding */
        y = charl__graph_refuse(g, "counts the padding of the sequences; docs/language-models.md lists the layers that "
                                   "do not");
    }
    charl_graph_scope_end(g);
    if (!y) {
        explain(l, m, g, in);
    }
    return y;
}

charl_var *charl_model_build(const charl_model *m, charl_graph *g, charl_params *set, charl_var *x)
{
    set = set || !g ? set : charl__graph_params(g);
    if (!m || !g || !set) {
        return charl__graph_fail(g, CHARL_ERR_INVALID, "charl_model_build: %s is NULL%s", m ? "set" : "m",
                                 m ? ", and the graph trains none; HINT charl_graph_set_trained" : "");
    }
    return charl__model_build_noting(m, g, set, x, NULL);
}

charl_var *charl_layer_apply(charl_graph *g, charl_params *set, const char *name, const char *type, const void *config,
                             charl_var *x)
{
    charl_model *m = NULL;
    charl_status st;

    if (!g || !x) { /* the error that made x NULL is kept */
        return NULL;
    }
    st = charl_model_create(&m);
    st = st == CHARL_OK ? charl_model_add(m, name, type, config) : st;
    x = st == CHARL_OK ? charl_model_build(m, g, set, x) : charl__graph_fail(g, st, "%s", charl_error_message());
    charl_model_destroy(m);
    return x;
}

const char *charl__model_layer_type(const charl_model *m, int i)
{
    return m->layer[i].type->row.name;
}

int charl__model_layer_inputs(const charl_model *m, int i, const char **names)
{
    const charl__layer *l = &m->layer[i];

    for (int k = 0; k < l->n_from; k++) {
        names[k] = source_name(m, l->from[k]);
    }
    return l->n_from;
}

/* The last linear layer, which is the output layer of most models, or -1. */
static int last_linear(const charl_model *m)
{
    int i = m->count - 1;

    while (i >= 0 && m->layer[i].type != &charl__layer_linear) {
        i--;
    }
    return i;
}

/* Input k of the model, from a row of all inputs. */
static charl_var *unpack(const charl_model *m, int k, charl_graph *g, charl_var *x)
{
    const charl_model_field *f = &m->input[k];
    charl_shape shape = {f->shape.ndim + 1, {charl_var_get_type(x).shape.dim[0]}};

    memcpy(shape.dim + 1, f->shape.dim, (size_t)f->shape.ndim * sizeof shape.dim[0]);
    x = charl_slice(g, x, 1, f->first, charl_shape_count(&f->shape));
    x = x ? charl_reshape(g, x, shape) : NULL;
    if (!x || !f->tokens) {
        return x ? charl__as_dtype(g, x, charl_graph_get_precision(g)) : NULL;
    }
    x = charl_cast(g, x, CHARL_I32);
    return x && f->padded ? charl__graph_set_padded(g, x, 0) : x;
}

/* The outputs of the model, as a row of all. */
static charl_var *pack(const charl_model *m, charl_graph *g, charl_var *const *out)
{
    charl_var *row[CHARL_MODEL_MAX_OUTPUTS] = {NULL};

    for (int k = 0; k < m->n_outputs; k++) {
        const output *o = &m->output[k];
        const charl_shape s = charl_var_get_type(out[o->layer]).shape;
        const int64_t values = charl_shape_count(&s) / s.dim[0];
        char text[CHARL_SHAPE_TEXT];

        if (values != o->values) {
            return charl__graph_fail(g, CHARL_ERR_SHAPE,
                                     "output %s: layer %s gives %s, %lld values for each sample; it must give %lld",
                                     o->name, m->layer[o->layer].name, charl_shape_format(&s, text), (long long)values,
                                     (long long)o->values);
        }
        row[k] = charl_reshape(g, charl__as_dtype(g, out[o->layer], CHARL_F32), (charl_shape){2, {s.dim[0], values}});
    }
    return m->n_outputs == 1 ? row[0] : charl_concat(g, row, m->n_outputs, 1);
}

charl_var *charl__model_build_noting(const charl_model *m, charl_graph *g, charl_params *set, charl_var *x,
                                     charl__layer_built *built)
{
    charl_status st = CHARL_OK;
    charl_var **all = NULL, **out; /* the inputs of the model, the last first, then the output of each layer */
    const charl__linear_kind linear = charl__graph_get_linear(g);
    const int head = last_linear(m);
    int length = 0; /* of the segment */

    if (!x || charl_graph_status(g) != CHARL_OK) { /* the first error is kept as it is */
        return NULL;
    }
    CHARL_TRY_CLEANUP(check_read(m));
    CHARL_TRY_CLEANUP(charl__alloc_array(m->count + m->n_inputs + 1, sizeof *all, &all));
    out = all + m->n_inputs + 1;
    out[INPUT] = x;
    for (int k = 0; k < m->n_inputs; k++) {
        out[INPUT - k] = unpack(m, k, g, x);
    }
    for (int i = 0; i < m->count && x && charl_graph_status(g) == CHARL_OK; i++) {
        if (begins_part(m, i, length)) {
            charl__graph_segment_begin(g);
            length = 0;
        }
        length++;
        if (built) {
            built[i] =
                (charl__layer_built){.first_node = charl__graph_count(g), .first_param = charl_params_get_count(set)};
        }
        charl__graph_set_linear(g, linear == CHARL__LINEAR_FP8 && i == head ? CHARL__LINEAR_PLAIN : linear);
        x = out[i] = build_layer(m, i, g, set, out);
        charl__graph_set_linear(g, linear);
        if (built && x) {
            built[i].end_node = charl__graph_count(g);
            built[i].end_param = charl_params_get_count(set);
            built[i].shape = charl_var_get_type(x).shape;
        }
    }
    charl__graph_segment_end(g);
    x = x && m->n_outputs > 0 ? pack(m, g, out) : x;
    x = x && m->lora.rank > 0 ? check_targets(m, g, set, x) : x;
cleanup:
    charl_free(all);
    return st == CHARL_OK ? x : charl__graph_fail(g, st, "%s", charl_error_message());
}
