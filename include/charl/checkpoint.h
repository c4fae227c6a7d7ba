#ifndef CHARL_CHECKPOINT_H
#define CHARL_CHECKPOINT_H
/** Checkpoints: HDF5 files that each hold everything needed to resume training, by themselves or with parts beside
 *  them, and the directory that contains them.
 *
 *      charl_checkpoint_reader *r = NULL;
 *
 *      check(charl_checkpoint_open("runs/config/best.h5", &r));
 *      const charl_checkpoint_tensor *t = charl_checkpoint_find(r, "model", "fc1.weight");
 *      void *weight = t ? malloc((size_t)charl_shape_count(&t->shape) * charl_dtype_size(t->dtype)) : NULL;
 *      if (weight) {
 *          check(charl_checkpoint_read(r, t, weight));
 *      }
 *      free(weight);
 *      charl_checkpoint_close(r);
 *
 *  Files are written atomically (temporary name, fsync, read back, rename, fsync of the directory). Every tensor has a
 *  CRC32C and the list of tensors a SHA-256. checkpoints/README.md describes the format. Tensors are in host memory,
 *  little-endian, row-major, in PyTorch's shapes. These functions use no device and no communicator: rank 0 saves,
 *  every rank may read. Any number of threads may read from one reader at once. A reader owns its strings and tensors.
 */
#include "charl/data_schema.h"
#include "charl/shape.h"

CHARL_BEGIN_DECLS

/* The newest format; older ones are read too. A file is written in version 2 unless it leaves weights to its base (3)
 * or has parts (4). */
enum { CHARL_CHECKPOINT_VERSION = 4 };

/** Group of a weight that is saved without its values, see charl_checkpoint_tensor. */
#define CHARL_CHECKPOINT_BASE "base"
/** Group and name of the gradient norms that train.on_spike compares with: the only tensor without a parameter. */
#define CHARL_CHECKPOINT_SPIKE "optim/spike"
#define CHARL_CHECKPOINT_NORMS "grad_norms"

/** A named tensor. `group` is "model", "ema", "user" or "optim/STATE" (such as "optim/exp_avg"); `name` is
 *  a flat dotted name without '/' or white space. `data` is the caller's when saving and NULL in
 *  what a reader returns; `crc32c` is ignored when saving. Everything is borrowed.
 *
 *  A weight may be left to the base, which is what the training started from ([init] from): the file holds its name,
 *  shape and checksum but not its values. Such a weight is saved with the group CHARL_CHECKPOINT_BASE, without data,
 *  with the CRC32C of its values. A reader returns it in the group "model"; charl_checkpoint_is_in_base tells. */
typedef struct charl_checkpoint_tensor {
    const char *group, *name;
    charl_dtype dtype;
    charl_shape shape;
    const void *data;
    uint32_t crc32c;
} charl_checkpoint_tensor;

/** The progress of a training. Strings are borrowed, at most 4000 bytes; NULL is stored as "". When saving, `writer`
 *  NULL means this version of charl. */
typedef struct charl_checkpoint_state {
    const char *writer;
    int64_t step;
    int64_t epoch, samples_in_epoch, samples_seen;
    int64_t seed;
    const char *rng; /* "philox4x32-10" */
    int64_t lr_step;
    double loss_scale;
    int64_t slices, batch_size;
    double best_metric;       /* NaN: none yet */
    int64_t best_step;        /* step of best_metric; 0: none yet, or unknown */
    int64_t stale_evals;      /* evaluations since the best */
    int64_t skipped_steps;    /* steps skipped because loss or gradient was not finite */
    int64_t overflowed_steps; /* steps skipped because they overflowed with a dynamic loss scale */
    int64_t spike_steps;      /* steps whose gradient norm was a spike */
    int64_t audited_step;     /* the last step that dist.audit has confirmed */
    int64_t world_size;
    const char *device, *driver;
    const char *data_path;
    int64_t data_n_samples;
    const char *data_content_id, *data_shuffle;
    const char *optim_kind;
    int64_t optim_t;
    const char *run_id; /* 32 hexadecimal digits drawn when a run starts afresh; "" in version 1 */
} charl_checkpoint_state;

/** Whether to use the weights of a checkpoint or their moving average. */
typedef enum charl_ema_choice {
    CHARL_EMA_AUTO, /* the average if there is one */
    CHARL_EMA_YES,
    CHARL_EMA_NO
} charl_ema_choice;

/** The contents of a checkpoint to save. Everything is borrowed for the call. */
typedef struct charl_checkpoint {
    charl_checkpoint_state state;
    const char *config_text;     /* the ini as given */
    const char *config_resolved; /* every key */
    const charl_checkpoint_tensor *tensors;
    int64_t n_tensors;
    const charl_data_schema *schema; /* of the data; NULL: unknown */
} charl_checkpoint;

/** Write `path`, replacing it, and return when it is durable and has been read back.
 *
 *  Blocks. Local. Deterministic: the same description gives the same bytes.
 *  Errors: ERR_DISK     not enough room (names bytes needed and free), a step of writing failed, or what was read back
 *                       is not what was written. An older file at `path` is untouched unless only the last fsync of the
 *                       directory failed
 *          ERR_INVALID  a name, shape or counter breaks the format
 *          ERR_NOMEM
 *  Cost: writes and reads back the sum of the tensors; no copy in memory. */
