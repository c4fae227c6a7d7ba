#ifndef CHARL_GENERATE_H
#define CHARL_GENERATE_H
/** Text from a trained language model, token by token. */
#include "charl/config.h"
#include "charl/device.h"

CHARL_BEGIN_DECLS

/** How tokens are drawn, and what is reported. */
typedef struct charl_generate_options {
    const char *prompt; /* text that is continued, not empty */
    size_t prompt_bytes;
    int64_t tokens;                              /* to generate */
    double temperature;                          /* 0: always the most probable token */
    int64_t top_k;                               /* only the k most probable tokens; 0: all */
    double top_p;                                /* only the most probable tokens that reach this probability; 1: all */
    uint64_t seed;                               /* the same seed gives the same text */
    bool no_cache;                               /* compute the whole window for every token: slower, the same text */
    void (*warned)(void *ctx, const char *text); /* NULL, or gets warnings */
    void *warned_ctx;
    charl_compiling compiling; /* as in charl_device_request; NULL: none */
    void *compiling_ctx;
} charl_generate_options;

/** Gets the bytes of the prompt, then of each token as soon as it is drawn; a character may be
 * spread over several calls. Borrowed for the call. A status other than CHARL_OK ends generation
 * with it. */
typedef charl_status (*charl_generated)(void *ctx, const char *text, size_t bytes);

/** Continue a prompt with the weights of a checkpoint, or their moving average where it holds one.
 * The tokenizer is that of the checkpoint; one of format version 1 holds none, and it comes from
 * the data set that data.path names.
 *
 *  The model sees a window of at most block_size tokens, which slides on when it is full. Keys and
 * values of the window stay on the device, so that a token costs one position; once the window
 * slides, and in models of type sequential (which must be causal), it costs the whole window.
 *
 *  Blocks. Local. Deterministic: each token is drawn in double from (seed, number of the token).
 *  Errors: ERR_CONFIG      the model does not generate text, or options that make no sense
 *          ERR_DATA        the model was trained on tokens without a tokenizer, or the data set
 * that should hold it is missing; the prompt cannot be encoded ERR_CHECKPOINT  weights of another
 * model, or of another tokenizer ERR_NONFINITE   the model's output is not finite ERR_NOMEM,
 * ERR_DEVICE, ERR_KERNEL */
charl_status charl_generate(const charl_config *config, const char *checkpoint, const charl_generate_options *options,
                            charl_generated generated, void *ctx) CHARL_MUST_CHECK;

CHARL_END_DECLS

#endif
