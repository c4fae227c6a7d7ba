/* Generates text with a language model: converts a generator's tokens (generator.c) to text that ends as the options say.
 *
 * Several texts are continued at a time. When one ends, the next prompt takes its place in the generator.
 */
#include "charl/generate.h"

#include <ctype.h>
#include <string.h>

#include "base/alloc.h"
#include "base/options.h"
#include "base/text/text.h"
#include "charl/tokenizer.h"
#include "infer/generator.h"
#include "data/chat_template.h"
#include "data/questions.h"
#include "data/tokenizer/pretrained.h"

enum { BATCH = 16 };

/* A prompt and what has been generated. */
typedef struct generation {
    const char *prompt;
    size_t bytes;
    int32_t *tokens; /* [n] of the prompt */
    int64_t n, drawn;
    int64_t left;        /* number of tokens still to be drawn */
    charl__text pending; /* generated but not reported yet: it may be the beginning of a stop text */
    size_t cut; /* bytes at the end of the last tokens that are not reported: the stop text and what follows it */
    charl__text reported; /* for charl_generate_file: the reported text */
    bool ended;
} generation;

typedef struct writer {
    charl_generator *g;
    const charl_tokenizer *tokenizer; /* of g */
    const charl_generate_options *options;
    generation *texts;
    int64_t count, started, reported; /* texts: all; begun; reported to the caller */
    int64_t places;                   /* number of texts that are continued at the same time */
    generation **place;               /* [places] NULL: free */
    int32_t *drawn;                   /* [places] */
    charl_generated generated;
    charl_generated_line done;
    void *ctx; /* passed to either callback */
} writer;

static void writer_fini(writer *w)
{
    charl_generator_close(w->g);
    for (int64_t i = 0; w->texts && i < w->count; i++) {
        charl_free(w->texts[i].tokens);
        charl__text_fini(&w->texts[i].pending);
        charl__text_fini(&w->texts[i].reported);
    }
    charl_free(w->texts);
    charl_free(w->place);
    charl_free(w->drawn);
}

/* Open the model. */
static charl_status open_model(writer *w, const charl_config *config, const char *checkpoint)
{
    CHARL_TRY(charl__generator_open(config, checkpoint, w->options, &w->g));
    CHARL_TRY(charl__generator_need_tokenizer(w->g));
    w->tokenizer = charl_generator_get_info(w->g).tokenizer;
    return CHARL_OK;
}

/* Number of bytes before the first stop text in `text` or, *found false, before the last bytes that may begin one. */
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

static charl_status put(writer *w, generation *t, const char *bytes, size_t n)
{
    return w->done ? charl__text_append(&t->reported, bytes, n) : w->generated(w->ctx, bytes, n);
}

/* Report the text of a token, except an end that may begin a stop text; a complete stop text ends the text. */
static charl_status report(writer *w, generation *t, int32_t token)
{
    size_t bytes, ready;
    const char *of_token = charl_tokenizer_get_token(w->tokenizer, token, &bytes);

    if (of_token) {
        CHARL_TRY(charl__text_append(&t->pending, of_token, bytes));
    }
    if (t->pending.length == 0) {
        return put(w, t, "", 0);
    }
    ready = before_stop(w->options, t->pending.data, t->pending.length, &t->ended);
    CHARL_TRY(put(w, t, t->pending.data, ready));
    t->cut = t->ended ? t->pending.length - ready : 0;
    t->pending.length = t->ended ? 0 : t->pending.length - ready;
    memmove(t->pending.data, t->pending.data + ready, t->pending.length + 1);
    return CHARL_OK;
}

/* Process a token that has been drawn, or the end of the text, negative. */
static charl_status add_token(writer *w, generation *t, int32_t token)
{
    if (token < 0) {
        t->ended = true;
    } else {
        t->drawn++;
        CHARL_TRY(report(w, t, token));
        t->ended = t->ended || --t->left == 0;
    }
    if (t->ended && t->pending.length > 0) {
        CHARL_TRY(put(w, t, t->pending.data, t->pending.length));
        charl__text_clear(&t->pending); /* an answer may follow */
    }
    return CHARL_OK;
}

/* Append `bytes` bytes, which may include NULs, as a JSON string. */
static charl_status put_json(const char *text, size_t bytes, charl__text *out)
{
    CHARL_SCOPED(charl__text_fini) charl__text part = {0};

    CHARL_TRY(charl__text_printf(out, "\""));
    for (const char *end = text + bytes; text <= end;
         text += strlen(text) + 1) { /* the last byte too is followed by a NUL */
        charl__text_clear(&part);
        CHARL_TRY(charl__text_json(&part, text));
        CHARL_TRY(charl__text_append(out, part.data + 1, part.length - 2)); /* without its quotes */
        CHARL_TRY(text + strlen(text) < end ? charl__text_printf(out, "\\u0000") : CHARL_OK);
    }
    CHARL_TRY(charl__text_printf(out, "\""));
    return CHARL_OK;
}

