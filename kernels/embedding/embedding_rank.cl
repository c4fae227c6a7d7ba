/* embedding_rank: the positions of each slice, ordered by token and then by position, where many work-items are there to compare.
 *
 *   charl_sort_blocks  keys of each GROUP positions in ascending order
 *   charl_rank         leaves, given those, what charl_sort of embedding.cl leaves
 *
 * Specialised by   GROUP  work-items of a group, a power of two from 4 on (default 4)
 *                  KEY    uint where it holds (vocab + 2) * positions, else ulong (default)
 * Launch           for each slice as many groups of GROUP as cover its positions, at least one position.
 * Algorithm        a key is of token and position, so no two are equal. Each work-item counts what is smaller in its own block, and then
 *                  looks for its place in all other blocks by halving, BLOCKS of them at a time. What is next to these places tells
 *                  the next larger key: whether the token goes on, and else which token in use follows, up to which nothing begins.
 * Numerics         integers.
 */
#define GROUP 4
#define KEY ulong
#define KEYS   CHARL_GLUE(KEY, 4)
#define BLOCKS 4
#define NONE   (~(KEY)0) /* above all keys */

static inline KEY key_of(global const int *token, int p, int positions, int vocab)
{
    const int v = token[p];

    return (KEY)(v < 0 || v >= vocab ? vocab : v) * (KEY)positions + (KEY)p;
}

kernel void charl_sort_blocks(global const int *token, ulong token_at, global int *scratch, ulong keys_at, int positions, int vocab)
{
    global KEY *keys = (global KEY *)(scratch + keys_at);
    local KEYS held[GROUP / 4];
    const int t = (int)get_local_id(0), groups = (positions + GROUP - 1) / GROUP;
    const ulong block = get_group_id(0), s = block / (ulong)groups;
    const int p = (int)(block % (ulong)groups) * GROUP + t;
    const KEY mine = p < positions ? key_of(token + token_at + s * (ulong)positions, p, positions, vocab) : NONE;
    int rank = 0;

    ((local KEY *)held)[t] = mine;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int i = 0; i < GROUP / 4; i++) {
        const KEYS other = held[i];

        rank += (other.x < mine) + (other.y < mine) + (other.z < mine) + (other.w < mine);
    }
    keys[block * GROUP + (ulong)(p < positions ? rank : t)] = mine; /* the last ones have no position */
}

/* How many of GROUP ascending keys are below `mine`; the next larger one is at most *next. */
static inline int place_among(local const KEY *sorted, KEY mine, KEY *next)
{
    int below = 0, after;

#pragma unroll
    for (int step = GROUP / 2; step > 0; step /= 2) {
        below += sorted[below + step - 1] < mine ? step : 0;
    }
    below += sorted[below] < mine;
    after = min(below, GROUP - 1);
    after = min(after + (sorted[after] == mine), GROUP - 1);
    *next = sorted[after] > mine ? min(*next, sorted[after]) : *next;
    return below;
}

/* Position p of token v is number `rank` in order; `after` is the next token, v itself where it goes on. */
static inline void put_rank(global int *end, global int *order, int rank, int p, int v, int after)
{
    order[rank] = p;
    for (int w = v; w < after; w++) {
        end[w] = rank + 1;
    }
    for (int w = 0; rank == 0 && w < v; w++) {
        end[w] = 0;
    }
}

kernel void charl_rank(global const int *keys_in, ulong keys_at, global int *scratch, ulong scratch_at, ulong slices, int positions,
                       int vocab)
{
    local KEY held[BLOCKS * GROUP];
    const int t = (int)get_local_id(0), groups = (positions + GROUP - 1) / GROUP;
    const ulong block = get_group_id(0), s = block / (ulong)groups;
    global const KEY *keys = (global const KEY *)(keys_in + keys_at);
    const KEY mine = keys[block * GROUP + (ulong)t];
    KEY next = NONE;
    int rank = 0;

    keys += s * (ulong)groups * GROUP;
    for (int first = 0; first < groups; first += BLOCKS) {
        barrier(CLK_LOCAL_MEM_FENCE); /* what was there has been read */
        for (int b = 0; b < BLOCKS; b++) {
            held[b * GROUP + t] = first + b < groups ? keys[(first + b) * GROUP + t] : NONE;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
        for (int b = 0; b < BLOCKS; b++) {
            rank += place_among(held + b * GROUP, mine, &next);
        }
    }
    if (mine != NONE) {
        scratch += scratch_at;
        put_rank(scratch + s * (ulong)(vocab + 1), scratch + slices * (ulong)(vocab + 1) + s * (ulong)positions, rank,
                 (int)(mine % (KEY)positions), (int)(mine / (KEY)positions),
                 (int)min(next / (KEY)positions, (KEY)(vocab + 1)));
    }
}
