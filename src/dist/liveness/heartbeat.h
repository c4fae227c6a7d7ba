#ifndef CHARL_DIST_LIVENESS_HEARTBEAT_H
#define CHARL_DIST_LIVENESS_HEARTBEAT_H
/** Heartbeats between nodes, over connections between their first ranks. On other ranks, and if all
 *  ranks are on one node, there is nothing to do and c->heartbeat is NULL. */
#include "charl/comm.h"

/** Listen, and exchange addresses; a node that cannot be reached later causes a warning.
 *  Collective on c; agreed. Errors: ERR_NOMEM, ERR_COMM. */
charl_status charl__heartbeat_create(charl_comm *c) CHARL_MUST_CHECK;
void charl__heartbeat_destroy(charl_comm *c);

/** Whether nodes a and b are connected: up to CHARL__MESH nodes all are, more where one is a power of two behind the other in the ring of
 *  nodes. Local. */
bool charl__heartbeat_is_linked(const charl_comm *c, int a, int b);

/** Address of node m, known on the first rank of a node. Borrowed. For tests. */
const struct charl__node_address *charl__heartbeat_address(const charl_comm *c, int m);

/** Wait until then, or until the descriptor `wake` is readable; meanwhile connect, and write received
 *  heartbeats to this node's page. Called by the watchdog thread. */
void charl__heartbeat_poll(charl_comm *c, int wake, double until_s);

/** Send the status of this node's ranks to the other nodes. is_last: the sender shuts down, and the
 *  end of the connection has no meaning. Thread-safe. */
void charl__heartbeat_send(charl_comm *c, bool is_last);

#endif
