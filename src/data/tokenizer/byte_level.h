#ifndef CHARL_DATA_TOKENIZER_BYTE_LEVEL_H
#define CHARL_DATA_TOKENIZER_BYTE_LEVEL_H
/** How files of byte-level vocabularies write a byte: printable ones of Latin-1 as themselves, the others as U+0100, U+0101, ... in
 *  order. */
#include <stdbool.h>
#include <stdint.h>

static inline bool charl__byte_is_printable(uint32_t byte)
{
    return (byte > ' ' && byte < 0x7f) || (byte > 0xa0 && byte < 0x100 && byte != 0xad);
}

/** The code point that stands for each byte. */
static inline void charl__byte_points(uint32_t points[256])
{
    for (uint32_t byte = 0, next = 256; byte < 256; byte++) {
        points[byte] = charl__byte_is_printable(byte) ? byte : next++;
    }
}

#endif
