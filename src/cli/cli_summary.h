#ifndef CHARL_CLI_CLI_SUMMARY_H
#define CHARL_CLI_CLI_SUMMARY_H
/** The layers of a model as a table. */
#include <charl/summary.h>

/** "[16, 28, 28]" without brackets, as 16x28x28, into text; "1" for a scalar. Returns text. */
const char *charl__cli_extents(const charl_shape *s, char *text, size_t size);

/** One line per layer on standard output, then the sums. */
void charl__cli_print_summary(const charl_summary *s);

#endif
