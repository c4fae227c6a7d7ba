#ifndef CHARL_BENCH_BENCH_H
#define CHARL_BENCH_BENCH_H
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
    charl_status (*run)(void *ctx); /* one call; complete when it returns, or enqueued */
    void *ctx;
    charl_status (*wait)(void *on); /* for what run has enqueued; NULL: nothing */
    void *on;
    int batch;               /* > 1: a run is so many calls */
    double amount;           /* of work in a call: it counts per second */
    double median_s, best_s; /* found: of a call */
} charl__bench_subject;

/* How much is measured. */
typedef struct charl__bench_effort {
    int repeats;
    int calls;       /* of a sample; with ranks after one call that is not counted */
    double sample_s; /* > 0: instead, as many calls as take about so long, after half of that which
                        is not counted, so that neither threads nor caches are as another subject
                        left them */
} charl__bench_effort;

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
    const char *bench;   /* "allreduce" */
    const char *unit;    /* of rates, "bus GB/s" */
    const char *rival;   /* the subject that ratios compare with; NULL: none */
    const char *ceiling; /* the subject that does what the device can; NULL: none */
    charl__bench_format format;
    int ranks;
    bool prints;
} charl__bench_table;

/** Median and best time of a call of each subject, of the slowest rank, over e->repeats samples,
 * after one that is not counted. Collective on comm, which may be NULL; then e->sample_s may be
 * given.
 * Errors: those of the subjects; ERR_NOMEM, ERR_COMM. */
charl_status charl__bench_measure(charl_comm *comm, charl__bench_subject *s, int n,
                                  const charl__bench_effort *e) CHARL_MUST_CHECK;

/** Median of n values, which are sorted; NaN of none. */
double charl__bench_median(double *values, int n);

void charl__bench_head(const charl__bench_table *t);
/** A row for each of n subjects: its rate in units of 1e9, and how many times those of the table's
 * rival and ceiling that is. */
void charl__bench_rows(const charl__bench_table *t, const char *label, int64_t size,
                       const charl__bench_subject *s, int n);
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
