#ifndef CHARL_IO_TENSORS_SAFETENSORS_H
#define CHARL_IO_TENSORS_SAFETENSORS_H
/** Shared by writing and reading safetensors; its JSON. */
#include "charl/safetensors.h"
#include "io/tensors/tensor_file.h"

enum { CHARL__SAFETENSORS_HEADER = 100000000 }; /* maximum bytes of JSON */

/** "F32" ...; NULL outside the enum. */
const char *charl__safetensors_dtype(charl_dtype dtype);

/* Keys of the metadata of an export: the schema, and `hash` of the line of run.lock that records its checkpoint. */
#define CHARL__SAFETENSORS_SCHEMA "charl.schema"
#define CHARL__EXPORT_LOCK "charl.lock"

/** charl_safetensors_save with the hash of a line of run.lock in the metadata, as CHARL__EXPORT_LOCK; NULL or "": none. */
charl_status charl__safetensors_save(const char *path, const charl_checkpoint_tensor *tensors, int64_t n_tensors,
                                     const charl_data_schema *schema, const char *lock) CHARL_MUST_CHECK;

/** Parse the header: names, types, shapes, and offsets that agree with them; the schema, NULL
 *  if there is none. The caller checks where the bytes are. `path` is for messages. All
 *  results and the names are owned by the caller; on failure there are none.
 *  Errors: ERR_CHECKPOINT; ERR_NOMEM. */
charl_status charl__safetensors_parse(const char *path, const char *json, size_t bytes, charl__tensor_file_entry **out,
                                      int64_t *n, charl_data_schema **schema) CHARL_MUST_CHECK;

/** A tensor and the file that contains it. Both are owned. */
typedef struct charl__safetensors_place {
    char *name, *file;
} charl__safetensors_place;

/** Read the weight_map of an index of shards, model.safetensors.index.json. Results and errors as charl__safetensors_parse;
 *  release them with charl__safetensors_places_free. */
charl_status charl__safetensors_index(const char *path, charl__safetensors_place **out, int64_t *n) CHARL_MUST_CHECK;
void charl__safetensors_places_free(charl__safetensors_place *places, int64_t n);

#endif
