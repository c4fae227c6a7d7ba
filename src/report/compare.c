/* charl compare: runs as a table, and configurations compared over seeds. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/options.h"
#include "base/text/text.h"
#include "charl/report.h"
#include "report/run_log.h"
#include "report/student.h"

/* A table of texts, as wide as they are. */
typedef struct grid {
    charl__text *cell; /* [rows * columns] */
    int rows, columns;
} grid;

static charl_status grid_init(grid *g, int rows, int columns)
{
    *g = (grid){.rows = rows, .columns = columns};
    CHARL_TRY(charl__alloc_array((int64_t)rows * columns, sizeof *g->cell, &g->cell));
    return CHARL_OK;
}

static void grid_fini(grid *g)
{
    for (int i = 0; g->cell && i < g->rows * g->columns; i++) {
        charl__text_fini(&g->cell[i]);
    }
    charl_free(g->cell);
    *g = (grid){0};
}

static charl__text *cell(grid *g, int row, int column)
{
    return &g->cell[row * g->columns + column];
}

/* Number of characters of a UTF-8 text: bytes that are not continuation bytes. */
static int width_of(const charl__text *t)
{
    int n = 0;

    for (size_t i = 0; i < t->length; i++) {
        n += ((unsigned char)t->data[i] & 0xc0) != 0x80;
    }
    return n;
}

/* Numbers are right-aligned in their column; the first column and those in `left` (bits) are left-aligned. */
static charl_status grid_print(grid *g, unsigned left, const char *indent, charl__text *out)
{
    for (int r = 0; r < g->rows; r++) {
        CHARL_TRY(charl__text_printf(out, "%s", indent));
        for (int c = 0; c < g->columns; c++) {
            int widest = 0, pad;

            for (int k = 0; k < g->rows; k++) {
                const int w = width_of(cell(g, k, c));

                widest = w > widest ? w : widest;
            }
            pad = widest - width_of(cell(g, r, c));
            if (c < 32 && left >> c & 1U) {
                CHARL_TRY(charl__text_printf(out, "%s%s%*s", c > 0 ? "  " : "", charl__text_string(cell(g, r, c)),
                                             c + 1 < g->columns ? pad : 0, ""));
            } else {
                CHARL_TRY(
                    charl__text_printf(out, "%s%*s%s", c > 0 ? "  " : "", pad, "", charl__text_string(cell(g, r, c))));
            }
        }
        CHARL_TRY(charl__text_append(out, "\n", 1));
    }
    return CHARL_OK;
}

static charl_status put_number(charl__text *t, double v, const char *format)
{
    CHARL_TRY(isnan(v) ? charl__text_printf(t, "-")
                       : charl__text_printf(t, strcmp(format, "signed") == 0 ? "%+.5g" : "%.5g", v));
    return CHARL_OK;
}

static charl_status put_duration(charl__text *t, double s)
{
    const int64_t m = (int64_t)(s / 60);

    CHARL_TRY(s < 60   ? charl__text_printf(t, "%.3g s", s)
              : m < 60 ? charl__text_printf(t, "%" PRId64 "m%02.0fs", m, floor(s - 60 * (double)m))
                       : charl__text_printf(t, "%" PRId64 "h%02" PRId64 "m", m / 60, m % 60));
    return CHARL_OK;
}

/* Validation metrics that some run has, without progress counters. */
static charl_status list_metrics(const charl__run_log *log, int n, const char ***out, int *count)
{
    *count = 0;
    for (int i = 0; i < n; i++) {
        const charl__run_rows *rows = &log[i].rows[CHARL__RUN_VAL];

        for (int k = 0; k < rows->n_series; k++) {
            const char *name = rows->series[k].name;
            bool is_known = strcmp(name, "epoch") == 0 || strcmp(name, "elapsed_s") == 0;

            for (int j = 0; j < *count; j++) {
                is_known = is_known || strcmp((*out)[j], name) == 0;
            }
            if (!is_known) {
                CHARL_TRY(charl__grow(*count, sizeof **out, out));
                (*out)[(*count)++] = name;
            }
        }
    }
    return CHARL_OK;
}

