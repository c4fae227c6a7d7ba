/* Images of digits that look handwritten. Points of a glyph are jittered, connected by curves, distorted
 * (rotation, shear, scale, shift, and a smooth random displacement of the plane), drawn as thick
 * antialiased lines, and covered with clutter and noise: too much distortion for a linear model,
 * little enough for a small convolutional one. */
#include <math.h>
#include <string.h>

#include "base/numeric/hash.h"
#include "data/make/make_private.h"

enum { SIZE = CHARL__DIGIT_SIZE, STEPS = 6, GRID = 4 };

typedef struct warp {
    double m[2][2];
    double shift[2];
    double field[GRID][GRID][2]; /* displacement in pixels at the nodes of a grid over the image */
} warp;

charl__draw charl__draw_begin(uint64_t seed, uint64_t sample, const char *name)
{
    return (charl__draw){.rng = charl__rng_key(seed, sample, charl__fnv1a64_string(name))};
}

uint32_t charl__draw_u32(charl__draw *d)
{
    if (d->left == 0) {
        charl__rng_u32x4(&d->rng, d->position++, d->block);
        d->left = 4;
    }
    return d->block[--d->left];
}

double charl__draw_uniform(charl__draw *d, double lo, double hi)
{
    return lo + (hi - lo) * ((double)(charl__draw_u32(d) >> 8) * 0x1p-24);
}

double charl__draw_bell(charl__draw *d)
{
    double sum = -2;

    for (int i = 0; i < 4; i++) {
        sum += charl__draw_uniform(d, 0, 1);
    }
    return sum * 1.7320508075688772; /* sqrt(3): the variance of the sum is 4/12 */
}

static warp draw_warp(charl__draw *d)
{
    warp w;
    const double t = charl__draw_uniform(d, -0.22, 0.22); /* tangent of half the angle: +-25 degrees */
    const double c = (1 - t * t) / (1 + t * t);
    const double s = 2 * t / (1 + t * t);
    const double shear = charl__draw_uniform(d, -0.3, 0.3);
    const double sx = charl__draw_uniform(d, 8.5, 15);
    const double sy = charl__draw_uniform(d, 13, 20);

    w.m[0][0] = c * sx;
    w.m[0][1] = (c * shear - s) * sy;
    w.m[1][0] = s * sx;
    w.m[1][1] = (s * shear + c) * sy;
    for (int i = 0; i < 2; i++) {
        w.shift[i] = SIZE / 2.0 + charl__draw_uniform(d, -3.2, 3.2);
    }
    for (int i = 0; i < GRID; i++) {
        for (int j = 0; j < GRID; j++) {
            w.field[i][j][0] = 0.8 * charl__draw_bell(d);
            w.field[i][j][1] = 0.8 * charl__draw_bell(d);
        }
    }
    return w;
}

static double between(double v, double lo, double hi)
{
    return v < lo ? lo : v > hi ? hi : v;
}

/* A point of the unit square, in pixels. */
static void apply(const warp *w, const double in[2], double out[2])
{
    double p[2];
    double u[2];
    int cell[2];

    for (int i = 0; i < 2; i++) {
        p[i] = w->m[i][0] * (in[0] - 0.5) + w->m[i][1] * (in[1] - 0.5) + w->shift[i];
        u[i] = between(p[i] / SIZE, 0, 1) * (GRID - 1);
        cell[i] = u[i] >= GRID - 2 ? GRID - 2 : (int)u[i];
        u[i] -= cell[i];
    }
    for (int i = 0; i < 2; i++) {
        const double top = w->field[cell[1]][cell[0]][i] * (1 - u[0]) + w->field[cell[1]][cell[0] + 1][i] * u[0];
        const double low =
            w->field[cell[1] + 1][cell[0]][i] * (1 - u[0]) + w->field[cell[1] + 1][cell[0] + 1][i] * u[0];

        out[i] = p[i] + top * (1 - u[1]) + low * u[1];
    }
}

/* The line a-b, `width` pixels wide, over the image; coverage falls from 1 to 0 across one
 * pixel at the edge. */
