/* Generates text with a language model.
 *
 * There are two graphs of the model. `begin` starts one sequence: its rows are the positions 0, 1, ...,
 * one for each token, followed by padding that causal attention never sees. `next` continues many
 * sequences by one position each, with the keys and values that both graphs store in a cache. It reads
 * tokens and positions from a record, so its launches are always the same. When a sequence ends, the
 * next prompt takes its place in the cache.
 */
#include "charl/generate.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "autograd/graph.h"
#include "autograd/kv_cache.h"
#include "autograd/op.h"
#include "base/registry/key.h"
#include "base/alloc.h"
#include "base/options.h"
#include "base/text/text.h"
#include "config/config_rows.h"
#include "charl/checkpoint.h"
#include "charl/ops.h"
#include "charl/tokenizer.h"
#include "infer/sample.h"
#include "io/chat_template.h"
#include "io/questions.h"
#include "task/session.h"
#include "task/task.h"

enum { FEWEST_ROWS = 32, RECORDS = 4, BATCH = 16 };

/* A graph over `rows` positions of one sequence, or one position of `rows`. */
typedef struct piece {
    charl_graph *g;
    charl_var *x, *logits;     /* i32 and f32, for each row [vocab] */
    charl_var *largest, *best; /* NULL; or for each row the largest logit, and its token */
    int64_t rows;
} piece;

/* A prompt and what has been generated. */
typedef struct sequence {
    const char *prompt;
    size_t bytes;
    int32_t *tokens;
    int64_t n, drawn, left; /* number of tokens; how many of them were drawn; how many are still to be drawn */
    int64_t first, held;    /* the first token of the window in the cache, and how many of its tokens are cached */
    charl__text pending;    /* generated but not reported yet: it may be the beginning of a stop text */
    size_t cut;       /* bytes at the end of the last tokens that are not reported: the stop text and what follows */
    charl__text text; /* for charl_generate_file: what was reported */
    bool ended;
} sequence;

typedef struct generator {
    charl__session session; /* without a data set */
    const charl_generate_options *options;
    const char *checkpoint;
    bool loaded; /* the weights */
    charl_tokenizer *tokenizer;
    int64_t vocab, window;
    int64_t classes; /* tokens that the model was trained on; may be more than the tokenizer has */
    int64_t width;   /* logits of a position; some may belong to no token */
    sequence *sequences;
    int64_t count, taken, reported; /* sequences: all; begun; reported to the caller */
    int64_t places;                 /* number of sequences that are continued at the same time */
    sequence **place;               /* [places] NULL: free */
    charl__ring *ring;
    int32_t *best;                          /* [places] tokens that `next` found */
    int32_t *record;                        /* [places] tokens, [places] positions: what `next` reads */
    charl_tensor *token, *position, *begun; /* `begun`: the place that `begin` works for */
    charl__kv_cache *cache;                 /* NULL: every token costs a pass over the window */
    piece begin, next;
    charl_pinned *pinned;
    float *logits; /* [places, width] */
    bool *seen;    /* [vocab]: in the window */
    charl_generated generated;
    charl_generated_line done;
    void *ctx; /* passed to either callback */
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
    charl_tensor_release(t->begun);
    charl__ring_destroy(t->ring);
    charl_pinned_destroy(t->pinned);
    for (int64_t i = 0; t->sequences && i < t->count; i++) {
        charl_free(t->sequences[i].tokens);
        charl__text_fini(&t->sequences[i].pending);
        charl__text_fini(&t->sequences[i].text);
    }
    charl__session_fini(&t->session);
    charl_tokenizer_destroy(t->tokenizer);
    charl_free(t->sequences);
    charl_free(t->place);
    charl_free(t->record);
    charl_free(t->best);
    charl_free(t->seen);
}

