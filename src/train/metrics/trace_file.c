/* Chrome's trace events. */
#include "train/metrics/trace_file.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "io/commit.h"

enum { MOST_ROWS = 256, PIECE = 1 << 20 };

/* In nanoseconds, so that a span ends before the next begins or does not. */
typedef struct event {
    int64_t begin, end;
    const charl__trace_span *span;
} event;

static int by_lane_and_time(const void *a, const void *b)
{
    const event *x = a, *y = b;

    if (x->span->lane != y->span->lane) {
        return x->span->lane < y->span->lane ? -1 : 1;
    }
    if (x->begin != y->begin) {
        return x->begin < y->begin ? -1 : 1;
    }
    return x->end > y->end ? -1 : x->end < y->end; /* what holds the other first */
}

static double move(const charl__trace_clock *c, double host_s)
{
    return host_s - c->offset_s - c->drift * (host_s - c->host_s) - c->zero_s;
}

static int64_t nanoseconds(double s)
{
    return (int64_t)(s * 1e9 + (s < 0 ? -0.5 : 0.5));
}

/* All spans, sorted. */
static charl_status sort(const charl__trace *t, const charl__trace_clock *clock, event **out)
{
    const int64_t n = charl__trace_count(t);

    CHARL_TRY(charl__alloc_array(n > 0 ? n : 1, sizeof **out, out));
    for (int64_t i = 0; i < n; i++) {
        const charl__trace_span *s = charl__trace_at(t, i);

        (*out)[i] = (event){nanoseconds(move(clock, s->begin_s)), nanoseconds(move(clock, s->end_s)), s};
    }
    qsort(*out, (size_t)n, sizeof **out, by_lane_and_time);
    return CHARL_OK;
}

/* "all-reduce", "all-reduce 2", ... */
static charl_status print_thread(int rank, charl__lane lane, int row, charl__text *out)
{
    const int tid = (int)lane * MOST_ROWS + row + 1;

    CHARL_TRY(charl__text_printf(out,
                                 "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":%d,\"tid\":%d,\"args\":{\"name\":\"%s",
                                 rank, tid, charl__lane_name(lane)));
    if (row > 0) {
        CHARL_TRY(charl__text_printf(out, " %d", row + 1));
    }
    CHARL_TRY(charl__text_printf(
        out,
        "\"}},\n{\"ph\":\"M\",\"name\":\"thread_sort_index\",\"pid\":%d,\"tid\":%d,\"args\":{\"sort_index\":%d}},\n",
        rank, tid, tid));
    return CHARL_OK;
}

static charl_status print_event(const charl__trace *t, const event *e, int rank, int row, charl__text *out)
{
    const charl__trace_span *s = e->span;
    const char *label = charl__trace_text(t, s->label);
    const char *comma = "";

    CHARL_TRY(charl__text_printf(
        out,
        "{\"ph\":\"X\",\"pid\":%d,\"tid\":%d,\"ts\":%" PRId64 ".%03d,\"dur\":%" PRId64 ".%03d,\"cat\":\"%s\",\"name\":",
        rank, (int)s->lane * MOST_ROWS + row + 1, e->begin / 1000, (int)(e->begin % 1000), (e->end - e->begin) / 1000,
        (int)((e->end - e->begin) % 1000), charl__lane_name(s->lane)));
    CHARL_TRY(charl__text_json(out, charl__trace_text(t, s->name)));
    CHARL_TRY(charl__text_printf(out, ",\"args\":{"));
    if (label[0]) {
        CHARL_TRY(charl__text_printf(out, "\"layer\":"));
        CHARL_TRY(charl__text_json(out, label));
        comma = ",";
    }
    if (s->bytes > 0) {
        CHARL_TRY(charl__text_printf(out, "%s\"bytes\":%.0f", comma, s->bytes));
        comma = ",";
    }
    if (s->flop > 0) {
        CHARL_TRY(charl__text_printf(out, "%s\"flop\":%.0f", comma, s->flop));
    }
    return charl__text_printf(out, "}},\n");
}

charl_status charl__trace_print(const charl__trace *t, const charl__trace_clock *clock, int rank, const char *process,
                                charl__text *out)
{
    CHARL_SCOPED_FREE event *all = NULL;
    int64_t free_at[MOST_ROWS]; /* of the threads of a lane */
    charl__lane lane = CHARL__LANE_COUNT;
    int rows = 0;

    CHARL_TRY(charl__text_printf(out, "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%d,\"args\":{\"name\":", rank));
    CHARL_TRY(charl__text_json(out, process));
    CHARL_TRY(charl__text_printf(
        out, "}},\n{\"ph\":\"M\",\"name\":\"process_sort_index\",\"pid\":%d,\"args\":{\"sort_index\":%d}},\n", rank,
        rank));
    CHARL_TRY(sort(t, clock, &all));
    for (int64_t i = 0; i < charl__trace_count(t); i++) {
        const event *e = &all[i];
        int row = 0;

        if (e->span->lane != lane) {
            lane = e->span->lane;
            rows = 0;
        }
        while (lane != CHARL__LANE_HOST && row < rows && free_at[row] > e->begin && row < MOST_ROWS - 1) {
            row++;
        }
        if (row == rows) {
            CHARL_TRY(print_thread(rank, lane, row, out));
            rows++;
        }
        free_at[row] = e->end;
        CHARL_TRY(print_event(t, e, rank, row, out));
    }
    return CHARL_OK;
}

