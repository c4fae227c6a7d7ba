#ifndef CHARL_DIST_CONSENSUS_H
#define CHARL_DIST_CONSENSUS_H
/** Facts that must be equal on all ranks, compared in one collective.
 *
 *      charl__consensus facts = {0};
 *      st = charl__consensus_add(&facts, &(charl__fact){.label = "run.seed", .value = "42",
 *                                                       .status = CHARL_ERR_CONFIG});
 *      st = charl__consensus_reach(&facts, st, comm);
 *      charl__consensus_fini(&facts);
 *
 *  Code that knows a fact adds it; the values themselves are sent only if they differ. A failure
 *  reads "rank 2 of 4 (gpu07, pid 77) has run.seed = 43, the other 3 ranks have 42". A list belongs
 *  to one thread. */
#include "base/text/text.h"
#include "charl/comm.h"

typedef struct charl__fact {
    charl_status status; /* of the failure if the values differ */
    const char *label;   /* its name: "optimizer.learning_rate"; unique in a list */
    const char *value;   /* compared as a whole; messages show its beginning */
    const char *note;    /* shown after the value, not compared; NULL: nothing */
    const char *hint;    /* what to do if the values differ; NULL: nothing */
} charl__fact;

/** Start from {0}. */
typedef struct charl__consensus {
    charl__text facts;
} charl__consensus;

/** Append a fact; its strings are copied. Local. Errors: ERR_NOMEM. */
charl_status charl__consensus_add(charl__consensus *c, const charl__fact *fact) CHARL_MUST_CHECK;

/** The same for a short value that is printed. Local. Errors: ERR_NOMEM. */
charl_status charl__consensus_print(charl__consensus *c, const charl__fact *form, const char *label, const char *fmt,
                                    ...) CHARL_PRINTF(4, 5) CHARL_MUST_CHECK;

/** Agree on the ranks' statuses, as charl_comm_agree does (`mine` is the caller's so far), and then
 *  on their facts. If facts differ, every rank gets the same message: it shows the first fact
 *  that differs, with the ranks that differ from the majority, and names the others. A fact that
 *  only some ranks have differs too. Blocks. Collective on comm.
 *  Errors: the worst status of a rank; the status of the first fact that differs; ERR_NOMEM;
 *  ERR_COMM. Cost: 48 bytes per rank; all facts of all ranks if they differ. */
charl_status charl__consensus_reach(charl__consensus *c, charl_status mine, charl_comm *comm) CHARL_MUST_CHECK;

void charl__consensus_fini(charl__consensus *c);

enum { CHARL__COMM_PLACE = 256 };

/** Describe `rank` and its last charl_comm_mark, "rank 2 of 4 (host, pid 77), step 40, backward", in text[bytes];
 *  CHARL__COMM_PLACE bytes are enough. Without step and phase if the rank's node sends no heartbeats. Returns
 *  text. Local. */
const char *charl__comm_place(const charl_comm *c, int rank, char *text, size_t bytes);

/** Mark this thread's last failure as known to all ranks: each of them fails in the same way, because all
 *  decided from the same values. No-op for CHARL_OK or a broken communicator. Returns st. Local. */
charl_status charl__comm_agreed(charl_comm *c, charl_status st);

/** Whether every rank knows about this thread's last failure: charl_comm_agree or a function documented as
 *  agreed returned it, or charl__comm_agreed marked it. If not, other ranks may be waiting for this one:
 *  call charl_comm_break before anything is freed. Always true with one rank. Local. */
bool charl__comm_is_agreed(const charl_comm *c);

/** What is left to do when the connection between the ranks has been lost: the first rank of a node that calls this does the `work`, and the
 *  others return when it is done, or after as long as charl_comm_exit gives a rank. Does nothing unless c is broken. Blocks. Local. */
void charl__comm_last(charl_comm *c, void (*work)(void *ctx), void *ctx);

#endif
