#ifndef CHARL_BASE_TEXT_PROTOBUF_H
#define CHARL_BASE_TEXT_PROTOBUF_H
/** Writing protocol buffers: fields of a message, appended to a text that may contain any bytes.
 *
 *  A nested message is written in place and then wrapped:
 *
 *      const size_t begin = t->length;
 *      ... its fields ...
 *      charl__protobuf_nest(t, FIELD, begin);
 *
 *  Field numbers and types come from the message's definition. Errors: ERR_NOMEM.
 */
#include <stdint.h>

#include "base/text/text.h"

/** int32, int64, uint64, bool or enum. */
charl_status charl__protobuf_int(charl__text *t, int field, int64_t value) CHARL_MUST_CHECK;
/** float. */
charl_status charl__protobuf_float(charl__text *t, int field, float value) CHARL_MUST_CHECK;
/** double. */
charl_status charl__protobuf_double(charl__text *t, int field, double value) CHARL_MUST_CHECK;
/** string. */
charl_status charl__protobuf_string(charl__text *t, int field, const char *value) CHARL_MUST_CHECK;
/** bytes. */
charl_status charl__protobuf_bytes(charl__text *t, int field, const void *data, size_t bytes) CHARL_MUST_CHECK;
/** Make what was appended since the text had `begin` bytes a field: a nested message. */
charl_status charl__protobuf_nest(charl__text *t, int field, size_t begin) CHARL_MUST_CHECK;
/** The beginning of a field whose `bytes` bytes follow elsewhere. */
charl_status charl__protobuf_begin(charl__text *t, int field, size_t bytes) CHARL_MUST_CHECK;

#endif
