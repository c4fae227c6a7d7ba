/* Importer of conversations and instructions: lines of JSON, formatted by a template; only the assistant's text counts for the loss.
 *
 * The pieces of a template are encoded with their special tokens; the text of messages is not, so that it cannot end a turn. A
 * conversation is a document. With a window, conversations are packed: as many as fit, in their order, then end-of-text tokens
 * that do not count, so that no conversation crosses a window boundary.
 */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "charl/dataset.h"
#include "charl/import.h"
#include "data/chat_template.h"
#include "io/commit.h"
#include "io/dataset/dataset_write.h"
#include "io/dataset/order/split.h"
#include "data/import/import_lines.h"
#include "io/paths.h"
#include "data/import/importer.h"
#include "data/tokenizer/pretrained.h"

/* Handling of a conversation that is longer than the window. */
enum { REFUSE, CUT, SKIP };

typedef struct chat_settings {
    const char *tokenizer;     /* NULL: bytes */
    const char *template_name; /* NULL: chatml */
    int64_t window;            /* 0: none */
    int longer;                /* conversations above that length */
    const char *val_file;
} chat_settings;

/* The tokens of all conversations, for training and then for validation, and which of them count for the loss. */
typedef struct chat {
    const chat_settings *o;
    charl__chat_template t;
    charl_tokenizer *tokenizer;
    charl__encoder *plain, *special; /* special: recognizes special tokens */
    int32_t end;
    int32_t *tokens;
    unsigned char *counts;
    int64_t n_tokens;
    int64_t *starts, *ends, n_starts; /* of conversations */
    int64_t first;                    /* first token of the current conversation */
    int64_t base;                     /* first token of the current split */
    bool counting;
} chat;

static charl_status add_tokens(void *ctx, const int32_t *tokens, int64_t n)
{
    chat *c = ctx;

    for (int64_t i = 0; i < n; i++) {
        CHARL_TRY(charl__grow(c->n_tokens, sizeof *c->tokens, &c->tokens));
        CHARL_TRY(charl__grow(c->n_tokens, sizeof *c->counts, &c->counts));
        c->tokens[c->n_tokens] = tokens[i];
        c->counts[c->n_tokens++] = c->counting;
        c->plain->continues = c->special->continues = !charl__tokenizer_is_special(c->tokenizer, tokens[i]);
    }
    return CHARL_OK;
}

static charl_status put_message(chat *c, int role, const char *text, size_t bytes)
{
    CHARL_TRY(charl__chat_template_put(c->t.role[role].before, c->end, c->special, add_tokens, c));
    c->counting = role == CHARL__CHAT_ASSISTANT;
    if (bytes > 0) {
        CHARL_TRY(charl__encoder_run(c->plain, text, bytes, add_tokens, c));
    }
    CHARL_TRY(charl__chat_template_put(c->t.role[role].after, c->end, c->special, add_tokens, c));
    c->counting = false;
    return CHARL_OK;
}

/* Make room in the window for the n tokens of the conversation from c->first on: if there is none, pad the window. */
static charl_status pack(chat *c)
{
    const int64_t window = c->o->window, n = c->n_tokens - c->first, used = (c->first - c->base) % window;
    const int64_t fill = used + n > window ? window - used : 0;

    if (fill == 0) {
        return CHARL_OK;
    }
    for (int64_t i = 0; i < fill; i++) { /* after the conversation, which is then moved behind them */
        CHARL_TRY(add_tokens(c, &c->end, 1));
    }
    memmove(c->tokens + c->first + fill, c->tokens + c->first, (size_t)n * sizeof *c->tokens);
    memmove(c->counts + c->first + fill, c->counts + c->first, (size_t)n);
    for (int64_t i = 0; i < fill; i++) {
        c->tokens[c->first + i] = c->end;
        c->counts[c->first + i] = 0;
    }
    c->first += fill;
    return CHARL_OK;
}

