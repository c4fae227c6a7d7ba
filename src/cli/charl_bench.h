#ifndef CHARL_CLI_CHARL_BENCH_H
#define CHARL_CLI_CHARL_BENCH_H
/** What the commands of `charl bench` share: subjects measured in turn, and a table of results.
 *
 *  A benchmark compares charl with others in one process, in one run: its subjects take turns, each
 * repetition begins with another one, and a row gives the median. It prints and asserts nothing
 * about times.
 */
#include "charl/comm.h"
#include "cli/cli.h"

typedef struct charl__bench_subject {
    const char *name;
    charl_status (*run)(void *ctx); /* once, complete when it returns */
    void *ctx;
    double median_s, best_s; /* found */
} charl__bench_subject;

/* For subjects that are all-reduces: ctx of charl__bench_sum_run, which sums the first `count`. */
typedef struct charl__bench_sum {
    charl_allreduce *ar;
    int64_t count;
} charl__bench_sum;
charl_status charl__bench_sum_run(void *ctx) CHARL_MUST_CHECK;

typedef enum charl__bench_format {
    CHARL__BENCH_TABLE,
    CHARL__BENCH_CSV,
    CHARL__BENCH_JSONL
} charl__bench_format;

/* A table of results. Only rank 0 prints. */
typedef struct charl__bench_table {
    const char *bench; /* "allreduce" */
    const char *unit;  /* of rates, "bus GB/s" */
    const char *rival; /* what ratios compare with */
    charl__bench_format format;
    int ranks;
    bool prints;
} charl__bench_table;

/** Median and best time of a call of each subject, of the slowest rank, over `repeats` repetitions
 * of `calls` calls each, after one that is not counted. Collective on comm, which may be NULL.
 * Errors: those of the subjects; ERR_NOMEM, ERR_COMM. */
charl_status charl__bench_measure(charl_comm *comm, charl__bench_subject *s, int n, int repeats,
                                  int calls) CHARL_MUST_CHECK;

void charl__bench_head(const charl__bench_table *t);
/** One row: `amount` per second is the rate, in units of 1e9; rival_s 0: no ratio. */
void charl__bench_row(const charl__bench_table *t, const char *label, int64_t size,
                      const charl__bench_subject *s, double amount, double rival_s);
/** A line for people: under the table's name, or on standard error where the output is for
 * programs.
 */
void charl__bench_note(const charl__bench_table *t, const char *fmt, ...) CHARL_PRINTF(2, 3);

/** For parsers: --format. 0, or what the parser returns. */
#define CHARL__BENCH_FORMAT_OPTION                                                                 \
    {                                                                                              \
        "format", 'f', "table|csv|jsonl", 0, "Form of the output (default: table)", 0              \
    }
error_t charl__bench_parse_format(const char *value, charl__bench_format *out);

#endif
