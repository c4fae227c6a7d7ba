/* Global gradient norm: a tree over fixed ranges of the arena, so its bits depend on the layout
 * only. */
#include <stdio.h>

#include "optim/grad_norm_args.h"
#include "optim/optimizer.h"

enum { RANGE = CHARL_NORM_RANGE, LANES = 16, GROUP = 64 };

static int64_t ranges(int64_t n)
{
    return (n + RANGE - 1) / RANGE;
}

int64_t charl__grad_norm_scratch(int64_t elements)
{
    int64_t total = 0, n = elements;

    do {
        n = ranges(n > 0 ? n : 1);
        total += n;
    } while (n > RANGE);
    return total * 4;
}

int64_t charl__optimizer_count_norms(const charl_optimizer *o)
{
    return o->config.on_spike == CHARL_SPIKE_OFF ? 0 : o->config.spike_window + 1;
}

charl_status charl__optimizer_get_norms(const charl_optimizer *o, float *dst)
{
    return charl__buffer_read(CHARL_QUEUE_COMPUTE, o->norms, 0, dst,
                              (size_t)charl__optimizer_count_norms(o) * sizeof *dst, true);
}

charl_status charl__optimizer_set_norms(charl_optimizer *o, const float *src)
{
    return charl__buffer_write(CHARL_QUEUE_COMPUTE, o->norms, 0, src,
                               (size_t)charl__optimizer_count_norms(o) * sizeof *src, true);
}

charl_status charl__norms_create(charl_optimizer *o)
{
    const int64_t n = charl__optimizer_count_norms(o);
    float none[CHARL_MAX_SPIKE_WINDOW + 1];

    if (n == 0) {
        return CHARL_OK;
    }
    for (int64_t i = 0; i < n; i++) {
        none[i] = i < n - 1 ? -1.0F : 0.0F;
    }
    CHARL_TRY(charl__buffer_create(o->set->dev, (size_t)n * sizeof *none, "gradient norm", &o->norms));
    return charl__optimizer_set_norms(o, none);
}

charl_status charl__grad_norm_sums(const charl_optimizer *o, charl__arg in, int64_t n, charl__buffer *to,
                                   int64_t out_at)
{
    charl__arg out = charl__raw(CHARL_ARG_OUT, to);
    const bool in_lanes = charl__device_facts_get(o->set->dev)->group > 1;
    const size_t items = (size_t)ranges(n) * LANES;

    out.v.offset = out_at;
    return charl__launch_enqueue(
        o->set->dev, &(charl__launch){
                         .file = "optim/grad_norm",
                         .entry = "charl_range_sum",
                         .params = {{"SQUARE", in.buffer != o->partial}, {"CHARL_VEC", in_lanes ? 1 : LANES}},
                         .global = {in_lanes ? (items + GROUP - 1) / GROUP * GROUP : items / LANES},
                         .local = {in_lanes ? GROUP : 1},
                         .args = {in, out, charl__i64(n)},
                         .bytes = (double)n * sizeof(float),
                         .label = "grad_norm",
                     });
}

/* Norm, clip factor and finiteness from the last n sums of squares. */
static charl_status finish(const charl_optimizer *o, charl__arg last, int64_t n)
{
    const charl_tensor *scale = charl__steps_scale(o->steps), *loss = charl__steps_loss(o->steps);
    charl__buffer *searched = o->parts ? charl__norm_parts_bad(o->parts) : charl__optimizer_gradients(o);
    uint64_t none; /* buffers of their own begin at 0 */
    charl__grad_norm_args args = {.n_last = n,
                                  .n = o->set->elements,
                                  .interval = charl__steps_scale_is_dynamic(o->steps) ? CHARL_SCALE_STEPS : 0,
                                  .n_loss = loss ? (uint32_t)charl__tensor_count(loss) : 0,
                                  .window = (uint32_t)o->config.spike_window,
                                  .max_norm = o->config.grad_clip,
                                  .threshold = o->config.spike_threshold};
    charl__launch l = {
        .file = "optim/grad_norm",
        .entry = "charl_norm",
        .params = {{"SCALED", scale != NULL},
                   {"SKIP", o->config.skip_nonfinite},
                   {"LOSS", loss != NULL},
                   {"SPIKE", o->config.on_spike},
                   {"WINDOW", CHARL_OPTIM_WINDOW},
                   {"FOUND", o->parts != NULL}},
        .global = {LANES},
        .local = {LANES},
        .args = {charl__placed(last, &args.last), charl__placed(charl__raw(CHARL_ARG_IN, o->partial), &none),
                 charl__placed(charl__raw(CHARL_ARG_IN, searched), &none),
                 charl__placed(charl__raw(CHARL_ARG_INOUT, o->norm), &none),
                 charl__placed(charl__in(charl__steps_tensor(o->steps)), &args.record),
                 charl__placed(charl__raw(CHARL_ARG_INOUT, o->scalars), &none),
                 charl__placed(charl__inout(scale), &args.scale), charl__placed(charl__in(loss), &args.loss),
                 charl__placed(charl__raw(CHARL_ARG_INOUT, o->norms), &none), charl__struct(&args, sizeof args)},
        .label = "grad_norm",
    };

    return charl__launch_enqueue(o->set->dev, &l);
}

charl_status charl__grad_norm_first(const charl_optimizer *o)
{
    return o->parts ? charl__norm_parts_enqueue(o)
                    : charl__grad_norm_sums(o, charl__raw(CHARL_ARG_IN, charl__optimizer_gradients(o)),
                                            o->set->elements, o->partial, 0);
}

charl_status charl__grad_norm_enqueue(const charl_optimizer *o)
{
    charl__arg in = charl__raw(CHARL_ARG_IN, o->partial);
    int64_t n = ranges(o->set->elements), at = n;

    while (n > RANGE) {
        CHARL_TRY(charl__grad_norm_sums(o, in, n, o->partial, at));
        in.v.offset = at;
        n = ranges(n);
        at += n;
    }
    CHARL_TRY(finish(o, in, n));
    return CHARL_OK;
}

charl_status charl__restore_enqueue(const charl_optimizer *o)
{
    return charl__launch_enqueue(o->set->dev,
                                 &(charl__launch){
                                     .file = "optim/grad_norm",
                                     .entry = "charl_restore",
                                     .global = {(size_t)o->set->buffer_elements},
                                     .local = {CHARL_PARAM_ALIGN},
                                     .args = {charl__raw(CHARL_ARG_INOUT, o->set->buffers),
                                              charl__raw(CHARL_ARG_IN, o->before), charl__raw(CHARL_ARG_IN, o->norm)},
                                 });
}
