/* optimizer.groups, optimizer.decay_1d and the matrices that muon leaves to adamw. */
#include "config/model/config_groups.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text/text.h"
#include "config/config_private.h"
#include "nn/model.h"

/* The setting "KEY=VALUE" of a group; false, with a reason, if it is invalid. */
static bool read_setting(const char *word, charl__group *g, char *why, size_t bytes)
{
    const size_t n = strcspn(word, "=");
    double v;

    if (word[n] == '\0' || !charl__parse_float(word + n + 1, &v) || !charl__range_holds("[0,1e6]", v)) {
        snprintf(why, bytes, "\"%.100s\" is not KEY=VALUE with a number from 0 to 1e6", word);
    } else if (n == strlen("lr_scale") && strncmp(word, "lr_scale", n) == 0) {
        g->lr_scale = v;
    } else if (n == strlen("weight_decay") && strncmp(word, "weight_decay", n) == 0) {
        g->weight_decay = v;
    } else {
        snprintf(why, bytes, "\"%.100s\": a group sets lr_scale and weight_decay", word);
    }
    return why[0] == '\0';
}

/* Words up to the next comma. */
static const char *read_group(const char *p, charl__group *g, char *why, size_t bytes)
{
    bool first = true;

    *g = (charl__group){.lr_scale = -1.0, .weight_decay = -1.0};
    for (p += strspn(p, " \t\n"); *p && *p != ',' && why[0] == '\0'; p += strspn(p, " \t\n")) {
        const size_t n = strcspn(p, " \t\n,");
        char word[CHARL__GROUP_NAME];

        if (n >= sizeof word) {
            snprintf(why, bytes, "\"%.40s...\" is too long", p);
            break;
        }
        snprintf(word, sizeof word, "%.*s", (int)n, p);
        if (first) {
            memcpy(g->pattern, word, sizeof word);
        } else {
            read_setting(word, g, why, bytes);
        }
        first = false;
        p += n;
    }
    if (why[0] == '\0' && g->lr_scale < 0 && g->weight_decay < 0) {
        snprintf(why, bytes, "\"%.100s\" sets nothing: write PATTERN lr_scale=X weight_decay=Y", g->pattern);
    }
    return p + (*p == ',');
}

void charl__groups_parse(const char *text, charl__group *out, int *n, char *why, size_t bytes)
{
    *n = 0;
    why[0] = '\0';
    for (const char *p = text + strspn(text, " \t\n"); *p && why[0] == '\0';) {
        if (*n == CHARL__MAX_GROUPS) {
            snprintf(why, bytes, "more than %d groups", CHARL__MAX_GROUPS);
            break;
        }
        p = read_group(p, &out[(*n)++], why, bytes);
    }
}

/* Vectors decay as in PyTorch's optimizers, unless the model's row says otherwise. */
static bool vectors_decay(const charl_config *config)
{
    const charl_model_type *model = charl__model_type_find(config->model.type);

    return config->optimizer.decay_1d == CHARL__DECAY_1D_AUTO ? !(model && model->keeps_vectors)
                                                              : config->optimizer.decay_1d == CHARL__DECAY_1D_YES;
}

static void apply_defaults(const charl_config *config, charl_params *set, int64_t outputs)
{
    charl_param *last = NULL;

    for (int i = 0; i < charl_params_get_count(set); i++) {
        charl_param *p = charl_params_get(set, i);
        const charl_param_spec *spec = charl_param_get_spec(p);
        charl_param_settings s = charl_param_get_settings(p);

        if (spec->trainable && spec->shape.ndim < 2 && !vectors_decay(config)) {
            s.weight_decay = 0.0F;
        }
        s.muon_exclude = spec->embedding;
        charl_param_set_settings(p, s);
        last = spec->trainable && spec->shape.ndim > 1 ? p : last;
    }
    if (last && charl_param_get_spec(last)->shape.dim[0] == outputs) {
        charl_param_settings s = charl_param_get_settings(last);

        s.muon_exclude = true;
        charl_param_set_settings(last, s);
    }
}

