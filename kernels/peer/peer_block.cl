/* peer_block: writes the parameter block that the other kernels of this folder read at every launch (peer_box.clh).
 *
 * Launch    one work-item, after the buffers have been created and before any other kernel of this folder.
 */
#define BF16 0
#define RANKS 2 /* 2 to 8 */
#define EACH_RANK(X) X(0) X(1)
#define LANES 2
#define LOCAL 64
#define PACKS 4
#define GROUPS 2
#include "peer/peer_access.clh"
#include "peer/peer_tiles.clh"
#include "peer/peer_box.clh"

#define BOX_PARAMETERS(r) global uchar *b##r, ulong b##r##_at,
#define BOX(r)            b##r + b##r##_at,

kernel void charl_peer_block(EACH_RANK(BOX_PARAMETERS) global const value *lanes, ulong lanes_at, global value *sum, ulong sum_at,
                             global uint *state, ulong state_at, global ulong *block, ulong block_at, ulong stride, int rank,
                             int first, int mine)
{
    *(global peers_block *)(block + block_at) = (peers_block){
        {EACH_RANK(BOX)}, lanes + lanes_at, sum + sum_at, state + state_at, stride, rank, first, mine, 0};
}
