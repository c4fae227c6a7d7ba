#ifndef CHARL_TENSOR_STEP_PARAMS_H
#define CHARL_TENSOR_STEP_PARAMS_H
/** Step parameters: values that change from step to step.
 *
 *  Kernels read them from a small device buffer, not from arguments, so that a recorded step is replayed unchanged.
 *  kernels/prelude/common.clh declares the same struct.
 */
#include <stdint.h>

#include "base/error.h"
#include "charl/steps.h"
#include "tensor/tensor.h"

typedef struct charl__step_params {
    uint32_t seed_lo, seed_hi; /* run.seed */
    uint32_t step_lo, step_hi; /* optimizer steps done before this one */
    float loss_seed;           /* gradient of the loss with respect to itself: 1 / samples in the global batch */
    float lr;                  /* learning rate of this step */
    float bias1, bias2;        /* of update `update`. Adam: 1 - beta1^t, 1 - beta2^t, computed in double */
    uint32_t commit;           /* 0: kernels that change persistent state do nothing */
    uint32_t update,
        skipped; /* number of this update, if `skipped` steps were skipped so far: the device may know about more */
    uint32_t reserved[5];
} charl__step_params;

enum { CHARL_STEP_WORDS = 16, CHARL_SCALE_STEPS = 2000 };
_Static_assert(sizeof(charl__step_params) == CHARL_STEP_WORDS * 4, "kernels/prelude/common.clh declares the same");

/** `depth` records may be in flight: the host runs that far ahead. Owned. Errors: ERR_NOMEM,
 *  ERR_DEVICE. */
charl_status charl__steps_create(charl_device *dev, int depth, charl_steps **out) CHARL_MUST_CHECK;
/** The same with `bytes` that are transferred after every record, which saves a separate transfer. */
charl_status charl__steps_create_with(charl_device *dev, int depth, int64_t bytes, charl_steps **out) CHARL_MUST_CHECK;
int64_t charl__steps_room(const charl_steps *s);
/** The data sent with the next record, borrowed: from word CHARL_STEP_WORDS of charl__steps_tensor's
 *  buffer on. */
uint32_t *charl__steps_carried(const charl_steps *s);
void charl__steps_destroy(charl_steps *s); /* NULL is a no-op */
/** Launches enqueued from now on see `record`. Async. */
charl_status charl__steps_push(charl_steps *s, const charl__step_params *record) CHARL_MUST_CHECK;
/** Push the last record again, with its current data: for the next of several runs in a step. Async. */
charl_status charl__steps_repush(charl_steps *s) CHARL_MUST_CHECK;
/** Between `on` and off, launches see records whose `commit` is 0; the last record is pushed again either way. Async. */
charl_status charl__steps_try(charl_steps *s, bool on) CHARL_MUST_CHECK;
/** The record's loss_seed as an f32 scalar, borrowed. */
charl_tensor *charl__steps_loss_seed(const charl_steps *s);
/** Multiply gradients by a factor, so that small ones survive in f16: a power of two on
 *  the device, by which the optimizer divides. `dynamic`: it also halves it and skips the step when
 *  a gradient is not finite, and doubles it at every CHARL_SCALE_STEPS-th step, without the host.
 *  Call it before graphs and optimizer are built. Errors: ERR_NOMEM, ERR_DEVICE. */
charl_status charl__steps_use_scale(charl_steps *s, float scale, bool dynamic) CHARL_MUST_CHECK;
/** charl_steps_options.seed. */
uint64_t charl__steps_seed(const charl_steps *s);
/** The factor as an f32 scalar, borrowed; NULL if there is none. */
charl_tensor *charl__steps_scale(const charl_steps *s);
bool charl__steps_scale_is_dynamic(const charl_steps *s);
/** The loss of a step on this rank: f32 of any shape, on the device when the
 *  optimizer runs, which then records whether it is finite. The tensor is retained; NULL:
 *  none. Call it before the optimizer is built, or between charl__optimizers_unbind and
 *  charl__optimizers_rebind. */
void charl__steps_watch_loss(charl_steps *s, charl_tensor *loss);
/** Borrowed; NULL if there is none. */
charl_tensor *charl__steps_loss(const charl_steps *s);
/** u32 [CHARL_STEP_WORDS], borrowed. */
charl_tensor *charl__steps_tensor(const charl_steps *s);

/** For CHARL_SCOPED. */
CHARL_SCOPED_POINTER(charl__steps_left, charl_steps, charl__steps_destroy)

#endif
