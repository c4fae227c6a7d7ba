#ifndef CHARL_CONFIG_CONFIG_PLACE_H
#define CHARL_CONFIG_CONFIG_PLACE_H
/** Where a value stands, for failures that only its use brings to light. */
#include "config/values.h"

/** Put "train.ini:2: [data] path: ", or where else the value comes from, in front of the message of this thread's last failure. Where a
 *  comment cut the value, a hint says so, unless the message has one. */
void charl__config_blame(const charl_config *cfg, const char *section, const char *key);

/** The same for a message that begins with its key, as in "train.batch_size = 64 is more than ..." or "[train] freeze: ...": put only the
 *  place in front, if the value has one. Other messages stay as they are. */
void charl__config_locate(const charl_config *cfg);

/** libcharl names an option of a struct: if the message of this thread's last failure begins with the name of a key of `section`, put
 *  the section in front, "scheduler.warmup_steps = 9 ...". Other messages stay as they are. Returns st. */
charl_status charl__config_name_option(charl_status st, const char *section);

#endif
