/* charl generate: prints text from a trained language model as it is generated. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <charl/error.h>
#include <charl/generate.h>
#include "cli/charl/commands.h"

enum { MAX_STOPS = 16 };

typedef struct generation {
    charl_generate_options options;
    const char *stop[MAX_STOPS];
    const char *prompts; /* their file; NULL: one prompt */
    const char *system;  /* of a conversation */
    bool chats;
    bool from_terminal; /* messages */
    bool answered;
    char *line, *message; /* from the user: a line of input, joined if continued */
    size_t line_size;
    int64_t seed;     /* -1: run.seed */
    bool to_terminal; /* true where control characters would affect it */
    char part[4];     /* of an incomplete character to be printed on a terminal */
    size_t part_bytes;
    int64_t pieces; /* of text so far, one per token; the first is the prompt */
    double first_s; /* time of the first token */
} generation;

static error_t parse_stop(void *input, const char *option, const char *value)
{
    generation *g = input;

    if (value[0] == '\0') {
        return charl__cli_bad_option(option, value, "must not be empty");
    }
    if (g->options.n_stop == MAX_STOPS) {
        return charl__cli_bad_option(option, value, "can be given 16 times");
    }
    g->stop[g->options.n_stop++] = value;
    return 0;
}

/* Length of the character that begins with `first`; 1 if none does. */
static size_t wanted(char first)
{
    const unsigned char c = (unsigned char)first;

    return c < 0xc2 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : c < 0xf5 ? 4 : 1;
}

/* A token may end inside a character: its bytes wait for the rest. */
static void put_on_terminal(generation *g, const char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        g->part[g->part_bytes++] = text[i];
        if ((text[i] & 0xc0) != 0x80 && g->part_bytes > 1) { /* the rest never arrived */
            charl__cli_write(stdout, g->part, g->part_bytes - 1);
            g->part[0] = text[i];
            g->part_bytes = 1;
        }
        if (text[i] == '\n') {
            putchar('\n');
            g->part_bytes = 0;
        } else if (g->part_bytes == wanted(g->part[0])) {
            charl__cli_write(stdout, g->part, g->part_bytes);
            g->part_bytes = 0;
        }
    }
}

static charl_status put(void *ctx, const char *text, size_t bytes)
{
    generation *g = ctx;

    if (g->pieces == 0) {
        charl__cli_compiling_done();
    }
    if (g->to_terminal) {
        put_on_terminal(g, text, bytes);
    } else {
        fwrite(text, 1, bytes, stdout);
    }
    CHARL_REQUIRE(fflush(stdout) == 0, CHARL_ERR_DISK, "standard output could not be written: %s", strerror(errno));
    if (++g->pieces == 2) {
        g->first_s = charl__cli_clock_s();
    }
    return CHARL_OK;
}

static void say_count(int64_t n)
{
    fprintf(stderr, "charl: %" PRId64 " token%s", n, n == 1 ? "" : "s");
}

/* The rate excludes the first token, which includes compilation. */
static void say_rate(const generation *g, double begun_s)
{
    const int64_t n = g->pieces - 1;

    say_count(n);
    if (n == 0) {
        fprintf(stderr, ": the text ended at once\n");
        return;
    }
    fprintf(stderr, n == 1 ? " after %.2f s" : ", the first after %.2f s", g->first_s - begun_s);
    if (n > 1) {
        fprintf(stderr, ", then %.1f per second", (double)(n - 1) / (charl__cli_clock_s() - g->first_s));
    }
    fprintf(stderr, "\n");
}

static charl_status put_line(void *ctx, const char *json, int64_t tokens)
{
    generation *g = ctx;

    if (g->pieces == 0) {
        charl__cli_compiling_done();
        g->pieces = 1; /* because the prompt counts in the rate */
    }
    g->pieces += tokens;
    puts(json);
    CHARL_REQUIRE(fflush(stdout) == 0, CHARL_ERR_DISK, "standard output could not be written: %s", strerror(errno));
    return CHARL_OK;
}

