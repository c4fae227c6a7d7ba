#ifndef CHARL_TENSOR_PARAMS_H
#define CHARL_TENSOR_PARAMS_H
/** Parameter arenas, for graphs, optimizers and the trainer.
 *
 *  All trainable parameters are in one f32 arena of `elements` floats, each at its `offset`,
 *  aligned to CHARL_PARAM_ALIGN floats; padding is zero. Gradients are in an arena of n_lanes such
 *  layouts (partial sums of this rank's slices) and the completed sums in another one. Buffers that are
 *  not trained have a separate arena, as do frozen parameters.
 *
 *  A parameter that is used several times has several gradients. Each must be summed over the batch
 *  before they are added, or the bits would depend on how the batch is divided. So, unless one
 *  process has the whole batch, those after the first are stored after all others, as shares:
 *  a lane of gradients is gradient_elements >= elements floats, lane j starts at j *
 *  gradient_elements, and charl__params_join adds up the completed shares.
 *
 *  Training in bf16 or f16 has another arena of the same layout in that type: a working copy of
 *  the parameters with two and more extents, rounded from the f32 values after every change of them.
 *  Vectors (biases, weights of norms) are small, and stay f32.
 *
 *  On a device that offloads, the f32 values of a set with a working copy lie in host memory: only updates use them. Graphs then
 *  read vectors from copies on the device.
 *
 *  Frozen matrices that are packed (charl_params_pack) are not in an arena: each is allocated separately, so that a device needs no large block.
 */
#include "base/owner.h"
#include "charl/params.h"
#include "tensor/packed.h"

enum {
    CHARL_PARAM_ALIGN = 64,  /* floats: where a parameter starts */
    CHARL_ARENA_ALIGN = 1024 /* floats: the length of an arena, a page */
};

struct charl_param {
    charl_param_spec spec;
    charl_param_settings settings;
    charl_params *set;
    bool frozen;                  /* then spec.trainable is false */
    bool in_base;                 /* its value, unless it is trained, is the one in the initial weights of the run */
    int index;                    /* order of declaration */
    int64_t offset;               /* elements into its arena; -1 before layout */
    int n_shares;                 /* gradients after the first */
    int64_t shares;               /* where they start in a lane, each in whole blocks */
    charl_tensor *value;          /* NULL: it is packed */
    charl_tensor *half;           /* working copy; NULL: the value itself is used */
    charl_tensor *vector;         /* f32 working copy of an offloaded value that has no other; or NULL */
    charl__format format;         /* not f32: it is packed */
    charl_tensor *codes, *scales; /* then; `half` may be the codes */
    uint32_t source_crc32c;       /* if packed: of the f32 values that were written */
    float *held;                  /* its value while the layout is withdrawn; else NULL */
};

struct charl_params {
    charl__owner owner; /* while a parameter is declared */
    charl_device *dev;  /* NULL before allocation */
    charl_param **param;
    int count;
    int *place, places;        /* hash table of names: 1 + index, 0 for none; places is a power of two */
    int64_t elements;          /* of the trainable arena, padding included */
    int64_t gradient_elements; /* of a lane of gradients: elements, then shares */
    int64_t buffer_elements;   /* of the arena of what is not trained */
    int64_t frozen_elements;
    /* CHARL_BF16: gradients are summed over slices in nodes rounded to bf16, as values in f32; set before graphs are prepared */
    charl_dtype reduce_dtype;
    int n_lanes;
    charl__buffer *value, *buffers, *frozen; /* arenas */
    /* The values of trainable parameters are those of `own`, one after another, in `value` and `half`; graphs gather them (autograd/gather.c).
     * Set before graphs are prepared */
    bool is_divided;
    bool defers; /* charl__params_allocate leaves these values to charl__params_place; set before graphs are prepared */
    bool is_changed;                   /* divided values have changed since they were gathered */
    int64_t value_elements;            /* of `value` and `half` */
    charl__buffer *half, *frozen_half; /* of the working copies, or NULL */
    charl__buffer *vectors;            /* of the vectors of offloaded values, or NULL */
    charl_dtype half_type;
    charl_packing packing;
    charl__buffer *grad; /* n_lanes * gradient_elements partial sums; NULL for inference */
    /* gradient_elements: completed gradients; the same buffer as grad with one rank and one lane, and where `parts` says who has them */
    charl__buffer *sum;
    const struct charl__param_ranges
        *own; /* borrowed: the part that an optimizer in this process updates; NULL: everything, or not known yet */
    const struct charl__param_parts
        *parts;     /* borrowed: which rank has which sums of gradients; NULL: this process has all */
    bool is_part;   /* the lanes are of part of the batch, and are not added to those of other ranks */
    bool is_joined; /* charl__params_join has added the shares of the gradients of the last run */
    bool undoes;    /* optimizers created from now on can undo a step that has begun (charl__optimizer_undo) */
    int users;      /* number of compiled graphs, optimizers and data-parallel objects that refer to the arenas */
    struct charl_optimizer *optimizers; /* of those, a list */
    bool has_values;                    /* charl_param_write has set a parameter */
};

