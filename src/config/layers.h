#ifndef CHARL_CONFIG_LAYERS_H
#define CHARL_CONFIG_LAYERS_H
/** Layers of a sequential model, each after the layers that it reads. A [layer NAME] section describes one layer or, with `repeat` or a block,
 *  several, named NAME.0 or NAME.LAYER. */
#include "charl/config.h"

typedef struct charl__config_layer charl__config_layer;

/** Reads one layer's keys with the functions below; may store the result through `user`. */
typedef charl_status (*charl__config_layer_reader)(const charl__config_layer *layer, void *user);

/** Call `read` for every layer. If `read` rejects a layer with ERR_CONFIG, the others are still
 *  read; afterwards every key that is not one of the layer's type is a mistake too, reported with the closest one that is.
 *  Thread-safe.
 *
 *  Blocks. Local.
 *  Errors: ERR_CONFIG  one line per mistake
 *          others      errors of `read` */
charl_status charl__config_read_layers(const charl_config *cfg, charl__config_layer_reader read,
                                       void *user) CHARL_MUST_CHECK;

/** Number of layers. Local. */
int charl__config_layer_count(const charl_config *cfg);

/** Name, the tensor prefix. Borrowed from the configuration. Local. */
const char *charl__config_layer_name(const charl__config_layer *layer);

/** The value of `type`. Borrowed from the configuration. Local. */
const char *charl__config_layer_type(const charl__config_layer *layer);

/** The layers that it reads, by name; CHARL_MODEL_INPUT for the model's input. Returns their number, at least 1.
 *  Borrowed from the configuration. Local. */
int charl__config_layer_inputs(const charl__config_layer *layer, const char *const **names);

/** Whether the key is given. Local. */
bool charl__config_layer_has(const charl__config_layer *layer, const char *key);

/** Set the field of `key` in a settings struct from the layer's text, as charl_key_parse does; if the key is not given,
 *  the field does not change. Texts, activations and names of layers are borrowed from the configuration.
 *
 *  Blocks. Local.
 *  Errors: ERR_CONFIG  "FILE:LINE: [layer NAME] key: reason"; a required key is missing */
charl_status charl__config_layer_read(const charl__config_layer *layer, const charl_key *key,
                                      void *settings) CHARL_MUST_CHECK;

/** A mistake of the layer as a whole, or of one key (NULL: the whole): sets the message with file
 *  and line.
 *
 *  Blocks. Local.
 *  Errors: ERR_CONFIG  always */
charl_status charl__config_layer_refuse(const charl__config_layer *layer, const char *key,
                                        const char *reason) CHARL_MUST_CHECK;
#endif
