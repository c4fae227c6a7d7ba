/* Text from a language model.
 *
 * Two graphs of the model work on one window of tokens. One begins it: its rows are the positions
 * 0, 1, ..., as many as there are tokens and some for nothing behind them, which causal attention
 * never sees. The other continues it by one position, on the keys and values that both leave in a
 * cache; token and position reach it as a record, so that its launches are always the same.
 */
#include "charl/generate.h"

#include <stdio.h>
#include <string.h>

#include "autograd/graph.h"
#include "autograd/kv_cache.h"
#include "base/alloc.h"
#include "base/text/text.h"
#include "config/config_rows.h"
#include "charl/checkpoint.h"
#include "charl/tokenizer.h"
#include "infer/sample.h"
#include "io/questions.h"
#include "task/session.h"
#include "task/task.h"

enum { FEWEST_ROWS = 32, RECORDS = 4 };

/* A graph over `rows` positions. */
typedef struct piece {
    charl_graph *g;
    charl_var *x, *logits; /* i32 [1, rows]; f32 [1, rows, vocab] */
    int64_t rows;
} piece;

/* What the continuing graph reads: {token, position}. */
typedef struct record {
    int32_t token, position;
} record;

typedef struct generator {
    charl__session session; /* without a data set */
    const charl_generate_options *options;
    const char *checkpoint;
    bool loaded; /* the weights */
    charl_tokenizer *tokenizer;
    int64_t vocab, window;
    int64_t classes; /* tokens that the model was trained on: the vocabulary may have more than the tokenizer */
    int64_t width;   /* logits of a token: some may belong to no token */
    charl__ring *ring;
    charl_tensor *token, *position;
    charl__kv_cache *cache; /* NULL: every token costs the window */
    piece begin, next;
    int32_t *tokens; /* prompt and what has been generated */
    int64_t n_prompt;
    int64_t n, first, held; /* tokens; the first of the window in the cache, and how many it holds */
    float *logits;          /* [vocab] */
    bool *seen;             /* [vocab]: in the window */
    charl__text pending;    /* generated, not reported: may begin a stop text */
} generator;

static void piece_fini(piece *p)
{
    charl_graph_destroy(p->g);
    *p = (piece){0};
}

static void generator_fini(generator *t)
{
    piece_fini(&t->begin);
    piece_fini(&t->next);
    charl__kv_cache_destroy(t->cache);
    charl_tensor_release(t->token);
    charl_tensor_release(t->position);
    charl__ring_destroy(t->ring);
    charl__session_fini(&t->session);
    charl_tokenizer_destroy(t->tokenizer);
    charl_free(t->tokens);
    charl_free(t->logits);
    charl_free(t->seen);
    charl__text_fini(&t->pending);
}

static charl_status check_options(const charl_config *config, const charl_generate_options *o)
{
    const charl_model_type *model = charl__config_model(config);

    CHARL_REQUIRE(model->input != CHARL_MODEL_READS_NUMBERS, CHARL_ERR_CONFIG,
                  "model.type = %s does not generate text; gpt does", model->row.name);
    CHARL_REQUIRE(
        o->tokens >= 0 && o->temperature >= 0.0 && o->top_k >= 0 && o->top_p > 0.0 && o->top_p <= 1.0 &&
            o->min_p >= 0.0 && o->min_p <= 1.0 &&
            (o->repetition_penalty == 0.0 || (o->repetition_penalty >= 1.0 && o->repetition_penalty <= 1000.0)),
        CHARL_ERR_CONFIG,
        "%lld tokens, temperature %g, top_k %lld, top_p %g, min_p %g, repetition_penalty %g: out of range",
        (long long)o->tokens, o->temperature, (long long)o->top_k, o->top_p, o->min_p, o->repetition_penalty);
    for (int i = 0; i < o->n_stop; i++) {
        CHARL_REQUIRE(o->stop[i][0], CHARL_ERR_CONFIG, "stop text %d is empty", i + 1);
    }
    return CHARL_OK;
}

static charl_status tokenizer_of_data(generator *t)
{
    const char *path = t->session.config->data.path;
    char text[1200];

    CHARL_REQUIRE(path[0], CHARL_ERR_CONFIG,
                  "%s was written by an older charl and does not hold its tokenizer; HINT "
                  "data.path=FILE names the data set that it was trained on",
                  t->checkpoint);
    CHARL_TRY(charl_tokenizer_load(path, &t->tokenizer));
    t->classes = charl_tokenizer_get_vocab(t->tokenizer);
    snprintf(text, sizeof text, "%s was written by an older charl and does not hold its tokenizer: that of %s is used",
             t->checkpoint, path);
    charl__session_warn(&t->session, text);
    return CHARL_OK;
}

