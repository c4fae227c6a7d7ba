/* CPU affinity of this process (Linux only, not POSIX). */
#define _GNU_SOURCE
#include "dist/comm_private.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"

static int allowed_count(void)
{
    cpu_set_t set;

    return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : (int)sysconf(_SC_NPROCESSORS_ONLN);
}

/* CPUs of the widest affinity that the kernel allows this process. */
static int node_count(void)
{
    cpu_set_t mine, all;
    int count;

    if (sched_getaffinity(0, sizeof mine, &mine) != 0) {
        return allowed_count();
    }
    memset(&all, 0xff, sizeof all);
    if (sched_setaffinity(0, sizeof all, &all) != 0) {
        return CPU_COUNT(&mine);
    }
    count = allowed_count();
    if (sched_setaffinity(0, sizeof mine, &mine) != 0) {
        charl__log(CHARL_LOG_WARN, "the binding to processors could not be restored");
    }
    return count;
}

/* mpirun was given no binding option; with one, also with none, the policy is in the environment. */
static bool is_default_binding(void)
{
    return getenv("OMPI_COMM_WORLD_SIZE") && !getenv("OMPI_MCA_hwloc_base_binding_policy");
}

static charl_status widen_binding(const charl_comm *c)
{
    const int before = allowed_count(), node = node_count();
    const int share = node / c->local_size > 1 ? node / c->local_size : 1;
    cpu_set_t all;

    /* Up to two ranks are bound to a core each, more to a memory domain each: the latter is kept if it is large
     * enough. */
    if (is_default_binding() && before < node && (c->size <= 2 || before < share)) {
        memset(&all, 0xff, sizeof all);
        CHARL_REQUIRE(sched_setaffinity(0, sizeof all, &all) == 0, CHARL_ERR_COMM,
                      "the binding to %d processors cannot be widened: %s", before, strerror(errno));
        charl__log(CHARL_LOG_INFO, "rank %d: binding widened from %d to %d processors", c->rank, before,
                   allowed_count());
    }
    return CHARL_OK;
}

/* Number of processors of the node, at least 1. */
static int share_of(const charl_comm *c)
{
    const int mine = allowed_count(), share = node_count() / c->local_size;
    const int least = mine < share ? mine : share;

    return least > 1 ? least : 1;
}

charl_status charl__comm_claim_processors(const charl_comm *c, bool keep_binding)
{
    char text[16];

    CHARL_TRY(keep_binding ? CHARL_OK : widen_binding(c));
    /* PoCL up to 3 reads the first, later ones the second. */
    snprintf(text, sizeof text, "%d", share_of(c));
    CHARL_REQUIRE(setenv("POCL_MAX_PTHREAD_COUNT", text, 0) == 0 && setenv("POCL_CPU_MAX_CU_COUNT", text, 0) == 0,
                  CHARL_ERR_NOMEM, "out of memory for an environment variable");
    return CHARL_OK;
}
