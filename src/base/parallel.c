/* Threads take the next number from a common counter until there is none. */
#include "base/parallel.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

enum { MOST_THREADS = 64 };

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