/* The tokenizer that the user names. */
static charl_status given_tokenizer(generator *t, const charl_data_schema *s)
{
    const char *path = t->options->tokenizer;
    int64_t vocab;

    CHARL_TRY(charl_tokenizer_load(path, &t->tokenizer));
    vocab = charl_tokenizer_get_vocab(t->tokenizer);
    t->classes = s ? s->classes : vocab;
    CHARL_REQUIRE(vocab <= t->classes, CHARL_ERR_DATA,
                  "the tokenizer %s has %lld tokens, more than the %lld that %s was trained on", path, (long long)vocab,
                  (long long)t->classes, t->checkpoint);
    return CHARL_OK;
}

static charl_status find_tokenizer(generator *t)
{
    const charl_data_schema *s = charl_checkpoint_get_schema(t->session.reader);

    if (!s) {
        return t->options->tokenizer ? given_tokenizer(t, NULL) : tokenizer_of_data(t);
    }
    CHARL_REQUIRE(s->kind == CHARL_DATASET_TOKENS, CHARL_ERR_DATA, "%s was trained on %s, not on a text", t->checkpoint,
                  charl_dataset_kind_name(s->kind));
    CHARL_REQUIRE(!s->tokenizer || !t->options->tokenizer, CHARL_ERR_CONFIG,
                  "%s holds its tokenizer, of type %s; HINT leave %s out", t->checkpoint, s->tokenizer_kind,
                  t->options->tokenizer);
    if (t->options->tokenizer) {
        return given_tokenizer(t, s);
    }
    CHARL_REQUIRE(s->tokenizer, CHARL_ERR_DATA,
                  "%s was trained on token numbers without a tokenizer; HINT --tokenizer FILE names "
                  "the one that made them",
                  t->checkpoint);
    t->tokenizer = charl_tokenizer_share(s->tokenizer);
    t->classes = s->classes;
    return CHARL_OK;
}

/* Tokens of the prompt, and room for the text; nothing of a prompt before it is left. */
static charl_status take_prompt(generator *t, const char *prompt, size_t bytes)
{
    const charl_generate_options *o = t->options;

    CHARL_REQUIRE(bytes > 0, CHARL_ERR_CONFIG,
                  "the prompt is empty: give the model at least one character to continue");
    charl_free(t->tokens);
    t->tokens = NULL;
    t->n = t->first = t->held = 0;
    charl__text_clear(&t->pending);
    CHARL_TRY(charl_tokenizer_encode(t->tokenizer, prompt, bytes, o->special_tokens, &t->tokens, &t->n));
    t->n_prompt = t->n;
    CHARL_TRY(charl__realloc((size_t)(t->n + o->tokens) * sizeof *t->tokens, &t->tokens));
    return CHARL_OK;
}

static charl_status read_vocabulary(generator *t)
{
    CHARL_TRY(find_tokenizer(t));
    t->vocab = charl_tokenizer_get_vocab(t->tokenizer);
    t->width = charl__config_vocab(t->session.config, t->classes);
    CHARL_TRY(charl__alloc_array(t->vocab, sizeof *t->logits, &t->logits));
    CHARL_TRY(charl__alloc_array(t->vocab, sizeof *t->seen, &t->seen));
    return CHARL_OK;
}

static charl_status open_device(generator *t)
{
    const charl_device_request r = {.select = t->session.config->device.select,
                                    .local_size = 1,
                                    .allow_tf32 = t->session.config->device.allow_tf32,
                                    .compiling = t->options->compiling,
                                    .compiling_ctx = t->options->compiling_ctx};
    const charl_shape one = {1, {1}};

    CHARL_TRY(charl__session_open_device(&t->session, &r));
    CHARL_TRY(charl__ring_create(t->session.dev, sizeof(record), RECORDS, &t->ring));
    CHARL_TRY(charl__tensor_view(charl__ring_buffer(t->ring), CHARL_I32, &one, 0, &t->token));
    CHARL_TRY(charl__tensor_view(charl__ring_buffer(t->ring), CHARL_I32, &one, 1, &t->position));
    if (charl__config_model(t->session.config)->has_kv_cache && !t->options->no_cache) {
        CHARL_TRY(charl__kv_cache_create(t->session.dev, t->window, t->position, &t->cache));
    }
    return CHARL_OK;
}

