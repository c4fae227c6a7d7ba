#ifndef CHARL_IO_CHECKPOINT_CHECKPOINT_LAYOUT_H
#define CHARL_IO_CHECKPOINT_CHECKPOINT_LAYOUT_H
/** Where everything lies in a checkpoint file and its parts, found and validated with HDF5. */
#include "io/checkpoint/checkpoint_format.h"

enum { CHARL__CKPT_FIRST_TENSOR = 2 }; /* lines 0 and 1 of the manifest are /config/text and /config/resolved */

typedef struct charl__ckpt_entry {
    charl_checkpoint_tensor tensor; /* first member; names point into the layout's manifest */
    int64_t offset, bytes;
    bool in_base; /* no dataset: the values are in the base */
    const charl__ckpt_piece
        *piece; /* [n_pieces] in parts, in order; 0: the values are in the file itself, at `offset` */
    int64_t n_pieces;
} charl__ckpt_entry;

typedef struct charl__ckpt_layout {
    charl_checkpoint_state state; /* strings owned */
    char *manifest;
    char manifest_sha256[CHARL__SHA256_TEXT];
    charl__ckpt_entry *entries; /* one per line of the manifest */
    int64_t n_entries;
    int n_schema;                     /* entries of the schema, after those of the configuration and before the tensors
                   */
    const charl__ckpt_entry **sorted; /* by group and name */
    charl__ckpt_parts parts;          /* none: everything is in the file itself */
} charl__ckpt_layout;

/** Read the structure of the checkpoint open at `fd`, of `file_bytes` bytes. `path` is for
 *  messages. On failure nothing is left to release. Errors: ERR_CHECKPOINT, ERR_NOMEM. */
charl_status charl__ckpt_layout_load(const char *path, int fd, int64_t file_bytes,
                                     charl__ckpt_layout *out) CHARL_MUST_CHECK;
void charl__ckpt_layout_fini(charl__ckpt_layout *l);

/** NULL when there is none. */
const charl__ckpt_entry *charl__ckpt_layout_find(const charl__ckpt_layout *l, const char *group, const char *name);

#endif
