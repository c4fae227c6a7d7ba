#ifndef CHARL_DEVICE_DEVICE_H
#define CHARL_DEVICE_DEVICE_H
/** What the layers above use of a device: buffers, transfers, events, launches, recordings, step
 * records.
 *
 *  No OpenCL type appears here. Queues are in-order; work on different queues is ordered by events
 * only. Everything is called from the thread that owns the device.
 */
#include "base/error.h"
#include "charl/device.h"

typedef struct charl_buffer charl_buffer; /* counted device memory */
typedef struct charl_event charl_event;   /* a point in a queue; counted by hand */
typedef struct charl_pinned charl_pinned; /* host memory that transfers at full speed */
typedef struct charl_prepared charl_prepared;
typedef struct charl_recording charl_recording; /* launches with arguments set, to be replayed */
typedef struct charl_export charl_export; /* memory that other processes map into their devices */
typedef struct charl_ring charl_ring;     /* a small device buffer rewritten before every step */

typedef enum charl_queue {
    CHARL_QUEUE_COMPUTE,
    CHARL_QUEUE_UPLOAD,
    CHARL_QUEUE_DOWNLOAD,
    CHARL_QUEUE_COMM,
    CHARL_QUEUE_COUNT
} charl_queue;

/** Facts found by asking and by compiling and running small kernels, never by names. */
typedef struct charl_device_facts {
    /* Host memory wrapped in a buffer is used in place: what a finished queue wrote is seen through
     * the host pointer, and the other way round, without mapping. That is more than OpenCL
     * promises; PoCL's CPU device does it. Only CPU devices that say they share memory are asked,
     * by filling a buffer and looking; all others copy. */
    bool zero_copy;
    bool fp16;           /* half arithmetic compiles and runs */
    bool tiles_in_local; /* tiles go to local memory: not on CPUs, whose caches hold them. Also on
                            GPUs that have none of their own (Arm Mali), where it is slower: what
                            suits CPUs wants a megabyte for each work-item */
    bool wgmma; /* kernels with sm90a.shared_bytes run, and matrix products on the tensor cores of
                            NVIDIA's compute capability 9.0 are right */
    bool mma;   /* else: matrix products of half types on those of 8.0 and higher are */
    bool tf32;  /* f32 may be multiplied there too, rounded to tf32 */
    bool ptx;   /* kernels may use inline PTX of compute capability 8.0: they are built with
                         CHARL_PTX defined */
    int vector_width; /* preferred floats per vector */
    int group; /* a work-group size that suits simple kernels: 1 on CPUs that vectorise inside a
                  work-item */
} charl_device_facts;

const charl_device_facts *charl__device_facts(const charl_device *dev);
/** Choose kernels as for a device with these facts; returns the previous ones. For tests that compare
 *  forms of a kernel. Compiled graphs keep their kernels. */
charl_device_facts charl__device_set_facts(charl_device *dev, charl_device_facts facts);

/* Buffers. `what` names the buffer in out-of-memory messages and must be a literal. */

/** New device memory, zero-filled. Refused with ERR_NOMEM naming `what`, need, use and capacity
 * before the driver is asked when the budget is exceeded (PoCL never reports a shortage). bytes 0
 * is allowed and gives a minimal buffer. */
charl_status charl__buffer_create(charl_device *dev, size_t bytes, const char *what,
                                  charl_buffer **out) CHARL_MUST_CHECK;
/** A buffer over host memory the caller owns, page-aligned, alive until the buffer's release. In
 * place where facts.zero_copy holds: then the host may also use its pointer, between launches that
 * are finished. Elsewhere host access goes through charl__buffer_map. */
charl_status charl__buffer_wrap(charl_device *dev, void *host, size_t bytes,
                                charl_buffer **out) CHARL_MUST_CHECK;
charl_buffer *charl__buffer_retain(charl_buffer *b);
void charl__buffer_release(charl_buffer *b); /* NULL is a no-op */
size_t charl__buffer_bytes(const charl_buffer *b);
charl_device *charl__buffer_device(const charl_buffer *b);

/** Memory through which work-groups of a launch on the compute queue pass sums on: for each compute
 * unit CHARL_SPLIT_K_FLOATS, after CHARL_SPLIT_K_WORDS words that are 0 wherever no launch runs.
 * Borrowed from the device. NULL unless facts.wgmma, mma or tf32. */
charl_buffer *charl__workspace_split_k(const charl_device *dev);
/** Memory for copies that launches on the compute queue make and read one after another: every
 * call may give the same. Borrowed until the next call; a recording retains what it names. Errors:
 * ERR_NOMEM. */
charl_status charl__workspace_copies(charl_device *dev, size_t bytes,
                                     charl_buffer **out) CHARL_MUST_CHECK;
