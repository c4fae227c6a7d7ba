/* Contexts, and the programs built in them. Devices of one process that are the same device of PoCL share a context: simulated ranks open it
 * once each, and PoCL runs clang's preprocessor over a program before it looks into its cache, which for 16 ranks takes longer than a short
 * training. So the first rank builds a program, and the others take it. */
#include <pthread.h>
#include <string.h>

#include "device/opencl/opencl.h"

typedef struct built {
    char key[CHARL__CACHE_KEY];
    cl_program program;
    struct built *next;
} built;

struct charl__opencl_context {
    cl_device_id id;
    cl_context context;
    int users; /* devices */
    built *programs;
    struct charl__opencl_context *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of: */
static struct charl__opencl_context *shared;

static charl_status create(charl_device *dev, struct charl__opencl_context **out)
{
    const cl_context_properties properties[] = {CL_CONTEXT_PLATFORM, (cl_context_properties)dev->found.platform, 0};
    cl_int err = CL_SUCCESS;
    CHARL_SCOPED_FREE struct charl__opencl_context *c = NULL;

    CHARL_TRY(charl__alloc(sizeof *c, &c));
    c->id = dev->opencl->id;
    c->users = 1;
    c->context = clCreateContext(properties, 1, &c->id, NULL, NULL, &err);
    CHARL_REQUIRE(err == CL_SUCCESS, charl__opencl_error(err).status, "clCreateContext on %s: %s", dev->info.name,
                  charl__opencl_error(err).text);
    *out = c;
    c = NULL;
    return CHARL_OK;
}

charl_status charl__opencl_context_get(charl_device *dev, struct charl__opencl_context **out)
{
    charl_status st = CHARL_OK;
    struct charl__opencl_context *c = NULL;

    *out = NULL;
    pthread_mutex_lock(&lock);
    for (c = dev->pocl ? shared : NULL; c && c->id != dev->opencl->id; c = c->next) {
    }
    if (c) {
        c->users++;
    } else {
        CHARL_TRY_CLEANUP(create(dev, &c));
        c->next = dev->pocl ? shared : NULL;
        shared = dev->pocl ? c : shared;
    }
    *out = c;
cleanup:
    pthread_mutex_unlock(&lock);
    return st;
}

cl_context charl__opencl_context_of(const struct charl__opencl_context *c)
{
    return c->context;
}

void charl__opencl_context_put(struct charl__opencl_context *c)
{
    struct charl__opencl_context **at = &shared;
    bool is_last;

    pthread_mutex_lock(&lock);
    is_last = --c->users == 0;
    while (is_last && *at && *at != c) {
        at = &(*at)->next;
    }
    if (is_last && *at) {
        *at = c->next;
    }
    pthread_mutex_unlock(&lock);
    if (!is_last) {
        return;
    }
    while (c->programs) {
        built *b = c->programs;

        c->programs = b->next;
        clReleaseProgram(b->program);
        charl_free(b);
    }
    clReleaseContext(c->context);
    charl_free(c);
}

static built *find(const struct charl__opencl_context *c, const char *key)
{
    built *b = c->programs;

    while (b && strcmp(b->key, key) != 0) {
        b = b->next;
    }
    return b;
}

cl_program charl__opencl_program_find(struct charl__opencl_context *c, const char *key)
{
    const built *b;

    pthread_mutex_lock(&lock);
    b = find(c, key);
    if (b) {
        clRetainProgram(b->program);
    }
    pthread_mutex_unlock(&lock);
    return b ? b->program : NULL;
}

charl_status charl__opencl_program_keep(struct charl__opencl_context *c, const char *key, cl_program program)
{
    charl_status st = CHARL_OK;
    built *b = NULL;

    pthread_mutex_lock(&lock);
    if (!find(c, key)) { /* two ranks may build it at once, if there is no cache with a lock */
        CHARL_TRY_CLEANUP(charl__alloc(sizeof *b, &b));
        snprintf(b->key, sizeof b->key, "%s", key);
        b->program = program;
        b->next = c->programs;
        clRetainProgram(program);
        c->programs = b;
    }
cleanup:
    pthread_mutex_unlock(&lock);
    return st;
}
