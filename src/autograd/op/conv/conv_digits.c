/* Convolutions from digits of 8 bits: op/linear/integer.c defines the sums, and these are their operands.
 *
 *      conv2d          rows are output channels of the weight, over (channel, tap); a column is a pixel, and all of a sample have one scale, that
 *                      of its largest element
 *      conv2d_dgrad    rows are input channels of the weight, over (output channel, tap); a column is a pixel, likewise
 *      conv2d_wgrad    rows are channels of d out and columns are (channel of x, tap), over the pixels of a leaf: a slice of the batch, or one of
 *                      2, 4, 8 ... equal parts of its rows of pixels. A channel of a slice has one scale, for all parts and taps.
 *
 * So an element of an image has the same digits under every tap, and is converted once. Outside the image digits are 0. What the rules below leave out
 * is a chain of fma, as in the table's last row; they depend on neither the batch nor, but for the number of terms of a gradient of a weight, the
 * extents of images.
 */
#include <limits.h>

#include "autograd/op/conv/conv_backend.h"

#include "autograd/launch/gemm_slices.h"
#include "autograd/launch/map.h"
#include "autograd/launch/rows.h"
#include "conv/conv_digits_args.h"

enum {
    DIGITS = 4,
    LEAST_CHANNELS = 32, /* a step of k has 64 channels of a tap: with fewer, most of it is zeros */
    CHUNK = 16,          /* bytes that digits of a pixel are multiples of, */
    STEP = 64,           /* and those of a slice */
    ALIGNED = 128,
    GROUP = 256,
    FEW = 64,
    TILE = 64, /* of conv_split.cl */
    LARGE_PLANE = 512,
    SMALL_LANES = 16,
    LARGE_LANES = 64,
    PRODUCT_TILE = 128, /* of conv_digits_wgmma.cl */
    LOW_ROWS = 64,
    LOW_COLUMNS = 256,
    PRODUCT_ITEMS = 384,
    WORDS_BYTES = 512,
    STAGES = 3,
    LOW_STAGES = 2,
    ENOUGH_TILES = 32, /* of a slice's gradient of a weight */
    PART_ROWS = 4,     /* rows of pixels of 16 bytes that are whole steps, however long they are */
    SHORTEST_PART = 1024,
    MOST_PARTS = 64
};

static int64_t count_taps(const charl__conv *c)
{
    return (int64_t)c->kernel[0] * c->kernel[1];
}

/* In a gradient of a weight rows of pixels share margins of `padding` zeros, which must be as wide as the taps reach. */
static bool supports(const charl_device *dev, charl_dtype type, const charl__conv *c)
{
    (void)dev;
    for (int d = 0; d < 2; d++) {
        if (c->stride[d] != 1 || c->padding[d] > (c->kernel[d] - 1) * c->dilation[d]) {
            return false;
        }
    }
    return c->is_integer && type == CHARL_F32 && c->groups == 1 && c->c >= LEAST_CHANNELS && c->o >= LEAST_CHANNELS;
}

static int64_t aligned(int64_t bytes)
{
    return charl__ceil_div(bytes, ALIGNED) * ALIGNED;
}

/* The digits of an operand: scales, then DIGITS times `digit` bytes; from byte `at` of the workspace on. `largest` is where the largest magnitudes of planes
 * are; a weight has none. */
typedef struct digits {
    int64_t scales, digit, head, planes, largest, at;
} digits;

/* Places the operand behind *used bytes of the workspace. */
static digits place(int64_t scales, int64_t digit, int64_t planes, int64_t *used)
{
    digits d = {.scales = scales, .digit = digit, .head = aligned(scales * (int64_t)sizeof(int32_t)), .planes = planes};

    d.at = *used;
    d.largest = d.at + d.head + aligned(DIGITS * digit);
    *used = d.largest + aligned(planes * (int64_t)sizeof(int32_t));
    return d;
}

