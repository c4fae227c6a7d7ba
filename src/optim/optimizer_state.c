/* The state tensors of an optimizer: where they are stored, and how they are read and written.
 *
 * If every parameter has a state of its own shape (as with adam), the states form an arena laid out like the
 * parameters', so that one launch covers all. Otherwise (as with adafactor) the tensors follow one another, each in its
 * own blocks.
 *
 * States of the first kind can be packed (tensor/packed.h). An update then handles CHARL_OPTIM_PACKED_AT_ONCE elements
 * at a time: it unpacks them into a workspace, on which the kernel of the optimizer works as if it were the state, and
 * packs them again. Blocks do not cross parameters, so the bits depend neither on the layout of the arena nor on how
 * ranks divide it.
 */

#include "base/alloc.h"
#include "optim/optimizer.h"

enum { GROUP = 64 };

static bool shape_of(const charl_optimizer *o, int k, const charl_param *p, charl_shape *out)
{
    *out = p->spec.shape;
    return charl__optimizer_trains(o, p) && (!o->type->state_shape || o->type->state_shape(o->type, k, p, out));
}

charl__format charl__optimizer_format(const charl_optimizer *o, int k)
{
    return charl__optimizer_format_with(o, k, o->config.state);
}

static charl__format format_of(const charl__optimizer_rule *rule, int k, charl_packing packing)
{
    switch (packing) {
    case CHARL_PACKING_BF16:
        return CHARL__FORMAT_BF16;
    case CHARL_PACKING_INT8:
        return rule->nonnegative >> k & 1U ? CHARL__FORMAT_UFLOAT8 : CHARL__FORMAT_FLOAT8;
    default:
        return CHARL__FORMAT_F32;
    }
}

charl__format charl__optimizer_format_with(const charl_optimizer *o, int k, charl_packing packing)
{
    return format_of(o->type, k, packing);
}

static int64_t format_bytes(charl__format f, int64_t n)
{
    return charl__packed_bytes(f, n) + charl__packed_scales(f, n) * (int64_t)sizeof(float);
}

int64_t charl__optimizer_state_bytes(const charl_optimizer *o, int k, int64_t n)
{
    return format_bytes(charl__optimizer_format(o, k), n);
}

int charl__optimizer_count_states(const charl__optimizer_rule *rule, const charl_optimizer_config *config)
{
    int n = 0;

    if (rule->count_states) {
        return rule->count_states(config);
    }
    while (n < CHARL_OPTIM_MAX_STATES && rule->state_name[n]) {
        n++;
    }
    return n;
}

int64_t charl__optimizer_kept_bytes(const charl_optimizer_config *config, int64_t n)
{
    const charl__optimizer_rule *rule = charl__optimizer_find(config->type);
    int64_t bytes = config->ema_decay > 0 ? 4 * n : 0;

    for (int k = 0; rule && k < charl__optimizer_count_states(rule, config); k++) {
        bytes += format_bytes(format_of(rule, k, config->state), n);
    }
    return bytes;
}

int64_t charl__optimizer_direction_bytes(const charl_optimizer_config *config, const charl_param *p)
{
    const charl_optimizer_type *custom = charl__optimizer_find(config->type)->custom;

    return !custom || custom->direction ? 4 * charl__param_blocks(p) * CHARL_PARAM_ALIGN : 0;
}

int64_t charl__optimizer_tensor_bytes(const charl_optimizer_config *config, const charl_param *p)
{
    const charl__optimizer_rule *rule = charl__optimizer_find(config->type);
    const int64_t n = charl__param_blocks(p) * CHARL_PARAM_ALIGN;
    int64_t elements = config->ema_decay > 0 ? n : 0;
    charl_shape shape;

    for (int k = 0; k < charl__optimizer_count_states(rule, config); k++) {
        if (!rule->state_shape) {
            elements += n;
        } else if (rule->state_shape(rule, k, p, &shape)) {
            elements += charl__param_round(charl_shape_count(&shape));
        }
    }
    return 4 * elements;
}

int64_t charl__optimizer_bytes(const charl_optimizer *o, bool own)
{
    const bool offloads = charl__device_offloads(o->set->dev);
    int64_t bytes = 0;

    if (o->type->elementwise) {
        return offloads ? 0 : charl__optimizer_kept_bytes(&o->config, own ? o->own_elements : o->set->elements);
    }
    for (int i = 0; i < o->set->count; i++) {
        const charl_param *p = o->set->param[i];

        bytes += (own ? charl__optimizer_owns(o, p) : charl__optimizer_trains(o, p))
                     ? charl__optimizer_direction_bytes(&o->config, p) +
                           (offloads ? 0 : charl__optimizer_tensor_bytes(&o->config, p))
                     : 0;
    }
    return bytes;
}

double charl__optimizer_cost(const charl__optimizer_rule *rule, const charl_param *p)
{
    return rule->cost ? rule->cost(p) : (double)(charl__param_blocks(p) * CHARL_PARAM_ALIGN);
}