static charl_status check_logits(const generator *t, const charl_var *logits, int64_t rows)
{
    const charl_shape s = charl_var_get_type(logits).shape;
    char text[CHARL_SHAPE_TEXT];

    CHARL_REQUIRE(s.ndim == 3 && s.dim[1] == rows && s.dim[2] == t->width, CHARL_ERR_CONFIG,
                  "the model's output for %lld tokens is %s; to generate text of %lld tokens "
                  "it must be [batch, window, vocabulary]",
                  (long long)rows, charl_shape_format(&s, text), (long long)t->vocab);
    return CHARL_OK;
}

static charl_status piece_init(generator *t, int64_t rows, bool begins, piece *p)
{
    charl_status st = CHARL_OK;

    piece_fini(p);
    p->rows = rows;
    CHARL_TRY(charl_graph_create(t->session.dev, NULL, &p->g));
    charl_graph_set_training(p->g, false);
    charl__graph_set_cache(p->g, t->cache, begins);
    p->x = charl_input(p->g, "tokens", CHARL_I32, (charl_shape){2, {1, rows}}, CHARL_REPLICATED);
    if (!begins) {
        charl__graph_bind_input(p->g, p->x, t->token);
    }
    p->logits = charl_model_build(t->session.model, p->g, t->session.params, p->x);
    charl_graph_keep(p->g, p->logits);
    st = charl_graph_status(p->g);
    if (st == CHARL_ERR_SHAPE || st == CHARL_ERR_DTYPE) { /* layers that do not fit: the user's */
        st = CHARL_ERR_CONFIG;
    }
    CHARL_TRY(st);
    CHARL_TRY(check_logits(t, p->logits, rows));
    CHARL_TRY(charl_graph_compile(p->g));
    if (!t->loaded) { /* the first graph has laid the parameters out */
        CHARL_TRY(charl__session_load_weights(&t->session, t->checkpoint, CHARL_EMA_AUTO));
        t->loaded = true;
    }
    CHARL_TRY(charl_graph_warm_up(p->g));
    return st;
}

/* The last of the tokens that the model is to see. */
static charl_status read_logits(generator *t, const piece *p, int64_t row)
{
    const charl_tensor *all = charl_var_get_tensor(p->logits);

    return charl__buffer_read(CHARL_QUEUE_COMPUTE, all->buffer, (size_t)(all->offset + row * t->width) * sizeof(float),
                              t->logits, (size_t)t->vocab * sizeof(float), true);
}

/* Rows for n tokens: a power of two, so that few graphs are built; a sequential model may only take
 * the window it was trained with. */
static int64_t rows_for(const generator *t, int64_t n)
{
    int64_t rows = charl__config_model(t->session.config)->has_kv_cache ? FEWEST_ROWS : t->window;

    while (rows < n) {
        rows *= 2;
    }
    return rows < t->window ? rows : t->window;
}

/* The window from token `first` on, afresh. */
static charl_status run_begin(generator *t, int64_t first)
{
    charl_status st = CHARL_OK;
    const int64_t n = t->n - first;
    int32_t *x = NULL;

    if (n > t->begin.rows) {
        CHARL_TRY_CLEANUP(piece_init(t, rows_for(t, n), true, &t->begin));
    }
    CHARL_TRY_CLEANUP(charl__alloc_array(t->begin.rows, sizeof *x, &x)); /* zeros behind the tokens */
    memcpy(x, t->tokens + first, (size_t)n * sizeof *x);
    CHARL_TRY_CLEANUP(charl_tensor_write(charl_var_get_tensor(t->begin.x), x, (size_t)t->begin.rows * sizeof *x));
    CHARL_TRY_CLEANUP(charl_graph_run(t->begin.g));
    CHARL_TRY_CLEANUP(read_logits(t, &t->begin, n - 1));
    t->first = first;
    t->held = n;
cleanup:
    charl_free(x);
    return st;
}

/* One more token on what the cache holds. */
static charl_status run_next(generator *t)
{
    const record r = {t->tokens[t->n - 1], (int32_t)t->held};

    CHARL_TRY(charl__ring_push(t->ring, &r));
    CHARL_TRY(charl_graph_run(t->next.g));
    CHARL_TRY(read_logits(t, &t->next, 0));
    t->held++;
    return CHARL_OK;
}

/* Logits of the token that comes after the present ones. */
static charl_status predict(generator *t)
{
    const int64_t first = t->n > t->window ? t->n - t->window : 0;
    const bool goes_on = t->cache && t->held > 0 && first == t->first && t->held == t->n - 1 - first;

    return goes_on ? run_next(t) : run_begin(t, first);
}

