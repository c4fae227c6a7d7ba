/* arithmetic: what the device makes of f32 operations, for src/device/arithmetic.c to compare.
 *
 * Formula   out[k][i] = operation k of a[i], b[i], c[i]: a + b, a * b, a / b, sqrt(|a|), fma(a, b, c), a * b + c in two roundings, a as an
 *           integer, rounded
 * in        [3][n] a, b, c        out [7][n]
 * Launch    one work-item per i
 */
kernel void charl_arithmetic(global const float *in, ulong in_at, global float *out, ulong out_at, int n)
{
    const int i = (int)get_global_id(0);
    const float a = in[in_at + i], b = in[in_at + n + i], c = in[in_at + 2 * n + i];
    const float r[7] = {a + b, a * b, a / b, sqrt(as_float(as_uint(a) & 0x7fffffffu)), fma(a, b, c), a * b + c, (float)as_int(a)};

    for (int k = 0; k < 7; k++) {
        out[out_at + k * n + i] = r[k];
    }
}
