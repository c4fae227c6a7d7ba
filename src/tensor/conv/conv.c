/* Convolutions as descriptions of matrix products; the kernels are gemm's. */
#include "tensor/conv/conv.h"

int64_t charl__conv_extent(const charl__conv *c, int axis, int64_t n)
{
    const int64_t room = n + 2 * (int64_t)c->padding[axis] - (int64_t)c->dilation[axis] * (c->kernel[axis] - 1) - 1;

    return room < 0 ? 0 : room / c->stride[axis] + 1;
}

static charl__gemm_window image_under_taps(const charl__conv *c)
{
    charl__gemm_window w = {.image = {(int)c->h, (int)c->w}, .row = (int)c->ow};

    for (int d = 0; d < 2; d++) {
        w.taps[d] = c->kernel[d];
        w.step[d] = c->stride[d];
        w.shift[d] = -c->padding[d];
        w.tap_step[d] = c->dilation[d];
        w.divide[d] = 1;
    }
    return w;
}

/* Each tap is its own pixel: the image is a matrix [channel, pixel] as stored. */
static bool is_pointwise(const charl__conv *c)
{
    for (int d = 0; d < 2; d++) {
        if (c->kernel[d] != 1 || c->stride[d] != 1 || c->padding[d] != 0) {
            return false;
        }
    }
    return c->h == c->oh && c->w == c->ow;
}

charl__gemm charl__conv_forward(const charl__conv *c, bool bias)
{
    const int64_t og = c->o / c->groups, cg = c->c / c->groups, taps = (int64_t)c->kernel[0] * c->kernel[1];
    const int64_t pixels = c->oh * c->ow, image = c->h * c->w;

    return (charl__gemm){.a = {.inner = og * cg * taps},
                         .b = {.kind = is_pointwise(c) ? CHARL_GEMM_PLAIN : CHARL_GEMM_WINDOW,
                               .outer = c->c * image,
                               .inner = cg * image},
                         .out = {.outer = c->o * pixels, .inner = og * pixels},
                         .m = og,
                         .n = pixels,
                         .k = cg * taps,
                         .bias_kind = bias ? CHARL_GEMM_BIAS_ROWS : CHARL_GEMM_NO_BIAS,
                         .window = image_under_taps(c),
                         .count = c->batch * c->groups,
                         .inner = c->groups};
}

charl__gemm charl__conv_input_gradient(const charl__conv *c)
{
    const int64_t og = c->o / c->groups, cg = c->c / c->groups, taps = (int64_t)c->kernel[0] * c->kernel[1];
    const int64_t pixels = c->oh * c->ow, image = c->h * c->w;
    charl__gemm p = {.a = {.kind = is_pointwise(c) ? CHARL_GEMM_TRANSPOSED : CHARL_GEMM_TAPS, .inner = og * cg * taps},
                     .b = {.kind = is_pointwise(c) ? CHARL_GEMM_PLAIN : CHARL_GEMM_WINDOW,
                           .outer = c->o * pixels,
                           .inner = og * pixels},
                     .out = {.outer = c->c * image, .inner = cg * image},
                     .m = cg,
                     .n = image,
                     .k = og * taps,
                     .window = {.image = {(int)c->oh, (int)c->ow}, .row = (int)c->w},
                     .count = c->batch * c->groups,
                     .inner = c->groups};

    /* Input row h receives output row (h + padding - r * dilation) / stride through tap r. */
    for (int d = 0; d < 2; d++) {
        p.window.taps[d] = c->kernel[d];
        p.window.step[d] = 1;
        p.window.shift[d] = c->padding[d];
        p.window.tap_step[d] = -c->dilation[d];
        p.window.divide[d] = c->stride[d];
    }
    return p;
}

static int gcd(int a, int b)
{
    return b == 0 ? a : gcd(b, a % b);
}

charl__conv_phase charl__conv_phase_at(const charl__conv *c, const int at[2])
{
    charl__conv_phase p = {{0}, {0}, {0}};

    for (int d = 0; d < 2; d++) {
        const int s = c->stride[d];

        p.step[d] = s / gcd(c->dilation[d], s);
        while (p.first[d] < c->kernel[d] && (at[d] + c->padding[d] - p.first[d] * c->dilation[d]) % s != 0) {
            p.first[d]++;
        }
        p.count[d] = (c->kernel[d] - p.first[d] + p.step[d] - 1) / p.step[d];
    }
    return p;
}

charl__gemm charl__conv_phase_gradient(const charl__conv *c, const charl__conv_phase *p, const int at[2])
{
    charl__conv phase = *c;

    for (int d = 0; d < 2; d++) {
        phase.kernel[d] = p->count[d];
        phase.stride[d] = 1;
        phase.dilation[d] = p->step[d] * c->dilation[d] / c->stride[d];
        phase.padding[d] = (at[d] + c->padding[d] - p->first[d] * c->dilation[d]) / c->stride[d];
    }
    phase.h = (c->h + c->stride[0] - 1) / c->stride[0];
    phase.w = (c->w + c->stride[1] - 1) / c->stride[1];
    return charl__conv_input_gradient(&phase);
}

charl__gemm charl__conv_weight_gradient(const charl__conv *c, int64_t slices)
{
    const int64_t rows = c->batch / slices;
    const int64_t og = c->o / c->groups, cg = c->c / c->groups, taps = (int64_t)c->kernel[0] * c->kernel[1];
    const int64_t pixels = c->oh * c->ow, image = c->h * c->w;

    return (charl__gemm){.a = {.segment = c->o * pixels, .outer = rows * c->o * pixels, .inner = og * pixels},
                         .b = {.kind = is_pointwise(c) ? CHARL_GEMM_TRANSPOSED : CHARL_GEMM_WINDOW_T,
                               .segment = c->c * image,
                               .outer = rows * c->c * image,
                               .inner = cg * image},
                         .out = {.outer = c->o * cg * taps, .inner = og * cg * taps},
                         .m = og,
                         .n = cg * taps,
                         .k = rows > 0 ? pixels : 0,
                         .window = image_under_taps(c),
                         .segments = rows,
                         .count = slices * c->groups,
                         .inner = c->groups};
}
