#ifndef CHARL_NN_WEIGHTS_LAYOUT_H
#define CHARL_NN_WEIGHTS_LAYOUT_H
/** Layouts of weights: how other programs name the weights of a model, lay them out, and write its settings.
 *
 *  The rows are in layout_*.c, recognized by the tensors of a file. [init] from, [model] from, charl_params_load and `charl checkpoint export
 *  --layout huggingface` use them through the functions below.
 */
#include "charl/layer.h"

enum { CHARL__WEIGHTS_PARTS = 3 };

/** A weight of a model and where another program keeps it. In names # stands for the number of a block. */
typedef struct charl__weights_rule {
    /* Name in charl: "h.#.attn.c_attn.weight". */
    const char *own;
    /* Names in the file; several: parts whose rows are stacked. */
    const char *theirs[CHARL__WEIGHTS_PARTS];
    /* Rows of a part, of `all`; NULL: equal parts. */
    int64_t (*rows)(const void *settings, int64_t all, int part);
    bool transposed; /* a matrix is [in, out] in the file */
    bool first_rows; /* the file may have more rows; the first ones are taken */
    bool zeros;      /* a bias that is written as zeros for a model without it */
} charl__weights_rule;

/** A setting of config.json and the key of the model that has it. */
typedef struct charl__weights_setting {
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
} charl__weights_setting;

/** A layout of weights: how another program names the weights of a model, lays them out and writes its settings.
 *  Reading and writing follow from the row. */
typedef struct charl__weights_layout {
    charl_row row;                 /* without keys */
    const charl_model_type *model; /* whose weights these are */
    const char *prefix;            /* of names, which a file may leave out; NULL: none */
    /* A weight without a rule has the same name and layout in both. */
    const charl__weights_rule *rules;
    int n_rules;
    /* Patterns of tensors that are no weights, without the prefix; ends with NULL. NULL: none. */
    const char *const *ignored;
    /* A file has this layout if it has this tensor, named without the prefix, and its shape is right; NULL: any
     * shape. */
    const char *marker;
    bool (*recognizes)(const charl_shape *shape);
    /* model_type and architectures in config.json. NULL: there is no config.json. */
    const char *model_type, *architecture;
    const charl__weights_setting *settings;
    int n_settings;
} charl__weights_layout;

enum { CHARL__LAYOUT_NAME = 256 }; /* bytes of a name with its NUL */

/** Row i = 0, 1, ...; NULL past the last. */
const charl__weights_layout *charl__layout_at(int i);

/** The rule for charl's weight `name`, with the number of its block in *block (-1: none); NULL: there is none. */
const charl__weights_rule *charl__layout_rule(const charl__weights_layout *layout, const char *name, int64_t *block);

/** Write `pattern` into text[CHARL__LAYOUT_NAME] with # replaced by `block`. False: it does not fit. */
bool charl__layout_expand(const char *pattern, int64_t block, char *text);

/** Parts of a rule, at least 1. */
int charl__layout_parts(const charl__weights_rule *rule);

/** Shape in the file of part `part` of a weight that has `shape` in charl. Of a weight without rows, parts are equal. */
charl_shape charl__layout_part_shape(const charl__weights_rule *rule, const void *settings, const charl_shape *shape,
                                     int part);

/** `name` without the layout's prefix. */
const char *charl__layout_strip(const charl__weights_layout *layout, const char *name);

/** All of them, charl__layout_NAME in a file of this folder, and NULL. Made by CMake. The first one that recognizes a file is taken. */
extern const void *const charl__layouts[];

#endif
