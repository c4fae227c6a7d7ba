/* Waiting for others: spin, then yield, then sleep; and deciding when to stop and whom to blame.
 *
 * A job is stalled if nothing that any other rank publishes (marks, collectives entered) has changed for
 * the timeout. Of the ranks that are then late, those that wait themselves are not to blame. Ranks
 * of other nodes publish the same, through dist/liveness/heartbeat.c; but their own node, which knows more,
 * may report first. */
#include "dist/comm_private.h"

#include <fcntl.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "dist/consensus.h"

enum { LOOK_EVERY = 64, RECENT_MS = 1000, FEW = 16, LOOKS = 256, LAST_TURN = 24 /* of the most nodes: 2 * log2 */ };
enum { MESSAGE_YIELDS = 200000 }; /* some tenths of a second */
static const double patience_s = 2, turn_s = 0.3, look_s = 0.1;

bool charl__process_read(const charl__peer *peer, char *state, int64_t *started)
{
    char path[64], text[1024];
    const char *p;
    ssize_t n;
    int fd;

    /* the thread's own: what is of a process costs more with each of its threads */
    snprintf(path, sizeof path, "/proc/%lld/task/%lld/stat", (long long)peer->pid, (long long)peer->task);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    n = read(fd, text, sizeof text - 1);
    close(fd);
    if (n <= 0) {
        return false;
    }
    text[n] = '\0';
    p = strrchr(text, ')'); /* the name may hold anything, also brackets */
    if (!p || p[1] == '\0') {
        return false;
    }
    *state = p[2];
    p += 2;
    for (int field = 3; field < 22 && p; field++) {
        p = strchr(p + 1, ' ');
    }
    *started = p ? (int64_t)strtoll(p, NULL, 10) : 0;
    return true;
}

static bool is_local(const charl_comm *c, int rank)
{
    return c->peer[rank].leader == c->peer[c->rank].leader;
}

int64_t charl__now_ms(void)
{
    return (int64_t)(charl__clock_s() * 1e3);
}

/* Its node was heard before and no longer is. */
static bool is_unheard(const charl_comm *c, int rank)
{
    const int64_t heard = c->me ? atomic_load(&charl__slot_of(c, rank)->heard_ms) : 0;

    return heard > 0 && charl__now_ms() - heard > RECENT_MS;
}

bool charl__peer_is_waiting(const charl_comm *c, int rank)
{
    return charl__now_ms() - atomic_load(&charl__slot_of(c, rank)->waited_ms) < RECENT_MS && !is_unheard(c, rank);
}

int charl__turn(const charl_comm *c, int rank)
{
    const int node = charl__comm_node(c), way = rank < 0 ? 0 : (node - c->peer[rank].node + c->n_nodes) % c->n_nodes;

    if (c->n_nodes <= CHARL__MESH) {
        return node;
    }
    for (int i = 0; i < LAST_TURN / 2; i++) {
        if (way == 1 << i || c->n_nodes - way == 1 << i) {
            return 2 * i + (way != 1 << i);
        }
    }
    return LAST_TURN;
}

int charl__looks(const charl_comm *c)
{
    return c->local_size <= FEW ? c->local_size : c->local_size < LOOKS ? LOOKS / c->local_size : 1;
}

bool charl__peer_is_dead(const charl_comm *c, int rank)
{
    char state = '?';
    int64_t started = 0;

    if (!is_local(c, rank)) {
        return atomic_load(&charl__slot_of(c, rank)->state) == 'X' && !atomic_load(&charl__slot_of(c, rank)->leaving);
    }
    if (rank == c->rank || !c->is_visible[rank] || atomic_load(&charl__slot_of(c, rank)->leaving)) {
        return false;
    }
    if (charl__process_read(&c->peer[rank], &state, &started) && started == c->peer[rank].started && state != 'Z' &&
        state != 'X') {
        return false;
    }
    return !atomic_load(&charl__slot_of(c, rank)->leaving); /* it may have reported so just before its end */
}

const char *charl__peer_name(const charl_comm *c, int rank, char *text, size_t bytes)
{
    snprintf(text, bytes, "rank %d of %d (%s, pid %lld)", rank, c->size, c->peer[rank].host,
             (long long)c->peer[rank].pid);
    return text;
}