static int64_t pitch_of(int64_t channels)
{
    return charl__ceil_div(channels, CHUNK) * CHUNK;
}

/* What conv2d, or conv2d_dgrad, multiplies: a weight of `rows` rows by images of `k` channels, to pixels of a grid. */
typedef struct map_product {
    int64_t rows, k, pitch, image[2], grid[2], row_step, k_step;
    int shift[2], step[2];
    digits weight, images;
    int64_t bytes;
} map_product;

static map_product map_product_of(const charl__conv *c, bool of_x)
{
    const int64_t taps = count_taps(c), of_row = c->c * taps;
    map_product p = {.rows = of_x ? c->c : c->o,
                     .k = of_x ? c->o : c->c,
                     .image = {of_x ? c->oh : c->h, of_x ? c->ow : c->w},
                     .grid = {of_x ? c->h : c->oh, of_x ? c->w : c->ow},
                     .row_step = of_x ? taps : of_row,
                     .k_step = of_x ? of_row : taps};

    for (int d = 0; d < 2; d++) {
        p.shift[d] = of_x ? c->padding[d] : -c->padding[d];
        p.step[d] = of_x ? -c->dilation[d] : c->dilation[d];
    }
    p.pitch = pitch_of(p.k);
    p.weight = place(p.rows, p.rows * taps * p.pitch, 0, &p.bytes);
    p.images = place(c->batch, c->batch * p.image[0] * p.image[1] * p.pitch, c->batch * p.k, &p.bytes);
    return p;
}

static bool is_integer(const charl__conv *c, bool of_x)
{
    return charl__gemm_sums_digits((of_x ? c->o : c->c) * count_taps(c));
}

static int64_t workspace(const charl__conv *c)
{
    return is_integer(c, false) ? map_product_of(c, false).bytes : charl__conv_products.workspace(c);
}

static int64_t input_workspace(const charl__conv *c)
{
    return is_integer(c, true) ? map_product_of(c, true).bytes : charl__conv_products.input_workspace(c);
}

/* What conv2d_wgrad multiplies: the pixels of d out and of x, of so many samples of each slice, in `parts` parts. */
typedef struct pixel_product {
    int64_t slices, samples, parts, slice_bytes, row_bytes, pixel_bytes;
    digits out, x;
    int64_t leaf_elements, bytes;
} pixel_product;

static int64_t terms_of(const charl__conv *c, int64_t samples, int parts)
{
    return samples * (c->oh / parts) * c->ow;
}

/* Of a slice of that many samples: enough parts to occupy a device, as long as they remain long, and short enough for 32 bits. */
static int parts_of(const charl__conv *c, int64_t samples)
{
    const int64_t tiles = charl__ceil_div(c->o, PRODUCT_TILE) * charl__ceil_div(count_taps(c) * c->c, PRODUCT_TILE);
    int parts = 1;

    while (parts < MOST_PARTS && c->oh % (2 * parts * PART_ROWS) == 0 &&
           terms_of(c, samples, 2 * parts) >= SHORTEST_PART &&
           (tiles * parts < ENOUGH_TILES || !charl__gemm_sums_digits(terms_of(c, samples, parts)))) {
        parts *= 2;
    }
    return parts;
}

/* slices: 0 for one sum over the batch. */
static pixel_product pixel_product_of(const charl__conv *c, int64_t slices)
{
    pixel_product p = {.slices = slices > 0 ? slices : 1};

    p.samples = c->batch / p.slices;
    p.parts = slices > 0 ? parts_of(c, p.samples) : 1;
    p.pixel_bytes = pitch_of(p.samples);
    p.row_bytes = (c->w + c->padding[1]) * p.pixel_bytes;
    p.slice_bytes = charl__ceil_div((c->h + c->padding[0]) * p.row_bytes, STEP) * STEP;
    p.leaf_elements = c->o * count_taps(c) * c->c;
    p.bytes = aligned(p.slices * p.parts * p.leaf_elements * (int64_t)sizeof(float));
    p.out = place(p.slices * c->o, c->o * p.slices * p.slice_bytes, c->batch * c->o, &p.bytes);
    p.x = place(p.slices * c->c, c->c * p.slices * p.slice_bytes, c->batch * c->c, &p.bytes);
    return p;
}

