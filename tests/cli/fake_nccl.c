/* Stands in for libcuda.so.1 and libnccl.so.2: device memory is host memory, the all-reduce is
 * MPI's. $FAKE_GPUS: how many there are (default 8). $FAKE_FAIL: the function that fails, or `sum`
 * for a wrong sum. */
#include <mpi.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#pragma GCC visibility push(default) /* charl opens it: all functions are exported */

typedef struct nccl_id {
    char internal[128];
} nccl_id;

int cuInit(unsigned flags);
int cuDeviceGetCount(int *count);
int cuDeviceGet(int *device, int ordinal);
int cuDevicePrimaryCtxRetain(void **context, int device);
int cuDevicePrimaryCtxRelease_v2(int device);
int cuCtxSetCurrent(void *context);
int cuMemAlloc_v2(unsigned long long *p, size_t bytes);
int cuMemFree_v2(unsigned long long p);
int cuMemcpyHtoD_v2(unsigned long long to, const void *from, size_t bytes);
int cuMemcpyDtoH_v2(void *to, unsigned long long from, size_t bytes);
int cuStreamCreate(void **stream, unsigned flags);
int cuStreamQuery(void *stream);
int cuStreamDestroy_v2(void *stream);
int ncclGetUniqueId(nccl_id *id);
int ncclCommInitRank(void **comm, int size, nccl_id id, int rank);
int ncclCommDestroy(void *comm);
int ncclAllReduce(const void *from, void *to, size_t count, int type, int op, void *comm, void *stream);

static int polls;

static int fails(const char *name)
{
    const char *which = getenv("FAKE_FAIL");

    return which && strcmp(which, name) == 0;
}

static int done(const char *name)
{
    return fails(name) ? 2 : 0;
}

int cuInit(unsigned flags)
{
    (void)flags;
    return done("cuInit");
}

int cuDeviceGetCount(int *count)
{
    const char *gpus = getenv("FAKE_GPUS");

    *count = gpus ? atoi(gpus) : 8;
    return done("cuDeviceGetCount");
}

int cuDeviceGet(int *device, int ordinal)
{
    *device = ordinal;
    return done("cuDeviceGet");
}

int cuDevicePrimaryCtxRetain(void **context, int device)
{
    (void)device;
    *context = &polls;
    return done("cuDevicePrimaryCtxRetain");
}

int cuDevicePrimaryCtxRelease_v2(int device)
{
    (void)device;
    return 0;
}

int cuCtxSetCurrent(void *context)
{
    return context == &polls ? done("cuCtxSetCurrent") : 1;
}

int cuMemAlloc_v2(unsigned long long *p, size_t bytes)
{
    *p = (uintptr_t)malloc(bytes);
    return done("cuMemAlloc");
}

int cuMemFree_v2(unsigned long long p)
{
    free((void *)(uintptr_t)p);
    return 0;
}

int cuMemcpyHtoD_v2(unsigned long long to, const void *from, size_t bytes)
{
    memcpy((void *)(uintptr_t)to, from, bytes);
    return done("cuMemcpyHtoD");
}

int cuMemcpyDtoH_v2(void *to, unsigned long long from, size_t bytes)
{
    memcpy(to, (const void *)(uintptr_t)from, bytes);
    return done("cuMemcpyDtoH");
}

int cuStreamCreate(void **stream, unsigned flags)
{
    (void)flags;
    *stream = &polls;
    return done("cuStreamCreate");
}

/* Not ready at once, as on a device. */
int cuStreamQuery(void *stream)
{
    (void)stream;
    return ++polls % 3 == 0 ? done("cuStreamQuery") : 600;
}

int cuStreamDestroy_v2(void *stream)
{
    (void)stream;
    return 0;
}

int ncclGetUniqueId(nccl_id *id)
{
    memset(id, 7, sizeof *id);
    return done("ncclGetUniqueId");
}

int ncclCommInitRank(void **comm, int size, nccl_id id, int rank)
{
    int world;

    MPI_Comm_size(MPI_COMM_WORLD, &world);
    *comm = &polls;
    return size == world && rank < size && id.internal[127] == 7 ? done("ncclCommInitRank") : 1;
}

int ncclCommDestroy(void *comm)
{
    (void)comm;
    return 0;
}

int ncclAllReduce(const void *from, void *to, size_t count, int type, int op, void *comm, void *stream)
{
    if (from != to || type != 7 || op != 0 || comm != &polls || stream != &polls) {
        return 4;
    }
    MPI_Allreduce(MPI_IN_PLACE, to, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    if (fails("sum") && count > 1) {
        ((float *)to)[1] += 1.0F;
    }
    return done("ncclAllReduce");
}
