/* Stored elements. The loops of the common cases are simple, so that the compiler can vectorize them; all others convert one number at
 * a time. */
#include "io/h5_element.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/numeric/bf16.h"

/* Positions of the parts of a float, in bits. */
typedef struct float_layout {
    size_t bytes, sign, exponent, exponent_bits, mantissa, mantissa_bits, bias;
} float_layout;

static const float_layout layouts[] = {
    {2, 15, 10, 5, 0, 10, 15},
    {2, 15, 7, 8, 0, 7, 127}, /* bf16 */
    {4, 31, 23, 8, 0, 23, 127},
    {8, 63, 52, 11, 0, 52, 1023},
};

static bool judge_float(hid_t type, charl__element *out, char *text)
{
    float_layout f = {.bytes = H5Tget_size(type), .bias = H5Tget_ebias(type)};

    if (H5Tget_fields(type, &f.sign, &f.exponent, &f.exponent_bits, &f.mantissa, &f.mantissa_bits) >= 0 &&
        H5Tget_norm(type) == H5T_NORM_IMPLIED && H5Tget_offset(type) == 0) {
        for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
            if (memcmp(&f, &layouts[i], sizeof f) == 0) {
                out->kind = i == 1 ? CHARL__ELEMENT_BF16 : CHARL__ELEMENT_FLOAT;
                return true;
            }
        }
    }
    snprintf(text, CHARL__ELEMENT_TEXT, "floats of %zu bytes with %zu bits of exponent and %zu of mantissa", f.bytes,
             f.exponent_bits, f.mantissa_bits);
    return false;
}

static bool judge_integer(hid_t type, charl__element *out, char *text)
{
    if (H5Tget_precision(type) != 8 * H5Tget_size(type) || H5Tget_offset(type) != 0 || H5Tget_size(type) > 8) {
        snprintf(text, CHARL__ELEMENT_TEXT, "integers of %zu bits in %zu bytes", H5Tget_precision(type),
                 H5Tget_size(type));
        return false;
    }
    out->kind = H5Tget_sign(type) == H5T_SGN_NONE ? CHARL__ELEMENT_UNSIGNED : CHARL__ELEMENT_SIGNED;
    return true;
}

static bool is_bool(hid_t type)
{
    static const char *const names[] = {"FALSE", "TRUE"};
    bool found = H5Tget_nmembers(type) == 2 && H5Tget_size(type) == 1;

    for (unsigned i = 0; found && i < 2; i++) {
        char *name = H5Tget_member_name(type, i);
        signed char value = -1;

        found =
            name && strcmp(name, names[i]) == 0 && H5Tget_member_value(type, i, &value) >= 0 && value == (signed char)i;
        H5free_memory(name);
    }
    return found;
}

/* Complex numbers, as written by h5py, and other records. */
static void describe_record(hid_t type, char *text)
{
    char *name[2] = {NULL, NULL};
    const int n = H5Tget_nmembers(type);

    for (unsigned i = 0; n == 2 && i < 2; i++) {
        name[i] = H5Tget_member_name(type, i);
    }
    if (name[0] && name[1] && strcmp(name[0], "r") == 0 && strcmp(name[1], "i") == 0) {
        snprintf(text, CHARL__ELEMENT_TEXT, "complex numbers; store real and imaginary part as two channels");
    } else {
        snprintf(text, CHARL__ELEMENT_TEXT, "records of %d fields; store each field as an array", n);
    }
    H5free_memory(name[0]);
    H5free_memory(name[1]);
}

bool charl__element_of(hid_t type, charl__element *out, char text[CHARL__ELEMENT_TEXT])
{
    const H5T_class_t cls = H5Tget_class(type);
    const size_t bytes = H5Tget_size(type);
    const char *other = "elements of an unknown type";

    *out = (charl__element){.bytes = (int)(bytes <= 8 ? bytes : 0)};
    text[0] = '\0';
    if (cls == H5T_ENUM) {
        const hid_t base = H5Tget_super(type);
        const bool is = base >= 0 && charl__element_of(base, out, text);

        out->kind = is_bool(type) ? CHARL__ELEMENT_BOOL : out->kind;
        H5Tclose(base);
        return is;
    }
    if (cls == H5T_FLOAT || cls == H5T_INTEGER) {
        out->swapped = bytes > 1 && H5Tget_order(type) != H5Tget_order(H5T_NATIVE_INT);
        if (bytes > 1 && H5Tget_order(type) != H5T_ORDER_LE && H5Tget_order(type) != H5T_ORDER_BE) {
            snprintf(text, CHARL__ELEMENT_TEXT, "numbers in VAX byte order");
            return false;
        }
        return cls == H5T_FLOAT ? judge_float(type, out, text) : judge_integer(type, out, text);
    }
    if (cls == H5T_COMPOUND) {
        describe_record(type, text);
        return false;
    }
    switch (cls) {
    case H5T_STRING:
        other = "text";
        break;
    case H5T_VLEN:
        other = "rows of different lengths; store rows of one length";
        break;
    case H5T_ARRAY:
        other = "arrays as elements; store them as extents of the array itself";
        break;
    case H5T_BITFIELD:
        other = "bit fields; store integers";
        break;
    case H5T_OPAQUE:
        other = "opaque bytes; store u8";
        break;
    case H5T_REFERENCE:
        other = "references; store what they refer to";
        break;
    default:
        break;
    }
    snprintf(text, CHARL__ELEMENT_TEXT, "%s", other);
    return false;
}

