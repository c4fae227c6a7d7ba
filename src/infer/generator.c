/* Continues sequences of tokens with a language model.
 *
 * There are two graphs of the model. `begin` starts one sequence: its rows are the positions 0, 1, ...,
 * one for each token, followed by padding that causal attention never sees. `next` continues all
 * sequences by one position each, with the keys and values that both graphs store in a cache. It reads
 * tokens and positions from a record, so its launches are always the same.
 *
 * A sequence whose window is in the cache, except for its last tokens, catches up through `next`; any other is
 * computed by `begin`: a new one, one whose window has moved, and every one without a cache.
 */
#include "infer/generator.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "autograd/graph.h"
#include "autograd/kv_cache.h"
#include "autograd/op.h"
#include "base/alloc.h"
#include "base/options.h"
#include "base/owner.h"
#include "base/registry/key.h"
#include "charl/ops.h"
#include "config/config_rows.h"
#include "infer/inference.h"
#include "infer/sample.h"
#include "task/session.h"
#include "task/task.h"

enum { FEWEST_ROWS = 32, RECORDS = 4 };

/* A graph over `rows` positions of one sequence, or one position of `rows`. */
typedef struct piece {
    charl_graph *g;
    charl_var *x, *logits;     /* i32 and f32, for each row [vocab] */
    charl_var *largest, *best; /* NULL; or for each row the largest logit, and its token */
    int64_t rows;
} piece;

typedef struct sequence {
    int32_t *tokens;
    int64_t n;
    int64_t first, held; /* the first token of the window in the cache, and how many of its tokens are cached */
    int64_t drawn;       /* number of tokens drawn since it was empty */
    bool steps;          /* `next` is computing one of its positions */
    bool ready;          /* its row of `logits` belongs to the token after the last */
} sequence;

struct charl_generator {
    charl__owner owner;     /* during a call */
    charl__session session; /* without a data set, or borrowed */
    bool borrows;           /* session and tokenizer are borrowed */
    charl_generate_options o;
    char *checkpoint;
    bool loaded;                /* the weights */
    charl_tokenizer *tokenizer; /* NULL: the model was trained on token numbers */
    int64_t vocab, window;
    int64_t classes; /* size of the vocabulary in training; may exceed the tokenizer's */
    int64_t width;   /* logits per position; some may not belong to a token */
    int64_t count;   /* of sequences */
    sequence *sequences;
    int64_t positions; /* of a sequence in the cache */
    charl__ring *ring;
    int32_t *record;                        /* [count] tokens, [count] positions: input of `next` */
    charl_tensor *token, *position, *begun; /* `begun`: the sequence that `begin` computes */
    charl__kv_cache *cache;                 /* NULL: every token costs a pass over the window */
    piece begin, next;
    charl_pinned *pinned; /* of logits, largest and best */
    float *logits;        /* [count, width] */
    float *largest;       /* [count] logits of the tokens found by `next` */
    int32_t *best;        /* [count] those tokens */
    float *penalized;     /* [width] */
    bool *seen;           /* [vocab]: in the window */
};

static void piece_fini(piece *p)
{
    charl_graph_destroy(p->g);
    *p = (piece){0};
}

