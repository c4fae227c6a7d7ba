/* Counted, fault-injectable acquisition. The state is two atomics and a count per
 * thread.
 *
 * The caller's pointer may be of any type, so it is copied: storing through a void ** would alias
 * it. */
#define _DEFAULT_SOURCE /* madvise */
#include "base/alloc.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/fault.h"
#include "base/log.h"

static atomic_long live_count;
static _Thread_local long allocated_count;
static atomic_long fault_at; /* 0: off; 1: the next acquisition fails */

charl_status charl__acquire(const char *what)
{
    charl__fault_load(); /* CHARL_FAULT=alloc:17 */
    if (atomic_load(&fault_at) > 0 && atomic_fetch_sub(&fault_at, 1) == 1) {
        charl__log(CHARL_LOG_INFO, "fault alloc");
        CHARL_FAIL(CHARL_ERR_NOMEM, "injected failure acquiring %s", what);
    }
    atomic_fetch_add(&live_count, 1);
    return CHARL_OK;
}

static charl_status acquire_memory(void)
{
    allocated_count++;
    return charl__acquire("host memory");
}

void charl__drop(void)
{
    atomic_fetch_sub(&live_count, 1);
}

charl_status charl__alloc_aligned(size_t alignment, size_t bytes, void *out)
{
    charl_status st = CHARL_OK;
    void *p = NULL;

    CHARL_TRY_CLEANUP(acquire_memory());
    if (posix_memalign(&p, alignment, bytes ? bytes : 1) != 0) {
        p = NULL;
        charl__drop();
        CHARL_FAIL_CLEANUP(CHARL_ERR_NOMEM, "out of host memory: %zu bytes", bytes);
    }
    memset(p, 0, bytes);
cleanup:
    memcpy(out, &p, sizeof p);
    return st;
}

charl_status charl__alloc(size_t bytes, void *out)
{
    charl_status st = CHARL_OK;
    void *p = NULL;

    CHARL_TRY_CLEANUP(acquire_memory());
    p = calloc(1, bytes ? bytes : 1);
    if (!p) {
        charl__drop();
        CHARL_FAIL_CLEANUP(CHARL_ERR_NOMEM, "out of host memory: %zu bytes", bytes);
    }
cleanup:
    memcpy(out, &p, sizeof p);
    return st;
}

charl_status charl__alloc_large(size_t bytes, void *out)
{
    enum { LARGE_PAGE = 2 << 20 };
    char *p = NULL;

    CHARL_TRY(charl__alloc(bytes, &p));
#ifdef MADV_HUGEPAGE
    if (bytes >= 2 * LARGE_PAGE) {
        const size_t skipped = -(uintptr_t)p % LARGE_PAGE;

        (void)madvise(p + skipped, (bytes - skipped) / LARGE_PAGE * LARGE_PAGE, MADV_HUGEPAGE);
    }
#endif
    memcpy(out, &p, sizeof p);
    return CHARL_OK;
}

charl_status charl__alloc_array(int64_t count, size_t size, void *out)
{
    void *p = NULL;

    memcpy(out, &p, sizeof p);
    CHARL_REQUIRE(count >= 0 && (size == 0 || (uint64_t)count <= SIZE_MAX / size), CHARL_ERR_NOMEM,
                  "out of host memory: %lld elements of %zu bytes", (long long)count, size);
    CHARL_TRY(charl__alloc((size_t)count * size, out));
    return CHARL_OK;
}

charl_status charl__realloc(size_t bytes, void *inout)
{
    void *old, *p = NULL;

    memcpy(&old, inout, sizeof old);
    CHARL_TRY(acquire_memory());
    p = realloc(old, bytes ? bytes : 1);
    if (!p) {
        charl__drop();
        CHARL_FAIL(CHARL_ERR_NOMEM, "out of host memory: %zu bytes", bytes);
    }
    if (old) {
        charl__drop(); /* the old block was counted too */
    }
    memcpy(inout, &p, sizeof p);
    return CHARL_OK;
}

charl_status charl__grow(int64_t count, size_t size, void *items)
{
    enum { FIRST = 16 };
    const uint64_t n = (uint64_t)count;

    if (n == 0) {
        return charl__realloc(FIRST * size, items);
    }
    if (n < FIRST || (n & (n - 1)) != 0) {
        return CHARL_OK;
    }
    CHARL_REQUIRE(n <= SIZE_MAX / 2 / size, CHARL_ERR_NOMEM, "out of host memory: %lld elements of %zu bytes",
                  (long long)count, size);
    return charl__realloc(2 * n * size, items);
}

charl_status charl__strdup(const char *text, char **out)
{
    const size_t bytes = strlen(text) + 1;

    CHARL_TRY(charl__alloc(bytes, out));
    memcpy(*out, text, bytes);
    return CHARL_OK;
}

void charl_free(void *p)
{
    if (p) {
        free(p);
        charl__drop();
    }
}

/* The number behind `name`, or the first; INT64_MAX where there is none. */
static int64_t number_in(const char *folder, const char *file, const char *name)
{
    char path[4096], line[256];
    FILE *f = snprintf(path, sizeof path, "%s/%s", folder, file) < (int)sizeof path ? fopen(path, "re") : NULL;
    const size_t n = strlen(name);
    long long v = INT64_MAX;

    while (f && fgets(line, sizeof line, f)) {
        if (strncmp(line, name, n) == 0 && sscanf(line + n, "%lld", &v) == 1) {
            break;
        }
    }
    if (f) {
        fclose(f);
    }
    return v;
}

/* What the limits of control groups (version 2) leave to this process, with the cached files that they would drop first. */
static int64_t group_available(void)
{
    static const char root[] = "/sys/fs/cgroup";
    char line[2048] = "", folder[4096];
    FILE *f = fopen("/proc/self/cgroup", "re");
    int64_t left = INT64_MAX;

    while (f && strncmp(line, "0::/", 4) != 0 && fgets(line, sizeof line, f)) {
    }
    if (f) {
        fclose(f);
    }
    line[strcspn(line, "\n")] = '\0';
    snprintf(folder, sizeof folder, "%s%s", root, strncmp(line, "0::/", 4) == 0 && line[4] ? line + 3 : "");
    while (strlen(folder) >= strlen(root)) { /* the group and those around it */
        const int64_t most = number_in(folder, "memory.max", "");

        if (most < INT64_MAX) {
            const int64_t files = number_in(folder, "memory.stat", "inactive_file ");
            const int64_t here = most - number_in(folder, "memory.current", "") + (files < most ? files : 0);

            left = here > left ? left : here > 0 ? here : 0;
        }
        *strrchr(folder, '/') = '\0';
    }
    return left;
}

int64_t charl__host_available(void)
{
    const int64_t group = group_available();
    FILE *f = fopen("/proc/meminfo", "r");
    char line[128];
    long long kib = -1;

    while (f && kib < 0 && fgets(line, sizeof line, f)) {
        if (sscanf(line, "MemAvailable: %lld kB", &kib) != 1) {
            kib = -1;
        }
    }
    if (f) {
        fclose(f);
    }
    return kib < 0 || (int64_t)kib * 1024 > group ? group : (int64_t)kib * 1024;
}

void charl__fault_after(long nth)
{
    atomic_store(&fault_at, nth);
}

long charl__live(void)
{
    return atomic_load(&live_count);
}

long charl__allocated(void)
{
    return allocated_count;
}

long charl__fault_pending(void)
{
    const long at = atomic_load(&fault_at);

    return at > 0 ? at : 0;
}
