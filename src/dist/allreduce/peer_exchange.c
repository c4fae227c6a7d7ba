/* Exchange of descriptors between the processes of a node: each rank binds a datagram socket to a
 * random name, tells the others by MPI, and sends its descriptor to each of them. A datagram between
 * local sockets has arrived when it is sent, so after one agreement no waiting is needed.
 *
 * Any process of the machine can read the names of such sockets and send to them, so a message
 * counts only with its rank's token, which is sent by MPI only, and from this user.
 */
#define _GNU_SOURCE /* struct ucred */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/alloc.h"
#include "dist/allreduce/peer.h"

/* Random, drawn by each rank: the name of its socket, and the token that proves that a message is from it. */
typedef struct key {
    uint64_t name, proof;
} key;

typedef union control { /* aligned for the header of its first item */
    struct cmsghdr header;
    unsigned char bytes[CMSG_SPACE(sizeof(int)) + CMSG_SPACE(sizeof(struct ucred))];
} control;

static socklen_t address_of(const key *k, struct sockaddr_un *a)
{
    *a = (struct sockaddr_un){.sun_family = AF_UNIX}; /* first byte 0: a name without a file */
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
                       (size_t)snprintf(a->sun_path + 1, sizeof a->sun_path - 1, "charl-%016llx",
                                        (unsigned long long)k->name));
}

static charl_status socket_open(key *k, int *out)
{
    const int on = 1;
    struct sockaddr_un a;

    CHARL_REQUIRE(getrandom(k, sizeof *k, 0) == (ssize_t)sizeof *k, CHARL_ERR_COMM, "no random numbers: %s",
                  strerror(errno));
    CHARL_TRY(charl__acquire("socket"));
    *out = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (*out < 0) {
        charl__drop();
        CHARL_FAIL(CHARL_ERR_COMM, "no local socket: %s", strerror(errno));
    }
    CHARL_REQUIRE(setsockopt(*out, SOL_SOCKET, SO_PASSCRED, &on, sizeof on) == 0 &&
                      bind(*out, (struct sockaddr *)&a, address_of(k, &a)) == 0,
                  CHARL_ERR_COMM, "no local socket: %s", strerror(errno));
    return CHARL_OK;
}

static charl_status descriptor_send(int from, const key *to, const charl__descriptor_note *m, int fd)
{
    struct sockaddr_un a;
    const socklen_t length = address_of(to, &a);
    struct iovec text = {(void *)(uintptr_t)m, sizeof *m};
    control c = {.bytes = {0}};
    struct msghdr h = {.msg_name = &a,
                       .msg_namelen = length,
                       .msg_iov = &text,
                       .msg_iovlen = 1,
                       .msg_control = c.bytes,
                       .msg_controllen = CMSG_SPACE(sizeof fd)};

    c.header.cmsg_level = SOL_SOCKET;
    c.header.cmsg_type = SCM_RIGHTS;
    c.header.cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(&c.header), &fd, sizeof fd);
    CHARL_REQUIRE(sendmsg(from, &h, 0) == (ssize_t)sizeof *m, CHARL_ERR_COMM,
                  "a descriptor cannot be sent to another rank: %s (a container of its own?)", strerror(errno));
    return CHARL_OK;
}

/* The control buffer has room for two, as it is aligned; no rank sends more than one. */
static void keep_first(const struct cmsghdr *i, int *fd)
{
    const size_t n = (i->cmsg_len - CMSG_LEN(0)) / sizeof *fd;

    for (size_t k = 0; k < n; k++) {
        int one;

        memcpy(&one, CMSG_DATA(i) + k * sizeof one, sizeof one);
        if (*fd < 0) {
            *fd = one;
        } else {
            close(one);
        }
    }
}

