/* PoCL for programs with AddressSanitizer: its compiler runs with the C library's own allocator.
 *
 * The sanitizer replaces malloc and its kin for the whole process, and LLVM calls them so often that a kernel takes two and a half times
 * as long to compile. So this library, which the ICD loader opens in place of PoCL, opens PoCL (the macro POCL, a path) in a namespace
 * with a C library of its own. What the sanitizer sees of PoCL stays as it was: memory of buffers is the sanitizer's, and copies between
 * it and the host go through the sanitizer's memcpy. Without a sanitizer PoCL is opened as always.
 *
 * The library is loaded twice: outside by the loader, and inside the namespace first of all, where its functions go before the C library's.
 * Threads of the program call PoCL, so what a C library keeps for each thread is shared, or made where it is missing.
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <dlfcn.h>
#include <locale.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>

typedef void *address_of(const char *name);

/* Inside: the functions of the sanitizer and of the program's C library. */
struct {
    void *(*memcpy)(void *, const void *, size_t);
    int (*posix_memalign)(void **, size_t, size_t);
    void (*free)(void *);
    int (*owns)(const volatile void *);
    int (*key_create)(pthread_key_t *, void (*)(void *));
    int (*key_delete)(pthread_key_t);
    void *(*getspecific)(pthread_key_t);
    int (*setspecific)(pthread_key_t, const void *);
} outside;
static const char *const names[] = {"memcpy",
                                    "posix_memalign",
                                    "free",
                                    "__sanitizer_get_ownership",
                                    "pthread_key_create",
                                    "pthread_key_delete",
                                    "pthread_getspecific",
                                    "pthread_setspecific"};

extern void __libc_free(void *);
extern int __pthread_mutex_lock(pthread_mutex_t *);

/* What PoCL copies buffers with. */
void *memcpy(void *restrict to, const void *restrict from, size_t bytes)
{
    return outside.memcpy(to, from, bytes);
}

/* What PoCL allocates buffers with. */
int posix_memalign(void **at, size_t alignment, size_t bytes)
{
    return outside.posix_memalign(at, alignment, bytes);
}

void free(void *at)
{
    if (at && outside.owns && outside.owns(at)) {
        outside.free(at);
    } else {
        __libc_free(at);
    }
}

/* What every function of OpenCL begins with. A thread that the program made has no tables of characters here. */
int pthread_mutex_lock(pthread_mutex_t *mutex)
{
    if (!*__ctype_b_loc()) {
        uselocale(LC_GLOBAL_LOCALE);
    }
    return __pthread_mutex_lock(mutex);
}

/* Both C libraries number keys from 0 and keep their values in the same place of a thread. */
int pthread_key_create(pthread_key_t *key, void (*destroy)(void *))
{
    return outside.key_create(key, destroy);
}

int pthread_key_delete(pthread_key_t key)
{
    return outside.key_delete(key);
}

void *pthread_getspecific(pthread_key_t key)
{
    return outside.getspecific(key);
}

int pthread_setspecific(pthread_key_t key, const void *value)
{
    return outside.setspecific(key, value);
}

static void *open_apart(void)
{
    Dl_info self;
    Lmid_t apart;
    void *inside, **functions;

    if (!dladdr((void *)open_apart, &self) || !(inside = dlmopen(LM_ID_NEWLM, self.dli_fname, RTLD_NOW)) ||
        dlinfo(inside, RTLD_DI_LMID, &apart) != 0 || !(functions = dlsym(inside, "outside"))) {
        return NULL;
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        functions[i] = dlsym(RTLD_DEFAULT, names[i]);
    }
    return dlmopen(apart, POCL, RTLD_NOW);
}

static void *pocl(void)
{
    static void *handle;

    if (!handle && dlsym(RTLD_DEFAULT, "__sanitizer_get_ownership") && !(handle = open_apart())) {
        fprintf(stderr, "PoCL is not apart from the sanitizer: %s\n", dlerror());
    }
    if (!handle) {
        handle = dlopen(POCL, RTLD_NOW);
    }
    return handle;
}

/* The three functions that the ICD loader looks for. */
void *clGetExtensionFunctionAddress(const char *name)
{
    address_of *find = pocl() ? (address_of *)dlsym(pocl(), "clGetExtensionFunctionAddress") : NULL;

    return find ? find(name) : NULL;
}

int clIcdGetPlatformIDsKHR(unsigned room, void *platforms, unsigned *count)
{
    int (*get)(unsigned, void *, unsigned *) =
        (int (*)(unsigned, void *, unsigned *))clGetExtensionFunctionAddress("clIcdGetPlatformIDsKHR");

    return get ? get(room, platforms, count) : -1001; /* CL_PLATFORM_NOT_FOUND_KHR */
}

int clGetPlatformInfo(void *platform, unsigned what, size_t room, void *value, size_t *bytes)
{
    int (*get)(void *, unsigned, size_t, void *, size_t *) =
        (int (*)(void *, unsigned, size_t, void *, size_t *))dlsym(pocl(), "clGetPlatformInfo");

    return get(platform, what, room, value, bytes);
}
