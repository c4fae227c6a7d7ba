#include "autograd/op/loss/nvidia/cross_entropy_local.h"

#include "autograd/launch/map.h"
#include "autograd/op/loss/cross_entropy.h"

enum {
    GROUP = 448,
    GROUPS = 2,          /* on a compute unit */
    ROWS = 2,            /* of a group, at most */
    LEAST_BYTES = 49152, /* what the kernel declares */
    MOST_BYTES = 115000  /* two rows fit into the local memory of a compute unit */
};

bool charl__cross_entropy_local(const charl__enqueue *e, int64_t n, charl__launch *l)
{
    const charl__device_facts *facts = charl__device_facts_get(e->dev);
    const charl_tensor *x = e->in[1], *out = e->out[0];
    const int64_t chunks = charl__cross_entropy_chunks(n);
    const int64_t bytes = chunks * (CHARL__CROSS_ENTROPY_CHUNK * 2 + 16 + 12);

    if (!facts->nvidia.wgmma || !facts->nvidia.ptx || charl_dtype_size(x->dtype) != 2 ||
        (x->offset - out->offset) % CHARL_GPU_VEC != 0 || bytes < LEAST_BYTES || bytes > MOST_BYTES) {
        return false;
    }
    l->file = "nvidia/loss/cross_entropy_local";
    l->sm90a.shared_bytes = bytes;
    l->sm90a.min_blocks = GROUPS;
    charl__launch_set(l, "CHARL_ROW_GROUP", GROUP);
    charl__launch_set(l, "ROW_CHUNKS", chunks);
    return true;
}

/* A work-group processes several rows in turn, overlapping, but few, so that all groups finish at about the same time. */
int64_t charl__cross_entropy_local_groups(const charl__enqueue *e, int64_t rows, charl__launch *l)
{
    const int64_t places = GROUPS * charl_device_get_info(e->dev)->compute_units;
    const int64_t turns = (rows + places * ROWS - 1) / (places * ROWS);
    const int64_t per_item = (rows + places * turns - 1) / (places * turns);

    l->local[0] = GROUP;
    l->global[0] = (size_t)((rows + per_item - 1) / per_item) * GROUP;
    return per_item;
}
