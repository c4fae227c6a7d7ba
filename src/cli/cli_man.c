/* Manual pages in mdoc(7), which mandoc and groff format. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <charl/config.h>
#include <charl/version.h>
#include "cli/cli_describe.h"

enum { COLUMNS = 76, WORD = 512 };

/* Literal text for lines that are not macros: backslashes are doubled, and no line begins like a macro. */
static void put_escaped(const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        if (text[i] == '\\') {
            fputs("\\e", stdout);
        } else if (text[i] == '-') {
            fputs("\\-", stdout); /* not a hyphen: options and dashes are copied from the page */
        } else {
            putchar(text[i]);
        }
    }
}

static bool ends_sentence(const char *word, size_t length)
{
    if (length >= 4 && (strncmp(word + length - 4, "e.g.", 4) == 0 || strncmp(word + length - 4, "i.e.", 4) == 0)) {
        return false;
    }
    while (length > 0 && strchr(")\"'`", word[length - 1])) {
        length--;
    }
    return length > 1 && strchr(".!?", word[length - 1]) != NULL &&
           !(length > 3 && strncmp(word + length - 3, "...", 3) == 0);
}

/* One paragraph, filled; a sentence begins a line, as is usual in manual pages. */
static void put_paragraph(const char *text, size_t length)
{
    size_t column = 0, i = 0;

    while (i < length) {
        const size_t start = i;
        size_t n;

        while (i < length && text[i] != ' ') {
            i++;
        }
        n = i - start;
        if (n > 0) {
            if (column > 0 && column + 1 + n > COLUMNS) {
                putchar('\n');
                column = 0;
            } else if (column > 0) {
                putchar(' ');
                column++;
            }
            if (column == 0 && (text[start] == '.' || text[start] == '\'')) {
                fputs("\\&", stdout);
            }
            put_escaped(text + start, n);
            column += n;
            if (ends_sentence(text + start, n)) {
                putchar('\n');
                column = 0;
            }
        }
        i += i < length;
    }
    if (column > 0) {
        putchar('\n');
    }
}

/* Paragraphs separated by line ends; indented lines are kept. */
static void put_text(const char *text, bool follows)
{
    bool literal = false;

    while (*text) {
        const size_t length = strcspn(text, "\n");
        const bool indented = text[0] == ' ';

        if (indented != literal) {
            puts(indented ? ".Bd -literal -offset indent -compact" : ".Ed");
            follows = false;
        }
        literal = indented;
        if (indented) {
            fputs("\\&", stdout);
            put_escaped(text + 2, length - 2);
            putchar('\n');
        } else if (length > 0) {
            if (follows) {
                puts(".Pp");
            }
            put_paragraph(text, length);
            follows = true;
        }
        text += length + (text[length] == '\n');
    }
    if (literal) {
        puts(".Ed");
    }
}

/* An argument of a macro: in quotes, because it may contain spaces and names of macros. */
static void put_argument(const char *text)
{
    fputs(" \"", stdout);
    for (; *text; text++) {
        if (*text == '"') {
            fputs("\\(dq", stdout);
        } else {
            put_escaped(text, 1);
        }
    }
    putchar('"');
}

static void put_heading(const char *name, const char *section, const char *summary)
{
    const char *epoch = getenv("SOURCE_DATE_EPOCH");
    time_t now = epoch ? (time_t)strtoll(epoch, NULL, 10) : time(NULL);
    char date[64], upper[64];
    struct tm parts;
    size_t i = 0;

    gmtime_r(&now, &parts);
    strftime(date, sizeof date, "%B %e, %Y", &parts);
    for (; name[i] && i + 1 < sizeof upper; i++) {
        upper[i] = (char)toupper((unsigned char)name[i]);
    }
    upper[i] = '\0';
    /* %e pads with a space, which would give two */
    if (strstr(date, "  ")) {
        char *two = strstr(date, "  ");

        memmove(two, two + 1, strlen(two));
    }
    printf(".Dd %s\n.Dt %s %s\n.Os\n.Sh NAME\n.Nm %s\n.Nd %s\n", date, upper, section, name, summary);
}

