/* augment2d: each sample of x [B, C, H, W] turned, shifted, mirrored and cut out by amounts of its own.
 *
 * Sample `row` of the global batch draws two random blocks (common.clh), at positions 2 row and 2 row + 1; the key is the
 * seed of the step record combined with name_hash:
 *
 *   block 0   word 0 mirrored where its top bit is set   1, 2 shift along y, x   3 angle   uniform in [-limit, limit]
 *   block 1   word 0, 1 centre y, x of the square cut out, uniform over the picture
 *
 * charl_augment2d_draw writes them as PARAMETERS floats per sample; charl_augment2d reads, for each element of out, the
 * element of x that comes to lie there, interpolating between four where the picture is turned. What lies outside the
 * picture is a value of 0 before normalisation, (0 - shift[c]) * scale[c]; the square is 0 after it, the mean.
 *
 * Specialised by   ROTATE  0|1: exact copies, or bilinear interpolation (default 1)
 *                  CUTOUT  side of the square in elements (default 0: none)
 *                  FILL    0|1: shift and scale are there, else outside is 0 (default 0)
 * Launch           draw: one work-item per sample. augment: {H * W rounded up to 64, B}, work-group {64, 1}.
 * Numerics         copies are exact; interpolation is 3 lerps with fma; sine and cosine are good to 2 ulp of 1.
 */
#define ROTATE 1
#define CUTOUT 0
#define FILL 0
#define PARAMETERS 8

/* Uniform in 0 .. n - 1. */
static inline int below(uint word, int n)
{
    return (int)mul_hi(word, (uint)n);
}

/* Sine and cosine of |angle| <= pi, by Taylor series of the half angle. */
static inline void turn(float angle, float *sine, float *cosine)
{
    const float h = 0.5f * angle, z = h * h;
    float s = fma(z, -2.5052108e-8f, 2.7557319e-6f), c = fma(z, 2.0876757e-9f, -2.7557319e-7f);

    s = fma(z, s, -1.9841270e-4f);
    s = fma(z, s, 8.3333333e-3f);
    s = fma(z, s, -1.6666667e-1f);
    s = h * fma(z, s, 1.0f);
    c = fma(z, c, 2.4801587e-5f);
    c = fma(z, c, -1.3888889e-3f);
    c = fma(z, c, 4.1666667e-2f);
    c = fma(z, c, -0.5f);
    c = fma(z, c, 1.0f);
    *sine = 2.0f * s * c;
    *cosine = 1.0f - 2.0f * s * s;
}

/* row0: of the global batch; where reversed_rows is not 0, a row takes the draws of reversed_rows - 1 - row. */
kernel void charl_augment2d_draw(global const uint *record, ulong record_at, global float *out, ulong out_at, long rows,
                                 long row0, long reversed_rows, ulong name_hash, int crop, float limit, int h, int w)
{
    global const charl_step_params *step = charl_step_at(record, record_at);
    const ulong key = ((ulong)step->seed_hi << 32 | step->seed_lo) ^ name_hash;
    const ulong number = (ulong)step->step_hi << 32 | step->step_lo;
    const long r = (long)get_global_id(0), at = row0 + r;
    const ulong row = (ulong)(reversed_rows ? reversed_rows - 1 - at : at);
    uint a[4], b[4];
    float sine, cosine;

    if (r >= rows) {
        return;
    }
    charl_rng_u32x4(key, number, 2 * row, a);
    charl_rng_u32x4(key, number, 2 * row + 1, b);
    out += out_at + r * PARAMETERS;
    out[0] = (float)(a[0] >> 31);
    out[1] = (float)(below(a[1], 2 * crop + 1) - crop);
    out[2] = (float)(below(a[2], 2 * crop + 1) - crop);
    turn(limit * (2.0f * charl_rng_unit(a[3]) - 1.0f), &sine, &cosine);
    out[3] = sine;
    out[4] = cosine;
    out[5] = (float)(below(b[0], h) - CUTOUT / 2);
    out[6] = (float)(below(b[1], w) - CUTOUT / 2);
}

/* Element (y, x) of a channel, or what lies outside. */
static inline float pixel(global const float *x, int row, int column, int h, int w, float outside)
{
    return row >= 0 && row < h && column >= 0 && column < w ? x[(long)row * w + column] : outside;
}

/* Between four neighbours; y and x may lie far outside. */
static inline float sample(global const float *p, float y, float x, int h, int w, float outside)
{
    const float top = floor(y), left = floor(x), fy = y - top, fx = x - left;
    const int row = (int)clamp(top, -2.0f, (float)h), column = (int)clamp(left, -2.0f, (float)w);
    const float v00 = pixel(p, row, column, h, w, outside), v01 = pixel(p, row, column + 1, h, w, outside);
    const float v10 = pixel(p, row + 1, column, h, w, outside), v11 = pixel(p, row + 1, column + 1, h, w, outside);
    const float upper = fma(fx, v01, (1.0f - fx) * v00), lower = fma(fx, v11, (1.0f - fx) * v10);

    return fma(fy, lower, (1.0f - fy) * upper);
}

kernel void charl_augment2d(global const float *x, ulong x_at,
#if FILL
                            global const float *shift, ulong shift_at, global const float *scale, ulong scale_at, int fills,
#endif
                            global const float *drawn, ulong drawn_at, global float *out, ulong out_at, int channels, int h,
                            int w, int mirror)
{
    const int i = (int)get_global_id(0);
    const ulong r = get_global_id(1), plane = (ulong)h * (ulong)w;
    global const float *p = drawn + drawn_at + r * PARAMETERS;
    const int row = i / w, column = i % w;
    const int from_y = row + (int)p[1], from_x = (mirror && p[0] != 0.0f ? w - 1 - column : column) + (int)p[2];

    if (i >= h * w) {
        return;
    }
    x += x_at + r * (ulong)channels * plane;
    out += out_at + r * (ulong)channels * plane + (ulong)i;
#if CUTOUT
    const int cut_y = row - (int)p[5], cut_x = column - (int)p[6];
    const bool cut = cut_y >= 0 && cut_y < CUTOUT && cut_x >= 0 && cut_x < CUTOUT;
#else
    const bool cut = false;
#endif
#if ROTATE
    const float centre_y = 0.5f * (float)(h - 1), centre_x = 0.5f * (float)(w - 1);
    const float dy = (float)from_y - centre_y, dx = (float)from_x - centre_x;
    const float y = fma(p[3], dx, fma(p[4], dy, centre_y)), z = fma(p[4], dx, fma(-p[3], dy, centre_x));
#endif
    for (int c = 0; c < channels; c++) {
        float outside = 0.0f, v;
#if FILL
        const int f = fills > 1 ? c : 0;

        outside = (0.0f - shift[shift_at + f]) * scale[scale_at + f];
#endif
#if ROTATE
        v = sample(x + (ulong)c * plane, y, z, h, w, outside);
#else
        v = pixel(x + (ulong)c * plane, from_y, from_x, h, w, outside);
#endif
        out[(ulong)c * plane] = cut ? 0.0f : v;
    }
}
