/* charl report: the page and its data. The page (report.html) draws everything; this file converts runs to JSON. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/text/text.h"
#include "charl/report.h"
#include "io/commit.h"
#include "report/report_page.h"
#include "report/run_log.h"

/* Total bytes of all curves, and points of a curve. A number takes about 9 bytes with its comma. */
enum { CURVE_BYTES = 1300000, NUMBER_BYTES = 9, MIN_POINTS = 60, MAX_POINTS = 2000 };

/* A value of a curve: six digits are finer than any screen. */
static charl_status put(charl__text *t, double v, bool is_first)
{
    CHARL_TRY(isfinite(v) ? charl__text_printf(t, "%s%.6g", is_first ? "" : ",", v)
                          : charl__text_printf(t, "%snull", is_first ? "" : ","));
    return CHARL_OK;
}

/* Rows [begin, end) that form one point of a curve. */
typedef struct bucket {
    int64_t begin, end;
} bucket;

static bucket bucket_at(int64_t rows, int64_t points, int64_t i)
{
    return (bucket){i * rows / points, (i + 1) * rows / points};
}

/* The row that represents a bucket: its middle, but the ends of the run for the first and the last one. */
static int64_t middle(int64_t rows, int64_t points, int64_t i)
{
    const bucket b = bucket_at(rows, points, i);

    return i == 0 ? 0 : i == points - 1 ? rows - 1 : (b.begin + b.end) / 2;
}

typedef enum summary { MEAN, LOWEST, HIGHEST } summary;

static double summarize(const double *v, bucket b, summary what)
{
    double sum = 0, count = 0, low = (double)INFINITY, high = (double)-INFINITY;

    for (int64_t i = b.begin; i < b.end; i++) {
        if (!isnan(v[i])) {
            sum += v[i];
            count++;
            low = fmin(low, v[i]);
            high = fmax(high, v[i]);
        }
    }
    return count == 0 ? (double)NAN : what == MEAN ? sum / count : what == LOWEST ? low : high;
}

static charl_status put_curve(charl__text *t, const char *name, const double *v, int64_t rows, int64_t points,
                              summary what)
{
    CHARL_TRY(charl__text_printf(t, "\"%s\":[", name));
    for (int64_t i = 0; i < points; i++) {
        CHARL_TRY(put(t, summarize(v, bucket_at(rows, points, i), what), i == 0));
    }
    CHARL_TRY(charl__text_printf(t, "]"));
    return CHARL_OK;
}

/* The horizontal axis: all digits of a step. */
static charl_status put_axis(charl__text *t, const char *name, const double *v, int64_t rows, int64_t points)
{
    CHARL_TRY(charl__text_printf(t, "\"%s\":[", name));
    for (int64_t i = 0; i < points; i++) {
        CHARL_TRY(charl__text_printf(t, "%s%.10g", i > 0 ? "," : "", v[middle(rows, points, i)]));
    }
    CHARL_TRY(charl__text_printf(t, "],"));
    return CHARL_OK;
}

static charl_status put_rows(charl__text *t, const charl__run_rows *r, int64_t most_points)
{
    const int64_t points = r->n < most_points ? r->n : most_points;

    CHARL_TRY(charl__text_printf(t, "{\"rows\":%" PRId64 ",", r->n));
    CHARL_TRY(put_axis(t, "step", r->step, r->n, points));
    CHARL_TRY(put_axis(t, "time", r->time, r->n, points));
    CHARL_TRY(charl__text_printf(t, "\"series\":{"));
    for (int k = 0; k < r->n_series; k++) {
        const charl__run_series *s = &r->series[k];

        CHARL_TRY(charl__text_printf(t, "%s", k > 0 ? "," : ""));
        CHARL_TRY(charl__text_json(t, s->name));
        CHARL_TRY(charl__text_printf(t, ":{"));
        CHARL_TRY(put_curve(t, "mean", s->value, r->n, points, MEAN));
        if (points < r->n) {
            CHARL_TRY(charl__text_printf(t, ","));
            CHARL_TRY(put_curve(t, "min", s->value, r->n, points, LOWEST));
            CHARL_TRY(charl__text_printf(t, ","));
            CHARL_TRY(put_curve(t, "max", s->value, r->n, points, HIGHEST));
        }
        CHARL_TRY(charl__text_printf(t, "}"));
    }
    CHARL_TRY(charl__text_printf(t, "}}"));
    return CHARL_OK;
}

static charl_status put_events(charl__text *t, const charl__run_log *log, int64_t most_points)
{
    const char *comma = "";

    CHARL_TRY(charl__text_printf(t, ",\"events\":{"));
    for (int e = 0; e < CHARL__RUN_EVENTS; e++) {
        if (log->rows[e].n > 0) {
            CHARL_TRY(charl__text_printf(t, "%s\"%s\":", comma, charl__run_event_name((charl__run_event)e)));
            CHARL_TRY(put_rows(t, &log->rows[e], most_points));
            comma = ",";
        }
    }
    CHARL_TRY(charl__text_printf(t, "}"));
    return CHARL_OK;
}

