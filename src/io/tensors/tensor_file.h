#ifndef CHARL_IO_TENSORS_TENSOR_FILE_H
#define CHARL_IO_TENSORS_TENSOR_FILE_H
/** What the formats of weights share (charl/tensor_file.h): each lists the tensors of a file, and where their bytes are. */
#include <stdbool.h>

#include "charl/tensor_file.h"

/** A tensor and its bytes in the file. Element (i, j, ...) is at begin + width * (i * stride[0] + j * stride[1] + ...). */
typedef struct charl__tensor_file_entry {
    charl_checkpoint_tensor tensor; /* first member; the name is owned */
    const char *type;               /* of its elements, in the words of safetensors; static */
    size_t width;                   /* bytes of an element */
    int64_t begin, end;             /* first byte, and the one after the last */
    bool strided;                   /* the elements are not those of [begin, end) in their order */
    int64_t stride[CHARL_MAX_DIMS]; /* elements; set where `strided` is */
} charl__tensor_file_entry;

/** A file that is being listed. */
typedef struct charl__tensor_file_source {
    const char *path;
    int fd;
    int64_t bytes;
} charl__tensor_file_source;

/** The element type of a tensor that charl_tensor_file_get or _find returned, as the file says: "F32", "BOOL" ... Local. */
const char *charl__tensor_file_type(const charl_checkpoint_tensor *t);

#define CHARL__PEFT_CONFIG "adapter_config.json" /* what makes a folder one of adapters */
#define CHARL__PEFT_PREFIX "base_model.model."   /* of the names in its file */

/** Adapters of a folder of peft and their base. */
typedef struct charl__peft charl__peft;

/** Open a folder with CHARL__PEFT_CONFIG. Entries are the caller's; they have no place in a file: charl__peft_read reads the i-th, of the type that
 *  it has. Errors: ERR_CHECKPOINT  also without the base, or for what is not supported; ERR_NOMEM. */
charl_status charl__peft_open(const char *folder, charl__tensor_file_entry **entries, int64_t *n,
                              charl__peft **out) CHARL_MUST_CHECK;
charl_status charl__peft_read(const charl__peft *p, int64_t i, void *dst) CHARL_MUST_CHECK;
/** NULL is a no-op. */
void charl__peft_close(charl__peft *p);

/** Set type, width and dtype of an entry by the name of its type in safetensors; false: no such type. Local. */
bool charl__tensor_file_set_type(charl__tensor_file_entry *e, const char *name);

/** Bytes of its elements; -1: too many, or an extent is negative. Local. */
int64_t charl__tensor_file_bytes(const charl__tensor_file_entry *e);

void charl__tensor_file_free(charl__tensor_file_entry *entries, int64_t n);

/** Read a tensor of any element type, as charl_tensor_file_read does. */
charl_status charl__tensor_file_read_raw(const charl_tensor_file *f, const charl_checkpoint_tensor *t,
                                         void *dst) CHARL_MUST_CHECK;

/** The tensors of a file in safetensors; of one that torch.save wrote (a zip archive, or as before PyTorch 1.6); of arrays of NumPy. Entries and *schema are the caller's; *schema is NULL where the file has none.
 *  On failure there are none. Errors: ERR_CHECKPOINT; ERR_NOMEM. */
charl_status charl__tensor_file_safetensors(const charl__tensor_file_source *s, charl__tensor_file_entry **entries,
                                            int64_t *n, charl_data_schema **schema) CHARL_MUST_CHECK;
charl_status charl__tensor_file_pytorch(const charl__tensor_file_source *s, charl__tensor_file_entry **entries,
                                        int64_t *n, charl_data_schema **schema) CHARL_MUST_CHECK;
charl_status charl__tensor_file_numpy(const charl__tensor_file_source *s, charl__tensor_file_entry **entries,
                                      int64_t *n, charl_data_schema **schema) CHARL_MUST_CHECK;

#endif
