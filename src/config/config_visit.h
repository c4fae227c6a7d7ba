#ifndef CHARL_CONFIG_CONFIG_VISIT_H
#define CHARL_CONFIG_CONFIG_VISIT_H
/** The values of a configuration, one by one. */
#include "config/values.h"

/** Receives one value as text; section is "layer NAME" for a layer. Borrowed for the call. */
typedef charl_status (*charl__config_visitor)(void *ctx, const char *section, const char *key, const char *value);

/** Call `visit` for every key that affects the result of a run, then for every key of a layer. Errors: ERR_NOMEM; errors of visit. */
charl_status charl__config_visit(const charl_config *cfg, charl__config_visitor visit, void *ctx) CHARL_MUST_CHECK;

#endif
