#ifndef CHARL_CLI_CLI_DESCRIBE_H
#define CHARL_CLI_CLI_DESCRIBE_H
/** Descriptions of a program: manual pages and the words that complete a command line. Both are derived from the tables of commands and
 *  options and from the configuration's key table, so nothing must be kept in sync.
 *
 *      PROGRAM --man                 its manual page, section 1
 *      PROGRAM --man=config          charl-config(5), from charl-train
 *      PROGRAM --complete WORD...    completions of the last word; the words are those after the program's name
 *
 *  Neither is listed in the help: they are for the build and for the shell functions (src/cli/charl/completion).
 */
#include "cli/cli.h"

typedef struct charl__cli_self {
    const char *name;
    const char *summary;                /* for the line NAME of the manual page */
    const char *description;            /* paragraphs before the descriptions of the options */
    const char *const (*examples)[2];   /* description, command; ends with {NULL} */
    const char *see_also;               /* "charl-train 1, charl-config 5" */
    const charl__cli_command *commands; /* NULL: */
    charl__cli_main *run;               /* the program is one command */
} charl__cli_self;

/** Whether argv requests one of these; it has then been printed, and *code is the exit code. */
bool charl__cli_describe(const charl__cli_self *program, int argc, char **argv, int *code);

/** Call `describe` with the command's syntax: path as typed, options, operands. `word`: argv[1], or NULL. */
void charl__cli_describe_command(const char *path, charl__cli_main *run, const char *word,
                                 charl__cli_describer describe, void *ctx);

/** The path of a program in the directory of this one, or its name if that is unknown, for execvp. Returns path. */
char *charl__cli_beside(const char *program, char path[4096]);

int charl__cli_man(const charl__cli_self *program);
int charl__cli_man_config(void);
int charl__cli_complete(const charl__cli_self *program, int n, char **words);

#endif