/* The layer of the model that the parameter `name` belongs to; -1: none. */
static int layer_of(const charl_model *model, const char *name)
{
    int found = -1;
    size_t longest = 0;

    for (int i = 0; i < charl_model_get_count(model); i++) {
        const char *layer = charl_model_get_layer_name(model, i);
        const size_t n = strlen(layer);

        if (n > longest && strncmp(name, layer, n) == 0 && name[n] == '.') {
            found = i;
            longest = n;
        }
    }
    return found;
}

/* Level of every parameter of the set into level[], counted from the first layer; returns the number of levels. */
static int find_levels(const charl_model *model, const charl_params *set, int *level)
{
    const int count = charl_params_get_count(set);
    int n = 0, layer = -1;
    bool embedding = false;

    for (int i = 0; i < count; i++) {
        const charl_param_spec *spec = charl_param_get_spec(charl_params_get(set, i));
        const int own = layer_of(model, spec->name);

        if (spec->trainable && spec->shape.ndim > 1 && own != layer && !(embedding && spec->embedding)) {
            n++;
        }
        if (spec->trainable && spec->shape.ndim > 1) {
            layer = own;
            embedding = spec->embedding;
        }
        level[i] = n;
    }
    for (int i = count - 2; i >= 0; i--) { /* a layer's vectors may precede its matrix */
        const char *name = charl_param_get_spec(charl_params_get(set, i))->name;
        const char *next = charl_param_get_spec(charl_params_get(set, i + 1))->name;

        level[i] = layer_of(model, name) == layer_of(model, next) && level[i] > 0 ? level[i + 1] : level[i];
    }
    return n;
}

static charl_status apply_depth(const charl_config *config, const charl_model *model, charl_params *set)
{
    const int count = charl_params_get_count(set);
    CHARL_SCOPED_FREE int *level = NULL;
    int n;

    if (config->optimizer.layer_decay >= 1.0) {
        return CHARL_OK;
    }
    CHARL_TRY(charl__alloc_array(count + 1, sizeof *level, &level));
    n = find_levels(model, set, level);
    for (int i = 0; i < count; i++) {
        charl_param *p = charl_params_get(set, i);
        charl_param_settings s = charl_param_get_settings(p);

        s.lr_scale =
            (float)((double)s.lr_scale * pow(config->optimizer.layer_decay, n - (level[i] > 0 ? level[i] : 1)));
        charl_param_set_settings(p, s);
    }
    return CHARL_OK;
}

charl_status charl__groups_apply(const charl_config *config, const charl_model *model, charl_params *set,
                                 int64_t outputs)
{
    charl__group group[CHARL__MAX_GROUPS];
    char why[CHARL__WHY];
    int n;

    apply_defaults(config, set, outputs);
    charl__groups_parse(config->optimizer.groups, group, &n, why, sizeof why);
    CHARL_REQUIRE(why[0] == '\0', CHARL_ERR_CONFIG, "[optimizer] groups: %s", why);
    for (int k = 0; k < n; k++) {
        int matched = 0;

        for (int i = 0; i < charl_params_get_count(set); i++) {
            charl_param *p = charl_params_get(set, i);
            charl_param_settings s = charl_param_get_settings(p);

            if (charl_param_get_spec(p)->trainable &&
                charl__text_matches(group[k].pattern, charl_param_get_spec(p)->name)) {
                s.lr_scale = group[k].lr_scale >= 0 ? (float)group[k].lr_scale : s.lr_scale;
                s.weight_decay = group[k].weight_decay >= 0 ? (float)group[k].weight_decay : s.weight_decay;
                charl_param_set_settings(p, s);
                matched++;
            }
        }
        CHARL_REQUIRE(matched > 0, CHARL_ERR_CONFIG,
                      "[optimizer] groups: no parameter is called %s; HINT names are those of the "
                      "checkpoint, such as fc1.weight",
                      group[k].pattern);
    }
    CHARL_TRY(apply_depth(config, model, set));
    return CHARL_OK;
}