/* Finish a conversation that has been written. */
static charl_status end_conversation(chat *c, const char *path, int64_t line)
{
    const int64_t n = c->n_tokens - c->first, window = c->o->window;

    if (window > 0 && n > window && c->o->longer == CUT) {
        c->n_tokens = c->first + window;
    } else if (window > 0 && n > window && c->o->longer == SKIP) {
        c->n_tokens = c->first;
        return CHARL_OK;
    }
    CHARL_REQUIRE(
        window == 0 || c->n_tokens - c->first <= window, CHARL_ERR_DATA,
        "%s:%lld: a conversation of %lld tokens is longer than the window of %lld; HINT --window, or --longer "
        "cut or skip",
        path, (long long)line, (long long)n, (long long)window);
    if (window > 0) {
        CHARL_TRY(pack(c));
    }
    CHARL_TRY(charl__grow(c->n_starts, sizeof *c->starts, &c->starts));
    CHARL_TRY(charl__grow(c->n_starts, sizeof *c->ends, &c->ends));
    c->starts[c->n_starts] = c->first;
    c->ends[c->n_starts++] = c->n_tokens;
    return CHARL_OK;
}

static charl_status role_of(const char *path, int64_t line, const char *name, int *out)
{
    static const struct {
        const char *name;
        int role;
    } names[] = {{"system", CHARL__CHAT_SYSTEM},  {"user", CHARL__CHAT_USER},           {"human", CHARL__CHAT_USER},
                 {"prompter", CHARL__CHAT_USER},  {"assistant", CHARL__CHAT_ASSISTANT}, {"gpt", CHARL__CHAT_ASSISTANT},
                 {"model", CHARL__CHAT_ASSISTANT}};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(name, names[i].name) == 0) {
            *out = names[i].role;
            return CHARL_OK;
        }
    }
    CHARL_FAIL(CHARL_ERR_DATA, "%s:%lld: \"%.60s\" is not a role; roles are system, user (human) and assistant (gpt)",
               path, (long long)line, name);
}

/* A text in parts, [{"type": "text", "text": "..."}, ...], concatenated. */
static charl_status join_parts(const char *path, int64_t line, json_t *object, const char *name)
{
    const json_t *parts = json_object_get(object, name);
    CHARL_SCOPED(charl__text_fini) charl__text all = {0};

    CHARL_TRY(charl__text_append(&all, "", 0));
    for (size_t i = 0; i < json_array_size(parts); i++) {
        const json_t *part = json_array_get(parts, i),
                     *text = json_is_string(part) ? part : json_object_get(part, "text");
        const char *type = json_string_value(json_object_get(part, "type"));

        CHARL_REQUIRE(json_is_string(text), CHARL_ERR_DATA,
                      "%s:%lld: part %zu of field \"%s\" is not a text%s%.60s; a model of charl reads text only", path,
                      (long long)line, i + 1, name, type ? " but of type " : "", type ? type : "");
        CHARL_TRY(charl__text_append(&all, json_string_value(text), json_string_length(text)));
    }
    CHARL_REQUIRE(json_object_set_new(object, name, json_stringn(charl__text_string(&all), all.length)) == 0,
                  CHARL_ERR_NOMEM, "out of memory");
    return CHARL_OK;
}

/* A text member of an object, which is required unless `optional`. */
static charl_status get_text(const char *path, int64_t line, json_t *object, const char *name, bool optional,
                             json_t **out)
{
    if (json_is_array(json_object_get(object, name))) {
        CHARL_TRY(join_parts(path, line, object, name));
    }
    *out = json_object_get(object, name);
    CHARL_REQUIRE(optional || *out, CHARL_ERR_DATA, "%s:%lld: there is no field \"%s\"", path, (long long)line, name);
    CHARL_REQUIRE(!*out || json_is_string(*out), CHARL_ERR_DATA, "%s:%lld: field \"%s\" is not a string", path,
                  (long long)line, name);
    return CHARL_OK;
}

static charl_status put_text(chat *c, int role, const json_t *text)
{
    return put_message(c, role, json_string_value(text), json_string_length(text));
}

/* {"role": ..., "content": ...}, or from and value. */
static charl_status put_messages(chat *c, const char *path, int64_t line, json_t *list, const char *role_field,
                                 const char *text_field)
{
    bool answered = false;
    json_t *role, *text;

    CHARL_REQUIRE(json_is_array(list) && json_array_size(list) > 0, CHARL_ERR_DATA,
                  "%s:%lld: the messages are not a list of {\"%s\": ..., \"%s\": ...}", path, (long long)line,
                  role_field, text_field);
    for (size_t i = 0; i < json_array_size(list); i++) {
        int r = CHARL__CHAT_USER;

        CHARL_TRY(get_text(path, line, json_array_get(list, i), role_field, false, &role));
        CHARL_TRY(get_text(path, line, json_array_get(list, i), text_field, false, &text));
        CHARL_TRY(role_of(path, line, json_string_value(role), &r));
        CHARL_TRY(put_text(c, r, text));
        answered = answered || r == CHARL__CHAT_ASSISTANT;
    }
    CHARL_REQUIRE(answered, CHARL_ERR_DATA, "%s:%lld: the conversation has no text of the assistant to learn from",
                  path, (long long)line);
    return CHARL_OK;
}