/* Tokens of the window become less probable. */
static void penalize(generator *t)
{
    const double penalty = t->options->repetition_penalty;
    const int64_t first = t->n > t->window ? t->n - t->window : 0;

    if (penalty <= 1.0) {
        return;
    }
    memset(t->seen, 0, (size_t)t->vocab * sizeof *t->seen);
    for (int64_t i = first; i < t->n; i++) {
        const int32_t token = t->tokens[i];

        if (!t->seen[token]) {
            const double logit = (double)t->logits[token];

            t->seen[token] = true;
            t->logits[token] = (float)(logit > 0.0 ? logit / penalty : logit * penalty);
        }
    }
}

/* The special token that ends a text, or the NUL that charl's own tokenizers put between documents. */
static bool ends_text(const generator *t, int32_t token)
{
    size_t bytes;
    const char *text = charl_tokenizer_get_token(t->tokenizer, token, &bytes);

    return token == charl_tokenizer_get_end_of_text(t->tokenizer) || (text && bytes == 1 && text[0] == '\0');
}

/* Bytes in front of the first stop text in `text` or, *found false, in front of the last bytes that may still begin one. */
static size_t before_stop(const charl_generate_options *o, const char *text, size_t bytes, bool *found)
{
    size_t begins = bytes;

    *found = false;
    for (size_t at = 0; at < bytes; at++) {
        for (int k = 0; k < o->n_stop; k++) {
            const size_t whole = strlen(o->stop[k]), here = bytes - at < whole ? bytes - at : whole;

            if (memcmp(text + at, o->stop[k], here) != 0) {
                continue;
            }
            if (here == whole) {
                *found = true;
                return at;
            }
            begins = at < begins ? at : begins;
        }
    }
    return begins;
}

/* Report a token's text, but what may begin a stop text; *stopped when one is complete. */
static charl_status report(generator *t, int32_t token, charl_generated generated, void *ctx, bool *stopped)
{
    size_t bytes, ready;
    const char *text = charl_tokenizer_get_token(t->tokenizer, token, &bytes);

    if (text) {
        CHARL_TRY(charl__text_append(&t->pending, text, bytes));
    }
    if (t->pending.length == 0) {
        return generated(ctx, "", 0);
    }
    ready = before_stop(t->options, t->pending.data, t->pending.length, stopped);
    CHARL_TRY(generated(ctx, t->pending.data, ready));
    t->pending.length -= ready;
    memmove(t->pending.data, t->pending.data + ready, t->pending.length + 1);
    return CHARL_OK;
}

/* Continue the prompt. Its graphs serve the next one too. */
static charl_status generate(generator *t, const char *prompt, size_t bytes, charl_generated generated, void *ctx)
{
    const charl_generate_options *o = t->options;
    bool stopped = false;

    CHARL_TRY(take_prompt(t, prompt, bytes));
    if (t->begin.rows < rows_for(t, t->n)) {
        CHARL_TRY(piece_init(t, rows_for(t, t->n), true, &t->begin));
    }
    if (t->cache && !t->next.g) {
        CHARL_TRY(piece_init(t, 1, false, &t->next));
    }
    CHARL_TRY(generated(ctx, prompt, bytes));
    for (int64_t i = 0; i < o->tokens && !stopped; i++) {
        int32_t *token = &t->tokens[t->n];

        CHARL_TRY(predict(t));
        penalize(t);
        CHARL_TRY(charl__sample(o, t->logits, t->vocab, (uint64_t)i, token));
        if (!o->ignore_end && ends_text(t, *token)) {
            break;
        }
        t->n++;
        CHARL_TRY(report(t, *token, generated, ctx, &stopped));
    }
    return stopped || t->pending.length == 0 ? CHARL_OK : generated(ctx, t->pending.data, t->pending.length);
}

/* A gpt of another vocabulary: said before anything is built. */
static charl_status check_vocab(const generator *t)
{
    const charl_config *config = t->session.config;
    const charl_checkpoint_tensor *wte = charl_checkpoint_find(t->session.reader, "model", "wte.weight");

    CHARL_REQUIRE(!charl__config_model(config)->vocab || !wte || wte->shape.dim[0] == t->width, CHARL_ERR_CHECKPOINT,
                  "%s was trained on %lld tokens, the tokenizer of %s has %lld; HINT data.path=FILE "
                  "names the data it was trained on",
                  t->checkpoint, (long long)wte->shape.dim[0], config->data.path, (long long)t->vocab);
    return CHARL_OK;
}

