#ifndef CHARL_INFER_GENERATOR_H
#define CHARL_INFER_GENERATOR_H
/** A generator in two steps, for callers whose sequences determine the size of its graphs. */
#include "base/error.h"
#include "charl/generate.h"
#include "task/session.h"

/** Open model, weights and tokenizer. Everything else needs charl__generator_build. Errors: as charl_generator_open. */
charl_status charl__generator_open(const charl_config *config, const char *checkpoint,
                                   const charl_generate_options *options, charl_generator **out) CHARL_MUST_CHECK;

/** Build the graphs for `count` sequences: one begins sequences of n tokens, and is rebuilt for longer ones; the other continues them up to
 *  `most`, or the window. Call once. Errors: ERR_CONFIG, ERR_CHECKPOINT, ERR_DEVICE, ERR_KERNEL, ERR_NOMEM. */
charl_status charl__generator_build(charl_generator *g, int64_t count, int64_t n, int64_t most) CHARL_MUST_CHECK;

/** A generator of one sequence with the model, weights and tokenizer of a session, which it borrows. Its only graph processes the whole window.
 *  The session does not change. Errors: ERR_CONFIG  the model does not predict the next token; ERR_NOMEM, ERR_DEVICE, ERR_KERNEL. */
charl_status charl__generator_borrow(const charl__session *session, const charl_generate_options *options,
                                     charl_generator **out) CHARL_MUST_CHECK;

/** Errors: ERR_DATA  there is no tokenizer. */
charl_status charl__generator_need_tokenizer(const charl_generator *g) CHARL_MUST_CHECK;

/** For CHARL_SCOPED. */
CHARL_SCOPED_POINTER(charl__generator_left, charl_generator, charl_generator_close)

#endif
