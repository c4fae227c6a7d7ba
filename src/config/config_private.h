#ifndef CHARL_CONFIG_CONFIG_PRIVATE_H
#define CHARL_CONFIG_CONFIG_PRIVATE_H
/** The internal data of a charl_config besides its values, and the steps of loading one. Only for
 *  src/config/config*.c. */
#include "base/text/text.h"
#include "config/keys.h"
#include "config/layers.h"
#include "io/dataset/fields.h"
#include "nn/loss.h"

enum { CHARL__CONFIG_SOURCE = 1 << 20 }; /* largest file, bytes */

/* Where a value comes from: the default (label NULL), a line of the file, or the command line (line
 * 0). */
typedef struct charl__origin {
    const char *label;
    int line;
} charl__origin;

/** "FILE:LINE", or a substitute for it. Borrowed until the next call on this thread. */
const char *charl__origin_text(charl__origin origin);

typedef struct charl__layer_key {
    char *key;
    char *value;
    charl__origin origin;
} charl__layer_key;

/* A section of layers as written: "layer NAME", "block NAME", "block NAME.LAYER" or "output NAME". */
typedef struct charl__section {
    char *header;
    charl__origin origin;
    charl__layer_key *keys;
    int n_keys;
    bool used; /* a layer of the model is built from it */
} charl__section;

/* A layer of the model, with blocks and repetitions expanded (config_graph.c). */
struct charl__config_layer {
    const char *header; /* of its section */
    char *name, *type;
    char *inputs[8]; /* names of the layers that it reads, or "input" */
    int n_inputs;
    charl__origin origin;
    charl__layer_key *keys; /* without type, input and repeat */
    int n_keys;
};

/* An output of the model, as its section says. */
typedef struct charl__config_output {
    const char *name;
    const char *layer; /* "": the last one */
    char target[CHARL__FIELD_NAME];
    const charl__loss *loss; /* NULL: auto */
    double weight;
    charl__origin origin;
    _Alignas(8) unsigned char settings[288]; /* of the loss */
} charl__config_output;

typedef struct charl__config_strings {
    char **items;
    int count;
} charl__config_strings;

struct charl__config_detail {
    char *source;
    size_t source_length;
    charl__config_strings strings; /* everything that the public struct points to */
    charl__config_strings notices;
    charl__origin *origins;   /* [of the table] */
    const char **words;       /* [of the table] of keys that hold a choice; else NULL */
    charl__section *sections; /* of layers and blocks, in the order of the file */
    int n_sections;
    charl__config_layer *layers;
    int n_layers;
    charl__config_output outputs[CHARL_MODEL_MAX_OUTPUTS];
    int n_outputs; /* 0: the output is that of the last layer, and has no name */
};

/** A mistake or a notice: location and text. */
typedef struct charl__mistake {
    charl__origin origin;
    const char *section; /* of the key table, "layer", or NULL: in no known section */
    int order;
    char *text;
} charl__mistake;

typedef struct charl__mistakes {
    charl__mistake *items;
    int count;
} charl__mistakes;

/** Note the words of the choices that `cfg` has, for charl_config_get_text. */
charl_status charl__config_keep_words(charl_config *cfg) CHARL_MUST_CHECK;

/** Keep a copy of `text`; *out is borrowed from the list. */
charl_status charl__config_keep(charl__config_strings *list, const char *text, const char **out) CHARL_MUST_CHECK;
void charl__config_strings_fini(charl__config_strings *list);

/** Note "[section] key: reason". section NULL: only the reason; key NULL: without it. */
charl_status charl__mistake_add(charl__mistakes *list, charl__origin origin, const char *section, const char *key,
                                const char *reason) CHARL_MUST_CHECK;
/** The same for a complete text, which is copied. A text that is already in the list is not added again: the layers of a block
 *  that is used twice have the same mistake twice. */
charl_status charl__mistake_add_text(charl__mistakes *list, charl__origin origin, const char *section,
                                     const char *text) CHARL_MUST_CHECK;
/** Whether one of the first n mistakes is in `section`, NULL: in no known section. Its consequences
 *  need not be reported. */
bool charl__mistakes_in(const charl__mistakes *list, int n, const char *section);
/** OK if there are none, else ERR_CONFIG with one line per mistake in the order of the lines, as many as fit into a
 *  message. */
charl_status charl__mistakes_report(charl__mistakes *list) CHARL_MUST_CHECK;
void charl__mistakes_fini(charl__mistakes *list);

enum { CHARL__WHY = CHARL_REASON_BYTES };

/** Maximum number of copies that `repeat` can make. */
#define CHARL__REPEAT_RANGE "[1,1000]"

/** Set a key's field from text. Strings go to `strings`. For an invalid text the reason is
 *  in why[CHARL__WHY], which is "" otherwise. Errors: ERR_NOMEM. */
