/* Trainings that are not run: what they would record, and how long two of them are the same. */
#include <string.h>

#include "charl/train.h"
#include "task/session.h"
#include "train/replay.h"

charl_status charl_train_print_config(const charl_config *config, char **out)
{
    CHARL_GIVEN(config, out);
    charl__session s = {.config = config};
    charl_status st = charl__replay_open_data(&s);

    *out = NULL;
    st = st == CHARL_OK ? charl_config_print(s.config, false, out) : st;
    charl__session_fini(&s);
    return st;
}