/* instruction, optionally input, and output. */
static charl_status put_instruction(chat *c, const char *path, int64_t line, json_t *object)
{
    json_t *system, *instruction, *input, *output;
    CHARL_SCOPED(charl__text_fini) charl__text user = {0};

    CHARL_TRY(get_text(path, line, object, "system", true, &system));
    CHARL_TRY(get_text(path, line, object, "instruction", false, &instruction));
    CHARL_TRY(get_text(path, line, object, "input", true, &input));
    CHARL_TRY(get_text(path, line, object, "output", false, &output));
    CHARL_TRY(charl__text_append(&user, json_string_value(instruction), json_string_length(instruction)));
    if (input && json_string_length(input) > 0) {
        CHARL_TRY(charl__text_append(&user, "\n\n", 2));
        CHARL_TRY(charl__text_append(&user, json_string_value(input), json_string_length(input)));
    }
    if (system && json_string_length(system) > 0) {
        CHARL_TRY(put_text(c, CHARL__CHAT_SYSTEM, system));
    }
    CHARL_TRY(put_message(c, CHARL__CHAT_USER, user.data, user.length));
    CHARL_TRY(put_text(c, CHARL__CHAT_ASSISTANT, output));
    return CHARL_OK;
}

static charl_status put_object(chat *c, const char *path, int64_t line, json_t *object)
{
    json_t *list, *prompt, *answer;

    if ((list = json_object_get(object, "messages")) != NULL) {
        return put_messages(c, path, line, list, "role", "content");
    }
    if ((list = json_object_get(object, "conversations")) != NULL) {
        return put_messages(c, path, line, list, "from", "value");
    }
    if (json_object_get(object, "instruction")) {
        return put_instruction(c, path, line, object);
    }
    CHARL_REQUIRE(json_object_get(object, "prompt"), CHARL_ERR_DATA,
                  "%s:%lld: not a conversation; a line has messages, conversations, instruction and output, or prompt "
                  "and completion",
                  path, (long long)line);
    CHARL_TRY(get_text(path, line, object, "prompt", false, &prompt));
    CHARL_TRY(
        get_text(path, line, object, json_object_get(object, "response") ? "response" : "completion", false, &answer));
    CHARL_TRY(put_text(c, CHARL__CHAT_USER, prompt));
    CHARL_TRY(put_text(c, CHARL__CHAT_ASSISTANT, answer));
    return CHARL_OK;
}

static charl_status read_line(void *ctx, charl__lines *l)
{
    chat *c = ctx;
    const char *path = charl__source_path(l->source);
    json_t *object = NULL;

    CHARL_TRY(charl__lines_object(l, &object));
    c->first = c->n_tokens;
    c->plain->continues = c->special->continues = false;
    CHARL_TRY(charl__chat_template_put(c->t.begin, c->end, c->special, add_tokens, c));
    CHARL_TRY(put_object(c, path, l->number, object));
    return end_conversation(c, path, l->number);
}

static charl_status open_tokenizer(chat *c)
{
    const char *name = c->o->tokenizer ? c->o->tokenizer : "bytes";
    const charl__tokenizer_type *type = NULL;

    CHARL_TRY(charl__tokenizer_open(name, &type, &c->tokenizer));
    CHARL_REQUIRE(!type || type == &charl__tokenizer_bytes, CHARL_ERR_CONFIG,
                  "tokenizer %s: conversations take a published tokenizer (its file or folder), or bytes", name);
    if (type) {
        CHARL_TRY(charl_tokenizer_create(name, NULL, 0, 0, &c->tokenizer));
    }
    c->end = type ? 0 : (int32_t)charl_tokenizer_get_end_of_text(c->tokenizer);
    CHARL_REQUIRE(c->end >= 0, CHARL_ERR_DATA, "%s has no end-of-text token, which fills windows", name);
    CHARL_TRY(charl__encoder_create(c->tokenizer, false, &c->plain));
    CHARL_TRY(charl__encoder_create(c->tokenizer, true, &c->special));
    return CHARL_OK;
}

