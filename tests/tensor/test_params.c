/* src/tensor: where parameters lie, views and recordings, numbers of few bits. */
#include "support/on_device.h"
#include "support/support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/numeric/hash.h"
#include "tensor/packed.h"
#include "tensor/params.h"

/* Parameter sets: layout, alignment, initial values, and what goes wrong before they exist. */

static charl_device *dev;

static const charl_param_spec specs[] = {
    {.name = "conv.weight", .shape = {4, {3, 2, 3, 3}}, .init = {CHARL_INIT_UNIFORM, -0.25F, 0.5F}, .trainable = true},
    {.name = "bn.running_mean", .shape = {1, {3}}, .init = {CHARL_INIT_CONSTANT, 2.5F, 0.0F}},
    {.name = "conv.bias",
     .shape = {1, {3}},
     .init = {CHARL_INIT_CONSTANT, -1.0F, 0.0F},
     .trainable = true,
     .no_decay = true},
    {.name = "fc.weight", .shape = {2, {40, 50}}, .init = {CHARL_INIT_NORMAL, 1.0F, 2.0F}, .trainable = true},
    {.name = "scalar", .shape = {0, {0}}, .trainable = true},
    {.name = "empty", .shape = {2, {0, 4}}, .trainable = true},
    {.name = "bn.running_var", .shape = {1, {3}}, .init = {CHARL_INIT_CONSTANT, 1.0F, 0.0F}},
};

enum { N = (int)(sizeof specs / sizeof specs[0]) };

static charl_status declare(charl_params *set, const int *order)
{
    for (int i = 0; i < N; i++) {
        charl_param *p;

        CHARL_TRY(charl_params_add(set, &specs[order ? order[i] : i], &p));
    }
    return CHARL_OK;
}

static void test_declaration(void **state)
{
    charl_params *set;
    char name[] = "changes";
    charl_param *p = NULL;

    (void)state;
    charl_assert_ok(charl_params_create(&set));
    charl_assert_ok(declare(set, NULL));
    assert_int_equal(charl_params_get_count(set), N);
    assert_int_equal(charl_params_get_elements(set), 54 + 3 + 2000 + 1);
    for (int i = 0; i < N; i++) {
        assert_ptr_equal(charl_params_find(set, specs[i].name), charl_params_get(set, i));
        assert_string_equal(charl_param_get_spec(charl_params_get(set, i))->name, specs[i].name);
    }
    assert_null(charl_params_find(set, "fc"));
    assert_null(charl_params_get(set, -1));
    assert_null(charl_params_get(set, N));
    charl_assert_ok(charl_params_add(set, &(charl_param_spec){.name = name}, &p));
    name[0] = 'X'; /* the name is a copy */
    assert_ptr_equal(charl_params_find(set, "changes"), p);
    charl_params_destroy(set);
    charl_params_destroy(NULL);
}

static void test_refused_declarations(void **state)
{
    charl_params *set;
    charl_param *p = NULL;
    float v;

    (void)state;
    charl_assert_ok(charl_params_create(&set));
    charl_assert_ok(declare(set, NULL));
    charl_assert_status(charl_params_add(set, &specs[0], &p), CHARL_ERR_INVALID);
    charl_assert_message("conv.weight is declared twice");
    assert_null(p);
    charl_assert_status(charl_params_add(set, &(charl_param_spec){.name = ""}, &p), CHARL_ERR_INVALID);
    charl_assert_status(charl_params_add(set, &(charl_param_spec){.name = NULL}, &p), CHARL_ERR_INVALID);
    charl_assert_status(charl_params_add(set, &(charl_param_spec){.name = "n", .shape = {1, {-1}}}, &p),
                        CHARL_ERR_SHAPE);
    charl_assert_status(charl_params_pack(set, (charl_packing)(CHARL_PACKING_INT4 + 1)), CHARL_ERR_INVALID);
    charl_assert_status(charl_params_initialize(set, 1), CHARL_ERR_INVALID);
    charl_assert_status(charl_param_read(charl_params_find(set, "scalar"), &v), CHARL_ERR_INVALID);
    charl_assert_message("scalar has no memory");
    charl_assert_status(charl_param_write(charl_params_find(set, "scalar"), &v), CHARL_ERR_INVALID);
    charl_assert_status(charl__params_layout(set, (int[]){0, N}, 2), CHARL_ERR_INVALID);
    assert_false(charl__params_is_laid_out(set)); /* refused as a whole */
    charl_assert_status(charl__params_layout(set, (int[]){-1}, 1), CHARL_ERR_INVALID);
    charl_assert_ok(charl__params_layout(set, NULL, 0));
    charl_assert_status(charl__params_layout(set, NULL, 0), CHARL_ERR_INVALID);
    charl_assert_status(charl_params_add(set, &(charl_param_spec){.name = "late"}, &p), CHARL_ERR_INVALID);
    charl_assert_message("late");
    charl_assert_status(charl_params_pack(set, CHARL_PACKING_INT8), CHARL_ERR_INVALID);
    charl_assert_message("parameters are packed too late");
    charl_params_destroy(set);
}

