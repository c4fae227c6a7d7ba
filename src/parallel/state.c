/* The state of a training: its parts, copying and loading. */
#include "parallel/state.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/numeric/hash.h"
#include "base/parallel.h"
#include "io/checkpoint/checkpoint_read.h"
#include "parallel/optimizer_shard.h"

enum { N_COUNTS = 3 };

void charl__state_fini(charl__state *s)
{
    for (int64_t i = 0; i < s->n; i++) {
        charl_free(s->item[i].name);
    }
    charl_free(s->item);
    charl_free(s->tensor);
    charl_free(s->crc);
    charl_free(s->share);
    charl_free(s->block);
    *s = (charl__state){0};
}

/* ------------------------------------------------------------------ the list */

/* Called `name` in `group`, after the prefix; with "" as the prefix, or "all". */
static charl_status add(charl__state *s, const char *prefix, const char *group, const char *name, charl__state_item it)
{
    const char *before = prefix ? prefix : name[0] ? "" : "all";
    const size_t bytes = strlen(before) + 1 + strlen(name) + 1;

    CHARL_TRY(charl__grow(s->n, sizeof *s->item, &s->item));
    CHARL_TRY(charl__alloc(bytes, &it.name));
    snprintf(it.name, bytes, "%s%s%s", before, prefix && name[0] ? "." : "", name);
    snprintf(it.group, sizeof it.group, "%s", group);
    s->item[s->n++] = it;
    return CHARL_OK;
}

charl_status charl__state_add_params(charl__state *s, const char *prefix, charl_params *set, charl_data_parallel *dp)
{
    for (int i = 0; i < charl_params_get_count(set); i++) {
        charl_param *p = charl_params_get(set, i);
        const bool is_divided = dp && dp->shard && charl__param_is_divided(p);

        if (!(s->alike && is_divided)) {
            CHARL_TRY(add(s, prefix, "model", p->spec.name,
                          (charl__state_item){.kind = CHARL__STATE_PARAM,
                                              .dtype = CHARL_F32,
                                              .shape = p->spec.shape,
                                              .is_divided = is_divided,
                                              .param = p,
                                              .dp = dp}));
        }
    }
    return CHARL_OK;
}

/* Norms of as many steps continue; others start afresh. */
static charl_status add_norms(charl__state *s, const char *prefix, charl_optimizer *o, const charl_checkpoint_reader *r)
{
    const charl_shape shape = {1, {charl__optimizer_count_norms(o)}};
    const charl_checkpoint_tensor *t =
        r ? charl_checkpoint_find(r, CHARL_CHECKPOINT_SPIKE, CHARL_CHECKPOINT_NORMS) : NULL;

    return shape.dim[0] == 0 || (r && !(t && charl_shape_equal(&t->shape, &shape)))
               ? CHARL_OK
               : add(s, prefix, CHARL_CHECKPOINT_SPIKE, CHARL_CHECKPOINT_NORMS,
                     (charl__state_item){
                         .kind = CHARL__STATE_NORMS, .dtype = CHARL_F32, .shape = shape, .optimizer = o});
}

/* State k, or after the states the average. */
static charl_status add_state(charl__state *s, const char *prefix, charl_optimizer *o, charl_data_parallel *dp, int k)
{
    const bool is_average = k == o->n_states;
    char group[64] = "ema";

    if (!is_average) {
        snprintf(group, sizeof group, "optim/%s", charl_optimizer_get_state_name(o, k));
    }
    for (int i = 0; i < charl_params_get_count(o->set); i++) {
        charl_param *p = charl_params_get(o->set, i);
        charl__state_item it = {.kind = is_average ? CHARL__STATE_AVERAGE : CHARL__STATE_OPTIMIZER,
                                .dtype = CHARL_F32,
                                .shape = p->spec.shape,
                                .is_divided = dp && dp->shard,
                                .param = p,
                                .optimizer = o,
                                .k = k,
                                .dp = dp};

        if (is_average ? charl__optimizer_trains(o, p) : charl_optimizer_get_state_shape(o, k, p, &it.shape)) {
            CHARL_TRY(add(s, prefix, group, p->spec.name, it));
        }
    }
    return CHARL_OK;
}

