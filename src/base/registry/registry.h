#ifndef CHARL_BASE_REGISTRY_REGISTRY_H
#define CHARL_BASE_REGISTRY_REGISTRY_H
/** Rows that users select by name: the built-in ones in their order, then those that a program has registered.
 *
 *  The first member of every row is a charl_row. Programs register rows at their start, until a configuration is read for the
 *  first time (charl__registry_close); afterwards any thread may read rows.
 */
#include "charl/key.h"

enum { CHARL__REGISTRY_ADDED = 32 };

typedef struct charl__registry {
    const char *what;            /* "optimizer", for messages */
    const void *const *built_in; /* ends with NULL */
    const void *added[CHARL__REGISTRY_ADDED];
    int n_added;
} charl__registry;

/** Row i = 0, 1, ...; NULL past the last. */
const void *charl__registry_at(const charl__registry *r, int i);

/** The row called `name`; NULL if there is none, or for a NULL name. */
const void *charl__registry_find(const charl__registry *r, const char *name);

/** Add a row, which is borrowed for the life of the process. Not thread-safe.
 *  Errors: ERR_INVALID  the name is taken or invalid, a key is malformed, a configuration has been read, or 32 rows were added before */
charl_status charl__registry_add(charl__registry *r, const charl_row *row) CHARL_MUST_CHECK;

/** Reject later registrations. */
void charl__registry_close(void);

#endif
