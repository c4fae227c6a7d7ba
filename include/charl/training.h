#ifndef CHARL_TRAINING_H
#define CHARL_TRAINING_H
/** The state of a training loop of your own in a checkpoint: parameters, optimizers, the step, and values of yours.
 *
 *      int64_t step = 0;
 *      float best[2] = {0, 0};
 *      const charl_training_part parts[] = {{NULL, params, optimizer, dp}};
 *      const charl_training_value values[] = {{"best", CHARL_F32, {1, {2}}, best}};
 *      charl_training state = {sizeof state, parts, 1, values, 1, &step, true};
 *
 *      check(charl_training_load("run.h5", &state)); // if it exists; everything has been created as before
 *      for (; step < 1000; step++) {
 *          take_step(step);
 *      }
 *      check(charl_training_save("run.h5", &state));
 *
 *  The file is a checkpoint (charl/checkpoint.h, checkpoints/README.md): `charl checkpoint show`, diff and verify read
 *  it, and so does h5py. Parameters are in /model, optimizers in /optim and /ema, your values in /user. A training that
 *  is loaded continues with the bits of one that was never stopped, on any number of ranks.
 */
#include "charl/data_parallel.h"
#include "charl/optim.h"

CHARL_BEGIN_DECLS

/** Parameters with their optimizer and data-parallel object. All members may be NULL but one. */
typedef struct charl_training_part {
    /* prefix of its names, unique among the parts: "generator" gives /model/generator.fc1.weight; NULL: no prefix */
    const char *name;
    charl_params *params; /* NULL: another part has the parameters, with another optimizer */
    charl_optimizer *optimizer;
    charl_data_parallel *dp; /* that compiled the graphs; random numbers continue at its step */
} charl_training_part;

/** A tensor or, with no extents, a number of yours: /user/NAME. */
typedef struct charl_training_value {
    const char *name; /* 1 to 255 bytes without '/', blanks and control characters */
    charl_dtype dtype;
    charl_shape shape;
    void *data; /* read by charl_training_save, written by charl_training_load */
} charl_training_value;

/** The state that is saved and loaded. Everything is borrowed. */
typedef struct charl_training {
    size_t struct_size; /* sizeof(charl_training) */
    const charl_training_part *parts;
    int n_parts;
    const charl_training_value *values;
    int n_values;
    int64_t *step;       /* steps trained, which the tools show; NULL: none */
    bool may_be_missing; /* charl_training_load changes nothing where there is no file, as in a first run */
} charl_training;

/** Write `path`, replacing it atomically, and return when it is durable and has been read back. With data-parallel
 *  objects rank 0 writes.
 *
 *  Blocks. Collective where a part has a data-parallel object, otherwise Local.
 *  Errors: ERR_INVALID  a name is malformed or there twice, or the parameters have no values yet
 *          ERR_CONFIG   a sharded optimizer that updates part of the parameters
 *          ERR_DISK, ERR_NOMEM, ERR_DEVICE, ERR_COMM. Every rank gets the same status. */
charl_status charl_training_save(const char *path, const charl_training *state) CHARL_MUST_CHECK;

/** Load what charl_training_save wrote, into the same parts and values, on every rank. Nothing is changed unless all of
 *  it is there and undamaged.
 *
 *  Blocks. Collective where a part has a data-parallel object, otherwise Local.
 *  Errors: ERR_CHECKPOINT  the file is damaged or, unless it may be, missing; or a tensor is missing or has another
 *                          shape or type: names file and tensor; or it was saved with other optimizers
 *          ERR_NOMEM, ERR_DEVICE, ERR_COMM. Every rank gets the same status.
 *  Cost: reads the file twice. */
charl_status charl_training_load(const char *path, const charl_training *state) CHARL_MUST_CHECK;

CHARL_END_DECLS

#endif
