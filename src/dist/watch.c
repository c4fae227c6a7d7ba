/* A thread that looks at the processes of the node's other ranks ten times a second. It makes no
 * MPI call, and all signals are blocked in it: the program's signal thread must get them. */
#include "dist/comm_private.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>

#include "base/alloc.h"
#include "base/clock.h"

enum { PERIOD_MS = 100 };
static const double unseen_s = 10; /* silence that ends a rank whose process cannot be looked at */

typedef struct charl__watch {
    charl_comm *c;
    charl_comm_on_death on_death;
    void *ctx;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t wake;
    bool stop;
    int64_t beat[CHARL_MAX_SLICES]; /* last seen, by local rank */
    double changed_s[CHARL_MAX_SLICES];
} charl__watch;

/* In a container of its own a rank shares memory but not process numbers: its watching thread must
 * be heard. */
static bool is_unheard(charl__watch *w, int local, int rank)
{
    charl__slot *s = &w->c->board->slot[local];
    const int64_t beat = atomic_load(&s->beat);
    const double now = charl__clock_s();

    if (rank == w->c->rank || w->c->is_visible[rank] || beat == 0 || atomic_load(&s->leaving)) {
        return false;
    }
    if (beat != w->beat[local]) {
        w->beat[local] = beat;
        w->changed_s[local] = now;
    }
    return now - w->changed_s[local] > unseen_s;
}

static void report(charl__watch *w, int rank)
{
    charl_comm *c = w->c;
    char name[160], place[96], text[320];
    const charl__slot *s = &c->board->slot[c->peer[rank].local_rank];

    snprintf(text, sizeof text, "%s died at or near %s",
             charl__peer_name(c, rank, name, sizeof name),
             charl__peer_place(c, rank, place, sizeof place));
    if (w->on_death) {
        w->on_death(w->ctx, &(charl_comm_death){
                                .rank = rank, .step = atomic_load(&s->step), .message = text});
    }
    atomic_store(&c->dead, rank);
}

static void *watch_run(void *arg)
{
    charl__watch *w = arg;
    charl_comm *c = w->c;
    struct timespec until;
    bool is_reported = false;

    pthread_mutex_lock(&w->mutex);
    while (!w->stop && !is_reported) {
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += PERIOD_MS * 1000000L;
        until.tv_sec += until.tv_nsec / 1000000000L;
        until.tv_nsec %= 1000000000L;
        while (!w->stop && pthread_cond_timedwait(&w->wake, &w->mutex, &until) != ETIMEDOUT) {
        }
        atomic_fetch_add(&c->me->beat, 1);
        for (int l = 0; l < c->local_size && !w->stop && !is_reported; l++) {
            const int rank = charl__comm_local_peer(c, l);

            if (charl__peer_is_dead(c, rank) || is_unheard(w, l, rank)) {
                report(w, rank);
                is_reported = true;
            }
        }
    }
    pthread_mutex_unlock(&w->mutex);
    return NULL;
}

static charl_status thread_start(charl__watch *w)
{
    charl_status st = CHARL_OK;
    sigset_t all, old;
    int err;

    CHARL_TRY(charl__acquire("watching thread"));
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    err = pthread_create(&w->thread, NULL, watch_run, w);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (err != 0) {
        charl__drop();
        CHARL_FAIL(CHARL_ERR_NOMEM,
                   "cannot start the thread that watches the other ranks (error %d)", err);
    }
cleanup:
    return st;
}

static void watch_free(charl__watch *w)
{
    if (w) {
        pthread_cond_destroy(&w->wake);
        pthread_mutex_destroy(&w->mutex);
        charl_free(w);
    }
}

charl_status charl_comm_watch_begin(charl_comm *c, charl_comm_on_death on_death, void *ctx)
{
    charl_status st = CHARL_OK;
    charl__watch *w = NULL;
    pthread_condattr_t attr;

    CHARL_REQUIRE(!c->watch, CHARL_ERR_INVALID, "the other ranks are watched already");
    CHARL_TRY(charl_alloc(sizeof *w, &w));
    w->c = c;
    w->on_death = on_death;
    w->ctx = ctx;
    for (int l = 0; l < CHARL_MAX_SLICES; l++) {
        w->changed_s[l] = charl__clock_s();
    }
    pthread_mutex_init(&w->mutex, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&w->wake, &attr);
    pthread_condattr_destroy(&attr);
    CHARL_TRY(thread_start(w));
    c->watch = w;
    w = NULL;
cleanup:
    watch_free(w);
    return st;
}

void charl_comm_watch_end(charl_comm *c)
{
    charl__watch *w = c->watch;

    if (!w) {
        return;
    }
    c->watch = NULL;
    pthread_mutex_lock(&w->mutex);
    w->stop = true;
    pthread_cond_signal(&w->wake);
    pthread_mutex_unlock(&w->mutex);
    pthread_join(w->thread, NULL);
    charl__drop();
    watch_free(w);
}
