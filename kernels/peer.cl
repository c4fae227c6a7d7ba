/* peer: the sum over all lanes of all ranks of a node, by their devices alone, over memory that they map into each other.
 *
 * Every rank has a box that all ranks can write. Work-group g of a rank works with the work-groups g of the others and with no other
 * one: it writes tiles of its lanes into their boxes, raises a flag there, waits for their flags in its own box and adds. A device
 * reads its own memory only, what crosses the link is stores.
 *
 *     charl_peer_sum_all     every rank gets all lanes and adds everything: one meeting per tile
 *     charl_peer_sum_parts   rank r gets part r of all lanes, adds it, and gives the sum to all: two meetings, fewer bytes with
 *                            three ranks and more, and half the additions
 *
 * A box             flags: a ulong per work-group and rank, 128 bytes per work-group; then per work-group slots of a tile each: LANES
 *                   that come for a part, RANKS parts that come summed, 2 * LANES that come for sum_all.
 * Why a slot may    A flag at e says that its rank has read what came before e - 1. For parts: lanes are written after the second
 * be written again  meeting of the tile before, sums after the first of this one. sum_all has one meeting, so the parity of the
 *                   epoch selects one of two sets; sum_parts uses two epochs, and every launch as many in every work-group.
 *                   Where a launch has fewer work-groups than another, flags stay behind; a slot is free all the same, as launches of
 *                   a device run one after another and each of them meets.
 * Launch            1 to GROUPS work-groups of LOCAL, as many on all ranks, the same arguments but for rank, first and mine. A
 *                   work-group waits for none of its own device, so if a device starts them in order they need not all be resident.
 *                   Waiting is bounded: `patience` is ns (PTX) or polls. state[0] gets a bit per rank that did not come, state[1]
 *                   is set by the host to end all waiting; then and from then on no sum is valid.
 * Numerics          the tree of src/base/tree.h over the lanes: LANES - 1 additions, as ADDS lists them, the same on every rank.
 */
#ifndef RANKS
#define RANKS 2 /* 2 to 8 */
#define LANES 2
#define ADDS ADD(0, 1) /* ADD(dst, src)...: lane dst += lane src; the sum is lane 0 */
#define LOCAL 64
#define PACKS 4 /* of four floats, in flight per work-item and lane */
#define GROUPS 2 /* that a box has room for */
#endif
#include "peer_access.clh"
#include "peer_tiles.clh"

#define FLAGS 16
#define TILE (LOCAL * PACKS) /* packs */
#define SLOTS (3 * LANES + RANKS)
#define POLLS 256 /* between two looks at the clock and at state[1] */

/* All that the work-items of a group share. */
typedef struct {
    global uchar *const *box;
    global const float *lanes;
    global float *sum;
    global uint *state;
    local int *is_lost;
    int rank, first, mine; /* lanes first .. first + mine of all are this rank's */
    ulong stride, patience;
} peers;

static inline global float4 *slot_of(const peers *p, int rank, int slot)
{
    const ulong at = (ulong)get_group_id(0) * SLOTS + slot;

    return (global float4 *)(p->box[rank] + GROUPS * FLAGS * sizeof(ulong)) + at * TILE;
}

static inline global ulong *flag_of(const peers *p, int owner, int from)
{
    return (global ulong *)p->box[owner] + get_group_id(0) * FLAGS + from;
}