/* The named ones first, in that order; then the rest; buffers in an arena of their own. */
static void test_layout(void **state)
{
    charl_params *set;
    int64_t end = 0;
    static const int order[] = {3, 2}, want[] = {3, 2, 0, 4, 5};

    (void)state;
    charl_assert_ok(charl_params_create(&set));
    charl_assert_ok(declare(set, NULL));
    assert_false(charl__params_is_laid_out(set));
    charl_assert_ok(charl__params_layout(set, order, 2));
    assert_true(charl__params_is_laid_out(set));
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
        const charl_param *p = set->param[want[i]];

        assert_int_equal(p->offset, end);
        assert_int_equal(p->offset % CHARL_PARAM_ALIGN, 0);
        end += (charl_shape_count(&p->spec.shape) + CHARL_PARAM_ALIGN - 1) / CHARL_PARAM_ALIGN * CHARL_PARAM_ALIGN;
    }
    assert_true(set->elements >= end && set->elements < end + CHARL_ARENA_ALIGN);
    assert_int_equal(set->elements % CHARL_ARENA_ALIGN, 0);
    assert_int_equal(set->param[1]->offset, 0);
    assert_int_equal(set->param[6]->offset, CHARL_PARAM_ALIGN);
    assert_int_equal(set->buffer_elements, 2 * CHARL_PARAM_ALIGN);
    charl_params_destroy(set);
}

/* Parameters used several times have ranges of their own, those of one parameter alike. */
static void test_shares(void **state)
{
    static const int order[] = {3, 2};
    charl_params *set;
    int64_t begin = 0, end, count, last = 0;
    int n = 0;

    (void)state;
    charl_assert_ok(charl_params_create(&set));
    charl_assert_ok(declare(set, NULL));
    charl_assert_ok(charl__params_layout(set, order, 2));
    assert_int_equal(set->gradient_elements, set->elements);
    charl_assert_ok(charl__params_share(set->param[2], 2));
    charl_assert_ok(charl__params_share(set->param[2], 2));
    charl_assert_status(charl__params_share(set->param[2], 1), CHARL_ERR_INVALID);
    charl_assert_message("used 2 times in this graph, and 3 times in another");
    count = charl__param_blocks(set->param[2]) * CHARL_PARAM_ALIGN;
    assert_int_equal(charl__param_gradient_at(set->param[2], 0), set->param[2]->offset);
    assert_int_equal(charl__param_gradient_at(set->param[2], 1), set->elements);
    assert_int_equal(charl__param_gradient_at(set->param[2], 2), set->elements + count);
    assert_true(set->gradient_elements >= set->elements + 2 * count);
    assert_int_equal(set->gradient_elements % CHARL_ARENA_ALIGN, 0);
    while ((end = charl__params_range(set, &begin, INT64_MAX)) > begin) {
        const bool is_shared = begin == set->param[2]->offset || begin >= set->elements;

        assert_true(begin >= last);
        assert_true(!is_shared || end - begin == count);
        last = begin = end;
        n++;
    }
    assert_int_equal(n, 5); /* what lies before, the parameter, what lies behind, its shares */
    assert_int_equal(last, set->elements + 2 * count);
    charl_params_destroy(set);
}

