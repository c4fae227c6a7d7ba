/* The watchdog: a thread that checks the processes of the node's other ranks ten times a second and,
 * on the first rank of a node, exchanges heartbeats with the other nodes (heartbeat.c). It makes no
 * MPI calls. All signals are blocked in it, so that the program's signal thread gets them. */
#include "dist/comm_private.h"

#include <signal.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "dist/liveness/heartbeat_message.h"
#include "dist/liveness/heartbeat.h"

static const double period_s = 0.1;
static const double unseen_s = 10; /* silence that ends a rank whose process cannot be inspected */
/* A rank of another node is reported there first, if any rank is left there, and the launcher then
 * ends the job; else by one node after the other. */
static const double others_s = 3, turn_s = 0.3;

typedef struct charl__watch {
    charl_comm *c;
    charl_comm_on_death on_death;
    void *ctx;
    pthread_t thread;
    int wake; /* descriptor of an event */
    atomic_bool stop;
    int looked;                 /* peers of the node checked so far, in turn */
    int64_t *beat;              /* [size]: last seen */
    double *changed_s, *dead_s; /* [size] */
    int64_t life;               /* of all ranks, this one too; as it was for the first time at still_since_s */
    double still_since_s;
} charl__watch;

/* In a separate container a rank shares memory but not process IDs: its watchdog thread must
 * be heard. */
static bool is_unheard(charl__watch *w, int rank)
{
    const charl__slot *s = charl__slot_of(w->c, rank);
    const int64_t beat = atomic_load(&s->beat);
    const double now = charl__clock_s();

    if (rank == w->c->rank || w->c->is_visible[rank] || beat == 0 || atomic_load(&s->leaving)) {
        return false;
    }
    if (beat != w->beat[rank]) {
        w->beat[rank] = beat;
        w->changed_s[rank] = now;
    }
    return now - w->changed_s[rank] > unseen_s;
}

/* Whether it is time to report a rank. */
static bool is_lost(charl__watch *w, int rank)
{
    const charl_comm *c = w->c;
    const int node = c->peer[rank].node, here = charl__comm_node(c);
    const double now = charl__clock_s();

    if (!charl__peer_is_dead(c, rank)) {
        w->dead_s[rank] = now;
        return is_unheard(w, rank);
    }
    return node == here ||
           now - w->dead_s[rank] > (charl__node_size(c, node) > 1 ? others_s : turn_s * charl__turn(c, rank));
}

/* Whether a rank of this node is checked now, by this or another rank of the node. */
static bool is_its_turn(const charl__watch *w, int rank)
{
    const charl_comm *c = w->c;
    const int n = c->local_size, behind = rank - c->rank + n; /* in the order of the ranks */

    return c->peer[rank].node != charl__comm_node(c) || (behind + n - w->looked) % n < charl__looks(c);
}

static void report(charl__watch *w, int rank)
{
    charl_comm *c = w->c;
    char name[160], place[96], text[320];
    const charl__slot *s = charl__slot_of(c, rank);

    snprintf(text, sizeof text, "%s died at or near %s", charl__peer_name(c, rank, name, sizeof name),
             charl__peer_place(c, rank, place, sizeof place));
    atomic_store(&c->dead, rank); /* before on_death, which may not return: the thread of this rank notices it, too */
    if (w->on_death) {
        w->on_death(w->ctx, &(charl_comm_death){.rank = rank, .step = atomic_load(&s->step), .message = text});
    }
}

/* Whether nothing that any rank publishes has changed for too long. Waiting ranks detect that much
 * earlier themselves, unless they wait without a deadline. */
static bool is_all_still(charl__watch *w)
{
    const int64_t life = charl__life_sum(w->c, -1);
    const double now = charl__clock_s();

    if (life != w->life || w->c->still_s <= 0) {
        w->life = life;
        w->still_since_s = now;
    }
    return now - w->still_since_s > w->c->still_s;
}

