/* cast: out[i] = x[i] in another element type.
 *
 * Specialised by   FROM, TO  element types: 0 f32, 1 f16, 2 bf16, 3 u8, 4 i32 (defaults 0)
 * Launch           1-D; each work-item converts `span` elements.
 * Numerics         to nearest even; integers saturate, NaN becomes 0 there. Between integers exact or saturating.
 */
#define FROM 0
#define TO 0

#if FROM == 0
typedef float from_type;
#elif FROM == 1
typedef half from_type;
#elif FROM == 2
typedef ushort from_type;
#elif FROM == 3
typedef uchar from_type;
#else
typedef int from_type;
#endif

#if TO == 0
typedef float to_type;
#elif TO == 1
typedef half to_type;
#elif TO == 2
typedef ushort to_type;
#elif TO == 3
typedef uchar to_type;
#else
typedef int to_type;
#endif

#if FROM >= 3
typedef int value_type;
#else
typedef float value_type;
#endif

static inline value_type get(global const from_type *x, ulong i)
{
#if FROM == 1
    return vload_half(i, x);
#elif FROM == 2
    return bf16_load(x[i]);
#else
    return x[i];
#endif
}

static inline void put(value_type v, global to_type *out, ulong i)
{
#if TO == 0
    out[i] = (float)v;
#elif TO == 1
    vstore_half_rte((float)v, i, out);
#elif TO == 2
    out[i] = bf16_round((float)v);
#elif FROM >= 3 && TO == 3
    out[i] = (uchar)(v < 0 ? 0 : v > 255 ? 255 : v);
#elif FROM >= 3
    out[i] = v;
#elif TO == 3
    out[i] = v != v || v < 0.0f ? (uchar)0 : v > 255.0f ? (uchar)255 : (uchar)charl_rint(v);
#else
    out[i] = v != v ? 0 : v >= 0x1p31f ? INT_MAX : v <= -0x1p31f ? INT_MIN : (int)charl_rint(v);
#endif
}

kernel void charl_cast(global const from_type *x, ulong x_at, global to_type *out, ulong out_at, ulong n, ulong span)
{
    const ulong first = get_global_id(0) * span, end = min(first + span, n);

    x += x_at;
    out += out_at;
    for (ulong i = first; i < end; i++) {
        put(get(x, i), out, i);
    }
}
