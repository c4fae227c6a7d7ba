/* Slices by speed. Giving one slice after another to the rank that would finish it first is
 * optimal: the rank with the longest time took its last slice when every other rank would
 * have taken longer with one more, so no division without that slice is better. */
#include "parallel/apportion.h"

#include <stdbool.h>
#include <string.h>

#include "base/error.h"
#include "base/numeric/tree.h"

static const double TOLERANCE = 1.05;

double charl__apportion_time(int size, const double *cost, const int *count)
{
    double longest = 0.0;

    for (int r = 0; r < size; r++) {
        const double time = count[r] * cost[r];

        longest = time > longest ? time : longest;
    }
    return longest;
}

/* Whole units of slices; false if the minimum of all ranks exceeds the total, or the maximum is less. */
static bool divide(int total, int unit, int least, int most, int size, const double *cost, int *count)
{
    const int first = (least + unit - 1) / unit * unit;

    if (first > most) {
        return false;
    }
    for (int r = 0; r < size; r++) {
        count[r] = first;
    }
    for (int left = total - first * size; left != 0; left -= unit) {
        int next = -1;

        for (int r = 0; r < size && left > 0; r++) {
            if (count[r] + unit <= most &&
                (next < 0 || (count[r] + unit) * cost[r] < (count[next] + unit) * cost[next])) {
                next = r;
            }
        }
        if (next < 0) {
            return false;
        }
        count[next] += unit;
    }
    return true;
}

void charl__apportion(int total, int least, int most, int size, const double *cost, int *count)
{
    int coarse[CHARL_MAX_SLICES];
    const bool fits = divide(total, 1, least, most, size, cost, count);
    double limit;

    CHARL_INVARIANT(fits);
    limit = TOLERANCE * charl__apportion_time(size, cost, count);
    for (int unit = 2; total % unit == 0; unit *= 2) {
        if (divide(total, unit, least, most, size, cost, coarse) &&
            charl__apportion_time(size, cost, coarse) <= limit) {
            memcpy(count, coarse, (size_t)size * sizeof *count);
        }
    }
}
