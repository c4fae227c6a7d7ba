/* Reads a run directory. Files may be damaged, or written by other programs: unreadable parts are skipped. */
#include "report/run_log.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/handles.h"
#include "base/text/text.h"
#include "charl/checkpoint.h"
#include "charl/metric.h"
#include "nn/metric.h"
#include "io/commit.h"
#include "io/kind.h"

enum {
    LINE_BYTES = 8192,
    MAX_SERIES = 64,
    MAX_SETTINGS = 4096,
    MAX_ENV = 1 << 18,
    MAX_EVAL = 1 << 20 /* the images of the worst samples may take half of it */
};

const char *charl__run_event_name(charl__run_event event)
{
    static const char *const names[] = {[CHARL__RUN_TRAIN] = "train", [CHARL__RUN_VAL] = "val"};

    return names[event];
}

/* The next line of at most LINE_BYTES, without its end; longer lines, and an incomplete last one, are skipped. */
static bool next_line(FILE *f, char line[LINE_BYTES])
{
    bool is_rest = false;

    while (fgets(line, LINE_BYTES, f)) {
        char *end = strchr(line, '\n');

        if (end && !is_rest) {
            *end = '\0';
            return true;
        }
        is_rest = !end;
    }
    return false;
}

CHARL_SCOPED_POINTER(json_left, json_t, json_decref)

/* The object on a line; NULL: there is none. */
static json_t *read_object(const char *line)
{
    json_t *o = json_loads(line, JSON_DECODE_INT_AS_REAL, NULL);

    if (!json_is_object(o)) {
        json_decref(o);
        return NULL;
    }
    return o;
}

/* A number; 1 for true, 0 for false, NaN for everything else. */
static double number_of(const json_t *value)
{
    return json_is_number(value)    ? json_number_value(value)
           : json_is_boolean(value) ? json_is_true(value)
                                    : (double)NAN;
}

const charl__run_series *charl__run_series_find(const charl__run_rows *rows, const char *name)
{
    for (int i = 0; i < rows->n_series; i++) {
        if (strcmp(rows->series[i].name, name) == 0) {
            return &rows->series[i];
        }
    }
    return NULL;
}

double charl__run_series_last(const charl__run_rows *rows, const charl__run_series *series)
{
    for (int64_t i = rows->n - 1; series && i >= 0; i--) {
        if (!isnan(series->value[i])) {
            return series->value[i];
        }
    }
    return (double)NAN;
}

static charl_status append(double **values, int64_t count, double value)
{
    CHARL_TRY(charl__grow(count, sizeof **values, values));
    (*values)[count] = value;
    return CHARL_OK;
}

/* Add a series for a metric that earlier rows do not have. */
static charl_status add_series(charl__run_rows *rows, const char *name)
{
    charl__run_series *s;

    CHARL_TRY(charl__grow(rows->n_series, sizeof *rows->series, &rows->series));
    s = &rows->series[rows->n_series];
    *s = (charl__run_series){0};
    CHARL_TRY(charl__strdup(name, &s->name));
    rows->n_series++;
    for (int64_t i = 0; i < rows->n; i++) {
        CHARL_TRY(append(&s->value, i, (double)NAN));
    }
    return CHARL_OK;
}

static bool is_metric(const char *name, const json_t *value)
{
    static const char *const others[] = {"event", "step", "time", "best", "nonfinite"};

    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        if (strcmp(name, others[i]) == 0) {
            return false;
        }
    }
    return json_is_number(value) || json_is_boolean(value) || json_is_null(value);
}

static charl_status add_row(charl__run_rows *rows, double step, double before, double seconds, json_t *row)
{
    const char *name;
    const json_t *value;

    json_object_foreach(row, name, value)
    {
        if (is_metric(name, value) && rows->n_series < MAX_SERIES && !charl__run_series_find(rows, name)) {
            CHARL_TRY(add_series(rows, name));
        }
    }
    CHARL_TRY(append(&rows->step, rows->n, step));
    CHARL_TRY(append(&rows->time, rows->n, before + seconds));
    CHARL_TRY(append(&rows->before, rows->n, before));
    for (int k = 0; k < rows->n_series; k++) {
        const double v = number_of(json_object_get(row, rows->series[k].name));

        CHARL_TRY(append(&rows->series[k].value, rows->n, isfinite(v) ? v : (double)NAN));
    }
    rows->n++;
    return CHARL_OK;
}

