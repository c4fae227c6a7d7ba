/* FNV-1a and SHA-256 (FIPS 180-4). CRC-32C has its own file. */
#include "base/numeric/hash.h"

#include <stdio.h>
#include <string.h>

#if defined(__x86_64__) && defined(__GNUC__)
#include <cpuid.h>
#include <immintrin.h>
#include <pthread.h>
#define HAS_INSTRUCTION 1
#else
#define HAS_INSTRUCTION 0
#endif

static const uint32_t round_constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t rotr(uint32_t x, int n)
{
    return (x >> n) | (x << (32 - n));
}

static void schedule(const unsigned char *block, uint32_t w[64])
{
    for (int i = 0; i < 16; i++) {
        w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 | (uint32_t)block[4 * i + 2] << 8 |
               block[4 * i + 3];
    }
    for (int i = 16; i < 64; i++) {
        const uint32_t a = w[i - 15], b = w[i - 2];

        w[i] = w[i - 16] + (rotr(a, 7) ^ rotr(a, 18) ^ (a >> 3)) + w[i - 7] + (rotr(b, 17) ^ rotr(b, 19) ^ (b >> 10));
    }
}

static void compress(uint32_t state[8], const unsigned char *block)
{
    uint32_t w[64];
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
    uint32_t e = state[4], f = state[5], g = state[6], h = state[7];

    schedule(block, w);
    for (int i = 0; i < 64; i++) {
        const uint32_t t1 =
            h + (rotr(e, 6) ^ rotr(e, 11) ^ rotr(e, 25)) + ((e & f) ^ (~e & g)) + round_constants[i] + w[i];
        const uint32_t t2 = (rotr(a, 2) ^ rotr(a, 13) ^ rotr(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));

        h = g;
        g = f;
        f = e;
        e = d + t1;
        d = c;
        c = b;
        b = a;
        a = t1 + t2;
    }
    state[0] += a;
    state[1] += b;
    state[2] += c;
    state[3] += d;
    state[4] += e;
    state[5] += f;
    state[6] += g;
    state[7] += h;
}

#if HAS_INSTRUCTION
static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool use_instruction;

static void init(void)
{
    unsigned a, b = 0, c, d;

    use_instruction = __builtin_cpu_supports("sse4.1") && __get_cpuid_count(7, 0, &a, &b, &c, &d) && b >> 29 & 1;
}

/* n blocks with the SHA-NI instructions, which keep the state as two vectors: f e b a and h g d c, the last in the highest lane. Each
 * sha256rnds2 does two rounds and takes their sums of message and constant from the lower half of its third operand. */
__attribute__((target("sha,sse4.1"))) static void compress_instruction(uint32_t state[8], const unsigned char *data,
                                                                       size_t n)
{
    const __m128i swap = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
    const __m128i abcd = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)(const void *)state), 0x1b);
    const __m128i efgh = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)(const void *)(state + 4)), 0x1b);
    __m128i abef = _mm_unpackhi_epi64(efgh, abcd), cdgh = _mm_unpacklo_epi64(efgh, abcd);

    for (; n > 0; n--, data += 64) {
        const __m128i abef_was = abef, cdgh_was = cdgh;
        __m128i w[4];

#pragma GCC unroll 16
        for (int i = 0; i < 16; i++) {
            __m128i *now = &w[i % 4], sum;

            if (i < 4) {
                *now = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(const void *)(data + 16 * i)), swap);
            } else { /* w[-16] + s0(w[-15]) + w[-7] + s1(w[-2]) */
                const __m128i before = w[(i + 3) % 4];

                *now = _mm_add_epi32(_mm_sha256msg1_epu32(*now, w[(i + 1) % 4]),
                                     _mm_alignr_epi8(before, w[(i + 2) % 4], 4));
                *now = _mm_sha256msg2_epu32(*now, before);
            }
            sum = _mm_add_epi32(*now, _mm_loadu_si128((const __m128i *)(const void *)(round_constants + 4 * i)));
            cdgh = _mm_sha256rnds2_epu32(cdgh, abef, sum);
            abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(sum, 0x0e));
        }
        abef = _mm_add_epi32(abef, abef_was);
        cdgh = _mm_add_epi32(cdgh, cdgh_was);
    }
    _mm_storeu_si128((__m128i *)(void *)state, _mm_shuffle_epi32(_mm_unpackhi_epi64(cdgh, abef), 0x1b));
    _mm_storeu_si128((__m128i *)(void *)(state + 4), _mm_shuffle_epi32(_mm_unpacklo_epi64(cdgh, abef), 0x1b));
}
#endif