charl_status charl__state_add_optimizer(charl__state *s, const char *prefix, charl_optimizer *o,
                                        charl_data_parallel *dp, const charl_checkpoint_reader *r)
{
    const bool has_average = charl__optimizer_has_ema(o) && (!r || charl__checkpoint_has_average(r));

    CHARL_TRY(add_norms(s, prefix, o, r));
    CHARL_TRY(has_average ? add_state(s, prefix, o, dp, o->n_states) : CHARL_OK);
    for (int k = 0; k < o->n_states; k++) {
        CHARL_TRY(add_state(s, prefix, o, dp, k));
    }
    return CHARL_OK;
}

charl_status charl__state_add_counts(charl__state *s, const char *prefix, charl_optimizer *o, charl_data_parallel *dp)
{
    CHARL_TRY(
        add(s, prefix, "optim/counts", "",
            (charl__state_item){
                .kind = CHARL__STATE_COUNTS, .dtype = CHARL_I64, .shape = {1, {N_COUNTS}}, .optimizer = o, .dp = dp}));
    return !charl__steps_scale(o->steps)
               ? CHARL_OK
               : add(s, prefix, "optim/loss_scale", "",
                     (charl__state_item){.kind = CHARL__STATE_SCALE, .dtype = CHARL_F32, .optimizer = o});
}

charl_status charl__state_add_value(charl__state *s, const charl_training_value *v)
{
    return add(
        s, NULL, "user", v->name,
        (charl__state_item){.kind = CHARL__STATE_MEMORY, .dtype = v->dtype, .shape = v->shape, .memory = v->data});
}

/* ------------------------------------------------------------------ to the host */

static charl_status get_counts(const charl__state_item *it, int64_t *out)
{
    charl_optimizer_report report;

    CHARL_TRY(charl_optimizer_get_report(it->optimizer, &report));
    out[0] = charl_optimizer_get_steps(it->optimizer);
    out[1] = report.skipped;
    out[2] = it->dp ? (int64_t)it->dp->step : out[0];
    return CHARL_OK;
}

static size_t bytes_of(const charl__state_item *it)
{
    return (size_t)charl_shape_count(&it->shape) * charl_dtype_size(it->dtype);
}

/* collected: of a divided state, the arena of all ranks. */
static charl_status read_item(const charl__state_item *it, const float *collected, void *dst)
{
    if (it->is_divided && !collected) { /* what this rank has */
        return it->optimizer ? charl__own_read(it->optimizer, it->k, it->param, dst)
                             : charl__param_read_own(it->param, dst);
    }
    if (it->is_divided) {
        memcpy(dst, collected + it->param->offset, bytes_of(it));
        return CHARL_OK;
    }
    switch (it->kind) {
    case CHARL__STATE_PARAM:
        return charl_param_read(it->param, dst);
    case CHARL__STATE_OPTIMIZER:
        return charl_optimizer_read_state(it->optimizer, it->k, it->param, dst);
    case CHARL__STATE_AVERAGE:
        return charl__optimizer_read_ema(it->optimizer, it->param, dst);
    case CHARL__STATE_COUNTS:
        return get_counts(it, dst);
    case CHARL__STATE_NORMS:
        return charl__optimizer_get_norms(it->optimizer, dst);
    case CHARL__STATE_SCALE:
        return charl_steps_get_loss_scale(it->optimizer->steps, dst);
    case CHARL__STATE_MEMORY:
        memcpy(dst, it->memory, bytes_of(it));
        break;
    }
    return CHARL_OK;
}

/* A packed state in a file: bf16 in the shape of the parameter, or u8 [blocks, BLOCK_BYTES], the codes of a block and then its scale. */
enum { BLOCK_BYTES = CHARL_PACK_BLOCK + sizeof(float) };

static charl__format format_of(const charl__state_item *it)
{
    return it->kind == CHARL__STATE_OPTIMIZER ? charl__optimizer_format(it->optimizer, it->k) : CHARL__FORMAT_F32;
}

/* Elements in the file of the first n elements of an item; n: all, or whole blocks of packed codes. */
static int64_t filed(const charl__state_item *it, int64_t n)
{
    const int64_t blocks = charl__packed_scales(format_of(it), n);

    return blocks > 0 ? blocks * (int64_t)BLOCK_BYTES : n;
}

/* An item as it is in the file, without values. */
static charl_checkpoint_tensor tensor_of(const charl__state_item *it)
{
    const charl__format f = format_of(it);
    const int64_t blocks = charl__packed_scales(f, charl_shape_count(&it->shape));
    charl_checkpoint_tensor t = {.group = it->group, .name = it->name, .dtype = it->dtype, .shape = it->shape};

    if (blocks > 0) {
        t.dtype = CHARL_U8;
        t.shape = (charl_shape){2, {blocks, BLOCK_BYTES}};
    } else if (f != CHARL__FORMAT_F32) {
        t.dtype = CHARL_BF16;
    }
    return t;
}

