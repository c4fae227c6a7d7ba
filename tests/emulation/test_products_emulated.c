/* kernels/nvidia/gemm/gemm_mma.cl and gemm_token.cl on the host: sums of integers, which are exact, with copies that
 * arrive at once and at the last moment: what it does where no such device is at hand. */
#include "support/support.h"

#include <stdlib.h>
#include <string.h>

#include "charl/shape.h"
#include "emulation/lanes.h"
#include "gemm/gemm_args.h"

enum { GROUP = 128, TOKEN_GROUP = 256, GUARD = 8, POISON = 0xFF };

#define PRODUCT(name)                                                                                                  \
    void name(const void *a, const void *b, const float *bias, float *out, charl__gemm_args args, float *a_sums,       \
              float *split_k, float *levels)
PRODUCT(product_0);
PRODUCT(product_1);
PRODUCT(product_2);
PRODUCT(product_3);
PRODUCT(product_4);
PRODUCT(product_5);
PRODUCT(product_6);
PRODUCT(product_7);

#define TOKEN(name) void name(const void *a, const void *b, const float *bias, float *out, charl__gemm_args args)
TOKEN(token_0);
TOKEN(token_1);
TOKEN(token_2);

/* As CMakeLists.txt specialises them; bias: 1 of columns, 2 of rows. */
typedef struct specialised {
    PRODUCT((*run));
    bool sums; /* of A */
    charl_dtype type;
    bool ta, tb;
    int bias;
    int m, n, k, groups; /* rows of whole chunks where the kernel relies on them */
    TOKEN((*token));     /* instead of run */
} specialised;

static const specialised forms[] = {
    {product_0, false, CHARL_BF16, false, false, 1, 40, 200, 72, 1},
    {product_1, true, CHARL_F16, true, true, 2, 136, 24, 40, 2},
    {product_2, false, CHARL_F16, false, true, 0, 71, 30, 67, 1},
    {product_3, true, CHARL_BF16, true, false, 0, 67, 129, 5, 1},
    {product_4, false, CHARL_F32, false, false, 1, 40, 136, 36, 1},
    {product_5, false, CHARL_F32, true, true, 2, 132, 24, 20, 2},
    {product_6, false, CHARL_F32, false, true, 0, 71, 30, 35, 1},
    {product_7, false, CHARL_F32, true, false, 0, 67, 129, 5, 1},
    {NULL, false, CHARL_BF16, false, true, 1, 1, 40, 1304, 3, .token = token_0},
    {NULL, false, CHARL_F16, false, true, 0, 21, 37, 8, 6, .token = token_1},
    {NULL, false, CHARL_BF16, false, true, 1, 67, 20, 200, 4, .token = token_2},
};

typedef struct call {
    const specialised *f;
    void *a, *b;
    float *bias, *out, *sums;
} call;

static void work(void *ctx)
{
    const call *c = ctx;
    const specialised *f = c->f;
    const charl__gemm_args args = {.a = GUARD,
                                   .b = GUARD,
                                   .out = GUARD,
                                   .a_sums = GUARD,
                                   .m = f->m,
                                   .n = f->n,
                                   .k = f->k,
                                   .a_pitch = f->ta ? f->m : f->k,
                                   .b_pitch = f->tb ? f->k : f->n,
                                   .inner = 1,
                                   .tiles = (f->m + 127) / 128 * ((f->n + 127) / 128)};

    if (f->token) {
        f->token(c->a, c->b, c->bias, c->out, args);
    } else {
        f->run(c->a, c->b, c->bias, c->out, args, c->sums, NULL, NULL);
    }
}

/* -4 to 4. */
static double element(int i, unsigned multiplier)
{
    return (double)((int)((unsigned)i * multiplier >> 7) % 9 - 4);
}

/* n such elements between others that are not numbers. */
static void *place(charl_dtype type, int n, unsigned multiplier)
{
    const size_t size = charl_dtype_size(type), bytes = (size_t)(n + 2 * GUARD) * size;
    unsigned char *p = aligned_alloc(256, (bytes + 255) / 256 * 256);

    assert_non_null(p);
    memset(p, POISON, bytes);
    for (int i = 0; i < n; i++) {
        const double x = element(i, multiplier);

        charl_dtype_encode(type, &x, 1, p + (size_t)(GUARD + i) * size);
    }
    return p;
}

static double expected(const specialised *f, int i, int j)
{
    double sum = f->bias == 1 ? element(GUARD + j, 31) : f->bias == 2 ? element(GUARD + i, 31) : 0.0;

    for (int k = 0; k < f->k; k++) {
        sum +=
            element(f->ta ? k * f->m + i : i * f->k + k, 7919) * element(f->tb ? j * f->k + k : k * f->n + j, 104729);
    }
    return sum;
}

static double expected_sum(const specialised *f, int i)
{
    double sum = 0.0;

    for (int k = 0; k < f->k; k++) {
        sum += element(k * f->m + i, 7919);
    }
    return sum;
}

static void check(int number, bool late)
{
    const specialised *f = &forms[number];
    const int size = f->m * f->n;
    const unsigned char *raw;
    call c = {.f = f,
              .a = place(f->type, f->m * f->k, 7919),
              .b = place(f->type, f->k * f->n, 104729),
              .bias = place(CHARL_F32, 256, 0),
              .out = place(CHARL_F32, size, 0),
              .sums = place(CHARL_F32, f->m, 0)};

    for (int i = 0; i < 256; i++) {
        c.bias[i] = (float)element(GUARD + i, 31);
    }
    assert_true(lanes_run(f->groups, f->token ? TOKEN_GROUP : GROUP, late, work, &c));
    for (int e = 0; e < size; e++) {
        const double want = expected(f, e / f->n, e % f->n), got = (double)c.out[GUARD + e];

        if (!(got == want)) {
            fail_msg("product %d, copies %s: [%d][%d] is %g, not %g", number, late ? "late" : "at once", e / f->n,
                     e % f->n, got, want);
        }
    }
    for (int i = 0; f->sums && i < f->m; i++) {
        assert_true((double)c.sums[GUARD + i] == expected_sum(f, i));
    }
    raw = (const unsigned char *)(c.out + GUARD + size);
    for (size_t i = 0; i < GUARD * sizeof *c.out; i++) {
        assert_int_equal(raw[i], POISON);
    }
    free(c.a);
    free(c.b);
    free(c.bias);
    free(c.out);
    free(c.sums);
}

static void sums_of_integers_are_exact(void **state)
{
    (void)state;
    for (int i = 0; i < (int)(sizeof forms / sizeof *forms); i++) {
        check(i, i % 2);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(sums_of_integers_are_exact)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