/* A message is a line; a line that ends in a backslash continues on the next. */
static charl_status next_message(void *ctx, const char **text, size_t *bytes)
{
    generation *g = ctx;
    size_t n = 0;
    bool goes_on = true;

    if (g->answered) {
        putchar('\n');
    }
    g->answered = true;
    *text = NULL;
    while (goes_on) {
        ssize_t got;
        char *longer;

        if (g->from_terminal) {
            fputs(n > 0 ? ". " : "> ", stdout);
        }
        CHARL_REQUIRE(fflush(stdout) == 0, CHARL_ERR_DISK, "standard output could not be written: %s", strerror(errno));
        got = getline(&g->line, &g->line_size, stdin);
        CHARL_REQUIRE(got >= 0 || feof(stdin), CHARL_ERR_IO, "standard input: %s", strerror(errno));
        if (got < 0) {
            break;
        }
        got -= got > 0 && g->line[got - 1] == '\n';
        goes_on = got > 0 && g->line[got - 1] == '\\';
        if (goes_on) {
            g->line[got - 1] = '\n';
        }
        longer = realloc(g->message, n + (size_t)got + 1);
        CHARL_REQUIRE(longer, CHARL_ERR_NOMEM, "a message of %zu bytes", n + (size_t)got);
        g->message = longer;
        memcpy(g->message + n, g->line, (size_t)got);
        n += (size_t)got;
        *text = g->message;
    }
    *bytes = n;
    return CHARL_OK;
}

static int load_and_generate(generation *g, const charl__cli_operands *operands)
{
    const double begun_s = charl__cli_clock_s();
    charl__trained trained;
    charl_config *config;
    charl_status st;
    const int code = charl__cli_limits();

    if (code != CHARL__EXIT_OK) {
        return code;
    }
    st = charl__parse_trained(operands, &trained);
    if (st != CHARL_OK) {
        return charl__cli_fail(st);
    }
    config = trained.config;
    g->options.stop = g->stop;
    g->options.seed = (uint64_t)(g->seed >= 0 ? g->seed : charl__cli_int(config, "run.seed"));
    st = g->prompts ? charl_generate_file(config, trained.path, g->prompts, &g->options, put_line, g)
         : g->chats ? charl_generate_chat(config, trained.path, &g->options, next_message, put, g)
                    : charl_generate(config, trained.path, &g->options, put, g);
    charl_config_destroy(config);
    free(g->line);
    free(g->message);
    if (g->pieces > 0 && !g->prompts && !g->chats) {
        putchar('\n');
    }
    if (st != CHARL_OK) {
        return charl__cli_fail(st);
    }
    if (g->prompts) {
        say_count(g->pieces - 1);
        fprintf(stderr, " after %.2f s\n", charl__cli_clock_s() - begun_s);
        return CHARL__EXIT_OK;
    }
    fflush(stdout);
    if (!g->chats) {
        say_rate(g, begun_s);
    }
    return CHARL__EXIT_OK;
}

