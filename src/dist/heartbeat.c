/* Liveness between nodes: TCP connections from the first rank of every node to that of every other,
 * owned by the watching thread. Ten times a second each sends what the ranks of its node show of
 * themselves, and the receiver writes it to the page of its own node, where ranks of all nodes then
 * look alike.
 *
 * The addresses of the listening sockets travel by MPI, with two random tokens. Of two nodes the
 * later connects, says the first token and who it is, and is answered the second one; whoever does
 * not know them is dropped. Listening ends when all are there. Nothing that arrives can do more
 * than describe the ranks of the sender's own node. */
#include "dist/heartbeat.h"

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
#include "dist/node_address.h"
#include "dist/heartbeat_message.h"

enum { STRANGERS = 16 };
static const double try_s = 2, connect_s = 15, goodbye_s = 0.5;

/* First words of both sides of a connection. */
typedef struct greeting {
    uint64_t token;
    int32_t from, to; /* nodes */
} greeting;

/* DEAF: what it sends is no report, and not listened to. */
typedef enum link_state { IDLE, CONNECTING, GREETING, UP, DEAF, OVER } link_state;

typedef struct link {
    link_state state;
    int fd;
    int address;    /* of the other node that is tried */
    double since_s; /* in this state */
    size_t received, sent, to_send;
    union {
        charl__report report;
        greeting greeting;
        unsigned char bytes[sizeof(charl__report)];
    } in;
    unsigned char out[2 * sizeof(charl__report)];
} connection;

typedef struct stranger {
    int fd;
    double since_s;
    size_t received;
    greeting words;
} stranger;

typedef struct charl__links {
    pthread_mutex_t mutex;
    charl__link_place place[CHARL_MAX_SLICES]; /* by node */
    int listener, node;
    int n_strangers;
    stranger strangers[STRANGERS];
    double begun_s;
    connection link[CHARL_MAX_SLICES]; /* by node */
} charl__links;

/* Everybody's place to everybody; a node without one is not connected. */
static charl_status places_exchange(charl_comm *c, const charl__link_place *mine,
                                    charl__link_place *by_node)
{
    charl_status st = CHARL_OK;
    charl__link_place *all = NULL;

    CHARL_TRY_CLEANUP(charl_comm_agree(c, charl_alloc_array(c->size, sizeof *all, &all)));
    CHARL_TRY_CLEANUP(charl_comm_allgather(c, mine, sizeof *mine, all));
    for (int m = 0; by_node && m < c->n_nodes; m++) {
        by_node[m] = all[charl__first_rank(c, m)];
        memcpy(by_node[m].token, all[0].token, sizeof by_node[m].token);
    }
cleanup:
    charl_free(all);
    return st;
}

charl_status charl__links_create(charl_comm *c)
{
    charl_status st = CHARL_OK;
    charl__link_place mine = {0};
    charl__links *l = NULL;

    if (c->n_nodes == 1 || c->is_team) {
        return st;
    }
    if (c->local_rank == 0) {
        st = charl_alloc(sizeof *l, &l);
    }
    CHARL_TRY(charl_comm_agree(c, st));
    if (l) {
        pthread_mutex_init(&l->mutex, NULL);
        l->node = charl_comm_node(c);
        l->listener = charl__link_listen(&mine);
        for (int m = 0; m < CHARL_MAX_SLICES; m++) {
            l->link[m].fd = -1;
        }
        c->links = l;
    }
    if (c->rank == 0 && getrandom(mine.token, sizeof mine.token, 0) != sizeof mine.token) {
        st = charl__error_set(CHARL_ERR_COMM, __FILE__, __LINE__, __func__, "no random numbers");
    }
    CHARL_TRY(charl_comm_agree(c, st)); /* without a secret nobody may be let in */
    CHARL_TRY(places_exchange(c, &mine, l ? l->place : NULL));
    return st;
}

