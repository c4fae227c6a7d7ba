/* The tensors of a checkpoint. */
#include "train/snapshot.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/parallel.h"
#include "task/weights/weights.h"
#include "parallel/optimizer_shard.h"

const char charl__rng_name[] = "philox4x32-10";

const char *charl__shuffle_name(charl_shuffle shuffle, const charl_dataset_info *data, char text[CHARL__SHUFFLE_TEXT])
{
    if (data->sampling != CHARL_SAMPLING_ONCE) {
        snprintf(text, CHARL__SHUFFLE_TEXT, "%s-v1",
                 data->sampling == CHARL_SAMPLING_WEIGHTED ? "weighted" : "balanced");
    } else if (shuffle == CHARL_SHUFFLE_BLOCKS) {
        snprintf(text, CHARL__SHUFFLE_TEXT, "feistel6-blocks-v1, %" PRId64 " of %" PRId64 " rows", data->shuffle_window,
                 data->block_rows);
    } else {
        snprintf(text, CHARL__SHUFFLE_TEXT, "%s", shuffle == CHARL_SHUFFLE_ROWS ? "feistel6-v1" : "none");
    }
    return text;
}

void charl__snapshot_fini(charl__snapshot *s)
{
    for (int64_t i = 0; i < s->n && !s->block; i++) {
        charl_free(s->data[i]);
    }
    charl_free(s->block);
    charl_free(s->data);
    charl_free(s->crc);
    charl_free(s->group);
    charl_free(s->tensor);
}

/* A packed state in a file: bf16 in the shape of the parameter, or u8 [blocks, BLOCK_BYTES], the codes of a block and then its scale. */
enum { BLOCK_BYTES = CHARL_PACK_BLOCK + sizeof(float) };

/* Floats that a tensor of n elements needs, also after pack_last: the last block is whole. */
static int64_t room_for(int64_t n)
{
    const int64_t packed = charl__packed_scales(CHARL__FORMAT_INT8, n) * BLOCK_BYTES / (int64_t)sizeof(float);

    return n > packed ? n : packed;
}

/* Room for one more tensor; *data is to be filled in. */
static charl_status add(charl__snapshot *s, const char *group, const char *name, const charl_shape *shape, float **data)
{
    const int64_t room = room_for(charl_shape_count(shape));

    if (s->block) {
        s->data[s->n] = s->block + s->used;
        s->used += room;
    } else {
        CHARL_TRY(charl__alloc_array(room, sizeof(float), &s->data[s->n]));
    }
    *data = s->data[s->n];
    snprintf(s->group[s->n], sizeof s->group[0], "%s", group);
    s->tensor[s->n] = (charl_checkpoint_tensor){
        .group = s->group[s->n], .name = name, .dtype = CHARL_F32, .shape = *shape, .data = *data};
    s->n++;
    return CHARL_OK;
}

enum { SHARE_BYTES = 1 << 20, MOST_SHARES = 4096 };

/* A tensor's values, for which each share of them has a checksum. */
typedef struct summing {
    const unsigned char *data;
    size_t bytes, share;
    uint32_t crc[MOST_SHARES];
} summing;

static void sum_share(void *ctx, int64_t i)
{
    summing *s = ctx;
    const size_t at = (size_t)i * s->share, left = s->bytes - at;

    s->crc[i] = charl__crc32c(0, s->data + at, left < s->share ? left : s->share);
}

/* Ranks compare it with one another's, on any number of processors: it sums shares of a fixed size. */
static uint32_t checksum(const float *values, int64_t n)
{
    summing s = {.data = (const unsigned char *)values, .bytes = (size_t)n * sizeof *values, .share = SHARE_BYTES};
    int64_t shares;

    while ((s.bytes + s.share - 1) / s.share > MOST_SHARES) {
        s.share *= 2;
    }
    shares = (int64_t)((s.bytes + s.share - 1) / s.share);
    charl__parallel(shares, sum_share, &s);
    return charl__crc32c(0, s.crc, (size_t)shares * sizeof s.crc[0]);
}

/* The values of the last tensor are there. */
static void seal(charl__snapshot *s)
{
    const int64_t i = s->n - 1;

    if (s->crc) {
        s->crc[i] = checksum(s->data[i], charl_shape_count(&s->tensor[i].shape));
    }
    if (!s->keeps) {
        if (!s->block) {
            charl_free(s->data[i]);
        }
        s->tensor[i].data = s->data[i] = NULL;
        s->used = 0; /* the next one takes the same memory */
    }
}

