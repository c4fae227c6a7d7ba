#ifndef CHARL_DEVICE_DEVICE_H
#define CHARL_DEVICE_DEVICE_H
/** A device as the layers above see it; no OpenCL types appear here.
 *
 *      buffers      device memory, counted against a budget       transfers   between host and device
 *      events       points in a queue                             launches    kernels with their arguments
 *      recordings   launches to be replayed                       ring        a small buffer rewritten before every step
 *      tuning       measured choices between equal kernels        counters    requests of the host to the device
 *
 *  Queues are in-order; only events order work on different queues. All functions are called from the thread that owns the device.
 */
#include "base/error.h"
#include "base/trace.h"
#include "charl/device.h"
#include "device/nvidia/facts.h"
#include "device/x86/facts.h"

typedef struct charl__buffer charl__buffer; /* counted device memory */
typedef struct charl__event charl__event;   /* a point in a queue; counted by hand */
typedef struct charl__prepared charl__prepared;
typedef struct charl__recording charl__recording;         /* launches with arguments set, to be replayed */
typedef struct charl__device_export charl__device_export; /* memory that other processes map into their devices */
typedef struct charl__ring charl__ring;                   /* a small device buffer rewritten before every step */

typedef enum charl__queue {
    CHARL_QUEUE_COMPUTE,
    CHARL_QUEUE_UPLOAD,
    CHARL_QUEUE_DOWNLOAD,
    CHARL_QUEUE_COMM,
    CHARL_QUEUE_GATHER, /* communication that may run in parallel with CHARL_QUEUE_COMM */
    CHARL_QUEUE_CLOCK,  /* no commands, only events, which have times (charl__event_time) */
    CHARL_QUEUE_COUNT
} charl__queue;

/** Capabilities, detected by queries and by running small kernels, never by device names. */
typedef struct charl__device_facts {
    /* Host memory wrapped in a buffer is used in place: the host pointer sees what finished launches wrote, and launches see what the
     * host wrote, without mapping. OpenCL does not guarantee this; PoCL's CPU device does it. Tested on CPU devices with unified memory
     * by filling a buffer; all other devices copy. */
    bool zero_copy;
    bool fp16; /* half arithmetic compiles and runs */
    /* Requested: operators on half types give the bits of other devices. CHARL_EXACT_HALF is defined in kernels that have CHARL_PTX. */
    bool exact_half;
    /* Kernels stage tiles in local memory: not on CPUs, whose caches hold them. Also on GPUs without local memory of their own (Arm
     * Mali), where it is slower, because the form for CPUs needs a megabyte per work-item. */
    bool tiles_in_local;
    charl__nvidia_facts nvidia;
    charl__x86_facts x86;
    int vector_width; /* preferred floats per vector */
    int group;        /* work-group size of simple kernels; 1 on CPUs, which vectorise work-items */
} charl__device_facts;

/** The first line of a public function that uses the device: checks that the calling thread may. NULL is no device. Errors: ERR_INVALID. */
charl_status charl__device_enter(charl_device *dev) CHARL_MUST_CHECK;
const charl__device_facts *charl__device_facts_get(const charl_device *dev);
/** Whether launches compute nothing (charl_device_options.skip_kernels). */
bool charl__device_skips_kernels(const charl_device *dev);
/** Whether operands of this type are multiplied on NVIDIA's tensor cores: charl_device_has_tensor_cores without the matrix units of CPUs. */
bool charl__device_has_nvidia_cores(const charl_device *dev, charl_dtype dtype);
/** Whether kernels round half types in NVIDIA's own way: CHARL_FAST_HALF of kernels/prelude/fast_math.clh. */
bool charl__device_has_fast_half(const charl_device *dev);
/** Choose kernels as for a device with these facts; returns the previous ones. For tests that compare
 *  variants of a kernel. Compiled graphs keep their kernels. */
charl__device_facts charl__device_set_facts(charl_device *dev, charl__device_facts facts);

/* Buffers. `what` names the buffer in out-of-memory messages and must be a string literal. */

/** New zero-filled device memory; 0 bytes give a minimal buffer. Owned. Errors: ERR_NOMEM with `what`, bytes needed, used and available.
 *  The budget is checked before the driver is asked: PoCL never reports a shortage. */
