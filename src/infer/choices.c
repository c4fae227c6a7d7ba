/* Multiple choice by likelihood: every ending is a row of a batch, [context, ending] without its last token, and the device computes the loss of
 * its positions against the next tokens. Causal attention never sees the zeros after a row. */
#include "charl/choices.h"

#include <math.h>
#include <string.h>

#include "autograd/graph.h"
#include "autograd/op.h"
#include "base/alloc.h"
#include "base/options.h"
#include "base/text/text.h"
#include "charl/ops.h"
#include "charl/tokenizer.h"
#include "config/config_rows.h"
#include "data/questions.h"
#include "data/tokenizer/pretrained.h"
#include "task/session.h"
#include "task/task.h"

enum { ROWS = 16, SHORTEST = 32 };

/* An ending, as input of the model. */
typedef struct ending {
    int32_t *tokens; /* [n] context and ending */
    int64_t n, own;  /* own: the last ones, of the ending */
    double log_likelihood;
} ending;

typedef struct quiz {
    charl__session session; /* without a data set */
    const charl_choices_options *options;
    const char *checkpoint, *path;
    charl_tokenizer *tokenizer;
    charl__questions questions;
    ending *endings; /* of all questions */
    int64_t count, window, rows, length;
    charl_graph *g;
    charl_var *x, *y, *loss;
    int32_t *inputs, *targets; /* [rows, length] */
    float *losses;
} quiz;

static void quiz_fini(quiz *q)
{
    for (int64_t i = 0; q->endings && i < q->count; i++) {
        charl_free(q->endings[i].tokens);
    }
    charl_free(q->endings);
    charl_free(q->inputs);
    charl_free(q->targets);
    charl_free(q->losses);
    charl_graph_destroy(q->g);
    charl__questions_fini(&q->questions);
    charl__session_fini(&q->session);
    charl_tokenizer_destroy(q->tokenizer);
}

static charl_status find_tokenizer(quiz *q)
{
    const charl_data_schema *s = charl_checkpoint_get_info(q->session.reader).schema;
    int64_t classes;

    CHARL_REQUIRE(charl__config_model(q->session.config)->input != CHARL_MODEL_READS_NUMBERS && s &&
                      s->kind == CHARL_DATASET_TOKENS,
                  CHARL_ERR_CONFIG, "%s was not trained on a text: questions are for language models", q->checkpoint);
    CHARL_REQUIRE(q->session.config->data.masked <= 0, CHARL_ERR_CONFIG,
                  "%s predicts masked tokens (data.masked), not the next one, which questions need", q->checkpoint);
    CHARL_TRY(charl__session_find_tokenizer(&q->session, q->options->tokenizer, &q->tokenizer, &classes));
    CHARL_REQUIRE(q->tokenizer, CHARL_ERR_DATA,
                  "%s was trained on token numbers without a tokenizer; HINT name the tokenizer that made them "
                  "(--tokenizer FILE)",
                  q->checkpoint);
    q->session.data = (charl_dataset_info){.kind = CHARL_DATASET_TOKENS, .classes = classes, .path = q->checkpoint};
    return CHARL_OK;
}

static charl_status encode_ending(const quiz *q, const charl__question *question, const char *text, ending *e)
{
    CHARL_SCOPED_FREE int32_t *context = NULL, *own = NULL;
    int64_t n_context = 0, n_own = 0;
    CHARL_SCOPED(charl__text_fini) charl__text spaced = {0};

    CHARL_TRY(charl__text_printf(&spaced, " %s", text));
    CHARL_TRY(charl_tokenizer_encode(q->tokenizer, question->context, strlen(question->context), false, &context,
                                     &n_context));
    CHARL_TRY(charl__tokenizer_continue(q->tokenizer, charl__text_string(&spaced), spaced.length, &own, &n_own));
    CHARL_REQUIRE(n_own <= q->window, CHARL_ERR_DATA, "%s:%lld: a choice has %lld tokens, the window of the model %lld",
                  q->path, (long long)question->line, (long long)n_own, (long long)q->window);
    CHARL_TRY(charl__alloc_array(n_context + n_own, sizeof *e->tokens, &e->tokens));
    memcpy(e->tokens, context, (size_t)n_context * sizeof *context);
    memcpy(e->tokens + n_context, own, (size_t)n_own * sizeof *own);
    e->n = n_context + n_own;
    e->own = n_own;
    return CHARL_OK;
}

