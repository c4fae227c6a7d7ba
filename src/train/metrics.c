/* Metrics files. */
#include "train/metrics.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "io/commit.h"

static const char csv_header[] =
    "epoch,step,elapsed_s,train/loss,val/loss,val/accuracy,lr,grad_norm,samples_per_s,mem_gib,"
    "val/perplexity,val/mae,comm_ms,comm_exposed_ms\n";

enum { PATH_BYTES = 4096, LINE_BYTES = 4096 };

struct charl__metrics {
    FILE *jsonl, *csv;
    char dir[PATH_BYTES];
};

static charl_status join(const char *dir, const char *name, char *out)
{
    CHARL_REQUIRE(snprintf(out, PATH_BYTES, "%s/%s", dir, name) < PATH_BYTES, CHARL_ERR_DISK,
                  "the path %s/%s is too long", dir, name);
    return CHARL_OK;
}

charl_status charl__metrics_write_file(const char *dir, const char *name, const char *text)
{
    char path[PATH_BYTES];

    CHARL_TRY(join(dir, name, path));
    CHARL_TRY(charl__commit_bytes(path, text, strlen(text)));
    return CHARL_OK;
}

/* Step of a row: "step":N of JSON, or the second field of CSV; -1 if it is neither. */
static int64_t step_of(const char *line)
{
    const char *p = strstr(line, "\"step\":");

    if (p) {
        return strtoll(p + 7, NULL, 10);
    }
    p = strchr(line, ',');
    return p && p[1] >= '0' && p[1] <= '9' ? strtoll(p + 1, NULL, 10) : -1;
}

/* Copy the rows up to keep_step to a new file and put it in place of the old one. A torn last line
 * is dropped too. */
static charl_status keep_rows(const char *path, int64_t keep_step, const char *header)
{
    charl_status st = CHARL_OK;
    charl__commit c;
    char line[LINE_BYTES];
    FILE *in = fopen(path, "r");

    CHARL_TRY_CLEANUP(charl__commit_begin(path, &c));
    CHARL_TRY_CLEANUP(charl__commit_write(&c, header, strlen(header)));
    while (in && fgets(line, sizeof line, in)) {
        const int64_t step = step_of(line);

        if (step >= 0 && step <= keep_step && strchr(line, '\n')) {
            CHARL_TRY_CLEANUP(charl__commit_write(&c, line, strlen(line)));
        }
    }
    CHARL_TRY_CLEANUP(charl__commit_end(&c, NULL, NULL));
cleanup:
    charl__commit_fini(&c);
    if (in) {
        fclose(in);
    }
    return st;
}

static charl_status open_one(const char *dir, const char *name, const char *header, int64_t keep_step, FILE **out)
{
    char path[PATH_BYTES];

    CHARL_TRY(join(dir, name, path));
    CHARL_TRY(keep_rows(path, keep_step > 0 ? keep_step : -1, header));
    CHARL_TRY(charl__log_open(path, false, out));
    return CHARL_OK;
}

charl_status charl__metrics_open(const char *dir, unsigned formats, int64_t keep_step, charl__metrics **out)
{
    charl_status st = CHARL_OK;
    charl__metrics *m = NULL;

    *out = NULL;
    CHARL_TRY_CLEANUP(charl_alloc(sizeof *m, &m));
    snprintf(m->dir, sizeof m->dir, "%s", dir);
    if (formats & CHARL_LOG_JSONL) {
        CHARL_TRY_CLEANUP(open_one(dir, "metrics.jsonl", "", keep_step, &m->jsonl));
    }
    if (formats & CHARL_LOG_CSV) {
        CHARL_TRY_CLEANUP(open_one(dir, "metrics.csv", csv_header, keep_step, &m->csv));
    }
    *out = m;
    m = NULL;
cleanup:
    charl__metrics_close(m);
    return st;
}

void charl__metrics_close(charl__metrics *m)
{
    if (m) {
        if (m->jsonl) {
            fclose(m->jsonl);
        }
        if (m->csv) {
            fclose(m->csv);
        }
        charl_free(m);
    }
}

/* A float exactly: 9 digits read back to the same f32; null where JSON has no number for it. */
static const char *number(double v, const char *none, char *text)
{
    if (isfinite(v)) {
        snprintf(text, 32, "%.9g", v);
    } else {
        snprintf(text, 32, "%s", none);
    }
    return text;
}

static const char *rounded(double v, const char *none, char *text)
{
    if (isfinite(v)) {
        snprintf(text, 32, "%.6g", v);
    } else {
        snprintf(text, 32, "%s", none);
    }
    return text;
}

static charl_status flush(const charl__metrics *m, FILE *f, const char *name)
{
    CHARL_REQUIRE(!f || (fflush(f) == 0 && !ferror(f)), CHARL_ERR_DISK, "cannot write %s/%s: %s", m->dir, name,
                  strerror(errno));
    return CHARL_OK;
}

