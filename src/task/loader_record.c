/* The values of a feed that change from step to step. */
#include "task/loader_record.h"

#include "base/alloc.h"
#include "device/device.h"

enum { DEPTH = 4, WORDS = 16 }; /* parts begin at multiples of so many words */

static int64_t stride_of(int64_t rows)
{
    return (rows + WORDS - 1) / WORDS * WORDS;
}

int64_t charl__loader_record_bytes(int64_t rows, bool mixes)
{
    return (mixes ? 4 : 2) * stride_of(rows) * (int64_t)sizeof(uint32_t);
}

charl_status charl__loader_record_create(charl_device *dev, charl_steps *steps, int64_t rows, bool mixes,
                                         charl__loader_record *r)
{
    const charl_shape shape = {1, {rows}};
    const int64_t stride = stride_of(rows), bytes = charl__loader_record_bytes(rows, mixes);
    charl_tensor **const part[4] = {&r->row, &r->weight, &r->partner, &r->share};
    charl__buffer *buffer;
    int64_t at = 0;

    if (steps && charl__steps_room(steps) >= bytes) {
        r->steps = steps;
        r->host = charl__steps_carried(steps);
        buffer = charl__steps_tensor(steps)->buffer;
        at = CHARL_STEP_WORDS;
    } else {
        CHARL_TRY(charl__alloc((size_t)bytes, &r->host));
        CHARL_TRY(charl__ring_create(dev, (size_t)bytes, DEPTH, &r->ring));
        buffer = charl__ring_buffer(r->ring);
    }
    r->rows = (int32_t *)r->host;
    r->weights = (float *)(r->host + stride);
    r->partners = mixes ? (int32_t *)(r->host + 2 * stride) : NULL;
    r->shares = mixes ? (float *)(r->host + 3 * stride) : NULL;
    for (int i = 0; i < (mixes ? 4 : 2); i++) {
        CHARL_TRY(charl__tensor_view(buffer, i % 2 ? CHARL_F32 : CHARL_I32, &shape, at + i * stride, part[i]));
    }
    return CHARL_OK;
}

void charl__loader_record_destroy(charl__loader_record *r)
{
    charl_tensor_release(r->row);
    charl_tensor_release(r->weight);
    charl_tensor_release(r->partner);
    charl_tensor_release(r->share);
    charl__ring_destroy(r->ring);
    if (!r->steps) {
        charl_free(r->host);
    }
    *r = (charl__loader_record){0};
}

charl_status charl__loader_record_push(charl__loader_record *r)
{
    return r->steps ? CHARL_OK : charl__ring_push(r->ring, r->host);
}