/** n floats in whole blocks; the number of blocks of p in its arena. */
static inline int64_t charl__param_round(int64_t n)
{
    return (n + CHARL_PARAM_ALIGN - 1) / CHARL_PARAM_ALIGN * CHARL_PARAM_ALIGN;
}
static inline int64_t charl__param_blocks(const charl_param *p)
{
    return charl__param_round(charl_shape_count(&p->spec.shape)) / CHARL_PARAM_ALIGN;
}

/** n floats in whole pages, so that lanes and sums in shared memory start at pages. */
static inline int64_t charl__params_pages(int64_t n)
{
    return (n + CHARL_ARENA_ALIGN - 1) / CHARL_ARENA_ALIGN * CHARL_ARENA_ALIGN;
}

/** Ranges of a parameter arena, in whole blocks, ascending. */
typedef struct charl__param_range {
    int64_t begin, count;
} charl__param_range;
typedef struct charl__param_ranges {
    const charl__param_range *range;
    int n;
} charl__param_ranges;

/** The distribution of gradient sums, if every rank only has the sums of its own gradients. */
typedef struct charl__param_parts {
    int ranks, rank;
    const charl__param_ranges *of; /* [ranks] */
    /* `bytes` of every rank to all: all[r * bytes ...]. Blocks. Collective. Errors: ERR_COMM. */
    charl_status (*gather)(void *ctx, const void *mine, size_t bytes, void *all);
    void *ctx;
} charl__param_parts;

/** Memory of the gradient arenas: the caller's buffers, which are retained, or shared host memory that the device uses in place. All NULL:
 *  device memory. */
typedef struct charl__gradient_memory {
    charl__buffer *lanes_buffer, *sum_buffer;
    float *lanes; /* n_lanes * elements floats, page-aligned */
    float *sum;   /* elements floats, page-aligned */
} charl__gradient_memory;

/** Elements of the frozen parameters. */
int64_t charl__params_frozen(const charl_params *set);
/** Fix the offsets: trainable parameters in the given order (order[i] = index of declaration; those
 *  not named follow), then buffers. */
charl_status charl__params_layout(charl_params *set, const int *order, int n_order) CHARL_MUST_CHECK;
bool charl__params_is_laid_out(const charl_params *set);
/** Give p n additional gradients (shares), stored after the existing ones. Must be equal on all graphs of a set.
 *  Errors: ERR_INVALID if p has another number, or the gradients have been allocated. */
charl_status charl__params_share(charl_param *p, int n) CHARL_MUST_CHECK;
/** Offset of gradient k of p in a lane: its own for k = 0, share k otherwise. */
int64_t charl__param_gradient_at(const charl_param *p, int k);
/** End of the range of a lane that starts at *begin, the end of another (0: the first), and contains
 *  at least `least` floats of whole parameters; *begin itself if there are no more, after advancing past
 *  padding. A parameter with shares is a separate range, and so is each share: part r of it over
 *  the ranks is then the same part of all. */
int64_t charl__params_range(const charl_params *set, int64_t *begin, int64_t least);
/** sum of p += each of its shares, in order, for every p. Launches that can be recorded; none if
 *  nothing is shared. Async. */
charl_status charl__params_join(charl_params *set) CHARL_MUST_CHECK;
/** chosen[i] = whether `patterns` select parameter i, of the trainable or the frozen ones. Errors: ERR_INVALID  a pattern matches none. */
charl_status charl__params_choose(const charl_params *set, const char *patterns, bool frozen,
                                  bool *chosen) CHARL_MUST_CHECK;
/** Choose the storage of frozen parameters; once, before the layout. precision: of the graphs. */
void charl__params_choose_formats(charl_params *set, charl_dtype precision);
/** Whether operators get p unpacked. */
static inline bool charl__param_is_packed(const charl_param *p, charl_dtype precision)
{
    return p->format >= CHARL__FORMAT_INT8 || (p->format == CHARL__FORMAT_BF16 && precision == CHARL_F32);
}
/** Bytes of the value of p, without its working copy. */
int64_t charl__param_bytes(const charl_param *p);
/** Allocate values and buffers on dev (zero-filled), and a working copy in `dtype` unless it is f32. Once. */
charl_status charl__params_allocate(charl_params *set, charl_device *dev, charl_dtype dtype) CHARL_MUST_CHECK;
/** Allocate the values of trainable parameters, and their working copy, that charl__params_allocate has left: all, or those of `own`. No-op if they
 *  are there. Errors: ERR_NOMEM, ERR_DEVICE. */
