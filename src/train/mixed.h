#ifndef CHARL_TRAIN_MIXED_H
#define CHARL_TRAIN_MIXED_H
/** Ranks whose devices are not of one model and driver: their results differ by roundings, so
 * replicas would drift apart. Rank 0's parameters and running statistics are the others' too, after
 * every step; its optimizer's state is the one that is saved. Sums over the batch need nothing:
 * every rank reads the same.
 */
#include <stdbool.h>

#include "charl/status.h"

enum { CHARL__MODELS_BYTES = 512 };

typedef struct charl__mixed {
    bool on;
    char models[CHARL__MODELS_BYTES]; /* "A + B": the devices' names, each once, by first rank */
    float *copy;                      /* host: what rank 0 has */
} charl__mixed;

struct charl__trainer;

/** Ask all ranks for their devices, which are open. Collective; agreed. */
charl_status charl__mixed_init(struct charl__trainer *t) CHARL_MUST_CHECK;
void charl__mixed_fini(struct charl__trainer *t);

/** After an optimizer step. Nothing where all devices are alike; else it waits for rank 0's device
 * and moves the parameters once. Collective. */
charl_status charl__mixed_follow(struct charl__trainer *t) CHARL_MUST_CHECK;

#endif
