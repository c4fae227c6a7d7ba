#ifndef CHARL_TRAIN_NONFINITE_H
#define CHARL_TRAIN_NONFINITE_H
/** Steps whose loss or gradient is not finite, and steps whose gradient norm is a spike.
 *
 *  The device leaves such a step out by itself, before the weights change, and notes it in the
 *  masks of charl__norm_record. The host reads those without waiting, every few steps. Where a rank
 *  finds something, all ranks look together, before the next step (charl__trainer_check_finite):
 *
 *     gradient not finite                             a bad step
 *     the same, and the loss scale can be halved      the gradient overflowed: no bad step, unless the loss of any rank
 *                                                     was not finite either, which no scale can mend
 *     loss not finite, gradient finite                a bad step that the device has taken
 *
 *     gradient norm a spike (charl/optim.h)           no bad step; what the device does with it says train.on_spike
 *
 *  train.on_nonfinite = stop ends training at the first bad step; skip warns, counts, and ends it
 *  after train.max_nonfinite_steps of them in a row.
 */
#include <stdbool.h>
#include <stdint.h>

#include "optim/optimizer.h"

struct charl__trainer;

/** A step, and what of it was not finite. */
typedef struct charl__bad_step {
    int64_t step;
    bool loss, gradient;
} charl__bad_step;

typedef struct charl__nonfinite {
    int64_t skipped, overflowed;  /* so far, with those of processes before this one */
    int64_t spikes;               /* likewise */
    bool found;                   /* on this rank: all should look */
    int64_t judged;               /* steps up to this one have been looked at, by all ranks */
    int64_t in_row;               /* bad steps up to that one without a good one between ... */
    charl__bad_step first;        /* ... and the first of them */
    int64_t bad, bad_evaluations; /* of this process */
    charl_pinned *pinned;
    charl__norm_record *record; /* of step `polled`, on its way while there is `arrived` */
    charl__event *arrived;
    int64_t polled;
    double polled_s;
} charl__nonfinite;

/** From the present step on. Local. Errors: ERR_NOMEM, ERR_DEVICE. */
charl_status charl__nonfinite_open(struct charl__trainer *t) CHARL_MUST_CHECK;
/** The counts stay. Local. */
void charl__nonfinite_close(struct charl__trainer *t);

/** After every step: take the record that has arrived, and ask for another if that is due. Never
 *  waits. Local. Errors: ERR_DEVICE. */
charl_status charl__nonfinite_poll(struct charl__trainer *t) CHARL_MUST_CHECK;
/** Judge the steps up to `step`, of which `record` is. The record is the same on all ranks but for
 *  bad_loss. Collective. Errors: ERR_NONFINITE, known to all ranks; ERR_COMM. */
charl_status charl__nonfinite_judge(struct charl__trainer *t, int64_t step,
                                    const charl__norm_record *record) CHARL_MUST_CHECK;
/** Steps so far that changed nothing. */
int64_t charl__nonfinite_left_out(const struct charl__trainer *t);
/** Whether `record`, of `step`, has steps that were left out or spikes, and not judged yet: the same on all
 *  ranks. */
bool charl__nonfinite_is_new(const struct charl__trainer *t, int64_t step, const charl__norm_record *record);
/** The mean loss of an evaluation, the same on all ranks: stop, or warn. Local. Errors:
 *  ERR_NONFINITE. */
charl_status charl__nonfinite_evaluation(struct charl__trainer *t, double loss) CHARL_MUST_CHECK;

/** Wait for the steps enqueued and judge them. Collective. Errors: as charl__nonfinite_judge. */
charl_status charl__trainer_check_finite(struct charl__trainer *t) CHARL_MUST_CHECK;

#endif
