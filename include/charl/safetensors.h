#ifndef CHARL_SAFETENSORS_H
#define CHARL_SAFETENSORS_H
/** safetensors: named tensors in one file, as PyTorch and its relatives exchange them.
 *
 *  The file is u64 N (little-endian), N bytes of JSON padded with spaces to a multiple of 8, and
 *  the tensors one after another without holes. Only names, element types and shapes are stored; the
 *  format has no checksums. A file that breaks any rule of it is refused as a whole when it is
 *  opened. Reading needs libjansson, writing needs nothing. Tensors are described by
 *  charl_checkpoint_tensor, whose group plays no part here. Any number of threads may read from one object at once.
 */
#include "charl/checkpoint.h"

CHARL_BEGIN_DECLS

/** Write `path`, replacing it, and return when it is durable. Wider element types come first, so
 *  that every tensor is aligned; otherwise the order is the caller's. Metadata say "format": "pt"
 *  and, where there is a schema, "charl.schema": its JSON text (charl_data_schema_print); schema may
 *  be NULL.
 *
 *  Blocks. Local. Deterministic: the same tensors give the same bytes.
 *  Errors: ERR_INVALID  a name is empty, reserved or given twice, a shape or type is impossible
 *          ERR_DISK     an older file at `path` is untouched unless only the last fsync failed
 *          ERR_NOMEM */
charl_status charl_safetensors_save(const char *path, const charl_checkpoint_tensor *tensors, int64_t n_tensors,
                                    const charl_data_schema *schema) CHARL_MUST_CHECK;

/** Whether this build can read them: it was made with libjansson. Local. */
bool charl_safetensors_can_read(void);

typedef struct charl_safetensors charl_safetensors;

/** Open a file, or the files of a model: `path` is a .safetensors file, an index of shards
 *  (model.safetensors.index.json), or a folder with model.safetensors or such an index. Check everything but the
 *  contents of the tensors: length and form of the header, no name twice, element types of the format, shapes of at
 *  most CHARL_MAX_DIMS extents that agree with the bytes given, no overlap, no hole, nothing outside the file; of
 *  shards also that each has the tensors that the index says, and no name is in two. Owned: close it.
 *
 *  Blocks. Local. *out is NULL on failure.
 *  Errors: ERR_CHECKPOINT  naming the file, and the tensor where there is one
 *          ERR_CONFIG      this build cannot read JSON
 *          ERR_NOMEM */
charl_status charl_safetensors_open(const char *path, charl_safetensors **out) CHARL_MUST_CHECK;

/** NULL is a no-op. Local. */
void charl_safetensors_close(charl_safetensors *s);

/** Number of tensors. Local. */
int64_t charl_safetensors_get_count(const charl_safetensors *s);

/** What the data of the model look like; NULL: the file does not say, as others than charl's.
 *  Borrowed from s. Local. */
const charl_data_schema *charl_safetensors_get_schema(const charl_safetensors *s);

/** Tensor `index` in [0, count), in the order of their bytes; the tensor called `name`. NULL when
 *  there is none. Group and data are NULL. Where charl has no such element type, such as BOOL or F64, dtype is
 *  CHARL_DTYPE_COUNT, and the tensor cannot be read. Borrowed. Local. */
const charl_checkpoint_tensor *charl_safetensors_get(const charl_safetensors *s, int64_t index);
const charl_checkpoint_tensor *charl_safetensors_find(const charl_safetensors *s, const char *name);

/** Read a tensor that charl_safetensors_get or _find returned.
 *
 *  dst  [shape of t]  dtype of t  written
 *
 *  Blocks. Local. Errors: ERR_CHECKPOINT naming file and tensor: cut short since it was opened, or of a type that charl
 *  does not have. */
charl_status charl_safetensors_read(const charl_safetensors *s, const charl_checkpoint_tensor *t,
                                    void *dst) CHARL_MUST_CHECK;

CHARL_END_DECLS

#endif
