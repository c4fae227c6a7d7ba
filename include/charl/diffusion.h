#ifndef CHARL_DIFFUSION_H
#define CHARL_DIFFUSION_H
/** Samples of a trained diffusion model ([diffusion] of its configuration).
 *
 *      charl_sample_options o = {.struct_size = sizeof o, .count = 64, .steps = 50, .seed = 1};
 *
 *      check(charl_sample("runs/digits/best.h5", &o, "digits.png"));
 *
 *  The model is turned around by DDIM (Song, Meng, Ermon 2021), without random numbers after the first: with S steps,
 *  at the times t = (S - 1/2) / S, (S - 3/2) / S, ..., 1 / (2 S), 0, x at a time becomes, at the next time t',
 *
 *      x' = alpha(t') x0 + sigma(t') e        x0 = (x - sigma(t) e) / alpha(t)
 *
 *  where e is the noise that the model predicts; from a predicted velocity v, x0 = alpha x - sigma v and e = sigma x +
 *  alpha v. Sample i begins with noise that depends on the seed and i alone, so it does not depend on the others.
 */
#include "charl/checkpoint.h"
#include "charl/config.h"
#include "charl/device.h"

CHARL_BEGIN_DECLS

/** What to draw. Everything is borrowed for the call. */
typedef struct charl_sample_options {
    size_t struct_size;        /* sizeof(charl_sample_options) */
    int64_t count;             /* samples; 0: 16 */
    int64_t steps;             /* runs of the model for each; 0: 50 */
    int64_t seed;              /* of the noise; -1: run.seed */
    const char *const *inputs; /* [n_inputs] "NAME=VALUE": all numbers of another input of the model, as a class */
    int n_inputs;
    charl_ema_choice ema; /* which weights of the checkpoint */
    const charl_config_override *overrides;
    int n_overrides;
    void (*warned)(void *ctx, const char *text); /* NULL: warnings are discarded */
    void *ctx;
    charl_compiling compiling; /* as in charl_device_request; NULL: none */
} charl_sample_options;

/** Draw samples with the model of a checkpoint and write them to `file`, which is replaced if it exists:
 *
 *      .h5   an array of the name of the input, f32 [count, its shape], in the units of the training data
 *      .png  one picture of images [1 or 3, H, W] or [H, W], in about as many rows as columns; the smallest value of
 *            all is black and the largest white
 *
 *  Blocks. Local. Deterministic: the same samples on any device in f32.
 *  Errors: ERR_CONFIG  not a diffusion model; an input that it does not have, or one without a value; a name of another
 *                      kind; no picture can show the samples
 *          ERR_NONFINITE  the model's output is not finite
 *          ERR_CHECKPOINT, ERR_DEVICE, ERR_KERNEL, ERR_DISK, ERR_NOMEM */
charl_status charl_sample(const char *checkpoint, const charl_sample_options *options,
                          const char *file) CHARL_MUST_CHECK;

CHARL_END_DECLS

#endif
