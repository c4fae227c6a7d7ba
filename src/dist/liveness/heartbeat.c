/* Heartbeats between nodes, over TCP connections between the first ranks of two nodes; the
 * watchdog thread owns them.
 *
 * Ten times a second a node sends the status of its ranks. The receiver writes it to the shared page
 * of its own node, where the ranks of all nodes then look alike. Few nodes are all connected with each other; of many,
 * each with those that are a power of two away, so that connections grow with the logarithm. A node then knows nothing
 * of the ranks of most others, but its messages tell whether any rank of the job moves (charl__board.pulse).
 *
 *     connect     The addresses of the listening sockets are exchanged by MPI, with two random tokens.
 *                 Of two nodes the one with the higher index connects.
 *     handshake   It sends the first token and its index; the other node answers with the second.
 *                 A connection with a wrong token is closed. A node stops listening when all nodes
 *                 are connected.
 *     heartbeat   A message can only describe ranks of the sender's node. After a malformed message
 *                 the connection is ignored.
 *     shutdown    The last message is marked; the end of the connection then has no meaning.
 */
#include "dist/liveness/heartbeat.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "dist/comm_private.h"
#include "dist/liveness/node_address.h"
#include "dist/liveness/heartbeat_message.h"

enum { MAX_PENDING = 16 };
static const double try_s = 2, connect_s = 15, shutdown_s = 0.5;

/* The first message of both sides of a connection. */
typedef struct handshake {
    uint64_t token;
    int32_t from, to; /* nodes */
} handshake;

/* IGNORED: a message was malformed; what arrives is discarded. */
typedef enum connection_state { IDLE, CONNECTING, HANDSHAKE, UP, IGNORED, CLOSED } connection_state;

typedef struct connection {
    connection_state state;
    int fd;
    int address;    /* of the other node, the next one to try */
    double since_s; /* in this state */
    size_t received, sent, to_send;
    unsigned char *in, *out; /* the message that arrives; a handshake and two messages to send */
} connection;

/* An accepted connection that has not authenticated yet. */
typedef struct pending {
    int fd;
    double since_s;
    size_t received;
    handshake handshake;
} pending;

typedef struct charl__heartbeat {
    pthread_mutex_t mutex;
    charl__node_address *address; /* by node */
    int listener, node;
    int n_pending;
    pending pending[MAX_PENDING];
    double begun_s;
    int64_t moves;                     /* what the ranks of this node showed at the last message */
    connection *connection;            /* by node */
    charl__heartbeat_message *message; /* to send */
} charl__heartbeat;

/* Exchange the addresses of all nodes; a node without one is not connected. */
static charl_status addresses_exchange(charl_comm *c, const charl__node_address *mine, charl__node_address *by_node)
{
    CHARL_SCOPED_FREE charl__node_address *all = NULL;

    CHARL_TRY(charl_comm_agree(c, charl__alloc_array(c->size, sizeof *all, &all)));
    CHARL_TRY(charl_comm_allgather(c, mine, sizeof *mine, all));
    for (int m = 0; by_node && m < c->n_nodes; m++) {
        by_node[m] = all[charl__first_rank(c, m)];
        memcpy(by_node[m].token, all[0].token, sizeof by_node[m].token);
    }
    return CHARL_OK;
}

static void heartbeat_free(const charl_comm *c, charl__heartbeat *l)
{
    for (int m = 0; l->connection && m < c->n_nodes; m++) {
        charl_free(l->connection[m].in);
        charl_free(l->connection[m].out);
    }
    charl_free(l->connection);
    charl_free(l->address);
    charl_free(l->message);
    charl_free(l);
}