/* All endings as tokens; the longest determines the length of the rows: a power of two, so that few graphs are built. */
static charl_status encode_all(quiz *q, charl_choices_result *result)
{
    int64_t total = 0, longest = 0;

    for (int64_t i = 0; i < q->questions.count; i++) {
        total += q->questions.items[i].n;
    }
    CHARL_TRY(charl__alloc_array(total, sizeof *q->endings, &q->endings));
    for (int64_t i = 0; i < q->questions.count; i++) {
        const charl__question *question = &q->questions.items[i];

        for (int k = 0; k < question->n; k++) {
            ending *e = &q->endings[q->count++];

            CHARL_TRY(encode_ending(q, question, question->endings[k], e));
            longest = e->n - 1 > longest ? e->n - 1 : longest;
            result->cut += e->n - 1 > q->window;
        }
    }
    q->length = charl__config_model(q->session.config)->has_kv_cache ? SHORTEST : q->window;
    while (q->length < longest) {
        q->length *= 2;
    }
    q->length = q->length < q->window ? q->length : q->window;
    return CHARL_OK;
}

static charl_status build(quiz *q)
{
    const charl_device_request request = {sizeof request,
                                          .select = q->session.config->device.select,
                                          .local_size = 1,
                                          .allow_tf32 = q->session.config->device.allow_tf32,
                                          .compiling = q->options->compiling,
                                          .compiling_ctx = q->options->compiling_ctx};
    const charl_shape shape = {2, {q->rows, q->length}};
    charl_var *logits;
    charl_status st;

    CHARL_TRY(charl__session_create_model(&q->session));
    CHARL_TRY(charl__session_open_device(&q->session, &request));
    CHARL_TRY(charl_graph_create(q->session.dev, NULL, &q->g));
    charl_graph_set_training(q->g, false);
    charl_graph_set_precision(q->g, charl__task_precision(q->session.config));
    q->x = charl_input(q->g, "tokens", CHARL_I32, shape, CHARL_BATCHED);
    q->y = charl_input(q->g, "next", CHARL_I32, shape, CHARL_BATCHED);
    logits = charl__as_dtype(
        q->g, charl__task_build_model(q->session.config, q->session.model, q->session.params, q->g, q->x), CHARL_F32);
    q->loss = charl_cross_entropy(q->g, logits, q->y, NULL, NULL);
    charl_graph_keep(q->g, q->loss);
    st = charl_graph_status(q->g);
    if (st == CHARL_ERR_SHAPE || st == CHARL_ERR_DTYPE) { /* layers that do not fit: an error of the user */
        st = CHARL_ERR_CONFIG;
    }
    CHARL_TRY(st);
    CHARL_TRY(charl_graph_compile(q->g));
    CHARL_TRY(charl__session_load_weights(&q->session, q->checkpoint, (int)q->options->ema));
    CHARL_TRY(charl_graph_warm_up(q->g));
    CHARL_TRY(charl__alloc_array(q->rows * q->length, sizeof *q->inputs, &q->inputs));
    CHARL_TRY(charl__alloc_array(q->rows * q->length, sizeof *q->targets, &q->targets));
    CHARL_TRY(charl__alloc_array(q->rows * q->length, sizeof *q->losses, &q->losses));
    return CHARL_OK;
}