static void open_set(const int *order, uint64_t seed, charl_params **out)
{
    charl_assert_ok(charl_params_create(out));
    charl_assert_ok(declare(*out, order));
    charl_assert_ok(charl__params_layout(*out, order, 1));
    charl_assert_ok(charl__params_allocate(*out, dev, CHARL_F32));
    charl_assert_ok(charl_params_initialize(*out, seed));
}

static float *values(charl_params *set, const char *name)
{
    const charl_param *p = charl_params_find(set, name);
    float *v;

    charl_assert_ok(charl__alloc_array(charl_shape_count(&p->spec.shape) + 1, sizeof *v, &v));
    charl_assert_ok(charl_param_read(p, v));
    return v;
}

/* Values depend on seed and name: not on the order of declaration, nor on where they lie. */
static void test_initial_values(void **state)
{
    charl_params *set, *other, *reseeded;
    bool differs = false;

    (void)state;
    open_set((int[]){0, 1, 2, 3, 4, 5, 6}, 3, &set);
    open_set((int[]){6, 5, 4, 3, 2, 1, 0}, 3, &other);
    open_set((int[]){0, 1, 2, 3, 4, 5, 6}, 4, &reseeded);
    for (int i = 0; i < N; i++) {
        const int64_t n = charl_shape_count(&specs[i].shape);
        float *a = values(set, specs[i].name), *b = values(other, specs[i].name), *c = values(reseeded, specs[i].name);
        double mean = 0.0, square = 0.0;

        charl_assert_same_bits(a, b, n);
        differs = differs || memcmp(a, c, (size_t)n * sizeof *a) != 0;
        for (int64_t k = 0; k < n; k++) {
            mean += (double)a[k] / (double)n;
            square += (double)a[k] * (double)a[k] / (double)n;
            assert_true(specs[i].init.kind != CHARL_INIT_CONSTANT || a[k] == specs[i].init.a);
            assert_true(specs[i].init.kind != CHARL_INIT_UNIFORM ||
                        (a[k] >= specs[i].init.a && a[k] < specs[i].init.b));
        }
        if (specs[i].init.kind == CHARL_INIT_NORMAL) {
            assert_true(fabs(mean - 1.0) < 0.2);
            assert_true(fabs(sqrt(square - mean * mean) - 2.0) < 0.2);
        }
        if (specs[i].init.kind == CHARL_INIT_UNIFORM) {
            assert_true(fabs(mean - 0.125) < 0.1);
        }
        charl_free(a);
        charl_free(b);
        charl_free(c);
    }
    assert_true(differs);
    charl_params_destroy(set);
    charl_params_destroy(other);
    charl_params_destroy(reseeded);
}

/* As they have always been, also where several threads draw them. */
static void test_initial_values_stay(void **state)
{
    static const struct {
        charl_init init;
        uint32_t crc;
    } known[] = {{{CHARL_INIT_UNIFORM, -0.5F, 0.25F}, 0xfc3e0a89}, {{CHARL_INIT_NORMAL, 0.125F, 0.02F}, 0x892e549f}};
    enum { DRAWN = 3 * 65536 + 5 };

    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const charl_param_spec spec = {.name = "w", .shape = {1, {DRAWN}}, .trainable = true, .init = known[i].init};
        charl_params *set;
        charl_param *p;
        float *v;

        charl_assert_ok(charl_params_create(&set));
        charl_assert_ok(charl_params_add(set, &spec, &p));
        charl_assert_ok(charl__params_layout(set, NULL, 0));
        charl_assert_ok(charl__params_allocate(set, dev, CHARL_F32));
        charl_assert_ok(charl_params_initialize(set, 7));
        v = values(set, "w");
        assert_int_equal(charl__crc32c(0, v, DRAWN * sizeof *v), known[i].crc);
        charl_free(v);
        charl_params_destroy(set);
    }
}

