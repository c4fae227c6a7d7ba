/* metrics.jsonl and metrics.csv: a line per row. */
#define _GNU_SOURCE /* memmem */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/handles.h"
#include "base/text/text.h"
#include "config/outputs.h"
#include "io/commit.h"
#include "train/metrics/metrics.h"

/* Columns of metrics.csv: of a training row, or of both kinds; then val/NAME for every metric that there is, or with named outputs val/loss and
 * val/OUTPUT.NAME. */
static const char train_columns[] =
    "epoch,step,elapsed_s,train/loss,lr,grad_norm,samples_per_s,mem_gib,comm_ms,comm_exposed_ms";
enum { SHARED_COLUMNS = 3, TRAIN_COLUMNS = 10 };

enum { LINE_BYTES = 1 << 14 };

typedef struct line_file {
    FILE *f;
    char *path;
    charl__text line;       /* being built */
    charl__text columns;    /* CSV: the metrics that have a column, each with a NUL */
    charl__sha256 recorded; /* charl__metrics_digest */
} line_file;

/* Step of a row: "step":N of JSON, or the second field of CSV; -1 if it is neither. */
static int64_t step_of(const char *line)
{
    const char *p = strstr(line, "\"step\"");

    if (p) { /* other programs write blanks around the colon */
        p += 6 + strspn(p + 6, " ");
        return *p == ':' ? strtoll(p + 1, NULL, 10) : -1;
    }
    p = strchr(line, ',');
    return p && p[1] >= '0' && p[1] <= '9' ? strtoll(p + 1, NULL, 10) : -1;
}

/* Field i of a line of CSV, from 0; "" past the last. */
static const char *field_at(const char *line, int i, int *length)
{
    for (; i > 0 && line[strcspn(line, ",\n")] == ','; i--) {
        line += strcspn(line, ",\n") + 1;
    }
    *length = i > 0 ? 0 : (int)strcspn(line, ",\n");
    return line;
}

/* The field of `line`, whose columns are `columns`, that belongs to the column `name`. */
static const char *column_of(const char *columns, const char *line, const char *name, int n, int *length)
{
    const char *column;

    for (int i = 0; *(column = field_at(columns, i, length)) != '\n' && *length > 0; i++) {
        if (*length == n && strncmp(column, name, (size_t)n) == 0) {
            return field_at(line, i, length);
        }
    }
    *length = 0;
    return "";
}

/* A row of a file with other columns, as charl of another version wrote it, in these columns. */
static charl_status translate(const char *from, const char *line, const char *to, charl__text *out)
{
    int n;
    const char *name = field_at(to, 0, &n);

    charl__text_clear(out);
    for (int i = 0; n > 0; i++, name = field_at(to, i, &n)) {
        int length;
        const char *field = column_of(from, line, name, n, &length);

        CHARL_TRY(charl__text_printf(out, "%s%.*s", i > 0 ? "," : "", length, field));
    }
    return charl__text_append(out, "\n", 1);
}

/* Copy the rows up to keep_step to a new file and put it in place of the old one. A torn last line
 * is dropped too. header: the columns of CSV, or "". */
static charl_status keep_rows(const char *path, int64_t keep_step, const char *header)
{
    charl_status st = CHARL_OK;
    charl__commit c;
    charl__text row = {0};
    char line[LINE_BYTES], columns[LINE_BYTES] = "";
    FILE *in = fopen(path, "r");

    CHARL_TRY_CLEANUP(charl__commit_begin(path, &c));
    CHARL_TRY_CLEANUP(charl__commit_write(&c, header, strlen(header)));
    while (in && fgets(line, sizeof line, in)) {
        const int64_t step = step_of(line);
        const bool is_header = header[0] && !columns[0];

        if (is_header) {
            snprintf(columns, sizeof columns, "%s", line);
        } else if (step >= 0 && step <= keep_step && strchr(line, '\n')) {
            if (strcmp(columns, header) != 0) {
                CHARL_TRY_CLEANUP(translate(columns, line, header, &row));
            } else {
                charl__text_clear(&row);
                CHARL_TRY_CLEANUP(charl__text_append(&row, line, strlen(line)));
            }
            CHARL_TRY_CLEANUP(charl__commit_write(&c, charl__text_string(&row), row.length));
        }
    }
    CHARL_TRY_CLEANUP(charl__commit_end(&c, NULL, NULL));
cleanup:
    charl__commit_fini(&c);
    charl__text_fini(&row);
    if (in) {
        fclose(in);
    }
    return st;
}