static void draw_line(double *canvas, const double a[2], const double b[2], double width, double ink)
{
    const double reach = width / 2 + 1;
    const double d[2] = {b[0] - a[0], b[1] - a[1]};
    const double length2 = d[0] * d[0] + d[1] * d[1];
    int lo[2];
    int hi[2];

    for (int i = 0; i < 2; i++) {
        lo[i] = (int)between((a[i] < b[i] ? a[i] : b[i]) - reach, 0, SIZE);
        hi[i] = (int)between((a[i] > b[i] ? a[i] : b[i]) + reach + 1, 0, SIZE);
    }
    for (int y = lo[1]; y < hi[1]; y++) {
        for (int x = lo[0]; x < hi[0]; x++) {
            const double p[2] = {x + 0.5 - a[0], y + 0.5 - a[1]};
            const double t = length2 > 0 ? between((p[0] * d[0] + p[1] * d[1]) / length2, 0, 1) : 0;
            const double e[2] = {p[0] - t * d[0], p[1] - t * d[1]};
            const double far = sqrt(e[0] * e[0] + e[1] * e[1]);
            const double cover = ink * between(width / 2 + 0.5 - far, 0, 1);

            if (cover > canvas[y * SIZE + x]) {
                canvas[y * SIZE + x] = cover;
            }
        }
    }
}

/* Point at t in [0,1] of the Catmull-Rom segment from p[1] to p[2]. */
static void curve(const double *const p[4], double t, double out[2])
{
    for (int i = 0; i < 2; i++) {
        const double a = 2 * p[1][i];
        const double b = p[2][i] - p[0][i];
        const double c = 2 * p[0][i] - 5 * p[1][i] + 4 * p[2][i] - p[3][i];
        const double e = 3 * p[1][i] - p[0][i] - 3 * p[2][i] + p[3][i];

        out[i] = 0.5 * (a + t * (b + t * (c + t * e)));
    }
}

static void draw_stroke(double *canvas, const charl__stroke *s, const warp *w, double width, double ink)
{
    double from[2];

    apply(w, s->at[0], from);
    for (int k = 0; k + 1 < s->n; k++) {
        const double *const p[4] = {s->at[k > 0 ? k - 1 : 0], s->at[k], s->at[k + 1],
                                    s->at[k + 2 < s->n ? k + 2 : k + 1]};

        for (int i = 1; i <= STEPS; i++) {
            const double t = (double)i / STEPS;
            double at[2] = {p[1][0] + t * (p[2][0] - p[1][0]), p[1][1] + t * (p[2][1] - p[1][1])};
            double to[2];

            if (s->curved) {
                curve(p, t, at);
            }
            apply(w, at, to);
            draw_line(canvas, from, to, width, ink);
            memcpy(from, to, sizeof from);
        }
    }
}

/* Short thin lines anywhere, fainter than the digit. */
static void draw_clutter(charl__draw *d, double *canvas)
{
    const int n = (int)charl__draw_uniform(d, 0, 4);

    for (int k = 0; k < n; k++) {
        const double a[2] = {charl__draw_uniform(d, 0, SIZE), charl__draw_uniform(d, 0, SIZE)};
        const double b[2] = {a[0] + charl__draw_uniform(d, -6, 6), a[1] + charl__draw_uniform(d, -6, 6)};

        draw_line(canvas, a, b, charl__draw_uniform(d, 0.5, 1.5), charl__draw_uniform(d, 0.2, 0.6));
    }
}

static void add_noise(charl__draw *d, const double *canvas, unsigned char *pixels)
{
    const double amount = charl__draw_uniform(d, 0, 0.15);
    uint32_t word = 0;

    for (int i = 0; i < SIZE * SIZE; i++) {
        word = i % 4 == 0 ? charl__draw_u32(d) : word >> 8;
        pixels[i] = (unsigned char)(between(canvas[i] + amount * ((double)(word & 255) / 128 - 1), 0, 1) * 255 + 0.5);
    }
}

/* One of the ways to write `digit`, each equally likely. */
static const charl__glyph *choose_glyph(charl__draw *d, int digit)
{
    int first = 0;
    int n = 0;

    while (charl__glyphs[first].digit != digit) {
        first++;
    }
    while (first + n < charl__n_glyphs && charl__glyphs[first + n].digit == digit) {
        n++;
    }
    return &charl__glyphs[first + (int)(charl__draw_u32(d) % (uint32_t)n)];
}

int charl__digit_draw(charl__draw *d, unsigned char *pixels)
{
    const int digit = (int)(charl__draw_u32(d) % 10);
    charl__glyph glyph = *choose_glyph(d, digit);
    const warp w = draw_warp(d);
    const double width = charl__draw_uniform(d, 1.3, 3.4);
    const double ink = charl__draw_uniform(d, 0.65, 1);
    double canvas[SIZE * SIZE] = {0};

    draw_clutter(d, canvas);
    for (int s = 0; s < glyph.n; s++) {
        for (int k = 0; k < glyph.strokes[s].n; k++) {
            glyph.strokes[s].at[k][0] += 0.035 * charl__draw_bell(d);
            glyph.strokes[s].at[k][1] += 0.03 * charl__draw_bell(d);
        }
        draw_stroke(canvas, &glyph.strokes[s], &w, width, ink);
    }
    add_noise(d, canvas, pixels);
    return digit;
}