/* Who has once lost another rank writes no more: its boxes may still be read. */
static inline void start(const peers *p)
{
    if (get_local_id(0) == 0) {
        *p->is_lost = (word_read(p->state) | word_read(p->state + 1)) != 0;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}

/* Work-item t waits for rank t. On a CPU they do so one after another, which ends: of the ranks that wait for each other in a circle
 * the one that waits for the lowest would be waited for by a rank that has raised its flag already. */
static inline void meet(const peers *p, ulong epoch)
{
    const int t = (int)get_local_id(0);

    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    if (t < RANKS && t != p->rank) {
        const ulong begin = moment(0);
        ulong polls = 0;

        flag_raise(flag_of(p, t, p->rank), epoch);
        while ((long)(flag_read(flag_of(p, p->rank, t)) - epoch) < 0) {
            if (++polls % POLLS != 0) {
                continue;
            }
            if (moment(polls) - begin > p->patience) {
                atomic_or(p->state, 1u << t);
                *p->is_lost = 1;
                break;
            }
            if (word_read(p->state + 1) != 0) {
                *p->is_lost = 1;
                break;
            }
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
}

static inline global const float4 *lane_of(const peers *p, const tile *t, int j)
{
    return (global const float4 *)(p->lanes + j * p->stride) + t->first;
}

/* This rank's lanes of a tile into the slots of another one. Reads past the end repeat the last pack, so that none waits for a branch. */
static inline void tile_send(const peers *p, const tile *t, int to, int slot)
{
    for (int j = 0; j < p->mine && t->n > 0; j++) {
        global const float4 *from = lane_of(p, t, j);
        global float4 *at = slot_of(p, to, slot + p->first + j);
        float4 v[PACKS];

#pragma unroll
        for (int k = 0; k < PACKS; k++) {
            v[k] = from[min(k * LOCAL + (int)get_local_id(0), t->n - 1)];
        }
#pragma unroll
        for (int k = 0; k < PACKS; k++) {
            if (k * LOCAL + (int)get_local_id(0) < t->n) {
                pack_write(at + k * LOCAL + get_local_id(0), v[k]);
            }
        }
    }
}

static inline void sum_write(const peers *p, const tile *t, int i, float4 v)
{
    const ulong at = (t->first + i) * 4;

    if (at >= t->from && at + 4 <= t->to) {
        vstore4(v, 0, p->sum + at);
    } else {
        const float s[4] = {v.x, v.y, v.z, v.w};

        for (int e = 0; e < 4; e++) {
            if (at + e >= t->from && at + e < t->to) {
                p->sum[at + e] = s[e];
            }
        }
    }
}

/* Add the lanes of a tile, this rank's from its arena and the others' from slots; also into slot `give` of the others, unless -1. */
static inline void tile_add(const peers *p, const tile *t, int slot, int give)
{
    float4 v[LANES][PACKS];

    if (t->n <= 0) {
        return;
    }
#pragma unroll
    for (int l = 0; l < LANES; l++) {
        const bool is_mine = l >= p->first && l < p->first + p->mine;
        global const float4 *from = is_mine ? lane_of(p, t, l - p->first) : slot_of(p, p->rank, slot + l);

#pragma unroll
        for (int k = 0; k < PACKS; k++) {
            v[l][k] = pack_read(from + min(k * LOCAL + (int)get_local_id(0), t->n - 1));
        }
    }
#pragma unroll
    for (int k = 0; k < PACKS; k++) {
        const int i = k * LOCAL + (int)get_local_id(0);

#define ADD(dst, src) v[dst][k] += v[src][k];
        ADDS
#undef ADD
        if (i < t->n) {
            sum_write(p, t, i, v[0][k]);
            for (int r = 1; r < RANKS && give >= 0; r++) {
                pack_write(slot_of(p, (p->rank + r) % RANKS, give) + i, v[0][k]);
            }
        }
    }
}

static inline void tile_keep(const peers *p, const tile *t, int slot)
{
    global const float4 *from = slot_of(p, p->rank, slot);

    for (int i = (int)get_local_id(0); i < t->n; i += LOCAL) {
        sum_write(p, t, i, pack_read(from + i));
    }
}

#define PARAMETERS                                                                                                                      \
    global uchar *b0, ulong b0_at, global uchar *b1, ulong b1_at, global uchar *b2, ulong b2_at, global uchar *b3, ulong b3_at,         \
        global uchar *b4, ulong b4_at, global uchar *b5, ulong b5_at, global uchar *b6, ulong b6_at, global uchar *b7, ulong b7_at,     \
        global const float *lanes, ulong lanes_at, global float *sum, ulong sum_at, global uint *state, ulong state_at, int rank,       \
        int first, int mine, ulong stride, ulong offset, ulong count, int size, int rounds, ulong epoch, ulong patience
#define BOXES {b0 + b0_at, b1 + b1_at, b2 + b2_at, b3 + b3_at, b4 + b4_at, b5 + b5_at, b6 + b6_at, b7 + b7_at}
#define PEERS {box, lanes + lanes_at, sum + sum_at, state + state_at, &is_lost, rank, first, mine, stride, patience}

__attribute__((reqd_work_group_size(LOCAL, 1, 1))) kernel void charl_peer_sum_all(PARAMETERS)
{
    local int is_lost;
    global uchar *const box[8] = BOXES;
    const peers p = PEERS;

    start(&p);
    for (int i = 0; i < rounds && !is_lost; i++) {
        const tile t = tile_of(offset, offset + count, (ulong)i * get_num_groups(0) + get_group_id(0), size);
        const ulong now = epoch + i;
        const int slot = LANES + RANKS + (now & 1) * LANES;

        for (int r = 1; r < RANKS; r++) {
            tile_send(&p, &t, (rank + r) % RANKS, slot);
        }
        meet(&p, now);
        if (!is_lost) {
            tile_add(&p, &t, slot, -1);
        }
    }
}

__attribute__((reqd_work_group_size(LOCAL, 1, 1))) kernel void charl_peer_sum_parts(PARAMETERS)
{
    local int is_lost;
    global uchar *const box[8] = BOXES;
    const peers p = PEERS;

    start(&p);
    for (int i = 0; i < rounds && !is_lost; i++) {
        const ulong at = (ulong)i * get_num_groups(0) + get_group_id(0);
        const tile own = part_of(offset, count, rank, at, size);

        for (int r = 1; r < RANKS; r++) {
            const tile t = part_of(offset, count, (rank + r) % RANKS, at, size);

            tile_send(&p, &t, (rank + r) % RANKS, 0);
        }
        meet(&p, epoch + 2 * i);
        if (!is_lost) {
            tile_add(&p, &own, 0, LANES + rank);
        }
        meet(&p, epoch + 2 * i + 1);
        for (int r = 1; r < RANKS && !is_lost; r++) {
            const tile t = part_of(offset, count, (rank + r) % RANKS, at, size);

            tile_keep(&p, &t, LANES + (rank + r) % RANKS);
        }
    }
}