const char *charl__peer_place(const charl_comm *c, int rank, char *text, size_t bytes)
{
    const charl__slot *s = c->me ? charl__slot_of(c, rank) : NULL;
    uint_least64_t words[CHARL__PHASE_WORDS];
    char phase[sizeof words + 1];

    if (!s || atomic_load(&s->marks) == 0) {
        snprintf(text, bytes, "start-up");
        return text;
    }
    for (int i = 0; i < CHARL__PHASE_WORDS; i++) {
        words[i] = atomic_load_explicit(&s->phase[i], memory_order_relaxed);
    }
    memcpy(phase, words, sizeof words);
    phase[sizeof words] = '\0';
    if (atomic_load(&s->step) == 0) {
        snprintf(text, bytes, "%s", phase);
    } else {
        snprintf(text, bytes, "step %lld%s%s", (long long)atomic_load(&s->step), phase[0] ? ", " : "", phase);
    }
    return text;
}

const char *charl__comm_place(const charl_comm *c, int rank, char *text, size_t bytes)
{
    char name[160], place[96];
    bool is_known;

    if (!c || !text || rank < 0 || rank >= c->size) {
        return "";
    }
    is_known = is_local(c, rank) || (c->me && atomic_load(&charl__slot_of(c, rank)->heard_ms) > 0);

    snprintf(text, bytes, "%s%s%s", charl__peer_name(c, rank, name, sizeof name), is_known ? ", " : "",
             is_known ? charl__peer_place(c, rank, place, sizeof place) : "");
    return text;
}

void charl_comm_mark(charl_comm *c, int64_t step, const char *phase)
{
    if (!c) {
        return;
    }
    uint_least64_t words[CHARL__PHASE_WORDS] = {0};

    if (phase) {
        snprintf((char *)words, sizeof words, "%s", phase);
        for (int i = 0; i < CHARL__PHASE_WORDS; i++) {
            atomic_store_explicit(&c->me->phase[i], words[i], memory_order_relaxed);
        }
        atomic_store_explicit(&c->me->step, step, memory_order_relaxed);
    }
    atomic_fetch_add(&c->me->marks, 1);
}

charl_status charl__comm_check(charl_comm *c)
{
    CHARL_TRY(charl__owner_check(&c->owner, "communicator"));
    CHARL_REQUIRE(!c->is_broken, CHARL_ERR_COMM, "the connection between the ranks was lost earlier");
    return CHARL_OK;
}

void charl__comm_enter(charl_comm *c)
{
    if (c->me) {
        atomic_fetch_add(&c->me->entered, 1);
    }
}

int64_t charl__life_sum(const charl_comm *c, int without)
{
    int64_t sum = c->me ? atomic_load(&c->board->pulse) : 0;

    for (int r = 0; c->me && r < c->size; r++) { /* without a page no progress is visible */
        if (r != without) {
            sum += atomic_load(&charl__slot_of(c, r)->marks) + atomic_load(&charl__slot_of(c, r)->entered);
        }
    }
    return sum;
}

void charl__wait_start(charl_comm *c, charl__waiter *w, const char *what, bool (*late)(const void *, int),
                       const void *arg)
{
    (void)c;
    *w = (charl__waiter){.what = what, .late = late, .arg = arg};
}

/* Letter of /proc: for this node's ranks the current one, else the one last reported by their node. */
static char state_letter(const charl_comm *c, int rank)
{
    char state = 'X';
    int64_t started = 0;

    if (!is_local(c, rank)) {
        return (char)atomic_load(&charl__slot_of(c, rank)->state);
    }
    if (c->is_visible[rank]) {
        charl__process_read(&c->peer[rank], &state, &started);
        return state;
    }
    return '\0';
}

/* This node hears others through its first rank: while that is stopped, their silence means nothing. */
static bool is_deaf(const charl_comm *c)
{
    const int first = c->rank - c->local_rank;
    const char state = first != c->rank ? state_letter(c, first) : '\0';

    return state == 'T' || state == 't';
}

static bool is_late(const charl_comm *c, const charl__waiter *w, int rank)
{
    if (!c->me || rank == c->rank) {
        return false;
    }
    if (is_unheard(c, rank)) {
        return !is_deaf(c);
    }
    if (!w->late && !is_local(c, rank) && atomic_load(&charl__slot_of(c, rank)->heard_ms) == 0) {
        return false; /* nothing is known about it */
    }
    return w->late ? w->late(w->arg, rank)
                   : atomic_load(&charl__slot_of(c, rank)->entered) < atomic_load(&c->me->entered);
}

