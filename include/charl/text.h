#ifndef CHARL_TEXT_H
#define CHARL_TEXT_H
/** Text that a program prints or reads: names from files made safe for a terminal, and the word that a user meant. */
#include <stdbool.h>
#include <stddef.h>

#include "charl/api.h"

CHARL_BEGIN_DECLS

/** Bytes of the UTF-8 character at s, of which `bytes` > 0 bytes are there. *visible: whether a terminal shows it and
 *  does nothing else with it; false for control characters, those that change the direction of text, and bytes that are
 *  not UTF-8, each of which is one character. A name in a data file or checkpoint can hold anything:
 *
 *      for (size_t i = 0, n; i < length; i += n) {
 *          n = charl_text_next(name + i, length - i, &visible);
 *          fwrite(visible ? name + i : "?", 1, visible ? n : 1, stdout);
 *      }
 *
 *  Local. Thread-safe. */
size_t charl_text_next(const char *s, size_t bytes, bool *visible);

/** Whether `candidate` is near enough to `name`, which a user has written, to be suggested instead, and nearer than
 *  *best; updates *best. Start with INT_MAX. Nearest is what means the same: but for case and separators (Adam,
 *  batch-norm), or in another program's words (fp16, swish, val/acc). Else near is within a third of its length, or 2
 *  for short names but less than half of them, in insertions, deletions, replacements and swaps of neighbours; names
 *  longer than 63 characters are near to none. Local. Thread-safe. */
bool charl_text_closer(const char *name, const char *candidate, int *best);

CHARL_END_DECLS

#endif