static bool is_integer_weight(const charl__conv *c, const pixel_product *p)
{
    return charl__gemm_sums_digits(terms_of(c, p->samples, (int)p->parts));
}

static int64_t weight_workspace(const charl__conv *c, charl_dtype type, int slices)
{
    const pixel_product p = pixel_product_of(c, slices);

    return is_integer_weight(c, &p) ? p.bytes : charl__conv_products.weight_workspace(c, type, slices);
}

bool charl__conv_is_integer(const charl__conv *c, charl__conv_part part)
{
    return supports(NULL, CHARL_F32, c) &&
           (part == CHARL__CONV_WEIGHT ? charl__gemm_sums_digits(terms_of(c, c->batch, 1))
                                       : is_integer(c, part == CHARL__CONV_INPUT));
}

static charl__arg bytes_at(const charl__enqueue *e, charl__arg_kind kind, int64_t at)
{
    charl__arg a = charl__raw(kind, e->workspace->buffer);

    a.v.offset = e->workspace->offset * (int64_t)sizeof(float) + at;
    return a;
}

static charl__arg largest_at(const charl__enqueue *e, charl__arg_kind kind, const digits *d)
{
    charl__arg a = bytes_at(e, kind, d->largest);

    a.v.offset /= (int64_t)sizeof(int32_t);
    return a;
}

static charl_status check(const charl__enqueue *e, const digits *a, const digits *b)
{
    CHARL_REQUIRE(a->digit <= INT_MAX - GROUP && b->digit <= INT_MAX - GROUP, CHARL_ERR_SHAPE,
                  "%s: a digit of all numbers of a convolution's operands takes %lld and %lld bytes, and less than "
                  "2^31 are possible; use a smaller batch or train.products = fma",
                  e->label ? e->label : "convolution", (long long)a->digit, (long long)b->digit);
    return CHARL_OK;
}

/* The largest magnitudes of the planes of an image. */
static charl_status find_largest(const charl__enqueue *e, const charl_tensor *x, const digits *d,
                                 charl__conv_split_args *args)
{
    const int64_t group = (int64_t)charl__digits_group(e->dev, GROUP);
    const int64_t lanes = group == 1 ? 1 : args->area < LARGE_PLANE ? SMALL_LANES : LARGE_LANES;

    return charl__launch_enqueue(
        e->dev, &(charl__launch){.file = "conv/conv_split",
                                 .entry = "charl_plane_largest",
                                 .params = {{"GROUP", group}, {"LANES", lanes}},
                                 .global = {(size_t)(charl__ceil_div(d->planes, group / lanes) * group)},
                                 .local = {(size_t)group},
                                 .args = {charl__placed(charl__in(x), &args->x),
                                          charl__placed(largest_at(e, CHARL_ARG_OUT, d), &args->largest),
                                          charl__struct(args, sizeof *args)},
                                 .label = e->label});
}

static charl_status split_image(const charl__enqueue *e, const charl_tensor *x, const digits *d, const char *entry,
                                int64_t groups, size_t group, charl__conv_split_args *args)
{
    args->head = d->head;
    args->digit = d->digit;
    CHARL_TRY(find_largest(e, x, d, args));
    return charl__launch_enqueue(
        e->dev,
        &(charl__launch){
            .file = "conv/conv_split",
            .entry = entry,
            .params = {{"GROUP", (int64_t)group}},
            .global = {(size_t)groups * group},
            .local = {group},
            .args = {charl__placed(charl__in(x), &args->x), charl__placed(bytes_at(e, CHARL_ARG_OUT, d->at), &args->to),
                     charl__placed(largest_at(e, CHARL_ARG_IN, d), &args->largest), charl__struct(args, sizeof *args)},
            .label = e->label});
}