charl_status charl__buffer_create(charl_device *dev, size_t bytes, const char *what,
                                  charl__buffer **out) CHARL_MUST_CHECK;
/** The same, in host memory if the device's request says offload: pinned where the driver pins memory. Launches use it as any other buffer.
 *  It does not count against the budget. Errors: also ERR_NOMEM with what is free, when the ranks of this machine would need more. */
charl_status charl__buffer_create_offloaded(charl_device *dev, size_t bytes, const char *what,
                                            charl__buffer **out) CHARL_MUST_CHECK;
/** Whether the device was opened with offload. */
bool charl__device_offloads(const charl_device *dev);
/** Count memory allocated from now on as used for `purpose`, a string literal, whatever its own name is (charl_device_get_uses). NULL: by
 *  its name. Returns the previous purpose, to be restored. */
const char *charl__device_set_purpose(charl_device *dev, const char *purpose);
/** A buffer over page-aligned host memory of the caller, which must outlive the buffer. If facts.zero_copy, the host may use its own
 *  pointer between finished launches; otherwise it uses charl__buffer_map. */
charl_status charl__buffer_wrap(charl_device *dev, void *host, size_t bytes, charl__buffer **out) CHARL_MUST_CHECK;
charl__buffer *charl__buffer_retain(charl__buffer *b);
void charl__buffer_release(charl__buffer *b); /* NULL is a no-op */
size_t charl__buffer_bytes(const charl__buffer *b);
charl_device *charl__buffer_device(const charl__buffer *b);

/** Workspace in which work-groups of a launch on the compute queue pass partial sums of split-K products to one another:
 *
 *      uint  [CHARL_SPLIT_K_WORDS]                    flags, 0 between launches
 *      uchar [CHARL_SPLIT_K_GROUPS][256]              tensor maps of each work-group
 *      float [compute units][CHARL_SPLIT_K_FLOATS]    sums
 *
 *  Borrowed from the device. NULL on devices without tensor cores. */
charl__buffer *charl__workspace_split_k(const charl_device *dev);
/** Workspace for copies of operands, written and read by consecutive launches on the compute queue: every call may return the same
 *  buffer. Borrowed until the next call; recordings retain it. Errors: ERR_NOMEM. */
charl_status charl__workspace_copies(charl_device *dev, size_t bytes, charl__buffer **out) CHARL_MUST_CHECK;
enum {
    CHARL_SPLIT_K_GROUPS = 512, /* most work-groups that use it, four words each */
    CHARL_SPLIT_K_WORDS = 4 * CHARL_SPLIT_K_GROUPS,
    CHARL_SPLIT_K_MAPS = 64 * CHARL_SPLIT_K_GROUPS, /* words */
    CHARL_SPLIT_K_FLOATS = 140 * 256
};

/* Transfers; offsets and sizes in bytes. With `wait` they block until the host memory may be used again. Without it, the host memory
 * must stay valid and untouched until an event recorded afterwards has completed. */
charl_status charl__buffer_write(charl__queue q, charl__buffer *b, size_t offset, const void *src, size_t bytes,
                                 bool wait) CHARL_MUST_CHECK;
charl_status charl__buffer_read(charl__queue q, charl__buffer *b, size_t offset, void *dst, size_t bytes,
                                bool wait) CHARL_MUST_CHECK;
/** Read without waiting. *out completes when dst has been written and all earlier work of q is done; saves one command compared with
 *  recording an event. bytes > 0. Async. */
charl_status charl__buffer_fetch(charl__queue q, charl__buffer *b, size_t offset, void *dst, size_t bytes,
                                 charl__event **out) CHARL_MUST_CHECK;
/** Between begin and end, large blocking reads of this device pass through pinned memory in pieces; the copy of a piece
 *  overlaps the transfer of the next: several times as fast as into unpinned memory. No effect on devices that compute in
 *  host memory. One at a time. Cost: some 10 ms to pin 32 MiB. Errors: ERR_NOMEM, ERR_DEVICE. */
charl_status charl__fast_reads_begin(charl_device *dev) CHARL_MUST_CHECK;
void charl__fast_reads_end(charl_device *dev); /* no-op without begin */