static void test_padding_is_zero(void **state)
{
    charl_params *set;
    float *arena;

    (void)state;
    open_set((int[]){0, 1, 2, 3, 4, 5, 6}, 3, &set);
    charl_assert_ok(charl__alloc_array(set->elements, sizeof *arena, &arena));
    charl_assert_ok(
        charl__buffer_read(CHARL_QUEUE_COMPUTE, set->value, 0, arena, (size_t)set->elements * sizeof *arena, true));
    for (int i = 0; i < set->count; i++) {
        const charl_param *p = set->param[i];

        for (int64_t k = 0; p->spec.trainable && k < charl_shape_count(&p->spec.shape); k++) {
            arena[p->offset + k] = 0.0F;
        }
    }
    for (int64_t i = 0; i < set->elements; i++) {
        assert_true(arena[i] == 0.0F);
    }
    charl_free(arena);
    charl_params_destroy(set);
}

static void test_write_and_read(void **state)
{
    charl_params *set;
    float in[3] = {1.0F, -2.0F, 3.0F}, *out, *neighbour, *before;

    (void)state;
    open_set((int[]){0, 1, 2, 3, 4, 5, 6}, 3, &set);
    before = values(set, "conv.weight");
    charl_assert_ok(charl_param_write(charl_params_find(set, "conv.bias"), in));
    out = values(set, "conv.bias");
    neighbour = values(set, "conv.weight");
    charl_assert_same_bits(out, in, 3);
    charl_assert_same_bits(neighbour, before, 54);
    charl_free(before);
    charl_free(neighbour);
    charl_free(out);
    charl_params_destroy(set);
}

/* Gradients in memory of the caller, as a shared window gives it. */
static void test_gradients_in_given_memory(void **state)
{
    charl_params *set;
    charl__gradient_memory memory = {0};
    float *lanes = NULL, *sum = NULL, x;

    (void)state;
    open_set((int[]){0, 1, 2, 3, 4, 5, 6}, 3, &set);
    charl_assert_ok(charl__alloc_aligned(4096, (size_t)set->elements * 2 * sizeof *lanes, &lanes));
    charl_assert_ok(charl__alloc_aligned(4096, (size_t)set->elements * sizeof *sum, &sum));
    memory = (charl__gradient_memory){.lanes = lanes, .sum = sum};
    sum[5] = 7.0F;
    charl_assert_ok(charl__params_allocate_gradients(set, 2, false, &memory));
    assert_int_equal(set->n_lanes, 2);
    assert_int_equal(charl__buffer_bytes(set->grad), (size_t)set->elements * 8);
    assert_ptr_not_equal(set->grad, set->sum);
    charl_assert_ok(charl__buffer_read(CHARL_QUEUE_COMPUTE, set->sum, 20, &x, sizeof x, true));
    assert_true(x == 7.0F);
    charl_params_destroy(set);
    charl_free(lanes);
    charl_free(sum);
}

/* Values that other processes see, and back. */
static void test_values_move(void **state)
{
    static float before[2000], after[2000];
    charl_params *set;
    charl_param *p;
    float *memory = NULL;

    (void)state;
    open_set((int[]){0, 1, 2, 3, 4, 5, 6}, 3, &set);
    p = charl_params_find(set, "fc.weight");
    charl_assert_ok(charl_param_read(p, before));
    charl_assert_ok(charl__alloc_aligned(4096, (size_t)set->elements * sizeof *memory, &memory));
    charl_assert_ok(charl__params_move(set, memory));
    charl_assert_ok(charl_param_read(p, after));
    charl_assert_same_bits(after, before, 2000);
    if (charl__device_facts_get(dev)->zero_copy) {
        charl_assert_same_bits(memory + p->offset, before, 2000);
    }
    before[7] = 3.5F;
    charl_assert_ok(charl_param_write(p, before));
    charl_assert_ok(charl__params_move(set, NULL));
    memset(memory, 0, (size_t)set->elements * sizeof *memory);
    charl_assert_ok(charl_param_read(p, after));
    charl_assert_same_bits(after, before, 2000);
    charl_params_destroy(set);
    charl_free(memory);
}

