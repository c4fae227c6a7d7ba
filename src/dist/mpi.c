/* The MPI library, by the soname that charl was built with; then by its path on that machine, if its folder is not in the loader's search path. */
#include "dist/mpi.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

#include "base/fault.h"

struct charl__mpi_library charl__mpi;
static char missing[512];

static void *find(void *library, const char *name)
{
    void *at = dlsym(library, name);

    if (!at && !missing[0]) {
        snprintf(missing, sizeof missing, "%s has no %s", CHARL_MPI_SONAME, name);
    }
    return at;
}

static void load(void)
{
    const char *const names[] = {CHARL_MPI_SONAME, CHARL_MPI_LIBRARY};
    void *library = NULL;

    if (charl__fault("comm.no_mpi")) {
        snprintf(missing, sizeof missing, "%s is said to be missing", names[0]);
        return;
    }
    for (int i = 0; i < 2 && !library; i++) {
        /* Global: components that Open MPI opens itself look for its symbols there. */
        library = dlopen(names[i], RTLD_NOW | RTLD_GLOBAL);
        if (!library && i == 0) {
            snprintf(missing, sizeof missing, "%s", dlerror());
        }
    }
    if (!library) {
        return;
    }
    missing[0] = '\0';
#define X(name) *(void **)&charl__mpi.name = find(library, "MPI_" #name);
    CHARL__MPI_FUNCTIONS(X)
#undef X
#define X(name) *(void **)&charl__mpi.at_##name = find(library, "ompi_mpi_" #name);
    CHARL__MPI_OBJECTS(X)
#undef X
}

const char *charl__mpi_load(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, load);
    return missing[0] ? missing : NULL;
}
