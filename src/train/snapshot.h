#ifndef CHARL_TRAIN_SNAPSHOT_H
#define CHARL_TRAIN_SNAPSHOT_H
/** The tensors of a checkpoint: host copies of what a training holds, and the way back. */
#include "base/numeric/hash.h"
#include "dist/consensus.h"
#include "train/replica.h"

typedef struct charl__snapshot {
    charl_checkpoint_tensor *tensor;
    float **data;
    char (*group)[48];
    uint32_t *crc; /* of each tensor, to compare with other ranks; NULL: there are none */
    int64_t n, capacity;
    float *block; /* memory of data, where the values are kept */
    int64_t used; /* floats of it */
    bool keeps;   /* set before: whether the values are kept, or only their checksums */
    bool apart;   /* set before: frozen weights that the base has are left to it */
} charl__snapshot;

/** Copy parameters, their moving average if there is one, and optimizer state, and checksum them.
 *  Where ranks divide the optimizer only rank 0 gets average and state. Call charl__snapshot_fini in
 *  any case. Blocks. Collective and agreed where ranks divide the optimizer, else local. */
charl_status charl__snapshot_take(const charl__replica *r, charl__snapshot *s) CHARL_MUST_CHECK;
void charl__snapshot_fini(charl__snapshot *s);
/** The same of the parameters alone. Local. */
charl_status charl__snapshot_take_model(const charl__replica *r, charl__snapshot *s) CHARL_MUST_CHECK;

/** Whether checkpoints leave frozen weights to the weights that the run started from. Local. */
bool charl__leaves_base(const charl_config *config);
/** Leave those weights to the base in a snapshot that charl__snapshot_take has taken with all values. Local. */
void charl__snapshot_leave_base(charl__snapshot *s, const charl__replica *r);

/** Add the checksum of every tensor, or of those of one group, to what ranks compare; `form` has
 *  all of a fact but label and value. Local. Errors: ERR_NOMEM. */
charl_status charl__snapshot_facts(const charl__snapshot *s, const char *group, const charl__fact *form,
                                   charl__consensus *facts) CHARL_MUST_CHECK;

/** Weights, optimizer state and moving average from a checkpoint that is open. Errors:
 *  ERR_CHECKPOINT when it is another model's, or holds more than this one. Blocks. */
charl_status charl__snapshot_restore(charl__replica *r, charl_checkpoint_reader *reader,
                                     const char *path) CHARL_MUST_CHECK;

/** How random numbers are drawn, as checkpoints name it. */
extern const char charl__rng_name[];

enum { CHARL__SHUFFLE_TEXT = 80 };

/** How samples are shuffled, as checkpoints name it: the same name, the same order of the same rows. Returns `text`. */
const char *charl__shuffle_name(charl_shuffle shuffle, const charl_dataset_info *data, char text[CHARL__SHUFFLE_TEXT]);

#endif
