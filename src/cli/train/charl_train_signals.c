/* Signals of charl-train.
 *
 * OpenCL drivers overwrite signal handlers when devices are listed (PoCL does, silently), so
 * handlers are of no use: the signals are blocked before any thread exists and taken in a thread of
 * their own.
 *
 * When mpirun of Open MPI is to end a job it sends every rank SIGCONT, SIGTERM a second later and
 * SIGKILL another second later. Two seconds are more than one, so a SIGCONT from the launcher is
 * taken as the request, unless the process was stopped before: then it means what it says.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "cli/train/charl_train.h"

static const double STOPPED_S = 0.5; /* a thread that looked away for so long was stopped */

static atomic_int first_signal;

static bool is_under_mpirun(void)
{
    return getenv("OMPI_COMM_WORLD_SIZE") != NULL;
}

static sigset_t stop_signals(void)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGUSR2);
    if (is_under_mpirun()) {
        sigaddset(&set, SIGCONT); /* blocking it does not keep a stopped process stopped */
    }
    return set;
}

void charl__train_block_signals(void)
{
    const sigset_t set = stop_signals();

    pthread_sigmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
}

/* The next signal. A SIGCONT that only continues a stopped process, or that does not come from the
 * launcher, is none. */
static int next_signal(const sigset_t *set)
{
    const struct timespec glance = {.tv_nsec = 100 * 1000 * 1000};
    const bool launched = is_under_mpirun();
    double looked_s = charl__clock_s();

    for (;;) {
        siginfo_t info;
        const int sig = launched ? sigtimedwait(set, &info, &glance) : sigwaitinfo(set, &info);
        const double now = charl__clock_s();
        const bool stopped = now - looked_s > STOPPED_S;

        looked_s = now;
        if (sig > 0 && (sig != SIGCONT || (!stopped && info.si_pid == getppid()))) {
            return sig;
        }
    }
}

static void *take_signals(void *ctx)
{
    const sigset_t set = stop_signals();
    atomic_int *stop = ctx;
    bool asked = false;

    for (;;) {
        const int sig = next_signal(&set);
        int none = 0;

        if (asked && (sig == SIGTERM || sig == SIGINT || sig == SIGHUP)) {
            static const char text[] = "charl-train: stopped at once; the last checkpoint stands\n";
            const ssize_t ignored = write(STDERR_FILENO, text, sizeof text - 1);

            (void)ignored;
            _exit(128 + sig);
        }
        asked = asked || sig != SIGCONT; /* the SIGTERM that follows is the same request */
        atomic_compare_exchange_strong(&first_signal, &none, sig == SIGCONT ? SIGTERM : sig);
        atomic_store(stop, CHARL_STOP_SAVE);
    }
    return NULL;
}

charl_status charl__train_watch_signals(atomic_int *stop)
{
    charl_status st = CHARL_OK;
    pthread_t thread;

    CHARL_REQUIRE(pthread_create(&thread, NULL, take_signals, stop) == 0, CHARL_ERR_NOMEM,
                  "cannot start the signal thread");
    pthread_detach(thread);
cleanup:
    return st;
}

bool charl__train_is_ended(void)
{
    const struct timespec patience = {.tv_sec = 5}; /* a rank may start late on a busy machine */
    sigset_t set;
    siginfo_t info;

    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGCONT);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    return sigtimedwait(&set, &info, &patience) > 0;
}

int charl__train_first_signal(void)
{
    return atomic_load(&first_signal);
}
