#ifndef CHARL_TRAIN_VERIFY_SETTINGS_H
#define CHARL_TRAIN_VERIFY_SETTINGS_H
/** config.ini of a run directory beside what the newest checkpoint was trained with. */
#include "charl/status.h"

/** Call `told` (may be NULL) with a sentence that names the settings of RUN/config.ini that differ and change the result; not where they agree
 *  or cannot be compared. Errors: ERR_NOMEM. */
charl_status charl__verify_settings(const char *run, void (*told)(void *ctx, const char *text),
                                    void *ctx) CHARL_MUST_CHECK;

#endif
