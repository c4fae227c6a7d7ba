/* Completions of the last word of a command line. Prints lines "WORD<tab>MEANING" on standard output, which the functions of the shells
 * (src/cli/charl/completion) show, and directives for them:
 *
 *     :files, :dirs   also complete file names; in SECTION.KEY=VALUE and --OPTION=VALUE, for the value
 *     :nospace        the word continues
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <charl/config.h>
#include "cli/cli_describe.h"

enum { WORD = 512, LINE = 2 * WORD };

typedef struct completion {
    const char *word;    /* the word to complete */
    char *const *before; /* the words before it, after the command */
    int n;
    bool complete; /* the command has described its syntax */
} completion;

static bool begins(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

static void offer(const completion *c, const char *word, const char *meaning)
{
    if (begins(word, c->word)) {
        printf("%s\t%s\n", word, meaning ? meaning : "");
    }
}

/* The choices for `value` of an option or operand: "a|b|c" itself, or the list that its name stands for. */
static void offer_values(const completion *c, const char *value, const char *prefix)
{
    static const char *const known[][2] = {
        {"SELECT", "auto|gpu|cpu"},
        {"WHAT", "auto|never|must"},
    };
    const char *choices = strchr(value, '|') && !strpbrk(value, "ABCDEFGHIJKLMNOPQRSTUVWXYZ[") ? value : "";
    char word[WORD];

    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        choices = strcmp(known[i][0], value) == 0 ? known[i][1] : choices;
    }
    while (*choices) {
        const size_t length = strcspn(choices, "|");

        snprintf(word, sizeof word, "%s%.*s", prefix, (int)length, choices);
        offer(c, word, NULL);
        choices += length + (choices[length] == '|');
    }
    if (strstr(value, "FILE") || strcmp(value, "OUT") == 0 || strcmp(value, "WHAT") == 0) {
        puts(":files");
    } else if (strcmp(value, "DIR") == 0) {
        puts(":dirs");
    }
}

/* The value of `name` in `section` of a printed configuration, or of an override before the word; false if it is unknown. */
static bool find_value(const completion *c, const char *printed, const char *section, const char *name, char *value)
{
    char head[LINE], start[LINE];
    const char *line = printed;
    bool inside = false;

    snprintf(start, sizeof start, "%s.%s=", section, name);
    for (int i = c->n - 1; i >= 0; i--) {
        if (begins(c->before[i], start)) {
            snprintf(value, WORD, "%s", c->before[i] + strlen(start));
            return true;
        }
    }
    snprintf(head, sizeof head, "[%s]", section);
    snprintf(start, sizeof start, "%s = ", name);
    for (; line && *line; line += strcspn(line, "\n"), line += *line == '\n') {
        if (*line == '[') {
            inside = begins(line, head);
        } else if (inside && begins(line, start)) {
            line += strlen(start);
            snprintf(value, WORD, "%.*s", (int)strcspn(line, "\n"), line);
            return true;
        }
    }
    return false;
}

/* The configuration named by the earlier words, as a text with every key; NULL if none can be read. */
static char *read_config(const completion *c)
{
    charl_config *config = NULL;
    char *text = NULL;

    for (int i = 0; i < c->n && !text; i++) {
        if (c->before[i][0] == '-' || strchr(c->before[i], '=') || access(c->before[i], R_OK) != 0) {
            continue;
        }
        if (charl_config_load(c->before[i], NULL, 0, &config) != CHARL_OK ||
            charl_config_print(config, false, &text) != CHARL_OK) {
            text = NULL; /* it has errors, which the command will report */
        }
        charl_config_destroy(config);
        config = NULL;
    }
    charl_error_clear();
    return text;
}

/* SECTION. for every section, and layer.NAME. for the layers of the configuration. */
static void offer_sections(const completion *c, const char *printed)
{
    char word[WORD], last[64] = "";
    charl_config_key k;

    for (int i = 0; charl_config_key_at(i, &k) == CHARL_OK && k.name && strcmp(k.section, "layer") != 0; i++) {
        if (strcmp(last, k.section) != 0) {
            snprintf(last, sizeof last, "%s", k.section);
            snprintf(word, sizeof word, "%s.", last);
            offer(c, word, "section of the configuration");
        }
    }
    for (const char *line = printed; line && *line; line += strcspn(line, "\n"), line += *line == '\n') {
        if (begins(line, "[layer ")) {
            snprintf(word, sizeof word, "layer.%.*s.", (int)strcspn(line + 7, "]\n"), line + 7);
            if (strcmp(word, c->word) != 0) {
                offer(c, word, "layer of the configuration");
            }
        }
    }
}