charl_status charl__params_place(charl_params *set) CHARL_MUST_CHECK;
/** Where element `at` of the trainable arena is in `value` and `half`: of a divided set, an element of `own`. */
int64_t charl__params_at(const charl_params *set, int64_t at);
/** Whether the f32 values lie in host memory. */
static inline bool charl__params_are_offloaded(const charl_params *set)
{
    return set->frozen_half && charl__device_offloads(set->dev);
}
/** Bytes on the device of `elements` values with their working copy, if there is one. */
static inline int64_t charl__params_bytes(const charl_params *set, int64_t elements)
{
    return elements * ((charl__params_are_offloaded(set) ? 0 : 4) +
                       (set->frozen_half ? (int64_t)charl_dtype_size(set->half_type) : 0));
}
/** Elements in `ranges`. */
int64_t charl__params_count(const charl__param_ranges *ranges);
/** The first elements [*from, *to) after *to, which is 0 at first, of the n at `offset` in the arena that are in `ranges`, and *at, their place if
 *  these lie one after another; false: there are no more. Of all elements of p. */
bool charl__params_part(const charl__param_ranges *ranges, int64_t offset, int64_t n, int64_t *from, int64_t *to,
                        int64_t *at);
bool charl__param_part(const charl_param *p, const charl__param_ranges *ranges, int64_t *from, int64_t *to,
                       int64_t *at);
/** Whether the value of p lies on several ranks. */
static inline bool charl__param_is_divided(const charl_param *p)
{
    return p->spec.trainable && p->set->is_divided;
}
/** Elements of the largest trainable parameter. */
static inline int64_t charl__params_largest(const charl_params *set)
{
    int64_t most = 0;

    for (int i = 0; i < set->count; i++) {
        const int64_t n = charl_shape_count(&set->param[i]->spec.shape);

        most = set->param[i]->spec.trainable && n > most ? n : most;
    }
    return most;
}
/** Bytes of an element of p as graphs take it. */
size_t charl__param_unit(const charl_param *p);
/** The elements of p that this process has; the others of dst are unchanged. Blocks. */
charl_status charl__param_read_own(const charl_param *p, float *dst) CHARL_MUST_CHECK;
/** Move the values to `memory`, `elements` floats of host memory that the device uses in place,
 *  page-aligned, borrowed; NULL: to memory of their own. Call it before graphs of the set are compiled;
 *  recordings that use it must be recorded again. Blocks. Errors: ERR_NOMEM, ERR_DEVICE;
 *  the set is then unusable. */
charl_status charl__params_move(charl_params *set, float *memory) CHARL_MUST_CHECK;
/** Call before the memory that they were moved to is freed, when nothing uses the set any more. */
void charl__params_free_values(charl_params *set);
/** Discard values, layout and division: the next graph starts anew. When nothing uses the set any more. */
void charl__params_reset(charl_params *set);
/** Whether p has a working copy if there are any. */
bool charl__param_is_halved(const charl_param *p);
/** Allocate the working copy in `dtype`, bf16 or f16, unless there is one, and fill it. Errors:
 *  ERR_INVALID when there is one in another type; ERR_NOMEM. */
charl_status charl__params_use_half(charl_params *set, charl_dtype dtype) CHARL_MUST_CHECK;
/** Update the working copy after the values have changed, other than by charl_param_write.
 *  No-op without one. One launch, so it can be recorded. Async. */
charl_status charl__params_refresh(charl_params *set) CHARL_MUST_CHECK;
/** The same for the copies of vectors only, after an update that has written the others. One launch for each. Async. */
charl_status charl__params_refresh_vectors(charl_params *set) CHARL_MUST_CHECK;
/** Allocate or wrap the gradient arenas. `whole` says that this process computes every slice in one
 *  lane: grad and sum are one. */
charl_status charl__params_allocate_gradients(charl_params *set, int n_lanes, bool whole,
                                              const charl__gradient_memory *memory) CHARL_MUST_CHECK;
/** Call before the memory they were wrapped over is freed. No-op if there are none. */
void charl__params_free_gradients(charl_params *set);

#endif