static void put_option(const struct argp_option *o)
{
    const bool has_short = o->key > ' ' && o->key < 127;
    const bool optional = (o->flags & OPTION_ARG_OPTIONAL) != 0;

    fputs(".It", stdout);
    if (has_short) {
        printf(" Fl %c%s", o->key, o->name ? " ," : "");
        if (!o->name && o->arg) {
            fputs(" Ar", stdout);
            put_argument(o->arg);
        }
    }
    if (o->name) {
        fputs(" Fl", stdout);
        fputs(" \\-", stdout);
        put_escaped(o->name, strlen(o->name));
        if (o->arg) {
            printf(" Ns %s Ar", optional ? "Op = Ns" : "= Ns");
            put_argument(o->arg);
        }
    }
    putchar('\n');
    if (o->doc) {
        put_text(o->doc, false);
    }
}

static bool is_end(const struct argp_option *o)
{
    return !o->name && !o->key && !o->doc;
}

static void put_options(const struct argp_option *options)
{
    bool open = false;

    for (const struct argp_option *o = options; o && !is_end(o); o++) {
        const bool heading = !o->name && !o->key;

        if (heading && open) {
            puts(".El");
            open = false;
        }
        if (heading && o->doc) {
            printf(".Ss %s\n", o->doc);
        } else if (!heading && !(o->flags & OPTION_HIDDEN)) {
            if (!open) {
                puts(".Bl -tag -width Ds");
                open = true;
            }
            put_option(o);
        }
    }
    if (open) {
        puts(".El");
    }
}

/* "before\vafter" */
static void put_doc(const char *doc, bool after)
{
    const char *cut = doc ? strchr(doc, '\v') : NULL;
    char text[4096];

    if (!doc || (after && !cut)) {
        return;
    }
    if (after) {
        puts(".Pp");
        put_text(cut + 1, false);
    } else {
        snprintf(text, sizeof text, "%.*s", (int)(cut ? cut - doc : (long)strlen(doc)), doc);
        put_text(text, false);
    }
}

typedef struct page {
    char last[128];   /* the command described last: one with words describes itself for each */
    const char *only; /* the page describes one command: no headings */
} page;

static void put_command_heading(const char *path, const char *operands)
{
    printf(".Ss %s\n.Dl ", path);
    put_escaped(path, strlen(path));
    if (operands[0]) {
        putchar(' ');
        put_escaped(operands, strlen(operands));
    }
    fputs("\n.Pp\n", stdout);
}

static void put_command(void *ctx, const char *path, const struct argp *argp, const charl__cli_operands *operands)
{
    page *p = ctx;

    (void)operands;
    if (strcmp(p->last, path) == 0) {
        return;
    }
    snprintf(p->last, sizeof p->last, "%s", path);
    if (p->only) {
        put_doc(argp->doc, false);
        puts(".Sh OPTIONS");
        put_options(argp->options);
        put_doc(argp->doc, true);
        return;
    }
    put_command_heading(path, argp->args_doc ? argp->args_doc : "");
    put_doc(argp->doc, false);
    put_options(argp->options);
    put_doc(argp->doc, true);
}

static void put_commands(const char *path, const charl__cli_command *table, page *p)
{
    for (const charl__cli_command *c = table; c->name; c++) {
        char deeper[128];
        const char *word = NULL;

        snprintf(deeper, sizeof deeper, "%s %s", path, c->name);
        if (c->sub) {
            put_commands(deeper, c->sub, p);
            continue;
        }
        p->last[0] = '\0';
        if (c->words) {
            for (int i = 0; (word = c->words(i)) != NULL; i++) {
                charl__cli_describe_command(deeper, c->run, word, put_command, p);
            }
        } else if (c->run) {
            charl__cli_describe_command(deeper, c->run, NULL, put_command, p);
        }
        if (!p->last[0]) { /* it has no options of its own */
            char summary[256];

            snprintf(summary, sizeof summary, "%s.", c->summary);
            summary[0] = (char)toupper((unsigned char)summary[0]);
            put_command_heading(deeper, c->args);
            put_text(summary, false);
        }
        if (c->program) {
            printf(".Pp\nThe rest of the command line is described in\n.Xr %s 1 .\n", c->program);
        }
    }
}