void charl__links_destroy(charl_comm *c)
{
    charl__links *l = c->links;

    if (l) {
        charl__link_close(&l->listener);
        for (int i = 0; i < l->n_strangers; i++) {
            charl__link_close(&l->strangers[i].fd);
        }
        for (int m = 0; m < c->n_nodes; m++) {
            charl__link_close(&l->link[m].fd);
        }
        pthread_mutex_destroy(&l->mutex);
        charl_free(l);
        c->links = NULL;
    }
}

const charl__link_place *charl__links_place(const charl_comm *c, int m)
{
    return &c->links->place[m];
}

static void link_set(connection *k, link_state state)
{
    k->state = state;
    k->since_s = charl__clock_s();
    k->received = 0;
    if (state == OVER || state == IDLE) {
        k->sent = k->to_send = 0;
        charl__link_close(&k->fd);
    }
}

/* The addresses of node m in turn. */
static void link_connect(charl__links *l, int m)
{
    connection *k = &l->link[m];

    k->fd = charl__link_connect(&l->place[m], k->address++ % l->place[m].n);
    if (k->fd >= 0) {
        link_set(k, CONNECTING);
    }
}

static void link_give_up(const charl_comm *c, int m)
{
    connection *k = &c->links->link[m];

    link_set(k, OVER);
    charl__log(CHARL_LOG_WARN,
               "node %d (%s) cannot be connected from node %d (%s): its ranks are watched on their "
               "own node only",
               m, c->peer[charl__first_rank(c, m)].host, c->links->node, c->peer[c->rank].host);
}

static bool link_push(connection *k)
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

static void link_say(connection *k, const void *data, size_t bytes)
{
    memcpy(k->out + k->to_send, data, bytes);
    k->to_send += bytes;
}

/* Once it has spoken, an end without goodbye is that of its process: so its rank is gone, while the
 * others of its node speak for themselves. An error instead is the network's: it falls silent. */
static void link_lost(charl_comm *c, int m, bool is_closed)
{
    charl__slot *s = charl__slot_of(c, charl__first_rank(c, m));
    const bool has_spoken = atomic_load(&s->heard_ms) > 0;

    if (has_spoken && is_closed && c->links->link[m].state == UP) {
        atomic_store(&s->state, 'X');
    }
    link_set(&c->links->link[m], has_spoken ? OVER : IDLE);
}

static void report_read(charl_comm *c, int m)
{
    connection *k = &c->links->link[m];
    const charl__report *r = &k->in.report;

    if (!charl__report_read(c, m, r)) {
        charl__log(CHARL_LOG_WARN,
                   "node %d (%s) sends what is no report of its ranks: it is not listened to", m,
                   c->peer[charl__first_rank(c, m)].host);
        link_set(k, DEAF);
    } else if (r->is_goodbye) {
        link_set(k, OVER);
    }
}

static void greeting_read(charl__links *l, int m)
{
    const greeting *g = &l->link[m].in.greeting;
    const bool is_ours = g->token == l->place[m].token[1] && g->from == m && g->to == l->node;

    link_set(&l->link[m], is_ours ? UP : IDLE);
}

/* Everything that has arrived from node m. */
static void link_receive(charl_comm *c, int m)
{
    connection *k = &c->links->link[m];

    while (k->state == GREETING || k->state == UP || k->state == DEAF) {
        const size_t want =
            k->state == GREETING ? sizeof(greeting) : charl__report_bytes(charl__node_size(c, m));
        const ssize_t n = recv(k->fd, k->in.bytes + k->received, want - k->received, 0);

        if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
            return;
        }
        if (n <= 0) {
            link_lost(c, m, n == 0 || errno == ECONNRESET);
            return;
        }
        k->received = (k->received + (size_t)n) % want;
        if (k->received == 0 && k->state == UP) {
            report_read(c, m);
        } else if (k->received == 0 && k->state == GREETING) {
            greeting_read(c->links, m);
        }
    }
}