static charl_status open_text(const char *dir, const char *name, FILE **out)
{
    CHARL_SCOPED_FREE char *path = NULL;

    *out = NULL;
    CHARL_TRY(charl__commit_join(dir, name, &path));
    *out = fopen(path, "re");
    return CHARL_OK;
}

/* Limit of a run's steps or seconds: a double counts up to here exactly. */
static bool is_counter(double v)
{
    return v >= 0 && v <= 0x1p53;
}

static charl_status read_metrics(charl__run_log *log)
{
    char line[LINE_BYTES];
    double before = 0, elapsed = 0; /* seconds of the earlier parts of the run, and in this one */
    double written = (double)NAN;   /* when the row before was */
    int64_t lines = 0, objects = 0;
    CHARL_SCOPED(charl__file_left) FILE *f = NULL;

    CHARL_TRY(charl__kind_expect(log->path, CHARL__KIND_RUN | CHARL__KIND_FOLDER, "a run directory", CHARL_ERR_DATA));
    CHARL_REQUIRE(access(log->path, F_OK) == 0, CHARL_ERR_DATA, "%s: there is no such run: %s", log->path,
                  strerror(errno));
    CHARL_TRY(open_text(log->path, "metrics.jsonl", &f));
    CHARL_REQUIRE(f, CHARL_ERR_DATA,
                  "%s is not a run directory: it has no metrics.jsonl (%s); HINT runs write metrics.jsonl if "
                  "log.formats contains jsonl",
                  log->path, strerror(errno));
    while (next_line(f, line)) {
        CHARL_SCOPED(json_left) json_t *row = read_object(line);
        const char *event = json_string_value(json_object_get(row, "event"));
        const double step = number_of(json_object_get(row, "step")),
                     seconds = number_of(json_object_get(row, "elapsed_s")),
                     now = number_of(json_object_get(row, "time"));

        lines++;
        objects += row != NULL;
        for (int e = 0; e < CHARL__RUN_EVENTS && event; e++) {
            charl__run_rows *rows = &log->rows[e];

            if (strcmp(event, charl__run_event_name((charl__run_event)e)) != 0 || !is_counter(step) ||
                !is_counter(seconds) || (rows->n > 0 && step <= rows->step[rows->n - 1])) {
                continue;
            }
            /* A new part: it has trained for a shorter time than the one before, or began after that one's last row. */
            before += seconds < elapsed || now - seconds > written ? elapsed : 0;
            elapsed = seconds;
            written = now;
            log->nonfinite += json_object_get(row, "nonfinite") != NULL;
            CHARL_TRY(add_row(rows, step, before, seconds, row));
        }
    }
    CHARL_REQUIRE(objects > 0 || lines == 0, CHARL_ERR_DATA,
                  "%s/metrics.jsonl: none of its %" PRId64
                  " lines is a JSON object; HINT each line must be a row as written by charl-train",
                  log->path, lines);
    return CHARL_OK;
}

/* The lines "key = value" below "[section]", as written by charl-train. */
static charl_status read_config(charl__run_log *log)
{
    char line[LINE_BYTES], section[256] = "";
    CHARL_SCOPED(charl__text_fini) charl__text key = {0};
    CHARL_SCOPED(charl__file_left) FILE *f = NULL;

    CHARL_TRY(open_text(log->path, "config.ini", &f));
    while (f && next_line(f, line) && log->n_config < MAX_SETTINGS) {
        char *equals = strstr(line, " =");
        charl__run_setting *s;

        if (line[0] == '[' && strchr(line, ']')) {
            snprintf(section, sizeof section, "%.*s", (int)strcspn(line + 1, "]"), line + 1);
        }
        if (line[0] == '[' || !equals) {
            continue;
        }
        *equals = '\0';
        CHARL_TRY(charl__text_printf(&key, "%s.%s", section, line));
        CHARL_TRY(charl__grow(log->n_config, sizeof *log->config, &log->config));
        s = &log->config[log->n_config];
        *s = (charl__run_setting){0};
        s->key = charl__text_steal(&key);
        log->n_config++;
        CHARL_TRY(charl__strdup(equals + 2 + strspn(equals + 2, " "), &s->value));
    }
    return CHARL_OK;
}

const char *charl__run_setting_find(const charl__run_log *log, const char *key)
{
    for (int i = 0; i < log->n_config; i++) {
        if (strcmp(log->config[i].key, key) == 0) {
            return log->config[i].value;
        }
    }
    return NULL;
}

