#ifndef CHARL_AUTOGRAD_CUSTOM_H
#define CHARL_AUTOGRAD_CUSTOM_H
/** Operators that programs have registered (charl/operator.h). */
#include "autograd/op.h"

/** The registered operator called `name`, or NULL. Thread-safe. */
const charl__op *charl__custom_find(const char *name);

#endif
