/* Overlaps the all-reduce of gradients with the backward pass; small sums over ranks.
 *
 *     ready()    called when the last kernel of a bucket is enqueued; records an event and enqueues downloads, never blocks
 *     begin()    for each chunk, in order: waits for its lanes and starts its all-reduce; meanwhile helps with
 *                earlier chunks and uploads finished ones
 *     finish()   waits for the other ranks
 *
 * Every rank divides buckets into the same chunks, whether or not it copies through the host.
 *
 * If the devices do the additions, ready() enqueues the all-reduce of a bucket, finish()
 * orders later launches after it on the device, and verify() tells the host about lost ranks.
 * Such an all-reduce uses few compute units while the backward pass still has a fraction of its work
 * as large as the bucket's fraction of all gradients; the ones at the end use all units.
 */
#include "parallel/grad_reducer_private.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/numeric/hash.h"
#include "base/log.h"
#include "dist/allreduce/allreduce_device.h"
#include "dist/allreduce/parts.h"
#include "dist/consensus.h"

enum { MOST_BUCKETS = 48 };
static const double SETTLE_S = 2, SETTLE_NAP_S = 1e-3;

/* For transfers at full speed; without it they are slow but correct. */
static void pin(charl__grad_reducer *s, void *memory, int64_t count, charl_pinned **out)
{
    if (charl__pinned_wrap(s->dev, memory, (size_t)count * s->element, out) != CHARL_OK) {
        charl__log(CHARL_LOG_WARN, "gradients are copied at lower speed: %s", charl_error_message());
    }
}

/* Allocate the gradient arenas, in the memory of the all-reduce if possible. */
static charl_status place_f32(charl__grad_reducer *s)
{
    const int64_t stride = charl__allreduce_stride(s->ar);
    charl__gradient_memory memory = {0};

    s->in_place = charl__device_facts_get(s->dev)->zero_copy && stride == s->set->gradient_elements;
    /* Shares are added up in the sum, which is then this rank's own. */
    s->sum_in_place = s->in_place && (s->scatters || s->set->gradient_elements == s->set->elements);
    memory.lanes = s->in_place ? charl__allreduce_lanes(s->ar) : NULL;
    memory.sum = s->sum_in_place ? charl__allreduce_sum(s->ar) : NULL;
    s->on_device = charl__allreduce_buffers(s->ar, &memory.lanes_buffer, &memory.sum_buffer);
    CHARL_INVARIANT(!s->on_device || stride == s->set->gradient_elements || s->set->gradient_elements == 0);
    return charl__params_allocate_gradients(s->set, s->n_lanes, s->scatters, &memory);
}

/* They are the rank's own; the transferred data are converted from and to them. */
static charl_status place_bf16(charl__grad_reducer *s)
{
    charl__buffer *lanes, *sum;

    s->in_place = s->sum_in_place = charl__device_facts_get(s->dev)->zero_copy;
    s->on_device = charl__allreduce_buffers(s->ar, &lanes, &sum);
    CHARL_TRY(charl__params_allocate_gradients(s->set, s->n_lanes, s->scatters || charl_comm_size(s->comm) == 1, NULL));
    CHARL_TRY(charl__grad_compress_create(s->set, s->n_lanes, s->ar, &s->narrow));
    return CHARL_OK;
}

static charl_status place(charl__grad_reducer *s)
{
    const int64_t stride = charl__allreduce_stride(s->ar);

    s->element = charl_dtype_size(s->set->reduce_dtype);
    CHARL_TRY(s->set->reduce_dtype == CHARL_BF16 ? place_bf16(s) : place_f32(s));
    s->lanes = (charl__lane_arena){.device = s->narrow ? s->narrow->lanes : s->set->grad,
                                   .host = charl__allreduce_lanes(s->ar),
                                   .device_stride = s->narrow ? stride : s->set->gradient_elements,
                                   .stride = stride};
    if (charl__allreduce_gathered(s->ar) && charl__device_facts_get(s->dev)->zero_copy) {
        s->shares_values = true;
        CHARL_TRY(charl__params_move(s->set, charl__allreduce_gathered(s->ar)));
    }
    s->sum =
        (charl__lane_arena){.device = s->narrow ? s->narrow->sum : s->set->sum, .host = charl__allreduce_sum(s->ar)};
    /* Ranks that are threads share one copy of the sum, so one process would pin the same
     * pages for a context of each. Some of such jobs on an H200 lost their contexts there. */
    if (!charl__device_facts_get(s->dev)->zero_copy && !s->on_device && !charl_comm_is_team(s->comm)) {
        pin(s, s->lanes.host, s->n_lanes * stride, &s->pinned_lanes);
        if (s->sum.host != s->lanes.host) {
            pin(s, s->sum.host, stride, &s->pinned_sum);
        }
    }
    s->longest = charl__chunk_longest(s->set->gradient_elements);
    return CHARL_OK;
}

