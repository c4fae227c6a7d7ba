#ifndef CHARL_SUMMARY_H
#define CHARL_SUMMARY_H
/** Summary of a model, layer by layer: inputs, output shape, parameters and cost. Needs no device.
 *
 *      charl_summary *s;
 *
 *      if (charl_summary_create(config, NULL, &s) == CHARL_OK) {
 *          for (int i = 0; i < s->count; i++) { ... s->layer[i].name ... }
 *      }
 *      charl_summary_destroy(s);
 */
#include "charl/config.h"
#include "charl/nn.h"

CHARL_BEGIN_DECLS

typedef struct charl_layer_summary {
    const char *name;
    const char *type;
    const char *inputs[CHARL_MODEL_MAX_INPUTS]; /* names of layers, or CHARL_MODEL_INPUT */
    int n_inputs;
    charl_shape shape;  /* of its output for one sample */
    int64_t parameters; /* trainable; shared parameters count at their first use only */
    int64_t buffers;    /* such as running statistics */
    double flop;        /* of the matrix products of the forward pass, for one sample */
    int64_t bytes;      /* of all values of the forward pass for one sample, before fusion and reuse of memory */
} charl_layer_summary;

typedef struct charl_summary {
    charl_shape input; /* of one sample */
    charl_dtype dtype; /* of the input: f32, or i32 for tokens */
    int count;
    charl_layer_summary *layer;
    int64_t parameters, buffers;
    double flop;
    int64_t bytes;
    charl_model *model; /* owned; the names above belong to it */
} charl_summary;

/** A description of data, instead of a dataset. */
typedef struct charl_summary_input {
    charl_shape shape; /* of one sample */
    bool tokens;       /* the samples are tokens */
    int64_t outputs;   /* classes, values per target, or the vocabulary */
} charl_summary_input;

/** Summarize the model of a configuration for its data, of which only the shapes are read, or for `input` if it is not
 *  NULL. *out is owned: destroy it.
 *
 *  Blocks. Local.
 *  Errors: ERR_CONFIG  an invalid model, with file and line
 *          ERR_DATA    the data cannot be opened
 *          ERR_NOMEM */
charl_status charl_summary_create(const charl_config *config, const charl_summary_input *input,
                                  charl_summary **out) CHARL_MUST_CHECK;
/** NULL is a no-op. Local. */
void charl_summary_destroy(charl_summary *s);

CHARL_END_DECLS

#endif