static charl_status split_operands(const charl__enqueue *e, const charl__conv *c, const map_product *p)
{
    charl__conv_split_args weight = {.head = p->weight.head,
                                     .digit = p->weight.digit,
                                     .row_step = p->row_step,
                                     .k_step = p->k_step,
                                     .rows = (int32_t)p->rows,
                                     .k = (int32_t)p->k,
                                     .pitch = (int32_t)p->pitch,
                                     .taps = (int32_t)count_taps(c)};
    charl__conv_split_args images = {.samples = (int32_t)c->batch,
                                     .channels = (int32_t)p->k,
                                     .area = (int32_t)(p->image[0] * p->image[1]),
                                     .pitch = (int32_t)p->pitch};
    const size_t group = charl__digits_group(e->dev, GROUP);

    CHARL_TRY(charl__launch_enqueue(
        e->dev, &(charl__launch){.file = "conv/conv_split",
                                 .entry = "charl_split_taps",
                                 .params = {{"GROUP", (int64_t)group}},
                                 .global = {(size_t)p->rows * group},
                                 .local = {group},
                                 .args = {charl__placed(charl__in(e->in[1]), &weight.x),
                                          charl__placed(bytes_at(e, CHARL_ARG_OUT, p->weight.at), &weight.to),
                                          charl__struct(&weight, sizeof weight)},
                                 .label = e->label}));
    return split_image(e, e->in[0], &p->images, "charl_split_images",
                       charl__ceil_div(images.area, TILE) * charl__ceil_div(p->pitch, TILE) * c->batch, group, &images);
}

/* The logarithms of a tile's extents, for the fewest tiles of so many columns; wider ones are preferred. Returns the number of tiles. */
static int64_t choose_box(const int64_t grid[2], int64_t samples, int columns, charl__conv_digits_args *t)
{
    int64_t best = INT64_MAX;

    for (int w = 0; 1 << w <= columns; w++) {
        for (int h = 0; 1 << (w + h) <= columns; h++) {
            const int n = __builtin_ctz((unsigned)columns) - w - h;
            const int64_t tiles =
                charl__ceil_div(grid[1], 1 << w) * charl__ceil_div(grid[0], 1 << h) * charl__ceil_div(samples, 1 << n);

            if (tiles <= best) {
                best = tiles;
                t->box_w = w;
                t->box_h = h;
                t->box_n = n;
            }
        }
    }
    return best;
}

static bool has_wgmma(charl_device *dev)
{
    const charl__device_facts *facts = charl__device_facts_get(dev);

    return facts->nvidia.wgmma && facts->nvidia.tensor_maps;
}

