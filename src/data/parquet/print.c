/* Values as the texts that pandas writes to a CSV file. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "data/parquet/parquet_private.h"
#include "io/h5_element.h"

enum { DAY = 86400 };

/* With the fewest digits that read back. */
static charl_status print_number(const unsigned char *value, int bytes, charl__text *out)
{
    const double v = charl__element_number(&(charl__element){CHARL__ELEMENT_FLOAT, bytes, false}, value, 0);
    char text[40];

    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, v);
        if (v != v || (bytes == 8 ? strtod(text, NULL) == v : strtof(text, NULL) == (float)v)) {
            break;
        }
    }
    return charl__text_printf(out, "%s", text);
}

/* ".25", without zeros at the end; nothing for a whole second. */
static charl_status print_fraction(int64_t part, int64_t per_second, charl__text *out)
{
    int64_t unit = per_second;

    if (part == 0) {
        return CHARL_OK;
    }
    CHARL_TRY(charl__text_append(out, ".", 1));
    while (part > 0) {
        unit /= 10;
        CHARL_TRY(charl__text_printf(out, "%d", (int)(part / unit)));
        part %= unit;
    }
    return CHARL_OK;
}

static charl_status print_clock(int64_t second, int64_t part, int64_t per_second, charl__text *out)
{
    CHARL_TRY(
        charl__text_printf(out, "%02d:%02d:%02d", (int)(second / 3600), (int)(second / 60 % 60), (int)(second % 60)));
    return print_fraction(part, per_second, out);
}

/* Civil from days: Howard Hinnant, "chrono-compatible low-level date algorithms". */
static charl_status print_date(int64_t days, charl__text *out)
{
    const int64_t z = days + 719468, era = (z >= 0 ? z : z - 146096) / 146097, of_era = z - era * 146097;
    const int64_t year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    const int64_t of_year = of_era - (365 * year + year / 4 - year / 100), march = (5 * of_year + 2) / 153;
    const int64_t month = march < 10 ? march + 3 : march - 9;

    return charl__text_printf(out, "%04" PRId64 "-%02d-%02d", year + era * 400 + (month <= 2), (int)month,
                              (int)(of_year - (153 * march + 2) / 5 + 1));
}

static int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

static charl_status print_timestamp(int64_t days, int64_t in_day, int64_t per_second, charl__text *out)
{
    CHARL_TRY(print_date(days, out));
    CHARL_TRY(charl__text_append(out, " ", 1));
    return print_clock(in_day / per_second, in_day % per_second, per_second, out);
}

/* Nanoseconds and a Julian day. pyarrow counts nanoseconds before 1970 backwards. */
static charl_status print_julian(const unsigned char *value, charl__text *out)
{
    enum { JULIAN_EPOCH = 2440588 }; /* 1970-01-01 */
    const int64_t nano = 1000000000, of_day = (int64_t)charl__parquet_u64(value), days = floor_div(of_day, DAY * nano);

    return print_timestamp((int64_t)charl__parquet_u32(value + 8) - JULIAN_EPOCH + days,
                           (int64_t)((uint64_t)of_day - (uint64_t)days * DAY * (uint64_t)nano), nano, out);
}

/* An integer in two's complement, the high byte first, of at most 16 bytes. */
static charl_status print_decimal(const unsigned char *value, size_t n, int scale, charl__text *out)
{
    enum { MOST = 16, DIGITS = 40 };
    unsigned char v[MOST];
    char digits[DIGITS + 1];
    const bool negative = n > 0 && value[0] >= 128;
    int at = DIGITS, left = 0;

    for (size_t i = n, carry = negative; i-- > 0;) { /* magnitude */
        const unsigned byte = (negative ? (unsigned char)~value[i] : value[i]) + (unsigned)carry;

        v[i] = (unsigned char)byte;
        carry = byte >> 8;
    }
    digits[DIGITS] = '\0';
    do {
        unsigned rest = 0;

        left = 0;
        for (size_t i = 0; i < n; i++) {
            const unsigned part = rest << 8 | v[i];

            v[i] = (unsigned char)(part / 10);
            rest = part % 10;
            left += v[i] != 0;
        }
        digits[--at] = (char)('0' + rest);
    } while ((left > 0 || DIGITS - at <= scale) && at > 0);
    return charl__text_printf(out, "%s%.*s%s%s", negative ? "-" : "", DIGITS - at - scale, digits + at,
                              scale > 0 ? "." : "", digits + DIGITS - scale);
}

/* Integers are stored with the low byte first. */
static charl_status print_stored_decimal(const unsigned char *value, size_t n, const charl__parquet_type *type,
                                         charl__text *out)
{
    unsigned char turned[8];

    if (type->storage != CHARL__PARQUET_INT32 && type->storage != CHARL__PARQUET_INT64) {
        return print_decimal(value, n, type->scale, out);
    }
    for (size_t i = 0; i < n; i++) {
        turned[i] = value[n - 1 - i];
    }
    return print_decimal(turned, n, type->scale, out);
}

static charl_status print_uuid(const unsigned char *value, charl__text *out)
{
    for (int i = 0; i < 16; i++) {
        CHARL_TRY(charl__text_printf(out, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", value[i]));
    }
    return CHARL_OK;
}

charl_status charl__parquet_print(const charl__parquet_type *type, const unsigned char *value, size_t n,
                                  charl__text *out)
{
    const uint64_t bits = type->bytes == 4   ? charl__parquet_u32(value)
                          : type->bytes == 8 ? charl__parquet_u64(value)
                                             : 0;
    const int64_t number = type->bytes == 4 ? (int32_t)(uint32_t)bits : (int64_t)bits;
    const int64_t days = type->per_unit > 0 ? floor_div(number, type->per_unit * DAY) : 0;

    switch (type->form) {
    case CHARL__PARQUET_AS_BOOL:
        return charl__text_printf(out, *value ? "True" : "False");
    case CHARL__PARQUET_AS_INTEGER:
        return charl__text_printf(out, "%" PRId64, number);
    case CHARL__PARQUET_AS_UNSIGNED:
        return charl__text_printf(out, "%" PRIu64, bits);
    case CHARL__PARQUET_AS_NUMBER:
        return print_number(value, type->bytes, out);
    case CHARL__PARQUET_AS_DATE:
        return print_date(number, out);
    case CHARL__PARQUET_AS_TIME:
        return print_clock(number / type->per_unit, number % type->per_unit, type->per_unit, out);
    case CHARL__PARQUET_AS_TIMESTAMP:
        return print_timestamp(days, (int64_t)(bits - (uint64_t)days * (uint64_t)type->per_unit * DAY), type->per_unit,
                               out);
    case CHARL__PARQUET_AS_JULIAN:
        return print_julian(value, out);
    case CHARL__PARQUET_AS_DECIMAL:
        return print_stored_decimal(value, n, type, out);
    case CHARL__PARQUET_AS_UUID:
        return print_uuid(value, out);
    case CHARL__PARQUET_AS_TEXT:
        break;
    }
    return charl__text_append(out, value, n);
}
