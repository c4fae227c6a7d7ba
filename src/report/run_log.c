/* Reading a run directory. Files may be damaged, or written by other programs: what cannot be read is left out. */
#include "report/run_log.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/text/text.h"
#include "charl/metric.h"
#include "nn/metric.h"
#include "io/commit.h"
#include "io/kind.h"

enum {
    LINE_BYTES = 8192,
    MAX_FIELDS = 64,
    MAX_SERIES = 64,
    MAX_SETTINGS = 4096,
    MAX_ENV = 1 << 18,
    MAX_EVAL = 1 << 20 /* the pictures of the worst samples may take half of it */
};

const char *charl__run_event_name(charl__run_event event)
{
    static const char *const names[] = {[CHARL__RUN_TRAIN] = "train", [CHARL__RUN_VAL] = "val"};

    return names[event];
}

/* The next line of at most LINE_BYTES, without its end; longer lines, and a last one without an end, are skipped. */
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

/* A member of a JSON object. */
typedef struct member {
    const char *name;
    const char *text; /* of a string, else NULL */
    double value;     /* NaN for null; 1 for true, 0 for false */
} member;

static char *skip_blanks(char *p)
{
    return p + strspn(p, " \t\r");
}

/* A string that p is at the first quote of, ended in place. Returns what follows it, or NULL. Escapes stay: names and events that charl looks
 * for have none. */
static char *parse_string(char *p, const char **out)
{
    char *end = p + 1;

    if (*p != '"') {
        return NULL;
    }
    while (*end && *end != '"') {
        end += end[0] == '\\' && end[1] ? 2 : 1;
    }
    if (!*end) {
        return NULL;
    }
    *out = p + 1;
    *end = '\0';
    return end + 1;
}

/* What follows the array or object that p is at the begin of, or NULL. */
static char *skip_nested(char *p)
{
    const char *ignored;
    int depth = 0;

    do {
        depth += *p == '[' || *p == '{' ? 1 : *p == ']' || *p == '}' ? -1 : 0;
        p = *p == '"' ? parse_string(p, &ignored) : p + 1;
    } while (p && *p && depth > 0);
    return depth == 0 ? p : NULL;
}

/* A value; arrays and objects are skipped and have none. Returns what follows it, or NULL. */
static char *parse_value(char *p, member *m, bool *has_value)
{
    static const struct {
        const char *word;
        double value;
    } words[] = {{"true", 1}, {"false", 0}, {"null", (double)NAN}};
    char *end;

    *has_value = true;
    if (*p == '"') {
        return parse_string(p, &m->text);
    }
    if (*p == '[' || *p == '{') {
        *has_value = false;
        return skip_nested(p);
    }
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strncmp(p, words[i].word, strlen(words[i].word)) == 0) {
            m->value = words[i].value;
            return p + strlen(words[i].word);
        }
    }
    m->value = strtod(p, &end);
    return end != p ? end : NULL;
}

/* The members of a flat object on a line, which is changed; how many, or -1 when it is none. */
static int parse_members(char *line, member out[MAX_FIELDS])
{
    int n = 0;
    char *p = skip_blanks(line);

    p = *p == '{' ? skip_blanks(p + 1) : NULL;
    while (p && *p != '}') {
        member m = {.value = (double)NAN};
        bool has_value = false;

        p = parse_string(p, &m.name);
        p = p ? skip_blanks(p) : NULL;
        p = p && *p == ':' ? parse_value(skip_blanks(p + 1), &m, &has_value) : NULL;
        if (has_value && n < MAX_FIELDS) {
            out[n++] = m;
        }
        p = p ? skip_blanks(p) : NULL;
        p = p && *p == ',' ? skip_blanks(p + 1) : p && *p == '}' ? p : NULL;
    }
    return p ? n : -1;
}

static const member *find_member(const member *m, int n, const char *name)
{
    for (int i = 0; i < n; i++) {
        if (strcmp(m[i].name, name) == 0) {
            return &m[i];
        }
    }
    return NULL;
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

/* A series for a metric that the rows so far do not have. */
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

static bool is_metric(const member *m)
{
    static const char *const others[] = {"event", "step", "time", "best", "nonfinite"};

    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        if (strcmp(m->name, others[i]) == 0) {
            return false;
        }
    }
    return !m->text;
}

