#ifndef CHARL_BENCH_BASELINE_PRIVATE_H
#define CHARL_BENCH_BASELINE_PRIVATE_H
/** A library with an all-reduce: a row of the table in baseline_allreduce.c. */
#include <charl/comm.h>

#include "bench/baseline_allreduce.h"

typedef struct charl__baseline_kind {
    const char *name;
    /* Whether this rank can use it; if not, `why`. Local. */
    bool (*load)(charl__baseline *r, char *why);
    /* Allocate r->own; r->n is set. Collective on r->c. */
    charl_status (*create)(charl__baseline *r);
    void (*destroy)(charl__baseline *r);
    charl_status (*write)(charl__baseline *r, const float *v, int64_t count);
    charl_status (*read)(charl__baseline *r, float *v, int64_t count);
    charl_status (*sum)(charl__baseline *r, int64_t count);
    charl_status (*wait)(charl__baseline *r); /* for sums begun; NULL: they are complete */
} charl__baseline_kind;

struct charl__baseline {
    const charl__baseline_kind *kind;
    charl_comm *c;
    int64_t n;
    void *own;
};

extern const charl__baseline_kind charl__baseline_nccl;

#endif