/* The last value of every metric, without progress counters. */
static charl_status put_final(charl__text *t, const charl__run_log *log)
{
    static const char *const progress[] = {"epoch", "elapsed_s"};

    CHARL_TRY(charl__text_printf(t, ",\"final\":{"));
    for (int e = 0; e < CHARL__RUN_EVENTS; e++) {
        const charl__run_rows *r = &log->rows[e];
        const char *comma = "";

        CHARL_TRY(charl__text_printf(t, "%s\"%s\":{", e > 0 ? "," : "", charl__run_event_name((charl__run_event)e)));
        for (int k = 0; k < r->n_series; k++) {
            if (strcmp(r->series[k].name, progress[0]) == 0 || strcmp(r->series[k].name, progress[1]) == 0) {
                continue;
            }
            CHARL_TRY(charl__text_printf(t, "%s", comma));
            CHARL_TRY(charl__text_json(t, r->series[k].name));
            CHARL_TRY(charl__text_printf(t, ":"));
            CHARL_TRY(charl__text_json_number(t, charl__run_series_last(r, &r->series[k])));
            comma = ",";
        }
        CHARL_TRY(charl__text_printf(t, "}"));
    }
    CHARL_TRY(charl__text_printf(t, "}"));
    return CHARL_OK;
}

static charl_status put_summary(charl__text *t, const charl__run_log *log)
{
    const charl__run_best best = charl__run_log_best(log);
    const charl__run_times times = charl__run_log_times(log);
    const charl__run_expense expense = charl__run_log_expense(log);
    double steps, time;

    charl__run_log_end(log, &steps, &time);
    CHARL_TRY(charl__text_printf(t, ",\"state\":\"%s\",\"steps\":%.0f,\"nonfinite\":%" PRId64 ",\"time\":", log->state,
                                 steps, log->nonfinite));
    CHARL_TRY(charl__text_json_number(t, time));
    CHARL_TRY(charl__text_printf(t, ",\"samples_per_s\":"));
    CHARL_TRY(charl__text_json_number(t, times.samples_per_s));
    CHARL_TRY(charl__text_printf(t, ",\"energy_kwh\":"));
    CHARL_TRY(charl__text_json_number(t, expense.kwh));
    CHARL_TRY(charl__text_printf(t, ",\"energy_measured\":%s,\"cost\":", expense.is_measured ? "true" : "false"));
    CHARL_TRY(charl__text_json_number(t, expense.cost));
    CHARL_TRY(charl__text_printf(t, ",\"monitor\":"));
    CHARL_TRY(charl__text_json(t, best.monitor));
    if (!isnan(best.value)) {
        CHARL_TRY(charl__text_printf(t, ",\"best\":{\"step\":%" PRId64 ",\"value\":", best.step));
        CHARL_TRY(charl__text_json_number(t, best.value));
        CHARL_TRY(charl__text_printf(t, "}"));
    } else {
        CHARL_TRY(charl__text_printf(t, ",\"best\":null"));
    }
    if (!isnan(times.step_ms)) {
        CHARL_TRY(charl__text_printf(t, ",\"split\":{\"compute\":%.6g,\"comm\":%.6g,\"data\":%.6g}",
                                     fmax(0, times.step_ms - times.comm_ms - times.data_ms), times.comm_ms,
                                     times.data_ms));
    } else {
        CHARL_TRY(charl__text_printf(t, ",\"split\":null"));
    }
    CHARL_TRY(log->ranks > 0 ? charl__text_printf(t, ",\"ranks\":%d", log->ranks)
                             : charl__text_printf(t, ",\"ranks\":null"));
    return CHARL_OK;
}

static charl_status put_settings(charl__text *t, const charl__run_log *log)
{
    CHARL_TRY(charl__text_printf(t, ",\"config\":{"));
    for (int i = 0; i < log->n_config; i++) {
        CHARL_TRY(charl__text_printf(t, "%s", i > 0 ? "," : ""));
        CHARL_TRY(charl__text_json(t, log->config[i].key));
        CHARL_TRY(charl__text_printf(t, ":"));
        CHARL_TRY(charl__text_json(t, log->config[i].value));
    }
    CHARL_TRY(charl__text_printf(t, "},\"env\":"));
    CHARL_TRY(charl__text_json(t, log->env)); /* a string, because it may not be JSON */
    CHARL_TRY(charl__text_printf(t, ",\"eval\":"));
    CHARL_TRY(charl__text_json(t, log->eval));
    return CHARL_OK;
}

static charl_status put_checkpoints(charl__text *t, const charl__run_log *log)
{
    CHARL_TRY(charl__text_printf(t, ",\"checkpoints\":["));
    for (int i = 0; i < log->n_checkpoints; i++) {
        const charl__run_file *c = &log->checkpoint[i];

        CHARL_TRY(charl__text_printf(t,
                                     "%s{\"file\":\"checkpoints/%s\",\"step\":%" PRId64 ",\"bytes\":%" PRId64
                                     ",\"time\":%.0f,\"last\":%s,\"best\":%s}",
                                     i > 0 ? "," : "", c->name, c->step, c->bytes, c->time,
                                     c->is_last ? "true" : "false", c->is_best ? "true" : "false"));
    }
    CHARL_TRY(charl__text_printf(t, "]"));
    return CHARL_OK;
}

