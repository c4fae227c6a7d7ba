#ifndef CHARL_IO_CHECKPOINT_CHECKPOINT_READ_H
#define CHARL_IO_CHECKPOINT_CHECKPOINT_READ_H
/** What other parts of io need from the checkpoint reader. */
#include "charl/checkpoint.h"

/** charl_checkpoint_verify that also demands the manifest's SHA-256, unless it is NULL. */
charl_status charl__checkpoint_verify(const char *path, const char *manifest_sha256) CHARL_MUST_CHECK;

/** Read `bytes` bytes of tensor `t` from byte `from` on, unchecked. Errors: ERR_CHECKPOINT. */
charl_status charl__checkpoint_read_part(charl_checkpoint_reader *r, const charl_checkpoint_tensor *t, int64_t from,
                                         int64_t bytes, void *dst) CHARL_MUST_CHECK;

/** Check the CRC of `t` reading it in blocks through block[CHARL__CKPT_BLOCK]. Errors:
 *  ERR_CHECKPOINT. */
charl_status charl__checkpoint_check_tensor(charl_checkpoint_reader *r, const charl_checkpoint_tensor *t,
                                            void *block) CHARL_MUST_CHECK;

#endif