static charl_status heartbeat_alloc(const charl_comm *c, charl__heartbeat **out)
{
    charl_status st = CHARL_OK;
    const size_t own = charl__heartbeat_message_bytes(c->local_size);
    charl__heartbeat *l = NULL;

    CHARL_TRY_CLEANUP(charl__alloc(sizeof *l, &l));
    CHARL_TRY_CLEANUP(charl__alloc_array(c->n_nodes, sizeof *l->address, &l->address));
    CHARL_TRY_CLEANUP(charl__alloc_array(c->n_nodes, sizeof *l->connection, &l->connection));
    CHARL_TRY_CLEANUP(charl__alloc(own, &l->message));
    for (int m = 0; m < c->n_nodes; m++) {
        const size_t theirs = charl__heartbeat_message_bytes(charl__node_size(c, m));

        l->connection[m].fd = -1;
        if (!charl__heartbeat_is_linked(c, m, charl__comm_node(c))) {
            l->connection[m].state = CLOSED;
            continue;
        }
        CHARL_TRY_CLEANUP(charl__alloc(theirs > sizeof(handshake) ? theirs : sizeof(handshake), &l->connection[m].in));
        CHARL_TRY_CLEANUP(charl__alloc(sizeof(handshake) + 2 * own, &l->connection[m].out));
    }
    *out = l;
    l = NULL;
cleanup:
    if (l) {
        heartbeat_free(c, l);
    }
    return st;
}

bool charl__heartbeat_is_linked(const charl_comm *c, int a, int b)
{
    const int n = c->n_nodes, way = (a - b + n) % n, back = n - way;

    return way > 0 && (n <= CHARL__MESH || (way & (way - 1)) == 0 || (back & (back - 1)) == 0);
}

charl_status charl__heartbeat_create(charl_comm *c)
{
    charl_status st = CHARL_OK;
    charl__node_address mine = {0};
    charl__heartbeat *l = NULL;

    if (c->n_nodes == 1 || c->is_team) {
        return st;
    }
    if (c->local_rank == 0) {
        st = heartbeat_alloc(c, &l);
    }
    st = charl_comm_agree(c, st);
    if (st != CHARL_OK && l) {
        heartbeat_free(c, l);
    }
    CHARL_TRY(st);
    if (l) {
        pthread_mutex_init(&l->mutex, NULL);
        l->node = charl__comm_node(c);
        l->listener = charl__node_listen(&mine);
        c->heartbeat = l;
    }
    if (c->rank == 0 && getrandom(mine.token, sizeof mine.token, 0) != sizeof mine.token) {
        st = charl_error_set(CHARL_ERR_COMM, __FILE__, __LINE__, __func__, "no random numbers");
    }
    CHARL_TRY(charl_comm_agree(c, st)); /* connections could not be authenticated */
    CHARL_TRY(addresses_exchange(c, &mine, l ? l->address : NULL));
    return st;
}

void charl__heartbeat_destroy(charl_comm *c)
{
    charl__heartbeat *l = c->heartbeat;

    if (l) {
        charl__socket_close(&l->listener);
        for (int i = 0; i < l->n_pending; i++) {
            charl__socket_close(&l->pending[i].fd);
        }
        for (int m = 0; m < c->n_nodes; m++) {
            charl__socket_close(&l->connection[m].fd);
        }
        pthread_mutex_destroy(&l->mutex);
        heartbeat_free(c, l);
        c->heartbeat = NULL;
    }
}

const charl__node_address *charl__heartbeat_address(const charl_comm *c, int m)
{
    return &c->heartbeat->address[m];
}

static void connection_set(connection *k, connection_state state)
{
    k->state = state;
    k->since_s = charl__clock_s();
    k->received = 0;
    if (state == CLOSED || state == IDLE) {
        k->sent = k->to_send = 0;
        charl__socket_close(&k->fd);
    }
}

/* Connect to node m; each attempt takes the next address. */
static void connection_open(charl__heartbeat *l, int m)
{
    connection *k = &l->connection[m];

    k->fd = charl__node_connect(&l->address[m], k->address++ % l->address[m].n);
    if (k->fd >= 0) {
        connection_set(k, CONNECTING);
    }
}

static void connection_give_up(const charl_comm *c, int m)
{
    connection *k = &c->heartbeat->connection[m];

    connection_set(k, CLOSED);
    charl__log(CHARL_LOG_WARN,
               "no heartbeat connection from node %d (%s) to node %d (%s): a lost rank is reported on "
               "its own node only",
               c->heartbeat->node, c->peer[c->rank].host, m, c->peer[charl__first_rank(c, m)].host);
}

