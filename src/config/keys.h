#ifndef CHARL_CONFIG_KEYS_H
#define CHARL_CONFIG_KEYS_H
/** The one table of configuration keys.
 *
 *  It drives parsing, defaults, ranges, help, the printed configuration and the suggestions. To add
 * a key: a field in charl_config and a row here.
 */
#include "charl/config.h"

typedef enum charl__key_type {
    CHARL__KEY_STRING,   /* const char * */
    CHARL__KEY_PATH,     /* const char *, relative to the file's directory; `choices` are words, not
                            paths */
    CHARL__KEY_CHOICE,   /* const char *, one of `choices` */
    CHARL__KEY_DEVICE,   /* const char *, syntax of device.select */
    CHARL__KEY_BOOL,     /* bool */
    CHARL__KEY_INT,      /* int64_t; the word in `choices` stands for 0 */
    CHARL__KEY_SIZE,     /* int64_t with k, M, G = 1024, 1024^2, 1024^3 */
    CHARL__KEY_FLOAT,    /* double; the word in `choices` stands for NaN */
    CHARL__KEY_ENUM,     /* int, index into `choices` */
    CHARL__KEY_SET,      /* unsigned, bit i = choice i */
    CHARL__KEY_INTS,     /* charl_int_list */
    CHARL__KEY_INTERVAL, /* charl_interval */
    CHARL__KEY_DURATION, /* double, seconds */
    CHARL__KEY_NORMALIZE, /* charl_normalize */
    CHARL__KEY_AUGMENT    /* charl_augment */
} charl__key_type;

/** What a value decides. */
typedef enum charl__key_effect {
    CHARL__KEY_RESULT, /* what is computed, up to which checkpoint is best */
    CHARL__KEY_MANNER, /* how, where and what is told of it: the result is the same */
    CHARL__KEY_LOCAL   /* the same, and each rank may have a value of its own */
} charl__key_effect;

typedef struct charl__key {
    const char *section;
    const char *name;
    charl__key_type type;
    size_t offset;        /* in charl_config */
    const char *fallback; /* the default, as text; NULL: the key must be given */
    const char *range;    /* "[0,1)", of numbers and list elements; NULL: any */
    const char *choices;  /* "a|b|c" */
    const char *later;    /* choices that are known but not available in this version */
    const char *only; /* "a|b": until the feature exists only these texts pass, and help leaves the
                         key out */
    const char *uses; /* "type=a|b": has an effect only when the section's type is one of these */
    const char *help;
    charl__key_effect effect; /* not given: RESULT */
} charl__key;

extern const charl__key charl__keys[];
extern const int charl__key_count;

/** NULL when there is none. With `alias` non-NULL other programs' names are found too, and *alias
 * tells. */
const charl__key *charl__key_find(const char *section, const char *name, bool *alias);

bool charl__key_section_known(const char *section);

/** Nearest name within a third of its length, or NULL. */
const char *charl__key_nearest(const char *section, const char *name);
const char *charl__key_nearest_section(const char *section);

/** The first key called `name`, by name or alias, in any section; NULL. */
const charl__key *charl__key_elsewhere(const char *name);

/** Number of single-character edits (insert, delete, replace, swap of neighbours) between two names
 * of at most 63 characters; INT_MAX for longer ones. */
int charl__key_distance(const char *a, const char *b);

/** Whether `candidate` is near enough to `name` to be suggested, nearer than *best; updates *best.
 * Start with INT_MAX. */
bool charl__key_closer(const char *name, const char *candidate, int *best);

/** Walk "a|b|c": copies the next word into word[size], advances *cursor; false at the end. */
bool charl__choice_next(const char **cursor, char *word, size_t size);

/** Index of `word` in "a|b|c", or -1. NULL choices hold nothing. */
int charl__choice_index(const char *choices, const char *word);

/** The present name of a choice of `key` that was renamed; any other word is returned as it is. */
const char *charl__choice_renamed(const charl__key *key, const char *word);

/** "a, b, c" into text[size]; returns text. */
const char *charl__choice_list(const char *choices, char *text, size_t size);

/** Whether v lies in "[lo,hi)" or the like; NULL holds everything finite. */
bool charl__range_holds(const char *range, double v);

#endif
