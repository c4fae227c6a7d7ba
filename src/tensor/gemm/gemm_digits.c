/* Products from digits of 8 bits (kernels/integer): each operand is cut into digits, by rows of A and columns of B, and the digits are
 * multiplied as integers. Two back ends with the same bits: any device's, and wgmma. src/autograd/op/linear/integer.c defines the bits. */
#include <limits.h>

#include "integer/digits_args.h"
#include "tensor/gemm/gemm_private.h"

enum {
    /* Shorter sums take as long with fma; longer ones might not fit 32 bits: a group has four products of 2^14 or less for each step of k. */
    LEAST_K = 256,
    MOST_K = 1 << 15,
    CHUNK = 16, /* bytes that rows of digits are multiples of */
    ALIGNED = 128,
    GROUP = 256,
    FEW = 64,
    ROW_ITEMS = 8, /* elements of a row for each work-item, about */
    NARROW = 32,   /* of split_columns.cl */
    TILE = 64,
    LEAST_CHUNK = 128,
    MOST_CHUNKS = 16,
    ROWS =
        2, /* of a work-item of gemm_digits.cl; on CPUs, where they share digits of B in the nearest cache; and columns */
    ROWS_CPU = 32,
    COLUMNS = 4,
    PRODUCT_TILE = 128, /* of gemm_digits_wgmma.cl */
    PRODUCT_ITEMS = 384,
    PRODUCT_BYTES = 12 * 2 * PRODUCT_TILE * 64 + 512
};

bool charl__gemm_sums_digits(int64_t k)
{
    return k >= LEAST_K && k <= MOST_K;
}

bool charl__gemm_is_integer(const charl__gemm *p)
{
    return p->n_digits > 0 && p->a.kind <= CHARL_GEMM_TRANSPOSED && p->b.kind <= CHARL_GEMM_TRANSPOSED &&
           p->segments <= 1 && p->inner <= 1 && p->fold.leaves <= 1 && !p->a_sums &&
           p->bias_kind != CHARL_GEMM_BIAS_ROWS && charl__gemm_sums_digits(p->k);
}

/* An operand's digits: `matrices` matrices of `rows` rows, whose scales take `head` bytes. */
typedef struct digits {
    const charl__gemm_matrix *of;
    bool by_columns; /* k is not contiguous */
    int64_t digits, matrices, rows, k, pitch, head, bytes;
    int64_t chunk, chunks; /* by_columns: of k, for the largest magnitudes */
    charl__arg at;
} digits;

static int64_t aligned(int64_t bytes)
{
    return charl__ceil_div(bytes, ALIGNED) * ALIGNED;
}

static digits digits_of(const charl__gemm *p, bool is_a)
{
    const charl__gemm_matrix *x = is_a ? &p->a : &p->b;
    digits d = {.of = x,
                .by_columns = x->kind == (is_a ? CHARL_GEMM_TRANSPOSED : CHARL_GEMM_PLAIN),
                .digits = p->n_digits,
                .matrices = x->outer == 0 ? 1 : charl__at_least_one(p->count),
                .rows = is_a ? p->m : p->n,
                .k = p->k};

    d.pitch = charl__ceil_div(p->k, CHUNK) * CHUNK;
    d.head = aligned(d.matrices * d.rows * (int64_t)sizeof(int32_t));
    d.bytes = d.head + aligned(d.matrices * d.digits * d.rows * d.pitch);
    d.chunk = charl__ceil_div(d.k, MOST_CHUNKS);
    d.chunk = d.chunk < LEAST_CHUNK ? LEAST_CHUNK : d.chunk;
    d.chunks = charl__ceil_div(d.k, d.chunk);
    return d;
}

static int64_t bytes_of_largest(const digits *d)
{
    return d->by_columns ? aligned(d->matrices * d->chunks * d->rows * (int64_t)sizeof(int32_t)) : 0;
}

/* Parameters of the kernels that cut. */
#define DIGITS_OF(d)                                                                                                   \
    {"DIGITS", (d)->digits},                                                                                           \
    {                                                                                                                  \
        "ACT", .text = charl__kernel_type((d)->of->tensor->dtype)                                                      \
    }

size_t charl__digits_group(const charl_device *dev, int most)
{
    return charl__device_facts_get(dev)->group < most ? 1 : (size_t)most;
}

static charl_status split_rows(charl_device *dev, const digits *d, charl__digits_args *args, const char *label)
{
    const size_t group = charl__digits_group(dev, d->k > FEW * ROW_ITEMS ? GROUP : FEW);

    return charl__launch_enqueue(
        dev,
        &(charl__launch){.file = "integer/split_rows",
                         .entry = "charl_split_rows",
                         .params = {{"GROUP", (int64_t)group}, {"CHARL_VEC", 4}, DIGITS_OF(d)},
                         .global = {(size_t)(d->matrices * d->rows) * group},
                         .local = {group},
                         .args = {charl__placed(charl__gemm_operand(CHARL_ARG_IN, d->of->tensor, d->of->at), &args->x),
                                  charl__placed(d->at, &args->to), charl__struct(args, sizeof *args)},
                         .label = label});
}

