/* Command lines, parsed by argp. So that all errors of the programs look alike, argv[0], which
 * getopt prints, reads "charl: error" during parsing, and argp's error stream is NULL. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <charl/text.h>
#include <charl/checkpoint.h>
#include "cli/cli_describe.h"
#include <charl/dataset.h>

enum { HINT_BYTES = 256 };

typedef struct parse {
    const char *path;
    const struct argp *argp;
    charl__cli_operands *operands;
    void *input;
} parse;

static error_t take_operands(parse *p, int count, char **values)
{
    charl__cli_operands *o = p->operands;
    int required = 0;

    while (required < 4 && o->names[required]) {
        required++;
    }
    o->count = count;
    o->values = values;
    if (count < required) {
        charl__cli_error(0, NULL, "%s is missing", o->names[count]);
        return EINVAL;
    }
    if (count > (o->max > 0 ? o->max : required)) {
        charl__cli_error(0, NULL, "unexpected operand: %s", values[o->max > 0 ? o->max : required]);
        return EINVAL;
    }
    return o->take ? o->take(o, p->input) : 0;
}

static error_t parse_common(int key, char *arg, struct argp_state *state)
{
    parse *p = state->input;

    (void)arg;
    switch (key) {
    case ARGP_KEY_INIT:
        state->err_stream = NULL;
        state->child_inputs[0] = p->input;
        return 0;
    case 'h':
        if (charl_launcher_rank() != 0) {
            exit(CHARL__EXIT_OK);
        }
        state->name = (char *)(uintptr_t)p->path;
        argp_state_help(state, stdout, ARGP_HELP_STD_HELP);
        return 0;
    case ARGP_KEY_ARG:
        return ARGP_ERR_UNKNOWN; /* all at once, next */
    case ARGP_KEY_ARGS:
        return take_operands(p, state->argc - state->next, state->argv + state->next);
    case ARGP_KEY_NO_ARGS:
        return take_operands(p, 0, NULL);
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* Standard error during parsing, redirected to a file on all ranks but the first. */
typedef struct kept_back {
    FILE *text; /* NULL: not redirected */
    int real;   /* a duplicate of standard error */
} kept_back;

static kept_back keep_back(void)
{
    kept_back k = {.text = charl_launcher_rank() != 0 ? tmpfile() : NULL, .real = -1};

    if (k.text) {
        k.real = dup(STDERR_FILENO);
        dup2(fileno(k.text), STDERR_FILENO);
    }
    return k;
}

static void give_back(const kept_back *k)
{
    if (k->text) {
        fflush(stderr);
        dup2(k->real, STDERR_FILENO);
        close(k->real);
    }
}

/* Print the redirected text if this rank is the one that prints. */
static void speak(const kept_back *k)
{
    char block[512];
    size_t n;

    if (k->text && charl__cli_speaks()) {
        rewind(k->text);
        while ((n = fread(block, 1, sizeof block, k->text)) > 0) {
            fwrite(block, 1, n, stderr);
        }
    }
}

/* Whether `word`, without its dashes and value, is an option or the beginning of one. */
static bool is_option(const struct argp_option *options, const char *word, size_t length)
{
    for (const struct argp_option *o = options; o && (o->name || o->key || o->doc); o++) {
        if (o->name && strncmp(o->name, word, length) == 0) {
            return true;
        }
    }
    return false;
}

/* The option that was meant where one of argv is none; NULL where there is none, or nothing is near. */
static const char *nearest_option(const struct argp_option *options, int argc, char **argv)
{
    const char *nearest = NULL;
    char word[64];

    for (int i = 1; i < argc && !nearest && strcmp(argv[i], "--") != 0; i++) {
        const size_t length = strcspn(argv[i], "=");
        int best = INT_MAX;

        if (strncmp(argv[i], "--", 2) != 0 || length - 2 >= sizeof word ||
            is_option(options, argv[i] + 2, length - 2)) {
            continue;
        }
        snprintf(word, sizeof word, "%.*s", (int)(length - 2), argv[i] + 2);
        for (const struct argp_option *o = options; o && (o->name || o->key || o->doc); o++) {
            if (o->name && charl_text_closer(word, o->name, &best)) {
                nearest = o->name;
            }
        }
    }
    return nearest;
}

static int parse_line(const char *path, const struct argp *argp, charl__cli_operands *operands, int argc, char **argv,
                      void *input)
{
    static const struct argp_option options[] = {{"help", 'h', NULL, 0, "Show this help", -1}, {0}};
    const struct argp_child children[] = {{argp, 0, NULL, 0}, {0}};
    const struct argp common = {options, parse_common, NULL, NULL, children, NULL, NULL};
    parse p = {path, argp, operands, input};
    char getopt_name[32];
    char *const own_name = argv[0];
    const kept_back kept = keep_back();
    error_t err;

    snprintf(getopt_name, sizeof getopt_name, "%s: error", charl__cli_program());
    argv[0] = getopt_name;
    err = argp_parse(&common, argc, argv, ARGP_NO_HELP | (operands->program ? ARGP_IN_ORDER : 0), NULL, &p);
    argv[0] = own_name;
    if (err != 0) {
        const char *nearest = nearest_option(argp->options, argc, argv);

        if (nearest) {
            fprintf(stderr, "  hint: did you mean --%s? See `%s --help`\n", nearest, path);
        } else {
            fprintf(stderr, "  hint: see `%s --help`\n", path);
        }
    }
    give_back(&kept);
    if (err != 0) {
        speak(&kept);
    }
    if (kept.text) {
        fclose(kept.text);
    }
    return err != 0 ? CHARL__EXIT_USAGE : -1;
}

