/* Draws a token from logits, on the host and in double: the same draw on every device whose
 * logits have the same bits. */
#include "infer/sample.h"

#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/numeric/hash.h"
#include "base/numeric/rng.h"

typedef struct candidate {
    float logit;
    int32_t token;
    double weight;
} candidate;

static int by_logit(const void *a, const void *b)
{
    const candidate *x = a, *y = b;

    return x->logit != y->logit ? (x->logit > y->logit ? -1 : 1) : (x->token > y->token) - (x->token < y->token);
}

static charl_status find_largest(const float *logits, int64_t n, int64_t *out)
{
    *out = 0;
    for (int64_t i = 0; i < n; i++) {
        CHARL_REQUIRE(isfinite(logits[i]), CHARL_ERR_NONFINITE, "the model's output is not finite: %g for token %lld",
                      (double)logits[i], (long long)i);
        *out = logits[i] > logits[*out] ? i : *out;
    }
    return CHARL_OK;
}

/* Uniform in [0, 1) with 53 bits. */
static double uniform(uint64_t seed, uint64_t index)
{
    const charl__rng rng = charl__rng_key(seed, 0, charl__fnv1a64_string("generate"));
    uint32_t word[4];

    charl__rng_u32x4(&rng, index, word);
    return (double)(((uint64_t)word[0] << 32 | word[1]) >> 11) * 0x1p-53;
}

static double sum_weights(const candidate *c, int64_t n)
{
    double sum = 0.0;

    for (int64_t i = 0; i < n; i++) {
        sum += c[i].weight;
    }
    return sum;
}

/* Number of the candidates, in descending order of logits, to keep. */
static int64_t count_kept(const charl_generate_options *o, const candidate *c, int64_t n)
{
    double sum = 0.0, enough;
    int64_t kept = 0;

    n = o->top_k > 0 && o->top_k < n ? o->top_k : n;
    while (n > 1 && c[n - 1].weight < o->min_p * c[0].weight) {
        n--;
    }
    if (o->top_p >= 1.0) {
        return n;
    }
    enough = o->top_p * sum_weights(c, n);
    do {
        sum += c[kept++].weight;
    } while (kept < n && sum < enough);
    return kept;
}

static int32_t draw(const candidate *c, int64_t n, double u)
{
    double rest = u * sum_weights(c, n);
    int64_t i = 0;

    while (i < n - 1 && rest >= c[i].weight) {
        rest -= c[i++].weight;
    }
    return c[i].token;
}

charl_status charl__sample(const charl_generate_options *o, const float *logits, int64_t n, uint64_t index,
                           int32_t *out)
{
    CHARL_SCOPED_FREE candidate *c = NULL;
    int64_t largest, kept = n;

    CHARL_TRY(find_largest(logits, n, &largest));
    *out = (int32_t)largest;
    if (o->temperature == 0.0) {
        return CHARL_OK;
    }
    CHARL_TRY(charl__alloc_array(n, sizeof *c, &c));
    for (int64_t i = 0; i < n; i++) {
        const double below = (double)logits[i] - (double)logits[largest];

        c[i] = (candidate){logits[i], (int32_t)i, exp(below / o->temperature)};
    }
    if (o->top_k > 0 || o->top_p < 1.0 || o->min_p > 0.0) {
        qsort(c, (size_t)n, sizeof *c, by_logit);
        kept = count_kept(o, c, n);
    }
    *out = draw(c, kept, uniform(o->seed, index));
    return CHARL_OK;
}

bool charl__sample_ends_text(const charl_tokenizer *tokenizer, int32_t token)
{
    size_t bytes;
    const char *text = charl_tokenizer_get_token(tokenizer, token, &bytes);

    return token == charl_tokenizer_get_end_of_text(tokenizer) || (text && bytes == 1 && text[0] == '\0');
}