/* Whether the choice that the key belongs to is selected; true if that is unknown. */
static bool has_effect(const completion *c, const char *printed, const char *section, const charl_config_key *k)
{
    char value[WORD];

    return !k->chooser || !find_value(c, printed, section, k->chooser, value) || strcmp(value, k->choice) == 0;
}

static void offer_words(const completion *c, int index, const charl_config_key *k, const char *prefix)
{
    const char *comma = k->is_list ? strrchr(c->word, ',') : NULL;
    char word[64], whole[2 * LINE];
    const char *meaning;

    for (int i = 0; charl_config_key_word(index, i, word, &meaning); i++) {
        if (comma) {
            snprintf(whole, sizeof whole, "%.*s%s", (int)(comma + 1 - c->word), c->word, word);
        } else {
            snprintf(whole, sizeof whole, "%s=%s", prefix, word);
        }
        offer(c, whole, meaning);
    }
    if (k->is_path) {
        puts(":files");
    }
}

/* SECTION.KEY=VALUE, up to what has been typed. */
static void offer_override(const completion *c)
{
    const char *dot = strrchr(c->word, '.'), *equals = strchr(c->word, '=');
    char *printed = read_config(c);
    char section[WORD], prefix[LINE], given[WORD], last[64] = "";
    charl_config_key k;

    if (equals) { /* the section ends at the last dot before it */
        for (dot = equals; dot > c->word && *dot != '.'; dot--) {
        }
    }
    if (!dot || dot == c->word || (strcmp(c->word, "layer.") == 0)) {
        if (!equals) {
            puts(":nospace");
            offer_sections(c, printed);
        }
        charl_free(printed);
        return;
    }
    snprintf(given, sizeof given, "%.*s", (int)(dot - c->word), c->word);
    snprintf(section, sizeof section, "%s", given);
    if (begins(given, "layer.")) { /* layer.NAME. is [layer NAME] */
        section[5] = ' ';
    }
    if (!equals) {
        puts(":nospace");
        if (begins(given, "layer")) {
            offer_sections(c, printed); /* names of layers may contain dots */
        }
    }
    for (int i = 0; charl_config_key_at(i, &k) == CHARL_OK && k.name; i++) {
        const bool of_layer = (strcmp(k.section, "layer") == 0 && begins(given, "layer.")) ||
                              (strcmp(k.section, "output") == 0 && begins(given, "output."));

        snprintf(prefix, sizeof prefix, "%s.%s", given, k.name);
        if ((!of_layer && strcmp(k.section, given) != 0) || !has_effect(c, printed, section, &k)) {
            continue;
        }
        if (!equals) {
            strncat(prefix, "=", sizeof prefix - strlen(prefix) - 1);
            if (strcmp(last, k.name) != 0) { /* once, even if several types have it */
                offer(c, prefix, k.help);
            }
            snprintf(last, sizeof last, "%s", k.name);
        } else if (strlen(prefix) == (size_t)(equals - c->word) && begins(c->word, prefix)) {
            offer_words(c, i, &k, prefix);
            break;
        }
    }
    charl_free(printed);
}

static void offer_config_sections(const completion *c, const char *prefix)
{
    char word[WORD], last[64] = "";
    charl_config_key k;

    for (int i = 0; charl_config_key_at(i, &k) == CHARL_OK && k.name; i++) {
        if (strcmp(last, k.section) != 0) {
            snprintf(last, sizeof last, "%s", k.section);
            snprintf(word, sizeof word, "%s%s", prefix, last);
            offer(c, word, NULL);
        }
    }
}

static bool is_end(const struct argp_option *o)
{
    return !o->name && !o->key && !o->doc;
}

static const struct argp_option *find_option(const struct argp_option *options, const char *word)
{
    for (const struct argp_option *o = options; o && !is_end(o); o++) {
        const size_t length = strcspn(word, "=");

        if (o->name && begins(word, "--") && strlen(o->name) == length - 2 &&
            strncmp(o->name, word + 2, length - 2) == 0) {
            return o;
        }
        if (word[0] == '-' && word[1] && !word[2] && o->key == word[1]) {
            return o;
        }
    }
    return NULL;
}

static void offer_option_values(const completion *c, const struct argp_option *o, const char *prefix)
{
    if (strcmp(o->arg, "SECTION.KEY=VALUE") == 0) {
        offer_override(c);
    } else if (strcmp(o->arg, "SECTION") == 0) {
        offer_config_sections(c, prefix);
    } else {
        offer_values(c, o->arg, prefix);
    }
}

static void offer_options(const completion *c, const struct argp_option *options)
{
    char word[WORD];

    for (const struct argp_option *o = options; o && !is_end(o); o++) {
        if (o->name && !(o->flags & OPTION_HIDDEN)) {
            snprintf(word, sizeof word, "--%s", o->name);
            offer(c, word, o->doc);
        }
    }
    offer(c, "--help", "Show this help");
}

