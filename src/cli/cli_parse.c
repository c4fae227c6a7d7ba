/* Command lines, parsed by argp. So that all errors of the programs look alike, argv[0], which
 * getopt prints, is "charl: error" during parsing, and argp's error stream is NULL. */
#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <charl/config.h>
#include <charl/text.h>
#include "cli/cli_describe.h"

enum { HINT_BYTES = 256, MOST_OPTIONS = 64 };

typedef struct parse {
    const char *path;
    const struct argp *argp;
    const charl__cli_option *options;
    charl__cli_operands *operands;
    void *input;
} parse;

static error_t parse_operands(parse *p, int count, char **values)
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
    return o->check ? o->check(o, p->input) : 0;
}

static error_t parse_common(int key, char *arg, struct argp_state *state)
{
    parse *p = state->input;

    (void)arg;
    switch (key) {
    case ARGP_KEY_INIT:
        state->err_stream = NULL;
        state->child_inputs[0] = p;
        return 0;
    case 'h':
        if (charl_launcher_rank() == 0) {
            state->name = (char *)(uintptr_t)p->path;
            argp_state_help(state, stdout, ARGP_HELP_STD_HELP & ~ARGP_HELP_EXIT_OK);
        }
        return ECANCELED; /* ends parsing: everything is done */
    case ARGP_KEY_ARG:
        return ARGP_ERR_UNKNOWN; /* all of them, next */
    case ARGP_KEY_ARGS:
        return parse_operands(p, state->argc - state->next, state->argv + state->next);
    case ARGP_KEY_NO_ARGS:
        return parse_operands(p, 0, NULL);
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* Standard error during parsing, redirected to a file on all ranks except the first. */
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

/* Whether `word`, without its dashes and value, is an option or an abbreviation of one. */
static bool is_option(const struct argp_option *options, const char *word, size_t length)
{
    for (const struct argp_option *o = options; o && (o->name || o->key || o->doc); o++) {
        if (o->name && strncmp(o->name, word, length) == 0) {
            return true;
        }
    }
    return false;
}

/* The first word of argv that looks like a long option and is none, without its dashes and value, into word[64]; false: none. */
static bool find_unknown(const struct argp_option *options, int argc, char **argv, char *word)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        const size_t length = strcspn(argv[i], "=");

        if (strncmp(argv[i], "--", 2) == 0 && length - 2 < 64 && !is_option(options, argv[i] + 2, length - 2)) {
            snprintf(word, 64, "%.*s", (int)(length - 2), argv[i] + 2);
            return true;
        }
    }
    return false;
}

/* Names of other launchers for the number of processes. */
static bool is_ranks(const char *word)
{
    static const char *const words[] = {"ranks", "np", "nproc", "nproc_per_node", "num_processes", "gpus", "ngpus"};
    bool is = false;

    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        is = is || strcmp(word, words[i]) == 0;
    }
    return is;
}

/* The option that an unknown option may mean: another one or, if settings are accepted, the setting of that name. */
static void hint_option(const parse *p, int argc, char **argv)
{
    const char *nearest = NULL;
    char word[64], key[96];
    int best = INT_MAX;

    if (find_unknown(p->argp->options, argc, argv, word)) {
        for (const struct argp_option *o = p->argp->options; o && (o->name || o->key || o->doc); o++) {
            if (o->name && charl_text_closer(word, o->name, &best)) {
                nearest = o->name;
            }
        }
        if (best > 0 && is_ranks(word)) {
            fprintf(stderr,
                    "  hint: `charl launch -n 4 CONFIG` trains on four ranks, and mpirun -n 4 starts any command\n");
            return;
        }
        if (best > 0 && p->argp->args_doc && strstr(p->argp->args_doc, "KEY=VALUE") &&
            charl_config_nearest_key(word, nearest == NULL, key, sizeof key)) {
            fprintf(stderr, "  hint: did you mean the setting %s=VALUE? See `%s --help`\n", key, p->path);
            return;
        }
    }
    if (nearest) {
        fprintf(stderr, "  hint: did you mean --%s? See `%s --help`\n", nearest, p->path);
    } else {
        fprintf(stderr, "  hint: see `%s --help`\n", p->path);
    }
}

