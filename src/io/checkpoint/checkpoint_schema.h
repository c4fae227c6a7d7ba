#ifndef CHARL_IO_CHECKPOINT_CHECKPOINT_SCHEMA_H
#define CHARL_IO_CHECKPOINT_CHECKPOINT_SCHEMA_H
/** The schema of a model's data as datasets of a checkpoint: /schema/description, and where they
 *  are not empty /schema/class_names, columns, targets, mean, std and tokenizer. */
#include "io/checkpoint/checkpoint_format.h"

enum { CHARL__CKPT_SCHEMA_MOST = 11 };

#define CHARL__CKPT_SCHEMA "schema"

/** The datasets that describe `s`, borrowed from it and from `description`, which is filled in.
 *  Errors: ERR_NOMEM. */
charl_status charl__ckpt_schema_tensors(const charl_data_schema *s, charl__text *description,
                                        charl_checkpoint_tensor out[CHARL__CKPT_SCHEMA_MOST], int *n) CHARL_MUST_CHECK;

/** The schema that n >= 1 such datasets describe, with their contents in `data`, each followed by a
 *  NUL. `path` is for messages. Errors: ERR_CHECKPOINT, ERR_NOMEM. */
charl_status charl__ckpt_schema_load(const char *path, const charl_checkpoint_tensor *tensors, int n,
                                     charl_data_schema **out) CHARL_MUST_CHECK;

#endif