enum {
    CHARL_SPLIT_K_GROUPS = 512, /* that pass sums on, at most: four words each */
    CHARL_SPLIT_K_WORDS = 4 * CHARL_SPLIT_K_GROUPS,
    CHARL_SPLIT_K_FLOATS = 136 * 256
};

/* Transfers; offsets and sizes in bytes. `wait` blocks until done and the host memory is free
 * again; without it the host memory (pinned memory, or memory that outlives the transfer) must stay
 * untouched until an event recorded afterwards has passed. */
charl_status charl__buffer_write(charl_queue q, charl_buffer *b, size_t offset, const void *src,
                                 size_t bytes, bool wait) CHARL_MUST_CHECK;
charl_status charl__buffer_read(charl_queue q, charl_buffer *b, size_t offset, void *dst,
                                size_t bytes, bool wait) CHARL_MUST_CHECK;
/** Read without waiting; *out: when dst has it, and all of q before it is done. A command less than
 * reading and recording an event. Async. bytes > 0. */
charl_status charl__buffer_fetch(charl_queue q, charl_buffer *b, size_t offset, void *dst,
                                 size_t bytes, charl_event **out) CHARL_MUST_CHECK;
/** Host pointer to a range for reading and writing; blocks until earlier work of queue q is done.
 * Unmap before kernels use it. */
charl_status charl__buffer_map(charl_queue q, charl_buffer *b, size_t offset, size_t bytes,
                               void **out) CHARL_MUST_CHECK;
charl_status charl__buffer_unmap(charl_queue q, charl_buffer *b, void *ptr) CHARL_MUST_CHECK;

/** Pinned host memory, mapped for its whole life; *host gets its address. */
charl_status charl__pinned_create(charl_device *dev, size_t bytes, charl_pinned **out,
                                  void **host) CHARL_MUST_CHECK;
/** The same for memory that the caller owns, page-aligned and alive until charl__pinned_destroy:
 * ordinary memory transfers at a third of the speed or less. Its contents stay. Errors: ERR_NOMEM
 * where the driver or a limit on locked memory refuses; transfers work without. */
charl_status charl__pinned_wrap(charl_device *dev, void *host, size_t bytes,
                                charl_pinned **out) CHARL_MUST_CHECK;
void charl__pinned_destroy(charl_pinned *p); /* NULL is a no-op; waits for transfers */

/* Memory that the devices of a node's processes share: each process exports a block of its own and
 * passes the descriptor to the others, and everybody imports all of them. */
typedef enum charl_shared_kind {
    CHARL_SHARED_NONE,
    CHARL_SHARED_HOST, /* CPU devices: host memory, used in place */
    CHARL_SHARED_CUDA  /* NVIDIA GPUs: their memory, reached over the link between them */
} charl_shared_kind;

/** How memory of dev is exported; NONE: *why says what is missing (static storage). */
charl_shared_kind charl__export_kind(const charl_device *dev, const char **why);
/** NULL, or why dev cannot map memory of another device of the same kind, at `pci`. */
const char *charl__export_unreachable(const charl_device *dev, const char *pci);
/** `bytes` of zeros, counted as memory of dev; imports live on after it. Errors: ERR_NOMEM,
 * ERR_DEVICE (also where the kind is NONE). */
charl_status charl__export_create(charl_device *dev, size_t bytes, const char *what,
                                  charl_export **out) CHARL_MUST_CHECK;
int charl__export_fd(const charl_export *e); /* borrowed */
void charl__export_destroy(charl_export *e); /* NULL is a no-op */
/** A buffer over all `bytes` of an export of any process. fd is borrowed. Errors: ERR_DEVICE,
 * ERR_NOMEM. */
charl_status charl__buffer_import(charl_device *dev, int fd, size_t bytes,
                                  charl_buffer **out) CHARL_MUST_CHECK;

/* Events: the moment when everything enqueued on q so far is done. */
charl_status charl__event_record(charl_device *dev, charl_queue q,
                                 charl_event **out) CHARL_MUST_CHECK;
/** How many launches and transfers were ever enqueued on q: as long as it stays, there is nothing
 * new to be ordered behind. */
int64_t charl__queue_commands(const charl_device *dev, charl_queue q);
charl_status charl__queue_wait(charl_device *dev, charl_queue q, const charl_event *e)
    CHARL_MUST_CHECK; /* on the device, does not block */
charl_status charl__event_wait(const charl_event *e) CHARL_MUST_CHECK; /* blocks */
/** The same where only a host that is as far ahead as it may be has to wait: counted apart. */
charl_status charl__event_catch_up(const charl_event *e) CHARL_MUST_CHECK;
charl_status charl__event_is_done(const charl_event *e, bool *done) CHARL_MUST_CHECK;
void charl__event_release(charl_event *e); /* NULL is a no-op */

