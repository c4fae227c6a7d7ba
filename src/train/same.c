/* Trainings that are not run: what they would record, and how long two of them are the same. */
#include <string.h>

#include "base/alloc.h"
#include "charl/train.h"
#include "config/config_rows.h"
#include "config/text/interval.h"
#include "io/scoped.h"
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

/* Whether all lines of charl_config_diff are of keys that act by the learning rate of each step and the number of steps alone. */
static bool differ_in_rates(const char *changes)
{
    static const char *const keys[] = {"[scheduler] ", "[train] epochs ", "[train] max_steps "};

    while (*changes) {
        bool is_one = false;

        for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
            is_one = is_one || strncmp(changes, keys[i], strlen(keys[i])) == 0;
        }
        if (!is_one) {
            return false;
        }
        changes += strcspn(changes, "\n");
        changes += *changes == '\n';
    }
    return true;
}

charl_status charl_train_common_steps(const charl_config *a, const charl_config *b, int64_t *out)
{
    CHARL_GIVEN(a, b, out);
    CHARL_SCOPED(charl__dataset_left) charl_dataset *ds = NULL;
    CHARL_SCOPED_FREE char *text = NULL, *changes = NULL;
    CHARL_SCOPED_FREE charl_config *in_steps_a = NULL, *in_steps_b = NULL;
    charl_schedule of_a, of_b;
    charl_dataset_info data;
    int64_t steps_a, steps_b;

    *out = 0;
    CHARL_TRY(charl_config_print(b, false, &text));
    CHARL_TRY(charl_config_diff(a, text, &changes));
    if (!differ_in_rates(changes) || a->eval.interval.unit == CHARL__INTERVAL_SECONDS ||
        a->train.early_stopping_patience > 0) {
        return CHARL_OK;
    }
    CHARL_TRY(charl_config_open_dataset(a, false, &ds));
    charl_dataset_get_info(ds, &data);
    CHARL_TRY(charl__config_in_steps(a, &data, &in_steps_a));
    CHARL_TRY(charl__config_in_steps(b, &data, &in_steps_b));
    a = in_steps_a ? in_steps_a : a;
    b = in_steps_b ? in_steps_b : b;
    steps_a = charl__config_steps(a, data.rows[CHARL_SPLIT_TRAIN]);
    steps_b = charl__config_steps(b, data.rows[CHARL_SPLIT_TRAIN]);
    of_a = charl__config_schedule(a, steps_a);
    of_b = charl__config_schedule(b, steps_b);
    /* the last step of either is followed by an evaluation that the other may not have */
    while (*out + 1 < steps_a && *out + 1 < steps_b &&
           (float)charl_schedule_lr(&of_a, *out) == (float)charl_schedule_lr(&of_b, *out)) {
        (*out)++;
    }
    return CHARL_OK;
}