/* A file as text, truncated after `most` bytes; "" without the file. */
static charl_status read_text(const char *dir, const char *name, size_t most, char **out)
{
    char block[4096];
    CHARL_SCOPED(charl__text_fini) charl__text t = {0};
    size_t n;
    CHARL_SCOPED(charl__file_left) FILE *f = NULL;

    CHARL_TRY(open_text(dir, name, &f));
    while (f && t.length < most && (n = fread(block, 1, sizeof block, f)) > 0) {
        CHARL_TRY(charl__text_append(&t, block, n));
    }
    CHARL_TRY(charl__strdup(charl__text_string(&t), out));
    return CHARL_OK;
}

/* How the last part of the run began and ended. */
static charl_status read_log(charl__run_log *log)
{
    char line[LINE_BYTES];
    CHARL_SCOPED(charl__file_left) FILE *f = NULL;

    log->state = "not finished";
    CHARL_TRY(open_text(log->path, "train.log", &f));
    while (f && next_line(f, line)) {
        const char *word = strstr(line, "Z ");
        const char *ranks = strstr(line, " ranks="), *devices = strstr(line, " devices=");

        if (!word) {
            continue;
        }
        word += 2;
        if (strncmp(word, "start ", 6) == 0) {
            log->state = "not finished";
            log->ranks = ranks ? (int)strtol(ranks + 7, NULL, 10) : 0;
            log->devices = devices ? (int)strtol(devices + 9, NULL, 10) : log->ranks;
        } else if (strncmp(word, "done ", 5) == 0) {
            log->state = "done";
        } else if (strncmp(word, "stopped ", 8) == 0) {
            log->state = "stopped";
        }
    }
    return CHARL_OK;
}

static int by_step(const void *a, const void *b)
{
    const charl__run_file *x = a, *y = b;

    return (x->step > y->step) - (x->step < y->step);
}

/* Whether dir/link points to the checkpoint `name`. */
static charl_status leads_to(const char *dir, const char *link, const char *name, bool *out)
{
    char target[256];
    CHARL_SCOPED_FREE char *path = NULL;
    const char *base;
    ssize_t n;

    *out = false;
    CHARL_TRY(charl__commit_join(dir, link, &path));
    n = readlink(path, target, sizeof target - 1);
    if (n > 0) {
        target[n] = '\0';
        base = strrchr(target, '/');
        *out = strcmp(base ? base + 1 : target, name) == 0;
    }
    return CHARL_OK;
}

static charl_status add_checkpoint(charl__run_log *log, const char *dir, const char *name)
{
    const size_t digits = strncmp(name, "step-", 5) == 0 ? strspn(name + 5, "0123456789") : 0;
    CHARL_SCOPED_FREE char *path = NULL;
    charl__run_file *c;
    struct stat info;

    if (digits == 0 || strcmp(name + 5 + digits, ".h5") != 0 || strlen(name) >= sizeof c->name) {
        return CHARL_OK;
    }
    CHARL_TRY(charl__commit_join(dir, name, &path));
    if (stat(path, &info) == 0 && S_ISREG(info.st_mode)) {
        CHARL_TRY(charl__grow(log->n_checkpoints, sizeof *log->checkpoint, &log->checkpoint));
        c = &log->checkpoint[log->n_checkpoints];
        *c = (charl__run_file){
            .step = strtoll(name + 5, NULL, 10), .bytes = charl_checkpoint_size(path), .time = (double)info.st_mtime};
        snprintf(c->name, sizeof c->name, "%.63s", name);
        CHARL_TRY(leads_to(log->path, "last.h5", name, &c->is_last));
        CHARL_TRY(leads_to(log->path, "best.h5", name, &c->is_best));
        log->n_checkpoints++;
    }
    return CHARL_OK;
}

static charl_status read_checkpoints(charl__run_log *log)
{
    CHARL_SCOPED(charl__directory_left) DIR *d = NULL;
    CHARL_SCOPED_FREE char *path = NULL;
    const struct dirent *entry;

    CHARL_TRY(charl__commit_join(log->path, "checkpoints", &path));
    CHARL_TRY(charl__directory_open(path, &d));
    while (d && (entry = readdir(d)) != NULL) { /* checkpoints may have been moved elsewhere */
        CHARL_TRY(add_checkpoint(log, path, entry->d_name));
    }
    if (log->n_checkpoints > 1) {
        qsort(log->checkpoint, (size_t)log->n_checkpoints, sizeof *log->checkpoint, by_step);
    }
    return CHARL_OK;
}

