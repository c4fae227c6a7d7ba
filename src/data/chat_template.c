/* Templates of conversations: three built-in ones, others from a file. */
#include "data/chat_template.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "files/json.h"

const char *const charl__chat_role_names[CHARL__CHAT_ROLES] = {"system", "user", "assistant"};

static const struct {
    const char *name;
    charl__chat_template t;
} templates[] = {
    {"chatml",
     {.begin = "",
      .role = {{"<|im_start|>system\n", "<|im_end|>\n"},
               {"<|im_start|>user\n", "<|im_end|>\n"},
               {"<|im_start|>assistant\n", "<|im_end|>\n"}}}},
    {"llama3",
     {.begin = "<|begin_of_text|>",
      .role = {{"<|start_header_id|>system<|end_header_id|>\n\n", "<|eot_id|>"},
               {"<|start_header_id|>user<|end_header_id|>\n\n", "<|eot_id|>"},
               {"<|start_header_id|>assistant<|end_header_id|>\n\n", "<|eot_id|>"}}}},
    {"alpaca",
     {.begin = "", .role = {{"", "\n\n"}, {"### Instruction:\n", "\n\n"}, {"### Response:\n", CHARL__CHAT_END}}}},
};
enum { TEMPLATES = sizeof templates / sizeof *templates };

/* A piece of a template in a file: empty if the file has none. */
static charl_status read_piece(const charl__json *j, const char *name, charl__text *out, const char **piece)
{
    bool found;

    CHARL_TRY(charl__json_get(j, name, strlen(name), out, &found));
    *piece = charl__text_string(out);
    return CHARL_OK;
}

/* {"begin": ..., "user": {"before": ..., "after": ...}, ...} */
static charl_status read_template(const char *path, charl__chat_template *t)
{
    CHARL_SCOPED(charl__json_left) charl__json *j = NULL;
    char name[32];

    CHARL_TRY(charl__json_open(path, &j));
    CHARL_TRY(read_piece(j, "begin", &t->text[0], &t->begin));
    for (int r = 0; r < CHARL__CHAT_ROLES; r++) {
        snprintf(name, sizeof name, "%s.before", charl__chat_role_names[r]);
        CHARL_TRY(read_piece(j, name, &t->text[1 + 2 * r], &t->role[r].before));
        snprintf(name, sizeof name, "%s.after", charl__chat_role_names[r]);
        CHARL_TRY(read_piece(j, name, &t->text[2 + 2 * r], &t->role[r].after));
    }
    CHARL_REQUIRE(t->role[CHARL__CHAT_ASSISTANT].after[0], CHARL_ERR_CONFIG,
                  "%s: assistant.after is missing: a model must learn where an answer ends; HINT "
                  "\"assistant\": {\"before\": \"...\", \"after\": \"" CHARL__CHAT_END "\"}",
                  path);
    return CHARL_OK;
}

charl_status charl__chat_template_find(const char *name, charl__chat_template *out)
{
    name = name ? name : templates[0].name;
    for (int i = 0; i < TEMPLATES; i++) {
        if (strcmp(name, templates[i].name) == 0) {
            *out = templates[i].t;
            return CHARL_OK;
        }
    }
    return charl__error_in(read_template(name, out), CHARL_ERR_CONFIG, "template: chatml, llama3, alpaca or a file: ");
}

void charl__chat_template_fini(charl__chat_template *t)
{
    for (int i = 0; i < 1 + 2 * CHARL__CHAT_ROLES; i++) {
        charl__text_fini(&t->text[i]);
    }
}

charl_status charl__chat_template_put(const char *piece, int32_t end, charl__encoder *special, charl__token_sink sink,
                                      void *ctx)
{
    for (const char *next; *piece; piece = next) {
        next = strstr(piece, CHARL__CHAT_END);
        if (next == piece) {
            CHARL_TRY(sink(ctx, &end, 1));
            next += strlen(CHARL__CHAT_END);
            continue;
        }
        next = next ? next : piece + strlen(piece);
        CHARL_TRY(charl__encoder_run(special, piece, (size_t)(next - piece), sink, ctx));
    }
    return CHARL_OK;
}
