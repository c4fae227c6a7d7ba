#ifndef CHARL_DIST_LIVENESS_NODE_ADDRESS_H
#define CHARL_DIST_LIVENESS_NODE_ADDRESS_H
/** TCP addresses of a node. */
#include <netinet/in.h>
#include <stdint.h>

enum { CHARL__NODE_ADDRESSES = 8 };

/* Of a listening socket; sent as bytes. */
typedef struct charl__node_address {
    uint64_t token[2]; /* of the job: sent by the connecting side, and by the other as its answer */
    int n;             /* of addresses; 0: not reachable */
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } address[CHARL__NODE_ADDRESSES];
} charl__node_address;

/** A listening socket at a free port, and the addresses of this host with that port; loopback
 *  addresses only if there are no others. -1 on failure: *out then has no address. Non-blocking;
 *  counted with charl__acquire. */
int charl__node_listen(charl__node_address *out);

/** Begin to connect to address i of a node. -1 if that fails at once. Non-blocking; counted. */
int charl__node_connect(const charl__node_address *place, int i);

/** Close *fd and set it to -1; no-op if it is -1. */
void charl__socket_close(int *fd);

#endif
