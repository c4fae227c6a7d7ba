#ifndef CHARL_AUTOGRAD_CHECK_OPCHECK_H
#define CHARL_AUTOGRAD_CHECK_OPCHECK_H
/** Running one operator at one of its samples, outside a graph, against its double reference: what
 *  tests and `charl selftest` share.
 */
#include "autograd/op.h"

/** An operator with drawn inputs. Plain memory, owned by the case. */
typedef struct charl__op_case {
    const charl__op *op;
    const charl__op_sample *sample;
    int n_in, n_out;
    charl_type in_type[CHARL_OP_MAX_IN], out_type[CHARL_OP_MAX_OUT];
    double *in[CHARL_OP_MAX_IN];    /* values that the device's type can hold exactly */
    double *want[CHARL_OP_MAX_OUT]; /* the reference's */
    /* Preset to false. What has rows of the batch and four extents lies channels-last on the
     * device, for operators that take that. */
    bool channels_last;
    charl__op_layout layout; /* of the operator, for these operands */
} charl__op_case;

/** Largest deviation of a run from the reference. */
typedef struct charl__op_error {
    double ulp;     /* in units of the output's own precision at the wanted value */
    double allowed; /* largest fraction of the allowed error that was used: 1 and less pass */
    int output;
    int64_t index;
    double got, want;
} charl__op_error;

/** Draw the inputs of `sample` from `seed`, infer the output types and compute the reference. The
 *  sample's f32 operands that the operator takes half-size have type `half`: f32, bf16 or f16.
 *  Destroy also after failure. */
charl_status charl__op_case_create(const charl__op *op, const charl__op_sample *sample, charl_dtype half, uint64_t seed,
                                   charl__op_case *c) CHARL_MUST_CHECK;
void charl__op_case_destroy(charl__op_case *c);
/** Compute want[] again, after in[] has been changed. */
void charl__op_case_reference(const charl__op_case *c);

/** Enqueue the operator on the rows of `slices` (of slices->total equal slices of every BATCHED
 *  input), on tensors that start `shift` elements into guarded, poisoned memory, and read the
 *  outputs: raw[k] gets new host memory (charl_free), a PARTIAL with all lanes. Errors: ERR_INVALID
 *  when memory outside the outputs was written, or an input was changed by an operator without
 *  effect. */
charl_status charl__op_case_run(charl_device *dev, const charl__op_case *c, const charl_slices *slices, int64_t shift,
                                void **raw) CHARL_MUST_CHECK;
/** Bytes of raw[k]. */
size_t charl__op_case_bytes(const charl__op_case *c, const charl_slices *slices, int k);

/** Compare outputs of a whole run with the reference; NaN and infinity must stand in the same
 *  places. */
charl__op_error charl__op_case_compare(const charl__op_case *c, void *const *raw);

/** Whether a check in `precision` takes this sample. In half types each needs programs of its own: those
 *  with rows of the batch, and the first of the others. *alone: that one was taken; false before the first. */
bool charl__op_check_takes(const charl__op_case *c, charl_dtype precision, bool *alone);

/** Half a unit in the last place of 1. */
double charl__epsilon(charl_dtype dtype);

#endif