static bool connection_flush(connection *k)
{
    while (k->sent < k->to_send) {
        const ssize_t n = send(k->fd, k->out + k->sent, k->to_send - k->sent, MSG_NOSIGNAL);

        if (n <= 0) {
            return n < 0 && (errno == EAGAIN || errno == EINTR);
        }
        k->sent += (size_t)n;
    }
    k->sent = k->to_send = 0;
    return true;
}

static void connection_append(connection *k, const void *data, size_t bytes)
{
    memcpy(k->out + k->to_send, data, bytes);
    k->to_send += bytes;
}

/* The connection to node m has ended without a shutdown message. If it was closed after a heartbeat,
 * the process of the first rank of that node has ended; the other ranks of the node report
 * themselves. If it failed, the network is at fault and the node counts as silent. */
static void connection_lost(charl_comm *c, int m, bool is_closed)
{
    charl__slot *s = charl__slot_of(c, charl__first_rank(c, m));
    const bool was_heard = atomic_load(&s->heard_ms) > 0;

    if (was_heard && is_closed && c->heartbeat->connection[m].state == UP) {
        atomic_store(&s->state, 'X');
    }
    connection_set(&c->heartbeat->connection[m], was_heard ? CLOSED : IDLE);
}

static void message_read(charl_comm *c, int m)
{
    connection *k = &c->heartbeat->connection[m];
    const charl__heartbeat_message *r = (const charl__heartbeat_message *)(const void *)k->in;

    if (!charl__heartbeat_message_read(c, m, r)) {
        charl__log(CHARL_LOG_WARN, "malformed heartbeat from node %d (%s); connection ignored", m,
                   c->peer[charl__first_rank(c, m)].host);
        connection_set(k, IGNORED);
    } else if (r->is_last) {
        connection_set(k, CLOSED);
    }
}

static void handshake_read(charl__heartbeat *l, int m)
{
    const handshake *g = (const handshake *)(const void *)l->connection[m].in;
    const bool is_ours = g->token == l->address[m].token[1] && g->from == m && g->to == l->node;

    connection_set(&l->connection[m], is_ours ? UP : IDLE);
}

/* Read everything that has arrived from node m. */
static void connection_read(charl_comm *c, int m)
{
    connection *k = &c->heartbeat->connection[m];

    while (k->state == HANDSHAKE || k->state == UP || k->state == IGNORED) {
        const size_t want =
            k->state == HANDSHAKE ? sizeof(handshake) : charl__heartbeat_message_bytes(charl__node_size(c, m));
        const ssize_t n = recv(k->fd, k->in + k->received, want - k->received, 0);

        if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
            return;
        }
        if (n <= 0) {
            connection_lost(c, m, n == 0 || errno == ECONNRESET);
            return;
        }
        k->received = (k->received + (size_t)n) % want;
        if (k->received == 0 && k->state == UP) {
            message_read(c, m);
        } else if (k->received == 0 && k->state == HANDSHAKE) {
            handshake_read(c->heartbeat, m);
        }
    }
}

/* A connection attempt has succeeded or failed. */
static void send_handshake(charl__heartbeat *l, int m)
{
    connection *k = &l->connection[m];
    const handshake mine = {.token = l->address[m].token[0], .from = l->node, .to = m};
    int err = 0;
    socklen_t length = sizeof err;

    if (getsockopt(k->fd, SOL_SOCKET, SO_ERROR, &err, &length) != 0 || err != 0) {
        connection_set(k, IDLE);
        return;
    }
    connection_set(k, HANDSHAKE);
    connection_append(k, &mine, sizeof mine);
    if (!connection_flush(k)) {
        connection_set(k, IDLE);
    }
}

static void pending_remove(charl__heartbeat *l, int i, bool close_it)
{
    if (close_it) {
        charl__socket_close(&l->pending[i].fd);
    }
    l->pending[i] = l->pending[--l->n_pending];
}

static void pending_accept(charl__heartbeat *l)
{
    const int fd = accept(l->listener, NULL, NULL);

    if (fd < 0) {
        return;
    }
    if (l->n_pending == MAX_PENDING || charl__acquire("connection") != CHARL_OK) {
        close(fd);
        return;
    }
    fcntl(fd, F_SETFL, O_NONBLOCK);
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    l->pending[l->n_pending++] = (pending){.fd = fd, .since_s = charl__clock_s()};
}

