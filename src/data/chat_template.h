#ifndef CHARL_DATA_CHAT_TEMPLATE_H
#define CHARL_DATA_CHAT_TEMPLATE_H
/** The text format of conversations: the text before and after the messages of each role. */
#include "base/text/text.h"
#include "data/tokenizer/tokenizer_private.h"

typedef enum charl__chat_role { CHARL__CHAT_SYSTEM, CHARL__CHAT_USER, CHARL__CHAT_ASSISTANT } charl__chat_role;
enum { CHARL__CHAT_ROLES = 3 };

/** {end} in a piece is the end-of-text token. */
#define CHARL__CHAT_END "{end}"

/** The text before and after a role's messages. */
typedef struct charl__surroundings {
    const char *before, *after;
} charl__surroundings;

typedef struct charl__chat_template {
    const char *begin; /* of a conversation */
    charl__surroundings role[CHARL__CHAT_ROLES];
    charl__text text[1 + 2 * CHARL__CHAT_ROLES]; /* contents of a template file */
} charl__chat_template;

extern const char *const charl__chat_role_names[CHARL__CHAT_ROLES];

/** The template called `name`, "chatml" if that is NULL, or the one in the JSON file of that path (import_chat.c). Start from {0}; call
 *  charl__chat_template_fini even after a failure. Blocks. Errors: ERR_CONFIG, ERR_NOMEM. */
charl_status charl__chat_template_find(const char *name, charl__chat_template *out) CHARL_MUST_CHECK;
void charl__chat_template_fini(charl__chat_template *t);

/** The tokens of a piece of a template; `special` recognizes special tokens. Errors: those of charl__encoder_run. */
charl_status charl__chat_template_put(const char *piece, int32_t end, charl__encoder *special, charl__token_sink sink,
                                      void *ctx) CHARL_MUST_CHECK;

#endif
