#ifndef CHARL_BASE_NUMERIC_EXACT_SUM_H
#define CHARL_BASE_NUMERIC_EXACT_SUM_H
/** Sums of doubles without rounding, so that neither their order nor their distribution over ranks affects the result.
 *
 *      int64_t sum[CHARL__EXACT_LIMBS] = {0};
 *      charl__exact_add(sum, 0.1);
 *      ... limbs of other ranks are added as integers ...
 *      v = charl__exact_value(sum);
 *
 *  A sum is a fixed-point number with 32 bits per limb that holds every finite double: limb i counts 2^(32 i - 1074). The upper half of a limb
 *  takes the carries of 2^31 additions, over all ranks together. The last limb counts values that were not finite. */
#include <stdint.h>

enum { CHARL__EXACT_LIMBS = 68 };

void charl__exact_add(int64_t sum[CHARL__EXACT_LIMBS], double v);

/** The sum, rounded once (to within one unit in the last place); NaN if a value was not finite. Equal limbs' totals give equal bits. */
double charl__exact_value(const int64_t sum[CHARL__EXACT_LIMBS]);

#endif
