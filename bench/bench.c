/* Measuring subjects alternately, and the table of results. */
#include "bench/bench.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <charl/error.h>
#include "cli/cli_ranks.h"

enum { MOST_CALLS = 100000, CASE_WIDTH = 28, RATIO_BYTES = 32 };

charl_status charl__bench_sum_run(void *ctx)
{
    const charl__bench_sum *s = ctx;
    int64_t ticket = 0;

    CHARL_TRY(charl_allreduce_begin(s->ar, 0, s->count, &ticket));
    CHARL_TRY(charl_allreduce_wait(s->ar, ticket));
    return CHARL_OK;
}

charl_status charl__bench_aligned(size_t alignment, size_t bytes, void *out)
{
    void *memory = NULL;

    CHARL_REQUIRE(posix_memalign(&memory, alignment, bytes > 0 ? bytes : 1) == 0, CHARL_ERR_NOMEM,
                  "no memory for %zu bytes", bytes);
    memcpy(out, &memory, sizeof memory);
    return CHARL_OK;
}

static charl_status run_calls(const charl__bench_subject *s, int calls)
{
    for (int k = 0; k < calls; k++) {
        CHARL_TRY(s->run(s->ctx));
    }
    if (s->wait) {
        CHARL_TRY(s->wait(s->on));
    }
    return CHARL_OK;
}

/* Runs that take about sample_s, found while half of that passes. */
static charl_status calibrate(const charl__bench_subject *s, double sample_s, int *calls)
{
    const double begin = charl__cli_clock_s();
    double now = begin, took_s = 0;
    int n = 1;

    while (now - begin < sample_s / 2 || took_s <= 0) {
        CHARL_TRY(run_calls(s, n));
        took_s = charl__cli_clock_s() - now;
        now += took_s;
        *calls = took_s < sample_s / MOST_CALLS * n ? MOST_CALLS : (int)(sample_s / took_s * n) + 1;
        n = 2 * n < *calls / 4 ? 2 * n : n;
    }
    return CHARL_OK;
}

static charl_status sample(charl_comm *comm, const charl__bench_subject *s, const charl__bench_effort *e, double *out)
{
    int calls = e->calls;
    double begin;

    if (comm) { /* one call first: a GPU that another subject's context used has to change over */
        CHARL_TRY(run_calls(s, 1));
        CHARL_TRY(charl_comm_barrier(comm));
    } else if (e->sample_s > 0) {
        CHARL_TRY(calibrate(s, e->sample_s, &calls));
    }
    begin = charl__cli_clock_s();
    CHARL_TRY(run_calls(s, calls));
    *out = (charl__cli_clock_s() - begin) / calls / (s->batch > 1 ? s->batch : 1);
    if (comm) {
        CHARL_TRY(charl_comm_reduce_f64(comm, CHARL_COMM_MAX, out, 1));
    }
    return CHARL_OK;
}

charl_status charl__bench_measure(charl_comm *comm, charl__bench_subject *s, int n, const charl__bench_effort *e)
{
    charl_status st = CHARL_OK;
    const int repeats = e->repeats;
    double *times = NULL;

    assert(!comm || e->sample_s <= 0); /* ranks would call differently often */
    st = charl__cli_alloc((int64_t)n * repeats, sizeof *times, &times);
    CHARL_TRY_CLEANUP(comm ? charl_comm_agree(comm, st) : st);
    for (int r = -1; r < repeats; r++) { /* the first touches memory */
        for (int i = 0; i < n; i++) {
            const int k = (i + r + 1) % n;

            CHARL_TRY_CLEANUP(sample(comm, &s[k], e, &times[k * repeats + (r < 0 ? 0 : r)]));
        }
    }
    for (int k = 0; k < n; k++) {
        s[k].median_s = charl__cli_median(times + k * repeats, repeats);
        s[k].best_s = times[k * repeats];
    }
cleanup:
    free(times);
    return st;
}

static const char *time_text(double s, char *text, size_t size)
{
    const char *unit = s < 1e-3 ? "us" : s < 1 ? "ms" : "s";

    snprintf(text, size, "%.*f %s", s < 1e-3 ? 1 : 2, s * (s < 1e-3 ? 1e6 : s < 1 ? 1e3 : 1), unit);
    return text;
}

