#ifndef CHARL_TEXT_H
#define CHARL_TEXT_H
/** Text that a program prints or reads: names from files made safe for a terminal, and the word that a user meant. */
#include <stdbool.h>
#include <stddef.h>

#include "charl/api.h"

CHARL_BEGIN_DECLS

/** Length in bytes of the UTF-8 character at s, where `bytes` > 0 bytes are available. *visible is false for control
 *  characters, characters that change the direction of text, and invalid bytes, each of which counts as a character:
 *  do not print these to a terminal. A name in a data file or checkpoint can contain any bytes:
 *
 *      for (size_t i = 0, n; i < length; i += n) {
 *          n = charl_text_next(name + i, length - i, &visible);
 *          fwrite(visible ? name + i : "?", 1, visible ? n : 1, stdout);
 *      }
 *
 *  Local. Thread-safe. */
size_t charl_text_next(const char *s, size_t bytes, bool *visible);

/** Whether `candidate` should be suggested for `name`, which a user has misspelled, rather than earlier candidates.
 *  Initialize *best with INT_MAX; the function updates it. Names that differ only in case and separators (Adam,
 *  batch-norm), or are another program's names for the same thing (fp16, swish, val/acc), are the best suggestions.
 *  Otherwise the edit distance (insertions, deletions, replacements, swaps of neighbours) must be at most a third of
 *  the length, or for short names at most 2 and less than half of the length. Names longer than 63 characters get no
 *  suggestion. Local. Thread-safe. */
bool charl_text_closer(const char *name, const char *candidate, int *best);

CHARL_END_DECLS

#endif