static charl_status life(void *ctx)
{
    charl_status st = CHARL_OK;
    charl_params *set = NULL;

    (void)ctx;
    CHARL_TRY_CLEANUP(charl_params_create(&set));
    CHARL_TRY_CLEANUP(declare(set, NULL));
    CHARL_TRY_CLEANUP(charl__params_layout(set, NULL, 0));
    st = charl__params_allocate(set, dev, CHARL_F32);
    if (st != CHARL_OK) {
        assert_null(set->dev); /* and a second try starts from nothing */
        CHARL_TRY_CLEANUP(charl__params_allocate(set, dev, CHARL_F32));
        CHARL_FAIL_CLEANUP(CHARL_ERR_NOMEM, "the first try failed");
    }
    st = charl__params_allocate_gradients(set, 2, false, NULL);
    if (st != CHARL_OK) {
        assert_true(!set->grad && !set->sum);
        CHARL_TRY_CLEANUP(charl__params_allocate_gradients(set, 2, false, NULL));
        CHARL_FAIL_CLEANUP(CHARL_ERR_NOMEM, "the first try failed");
    }
    CHARL_TRY_CLEANUP(charl_params_initialize(set, 1));
    CHARL_TRY_CLEANUP(charl__params_move(set, NULL));
cleanup:
    charl_params_destroy(set);
    return st;
}

static void test_every_acquisition_may_fail(void **state)
{
    (void)state;
    charl_test_fail_every_acquisition(life, NULL);
}

/* Views of a buffer; tensors as arguments of kernels. */
static void test_views_and_arguments(void **state)
{
    const charl_shape shape = {2, {4, 3}};
    const charl__arg none = charl__in(NULL);
    charl_tensor *t = NULL, *v = NULL;

    (void)state;
    charl_assert_ok(charl_tensor_create(dev, CHARL_F32, &shape, &t));
    charl_assert_status(charl__tensor_view(t->buffer, CHARL_I64, &shape, 0, &v), CHARL_ERR_INVALID);
    charl_assert_status(charl__tensor_view(t->buffer, CHARL_F32, &shape, INT64_MAX - 2, &v), CHARL_ERR_INVALID);
    charl_assert_status(charl__tensor_view(t->buffer, CHARL_F32, &shape, -1, &v), CHARL_ERR_INVALID);
    assert_null(v);
    charl_tensor_release(t);
    assert_int_equal(none.kind, CHARL_ARG_IN);
    assert_null(none.buffer);
    assert_true(none.v.offset == 0 && none.count == 0);
    assert_int_equal(charl__out(NULL).kind, CHARL_ARG_OUT);
    assert_int_equal(charl__inout(NULL).kind, CHARL_ARG_INOUT);
}

/* Copies and fills are recorded and replayed; those of nothing, and of a tensor to itself, are no launches. */
static void test_recorded_copies(void **state)
{
    charl_tensor *t = NULL, *a = NULL, *b = NULL, *empty = NULL;
    charl__recording *r = NULL;
    float src[100], got[100];

    (void)state;
    for (int i = 0; i < 100; i++) {
        src[i] = (float)i;
    }
    charl_assert_ok(charl_tensor_create(dev, CHARL_F32, &(charl_shape){1, {100}}, &t));
    charl_assert_ok(charl_tensor_create(dev, CHARL_F32, &(charl_shape){2, {0, 5}}, &empty));
    charl_assert_ok(charl_tensor_write(t, src, sizeof src));
    charl_assert_ok(charl_tensor_range(t, 0, 50, &a));
    charl_assert_ok(charl_tensor_range(t, 50, 50, &b));
    charl_assert_ok(charl__record_begin(dev, &r));
    charl_assert_ok(charl_tensor_copy(a, b));
    charl_assert_ok(charl_tensor_fill(a, 9));
    charl_assert_ok(charl_tensor_copy(a, a));
    charl_assert_ok(charl_tensor_fill(empty, 1));
    charl_assert_ok(charl_tensor_copy(empty, empty));
    charl_assert_ok(charl__record_end(dev, CHARL_OK));
    assert_int_equal(charl__recording_count(r), 3);
    charl_assert_ok(charl_tensor_read(t, got, sizeof got));
    charl_assert_same_bits(got, src, 100);
    charl_assert_ok(charl__recording_replay(r, 0, 3));
    charl_assert_ok(charl_tensor_read(t, got, sizeof got));
    for (int i = 0; i < 100; i++) {
        assert_true(got[i] == (i < 50 ? 9.0f : (float)(i - 50)));
    }
    charl__recording_destroy(r);
    charl_tensor_release(a);
    charl_tensor_release(b);
    charl_tensor_release(t);
    charl_tensor_release(empty);
}

