/* rotary: rotary position embedding (RoPE), heads of 2 * size elements turned by their position. With x = in[.., i], y = in[.., size + i] of a head at position t,
 *
 *   out[.., i] = x cos(a) - y sin(a),  out[.., size + i] = y cos(a) + x sin(a),  a = 2 pi t FREQUENCY[i] / 2^64
 *
 * for the first `turned` of the `heads` heads of a position; the others are copied.
 *
 * The angle is counted in turns: an integer product modulo 2^64 leaves the fraction of a turn exactly, at any position, where
 * a product of floats would have lost it at t = 30000. Computing it costs less than reading a table of cosines.
 *
 * Specialised by   FREQUENCY  list of `size` integers: 2^64 times the turns of one step, negative (modulo 2^64) to turn back
 *                  MAGNIFIES  1: the results are multiplied by MAGNITUDE, a list of `size` floats
 *                  ACT        type of in and out
 *                  FIRST      1: row 0 of sequence b is position first[b], not 0
 *                  CHARL_VEC  see math.clh
 * Launch           column_chunks.clh: one row for each head.
 */
#define FREQUENCY 0
#define FIRST 0
#define MAGNIFIES 0
#define MAGNITUDE 0
#include "shared/column_chunks.clh"

constant ulong frequency[] = {FREQUENCY};
#if MAGNIFIES
constant float magnitude[] = {MAGNITUDE};
#endif

/* Sine and cosine of columns c .. of a head at position t. */
static inline void turn(ulong t, ulong c, long left, charl_real *sine, charl_real *cosine)
{
    float x[CHARL_VEC], quadrant[CHARL_VEC]; /* the quadrant as the bits of a float: see charl_as_int */

    for (int j = 0; j < CHARL_VEC; j++) {
        const uint phase = j < left ? (uint)(t * frequency[c + (ulong)j] >> 32) : 0;
        const uint q = (phase + 0x20000000u) >> 30; /* the nearest quarter of a turn */

        x[j] = (float)(int)(phase - (q << 30)) * 0x1.921fb6p-30f; /* 2 pi / 2^32 */
        quadrant[j] = as_float(q);
    }
    charl_sincos(CHARL_VLOAD(x), charl_as_int(CHARL_VLOAD(quadrant)), sine, cosine);
#if MAGNIFIES
    for (int j = 0; j < CHARL_VEC; j++) {
        x[j] = j < left ? magnitude[c + (ulong)j] : 0.0f;
    }
    *sine *= CHARL_VLOAD(x);
    *cosine *= CHARL_VLOAD(x);
#endif
}

kernel void charl_rotary(global const ACT *in, ulong in_at, global const int *first, ulong first_at, global ACT *out, ulong out_at,
                         ulong positions, ulong heads, ulong turned, ulong rows, ulong size, ulong span)
{
#if !FIRST
    (void)first, (void)first_at;
#endif
    CHARL_EACH_CHUNK(u, rows, size, span)
    {
        const ulong r = CHARL_CHUNK_ROW(u, size), c = CHARL_CHUNK_COLUMN(u, size), at = 2 * r * size + c;
        const long left = (long)(size - c);
        charl_real x = charl_load(in + in_at + at, left), y = charl_load(in + in_at + at + size, left);

        if (r % heads < turned) {
            const ulong row = r / heads, start = FIRST ? (ulong)first[first_at + row / positions] : 0;
            const charl_real x0 = x;
            charl_real sine, cosine;

            turn(start + row % positions, c, left, &sine, &cosine);
            x = x * cosine - y * sine;
            y = y * cosine + x0 * sine;
        }
        charl_store(x, out + out_at + at, left);
        charl_store(y, out + out_at + at + size, left);
    }
}