/* Log-likelihoods of n endings from the first on. */
static charl_status run(quiz *q, ending *first, int64_t n)
{
    const size_t bytes = (size_t)(q->rows * q->length) * sizeof *q->inputs;

    memset(q->inputs, 0, bytes);
    memset(q->targets, 0, bytes);
    for (int64_t i = 0; i < n; i++) {
        const int64_t all = first[i].n - 1, used = all < q->length ? all : q->length;
        const int32_t *from = first[i].tokens + (all - used); /* a text that is too long loses its beginning */

        memcpy(q->inputs + i * q->length, from, (size_t)used * sizeof *from);
        memcpy(q->targets + i * q->length, from + 1, (size_t)used * sizeof *from);
    }
    CHARL_TRY(charl_tensor_write(charl_var_get_tensor(q->x), q->inputs, bytes));
    CHARL_TRY(charl_tensor_write(charl_var_get_tensor(q->y), q->targets, bytes));
    CHARL_TRY(charl_graph_run(q->g));
    CHARL_TRY(charl_tensor_read(charl_var_get_tensor(q->loss), q->losses, bytes));
    for (int64_t i = 0; i < n; i++) {
        const int64_t all = first[i].n - 1, used = all < q->length ? all : q->length;

        first[i].log_likelihood = 0.0;
        for (int64_t k = used - first[i].own; k < used; k++) {
            first[i].log_likelihood -= (double)q->losses[i * q->length + k];
        }
        CHARL_REQUIRE(isfinite(first[i].log_likelihood), CHARL_ERR_NONFINITE, "the output of the model is not finite");
    }
    return CHARL_OK;
}

static int64_t characters(const char *text)
{
    int64_t n = 0;

    for (; *text; text++) {
        n += ((unsigned char)*text & 0xC0U) != 0x80U;
    }
    return n > 0 ? n : 1;
}

static charl_status answer(const quiz *q, const charl__question *question, const ending *e,
                           charl_choices_result *result)
{
    charl_choice c = {.line = question->line, .n = question->n, .right = question->answer};
    CHARL_SCOPED_FREE double *likelihood = NULL;

    CHARL_TRY(charl__alloc_array(c.n, sizeof *likelihood, &likelihood));
    for (int k = 0; k < c.n; k++) {
        likelihood[k] = e[k].log_likelihood;
        c.chosen = likelihood[k] > likelihood[c.chosen] ? k : c.chosen;
        c.chosen_norm = likelihood[k] / (double)characters(question->endings[k]) >
                                likelihood[c.chosen_norm] / (double)characters(question->endings[c.chosen_norm])
                            ? k
                            : c.chosen_norm;
    }
    c.log_likelihood = likelihood;
    result->questions++;
    result->right += c.chosen == c.right;
    result->right_norm += c.chosen_norm == c.right;
    CHARL_TRY(q->options->answered ? q->options->answered(q->options->ctx, &c) : CHARL_OK);
    return CHARL_OK;
}

charl_status charl_choices(const charl_config *config, const char *checkpoint, const char *path,
                           const charl_choices_options *options, charl_choices_result *result)
{
    CHARL_GIVEN(config, checkpoint, path, options, result);
    CHARL__OPTIONS(charl_choices_options, options);
    const int64_t window = charl__config_model_window(config);
    CHARL_SCOPED(quiz_fini)
    quiz q = {
        .session = {.config = config, .infers = true, .warned = options->warned, .warned_ctx = options->warned_ctx},
        .options = options,
        .checkpoint = checkpoint,
        .path = path,
        .window = window > 0 ? window : config->data.window,
        .rows = options->max_rows ? options->max_rows : ROWS};
    const ending *e;

    *result = (charl_choices_result){0};
    CHARL_REQUIRE(q.rows > 0, CHARL_ERR_INVALID, "max_rows is %lld; it is 1 or more, or 0 for the default",
                  (long long)q.rows);
    CHARL_TRY(charl__questions_read(path, &q.questions));
    CHARL_TRY(charl__session_open_checkpoint(&q.session, checkpoint));
    CHARL_TRY(find_tokenizer(&q));
    CHARL_TRY(encode_all(&q, result));
    CHARL_TRY(build(&q));
    for (int64_t i = 0; i < q.count; i += q.rows) {
        CHARL_TRY(run(&q, q.endings + i, q.count - i < q.rows ? q.count - i : q.rows));
    }
    e = q.endings;
    for (int64_t i = 0; i < q.questions.count; i++) {
        CHARL_TRY(answer(&q, &q.questions.items[i], e, result));
        e += q.questions.items[i].n;
    }
    return CHARL_OK;
}
