#ifndef CHARL_NN_WEIGHTS_LAYOUT_H
#define CHARL_NN_WEIGHTS_LAYOUT_H
/** Layouts of weights: how other programs name a model's weights, store them, and write its settings.
 *
 *  The rows are in layout_*.c, recognized by the tensors of a file. [init] from, [model] from, charl_params_load and `charl checkpoint export
 *  --layout huggingface` use them through the functions below.
 */
#include <string.h>

#include "charl/layer.h"

enum { CHARL__WEIGHTS_PARTS = 3 };

/** A weight of a model and its place in another program's file. In names # means the number of a block. */
typedef struct charl__weights_rule {
    /* Name in charl: "h.#.attn.c_attn.weight". */
    const char *own;
    /* Names in the file; several: parts whose rows are stacked. */
    const char *theirs[CHARL__WEIGHTS_PARTS];
    /* Rows of a part, out of `all`; NULL: equal parts. */
    int64_t (*rows)(const void *settings, int64_t all, int part);
    /* The row of the stacked parts that is row r, out of `all`, in charl; NULL: r. Not with `transposed`. */
    int64_t (*row)(const void *settings, int64_t all, int64_t r);
    bool transposed;   /* a matrix is [in, out] in the file */
    bool first_rows;   /* the file may have more rows; the first ones are used */
    bool zeros;        /* a bias that is written as zeros for a model without it */
    int before, after; /* extents of 1 in the file, in front of those in charl and behind them */
} charl__weights_rule;

/** A setting of config.json and the corresponding key of the model. Keys without a row have their defaults. Several rows for one setting of the
 *  file: the keys have the same value. */
typedef struct charl__weights_setting {
    /* "rope_theta|rope_parameters.rope_theta": the first that exists is read, members of objects before others; the
     * first is written. NULL: not in the file, the value is always `absent`. */
    const char *theirs;
    /* Key of the model. NULL: the model has no such key, and only `values` can be read. */
    const char *own;
    /* The values that can be read, "THEIRS=OWN|...", or "a|b" if both are the same; booleans are yes and no. NULL:
     * any. For a setting that is not in the file: other values of the model that can be written too. */
    const char *values;
    /* Value of the key if the file has none or null. NULL: the file must have it; without `theirs`: any, it makes no difference. */
    const char *absent;
    /* The value of the key that is null in the file, for a file in which null and no value differ. NULL: they do not. */
    const char *null;
    /* "USUAL|OTHER": the file has a list with a value for each block, OTHER for every Nth one and USUAL for the others, or N; the key is N, 0 if no block
     * has OTHER. The list is written. */
    const char *every;
    /* A member of an object that is read and written if the first one has one of these values, "a|b", in the model. NULL: always. */
    const char *only;
} charl__weights_setting;

/** A layout of weights: how another program names a model's weights, stores them and writes its settings.
 *  Reading and writing follow from the row. */
typedef struct charl__weights_layout {
    charl_row row;                 /* without keys */
    const charl_model_type *model; /* whose weights these are */
    const char *family;            /* value of the model's key `family`; NULL: the row's name */
    const char *prefix;            /* of names, which a file may omit; NULL: none */
    /* A weight without a rule has the same name and layout in both. */
    const charl__weights_rule *rules;
    int n_rules;
    /* Patterns of tensors that are not weights, without the prefix; ends with NULL. NULL: none. */
    const char *const *ignored;
    /* A file has this layout if it has this tensor, named without the prefix, with a valid shape; NULL: any
     * shape. */
    const char *marker;
    bool (*recognizes)(const charl_shape *shape);
    /* model_type and architectures in config.json. NULL: there is no config.json, and a file of safetensors is exported in this layout. */
    const char *model_type, *architecture;
    const charl__weights_setting *settings;
    int n_settings;
    bool norms_less_one; /* weights of norms are 1 less in the file, as in Gemma */
} charl__weights_layout;

/** Settings that many rows have: sizes, and rotary positions with a base of angles called `theta`. */
/* clang-format off */
#define CHARL__LAYOUT_SIZES \
    {.theirs = "num_hidden_layers", .own = "n_layer"}, {.theirs = "num_attention_heads", .own = "n_head"}, \
    {.theirs = "hidden_size", .own = "n_embd"}, {.theirs = "intermediate_size", .own = "hidden"}, \
    {.theirs = "max_position_embeddings", .own = "block_size"}, {.theirs = "vocab_size", .own = "vocab_size"}, \
    {.theirs = "is_causal", .values = "yes", .absent = "yes"}
