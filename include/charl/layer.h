#ifndef CHARL_LAYER_H
#define CHARL_LAYER_H
/** Custom layers and models, which configurations can then use like the built-in ones.
 *
 *  A layer is a row with a function that appends it to a graph:
 *
 *      typedef struct scale_settings { double start; } scale_settings;
 *
 *      static charl_var *build(const charl_layer_build *b, charl_var *x)
 *      {
 *          const scale_settings *s = b->settings;
 *          const charl_param_spec spec = {.shape = {1, {1}}, .init = {CHARL_INIT_CONSTANT, (float)s->start, 0}};
 *
 *          return charl_mul(b->g, x, charl_layer_param(b, "scale", &spec));
 *      }
 *
 *  The parameter is called LAYER.scale in checkpoints. A model is a row with a function that appends layers to a model.
 *
 *  Register types at the start of a program, before a configuration is read and before other threads build models. Rows
 *  are borrowed for the life of the process.
 */
#include "charl/key.h"
#include "charl/nn.h"

CHARL_BEGIN_DECLS

/** A layer while its model is appended to a graph. */
typedef struct charl_layer_build {
    charl_graph *g;
    charl_params *set;
    const char *name; /* of the layer */
    const void *settings;
    const charl_lora *lora; /* the model's adapters; NULL: none */
    charl_var *const *in;   /* [n_in] the inputs of the layer, the first is x */
    int n_in;
    const struct charl_layer_type *type;
} charl_layer_build;

enum { CHARL_LAYER_MAX_SETTINGS = 512, CHARL_LAYER_MAX_INPUTS = CHARL_MODEL_MAX_INPUTS };

typedef struct charl_layer_type {
    charl_row row;
    /* composite: activations inside may be recomputed for the backward pass as a unit (train.recompute) */
    bool is_block;
    /** 0: the layer has one input, x. Otherwise it has from 2 to max_inputs inputs, at most CHARL_LAYER_MAX_INPUTS. */
    int max_inputs;
    /** with max_inputs: one input is enough */
    bool one_input;
    /** Append the layer to b->g over x, which is BATCHED; return its output, NULL after an error of the graph. Called
     *  for the training and for the evaluation graph. */
    charl_var *(*build)(const charl_layer_build *b, charl_var *x);
    /** For types that share `build`, which finds it at b->type->variant: what distinguishes them. */
    const void *variant;
} charl_layer_type;

/** Parameter NAME.suffix: declared as trainable at the first build, found at later ones, where it must have the same
 *  shape. Borrowed from the graph; NULL after an error, which charl_graph_compile returns. Local. */
charl_var *charl_layer_param(const charl_layer_build *b, const char *suffix, const charl_param_spec *spec);

/** As above, for a buffer that is not trained, such as running statistics. Local. */
charl_var *charl_layer_buffer(const charl_layer_build *b, const char *suffix, const charl_param_spec *spec);

/** Register a layer type for charl_model_add and for `type` of [layer NAME] sections. Its settings have at most
 *  CHARL_LAYER_MAX_SETTINGS bytes; keys are not SIZE, and are not named type, input or repeat. Blocks. Local. Errors:
 *  ERR_INVALID  the name is taken, the description is malformed, or a configuration has been read */
charl_status charl_register_layer(const charl_layer_type *type) CHARL_MUST_CHECK;

/** Name of layer type i = 0, 1, ...; NULL after the last. Static storage. Local. */
const char *charl_layer_type_name(int i);

/** The kind of a model's input. */
typedef enum charl_model_input {
    CHARL_MODEL_READS_NUMBERS, /* images, tables */
    CHARL_MODEL_READS_TOKENS,
    CHARL_MODEL_READS_ANY /* its layers decide */
} charl_model_input;

typedef struct charl_model_type {
    charl_row row; /* keys are not PAIR or LAYER */
    charl_model_input input;
    /** Append the layers. The last one has `outputs` outputs: classes, tokens or values per target. NULL: the layers
     *  are those of the configuration. */
    charl_status (*add)(charl_model *m, const void *settings, int64_t outputs);
    /** Tokens: predictions per sample. NULL: data.window decides. */
    int64_t (*window)(const void *settings);
    /** Tokens: number of outputs for a vocabulary of `tokens`, at least as many. NULL: as many. */
    int64_t (*vocab)(const void *settings, int64_t tokens);
    /** Replace settings that are auto by their values for a model of `outputs` outputs. NULL: no setting is auto. */
    void (*resolve)(void *settings, int64_t outputs);
    /** Tokens: takes sequences of any length up to its window, and generates text with a cache of the keys and values
     *  of its attention. */
    bool has_kv_cache;
    /** If optimizer.decay_1d is auto, vectors (biases and weights of norms) have no weight decay. */
    bool keeps_vectors;
} charl_model_type;

/** Register a model type for model.type. Blocks. Local. Errors: ERR_INVALID  the name is taken, the description is
 *  malformed, or a configuration has been read */
charl_status charl_register_model(const charl_model_type *type) CHARL_MUST_CHECK;

/** Name of model type i = 0, 1, ...; NULL after the last. Static storage. Local. */
const char *charl_model_type_name(int i);

CHARL_END_DECLS

#endif