/* Of the spans of some lanes, joined where they touch; in place, returns how many are left. */
static int64_t unite(event *e, int64_t n)
{
    int64_t count = 0;

    for (int64_t i = 0; i < n; i++) {
        if (count > 0 && e[i].begin <= e[count - 1].end) {
            e[count - 1].end = e[i].end > e[count - 1].end ? e[i].end : e[count - 1].end;
        } else {
            e[count++] = e[i];
        }
    }
    return count;
}

static int by_time(const void *a, const void *b)
{
    const event *x = a, *y = b;

    return x->begin < y->begin ? -1 : x->begin > y->begin;
}

static charl_status collect(const charl__trace *t, unsigned lanes, event **out, int64_t *count)
{
    const charl__trace_clock none = {0};

    *count = 0;
    CHARL_TRY(charl__alloc_array(charl__trace_count(t) + 1, sizeof **out, out));
    for (int64_t i = 0; i < charl__trace_count(t); i++) {
        const charl__trace_span *s = charl__trace_at(t, i);

        if (lanes >> s->lane & 1U) {
            (*out)[(*count)++] = (event){nanoseconds(move(&none, s->begin_s)), nanoseconds(move(&none, s->end_s)), s};
        }
    }
    qsort(*out, (size_t)*count, sizeof **out, by_time);
    *count = unite(*out, *count);
    return CHARL_OK;
}

charl_status charl__trace_overlap(const charl__trace *t, double *way_s, double *hidden_s)
{
    CHARL_SCOPED_FREE event *way = NULL, *busy = NULL;
    int64_t n = 0, m = 0;

    *way_s = *hidden_s = 0;
    CHARL_TRY(collect(t, 1U << CHARL__LANE_ALLREDUCE | 1U << CHARL__LANE_COMMUNICATE, &way, &n));
    CHARL_TRY(collect(t, 1U << CHARL__LANE_COMPUTE, &busy, &m));
    for (int64_t i = 0, k = 0; i < n; i++) {
        *way_s += (double)(way[i].end - way[i].begin) * 1e-9;
        while (k < m && busy[k].end <= way[i].begin) {
            k++;
        }
        for (int64_t j = k; j < m && busy[j].begin < way[i].end; j++) {
            const int64_t from = busy[j].begin > way[i].begin ? busy[j].begin : way[i].begin;
            const int64_t to = busy[j].end < way[i].end ? busy[j].end : way[i].end;

            *hidden_s += (double)(to - from) * 1e-9;
        }
    }
    return CHARL_OK;
}

/* One rank's events to rank 0, through all: a window of steps is a few megabytes. `piece` has room for PIECE bytes. */
static charl_status pass(charl_comm *comm, int from, const charl__text *mine, char *piece, charl__commit *c,
                         charl_status *written)
{
    const bool is_mine = charl_comm_rank(comm) == from;
    int64_t bytes = is_mine ? (int64_t)mine->length : 0;

    CHARL_TRY(charl_comm_broadcast(comm, &bytes, sizeof bytes, from));
    for (int64_t at = 0; at < bytes; at += PIECE) {
        const size_t n = (size_t)(bytes - at < PIECE ? bytes - at : PIECE);

        if (is_mine) {
            memcpy(piece, mine->data + at, n);
        }
        CHARL_TRY(charl_comm_broadcast(comm, piece, n, from));
        if (charl_comm_rank(comm) == 0 && *written == CHARL_OK) {
            *written = charl__commit_write(c, piece, n);
        }
    }
    return CHARL_OK;
}

static charl_status end_file(charl__commit *c, const char *other)
{
    CHARL_SCOPED(charl__text_fini) charl__text tail = {0};

    /* The event that ends the list spares every other one a decision about its comma. */
    CHARL_TRY(
        charl__text_printf(&tail,
                           "{\"ph\":\"M\",\"name\":\"process_labels\",\"pid\":0,\"args\":{\"labels\":\"charl\"}}\n],"
                           "\"displayTimeUnit\":\"ms\",\"otherData\":%s}\n",
                           other));
    CHARL_TRY(charl__commit_write(c, tail.data, tail.length));
    CHARL_TRY(charl__commit_end(c, NULL, NULL));
    return CHARL_OK;
}

charl_status charl__trace_gather(charl_comm *comm, const charl__text *mine, const char *path, const char *other,
                                 charl_status *written)
{
    static const char head[] = "{\"traceEvents\":[\n";
    const bool writes = charl_comm_rank(comm) == 0;
    CHARL_SCOPED(charl__commit_fini) charl__commit c = {.fd = -1};
    CHARL_SCOPED_FREE char *piece = NULL;

    *written = CHARL_OK;
    CHARL_TRY(charl_comm_agree(comm, charl__alloc(PIECE, &piece)));
    if (writes) {
        *written = charl__commit_begin(path, &c);
        *written = *written == CHARL_OK ? charl__commit_write(&c, head, sizeof head - 1) : *written;
    }
    for (int r = 0; r < charl_comm_size(comm); r++) {
        CHARL_TRY(pass(comm, r, mine, piece, &c, written));
    }
    if (writes && *written == CHARL_OK) {
        *written = end_file(&c, other);
    }
    return CHARL_OK;
}