/* Packing on the host: every number becomes the nearest value of its format, and what has been unpacked packs to the same bytes. */

enum { PACKED_N = 3 * CHARL_PACK_BLOCK + 17, CODES = 256 };

static const charl__format formats[] = {CHARL__FORMAT_INT8, CHARL__FORMAT_NF4, CHARL__FORMAT_FLOAT8,
                                        CHARL__FORMAT_UFLOAT8};

/* Numbers over `decades` orders of magnitude, the last block 0. */
static void fill(float *x, double decades, bool negative)
{
    float u[2 * PACKED_N];

    charl_test_fill(u, 2 * (size_t)PACKED_N, 0.0F, 1.0F, 3);
    for (int i = 0; i < PACKED_N; i++) {
        x[i] = (float)pow(10.0, -decades * (double)u[i]) * (negative && u[PACKED_N + i] < 0.5F ? -1.0F : 1.0F);
        x[i] = i < PACKED_N - 17 ? x[i] : 0.0F;
    }
}

static unsigned code_at(charl__format f, const unsigned char *codes, int i)
{
    return f == CHARL__FORMAT_NF4 ? (unsigned)codes[i / 2] >> 4 * (i % 2) & 15U : codes[i];
}

static void check(charl__format f, double decades)
{
    const bool is_unsigned = f == CHARL__FORMAT_UFLOAT8;
    float x[PACKED_N], y[PACKED_N], scales[4], again_scales[4];
    unsigned char codes[PACKED_N], again[PACKED_N];

    fill(x, decades, !is_unsigned);
    assert_int_equal(charl__packed_scales(f, PACKED_N), 4);
    charl__pack(f, x, PACKED_N, codes, scales);
    charl__unpack(f, codes, scales, PACKED_N, y);
    for (int i = 0; i < PACKED_N; i++) {
        double best = INFINITY, most = 0.0;
        const int first = i / CHARL_PACK_BLOCK * CHARL_PACK_BLOCK;

        for (int j = first; j < PACKED_N && j < first + CHARL_PACK_BLOCK; j++) {
            most = fmax(most, fabs((double)x[j]));
        }
        assert_true((double)scales[i / CHARL_PACK_BLOCK] == most);
        for (unsigned c = 0; c < (f == CHARL__FORMAT_NF4 ? 16U : (unsigned)CODES); c++) {
            const double value = most * (double)charl__packed_value(f, c);

            if (f != CHARL__FORMAT_INT8 || c != 128) { /* -128 is not used */
                best = fmin(best, fabs(value - (double)x[i]));
            }
        }
        if (is_unsigned && x[i] > 0.0F && code_at(f, codes, i) == 1) {
            assert_true(y[i] > 0.0F);
            continue; /* the nearest may have been 0 */
        }
        assert_true(fabs((double)y[i] - (double)x[i]) <= best + 1e-6 * most);
    }
    charl__pack(f, y, PACKED_N, again, again_scales);
    charl_assert_same_bits(again_scales, scales, 4);
    assert_memory_equal(again, codes, (size_t)charl__packed_bytes(f, PACKED_N));
}

