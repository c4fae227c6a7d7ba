#ifndef CHARL_DIST_ALLREDUCE_PEER_H
#define CHARL_DIST_ALLREDUCE_PEER_H
/** Shared by the files of the all-reduce between devices (allreduce_peer.c). */
#include "device/device.h"
#include "dist/comm_private.h"

enum { CHARL__MAX_PEERS = 8 };

/* Whether the devices of all ranks can map each other's memory. */
typedef struct charl__peer_survey {
    bool is_usable;
    bool is_preferred; /* on CPU devices it only exists for tests */
    char why[192];     /* not usable: the reason */
} charl__peer_survey;

/* A rank's message to the others; sent as bytes. */
enum { CHARL__PEER_WHY = 128 };
typedef struct charl__peer_fact {
    int kind; /* charl__shared_kind */
    char pci[16];
    char why[CHARL__PEER_WHY]; /* its device cannot: the reason */
} charl__peer_fact;

/** The result from the facts of a node's n ranks alone; the first is the job's rank `first`. Pure. */
void charl__peer_compare(const charl__peer_fact *f, int first, int n, charl__peer_survey *out);

/** The same result on every rank; dev is this rank's, or NULL. Collective on c; agreed. */
charl_status charl__peer_ask(charl_comm *c, charl_device *dev, charl__peer_survey *out) CHARL_MUST_CHECK;

/** Send fd to the other ranks of the node and receive theirs: fds[r] from local rank r, owned by the caller, -1 for this rank. On failure all are
 *  closed. Collective on c; agreed. */
charl_status charl__descriptors_exchange(charl_comm *c, int fd, int *fds) CHARL_MUST_CHECK;

/* Sent with a descriptor. */
typedef struct charl__descriptor_note {
    uint64_t proof;
    int rank;
} charl__descriptor_note;

/** One message of a socket that passes credentials: *m, whose rank is -1 unless a process of this
 *  user sent it whole, and its first descriptor, the caller's to close; -1: it has none, with
 * *is_cut because this process could not open it. False: there is no message. */
bool charl__descriptor_receive(int socket, charl__descriptor_note *m, int *fd, bool *is_cut);
void charl__descriptors_close(const charl_comm *c, int *fds);

#endif
