#ifndef CHARL_IO_CHECKPOINT_CHECKPOINT_READ_H
#define CHARL_IO_CHECKPOINT_CHECKPOINT_READ_H
/** What other parts of io need from the checkpoint reader. */
#include "charl/checkpoint.h"

/** Where the values of weights are that a checkpoint leaves to its base. */
typedef struct charl__checkpoint_base {
    void *ctx; /* owned by the reader */
    /* Read the weight `name` of `shape` as f32 into dst. Errors: ERR_CHECKPOINT, ERR_NOMEM. */
    charl_status (*read)(void *ctx, const char *name, const charl_shape *shape, float *dst);
    void (*close)(void *ctx);
} charl__checkpoint_base;

/** Whether the file leaves weights to a base that has not been attached. Local. */
bool charl__checkpoint_lacks_base(const charl_checkpoint_reader *r);

/** Whether there is a moving average of the weights. Local. */
bool charl__checkpoint_has_average(const charl_checkpoint_reader *r);

/** Read what the file leaves to its base from `base` from now on; checksums are compared. Local. */
void charl__checkpoint_attach(charl_checkpoint_reader *r, const charl__checkpoint_base *base);

/** The path of part i >= 0 of a checkpoint in parts; NULL past the last. Borrowed. Local. */
const char *charl__checkpoint_part(const charl_checkpoint_reader *r, int i);

/** charl_checkpoint_verify; unless manifest_sha256 is NULL, of a file that has just been written: it must have this manifest, and of tensors in parts only
 *  the checksums are compared, as each part has been read back. */
charl_status charl__checkpoint_verify(const char *path, const char *manifest_sha256) CHARL_MUST_CHECK;

/** Read `bytes` bytes of tensor `t` from byte `from` on, unchecked. Errors: ERR_CHECKPOINT. */
charl_status charl__checkpoint_read_part(charl_checkpoint_reader *r, const charl_checkpoint_tensor *t, int64_t from,
                                         int64_t bytes, void *dst) CHARL_MUST_CHECK;

/** Check the CRC of `t` reading it in blocks through block[CHARL__CKPT_BLOCK]. Errors:
 *  ERR_CHECKPOINT. */
charl_status charl__checkpoint_check_tensor(charl_checkpoint_reader *r, const charl_checkpoint_tensor *t,
                                            void *block) CHARL_MUST_CHECK;

#endif
