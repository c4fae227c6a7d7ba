/* Models: lists of layers, and how they declare parameters in a set and append themselves to a
 * graph. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "autograd/op.h"
#include "base/alloc.h"
#include "base/registry/key.h"
#include "base/text/text.h"
#include "nn/layer.h"

typedef struct charl__layer {
    char *name;
    const charl_layer_type *type;
    _Alignas(8) unsigned char settings[CHARL_LAYER_MAX_SETTINGS];
} charl__layer;

struct charl_model {
    charl__layer *layer;
    int count;
    charl_lora lora; /* targets are its own */
    char *lora_targets;
};

charl_status charl_model_create(charl_model **out)
{
    return charl__alloc(sizeof(charl_model), out);
}

void charl_model_destroy(charl_model *m)
{
    if (m) {
        for (int i = 0; i < m->count; i++) {
            charl_free(m->layer[i].name);
        }
        charl_free(m->layer);
        charl_free(m->lora_targets);
        charl_free(m);
    }
}

charl_status charl_layer_defaults(const char *type, void *config)
{
    const charl_layer_type *t = charl__layer_type_find(type);

    CHARL_REQUIRE(t, CHARL_ERR_CONFIG, "there is no layer type %s", type);
    if (t->row.settings_size) {
        memcpy(config, t->row.defaults, t->row.settings_size);
    }
    return CHARL_OK;
}

/* The caller's string need not live as long as the model. */
static charl_status adopt_activation(const charl_key *k, const char **name)
{
    const char *known = *name ? charl__activation_find(*name) : NULL;
    char names[256];

    CHARL_REQUIRE(!*name || known, CHARL_ERR_CONFIG, "%s is %s; it can be %s", k->name, *name,
                  charl__text_names(charl_activation_name, names, sizeof names));
    *name = known;
    return CHARL_OK;
}

/* The layer's own name lives as long as the model. */
static charl_status adopt_layer(const charl_model *m, const charl_key *k, const char **name)
{
    for (int i = 0; *name && i < m->count; i++) {
        if (strcmp(m->layer[i].name, *name) == 0) {
            *name = m->layer[i].name;
            return CHARL_OK;
        }
    }
    CHARL_REQUIRE(!*name, CHARL_ERR_CONFIG, "%s is %s; no layer before this one has that name", k->name, *name);
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

/* Check the settings of a layer, and make its strings the model's own. */
static charl_status take_settings(const charl_model *m, charl__layer *l)
{
    CHARL_TRY(charl__settings_check(&l->type->row, l->settings, ""));
    for (int i = 0; i < l->type->row.n_keys; i++) {
        CHARL_TRY(adopt(m, &l->type->row.keys[i], l->settings));
    }
    return CHARL_OK;
}

charl_status charl_model_add(charl_model *m, const char *name, const char *type, const void *config)
{
    charl_status st = CHARL_OK;
    charl__layer l = {.type = charl__layer_type_find(type)};

    CHARL_REQUIRE(l.type, CHARL_ERR_CONFIG, "layer %s: there is no layer type %s", name, type);
    CHARL_REQUIRE(name[0], CHARL_ERR_CONFIG, "a layer needs a name");
    for (int i = 0; i < m->count; i++) {
        CHARL_REQUIRE(strcmp(m->layer[i].name, name) != 0, CHARL_ERR_CONFIG, "there are two layers named %s", name);
    }
    CHARL_INVARIANT(l.type->row.settings_size <= sizeof l.settings);
    if (l.type->row.settings_size) {
        memcpy(l.settings, config ? config : l.type->row.defaults, l.type->row.settings_size);
    }
    st = take_settings(m, &l);
    if (st != CHARL_OK) {
        charl__error_prefix("layer %s: ", name);
        return st;
    }
    CHARL_TRY(charl__grow(m->count, sizeof *m->layer, &m->layer));
    CHARL_TRY(charl__strdup(name, &l.name));
    m->layer[m->count++] = l;
    return st;
}

charl_status charl_model_set_lora(charl_model *m, const charl_lora *lora)
{
    char *targets = NULL;

    if (lora && lora->rank > 0) {
        CHARL_REQUIRE(lora->rank <= INT32_MAX && lora->dropout >= 0 && lora->dropout < 1 && isfinite(lora->alpha) &&
                          lora->targets && lora->targets[0],
                      CHARL_ERR_CONFIG, "lora: rank %lld, alpha %g, dropout %g, targets \"%s\"", (long long)lora->rank,
                      lora->alpha, lora->dropout, lora->targets ? lora->targets : "");
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

const charl_lora *charl_model_get_lora(const charl_model *m)
{
    return m->lora.rank > 0 ? &m->lora : NULL;
}

int charl_model_get_count(const charl_model *m)
{
    return m->count;
}

const char *charl_model_get_layer_name(const charl_model *m, int i)
{
    return i >= 0 && i < m->count ? m->layer[i].name : NULL;
}

const char *charl_model_get_tie(const charl_model *m, int i)
{
    const charl__layer *l = i >= 0 && i < m->count ? &m->layer[i] : NULL;

    for (int k = 0; l && k < l->type->row.n_keys; k++) {
        if (l->type->row.keys[k].kind == CHARL_KEY_LAYER) {
            return *(const char *const *)(l->settings + l->type->row.keys[k].offset);
        }
    }
    return NULL;
}

/* The dotted name of a part of a layer. */
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
    charl_param_spec trainable = *spec;

    trainable.trainable = true;
    return param_of(b, suffix, &trainable);
}

charl_var *charl_layer_buffer(const charl_layer_build *b, const char *suffix, const charl_param_spec *spec)
{
    return param_of(b, suffix, spec);
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
    const charl_layer_build inside = {.g = b->g, .set = b->set, .name = name, .settings = config, .lora = b->lora};
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

/* Where parts begin: at each composite layer, and every so many others, so that what enters them
 * and what a part holds are about as much. */
static bool begins_part(const charl_model *m, int i, int length)
{
    const bool block = m->layer[i].type->is_block;

    return i == 0 || block || m->layer[i - 1].type->is_block || (int64_t)length * length >= m->count;
}

/* Adapters that nothing has would train nothing. */
static charl_var *check_targets(const charl_model *m, charl_graph *g, const charl_params *set, charl_var *out)
{
    for (int i = 0; i < charl_params_get_count(set); i++) {
        if (charl__is_adapter(charl_param_get_spec(charl_params_get(set, i))->name)) {
            return out;
        }
    }
    return charl__graph_fail(g, CHARL_ERR_CONFIG, "lora.targets = %s: no linear layer has such a name",
                             m->lora.targets);
}

charl_var *charl_model_build(const charl_model *m, charl_graph *g, charl_params *set, charl_var *x)
{
    int length = 0; /* of the part */

    for (int i = 0; i < m->count && x; i++) {
        const charl__layer *l = &m->layer[i];
        const charl_layer_build b = {
            .g = g, .set = set, .name = l->name, .settings = l->settings, .lora = m->lora.rank > 0 ? &m->lora : NULL};

        if (begins_part(m, i, length)) {
            charl_graph_part_begin(g);
            length = 0;
        }
        length++;
        charl_graph_scope_begin(g, l->name);
        x = l->type->build(&b, x);
        charl_graph_scope_end(g);
    }
    charl_graph_part_end(g);
    return x && m->lora.rank > 0 ? check_targets(m, g, set, x) : x;
}