static charl_status split_columns(charl_device *dev, const digits *d, charl__digits_args *args, charl__arg largest,
                                  const char *label)
{
    const charl__arg x = charl__placed(charl__gemm_operand(CHARL_ARG_IN, d->of->tensor, d->of->at), &args->x);
    const charl__arg to = charl__placed(d->at, &args->to);
    const size_t group = charl__digits_group(dev, GROUP);
    charl__launch l = {.file = "integer/split_columns",
                       .entry = "charl_column_largest",
                       .params = {{"GROUP", (int64_t)group}, {"CHARL_VEC", 4}, DIGITS_OF(d)},
                       .global = {(size_t)(charl__ceil_div(d->rows, NARROW) * d->chunks * d->matrices) * group},
                       .local = {group},
                       .args = {x, charl__placed(largest, &args->largest), charl__struct(args, sizeof *args)},
                       .label = label};

    CHARL_TRY(charl__launch_enqueue(dev, &l));
    largest.kind = CHARL_ARG_IN;
    l = (charl__launch){
        .file = "integer/split_columns",
        .entry = "charl_split_columns",
        .params = {{"GROUP", (int64_t)group}, {"CHARL_VEC", 4}, DIGITS_OF(d)},
        .global = {(size_t)(charl__ceil_div(d->rows, TILE) * charl__ceil_div(d->pitch, TILE) * d->matrices) * group},
        .local = {group},
        .args = {x, to, charl__placed(largest, &args->largest), charl__struct(args, sizeof *args)},
        .label = label};
    return charl__launch_enqueue(dev, &l);
}

int64_t charl__gemm_digits_bytes(const charl__gemm *p)
{
    const digits a = digits_of(p, true), b = digits_of(p, false);

    return charl__gemm_is_integer(p) ? a.bytes + b.bytes + bytes_of_largest(&a) + bytes_of_largest(&b) : 0;
}

/* Writes the digits of both operands, and leaves their places in a and b. */
static charl_status split(charl_device *dev, const charl__gemm *p, digits *a, digits *b)
{
    digits *const both[] = {a, b};
    charl__arg largest;

    a->at = b->at = largest = charl__raw(CHARL_ARG_OUT, p->digits->buffer);
    a->at.v.offset = (p->digits->offset + p->digits_at) * (int64_t)sizeof(float);
    b->at.v.offset = a->at.v.offset + a->bytes;
    largest.v.offset = (b->at.v.offset + b->bytes) / (int64_t)sizeof(int32_t);
    for (int i = 0; i < 2; i++) {
        digits *const d = both[i];
        charl__digits_args args = {.outer = d->of->outer,
                                   .head = d->head,
                                   .matrices = (int32_t)d->matrices,
                                   .rows = (int32_t)d->rows,
                                   .k = (int32_t)d->k,
                                   .pitch = (int32_t)d->pitch,
                                   .chunk = (int32_t)d->chunk,
                                   .chunks = (int32_t)d->chunks};

        CHARL_TRY(d->by_columns ? split_columns(dev, d, &args, largest, p->label)
                                : split_rows(dev, d, &args, p->label));
        largest.v.offset += bytes_of_largest(d) / (int64_t)sizeof(int32_t);
        d->at.kind = CHARL_ARG_IN;
    }
    return CHARL_OK;
}

/* Operands and numbers of both kernels. */
static void describe(const charl__gemm *p, const digits *a, const digits *b, charl__gemm_args *args, charl__launch *l)
{
    charl__gemm_describe(p, args, l);
    l->args[0] = charl__placed(a->at, &args->a);
    l->args[1] = charl__placed(b->at, &args->b);
    args->a_inner = a->head;
    args->b_inner = b->head;
    args->a_outer = a->of->outer == 0 ? 0 : a->digits * a->rows * a->pitch;
    args->b_outer = b->of->outer == 0 ? 0 : b->digits * b->rows * b->pitch;
    args->a_pitch = (int32_t)a->pitch;
    args->b_pitch = (int32_t)b->pitch;
    charl__launch_set(l, "DIGITS", p->n_digits);
    charl__launch_set(l, "BIAS", (int)p->bias_kind);
    charl__launch_set_text(l, "OUT_T", charl__kernel_type(p->out.tensor->dtype));
}