/* Report the first marker of the template, such as <|im_start|>, for which the tokenizer has no token. */
static void note_markers(const chat *c, const charl_import_options *opt)
{
    for (int i = 0; i <= 2 * CHARL__CHAT_ROLES; i++) {
        const charl__surroundings *role = &c->t.role[(i - 1) / 2];
        const char *at = i == 0 ? c->t.begin : i % 2 == 1 ? role->before : role->after, *end;

        for (; (at = strstr(at, "<|")) != NULL && (end = strstr(at, "|>")) != NULL; at = end) {
            const int length = (int)(end + 2 - at);
            char marker[64];

            snprintf(marker, sizeof marker, "%.*s", length, at);
            if (charl_tokenizer_find_special(c->tokenizer, marker) < 0) {
                charl__import_note(
                    opt, "the tokenizer has no token %s, so it is written as text; --template alpaca needs none",
                    marker);
                return;
            }
        }
    }
}

/* The conversations of several files, as a split that begins at c->base. A window's last target is the token after it. */
static charl_status end_split(chat *c)
{
    const int64_t window = c->o->window, n = c->n_tokens - c->base;
    const int64_t fill = window > 0 && n > 0 ? (window - n % window) % window + 1 : 0;

    for (int64_t i = 0; i < fill; i++) {
        CHARL_TRY(add_tokens(c, &c->end, 1));
    }
    return CHARL_OK;
}

static charl_status read_conversations(chat *c, const charl__paths *paths)
{
    for (int64_t i = 0; i < paths->n; i++) {
        CHARL_TRY(charl__lines_each(paths->path[i], true, read_line, c));
    }
    return CHARL_OK;
}

/* The last part of the conversations is for validation: they are packed again, as a separate split. */
static charl_status split_off(chat *c, int64_t keep, int64_t *train)
{
    const int64_t n = c->n_starts;
    CHARL_SCOPED_FREE int64_t *starts = c->starts, *ends = c->ends;
    CHARL_SCOPED_FREE unsigned char *counts = c->counts;
    CHARL_SCOPED_FREE int32_t *tokens = c->tokens;

    c->starts = c->ends = NULL;
    c->tokens = NULL;
    c->counts = NULL;
    c->n_starts = c->n_tokens = 0;
    for (int64_t i = 0; i < n; i++) {
        if (i == keep) {
            CHARL_TRY(end_split(c));
            *train = c->base = c->n_tokens;
        }
        c->first = c->n_tokens;
        for (int64_t k = starts[i]; k < ends[i]; k++) {
            c->counting = counts[k];
            CHARL_TRY(add_tokens(c, &tokens[k], 1));
        }
        c->counting = false;
        CHARL_TRY(end_conversation(c, "", 0));
    }
    return CHARL_OK;
}

static charl_status write_tokens(chat *c, const char *out, int64_t train, bool overwrite)
{
    const int64_t vocab = charl_tokenizer_get_vocab(c->tokenizer);
    const charl_shape one = {0, {0}};
    charl__writer_spec spec = {
        .kind = CHARL_DATASET_TOKENS, .classes = vocab, .rows = train, .more = c->n_tokens - train};
    CHARL_SCOPED(charl__writer_left) charl__writer *w = NULL;

    spec.x_dtype = vocab <= 1 << 8 ? CHARL_U8 : vocab <= 1 << 16 ? CHARL_U16 : CHARL_U32;
    for (int64_t i = 0; i < c->n_tokens; i++) { /* in place */
        if (spec.x_dtype == CHARL_U8) {
            ((unsigned char *)c->tokens)[i] = (unsigned char)c->tokens[i];
        } else if (spec.x_dtype == CHARL_U16) {
            ((uint16_t *)(void *)c->tokens)[i] = (uint16_t)c->tokens[i];
        }
    }
    CHARL_TRY(charl__writer_create(out, &spec,
                                   &(charl_import_options){sizeof(charl_import_options), .overwrite = overwrite}, &w));
    CHARL_TRY(charl__writer_put(w, c->tokens, NULL, c->n_tokens));
    CHARL_TRY(charl__writer_documents(w, c->starts, c->n_starts));
    CHARL_TRY(charl__writer_array(w, "/train/weights", CHARL_U8, &one, train, c->counts));
    if (spec.more > 0) {
        CHARL_TRY(charl__writer_array(w, "/val/weights", CHARL_U8, &one, spec.more, c->counts + train));
    }
    if (c->o->window > 0) {
        CHARL_TRY(charl__writer_number(w, "window", c->o->window));
    }
    CHARL_TRY(charl__tokenizer_store(c->tokenizer, w));
    CHARL_TRY(charl__writer_finish(w));
    return CHARL_OK;
}

