#ifndef CHARL_CLI_CLI_H
#define CHARL_CLI_CLI_H
/** What the programs share: how a command line is read, how failures are said, how a process ends.
 *
 *  Functions that return int return an exit code. Everything belongs to the main thread.
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

/** Seconds since some fixed moment; never goes back. */
double charl__cli_clock_s(void);

/** Zeroed memory for `count` elements of `size` bytes into *(void **)out, never NULL on success; free() it. Errors: ERR_NOMEM. */
charl_status charl__cli_alloc(int64_t count, size_t size, void *out) CHARL_MUST_CHECK;

/** Name of the program, as in front of its messages. */
const char *charl__cli_program(void);

/** Until charl__cli_deadline_end: after `seconds` say that `what`, and leave with CHARL__EXIT_COMM.
 *  For calls of MPI that have no deadline of their own, before there is a communicator and after. */
void charl__cli_deadline_begin(double seconds, const char *what);
void charl__cli_deadline_end(void);

/** Check the limits of the process, before MPI and OpenCL start: open files, stack, size of a file,
 *  memory, threads. Soft limits of open files and stack are raised where the hard ones allow it;
 *  threads that are created from now on have a stack of at least 8 MiB. Returns CHARL__EXIT_OK, or
 *  CHARL__EXIT_USAGE after saying which limit is too low. */
int charl__cli_limits(void);

/** Whether this process says a failure that it met before the ranks could talk to each other. The
 *  ranks of a job usually meet the same one, and the first says it. Any other waits up to 5 seconds
 *  for the launcher to end the job, as it does when the first rank has failed; when the launcher
 *  does not, this rank alone is wrong, and says so. */
bool charl__cli_speaks(void);

/** Exit code of a status. */
int charl__cli_exit_code(charl_status st);

/** Before anything else: the name in front of messages, where warnings of the library go, the
 *  environment variables. Returns CHARL__EXIT_OK or the code to leave with. */
int charl__cli_begin(const char *program);

/** Last thing in main: make sure that standard output arrived. Returns `code`, or CHARL__EXIT_DISK
 *  when a success could not be written. A reader that has closed the pipe (`| head`) has what it
 *  wanted: that is no failure. */
int charl__cli_end(int code);

/** Say an error, and under it the hint unless NULL. Returns `code`. */
int charl__cli_error(int code, const char *hint, const char *fmt, ...) CHARL_PRINTF(3, 4);

/** Whether an operand is SECTION.KEY=VALUE, and not a file, whose path may have a = too. */
bool charl__cli_is_override(const char *operand);

/** Cut a message off where its "HINT" begins: in front, or after `;`, `.` or `,`. Returns what follows that, or NULL. */
char *charl__cli_split_hint(char *text);

/** Say the thread's last failure; what follows "HINT" in its message becomes the hint. Returns the
 *  exit code of `st`. */
int charl__cli_fail(charl_status st);

/** The same of a failure that the other ranks usually meet too: charl__cli_speaks decides. */
int charl__cli_fail_alike(charl_status st);

/** Text from elsewhere (names in a file, paths, messages) to a stream that may be a terminal. A
 *  character that would not just be shown (base/text/utf8.h; a tab is) becomes '?', so that no file can
 *  steer the terminal or hide what it says. Everything that charl prints and did not write itself
 *  goes through here. */
void charl__cli_write(FILE *f, const char *text, size_t length);

/** The same on standard output, line ends kept. With `indent` every line begins with that many
 *  spaces. */
void charl__cli_put(const char *text, int indent);

/** The name, or what fits in `width` columns of it: both ends, as the end of a layer's name tells more than its middle. `out` has room for
 *  width + 1 bytes. */
void charl__cli_shorten(const char *name, int width, char *out);

/** Every line of `text` on standard error as "program: LEVEL: line", LEVEL being "warning", "note"
 *  and the like. */
void charl__cli_say(const char *level, const char *text);
/** The same as events of the library want it; ctx is not used. */
void charl__cli_warn(void *ctx, const char *text);
void charl__cli_note(void *ctx, const char *text);

/** Columns of the terminal that f is and on which a line can be rewritten; 0 where it is none, or
 *  TERM is dumb. Under mpirun standard output and error are always terminals, without a width. */
int charl__cli_columns(FILE *f);

/** When kernels take long to compile, that is to be said: */
typedef struct charl__cli_compiling {
    double base_s; /* spent when the last stage ended */
    double said_s; /* when a line was last printed; 0: not in this stage */
} charl__cli_compiling;

enum { CHARL__COMPILE_TEXT = 192, CHARL__COMPILE_LONG_S = 5 /* worth a line of a log */ };

/** For terminals: what to show until the next call, of at most `columns` characters; "" for
 *  nothing, as where it takes no time that a person would notice. Returns text. */
const char *charl__cli_compiling_line(const charl__cli_compiling *c, const charl_compile_progress *p, int columns,
                                      char text[CHARL__COMPILE_TEXT]);
/** For logs: whether a line is due, after some seconds and then every 15. */
bool charl__cli_compiling_is_due(charl__cli_compiling *c, const charl_compile_progress *p);
/** "12", or "12 of 40" where that is known; with `slash` "12/40". Returns text. */
const char *charl__cli_compiling_count(const charl_compile_progress *p, bool slash, char text[32]);
/** The stage ends. Returns the seconds that it spent compiling. */
double charl__cli_compiling_end(charl__cli_compiling *c, const charl_compile_progress *p);

/** For charl_device_request.compiling of all programs but charl-train, which has a log: shows on
 *  standard error that kernels are compiled, on the first of the ranks that a launcher started. */