int charl__generate_main(const char *path, int argc, char **argv)
{
    static const charl__cli_option options[] = {
        {"prompt", 'p', "TEXT", "The text to continue", 1, CHARL__CLI_TEXT(generation, options.prompt)},
        {"prompts", 0, "FILE",
         "Continue each line of FILE or, if its name ends in .jsonl, the \"prompt\" of each object; prints lines of "
         "JSON. Each text is the "
         "one that --prompt gives with the same seed",
         1, CHARL__CLI_TEXT(generation, prompts)},
        {"chat", 0, NULL,
         "Hold a conversation: each line of standard input is a message, to which the model answers. A line that ends "
         "in \\ continues on the next; Ctrl-D ends the conversation",
         1, CHARL__CLI_FLAG(generation, chats)},
        {"template", 0, "NAME",
         "With --chat: the format of messages, the same as in the training data: chatml (default), llama3, alpaca or a "
         "JSON file",
         1, CHARL__CLI_TEXT(generation, options.chat_template)},
        {"system", 0, "TEXT", "With --chat: the system message, before all others", 1,
         CHARL__CLI_TEXT(generation, system)},
        {"batch", 0, "N",
         "With --prompts: continue N prompts at a time (default 16). The texts do not depend on N; a larger N is "
         "faster on a GPU and takes more memory",
         1, CHARL__CLI_INT(generation, options.batch, 1, INT16_MAX)},
        {"tokens", 'n', "N", "Number of tokens to generate (default 200)", 1,
         CHARL__CLI_INT(generation, options.tokens, 1, INT32_MAX)},
        {"temperature", 0, "T", "Sampling temperature; 0: always the most probable token (default 0.8)", 2,
         CHARL__CLI_NUMBER(generation, options.temperature, "[0,inf)")},
        {"top-k", 0, "K", "Sample from the K most probable tokens (default: all)", 2,
         CHARL__CLI_INT(generation, options.top_k, 1, INT32_MAX)},
        {"top-p", 0, "P", "Sample from the fewest tokens whose total probability reaches P (default 1: all)", 2,
         CHARL__CLI_NUMBER(generation, options.top_p, "(0,1]")},
        {"min-p", 0, "P",
         "Sample from tokens with at least P times the probability of the most probable one (default 0: all)", 2,
         CHARL__CLI_NUMBER(generation, options.min_p, "[0,1]")},
        {"repeat-penalty", 0, "X",
         "Make tokens of the context less probable: divide their positive logits by X (default 1: off)", 2,
         CHARL__CLI_NUMBER(generation, options.repetition_penalty, "[1,1000]")},
        {"stop", 0, "TEXT", "End before TEXT; can be repeated", 1, .parse = parse_stop},
        {"ignore-end", 0, NULL, "Continue past the end-of-text token, which otherwise ends the text", 1,
         CHARL__CLI_FLAG(generation, options.ignore_end)},
        {"seed", 0, "N", "Seed for sampling (default: run.seed)", 2, CHARL__CLI_INT(generation, seed, 0, INT64_MAX)},
        {"tokenizer", 0, "FILE", "File or folder of the tokenizer, for a model that was trained on token numbers", 1,
         CHARL__CLI_TEXT(generation, options.tokenizer)},
        {"special-tokens", 0, NULL, "Recognize special tokens in the prompt, such as <|endoftext|>", 1,
         CHARL__CLI_FLAG(generation, options.special_tokens)},
        {"no-cache", 0, NULL, "Do not cache keys and values: slower, the same text in f32", 3,
         CHARL__CLI_FLAG(generation, options.no_cache)},
        {0}};
    static const charl__cli_syntax syntax = {
        options, "[CONFIG] CHECKPOINT [SECTION.KEY=VALUE...]",
        "Continue a prompt with a trained language model, or hold a conversation with it. Prints each token as it is "
        "generated.\vCONFIG is by default the configuration that the checkpoint was trained with. A run directory "
        "stands for its last checkpoint. "
        "The tokenizer is read from the checkpoint. A checkpoint of format version 1 has none: then the "
        "dataset's is read; if the dataset has moved, add data.path=FILE. The context is the last block_size tokens "
        "(data.window for sequential models). Once the text is longer, each token costs a pass over the whole context. "
        "train.precision=bf16 computes in half precision."};
    charl__cli_operands operands = {.names = {"CHECKPOINT"}, .max = 2 + CHARL__CLI_OVERRIDES};
    generation g = {.options = {sizeof g.options, .tokens = 200, .temperature = 0.8, .top_p = 1.0,
                                .warned = charl__cli_warn, .compiling = charl__cli_compiling_show},
                    .seed = -1,
                    .to_terminal = isatty(STDOUT_FILENO),
                    .from_terminal = isatty(STDIN_FILENO)};
    const int code = charl__cli_parse(path, &syntax, &operands, argc, argv, &g);

    if (code >= 0) {
        return code;
    }
    g.options.prompt_bytes = g.options.prompt ? strlen(g.options.prompt) : 0;
    if ((g.prompts != NULL) + (g.options.prompt != NULL) + g.chats > 1) {
        return charl__cli_error(CHARL__EXIT_USAGE, NULL, "--prompt, --prompts and --chat exclude each other");
    }
    if ((g.options.chat_template || g.system) && !g.chats) {
        return charl__cli_error(CHARL__EXIT_USAGE, "add --chat", "--template and --system are for conversations");
    }
    if (g.options.batch > 0 && !g.prompts) {
        return charl__cli_error(CHARL__EXIT_USAGE, "add --prompts FILE", "--batch is for several prompts");
    }
    if (g.chats) {
        g.options.prompt = g.system;
        g.options.prompt_bytes = g.system ? strlen(g.system) : 0;
    } else if (g.options.prompt_bytes == 0 && !g.prompts) {
        return charl__cli_error(CHARL__EXIT_USAGE, "add --prompt \"Once upon a time\"",
                                g.options.prompt ? "--prompt is empty" : "--prompt is missing");
    }
    return load_and_generate(&g, &operands);
}
