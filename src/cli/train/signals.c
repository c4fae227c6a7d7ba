/* Signals of charl-train.
 *
 * They are blocked before any thread exists and received in a separate thread, which may wait,
 * print and end the process where a signal handler may not.
 *
 *     TERM, INT, HUP, USR1, USR2     finish the step, save, exit
 *     TERM, INT, HUP                 before the first step of a job of one process: exit now, as there is nothing to save and compiling
 *                                    kernels may take minutes. Several ranks end together, after the first step
 *     HUP that was ignored           stays ignored: nohup, and shells configured to keep jobs
 *     a second TERM, INT or HUP      within SAME_REQUEST_S of the first: the same request, because
 *                                    terminals, shells, wrappers and launchers often deliver a
 *                                    request twice; later: exit now, without saving
 *
 * To end a job, Open MPI's mpirun sends every rank SIGCONT, SIGTERM a second later and
 * SIGKILL another second later. Two seconds are more than one, so a SIGCONT from the launcher is
 * treated as the request, unless the process was stopped before: then it only continues it. The
 * following SIGTERM belongs to the request that the SIGCONT announced, so a SIGTERM from the launcher
 * never ends the process: SIGKILL does.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <charl/error.h>
#include "cli/cli.h"
#include "cli/train/train.h"

static const double SAME_REQUEST_S = 1.0;
static const double STOPPED_S = 0.5; /* a thread that did not run for so long was stopped */

static atomic_int first_signal;
static atomic_bool has_begun, resumes;

/* Of the launcher, read before the thread starts, because MPI changes the environment while it runs. */
static bool under_mpirun;
static int launcher_rank;
static bool is_alone;
static bool ignores_hangup;

static sigset_t stop_signals(void)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    if (!ignores_hangup) {
        sigaddset(&set, SIGHUP);
    }
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGUSR2);
    if (under_mpirun) {
        sigaddset(&set, SIGCONT); /* blocking it does not keep a stopped process stopped */
    }
    return set;
}

void charl__train_block_signals(void)
{
    struct sigaction hangup;
    sigset_t set;

    ignores_hangup = sigaction(SIGHUP, NULL, &hangup) == 0 && hangup.sa_handler == SIG_IGN;
    under_mpirun = getenv("OMPI_COMM_WORLD_SIZE") != NULL;
    launcher_rank = charl_launcher_rank();
    is_alone = charl_launcher_size() < 2;
    set = stop_signals();
    pthread_sigmask(SIG_BLOCK, &set, NULL);
}

void charl__train_unblock_signals(void)
{
    const sigset_t set = stop_signals();

    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

/* A signal that asks for a stop, and whether the launcher sent it. */
typedef struct request {
    int sig;
    bool from_launcher;
} request;

/* The next request. A SIGCONT that only continues a stopped process, or that does not come from the
 * launcher, is not a request. */
static request next_request(const sigset_t *set)
{
    const struct timespec glance = {.tv_nsec = 100 * 1000 * 1000};
    double looked_s = charl__cli_clock_s();

    for (;;) {
        siginfo_t info;
        const int sig = under_mpirun ? sigtimedwait(set, &info, &glance) : sigwaitinfo(set, &info);
        const double now = charl__cli_clock_s();
        const bool stopped = now - looked_s > STOPPED_S;
        const bool from_launcher = under_mpirun && sig > 0 && info.si_pid == getppid();

        looked_s = now;
        if (sig > 0 && (sig != SIGCONT || (!stopped && from_launcher))) {
            return (request){sig, from_launcher};
        }
    }
}

static void say(const char *text)
{
    const ssize_t ignored = write(STDERR_FILENO, text, strlen(text));

    (void)ignored;
}

/* Rank 0 prints for all: usually all have the signal. */
static void announce(void)
{
    if (launcher_rank == 0) {
        say(isatty(STDERR_FILENO) ? "\n" : ""); /* below a progress bar */
        say("charl-train: stopping after this step. To stop at once, without a checkpoint, repeat "
            "the "
            "signal after a second\n");
    }
}

static void *handle_signals(void *ctx)
{
    const sigset_t set = stop_signals();
    atomic_int *stop = ctx;
    double first_s = -1; /* time of the first signal whose repetition ends the process; < 0: none yet */

    for (;;) {
        const request r = next_request(&set);
        const bool insists = (r.sig == SIGTERM && !r.from_launcher) || r.sig == SIGINT || r.sig == SIGHUP;
        const double now = charl__cli_clock_s();
        int none = 0;

        if (insists && is_alone && !atomic_load(&has_begun)) {
            say(isatty(STDERR_FILENO) ? "\n" : ""); /* below the line of the compiler */
            say("charl-train: stopped before the first step\n");
            _exit(atomic_load(&resumes) ? CHARL__EXIT_STOPPED : 128 + r.sig);
        }
        if (insists && first_s >= 0 && now - first_s > SAME_REQUEST_S) {
            say("charl-train: stopped at once; the last checkpoint is complete\n");
            _exit(128 + r.sig);
        }
        if (insists && first_s < 0) {
            first_s = now;
            announce();
        }
        atomic_compare_exchange_strong(&first_signal, &none, r.sig == SIGCONT ? SIGTERM : r.sig);
        atomic_store(stop, CHARL_STOP_SAVE);
    }
    return NULL;
}

static pthread_t watcher;
static bool is_watching;

charl_status charl__train_watch_signals(atomic_int *stop, bool will_resume)
{
    atomic_store(&resumes, will_resume);
    atomic_store(&has_begun, false); /* an earlier training of this process may have */
    atomic_store(&first_signal, 0);
    atomic_store(stop, 0);
    CHARL_REQUIRE(pthread_create(&watcher, NULL, handle_signals, stop) == 0, CHARL_ERR_NOMEM,
                  "cannot start the signal thread");
    is_watching = true;
    return CHARL_OK;
}

void charl__train_unwatch_signals(void)
{
    if (is_watching) {
        pthread_cancel(watcher);
        pthread_join(watcher, NULL);
        is_watching = false;
    }
}

void charl__train_begun(void)
{
    atomic_store(&has_begun, true);
}

int charl__train_first_signal(void)
{
    return atomic_load(&first_signal);
}