static void close_lines(void *file)
{
    line_file *l = file;

    if (l) {
        if (l->f) {
            fclose(l->f);
        }
        charl__text_fini(&l->line);
        charl__text_fini(&l->columns);
        charl_free(l->path);
        charl_free(l);
    }
}

static charl_status open_lines(const charl__metrics_place *place, const char *name, const char *header, void **out)
{
    charl_status st = CHARL_OK;
    line_file *l = NULL;

    CHARL_TRY_CLEANUP(charl__alloc(sizeof *l, &l));
    charl__sha256_init(&l->recorded);
    CHARL_TRY_CLEANUP(charl__commit_join(place->dir, name, &l->path));
    CHARL_TRY_CLEANUP(keep_rows(l->path, place->keep_step > 0 ? place->keep_step : -1, header));
    CHARL_TRY_CLEANUP(charl__log_open(l->path, false, &l->f));
    *out = l;
    l = NULL;
cleanup:
    close_lines(l);
    return st;
}

/* Write the line that was built. */
static charl_status put_line(line_file *l)
{
    CHARL_TRY(charl__text_append(&l->line, "\n", 1));
    return charl__log_append(l->f, l->path, l->line.data, l->line.length);
}

/* A number of JSON; null where it has none. Nine digits read back to the same f32. */
static charl_status put_number(charl__text *t, const charl__metrics_value *v)
{
    static const int digits[] = {[CHARL__METRICS_EXACT] = 9, [CHARL__METRICS_ROUNDED] = 6, [CHARL__METRICS_MS] = 4};

    CHARL_TRY(charl__text_printf(t, ",\"%s\":", v->name));
    if (!isfinite(v->value)) {
        CHARL_TRY(charl__text_printf(t, "null"));
    } else if (v->kind == CHARL__METRICS_SECONDS || v->kind == CHARL__METRICS_COUNT) {
        CHARL_TRY(charl__text_printf(t, "%.*f", v->kind == CHARL__METRICS_SECONDS ? 3 : 0, v->value));
    } else {
        CHARL_TRY(charl__text_printf(t, "%.*g", digits[v->kind], v->value));
    }
    return CHARL_OK;
}

size_t charl__metrics_recorded(const char *line, int64_t *step)
{
    static const char *const times[] = {",\"samples_per_s\":", ",\"elapsed_s\":"}; /* the first of a row */
    size_t n = strcspn(line, "\n");
    bool found = false;

    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) {
        const char *p = memmem(line, n, times[i], strlen(times[i]));

        found = found || p;
        n = p ? (size_t)(p - line) : n;
    }
    *step = found ? step_of(line) : -1;
    return found ? n : 0;
}

charl_status charl__metrics_digest_file(const char *dir, int64_t from, int64_t to, char hash[CHARL__SHA256_TEXT])
{
    CHARL_SCOPED_FREE char *path = NULL;
    CHARL_SCOPED(charl__file_left) FILE *in = NULL;
    unsigned char digest[CHARL__SHA256_BYTES];
    charl__sha256 sha;
    char *line = NULL;
    size_t room = 0;

    memset(hash, '0', CHARL__SHA256_TEXT - 1);
    hash[CHARL__SHA256_TEXT - 1] = '\0';
    charl__sha256_init(&sha);
    CHARL_TRY(charl__commit_join(dir, CHARL__METRICS_JSONL, &path));
    in = fopen(path, "re");
    if (!in) {
        return CHARL_OK;
    }
    while (getline(&line, &room, in) > 0) {
        int64_t step;
        const size_t n = charl__metrics_recorded(line, &step);

        if (n > 0 && step > from && step <= to) {
            charl__sha256_update(&sha, line, n);
            charl__sha256_update(&sha, "\n", 1);
        }
    }
    free(line);
    charl__sha256_final(&sha, digest);
    charl__sha256_format(digest, hash);
    return CHARL_OK;
}