/* Tensor i, the value of p, is left to the base: only its checksum stays. */
static void leave_to_base(charl__snapshot *s, int64_t i, const charl_param *p)
{
    charl_checkpoint_tensor *t = &s->tensor[i];

    snprintf(s->group[i], sizeof s->group[0], CHARL_CHECKPOINT_BASE);
    t->crc32c =
        p->codes ? p->source_crc32c : charl__crc32c(0, t->data, (size_t)charl_shape_count(&t->shape) * sizeof(float));
    if (s->crc) {
        s->crc[i] = t->crc32c;
    }
    t->data = s->data[i] = NULL;
}

bool charl__leaves_base(const charl_config *config)
{
    return config->checkpoint.weights == CHARL__SAVED_TRAINED ||
           (config->checkpoint.weights == CHARL__SAVED_AUTO && config->lora.rank > 0);
}

void charl__snapshot_leave_base(charl__snapshot *s, const charl__replica *r)
{
    for (int64_t i = 0; i < s->n; i++) {
        const charl_param *p = charl_params_find(r->session->params, s->tensor[i].name);

        if (strcmp(s->group[i], "model") == 0 && p->frozen && p->in_base) {
            leave_to_base(s, i, p);
        }
    }
}

/* Whether a snapshot leaves p to the base. */
static bool is_left(const charl__snapshot *s, const charl_param *p)
{
    return s->apart && p->frozen && p->in_base;
}

static void state_group(const charl_optimizer *o, int k, char text[48])
{
    snprintf(text, 48, "optim/%s", charl_optimizer_get_state_name(o, k));
}

/* Where an optimizer that ranks divide has been collected, its values of p are those in `arena`,
 * which rank 0 has; the others leave theirs out. */
static void take_collected(const charl_param *p, const float *arena, float *data)
{
    if (arena) {
        memcpy(data, arena + p->offset, (size_t)charl_shape_count(&p->spec.shape) * sizeof *data);
    }
}

static charl_status add_ema(charl__snapshot *s, const charl__replica *r, const float *collected)
{
    for (int i = 0; i < charl_params_get_count(r->session->params); i++) {
        const charl_param *p = charl_params_get(r->session->params, i);
        const charl_param_spec *spec = charl_param_get_spec(p);
        float *data;

        if (spec->trainable) {
            CHARL_TRY(add(s, "ema", spec->name, &spec->shape, &data));
            if (r->dp->shard) {
                take_collected(p, collected, data);
            } else {
                CHARL_TRY(charl__optimizer_read_ema(r->optimizer, p, data));
            }
            seal(s);
        }
    }
    return CHARL_OK;
}

/* Let the last tensor, values of a state, be in the file as the optimizer keeps them. */
static charl_status pack_last(charl__snapshot *s, charl__format f)
{
    charl_checkpoint_tensor *t = &s->tensor[s->n - 1];
    const int64_t n = charl_shape_count(&t->shape), blocks = charl__packed_scales(f, n);
    const int64_t bytes = blocks > 0 ? blocks * BLOCK_BYTES : charl__packed_bytes(f, n);
    float *data = s->data[s->n - 1], *scales;
    unsigned char *codes = NULL;

    if (f == CHARL__FORMAT_F32 || !data) {
        return CHARL_OK;
    }
    CHARL_TRY(charl__alloc((size_t)(blocks * BLOCK_BYTES + charl__packed_bytes(f, n)), &codes));
    scales = (float *)(void *)codes;
    charl__pack(f, data, n, scales + blocks, scales);
    if (blocks == 0) {
        memcpy(data, codes, (size_t)bytes);
        t->dtype = CHARL_BF16;
    } else {
        const unsigned char *from = (const unsigned char *)(scales + blocks);

        memset(data, 0, (size_t)bytes);
        for (int64_t i = 0; i < blocks; i++) {
            const int64_t left = n - i * CHARL_PACK_BLOCK;
            unsigned char *to = (unsigned char *)data + i * BLOCK_BYTES;

            memcpy(to, from + i * CHARL_PACK_BLOCK, (size_t)(left < CHARL_PACK_BLOCK ? left : CHARL_PACK_BLOCK));
            memcpy(to + CHARL_PACK_BLOCK, scales + i, sizeof *scales);
        }
        t->dtype = CHARL_U8;
        t->shape = (charl_shape){2, {blocks, BLOCK_BYTES}};
    }
    charl_free(codes);
    return CHARL_OK;
}

