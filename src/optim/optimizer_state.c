/* The state tensors of an optimizer: where they lie, and how they come and go.
 *
 * A state that every parameter has in its own shape is an arena laid out like the parameters', so
 * that one launch covers all; others are packed, each tensor on blocks of its own.
 */
#include <string.h>

#include "base/alloc.h"
#include "optim/optimizer.h"

static bool shape_of(const charl_optimizer *o, int k, const charl_param *p, charl_shape *out)
{
    *out = p->spec.shape;
    return p->spec.trainable && (!o->type->state_shape || o->type->state_shape(k, p, out));
}

static charl_status create_state(charl_optimizer *o, int k)
{
    int64_t end = 0;

    for (int i = 0; i < o->set->count; i++) {
        charl_shape shape;
        const bool has = shape_of(o, k, o->set->param[i], &shape);

        o->state_at[k * o->set->count + i] = !has ? -1 : o->type->state_shape ? end : o->set->param[i]->offset;
        end += has ? charl__param_round(charl_shape_count(&shape)) : 0;
    }
    end = o->type->state_shape ? end : o->own_elements;
    CHARL_TRY(charl__buffer_create(o->set->dev, (size_t)end * 4, "optimizer state", &o->state[k]));
    return CHARL_OK;
}

charl_status charl__optimizer_create_states(charl_optimizer *o)
{
    CHARL_TRY(charl__alloc_array((int64_t)o->n_states * o->set->count, sizeof *o->state_at, &o->state_at));
    for (int k = 0; k < o->n_states; k++) {
        CHARL_TRY(create_state(o, k));
    }
    return CHARL_OK;
}

charl__arg charl__optimizer_state(const charl_optimizer *o, int k, const charl_param *p)
{
    charl__arg a = charl__raw(CHARL_ARG_INOUT, o->state[k]);

    a.v.offset = o->state_at[k * o->set->count + p->index];
    return a;
}

int charl_optimizer_get_state_count(const charl_optimizer *o)
{
    return o->n_states;
}

const char *charl_optimizer_get_state_name(const charl_optimizer *o, int k)
{
    return k >= 0 && k < o->n_states ? o->type->state_name[k] : NULL;
}

bool charl_optimizer_get_state_shape(const charl_optimizer *o, int k, const charl_param *p, charl_shape *out)
{
    return k >= 0 && k < o->n_states && p->set == o->set && shape_of(o, k, p, out);
}

/* The part of the state's buffer that belongs to p, in bytes. */
static charl_status locate(const charl_optimizer *o, int k, const charl_param *p, size_t *offset, size_t *bytes)
{
    charl_shape shape;

    *offset = *bytes = 0;
    CHARL_REQUIRE(charl_optimizer_get_state_shape(o, k, p, &shape), CHARL_ERR_INVALID, "%s keeps no state %d of %s",
                  o->type->row.name, k, p->spec.name);
    *offset = (size_t)o->state_at[k * o->set->count + p->index] * 4;
    *bytes = (size_t)charl_shape_count(&shape) * 4;
    return CHARL_OK;
}

charl_status charl_optimizer_read_state(const charl_optimizer *o, int k, const charl_param *p, float *dst)
{
    size_t offset, bytes;

    CHARL_TRY(locate(o, k, p, &offset, &bytes));
    if (!o->type->state_shape) {
        return charl__own_read(o, o->state[k], p, dst);
    }
    CHARL_TRY(charl__buffer_read(CHARL_QUEUE_COMPUTE, o->state[k], offset, dst, bytes, true));
    return CHARL_OK;
}

charl_status charl_optimizer_write_state(charl_optimizer *o, int k, const charl_param *p, const float *src)
{
    size_t offset, bytes;

    CHARL_TRY(locate(o, k, p, &offset, &bytes));
    if (!o->type->state_shape) {
        return charl__own_write(o, o->state[k], p, src);
    }
    CHARL_TRY(charl__buffer_write(CHARL_QUEUE_COMPUTE, o->state[k], offset, src, bytes, true));
    return CHARL_OK;
}
