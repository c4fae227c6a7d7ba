#ifndef CHARL_AUTOGRAD_ONNX_ONNX_PRIVATE_H
#define CHARL_AUTOGRAD_ONNX_ONNX_PRIVATE_H
/** An ONNX model under construction: shared by the parts that append nodes and that walk the graph.
 */
#include "autograd/graph_private.h"
#include "autograd/onnx/onnx.h"

/* Field numbers and values of onnx.proto. */
enum {
    ONNX_FLOAT = 1,
    ONNX_UINT8 = 2,
    ONNX_INT64 = 7,

    ONNX_TENSOR_DIMS = 1,
    ONNX_TENSOR_TYPE = 2,
    ONNX_TENSOR_NAME = 8,
    ONNX_TENSOR_RAW = 9,

    ONNX_GRAPH_NODE = 1,
    ONNX_GRAPH_NAME = 2,
    ONNX_GRAPH_INITIALIZER = 5,
    ONNX_GRAPH_INPUT = 11,
    ONNX_GRAPH_OUTPUT = 12
};

struct charl__onnx {
    charl__text graph; /* GraphProto so far */
    charl__list names; /* of intermediate values; owned */
    int temporaries;
    unsigned defined;    /* outputs of the current node, one bit each */
    charl_status status; /* first error */
};

/** Keep the thread's last failure as the model's error, unless it has one. Returns NULL. */
const char *charl__onnx_keep_error(charl__onnx *x, charl_status st);

/** Append an initializer of `bytes` bytes. Errors: ERR_NOMEM. */
charl_status charl__onnx_tensor(charl__onnx *x, const char *name, int type, const charl_shape *shape, const void *data,
                                size_t bytes) CHARL_MUST_CHECK;

#endif