static charl_status put_row(grid *g, int row, const charl__run_log *log, const char *const *metric, int n_metrics)
{
    const charl__run_best best = charl__run_log_best(log);
    const charl__run_times times = charl__run_log_times(log);
    const charl__run_rows *train = &log->rows[CHARL__RUN_TRAIN], *val = &log->rows[CHARL__RUN_VAL];
    double steps, time;
    int c = 0;

    charl__run_log_end(log, &steps, &time);
    CHARL_TRY(charl__text_printf(cell(g, row, c++), "%s", log->name));
    CHARL_TRY(charl__text_printf(cell(g, row, c++), "%s", log->state));
    CHARL_TRY(charl__text_printf(cell(g, row, c++), "%.0f", steps));
    CHARL_TRY(put_duration(cell(g, row, c++), time));
    CHARL_TRY(isnan(times.samples_per_s) ? charl__text_printf(cell(g, row, c), "-")
                                         : charl__text_printf(cell(g, row, c), "%.0f", times.samples_per_s));
    c++;
    if (isnan(best.value)) {
        CHARL_TRY(charl__text_printf(cell(g, row, c++), "-"));
    } else {
        CHARL_TRY(
            charl__text_printf(cell(g, row, c++), "%s=%.5g at step %" PRId64, best.monitor, best.value, best.step));
    }
    CHARL_TRY(put_number(cell(g, row, c++), charl__run_series_last(train, charl__run_series_find(train, "loss")), ""));
    for (int k = 0; k < n_metrics; k++) {
        CHARL_TRY(
            put_number(cell(g, row, c++), charl__run_series_last(val, charl__run_series_find(val, metric[k])), ""));
    }
    return CHARL_OK;
}

static charl_status put_table(const charl__run_log *log, int n, charl__text *out)
{
    static const char *const head[] = {"run", "state", "steps", "time", "samples/s", "best", "train/loss"};
    enum { N_HEAD = sizeof head / sizeof *head, BEST = 5 };
    CHARL_SCOPED_FREE const char **metric = NULL;
    int n_metrics = 0;
    CHARL_SCOPED(grid_fini) grid g = {0};

    CHARL_TRY(list_metrics(log, n, &metric, &n_metrics));
    CHARL_TRY(grid_init(&g, n + 1, N_HEAD + n_metrics));
    for (int c = 0; c < N_HEAD; c++) {
        CHARL_TRY(charl__text_printf(cell(&g, 0, c), "%s", head[c]));
    }
    for (int k = 0; k < n_metrics; k++) {
        CHARL_TRY(charl__text_printf(cell(&g, 0, N_HEAD + k), "val/%s", metric[k]));
    }
    for (int i = 0; i < n; i++) {
        CHARL_TRY(put_row(&g, i + 1, &log[i], metric, n_metrics));
    }
    CHARL_TRY(grid_print(&g, 1U | 2U | 1U << BEST, "", out));
    return CHARL_OK;
}

/* The value of a key, "(not set)" without one. */
static const char *value_of(const charl__run_log *log, const char *key)
{
    const char *value = charl__run_setting_find(log, key);

    return value ? value : "(not set)";
}

/* The runs by their values of a key: one line per value. */
static charl_status put_difference(const charl__run_log *log, int n, const char *key, charl__text *out)
{
    for (int i = 0; i < n; i++) {
        const char *value = value_of(&log[i], key);
        bool is_first = true;
        int before = 0;

        for (int k = 0; k < i; k++) {
            is_first = is_first && strcmp(value_of(&log[k], key), value) != 0;
        }
        if (!is_first) {
            continue;
        }
        CHARL_TRY(charl__text_printf(out, "  %-26s %s: ", i == 0 ? key : "", value));
        for (int k = i; k < n; k++) {
            if (strcmp(value_of(&log[k], key), value) == 0) {
                CHARL_TRY(charl__text_printf(out, "%s%s", before++ > 0 ? ", " : "", log[k].name));
            }
        }
        CHARL_TRY(charl__text_append(out, "\n", 1));
    }
    return CHARL_OK;
}

/* Whether run i is the first that has the key. */
static bool is_new_key(const charl__run_log *log, int i, const char *key)
{
    for (int k = 0; k < i; k++) {
        if (charl__run_setting_find(&log[k], key)) {
            return false;
        }
    }
    return true;
}

static bool differs(const charl__run_log *log, int n, const char *key)
{
    for (int k = 1; k < n; k++) {
        if (strcmp(value_of(&log[k], key), value_of(&log[0], key)) != 0) {
            return true;
        }
    }
    return false;
}

