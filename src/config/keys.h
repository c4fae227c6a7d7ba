#ifndef CHARL_CONFIG_KEYS_H
#define CHARL_CONFIG_KEYS_H
/** The one table of configuration keys.
 *
 *  It drives parsing, defaults, ranges, help, the printed configuration and suggestions. It consists of config/section_keys.def and of the
 *  keys that models, optimizers and schedulers, built in or registered by a program, declare in their own rows.
 */
#include "base/registry/key.h"
#include "config/values.h"

typedef enum charl__key_type {
    CHARL__KEY_STRING,    /* const char * */
    CHARL__KEY_PATH,      /* const char *, relative to the file's directory; `choices` are words, not
                            paths */
    CHARL__KEY_CHOICE,    /* const char *, one of `choices` or a name that name_at gives */
    CHARL__KEY_DEVICE,    /* const char *, syntax of device.select */
    CHARL__KEY_BOOL,      /* bool */
    CHARL__KEY_INT,       /* int64_t; the word in `choices` stands for 0 */
    CHARL__KEY_SIZE,      /* int64_t with k, M, G = 1024, 1024^2, 1024^3 */
    CHARL__KEY_STEPS,     /* int64_t; as INT, or CHARL__TOKENS + n for n tokens */
    CHARL__KEY_FLOAT,     /* double */
    CHARL__KEY_ENUM,      /* int, index into `choices` */
    CHARL__KEY_SET,       /* unsigned, bit i = choice i */
    CHARL__KEY_INTS,      /* charl_int_list */
    CHARL__KEY_FLOATS,    /* charl_float_list */
    CHARL__KEY_INTERVAL,  /* charl__interval; the word in `choices` stands for AUTO */
    CHARL__KEY_DURATION,  /* double, seconds */
    CHARL__KEY_NORMALIZE, /* charl__normalize */
    CHARL__KEY_FOLD,      /* charl__data_fold */
    CHARL__KEY_AUGMENT,   /* charl__augment */
    CHARL__KEY_MIX        /* charl__mix; paths as with PATH */
} charl__key_type;

/** What a value affects. */
typedef enum charl__key_effect {
    CHARL__KEY_RESULT,  /* the result */
    CHARL__KEY_LENGTH,  /* the length */
    CHARL__KEY_MEASURE, /* the selection of the best checkpoint */
    CHARL__KEY_START,   /* the start of a new run; a run that resumes does not read it */
    CHARL__KEY_MANNER,  /* how, where and with what output it runs: the result is the same */
    CHARL__KEY_LOCAL,   /* the same, and each rank may have its own value */
    CHARL__KEY_SOURCE   /* where values of other keys are read from; they are printed and stored, this one is not */
} charl__key_effect;

/** Whether a run that resumes with another value can have another result. */
static inline bool charl__effect_is_result(charl__key_effect effect)
{
    return effect <= CHARL__KEY_MEASURE;
}

/** A type that a section selects by one of its keys, usually `type`, and where a charl_config keeps its settings. Every configuration has room for the
 *  settings of all types: a value may precede the type, and the command line may select another type. */
typedef struct charl__type {
    const char *section;
    const char *key; /* that selects it */
    const charl_row *row;
    size_t offset; /* of the settings in the memory of a charl_config */
} charl__type;

typedef struct charl__key {
    const char *section;
    const char *name;
    charl__key_type type;
    size_t offset;        /* in the memory of a charl_config */
    const char *fallback; /* the default, as text; NULL: the key is required */
    const char *range;    /* "[0,1)", of numbers and list elements; NULL: any */
    const char *choices;  /* "a|b|c" */
    const char *help;
    charl__key_effect effect;      /* omitted: RESULT */
    const char *(*name_at)(int i); /* CHOICE, SET: the names of a registry, after choices */
    const char *prefix;            /* of these names; NULL: none */
    const char *(*help_at)(int i); /* one-line description of each of these; NULL: elsewhere */
    const char *unit;              /* of numbers, "MB", which may follow them; NULL: none */
    const charl__type *owner;      /* the type that owns the key and holds its default; NULL: the section */
} charl__key;

/** The whole table: by section, in each section first its own keys, then the keys of its types. Several rows may have the same section and
 *  name, for different types. Reading it for the first time closes the registries. */
typedef struct charl__schema {
    const charl__key *keys;
    int count;
    const charl__type *types;
    int n_types;
    size_t bytes;      /* of a charl_config with the settings of all types */
    char problem[256]; /* why registered types do not fit in; "" */
} charl__schema;

const charl__schema *charl__config_schema(void);

/** The keys of sections, which no type owns. */
extern const charl__key charl__section_keys[];
extern const int charl__section_key_count;

/** The key that other trainers call `name`, and its section; section NULL: any. NULL if there is none. */
const char *charl__key_alias(const char *section, const char *name, const char **meant_section);

/** A key that selects among types, and where a charl_config keeps the settings of the selected one. */
typedef struct charl__chooser {
    const char *section, *key;
    const charl_row *(*at)(int i);
    size_t settings; /* offset of a const void * */
} charl__chooser;

/** Chooser i = 0, 1, ...; NULL past the last. */
const charl__chooser *charl__chooser_at(int i);

/** The type that `cfg` has selected by `section`.`key`; NULL if that key selects none. */
const charl__type *charl__type_chosen(const charl_config *cfg, const char *section, const char *key);

/** Whether the key belongs to the types that the configuration has selected. */
bool charl__config_uses(const charl_config *cfg, const charl__key *key);

/** Choice i of a key, copied to word[64] if it has no string of its own; NULL past the last. */
const char *charl__key_choice(const charl__key *key, int i, char *word);
/** The index of a choice, -1 if `word` is none. */
int charl__key_choice_index(const charl__key *key, const char *word);
/** "a, b, c" into text[size], with the choice closest to `word` unless that is NULL; returns text. */
const char *charl__key_choice_list(const char *word, const charl__key *key, char *text, size_t size);

/** The first row; NULL if there is none. With `alias` non-NULL, names of other programs are found too, and *alias
 *  says so. */
const charl__key *charl__key_find(const char *section, const char *name, bool *alias);

bool charl__key_section_known(const char *section);

/** The closest name within a third of its length, or NULL. */
const char *charl__key_nearest(const char *section, const char *name);
const char *charl__key_nearest_section(const char *section);

/** The first key called `name`, by name or alias, in any section; NULL. */
const charl__key *charl__key_elsewhere(const char *name);
/** The key of any section whose name is closest to `name`, a misspelled one; or NULL. */
const charl__key *charl__key_nearest_elsewhere(const char *name);

/** Whether `value` is a word that formerly meant the key's default; an item with it has no effect. */
bool charl__value_was_default(const charl__key *key, const char *value);

/** The current name of a renamed choice of `key`; any other word is returned unchanged. */
const char *charl__choice_renamed(const charl__key *key, const char *word);

#endif