/* out = the product of digits a and b, which t describes but for where they lie and its tiles; it has so many elements. */
static charl_status multiply(const charl__enqueue *e, const digits *a, const digits *b, const charl_tensor *bias,
                             charl__arg out, int64_t elements, bool is_gradient, charl__conv_digits_args *t)
{
    charl__launch l = {.file = "conv/conv_digits",
                       .entry = "conv_digits",
                       .params = {{"GRAD", is_gradient}, {"BIAS", bias != NULL}},
                       .label = e->label};
    const bool low = t->m <= LOW_ROWS;
    const int rows = low ? LOW_ROWS : PRODUCT_TILE, columns = low ? LOW_COLUMNS : PRODUCT_TILE;
    const int64_t grid[2] = {t->grid_h, t->grid_w};
    uint64_t none; /* the workspace begins at 0 */
    int64_t tiles, groups;

    t->a_head = a->head;
    t->b_head = b->head;
    t->a_digit = a->digit;
    t->b_digit = b->digit;
    charl__launch_add(&l, charl__placed(bytes_at(e, CHARL_ARG_IN, a->at), &t->a));
    charl__launch_add(&l, charl__placed(bytes_at(e, CHARL_ARG_IN, b->at), &t->b));
    charl__launch_add(&l, charl__placed(bias ? charl__in(bias) : charl__raw(CHARL_ARG_IN, NULL), &t->bias));
    charl__launch_add(&l, charl__placed(out, &t->out));
    charl__launch_add(&l, charl__struct(t, sizeof *t));
    if (!has_wgmma(e->dev)) {
        l.local[0] = charl__digits_group(e->dev, FEW);
        l.global[0] = (size_t)charl__ceil_div(elements, (int64_t)l.local[0]) * l.local[0];
        return charl__launch_enqueue(e->dev, &l);
    }
    tiles =
        is_gradient
            ? charl__ceil_div((int64_t)t->taps_h * t->taps_w * charl__ceil_div(t->n, TILE), columns / TILE) * t->leaves
            : choose_box(grid, t->n, columns, t);
    tiles *= charl__ceil_div(t->m, rows);
    groups = charl_device_get_info(e->dev)->compute_units;
    groups = groups > CHARL_SPLIT_K_GROUPS ? CHARL_SPLIT_K_GROUPS : groups;
    groups = groups > tiles ? tiles : groups;
    CHARL_REQUIRE(tiles + groups <= INT_MAX, CHARL_ERR_SHAPE, "%s: %lld tiles of a convolution are beyond 2^31",
                  e->label ? e->label : "convolution", (long long)tiles);
    t->tiles = (int32_t)tiles;
    l.file = "nvidia/conv/conv_digits_wgmma";
    l.entry = "conv_digits_wgmma";
    l.sm90a.shared_bytes = (size_t)((low ? LOW_STAGES : STAGES) * DIGITS * (rows + columns) * STEP + WORDS_BYTES);
    l.sm90a.min_blocks = 1;
    l.local[0] = PRODUCT_ITEMS;
    l.global[0] = (size_t)(groups * PRODUCT_ITEMS);
    charl__launch_set(&l, "LOW", low);
    charl__launch_set(&l, "PAIRS",
                      t->out % 2 == 0 && (is_gradient ? t->n % 2 == 0 : t->grid_w % 2 == 0 && t->box_w > 0));
    charl__launch_add(&l, charl__placed(charl__raw(CHARL_ARG_INOUT, charl__workspace_split_k(e->dev)), &none));
    return charl__launch_enqueue(e->dev, &l);
}

static charl_status enqueue_map(const charl__enqueue *e, const charl__conv *c, bool of_x)
{
    const map_product p = map_product_of(c, of_x);
    charl__conv_digits_args t = {.m = (int32_t)p.rows,
                                 .n = (int32_t)c->batch,
                                 .k = (int32_t)p.pitch,
                                 .leaves = 1,
                                 .taps_h = c->kernel[0],
                                 .taps_w = c->kernel[1],
                                 .shift_h = p.shift[0],
                                 .shift_w = p.shift[1],
                                 .step_h = p.step[0],
                                 .step_w = p.step[1],
                                 .image_h = (int32_t)p.image[0],
                                 .image_w = (int32_t)p.image[1],
                                 .grid_h = (int32_t)p.grid[0],
                                 .grid_w = (int32_t)p.grid[1]};

    CHARL_TRY(check(e, &p.weight, &p.images));
    CHARL_TRY(split_operands(e, c, &p));
    return multiply(e, &p.weight, &p.images, e->n_in > 2 ? e->in[2] : NULL, charl__out(e->out[0]),
                    charl__tensor_count(e->out[0]), false, &t);
}

static charl_status enqueue(const charl__enqueue *e, const charl__conv *c)
{
    return is_integer(c, false) ? enqueue_map(e, c, false) : charl__conv_products.enqueue(e, c);
}

