/* Gradients and small sums over ranks.
 *
 * ready() only records an event behind the launches that finish a bucket, so the device keeps
 * running; begin() then takes the buckets in order: wait for the event, begin the all-reduce, help
 * with those begun before. While the host adds up one bucket the device computes the next. finish()
 * is the first that waits for other ranks.
 */
#include "train/sync.h"

#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/hash.h"
#include "train/narrow.h"

enum { MAX_BUCKETS = 256 }; /* no more ranges are on their way in an all-reduce */

typedef struct bucket {
    int64_t begin, count;
    charl_event *event; /* its lanes are where the all-reduce reads them */
    int64_t ticket;
} bucket;

/* Values on their way, as the device and as the all-reduce has them. */
typedef struct arena {
    charl_buffer *device; /* borrowed */
    unsigned char *host;
    int64_t device_stride, stride; /* of lanes */
} arena;

struct charl__sync {
    charl_comm *comm;
    charl_device *dev;
    charl_params *set;
    charl_allreduce *ar;
    charl_reducer *reducer;
    int n_lanes;
    bool in_place;         /* the device writes lanes where the all-reduce reads them ... */
    bool sum_in_place;     /* ... and reads sums where it writes them, for all ranks of the node */
    charl__narrow *narrow; /* NULL: gradients travel in f32 */
    size_t element;        /* bytes of a value on its way */
    arena lanes, sum;
    bucket bucket[MAX_BUCKETS];
    int n_buckets;
    float *small; /* lanes of a collective, then its sum */
    int64_t small_capacity;
    double waited_s;
};

/* The arenas of gradients, in the memory of the all-reduce where that is possible. */
static charl_status place_f32(charl__sync *s)
{
    const int64_t stride = charl_allreduce_stride(s->ar);
    charl_gradient_memory memory = {0};

    s->in_place = charl__device_facts(s->dev)->zero_copy && stride == s->set->gradient_elements;
    /* Shares are added up in the sum, which is this rank's own then. */
    s->sum_in_place = s->in_place && s->set->gradient_elements == s->set->elements;
    memory.lanes = s->in_place ? charl_allreduce_lanes(s->ar) : NULL;
    memory.sum = s->sum_in_place ? charl_allreduce_sum(s->ar) : NULL;
    return charl__params_allocate_gradients(s->set, s->n_lanes, false, &memory);
}

/* They are the rank's own: what travels is narrowed from them and widened to them. */
static charl_status place_bf16(charl__sync *s)
{
    charl_status st = CHARL_OK;

    s->in_place = s->sum_in_place = charl__device_facts(s->dev)->zero_copy;
    CHARL_TRY(
        charl__params_allocate_gradients(s->set, s->n_lanes, charl_comm_size(s->comm) == 1, NULL));
    CHARL_TRY(charl__narrow_create(s->set, s->n_lanes, s->ar, &s->narrow));
cleanup:
    return st;
}

static charl_status place(charl__sync *s)
{
    charl_status st = CHARL_OK;
    const int64_t stride = charl_allreduce_stride(s->ar);

    s->element = charl_dtype_size(s->set->reduce_dtype);
    CHARL_TRY(s->set->reduce_dtype == CHARL_BF16 ? place_bf16(s) : place_f32(s));
    s->lanes = (arena){.device = s->narrow ? s->narrow->lanes : s->set->grad,
                       .host = charl_allreduce_lanes(s->ar),
                       .device_stride = s->narrow ? stride : s->set->gradient_elements,
                       .stride = stride};
    s->sum = (arena){.device = s->narrow ? s->narrow->sum : s->set->sum,
                     .host = charl_allreduce_sum(s->ar)};
cleanup:
    return st;
}

charl_status charl__sync_create(charl_comm *comm, const charl_allreduce_options *options,
                                const charl_slices *slices, charl_params *set, charl__sync **out)
{
    charl_status st = CHARL_OK;
    charl__sync *s = NULL;

    *out = NULL;
    CHARL_INVARIANT(options->reduce_dtype == set->reduce_dtype);
    if (charl_comm_size(comm) == 1 && set->reduce_dtype == CHARL_F32) {
        CHARL_TRY(charl__params_allocate_gradients(set, slices->n_lanes, true, NULL));
        goto cleanup;
    }
    /* What one rank may fail at is agreed: the rest is freed by all ranks together. */
    st = charl_alloc(sizeof *s, &s);
    CHARL_TRY(charl_comm_agree(comm, st));
    s->comm = comm;
    s->set = set;
    s->dev = set->dev;
    s->n_lanes = slices->n_lanes;
    CHARL_TRY(charl_allreduce_create(comm, set->gradient_elements, slices, options, &s->ar));
    CHARL_TRY(charl_reducer_create(comm, slices, &s->reducer));
    CHARL_TRY(charl_comm_agree(comm, place(s)));
    *out = s;
    s = NULL;
cleanup:
    if (s) {
        charl__params_free_gradients(set);
    }
    charl__sync_destroy(s);
    return st;
}