charl_status charl__grad_reducer_create(charl_comm *comm, const charl_allreduce_options *options,
                                        const charl_slices *slices, charl_params *set, const charl__owners *owners,
                                        charl__grad_reducer **out)
{
    charl_status st = CHARL_OK;
    charl__grad_reducer *s = NULL;
    charl_allreduce_options wanted = *options;

    *out = NULL;
    wanted.device = set->dev;
    CHARL_INVARIANT(options->reduce_dtype == set->reduce_dtype);
    if (charl_comm_size(comm) == 1 && set->reduce_dtype == CHARL_F32) {
        CHARL_TRY_CLEANUP(charl__params_allocate_gradients(set, slices->n_lanes, true, NULL));
        goto cleanup;
    }
    /* Failures of one rank are agreed on: all ranks then free the rest together. */
    st = charl__alloc(sizeof *s, &s);
    CHARL_TRY_CLEANUP(charl_comm_agree(comm, st));
    s->comm = comm;
    s->set = set;
    s->dev = set->dev;
    s->n_lanes = slices->n_lanes;
    s->last_ticket = -1;
    s->scatters = wanted.scatters;
    CHARL_TRY_CLEANUP(charl__allreduce_create_with(comm, set->gradient_elements, slices, &wanted,
                                                   wanted.gathers ? set->value : NULL, owners, &s->ar));
    CHARL_TRY_CLEANUP(charl_reducer_create(comm, slices, &s->reducer));
    CHARL_TRY_CLEANUP(charl_comm_agree(comm, place(s)));
    *out = s;
    s = NULL;
cleanup:
    if (s) {
        charl__params_free_gradients(set);
        if (s->shares_values) {
            charl__params_free_values(set); /* there will be no training */
        }
    }
    charl__grad_reducer_destroy(s);
    return charl__comm_agreed(comm, st);
}

int64_t charl__grad_reducer_bucket(const charl_params *set, double mb)
{
    const int64_t least = (set->elements + MOST_BUCKETS - 1) / MOST_BUCKETS;
    const int64_t wanted = (int64_t)(mb * 1048576.0 / sizeof(float));
    const int64_t bucket = wanted > least ? wanted : least;

    return bucket > 0 ? bucket : 1;
}

/* For charl__grad_reducer_ready_all. */
static int count_ranges(const charl_params *set, int64_t bucket)
{
    int64_t begin = 0, end;
    int n = 0;

    for (; (end = charl__params_range(set, &begin, bucket)) > begin; begin = end) {
        n++;
    }
    return n;
}

/* The buckets that g reports, for comparison between ranks. */
static charl_status add_buckets(const charl__grad_reducer *s, const charl_graph *g, int64_t bucket,
                                charl__consensus *facts, int64_t range[MAX_BUCKETS][2])
{
    const int n = charl__graph_bucket_count(g); /* 0 with gradient accumulation */
    char text[64];

    CHARL_REQUIRE((n > 0 ? n : count_ranges(s->set, bucket)) <= MAX_BUCKETS, CHARL_ERR_CONFIG,
                  "gradients in more than %d ranges: a weight is used too many times", MAX_BUCKETS);
    for (int i = 0; i < n; i++) {
        charl__graph_bucket(g, i, &range[i][0], &range[i][1]);
    }
    snprintf(text, sizeof text, "%d, digest %016llx", n,
             (unsigned long long)charl__fnv1a64(range, (size_t)n * sizeof range[0]));
    CHARL_TRY(charl__consensus_add(
        facts, &(charl__fact){.status = CHARL_ERR_CONFIG, .label = "buckets of gradients", .value = text}));
    snprintf(text, sizeof text, "digest %016llx", (unsigned long long)charl__graph_gather_digest(g));
    return charl__consensus_add(facts, &(charl__fact){.status = CHARL_ERR_CONFIG,
                                                      .label = "order in which parameters are gathered",
                                                      .value = text,
                                                      .hint = "shard gradients instead, or use devices of one kind"});
}

charl_status charl__grad_reducer_check(charl__grad_reducer *s, const charl_graph *g, int64_t bucket)
{
    charl_status st = CHARL_OK;
    charl__consensus facts = {0};
    int64_t range[MAX_BUCKETS][2] = {{0}};

    if (!s) {
        goto cleanup;
    }
    st = add_buckets(s, g, bucket, &facts, range);
    CHARL_TRY_CLEANUP(charl__consensus_reach(&facts, st, s->comm));
    /* One rank decides, because with other slices or another device a graph has other launches. */
    for (int i = 0; i < charl__graph_bucket_count(g); i++) {
        s->is_beside[i] = (double)range[i][1] <= charl__graph_bucket_left(g, i) * (double)s->set->gradient_elements;
    }
    CHARL_TRY_CLEANUP(charl_comm_broadcast(s->comm, s->is_beside, sizeof s->is_beside, 0));
cleanup:
    charl__consensus_fini(&facts);
    return st;
}