/* n whole blocks. */
static void compress_all(charl__sha256 *s, const unsigned char *blocks, size_t n)
{
#if HAS_INSTRUCTION
    pthread_once(&once, init);
    if (use_instruction && !s->portable) {
        compress_instruction(s->state, blocks, n);
        return;
    }
#endif
    for (; n > 0; n--, blocks += 64) {
        compress(s->state, blocks);
    }
}

void charl__sha256_init(charl__sha256 *s)
{
    static const uint32_t start[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

    memset(s, 0, sizeof *s);
    memcpy(s->state, start, sizeof start);
}

void charl__sha256_update(charl__sha256 *s, const void *data, size_t bytes)
{
    const unsigned char *p = data;
    size_t used = (size_t)(s->bytes % 64);

    s->bytes += bytes;
    while (bytes > 0) {
        size_t n = bytes < 64 - used ? bytes : 64 - used;

        if (n == 64) { /* whole blocks are not copied */
            n = bytes / 64 * 64;
            compress_all(s, p, n / 64);
        } else {
            memcpy(s->block + used, p, n);
            if (used + n == 64) {
                compress_all(s, s->block, 1);
            }
        }
        used = (used + n) % 64;
        p += n;
        bytes -= n;
    }
}

void charl__sha256_final(charl__sha256 *s, unsigned char *digest)
{
    static const unsigned char padding[64] = {0x80};
    const uint64_t bits = s->bytes * 8;
    const size_t used = (size_t)(s->bytes % 64);
    unsigned char length[8];

    for (int i = 0; i < 8; i++) {
        length[i] = (unsigned char)(bits >> (56 - 8 * i));
    }
    charl__sha256_update(s, padding, used < 56 ? 56 - used : 120 - used);
    charl__sha256_update(s, length, sizeof length);
    for (int i = 0; i < CHARL__SHA256_BYTES; i++) {
        digest[i] = (unsigned char)(s->state[i / 4] >> (24 - 8 * (i % 4)));
    }
}

const char *charl__sha256_format(const unsigned char *digest, char *text)
{
    for (int i = 0; i < CHARL__SHA256_BYTES; i++) {
        snprintf(text + 2 * i, 3, "%02x", digest[i]);
    }
    return text;
}

static const char *text_of(const void *data, size_t bytes, bool portable, char *text)
{
    charl__sha256 s;
    unsigned char digest[CHARL__SHA256_BYTES];

    charl__sha256_init(&s);
    s.portable = portable;
    charl__sha256_update(&s, data, bytes);
    charl__sha256_final(&s, digest);
    return charl__sha256_format(digest, text);
}

const char *charl__sha256_text(const void *data, size_t bytes, char *text)
{
    return text_of(data, bytes, false, text);
}

const char *charl__sha256_portable(const void *data, size_t bytes, char *text)
{
    return text_of(data, bytes, true, text);
}

static const uint64_t fnv_start = 0xcbf29ce484222325u, fnv_prime = 0x100000001b3u;

uint64_t charl__fnv1a64(const void *data, size_t bytes)
{
    const unsigned char *p = data;
    uint64_t h = fnv_start;

    for (size_t i = 0; i < bytes; i++) {
        h = (h ^ p[i]) * fnv_prime;
    }
    return h;
}

uint64_t charl__fnv1a64_string(const char *s)
{
    return charl__fnv1a64(s, strlen(s));
}
