#ifndef CHARL_BASE_TRACE_H
#define CHARL_BASE_TRACE_H
/** Spans of time: the activities of a rank, its device and its helpers, which may overlap.
 *
 *      const double begun = charl__trace_begin(t);                        -1 unless t records
 *      ... work ...
 *      charl__trace_end(t, CHARL__LANE_HOST, "data", "", 0, begun);       no effect for -1
 *
 *  Texts are copied. A span for which there is no memory is counted as lost: tracing never makes the traced work fail. t may be NULL
 *  everywhere: nothing is recorded. Thread-safe except for the functions that read, which are called while nothing is recorded.
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

/* id, name on the timeline */
#define CHARL__LANE_LIST(X)                                                                                            \
    X(HOST, "host")                                                                                                    \
    X(INPUT, "input")                                                                                                  \
    X(SUMS, "small sums")                                                                                              \
    X(ALLREDUCE, "all-reduce")                                                                                         \
    X(COMPUTE, "compute")                                                                                              \
    X(UPLOAD, "upload")                                                                                                \
    X(DOWNLOAD, "download")                                                                                            \
    X(COMMUNICATE, "communicate")

typedef enum charl__lane {
#define X(id, name) CHARL__LANE_##id,
    CHARL__LANE_LIST(X)
#undef X
        CHARL__LANE_COUNT
} charl__lane;

/** Static storage. */
const char *charl__lane_name(charl__lane lane);

typedef struct charl__trace_span {
    charl__lane lane;
    int name, label;       /* charl__trace_text: of kernels the kernel and the layer */
    double begin_s, end_s; /* charl__clock_s */
    double bytes, flop;    /* moved, computed; 0: not known */
    bool is_aside;         /* outside of steps: evaluation, checkpoint */
} charl__trace_span;

typedef struct charl__trace charl__trace;

/** Owned. Errors: ERR_NOMEM. */
charl_status charl__trace_create(charl__trace **out) CHARL_MUST_CHECK;
void charl__trace_destroy(charl__trace *t);

/** Clear everything and start recording; stop recording. */
void charl__trace_start(charl__trace *t);
void charl__trace_stop(charl__trace *t);
bool charl__trace_is_on(const charl__trace *t);
/** Whether the following spans are outside of steps. */
void charl__trace_set_aside(charl__trace *t, bool aside);
bool charl__trace_is_aside(const charl__trace *t);

double charl__trace_begin(const charl__trace *t);
void charl__trace_end(charl__trace *t, charl__lane lane, const char *name, const char *label, double bytes,
                      double begun);

/** The number of a text; -1 when there is no memory. */
int charl__trace_number(charl__trace *t, const char *text);
/** Add a span, even while t does not record; one without a name is lost. */
void charl__trace_add(charl__trace *t, const charl__trace_span *span);

int64_t charl__trace_count(const charl__trace *t);
const charl__trace_span *charl__trace_at(const charl__trace *t, int64_t i);
const char *charl__trace_text(const charl__trace *t, int number);
int charl__trace_texts(const charl__trace *t); /* numbers go from 0 to this */
int64_t charl__trace_lost(const charl__trace *t);

#endif
