/* A deadline for MPI operations without one: starting and ending. Ranks cannot communicate
 * there, so a signal handler prints what happened and ends the process. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "cli/cli.h"

static const double others_s = 4; /* the launcher ends them when the first rank has printed its failure */

static char text[256];
static struct sigaction before;

static void on_alarm(int sig)
{
    const ssize_t ignored = write(STDERR_FILENO, text, strlen(text));

    (void)sig;
    (void)ignored;
    _exit(CHARL__EXIT_COMM);
}

void charl__cli_deadline_begin(double seconds, const char *what)
{
    const struct sigaction action = {.sa_handler = on_alarm};
    const int rank = charl_launcher_rank();
    const double wait = seconds + (rank > 0 ? others_s : 0.0);
    struct itimerval timer = {0};

    timer.it_value.tv_sec = (time_t)wait;
    timer.it_value.tv_usec = (suseconds_t)((wait - (double)timer.it_value.tv_sec) * 1e6);
    snprintf(text, sizeof text,
             "%s: error: rank %d (pid %ld) waited %.0f s: %s\n  hint: run the same command to "
             "continue from the last checkpoint\n",
             charl__cli_program(), rank, (long)getpid(), wait, what);
    sigaction(SIGALRM, &action, &before);
    setitimer(ITIMER_REAL, &timer, NULL);
}

void charl__cli_deadline_end(void)
{
    const struct itimerval off = {0};

    setitimer(ITIMER_REAL, &off, NULL);
    sigaction(SIGALRM, &before, NULL);
}
