#ifndef CHARL_GENERATE_H
#define CHARL_GENERATE_H
/** Text from a trained language model.
 *
 *      charl_generate_options o = {.struct_size = sizeof o, .temperature = 0.8, .seed = 1};
 *      charl_generator *model = NULL;
 *      int32_t token;
 *
 *      check(charl_generator_open(NULL, "run/best.h5", &o, &model));
 *      check(charl_generator_put_text(model, 0, "Once upon a time", 16));
 *      for (int i = 0; i < 200; i++) {
 *          size_t bytes;
 *          const char *text;
 *
 *          check(charl_generator_next(model, &token));
 *          if (token < 0) {
 *              break; // the text ends here
 *          }
 *          text = charl_tokenizer_get_token(charl_generator_get_info(model).tokenizer, token, &bytes);
 *          fwrite(text, 1, bytes, stdout);
 *      }
 *      charl_generator_close(model);
 *
 *  charl_generate, charl_generate_file and charl_generate_chat are loops over a generator that also look for stop
 *  texts: for one text, for the prompts of a file, and for a conversation.
 */
#include "charl/config.h"
#include "charl/device.h"
#include "charl/tokenizer.h"

CHARL_BEGIN_DECLS

/** Sampling of tokens and limits of the text. Zero is the default of all members but tokens. charl_generator_open
 *  ignores prompt, chat_template, tokens and stop.
 *
 *  prompt          [prompt_bytes] charl_generate: the text to continue, not empty; charl_generate_chat: the system
 *                  message, may be empty
 *  chat_template   charl_generate_chat: as the setting template of the importer chat; NULL: "chatml"
 *  tokenizer       path of the tokenizer (charl_tokenizer_load), for a checkpoint that holds none; NULL: none
 *  special_tokens  recognize special tokens in the prompt, such as <|endoftext|>
 *  tokens          largest number of tokens to generate
 *  batch           charl_generate_file: number of prompts that are continued at a time, each with its keys and values
 *                  in device memory; 0: 16. charl_generator_open: number of sequences; 0: 1
 *  temperature     divides the logits before the softmax; 0: always take the most probable token
 *  top_k           sample from the k most probable tokens; 0: all
 *  top_p           sample from the fewest most probable tokens whose probabilities sum to this; 0 or 1: all
 *  min_p           sample from tokens with at least this fraction of the largest probability; 0: all
 *  repetition_penalty  make tokens of the window less probable: divide a positive logit by this and multiply a negative
 *                  one (Keskar et al. 2019). 1 to 1000; 0 or 1: no penalty
 *  stop            [n_stop] texts; generation ends before the first that would be generated
 *  ignore_end      continue after the end-of-text token, which otherwise ends generation and is not reported
 *  seed            the same seed gives the same text
 *  no_cache        compute the whole window for every token: slower, the same text
 *  warned          gets warnings; NULL: they are discarded
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

/** A model that continues sequences of tokens, each with a cache of keys and values that is kept between calls.
 *
 *  A generator holds options->batch sequences, numbered from 0. They are empty at first. A function that takes a
 *  sequence changes that one; charl_generator_next continues all that are not empty. The first tokens of a sequence
 *  are computed in one pass over the model, each later token as one position, in one pass for all sequences. The model
 *  sees the last `window` tokens of a sequence. Once a sequence is longer, and always with a model of type
 *  sequential (which must be causal), each token costs the whole window.
 *
 *  Threads may use a generator in turn, with a lock around each call. Several generators may run in several threads. */
typedef struct charl_generator charl_generator;

typedef struct charl_generator_info {
    const charl_tokenizer *tokenizer; /* borrowed; NULL: the model was trained on token numbers without one */
    int64_t vocab; /* tokens are 0 to vocab - 1; the tokenizer may have fewer, and gives NULL for the others */
    int64_t window;
    int64_t batch; /* number of sequences */
} charl_generator_info;

/** Open a checkpoint and compile the model in train.precision. The weights are the moving average if the checkpoint
 *  holds one.
 *
 *  config   of the model, borrowed until the generator is closed; NULL: the configuration in the checkpoint
 *  options  copied, except for what they point to, which is borrowed until the generator is closed; NULL: defaults
 *
 *  Blocks. Local. Owned: charl_generator_close. Errors: as charl_generate. */
charl_status charl_generator_open(const charl_config *config, const char *checkpoint,
                                  const charl_generate_options *options, charl_generator **out) CHARL_MUST_CHECK;

/** Close a generator. NULL is a no-op. Local. */
void charl_generator_close(charl_generator *g);

/** Properties of a generator; all 0 for NULL. Local. */
charl_generator_info charl_generator_get_info(const charl_generator *g);

/** Append n tokens, or the tokens of a text (charl_tokenizer_encode, with options->special_tokens), to a sequence.
 *  The next call that needs logits computes them.
 *
 *  Blocks. Local. Errors: ERR_INVALID  no such sequence, or a token that the model does not have
 *                         ERR_DATA     the text cannot be encoded, or there is no tokenizer
 *                         ERR_NOMEM */
charl_status charl_generator_put(charl_generator *g, int64_t sequence, const int32_t *tokens,
                                 int64_t n) CHARL_MUST_CHECK;
charl_status charl_generator_put_text(charl_generator *g, int64_t sequence, const char *text,
                                      size_t bytes) CHARL_MUST_CHECK;

