/* Convolutions with one channel in and out per product, on CPUs: kernels/gemm/gemm_plane.cl. */
#include "tensor/gemm/gemm_private.h"

enum { LONGEST_LINE = 1024 };

/* Floats of an image row with the zeros that gemm_plane.cl reads around it. */
static int64_t plane_line(const charl__gemm_window *w)
{
    const int64_t last = (int64_t)(w->taps[1] - 1) * w->tap_step[1];
    const int64_t lowest = w->shift[1] + (last < 0 ? last : 0);
    const int64_t highest = w->shift[1] + (last > 0 ? last : 0);
    const int64_t margin = lowest < 0 ? -lowest : 0;
    const int64_t read = charl__ceil_div(w->row, 16) * 16 * w->step[1] + (highest > 0 ? highest : 0);

    return charl__ceil_div(margin + (read > w->image[1] ? read : w->image[1]) + 16, 16) * 16;
}

/* One channel in and out, in f32. */
static bool supports(charl_device *dev, const charl__gemm *p)
{
    const charl__gemm_window *w = &p->window;

    (void)dev;
    return p->form == CHARL_GEMM_AUTO && p->m == 1 && p->b.kind == CHARL_GEMM_WINDOW &&
           p->bias_kind != CHARL_GEMM_BIAS_COLUMNS && p->k == (int64_t)w->taps[0] * w->taps[1] && w->divide[0] == 1 &&
           w->divide[1] == 1 && p->fold.leaves <= 1 && p->segments <= 1 && !p->epilogue && w->taps[0] <= 16 &&
           p->a.tensor->dtype == CHARL_F32 && p->out.tensor->dtype == CHARL_F32 && plane_line(w) <= LONGEST_LINE;
}

static int plans(charl_device *dev, const charl__gemm *p, charl__gemm_plan *out)
{
    (void)dev;
    out[0] = (charl__gemm_plan){.backend = &charl__gemm_plane, .form = p->form};
    return 1;
}

static charl_status enqueue(charl_device *dev, const charl__gemm *p, const charl__gemm_plan *plan)
{
    charl__launch l = {.file = "gemm/gemm_plane",
                       .entry = "gemm_plane",
                       .params = {{"LINE", plane_line(&p->window)}},
                       .global = {(size_t)charl__at_least_one(p->count)},
                       .local = {1}};
    charl__gemm_args args;

    (void)plan;
    charl__gemm_set_common(p, &l);
    charl__gemm_describe(p, &args, &l);
    return charl__launch_enqueue(dev, &l);
}

const charl__gemm_backend charl__gemm_plane = {.name = "plane",
                                               .key = "",
                                               .memory = CHARL_GEMM_VECTORS,
                                               .has_rng = true,
                                               .supports = supports,
                                               .plans = plans,
                                               .enqueue = enqueue};
