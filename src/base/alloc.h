#ifndef CHARL_BASE_ALLOC_H
#define CHARL_BASE_ALLOC_H
/** The single entry point for acquiring anything that must be released.
 *
 *  Host memory comes from charl__alloc; everything else (cl_mem, hid_t, MPI_Comm, descriptors,
 *  threads) is counted with charl__acquire and charl__drop. So a test can fail the 1st, 2nd, ...
 *  acquisition and then check for leaks. Thread-safe.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/error.h"
#include "charl/api.h" /* charl_free */

/** A local pointer to memory that is freed when its block is left (base/error.h). */
#define CHARL_SCOPED_FREE CHARL_SCOPED(charl__free_at)
static inline void charl__free_at(void *pointer)
{
    void *memory;

    memcpy(&memory, pointer, sizeof memory);
    charl_free(memory);
}

/** Zeroed host memory of `bytes` bytes into *(void **)out; NULL on failure. Free with charl_free.
 *  Errors: ERR_NOMEM. */
charl_status charl__alloc(size_t bytes, void *out) CHARL_MUST_CHECK;

/** charl__alloc of count * size bytes. Errors: ERR_NOMEM, also when the product overflows or a count
 *  is negative. */
charl_status charl__alloc_array(int64_t count, size_t size, void *out) CHARL_MUST_CHECK;

/** charl__alloc aligned to `alignment` bytes (a power of two, at least sizeof(void *)). Free with
 *  charl_free. */
charl_status charl__alloc_aligned(size_t alignment, size_t bytes, void *out) CHARL_MUST_CHECK;

/** charl__alloc of a large block that is written soon: in pages of 2 MiB if the system has them, because mapping
 *  small pages costs more than copying to them. Free with charl_free. */
charl_status charl__alloc_large(size_t bytes, void *out) CHARL_MUST_CHECK;

/** Resize *(void **)inout, keeping its contents; new bytes are not zeroed. Unchanged on failure. */
charl_status charl__realloc(size_t bytes, void *inout) CHARL_MUST_CHECK;

/** Room for one more item of `size` bytes after the `count` items of the array *(void **)items, NULL if count is 0. The array has 16, 32,
 *  64, ... places, so that callers need not store its capacity. New places are not zeroed. Errors: ERR_NOMEM, the array unchanged. */
charl_status charl__grow(int64_t count, size_t size, void *items) CHARL_MUST_CHECK;

/** Copy of `text`, owned by the caller. */
charl_status charl__strdup(const char *text, char **out) CHARL_MUST_CHECK;

/** Bytes of memory that the system could provide now, or INT64_MAX if it does not say. */
int64_t charl__host_available(void);

/** Count an acquisition other than host memory. Pair with charl__drop. `what` names it in the
 *  message. */
charl_status charl__acquire(const char *what) CHARL_MUST_CHECK;
void charl__drop(void);

/** Test hooks. Fail the nth acquisition from now and none after it (0 = never); number of live
 *  objects. */
void charl__fault_after(long nth);
long charl__live(void);

/** Number of allocations of host memory by this thread so far: a steady state makes
 *  none. */
long charl__allocated(void);

/** How many acquisitions from now the injected failure is; 0 when it has happened or none is set.
 */
long charl__fault_pending(void);

#endif
