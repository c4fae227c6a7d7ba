#ifndef CHARL_AUTOGRAD_CHECK_OPCHECK_H
#define CHARL_AUTOGRAD_CHECK_OPCHECK_H
/** Running one operator at one of its samples, outside a graph, against its double reference: shared by
 *  the tests and `charl selftest`.
 */
#include "autograd/op.h"

/** An operator with drawn inputs. Plain memory, owned by the case. */
typedef struct charl__op_case {
    const charl__op *op;
    const charl__op_sample *sample;
    int n_in, n_out;
    charl_type in_type[CHARL_OP_MAX_IN], out_type[CHARL_OP_MAX_OUT];
    double *in[CHARL_OP_MAX_IN];    /* values that the device's type represents exactly */
    double *want[CHARL_OP_MAX_OUT]; /* from the reference */
    /* Preset to false. Operands with rows of the batch and four extents are stored channels-last on the
     * device, if the operator supports that. */
    bool channels_last;
    charl__op_layout layout; /* of op, for these operands */
} charl__op_case;

/** Largest deviation of a run from the reference. */
typedef struct charl__op_error {
    double ulp;     /* in units of the output's own precision at the wanted value */
    double allowed; /* largest fraction of the allowed error that was used: at most 1 passes */
    int output;
    int64_t index;
    double got, want;
} charl__op_error;

/** Draw the inputs of `sample` from `seed`, infer the output types and compute the reference. f32 operands
 *  of the sample that the operator accepts in half precision have type `half`: f32, bf16 or f16.
 *  Destroy it even after a failure. */
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

/** Compare the outputs of a whole run with the reference; NaN and infinity must be in the same
 *  places. */
charl__op_error charl__op_case_compare(const charl__op_case *c, void *const *raw);

/** Whether a check in `precision` includes this sample. Each sample needs its own programs for half types, so only
 *  samples with rows of the batch and the first of the others are included. *alone: that one was included; start with false. */
bool charl__op_check_includes(const charl__op_case *c, charl_dtype precision, bool *alone);

/** Half a unit in the last place of 1. */
double charl__epsilon(charl_dtype dtype);

#endif