static void put_environment(void)
{
    const char *name, *meaning;

    puts(".Sh ENVIRONMENT\n.Bl -tag -width Ds");
    for (int i = 0; (name = charl_environment_variable(i, &meaning)) != NULL; i++) {
        if (strncmp(meaning, "tests:", 6) != 0) {
            printf(".It Ev %s\n", name);
            put_text(meaning, false);
        }
    }
    puts(".El");
}

static void put_exit_codes(void)
{
    static const struct {
        const char *code, *meaning;
    } codes[] = {
        {"0", "success"},
        {"1", "internal error; of commands that compare: they differ"},
        {"2", "usage or configuration"},
        {"3", "data missing or malformed"},
        {"4", "no device, a kernel that does not build, out of device memory"},
        {"5", "checkpoint missing, damaged or of another model"},
        {"6", "diverged: the loss or a gradient is not finite"},
        {"7", "a rank died or fell silent; the same command continues"},
        {"8", "a file could not be written"},
        {"9", "a device computes wrong values (dist.audit); the same command continues"},
        {"75", "stopped on request, checkpoint saved; the same command continues"},
        {"128+n", "killed by signal n"},
    };

    puts(".Sh EXIT STATUS\n.Bl -tag -width 128+n -compact");
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        printf(".It %s\n", codes[i].code);
        put_text(codes[i].meaning, false);
    }
    puts(".El");
}

/* "charl-train 1, charl-config 5" */
static void put_see_also(const char *list)
{
    puts(".Sh SEE ALSO");
    while (*list) {
        const size_t length = strcspn(list, ",");
        const bool more = list[length] == ',';

        printf(".Xr %.*s%s\n", (int)length, list, more ? " ," : "");
        list += length + more;
        list += strspn(list, " ");
    }
}

int charl__cli_man(const charl__cli_self *program)
{
    page p = {.only = program->commands ? NULL : program->name};

    put_heading(program->name, "1", program->summary);
    puts(".Sh SYNOPSIS\n.Nm");
    puts(program->commands ? ".Ar COMMAND\n.Op Ar OPTION ...\n.Op Ar OPERAND ..."
                           : ".Op Ar OPTION ...\n.Ar CONFIG\n.Op Ar SECTION.KEY Ns = Ns Ar VALUE ...");
    puts(".Sh DESCRIPTION");
    if (program->commands) {
        put_text(program->description, false);
        puts(".Sh COMMANDS");
        put_commands(program->name, program->commands, &p);
    } else {
        charl__cli_describe_command(program->name, program->run, NULL, put_command, &p);
    }
    put_environment();
    put_exit_codes();
    puts(".Sh EXAMPLES");
    for (int i = 0; program->examples[i][0]; i++) {
        if (i > 0) {
            puts(".Pp");
        }
        put_text(program->examples[i][0], false);
        printf(".Pp\n.Dl ");
        put_escaped(program->examples[i][1], strlen(program->examples[i][1]));
        putchar('\n');
    }
    put_see_also(program->see_also);
    return CHARL__EXIT_OK;
}

/* Information that the keys' own lines lack. */
static const char config_syntax[] = "A configuration is a text file. A line [SECTION] begins a section, and the lines "
                                    "KEY = VALUE after it set its keys; an indented line "
                                    "continues the value above. From # or ; to its end a line is a comment. A value "
                                    "with such a character, or with spaces at its ends, "
                                    "must be in double quotes.\n"
                                    "Every mistake is an error with file and line: an unknown section or key, a value "
                                    "that does not fit, a key given twice.\n"
                                    "Numbers of bytes and tokens take the suffixes k, M and G for powers of 1024. "
                                    "Intervals count steps (500), epochs (1ep), tokens (10M tokens) or time (30m). A "
                                    "length in tokens takes k, M, B and T for powers of 1000, and becomes steps, "
                                    "rounded up. "
                                    "Elements of lists are separated by commas. Relative paths begin at the folder of "
                                    "the file. ${NAME} stands for an environment variable, "
                                    "and ${name} for the run's name.\n"
                                    "The layers of model.type = sequential are the sections [layer NAME], in the order "
                                    "of the file. NAME is the prefix of the layer's "
                                    "parameters in checkpoints. The sections [block BLOCK] and [block BLOCK.LAYER] "
                                    "declare a block of layers, which layers then name as their "
                                    "type; `charl-train --help-config=layer` tells how.\n"
                                    "A command line replaces single values: train.epochs=5, or layer.conv1.channels=64 "
                                    "for a layer. `charl-train --print-config CONFIG` "
                                    "prints all values and where each comes from.";