static charl_status add_row(charl__run_rows *rows, double step, double time, const member *m, int n)
{
    for (int i = 0; i < n; i++) {
        if (is_metric(&m[i]) && rows->n_series < MAX_SERIES && !charl__run_series_find(rows, m[i].name)) {
            CHARL_TRY(add_series(rows, m[i].name));
        }
    }
    CHARL_TRY(append(&rows->step, rows->n, step));
    CHARL_TRY(append(&rows->time, rows->n, time));
    for (int k = 0; k < rows->n_series; k++) {
        const member *value = find_member(m, n, rows->series[k].name);

        CHARL_TRY(
            append(&rows->series[k].value, rows->n, value && isfinite(value->value) ? value->value : (double)NAN));
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

/* Steps or seconds that a run can have: a double counts so far by ones. */
static bool is_counter(double v)
{
    return v >= 0 && v <= 0x1p53;
}

static charl_status read_metrics(charl__run_log *log)
{
    charl_status st = CHARL_OK;
    char line[LINE_BYTES];
    member m[MAX_FIELDS];
    double before = 0, elapsed = 0; /* seconds of the parts of the run before this one, and in this one */
    int64_t lines = 0, objects = 0;
    FILE *f = NULL;

    CHARL_TRY_CLEANUP(
        charl__kind_expect(log->path, CHARL__KIND_RUN | CHARL__KIND_FOLDER, "a run directory", CHARL_ERR_DATA));
    CHARL_REQUIRE_CLEANUP(access(log->path, F_OK) == 0, CHARL_ERR_DATA, "%s: there is no such run: %s", log->path,
                          strerror(errno));
    CHARL_TRY_CLEANUP(open_text(log->path, "metrics.jsonl", &f));
    CHARL_REQUIRE_CLEANUP(f, CHARL_ERR_DATA,
                          "%s is not a run directory: it has no metrics.jsonl (%s); HINT runs write metrics.jsonl if "
                          "log.formats contains jsonl",
                          log->path, strerror(errno));
    while (next_line(f, line)) {
        const int n = parse_members(line, m);
        const member *event = find_member(m, n, "event"), *step = find_member(m, n, "step"),
                     *seconds = find_member(m, n, "elapsed_s"), *bad = find_member(m, n, "nonfinite");

        lines++;
        objects += n >= 0;
        for (int e = 0; e < CHARL__RUN_EVENTS && event && event->text && step && seconds; e++) {
            charl__run_rows *rows = &log->rows[e];

            if (strcmp(event->text, charl__run_event_name((charl__run_event)e)) != 0 || !is_counter(step->value) ||
                !is_counter(seconds->value) || (rows->n > 0 && step->value <= rows->step[rows->n - 1])) {
                continue;
            }
            before += seconds->value < elapsed ? elapsed : 0;
            elapsed = seconds->value;
            log->nonfinite += bad != NULL;
            CHARL_TRY_CLEANUP(add_row(rows, step->value, before + elapsed, m, n));
        }
    }
    CHARL_REQUIRE_CLEANUP(objects > 0 || lines == 0, CHARL_ERR_DATA,
                          "%s/metrics.jsonl: none of its %" PRId64
                          " lines is a JSON object; HINT a line of it is a row, as charl-train writes it",
                          log->path, lines);
cleanup:
    if (f) {
        fclose(f);
    }
    return st;
}

/* The lines "key = value" below "[section]" that charl-train has written. */
static charl_status read_config(charl__run_log *log)
{
    charl_status st = CHARL_OK;
    char line[LINE_BYTES], section[256] = "";
    charl__text key = {0};
    FILE *f = NULL;

    CHARL_TRY_CLEANUP(open_text(log->path, "config.ini", &f));
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
        charl__text_clear(&key);
        CHARL_TRY_CLEANUP(charl__text_printf(&key, "%s.%s", section, line));
        CHARL_TRY_CLEANUP(charl__grow(log->n_config, sizeof *log->config, &log->config));
        s = &log->config[log->n_config];
        *s = (charl__run_setting){0};
        CHARL_TRY_CLEANUP(charl__strdup(charl__text_string(&key), &s->key));
        log->n_config++;
        CHARL_TRY_CLEANUP(charl__strdup(equals + 2 + strspn(equals + 2, " "), &s->value));
    }
cleanup:
    if (f) {
        fclose(f);
    }
    charl__text_fini(&key);
    return st;
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

/* A file as text, cut off behind `most` bytes; "" without the file. */
static charl_status read_text(const char *dir, const char *name, size_t most, char **out)
{
    charl_status st = CHARL_OK;
    char block[4096];
    charl__text t = {0};
    size_t n;
    FILE *f = NULL;

    CHARL_TRY_CLEANUP(open_text(dir, name, &f));
    while (f && t.length < most && (n = fread(block, 1, sizeof block, f)) > 0) {
        CHARL_TRY_CLEANUP(charl__text_append(&t, block, n));
    }
    CHARL_TRY_CLEANUP(charl__strdup(charl__text_string(&t), out));
cleanup:
    if (f) {
        fclose(f);
    }
    charl__text_fini(&t);
    return st;
}

/* How the last part of the run began and ended. */
static charl_status read_log(charl__run_log *log)
{
    charl_status st = CHARL_OK;
    char line[LINE_BYTES];
    FILE *f = NULL;

    log->state = "not finished";
    CHARL_TRY_CLEANUP(open_text(log->path, "train.log", &f));
    while (f && next_line(f, line)) {
        const char *word = strstr(line, "Z ");
        const char *ranks = strstr(line, " ranks=");

        if (!word) {
            continue;
        }
        word += 2;
        if (strncmp(word, "start ", 6) == 0) {
            log->state = "not finished";
            log->ranks = ranks ? (int)strtol(ranks + 7, NULL, 10) : 0;
        } else if (strncmp(word, "done ", 5) == 0) {
            log->state = "done";
        } else if (strncmp(word, "stopped ", 8) == 0) {
            log->state = "stopped";
        }
    }
cleanup:
    if (f) {
        fclose(f);
    }
    return st;
}

static int by_step(const void *a, const void *b)
{
    const charl__run_file *x = a, *y = b;

    return (x->step > y->step) - (x->step < y->step);
}

/* Whether dir/link leads to the checkpoint `name`. */
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
            .step = strtoll(name + 5, NULL, 10), .bytes = info.st_size, .time = (double)info.st_mtime};
        snprintf(c->name, sizeof c->name, "%.63s", name);
        CHARL_TRY(leads_to(log->path, "last.h5", name, &c->is_last));
        CHARL_TRY(leads_to(log->path, "best.h5", name, &c->is_best));
        log->n_checkpoints++;
    }
    return CHARL_OK;
}

