#ifndef CHARL_DIST_LIVENESS_HEARTBEAT_MESSAGE_H
#define CHARL_DIST_LIVENESS_HEARTBEAT_MESSAGE_H
/** The heartbeat message: the status of the ranks of a node. */
#include "dist/comm_private.h"

/* Status of a rank. */
typedef struct charl__rank_status {
    int64_t marks, step, entered;
    uint64_t phase[CHARL__PHASE_WORDS];
    int32_t state; /* letter of /proc; X: gone; 0: unknown */
    uint32_t is_leaving : 1, is_waiting : 1;
} charl__rank_status;

/* Sent as bytes, up to the last rank of the sender's node. */
typedef struct charl__heartbeat_message {
    uint32_t magic;
    int32_t ranks;
    int32_t has_reported; /* a rank of the node has printed the error that ends the job */
    int32_t is_last;      /* the sender shuts down */
    int64_t pulse;        /* charl__board's */
    charl__rank_status rank[];
} charl__heartbeat_message;

/** Ranks of a node, and the first of them. Local. */
int charl__node_size(const charl_comm *c, int node);
int charl__first_rank(const charl_comm *c, int node);

/** Size of a message with this number of ranks. */
size_t charl__heartbeat_message_bytes(int ranks);

/** The message of this node, of charl__heartbeat_message_bytes(local_size). Local. */
void charl__heartbeat_message_make(const charl_comm *c, bool is_last, charl__heartbeat_message *out);

/** Write the message of node m to the page of this node. False, and nothing written, if it is
 *  malformed. Local. */
bool charl__heartbeat_message_read(const charl_comm *c, int m, const charl__heartbeat_message *r);

#endif
