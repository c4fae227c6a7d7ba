/* The order of samples. An epoch's permutation of 0..n-1 is a Feistel network on the smallest even
 * number of bits that holds n, repeated until the value is in the range (cycle walking: at most four
 * rounds on average, since the domain is less than 4 n). A network of few bits has too few
 * permutations, so small sets are shuffled explicitly instead. */
#include "charl/dataset.h"

#include "io/dataset/order/stream.h"

enum { ROUNDS = 6, SMALL = 128, BLOCK = 128 };

/* Finalizer of splitmix64: every input bit affects every output bit. */
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

/* Fisher-Yates from the top down; element i is final after its iteration. */
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

/* The parameters of an epoch's permutation. */
typedef struct epoch_order {
    uint64_t key, round_key[ROUNDS], mask;
    int64_t n;
    int half; /* bits of either half of the network */
} epoch_order;

static epoch_order order_of(uint64_t seed, int64_t n, int64_t epoch)
{
    epoch_order o = {.key = epoch_key(seed, (uint64_t)epoch), .n = n, .half = 1};

    while (o.half < 32 && ((uint64_t)1 << (2 * o.half)) < (uint64_t)n) {
        o.half++;
    }
    o.mask = ((uint64_t)1 << o.half) - 1;
    for (uint64_t r = 0; r < ROUNDS; r++) {
        o.round_key[r] = mix(o.key + r);
    }
    return o;
}

static uint64_t network(const epoch_order *o, uint64_t v)
{
    uint64_t left = v >> o->half;
    uint64_t right = v & o->mask;

    for (int r = 0; r < ROUNDS; r++) {
        const uint64_t next = left ^ (mix(right + o->round_key[r]) & o->mask);

        left = right;
        right = next;
    }
    return left << o->half | right;
}

/* Indexes [first, first + count) of an epoch, at most BLOCK. All walks are interleaved:
 * in sequence, each round would wait for the previous one. */
static void permute(const epoch_order *o, int64_t first, int64_t count, int64_t *out)
{
    int walking[BLOCK], n = (int)count;

    for (int i = 0; i < count; i++) {
        out[i] = o->n <= SMALL ? shuffle_small(o->key, (int)o->n, (int)first + i) : first + i;
        walking[i] = i;
    }
    while (o->n > SMALL && n > 0) {
        int left = 0;

        for (int k = 0; k < n; k++) {
            const int i = walking[k];

            out[i] = (int64_t)network(o, (uint64_t)out[i]);
            walking[left] = i;
            left += out[i] >= o->n;
        }
        n = left;
    }
}

void charl_order_rows(uint64_t seed, int64_t n, bool shuffle, int64_t position, int64_t count, int64_t *out)
{
    if (!out || n <= 0) {
        return;
    }
    epoch_order o;

    for (int64_t i = 0; i < count;) {
        const int64_t epoch = (position + i) / n, at = position + i - epoch * n;
        int64_t block = count - i < n - at ? count - i : n - at; /* ends with the epoch */

        if (!shuffle) {
            out[i++] = at;
            continue;
        }
        block = block < BLOCK ? block : BLOCK;
        o = order_of(seed, n, epoch);
        permute(&o, at, block, out + i);
        i += block;
    }
}

int64_t charl_order_row(uint64_t seed, int64_t n, bool shuffle, int64_t position)
{
    int64_t row = 0;

    charl_order_rows(seed, n, shuffle, position, 1, &row);
    return row;
}

/* An epoch in blocks. Its blocks are in slots; the shorter one, at the end of the rows, is in slot `shorter`. */
typedef struct block_order {
    int64_t block, rest; /* rows of a block, and of the short one; 0: none is short */
    int64_t full, slots; /* blocks that are not short; all */
    int64_t shorter;     /* slots where there is none */
    int64_t per_window;  /* slots */
    uint64_t key;
    epoch_order blocks;
} block_order;

