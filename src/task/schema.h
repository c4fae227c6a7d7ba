#ifndef CHARL_TASK_SCHEMA_H
#define CHARL_TASK_SCHEMA_H
/** Schemas with the normalization that a configuration requests: data.normalize. */
#include "config/values.h"
#include "charl/data_schema.h"

/** The schema of a new training's data: their own mean and std (auto), the configuration's,
 *  or bytes scaled to [0, 1]. *out is owned. Errors: ERR_CONFIG if the channels do not
 *  fit; as charl_data_schema_create. */
charl_status charl__task_schema(const charl_config *config, const charl_dataset *ds,
                                charl_data_schema **out) CHARL_MUST_CHECK;

/** The schema of a model that training continues: its own mean and std (auto), or the
 *  configuration's. *out is owned. Errors: as charl__task_schema. */
charl_status charl__task_schema_continue(const charl_config *config, const charl_data_schema *s,
                                         charl_data_schema **out) CHARL_MUST_CHECK;

/** Whether the configuration requests other numbers than those of `s`. */
bool charl__task_normalizes_otherwise(const charl_config *config, const charl_data_schema *s);

#endif