/* A pending connection that sends the token becomes the connection to the node that it names. */
static void pending_read(charl_comm *c, int i)
{
    charl__heartbeat *l = c->heartbeat;
    pending *s = &l->pending[i];
    const ssize_t n = recv(s->fd, (unsigned char *)&s->handshake + s->received, sizeof s->handshake - s->received, 0);
    const int m = s->handshake.from;
    handshake mine;

    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    s->received += n > 0 ? (size_t)n : 0;
    if (n > 0 && s->received < sizeof s->handshake) {
        return;
    }
    if (n <= 0 || s->handshake.token != l->address[l->node].token[0] || s->handshake.to != l->node || m <= l->node ||
        m >= c->n_nodes || l->connection[m].state != IDLE) {
        pending_remove(l, i, true);
        return;
    }
    mine = (handshake){.token = l->address[m].token[1], .from = l->node, .to = m};
    l->connection[m].fd = s->fd;
    pending_remove(l, i, false);
    connection_set(&l->connection[m], UP);
    connection_append(&l->connection[m], &mine, sizeof mine);
    if (!connection_flush(&l->connection[m])) {
        connection_set(&l->connection[m], IDLE);
    }
}

/* Indices in the set of poll, which skips descriptors of -1. */
enum { WAKE, LISTENER, FIRST_PENDING, FIRST_NODE = FIRST_PENDING + MAX_PENDING, POLLED };

static int poll_set(const charl_comm *c, int wake, struct pollfd *p)
{
    const charl__heartbeat *l = c->heartbeat;

    p[WAKE] = (struct pollfd){.fd = wake, .events = POLLIN};
    if (!l) {
        return 1;
    }
    p[LISTENER] = (struct pollfd){.fd = l->listener, .events = POLLIN};
    for (int i = 0; i < MAX_PENDING; i++) {
        p[FIRST_PENDING + i] = (struct pollfd){.fd = i < l->n_pending ? l->pending[i].fd : -1, .events = POLLIN};
    }
    for (int m = 0; m < c->n_nodes; m++) {
        const connection *k = &l->connection[m];
        const bool writes = k->state == CONNECTING || k->to_send > 0;

        p[FIRST_NODE + m] = (struct pollfd){.fd = k->fd,
                                            .events = (short)(k->state == CONNECTING ? POLLOUT
                                                              : writes               ? POLLIN | POLLOUT
                                                                                     : POLLIN)};
    }
    return FIRST_NODE + c->n_nodes;
}

static void poll_serve(charl_comm *c, const struct pollfd *p)
{
    charl__heartbeat *l = c->heartbeat;

    for (int m = 0; m < c->n_nodes; m++) {
        connection *k = &l->connection[m];

        if (k->fd < 0 || p[FIRST_NODE + m].fd != k->fd || !p[FIRST_NODE + m].revents) {
            continue;
        }
        if (k->state == CONNECTING) {
            send_handshake(l, m);
        } else {
            connection_read(c, m);
            if (k->to_send > 0 && !connection_flush(k)) {
                connection_lost(c, m, errno == ECONNRESET || errno == EPIPE);
            }
        }
    }
    for (int i = l->n_pending - 1; i >= 0; i--) { /* removal moves the last one, which is done */
        if (p[FIRST_PENDING + i].revents) {
            pending_read(c, i);
        }
    }
    if (p[LISTENER].revents) {
        pending_accept(l);
    }
}

/* Start attempts that are due and give up those that take too long. */
static void upkeep(charl_comm *c)
{
    charl__heartbeat *l = c->heartbeat;
    const double now = charl__clock_s();
    bool is_expecting = false;

    l->begun_s = l->begun_s > 0 ? l->begun_s : now;
    for (int m = 0; m < c->n_nodes; m++) {
        connection *k = &l->connection[m];

        if ((k->state == CONNECTING || k->state == HANDSHAKE) && now - k->since_s > try_s) {
            connection_set(k, IDLE);
        }
        if (k->state == IDLE && m < l->node) {
            if (l->address[m].n == 0 || now - l->begun_s > connect_s) {
                connection_give_up(c, m);
            } else {
                connection_open(l, m);
            }
        }
        is_expecting = is_expecting || (k->state == IDLE && m > l->node && now - l->begun_s < connect_s);
    }
    for (int i = l->n_pending - 1; i >= 0; i--) {
        if (now - l->pending[i].since_s > try_s) {
            pending_remove(l, i, true);
        }
    }
    if (!is_expecting) {
        charl__socket_close(&l->listener);
    }
}

