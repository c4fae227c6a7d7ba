#ifndef CHARL_BENCH_BASELINE_PRIVATE_H
#define CHARL_BENCH_BASELINE_PRIVATE_H
/** One row of the table in rival.c per library. */
#include "dist/comm_private.h"
#include "bench/baseline_allreduce.h"

typedef struct charl__rival_kind {
    const char *name;
    /* What it needs is here, on this rank; else `why`. Local. */
    bool (*load)(charl__rival *r, char *why);
    /* Allocate r->own; r->n is set. Collective on r->c. */
    charl_status (*create)(charl__rival *r);
    void (*destroy)(charl__rival *r);
    charl_status (*write)(charl__rival *r, const float *v, int64_t count);
    charl_status (*read)(charl__rival *r, float *v, int64_t count);
    charl_status (*sum)(charl__rival *r, int64_t count);
    charl_status (*wait)(charl__rival *r); /* for sums begun; NULL: they are complete */
} charl__rival_kind;

struct charl__rival {
    const charl__rival_kind *kind;
    charl_comm *c;
    int64_t n;
    void *own;
};

extern const charl__rival_kind charl__rival_nccl;

#endif