static void report_all(charl__watch *w)
{
    const charl_comm *c = w->c;
    char text[1400];
    size_t used = 0;
    const int head = snprintf(text, sizeof text, "no rank has moved for %.0f s: ", c->still_s);

    for (int r = 0; r < c->size; r++) {
        used = charl__peer_describe(c, r, text + head, sizeof text - (size_t)head, used);
    }
    if (w->on_death) {
        w->on_death(w->ctx, &(charl_comm_death){.rank = -1, .step = atomic_load(&c->me->step), .message = text});
    }
}

static void *watch_run(void *arg)
{
    charl__watch *w = arg;
    charl_comm *c = w->c;
    bool is_reported = false;

    while (!atomic_load(&w->stop) && !is_reported) {
        charl__heartbeat_poll(c, w->wake, charl__clock_s() + period_s);
        atomic_fetch_add(&c->me->beat, 1);
        charl__heartbeat_send(c, false);
        for (int r = 0; r < c->size && !atomic_load(&w->stop) && !is_reported; r++) {
            if (is_its_turn(w, r) && is_lost(w, r)) {
                report(w, r);
                is_reported = true;
            }
        }
        w->looked = (w->looked + charl__looks(c)) % c->local_size;
        if (!is_reported && is_all_still(w)) {
            report_all(w);
            is_reported = true;
        }
    }
    charl__heartbeat_send(c, true);
    return NULL;
}

static charl_status thread_start(charl__watch *w)
{
    sigset_t all, old;
    int err;

    CHARL_TRY(charl__acquire("watching thread"));
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    err = pthread_create(&w->thread, NULL, watch_run, w);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (err != 0) {
        charl__drop();
        CHARL_FAIL(CHARL_ERR_NOMEM, "cannot start the thread that watches the other ranks (error %d)", err);
    }
    return CHARL_OK;
}

static void watch_free(charl__watch *w)
{
    if (w) {
        if (w->wake >= 0) {
            close(w->wake);
            charl__drop();
        }
        charl_free(w->beat);
        charl_free(w->changed_s);
        charl_free(w->dead_s);
        charl_free(w);
    }
}

static charl_status wake_create(charl__watch *w)
{
    CHARL_TRY(charl__acquire("descriptor of an event"));
    w->wake = eventfd(0, EFD_CLOEXEC);
    if (w->wake < 0) {
        charl__drop();
        CHARL_FAIL(CHARL_ERR_NOMEM, "no descriptor for the thread that watches the other ranks");
    }
    return CHARL_OK;
}

charl_status charl_comm_watch_begin(charl_comm *c, charl_comm_on_death on_death, void *ctx)
{
    CHARL_GIVEN(c);
    CHARL_GIVEN(on_death || c->size == 1);
    charl_status st = CHARL_OK;
    charl__watch *w = NULL;

    CHARL_REQUIRE_CLEANUP(!c->watch, CHARL_ERR_INVALID, "a watchdog is already running");
    CHARL_TRY_CLEANUP(charl__alloc(sizeof *w, &w));
    w->c = c;
    w->on_death = on_death;
    w->ctx = ctx;
    w->wake = -1;
    w->life = -1;
    CHARL_TRY_CLEANUP(charl__alloc_array(c->size, sizeof *w->beat, &w->beat));
    CHARL_TRY_CLEANUP(charl__alloc_array(c->size, sizeof *w->changed_s, &w->changed_s));
    CHARL_TRY_CLEANUP(charl__alloc_array(c->size, sizeof *w->dead_s, &w->dead_s));
    for (int r = 0; r < c->size; r++) {
        w->changed_s[r] = w->dead_s[r] = charl__clock_s();
    }
    CHARL_TRY_CLEANUP(wake_create(w));
    CHARL_TRY_CLEANUP(thread_start(w));
    c->watch = w;
    w = NULL;
cleanup:
    watch_free(w);
    return st;
}

void charl_comm_watch_end(charl_comm *c)
{
    if (!c) {
        return;
    }
    charl__watch *w = c->watch;

    if (!w) {
        return;
    }
    c->watch = NULL;
    atomic_store(&w->stop, true);
    (void)eventfd_write(w->wake, 1);
    pthread_join(w->thread, NULL);
    charl__drop();
    watch_free(w);
}