static const charl__sha256 *digest_of(const void *file)
{
    return &((const line_file *)file)->recorded;
}

/* extra: more members of the object, in front of the times. */
static charl_status put_json(line_file *l, const char *event, int64_t step, const charl__metrics_value *values, int n,
                             const char *extra, bool is_finite)
{
    size_t n_recorded;

    charl__text_clear(&l->line);
    CHARL_TRY(charl__text_printf(&l->line, "{\"event\":\"%s\",\"step\":%" PRId64, event, step));
    for (int i = 0; i < n; i++) {
        if (strcmp(values[i].name, "elapsed_s") == 0) {
            CHARL_TRY(charl__text_printf(&l->line, "%s", extra));
        }
        CHARL_TRY(put_number(&l->line, &values[i]));
    }
    CHARL_TRY(charl__text_printf(&l->line, ",\"time\":%.3f%s}", charl__clock_wall_s(),
                                 is_finite ? "" : ",\"nonfinite\":true"));
    CHARL_TRY(put_line(l));
    n_recorded = charl__metrics_recorded(charl__text_string(&l->line), &step);
    charl__sha256_update(&l->recorded, l->line.data, n_recorded);
    charl__sha256_update(&l->recorded, "\n", 1);
    return CHARL_OK;
}

static charl_status open_jsonl(const charl__metrics_place *place, void **out)
{
    return open_lines(place, CHARL__METRICS_JSONL, "", out);
}

static charl_status jsonl_train(void *file, const charl_train_row *r)
{
    charl__metrics_value values[CHARL__METRICS_VALUES];
    const int n = charl__metrics_train_values(r, values);

    return put_json(file, "train", r->step, values, n, "", isfinite(r->loss) && isfinite(r->grad_norm));
}

static charl_status jsonl_val(void *file, const charl_val_row *r)
{
    charl__metrics_value values[CHARL__METRICS_VALUES];
    const int n = charl__metrics_val_values(r, values);

    return put_json(file, "val", r->step, values, n, r->best ? ",\"best\":true" : ",\"best\":false", isfinite(r->loss));
}

static charl_status jsonl_balance(void *file, const charl_balance_row *r)
{
    line_file *l = file;

    charl__text_clear(&l->line);
    CHARL_TRY(charl__text_printf(&l->line, "{\"event\":\"balance\",\"step\":%" PRId64 ",\"slices\":[", r->step));
    for (int i = 0; i < r->size; i++) {
        CHARL_TRY(charl__text_printf(&l->line, "%s%d", i > 0 ? "," : "", r->slices[i]));
    }
    CHARL_TRY(charl__text_printf(&l->line, "],\"compute_ms\":["));
    for (int i = 0; i < r->size; i++) {
        CHARL_TRY(charl__text_printf(&l->line, "%s%.3f", i > 0 ? "," : "", r->step_ms[i]));
    }
    CHARL_TRY(charl__text_printf(&l->line, "],\"ms\":%.0f,\"time\":%.3f}", r->ms, charl__clock_wall_s()));
    CHARL_TRY(put_line(l));
    return CHARL_OK;
}

const charl__metrics_format charl__metrics_jsonl = {.name = "jsonl",
                                                    .bit = CHARL_LOG_JSONL,
                                                    .open = open_jsonl,
                                                    .train = jsonl_train,
                                                    .val = jsonl_val,
                                                    .balance = jsonl_balance,
                                                    .digest = digest_of,
                                                    .close = close_lines};

/* Append a column to the header and its metric to the list; `output` "": of the model. */
static charl_status add_column(const char *output, const char *metric, charl__text *header, charl__text *columns)
{
    char name[CHARL_METRIC_NAME];

    snprintf(name, sizeof name, "%s%s%s", output, output[0] ? "." : "", metric);
    CHARL_TRY(charl__text_printf(header, ",val/%s", name));
    return charl__text_append(columns, name, strlen(name) + 1);
}

