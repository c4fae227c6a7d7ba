/* kernels/nvidia/conv/conv_mma.cl on the host, as src/tensor/conv describes its products, against the operators' double
 * references, with copies that arrive at once and at the last moment: what it does where no such device is at hand. */
#include "support/support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "autograd/check/opcheck.h"
#include "autograd/op/conv/conv2d.h"
#include "emulation/lanes.h"
#include "tensor/conv/nvidia/conv_tensor_core.h"

enum { SEED = 5, GROUP = 128, ROWS = 128, GUARD = 8, POISON = 0xFF, MOST_PARTS = 4 };

#define CONV(name) void name(const void *a, const void *b, const float *bias, void *out, charl__conv_args args)
CONV(conv_0);
CONV(conv_1);
CONV(conv_2);
CONV(conv_3);
CONV(conv_4);
CONV(conv_5);
CONV(conv_6);
CONV(conv_7);

/* As CMakeLists.txt specialises them. */
typedef struct specialised {
    CONV((*run));
    charl_dtype type;
    int columns; /* of a tile */
    bool bias;
} specialised;

/* Kernels whose results have the same bits. by_8: rows of the result begin at multiples of 8 bytes. */
static const specialised forward_by_8[] = {{conv_0, CHARL_BF16, 128, true}, {conv_1, CHARL_BF16, 64, true}},
                         forward_any[] = {{conv_7, CHARL_F16, 64, true}}, by_8[] = {{conv_6, CHARL_BF16, 128, false}},
                         any[] = {{conv_2, CHARL_F16, 128, false}, {conv_3, CHARL_F16, 64, false}},
                         gradient_bf16[] = {{conv_4, CHARL_BF16, 128, false}},
                         gradient_f16[] = {{conv_5, CHARL_F16, 128, false}};

typedef struct geometry {
    int64_t batch, c, h, w, o;
    charl_window win;
} geometry;

static const geometry few_channels = {2, 3, 9, 8, 5, {{3, 3}, {1, 1}, {1, 1}, {1, 1}}}, /* four taps in a stage */
    ragged_chunks = {1, 40, 7, 9, 68, {{3, 3}, {2, 2}, {1, 1}, {1, 1}}},                /* a stage of two taps */
    dilated = {3, 17, 13, 8, 66, {{3, 2}, {2, 3}, {1, 0}, {1, 2}}},                     /* three chunks to a tap */
    many_outputs = {1, 40, 12, 13, 132, {{2, 2}, {1, 1}, {0, 1}, {1, 1}}},              /* several tiles both ways */
    sparse = {2, 132, 5, 6, 24, {{1, 1}, {2, 2}, {0, 0}, {1, 1}}};                      /* phases without a tap */

/* What is computed of which operands. */
typedef struct problem {
    const charl__op_case *oc;
    charl__conv conv;
    enum { FORWARD, INPUT, WEIGHT } what;
    int64_t parts; /* of a weight's gradient */
} problem;

/* Memory whose end cannot be passed: the next page is closed. */
typedef struct block {
    unsigned char *base, *first; /* first: GUARD elements before what is used */
    size_t all;
} block;

/* One launch. */
typedef struct call {
    const specialised *f;
    const charl__conv_product *p;
    block a, b, bias, out;
    int tiles;
} call;

static void work(void *ctx)
{
    const call *c = ctx;
    charl__conv_args args = charl__conv_product_args(c->p, c->tiles);

    args.a = args.b = args.bias = args.out = GUARD;
    c->f->run(c->a.first, c->b.first, (float *)(void *)c->bias.first, c->out.first, args);
}

/* Of n elements between others, after which `behind` follow; all of them are NaN. */
static block reserve(charl_dtype type, int64_t n, int behind)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = (size_t)(GUARD + n + behind) * charl_dtype_size(type);
    block b = {.all = (bytes + page - 1) / page * page + page};

    b.base = aligned_alloc(page, b.all);
    assert_non_null(b.base);
    memset(b.base, POISON, b.all);
    b.first = b.base + b.all - page - bytes;
    assert_int_equal(mprotect(b.first + bytes, page, PROT_NONE), 0);
    return b;
}

