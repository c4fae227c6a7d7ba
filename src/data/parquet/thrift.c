#include "data/parquet/thrift.h"

enum { TRUE_FIELD = 1, FALSE_FIELD, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT, MOST_DEPTH = 32 };

static void fail(charl__thrift *t)
{
    t->failed = true;
    t->at = t->end;
}

static unsigned next_byte(charl__thrift *t)
{
    if (t->at == t->end) {
        fail(t);
        return 0;
    }
    return *t->at++;
}

static void pass(charl__thrift *t, uint64_t bytes)
{
    if (bytes > (uint64_t)(t->end - t->at)) {
        fail(t);
    } else {
        t->at += bytes;
    }
}

static uint64_t varint(charl__thrift *t)
{
    uint64_t v = 0;

    for (int shift = 0; shift < 64; shift += 7) {
        const unsigned byte = next_byte(t);

        v |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80)) {
            return v;
        }
    }
    fail(t);
    return 0;
}

static int64_t zigzag(uint64_t v)
{
    return (int64_t)(v >> 1) ^ -(int64_t)(v & 1);
}

int charl__thrift_field(charl__thrift *t, int16_t *id)
{
    const unsigned head = next_byte(t), type = head & 15;

    if (t->failed || type == 0) {
        return 0;
    }
    *id = (int16_t)(head >> 4 ? *id + (int)(head >> 4) : zigzag(varint(t)));
    if (type > STRUCT) {
        fail(t);
    }
    return t->failed ? 0 : (int)type;
}

int64_t charl__thrift_integer(charl__thrift *t, int type)
{
    if (type == BYTE) {
        return (int8_t)next_byte(t);
    }
    if (type < I16 || type > I64) {
        fail(t);
        return 0;
    }
    return zigzag(varint(t));
}

bool charl__thrift_bool(charl__thrift *t, int type)
{
    if (type != TRUE_FIELD && type != FALSE_FIELD) {
        fail(t);
    }
    return type == TRUE_FIELD;
}

size_t charl__thrift_bytes(charl__thrift *t, int type, const unsigned char **bytes)
{
    const uint64_t n = type == BINARY ? varint(t) : UINT64_MAX;

    *bytes = t->at;
    pass(t, n);
    return t->failed ? 0 : (size_t)n;
}

int64_t charl__thrift_list(charl__thrift *t, int type, int *element)
{
    const unsigned head = type == LIST || type == SET ? next_byte(t) : 0;
    const uint64_t n = head >> 4 == 15 ? varint(t) : head >> 4;

    *element = (int)(head & 15);
    if ((type != LIST && type != SET) || n > (uint64_t)(t->end - t->at)) {
        fail(t);
    }
    return t->failed ? 0 : (int64_t)n;
}

bool charl__thrift_struct(charl__thrift *t, int type)
{
    if (type != STRUCT) {
        fail(t);
    }
    return !t->failed;
}

static void skip(charl__thrift *t, int type, bool in_list, int depth);

static void skip_elements(charl__thrift *t, int64_t n, int first, int second, int depth)
{
    for (int64_t i = 0; i < n && !t->failed; i++) {
        skip(t, first, true, depth);
        if (second) {
            skip(t, second, true, depth);
        }
    }
}

static void skip_map(charl__thrift *t, int depth)
{
    const uint64_t n = varint(t);
    const unsigned types = n > 0 ? next_byte(t) : 0;

    if (n > (uint64_t)(t->end - t->at)) {
        fail(t);
    } else {
        skip_elements(t, (int64_t)n, (int)(types >> 4), (int)(types & 15), depth);
    }
}

static void skip_struct(charl__thrift *t, int depth)
{
    int16_t id = 0;

    for (int type; (type = charl__thrift_field(t, &id)) != 0;) {
        skip(t, type, false, depth);
    }
}

/* A bool is a byte in a list, and has none as a field. */
static void skip(charl__thrift *t, int type, bool in_list, int depth)
{
    const unsigned char *bytes;
    int element = 0;
    int64_t n;

    if (depth == MOST_DEPTH) {
        fail(t);
        return;
    }
    switch (type) {
    case TRUE_FIELD:
    case FALSE_FIELD:
        pass(t, in_list);
        break;
    case BYTE:
        pass(t, 1);
        break;
    case I16:
    case I32:
    case I64:
        (void)varint(t);
        break;
    case DOUBLE:
        pass(t, 8);
        break;
    case BINARY:
        (void)charl__thrift_bytes(t, type, &bytes);
        break;
    case LIST:
    case SET:
        n = charl__thrift_list(t, type, &element);
        skip_elements(t, n, element, 0, depth + 1);
        break;
    case MAP:
        skip_map(t, depth + 1);
        break;
    case STRUCT:
        skip_struct(t, depth + 1);
        break;
    default:
        fail(t);
    }
}

void charl__thrift_skip(charl__thrift *t, int type)
{
    skip(t, type, false, 0);
}