static charl_status put_differences(const charl__run_log *log, int n, charl__text *out)
{
    const size_t start = out->length;

    CHARL_TRY(charl__text_printf(out, "\nconfigurations differ in\n"));
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < log[i].n_config; j++) {
            const char *key = log[i].config[j].key;

            /* the names of a run are its own */
            if (strcmp(key, "run.name") != 0 && strcmp(key, "run.output_dir") != 0 && is_new_key(log, i, key) &&
                differs(log, n, key)) {
                CHARL_TRY(put_difference(log, n, key, out));
            }
        }
    }
    if (out->length == start + strlen("\nconfigurations differ in\n")) {
        out->length = start;
        CHARL_TRY(charl__text_printf(out, "\nconfigurations are the same\n"));
    }
    return CHARL_OK;
}

/* Which keys change a result. */
typedef struct key_test {
    charl_report_by_seed is_result;
    void *ctx;
} key_test;

/* Whether a key distinguishes groups: it affects the result, and is neither the seed nor the fold. */
static bool tells_apart(const char *key, const key_test *t)
{
    return strcmp(key, "run.seed") != 0 && strcmp(key, "data.fold") != 0 && t->is_result(t->ctx, key);
}

/* The fold of the data that a run is validated on; "none": it has none. */
static const char *fold_of(const charl__run_log *log)
{
    return charl__run_setting_find(log, "data.fold") ? value_of(log, "data.fold") : "none";
}

/* Whether two runs of different groups are a pair, of the same seed and fold. */
static bool are_paired(const charl__run_log *a, const charl__run_log *b)
{
    return strcmp(value_of(a, "run.seed"), value_of(b, "run.seed")) == 0 && strcmp(fold_of(a), fold_of(b)) == 0;
}

static bool are_alike(const charl__run_log *a, const charl__run_log *b, const key_test *test)
{
    const charl__run_log *const both[] = {a, b};

    for (int side = 0; side < 2; side++) {
        for (int i = 0; i < both[side]->n_config; i++) {
            const char *key = both[side]->config[i].key;

            if (tells_apart(key, test) && strcmp(value_of(a, key), value_of(b, key)) != 0) {
                return false;
            }
        }
    }
    return true;
}

enum { MAX_GROUPS = 26 }; /* A to Z */

/* Groups of runs: group[i] of run i, named by the first of its runs. */
typedef struct groups {
    const key_test *test;
    const char *metric;
    int *of;    /* [runs] */
    int *first; /* [count] first run of the group */
    int count;
    int reference; /* the group that the others are compared with */
} groups;

static void groups_fini(groups *g)
{
    charl_free(g->of);
    charl_free(g->first);
    *g = (groups){0};
}

static charl_status find_groups(const charl__run_log *log, int n, groups *g)
{
    CHARL_TRY(charl__alloc_array(n, sizeof *g->of, &g->of));
    CHARL_TRY(charl__alloc_array(n, sizeof *g->first, &g->first));
    for (int i = 0; i < n; i++) {
        const char *monitor = charl__run_log_best(&log[i]).monitor, *common = charl__run_log_best(&log[0]).monitor;
        int k = 0;

        CHARL_REQUIRE(charl__run_setting_find(&log[i], "run.seed"), CHARL_ERR_DATA,
                      "%s: has no config.ini that tells its seed", log[i].path);
        CHARL_REQUIRE(g->metric || strcmp(monitor, common) == 0, CHARL_ERR_DATA,
                      "%s monitors %s, but %s monitors %s; HINT --metric names the one to compare", log[i].path,
                      monitor, log[0].path, common);
        while (k < g->count && !are_alike(&log[g->first[k]], &log[i], g->test)) {
            k++;
        }
        if (k == g->count) {
            CHARL_REQUIRE(k < MAX_GROUPS, CHARL_ERR_DATA,
                          "these are more than %d configurations; HINT compare some of them", MAX_GROUPS);
            g->first[g->count++] = i;
        }
        g->of[i] = k;
        for (int j = 0; j < i; j++) {
            CHARL_REQUIRE(g->of[j] != k || !are_paired(&log[j], &log[i]), CHARL_ERR_DATA,
                          "%s and %s have the same configuration and the same seed; HINT give one of them", log[j].path,
                          log[i].path);
        }
    }
    g->metric = g->metric ? g->metric : charl__run_log_best(&log[0]).monitor;
    return CHARL_OK;
}