static struct {
    charl__cli_take take;
    void *ctx;
} instead;

void charl__cli_parse_instead(charl__cli_take take, void *ctx)
{
    instead.take = take;
    instead.ctx = ctx;
}

int charl__cli_parse(const char *path, const struct argp *argp, charl__cli_operands *operands, int argc, char **argv,
                     void *input)
{
    if (instead.take) {
        instead.take(instead.ctx, path, argp, operands);
        return CHARL__EXIT_OK;
    }
    return parse_line(path, argp, operands, argc, argv, input);
}

error_t charl__cli_bad_option(const char *option, const char *value, const char *want)
{
    charl__cli_error(0, NULL, "%s %s: %s", option, value, want);
    return EINVAL;
}

error_t charl__cli_parse_int(const char *option, const char *value, int64_t lo, int64_t hi, int64_t *out)
{
    char *end = NULL;
    char want[96];
    long long v;

    errno = 0;
    v = strtoll(value, &end, 10);
    if (errno != 0 || end == value || *end || v < lo || v > hi) {
        if (hi == INT64_MAX) {
            snprintf(want, sizeof want, "must be an integer of at least %lld", (long long)lo);
        } else {
            snprintf(want, sizeof want, "must be an integer from %lld to %lld", (long long)lo, (long long)hi);
        }
        return charl__cli_bad_option(option, value, want);
    }
    *out = v;
    return 0;
}

error_t charl__cli_parse_ema(const char *value, int *out)
{
    static const char *const names[] = {[CHARL_EMA_AUTO] = "auto", [CHARL_EMA_YES] = "yes", [CHARL_EMA_NO] = "no"};

    for (int i = 0; i <= CHARL_EMA_NO; i++) {
        if (strcmp(value, names[i]) == 0) {
            *out = i;
            return 0;
        }
    }
    return charl__cli_bad_option("--ema", value, "must be auto, yes or no");
}

error_t charl__cli_parse_separator(const char *value, char *out)
{
    return charl_csv_separator(value, out) ? 0 : charl__cli_bad_option("--separator", value, CHARL_CSV_SEPARATOR);
}

error_t charl__cli_parse_fraction(const char *option, const char *value, double *out)
{
    char *end = NULL;
    double v;

    errno = 0;
    v = strtod(value, &end);
    if (errno != 0 || end == value || *end || !(v >= 0.0 && v < 1.0)) {
        return charl__cli_bad_option(option, value, "must be a number from 0 to below 1");
    }
    *out = v;
    return 0;
}

static void list_commands(const char *path, const charl__cli_command *table)
{
    for (const charl__cli_command *c = table; c->name; c++) {
        char name[HINT_BYTES];

        snprintf(name, sizeof name, "%s %s", path, c->name);
        if (c->sub) {
            list_commands(name, c->sub);
        } else {
            snprintf(name + strlen(name), sizeof name - strlen(name), " %s", c->args);
            printf("  %-46s  %s\n", name, c->summary);
        }
    }
}

static void print_help(const char *path, const charl__cli_command *table)
{
    printf("Usage: %s COMMAND [OPTION...] [OPERAND...]\n\n", path);
    list_commands(path, table);
    printf("\n`%s COMMAND --help` describes a command.\n", path);
}

static int unknown_command(const char *path, const charl__cli_command *table, const char *word)
{
    const charl__cli_command *nearest = NULL;
    char hint[HINT_BYTES];
    int best = INT_MAX;

    for (const charl__cli_command *c = table; c->name; c++) {
        if (charl_text_closer(word, c->name, &best)) {
            nearest = c;
        }
    }
    if (nearest) {
        snprintf(hint, sizeof hint, "did you mean `%s %s`?", path, nearest->name);
    } else {
        snprintf(hint, sizeof hint, "`%s --help` lists the commands", path);
    }
    return charl__cli_error(CHARL__EXIT_USAGE, hint, "unknown command: %s %s", path, word);
}

/* Become the program that lies beside this one. */
static int start_program(const char *name, char **argv)
{
    char program[4096];

    argv[0] = charl__cli_beside(name, program);
    execvp(program, argv); /* without a slash: as PATH has it */
    return charl__cli_error(CHARL__EXIT_INTERNAL, "it is installed with charl", "cannot start %s: %s", program,
                            strerror(errno));
}

int charl__cli_dispatch(const char *path, const charl__cli_command *table, int argc, char **argv)
{
    char hint[HINT_BYTES];

    if (argc < 2) {
        if (!strchr(path, ' ')) { /* the name of the program alone: somebody looks around */
            print_help(path, table);
        }
        snprintf(hint, sizeof hint, "`%s --help` lists the commands", path);
        return charl__cli_error(CHARL__EXIT_USAGE, hint, "a command is missing: %s ...", path);
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "help") == 0) {
        print_help(path, table);
        return CHARL__EXIT_OK;
    }
    for (const charl__cli_command *c = table; c->name; c++) {
        if (strcmp(argv[1], c->name) == 0) {
            char deeper[HINT_BYTES];

            snprintf(deeper, sizeof deeper, "%s %s", path, c->name);
            return c->sub   ? charl__cli_dispatch(deeper, c->sub, argc - 1, argv + 1)
                   : c->run ? c->run(deeper, argc - 1, argv + 1)
                            : start_program(c->program, argv + 1);
        }
    }
    return unknown_command(path, table, argv[1]);
}