static void release(block *b)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);

    if (b->base) {
        assert_int_equal(mprotect(b->base + b->all - page, page, PROT_READ | PROT_WRITE), 0);
        free(b->base);
    }
}

static void check_guards(const block *b, charl_dtype type, int64_t n)
{
    const size_t size = charl_dtype_size(type);

    for (size_t i = 0; i < GUARD * size; i++) {
        assert_int_equal(b->first[i], POISON);
        assert_int_equal(b->first[((size_t)n + GUARD) * size + i], POISON);
    }
}

/* A matrix per `batch`, [rows, cols] in x, as [cols, padded rows]. */
static block swapped(charl_dtype type, const double *x, int64_t batch, int64_t rows, int64_t cols)
{
    const int64_t padded = charl__conv_padded(rows);
    const block b = reserve(type, batch * cols * padded, 0);

    for (int64_t i = 0; i < batch * cols * padded; i++) {
        const int64_t row = i % padded;
        const double value = row < rows ? x[(i / padded / cols * rows + row) * cols + i / padded % cols] : 0.0;

        charl_dtype_encode(type, &value, 1, b.first + (size_t)(GUARD + i) * charl_dtype_size(type));
    }
    return b;
}

static void launch(const specialised *f, const charl__conv_product *p, call *c, int groups, bool late)
{
    const int64_t columns = p->is_gradient ? (int64_t)p->taps[0] * p->taps[1] * p->chunks * CHARL_CONV_CHUNK : p->n;
    const int64_t parts = p->is_gradient ? p->parts : 1;

    c->f = f;
    c->p = p;
    c->tiles = (int)((p->m + ROWS - 1) / ROWS * ((columns + f->columns - 1) / f->columns) * parts);
    if (p->m > 0) {
        assert_true(lanes_run(groups < c->tiles ? groups : c->tiles, GROUP, late, work, c));
    }
}

/* From [batch, pixels, channels] to [batch, channels, pixels]. */
static void give_image(const unsigned char *from, const charl_shape *s, size_t size, unsigned char *to)
{
    const int64_t pixels = s->dim[2] * s->dim[3], channels = s->dim[1];

    for (int64_t i = 0; i < charl_shape_count(s); i++) {
        const int64_t b = i / (channels * pixels), channel = i / pixels % channels, pixel = i % pixels;

        memcpy(to + (size_t)i * size, from + (size_t)((b * pixels + pixel) * channels + channel) * size, size);
    }
}

/* Adds up the parts [o, taps, padded c], each in f32, to [o, c, taps]. */
static void give_weight(const float *from, const problem *x, float *to)
{
    const charl__conv *c = &x->conv;
    const int64_t taps = (int64_t)c->kernel[0] * c->kernel[1], padded = charl__conv_padded(c->c);

    for (int64_t i = 0; i < c->o * c->c * taps; i++) {
        const int64_t o = i / (c->c * taps), channel = i / taps % c->c, tap = i % taps;

        to[i] = 0.0F;
        for (int64_t z = 0; z < x->parts; z++) {
            to[i] += from[((z * c->o + o) * taps + tap) * padded + channel];
        }
    }
}

