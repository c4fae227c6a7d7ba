/* The step record: a device ring seen as a tensor. */
#include "tensor/step_params.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/alloc.h"
#include "base/options.h"

struct charl_steps {
    charl__ring *ring;
    uint32_t *next; /* the record, and the data sent with it */
    int64_t room;   /* bytes of the data */
    charl_tensor *tensor, *loss_seed;
    charl_tensor *scale; /* NULL: none */
    charl_tensor *loss;  /* NULL: not monitored */
    bool dynamic;
    bool tries;    /* charl__steps_try */
    uint64_t seed; /* of steps that a program begins */
};

charl_status charl__steps_create(charl_device *dev, int depth, charl_steps **out)
{
    return charl__steps_create_with(dev, depth, 0, out);
}

int64_t charl__steps_room(const charl_steps *s)
{
    return s->room;
}

uint32_t *charl__steps_carried(const charl_steps *s)
{
    return s->next + CHARL_STEP_WORDS;
}

charl_status charl__steps_create_with(charl_device *dev, int depth, int64_t bytes, charl_steps **out)
{
    const charl_shape shape = {1, {CHARL_STEP_WORDS}};
    CHARL_SCOPED(charl__steps_left) charl_steps *s = NULL;

    *out = NULL;
    CHARL_TRY(charl__alloc(sizeof *s, &s));
    CHARL_TRY(charl__alloc(sizeof(charl__step_params) + (size_t)bytes, &s->next));
    CHARL_TRY(charl__ring_create(dev, sizeof(charl__step_params) + (size_t)bytes, depth, &s->ring));
    s->room = bytes;
    CHARL_TRY(charl__tensor_view(charl__ring_buffer(s->ring), CHARL_U32, &shape, 0, &s->tensor));
    CHARL_TRY(charl__tensor_view(charl__ring_buffer(s->ring), CHARL_F32, &(charl_shape){0, {0}},
                                 (int64_t)(offsetof(charl__step_params, loss_seed) / sizeof(float)), &s->loss_seed));
    *out = s;
    s = NULL;
    return CHARL_OK;
}

void charl__steps_destroy(charl_steps *s)
{
    if (s) {
        charl_tensor_release(s->tensor);
        charl_tensor_release(s->loss_seed);
        charl_tensor_release(s->scale);
        charl_tensor_release(s->loss);
        charl__ring_destroy(s->ring);
        charl_free(s->next);
        charl_free(s);
    }
}

charl_status charl__steps_push(charl_steps *s, const charl__step_params *record)
{
    memcpy(s->next, record, sizeof *record);
    return charl__steps_repush(s);
}

charl_status charl__steps_repush(charl_steps *s)
{
    uint32_t *commit = s->next + offsetof(charl__step_params, commit) / sizeof *s->next;
    const uint32_t commits = *commit;
    charl_status st;

    *commit = s->tries ? 0 : commits;
    st = charl__ring_push(s->ring, s->next);
    *commit = commits;
    return st;
}

charl_status charl__steps_try(charl_steps *s, bool on)
{
    s->tries = on;
    return charl__steps_repush(s);
}

charl_status charl__steps_use_scale(charl_steps *s, float scale, bool dynamic)
{
    charl_device *dev = charl_tensor_get_device(s->tensor);

    CHARL_INVARIANT(!s->scale);
    CHARL_TRY(charl_tensor_create(dev, CHARL_F32, &(charl_shape){0, {0}}, &s->scale));
    CHARL_TRY(charl_tensor_write(s->scale, &scale, sizeof scale));
    s->dynamic = dynamic;
    return CHARL_OK;
}

charl_tensor *charl__steps_scale(const charl_steps *s)
{
    return s->scale;
}

bool charl__steps_scale_is_dynamic(const charl_steps *s)
{
    return s->dynamic;
}

void charl__steps_watch_loss(charl_steps *s, charl_tensor *loss)
{
    charl_tensor_release(s->loss);
    s->loss = loss ? charl_tensor_retain(loss) : NULL;
}

charl_tensor *charl__steps_loss(const charl_steps *s)
{
    return s->loss;
}

charl_tensor *charl__steps_tensor(const charl_steps *s)
{
    return s->tensor;
}

charl_tensor *charl__steps_loss_seed(const charl_steps *s)
{
    return s->loss_seed;
}

uint64_t charl__steps_seed(const charl_steps *s)
{
    return s->seed;
}

static bool is_power_of_two(float x)
{
    int exponent;

    return isfinite(x) && x >= 1.0F && frexpf(x, &exponent) == 0.5F;
}

charl_status charl_steps_create(charl_device *dev, const charl_steps_options *options, charl_steps **out)
{
    CHARL_GIVEN(dev, out);
    CHARL__OPTIONS(charl_steps_options, options);
    enum { DEPTH = 4 };
    const charl_steps_options o = options ? *options : (charl_steps_options){sizeof(charl_steps_options), .seed = 0};
    CHARL_SCOPED(charl__steps_left) charl_steps *s = NULL;

    *out = NULL;
    CHARL_REQUIRE(o.loss_scale == 0.0F ? !o.dynamic : is_power_of_two(o.loss_scale), CHARL_ERR_INVALID,
                  "loss_scale is %g; it is a power of two from 1 on, also the first of a dynamic one",
                  (double)o.loss_scale);
    CHARL_TRY(charl__steps_create(dev, DEPTH, &s));
    s->seed = o.seed;
    if (o.loss_scale > 0.0F) {
        CHARL_TRY(charl__steps_use_scale(s, o.loss_scale, o.dynamic));
    }
    *out = s;
    s = NULL;
    return CHARL_OK;
}

void charl_steps_destroy(charl_steps *s)
{
    charl__steps_destroy(s);
}

charl_status charl_steps_get_loss_scale(const charl_steps *s, float *out)
{
    CHARL_GIVEN(s, out);
    *out = 1.0F;
    if (s->scale) {
        CHARL_TRY(charl_tensor_read(s->scale, out, sizeof *out));
    }
    return CHARL_OK;
}

charl_status charl_steps_set_loss_scale(charl_steps *s, float scale)
{
    CHARL_GIVEN(s);
    CHARL_REQUIRE(s->scale && is_power_of_two(scale), CHARL_ERR_INVALID,
                  s->scale ? "a loss scale is a power of two from 1 on, not %g"
                           : "there is no loss scale to be set to %g",
                  (double)scale);
    CHARL_TRY(charl_tensor_write(s->scale, &scale, sizeof scale));
    return CHARL_OK;
}
