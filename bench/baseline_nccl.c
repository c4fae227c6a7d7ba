/* NCCL, where it is installed and every rank of a node has an NVIDIA GPU of its own. Both libraries
 * are opened at run time and the few functions declared here: no header, no link dependency. Their
 * binary interfaces are stable since CUDA 4 and NCCL 2. */
#include "bench/baseline_private.h"

#include <stdlib.h>
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "bench/bench.h"

enum { NCCL_FLOAT32 = 7, NCCL_SUM = 0, CUDA_NOT_READY = 600 };

typedef struct nccl_id {
    char internal[128];
} nccl_id;

typedef unsigned long long device_pointer;

typedef struct nccl_api {
    int (*init)(unsigned flags);
    int (*device_count)(int *count);
    int (*device_get)(int *device, int ordinal);
    int (*context_retain)(void **context, int device);
    int (*context_release)(int device);
    int (*context_set)(void *context);
    int (*memory_alloc)(device_pointer *p, size_t bytes);
    int (*memory_free)(device_pointer p);
    int (*to_device)(device_pointer to, const void *from, size_t bytes);
    int (*to_host)(void *to, device_pointer from, size_t bytes);
    int (*stream_create)(void **stream, unsigned flags);
    int (*stream_query)(void *stream);
    int (*stream_destroy)(void *stream);
    int (*unique_id)(nccl_id *id);
    int (*comm_init)(void **comm, int size, nccl_id id, int rank);
    int (*comm_destroy)(void *comm);
    int (*all_reduce)(const void *from, void *to, size_t count, int type, int op, void *comm, void *stream);
} nccl_api;

typedef struct symbol {
    const char *name;
    size_t at; /* in nccl_api */
} symbol;

static const symbol cuda_symbols[] = {{"cuInit", offsetof(nccl_api, init)},
                                      {"cuDeviceGetCount", offsetof(nccl_api, device_count)},
                                      {"cuDeviceGet", offsetof(nccl_api, device_get)},
                                      {"cuDevicePrimaryCtxRetain", offsetof(nccl_api, context_retain)},
                                      {"cuDevicePrimaryCtxRelease_v2", offsetof(nccl_api, context_release)},
                                      {"cuCtxSetCurrent", offsetof(nccl_api, context_set)},
                                      {"cuMemAlloc_v2", offsetof(nccl_api, memory_alloc)},
                                      {"cuMemFree_v2", offsetof(nccl_api, memory_free)},
                                      {"cuMemcpyHtoD_v2", offsetof(nccl_api, to_device)},
                                      {"cuMemcpyDtoH_v2", offsetof(nccl_api, to_host)},
                                      {"cuStreamCreate", offsetof(nccl_api, stream_create)},
                                      {"cuStreamQuery", offsetof(nccl_api, stream_query)},
                                      {"cuStreamDestroy_v2", offsetof(nccl_api, stream_destroy)},
                                      {NULL, 0}};

static const symbol nccl_symbols[] = {{"ncclGetUniqueId", offsetof(nccl_api, unique_id)},
                                      {"ncclCommInitRank", offsetof(nccl_api, comm_init)},
                                      {"ncclCommDestroy", offsetof(nccl_api, comm_destroy)},
                                      {"ncclAllReduce", offsetof(nccl_api, all_reduce)},
                                      {NULL, 0}};

typedef struct nccl_state {
    nccl_api api;
    void *cuda, *nccl; /* the libraries */
    int device;
    void *context, *stream, *comm;
    device_pointer values;
} nccl_state;

static bool open_library(const char *name, const symbol *symbols, nccl_api *api, void **library, char *why)
{
    *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!*library) {
        snprintf(why, CHARL__BASELINE_WHY, "%s is not installed", name);
        return false;
    }
    for (const symbol *s = symbols; s->name; s++) {
        void *f = dlsym(*library, s->name);

        if (!f) {
            snprintf(why, CHARL__BASELINE_WHY, "%s has no %s", name, s->name);
            return false;
        }
        memcpy((char *)api + s->at, &f, sizeof f);
    }
    return true;
}

