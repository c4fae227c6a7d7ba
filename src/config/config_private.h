#ifndef CHARL_CONFIG_CONFIG_PRIVATE_H
#define CHARL_CONFIG_CONFIG_PRIVATE_H
/** What a charl_config keeps besides the values, and the steps of loading one. Only
 *  src/config/config*.c. */
#include "base/text/text.h"
#include "config/keys.h"
#include "config/layers.h"

enum { CHARL__CONFIG_SOURCE = 1 << 20 }; /* largest file, bytes */

/* Where a value comes from: the default (label NULL), a line of the file, or the command line (line
 * 0). */
typedef struct charl__origin {
    const char *label;
    int line;
} charl__origin;

/** "FILE:LINE", or what stands for the place. Borrowed until the next call on this thread. */
const char *charl__origin_text(charl__origin origin);

typedef struct charl__layer_key {
    char *key;
    char *value;
    charl__origin origin;
    bool asked;
} charl__layer_key;

/* A section of layers as it is written: "layer NAME", "block NAME" or "block NAME.LAYER". */
typedef struct charl__section {
    char *header;
    charl__origin origin;
    charl__layer_key *keys;
    int n_keys;
    bool used; /* a layer of the model is made of it */
} charl__section;

/* A layer of the model, blocks and repetitions written out (config_graph.c). */
struct charl__config_layer {
    const char *header; /* of the section that describes it */
    char *name, *type;
    char *inputs[8]; /* names of the layers that it reads, or "input" */
    int n_inputs;
    charl__origin origin;
    charl__layer_key *keys; /* without type, input and repeat */
    int n_keys;
    charl__text asked; /* names a reader asked for, each with a NUL */
};

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
};

/** A mistake or a notice: where and what. */
typedef struct charl__mistake {
    charl__origin origin;
    const char *section; /* of the keys' table, "layer", or NULL: in none that is known */
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
/** The same for a text that says everything, which is copied. A text that is in the list already is not added again: the layers of a block
 *  that is used twice make the same mistake twice. */
charl_status charl__mistake_add_text(charl__mistakes *list, charl__origin origin, const char *section,
                                     const char *text) CHARL_MUST_CHECK;
/** Whether one of the first n mistakes is in `section`, NULL: in none that is known. What follows
 *  from it need not be said. */
bool charl__mistakes_in(const charl__mistakes *list, int n, const char *section);
/** OK for none, else ERR_CONFIG with one line per mistake in the order of the lines, as many as a
 *  message holds. */
charl_status charl__mistakes_report(charl__mistakes *list) CHARL_MUST_CHECK;
void charl__mistakes_fini(charl__mistakes *list);

enum { CHARL__WHY = CHARL_REASON_BYTES };

/** How many copies `repeat` can make. */
#define CHARL__REPEAT_RANGE "[1,1000]"

/** Set a key's field from text. Strings go to `strings`. A text that is no value leaves the reason
 *  in why[CHARL__WHY], which is "" otherwise. Errors: ERR_NOMEM. */
charl_status charl__config_value_set(const charl__key *key, const char *text, charl__config_strings *strings,
                                     void *field, char *why) CHARL_MUST_CHECK;

/** What values a key takes, "integer"; "" where only its choices. */
const char *charl__key_type_text(const charl__key *key);
/** Append the default as text; *required: there is none. Errors: ERR_NOMEM. */
charl_status charl__key_default_print(const charl__key *key, charl__text *t, bool *required) CHARL_MUST_CHECK;
/** The same of a key of layers, whose settings `defaults` holds. */
const char *charl__layer_key_type_text(const charl_key *k);
charl_status charl__layer_key_default_print(const charl_key *k, const void *defaults, charl__text *t) CHARL_MUST_CHECK;

/** Append the field's value as text that sets the same value. */
charl_status charl__config_value_print(const charl__key *key, const void *field, charl__text *out) CHARL_MUST_CHECK;

/** Append `value` as it must stand in a file: quoted where needed, '$' doubled where it would
 *  expand. */
charl_status charl__config_quote(const char *value, charl__text *out) CHARL_MUST_CHECK;

/** Append the shortest text that reads back as v. */
charl_status charl__config_print_float(double v, charl__text *out) CHARL_MUST_CHECK;

/** data.augment from text, with the reason in why[CHARL__WHY] when it is none; and back. */
void charl__config_augment_set(const char *text, charl__augment *field, char *why);
charl_status charl__config_augment_print(const charl__augment *v, charl__text *out) CHARL_MUST_CHECK;

/** data.mix from text, with paths from `directory` and the reason in why[CHARL__WHY] when it is none; and back, with paths from `here`
 *  made absolute. "" leaves paths as they are. */
charl_status charl__config_mix_set(const char *text, const char *directory, charl__config_strings *strings,
                                   charl__mix *field, char *why) CHARL_MUST_CHECK;
charl_status charl__config_mix_print(const charl__mix *mix, const char *here, charl__text *out) CHARL_MUST_CHECK;

/** "${NAME}" replaced in `text`: ${name} by `name` (NULL: not allowed here), others from the
 *  environment; "$$" is "$". *out is the caller's. A variable that is not set leaves a reason in
 *  why. Errors: ERR_NOMEM. */
charl_status charl__config_expand(const char *text, const char *name, char **out, char *why) CHARL_MUST_CHECK;

/** `path` from `directory` ("" is the current one); "~/" from HOME. *out is the caller's. Errors:
 *  ERR_NOMEM. */
charl_status charl__config_path(const char *directory, const char *path, char **out) CHARL_MUST_CHECK;

/** Append the layer types with their keys and defaults, as the help text of [layer NAME]. */
charl_status charl__layer_help(charl__text *t) CHARL_MUST_CHECK;

/** Make cfg's layers from its sections. Adds mistakes. Errors: ERR_NOMEM. */
charl_status charl__config_expand_layers(charl_config *cfg, charl__mistakes *mistakes) CHARL_MUST_CHECK;

/** What single keys cannot tell: combinations. Adds mistakes and notices. */
charl_status charl__config_check(charl_config *cfg, charl__mistakes *mistakes) CHARL_MUST_CHECK;
/** Of these, what depends on the loss, once one is chosen for auto. Adds mistakes, and lines to `notes`. */
charl_status charl__config_check_loss(const charl_config *cfg, charl__mistakes *mistakes,
                                      charl__text *notes) CHARL_MUST_CHECK;

#endif