const char *charl__element_name(const charl__element *e, char text[CHARL__ELEMENT_TEXT])
{
    const char *order = !e->swapped                                    ? ""
                        : H5Tget_order(H5T_NATIVE_INT) == H5T_ORDER_LE ? "big-endian "
                                                                       : "little-endian ";

    if (e->kind == CHARL__ELEMENT_BOOL) {
        snprintf(text, CHARL__ELEMENT_TEXT, "bool");
    } else {
        snprintf(text, CHARL__ELEMENT_TEXT, "%s%s%d", order,
                 e->kind == CHARL__ELEMENT_UNSIGNED ? "u"
                 : e->kind == CHARL__ELEMENT_SIGNED ? "i"
                 : e->kind == CHARL__ELEMENT_BF16   ? "bf"
                                                    : "f",
                 8 * e->bytes);
    }
    return text;
}

charl_dtype charl__element_dtype(const charl__element *e, bool targets)
{
    const bool is_unsigned = e->kind == CHARL__ELEMENT_UNSIGNED;

    if (e->kind == CHARL__ELEMENT_FLOAT || e->kind == CHARL__ELEMENT_BF16) {
        return CHARL_F32;
    }
    if (e->kind == CHARL__ELEMENT_BOOL || (is_unsigned && e->bytes == 1)) {
        return CHARL_U8;
    }
    if (targets) {
        return !is_unsigned && e->bytes == 4 ? CHARL_I32 : CHARL_I64;
    }
    return !is_unsigned || e->bytes == 8 ? CHARL_F32 : e->bytes == 2 ? CHARL_U16 : CHARL_U32;
}

/* The bits of element i in the machine's byte order, in the low bytes. */
static uint64_t bits_of(const charl__element *e, const void *src, int64_t i)
{
    const unsigned char *p = (const unsigned char *)src + (size_t)i * (size_t)e->bytes;
    uint16_t u16;
    uint32_t u32;
    uint64_t u64;

    switch (e->bytes) {
    case 1:
        return *p;
    case 2:
        memcpy(&u16, p, sizeof u16);
        return e->swapped ? __builtin_bswap16(u16) : u16;
    case 4:
        memcpy(&u32, p, sizeof u32);
        return e->swapped ? __builtin_bswap32(u32) : u32;
    default:
        memcpy(&u64, p, sizeof u64);
        return e->swapped ? __builtin_bswap64(u64) : u64;
    }
}

static int64_t sign_extended(const charl__element *e, uint64_t bits)
{
    const int unused = 64 - 8 * e->bytes;

    return (int64_t)(bits << unused) >> unused;
}

static float half(uint64_t bits)
{
    const uint32_t sign = (uint32_t)(bits & 0x8000U) << 16, exponent = bits >> 10 & 31U, mantissa = bits & 1023U;
    uint32_t u = sign | (exponent + 112U) << 23 | mantissa << 13;
    float x;

    if (exponent == 0) { /* zero, or mantissa * 2^-24 */
        x = (float)mantissa * 0x1p-24F;
        return sign ? -x : x;
    }
    if (exponent == 31) {
        u = sign | 0x7f800000U | mantissa << 13;
    }
    memcpy(&x, &u, sizeof x);
    return x;
}

/* The value of a stored float. */
static double float_value(const charl__element *e, uint64_t bits)
{
    uint32_t u32 = (uint32_t)bits;
    float f;
    double d;

    if (e->kind == CHARL__ELEMENT_BF16) {
        return (double)charl__bf16_load((uint16_t)bits);
    }
    if (e->bytes == 2) {
        return (double)half(bits);
    }
    if (e->bytes == 4) {
        memcpy(&f, &u32, sizeof f);
        return (double)f;
    }
    memcpy(&d, &bits, sizeof d);
    return d;
}

