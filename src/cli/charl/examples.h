#ifndef CHARL_CLI_CHARL_EXAMPLES_H
#define CHARL_CLI_CHARL_EXAMPLES_H
/** The configurations of launch/ that `charl init` starts from. */
extern const char *const charl__example_photos; /* images with a class each */
extern const char *const charl__example_table;  /* samples and targets of other shapes */
extern const char *const charl__example_text;   /* tokens */

#endif
