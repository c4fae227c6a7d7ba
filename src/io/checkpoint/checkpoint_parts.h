#ifndef CHARL_IO_CHECKPOINT_CHECKPOINT_PARTS_H
#define CHARL_IO_CHECKPOINT_CHECKPOINT_PARTS_H
/** A checkpoint in parts: files that hold pieces of its tensors, and one file that makes them a checkpoint.
 *
 *      step-00000100.h5                         state, configuration, manifest and list of parts; its tensors are virtual datasets
 *      step-00000100.h5.0123456789abcdef.part   pieces: elements [from, from + count) of tensors
 *
 *  Any number of processes write a part each (charl__ckpt_part_save); when all parts are durable, one of them writes the checkpoint
 *  (charl__ckpt_save_parts). Until then nothing can be opened. A part is named by the hash of its manifest: what is in it never changes, and
 *  writing one again changes nothing. So an interrupted save leaves parts that no checkpoint names, which charl__ckpt_sweep removes.
 */
#include "base/numeric/hash.h"
#include "base/text/text.h"
#include "charl/checkpoint.h"

/** Elements [from, from + count) of tensor `tensor` of a list, as a part holds them. */
typedef struct charl__ckpt_piece {
    int64_t tensor, from, count;
    uint32_t crc32c;                 /* of the piece */
    char sha256[CHARL__SHA256_TEXT]; /* of a piece that is the whole tensor; "": it is not */
    int part, number;                /* the number-th piece of this part */
    int64_t offset;                  /* of its values in the file */
} charl__ckpt_piece;

typedef struct charl__ckpt_part {
    char *name, *path;
    char sha256[CHARL__SHA256_TEXT]; /* of its manifest */
    int fd;
    int64_t bytes; /* of the file */
} charl__ckpt_part;

/** Parts that are open, and where in them the tensors of a list are. Start from {0}. */
typedef struct charl__ckpt_parts {
    charl__ckpt_part *part; /* [n] */
    int n;
    charl__ckpt_piece *piece; /* by tensor and place in it */
    int64_t n_pieces;
    int64_t *first; /* [tensors + 1] of the pieces of each tensor */
} charl__ckpt_parts;

/** What a process has of tensor `tensor` of a list: elements [from, from + count), which are at `data`. */
typedef struct charl__ckpt_share {
    int64_t tensor, from, count;
    const void *data;
} charl__ckpt_share;

/** Write n_shares shares, which are not empty, of the n tensors of the checkpoint `path` to a part beside it, and return when it is durable and
 *  has been read back. sha256: what charl__ckpt_parts_join needs; "" for no shares, and then no file is written. The data of tensors is not looked
 *  at. Blocks. Local. Errors: ERR_DISK, ERR_NOMEM. */
charl_status charl__ckpt_part_save(const char *path, const charl_checkpoint_tensor *tensor, int64_t n,
                                   const charl__ckpt_share *share, int64_t n_shares,
                                   char sha256[CHARL__SHA256_TEXT]) CHARL_MUST_CHECK;

/** Read back a part, whatever the file is called, with pieces of these n tensors and a manifest of this hash. Errors: ERR_CHECKPOINT, ERR_NOMEM. */
charl_status charl__ckpt_part_verify(const char *path, const char *sha256, const charl_checkpoint_tensor *tensor,
                                     int64_t n) CHARL_MUST_CHECK;

/** Append the line of a part to the list of parts of the checkpoint `path`: "NAME SHA256". "": none. Errors: ERR_NOMEM. */
charl_status charl__ckpt_add_part(charl__text *list, const char *path, const char *sha256) CHARL_MUST_CHECK;

/** Open the parts of `list` (lines, which are taken apart), in the folder of `path`, and check them: structure, manifests, and that the pieces
 *  of a tensor, if there are any, are the whole tensor. Call charl__ckpt_parts_fini in any case. Errors: ERR_CHECKPOINT, naming the file; ERR_NOMEM. */
charl_status charl__ckpt_parts_open(const char *path, char *list, const charl_checkpoint_tensor *const *tensor,
                                    int64_t n, charl__ckpt_parts *out) CHARL_MUST_CHECK;
void charl__ckpt_parts_fini(charl__ckpt_parts *p);

/** The CRC32C of tensor i, which has pieces, of elements of `size` bytes. */
uint32_t charl__ckpt_parts_crc32c(const charl__ckpt_parts *p, int64_t i, size_t size);

/** Open the parts that n processes have written of the checkpoint `path`; part: what charl__ckpt_part_save gave them. sha256 [c->n_tensors]: of the
 *  values of each tensor, unchanged where it has no pieces. Call charl__ckpt_parts_fini in any case. Cost: reads tensors that are in several
 *  pieces. Errors: ERR_DISK  they are not as they were written; ERR_NOMEM. */
charl_status charl__ckpt_parts_join(const char *path, const charl_checkpoint *c, const char (*part)[CHARL__SHA256_TEXT],
                                    int n, charl__ckpt_parts *out, char (*sha256)[CHARL__SHA256_TEXT]) CHARL_MUST_CHECK;

/** charl_checkpoint_save of a checkpoint whose tensors are in these parts, but for those without pieces. */
charl_status charl__ckpt_save_parts(const char *path, const charl_checkpoint *c,
                                    const charl__ckpt_parts *parts) CHARL_MUST_CHECK;

/** Read the values of tensor `t` from `from` to `from + bytes` at `offset` of a file, `path`. Errors: ERR_CHECKPOINT. */
charl_status charl__ckpt_read_values(const char *path, int fd, const charl_checkpoint_tensor *t, int64_t offset,
                                     int64_t bytes, void *dst) CHARL_MUST_CHECK;

/** Remove the parts in `dir` that no checkpoint there names, whatever that is called. A part beside a checkpoint of its name, or that and more, that
 *  cannot be read stays. The caller holds the lock of the run. *removed may be NULL. Blocks. Local. Errors: ERR_DISK, ERR_NOMEM. */
charl_status charl__ckpt_sweep(const char *dir, int *removed) CHARL_MUST_CHECK;

#endif
