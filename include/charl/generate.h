#ifndef CHARL_GENERATE_H
#define CHARL_GENERATE_H
/** Text from a trained language model, token by token. */
#include "charl/config.h"
#include "charl/device.h"

CHARL_BEGIN_DECLS

/** How tokens are drawn, and what is reported. Zero is the default of all members but tokens and top_p.
 *
 *  prompt          [prompt_bytes] charl_generate: the text to continue, not empty; charl_generate_chat: the system
 *                  message, may be empty
 *  chat_template   charl_generate_chat: as template_name of charl_chat_options; NULL: "chatml"
 *  tokenizer       path of the tokenizer (charl_tokenizer_load), for a checkpoint that holds none; NULL: none
 *  special_tokens  special tokens in the prompt, such as <|endoftext|>, stand for themselves
 *  tokens          to generate
 *  batch           charl_generate_file: prompts that are continued at a time, which share the work on every weight;
 *                  each takes device memory for its keys and values. 0: 16
 *  temperature     0: always the most probable token
 *  top_k           only the k most probable tokens; 0: all
 *  top_p           only the most probable tokens that reach this probability; 1: all
 *  min_p           only tokens with at least this fraction of the probability of the most probable one; 0: all
 *  repetition_penalty  above 1: a token that is in the window is less probable, its logit divided by this if positive,
 *                  else multiplied (Keskar et al. 2019), at most 1000; 0 or 1: no penalty
 *  stop            [n_stop] texts: generation ends in front of the first of them that it generates
 *  ignore_end      continue after the end-of-text token, which otherwise ends generation and is not reported
 *  seed            the same seed gives the same text
 *  no_cache        compute the whole window for every token: slower, the same text
 *  warned          gets warnings; NULL: nothing does
 *  compiling       as in charl_device_request; NULL: none */
typedef struct charl_generate_options {
    size_t struct_size; /* sizeof(charl_generate_options) */
    const char *prompt;
    size_t prompt_bytes;
    const char *chat_template;
    const char *tokenizer;
    bool special_tokens;
    int64_t tokens;
    int64_t batch;
    double temperature;
    int64_t top_k;
    double top_p;
    double min_p;
    double repetition_penalty;
    const char *const *stop;
    int n_stop;
    bool ignore_end;
    uint64_t seed;
    bool no_cache;
    void (*warned)(void *ctx, const char *text);
    void *warned_ctx;
    charl_compiling compiling;
    void *compiling_ctx;
} charl_generate_options;

/** Gets the bytes of the prompt, then of each token as soon as it is drawn; a character may be
 *  spread over several calls. Bytes that may begin a stop text come later, with a token that decides it: then there may
 *  be none now. Borrowed for the call. A status other than CHARL_OK ends generation
 *  with it. */
typedef charl_status (*charl_generated)(void *ctx, const char *text, size_t bytes);

/** Continue a prompt with the weights of a checkpoint, or their moving average where it holds one.
 *  The tokenizer is that of the checkpoint, or the one that the options name where the checkpoint holds none. For a
 *  checkpoint of format version 1 it can also be that of the data set that data.path names.
 *
 *  The model sees a window of at most block_size tokens, which slides on when it is full. Keys and
 *  values of the window stay on the device, so that a token costs one position; once the window
 *  slides, and in models of type sequential (which must be causal), it costs the whole window. Computes in
 *  train.precision, in which keys and values are kept too.
 *
 *  Blocks. Local. Deterministic: each token is drawn in double from (seed, number of the token).
 *  Errors: ERR_CONFIG      the model does not generate text, or options that make no sense
 *          ERR_DATA        the model was trained on tokens without a tokenizer, or the data set that should hold it is
 *                          missing; the prompt cannot be encoded
 *          ERR_CHECKPOINT  weights of another model, or of another tokenizer
 *          ERR_NONFINITE   the model's output is not finite
 *          ERR_NOMEM, ERR_DEVICE, ERR_KERNEL */
charl_status charl_generate(const charl_config *config, const char *checkpoint, const charl_generate_options *options,
                            charl_generated generated, void *ctx) CHARL_MUST_CHECK;

/** Gets a prompt and its text as a line of JSON, {"prompt": "...", "text": "..."}, without its end; text is what was
 *  generated, of `tokens` tokens. Bytes that are not UTF-8 are U+FFFD. Borrowed for the call. An error ends generation
 *  with it. */
typedef charl_status (*charl_generated_line)(void *ctx, const char *json, int64_t tokens);

/** Continue every prompt of the file `path`, options->batch of them at a time, and report them in the order of the
 *  file. A line is a prompt or, in a .jsonl file, {"prompt": "..."}; both may be .gz, and empty lines are left out.
 *  Each text is what charl_generate makes of the prompt with the same options, whatever the others are.
 *  options->prompt is not used.
 *
 *  Blocks. Local. Deterministic. Errors: as charl_generate; ERR_DATA  the file, with the line. */
charl_status charl_generate_file(const charl_config *config, const char *checkpoint, const char *path,
                                 const charl_generate_options *options, charl_generated_line done,
                                 void *ctx) CHARL_MUST_CHECK;

/** Gets what the user says next into *text [*bytes], borrowed until the next call; NULL ends the conversation. A status
 *  other than CHARL_OK ends it with that. */
typedef charl_status (*charl_chat_message)(void *ctx, const char **text, size_t *bytes);

/** Hold a conversation: to each message of the user the model generates an answer, of at most options->tokens. Messages
 *  are written out by a template, which should be the one that the training data were written with (charl_import_chat).
 *  Special tokens are recognized in the template only. An answer ends at what the template has after it, at an
 *  end-of-text token or at a stop text. The window slides over the conversation as charl_generate says.
 *
 *  message    gives the messages
 *  generated  gets the answers, without prompts
 *
 *  Blocks. Local. Deterministic. Errors: as charl_generate; ERR_CONFIG  the template. */
charl_status charl_generate_chat(const charl_config *config, const char *checkpoint,
                                 const charl_generate_options *options, charl_chat_message message,
                                 charl_generated generated, void *ctx) CHARL_MUST_CHECK;

CHARL_END_DECLS

#endif
