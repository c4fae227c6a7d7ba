#ifndef CHARL_TASK_LOADER_RECORD_H
#define CHARL_TASK_LOADER_RECORD_H
/** What a feed sends with every step: up to four values of 4 bytes per row, in one transfer, with
 *  the step record where that has room.
 */
#include "tensor/step_params.h"

typedef struct charl__loader_record {
    charl_steps *steps;       /* borrowed; its records carry the values; or NULL: ... */
    charl__ring *ring;        /* ... they travel by themselves */
    uint32_t *host;           /* the next record */
    int32_t *rows, *partners; /* in it */
    float *weights, *shares;
    charl_tensor *row, *weight, *partner, *share; /* on the device; the last two only for mixing */
} charl__loader_record;

/** Bytes that the values of `rows` rows take. */
int64_t charl__loader_record_bytes(int64_t rows, bool mixes);
/** steps may be NULL. r is zeroed before; destroy it also after a failure. Errors: ERR_NOMEM,
 *  ERR_DEVICE. */
charl_status charl__loader_record_create(charl_device *dev, charl_steps *steps, int64_t rows, bool mixes,
                                         charl__loader_record *r) CHARL_MUST_CHECK;
void charl__loader_record_destroy(charl__loader_record *r);
/** The values are complete: they reach what is enqueued from now on, or with the next step record.
 *  Async. */
charl_status charl__loader_record_push(charl__loader_record *r) CHARL_MUST_CHECK;

#endif
