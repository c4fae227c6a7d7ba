/* The flags by which a node's ranks synchronize on the ranges of an all-reduce. */
#include "dist/allreduce/allreduce.h"

void charl__flags_begin(const charl_allreduce *ar, charl__flags *flags, int64_t ticket)
{
    charl__flags *mine = &flags[ar->c->local_rank];

    mine->range[ticket % CHARL__RANGES] = ar->range[ticket % CHARL__RANGES];
    atomic_store_explicit(&mine->ready, ticket + 1, memory_order_release);
}

int64_t charl__flags_ready(const charl_allreduce *ar, const charl__flags *flags)
{
    int64_t least = INT64_MAX;

    for (int l = 0; l < ar->c->local_size; l++) {
        const int64_t v = atomic_load_explicit(&flags[l].ready, memory_order_acquire);

        least = v < least ? v : least;
    }
    return least;
}

int64_t charl__flags_done(const charl_allreduce *ar, const charl__flags *flags)
{
    int64_t least = INT64_MAX;

    for (int l = 0; l < ar->c->local_size; l++) {
        const int64_t v = atomic_load_explicit(&flags[l].done, memory_order_acquire);

        least = v < least ? v : least;
    }
    return least;
}

charl_status charl__flags_compare(const charl_allreduce *ar, const charl__flags *flags, int64_t ticket)
{
    charl_status st = CHARL_OK;
    const charl__range range = ar->range[ticket % CHARL__RANGES];

    for (int l = 0; l < ar->c->local_size; l++) {
        const charl__range *theirs = &flags[l].range[ticket % CHARL__RANGES];

        CHARL_REQUIRE_CLEANUP(
            theirs->offset == range.offset && theirs->count == range.count && theirs->gathers == range.gathers,
            CHARL_ERR_COMM, "range %lld of the all-reduce: rank %d has values %lld+%lld, rank %d has %lld+%lld",
            (long long)ticket, ar->c->rank, (long long)range.offset, (long long)range.count,
            charl__comm_local_peer(ar->c, l), (long long)theirs->offset, (long long)theirs->count);
    }
cleanup:
    ar->c->is_broken = ar->c->is_broken || st != CHARL_OK;
    return st;
}

bool charl__flags_late(const charl_allreduce *ar, const charl__flags *flags, int rank)
{
    const charl__flags *theirs = &flags[ar->c->peer[rank].local_rank];

    if (charl__flags_ready(ar, flags) <= ar->completed) {
        return atomic_load(&theirs->ready) <= ar->completed;
    }
    return atomic_load(&theirs->done) <= ar->completed;
}