static charl_status report_line(writer *w, generation *t)
{
    charl_status st = CHARL_OK;
    charl__text line = {0};

    CHARL_TRY_CLEANUP(charl__text_printf(&line, "{\"prompt\":"));
    CHARL_TRY_CLEANUP(put_json(t->prompt, t->bytes, &line));
    CHARL_TRY_CLEANUP(charl__text_printf(&line, ",\"text\":"));
    CHARL_TRY_CLEANUP(put_json(charl__text_string(&t->reported), t->reported.length, &line));
    CHARL_TRY_CLEANUP(charl__text_printf(&line, "}"));
    CHARL_TRY_CLEANUP(w->done(w->ctx, charl__text_string(&line), t->drawn));
cleanup:
    charl__text_fini(&line);
    charl__text_fini(&t->reported);
    return st;
}

/* Give the places of ended texts to the next ones, and report lines in the order of the prompts. *more: whether any are left. */
static charl_status change_places(writer *w, bool *more)
{
    *more = false;
    for (int64_t i = 0; i < w->places; i++) {
        generation *t = w->place[i];

        if (!t || t->ended) {
            CHARL_TRY(charl_generator_reset(w->g, i, 0));
            t = w->started < w->count ? &w->texts[w->started++] : NULL;
            CHARL_TRY(t ? charl_generator_put(w->g, i, t->tokens, t->n) : CHARL_OK);
        }
        w->place[i] = t;
        *more = *more || t;
    }
    while (w->done && w->reported < w->count && w->texts[w->reported].ended) {
        CHARL_TRY(report_line(w, &w->texts[w->reported++]));
    }
    return CHARL_OK;
}

/* Continue all texts. */
static charl_status generate(writer *w)
{
    bool more = w->options->tokens > 0;

    for (int64_t i = 0; !more && w->done && i < w->count; i++) {
        CHARL_TRY(report_line(w, &w->texts[i]));
    }
    while (more) {
        CHARL_TRY(change_places(w, &more));
        CHARL_TRY(charl_generator_next(w->g, w->drawn));
        for (int64_t i = 0; i < w->places; i++) {
            CHARL_TRY(w->place[i] ? add_token(w, w->place[i], w->drawn[i]) : CHARL_OK);
        }
    }
    return CHARL_OK;
}

/* Open the model, encode the prompts and build the graphs. */
static charl_status prepare(writer *w, const charl_config *config, const char *checkpoint)
{
    const int64_t batch = w->options->batch > 0 ? w->options->batch : BATCH;
    charl_status st = CHARL_OK;
    int64_t longest = 0;

    for (int64_t i = 0; i < w->count; i++) {
        CHARL_REQUIRE(w->texts[i].bytes > 0, CHARL_ERR_CONFIG,
                      "the prompt is empty: give the model at least one character to continue");
    }
    CHARL_TRY(open_model(w, config, checkpoint));
    for (int64_t i = 0; i < w->count; i++) {
        generation *t = &w->texts[i];

        t->left = w->options->tokens;
        st = charl_tokenizer_encode(w->tokenizer, t->prompt, t->bytes, w->options->special_tokens, &t->tokens, &t->n);
        if (st == CHARL_ERR_DATA && w->done) { /* of many */
            charl__error_prefix("prompt %lld: ", (long long)i + 1);
        }
        CHARL_TRY(st);
        longest = t->n > longest ? t->n : longest;
    }
    w->places = w->count < batch ? w->count : batch;
    CHARL_TRY(charl__alloc_array(w->places, sizeof *w->place, &w->place));
    CHARL_TRY(charl__alloc_array(w->places, sizeof *w->drawn, &w->drawn));
    return charl__generator_build(w->g, w->places, longest, longest + w->options->tokens);
}

charl_status charl_generate(const charl_config *config, const char *checkpoint, const charl_generate_options *options,
                            charl_generated generated, void *ctx)
{
    CHARL__OPTIONS(charl_generate_options, options);
    CHARL_GIVEN(config, checkpoint, options, generated);
    CHARL_SCOPED(writer_fini) writer w = {.options = options, .count = 1, .generated = generated, .ctx = ctx};

    CHARL_TRY(charl__alloc_array(w.count, sizeof *w.texts, &w.texts));
    w.texts[0].prompt = options->prompt;
    w.texts[0].bytes = options->prompt_bytes;
    CHARL_TRY(prepare(&w, config, checkpoint));
    CHARL_TRY(generated(ctx, options->prompt, options->prompt_bytes));
    CHARL_TRY(generate(&w));
    return CHARL_OK;
}

