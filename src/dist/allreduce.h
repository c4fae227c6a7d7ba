#ifndef CHARL_DIST_ALLREDUCE_H
#define CHARL_DIST_ALLREDUCE_H
/** What an all-reduce algorithm is: one row of the table in allreduce.c. */
#include "dist/comm_private.h"

enum { CHARL__RANGES = 64 }; /* ranges on their way */

typedef struct charl__range {
    int64_t offset, count;
} charl__range;

typedef struct charl__algorithm {
    const char *name;
    bool is_invariant;
    /* NULL, or why it does not work on this communicator. */
    const char *(*unavailable)(const charl_comm *c);
    /* Allocate lanes, sum and ar->own; collective and agreed. */
    charl_status (*create)(charl_allreduce *ar);
    void (*destroy)(charl_allreduce *ar);
    void (*begin)(charl_allreduce *ar,
                  int64_t ticket); /* ar->range[ticket % RANGES] is new; may be NULL */
    charl_status (*progress)(charl_allreduce *ar); /* advance ar->completed without waiting */
    bool (*late)(const void *ar, int rank); /* whether ar->completed waits for rank; may be NULL */
} charl__algorithm;

struct charl_allreduce {
    const charl__algorithm *algorithm;
    charl_comm *c;
    charl__lane_map map;
    charl__window window; /* everything, or only the sum and lanes of this rank */
    int my_lanes;
    int64_t n, stride;
    float *lanes, *sum;
    int64_t begun, completed;
    charl__range range[CHARL__RANGES];
    float *scratch; /* for charl__tree_apply */
    void *own;
};

extern const charl__algorithm charl__allreduce_window;
extern const charl__algorithm charl__allreduce_tree;
extern const charl__algorithm charl__allreduce_mpi;

/** Part r of `size` of a range, in whole cache lines: [*from, *to) relative to the range's offset.
 */
void charl__range_part(int64_t count, int r, int size, int64_t *from, int64_t *to);

#endif
