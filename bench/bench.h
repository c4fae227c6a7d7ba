#ifndef CHARL_BENCH_BENCH_H
#define CHARL_BENCH_BENCH_H
/** The harness of charl-bench: subjects measured alternately, and a table of results.
 *
 *  A benchmark compares charl with baselines in one process and one run. Its subjects take turns,
 *  each repetition begins with another subject, and a row of the table has the median.
 */
#include <charl/comm.h>
#include "cli/cli.h"
#include "cli/cli_steps.h"

typedef struct charl__bench_subject {
    const char *name;
    charl_status (*run)(void *ctx); /* one call; complete when it returns, or enqueued */
    void *ctx;
    charl_status (*wait)(void *on); /* waits for what run has enqueued; NULL: run blocks */
    void *on;
    int batch;               /* > 1: calls per run */
    double amount;           /* work of a call, for rates */
    double median_s, best_s; /* results, per call */
} charl__bench_subject;

/* How much is measured. */
typedef struct charl__bench_effort {
    int repeats;     /* samples per subject */
    int calls;       /* per sample; with ranks, one call before it is not counted */
    double sample_s; /* > 0: instead of calls, the length of a sample, after a warm-up half as long */
} charl__bench_effort;

/* A subject that is one of charl's all-reduces: ctx of charl__bench_sum_run, which sums the first
 * `count` values. */
typedef struct charl__bench_sum {
    charl_allreduce *ar;
    int64_t count;
} charl__bench_sum;
charl_status charl__bench_sum_run(void *ctx) CHARL_MUST_CHECK;

/** Memory for `bytes` bytes at a multiple of `alignment`, a power of two, into *(void **)out; free() it. Errors: ERR_NOMEM. */
charl_status charl__bench_aligned(size_t alignment, size_t bytes, void *out) CHARL_MUST_CHECK;

typedef enum charl__bench_format { CHARL__BENCH_TABLE, CHARL__BENCH_CSV, CHARL__BENCH_JSONL } charl__bench_format;

/* A table of results. Only rank 0 prints. */
typedef struct charl__bench_table {
    const char *bench;    /* "allreduce" */
    const char *unit;     /* of rates, "bus GB/s" */
    const char *baseline; /* subject that ratios refer to; NULL: none */
    const char *peak;     /* subject that is the measured peak; NULL: none */
    charl__bench_format format;
    int ranks;
    bool prints;
} charl__bench_table;

/** Median and best time per call of each subject over e->repeats samples, of the slowest rank.
 *  Collective on comm, which may be NULL; e->sample_s requires that. Errors: those of the subjects;
 *  ERR_NOMEM, ERR_COMM. */
charl_status charl__bench_measure(charl_comm *comm, charl__bench_subject *s, int n,
                                  const charl__bench_effort *e) CHARL_MUST_CHECK;

void charl__bench_head(const charl__bench_table *t);
/** A row for each of n subjects: its rate in units of 1e9, and that rate relative to the table's
 *  baseline and peak. */
void charl__bench_rows(const charl__bench_table *t, const char *label, int64_t size, const charl__bench_subject *s,
                       int n);
/** A line of text: on standard output with the format table, else on standard error. */
void charl__bench_note(const charl__bench_table *t, const char *fmt, ...) CHARL_PRINTF(2, 3);

/** --format, for the field `format` of the command's struct. */
#define CHARL__BENCH_FORMAT_OPTION(type)                                                                               \
    {                                                                                                                  \
        "format", 'f', "table|csv|jsonl", "Form of the output (default: table)", 0,                                    \
            CHARL__CLI_CHOICE(type, format, CHARL__BENCH_TABLE)                                                        \
    }

/** A command with the operands CONFIG KEY=VALUE...: read the command line into `input` and the
 *  configuration into config, which is part of it, and run work(input, comm) on all ranks. Returns
 *  the exit code. */
int charl__bench_config_main(const char *path, const charl__cli_syntax *syntax, int argc, char **argv, void *input,
                             charl__cli_steps_config *config, int (*work)(void *ctx, charl_comm *comm));

/* The commands that need a configuration or ranks. */
int charl__bench_allreduce_main(const char *path, int argc, char **argv);
int charl__bench_scaling_main(const char *path, int argc, char **argv);
int charl__bench_data_main(const char *path, int argc, char **argv);
int charl__bench_step_main(const char *path, int argc, char **argv);
int charl__bench_overlap_main(const char *path, int argc, char **argv);

/* Two devices side by side. */
int charl__bench_break_even_main(const char *path, int argc, char **argv);

#endif
