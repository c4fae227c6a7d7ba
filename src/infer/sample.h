#ifndef CHARL_INFER_SAMPLE_H
#define CHARL_INFER_SAMPLE_H
/** Draws a token from logits. */
#include "charl/generate.h"
#include "charl/tokenizer.h"

/** One token, a function of logits [n], options and `index`, the number of the draw. With
 *  temperature 0 the first of the largest; else top_k, then min_p, then top_p, then a draw from the remaining tokens, in
 *  proportion to exp(logit / temperature). Equal logits are ordered by token number. Blocks. Local. Errors:
 *  ERR_NONFINITE when a logit is NaN or infinite; ERR_NOMEM. Cost: a sort of n when top_k, min_p or
 *  top_p are given. */
charl_status charl__sample(const charl_generate_options *o, const float *logits, int64_t n, uint64_t index,
                           int32_t *out) CHARL_MUST_CHECK;

/** Whether a token ends a text: the special token for it, or the NUL with which charl's own tokenizers separate documents. */
bool charl__sample_ends_text(const charl_tokenizer *tokenizer, int32_t token);

#endif
