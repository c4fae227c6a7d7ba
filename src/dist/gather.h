#ifndef CHARL_DIST_GATHER_H
#define CHARL_DIST_GATHER_H
/** An all-gather of parts of any length that is in flight while its ranks do something else. It has a group of its own, so other collectives may begin and end
 *  meanwhile.
 */
#include "charl/comm.h"

typedef struct charl__gather charl__gather;

/** Owned by the caller; destroy it before c. Blocks. Collective on c; agreed. Errors: ERR_NOMEM, ERR_COMM. */
charl_status charl__gather_create(charl_comm *c, charl__gather **out) CHARL_MUST_CHECK;

/** Begin to send this rank's part, and to receive the others': part r is count[r] units of two bytes at all + 2 * place[r]. Memory and arrays are
 *  borrowed until the wait; only one is in flight. Async. Collective on c, but waits for no other rank. Errors: ERR_COMM. */
charl_status charl__gather_begin(charl__gather *g, void *all, const int *count, const int *place) CHARL_MUST_CHECK;

/** Wait until all parts are there; no-op if nothing is in flight. Blocks. Collective on c. Errors: ERR_COMM. */
charl_status charl__gather_wait(charl__gather *g) CHARL_MUST_CHECK;

/** NULL is a no-op. Returns whether memory is still in use, because a gather in flight has failed or was never waited for: it must
 *  not be freed. Collective on c, except when that is broken. */
bool charl__gather_destroy(charl__gather *g);

#endif