/* Path without the slashes at its end. */
static size_t length_of(const char *path)
{
    size_t n = strlen(path);

    while (n > 1 && path[n - 1] == '/') {
        n--;
    }
    return n;
}

static charl_status find_reference(const charl__run_log *log, int n, const char *run, groups *g)
{
    for (int i = 0; run && i < n; i++) {
        if (strcmp(log[i].name, run) == 0 ||
            (length_of(log[i].path) == length_of(run) && strncmp(log[i].path, run, length_of(run)) == 0)) {
            g->reference = g->of[i];
            return CHARL_OK;
        }
    }
    CHARL_REQUIRE(!run, CHARL_ERR_CONFIG, "the reference %s is none of the runs; HINT name it among them, too", run);
    return CHARL_OK;
}

/* The compared values: the best one of a metric, and the last one. */
static double result_of(const charl__run_log *log, const char *metric, bool is_best)
{
    return is_best ? charl__run_log_best_of(log, metric).value : charl__run_log_last_of(log, metric);
}

static charl_status require_result(const charl__run_log *log, const char *metric, double v)
{
    CHARL_REQUIRE(!isnan(v), CHARL_ERR_DATA, "%s has no value of %s", log->path, metric);
    return CHARL_OK;
}

/* The results of a group, and the results of it and the first group for the seeds that both have. */
typedef struct sample {
    double *of_first, *of_group;         /* [n_first], [n_group] */
    double *paired_first, *paired_group; /* [n_pairs] */
    int n_first, n_group, n_pairs;
} sample;

static void sample_fini(sample *s)
{
    charl_free(s->of_first);
    charl_free(s->of_group);
    charl_free(s->paired_first);
    charl_free(s->paired_group);
    *s = (sample){0};
}

static charl_status collect_sample(const charl__run_log *log, int n, const groups *g, int group, bool is_best,
                                   sample *s)
{
    CHARL_TRY(charl__alloc_array(n, sizeof(double), &s->of_first));
    CHARL_TRY(charl__alloc_array(n, sizeof(double), &s->of_group));
    CHARL_TRY(charl__alloc_array(n, sizeof(double), &s->paired_first));
    CHARL_TRY(charl__alloc_array(n, sizeof(double), &s->paired_group));
    for (int i = 0; i < n; i++) {
        const double v = result_of(&log[i], g->metric, is_best);

        CHARL_TRY(require_result(&log[i], g->metric, v));
        if (g->of[i] == g->reference) {
            s->of_first[s->n_first++] = v;
        } else if (g->of[i] == group) {
            s->of_group[s->n_group++] = v;
        }
        for (int k = 0; k < n && g->of[i] == g->reference; k++) {
            if (g->of[k] == group && are_paired(&log[i], &log[k])) {
                s->paired_first[s->n_pairs] = v;
                s->paired_group[s->n_pairs++] = result_of(&log[k], g->metric, is_best);
            }
        }
    }
    CHARL_REQUIRE(s->n_pairs > 0, CHARL_ERR_DATA, "%s and %s: no seed is in both groups",
                  log[g->first[g->reference]].path, log[g->first[group]].path);
    return CHARL_OK;
}

static charl_status put_interval(charl__text *t, charl__interval_of_mean v)
{
    if (isnan(v.low)) {
        return charl__text_printf(t, "-");
    }
    return charl__text_printf(t, "%+.4g to %+.4g", v.low, v.high);
}

/* A line of the comparison: name, pairs, mean, interval, whether it excludes 0, unpaired. */
static charl_status put_comparison(grid *out, int row, const char *what, const sample *s)
{
    const charl__interval_of_mean paired = charl__student_paired(s->paired_first, s->paired_group, s->n_pairs, 0.975),
                                  welch = charl__student_welch(s->of_first, s->n_first, s->of_group, s->n_group);

    CHARL_TRY(charl__text_printf(cell(out, row, 0), "%s", what));
    CHARL_TRY(charl__text_printf(cell(out, row, 1), "%d", s->n_pairs));
    CHARL_TRY(put_number(cell(out, row, 2), paired.mean, "signed"));
    CHARL_TRY(put_interval(cell(out, row, 3), paired));
    CHARL_TRY(charl__text_printf(cell(out, row, 4), "%s",
                                 isnan(paired.low)                   ? "one pair only"
                                 : paired.low > 0 || paired.high < 0 ? "differ"
                                                                     : "may be equal"));
    CHARL_TRY(put_interval(cell(out, row, 5), welch));
    return CHARL_OK;
}