charl_status charl__config_value_set(const charl__key *key, const char *text, charl__config_strings *strings,
                                     void *field, char *why) CHARL_MUST_CHECK;

/** The kind of a key's values, "integer"; "" if its choices say it all. */
const char *charl__key_type_text(const charl__key *key);
/** Append the default as text; *required: there is none. Errors: ERR_NOMEM. */
charl_status charl__key_default_print(const charl__key *key, charl__text *t, bool *required) CHARL_MUST_CHECK;
/** The same for a key of layers; `defaults` holds their settings. */
const char *charl__layer_key_type_text(const charl_key *k);
charl_status charl__layer_key_default_print(const charl_key *k, const void *defaults, charl__text *t) CHARL_MUST_CHECK;

/** Append the field's value as text that sets the same value. */
charl_status charl__config_value_print(const charl__key *key, const void *field, charl__text *out) CHARL_MUST_CHECK;

/** Append `value` as it must stand in a file: quoted where needed, '$' doubled where it would
 *  expand. */
charl_status charl__config_quote(const char *value, charl__text *out) CHARL_MUST_CHECK;

/** Append the shortest text that reads back as v. */
charl_status charl__config_print_float(double v, charl__text *out) CHARL_MUST_CHECK;
charl_status charl__config_print_floats(const charl_float_list *v, charl__text *out) CHARL_MUST_CHECK; /* "A, B" */

/** data.augment from text, with the reason in why[CHARL__WHY] if it is invalid; and back. */
void charl__config_augment_set(const char *text, charl__augment *field, char *why);
charl_status charl__config_augment_print(const charl__augment *v, charl__text *out) CHARL_MUST_CHECK;

/** data.mix from text, with paths relative to `directory` and the reason in why[CHARL__WHY] if it is invalid; and back, with paths relative to
 *  `here` made absolute. "" leaves paths unchanged. */
charl_status charl__config_mix_set(const char *text, const char *directory, charl__config_strings *strings,
                                   charl__mix *field, char *why) CHARL_MUST_CHECK;
charl_status charl__config_mix_print(const charl__mix *mix, const char *here, charl__text *out) CHARL_MUST_CHECK;

/** "${NAME}" replaced in `text`: ${name} by `name` (NULL: not allowed here), others from the
 *  environment; "$$" is "$". *out is the caller's. A variable that is not set leaves a reason in
 *  why. Errors: ERR_NOMEM. */
charl_status charl__config_expand(const char *text, const char *name, char **out, char *why) CHARL_MUST_CHECK;

/** `path` relative to `directory` ("" is the current one), without "a/../" where a is a folder; "~/" from HOME. *out is owned by the caller. Errors:
 *  ERR_NOMEM. */
charl_status charl__config_path(const char *directory, const char *path, char **out) CHARL_MUST_CHECK;

/** Append the layer types with their keys and defaults, as the help text of [layer NAME]. */
charl_status charl__layer_help(charl__text *t) CHARL_MUST_CHECK;

/** The keys of [output NAME] besides those of its loss; weight, the last, has the default 1. And all as help text. */
enum { CHARL__OUTPUT_KEYS = 4 };
extern const charl_key charl__output_keys[CHARL__OUTPUT_KEYS];
charl_status charl__output_help(charl__text *t) CHARL_MUST_CHECK;
/** The layer with the output of the layer or block `name`; NULL if there is none, then *near may become a name that is meant. */
typedef const char *(*charl__find_layer)(void *layers, const char *name, const char **near);
/** Read [output NAME], after the layers. Adds mistakes. Errors: ERR_NOMEM. */
charl_status charl__config_read_outputs(charl_config *cfg, charl__mistakes *mistakes, charl__find_layer find,
                                        void *layers) CHARL_MUST_CHECK;

/** Create cfg's layers and outputs from its sections. Adds mistakes. Errors: ERR_NOMEM. */
charl_status charl__config_expand_layers(charl_config *cfg, charl__mistakes *mistakes) CHARL_MUST_CHECK;

/** Check combinations of keys. Adds mistakes and notices. */
charl_status charl__config_check(charl_config *cfg, charl__mistakes *mistakes) CHARL_MUST_CHECK;
/** Whether checkpoint.monitor names an output if there are some; after reading them. Adds mistakes. */
charl_status charl__config_check_monitor(const charl_config *cfg, charl__mistakes *mistakes) CHARL_MUST_CHECK;
/** Those checks that depend on the loss, once one has been selected for auto. Adds mistakes, and lines to `notes`. */
charl_status charl__config_check_loss(const charl_config *cfg, charl__mistakes *mistakes,
                                      charl__text *notes) CHARL_MUST_CHECK;

#endif