static bool nccl_load(charl__baseline *r, char *why)
{
    nccl_state *s = NULL;
    int gpus = 0;

    if (charl__cli_alloc(1, sizeof *s, &s) != CHARL_OK) {
        snprintf(why, CHARL__BASELINE_WHY, "out of memory");
        return false;
    }
    r->own = s;
    if (!open_library("libcuda.so.1", cuda_symbols, &s->api, &s->cuda, why) ||
        !open_library("libnccl.so.2", nccl_symbols, &s->api, &s->nccl, why)) {
        return false;
    }
    if (s->api.init(0) != 0 || s->api.device_count(&gpus) != 0 || gpus < charl_comm_local_size(r->c)) {
        snprintf(why, CHARL__BASELINE_WHY, "%d NVIDIA GPUs for %d ranks of this node", gpus,
                 charl_comm_local_size(r->c));
        return false;
    }
    return true;
}

/* What a call of either library returned: 0 is success in both. */
static charl_status check(int code, const char *what)
{
    CHARL_REQUIRE(code == 0, CHARL_ERR_DEVICE, "%s: error %d", what, code);
    return CHARL_OK;
}

static charl_status open_device(charl__baseline *r)
{
    nccl_state *s = r->own;

    CHARL_TRY(check(s->api.device_get(&s->device, charl_comm_local_rank(r->c)), "cuDeviceGet"));
    CHARL_TRY(check(s->api.context_retain(&s->context, s->device), "cuDevicePrimaryCtxRetain"));
    CHARL_TRY(check(s->api.context_set(s->context), "cuCtxSetCurrent"));
    CHARL_TRY(check(s->api.stream_create(&s->stream, 0), "cuStreamCreate"));
    CHARL_TRY(check(s->api.memory_alloc(&s->values, (size_t)(r->n + 1) * sizeof(float)), "cuMemAlloc"));
    return CHARL_OK;
}

static charl_status nccl_create(charl__baseline *r)
{
    charl_status st = CHARL_OK;
    nccl_state *s = r->own;
    nccl_id id = {{0}};

    CHARL_TRY(charl_comm_agree(r->c, open_device(r)));
    st = charl_comm_rank(r->c) == 0 ? check(s->api.unique_id(&id), "ncclGetUniqueId") : CHARL_OK;
    CHARL_TRY(charl_comm_agree(r->c, st));
    CHARL_TRY(charl_comm_broadcast(r->c, &id, sizeof id, 0));
    st = check(s->api.comm_init(&s->comm, charl_comm_size(r->c), id, charl_comm_rank(r->c)), "ncclCommInitRank");
    CHARL_TRY(charl_comm_agree(r->c, st));
    return CHARL_OK;
}

static void nccl_destroy(charl__baseline *r)
{
    nccl_state *s = r->own;

    if (!s) {
        return;
    }
    if (s->comm) {
        s->api.comm_destroy(s->comm);
    }
    if (s->values) {
        s->api.memory_free(s->values);
    }
    if (s->stream) {
        s->api.stream_destroy(s->stream);
    }
    if (s->context) {
        s->api.context_release(s->device);
    }
    free(s); /* the libraries stay: they have threads that outlive a communicator */
}

static charl_status nccl_write(charl__baseline *r, const float *v, int64_t count)
{
    const nccl_state *s = r->own;

    return check(s->api.to_device(s->values, v, (size_t)count * sizeof *v), "cuMemcpyHtoD");
}

static charl_status nccl_read(charl__baseline *r, float *v, int64_t count)
{
    const nccl_state *s = r->own;

    return check(s->api.to_host(v, s->values, (size_t)count * sizeof *v), "cuMemcpyDtoH");
}

static charl_status nccl_sum(charl__baseline *r, int64_t count)
{
    const nccl_state *s = r->own;
    void *values = NULL;

    memcpy(&values, &s->values, sizeof values);
    return check(s->api.all_reduce(values, values, (size_t)count, NCCL_FLOAT32, NCCL_SUM, s->comm, s->stream),
                 "ncclAllReduce");
}

static charl_status nccl_wait(charl__baseline *r)
{
    const nccl_state *s = r->own;
    int code;

    do {
        code = s->api.stream_query(s->stream);
    } while (code == CUDA_NOT_READY);
    return check(code, "cuStreamQuery");
}

const charl__baseline_kind charl__baseline_nccl = {
    .name = "NCCL",
    .load = nccl_load,
    .create = nccl_create,
    .destroy = nccl_destroy,
    .write = nccl_write,
    .read = nccl_read,
    .sum = nccl_sum,
    .wait = nccl_wait,
};
