#ifndef CHARL_DEVICE_DEVICE_PRIVATE_H
#define CHARL_DEVICE_DEVICE_PRIVATE_H
/** Internals of the device layer. */
#include <stdio.h>

#include "base/alloc.h"
#include "base/trace.h"
#include "base/owner.h"
#include "device/device.h"
#include "device/driver.h"
#include "gemm/gemm_args.h"

enum { CHARL__MAX_DEVICES = 64, CHARL__FLUSH_EVERY = 32, CHARL__DEVICE_USES = 48 };

/** One device of one platform. */
typedef struct charl__found {
    void *platform, *id; /* cl_platform_id, cl_device_id */
    char platform_version[256];
    bool unified;                /* shares the host's memory */
    bool has_half;               /* cl_khr_fp16 is reported */
    bool rounds_divide;          /* correctly rounded division and square root can be requested */
    bool has_denormals, has_fma; /* of f32, are reported */
    bool has_local;              /* local memory of its own, not a part of global memory */
    int lockstep;     /* work-items of a warp (NVIDIA) or wavefront (AMD); 0: not reported. No kernel depends on it */
    int vector_width; /* preferred, in floats; at least 1 */
    int capability;   /* of NVIDIA's GPUs: compute capability, times 10; else 0 */
    charl_device_info info;
} charl__found;

enum { CHARL__CACHE_KEY = 65 };

/** The device of a rank, and how many ranks of the node use it. */
typedef struct charl__pick {
    int index;
    int sharers;
} charl__pick;

typedef struct charl__kernel {
    struct charl__kernel *next;
    char *entry;
    charl__driver_kernel *kernel;
    int args;
} charl__kernel;

/** A kernel and a work-group size, for which PoCL compiles at the first launch. */
typedef struct charl__variant {
    struct charl__variant *next;
    char *entry;
    size_t local[3];
} charl__variant;

typedef struct charl__program {
    struct charl__program *next;
    uint64_t hash; /* of file and defines */
    char *file, *defines;
    const char *source; /* see charl__launch */
    charl__sm90a sm90a;
    char key[CHARL__CACHE_KEY];
    char *common, *text,
        *options; /* of the compiler, until it is loaded: the prelude, the file, and whatever else the key must distinguish */
    bool is_wanted;                 /* of dev->compilers */
    charl__driver_program *program; /* NULL: not yet loaded */
    charl__kernel *kernels;         /* shared by direct launches */
    charl__variant *variants;       /* PoCL: those that have been launched, or that recordings will launch */
} charl__program;

struct charl__event {
    charl_device *dev; /* retained */
    charl__driver_event *event;
    charl__event *next; /* in the device's list of spare ones */
};

enum { CHARL__SPARE_EVENTS = 256 };

enum { CHARL__RECENT_COMMANDS = 8, CHARL__COMMAND_TEXT = 48 };

/** A command of the compute queue, for messages; names are truncated. */
typedef struct charl__command {
    char what[CHARL__COMMAND_TEXT], label[CHARL__COMMAND_TEXT];
} charl__command;

enum { CHARL__WORKSPACE_SPLIT_K, CHARL__WORKSPACE_COPIES, CHARL__WORKSPACE_COUNT };

struct charl_device {
    charl__owner owner; /* of the device and of everything on it */
    /* one for the user, one for every object created on it: what outlives the device stays valid */
    int refs;
    charl_device_info info; /* found.info */
    charl__device_facts facts;
    charl__found found;
    const charl__driver *driver;
    bool is_open;
    struct charl__opencl *opencl;        /* its compiler serves every driver */
    struct charl__nvidia *nvidia;        /* of the driver nvidia */
    int64_t commands[CHARL_QUEUE_COUNT]; /* number enqueued so far, without markers and barriers */
    charl_device_memory memory;
    charl_device_use use[CHARL__DEVICE_USES]; /* counters of memory.in_use; unused ones at the end have no name */
    const char *purpose;                      /* charl__device_set_purpose */
    charl__device_counters counters;
    charl__program *programs;
    charl_compiling compiling; /* NULL: nothing is reported */
    void *compiling_ctx;
    charl_compile_progress progress;
    charl__recording *recording; /* in progress; borrowed */
    struct charl__tuning_db *tuning_db;
    char *cache_dir;                                  /* NULL: no disk cache */
    struct charl__compilers *compilers;               /* NULL: none, or none any longer */
    int local_size;                                   /* ranks of the node; at least 1 */
    bool pocl, pocl_keeps;                            /* PoCL compiles; it has its own cache */
    int unflushed;                                    /* launches since the last flush of the compute queue */
    bool sync;                                        /* CHARL_SYNC: wait after every launch */
    bool only_wants;                                  /* charl__launches_want_begin */
    bool offloads;                                    /* request.offload */
    bool skip_kernels;                                /* launches are only checked and recorded */
    bool plans;                                       /* and buffers above a page only counted */
    struct charl__timing *timing;                     /* CHARL_PROFILE: time every launch; NULL: off */
    struct charl__tracing *tracing;                   /* request.traced; NULL: commands have no timestamps */
    charl__event event[CHARL__SPARE_EVENTS];          /* so that a step does not allocate any */
    charl__event *spare;                              /* those not in use */
    charl__buffer *workspace[CHARL__WORKSPACE_COUNT]; /* workspace.c */
    struct charl__fast_reads *fast_reads;             /* transfer.c; NULL: not begun */
    charl__command recent[CHARL__RECENT_COMMANDS];    /* failure.c */
    int64_t noted, completed; /* commands of the compute queue: enqueued, known to have succeeded */
};

