/* Jobs: a thread, its status and its message. */
#include "files/job.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

#include "base/alloc.h"

enum { MESSAGE_BYTES = 2048 };

struct charl__job {
    charl_status (*work)(void *ctx);
    void *ctx;
    bool threaded;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t ended;
    atomic_bool done;
    charl_status result;
    char message[MESSAGE_BYTES];
};

static void *run(void *user)
{
    charl__job *job = user;

    job->result = job->work(job->ctx);
    if (job->result != CHARL_OK) {
        snprintf(job->message, sizeof job->message, "%s", charl_error_message());
    }
    pthread_mutex_lock(&job->lock);
    atomic_store(&job->done, true);
    pthread_cond_broadcast(&job->ended);
    pthread_mutex_unlock(&job->lock);
    return NULL;
}

static charl_status start_thread(charl__job *job)
{
    sigset_t all, before;
    int err;

    CHARL_TRY(charl__acquire("thread"));
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    err = pthread_create(&job->thread, NULL, run, job);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (err) {
        charl__drop();
        CHARL_FAIL(CHARL_ERR_NOMEM, "no thread could be started (error %d)", err);
    }
    job->threaded = true;
    return CHARL_OK;
}

static void destroy(charl__job *job)
{
    pthread_cond_destroy(&job->ended);
    pthread_mutex_destroy(&job->lock);
    charl_free(job);
}

charl_status charl__job_start(bool background, charl_status (*work)(void *ctx), void *ctx, charl__job **out)
{
    charl__job *job = NULL;
    pthread_condattr_t steady;
    charl_status st;

    *out = NULL;
    CHARL_TRY(charl__alloc(sizeof *job, &job));
    job->work = work;
    job->ctx = ctx;
    pthread_mutex_init(&job->lock, NULL);
    pthread_condattr_init(&steady);
    pthread_condattr_setclock(&steady, CLOCK_MONOTONIC); /* the wall clock may be set during a wait */
    pthread_cond_init(&job->ended, &steady);
    pthread_condattr_destroy(&steady);
    atomic_init(&job->done, false);
    if (background) {
        st = start_thread(job);
        if (st != CHARL_OK) {
            destroy(job);
            return st;
        }
    } else {
        run(job);
    }
    *out = job;
    return CHARL_OK;
}

bool charl__job_is_done(const charl__job *job)
{
    return !job || atomic_load(&job->done);
}

bool charl__job_wait(charl__job *job, double seconds)
{
    struct timespec until;
    int err = 0;

    if (charl__job_is_done(job)) {
        return true;
    }
    clock_gettime(CLOCK_MONOTONIC, &until);
    seconds += (double)until.tv_nsec * 1e-9;
    until.tv_sec += (time_t)seconds;
    until.tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9);
    pthread_mutex_lock(&job->lock);
    while (!atomic_load(&job->done) && err != ETIMEDOUT) {
        err = pthread_cond_timedwait(&job->ended, &job->lock, &until);
    }
    pthread_mutex_unlock(&job->lock);
    return atomic_load(&job->done);
}

static void join(charl__job *job)
{
    if (job->threaded) {
        pthread_join(job->thread, NULL);
        charl__drop();
    }
}

charl_status charl__job_end(charl__job *job)
{
    charl_status st = CHARL_OK;

    if (!job) {
        return CHARL_OK;
    }
    join(job);
    if (job->result != CHARL_OK) {
        st = charl_error_set(job->result, __FILE__, __LINE__, __func__, "%s", job->message);
    }
    destroy(job);
    return st;
}

void charl__job_discard(charl__job *job)
{
    if (job) {
        join(job);
        destroy(job);
    }
}
