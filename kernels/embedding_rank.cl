/* embedding_rank: the positions of each slice, ordered by token and then by position, where many work-items are there to count.
 *
 *   charl_rank  leaves what charl_sort of embedding.cl leaves
 *
 * Specialised by   GROUP  work-items of a group, a multiple of 4 (default 4)
 *                  KEY    uint where it holds (vocab + 2) * positions, else ulong (default)
 * Launch           for each slice as many groups of GROUP as cover its positions, at least one position.
 * Algorithm        each work-item has a position and counts those that stand before it: all positions pass through local memory, GROUP at
 *                  a time, as keys of token and position. The one after it tells whether it is the last of its token, which knows where
 *                  the token ends, and the next larger token in use, up to which nothing begins.
 *                  positions^2 comparisons for each slice, shared by all work-items.
 * Numerics         integers.
 */
#ifndef GROUP
#define GROUP 4
#endif
#ifndef KEY
#define KEY ulong
#endif
#define KEYS CHARL_GLUE(KEY, 4)

/* Ascending in token and position; above all others where there is no position. */
static inline KEY key_of(global const int *token, int p, int positions, int vocab)
{
    const int v = p < positions ? token[p] : 0;

    return p < positions ? (KEY)(v < 0 || v >= vocab ? vocab : v) * (KEY)positions + (KEY)p : ~(KEY)0;
}

kernel void charl_rank(global const int *token, ulong token_at, global int *scratch, ulong scratch_at, ulong slices, int positions,
                       int vocab)
{
    local KEYS held[GROUP / 4];
    const int t = (int)get_local_id(0), groups = (positions + GROUP - 1) / GROUP;
    const ulong s = get_group_id(0) / (ulong)groups;
    const int p = (int)(get_group_id(0) % (ulong)groups) * GROUP + t;
    global int *end = scratch + scratch_at + s * (ulong)(vocab + 1);
    global int *order = scratch + scratch_at + slices * (ulong)(vocab + 1) + s * (ulong)positions;
    KEYS gap;
    KEY mine, next;
    int rank = 0, v, after;

    token += token_at + s * (ulong)positions;
    mine = key_of(token, p, positions, vocab);
    gap = (KEYS)(~(KEY)0 - mine - 1);
    for (int block = 0; block < positions; block += GROUP) {
        barrier(CLK_LOCAL_MEM_FENCE); /* what was there has been read */
        ((local KEY *)held)[t] = key_of(token, block + t, positions, vocab);
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int i = 0; i < GROUP / 4; i++) {
            const KEYS other = held[i];

            rank += (other.x < mine) + (other.y < mine) + (other.z < mine) + (other.w < mine);
            gap = min(gap, other - mine - 1); /* of smaller ones and itself this is large */
        }
    }
    if (p >= positions) {
        return;
    }
    next = mine + 1 + min(min(gap.x, gap.y), min(gap.z, gap.w));
    v = (int)(mine / (KEY)positions);
    after = (int)min(next / (KEY)positions, (KEY)(vocab + 1));
    order[rank] = p;
    for (int w = v; w < after; w++) { /* none where the token goes on */
        end[w] = rank + 1;
    }
    for (int w = 0; rank == 0 && w < v; w++) {
        end[w] = 0;
    }
}
