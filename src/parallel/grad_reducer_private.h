#ifndef CHARL_PARALLEL_GRAD_REDUCER_PRIVATE_H
#define CHARL_PARALLEL_GRAD_REDUCER_PRIVATE_H
/** Shared by grad_reducer.c and grad_reducer_chunks.c: chunks of gradients in flight through the host. */
#include "parallel/grad_compress.h"
#include "parallel/grad_reducer.h"

enum {
    MAX_BUCKETS = 256,
    CUTS = 128,                             /* maximum number of chunks beyond the number of buckets */
    LOTS = 128,                             /* of tensors that are assigned to ranks: no chunk has parts of two */
    MAX_CHUNKS = MAX_BUCKETS + CUTS + LOTS, /* an all-reduce has room for as many ranges in flight */
    CHUNK_VALUES = 1 << 20                  /* at least, unless a bucket is smaller */
};

typedef struct charl__chunk {
    int64_t begin, count;
    charl__event *computed; /* of the first chunk of a bucket: the device is done with the bucket */
    int64_t bucket;         /* ... and its values; else 0 */
    charl__event *copied;   /* lanes are on the host; NULL: they need no copy */
    int64_t ticket;
    double begun; /* charl__trace_begin */
} charl__chunk;

/** Elements of a chunk of so many gradients, at most: whole blocks, as ranks may divide each chunk among them and keep the state of their part.
 *  Local. */
static inline int64_t charl__chunk_longest(int64_t gradients)
{
    const int64_t n = charl__param_round(gradients / CUTS + 1);

    return n > CHUNK_VALUES ? n : CHUNK_VALUES;
}

/* Values in flight, in the device's and the all-reduce's memory. */
typedef struct charl__lane_arena {
    charl__buffer *device; /* borrowed */
    unsigned char *host;
    int64_t device_stride, stride; /* of lanes */
} charl__lane_arena;

struct charl__grad_reducer {
    charl_comm *comm;
    charl_device *dev;
    charl_params *set;
    charl_allreduce *ar;
    charl_reducer *reducer;
    int n_lanes;
    bool on_device;               /* the devices do the additions, the host copies and waits for nothing */
    bool is_beside[MAX_BUCKETS];  /* ... for this bucket of a step during the backward pass */
    int n_ready;                  /* ... number of this step's buckets passed to them */
    int64_t last_ticket;          /* ... of what they were given; -1: nothing yet */
    bool in_place;                /* the device writes lanes where the all-reduce reads them ... */
    bool sum_in_place;            /* ... and reads sums where it writes them, for all ranks of the node */
    bool scatters;                /* sums are this rank's parts of the first lane */
    bool shares_values;           /* the parameters are in the memory of the all-reduce */
    charl__grad_compress *narrow; /* NULL: gradients are transferred in f32 */
    size_t element;               /* bytes of a transferred value */
    charl__lane_arena lanes, sum;
    charl_pinned *pinned_lanes, *pinned_sum;
    charl__chunk chunk[MAX_CHUNKS];
    int n_chunks, n_begun, n_summed; /* sums are in flight to the device, too */
    int64_t longest;                 /* chunk */
    float *small;                    /* lanes of a collective, then its sum */
    int64_t small_capacity;
    double begun_s, computed_s; /* this step: the first bucket, the last bucket */
    double busy_s, waited_s;
    int n_unseen; /* steps of devices that do the additions, since the host last checked */
};

/** The commands in the compute queue finish a bucket: divide it into chunks, and copy them
 *  to the host if necessary. Async. */
charl_status charl__chunks_ready(charl__grad_reducer *s, int64_t begin, int64_t count) CHARL_MUST_CHECK;

/** Wait for the sums begun; the device sees them. Collective. */
charl_status charl__chunks_finish(charl__grad_reducer *s) CHARL_MUST_CHECK;
void charl__chunks_forget(charl__grad_reducer *s);

#endif
