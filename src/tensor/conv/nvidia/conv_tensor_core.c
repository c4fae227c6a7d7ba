/* Convolutions on NVIDIA's tensor cores. The choice of a tile, made here, does not affect bits:
 * kernels/nvidia/conv/conv_wgmma.cl, conv_patch.cl and conv_mma.cl explain why. */
#include "tensor/conv/nvidia/conv_tensor_core.h"

#include <limits.h>

#include "tensor/gemm/gemm_private.h"

enum { ROWS = 128, STAGE_BYTES = 128 /* of a row of tiles for wgmma */, SWAP_GROUP = 256, SWAP_TILE = 64 };
/* Of conv_patch.cl: pixels of a tile's row and column, channels per half, local memory per 64 x 64 weights and per half of a patch, halves of
 * patches of a group, and what the words and maps take. */
enum { SIDE = 8, HALF_CHANNELS = 64, WEIGHT_BYTES = 8192, PATCH_BYTES = 13312, PATCHES = 6, WORD_BYTES = 384 };

typedef struct tile {
    const char *file, *entry;
    int columns, stages, items, overlap;
    int groups; /* that run at a time on a compute unit: registers and local memory (100 KB for mma.sync) allow no more */
    int rows;   /* 0: ROWS; else the warps share the columns */
} tile;

#define WGMMA "nvidia/conv/conv_wgmma", "conv_wgmma"
#define MMA "nvidia/conv/conv_mma", "conv_mma"
static const tile thin = {WGMMA, 64, 3, 256, 0, 3}, narrow = {WGMMA, 128, 3, 256, 0, 2},
                  wide = {WGMMA, 256, 4, 256, 1, 1};
static const tile narrow_gradient = {WGMMA, 128, 6, 256, 1, 1}; /* has no registers left for two groups */
static const tile low_gradient = {WGMMA, 256, 5, 256, 1, 1, .rows = 64};
static const tile patch = {"nvidia/conv/conv_patch", "conv_patch", 64, 0, 512, 0, 1};
static const tile thin_mma = {MMA, 64, 4, 128, 0, 2}, of_mma = {MMA, 128, 3, 128, 0, 2};

static void copy_pair(int to[2], const int from[2])
{
    to[0] = from[0];
    to[1] = from[1];
}

charl__conv_product charl__conv_product_forward(const charl__conv *c)
{
    charl__conv_product p = {
        .m = c->batch * c->oh * c->ow,
        .n = c->o,
        .ld = charl__conv_padded(c->c) * c->kernel[0] * c->kernel[1],
        .chunks = (int)(charl__conv_padded(c->c) / CHARL_CONV_CHUNK),
        .image = {(int)c->h, (int)c->w},
        .grid = {(int)c->oh, (int)c->ow},
        .shift = {-c->padding[0], -c->padding[1]},
        .w_step = {c->kernel[1], 1},
        .out_extent = {(int)c->oh, (int)c->ow},
        .out_step = {1, 1},
    };

    copy_pair(p.taps, c->kernel);
    copy_pair(p.step, c->stride);
    copy_pair(p.tap, c->dilation);
    return p;
}

charl__conv_product charl__conv_product_input_gradient(const charl__conv *c, const int at[2])
{
    const charl__conv_phase f = charl__conv_phase_at(c, at);
    charl__conv_product p = {
        .n = c->c,
        .ld = charl__conv_padded(c->o) * c->kernel[0] * c->kernel[1],
        .chunks = (int)(charl__conv_padded(c->o) / CHARL_CONV_CHUNK),
        .image = {(int)c->oh, (int)c->ow},
        .grid = {(int)charl__ceil_div(c->h - at[0], c->stride[0]), (int)charl__ceil_div(c->w - at[1], c->stride[1])},
        .step = {1, 1},
        .w_first = f.first[0] * c->kernel[1] + f.first[1],
        .w_step = {f.step[0] * c->kernel[1], f.step[1]},
        .out_extent = {(int)c->h, (int)c->w},
    };

    p.m = c->batch * p.grid[0] * p.grid[1];
    copy_pair(p.taps, f.count);
    copy_pair(p.out_step, c->stride);
    copy_pair(p.out_place, at);
    /* Pixel i of the phase gets from output row i + (at + padding - r * dilation) / stride. */
    for (int d = 0; d < 2; d++) {
        p.shift[d] = (at[d] + c->padding[d] - f.first[d] * c->dilation[d]) / c->stride[d];
        p.tap[d] = -(f.step[d] * c->dilation[d] / c->stride[d]);
    }
    if (p.taps[0] == 0 || p.taps[1] == 0) {
        p.taps[0] = 0;
        p.taps[1] = 1; /* the kernel divides by it */
    }
    return p;
}

