/* The registries of layers and models. */
#include "base/registry/registry.h"

#include <string.h>

#include "base/error.h"
#include "nn/layer.h"
#include "nn/model.h"

static charl__registry layers = {.what = "layer", .built_in = charl__layers};
static charl__registry models = {.what = "model", .built_in = charl__models};

const charl_layer_type *charl__layer_type_at(int i)
{
    return charl__registry_at(&layers, i);
}

const charl_layer_type *charl__layer_type_find(const char *name)
{
    return charl__registry_find(&layers, name);
}

const char *charl_layer_type_name(int i)
{
    const charl_layer_type *t = charl__layer_type_at(i);

    return t ? t->row.name : NULL;
}

charl_status charl_register_layer(const charl_layer_type *type)
{
    CHARL_GIVEN(type);
    const char *name = type->row.name ? type->row.name : "";

    CHARL_REQUIRE(type->build, CHARL_ERR_INVALID, "layer %s has no function that builds it", name);
    CHARL_REQUIRE(type->max_inputs != 1 && type->max_inputs >= 0 && type->max_inputs <= CHARL_LAYER_MAX_INPUTS,
                  CHARL_ERR_INVALID, "layer %s: max_inputs is %d; it can be 0, or 2 to %d", name, type->max_inputs,
                  CHARL_LAYER_MAX_INPUTS);
    CHARL_REQUIRE(type->row.settings_size <= CHARL_LAYER_MAX_SETTINGS, CHARL_ERR_INVALID,
                  "layer %s has settings of %zu bytes; it can have %d", name, type->row.settings_size,
                  CHARL_LAYER_MAX_SETTINGS);
    for (int i = 0; i < type->row.n_keys; i++) {
        const char *key = type->row.keys[i].name;

        CHARL_REQUIRE(type->row.keys[i].kind != CHARL_KEY_SIZE && type->row.keys[i].kind != CHARL_KEY_STEPS,
                      CHARL_ERR_INVALID, "layer %s: keys of layers are neither SIZE nor STEPS", name);
        CHARL_REQUIRE(!key || (strcmp(key, "input") != 0 && strcmp(key, "repeat") != 0), CHARL_ERR_INVALID,
                      "layer %s: a key cannot be named %s, as every layer has one", name, key);
    }
    return charl__registry_add(&layers, &type->row);
}

const charl_model_type *charl__model_type_at(int i)
{
    return charl__registry_at(&models, i);
}

const charl_model_type *charl__model_type_find(const char *name)
{
    return charl__registry_find(&models, name);
}

const char *charl_model_type_name(int i)
{
    const charl_model_type *t = charl__model_type_at(i);

    return t ? t->row.name : NULL;
}

charl_status charl_register_model(const charl_model_type *type)
{
    CHARL_GIVEN(type);
    const char *name = type->row.name ? type->row.name : "";

    CHARL_REQUIRE(type->add, CHARL_ERR_INVALID, "model %s has no function that adds its layers", name);
    for (int i = 0; i < type->row.n_keys; i++) {
        const charl_key_kind kind = type->row.keys[i].kind;

        CHARL_REQUIRE(kind != CHARL_KEY_PAIR && kind != CHARL_KEY_TRIPLE && kind != CHARL_KEY_LAYER, CHARL_ERR_INVALID,
                      "model %s: keys of models are not PAIR, TRIPLE or LAYER", name);
    }
    return charl__registry_add(&models, &type->row);
}
