#ifndef CHARL_IO_DATASET_DATASET_MIX_H
#define CHARL_IO_DATASET_DATASET_MIX_H
/** The functions of data sets for a mix: ds->n_parts > 0. */
#include "io/dataset/dataset_private.h"
#include "io/dataset/order/stream.h"

/** Close the sets and release what only a mix has. */
void charl__mix_fini(charl_dataset *ds);

/** charl_dataset_get_info of a mix. */
void charl__mix_info(const charl_dataset *ds, charl_dataset_info *out);

/** The set that contains a token of the split, and the number of tokens in the sets before it; NULL: there is no such token. */
charl_dataset *charl__mix_find(const charl_dataset *ds, charl_split split, int64_t token, int64_t *first);

#endif
