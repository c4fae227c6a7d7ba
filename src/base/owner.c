#include "base/owner.h"

#include <pthread.h>
#include <unistd.h>

static _Thread_local uint64_t number; /* of this thread; 0: none yet */
static _Atomic(uint64_t) numbers;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void on_fork(void)
{
    number = 0; /* another thread, although it has copied the parent thread's stack and variables */
}

static void watch_forks(void)
{
    (void)pthread_atfork(NULL, NULL, on_fork);
}

static uint64_t self(void)
{
    if (number == 0) {
        number = atomic_fetch_add(&numbers, 1) + 1;
    }
    return number;
}

void charl__owner_init(charl__owner *o)
{
    pthread_once(&once, watch_forks);
    atomic_store(&o->thread, 0);
    o->pid = (long)getpid();
}

void charl__owner_acquire(charl__owner *o)
{
    if (o->pid == (long)getpid()) {
        atomic_store(&o->thread, self());
    }
}

/* Become the owner of an object without one. False: another thread owns it. */
static bool acquire(charl__owner *o, uint64_t me)
{
    uint64_t none = 0;

    return o->pid == (long)getpid() && atomic_compare_exchange_strong(&o->thread, &none, me);
}

static charl_status refuse(const charl__owner *o, const char *what, const char *hint)
{
    CHARL_REQUIRE(o->pid == (long)getpid(), CHARL_ERR_INVALID,
                  "the %s was made by process %ld, and this one was forked from it: its threads stayed there; HINT "
                  "make it after the fork",
                  what, o->pid);
    CHARL_FAIL(CHARL_ERR_INVALID, "the %s %s", what, hint);
}

charl_status charl__owner_check(charl__owner *o, const char *what)
{
    const uint64_t me = self();

    return atomic_load_explicit(&o->thread, memory_order_relaxed) == me || acquire(o, me)
               ? CHARL_OK
               : refuse(o, what, "belongs to another thread, which used it first; HINT one for each thread");
}

charl_status charl__owner_check_process(const charl__owner *o, const char *what)
{
    return o->pid == (long)getpid() ? CHARL_OK : refuse(o, what, "");
}

charl_status charl__owner_enter(charl__owner *o, const char *what)
{
    return acquire(o, self())
               ? CHARL_OK
               : refuse(o, what, "is in use by another thread; HINT one for each thread, or a lock around each call");
}

void charl__owner_leave(charl__owner *o)
{
    atomic_store(&o->thread, 0);
}

void charl__owner_left(charl__owner *const *o)
{
    charl__owner_leave(*o);
}
