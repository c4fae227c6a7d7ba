/* embedding_rank: the positions of each slice, ordered by token and then by position, where many work-items are there to count.
 *
 *   charl_rank  leaves what charl_sort of embedding.cl leaves
 *
 * Specialised by   GROUP  work-items of a group (default 1)
 * Launch           for each slice as many groups of GROUP as cover its positions, at least one position.
 * Algorithm        each work-item has a position and counts those that stand before it: all positions pass through local memory, GROUP at
 *                  a time. The last of a token knows where the token ends, and the next larger token in use, up to which nothing begins.
 *                  positions^2 comparisons for each slice, shared by all work-items.
 * Numerics         integers.
 */
#ifndef GROUP
#define GROUP 1
#endif

static inline int token_of(global const int *token, int p, int positions, int vocab)
{
    const int v = p < positions ? token[p] : -1;

    return p >= positions ? vocab + 1 : v < 0 || v >= vocab ? vocab : v;
}

kernel void charl_rank(global const int *token, ulong token_at, global int *scratch, ulong scratch_at, ulong slices, int positions,
                       int vocab)
{
    local int held[GROUP];
    const int t = (int)get_local_id(0), groups = (positions + GROUP - 1) / GROUP;
    const ulong s = get_group_id(0) / (ulong)groups;
    const int p = (int)(get_group_id(0) % (ulong)groups) * GROUP + t;
    global int *end = scratch + scratch_at + s * (ulong)(vocab + 1);
    global int *order = scratch + scratch_at + slices * (ulong)(vocab + 1) + s * (ulong)positions;
    int mine, rank = 0, same = 0, next = vocab + 1;

    token += token_at + s * (ulong)positions;
    mine = token_of(token, p, positions, vocab);
    for (int block = 0; block < positions; block += GROUP) {
        barrier(CLK_LOCAL_MEM_FENCE); /* what was there has been read */
        held[t] = token_of(token, block + t, positions, vocab);
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int i = 0; i < GROUP; i++) {
            const int other = held[i];

            rank += other < mine || (other == mine && block + i < p);
            same += other == mine && block + i > p;
            next = other > mine ? min(next, other) : next;
        }
    }
    if (p >= positions) {
        return;
    }
    order[rank] = p;
    for (int v = mine; same == 0 && v < next; v++) {
        end[v] = rank + 1;
    }
    for (int v = 0; rank == 0 && v < mine; v++) {
        end[v] = 0;
    }
}
