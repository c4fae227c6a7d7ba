/* Tokens that are bytes: token i is byte i. */
#include "data/tokenizer/tokenizer_private.h"

static charl_status learn(const unsigned char *text, size_t bytes, int64_t vocab, void **state, int64_t *n)
{
    (void)text;
    (void)bytes;
    (void)vocab;
    *state = NULL;
    *n = 0;
    return CHARL_OK;
}

static charl_status become(charl_tokenizer *t)
{
    CHARL_TRY(charl__tokens_create(t, 256, 256));
    for (int i = 0; i < 256; i++) {
        t->bytes[i] = (unsigned char)i;
        t->starts[i + 1] = i + 1;
    }
    return CHARL_OK;
}

static charl_status encode(charl__encoder *e, const unsigned char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        CHARL_TRY(charl__encoder_put(e, text[i]));
    }
    return CHARL_OK;
}

const charl__tokenizer_type charl__tokenizer_bytes = {
    .row = {.name = "bytes", .help = "every byte is a token"},
    .learn = learn,
    .become = become,
    .encode = encode,
};