/* run.name, or the last component of the path. */
static charl_status give_name(charl__run_log *log)
{
    const char *name = charl__run_setting_find(log, "run.name"), *slash;
    CHARL_SCOPED_FREE char *path = NULL;
    size_t n;

    if (!name || !name[0]) {
        CHARL_TRY(charl__strdup(log->path, &path));
        for (n = strlen(path); n > 1 && path[n - 1] == '/'; n--) {
            path[n - 1] = '\0';
        }
        slash = strrchr(path, '/');
        name = slash && slash[1] ? slash + 1 : path;
    }
    CHARL_TRY(charl__strdup(name, &log->name));
    return CHARL_OK;
}

charl_status charl__run_log_read(const char *path, charl__run_log *log)
{
    *log = (charl__run_log){0};
    CHARL_TRY(charl__strdup(path, &log->path));
    CHARL_TRY(read_metrics(log));
    CHARL_TRY(read_config(log));
    CHARL_TRY(read_text(path, "env.json", MAX_ENV, &log->env));
    CHARL_TRY(read_text(path, "eval.json", MAX_EVAL, &log->eval));
    CHARL_TRY(read_log(log));
    CHARL_TRY(read_checkpoints(log));
    CHARL_TRY(give_name(log));
    return CHARL_OK;
}

void charl__run_log_fini(charl__run_log *log)
{
    for (int e = 0; e < CHARL__RUN_EVENTS; e++) {
        charl__run_rows *rows = &log->rows[e];

        for (int k = 0; k < rows->n_series; k++) {
            charl_free(rows->series[k].name);
            charl_free(rows->series[k].value);
        }
        charl_free(rows->series);
        charl_free(rows->step);
        charl_free(rows->time);
        charl_free(rows->before);
    }
    for (int i = 0; i < log->n_config; i++) {
        charl_free(log->config[i].key);
        charl_free(log->config[i].value);
    }
    charl_free(log->config);
    charl_free(log->checkpoint);
    charl_free(log->env);
    charl_free(log->eval);
    charl_free(log->name);
    charl_free(log->path);
    *log = (charl__run_log){0};
}

/* Replace names that several runs have by their paths. */
static charl_status tell_apart(charl__run_log *log, int n)
{
    CHARL_SCOPED_FREE bool *is_shared = NULL;

    CHARL_TRY(charl__alloc_array(n, sizeof *is_shared, &is_shared));
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < n; k++) {
            is_shared[i] = is_shared[i] || (k != i && strcmp(log[k].name, log[i].name) == 0);
        }
    }
    for (int i = 0; i < n; i++) {
        if (is_shared[i]) {
            charl_free(log[i].name);
            log[i].name = NULL;
            CHARL_TRY(charl__strdup(log[i].path, &log[i].name));
        }
    }
    return CHARL_OK;
}

charl_status charl__run_logs_read(const char *const *path, int n, charl__run_log **out)
{
    charl_status st = CHARL_OK;
    charl__run_log *log = NULL;

    *out = NULL;
    CHARL_REQUIRE_CLEANUP(n > 0, CHARL_ERR_INVALID, "no run directory is given");
    CHARL_TRY_CLEANUP(charl__alloc_array(n, sizeof *log, &log));
    for (int i = 0; i < n; i++) {
        CHARL_TRY_CLEANUP(charl__run_log_read(path[i], &log[i]));
    }
    CHARL_TRY_CLEANUP(tell_apart(log, n));
    *out = log;
    log = NULL;
cleanup:
    charl__run_logs_free(log, n);
    return st;
}

void charl__run_logs_free(charl__run_log *log, int n)
{
    for (int i = 0; log && i < n; i++) {
        charl__run_log_fini(&log[i]);
    }
    charl_free(log);
}

/* The rows with a metric, and its series; NULL: none. */
static const charl__run_series *find_metric(const charl__run_log *log, const char *metric, const charl__run_rows **rows)
{
    const bool is_train = strncmp(metric, "train/", 6) == 0;
    const char *name = is_train ? metric + 6 : strncmp(metric, "val/", 4) == 0 ? metric + 4 : metric;

    *rows = &log->rows[is_train ? CHARL__RUN_TRAIN : CHARL__RUN_VAL];
    return charl__run_series_find(*rows, name);
}