static charl_status add_states(charl__snapshot *s, const charl__replica *r, int k, const float *collected)
{
    char group[48];

    state_group(r->optimizer, k, group);
    for (int i = 0; i < charl_params_get_count(r->session->params); i++) {
        const charl_param *p = charl_params_get(r->session->params, i);
        charl_shape shape;
        float *data;

        if (charl_optimizer_get_state_shape(r->optimizer, k, p, &shape)) {
            CHARL_TRY(add(s, group, charl_param_get_spec(p)->name, &shape, &data));
            if (r->dp->shard) {
                take_collected(p, collected, data);
            } else {
                CHARL_TRY(charl_optimizer_read_state(r->optimizer, k, p, data));
            }
            seal(s);
            CHARL_TRY(pack_last(s, charl__optimizer_format(r->optimizer, k)));
        }
    }
    return CHARL_OK;
}

/* State k, or for k = number of states the average, after `mine`, the status so far. Collective
 * where ranks divide the optimizer: all come here, whatever has failed. */
static charl_status add_kept(charl__snapshot *s, const charl__replica *r, charl_status mine, int k)
{
    charl_status st = mine;
    float *collected = NULL;

    CHARL_TRY_CLEANUP(r->dp->shard ? charl__shard_collect(r->dp, r->optimizer, mine, k, &collected) : mine);
    CHARL_TRY_CLEANUP(k < charl_optimizer_get_state_count(r->optimizer) ? add_states(s, r, k, collected)
                                                                        : add_ema(s, r, collected));
cleanup:
    charl_free(collected);
    return st;
}

static charl_status add_model(charl__snapshot *s, const charl__replica *r, int n_states)
{
    const int n_params = charl_params_get_count(r->session->params);

    s->capacity = (int64_t)n_params * (2 + n_states) + 1; /* that of spikes */
    CHARL_TRY(charl__alloc_array(s->capacity, sizeof *s->tensor, &s->tensor));
    CHARL_TRY(charl__alloc_array(s->capacity, sizeof *s->data, &s->data));
    if (charl_comm_size(r->comm) > 1) {
        CHARL_TRY(charl__alloc_array(s->capacity, sizeof *s->crc, &s->crc));
    }
    CHARL_TRY(charl__alloc_array(s->capacity, sizeof *s->group, &s->group));
    for (int i = 0; i < n_params; i++) {
        const charl_param *p = charl_params_get(r->session->params, i);
        const charl_param_spec *spec = charl_param_get_spec(p);
        float *data;

        CHARL_TRY(add(s, "model", spec->name, &spec->shape, &data));
        CHARL_TRY(charl_param_read(p, data));
        if (is_left(s, p)) {
            leave_to_base(s, s->n - 1, p);
            s->used -= room_for(charl_shape_count(&spec->shape)); /* the next one takes its memory */
        } else {
            seal(s);
        }
    }
    return CHARL_OK;
}

charl_status charl__snapshot_take_model(const charl__replica *r, charl__snapshot *s)
{
    return add_model(s, r, 0);
}

static charl_status add_norms(charl__snapshot *s, const charl_optimizer *o)
{
    const charl_shape shape = {1, {charl__optimizer_count_norms(o)}};
    float *data;

    if (shape.dim[0] > 0) {
        CHARL_TRY(add(s, CHARL_CHECKPOINT_SPIKE, CHARL_CHECKPOINT_NORMS, &shape, &data));
        CHARL_TRY(charl__optimizer_get_norms(o, data));
        seal(s);
    }
    return CHARL_OK;
}

