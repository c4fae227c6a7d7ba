/* channels: sums per channel, and the gradient of batch_norm, over x [rows, channels], images that lie channels-last.
 *
 *   charl_channel_sums      out[u][q][c] = sum over the rows of block u of its slice, with d = x - mean[c], of
 *                               WHAT 0: q = 0: d * d
 *                               WHAT 1: q = 0: g          q = 1: g * (d * invstd[c])
 *                               WHAT 2: q = 0: x
 *   charl_channel_gradient  out = (w * invstd) * ((g - sums[0][c] * scale) - (d * invstd) * (sums[1][c] * scale))
 *
 * Specialised by   ACT, of x, g and the gradient; WHAT (default 0); WEIGHT: there is w, else it is 1 (default 0)
 * Launch           1-D; channels are a multiple of 8, and eight go to a work-item. Gradient: with `block` rows. Sums: a group of 256 per
 *                  block of `block` rows, of which a slice has `blocks`, and per `width` times eight channels; row r of a block goes to
 *                  line r mod `lines` of the group, a power of two and at most 256 / width.
 * Numerics         the rows of a line go to its accumulators 0, 1, 2, 3 in turn, which are added as (0 + 2) + (1 + 3); then the upper half
 *                  of the lines is added to the lower half until one is left.
 */
#ifndef WHAT
#define WHAT 0
#endif
#ifndef WEIGHT
#define WEIGHT 0
#endif
#define LANES 8
#define GROUP 256
#define QUANTITIES (WHAT == 1 ? 2 : 1)

#include "eight.clh"

/* What is added for a row. */
typedef struct {
    float8 a, b;
} terms;

static inline terms add_row(terms t, float8 x, float8 g, float8 mean, float8 invstd)
{
    (void)g, (void)mean, (void)invstd; /* WHAT decides */
#if WHAT == 2
    t.a = t.a + x;
#elif WHAT == 1
    t.a = t.a + g;
    t.b = t.b + g * ((x - mean) * invstd);
#else
    t.a = t.a + (x - mean) * (x - mean);
#endif
    return t;
}

#if WHAT == 1
#define GET_G(i) get8(g + (i))
#else
#define GET_G(i) ((float8)(0.0f))
#endif

kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void
charl_channel_sums(global const ACT *x, ulong x_at, global const ACT *g, ulong g_at, global const float *mean, ulong mean_at,
                   global const float *invstd, ulong invstd_at, global float *out, ulong out_at, ulong rows, ulong channels,
                   ulong blocks, ulong block, int width, int lines)
{
    local float8 sum[GROUP * QUANTITIES];
    const ulong across = (channels / LANES + (ulong)width - 1) / (ulong)width, u = get_group_id(0) / across;
    const int i = (int)get_local_id(0), line = i / width;
    const ulong c = (get_group_id(0) % across * (ulong)width + (ulong)(i % width)) * LANES;
    const ulong last = min((u % blocks + 1) * block, rows);
    const bool works = line < lines && c < channels;
    terms t[4] = {{0.0f, 0.0f}, {0.0f, 0.0f}, {0.0f, 0.0f}, {0.0f, 0.0f}};
    float8 m = 0.0f, v = 0.0f;

    (void)g, (void)mean, (void)mean_at, (void)invstd, (void)invstd_at; /* WHAT decides */
#if WHAT < 2
    m = works ? vload8(0, mean + mean_at + c) : 0.0f;
#endif
#if WHAT == 1
    v = works ? vload8(0, invstd + invstd_at + c) : 0.0f;
#endif
    x += x_at + u / blocks * rows * channels + c;
    g += g_at + u / blocks * rows * channels + c;
    ulong r = u % blocks * block + (ulong)line;
    for (; works && r + 3 * (ulong)lines < last; r += 4 * (ulong)lines) { /* four rows are read before the first is added */
        float8 a[4], b[4];

#pragma unroll
        for (int k = 0; k < 4; k++) {
            a[k] = get8(x + (r + (ulong)(k * lines)) * channels);
            b[k] = GET_G((r + (ulong)(k * lines)) * channels);
        }
#pragma unroll
        for (int k = 0; k < 4; k++) {
            t[k] = add_row(t[k], a[k], b[k], m, v);
        }
    }
#pragma unroll
    for (int k = 0; k < 3; k++) {
        const ulong at = (r + (ulong)(k * lines)) * channels;

        if (works && r + (ulong)(k * lines) < last) {
            t[k] = add_row(t[k], get8(x + at), GET_G(at), m, v);
        }
    }
    sum[i] = (t[0].a + t[2].a) + (t[1].a + t[3].a);
#if WHAT == 1
    sum[GROUP + i] = (t[0].b + t[2].b) + (t[1].b + t[3].b);
#endif
    for (int s = lines / 2; s > 0; s /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int q = 0; q < QUANTITIES && line < s; q++) {
            sum[q * GROUP + i] = sum[q * GROUP + i] + sum[q * GROUP + i + s * width];
        }
    }
    for (int q = 0; q < QUANTITIES && works && line == 0; q++) {
        vstore8(sum[q * GROUP + i], 0, out + out_at + (u * QUANTITIES + (ulong)q) * channels + c);
    }
}

kernel void charl_channel_gradient(global const ACT *x, ulong x_at, global const ACT *g, ulong g_at, global const float *mean,
                                   ulong mean_at, global const float *invstd, ulong invstd_at, global const float *w, ulong w_at,
                                   global const float *sums, ulong sums_at, global ACT *out, ulong out_at, ulong rows,
                                   ulong channels, ulong block, float scale)
{
    const ulong groups = channels / LANES, c = get_global_id(0) % groups * LANES;
    const ulong first = get_global_id(0) / groups * block, last = min(first + block, rows);

    (void)w, (void)w_at; /* WEIGHT decides */
    if (first >= rows) {
        return;
    }
    const float8 m = vload8(0, mean + mean_at + c), v = vload8(0, invstd + invstd_at + c);
    const float8 s0 = vload8(0, sums + sums_at + c) * scale, s1 = vload8(0, sums + sums_at + channels + c) * scale;
#if WEIGHT
    const float8 f = vload8(0, w + w_at + c);
#else
    const float8 f = 1.0f;
#endif
    for (ulong r = first; r < last; r++) {
        const ulong i = r * channels + c;

        put8(f * v * (get8(g + g_at + i) - s0 - (get8(x + x_at + i) - m) * v * s1), out + out_at + i);
    }
}
