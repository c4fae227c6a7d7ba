/* POSIX clocks as doubles: 53 bits hold microseconds for centuries. */
#include "base/clock.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

/* A member that naps, on its stack. */
typedef struct napper {
    double until_s;
    bool is_over;
    pthread_cond_t over;
    struct napper *next;
} napper;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of: */
static napper *nappers;
static int members, napping;
static atomic_int_least64_t jumped_ns; /* so far, by all jumps */
static _Thread_local bool is_member;

static double read_clock(clockid_t id)
{
    struct timespec now = {0};

    (void)clock_gettime(id, &now); /* cannot fail for the two clocks that POSIX requires */
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

double charl__clock_s(void)
{
    return read_clock(CLOCK_MONOTONIC) + 1e-9 * (double)atomic_load(&jumped_ns);
}

double charl__clock_wall_s(void)
{
    return read_clock(CLOCK_REALTIME);
}

const char *charl__clock_format(double wall_s, char *text)
{
    struct tm parts;
    time_t whole;

    snprintf(text, CHARL__CLOCK_TEXT, "?");
    if (fabs(wall_s) < 1e11) { /* years -1200 to 5138; false for NaN */
        whole = (time_t)floor(wall_s);
        if (gmtime_r(&whole, &parts)) {
            (void)strftime(text, CHARL__CLOCK_TEXT, "%Y-%m-%dT%H:%M:%SZ", &parts);
        }
    }
    return text;
}

void charl__sleep_s(double seconds)
{
    const double forever_s = 1e9;
    struct timespec left;

    if (!(seconds > 0)) {
        return;
    }
    seconds = seconds < forever_s ? seconds : forever_s;
    left.tv_sec = (time_t)seconds;
    left.tv_nsec = (long)ceil((seconds - (double)left.tv_sec) * 1e9);
    if (left.tv_nsec > 999999999L) {
        left.tv_sec++;
        left.tv_nsec = 0;
    }
    while (nanosleep(&left, &left) != 0 && errno == EINTR) {
    }
}

void charl__clock_set_member(bool is_one)
{
    is_member = is_one;
}

/* All members nap: the time of the first one that will wake comes now. */
static void jump(void)
{
    double until_s = nappers->until_s;

    for (const napper *n = nappers->next; n; n = n->next) {
        until_s = fmin(until_s, n->until_s);
    }
    atomic_fetch_add(&jumped_ns, (int64_t)(fmax(until_s - charl__clock_s(), 0) * 1e9) + 1);
    for (napper **at = &nappers; *at;) {
        napper *n = *at;

        if (n->until_s > until_s) {
            at = &n->next;
            continue;
        }
        *at = n->next;
        napping--;
        n->is_over = true;
        pthread_cond_signal(&n->over);
    }
}

void charl__clock_add_members(int count)
{
    pthread_mutex_lock(&lock);
    members += count;
    if (napping > 0 && napping == members) {
        jump();
    }
    pthread_mutex_unlock(&lock);
}

static void nap(double real_s, double simulated_s)
{
    napper mine = {.until_s = charl__clock_s() + simulated_s};
    const double until_s = read_clock(CLOCK_MONOTONIC) + real_s;
    const struct timespec until = {(time_t)until_s, (long)((until_s - floor(until_s)) * 1e9)};
    pthread_condattr_t steady;

    pthread_condattr_init(&steady);
    pthread_condattr_setclock(&steady, CLOCK_MONOTONIC);
    pthread_cond_init(&mine.over, &steady);
    pthread_condattr_destroy(&steady);
    pthread_mutex_lock(&lock);
    mine.next = nappers;
    nappers = &mine;
    if (++napping == members) {
        jump();
    }
    while (!mine.is_over && pthread_cond_timedwait(&mine.over, &lock, &until) != ETIMEDOUT) {
    }
    if (!mine.is_over) {
        napper **at = &nappers;

        while (*at != &mine) {
            at = &(*at)->next;
        }
        *at = mine.next;
        napping--;
    }
    pthread_mutex_unlock(&lock);
    pthread_cond_destroy(&mine.over);
}

void charl__clock_nap_s(double real_s, double simulated_s)
{
    if (is_member) {
        nap(real_s, simulated_s);
    } else {
        charl__sleep_s(real_s);
    }
}