/* Floats, and integers that f32 holds, as f32. */
static int64_t convert_f32(const charl__element *e, const void *src, int64_t n, float *dst)
{
    for (int64_t i = 0; i < n; i++) {
        const uint64_t bits = bits_of(e, src, i);

        if (e->kind == CHARL__ELEMENT_FLOAT || e->kind == CHARL__ELEMENT_BF16) {
            const double d = float_value(e, bits);

            dst[i] = fabs(d) <= (double)FLT_MAX || isnan(d) ? (float)d : (float)(d > 0 ? INFINITY : -INFINITY);
        } else if (e->kind == CHARL__ELEMENT_SIGNED) {
            const int64_t v = sign_extended(e, bits);
            const float f = (float)v;

            if (f >= 0x1p63F || (int64_t)f != v) {
                return i;
            }
            dst[i] = f;
        } else {
            const float f = (float)bits;

            if (f >= 0x1p64F || (uint64_t)f != bits) {
                return i;
            }
            dst[i] = f;
        }
    }
    return n;
}

int64_t charl__element_convert(const charl__element *e, charl_dtype dtype, const void *src, int64_t n, void *dst)
{
    unsigned char *out = dst;

    if (charl__element_is_native(e, dtype)) {
        memcpy(dst, src, (size_t)n * (size_t)e->bytes);
        return n;
    }
    if (dtype == CHARL_F32) {
        return convert_f32(e, src, n, dst);
    }
    for (int64_t i = 0; i < n; i++) {
        const uint64_t bits = bits_of(e, src, i);
        const uint64_t v = e->kind == CHARL__ELEMENT_SIGNED ? (uint64_t)sign_extended(e, bits) : bits;
        const uint32_t u32 = (uint32_t)v;
        const uint16_t u16 = (uint16_t)v;

        if (e->kind != CHARL__ELEMENT_SIGNED && v > INT64_MAX) {
            return i;
        }
        switch (charl_dtype_size(dtype)) {
        case 1:
            out[i] = (unsigned char)v;
            break;
        case 2:
            memcpy(out + 2 * i, &u16, sizeof u16);
            break;
        case 4:
            memcpy(out + 4 * i, &u32, sizeof u32);
            break;
        default:
            memcpy(out + 8 * i, &v, sizeof v);
            break;
        }
    }
    return n;
}

double charl__element_number(const charl__element *e, const void *src, int64_t i)
{
    const uint64_t bits = bits_of(e, src, i);

    return e->kind == CHARL__ELEMENT_FLOAT || e->kind == CHARL__ELEMENT_BF16 ? float_value(e, bits)
           : e->kind == CHARL__ELEMENT_SIGNED                                ? (double)sign_extended(e, bits)
                                                                             : (double)bits;
}

const char *charl__element_text(const charl__element *e, const void *src, int64_t i, char text[CHARL__ELEMENT_TEXT])
{
    const uint64_t bits = bits_of(e, src, i);

    if (e->kind == CHARL__ELEMENT_FLOAT || e->kind == CHARL__ELEMENT_BF16) {
        snprintf(text, CHARL__ELEMENT_TEXT, "%.17g", float_value(e, bits));
    } else if (e->kind == CHARL__ELEMENT_SIGNED) {
        snprintf(text, CHARL__ELEMENT_TEXT, "%" PRId64, sign_extended(e, bits));
    } else {
        snprintf(text, CHARL__ELEMENT_TEXT, "%" PRIu64, bits);
    }
    return text;
}

bool charl__put_number(charl_dtype dtype, double v, void *out, int64_t i)
{
    switch (dtype) {
    case CHARL_U8:
        ((uint8_t *)out)[i] = v >= 0 && v <= UINT8_MAX ? (uint8_t)v : 0;
        return (double)((uint8_t *)out)[i] == v;
    case CHARL_U16:
        ((uint16_t *)out)[i] = v >= 0 && v <= UINT16_MAX ? (uint16_t)v : 0;
        return (double)((uint16_t *)out)[i] == v;
    case CHARL_U32:
        ((uint32_t *)out)[i] = v >= 0 && v <= UINT32_MAX ? (uint32_t)v : 0;
        return (double)((uint32_t *)out)[i] == v;
    case CHARL_I32:
        ((int32_t *)out)[i] = v >= INT32_MIN && v <= INT32_MAX ? (int32_t)v : 0;
        return (double)((int32_t *)out)[i] == v;
    default:
        ((float *)out)[i] = (float)v;
        return isfinite(((float *)out)[i]);
    }
}