/** Host pointer to a range, for reading and writing. Unmap it before kernels use it. Blocks until earlier work of q is done. */
charl_status charl__buffer_map(charl__queue q, charl__buffer *b, size_t offset, size_t bytes,
                               void **out) CHARL_MUST_CHECK;
charl_status charl__buffer_unmap(charl__queue q, charl__buffer *b, void *ptr) CHARL_MUST_CHECK;

/** The cl_command_queue of CHARL_QUEUE_COMPUTE, and the cl_mem of a buffer; borrowed. */
void *charl__device_cl_queue(charl_device *dev);
void *charl__buffer_cl_mem(const charl__buffer *b);

/** Pin page-aligned memory of the caller, which must outlive the charl_pinned; its contents are kept. Unpinned memory is transferred at a
 *  third of the speed or less. Errors: ERR_NOMEM if the driver or a limit on locked memory refuses; transfers then work unpinned. */
charl_status charl__pinned_wrap(charl_device *dev, void *host, size_t bytes, charl_pinned **out) CHARL_MUST_CHECK;

/* Memory shared by the devices of several processes of a node: each process exports a block and sends its file descriptor to the others,
 * which import it. */
typedef enum charl__shared_kind {
    CHARL_SHARED_NONE,
    CHARL_SHARED_HOST, /* CPU devices: host memory, used in place */
    CHARL_SHARED_CUDA  /* NVIDIA GPUs: their memory, reached over the interconnect */
} charl__shared_kind;

/** How memory of dev is exported. If NONE, *why names what is missing (static storage). */
charl__shared_kind charl__export_kind(const charl_device *dev, const char **why);
/** NULL, or the reason why dev cannot map memory of another device of the same kind, at PCI address `pci`. */
const char *charl__export_unreachable(const charl_device *dev, const char *pci);
/** Export `bytes` of zeros, counted as memory of dev; imports outlive the export. Errors: ERR_NOMEM, ERR_DEVICE (also if the kind is
 *  NONE). */
charl_status charl__export_create(charl_device *dev, size_t bytes, const char *what,
                                  charl__device_export **out) CHARL_MUST_CHECK;
int charl__export_fd(const charl__device_export *e); /* borrowed */
void charl__export_destroy(charl__device_export *e); /* NULL is a no-op */
/** A buffer over all `bytes` of an export of any process. fd is borrowed. Errors: ERR_DEVICE, ERR_NOMEM. */
charl_status charl__buffer_import(charl_device *dev, int fd, size_t bytes, charl__buffer **out) CHARL_MUST_CHECK;

/* Events: complete when everything enqueued on q before them is done. */
charl_status charl__event_record(charl_device *dev, charl__queue q, charl__event **out) CHARL_MUST_CHECK;
/** Number of launches and transfers enqueued on q since the device was opened: if unchanged, there is nothing new to wait for. */
int64_t charl__queue_commands(const charl_device *dev, charl__queue q);
charl_status charl__queue_wait(charl_device *dev, charl__queue q,
                               const charl__event *e) CHARL_MUST_CHECK; /* on the device, does not block */
charl_status charl__event_wait(const charl__event *e) CHARL_MUST_CHECK; /* blocks */
/** The same for a host that has reached the maximum number of steps ahead of the device; counted separately (ring_waits). Blocks. */
charl_status charl__event_catch_up(const charl__event *e) CHARL_MUST_CHECK;
charl_status charl__event_is_done(const charl__event *e, bool *done) CHARL_MUST_CHECK;
/** The time, on a clock of the device, at which a completed event of CHARL_QUEUE_CLOCK completed, however late this is called.
 *  Only differences are meaningful. false if the driver does not report it. */
bool charl__event_time(const charl__event *e, double *s);
void charl__event_release(charl__event *e); /* NULL is a no-op */

/* Launches. */
typedef enum charl__arg_kind {
    CHARL_ARG_END, /* 0: an initialiser with fewer arguments is terminated */
    /* buffer and element offset: two kernel arguments, `global const T *x, ulong x_at`; for charl__placed the first only */
    CHARL_ARG_IN,
    CHARL_ARG_OUT, /* ... `global T *x, ulong x_at` */
    CHARL_ARG_INOUT,
    CHARL_ARG_I32,
    CHARL_ARG_I64,
    CHARL_ARG_F32,
    CHARL_ARG_LOCAL, /* bytes of local memory */
    CHARL_ARG_STRUCT /* by value, `size` bytes at `data` */
} charl__arg_kind;

