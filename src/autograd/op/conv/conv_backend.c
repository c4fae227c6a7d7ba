/* The table of convolution back ends, and the portable one: products that read the image in place. */
#include "autograd/op/conv/conv_backend.h"

#include "autograd/launch/gemm_slices.h"
#include "autograd/op/conv/conv_phase.h"

int64_t charl__conv_no_workspace(const charl__conv *c)
{
    (void)c;
    return 0;
}

int64_t charl__conv_slices_workspace(const charl__conv *c, charl_dtype type, int slices)
{
    charl__gemm product;

    if (slices == 0) {
        return 0;
    }
    product = charl__conv_weight_gradient(c, slices);
    return charl__gemm_slices_workspace(&product, type, slices);
}

void charl__conv_set_window(const charl__conv *c, charl__launch *l)
{
    charl__launch_set_all(l, (charl__kernel_param[]){{"KH", c->kernel[0]},
                                                     {"KW", c->kernel[1]},
                                                     {"SH", c->stride[0]},
                                                     {"SW", c->stride[1]},
                                                     {"PH", c->padding[0]},
                                                     {"PW", c->padding[1]},
                                                     {"DH", c->dilation[0]},
                                                     {"DW", c->dilation[1]},
                                                     {NULL}});
}

static charl_status enqueue(const charl__enqueue *e, const charl__conv *c)
{
    charl__gemm p = charl__conv_forward(c, e->n_in > 2);

    p.a.tensor = e->in[1];
    p.b.tensor = e->in[0];
    p.bias = e->n_in > 2 ? e->in[2] : NULL;
    p.out.tensor = e->out[0];
    p.label = e->label;
    return charl__gemm_enqueue(e->dev, &p);
}

static charl_status enqueue_input(const charl__enqueue *e, const charl__conv *c)
{
    charl__gemm p = charl__conv_input_gradient(c);

    if (charl__conv_phases_workspace(c) > 0) {
        return charl__conv_phases(e, c);
    }
    p.a.tensor = e->in[1];
    p.b.tensor = e->in[0];
    p.out.tensor = e->out[0];
    p.label = e->label;
    return charl__gemm_enqueue(e->dev, &p);
}

static charl_status enqueue_weight(const charl__enqueue *e, const charl__conv *c)
{
    const int64_t slices = charl__is_partial(e, 0) ? e->slices->count : 1;
    charl__gemm p = charl__conv_weight_gradient(c, slices);

    p.a.tensor = e->in[0];
    p.b.tensor = e->in[1];
    p.label = e->label;
    return charl__gemm_slices(e, &p, 0);
}

const charl__conv_backend charl__conv_products = {.name = "product",
                                                  .layout = CHARL_LAYOUT_ROWS,
                                                  .workspace = charl__conv_no_workspace,
                                                  .input_workspace = charl__conv_phases_workspace,
                                                  .weight_workspace = charl__conv_slices_workspace,
                                                  .enqueue = enqueue,
                                                  .enqueue_input = enqueue_input,
                                                  .enqueue_weight = enqueue_weight};

/* In the order in which they are tried. */
static const charl__conv_backend *const backends[] = {&charl__conv_digits, &charl__conv_tensor_cores,
                                                      &charl__conv_depthwise, &charl__conv_products};

const charl__conv_backend *charl__conv_backend_for(const charl_device *dev, charl_dtype type, const charl__conv *c)
{
    int i = 0;

    while (backends[i]->supports && !backends[i]->supports(dev, type, c)) {
        i++;
    }
    return backends[i];
}
