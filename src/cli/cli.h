#ifndef CHARL_CLI_CLI_H
#define CHARL_CLI_CLI_H
/** Shared by the programs: reading command lines, printing errors, exiting.
 *
 *  Functions that return int return an exit code. All functions belong to the main thread.
 */
#include <charl/config.h>
#include <charl/device.h>
#include <charl/environment.h>
#include <charl/error.h>

#include <argp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Exit codes, fixed for scripts and launchers. */
enum {
    CHARL__EXIT_OK = 0,
    CHARL__EXIT_INTERNAL = 1, /* also the "no" of commands that answer yes or no */
    CHARL__EXIT_USAGE = 2,
    CHARL__EXIT_DATA = 3,
    CHARL__EXIT_DEVICE = 4,
    CHARL__EXIT_CHECKPOINT = 5,
    CHARL__EXIT_NONFINITE = 6,
    CHARL__EXIT_COMM = 7,
    CHARL__EXIT_DISK = 8,
    CHARL__EXIT_AUDIT = 9,
};

/** Seconds since an arbitrary fixed moment; never decreases. */
double charl__cli_clock_s(void);

/** Zeroed memory for `count` elements of `size` bytes into *(void **)out, never NULL on success; free() it. Errors: ERR_NOMEM. */
charl_status charl__cli_alloc(int64_t count, size_t size, void *out) CHARL_MUST_CHECK;

/** Name of the program, as it precedes its messages. */
const char *charl__cli_program(void);

/** Until charl__cli_deadline_end: after `seconds`, print `what` and exit with CHARL__EXIT_COMM.
 *  For MPI calls without a deadline of their own, before there is a communicator and after. */
void charl__cli_deadline_begin(double seconds, const char *what);
void charl__cli_deadline_end(void);

/** Check the limits of the process before MPI and OpenCL start: open files, stack, file size,
 *  memory, threads. Raises the soft limits of open files and stack if the hard ones allow it;
 *  threads created from now on have a stack of at least 8 MiB. Returns CHARL__EXIT_OK, or
 *  CHARL__EXIT_USAGE after printing which limit is too low. */
int charl__cli_limits(void);

/** Whether this process prints a failure that occurred before the ranks could communicate. The
 *  ranks of a job usually have the same failure, and the first prints it. Any other rank waits up to 5 seconds
 *  for the launcher to end the job, as it does if the first rank has failed; if the launcher
 *  does not, only this rank has failed, and it prints the failure. */
bool charl__cli_speaks(void);

/** Exit code of a status. */
int charl__cli_exit_code(charl_status st);

/** Call first: sets the name that precedes messages, prints warnings of the library, checks the
 *  environment variables. Returns CHARL__EXIT_OK or the code to exit with. */
int charl__cli_begin(const char *program);

/** Last call in main: make sure that standard output was written. Returns `code`, or CHARL__EXIT_DISK
 *  if the output of a success could not be written. A reader that has closed the pipe (`| head`) is
 *  not a failure. */
int charl__cli_end(int code);

/** Print an error, and under it the hint unless NULL. Returns `code`. */
int charl__cli_error(int code, const char *hint, const char *fmt, ...) CHARL_PRINTF(3, 4);

/** Whether an operand is SECTION.KEY=VALUE and not a file, whose path may contain a = too. */
bool charl__cli_is_override(const char *operand);

/** Cut a message off where its "HINT" begins: at its beginning, or after `;`, `.` or `,`. Returns the text after HINT, or NULL. */
char *charl__cli_split_hint(char *text);

/** Print the thread's last failure; the text after "HINT" in its message becomes the hint. Returns the
 *  exit code of `st`. */
int charl__cli_fail(charl_status st);

/** The same for a failure that the other ranks usually have too: charl__cli_speaks decides. */
int charl__cli_fail_alike(charl_status st);

/** Print text from elsewhere (names in a file, paths, messages) to a stream that may be a terminal. Every
 *  character that would not just be displayed (base/text/utf8.h; a tab is) becomes '?', so that no file can
 *  control the terminal or hide its contents. Everything that charl prints and did not write itself
 *  goes through this function. */
void charl__cli_write(FILE *f, const char *text, size_t length);

/** The same on standard output, keeping line ends. With `indent` every line begins with that many
 *  spaces. */
void charl__cli_put(const char *text, int indent);

/** Print a path or another text as a word of a shell command: in single quotes if a shell would split or change it. */
void charl__cli_put_word(FILE *f, const char *word);

/** The name, shortened to `width` columns: keeps both ends, as the end of a layer's name tells more than its middle. `out` has room for
 *  width + 1 bytes. */
void charl__cli_shorten(const char *name, int width, char *out);

/** Print every line of `text` on standard error as "program: LEVEL: line", where LEVEL is "warning", "note"
 *  and the like. */
