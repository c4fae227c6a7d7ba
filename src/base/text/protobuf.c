/* The wire format of protocol buffers: a key (field number and type of encoding) and a value. */
#include "base/text/protobuf.h"

#include <string.h>

#include "base/error.h"

enum { VARINT = 0, FIXED64 = 1, LENGTH = 2, FIXED32 = 5 };

/* Seven bits per byte, the lowest first; the top bit says that more follow. */
static charl_status put_varint(charl__text *t, uint64_t v)
{
    unsigned char byte[10];
    size_t n = 0;

    do {
        byte[n++] = (unsigned char)((v & 0x7f) | (v > 0x7f ? 0x80 : 0));
        v >>= 7;
    } while (v > 0);
    return charl__text_append(t, byte, n);
}

static charl_status put_key(charl__text *t, int field, int type)
{
    return put_varint(t, (uint64_t)field << 3 | (uint64_t)type);
}

charl_status charl__protobuf_int(charl__text *t, int field, int64_t value)
{
    CHARL_TRY(put_key(t, field, VARINT));
    CHARL_TRY(put_varint(t, (uint64_t)value));
    return CHARL_OK;
}

charl_status charl__protobuf_float(charl__text *t, int field, float value)
{
    unsigned char byte[4];
    uint32_t u;

    memcpy(&u, &value, sizeof u);
    for (int i = 0; i < 4; i++) {
        byte[i] = (unsigned char)(u >> 8 * i);
    }
    CHARL_TRY(put_key(t, field, FIXED32));
    CHARL_TRY(charl__text_append(t, byte, sizeof byte));
    return CHARL_OK;
}

charl_status charl__protobuf_double(charl__text *t, int field, double value)
{
    unsigned char byte[8];
    uint64_t u;

    memcpy(&u, &value, sizeof u);
    for (int i = 0; i < 8; i++) {
        byte[i] = (unsigned char)(u >> 8 * i);
    }
    CHARL_TRY(put_key(t, field, FIXED64));
    CHARL_TRY(charl__text_append(t, byte, sizeof byte));
    return CHARL_OK;
}

charl_status charl__protobuf_begin(charl__text *t, int field, size_t bytes)
{
    CHARL_TRY(put_key(t, field, LENGTH));
    CHARL_TRY(put_varint(t, bytes));
    return CHARL_OK;
}

charl_status charl__protobuf_nest(charl__text *t, int field, size_t begin)
{
    const size_t end = t->length;
    unsigned char head[20];

    CHARL_TRY(charl__protobuf_begin(t, field, end - begin));
    memcpy(head, t->data + end, t->length - end);
    memmove(t->data + begin + (t->length - end), t->data + begin, end - begin);
    memcpy(t->data + begin, head, t->length - end);
    return CHARL_OK;
}

charl_status charl__protobuf_bytes(charl__text *t, int field, const void *data, size_t bytes)
{
    CHARL_TRY(charl__protobuf_begin(t, field, bytes));
    CHARL_TRY(charl__text_append(t, data, bytes));
    return CHARL_OK;
}

charl_status charl__protobuf_string(charl__text *t, int field, const char *value)
{
    return charl__protobuf_bytes(t, field, value, strlen(value));
}