void charl__grad_reducer_destroy(charl__grad_reducer *s)
{
    if (s) {
        charl__chunks_forget(s);
        charl_pinned_destroy(s->pinned_lanes);
        charl_pinned_destroy(s->pinned_sum);
        charl__grad_compress_destroy(s->narrow);
        charl_reducer_destroy(s->reducer);
        charl_allreduce_destroy(s->ar);
        charl_free(s->small);
        charl_free(s);
    }
}

/* The host may be ahead of the device by more ranges than can be in flight. */
static charl_status make_room(charl__grad_reducer *s)
{
    int64_t completed = 0;

    CHARL_TRY(charl__allreduce_progress(s->ar, &completed));
    if (s->last_ticket - completed >= MAX_BUCKETS - 1) {
        CHARL_TRY(charl_allreduce_wait(s->ar, completed));
    }
    return CHARL_OK;
}

charl_status charl__grad_reducer_ready(void *ctx, int64_t begin, int64_t count)
{
    charl__grad_reducer *s = ctx;

    if (s->on_device) {
        charl__allreduce_share(s->ar, s->n_ready < MAX_BUCKETS && s->is_beside[s->n_ready]);
        s->n_ready++;
        if (s->narrow) {
            CHARL_TRY(charl__grad_compress_lanes(s->narrow, begin, count));
        }
        CHARL_TRY(make_room(s));
        return charl_allreduce_begin(s->ar, begin, count, &s->last_ticket);
    }
    CHARL_TRY(charl__chunks_ready(s, begin, count));
    return CHARL_OK;
}

charl_status charl__grad_reducer_ready_all(charl__grad_reducer *s, int64_t bucket)
{
    int64_t begin = 0, end;

    while ((end = charl__params_range(s->set, &begin, bucket)) > begin) {
        CHARL_TRY(charl__grad_reducer_ready(s, begin, end - begin));
        begin = end;
    }
    return CHARL_OK;
}

charl_status charl__grad_reducer_wait(charl__grad_reducer *s, int64_t ticket)
{
    const double begin = charl__clock_s(), begun = charl__trace_begin(charl__device_trace(s->dev));
    double waited;

    CHARL_TRY(charl_allreduce_wait(s->ar, ticket));
    charl__trace_end(charl__device_trace(s->dev), CHARL__LANE_ALLREDUCE, "parameters", "", 0, begun);
    waited = charl__clock_s() - begin;
    s->waited_s += waited;
    s->busy_s += waited;
    return CHARL_OK;
}

bool charl__grad_reducer_gathers_in_place(const charl__grad_reducer *s)
{
    return charl__allreduce_gathers_in_place(s->ar);
}

charl_status charl__grad_reducer_gather(charl__grad_reducer *s, const charl__param_range *range, int n)
{
    charl__allreduce_share(s->ar, false);
    for (int i = 0; i < n; i++) {
        CHARL_TRY(make_room(s));
        CHARL_TRY(charl__allreduce_gather(s->ar, range[i].begin, range[i].count, &s->last_ticket));
    }
    CHARL_TRY(charl__allreduce_join(s->ar));
    s->n_unseen += s->n_unseen == 0;
    return CHARL_OK;
}

/* On several nodes: exchange gradients while the device computes, then wait for the rest. */
static charl_status join(charl__grad_reducer *s)
{
    const bool waits = charl__allreduce_join_waits(s->ar);
    double begin, waited;

    if (waits) {
        CHARL_TRY(charl__allreduce_exchange(s->ar));
    }
    begin = charl__clock_s();
    CHARL_TRY(charl__allreduce_join(s->ar));
    if (waits) {
        waited = charl__clock_s() - begin;
        s->waited_s += waited;
        s->busy_s += waited;
    }
    return CHARL_OK;
}

charl_status charl__grad_reducer_finish(charl__grad_reducer *s)
{
    charl_status st = CHARL_OK;

    if (!s) {
        return st;
    }
    if (s->on_device) {
        s->n_ready = 0;
        CHARL_TRY(join(s));
        if (s->narrow) {
            CHARL_TRY(charl__grad_compress_sum(s->narrow, 0, s->set->gradient_elements));
        }
        s->n_unseen++;
        return st;
    }
    st = charl__chunks_finish(s);
    charl__chunks_forget(s);
    CHARL_TRY(st);
    return CHARL_OK;
}

/* An event that is recorded after the last sum would be seen too late: the host of an NVIDIA GPU
 * sees events in the order in which commands were enqueued, whatever their queues. */