charl__conv_product charl__conv_product_weight_gradient(const charl__conv *c, int64_t parts)
{
    charl__conv_product p = charl__conv_product_forward(c);

    p.is_gradient = true;
    p.m = c->o;
    p.n = c->c * c->kernel[0] * c->kernel[1];
    p.k = c->batch * c->oh * c->ow / parts;
    p.parts = parts;
    p.ld = charl__conv_padded(c->o);
    return p;
}

static int64_t count_columns(const charl__conv_product *p)
{
    return p->is_gradient ? (int64_t)p->taps[0] * p->taps[1] * p->chunks * CHARL_CONV_CHUNK : p->n;
}

static int rows_of(const tile *t)
{
    return t->rows ? t->rows : ROWS;
}

static int64_t count_tiles(const charl__conv_product *p, const tile *t)
{
    if (t == &patch) {
        return p->m / ((int64_t)p->grid[0] * p->grid[1]) * charl__ceil_div(p->grid[0], SIDE) *
               charl__ceil_div(p->grid[1], SIDE) * charl__ceil_div(p->n, t->columns);
    }
    return charl__ceil_div(p->m, rows_of(t)) * charl__ceil_div(count_columns(p), t->columns) *
           charl__at_least_one(p->parts);
}

static bool is_mma(charl_device *dev)
{
    return !charl__device_facts_get(dev)->nvidia.wgmma;
}

/* The wide tile reads a quarter less per product, if it is filled and there is one for every
 * compute unit. */
static bool is_wide(charl_device *dev, const charl__conv_product *p)
{
    const int64_t columns = charl__ceil_div(count_columns(p), wide.columns) * wide.columns;

    return 8 * columns <= 9 * count_columns(p) && count_tiles(p, &wide) >= charl_device_get_info(dev)->compute_units;
}

static int halves_of(const charl__conv_product *p)
{
    return p->chunks * CHARL_CONV_CHUNK / HALF_CHANNELS;
}

/* Whether patches can be used: 3 x 3 neighbouring pixels, stride 1, 64 or 128 channels; and whether they are worth it: three of four pixels of their tiles
 * are there, and each compute unit has one. */
static bool is_patch(charl_device *dev, const charl__conv_product *p)
{
    const int64_t tiles = p->m > 0 && p->n > 0 && !p->is_gradient ? count_tiles(p, &patch) : 0;

    for (int d = 0; d < 2; d++) {
        if (p->taps[d] != 3 || (p->tap[d] != 1 && p->tap[d] != -1) || p->step[d] != 1 || p->out_step[d] != 1) {
            return false;
        }
    }
    return charl__device_facts_get(dev)->nvidia.tensor_maps &&
           charl_device_get_info(dev)->compute_units <= CHARL_SPLIT_K_GROUPS &&
           (p->chunks * CHARL_CONV_CHUNK == HALF_CHANNELS || p->chunks * CHARL_CONV_CHUNK == 2 * HALF_CHANNELS) &&
           4 * p->m * p->n >= 3 * tiles * SIDE * SIDE * patch.columns &&
           charl__ceil_div(p->n, patch.columns) <= charl_device_get_info(dev)->compute_units &&
           tiles >= charl_device_get_info(dev)->compute_units;
}

