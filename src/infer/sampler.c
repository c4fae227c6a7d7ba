/* Samples of text during training: a generator over the session, without a cache. Its graph exists only during a sample: between samples it would use
 * memory, and the parameters may move. Each token costs a pass over the window, which is little compared with the evaluation before it. */
#include "infer/sampler.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/text/utf8.h"
#include "infer/generator.h"

struct charl__sampler {
    const charl__session *session; /* borrowed */
    charl_generate_options options;
    int32_t *prompt;
    int64_t n_prompt;
    char *text;
};

static charl_status check(const charl__session *session)
{
    const char *path = session->data.path;

    CHARL_REQUIRE(session->data.kind == CHARL_DATASET_TOKENS, CHARL_ERR_CONFIG,
                  "eval.sample_prompt is continued by models of text; %s holds %s", path,
                  charl_dataset_kind_name(session->data.kind));
    CHARL_REQUIRE(session->schema && session->schema->tokenizer, CHARL_ERR_CONFIG,
                  "eval.sample_prompt needs a tokenizer, which %s does not hold; HINT charl data import text", path);
    return CHARL_OK;
}

charl_status charl__sampler_create(const charl__session *session, uint64_t seed, charl__sampler **out)
{
    charl_status st = CHARL_OK;
    const charl_config *config = session->config;
    const char *prompt = config->eval.sample_prompt;
    charl_generator *g = NULL;
    charl__sampler *s = NULL;

    *out = NULL;
    CHARL_TRY_CLEANUP(check(session));
    CHARL_TRY_CLEANUP(charl__alloc(sizeof *s, &s));
    s->session = session;
    s->options = (charl_generate_options){sizeof(charl_generate_options), .tokens = config->eval.sample_tokens,
                                          .temperature = config->eval.sample_temperature, .top_p = 1.0, .seed = seed};
    CHARL_TRY_CLEANUP(charl__error_in(
        charl_tokenizer_encode(session->schema->tokenizer, prompt, strlen(prompt), true, &s->prompt, &s->n_prompt),
        CHARL_ERR_DATA, "eval.sample_prompt: "));
    CHARL_TRY_CLEANUP(charl__error_in(charl__generator_borrow(session, &s->options, &g), CHARL_ERR_CONFIG,
                                      "eval.sample_prompt: ")); /* reported before the training */
    *out = s;
    s = NULL;
cleanup:
    charl_generator_close(g);
    charl__sampler_destroy(s);
    return st;
}

void charl__sampler_destroy(charl__sampler *s)
{
    if (s) {
        charl_free(s->prompt);
        charl_free(s->text);
        charl_free(s);
    }
}

/* Tokens after the prompt. */
static charl_status draw(const charl__sampler *s, charl_generator *g, void (*progress)(void *context), void *context)
{
    CHARL_TRY(charl_generator_put(g, 0, s->prompt, s->n_prompt));
    for (int64_t i = 0; i < s->options.tokens; i++) {
        int32_t token;
        const charl_status st = charl_generator_next(g, &token);

        if (st == CHARL_ERR_NONFINITE || (st == CHARL_OK && token < 0)) {
            break;
        }
        CHARL_TRY(st);
        progress(context);
    }
    return CHARL_OK;
}

charl_status charl__sampler_run(charl__sampler *s, void (*progress)(void *context), void *context, const char **text)
{
    CHARL_SCOPED(charl__generator_left) charl_generator *g = NULL;
    const int32_t *tokens;
    int64_t n;
    size_t bytes;

    charl_free(s->text);
    s->text = NULL;
    CHARL_TRY(charl__generator_borrow(s->session, &s->options, &g));
    CHARL_TRY(draw(s, g, progress, context));
    tokens = charl_generator_get_tokens(g, 0, &n);
    CHARL_TRY(charl_tokenizer_decode(s->session->schema->tokenizer, tokens, n, &s->text, &bytes));
    charl__utf8_make_visible(s->text);
    *text = s->text;
    return CHARL_OK;
}