#define CHARL__LAYOUT_ROPE(theta, absence) CHARL__LAYOUT_ROPE_IN("rope_parameters.", theta, absence)
#define CHARL__LAYOUT_ROPE_IN(object, theta, absence) \
    {.own = "positions", .absent = "rotary"}, \
    {.theirs = theta "|rope_scaling.rope_theta|" object "rope_theta", .own = "rope_theta", .absent = absence}, \
    {.theirs = "rope_scaling.rope_type|rope_scaling.type|" object "rope_type|" object "type", .own = "rope_scaling", \
     .values = "default=none|llama3|linear|yarn|dynamic", .absent = "none"}, \
    {.theirs = "rope_scaling.factor|" object "factor", .own = "rope_factor", .only = "llama3|linear|yarn|dynamic"}, \
    {.theirs = "rope_scaling.low_freq_factor|" object "low_freq_factor", .own = "rope_low", .absent = "1", .only = "llama3"}, \
    {.theirs = "rope_scaling.high_freq_factor|" object "high_freq_factor", .own = "rope_high", .absent = "4", .only = "llama3"}, \
    {.theirs = "rope_scaling.beta_slow|" object "beta_slow", .own = "rope_low", .absent = "1", .only = "yarn"}, \
    {.theirs = "rope_scaling.beta_fast|" object "beta_fast", .own = "rope_high", .absent = "32", .only = "yarn"}, \
    {.theirs = "rope_scaling.attention_factor|" object "attention_factor", .own = "rope_magnitude", .absent = "0", .null = "0.0", \
     .only = "yarn"}, \
    {.theirs = "rope_scaling.mscale|" object "mscale", .values = "null", .absent = "null", .null = "null", .only = "yarn"}, \
    {.theirs = "rope_scaling.mscale_all_dim|" object "mscale_all_dim", .values = "null", .absent = "null", .null = "null", \
     .only = "yarn"}, \
    {.theirs = "rope_scaling.truncate|" object "truncate", .values = "yes", .absent = "yes", .only = "yarn"}, \
    {.theirs = "rope_scaling.original_max_position_embeddings|" object "original_max_position_embeddings|max_position_embeddings", \
     .own = "rope_original", .only = "llama3|yarn|dynamic"}
/* clang-format on */

/** The element in a head of `width` elements of another program that is element i in charl, where only the first `rotated` are rotated. */
int64_t charl__layout_rotated(int64_t i, int64_t width, int64_t rotated);

enum { CHARL__LAYOUT_NAME = 256 }; /* bytes of a name with its NUL */

/** Bytes of "object." in front of a setting's name; 0: it is a member of config.json itself. */
static inline size_t charl__layout_object(const charl__weights_setting *s)
{
    const char *dot = s->theirs ? memchr(s->theirs, '.', strcspn(s->theirs, "|")) : NULL;

    return dot ? (size_t)(dot + 1 - s->theirs) : 0;
}

/** Row i = 0, 1, ...; NULL past the last. */
const charl__weights_layout *charl__layout_at(int i);

/** The key `name` of a model; NULL: it has none. */
static inline const charl_key *charl__layout_key(const charl_model_type *type, const char *name)
{
    for (int i = 0; i < type->row.n_keys; i++) {
        if (strcmp(type->row.keys[i].name, name) == 0) {
            return &type->row.keys[i];
        }
    }
    return NULL;
}

/** The layout that a model's key `family` names; NULL: none, or auto. */
const charl__weights_layout *charl__layout_chosen(const charl_model_type *type, const void *settings);

/** The rule for charl's weight `name`, with the number of its block in *block (-1: none); NULL: there is none. */
const charl__weights_rule *charl__layout_rule(const charl__weights_layout *layout, const char *name, int64_t *block);

/** Write `pattern` into text[CHARL__LAYOUT_NAME] with # replaced by `block`. False: it does not fit. */
bool charl__layout_expand(const char *pattern, int64_t block, char *text);

/** Number of parts of a rule, at least 1. */
static inline int charl__layout_parts(const charl__weights_rule *rule)
{
    int n = 1;

    while (n < CHARL__WEIGHTS_PARTS && rule->theirs[n]) {
        n++;
    }
    return n;
}

/** Shape in the file of part `part` of a weight with shape `shape` in charl. If the rule has no rows, parts are equal. */
charl_shape charl__layout_part_shape(const charl__weights_rule *rule, const void *settings, const charl_shape *shape,
                                     int part);

/** Rows of a weight, or of an adapter's lora_B, from the file's order to charl's, or back if `write`: src and dst are [all, columns].
 *  The rule has `row`. */
static inline void charl__layout_order(const charl__weights_rule *rule, const void *settings, int64_t all,
                                       int64_t columns, const float *src, bool write, float *dst)
{
    for (int64_t r = 0; r < all; r++) {
        const int64_t theirs = rule->row(settings, all, r);

        memcpy(dst + (write ? theirs : r) * columns, src + (write ? r : theirs) * columns,
               (size_t)columns * sizeof *dst);
    }
}

/** Whether this weight, of so many dimensions, is that of a norm and 1 less in the file. */
static inline bool charl__layout_less_one(const charl__weights_layout *layout, const charl__weights_rule *rule,
                                          int ndim)
{
    return layout->norms_less_one && rule && ndim == 1 && strstr(rule->theirs[0], "norm.weight");
}

/** `name` without the layout's prefix. */
const char *charl__layout_strip(const charl__weights_layout *layout, const char *name);

/** All of them, charl__layout_NAME in a file of this folder, and NULL. Generated by CMake. The first one that recognizes a file is used. */
extern const void *const charl__layouts[];

#endif