typedef struct charl__arg {
    charl__arg_kind kind;
    bool is_placed;        /* of a buffer: the offset is in a struct */
    charl__buffer *buffer; /* NULL gives the kernel a null pointer */
    const void *data;      /* of a struct: borrowed until the launch is enqueued */
    union {
        int64_t offset; /* elements */
        int64_t i64;
        int32_t i32;
        float f32;
        size_t bytes;
    } v;
    /* elements used from offset on; 0: unknown, so neither bounds nor aliasing are checked */
    int64_t count;
    size_t size; /* bytes per element */
    /* For an i64, and for a struct's member at byte `member`: what charl__recording_move adds to v.i64, its value, for every slice. */
    int64_t per_slice;
    size_t member;
} charl__arg;

static inline charl__arg charl__i32(int32_t x)
{
    return (charl__arg){.kind = CHARL_ARG_I32, .v.i32 = x};
}

static inline charl__arg charl__i64(int64_t x)
{
    return (charl__arg){.kind = CHARL_ARG_I64, .v.i64 = x};
}

/** The same for a position in the batch: of the first slice of a graph, which has `per_slice` elements in each. */
static inline charl__arg charl__position(int64_t x, int64_t per_slice)
{
    return (charl__arg){.kind = CHARL_ARG_I64, .v.i64 = x, .per_slice = per_slice};
}

static inline charl__arg charl__f32(float x)
{
    return (charl__arg){.kind = CHARL_ARG_F32, .v.f32 = x};
}

/** `bytes` of local memory. */
static inline charl__arg charl__local(size_t bytes)
{
    return (charl__arg){.kind = CHARL_ARG_LOCAL, .v.bytes = bytes};
}

/** A buffer from element 0 on, without bounds checks: workspaces, step records. */
static inline charl__arg charl__raw(charl__arg_kind kind, charl__buffer *b)
{
    return (charl__arg){.kind = kind, .buffer = b};
}

/** A buffer whose first element the kernel finds in a struct: *at, which is set. */
static inline charl__arg charl__placed(charl__arg buffer, uint64_t *at)
{
    *at = (uint64_t)buffer.v.offset;
    buffer.is_placed = true;
    return buffer;
}

/** A struct of numbers of fixed width, declared for the kernel and its host in one header of kernels/. It must be larger than 16 bytes: some CPU
 *  compilers pass smaller ones in registers. */
static inline charl__arg charl__struct(const void *data, size_t bytes)
{
    return (charl__arg){.kind = CHARL_ARG_STRUCT, .data = data, .size = bytes};
}

/** The same where the int64_t or uint64_t at byte `member` is a position in the batch. */
static inline charl__arg charl__struct_at(const void *data, size_t bytes, size_t member, charl__arg position)
{
    return (charl__arg){.kind = CHARL_ARG_STRUCT,
                        .data = data,
                        .size = bytes,
                        .member = member,
                        .v.i64 = position.v.i64,
                        .per_slice = position.per_slice};
}

enum { CHARL_MAX_ARGS = 64, CHARL_MAX_KERNEL_PARAMS = 48, CHARL_PAIR_PARAMS = 10 };

/** A parameter of a kernel file: a macro that the file uses and usually gives a default, in a line `#define NAME ...`, which is removed if
 *  the launch defines the name. */
typedef struct charl__kernel_param {
    const char *name;
    int64_t value;
    /* Used instead of value: a type or code of OpenCL C, whose line breaks become spaces. Borrowed until the launch is enqueued. */
    const char *text;
} charl__kernel_param;

