/* channels: sums per channel, and the gradient of batch_norm, over x [rows, channels], images that lie channels-last.
 *
 *   charl_channel_sums      out[u][q][c] = sum over the rows of block u of its slice
 *                               WHAT 0: q = 0: (x - mean[c]) ^ 2
 *                               WHAT 1: q = 0: g          q = 1: g * ((x - mean[c]) * invstd[c])
 *                               WHAT 2: q = 0: x
 *                               WHAT 3: as 2, and moments[u][q][c] = q = 0: x          q = 1: (x - mean of the block) ^ 2
 *   charl_channel_squares   out[u][c] as WHAT 0, from moments
 *   charl_channel_gradient  out = (w * invstd) * ((g - sums[0][c] * scale) - d * (invstd * (sums[1][c] * scale))), d = x - mean[c]
 *
 * Specialised by   ACT, of x, g and the gradient; WHAT (default 0); WEIGHT: there is w, else it is 1 (default 0); and see prologue.clh
 * Launch           1-D; channels are a multiple of 8, and eight go to a work-item. Gradient: with up to `block` rows, ceil(rows / block) apart. Sums: a group of 256 per
 *                  block of `block` rows, of which a slice has `blocks`, and per `width` times eight channels; row r of a block goes to
 *                  line r mod `lines` of the group, a power of two and at most 256 / width. Squares: for one block.
 * Numerics         the rows of a line are added in ascending order (one sum at a time: registers decide how many groups run beside one
 *                  another); then the upper half of the lines is added to the lower half until one is left. Of x the difference from the line's first row is added, and
 *                  its square: what is lost when the line's mean is taken out of those is, of the result, at most about as many units in
 *                  the last place as the line has rows, for whatever first row. Two means are joined as Chan, Golub and LeVeque do ("Updating
 *                  formulae and a pairwise algorithm for computing sample variances", 1979), and so is the mean that is asked for.
 */
#define WHAT 0
#define WEIGHT 0
#define LANES 8
#define GROUP 256
#define QUANTITIES (WHAT == 2 ? 1 : 2) /* in local memory */

#include "norm/norm_args.h"
#include "shared/vec8.clh"
#include "norm/prologue.clh"

/* What is added for a row: of x less `mean`, with WHAT 1 the mean, else the line's first row. */
typedef struct {
    float8 a, b;
} terms;

static inline terms add_row(terms t, float8 x, float8 g, float8 mean, float8 invstd)
{
    const float8 d = x - mean;

    (void)g, (void)invstd; /* WHAT decides */
    if (WHAT == 1) {
        t.a = t.a + g;
        t.b = t.b + g * (d * invstd);
    } else {
        t.a = t.a + d;
        t.b = t.b + d * d;
    }
    return t;
}

/* 1 / n, or 0 for 0. */
static inline float inverse(float n)
{
    return n > 0.0f ? 1.0f / n : 0.0f;
}

/* Squares around `mean` of n values, from their sum and the squares around their own mean. */
static inline float8 squares_around(float8 mean, float8 sum, float8 squares, float n)
{
    const float8 d = sum * inverse(n) - mean;

    return squares + n * (d * d);
}

#define WITH_MOMENTS (WHAT == 0 || WHAT == 3)
#if WITH_MOMENTS
/* Squares around the common mean of n and m values. */
static inline float8 join_squares(float8 sum, float8 squares, float n, float8 other, float8 others, float m)
{
    const float8 d = other * inverse(m) - sum * inverse(n);

    return squares + others + n * m * inverse(n + m) * (d * d); /* n * m is 0 where there is no mean */
}
#endif

#if WHAT == 1
#define FETCH(got, g, i)  PROLOGUE_FETCH(got, g, i)
#define G_OF(to, got, x)  PROLOGUE_OF(to, got, x)
#else
#define FETCH(got, g, i)  (void)(got)
#define G_OF(to, got, x)  const float8 to = 0.0f
#endif

kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void
charl_channel_sums(PROLOGUE_ARGS global const ACT *x, ulong x_at, global const ACT *g, ulong g_at, global const float *mean, ulong mean_at,
                   global const float *invstd, ulong invstd_at, global float *out, ulong out_at, global float *moments, ulong moments_at,
                   const charl__norm_args p)
{
    const ulong rows = p.rows, channels = p.channels, blocks = p.blocks, block = p.block;
    const int width = p.width, lines = p.lines;
    local float8 sum[GROUP * QUANTITIES];
    local float count[GROUP]; /* rows of a line */
    const ulong across = (channels / LANES + (ulong)width - 1) / (ulong)width, u = get_group_id(0) / across;
    const int i = (int)get_local_id(0), line = i / width;
    const ulong c = (get_group_id(0) % across * (ulong)width + (ulong)(i % width)) * LANES;
    const ulong last = min((u % blocks + 1) * block, rows), first = u / blocks * rows * channels + c;
    const bool works = line < lines && c < channels;
    terms t = {0.0f, 0.0f};
    float8 m = 0.0f, v = 0.0f;
    ulong r = u % blocks * block + (ulong)line;
    const float n = r < last ? (float)((last - r - 1) / (ulong)lines + 1) : 0.0f;

    (void)g, (void)g_at, (void)mean, (void)mean_at, (void)invstd, (void)invstd_at, (void)moments, (void)moments_at; /* WHAT and PROLOGUE decide */
    x += x_at;
    if (WHAT == 1) {
        m = works ? vload8(0, mean + mean_at + c) : 0.0f;
        v = works ? vload8(0, invstd + invstd_at + c) : 0.0f;
    } else {
        m = works && r < last ? get8(x + first + r * channels) : 0.0f;
    }
    PROLOGUE_CHANNELS(works ? c : 0);
    for (; works && r + 3 * (ulong)lines < last; r += 4 * (ulong)lines) { /* four rows are read before the first is added */
        float8 a[4];
        fetched b[4];

#pragma unroll
        for (int k = 0; k < 4; k++) {
            a[k] = get8(x + first + (r + (ulong)(k * lines)) * channels);
            FETCH(b[k], g, first + (r + (ulong)(k * lines)) * channels);
        }
#pragma unroll
        for (int k = 0; k < 4; k++) {
            G_OF(gk, b[k], a[k]);
            t = add_row(t, a[k], gk, m, v);
        }
    }
#pragma unroll
    for (int k = 0; k < 3; k++) {
        const ulong at = first + (r + (ulong)(k * lines)) * channels;

        if (works && r + (ulong)(k * lines) < last) {
            const float8 a = get8(x + at);
            fetched b;

            FETCH(b, g, at);
            G_OF(gk, b, a);
            t = add_row(t, a, gk, m, v);
        }
    }
    sum[i] = t.a;
    if (WHAT != 2) {
        sum[GROUP + i] = t.b;
    }
    if (WITH_MOMENTS) {
        const float8 around = sum[GROUP + i] - sum[i] * sum[i] * inverse(n);

        sum[GROUP + i] = select(around, (float8)(0.0f), around < 0.0f); /* a NaN stays */
    }
    if (WHAT != 1) {
        sum[i] = n * m + sum[i];
    }
    count[i] = n;
    for (int s = lines / 2; s > 0; s /= 2) {
        const int o = i + s * width;

        barrier(CLK_LOCAL_MEM_FENCE);
        if (line < s) {
#if WHAT == 1
            sum[GROUP + i] = sum[GROUP + i] + sum[GROUP + o];
#elif WITH_MOMENTS
            sum[GROUP + i] = join_squares(sum[i], sum[GROUP + i], count[i], sum[o], sum[GROUP + o], count[o]);
#endif
            sum[i] = sum[i] + sum[o];
            count[i] = count[i] + count[o];
        }
    }
    if (works && line == 0) {
        if (WHAT == 0) {
            vstore8(squares_around(vload8(0, mean + mean_at + c), sum[i], sum[GROUP + i], count[i]), 0, out + out_at + u * channels + c);
        } else if (WHAT == 1) {
            vstore8(sum[i], 0, out + out_at + 2 * u * channels + c);
            vstore8(sum[GROUP + i], 0, out + out_at + (2 * u + 1) * channels + c);
        } else {
            vstore8(sum[i], 0, out + out_at + u * channels + c);
        }
#if WHAT == 3
        vstore8(sum[i], 0, moments + moments_at + 2 * u * channels + c);
        vstore8(sum[GROUP + i], 0, moments + moments_at + (2 * u + 1) * channels + c);
#endif
    }
}

/* A work-item per eight channels of a block. */
kernel void charl_channel_squares(global const float *moments, ulong moments_at, global const float *mean, ulong mean_at,
                                  global float *out, ulong out_at, ulong units, ulong rows, ulong channels, ulong blocks, ulong block)
{
    const ulong groups = channels / LANES, u = get_global_id(0) / groups, c = get_global_id(0) % groups * LANES;

    if (u >= units) {
        return;
    }
    global const float *const of = moments + moments_at + 2 * u * channels + c;
    const ulong begin = u % blocks * block;

    vstore8(squares_around(vload8(0, mean + mean_at + c), vload8(0, of), vload8(0, of + channels), (float)(min(begin + block, rows) - begin)),
            0, out + out_at + u * channels + c);
}

kernel void charl_channel_gradient(PROLOGUE_ARGS global const ACT *x, ulong x_at, global const ACT *g, ulong g_at, global const float *mean,
                                   ulong mean_at, global const float *invstd, ulong invstd_at, global const float *w, ulong w_at,
                                   global const float *sums, ulong sums_at, global ACT *out, ulong out_at, const charl__norm_args p)
{
    const ulong rows = p.rows, channels = p.channels, block = p.block;
    const float scale = p.scale;
    const ulong groups = channels / LANES, c = get_global_id(0) % groups * LANES;
    const ulong first = get_global_id(0) / groups, step = (rows + block - 1) / block; /* adjacent work-items read adjacent rows */

    (void)w, (void)w_at, (void)g, (void)g_at; /* WEIGHT and PROLOGUE decide */
    if (first >= step) {
        return;
    }
    const float8 m = vload8(0, mean + mean_at + c), v = vload8(0, invstd + invstd_at + c);
    const float8 s0 = vload8(0, sums + sums_at + c) * scale, s1 = vload8(0, sums + sums_at + channels + c) * scale;
#if WEIGHT
    const float8 weight = vload8(0, w + w_at + c);
#else
    const float8 weight = 1.0f;
#endif
    const float8 f = weight * v, slope = v * s1;
    PROLOGUE_CHANNELS(c);
    for (ulong r = first; r < rows; r += 2 * step) { /* two rows are read before the first is written */
        float8 a[2] = {0.0f, 0.0f};
        fetched b[2];

#pragma unroll
        for (int k = 0; k < 2; k++) {
            const ulong i = (r + (ulong)k * step < rows ? r + (ulong)k * step : r) * channels + c;

            a[k] = get8(x + x_at + i);
            PROLOGUE_FETCH(b[k], g, i);
        }
#pragma unroll
        for (int k = 0; k < 2; k++) {
            PROLOGUE_OF(gk, b[k], a[k]);
            if (r + (ulong)k * step < rows) {
                put8(f * (gk - s0 - (a[k] - m) * slope), out + out_at + (r + (ulong)k * step) * channels + c);
            }
        }
    }
}