static charl_status enqueue(charl_device *dev, const charl__gemm *p, const charl__gemm_plan *plan)
{
    const size_t group = charl__digits_group(dev, FEW);
    const int rows = group == 1 ? ROWS_CPU : ROWS;
    const int64_t items = charl__at_least_one(p->count) * charl__ceil_div(p->m, rows) * charl__ceil_div(p->n, COLUMNS);
    digits a = digits_of(p, true), b = digits_of(p, false);
    charl__launch l = {.file = "integer/gemm_digits", .entry = "gemm_digits", .params = {{"ROWS", rows}}};
    charl__gemm_args args;

    (void)plan;
    CHARL_TRY(split(dev, p, &a, &b));
    charl__gemm_set_epilogue(p, 1, &l);
    describe(p, &a, &b, &args, &l);
    args.tiles = (int32_t)charl__at_least_one(p->count);
    l.local[0] = group;
    l.global[0] = (size_t)charl__ceil_div(items, (int64_t)group) * group;
    return charl__launch_enqueue(dev, &l);
}

static charl_status enqueue_wgmma(charl_device *dev, const charl__gemm *p, const charl__gemm_plan *plan)
{
    const int64_t tiles =
        charl__ceil_div(p->m, PRODUCT_TILE) * charl__ceil_div(p->n, PRODUCT_TILE) * charl__at_least_one(p->count);
    int64_t groups = charl_device_get_info(dev)->compute_units;
    digits a = digits_of(p, true), b = digits_of(p, false);
    charl__launch l = {.file = "nvidia/gemm/gemm_digits_wgmma",
                       .entry = "gemm_digits_wgmma",
                       .local = {PRODUCT_ITEMS},
                       .sm90a.shared_bytes = PRODUCT_BYTES,
                       .sm90a.min_blocks = 1};
    charl__gemm_args args;
    uint64_t none; /* the workspace begins at 0 */

    (void)plan;
    groups = groups > CHARL_SPLIT_K_GROUPS ? CHARL_SPLIT_K_GROUPS : groups;
    groups = groups > tiles ? tiles : groups;
    CHARL_REQUIRE(tiles + groups <= INT_MAX, CHARL_ERR_SHAPE,
                  "matrix product of %lld x %lld x %lld, %lld times: %lld tiles are beyond 2^31", (long long)p->m,
                  (long long)p->n, (long long)p->k, (long long)charl__at_least_one(p->count), (long long)tiles);
    CHARL_TRY(split(dev, p, &a, &b));
    charl__gemm_set_epilogue(p, 4, &l);
    charl__launch_set(&l, "OUT_BY_8", charl__gemm_writes_by_8(p));
    charl__launch_set(&l, "OUT_BY_16", charl__gemm_writes_by_16(p));
    describe(p, &a, &b, &args, &l);
    args.tiles = (int32_t)tiles;
    l.global[0] = (size_t)(groups * PRODUCT_ITEMS);
    charl__launch_add(&l, charl__placed(charl__raw(CHARL_ARG_INOUT, charl__workspace_split_k(dev)), &none));
    return charl__launch_enqueue(dev, &l);
}

static bool has_wgmma(charl_device *dev, charl_dtype type)
{
    const charl__device_facts *facts = charl__device_facts_get(dev);

    (void)type;
    return facts->nvidia.wgmma && facts->nvidia.tensor_maps;
}

static int plan_of(const charl__gemm_backend *b, const charl__gemm *p, charl__gemm_plan *out)
{
    out[0] = (charl__gemm_plan){.backend = b, .form = p->form};
    return 1;
}

static int plans(charl_device *dev, const charl__gemm *p, charl__gemm_plan *out)
{
    (void)dev;
    return plan_of(&charl__gemm_digits, p, out);
}

static int plans_wgmma(charl_device *dev, const charl__gemm *p, charl__gemm_plan *out)
{
    (void)dev;
    return plan_of(&charl__gemm_digits_wgmma, p, out);
}

/* In tests CHARL_GEMM_LOCAL asks for the kernel of any device. */
static bool supports_wgmma(charl_device *dev, const charl__gemm *p)
{
    (void)dev;
    return p->form != CHARL_GEMM_LOCAL;
}

const charl__gemm_backend charl__gemm_digits = {.name = "digits",
                                                .key = " digits",
                                                .memory = CHARL_GEMM_UNITS,
                                                .is_integer = true,
                                                .has_own_bits = true,
                                                .has_slow_epilogue = true,
                                                .plans = plans,
                                                .enqueue = enqueue};

const charl__gemm_backend charl__gemm_digits_wgmma = {.name = "digits_wgmma",
                                                      .key = " digits",
                                                      .memory = CHARL_GEMM_UNITS,
                                                      .is_integer = true,
                                                      .has_own_bits = true,
                                                      .has_slow_epilogue = true,
                                                      .takes = has_wgmma,
                                                      .supports = supports_wgmma,
                                                      .plans = plans_wgmma,
                                                      .enqueue = enqueue_wgmma};