static charl_status open_csv(const charl__metrics_place *place, void **out)
{
    CHARL_SCOPED(charl__text_fini) charl__text header = {0}, columns = {0};
    const char *output = "", *metric;
    int k = place->config && charl__config_has_outputs(place->config) ? -1 : 0;

    CHARL_TRY(charl__text_printf(&header, "%s", train_columns));
    if (k < 0) {
        CHARL_TRY(add_column("", charl_metric_name(0), &header, &columns));
        output = charl__config_output_name(place->config, ++k);
    }
    while (output) {
        for (int i = 0; (metric = charl_metric_name(i)) != NULL; i++) {
            CHARL_TRY(add_column(output, metric, &header, &columns));
        }
        output = output[0] ? charl__config_output_name(place->config, ++k) : NULL;
    }
    CHARL_TRY(charl__text_append(&header, "\n", 1));
    CHARL_TRY(open_lines(place, "metrics.csv", charl__text_string(&header), out));
    ((line_file *)*out)->columns = columns;
    columns = (charl__text){0};
    return CHARL_OK;
}

/* A field of CSV with nine digits, or six; "nan" for what is not finite. */
static const char *field_of(double v, int digits, char text[32])
{
    if (isfinite(v)) {
        snprintf(text, 32, "%.*g", digits, v);
    } else {
        snprintf(text, 32, "nan");
    }
    return text;
}

/* The metric of the first column, or of the next one; NULL: that was the last. */
static const char *next_column(const line_file *l, const char *name)
{
    name = name ? name + strlen(name) + 1 : l->columns.data;
    return name < l->columns.data + l->columns.length ? name : NULL;
}

static charl_status csv_train(void *file, const charl_train_row *r)
{
    line_file *l = file;
    char loss[32], norm[32], rate[32];

    charl__text_clear(&l->line);
    CHARL_TRY(charl__text_printf(&l->line, "%.6g,%" PRId64 ",%.3f,%s,%.9g,%s,%s,%.4f,%.4g,%.4g", r->epoch, r->step,
                                 r->elapsed_s, field_of(r->loss, 9, loss), r->lr, field_of(r->grad_norm, 9, norm),
                                 field_of(r->samples_per_s, 6, rate), (double)r->mem_bytes / 1073741824.0, r->comm_ms,
                                 r->comm_exposed_ms));
    for (const char *name = NULL; (name = next_column(l, name)) != NULL;) {
        CHARL_TRY(charl__text_append(&l->line, ",", 1));
    }
    CHARL_TRY(put_line(l));
    return CHARL_OK;
}

/* A metric as a field; "" if it was not measured. */
static const char *metric_of(const charl_val_row *r, const char *name, char text[32])
{
    for (int i = 0; i < r->n_metrics; i++) {
        if (strcmp(r->metrics[i].name, name) == 0) {
            return field_of(r->metrics[i].value, 9, text);
        }
    }
    return "";
}

static charl_status csv_val(void *file, const charl_val_row *r)
{
    line_file *l = file;
    const char *name = next_column(l, NULL); /* the loss */
    char text[32];

    charl__text_clear(&l->line);
    CHARL_TRY(charl__text_printf(&l->line, "%.6g,%" PRId64 ",%.3f", r->epoch, r->step, r->elapsed_s));
    for (int i = SHARED_COLUMNS; i < TRAIN_COLUMNS; i++) {
        CHARL_TRY(charl__text_append(&l->line, ",", 1));
    }
    CHARL_TRY(charl__text_printf(&l->line, ",%s", field_of(r->loss, 9, text)));
    while ((name = next_column(l, name)) != NULL) {
        CHARL_TRY(charl__text_printf(&l->line, ",%s", metric_of(r, name, text)));
    }
    CHARL_TRY(put_line(l));
    return CHARL_OK;
}

const charl__metrics_format charl__metrics_csv = {
    .name = "csv", .bit = CHARL_LOG_CSV, .open = open_csv, .train = csv_train, .val = csv_val, .close = close_lines};