/* A state, its codes or its scales. */
static charl_status create_kept(const charl_optimizer *o, int64_t bytes, charl__buffer **out)
{
    return charl__buffer_create_offloaded(o->set->dev, (size_t)bytes, "optimizer state", out);
}

static charl_status create_packed(charl_optimizer *o, int k, int64_t n)
{
    const charl__format f = charl__optimizer_format(o, k);
    const int64_t scales = charl__packed_scales(f, n);

    CHARL_TRY(create_kept(o, charl__packed_bytes(f, n), &o->codes[k]));
    return scales > 0 ? create_kept(o, scales * 4, &o->scales[k]) : CHARL_OK;
}

/* The codes and scales from element `at` on, as kernel arguments. */
static void locate_packed(const charl_optimizer *o, int k, int64_t at, charl__arg_kind kind, charl__arg out[2])
{
    out[0] = charl__raw(kind, o->codes[k]);
    out[0].v.offset = at;
    out[1] = charl__raw(kind, o->scales[k]);
    out[1].v.offset = o->scales[k] ? at / CHARL_PACK_BLOCK : 0;
}

charl_status charl__optimizer_unpack_state(const charl_optimizer *o, int k, int64_t at, int64_t n)
{
    charl__arg packed[2];

    locate_packed(o, k, at, CHARL_ARG_IN, packed);
    return charl__unpack_enqueue(o->set->dev, charl__optimizer_format(o, k), CHARL_F32, packed,
                                 charl__raw(CHARL_ARG_OUT, o->state[k]), n, "unpack");
}

charl_status charl__optimizer_pack_state(const charl_optimizer *o, int k, int64_t at, int64_t n)
{
    const size_t blocks = (size_t)(n / CHARL_PACK_BLOCK);
    const charl__format f = charl__optimizer_format(o, k);
    charl__arg packed[2];

    locate_packed(o, k, at, CHARL_ARG_INOUT, packed);
    return charl__launch_enqueue(o->set->dev,
                                 &(charl__launch){.file = "optim/pack_state",
                                                  .entry = "charl_pack_state",
                                                  .params = {{"FORMAT", (int)f}},
                                                  .global = {(blocks + GROUP - 1) / GROUP * GROUP},
                                                  .local = {GROUP},
                                                  .args = {charl__raw(CHARL_ARG_IN, o->state[k]), packed[0], packed[1],
                                                           charl__raw(CHARL_ARG_IN, o->norm),
                                                           charl__in(charl__steps_tensor(o->steps)), charl__i64(n)},
                                                  .bytes = (double)(charl__optimizer_state_bytes(o, k, n) + 4 * n),
                                                  .label = "pack"});
}

static charl_status create_state(charl_optimizer *o, int k)
{
    int64_t end = 0;

    for (int i = 0; i < o->set->count; i++) {
        charl_shape shape;
        const bool has = shape_of(o, k, o->set->param[i], &shape) && (!o->own_at || o->own_at[i] >= 0);

        o->state_at[k * o->set->count + i] = !has ? -1 : o->type->state_shape ? end : o->set->param[i]->offset;
        end += has ? charl__param_round(charl_shape_count(&shape)) : 0;
    }
    end = o->type->state_shape ? end : o->own_elements;
    if (charl__optimizer_format(o, k) != CHARL__FORMAT_F32) {
        CHARL_TRY(create_packed(o, k, end));
        end = end < CHARL_OPTIM_PACKED_AT_ONCE ? end : CHARL_OPTIM_PACKED_AT_ONCE;
        return charl__buffer_create(o->set->dev, (size_t)end * 4, "optimizer state", &o->state[k]);
    }
    return create_kept(o, end * 4, &o->state[k]);
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

const char *charl_optimizer_get_state_name(const charl_optimizer *o, int k)
{
    if (!o) {
        return NULL;
    }
    return k >= 0 && k < o->n_states ? o->type->state_name[k] : NULL;
}

bool charl_optimizer_get_state_shape(const charl_optimizer *o, int k, const charl_param *p, charl_shape *out)
{
    if (!o || !p || !out) {
        return false;
    }
    return k >= 0 && k < o->n_states && shape_of(o, k, p, out);
}

static charl_status check(const charl_optimizer *o, int k, const charl_param *p)
{
    charl_shape shape;

    CHARL_REQUIRE(charl_optimizer_get_state_shape(o, k, p, &shape), CHARL_ERR_INVALID,
                  "%s has no state %d of parameter %s; HINT charl_optimizer_get_state_shape", o->type->row.name, k,
                  p->spec.name);
    return CHARL_OK;
}

charl_status charl_optimizer_read_state(const charl_optimizer *o, int k, const charl_param *p, float *dst)
{
    CHARL_GIVEN(o, p, dst);
    CHARL_TRY(charl__own_require_whole(o, "charl_optimizer_read_state"));
    CHARL_TRY(check(o, k, p));
    return charl__own_read(o, k, p, dst);
}

charl_status charl_optimizer_write_state(charl_optimizer *o, int k, const charl_param *p, const float *src)
{
    CHARL_GIVEN(o, p, src);
    CHARL_TRY(check(o, k, p));
    return charl__own_write(o, k, p, src);
}