charl_status charl__metrics_train(charl__metrics *m, const charl_train_row *r)
{
    char loss[32], norm[32], rate[32], tokens[64] = "", skipped[96] = "";
    const bool finite = isfinite(r->loss) && isfinite(r->grad_norm);
    int n = 0;

    if (r->tokens_per_s > 0) {
        snprintf(tokens, sizeof tokens, ",\"tokens_per_s\":%.6g", r->tokens_per_s);
    }
    if (r->skipped > 0) {
        n = snprintf(skipped, sizeof skipped, ",\"skipped\":%" PRId64, r->skipped);
    }
    if (r->overflowed > 0) {
        snprintf(skipped + n, sizeof skipped - (size_t)n, ",\"overflowed\":%" PRId64, r->overflowed);
    }
    if (m->jsonl) {
        fprintf(m->jsonl,
                "{\"event\":\"train\",\"step\":%" PRId64
                ",\"epoch\":%.6g,\"loss\":%s,\"lr\":%.9g,\"grad_norm\":%s,\"samples\":%" PRId64
                ",\"samples_per_s\":%s%s,\"step_ms\":%.4g,\"data_ms\":%.4g,\"comm_ms\":%.4g,"
                "\"comm_exposed_ms\":%.4g,\"mem_bytes\":%" PRId64 "%s,\"elapsed_s\":%.3f,\"time\":%.3f%s}\n",
                r->step, r->epoch, number(r->loss, "null", loss), r->lr, number(r->grad_norm, "null", norm), r->samples,
                rounded(r->samples_per_s, "null", rate), tokens, r->step_ms, r->data_ms, r->comm_ms, r->comm_exposed_ms,
                r->mem_bytes, skipped, r->elapsed_s, charl__clock_wall_s(), finite ? "" : ",\"nonfinite\":true");
        CHARL_TRY(flush(m, m->jsonl, "metrics.jsonl"));
    }
    if (m->csv) {
        fprintf(m->csv, "%.6g,%" PRId64 ",%.3f,%s,,,%.9g,%s,%s,%.4f,,,%.4g,%.4g\n", r->epoch, r->step, r->elapsed_s,
                number(r->loss, "nan", loss), r->lr, number(r->grad_norm, "nan", norm),
                rounded(r->samples_per_s, "nan", rate), (double)r->mem_bytes / 1073741824.0, r->comm_ms,
                r->comm_exposed_ms);
        CHARL_TRY(flush(m, m->csv, "metrics.csv"));
    }
    return CHARL_OK;
}

charl_status charl__metrics_val(charl__metrics *m, const charl_val_row *r)
{
    char loss[32], accuracy[64] = "", top5[64] = "", perplexity[64] = "", mae[64] = "", value[32], exponential[32],
                   error[32];

    if (!isnan(r->accuracy)) {
        snprintf(accuracy, sizeof accuracy, ",\"accuracy\":%.9g", r->accuracy);
    }
    if (!isnan(r->top5)) {
        snprintf(top5, sizeof top5, ",\"top5\":%.9g", r->top5);
    }
    if (r->perplexity > 0 && isfinite(r->perplexity)) {
        snprintf(perplexity, sizeof perplexity, ",\"perplexity\":%.9g", r->perplexity);
    }
    if (!isnan(r->mae)) {
        snprintf(mae, sizeof mae, ",\"mae\":%.9g", r->mae);
    }
    if (m->jsonl) {
        fprintf(m->jsonl,
                "{\"event\":\"val\",\"step\":%" PRId64
                ",\"epoch\":%.6g,\"loss\":%s%s%s%s%s,\"best\":%s,\"elapsed_s\":%.3f,\"time\":%.3f%s}\n",
                r->step, r->epoch, number(r->loss, "null", loss), accuracy, top5, perplexity, mae,
                r->best ? "true" : "false", r->elapsed_s, charl__clock_wall_s(),
                isfinite(r->loss) ? "" : ",\"nonfinite\":true");
        CHARL_TRY(flush(m, m->jsonl, "metrics.jsonl"));
    }
    if (m->csv) {
        fprintf(m->csv, "%.6g,%" PRId64 ",%.3f,,%s,%s,,,,,%s,%s,,\n", r->epoch, r->step, r->elapsed_s,
                number(r->loss, "nan", loss), isnan(r->accuracy) ? "" : number(r->accuracy, "nan", value),
                r->perplexity > 0 ? number(r->perplexity, "nan", exponential) : "",
                isnan(r->mae) ? "" : number(r->mae, "nan", error));
        CHARL_TRY(flush(m, m->csv, "metrics.csv"));
    }
    return CHARL_OK;
}

charl_status charl__metrics_balance(charl__metrics *m, const charl_balance_row *r)
{
    if (!m->jsonl) {
        return CHARL_OK;
    }
    fprintf(m->jsonl, "{\"event\":\"balance\",\"step\":%" PRId64 ",\"slices\":[", r->step);
    for (int i = 0; i < r->size; i++) {
        fprintf(m->jsonl, "%s%d", i > 0 ? "," : "", r->slices[i]);
    }
    fprintf(m->jsonl, "],\"compute_ms\":[");
    for (int i = 0; i < r->size; i++) {
        fprintf(m->jsonl, "%s%.3f", i > 0 ? "," : "", r->step_ms[i]);
    }
    fprintf(m->jsonl, "],\"ms\":%.0f,\"time\":%.3f}\n", r->ms, charl__clock_wall_s());
    CHARL_TRY(flush(m, m->jsonl, "metrics.jsonl"));
    return CHARL_OK;
}