/* A connection attempt has ended, well or not. */
static void link_greet(charl__links *l, int m)
{
    connection *k = &l->link[m];
    const greeting mine = {.token = l->place[m].token[0], .from = l->node, .to = m};
    int err = 0;
    socklen_t length = sizeof err;

    if (getsockopt(k->fd, SOL_SOCKET, SO_ERROR, &err, &length) != 0 || err != 0) {
        link_set(k, IDLE);
        return;
    }
    link_set(k, GREETING);
    link_say(k, &mine, sizeof mine);
    if (!link_push(k)) {
        link_set(k, IDLE);
    }
}

static void stranger_drop(charl__links *l, int i, bool close_it)
{
    if (close_it) {
        charl__link_close(&l->strangers[i].fd);
    }
    l->strangers[i] = l->strangers[--l->n_strangers];
}

static void stranger_accept(charl__links *l)
{
    const int fd = accept(l->listener, NULL, NULL);

    if (fd < 0) {
        return;
    }
    if (l->n_strangers == STRANGERS || charl__acquire("connection") != CHARL_OK) {
        close(fd);
        return;
    }
    fcntl(fd, F_SETFL, O_NONBLOCK);
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    l->strangers[l->n_strangers++] = (stranger){.fd = fd, .since_s = charl__clock_s()};
}

/* A stranger who says the token becomes the link of the node that it says it is. */
static void stranger_hear(charl_comm *c, int i)
{
    charl__links *l = c->links;
    stranger *s = &l->strangers[i];
    const ssize_t n =
        recv(s->fd, (unsigned char *)&s->words + s->received, sizeof s->words - s->received, 0);
    const int m = s->words.from;
    greeting mine;

    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    s->received += n > 0 ? (size_t)n : 0;
    if (n > 0 && s->received < sizeof s->words) {
        return;
    }
    if (n <= 0 || s->words.token != l->place[l->node].token[0] || s->words.to != l->node ||
        m <= l->node || m >= c->n_nodes || l->link[m].state != IDLE) {
        stranger_drop(l, i, true);
        return;
    }
    mine = (greeting){.token = l->place[m].token[1], .from = l->node, .to = m};
    l->link[m].fd = s->fd;
    stranger_drop(l, i, false);
    link_set(&l->link[m], UP);
    link_say(&l->link[m], &mine, sizeof mine);
    if (!link_push(&l->link[m])) {
        link_set(&l->link[m], IDLE);
    }
}

/* Places in the set that poll looks at; a descriptor of -1 is passed over. */
enum { WAKE, LISTENER, FIRST_STRANGER, FIRST_LINK = FIRST_STRANGER + STRANGERS, POLLED };

static int poll_set(const charl_comm *c, int wake, struct pollfd *p)
{
    const charl__links *l = c->links;

    p[WAKE] = (struct pollfd){.fd = wake, .events = POLLIN};
    if (!l) {
        return 1;
    }
    p[LISTENER] = (struct pollfd){.fd = l->listener, .events = POLLIN};
    for (int i = 0; i < STRANGERS; i++) {
        p[FIRST_STRANGER + i] =
            (struct pollfd){.fd = i < l->n_strangers ? l->strangers[i].fd : -1, .events = POLLIN};
    }
    for (int m = 0; m < c->n_nodes; m++) {
        const connection *k = &l->link[m];
        const bool writes = k->state == CONNECTING || k->to_send > 0;

        p[FIRST_LINK + m] = (struct pollfd){.fd = k->fd,
                                            .events = (short)(k->state == CONNECTING ? POLLOUT
                                                              : writes ? POLLIN | POLLOUT
                                                                       : POLLIN)};
    }
    return FIRST_LINK + c->n_nodes;
}

