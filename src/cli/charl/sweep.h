#ifndef CHARL_CLI_CHARL_SWEEP_H
#define CHARL_CLI_CHARL_SWEEP_H
/** charl sweep: many runs of one configuration.
 *
 *      sweep_file.c   the command line of a file
 *      sweep_plan.c   what the command line means: the keys, their values, the runs
 *      sweep_race.c   --stop-losers
 *      sweep_run.c    which runs exist, and running the others
 *      sweep.c        the command, its table and its file
 */
#include <charl/report.h>
#include "cli/charl/commands.h"

enum {
    CHARL__SWEEP_KEYS = 16,
    CHARL__SWEEP_NAME = 160, /* bytes of the name of a run */
    CHARL__SWEEP_PATH = 4400,
    CHARL__SWEEP_MOST_JOBS = 256 /* at a time */
};

/** A key with several values. */
typedef struct charl__sweep_key {
    const char *name;    /* "optimizer.learning_rate" */
    const char *label;   /* the part after the section, unless two keys share it */
    const char **values; /* [count] owned by the sweep; of a range those that were drawn */
    int count;
    bool is_range, is_log, is_integer;
    double low, high;
} charl__sweep_key;

typedef enum charl__sweep_state {
    CHARL__SWEEP_NEW,
    CHARL__SWEEP_BEGUN, /* it has a run directory, and is not done */
    CHARL__SWEEP_RUNNING,
    CHARL__SWEEP_STOPPED,
    CHARL__SWEEP_FAILED,
    CHARL__SWEEP_DROPPED, /* its configuration has lost (--stop-losers) */
    CHARL__SWEEP_DONE
} charl__sweep_state;

/** A run of the sweep. */
typedef struct charl__sweep_arm {
    char name[CHARL__SWEEP_NAME];
    char dir[CHARL__SWEEP_PATH];
    int value[CHARL__SWEEP_KEYS]; /* of each key: index in its values */
    int group;                    /* runs of a group differ in the key `seed` only */
    charl__sweep_state state;
    charl_run_summary done; /* where `measured` */
    bool measured;
    charl_config *config; /* as its run records it; owned; NULL: it is refused */
    uint64_t hash;        /* of what is recorded */
    int parent;           /* the run before it with which it has the most first steps in common; -1: none */
    int64_t shared;       /* their number */
    int64_t from, to;     /* the steps that this command has trained of it: from + 1 to `to` */
    char *refusal;        /* why its configuration is refused; owned; NULL: it is not */
} charl__sweep_arm;

typedef struct charl__sweep {
    const char *config;                                /* path */
    const char *dir;                                   /* of the run directories */
    charl_config_override fixed[CHARL__CLI_OVERRIDES]; /* those of one value */
    int n_fixed;
    charl__sweep_key key[CHARL__SWEEP_KEYS];
    int n_keys;
    int seed; /* the key run.seed or data.fold; -1: neither is swept */
    charl__sweep_arm *arm;
    int n_arms, n_groups;
    char **owned; /* [n_owned] texts */
    int n_owned;
} charl__sweep;

typedef struct charl__sweep_options {
    int64_t random, draw_seed, seeds; /* 0: not given */
    int64_t jobs, ranks;
    const char *devices;
    const char *dir;
    double stop_losers; /* 0: not given */
    bool alone;         /* nothing is shared */
} charl__sweep_options;

/** The command line that a file stands for, and the words that follow the file's name. */
typedef struct charl__sweep_file {
    char **argv; /* [argc], owned, and NULL */
    int argc;    /* 0: `path` is an ordinary configuration, without [sweep] */
} charl__sweep_file;

/** Read the file `path`, an operand of the command line. Start from {0}; call charl__sweep_file_fini on every path. Errors: ERR_CONFIG,
 *  ERR_NOMEM; those of charl_config_scan. */
charl_status charl__sweep_file_read(const char *path, const charl__cli_option *options, int argc, char **argv,
                                    charl__sweep_file *out) CHARL_MUST_CHECK;
void charl__sweep_file_fini(charl__sweep_file *f);

/** Read the operands. Start from {0}; call charl__sweep_fini on every path.
 *  Errors: ERR_CONFIG  a value or a key that cannot be meant; ERR_NOMEM; those of charl_config_load. */
charl_status charl__sweep_plan(const charl__cli_operands *operands, const charl__sweep_options *options,
                               charl__sweep *s) CHARL_MUST_CHECK;
void charl__sweep_fini(charl__sweep *s);

/** FNV-1a: go on from h, at first CHARL__SWEEP_HASH. */
#define CHARL__SWEEP_HASH UINT64_C(0xcbf29ce484222325)
uint64_t charl__sweep_hash(uint64_t h, const char *text);

/** The overrides of a run besides s->fixed, as "key=value": [s->n_keys] texts of CHARL__SWEEP_PATH bytes. */
void charl__sweep_settings(const charl__sweep *s, const charl__sweep_arm *arm, char (*text)[CHARL__SWEEP_PATH]);

/** Find out which runs exist: a run directory in s->dir whose config.ini has the settings of a run is that run, whatever its name. Prints which
 *  configurations are refused, and makes their runs failed. Errors: ERR_CONFIG  the directory of a run holds another one; all are refused. */
charl_status charl__sweep_look(charl__sweep *s) CHARL_MUST_CHECK;

/** Find for each run which other one it can begin with. Errors: those of charl_train_common_steps. Cost: opens the data for each pair of
 *  runs that differ in the schedule or the length only. */
charl_status charl__sweep_share(charl__sweep *s) CHARL_MUST_CHECK;

/** Read how far a run is. */
void charl__sweep_measure(charl__sweep_arm *arm);

/** Drop the runs that are left of configurations that have lost: worse than the best one, by a paired t test over the seeds that both have, at least
 *  three, of level p / (all ordered pairs of configurations times all numbers of seeds). So a sweep of equal configurations drops one with a
 *  probability of at most p. Source: racing (O. Maron, A. Moore 1994) with paired t tests and Bonferroni's correction (M. Birattari and others
 *  2002). Prints what is dropped. Errors: ERR_NOMEM. */
charl_status charl__sweep_drop(charl__sweep *s, double p) CHARL_MUST_CHECK;

/** Run those that are not done, and print a line for each. *stopped: on a signal. Errors: ERR_NOMEM, ERR_IO. */
charl_status charl__sweep_run(charl__sweep *s, const charl__sweep_options *options, bool *stopped) CHARL_MUST_CHECK;

/** Print the command line of each run that is not done, without the program's name, quoted for xargs and a shell. */
void charl__sweep_print(const charl__sweep *s);

#endif
