/* The moving average of the weights: one more arena, updated by the last launch of a
 * step. */
#include "base/alloc.h"
#include "optim/optimizer.h"

enum { AT_ONCE = 1 << 28 }; /* elements of an exchange, as NVIDIA's compiler counts work-items in 32 bits */

charl_status charl__ema_create(charl_optimizer *o)
{
    CHARL_TRY(charl__buffer_create_offloaded(o->set->dev, (size_t)o->own_elements * 4, "moving average of the weights",
                                             &o->ema));
    return CHARL_OK;
}

charl_status charl__ema_enqueue(const charl_optimizer *o)
{
    return charl__optimizer_update_enqueue(
        o, NULL,
        &(charl__optimizer_update){
            .file = "optim/ema",
            .entry = "charl_ema",
            .elementwise = true,
            .own = {charl__raw(CHARL_ARG_INOUT, o->ema), charl__f32((float)(1.0 - o->config.ema_decay))}});
}

bool charl__optimizer_has_ema(const charl_optimizer *o)
{
    return o && o->ema != NULL;
}

static charl_status exchange_range(const charl_optimizer *o, charl__param_range range, int64_t at)
{
    charl__arg value = charl__raw(CHARL_ARG_INOUT, o->set->value), ema = charl__raw(CHARL_ARG_INOUT, o->ema);

    value.v.offset = charl__params_at(o->set, range.begin);
    ema.v.offset = at;
    return charl__launch_enqueue(o->set->dev, &(charl__launch){.file = "optim/ema",
                                                               .entry = "charl_exchange",
                                                               .global = {(size_t)range.count},
                                                               .local = {CHARL_PARAM_ALIGN},
                                                               .args = {value, ema}});
}

charl_status charl_optimizer_exchange_ema(charl_optimizer *o)
{
    CHARL_GIVEN(o);
    CHARL_TRY(charl__own_require_whole(o, "charl_optimizer_exchange_ema"));
    return charl__optimizer_exchange_ema(o);
}

charl_status charl__optimizer_exchange_ema(charl_optimizer *o)
{
    int64_t at = 0;

    CHARL_REQUIRE(o->ema, CHARL_ERR_INVALID, "%s has no moving average; HINT charl_optimizer_config.ema_decay",
                  o->type->row.name);
    for (int i = 0; i < o->n_own; i++) {
        for (int64_t done = 0, n; done < o->own[i].count; done += n, at += n) {
            n = o->own[i].count - done < AT_ONCE ? o->own[i].count - done : AT_ONCE;
            CHARL_TRY(exchange_range(o, (charl__param_range){o->own[i].begin + done, n}, at));
        }
    }
    if (!o->is_divided || o->set->is_divided) {
        CHARL_TRY(charl__params_refresh(o->set));
    }
    return CHARL_OK;
}

static charl_status check(const charl_optimizer *o, const charl_param *p)
{
    CHARL_REQUIRE(o->ema && charl__optimizer_trains(o, p), CHARL_ERR_INVALID, "there is no moving average of %s",
                  p->spec.name);
    return CHARL_OK;
}

charl_status charl__optimizer_read_ema(const charl_optimizer *o, const charl_param *p, float *dst)
{
    CHARL_GIVEN(o, p, dst);
    CHARL_TRY(charl__own_require_whole(o, "reading the moving average"));
    CHARL_TRY(check(o, p));
    CHARL_TRY(charl__own_read(o, o->n_states, p, dst));
    return CHARL_OK;
}

charl_status charl__optimizer_write_ema(charl_optimizer *o, const charl_param *p, const float *src)
{
    CHARL_GIVEN(o, p, src);
    CHARL_TRY(check(o, p));
    CHARL_TRY(charl__own_write(o, o->n_states, p, src));
    return CHARL_OK;
}

charl_status charl_optimizer_reset_ema(charl_optimizer *o)
{
    CHARL_GIVEN(o);
    charl_status st = CHARL_OK;

    for (int i = 0; o->ema && i < o->set->count; i++) {
        const charl_param *p = o->set->param[i];
        float *v = NULL;

        if (charl__optimizer_trains(o, p)) {
            CHARL_TRY(charl__alloc_array(charl_shape_count(&p->spec.shape), sizeof *v, &v));
            st = charl__param_read_own(p, v);
            st = st == CHARL_OK ? charl__optimizer_write_ema(o, p, v) : st;
            charl_free(v);
            CHARL_TRY(st);
        }
    }
    return st;
}
