#ifndef CHARL_INFER_SAMPLER_H
#define CHARL_INFER_SAMPLER_H
/** Text of a model that is being trained: eval.sample_prompt, continued by the weights as they are. */
#include "task/session.h"

typedef struct charl__sampler charl__sampler;

/** A sampler of the session's model and parameters, which a compiled graph has laid out. Every sample has the same random numbers, those of
 *  `seed`: samples differ because the weights do. Nothing of the session changes, now or later. *out is owned; the session is borrowed.
 *
 *  Blocks. Local. Errors: ERR_CONFIG  the model or its data are not of text with a tokenizer; ERR_DATA  the prompt cannot be encoded;
 *  ERR_NOMEM, ERR_DEVICE, ERR_KERNEL. */
charl_status charl__sampler_create(const charl__session *session, uint64_t seed, charl__sampler **out) CHARL_MUST_CHECK;
/** NULL is a no-op. */
void charl__sampler_destroy(charl__sampler *s);

/** The prompt and eval.sample_tokens tokens after it, or fewer where the text ends, or the model's output is not finite. *text is UTF-8 of
 *  visible characters, line ends and tabs, valid until the next call. Calls `progress` with `context` after every token.
 *
 *  Blocks. Local. Errors: ERR_NOMEM, ERR_DEVICE. Cost: a forward pass of one window for each token. */
charl_status charl__sampler_run(charl__sampler *s, void (*progress)(void *context), void *context,
                                const char **text) CHARL_MUST_CHECK;

#endif