void charl__heartbeat_poll(charl_comm *c, int wake, double until_s)
{
    charl__heartbeat *l = c->heartbeat;
    struct pollfd p[POLLED + CHARL_MAX_SLICES];

    for (;;) {
        const double left = until_s - charl__clock_s();
        int n;

        if (l) {
            pthread_mutex_lock(&l->mutex);
            upkeep(c);
        }
        n = poll_set(c, wake, p);
        if (l) {
            pthread_mutex_unlock(&l->mutex);
        }
        if (poll(p, (nfds_t)n, left > 0 ? (int)(left * 1e3) + 1 : 0) < 0) {
            memset(p, 0, sizeof p); /* interrupted: revents are undefined */
        }
        if (l) {
            pthread_mutex_lock(&l->mutex);
            poll_serve(c, p);
            pthread_mutex_unlock(&l->mutex);
        }
        if (left <= 0 || p[WAKE].revents) {
            return;
        }
    }
}

/* Wait until the others have closed their ends. If this end were closed before they have read
 * everything, TCP might discard the last message. */
static void wait_for_close(const charl_comm *c)
{
    charl__heartbeat *l = c->heartbeat;
    struct pollfd p[CHARL_MAX_SLICES];
    unsigned char ignored[256];
    const double until = charl__clock_s() + shutdown_s;
    int open = 1;

    while (open > 0 && charl__clock_s() < until) {
        open = 0;
        for (int m = 0; m < c->n_nodes; m++) {
            connection *k = &l->connection[m];
            ssize_t n = -1;

            while (k->fd >= 0 && (n = recv(k->fd, ignored, sizeof ignored, 0)) > 0) {
            }
            if (k->fd >= 0 && (n == 0 || errno != EAGAIN)) {
                connection_set(k, CLOSED);
            }
            p[m] = (struct pollfd){.fd = k->fd, .events = POLLIN};
            open += k->fd >= 0;
        }
        (void)poll(p, (nfds_t)c->n_nodes, open > 0 ? 10 : 0);
    }
}

/* Raise the pulse if ranks of this node have moved. */
static void pulse_raise(charl_comm *c)
{
    charl__heartbeat *l = c->heartbeat;
    int64_t moves = 0;

    for (int i = 0; i < c->local_size; i++) {
        const charl__slot *s = charl__slot_of(c, charl__comm_local_peer(c, i));

        moves += atomic_load(&s->marks) + atomic_load(&s->entered);
    }
    if (moves != l->moves && c->n_nodes > CHARL__MESH) {
        atomic_fetch_add(&c->board->pulse, 1);
    }
    l->moves = moves;
}

void charl__heartbeat_send(charl_comm *c, bool is_last)
{
    charl__heartbeat *l = c->heartbeat;

    if (!l) {
        return;
    }
    pthread_mutex_lock(&l->mutex);
    pulse_raise(c);
    charl__heartbeat_message_make(c, is_last, l->message);
    for (int m = 0; m < c->n_nodes; m++) {
        connection *k = &l->connection[m];

        if (k->state != UP && k->state != IGNORED) {
            if (is_last) {
                connection_set(k, CLOSED);
            }
            continue;
        }
        if (k->to_send == 0 || is_last) { /* otherwise the previous one has not been sent yet */
            connection_append(k, l->message, charl__heartbeat_message_bytes(c->local_size));
        }
        if (!connection_flush(k)) {
            connection_lost(c, m, errno == ECONNRESET || errno == EPIPE);
        } else if (is_last) {
            (void)shutdown(k->fd, SHUT_WR);
        }
    }
    if (is_last) {
        wait_for_close(c);
    }
    pthread_mutex_unlock(&l->mutex);
}
