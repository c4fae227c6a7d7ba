#ifndef CHARL_TASK_SCHEMA_H
#define CHARL_TASK_SCHEMA_H
/** Schemas with the numbers that a configuration asks for: data.normalize. */
#include "config/values.h"
#include "charl/data_schema.h"

/** The schema of data that a training begins with: their own mean and std (auto), those of the
 *  configuration, or bytes to [0, 1]. *out is owned. Errors: ERR_CONFIG when the channels do not
 *  fit; as charl_data_schema_create. */
charl_status charl__task_schema(const charl_config *config, const charl_dataset *ds,
                                charl_data_schema **out) CHARL_MUST_CHECK;

/** The schema of a model that is trained on: its own mean and std (auto), or those of the
 *  configuration. *out is owned. Errors: as charl__task_schema. */
charl_status charl__task_schema_continue(const charl_config *config, const charl_data_schema *s,
                                         charl_data_schema **out) CHARL_MUST_CHECK;

/** Whether the configuration asks for other numbers than those of `s`. */
bool charl__task_normalizes_otherwise(const charl_config *config, const charl_data_schema *s);

#endif