static const tile *choose_tile(charl_device *dev, const charl__conv_product *p)
{
    const bool is_thin = !p->is_gradient && p->n <= thin.columns;

    if (is_mma(dev)) {
        return is_thin ? &thin_mma : &of_mma;
    }
    if (is_patch(dev, p)) {
        return &patch;
    }
    if (p->is_gradient && p->m <= low_gradient.rows && count_columns(p) > narrow_gradient.columns) {
        return &low_gradient;
    }
    if (is_wide(dev, p)) {
        return &wide;
    }
    return p->is_gradient ? &narrow_gradient : is_thin ? &thin : &narrow;
}

/* What the local array is enlarged to; 0 for mma.sync, whose kernel declares all of it. */
static int64_t local_bytes(charl_device *dev, const charl__conv_product *p, const tile *t)
{
    if (t == &patch) {
        return (int64_t)9 * halves_of(p) * WEIGHT_BYTES + (int64_t)PATCHES * PATCH_BYTES + WORD_BYTES;
    }
    return is_mma(dev) ? 0 : (int64_t)t->stages * (rows_of(t) + t->columns) * STAGE_BYTES;
}

static charl__pair pair(const int v[2])
{
    return (charl__pair){v[0], v[1]};
}

static charl__arg operand(charl__arg_kind kind, const charl_tensor *t)
{
    charl__arg a = charl__raw(kind, t->buffer);

    a.v.offset = t->offset;
    return a;
}

static charl_status check(const charl__conv_product *p, int64_t tiles)
{
    const int64_t rows = p->parts * p->k > p->m ? p->parts * p->k : p->m;
    const int64_t image = (int64_t)p->image[0] * p->image[1] * p->chunks * 2 * CHARL_CONV_CHUNK;
    const int64_t results = (int64_t)p->out_extent[0] * p->out_extent[1];

    CHARL_REQUIRE(tiles <= INT_MAX / 2 && rows * p->out_step[0] * p->out_step[1] <= INT_MAX / 2 &&
                      image <= INT_MAX / 2 && results <= INT_MAX / 2 && p->ld * p->n <= INT_MAX / 2,
                  CHARL_ERR_SHAPE,
                  "convolution of images of %d x %d x %d with %lld pixels in all: an extent is "
                  "beyond 2^30; HINT lower the batch size",
                  p->image[0], p->image[1], p->chunks * CHARL_CONV_CHUNK, (long long)rows);
    return CHARL_OK;
}

/* Rows of out, and the bias, begin at multiples of 8 bytes. */
static bool writes_by_8(const charl__conv_product *p)
{
    const int eight = 8 / (int)charl_dtype_size(p->out.dtype);

    return p->is_gradient ||
           (p->n % eight == 0 && p->out.offset % eight == 0 && (!p->bias || p->bias->offset % 2 == 0));
}

charl__conv_args charl__conv_product_args(const charl__conv_product *p, int64_t tiles)
{
    return (charl__conv_args){.image = pair(p->image),
                              .taps = pair(p->taps),
                              .grid = pair(p->grid),
                              .step = pair(p->step),
                              .shift = pair(p->shift),
                              .tap = pair(p->tap),
                              .w_step = pair(p->w_step),
                              .out_extent = pair(p->out_extent),
                              .out_step = pair(p->out_step),
                              .out_place = pair(p->out_place),
                              .chunks = p->chunks,
                              .ld = (int32_t)p->ld,
                              .w_first = p->w_first,
                              .m = (int32_t)p->m,
                              .n = (int32_t)p->n,
                              .k = (int32_t)p->k,
                              .tiles = (int32_t)tiles};
}