typedef struct charl__launch {
    const char *file; /* "elementwise/map" for kernels/elementwise/map.cl */
    /* Text used instead of the file, which must outlive the device; `file` is then its name in messages. NULL: the file. */
    const char *source;
    const char *entry; /* kernel function */
    /* Up to the first without a name. The file must use each, and a number must not replace a default that is a type or code. */
    charl__kernel_param params[CHARL_MAX_KERNEL_PARAMS];
    const char *defines; /* generated text put in front of the source: "#define N 4\n..."; NULL for none */
    size_t global[3];    /* work-items; 0 in [1] or [2] means 1; global[0] = 0 launches nothing */
    size_t local[3];     /* work-group; 0 means 1 */
    charl__arg args[CHARL_MAX_ARGS];
    const char *label; /* operator or layer, for traces and messages; NULL = entry */
    double bytes;      /* bytes moved, for profiles; 0: derived from the counts of its operands */
    charl__sm90a sm90a;
    /* 0 is CHARL_QUEUE_COMPUTE, whose launches are flushed in batches; other queues are flushed at once. */
    charl__queue queue;
    /* Horizontal fusion, while recording (launch_pair.c): two consecutive launches of the same kernel, neither of which touches what the
     * other writes, become one launch of the kernel ENTRY_pair. Its parameters are those of the first, then pair_params of the second; its
     * arguments are the arguments of both, then the number of work-groups of the first, as int. One dimension. */
    bool pair_first, pair_second; /* may be the first; the second */
    int pair_form;                /* must be equal in both: it identifies the parameters that they share */
    charl__kernel_param pair_params[CHARL_PAIR_PARAMS];
    /* Starts after this event, of any queue; NULL: none. Cheaper than charl__queue_wait, which enqueues a command. Not while recording. */
    const charl__event *after;
} charl__launch;

/** Append an argument. */
void charl__launch_add(charl__launch *l, charl__arg arg);
/** Append a parameter: a number; a text. */
void charl__launch_set(charl__launch *l, const char *name, int64_t value);
void charl__launch_set_text(charl__launch *l, const char *name, const char *text);
/** Append the parameters of a list, which ends at the first without a name; NULL for none. */
void charl__launch_set_all(charl__launch *l, const charl__kernel_param *list);

/** Enqueue a launch, or append it to the recording in progress. The program is built on first use and cached in memory and on disk.
 *  Async. Errors: ERR_KERNEL with the build log; ERR_DEVICE with call, error, kernel and label; ERR_INVALID when an output overlaps
 *  another operand (an OUT range equal to an IN range is allowed: elementwise in place). */
charl_status charl__launch_enqueue(charl_device *dev, const charl__launch *l) CHARL_MUST_CHECK;

/** Until end, launches only have their programs compiled ahead, many at once, by other processes. False: there are none, and nothing has
 *  begun. */
bool charl__launches_want_begin(charl_device *dev);
void charl__launches_want_end(charl_device *dev);

/** A launch that is repeated outside of recordings: its kernel is built now, and all arguments except the last n, which must not be buffers,
 *  are set once. Buffers, entry and label are borrowed. Errors: as charl__launch_enqueue. */
charl_status charl__prepared_create(charl_device *dev, const charl__launch *l, int n,
                                    charl__prepared **out) CHARL_MUST_CHECK;
/** Enqueue it as `groups` work-groups in one dimension, with n new arguments; `after` as in charl__launch. Async. Errors: ERR_DEVICE. */
charl_status charl__prepared_launch(charl__prepared *p, size_t groups, const charl__event *after,
                                    const charl__arg *args) CHARL_MUST_CHECK;
void charl__prepared_destroy(charl__prepared *p); /* NULL is a no-op */

/* Recordings: launches between begin and end are stored with kernel objects of their own and not executed. A recording retains its
 * buffers. */
charl_status charl__record_begin(charl_device *dev, charl__recording **out) CHARL_MUST_CHECK;
/** Ends a recording and creates the launches' kernels. so_far: status of the code that recorded; returned if it is an error. Errors, with the
 *  label of the launch: ERR_KERNEL, ERR_DEVICE; ERR_INVALID  a kernel takes other arguments. */
charl_status charl__record_end(charl_device *dev, charl_status so_far) CHARL_MUST_CHECK;
int charl__recording_count(const charl__recording *r); /* launches so far: an index while recording */
/** Add `flop` floating-point operations to launch i: for profiles. */
void charl__recording_add_flop(charl__recording *r, int i, double flop);
/** While recording: do not pair later launches with earlier ones. */
void charl__recording_mark(charl__recording *r);
/** Enqueue launches [first, last) on their queues. Async. */
charl_status charl__recording_replay(charl__recording *r, int first, int last) CHARL_MUST_CHECK;
/** Shift the positions (charl__position) of later replays `slices` along the batch, relative to the recording. Free if they
 * are there already, else one driver call for each. Errors: ERR_DEVICE. */
