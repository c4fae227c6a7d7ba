/* Threads take the next number from a common counter until all are taken. */
#include "base/parallel.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

enum { MOST_THREADS = 64, MESSAGE = 2048 };

typedef struct job {
    void (*work)(void *ctx, int64_t i);
    void *ctx;
    int64_t n;
    atomic_int_fast64_t next;
} job;

static void *run(void *arg)
{
    job *j = arg;

    for (int64_t i; (i = atomic_fetch_add(&j->next, 1)) < j->n;) {
        j->work(j->ctx, i);
    }
    return NULL;
}

void charl__parallel(int64_t n, void (*work)(void *ctx, int64_t i), void *ctx)
{
    charl__parallel_by(MOST_THREADS, n, work, ctx);
}

void charl__parallel_by(int threads, int64_t n, void (*work)(void *ctx, int64_t i), void *ctx)
{
    const long processors = sysconf(_SC_NPROCESSORS_ONLN);
    const int64_t allowed = threads < MOST_THREADS ? threads : MOST_THREADS;
    const int64_t most = processors < allowed ? processors : allowed;
    pthread_t thread[MOST_THREADS];
    job j = {.work = work, .ctx = ctx, .n = n};
    int others = 0;

    atomic_init(&j.next, 0);
    while (others + 1 < most && others + 1 < n && pthread_create(&thread[others], NULL, run, &j) == 0) {
        others++;
    }
    run(&j);
    for (int t = 0; t < others; t++) {
        pthread_join(thread[t], NULL);
    }
}

/* Work that can fail, and the failure to return. */
typedef struct attempt {
    charl_status (*work)(void *ctx, int64_t i);
    void *ctx;
    pthread_mutex_t lock;
    charl_status failed;
    int64_t failed_at;
    char message[MESSAGE];
} attempt;

static void try_one(void *ctx, int64_t i)
{
    attempt *a = ctx;
    const charl_status st = a->work(a->ctx, i);

    if (st == CHARL_OK) {
        return;
    }
    pthread_mutex_lock(&a->lock);
    if (a->failed == CHARL_OK || i < a->failed_at) {
        a->failed = st;
        a->failed_at = i;
        snprintf(a->message, sizeof a->message, "%s", charl_error_message());
    }
    pthread_mutex_unlock(&a->lock);
}

charl_status charl__parallel_try(int threads, int64_t n, charl_status (*work)(void *ctx, int64_t i), void *ctx)
{
    attempt a = {.work = work, .ctx = ctx};

    pthread_mutex_init(&a.lock, NULL);
    charl__parallel_by(threads, n, try_one, &a);
    pthread_mutex_destroy(&a.lock);
    CHARL_REQUIRE(a.failed == CHARL_OK, a.failed, "%s", a.message);
    return CHARL_OK;
}