/* The result as the operator has it, in new memory. */
static void *compute(const problem *x, const specialised *f, int groups, bool late)
{
    const charl__conv *c = &x->conv;
    const charl__op_case *oc = x->oc;
    const charl_type *type = &oc->out_type[0];
    const int64_t taps = (int64_t)c->kernel[0] * c->kernel[1], n = charl_shape_count(&type->shape);
    const int64_t stored = x->what == WEIGHT ? x->parts * c->o * taps * charl__conv_padded(c->c) : n;
    void *result = malloc((size_t)n * charl_dtype_size(type->dtype));
    call k = {.out = reserve(type->dtype, stored, GUARD)};
    charl__conv_product p;

    assert_non_null(result);
    if (x->what == FORWARD) {
        k.a = swapped(f->type, oc->in[0], c->batch, c->c, c->h * c->w);
        k.b = swapped(f->type, oc->in[1], c->o, c->c, taps);
        k.bias = reserve(CHARL_F32, c->o, 0);
        if (f->bias) {
            charl_dtype_encode(CHARL_F32, oc->in[2], c->o, k.bias.first + GUARD * sizeof(float));
        }
        p = charl__conv_product_forward(c);
        launch(f, &p, &k, groups, late);
    } else if (x->what == INPUT) {
        k.a = swapped(f->type, oc->in[0], c->batch, c->o, c->oh * c->ow);
        k.b = swapped(f->type, oc->in[1], 1, c->o, c->c * taps);
        for (int i = 0; i < c->stride[0] * c->stride[1]; i++) {
            p = charl__conv_product_input_gradient(c, (int[]){i / c->stride[1], i % c->stride[1]});
            launch(f, &p, &k, groups, late);
        }
    } else {
        k.a = swapped(f->type, oc->in[0], c->batch, c->o, c->oh * c->ow);
        k.b = swapped(f->type, oc->in[1], c->batch, c->c, c->h * c->w);
        p = charl__conv_product_weight_gradient(c, x->parts);
        launch(f, &p, &k, groups, late);
    }
    check_guards(&k.out, type->dtype, stored);
    if (x->what == WEIGHT) {
        give_weight((const float *)(void *)k.out.first + GUARD, x, result);
    } else {
        give_image(k.out.first + GUARD * charl_dtype_size(type->dtype), &type->shape, charl_dtype_size(type->dtype),
                   result);
    }
    release(&k.a);
    release(&k.b);
    release(&k.bias);
    release(&k.out);
    return result;
}

/* Every kernel gives the reference's result, and all the same bits. */
static void compare(const problem *x, const specialised *f, int n, int groups, bool late)
{
    const charl_type *type = &x->oc->out_type[0];
    void *first = NULL;

    for (int i = 0; i < n; i++) {
        void *got[CHARL_OP_MAX_OUT] = {compute(x, &f[i], groups, late)};
        const charl__op_error worst = charl__op_case_compare(x->oc, got);

        if (!(worst.allowed <= 1.0)) {
            fail_msg("%s in %s of %lld x %lld x %lld x %lld, %d columns, copies %s: [%lld] is %.9g, want %.9g: %.2f of "
                     "what is allowed",
                     x->oc->op->name, charl_dtype_name(f[i].type), (long long)x->conv.batch, (long long)x->conv.c,
                     (long long)x->conv.h, (long long)x->conv.w, f[i].columns, late ? "late" : "at once",
                     (long long)worst.index, worst.got, worst.want, worst.allowed);
        }
        if (first) {
            assert_memory_equal(got[0], first, (size_t)charl_shape_count(&type->shape) * charl_dtype_size(type->dtype));
            free(got[0]);
        } else {
            first = got[0];
        }
    }
    free(first);
}

static charl__conv conv_of(const geometry *g)
{
    charl__conv c = {.batch = g->batch, .c = g->c, .h = g->h, .w = g->w, .o = g->o, .groups = 1};

    memcpy(c.kernel, g->win.kernel, sizeof c.kernel);
    memcpy(c.stride, g->win.stride, sizeof c.stride);
    memcpy(c.padding, g->win.padding, sizeof c.padding);
    memcpy(c.dilation, g->win.dilation, sizeof c.dilation);
    c.oh = charl__conv_extent(&c, 0, c.h);
    c.ow = charl__conv_extent(&c, 1, c.w);
    return c;
}

