#ifndef CHARL_KEY_H
#define CHARL_KEY_H
/** Descriptions of settings, and the part that all registered types have in common.
 *
 *  An optimizer, a scheduler, a model and a layer are rows: a name, one line of help, and the keys of a settings
 *  struct. The keys drive the configuration reader, its checks and `charl-train --help-config`, so a new type needs no
 *  code there:
 *
 *      typedef struct my_settings {
 *          double momentum;
 *      } my_settings;
 *      static const my_settings defaults = {.momentum = 0.9};
 *      static const charl_key keys[] = {
 *          {"momentum", CHARL_KEY_FLOAT, offsetof(my_settings, momentum), "[0,1)", false, "part of the last update that
 *          is kept"},
 *      };
 *      ... {.row.name = "mine", .row.help = "...", CHARL_KEYS(keys), CHARL_DEFAULTS(defaults)}
 *
 *  Rows are static: charl borrows them for the life of the process.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "charl/status.h"

CHARL_BEGIN_DECLS

enum { CHARL_CONFIG_LIST = 32 };

typedef struct charl_int_list {
    int count;
    int64_t values[CHARL_CONFIG_LIST];
} charl_int_list;

typedef struct charl_float_list {
    int count;
    double values[CHARL_CONFIG_LIST];
} charl_float_list;

/** The type of a key's value. SIZE and STEPS are not allowed in keys of layers; PAIR, TRIPLE, TEXT and LAYER are not
 *  allowed in keys of optimizers, schedulers and models. */
typedef enum charl_key_kind {
    CHARL_KEY_INT,        /* int64_t; the word in `choices`, such as "auto", stands for 0 */
    CHARL_KEY_SIZE,       /* int64_t; as INT, with k, M, G for powers of 1024 */
    CHARL_KEY_PAIR,       /* int64_t[2], "3x5", or one number for both */
    CHARL_KEY_TRIPLE,     /* int64_t[3], "1x3x3", or one number for all; of layers only */
    CHARL_KEY_INTS,       /* charl_int_list */
    CHARL_KEY_FLOAT,      /* double */
    CHARL_KEY_BOOL,       /* bool */
    CHARL_KEY_CHOICE,     /* int, an index into `choices` */
    CHARL_KEY_TEXT,       /* const char *, any text; NULL, where the default is, for none */
    CHARL_KEY_ACTIVATION, /* const char *: an activation; NULL, where the default is, for none */
    CHARL_KEY_LAYER,      /* const char *, the name of a layer before this one; NULL for none */
    CHARL_KEY_FLOATS,     /* charl_float_list */
    CHARL_KEY_STEPS       /* int64_t; as INT, in a configuration also tokens, "2B tokens", which training makes steps */
} charl_key_kind;

typedef struct charl_key {
    const char *name; /* lower-case letters, digits and underscores */
    charl_key_kind kind;
    size_t offset;     /* in the settings struct */
    const char *range; /* of numbers: "[0,1)", "(0,inf)"; NULL: any */
    bool required;     /* has no default */
    const char *help;
    const char *choices; /* "a|b" */
} charl_key;

enum { CHARL_REASON_BYTES = 512 };

/** The first member of every registered type. */
typedef struct charl_row {
    const char *name; /* lower-case letters, digits and underscores, at most 40 */
    const char *help; /* one line */
    const charl_key *keys;
    int n_keys;
    const void *defaults; /* a settings struct; NULL: the type has no settings */
    size_t settings_size;
    /** Whether the combination of values is valid; NULL: always. If not, writes the reason to
     *  reason[CHARL_REASON_BYTES] and sets *key to the name of the key at fault. */
    bool (*check)(const void *settings, const char **key, char *reason);
} charl_row;

/** Parse text, as in a configuration or on a command line, into the field of a key in a settings struct. TEXT,
 *  ACTIVATION and LAYER borrow the text without checking that it names something. Returns false if the text is invalid:
 *  reason[CHARL_REASON_BYTES] is then a sentence such as "0 is out of range (at least 1)", and the field is unchanged.
 *  Local. Thread-safe. */
bool charl_key_parse(const charl_key *k, const char *text, void *settings, char *reason);

#define CHARL_KEYS(arr) .row.keys = (arr), .row.n_keys = (int)(sizeof(arr) / sizeof((arr)[0]))
#define CHARL_DEFAULTS(value) .row.defaults = &(value), .row.settings_size = sizeof(value)

CHARL_END_DECLS

#endif
