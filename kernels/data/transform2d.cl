/* transform2d: one change per sample of images x [B, C, H, W] of 256 levels, 0 to `white`; C is 1 or 3 (red, green, blue).
 *
 * Level v of an element is charl_rint(x * 255 / white), cut to [0, 255]; out is a level * white / 255. kind[r, index] and the 6 numbers
 * amount[r, index] say what becomes of sample r; gray = floor(0.2989 red + 0.587 green + 0.114 blue), or v where C is 1:
 *
 *   0 none         v
 *   1 brightness   floor(a0 v)
 *   2 contrast     floor(a0 v + (1 - a0) mean of gray)
 *   3 posterize    the a0 highest of the 8 bits of v
 *   4 solarize     v < 255 a0 ? v : 255 - v
 *   5 autocontrast the levels of each channel stretched to 0 .. 255
 *   6 equalize     (pixels of the channel below v + step / 2) / step, step = (pixels below the highest level) / 255, in integers;
 *                  v where step is 0
 *   7 saturation   floor(a0 v + (1 - a0) gray)
 *   8 hue          turned by a0 of the circle; floor(255.999 of the value)
 *   9 sharpness    floor(a0 v + (1 - a0) charl_rint(mean of the 3 x 3 pixels about it, itself weighted 5)); v on the rim
 *  10 affine       rint of x at (a0 dx + a1 dy + a2, a3 dx + a4 dy + a5), bilinear, 0 outside; dx, dy: column and row from the centre
 *
 * Results are cut to [0, 255], NaN to 0. 1 to 6 map levels to levels: charl_transform2d_curve writes what becomes of each, [B, C, 256], and
 * charl_transform2d reads it.
 *
 * Launch      curve: {64 channels, samples}, work-groups of {64, 1}. transform: {H * W rounded up to 64, samples}, {64, 1}.
 * Numerics    integers where the formula has them; counts by local atomics on integers, so their order does not matter.
 */
#define LEVELS 256
#define AMOUNTS 6
#define BRIGHTNESS 1
#define CONTRAST 2
#define POSTERIZE 3
#define SOLARIZE 4
#define AUTOCONTRAST 5
#define EQUALIZE 6
#define SATURATION 7
#define HUE 8
#define SHARPNESS 9
#define AFFINE 10

static inline int level_of(float x, float per_white)
{
    return (int)fmin(fmax(charl_rint(x * per_white), 0.0f), 255.0f);
}

static inline int cut(float v)
{
    return (int)fmin(fmax(v, 0.0f), 255.0f);
}

/* a v + (1 - a) other; v itself where the two are equal. */
static inline int blend(float a, int v, float other)
{
    return cut(fma(a, (float)v - other, other));
}

/* Of the pixel at p; channels are `plane` elements apart. */
static inline int gray_of(global const float *p, ulong plane, int channels, float per_white)
{
    return channels == 1 ? level_of(p[0], per_white)
                         : (2989 * level_of(p[0], per_white) + 5870 * level_of(p[plane], per_white) +
                            1140 * level_of(p[2 * plane], per_white)) /
                               10000;
}

/* What becomes of level v; count: the pixels of each level, NULL where the kind does not ask. */
static inline int curve(int kind, float a, int v, local const uint count[static LEVELS])
{
    uint all = 0, below = 0, step;
    float sum = 0.0f;
    int low = LEVELS, high = 0;

    if (kind == BRIGHTNESS) {
        return cut(a * (float)v);
    }
    if (kind == POSTERIZE) {
        return v & (255 << (8 - (int)fmin(fmax(a, 0.0f), 8.0f)));
    }
    if (kind == SOLARIZE) {
        return (float)v < 255.0f * a ? v : 255 - v;
    }
    for (int i = 0; i < LEVELS; i++) {
        const uint n = count[i];

        all += n;
        below += i < v ? n : 0;
        sum = fma((float)n, (float)i, sum);
        low = n > 0 ? min(low, i) : low;
        high = n > 0 ? i : high;
    }
    if (kind == CONTRAST) {
        return blend(a, v, sum / (float)all);
    }
    if (kind == AUTOCONTRAST) {
        return high > low ? (int)clamp((v - low) * 255 / (high - low), 0, 255) : v;
    }
    step = (all - count[high]) / 255;
    return step > 0 ? (int)min((below + step / 2) / step, 255u) : v;
}