static charl_status read_checkpoints(charl__run_log *log)
{
    charl_status st = CHARL_OK;
    char *path = NULL;
    const struct dirent *entry;
    DIR *d = NULL;

    CHARL_TRY_CLEANUP(charl__commit_join(log->path, "checkpoints", &path));
    CHARL_TRY_CLEANUP(charl__acquire("directory"));
    d = opendir(path);
    if (!d) { /* checkpoints may have been moved elsewhere */
        charl__drop();
        goto cleanup;
    }
    while ((entry = readdir(d)) != NULL) {
        CHARL_TRY_CLEANUP(add_checkpoint(log, path, entry->d_name));
    }
    if (log->n_checkpoints > 1) {
        qsort(log->checkpoint, (size_t)log->n_checkpoints, sizeof *log->checkpoint, by_step);
    }
cleanup:
    if (d) {
        closedir(d);
        charl__drop();
    }
    charl_free(path);
    return st;
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

/* Paths in place of names that several runs have. */
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

charl__run_best charl__run_log_best(const charl__run_log *log)
{
    const charl__run_rows *rows = &log->rows[CHARL__RUN_VAL];
    const char *monitor = charl__run_setting_find(log, "checkpoint.monitor");
    charl__run_best best = {.monitor = monitor && monitor[0] ? monitor : "val/loss", .value = (double)NAN};
    const char *slash = strchr(best.monitor, '/');
    const char *metric = slash ? slash + 1 : best.monitor;
    const charl__run_series *s = charl__run_series_find(rows, metric);

    best.max = charl__metric_is_higher_better(metric);
    for (int64_t i = 0; s && i < rows->n; i++) {
        const double v = s->value[i];

        if (!isnan(v) && (isnan(best.value) || (best.max ? v > best.value : v < best.value))) {
            best.value = v;
            best.step = (int64_t)rows->step[i];
        }
    }
    return best;
}

/* Mean of a series over the rows but the first; NaN without any, or without the series. */
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
