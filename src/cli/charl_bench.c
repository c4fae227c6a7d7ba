/* charl bench: the frame of the benchmarks. */
#include "cli/charl_bench.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "cli/charl_commands.h"

const charl__cli_command charl__bench_commands[] = {
    {"allreduce", "", "sums over ranks: every algorithm, MPI and NCCL (under mpirun)",
     charl__bench_allreduce_main, NULL},
    {"scaling", "CONFIG", "the time of a training step on other numbers of ranks",
     charl__bench_scaling_main, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

charl_status charl__bench_sum_run(void *ctx)
{
    charl_status st = CHARL_OK;
    const charl__bench_sum *s = ctx;
    int64_t ticket = 0;

    CHARL_TRY(charl_allreduce_begin(s->ar, 0, s->count, &ticket));
    CHARL_TRY(charl_allreduce_wait(s->ar, ticket));
cleanup:
    return st;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static charl_status sample(charl_comm *comm, const charl__bench_subject *s, int calls, double *out)
{
    charl_status st = CHARL_OK;
    double begin;

    if (comm) {
        CHARL_TRY(charl_comm_barrier(comm));
    }
    begin = charl__clock_s();
    for (int k = 0; k < calls; k++) {
        CHARL_TRY(s->run(s->ctx));
    }
    *out = (charl__clock_s() - begin) / calls;
    if (comm) {
        CHARL_TRY(charl_comm_reduce_f64(comm, CHARL_COMM_MAX, out, 1));
    }
cleanup:
    return st;
}

charl_status charl__bench_measure(charl_comm *comm, charl__bench_subject *s, int n, int repeats,
                                  int calls)
{
    charl_status st = CHARL_OK;
    double *times = NULL;

    st = charl_alloc_array((int64_t)n * repeats, sizeof *times, &times);
    CHARL_TRY(comm ? charl_comm_agree(comm, st) : st);
    for (int r = -1; r < repeats; r++) { /* the first touches memory */
        for (int i = 0; i < n; i++) {
            const int k = (i + r + 1) % n;

            CHARL_TRY(sample(comm, &s[k], calls, &times[k * repeats + (r < 0 ? 0 : r)]));
        }
    }
    for (int k = 0; k < n; k++) {
        qsort(times + k * repeats, (size_t)repeats, sizeof *times, by_value);
        s[k].median_s = times[k * repeats + repeats / 2];
        s[k].best_s = times[k * repeats];
    }
cleanup:
    charl_free(times);
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
        printf("bench,ranks,case,size,subject,median_s,best_s,rate,unit,ratio\n");
    } else if (t->format == CHARL__BENCH_TABLE) {
        printf("%10s  %-14s %12s %12s %10s  of %s\n", "size", t->bench, "median", "best", t->unit,
               t->rival);
    }
    fflush(stdout);
}

void charl__bench_row(const charl__bench_table *t, const char *label, int64_t size,
                      const charl__bench_subject *s, double amount, double rival_s)
{
    const double rate = amount / s->median_s / 1e9;
    char median[32], best[32], ratio[32] = "";

    if (!t->prints) {
        return;
    }
    if (rival_s > 0) {
        snprintf(ratio, sizeof ratio, "%.4g", rival_s / s->median_s);
    }
    switch (t->format) {
    case CHARL__BENCH_TABLE:
        printf("%10s  %-14s %12s %12s %10.3f  %s%s\n", label, s->name,
               time_text(s->median_s, median, sizeof median),
               time_text(s->best_s, best, sizeof best), rate, ratio[0] ? ratio : "-",
               ratio[0] ? "x" : "");
        break;
    case CHARL__BENCH_CSV:
        printf("%s,%d,%s,%" PRId64 ",%s,%.9g,%.9g,%.6g,%s,%s\n", t->bench, t->ranks, label, size,
               s->name, s->median_s, s->best_s, rate, t->unit, ratio);
        break;
    case CHARL__BENCH_JSONL:
        printf(
            "{\"bench\":\"%s\",\"ranks\":%d,\"case\":\"%s\",\"size\":%" PRId64
            ",\"subject\":\"%s\",\"median_s\":%.9g,\"best_s\":%.9g,\"rate\":%.6g,\"unit\":\"%s\","
            "\"ratio\":%s}\n",
            t->bench, t->ranks, label, size, s->name, s->median_s, s->best_s, rate, t->unit,
            ratio[0] ? ratio : "null");
        break;
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

error_t charl__bench_parse_format(const char *value, charl__bench_format *out)
{
    static const char *const names[] = {
        [CHARL__BENCH_TABLE] = "table", [CHARL__BENCH_CSV] = "csv", [CHARL__BENCH_JSONL] = "jsonl"};

    for (int i = 0; i < (int)(sizeof names / sizeof names[0]); i++) {
        if (strcmp(value, names[i]) == 0) {
            *out = (charl__bench_format)i;
            return 0;
        }
    }
    return charl__cli_bad_option("--format", value, "must be table, csv or jsonl");
}