struct charl__buffer {
    int refs;
    charl_device *dev; /* retained */
    charl__driver_memory *mem;
    size_t bytes;             /* requested by the caller */
    int64_t counted;          /* bytes of the budget */
    charl_device_use *use;    /* the counter they are added to */
    bool wrapped;             /* over host memory of the caller */
    unsigned char *offloaded; /* the host memory that it is over and owns; or NULL */
    bool is_planned;          /* counted only: what is written is dropped, and zeros are read */
    void *mapping;            /* memory to unmap: shared or offloaded; or NULL */
    bool filling;             /* the compute queue may not have written the zeros yet */
};

/** A launch whose kernel has its arguments. */
typedef struct charl__ready {
    charl__driver_kernel *kernel;
    const charl__program *program; /* borrowed from the device; NULL until the kernel is known */
    size_t global[3], local[3];
    const char *entry, *label;
    charl__queue queue;
    const charl__event *after; /* NULL: none */
    double bytes, flop;        /* of its operands; of charl__recording_add_flop */
    bool compiles;             /* the driver compiles the kernel at this launch */
} charl__ready;

/* failure.c */
/** Remember a command of the compute queue. Both texts are copied. */
void charl__command_note(charl_device *dev, const char *what, const char *label);
/** All commands noted so far have succeeded. */
void charl__commands_completed(charl_device *dev);
/** The status and message of a failed driver call: the purpose `call`, the device and, if an earlier command caused it,
 *  the commands that may have. */
charl_status charl__device_failed(const charl_device *dev, const char *call, charl__driver_error e) CHARL_MUST_CHECK;
/** The same for the error code of a call; OK if it is 0. */
charl_status charl__device_check(const charl_device *dev, const char *call, int err) CHARL_MUST_CHECK;

/* discovery.c */
charl_status charl__devices_find(charl__found *out, int *count) CHARL_MUST_CHECK;
/** "" or a sentence that tells how to register a driver that is installed but not registered. */
const char *charl__devices_hint(void);

/** Select the device that a request means from a list: pure. Errors: ERR_CONFIG, ERR_DEVICE. */
charl_status charl__device_select(const charl_device_info *info, int count, const charl_device_request *request,
                                  charl__pick *out) CHARL_MUST_CHECK;

/* device.c */
/** A device that can only build programs: number `index`, if it is called `name`. */
charl_status charl__device_open_compiler(int index, const char *name, charl_driver driver,
                                         charl_device **out) CHARL_MUST_CHECK;
charl_device *charl__device_retain(charl_device *dev);
void charl__device_release(charl_device *dev); /* NULL is a no-op */
/** Account for the time since `begin`, in which the host has waited for the device. */
void charl__device_waited(charl_device *dev, double begin);
/** Takes ownership of the event of a command of q, even on failure, and flushes q. */
charl_status charl__event_adopt(charl_device *dev, charl__queue q, charl__driver_event *event,
                                charl__event **out) CHARL_MUST_CHECK;
/** Wait for e, without accounting for the time. */
charl_status charl__event_await(charl_device *dev, charl__driver_event *e) CHARL_MUST_CHECK;
/** Wait until the device is idle; the error names `what`. */
charl_status charl__queue_finish(charl_device *dev, charl__queue q, const char *what) CHARL_MUST_CHECK;

