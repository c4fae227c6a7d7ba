#ifndef CHARL_PARALLEL_STATE_H
#define CHARL_PARALLEL_STATE_H
/** The state of a training as tensors of a checkpoint: a list of items and where their values are, filled by the trainer
 *  (train/snapshot.c) and for loops of a program (parallel/training.c); one function that copies them to the host, and one that loads them.
 *
 *      charl__state s = {.keeps = true};
 *      CHARL_TRY_CLEANUP(charl__state_add_params(&s, NULL, params, dp));
 *      CHARL_TRY_CLEANUP(charl__state_add_optimizer(&s, NULL, optimizer, dp, NULL));
 *      CHARL_TRY_CLEANUP(charl__state_copy(&s, CHARL_OK)); // s.tensor [s.n]
 *
 *  All ranks add the same items.
 */
#include "charl/checkpoint.h"
#include "charl/training.h"
#include "dist/consensus.h"
#include "io/checkpoint/checkpoint_parts.h"
#include "optim/optimizer.h"

typedef struct charl__state_item {
    /* location of the values: a parameter, a state of an optimizer, its moving average, its steps, its norms, its loss scale, or memory */
    enum {
        CHARL__STATE_PARAM,
        CHARL__STATE_OPTIMIZER,
        CHARL__STATE_AVERAGE,
        CHARL__STATE_COUNTS,
        CHARL__STATE_NORMS,
        CHARL__STATE_SCALE,
        CHARL__STATE_MEMORY
    } kind;
    char group[64], *name;
    charl_dtype dtype; /* as stored there: states of optimizers are packed when they are written to the file */
    charl_shape shape;
    bool is_divided; /* among the ranks of dp: each has ranges of it. Else every rank has all of it */
    charl_param *param;
    charl_optimizer *optimizer;
    int k; /* of an optimizer's states; the moving average comes after them */
    charl_data_parallel *dp;
    void *memory;
} charl__state_item;

typedef struct charl__state {
    charl__state_item *item;         /* [n] */
    charl_checkpoint_tensor *tensor; /* [n], once they are copied, with names of the items */
    uint32_t *crc;                   /* [n] with `sums`: of each tensor, to compare with other ranks */
    int64_t n;
    unsigned char *block; /* the values */
    size_t used;
    bool
        keeps; /* set before: keep the values. With neither this nor `sums` nothing is read, except for divided states */
    bool sums;  /* set before: checksums */
    bool alike; /* set before items are added: only parameters that every rank has whole */
    bool apart; /* set before: frozen weights that the base has are left to it */
    int parts;  /* set before: how many ranks keep a part of the values, instead of all; 0: none, a copy is whole */
    int part;   /* and which this one keeps; -1: none */
    charl__ckpt_share *share; /* [n_shares] with `parts`, in the elements of `tensor`, which has no data then */
    int64_t n_shares;
} charl__state;

/** Parameters and their running statistics; `prefix` and a dot come before their names, NULL: nothing. dp: NULL or of the same set. Local.
 *  Errors: ERR_NOMEM. */
charl_status charl__state_add_params(charl__state *s, const char *prefix, charl_params *set,
                                     charl_data_parallel *dp) CHARL_MUST_CHECK;
/** Norms, moving average and states of an optimizer; absent ones are omitted. dp: NULL or of the same set. r: NULL, or the checkpoint to load
 *  them from: norms of another number and a missing moving average are omitted too. */
charl_status charl__state_add_optimizer(charl__state *s, const char *prefix, charl_optimizer *o,
                                        charl_data_parallel *dp, const charl_checkpoint_reader *r) CHARL_MUST_CHECK;
/** Its steps and its loss scale, which a trainer stores in /state. */
charl_status charl__state_add_counts(charl__state *s, const char *prefix, charl_optimizer *o,
                                     charl_data_parallel *dp) CHARL_MUST_CHECK;
charl_status charl__state_add_value(charl__state *s, const charl_training_value *v) CHARL_MUST_CHECK;

/** Copy the values to the host, after `mine`, the status so far. What is divided gets to rank 0 only; with `parts`, each rank keeps what it has of
 *  it and, of what all ranks have, an equal number of bytes, cut at rows. Blocks. Collective and agreed where something is divided and there are no
 *  parts, else Local. Errors: `mine`; ERR_NOMEM, ERR_DEVICE, ERR_COMM. */
charl_status charl__state_copy(charl__state *s, charl_status mine) CHARL_MUST_CHECK;
/** Bytes of the values in a file. Local. */
int64_t charl__state_bytes(const charl__state *s);
/** Leave frozen weights to the base in a state that has been copied with all values. Local. */
void charl__state_leave_base(charl__state *s);
/** Add the checksum of every tensor, or of those of one group, to what ranks compare; `form` has all of a fact but label and value. Local.
 *  Errors: ERR_NOMEM. */
charl_status charl__state_facts(const charl__state *s, const char *group, const charl__fact *form,
                                charl__consensus *facts) CHARL_MUST_CHECK;

/** Read the items from a checkpoint, check their values, and with `takes` apply them to the training. A packed state is read in whatever form
 *  the optimizer keeps its own. Blocks. Local. Errors: ERR_CHECKPOINT  one is missing, damaged, of another type or shape, or has values that no
 *  training has; ERR_NOMEM, ERR_DEVICE. */
charl_status charl__state_load(const charl__state *s, charl_checkpoint_reader *r, const char *path,
                               bool takes) CHARL_MUST_CHECK;

void charl__state_fini(charl__state *s); /* {0} is a no-op */

#endif
