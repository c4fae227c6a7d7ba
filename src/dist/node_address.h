#ifndef CHARL_DIST_NODE_ADDRESS_H
#define CHARL_DIST_NODE_ADDRESS_H
/** Where a node can be reached by TCP. */
#include <netinet/in.h>
#include <stdint.h>

enum { CHARL__LINK_ADDRESSES = 8 };

/* Of a listening socket; travels as bytes. */
typedef struct charl__link_place {
    uint64_t token[2]; /* of the job: what a caller says, what it is answered */
    int n;             /* of addresses; 0: not reachable */
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } address[CHARL__LINK_ADDRESSES];
} charl__link_place;

/** A listening socket at a port that is free, and every address of this host with that port; the
 *  loopback ones only where there is no other. -1 when that fails: *out then has no address. Not
 *  blocking; counted with charl__acquire. */
int charl__link_listen(charl__link_place *out);

/** Begin to connect to address i of a place. -1 when that fails at once. Not blocking; counted. */
int charl__link_connect(const charl__link_place *place, int i);

/** Close *fd and set it to -1; nothing when it is that already. */
void charl__link_close(int *fd);

#endif