double charl__run_log_last_of(const charl__run_log *log, const char *metric)
{
    const charl__run_rows *rows;
    const charl__run_series *s = find_metric(log, metric, &rows);

    return charl__run_series_last(rows, s);
}

charl__run_best charl__run_log_best(const charl__run_log *log)
{
    const char *monitor = charl__run_setting_find(log, "checkpoint.monitor");

    return charl__run_log_best_of(log, monitor && monitor[0] ? monitor : "val/loss");
}

charl__run_best charl__run_log_best_of(const charl__run_log *log, const char *metric)
{
    const charl__run_rows *rows;
    const charl__run_series *s = find_metric(log, metric, &rows);
    const char *slash = strchr(metric, '/');
    charl__run_best best = {.monitor = metric, .value = (double)NAN};

    best.max = charl__metric_is_higher_better(slash ? slash + 1 : metric);
    for (int64_t i = 0; s && i < rows->n; i++) {
        const double v = s->value[i];

        if (!isnan(v) && (isnan(best.value) || (best.max ? v > best.value : v < best.value))) {
            best.value = v;
            best.step = (int64_t)rows->step[i];
        }
    }
    return best;
}

void charl__run_log_end(const charl__run_log *log, double *step, double *time)
{
    *step = *time = 0;
    for (int e = 0; e < CHARL__RUN_EVENTS; e++) {
        const charl__run_rows *r = &log->rows[e];

        *step = r->n > 0 ? fmax(*step, r->step[r->n - 1]) : *step;
        *time = r->n > 0 ? fmax(*time, r->time[r->n - 1]) : *time;
    }
}

/* A counter that begins at 0 at every start, over all of them; NaN without rows, and if the last row lacks it: it was lost. */
static double count_all(const charl__run_rows *rows, const charl__run_series *s)
{
    double before = 0, now = (double)NAN, part = 0;

    if (!s || rows->n == 0 || isnan(s->value[rows->n - 1])) {
        return (double)NAN;
    }
    for (int64_t i = 0; i < rows->n; i++) {
        if (!isnan(s->value[i])) {
            before += s->value[i] < now || (now > 0 && rows->before[i] > part) ? now : 0;
            now = s->value[i];
            part = rows->before[i];
        }
    }
    return before + now;
}

/* A setting that is a positive number; NaN: it is none. */
static double rate_of(const charl__run_log *log, const char *key)
{
    const char *text = charl__run_setting_find(log, key);
    const double v = text ? strtod(text, NULL) : 0;

    return v > 0 && isfinite(v) ? v : (double)NAN;
}

charl__run_expense charl__run_log_expense(const charl__run_log *log)
{
    const charl__run_rows *train = &log->rows[CHARL__RUN_TRAIN];
    charl__run_expense x = {.kwh = count_all(train, charl__run_series_find(train, "energy_j")) / 3.6e6};
    double step, time, hours;

    charl__run_log_end(log, &step, &time);
    hours = (log->devices > 0 ? log->devices : (double)NAN) * time / 3600;
    x.is_measured = !isnan(x.kwh);
    x.kwh = x.is_measured ? x.kwh : rate_of(log, "run.power") * hours / 1e3;
    x.cost = rate_of(log, "run.price") * hours;
    return x;
}

/* Mean of a series over all rows but the first; NaN without any, or without the series. */
static double mean_of(const charl__run_rows *rows, const char *name)
{
    const charl__run_series *s = charl__run_series_find(rows, name);
    double sum = 0, count = 0;

    for (int64_t i = rows->n > 1; s && i < rows->n; i++) {
        if (!isnan(s->value[i])) {
            sum += s->value[i];
            count++;
        }
    }
    return count > 0 ? sum / count : (double)NAN;
}

charl__run_times charl__run_log_times(const charl__run_log *log)
{
    const charl__run_rows *rows = &log->rows[CHARL__RUN_TRAIN];
    const char *batch = charl__run_setting_find(log, "train.batch_size");
    charl__run_times t = {.step_ms = mean_of(rows, "step_ms"),
                          .data_ms = fmax(0, mean_of(rows, "data_ms")),
                          .comm_ms = fmax(0, mean_of(rows, "comm_exposed_ms"))};

    t.samples_per_s = batch && t.step_ms > 0 ? strtod(batch, NULL) * 1e3 / t.step_ms : mean_of(rows, "samples_per_s");
    return t;
}
