/* Listening sockets and connections between nodes. */
#include "dist/liveness/node_address.h"

#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fault.h"

/* -1 on failure. */
static int socket_open(int family)
{
    const int on = 1;
    int fd;

    if (charl__acquire("socket") != CHARL_OK) {
        return -1;
    }
    fd = socket(family, SOCK_STREAM, 0);
    if (fd < 0 || fcntl(fd, F_SETFL, O_NONBLOCK) != 0 || fcntl(fd, F_SETFD, FD_CLOEXEC) != 0) {
        if (fd >= 0) {
            close(fd);
        }
        charl__drop();
        return -1;
    }
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return fd;
}

void charl__socket_close(int *fd)
{
    if (*fd >= 0) {
        close(*fd);
        *fd = -1;
        charl__drop();
    }
}

/* Listen at a free port, for IPv6 and IPv4 where the host has both. */
static int listen_any(struct sockaddr *any, socklen_t length)
{
    const int off = 0;
    int fd = socket_open(any->sa_family);

    if (fd >= 0 && any->sa_family == AF_INET6) {
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    }
    if (fd < 0 || bind(fd, any, length) != 0 || listen(fd, 64) != 0 || getsockname(fd, any, &length) != 0) {
        charl__socket_close(&fd);
    }
    return fd;
}

static bool is_loopback(const struct sockaddr *a)
{
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)(const void *)a;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)(const void *)a;

    return a->sa_family == AF_INET ? ntohl(v4->sin_addr.s_addr) >> 24 == 127
                                   : IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr) != 0;
}

/* Whether another host can use the address; `family` is the family of the listening socket. */
static bool is_usable(const struct sockaddr *a, int family)
{
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)(const void *)a;

    return a && (a->sa_family == AF_INET ||
                 (a->sa_family == AF_INET6 && family == AF_INET6 && !IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr)));
}

static void addresses_find(int family, in_port_t port, charl__node_address *out)
{
    struct ifaddrs *list = NULL;

    if (getifaddrs(&list) != 0) {
        return;
    }
    for (int loops = 0; loops < 2 && out->n == 0; loops++) {
        for (struct ifaddrs *i = list; i && out->n < CHARL__NODE_ADDRESSES; i = i->ifa_next) {
            if (!is_usable(i->ifa_addr, family) || is_loopback(i->ifa_addr) != (loops == 1)) {
                continue;
            }
            if (i->ifa_addr->sa_family == AF_INET) {
                memcpy(&out->address[out->n].v4, i->ifa_addr, sizeof out->address->v4);
                out->address[out->n++].v4.sin_port = port;
            } else {
                memcpy(&out->address[out->n].v6, i->ifa_addr, sizeof out->address->v6);
                out->address[out->n++].v6.sin6_port = port;
            }
        }
    }
    freeifaddrs(list);
}

int charl__node_listen(charl__node_address *out)
{
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_ANY_INIT};
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_ANY)}};
    int family = AF_INET6, fd;

    out->n = 0;
    if (charl__fault("comm.link")) {
        return -1;
    }
    fd = listen_any((struct sockaddr *)(void *)&v6, sizeof v6);
    if (fd < 0) { /* a host without IPv6 */
        family = AF_INET;
        fd = listen_any((struct sockaddr *)(void *)&v4, sizeof v4);
    }
    if (fd >= 0) {
        addresses_find(family, family == AF_INET6 ? v6.sin6_port : v4.sin_port, out);
    }
    return fd;
}

int charl__node_connect(const charl__node_address *place, int i)
{
    const struct sockaddr *to = &place->address[i].any;
    int fd = socket_open(to->sa_family);

    if (fd >= 0 &&
        connect(fd, to, to->sa_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6)) != 0 &&
        errno != EINPROGRESS) {
        charl__socket_close(&fd);
    }
    return fd;
}