/* Everything that does not depend on the prompt. Call generator_fini also after a failure. */
static charl_status generator_init(generator *t, const charl_config *config, const char *checkpoint,
                                   const charl_generate_options *options)
{
    *t = (generator){
        .session = {.config = config, .infers = true, .warned = options->warned, .warned_ctx = options->warned_ctx},
        .options = options,
        .checkpoint = checkpoint,
        .window = charl__config_model_window(config)};
    t->window = t->window > 0 ? t->window : config->data.window;
    CHARL_TRY(check_options(config, options));
    CHARL_TRY(charl__session_open_checkpoint(&t->session, checkpoint));
    CHARL_TRY(read_vocabulary(t));
    CHARL_TRY(check_vocab(t));
    t->session.data = (charl_dataset_info){.kind = CHARL_DATASET_TOKENS, .classes = t->classes, .path = checkpoint};
    CHARL_TRY(charl__session_create_model(&t->session));
    CHARL_TRY(open_device(t));
    return CHARL_OK;
}

charl_status charl_generate(const charl_config *config, const char *checkpoint, const charl_generate_options *options,
                            charl_generated generated, void *ctx)
{
    charl_status st = CHARL_OK;
    generator t = {.options = options};

    CHARL_REQUIRE_CLEANUP(options->prompt_bytes > 0, CHARL_ERR_CONFIG,
                          "the prompt is empty: give the model at least one character to continue");
    CHARL_TRY_CLEANUP(generator_init(&t, config, checkpoint, options));
    CHARL_TRY_CLEANUP(generate(&t, options->prompt, options->prompt_bytes, generated, ctx));
cleanup:
    generator_fini(&t);
    return st;
}

static charl_status collect(void *ctx, const char *text, size_t bytes)
{
    return charl__text_append(ctx, text, bytes);
}

/* `bytes` bytes, NULs among them, as a JSON string. */
static charl_status put_json(const char *text, size_t bytes, charl__text *out)
{
    charl_status st = CHARL_OK;
    charl__text part = {0};

    CHARL_TRY_CLEANUP(charl__text_printf(out, "\""));
    for (const char *end = text + bytes; text <= end;
         text += strlen(text) + 1) { /* a NUL stands behind the last byte too */
        charl__text_clear(&part);
        CHARL_TRY_CLEANUP(charl__text_json(&part, text));
        CHARL_TRY_CLEANUP(charl__text_append(out, part.data + 1, part.length - 2)); /* without its quotes */
        CHARL_TRY_CLEANUP(text + strlen(text) < end ? charl__text_printf(out, "\\u0000") : CHARL_OK);
    }
    CHARL_TRY_CLEANUP(charl__text_printf(out, "\""));
cleanup:
    charl__text_fini(&part);
    return st;
}

static charl_status continue_prompt(generator *t, const char *prompt, charl_generated_line done, void *ctx)
{
    charl_status st = CHARL_OK;
    const size_t bytes = strlen(prompt);
    charl__text all = {0}, line = {0};

    CHARL_TRY_CLEANUP(generate(t, prompt, bytes, collect, &all));
    CHARL_TRY_CLEANUP(charl__text_printf(&line, "{\"prompt\":"));
    CHARL_TRY_CLEANUP(put_json(prompt, bytes, &line));
    CHARL_TRY_CLEANUP(charl__text_printf(&line, ",\"text\":"));
    CHARL_TRY_CLEANUP(put_json(all.data + bytes, all.length - bytes, &line));
    CHARL_TRY_CLEANUP(charl__text_printf(&line, "}"));
    CHARL_TRY_CLEANUP(done(ctx, charl__text_string(&line), t->n - t->n_prompt));
cleanup:
    charl__text_fini(&all);
    charl__text_fini(&line);
    return st;
}

charl_status charl_generate_file(const charl_config *config, const char *checkpoint, const char *path,
                                 const charl_generate_options *options, charl_generated_line done, void *ctx)
{
    charl_status st = CHARL_OK;
    generator t = {.options = options};
    charl__prompts prompts = {0};

    CHARL_TRY_CLEANUP(charl__prompts_read(path, &prompts));
    CHARL_TRY_CLEANUP(generator_init(&t, config, checkpoint, options));
    for (int64_t i = 0; i < prompts.count; i++) {
        CHARL_TRY_CLEANUP(continue_prompt(&t, prompts.items[i], done, ctx));
    }
cleanup:
    charl__prompts_fini(&prompts);
    generator_fini(&t);
    return st;
}