static charl_status put_group(const charl__run_log *log, int n, const groups *g, int group, charl__text *out)
{
    const char *comma = "";

    CHARL_TRY(charl__text_printf(out, "  %c  seeds ", 'A' + group));
    for (int i = 0; i < n; i++) {
        if (g->of[i] == group) {
            const bool folded = strcmp(fold_of(&log[i]), "none") != 0;

            CHARL_TRY(charl__text_printf(out, "%s%s%s%s", comma, value_of(&log[i], "run.seed"), folded ? " fold " : "",
                                         folded ? fold_of(&log[i]) : ""));
            comma = ", ";
        }
    }
    for (int i = 0, k = g->first[group]; i < log[k].n_config; i++) {
        const char *key = log[k].config[i].key;
        bool is_different = false;

        for (int j = 0; j < g->count && tells_apart(key, g->test); j++) {
            is_different = is_different || strcmp(value_of(&log[g->first[j]], key), log[k].config[i].value) != 0;
        }
        if (is_different) {
            CHARL_TRY(charl__text_printf(out, "; %s = %s", key, log[k].config[i].value));
        }
    }
    CHARL_TRY(charl__text_append(out, "\n", 1));
    return CHARL_OK;
}

static charl_status put_group_comparison(const charl__run_log *log, int n, const groups *g, int group, charl__text *out)
{
    static const char *const head[] = {NULL, "pairs", "mean", "95 % interval", "", "unpaired"};
    enum { COLUMNS = sizeof head / sizeof *head };
    CHARL_SCOPED(charl__text_fini) charl__text what = {0};
    CHARL_SCOPED(grid_fini) grid table = {0};
    CHARL_SCOPED(sample_fini) sample s = {0};

    CHARL_TRY(grid_init(&table, 3, COLUMNS));
    CHARL_TRY(charl__text_printf(cell(&table, 0, 0), "%c - %c", 'A' + group, 'A' + g->reference));
    for (int c = 1; c < COLUMNS; c++) {
        CHARL_TRY(charl__text_printf(cell(&table, 0, c), "%s", head[c]));
    }
    for (int row = 1; row < 3; row++) {
        sample_fini(&s);
        CHARL_TRY(collect_sample(log, n, g, group, row == 1, &s));
        charl__text_clear(&what);
        CHARL_TRY(charl__text_printf(&what, "%s %s", row == 1 ? "best" : "final", g->metric));
        CHARL_TRY(put_comparison(&table, row, charl__text_string(&what), &s));
    }
    CHARL_TRY(charl__text_append(out, "\n", 1));
    CHARL_TRY(grid_print(&table, 1U | 1U << 3 | 1U << 4 | 1U << 5, "  ", out));
    return CHARL_OK;
}

/* Mean and deviation (n - 1) of the best and the last value of each group. */
static charl_status put_means(const charl__run_log *log, int n, const groups *g, charl__text *out)
{
    CHARL_SCOPED(grid_fini) grid table = {0};

    CHARL_TRY(grid_init(&table, g->count + 1, 6));
    CHARL_TRY(charl__text_printf(cell(&table, 0, 1), "runs"));
    for (int k = 0; k < g->count; k++) {
        CHARL_TRY(charl__text_printf(cell(&table, k + 1, 0), "%c", 'A' + k));
    }
    for (int is_best = 1; is_best >= 0; is_best--) {
        const int column = is_best ? 2 : 4;

        CHARL_TRY(charl__text_printf(cell(&table, 0, column), "%s %s", is_best ? "best" : "final", g->metric));
        CHARL_TRY(charl__text_printf(cell(&table, 0, column + 1), "deviation"));
        for (int k = 0; k < g->count; k++) {
            double sum = 0, squares = 0;
            int count = 0;

            for (int i = 0; i < n; i++) {
                const double v = g->of[i] == k ? result_of(&log[i], g->metric, is_best) : 0;

                CHARL_TRY(require_result(&log[i], g->metric, v));
                sum += v;
                count += g->of[i] == k;
            }
            for (int i = 0; i < n; i++) {
                const double d = result_of(&log[i], g->metric, is_best) - sum / count;

                squares += g->of[i] == k ? d * d : 0;
            }
            if (is_best) {
                CHARL_TRY(charl__text_printf(cell(&table, k + 1, 1), "%d", count));
            }
            CHARL_TRY(put_number(cell(&table, k + 1, column), sum / count, ""));
            CHARL_TRY(
                put_number(cell(&table, k + 1, column + 1), count > 1 ? sqrt(squares / (count - 1)) : (double)NAN, ""));
        }
    }
    CHARL_TRY(charl__text_append(out, "\n", 1));
    return grid_print(&table, 1U, "  ", out);
}