/* timing.c */
typedef struct charl__timing charl__timing;
charl_status charl__timing_create(charl__timing **out) CHARL_MUST_CHECK;
/** Wait for the launch and add its time. */
charl_status charl__timing_add(charl_device *dev, const charl__ready *r, charl__driver_event *event) CHARL_MUST_CHECK;
/** Logs the table, longest first. NULL is a no-op. */
void charl__timing_destroy(charl__timing *t);

/* tracing.c */
typedef struct charl__tracing charl__tracing;
charl_status charl__tracing_create(charl__tracing **out) CHARL_MUST_CHECK;
void charl__tracing_destroy(charl_device *dev, charl__tracing *t); /* NULL is a no-op */
/** The name of a command in a trace; both texts are copied. */
typedef struct charl__traced {
    const char *name, *label;
    double bytes, flop;
} charl__traced;
/** Whether commands keep their events, which must then be requested. */
bool charl__tracing_is_on(const charl_device *dev);
/** Keep the event of a command of q; the caller still releases its own. No effect if it is NULL or no trace is active. */
void charl__tracing_note(charl_device *dev, charl__queue q, const charl__traced *what, charl__driver_event *event);

/* probe.c */
charl_status charl__device_probe(charl_device *dev, bool allow_tf32, bool exact_half) CHARL_MUST_CHECK;

/* large_pages.c */
/** Request large pages for a buffer of a device with facts.zero_copy, before
 *  anything is written to it. A hint: it has no effect if there are none. Blocks until the
 *  compute queue is idle. */
void charl__large_pages(charl_device *dev, charl__driver_memory *mem, size_t bytes);

/* buffer.c */
charl_status charl__budget_check(const charl_device *dev, size_t bytes, const char *what) CHARL_MUST_CHECK;
/** Count bytes of `what`, a literal. Returns the counter, for charl__budget_drop. */
charl_device_use *charl__budget_add(charl_device *dev, const char *what, int64_t bytes);
/** use NULL: only the total is reduced. */
void charl__budget_drop(charl_device *dev, charl_device_use *use, int64_t bytes);
/** Call before queue q touches b: makes it wait for the zeros of a new buffer. */
charl_status charl__buffer_wait_zeroed(charl__buffer *b, charl__queue q) CHARL_MUST_CHECK;

/** A buffer around mem, of which it takes ownership even on failure. */
charl_status charl__buffer_adopt(charl_device *dev, charl__driver_memory *mem, size_t bytes,
                                 charl__buffer **out) CHARL_MUST_CHECK;

/* opencl/driver.c */
void charl__opencl_close(charl_device *dev);

/* nvidia/cuda.c, exported_cuda.c: memory of NVIDIA's GPUs, through the library of their driver, loaded on first use. */
typedef struct charl__cuda_block {
    uint64_t handle, address;
    size_t bytes;
    int device; /* CUDA's number */
    bool has_context;
} charl__cuda_block;
/** NULL, or the reason why there is no such memory. Static storage. */
const char *charl__cuda_missing(void);
/** NULL, or the reason why libcuda cannot access the GPU at `pci`. Static storage. */
const char *charl__cuda_hides(const char *pci);
/** NULL, or the reason why the GPU at `pci` cannot reach the memory of the GPU at `other`. Static storage. */
const char *charl__cuda_unreachable(const char *pci, const char *other);
/** Zeroed memory of the GPU at `pci` and its file descriptor, owned by the caller.
 *  Errors: ERR_NOMEM, ERR_DEVICE. */
charl_status charl__cuda_export(const char *pci, size_t bytes, charl__cuda_block *b, int *fd) CHARL_MUST_CHECK;
void charl__cuda_release(charl__cuda_block *b);

/* program.c */
/** The program of l's file, defines and sm90a, built on first use; borrowed from the
 *  device.
 */
charl_status charl__program_get(charl_device *dev, const charl__launch *l, charl__program **out) CHARL_MUST_CHECK;
void charl__programs_release(charl_device *dev);
/** Have it compiled ahead, if possible, because charl__program_get will be called. Errors: invalid parameters. */
charl_status charl__program_want(charl_device *dev, const charl__launch *l) CHARL_MUST_CHECK;
/** Put the program into the cache, unless it is there. Errors: ERR_KERNEL; ERR_DEVICE  another process is compiling it. */
charl_status charl__program_compile(charl_device *dev, const charl__program *p) CHARL_MUST_CHECK;
/** A new kernel object. Owned; release with charl__kernel_release. */
charl_status charl__kernel_create(charl_device *dev, const charl__program *p, const char *entry,
                                  charl__kernel *out) CHARL_MUST_CHECK;