void charl__cli_compiling_show(void *ctx, const charl_compile_progress *p);
/** Remove what the line above shows, before something else is printed. */
void charl__cli_compiling_erase(void);
/** The command begins to print, or ends: says how long compiling took, if that was long. */
void charl__cli_compiling_done(void);

/** A command: argv[0] is its own name, `path` what was typed up to it. */
typedef int charl__cli_main(const char *path, int argc, char **argv);

/** A node of the tree of commands: `run`, `sub` or `program`; the end of a table has no name. */
typedef struct charl__cli_command {
    const char *name;
    const char *args; /* of `run`, for the list of commands */
    const char *summary;
    charl__cli_main *run;
    const struct charl__cli_command *sub;
    const char *(*words)(int i); /* names of which argv[1] must be one; NULL: it need not */
    const char *program; /* started with the rest of the command line, by `run` or, where that is NULL, at once */
} charl__cli_command;

/** Run the command of the table that argv[1] names. `path` is what was typed so far, "charl data".
 */
int charl__cli_dispatch(const char *path, const charl__cli_command *table, int argc, char **argv);

/** The operands that a command takes; `names` and `max` are the command's. */
typedef struct charl__cli_operands {
    const char *names[4]; /* one per required operand */
    int max;              /* at most; 0: as many as are required */
    bool program; /* the first one begins another program's command line: options after it belong to that program */
    int count;
    char **values; /* into argv */
    /* What else they must be, or NULL: 0, or EINVAL after saying what is wrong. `input` is the
     * parser's. */
    error_t (*take)(const struct charl__cli_operands *operands, void *input);
} charl__cli_operands;

/** What an option's value is. */
typedef enum charl__cli_kind {
    CHARL__CLI_KIND_SET,    /* an option without value: the field becomes `least` */
    CHARL__CLI_KIND_TEXT,   /* const char *, into argv */
    CHARL__CLI_KIND_INT,    /* from `least` to `most`, into an int or int64_t */
    CHARL__CLI_KIND_NUMBER, /* double in `range`, "[0,1)" */
    CHARL__CLI_KIND_CHOICE, /* one of the words of `value`, "a|b|c": `least` for a, `least` + 1 for b, into an enum or int */
} charl__cli_kind;

/** An option of a command: how the help shows it, and the field of the command's own struct that it sets. A table ends with {0}; a row of
 *  `help` and `group` alone is a heading.
 *
 *      {"tokens", 'n', "N", "Number of tokens to generate", 0, CHARL__CLI_INT(generation, tokens, 1, INT32_MAX)},
 */
typedef struct charl__cli_option {
    const char *name;  /* --name */
    int letter;        /* -x; 0: none */
    const char *value; /* what the help calls it; NULL: there is none */
    const char *help;
    int group; /* of the help: in this order */
    charl__cli_kind kind;
    size_t at, size; /* of the field */
    int64_t least, most;
    const char *range;
    /* instead of a kind: 0, or EINVAL after saying what is wrong (charl__cli_bad_option). `option` is "--name" */
    error_t (*take)(void *input, const char *option, const char *value);
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

/** What a command reads. */
typedef struct charl__cli_syntax {
    const charl__cli_option *options; /* NULL: none but --help */
    const char *operands;             /* as the help shows them, "CONFIG [SECTION.KEY=VALUE...]" */
    const char *help;                 /* "before the options\vafter them" */
} charl__cli_syntax;

/** Read options into `input` and operands into *operands. --help prints and leaves. Returns -1 to continue, else the exit code; what
 *  is wrong has been said. What is printed here is the same on all ranks that a launcher has started, and the first prints it. */
int charl__cli_parse(const char *path, const charl__cli_syntax *syntax, charl__cli_operands *operands, int argc,
                     char **argv, void *input);

/** For manual pages and completion: from now on charl__cli_parse hands what it would read to `take` and returns CHARL__EXIT_OK, so that a
 *  command says what it takes and does nothing. take NULL: read again. */
typedef void (*charl__cli_take)(void *ctx, const char *path, const struct argp *argp,
                                const charl__cli_operands *operands);
void charl__cli_parse_instead(charl__cli_take take, void *ctx);

/** For charl__cli_option.take: say what is wrong with an option's value. Returns EINVAL. */
error_t charl__cli_bad_option(const char *option, const char *value, const char *want);

/** For charl__cli_option.take: read a value as a configuration reads that of a key. Returns 0, or EINVAL after saying what is wrong. */
error_t charl__cli_parse_key(const char *option, const char *value, const charl_key *key, void *settings);
/** The same for an integer in [lo, hi]. */
error_t charl__cli_parse_int(const char *option, const char *value, int64_t lo, int64_t hi, int64_t *out);

enum { CHARL__CLI_OVERRIDES = 64 };

/** The operands from `first` on as overrides of a configuration. Returns how many. */
int charl__cli_overrides(const charl__cli_operands *operands, int first, charl_config_override *out);
/** Load the configuration that operand 0 names. The operands from `first` on, at most CHARL__CLI_OVERRIDES, override its settings. Errors:
 *  those of charl_config_load. */
charl_status charl__cli_load_config(const charl__cli_operands *operands, int first,
                                    charl_config **out) CHARL_MUST_CHECK;

/** The value of a key of a configuration that is loaded (charl_config_get_int and so on). The key is one that every configuration has. */
int64_t charl__cli_int(const charl_config *config, const char *key);
double charl__cli_number(const charl_config *config, const char *key);
const char *charl__cli_text(const charl_config *config, const char *key);

/** Run `work` on the file `path` in a process of its own, with limited memory and time: reading a
 *  file made to harm may crash, and then that is what is said of the file. Returns what `work`
 *  returned, or `damaged`. Only before the first OpenCL or MPI call. */
int charl__cli_guarded(const char *path, int damaged, int (*work)(void *ctx), void *ctx);

#endif