bool charl__descriptor_receive(int socket, charl__descriptor_note *m, int *fd, bool *is_cut)
{
    struct iovec text = {m, sizeof *m};
    control c = {.bytes = {0}};
    struct msghdr h = {.msg_iov = &text, .msg_iovlen = 1, .msg_control = c.bytes, .msg_controllen = sizeof c.bytes};
    struct ucred sender = {.uid = (uid_t)-1};
    ssize_t got;

    *fd = -1;
    *is_cut = false;
    got = recvmsg(socket, &h, MSG_CMSG_CLOEXEC);
    if (got < 0) {
        return false;
    }
    for (struct cmsghdr *i = CMSG_FIRSTHDR(&h); i; i = CMSG_NXTHDR(&h, i)) {
        if (i->cmsg_level == SOL_SOCKET && i->cmsg_type == SCM_RIGHTS) {
            keep_first(i, fd);
        } else if (i->cmsg_level == SOL_SOCKET && i->cmsg_type == SCM_CREDENTIALS) {
            memcpy(&sender, CMSG_DATA(i), sizeof sender);
        }
    }
    *is_cut = (h.msg_flags & MSG_CTRUNC) != 0;
    m->rank = got == (ssize_t)sizeof *m && sender.uid == geteuid() ? m->rank : -1;
    return true;
}

/* Everything has been sent. Messages that are not from a rank of this job are discarded. */
static charl_status receive_all(const charl_comm *c, int socket, const key *all, int *fds)
{
    charl_status st = CHARL_OK;
    int left = c->local_size - 1, fd;
    bool is_cut, is_full = false;
    charl__descriptor_note m;

    while (left > 0 && charl__descriptor_receive(socket, &m, &fd, &is_cut)) {
        const bool is_ours = m.rank >= 0 && m.rank < c->local_size && m.rank != c->local_rank &&
                             m.proof == all[m.rank].proof && fds[m.rank] < 0;

        is_full = is_full || (is_ours && is_cut);
        if (is_ours && fd >= 0 && (st = charl__acquire("descriptor")) == CHARL_OK) {
            fds[m.rank] = fd;
            left--;
        } else if (fd >= 0) {
            close(fd);
        }
        CHARL_TRY(st);
    }
    CHARL_REQUIRE(left == 0, CHARL_ERR_COMM, "%d of %d descriptors did not come%s", left, c->local_size - 1,
                  is_full ? ": this process may open no more files (ulimit -n)" : "");
    return st;
}

charl_status charl__descriptors_exchange(charl_comm *c, int fd, int *fds)
{
    charl_status st = CHARL_OK;
    const key *near; /* of this node's ranks */
    key mine = {0, 0}, *all = NULL;
    int s = -1;

    for (int r = 0; r < c->local_size; r++) {
        fds[r] = -1;
    }
    st = charl__alloc_array(c->size, sizeof *all, &all);
    CHARL_TRY_CLEANUP(charl_comm_agree(c, st == CHARL_OK ? socket_open(&mine, &s) : st));
    CHARL_TRY_CLEANUP(charl_comm_allgather(c, &mine, sizeof mine, all));
    near = all + c->node_first[charl__comm_node(c)];
    for (int r = 0; r < c->local_size && st == CHARL_OK; r++) {
        if (r != c->local_rank) {
            st = descriptor_send(s, &near[r], &(charl__descriptor_note){mine.proof, c->local_rank}, fd);
        }
    }
    CHARL_TRY_CLEANUP(charl_comm_agree(c, st));
    CHARL_TRY_CLEANUP(charl_comm_agree(c, receive_all(c, s, near, fds)));
cleanup:
    charl_free(all);
    if (s >= 0) {
        close(s);
        charl__drop();
    }
    if (st != CHARL_OK) {
        charl__descriptors_close(c, fds);
    }
    return st;
}

void charl__descriptors_close(const charl_comm *c, int *fds)
{
    for (int r = 0; r < c->local_size; r++) {
        if (fds[r] >= 0) {
            close(fds[r]);
            charl__drop();
            fds[r] = -1;
        }
    }
}