/* Launches. */
typedef enum charl_arg_kind {
    CHARL_ARG_END, /* first, so that a shorter list ends by itself */
    CHARL_ARG_IN,  /* buffer and element offset: two kernel arguments, `global const T *x, ulong
                      x_at` */
    CHARL_ARG_OUT, /* ... `global T *x, ulong x_at` */
    CHARL_ARG_INOUT,
    CHARL_ARG_I32,
    CHARL_ARG_I64,
    CHARL_ARG_F32,
    CHARL_ARG_LOCAL /* bytes of local memory */
} charl_arg_kind;

typedef struct charl_arg {
    charl_arg_kind kind;
    charl_buffer *buffer; /* NULL gives the kernel a null pointer */
    union {
        int64_t offset; /* elements */
        int64_t i64;
        int32_t i32;
        float f32;
        size_t bytes;
    } v;
    int64_t count; /* elements used from offset on; 0: not told, so neither bounds nor aliasing are
                      checked */
    size_t size;   /* bytes per element */
} charl_arg;

static inline charl_arg charl__i32(int32_t x)
{
    return (charl_arg){.kind = CHARL_ARG_I32, .v.i32 = x};
}

static inline charl_arg charl__i64(int64_t x)
{
    return (charl_arg){.kind = CHARL_ARG_I64, .v.i64 = x};
}

static inline charl_arg charl__f32(float x)
{
    return (charl_arg){.kind = CHARL_ARG_F32, .v.f32 = x};
}

/** `bytes` of local memory. */
static inline charl_arg charl__local(size_t bytes)
{
    return (charl_arg){.kind = CHARL_ARG_LOCAL, .v.bytes = bytes};
}

/** A buffer from element 0 on, without checks: workspaces, step records. */
static inline charl_arg charl__raw(charl_arg_kind kind, charl_buffer *b)
{
    return (charl_arg){.kind = kind, .buffer = b};
}

enum { CHARL_MAX_ARGS = 64 };

/** How a program is built for NVIDIA's target sm_90a; only where facts.wgmma. */
typedef struct charl_sm90a {
    int64_t
        shared_bytes; /* size of the first array that the kernel declares in local memory: the device has 227 KB, and the compiler
                             accepts 48. 0: an ordinary program */
    int min_blocks; /* work-groups per compute unit for which registers must suffice; 0: as the compiler chooses */
} charl_sm90a;

typedef struct charl_launch {
    const char *file; /* "elementwise/map" for kernels/elementwise/map.cl */
    const char *
        source; /* text in place of the file, borrowed for ever; `file` is its name in messages. NULL: the file */
    const char *entry;   /* kernel function */
    const char *defines; /* text put in front of the source: "#define N 4\n..."; NULL for none */
    size_t global[3];    /* work-items; 0 in [1] or [2] means 1; global[0] = 0 launches nothing */
    size_t local[3];     /* work-group; 0 means 1 */
    charl_arg args[CHARL_MAX_ARGS];
    const char *label; /* operator or layer, for traces and messages; NULL = entry */
    charl_sm90a sm90a;
    /* CHARL_QUEUE_COMPUTE unless told, whose launches go to the device in bundles; those of other
     * queues at once. */
    charl_queue queue;
    /* Horizontal fusion, while recording (launch_pair.c): two consecutive launches of the same kernel, of which neither touches what the
     * other writes, become one launch of the kernel ENTRY_pair. Its defines are those of the first, then pair_defines of the second; its
     * arguments are those of both, then the number of work-groups of the first, as int. One dimension. */
    bool pair_first;          /* may be the first */
    const char *pair_defines; /* may be the second; NULL: may not */
    /* Not while recording: begins after this event, of any queue. Cheaper than charl__queue_wait,
     * which enqueues a command of its own. NULL: none. */
    const charl_event *after;
} charl_launch;

/** One more argument. */
void charl__launch_add(charl_launch *l, charl_arg arg);

/** Enqueue on its queue, or append to the recording in progress. Builds the program at
 * first use and caches it in memory and on disk. Async. Errors: ERR_KERNEL with the build log,
 * ERR_DEVICE naming call, error, kernel and label, ERR_INVALID when an output aliases another
 * operand's bytes it may not (an OUT buffer range equal to an IN one is allowed: elementwise in
 * place). */
charl_status charl__launch(charl_device *dev, const charl_launch *l) CHARL_MUST_CHECK;

/** A launch to be made many times, not while recording: its kernel is built now, and all arguments
 * but the last n, which are no buffers, stay as they are. Buffers, entry and label are borrowed.
 * Errors: as charl__launch. */
charl_status charl__prepared_create(charl_device *dev, const charl_launch *l, int n,
                                    charl_prepared **out) CHARL_MUST_CHECK;
/** Enqueue it as `groups` work-groups, in one dimension, with n new arguments; after NULL or an
 * event as charl_launch has it. Async. Errors: ERR_DEVICE. */
