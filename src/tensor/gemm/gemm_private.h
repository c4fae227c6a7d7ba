#ifndef CHARL_TENSOR_GEMM_GEMM_PRIVATE_H
#define CHARL_TENSOR_GEMM_GEMM_PRIVATE_H
/** Back ends of matrix products, and functions that they share. */
#include "base/numeric/divide.h"
#include "gemm/gemm_args.h"
#include "tensor/gemm/gemm.h"
#include "tensor/gemm/gemm_tune.h"

/* Extents stay this far below 2^31, so that the last tile of any kernel ends below it. */
enum { CHARL__GEMM_MARGIN = 4096 };

static inline int64_t charl__at_least_one(int64_t x)
{
    return x > 1 ? x : 1;
}

/** The operand's elements from `at` on; NULL gives a null pointer. */
static inline charl__arg charl__gemm_operand(charl__arg_kind kind, const charl_tensor *t, int64_t at)
{
    charl__arg a = charl__tensor_arg(kind, t);

    if (at != 0) {
        a.v.offset += at;
        a.count = 0; /* lanes and slices are beyond the extents of the tensor that names them */
    }
    return a;
}

/** An operand: `rows` contiguous rows of `length` elements, `pitch` apart, in each product. */
typedef struct charl__matrix {
    charl__arg first;
    int64_t rows, length, pitch, outer, inner;
} charl__matrix;

/** Whether every row of every product begins at a multiple of `elements`. */
bool charl__matrix_is_aligned(const charl__matrix *x, int elements);

/** Copy those of p's operands, of half types, whose rows do not begin at multiples of 16 bytes, into
 *  aligned rows: all of them if p has levels, else if that saves time and there is memory. Async. Errors: ERR_KERNEL,
 *  ERR_DEVICE; ERR_NOMEM with levels. */
charl_status charl__gemm_pad(charl_device *dev, const charl__gemm *p, charl__matrix *a,
                             charl__matrix *b) CHARL_MUST_CHECK;
/** Whether rows of an operand of p begin at multiples of 16 bytes, or could in a copy. */
bool charl__gemm_can_pad(const charl__gemm *p, const charl__matrix *x);

/* Leaves of a tree that a kernel in local memory folds; work-items of its groups at most. */
enum { CHARL__GEMM_LOCAL_LEAVES = 16, CHARL__GEMM_GROUP = 256 };

/** `folds` of the rows with tiles in local memory. */
bool charl__gemm_folds_in_tiles(charl_device *dev, const charl__gemm *p);

/** Whether rows of x, of `length` elements, begin at multiples of 4 elements and are whole fours. */
bool charl__gemm_is_by_4(const charl__gemm_matrix *x, int64_t length);
/** Whether that holds for A or B of p, a matrix, along its contiguous direction. */
bool charl__gemm_reads_by_4(const charl__gemm *p, bool of_a);

/** Elements of the image that B is, of one product: channels, height and width. */
int64_t charl__gemm_image_elements(const charl__gemm *p);
/** The number of outer products whose columns a tile of gemm_local.cl processes together: all of them if tiles of one product would be
 *  partly empty and the products share A, else 1. */
int64_t charl__gemm_joined(const charl__gemm *p, int tile_columns);
/** The device's number of compute units, at least 1. */
int charl__gemm_units(charl_device *dev);

/** Requirements of a back end on a device. */
typedef enum charl__gemm_memory {
    CHARL_GEMM_TILES,   /* tiles in local memory: facts.tiles_in_local and work-groups of CHARL__GEMM_GROUP */
    CHARL_GEMM_VECTORS, /* no such tiles */
    CHARL_GEMM_UNITS    /* its own units, which `takes` checks */
} charl__gemm_memory;

/** A way to compute products on a device. The back ends are listed in gemm_plan.c, in the order in which they are tried. All that support a product
 *  give the same bits, unless one of them declares its own. Functions that are NULL: no restriction, or the result is not
 *  available. */
struct charl__gemm_backend {
    const char *name; /* in the tuning database */
    const char *key;  /* in the keys of its products there: "", unless bits or times differ from others */
    charl__gemm_memory memory;
    /* It rounds sums differently from all back ends except those with the same key. If it supports a product, no other is tried. */
    bool has_own_bits;
    bool is_integer; /* it computes the products for which charl__gemm_is_integer is true, and no others */
    bool has_rng;    /* epilogues may use random numbers */
    /* An epilogue takes as long as a short product. Products with one are not tuned then, since trials have none. */
    bool has_slow_epilogue;
    /** Whether operands may have this type on dev. */
    bool (*takes)(charl_device *dev, charl_dtype type);
    /** Whether it can compute p, of a type that it takes. */
    bool (*supports)(charl_device *dev, const charl__gemm *p);
    /** Whether p is worth it, if p->form leaves the choice: otherwise the next ones are tried. */
    bool (*suits)(charl_device *dev, const charl__gemm *p);
    /** Lists its plans for p, the heuristic choice first, and returns their number. All back ends together have at most CHARL__GEMM_PLANS. */
    int (*plans)(charl_device *dev, const charl__gemm *p, charl__gemm_plan *out);
    /** Errors: as charl__gemm_enqueue. */
    charl_status (*enqueue)(charl_device *dev, const charl__gemm *p, const charl__gemm_plan *plan);
    /** Results for a p that it computes: charl__gemm_sums_a, _folds, _folds_sums and _fold_levels. */
    bool (*sums_a)(charl_device *dev, const charl__gemm *p);
    bool (*folds)(charl_device *dev, const charl__gemm *p);
    bool (*folds_sums)(charl_device *dev, const charl__gemm *p);
    int (*fold_levels)(charl_device *dev, const charl__gemm *p, int most);
};

