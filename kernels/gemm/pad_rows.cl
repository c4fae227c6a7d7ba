/* pad_rows: out[row][j] = x[row][j], 0 for n <= j < pitch: rows of 16-bit elements that begin anywhere, copied to multiples of 16 bytes, for products on tensor cores.
 *
 * Launch           one work-item per 8 elements of out; pitch is a multiple of 8.
 */
kernel void charl_pad_rows(global const ushort *x, ulong x_at, global ushort *out, ulong out_at, ulong rows, uint n, uint pitch)
{
    const ulong item = get_global_id(0), row = item / (pitch / 8);
    const uint j = (uint)(item - row * (pitch / 8)) * 8;
    ushort v[8];

    if (row >= rows) {
        return;
    }
    x += x_at + row * n;
    for (uint e = 0; e < 8; e++) {
        v[e] = j + e < n ? x[j + e] : (ushort)0;
    }
    vstore8(vload8(0, v), 0, out + out_at + row * pitch + j);
}
