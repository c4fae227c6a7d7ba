#ifndef CHARL_IO_SCOPED_H
#define CHARL_IO_SCOPED_H
/** Local pointers to the public objects of io, as in CHARL_SCOPED(charl__dataset_left) charl_dataset *ds = NULL. */
#include "base/error.h"
#include "charl/checkpoint.h"
#include "charl/dataset.h"
#include "charl/tensor_file.h"

CHARL_SCOPED_POINTER(charl__checkpoint_left, charl_checkpoint_reader, charl_checkpoint_close)
CHARL_SCOPED_POINTER(charl__dataset_left, charl_dataset, charl_dataset_close)
CHARL_SCOPED_POINTER(charl__schema_left, charl_data_schema, charl_data_schema_destroy)
CHARL_SCOPED_POINTER(charl__tensor_file_left, charl_tensor_file, charl_tensor_file_close)

#endif
