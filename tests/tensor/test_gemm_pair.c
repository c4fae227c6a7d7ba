/* Two small products in one recorded launch, one with all that an epilogue can be: the bits are
 * those that the definitions give. */
#include "support/on_device.h"

#include <math.h>

#include "base/alloc.h"
#include "base/numeric/rng.h"
#include "base/numeric/tree.h"
#include "tensor/gemm/gemm.h"
#include "tensor/step_params.h"

enum { ROWS = 40, OUT = 37, IN = 70, LEAVES = 5, ALL = 20000 };
enum { SEED = 11, STEP = 12, KEY = 13, FIRST = 14 }; /* of what is drawn */

static charl_device *dev;

/* The gradients of a linear layer behind relu and dropout, in one buffer. */
typedef struct layer {
    charl__buffer *buffer;
    int64_t used;
    charl__buffer *record;
    charl_tensor *g, *w, *y, *x, *gx, *gw, *gb, *kept, *step;
    charl__gemm_epilogue epilogue;
    charl__gemm input, weight;
} layer;

static charl_tensor *take(layer *l, int64_t rows, int64_t columns)
{
    charl_tensor *t;

    charl_assert_ok(charl__tensor_view(l->buffer, CHARL_F32, &(charl_shape){2, {rows, columns}}, l->used, &t));
    l->used += rows * columns + 3;
    return t;
}

static void open_layer(layer *l)
{
    const charl__step_params step = {.seed_lo = SEED, .step_lo = STEP};
    float *values;

    *l = (layer){0};
    charl_assert_ok(charl__alloc_array(ALL, sizeof *values, &values));
    charl_test_fill(values, ALL, -1.0F, 1.0F, 3);
    charl_assert_ok(charl__buffer_create(dev, ALL * sizeof *values, "test", &l->buffer));
    charl_assert_ok(charl__buffer_write(CHARL_QUEUE_COMPUTE, l->buffer, 0, values, ALL * sizeof *values, true));
    charl_free(values);
    l->g = take(l, ROWS, OUT);
    l->w = take(l, OUT, IN);
    l->y = take(l, ROWS, IN);
    l->x = take(l, ROWS, IN);
    l->gx = take(l, ROWS, IN);
    l->gw = take(l, OUT, IN);
    l->gb = take(l, 1, OUT);
    l->kept = take(l, ROWS, IN);
    assert_true(l->used <= ALL);
    charl_assert_ok(charl__buffer_create(dev, sizeof step, "test", &l->record));
    charl_assert_ok(charl__buffer_write(CHARL_QUEUE_COMPUTE, l->record, 0, &step, sizeof step, true));
    charl_assert_ok(charl__tensor_view(l->record, CHARL_U32, &(charl_shape){1, {CHARL_STEP_WORDS}}, 0, &l->step));
    l->epilogue = (charl__gemm_epilogue){.expr = "select(CHARL_SPLAT(0.0f), a * 1.25f, draw >= 5000000.0f)",
                                         .then = "select(CHARL_SPLAT(0.0f), a, b > 0.0f)",
                                         .type = CHARL_F32,
                                         .n_in = 1,
                                         .in = {l->y},
                                         .product = l->kept,
                                         .keeps_first = true,
                                         .record = l->step,
                                         .key = KEY,
                                         .draw_at = charl__i64(FIRST)};
    l->input = (charl__gemm){.a = l->g,
                             .b = l->w,
                             .out = l->gx,
                             .m = ROWS,
                             .n = IN,
                             .k = OUT,
                             .epilogue = &l->epilogue,
                             .form = CHARL_GEMM_LOCAL_SMALL,
                             .label = "input"};
    l->weight = (charl__gemm){.a = l->g,
                              .b = l->x,
                              .out = l->gw,
                              .m = OUT,
                              .n = IN,
                              .k = ROWS / LEAVES,
                              .a_kind = CHARL_GEMM_TRANSPOSED,
                              .fold.leaves = LEAVES,
                              .a_outer = ROWS / LEAVES * OUT,
                              .b_outer = ROWS / LEAVES * IN,
                              .a_sums = l->gb,
                              .form = CHARL_GEMM_LOCAL_SMALL,
                              .label = "weight"};
}

