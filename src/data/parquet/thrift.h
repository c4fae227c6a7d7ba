#ifndef CHARL_DATA_PARQUET_THRIFT_H
#define CHARL_DATA_PARQUET_THRIFT_H
/** The compact protocol of Apache Thrift, in which Parquet files describe themselves:
 *  https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md
 *
 *      for (int16_t id = 0; (type = charl__thrift_field(&t, &id)) != 0;) {
 *          switch (id) {
 *          case 1: rows = charl__thrift_integer(&t, type); break;
 *          default: charl__thrift_skip(&t, type);
 *          }
 *      }
 *      if (t.failed) ...
 *
 *  Malformed or truncated bytes set `failed`. From then on structs and lists are at their end, and values are 0, so only the end of a
 *  reading has to check it. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct charl__thrift {
    const unsigned char *at, *end;
    bool failed;
} charl__thrift;

/** The type of the next field of a struct; 0 at its end. *id: its number, 0 before the first field. */
int charl__thrift_field(charl__thrift *t, int16_t *id);

/** The value of a field of that type; another type than the one that is asked for fails. */
int64_t charl__thrift_integer(charl__thrift *t, int type);
bool charl__thrift_bool(charl__thrift *t, int type);
/** *bytes is borrowed from the input. */
size_t charl__thrift_bytes(charl__thrift *t, int type, const unsigned char **bytes);
/** The number of elements, and their type. Each takes at least one byte, so a list is never longer than what is left of the input. */
int64_t charl__thrift_list(charl__thrift *t, int type, int *element);
/** Whether the field is a struct, whose fields come next. */
bool charl__thrift_struct(charl__thrift *t, int type);

/** Pass over a value, with all that is in it. */
void charl__thrift_skip(charl__thrift *t, int type);

#endif