/* Whom to blame, in descending order: ranks that are late without waiting for others; late ranks;
 * all ranks about which something is known: they wait too, elsewhere. */
enum { CULPRIT, LATE, KNOWN };

static bool is_blamed(const charl_comm *c, const charl__waiter *w, int rank, int level)
{
    if (level == KNOWN) {
        return c->me && rank != c->rank && (is_local(c, rank) || atomic_load(&charl__slot_of(c, rank)->heard_ms) > 0);
    }
    return is_late(c, w, rank) && (level == LATE || !charl__peer_is_waiting(c, rank));
}

/* The first one of the n ranks from `first` on, or -1. */
static int find_culprit(const charl_comm *c, const charl__waiter *w, int first, int n)
{
    for (int r = first; r < first + n; r++) {
        if (is_blamed(c, w, r, CULPRIT)) {
            return r;
        }
    }
    return -1;
}

static const char *state_text(const charl_comm *c, int rank, char *text, size_t bytes)
{
    const int64_t heard = atomic_load(&charl__slot_of(c, rank)->heard_ms);

    if (atomic_load(&charl__slot_of(c, rank)->leaving)) {
        return "has left";
    }
    if (is_unheard(c, rank)) {
        snprintf(text, bytes, "its node silent for %.0f s", (double)(charl__now_ms() - heard) * 1e-3);
        return text;
    }
    switch (state_letter(c, rank)) {
    case '\0':
        return is_local(c, rank) ? "in another container" : "on another node";
    case 'T':
    case 't':
        return "stopped by a signal";
    case 'Z':
    case 'X':
        return "dead";
    case 'D':
        return "blocked in the kernel";
    case 'R':
        return "running elsewhere";
    default:
        return "sleeping";
    }
}

static charl_status fail_dead(charl_comm *c, const charl__waiter *w, int rank)
{
    char name[160], place[96];

    c->is_broken = true;
    CHARL_FAIL(CHARL_ERR_COMM, "%s died at or near %s (noticed in: %s)", charl__peer_name(c, rank, name, sizeof name),
               charl__peer_place(c, rank, place, sizeof place), w->what);
    return CHARL_OK;
}

/* Another rank ends the job, by an error of its own: the launcher is about to end this one. A rank that has died is named instead. */
static charl_status fail_told(charl_comm *c, const charl__waiter *w)
{
    for (int i = 0; i < c->local_size; i++) {
        if (charl__peer_is_dead(c, charl__comm_local_peer(c, i))) {
            CHARL_TRY(fail_dead(c, w, charl__comm_local_peer(c, i)));
        }
    }
    c->is_broken = c->is_told = true;
    CHARL_FAIL(CHARL_ERR_COMM, "another rank has ended the job (noticed in: %s)", w->what);
    return CHARL_OK;
}

size_t charl__peer_describe(const charl_comm *c, int rank, char *text, size_t bytes, size_t used)
{
    char name[160], place[96], state[64];
    int n;

    if (used + 300 > bytes) {
        return used;
    }
    n = snprintf(text + used, bytes - used, "%s%s: %s, last seen in %s", used ? "; " : "",
                 charl__peer_name(c, rank, name, sizeof name), state_text(c, rank, state, sizeof state),
                 charl__peer_place(c, rank, place, sizeof place));
    return used + (size_t)n;
}

static charl_status fail_silent(charl_comm *c, const charl__waiter *w, double silent_s)
{
    char text[1024] = "", mine[CHARL__COMM_PLACE];
    size_t used = 0;

    c->is_broken = true;
    for (int level = CULPRIT; level <= KNOWN && used == 0; level++) {
        for (int r = 0; r < c->size; r++) {
            if (is_blamed(c, w, r, level)) {
                used = charl__peer_describe(c, r, text, sizeof text, used);
            }
        }
    }
    CHARL_FAIL(CHARL_ERR_COMM, "%s, %s: no progress for %.0f s, waiting for %s",
               charl__comm_place(c, c->rank, mine, sizeof mine), w->what, silent_s,
               used ? text : "a rank of another node");
    return CHARL_OK;
}