static block_order blocks_of(uint64_t seed, int64_t n, int64_t block, int64_t window, int64_t epoch)
{
    block_order b = {
        .block = block, .rest = n % block, .full = n / block, .per_window = window / block > 1 ? window / block : 1};

    b.key = mix(epoch_key(seed, (uint64_t)epoch) ^ UINT64_C(0x626c6f636b73));
    b.slots = b.full + (b.rest > 0);
    b.shorter = b.rest > 0 ? (int64_t)(mix(b.key) % (uint64_t)b.slots) : b.slots;
    b.blocks = order_of(b.key, b.full > 0 ? b.full : 1, -1);
    return b;
}

/* The index in the epoch at which a slot begins. */
static int64_t slot_begin(const block_order *b, int64_t slot)
{
    return slot * b->block - (slot > b->shorter ? b->block - b->rest : 0);
}

static int64_t slot_at(const block_order *b, int64_t at)
{
    if (at < b->shorter * b->block) {
        return at / b->block;
    }
    return at < slot_begin(b, b->shorter + 1) ? b->shorter : (at - b->rest) / b->block + 1;
}

static int64_t row_in_blocks(const block_order *b, int64_t at)
{
    const int64_t window = slot_at(b, at) / b->per_window, first = window * b->per_window;
    const int64_t end = first + b->per_window < b->slots ? first + b->per_window : b->slots;
    const int64_t begin = slot_begin(b, first);
    const epoch_order rows = order_of(b->key, slot_begin(b, end) - begin, window);
    int64_t place, slot, block;

    permute(&rows, at - begin, 1, &place);
    place += begin;
    slot = slot_at(b, place);
    block = b->full;
    if (slot != b->shorter) {
        permute(&b->blocks, slot - (slot > b->shorter), 1, &block);
    }
    return block * b->block + place - slot_begin(b, slot);
}

void charl_order_blocks(uint64_t seed, int64_t n, int64_t block, int64_t window, int64_t position, int64_t count,
                        int64_t *out)
{
    if (!out || n <= 0 || block <= 0) {
        return;
    }
    block_order b;

    for (int64_t i = 0, epoch = -1; i < count; i++) {
        if ((position + i) / n != epoch) {
            epoch = (position + i) / n;
            b = blocks_of(seed, n, block, window, epoch);
        }
        out[i] = row_in_blocks(&b, (position + i) % n);
    }
}

int64_t charl_order_shift(uint64_t seed, int64_t n, bool shuffle, int64_t position, int64_t window)
{
    if (!shuffle || n <= 0 || window <= 0) {
        return 0;
    }
    return (int64_t)(mix(epoch_key(seed, (uint64_t)(position / n)) ^ UINT64_C(0x746f6b656e73)) % (uint64_t)window);
}

/* The upper half of a product. */
static uint64_t multiply_high(uint64_t a, uint64_t b)
{
    const uint64_t low = UINT32_MAX, middle = (a >> 32) * (b & low) + ((a & low) * (b & low) >> 32);

    return (a >> 32) * (b >> 32) + (middle >> 32) + (((middle & low) + (a & low) * (b >> 32)) >> 32);
}

void charl__order_draws(uint64_t seed, int64_t n, const uint64_t *sums, int64_t position, int64_t count, int64_t *out)
{
    for (int64_t i = 0; i < count; i++) {
        const uint64_t epoch = (uint64_t)((position + i) / n), at = (uint64_t)((position + i) % n);
        const uint64_t key = mix(epoch_key(seed, epoch) ^ UINT64_C(0x6472617773));
        const uint64_t t = multiply_high(mix(key + at * UINT64_C(0x9e3779b97f4a7c15)), sums[n]);
        int64_t low = 0, high = n; /* sums[low] <= t < sums[high] */

        while (high - low > 1) {
            const int64_t middle = low + (high - low) / 2;

            *(sums[middle] <= t ? &low : &high) = middle;
        }
        out[i] = low;
    }
}
