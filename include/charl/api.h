#ifndef CHARL_API_H
#define CHARL_API_H
/** What all headers of charl share: linkage, the version, and how to free what a function returns.
 *
 *      #include <charl/charl.h>       everything
 *      cc program.c $(pkg-config --cflags --libs charl)
 *
 *  Functions whose comment says that the caller owns a string or an array return memory that
 *  charl_free gives back. Objects have a destroy, close or release function of their own.
 *
 *  Options are structs that begin with their size, so that a program and a library of different versions understand
 *  each other: a member that the program does not know is 0, and one that the library does not know is refused unless
 *  it is 0.
 *
 *      const charl_loader_options order = {sizeof order, .batch_size = 64};
 *      charl_device_open(&(charl_device_request){sizeof(charl_device_request), .local_size = 1}, &device);
 *
 *  In C++: charl_loader_options order{}; order.struct_size = sizeof order. Where options may be NULL, that is as a
 *  struct of zeros behind the size.
 *
 *  The words with which each function is described:
 *
 *      Local        involves this rank alone; no other rank has to call it
 *      Collective   every rank of the communicator calls it, in the same order; it may wait for them
 *      Async        may return before the device, or a thread, has done what it asks for; what reads the result waits
 *      Blocks       returns when it is done
 *      Owned        the caller gives back what it gets; Borrowed: another object keeps it
 *      Thread-safe  several threads may call it at once, also for the same object; without the word an object is used
 *                   by one thread at a time
 */

/* C linkage in C++, and visible outside of the shared library, whose other symbols are hidden. */
#ifdef __cplusplus
#define CHARL_EXTERN_C_BEGIN extern "C" {
#define CHARL_EXTERN_C_END }
#else
#define CHARL_EXTERN_C_BEGIN
#define CHARL_EXTERN_C_END
#endif
#if defined(__GNUC__)
#define CHARL_BEGIN_DECLS CHARL_EXTERN_C_BEGIN _Pragma("GCC visibility push(default)")
#define CHARL_END_DECLS _Pragma("GCC visibility pop") CHARL_EXTERN_C_END
#else
#define CHARL_BEGIN_DECLS CHARL_EXTERN_C_BEGIN
#define CHARL_END_DECLS CHARL_EXTERN_C_END
#endif

CHARL_BEGIN_DECLS

/** Version of the library that is loaded, such as "0.1.0"; <charl/version.h> has that of the
 *  headers. Static. Local. Thread-safe. */
const char *charl_version(void);

/** Give back a string or an array that a function of charl returned. NULL is a no-op. Local. */
void charl_free(void *p);

CHARL_END_DECLS

#endif
