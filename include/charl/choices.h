#ifndef CHARL_CHOICES_H
#define CHARL_CHOICES_H
/** Multiple choice: rank candidate endings of a text by the log-likelihood that a language model gives them. */
#include "charl/checkpoint.h"
#include "charl/config.h"
#include "charl/device.h"

CHARL_BEGIN_DECLS

/** An answered question. Borrowed for the duration of the callback. */
typedef struct charl_choice {
    int64_t line; /* of the file */
    int n, right; /* number of choices; index of the correct one */
    /* The choice with the largest log-likelihood, and with the largest log-likelihood per character; of equals the
     * first */
    int chosen, chosen_norm;
    const double *log_likelihood; /* [n] natural logarithms */
} charl_choice;

/** All members may be zero if the checkpoint holds its tokenizer. */
typedef struct charl_choices_options {
    size_t struct_size; /* sizeof(charl_choices_options) */
    charl_ema_choice ema;
    const char *tokenizer; /* for a checkpoint that holds none (charl_tokenizer_load) */
    int64_t max_rows;      /* endings that are computed together; 0: 16. It does not affect the result */
    charl_status (*answered)(void *ctx, const charl_choice *choice); /* NULL: none; an error ends charl_choices */
    void *ctx;
    void (*warned)(void *ctx, const char *text);
    void *warned_ctx;
    charl_compiling compiling;
    void *compiling_ctx;
} charl_choices_options;

typedef struct charl_choices_result {
    int64_t questions;
    int64_t right, right_norm; /* correct answers by log-likelihood, and by log-likelihood per character */
    int64_t cut;               /* endings whose context was cut off at the beginning to fit the model's window */
} charl_choices_result;

/** Answer the questions of a file of JSON lines with the weights of a checkpoint. A line has HellaSwag's form, {"ctx":
 *  "...", "endings": [...], "label": 2}, or ARC's, {"question": "...", "choices": {"text": [...], "label": [...]},
 *  "answerKey": "B"}, which is asked as "Question: ...\nAnswer:".
 *
 *  An ending's log-likelihood is the sum over its tokens of log p(token | all before). Context and " " + ending
 *  are tokenized separately. The characters of an ending are counted without that space, as in the EleutherAI
 *  harness.
 *
 *  Blocks. Local. Deterministic.
 *  Errors: ERR_DATA        the file: line and what is wrong; an ending longer than the window; no tokenizer
 *          ERR_CONFIG      the model does not read tokens; options->tokenizer is set although the checkpoint contains a
 *                          tokenizer
 *          ERR_NONFINITE   the model's output is not finite
 *          ERR_CHECKPOINT, ERR_DEVICE, ERR_KERNEL, ERR_NOMEM
 *  Cost: a forward pass per ending, as long as the longest ending with its context, at most the window. */
charl_status charl_choices(const charl_config *config, const char *checkpoint, const char *path,
                           const charl_choices_options *options, charl_choices_result *result) CHARL_MUST_CHECK;

CHARL_END_DECLS

#endif