static charl_status run_chat(const void *settings, const char *const *names, int n, const char *out,
                             const charl_import_options *opt)
{
    charl_status st = CHARL_OK;
    charl__paths files[2] = {{0}, {0}};
    chat c = {.o = settings};
    int64_t train, val;

    CHARL_REQUIRE_CLEANUP(c.o->longer == REFUSE || c.o->window > 0, CHARL_ERR_CONFIG,
                          "longer: conversations have any length where there is no window");
    CHARL_TRY_CLEANUP(charl__import_paths(files, names, n, c.o->val_file, opt->val_split, ".jsonl", out));
    CHARL_TRY_CLEANUP(charl__commit_check_inputs(out, (const char *const[]){c.o->template_name, c.o->tokenizer}, 2));
    CHARL_TRY_CLEANUP(charl__chat_template_find(c.o->template_name, &c.t));
    CHARL_TRY_CLEANUP(open_tokenizer(&c));
    note_markers(&c, opt);
    CHARL_TRY_CLEANUP(read_conversations(&c, &files[0]));
    CHARL_REQUIRE_CLEANUP(c.n_starts > 0, CHARL_ERR_DATA, "%s: there are no conversations%s", files[0].path[0],
                          c.o->longer == SKIP ? " that fit the window" : "");
    train = c.n_tokens;
    if (opt->val_split != 0) {
        CHARL_TRY_CLEANUP(charl__val_split_count(files[0].path[0], "conversations", c.n_starts, opt->val_split, &val));
        CHARL_TRY_CLEANUP(split_off(&c, c.n_starts - val, &train));
    } else if (files[1].n > 0) {
        CHARL_TRY_CLEANUP(end_split(&c));
        train = c.base = c.n_tokens;
        CHARL_TRY_CLEANUP(read_conversations(&c, &files[1]));
    }
    CHARL_TRY_CLEANUP(end_split(&c));
    CHARL_TRY_CLEANUP(write_tokens(&c, out, c.base > 0 ? train : c.n_tokens, opt->overwrite));
cleanup:
    charl__encoder_destroy(c.plain);
    charl__encoder_destroy(c.special);
    charl_tokenizer_destroy(c.tokenizer);
    charl__chat_template_fini(&c.t);
    charl__paths_fini(&files[0]);
    charl__paths_fini(&files[1]);
    charl_free(c.tokens);
    charl_free(c.counts);
    charl_free(c.starts);
    charl_free(c.ends);
    return st;
}

static const charl_key keys[] = {
    {"tokenizer", CHARL_KEY_TEXT, offsetof(chat_settings, tokenizer), NULL, false,
     "the file or folder of a published tokenizer, or bytes (default)", NULL},
    {"template", CHARL_KEY_TEXT, offsetof(chat_settings, template_name), NULL, false,
     "how a conversation is written out: chatml (default), llama3, alpaca, or a JSON file", NULL},
    {"window", CHARL_KEY_INT, offsetof(chat_settings, window), "[1,1000000]", false,
     "pack conversations into windows of so many tokens, none cut: data.window, or model.block_size, of the training",
     NULL},
    {"longer", CHARL_KEY_CHOICE, offsetof(chat_settings, longer), NULL, false,
     "what to do with a conversation that is longer than the window (default: refuse)", "refuse|cut|skip"},
    {"val_file", CHARL_KEY_TEXT, offsetof(chat_settings, val_file), NULL, false,
     "a file, folder or pattern to validate on, instead of --val-split", NULL},
};
static const chat_settings defaults = {0};

const charl_importer charl__importer_chat = {
    .row.name = "chat",
    .row.help = "chats and instructions: .jsonl, plain or .gz; files, folders and patterns",
    CHARL_KEYS(keys),
    CHARL_DEFAULTS(defaults),
    .files = "PATH...",
    .group = 1,
    .note = "A line is {\"messages\": [{\"role\": \"user\", \"content\": ...}, ...]}, {\"conversations\": [{\"from\": "
            "\"human\", "
            "\"value\": ...}, ...]}, {\"instruction\": ..., \"input\": ..., \"output\": ...} or {\"prompt\": ..., "
            "\"completion\": ...}. Only what the assistant says counts in the loss, and the end of it. Train with "
            "data.documents = separate.",
    .run = run_chat,
};
