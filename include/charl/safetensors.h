#ifndef CHARL_SAFETENSORS_H
#define CHARL_SAFETENSORS_H
/** Writing safetensors files: named tensors, the exchange format of PyTorch and Hugging Face. charl/tensor_file.h
 *  reads them.
 *
 *  A file is u64 N (little-endian), N bytes of JSON padded with spaces to a multiple of 8, and the tensors without
 *  gaps. It stores names, element types and shapes, and no checksums.
 *  Tensors are described by charl_checkpoint_tensor, whose group is not used here.
 */
#include "charl/checkpoint.h"

CHARL_BEGIN_DECLS

/** Write `path`, replacing an existing file, and return when it is durable. Tensors with wider elements come first, so
 *  that all are aligned; otherwise the order is the caller's. The metadata are "format": "pt" and, if schema is not
 *  NULL, "charl.schema": the schema as JSON text (charl_data_schema_print).
 *
 *  Blocks. Local. Deterministic: the same tensors give the same bytes.
 *  Errors: ERR_INVALID  a name is empty, reserved or given twice, a shape or type is impossible
 *          ERR_DISK     an older file at `path` is untouched unless only the last fsync failed
 *          ERR_NOMEM */
charl_status charl_safetensors_save(const char *path, const charl_checkpoint_tensor *tensors, int64_t n_tensors,
                                    const charl_data_schema *schema) CHARL_MUST_CHECK;

CHARL_END_DECLS

#endif