static charl_status put_seeds(const charl__run_log *log, int n, const charl_report_compare_options *options,
                              charl__text *out)
{
    const key_test test = {options->by_seed, options->ctx};
    CHARL_SCOPED(groups_fini) groups g = {.test = &test, .metric = options->metric};

    CHARL_TRY(find_groups(log, n, &g));
    CHARL_TRY(find_reference(log, n, options->reference, &g));
    CHARL_TRY(charl__text_printf(out, "\nconfigurations, paired by seed\n"));
    for (int k = 0; k < g.count; k++) {
        CHARL_TRY(put_group(log, n, &g, k, out));
    }
    CHARL_TRY(put_means(log, n, &g, out));
    for (int k = 0; k < g.count; k++) {
        CHARL_TRY(k != g.reference ? put_group_comparison(log, n, &g, k, out) : CHARL_OK);
    }
    return CHARL_OK;
}

charl_status charl_report_paired(const double *a, const double *b, int64_t n, double confidence, double *low)
{
    CHARL_GIVEN(a, b, low);
    CHARL_REQUIRE(n > 1 && confidence > 0.5 && confidence < 1, CHARL_ERR_INVALID,
                  "%" PRId64 " pairs at a confidence of %g: there must be two, and more than 0.5 and less than 1", n,
                  confidence);
    *low = charl__student_paired(a, b, n, confidence).low;
    return CHARL_OK;
}

charl_status charl_report_summarize(const char *run, charl_run_summary *out)
{
    CHARL_GIVEN(run, out);
    charl__run_log log;
    const charl_status st = charl__run_log_read(run, &log);

    *out = (charl_run_summary){.best = (double)NAN, .last = (double)NAN};
    if (st == CHARL_OK) {
        const charl__run_best best = charl__run_log_best(&log);
        const charl__run_rows *train = &log.rows[CHARL__RUN_TRAIN];
        const charl__run_expense expense = charl__run_log_expense(&log);
        const double bytes = charl__run_series_last(train, charl__run_series_find(train, "mem_bytes"));
        double step, time;

        charl__run_log_end(&log, &step, &time);
        *out = (charl_run_summary){.state = log.state,
                                   .step = (int64_t)step,
                                   .time_s = time,
                                   .higher = best.max,
                                   .best = best.value,
                                   .best_step = best.step,
                                   .last = charl__run_log_last_of(&log, best.monitor),
                                   .step_ms = charl__run_log_times(&log).step_ms,
                                   .mem_bytes = bytes > 0 ? (int64_t)bytes : 0,
                                   .energy_kwh = expense.kwh,
                                   .energy_measured = expense.is_measured,
                                   .cost = expense.cost};
        snprintf(out->monitor, sizeof out->monitor, "%s", best.monitor);
    }
    charl__run_log_fini(&log);
    return st;
}

charl_status charl_report_compare(const char *const *runs, int n_runs, const charl_report_compare_options *options,
                                  char **out)
{
    CHARL_GIVEN(runs || n_runs == 0, out);
    CHARL__OPTIONS(charl_report_compare_options, options);
    charl_status st = CHARL_OK;
    charl__run_log *log = NULL;
    charl__text t = {0};

    *out = NULL;
    CHARL_TRY_CLEANUP(charl__run_logs_read(runs, n_runs, &log));
    CHARL_TRY_CLEANUP(put_table(log, n_runs, &t));
    if (options && options->by_seed) {
        CHARL_TRY_CLEANUP(put_seeds(log, n_runs, options, &t));
    } else if (n_runs > 1) {
        CHARL_TRY_CLEANUP(put_differences(log, n_runs, &t));
    }
    *out = charl__text_steal(&t);
cleanup:
    charl__run_logs_free(log, n_runs);
    charl__text_fini(&t);
    return st;
}
