/* Gradients transferred in bf16. */
#include "parallel/grad_compress.h"

#include "base/alloc.h"
#include "dist/allreduce/allreduce_device.h"
#include "dist/allreduce/parts.h"

/* count elements from element `at` of one arena; in the other they begin at `to_at`. */
static charl_status convert(charl__buffer *from, charl_dtype type, int64_t at, charl__buffer *to, int64_t to_at,
                            int64_t count)
{
    const charl_shape shape = {1, {count}};
    CHARL_SCOPED(charl__tensor_left) charl_tensor *dst = NULL, *src = NULL;

    CHARL_TRY(charl__tensor_view(from, type, &shape, at, &src));
    CHARL_TRY(charl__tensor_view(to, type == CHARL_F32 ? CHARL_BF16 : CHARL_F32, &shape, to_at, &dst));
    CHARL_TRY(charl__tensor_convert(src, dst));
    return CHARL_OK;
}

charl_status charl__grad_compress_lanes(const charl__grad_compress *n, int64_t begin, int64_t count)
{
    for (int j = 0; j < n->n_lanes; j++) {
        CHARL_TRY(convert(n->set->grad, CHARL_F32, j * n->set->gradient_elements + begin, n->lanes,
                          j * n->stride + begin, count));
    }
    return CHARL_OK;
}

charl_status charl__grad_compress_sum(const charl__grad_compress *n, int64_t begin, int64_t count)
{
    return convert(n->sum, CHARL_BF16, begin, n->set->sum, begin, count);
}

static charl_status buffer(charl_device *dev, void *host, int64_t elements, charl__buffer **out)
{
    const size_t bytes = (size_t)elements * charl_dtype_size(CHARL_BF16);

    return charl__device_facts_get(dev)->zero_copy ? charl__buffer_wrap(dev, host, bytes, out)
                                                   : charl__buffer_create(dev, bytes, "gradients in bf16", out);
}

static charl_status buffers_create(charl__grad_compress *n, const charl_allreduce *ar)
{
    charl_device *dev = n->set->dev;
    void *lanes = charl__allreduce_lanes(ar), *sum = charl__allreduce_sum(ar);
    charl__buffer *device_lanes, *device_sum;

    if (charl__allreduce_buffers(ar, &device_lanes, &device_sum)) {
        n->lanes = charl__buffer_retain(device_lanes);
        n->sum = charl__buffer_retain(device_sum);
        return CHARL_OK;
    }
    CHARL_TRY(buffer(dev, lanes, n->n_lanes * n->stride, &n->lanes));
    if (sum == lanes) { /* one rank */
        n->sum = charl__buffer_retain(n->lanes);
    } else {
        CHARL_TRY(buffer(dev, sum, n->stride, &n->sum));
    }
    return CHARL_OK;
}

static charl_status create(charl__grad_compress *n, const charl_allreduce *ar)
{
    charl_device *dev = n->set->dev;

    n->stride = charl__allreduce_stride(ar);
    CHARL_TRY(buffers_create(n, ar));
    CHARL_TRY(charl__grad_compress_lanes(n, 0, n->set->gradient_elements));
    CHARL_TRY(charl__grad_compress_sum(n, 0, 1)); /* nothing, or data that other ranks write: zeros */
    CHARL_TRY(charl_device_sync(dev));
    return CHARL_OK;
}

charl_status charl__grad_compress_create(charl_params *set, int n_lanes, const charl_allreduce *ar,
                                         charl__grad_compress **out)
{
    charl_status st = CHARL_OK;
    charl__grad_compress *n = NULL;

    *out = NULL;
    CHARL_TRY_CLEANUP(charl__alloc(sizeof *n, &n));
    n->set = set;
    n->n_lanes = n_lanes;
    CHARL_TRY_CLEANUP(create(n, ar));
    *out = n;
    n = NULL;
cleanup:
    charl__grad_compress_destroy(n);
    return st;
}

void charl__grad_compress_destroy(charl__grad_compress *n)
{
    if (n) {
        charl__buffer_release(n->lanes);
        charl__buffer_release(n->sum);
        charl_free(n);
    }
}
