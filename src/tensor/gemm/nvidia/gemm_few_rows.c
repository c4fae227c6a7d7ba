/* Products of at most 64 rows, whose time is that of reading B, on NVIDIA's tensor cores: kernels/nvidia/gemm/gemm_few_rows.cl, which gives the
 * bits of gemm_wgmma.cl. */
#include "tensor/gemm/gemm_private.h"

enum {
    FEWEST_ROWS = 8,
    MOST_ROWS = 64,
    FEWEST_COLUMNS = 16,
    MOST_COLUMNS = 64,
    STAGES = 6,
    STAGE_ROWS = 128, /* of 64 of k, of both operands, that a stage should have */
    MOST_SUBS = 4,
    ROW_BYTES = 128, /* 64 of k */
    BEYOND = 64,     /* rows that an instruction reads */
    GROUPS = 2,      /* on a compute unit at a time */
    ITEMS = 128,
    CHUNK = 8 /* elements of 16 bytes */
};

static bool takes(charl_device *dev, charl_dtype type)
{
    return type != CHARL_F32 && charl__device_has_nvidia_cores(dev, type) && charl__device_facts_get(dev)->nvidia.wgmma;
}

static bool is_aligned(const charl__gemm_matrix *x)
{
    return (x->tensor->offset + x->at) % CHUNK == 0;
}

static bool supports(charl_device *dev, const charl__gemm *p)
{
    (void)dev;
    return p->form == CHARL_GEMM_AUTO && p->a.kind == CHARL_GEMM_PLAIN && p->b.kind == CHARL_GEMM_TRANSPOSED &&
           p->m <= MOST_ROWS && p->k > 0 && p->count <= 1 && p->segments <= 1 && p->fold.leaves <= 1 && !p->a_sums &&
           p->k % CHUNK == 0 && is_aligned(&p->a) && is_aligned(&p->b);
}

static int plans(charl_device *dev, const charl__gemm *p, charl__gemm_plan *out)
{
    (void)dev;
    out[0] = (charl__gemm_plan){.backend = &charl__gemm_few_rows, .form = p->form};
    return 1;
}

/* The smallest power of two from `least` on that is at least x, or `most`. */
static int power_for(int64_t x, int least, int most)
{
    while (least < x && least < most) {
        least *= 2;
    }
    return least;
}

static charl_status enqueue(charl_device *dev, const charl__gemm *p, const charl__gemm_plan *plan)
{
    const int64_t groups = (int64_t)GROUPS * charl__gemm_units(dev);
    const int rows = power_for(p->m, FEWEST_ROWS, MOST_ROWS);
    const int columns = power_for(charl__ceil_div(p->n, groups), FEWEST_COLUMNS, MOST_COLUMNS);
    const int subs = STAGE_ROWS / (rows + columns) >= MOST_SUBS ? MOST_SUBS : rows + columns <= STAGE_ROWS / 2 ? 2 : 1;
    const charl__kernel_param params[] = {{"ACT", .text = charl__kernel_type(p->a.tensor->dtype)},
                                          {"IS_F16", p->a.tensor->dtype == CHARL_F16},
                                          {"OUT_T", .text = charl__kernel_type(p->out.tensor->dtype)},
                                          {"BIAS", p->bias_kind},
                                          {"BN", rows},
                                          {"COLUMNS", columns},
                                          {"SUBS", subs},
                                          {"STAGES", STAGES},
                                          {NULL}};
    charl__launch l = {.file = "nvidia/gemm/gemm_few_rows",
                       .entry = "gemm_few_rows",
                       .global = {(size_t)charl__ceil_div(p->n, columns) * ITEMS},
                       .local = {ITEMS},
                       .sm90a.shared_bytes = (int64_t)(STAGES * subs * (rows + columns) + BEYOND - columns) * ROW_BYTES,
                       .sm90a.min_blocks = GROUPS};
    charl__gemm_args args;

    (void)plan;
    CHARL_INVARIANT(!p->epilogue || !p->epilogue->record);
    charl__gemm_set_epilogue(p, 4, &l);
    charl__launch_set_all(&l, params);
    charl__gemm_describe(p, &args, &l);
    return charl__launch_enqueue(dev, &l);
}

const charl__gemm_backend charl__gemm_few_rows = {.name = "few_rows",
                                                  .key = " cores",
                                                  .memory = CHARL_GEMM_UNITS,
                                                  .has_own_bits = true,
                                                  .has_slow_epilogue = true,
                                                  .takes = takes,
                                                  .supports = supports,
                                                  .plans = plans,
                                                  .enqueue = enqueue};