void charl__cli_say(const char *level, const char *text);
/** The same with the signature of the library's events; ctx is not used. */
void charl__cli_warn(void *ctx, const char *text);
void charl__cli_note(void *ctx, const char *text);

/** Number of columns of the terminal f if a line can be rewritten on it; 0 if it is not a terminal, or
 *  TERM is dumb. Under mpirun standard output and error are always terminals, without a width. */
int charl__cli_columns(FILE *f);

/** Reports that compiling kernels takes long. */
typedef struct charl__cli_compiling {
    double base_s; /* seconds spent compiling at the end of the last stage */
    double said_s; /* when a line was last printed; 0: not in this stage */
} charl__cli_compiling;

enum { CHARL__COMPILE_TEXT = 192, CHARL__COMPILE_LONG_S = 5 /* seconds worth a line of a log */ };

/** For terminals: what to show until the next call, at most `columns` characters; "" for
 *  nothing, for example while compiling takes no noticeable time. Returns text. */
const char *charl__cli_compiling_line(const charl__cli_compiling *c, const charl_compile_progress *p, int columns,
                                      char text[CHARL__COMPILE_TEXT]);
/** For logs: whether a line is due, after some seconds and then every 15. */
bool charl__cli_compiling_is_due(charl__cli_compiling *c, const charl_compile_progress *p);
/** "12", or "12 of 40" if the total is known; with `slash` "12/40". Returns text. */
const char *charl__cli_compiling_count(const charl_compile_progress *p, bool slash, char text[32]);
/** End the stage. Returns the seconds that it spent compiling. */
double charl__cli_compiling_end(charl__cli_compiling *c, const charl_compile_progress *p);

/** For charl_device_request.compiling of all programs except charl-train, which has a log: shows on
 *  standard error that kernels are being compiled, on the first of the ranks that a launcher started. */
void charl__cli_compiling_show(void *ctx, const charl_compile_progress *p);
/** Remove the progress line before something else is printed. */
void charl__cli_compiling_erase(void);
/** The command starts to print, or ends: prints the compile time if it was long. */
void charl__cli_compiling_done(void);

/** A command: argv[0] is its own name, `path` the words typed so far, including it. */
typedef int charl__cli_main(const char *path, int argc, char **argv);

/** A node of the tree of commands: one of `run`, `sub` and `program` is set; the end of a table has no name. */
typedef struct charl__cli_command {
    const char *name;
    const char *args; /* of `run`, for the list of commands */
    const char *summary;
    charl__cli_main *run;
    const struct charl__cli_command *sub;
    const char *(*words)(int i); /* names of which argv[1] must be one; NULL: any */
    const char *program;         /* started with the rest of the command line, by `run` or, if that is NULL, at once */
} charl__cli_command;

/** Run the command of the table that argv[1] names. `path` is the words typed so far, "charl data".
 */
int charl__cli_dispatch(const char *path, const charl__cli_command *table, int argc, char **argv);

/** The operands of a command; `names` and `max` are set by the command. */
typedef struct charl__cli_operands {
    const char *names[4]; /* one per required operand */
    int max;              /* maximum; 0: the number of required ones */
    bool program; /* the first one begins another program's command line: options after it belong to that program */
    int count;
    char **values; /* into argv */
    /* Further checks, or NULL: returns 0, or EINVAL after printing an error. `input` is the
     * parser's. */
    error_t (*check)(const struct charl__cli_operands *operands, void *input);
} charl__cli_operands;

/** The kind of an option's value. */
typedef enum charl__cli_kind {
    CHARL__CLI_KIND_SET,    /* no value: the field becomes `least` */
    CHARL__CLI_KIND_TEXT,   /* const char *, into argv */
    CHARL__CLI_KIND_INT,    /* from `least` to `most`, into an int or int64_t */
    CHARL__CLI_KIND_NUMBER, /* double in `range`, "[0,1)" */
    CHARL__CLI_KIND_CHOICE, /* one of the words of `value`, "a|b|c": `least` for a, `least` + 1 for b, into an enum or int */
} charl__cli_kind;

/** An option of a command: its text in the help, and the field of the command's own struct that it sets. A table ends with {0}; a row with
 *  only `help` and `group` is a heading.
 *
 *      {"tokens", 'n', "N", "Number of tokens to generate", 0, CHARL__CLI_INT(generation, tokens, 1, INT32_MAX)},
 */
typedef struct charl__cli_option {
    const char *name;  /* --name */
    int letter;        /* -x; 0: none */
    const char *value; /* name in the help; NULL: no value */
    const char *help;
    int group; /* position in the help: ascending */
    charl__cli_kind kind;
    size_t at, size; /* of the field */
    int64_t least, most;
    const char *range;
    /* instead of a kind: 0, or EINVAL after printing an error (charl__cli_bad_option). `option` is "--name" */
    error_t (*parse)(void *input, const char *option, const char *value);
    int flags; /* of argp; with OPTION_ARG_OPTIONAL the value may be NULL, which is the first choice */
} charl__cli_option;

