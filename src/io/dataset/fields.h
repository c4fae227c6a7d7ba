#ifndef CHARL_IO_DATASET_FIELDS_H
#define CHARL_IO_DATASET_FIELDS_H
/** Several named arrays as inputs and targets. Their elements stand side by side in a row of f32, so that whatever reads, caches and normalizes
 *  rows need not know of them; a model takes its row apart (charl_model_set_inputs). */
#include "charl/dataset.h"

enum { CHARL__MAX_FIELDS = 8, CHARL__FIELD_NAME = 32, CHARL__FIELD_ARRAY = 256 }; /* inputs, and targets, at most */

typedef enum charl__field_kind {
    CHARL__FIELD_NUMBERS,
    CHARL__FIELD_TOKENS, /* inputs: numbers of tokens, not normalized; -1 after the end of a sequence */
    CHARL__FIELD_CLASSES /* targets: -1 and -100 do not count */
} charl__field_kind;
extern const char *const charl__field_kinds[]; /* as in NAME:/ARRAY:KIND */

/** An element of data.x or data.y: NAME:/ARRAY or NAME:/ARRAY:KIND; without NAME if the list is one array. NAME:[N] is N numbers, all 0, that a
 *  training or a program replaces. */
typedef struct charl__field_spec {
    char name[CHARL__FIELD_NAME]; /* "": none */
    char array[CHARL__FIELD_ARRAY];
    char kind[CHARL__FIELD_NAME]; /* "": not given */
    int64_t zeros;                /* numbers of NAME:[N], which no array holds; 0: an array */
} charl__field_spec;

typedef struct charl__field {
    char name[CHARL__FIELD_NAME];
    bool target;
    charl__field_kind kind;
    int64_t least;   /* stored value of tokens and classes */
    int64_t classes; /* the largest of them plus 1; 0 for numbers */
    charl_shape shape;
    int64_t first; /* element in the row of all inputs, or of all targets */
    int64_t count;
} charl__field;

/** The elements of data.x or data.y into out[CHARL__MAX_FIELDS]; returns their number, or -1 with the reason in why. One without a name is alone. */
int charl__field_specs(const char *list, charl__field_spec *out, char *why, size_t size);

/** The fields of a schema, charl_data_schema.fields or NULL, into out[2 * CHARL__MAX_FIELDS]: inputs, then targets. Returns their number, -1 if the text is
 *  malformed. */
int charl__fields_parse(const char *fields, charl__field *out);

#endif