/* Maximum number of points of each curve, over all runs. */
static int64_t points_of(const charl__run_log *log, int n)
{
    int64_t curves = 0, points;

    for (int i = 0; i < n; i++) {
        for (int e = 0; e < CHARL__RUN_EVENTS; e++) {
            curves += log[i].rows[e].n > 0 ? 2 + 3 * log[i].rows[e].n_series : 0;
        }
    }
    points = curves > 0 ? CURVE_BYTES / NUMBER_BYTES / curves : MAX_POINTS;
    return points < MIN_POINTS ? MIN_POINTS : points > MAX_POINTS ? MAX_POINTS : points;
}

static charl_status put_data(charl__text *t, const charl__run_log *log, int n)
{
    const int64_t points = points_of(log, n);

    CHARL_TRY(
        charl__text_printf(t, "{\"charl\":\"%s\",\"made\":%lld,\"runs\":[", charl_version(), (long long)time(NULL)));
    for (int i = 0; i < n; i++) {
        CHARL_TRY(charl__text_printf(t, "%s{\"name\":", i > 0 ? "," : ""));
        CHARL_TRY(charl__text_json(t, log[i].name));
        CHARL_TRY(charl__text_printf(t, ",\"path\":"));
        CHARL_TRY(charl__text_json(t, log[i].path));
        CHARL_TRY(put_summary(t, &log[i]));
        CHARL_TRY(put_final(t, &log[i]));
        CHARL_TRY(put_events(t, &log[i], points));
        CHARL_TRY(put_settings(t, &log[i]));
        CHARL_TRY(put_checkpoints(t, &log[i]));
        CHARL_TRY(charl__text_printf(t, "}"));
    }
    CHARL_TRY(charl__text_printf(t, "]}"));
    return CHARL_OK;
}

/* The data inside a script element: no text in them may end it. A < can occur in strings only. */
static charl_status write_data(charl__commit *c, const charl__text *data)
{
    const char *p = charl__text_string(data);

    while (*p) {
        const size_t n = strcspn(p, "<");

        CHARL_TRY(charl__commit_write(c, p, n));
        if (p[n]) {
            CHARL_TRY(charl__commit_write(c, "\\u003c", 6));
        }
        p += n + (p[n] != '\0');
    }
    return CHARL_OK;
}

/* The page replaces an earlier page, but no other non-empty file. */
static charl_status check_replaced(const char *path)
{
    static const char start[] = "<!doctype html>", title[] = "<title>charl report</title>";
    char head[1024] = "";
    struct stat s;
    FILE *f;

    if (stat(path, &s) != 0 || !S_ISREG(s.st_mode) || s.st_size == 0) {
        return CHARL_OK;
    }
    f = fopen(path, "rb");
    CHARL_REQUIRE(f, CHARL_ERR_DISK, "%s: exists and cannot be read: %s", path, strerror(errno));
    head[fread(head, 1, sizeof head - 1, f)] = '\0';
    fclose(f);
    CHARL_REQUIRE(strncmp(head, start, strlen(start)) == 0 && strstr(head, title), CHARL_ERR_CONFIG,
                  "%s: exists and was not written by charl report; HINT choose another output, or remove it", path);
    return CHARL_OK;
}

static charl_status write_page(const char *path, const charl__text *data)
{
    static const char mark[] = "@DATA@";
    charl_status st = CHARL_OK;
    const char *page = charl__report_page, *at = strstr(page, mark);
    charl__commit c;

    CHARL_INVARIANT(at != NULL);
    CHARL_TRY_CLEANUP(charl__commit_begin(path, &c));
    CHARL_TRY_CLEANUP(charl__commit_write(&c, page, (size_t)(at - page)));
    CHARL_TRY_CLEANUP(write_data(&c, data));
    at += strlen(mark);
    CHARL_TRY_CLEANUP(charl__commit_write(&c, at, strlen(at)));
    CHARL_TRY_CLEANUP(charl__commit_end(&c, NULL, NULL));
cleanup:
    charl__commit_fini(&c);
    return st;
}

charl_status charl_report_write(const char *const *runs, int n_runs, const char *path)
{
    CHARL_GIVEN(runs || n_runs == 0, path);
    charl_status st = CHARL_OK;
    charl__run_log *log = NULL;
    charl__text data = {0};

    CHARL_TRY_CLEANUP(check_replaced(path));
    CHARL_TRY_CLEANUP(charl__run_logs_read(runs, n_runs, &log));
    CHARL_TRY_CLEANUP(put_data(&data, log, n_runs));
    CHARL_TRY_CLEANUP(write_page(path, &data));
cleanup:
    charl__run_logs_free(log, n_runs);
    charl__text_fini(&data);
    return st;
}
