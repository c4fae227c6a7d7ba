#ifndef CHARL_BASE_NUMERIC_HASH_H
#define CHARL_BASE_NUMERIC_HASH_H
/** Checksums and digests: crc32c against accidents in files, SHA-256 for identity, FNV-1a for
 *  names. Thread-safe. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** CRC-32C (Castagnoli) of the bytes that `crc` covers followed by `bytes` bytes; start with 0. "123456789"
 *  gives e3069283. Cost: about 10 GB/s if the CPU has the instruction, else about 1 GB/s. */
uint32_t charl__crc32c(uint32_t crc, const void *data, size_t bytes);

/** The checksum of two consecutive ranges of memory from their checksums; `bytes`: length of the second. */
uint32_t charl__crc32c_join(uint32_t first, uint32_t second, int64_t bytes);

/** charl__crc32c without the CPU instruction: its fallback. */
uint32_t charl__crc32c_portable(uint32_t crc, const void *data, size_t bytes);

enum { CHARL__SHA256_BYTES = 32, CHARL__SHA256_TEXT = 65 };

typedef struct charl__sha256 {
    uint32_t state[8];
    uint64_t bytes;
    unsigned char block[64];
    bool portable; /* without the CPU's instructions; charl__sha256_init clears it */
} charl__sha256;

/** Cost: about 1 GB/s if the CPU has SHA instructions (x86-64), else 0.2 GB/s. */

void charl__sha256_init(charl__sha256 *s);
void charl__sha256_update(charl__sha256 *s, const void *data, size_t bytes);
/** digest[CHARL__SHA256_BYTES]; `s` must be initialised again before further use. */
void charl__sha256_final(charl__sha256 *s, unsigned char *digest);

/** Digest of `bytes` bytes as lower-case hexadecimal into text[CHARL__SHA256_TEXT]; returns text.
 */
const char *charl__sha256_text(const void *data, size_t bytes, char *text);
/** The same without the CPU's instructions. */
const char *charl__sha256_portable(const void *data, size_t bytes, char *text);
/** The same of an already computed digest. */
const char *charl__sha256_format(const unsigned char *digest, char *text);

/** 64-bit FNV-1a. "" gives cbf29ce484222325. */
uint64_t charl__fnv1a64(const void *data, size_t bytes);
/** Of a NUL-terminated string without its NUL. */
uint64_t charl__fnv1a64_string(const char *s);

#endif