charl_status charl__grad_reducer_verify(charl__grad_reducer *s)
{
    double begin, waited;

    if (s && s->n_unseen > 0) { /* computing may take any time; the rest has a deadline */
        const charl__event *written = charl__allreduce_written(s->ar);

        if (written) {
            CHARL_TRY(charl__event_wait(written));
        }
        begin = charl__clock_s();
        CHARL_TRY(charl_allreduce_wait(s->ar, s->last_ticket));
        waited = (charl__clock_s() - begin) * s->n_unseen; /* this step stands for all */
        s->waited_s += waited;
        s->busy_s += waited;
        s->n_unseen = 0;
    }
    return CHARL_OK;
}

charl_status charl__grad_reducer_settle(charl__grad_reducer *s)
{
    const double begin = charl__clock_s();
    CHARL_SCOPED(charl__event_left) charl__event *e = NULL;
    bool is_done = !s || !s->on_device;

    if (is_done) {
        return CHARL_OK;
    }
    CHARL_TRY(charl__event_record(s->dev, CHARL_QUEUE_COMPUTE, &e));
    while (!is_done && charl__clock_s() - begin < SETTLE_S) {
        CHARL_TRY(charl__event_is_done(e, &is_done));
        charl__sleep_s(is_done ? 0 : SETTLE_NAP_S);
    }
    CHARL_REQUIRE(is_done && charl__allreduce_is_intact(s->ar), CHARL_ERR_COMM,
                  "the device has not completed the sums of the last step");
    return CHARL_OK;
}

charl_status charl__grad_reducer_collective(void *ctx, charl_tensor *lanes, charl_tensor *sum)
{
    charl__grad_reducer *s = ctx;
    const int64_t n = charl__tensor_count(sum), all = n * s->n_lanes;
    double begin, waited, begun;

    if (all > s->small_capacity) {
        CHARL_TRY(charl__realloc((size_t)all * sizeof *s->small, &s->small));
        s->small_capacity = all;
    }
    CHARL_TRY(charl_tensor_read(lanes, s->small, (size_t)all * sizeof *s->small));
    begin = charl__clock_s();
    begun = charl__trace_begin(charl__device_trace(s->dev));
    CHARL_TRY(charl_reducer_sum(s->reducer, s->small, n, s->small));
    charl__trace_end(charl__device_trace(s->dev), CHARL__LANE_SUMS, "batch statistics", "", (double)n * sizeof(float),
                     begun);
    waited = charl__clock_s() - begin;
    s->waited_s += waited;
    s->busy_s += waited;
    CHARL_TRY(charl_tensor_write(sum, s->small, (size_t)n * sizeof *s->small));
    return CHARL_OK;
}

charl_status charl__grad_reducer_sum(charl__grad_reducer *s, const float *lanes, int64_t count, float *out)
{
    if (!s) {
        memcpy(out, lanes, (size_t)count * sizeof *out);
        return CHARL_OK;
    }
    CHARL_TRY(charl_reducer_sum(s->reducer, lanes, count, out));
    return CHARL_OK;
}

charl_status charl__grad_reducer_control(charl__grad_reducer *s, float *v, int count)
{
    float lanes[CHARL_MAX_LANES * 8] = {0}; /* the value in the first lane, zeros in the others */

    CHARL_INVARIANT(count <= 8);
    if (s && !charl__fault("train.control.skip")) {
        const double begun = charl__trace_begin(charl__device_trace(s->dev));

        memcpy(lanes, v, (size_t)count * sizeof *v);
        CHARL_TRY(charl_reducer_sum(s->reducer, lanes, count, v));
        charl__trace_end(charl__device_trace(s->dev), CHARL__LANE_SUMS, "control", "", 0, begun);
    }
    return CHARL_OK;
}

int64_t charl__grad_reducer_piece(const charl__grad_reducer *s, int64_t begin, int64_t count)
{
    const int64_t n = s->on_device || count < s->longest ? count : s->longest;

    return s->scatters ? charl__allreduce_uncut(s->ar, begin, n) : n;
}

charl_allreduce *charl__grad_reducer_allreduce(const charl__grad_reducer *s)
{
    return s->ar;
}

bool charl__grad_reducer_shares_values(const charl__grad_reducer *s)
{
    return s && s->shares_values;
}

charl__grad_reducer_info charl__grad_reducer_get_info(const charl__grad_reducer *s)
{
    return s ? (charl__grad_reducer_info){.name = charl__allreduce_get_name(s->ar),
                                          .is_invariant = charl__allreduce_is_invariant(s->ar),
                                          .busy_s = s->busy_s,
                                          .waited_s = s->waited_s}
             : (charl__grad_reducer_info){.name = "", .is_invariant = true};
}