charl_status charl__prepared_launch(charl_prepared *p, size_t groups, const charl_event *after,
                                    const charl_arg *args) CHARL_MUST_CHECK;
void charl__prepared_destroy(charl_prepared *p); /* NULL is a no-op */

/* Recordings: between begin and end, launches are kept with their own kernel objects and not
 * executed. A recording retains the buffers it names. */
charl_status charl__record_begin(charl_device *dev, charl_recording **out) CHARL_MUST_CHECK;
/** so_far: what recording has come to; returned when it is an error. Errors: ERR_KERNEL,
 * ERR_DEVICE.
 */
charl_status charl__record_end(charl_device *dev, charl_status so_far) CHARL_MUST_CHECK;
int charl__recording_count(const charl_recording *r); /* launches so far: a mark while recording */
/** While recording: what follows does not join what has been recorded so far. */
void charl__recording_mark(charl_recording *r);
/** Enqueue launches [first, last) on their queues. Async. */
charl_status charl__recording_replay(charl_recording *r, int first, int last) CHARL_MUST_CHECK;
void charl__recording_destroy(charl_recording *r); /* NULL is a no-op */

/* Step record: `bytes` of device memory rewritten by an in-order copy before the launches of a
 * step, from a ring of host slots, each reused once its copy is done: the host may run ahead of the
 * device by `depth` steps. */
charl_status charl__ring_create(charl_device *dev, size_t bytes, int depth,
                                charl_ring **out) CHARL_MUST_CHECK;
charl_status charl__ring_push(charl_ring *r, const void *record)
    CHARL_MUST_CHECK;                                  /* blocks only when the ring is full */
charl_buffer *charl__ring_buffer(const charl_ring *r); /* borrowed */
void charl__ring_destroy(charl_ring *r);               /* NULL is a no-op */

/** Suspend a recording in progress, so that launches run at once, and go on with it. Returns what
 * charl__record_resume takes; NULL: there was none. */
charl_recording *charl__record_pause(charl_device *dev);
void charl__record_resume(charl_device *dev, charl_recording *r);

/* Choices between kernels with the same bits. */
typedef enum charl_tune_mode {
    CHARL_TUNE_STORED, /* those that `charl tune` has kept, else a guess */
    CHARL_TUNE_FIRST,  /* what has no choice yet is timed when it is first used, and kept */
    CHARL_TUNE_NO      /* guesses only */
} charl_tune_mode;

typedef struct charl__tuning {
    char *what, *choice;
} charl__tuning;

/** As CHARL_TUNE says. */
charl_tune_mode charl__tune_mode(const charl_device *dev);
void charl__tune_set_mode(charl_device *dev, charl_tune_mode mode);
/** Whether there are any: then it is worth asking. */
bool charl__tuning_db_has_any(const charl_device *dev);
/** NULL: none is known. Borrowed until the next is set. Cost: a search, so ask while recording. */
const char *charl__tuning_find(const charl_device *dev, const char *what);
/** `what` and `choice` are text in one line, of about 500 characters in all. Errors: ERR_INVALID,
 * ERR_NOMEM. */
charl_status charl__tuning_set(charl_device *dev, const char *what,
                               const char *choice) CHARL_MUST_CHECK;
/** All of them; borrowed until the next is set. */
const charl__tuning *charl__tuning_db_list(const charl_device *dev, int *count);
/** Whether any can be kept for other runs: before the work of finding them. Errors: ERR_DISK,
 * ERR_NOMEM. */
charl_status charl__tuning_db_check(void) CHARL_MUST_CHECK;
/** Keep them for other runs, with those that other processes have kept meanwhile. Errors: ERR_DISK,
 * ERR_NOMEM. */
charl_status charl__tuning_db_save(charl_device *dev) CHARL_MUST_CHECK;
/** Forget them here and in the file. Errors: ERR_DISK. */
charl_status charl__tuning_db_clear(charl_device *dev) CHARL_MUST_CHECK;
/** The file; NULL where there is no directory for one. Borrowed. */
const char *charl__tuning_db_path(const charl_device *dev);

/** What the host has asked of a device so far, so that a test can show that a step allocates
 * nothing, builds nothing and waits for nothing but its own end. */
typedef struct charl_device_counters {
    int64_t launches;
    int64_t transfers; /* writes, reads and maps */
    int64_t events;    /* recorded */
    int64_t buffers_created, programs_built, kernels_created;
    int64_t programs_with_header; /* of those built, where kernels/prelude/builtins.clh was not
                                     enough */
    int64_t host_waits;           /* the host stood still for the device ... */
    int64_t ring_waits;           /* ... or because it was as far ahead as it may be */
    double waited_s;              /* in both */
} charl_device_counters;
charl_device_counters charl__device_counters(const charl_device *dev);

#endif