static void close_layer(layer *l)
{
    charl_tensor *const all[] = {l->g, l->w, l->y, l->x, l->gx, l->gw, l->gb, l->kept, l->step};

    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        charl_tensor_release(all[i]);
    }
    charl__buffer_release(l->buffer);
    charl__buffer_release(l->record);
}

static void fetch(const layer *l, float *got)
{
    charl_assert_ok(charl__buffer_read(CHARL_QUEUE_COMPUTE, l->buffer, 0, got, ALL * sizeof *got, true));
}

/* The product, dropout, the gradient of relu. */
static void compute_input(const layer *l, float *values)
{
    const charl__rng rng = charl__rng_key(SEED, STEP, KEY);
    const float *g = values + l->g->offset, *w = values + l->w->offset, *y = values + l->y->offset;

    for (int64_t i = 0; i < ROWS * IN; i++) {
        const bool drawn = charl__rng_u32(&rng, (uint64_t)(FIRST + i)) >> 8 >= 5000000;
        float sum = 0, kept;

        for (int64_t k = 0; k < OUT; k++) {
            sum = fmaf(g[i / IN * OUT + k], w[k * IN + i % IN], sum);
        }
        kept = drawn ? sum * 1.25F : 0.0F;
        values[l->kept->offset + i] = kept;
        values[l->gx->offset + i] = y[i] > 0.0F ? kept : 0.0F;
    }
}

/* Column j of the weight's gradient for row i; j = IN: of the bias, in four accumulators per leaf.
 * The leaves meet in the tree. */
static float compute_weight(const layer *l, const float *values, int64_t i, int64_t j)
{
    const float *g = values + l->g->offset, *x = values + l->x->offset;
    float leaf[LEAVES], *part[LEAVES];

    for (int s = 0; s < LEAVES; s++) {
        const int64_t first = s * (ROWS / LEAVES);
        float sum = 0, acc[4] = {0};

        for (int64_t r = 0; r < ROWS / LEAVES; r++) {
            const float v = g[(first + r) * OUT + i];

            sum = fmaf(v, j < IN ? x[(first + r) * IN + j] : 0.0F, sum);
            acc[r % 4] += v;
        }
        leaf[s] = j < IN ? sum : (acc[0] + acc[2]) + (acc[1] + acc[3]);
        part[s] = &leaf[s];
    }
    charl__tree_fold(part, LEAVES, 1);
    return leaf[0];
}

static void compute(const layer *l, float *values)
{
    compute_input(l, values);
    for (int64_t i = 0; i < OUT; i++) {
        for (int64_t j = 0; j < IN; j++) {
            values[l->gw->offset + i * IN + j] = compute_weight(l, values, i, j);
        }
        values[l->gb->offset + i] = compute_weight(l, values, i, IN);
    }
}

static void a_pair_has_the_bits_of_two(void **state)
{
    static float want[ALL], got[ALL];
    charl__recording *r;
    layer l;

    (void)state;
    open_layer(&l);
    fetch(&l, want);
    compute(&l, want);
    charl_assert_ok(charl__record_begin(dev, &r));
    charl_assert_ok(charl__gemm_enqueue(dev, &l.input));
    charl_assert_ok(charl__gemm_enqueue(dev, &l.weight));
    charl_assert_ok(charl__record_end(dev, CHARL_OK));
    assert_int_equal(charl__recording_count(r), 1);
    charl_assert_ok(charl__recording_replay(r, 0, 1));
    fetch(&l, got);
    charl__recording_destroy(r);
    close_layer(&l);
    charl_assert_same_bits(got, want, ALL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pair_has_the_bits_of_two),
    };

    return charl_test_on_device(tests, &dev);
}