charl_status charl__recording_move(charl__recording *r, int slices) CHARL_MUST_CHECK;
void charl__recording_destroy(charl__recording *r); /* NULL is a no-op */

/* Step record: `bytes` of device memory rewritten by an in-order copy before the launches of a
 * step, from a ring of host slots, each reused once its copy is done: the host may run ahead of the
 * device by `depth` steps. */
charl_status charl__ring_create(charl_device *dev, size_t bytes, int depth, charl__ring **out) CHARL_MUST_CHECK;
charl_status charl__ring_push(charl__ring *r,
                              const void *record) CHARL_MUST_CHECK; /* blocks only when the ring is full */
charl__buffer *charl__ring_buffer(const charl__ring *r);            /* borrowed */
void charl__ring_destroy(charl__ring *r);                           /* NULL is a no-op */

/** Suspend the recording in progress, so that launches are executed, until charl__record_resume. Returns the recording; NULL if there is
 *  none. */
charl__recording *charl__record_pause(charl_device *dev);
void charl__record_resume(charl_device *dev, charl__recording *r);

/* Tuning database (charl/tune.h): measured choices between kernels that give the same bits, loaded when the device is opened. */
/* From the request, else from CHARL_TUNE. */
charl_tune_mode charl__device_tune_mode(const charl_device *dev);
void charl__tune_set_mode(charl_device *dev, charl_tune_mode mode);
/** Whether there are any results. */
bool charl__tuning_db_has_any(const charl_device *dev);
/** Result for `what`, or NULL. Borrowed until the next is set. Cost: a linear search; call it while recording, not per step. */
const char *charl__tuning_find(const charl_device *dev, const char *what);
/** Add or replace a result; `what` and `choice` fit on one line of about 500 characters. Errors: ERR_INVALID, ERR_NOMEM. */
charl_status charl__tuning_set(charl_device *dev, const char *what, const char *choice) CHARL_MUST_CHECK;
/** Check that results can be saved, before measuring. Errors: ERR_DISK, ERR_NOMEM. */
charl_status charl__tuning_db_check(void) CHARL_MUST_CHECK;
/** Save the results, merged with those that other processes have saved meanwhile. Errors: ERR_DISK, ERR_NOMEM. */
charl_status charl__tuning_db_save(charl_device *dev) CHARL_MUST_CHECK;

/** The spans of this device and its helpers, recorded between begin and end; NULL unless the request said `traced`. Borrowed. */
charl__trace *charl__device_trace(const charl_device *dev);
/** Start recording. Recording adds no waits. Blocks until everything enqueued is complete. Errors: ERR_INVALID  the device
 *  was not opened for it   ERR_NOMEM, ERR_DEVICE. */
charl_status charl__device_trace_begin(charl_device *dev) CHARL_MUST_CHECK;
/** Complete what is enqueued, and add the times of all commands since begin to the trace, on the clock of charl__clock_s. *error_s: their
 *  maximum error; *lost: spans for which there was no memory. Blocks. Errors: ERR_DEVICE. */
charl_status charl__device_trace_end(charl_device *dev, double *error_s, int64_t *lost) CHARL_MUST_CHECK;

/** Requests of the host to the device so far. Tests use them to show that a step allocates nothing, builds nothing and waits only
 *  at its end. */
typedef struct charl__device_counters {
    int64_t launches;
    int64_t transfers; /* writes, reads and maps */
    int64_t events;    /* recorded */
    int64_t buffers_created, programs_built, kernels_created;
    /* of the programs built, those for which kernels/prelude/builtins.clh was not enough */
    int64_t programs_with_header;
    int64_t host_waits; /* times that the host waited for the device ... */
    int64_t ring_waits; /* ... or because it was as far ahead as allowed */
    double waited_s;    /* in both */
} charl__device_counters;
charl__device_counters charl__device_counters_get(const charl_device *dev);

/** For CHARL_SCOPED. */
CHARL_SCOPED_POINTER(charl__buffer_left, charl__buffer, charl__buffer_release)
CHARL_SCOPED_POINTER(charl__event_left, charl__event, charl__event_release)

#endif
