#ifndef CHARL_IO_DATASET_TEXT_LABELS_H
#define CHARL_IO_DATASET_TEXT_LABELS_H
/** Determines the classes of a column of text labels, such as a column of a CSV file or the names of folders. labels.h is for integers.
 *
 *      charl__text_labels l = {.may_be_ids = true};
 *      for each row charl__text_labels_add(&l, text);
 *      charl__text_labels_decide(&l, &names);        l.label holds the classes now
 *
 *  Labels are numbered in byte order. If they may be the numbers of their classes and all of them look like it (labels.h), they
 *  are. */
#include "io/dataset/name_set.h"

enum { CHARL__MOST_CLASSES = 100000 };

typedef struct charl__text_labels {
    bool may_be_ids;
    bool are_ids;   /* as decided: every label is the number of its class */
    int32_t *label; /* [n] numbers in `set`; once decided, classes */
    int64_t n;
    charl__name_set set; /* different labels */
    int32_t *class_of;   /* [set.n] once decided */
} charl__text_labels;

/** Add the label of the next row. Errors: ERR_DATA for a text that cannot be the name of a class, and for more different ones than
 *  CHARL__MOST_CLASSES: the caller puts the location before the message (charl__error_prefix); ERR_NOMEM. */
charl_status charl__text_labels_add(charl__text_labels *l, const char *text) CHARL_MUST_CHECK;
/** Number the classes. Appends their names as lines to `names`, nothing if they have none. Errors: ERR_NOMEM. */
charl_status charl__text_labels_decide(charl__text_labels *l, charl__text *names) CHARL_MUST_CHECK;
/** The class of a label, or -1. Once decided. */
int32_t charl__text_labels_find(const charl__text_labels *l, const char *text);
void charl__text_labels_fini(charl__text_labels *l);

#endif
