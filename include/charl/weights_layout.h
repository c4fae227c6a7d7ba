#ifndef CHARL_WEIGHTS_LAYOUT_H
#define CHARL_WEIGHTS_LAYOUT_H
/** Layouts of weights: how other programs name the weights of a model, lay them out, and write its settings.
 *
 *  Layouts are rows, recognized by the tensors of a file; [init] from, [model] from, charl_params_load and charl
 *  checkpoint export --layout huggingface go by them:
 *
 *      static const charl_weights_rule rules[] = {
 *          {"embed.weight", {"encoder.embeddings.weight"}},
 *          {"block.#.in.weight", {"encoder.layers.#.gate.weight", "encoder.layers.#.up.weight"}},
 *      };
 *      static const charl_weights_layout layout = {
 *          .row = {.name = "mine", .help = "..."}, .model = &my_model, .prefix = "encoder.", .rules = rules,
 *          .n_rules = 2, .marker = "embeddings.weight"};
 *
 *      charl_register_weights_layout(&layout);
 */
#include "charl/layer.h"

CHARL_BEGIN_DECLS

enum { CHARL_WEIGHTS_PARTS = 3 };

/** A weight of a model and where another program keeps it. In names # stands for the number of a block. */
typedef struct charl_weights_rule {
    /* Name in charl: "h.#.attn.c_attn.weight". */
    const char *own;
    /* Names in the file; several: parts whose rows are stacked. */
    const char *theirs[CHARL_WEIGHTS_PARTS];
    /* Rows of a part, of `all`; NULL: equal parts. */
    int64_t (*rows)(const void *settings, int64_t all, int part);
    bool transposed; /* a matrix is [in, out] in the file */
    bool first_rows; /* the file may have more rows; the first ones are taken */
    bool zeros;      /* a bias that is written as zeros for a model without it */
} charl_weights_rule;

/** A setting of config.json and the key of the model that has it. */
typedef struct charl_weights_setting {
    /* "rope_theta|rope_parameters.rope_theta": the first that exists is read, members of objects before others; the
     * first is written. NULL: not in the file, the value is always `absent`. */
    const char *theirs;
    /* Key of the model. NULL: the model has no such key, and only `values` can be read. */
    const char *own;
    /* The values that can be read, "THEIRS=OWN|...", or "a|b" where both are the same; booleans are yes and no. NULL:
     * any. Of a setting that is not in the file: other values of the model that can be written too. */
    const char *values;
    /* Value of the key where the file has none or null. NULL: the file must have it. */
    const char *absent;
} charl_weights_setting;

/** A layout of weights: how another program names the weights of a model, lays them out and writes its settings.
 *  Reading and writing follow from the row. */
typedef struct charl_weights_layout {
    charl_row row;                 /* without keys */
    const charl_model_type *model; /* whose weights these are */
    const char *prefix;            /* of names, which a file may leave out; NULL: none */
    /* A weight without a rule has the same name and layout in both. */
    const charl_weights_rule *rules;
    int n_rules;
    /* Patterns of tensors that are no weights, without the prefix; ends with NULL. NULL: none. */
    const char *const *ignored;
    /* A file has this layout if it has this tensor, named without the prefix, and its shape is right; NULL: any
     * shape. */
    const char *marker;
    bool (*recognizes)(const charl_shape *shape);
    /* model_type and architectures in config.json. NULL: there is no config.json. */
    const char *model_type, *architecture;
    const charl_weights_setting *settings;
    int n_settings;
} charl_weights_layout;

/** Make a layout known. Blocks. Local. Errors: ERR_INVALID  the name is taken, the description is malformed, a
 *  configuration has been read */
charl_status charl_register_weights_layout(const charl_weights_layout *layout) CHARL_MUST_CHECK;

/** Name of layout i = 0, 1, ...; NULL after the last. Static storage. Local. */
const char *charl_weights_layout_name(int i);

CHARL_END_DECLS

#endif
