#ifndef CHARL_IO_DATASET_NAME_SET_H
#define CHARL_IO_DATASET_NAME_SET_H
/** Distinct texts, each stored once and numbered in order of insertion. Start from {0}. */
#include "base/error.h"
#include "base/text/text.h"
#include "io/dataset/word_map.h"

typedef struct charl__name_set {
    int64_t n;
    char **names;         /* [n] */
    charl__pieces pieces; /* index of the names */
} charl__name_set;

/** Number of `name`, which is added if it is new. Errors: ERR_NOMEM. */
charl_status charl__name_set_add(charl__name_set *s, const char *name, int64_t *index) CHARL_MUST_CHECK;

/** order[i] = number of the i-th name in byte order (strcmp); new, charl_free. Errors: ERR_NOMEM. */
charl_status charl__name_set_sort(const charl__name_set *s, int64_t **order) CHARL_MUST_CHECK;

/** Number of `name`, or -1. */
int64_t charl__name_set_find(const charl__name_set *s, const char *name);

void charl__name_set_fini(charl__name_set *s);

#endif
