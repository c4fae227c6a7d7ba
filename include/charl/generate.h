#ifndef CHARL_GENERATE_H
#define CHARL_GENERATE_H
/** Text from a trained language model.
 *
 *      charl_generate_options o = {sizeof o};
 *      charl_generator *model = NULL;
 *      int32_t token;
 *
 *      o.temperature = 0.8; // 0: always the most probable token
 *      o.seed = 1;
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
 *  charl_generate, charl_generate_file and charl_generate_chat are loops over a generator with stop texts: a text, many
 *  texts and a conversation.
 */
#include "charl/config.h"
#include "charl/device.h"
#include "charl/tokenizer.h"

CHARL_BEGIN_DECLS

/** How tokens are drawn, and what is reported. Zero is the default of all members but tokens. Of a generator prompt,
 *  chat_template, tokens and stop are not used.
 *
 *  prompt          [prompt_bytes] charl_generate: the text to continue, not empty; charl_generate_chat: the system
 *                  message, may be empty
 *  chat_template   charl_generate_chat: as the setting template of the importer chat; NULL: "chatml"
 *  tokenizer       path of the tokenizer (charl_tokenizer_load), for a checkpoint that holds none; NULL: none
 *  special_tokens  special tokens in the prompt, such as <|endoftext|>, stand for themselves
 *  tokens          to generate
 *  batch           charl_generate_file: prompts that are continued at a time, which share the work on every weight;
 *                  each takes device memory for its keys and values. 0: 16. Of a generator: its sequences; 0: 1
 *  temperature     0: always the most probable token
 *  top_k           only the k most probable tokens; 0: all
 *  top_p           only the most probable tokens that reach this probability; 0 or 1: all
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

/** A model that continues sequences of tokens, each with a cache of keys and values that is kept between calls.
 *
 *  A generator holds options->batch sequences, numbered from 0. They are empty at first. A function that takes a
 *  sequence changes that one; charl_generator_next continues all that are not empty. A sequence costs a pass over the
 *  model for the tokens that its first call finds, then one position for each further token, which all sequences
 *  share. The model sees the last `window` tokens of a sequence. Once the window slides, and in models of type
 *  sequential (which must be causal), each token costs the whole window.
 *
 *  Threads may use a generator in turn, with a lock around each call. Several generators may run in several threads. */
typedef struct charl_generator charl_generator;

typedef struct charl_generator_info {
    const charl_tokenizer *tokenizer; /* borrowed; NULL: the model was trained on token numbers without one */
    int64_t vocab;                    /* tokens are 0 to vocab - 1 */
    int64_t window;
    int64_t batch; /* number of sequences */
} charl_generator_info;

/** Open a checkpoint with its weights, or their moving average where it holds one, and compile the model in
 *  train.precision.
 *
 *  config   of the model, borrowed until the generator is closed; NULL: the configuration in the checkpoint
 *  options  copied, but for what they point to, which is borrowed as long; NULL: greedy
 *
 *  Blocks. Local. Owned: charl_generator_close. Errors: as charl_generate. */
charl_status charl_generator_open(const charl_config *config, const char *checkpoint,
                                  const charl_generate_options *options, charl_generator **out) CHARL_MUST_CHECK;

/** NULL is a no-op. Local. */
void charl_generator_close(charl_generator *g);

/** All 0 for NULL. Local. */
charl_generator_info charl_generator_get_info(const charl_generator *g);

/** Append n tokens, or the tokens of a text (charl_tokenizer_encode, with options->special_tokens), to a sequence.
 *  They are computed by the call that needs them.
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
 *  tokens  [batch]  the token of each sequence. -1: the sequence is empty, or its text ends here. The end-of-text token
 *                   is not appended, unless options->ignore_end makes it a token as any other
 *
 *  Blocks. Local. Deterministic: a function of the tokens of the sequence, options->seed and the number of tokens drawn
 *  since the sequence was empty; the other sequences do not matter. Errors: ERR_NONFINITE  the model's output is not
 *  finite; ERR_DEVICE, ERR_KERNEL, ERR_NOMEM. Cost: a sort of the vocabulary with top_k, top_p or min_p. */
charl_status charl_generator_next(charl_generator *g, int32_t *tokens) CHARL_MUST_CHECK;

/** The logits of the token after a sequence, for a program that draws by itself and appends with charl_generator_put:
 *  *logits [vocab], as the model puts them out, without penalty or temperature. Borrowed until the next call with this
 *  generator.
 *
 *  Blocks. Local. Deterministic. Errors: ERR_INVALID  no such sequence, or it is empty; ERR_DEVICE, ERR_KERNEL,
 *  ERR_NOMEM. */
charl_status charl_generator_logits(charl_generator *g, int64_t sequence, const float **logits) CHARL_MUST_CHECK;

/** Shorten a sequence to its first n tokens, of which the cache is kept: to try several ways to continue a prompt,
 *  which is computed once, or to take back tokens. With n = 0 the sequence is as new. Else drawing goes on with new
 *  random numbers.
 *
 *  Blocks. Local. Errors: ERR_INVALID  no such sequence, or it is shorter. */
charl_status charl_generator_reset(charl_generator *g, int64_t sequence, int64_t n) CHARL_MUST_CHECK;

/** The tokens of a sequence, *n of them; NULL where there is no such sequence, or it never had any. Borrowed until the
 *  next call that changes it. Local. */
const int32_t *charl_generator_get_tokens(const charl_generator *g, int64_t sequence, int64_t *n);

/** Gets the bytes of the prompt, then of each token as soon as it is drawn; a character may be
 *  spread over several calls. Bytes that may begin a stop text come later, with a token that decides it: then there may
 *  be none now. Borrowed for the call. A status other than CHARL_OK ends generation
 *  with it. */
typedef charl_status (*charl_generated)(void *ctx, const char *text, size_t bytes);

/** Continue a prompt with the weights of a checkpoint, or their moving average where it holds one.
 *  The tokenizer is that of the checkpoint, or the one that the options name where the checkpoint holds none. For a
 *  checkpoint of format version 1 it can also be that of the dataset that data.path names.
 *
 *  The model sees a window of at most block_size tokens, which slides on when it is full. Keys and
 *  values of the window stay on the device, so that a token costs one position; once the window
 *  slides, and in models of type sequential (which must be causal), it costs the whole window. Computes in
 *  train.precision, in which keys and values are kept too.
 *
 *  Blocks. Local. Deterministic: each token is drawn in double from (seed, number of the token).
 *  Errors: ERR_CONFIG      the model does not generate text, or options that make no sense
 *          ERR_DATA        the model was trained on tokens without a tokenizer, or the dataset that should hold it is
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
 *  are written out by a template, which should be the one that the training data were written with (the importer chat).
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
