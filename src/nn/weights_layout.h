#ifndef CHARL_NN_WEIGHTS_LAYOUT_H
#define CHARL_NN_WEIGHTS_LAYOUT_H
/** Layouts of weights: how other programs name and lay out the weights of charl's models.
 *
 *  The rows are in layout_*.c. Code that reads or writes such a file uses them through the functions below.
 */
#include "charl/weights_layout.h"

enum { CHARL__LAYOUT_NAME = 256 }; /* bytes of a name with its NUL */

/** Row i = 0, 1, ...; NULL past the last. */
const charl_weights_layout *charl__layout_at(int i);

/** The rule for charl's weight `name`, with the number of its block in *block (-1: none); NULL: there is none. */
const charl_weights_rule *charl__layout_rule(const charl_weights_layout *layout, const char *name, int64_t *block);

/** Write `pattern` into text[CHARL__LAYOUT_NAME] with # replaced by `block`. False: it does not fit. */
bool charl__layout_expand(const char *pattern, int64_t block, char *text);

/** Parts of a rule, at least 1. */
int charl__layout_parts(const charl_weights_rule *rule);

/** Shape in the file of part `part` of a weight that has `shape` in charl. Of a weight without rows, parts are equal. */
charl_shape charl__layout_part_shape(const charl_weights_rule *rule, const void *settings, const charl_shape *shape,
                                     int part);

/** `name` without the layout's prefix. */
const char *charl__layout_strip(const charl_weights_layout *layout, const char *name);

/** All of them, charl__layout_NAME in a file of this folder, and NULL. Made by CMake. The first one that recognizes a file is taken. */
extern const void *const charl__layouts[];

#endif