void charl_generator_close(charl_generator *g)
{
    if (!g) {
        return;
    }
    if (g->session.dev) {
        charl_device_adopt(g->session.dev);
    }
    piece_fini(&g->begin);
    piece_fini(&g->next);
    charl__kv_cache_destroy(g->cache);
    charl_tensor_release(g->token);
    charl_tensor_release(g->position);
    charl_tensor_release(g->begun);
    charl__ring_destroy(g->ring);
    charl_pinned_destroy(g->pinned);
    for (int64_t i = 0; g->sequences && i < g->count; i++) {
        charl_free(g->sequences[i].tokens);
    }
    if (!g->borrows) {
        charl__session_fini(&g->session);
        charl_tokenizer_destroy(g->tokenizer);
    }
    charl_free(g->sequences);
    charl_free(g->record);
    charl_free(g->penalized);
    charl_free(g->seen);
    charl_free(g->checkpoint);
    charl_free(g);
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

static charl_status tokenizer_of_data(charl_generator *g)
{
    const char *path = g->session.config->data.path;
    char text[1200];

    CHARL_REQUIRE(path[0], CHARL_ERR_CONFIG,
                  "%s was written by an older charl and does not contain its tokenizer; HINT "
                  "data.path=FILE names the data set that it was trained on",
                  g->checkpoint);
    CHARL_TRY(charl_tokenizer_load(path, &g->tokenizer));
    g->classes = charl_tokenizer_get_vocab(g->tokenizer);
    snprintf(text, sizeof text,
             "%s was written by an older charl and does not contain its tokenizer: using the one in %s", g->checkpoint,
             path);
    charl__session_warn(&g->session, text);
    return CHARL_OK;
}

/* Rows for n tokens: a power of two, so that few graphs are built; a sequential model may only accept
 * the window it was trained with. */
static int64_t rows_for(const charl_generator *g, int64_t n)
{
    int64_t rows = charl__config_model(g->session.config)->has_kv_cache ? FEWEST_ROWS : g->window;

    while (rows < n) {
        rows *= 2;
    }
    return rows < g->window ? rows : g->window;
}

static charl_status measure_vocabulary(charl_generator *g)
{
    g->vocab = g->tokenizer ? charl_tokenizer_get_vocab(g->tokenizer) : g->classes;
    g->width = charl__config_vocab(g->session.config, g->classes);
    CHARL_TRY(charl__alloc_array(g->vocab, sizeof *g->seen, &g->seen));
    return charl__alloc_array(g->width, sizeof *g->penalized, &g->penalized);
}

static charl_status read_vocabulary(charl_generator *g)
{
    if (!g->o.tokenizer && !charl_checkpoint_get_info(g->session.reader).schema) {
        CHARL_TRY(tokenizer_of_data(g));
    } else {
        CHARL_TRY(charl__session_find_tokenizer(&g->session, g->o.tokenizer, &g->tokenizer, &g->classes));
    }
    return measure_vocabulary(g);
}

/* Reject a gpt with another vocabulary before anything is built. */
static charl_status check_vocab(const charl_generator *g)
{
    const charl_config *config = g->session.config;
    const charl_checkpoint_tensor *wte = charl_checkpoint_find(g->session.reader, "model", "wte.weight");

    CHARL_REQUIRE(!charl__config_model(config)->vocab || !wte || wte->shape.dim[0] == g->width, CHARL_ERR_CHECKPOINT,
                  "%s was trained on %lld tokens, the tokenizer of %s has %lld; HINT data.path=FILE "
                  "names the data it was trained on",
                  g->checkpoint, (long long)wte->shape.dim[0], config->data.path, (long long)g->vocab);
    return CHARL_OK;
}

/* Open everything that does not depend on the sequences. */
static charl_status open_model(charl_generator *g, const charl_config *config)
{
    charl_device_request r = {sizeof r, .local_size = 1, .compiling = g->o.compiling,
                              .compiling_ctx = g->o.compiling_ctx};

    if (config) {
        g->session.config = config;
        CHARL_TRY(check_options(config, &g->o));
        CHARL_TRY(charl__session_open_checkpoint(&g->session, g->checkpoint));
    } else {
        CHARL_TRY(charl__session_open_checkpoint(&g->session, g->checkpoint));
        CHARL_TRY(charl__session_read_config(&g->session, charl__inference_overrides, CHARL__INFERENCE_OVERRIDES));
        config = g->session.config;
        CHARL_TRY(check_options(config, &g->o));
    }
    g->window = charl__config_model_window(config);
    g->window = g->window > 0 ? g->window : config->data.window;
    CHARL_TRY(read_vocabulary(g));
    CHARL_TRY(check_vocab(g));
    g->session.data = (charl_dataset_info){.kind = CHARL_DATASET_TOKENS, .classes = g->classes, .path = g->checkpoint};
    CHARL_TRY(charl__session_create_model(&g->session));
    r.select = config->device.select;
    r.allow_tf32 = config->device.allow_tf32;
    return charl__session_open_device(&g->session, &r);
}

charl_status charl__generator_open(const charl_config *config, const char *checkpoint,
                                   const charl_generate_options *options, charl_generator **out)
{
    CHARL_SCOPED(charl__generator_left) charl_generator *g = NULL;

    *out = NULL;
    CHARL_TRY(charl__alloc(sizeof *g, &g));
    charl__owner_init(&g->owner);
    g->o = *options;
    g->o.top_p = g->o.top_p != 0.0 ? g->o.top_p : 1.0;
    g->session = (charl__session){.infers = true, .warned = g->o.warned, .warned_ctx = g->o.warned_ctx};
    CHARL_TRY(charl__strdup(checkpoint, &g->checkpoint));
    CHARL_TRY(open_model(g, config));
    *out = g;
    g = NULL;
    return CHARL_OK;
}

static charl_status check_logits(const charl_generator *g, const piece *p)
{
    const charl_shape s = charl_var_get_type(p->logits).shape;
    char text[CHARL_SHAPE_TEXT];

    CHARL_REQUIRE(s.ndim == 3 && s.dim[0] * s.dim[1] == p->rows && s.dim[2] == g->width, CHARL_ERR_CONFIG,
                  "the model's output for %lld tokens is %s; to generate text of %lld tokens "
                  "it must be [batch, window, vocabulary]",
                  (long long)p->rows, charl_shape_format(&s, text), (long long)g->vocab);
    return CHARL_OK;
}

static charl_status piece_init(charl_generator *g, int64_t rows, bool begins, piece *p)
{
    const charl_shape one = {2, {1, rows}}, each = {2, {rows, 1}};
    charl_status st = CHARL_OK;

    piece_fini(p);
    p->rows = rows;
    CHARL_TRY(charl_graph_create(g->session.dev, NULL, &p->g));
    charl_graph_set_training(p->g, false);
    charl_graph_set_precision(p->g, charl__task_precision(g->session.config));
    charl__graph_set_cache(p->g, g->cache, begins);
    p->x = charl_input(p->g, "tokens", CHARL_I32, begins ? one : each, CHARL_REPLICATED);
    if (!begins) {
        charl__graph_bind_input(p->g, p->x, g->token);
    }
    p->logits = charl__as_dtype(
        p->g, charl__task_build_model(g->session.config, g->session.model, g->session.params, p->g, p->x), CHARL_F32);
    charl_graph_keep(p->g, p->logits);
    if (!begins && g->o.temperature == 0.0 && g->o.repetition_penalty <= 1.0) {
        charl_var *tokens = g->width > g->vocab ? charl_slice(p->g, p->logits, 2, 0, g->vocab) : p->logits;

        p->largest = charl__max_index(p->g, tokens, 2, &p->best);
        charl_graph_keep(p->g, p->largest);
        charl_graph_keep(p->g, p->best);
    }
    st = charl_graph_status(p->g);
    if (st == CHARL_ERR_SHAPE || st == CHARL_ERR_DTYPE) { /* layers that do not fit: an error of the user */
        st = CHARL_ERR_CONFIG;
    }
    CHARL_TRY(st);
    CHARL_TRY(check_logits(g, p));
    CHARL_TRY(charl_graph_compile(p->g));
    if (!g->loaded) { /* the first graph has laid the parameters out */
        CHARL_TRY(charl__session_load_weights(&g->session, g->checkpoint, CHARL_EMA_AUTO));
        g->loaded = true;
    }
    CHARL_TRY(charl_graph_warm_up(p->g));
    return st;
}

charl_status charl__generator_build(charl_generator *g, int64_t count, int64_t n, int64_t most)
{
    const bool cached = charl__config_model(g->session.config)->has_kv_cache && !g->o.no_cache;
    const int64_t rows = rows_for(g, n);
    const charl_shape each = {2, {count, 1}};
    charl_device *dev = g->session.dev;
    void *results;

    most = most < g->window ? most : g->window;
    g->positions = rows > most ? rows : most;
    CHARL_TRY(charl__alloc_array(count, sizeof *g->sequences, &g->sequences));
    g->count = count;
    CHARL_TRY(charl__alloc_array(2 * count, sizeof *g->record, &g->record));
    CHARL_TRY(charl_pinned_create(dev, (size_t)(count * (g->width + 2)) * sizeof(float), &g->pinned, &results));
    g->logits = results;
    g->largest = g->logits + count * g->width;
    g->best = (int32_t *)(g->largest + count);
    CHARL_TRY(charl__ring_create(dev, (size_t)(2 * count) * sizeof(int32_t), RECORDS, &g->ring));
    CHARL_TRY(charl__tensor_view(charl__ring_buffer(g->ring), CHARL_I32, &each, 0, &g->token));
    CHARL_TRY(charl__tensor_view(charl__ring_buffer(g->ring), CHARL_I32, &each, count, &g->position));
    CHARL_TRY(charl_tensor_create(dev, CHARL_I32, &(charl_shape){1, {1}}, &g->begun));
    if (cached) {
        CHARL_TRY(charl__kv_cache_create(dev, g->positions, g->begun, g->position, &g->cache));
    }
    CHARL_TRY(piece_init(g, rows, true, &g->begin));
    return g->cache ? piece_init(g, count, false, &g->next) : CHARL_OK;
}

charl_status charl_generator_open(const charl_config *config, const char *checkpoint,
                                  const charl_generate_options *options, charl_generator **out)
{
    CHARL__OPTIONS(charl_generate_options, options);
    CHARL_GIVEN(checkpoint, out);
    const charl_generate_options none = {sizeof none, .prompt = NULL};
    CHARL_SCOPED(charl__generator_left) charl_generator *g = NULL;

    *out = NULL;
    options = options ? options : &none;
    CHARL_TRY(charl__generator_open(config, checkpoint, options, &g));
    CHARL_TRY(charl__generator_build(g, options->batch > 0 ? options->batch : 1, 1, g->window));
    *out = g;
    g = NULL;
    return CHARL_OK;
}

charl_status charl__generator_borrow(const charl__session *session, const charl_generate_options *options,
                                     charl_generator **out)
{
    CHARL_SCOPED(charl__generator_left) charl_generator *g = NULL;

    *out = NULL;
    CHARL_TRY(charl__alloc(sizeof *g, &g));
    charl__owner_init(&g->owner);
    g->borrows = g->loaded = true;
    g->session = *session;
    g->tokenizer = session->schema->tokenizer;
    g->classes = session->data.classes;
    g->window = session->data.x_shape.dim[0];
    g->o = *options;
    g->o.no_cache = true;
    CHARL_TRY(measure_vocabulary(g));
    CHARL_TRY(charl__generator_build(g, 1, g->window, 0));
    *out = g;
    g = NULL;
    return CHARL_OK;
}

charl_generator_info charl_generator_get_info(const charl_generator *g)
{
    return g ? (charl_generator_info){.tokenizer = g->tokenizer,
                                      .vocab = g->vocab,
                                      .window = g->window,
                                      .batch = g->count}
             : (charl_generator_info){0};
}

charl_status charl__generator_need_tokenizer(const charl_generator *g)
{
    CHARL_REQUIRE(g->tokenizer, CHARL_ERR_DATA,
                  "%s was trained on token numbers without a tokenizer; HINT name the tokenizer that "
                  "made them (--tokenizer FILE)",
                  g->checkpoint);
    return CHARL_OK;
}

static charl_status check_sequence(const charl_generator *g, int64_t i)
{
    CHARL_REQUIRE(i >= 0 && i < g->count, CHARL_ERR_INVALID, "sequence %lld: the generator was opened for %lld",
                  (long long)i, (long long)g->count);
    return CHARL_OK;
}

static charl_status append(sequence *q, int32_t token)
{
    CHARL_TRY(charl__grow(q->n, sizeof *q->tokens, &q->tokens));
    q->tokens[q->n++] = token;
    q->ready = false;
    return CHARL_OK;
}

charl_status charl_generator_put(charl_generator *g, int64_t i, const int32_t *tokens, int64_t n)
{
    CHARL_GIVEN(g, tokens || n == 0);
    CHARL_OWNED(&g->owner, "generator");
    CHARL_TRY(check_sequence(g, i));
    sequence *q = &g->sequences[i];

    for (int64_t k = 0; k < n; k++) {
        CHARL_REQUIRE(tokens[k] >= 0 && tokens[k] < g->vocab, CHARL_ERR_INVALID,
                      "tokens[%lld] is %d; the tokens of the model are 0 to %lld", (long long)k, (int)tokens[k],
                      (long long)g->vocab - 1);
    }
    for (int64_t k = 0; k < n; k++) {
        CHARL_TRY(append(q, tokens[k]));
    }
    return CHARL_OK;
}

charl_status charl_generator_put_text(charl_generator *g, int64_t i, const char *text, size_t bytes)
{
    CHARL_GIVEN(g, text || bytes == 0);
    CHARL_SCOPED_FREE int32_t *tokens = NULL;
    int64_t n = 0;

    CHARL_TRY(charl__generator_need_tokenizer(g));
    CHARL_TRY(charl_tokenizer_encode(g->tokenizer, text, bytes, g->o.special_tokens, &tokens, &n));
    CHARL_TRY(charl_generator_put(g, i, tokens, n));
    return CHARL_OK;
}

const int32_t *charl_generator_get_tokens(const charl_generator *g, int64_t i, int64_t *n)
{
    const bool is_there = g && i >= 0 && i < g->count;

    if (n) {
        *n = is_there ? g->sequences[i].n : 0;
    }
    return is_there ? g->sequences[i].tokens : NULL;
}

/* The first token of the window. */
static int64_t window_of(const charl_generator *g, const sequence *q)
{
    return q->n > g->window ? q->n - g->window : 0;
}

charl_status charl_generator_reset(charl_generator *g, int64_t i, int64_t n)
{
    CHARL_GIVEN(g);
    CHARL_OWNED(&g->owner, "generator");
    CHARL_TRY(check_sequence(g, i));
    sequence *q = &g->sequences[i];

    CHARL_REQUIRE(n >= 0 && n <= q->n, CHARL_ERR_INVALID, "%lld tokens of sequence %lld, which has %lld", (long long)n,
                  (long long)i, (long long)q->n);
    q->ready = q->ready && n == q->n;
    q->n = n;
    q->held = q->held < n - q->first ? q->held : n > q->first ? n - q->first : 0;
    q->drawn = n > 0 ? q->drawn : 0;
    return CHARL_OK;
}

enum { ALL = -1 };

/* Whether the logits of sequence i are requested, by `which` or ALL, and not yet available. */
static bool is_wanted(const charl_generator *g, int64_t i, int64_t which)
{
    return g->sequences[i].n > 0 && !g->sequences[i].ready && (which == ALL || which == i);
}

/* Whether the cache holds the beginning of the window, so that the sequence can continue from it. If it holds all of it, the last
 * position is computed again, for its logits. */
static bool goes_on(const charl_generator *g, sequence *q)
{
    const int64_t first = window_of(g, q);

    if (!g->cache || q->held == 0 || first != q->first) {
        return false;
    }
    q->held -= q->held == q->n - first;
    return q->held > 0;
}

/* Copy the logits of n rows of p, from `row` on, to sequence i and the next ones. */
static charl_status read_logits(charl_generator *g, const piece *p, int64_t row, int64_t i, int64_t n)
{
    const charl_tensor *all = charl_var_get_tensor(p->logits);

    return charl__buffer_read(CHARL_QUEUE_COMPUTE, all->buffer, (size_t)(all->offset + row * g->width) * sizeof(float),
                              g->logits + i * g->width, (size_t)(n * g->width) * sizeof(float), true);
}

/* Recompute the whole window of sequence i. */
static charl_status run_begin(charl_generator *g, int64_t i)
{
    sequence *q = &g->sequences[i];
    const int64_t first = window_of(g, q), n = q->n - first;
    const int32_t number = (int32_t)i;
    CHARL_SCOPED_FREE int32_t *x = NULL;

    if (n > g->begin.rows) {
        CHARL_TRY(piece_init(g, rows_for(g, n), true, &g->begin));
    }
    CHARL_TRY(charl__alloc_array(g->begin.rows, sizeof *x, &x)); /* zeros after the tokens */
    memcpy(x, q->tokens + first, (size_t)n * sizeof *x);
    CHARL_TRY(charl_tensor_write(g->begun, &number, sizeof number));
    CHARL_TRY(charl_tensor_write(charl_var_get_tensor(g->begin.x), x, (size_t)g->begin.rows * sizeof *x));
    CHARL_TRY(charl_graph_run(g->begin.g));
    CHARL_TRY(read_logits(g, &g->begin, n - 1, i, 1));
    q->first = first;
    q->held = n;
    q->ready = true;
    return CHARL_OK;
}

/* The tokens with the largest logits, found by the device, of the sequences that have caught up. */
static charl_status read_best(charl_generator *g, int32_t *tokens)
{
    const size_t bytes = (size_t)g->count * sizeof(int32_t);
    const charl_tensor *best = charl_var_get_tensor(g->next.best), *largest = charl_var_get_tensor(g->next.largest);

    CHARL_TRY(charl__buffer_read(CHARL_QUEUE_COMPUTE, best->buffer, (size_t)best->offset * sizeof(int32_t), g->best,
                                 bytes, false)); /* waited for below */
    CHARL_TRY(charl__buffer_read(CHARL_QUEUE_COMPUTE, largest->buffer, (size_t)largest->offset * sizeof(float),
                                 g->largest, bytes, true));
    for (int64_t i = 0; i < g->count; i++) {
        if (g->sequences[i].steps) {
            CHARL_REQUIRE(isfinite(g->largest[i]), CHARL_ERR_NONFINITE,
                          "the model's output is not finite: %g for token %d", (double)g->largest[i], (int)g->best[i]);
            tokens[i] = g->best[i];
        }
    }
    return CHARL_OK;
}

/* Read the logits of the sequences that have caught up: all rows at once, unless that would overwrite one that waits. */
static charl_status read_rows(charl_generator *g)
{
    bool waits = false;

    for (int64_t i = 0; i < g->count; i++) {
        waits = waits || g->sequences[i].ready;
        g->sequences[i].ready = g->sequences[i].ready || g->sequences[i].steps;
    }
    for (int64_t i = 0; waits && i < g->count; i++) {
        CHARL_TRY(g->sequences[i].steps ? read_logits(g, &g->next, i, i, 1) : CHARL_OK);
    }
    return waits ? CHARL_OK : read_logits(g, &g->next, 0, 0, g->count);
}

/* Compute one more position of each requested sequence that the cache can continue. The rows of other sequences are computed too, in vain, at the
 * position after their last. *stepped: whether there were any. */
static charl_status step(charl_generator *g, int64_t which, int32_t *tokens, bool *stepped)
{
    bool caught_up = false;

    *stepped = false;
    for (int64_t i = 0; i < g->count; i++) {
        g->sequences[i].steps = is_wanted(g, i, which) && !(tokens && tokens[i] >= 0) && goes_on(g, &g->sequences[i]);
        *stepped = *stepped || g->sequences[i].steps;
    }
    if (!*stepped) {
        return CHARL_OK;
    }
    for (int64_t i = 0; i < g->count; i++) {
        sequence *q = &g->sequences[i];

        q->held = q->held < g->positions ? q->held : g->positions - 1;
        g->record[i] = q->steps ? q->tokens[q->first + q->held] : 0;
        g->record[g->count + i] = (int32_t)q->held;
    }
    CHARL_TRY(charl__ring_push(g->ring, g->record));
    CHARL_TRY(charl_graph_run(g->next.g));
    for (int64_t i = 0; i < g->count; i++) {
        sequence *q = &g->sequences[i];

        q->held += q->steps;
        q->steps = q->steps && q->first + q->held == q->n;
        caught_up = caught_up || q->steps;
    }
    return !caught_up ? CHARL_OK : tokens && g->next.best ? read_best(g, tokens) : read_rows(g);
}

/* Compute the requested logits or, if the device finds the most probable token, only that in tokens[i]. */
static charl_status advance(charl_generator *g, int64_t which, int32_t *tokens)
{
    bool stepped = true;

    while (stepped) {
        CHARL_TRY(step(g, which, tokens, &stepped));
    }
    for (int64_t i = 0; i < g->count; i++) {
        if (is_wanted(g, i, which) && !(tokens && tokens[i] >= 0)) {
            CHARL_TRY(run_begin(g, i));
        }
    }
    return CHARL_OK;
}

charl_status charl_generator_logits(charl_generator *g, int64_t i, const float **logits)
{
    CHARL_GIVEN(g, logits);
    CHARL_OWNED(&g->owner, "generator");
    CHARL_TRY(check_sequence(g, i));
    sequence *q = &g->sequences[i];

    CHARL_REQUIRE(q->n > 0, CHARL_ERR_INVALID, "sequence %lld is empty; HINT charl_generator_put", (long long)i);
    charl_device_adopt(g->session.dev);
    CHARL_TRY(advance(g, i, NULL));
    *logits = g->logits + i * g->width;
    return CHARL_OK;
}

/* The logits of sequence i, with the tokens of its window made less probable. */
static const float *penalize(charl_generator *g, int64_t i)
{
    const sequence *q = &g->sequences[i];
    const float *logits = g->logits + i * g->width;
    const double penalty = g->o.repetition_penalty;

    if (penalty <= 1.0) {
        return logits;
    }
    memcpy(g->penalized, logits, (size_t)g->vocab * sizeof *logits);
    memset(g->seen, 0, (size_t)g->vocab * sizeof *g->seen);
    for (int64_t k = window_of(g, q); k < q->n; k++) {
        const int32_t token = q->tokens[k];

        if (!g->seen[token]) {
            const double logit = (double)logits[token];

            g->seen[token] = true;
            g->penalized[token] = (float)(logit > 0.0 ? logit / penalty : logit * penalty);
        }
    }
    return g->penalized;
}

charl_status charl_generator_next(charl_generator *g, int32_t *tokens)
{
    CHARL_GIVEN(g, tokens);
    CHARL_OWNED(&g->owner, "generator");
    charl_device_adopt(g->session.dev);
    for (int64_t i = 0; i < g->count; i++) {
        tokens[i] = -1;
    }
    CHARL_TRY(advance(g, ALL, tokens));
    for (int64_t i = 0; i < g->count; i++) {
        sequence *q = &g->sequences[i];

        if (q->n == 0) {
            continue;
        }
        if (tokens[i] < 0) {
            CHARL_TRY(charl__sample(&g->o, penalize(g, i), g->vocab, (uint64_t)q->drawn, &tokens[i]));
        }
        if (!g->o.ignore_end && g->tokenizer && charl__sample_ends_text(g->tokenizer, tokens[i])) {
            tokens[i] = -1;
        } else {
            CHARL_TRY(append(q, tokens[i]));
            q->drawn++;
        }
    }
    return CHARL_OK;
}