kernel void charl_transform2d_curve(global const float *x, ulong x_at, global const int *kinds, ulong kinds_at,
                                    global const float *amounts, ulong amounts_at, global float *curves, ulong curves_at, int n,
                                    int index, int of, float per_white)
{
    local uint count[LEVELS];
    const int id = (int)get_local_id(0), channels = (int)(get_global_size(0) / 64), c = (int)get_group_id(0);
    const ulong r = get_global_id(1), plane = (ulong)n;
    const int kind = kinds[kinds_at + r * (ulong)of + (ulong)index];
    const float a = amounts[amounts_at + (r * (ulong)of + (ulong)index) * AMOUNTS];

    if (kind < BRIGHTNESS || kind > EQUALIZE) {
        return;
    }
    for (int i = id; i < LEVELS; i += 64) {
        count[i] = 0;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (kind == CONTRAST || kind >= AUTOCONTRAST) {
        x += x_at + r * (ulong)channels * plane;
        for (int i = id; i < n; i += 64) {
            atomic_inc(&count[kind == CONTRAST ? gray_of(x + i, plane, channels, per_white)
                                               : level_of(x[(ulong)c * plane + (ulong)i], per_white)]);
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int v = id; v < LEVELS; v += 64) {
        curves[curves_at + (r * (ulong)channels + (ulong)c) * LEVELS + (ulong)v] = (float)curve(kind, a, v, count);
    }
}

/* Channel c of a pixel whose hue is turned by a of the circle; v: its levels. */
static inline int turned(const int v[3], float a, int c)
{
    const float red = (float)v[0] / 255.0f, green = (float)v[1] / 255.0f, blue = (float)v[2] / 255.0f;
    const float most = fmax(red, fmax(green, blue)), range = most - fmin(red, fmin(green, blue));
    const float safe = range > 0.0f ? range : 1.0f;
    float h, f;

    h = most == red ? (green - blue) / safe : most == green ? 2.0f + (blue - red) / safe : 4.0f + (red - green) / safe;
    /* of channel c, in sixths: full within 1 of its own hue, none from 2 on */
    f = h + 6.0f * a - 2.0f * (float)c + 3.0f;
    f = fabs(f - 6.0f * floor(f / 6.0f) - 3.0f);
    return cut((most - range * fmin(fmax(f - 1.0f, 0.0f), 1.0f)) * 255.999f);
}

static inline float level_at(global const float *p, int row, int column, int h, int w, float per_white)
{
    return row >= 0 && row < h && column >= 0 && column < w ? (float)level_of(p[(long)row * w + column], per_white) : 0.0f;
}

/* Between four pixels; y and x may lie far outside. */
static inline float between(global const float *p, float y, float x, int h, int w, float per_white)
{
    const float top = floor(y), left = floor(x), fy = y - top, fx = x - left;
    const int row = (int)fmin(fmax(top, -2.0f), (float)h), column = (int)fmin(fmax(left, -2.0f), (float)w);
    const float upper = fma(fx, level_at(p, row, column + 1, h, w, per_white),
                            (1.0f - fx) * level_at(p, row, column, h, w, per_white));
    const float lower = fma(fx, level_at(p, row + 1, column + 1, h, w, per_white),
                            (1.0f - fx) * level_at(p, row + 1, column, h, w, per_white));

    return fma(fy, lower, (1.0f - fy) * upper);
}

/* The 3 x 3 pixels about one that is not on the rim. */
static inline float blurred(global const float *p, int row, int column, int w, float per_white)
{
    int sum = 4 * level_of(p[(long)row * w + column], per_white);

    for (int i = -1; i <= 1; i++) {
        for (int j = -1; j <= 1; j++) {
            sum += level_of(p[(long)(row + i) * w + column + j], per_white);
        }
    }
    return (float)((2 * sum + 13) / 26); /* sum / 13, rounded; there are no ties */
}

kernel void charl_transform2d(global const float *x, ulong x_at, global const int *kinds, ulong kinds_at,
                              global const float *amounts, ulong amounts_at, global const float *curves, ulong curves_at,
                              global float *out, ulong out_at, int channels, int h, int w, int index, int of, float white)
{
    const int i = (int)get_global_id(0), row = i / w, column = i % w;
    const ulong r = get_global_id(1), plane = (ulong)h * (ulong)w;
    const int kind = kinds[kinds_at + r * (ulong)of + (ulong)index];
    const float per_white = 255.0f / white;
    global const float *a = amounts + amounts_at + (r * (ulong)of + (ulong)index) * AMOUNTS;
    const bool rim = row == 0 || row == h - 1 || column == 0 || column == w - 1;
    int v[3], gray;

    if (i >= h * w) {
        return;
    }
    x += x_at + r * (ulong)channels * plane;
    out += out_at + r * (ulong)channels * plane + (ulong)i;
    for (int c = 0; c < 3; c++) {
        v[c] = level_of(x[(ulong)(c < channels ? c : 0) * plane + (ulong)i], per_white);
    }
    gray = gray_of(x + i, plane, channels, per_white);
    for (int c = 0; c < channels; c++) {
        global const float *p = x + (ulong)c * plane;
        int to = v[c];

        if (kind >= BRIGHTNESS && kind <= EQUALIZE) {
            to = (int)curves[curves_at + (r * (ulong)channels + (ulong)c) * LEVELS + (ulong)to];
        } else if (kind == SATURATION) {
            to = blend(a[0], to, (float)gray);
        } else if (kind == HUE && channels == 3) {
            to = turned(v, a[0], c);
        } else if (kind == SHARPNESS && !rim) {
            to = blend(a[0], to, blurred(p, row, column, w, per_white));
        } else if (kind == AFFINE) {
            const float centre_x = 0.5f * (float)(w - 1), centre_y = 0.5f * (float)(h - 1);
            const float dx = (float)column - centre_x, dy = (float)row - centre_y;
            const float from_x = fma(a[0], dx, fma(a[1], dy, a[2] + centre_x));
            const float from_y = fma(a[3], dx, fma(a[4], dy, a[5] + centre_y));

            to = cut(charl_rint(between(p, from_y, from_x, h, w, per_white)));
        }
        out[(ulong)c * plane] = (float)to * (white / 255.0f);
    }
}
