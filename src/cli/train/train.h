#ifndef CHARL_CLI_TRAIN_TRAIN_H
#define CHARL_CLI_TRAIN_TRAIN_H
/** The parts of charl-train: command line, signals, output. */
#include <stdio.h>

#include <charl/config.h>
#include <charl/train.h>
#include "cli/cli.h"

enum { CHARL__EXIT_STOPPED = 75 };

typedef enum charl__train_action {
    CHARL__TRAIN_RUN,
    CHARL__TRAIN_PRINT_CONFIG,
    CHARL__TRAIN_HELP_CONFIG,
    CHARL__TRAIN_LIST_DEVICES,
    CHARL__TRAIN_ENV,
    CHARL__TRAIN_VERSION
} charl__train_action;

typedef enum charl__progress_style {
    CHARL__PROGRESS_AUTO,
    CHARL__PROGRESS_BAR,
    CHARL__PROGRESS_PLAIN,
    CHARL__PROGRESS_NONE
} charl__progress_style;

enum { CHARL__MAX_OVERRIDES = 128 };

/** The parsed command line. Strings point into argv or into `made`. */
typedef struct charl__train_args {
    charl__train_action action;
    const char *config;
    const char *section;                                   /* of --help-config; NULL = all */
    charl_config_override overrides[CHARL__MAX_OVERRIDES]; /* in the order of the command line */
    int positions[CHARL__MAX_OVERRIDES];                   /* of their words there */
    int n_overrides;
    char *made[CHARL__MAX_OVERRIDES]; /* overrides built from options */
    int n_made;
    char **argv; /* [argc], a copy while it is read */
    int argc;
    const char *
        suspect; /* from charl launch: a file in which to name the host of the rank that failed an audit, if it exists; or NULL */
    const char *status_file; /* file for the exit status, if it exists; or NULL */
    const char *job;         /* --job; NULL: none */
    double spent_s;          /* from charl launch: seconds used by its earlier starts */
    bool overwrite, dry_run, overfit_batch, json;
    int fast_dev_run;
    const char *log_ranks; /* NULL: the first only */
    const char *trace;     /* NULL: none; "": the default file */
    bool profile;
    int64_t trace_first, trace_last; /* 0: the default */
    int64_t stop_after;              /* 0: to the end */
    int simulate_ranks;              /* 0: the ranks are those that the launcher started */
    int simulate_ranks_per_node;     /* 0: all are on one node */
    int64_t chaos_first, chaos_last; /* seeds; no chaos: 0 and -1 */
    charl__progress_style progress;
    int color;     /* -1 auto, 0 never, 1 always */
    int verbosity; /* -1 quiet, 0, 1 verbose */
} charl__train_args;

/** Whether --log-ranks=`ranks`, validated by charl__train_parse, includes `rank`; rank 0 always logs. */
bool charl__train_logs(const char *ranks, int rank);

/** Read the command line before anything else starts. Returns as charl__cli_parse does. */
int charl__train_parse(int argc, char **argv, charl__train_args *out);
void charl__train_args_fini(charl__train_args *a);

/** Call first in main: block TERM, INT, HUP, USR1 and USR2 (and CONT under Open MPI) in this
 *  thread and the threads that it creates. HUP is left alone if it is ignored, as under nohup. */
void charl__train_block_signals(void);
/** Undo the blocking if there is no training to stop. */
void charl__train_unblock_signals(void);
/** Receive the blocked signals in a thread from now on: the first requests a checkpoint and a stop; a
 *  second TERM, INT or HUP ends the process at once with 128 + its number, unless it comes so soon
 *  that it is the first one delivered twice. Before the first step of a job of one process the first TERM, INT or HUP ends it at once:
 *  with CHARL__EXIT_STOPPED if it `resumes`, so that a launcher restarts the job, else with 128 + its number. QUIT keeps its default
 *  action. */
charl_status charl__train_watch_signals(atomic_int *stop, bool resumes) CHARL_MUST_CHECK;
/** End that thread, if it runs, so that this process can train again. The signals stay blocked. */
void charl__train_unwatch_signals(void);
/** The first step begins. */
void charl__train_begun(void);
/** The signal that requested a stop; 0 if none did. */
int charl__train_first_signal(void);

/** Run `work` on the number of simulated ranks given in args: threads with a communicator each. Returns rank 0's code; a rank that fails alone
 *  ends the process. */
int charl__train_simulate(const charl__train_args *args, int (*work)(void *ctx, charl_comm *comm), void *ctx);

/** --chaos: `work` trains as args say. For each seed, run it in processes that faults disturb, until the training is complete, and compare its
 *  state with that of an undisturbed one. Prints the story. Returns CHARL__EXIT_OK if all states are equal and the faults explain
 *  all other ends, else CHARL__EXIT_INTERNAL; or what the undisturbed training ended with. */
int charl__train_chaos(const charl__train_args *args, int (*work)(const charl__train_args *args));

/** Lines that may come many times a second. */
enum { CHARL__LINE_TRAIN, CHARL__LINE_VAL, CHARL__LINE_CHECKPOINT, CHARL__LINE_EPOCH, CHARL__LINES };

/** The output of a run, also to train.log: rank 0 only; the output of other ranks does nothing. */
typedef struct charl__output {
    const charl_config *config;
    const charl__train_args *args;
    charl_comm *comm; /* borrowed */
    int rank, size, nodes;
    bool files; /* the run directory is written */
    bool logs;  /* this rank prints */
    bool bar;   /* a terminal */
    bool color;
    bool bar_drawn; /* or another line that is rewritten */
    charl__cli_compiling compiling;
    charl_compile_progress compiled;
    double drawn_s, said_s;       /* time of the last bar, of the last line */
    double shown_s[CHARL__LINES]; /* of the last line of a kind on standard output */
    int devices;
    int64_t steps, rows, batch; /* rows: of an epoch; batch: those of a step */
    int64_t window;             /* tokens per sample; 0: not tokens */
    double last_loss, rate, lr, eta_s;
    double row_s, epoch_s; /* time of the last row, of the start of the epoch */
    FILE *log;             /* train.log; NULL: none */
} charl__output;

void charl__output_init(charl__output *o, const charl_config *config, const charl__train_args *args, charl_comm *comm);
/** Print what is known before anything is opened. */
void charl__output_begin(const charl__output *o);
charl_train_events charl__output_events(charl__output *o);
/** The closing line. */
void charl__output_done(charl__output *o, const charl_train_result *r);
void charl__output_fini(charl__output *o);

/** A rank's device, as shared with the other ranks. */
typedef struct charl__device_text {
    char name[64];
    char pci[16];
} charl__device_text;

/** The block at the start of a run, on stdout, in three parts, each as soon as it is known: name
 *  and configuration; devices (of all ranks), model and data before kernels are compiled; and
 *  what follows from them and a checkpoint. all_bytes: memory used by all ranks. */
void charl__train_print_title(const charl__output *o);
void charl__train_print_model(const charl__output *o, const charl_train_info *i, const charl__device_text *devices);
void charl__train_print_plan(const charl__output *o, const charl_train_info *i, int64_t all_bytes);

/** The tables of --profile, as wide as `columns` allow. */
void charl__train_print_profile(const charl_profile *p, int columns);

/** Versions, features and devices, as text or JSON, on stdout. Returns the exit code. */
int charl__train_print_env(bool json);
void charl__train_print_version(void);
int charl__train_print_devices(void);

#endif