/* Norms of as many steps continue; others start afresh. */
static charl_status restore_norms(charl_optimizer *o, charl_checkpoint_reader *r, const char *path)
{
    charl_status st = CHARL_OK;
    const charl_checkpoint_tensor *t = charl_checkpoint_find(r, CHARL_CHECKPOINT_SPIKE, CHARL_CHECKPOINT_NORMS);
    const charl_shape shape = {1, {charl__optimizer_count_norms(o)}};
    float *v = NULL, next;

    if (shape.dim[0] > 0 && t && charl_shape_equal(&t->shape, &shape)) {
        CHARL_TRY_CLEANUP(charl__weights_read(r, path, CHARL_CHECKPOINT_SPIKE, CHARL_CHECKPOINT_NORMS, &shape, &v));
        next = v[shape.dim[0] - 1];
        CHARL_REQUIRE_CLEANUP(next >= 0.0F && next < (float)(shape.dim[0] - 1), CHARL_ERR_CHECKPOINT,
                              "%s: the next of %lld gradient norms goes to %g", path, (long long)(shape.dim[0] - 1),
                              (double)next);
        CHARL_TRY_CLEANUP(charl__optimizer_set_norms(o, v));
    }
cleanup:
    charl_free(v);
    return st;
}

/* Floats of all tensors that are kept, and of the largest of all. */
static void count_values(const charl__snapshot *s, const charl__replica *r, int64_t *all, int64_t *largest)
{
    const bool has_ema = charl__optimizer_has_ema(r->optimizer);

    *all = *largest = room_for(charl__optimizer_count_norms(r->optimizer));
    for (int i = 0; i < charl_params_get_count(r->session->params); i++) {
        const charl_param *p = charl_params_get(r->session->params, i);
        const charl_param_spec *spec = charl_param_get_spec(p);
        const int64_t n = room_for(charl_shape_count(&spec->shape));
        charl_shape shape;

        *all += is_left(s, p) ? 0 : n * (1 + (has_ema && spec->trainable));
        *largest = n > *largest ? n : *largest;
        for (int k = 0; k < charl_optimizer_get_state_count(r->optimizer); k++) {
            if (charl_optimizer_get_state_shape(r->optimizer, k, p, &shape)) {
                const int64_t m = room_for(charl_shape_count(&shape));

                *all += m;
                *largest = m > *largest ? m : *largest;
            }
        }
    }
}

charl_status charl__snapshot_take(const charl__replica *r, charl__snapshot *s)
{
    const int n_states = charl_optimizer_get_state_count(r->optimizer);
    charl_status st = charl__fast_reads_begin(r->session->dev);
    int64_t all, largest;

    count_values(s, r, &all, &largest);
    if (st == CHARL_OK) { /* what is left to the base passes through memory too */
        const int64_t n = !s->keeps ? largest : s->apart ? all + largest : all;

        st = charl__alloc_large((size_t)n * sizeof(float), &s->block);
    }
    st = st == CHARL_OK ? add_model(s, r, n_states) : st;
    st = st == CHARL_OK ? add_norms(s, r->optimizer) : st;
    if (charl__optimizer_has_ema(r->optimizer)) {
        st = add_kept(s, r, st, n_states);
    }
    for (int k = 0; k < n_states; k++) {
        st = add_kept(s, r, st, k);
    }
    charl__fast_reads_end(r->session->dev);
    return st;
}

charl_status charl__snapshot_facts(const charl__snapshot *s, const char *group, const charl__fact *form,
                                   charl__consensus *facts)
{
    charl__fact fact = *form;
    char name[512], crc[32];

    for (int64_t i = 0; s->crc && i < s->n; i++) {
        if (!group || strcmp(s->tensor[i].group, group) == 0) {
            snprintf(name, sizeof name, "%s/%s", s->tensor[i].group, s->tensor[i].name);
            snprintf(crc, sizeof crc, "checksum %08x", s->crc[i]);
            fact.label = name;
            fact.value = crc;
            CHARL_TRY(charl__consensus_add(facts, &fact));
        }
    }
    return CHARL_OK;
}

/* The moving average continues if the checkpoint has one, and else starts from the weights. */
static charl_status restore_ema(charl__replica *r, charl_checkpoint_reader *reader, const char *path)
{
    charl_status st = CHARL_OK;
    float *v = NULL;

    for (int i = 0; i < charl_params_get_count(r->session->params); i++) {
        const charl_param *p = charl_params_get(r->session->params, i);
        const charl_param_spec *spec = charl_param_get_spec(p);

        if (spec->trainable) {
            CHARL_TRY_CLEANUP(charl__weights_read(reader, path, "ema", spec->name, &spec->shape, &v));
            CHARL_TRY_CLEANUP(charl__optimizer_write_ema(r->optimizer, p, v));
            charl_free(v);
            v = NULL;
        }
    }
cleanup:
    charl_free(v);
    return st;
}

