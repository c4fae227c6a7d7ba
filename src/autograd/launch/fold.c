/* Folding the slices of every lane in tree order. */
#include "autograd/op.h"

bool charl__fold_is_direct(const charl__enqueue *e)
{
    return e->slices->count == 1;
}

charl_tensor *charl__fold_target(const charl__enqueue *e, int k)
{
    return charl__fold_is_direct(e) ? e->out[k] : e->workspace;
}

void charl__fold_params(const charl__enqueue *e, int k, int leaves, charl__launch *l)
{
    int level = 0;

    charl__launch_set(l, "M", leaves);
    while (1 << level < e->parts) {
        level++;
    }
    if (e->rounds[k]) {
        charl__launch_set(l, "ROUND", level);
    }
}

charl__arg charl__lane_out(const charl__enqueue *e, int k, int j)
{
    charl__arg out = charl__raw(CHARL_ARG_OUT, e->out[k]->buffer);

    out.v.offset = e->out[k]->offset + j * e->lane_stride[k];
    return out;
}

/* On GPUs every work-item moves 16 bytes at a time if possible. CPU compilers join work-items. */
static bool is_in_fours(const charl__enqueue *e, const charl__fold_input *in)
{
    const int64_t places =
        in->n | in->part.v.offset | e->out[in->k]->offset | (e->slices->n_lanes > 1 ? e->lane_stride[in->k] : 0);

    return !in->move && charl_device_get_info(e->dev)->kind != CHARL_DEVICE_CPU && places % 4 == 0;
}

static int64_t leaf_elements(const charl__fold_input *in)
{
    return in->move ? in->n / in->move->channels * in->move->padded : in->n;
}

static charl_status fold_lane(const charl__enqueue *e, const charl__fold_input *in, int n_in, int j)
{
    const charl_slices *s = e->slices;
    const charl__fold_move *move = in[0].move;
    const int group = move ? 256 : 64; /* neighbours share the data they read */
    const int vec = is_in_fours(e, &in[0]) && is_in_fours(e, &in[n_in - 1]) ? 4 : 1;
    const int64_t leaf = s->lane_lo[j] - s->first; /* first leaf among this rank's */
    charl__launch l = {.file = "reduce/fold",
                       .entry = "charl_fold",
                       .params = {{"CHARL_VEC", vec}, {"TWO", n_in == 2}, {"MOVED", move != NULL}},
                       .local = {(size_t)group},
                       .label = e->label};

    charl__fold_params(e, in[0].k, s->lane_hi[j] - s->lane_lo[j], &l);
    for (int i = 0; i < n_in; i++) {
        charl__arg part = in[i].part;

        part.v.offset += leaf * leaf_elements(&in[i]);
        charl__launch_add(&l, part);
        charl__launch_add(&l, charl__lane_out(e, in[i].k, j));
        charl__launch_add(&l, charl__i64(in[i].n));
        l.global[0] += (size_t)((in[i].n / vec + group - 1) / group * group);
    }
    if (move) {
        charl__launch_add(&l, charl__i32((int32_t)move->channels));
        charl__launch_add(&l, charl__i32((int32_t)move->taps));
        charl__launch_add(&l, charl__i32((int32_t)move->padded));
    }
    return charl__launch_enqueue(e->dev, &l);
}

charl_status charl__fold_inputs(const charl__enqueue *e, const charl__fold_input *in, int n_in)
{
    const int each = e->rounds[in[0].k] == e->rounds[in[n_in - 1].k] ? n_in : 1; /* to a launch */

    CHARL_INVARIANT(!charl__fold_is_direct(e) || in[0].move);
    for (int j = 0; j < e->slices->n_lanes; j++) {
        for (int i = 0; i < n_in; i += each) {
            CHARL_TRY(fold_lane(e, &in[i], each, j));
        }
    }
    return CHARL_OK;
}

charl_status charl__fold_from(const charl__enqueue *e, charl__arg part, int64_t n, int k)
{
    charl_status st = CHARL_OK;

    if (charl__fold_is_direct(e)) {
        CHARL_INVARIANT(part.buffer == e->out[k]->buffer && part.v.offset == e->out[k]->offset);
    } else if (n > 0) {
        st = charl__fold_inputs(e, &(charl__fold_input){part, n, k, NULL}, 1);
    }
    return st;
}

charl_status charl__fold(const charl__enqueue *e, charl_tensor *part, int64_t n, int k)
{
    charl__arg in = charl__raw(CHARL_ARG_IN, part->buffer);

    in.v.offset = part->offset;
    return charl__fold_from(e, in, n, k);
}
