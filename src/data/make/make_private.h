#ifndef CHARL_DATA_MAKE_MAKE_PRIVATE_H
#define CHARL_DATA_MAKE_MAKE_PRIVATE_H
/** Parts of the synthetic datasets. Arithmetic uses only +, -, *, / and sqrt of doubles, whose bits IEEE
 *  754 defines. */
#include <stdbool.h>
#include <stdint.h>

#include "base/numeric/rng.h"

/** Successive draws of one stream, a function of (seed, sample, name). */
typedef struct charl__draw {
    charl__rng rng;
    uint64_t position;
    uint32_t block[4];
    int left;
} charl__draw;

charl__draw charl__draw_begin(uint64_t seed, uint64_t sample, const char *name);
uint32_t charl__draw_u32(charl__draw *d);
/** Uniform in [lo, hi). */
double charl__draw_uniform(charl__draw *d, double lo, double hi);
/** Mean 0, deviation 1, bell-shaped, within +-3.5: a sum of four uniforms. */
double charl__draw_bell(charl__draw *d);

enum { CHARL__DIGIT_SIZE = 28, CHARL__STROKE_POINTS = 16, CHARL__GLYPH_STROKES = 3 };

/** One pen stroke in the unit square, y pointing down: straight lines or a smooth curve through the
 *  points. */
typedef struct charl__stroke {
    bool curved;
    int n;
    double at[CHARL__STROKE_POINTS][2];
} charl__stroke;

typedef struct charl__glyph {
    int digit;
    int n;
    charl__stroke strokes[CHARL__GLYPH_STROKES];
} charl__glyph;

extern const charl__glyph charl__glyphs[];
extern const int charl__n_glyphs;

/** Draw one image [28,28] u8; returns its label. */
int charl__digit_draw(charl__draw *d, unsigned char *pixels);

#endif
