#ifndef CHARL_PARALLEL_PHASE_H
#define CHARL_PARALLEL_PHASE_H
/** The phase of a rank's work. Its peers report it if the rank dies or becomes silent, and a test can
 *  make the rank fail at its beginning: CHARL_FAULT=train.PHASE.WAY@RANK:N, where N counts how
 *  often this process has reached it (docs/env.md).
 */
#include "charl/comm.h"
#include "charl/params.h"

/* id, PHASE of a fault, text for peers */
#define CHARL__PHASE_LIST(X)                                                                                           \
    X(SETUP, "setup", "setup: data")                                                                                   \
    X(KERNELS, "kernels", "setup: kernels")                                                                            \
    X(RESUME, "resume", "resume")                                                                                      \
    X(AUDIT, "audit", "audit")                                                                                         \
    X(DATA, "data", "data")                                                                                            \
    X(BACKWARD, "backward", "forward and backward")                                                                    \
    X(DEVICE, "device", "waiting for the device")                                                                      \
    X(ALLREDUCE, "allreduce", "all-reduce")                                                                            \
    X(OPTIMIZER, "optimizer", "optimizer")                                                                             \
    X(DIVISION, "division", "division of the batch")                                                                   \
    X(EVALUATION, "evaluation", "evaluation")                                                                          \
    X(CHECKPOINT, "checkpoint", "checkpoint")                                                                          \
    X(WRITE, "write", "writing the checkpoint")                                                                        \
    X(END, "end", "end")

typedef enum charl__phase {
#define X(id, word, text) CHARL__PHASE_##id,
    CHARL__PHASE_LIST(X)
#undef X
        CHARL__PHASE_COUNT
} charl__phase;

/** Begin a phase of a step. params: what a fault may corrupt, or NULL. Local.
 *  Errors: ERR_DEVICE when a fault asks for it; nothing else. */
charl_status charl__phase_enter(charl_comm *c, int64_t step, charl__phase phase, charl_params *params) CHARL_MUST_CHECK;

/** Text for peers. Static storage. */
const char *charl__phase_text(charl__phase phase);

/** Only announce it: for a phase that has several beginnings. Local. */
void charl__phase_mark(charl_comm *c, int64_t step, charl__phase phase);

#endif
