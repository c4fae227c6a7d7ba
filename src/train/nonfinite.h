#ifndef CHARL_TRAIN_NONFINITE_H
#define CHARL_TRAIN_NONFINITE_H
/** Steps whose loss or gradient is not finite, and steps whose gradient norm is a spike.
 *
 *  The device skips such a step by itself, before the weights change, and records it in the masks of
 *  charl__norm_record. The host reads the masks every few steps, without waiting. If a rank finds
 *  something, all ranks check together, before the next step (charl__trainer_check_finite):
 *
 *     gradient not finite                             a bad step
 *     the same, and the loss scale can be halved      the gradient overflowed: not a bad step, unless the loss of any rank
 *                                                     was not finite either, which no scale can fix
 *     loss not finite, gradient finite                a bad step that the device has already applied
 *
 *     gradient norm a spike (charl/optim.h)           not a bad step; train.on_spike says what the device does with it
 *
 *  train.on_nonfinite = stop ends training at the first bad step; skip warns, counts, and ends it
 *  after train.max_nonfinite_steps of them in a row.
 */
#include <stdbool.h>
#include <stdint.h>

#include "optim/optimizer.h"

struct charl__trainer;

/** A bad step: which of its values were not finite. */
typedef struct charl__bad_step {
    int64_t step;
    bool loss, gradient;
} charl__bad_step;

typedef struct charl__nonfinite {
    int64_t skipped, overflowed;  /* so far, including earlier processes of the run */
    int64_t spikes;               /* likewise */
    bool found;                   /* something on this rank: all ranks should check */
    int64_t judged;               /* all ranks have judged the steps up to this one */
    int64_t in_row;               /* bad steps up to that one without a good one between ... */
    charl__bad_step first;        /* ... and the first of them */
    int64_t bad, bad_evaluations; /* of this process */
    charl_pinned *pinned;
    charl__norm_record *record; /* of step `polled`; being copied while `arrived` is set */
    charl__event *arrived;
    int64_t polled;
    double polled_s;
} charl__nonfinite;

/** Start at the current step. Local. Errors: ERR_NOMEM, ERR_DEVICE. */
charl_status charl__nonfinite_open(struct charl__trainer *t) CHARL_MUST_CHECK;
/** The counts stay. Local. */
void charl__nonfinite_close(struct charl__trainer *t);

/** Call after every step: take the record that has arrived, and request another if one is due. Never
 *  waits. Local. Errors: ERR_DEVICE. */
charl_status charl__nonfinite_poll(struct charl__trainer *t) CHARL_MUST_CHECK;
/** Judge the steps up to `step`, with `record` read after it. The record is the same on all ranks except
 *  bad_loss. Collective. Errors: ERR_NONFINITE, known to all ranks; ERR_COMM. */
charl_status charl__nonfinite_judge(struct charl__trainer *t, int64_t step,
                                    const charl__norm_record *record) CHARL_MUST_CHECK;
/** Steps so far that changed nothing. */
int64_t charl__nonfinite_left_out(const struct charl__trainer *t);
/** Whether `record`, read after `step`, has skipped steps or spikes that have not been judged yet: the same on
 *  all ranks. */
bool charl__nonfinite_is_new(const struct charl__trainer *t, int64_t step, const charl__norm_record *record);
/** Whether it has that, or a loss of this rank that is not finite. */
bool charl__nonfinite_is_suspect(const struct charl__trainer *t, int64_t step, const charl__norm_record *record);
/** The mean loss of an evaluation, the same on all ranks: stop, or warn. Local. Errors:
 *  ERR_NONFINITE. */
charl_status charl__nonfinite_evaluation(struct charl__trainer *t, double loss) CHARL_MUST_CHECK;

/** Wait for the steps enqueued and judge them. Collective. Errors: as charl__nonfinite_judge. */
charl_status charl__trainer_check_finite(struct charl__trainer *t) CHARL_MUST_CHECK;

#endif
