#ifndef CHARL_DIST_ALLREDUCE_PARTS_H
#define CHARL_DIST_ALLREDUCE_PARTS_H
/** An all-reduce by parts: for optimizers that are sharded. */
#include "charl/comm.h"

/** Lane j of this rank: n elements of reduce_dtype at lanes + j * stride elements. Lanes and
 *  sum are aligned to 4096 bytes and padded to a multiple of that, so that a device can use them in
 *  place. NULL if they are device memory that the host cannot reach. Borrowed. Local. */
void *charl__allreduce_lanes(const charl_allreduce *ar);
int64_t charl__allreduce_stride(const charl_allreduce *ar);

/** The completed sums, n elements of reduce_dtype, shared by the ranks of the node: read only. With the option `scatters`
 *  the first lane, in which the parts that this rank owns are sums. Borrowed. Local. */
void *charl__allreduce_sum(const charl_allreduce *ar);

/** Part r of `size` of a range, in whole blocks of CHARL__PART values, which an optimizer
 *  cannot divide: [*from, *to) relative to the range's offset. Local. */
enum { CHARL__PART = 64 };
void charl__range_part(int64_t count, int r, int size, int64_t *from, int64_t *to);

/** Whole tensors assigned to the ranks that divide a range: the values from cut[k].at on, up to cut[k + 1].at, belong to one. Ascending, from 0 on. */
typedef struct charl__owners_cut {
    int64_t at;
    int owner;
} charl__owners_cut;
typedef struct charl__owners {
    charl__owners_cut *cut;
    int n; /* 0: nothing is assigned, and every range is divided */
} charl__owners;
/** The owner of a value; -1: none. Local. */
int charl__owners_find(const charl__owners *owners, int64_t at);

/** The number of parts in which ranges are divided, one of each rank, or of each rank of a node; *mine: this rank's, from 0. Local. */
int charl__allreduce_parts(const charl_allreduce *ar, int *mine);
/** A part of a range: [*from, *to), relative to the range. Without owners, whole blocks of 64 values; with one, all of
 *  the range or nothing. Local. */
void charl__allreduce_part(const charl_allreduce *ar, int64_t offset, int64_t count, int part, int64_t *from,
                           int64_t *to);
/** The values of a range up to the next change of owner: ranges that are gathered or scattered cross none. Local. */
int64_t charl__allreduce_uncut(const charl_allreduce *ar, int64_t offset, int64_t count);

/** charl_comm_allgather among the ranks of a node: all[l * bytes ...] is of local rank l. */
charl_status charl__comm_allgather_node(charl_comm *c, const void *mine, size_t bytes, void *all) CHARL_MUST_CHECK;

/** n floats in which the ranks exchange their parts of ranges, aligned and padded like the
 *  sum; NULL without the option `gathers`. Ranks of a node may share it. Borrowed. Local. */
float *charl__allreduce_gathered(const charl_allreduce *ar);

/** This rank's part of the range has been written to the gathered memory; once the range is complete, all
 *  parts are there. Tickets, order and limits as for charl_allreduce_begin. A rank may write its
 *  part when it knows that no rank still reads the previous one: it has since waited for something
 *  that each of them began after reading. Async. Collective on c, but waits for no other rank.
 *  Errors: ERR_INVALID, ERR_COMM. Cost: shm copies nothing; hierarchical sends 4*count bytes to
 *  every node, p2p and mpi to every rank. */
charl_status charl__allreduce_gather(charl_allreduce *ar, int64_t offset, int64_t count,
                                     int64_t *ticket) CHARL_MUST_CHECK;

/** Make progress without waiting. Ranges with ticket < *completed are complete. Async. Local.
 *  Errors: ERR_COMM. */
charl_status charl__allreduce_progress(charl_allreduce *ar, int64_t *completed) CHARL_MUST_CHECK;
#endif