static void put_words(int index)
{
    char word[64];
    const char *help;
    bool open = false;

    for (int i = 0; charl_config_key_word(index, i, word, &help); i++) {
        if (help && !open) {
            puts(".Bl -tag -width Ds -compact");
            open = true;
        }
        if (help) {
            printf(".It Cm");
            put_argument(word);
            putchar('\n');
            put_text(help, false);
        }
    }
    if (open) {
        puts(".El");
    }
}

/* "integer in [1,inf), or auto" */
static void put_values(int index, const charl_config_key *k)
{
    const char *more = strchr(k->values, ';'); /* "integer; suffixes ..." */
    const int length = (int)(more ? more - k->values : (long)strlen(k->values));
    char line[2048], word[64];
    const char *help;
    size_t used = (size_t)snprintf(line, sizeof line, "%.*s%s%s%s", length, k->values, k->range ? " in " : "",
                                   k->range ? k->range : "", more ? more : "");
    const bool yes_or_no = strcmp(k->values, "yes or no") == 0;

    for (int i = 0; !yes_or_no && charl_config_key_word(index, i, word, &help) && used < sizeof line; i++) {
        used += (size_t)snprintf(line + used, sizeof line - used, "%s%s",
                                 i > 0          ? ", "
                                 : k->is_list   ? " "
                                 : k->values[0] ? ", or "
                                                : "",
                                 word);
    }
    if (k->may_change && used < sizeof line) {
        used += (size_t)snprintf(line + used, sizeof line - used, "; may change on resume");
    }
    if (k->values[0]) {
        line[0] = (char)toupper((unsigned char)line[0]);
    }
    if (used + 1 < sizeof line) {
        strcpy(line + used, ".");
    }
    put_text(line, false);
}

int charl__cli_man_config(void)
{
    char section[64] = "", choice[64] = "";
    bool open = false;
    charl_config_key k;

    put_heading("charl-config", "5", "configuration of a charl training");
    puts(".Sh DESCRIPTION");
    put_text(config_syntax, false);
    puts(".Sh KEYS");
    for (int i = 0;; i++) {
        const charl_status st = charl_config_key_at(i, &k);
        const char *own = k.choice ? k.choice : "";
        const bool next = st == CHARL_OK && k.name && strcmp(section, k.section) != 0;

        if (st != CHARL_OK) {
            return charl__cli_fail(st);
        }
        if (open && (!k.name || next || strcmp(choice, own) != 0)) {
            puts(".El");
            open = false;
        }
        if (!k.name) {
            break;
        }
        if (next) {
            snprintf(section, sizeof section, "%s", k.section);
            printf(".Ss [%s%s]\\&\n", section,
                   strcmp(section, "layer") == 0 || strcmp(section, "output") == 0 ? " NAME" : "");
        }
        if (!open) {
            snprintf(choice, sizeof choice, "%s", own);
            if (k.choice) {
                printf(".Pp\nWith\n.Ql %s = %s\n", k.chooser, k.choice);
                printf("\\(em ");
                put_text(k.choice_help, false);
            }
            puts(".Bl -tag -width Ds");
            open = true;
        }
        fputs(".It Cm", stdout);
        put_argument(k.name);
        if (k.is_required) {
            fputs(" No (required)", stdout);
        } else if (k.fallback[0]) {
            fputs(" No = Ar", stdout);
            put_argument(k.fallback);
        }
        putchar('\n');
        put_text(k.help, false);
        puts(".br");
        put_values(i, &k);
        put_words(i);
    }
    puts(".Sh EXAMPLES\n.Bd -literal -offset indent\n[data]\npath = flowers.h5\n\n[model]\ntype = mlp\nhidden = 32\n\n"
         "[train]\nepochs = 20\nbatch_size = 32\n\n[optimizer]\ntype = adamw\nlearning_rate = 1e\\-3\n.Ed");
    put_see_also("charl 1, charl-train 1");
    return CHARL__EXIT_OK;
}