static void test_nearest(void **state)
{
    (void)state;
    for (size_t k = 0; k < sizeof formats / sizeof formats[0]; k++) {
        check(formats[k], 1.0);
        check(formats[k], 6.0);
        check(formats[k], 12.0);
    }
}

/* The z that a normally distributed number is below with probability p. */
static double quantile(double p)
{
    double low = -10.0, high = 10.0;

    for (int i = 0; i < 100; i++) {
        const double z = 0.5 * (low + high);

        if (0.5 * erfc(-z / sqrt(2.0)) < p) {
            low = z;
        } else {
            high = z;
        }
    }
    return low;
}

/* NF4 as bitsandbytes defines it: quantiles from 0.9677083 down to 0.5, of which 0.5 is 0, in 8 steps above it and 7 below. */
static void test_nf4(void **state)
{
    const double end = 0.9677083, largest = quantile(end);

    (void)state;
    for (int i = 0; i < 16; i++) {
        const double p = i < 7 ? end + (0.5 - end) * i / 7 : end + (0.5 - end) * (15 - i) / 8;
        const double want = (i < 7 ? -1.0 : 1.0) * quantile(p) / largest;

        assert_true(fabs((double)charl__packed_value(CHARL__FORMAT_NF4, (unsigned)i) - (i == 7 ? 0.0 : want)) < 1e-7);
    }
}

static void test_half_types(void **state)
{
    float x[PACKED_N], y[PACKED_N];
    uint16_t codes[PACKED_N];
    double v[PACKED_N];

    (void)state;
    fill(x, 3.0, true);
    for (int i = 0; i < PACKED_N; i++) {
        v[i] = (double)x[i];
    }
    for (int half = 0; half < 2; half++) {
        const charl_dtype dtype = half ? CHARL_F16 : CHARL_BF16;
        uint16_t want[PACKED_N];

        charl__pack(half ? CHARL__FORMAT_F16 : CHARL__FORMAT_BF16, x, PACKED_N, codes, NULL);
        charl_dtype_encode(dtype, v, PACKED_N, want);
        assert_memory_equal(codes, want, sizeof want);
        charl__unpack(half ? CHARL__FORMAT_F16 : CHARL__FORMAT_BF16, codes, NULL, PACKED_N, y);
        for (int i = 0; i < PACKED_N; i++) {
            assert_true(fabsf(y[i] - x[i]) <= fabsf(x[i]) / 256);
        }
    }
}

/* A number that is not finite makes its block NaN, and no other. */
static void test_nonfinite(void **state)
{
    static const float bad[] = {NAN, INFINITY, -INFINITY};

    (void)state;
    for (size_t k = 0; k < sizeof formats / sizeof formats[0]; k++) {
        for (int b = 0; b < 3; b++) {
            float x[PACKED_N], y[PACKED_N], scales[4];
            unsigned char codes[PACKED_N];

            fill(x, 1.0, false);
            x[70] = bad[b];
            charl__pack(formats[k], x, PACKED_N, codes, scales);
            charl__unpack(formats[k], codes, scales, PACKED_N, y);
            for (int i = 0; i < PACKED_N; i++) {
                assert_int_equal(isnan(y[i]), i / CHARL_PACK_BLOCK == 1);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_declaration),
        cmocka_unit_test(test_refused_declarations),
        cmocka_unit_test(test_layout),
        cmocka_unit_test(test_shares),
        cmocka_unit_test(test_initial_values),
        cmocka_unit_test(test_initial_values_stay),
        cmocka_unit_test(test_padding_is_zero),
        cmocka_unit_test(test_write_and_read),
        cmocka_unit_test(test_gradients_in_given_memory),
        cmocka_unit_test(test_values_move),
        cmocka_unit_test(test_every_acquisition_may_fail),
        cmocka_unit_test(test_views_and_arguments),
        cmocka_unit_test(test_recorded_copies),
        cmocka_unit_test(test_nearest),
        cmocka_unit_test(test_nf4),
        cmocka_unit_test(test_half_types),
        cmocka_unit_test(test_nonfinite),
    };

    return charl_test_on_device(tests, &dev);
}
