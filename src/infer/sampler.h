#ifndef CHARL_INFER_SAMPLER_H
#define CHARL_INFER_SAMPLER_H
/** Text of a model that is being trained: eval.sample_prompt, continued with the current weights. */
#include "task/session.h"

typedef struct charl__sampler charl__sampler;

/** A sampler of the session's model and parameters, which a compiled graph has laid out. All samples use the same random numbers, from
 *  `seed`: they differ only because the weights do. The session is not changed. *out is owned; the session is borrowed.
 *
 *  Blocks. Local. Errors: ERR_CONFIG  the model or its data are not text with a tokenizer; ERR_DATA  the prompt cannot be encoded;
 *  ERR_NOMEM, ERR_DEVICE, ERR_KERNEL. */
charl_status charl__sampler_create(const charl__session *session, uint64_t seed, charl__sampler **out) CHARL_MUST_CHECK;
/** NULL is a no-op. */
void charl__sampler_destroy(charl__sampler *s);

/** The prompt and eval.sample_tokens tokens after it, or fewer if the text ends, or the model's output is not finite. *text is UTF-8 of
 *  visible characters, line ends and tabs, valid until the next call. Calls `progress` with `context` after every token.
 *
 *  Blocks. Local. Errors: ERR_NOMEM, ERR_DEVICE. Cost: a forward pass of one window for each token. */
charl_status charl__sampler_run(charl__sampler *s, void (*progress)(void *context), void *context,
                                const char **text) CHARL_MUST_CHECK;

#endif