static charl_status enqueue_input(const charl__enqueue *e, const charl__conv *c)
{
    return is_integer(c, true) ? enqueue_map(e, c, true) : charl__conv_products.enqueue_input(e, c);
}

static charl_status split_pixels(const charl__enqueue *e, const charl__conv *c, const pixel_product *p, bool of_x)
{
    const int64_t channels = of_x ? c->c : c->o;
    charl__conv_split_args args = {.samples = (int32_t)c->batch,
                                   .channels = (int32_t)channels,
                                   .area = (int32_t)(of_x ? c->h * c->w : c->oh * c->ow),
                                   .width = (int32_t)(of_x ? c->w : c->ow),
                                   .slice = (int32_t)p->samples,
                                   .slice_bytes = (int32_t)p->slice_bytes,
                                   .row_bytes = (int32_t)p->row_bytes,
                                   .pixel_bytes = (int32_t)p->pixel_bytes};
    const size_t group = charl__digits_group(e->dev, FEW);

    return split_image(e, e->in[of_x], of_x ? &p->x : &p->out, "charl_split_pixels",
                       charl__ceil_div(p->slice_bytes, (int64_t)group * CHUNK) * p->slices * channels, group, &args);
}

/* A leaf [o, taps, c] of the tree for each part of each slice. */
static charl_status enqueue_weight(const charl__enqueue *e, const charl__conv *c)
{
    static const charl_slices one = {.total = 1, .count = 1, .n_lanes = 1, .lane_hi = {1}};
    const bool has_slices = charl__is_partial(e, 0);
    const pixel_product p = pixel_product_of(c, has_slices ? e->slices->count : 0);
    const charl_slices slices = has_slices ? charl__cut_slices(e->slices, (int)p.parts) : one;
    const charl__fold_move move = {c->c, count_taps(c), c->c};
    charl__enqueue leaves = *e;
    charl__conv_digits_args t = {.m = (int32_t)c->o,
                                 .n = (int32_t)c->c,
                                 .k = (int32_t)(c->oh / p.parts * p.row_bytes),
                                 .leaves = (int32_t)(p.slices * p.parts),
                                 .parts = (int32_t)p.parts,
                                 .taps_h = c->kernel[0],
                                 .taps_w = c->kernel[1],
                                 .shift_h = -c->padding[0],
                                 .shift_w = -c->padding[1],
                                 .step_h = c->dilation[0],
                                 .step_w = c->dilation[1],
                                 .slice_bytes = (int32_t)p.slice_bytes,
                                 .row_bytes = (int32_t)p.row_bytes,
                                 .pixel_bytes = (int32_t)p.pixel_bytes};

    if (!is_integer_weight(c, &p)) {
        return charl__conv_products.enqueue_weight(e, c);
    }
    leaves.slices = &slices;
    leaves.parts = (int)p.parts;
    CHARL_TRY(check(e, &p.out, &p.x));
    CHARL_TRY(split_pixels(e, c, &p, false));
    CHARL_TRY(split_pixels(e, c, &p, true));
    CHARL_TRY(multiply(e, &p.out, &p.x, NULL, charl__scratch_arg(CHARL_ARG_OUT, e->workspace, 0),
                       t.leaves * p.leaf_elements, true, &t));
    return charl__fold_inputs(&leaves,
                              &(charl__fold_input){charl__scratch_arg(CHARL_ARG_IN, e->workspace, 0),
                                                   charl__tensor_count(e->out[0]), 0, &move},
                              1);
}

const charl__conv_backend charl__conv_digits = {.name = "digits",
                                                .supports = supports,
                                                .layout = CHARL_LAYOUT_ROWS,
                                                .workspace = workspace,
                                                .input_workspace = input_workspace,
                                                .weight_workspace = weight_workspace,
                                                .enqueue = enqueue,
                                                .enqueue_input = enqueue_input,
                                                .enqueue_weight = enqueue_weight};
