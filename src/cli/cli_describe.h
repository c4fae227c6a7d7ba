#ifndef CHARL_CLI_CLI_DESCRIBE_H
#define CHARL_CLI_CLI_DESCRIBE_H
/** Descriptions of a program: manual pages and the words that complete a command line. Both come from the tables of commands and
 *  options and from the configuration's key table, so there is nothing to keep in step.
 *
 *      PROGRAM --man                 its manual page, section 1
 *      PROGRAM --man=config          charl-config(5), from charl-train
 *      PROGRAM --complete WORD...    what the last word may become; the words are those behind the program's name
 *
 *  Neither is in the help: they are for the build and for the shell's functions (src/cli/charl/completion).
 */
#include "cli/cli.h"

typedef struct charl__cli_self {
    const char *name;
    const char *summary;                /* for the line NAME of the manual page */
    const char *description;            /* paragraphs; before what the options say */
    const char *const (*examples)[2];   /* what it does, command; ends with {NULL} */
    const char *see_also;               /* "charl-train 1, charl-config 5" */
    const charl__cli_command *commands; /* NULL: */
    charl__cli_main *run;               /* the program is one command */
} charl__cli_self;

/** Whether argv asks for one of these; *code is then what to leave with, and it has been printed. */
bool charl__cli_describe(const charl__cli_self *program, int argc, char **argv, int *code);

/** Call `take` with what the command reads: path as typed, options, operands. `word`: argv[1], or NULL. */
void charl__cli_describe_command(const char *path, charl__cli_main *run, const char *word, charl__cli_take take,
                                 void *ctx);

/** The file of a program that lies beside this one, or its name where that is unknown, for execvp. Returns path. */
char *charl__cli_beside(const char *program, char path[4096]);

int charl__cli_man(const charl__cli_self *program);
int charl__cli_man_config(void);
int charl__cli_complete(const charl__cli_self *program, int n, char **words);

#endif
