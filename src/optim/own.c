/* The part of the elementwise arenas (state and average) that this process owns: everything, or some
 * ranges, stored one after another. */

#include "base/alloc.h"
#include "optim/optimizer.h"

static int64_t end_of(const charl_param *p)
{
    return p->offset + charl__param_blocks(p) * CHARL_PARAM_ALIGN;
}

bool charl_optimizer_is_elementwise(const char *type)
{
    const charl__optimizer_rule *t = charl__optimizer_find(type);

    return t && t->elementwise;
}

/* Ranges that follow one another become one. */
static charl_status add_range(charl_optimizer *o, charl__param_range range)
{
    charl__param_range *last = o->n_own > 0 ? &o->own[o->n_own - 1] : NULL;

    if (range.count == 0) {
        return CHARL_OK;
    }
    if (last && last->begin + last->count == range.begin) {
        last->count += range.count;
        o->own_elements += range.count;
        return CHARL_OK;
    }
    CHARL_TRY(charl__grow(o->n_own, sizeof *o->own, &o->own));
    o->own[o->n_own++] = range;
    o->own_elements += range.count;
    return CHARL_OK;
}

/* The parts of `range` with parameters that the optimizer updates. */
static charl_status add_chosen(charl_optimizer *o, charl__param_range range)
{
    const int64_t end = range.begin + range.count;

    for (int64_t at = range.begin, next; at < end; at = next) {
        const charl_param *first = NULL; /* the first that ends after `at` */

        for (int i = 0; i < o->set->count; i++) {
            const charl_param *p = o->set->param[i];

            if (o->trains[i] && end_of(p) > at && (!first || p->offset < first->offset)) {
                first = p;
            }
        }
        if (!first || first->offset >= end) {
            break;
        }
        at = first->offset > at ? first->offset : at;
        next = end_of(first) < end ? end_of(first) : end;
        CHARL_TRY(add_range(o, (charl__param_range){at, next - at}));
    }
    return CHARL_OK;
}

/* Where p begins among the own elements; -1: it is not there. */
static charl_status find_tensor(const charl_optimizer *o, const charl_param *p, int64_t *out)
{
    int64_t kept = 0;

    *out = -1;
    for (int i = 0; i < o->n_own; i++) {
        const charl__param_range *r = &o->own[i];
        const int64_t end = r->begin + r->count;

        if (r->begin <= p->offset && end_of(p) <= end) {
            *out = kept + p->offset - r->begin;
        } else {
            CHARL_REQUIRE(r->begin >= end_of(p) || end <= p->offset, CHARL_ERR_CONFIG,
                          "%s updates whole tensors, but the shards divide %s; HINT "
                          "charl_data_parallel_options.optimizer = \"%s\"",
                          o->type->row.name, p->spec.name, o->type->row.name);
        }
        kept += r->count;
    }
    return CHARL_OK;
}

static charl_status find_tensors(charl_optimizer *o)
{
    CHARL_TRY(charl__alloc_array(o->set->count, sizeof *o->own_at, &o->own_at));
    for (int i = 0; i < o->set->count; i++) {
        o->own_at[i] = -1;
        if (o->set->param[i]->spec.trainable) {
            CHARL_TRY(find_tensor(o, o->set->param[i], &o->own_at[i]));
        }
    }
    return CHARL_OK;
}

charl_status charl__own_create(charl_optimizer *o, const charl__param_ranges *own)
{
    const charl__param_range all = {0, o->set->elements};
    const charl__param_ranges everything = {.range = &all, .n = 1};

    o->is_divided = own != NULL;
    own = own ? own : &everything;
    for (int i = 0; i < own->n; i++) {
        CHARL_INVARIANT(own->range[i].begin % CHARL_PARAM_ALIGN == 0 && own->range[i].count % CHARL_PARAM_ALIGN == 0);
        CHARL_TRY(o->trains ? add_chosen(o, own->range[i]) : add_range(o, own->range[i]));
    }
    return o->type->elementwise ? CHARL_OK : find_tensors(o);
}

charl_status charl__own_copy_gradients(const charl_optimizer *o)
{
    charl_status st = CHARL_OK;

    for (int i = 0; i < o->set->count && st == CHARL_OK; i++) {
        const charl_param *p = o->set->param[i];
        charl_tensor *from = NULL, *to = NULL;

        if (o->trains[i]) {
            st = charl__tensor_view(o->set->sum, CHARL_F32, &p->spec.shape, p->offset, &from);
            st = st == CHARL_OK ? charl__tensor_view(o->gradients, CHARL_F32, &p->spec.shape, p->offset, &to) : st;
            st = st == CHARL_OK ? charl_tensor_copy(from, to) : st;
            charl_tensor_release(from);
            charl_tensor_release(to);
        }
    }
    return st;
}

