#ifndef CHARL_BASE_NUMERIC_RNG_H
#define CHARL_BASE_NUMERIC_RNG_H
/** Random numbers without state: Philox4x32-10 (Salmon, Moraes, Dror, Shaw 2011).
 *
 *  A draw is a function of (seed, step, name, position), so it does not depend on launch geometry,
 *  number of ranks or order. kernels/prelude/common.clh has the same functions; both give the same bits.
 *
 *    counter = {position_lo, position_hi, step_lo, step_hi}
 *    key     = {seed_lo ^ name_hash_lo, seed_hi ^ name_hash_hi}     name_hash: 64-bit FNV-1a of the
 *  dotted name
 *
 *  A block is 4 words at one position. Scalar draw i is word i mod 4 of the block at position i div
 *  4, so four adjacent draws cost one block. A normal uses a whole block. Thread-safe.
 */
#include <stdint.h>

typedef struct charl__rng {
    uint32_t key[2];
    uint32_t step[2];
} charl__rng;

charl__rng charl__rng_key(uint64_t seed, uint64_t step, uint64_t name_hash);

/** The block at `position`. */
void charl__rng_u32x4(const charl__rng *r, uint64_t position, uint32_t out[4]);

/** Scalar draw i: 32 bits; uniform in [0, 1) with 24 bits. */
uint32_t charl__rng_u32(const charl__rng *r, uint64_t i);
float charl__rng_uniform(const charl__rng *r, uint64_t i);

/** Standard normal from the block at `position`, by Box-Muller in double. */
double charl__rng_normal(const charl__rng *r, uint64_t position);

/** The underlying generator: counter and key as in the paper. */
void charl__philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

#endif