/* Bytes that n elements of an item need, also when they are packed: the last block is whole. Whole numbers of every type can follow. */
static size_t room_for(const charl__state_item *it, int64_t n)
{
    const size_t packed = (size_t)charl__packed_scales(CHARL__FORMAT_INT8, n) * BLOCK_BYTES;
    const size_t bytes = (size_t)n * charl_dtype_size(it->dtype), most = bytes > packed ? bytes : packed;

    return (most + sizeof(int64_t) - 1) / sizeof(int64_t) * sizeof(int64_t);
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

/* Ranks compare it, whatever their number of processors: it sums shares of a fixed size. */
static uint32_t checksum(const void *values, size_t bytes)
{
    summing s = {.data = values, .bytes = bytes, .share = SHARE_BYTES};
    int64_t shares;

    while ((s.bytes + s.share - 1) / s.share > MOST_SHARES) {
        s.share *= 2;
    }
    shares = (int64_t)((s.bytes + s.share - 1) / s.share);
    charl__parallel(shares, sum_share, &s);
    return charl__crc32c(0, s.crc, (size_t)shares * sizeof s.crc[0]);
}

/* Let n values of a state be in the file as the optimizer keeps them. */
static charl_status pack(charl__format f, int64_t n, float *data)
{
    const int64_t blocks = charl__packed_scales(f, n);
    CHARL_SCOPED_FREE unsigned char *codes = NULL;
    float *scales;

    if (f == CHARL__FORMAT_F32) {
        return CHARL_OK;
    }
    CHARL_TRY(charl__alloc((size_t)(blocks * BLOCK_BYTES + charl__packed_bytes(f, n)), &codes));
    scales = (float *)(void *)codes;
    charl__pack(f, data, n, scales + blocks, scales);
    if (blocks == 0) {
        memcpy(data, codes, (size_t)charl__packed_bytes(f, n));
    } else {
        const unsigned char *from = (const unsigned char *)(scales + blocks);

        memset(data, 0, (size_t)(blocks * BLOCK_BYTES));
        for (int64_t i = 0; i < blocks; i++) {
            const int64_t left = n - i * CHARL_PACK_BLOCK;
            unsigned char *to = (unsigned char *)data + i * BLOCK_BYTES;

            memcpy(to, from + i * CHARL_PACK_BLOCK, (size_t)(left < CHARL_PACK_BLOCK ? left : CHARL_PACK_BLOCK));
            memcpy(to + CHARL_PACK_BLOCK, scales + i, sizeof *scales);
        }
    }
    return CHARL_OK;
}

static bool is_in_base(const charl__state_item *it)
{
    return it->kind == CHARL__STATE_PARAM && it->param->frozen && it->param->in_base;
}

/* Keep only the checksum of tensor i. */
static void leave_to_base(charl__state *s, int64_t i, const void *data)
{
    const charl__state_item *it = &s->item[i];

    s->tensor[i].group = CHARL_CHECKPOINT_BASE;
    s->tensor[i].crc32c = it->param->codes ? it->param->source_crc32c : charl__crc32c(0, data, bytes_of(it));
    s->tensor[i].data = NULL;
    if (s->crc) {
        s->crc[i] = s->tensor[i].crc32c;
    }
}

void charl__state_leave_base(charl__state *s)
{
    for (int64_t i = 0; i < s->n; i++) {
        if (is_in_base(&s->item[i])) {
            leave_to_base(s, i, s->tensor[i].data);
        }
    }
}

static bool is_left(const charl__state *s, const charl__state_item *it)
{
    return s->apart && is_in_base(it);
}

static int64_t filed_bytes(const charl__state *s, const charl__state_item *it)
{
    const charl_checkpoint_tensor t = tensor_of(it);

    return is_left(s, it) ? 0 : charl_shape_count(&t.shape) * (int64_t)charl_dtype_size(t.dtype);
}

int64_t charl__state_bytes(const charl__state *s)
{
    int64_t bytes = 0;

    for (const charl__state_item *it = s->item; it < s->item + s->n; it++) {
        bytes += filed_bytes(s, it);
    }
    return bytes;
}

/* The first element of the row in which byte `at` of an item lies in the file: 0 before it, all elements behind it. */
static int64_t row_at(const charl__state *s, const charl__state_item *it, int64_t at)
{
    const int64_t n = charl_shape_count(&it->shape), bytes = filed_bytes(s, it);
    const int64_t blocks = charl__packed_scales(format_of(it), n);
    const int64_t rows = blocks > 0 ? blocks : it->shape.ndim > 0 ? it->shape.dim[0] : 1;

    if (at <= 0 || at >= bytes) {
        return at <= 0 ? 0 : n;
    }
    return at / (bytes / rows) * (blocks > 0 ? CHARL_PACK_BLOCK : n / rows);
}

static charl_status add_share(charl__state *s, int64_t i, int64_t from, int64_t to)
{
    if (from < to) {
        CHARL_TRY(charl__grow(s->n_shares, sizeof *s->share, &s->share));
        s->share[s->n_shares++] = (charl__ckpt_share){.tensor = i, .from = from, .count = to - from};
    }
    return CHARL_OK;
}

/* s->share, in elements of the items: what this rank has of those that are divided, and its part of the bytes of the others. */
static charl_status cut(charl__state *s)
{
    int64_t all = 0, at = 0;

    for (const charl__state_item *it = s->item; it < s->item + s->n; it++) {
        all += it->is_divided ? 0 : filed_bytes(s, it);
    }
    for (int64_t i = 0; s->part >= 0 && i < s->n; i++) {
        const charl__state_item *it = &s->item[i];
        int64_t from = 0, to = 0;

        if (it->is_divided) {
            while (charl__shard_own(it->dp, it->param, charl_shape_count(&it->shape), &from, &to)) {
                CHARL_TRY(add_share(s, i, from, to));
            }
        } else if (!is_left(s, it)) {
            from = row_at(s, it, all * s->part / s->parts - at);
            to = row_at(s, it, all * (s->part + 1) / s->parts - at);
            at += filed_bytes(s, it);
            CHARL_TRY(add_share(s, i, from, to));
        }
    }
    return CHARL_OK;
}

/* Keep of the values of item i, which are at `data`, those of *share and the shares that follow it of the same item; *share becomes the one after
 * them. They are pushed together: each comes to lie before where it was. */
static charl_status copy_shares(charl__state *s, int64_t i, const unsigned char *data, charl__ckpt_share **share)
{
    const charl__state_item *it = &s->item[i];
    const size_t size = charl_dtype_size(it->dtype);

    for (charl__ckpt_share *h = *share; h < s->share + s->n_shares && h->tensor == i; *share = ++h) {
        unsigned char *to = s->block + s->used;
        const int64_t n = h->count;

        memmove(to, data + (size_t)h->from * size, (size_t)n * size);
        CHARL_TRY(pack(format_of(it), n, (float *)(void *)to));
        *h = (charl__ckpt_share){i, filed(it, h->from), filed(it, n), to};
        s->used += room_for(it, n);
    }
    return CHARL_OK;
}

/* share: the first of item i or of one after it. */
static charl_status copy_item(charl__state *s, int64_t i, const float *collected, charl__ckpt_share **share)
{
    const charl__state_item *it = &s->item[i];
    charl_checkpoint_tensor *t = &s->tensor[i];
    unsigned char *data = s->block + s->used;
    const bool is_shared = it->is_divided && s->parts > 0; /* no rank has all of it */

    *t = tensor_of(it);
    if (!(s->keeps || s->sums) || (it->is_divided && !collected && !(is_shared && s->keeps))) {
        return CHARL_OK;
    }
    CHARL_TRY(read_item(it, collected, data));
    if (is_left(s, it)) {
        leave_to_base(s, i, data);
        return CHARL_OK;
    }
    if (s->sums && !is_shared) {
        s->crc[i] = checksum(data, bytes_of(it));
    }
    if (!s->keeps) { /* the next one takes the same memory */
        return CHARL_OK;
    }
    if (s->parts == 0) {
        t->data = data;
        s->used += room_for(it, charl_shape_count(&it->shape));
        return pack(format_of(it), charl_shape_count(&it->shape), (float *)(void *)data);
    }
    return copy_shares(s, i, data, share);
}

static charl_status reserve(charl__state *s)
{
    size_t all = 0, largest = 0;

    CHARL_TRY(s->parts > 0 ? cut(s) : CHARL_OK);
    for (int64_t i = 0; i < s->n; i++) {
        const size_t room = room_for(&s->item[i], charl_shape_count(&s->item[i].shape));

        all += s->parts > 0 || is_left(s, &s->item[i]) ? 0 : room;
        largest = room > largest ? room : largest;
    }
    for (int64_t i = 0; i < s->n_shares; i++) {
        all += room_for(&s->item[s->share[i].tensor], s->share[i].count);
    }
    CHARL_TRY(charl__alloc_array(s->n, sizeof *s->tensor, &s->tensor));
    CHARL_TRY(s->sums ? charl__alloc_array(s->n, sizeof *s->crc, &s->crc) : CHARL_OK);
    /* what is not kept passes through memory too */
    return !s->keeps && !s->sums ? CHARL_OK
                                 : charl__alloc_large(!s->keeps                  ? largest
                                                      : s->apart || s->parts > 0 ? all + largest
                                                                                 : all,
                                                      &s->block);
}

charl_status charl__state_copy(charl__state *s, charl_status mine)
{
    CHARL_SCOPED_FREE float *collected = NULL;
    charl_device *dev = NULL;
    const charl__state_item *last = NULL; /* of those that are divided */
    charl__ckpt_share *share;
    charl_status st = mine;

    for (int64_t i = 0; i < s->n && !dev; i++) {
        dev = s->item[i].param ? s->item[i].param->set->dev : NULL;
    }
    st = st == CHARL_OK && dev ? charl__fast_reads_begin(dev) : st;
    st = st == CHARL_OK ? reserve(s) : st;
    share = s->share;
    for (int64_t i = 0; i < s->n; i++) {
        const charl__state_item *it = &s->item[i];

        /* All ranks come here, whatever has failed. */
        if (it->is_divided && s->parts == 0 &&
            (!last || last->dp != it->dp || last->optimizer != it->optimizer || last->k != it->k)) {
            charl_free(collected);
            collected = NULL;
            st = charl__shard_collect(it->dp, it->optimizer, st, it->k, s->keeps, &collected);
        }
        last = it->is_divided ? it : last;
        st = st == CHARL_OK ? copy_item(s, i, it->is_divided ? collected : NULL, &share) : st;
    }
    if (dev) {
        charl__fast_reads_end(dev);
    }
    return st;
}

charl_status charl__state_facts(const charl__state *s, const char *group, const charl__fact *form,
                                charl__consensus *facts)
{
    charl__fact fact = *form;
    char name[1024], crc[32];

    for (int64_t i = 0; s->crc && i < s->n; i++) {
        if (!s->item[i].is_divided && (!group || strcmp(s->tensor[i].group, group) == 0)) {
            snprintf(name, sizeof name, "%s/%s", s->tensor[i].group, s->tensor[i].name);
            snprintf(crc, sizeof crc, "checksum %08x", s->crc[i]);
            fact.label = name;
            fact.value = crc;
            CHARL_TRY(charl__consensus_add(facts, &fact));
        }
    }
    return CHARL_OK;
}

/* ------------------------------------------------------------------ from a checkpoint */

static charl_status set_counts(const charl__state_item *it, const int64_t *counts)
{
    CHARL_TRY(charl_optimizer_set_steps(it->optimizer, counts[0], counts[1]));
    if (it->dp) {
        it->dp->step = it->optimizer->applied = (uint64_t)counts[2];
    }
    return CHARL_OK;
}

static charl_status write_item(const charl__state_item *it, const void *src)
{
    switch (it->kind) {
    case CHARL__STATE_PARAM:
        return charl_param_write(it->param, src);
    case CHARL__STATE_OPTIMIZER:
        return charl_optimizer_write_state(it->optimizer, it->k, it->param, src);
    case CHARL__STATE_AVERAGE:
        return charl__optimizer_write_ema(it->optimizer, it->param, src);
    case CHARL__STATE_COUNTS:
        return set_counts(it, src);
    case CHARL__STATE_NORMS:
        return charl__optimizer_set_norms(it->optimizer, src);
    case CHARL__STATE_SCALE:
        return charl_steps_set_loss_scale(it->optimizer->steps, *(const float *)src);
    case CHARL__STATE_MEMORY:
        memcpy(it->memory, src, bytes_of(it));
        break;
    }
    return CHARL_OK;
}

/* Reject values that the functions taking them would reject, or trust. */
static charl_status check_values(const charl__state_item *it, const char *path, const void *data)
{
    const int64_t *counts = data;
    const float *v = data;
    bool is_right = true;
    int exponent;

    if (it->kind == CHARL__STATE_COUNTS) {
        is_right = counts[1] >= 0 && counts[0] >= counts[1] && counts[2] >= 0;
    } else if (it->kind == CHARL__STATE_NORMS) {
        const int64_t last = it->shape.dim[0] - 1;

        is_right = v[last] >= 0.0F && v[last] < (float)last; /* where the next one goes */
    } else if (it->kind == CHARL__STATE_SCALE) {
        is_right = isfinite(v[0]) && v[0] >= 1.0F && frexpf(v[0], &exponent) == 0.5F;
    }
    CHARL_REQUIRE(is_right, CHARL_ERR_CHECKPOINT, "%s: /%s/%s has a value that no training has", path, it->group,
                  it->name);
    return CHARL_OK;
}

/* Values of a packed state, in whatever form the optimizer keeps its state now. */
static charl_status read_packed(const charl__state_item *it, charl_checkpoint_reader *r,
                                const charl_checkpoint_tensor *t, float *dst)
{
    const int64_t n = charl_shape_count(&it->shape);
    const charl__format f = charl__optimizer_format_with(
        it->optimizer, it->k, t->dtype == CHARL_BF16 ? CHARL_PACKING_BF16 : CHARL_PACKING_INT8);
    CHARL_SCOPED_FREE unsigned char *from = NULL;

    CHARL_TRY(charl__alloc_array(charl_shape_count(&t->shape) + 1, charl_dtype_size(t->dtype), &from));
    CHARL_TRY(charl_checkpoint_read(r, t, from));
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
    return CHARL_OK;
}

/* Whether t holds a packed state of this shape. */
static bool is_packed(const charl_checkpoint_tensor *t, const charl__state_item *it)
{
    const charl_shape blocks = {2,
                                {charl__packed_scales(CHARL__FORMAT_INT8, charl_shape_count(&it->shape)), BLOCK_BYTES}};

    return it->kind == CHARL__STATE_OPTIMIZER &&
           ((t->dtype == CHARL_BF16 && charl_shape_equal(&t->shape, &it->shape)) ||
            (t->dtype == CHARL_U8 && charl_shape_equal(&t->shape, &blocks)));
}

static bool has_group(const charl_checkpoint_reader *r, const char *group)
{
    int64_t i = 0;
    const charl_checkpoint_tensor *t;

    while ((t = charl_checkpoint_get_tensor(r, i)) != NULL && strcmp(t->group, group) != 0) {
        i++;
    }
    return t != NULL;
}

static charl_status find(const charl__state_item *it, const charl_checkpoint_reader *r, const char *path,
                         const charl_checkpoint_tensor **out)
{
    const charl_checkpoint_tensor *t = charl_checkpoint_find(r, it->group, it->name);
    const bool is_state = it->param && it->kind != CHARL__STATE_PARAM && charl_checkpoint_find(r, "model", it->name);
    char wanted[CHARL_SHAPE_TEXT], found[CHARL_SHAPE_TEXT];

    CHARL_REQUIRE(t || !is_state || has_group(r, it->group), CHARL_ERR_CHECKPOINT,
                  "%s has no /%s: it was written by an optimizer without this state", path, it->group);
    CHARL_REQUIRE(t || !is_state, CHARL_ERR_CHECKPOINT, "%s has no /%s/%s: %s was frozen when it was written", path,
                  it->group, it->name, it->name);
    CHARL_REQUIRE(t, CHARL_ERR_CHECKPOINT, "%s: /%s/%s is missing", path, it->group, it->name);
    CHARL_REQUIRE((t->dtype == it->dtype && charl_shape_equal(&t->shape, &it->shape)) || is_packed(t, it),
                  CHARL_ERR_CHECKPOINT, "%s: /%s/%s is %s %s, here it is %s %s", path, it->group, it->name,
                  charl_dtype_name(t->dtype), charl_shape_format(&t->shape, found), charl_dtype_name(it->dtype),
                  charl_shape_format(&it->shape, wanted));
    *out = t;
    return CHARL_OK;
}

charl_status charl__state_load(const charl__state *s, charl_checkpoint_reader *r, const char *path, bool takes)
{
    for (const charl__state_item *it = s->item; it < s->item + s->n; it++) {
        CHARL_SCOPED_FREE void *data = NULL;
        const charl_checkpoint_tensor *t;

        CHARL_TRY(find(it, r, path, &t));
        CHARL_TRY(charl__alloc(bytes_of(it) + 1, &data));
        CHARL_TRY(is_packed(t, it) ? read_packed(it, r, t, data) : charl_checkpoint_read(r, t, data));
        CHARL_TRY(check_values(it, path, data));
        CHARL_TRY(takes ? write_item(it, data) : CHARL_OK);
    }
    return CHARL_OK;
}
