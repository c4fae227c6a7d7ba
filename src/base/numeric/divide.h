#ifndef CHARL_BASE_NUMERIC_DIVIDE_H
#define CHARL_BASE_NUMERIC_DIVIDE_H
#include <stdint.h>

/** a / b rounded up, for a >= 0 and b > 0. */
static inline int64_t charl__ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

#endif