charl_status charl__conv_product_enqueue(charl_device *dev, const charl__conv_product *p)
{
    const tile *t = choose_tile(dev, p);
    const int64_t tiles = count_tiles(p, t);
    const int64_t most = (int64_t)t->groups * charl_device_get_info(dev)->compute_units;
    charl__conv_args args = charl__conv_product_args(p, tiles);
    const charl__kernel_param of_stages[] = {{"GRAD", p->is_gradient},
                                             {"BN", t->rows ? t->columns / 2 : t->columns},
                                             {"STAGES", t->stages},
                                             {t->overlap ? "OVERLAP" : NULL, 1},
                                             {t->rows ? "LOW" : NULL, 1}, /* with OVERLAP */
                                             {NULL}};
    const charl__kernel_param of_patches[] = {{"HALVES", halves_of(p)}, {NULL}};
    uint64_t none; /* the workspace begins at 0 */
    charl__launch l = {
        .file = t->file,
        .entry = t->entry,
        .params = {{"ACT", .text = charl__kernel_type(p->a.dtype)},
                   {"IS_F16", p->a.dtype == CHARL_F16},
                   {"OUT_T", .text = charl__kernel_type(p->out.dtype)},
                   {"BIAS", p->bias != NULL},
                   {"OUT_BY_8", writes_by_8(p)}},
        .global = {(size_t)((tiles < most ? tiles : most) * t->items)},
        .local = {(size_t)t->items},
        .sm90a.shared_bytes = local_bytes(dev, p, t),
        .args = {charl__placed(operand(CHARL_ARG_IN, &p->a), &args.a),
                 charl__placed(operand(CHARL_ARG_IN, &p->b), &args.b), charl__placed(charl__in(p->bias), &args.bias),
                 charl__placed(operand(CHARL_ARG_OUT, &p->out), &args.out), charl__struct(&args, sizeof args)},
        .label = p->label,
    };

    if (p->m == 0 || p->n == 0) {
        return CHARL_OK;
    }
    CHARL_TRY(check(p, tiles));
    charl__launch_set_all(&l, t == &patch ? of_patches : of_stages);
    if (t == &patch) {
        charl__launch_add(&l, charl__placed(charl__raw(CHARL_ARG_INOUT, charl__workspace_split_k(dev)), &none));
    }
    CHARL_TRY(charl__launch_enqueue(dev, &l));
    return CHARL_OK;
}

/* Few rows, such as the channels of an image: a column is one access. */
static charl_status swap_few(charl_device *dev, const charl__conv_swap *s)
{
    const int64_t count = s->batch * s->cols;

    return charl__launch_enqueue(
        dev, &(charl__launch){
                 .file = "conv/conv_swap",
                 .entry = "charl_swap_few",
                 .global = {(size_t)(charl__ceil_div(count, SWAP_GROUP) * SWAP_GROUP)},
                 .local = {SWAP_GROUP},
                 .args = {operand(CHARL_ARG_IN, &s->from), operand(CHARL_ARG_OUT, &s->to), charl__i64(s->rows),
                          charl__i64(s->cols), charl__i64(s->from_ld), charl__i64(count)},
                 .label = s->label,
             });
}

charl_status charl__conv_swap_enqueue(charl_device *dev, const charl__conv_swap *s)
{
    const int64_t tiles = s->batch * charl__ceil_div(s->to_ld, SWAP_TILE) * charl__ceil_div(s->cols, SWAP_TILE);

    if (s->to_ld == CHARL_CONV_CHUNK && s->to.offset % CHARL_CONV_CHUNK == 0) {
        return swap_few(dev, s);
    }
    return charl__launch_enqueue(
        dev, &(charl__launch){
                 .file = "conv/conv_swap",
                 .entry = "charl_swap_padded",
                 .global = {(size_t)(tiles * SWAP_GROUP)},
                 .local = {SWAP_GROUP},
                 .args = {operand(CHARL_ARG_IN, &s->from), operand(CHARL_ARG_OUT, &s->to), charl__i64(s->rows),
                          charl__i64(s->cols), charl__i64(s->from_ld), charl__i64(s->to_ld)},
                 .label = s->label,
             });
}
