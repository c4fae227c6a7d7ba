/* The values of a device loader that change with every step. */
#include "task/loader_record.h"

#include "base/alloc.h"
#include "device/device.h"

enum { DEPTH = 4, WORDS = 16 }; /* parts begin at multiples of so many words */

static int64_t stride_of(int64_t rows, int width)
{
    return (rows * width + WORDS - 1) / WORDS * WORDS;
}

int64_t charl__loader_record_bytes(int64_t rows, const int *width)
{
    int64_t words = 0;

    for (int i = 0; i < CHARL__RECORD_PARTS; i++) {
        words += stride_of(rows, width[i]);
    }
    return words * (int64_t)sizeof(uint32_t);
}

charl_status charl__loader_record_create(charl_device *dev, charl_steps *steps, int64_t rows, const int *width,
                                         charl__loader_record *r)
{
    const int64_t bytes = charl__loader_record_bytes(rows, width);
    charl__buffer *buffer;
    uint32_t *host;
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
    host = r->host;
    for (int i = 0; i < CHARL__RECORD_PARTS; i++) {
        const bool counts = i == CHARL__RECORD_ROW || i == CHARL__RECORD_PARTNER || i == CHARL__RECORD_KINDS ||
                            i == CHARL__RECORD_PARTNER_KINDS;
        const charl_shape shape = {width[i] > 1 ? 2 : 1, {rows, width[i]}};

        if (width[i] > 0) {
            r->ints[i] = counts ? (int32_t *)host : NULL;
            r->floats[i] = counts ? NULL : (float *)host;
            CHARL_TRY(charl__tensor_view(buffer, counts ? CHARL_I32 : CHARL_F32, &shape, at, &r->part[i]));
        }
        host += stride_of(rows, width[i]);
        at += stride_of(rows, width[i]);
    }
    return CHARL_OK;
}

void charl__loader_record_destroy(charl__loader_record *r)
{
    for (int i = 0; i < CHARL__RECORD_PARTS; i++) {
        charl_tensor_release(r->part[i]);
    }
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
