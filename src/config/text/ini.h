#ifndef CHARL_CONFIG_TEXT_INI_H
#define CHARL_CONFIG_TEXT_INI_H
/** Reading INI text with line numbers.
 *
 *  `#` and `;` begin a comment at the start of a line or value or after a blank, except inside double quotes. A value in double quotes
 *  keeps its blanks; \" and \\ are escapes there. An indented line continues the value above, which may begin there; the parts
 *  are joined by '\n'. Reading continues after mistakes.
 */
#include <stddef.h>

#include "charl/status.h"

enum { CHARL__INI_LINE = 8000, CHARL__INI_NAME = 40 };

/** Called in the order of the lines; any status but OK ends the reading with it. Strings are
 *  borrowed for the call. Section NULL: its line is a mistake, which has been reported; the keys
 *  below it belong to no known section. */
typedef struct charl__ini_events {
    void *ctx;
    charl_status (*section)(void *ctx, const char *section, int line);
    charl_status (*item)(void *ctx, const char *key, const char *value, int line);
    charl_status (*mistake)(void *ctx, int line, const char *reason);
} charl__ini_events;

/** Errors: ERR_NOMEM, ERR_CONFIG (not a text), or the error of an event. */
charl_status charl__ini_parse(const char *text, size_t length, const charl__ini_events *events) CHARL_MUST_CHECK;

#endif