static charl_status check_options(const charl_config *config, const charl_generate_options *o)
{
    const charl_model_type *model = charl__config_model(config);

    CHARL_REQUIRE(model->input != CHARL_MODEL_READS_NUMBERS, CHARL_ERR_CONFIG,
                  "model.type = %s does not generate text; gpt does", model->row.name);
    CHARL_REQUIRE(config->data.masked <= 0, CHARL_ERR_CONFIG,
                  "the model predicts masked tokens (data.masked), not the next one, and generates no text");
    CHARL_TRY(charl__range_check(CHARL_ERR_CONFIG, "tokens", (double)o->tokens, "[0,inf)"));
    CHARL_TRY(charl__range_check(CHARL_ERR_CONFIG, "batch", (double)o->batch, "[0,32767]"));
    CHARL_TRY(charl__range_check(CHARL_ERR_CONFIG, "temperature", o->temperature, "[0,inf)"));
    CHARL_TRY(charl__range_check(CHARL_ERR_CONFIG, "top_k", (double)o->top_k, "[0,inf)"));
    CHARL_TRY(charl__range_check(CHARL_ERR_CONFIG, "top_p", o->top_p, "(0,1]"));
    CHARL_TRY(charl__range_check(CHARL_ERR_CONFIG, "min_p", o->min_p, "[0,1]"));
    CHARL_TRY(charl__range_check(CHARL_ERR_CONFIG, "repetition_penalty",
                                 o->repetition_penalty != 0 ? o->repetition_penalty : 1, "[1,1000]"));
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
                  "%s was written by an older charl and does not contain its tokenizer; HINT "
                  "data.path=FILE names the data set that it was trained on",
                  t->checkpoint);
    CHARL_TRY(charl_tokenizer_load(path, &t->tokenizer));
    t->classes = charl_tokenizer_get_vocab(t->tokenizer);
    snprintf(text, sizeof text,
             "%s was written by an older charl and does not contain its tokenizer: using the one in %s", t->checkpoint,
             path);
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
                  "%s contains its own tokenizer, of type %s; HINT leave %s out", t->checkpoint, s->tokenizer_kind,
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

/* Encode the prompt, with room for the text to generate. */
static charl_status take_prompt(generator *t, sequence *q)
{
    const charl_generate_options *o = t->options;

    CHARL_TRY(charl_tokenizer_encode(t->tokenizer, q->prompt, q->bytes, o->special_tokens, &q->tokens, &q->n));
    q->left = o->tokens;
    CHARL_TRY(charl__realloc((size_t)(q->n + o->tokens) * sizeof *q->tokens, &q->tokens));
    return CHARL_OK;
}

