/* Gradients in flight through the host, in chunks.
 *
 * A chunk's lanes are computed where the all-reduce reads them, or copied there; its sums are
 * written where the device reads them, or copied there.
 */
#include "parallel/grad_reducer_private.h"

#include "base/clock.h"
#include "base/fault.h"
#include "dist/allreduce/parts.h"

enum { POLLS = 100 }; /* before the host sleeps between looks */

static const double nap_s = 50e-6;

void charl__chunks_forget(charl__grad_reducer *s)
{
    for (int i = 0; i < s->n_chunks; i++) {
        charl__event_release(s->chunk[i].computed);
        charl__event_release(s->chunk[i].copied);
    }
    s->n_chunks = s->n_begun = s->n_summed = 0;
}

/* Copy the lanes of a chunk to the host. */
static charl_status download(charl__grad_reducer *s, charl__chunk *c)
{
    for (int j = 0; j < s->n_lanes; j++) {
        CHARL_TRY(charl__buffer_read(CHARL_QUEUE_DOWNLOAD, s->lanes.device,
                                     (size_t)(j * s->lanes.device_stride + c->begin) * s->element,
                                     s->lanes.host + (size_t)(j * s->lanes.stride + c->begin) * s->element,
                                     (size_t)c->count * s->element, false));
    }
    CHARL_TRY(charl__event_record(s->dev, CHARL_QUEUE_DOWNLOAD, &c->copied));
    return CHARL_OK;
}

charl_status charl__chunks_ready(charl__grad_reducer *s, int64_t begin, int64_t count)
{
    const int first = s->n_chunks;

    if (s->narrow) {
        CHARL_TRY(charl__grad_compress_lanes(s->narrow, begin, count));
    }
    for (int64_t at = 0, n; at < count; at += n) {
        charl__chunk *c = &s->chunk[s->n_chunks];

        CHARL_INVARIANT(s->n_chunks < MAX_CHUNKS);
        n = charl__grad_reducer_piece(s, begin + at, count - at);
        *c = (charl__chunk){.begin = begin + at, .count = n};
        s->n_chunks++;
        if (at == 0) {
            c->bucket = count;
            CHARL_TRY(charl__event_record(s->dev, CHARL_QUEUE_COMPUTE, &c->computed));
        }
        if (!s->in_place) {
            CHARL_TRY(charl__queue_wait(s->dev, CHARL_QUEUE_DOWNLOAD, s->chunk[first].computed));
            CHARL_TRY(download(s, c));
        }
    }
    return CHARL_OK;
}

static charl_status upload_values(charl__grad_reducer *s, int64_t begin, int64_t count)
{
    const size_t at = (size_t)begin * s->element, bytes = (size_t)count * s->element;

    return bytes == 0 ? CHARL_OK
                      : charl__buffer_write(CHARL_QUEUE_UPLOAD, s->sum.device, at, s->sum.host + at, bytes, false);
}

/* Copy completed sums to the device: those of ranges before `completed`. */
static charl_status upload(charl__grad_reducer *s, int64_t completed)
{
    for (; s->n_summed < s->n_begun && s->chunk[s->n_summed].ticket < completed; s->n_summed++) {
        const charl__chunk *c = &s->chunk[s->n_summed];

        charl__trace_end(charl__device_trace(s->dev), CHARL__LANE_ALLREDUCE, "gradients", "",
                         (double)c->count * (double)s->element, c->begun);
        if (!s->sum_in_place) {
            int64_t from = 0, to = c->count;
            int part;

            if (s->scatters) {
                (void)charl__allreduce_parts(s->ar, &part);
                charl__allreduce_part(s->ar, c->begin, c->count, part, &from, &to);
            }
            CHARL_TRY(upload_values(s, c->begin + from, to - from));
        }
    }
    return CHARL_OK;
}

/* Make progress on the ranges in flight without waiting. */
static charl_status help(charl__grad_reducer *s)
{
    int64_t completed = 0;

    CHARL_TRY(charl__allreduce_progress(s->ar, &completed));
    CHARL_TRY(upload(s, completed));
    return CHARL_OK;
}

/* Wait for the device; make progress while ranges are in flight. */
static charl_status wait_helping(charl__grad_reducer *s, const charl__event *e)
{
    bool done = false;

    for (int polls = 0; s->n_summed < s->n_begun; polls++) {
        CHARL_TRY(charl__event_is_done(e, &done));
        if (done) {
            break;
        }
        CHARL_TRY(help(s));
        charl__sleep_s(polls < POLLS ? 0 : nap_s);
    }
    CHARL_TRY(charl__event_wait(e));
    return CHARL_OK;
}

charl_status charl__grad_reducer_begin(charl__grad_reducer *s)
{
    if (s && charl__fault("train.allreduce.skip")) {
        charl__chunks_forget(s);
    }
    for (int i = 0; s && i < s->n_chunks; i++) {
        charl__chunk *c = &s->chunk[i];

        if (c->computed) {
            CHARL_TRY(wait_helping(s, c->computed));
            s->computed_s = charl__clock_s();
            s->begun_s = i == 0 ? s->computed_s : s->begun_s;
        }
        if (c->copied) {
            CHARL_TRY(wait_helping(s, c->copied));
        }
        if (s->shares_values && i == s->n_chunks - 1) {
            CHARL_TRY(charl_device_sync(s->dev));
        }
        c->begun = charl__trace_begin(charl__device_trace(s->dev));
        CHARL_TRY(charl_allreduce_begin(s->ar, c->begin, c->count, &c->ticket));
        s->n_begun++;
        CHARL_TRY(help(s));
    }
    return CHARL_OK;
}

/* The device uses the sums next; the host waits too, because otherwise it could not measure the time. */
static charl_status end_uploads(charl__grad_reducer *s)
{
    CHARL_SCOPED(charl__event_left) charl__event *uploaded = NULL;

    if (!s->sum_in_place) {
        CHARL_TRY(charl__event_record(s->dev, CHARL_QUEUE_UPLOAD, &uploaded));
        CHARL_TRY(charl__queue_wait(s->dev, CHARL_QUEUE_COMPUTE, uploaded));
        CHARL_TRY(charl__event_wait(uploaded));
    }
    return CHARL_OK;
}

/* Communication is exposed from the moment when the device has computed the last bucket. */
charl_status charl__chunks_finish(charl__grad_reducer *s)
{
    double now;

    while (s->n_summed < s->n_begun) {
        const int64_t ticket = s->chunk[s->n_summed].ticket;

        CHARL_TRY(charl_allreduce_wait(s->ar, ticket));
        CHARL_TRY(upload(s, ticket + 1));
    }
    CHARL_TRY(end_uploads(s));
    for (int i = 0; s->narrow && i < s->n_chunks; i++) {
        if (s->chunk[i].bucket > 0) {
            CHARL_TRY(charl__grad_compress_sum(s->narrow, s->chunk[i].begin, s->chunk[i].bucket));
        }
    }
    now = charl__clock_s();
    s->busy_s += s->n_chunks > 0 ? now - s->begun_s : 0;
    s->waited_s += s->n_chunks > 0 ? now - s->computed_s : 0;
    return CHARL_OK;
}