charl_status charl_generate_file(const charl_config *config, const char *checkpoint, const char *path,
                                 const charl_generate_options *options, charl_generated_line done, void *ctx)
{
    CHARL__OPTIONS(charl_generate_options, options);
    CHARL_GIVEN(config, checkpoint, path, options, done);
    CHARL_SCOPED(writer_fini) writer w = {.options = options, .done = done, .ctx = ctx};
    CHARL_SCOPED(charl__prompts_fini) charl__prompts prompts = {0};

    CHARL_TRY(charl__prompts_read(path, &prompts));
    CHARL_TRY(charl__alloc_array(prompts.count, sizeof *w.texts, &w.texts));
    w.count = prompts.count;
    for (int64_t i = 0; i < w.count; i++) {
        w.texts[i].prompt = prompts.items[i];
        w.texts[i].bytes = strlen(prompts.items[i]);
    }
    CHARL_TRY(prepare(&w, config, checkpoint));
    CHARL_TRY(generate(&w));
    return CHARL_OK;
}

/* A conversation: one sequence holds all its tokens. */
typedef struct conversation {
    writer w;
    charl_generate_options o;
    generation answer;
    charl__chat_template t;
    charl__encoder *plain, *special;
    int32_t end;
    const char **stop; /* the stop texts of the options, and the text that ends an answer */
    charl__text after;
} conversation;

/* Text that follows text begins inside of it, as if all were encoded in one piece. */
static void follow(const conversation *c)
{
    int64_t n;
    const int32_t *tokens = charl_generator_get_tokens(c->w.g, 0, &n);

    c->plain->continues = c->special->continues = n > 0 && !charl__tokenizer_is_special(c->w.tokenizer, tokens[n - 1]);
}

static charl_status take_tokens(void *ctx, const int32_t *tokens, int64_t n)
{
    const conversation *c = ctx;

    CHARL_TRY(charl_generator_put(c->w.g, 0, tokens, n));
    follow(c);
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

/* Replace the text that ended the answer by the template's. */
static charl_status end_answer(conversation *c)
{
    int64_t n;
    const int32_t *tokens = charl_generator_get_tokens(c->w.g, 0, &n);

    while (c->answer.cut > 0) {
        size_t bytes = 0;
        const char *last = charl_tokenizer_get_token(c->w.tokenizer, tokens[--n], &bytes);
        const size_t cut = bytes < c->answer.cut ? bytes : c->answer.cut;

        c->answer.cut -= cut;
        if (c->answer.cut == 0) {
            CHARL_TRY(charl_generator_reset(c->w.g, 0, n)); /* other tokens replace these */
            follow(c);
            /* the first token of the end may begin with text of the answer: keep that */
            CHARL_TRY(bytes > cut ? charl__encoder_run(c->plain, last, bytes - cut, take_tokens, c) : CHARL_OK);
        }
    }
    follow(c);
    return put_piece(c, c->t.role[CHARL__CHAT_ASSISTANT].after);
}

/* Process a message from the user, and generate the answer. */
static charl_status run_turn(conversation *c, const char *message, size_t bytes)
{
    int32_t token;

    CHARL_TRY(put_message(c, CHARL__CHAT_USER, message, bytes));
    CHARL_TRY(put_piece(c, c->t.role[CHARL__CHAT_ASSISTANT].before));
    c->answer.ended = false;
    c->answer.left = c->o.tokens;
    while (!c->answer.ended) {
        CHARL_TRY(charl_generator_next(c->w.g, &token));
        CHARL_TRY(add_token(&c->w, &c->answer, token));
    }
    return end_answer(c);
}

static charl_status begin_conversation(conversation *c, const charl_config *config, const char *checkpoint)
{
    CHARL_TRY(charl__chat_template_find(c->o.chat_template, &c->t));
    CHARL_TRY(add_stop(c));
    CHARL_TRY(open_model(&c->w, config, checkpoint));
    CHARL_TRY(charl__generator_build(c->w.g, 1, 1, charl_generator_get_info(c->w.g).window));
    CHARL_TRY(charl__encoder_create(c->w.tokenizer, false, &c->plain));
    CHARL_TRY(charl__encoder_create(c->w.tokenizer, true, &c->special));
    c->end = (int32_t)charl_tokenizer_get_end_of_text(c->w.tokenizer);
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
    conversation c = {.o = *options, .w = {.generated = generated, .ctx = ctx}};
    const char *said = NULL;
    size_t bytes;

    c.w.options = &c.o;
    CHARL_REQUIRE_CLEANUP(options->tokens > 0, CHARL_ERR_CONFIG, "tokens is %lld; an answer has at least one",
                          (long long)options->tokens);
    CHARL_TRY_CLEANUP(begin_conversation(&c, config, checkpoint));
    for (;;) {
        CHARL_TRY_CLEANUP(message(ctx, &said, &bytes));
        if (!said) {
            break;
        }
        CHARL_TRY_CLEANUP(run_turn(&c, said, bytes));
    }
cleanup:
    charl__encoder_destroy(c.plain);
    charl__encoder_destroy(c.special);
    charl__chat_template_fini(&c.t);
    charl__text_fini(&c.answer.pending);
    charl__text_fini(&c.after);
    charl_free(c.stop);
    writer_fini(&c.w);
    return st;
}
