/* Merges traces of several runs. They are read line by line, because a trace of many ranks may be larger than memory. */
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
#include "io/kind.h"
#include "report/trace_event.h"

#define END_OF_TIME_S 1e11 /* since 1970: more than three thousand years; microseconds of it have room in a double */

/* A file and its properties. */
typedef struct part {
    const char *path;
    FILE *f;
    char *line; /* of getline */
    size_t capacity, length;
    double zero_s; /* since 1970, of the first moment */
    int64_t first_pid, pids;
    char *run; /* "" if the file does not name it */
} part;

/* The status of a file that is not a valid trace because of `why`. */
static charl_status refuse(const part *p, charl_status why)
{
    CHARL_REQUIRE(why == CHARL_ERR_DATA, why, "%s: %s", p->path, charl_error_message());
    CHARL_FAIL(CHARL_ERR_DATA, "%s: is not a time line that charl wrote; HINT charl-train --trace writes one", p->path);
    return CHARL_OK;
}

/* The next line in p->line; the end of the file is an error. */
static charl_status next(part *p)
{
    ssize_t n;

    errno = 0;
    n = getline(&p->line, &p->capacity, p->f);
    CHARL_REQUIRE(n >= 0 || (errno == 0 && !ferror(p->f)), CHARL_ERR_DATA, "%s: %s", p->path, strerror(errno));
    p->length = n >= 0 ? (size_t)n : 0;
    return n >= 0 ? CHARL_OK : refuse(p, CHARL_ERR_DATA);
}

static charl_status read_event(const part *p, charl__trace_event **out)
{
    const charl_status st = charl__trace_event_read(p->line, p->length, out);

    return st == CHARL_OK ? st : refuse(p, st);
}

static bool is_moment(double s)
{
    return s >= 0 && s <= END_OF_TIME_S;
}

static charl_status open_part(part *p)
{
    double first_us = 0, last_us = 0;
    charl_status st;

    CHARL_TRY(charl__kind_expect(p->path, CHARL__KIND_TRACE, "a time line", CHARL_ERR_DATA));
    p->f = fopen(p->path, "r");
    CHARL_REQUIRE(p->f, CHARL_ERR_DATA, "%s: %s", p->path, strerror(errno));
    CHARL_TRY(next(p));
    if (strcmp(p->line, "{\"traceEvents\":[\n") != 0) {
        return refuse(p, CHARL_ERR_DATA);
    }
    for (;;) {
        charl__trace_event *e;

        CHARL_TRY(next(p));
        if (p->line[0] == ']') {
            break;
        }
        CHARL_TRY(read_event(p, &e));
        p->pids = charl__trace_event_pid(e) >= p->pids ? charl__trace_event_pid(e) + 1 : p->pids;
        first_us = fmin(first_us, charl__trace_event_time(e));
        last_us = fmax(last_us, charl__trace_event_time(e));
        charl__trace_event_close(e);
    }
    st = charl__trace_end_read(p->line, p->length, &p->zero_s, &p->run);
    if (st != CHARL_OK) {
        return refuse(p, st);
    }
    if (!is_moment(p->zero_s + first_us * 1e-6) || !is_moment(p->zero_s + last_us * 1e-6)) {
        return refuse(p, CHARL_ERR_DATA);
    }
    rewind(p->f);
    return next(p);
}

static charl_status copy(part *p, double later_us, charl__commit *c, charl__text *out)
{
    charl_status st = CHARL_OK;
    charl__trace_event *e = NULL;

    for (;;) {
        CHARL_TRY_CLEANUP(next(p));
        if (p->line[0] == ']') {
            break;
        }
        charl__trace_event_close(e);
        e = NULL;
        CHARL_TRY_CLEANUP(read_event(p, &e));
        if (!charl__trace_event_is(e, "process_labels")) { /* the last one, without a comma */
            CHARL_TRY_CLEANUP(charl__trace_event_move(e, p->first_pid + charl__trace_event_pid(e),
                                                      charl__trace_event_time(e) + later_us, p->run));
            charl__text_clear(out);
            CHARL_TRY_CLEANUP(charl__trace_event_print(e, out));
            CHARL_TRY_CLEANUP(charl__text_append(out, ",\n", 2));
            CHARL_TRY_CLEANUP(charl__commit_write(c, out->data, out->length));
        }
    }
cleanup:
    charl__trace_event_close(e);
    return st;
}

static charl_status merge(part *p, int n, const char *path)
{
    static const char head[] = "{\"traceEvents\":[\n";
    CHARL_SCOPED(charl__commit_fini) charl__commit c = {.fd = -1};
    CHARL_SCOPED(charl__text_fini) charl__text out = {0};
    double zero_s = (double)INFINITY;
    int64_t pids = 0;

    for (int i = 0; i < n; i++) {
        CHARL_TRY(open_part(&p[i]));
        p[i].first_pid = pids;
        pids += p[i].pids;
        zero_s = fmin(zero_s, p[i].zero_s);
    }
    CHARL_REQUIRE(pids <= CHARL__TRACE_MAX_PIDS, CHARL_ERR_DATA, "the time lines have more than %d processes",
                  CHARL__TRACE_MAX_PIDS);
    CHARL_TRY(charl__commit_begin(path, &c));
    CHARL_TRY(charl__commit_write(&c, head, sizeof head - 1));
    for (int i = 0; i < n; i++) {
        CHARL_TRY(copy(&p[i], (p[i].zero_s - zero_s) * 1e6, &c, &out));
    }
    charl__text_clear(&out);
    CHARL_TRY(
        charl__text_printf(&out,
                           "{\"ph\":\"M\",\"name\":\"process_labels\",\"pid\":0,\"args\":{\"labels\":\"charl\"}}\n],"
                           "\"displayTimeUnit\":\"ms\","
                           "\"otherData\":{\"program\":\"charl %s\",\"run\":\"\",\"merged\":%d,\"zero_s\":",
                           charl_version(), n));
    CHARL_TRY(charl__text_json_number(&out, zero_s));
    CHARL_TRY(charl__text_printf(&out, "}}\n"));
    CHARL_TRY(charl__commit_write(&c, out.data, out.length));
    CHARL_TRY(charl__commit_end(&c, NULL, NULL));
    return CHARL_OK;
}

charl_status charl_trace_merge(const char *const *files, int n_files, const char *path)
{
    CHARL_GIVEN(files || n_files == 0, path);
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
        charl_free(p[i].run);
    }
    charl_free(p);
    return st;
}
