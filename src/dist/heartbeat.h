#ifndef CHARL_DIST_HEARTBEAT_H
#define CHARL_DIST_HEARTBEAT_H
/** What nodes tell each other of their ranks, over connections between their first ranks. On other
 * ranks, and where all ranks are on one node, there is nothing to do and c->links is NULL. */
#include "charl/comm.h"

/** Listen, and learn where the others listen; a node that cannot be reached is a warning, later.
 *  Collective on c; agreed. Errors: ERR_NOMEM, ERR_COMM. */
charl_status charl__links_create(charl_comm *c) CHARL_MUST_CHECK;
void charl__links_destroy(charl_comm *c);

/** Where node m listens, as known on the first rank of a node. Borrowed. For tests. */
const struct charl__link_place *charl__links_place(const charl_comm *c, int m);

/** Wait until then, or until the descriptor `wake` is readable; meanwhile connect, and write what
 *  other nodes say to this node's page. For the watching thread. */
void charl__links_turn(charl_comm *c, int wake, double until_s);

/** Tell the other nodes what this node's ranks show. With goodbye it is the last time: that the
 *  connection ends then means nothing. Thread-safe. */
void charl__links_tell(charl_comm *c, bool goodbye);

#endif