extern const charl__gemm_backend charl__gemm_digits_wgmma; /* integers, NVIDIA's: gemm_digits.c */
extern const charl__gemm_backend charl__gemm_digits;       /* integers, any device: gemm_digits.c */
extern const charl__gemm_backend charl__gemm_token;    /* NVIDIA's, for text that is generated: nvidia/gemm_token.c */
extern const charl__gemm_backend charl__gemm_few_rows; /* NVIDIA's, for few rows: nvidia/gemm_few_rows.c */
extern const charl__gemm_backend charl__gemm_tensor_cores; /* NVIDIA's: nvidia/gemm_tensor_core.c */
extern const charl__gemm_backend charl__gemm_plane;        /* depthwise convolution, CPU: gemm_plane.c */
extern const charl__gemm_backend charl__gemm_small;        /* too few tiles for a device: gemm_small.c */
extern const charl__gemm_backend charl__gemm_local;        /* tiles in local memory: gemm_local.c */
extern const charl__gemm_backend charl__gemm_vector;       /* explicit vectors, CPU: gemm_vector.c */
extern const charl__gemm_backend charl__gemm_amx;          /* the same on the matrix unit of x86: gemm_vector.c */

/** Whether p is computed from digits. */
bool charl__gemm_is_integer(const charl__gemm *p);
/** For kernels that store by nvidia/gemm/tile_store.clh: whether the bias, and rows of out and of everything with its layout, begin at multiples of
 *  8 bytes; and those of f32 at multiples of 16. */
bool charl__gemm_writes_by_8(const charl__gemm *p);
bool charl__gemm_writes_by_16(const charl__gemm *p);

/** The plan of p->form; for AUTO the heuristic choice. */
charl__gemm_plan charl__gemm_guess(charl_device *dev, const charl__gemm *p);
/** All plans of p on this device, the heuristic choice first. Returns their number. */
int charl__gemm_plans(charl_device *dev, const charl__gemm *p, charl__gemm_plan out[CHARL__GEMM_PLANS]);
/** The plan from the tuning database, or the heuristic choice; with CHARL_TUNE=first, plans without a result are measured now. Errors:
 *  those of charl__gemm_tune. */
charl_status charl__gemm_plan_of(charl_device *dev, const charl__gemm *p, charl__gemm_plan *out) CHARL_MUST_CHECK;
/** Key of p in the tuning database, all that its time depends on except the epilogue, into text[CHARL__GEMM_TEXT]; returns text. */
const char *charl__gemm_key(charl_device *dev, const charl__gemm *p, char *text);
/** Enqueue p by a plan. Errors: as charl__gemm_enqueue. */
charl_status charl__gemm_launch(charl_device *dev, const charl__gemm *p, const charl__gemm_plan *plan) CHARL_MUST_CHECK;
/** Set the label, the numbers and the first arguments of all kernels: operands, those of the epilogue, and the numbers, which are borrowed: a
 *  back end may still set its own. Its other arguments follow. */
void charl__gemm_describe(const charl__gemm *p, charl__gemm_args *args, charl__launch *l);
/** Set the parameters of operands' layouts and types; of the tree over leaves. */
void charl__gemm_set_common(const charl__gemm *p, charl__launch *l);
void charl__gemm_set_fold(const charl__gemm *p, charl__launch *l);
/** The level of the tree from which on sums are rounded, ROUND; -1: none. */
int charl__gemm_rounded_level(const charl__gemm *p);
/** Set the parameters of a tree over leaves in registers; no-op if there is none. */
void charl__gemm_set_leaves(const charl__gemm *p, charl__launch *l);

/** Set the parameters of p's epilogue; no-op without one. `vec`: elements that the kernel processes at a time. */
void charl__gemm_set_epilogue(const charl__gemm *p, int vec, charl__launch *l);

/** Append the epilogue's operands, if there is one, and set its numbers. */
void charl__gemm_add_epilogue(const charl__gemm *p, charl__gemm_args *args, charl__launch *l);

/** Errors: ERR_DTYPE if the epilogue does not support a type. */
charl_status charl__gemm_check_epilogue(const charl__gemm *p) CHARL_MUST_CHECK;

#endif