charl_status charl__own_require_whole(const charl_optimizer *o, const char *call)
{
    CHARL_REQUIRE(
        !o->is_divided, CHARL_ERR_INVALID,
        "%s: the optimizer is sharded over ranks, and this one has a part of it; HINT charl_data_parallel_step "
        "runs a step, charl_data_parallel_options.shard = CHARL_SHARD_NONE keeps the state whole",
        call);
    return CHARL_OK;
}

static charl__buffer *arena_of(const charl_optimizer *o, int k)
{
    return k < o->n_states ? o->state[k] : o->ema;
}

/* Copy between host memory and a buffer, to it if `writes`. Blocks. */
static charl_status copy(charl__buffer *b, int64_t offset, void *host, int64_t bytes, bool writes)
{
    return writes ? charl__buffer_write(CHARL_QUEUE_COMPUTE, b, (size_t)offset, host, (size_t)bytes, true)
                  : charl__buffer_read(CHARL_QUEUE_COMPUTE, b, (size_t)offset, host, (size_t)bytes, true);
}

/* In host memory packed elements are codes, then scales. */
static charl_status copy_packed(const charl_optimizer *o, int k, int64_t at, int64_t n, float *host, bool writes)
{
    const charl__format f = charl__optimizer_format(o, k);
    const int64_t bytes = charl__packed_bytes(f, n), n_scales = charl__packed_scales(f, n);
    const int64_t first_scale = charl__param_round(bytes), size = (int64_t)sizeof(float);
    CHARL_SCOPED_FREE unsigned char *codes = NULL;
    float *scales;

    CHARL_TRY(charl__alloc((size_t)(first_scale + n_scales * size), &codes));
    scales = (float *)(void *)(codes + first_scale);
    if (writes) {
        charl__pack(f, host, n, codes, scales);
    }
    CHARL_TRY(copy(o->codes[k], charl__packed_bytes(f, at), codes, bytes, writes));
    if (o->scales[k]) {
        CHARL_TRY(copy(o->scales[k], charl__packed_scales(f, at) * size, scales, n_scales * size, writes));
    }
    if (!writes) {
        charl__unpack(f, codes, scales, n, host);
    }
    return CHARL_OK;
}

/* Between host memory and elements [at, at + n) of state k or, if k is the number of states, of the average. `at` is a multiple of
 * CHARL_PARAM_ALIGN. */
static charl_status copy_piece(const charl_optimizer *o, int k, int64_t at, int64_t n, float *host, bool writes)
{
    const int64_t size = (int64_t)sizeof *host;

    return k < o->n_states && o->codes[k] ? copy_packed(o, k, at, n, host, writes)
                                          : copy(arena_of(o, k), at * size, host, n * size, writes);
}

/* State k of p where it is a tensor of its own; nothing if this process has none. */
static charl_status copy_tensor(const charl_optimizer *o, int k, const charl_param *p, float *host, bool writes)
{
    const int64_t at = o->state_at[k * o->set->count + p->index], size = (int64_t)sizeof *host;
    charl_shape shape;

    return at >= 0 && charl_optimizer_get_state_shape(o, k, p, &shape)
               ? copy(o->state[k], at * size, host, charl_shape_count(&shape) * size, writes)
               : CHARL_OK;
}

/* The elements of p in the ranges that this process owns. */
static charl_status copy_pieces(const charl_optimizer *o, int k, const charl_param *p, float *host, bool writes)
{
    const int64_t begin = p->offset, end = begin + charl_shape_count(&p->spec.shape);
    int64_t own_at = 0;

    if (k < o->n_states && o->type->state_shape) {
        return copy_tensor(o, k, p, host, writes);
    }
    for (int i = 0; i < o->n_own; i++) {
        const charl__param_range *r = &o->own[i];
        const int64_t from = r->begin > begin ? r->begin : begin;
        const int64_t to = r->begin + r->count < end ? r->begin + r->count : end;

        if (from < to) {
            CHARL_TRY(copy_piece(o, k, own_at + from - r->begin, to - from, host + (from - begin), writes));
        }
        own_at += r->count;
    }
    return CHARL_OK;
}

charl_status charl__own_read(const charl_optimizer *o, int k, const charl_param *p, float *dst)
{
    return copy_pieces(o, k, p, dst, false);
}

charl_status charl__own_write(const charl_optimizer *o, int k, const charl_param *p, const float *src)
{
    return copy_pieces(o, k, p, (float *)(uintptr_t)src, true);
}

charl_status charl__optimizer_read_own(const charl_optimizer *o, int k, float *dst)
{
    if (k == o->n_states || !o->type->state_shape) {
        return o->own_elements > 0 ? copy_piece(o, k, 0, o->own_elements, dst, false) : CHARL_OK;
    }
    for (int i = 0; i < o->set->count; i++) {
        if (charl__optimizer_owns(o, o->set->param[i])) {
            CHARL_TRY(copy_tensor(o, k, o->set->param[i], dst + o->own_at[i], false));
        }
    }
    return CHARL_OK;
}
