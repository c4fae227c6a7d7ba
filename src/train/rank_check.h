#ifndef CHARL_TRAIN_RANK_CHECK_H
#define CHARL_TRAIN_RANK_CHECK_H
/** Checks that all ranks of a run agree before they compute together. A stale file, a missing option or a
 *  different version on one node is then reported with the ranks that differ, instead of going unnoticed.
 *  docs/distributed.md lists what is compared.
 *
 *  Unless marked Local, functions are collective and agreed. `mine` is the caller's status so far; it is agreed too. */
#include "base/numeric/hash.h"
#include "dist/consensus.h"
#include "train/replica.h"

/** Compare options, configuration, environment and kernel sources. Call before anything is opened.
 *  Errors: ERR_CONFIG naming the ranks, the key and the values; those of charl_comm_agree. */
charl_status charl__rank_check_settings(charl__replica *r, charl_status mine) CHARL_MUST_CHECK;

/** Compare the opened data: contents, split, classes, names and statistics. Call before kernels are
 *  compiled. Errors: ERR_DATA; those of charl_comm_agree. */
charl_status charl__rank_check_data(charl__replica *r, charl_status mine) CHARL_MUST_CHECK;

/** SHA-256 of the kernel sources in this program: of each the name, a NUL, the text, a NUL. Local. */
void charl__hash_kernels(char hash[CHARL__SHA256_TEXT]);

/** The fields that all facts about the state share. `path` is the file that the state was loaded from; NULL:
 *  initial weights. Local. */
charl__fact charl__rank_check_form(const char *path);

/** Compare the state after loading or initialization: `more` (the trainer's counters and a digest of the
 *  checkpoint, or NULL), the schema, and the parameters on the device. `path` is as above. Blocks. Errors:
 *  ERR_CHECKPOINT, or ERR_NONFINITE if path is NULL; those of charl_comm_agree. Cost: reads the parameters
 *  from the device. */
charl_status charl__rank_check_state(charl__replica *r, charl__consensus *more, const char *path,
                                     charl_status mine) CHARL_MUST_CHECK;

#endif
