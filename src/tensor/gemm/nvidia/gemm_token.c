/* Products of few rows with weights, for text that is generated: kernels/nvidia/gemm/gemm_token.cl. */
#include "tensor/gemm/gemm_private.h"

enum {
    FEWEST_ROWS = 8,
    MOST_ROWS = 64, /* of a group */
    COLUMNS = 16,
    ITEMS = 256,
    CHUNK = 8 /* elements of 16 bytes */
};

static bool takes(charl_device *dev, charl_dtype type)
{
    return type != CHARL_F32 && charl__device_has_nvidia_cores(dev, type) && charl__device_facts_get(dev)->nvidia.wgmma;
}

static bool supports(charl_device *dev, const charl__gemm *p)
{
    (void)dev;
    return p->generates && p->form == CHARL_GEMM_AUTO && p->a.kind == CHARL_GEMM_PLAIN &&
           p->b.kind == CHARL_GEMM_TRANSPOSED && p->k > 0 && p->k % CHUNK == 0 &&
           p->bias_kind != CHARL_GEMM_BIAS_ROWS && p->count <= 1 && p->segments <= 1 && p->fold.leaves <= 1 &&
           !p->a_sums && (p->a.tensor->offset + p->a.at) % CHUNK == 0 && (p->b.tensor->offset + p->b.at) % CHUNK == 0;
}

static int plans(charl_device *dev, const charl__gemm *p, charl__gemm_plan *out)
{
    (void)dev;
    out[0] = (charl__gemm_plan){.backend = &charl__gemm_token, .form = p->form};
    return 1;
}

static charl_status enqueue(charl_device *dev, const charl__gemm *p, const charl__gemm_plan *plan)
{
    int rows = FEWEST_ROWS;
    charl__launch l = {.file = "nvidia/gemm/gemm_token", .entry = "gemm_token", .local = {ITEMS}};
    charl__gemm_args args;

    (void)plan;
    CHARL_INVARIANT(!p->epilogue || !p->epilogue->record);
    while (rows < p->m && rows < MOST_ROWS) {
        rows *= 2;
    }
    l.global[0] = (size_t)(charl__ceil_div(p->n, COLUMNS) * charl__ceil_div(p->m, rows) * ITEMS);
    l.sm90a.min_blocks = rows < MOST_ROWS ? 2 : 1; /* more rows take more registers */
    charl__gemm_set_epilogue(p, 4, &l);
    charl__launch_set_all(&l, (const charl__kernel_param[]){{"ACT", .text = charl__kernel_type(p->a.tensor->dtype)},
                                                            {"IS_F16", p->a.tensor->dtype == CHARL_F16},
                                                            {"OUT_T", .text = charl__kernel_type(p->out.tensor->dtype)},
                                                            {"BIAS", p->bias_kind},
                                                            {"BN", rows},
                                                            {"AHEAD", rows <= 16 ? 4 : 2},
                                                            {NULL}});
    charl__gemm_describe(p, &args, &l);
    return charl__launch_enqueue(dev, &l);
}

const charl__gemm_backend charl__gemm_token = {.name = "token",
                                               .key = " token",
                                               .memory = CHARL_GEMM_UNITS,
                                               .has_own_bits = true,
                                               .has_slow_epilogue = true,
                                               .takes = takes,
                                               .supports = supports,
                                               .plans = plans,
                                               .enqueue = enqueue};
