#ifndef CHARL_CONFIG_CONFIG_PLACE_H
#define CHARL_CONFIG_CONFIG_PLACE_H
/** Locations of values, for failures that only occur when a value is used. */
#include "config/values.h"

/** Put "train.ini:2: [data] path: ", or another location of the value, before the message of this thread's last failure. If a
 *  comment cut the value short, a hint says so, unless the message has one. */
void charl__config_blame(const charl_config *cfg, const char *section, const char *key);

/** The same for a message that begins with its key, as in "train.batch_size = 64 is more than ..." or "[train] freeze: ...": adds only the
 *  location, if the value has one. Other messages do not change. */
void charl__config_locate(const charl_config *cfg);

/** libcharl names an option of a struct: if the message of this thread's last failure begins with the name of a key of `section`, put
 *  the section before it, "scheduler.warmup_steps = 9 ...". Other messages do not change. Returns st. */
charl_status charl__config_name_option(charl_status st, const char *section);

#endif