void charl__kernel_release(charl_device *dev, charl__driver_kernel *k); /* NULL is a no-op */
/** The kernel object that direct launches share. Borrowed. */
charl_status charl__kernel_get(charl_device *dev, charl__program *p, const char *entry,
                               charl__kernel *out) CHARL_MUST_CHECK;
/** *out: whether the driver will compile `entry` for these work-groups at the next launch, which the caller
 *  is about to do; false if called again. */
charl_status charl__kernel_is_new(charl_device *dev, charl__program *p, const char *entry, const size_t local[3],
                                  bool *out) CHARL_MUST_CHECK;

/* compilers.c: processes that compile programs ahead. If there are none, these do nothing. */
typedef struct charl__compilers charl__compilers;
/** Maximum number of them. */
int charl__compilers_most(const charl_device *dev);
charl_status charl__compilers_want(charl_device *dev, charl__program *p) CHARL_MUST_CHECK;
/** Wait until p is in the cache, or no process will compile it. */
charl_status charl__compilers_wait(charl_device *dev, const charl__program *p) CHARL_MUST_CHECK;
/** End them. False if there were none. */
bool charl__compilers_end(charl_device *dev);

/* compiling.c */
/** Report that `what` is about to be compiled. Returns the time, for charl__compiling_end. */
double charl__compiling_begin(charl_device *dev, const char *what);
/** Report that it has been compiled; `counts`: as one more kernel. */
void charl__compiling_end(charl_device *dev, double begun, bool counts);

/* cache.c: compiled programs on disk. Every failure is a miss: the cache never makes a build fail.
 */
/** The directory of the cache, created if need be: CHARL_CACHE_DIR, $XDG_CACHE_HOME/charl or
 *  ~/.cache/charl. *out is NULL if there is none, or, with a warning, if it belongs to another user
 *  than this one or root, or others may write to it. Errors: ERR_NOMEM. */
charl_status charl__cache_open(char **out) CHARL_MUST_CHECK;
/** By the platform's name, because no test program can find out. */
bool charl__is_pocl(const charl_device_info *info);
/** Sets dev->pocl and pocl_keeps. */
void charl__cache_know_pocl(charl_device *dev);
/** Unless POCL_CACHE_DIR is set, makes PoCL store compiled kernels under CHARL_CACHE_DIR or, if
 *  that and PoCL's default cannot be used, in $TMPDIR/charl-UID. Call before the first call of OpenCL. */
void charl__cache_place_pocl(void);
/** A file of the cache, to read: NULL if there is none, it is a link, or another user could have
 *  written it. */
FILE *charl__cache_file_open(const char *path);
/** A new file of the cache, to write, that only this user can read and write. NULL on failure, with
 *  errno. */
FILE *charl__cache_file_create(const char *path);
void charl__cache_key(const charl_device *dev, const char *const source[3], const char *options, char *key);
/** Whether there is an entry, even a damaged one. */
bool charl__cache_has(const charl_device *dev, const char *key);
/** NULL: missing or damaged. */
charl_status charl__cache_load(charl_device *dev, const char *key, const char *options,
                               charl__driver_program **out) CHARL_MUST_CHECK;
charl_status charl__cache_store(charl_device *dev, const char *key, charl__driver_program *program) CHARL_MUST_CHECK;
/** Lock the program `key`, so that no other rank or process compiles it; if another holds the lock, wait for it if `waits`. -1: no lock. */
int charl__cache_lock(const charl_device *dev, const char *key, bool waits);
void charl__cache_unlock(int lock);

/* tuning_db.c */
typedef struct charl__tuning_db charl__tuning_db;
/** Sets dev->tuning_db from CHARL_TUNE and the file in dev->cache_dir. Errors: ERR_CONFIG,
 *  ERR_NOMEM. */
charl_status charl__tuning_db_open(charl_device *dev, charl_tune_mode asked) CHARL_MUST_CHECK;
void charl__tuning_db_close(charl__tuning_db *c); /* NULL is a no-op */

/* opencl/compile.c */
/** The output text of NVIDIA's compiler for a source, whether or not it assembles; owned by the caller. Errors: ERR_KERNEL. */
charl_status charl__opencl_ptx(charl_device *dev, const char *file, const char *const source[3], const char *options,
                               char **out) CHARL_MUST_CHECK;

/* sm90a.c */
/** Compiler options for sm_90a. */
const char *charl__sm90a_options(const charl_device *dev);
/** Build for NVIDIA's target sm_90a. Errors: ERR_KERNEL if the compiler is not NVIDIA's, or the compiler or assembler rejects its
 *  input; ERR_NOMEM. */