charl_status charl__sync_check(charl__sync *s, const charl_graph *g)
{
    charl_status st = CHARL_OK;
    const int n = charl__graph_bucket_count(g);
    uint64_t hash;
    int64_t range[MAX_BUCKETS][2] = {{0}};

    if (!s) {
        goto cleanup;
    }
    CHARL_REQUIRE(n <= MAX_BUCKETS, CHARL_ERR_CONFIG,
                  "gradients in %d ranges, at most %d are possible: too many shared parameters", n,
                  MAX_BUCKETS);
    for (int i = 0; i < n; i++) {
        charl__graph_bucket(g, i, &range[i][0], &range[i][1]);
    }
    hash = charl__fnv1a64(range, (size_t)n * sizeof range[0]);
    CHARL_TRY(charl_comm_compare(s->comm, "the buckets of gradients", &hash, sizeof hash,
                                 CHARL_ERR_CONFIG));
cleanup:
    return st;
}

void charl__sync_destroy(charl__sync *s)
{
    if (s) {
        for (int i = 0; i < s->n_buckets; i++) {
            charl__event_release(s->bucket[i].event);
        }
        charl__narrow_destroy(s->narrow);
        charl_reducer_destroy(s->reducer);
        charl_allreduce_destroy(s->ar);
        charl_free(s->small);
        charl_free(s);
    }
}

/* Copy the lanes of a bucket to the host, behind the compute queue. */
static charl_status download(charl__sync *s, const bucket *b)
{
    charl_status st = CHARL_OK;
    charl_event *computed = NULL;

    CHARL_TRY(charl__event_record(s->dev, CHARL_QUEUE_COMPUTE, &computed));
    CHARL_TRY(charl__queue_wait(s->dev, CHARL_QUEUE_DOWNLOAD, computed));
    for (int j = 0; j < s->n_lanes; j++) {
        CHARL_TRY(charl__buffer_read(CHARL_QUEUE_DOWNLOAD, s->lanes.device,
                                     (size_t)(j * s->lanes.device_stride + b->begin) * s->element,
                                     s->lanes.host +
                                         (size_t)(j * s->lanes.stride + b->begin) * s->element,
                                     (size_t)b->count * s->element, false));
    }
cleanup:
    charl__event_release(computed);
    return st;
}

charl_status charl__sync_ready(void *ctx, int64_t begin, int64_t count)
{
    charl_status st = CHARL_OK;
    charl__sync *s = ctx;
    bucket *b;

    CHARL_INVARIANT(s->n_buckets < MAX_BUCKETS);
    b = &s->bucket[s->n_buckets];
    *b = (bucket){.begin = begin, .count = count};
    if (s->narrow) {
        CHARL_TRY(charl__narrow_lanes(s->narrow, begin, count));
    }
    if (!s->in_place) {
        CHARL_TRY(download(s, b));
    }
    CHARL_TRY(charl__event_record(s->dev, s->in_place ? CHARL_QUEUE_COMPUTE : CHARL_QUEUE_DOWNLOAD,
                                  &b->event));
    s->n_buckets++;
cleanup:
    return st;
}

charl_status charl__sync_ready_all(charl__sync *s)
{
    charl_status st = CHARL_OK;
    int64_t begin = 0, end;

    while ((end = charl__params_range(s->set, &begin, s->set->elements)) > begin) {
        CHARL_REQUIRE(s->n_buckets < MAX_BUCKETS, CHARL_ERR_CONFIG,
                      "gradients in more than %d ranges: too many shared parameters", MAX_BUCKETS);
        CHARL_TRY(charl__sync_ready(s, begin, end - begin));
        begin = end;
    }
cleanup:
    return st;
}

