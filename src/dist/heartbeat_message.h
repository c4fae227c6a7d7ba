#ifndef CHARL_DIST_LINK_REPORT_H
#define CHARL_DIST_LINK_REPORT_H
/** What a node tells the others of its ranks, and where they keep it. */
#include "dist/comm_private.h"

/* What is said of a rank. */
typedef struct charl__word {
    int64_t marks, step, entered;
    uint64_t phase[CHARL__PHASE_WORDS];
    int32_t state; /* letter of /proc; X: gone; 0: unknown */
    uint32_t is_leaving : 1, is_waiting : 1;
} charl__word;

/* Travels as bytes, without the words of more ranks than the sender's node has. */
typedef struct charl__report {
    uint32_t magic;
    int32_t ranks;
    int32_t has_spoken; /* a rank of the node has written its last message */
    int32_t is_goodbye; /* the last report */
    charl__word rank[CHARL_MAX_SLICES];
} charl__report;

/** Ranks of a node, and the first of them. Local. */
int charl__node_size(const charl_comm *c, int node);
int charl__first_rank(const charl_comm *c, int node);

/** Bytes of a report of so many ranks. */
size_t charl__report_bytes(int ranks);

/** Of this node. Local. */
void charl__report_make(const charl_comm *c, bool goodbye, charl__report *out);

/** Write what node m says to the page of this node. False, and nothing, when it is no report.
 * Local.
 */
bool charl__report_read(const charl_comm *c, int m, const charl__report *r);

#endif
