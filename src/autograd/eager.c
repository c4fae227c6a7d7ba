/* Runs one operator on tensors without a graph. */
#include <stdlib.h>
#include <string.h>

#include "autograd/op.h"
#include "base/alloc.h"

static charl_status create_outputs(charl_device *dev, const charl__infer *inf, charl_tensor **out)
{
    for (int k = 0; k < inf->n_out; k++) {
        CHARL_TRY(charl_tensor_create(dev, inf->out[k].dtype, &inf->out[k].shape, &out[k]));
    }
    return CHARL_OK;
}

charl_status charl__run_op(charl_device *dev, const charl__op *op, const void *attr, charl_tensor *const *in, int n_in,
                           charl_tensor **out)
{
    charl_status st = CHARL_OK;
    charl_type type[CHARL_OP_MAX_IN];
    charl__infer inf = {.attr = attr, .n_in = n_in, .in = type, .n_slices = 1, .dev = dev, .n_out = 1};
    charl_slices whole;
    charl_tensor *made[CHARL_OP_MAX_OUT] = {0}, *workspace = NULL, *step = NULL;
    charl__enqueue e = {
        .dev = dev, .label = op->name, .attr = attr, .n_in = n_in, .in = in, .out = made, .slices = &whole};

    memset(out, 0, CHARL_OP_MAX_OUT * sizeof *out);
    CHARL_REQUIRE_CLEANUP(n_in <= CHARL_OP_MAX_IN && (charl__op_launches(op) || op->view), CHARL_ERR_INVALID,
                          "operator %s cannot run without a graph", op->name);
    CHARL_TRY_CLEANUP(charl_slices_block(1, 0, 1, &whole));
    for (int i = 0; i < n_in; i++) {
        type[i] = (charl_type){in[i]->dtype, in[i]->shape, CHARL_REPLICATED};
    }
    st = charl__op_infer(op, &inf);
    if (st != CHARL_OK) {
        charl__error_prefix("%s: ", op->name);
        goto cleanup;
    }
    if (op->view) {
        CHARL_TRY_CLEANUP(charl_tensor_reshape(in[0], &inf.out[0].shape, &out[0]));
        goto cleanup;
    }
    CHARL_TRY_CLEANUP(create_outputs(dev, &inf, made));
    CHARL_TRY_CLEANUP(charl_tensor_create(dev, CHARL_U32, &(charl_shape){1, {CHARL_STEP_WORDS}}, &step));
    if (inf.workspace > 0) {
        CHARL_TRY_CLEANUP(
            charl_tensor_create(dev, CHARL_F32, &(charl_shape){1, {(inf.workspace + 3) / 4}}, &workspace));
    }
    e.n_out = inf.n_out;
    e.workspace = workspace;
    e.step = step;
    CHARL_TRY_CLEANUP(charl__op_enqueue(op, &e));
    memcpy(out, made, sizeof made);
    memset(made, 0, sizeof made);
cleanup:
    for (int k = 0; k < CHARL_OP_MAX_OUT; k++) {
        charl_tensor_release(made[k]);
    }
    charl_tensor_release(workspace);
    charl_tensor_release(step);
    return st;
}

charl_status charl_apply(charl_device *dev, const char *op, charl_tensor *const *in, int n_in, charl_tensor **out)
{
    CHARL_GIVEN(dev, op, in || n_in == 0, out);
    const charl__op *found = charl__op_find(op);

    memset(out, 0, CHARL_OP_MAX_OUT * sizeof *out);
    CHARL_REQUIRE(found, CHARL_ERR_INVALID, "there is no operator %s", op);
    CHARL_REQUIRE(found->attr_size == 0, CHARL_ERR_INVALID, "%s has settings; use it in a graph", op);
    CHARL_REQUIRE(found->n_in < 0 ? n_in >= -found->n_in && n_in <= CHARL_OP_MAX_IN
                                  : n_in >= found->n_in - found->n_optional && n_in <= found->n_in,
                  CHARL_ERR_INVALID, "%s takes %d%s operands, %d are given", op, abs(found->n_in),
                  found->n_in < 0 ? " or more" : "", n_in);
    for (int i = 0; i < n_in; i++) {
        CHARL_REQUIRE(in[i], CHARL_ERR_INVALID, "%s: operand %d is NULL", op, i);
    }
    CHARL_TRY(charl__run_op(dev, found, NULL, in, n_in, out));
    return CHARL_OK;
}