/* Whether the wait is over: at once if the culprit is on this node, else after the other nodes
 * had time to report, one after another; of many nodes first those connected to the culprit. */
static bool is_hopeless(const charl_comm *c, const charl__waiter *w, double still_s)
{
    const double over = still_s - c->timeout_s;

    if (over < 0 || c->n_nodes <= 1 || find_culprit(c, w, c->rank - c->local_rank, c->local_size) >= 0) {
        return over >= 0;
    }
    return over >= patience_s + turn_s * charl__turn(c, find_culprit(c, w, 0, c->size));
}

/* The expensive check: every 64 polls, or after every sleep. */
static charl_status look(charl_comm *c, charl__waiter *w)
{
    const double now = charl__clock_s();
    const int dead = atomic_load(&c->dead);
    int64_t life;

    if (c->me) {
        atomic_store_explicit(&c->me->waited_ms, (int64_t)(now * 1e3), memory_order_relaxed);
    }
    if (dead >= 0) {
        CHARL_TRY(fail_dead(c, w, dead));
    }
    if (c->me && atomic_load(&c->board->has_reported)) {
        CHARL_TRY(fail_told(c, w));
    }
    if (w->start_s <= 0) {
        w->start_s = w->still_since_s = w->looked_s = now;
        w->life = charl__life_sum(c, c->rank);
    }
    if (now - w->looked_s < look_s * (1 + c->local_size / LOOKS) && now - w->looked_s < c->timeout_s / 4) {
        return CHARL_OK;
    }
    w->looked_s = now;
    life = charl__life_sum(c, c->rank);
    if (life != w->life) {
        w->life = life;
        w->still_since_s = now;
    }
    for (int i = 0; c->me && i < charl__looks(c); i++) {
        const int r = charl__comm_local_peer(c, (c->local_rank + c->looked) % c->local_size);

        c->looked = (c->looked + 1) % c->local_size;
        if (charl__peer_is_dead(c, r)) {
            CHARL_TRY(fail_dead(c, w, r));
        }
    }
    if (is_hopeless(c, w, now - w->still_since_s)) {
        CHARL_TRY(fail_silent(c, w, now - w->still_since_s));
    }
    return CHARL_OK;
}

charl_status charl__wait_look(charl_comm *c, charl__waiter *w, bool has_deadline)
{
    if (!has_deadline) {
        w->start_s = 0; /* it begins anew */
    }
    return look(c, w);
}

static void cpu_relax(void)
{
#if defined(__GNUC__) && (defined(__x86_64__) || defined(__i386__))
    __builtin_ia32_pause();
#endif
}

charl_status charl__wait_pause(charl_comm *c, charl__waiter *w)
{
    const bool stays_awake = w->has_messages && c->spins > 0; /* no other rank wants this core */
    const int64_t polls = ++w->polls - c->spins, yields = stays_awake ? MESSAGE_YIELDS : c->yields;

    if (polls <= 0) {
        cpu_relax();
    } else if (polls <= yields) {
        sched_yield();
    } else {
        const double naps = polls <= 2 * yields ? 0.1 : (double)(polls - 2 * yields);

        /* Simulated ranks that all wait for long do so in growing steps: a minute passes in about a hundred of them. One that waits for
         * other processes does not nap: they run in real time. */
        if (c->is_team) {
            charl__clock_nap_s(fmin(naps, 1) * c->nap_s, naps * c->nap_s);
        } else {
            charl__sleep_s(fmin(naps, 1) * c->nap_s);
        }
    }
    if (polls > yields || (polls > 0 && polls % LOOK_EVERY == 0)) {
        CHARL_TRY(look(c, w));
    }
    return CHARL_OK;
}

charl_status charl__comm_finish(charl_comm *c, charl__group *g, charl__request *request, const char *what)
{
    charl_status st = CHARL_OK;
    charl__waiter w;
    bool is_complete = false;

    charl__wait_start(c, &w, what, NULL, NULL);
    for (;;) {
        CHARL_TRY_CLEANUP(g->transport->test(g, request, &is_complete));
        if (is_complete) {
            break;
        }
        CHARL_TRY_CLEANUP(charl__wait_pause(c, &w));
    }
cleanup:
    if (st != CHARL_OK) {
        c->is_broken = true;
        charl__group_withdraw(g);
    }
    return st;
}
