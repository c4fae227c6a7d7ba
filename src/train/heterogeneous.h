#ifndef CHARL_TRAIN_HETEROGENEOUS_H
#define CHARL_TRAIN_HETEROGENEOUS_H
/** Ranks whose devices are not of one model and driver. In f32 they compute the same bits if every device rounds as IEEE 754 says
 *  (train.exact; charl_device_check_arithmetic), and then nothing here applies. Otherwise their results differ by roundings.
 *
 *  Sums over the batch are read by every rank as they are, so all apply the same gradients, and
 *  most updates round every operation alike on every device; but not all (products of matrices in
 *  muon, numbers too small to be normal), and those replicas drift apart by roundings. Every 32
 *  steps and before a save all ranks take over rank 0's parameters and running statistics. The state
 *  of the optimizer is each rank's own; rank 0's is the one that is saved.
 */
#include <stdbool.h>

#include "charl/status.h"

enum { CHARL__MODELS_BYTES = 512 };

typedef struct charl__heterogeneous {
    bool on;                          /* devices of different models, which may round differently */
    char models[CHARL__MODELS_BYTES]; /* "A + B": the devices' names, each once, by first rank */
    float *copy;                      /* host: what rank 0 has */
} charl__heterogeneous;

struct charl__replica;

/** Ask all ranks for their devices, which are open. Collective; agreed. */
charl_status charl__heterogeneous_init(struct charl__replica *r) CHARL_MUST_CHECK;
void charl__heterogeneous_fini(struct charl__replica *r);

/** Take over what rank 0 has. Nothing where all devices compute alike. Blocks. Collective. Cost: one
 *  transfer of the parameters. */
charl_status charl__heterogeneous_follow(struct charl__replica *r) CHARL_MUST_CHECK;
/** The same after an optimizer step, when it is time. */
charl_status charl__heterogeneous_step(struct charl__replica *r) CHARL_MUST_CHECK;

#endif
