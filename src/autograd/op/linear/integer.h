#ifndef CHARL_AUTOGRAD_OP_LINEAR_INTEGER_H
#define CHARL_AUTOGRAD_OP_LINEAR_INTEGER_H
/** Products of integers as op/linear/integer.c defines them, for references of operators. digits: 4 of f32, 2 of half types. */
#include <stdint.h>

enum { CHARL__MOST_DIGITS = 4 };

/** The largest magnitude of numbers whose largest so far is that, 0 at first, and of x: infinite if one is not finite. */
double charl__integer_largest(double largest, double x);
/** The scale of a row with that largest magnitude. */
int charl__integer_scale(double largest, int digits);
/** Add the products of the digits of a and b, from rows with scales s and t, to their groups c; nothing if a row has a number that is not finite. */
void charl__integer_add(double a, int s, double b, int t, int digits, int64_t c[CHARL__MOST_DIGITS]);
/** The sum of products of these groups, rounded to f32; NaN if a row has a number that is not finite. */
double charl__integer_sum(const int64_t c[CHARL__MOST_DIGITS], int s, int t, int digits);

#endif
