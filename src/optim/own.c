/* What this process keeps of the arenas that are updated element by element: everything, or some
 * ranges, one after another. */
#include <string.h>

#include "base/alloc.h"
#include "optim/optimizer.h"

bool charl_optimizer_is_elementwise(const char *type)
{
    const charl__optimizer_rule *t = charl__optimizer_find(type);

    return t && t->elementwise;
}

charl_status charl__own_create(charl_optimizer *o, const charl__param_ranges *own)
{
    const charl__param_range all = {0, o->set->elements};
    const charl__param_ranges everything = {.range = &all, .n = 1};

    o->is_divided = own != NULL;
    own = own ? own : &everything;
    CHARL_REQUIRE(!o->is_divided || o->type->elementwise, CHARL_ERR_CONFIG,
                  "%s updates whole tensors: its state cannot be divided among ranks", o->type->row.name);
    CHARL_TRY(charl__alloc_array(own->n, sizeof *o->own, &o->own));
    for (int i = 0; i < own->n; i++) {
        CHARL_INVARIANT(own->range[i].begin % CHARL_PARAM_ALIGN == 0 && own->range[i].count % CHARL_PARAM_ALIGN == 0);
        o->own[i] = own->range[i];
        o->own_elements += own->range[i].count;
    }
    o->n_own = own->n;
    return CHARL_OK;
}

/* What p has in an own range: where it lies in an arena that this process keeps, and in p's values.
 */
typedef charl_status (*visit_fn)(charl__buffer *arena, size_t own_at, size_t bytes, float *host);

static charl_status each_piece(const charl_optimizer *o, charl__buffer *arena, const charl_param *p, float *host,
                               visit_fn visit)
{
    const int64_t begin = p->offset, end = begin + charl_shape_count(&p->spec.shape);
    int64_t own_at = 0;

    for (int i = 0; i < o->n_own; i++) {
        const charl__param_range *r = &o->own[i];
        const int64_t from = r->begin > begin ? r->begin : begin;
        const int64_t to = r->begin + r->count < end ? r->begin + r->count : end;

        if (from < to) {
            CHARL_TRY(visit(arena, (size_t)(own_at + from - r->begin) * sizeof(float),
                            (size_t)(to - from) * sizeof(float), host + (from - begin)));
        }
        own_at += r->count;
    }
    return CHARL_OK;
}

static charl_status read_piece(charl__buffer *arena, size_t at, size_t bytes, float *host)
{
    return charl__buffer_read(CHARL_QUEUE_COMPUTE, arena, at, host, bytes, true);
}

static charl_status write_piece(charl__buffer *arena, size_t at, size_t bytes, float *host)
{
    return charl__buffer_write(CHARL_QUEUE_COMPUTE, arena, at, host, bytes, true);
}

charl_status charl__own_read(const charl_optimizer *o, charl__buffer *arena, const charl_param *p, float *dst)
{
    return each_piece(o, arena, p, dst, read_piece);
}

charl_status charl__own_write(const charl_optimizer *o, charl__buffer *arena, const charl_param *p, const float *src)
{
    return each_piece(o, arena, p, (float *)(uintptr_t)src, write_piece);
}

charl_status charl__optimizer_read_own(const charl_optimizer *o, int k, float *dst)
{
    charl__buffer *arena = k < o->n_states ? o->state[k] : o->ema;
    const size_t bytes = (size_t)o->own_elements * sizeof *dst;

    return bytes > 0 ? charl__buffer_read(CHARL_QUEUE_COMPUTE, arena, 0, dst, bytes, true) : CHARL_OK;
}