/* Bring the sum of a bucket to the device. */
static charl_status upload(charl__sync *s, const bucket *b)
{
    charl_status st = CHARL_OK;

    if (!s->sum_in_place) {
        const size_t at = (size_t)b->begin * s->element;

        CHARL_TRY(charl__buffer_write(CHARL_QUEUE_UPLOAD, s->sum.device, at, s->sum.host + at,
                                      (size_t)b->count * s->element, false));
    }
cleanup:
    return st;
}

charl_status charl__sync_begin(charl__sync *s)
{
    charl_status st = CHARL_OK;
    int64_t completed;

    for (int i = 0; s && i < s->n_buckets; i++) {
        CHARL_TRY(charl__event_wait(s->bucket[i].event));
        CHARL_TRY(charl_allreduce_begin(s->ar, s->bucket[i].begin, s->bucket[i].count,
                                        &s->bucket[i].ticket));
        CHARL_TRY(charl_allreduce_progress(s->ar, &completed));
    }
cleanup:
    return st;
}

static charl_status finish_buckets(charl__sync *s)
{
    charl_status st = CHARL_OK;
    charl_event *uploaded = NULL;

    for (int i = 0; i < s->n_buckets; i++) {
        const double begin = charl__clock_s();

        CHARL_TRY(charl_allreduce_wait(s->ar, s->bucket[i].ticket));
        s->waited_s += charl__clock_s() - begin;
        CHARL_TRY(upload(s, &s->bucket[i]));
    }
    if (!s->sum_in_place) {
        CHARL_TRY(charl__event_record(s->dev, CHARL_QUEUE_UPLOAD, &uploaded));
        CHARL_TRY(charl__queue_wait(s->dev, CHARL_QUEUE_COMPUTE, uploaded));
    }
    for (int i = 0; s->narrow && i < s->n_buckets; i++) {
        CHARL_TRY(charl__narrow_sum(s->narrow, s->bucket[i].begin, s->bucket[i].count));
    }
cleanup:
    charl__event_release(uploaded);
    return st;
}

charl_status charl__sync_finish(charl__sync *s)
{
    charl_status st = CHARL_OK;

    if (!s) {
        goto cleanup;
    }
    st = charl__fault("train.allreduce.skip") ? CHARL_OK : finish_buckets(s);
    for (int i = 0; i < s->n_buckets; i++) {
        charl__event_release(s->bucket[i].event);
    }
    s->n_buckets = 0;
    CHARL_TRY(st);
cleanup:
    return st;
}

charl_status charl__sync_collective(void *ctx, charl_tensor *lanes, charl_tensor *sum)
{
    charl_status st = CHARL_OK;
    charl__sync *s = ctx;
    const int64_t n = charl__tensor_count(sum), all = n * s->n_lanes;
    double begin;

    if (all > s->small_capacity) {
        CHARL_TRY(charl_realloc((size_t)all * sizeof *s->small, &s->small));
        s->small_capacity = all;
    }
    CHARL_TRY(charl_tensor_read(lanes, s->small, (size_t)all * sizeof *s->small));
    begin = charl__clock_s();
    CHARL_TRY(charl_reducer_sum(s->reducer, s->small, n, s->small));
    s->waited_s += charl__clock_s() - begin;
    CHARL_TRY(charl_tensor_write(sum, s->small, (size_t)n * sizeof *s->small));
cleanup:
    return st;
}

charl_status charl__sync_sum(charl__sync *s, const float *lanes, int64_t count, float *out)
{
    charl_status st = CHARL_OK;

    if (!s) {
        memcpy(out, lanes, (size_t)count * sizeof *out);
        goto cleanup;
    }
    CHARL_TRY(charl_reducer_sum(s->reducer, lanes, count, out));
cleanup:
    return st;
}

charl_status charl__sync_control(charl__sync *s, float *v, int count)
{
    charl_status st = CHARL_OK;
    float lanes[CHARL_MAX_LANES * 8] = {0}; /* the value in the first lane, nothing in the others */

    CHARL_INVARIANT(count <= 8);
    if (s && !charl__fault("train.control.skip")) {
        memcpy(lanes, v, (size_t)count * sizeof *v);
        CHARL_TRY(charl_reducer_sum(s->reducer, lanes, count, v));
    }
cleanup:
    return st;
}

double charl__sync_waited_s(const charl__sync *s)
{
    return s ? s->waited_s : 0.0;
}

const char *charl__sync_name(const charl__sync *s)
{
    return s ? charl_allreduce_name(s->ar) : "";
}

bool charl__sync_is_invariant(const charl__sync *s)
{
    return !s || charl_allreduce_is_invariant(s->ar);
}