static void poll_serve(charl_comm *c, const struct pollfd *p)
{
    charl__links *l = c->links;

    for (int m = 0; m < c->n_nodes; m++) {
        connection *k = &l->link[m];

        if (k->fd < 0 || p[FIRST_LINK + m].fd != k->fd || !p[FIRST_LINK + m].revents) {
            continue;
        }
        if (k->state == CONNECTING) {
            link_greet(l, m);
        } else {
            link_receive(c, m);
            if (k->to_send > 0 && !link_push(k)) {
                link_lost(c, m, errno == ECONNRESET || errno == EPIPE);
            }
        }
    }
    for (int i = l->n_strangers - 1; i >= 0; i--) { /* dropping one moves the last, done already */
        if (p[FIRST_STRANGER + i].revents) {
            stranger_hear(c, i);
        }
    }
    if (p[LISTENER].revents) {
        stranger_accept(l);
    }
}

/* What time brings: attempts, and giving up. */
static void upkeep(charl_comm *c)
{
    charl__links *l = c->links;
    const double now = charl__clock_s();
    bool expects = false;

    l->begun_s = l->begun_s > 0 ? l->begun_s : now;
    for (int m = 0; m < c->n_nodes; m++) {
        connection *k = &l->link[m];

        if ((k->state == CONNECTING || k->state == GREETING) && now - k->since_s > try_s) {
            link_set(k, IDLE);
        }
        if (k->state == IDLE && m < l->node) {
            if (l->place[m].n == 0 || now - l->begun_s > connect_s) {
                link_give_up(c, m);
            } else {
                link_connect(l, m);
            }
        }
        expects = expects || (k->state == IDLE && m > l->node && now - l->begun_s < connect_s);
    }
    for (int i = l->n_strangers - 1; i >= 0; i--) {
        if (now - l->strangers[i].since_s > try_s) {
            stranger_drop(l, i, true);
        }
    }
    if (!expects) {
        charl__link_close(&l->listener);
    }
}

void charl__links_turn(charl_comm *c, int wake, double until_s)
{
    charl__links *l = c->links;
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
            memset(p, 0, sizeof p); /* interrupted: nothing is known */
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

/* Wait for the others to end the connections: closed before they have read everything, TCP might
 * take the last words back. */
static void ends_await(const charl_comm *c)
{
    charl__links *l = c->links;
    struct pollfd p[CHARL_MAX_SLICES];
    unsigned char ignored[256];
    const double until = charl__clock_s() + goodbye_s;
    int open = 1;

    while (open > 0 && charl__clock_s() < until) {
        open = 0;
        for (int m = 0; m < c->n_nodes; m++) {
            connection *k = &l->link[m];
            ssize_t n = -1;

            while (k->fd >= 0 && (n = recv(k->fd, ignored, sizeof ignored, 0)) > 0) {
            }
            if (k->fd >= 0 && (n == 0 || errno != EAGAIN)) {
                link_set(k, OVER);
            }
            p[m] = (struct pollfd){.fd = k->fd, .events = POLLIN};
            open += k->fd >= 0;
        }
        (void)poll(p, (nfds_t)c->n_nodes, open > 0 ? 10 : 0);
    }
}

void charl__links_tell(charl_comm *c, bool goodbye)
{
    charl__links *l = c->links;
    charl__report r;

    if (!l) {
        return;
    }
    charl__report_make(c, goodbye, &r);
    pthread_mutex_lock(&l->mutex);
    for (int m = 0; m < c->n_nodes; m++) {
        connection *k = &l->link[m];

        if (k->state != UP && k->state != DEAF) {
            if (goodbye) {
                link_set(k, OVER);
            }
            continue;
        }
        if (k->to_send == 0 || goodbye) { /* else the last one has not even left */
            link_say(k, &r, charl__report_bytes(r.ranks));
        }
        if (!link_push(k)) {
            link_lost(c, m, errno == ECONNRESET || errno == EPIPE);
        } else if (goodbye) {
            (void)shutdown(k->fd, SHUT_WR);
        }
    }
    if (goodbye) {
        ends_await(c);
    }
    pthread_mutex_unlock(&l->mutex);
}