charl_status charl__sm90a_build(charl_device *dev, const char *file, const char *const source[3],
                                const charl__sm90a *target, charl__driver_program **out) CHARL_MUST_CHECK;

/* probe_ptx.c */
/** Set facts.nvidia.ptx. capability: compute capability times 10, 0 for devices that are not NVIDIA's. Errors: ERR_NOMEM and errors of transfers;
 *  a kernel that does not build or run is not an error. */
charl_status charl__probe_ptx(charl_device *dev, int capability) CHARL_MUST_CHECK;

/* workspace.c */
/** Replace dev->workspace[k] by at least `bytes` of zeros; recordings keep the old one alive. Errors: ERR_NOMEM, and then it is
 *  unchanged. */
charl_status charl__workspace_replace(charl_device *dev, int k, size_t bytes, const char *what) CHARL_MUST_CHECK;
/** Release one workspace, and with the last one the device. Returns false if there is none. */
bool charl__workspace_release_one(charl_device *dev);

/* probe_product.c */
/** A test of a kernel of matrix products: one product of small integers, whose sums are exact, [m, k] times [k, n]. */
typedef struct charl__product_probe {
    charl__gemm_args args;
    int others;           /* operands after them, all NULL */
    size_t size;          /* bytes of an element of the operands: 2, bf16; 4, f32 */
    const char *what;     /* for messages */
    charl__launch launch; /* without arguments */
} charl__product_probe;
/** Runs the probe. A kernel that does not build or run counts as wrong; the reason is logged. Errors: ERR_NOMEM and errors of transfers. */
charl_status charl__probe_product(charl_device *dev, const charl__product_probe *p, bool *is_right) CHARL_MUST_CHECK;

/* probe_amx.c */
/** Set facts.x86.amx. Errors: as charl__probe_product. */
charl_status charl__probe_amx(charl_device *dev) CHARL_MUST_CHECK;

/* probe_tensor_cores.c */
/** Set facts.nvidia.wgmma, mma and, if allowed, tf32. Call after charl__probe_ptx. Errors: ERR_NOMEM and errors of transfers; a kernel that does
 *  not build or computes wrong results is not an error. */
charl_status charl__probe_tensor_cores(charl_device *dev, int capability, bool allow_tf32) CHARL_MUST_CHECK;

/* launch.c, recording.c */
/** Check l and fill in *out except for its kernel. */
charl_status charl__ready_init(const charl_device *dev, const charl__launch *l, charl__ready *out) CHARL_MUST_CHECK;
/** Set argument *at (of a buffer also the next one, its offset) and advance *at. */
charl_status charl__arg_set(charl_device *dev, charl__driver_kernel *kernel, const char *entry, const charl__arg *a,
                            int *at) CHARL_MUST_CHECK;
charl_status charl__args_set(charl_device *dev, const charl__kernel *kernel, const charl__launch *l) CHARL_MUST_CHECK;
charl_status charl__ready_enqueue(charl_device *dev, const charl__ready *r) CHARL_MUST_CHECK;
/** The same for a launch that compiles: reports it, and waits until it is done. */
charl_status charl__ready_compile(charl_device *dev, charl__ready *r) CHARL_MUST_CHECK;
/** Record l, alone or together with the previous launch; r has everything except a kernel. A launch that may be
 *  part of a pair is built once that is decided. */
charl_status charl__recording_add(charl__recording *rec, const charl__launch *l, charl__ready r) CHARL_MUST_CHECK;

/* nvidia/health.c */
/** Joules that the GPU has used since its driver was loaded. False: it is none of NVIDIA's, or does not count. */
bool charl__nvidia_energy(const charl_device_info *device, double *joules);

/* launch_pair.c */
/** Whether a and b may be one launch; *first is the one whose defines come first. */
bool charl__launch_pair_fits(const charl__launch *a, const charl__launch *b, const charl__launch **first);
/** Launch or record both as a single launch. */
charl_status charl__launch_pair(charl_device *dev, const charl__launch *first,
                                const charl__launch *second) CHARL_MUST_CHECK;

static inline bool charl__arg_is_buffer(charl__arg_kind kind)
{
    return kind == CHARL_ARG_IN || kind == CHARL_ARG_OUT || kind == CHARL_ARG_INOUT;
}

/** Number of kernel arguments that a stands for. */
static inline int charl__arg_params(const charl__arg *a)
{
    return charl__arg_is_buffer(a->kind) && !a->is_placed ? 2 : 1;
}

#endif
