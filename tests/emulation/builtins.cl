/* The built-in functions that the kernels use, for a host: see lanes.h. */
int lanes_item(void);
int lanes_group(void);
int lanes_groups(void);
uint lanes_pack_f16(float x, float y);
float lanes_f16(uint bits);
void lanes_barrier(void);
#define BUILTIN __attribute__((overloadable))

size_t BUILTIN get_local_id(uint dimension)
{
    return dimension == 0 ? (size_t)lanes_item() : 0;
}

size_t BUILTIN get_group_id(uint dimension)
{
    return dimension == 0 ? (size_t)lanes_group() : 0;
}

size_t BUILTIN get_num_groups(uint dimension)
{
    return dimension == 0 ? (size_t)lanes_groups() : 1;
}

float BUILTIN fma(float a, float b, float c)
{
    return __builtin_fmaf(a, b, c);
}

float BUILTIN fmax(float a, float b)
{
    return __builtin_fmaxf(a, b);
}

int BUILTIN min(int a, int b)
{
    return a < b ? a : b;
}

int4 BUILTIN min(int4 a, int4 b)
{
    return a < b ? a : b;
}

int BUILTIN max(int a, int b)
{
    return a > b ? a : b;
}

ulong4 BUILTIN convert_ulong4(int4 x)
{
    return (ulong4)((ulong)x.x, (ulong)x.y, (ulong)x.z, (ulong)x.w);
}

long4 BUILTIN convert_long4(int4 x)
{
    return (long4)(x.x, x.y, x.z, x.w);
}

long2 BUILTIN convert_long2(int2 x)
{
    return (long2)(x.x, x.y);
}

int BUILTIN clamp(int x, int low, int high)
{
    return x < low ? low : x > high ? high : x;
}

uint BUILTIN mul_hi(uint a, uint b)
{
    return (uint)((ulong)a * b >> 32);
}

float BUILTIN select(float no, float yes, int condition)
{
    return condition ? yes : no;
}

int2 BUILTIN select(int2 no, int2 yes, int2 condition)
{
    return condition < 0 ? yes : no;
}

int4 BUILTIN select(int4 no, int4 yes, int4 condition)
{
    return condition < 0 ? yes : no;
}

void BUILTIN vstore_half_rte(float x, size_t i, global half *p)
{
    ((global ushort *)p)[i] = (ushort)lanes_pack_f16(x, 0.0f);
}

float BUILTIN vload_half(size_t i, global const half *p)
{
    return lanes_f16(((global const ushort *)p)[i]);
}

float BUILTIN fabs(float x)
{
    return __builtin_fabsf(x);
}

float BUILTIN copysign(float x, float sign)
{
    return __builtin_copysignf(x, sign);
}

void BUILTIN barrier(cl_mem_fence_flags flags)
{
    (void)flags;
    lanes_barrier();
}