static int parse_line(parse *p, int argc, char **argv)
{
    static const struct argp_option options[] = {{"help", 'h', NULL, 0, "Show this help", -1}, {0}};
    const struct argp_child children[] = {{p->argp, 0, NULL, 0}, {0}};
    const struct argp common = {options, parse_common, NULL, NULL, children, NULL, NULL};
    char getopt_name[32];
    char *const own_name = argv[0];
    const kept_back kept = keep_back();
    error_t err;

    snprintf(getopt_name, sizeof getopt_name, "%s: error", charl__cli_program());
    argv[0] = getopt_name;
    err = argp_parse(&common, argc, argv, ARGP_NO_HELP | (p->operands->program ? ARGP_IN_ORDER : 0), NULL, p);
    argv[0] = own_name;
    if (err != 0 && err != ECANCELED) {
        hint_option(p, argc, argv);
    }
    give_back(&kept);
    if (err != 0) {
        speak(&kept);
    }
    if (kept.text) {
        fclose(kept.text);
    }
    return err == ECANCELED ? CHARL__EXIT_OK : err != 0 ? CHARL__EXIT_USAGE : -1;
}

static struct {
    charl__cli_describer describe;
    void *ctx;
} instead;

void charl__cli_parse_instead(charl__cli_describer describe, void *ctx)
{
    instead.describe = describe;
    instead.ctx = ctx;
}

static int read_line(parse *p, int argc, char **argv)
{
    if (instead.describe) {
        instead.describe(instead.ctx, p->path, p->argp, p->operands);
        return CHARL__EXIT_OK;
    }
    return parse_line(p, argc, argv);
}

error_t charl__cli_bad_option(const char *option, const char *value, const char *want)
{
    charl__cli_error(0, NULL, "%s %s: %s", option, value, want);
    return EINVAL;
}

error_t charl__cli_parse_key(const char *option, const char *value, const charl_key *key, void *settings)
{
    char reason[CHARL_REASON_BYTES];

    if (!charl_key_parse(key, value, settings, reason)) {
        charl__cli_error(0, NULL, "%s: %s", option, reason);
        return EINVAL;
    }
    return 0;
}

error_t charl__cli_parse_int(const char *option, const char *value, int64_t lo, int64_t hi, int64_t *out)
{
    char range[64];

    snprintf(range, sizeof range, hi == INT64_MAX ? "[%lld,inf)" : "[%lld,%lld]", (long long)lo, (long long)hi);
    return charl__cli_parse_key(option, value, &(charl_key){.kind = CHARL_KEY_INT, .range = range}, out);
}

static error_t parse_value(const charl__cli_option *o, const char *value, void *input)
{
    void *const field = (char *)input + o->at;
    char option[64];
    int64_t n = o->least;
    int choice = 0;

    snprintf(option, sizeof option, "--%s", o->name);
    if (o->parse) {
        return o->parse(input, option, value);
    }
    switch (o->kind) {
    case CHARL__CLI_KIND_TEXT:
        *(const char **)field = value;
        return 0;
    case CHARL__CLI_KIND_NUMBER:
        return charl__cli_parse_key(option, value, &(charl_key){.kind = CHARL_KEY_FLOAT, .range = o->range}, field);
    case CHARL__CLI_KIND_INT:
        if (charl__cli_parse_int(option, value, o->least, o->most, &n) != 0) {
            return EINVAL;
        }
        break;
    case CHARL__CLI_KIND_CHOICE:
        if (value && charl__cli_parse_key(option, value, &(charl_key){.kind = CHARL_KEY_CHOICE, .choices = o->value},
                                          &choice) != 0) {
            return EINVAL;
        }
        n += choice;
        break;
    case CHARL__CLI_KIND_SET:
        break;
    }
    if (o->size == sizeof(int64_t)) {
        *(int64_t *)field = n;
    } else if (o->size == sizeof(int)) {
        *(int *)field = (int)n;
    } else {
        *(bool *)field = n != 0;
    }
    return 0;
}

static bool is_heading(const charl__cli_option *o)
{
    return !o->name;
}

