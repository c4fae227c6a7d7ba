#ifndef CHARL_DATA_TOKENIZER_JSON_STEPS_H
#define CHARL_DATA_TOKENIZER_JSON_STEPS_H
/** JSON files of tokenizers, and the members "normalizer" and "pre_tokenizer" of a tokenizer.json. */
#include <jansson.h>
#include <string.h>

#include "data/tokenizer/pretrained.h"

CHARL_SCOPED_POINTER(json_left, json_t, json_decref)

/** As charl writes CHARL__NORMALIZE_STRIP_SPACES. */
#define CHARL__JSON_ENDS "\\A +|[ \\u2581]+\\z"

/** What a pre_tokenizer asks for besides steps of splitting. */
typedef struct charl__json_split {
    bool byte_level; /* it ends with ByteLevel */
    bool bert;       /* it is BertPreTokenizer */
    bool white;      /* WhitespaceSplit, for the Metaspace that follows */
} charl__json_split;

/** The object in a file. Errors: ERR_DATA  it holds no JSON, or no object; ERR_IO, ERR_NOMEM. */
charl_status charl__json_load(const char *path, json_t **out) CHARL_MUST_CHECK;
/** The object in the file `name` in the folder of the file `path`; NULL: there is no such file. Errors: as charl__json_load. */
charl_status charl__json_beside(const char *path, const char *name, json_t **out) CHARL_MUST_CHECK;

/** Errors: ERR_DATA  not supported, naming it; ERR_NOMEM. */
charl_status charl__json_normalizer(const json_t *o, charl__pretrained *p) CHARL_MUST_CHECK;
charl_status charl__json_pre_tokenizer(const json_t *o, charl__pretrained *p,
                                       charl__json_split *split) CHARL_MUST_CHECK;
/** The normalizer of BERT. */
charl_status charl__bert_normalizer(bool clean, bool chinese, bool strip_accents, bool lowercase,
                                    charl__pretrained *p) CHARL_MUST_CHECK;

/** The member `key`; NULL when there is none or it is null. */
static inline const json_t *charl__json_member(const json_t *o, const char *key)
{
    const json_t *v = json_object_get(o, key);

    return json_is_null(v) ? NULL : v;
}

/** The text `key`, "" for none. */
static inline const char *charl__json_text(const json_t *o, const char *key)
{
    const char *text = json_string_value(json_object_get(o, key));

    return text ? text : "";
}

/** The flag `key`, or `absent` without one. */
static inline bool charl__json_flag(const json_t *o, const char *key, bool absent)
{
    const json_t *v = charl__json_member(o, key);

    return v ? json_is_true(v) : absent;
}

#endif