void charl__bench_head(const charl__bench_table *t)
{
    if (!t->prints) {
        return;
    }
    if (t->format == CHARL__BENCH_CSV) {
        printf("bench,ranks,case,size,subject,median_s,best_s,rate,unit,ratio,of_peak\n");
    } else if (t->format == CHARL__BENCH_TABLE) {
        printf("%*s  %-14s %12s %12s %10s", CASE_WIDTH, "size", t->bench, "median", "best", t->unit);
        if (t->baseline) {
            printf("  of %-13s", t->baseline);
        }
        printf("%s%s\n", t->peak ? "  of " : "", t->peak ? t->peak : "");
    }
    fflush(stdout);
}

static double rate_of(const charl__bench_subject *s)
{
    return s->amount / s->median_s / 1e9;
}

/* What s does of what the subject called `name` does, as text; "" where there is none. */
static const char *ratio_text(const charl__bench_subject *s, const charl__bench_subject *all, int n, const char *name,
                              char *text)
{
    text[0] = '\0';
    for (int k = 0; name && k < n; k++) {
        if (strcmp(all[k].name, name) == 0) {
            snprintf(text, RATIO_BYTES, "%.4g", rate_of(s) / rate_of(&all[k]));
        }
    }
    return text;
}

/* A row of the table for people. */
static void print_row(const charl__bench_table *t, const char *label, const charl__bench_subject *s, const char *ratio,
                      const char *share)
{
    char median[32], best[32];

    printf("%*s  %-14s %12s %12s %10.3f", CASE_WIDTH, label, s->name, time_text(s->median_s, median, sizeof median),
           time_text(s->best_s, best, sizeof best), rate_of(s));
    if (t->baseline) {
        printf("  %s%-*s", ratio[0] ? ratio : "-", t->peak ? 16 - (int)strlen(ratio) : 0, ratio[0] ? "x" : "");
    }
    printf("%s%s%s\n", t->peak ? "  " : "", share, share[0] ? "x" : "");
}

void charl__bench_rows(const charl__bench_table *t, const char *label, int64_t size, const charl__bench_subject *s,
                       int n)
{
    char ratio[RATIO_BYTES], share[RATIO_BYTES];

    for (int k = 0; t->prints && k < n; k++) {
        ratio_text(&s[k], s, n, t->baseline, ratio);
        ratio_text(&s[k], s, n, t->peak, share);
        switch (t->format) {
        case CHARL__BENCH_TABLE:
            print_row(t, label, &s[k], ratio, share);
            break;
        case CHARL__BENCH_CSV:
            printf("%s,%d,%s,%" PRId64 ",%s,%.9g,%.9g,%.6g,%s,%s,%s\n", t->bench, t->ranks, label, size, s[k].name,
                   s[k].median_s, s[k].best_s, rate_of(&s[k]), t->unit, ratio, share);
            break;
        case CHARL__BENCH_JSONL:
            printf("{\"bench\":\"%s\",\"ranks\":%d,\"case\":\"%s\",\"size\":%" PRId64
                   ",\"subject\":\"%s\",\"median_s\":%.9g,\"best_s\":%.9g,\"rate\":%.6g,"
                   "\"unit\":\"%s\",\"ratio\":%s,\"of_peak\":%s}\n",
                   t->bench, t->ranks, label, size, s[k].name, s[k].median_s, s[k].best_s, rate_of(&s[k]), t->unit,
                   ratio[0] ? ratio : "null", share[0] ? share : "null");
            break;
        }
    }
    fflush(stdout);
}

void charl__bench_note(const charl__bench_table *t, const char *fmt, ...)
{
    va_list ap;

    if (!t->prints) {
        return;
    }
    va_start(ap, fmt);
    vfprintf(t->format == CHARL__BENCH_TABLE ? stdout : stderr, fmt, ap);
    va_end(ap);
    fputc('\n', t->format == CHARL__BENCH_TABLE ? stdout : stderr);
}

int charl__bench_config_main(const char *path, const charl__cli_syntax *syntax, int argc, char **argv, void *input,
                             charl__cli_steps_config *config, int (*work)(void *ctx, charl_comm *comm))
{
    charl__cli_operands operands = {.names = {"CONFIG"}, .max = 1 + CHARL__CLI_OVERRIDES};
    charl_config *read = NULL;
    charl_status st;
    int code = charl__cli_parse(path, syntax, &operands, argc, argv, input);

    if (code >= 0) {
        return code;
    }
    st = charl__cli_steps_config_read(&operands, config, &read);
    if (st != CHARL_OK) {
        return charl__cli_fail(st);
    }
    code = charl__with_ranks(read, work, input, &argc, &argv);
    charl_config_destroy(read);
    return code;
}
