/* Samples of text during training. One graph over one window, whose rows behind the text are seen by none of it: each token costs the window,
 * which is little beside the evaluation before it, and needs no cache of keys and values. The graph is there for a sample only: between
 * them it would take memory, and the parameters may move. */
#include "infer/sampler.h"

#include <string.h>

#include "autograd/graph.h"
#include "autograd/op.h"
#include "base/alloc.h"
#include "base/text/utf8.h"
#include "charl/tokenizer.h"
#include "config/config_rows.h"
#include "infer/sample.h"
#include "task/task.h"

struct charl__sampler {
    const charl__session *session; /* borrowed */
    charl_generate_options options;
    charl_graph *g;
    charl_var *x, *logits;
    int64_t rows, vocab, width; /* tokens of the window, of the tokenizer; logits of a token */
    int32_t *tokens, *window;   /* [n_prompt + sample_tokens]; [rows] */
    int64_t n_prompt;
    float *row; /* [width] */
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

/* The model over one window. */
static charl_status build(charl__sampler *s)
{
    const charl__session *session = s->session;
    const charl_shape shape = {2, {1, s->rows}};
    charl_shape out;

    CHARL_TRY(charl_graph_create(session->dev, NULL, &s->g));
    charl_graph_set_training(s->g, false);
    charl_graph_set_precision(s->g, charl__task_precision(session->config));
    s->x = charl_input(s->g, "tokens", CHARL_I32, shape, CHARL_REPLICATED);
    s->logits = charl__as_dtype(
        s->g, charl__task_build_model(session->config, session->model, session->params, s->g, s->x), CHARL_F32);
    charl_graph_keep(s->g, s->logits);
    CHARL_TRY(charl_graph_status(s->g));
    out = charl_var_get_type(s->logits).shape;
    CHARL_REQUIRE(out.ndim == 3 && out.dim[1] == s->rows && out.dim[2] == s->width, CHARL_ERR_CONFIG,
                  "eval.sample_prompt needs a model that predicts the next token at every position");
    return charl_graph_compile(s->g);
}

static void discard(charl__sampler *s)
{
    charl_graph_destroy(s->g);
    s->g = NULL;
}

charl_status charl__sampler_create(const charl__session *session, uint64_t seed, charl__sampler **out)
{
    charl_status st = CHARL_OK;
    const charl_config *config = session->config;
    const char *prompt = config->eval.sample_prompt;
    charl__sampler *s = NULL;

    *out = NULL;
    CHARL_TRY_CLEANUP(check(session));
    CHARL_TRY_CLEANUP(charl__alloc(sizeof *s, &s));
    s->session = session;
    s->options = (charl_generate_options){sizeof(charl_generate_options), .tokens = config->eval.sample_tokens,
                                          .temperature = config->eval.sample_temperature, .top_p = 1.0, .seed = seed};
    s->vocab = charl_tokenizer_get_vocab(session->schema->tokenizer);
    s->width = charl__config_vocab(config, session->data.classes);
    s->rows = session->data.x_shape.dim[0];
    CHARL_TRY_CLEANUP(charl__error_in(
        charl_tokenizer_encode(session->schema->tokenizer, prompt, strlen(prompt), true, &s->tokens, &s->n_prompt),
        CHARL_ERR_DATA, "eval.sample_prompt: "));
    CHARL_TRY_CLEANUP(charl__realloc((size_t)(s->n_prompt + s->options.tokens) * sizeof *s->tokens, &s->tokens));
    CHARL_TRY_CLEANUP(charl__alloc_array(s->rows, sizeof *s->window, &s->window));
    CHARL_TRY_CLEANUP(charl__alloc_array(s->width, sizeof *s->row, &s->row));
    CHARL_TRY_CLEANUP(build(s)); /* errors are told before the training */
    discard(s);
    *out = s;
    s = NULL;
cleanup:
    charl__sampler_destroy(s);
    return st;
}

void charl__sampler_destroy(charl__sampler *s)
{
    if (s) {
        discard(s);
        charl_free(s->tokens);
        charl_free(s->window);
        charl_free(s->row);
        charl_free(s->text);
        charl_free(s);
    }
}

/* Logits of the token behind the first n. */
static charl_status predict(charl__sampler *s, int64_t n)
{
    const int64_t held = n < s->rows ? n : s->rows;
    const charl_tensor *all;

    memset(s->window, 0, (size_t)s->rows * sizeof *s->window);
    memcpy(s->window, s->tokens + n - held, (size_t)held * sizeof *s->window);
    CHARL_TRY(charl_tensor_write(charl_var_get_tensor(s->x), s->window, (size_t)s->rows * sizeof *s->window));
    CHARL_TRY(charl_graph_run(s->g));
    all = charl_var_get_tensor(s->logits);
    return charl__buffer_read(CHARL_QUEUE_COMPUTE, all->buffer,
                              (size_t)(all->offset + (held - 1) * s->width) * sizeof(float), s->row,
                              (size_t)s->width * sizeof *s->row, true);
}

/* Tokens after the prompt. *n: all. */
static charl_status draw(charl__sampler *s, void (*progress)(void *context), void *context, int64_t *n)
{
    const charl_tokenizer *tokenizer = s->session->schema->tokenizer;

    *n = s->n_prompt;
    for (int64_t i = 0; i < s->options.tokens; i++, (*n)++) {
        charl_status st;

        CHARL_TRY(predict(s, *n));
        st = charl__sample(&s->options, s->row, s->vocab, (uint64_t)i, &s->tokens[*n]);
        if (st == CHARL_ERR_NONFINITE || (st == CHARL_OK && charl__sample_ends_text(tokenizer, s->tokens[*n]))) {
            break;
        }
        CHARL_TRY(st);
        progress(context);
    }
    return CHARL_OK;
}

charl_status charl__sampler_run(charl__sampler *s, void (*progress)(void *context), void *context, const char **text)
{
    charl_status st = CHARL_OK;
    int64_t n;
    size_t bytes;

    charl_free(s->text);
    s->text = NULL;
    CHARL_TRY_CLEANUP(build(s));
    CHARL_TRY_CLEANUP(draw(s, progress, context, &n));
    CHARL_TRY_CLEANUP(charl_tokenizer_decode(s->session->schema->tokenizer, s->tokens, n, &s->text, &bytes));
    charl__utf8_make_visible(s->text);
    *text = s->text;
cleanup:
    discard(s);
    return st;
}
