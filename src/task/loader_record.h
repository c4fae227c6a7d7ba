#ifndef CHARL_TASK_LOADER_RECORD_H
#define CHARL_TASK_LOADER_RECORD_H
/** Data that a device loader sends with every step: some values of 4 bytes per row, in one transfer, together with the step
 *  record if that has room.
 */
#include "tensor/step_params.h"

/** The parts of a record. Each row has width[part] values; 0: the loader does not send it. */
typedef enum charl__record_part {
    CHARL__RECORD_ROW,     /* i32: its number in the source */
    CHARL__RECORD_WEIGHT,  /* f32: 1, or 0 for rows past the end of the split */
    CHARL__RECORD_PARTNER, /* i32: the number of the row that is mixed in */
    CHARL__RECORD_SHARE,   /* f32: the weight of its own target */
    /* For an augmented sample: its random parameters (task/augment.h), f32. */
    CHARL__RECORD_BLEND, /* weight of its own pixels */
    CHARL__RECORD_PASTE, /* a box of the partner's pixels */
    CHARL__RECORD_CROP,
    CHARL__RECORD_ERASE,
    CHARL__RECORD_KINDS, /* i32 */
    CHARL__RECORD_AMOUNTS,
    CHARL__RECORD_PARTNER_CROP,
    CHARL__RECORD_PARTNER_ERASE,
    CHARL__RECORD_PARTNER_KINDS, /* i32 */
    CHARL__RECORD_PARTNER_AMOUNTS,
    CHARL__RECORD_PARTS
} charl__record_part;

typedef struct charl__loader_record {
    charl_steps *steps;                      /* borrowed; its records carry the values; or NULL: ... */
    charl__ring *ring;                       /* ... they are transferred separately */
    uint32_t *host;                          /* the next record */
    int32_t *ints[CHARL__RECORD_PARTS];      /* in it, [rows, width]: one of these two ... */
    float *floats[CHARL__RECORD_PARTS];      /* ... per part; NULL: not sent */
    charl_tensor *part[CHARL__RECORD_PARTS]; /* on the device: [rows], or [rows, width] */
} charl__loader_record;

/** Bytes that the values of `rows` rows take. */
int64_t charl__loader_record_bytes(int64_t rows, const int *width);
/** steps may be NULL. r must be zeroed; destroy it even after a failure. Errors: ERR_NOMEM,
 *  ERR_DEVICE. */
charl_status charl__loader_record_create(charl_device *dev, charl_steps *steps, int64_t rows, const int *width,
                                         charl__loader_record *r) CHARL_MUST_CHECK;
void charl__loader_record_destroy(charl__loader_record *r);
/** The values are complete: send them to the commands enqueued from now on, or with the next step record.
 *  Async. */
charl_status charl__loader_record_push(charl__loader_record *r) CHARL_MUST_CHECK;

#endif