/* Values of a packed state, whatever the optimizer keeps its state in now. */
static charl_status read_packed(const charl_optimizer *o, int k, charl_checkpoint_reader *r,
                                const charl_checkpoint_tensor *t, int64_t n, float *dst)
{
    charl_status st = CHARL_OK;
    const charl__format f =
        charl__optimizer_format_with(o, k, t->dtype == CHARL_BF16 ? CHARL_PACKING_BF16 : CHARL_PACKING_INT8);
    unsigned char *from = NULL;

    CHARL_TRY_CLEANUP(charl__alloc_array(charl_shape_count(&t->shape) + 1, charl_dtype_size(t->dtype), &from));
    CHARL_TRY_CLEANUP(charl_checkpoint_read(r, t, from));
    if (t->dtype == CHARL_BF16) {
        charl__unpack(f, from, NULL, n, dst);
    }
    for (int64_t i = 0; t->dtype == CHARL_U8 && i < t->shape.dim[0]; i++) {
        const int64_t left = n - i * CHARL_PACK_BLOCK;
        float scale;

        memcpy(&scale, from + i * BLOCK_BYTES + CHARL_PACK_BLOCK, sizeof scale);
        charl__unpack(f, from + i * BLOCK_BYTES, &scale, left < CHARL_PACK_BLOCK ? left : CHARL_PACK_BLOCK,
                      dst + i * CHARL_PACK_BLOCK);
    }
cleanup:
    charl_free(from);
    return st;
}

/* Whether t holds a packed state of this shape. */
static bool is_packed(const charl_checkpoint_tensor *t, const charl_shape *shape)
{
    const charl_shape blocks = {2, {charl__packed_scales(CHARL__FORMAT_INT8, charl_shape_count(shape)), BLOCK_BYTES}};

    return t && ((t->dtype == CHARL_BF16 && charl_shape_equal(&t->shape, shape)) ||
                 (t->dtype == CHARL_U8 && charl_shape_equal(&t->shape, &blocks)));
}

static charl_status restore_state(charl_optimizer *o, int k, const charl_param *p, charl_checkpoint_reader *r,
                                  const char *path)
{
    charl_status st = CHARL_OK;
    charl_shape shape;
    char group[48];
    float *v = NULL;

    if (charl_optimizer_get_state_shape(o, k, p, &shape)) {
        const charl_checkpoint_tensor *t;

        state_group(o, k, group);
        t = charl_checkpoint_find(r, group, charl_param_get_spec(p)->name);
        if (is_packed(t, &shape)) {
            CHARL_TRY_CLEANUP(charl__alloc_array(charl_shape_count(&shape), sizeof *v, &v));
            CHARL_TRY_CLEANUP(read_packed(o, k, r, t, charl_shape_count(&shape), v));
        } else {
            CHARL_TRY_CLEANUP(charl__weights_read(r, path, group, charl_param_get_spec(p)->name, &shape, &v));
        }
        CHARL_TRY_CLEANUP(charl_optimizer_write_state(o, k, p, v));
    }
cleanup:
    charl_free(v);
    return st;
}

charl_status charl__snapshot_restore(charl__replica *r, charl_checkpoint_reader *reader, const char *path)
{
    const charl_params *params = r->session->params;

    CHARL_TRY(charl__weights_restore(r->session->params, reader, path, "model"));
    for (int i = 0; i < charl_params_get_count(params); i++) {
        charl_param *p = charl_params_get(params, i);
        const charl_checkpoint_tensor *t = charl_checkpoint_find(reader, "model", charl_param_get_spec(p)->name);

        p->in_base = t && charl_checkpoint_is_in_base(reader, t);
    }
    for (int i = 0; i < charl_params_get_count(params); i++) {
        for (int k = 0; k < charl_optimizer_get_state_count(r->optimizer); k++) {
            CHARL_TRY(restore_state(r->optimizer, k, charl_params_get(params, i), reader, path));
        }
    }
    CHARL_TRY(restore_norms(r->optimizer, reader, path));
    if (charl__optimizer_has_ema(r->optimizer) && charl__weights_have_average(reader)) {
        CHARL_TRY(restore_ema(r, reader, path));
    } else {
        CHARL_TRY(charl_optimizer_reset_ema(r->optimizer));
    }
    return CHARL_OK;
}