static charl_status read_vocabulary(generator *t)
{
    CHARL_TRY(find_tokenizer(t));
    t->vocab = charl_tokenizer_get_vocab(t->tokenizer);
    t->width = charl__config_vocab(t->session.config, t->classes);
    CHARL_TRY(charl__alloc_array(t->vocab, sizeof *t->seen, &t->seen));
    return CHARL_OK;
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

/* Allocate the places for sequences that are continued together, and their buffers on host and device. Each place has
 * room for `positions`. */
static charl_status create_places(generator *t, int64_t positions)
{
    const int64_t batch = t->options->batch > 0 ? t->options->batch : BATCH;
    const bool cached = charl__config_model(t->session.config)->has_kv_cache && !t->options->no_cache;
    charl_device *dev = t->session.dev;
    charl_shape each = {2, {0, 1}};
    void *logits;

    t->places = !cached ? 1 : t->count < batch ? t->count : batch;
    each.dim[0] = t->places;
    CHARL_TRY(charl__alloc_array(t->places, sizeof *t->place, &t->place));
    CHARL_TRY(charl__alloc_array(2 * t->places, sizeof *t->record, &t->record));
    CHARL_TRY(charl__alloc_array(t->places, sizeof *t->best, &t->best));
    CHARL_TRY(charl_pinned_create(dev, (size_t)(t->places * t->width) * sizeof(float), &t->pinned, &logits));
    t->logits = logits;
    CHARL_TRY(charl__ring_create(dev, (size_t)(2 * t->places) * sizeof(int32_t), RECORDS, &t->ring));
    CHARL_TRY(charl__tensor_view(charl__ring_buffer(t->ring), CHARL_I32, &each, 0, &t->token));
    CHARL_TRY(charl__tensor_view(charl__ring_buffer(t->ring), CHARL_I32, &each, t->places, &t->position));
    CHARL_TRY(charl_tensor_create(dev, CHARL_I32, &(charl_shape){1, {1}}, &t->begun));
    if (cached) {
        CHARL_TRY(charl__kv_cache_create(dev, positions, t->begun, t->position, &t->cache));
    }
    return CHARL_OK;
}

static charl_status open_device(generator *t)
{
    const charl_device_request r = {sizeof r,
                                    .select = t->session.config->device.select,
                                    .local_size = 1,
                                    .allow_tf32 = t->session.config->device.allow_tf32,
                                    .compiling = t->options->compiling,
                                    .compiling_ctx = t->options->compiling_ctx};

    CHARL_TRY(charl__session_open_device(&t->session, &r));
    return CHARL_OK;
}

static charl_status check_logits(const generator *t, const piece *p)
{
    const charl_shape s = charl_var_get_type(p->logits).shape;
    char text[CHARL_SHAPE_TEXT];

    CHARL_REQUIRE(s.ndim == 3 && s.dim[0] * s.dim[1] == p->rows && s.dim[2] == t->width, CHARL_ERR_CONFIG,
                  "the model's output for %lld tokens is %s; to generate text of %lld tokens "
                  "it must be [batch, window, vocabulary]",
                  (long long)p->rows, charl_shape_format(&s, text), (long long)t->vocab);
    return CHARL_OK;
}

static charl_status piece_init(generator *t, int64_t rows, bool begins, piece *p)
{
    const charl_shape one = {2, {1, rows}}, each = {2, {rows, 1}};
    charl_status st = CHARL_OK;

    piece_fini(p);
    p->rows = rows;
    CHARL_TRY(charl_graph_create(t->session.dev, NULL, &p->g));
    charl_graph_set_training(p->g, false);
    charl_graph_set_precision(p->g, charl__task_precision(t->session.config));
    charl__graph_set_cache(p->g, t->cache, begins);
    p->x = charl_input(p->g, "tokens", CHARL_I32, begins ? one : each, CHARL_REPLICATED);
    if (!begins) {
        charl__graph_bind_input(p->g, p->x, t->token);
    }
    p->logits = charl__as_dtype(
        p->g, charl__task_build_model(t->session.config, t->session.model, t->session.params, p->g, p->x), CHARL_F32);
    charl_graph_keep(p->g, p->logits);
    if (!begins && t->options->temperature == 0.0 && t->options->repetition_penalty <= 1.0) {
        charl_var *tokens = t->width > t->vocab ? charl_slice(p->g, p->logits, 2, 0, t->vocab) : p->logits;

        p->largest = charl__max_index(p->g, tokens, 2, &p->best);
        charl_graph_keep(p->g, p->largest);
        charl_graph_keep(p->g, p->best);
    }
    st = charl_graph_status(p->g);
    if (st == CHARL_ERR_SHAPE || st == CHARL_ERR_DTYPE) { /* layers that do not fit: the user's */
        st = CHARL_ERR_CONFIG;
    }
    CHARL_TRY(st);
    CHARL_TRY(check_logits(t, p));
    CHARL_TRY(charl_graph_compile(p->g));
    if (!t->loaded) { /* the first graph has laid the parameters out */
        CHARL_TRY(charl__session_load_weights(&t->session, t->checkpoint, CHARL_EMA_AUTO));
        t->loaded = true;
    }
    CHARL_TRY(charl_graph_warm_up(p->g));
    return st;
}

/* The logits of n rows from `row` on. */
static charl_status read_logits(generator *t, const piece *p, int64_t row, int64_t n)
{
    const charl_tensor *all = charl_var_get_tensor(p->logits);

    return charl__buffer_read(CHARL_QUEUE_COMPUTE, all->buffer, (size_t)(all->offset + row * t->width) * sizeof(float),
                              t->logits, (size_t)(n * t->width) * sizeof(float), true);
}

/* The first token that the model sees: the beginning of the window. */
static int64_t window_of(const generator *t, const sequence *q)
{
    return q->n > t->window ? q->n - t->window : 0;
}

/* Whether the cache holds the beginning of the window, so that the sequence can continue from it. */
static bool goes_on(const generator *t, const sequence *q)
{
    const int64_t first = window_of(t, q);

    return t->cache && q->held > 0 && first == q->first && q->held < q->n - first;
}

/* Make the tokens of the window less probable. */
static void penalize(generator *t, const sequence *q, float *logits)
{
    const double penalty = t->options->repetition_penalty;

    if (penalty <= 1.0) {
        return;
    }
    memset(t->seen, 0, (size_t)t->vocab * sizeof *t->seen);
    for (int64_t i = window_of(t, q); i < q->n; i++) {
        const int32_t token = q->tokens[i];

        if (!t->seen[token]) {
            const double logit = (double)logits[token];

            t->seen[token] = true;
            logits[token] = (float)(logit > 0.0 ? logit / penalty : logit * penalty);
        }
    }
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

static charl_status put(generator *t, sequence *q, const char *text, size_t bytes)
{
    return t->done ? charl__text_append(&q->text, text, bytes) : t->generated(t->ctx, text, bytes);
}

/* Report the text of a token, except an end that may begin a stop text; a complete stop text ends the sequence. */
static charl_status report(generator *t, sequence *q, int32_t token)
{
    size_t bytes, ready;
    const char *text = charl_tokenizer_get_token(t->tokenizer, token, &bytes);

    if (text) {
        CHARL_TRY(charl__text_append(&q->pending, text, bytes));
    }
    if (q->pending.length == 0) {
        return put(t, q, "", 0);
    }
    ready = before_stop(t->options, q->pending.data, q->pending.length, &q->ended);
    CHARL_TRY(put(t, q, q->pending.data, ready));
    q->cut = q->ended ? q->pending.length - ready : 0;
    q->pending.length = q->ended ? 0 : q->pending.length - ready;
    memmove(q->pending.data, q->pending.data + ready, q->pending.length + 1);
    return CHARL_OK;
}

/* Append a token that has been drawn. */
static charl_status take(generator *t, sequence *q, int32_t token)
{
    q->tokens[q->n] = token;
    if (!t->options->ignore_end && charl__sample_ends_text(t->tokenizer, token)) {
        q->ended = true;
    } else {
        q->n++;
        q->drawn++;
        CHARL_TRY(report(t, q, token));
        q->ended = q->ended || --q->left == 0;
    }
    if (q->ended && q->pending.length > 0) {
        CHARL_TRY(put(t, q, q->pending.data, q->pending.length));
        charl__text_clear(&q->pending); /* an answer may follow */
    }
    return CHARL_OK;
}

/* Draw the next token from its logits. */
static charl_status draw(generator *t, sequence *q, float *logits)
{
    int32_t token;

    penalize(t, q, logits);
    CHARL_TRY(charl__sample(t->options, logits, t->vocab, (uint64_t)q->drawn, &token));
    return take(t, q, token);
}

/* Recompute the whole window, and draw the token after it. */
static charl_status run_begin(generator *t, int64_t place)
{
    charl_status st = CHARL_OK;
    sequence *q = t->place[place];
    const int64_t first = window_of(t, q), n = q->n - first;
    const int32_t number = (int32_t)place;
    int32_t *x = NULL;

    if (n > t->begin.rows) {
        CHARL_TRY_CLEANUP(piece_init(t, rows_for(t, n), true, &t->begin));
    }
    CHARL_TRY_CLEANUP(charl__alloc_array(t->begin.rows, sizeof *x, &x)); /* zeros after the tokens */
    memcpy(x, q->tokens + first, (size_t)n * sizeof *x);
    CHARL_TRY_CLEANUP(charl_tensor_write(t->begun, &number, sizeof number));
    CHARL_TRY_CLEANUP(charl_tensor_write(charl_var_get_tensor(t->begin.x), x, (size_t)t->begin.rows * sizeof *x));
    CHARL_TRY_CLEANUP(charl_graph_run(t->begin.g));
    CHARL_TRY_CLEANUP(read_logits(t, &t->begin, n - 1, 1));
    q->first = first;
    q->held = n;
    CHARL_TRY_CLEANUP(draw(t, q, t->logits));
cleanup:
    charl_free(x);
    return st;
}

/* The tokens with the largest logits, which the device has found. */
static charl_status read_best(generator *t)
{
    const size_t bytes = (size_t)t->places * sizeof(int32_t);

    CHARL_TRY(charl_tensor_read(charl_var_get_tensor(t->next.best), t->best, bytes));
    CHARL_TRY(charl_tensor_read(charl_var_get_tensor(t->next.largest), t->logits, bytes));
    for (int64_t i = 0; i < t->places; i++) {
        CHARL_REQUIRE(t->record[t->places + i] == 0 || isfinite(t->logits[i]), CHARL_ERR_NONFINITE,
                      "the model's output is not finite: %g for token %d", (double)t->logits[i], (int)t->best[i]);
    }
    return CHARL_OK;
}

/* Draw one more token for each sequence in the cache. The rows of other places are computed in vain, at position 0. */
static charl_status run_next(generator *t)
{
    int64_t n = 0;

    for (int64_t i = 0; i < t->places; i++) {
        const sequence *q = t->place[i];
        const bool counts = q && goes_on(t, q);

        t->record[i] = counts ? q->tokens[q->first + q->held] : 0;
        t->record[t->places + i] = counts ? (int32_t)q->held : 0;
        n += counts;
    }
    if (n == 0) {
        return CHARL_OK;
    }
    CHARL_TRY(charl__ring_push(t->ring, t->record));
    CHARL_TRY(charl_graph_run(t->next.g));
    CHARL_TRY(t->next.best ? read_best(t) : read_logits(t, &t->next, 0, t->places));
    for (int64_t i = 0; i < t->places; i++) {
        sequence *q = t->place[i];

        if (t->record[t->places + i] > 0 && q->first + ++q->held == q->n) {
            CHARL_TRY(t->next.best ? take(t, q, t->best[i]) : draw(t, q, t->logits + i * t->width));
        }
    }
    return CHARL_OK;
}

/* Append `bytes` bytes, which may include NULs, as a JSON string. */
static charl_status put_json(const char *text, size_t bytes, charl__text *out)
{
    charl_status st = CHARL_OK;
    charl__text part = {0};

    CHARL_TRY_CLEANUP(charl__text_printf(out, "\""));
    for (const char *end = text + bytes; text <= end;
         text += strlen(text) + 1) { /* the last byte is followed by a NUL, too */
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

static charl_status report_line(generator *t, sequence *q)
{
    charl_status st = CHARL_OK;
    charl__text line = {0};

    CHARL_TRY_CLEANUP(charl__text_printf(&line, "{\"prompt\":"));
    CHARL_TRY_CLEANUP(put_json(q->prompt, q->bytes, &line));
    CHARL_TRY_CLEANUP(charl__text_printf(&line, ",\"text\":"));
    CHARL_TRY_CLEANUP(put_json(charl__text_string(&q->text), q->text.length, &line));
    CHARL_TRY_CLEANUP(charl__text_printf(&line, "}"));
    CHARL_TRY_CLEANUP(t->done(t->ctx, charl__text_string(&line), q->drawn));
cleanup:
    charl__text_fini(&line);
    charl__text_fini(&q->text);
    return st;
}

/* Give the places of sequences that have ended to the next ones, and report lines in the order of the prompts.
 * *more: any are left. */
static charl_status change_places(generator *t, bool *more)
{
    *more = false;
    for (int64_t i = 0; i < t->places; i++) {
        if (!t->place[i] || t->place[i]->ended) {
            t->place[i] = t->taken < t->count ? &t->sequences[t->taken++] : NULL;
        }
        *more = *more || t->place[i];
    }
    while (t->done && t->reported < t->count && t->sequences[t->reported].ended) {
        CHARL_TRY(report_line(t, &t->sequences[t->reported++]));
    }
    return CHARL_OK;
}

/* Continue all sequences. */
static charl_status generate(generator *t)
{
    bool more;

    CHARL_TRY(change_places(t, &more));
    while (more) {
        CHARL_TRY(run_next(t));
        for (int64_t i = 0; i < t->places; i++) {
            sequence *q = t->place[i];

            if (q && !q->ended && !goes_on(t, q)) {
                CHARL_TRY(run_begin(t, i));
            }
        }
        CHARL_TRY(change_places(t, &more));
    }
    return CHARL_OK;
}

/* Refuse a gpt with another vocabulary before anything is built. */
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

/* Open everything that does not depend on the prompts. Call generator_fini even after a failure. */
static charl_status open_model(generator *t, const charl_config *config)
{
    t->session = (charl__session){
        .config = config, .infers = true, .warned = t->options->warned, .warned_ctx = t->options->warned_ctx};
    t->window = charl__config_model_window(config);
    t->window = t->window > 0 ? t->window : config->data.window;
    CHARL_TRY(check_options(config, t->options));
    CHARL_TRY(charl__session_open_checkpoint(&t->session, t->checkpoint));
    CHARL_TRY(read_vocabulary(t));
    CHARL_TRY(check_vocab(t));
    t->session.data = (charl_dataset_info){.kind = CHARL_DATASET_TOKENS, .classes = t->classes, .path = t->checkpoint};
    CHARL_TRY(charl__session_create_model(&t->session));
    CHARL_TRY(open_device(t));
    return CHARL_OK;
}

/* Build both graphs: one begins sequences of n tokens, the other continues them up to `most`. */
static charl_status build(generator *t, int64_t n, int64_t most)
{
    const int64_t rows = rows_for(t, n);

    most = most < t->window ? most : t->window;
    CHARL_TRY(create_places(t, rows > most ? rows : most));
    CHARL_TRY(piece_init(t, rows, true, &t->begin));
    return t->cache ? piece_init(t, t->places, false, &t->next) : CHARL_OK;
}

/* Open the model, encode the prompts and build the graphs. */
static charl_status prepare(generator *t, const charl_config *config)
{
    charl_status st = CHARL_OK;
    int64_t longest = 0;

    for (int64_t i = 0; i < t->count; i++) {
        CHARL_REQUIRE(t->sequences[i].bytes > 0, CHARL_ERR_CONFIG,
                      "the prompt is empty: give the model at least one character to continue");
    }
    CHARL_TRY(open_model(t, config));
    for (int64_t i = 0; i < t->count; i++) {
        sequence *q = &t->sequences[i];

        q->ended = t->options->tokens == 0;
        st = take_prompt(t, q);
        if (st == CHARL_ERR_DATA && t->done) { /* of many */
            charl__error_prefix("prompt %lld: ", (long long)i + 1);
        }
        CHARL_TRY(st);
        longest = q->n > longest ? q->n : longest;
    }
    return build(t, longest, longest + t->options->tokens);
}

charl_status charl_generate(const charl_config *config, const char *checkpoint, const charl_generate_options *options,
                            charl_generated generated, void *ctx)
{
    CHARL__OPTIONS(charl_generate_options, options);
    CHARL_GIVEN(config, checkpoint, options, generated);
    charl_status st = CHARL_OK;
    generator t = {.options = options, .checkpoint = checkpoint, .count = 1, .generated = generated, .ctx = ctx};

    CHARL_TRY_CLEANUP(charl__alloc_array(t.count, sizeof *t.sequences, &t.sequences));
    t.sequences[0].prompt = options->prompt;
    t.sequences[0].bytes = options->prompt_bytes;
    CHARL_TRY_CLEANUP(prepare(&t, config));
    CHARL_TRY_CLEANUP(generated(ctx, options->prompt, options->prompt_bytes));
    CHARL_TRY_CLEANUP(generate(&t));
cleanup:
    generator_fini(&t);
    return st;
}

charl_status charl_generate_file(const charl_config *config, const char *checkpoint, const char *path,
                                 const charl_generate_options *options, charl_generated_line done, void *ctx)
{
    CHARL__OPTIONS(charl_generate_options, options);
    CHARL_GIVEN(config, checkpoint, path, options, done);
    charl_status st = CHARL_OK;
    generator t = {.options = options, .checkpoint = checkpoint, .done = done, .ctx = ctx};
    charl__prompts prompts = {0};

    CHARL_TRY_CLEANUP(charl__prompts_read(path, &prompts));
    CHARL_TRY_CLEANUP(charl__alloc_array(prompts.count, sizeof *t.sequences, &t.sequences));
    t.count = prompts.count;
    for (int64_t i = 0; i < t.count; i++) {
        t.sequences[i].prompt = prompts.items[i];
        t.sequences[i].bytes = strlen(prompts.items[i]);
    }
    CHARL_TRY_CLEANUP(prepare(&t, config));
    CHARL_TRY_CLEANUP(generate(&t));
cleanup:
    charl__prompts_fini(&prompts);
    generator_fini(&t);
    return st;
}

/* A conversation: one sequence holds all its tokens. */
typedef struct conversation {
    generator g;
    charl_generate_options o;
    charl__chat_template t;
    charl__encoder *plain, *special;
    int32_t end;
    const char **stop; /* the stop texts of the options, and the text that ends an answer */
    charl__text after;
} conversation;

static charl_status take_tokens(void *ctx, const int32_t *tokens, int64_t n)
{
    conversation *c = ctx;
    sequence *q = c->g.sequences;

    CHARL_TRY(
        charl__realloc((size_t)(q->n + n + c->o.tokens) * sizeof *q->tokens, &q->tokens)); /* and room for an answer */
    memcpy(q->tokens + q->n, tokens, (size_t)n * sizeof *tokens);
    q->n += n;
    return CHARL_OK;
}

static charl_status put_piece(conversation *c, const char *text)
{
    return charl__chat_template_put(text, c->end, c->special, take_tokens, c);
}

static charl_status put_message(conversation *c, charl__chat_role role, const char *text, size_t bytes)
{
    CHARL_TRY(put_piece(c, c->t.role[role].before));
    CHARL_TRY(bytes > 0 ? charl__encoder_run(c->plain, text, bytes, take_tokens, c) : CHARL_OK);
    CHARL_TRY(put_piece(c, c->t.role[role].after));
    return CHARL_OK;
}

/* An answer ends at the text that the template puts after it, without trailing white space. An end-of-text token always
 * ends it. */
static charl_status add_stop(conversation *c)
{
    charl_generate_options *o = &c->o;
    const char *after = c->t.role[CHARL__CHAT_ASSISTANT].after, *end = strstr(after, CHARL__CHAT_END);
    size_t n = end ? (size_t)(end - after) : strlen(after), trimmed = n;

    while (trimmed > 0 && isspace((unsigned char)after[trimmed - 1])) {
        trimmed--;
    }
    n = trimmed > 0 ? trimmed : n;
    CHARL_TRY(charl__alloc_array(o->n_stop + 1, sizeof *c->stop, &c->stop));
    for (int i = 0; i < o->n_stop; i++) {
        c->stop[i] = o->stop[i];
    }
    if (n > 0) {
        CHARL_TRY(charl__text_append(&c->after, after, n));
        c->stop[o->n_stop++] = charl__text_string(&c->after);
    }
    o->stop = c->stop;
    return CHARL_OK;
}

/* Remove the text that ended the answer, and append the template's instead. */
static charl_status end_answer(conversation *c)
{
    sequence *q = c->g.sequences;
    const char *text = NULL;
    size_t bytes = 0;

    while (q->cut > 0) {
        text = charl_tokenizer_get_token(c->g.tokenizer, q->tokens[--q->n], &bytes);
        bytes = text ? bytes : 0;
        q->held = q->held < q->n ? q->held : q->n; /* other tokens come in the place of these */
        if (bytes >= q->cut) {                     /* its first token may begin with the end of the answer: keep that */
            CHARL_TRY(bytes > q->cut ? charl__encoder_run(c->plain, text, bytes - q->cut, take_tokens, c) : CHARL_OK);
            bytes = q->cut;
        }
        q->cut -= bytes;
    }
    return put_piece(c, c->t.role[CHARL__CHAT_ASSISTANT].after);
}

/* Take a message from the user, and generate the answer. */
static charl_status take_turn(conversation *c, const char *text, size_t bytes)
{
    sequence *q = c->g.sequences;

    CHARL_TRY(put_message(c, CHARL__CHAT_USER, text, bytes));
    CHARL_TRY(put_piece(c, c->t.role[CHARL__CHAT_ASSISTANT].before));
    q->ended = false;
    q->left = c->o.tokens;
    c->g.taken = 0;
    CHARL_TRY(generate(&c->g));
    return end_answer(c);
}

static charl_status begin_conversation(conversation *c, const charl_config *config)
{
    CHARL_TRY(charl__chat_template_find(c->o.chat_template, &c->t));
    CHARL_TRY(add_stop(c));
    CHARL_TRY(charl__alloc_array(c->g.count, sizeof *c->g.sequences, &c->g.sequences));
    CHARL_TRY(open_model(&c->g, config));
    CHARL_TRY(build(&c->g, 1, c->g.window));
    CHARL_TRY(charl__encoder_create(c->g.tokenizer, false, &c->plain));
    CHARL_TRY(charl__encoder_create(c->g.tokenizer, true, &c->special));
    c->end = (int32_t)charl_tokenizer_get_end_of_text(c->g.tokenizer);
    c->end = c->end < 0 ? 0 : c->end; /* of bytes: NUL */
    CHARL_TRY(put_piece(c, c->t.begin));
    return c->o.prompt_bytes > 0 ? put_message(c, CHARL__CHAT_SYSTEM, c->o.prompt, c->o.prompt_bytes) : CHARL_OK;
}

charl_status charl_generate_chat(const charl_config *config, const char *checkpoint,
                                 const charl_generate_options *options, charl_chat_message message,
                                 charl_generated generated, void *ctx)
{
    CHARL__OPTIONS(charl_generate_options, options);
    CHARL_GIVEN(config, checkpoint, options, message, generated);
    charl_status st = CHARL_OK;
    conversation c = {.o = *options, .g = {.checkpoint = checkpoint, .count = 1, .generated = generated, .ctx = ctx}};
    const char *text = NULL;
    size_t bytes;

    c.g.options = &c.o;
    CHARL_REQUIRE_CLEANUP(options->tokens > 0, CHARL_ERR_CONFIG, "answers of %lld tokens", (long long)options->tokens);
    CHARL_TRY_CLEANUP(begin_conversation(&c, config));
    for (;;) {
        CHARL_TRY_CLEANUP(message(ctx, &text, &bytes));
        if (!text) {
            break;
        }
        CHARL_TRY_CLEANUP(take_turn(&c, text, bytes));
    }
cleanup:
    charl__encoder_destroy(c.plain);
    charl__encoder_destroy(c.special);
    charl__chat_template_fini(&c.t);
    charl__text_fini(&c.after);
    charl_free(c.stop);
    generator_fini(&c.g);
    return st;
}