charl_status charl_checkpoint_save(const char *path, const charl_checkpoint *c) CHARL_MUST_CHECK;

typedef struct charl_checkpoint_reader charl_checkpoint_reader;

/** Open `path` and check everything but the contents of the tensors: format, version, completeness, names, that links
 *  are hard links and storage is contiguous inside the file, and the manifest. HDF5 is closed again on return; tensors
 *  are read with pread.
 *
 *  Blocks. Local. *out is NULL on failure.
 *  Errors: ERR_CHECKPOINT  the file is missing, damaged or of another kind; the message names file and tensor
 *          ERR_NOMEM       out of memory or descriptors, which says nothing about the file */
charl_status charl_checkpoint_open(const char *path, charl_checkpoint_reader **out) CHARL_MUST_CHECK;

/** NULL is a no-op. Local. */
void charl_checkpoint_close(charl_checkpoint_reader *r);

/** What a checkpoint holds besides the values of its tensors. Borrowed from the reader. */
typedef struct charl_checkpoint_info {
    const charl_checkpoint_state *state;
    const char *config_text, *config_resolved; /* as in charl_checkpoint */
    const charl_data_schema *schema;           /* of the data; NULL: the file has none, as files of version 1 */
    int64_t n_tensors;
    int n_parts; /* files beside it with its tensors; 0: it is one file */
} charl_checkpoint_info;

/** Describe the checkpoint; all members are 0 for NULL. Local. */
charl_checkpoint_info charl_checkpoint_get_info(const charl_checkpoint_reader *r);

/** Tensor `index` in [0, n_tensors), in the order in which they were saved; NULL outside. Borrowed. Local. */
const charl_checkpoint_tensor *charl_checkpoint_get_tensor(const charl_checkpoint_reader *r, int64_t index);

/** The tensor of that name, or NULL. Borrowed. Local. */
const charl_checkpoint_tensor *charl_checkpoint_find(const charl_checkpoint_reader *r, const char *group,
                                                     const char *name);

/** Whether the values of t, a tensor that the reader returned, are in the base of the file. Local. */
bool charl_checkpoint_is_in_base(const charl_checkpoint_reader *r, const charl_checkpoint_tensor *t);

/** Read a tensor that charl_checkpoint_get_tensor or _find returned.
 *
 *  dst  [shape of t]  dtype of t  written
 *
 *  Blocks. Local. Checks the CRC; on failure dst is undefined.
 *  Errors: ERR_CHECKPOINT naming file and tensor: damaged or truncated since it was opened; or stored in
 *          the base, which only functions that load a model open. */
charl_status charl_checkpoint_read(charl_checkpoint_reader *r, const charl_checkpoint_tensor *t,
                                   void *dst) CHARL_MUST_CHECK;

/** Open `path` and read every tensor. Blocks. Local. A malicious file can crash HDF5: call this in a separate process
 *  for untrusted files. Errors: as charl_checkpoint_open. Cost: reads the file once; 1 MiB of memory. */
charl_status charl_checkpoint_verify(const char *path) CHARL_MUST_CHECK;

/** Compare two checkpoints: counters, configuration, schema, tensors by name, shape, dtype and
 *  bits.
 *
 *  *same    whether no tensor differs
 *  *report  one line per difference, "" when there is none (the writer's version, run_id, world_size, device and driver
 *  may differ); the caller's, free with charl_free; NULL on failure
 *
 *  Blocks. Local. Errors: as charl_checkpoint_verify, for either file. */
charl_status charl_checkpoint_diff(const char *path_a, const char *path_b, bool *same, char **report) CHARL_MUST_CHECK;

/** optim_kind of a checkpoint whose weights belong to no optimizer state. */
#define CHARL_CHECKPOINT_NO_OPTIMIZER "none"

/** Write the mean of the weights of n checkpoints of one model to `out`: summed in double in the given order and
 *  rounded to f32 once. State, configuration and schema come from the file with the most steps. The result has no
 *  optimizer state, no best metric and no moving average: it can be evaluated, exported and used in [init] from, but
 *  not resumed. It is ERR_CONFIG if `out` is one of the files. Weights that all files leave to the same base stay
 *  there.
 *
 *  Blocks. Local. Deterministic.
 *  Errors: as charl_checkpoint_open and charl_checkpoint_save; ERR_CHECKPOINT when the weights
 *  differ in names or shapes or are not f32, or have different bases, naming file and tensor.
 *  Cost: reads every file's weights once; memory for the result and three tensors. */
charl_status charl_checkpoint_average(const char *const *paths, int n, const char *out) CHARL_MUST_CHECK;

/** Bytes of the checkpoint `path` and its parts, found without opening it. Parts are counted by name; if none has the
 *  name of `path`, because it was renamed, all in its folder are. 0: there is no such file. Blocks. Local. */
int64_t charl_checkpoint_size(const char *path);

/** Write the checkpoint `path`, which may be in parts, to the one file `out`: byte for byte what charl_checkpoint_save
 *  would have written. It is ERR_CONFIG if `out` is one of the files of `path`.
 *
 *  Blocks. Local. Errors: as charl_checkpoint_open, charl_checkpoint_read and charl_checkpoint_save. Cost: reads and
 *  writes the checkpoint once, and reads back what it wrote; memory for the largest tensor. */
charl_status charl_checkpoint_pack(const char *path, const char *out) CHARL_MUST_CHECK;

CHARL_END_DECLS

#endif