/* argp's key of option i: its letter, or a number that is not a letter. */
static int key_of(const charl__cli_option *options, int i)
{
    return options[i].letter ? options[i].letter : UCHAR_MAX + 1 + i;
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    const parse *p = state->input;

    for (int i = 0; p->options[i].name || p->options[i].help; i++) {
        if (!is_heading(&p->options[i]) && key == key_of(p->options, i)) {
            return parse_value(&p->options[i], arg, p->input);
        }
    }
    return ARGP_ERR_UNKNOWN;
}

int charl__cli_parse(const char *path, const charl__cli_syntax *syntax, charl__cli_operands *operands, int argc,
                     char **argv, void *input)
{
    static const charl__cli_option none[] = {{0}};
    const charl__cli_option *options = syntax->options ? syntax->options : none;
    struct argp_option shown[MOST_OPTIONS + 1] = {{0}};
    const struct argp argp = {
        .options = shown, .parser = parse_option, .args_doc = syntax->operands, .doc = syntax->help};

    for (int i = 0; options[i].name || options[i].help; i++) {
        const charl__cli_option *o = &options[i];

        assert(i < MOST_OPTIONS);
        shown[i] = (struct argp_option){o->name, is_heading(o) ? 0 : key_of(options, i), o->value, o->flags, o->help,
                                        o->group};
    }
    return read_line(&(parse){path, &argp, options, operands, input}, argc, argv);
}

int charl__cli_overrides(const charl__cli_operands *operands, int first, charl_config_override *out)
{
    for (int i = first; i < operands->count; i++) {
        out[i - first] = (charl_config_override){operands->values[i], NULL};
    }
    return operands->count - first;
}

charl_status charl__cli_load_config(const charl__cli_operands *operands, int first, charl_config **out)
{
    charl_config_override overrides[CHARL__CLI_OVERRIDES];
    const int n = charl__cli_overrides(operands, first, overrides);

    return charl_config_load(operands->values[0], overrides, n, out);
}

/* A key that does not exist is a bug of this program. */
static void need(charl_status st)
{
    if (st != CHARL_OK) {
        exit(charl__cli_fail(st));
    }
}

int64_t charl__cli_int(const charl_config *config, const char *key)
{
    int64_t value = 0;

    need(charl_config_get_int(config, key, &value));
    return value;
}

double charl__cli_number(const charl_config *config, const char *key)
{
    double value = 0;

    need(charl_config_get_number(config, key, &value));
    return value;
}

const char *charl__cli_text(const charl_config *config, const char *key)
{
    const char *value = "";

    need(charl_config_get_text(config, key, &value));
    return value;
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
    const charl__cli_command *nearest = NULL, *group = NULL; /* the command that it belongs to */
    char hint[HINT_BYTES];
    int best = INT_MAX;

    for (const charl__cli_command *c = table; c->name; c++) {
        if (charl_text_closer(word, c->name, &best)) {
            nearest = c;
            group = NULL;
        }
        for (const charl__cli_command *inner = c->sub; inner && inner->name; inner++) {
            if (strcmp(word, inner->name) == 0) {
                nearest = inner;
                group = c;
                best = 0;
            }
        }
    }
    if (nearest) {
        snprintf(hint, sizeof hint, "did you mean `%s %s%s%s`?", path, group ? group->name : "", group ? " " : "",
                 nearest->name);
    } else {
        snprintf(hint, sizeof hint, "`%s --help` lists the commands", path);
    }
    return charl__cli_error(CHARL__EXIT_USAGE, hint, "unknown command: %s %s", path, word);
}

/* Replace this process by the program in the same directory. */
static int start_program(const char *name, char **argv)
{
    char program[4096];

    argv[0] = charl__cli_beside(name, program);
    execvp(program, argv); /* without a slash: found through PATH */
    return charl__cli_error(CHARL__EXIT_INTERNAL, "it is installed with charl", "cannot start %s: %s", program,
                            strerror(errno));
}

int charl__cli_dispatch(const char *path, const charl__cli_command *table, int argc, char **argv)
{
    char hint[HINT_BYTES];

    if (argc < 2) {
        if (!strchr(path, ' ')) { /* only the name of the program: show its commands */
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

bool charl__cli_is_override(const char *operand)
{
    const char *equals = strchr(operand, '='), *dot = strchr(operand, '.'), *slash = strchr(operand, '/');

    return equals && !(slash && slash < equals) && ((dot && dot < equals) || access(operand, F_OK) != 0);
}
