#ifndef CHARL_SAFETENSORS_H
#define CHARL_SAFETENSORS_H
/** safetensors files: named tensors, the exchange format of PyTorch and Hugging Face.
 *
 *  A file is u64 N (little-endian), N bytes of JSON padded with spaces to a multiple of 8, and the tensors without
 *  gaps. It stores names, element types and shapes, and no checksums. A malformed file is refused when it is opened.
 *  Tensors are described by charl_checkpoint_tensor, whose group is not used here. Any number
 *  of threads may read from one object at once.
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

typedef struct charl_safetensors charl_safetensors;

/** Open a file, or the files of a model: `path` is a .safetensors file, an index of shards
 *  (model.safetensors.index.json), or a folder with model.safetensors or such an index. Check everything but the
 *  contents of the tensors: length and form of the header, no name twice, element types of the format, shapes of at
 *  most CHARL_MAX_DIMS extents that agree with the bytes given, no overlap, no hole, nothing outside the file; of
 *  shards also that each has the tensors that the index says, and no name is in two. Owned: close it.
 *
 *  Blocks. Local. *out is NULL on failure.
 *  Errors: ERR_CHECKPOINT  a file is missing, damaged or of another kind; the message names file and tensor
 *          ERR_NOMEM */
charl_status charl_safetensors_open(const char *path, charl_safetensors **out) CHARL_MUST_CHECK;

/** NULL is a no-op. Local. */
void charl_safetensors_close(charl_safetensors *s);

/** Number of tensors. Local. */
int64_t charl_safetensors_get_count(const charl_safetensors *s);

/** The schema of the model's data; NULL if the file has none, as files of other programs. Borrowed from s. Local. */
const charl_data_schema *charl_safetensors_get_schema(const charl_safetensors *s);

/** Tensor `index` in [0, count), in the order in which they are stored; the tensor called `name`. NULL if there is
 *  none. Group and data are NULL. A tensor of a type that charl does not have, such as BOOL or F64, has dtype
 *  CHARL_DTYPE_COUNT and cannot be read. Borrowed. Local. */
const charl_checkpoint_tensor *charl_safetensors_get(const charl_safetensors *s, int64_t index);
const charl_checkpoint_tensor *charl_safetensors_find(const charl_safetensors *s, const char *name);

/** Read a tensor that charl_safetensors_get or _find returned.
 *
 *  dst  [shape of t]  dtype of t  written
 *
 *  Blocks. Local. Errors: ERR_CHECKPOINT  the file was truncated since it was opened, or the tensor has a type that
 *  charl does not have; the message names file and tensor. */
charl_status charl_safetensors_read(const charl_safetensors *s, const charl_checkpoint_tensor *t,
                                    void *dst) CHARL_MUST_CHECK;

CHARL_END_DECLS

#endif
