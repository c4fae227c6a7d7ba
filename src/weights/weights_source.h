#ifndef CHARL_WEIGHTS_WEIGHTS_SOURCE_H
#define CHARL_WEIGHTS_WEIGHTS_SOURCE_H
/** The source of weights: a checkpoint, or files of other programs (charl/tensor_file.h). */
#include "charl/checkpoint.h"
#include "charl/tensor_file.h"
#include "io/kind.h"

/** Functions of libcharl-train for the configuration in a checkpoint. */
typedef struct charl__weights_configs {
    /* Find what the checkpoint at `path`, open as r, leaves to its base. `from`: location of the base; NULL: as in the configuration */
    charl_status (*find_base)(charl_checkpoint_reader *r, const char *path, const char *from);
    /* Check a configuration and print it with every key, *out, which the caller frees. */
    charl_status (*resolve)(const char *text, char **out);
} charl__weights_configs;

/** Called once, when libcharl-train is loaded. */
void charl__weights_set_configs(const charl__weights_configs *configs);
/** `resolve`. Errors: ERR_CONFIG  the text is not a configuration; libcharl-train is not loaded. */
charl_status charl__weights_resolve(const char *text, char **out) CHARL_MUST_CHECK;

typedef struct charl__weights_source {
    const char *path; /* borrowed */
    charl_checkpoint_reader *checkpoint;
    charl_tensor_file *tensors;
    const char *group; /* of the checkpoint, for trained weights */
} charl__weights_source;

/** Whether charl_tensor_file_open reads what is at `path`. */
static inline bool charl__is_tensor_file(const char *path)
{
    const charl__kind *kind = charl__kind_of(path);

    return kind && (kind->as & CHARL__KIND_WEIGHTS);
}

/** Open `path`. ema: a charl_ema_choice, for checkpoints. Call charl__weights_source_close even after a failure.
 *  Blocks. Errors: ERR_CHECKPOINT, ERR_CONFIG (a checkpoint without its base, and no libcharl-train), ERR_NOMEM. */
charl_status charl__weights_source_open(const char *path, charl_ema_choice ema,
                                        charl__weights_source *s) CHARL_MUST_CHECK;
void charl__weights_source_close(charl__weights_source *s);

/** Number of tensors; the i-th, NULL if it is not a weight, such as the state of an optimizer. */
int64_t charl__weights_source_count(const charl__weights_source *s);
const charl_checkpoint_tensor *charl__weights_source_get(const charl__weights_source *s, int64_t i);

/** Whether the elements are F64, which charl has no charl_dtype for. */
bool charl__weights_is_f64(const charl_checkpoint_tensor *t);

/** Read a tensor of F32, F16, BF16 or F64 as f32; F64 is rounded.  dst [shape of t]. Blocks. Errors: ERR_CHECKPOINT  also a value of F64 that f32
 *  cannot hold; ERR_NOMEM. */
charl_status charl__weights_source_read(const charl__weights_source *s, const charl_checkpoint_tensor *t,
                                        float *dst) CHARL_MUST_CHECK;

/** The group of trained weights, "model" or "ema", by a charl_ema_choice. Errors:
 *  ERR_CHECKPOINT if there is no average. */
charl_status charl__weights_group(const charl_checkpoint_reader *r, const char *path, charl_ema_choice ema,
                                  const char **out) CHARL_MUST_CHECK;

#endif