#define CHARL__CLI_FIELD(type, field) .at = offsetof(type, field), .size = sizeof(((type *)0)->field)
#define CHARL__CLI_SET(type, field, to) .kind = CHARL__CLI_KIND_SET, CHARL__CLI_FIELD(type, field), .least = (to)
#define CHARL__CLI_FLAG(type, field) CHARL__CLI_SET(type, field, true)
#define CHARL__CLI_TEXT(type, field) .kind = CHARL__CLI_KIND_TEXT, CHARL__CLI_FIELD(type, field)
#define CHARL__CLI_INT(type, field, from, to)                                                                          \
    .kind = CHARL__CLI_KIND_INT, CHARL__CLI_FIELD(type, field), .least = (from), .most = (to)
#define CHARL__CLI_NUMBER(type, field, of) .kind = CHARL__CLI_KIND_NUMBER, CHARL__CLI_FIELD(type, field), .range = (of)
#define CHARL__CLI_FRACTION(type, field) CHARL__CLI_NUMBER(type, field, "[0,1)")
#define CHARL__CLI_CHOICE(type, field, first)                                                                          \
    .kind = CHARL__CLI_KIND_CHOICE, CHARL__CLI_FIELD(type, field), .least = (first)

/** --ema, for a charl_ema_choice or an int. */
#define CHARL__CLI_EMA_OPTION(group, type, field)                                                                      \
    {                                                                                                                  \
        "ema", 0, "auto|yes|no", "Use the moving average of the weights (default: auto, if the checkpoint has one)",   \
            group, CHARL__CLI_CHOICE(type, field, CHARL_EMA_AUTO)                                                      \
    }

/** The syntax of a command. */
typedef struct charl__cli_syntax {
    const charl__cli_option *options; /* NULL: none except --help */
    const char *operands;             /* as shown in the help, "CONFIG [SECTION.KEY=VALUE...]" */
    const char *help;                 /* "before the options\vafter them" */
} charl__cli_syntax;

/** Read options into `input` and operands into *operands. --help prints and exits. Returns -1 to continue, else the exit code, after printing
 *  any error. The output is the same on all ranks that a launcher has started, and the first prints it. */
int charl__cli_parse(const char *path, const charl__cli_syntax *syntax, charl__cli_operands *operands, int argc,
                     char **argv, void *input);

/** For manual pages and completion: from now on charl__cli_parse passes its syntax to `describe` and returns CHARL__EXIT_OK, so that a
 *  command describes itself and does nothing. describe NULL: parse again. */
typedef void (*charl__cli_describer)(void *ctx, const char *path, const struct argp *argp,
                                     const charl__cli_operands *operands);
void charl__cli_parse_instead(charl__cli_describer describe, void *ctx);

/** For charl__cli_option.parse: print an error about an option's value. Returns EINVAL. */
error_t charl__cli_bad_option(const char *option, const char *value, const char *want);

/** For charl__cli_option.parse: read a value as a configuration reads a key's value. Returns 0, or EINVAL after printing an error. */
error_t charl__cli_parse_key(const char *option, const char *value, const charl_key *key, void *settings);
/** The same for an integer in [lo, hi]. */
error_t charl__cli_parse_int(const char *option, const char *value, int64_t lo, int64_t hi, int64_t *out);

enum { CHARL__CLI_OVERRIDES = 64 };

/** The operands from `first` on as overrides of a configuration. Returns their number. */
int charl__cli_overrides(const charl__cli_operands *operands, int first, charl_config_override *out);
/** Load the configuration that operand 0 names. The operands from `first` on, at most CHARL__CLI_OVERRIDES, override its settings. Errors:
 *  those of charl_config_load. */
charl_status charl__cli_load_config(const charl__cli_operands *operands, int first,
                                    charl_config **out) CHARL_MUST_CHECK;

/** The value of a key of a loaded configuration (charl_config_get_int and so on). The key must exist in every configuration. */
int64_t charl__cli_int(const charl_config *config, const char *key);
double charl__cli_number(const charl_config *config, const char *key);
const char *charl__cli_text(const charl_config *config, const char *key);

/** Run `work` on the file `path` in a separate process, with limited memory and time: reading a
 *  malicious file may crash, which is then reported as an error of the file. Returns the result of `work`,
 *  or `damaged`. Only before the first OpenCL or MPI call. */
int charl__cli_guarded(const char *path, int damaged, int (*work)(void *ctx), void *ctx);

#endif
