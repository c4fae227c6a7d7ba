#ifndef CHARL_STEPS_H
#define CHARL_STEPS_H
/** The parameters of a training step that its graph and its optimizer share: seed, step, learning rate, loss scale.
 *
 *  Without one, a graph uses seed 0 and counts its own runs, and there is no loss scale. With one, f16 training in
 *  your own loop is
 *
 *      const charl_steps_options o = {sizeof o, .seed = 7, .loss_scale = 65536, .dynamic = true};
 *      charl_steps_create(dev, &o, &steps);
 *      charl_graph_create(dev, &mine, &g);
 *      charl_graph_set_steps(g, steps);                        before the gradients
 *      charl_graph_set_precision(g, CHARL_F16);
 *      charl_graph_backward(g, loss, charl_graph_loss_scale(g));
 *      charl_graph_compile(g);
 *      config.steps = steps;
 *      charl_optimizer_create(params, &config, &optimizer);
 *      for each step:
 *          charl_optimizer_begin(optimizer, lr);
 *          charl_graph_run(g);
 *          charl_optimizer_step(optimizer, lr);
 *
 *  Loss scale: gradients are computed times a power of two, so that small ones survive in f16, and the optimizer
 *  divides it out. A dynamic one is halved, down to 2, when a gradient is not finite, which leaves the step out, and
 *  doubled, up to 2^24, every 2000 updates, all on the device. Graphs and optimizer that use it are destroyed before
 *  it. It belongs to the thread of its device.
 */
#include "charl/device.h"

CHARL_BEGIN_DECLS

typedef struct charl_steps charl_steps;

/** All zero: seed 0, no loss scale. */
typedef struct charl_steps_options {
    size_t struct_size; /* sizeof(charl_steps_options) */
    uint64_t seed;      /* of dropout and augmentation, with the step and the layer's name */
    float loss_scale;   /* a power of two from 1 on, the first one where it is dynamic; 0: none */
    bool dynamic;
} charl_steps_options;

/** Owned: destroy with charl_steps_destroy. `options` may be NULL. Blocks. Local.
 *  Errors: ERR_INVALID  the scale is no power of two, or dynamic without one
 *          ERR_NOMEM, ERR_DEVICE */
charl_status charl_steps_create(charl_device *dev, const charl_steps_options *options,
                                charl_steps **out) CHARL_MUST_CHECK;
/** NULL is a no-op. Local. */
void charl_steps_destroy(charl_steps *s);

/** The loss scale after the last step enqueued; 1 without one. Blocks. Local. Errors: ERR_DEVICE. */
charl_status charl_steps_get_loss_scale(const charl_steps *s, float *out) CHARL_MUST_CHECK;
/** Set it, as when training resumes. Blocks. Local. Errors: ERR_INVALID  no power of two, or there is none. */
charl_status charl_steps_set_loss_scale(charl_steps *s, float scale) CHARL_MUST_CHECK;

CHARL_END_DECLS

#endif
