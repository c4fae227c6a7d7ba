#ifndef CHARL_TENSOR_FILE_H
#define CHARL_TENSOR_FILE_H
/** Reading named tensors from the files of other programs: safetensors, PyTorch's own format, NumPy.
 *
 *      CHARL_TRY(charl_tensor_file_open("resnet18.pth", &f));
 *      t = charl_tensor_file_find(f, "fc.weight");
 *      CHARL_TRY(charl_tensor_file_read(f, t, values));
 *
 *  Tensors are described by charl_checkpoint_tensor, whose group is not used here. Any number of threads may read
 *  from one object at once. charl/weights.h loads a file into parameters, charl/safetensors.h writes one.
 */
#include "charl/checkpoint.h"

CHARL_BEGIN_DECLS

typedef struct charl_tensor_file charl_tensor_file;

/** Open a file, or the files of a model. `path` is
 *
 *      a .safetensors file
 *      a file that torch.save wrote (.pt, .pth, .bin, .ckpt): a state dict, a module, or the checkpoint of a training.
 *      an archive of numpy.savez (.npz), without compression, or one array (.npy), called as the file
 *      a folder with adapter_config.json, as the Python package peft saves low-rank adapters: the tensors of the base
 *      that it names, with the adapters added, in F32, and those that the adapters replace
 *      an index of shards (model.safetensors.index.json, pytorch_model.bin.index.json)
 *      a folder with model.safetensors, pytorch_model.bin or such an index; the first of these that there is
 *
 *  Nothing in a file is executed: classes that it names are neither imported nor called. Of a dict without
 *  tensors of its own, as trainings save, the tensors under "state_dict", "model_state_dict", "model", "module",
 *  "net" or "weights" are listed, the first that there is; else all, with the keys on the way joined by points.
 *  Tensors of PyTorch may share bytes and may have any strides.
 *
 *  Everything but the values is checked: that the bytes of each tensor lie in the file, that shapes have at most
 *  CHARL_MAX_DIMS extents and no name is there twice; of safetensors also that there is no overlap and no hole; of
 *  shards that each has the tensors that the index says. Owned: close it.
 *
 *  Blocks. Local. *out is NULL on failure.
 *  Errors: ERR_CHECKPOINT  a file is missing, damaged or of another kind; the message names file and tensor
 *          ERR_NOMEM */
charl_status charl_tensor_file_open(const char *path, charl_tensor_file **out) CHARL_MUST_CHECK;

/** NULL is a no-op. Local. */
void charl_tensor_file_close(charl_tensor_file *f);

/** Number of tensors. Local. */
int64_t charl_tensor_file_get_count(const charl_tensor_file *f);

/** The schema of the model's data; NULL if the file has none, as files of other programs. Borrowed from f. Local. */
const charl_data_schema *charl_tensor_file_get_schema(const charl_tensor_file *f);

/** Tensor `index` in [0, count), in the order in which they are stored; the tensor called `name`. NULL if there is
 *  none. Group and data are NULL. A tensor of a type that charl does not have, such as BOOL or F64, has dtype
 *  CHARL_DTYPE_COUNT and cannot be read. Borrowed. Local. */
const charl_checkpoint_tensor *charl_tensor_file_get(const charl_tensor_file *f, int64_t index);
const charl_checkpoint_tensor *charl_tensor_file_find(const charl_tensor_file *f, const char *name);

/** Read a tensor that charl_tensor_file_get or _find returned.
 *
 *  dst  [shape of t]  dtype of t  written
 *
 *  Blocks. Local. Errors: ERR_CHECKPOINT  the file was truncated since it was opened, or the tensor has a type that
 *  charl does not have; the message names file and tensor. */
charl_status charl_tensor_file_read(const charl_tensor_file *f, const charl_checkpoint_tensor *t,
                                    void *dst) CHARL_MUST_CHECK;

CHARL_END_DECLS

#endif
