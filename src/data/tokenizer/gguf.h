#ifndef CHARL_DATA_TOKENIZER_GGUF_H
#define CHARL_DATA_TOKENIZER_GGUF_H
/** Metadata of llama.cpp's format GGUF, version 3: pairs of a key and a value, and among them those of a tokenizer. */
#include <stdbool.h>

#include "base/text/text.h"
#include "charl/tokenizer.h"

/** Types of values. */
typedef enum charl__gguf_type {
    CHARL__GGUF_U32 = 4,
    CHARL__GGUF_I32 = 5,
    CHARL__GGUF_F32 = 6,
    CHARL__GGUF_BOOL = 7,
    CHARL__GGUF_STRING = 8,
    CHARL__GGUF_ARRAY = 9,
} charl__gguf_type;

/** The pairs that have been written. */
typedef struct charl__gguf {
    charl__text text;
    uint64_t n;
} charl__gguf;

/** Append a string as GGUF has it: its length, and its bytes. */
charl_status charl__gguf_string(charl__text *out, const char *s, size_t bytes) CHARL_MUST_CHECK;

/** The next pair. Errors: ERR_NOMEM. */
charl_status charl__gguf_put_u32(charl__gguf *g, const char *key, uint32_t value) CHARL_MUST_CHECK;
charl_status charl__gguf_put_f32(charl__gguf *g, const char *key, double value) CHARL_MUST_CHECK;
charl_status charl__gguf_put_bool(charl__gguf *g, const char *key, bool value) CHARL_MUST_CHECK;
charl_status charl__gguf_put_text(charl__gguf *g, const char *key, const char *value) CHARL_MUST_CHECK;

/** The tokenizer of a model with `vocab` tokens; t NULL: the model has none. llama.cpp gives the tokens that charl gives, but does not normalize
 *  text (NFC). Errors: ERR_CONFIG  llama.cpp has no such tokenizer, which the message describes; ERR_NOMEM. */
charl_status charl__gguf_put_tokenizer(charl__gguf *g, const charl_tokenizer *t, int64_t vocab) CHARL_MUST_CHECK;

#endif
