/* Time lines of several runs as one. They are read line by line, an event each, as train/metrics/trace_file.c writes them: a trace of many
 * ranks is larger than one likes to keep in memory. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text/text.h"
#include "charl/api.h"
#include "charl/report.h"
#include "io/commit.h"

enum { MAX_PIDS = 1 << 22 }; /* of a file: more than Linux has */

/* A file and what is known of it. */
typedef struct part {
    const char *path;
    FILE *f;
    char *line; /* of getline */
    size_t capacity;
    double zero_s; /* since 1970, of the first moment */
    int64_t first_pid, pids;
    charl__text name; /* of its processes, as the inside of a JSON string */
} part;

static charl_status refuse(const part *p)
{
    CHARL_FAIL(CHARL_ERR_DATA, "%s: is not a time line; HINT charl-train --trace writes one", p->path);
    return CHARL_OK;
}

/* The next line in p->line; *has: there is one. */
static charl_status next(part *p, bool *has)
{
    errno = 0;
    *has = getline(&p->line, &p->capacity, p->f) >= 0;
    CHARL_REQUIRE(*has || (errno == 0 && !ferror(p->f)), CHARL_ERR_DATA, "%s: %s", p->path, strerror(errno));
    return CHARL_OK;
}

/* What follows `key` in the line, or NULL. */
static const char *after(const char *line, const char *key)
{
    const char *at = strstr(line, key);

    return at ? at + strlen(key) : NULL;
}

/* From ],...,"otherData":{...}. */
static charl_status read_other(part *p)
{
    const char *zero = after(p->line, "\"zero_s\":"), *run = after(p->line, "\"run\":\"");
    char *end = NULL;
    int n = 0;

    p->zero_s = zero ? strtod(zero, &end) : (double)NAN;
    if (!zero || end == zero || !isfinite(p->zero_s)) {
        return refuse(p);
    }
    while (run && run[n] && run[n] != '"') {
        n += run[n] == '\\' && run[n + 1] ? 2 : 1;
    }
    if (run && run[n] != '"') {
        return refuse(p);
    }
    CHARL_TRY(n > 0 ? charl__text_printf(&p->name, "%.*s: ", n, run) : CHARL_OK);
    return CHARL_OK;
}

/* The process of an event of p, written at `pid`. */
static int64_t process(const part *p, const char *pid, char **end)
{
    return p->first_pid + strtol(pid, end, 10);
}

static charl_status open_part(part *p)
{
    bool has = true;

    p->f = fopen(p->path, "r");
    CHARL_REQUIRE(p->f, CHARL_ERR_DATA, "%s: %s", p->path, strerror(errno));
    CHARL_TRY(next(p, &has));
    if (!has || strcmp(p->line, "{\"traceEvents\":[\n") != 0) {
        return refuse(p);
    }
    for (;;) {
        const char *pid;
        int64_t number;

        CHARL_TRY(next(p, &has));
        if (!has) {
            return refuse(p);
        }
        if (p->line[0] == ']') {
            break;
        }
        pid = after(p->line, "\"pid\":");
        if (!pid || strncmp(p->line, "{\"ph\":\"", 7) != 0) {
            return refuse(p);
        }
        number = process(p, pid, NULL);
        if (number < 0 || number >= MAX_PIDS) {
            return refuse(p);
        }
        p->pids = number >= p->pids ? number + 1 : p->pids;
    }
    CHARL_TRY(read_other(p));
    rewind(p->f);
    return next(p, &has);
}