static void describe(void *ctx, const char *path, const struct argp *argp, const charl__cli_operands *operands)
{
    completion *c = ctx;
    const char *last = c->n > 0 ? c->before[c->n - 1] : "";
    const struct argp_option *given = c->n > 0 ? find_option(argp->options, last) : NULL;
    char prefix[WORD];

    (void)path;
    (void)operands;
    if (c->complete) {
        return;
    }
    c->complete = true;
    if (given && given->arg && !(given->flags & OPTION_ARG_OPTIONAL) && !strchr(last, '=')) {
        offer_option_values(c, given, "");
    } else if (begins(c->word, "--") && strchr(c->word, '=')) {
        given = find_option(argp->options, c->word);
        snprintf(prefix, sizeof prefix, "%.*s", (int)(strchr(c->word, '=') + 1 - c->word), c->word);
        if (given && given->arg) {
            offer_option_values(c, given, prefix);
        }
    } else if (c->word[0] == '-') {
        offer_options(c, argp->options);
    } else {
        const char *operands_doc = argp->args_doc ? argp->args_doc : "";

        if (strstr(operands_doc, "KEY=VALUE")) {
            offer_override(c);
        }
        if (operands_doc[0] && !strchr(c->word, '=')) {
            puts(":files");
        }
    }
}

/* Completions of the rest of the line by another program. */
static int ask(const char *name, int n, char **words)
{
    char program[4096], option[] = "--complete";
    char **argv = NULL;

    if (charl__cli_alloc(n + 3, sizeof *argv, &argv) != CHARL_OK) {
        return CHARL__EXIT_INTERNAL;
    }
    argv[0] = charl__cli_beside(name, program);
    argv[1] = option;
    memcpy(argv + 2, words, (size_t)n * sizeof *words);
    fflush(stdout);
    execvp(program, argv);
    free(argv);
    return CHARL__EXIT_INTERNAL; /* nothing to complete */
}

/* The position of the first operand; n if there is none. */
static int first_operand(int n, char **words)
{
    int i = 0;

    while (i < n && words[i][0] == '-') {
        i++;
    }
    return i;
}

/* The first operand after options and their values. */
typedef struct search {
    char *const *words;
    int n, operand;
} search;

static void search_operand(void *ctx, const char *path, const struct argp *argp, const charl__cli_operands *operands)
{
    search *s = ctx;

    (void)path;
    (void)operands;
    for (s->operand = 0; s->operand < s->n && s->words[s->operand][0] == '-'; s->operand++) {
        const struct argp_option *o = find_option(argp->options, s->words[s->operand]);

        if (o && o->arg && !(o->flags & OPTION_ARG_OPTIONAL) && !strchr(s->words[s->operand], '=')) {
            s->operand++; /* its value */
        }
    }
}

static int complete_command(const char *path, const charl__cli_command *c, int n, char **words)
{
    completion x = {.word = words[n - 1], .before = words, .n = n - 1};
    const int operand = first_operand(n - 1, words);

    if (c->program) {
        search s = {.words = words, .n = n - 1};

        if (c->run) {
            charl__cli_describe_command(path, c->run, NULL, search_operand, &s);
        }
        if (!c->run || s.operand < n - 1) {
            return ask(c->program, n - s.operand, words + s.operand);
        }
    }
    if (c->words && operand == n - 1 && words[n - 1][0] != '-') {
        const char *word;

        for (int i = 0; (word = c->words(i)) != NULL; i++) {
            offer(&x, word, NULL);
        }
    } else {
        charl__cli_describe_command(path, c->run, c->words && operand < n - 1 ? words[operand] : NULL, describe, &x);
    }
    return CHARL__EXIT_OK;
}

static int complete_table(const char *path, const charl__cli_command *table, int n, char **words)
{
    const completion x = {.word = words[n - 1]};

    for (const charl__cli_command *c = table; c->name; c++) {
        char deeper[128];

        if (n == 1) {
            offer(&x, c->name, c->summary);
        } else if (strcmp(c->name, words[0]) == 0) {
            snprintf(deeper, sizeof deeper, "%s %s", path, c->name);
            return c->sub ? complete_table(deeper, c->sub, n - 1, words + 1)
                          : complete_command(deeper, c, n - 1, words + 1);
        }
    }
    if (n == 1 && words[0][0] == '-') {
        offer(&x, "--help", "Show this help");
        offer(&x, "--version", "Print the version");
    }
    return CHARL__EXIT_OK;
}

int charl__cli_complete(const charl__cli_self *program, int n, char **words)
{
    const charl__cli_command alone = {.name = program->name, .run = program->run};

    if (n < 1) {
        return CHARL__EXIT_OK;
    }
    return program->commands ? complete_table(program->name, program->commands, n, words)
                             : complete_command(program->name, &alone, n, words);
}
