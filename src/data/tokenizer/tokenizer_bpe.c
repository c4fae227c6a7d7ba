/* Byte pair encoding learnt from a text: token i < 256 is byte i, token 256 + i the concatenation of the two tokens of merge i. The merges
 * are the state. */
#include <string.h>

#include "base/alloc.h"
#include "data/tokenizer/bpe.h"

/* Lengths of all tokens; the merges enter the table. */
static charl_status check_merges(charl_tokenizer *t, int64_t n, int32_t *length, int64_t *total)
{
    const uint32_t *merges = t->state;

    for (int i = 0; i < 256; i++) {
        length[i] = 1;
        t->bpe->byte_token[i] = i;
    }
    *total = 256;
    for (int64_t i = 0; i < n; i++) {
        const uint32_t a = merges[2 * i], b = merges[2 * i + 1];
        bool known;

        CHARL_REQUIRE(a < 256 + i && b < 256 + i, CHARL_ERR_DATA,
                      "merge %lld is of tokens %u and %u, which do not come before it", (long long)i, a, b);
        charl__merge_add(&t->bpe->merges, (int32_t)a, (int32_t)b, (uint32_t)i, (int32_t)(256 + i), &known);
        CHARL_REQUIRE(!known, CHARL_ERR_DATA, "merge %lld is given twice", (long long)i);
        length[256 + i] = length[a] + length[b];
        CHARL_REQUIRE(length[256 + i] <= CHARL__TOKEN_MAX_BYTES, CHARL_ERR_DATA, "token %lld has more than %d bytes",
                      (long long)(256 + i), CHARL__TOKEN_MAX_BYTES);
        *total += length[256 + i];
    }
    return CHARL_OK;
}

static charl_status become(charl_tokenizer *t)
{
    const charl__split_step step = {.pattern = CHARL__PATTERN_GPT2, .length = strlen(CHARL__PATTERN_GPT2)};
    const uint32_t *merges = t->state;
    const int64_t n = t->n / 2;
    CHARL_SCOPED_FREE int32_t *length = NULL;
    int64_t total;

    CHARL_REQUIRE(n <= CHARL__TOKENIZER_MAX_VOCAB - 256, CHARL_ERR_DATA, "%lld merges are too many", (long long)n);
    CHARL_TRY(charl__bpe_create(&t->bpe));
    CHARL_TRY(charl__splitter_create(&step, 1, &t->bpe->splitter));
    CHARL_TRY(charl__bpe_find_cuts(t->bpe));
    CHARL_TRY(charl__merge_table_init(&t->bpe->merges, n));
    CHARL_TRY(charl__alloc_array(n + 256, sizeof *length, &length));
    CHARL_TRY(check_merges(t, n, length, &total));
    CHARL_TRY(charl__tokens_create(t, 256 + n, total));
    for (int64_t i = 0; i < 256 + n; i++) {
        unsigned char *to = t->bytes + t->starts[i];

        t->starts[i + 1] = t->starts[i] + length[i];
        if (i < 256) {
            to[0] = (unsigned char)i;
        } else {
            const uint32_t a = merges[2 * (i - 256)], b = merges[2 * (i - 256) + 1];

            memcpy(to, t->bytes + t->starts[a], (size_t)length[a]);
            memcpy(to + length[a], t->bytes + t->starts[b], (size_t)length[b]);
        }
    }
    return CHARL_OK;
}

const charl__tokenizer_type charl__tokenizer_bpe = {
    .row = {.name = "bpe", .help = "byte pair encoding, learnt from the training text"},
    .learn = charl__bpe_learn,
    .has_vocab = true,
    .become = become,
    .encode = charl__bpe_encode,
};
