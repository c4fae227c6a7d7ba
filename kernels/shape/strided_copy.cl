/* strided_copy: copy of a range of one extent, for concat, slice and their gradients; repetition along an extent, for that of a sum; sequences
 * from their last position to the first.
 *
 *   charl_copy  out[o * out_row + j] = x[o * x_row + j] for j < length; the operands' offsets say where the range starts
 *   charl_pad   out[o * out_row + j] = x[o * length + j - start] for start <= j < start + length, else 0
 *   charl_repeat  out[o, j, i] = x[o, i] for j < n
 *   charl_reverse out[b, t, i] = x[b, t < n ? n - 1 - t : t, i], n: length[b], or with LENGTHS = 0 all positions
 *
 * Specialised by   T  element type, of the right size (default uint); LENGTHS
 * Launch           1-D; each work-item writes `span` elements.
 * Numerics         exact.
 */
#define T uint
#define LENGTHS 0

kernel void charl_copy(global const T *x, ulong x_at, global T *out, ulong out_at, ulong outer, ulong length, ulong x_row,
                       ulong out_row, ulong span)
{
    const ulong first = get_global_id(0) * span, end = min(first + span, outer * length);

    for (ulong i = first; i < end;) { /* row by row */
        const ulong o = i / length, j = i - o * length, count = min(length - j, end - i);
        global const T *from = x + x_at + o * x_row + j;
        global T *to = out + out_at + o * out_row + j;

        for (ulong k = 0; k < count; k++) {
            to[k] = from[k];
        }
        i += count;
    }
}

kernel void charl_pad(global const T *x, ulong x_at, global T *out, ulong out_at, ulong outer, ulong out_row, ulong start,
                      ulong length, ulong span)
{
    const ulong first = get_global_id(0) * span, end = min(first + span, outer * out_row);

    for (ulong i = first; i < end; i++) {
        const ulong o = i / out_row, j = i - o * out_row;

        out[out_at + i] = j >= start && j - start < length ? x[x_at + o * length + (j - start)] : (T)0;
    }
}

/* out [outer, n, inner] */
kernel void charl_repeat(global const T *x, ulong x_at, global T *out, ulong out_at, ulong outer, ulong n, ulong inner, ulong span)
{
    const ulong first = get_global_id(0) * span, end = min(first + span, outer * n * inner);

    x += x_at;
    out += out_at;
    for (ulong i = first; i < end;) {
        const ulong row = i / inner, k = i - row * inner, o = row / n;

        if (inner == 1) { /* one value, n times */
            const ulong count = min((o + 1) * n - i, end - i);
            const T value = x[o];

            for (ulong j = 0; j < count; j++) {
                out[i + j] = value;
            }
            i += count;
        } else {
            const ulong count = min(inner - k, end - i);

            for (ulong j = 0; j < count; j++) {
                out[i + j] = x[o * inner + k + j];
            }
            i += count;
        }
    }
}

/* out [B, positions, inner] */
kernel void charl_reverse(global const T *x, ulong x_at, global const int *length, ulong length_at, global T *out, ulong out_at,
                          ulong total, ulong positions, ulong inner, ulong span)
{
    const ulong first = get_global_id(0) * span, end = min(first + span, total);

    for (ulong i = first; i < end;) { /* position by position */
        const ulong row = i / inner, k = i - row * inner, b = row / positions, t = row - b * positions;
        const ulong n = LENGTHS ? (ulong)clamp(length[length_at + b], 1, (int)positions) : positions;
        const ulong count = min(inner - k, end - i);
        global const T *from = x + x_at + (b * positions + (t < n ? n - 1 - t : t)) * inner + k;

        for (ulong j = 0; j < count; j++) {
            out[out_at + i + j] = from[j];
        }
        i += count;
    }
}