/* An event of p with its new process, time and name. */
static charl_status print_event(const part *p, double later_us, charl__text *out)
{
    const char *pid = after(p->line, "\"pid\":"), *rest;
    char *end = NULL;

    charl__text_clear(out);
    CHARL_TRY(charl__text_append(out, p->line, (size_t)(pid - p->line)));
    CHARL_TRY(charl__text_printf(out, "%lld", (long long)process(p, pid, &end)));
    rest = end;
    if (p->line[7] == 'X') {
        const char *ts = after(rest, "\"ts\":");
        double us;

        if (!ts) {
            return refuse(p);
        }
        us = strtod(ts, &end);
        CHARL_TRY(charl__text_append(out, rest, (size_t)(ts - rest)));
        CHARL_TRY(charl__text_printf(out, "%.3f", us + later_us));
        rest = end;
    } else if (strstr(p->line, "\"process_name\"")) {
        const char *name = after(rest, "\"name\":\"");

        if (!name) {
            return refuse(p);
        }
        CHARL_TRY(charl__text_append(out, rest, (size_t)(name - rest)));
        CHARL_TRY(charl__text_printf(out, "%s", charl__text_string(&p->name)));
        rest = name;
    } else if (strstr(p->line, "\"process_sort_index\"")) { /* runs one below the other */
        CHARL_TRY(charl__text_printf(out, ",\"args\":{\"sort_index\":%lld}},\n", (long long)process(p, pid, NULL)));
        return CHARL_OK;
    }
    return charl__text_printf(out, "%s", rest);
}

static charl_status copy(part *p, double zero_s, charl__commit *c, charl__text *out)
{
    bool has = true;

    for (;;) {
        CHARL_TRY(next(p, &has));
        if (!has) {
            return refuse(p); /* it has changed meanwhile */
        }
        if (p->line[0] == ']') {
            return CHARL_OK;
        }
        if (!strstr(p->line, "\"process_labels\"")) { /* the last one, without a comma */
            CHARL_TRY(print_event(p, (p->zero_s - zero_s) * 1e6, out));
            CHARL_TRY(charl__commit_write(c, out->data, out->length));
        }
    }
}

static charl_status merge(part *p, int n, const char *path)
{
    static const char head[] = "{\"traceEvents\":[\n";
    charl_status st = CHARL_OK;
    charl__commit c = {.fd = -1};
    charl__text out = {0};
    double zero_s = INFINITY;
    int64_t pids = 0;

    for (int i = 0; i < n; i++) {
        CHARL_TRY_CLEANUP(open_part(&p[i]));
        p[i].first_pid = pids;
        pids += p[i].pids;
        zero_s = fmin(zero_s, p[i].zero_s);
    }
    CHARL_TRY_CLEANUP(charl__commit_begin(path, &c));
    CHARL_TRY_CLEANUP(charl__commit_write(&c, head, sizeof head - 1));
    for (int i = 0; i < n; i++) {
        CHARL_TRY_CLEANUP(copy(&p[i], zero_s, &c, &out));
    }
    charl__text_clear(&out);
    CHARL_TRY_CLEANUP(
        charl__text_printf(&out,
                           "{\"ph\":\"M\",\"name\":\"process_labels\",\"pid\":0,\"args\":{\"labels\":\"charl\"}}\n],"
                           "\"displayTimeUnit\":\"ms\","
                           "\"otherData\":{\"program\":\"charl %s\",\"run\":\"\",\"merged\":%d,\"zero_s\":",
                           charl_version(), n));
    CHARL_TRY_CLEANUP(charl__text_json_number(&out, zero_s));
    CHARL_TRY_CLEANUP(charl__text_printf(&out, "}}\n"));
    CHARL_TRY_CLEANUP(charl__commit_write(&c, out.data, out.length));
    CHARL_TRY_CLEANUP(charl__commit_end(&c, NULL, NULL));
cleanup:
    charl__commit_fini(&c);
    charl__text_fini(&out);
    return st;
}

charl_status charl_trace_merge(const char *const *files, int n_files, const char *path)
{
    charl_status st = CHARL_OK;
    part *p = NULL;

    CHARL_REQUIRE_CLEANUP(n_files > 0, CHARL_ERR_INVALID, "no time lines to merge");
    CHARL_TRY_CLEANUP(charl__alloc_array(n_files, sizeof *p, &p));
    for (int i = 0; i < n_files; i++) {
        p[i].path = files[i];
    }
    CHARL_TRY_CLEANUP(merge(p, n_files, path));
cleanup:
    for (int i = 0; p && i < n_files; i++) {
        if (p[i].f) {
            fclose(p[i].f);
        }
        free(p[i].line);
        charl__text_fini(&p[i].name);
    }
    charl_free(p);
    return st;
}
