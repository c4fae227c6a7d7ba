/* The order of samples. An epoch's permutation of 0..n-1 is a Feistel network on the smallest even
 * number of bits that holds n, repeated until the value falls inside (cycle walking: at most four
 * rounds on average, since the domain is less than 4 n). A network of few bits has little to choose
 * from, so small sets are shuffled explicitly instead. */
#include "charl/dataset.h"

enum { ROUNDS = 6, SMALL = 128 };

/* Finaliser of splitmix64: every input bit moves every output bit. */
static uint64_t mix(uint64_t h)
{
    h ^= h >> 30;
    h *= UINT64_C(0xbf58476d1ce4e5b9);
    h ^= h >> 27;
    h *= UINT64_C(0x94d049bb133111eb);
    return h ^ (h >> 31);
}

static uint64_t epoch_key(uint64_t seed, uint64_t epoch)
{
    return mix(mix(seed + UINT64_C(0x9e3779b97f4a7c15)) + epoch);
}

/* Fisher-Yates from the top down; element i is final once its turn has come. */
static int64_t shuffle_small(uint64_t key, int n, int index)
{
    unsigned char at[SMALL];

    for (int i = 0; i < n; i++) {
        at[i] = (unsigned char)i;
    }
    for (int i = n - 1; i >= index && i > 0; i--) {
        const int j = (int)(mix(key + (uint64_t)i) % (uint64_t)(i + 1));
        const unsigned char swap = at[i];

        at[i] = at[j];
        at[j] = swap;
    }
    return at[index];
}

static int64_t permute(uint64_t key, int64_t n, int64_t index)
{
    uint64_t v = (uint64_t)index;
    uint64_t mask;
    int half = 1;

    if (n <= SMALL) {
        return shuffle_small(key, (int)n, (int)index);
    }
    while (half < 32 && ((uint64_t)1 << (2 * half)) < (uint64_t)n) {
        half++;
    }
    mask = ((uint64_t)1 << half) - 1;
    do {
        uint64_t left = v >> half;
        uint64_t right = v & mask;

        for (uint64_t r = 0; r < ROUNDS; r++) {
            const uint64_t next = left ^ (mix(right + mix(key + r)) & mask);

            left = right;
            right = next;
        }
        v = left << half | right;
    } while (v >= (uint64_t)n);
    return (int64_t)v;
}

int64_t charl_order_row(uint64_t seed, int64_t n, bool shuffle, int64_t position)
{
    if (!shuffle) {
        return position % n;
    }
    return permute(epoch_key(seed, (uint64_t)(position / n)), n, position % n);
}

int64_t charl_order_shift(uint64_t seed, int64_t n, bool shuffle, int64_t position, int64_t window)
{
    if (!shuffle) {
        return 0;
    }
    return (int64_t)(mix(epoch_key(seed, (uint64_t)(position / n)) ^ UINT64_C(0x746f6b656e73)) %
                     (uint64_t)window);
}