/** Draw the next token of every sequence that is not empty, and append it.
 *
 *  tokens  [batch]  the token of each sequence; -1: the sequence is empty, or its text ends here. The end-of-text token
 *                   is appended only with options->ignore_end
 *
 *  Blocks. Local. Deterministic: a function of the tokens of the sequence, options->seed and the number of tokens drawn
 *  since the sequence was empty, not of the other sequences. Errors: ERR_NONFINITE  the model's output is not
 *  finite; ERR_DEVICE, ERR_KERNEL, ERR_NOMEM. Cost: with top_k, top_p or min_p a sort of the vocabulary. */
charl_status charl_generator_next(charl_generator *g, int32_t *tokens) CHARL_MUST_CHECK;

/** Get the logits of the token after a sequence, for a program that samples by itself and appends its token with
 *  charl_generator_put: *logits [vocab], the output of the model, without penalty or temperature. Borrowed until the
 *  next call with this generator.
 *
 *  Blocks. Local. Deterministic. Errors: ERR_INVALID  no such sequence, or it is empty; ERR_DEVICE, ERR_KERNEL,
 *  ERR_NOMEM. */
charl_status charl_generator_logits(charl_generator *g, int64_t sequence, const float **logits) CHARL_MUST_CHECK;

/** Shorten a sequence to its first n tokens and keep their keys and values: to continue a prompt in several ways and
 *  compute it once, or to remove tokens. With n = 0 the sequence is as new; otherwise later tokens are drawn with new
 *  random numbers.
 *
 *  Blocks. Local. Errors: ERR_INVALID  no such sequence, or it is shorter. */
charl_status charl_generator_reset(charl_generator *g, int64_t sequence, int64_t n) CHARL_MUST_CHECK;

/** The tokens of a sequence, *n of them; NULL if there is no such sequence, or it never had any. Borrowed until the
 *  next call that changes it. Local. */
const int32_t *charl_generator_get_tokens(const charl_generator *g, int64_t sequence, int64_t *n);

/** Receives the bytes of the prompt, then of each token as soon as it is drawn; a character may be
 *  spread over several calls. Bytes that may begin a stop text are held back until a later token decides; a call may
 *  then have none. Borrowed for the call. A status other than CHARL_OK ends generation with that status. */
typedef charl_status (*charl_generated)(void *ctx, const char *text, size_t bytes);

/** Continue a prompt with the weights of a checkpoint, or their moving average if it holds one.
 *  The tokenizer is the checkpoint's, or options->tokenizer if the checkpoint holds none. For a
 *  checkpoint of format version 1 it can also be the tokenizer of the dataset in data.path.
 *
 *  The model sees the last block_size tokens. Their keys and values stay on the device, so that a token costs one
 *  position; once the text is longer, and always with a model of type sequential (which must be causal), it costs
 *  the whole window. Computes, and stores keys and values, in train.precision.
 *
 *  Blocks. Local. Deterministic: each token is drawn in double from (seed, number of the token).
 *  Errors: ERR_CONFIG      the model does not generate text, or an option is out of range
 *          ERR_DATA        the model was trained on tokens without a tokenizer, or the dataset that should hold it is
 *                          missing; the prompt cannot be encoded
 *          ERR_CHECKPOINT  weights of another model, or of another tokenizer
 *          ERR_NONFINITE   the model's output is not finite
 *          ERR_NOMEM, ERR_DEVICE, ERR_KERNEL */
charl_status charl_generate(const charl_config *config, const char *checkpoint, const charl_generate_options *options,
                            charl_generated generated, void *ctx) CHARL_MUST_CHECK;

/** Receives a prompt and its text as a JSON object, {"prompt": "...", "text": "..."}, without a line end; text is the
 *  generated text of `tokens` tokens. Bytes that are not UTF-8 become U+FFFD. Borrowed for the call. A status other
 *  than CHARL_OK ends generation with that status. */
typedef charl_status (*charl_generated_line)(void *ctx, const char *json, int64_t tokens);

/** Continue every prompt of the file `path`, options->batch of them at a time, and report them in the order of the
 *  file. A line is a prompt or, in a .jsonl file, {"prompt": "..."}; both may be .gz, and empty lines are skipped.
 *  Each text is the one that charl_generate gives for the prompt with the same options, whatever the other prompts are.
 *  options->prompt is not used.
 *
 *  Blocks. Local. Deterministic. Errors: as charl_generate; ERR_DATA  the file, with the line. */
charl_status charl_generate_file(const charl_config *config, const char *checkpoint, const char *path,
                                 const charl_generate_options *options, charl_generated_line done,
                                 void *ctx) CHARL_MUST_CHECK;

/** Provides the next message of the user, *text [*bytes], borrowed until the next call; NULL ends the conversation. A
 *  status other than CHARL_OK ends it with that status. */
typedef charl_status (*charl_chat_message)(void *ctx, const char **text, size_t *bytes);

/** Hold a conversation: the model generates an answer to each message, of at most options->tokens tokens. Messages
 *  are formatted by a template, which should be the one with which the training data were imported (importer chat).
 *  Special tokens are recognized in the template only. An answer ends at the text that the template puts after it, at
 *  an end-of-text token or at a stop text. The model sees the last tokens of the conversation, as in charl_generate.
 *
 *  message    provides the messages
 *  generated  receives the answers, without the messages
 *
 *  Blocks. Local. Deterministic. Errors: as charl_generate; ERR_CONFIG  the template. */
charl_status charl_generate_chat(const charl_config *config, const char *checkpoint,
                                 const charl_generate_options *options, charl_chat_message message,
                                 charl_generated generated, void *ctx) CHARL_MUST_CHECK;

CHARL_END_DECLS

#endif
