#ifndef CHARL_IO_DATASET_LABELS_H
#define CHARL_IO_DATASET_LABELS_H
/** Determines the classes of a column of integer labels: the only place that decides it, for all formats.
 *
 *      charl__labels l = {0};
 *      for each label charl__labels_add(&l, label);
 *      charl__labels_decide(&l);
 *
 *  If labels from 0 or 1 on are mostly present, they are the numbers of their classes. Others, such as 2010, 2011 and 2012 or 3, 50 and 700, are
 *  names: numbered in ascending order, they are classes with these names. */
#include "base/error.h"
#include "base/text/text.h"

enum {
    CHARL__LABELS_FEW = 1 << 16, /* labels below this are counted at no cost; of others */
    CHARL__LABELS_MOST = 4096    /* at most this many different ones, otherwise `overflows` is set */
};

/** More different values than this are not classes but measurements. */
enum { CHARL__MOST_NUMERIC_CLASSES = 100 };

typedef struct charl__labels {
    int64_t n;                                /* different labels */
    int64_t most;                             /* the largest plus one */
    bool are_names;                           /* as decided */
    int64_t *value;                           /* [n] ascending, once decided; before that those from FEW on */
    int64_t n_large;                          /* of them */
    bool overflows;                           /* there are more than n */
    unsigned char few[CHARL__LABELS_FEW / 8]; /* bit v: the label v occurs */
} charl__labels;

/** Add a label >= 0. Errors: ERR_NOMEM. */
charl_status charl__labels_add(charl__labels *l, int64_t label) CHARL_MUST_CHECK;
/** Set are_names and value. Errors: ERR_NOMEM. */
charl_status charl__labels_decide(charl__labels *l) CHARL_MUST_CHECK;
/** Reject names of more classes than allowed: they are measurements. `path` and the array `name` are for the message. Errors: ERR_DATA. */
charl_status charl__labels_check(const charl__labels *l, const char *path, const char *name) CHARL_MUST_CHECK;
/** Index of a label among the values, or -1. */
int64_t charl__labels_find(const charl__labels *l, int64_t label);
/** Append the values as a list of names. Errors: ERR_NOMEM. */
charl_status charl__labels_list(const charl__labels *l, charl__text *out) CHARL_MUST_CHECK;
void charl__labels_fini(charl__labels *l);

/** The class that a label means as a number: decimal digits without a sign or leading zeros, below `end`. -1: it is a name, such as 01, which
 *  must not become the class 1. */
int32_t charl__parse_class(const char *label, int32_t end);

#endif
