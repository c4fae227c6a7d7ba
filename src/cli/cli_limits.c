/* Limits of the process (setrlimit, ulimit). Below some of them Open MPI hangs, and OpenCL drivers
 * crash or compute wrong values instead of reporting an error: PoCL runs kernels on its own threads,
 * whose stack is as large as `ulimit -s` unless set otherwise, and a kernel that needs more
 * overwrites other memory.
 */
#define _GNU_SOURCE /* for the default attributes of threads */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include <charl/error.h>
#include "cli/cli.h"

static const rlim_t KIB = 1024, MIB = 1024 * 1024;
static const size_t thread_stack = 8 << 20; /* Linux's usual limit, with which charl is tested */

typedef struct limit {
    int resource;
    const char *what;
    char option;   /* option of ulimit */
    rlim_t unit;   /* unit of ulimit, in bytes; 1: a number */
    rlim_t least;  /* what Open MPI and PoCL need, plus a margin */
    rlim_t wanted; /* a lower soft limit is raised to this, as far as the hard limit allows */
} limit;

/* A soft limit is a default that the process may raise; `ulimit -n 64` sets both. */
static charl_status require(const limit *l)
{
    const char *unit = l->unit == 1 ? "" : " KiB";
    char advice[32] = "unlimited";
    struct rlimit r;

    if (getrlimit(l->resource, &r) != 0) {
        return CHARL_OK; /* this system has no such limit */
    }
    if (r.rlim_cur < l->wanted) {
        const rlim_t soft = r.rlim_cur;

        r.rlim_cur = r.rlim_max < l->wanted ? r.rlim_max : l->wanted;
        if (setrlimit(l->resource, &r) != 0) {
            r.rlim_cur = soft;
        }
    }
    if (l->wanted) {
        snprintf(advice, sizeof advice, "%llu", (unsigned long long)(l->wanted / l->unit));
    }
    CHARL_REQUIRE(r.rlim_cur >= l->least, CHARL_ERR_CONFIG,
                  "%s limited to %llu%s, at least %llu%s are needed; HINT raise the limit: ulimit "
                  "-%c %s",
                  l->what, (unsigned long long)(r.rlim_cur / l->unit), unit, (unsigned long long)(l->least / l->unit),
                  unit, l->option, advice);
    return CHARL_OK;
}

/* glibc takes the default from the limit at program start: 2 MiB if it is unlimited. */
static void enlarge_thread_stacks(void)
{
#ifdef __linux__
    pthread_attr_t attr;
    size_t bytes = 0;

    if (pthread_getattr_default_np(&attr) != 0) {
        return;
    }
    if (pthread_attr_getstacksize(&attr, &bytes) == 0 && bytes < thread_stack &&
        pthread_attr_setstacksize(&attr, thread_stack) == 0) {
        (void)pthread_setattr_default_np(&attr);
    }
    pthread_attr_destroy(&attr);
#endif
}

static charl_status check(void)
{
    const rlim_t ranks = (rlim_t)charl_launcher_size(), cores = (rlim_t)sysconf(_SC_NPROCESSORS_ONLN);
    const limit limits[] = {
        {RLIMIT_NOFILE, "open files are", 'n', 1, 64 + 2 * ranks, 1024 + 8 * ranks},
        /* of the main thread, which compiles kernels */
        {RLIMIT_STACK, "the stack is", 's', KIB, 1 * MIB, 8 * MIB},
        /* PMIx and Open MPI share memory in files of 4 MiB each; the compiler writes kernels */
        {RLIMIT_FSIZE, "the size of a file is", 'f', KIB, 16 * MIB, 0},
        {RLIMIT_AS, "virtual memory is", 'v', KIB, 1024 * MIB, 0},
        {RLIMIT_DATA, "the memory for data is", 'd', KIB, 256 * MIB, 0},
        {RLIMIT_NPROC, "processes and threads are", 'u', 1, geteuid() == 0 ? 0 : cores + 16, 0},
    };

    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        CHARL_TRY(require(&limits[i]));
    }
    return CHARL_OK;
}

int charl__cli_limits(void)
{
    const charl_status st = check();

    if (st == CHARL_OK) {
        enlarge_thread_stacks();
        return CHARL__EXIT_OK;
    }
    return charl__cli_fail_alike(st);
}
