/* probe: does half arithmetic compile, and is it half arithmetic?
 *
 * out[0] = x * x rounded to half. Launch one work-item. A device without it refuses to build this file.
 */
#pragma OPENCL EXTENSION cl_khr_fp16 : enable

kernel void charl_probe_half(global float *out, ulong out_at, float x)
{
    const half h = (half)x;

    out[out_at] = (float)(h * h);
}
