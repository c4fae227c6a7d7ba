/* Reads unverified files in a child process. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <charl/checkpoint.h>
#include "cli/cli.h"

enum { BASE_SECONDS = 120, BYTES_PER_SECOND = 10 * 1000 * 1000, BASE_BYTES = 1 << 30 };

#if defined(__SANITIZE_ADDRESS__)
enum { LIMIT_MEMORY = 0 }; /* it reserves terabytes of addresses */
#else
enum { LIMIT_MEMORY = 1 };
#endif

static void limit(int resource, rlim_t value)
{
    struct rlimit r;

    if (getrlimit(resource, &r) == 0 && (r.rlim_max == RLIM_INFINITY || value < r.rlim_max)) {
        r.rlim_cur = value;
        r.rlim_max = value;
        (void)setrlimit(resource, &r); /* without it the guard is only weaker */
    }
}

static void confine(int64_t bytes, unsigned seconds)
{
    static const int deadly[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGALRM, SIGXCPU};

    for (size_t i = 0; i < sizeof deadly / sizeof *deadly; i++) {
        signal(deadly[i], SIG_DFL);
    }
    limit(RLIMIT_CORE, 0);
    limit(RLIMIT_CPU, (rlim_t)seconds);
    if (LIMIT_MEMORY) {
        limit(RLIMIT_AS, (rlim_t)BASE_BYTES + 2 * (rlim_t)bytes);
    }
    alarm(seconds);
}

static int explain(const char *path, int damaged, int status, unsigned seconds)
{
    const int sig = WTERMSIG(status);

    switch (sig) {
    case SIGPIPE: /* standard output has no reader: end like the process that wrote to it */
        raise(SIGPIPE);
        return 128 + SIGPIPE;
    case SIGALRM:
    case SIGXCPU:
        return charl__cli_error(damaged, NULL, "%s: damaged: reading it did not end within %u seconds", path, seconds);
    case SIGSEGV:
    case SIGBUS:
    case SIGFPE:
    case SIGILL:
    case SIGABRT:
        return charl__cli_error(damaged, NULL, "%s: damaged: reading it crashes (signal %d, %s)", path, sig,
                                strsignal(sig));
    default:
        return charl__cli_error(128 + sig, NULL,
                                "%s: the process that read it was killed (signal "
                                "%d, %s)",
                                path, sig, strsignal(sig));
    }
}

int charl__cli_guarded(const char *path, int damaged, int (*work)(void *ctx), void *ctx)
{
    const int64_t bytes = charl_checkpoint_size(path);
    const unsigned seconds = BASE_SECONDS + (unsigned)(bytes / BYTES_PER_SECOND);
    int status = 0;
    pid_t child, ended;

    fflush(NULL);
    child = fork();
    if (child < 0) {
        return charl__cli_error(CHARL__EXIT_INTERNAL, NULL, "cannot start a process to read %s: %s", path,
                                strerror(errno));
    }
    if (child == 0) {
        confine(bytes, seconds);
        status = charl_fault("cli.guard") == CHARL_OK ? work(ctx) : CHARL__EXIT_INTERNAL;
        status = charl__cli_end(status);
        fflush(NULL);
        _exit(status);
    }
    do {
        ended = waitpid(child, &status, 0);
    } while (ended < 0 && errno == EINTR);
    if (ended < 0) {
        return charl__cli_error(CHARL__EXIT_INTERNAL, NULL, "%s: %s", path, strerror(errno));
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : explain(path, damaged, status, seconds);
}