/* As it is drawn, and the smallest also with a NaN in the first element of each operand, which must go no further than the reference lets it go. */
static void check(const geometry *g, int what, int64_t parts, const specialised *f, int n)
{
    static const char *const name[] = {"conv2d", "conv2d_dgrad", "conv2d_wgrad"};
    const charl__conv_attr attr = {.win = g->win, .groups = 1, .size = {g->h, g->w}};
    problem x = {.conv = conv_of(g), .what = what, .parts = parts};
    const charl__conv *c = &x.conv;
    const charl_type image = {CHARL_F32, {4, {c->batch, c->c, c->h, c->w}}, CHARL_BATCHED};
    const charl_type result = {CHARL_F32, {4, {c->batch, c->o, c->oh, c->ow}}, CHARL_BATCHED};
    const charl_type weight = {CHARL_F32, {4, {c->o, c->c, c->kernel[0], c->kernel[1]}}, CHARL_REPLICATED};
    charl__op_sample s = {.n_in = 2, .attr = &attr, .lo = -1, .hi = 1};
    charl__op_case oc;

    s.terms = what == WEIGHT ? c->batch * c->oh * c->ow : (what == INPUT ? c->o : c->c) * c->kernel[0] * c->kernel[1];
    s.in[0] = what == FORWARD ? image : result;
    s.in[1] = what == WEIGHT ? image : weight;
    if (f->bias) {
        s.in[s.n_in++] = (charl_type){CHARL_F32, {1, {c->o}}, CHARL_REPLICATED};
    }
    charl_assert_ok(charl__op_case_create(charl__op_find(name[what]), &s, f->type, SEED, &oc));
    x.oc = &oc;
    compare(&x, f, n, 1, false); /* a group for all tiles */
    compare(&x, f, n, 2, true);
    for (int i = 0; i < oc.n_in && c->c == few_channels.c; i++) {
        const double saved = oc.in[i][0];

        oc.in[i][0] = (double)NAN;
        charl__op_case_reference(&oc);
        compare(&x, &f[n - 1], 1, 3, true);
        oc.in[i][0] = saved;
    }
    charl__op_case_destroy(&oc);
}

#define COUNT(a) ((int)(sizeof(a) / sizeof((a)[0])))

static void forward(void **state)
{
    (void)state;
    check(&few_channels, FORWARD, 1, forward_any, COUNT(forward_any));
    check(&dilated, FORWARD, 1, any, COUNT(any));
    check(&ragged_chunks, FORWARD, 1, forward_by_8, COUNT(forward_by_8));
    check(&many_outputs, FORWARD, 1, forward_by_8, COUNT(forward_by_8));
    check(&sparse, FORWARD, 1, by_8, COUNT(by_8));
}

static void gradient_of_the_image(void **state)
{
    (void)state;
    check(&few_channels, INPUT, 1, any, COUNT(any));
    check(&dilated, INPUT, 1, any, COUNT(any));
    check(&ragged_chunks, INPUT, 1, any, COUNT(any));
    check(&many_outputs, INPUT, 1, by_8, COUNT(by_8));
    check(&sparse, INPUT, 1, by_8, COUNT(by_8));
}

static void gradient_of_the_weight(void **state)
{
    (void)state;
    check(&few_channels, WEIGHT, 1, gradient_bf16, 1);
    check(&few_channels, WEIGHT, MOST_PARTS, gradient_f16, 1); /* of half a sample */
    check(&ragged_chunks, WEIGHT, 2, gradient_f16, 1);         /* less than a stage */
    check(&dilated, WEIGHT, 3, gradient_bf16, 1);
    check(&many_outputs, WEIGHT, 2, gradient_bf16, 1);
    check(&sparse, WEIGHT, 1, gradient_f16, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(forward), cmocka_unit_test(gradient_of_the_image),
                                       cmocka_unit_test(gradient_of_the_weight)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
